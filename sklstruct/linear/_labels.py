"""Reading of X and y, and predictions, for one or several labels per sample.

With several labels y is an indicator matrix, dense or sparse, as scikit-learn's
`MultiLabelBinarizer` makes it. Labels are then the numbers of its columns.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.multiclass import check_classification_targets, type_of_target
from sklearn.utils.validation import (
    _num_samples,
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from .._checks import (
    as_indicator,
    check_dates,
    check_rows,
    check_samples,
    check_sparse,
    check_top_k,
    strings_as_objects,
)
from .._compat import _align_api_if_sparse
from .._likelihood import TopKMixin, class_codes
from .._warnings import warn
from ..symbols import check_missing, check_strings, mixed_as_objects
from ._samples import sample_weights
from ._targets import Targets

# Largest number of labels that a warning names.
_NAMED = 5


class LabelColumns(NamedTuple):
    """The columns of an indicator matrix; `known` are those with a positive value."""

    n_labels: int
    known: NDArray
    dtype: np.dtype
    is_sparse: bool

    @classmethod
    def of(cls, Y: sp.csr_matrix, is_sparse: bool) -> LabelColumns:
        """The columns of a checked matrix; warns of columns without a positive."""
        positives = np.bincount(Y.indices, minlength=Y.shape[1])
        known, never = np.flatnonzero(positives), np.flatnonzero(positives == 0)
        if known.size == 0:
            raise ValueError(
                f"y has {Y.shape[1]} labels and no positive entry: there is nothing to "
                "learn"
            )
        if never.size:
            named = ", ".join(map(str, never[:_NAMED].tolist()))
            more = f" and {never.size - _NAMED} more" if never.size > _NAMED else ""
            warn(
                f"no training sample has label {named}{more}: the model gives "
                "probability 0",
            )
        return cls(Y.shape[1], known, Y.dtype, is_sparse)

    @property
    def leaves(self) -> NDArray:
        """The columns with a model: `known`, and one more if `known` is one column.

        A tree needs at least two.
        """
        if self.known.size > 1:
            return self.known
        return np.sort(np.append(self.known, self.known[0] == 0))

    def targets(self, Y: sp.csr_matrix) -> Targets:
        """The outcomes of the rows of Y: the columns `leaves`, numbered from 0."""
        return Targets.of_indicator(Y[:, self.leaves].tocsr())

    def spread(self, values: NDArray, fill: float) -> NDArray:
        """Values (n, leaves) in n_labels columns; fill: value of unknown labels."""
        if self.known.size == self.n_labels:
            return values
        out = np.full((values.shape[0], self.n_labels), fill, dtype=values.dtype)
        if self.known.size == 1:
            values = values[:, self.leaves == self.known]
        out[:, self.known] = values
        return out

    def sparse(self, sample: NDArray, code: NDArray, value: Any, n: int) -> Any:
        """CSR matrix (n, n_labels) with values at (sample, leaves[code]) if known."""
        label = self.leaves[code]
        if self.known.size == 1:
            is_known = label == self.known
            sample, label, value = sample[is_known], label[is_known], value[is_known]
        out = sp.csr_matrix((value, (sample, label)), shape=(n, self.n_labels))
        out.sort_indices()
        return _align_api_if_sparse(out)

    def indicator(self, sample: NDArray, code: NDArray, n: int) -> Any:
        """Indicator matrix (n, n_labels), dense or sparse as y was."""
        one = np.ones(sample.size, dtype=self.dtype)
        out = self.sparse(sample, code, one, n)
        return out if self.is_sparse else out.toarray()


def read_training(
    estimator: Any,
    X: Any,
    y: Any,
    sample_weight: ArrayLike | None,
    *,
    batch: bool = False,
    reset: bool = True,
    allow_nan: bool = False,
) -> tuple[Any, Any, NDArray, NDArray, NDArray, Any]:
    """(X, y, weight, class weight, index, implied labels), checked for `fit`.

    X, y and weight have the samples of positive weight; `index` are their numbers among
    all samples. The class weight has all samples. y are labels (n,), or a CSR indicator
    matrix with the implied labels. `label_columns_` of the estimator is set, to None
    for labels (n,). batch: whether y may lack classes. reset: whether X determines the
    number of features. allow_nan: whether X may contain NaN.
    """
    if y is None:
        raise ValueError(
            f"This {type(estimator).__name__} estimator requires y to be passed, but "
            "the target y is None"
        )
    check_sparse(X)
    check_sparse(y, "y")
    y = strings_as_objects(y)
    several = sp.issparse(y) or check_labels(y).ndim == 2
    check_samples(_num_samples(X), _num_samples(y))
    if several and np.shape(y)[1] == 0:
        raise ValueError("y has 0 labels: it needs a column for each label")
    X, y = validate_data(
        estimator,
        X,
        y,
        accept_sparse="csr",
        dtype=[np.float64, np.float32],
        order="C",
        multi_output=several,
        ensure_all_finite="allow-nan" if allow_nan else True,
        reset=reset,
    )
    # A small batch of integers may look like regression, but the caller knows the
    # classes. Strings are always classes.
    if not (batch or (y.ndim == 1 and y.dtype.kind == "U")):
        check_classification_targets(y)
    several, is_sparse = several and y.shape[1] > 1, sp.issparse(y)
    refusal = estimator._refusal_of_labels() if several else None
    if refusal is not None:
        raise ValueError(refusal)
    if is_sparse and not several:
        y = y.toarray()
    implied = None
    if several:
        y = as_indicator(y, "y of several columns")
        implied = estimator._implied_labels(y.shape[1])
        y = y if implied is None else implied.close(y)
    elif y.ndim > 1:
        y = column_or_1d(y, warn=True)
    weight, factor, index = sample_weights(X, y, sample_weight, estimator.class_weight)
    if index.size < weight.size:
        X, y, weight = X[index], y[index], weight[index]
    estimator.label_columns_ = LabelColumns.of(y, is_sparse) if several else None
    return X, y, np.ascontiguousarray(weight), factor, index, implied


def read_rows(estimator: Any, X: Any, dtype: Any, allow_nan: bool = False) -> Any:
    """X, checked for the prediction of a fitted model."""
    check_sparse(X)
    return validate_data(
        estimator,
        X,
        accept_sparse="csr",
        dtype=dtype,
        order="C",
        ensure_all_finite="allow-nan" if allow_nan else True,
        reset=False,
    )


def check_labels(y: Any) -> NDArray:
    """Labels as an array.

    ValueError for missing labels, sets of labels, and columns that are not numbers;
    TypeError for strings mixed with numbers. scikit-learn checks numbers later; its
    messages about objects do not name the cause.
    """
    y = mixed_as_objects(y)
    try:
        labels = np.asarray(y)
    except ValueError:  # lists of unequal length
        type_of_target(y, input_name="y")  # raises an error with the remedy
        raise
    if labels.ndim == 1:
        check_missing(labels)
    check_dates(labels)
    if labels.ndim == 1 and labels.dtype == object:
        sets = [label for label in labels if isinstance(label, set | frozenset | list)]
        if sets:
            raise ValueError(
                f"y holds sets of labels such as {sets[0]!r}: make an indicator matrix "
                "of them with sklearn.preprocessing.MultiLabelBinarizer"
            )
        if getattr(y, "dtype", labels.dtype) == labels.dtype:  # not pandas' Int64
            check_strings(labels)
    kind = labels.dtype.kind
    unfit = kind in "OUSmM" or labels.dtype == np.float16  # for sparse matrices
    if labels.ndim == 2 and labels.shape[1] > 1 and unfit:
        raise ValueError(
            f"y of several columns must hold 0 and 1, and has dtype {labels.dtype}: "
            "use y.astype(int), or sklearn.preprocessing.MultiLabelBinarizer for sets "
            "of names"
        )
    return labels


def check_threshold(threshold: float | str, several: bool, calibrated: bool) -> None:
    """ValueError for a `threshold` that would have no effect."""
    if not several and threshold != 0.5:
        raise ValueError(
            f"threshold={threshold!r} is for several labels per sample, and y has one: "
            "leave threshold at 0.5"
        )
    if threshold != 0.5 and not calibrated:
        raise ValueError(
            f'threshold={threshold!r} needs probabilities: use calibration="fold"'
        )


Use = Callable[[slice, NDArray], None]


def best_of_rows(
    each: Callable[[Use], None], n: int, k: int
) -> tuple[NDArray, NDArray]:
    """(the k most probable classes, their log-probabilities) of n samples.

    each(use): calls use(slice, log-probabilities of all classes) for each block.
    """
    best, log_proba = np.empty((n, k), dtype=np.int64), np.empty((n, k))

    def use(part, rows):
        best[part] = np.argsort(-rows, axis=1, kind="stable")[:, :k]
        log_proba[part] = np.take_along_axis(rows, best[part], axis=1)

    each(use)
    return best, log_proba


def target_of_rows(each: Callable[[Use], None], code: NDArray) -> NDArray:
    """Log-probability of class code[i] in row i; each: as in `best_of_rows`."""
    out = np.empty(code.size)

    def use(part, rows):
        out[part] = np.take_along_axis(rows, code[part, None], axis=1)[:, 0]

    each(use)
    return out


class LabelsMixin(TopKMixin):
    """Predictions of linear and hierarchical classifiers, for one label or several.

    `label_columns_` is None for one label per sample.
    """

    label_columns_: LabelColumns | None
    class_weight: Any

    def _refusal_of_labels(self) -> str | None:
        """The error message if the parameters exclude several labels, else None."""
        if self.class_weight is not None:
            return (
                "class_weight is for one label per sample; with several labels leave "
                "class_weight None, or use sample_weight"
            )
        return None

    def _implied_labels(self, n_labels: int) -> Any:
        """An object whose `close(Y)` adds the labels that labels imply, or None."""
        return None

    def _n_rows(self) -> int:
        """Number of weight vectors of a flat model."""
        if self.label_columns_ is not None:
            return int(self.label_columns_.leaves.size)
        n = self.classes_.size
        return n - 1 if n <= 2 else n

    @property
    def multilabel_(self) -> bool:
        """Whether y was an indicator matrix."""
        check_is_fitted(self)
        return self.label_columns_ is not None

    def predict_top_k(
        self, X: Any, k: int = 5, *, return_log_proba: bool = False
    ) -> Any:
        """The k most probable classes of each sample, most probable first.

        The whole matrix of probabilities is never made.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        k : int, default=5
            Number of classes, from 1 to n_classes.

        return_log_proba : bool, default=False
            Whether to return natural log-probabilities too; for one label per sample.

        Returns
        -------
        labels : ndarray of shape (n_samples, k)
            Ties go to the class that comes first in ``classes_``.

        log_proba : ndarray of shape (n_samples, k)
            With ``return_log_proba=True`` only.

        proba : CSR matrix of shape (n_samples, n_labels)
            The only return value with several labels per sample: the probabilities of
            the k most probable labels of each sample.

        Raises
        ------
        ValueError
            If k is out of its range, or ``return_log_proba=True`` with several labels.
        """
        check_is_fitted(self)
        columns = self.label_columns_
        if columns is None:
            given: Any = return_log_proba
            return super().predict_top_k(X, k, return_log_proba=given)
        if return_log_proba:
            raise ValueError(
                "return_log_proba=True is for one label per sample; with several leave "
                "it False: the returned matrix has the probabilities"
            )
        n_leaves = columns.leaves.size
        more = n_leaves - columns.known.size  # unknown, `sparse` leaves it out
        k = min(check_top_k(k, columns.n_labels) + more, n_leaves)
        best, log_proba = self._find_top_k(X, k)
        sample = np.repeat(np.arange(best.shape[0]), k)
        value = np.exp(log_proba.ravel())
        return columns.sparse(sample, best.ravel(), value, best.shape[0])

    @abstractmethod
    def _read(self, X: Any) -> Any:
        """X, checked for prediction by a fitted model."""

    @abstractmethod
    def _log_proba_blocks(self, X: Any, use: Use) -> None:
        """Call use(slice, log-probabilities of its rows) for each block."""

    def _find_top_k(self, X, k):
        rows = self._read(X)
        return best_of_rows(
            lambda use: self._log_proba_blocks(rows, use), rows.shape[0], k
        )

    def _target(self, X: Any, code: NDArray) -> NDArray:
        """Log-probability of class code[i] in row i."""
        return target_of_rows(lambda use: self._log_proba_blocks(X, use), code)

    def _full_rows(self, X, finish):
        """finish(log-probabilities) of all rows and columns of y, in one array."""
        columns, n_classes = self.label_columns_, self.classes_.size
        check_rows(X.shape[0], n_classes)
        width = n_classes if columns is None else columns.leaves.size
        out = np.empty((X.shape[0], width))
        self._log_proba_blocks(X, lambda part, rows: finish(rows, out=out[part]))
        return out if columns is None else columns.spread(out, finish(-np.inf))

    def predict_proba(self, X: ArrayLike) -> NDArray:
        r""":math:`P(y \mid x)` for every class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            With one label per sample rows sum to 1. Columns are in the order of
            ``classes_``. For many classes prefer `target_log_proba` and
            `predict_top_k`, which never make this matrix.

        Raises
        ------
        MemoryError
            If the matrix is larger than this machine's memory. The message has the
            size.
        """
        return self._full_rows(self._read(X), np.exp)

    def predict_log_proba(self, X: ArrayLike) -> NDArray:
        r"""Natural logarithm of :math:`P(y \mid x)` for every class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``; minus infinity for labels without a
            positive value in `fit`.

        Raises
        ------
        MemoryError
            As in `predict_proba`.
        """
        return self._full_rows(self._read(X), np.positive)

    def target_log_proba(self, X: ArrayLike, y: ArrayLike) -> NDArray:
        r"""Natural logarithm of :math:`P(y_i \mid x_i)` for given labels.

        The matrix of all classes is never made.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,)
            Labels.

        Returns
        -------
        log_proba : ndarray of shape (n_samples,)
            NaN if the label is not in ``classes_``, or, with several labels, has no
            positive value in `fit`. See the parameter `unknown` of the scores in
            `sklstruct.metrics`.
        """
        rows = self._read(X)
        columns = self.label_columns_
        classes = self.classes_ if columns is None else columns.known
        code, known = class_codes(y, classes, rows.shape[0])
        if columns is not None:
            code = np.searchsorted(columns.leaves, classes[code])
        out = self._target(rows, code)
        out[~known] = np.nan
        return out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = self._refusal_of_labels() is None
        return tags


class FlatMixin(LabelsMixin):
    """Predictions of a flat model from the scores of all classes."""

    _dtype: Any = np.float64  # of the scores
    _least: Any = 0.0  # labels of larger log-odds are predicted

    @abstractmethod
    def _blocks(self, X: Any, finish: Use) -> None:
        """Call finish(slice, scores of the rows (n, `_n_rows`)) for each block."""

    @abstractmethod
    def _log_proba_of(self, scores: NDArray) -> NDArray:
        """Log-probabilities of all classes, at least two."""

    def _odds(self, scores: NDArray) -> NDArray:
        """Log-odds of labels."""
        return scores

    def _log_proba_blocks(self, X, use):
        def finish(part, scores):
            alone = self.label_columns_ is None and self.classes_.size == 1
            n = part.stop - part.start
            use(part, np.zeros((n, 1)) if alone else self._log_proba_of(scores))

        self._blocks(X, finish)

    def decision_function(self, X: ArrayLike) -> NDArray:
        r"""Scores :math:`z = W x + b`.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        scores : ndarray of shape (n_samples, n_classes)
            (n_samples,) with two classes, positive for the second, or with one. With
            several labels the log-odds of `predict_proba`, if the model has this
            method; labels without a positive value in `fit` have the least finite
            float.

        Raises
        ------
        MemoryError
            If the matrix is larger than this machine's memory.
        """
        rows, columns, width = self._read(X), self.label_columns_, self._n_rows()
        check_rows(rows.shape[0], max(width, self.classes_.size))
        out = np.zeros((rows.shape[0], max(width, 1)), dtype=self._dtype)

        def finish(part, scores):
            if width:
                out[part] = scores if columns is None else self._odds(scores)

        self._blocks(rows, finish)
        if columns is not None:
            return columns.spread(out, float(np.finfo(out.dtype).min))
        return out[:, 0] if width <= 1 else out

    def predict(self, X: ArrayLike) -> NDArray:
        """The class of the largest score, which is the most probable one.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels. Ties go to the class that comes first in ``classes_``. With several
            labels an indicator matrix of the type of the y of `fit`, with the labels
            whose probability is above the threshold.
        """
        rows, columns = self._read(X), self.label_columns_
        code, found = np.zeros(rows.shape[0], dtype=np.int64), []

        def finish(part, scores):
            if columns is not None:
                sample, label = np.nonzero(self._odds(scores) > self._least)
                found.append((sample + part.start, label))
            elif self.classes_.size == 2:
                code[part] = scores[:, 0] > 0
            elif self.classes_.size > 2:
                code[part] = scores.argmax(axis=1)

        self._blocks(rows, finish)
        if columns is None:
            return self.classes_[code]
        sample, label = (np.concatenate(part) for part in zip(*found))
        return columns.indicator(sample, label, rows.shape[0])
