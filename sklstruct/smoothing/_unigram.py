"""Unigram smoothers: a distribution over the classes from their counts alone."""

from __future__ import annotations

import warnings
from abc import abstractmethod
from functools import cached_property
from numbers import Integral, Real

import numpy as np
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _num_samples,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from .._compat import Interval, StrOptions, _fit_context
from ..backoff import BackoffModel
from ..backoff._estimator import BackoffClassifier, read_sample_weight
from ..context_tree._symbols import encode_labels
from . import _smoothing_fast as _fast
from ._base import BASE_CONSTRAINT, base_distribution
from ._discount import DISCOUNT_CONSTRAINT, check_discount, find_discounts


def check_counts(counts):
    """Counts as a float64 vector, finite, not negative, not all zero."""
    try:
        counts = np.ascontiguousarray(counts, dtype=np.float64)
    except (TypeError, ValueError) as exc:
        raise ValueError(f"counts must be numbers: {exc}") from exc
    if counts.ndim != 1:
        raise ValueError(
            f"counts must be 1-dimensional, one number a class, got {counts.ndim} "
            "dimensions"
        )
    if counts.size == 0:
        raise ValueError("counts is empty: there is nothing to learn from")
    if not counts.min() >= 0:  # NaN too
        i = int(np.argmin(counts >= 0))
        raise ValueError(f"counts[{i}] = {counts[i]:g}: counts must not be negative")
    total = counts.sum()
    if not 0 < total < np.inf:
        raise ValueError(
            "counts are all zero: there is nothing to learn from"
            if total == 0
            else "counts must be finite"
        )
    return counts


class UnigramClassifier(BackoffClassifier):
    """Base of the unigram smoothers: subclasses define `_smooth`.

    X matters to none of its methods but for its length.
    """

    def fit(self, X, y, sample_weight=None) -> UnigramClassifier:
        """Fit the distribution to the targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Ignored beyond its length.
        y : array-like of shape (n_samples,)
            The symbols.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, fractional or not; weight 0 is as if absent,
            weight 2 as a repetition.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If a target is not in `classes`, or a weight is negative.
        """
        return self._fit(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X, y, sample_weight):
        validate_data(self, X, skip_check_array=True)
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but "
                "the target y is None"
            )
        y = column_or_1d(y, warn=True)
        check_classification_targets(y)
        if y.shape[0] != _num_samples(X):
            raise ValueError(
                f"X and y have inconsistent numbers of samples: {_num_samples(X)} and "
                f"{y.shape[0]}"
            )
        keep, sample_weight = read_sample_weight(sample_weight, y)
        if keep is not None:
            y = y[keep]
        target = self._read_targets(y)
        counts = np.bincount(target, sample_weight, minlength=self.classes_.size)
        return self._fit_counts(check_counts(counts))

    def from_counts(self, counts, classes=None) -> UnigramClassifier:
        """Fit the distribution to counts.

        Parameters
        ----------
        counts : array-like of shape (n_classes,)
            How often each class occurred; not negative, fractional or not. Zeros
            are the unseen classes of a closed vocabulary.
        classes : array-like of shape (n_classes,), default=None
            The classes, sorted; the parameter `classes` is not looked at. None:
            0, 1, ..., n_classes - 1.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If counts are empty, negative, all zero or not finite, or classes are
            not sorted.
        """
        self._validate_params()
        counts = check_counts(counts)
        if classes is None:
            self.classes_ = np.arange(counts.size, dtype=np.int32)
        else:
            classes = column_or_1d(np.asarray(classes))
            if classes.size != counts.size:
                raise ValueError(
                    f"there are {counts.size} counts for {classes.size} classes"
                )
            if not (classes[:-1] < classes[1:]).all():
                i = int(np.argmin(classes[:-1] < classes[1:]))
                raise ValueError(
                    "classes must be sorted and different, but "
                    f"{classes[i]!r} comes before {classes[i + 1]!r}; sort counts "
                    "(and the rows of a graph) with them"
                )
            self.classes_ = classes
        return self._fit_counts(counts)

    def _fit_counts(self, counts):
        self._check_params()
        self.counts_ = counts
        self.depth_ = 0
        vars(self).pop("backoff_model_", None)
        self.proba_ = self._smooth(counts)
        return self

    @abstractmethod
    def _smooth(self, counts):
        """A new array with P of each class."""

    def _fit_tree(self, tree):
        raise NotImplementedError("unigram smoothers need no tree")

    # ----------------------------------------------------------- fitted state

    @cached_property
    def backoff_model_(self) -> BackoffModel:
        """The distribution as a back-off model without contexts."""
        # Made when it is asked for: its labels cost more than the fit.
        check_is_fitted(self, "proba_")
        n_classes = self.proba_.size
        with np.errstate(divide="ignore"):
            log_prob = np.log(self.proba_)
        return BackoffModel(
            parent=[-1],
            symbol=[-1],
            level_ptr=[0, 1],
            child_ptr=[1, 1],
            pair_ptr=[0, n_classes],
            target=np.arange(n_classes, dtype=np.int32),
            log_prob=log_prob,
            log_backoff=[0.0],
            classes=self.classes_,
            symbols=self.classes_,
        )

    @property
    def _groups(self):
        return np.unique(self.counts_, return_inverse=True, return_counts=True)

    @property
    def count_values_(self):
        """The different counts of the classes, rising."""
        return self._groups[0]

    @property
    def count_sizes_(self):
        """r_j, the number of classes with each of the counts `count_values_`."""
        return self._groups[2]

    @property
    def count_mass_(self):
        """Total probability of the classes with each of `count_values_`."""
        _, group, _ = self._groups
        return np.bincount(group, self.proba_)

    @property
    def unseen_mass_(self):
        """Total probability of the classes with count 0."""
        return float(self.proba_[self.counts_ == 0].sum())

    # ------------------------------------------------------------- prediction

    def _find_nodes(self, X):
        check_is_fitted(self, "proba_")
        return np.zeros(_num_samples(X), dtype=np.int32)

    def predict_log_proba(self, X):
        """Natural logarithm of P(y) for every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Ignored beyond its length.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Equal rows, in the order of ``classes_``.
        """
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    def predict_proba(self, X):
        """P(y) for every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Ignored beyond its length.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Equal rows, in the order of ``classes_``.
        """
        n = self._find_nodes(X).size
        return np.tile(self.proba_, (n, 1))

    def target_log_proba(self, X, y):
        """Natural logarithm of P(y) for given targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Ignored beyond its length.
        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        log_proba : ndarray of shape (n_samples,)
            NaN where y is not in ``classes_``.
        """
        n = self._find_nodes(X).size
        target, _ = encode_labels(column_or_1d(y), self.classes_)
        if target.size != n:
            raise ValueError(
                f"X and y have inconsistent numbers of samples: {n} and {target.size}"
            )
        with np.errstate(divide="ignore"):
            return np.where(target >= 0, np.log(self.proba_[target]), np.nan)

    def predict(self, X):
        """The most probable class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Ignored beyond its length.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        n = self._find_nodes(X).size
        return np.repeat(self.classes_[[self.proba_.argmax()]], n)

    def __sklearn_is_fitted__(self):
        return "proba_" in vars(self)

    def __sklearn_tags__(self):
        tags = super(BackoffClassifier, self).__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.poor_score = True
        tags.no_validation = True
        return tags


class AdditiveUnigram(UnigramClassifier):
    r"""Unigram distribution with additive smoothing (Laplace, Lidstone, Jeffreys).

    .. math::
        P(y) = \frac{c(y) + \delta V P_0(y)}{n + \delta V}

    for n samples over V classes, with :math:`P_0` the distribution `base`.

    Parameters
    ----------
    delta : float, default=1.0
        What is added to each count, positive.

    base : "uniform" or unigram estimator, default="uniform"
        What is added follows this distribution.

    classes : array-like of shape (n_classes,), default=None
        The closed vocabulary; None: the targets seen in `fit`.

    Attributes
    ----------
    proba_ : ndarray of shape (n_classes,)
        P(y).

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
    AbsoluteDiscountUnigram, GoodTuringUnigram, GraphDiffusionUnigram

    Examples
    --------
    >>> from sklstruct.smoothing import AdditiveUnigram
    >>> AdditiveUnigram().from_counts([5, 2, 1, 0]).proba_.round(4).tolist()
    [0.5, 0.25, 0.1667, 0.0833]
    """

    _parameter_constraints: dict = {
        "delta": [Interval(Real, 0, None, closed="neither")],
        "base": BASE_CONSTRAINT,
        "classes": [None, "array-like"],
    }

    def __init__(self, delta=1.0, *, base="uniform", classes=None):
        self.delta = delta
        self.base = base
        self.classes = classes

    def _smooth(self, counts):
        mass = self.delta * counts.size
        base = base_distribution(self.base, counts, self.classes_)
        return (counts + mass * base) / (counts.sum() + mass)


class AbsoluteDiscountUnigram(UnigramClassifier):
    r"""Unigram distribution with absolute discounting.

    .. math::
        P(y) = \frac{c(y) - D(c(y))}{n} + \gamma P_0(y), \qquad
        \gamma = \frac{1}{n} \sum_y D(c(y)),

    with :math:`P_0` the distribution `base`: the unigram level of `KneserNeyLM`.

    Parameters
    ----------
    discount : {"modified", "single"}, float or sequence of float, default="single"
        The discounts D; see `KneserNeyLM`.

    base : "uniform" or unigram estimator, default="uniform"
        Where the discounted mass goes.

    classes : array-like of shape (n_classes,), default=None
        The closed vocabulary; None: the targets seen in `fit`.

    Attributes
    ----------
    proba_ : ndarray of shape (n_classes,)
        P(y).

    discounts_ : ndarray of shape (n_discounts,)
        Discounts of the counts 1, 2, ...

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

    References
    ----------
    .. [1] H. Ney, U. Essen, R. Kneser, "On structuring probabilistic dependences in
       stochastic language modelling", Computer Speech & Language 8, 1994.

    Examples
    --------
    >>> from sklstruct.smoothing import AbsoluteDiscountUnigram
    >>> model = AbsoluteDiscountUnigram(discount=0.5).from_counts([5, 2, 1, 0])
    >>> model.proba_.round(4).tolist()
    [0.6094, 0.2344, 0.1094, 0.0469]
    """

    _parameter_constraints: dict = {
        "discount": DISCOUNT_CONSTRAINT,
        "base": BASE_CONSTRAINT,
        "classes": [None, "array-like"],
    }

    def __init__(self, discount="single", *, base="uniform", classes=None):
        self.discount = discount
        self.base = base
        self.classes = classes

    def _check_params(self):
        check_discount(self.discount, strict=False)

    def _smooth(self, counts):
        discounts = find_discounts(
            self.discount, [counts], strict=False, owner=type(self).__name__
        )
        self.discounts_ = discounts[0]
        base = base_distribution(self.base, counts, self.classes_)
        proba = np.empty(counts.size)
        # A tree of the root alone; the parents of its pairs are not looked at.
        _fast.interpolate(
            np.array([0, 1]),
            np.array([0, counts.size], dtype=np.int32),
            np.full(1, -1, dtype=np.int32),
            counts,
            discounts,
            base,
            0,
            proba,
            np.empty(1),
        )
        return proba


class GoodTuringUnigram(UnigramClassifier):
    r"""Unigram distribution by the Good-Turing estimate for small counts.

    .. math::
        P(y) = \frac{k + 1}{n}\,\frac{r_{k+1}}{r_k} \quad (c(y) = k < M), \qquad
        P(y) = (1 - \epsilon)\,\frac{c(y)}{n} \quad (c(y) \ge M),

    with :math:`r_k` the number of classes of count k and :math:`\epsilon` such that the
    sum is 1. The unseen classes together get the mass :math:`r_1 / n` of those seen
    once.

    Parameters
    ----------
    max_count : int, default=7
        M; counts from here on are only scaled. Between 5 and 10 is usual.

    gaps : {"lower", "smooth"}, default="lower"
        What to do where some :math:`r_k` is 0 for k ≤ M. ``"lower"`` lowers M to below
        the first gap, with a warning. ``"smooth"`` takes :math:`r_k` from the
        regression of log :math:`r_k` (spread over the gaps next to it) on log k, for
        all seen classes, and scales them to :math:`1 - r_1 / n` [2]_.

    floor : float, default=0.0
        Share of the uniform distribution that is mixed in, in [0, 1). Where no class
        was seen once, the unseen ones have no probability without it.

    classes : array-like of shape (n_classes,), default=None
        The closed vocabulary; None: the targets seen in `fit`.

    Attributes
    ----------
    proba_ : ndarray of shape (n_classes,)
        P(y).

    max_count_ : int
        M as used.

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

    Notes
    -----
    Fractional counts: :math:`r_k` and P are interpolated linearly between integers.

    References
    ----------
    .. [1] I. J. Good, "The population frequencies of species and the estimation of
       population parameters", Biometrika 40, 1953.
    .. [2] W. A. Gale, G. Sampson, "Good-Turing frequency estimation without tears",
       Journal of Quantitative Linguistics 2, 1995.

    Examples
    --------
    Three of ten tokens occurred once, so the two unseen classes share 3/10.

    >>> from sklstruct.smoothing import GoodTuringUnigram
    >>> model = GoodTuringUnigram(max_count=1).from_counts([5, 2, 1, 1, 1, 0, 0])
    >>> model.proba_[-2:].round(4).tolist()
    [0.15, 0.15]
    """

    _parameter_constraints: dict = {
        "max_count": [Interval(Integral, 1, None, closed="left")],
        "gaps": [StrOptions({"lower", "smooth"})],
        "floor": [Interval(Real, 0, 1, closed="left")],
        "classes": [None, "array-like"],
    }

    def __init__(self, max_count=7, *, gaps="lower", floor=0.0, classes=None):
        self.max_count = max_count
        self.gaps = gaps
        self.floor = floor
        self.classes = classes

    def _smooth(self, counts):
        n = counts.sum()
        r = np.zeros(self.max_count + 1)
        _fast.counts_of_counts(counts, r)
        if self.gaps == "smooth":
            proba = self._smoothed(counts, n, r)
        else:
            proba = self._lowered(counts, n, r)
        return add_floor(proba / proba.sum(), self.floor)

    def _lowered(self, counts, n, r):
        k = np.arange(r.size)
        # Mass of the counts k and above, k times their number.
        above = n - np.concatenate([[0.0], np.cumsum(k * r)[:-1]])
        # Rounding of the sum may leave something where nothing is.
        valid = (r > 0) & (above - k * r > 1e-12 * n)
        M = self.max_count
        if not valid[1:].all():
            M = int(np.argmin(valid[1:]))
            what = (
                f"there is no class with count {M + 1}"
                if r[M + 1] <= 0
                else f"no count is above {M + 1}"
            )
            warnings.warn(
                f"GoodTuringUnigram: {what}, so max_count={self.max_count} is lowered "
                f"to {M}"
                + (
                    " (no smoothing: unseen classes get no probability but `floor`)"
                    if M == 0 and r[0] > 0
                    else ""
                )
                + "; gaps='smooth' uses the smoothed counts of counts instead.",
                UserWarning,
                stacklevel=2,
            )
        self.max_count_ = M
        scale = 1.0 - M * r[M] / above[M] if M else 1.0
        # P at the integers 0 ... M; a straight line from M on.
        table = np.empty(M + 1)
        table[M] = scale * M / n
        if M:
            low = np.maximum(r[:M], np.finfo(float).tiny)  # r_0 = 0: nobody's row
            table[:M] = (k[:M] + 1) * r[1 : M + 1] / low / n
            if r[0] <= 0:
                table[0] = 0.0
        proba = np.interp(counts, np.arange(M + 1), table)
        large = counts > M
        proba[large] = counts[large] * (scale / n)
        return proba

    def _smoothed(self, counts, n, r):
        M = self.max_count_ = self.max_count
        line = _log_linear(counts)
        k = np.arange(M + 1)
        table = k / n
        if line is not None:
            # Above -1 the line would not discount: then counts stay as they are.
            slope = min(line[0], -1.0)
            j = k[1:M]
            # (k + 1) S(k + 1) / S(k) with log S(k) = a + b log k
            table[1:M] = (j + 1) * ((j + 1) / j) ** slope / n
        unseen = counts == 0
        left = 0.0
        if unseen.any():
            once = r[1]
            if once <= 0 and line is not None:
                once = min(np.exp(line[1]), 0.5 * n)
            left = min(once, (1 - 1e-3) * n) / n
        proba = np.interp(counts, k, table)
        large = counts > M
        proba[large] = counts[large] / n
        proba[unseen] = 0.0
        proba *= (1 - left) / proba.sum()
        if left:
            proba[unseen] = left / np.count_nonzero(unseen)
        return proba


def _log_linear(counts):
    """(slope, intercept) of log Z against log k, or None with fewer than two counts.

    Z averages r_k over the gap between its neighbours (Gale and Sampson, section 6).
    """
    value, size = np.unique(
        np.maximum(np.round(counts[counts > 0]), 1), return_counts=True
    )
    if value.size < 2:
        return None
    below = np.concatenate([[0.0], value[:-1]])
    above = np.concatenate([value[1:], [2 * value[-1] - below[-1]]])
    slope, intercept = np.polyfit(np.log(value), np.log(2 * size / (above - below)), 1)
    return slope, intercept


def add_floor(proba, floor):
    """(1 - floor) P + floor / V, for P that sums to 1."""
    if floor == 0:
        return proba
    return (1 - floor) * proba + floor / proba.size
