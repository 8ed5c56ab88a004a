"""BackoffClassifier: what every estimator that fills a back-off model shares.

A language model of this family is one method, `_fit_tree`: pairs over a context tree
and their counts go in, (log-probability per pair, log back-off per node) come out. The
rest (reading windows or path matrices, targets, weights, predicting) is here.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted, column_or_1d

from .._compat import _fit_context
from .._parallel import row_blocks, rows_per_block
from ..context_tree import ContextTree, Pairs, expand_pairs
from ..context_tree._tokens import count_tokens
from ..symbols import Labels
from ..symbols._encoding import encode, is_nan
from ._model import BackoffModel
from ._readers import Reader, WindowReader, reader_of
from ._targets import (
    BackoffMixin,
    read_sample_weight,
    read_targets,
    require_targets,
    target_column,
)


class BackoffClassifier(BackoffMixin, BaseEstimator, metaclass=ABCMeta):
    """Base of the estimators whose fitted model is a `BackoffModel`.

    Subclasses have the parameters `max_depth`, `padding` and `classes`, and
    define `_fit_tree`.
    """

    @abstractmethod
    def _fit_tree(
        self, pairs: Pairs, count: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """(log_prob per pair, log_backoff per node), in natural logarithms."""

    def _fit_pairs(
        self, pairs: Pairs, count: np.ndarray
    ) -> tuple[Pairs, np.ndarray, np.ndarray]:
        """(pairs, log_prob, log_backoff) of a trie, from pairs of a collapsed one.

        For estimators that train on the collapsed tree as it is, or whose model has
        other pairs than those that were counted.
        """
        pairs, source = expand_pairs(pairs)
        return pairs, *self._fit_tree(pairs, count[source])

    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Fit the model.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Dense: context windows, one symbol a column, the last column the most
            recent. Sparse: the path matrix that `SuffixTreeVectorizer` makes.

        y : array-like of shape (n_samples,)
            The symbol that followed each context.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, fractional or not; weight 0 is as if absent, weight
            2 as a repetition.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is neither (the message says where), a target is not in
            `classes`, or a weight is negative.
        """
        return self._fit(X, y, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X, y, sample_weight, *more):
        self._check_params()
        require_targets(self, y)
        reader = reader_of(X, self.padding)
        data = reader.fit(self, X)
        y = target_column(y, data.shape[0])
        keep, sample_weight = read_sample_weight(sample_weight, data)
        target, self.classes_ = read_targets(
            y if keep is None else y[keep], self.classes
        )
        return self._fit_samples(reader, data, keep, target, sample_weight, *more)

    @_fit_context(prefer_skip_nested_validation=True)
    def fit_tokens(
        self,
        tokens: np.ndarray,
        max_depth: int,
        labels: Labels,
        *,
        skip: int = -1,
        sample_weight: np.ndarray | None = None,
    ) -> Self:
        """Fit on every position of a running text, without windows.

        Parameters
        ----------
        tokens : int32 ndarray of shape (n_tokens,)
            Symbol ids of `labels`, -1 before each sentence. The class of a symbol
            has its id.

        max_depth : int
            Columns that the windows of the text would have.

        labels : Labels
            What the ids mean. The fitted estimator takes and gives these labels.

        skip : int, default=-1
            A symbol that is never predicted.

        sample_weight : float64 ndarray of shape (n_tokens,), default=None
            Positive weight of each predicted position.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        self._check_params()
        self.n_features_in_ = max_depth
        self.classes_ = labels.classes
        depth = max_depth if self.max_depth is None else min(max_depth, self.max_depth)
        pairs, count = count_tokens(
            tokens, depth, labels.n_symbols, labels.n_classes, skip=skip,
            weight=sample_weight,
        )  # fmt: skip
        reader = WindowReader(self.padding, labels.symbols)
        return self._fit_counts(reader, pairs, count)

    def fit_ids(
        self,
        windows: np.ndarray,
        target: np.ndarray,
        labels: Labels,
        sample_weight: np.ndarray,
    ) -> Self:
        """Fit on windows of ids, without encoding anything.

        Parameters
        ----------
        windows : int32 ndarray of shape (n_samples, n_columns)
            Symbol ids of `labels`, the last column the most recent; -1 ends a
            history.

        target : int32 ndarray of shape (n_samples,)
            Class ids of `labels`.

        labels : Labels
            What the ids mean. The fitted estimator takes and gives these labels.

        sample_weight : float64 ndarray of shape (n_samples,)
            Non-negative weights; 0 is as if absent.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        return self._fit_ids(windows, target, labels, sample_weight)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit_ids(self, windows, target, labels, sample_weight, *more):
        """Fit on windows of ids and ids of classes; weight 0 is as if absent."""
        self._check_params()
        self.n_features_in_ = windows.shape[1]
        self.classes_ = labels.classes
        keep, sample_weight = read_sample_weight(sample_weight, windows)
        if keep is not None:
            target = target[keep]
        reader = WindowReader(self.padding, labels.symbols)
        return self._fit_samples(reader, windows, keep, target, sample_weight, *more)

    def _fit_samples(self, reader: Reader, data, keep, target, sample_weight):
        counted = self._count(reader, data, keep, target, sample_weight)
        return self._fit_counts(reader, *counted)

    def _count(self, reader, data, keep, target, sample_weight):
        tree, terminal = reader.grow(data, keep, self.max_depth)
        return Pairs.count(tree, terminal, target, self.classes_.size, sample_weight)

    def _fit_counts(self, reader, pairs, count):
        self.depth_ = pairs.tree.max_depth
        pairs, log_prob, log_backoff = self._fit_pairs(pairs, count)
        self._reader = reader
        self.backoff_model_ = BackoffModel(
            pairs, log_prob, log_backoff, Labels(self.classes_, reader.symbols)
        )
        return self

    def vectorized_model(
        self, columns: ContextTree, symbols: np.ndarray, labels: Labels
    ) -> BackoffModel:
        """The model under the symbols of the text that a vectorizer read.

        Parameters
        ----------
        columns : ContextTree
            The vectorizer's tree: its nodes are the columns of the path matrix that
            this estimator was fitted on.

        symbols : int ndarray of shape (n,)
            The symbol id of `labels` for each symbol of `columns`.

        labels : Labels
            What the ids mean; the classes are this estimator's, in order.
        """
        model = self.backoff_model_
        tree = self._reader.columns_to_symbols(model.tree, columns)
        symbol = tree.symbol.copy()
        symbol[1:] = symbols[symbol[1:]]
        tree = tree.with_symbols(symbol, labels.n_symbols)
        pairs = Pairs.of_arrays(tree, model.pairs.ptr, model.pairs.target)
        return BackoffModel(pairs, model.log_prob, model.log_backoff, labels)

    def _check_params(self):
        """Errors about parameters that scikit-learn's declarations cannot express."""

    def __sklstruct_ids__(self, labels: Labels) -> dict:
        """Parameters with which the estimator learns from windows of class ids."""
        return {**super().__sklstruct_ids__(labels), "padding": -1}

    # ----------------------------------------------------------- prediction

    def find_nodes(self, X: Any) -> np.ndarray:
        """Node of the back-off model for each row of X.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        nodes : ndarray of shape (n_samples,), int32
            That of the longest known context, for the methods of
            ``backoff_model_``.
        """
        check_is_fitted(self)
        return self._reader.nodes(self, self.backoff_model_.tree, X)

    def _blocks(self, nodes):
        """Full rows of log-probabilities, a bounded number at a time."""
        for rows in row_blocks(nodes.size, rows_per_block(self.classes_.size)):
            yield rows, self.backoff_model_.predict_log_proba(nodes[rows])

    def predict_log_proba(self, X: Any) -> np.ndarray:
        r"""Natural logarithm of :math:`P(y \mid x)` for every class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``. For many classes prefer
            `target_log_proba`, which never makes this matrix.
        """
        nodes = self.find_nodes(X)
        return self.backoff_model_.predict_log_proba(nodes)

    def predict_proba(self, X: Any) -> np.ndarray:
        r""":math:`P(y \mid x)` for every class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to 1, for seen and unseen contexts.
        """
        log_proba = self.predict_log_proba(X)
        return np.exp(log_proba, out=log_proba)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class after each context.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The first of ``classes_`` among equally probable ones.
        """
        nodes = self.find_nodes(X)
        best = np.empty(nodes.size, dtype=np.intp)
        for rows, log_proba in self._blocks(nodes):
            # argmax over the probabilities, not their logarithms, so that predict
            # and predict_proba break ties of rounding in the same way.
            np.exp(log_proba, out=log_proba)
            best[rows] = log_proba.argmax(axis=1)
        return self.classes_[best]

    def target_log_proba(self, X: Any, y: ArrayLike) -> np.ndarray:
        r"""Natural logarithm of :math:`P(y_i \mid x_i)` for given targets.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Contexts, in the form that `fit` was given.

        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        log_proba : ndarray of shape (n_samples,)
            NaN where y is not in ``classes_``: what such a target costs is a
            matter of convention, which `sklstruct.metrics` leaves to a
            parameter.
        """
        nodes = self.find_nodes(X)
        target = encode(column_or_1d(y), self.classes_)
        if target.size != nodes.size:
            raise ValueError(
                f"X and y have inconsistent numbers of samples: {nodes.size} and "
                f"{target.size}"
            )
        out = np.full(nodes.size, np.nan)
        known = target >= 0
        out[known] = self.backoff_model_.log_proba(nodes[known], target[known])
        return out

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = is_nan(self.padding)
        return tags
