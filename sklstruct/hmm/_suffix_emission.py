"""Emissions of words: frequencies, and endings or a classifier for unknown words."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import Pipeline, make_pipeline

from .._compat import HasMethods, Interval, StrOptions
from ..symbols import is_unknown
from ._emissions import Emission, count_symbols, hashable, weight_option


class SuffixEmission(Emission):
    r"""Relative frequencies of known words, and a guess by spelling for other words.

    .. math::
        P(y \mid s_k) = \frac{\hat P(y \mid s_k) + \theta\, P(y \mid s_{k-1})}
        {1 + \theta}, \qquad
        p(o \mid y) \propto \frac{P(y \mid o)}{\hat P(y)}

    where :math:`s_k` are the last k letters of the word and :math:`\hat P` relative
    frequencies over rare words. For an unknown word, P(y | o) is P(y | s_k) of the
    longest known ending. For a known word, P(y | o) is :math:`c(o, y) / c(o)`. For a
    rare word, P(y | o) is :math:`(c(o, y) + m P(y \mid s_K)) / (c(o) + m)`.

    Parameters
    ----------
    max_suffix : int, default=6
        K, the longest ending, in letters, at least 0.

    max_count : int, default=10
        Words that occur at most `max_count` times are rare. The endings are learned
        from rare words and used for rare and unknown words. At least 1.

    theta : float or None, default=0.5
        Weight of the shorter ending, above 0. None: the standard deviation of the
        label frequencies, as in [1]_, which trusts rare long endings more.

    shrinkage : float, default=1
        m, the number of occurrences that the ending of a rare word counts as; at least
        0. At 0 a known word allows only the labels that it was seen with, as in [1]_.

    min_proba : float, default=1e-3
        A label is excluded for a word if the word never had this label in training and
        the probability of the label given the ending is below `min_proba`; in 0..1.
        With 0.01 learning from sequences without labels is much faster.

    guess : {"logistic", "endings"} or classifier, default="logistic"
        The guesser of the labels of unknown and rare words. "logistic": a logistic
        regression over endings, beginnings, shape and parts of the word, trained on the
        rare words in place of :math:`P(y \mid s_k)`; more accurate and slower. A
        classifier is fitted to the words as strings, with sample_weight.

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
    CategoricalEmission : For symbols without letters.

    Notes
    -----
    Endings are told apart by the shape of the word: with a digit, all or first
    letter in upper case, with a hyphen, without letters. Observations that are not
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
    >>> ids, log_factor = emission.candidates([["birds"]])[0][0]
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
        guess: Any = "logistic",
    ):
        self.max_suffix = max_suffix
        self.max_count = max_count
        self.theta = theta
        self.shrinkage = shrinkage
        self.min_proba = min_proba
        self.guess = guess

    def _fit(self, X, ids, n_labels, weight):
        code, table = count_symbols(X, ids, n_labels, weight)
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
        # Sorted: the steps do not depend on the order of the sentences.
        order = np.array(sorted(range(len(words)), key=words.__getitem__))
        words, table = [words[i] for i in order.tolist()], table[order]
        at, label = np.nonzero(table)
        share = table[at, label] / table.sum(axis=1)[at]
        spelt = [words[i] for i in at.tolist()]
        return guess.fit(spelt, label, **weight_option(guess, share))

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

    def candidates(self, X: Sequence) -> list:
        """(label ids, log-factors) of every observation; None if it is missing."""
        ptr, ids, factor = self._words.indptr, self._words.indices, self._words.data
        # Each unknown word is guessed once.
        new = {
            o: None
            for sequence in X
            for o in sequence
            if not is_unknown(o) and hashable(o) not in self._known
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
