"""Decoding and sampling by refining an optimistic bound."""

from __future__ import annotations

import time
import warnings
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from .._checks import check_memory
from . import _refinement_fast as _fast
from ._automaton import ContextAutomaton
from ._candidates import Candidates, Decoded
from ._lattice import PRUNE_FROM as _PRUNE_FROM
from ._lattice import LatticeSolver, LatticeTooLargeError


class RejectionDraws(NamedTuple):
    """Draws by rejection, and the trials and refinements behind them."""

    paths: np.ndarray  # (n_accepted, length) class ids
    n_trials: int
    n_states: int
    n_refined: int  # times that the bound was refined
    accepted: np.ndarray  # (n_trials,) bool
    log_ratio: np.ndarray  # (n_trials,) log p - log q, the log acceptance probability


class _Bound:
    """The q-automaton of one sentence; arrays that grow."""

    state: np.ndarray
    row_ptr: np.ndarray
    value: np.ndarray
    choice: np.ndarray
    score: np.ndarray
    plain: np.ndarray
    dest: np.ndarray
    edge_order: np.ndarray

    def __init__(self, automaton, c: Candidates, slot, start, literal):
        self.arcs, self.c, self.slot = automaton.arcs, c, slot
        self.literal = literal
        bigram = start == "bigram"
        sizes = np.diff(c.ptr)
        states = np.ones(c.n_positions, dtype=np.int64)
        if bigram:
            states[1:] += sizes[:-1]
        self._n_edges = int(c.ptr[-1])  # a refinement adds at most a row a position
        self._allocate(
            int(states.sum()) + 8 * c.n_positions + 9,
            int((states * sizes).sum()) + 8 * self._n_edges + 8,
        )
        self.head = np.full(c.n_positions, -1, dtype=np.int32)
        self.path = np.empty(c.n_positions, dtype=np.int32)
        self.best_path = np.empty(c.n_positions, dtype=np.int32)
        self._scores = np.empty(2)
        # log q of the bound, log p of best_path, log q and log p of path.
        self.reached = np.array([np.inf, -np.inf, np.inf, -np.inf])
        self._round = 0
        self.n_states = _fast.start(
            self.arcs, c.ptr, c.ids, c.log_factor, slot, bigram, self.state,
            self.row_ptr, self.score, self.plain, self.dest, self.edge_order,
            self.head,
        )  # fmt: skip

    def _allocate(self, n_states, n_edges):
        check_memory(
            44.0 * n_states + 24.0 * n_edges,
            None,
            f"a bound of {n_states} contexts and {n_edges} arcs",
            "lower max_states, give fewer candidates, or take solver='lattice'",
        )

        def grown(name, shape, dtype):
            new = np.empty(shape, dtype=dtype)
            old = getattr(self, name, None)
            if old is not None:
                new[: len(old)] = old
            setattr(self, name, new)

        grown("state", (n_states, 6), np.int32)
        grown("row_ptr", n_states + 1, np.int64)
        grown("value", n_states, np.float64)
        grown("choice", n_states, np.int32)
        grown("score", n_edges, np.float64)
        grown("plain", n_edges, np.float64)
        grown("dest", n_edges, np.int32)
        grown("edge_order", n_edges, np.int32)

    def evaluate(self):
        """log of the summed weight of q."""
        _fast.evaluate(
            self.c.ptr, self.state, self.row_ptr, self.score, self.dest, self.head,
            self.value, self.choice,
        )  # fmt: skip
        return float(self.value[0])

    def draw(self, uniform):
        """(log q, log p) of a path drawn from q; self.path holds it."""
        _fast.draw(
            self.arcs, self.c.ptr, self.c.ids, self.c.log_factor, self.row_ptr,
            self.dest, self.score, self.value, self.choice, uniform, self.path,
            self._scores,
        )  # fmt: skip
        return float(self._scores[0]), float(self._scores[1])

    def climb(self, steps, tol, max_states):
        """Refine along the best path: (reason to stop, number of refinements)."""
        c, done = self.c, 0
        while True:
            reason, n, self.n_states, self._round = _fast.climb(
                self.arcs, c.ptr, c.ids, c.log_factor, self.slot, self.literal,
                self.state, self.row_ptr, self.score, self.plain, self.dest,
                self.edge_order, self.head, self.n_states, self._round, self.value,
                self.choice, steps - done, tol, max_states, self.path,
                self.best_path, self.reached,
            )  # fmt: skip
            done += n
            if reason != "full":
                return reason, done
            self._make_room()

    def _make_room(self):
        if self.n_states + self.c.n_positions > len(self.state):
            self._allocate(2 * len(self.state), len(self.score))
        if self.row_ptr[self.n_states] + self._n_edges > len(self.score):
            self._allocate(len(self.state), 2 * len(self.score))

    def refine(self, path):
        """Lengthen the contexts of a path; False where all are exact."""
        c = self.c
        self._make_room()
        self.n_states, changed = _fast.refine(
            self.arcs, c.ptr, c.ids, c.log_factor, self.slot, self.literal, path,
            self.state, self.row_ptr, self.score, self.plain, self.dest,
            self.edge_order, self.head, self.n_states, self.value, self.choice,
        )  # fmt: skip
        return changed > 0

    def classes(self, path):
        """Class ids of a path of candidate indices, without the end."""
        c = self.c
        return c.ids[c.ptr[: c.length] + path[: c.length]]


class RefinementSolver:
    r"""Exact decoding and sampling by adaptive refinement of an upper bound.

    .. math::
        q(x) = \prod_i w(x_i \mid c_i)\, p(o_i \mid x_i) \ge p(x), \qquad
        w(y \mid c) = \max_{h' \text{ ends in } c} P(y \mid h')

    Parameters
    ----------
    automaton : ContextAutomaton

    tol : float, default=1e-9
        Decoding stops where log q - log p is at most `tol`.

    max_iter : int, default=100_000
        Refinements (decoding), or trials without an accepted draw (sampling).

    max_states : int, default=1_000_000

    start : {"unigram", "bigram"}, default="unigram"
        Contexts that the first bound knows.

    refine : {"row", "literal"}, default="row"
        "row": a new state gets a whole row of bounds. "literal": algorithm 2 of [1]_,
        which lowers the one edge that the rejected path uses.

    batch_size : int, default=1
        Draws between two refinements.

    warn_after : int or None, default=None
        Number of refinements of one sentence after which decoding warns that the
        lattice would be faster. None: never.

    Notes
    -----
    If `max_iter` or `max_states` ends the decoding, no path is better than the one
    found by more than `gap`: log q of the bound's best path - log p of the best path
    found.

    References
    ----------
    .. [1] S. Carter, M. Dymetman, G. Bouchard, "Exact Sampling and Decoding in
       High-Order Hidden Markov Models", EMNLP 2012, algorithms 1 and 2.
    """

    def __init__(
        self,
        automaton: ContextAutomaton,
        *,
        tol: float = 1e-9,
        max_iter: int = 100_000,
        max_states: int = 1_000_000,
        start: str = "unigram",
        refine: str = "row",
        batch_size: int = 1,
        warn_after: int | None = None,
    ):
        self.automaton = automaton
        self.tol, self.max_iter, self.max_states = tol, max_iter, max_states
        self.start, self.literal = start, refine == "literal"
        self.batch_size, self.warn_after = batch_size, warn_after
        self._slot = np.full(automaton.n_classes, -1, dtype=np.int32)

    def _bound(self, c):
        return _Bound(self.automaton, c, self._slot, self.start, self.literal)

    def useful(self, c: Candidates) -> Candidates:
        """The candidates that may be on the best path: bigram bounds rule out others.

        A row has an entry for each candidate of its position. Of many thousand words
        that fit an observation, most are in no good sentence.
        """
        exact = LatticeSolver(self.automaton, self.max_states)
        bound = exact.bounds(c)
        try:
            _, threshold = exact.beam(c, bound)
            if threshold == -np.inf:
                return c
            coarse = LatticeSolver(self.automaton.bigram_bound, self.max_states)
            return coarse.useful(c, bound, threshold)
        except LatticeTooLargeError:
            return c

    def decode(self, c: Candidates, trace: list | None = None) -> Decoded:
        """The most probable path, or the best found with its certified gap.

        Parameters
        ----------
        c : Candidates

        trace : list, default=None
            Gets one (log q, log p, number of states, class ids) an iteration.
        """
        none = np.empty(0, dtype=np.int32)
        if c.n_positions == 0:
            return Decoded(none, 0.0, 0.0, 0, 1)
        if (np.diff(c.ptr) == 0).any():
            return Decoded(none, -np.inf, 0.0, 0, 0)
        if c.width >= _PRUNE_FROM:
            c = self.useful(c)
        q = self._bound(c)
        iteration = 0
        while True:
            limit = self.max_iter
            if trace is not None:
                limit = iteration + bool(trace)  # the bound itself comes first
            elif self.warn_after is not None and iteration < self.warn_after:
                limit = self.warn_after
            limit = min(limit, self.max_iter)
            reason, n = q.climb(limit - iteration, self.tol, self.max_states)
            iteration += n
            if reason == "impossible":
                return Decoded(none, -np.inf, 0.0, iteration, q.n_states)
            upper, best, log_q, log_p = q.reached.tolist()
            if trace is not None and reason != "exact":
                trace.append((log_q, log_p, q.n_states, q.classes(q.path)))
            gap = 0.0 if reason == "exact" else max(upper - best, 0.0)
            if reason != "limit":
                break
            if iteration >= self.max_iter or q.n_states >= self.max_states:
                break
            if iteration == self.warn_after:
                warnings.warn(
                    f"solver='refine': after {iteration} refinements of a sentence of "
                    f"{c.length} positions with up to {c.width} candidates the gap is "
                    f"{gap:.3g}; solver='auto' is faster wherever the lattice has at "
                    "most max_states states, and a lower max_iter stops with this gap",
                    ConvergenceWarning,
                    stacklevel=2,
                )
        path = q.classes(q.best_path) if best > -np.inf else none
        return Decoded(path, best, gap, iteration, q.n_states)

    def sample(
        self,
        c: Candidates,
        n: int,
        rng: np.random.RandomState,
        acceptance: float = 0.5,
        max_seconds: float = np.inf,
    ) -> RejectionDraws:
        """Independent draws from the posterior.

        Parameters
        ----------
        c : Candidates

        n : int
            Accepted draws.

        rng : RandomState

        acceptance : float, default=0.5
            The bound is refined no longer once this share of the last 100 trials was
            accepted.

        max_seconds : float, default=inf
            Stop with fewer draws. Only the number of draws is limited by it.

        Raises
        ------
        ValueError
            If no path is possible, or `max_iter` trials in a row were rejected.
        """
        if c.n_positions == 0:
            nothing = np.zeros(n)
            return RejectionDraws(
                np.empty((n, 0), dtype=np.int32), n, 1, 0, nothing == 0, nothing
            )
        impossible = "the sentence has no possible path to draw from"
        if (np.diff(c.ptr) == 0).any():
            raise ValueError(impossible)
        q = self._bound(c)
        paths: list[np.ndarray] = []
        accepted, ratios = [], []
        refined = 0
        since = 0
        began = time.monotonic()
        if q.evaluate() == -np.inf:
            raise ValueError(impossible)
        refining = True
        while len(paths) < n:
            rejected = []
            for _ in range(self.batch_size):
                log_q, log_p = q.draw(rng.random_sample(c.n_positions))
                ratios.append(log_p - log_q)
                accept = bool(rng.random_sample() < np.exp(min(log_p - log_q, 0.0)))
                accepted.append(accept)
                if accept:
                    paths.append(q.classes(q.path))
                    since = 0
                    if len(paths) == n:
                        break
                else:
                    since += 1
                    rejected.append(q.path.copy())
            if since > self.max_iter:
                raise ValueError(
                    f"max_iter={self.max_iter} trials in a row were rejected: raise "
                    "it, or the sentence has no possible path"
                )
            if time.monotonic() - began > max_seconds:
                break
            if refining and len(accepted) >= 100:
                refining = bool(np.mean(accepted[-100:]) < acceptance)
            if refining and rejected and q.n_states < self.max_states:
                for path in rejected:
                    q.refine(path)
                refined += 1
                if q.evaluate() == -np.inf:
                    raise ValueError(impossible)
        return RejectionDraws(
            np.array(paths, dtype=np.int32).reshape(len(paths), c.length),
            len(accepted), q.n_states, refined, np.array(accepted), np.array(ratios),
        )  # fmt: skip
