"""Decoding and sampling by refining an optimistic bound."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._checks import check_memory
from . import _refinement_fast as _fast
from ._automaton import ContextAutomaton
from ._candidates import Candidates, Decoded

_NO_PATH = "the sentence has no possible path to draw from"


class RejectionDraws(NamedTuple):
    """Draws by rejection, and the effort behind them."""

    paths: np.ndarray  # (n_draws, length) class ids
    accepted: np.ndarray  # (n_trials,) bool
    n_states: int


class _Bound(_fast.Bound):
    """The q-automaton of one sentence, with arrays that grow.

    arrays: those of an earlier sentence, which are used again; empty at first.
    """

    def __init__(self, automaton, c: Candidates, slot, literal, arrays):
        n = c.n_positions
        self.c, self._arrays, self._n_edges = c, arrays, int(c.ptr[-1])
        head, path, best_path = np.full((3, n), -1, dtype=np.int32)
        super().__init__(automaton.arcs, c, slot, head, (path, best_path), literal)
        self.path, self.best_path = path, best_path
        self._reserve(9 * n + 10, 9 * self._n_edges + 8)
        self.bind(self._arrays)
        _fast.start(self)

    def _reserve(self, n_states, n_edges):
        """Enlarge arrays that have no room for so many states and entries of rows."""
        states, edges = (len(self._arrays.get(n, ())) for n in ("choice", "score"))
        if n_states <= states and n_edges <= edges:
            return
        n_states = states if n_states <= states else max(n_states, 2 * states)
        n_edges = edges if n_edges <= edges else max(n_edges, 2 * edges)
        check_memory(
            44.0 * n_states + 24.0 * n_edges,
            f"a bound of {n_states} contexts and {n_edges} arcs",
            "lower max_states, or give fewer candidates",
        )
        shapes = {
            "state": ((n_states, 6), np.int32),
            "row_ptr": ((n_states + 1,), np.int64),
            "value": ((n_states,), np.float64),
            "choice": ((n_states,), np.int32),
            "score": ((n_edges,), np.float64),
            "plain": ((n_edges,), np.float64),
            "dest": ((n_edges,), np.int32),
            "edge_order": ((n_edges,), np.int32),
        }
        for name, (shape, dtype) in shapes.items():
            old = self._arrays.get(name, np.empty((0, *shape[1:])))
            if len(old) < shape[0]:
                self._arrays[name] = new = np.empty(shape, dtype=dtype)
                new[: len(old)] = old
        self.bind(self._arrays)

    def climb(self, steps, tol, max_states):
        """Refine along the best path; return (reason to stop, number of
        refinements)."""
        done = 0
        while True:
            reason, n = _fast.climb(self, steps - done, tol, max_states)
            done += n
            if reason != "full":
                return reason, done
            self._make_room()

    def _make_room(self):
        """Room for another refinement, which adds at most a row per position."""
        used = int(self._arrays["row_ptr"][self.n_states])
        self._reserve(self.n_states + self.c.n_positions, used + self._n_edges)

    def refine(self, path):
        """Lengthen the contexts that a path uses."""
        self._make_room()
        _fast.refine(self, path)


class RefinementSolver:
    r"""Exact decoding and sampling by adaptive refinement of an upper bound.

    .. math::
        q(x) = \prod_i w(x_i \mid c_i)\, p(o_i \mid x_i) \ge p(x), \qquad
        w(y \mid c) = \max_{h' \text{ ends in } c} P(y \mid h')

    Algorithms 1 and 2 of S. Carter, M. Dymetman, G. Bouchard, "Exact Sampling and
    Decoding in High-Order Hidden Markov Models", EMNLP 2012. If `max_iter` or
    `max_states` ends the decoding, no path is better than the result by more than
    `gap`, which is log q of the bound's best path - log p of the best path found.

    tol: decoding stops when log q - log p is at most `tol`.
    max_iter: refinements (decoding), or trials without an accepted draw (sampling).
    max_states: largest number of states of the bound.
    refine: "row": all bounds of a new state are computed. "literal": algorithm 2, which
    lowers only the edge that the rejected path uses.
    batch_size: draws between two refinements.
    """

    def __init__(
        self,
        automaton: ContextAutomaton,
        *,
        tol: float = 1e-9,
        max_iter: int = 100_000,
        max_states: int = 1_000_000,
        refine: str = "row",
        batch_size: int = 1,
    ):
        self.automaton = automaton
        self.tol, self.max_iter, self.max_states = tol, max_iter, max_states
        self.literal, self.batch_size = refine == "literal", batch_size
        self._slot = np.full(automaton.n_classes, -1, dtype=np.int32)
        self._arrays: dict[str, np.ndarray] = {}

    def _bound(self, c):
        return _Bound(self.automaton, c, self._slot, self.literal, self._arrays)

    def decode(self, c: Candidates, trace: list | None = None) -> Decoded:
        """The most probable path, or the best path found with its gap.

        `trace` gets one (log q, log p, number of states, class ids) per iteration.
        """
        none = np.empty(0, dtype=np.int32)
        if c.n_positions == 0:
            return Decoded(none, 0.0, 0.0, 0, 1)
        if (np.diff(c.ptr) == 0).any():
            return Decoded(none, -np.inf, 0.0, 0, 0)
        q = self._bound(c)
        iteration = 0
        while True:
            limit = self.max_iter
            if trace is not None:  # the bound itself comes first
                limit = min(iteration + bool(trace), limit)
            reason, n = q.climb(limit - iteration, self.tol, self.max_states)
            iteration += n
            if reason == "impossible":
                return Decoded(none, -np.inf, 0.0, iteration, q.n_states)
            if trace is not None and reason != "exact":
                trace.append((q.log_q, q.log_p, q.n_states, c.classes(q.path)))
            gap = 0.0 if reason == "exact" else max(q.upper - q.best, 0.0)
            stopped = iteration >= self.max_iter or q.n_states >= self.max_states
            if reason != "limit" or stopped:
                break
        path = c.classes(q.best_path) if q.best > -np.inf else none
        return Decoded(path, q.best, gap, iteration, q.n_states)

    def sample(
        self,
        c: Candidates,
        n: int,
        rng: np.random.RandomState,
        acceptance: float = 0.5,
    ) -> RejectionDraws:
        """n independent draws from the posterior.

        The bound is not refined any more when at least the share `acceptance` of the
        last 100 trials was accepted. ValueError if no path is possible, or `max_iter`
        trials in a row were rejected.
        """
        if c.n_positions == 0:
            empty = np.empty((n, 0), dtype=np.int32)
            return RejectionDraws(empty, np.ones(n, dtype=bool), 1)
        if (np.diff(c.ptr) == 0).any():
            raise ValueError(_NO_PATH)
        q = self._bound(c)
        paths: list[np.ndarray] = []
        accepted: list[bool] = []
        since, refining, changed = 0, True, True
        while len(paths) < n:
            if changed and _fast.evaluate(q) == -np.inf:
                raise ValueError(_NO_PATH)
            rejected = []
            for _ in range(self.batch_size):
                _fast.draw(q, rng.random_sample(c.n_positions))
                ratio = np.exp(min(q.log_p - q.log_q, 0.0))
                accepted.append(bool(rng.random_sample() < ratio))
                if accepted[-1]:
                    paths.append(c.classes(q.path))
                    since = 0
                    if len(paths) == n:
                        break
                else:
                    since += 1
                    rejected.append(q.path.copy())
            if since >= self.max_iter:
                raise ValueError(
                    f"{self.max_iter} trials in a row were rejected: raise max_states, "
                    "so that the lattice fits, or the sentence has no possible path"
                )
            if refining and len(accepted) >= 100:
                refining = bool(np.mean(accepted[-100:]) < acceptance)
            changed = refining and bool(rejected) and q.n_states < self.max_states
            if changed:
                for path in rejected:
                    q.refine(path)
        return RejectionDraws(
            np.array(paths, dtype=np.int32), np.array(accepted), q.n_states
        )
