"""BackoffClassifier: what every estimator that fills a back-off model shares.

A language model of this family is one method, `_fit_tree`: a `ContextTree` with
counts goes in, (log-probability per pair, log back-off per node) come out. The
rest (reading windows or path matrices, targets, weights, predicting) is here.
"""

from __future__ import annotations

from abc import ABCMeta, abstractmethod

import numpy as np
import scipy.sparse as sp
from sklearn.base import BaseEstimator
from sklearn.utils.validation import (
    check_is_fitted,
    column_or_1d,
    validate_data,
)

from .._checks import check_sparse
from .._compat import _fit_context
from .._parallel import rows_per_block
from ..context_tree import ContextTree
from ..context_tree._symbols import encode_labels, is_nan
from ..context_tree._tree import Histories
from ..context_tree._vectorizer import read_windows
from ._model import BackoffModel
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

    # Whether _fit_tree trains on a collapsed tree as it is; its answer is about the
    # expanded tree, tree.expand(), all the same.
    _trains_collapsed = False

    @abstractmethod
    def _fit_tree(self, tree: ContextTree):
        """(log_prob per pair, log_backoff per node), in natural logarithms."""

    def fit(self, X, y, sample_weight=None):
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
    def _fit(self, X, y, sample_weight):
        self._check_params()
        tree = self._read_training(X, y, sample_weight)
        trie, index = tree.expand()
        log_prob, log_backoff = self._fit_tree(tree if self._trains_collapsed else trie)
        if hasattr(self, "column_to_node_"):
            self.tree_ = tree.structure()
            self.backoff_node_ = index
        self.backoff_model_ = BackoffModel.from_tree(
            trie,
            log_prob,
            log_backoff,
            classes=self.classes_,
            symbols=getattr(self, "categories_", None),
        )
        return self

    def _check_params(self):
        """Errors about parameters that scikit-learn's declarations cannot express."""

    # ------------------------------------------------------------- training

    def _read_training(self, X, y, sample_weight) -> ContextTree:
        """The context tree with counts; sets what prediction needs to read X."""
        sparse = sp.issparse(X)
        require_targets(self, y)
        if sparse:
            check_sparse(X)
            X = validate_data(self, X, accept_sparse="csr", dtype=np.float64)
            n_samples = X.shape[0]
        else:
            codes, categories = read_windows(self, X, self.padding, reset=True)
            n_samples = codes.shape[0]
        y = target_column(y, n_samples)
        keep, sample_weight = read_sample_weight(sample_weight, X)
        if keep is not None:
            y = y[keep]
        target, self.classes_ = read_targets(y, self.classes)

        depth = self.max_depth
        if sparse:
            X = X if keep is None else X[keep]
            tree, terminal, self.column_to_node_ = ContextTree.from_paths(X)
            vars(self).pop("categories_", None)
            if depth is not None and tree.depths().max() > depth:
                raise ValueError(
                    f"the paths of X are up to {tree.depths().max()} symbols long, "
                    f"but max_depth={depth}: set max_depth on SuffixTreeVectorizer, "
                    "and leave it None here"
                )
        else:
            self.categories_ = categories
            for name in ("column_to_node_", "tree_", "backoff_node_"):
                vars(self).pop(name, None)
            histories = Histories.from_windows(
                codes, codes.shape[1] if depth is None else depth
            )
            if keep is not None:
                histories = histories.select(keep)
            tree, terminal = ContextTree.from_histories(histories, categories.size)
        self.depth_ = int(tree.depths().max())
        return tree.count_pairs(terminal, target, self.classes_.size, sample_weight)

    # ----------------------------------------------------------- prediction

    def _find_nodes(self, X):
        """Back-off node of each row of X."""
        check_is_fitted(self)
        if hasattr(self, "column_to_node_"):
            if not sp.issparse(X):
                raise ValueError(
                    f"this {type(self).__name__} was fitted on a sparse path matrix; "
                    "X must be one too (transform it with the same "
                    "SuffixTreeVectorizer)"
                )
            check_sparse(X)
            X = validate_data(
                self, X, accept_sparse="csr", dtype=np.float64, reset=False
            )
            return self._find_path_nodes(X)
        if sp.issparse(X):
            raise ValueError(
                f"this {type(self).__name__} was fitted on dense context windows; "
                "X must not be sparse"
            )
        codes, _ = read_windows(
            self, X, self.padding, reset=False, categories=self.categories_
        )
        return self.backoff_model_.find(codes)

    def _find_path_nodes(self, X):
        node, matched = self.tree_.find_paths(X, self.column_to_node_)
        if self.tree_.span is None:
            return node
        offset = np.cumsum(self.tree_.span, dtype=np.int64) - self.tree_.span
        return self.backoff_node_[offset[node] + matched - 1]

    def _blocks(self, nodes):
        """Full rows of log-probabilities, a bounded number at a time."""
        step = rows_per_block(self.classes_.size)
        for start in range(0, nodes.size, step):
            stop = min(start + step, nodes.size)
            yield (
                slice(start, stop),
                self.backoff_model_.predict_log_proba(nodes[start:stop]),
            )

    def predict_log_proba(self, X) -> np.ndarray:
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
        nodes = self._find_nodes(X)
        return self.backoff_model_.predict_log_proba(nodes)

    def predict_proba(self, X) -> np.ndarray:
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

    def predict(self, X) -> np.ndarray:
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
        nodes = self._find_nodes(X)
        best = np.empty(nodes.size, dtype=np.intp)
        for rows, log_proba in self._blocks(nodes):
            # argmax over the probabilities, not their logarithms, so that predict
            # and predict_proba break ties of rounding in the same way.
            np.exp(log_proba, out=log_proba)
            best[rows] = log_proba.argmax(axis=1)
        return self.classes_[best]

    def target_log_proba(self, X, y) -> np.ndarray:
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
        nodes = self._find_nodes(X)
        target, _ = encode_labels(column_or_1d(y), self.classes_)
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
