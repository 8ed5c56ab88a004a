"""Emissions of words: frequencies, and guesses by the spelling of unknown words."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from numbers import Integral, Number, Real
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.pipeline import make_pipeline

from .._compat import HasMethods, Interval, StrOptions
from ..linear import LinearClassifier
from ..symbols import is_unknown
from ._emissions import Emission, count_symbols, distinct, weight_option


class SuffixEmission(Emission):
    r"""Relative frequencies of known words, and a guess by spelling for other words.

    .. math::
        p(o \mid y) \propto \frac{P(y \mid o)}{\hat P(y)}

    For an unknown word, P(y | o) is the probability :math:`P(y \mid s)` that a
    classifier of spellings gives. The classifier is trained on the rare words. For a
    known word, P(y | o) is :math:`c(o, y) / c(o)`. For a rare word, P(y | o) is
    :math:`(c(o, y) + P(y \mid s)) / (c(o) + 1)`. TnT [1]_ guesses only for unknown
    words, by the last letters.

    Parameters
    ----------
    max_count : int, default=10
        Words that occur at most `max_count` times are rare. The guess is learned from
        rare words and used for rare and unknown words. At least 1.

    min_proba : float, default=1e-3
        A label is excluded for a word if the word never had this label in training and
        the guess gives the label a probability below `min_proba`; in 0..1. Learning
        from sequences without labels is much faster with 0.01.

    guess : "logistic" or classifier, default="logistic"
        The guesser of the labels of unknown and rare words. "logistic": a logistic
        regression over endings, beginnings, shape and parts of the word. A classifier
        is fitted to the words as strings, with sample_weight.

    Attributes
    ----------
    label_counts_ : ndarray of shape (n_labels,)
        Occurrences of each label.

    guess_ : classifier or None
        The fitted classifier of words. None if the rare words have fewer than two
        labels: the guess is then the relative frequencies of the labels.

    See Also
    --------
    CategoricalEmission : For symbols without letters.

    Notes
    -----
    Observations that are not strings are converted by ``str``: 1 and "1" are the same
    word, 1 and 1.0 are different words. The classifier of the guess is fitted with a
    loose tolerance, so that the fit depends slightly on the order of the labels if some
    labels are unknown.

    References
    ----------
    .. [1] T. Brants, "TnT - A Statistical Part-of-Speech Tagger", ANLP 2000.

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
        "max_count": [Interval(Integral, 1, None, closed="left")],
        "min_proba": [Interval(Real, 0, 1, closed="left")],
        "guess": [StrOptions({"logistic"}), HasMethods(["predict_proba"])],
    }

    def __init__(
        self,
        max_count: int = 10,
        min_proba: float = 1e-3,
        guess: Any = "logistic",
    ):
        self.max_count = max_count
        self.min_proba = min_proba
        self.guess = guess

    def _fit(self, observations, label, weight, n_labels):
        code, table = count_symbols(_spelt(observations), label, weight, n_labels)
        # Expected counts are positive for every label. Labels with a count near 0,
        # which are nearly all labels of a word, are excluded.
        share = table / table.sum(axis=1, keepdims=True)
        table[(table < 0.5) & (share < self.min_proba)] = 0.0
        total = self.label_counts_ = table.sum(axis=0)
        prior = self._prior = total / total.sum()
        with np.errstate(divide="ignore"):
            self._log_prior = np.log(prior)
        count = table.sum(axis=1)
        rare = np.flatnonzero(count <= self.max_count)
        words = list(code)
        spelt = [str(words[i]) for i in rare]
        guess = self._fit_guess(spelt, table[rare])
        guess[(guess < self.min_proba) & (table[rare] == 0)] = 0.0
        table[rare] += guess
        self._known = code
        self._words = sp.csr_array(table)
        proba = self._words.data / np.repeat(
            table.sum(axis=1), np.diff(self._words.indptr)
        )
        self._words.data = np.log(proba) - self._log_prior[self._words.indices]

    def _fit_guess(self, words, table):
        """Fit the guesser, in which every word counts once; return the guesses of the
        words."""
        self.guess_ = None
        if np.count_nonzero(table.any(axis=0)) < 2:
            return self._guessed(words)
        if isinstance(self.guess, str):
            # The features of each word are computed once, for all its labels and its
            # guess.
            features, guess = logistic_guess()
            rows = features.fit_transform(words)
            self.guess_ = make_pipeline(features, guess)
        else:
            self.guess_ = guess = clone(self.guess)
            rows = np.array(words, dtype=object)
        # Sorted, so that the fit does not depend on the order of the sentences.
        order = np.array(sorted(range(len(words)), key=words.__getitem__))
        at, label = np.nonzero(table[order])
        at = order[at]
        share = table[at, label] / table.sum(axis=1)[at]
        guess.fit(rows[at], label, **weight_option(guess, share))
        proba = np.zeros_like(table)
        proba[:, guess.classes_] = guess.predict_proba(rows)
        return proba

    def _guessed(self, words):
        """(n_words, n_labels) label probabilities by spelling."""
        proba = np.zeros((len(words), len(self._prior)))
        if self.guess_ is None:
            proba[:] = self._prior
        elif words:
            proba[:, self.guess_.classes_] = self.guess_.predict_proba(words)
        return proba

    def _row(self, proba):
        """(label ids, log-factors) of an unknown word."""
        keep = proba >= min(self.min_proba, proba.max())
        possible = np.flatnonzero(keep & (proba > 0)).astype(np.int32)
        return possible, np.log(proba[possible]) - self._log_prior[possible]

    def candidates(self, X: Sequence) -> list:
        """(label ids, log-factors) of every observation; None if it is missing."""
        ptr, ids, factor = self._words.indptr, self._words.indices, self._words.data
        X = [_spelt(sequence) for sequence in X]
        rows, new = distinct(itertools.chain.from_iterable(X)), []
        for o in rows:
            at = self._known.get(o)
            if at is not None:
                row = slice(ptr[at], ptr[at + 1])
                rows[o] = ids[row], factor[row]
            elif not is_unknown(o):
                new.append(o)
        for o, proba in zip(new, self._guessed([str(o) for o in new])):
            rows[o] = self._row(proba)
        return [[rows[o] for o in sequence] for sequence in X]


def _spelt(observations):
    """Replace numbers by strings, because 1 and 1.0 are equal but different words."""
    if all(isinstance(o, str) for o in observations):
        return observations
    return [
        str(o) if isinstance(o, Number) and not is_unknown(o) else o
        for o in observations
    ]


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


def logistic_guess() -> tuple[CountVectorizer, LinearClassifier]:
    """The features and the classifier of the guess that is called "logistic"."""
    # C was tuned on the development parts of EWT (with 1 to 100 % of its sentences) and
    # of Turkish IMST, for few and for many words. With a smaller `tol` the tagger is
    # not more accurate on these corpora, GUM, Szeged and GDT.
    classifier = LinearClassifier(
        "log_loss", C=10.0, calibration=None, tol=0.05, random_state=0
    )
    return CountVectorizer(analyzer=spelling, binary=True), classifier
