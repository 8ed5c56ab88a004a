"""Weighted automata, and their expected counts of n-grams."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.sparse.csgraph import breadth_first_order
from scipy.sparse.linalg import splu

from .._checks import (
    INT32_MAX,
    CheckedState,
    as_floats,
    as_ids,
    check_count,
    check_ids,
    check_length,
    check_real,
    check_reals,
    check_sparse,
)
from .._files import open_read
from ..exchange import att_lines
from ..symbols import VocabularyRules, object_array

# Expected windows are made in memory: 8 bytes per symbol and more.
_MAX_SYMBOLS = 80_000_000
# Most steps of Newton's method for the scale of the weights; usually few are made.
_NEWTON_STEPS = 100


class ExpectedWindows(NamedTuple):
    """Context windows and their expected counts in one string."""

    contexts: np.ndarray
    """(n_samples, max_depth) int32 ids of `vocabulary`, -1 = missing history."""

    targets: np.ndarray
    """(n_samples,) int32 ids of the symbols that followed."""

    sample_weight: np.ndarray
    """(n_samples,) expected number of times."""

    vocabulary: np.ndarray
    """The symbols, the end mark and the start mark, by id."""


def _factors(row, column, weight, n):
    """The LU factors of I - M; RuntimeError if it is singular."""
    move = sp.csr_array((weight, (row, column)), shape=(n, n))
    return splu((sp.eye_array(n) - move).tocsc())


def _exponents(source, target, log_weight, after):
    """k of each state: the strings from the state weigh about 2 ** k; 0 for the end.

    With these factors, weights neither overflow nor underflow, and are not rounded.

    after: the next state on a path from each state to the end.
    """
    n = after.size
    here = np.flatnonzero(target == after[source])
    here = here[np.unique(source[here], return_index=True)[1]]
    inner = np.flatnonzero(after < n)
    k = np.zeros(n + 1)
    tree = _factors(inner, after[inner], np.ones(inner.size), n)
    k[:n] = tree.solve(log_weight[here])
    # Newton's method for log2(sum_j w_ij 2 ** (k_j - k_i)) = 0 in each state i.
    inner = np.flatnonzero(target < n)
    for _ in range(_NEWTON_STEPS):
        score = log_weight + k[target] - k[source]
        top = np.zeros(n)
        np.maximum.at(top, source, score)
        share = np.exp2(score - top[source])
        total = np.bincount(source, share, minlength=n)
        share = share[inner] / total[source[inner]]
        try:
            factors = _factors(source[inner], target[inner], share, n)
        except RuntimeError:  # the sum is not finite
            break
        step = factors.solve(top + np.log2(total))
        if not np.abs(step).max() < 1e9:
            break
        k[:n] += step
        if step.max() < 1.0:
            break
    return np.rint(k).astype(np.int64)


class WeightedAutomaton(CheckedState):
    r"""Weighted finite-state acceptor: a distribution over strings.

    .. math::
        P(w_1 \ldots w_L) = \frac{1}{Z}\, s^\top M_{w_1} \cdots M_{w_L}\, \rho, \qquad
        Z = s^\top (I - M)^{-1} \rho, \quad M = \sum_a M_a ,

    with :math:`M_a[i, j]` the weight of the arc from state i to j that reads a, s the
    initial state and :math:`\rho` the final weights. The sum of the weights of all
    strings is finite if the spectral radius of M is below 1.

    Parameters
    ----------
    source, target : array-like of shape (n_arcs,)
        States that each arc leads from and to, from 0 on.

    symbol : array-like of shape (n_arcs,)
        The symbol of each arc; hashable, not None (remove empty arcs first).

    weight : array-like of shape (n_arcs,)
        Finite, at least 0. The weights of arcs with the same states and symbol add up.

    final : array-like of shape (n_states,)
        Final weights, finite, at least 0.

    initial : int, default=0
        The initial state.

    Attributes
    ----------
    symbols : object ndarray of shape (n_symbols,)
        The symbols, in the order of their first arc.

    n_states, n_arcs : int
        Sizes.

    total_weight : float
        Z, rounded to 0 or infinity outside of the range of floats. Expected counts
        are not affected.

    Raises
    ------
    ValueError
        If the lengths of arrays differ, a weight is negative, cycles have a weight of 1
        or more, or no string has a positive weight.

    References
    ----------
    .. [1] M. Mohri, F. Pereira, M. Riley, "Speech recognition with weighted
       finite-state transducers", Springer Handbook of Speech Processing, 2008.

    Examples
    --------
    Strings of "a" of a geometric length, then one "b":

    >>> from sklstruct.language_model import WeightedAutomaton
    >>> automaton = WeightedAutomaton(
    ...     source=[0, 0], target=[0, 1], symbol=["a", "b"], weight=[0.75, 0.25],
    ...     final=[0, 1],
    ... )
    >>> windows = automaton.expected_windows(max_depth=1)
    >>> names = windows.vocabulary
    >>> for x, y, c in zip(*windows[:3]):
    ...     print(names[x[0]], names[y], round(float(c), 3))
    <s> a 0.75
    <s> b 0.25
    a a 2.25
    a b 0.75
    b </s> 1.0
    """

    def __init__(
        self,
        source: ArrayLike,
        target: ArrayLike,
        symbol: Iterable,
        weight: ArrayLike,
        final: ArrayLike,
        *,
        initial: int = 0,
    ):
        final = as_floats("final", final)
        weight = as_floats("weight", weight)
        n = final.size
        if n == 0:
            raise ValueError("final is empty: an automaton has at least one state")
        source, target = as_ids("source", source, 1), as_ids("target", target, 1)
        symbol = object_array(symbol)
        for name, values in (("source", source), ("target", target)):
            check_length(name, values, weight.size, "one per weight")
            check_ids(name, values, 0, n, "state")
        check_length("symbol", symbol, weight.size, "one per weight")
        for name, values in (("weight", weight), ("final", final)):
            check_reals(name, values, "[0, inf)")
        if check_count("initial", initial, 0) >= n:
            raise ValueError(f"initial={initial} is not among the {n} states")
        missing = [i for i, s in enumerate(symbol) if s is None]
        if missing:
            raise ValueError(
                f"symbol[{missing[0]}] is None: arcs that read nothing are not "
                "allowed; remove them first (fstrmepsilon does)"
            )
        try:
            code = {s: i for i, s in enumerate(dict.fromkeys(symbol))}
        except TypeError as exc:
            raise TypeError(f"symbol must hold hashable symbols: {exc}") from exc
        read = np.array([code[s] for s in symbol], dtype=np.int64)
        self.symbols = object_array(list(code))
        self.n_states, self.n_arcs = n, weight.size
        self._normalize(source, target, read, weight, final, int(initial))

    def _normalize(self, source, target, read, weight, final, initial):
        """Turn weights of arcs into probabilities, w beta_j / beta_i."""
        end, used, ends = self.n_states, np.flatnonzero(weight), np.flatnonzero(final)
        # A final weight is an arc to the end.
        source = np.concatenate([source[used], ends])
        target = np.concatenate([target[used], np.full(ends.size, end)])
        weight = np.concatenate([weight[used], final[ends]])
        graph = sp.csr_array(
            (np.ones(weight.size), (source, target)), shape=(end + 1, end + 1)
        )
        ahead = breadth_first_order(graph, initial, return_predecessors=False)
        behind, after = breadth_first_order(graph.T.tocsr(), end)
        if end not in ahead:
            raise ValueError(
                "final: no string of positive weight leads from the initial state to "
                "a final state"
            )
        # No string passes through the other states.
        states = np.intersect1d(ahead, behind)
        n = states.size - 1
        new = np.full(end + 1, -1)
        new[states] = np.arange(n + 1)
        live = np.flatnonzero((new[source] >= 0) & (new[target] >= 0))
        source, target, weight = new[source[live]], new[target[live]], weight[live]
        scale = _exponents(source, target, np.log2(weight), new[after[states[:-1]]])
        with np.errstate(over="ignore"):
            weight = np.ldexp(weight, scale[target] - scale[source])
        stops = target == n
        stop = np.bincount(source[stops], weight[stops], minlength=n)
        # Non-negative M: (I - M) x = 1 has a solution of at least 1 if and only if the
        # spectral radius is below 1.
        arcs = source[~stops], target[~stops]
        try:
            factors = _factors(*arcs, weight[~stops], n)
            reach = factors.solve(np.ones(n))
        except RuntimeError:
            reach = np.full(n, np.nan)
        if not (np.isfinite(reach).all() and (reach > 1 - 1e-9).all()):
            raise ValueError(
                "weight: the automaton has cycles of weight 1 or more, so that its "
                "strings have no finite total; scale the weights, or normalise them "
                "to probabilities"
            )
        beta = factors.solve(stop)
        self._initial = first = int(new[initial])
        with np.errstate(over="ignore", under="ignore"):
            self.total_weight = float(np.ldexp(beta[first], scale[first]))
        self._stop = stop / beta
        source, target = arcs
        share = weight[~stops] * beta[target] / beta[source]
        read = read[used[live[~stops]]]
        # One column per symbol and state: all continuations in one product.
        shape = (n, max(self.symbols.size, 1) * n)
        if shape[1] > INT32_MAX * 64:
            raise ValueError(
                f"symbol: {self.symbols.size} symbols and {n} states are too many"
            )
        column = read.astype(np.int64) * n + target
        self._next = sp.csr_array((share, (source, column)), shape=shape)
        self._emit = sp.csr_array(
            (share, (source, read)), shape=(n, max(self.symbols.size, 1))
        )
        start = np.zeros(n)
        start[first] = 1.0 / beta[first]
        self._visits = np.maximum(factors.solve(start, "T") * beta, 0.0)

    def _check_arrays(self) -> None:
        check_sparse(self._next, "_next")
        check_sparse(self._emit, "_emit")

    def __repr__(self):
        return (
            f"WeightedAutomaton(n_states={self.n_states}, n_arcs={self.n_arcs}, "
            f"n_symbols={self.symbols.size})"
        )

    @classmethod
    def from_att(
        cls, path: str | os.PathLike, *, negative_log: bool = True
    ) -> WeightedAutomaton:
        """Read the text format of AT&T's and OpenFst's tools.

        Parameters
        ----------
        path : str, os.PathLike or binary file object
            Plain or compressed, UTF-8. Lines ``source target symbol [weight]``,
            ``source target input output [weight]`` where input and output are equal,
            and ``state [weight]`` for final states; the first line's source is the
            initial state. Four words of which the last two differ end in a weight.

        negative_log : bool, default=True
            True: weights are negative natural logarithms, as these tools write them in
            the log and the tropical semiring. False: weights are read as they are.

        Returns
        -------
        automaton : WeightedAutomaton
            Symbols are strings; states are numbered in the order of appearance.

        Raises
        ------
        ValueError
            With the number of the line, if it is malformed, or an arc reads nothing
            (``<epsilon>`` or ``<eps>``).
        """
        number: dict[str, int] = {}
        arcs, finals = [], []
        with open_read(path, what="an automaton") as (file, label):
            lines = list(att_lines(file, label))
        for i, head, cost, output in lines:
            if output is not None:
                raise ValueError(
                    f"{label}: line {i}: not an arc of an acceptor: it reads "
                    f"{head[2]!r} and writes {output!r}"
                )
            if cost is None:
                cost = 0.0 if negative_log else 1.0
            with np.errstate(over="ignore"):
                value = float(np.exp(-cost)) if negative_log else cost
            lost = negative_log and value == 0 and cost < np.inf
            if lost or not 0 <= value < np.inf:
                raise ValueError(
                    f"{label}: line {i}: the weight {cost:g} is not allowed"
                    + negative_log * ": exp(-weight) is too large or small for a float"
                )
            if head[2:] in (["<epsilon>"], ["<eps>"]):
                raise ValueError(
                    f"{label}: line {i}: an arc that reads nothing; remove such arcs "
                    "first (fstrmepsilon does). The automaton of a back-off model is "
                    "read by LanguageModel.load(path, format='att')"
                )
            states = [number.setdefault(s, len(number)) for s in head[:2]]
            if len(head) == 1:
                finals.append((states[0], value))
            else:
                arcs.append((*states, head[2], value))
        final = np.zeros(len(number))
        for state, value in finals:
            final[state] += value
        source, target, symbol, weights = zip(*arcs) if arcs else ((), (), (), ())
        return cls(
            np.array(source, dtype=np.int32), np.array(target, dtype=np.int32),
            symbol, np.array(weights, dtype=np.float64), final,
        )  # fmt: skip

    def expected_windows(
        self,
        max_depth: int,
        *,
        min_count: float = 0.0,
        start: Any = "<s>",
        end: Any = "</s>",
    ) -> ExpectedWindows:
        r"""All contexts and following symbols, with their expected count in a string.

        .. math::
            c(u\, a) = v^\top M_{u_1} \cdots M_{u_k} M_a\, \beta, \qquad
            \beta = (I - M)^{-1} \rho, \quad v = (I - M^\top)^{-1} s / Z .

        Parameters
        ----------
        max_depth : int
            Longest context, at least 1.

        min_count : float, default=0.0
            Contexts with an expected count of at most `min_count` are left out with
            their continuations, an approximation that bounds the work.

        start, end : object, default="<s>" and "</s>"
            The marks around each string; not among the symbols.

        Returns
        -------
        windows : ExpectedWindows
            Train on it with ``model.fit(windows.contexts, windows.targets,
            sample_weight=windows.sample_weight)`` and ``padding=-1``.

        Raises
        ------
        ValueError
            If a parameter is out of range, or the windows have more than 80 million
            symbols; windows of fewer than 4 symbols count as 4.
        """
        max_depth = check_count("max_depth", max_depth, 1)
        check_real("min_count", min_count, "[0, inf)")
        VocabularyRules(start, end, None).check()
        if start == end or {start, end} & set(self.symbols.tolist()):
            raise ValueError(
                f"start={start!r} and end={end!r} must differ from each other and from "
                "the symbols"
            )
        n = self._visits.size
        most = _MAX_SYMBOLS // max(max_depth, 4)
        mark = np.array([[self.symbols.size + 1]])
        begin = sp.csr_array(([1.0], ([0], [self._initial])), shape=(1, n))
        parts = []
        for context, state in self._grow(mark, begin, max_depth - 1, min_count, most):
            parts.append(self._targets(context, state, max_depth, most))
            most -= parts[-1][1].size
        visits = sp.csr_array(self._visits[None])
        nothing = np.empty((1, 0), dtype=np.int64)
        grown = self._grow(nothing, visits, max_depth, min_count, most)
        ((context, state),) = deque(grown, maxlen=1)
        parts.append(self._targets(context, state, max_depth, most))
        contexts, targets, weights = (np.concatenate(p) for p in zip(*parts))
        return ExpectedWindows(
            contexts, targets, weights, object_array([*self.symbols, end, start])
        )

    def _grow(self, context, state, times, min_count, most):
        """Yield contexts, then contexts with one more symbol, while any are left."""
        yield context, state
        for _ in range(times):
            if not len(context):
                break
            context, state = self._extend(context, state, min_count, most)
            yield context, state

    def _extend(self, context, state, min_count, most):
        """Contexts with one more symbol, and the weight of each state after them."""
        n = self._visits.size
        step = (state @ self._next).tocoo()
        row, column = step.coords
        key = row.astype(np.int64) * self.symbols.size + column // n
        keys, at = np.unique(key, return_inverse=True)
        self._check_size(keys.size, most)
        state = sp.csr_array(
            (step.data, (at, column % n)), shape=(max(keys.size, 1), n)
        )
        row, symbol = np.divmod(keys, max(self.symbols.size, 1))
        context = np.concatenate([context[row], symbol[:, None]], axis=1)
        keep = np.asarray(state.sum(axis=1))[: keys.size] > min_count
        return context[keep], state[np.flatnonzero(keep)]

    def _targets(self, context, state, max_depth, most):
        emitted = (state @ self._emit).tocoo()
        row, symbol = emitted.coords
        stop = state @ self._stop
        last = np.flatnonzero(stop > 0)
        self._check_size(row.size + last.size, most)
        rows = np.concatenate([row, last])
        target = np.concatenate([symbol, np.full(last.size, self.symbols.size)])
        order = np.lexsort((target, rows))
        window = np.full((rows.size, max_depth), -1, dtype=np.int32)
        width = context.shape[1]
        window[:, max_depth - width :] = context[rows]
        weight = np.concatenate([emitted.data, stop[last]])
        return window[order], target.astype(np.int32)[order], weight[order]

    def _check_size(self, size, most):
        if size > most:
            raise ValueError(
                f"max_depth: the windows have more than {_MAX_SYMBOLS} symbols; lower "
                "max_depth, or raise min_count"
            )
