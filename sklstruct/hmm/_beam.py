"""A beam of histories: the search with any language model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.frozen import FrozenEstimator

from .._checks import check_memory
from ._candidates import Candidates, Decoded
from ._sequence_model import labels_with_unknown


class CursorAutomaton:
    """Any language model as an automaton; its states are the states of the model's
    cursor.

    ``begin``, ``advance`` and ``rows`` are called for many states. The labels have an
    unknown word. `log_prob` is the log-probability of each class after the empty
    context. If the model has no unknown word, or its probability is 0, the
    log-probability of the unknown word is 0 after all histories.
    """

    def __init__(self, model: Any) -> None:
        if isinstance(model, FrozenEstimator):
            model = model.estimator
        base = getattr(model, "base_", model)  # of a cache
        predictor, own = base.predictor, base.predictor.encoder.labels
        self.labels = labels_with_unknown(own)
        self.n_classes, self.end_class = self.labels.n_classes, self.labels.end_id
        self.unknown_class = self.labels.unknown_id
        if own.unknown_id < 0:
            # An unknown word is read, and ends the history.
            base, cache = copy.copy(base), copy.copy(model)
            base.out_of_vocabulary, cache.base_ = "exclude", base
            model = cache if hasattr(model, "base_") else base
        empty = predictor.read(np.full((1, 1), -1, dtype=np.int32))
        row = predictor.model.rows(predictor.locate(empty))[0]
        self.log_prob = np.append(row, [-np.inf] * (self.n_classes - len(row)))
        self.model, self._fixed = model, self.log_prob[self.unknown_class] == -np.inf
        if self._fixed:
            self.log_prob[self.unknown_class] = 0.0

    def rows(self, states: NDArray) -> NDArray:
        """Natural log-probabilities of all classes after each state."""
        rows = self.model.rows(states)
        if self._fixed:
            if rows.shape[1] < self.n_classes:
                rows = np.pad(rows, ((0, 0), (0, 1)))
            rows[:, self.unknown_class] = 0.0
        return rows

    def advance(self, states: NDArray, y: NDArray) -> NDArray:
        """The states after one more class each."""
        return self.model.advance(states, self.labels.classes[y].tolist())[1]


class BeamSearch:
    """Beam search: best paths among the most probable histories of each position.

    A history is extended by all candidates. The `width` states with the best longer
    histories are kept, each with its best history, because the probability of what
    follows depends only on the state. The probabilities of the automaton are raised to
    the power `weight`.
    """

    def __init__(self, automaton: CursorAutomaton, weight: float, width: int) -> None:
        self.automaton, self.weight, self.width = automaton, weight, int(width)

    def decode(self, c: Candidates) -> Decoded:
        """The most probable path that was kept; the gap is inf if states were
        dropped."""
        paths, n_states, lost = self._search(c, 1)
        path, score = paths[0] if paths else (np.empty(0, dtype=np.int32), -np.inf)
        return Decoded(path, score, np.inf if lost else 0.0, 0, n_states)

    def n_best(self, c: Candidates, n: int) -> list[tuple[NDArray, float]]:
        """The `n` most probable paths that were kept, with their scores, best first."""
        if n > self.width:
            raise ValueError(
                f"k={n} must be at most beam_width={self.width}, the number of "
                "histories that are kept; raise beam_width"
            )
        return self._search(c, n)[0]

    def _search(self, c, n):
        """(n best paths with scores, number of states, whether states were dropped)."""
        states = self.automaton.model.begin(n=1)
        of_path, score = np.zeros(1, int), np.zeros(1)
        paths, n_states, lost = np.empty((1, 0), dtype=np.int32), 1, False
        for i in range(c.n_positions):
            at = slice(int(c.ptr[i]), int(c.ptr[i + 1]))
            ids, m = c.ids[at], len(states)
            n_bytes = 16.0 * self.automaton.n_classes * m
            check_memory(n_bytes, f"the rows of {m} histories", "lower beam_width")
            step = self.automaton.rows(states)[:, ids]
            if np.isnan(step).any():
                raise ValueError("language_model gives NaN as a log-probability")
            step = self.weight * step + c.log_factor[at]
            grown = (score[:, None] + step[of_path]).ravel()
            # Stable: ties are in the order of histories and candidates.
            order = np.argsort(-grown, kind="stable")
            order = order[: np.count_nonzero(grown > -np.inf)]
            if i == c.n_positions - 1:
                order = order[:n]
            else:
                states, order, of_path, cut = self._keep(states[of_path], order, ids, n)
                n_states, lost = n_states + len(states), lost or cut
            before, y = np.divmod(order, max(len(ids), 1))
            paths, score = np.column_stack([paths[before], ids[y]]), grown[order]
        return list(zip(paths[:, : c.length], score.tolist())), n_states, lost

    def _keep(self, states, order, ids, n):
        """(states, histories kept, the state of each, whether states were dropped).

        Up to n histories of each state are kept, so that the first of them, and the
        states, are the same for every n.
        """
        found: dict[Any, list[int]] = {}
        grown, first, size, lost = [states[:0]], 0, self.width * n, False
        while first < len(order) and len(found) < self.width:
            before, y = np.divmod(order[first : first + size], len(ids))
            after = self.automaton.advance(states[before], ids[y])
            # Keys: hashable states, or the bytes of a row of numbers.
            keys = after.tolist() if after.ndim == 1 else map(bytes, after)
            for j, key in enumerate(keys, first):
                if key in found or len(found) < self.width:
                    found.setdefault(key, []).append(j)
                else:
                    lost = True
            grown.append(after)
            first, size = first + size, 2 * size
        of_state = enumerate(found.values())
        kept = sorted((j, number) for number, some in of_state for j in some[:n])
        j, number = np.array(kept, dtype=np.intp).reshape(-1, 2).T
        states = np.concatenate(grown)[[some[0] for some in found.values()]]
        return states, order[j], number, lost or first < len(order)
