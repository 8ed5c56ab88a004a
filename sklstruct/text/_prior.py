"""Predictions for texts without known n-grams, by the frequencies of the labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._compat import _align_api_if_sparse
from ._scores import empty_rows
from ._vectorizer import parts_of


def without_ngrams(features: Any, rows: Any) -> NDArray:
    """Whether each row of the vectorizer has no known n-gram."""
    if not sp.issparse(rows):
        return np.logical_not(np.asarray(rows).any(axis=1))
    spaces, first = [], 0
    for one, _ in parts_of(features).values():
        spaces.append(first + one.trie_.spaces)
        first += one.trie_.n_columns
    rows = rows.tocsr()
    return empty_rows(
        rows.indptr[1:],
        rows.indices,
        np.concatenate([np.empty(0, dtype=np.int32), *spaces]),
    )


def with_prior(model: Any, method: str, found: Any, empty: NDArray) -> Any:
    """The results `found` of a method of a TextClassifier, with those of empty texts
    replaced by the prior.
    """
    if method == "decision_function" or not empty.any():
        return found
    proba = model.class_prior_[None]
    with np.errstate(divide="ignore"):
        log_proba = np.log(proba)
    order = np.argsort(-proba, axis=1, kind="stable")
    if method == "predict_top_k":
        labels, given = found
        best = order[:, : labels.shape[1]]
        prior = model.classes_[best], np.take_along_axis(log_proba, best, axis=1)
        return _replaced(labels, prior[0], empty), _replaced(given, prior[1], empty)
    if method == "predict":
        several = found.ndim == 2
        least = getattr(model.estimator_, "threshold_", 0.5)
        if model.second_ is not None:
            least = model.second_.model.threshold
        row = proba > least if several else model.classes_[order[:, 0]]
    else:
        row = proba if method == "predict_proba" else log_proba
    return _replaced(found, row, empty)


def _replaced(found: Any, row: NDArray, where: NDArray) -> Any:
    """The result `found`, dense or sparse, with `row` at the places `where`."""
    at = np.where(where, where.size, np.arange(where.size))
    if sp.issparse(found):
        rows = sp.vstack([found, sp.csr_matrix(row, dtype=found.dtype)], format="csr")
        return _align_api_if_sparse(rows[at])
    return np.concatenate([found, row.astype(found.dtype)])[at]
