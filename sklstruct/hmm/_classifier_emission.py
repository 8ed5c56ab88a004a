"""Emissions by a classifier: its probabilities divided by the prior of the labels."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import clone

from .._checks import as_floats, check_learned
from .._compat import HasMethods, Interval
from ._emissions import RowsEmission, weight_option


class ClassifierEmission(RowsEmission):
    r"""Probabilities of any classifier, divided by the frequencies of the labels.

    .. math::
        \log p(o \mid y) = a\,\bigl(\log P(y \mid o) - b \log P(y)\bigr) +
        \text{const}

    This combines a discriminative classifier with a generative model of the labels.

    Parameters
    ----------
    estimator : classifier
        A classifier with `predict_log_proba` or `predict_proba`. Its samples are the
        observations of all sequences, in order: dicts (with a `DictVectorizer` before
        it), strings, or feature vectors.

    weight : float, default=1
        a, above 0: the weight of the observations relative to the transitions. Tune it
        on data that were not used in `fit`. Weights above 1 suit classifiers with
        features of neighbouring observations, because part of their information is also
        in the transitions.

    prior_weight : float, default=1
        b, in 0..1.

    min_proba : float, default=0
        Labels with a smaller :math:`P(y \mid o)` are not candidates, in 0..1. If it is
        above 0, results are reported as approximate.

    Attributes
    ----------
    estimator_ : classifier
        The fitted clone.

    See Also
    --------
    SuffixEmission : Frequencies of words, and a guess by spelling.

    Notes
    -----
    Calibrate a classifier that overfits before use, because its probabilities are too
    close to 0 and 1.

    References
    ----------
    .. [1] H. Bourlard, N. Morgan, "Connectionist Speech Recognition: A Hybrid
       Approach", Kluwer 1994, section 7.2 (division by priors).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklstruct.hmm import ClassifierEmission
    >>> X = [[[0.0], [0.2], [5.0]], [[5.3], [0.1]]]
    >>> emission = ClassifierEmission(GaussianNB())
    >>> emission = emission.fit(X, [np.array([0, 0, 1]), np.array([1, 0])], 2)
    >>> ids, log_factor = emission.candidates([[[4.9]]])[0][0]
    >>> int(ids[log_factor.argmax()])
    1
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit"])],
        "weight": [Interval(Real, 0, None, closed="neither")],
        "prior_weight": [Interval(Real, 0, 1, closed="both")],
        "min_proba": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        estimator: Any,
        *,
        weight: float = 1.0,
        prior_weight: float = 1.0,
        min_proba: float = 0.0,
    ):
        self.estimator = estimator
        self.weight = weight
        self.prior_weight = prior_weight
        self.min_proba = min_proba

    def _fit(self, observations, label, weight, n_labels):
        self.estimator_ = clone(self.estimator)
        options = {} if weight is None else weight_option(self.estimator_, weight)
        self.estimator_.fit(_stack(observations), label.tolist(), **options)
        check_learned("emission", self.estimator_.classes_, label)
        self._ids = np.asarray(self.estimator_.classes_, dtype=np.int32)
        counts = np.bincount(label, weight, minlength=n_labels)[self._ids]
        self._log_prior = np.log(counts / counts.sum())
        self.approximate_ = self.min_proba > 0

    def _rows(self, observations):
        log_proba = self._log_proba(_stack(observations))
        factor = self.weight * (log_proba - self.prior_weight * self._log_prior)
        if self.min_proba > 0:
            factor[log_proba < np.log(self.min_proba)] = -np.inf
        return factor

    def _log_proba(self, samples):
        """(n_samples, n_classes) log-probabilities of the classifier, checked."""
        # A label with probability 0 is not possible.
        with np.errstate(divide="ignore", invalid="ignore"):
            if hasattr(self.estimator_, "predict_log_proba"):
                found = self.estimator_.predict_log_proba(samples)
                log_proba = as_floats("emission: predict_log_proba", found, 2)
            else:
                found = self.estimator_.predict_proba(samples)
                log_proba = np.log(as_floats("emission: predict_proba", found, 2))
        expected = len(samples), len(self._ids)
        if log_proba.shape != expected:
            raise ValueError(
                f"emission: {type(self.estimator_).__name__} gave probabilities of "
                f"shape {log_proba.shape} for {expected[0]} observations and "
                f"{expected[1]} labels"
            )
        wrong = np.flatnonzero(~(log_proba.max(axis=1) < np.inf))
        if wrong.size:
            raise ValueError(
                f"emission: {type(self.estimator_).__name__} gave the observation "
                f"{samples[wrong[0]]!r:.60} probabilities that are NaN or infinite"
            )
        return log_proba


def _stack(observations):
    """Feature vectors as one array; anything else as a list."""
    if isinstance(observations[0], dict | str):
        return observations
    return np.asarray(observations)
