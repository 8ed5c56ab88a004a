"""Emission models: log-factors of the labels for every observation."""

from __future__ import annotations

from numbers import Integral, Real

import numpy as np
from sklearn.base import BaseEstimator, clone

from .._compat import HasMethods, Interval
from ._sequences import is_missing


class _Emission(BaseEstimator):
    """Base: `fit(X, ids, n_labels)`, then `candidates(sequence)`.

    `ids` holds an array of label ids for each sequence of X; `candidates` gives (label
    ids, log-factors) for every observation, None for one that is missing.
    """

    # Whether candidates may be left out that a bound did not rule out.
    approximate_ = False

    def fit(self, X, ids, n_labels: int):
        """Learn from sequences of observations and their label ids.

        Parameters
        ----------
        X : list of sequences

        ids : list of ndarray
            Label ids 0..n_labels-1, one an observation.

        n_labels : int
            At least 1.

        Returns
        -------
        self : object
        """
        self._validate_params()
        self._fit(X, ids, n_labels)
        return self


def _key(observation):
    try:
        hash(observation)
    except TypeError as exc:
        raise TypeError(
            f"X holds {observation!r:.60}, which is not hashable; this emission model "
            "counts symbols. Pass a classifier as emission for vectors of features"
        ) from exc
    return observation


def _count(X, ids, n_labels):
    """symbol -> counts of labels; missing observations are not counted."""
    code, at, label = {}, [], []
    for sequence, some in zip(X, ids):
        for observation, y in zip(sequence, some.tolist()):
            if not is_missing(observation):
                at.append(code.setdefault(_key(observation), len(code)))
                label.append(y)
    if not code:
        raise ValueError("X holds no observation to learn emissions from")
    flat = np.array(at, dtype=np.int64) * n_labels + np.array(label, dtype=np.int64)
    table = np.bincount(flat, minlength=len(code) * n_labels)
    return code, table.reshape(len(code), n_labels).astype(np.float64)


class FrequencyEmission(_Emission):
    r"""Relative frequencies with a floor.

    .. math::
        p(o \mid y) = \max\!\left(\frac{c(o, y)}{c(y)},\ \varepsilon\right),
        \qquad p(o \mid y) = \text{const for observations never seen}

    Parameters
    ----------
    floor : float, default=0
        :math:`\varepsilon`, in 0..1. At 0 a known observation allows only the labels
        that it was seen with; above, all labels are candidates everywhere.

    Attributes
    ----------
    label_counts_ : ndarray of shape (n_labels,)
        c(y).

    See Also
    --------
    SuffixEmission : Guesses the labels of unknown words from their endings.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.hmm import FrequencyEmission
    >>> emission = FrequencyEmission()
    >>> emission = emission.fit([["a", "b", "a"]], [np.array([0, 1, 0])], 2)
    >>> ids, log_factor = emission.candidates(["a"])[0]
    >>> ids.tolist(), log_factor.tolist()
    ([0], [0.0])
    """

    _parameter_constraints: dict = {"floor": [Interval(Real, 0, 1, closed="both")]}

    def __init__(self, floor: float = 0.0):
        self.floor = floor

    def _fit(self, X, ids, n_labels):
        code, table = _count(X, ids, n_labels)
        self.label_counts_ = table.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(table / self.label_counts_)
            log_factor = np.log(np.maximum(share, self.floor))
        self._known = _rows(code, log_factor)
        self._all = np.arange(n_labels, dtype=np.int32), np.zeros(n_labels)

    def candidates(self, sequence):
        """(label ids, log-factors) of every observation; None where it is missing."""
        known, other = self._known, self._all
        return [
            None if is_missing(o) else known.get(_key(o), other) for o in sequence
        ]


def _rows(code, log_factor):
    """symbol -> (possible label ids, their log-factors)."""
    rows = {}
    for symbol, i in code.items():
        ids = np.flatnonzero(log_factor[i] > -np.inf).astype(np.int32)
        rows[symbol] = ids, log_factor[i, ids]
    return rows


class SuffixEmission(_Emission):
    r"""Relative frequencies for known words, endings for unknown ones.

    .. math::
        P(y \mid s_k) = \frac{\hat P(y \mid s_k) + \theta\, P(y \mid s_{k-1})}
        {1 + \theta}, \qquad
        p(o \mid y) \propto \frac{P(y \mid s_K)}{\hat P(y)}

    where :math:`s_k` are the last k letters of the word, :math:`\hat P` relative
    frequencies over rare words and :math:`s_K` the longest ending seen with them.

    Parameters
    ----------
    max_suffix : int, default=10
        Longest ending, in letters, at least 0.

    max_count : int, default=10
        Words that occur at most so often teach the endings, at least 1.

    theta : float or None, default=None
        Weight of the shorter ending, above 0. None: the standard deviation of the
        label frequencies, as in [1]_.

    Attributes
    ----------
    label_counts_ : ndarray of shape (n_labels,)
        Occurrences of each label.

    theta_ : float
        The weight used.

    See Also
    --------
    FrequencyEmission : For symbols without letters.

    Notes
    -----
    A known word allows only the labels that it was seen with. Words that start with
    an upper-case letter, that hold a digit, and all others have endings of their own.
    Observations that are no strings are spelt by ``str``.

    References
    ----------
    .. [1] T. Brants, "TnT - A Statistical Part-of-Speech Tagger", ANLP 2000,
       section 2.3.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.hmm import SuffixEmission
    >>> X = [["cats", "dogs", "run", "cat", "walks"]]
    >>> emission = SuffixEmission().fit(X, [np.array([0, 0, 1, 2, 0])], 3)
    >>> ids, log_factor = emission.candidates(["birds"])[0]
    >>> int(ids[log_factor.argmax()])
    0
    """

    _parameter_constraints: dict = {
        "max_suffix": [Interval(Integral, 0, None, closed="left")],
        "max_count": [Interval(Integral, 1, None, closed="left")],
        "theta": [None, Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self, max_suffix: int = 10, max_count: int = 10, theta: float | None = None
    ):
        self.max_suffix = max_suffix
        self.max_count = max_count
        self.theta = theta

    def _fit(self, X, ids, n_labels):
        code, table = _count(X, ids, n_labels)
        total = self.label_counts_ = table.sum(axis=0)
        prior = total / total.sum()
        with np.errstate(divide="ignore", invalid="ignore"):
            self._known = _rows(code, np.log(np.nan_to_num(table / total)))
            self._log_prior = np.log(prior)
        self.theta_ = self.theta
        if self.theta is None:
            # One label has no deviation: any weight gives the same answer.
            self.theta_ = float(np.std(prior, ddof=1)) if n_labels > 1 else 1.0
            self.theta_ = max(self.theta_, 1e-6)
        counts = {}
        for word, i in code.items():
            row = table[i]
            if row.sum() <= self.max_count:
                for ending in self._endings(str(word)):
                    if ending in counts:
                        counts[ending] += row
                    else:
                        counts[ending] = row.copy()
        self._endings_proba = {}
        # Shorter endings first: each is mixed with the one before it.
        for ending in sorted(counts, key=lambda e: len(e[1])):
            row = counts[ending]
            shorter = prior
            if ending[1]:
                shorter = self._endings_proba[ending[0], ending[1][1:]]
            self._endings_proba[ending] = (row / row.sum() + self.theta_ * shorter) / (
                1 + self.theta_
            )
        self._prior = prior
        self._guesses = {}

    def _endings(self, word):
        """Endings of a word, shortest first."""
        if any(c.isdigit() for c in word):
            kind = 1
        else:
            kind = 2 if word[:1].isupper() else 0
        for k in range(min(self.max_suffix, len(word)) + 1):
            yield kind, word[len(word) - k :]

    def _guess(self, word):
        found = self._prior
        for ending in self._endings(word):
            proba = self._endings_proba.get(ending)
            if proba is None:
                break
            found = proba
        possible = np.flatnonzero(found > 0).astype(np.int32)
        return possible, np.log(found[possible]) - self._log_prior[possible]

    def candidates(self, sequence):
        """(label ids, log-factors) of every observation; None where it is missing."""
        found = []
        for o in sequence:
            if is_missing(o):
                found.append(None)
                continue
            row = self._known.get(_key(o))
            found.append(self._guess(str(o)) if row is None else row)
        return found


class ClassifierEmission(_Emission):
    r"""Any classifier's probabilities, divided by the prior of the labels.

    .. math::
        \log p(o \mid y) = a\,\bigl(\log P(y \mid o) - b \log P(y)\bigr) +
        \text{const}

    The hybrid of a discriminative classifier and a generative model of the labels.

    Parameters
    ----------
    estimator : classifier
        With `predict_log_proba` or `predict_proba`. Its samples are the observations
        of all sequences, in order: dicts (with a `DictVectorizer` before it), strings,
        or feature vectors.

    weight : float, default=1
        a, above 0. Below 1 where features of neighbouring observations overlap, so
        that the factors count the same evidence more than once.

    prior_weight : float, default=1
        b, in 0..1.

    min_proba : float, default=0
        Labels with a smaller :math:`P(y \mid o)` are no candidates, in 0..1. Above 0
        the result is reported as approximate.

    Attributes
    ----------
    estimator_ : classifier
        The fitted clone.

    See Also
    --------
    SuffixEmission : Without a classifier.

    Notes
    -----
    The class probabilities are as sharp as the classifier is sure on observations it
    has seen; one that overfits should be calibrated first.

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
    >>> ids, log_factor = emission.candidates([[4.9]])[0]
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
        estimator,
        *,
        weight: float = 1.0,
        prior_weight: float = 1.0,
        min_proba: float = 0.0,
    ):
        self.estimator = estimator
        self.weight = weight
        self.prior_weight = prior_weight
        self.min_proba = min_proba

    def _fit(self, X, ids, n_labels):
        observations, labels = [], []
        for sequence, some in zip(X, ids):
            for o, y in zip(sequence, some.tolist()):
                if not is_missing(o):
                    observations.append(o)
                    labels.append(y)
        if not observations:
            raise ValueError("X holds no observation to learn emissions from")
        self.estimator_ = clone(self.estimator).fit(_stack(observations), labels)
        self._ids = np.asarray(self.estimator_.classes_, dtype=np.int32)
        counts = np.bincount(labels, minlength=n_labels)[self._ids]
        self._log_prior = np.log(counts / counts.sum())
        self.approximate_ = self.min_proba > 0

    def candidates(self, sequence):
        """(label ids, log-factors) of every observation; None where it is missing."""
        return self.batch_candidates([sequence])[0]

    def batch_candidates(self, X):
        """The same for many sequences: the classifier is asked once."""
        flat = [o for sequence in X for o in sequence if not is_missing(o)]
        rows = iter(())
        if flat:
            if hasattr(self.estimator_, "predict_log_proba"):
                log_proba = self.estimator_.predict_log_proba(_stack(flat))
            else:
                with np.errstate(divide="ignore"):
                    log_proba = np.log(self.estimator_.predict_proba(_stack(flat)))
            if np.isnan(log_proba).any():
                raise ValueError("emission: the classifier gave NaN probabilities")
            factor = self.weight * (log_proba - self.prior_weight * self._log_prior)
            if self.min_proba > 0:
                factor[log_proba < np.log(self.min_proba)] = -np.inf
            rows = iter(factor)
        return [
            [None if is_missing(o) else (self._ids, next(rows)) for o in sequence]
            for sequence in X
        ]


def _stack(observations):
    """Feature vectors as one array; anything else as a list."""
    if isinstance(observations[0], dict | str):
        return observations
    return np.asarray(observations)
