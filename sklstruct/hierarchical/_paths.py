"""PathClassifier: labels that are paths down a hierarchy, of any length."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils import indexable
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import (
    _num_samples,
    check_is_fitted,
    has_fit_parameter,
)

from .._checks import check_samples, check_sparse, strings_as_objects
from .._compat import (
    BaseEstimator,
    HasMethods,
    Interval,
    MetaEstimatorMixin,
    StrOptions,
    _check_sample_weight,
    _fit_context,
    _safe_indexing,
)
from .._likelihood import LogProbaMixin
from .._parallel import row_blocks, rows_per_block
from ..symbols import is_missing
from ..taxonomy import LabelTree, as_paths
from ..taxonomy._node_answers import walk_down
from ._classifier import HierarchicalClassifier
from ._nodes import tags_of_input


class PathClassifier(MetaEstimatorMixin, LogProbaMixin, BaseEstimator):
    r"""Classification into the nodes of a hierarchy, with labels as paths.

    A label is the path :math:`(v_1, \dots, v_m)` to an inner node or a leaf. Paths may
    have different lengths. Let C be the set of the last nodes of all paths in `fit`. A
    classifier learns :math:`P(c \mid x)` over C, along the tree of the paths if it has
    a parameter `taxonomy`. A node v has the probability

    .. math::
        P(v \mid x) = \sum_{c \in C:\ v \text{ on the path to } c} P(c \mid x).

    `predict` returns the most probable path. With `min_proba` t > 0, `predict` follows
    the most probable child from the root as long as :math:`P(v \mid x) \ge t`, and
    returns the path to the last node.

    Parameters
    ----------
    estimator : classifier with `predict_proba`, default=None
        Classifier of C; None is `HierarchicalClassifier()`.

    learn_taxonomy : bool, default=False
        By default the parameter `taxonomy` of `estimator` is set to the tree of the
        paths. True: the parameter `taxonomy` is not changed.

    min_proba : float, default=0.0
        Smallest probability of the nodes of a predicted path, from 0 to 1. The path
        ends above the first node of smaller probability, but has at least one level.

    partial : {"class", "unknown"}, default="class"
        Meaning of a path in `fit` that ends at an inner node of other paths. "class":
        the sample belongs to the inner node itself, which is in C; the model learns to
        stop there. "unknown": the rest of the path is not known; the sample trains only
        the decisions above its node, and C are the leaves. "unknown" needs an
        `estimator` whose `fit` has a parameter `known_levels`, such as
        `HierarchicalClassifier`, and ``learn_taxonomy=False``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes, n_levels)
        The paths of C, in the order of the columns of `predict_proba`. With
        one-dimensional labels of shape (n_classes,).

    estimator_ : classifier
        Fitted; its classes are 0 ... n_classes - 1.

    label_tree_ : LabelTree
        The nodes of all paths.

    n_features_in_ : int
        Number of columns of X, if the estimator has it.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    sklstruct.metrics.hierarchical_f1_score : How much of the paths is right.

    sklstruct.taxonomy.as_paths : The forms that paths may have.

    Notes
    -----
    Every sample has one path. For several paths per sample see `HierarchicalClassifier`
    with several labels and the tree as `taxonomy`, or
    ``hiclass.MultiLabelLocalClassifierPerNode`` of HiClass.

    The same label below two nodes makes two classes. For a class that has several
    leaves of a tree, when the leaf of a sample is not known, see `SenseClassifier`.

    References
    ----------
    The form of the labels: F. M. Miranda, N. Köhnecke, B. Y. Renard, "HiClass: a
    Python library for local hierarchical classification compatible with scikit-learn",
    JMLR 24, 2023.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.hierarchical import PathClassifier
    >>> X = [[0.0, 0.0], [0.0, 1.0], [0.0, 2.0], [9.0, 0.0], [9.0, 9.0]]
    >>> y = [["animal", "cat"], ["animal", "dog"], ["animal"], ["tool"],
    ...      ["tool", "saw"]]
    >>> model = PathClassifier().fit(X, y)
    >>> model.predict([[0.0, -9.0], [9.0, 20.0]])
    array([['animal', 'cat'],
           ['tool', 'saw']], dtype='<U6')
    >>> model.set_params(min_proba=0.9).predict([[0.0, 1.0]])
    array([['animal', '']], dtype='<U6')
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "learn_taxonomy": ["boolean"],
        "min_proba": [Interval(Real, 0, 1, closed="both")],
        "partial": [StrOptions({"class", "unknown"})],
    }

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        learn_taxonomy: bool = False,
        min_proba: float = 0.0,
        partial: Literal["class", "unknown"] = "class",
    ) -> None:
        self.estimator = estimator
        self.learn_taxonomy = learn_taxonomy
        self.min_proba = min_proba
        self.partial = partial

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> PathClassifier:
        """Fit the classifier to the classes at the ends of the paths.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features, or other input of the estimator, such as texts for a pipeline.

        y : array-like of shape (n_samples, n_levels) or (n_samples,)
            Paths; see `as_paths`.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for an estimator that takes them; weight 0 is as if
            absent.

        Returns
        -------
        self : PathClassifier

        Raises
        ------
        ValueError
            If paths are malformed (see `as_paths`) or empty; if X and y differ in their
            numbers of samples; if there is a `sample_weight` that the estimator does
            not take; if `partial` is "unknown" and the estimator has no `known_levels`.
        """
        estimator = (
            HierarchicalClassifier() if self.estimator is None else self.estimator
        )
        if self.partial == "unknown":
            self._check_partial(estimator)
        samples, paths, one_level, params = _read_training(
            X, y, sample_weight, estimator
        )
        tree, code = LabelTree.of(paths)
        if self.partial == "unknown":
            tree, code, params["known_levels"] = tree.leaves_only(code)
        estimator = clone(estimator)
        if not self.learn_taxonomy and "taxonomy" in estimator.get_params(deep=False):
            estimator.set_params(taxonomy=tree.taxonomy())
        self.estimator_ = estimator.fit(samples, code, **params)
        self.label_tree_ = tree
        table = tree.paths()
        if paths.dtype != object:
            table = table.astype(str)
        classes = table[tree.class_node]
        if one_level:
            labels = classes[:, 0].tolist()
            classes = np.array(labels, dtype=strings_as_objects(np.asarray(y)).dtype)
        self.classes_, self._table = classes, table
        for name in ("n_features_in_", "feature_names_in_"):
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def _check_partial(self, estimator: BaseEstimator) -> None:
        if not has_fit_parameter(estimator, "known_levels"):
            raise ValueError(
                'partial="unknown" needs an estimator whose fit has a parameter '
                "known_levels (HierarchicalClassifier), got "
                f"{type(estimator).__name__}; put transformers before PathClassifier"
            )
        if self.learn_taxonomy:
            raise ValueError(
                'partial="unknown" needs the tree of the paths; set '
                "learn_taxonomy=False"
            )

    def _answers(self, X: Any, of: Callable[[NDArray], NDArray]) -> NDArray:
        """Concatenate of(probabilities of all classes) over blocks of samples."""
        check_is_fitted(self, "estimator_")
        check_sparse(X)
        X = indexable(X)[0]
        n_samples = _num_samples(X)
        if n_samples == 0:
            self.estimator_.predict_proba(X)  # raises its error for no samples
        width = self.label_tree_.parent.size + len(self.classes_)
        found = []
        for part in row_blocks(n_samples, rows_per_block(width)):
            whole = part.start == 0 and part.stop >= n_samples
            rows = X if whole else _safe_indexing(X, np.arange(part.start, part.stop))
            found.append(of(np.asarray(self.estimator_.predict_proba(rows))))
        return np.concatenate(found)

    def predict_proba(self, X: ArrayLike) -> NDArray:
        r""":math:`P(c \mid x)` for every path of ``classes_``.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
        """
        return self._answers(X, lambda proba: proba)

    def _label_codes(self, y, n_samples):
        """Of whole paths, from the root to the node at which a sample ends."""
        known = as_paths(self.classes_, "classes_").astype(object)
        code = {tuple(p for p in path if p != ""): c for c, path in enumerate(known)}
        paths = as_paths(y, "y").astype(object)
        check_samples(n_samples, len(paths))
        at = np.array(
            [code.get(tuple(p for p in path if p != ""), -1) for path in paths]
        )
        return at, at >= 0

    @property
    def node_paths_(self) -> NDArray:
        """Paths of the nodes, root first: the columns of `predict_node_proba`."""
        check_is_fitted(self, "estimator_")
        return self._table

    def predict_node_proba(self, X: ArrayLike) -> NDArray:
        r""":math:`P(v \mid x)` for every node of the paths.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_nodes)
            Columns in the order of ``node_paths_``, the root first.

        Examples
        --------
        >>> from sklstruct.hierarchical import PathClassifier
        >>> X = [[0.0, 0.0], [0.0, 1.0], [9.0, 0.0], [9.0, 9.0]]
        >>> y = [["animal", "cat"], ["animal", "dog"], ["tool", "axe"], ["tool", "saw"]]
        >>> model = PathClassifier().fit(X, y)
        >>> model.node_paths_[:3].tolist()
        [['', ''], ['animal', ''], ['tool', '']]
        >>> model.predict_node_proba([[0.0, 0.5]])[:, :3].round(2)
        array([[1.  , 0.96, 0.04]])
        """
        below = self._below()
        return self._answers(X, lambda proba: np.asarray(proba @ below))

    def _below(self) -> sp.csr_array:
        """(n_classes, n_nodes): 1 where the node is on the path to the class."""
        check_is_fitted(self, "estimator_")
        tree = self.label_tree_
        code, node = tree.ancestors()
        shape = tree.class_node.size, tree.parent.size
        return sp.csr_array((np.ones(code.size), (code, node)), shape=shape)

    def predict(self, X: ArrayLike) -> NDArray:
        """The path of each sample.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        y : ndarray of shape (n_samples, n_levels)
            Paths, filled up with "". Of shape (n_samples,) if the labels were
            one-dimensional.
        """
        check_is_fitted(self, "estimator_")
        tree = self.label_tree_
        if self.min_proba == 0 or self.classes_.ndim == 1:
            return self.classes_[self._answers(X, lambda proba: proba.argmax(axis=1))]
        below, n = self._below(), tree.parent.size
        first = np.searchsorted(tree.parent, np.arange(n + 1))

        def walk(proba):
            own = np.zeros((len(proba), n))  # of samples that end at the node
            own[:, tree.class_node] = proba
            mass = np.asarray(proba @ below)
            return walk_down(first[:-1], np.diff(first), mass, self.min_proba, own)

        return self._table[self._answers(X, walk)]

    def score(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> float:
        """Share of the samples whose whole path is right.

        Parameters
        ----------
        X : array-like or sparse matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples, n_levels) or (n_samples,)
            Paths.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        accuracy : float
        """
        true, found = as_paths(y, "y"), as_paths(self.predict(X), "predicted")
        width = max(true.shape[1], found.shape[1])
        wide = np.full((2, len(true), width), "", dtype=object)
        wide[0, :, : true.shape[1]] = true
        wide[1, :, : found.shape[1]] = found
        weights = None if sample_weight is None else np.asarray(sample_weight)
        return float(np.average((wide[0] == wide[1]).all(axis=1), weights=weights))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        inner = HierarchicalClassifier() if self.estimator is None else self.estimator
        return tags_of_input(tags, inner)


def _read_training(
    X: Any, y: Any, sample_weight: ArrayLike | None, estimator: BaseEstimator
) -> tuple[Any, NDArray, bool, dict[str, Any]]:
    """(samples of positive weight, their paths, whether of one level, fit params)."""
    if y is None:
        raise ValueError(
            "This PathClassifier estimator requires y to be passed, but the target "
            "y is None"
        )
    check_sparse(X)
    samples = indexable(X)[0]
    paths, one_level = _read_paths(y)
    if (paths[:, 0] == "").any():
        i = int(np.argmax(paths[:, 0] == ""))
        raise ValueError(f"y[{i}] is an empty path: every sample needs a node")
    n_samples = _num_samples(samples)
    check_samples(n_samples, len(paths))
    if sample_weight is None:
        return samples, paths, one_level, {}
    check_takes_weights(estimator)
    weight = _check_sample_weight(
        sample_weight, np.empty((n_samples, 1)), dtype=np.float64,
        ensure_non_negative=True,
    )  # fmt: skip
    used = np.flatnonzero(weight > 0)
    params = {"sample_weight": weight[used]}
    return _safe_indexing(samples, used), paths[used], one_level, params


def check_takes_weights(estimator: BaseEstimator) -> None:
    if not has_fit_parameter(estimator, "sample_weight"):
        name = type(estimator).__name__
        raise ValueError(f"sample_weight: the `fit` of {name} does not take weights")


def _read_paths(y: Any) -> tuple[NDArray, bool]:
    """(paths, whether the labels are one-dimensional)."""
    if hasattr(y, "__array__") and not hasattr(y, "to_numpy"):
        y = strings_as_objects(np.asarray(y))
        # A missing label is an empty path, of which the caller tells.
        missing = y.dtype == object and any(map(is_missing, y.ravel().tolist()))
        if y.ndim == 1 and not missing:
            check_classification_targets(y)
        return as_paths(y, "y"), y.ndim == 1
    paths = as_paths(y, "y")
    nested = any(isinstance(row, list | tuple | np.ndarray) for row in y)
    return paths, paths.shape[1] == 1 and not nested
