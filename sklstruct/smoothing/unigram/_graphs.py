"""Graphs over the words (the classes), and diffusion on them.

A graph has `normalized(start, n_steps)`, the walk along w / d;
`kernel(start, t, n_terms)`, the heat kernel; and `max_degree`, the largest d. A start
of None is the empirical distribution.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.sparse as sp
from scipy.stats import poisson
from sklearn.utils import check_array

from ..._checks import check_sparse
from . import _counts_fast as _fast

GRAPH_CONSTRAINT: list[Any] = ["sparse matrix", np.ndarray, callable]

# Products with a graph in one fit. An exact exponential takes about t * (largest
# degree) products.
MAX_STEPS = 1_000_000

# Similarities, and their inverses, are at most this.
_LARGEST = 1e150

# Counts below this are looked up in a table of 512 KB.
TABLE = 1 << 16


class CountClasses:
    """The words grouped by their count j: `value` j (increasing), `size` r_j."""

    def __init__(self, counts: np.ndarray) -> None:
        self.counts = counts
        # Integer counts below TABLE use a table that fits in the cache, in half the
        # time of np.unique.
        size = np.zeros(TABLE, dtype=np.int64)
        n_large = _fast.histogram(counts, size)
        if n_large < 0:
            self.large: Any = slice(None)
        else:
            self.large = np.flatnonzero(counts >= TABLE) if n_large else slice(0)
        value, self.group, large_size = np.unique(
            counts[self.large], return_inverse=True, return_counts=True
        )
        self.small = np.flatnonzero(size) if n_large >= 0 else np.empty(0, np.intp)
        self.value = np.concatenate([self.small, value]).astype(np.float64)
        self.size = np.concatenate([size[self.small], large_size]).astype(np.float64)

    def expand(self, per_class: np.ndarray) -> np.ndarray:
        """The value of each word's count class, for each word."""
        table = np.zeros(TABLE)
        table[self.small] = per_class[: self.small.size]
        out = np.empty(self.counts.size)
        if self.small.size:
            _fast.look_up(self.counts, table, out)
        out[self.large] = per_class[self.small.size :][self.group]
        return out

    def total(self, per_word: np.ndarray) -> np.ndarray:
        """Sum over the words of each class."""
        group = self.expand(np.arange(self.value.size, dtype=np.float64))
        return np.bincount(group.astype(np.intp), per_word)


class CountGraph:
    """w(x, y) = 1 if the counts of x and y differ by at most 1.

    All words of one count have the same neighbours, so that all computations use the
    *count classes*. For integer counts the neighbours of the class of count j are the
    classes of counts j - 1 and j + 1, if they are not empty.
    """

    def __init__(self, counts: np.ndarray) -> None:
        self.counts = counts
        self.classes = CountClasses(counts)
        value, self.size = self.classes.value, self.classes.size
        # 1.3 and 0.3 are neighbours although their difference is not exactly 1: decimal
        # fractions have a relative error of half an epsilon. The tolerance is at most
        # 1e-6, so that it never joins large integers.
        reach = 1.0 + np.minimum(4 * np.finfo(np.float64).eps * value, 1e-6)
        gap = np.diff(value)
        self.linked = None
        if gap.size == 0 or gap.min() > 2.0 - reach[-1]:
            self.linked = gap <= reach[1:]
        else:
            # high is computed from low, not from value + reach, so that the graph is
            # symmetric.
            self.low = np.searchsorted(value, value - reach, side="left")
            self.high = np.searchsorted(self.low, np.arange(value.size), side="right")
        # Number of neighbours of each word of a class, including the word itself.
        self.reach = self.around(self.size) + self.size
        self.max_degree = self.reach.max() - 1.0

    def around(self, mass: np.ndarray) -> np.ndarray:
        """Sum of `mass` over the neighbouring classes."""
        if self.linked is not None:
            out = np.zeros(mass.size)
            out[1:] += np.where(self.linked, mass[:-1], 0.0)
            out[:-1] += np.where(self.linked, mass[1:], 0.0)
            return out
        # Fractional counts have windows of neighbours. The prefix sums run from small
        # to large masses, so that their differences keep the digits of small masses.
        total = np.concatenate([[0.0], np.cumsum(mass)])
        return np.maximum(total[self.high] - total[self.low] - mass, 0.0)

    def split(self, start: np.ndarray | None) -> tuple[np.ndarray, np.ndarray | None]:
        """Mean of a distribution in each class, and each word's difference from it.

        The difference is None for the empirical distribution: it is 0.
        """
        if start is None:
            mass = self.classes.value * self.size
            return self.classes.value / mass.sum(), None
        mean = self.classes.total(start) / self.size
        return mean, start - self.classes.expand(mean)

    def join(self, mean: np.ndarray, rest: np.ndarray | None = None) -> np.ndarray:
        """P of each word, from class means and the differences from them."""
        # Correct rounding errors on the classes, which are fewer than the words.
        mean = np.maximum(mean / (mean * self.size).sum(), 0.0)
        proba = self.classes.expand(mean)
        return proba if rest is None else np.maximum(proba + rest, 0.0)

    def normalized(self, start: np.ndarray | None, n_steps: int) -> np.ndarray:
        # All words of one class have the same neighbours: after a step they are equal.
        mean, _ = self.split(start)
        for _ in range(n_steps):
            mass = self.size * mean / self.reach
            mean = mass + self.around(mass)
        return self.join(mean)

    def step(self, mean: np.ndarray, t: float) -> np.ndarray:
        """(I + t H) on the class means."""
        stay = 1.0 - t * (self.reach - self.size)
        return stay * mean + t * self.around(self.size * mean)

    def kernel(
        self, start: np.ndarray | None, t: float, n_terms: int | str
    ) -> np.ndarray:
        mean, rest = self.split(start)
        mean = diffused(self.step, mean, t, n_terms, self.reach.max())
        if n_terms == "exact":
            decay = np.exp(-t * self.reach)
        else:
            decay = (1.0 - t / int(n_terms) * self.reach) ** int(n_terms)
        # All words of one class are neighbours, so that their differences decay.
        if rest is not None:
            rest = rest * self.classes.expand(decay)
        return self.join(mean, rest)


class SparseGraph:
    """Any symmetric similarity without a diagonal."""

    def __init__(self, counts: np.ndarray, matrix: sp.csr_array) -> None:
        self.counts = counts
        self.matrix = matrix
        self.degree = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()
        self.max_degree = self.degree.max()

    def normalized(self, start: np.ndarray | None, n_steps: int) -> np.ndarray:
        u = self.counts / self.counts.sum() if start is None else start
        for _ in range(n_steps):
            share = u / (self.degree + 1.0)
            u = self.matrix @ share + share
        return u

    def step(self, u: np.ndarray, t: float) -> np.ndarray:
        """(I + t H) u."""
        return (1.0 - t * self.degree) * u + t * (self.matrix @ u)

    def kernel(
        self, start: np.ndarray | None, t: float, n_terms: int | str
    ) -> np.ndarray:
        u = self.counts / self.counts.sum() if start is None else start
        return diffused(self.step, u, t, n_terms, self.max_degree)


def diffused(
    step: Callable[[np.ndarray, float], np.ndarray],
    u: np.ndarray,
    t: float,
    n_terms: int | str,
    bound: float,
) -> np.ndarray:
    r"""(I + (t / n) H)^n u for n = `n_terms`; "exact": its limit exp(t H) u.

    H has a non-negative off-diagonal and a diagonal of at least -bound, and

    .. math::
        e^{tH} = \sum_k e^{-tb} \frac{(tb)^k}{k!} \left(I + \tfrac{1}{b} H\right)^k .

    No term is negative, so that nothing cancels and small probabilities keep their
    digits. The Taylor series of `scipy.sparse.linalg.expm_multiply` does not guarantee
    this. The omitted weights sum to less than 1e-17.
    """
    if n_terms != "exact":
        for _ in range(int(n_terms)):
            u = step(u, t / int(n_terms))
        return u
    rate = t * bound
    if rate == 0:
        return u.copy()
    first, last = (int(k) for k in poisson.ppf([1e-18, 1.0 - 1e-16], rate))
    last += 10 + int(np.sqrt(rate))
    weight = poisson.pmf(np.arange(last + 1), rate)
    out = np.zeros(u.size)
    for k in range(last + 1):
        if k:
            before, u = u, step(u, 1.0 / bound)
            # An exact fixed point: all later terms are equal.
            if k % 16 == 0 and np.array_equal(u, before):
                return out + weight[max(k, first) :].sum() * u
        if k >= first:
            out += weight[k] * u
    return out


def check_rows(graph: Any, in_order: bool) -> None:
    """Raise ValueError if the order of the rows of a matrix is ambiguous."""
    if in_order or graph is None or isinstance(graph, str) or callable(graph):
        return
    raise ValueError(
        "graph is a matrix, whose rows are the classes in sorted order, but classes "
        "are not sorted: sort them (with the counts and the rows), or give graph as a "
        "function that makes the matrix from the sorted classes"
    )


def read_graph(graph: Any, counts: np.ndarray, classes: np.ndarray) -> SparseGraph:
    """The graph of a matrix or a function, with all checks."""
    if not sp.issparse(graph) and not isinstance(graph, np.ndarray):
        graph = graph(classes)
    check_sparse(graph, "graph")
    n = counts.size
    if getattr(graph, "shape", None) != (n, n):
        shape = getattr(graph, "shape", type(graph).__name__)
        raise ValueError(
            f"graph must have a row and a column for each of the {n} classes, got "
            f"{shape}"
        )
    matrix = sp.csr_array(
        check_array(
            graph, accept_sparse="csr", dtype=np.float64, ensure_non_negative=True,
            input_name="graph",
        )
    )  # fmt: skip
    matrix = sp.csr_array(matrix - sp.diags_array(matrix.diagonal()))
    matrix.eliminate_zeros()
    matrix.sum_duplicates()
    check_symmetric(matrix)
    for extreme in (matrix.data.max(initial=1.0), matrix.data.min(initial=1.0)):
        if not 1 / _LARGEST <= extreme <= _LARGEST:
            raise ValueError(
                f"graph holds the similarity {extreme:g}, and products of such numbers "
                "leave the range of float64; multiply the graph by a constant"
            )
    return SparseGraph(counts, matrix)


def check_symmetric(matrix: sp.csr_array) -> None:
    """Raise ValueError, with a pair of words, if the graph is not symmetric."""
    difference = abs(matrix - matrix.T)
    if difference.nnz and difference.data.max() > 1e-9 * matrix.data.max():
        i, j = (int(v[difference.data.argmax()]) for v in difference.tocoo().coords)
        raise ValueError(
            f"graph is not symmetric: [{i}, {j}] is {matrix[i, j]:g} but [{j}, {i}] is "
            f"{matrix[j, i]:g}; use e.g. graph.maximum(graph.T)"
        )
