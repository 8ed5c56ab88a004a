"""HighOrderHMM: a tagger with exact inference at any order."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._checks import as_random_state, check_count, validate_parts
from .._compat import HasMethods, Interval, StrOptions, _fit_context, check_weights
from .._docs import shared_docs
from .._warnings import warn, warn_once
from ..backoff import BackoffModel
from ..symbols import (
    DEEPEST,
    GIVEN,
    LabelLists,
    check_pairs,
    check_sequences,
    is_unknown,
    items,
    label_ids,
    object_array,
)
from ._candidates import candidate_rows, make_candidates
from ._em import MAX_HISTORIES, maximise
from ._factors import EMISSIONS, Factors
from ._inference import SequenceInference

# Iterations of expectation-maximisation, with and without known labels. _FEW_ITERATIONS
# was tuned on the development part of UD English EWT with 1, 3, 10 and 30 % of the
# sentences labelled: accuracy is largest after 1 to 2 iterations and then falls.
_FEW_ITERATIONS, _MANY_ITERATIONS = 2, 100


class HighOrderHMM(SequenceInference):
    r"""Hidden Markov model of any order with exact inference.

    .. math::
        P(y, o) = \prod_{i=1}^{L+1} P(y_i \mid y_{i-n+1}, \ldots, y_{i-1})
        \prod_{i=1}^{L} p(o_i \mid y_i), \qquad
        y_0 = \langle s\rangle,\ y_{L+1} = \langle /s\rangle

    where n is the order. The transitions are a smoothed back-off model. The states are
    the contexts that this model stores, and not all sequences of n - 1 labels.
    Therefore the most probable labels, the marginal probabilities and the samples are
    exact for any order.

    Parameters
    ----------
    order : int, default=3
        n, from 2 to 2^24 + 1. A label is predicted from the n - 1 labels before it.

    smoothing : estimator or BackoffModel, default=None
        Learns the transitions: any estimator of this package over context windows
        (`KneserNeyLM`, `StructuredLogLinearLM`, ...). None is
        ``KneserNeyLM(discount=(0.5, 1.0, 1.5))``. A fitted `BackoffModel`, for example
        from a file, is not changed, and `order` is ignored.

    emission : str, emission model or classifier, default="suffix"
        "suffix" (words) is ``SuffixEmission()``, "categorical" (symbols)
        ``CategoricalEmission()``, "gaussian" (numbers or vectors)
        ``GaussianEmission()``, "poisson" (counts) ``PoissonEmission()``; a classifier
        is wrapped in a `ClassifierEmission`.

    classes : int or array-like of shape (n_classes,), default=None
        The possible labels; a number n, at most a million, stands for 0..n-1. None: the
        labels of y.

    end : bool, default=True
        Whether the model predicts the end of a sequence, :math:`y_{L+1}`. Use False for
        sequences that can end at any position, such as measurements. If `smoothing` is
        a fitted model, this parameter is ignored.

    max_iter : int or None, default=None
        Largest number of iterations of expectation-maximisation, at least 1. Only
        sequences with unknown labels need iterations. None is 2 if any label is known
        and 100 otherwise. More iterations raise the objective but can lower the
        accuracy, because the meaning of the classes can move away from the labels.

    n_init : int, default=1
        Number of random starts if no label is known, at least 1. The start with the
        best objective is used.

    random_state : int, RandomState instance or None, default=None
        Seed of the random starts.

    transition_weight : float, default=1
        Exponent :math:`\tau` of the transition probabilities, above 0, called language
        model scale in speech recognition. Use a value below 1 if emissions and
        transitions contain the same information. All results are then computed from
        :math:`P(y)^{\tau} p(o \mid y)`, whose sum is not a probability of o. `fit` does
        not use this parameter.

    decoding : {"path", "posterior"}, default="path"
        The result of `predict`: the most probable sequence of labels, or at each
        position the label with the largest marginal probability. The second has the
        largest expected accuracy, but can be an impossible sequence.

    max_states : int, default=1_000_000
        Largest number of states of the lattice of a sequence of up to 1000 positions,
        at least 1, which limits the memory; a longer sequence may have more in
        proportion to its length. If a sequence needs more states, sums, marginals and
        posterior decoding raise an error. The best path is then searched by a beam
        search and by refinement, with a certified gap.

    n_jobs : int or None, default=None
        Number of threads over the sequences. Results do not depend on `n_jobs`.

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
        The objective (see Notes) after each iteration, in nats; it never falls.

    n_iter_ : int
        Iterations of expectation-maximisation; 0 if every label is known.

    See Also
    --------
    NoisyChannelDecoder : Candidates from a channel instead of learned emissions.
    sklstruct.LanguageModel : Models of observed sequences.

    Notes
    -----
    Unknown labels are learned by expectation-maximisation of

    .. math::
        F = \sum_s w_s \log \sum_{y \in Y_s} P(y, o_s) + R ,

    with :math:`Y_s` the labellings that agree with the known labels of sequence s, and
    R the prior of `smoothing` (see below). The weight :math:`w_s` is the
    `sample_weight` of s times the mean over its positions of 1 for a known label and
    0.02 for an unknown label, so that many sequences without labels do not change the
    meaning of the classes. If no label is known in any sequence, the weight is the
    `sample_weight`. The fit ends when an iteration gains at most 1e-5 of F.

    Expected n-grams and emissions are sums over the exact lattice, whose states are all
    histories of n - 1 labels; `smoothing` and `emission` learn from these sums as from
    counts. With ``AdditiveLM`` R is the logarithm of its Dirichlet prior, and with
    ``CategoricalEmission()`` every iteration then raises F. Other smoothers do not
    maximise such an objective. R is then 0, and an iteration that would lower F is
    undone and ends the fit. The factors of `SuffixEmission` and `ClassifierEmission`
    are :math:`p(o \mid y)` up to a number that depends on o alone.

    With some hundred thousand labelled tokens, order 3 or 4 is usually the best, and
    higher orders are not more accurate. See the user guide.

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

    emission_: Any
    order_: int
    objective_: np.ndarray
    n_iter_: int
    _label_of_class: np.ndarray

    _parameter_constraints: dict = {
        "order": [Interval(Integral, 2, DEEPEST + 1, closed="both")],
        "smoothing": [None, HasMethods(["fit"]), BackoffModel],
        "emission": [StrOptions(set(EMISSIONS)), HasMethods(["fit"])],
        "classes": [
            None,
            Interval(Integral, 1, MAX_HISTORIES, closed="both"),
            "array-like",
        ],
        "end": ["boolean"],
        "max_iter": [None, Interval(Integral, 1, None, closed="left")],
        "n_init": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
        "decoding": [StrOptions({"path", "posterior"})],
        **SequenceInference._parameter_constraints,
    }

    def __init__(
        self,
        order: int = 3,
        *,
        smoothing: Any = None,
        emission: Any = "suffix",
        classes: ArrayLike | int | None = None,
        end: bool = True,
        max_iter: int | None = None,
        n_init: int = 1,
        random_state: int | np.random.RandomState | None = None,
        transition_weight: float = 1.0,
        decoding: str = "path",
        max_states: int = 1_000_000,
        n_jobs: int | None = None,
    ):
        super().__init__(transition_weight, max_states, n_jobs)
        self.order = order
        self.smoothing = smoothing
        self.emission = emission
        self.classes = classes
        self.end = end
        self.max_iter = max_iter
        self.n_init = n_init
        self.random_state = random_state
        self.decoding = decoding

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
            Sequences of any lengths; the type of an observation depends on `emission`.
            None or NaN is a missing observation.

        y : list of sequences of labels, default=None
            Sequences of labels with the lengths of the sequences of X. An unknown label
            is None, or -1 if labels are integers; None for a sequence means that all
            its labels are unknown. With y=None all labels are unknown, and `classes`
            must be given.

        sample_weight : array-like of shape (n_sequences,), default=None
            Weight of each sequence: finite, at least 0. A sequence of weight n counts
            as n sequences; a sequence of weight 0 is left out.

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
            If X or y is not a list of sequences.

        Warns
        -----
        ConvergenceWarning
            If expectation-maximisation has not converged after `max_iter` iterations,
            unless `max_iter` is None and a label is known.
        """
        validate_parts(self.smoothing, self.emission)
        X = check_sequences(X)
        if y is None and self.classes is None:
            raise ValueError(
                "y is None, but the labels of every sequence are needed; to learn "
                "without labels, name them in classes"
            )
        X, y = check_pairs(X, [[None] * len(x) for x in X] if y is None else y)
        weight = None if sample_weight is None else check_weights(sample_weight, X)
        if weight is not None and not weight.all():
            X, y = ([s for s, w in zip(part, weight) if w] for part in (X, y))
            weight = weight[weight > 0]
        classes = _distinct_labels(y, self.classes)
        if not X:
            raise ValueError("X must have at least one sequence")
        ids = label_ids(y, classes)
        factors = Factors(self.smoothing, self.emission, self.order, classes, self.end)
        if all(some.min(initial=0) >= 0 for some in ids):
            model, emission = factors.of_labels(X, ids, weight)
            objective: list[float] = []
        else:
            some_known = any((some >= 0).any() for some in ids)
            max_iter = self.max_iter
            if max_iter is None:
                max_iter = _FEW_ITERATIONS if some_known else _MANY_ITERATIONS
            weight = np.ones(len(X)) if weight is None else weight
            with warn_once():  # of the smoothers of all iterations
                model, emission, objective, converged = maximise(
                    factors, X, ids, weight, self, max_iter
                )
            if not converged and not (some_known and self.max_iter is None):
                warn(
                    "expectation-maximisation still gains after "
                    f"max_iter={max_iter} iterations; raise max_iter",
                    ConvergenceWarning,
                )
        label_of_class = np.full(model.n_classes, -1, dtype=np.int64)
        label_of_class[factors.class_of_label] = np.arange(len(classes))
        return self._set_fitted(
            classes_=classes,
            transition_model_=model,
            emission_=emission,
            objective_=np.array(objective),
            n_iter_=len(objective),
            order_=model.order,
            _class_of_label=factors.class_of_label,
            _label_of_class=label_of_class,
        )

    def _read(self, X):
        rows = candidate_rows(self.emission_, X, len(self.classes_))
        class_of = self._class_of_label
        everything = class_of, np.zeros(len(class_of))
        same = np.array_equal(class_of, np.arange(len(class_of)))

        def of_classes(row):
            if row is None:
                return everything
            return row if same else (class_of[row[0]], row[1])

        approximate = self.emission_.approximate_
        return [([*map(of_classes, some)], approximate) for some in rows]

    def _labels(self, ids, sequence):
        return self.classes_[self._label_of_class[ids]]

    def _predict(self, X, given):
        if self.decoding == "path":
            return super()._predict(X, given)
        found = []
        for rows in self.predict_proba(X, given):
            best = self.classes_[rows.argmax(axis=1)].tolist()
            found.append(best if rows.any() else [None] * len(best))
        return found

    @shared_docs(given=GIVEN)
    def predict_proba(self, X: Sequence, given: Sequence | None = None) -> np.ndarray:
        """Exact marginal probabilities of the labels at each position.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        {given}

        Returns
        -------
        proba : object ndarray of shape (n_sequences,)
            One array of shape (length, n_classes) per sequence, columns in the order of
            `classes_`. Rows sum to 1; they are 0 if no labelling is possible.

        Raises
        ------
        ValueError
            If a sequence needs more than `max_states` states, or if `given` does not
            fit X or leaves a sequence no possible labelling.
        """
        _, sentences, _ = self._sentences(X, given)
        out = []
        for c, marginals in zip(sentences, self._marginals(sentences, given)):
            rows = np.zeros((c.length, len(self.classes_)))
            n = int(c.ptr[c.length])
            position = np.repeat(np.arange(c.length), np.diff(c.ptr[: c.length + 1]))
            rows[position, self._label_of_class[c.ids[:n]]] = marginals[:n]
            out.append(rows)
        return object_array(out)

    def joint_log_proba(self, X: Sequence, y: Sequence) -> np.ndarray:
        """Natural logarithm of P(y, o) for given labels and observations.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        y : list of sequences of labels
            A label in `classes_` for each observation.

        Returns
        -------
        log_proba : ndarray of shape (n_sequences,)
            -inf for labels of probability 0; never NaN.

        Raises
        ------
        ValueError
            If a label is not in `classes_`, or X and y do not fit.
        """
        check_is_fitted(self, "transition_model_")
        X, y = check_pairs(X, y)
        end = self._automaton.end_class
        sentences = []
        known = label_ids(y, self.classes_)
        for i, (some, (positions, _)) in enumerate(zip(known, self._read(X))):
            if (some < 0).any():
                raise ValueError(
                    f"y[{i}] holds an unknown label; log_likelihood with given sums "
                    "over all labels there"
                )
            wanted = zip(self._class_of_label[some], positions)
            chosen = [(x[x == one], factor[x == one]) for one, (x, factor) in wanted]
            sentences.append(make_candidates(chosen, end))
        # One candidate per position: the only path of its lattice.
        return np.array(
            self._map(lambda s, c: s.lattice.decode(c).log_proba + c.shift, sentences),
            dtype=np.float64,
        )

    def sample(
        self,
        n_sequences: int = 1,
        *,
        max_length: int = 100,
        random_state: int | np.random.RandomState | None = None,
    ) -> tuple[list, list]:
        """Draw sequences of labels and observations.

        Parameters
        ----------
        n_sequences : int, default=1
            At least 0.

        max_length : int, default=100
            A longer sequence is cut after this many labels. If the model does not
            predict an end, all sequences have this length.

        random_state : int, RandomState, Generator or None, default=None
            Source of the random numbers.

        Returns
        -------
        X : list of list of observations
            Observations from ``emission_.sample``.

        y : list of list of labels
            The labels.

        Raises
        ------
        ValueError
            If the emission model cannot be drawn from, or a label is drawn whose
            observations `fit` has not seen.
        """
        draw = self._of_emission("sample")
        n = check_count("n_sequences", n_sequences, 0)
        max_length = check_count("max_length", max_length, 1)
        rng = as_random_state(random_state)
        model = self.transition_model_
        states, ids = model.begin(n), np.full((n, max_length), -1, dtype=np.int64)
        alive = np.arange(n)
        for t in range(max_length):
            drawn = model.draw(states, rng.random_sample(len(alive)))
            goes_on = self._label_of_class[drawn] >= 0
            alive, drawn = alive[goes_on], drawn[goes_on]
            if not len(alive):
                break
            ids[alive, t] = self._label_of_class[drawn]
            symbols = model.labels.symbol_of_class[drawn]
            states = model.follow(states[goes_on], symbols)
        lengths = (ids >= 0).sum(axis=1)
        flat = ids[ids >= 0]
        bounds = [0, *np.cumsum(lengths).tolist()]
        X, y = draw(flat, rng), self.classes_[flat].tolist()
        parts = [slice(*pair) for pair in itertools.pairwise(bounds)]
        return [X[part] for part in parts], LabelLists(y[part] for part in parts)

    def aic(self, X: Sequence) -> float:
        r"""Akaike's information criterion: smaller is better.

        :math:`2 p - 2 \log P(X)` with p free parameters: of the transitions after
        each stored history of n - 1 labels (shorter after the start), and of the
        emission model.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        Returns
        -------
        aic : float
            In nats, over all sequences.

        Raises
        ------
        ValueError
            If the emission model does not know its number of parameters.
        """
        return float(2 * self._n_parameters() - 2 * self.log_likelihood(X).sum())

    def bic(self, X: Sequence) -> float:
        r"""Bayesian information criterion: smaller is better.

        :math:`p \log N - 2 \log P(X)` with N observations, and p as in :meth:`aic`.

        Parameters
        ----------
        X : list of sequences of observations
            None or NaN is a missing observation.

        Returns
        -------
        bic : float
            In nats, over all sequences.

        Raises
        ------
        ValueError
            If the emission model does not know its number of parameters.
        """
        n = sum(map(len, check_sequences(X)))
        log_n = np.log(max(n, 1))
        return float(self._n_parameters() * log_n - 2 * self.log_likelihood(X).sum())

    def _n_parameters(self):
        emissions = self._of_emission("n_parameters")()
        automaton = self._automaton
        full = automaton.depth == self.order_ - 1
        if automaton.start_symbol >= 0:
            # The oldest symbol of a history after the start is the start.
            full |= automaton.tree.symbol == automaton.start_symbol
        return int(full.sum()) * (automaton.n_classes - 1) + emissions

    def _of_emission(self, method):
        check_is_fitted(self, "transition_model_")
        if not hasattr(self.emission_, method):
            raise ValueError(
                f"emission: {type(self.emission_).__name__} has no method {method}; "
                "CategoricalEmission, GaussianEmission and PoissonEmission have it"
            )
        return getattr(self.emission_, method)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = self.classes is None
        return tags


def _distinct_labels(y: list, classes: Any) -> np.ndarray:
    """The possible labels, sorted: the given classes, or the labels of all
    sequences."""
    code: dict[Any, Any] = {}
    for i, labels in enumerate(y):
        code |= _once(f"y[{i}]", labels)
    code.pop(None, None)
    if any(map(is_unknown, code)):
        raise ValueError("y holds NaN; an unknown label of y is None")
    names = list(code)
    if classes is not None:
        names = items(range(classes) if isinstance(classes, Integral) else classes)
        known = _once("classes", names)
        if len(known) != len(names) or not names:
            raise ValueError("classes must hold one label or more, each once")
        if any(map(is_unknown, names)):
            raise ValueError("classes holds NaN or None, which mark unknown labels")
    kinds: set[type] = set(map(type, names))
    integers = bool not in kinds and all(issubclass(k, Integral) for k in kinds)
    if integers:
        code.pop(-1, None)
    if classes is None:
        names = list(code)
    elif new := [one for one in code if one not in known]:
        raise ValueError(f"y holds the label {new[0]!r:.60}, which is not in classes")
    if not names:
        raise ValueError(
            "y holds no label to learn from; to learn without labels, name them in "
            "classes"
        )
    try:
        names = sorted(names)
    except TypeError as exc:
        if len(kinds) > 1:
            raise TypeError(f"y: the labels must all be of one kind: {exc}") from exc
        names = sorted(names, key=repr)  # such as members of an Enum
    if integers and names[0] == -1:
        raise ValueError("classes holds -1, which marks unknown labels; number from 0")
    array = np.asarray(names)
    if array.ndim != 1 or array.tolist() != names:
        return object_array(names)
    return array


def _once(name, labels):
    """Distinct labels in their order, as the keys of a dictionary."""
    try:
        return dict.fromkeys(labels)
    except TypeError as exc:
        raise TypeError(f"{name} holds an unhashable label: {exc}") from exc
