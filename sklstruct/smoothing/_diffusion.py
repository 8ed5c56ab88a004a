"""Unigram smoothing by diffusion over graphs of words."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
import scipy.sparse as sp
from scipy.stats import poisson

from .._checks import check_sparse
from .._compat import HasMethods, Interval, StrOptions
from . import _smoothing_fast as _fast
from ._base import base_distribution
from ._unigram import GoodTuringUnigram, UnigramClassifier, add_floor

# An exact exponential takes about t * (largest degree) products with the graph.
_MAX_PRODUCTS = 1_000_000

# Counts below this are looked up in a table of 512 KB.
_TABLE = 1 << 16


class CountClasses:
    """The words grouped by their count: `value` (rising), `size` r_j words each."""

    def __init__(self, counts):
        self.counts = counts
        # Integer counts go through a table, which stays in the cache and leaves
        # out the few words with larger counts: half the time of np.unique.
        size = np.zeros(_TABLE, dtype=np.int64)
        n_large = _fast.histogram(counts, size)
        if n_large < 0:
            self.large = slice(None)
        else:
            self.large = np.flatnonzero(counts >= _TABLE) if n_large else slice(0)
        value, self.group, large_size = np.unique(
            counts[self.large], return_inverse=True, return_counts=True
        )
        self.small = np.flatnonzero(size) if n_large >= 0 else np.empty(0, np.intp)
        self.value = np.concatenate([self.small, value]).astype(np.float64)
        self.size = np.concatenate([size[self.small], large_size]).astype(np.float64)

    def expand(self, per_class):
        """One number a word from one a class."""
        table = np.zeros(_TABLE)
        table[self.small] = per_class[: self.small.size]
        out = np.empty(self.counts.size)
        if self.small.size:
            _fast.look_up(self.counts, table, out)
        out[self.large] = per_class[self.small.size :][self.group]
        return out

    def total(self, per_word):
        """Sum over the words of each class."""
        group = self.expand(np.arange(self.value.size, dtype=np.float64))
        return np.bincount(group.astype(np.intp), per_word)


class CountGraph:
    """w(x, y) = 1 where the counts of x and y differ by at most 1.

    All words of one count have the same neighbours, so that everything happens on the
    *count classes*. For integer counts the neighbours of class j are the classes of
    counts one less and one more, where they are occupied.
    """

    def __init__(self, counts):
        self.counts = counts
        self.classes = CountClasses(counts)
        value, self.size = self.classes.value, self.classes.size
        gap = np.diff(value)
        self.linked = gap == 1.0 if gap.size == 0 or gap.min() >= 1.0 else None
        if self.linked is None:
            self.low = np.searchsorted(value, value - 1.0, side="left")
            self.high = np.searchsorted(value, value + 1.0, side="right")
        # Neighbours of each word of a class, itself included.
        self.reach = self.around(self.size) + self.size

    def around(self, mass):
        """Sum of `mass` over the neighbouring classes."""
        if self.linked is not None:
            out = np.zeros(mass.size)
            out[1:] += np.where(self.linked, mass[:-1], 0.0)
            out[:-1] += np.where(self.linked, mass[1:], 0.0)
            return out
        # Fractional counts: windows. The sums run from small to large masses, so
        # that differences of prefix sums keep the digits of the small ones.
        total = np.concatenate([[0.0], np.cumsum(mass)])
        return np.maximum(total[self.high] - total[self.low] - mass, 0.0)

    @property
    def max_degree(self):
        return self.reach.max() - 1.0

    def split(self, start):
        """Mean of a distribution in each class, and each word's difference from it.

        The difference is None for the empirical distribution, which has none.
        """
        if start is None:
            mass = self.classes.value * self.size
            return self.classes.value / mass.sum(), None
        mean = self.classes.total(start) / self.size
        return mean, start - self.classes.expand(mean)

    def join(self, mean, rest, decay):
        """Words from class means and what is left of their differences."""
        # Rounding; here, because there are fewer classes than words.
        mean = mean / (mean * self.size).sum()
        out = self.classes.expand(mean)
        if rest is not None:
            out += self.classes.expand(decay) * rest
            np.maximum(out, 0.0, out=out)
        return out

    def normalized(self, start, self_weight):
        mean, rest = self.split(start)
        degree = self.reach - 1.0 + self_weight
        # A word alone, without a weight to itself, keeps what it has.
        alone = degree == 0
        degree = np.where(alone, 1.0, degree)
        mass = np.where(alone, 0.0, self.size * mean / degree)
        decay = np.where(alone, 1.0, (self_weight - 1.0) / degree)
        return self.join(mass + self.around(mass) + decay * mean, rest, decay)

    def step(self, mean, t):
        """(I + t H) on the class means."""
        stay = 1.0 - t * (self.reach - self.size)
        return stay * mean + t * self.around(self.size * mean)

    def kernel(self, start, t, n_terms):
        mean, rest = self.split(start)
        if n_terms == "exact":
            mean = exponential(self.step, mean, t, self.reach.max())
            decay = np.exp(-t * self.reach)
        else:
            for _ in range(n_terms):
                mean = self.step(mean, t / n_terms)
            decay = (1.0 - t / n_terms * self.reach) ** n_terms
        # Within a class every word is tied to every other: differences decay.
        return self.join(mean, rest, decay)


class CompleteGraph:
    """w(x, y) = 1 for all pairs of words: interpolation with the uniform one."""

    def __init__(self, counts):
        self.counts = counts
        self.max_degree = counts.size - 1.0

    def normalized(self, start, self_weight):
        start = self.counts / self.counts.sum() if start is None else start
        degree = self.max_degree + self_weight
        if degree == 0:
            return start.copy()
        return (1.0 + (self_weight - 1.0) * start) / degree

    def kernel(self, start, t, n_terms):
        start = self.counts / self.counts.sum() if start is None else start
        K = self.counts.size
        keep = (
            np.exp(-t * K) if n_terms == "exact" else (1 - t * K / n_terms) ** n_terms
        )
        return keep * start + (1.0 - keep) / K


class SparseGraph:
    """Any symmetric similarity; the diagonal is not looked at."""

    def __init__(self, counts, matrix):
        self.counts = counts
        self.matrix = matrix
        self.degree = np.asarray(matrix.sum(axis=1), dtype=np.float64).ravel()

    @property
    def max_degree(self):
        return self.degree.max()

    def normalized(self, start, self_weight):
        start = self.counts / self.counts.sum() if start is None else start
        degree = self.degree + self_weight
        alone = degree == 0
        share = np.where(alone, 0.0, start / np.where(alone, 1.0, degree))
        return self.matrix @ share + self_weight * share + np.where(alone, start, 0.0)

    def step(self, u, t):
        """(I + t H) u."""
        return (1.0 - t * self.degree) * u + t * (self.matrix @ u)

    def kernel(self, start, t, n_terms):
        u = self.counts / self.counts.sum() if start is None else start
        if n_terms == "exact":
            return exponential(self.step, u, t, self.max_degree)
        for _ in range(n_terms):
            u = self.step(u, t / n_terms)
        return u


def exponential(step, u, t, bound):
    r"""exp(t H) u, for H with non-negative off-diagonal and diagonal >= -bound.

    .. math::
        e^{tH} = \sum_k e^{-tb} \frac{(tb)^k}{k!} \left(I + \tfrac{1}{b} H\right)^k .

    No term is negative, so nothing cancels and small probabilities keep their
    digits, which the Taylor series behind `scipy.sparse.linalg.expm_multiply` does
    not guarantee. The weights left out sum to less than 1e-17.
    """
    rate = t * bound
    if rate == 0:
        return u.copy()
    first, last = (int(k) for k in poisson.ppf([1e-18, 1.0 - 1e-16], rate))
    last += 10 + int(np.sqrt(rate))
    weight = poisson.pmf(np.arange(last + 1), rate)
    out = np.zeros(u.size)
    for k in range(last + 1):
        if k:
            u = step(u, 1.0 / bound)
        if k >= first:
            out += weight[k] * u
    return out


def read_graph(graph, counts, classes):
    """The graph object of the parameter `graph`; errors name what is wrong."""
    if isinstance(graph, str):
        return CountGraph(counts) if graph == "counts" else CompleteGraph(counts)
    if not sp.issparse(graph) and not isinstance(graph, np.ndarray):
        graph = graph(classes)
    n = counts.size
    if getattr(graph, "shape", None) != (n, n):
        shape = getattr(graph, "shape", type(graph).__name__)
        raise ValueError(
            f"graph must have a row and a column for each of the {n} classes, got "
            f"{shape}"
        )
    check_sparse(graph, "graph")
    matrix = sp.csr_array(graph, dtype=np.float64)
    if not np.isfinite(matrix.data).all():
        raise ValueError("graph holds values that are not finite")
    if matrix.data.size and matrix.data.min() < 0:
        raise ValueError(
            f"graph holds a negative similarity ({matrix.data.min():g}); similarities "
            "must not be negative"
        )
    if not matrix.has_canonical_format:
        matrix = matrix.copy()
        matrix.sum_duplicates()
    difference = abs(matrix - matrix.T)
    if difference.nnz and difference.data.max() > 1e-9 * matrix.data.max():
        i, j = (int(v[difference.data.argmax()]) for v in difference.tocoo().coords)
        raise ValueError(
            f"graph is not symmetric: [{i}, {j}] is {matrix[i, j]:g} but [{j}, {i}] is "
            f"{matrix[j, i]:g}; use e.g. graph.maximum(graph.T)"
        )
    if matrix.diagonal().any():
        row = np.repeat(np.arange(n), np.diff(matrix.indptr))
        keep = row != matrix.indices
        matrix = sp.csr_array(
            (matrix.data[keep], (row[keep], matrix.indices[keep])), shape=(n, n)
        )
    return SparseGraph(counts, matrix)


_GRAPH_CONSTRAINT = [
    StrOptions({"counts", "complete"}),
    "sparse matrix",
    np.ndarray,
    callable,
]


class GraphDiffusionUnigram(UnigramClassifier):
    r"""Unigram distribution smoothed by diffusion over a graph of words.

    With :math:`\pi_0` the empirical distribution, w the similarity of two words and d
    its row sum,

    .. math::
        \pi(y) = \sum_x \pi_0(x) \frac{w(x, y)}{d(x)}
        \quad \text{(normalized)}, \qquad
        \pi = e^{tH} \pi_0, \ H = W - \mathrm{diag}(d)
        \quad \text{(kernel)}.

    On the graph of counts, where :math:`w(x, y) = 1` if x and y occurred equally
    often or one of them once more than the other, and :math:`r_j` words occurred j
    times, the first is

    .. math::
        \pi(y) = \frac{1}{n} \sum_{j = c(y) - 1}^{c(y) + 1}
        \frac{j\, r_j}{r_{j - 1} + r_j + r_{j + 1}} ,

    a close relative of the Good-Turing estimate.

    Parameters
    ----------
    method : {"normalized", "kernel"}, default="normalized"
        One step of the random walk along w / d, or the heat kernel.

    graph : {"counts", "complete"}, array or callable, default="counts"
        The similarities: a symmetric matrix of shape (n_classes, n_classes)
        without negative entries (sparse in all but small cases), whose rows are the
        classes in sorted order, or a function that makes one from the array of
        classes, such as ``functools.partial(wordnet_graph, path=...)``. Its diagonal is
        ignored. ``"complete"``: all 1.

    t : float, default=None
        Time of the kernel method, positive. None: 1 / n_classes for the counts and
        complete graphs, as in the paper; 1 / (largest row sum) for others.

    n_terms : int or "exact", default=3
        The kernel method computes :math:`(I + tH/s)^s` with s = `n_terms`, as the
        paper does, or the exponential itself. The former needs :math:`t \max_x d(x)
        \le s`, or probabilities could be negative; `fit` says so.

    self_weight : float, default=1.0
        w(x, x) of the normalized method (0 for the kernel, which it does not
        change). On the complete graph, :math:`1 + \beta` makes it additive smoothing
        with :math:`\delta = n / \beta`.

    floor : float, default=0.0
        Share of the uniform distribution that is mixed in, in [0, 1). Unseen
        classes without a seen neighbour have no probability without it; on the
        count graph, all of them where no class was seen once.

    base : None or unigram estimator, default=None
        Start from its distribution instead of the empirical one.

    classes : array-like of shape (n_classes,), default=None
        The closed vocabulary; None: the targets seen in `fit`.

    Attributes
    ----------
    proba_ : ndarray of shape (n_classes,)
        P(y).

    t_ : float
        Time as used (kernel method).

    counts_ : ndarray of shape (n_classes,)
        c(y).

    classes_ : ndarray of shape (n_classes,)
        The symbols.

    backoff_model_ : BackoffModel
        The distribution as a model without contexts.

    count_values_, count_sizes_, count_mass_ : ndarray of shape (n_values,)
        The different counts, how many classes have each (:math:`r_j`), and their
        total probability.

    unseen_mass_ : float
        Total probability of the classes with count 0.

    See Also
    --------
    GraphSpreadUnigram : Only shares out the mass of the unseen classes along a graph.
    GoodTuringUnigram, AbsoluteDiscountUnigram

    Notes
    -----
    The count and complete graphs are never built: both methods act on the
    count classes (for kernel diffusion a tridiagonal recursion), O(n_classes) in all,
    and are exact for any `base`. Other graphs cost one product with the matrix, or
    `n_terms` of them. "exact" sums :math:`(I + H/b)^k` with Poisson weights, b the
    largest d: about :math:`tb` products, none of which cancels.

    Fractional counts are neighbours where they differ by at most 1.

    A classifier whose X does not matter, like
    :class:`sklearn.dummy.DummyClassifier`: it can be tuned by GridSearchCV, used as
    `base` of any other smoother, and exported to ARPA from `backoff_model_`.

    References
    ----------
    .. [1] B. Jedynak, D. Karakos, "Unigram language models using diffusion smoothing
       over graphs", TextGraphs-2 at HLT-NAACL 2007, equations 2-7 and 13-17.
    .. [2] R. I. Kondor, J. Lafferty, "Diffusion kernels on graphs and other discrete
       input spaces", ICML 2002.

    Examples
    --------
    Counts 3, 1, 1, 0, 0, 0: the two words seen once share with the three unseen.

    >>> from sklstruct.smoothing import GraphDiffusionUnigram
    >>> model = GraphDiffusionUnigram().from_counts([3, 1, 1, 0, 0, 0])
    >>> model.proba_.round(4).tolist()
    [0.6, 0.08, 0.08, 0.08, 0.08, 0.08]
    >>> round(model.unseen_mass_, 4)
    0.24
    """

    _parameter_constraints: dict = {
        "method": [StrOptions({"normalized", "kernel"})],
        "graph": _GRAPH_CONSTRAINT,
        "t": [None, Interval(Real, 0, None, closed="neither")],
        "n_terms": [Interval(Integral, 1, None, closed="left"), StrOptions({"exact"})],
        "self_weight": [Interval(Real, 0, None, closed="left")],
        "floor": [Interval(Real, 0, 1, closed="left")],
        "base": [None, HasMethods(["from_counts"])],
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        method="normalized",
        *,
        graph="counts",
        t=None,
        n_terms=3,
        self_weight=1.0,
        floor=0.0,
        base=None,
        classes=None,
    ):
        self.method = method
        self.graph = graph
        self.t = t
        self.n_terms = n_terms
        self.self_weight = self_weight
        self.floor = floor
        self.base = base
        self.classes = classes

    def _smooth(self, counts):
        graph = read_graph(self.graph, counts, self.classes_)
        start = None
        if self.base is not None:
            start = base_distribution(self.base, counts, self.classes_)
        if self.method == "normalized":
            proba = graph.normalized(start, self.self_weight)
        else:
            self.t_ = self._find_time(graph)
            proba = graph.kernel(start, self.t_, self.n_terms)
        if not isinstance(graph, CountGraph):
            np.maximum(proba, 0.0, out=proba)  # rounding of 1 - t d / s = 0
            proba /= proba.sum()
        return add_floor(proba, self.floor)

    def _find_time(self, graph):
        degree = float(graph.max_degree)
        t = self.t
        if t is None:
            if not isinstance(graph, SparseGraph):
                t = 1.0 / graph.counts.size
            else:
                t = 1.0 / degree if degree > 0 else 1.0
        if self.n_terms == "exact":
            if t * degree > _MAX_PRODUCTS:
                raise ValueError(
                    f"t={t:g} is too large: with n_terms='exact' the largest is "
                    f"{_MAX_PRODUCTS / degree:.6g} on this graph"
                )
        elif t * degree > self.n_terms * (1 + 1e-12):
            raise ValueError(
                f"t={t:g} would make probabilities negative: with "
                f"n_terms={self.n_terms} the largest valid t is "
                f"{self.n_terms / degree:.6g} on this graph. Lower t, raise n_terms, "
                "or use n_terms='exact'"
            )
        return float(t)


class GraphSpreadUnigram(UnigramClassifier):
    r"""Unigram distribution whose unseen mass is shared out along a graph of words.

    Seen classes keep their probability under `base`; the mass :math:`p_0` that `base`
    gives to the unseen ones is shared out by

    .. math::
        P(y) = p_0 \left[\lambda\, s(y) + (1 - \lambda)\, \frac{b(y)}{p_0}\right],
        \qquad
        s(y) \propto \sum_{x\ \mathrm{seen}} \frac{w(x, y)}{d(x)} ,

    with b the distribution `base`, and s summing to 1 over the unseen classes: one step
    of a random walk that starts at every seen class equally.

    Parameters
    ----------
    graph : {"counts", "complete"}, array or callable, default="complete"
        As in `GraphDiffusionUnigram`. For the two named ones s is uniform.

    spread : float, default=0.5
        :math:`\lambda`, in [0, 1]: to be tuned on held-out text. With 1, unseen
        classes without a seen neighbour have no probability.

    base : unigram estimator, default=None
        None is ``GoodTuringUnigram()``.

    classes : array-like of shape (n_classes,), default=None
        The closed vocabulary; None: the targets seen in `fit`.

    Attributes
    ----------
    proba_ : ndarray of shape (n_classes,)
        P(y).

    reached_ : int
        Number of unseen classes with a seen neighbour. Where it is 0, P is `base`.

    counts_ : ndarray of shape (n_classes,)
        c(y).

    classes_ : ndarray of shape (n_classes,)
        The symbols.

    backoff_model_ : BackoffModel
        The distribution as a model without contexts.

    count_values_, count_sizes_, count_mass_ : ndarray of shape (n_values,)
        The different counts, how many classes have each, and their total
        probability.

    unseen_mass_ : float
        Total probability of the classes with count 0.

    See Also
    --------
    wordnet_graph, group_graph, neighbors_graph, cooccurrence_graph : Make graphs.

    Examples
    --------
    "cats" was not seen, but its neighbour "cat" was.

    >>> import numpy as np
    >>> from sklstruct.smoothing import AdditiveUnigram, GraphSpreadUnigram, group_graph
    >>> words = np.array(["cat", "cats", "dog", "hut"])
    >>> graph = group_graph(["cat", "cat", "dog", "hut"])
    >>> model = GraphSpreadUnigram(graph, base=AdditiveUnigram(0.5))
    >>> model.from_counts([2, 0, 2, 0], words).proba_.round(4).tolist()
    [0.4167, 0.125, 0.4167, 0.0417]
    """

    _parameter_constraints: dict = {
        "graph": _GRAPH_CONSTRAINT,
        "spread": [Interval(Real, 0, 1, closed="both")],
        "base": [None, HasMethods(["from_counts"])],
        "classes": [None, "array-like"],
    }

    def __init__(self, graph="complete", *, spread=0.5, base=None, classes=None):
        self.graph = graph
        self.spread = spread
        self.base = base
        self.classes = classes

    def _smooth(self, counts):
        base = GoodTuringUnigram() if self.base is None else self.base
        proba = base_distribution(base, counts, self.classes_, positive=False)
        unseen = counts == 0
        if isinstance(self.graph, str):
            share = unseen.astype(np.float64)
        else:
            graph = read_graph(self.graph, counts, self.classes_)
            share = graph.normalized((~unseen).astype(np.float64), 0.0)
            share[~unseen] = 0.0
        self.reached_ = int(np.count_nonzero(share))
        if self.reached_:
            mass = proba[unseen].sum()
            proba[unseen] *= 1.0 - self.spread
            proba += share * (self.spread * mass / share.sum())
        return proba / proba.sum()
