"""Predictions at the nodes of a tree: probabilities, paths, sets of classes."""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .._checks import check_count, check_memory, check_real
from .._compat import _align_api_if_sparse
from ..linear._labels import LabelsMixin
from ..taxonomy import Forest, Taxonomy
from ..taxonomy._node_answers import walk_down, write_paths

# Cumulative sums of probabilities differ from their exact values by less.
_ROUNDING = 1e-12


class NodeAnswersMixin(LabelsMixin):
    """The methods of `HierarchicalClassifier` for nodes and sets of classes."""

    taxonomies_: list[Taxonomy]
    forest_: Forest
    nodes_: Any
    n_jobs: int | None

    def _one_label(self, name: str, instead: str) -> None:
        if self.multilabel_:
            raise ValueError(
                f"{name} is for one label per sample, and y of fit had several: use "
                f"{instead}"
            )

    def _tree(self, tree: int) -> Taxonomy:
        check_is_fitted(self, "nodes_")
        return self.taxonomies_[check_count("tree", tree, 0, len(self.taxonomies_) - 1)]

    def decision_path(self, X: ArrayLike) -> sp.csr_matrix:
        """The nodes of the taxonomies above the predicted class of each sample.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        indicator : CSR matrix of shape (n_samples, n_nodes)
            1 at the nodes, root and leaf included, that hold a predicted class. The
            columns are the nodes of the trees of ``taxonomies_``, one tree after the
            other.
        """
        samples = self._read(X)
        if self.label_columns_ is None:
            code, _ = self.nodes_.best(samples, self.n_jobs)
            who = np.arange(code.size)
        else:
            who, code = self.nodes_.labels(samples, self.n_jobs)
        offset = 0
        blocks: list[Any] = [np.empty((2, 0), dtype=np.int64)]  # also without labels
        for taxonomy in self.taxonomies_:
            node, sample = taxonomy.leaf_of_class[code].astype(np.int64), who
            while sample.size:
                blocks.append((sample, node + offset))
                node = taxonomy.parent[node].astype(np.int64)
                sample, node = sample[node >= 0], node[node >= 0]
            offset += taxonomy.n_nodes
        sample, column = np.unique(np.hstack([*map(np.stack, blocks)]), axis=1)
        path = sp.csr_matrix(
            (np.ones(sample.size, dtype=np.int64), (sample, column)),
            shape=(samples.shape[0], offset),
        )
        return _align_api_if_sparse(path)

    def n_dot_products(self, X: ArrayLike) -> np.ndarray:
        """Number of dot products with weight vectors that `predict` makes per sample.

        A node with two children counts 1, a node with m > 2 children counts m; the flat
        model of K > 2 classes counts K. The average over test samples is the usual
        measure of cost. For another `estimator` every node counts. Samples that are
        searched again in double precision have slightly larger numbers.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        n_dots : ndarray of shape (n_samples,)
        """
        return self.nodes_.best(self._read(X), self.n_jobs)[1]

    def predict_node_proba(self, X: ArrayLike, *, tree: int = 0) -> NDArray:
        r"""Probability of every node of a tree.

        .. math::
            P(v \mid x) = \sum_{y \text{ below } v} P(y \mid x).

        With several labels per sample :math:`P(v \mid x)` is the probability of at
        least one label below v, in this tree alone: the product along the path to v.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        tree : int, default=0
            Number of the tree in ``taxonomies_``. With one label per sample
            :math:`P(y \mid x)` is the mean over all trees.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_nodes)
            Column v is node v of ``taxonomies_[tree]``, the root being 0.
            `Taxonomy.find` gives the node of a name, `Taxonomy.node_paths` the paths of
            all nodes, and `Taxonomy.classes_below` the classes below a node.

        Raises
        ------
        ValueError
            If `tree` is not the number of a tree.
        MemoryError
            If the matrix is larger than this machine's memory.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklstruct import HierarchicalClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = HierarchicalClassifier({"short": [0], "long": [1, 2]}).fit(X, y)
        >>> P = model.predict_node_proba(X)[:, model.taxonomy_.find("long")]
        >>> P[50:52].round(3), model.predict_proba(X)[50:52, 1:].sum(axis=1).round(3)
        (array([0.997, 0.994]), array([0.997, 0.994]))
        """
        taxonomy, samples = self._tree(tree), self._read(X)
        shape = samples.shape[0], taxonomy.n_nodes
        check_memory(
            8.0 * shape[0] * shape[1],
            f"the matrix of {shape[0]} rows and {shape[1]} nodes",
            "ask for fewer rows at a time, or for predict_at",
        )
        out = np.empty(shape)

        def use(part, log_proba):
            out[part] = taxonomy.node_sums(np.exp(log_proba))

        def use_nodes(part, _, log_proba):
            np.exp(log_proba, out=out[part])

        if self.multilabel_:
            columns = "nodes", taxonomy.n_nodes
            self.nodes_.each(samples, *columns, use_nodes, self.n_jobs, tree=int(tree))
        else:
            self.nodes_.rows(samples, use, self.n_jobs)
        return out

    def predict_at(
        self, X: ArrayLike, threshold: float = 0.7, *, tree: int = 0
    ) -> NDArray:
        r"""The path of most probable nodes with :math:`P(v \mid x) \ge` `threshold`.

        The path starts at the root and goes to the most probable child as long as this
        child has at least the probability `threshold`. With a threshold above ½ the
        last node is the smallest node of at least that probability.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        threshold : float, default=0.7
            Least probability of the last node, from 0 to 1.

        tree : int, default=0
            Number of the tree in ``taxonomies_``; as in `predict_node_proba`.

        Returns
        -------
        paths : ndarray of str, shape (n_samples, n_levels)
            Paths in the form of `Taxonomy.node_paths`, and of `Taxonomy.label_paths`
            for classes. `sklstruct.metrics.hierarchical_f1_score` compares them with
            ``taxonomy_.label_paths(y)``. All entries are "" for the root.

        Raises
        ------
        ValueError
            If `threshold` or `tree` is out of its range, or y of `fit`
            had several labels per sample.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklstruct import HierarchicalClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> model = HierarchicalClassifier({"short": [0], "long": [1, 2]}).fit(X, y)
        >>> model.predict_at(X[[0, 50, 83]], threshold=0.8)
        array([['0', ''],
               ['long', '1'],
               ['long', '']], dtype='<U4')
        """
        taxonomy = self._tree(tree)
        self._one_label("predict_at", "predict_node_proba")
        check_real("threshold", threshold, "[0, 1]")
        samples, forest = self._read(X), self.forest_
        root, end = forest.tree_ptr[tree : tree + 2].tolist()
        first, n_child = forest.first_child[root:end] - root, forest.n_child[root:end]
        terminal = forest.terminal[tree] - root
        place = np.zeros(samples.shape[0], dtype=np.int64)

        def use(part, log_proba):
            proba = np.exp(log_proba)
            mass = np.empty((len(proba), end - root))
            mass[:, : taxonomy.n_nodes] = taxonomy.node_sums(proba)
            mass[:, terminal] = proba
            place[part] = walk_down(first, n_child, mass, float(threshold))

        self.nodes_.rows(samples, use, self.n_jobs)
        return self._paths(place + root, tree)

    def _paths(self, node: NDArray, tree: int) -> NDArray:
        """The paths of nodes of the forest that are in a tree."""
        taxonomy, forest = self.taxonomies_[tree], self.forest_
        code = forest.node_class[node]
        place = np.where(
            code < 0, node - forest.tree_ptr[tree], taxonomy.n_nodes + code
        )
        return write_paths(taxonomy, place)

    def predict_set(self, X: ArrayLike, alpha: float = 0.1) -> sp.csr_matrix:
        r"""The smallest set of classes of probability :math:`1 - \alpha` or more.

        The set has the fewest most probable classes whose probabilities sum to at least
        :math:`1 - \alpha`. If the probabilities are exact, the set contains the true
        class for at least a fraction :math:`1 - \alpha` of the samples. A conformal
        wrapper such as MAPIE's ``SplitConformalClassifier`` guarantees this fraction
        by means of held-out samples. `predict_at` gives the smallest set that is a
        node.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        alpha : float, default=0.1
            Largest probability of the classes outside of the set, in (0, 1).

        Returns
        -------
        sets : CSR matrix of shape (n_samples, n_classes)
            1 at the classes of each set; columns in the order of ``classes_``. Ties go
            to the class that comes first.

        Raises
        ------
        ValueError
            If `alpha` is out of its range, or y of `fit` had several labels per sample.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklstruct import HierarchicalClassifier
        >>> X, y = load_iris(return_X_y=True)
        >>> HierarchicalClassifier().fit(X, y).predict_set(X[[0, 83]]).toarray()
        array([[1, 0, 0],
               [0, 1, 1]])
        """
        check_is_fitted(self, "nodes_")
        self._one_label("predict_set", "predict, with a threshold")
        alpha = check_real("alpha", alpha, "(0, 1)")
        samples = self._read(X)
        least, found = 1.0 - alpha - _ROUNDING, dict[int, tuple]()

        def use(part, log_proba):
            proba = np.exp(log_proba)
            order = np.argsort(-proba, axis=1, kind="stable")
            total = np.cumsum(np.take_along_axis(proba, order, axis=1), axis=1)
            size = np.minimum((total < least).sum(axis=1) + 1, order.shape[1])
            code = order[np.arange(order.shape[1]) < size[:, None]]
            found[part.start] = size, code

        self.nodes_.rows(samples, use, self.n_jobs)
        parts = [found[start] for start in sorted(found)]
        size, code = (np.concatenate(part) for part in zip(*parts))
        sets = sp.csr_matrix(
            (
                np.ones(code.size, dtype=np.int64),
                code,
                np.concatenate([[0], np.cumsum(size)]),
            ),
            shape=(samples.shape[0], self.classes_.size),
        )
        sets.sort_indices()
        return _align_api_if_sparse(sets)

    def heaviest_features(
        self,
        node: int = 0,
        k: int = 10,
        *,
        tree: int = 0,
        feature_names: ArrayLike | None = None,
    ) -> dict[str, list[tuple[Any, float]]]:
        """The features with the largest weights for each child of a node.

        Parameters
        ----------
        node : int, default=0
            Node of ``taxonomies_[tree]`` with at least two children or classes.

        k : int, default=10
            Number of features for each child, at least 1. A child with fewer positive
            weights has fewer.

        tree : int, default=0
            Number of the tree in ``taxonomies_``.

        feature_names : array-like of shape (n_features,), default=None
            Names of the columns of X, such as those of a vectorizer. None:
            ``feature_names_in_``, or the numbers of the columns.

        Returns
        -------
        features : dict
            For each child (the last label of its path is the key) the pairs (feature,
            weight) of the largest weights, largest first. A node with two children has
            one weight vector, for the second child; the first child has its negative.

        Raises
        ------
        ValueError
            If `node` or `tree` does not exist, `k` is less than 1, the node has a
            single class, names do not match X, or the node models have no weights.

        Examples
        --------
        >>> from sklearn.datasets import load_iris
        >>> from sklstruct import HierarchicalClassifier
        >>> X, y = load_iris(return_X_y=True, as_frame=True)
        >>> model = HierarchicalClassifier({"short": [0], "long": [1, 2]}).fit(X, y)
        >>> [name for name, _ in model.heaviest_features(k=2)["long"]]
        ['petal length (cm)', 'petal width (cm)']
        """
        taxonomy, forest = self._tree(tree), self.forest_
        k = check_count("k", k, 1)
        node = check_count("node", node, 0, taxonomy.n_nodes - 1)
        v = int(forest.tree_ptr[tree]) + node
        if forest.n_child[v] < 2:
            raise ValueError(f"node {node} has a single class, and so no model")
        if not hasattr(self.nodes_, "coef_of"):
            raise ValueError(
                f"the node models are {type(self.nodes_.estimators[0]).__name__}s: "
                "heaviest_features needs nodes of a LinearClassifier; see estimators_"
            )
        names = self._names_of_features(feature_names)
        weights = sp.csr_matrix(self.nodes_.coef_of(v))
        if weights.shape[0] == 1:
            weights = sp.vstack([-weights, weights], format="csr")
        children = np.arange(int(forest.n_child[v])) + forest.first_child[v]
        found = {}
        for path, row in zip(self._paths(children, tree), weights):
            best = np.lexsort((row.indices, -row.data))[:k]
            text = str(path[path != ""][-1])
            found[text] = [
                (names[j], w)
                for j, w in zip(row.indices[best].tolist(), row.data[best].tolist())
                if w > 0
            ]
        return found

    def _names_of_features(self, feature_names: ArrayLike | None) -> list:
        n = int(self.n_features_in_)  # type: ignore[attr-defined]
        if feature_names is None:
            return list(getattr(self, "feature_names_in_", range(n)))
        names = np.asarray(feature_names).tolist()
        if not isinstance(names, list) or len(names) != n:
            raise ValueError(
                f"feature_names must be {n} names, one for each column of X"
            )
        return names
