"""The n-grams of each name in `features`, and the choice by features="auto".

"auto" chooses the n-grams that best classify held-out texts. For each kind of n-grams a
linear model learns a half of some texts, and the log-losses on the other half are
compared. If the difference is not larger than twice its standard error, the halves are
exchanged, too. Three-fold cross-validation would be right as often and take 40 % more
time. The fold that calibrates probabilities is too small for the choice: the
log-losses of "letters" and "both" often differ by 0.02 nats, and for 500 texts the
standard error of this difference is as large.

The models have the squared hinge and few epochs, and are calibrated on the held-out
texts. The final classifier is fitted with the chosen n-grams only.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import NDArray
from scipy.special import log_softmax
from sklearn.pipeline import FeatureUnion
from sklearn.preprocessing import normalize

from .._checks import INT32_MAX, as_indicator
from .._parallel import stop_flag
from ..linear import LinearClassifier
from ..linear._calibration import fit_answers, fit_scale, outcome_evidence
from ..linear._samples import single
from ..linear._solver import DescentSettings, NodeSolver
from ..linear._targets import Targets
from ..linear._trial import PausedDescents
from ._targets import are_several, one_each
from ._texts import Texts
from ._vectorizer import NgramVectorizer, joined, rows_of

# Analyzer and n-gram range of each part of a row; the parts of each name of features.
# `ngram_range` is for the last part.
_PARTS: dict[str, tuple[Any, tuple[int, int]]] = {
    "letters": ("char_wb", (1, 4)),
    "words": ("word", (1, 2)),
}
NAMED = {"letters": ("letters",), "words": ("words",), "both": ("words", "letters")}

# Largest number of texts for which words that occur in one text only are kept.
_FEW_TEXTS = 100_000

# Up to this number of bytes "auto" reads all texts for both kinds of n-grams.
_MOST_AT_ONCE = 1 << 24

# Largest number of texts that are compared, and of pairs of a text and a class. If
# there are more pairs, only some of the classes are compared.
_MOST_TRIED = 5_000
_MOST_PAIRS = 200_000

# Epochs of the compared models. More epochs take more time and do not choose better;
# two epochs are too few if labels are noisy.
_EPOCHS = 3

# A half of at least `_ENOUGH` texts decides if the log-losses differ by more than
# `_SURE` standard errors.
_ENOUGH, _SURE = 100, 2.0


def vectorizer_of(
    features: str,
    n_texts: int,
    ngram_range: tuple[int, int] | None,
    min_df: float | None,
    n_jobs: int | None,
) -> Any:
    """The unfitted vectorizer of a name in `features`, for `n_texts` texts."""
    parts = {}
    for name in NAMED[features]:
        analyzer, lengths = _PARTS[name]
        if ngram_range is not None and name == NAMED[features][-1]:
            lengths = ngram_range
        # Words of a single text improve log-losses; n-grams of letters of a single text
        # cost more than they improve. With many texts most columns are such words.
        few = n_texts <= _FEW_TEXTS and analyzer == "word"
        fewest = 1 if few or n_texts == 1 else 2
        parts[name] = NgramVectorizer(
            analyzer=analyzer,
            ngram_range=lengths,
            min_df=fewest if min_df is None else min_df,
            sublinear_tf=True,
            n_jobs=n_jobs,
        )
        parts[name]._dtype = "float32"
    return joined(parts)


def _compared_rows(rows: Any, n_words: int, share: float) -> tuple[Any, Any]:
    """Rows of "letters" and of "both", from rows of words and letters side by side.

    share: the length of each part in a row of "both".

    Words of a single text are left out. They say nothing about the other half, and in
    held-out texts they would make the other values of the row smaller; the words of new
    texts that were not learned have no column at all.
    """
    words, letters = rows[:, :n_words], rows[:, n_words:]
    n_having = np.bincount(words.indices, minlength=n_words)
    words.data[n_having[words.indices] == 1] = 0.0
    both = sp.hstack([normalize(words), letters], format="csr")
    both.data *= share
    return letters, both


class Draw(NamedTuple):
    """The texts on which features are compared, and the problem of their labels."""

    at: NDArray  # numbers of the texts
    targets: Targets
    weight: NDArray
    halves: list[NDArray]  # places among `at` of the texts that are held out
    whole: bool  # whether all texts and labels are compared
    seed: int

    @classmethod
    def of(cls, y: Any, weight: NDArray, rng: RandomState) -> Draw:
        targets = _targets_of(y)
        n, m = targets.n_samples, targets.n_outcomes
        part = _MOST_PAIRS / (min(n, _MOST_TRIED) * m)
        if part < 1:  # texts of some classes, or all texts with some of the labels
            part = part if targets.several else np.sqrt(part)
            chosen = np.sort(rng.permutation(m)[: max(2, int(m * part))])
            at, targets = targets.among(chosen)
        else:
            at = np.arange(n)
        taken = np.sort(rng.permutation(at.size)[:_MOST_TRIED])
        at, targets = at[taken], targets.take(taken)
        halves = np.array_split(rng.permutation(at.size).astype(np.int32), 2)
        halves = [_known(np.sort(held), targets) for held in halves]
        whole, seed = part >= 1 and at.size == n, int(rng.randint(1, INT32_MAX))
        return cls(at, targets, weight[at], halves, whole, seed)

    def chosen(
        self, texts: Texts, named: Callable[[str], Any], C: float
    ) -> tuple[Any, Any]:
        """The vectorizer with the smaller log-loss, and its rows or None.

        named: returns the unfitted vectorizer of a name. If there are few texts, they
        are read only once: the returned vectorizer is fitted, and rows are returned.
        """
        once = int(texts.sizes.sum()) <= _MOST_AT_ONCE
        some = texts if once else texts[self.at]
        parts = {name: named(name) for name in NAMED["both"]}
        words, letters = parts.values()
        try:
            rows = rows_of(FeatureUnion(list(parts.items())), some, fit=True)
        except ValueError:  # no n-gram of words
            rows, trie = rows_of(letters, some, fit=True), letters.trie_
            if trie.n_columns == trie.spaces.size:
                raise
            return (letters, rows) if once else (named("letters"), None)
        first, both = words.trie_.n_columns, joined(parts)
        share = both.transformer_weights["words"]
        tried = rows if self.at.size == len(some) else rows[self.at]
        best = self.best_of(_compared_rows(tried, first, share), C)
        if not once:
            return named(("letters", "both")[best]), None
        if not best:
            return letters, rows[:, first:]
        rows.data *= share
        return both, rows

    def best_of(self, pair: Sequence[Any], C: float) -> int:
        """1 if the second rows have the smaller log-loss, else 0; 0 for one class.

        pair: two kinds of rows of the texts `at`. The more texts a model learns, the
        more it gains from the additional columns of the second rows. If only a part of
        the texts or labels is compared, the second rows are therefore chosen unless the
        first rows are better by `_SURE` standard errors.
        """
        if self.targets.n_outcomes == 1:
            return 0
        problem = self.targets, self.weight, self.halves[0]
        nodes = [NodeSolver(single(rows), *problem) for rows in pair]
        gain, weight, mean, error = np.empty(0), np.empty(0), 0.0, 0.0
        for held in filter(len, self.halves):
            first, second = (self.log_losses(node, held, C) for node in nodes)
            gain = np.append(gain, first - second)
            weight = np.append(weight, self.weight[held])
            share = weight / weight.sum()
            mean = float(share @ gain)
            error = np.sqrt(share**2 @ (gain - mean) ** 2)
            if gain.size >= _ENOUGH and abs(mean) > _SURE * error:
                break
        return int(mean > (0.0 if self.whole else -_SURE * error))

    def log_losses(self, node: NodeSolver, held: NDArray, C: float) -> NDArray:
        """Log-loss in nats of each held-out text, by a model of the other texts."""
        node.held = held
        with stop_flag() as stop:
            rough = LinearClassifier(tol=0.05, max_iter=_EPOCHS)
            settings = DescentSettings.of(rough, "squared_hinge", C, 0.0, stop)
            scores = PausedDescents.of(node, settings, self.seed).fold_scores
        mine, weight = self.targets.take(held), self.weight[held]
        if mine.several:
            sigmoid, _ = fit_answers([scores], [mine], [weight])
            sign = np.where(mine.indicator(), -1.0, 1.0)
            return np.logaddexp(0.0, sign * sigmoid.odds(scores)).sum(axis=1)
        g = outcome_evidence(scores, "squared_hinge")
        scale, _ = fit_scale(g, mine.outcome, weight)
        return -log_softmax(scale * g, axis=1)[np.arange(held.size), mine.outcome]


def _known(held: NDArray, targets: Targets) -> NDArray:
    """The texts of a half whose class occurs in the other half, too."""
    if targets.several:
        return held
    others = np.delete(targets.outcome, held)
    return held[np.isin(targets.outcome[held], others)]


def _targets_of(y: Any) -> Targets:
    """The targets of one label per text, or of an indicator matrix."""
    if are_several(y):
        return Targets.of_indicator(as_indicator(y, "y"))
    names, code = np.unique(one_each(y), return_inverse=True)
    return Targets.one_each(code, names.size)
