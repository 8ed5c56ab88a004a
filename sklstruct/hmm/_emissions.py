"""Emission models: log-factors of the labels for every observation."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.utils.validation import has_fit_parameter

from .._checks import as_floats
from .._compat import BaseEstimator, HasMethods, Interval, StrOptions
from ._sequences import is_unknown


class Emission(BaseEstimator):
    """Base: `fit(X, ids, n_labels)`, then `candidates(sequence)`.

    `ids` holds an array of label ids for each sequence of X; `candidates` gives (label
    ids, log-factors) for every observation, None for one that is missing.
    """

    # True if candidates may be dropped without a bound that rules them out.
    approximate_ = False

    def fit(
        self, X: list, ids: list, n_labels: int, weight: list | None = None
    ) -> Emission:
        """Learn from sequences of observations and their label ids.

        Parameters
        ----------
        X : list of sequences

        ids : list of ndarray
            Label ids 0..n_labels-1, one an observation; -1 where it is unknown, which
            is as if the observation were missing.

        n_labels : int
            At least 1.

        weight : list of ndarray, default=None
            Weight of each observation with its label, at least 0, fractional or not.
            None: 1.

        Returns
        -------
        self : object
        """
        self._validate_params()
        self._fit(X, ids, n_labels, weight)
        return self

    def _fit(self, X, ids, n_labels, weight):
        raise NotImplementedError

    def candidates(self, sequence: Sequence) -> list:
        """(label ids, log-factors) of every observation; None where it is missing."""
        raise NotImplementedError


def _key(observation):
    try:
        hash(observation)
    except TypeError as exc:
        raise TypeError(
            f"X holds {observation!r:.60}, which is not hashable; this emission model "
            "counts symbols. Pass single values, for example the column X.ravel(), or, "
            "for vectors of features, a classifier as emission"
        ) from exc
    return observation


def _labelled(X, ids, weight):
    """(observations, label ids, weights or None) of what is not missing or unknown."""
    label = np.concatenate(ids) if len(ids) else np.empty(0, dtype=np.int32)
    flat = [o for sequence in X for o in sequence]
    keep = np.array([not is_unknown(o) for o in flat], dtype=bool) & (label >= 0)
    if weight is not None:
        weight = np.concatenate(weight)
        keep &= weight > 0
        weight = weight[keep]
    if not keep.any():
        raise ValueError("X holds no observation to learn emissions from")
    return [o for o, kept in zip(flat, keep.tolist()) if kept], label[keep], weight


def _count(X, ids, n_labels, weight):
    """symbol -> counts of labels; missing observations are not counted."""
    label = np.concatenate(ids) if len(ids) else np.empty(0, dtype=np.int32)
    keep = label >= 0
    if weight is not None:
        weight = np.concatenate(weight)
        keep &= weight > 0
        weight = weight[keep]
    observations = list(itertools.chain.from_iterable(X))
    if not keep.all():
        observations = list(itertools.compress(observations, keep.tolist()))
    try:
        code = dict.fromkeys(observations)
    except TypeError:
        for o in observations:
            _key(o)
        raise
    # -1: missing. One test for each symbol is faster than one for each position.
    known = [o for o in code if not is_unknown(o)]
    if not known:
        raise ValueError("X holds no observation to learn emissions from")
    code.update(dict.fromkeys(code, -1))
    code.update(zip(known, range(len(known))))
    at = np.array([code[o] for o in observations], dtype=np.int64)
    kept = slice(None) if len(known) == len(code) else at >= 0
    table = np.bincount(
        at[kept] * n_labels + label[keep][kept],
        None if weight is None else weight[kept],
        minlength=len(known) * n_labels,
    )
    code = dict(zip(known, range(len(known))))
    return code, table.reshape(len(code), n_labels).astype(np.float64)


class FrequencyEmission(Emission):
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

    def _fit(self, X, ids, n_labels, weight):
        code, table = _count(X, ids, n_labels, weight)
        self.label_counts_ = table.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(table / self.label_counts_)
            log_factor = np.log(np.maximum(share, self.floor))
        self._known = _rows(code, log_factor)
        self._all = np.arange(n_labels, dtype=np.int32), np.zeros(n_labels)

    def candidates(self, sequence: Sequence) -> list:
        """(label ids, log-factors) of every observation; None where it is missing."""
        known, other = self._known, self._all
        return [None if is_unknown(o) else known.get(_key(o), other) for o in sequence]


def _rows(code, log_factor):
    """symbol -> (possible label ids, their log-factors)."""
    rows = {}
    for symbol, i in code.items():
        ids = np.flatnonzero(log_factor[i] > -np.inf).astype(np.int32)
        rows[symbol] = ids, log_factor[i, ids]
    return rows


class SuffixEmission(Emission):
    r"""Relative frequencies for known words, endings for unknown and rare ones.

    .. math::
        P(y \mid s_k) = \frac{\hat P(y \mid s_k) + \theta\, P(y \mid s_{k-1})}
        {1 + \theta}, \qquad
        p(o \mid y) \propto \frac{P(y \mid o)}{\hat P(y)}

    where :math:`s_k` are the last k letters of the word and :math:`\hat P` relative
    frequencies over rare words. P(y | o) of an unknown word is that of the longest
    ending seen; of a known one, :math:`c(o, y) / c(o)`; of a rare one,
    :math:`(c(o, y) + m P(y \mid s_K)) / (c(o) + m)`.

    Parameters
    ----------
    max_suffix : int, default=6
        K, the longest ending, in letters, at least 0.

    max_count : int, default=10
        Words that occur at most so often are rare: they teach the endings, and are
        helped by them. At least 1.

    theta : float or None, default=0.5
        Weight of the shorter ending, above 0. None: the standard deviation of the
        label frequencies, as in [1]_, which trusts rare long endings more.

    shrinkage : float, default=1
        m, the number of occurrences that the ending of a rare word counts as; at least
        0. At 0 a known word allows only the labels that it was seen with, as in [1]_.

    min_proba : float, default=1e-3
        Labels which an ending makes less probable than this are ruled out for words
        that never had them, in 0..1. Sequences without labels are learnt from far
        faster at 0.01.

    guess : {"endings", "logistic"} or classifier, default="endings"
        The guesser of the labels of unknown and rare words. "logistic": a logistic
        regression over endings, beginnings, shape and parts of the word, trained on
        the rare words in place of :math:`P(y \mid s_k)`; more accurate and slower. A
        classifier is trained in its way on words as strings, with sample_weight.

    Attributes
    ----------
    label_counts_ : ndarray of shape (n_labels,)
        Occurrences of each label.

    theta_ : float
        The weight used.

    guess_ : classifier or None
        The fitted classifier of words; None for endings.

    See Also
    --------
    FrequencyEmission : For symbols without letters.

    Notes
    -----
    Endings are told apart by the shape of the word: with a digit, all or first
    letter in upper case, with a hyphen, without letters. Observations that are no
    strings are spelt by ``str``.

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
        "shrinkage": [Interval(Real, 0, None, closed="left")],
        "min_proba": [Interval(Real, 0, 1, closed="left")],
        "guess": [StrOptions({"endings", "logistic"}), HasMethods(["predict_proba"])],
    }

    def __init__(
        self,
        max_suffix: int = 6,
        max_count: int = 10,
        theta: float | None = 0.5,
        shrinkage: float = 1.0,
        min_proba: float = 1e-3,
        guess: Any = "endings",
    ):
        self.max_suffix = max_suffix
        self.max_count = max_count
        self.theta = theta
        self.shrinkage = shrinkage
        self.min_proba = min_proba
        self.guess = guess

    def _fit(self, X, ids, n_labels, weight):
        code, table = _count(X, ids, n_labels, weight)
        # Expected counts are positive for every label; nearly all labels of a word have
        # one close to 0, and are ruled out.
        share = table / table.sum(axis=1, keepdims=True)
        table[(table < 0.5) & (share < self.min_proba)] = 0.0
        total = self.label_counts_ = table.sum(axis=0)
        prior = total / total.sum()
        with np.errstate(divide="ignore"):
            self._log_prior = np.log(prior)
        self.theta_ = self.theta
        if self.theta is None:
            # One label has no deviation: any weight gives the same answer.
            self.theta_ = float(np.std(prior, ddof=1)) if n_labels > 1 else 1.0
            self.theta_ = max(self.theta_, 1e-6)
        count = table.sum(axis=1)
        rare = np.flatnonzero(count <= self.max_count)
        words = list(code)
        spelt = [str(words[i]) for i in rare]
        self.guess_ = None
        # A classifier needs two labels; with fewer the endings say the same.
        if self.guess == "endings" or np.count_nonzero(table[rare].any(axis=0)) < 2:
            last = self._fit_endings(spelt, table[rare], prior)
        else:
            self._prior = prior
            self.guess_ = self._fit_guess(spelt, table[rare])
        if self.shrinkage:
            if self.guess_ is None:
                guess = self._ending_proba[last]
            else:
                guess = self._classified(spelt)
            guess[(guess < self.min_proba) & (table[rare] == 0)] = 0.0
            table[rare] += self.shrinkage * guess
        self._known = code
        self._words = sp.csr_array(table)
        proba = self._words.data / np.repeat(
            table.sum(axis=1), np.diff(self._words.indptr)
        )
        self._words.data = np.log(proba) - self._log_prior[self._words.indices]

    def _fit_endings(self, words, table, prior):
        """Label probabilities of all endings; the row of each word's longest one."""
        code = {}
        row, column, length, shorter = [], [], [], []
        last = np.zeros(len(words), dtype=np.int64)
        for i, word in enumerate(words):
            before = -1
            for ending in self._endings(word):
                at = code.setdefault(ending, len(code))
                if at == len(length):
                    length.append(len(ending) - 1)
                    shorter.append(before)
                row.append(at)
                column.append(i)
                before = at
            last[i] = before
        seen = sp.csr_array(
            (np.ones(len(row)), (row, column)), shape=(len(code), len(words))
        )
        proba = seen @ table
        proba /= proba.sum(axis=1, keepdims=True)
        length, shorter = np.array(length), np.array(shorter, dtype=np.int64)
        for k in range(self.max_suffix + 1):
            some = np.flatnonzero(length == k)
            before = proba[shorter[some]] if k else prior
            proba[some] = (proba[some] + self.theta_ * before) / (1 + self.theta_)
        self._ending_code, self._ending_proba, self._prior = code, proba, prior
        return last

    def _fit_guess(self, words, table):
        """A classifier of words by their spelling; every rare word counts once."""
        guess = logistic_guess() if isinstance(self.guess, str) else clone(self.guess)
        at, label = np.nonzero(table)
        share = table[at, label] / table.sum(axis=1)[at]
        spelt = [words[i] for i in at.tolist()]
        return guess.fit(spelt, label, **_weight_option(guess, share))

    def _classified(self, words):
        """(n_words, n_labels) label probabilities by the classifier."""
        proba = np.zeros((len(words), len(self._prior)))
        if words:
            proba[:, self.guess_.classes_] = self.guess_.predict_proba(words)
        return proba

    def _endings(self, word):
        """Endings of a word with its shape, shortest first."""
        if any(map(str.isdigit, word)):
            shape = 1
        elif len(word) > 1 and word.isupper():
            shape = 2
        else:
            shape = 3 if word[:1].isupper() else 0
        if "-" in word:
            shape += 4
        if not any(map(str.isalnum, word)):
            shape = 8
        for k in range(min(self.max_suffix, len(word)) + 1):
            yield f"{shape}{word[len(word) - k :]}"

    def _ending_guess(self, word):
        proba = self._prior
        for ending in self._endings(word):
            at = self._ending_code.get(ending)
            if at is None:
                break
            proba = self._ending_proba[at]
        return proba

    def _row(self, proba):
        """(label ids, log-factors) of an unknown word."""
        keep = proba >= min(self.min_proba, proba.max())
        possible = np.flatnonzero(keep & (proba > 0)).astype(np.int32)
        return possible, np.log(proba[possible]) - self._log_prior[possible]

    def candidates(self, sequence: Sequence) -> list:
        """(label ids, log-factors) of every observation; None where it is missing."""
        return self.batch_candidates([sequence])[0]

    def batch_candidates(self, X: Sequence) -> list:
        """The same for many sequences; each unknown word is guessed once."""
        ptr, ids, factor = self._words.indptr, self._words.indices, self._words.data
        new = {
            o: None
            for sequence in X
            for o in sequence
            if not is_unknown(o) and _key(o) not in self._known
        }
        if self.guess_ is None:
            proba = [self._ending_guess(str(o)) for o in new]
        else:
            proba = self._classified([str(o) for o in new])
        guessed = {o: self._row(row) for o, row in zip(new, proba)}

        def find(o):
            if is_unknown(o):
                return None
            at = self._known.get(o)
            if at is None:
                return guessed[o]
            row = slice(ptr[at], ptr[at + 1])
            return ids[row], factor[row]

        return [[find(o) for o in sequence] for sequence in X]


def spelling(word: str) -> list[str]:
    """Features of how a word is spelt: endings, beginnings, shape, parts."""
    low = word.lower()
    shape = ""
    for c in word:
        kind = "X" if c.isupper() else "x" if c.islower() else "9" if c.isdigit() else c
        if not shape.endswith(kind):
            shape += kind
    found = [f"w{low}", f"S{shape}", f"L{min(len(word), 8)}"]
    found += [f"s{low[-k:]}" for k in range(1, min(6, len(low)) + 1)]
    found += [f"p{low[:k]}" for k in range(1, min(4, len(low)) + 1)]
    found += [f"{shape[:1]}s{low[-k:]}" for k in range(1, min(4, len(low)) + 1)]
    if "-" in low:
        parts = low.split("-")
        found += [f"h{parts[0]}", f"t{parts[-1]}"]
    return found


def logistic_guess() -> Pipeline:
    """The classifier of words by their spelling that is called "logistic"."""
    return make_pipeline(
        CountVectorizer(analyzer=spelling, binary=True),
        SGDClassifier(
            loss="log_loss", alpha=3e-5, max_iter=20, tol=None, average=True,
            random_state=0,
        ),
    )  # fmt: skip


class ClassifierEmission(Emission):
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
        a, above 0: the weight of the observations against the transitions. Choose it
        on data that were not used in `fit`. Above 1 suits classifiers with features of
        neighbouring observations, which repeat the evidence of the transitions.

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

    def _fit(self, X, ids, n_labels, weight):
        observations, labels, weight = _labelled(X, ids, weight)
        self.estimator_ = clone(self.estimator)
        options = {} if weight is None else _weight_option(self.estimator_, weight)
        self.estimator_.fit(_stack(observations), labels.tolist(), **options)
        self._ids = np.asarray(self.estimator_.classes_, dtype=np.int32)
        counts = np.bincount(labels, weight, minlength=n_labels)[self._ids]
        self._log_prior = np.log(counts / counts.sum())
        self.approximate_ = self.min_proba > 0

    def candidates(self, sequence: Sequence) -> list:
        """(label ids, log-factors) of every observation; None where it is missing."""
        return self.batch_candidates([sequence])[0]

    def batch_candidates(self, X: Sequence) -> list:
        """The same for many sequences, with one call of the classifier."""
        flat = [o for sequence in X for o in sequence if not is_unknown(o)]
        rows = iter(())
        if flat:
            log_proba = self._log_proba(_stack(flat))
            factor = self.weight * (log_proba - self.prior_weight * self._log_prior)
            if self.min_proba > 0:
                factor[log_proba < np.log(self.min_proba)] = -np.inf
            rows = iter(factor)
        return [
            [None if is_unknown(o) else (self._ids, next(rows)) for o in sequence]
            for sequence in X
        ]

    def _log_proba(self, samples):
        """(n_samples, n_classes) as the classifier gives them, checked."""
        # A probability of 0 rules the label out.
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


def _weight_option(estimator, weight):
    """The argument of `fit` that holds the weights of samples."""
    name, last = "sample_weight", estimator
    while isinstance(last, Pipeline):
        name = f"{last.steps[-1][0]}__{name}"
        last = last.steps[-1][1]
    if not has_fit_parameter(last, "sample_weight"):
        raise TypeError(
            f"emission: {type(last).__name__} takes no sample_weight, which weighted "
            "sequences and unknown labels need; use a classifier that does"
        )
    return {name: weight}


def _stack(observations):
    """Feature vectors as one array; anything else as a list."""
    if isinstance(observations[0], dict | str):
        return observations
    return np.asarray(observations)
