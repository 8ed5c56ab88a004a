"""The second stage for several labels per text: stacking.

Whether a text has a label depends on its other labels, which the binary problems of the
labels do not see. A second linear classifier learns each label from the probabilities
that the first classifier gives to all labels (stacking; Godbole & Sarawagi, PAKDD
2004). Probabilities of texts that a classifier has learned are too certain. So the
second classifier learns from out-of-fold probabilities, with `_FOLDS` folds. The
result is the mean of the probabilities of both: the second classifier alone is worse if
few training texts resemble the new texts.
"""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import clone

from .._checks import INT32_MAX
from .._likelihood import log_other
from .._parallel import row_blocks, rows_per_block
from ..hierarchical._label_fold import choose_threshold
from ..hierarchical._score_model import ScoreModel
from ..linear import LinearClassifier
from ..linear._targets import Targets
from ._scores import Reduced

_FOLDS = 3

# Tolerance of the fits that leave out a fold, which need not be exact, and of the
# second classifier. With a tolerance of 0.01 the second classifier takes more than
# twice the time, and its labels are not better.
_ROUGH = 0.1

# The second stage is worse for labels of few texts: 12 to 18 texts per label were too
# few, 130 enough. The weights are a dense matrix of pairs of labels, too large for more
# than `_MOST_LABELS` labels.
FEWEST_TEXTS, _FEWEST_EACH = 1000, 50
_MOST_LABELS = 1000

# The inverse of the regularisation strength, for columns that are about 1 if a text has
# the label.
_C = 0.1

# Columns are 0 for log-odds of at most -`_NEAR`, and for probabilities of at most
# `_LEAST`. Log-odds are clipped at `_SURE`.
_NEAR, _SURE, _LEAST = 4.0, 20.0, 0.02


def _log_mean(first: NDArray, second: NDArray) -> NDArray:
    return np.logaddexp(first, second) - np.log(2)


def answer_columns(log_proba: NDArray) -> sp.csr_matrix:
    """Two columns for each label, from log P: max(0, 1 + log-odds / 4), and P.

    Both are 0 for most labels. Log-odds without the nonlinearities would not help: they
    are linear in the row, and the first classifier could have learned that function.
    """
    odds = np.minimum(log_proba - log_other(log_proba), _SURE)
    proba = np.exp(log_proba)
    columns = np.maximum(1 + odds / _NEAR, 0), np.where(proba > _LEAST, proba, 0)
    return sp.csr_matrix(np.hstack(columns), dtype=np.float32)


def pays(Y: sp.csr_matrix) -> bool:
    """Whether there are enough texts of each label, and not too many labels."""
    n_texts, n_labels = int(np.count_nonzero(np.diff(Y.indptr))), Y.shape[1]
    enough = n_texts >= FEWEST_TEXTS and Y.nnz >= _FEWEST_EACH * n_labels
    return enough and n_labels <= _MOST_LABELS


def second_stage(
    estimator: Any, rows: Any, Y: sp.csr_matrix, weight: NDArray, rng: RandomState
) -> Reduced:
    """The second classifier: weights of 8 bits for `answer_columns`.

    estimator: the first classifier, fitted to all rows. Y: the indicator of the labels.
    """
    n = weight.size
    rough = clone(estimator).set_params(
        # building the trees again would take as long as fitting the nodes
        taxonomy=tuple(estimator.taxonomies_),
        estimator__tol=_ROUGH,
        threshold=0.5,
    )
    fold, parts = rng.permutation(n) % _FOLDS, []
    seed = rng.randint(INT32_MAX)
    last = LinearClassifier(
        "squared_hinge", C=_C, tol=_ROUGH, n_jobs=rough.n_jobs, random_state=seed
    )

    def fitted(part):
        model = last.fit(columns[part], Y[part], sample_weight=weight[part])
        return Reduced.of(*ScoreModel.of(model), 0.0)

    with warnings.catch_warnings():
        # warnings of rare labels, which the fit of all texts has given, and of rows of
        # different lengths
        warnings.simplefilter("ignore")
        for k in range(_FOLDS):
            learned, held = fold != k, rows[fold == k]
            model = clone(rough).fit(
                rows[learned], Y[learned], sample_weight=weight[learned]
            )
            for part in row_blocks(held.shape[0], rows_per_block(4 * Y.shape[1])):
                parts.append(answer_columns(model.predict_log_proba(held[part])))
        place = np.argsort(np.argsort(fold, kind="stable"))
        columns = sp.vstack(parts, format="csr")[place]
        # for the threshold: probabilities of texts that neither classifier has learned
        out, without = np.flatnonzero(fold == 0), fitted(np.flatnonzero(fold))
        stage = fitted(np.arange(n))

    def rows_of(part):
        held = columns[out[part]]
        with np.errstate(divide="ignore"):
            first = np.log(held[:, Y.shape[1] :].toarray())
        return _log_mean(first, _log_proba(without, held, rough.n_jobs))

    threshold = choose_threshold(rows_of, Targets.of_indicator(Y[out]), weight[out])
    kind = estimator.label_columns_  # `predict` returns the type of y
    model = stage.model._replace(threshold=threshold, columns=kind)
    return stage._replace(model=model)


def _log_proba(stage: Reduced, columns: sp.csr_matrix, n_jobs: int | None) -> NDArray:
    """log P by the second classifier alone."""
    scores = stage.weights.scores(columns)
    return stage.model.classifier(n_jobs).predict_log_proba(scores)


def answer_of(stage: Reduced, method: str, first: NDArray, n_jobs: int | None) -> Any:
    """The result of a method of a classifier, from log P of the first classifier."""
    second = _log_proba(stage, answer_columns(first), n_jobs)
    log_proba = _log_mean(first, second)
    if method == "predict_log_proba":
        return log_proba
    if method == "decision_function":
        other = _log_mean(log_other(first), log_other(second))
        return np.nan_to_num(log_proba - other)
    proba = np.exp(log_proba)
    if method == "predict_proba":
        return proba
    kind = stage.model.columns
    assert kind is not None
    text, code = np.nonzero(proba[:, kind.leaves] > stage.model.threshold)
    return kind.indicator(text, code, proba.shape[0])
