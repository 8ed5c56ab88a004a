"""ln P(y_i | x_i) of any classifier, without the (n, V) matrix."""

from __future__ import annotations

import numpy as np
import scipy.sparse as sp
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._checks import check_sparse
from .._parallel import rows_per_block
from ..context_tree._symbols import encode_labels


def innermost(estimator):
    """The last estimator inside pipelines and searches."""
    while True:
        if isinstance(estimator, Pipeline):
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator


def last_step(estimator, X):
    """The classifier inside pipelines and searches, and X as it receives it."""
    while True:
        if isinstance(estimator, Pipeline):
            check_is_fitted(estimator)
            if len(estimator.steps) > 1:
                X = estimator[:-1].transform(X)
            estimator = estimator.steps[-1][1]
        elif hasattr(estimator, "best_estimator_"):
            estimator = estimator.best_estimator_
        else:
            return estimator, X


def target_log_proba(estimator, X, y):
    """Natural logarithm of P(y_i | x_i), NaN where y_i is not in ``classes_``.

    The estimator's own `target_log_proba` where it has one (pipelines and fitted
    searches are looked through); else its rows of `predict_log_proba` or
    `predict_proba`, a bounded number at a time, aligned by ``classes_``.
    """
    check_sparse(X)
    estimator, X = last_step(estimator, X)
    if hasattr(estimator, "target_log_proba"):
        return estimator.target_log_proba(X, y)
    check_is_fitted(estimator)
    logarithms = hasattr(estimator, "predict_log_proba")
    if not logarithms and not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"{type(estimator).__name__} has neither target_log_proba, "
            "predict_log_proba nor predict_proba: it gives no probabilities to score"
        )
    predict = estimator.predict_log_proba if logarithms else estimator.predict_proba
    y = column_or_1d(y)
    classes = np.asarray(estimator.classes_)
    order = np.argsort(classes, kind="stable")
    code, _ = encode_labels(y, classes[order])
    if sp.issparse(X):
        X = X.tocsr()
    elif not hasattr(X, "shape"):
        X = np.asarray(X)
    if X.shape[0] != y.size:
        raise ValueError(
            f"X and y have inconsistent numbers of samples: {X.shape[0]} and {y.size}"
        )
    rows = np.flatnonzero(code >= 0)
    column = order[code[rows]]
    out = np.full(y.size, np.nan)
    step = rows_per_block(classes.size)
    for start in range(0, rows.size, step):
        here = rows[start : start + step]
        block = X.iloc[here] if hasattr(X, "iloc") else X[here]
        with np.errstate(divide="ignore"):  # ln 0 = -inf is meant
            rows_here = predict(block)
            picked = rows_here[np.arange(here.size), column[start : start + step]]
            out[here] = picked if logarithms else np.log(picked)
    return out
