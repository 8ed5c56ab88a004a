"""HighOrderHMM: a tagger with exact inference at any order."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._compat import BaseEstimator, HasMethods, Interval, StrOptions, _fit_context
from ..backoff import BackoffModel
from ..smoothing import KneserNeyLM
from ..symbols import Labels, context_windows, prepare_for_ids
from ..symbols._sentences import DEEPEST
from ._candidates import check_rows, make_candidates
from ._emissions import ClassifierEmission, Emission, FrequencyEmission, SuffixEmission
from ._inference import SequenceInference
from ._sequences import check_pairs, object_array

SOLVER_CONSTRAINTS = {
    "transition_weight": [Interval(Real, 0, None, closed="neither")],
    "solver": [StrOptions({"auto", "lattice", "refine"})],
    "tol": [Interval(Real, 0, None, closed="left")],
    "max_iter": [Interval(Integral, 0, None, closed="left")],
    "max_states": [Interval(Integral, 1, None, closed="left")],
    "n_jobs": [None, Integral],
}


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

    transition_weight : float, default=1
        Power of the transition probabilities, above 0: the language model scale of
        speech recognition. Below 1 where emissions and transitions count the same
        evidence twice. All answers are then about
        :math:`P(y)^{\tau} p(o \mid y)`, whose sum is no probability of o.

    solver : {"auto", "lattice", "refine"}, default="auto"
        "lattice": the exact minimised lattice. "refine": refinement of an upper
        bound, which can be stopped early with a certified gap. It is far slower
        than the lattice where many positions have many candidates, and warns of it.
        "auto": the lattice, and refinement for sentences that pass `max_states`.
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

    See Also
    --------
    NoisyChannelDecoder : Candidates from a channel instead of learnt emissions.
    sklstruct.LanguageModel : Models of sequences that are observed.

    Notes
    -----
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
    >>> tagger.predict([["the", "dogs", "sat"]])[0].tolist()
    ['D', 'N', 'V']
    >>> tagger.predict_proba([["the", None]])[0].shape
    (2, 3)
    """

    _parameter_constraints: dict = {
        "order": [Interval(Integral, 2, DEEPEST + 1, closed="both")],
        "smoothing": [None, HasMethods(["fit"]), BackoffModel],
        "emission": [StrOptions({"suffix", "mle"}), HasMethods(["fit"])],
        **SOLVER_CONSTRAINTS,
    }

    def __init__(
        self,
        order: int = 3,
        *,
        smoothing: Any = None,
        emission: Any = "suffix",
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
        self.transition_weight = transition_weight
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.max_states = max_states
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Sequence, y: Sequence) -> HighOrderHMM:
        """Learn transitions and emissions from labelled sequences.

        Parameters
        ----------
        X : list of sequences of observations
            Of any lengths; what an observation is depends on `emission`. None or NaN
            is a missing one.

        y : list of sequences of labels
            As long as those of X.

        Returns
        -------
        self : HighOrderHMM

        Raises
        ------
        ValueError
            If X and y do not fit, there is no label, or a label is unknown to the
            transition model.
        TypeError
            If X or y is no list of sequences.
        """
        X, y = check_pairs(X, y)
        self.classes_ = _distinct_labels(y)
        code = {name: i for i, name in enumerate(self.classes_.tolist())}
        ids = [
            np.array([code[one] for one in _items(labels)], dtype=np.int32)
            for labels in y
        ]
        vars(self).pop("_automaton_cache", None)
        self.transition_model_, self._class_of_label = self._fit_transitions(ids)
        self._label_of_class = np.full(
            self.transition_model_.n_classes, -1, dtype=np.int64
        )
        self._label_of_class[self._class_of_label] = np.arange(len(self.classes_))
        self.order_ = self.transition_model_.order
        emission = self.emission
        if isinstance(emission, str):
            emission = SuffixEmission() if emission == "suffix" else FrequencyEmission()
        elif not isinstance(emission, Emission):
            emission = ClassifierEmission(emission)
        self.emission_ = clone(emission).fit(X, ids, len(self.classes_))
        return self

    def _fit_transitions(self, ids):
        """A model of the label sequences, and the class id of each label in it."""
        n = len(self.classes_)
        if isinstance(self.smoothing, BackoffModel):
            model = self.smoothing
            index = {c: i for i, c in enumerate(model.labels.classes.tolist())}
            for one in self.classes_.tolist():
                if one not in index or one == model.labels.end:
                    raise ValueError(
                        f"y holds the label {one!r}, which smoothing, a fitted "
                        "model, does not predict"
                    )
            return model, np.array(
                [index[c] for c in self.classes_.tolist()], dtype=np.int32
            )
        names = self.classes_.tolist()
        start, end = _new_mark("<s>", names), _new_mark("</s>", names)
        classes = object_array([*names, end])
        labels = Labels(classes, object_array([*names, start]), start=start, end=end)
        # Ids of the windows: the labels, n for the start, n + 1 for the end.
        w = context_windows(
            [a.tolist() for a in ids], self.order - 1, start=n, end=n + 1
        )
        smoothing = self.smoothing
        if smoothing is None:
            smoothing = KneserNeyLM(discount=(0.5, 1.0, 1.5))
        estimator = clone(smoothing)
        prepare_for_ids(estimator, labels)
        # As a class the end has the id n; windows before a start have no weight.
        targets = np.where(w.targets > n, n, w.targets)
        estimator.fit(w.contexts, targets, sample_weight=w.sample_weight)
        model = getattr(estimator, "backoff_model_", None)
        if model is None:
            raise TypeError(
                f"smoothing: {type(estimator).__name__} fits no back-off model; "
                "use an estimator such as KneserNeyLM or StructuredLogLinearLM"
            )
        symbols = object_array([*names, start, end])
        symbols = symbols[model.labels.symbols.astype(np.int64)]
        model = model.relabel(Labels(classes, symbols, start=start, end=end))
        return model, np.arange(n, dtype=np.int32)

    def _read(self, X):
        emission = self.emission_
        if hasattr(emission, "batch_candidates"):
            rows = emission.batch_candidates(X)
        else:
            rows = [emission.candidates(sequence) for sequence in X]
        everything = self._class_of_label, np.zeros(len(self._class_of_label))
        same = np.array_equal(
            self._class_of_label, np.arange(len(self._class_of_label))
        )
        read = []
        for some in check_rows("emission", X, rows, len(self.classes_)):
            positions = [
                everything
                if row is None
                else (row if same else (self._class_of_label[row[0]], row[1]))
                for row in some
            ]
            read.append((positions, emission.approximate_))
        return read

    def _labels(self, ids, sequence):
        return self.classes_[self._label_of_class[ids]]

    def predict_proba(self, X: Sequence) -> np.ndarray:
        """Exact marginal probabilities of the labels at each position.

        Parameters
        ----------
        X : list of sequences of observations

        Returns
        -------
        proba : object ndarray of shape (n_sequences,)
            One array of shape (length, n_classes) a sequence, columns in the order of
            `classes_`. Rows sum to 1; they are 0 where no labelling is possible.

        Raises
        ------
        ValueError
            If a sentence needs more than `max_states` states.
        """
        X, sentences, _ = self._sentences(X)
        found = self._map(lambda s, i, c: s.lattice.sums(c).marginals(), sentences)
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
        code = {name: i for i, name in enumerate(self.classes_.tolist())}
        end = self._automaton.end_class
        sentences = []
        for i, (labels, (positions, _)) in enumerate(zip(y, self._read(X))):
            chosen = []
            for one, (ids, factor) in zip(_items(labels), positions):
                if one not in code:
                    raise ValueError(f"y[{i}] holds {one!r}, which is not in classes_")
                at = np.flatnonzero(ids == self._class_of_label[code[one]])
                chosen.append((ids[at], factor[at]))
            sentences.append(make_candidates(chosen, end))
        # One candidate a position: the only path of its lattice.
        return np.array(
            self._map(lambda s, i, c: s.lattice.decode(c).log_proba, sentences),
            dtype=np.float64,
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.input_tags.two_d_array = False
        return tags


def _distinct_labels(y: list) -> np.ndarray:
    """The labels of all sequences, sorted."""
    code: dict[Any, Any] = {}
    for i, labels in enumerate(y):
        for one in labels:
            try:
                code.setdefault(one)
            except TypeError as exc:
                raise TypeError(f"y[{i}] holds an unhashable label: {exc}") from exc
    if not code:
        raise ValueError("y holds no label to learn from")
    try:
        names = sorted(code)
    except TypeError as exc:
        raise TypeError(f"y: the labels must all be of one kind: {exc}") from exc
    if names[0] is None or names[-1] != names[-1]:
        raise ValueError("y holds a missing label (None or NaN)")
    classes = np.asarray(names)
    if classes.ndim != 1 or classes.tolist() != names:
        return object_array(names)
    return classes


def _items(sequence):
    return sequence.tolist() if isinstance(sequence, np.ndarray) else list(sequence)


def _new_mark(mark, names):
    """A mark that is no label; any value does where labels are no strings."""
    while mark in names:
        mark = f"<{mark}>"
    return mark
