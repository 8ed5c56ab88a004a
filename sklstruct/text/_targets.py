"""Labels of texts: one label per text, lists of names, or an indicator matrix."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.preprocessing import MultiLabelBinarizer

from .._checks import as_indicator, check_samples
from .._likelihood import log_other
from ..symbols import encode, label_array, plain_list


def label_lists(y: Any) -> list[Any] | None:
    """y as a list of lists, tuples or sets of strings, one per text.

    Arrays of strings become lists. None if y has another form.
    """
    if sp.issparse(y) or (isinstance(y, np.ndarray) and y.ndim != 1):
        return None
    values, kinds = plain_list(y), list | tuple | set | frozenset
    if not isinstance(values, list) or not values:
        return None
    # Parquet files hold lists as arrays.
    lists = [x.tolist() if isinstance(x, np.ndarray) else x for x in values]
    strings = all(
        isinstance(labels, kinds) and all(isinstance(x, str) for x in labels)
        for labels in lists
    )
    return lists if strings else None


def are_several(y: Any) -> bool:
    """Whether labels are an indicator matrix of several labels."""
    return len(np.shape(y)) == 2 and np.shape(y)[1] > 1


def one_each(y: Any) -> NDArray:
    """One label per text, in one dimension."""
    return np.ravel(y.toarray() if sp.issparse(y) else y)


def learn_names(lists: list[Any], sparse: bool) -> tuple[Any, NDArray]:
    """(indicator matrix, sorted names) of lists of names."""
    binarizer = MultiLabelBinarizer(sparse_output=sparse)
    Y = binarizer.fit_transform(lists)
    if Y.shape[1] < 2:
        raise ValueError(
            f"y holds lists of {Y.shape[1]} label: several labels per text need two or "
            "more labels; pass one label per text, with another label for the others"
        )
    return Y, binarizer.classes_


def binarized(lists: list[Any], classes: NDArray) -> Any:
    """The indicator matrix of lists of names; ValueError for unknown names."""
    new = {label for labels in lists for label in labels} - set(classes.tolist())
    if new:
        raise ValueError(f"y has the label {min(new)!r:.60}, which is not in classes_")
    return MultiLabelBinarizer(classes=classes, sparse_output=True).fit_transform(lists)


def rows_are_equal(lists: list[Any], Y: Any, classes: NDArray) -> NDArray:
    """Whether each list of names equals the row of an indicator matrix.

    A list with a name that is not in `classes` is not equal to any row.
    """
    known = set(classes.tolist())
    check_samples(Y.shape[0], len(lists))
    inside = np.array([known.issuperset(labels) for labels in lists])
    right = binarized([known.intersection(labels) for labels in lists], classes)
    return inside & ((sp.csr_matrix(Y) != right).getnnz(axis=1) == 0)


def indicator_of(y: Any, classes: NDArray, several: bool, n_texts: int) -> Any:
    """y in any form as a CSR indicator matrix with the columns `classes`."""
    if y is None:
        raise ValueError("y must hold the labels of the texts, got None")
    if several:
        lists = label_lists(y)
        Y = as_indicator(y if lists is None else binarized(lists, classes), "y")
        if Y.shape[1] != classes.size:
            raise ValueError(f"y must have {classes.size} columns, got {Y.shape[1]}")
    else:
        labels = one_each(y if sp.issparse(y) else label_array(y))
        code = encode(labels, classes)
        if (code < 0).any():
            label = labels[code < 0].tolist()[0]
            raise ValueError(f"y has the label {label!r:.60}, which is not in classes_")
        at, shape = (np.arange(code.size), code), (code.size, classes.size)
        Y = sp.csr_matrix((np.ones(code.size), at), shape=shape)
    check_samples(n_texts, Y.shape[0])
    return Y


def label_columns(answers: list[NDArray], classes: list[NDArray], method: str) -> Any:
    """The probability of each label, or its logarithm, in one matrix.

    answers: one array per label, as multi-output classifiers of scikit-learn return. An
    array has a column for each value (0, 1) that the label had in training.
    """
    never = np.full(len(answers[0]), 0.0 if method == "predict_proba" else -np.inf)
    pairs = zip(answers, classes)
    return np.column_stack([found[:, -1] if c[-1] else never for found, c in pairs])


def label_shares(y: Any, classes: NDArray, weight: NDArray) -> NDArray:
    """The fraction of the total weight of the texts that have each label."""
    if are_several(y):
        return np.asarray(as_indicator(y, "y").T @ weight / weight.sum())
    code = encode(one_each(y), classes)
    known = code >= 0  # a label of class weight 0 is not known
    total = np.bincount(code[known], weight[known], minlength=classes.size)
    return total / total.sum()


def log_loss_of(model: Any, texts: Sized, y: Any) -> float:
    """Mean log-loss in nats per text; several labels are summed."""
    several = model.estimator_.multilabel_
    right = indicator_of(y, model.classes_, several, len(texts)).toarray() > 0
    log_proba = model.predict_log_proba(texts)
    total = log_proba[right].sum()
    if several:
        total += log_other(log_proba[~right]).sum()
    return (0.0 - float(total)) / max(log_proba.shape[0], 1)  # not -0.0
