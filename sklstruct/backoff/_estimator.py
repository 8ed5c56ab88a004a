"""BackoffClassifier: base of the estimators whose fitted model is a `BackoffModel`.

A subclass defines one method, `_fit_tree`: from the pairs of a context tree and their
counts it computes the log-probability of each pair and the log back-off of each node.
This module reads windows and path matrices, counts, checks targets and weights, and
predicts.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._checks import check_ids, check_samples
from .._compat import BaseEstimator, _fit_context, check_weights
from .._docs import shared_docs
from ..context_tree import ContextTree, Pairs, read_windows
from ..symbols import Labels, is_nan
from ._batches import add_batch, check_forgetting, read_settings
from ._counted import Counted, CountedPaths, check_counted
from ._counting import count_paths, count_windows
from ._model import BackoffModel, Fitted
from ._readers import WindowReader, read_paths
from ._targets import (
    BackoffMixin,
    read_known,
    read_sample_weight,
    read_targets,
    require_targets,
    target_column,
)

# Parameters that change the counts of a batch.
_COUNTED_BY = ("max_depth", "padding", "classes")

# Blocks of the docstrings of `fit` and `partial_fit`; see `shared_docs`.
SAMPLES = """
X : array-like or CSR matrix of shape (n_samples, n_features)
    Dense: context windows, one symbol per column, the last column the most
    recent. Sparse: the path matrix that `SuffixTreeVectorizer` makes.

y : array-like of shape (n_samples,)
    The symbol that followed each context.

sample_weight : array-like of shape (n_samples,), default=None
    Non-negative weights, which may be fractional. A sample of weight 0 is left out, a
    sample of weight 2 counts as two samples.
"""
BATCH = """
X : array-like of shape (n_samples, n_features)
    Context windows, as wide as in the first batch.

y : array-like of shape (n_samples,)
    The symbol that followed each context.

classes : array-like of shape (n_classes,), default=None
    In the first batch: all possible classes, as in scikit-learn. None: the parameter
    `classes`, and if it is None too, the classes that are seen, batch by batch.

sample_weight : array-like of shape (n_samples,), default=None
    Non-negative weights.

decay : float, default=None
    Factor of all earlier counts, above 0 and at most 1. The model equals the model of
    one `fit` in which samples of the previous batch have weight `decay`, samples of the
    batch before that ``decay ** 2``, and so on. Pairs with a count below 1e-9 are
    removed; classes stay.

window : int, default=None
    The model equals the model of one `fit` on the last `window` batches, including this
    batch. If `window` is the number of batches of a text, batches of a second pass
    replace the batches of the first pass. Give `window` from the first batch on, and
    not together with `decay`. The counts of each of these batches are stored.
"""


class HeldOutData(NamedTuple):
    """Held-out samples as `fit` gets them."""

    X: Any
    y: Any
    sample_weight: Any = None


class BackoffClassifier(BackoffMixin, BaseEstimator):
    """Base of the estimators whose fitted model is a `BackoffModel`.

    Subclasses have the parameters `max_depth`, `padding` and `classes`, and
    define `_fit_tree`.
    """

    max_depth: int | None
    padding: Any
    classes: ArrayLike | None
    classes_: np.ndarray
    backoff_model_: BackoffModel

    def _fit_tree(
        self, pairs: Pairs, count: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(log_prob per pair, log_backoff per node), in natural logarithms.

        The values may be written into the array of the counts. Every estimator defines
        this method, or `_fit_counted` if its model has other pairs.
        """
        raise NotImplementedError

    def _fit_counted(self, counted: Counted, overwrite: bool) -> Fitted:
        """The model of counts of contexts no longer than `max_depth`.

        Estimators override this method if they train on a collapsed tree directly, or
        if their model has other pairs than the counted pairs. With `overwrite` the
        counts may be overwritten.
        """
        pairs, count = counted.expanded(copy=not overwrite)
        return Fitted(pairs, *self._fit_tree(pairs, count))

    @property
    def least_context(self) -> int:
        """Contexts whose samples have a smaller total weight are not in the model."""
        return 1

    @property
    def held_out_share(self) -> float | None:
        """Share of the samples that is held out to tune parameters, or None."""
        return None

    @property
    def keeps_positions(self) -> bool:
        """True if the estimator counts contexts in its fit, and not before."""
        return False

    # -------------------------------------------------------------- fitting

    @shared_docs(samples=SAMPLES)
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        {samples}

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is neither context windows nor a path matrix, a target is not in
            `classes`, or a weight is negative.
        """
        return self._fit(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X, y, sample_weight, held_out=None):
        self._check_params()
        counted = count_samples(self, X, y, sample_weight, held_out)
        self._learn(counted)
        if hasattr(self, "partial_fit") and not isinstance(counted, CountedPaths):
            fixed = self.classes is not None
            settings = read_settings(self, _COUNTED_BY)
            _, self._so_far = add_batch(None, counted, settings, fixed_classes=fixed)
        return self

    @shared_docs(batch=BATCH)
    @_fit_context(prefer_skip_nested_validation=True)
    def partial_fit(
        self,
        X: Any,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        decay: float | None = None,
        window: int | None = None,
    ) -> Self:
        """Learn from more samples.

        New contexts, classes and symbols are added, and the counts of the batches are
        summed. A count-based model equals the model of one `fit` on all batches, up to
        rounding errors in sums of weights; sums of whole numbers are exact. The time of
        a call grows with the size of the model so far, not only with the batch.

        Parameters
        ----------
        {batch}

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            As `fit`; if X is a path matrix, whose columns belong to the tree of one
            batch; if the model was fitted on one; or if `max_depth`, `padding` or
            `classes` was changed after the first batch.
        AttributeError
            If the estimator tunes parameters on held-out samples, which batches do not
            have.
        """
        self._check_params()
        check_forgetting(decay, window)
        require_targets(self, y)
        before = getattr(self, "_so_far", None)
        if before is None and hasattr(self, "backoff_model_"):
            raise ValueError(
                f"this {type(self).__name__} was fitted on path matrices or inside a "
                "LanguageModel, and has no counts that partial_fit could add to; "
                "clone it, and pass the first batch to partial_fit"
            )
        if sp.issparse(X):
            raise ValueError(
                "X: partial_fit takes dense context windows; the columns of a path "
                "matrix belong to the tree of one batch"
            )
        settings = read_settings(self, _COUNTED_BY, before)
        if before is not None:
            _check_fixed(classes, before)
            known = before.counted.labels.classes
            classes = known if before.fixed_classes else None
        elif self.classes is not None:
            classes = self.classes
        batch = count_samples(
            self, X, y, sample_weight, classes=classes, reset=before is None
        )
        counted, so_far = add_batch(
            before, batch, settings, decay=decay, window=window,
            fixed_classes=classes is not None,
        )  # fmt: skip
        self._learn(counted)
        self._so_far = so_far
        return self

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counted(self, counted: Counted, *, overwrite: bool = False) -> Self:
        """Fit the model to counts.

        Parameters
        ----------
        counted : Counted
            From `LanguageModel.count`. Contexts longer than `max_depth` are left out.

        overwrite : bool, default=False
            True: the counts may be overwritten, which saves memory; `counted` cannot be
            used afterwards.

        Returns
        -------
        self : object
            Fitted estimator, with the labels of `counted`.

        Raises
        ------
        ValueError
            If the classes of `counted` differ from the parameter `classes`, or its
            paths are longer than `max_depth`.
        """
        self._check_params()
        check_counted(counted)
        given = counted.labels.classes
        if self.classes is not None and set(np.asarray(self.classes).tolist()) != set(
            given.tolist()
        ):
            raise ValueError(
                f"classes: the {given.size} classes that were counted differ; "
                "leave classes None"
            )
        self.n_features_in_ = counted.max_depth
        vars(self).pop("feature_names_in_", None)
        overwrite = overwrite and counted.count.flags.writeable
        return self._learn(counted.cut(self.max_depth), overwrite)

    def _learn(self, counted: Counted, overwrite: bool = False) -> Self:
        """Fit the model, and drop the state of earlier fits."""
        self._so_far = None  # `partial_fit` sets it afterwards
        if not self.keeps_positions:
            counted = counted.count_now(self.least_context)
        counted = counted.frequent(self.least_context)
        self.classes_ = counted.labels.classes
        fitted = self._fit_divided(counted, overwrite)
        pairs, log_prob, log_backoff, new_index, zero = fitted
        counted = counted.all_counts
        self.depth_ = counted.longest
        self._reader: Any = counted.reader(self.padding)
        if new_index is not None:
            self._reader.renumber(counted.expanded()[0].tree, new_index)
        self.backoff_model_ = BackoffModel(pairs, log_prob, log_backoff, counted.labels)
        self.backoff_model_.zero_weight = zero
        if overwrite:
            self.backoff_model_.pairs.forget_parents()
        return self

    def _fit_divided(self, counted: Counted, overwrite: bool) -> Fitted:
        """The model of all counts, including the held-out samples of `counted`."""
        return self._fit_counted(counted.all_counts, overwrite)

    def adopt(self, model: BackoffModel, max_depth: int) -> Self:
        """Take over a fitted model, such as that of the workers of a cluster.

        Parameters
        ----------
        model : BackoffModel
            A model over windows of the symbols of its labels.

        max_depth : int
            Number of columns of the windows.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._so_far = None
        self.n_features_in_ = max_depth
        self.classes_ = model.labels.classes
        self.depth_ = model.max_depth
        symbols = model.labels.known_symbols("windows")
        self._reader = WindowReader(self.padding, symbols)
        self.backoff_model_ = model
        return self

    def _check_params(self):
        """Check parameters beyond scikit-learn's declared constraints."""

    def log_prior(self) -> float:
        """Logarithm of the prior density at the fitted model, up to a constant.

        The fit maximises the log-likelihood plus this number. The number is 0 for
        smoothers that are not maximum a posteriori estimates.
        """
        return 0.0

    def __sklstruct_ids__(self, labels: Labels) -> dict:
        """The parameters to set before the estimator learns from windows of ids."""
        return {**super().__sklstruct_ids__(labels), "padding": -1}

    # ----------------------------------------------------------- prediction

    def locate(self, X: Any) -> np.ndarray:
        """Node of the back-off model for each row of X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        nodes : ndarray of shape (n_samples,), int32
            The node of the longest known context, for the methods of
            ``backoff_model_``.
        """
        check_is_fitted(self)
        return self._reader.nodes(self, self.backoff_model_.tree, X)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        # The only sparse matrices that can be read are path matrices. scikit-learn has
        # no tag for this, and its meta-estimators do not read the tag `sparse`.
        tags.input_tags.sparse = False
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = is_nan(self.padding)
        return tags


def check_parameters(estimator: BackoffClassifier) -> None:
    """Check the parameters of an estimator, before any work."""
    estimator._validate_params()
    estimator._check_params()


def count_samples(
    estimator: BackoffClassifier,
    X: Any,
    y: ArrayLike | None,
    sample_weight: ArrayLike | None = None,
    held_out: HeldOutData | None = None,
    *,
    classes: ArrayLike | None = None,
    reset: bool = True,
) -> Counted:
    """Count samples for an estimator over contexts; sets its `n_features_in_` and
    names.

    held_out: None: the estimator's `held_out_share` of the samples is held out.
    classes: all possible classes; None: the parameter of the estimator, and if it is
    None too, the classes of y. reset: False: X must have the columns of the last fit.
    """
    require_targets(estimator, y, X)
    share = estimator.held_out_share
    classes = estimator.classes if classes is None else classes
    has_paths, symbols = sp.issparse(X), None
    if has_paths:
        data = read_paths(estimator, X, reset=reset)
    else:
        data, symbols = read_windows(estimator, X, estimator.padding, reset=reset)
    y = target_column(y, data.shape[0])
    keep, weight = read_sample_weight(sample_weight, data)
    target, known = read_targets(y if keep is None else y[keep], classes)
    if keep is not None:  # samples of weight 0 stay as rows, but are not counted
        target, weight = _spread(target, keep), _spread(weight, keep)
    labels = Labels(known, symbols)
    options: dict[str, Any] = {"depth": estimator.max_depth, "sample_weight": weight}
    if held_out is not None:
        options["validation"] = _read_held_out(estimator, held_out, symbols, known)
    elif share is not None:
        options["share"] = share
    if has_paths:
        return count_paths(data, target, labels, **options)
    options |= {"keep_positions": estimator.keeps_positions}
    options |= {"min_count": estimator.least_context}
    return count_windows(data, target, labels, **options)


def _spread(values, keep):
    out = np.zeros(keep.size, dtype=values.dtype)
    out[keep] = values
    return out


def _read_held_out(estimator, held_out, symbols, classes):
    """(data, targets, positive weights or None) of held-out samples."""
    X, y, weight = held_out
    if symbols is None:
        if not sp.issparse(X):
            raise ValueError("X_val must be a path matrix, as X is")
        data = read_paths(estimator, X, reset=False)
    else:
        if sp.issparse(X):
            raise ValueError("X_val must be dense context windows, as X is")
        data, _ = read_windows(
            estimator, X, estimator.padding, reset=False, symbols=symbols
        )
    y = column_or_1d(y)
    check_samples(data.shape[0], y.size, "X_val and y_val")
    target = read_known(y, classes)
    if weight is not None:
        weight = check_weights(weight, y, "sample_weight_val")
        keep = weight > 0
        data, target, weight = data[keep], target[keep], weight[keep]
    return data, target, weight


def _check_fixed(given, before):
    """ValueError if the classes of a later batch differ from the first batch."""
    if given is None:
        return
    known, fixed = before.counted.labels.classes, before.fixed_classes
    if not fixed or not np.array_equal(np.unique(np.asarray(given)), known):
        raise ValueError(
            "classes must be those of the first call of partial_fit, or None: the "
            "model has "
            + (f"{known.size} others" if fixed else "classes as they are seen")
        )


def vectorized_model(
    estimator: BackoffClassifier,
    columns: ContextTree,
    symbols: np.ndarray,
    labels: Labels,
) -> BackoffModel:
    """A model of path matrices, relabelled with the symbols of the vectorizer's text.

    columns: the vectorizer's tree, whose nodes are the columns of the path matrix that
    the estimator is fitted on. symbols: the id in `labels` of each symbol of this tree;
    the classes of `labels` are the estimator's, in order.
    """
    model = estimator.backoff_model_
    tree = estimator._reader.columns_to_symbols(model.tree, columns)
    symbol = tree.symbol.copy()
    symbol[1:] = symbols[symbol[1:]]
    check_ids("symbols", symbol[1:], 0, labels.n_symbols or 0, "symbol of labels")
    tree = ContextTree(tree.parent, symbol, labels.n_symbols or 0)
    return model.relabel(labels, tree)
