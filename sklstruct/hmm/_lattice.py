"""The exact lattice of a sentence: best paths, sums, marginals, samples."""

from __future__ import annotations

import heapq
from typing import NamedTuple

import numpy as np

from .._checks import check_memory
from . import _lattice_back_fast as _back
from . import _lattice_fast as _fast
from ._automaton import ContextAutomaton
from ._candidates import Candidates, Decoded

# With a larger range of log-weights, a history of negligible weight could be the only
# possible history later; see the modes of the kernel.
_LINEAR_RANGE = 300.0
# From this number of candidates per position on, pruning by bounds saves time.
PRUNE_FROM = 256
_BEAM = 32
# A sequence of up to so many positions may have `max_states` states, a longer sequence
# more.
_POSITIONS = 1000
_NO_BOUND = np.empty(0)


class LatticeTooLargeError(ValueError):
    """The lattice of a sentence needs more than `max_states` states."""


class LatticeSolver:
    """Lattices over one automaton, with the scratch memory of one thread.

    `LatticeTooLargeError` is raised for a lattice of more than `max_states` states, or,
    for a sentence of more than 1000 positions, per 1000 positions.
    """

    def __init__(self, automaton: ContextAutomaton, max_states: int = 1_000_000):
        self.automaton = automaton
        self.max_states = int(max_states)
        self._dropped = np.empty(1)  # upper bound of the paths that a beam left out
        sizes = automaton.n_nodes, automaton.n_nodes, automaton.n_classes
        self._maps = [np.full(n, -1, dtype=np.int32) for n in sizes]
        capacity = min(4096, self.max_states)
        self._work = _fast.Workspace(automaton, self._maps, 8, capacity)

    def _reserve(self, width, capacity=0):
        """Make room for so many candidates per position and so many states."""
        work = self._work
        if width > work.width or capacity > work.capacity:
            width, capacity = max(width, work.width), max(capacity, work.capacity)
            what = f"a lattice of {capacity} states"
            check_memory(24.0 * capacity, what, "lower max_states")
            work = _fast.Workspace(self.automaton, self._maps, width, capacity)
            self._work = work
        return work

    def _forward(self, c, mode, bound=_NO_BOUND, threshold=-np.inf, beam=0):
        """The lattice, in this solver's buffers, which the next call overwrites."""
        ptr = np.empty(c.n_positions + 2, dtype=np.int64)
        capacity, most = 0, self._most_states(c)
        while True:
            work = self._reserve(c.width, capacity)
            done = _fast.forward(
                work, mode, c.ptr, c.ids, c.log_factor, bound, threshold, beam, ptr,
                *work.states, self._dropped,
            )  # fmt: skip
            if done == c.n_positions:
                n = int(ptr[-1])
                if n > most:
                    self._too_large(c)
                return Lattice(self, c, ptr, *(array[:n] for array in work.states))
            if work.capacity >= most:
                self._too_large(c)
            capacity = min(4 * work.capacity, most)

    def _most_states(self, c):
        return self.max_states * max(c.n_positions, _POSITIONS) // _POSITIONS

    def _too_large(self, c):
        raise LatticeTooLargeError(
            f"max_states={self.max_states} is too small for the lattice of a sentence "
            f"of {c.length} positions with up to {c.width} candidates each: raise it, "
            "or give fewer candidates"
        )

    def bounds(self, c: Candidates) -> np.ndarray:
        """Upper bound of the score after each candidate, from bigram bounds."""
        out = np.empty(len(c.ids))
        _back.bounds(self._reserve(c.width), c.ptr, c.ids, c.log_factor, out)
        return out

    def best_lattice(self, c: Candidates, prune: bool | None = None) -> Lattice:
        """The lattice of best scores, without states that cannot be on a best path.

        The lattice is pruned if `prune` is True, or None and a position has many
        candidates.
        """
        if prune is None:
            prune = c.width >= PRUNE_FROM
        if not prune:
            return self._forward(c, _fast.MAX)
        bound = self.bounds(c)
        lattice = self._forward(c, _fast.MAX, bound, -np.inf, _BEAM)
        if np.diff(lattice.ptr).max() < _BEAM:
            return lattice  # nothing was dropped
        # -inf if the beam has no possible path; then no state is dropped.
        threshold = _just_below(lattice.best()[1])
        return self._forward(c, _fast.MAX, bound, threshold)

    def decode(self, c: Candidates, prune: bool | None = None) -> Decoded:
        """The most probable path."""
        lattice = self.best_lattice(c, prune)
        path, log_proba = lattice.best()
        return Decoded(path, log_proba, 0.0, 0, int(lattice.ptr[-1]))

    def decode_within(self, c: Candidates) -> Decoded:
        r"""A path of a lattice that is too large, with an upper bound of its gap.

        A beam takes as many states of a position as `max_states` allows. With
        :math:`\alpha(s)` the best score that ends in state s and h(s) the upper bound
        of the score of all that follows, every path that the beam lost contains a first
        state s that the beam left out, and the score of the path is at most

        .. math::
            \max_{s \text{ left out}} \alpha(s) + h(s) .

        States that cannot reach the score of the path found are left out of a second
        lattice. If that lattice fits, its best path is the best of all.
        LatticeTooLargeError if not even one state per position fits.
        """
        bound = self.bounds(c)
        # A state has at most one successor for each candidate.
        beam = max(self._most_states(c) // (c.n_positions + c.width), 1)
        lattice = self._forward(c, _fast.MAX, bound, -np.inf, beam)
        path, found = lattice.best()
        n_states, gap = int(lattice.ptr[-1]), float(self._dropped[0]) - found
        # No state was left out, or no possible path was left out.
        if self._dropped[0] == -np.inf or gap <= 0.0:
            return Decoded(path, found, 0.0, 0, n_states)
        within = Decoded(path, found, gap, 0, n_states)
        if found == -np.inf:
            return within
        try:
            lattice = self._forward(c, _fast.MAX, bound, _just_below(found))
        except LatticeTooLargeError:
            return within
        path, found = lattice.best()
        return Decoded(path, found, 0.0, 0, int(lattice.ptr[-1]))

    def n_best(self, c: Candidates, n: int) -> list[tuple[np.ndarray, float]]:
        """The `n` most probable paths with their scores, best first."""
        return self._forward(c, _fast.MAX).n_best(n)

    def sums(self, c: Candidates) -> Lattice:
        """The lattice of forward sums: log Z, marginals, samples."""
        safe = self.automaton.log_range > _LINEAR_RANGE
        return self._forward(c, _fast.LOG if safe else _fast.SUM)


class Lattice(NamedTuple):
    """States of the positions of one sentence with their forward scores.

    Position 0 is the sentence start; position i follows i symbols.
    """

    solver: LatticeSolver
    c: Candidates
    ptr: np.ndarray
    node: np.ndarray
    candidate: np.ndarray
    score: np.ndarray

    @property
    def states_per_position(self) -> np.ndarray:
        """(n_positions + 1,) number of states, the start first."""
        return np.diff(self.ptr)

    def _slice(self, position):
        return slice(int(self.ptr[position]), int(self.ptr[position + 1]))

    def _column(self, position, y):
        states = self._slice(position)
        log_prob = np.empty(states.stop - states.start)
        following = np.empty(len(log_prob), dtype=np.int32)
        _back.column(
            self.solver.automaton.arcs, self.node[states], y, log_prob, following
        )
        return log_prob, following

    def best(self) -> tuple[np.ndarray, float]:
        """(class ids, score) of the best path; an empty path if no path is possible."""
        final = self._slice(self.c.n_positions)
        if final.stop == final.start:
            return np.empty(0, dtype=np.int32), -np.inf
        state = final.start + int(np.argmax(self.score[final]))
        index = np.empty(self.c.n_positions, dtype=np.int32)
        _back.trace(
            self.solver.automaton.arcs, self.c.ptr, self.c.ids, self.c.log_factor,
            self.ptr, self.node, self.candidate, self.score, state,
            self.c.n_positions, index,
        )  # fmt: skip
        return self.c.classes(index), float(self.score[state])

    def n_best(self, n: int) -> list[tuple[np.ndarray, float]]:
        """The n best paths: best-first search backwards.

        The score of a state is the best score of a path to it, so every entry of the
        queue has the exact score of one path. Entries are disjoint sets of paths, so
        entries below the n-th best can be dropped.
        """
        c, last = self.c, self.c.n_positions
        final = self._slice(last)
        # (-score of the best path through it, tie-break, position, state, rest, tail)
        queue: list[tuple[float, int, int, int, float, tuple[int, ...]]] = []
        tick = 0
        for state in range(final.start, final.stop):
            queue.append((-float(self.score[state]), tick, last, state, 0.0, ()))
            tick += 1
        queue = heapq.nsmallest(n, queue)
        found: list[tuple[np.ndarray, float]] = []
        columns = {}
        while queue and len(found) < n:
            cost, _, position, state, rest, tail = heapq.heappop(queue)
            if position == 0:
                found.append((c.classes(np.array(tail, dtype=np.int64)), -cost))
                continue
            k = int(self.candidate[state])
            at = int(c.ptr[position - 1]) + k
            key = (position, k)
            if key not in columns:
                columns[key] = self._column(position - 1, int(c.ids[at]))
            log_prob, following = columns[key]
            states = self._slice(position - 1)
            step = log_prob + c.log_factor[at] + rest
            total = self.score[states] + step
            use = np.flatnonzero((following == self.node[state]) & (total > -np.inf))
            if len(use) > n:
                use = use[np.argpartition(-total[use], n - 1)[:n]]
            for j in use.tolist():
                tick += 1
                entry = (
                    -float(total[j]), tick, position - 1, states.start + j,
                    float(step[j]), (k, *tail),
                )  # fmt: skip
                heapq.heappush(queue, entry)
            if len(queue) > 4 * n + 64:
                queue = heapq.nsmallest(n - len(found), queue)
        return found

    # ---------------------------------------------------------------- sums

    def log_z(self) -> float:
        """Natural logarithm of the sum over all paths; -inf if no path is possible."""
        final = self.score[self._slice(self.c.n_positions)]
        return float(np.logaddexp.reduce(final)) if len(final) else -np.inf

    def _after(self):
        """Logarithm of the sum over all continuations, for every state."""
        c = self.c
        after = np.empty(len(self.score))
        _back.backward(
            self.solver._work, c.ptr, c.ids, c.log_factor, self.ptr, self.node,
            self.candidate, after, np.empty(self.solver._work.width),
        )  # fmt: skip
        return after

    def expect(self, weight: float, followed: np.ndarray) -> tuple[float, np.ndarray]:
        """Add the expected number of times that each class follows each context.

        followed: (n_nodes, n_classes), changed in place. The result is (`log_z`,
        `weight` times the posterior probability of each candidate); `weight` is the
        weight of the sentence.
        """
        c = self.c
        share = np.zeros(len(c.ids))
        log_z = self.log_z()
        if log_z > -np.inf:
            _back.expect(
                self.solver._work, c.ptr, c.ids, c.log_factor, self.ptr, self.node,
                self.candidate, self.score, self._after(), log_z, weight, followed,
                share,
            )  # fmt: skip
        return log_z, share

    def marginals(self) -> np.ndarray:
        """(n_candidates,) posterior probability of each candidate; 0 if impossible."""
        c = self.c
        out = np.zeros(len(c.ids))
        log_z = self.log_z()
        if log_z == -np.inf:
            return out
        after = self._after()
        first = int(self.ptr[1])
        position = np.repeat(np.arange(c.n_positions), self.states_per_position[1:])
        index = c.ptr[position] + self.candidate[first:]
        mass = np.exp(self.score[first:] + after[first:] - log_z)
        out += np.bincount(index, mass, minlength=len(out))
        if c.n_positions:
            out /= np.repeat(np.add.reduceat(out, c.ptr[:-1]), np.diff(c.ptr))
        return out

    def sample(self, n: int, rng: np.random.RandomState) -> np.ndarray:
        """(n, length) class ids: independent draws, by backward sampling from forward
        sums.

        ValueError if no path is possible.
        """
        c = self.c
        if self.log_z() == -np.inf:
            raise ValueError("the sentence has no possible path to draw from")
        final = self._slice(c.n_positions)
        state = final.start + _draw(self.score[final], rng.random_sample(n))
        out = np.empty((n, c.n_positions), dtype=np.int32)
        for position in range(c.n_positions, 0, -1):
            k = self.candidate[state]
            y = c.ids[c.ptr[position - 1] + k]
            out[:, position - 1] = y
            uniform = rng.random_sample(n)
            states = self._slice(position - 1)
            new = np.empty(n, dtype=np.int64)
            order = np.argsort(state, kind="stable")
            cuts = np.flatnonzero(np.diff(state[order])) + 1
            column = {}
            for rows in np.split(order, cuts):
                one = int(state[rows[0]])
                key = int(k[rows[0]])
                if key not in column:
                    log_prob, following = self._column(position - 1, int(y[rows[0]]))
                    column[key] = log_prob + self.score[states], following
                weight, following = column[key]
                use = np.flatnonzero(following == self.node[one])
                new[rows] = states.start + use[_draw(weight[use], uniform[rows])]
            state = new
        return out[:, : c.length]


def _just_below(score):
    """A slightly smaller score, so that rounding of a bound does not drop a best
    path."""
    return score - 1e-9 * (1.0 + abs(score))


def _draw(log_weight, uniform):
    """Indices with probability proportional to exp(log_weight), one per uniform."""
    total = np.cumsum(np.exp(log_weight - log_weight.max()))
    drawn = np.searchsorted(total, uniform * total[-1], side="right")
    return np.minimum(drawn, len(total) - 1)
