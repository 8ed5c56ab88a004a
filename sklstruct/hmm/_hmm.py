"""HighOrderHMM: a tagger with exact inference at any order."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from .._checks import validate_parts
from .._compat import BaseEstimator, HasMethods, Interval, StrOptions, _fit_context
from .._docs import shared_docs
from ..backoff import BackoffModel
from ..smoothing import KneserNeyLM
from ..symbols import DEEPEST, object_array
from ._automaton import ContextAutomaton
from ._candidates import check_rows, make_candidates
from ._em import (
    Observed,
    expect,
    histories,
    random_counts,
    table_of,
    with_histories,
)
from ._emissions import ClassifierEmission, Emission, FrequencyEmission, SuffixEmission
from ._given import GIVEN
from ._inference import SequenceInference
from ._sequence_model import id_windows, learn_from_ids
from ._sequences import (
    check_pairs,
    check_sequences,
    check_weights,
    is_unknown,
    label_ids,
)
from ._sequences import items as _items

SOLVER_CONSTRAINTS = {
    "transition_weight": [Interval(Real, 0, None, closed="neither")],
    "solver": [StrOptions({"auto", "lattice", "refine"})],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
    "max_states": [Interval(Integral, 1, None, closed="left")],
    "n_jobs": [None, Integral],
}


# Iterations of expectation-maximisation, with known labels and without. The few were
# chosen on the development part of UD English EWT with 1, 3, 10 and 30 % of the
# sentences labelled: accuracy is largest after 1 to 2 and falls from there.
_FEW_ITERATIONS, _MANY_ITERATIONS = 2, 100


class HighOrderHMM(SequenceInference, BaseEstimator):
    r"""Hidden Markov model of any order with exact inference.

    .. math::
        P(y, o) = \prod_{i=1}^{L+1} P(y_i \mid y_{i-n+1}, \ldots, y_{i-1})
        \prod_{i=1}^{L} p(o_i \mid y_i), \qquad
        y_0 = \langle s\rangle,\ y_{L+1} = \langle /s\rangle

    where n is the order. The transitions are a smoothed back-off model, and the states
    are the contexts that it stores, not all strings of n - 1 labels: decoding, sums,
    marginals and samples are exact at any order.

    Parameters
    ----------
    order : int, default=3
        n, from 2 to 2^24: labels are predicted from the n - 1 before them.

    smoothing : estimator or BackoffModel, default=None
        Learns the transitions: any estimator of this package over context windows
        (`KneserNeyLM`, `StructuredLogLinearLM`, ...). None is
        ``KneserNeyLM(discount=(0.5, 1.0, 1.5))``. A fitted `BackoffModel`, for
        example one read from a file, is taken as it is, and `order` is its own.

    emission : {"suffix", "mle"}, emission model or classifier, default="suffix"
        "suffix" is ``SuffixEmission()``, "mle" is ``FrequencyEmission()``; a
        classifier is wrapped in a `ClassifierEmission`.

    classes : int or array-like of shape (n_classes,), default=None
        The labels that there can be; a number n stands for 0..n-1. None: those of y.

    unlabelled_weight : float, default=0.1
        Weight of a sequence without any known label, above 0. One with all labels has
        weight 1, one with some the mean over its positions. Below 1 the known labels
        are trusted more than those of expectation-maximisation: at 1, many sequences
        without labels give the classes another meaning. Without effect where no label
        is known at all.

    em_max_iter : int or None, default=None
        Most iterations of expectation-maximisation, at least 1. Only sequences with
        unknown labels need any. None: 2 where a label is known, 100 where none is. More
        than a few raise the objective and lower the accuracy: the classes slowly get
        another meaning than the labels had.

    em_tol : float, default=1e-5
        Stop when an iteration gains no more than this share of the objective, at
        least 0.

    n_init : int, default=1
        Random starts where no label is known, at least 1; the best objective wins.

    random_state : int, RandomState instance or None, default=None
        Seed of the random starts.

    transition_weight : float, default=1
        Power of the transition probabilities, above 0: the language model scale of
        speech recognition. Below 1 where emissions and transitions count the same
        evidence twice. All answers are then about
        :math:`P(y)^{\tau} p(o \mid y)`, whose sum is no probability of o. `fit` does
        not use it.

    solver : {"auto", "lattice", "refine"}, default="auto"
        "lattice": the exact minimised lattice. "refine": refinement of an upper
        bound, which can be stopped early with a certified gap. It takes longer than
        the lattice, the more so the more candidates there are: more than 20 a position
        on average, or 500 in a sequence, are an error.
        "auto": the lattice; for sentences that pass `max_states` a beam with a
        certified gap, and refinement where that gap is above `tol`.
        Marginals and sums always use the lattice.

    tol : float, default=1e-9
        Refinement stops where the bound is within `tol` of the best path, at least 0.

    max_iter : int, default=100_000
        Refinements of a sentence, at least 0.

    max_states : int, default=1_000_000
        Memory cap: states of a sentence, at least 1.

    n_jobs : int or None, default=None
        Threads over sentences; results do not depend on it.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The labels, sorted.

    transition_model_ : BackoffModel
        The model of the label sequences.

    emission_ : emission model
        The fitted clone.

    order_ : int
        Order of the transition model.

    objective_ : ndarray of shape (n_iterations,)
        The objective (see Notes) after each iteration, in nats; never falling.

    n_iter_ : int
        Iterations of expectation-maximisation; 0 where every label is known.

    See Also
    --------
    NoisyChannelDecoder : Candidates from a channel instead of learnt emissions.
    sklstruct.LanguageModel : Models of sequences that are observed.

    Notes
    -----
    Unknown labels are learnt by expectation-maximisation of

    .. math::
        F = \sum_s w_s \log \sum_{y \in Y_s} P(y, o_s) + R ,

    :math:`Y_s` the labellings that agree with the known labels of sequence s and
    :math:`w_s` its weight. Expected n-grams and emissions are sums over the exact
    lattice, whose states are all histories of n - 1 labels; `smoothing` and `emission`
    learn from them as they learn from counts. With ``AdditiveLM`` R is the logarithm of
    its Dirichlet prior and every iteration with ``FrequencyEmission()`` raises F. Other
    smoothers maximise no such objective; R is 0, and an iteration that would lower F is
    dropped and ends the fit. The factors of `SuffixEmission` and `ClassifierEmission`
    are :math:`p(o \mid y)` up to a number that depends on o alone.

    Labels of a corpus of some hundred thousand tokens support an order of three or
    four; accuracy is flat or falls beyond it. See the user guide.

    References
    ----------
    .. [1] S. Carter, M. Dymetman, G. Bouchard, "Exact Sampling and Decoding in
       High-Order Hidden Markov Models", EMNLP 2012.
    .. [2] T. Brants, "TnT - A Statistical Part-of-Speech Tagger", ANLP 2000.

    Examples
    --------
    >>> from sklstruct.hmm import HighOrderHMM
    >>> X = [["the", "cat", "ran"], ["the", "dog", "sat"], ["dogs", "ran"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"]]
    >>> tagger = HighOrderHMM(order=3).fit(X, y)
    >>> tagger.predict([["the", "dogs", "sat"]])[0]
    ['D', 'N', 'V']
    >>> tagger.predict_proba([["the", None]])[0].shape
    (2, 3)
    """

    _parameter_constraints: dict = {
        "order": [Interval(Integral, 2, DEEPEST + 1, closed="both")],
        "smoothing": [None, HasMethods(["fit"]), BackoffModel],
        "emission": [StrOptions({"suffix", "mle"}), HasMethods(["fit"])],
        "classes": [None, Interval(Integral, 1, None, closed="left"), "array-like"],
        "unlabelled_weight": [Interval(Real, 0, None, closed="neither")],
        "em_max_iter": [None, Interval(Integral, 1, None, closed="left")],
        "em_tol": [Interval(Real, 0, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        **SOLVER_CONSTRAINTS,
    }

    def __init__(
        self,
        order: int = 3,
        *,
        smoothing: Any = None,
        emission: Any = "suffix",
        classes: ArrayLike | int | None = None,
        unlabelled_weight: float = 0.1,
        em_max_iter: int | None = None,
        em_tol: float = 1e-5,
        n_init: int = 1,
        random_state: int | np.random.RandomState | None = None,
        transition_weight: float = 1.0,
        solver: str = "auto",
        tol: float = 1e-9,
        max_iter: int = 100_000,
        max_states: int = 1_000_000,
        n_jobs: int | None = None,
    ):
        self.order = order
        self.smoothing = smoothing
        self.emission = emission
        self.classes = classes
        self.unlabelled_weight = unlabelled_weight
        self.em_max_iter = em_max_iter
        self.em_tol = em_tol
        self.n_init = n_init
        self.random_state = random_state
        self.transition_weight = transition_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_states = max_states
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Sequence,
        y: Sequence | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> HighOrderHMM:
        """Learn transitions and emissions from labelled and unlabelled sequences.

        Parameters
        ----------
        X : list of sequences of observations
            Of any lengths; what an observation is depends on `emission`. None or NaN
            is a missing one.

        y : list of sequences of labels, default=None
            As long as those of X. None is an unknown label, and so is -1 where labels
            are integers; None for a sequence is None for all its labels. y=None: all
            are unknown, which needs `classes`.

        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence: finite, at least 0. An integer is as many
            repetitions, 0 an absence.

        Returns
        -------
        self : HighOrderHMM

        Raises
        ------
        ValueError
            If X and y do not fit, no label is known and `classes` is None, a label is
            unknown to the transition model or not in `classes`, the known labels of a
            sequence are impossible, or weights are negative, not finite or all 0.
        TypeError
            If X or y is no list of sequences.

        Warns
        -----
        ConvergenceWarning
            If expectation-maximisation still gains after `em_max_iter` iterations,
            unless this is None and a label is known.
        """
        validate_parts(self.smoothing, self.emission)
        X = check_sequences(X)
        if y is None and self.classes is None:
            raise ValueError(
                "y is None, but the labels of every sequence are needed; to learn "
                "without labels, name them in classes"
            )
        X, y = check_pairs(X, [[None] * len(x) for x in X] if y is None else y)
        weight = None
        if sample_weight is not None:
            weight = check_weights(sample_weight, len(X))
        if weight is not None and not weight.all():
            X, y = ([s for s, w in zip(part, weight) if w] for part in (X, y))
            weight = weight[weight > 0]
        self.classes_ = _distinct_labels(y, self.classes)
        ids = label_ids("y", y, self.classes_)
        vars(self).pop("_automaton_cache", None)
        if isinstance(self.smoothing, BackoffModel):
            self._class_of_label = self._classes_of(self.smoothing)
        else:
            self._class_of_label = np.arange(len(self.classes_), dtype=np.int32)
        if all(some.min(initial=0) >= 0 for some in ids):
            self.transition_model_, _ = self._learn(*self._windows(ids, weight))
            self.emission_ = self._fit_emission(X, ids, weight)
            self.objective_ = np.empty(0)
        else:
            self._maximise(X, ids, np.ones(len(X)) if weight is None else weight)
        self.n_iter_ = len(self.objective_)
        self._label_of_class = np.full(
            self.transition_model_.n_classes, -1, dtype=np.int64
        )
        self._label_of_class[self._class_of_label] = np.arange(len(self.classes_))
        self.order_ = self.transition_model_.order
        return self

    def _classes_of(self, model):
        """The class of each label in a model that is given."""
        index = {c: i for i, c in enumerate(model.labels.classes.tolist())}
        for one in self.classes_.tolist():
            if one not in index or one == model.labels.end:
                raise ValueError(
                    f"y holds the label {one!r}, which smoothing, a fitted model, does "
                    "not predict"
                )
        return np.array([index[c] for c in self.classes_.tolist()], dtype=np.int32)

    def _windows(self, ids, weight):
        """(contexts, targets, weights) of all n-grams of known labels."""
        if isinstance(self.smoothing, BackoffModel):
            return None, None, None
        return id_windows(ids, len(self.classes_), self.order - 1, weight)

    def _learn(self, contexts, targets, counts):
        """A model of the label sequences from windows, and log of its prior."""
        if isinstance(self.smoothing, BackoffModel):
            return self.smoothing, 0.0
        smoothing = self.smoothing
        if smoothing is None:
            smoothing = KneserNeyLM(discount=(0.5, 1.0, 1.5))
        names = self.classes_.tolist()
        return learn_from_ids(smoothing, names, contexts, targets, counts)

    def _fit_emission(self, X, ids, weight, per_label=False):
        """The fitted emission model; weight: one number a sequence, or a label."""
        emission = self.emission
        if isinstance(emission, str):
            emission = SuffixEmission() if emission == "suffix" else FrequencyEmission()
        elif not isinstance(emission, Emission):
            emission = ClassifierEmission(emission)
        n = len(self.classes_)
        if weight is None:
            return clone(emission).fit(X, ids, n)
        if not per_label:
            weight = [np.full(len(a), w) for a, w in zip(ids, weight.tolist())]
        return clone(emission).fit(X, ids, n, weight)

    # ------------------------------------------------ sequences without labels

    def _maximise(self, X, ids, weight):
        """Expectation-maximisation, from the known labels or from random counts."""
        n = len(self.classes_)
        known = any((some >= 0).any() for some in ids)
        counts = weight
        if known:
            # The mean over the positions: 1 for a label, unlabelled_weight for none.
            lost = np.array([np.mean(some < 0) if len(some) else 0.0 for some in ids])
            counts = weight * (1.0 - lost + lost * self.unlabelled_weight)
        observed = Observed.of(X, ids, counts)
        if not observed.symbols:
            raise ValueError("X holds no observation to learn emissions from")
        windows = None
        if not isinstance(self.smoothing, BackoffModel):
            windows = histories(n, self.order)
        rng = check_random_state(self.random_state)
        most = self.em_max_iter
        if most is None:
            most = _FEW_ITERATIONS if known else _MANY_ITERATIONS
        best: tuple = ()
        for _ in range(1 if known else self.n_init):
            if known:
                model, _ = self._learn(*self._windows(ids, weight))
                emission = self._fit_emission(X, ids, weight)
            else:
                followed, emitted = random_counts(
                    0 if windows is None else len(windows), n, observed, rng
                )
                model, _ = self._learn(
                    *(None, None, None)
                    if windows is None
                    else _as_windows(windows, followed)
                )
                emission = self._fit_emission(*_as_sequence(observed, emitted))
            found = self._climb(model, emission, windows, observed, most)
            if not best or found[2][-1] > best[2][-1]:
                best = found
        self.transition_model_, self.emission_, objective, converged = best
        self.objective_ = np.array(objective)
        if not converged and not (known and self.em_max_iter is None):
            warnings.warn(
                f"expectation-maximisation still gains after em_max_iter="
                f"{most} iterations; raise em_max_iter or em_tol",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _climb(self, model, emission, windows, observed, most):
        """(model, emission, objective of each iteration, converged) from a start."""

        def expected():
            whole = model if windows is None else with_histories(model, windows)
            automaton = ContextAutomaton(whole)
            rows = _candidate_rows(emission, [observed.symbols], len(self.classes_))[0]
            table = table_of(rows, len(self.classes_))
            return automaton.tree, expect(
                automaton, observed, table, self._class_of_label, self.max_states,
                self.n_jobs,
            )  # fmt: skip

        tree, counts = expected()
        objective: list[float] = []
        for _ in range(most):
            before = model, emission
            if windows is None:
                prior = 0.0
            else:
                model, prior = self._learn(
                    *_as_windows(tree.windows(), counts.followed)
                )
            emission = self._fit_emission(*_as_sequence(observed, counts.emitted))
            tree, counts = expected()
            value = counts.log_likelihood + prior
            if objective and not value > objective[-1]:
                return *before, objective, True
            objective.append(value)
            gain = np.diff(objective[-2:])
            if gain.size and gain[0] <= self.em_tol * abs(value):
                return model, emission, objective, True
        return model, emission, objective, False

    def _read(self, X):
        rows = _candidate_rows(self.emission_, X, len(self.classes_))
        everything = self._class_of_label, np.zeros(len(self._class_of_label))
        same = np.array_equal(
            self._class_of_label, np.arange(len(self._class_of_label))
        )
        read = []
        for some in rows:
            positions = [
                everything
                if row is None
                else (row if same else (self._class_of_label[row[0]], row[1]))
                for row in some
            ]
            read.append((positions, self.emission_.approximate_))
        return read

    def _labels(self, ids, sequence):
        return self.classes_[self._label_of_class[ids]]

    @shared_docs(given=GIVEN)
    def predict_proba(self, X: Sequence, given: Sequence | None = None) -> np.ndarray:
        """Exact marginal probabilities of the labels at each position.

        Parameters
        ----------
        X : list of sequences of observations

        {given}

        Returns
        -------
        proba : object ndarray of shape (n_sequences,)
            One array of shape (length, n_classes) a sequence, columns in the order of
            `classes_`. Rows sum to 1; they are 0 where no labelling is possible.

        Raises
        ------
        ValueError
            If a sentence needs more than `max_states` states.
            If `given` does not fit X, or leaves a sequence no possible labelling.
        """
        X, sentences, _ = self._sentences(X, given)
        found = self._marginals(sentences, given)
        return object_array(self._rows(c, m) for c, m in zip(sentences, found))

    def _rows(self, c, marginals):
        out = np.zeros((c.length, len(self.classes_)))
        n = int(c.ptr[c.length])
        position = np.repeat(np.arange(c.length), np.diff(c.ptr[: c.length + 1]))
        out[position, self._label_of_class[c.ids[:n]]] = marginals[:n]
        return out

    def joint_log_proba(self, X: Sequence, y: Sequence) -> np.ndarray:
        """log P(y, o) of given labels and the observations.

        Parameters
        ----------
        X : list of sequences of observations

        y : list of sequences of labels

        Returns
        -------
        log_proba : ndarray of shape (n_sequences,)
            -inf for labels that an observation or the model rules out; NaN never.

        Raises
        ------
        ValueError
            If a label is not in `classes_`, or X and y do not fit.
        """
        check_is_fitted(self, "transition_model_")
        X, y = check_pairs(X, y)
        end = self._automaton.end_class
        sentences = []
        for i, (some, (positions, _)) in enumerate(
            zip(label_ids("y", y, self.classes_), self._read(X))
        ):
            if (some < 0).any():
                raise ValueError(
                    f"y[{i}] holds an unknown label; log_likelihood with given sums "
                    "over all labels there"
                )
            chosen = []
            for wanted, (ids, factor) in zip(self._class_of_label[some], positions):
                at = np.flatnonzero(ids == wanted)
                chosen.append((ids[at], factor[at]))
            sentences.append(make_candidates(chosen, end))
        # One candidate a position: the only path of its lattice.
        return np.array(
            self._map(lambda s, i, c: s.lattice.decode(c).log_proba, sentences),
            dtype=np.float64,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.classes is None
        tags.input_tags.two_d_array = False
        return tags


def _candidate_rows(emission, X, n_labels):
    """Checked candidates of all observations of all sequences."""
    if hasattr(emission, "batch_candidates"):
        rows = emission.batch_candidates(X)
    else:
        rows = [emission.candidates(sequence) for sequence in X]
    return check_rows("emission", X, rows, n_labels)


def _as_windows(windows, followed):
    """Windows of the classes after each history, from which an estimator learns."""
    at, target = np.nonzero(followed)
    return windows[at], target.astype(np.int32), followed[at, target]


def _as_sequence(observed, emitted):
    """Every observation with each of its labels and weights, as one sequence."""
    at, label = np.nonzero(emitted)
    X = [[observed.symbols[i] for i in at.tolist()]]
    return X, [label], [emitted[at, label]], True


def _distinct_labels(y: list, classes: Any) -> np.ndarray:
    """The labels that there can be, sorted: those given, or those of all sequences."""
    code: dict[Any, Any] = {}
    for i, labels in enumerate(y):
        try:
            code.update(dict.fromkeys(_items(labels)))
        except TypeError as exc:
            raise TypeError(f"y[{i}] holds an unhashable label: {exc}") from exc
    code.pop(None, None)
    _refuse_missing("y", code)
    if classes is not None:
        names = _items(range(classes) if isinstance(classes, Integral) else classes)
        try:
            different = len(set(names))
        except TypeError as exc:
            raise TypeError(f"classes holds an unhashable label: {exc}") from exc
        if different != len(names) or not names:
            raise ValueError("classes must hold one label or more, each once")
        _refuse_missing("classes", names)
        integers = _are_integers(names)
        known = set(names)
        for one in code:
            if one not in known and not (integers and one == -1):
                raise ValueError(f"y holds the label {one!r}, which is not in classes")
    else:
        integers = _are_integers(code)
        names = [one for one in code if not (integers and one == -1)]
    if not names:
        raise ValueError(
            "y holds no label to learn from; to learn without labels, name them in "
            "classes"
        )
    try:
        names = sorted(names)
    except TypeError as exc:
        raise TypeError(f"y: the labels must all be of one kind: {exc}") from exc
    if integers and names[0] == -1:
        raise ValueError("classes holds -1, which marks unknown labels; number from 0")
    array = np.asarray(names)
    if array.ndim != 1 or array.tolist() != names:
        return object_array(names)
    return array


def _refuse_missing(name, labels):
    if any(map(is_unknown, labels)):
        raise ValueError(f"{name} holds NaN; an unknown label of y is None")


def _are_integers(names):
    return all(isinstance(one, Integral) and one is not True for one in names)
