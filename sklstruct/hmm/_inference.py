"""Inference of both estimators: paths, marginals, samples, scores."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cached_property
from numbers import Integral, Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._checks import (
    INT32_MAX,
    as_ids,
    as_random_state,
    check_count,
    check_ids,
    check_length,
)
from .._compat import N_JOBS, BaseEstimator, Interval, check_weights
from .._docs import shared_docs
from .._lazy import stored
from .._parallel import ThreadMap
from ..backoff import BackoffModel
from ..symbols import (
    DRAWS,
    GIVEN,
    LabelLists,
    check_draws,
    check_pairs,
    check_possible,
    check_sequences,
    count_right,
    object_array,
    share_right,
)
from ._automaton import ContextAutomaton
from ._candidates import make_candidates, restrict
from ._lattice import LatticeSolver, LatticeTooLargeError
from ._refinement import RefinementSolver

# A gap of at most this many nats counts as 0.
_TOLERANCE = 1e-9


class Decoding(NamedTuple):
    """Best paths of sequences, with scores and effort.

    Attributes
    ----------
    labels : object ndarray of shape (n_sequences,)
        One array of labels per sequence; an array of None if no path is possible.

    log_proba : ndarray of shape (n_sequences,)
        Joint log-probability of the path and the observations; -inf: impossible.

    gap : ndarray of shape (n_sequences,)
        Upper bound of how much better another path can be, in nats. Above 1e-9 only if
        `max_states` limited the lattice and ended the refinement; ``inf`` if no
        possible path was found until then, or if a beam left out a history.

    n_iterations : ndarray of shape (n_sequences,)
        Refinements of the bound, 0 if the lattice was used.

    n_states : ndarray of shape (n_sequences,)
        States of the lattice (after pruning) or of the bound.

    approximate : ndarray of bool of shape (n_sequences,)
        True if candidates or histories were dropped that may be on the best path.
    """

    labels: np.ndarray
    log_proba: np.ndarray
    gap: np.ndarray
    n_iterations: np.ndarray
    n_states: np.ndarray
    approximate: np.ndarray


class Inspection(NamedTuple):
    """States and bounds of one sequence in both solvers.

    Attributes
    ----------
    states, pruned : ndarray of shape (n_positions + 1,)
        States of the lattice per position, the start first; before and after pruning.

    labels : ndarray or list
        The best labels.

    trace : list of (log_q, log_p, n_states)
        The refinement, iteration by iteration.
    """

    states: np.ndarray
    pruned: np.ndarray
    labels: np.ndarray
    trace: list


class SequenceInference(BaseEstimator):
    """Methods over `transition_model_`, `_read(X)` and the parameters of inference.

    `_read(X)` returns (positions, approximate) for each sequence: positions is a list
    of (ids, log-factors); `_labels(ids, sequence)` returns the labels of ids.
    """

    _parameter_constraints: dict = {
        "transition_weight": [Interval(Real, 0, None, closed="neither")],
        "max_states": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": N_JOBS,
    }

    transition_model_: BackoffModel
    classes_: np.ndarray
    _class_of_label: np.ndarray  # int32, of the transition model

    def __init__(self, transition_weight: float, max_states: int, n_jobs: int | None):
        self.transition_weight = transition_weight
        self.max_states = max_states
        self.n_jobs = n_jobs

    def _read(self, X: list) -> list[tuple[list, bool]]:
        raise NotImplementedError

    def _labels(self, ids: np.ndarray, sequence: Sequence) -> np.ndarray:
        raise NotImplementedError

    def _set_fitted(self, **fitted: Any) -> Self:
        """Set the attributes of a fit in one assignment, so that an error or interrupt
        in `fit` does not change an earlier fitted model."""
        self.__dict__ = stored(self) | fitted
        return self

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        if "transition_model_" in state:
            ids = as_ids("_class_of_label", self._class_of_label, 1)
            check_length("_class_of_label", ids, len(self.classes_), "the labels")
            n_classes = self.transition_model_.n_classes
            check_ids("_class_of_label", ids, 0, n_classes, "class")
            self._class_of_label = ids

    @cached_property  # not pickled: quickly computed from the model
    def _weighted(self):
        return ContextAutomaton(self.transition_model_, self.transition_weight)

    @property
    def _automaton(self):
        if self._weighted.weight != self.transition_weight:
            vars(self).pop("_weighted", None)
        return self._weighted

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        return tags

    def _sentences(self, X, given=None, sums=True):
        """(X, candidates, approximate); sums: whether sums over labellings are
        needed."""
        check_is_fitted(self, "transition_model_")
        X = check_sequences(X)
        end = self._automaton.end_class
        read = self._read(X)
        positions = [p for p, _ in read]
        if given is not None:
            class_of = dict(zip(self.classes_.tolist(), self._class_of_label.tolist()))
            unknown = self.transition_model_.labels.unknown_id
            positions = restrict(X, positions, given, class_of, unknown)
        return X, [make_candidates(p, end) for p in positions], [a for _, a in read]

    def _map(self, function, sentences):
        """function(solvers, candidates) of every sentence, in threads."""
        automaton = self._automaton
        solvers = threading.local()

        def work(c):
            if not hasattr(solvers, "lattice"):
                solvers.lattice, solvers.refinement = self._new_solvers(automaton)
            return function(solvers, c)

        with ThreadMap(self.n_jobs) as parallel:
            return parallel(work, sentences)

    def _new_solvers(self, automaton):
        return (
            LatticeSolver(automaton, self.max_states),
            RefinementSolver(automaton, max_states=self.max_states),
        )

    def _marginals(self, sentences, given):
        """Posterior probability of each candidate of each sentence."""

        def one(solvers, c):
            lattice = solvers.lattice.sums(c)
            return lattice.marginals(), lattice.log_z()

        found = self._map(one, sentences)
        check_possible(given, [log_z for _, log_z in found])
        return [marginals for marginals, _ in found]

    def _decode_one(self, solvers, c):
        try:
            return solvers.lattice.decode(c)
        except LatticeTooLargeError:
            pass
        try:
            found = solvers.lattice.decode_within(c)
        except LatticeTooLargeError:
            return solvers.refinement.decode(c)
        if found.gap <= _TOLERANCE:
            return found
        return found.nearer(solvers.refinement.decode(c))

    def _sample_one(self, solvers, c, n_samples, rng):
        try:
            return solvers.lattice.sums(c).sample(n_samples, rng)
        except LatticeTooLargeError:
            return solvers.refinement.sample(c, n_samples, rng).paths

    @shared_docs(given=GIVEN)
    def decode(self, X: Sequence, given: Sequence | None = None) -> Decoding:
        """Most probable labels with their scores and certified gaps.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        {given}

        Returns
        -------
        decoding : Decoding
            Named tuple (labels, log_proba, gap, n_iterations, n_states, approximate).

        Raises
        ------
        ValueError
            If `given` does not fit X, or leaves a sequence no possible labelling.
        """
        X, sentences, approximate = self._sentences(X, given, sums=False)
        found = self._map(self._decode_one, sentences)
        check_possible(given, [d.log_proba for d in found])
        return Decoding(
            object_array(
                self._labels(d.path, x)
                if d.log_proba > -np.inf
                else np.full(len(x), None, dtype=object)
                for d, x in zip(found, X)
            ),
            np.array([d.log_proba + c.shift for d, c in zip(found, sentences)]),
            np.array([d.gap for d in found], dtype=np.float64),
            np.array([d.n_iterations for d in found], dtype=np.int64),
            np.array([d.n_states for d in found], dtype=np.int64),
            np.array([a or d.gap == np.inf for a, d in zip(approximate, found)], bool),
        )

    def inspect(self, sequence: Sequence) -> Inspection:
        """States and bounds of one sequence, as `LatticeDisplay` draws them.

        Parameters
        ----------
        sequence : sequence of observations
            A single sequence.

        Returns
        -------
        inspection : Inspection
            Named tuple (states, pruned, labels, trace).

        Raises
        ------
        ValueError
            If the sequence needs more than `max_states` states.
        """
        _, (c,), _ = self._sentences([sequence])
        solver = LatticeSolver(self._automaton, self.max_states)
        trace: list[tuple] = []
        states = solver.best_lattice(c, prune=False).states_per_position.copy()
        pruned = solver.best_lattice(c, prune=True).states_per_position.copy()
        RefinementSolver(self._automaton, max_states=self.max_states).decode(c, trace)
        labels = self.decode([sequence]).labels[0]
        trace = [(q + c.shift, p + c.shift, n) for q, p, n, _ in trace]
        return Inspection(states, pruned, labels, trace)

    @shared_docs(given=GIVEN)
    def predict(self, X: Sequence, given: Sequence | None = None) -> list:
        """Most probable labels of every sequence.

        Parameters
        ----------
        X : list of sequences of observations
            Sequences may be empty and of different lengths; None or NaN is a missing
            observation, which allows every label.

        {given}

        Returns
        -------
        labels : list of list
            The labels of every sequence; all labels are None if no labelling is
            possible.

        Raises
        ------
        ValueError
            If `given` does not fit X, or leaves a sequence no possible labelling.
        """
        return LabelLists(self._predict(X, given))

    def _predict(self, X, given):
        return (row.tolist() for row in self.decode(X, given).labels)

    @shared_docs(given=GIVEN)
    def predict_k(self, X: Sequence, k: int = 5, given: Sequence | None = None) -> list:
        """The `k` most probable labellings of every sequence.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        k : int, default=5
            At least 1.

        {given}

        Returns
        -------
        paths : list of list of (labels, log_proba)
            Best first, with joint log-probabilities; fewer than k if fewer labellings
            are possible. The labels are a list, as in `predict`.

        Raises
        ------
        ValueError
            If a sequence needs more than `max_states` states, or if `given` does not
            fit X or leaves a sequence no possible labelling.
        """
        k = check_count("k", k, 1)
        X, sentences, _ = self._sentences(X, given, sums=False)

        def best(solvers, c):
            return [(path, p + c.shift) for path, p in solvers.lattice.n_best(c, k)]

        found = self._map(best, sentences)
        check_possible(given, [p[0][1] if p else -np.inf for p in found])
        return [
            [(self._labels(path, x).tolist(), score) for path, score in paths]
            for paths, x in zip(found, X)
        ]

    @shared_docs(given=GIVEN)
    def log_likelihood(self, X: Sequence, given: Sequence | None = None) -> np.ndarray:
        """Natural logarithm of the sum over all labellings of each sequence, log Z.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        {given}

        Returns
        -------
        log_z : ndarray of shape (n_sequences,)
            -inf if no labelling is possible.

        Raises
        ------
        ValueError
            If a sequence needs more than `max_states` states, or if `given` does not
            fit X or leaves a sequence no possible labelling.
        """
        _, sentences, _ = self._sentences(X, given)
        found = self._map(lambda s, c: s.lattice.sums(c).log_z() + c.shift, sentences)
        check_possible(given, found)
        return np.array(found, dtype=np.float64)

    @shared_docs(draws=DRAWS, given=GIVEN)
    def sample_posterior(
        self,
        X: Sequence,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        given: Sequence | None = None,
    ) -> np.ndarray:
        """Independent draws of the labels given the observations.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        {draws}

        {given}

        Returns
        -------
        samples : object ndarray of shape (n_sequences,)
            One array of shape (n_samples, length) per sequence.

        Raises
        ------
        ValueError
            If a sequence has no possible labelling, or `given` does not fit X.
        """
        n_samples = check_count("n_samples", n_samples, 1)
        rng = as_random_state(random_state)
        X, sentences, _ = self._sentences(X, given)
        seeds = rng.randint(INT32_MAX, size=len(sentences))

        def draw(solvers, item):
            i, c = item
            check_draws(n_samples, c.length)
            own = np.random.RandomState(seeds[i])
            try:
                return self._sample_one(solvers, c, n_samples, own)
            except ValueError as exc:
                raise ValueError(f"X[{i}]: {exc}") from exc

        drawn = self._map(draw, list(enumerate(sentences)))
        return object_array(self._labels(paths, x) for paths, x in zip(drawn, X))

    @shared_docs(given=GIVEN)
    def score(
        self,
        X: Sequence,
        y: Sequence | None = None,
        sample_weight: ArrayLike | None = None,
        given: Sequence | None = None,
    ) -> float:
        """Share of observations whose label is predicted right, or log-likelihood.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        y : list of sequences of labels, default=None
            Unknown labels (None, or -1 if labels are integers) are not counted. None:
            the score is the log-likelihood of X, for model selection without labels.

        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence, at least 0.

        {given}

        Returns
        -------
        score : float
            Accuracy in 0..1 over the observations of all sequences; without y, the
            weighted sum of `log_likelihood`, in nats per observation.

        Raises
        ------
        ValueError
            If `given` does not fit X, or leaves a sequence no possible labelling;
            if y holds NaN.
        """
        if y is None:
            X = check_sequences(X)
            weight = check_weights(sample_weight, X)
            n = weight @ [*map(len, X)]
            if not n:
                raise ValueError("X holds no observation to score")
            found = self.log_likelihood(X, given)
            # An impossible sequence of weight 0 would give NaN.
            return float(weight[weight > 0] @ found[weight > 0] / n)
        rows, y = check_pairs(X, y)
        weight = check_weights(sample_weight, rows)
        counts = count_right(self.predict(rows, given), y, self.classes_)
        return share_right(*counts, weight)
