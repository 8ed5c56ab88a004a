"""Display of a taxonomy and of the accuracy of its nodes."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable

from .._checks import check_sparse
from .._compat import _safe_indexing
from ..hierarchical import HierarchicalClassifier
from ..taxonomy import Taxonomy
from ..taxonomy._given import check_taxonomy
from ..taxonomy._labels import among
from ._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap

_ROW_INCHES = 0.13  # height of a row with a label of 6 points
_LEAST_POINTS = 2.5  # smaller letters are not drawn
_COLOURED_FROM = 0.5  # accuracy at the lower end of the colours


def _node_accuracy(
    taxonomy: Taxonomy, proba: NDArray, code: NDArray
) -> tuple[NDArray, NDArray]:
    """(fraction of right decisions, number of samples) of every node of a taxonomy.

    A decision of node v is right if the most probable child contains the class of the
    sample; the children of a leaf with several classes are these classes. Nodes without
    a decision or without samples have NaN.
    """
    order, start, stop = taxonomy.class_sets
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = np.arange(order.size)  # places of the classes from left to right
    place = rank[code]
    mass = taxonomy.node_sums(proba)
    accuracy = np.full(taxonomy.n_nodes, np.nan)
    count = np.zeros(taxonomy.n_nodes, dtype=np.int64)
    for v in range(taxonomy.n_nodes):
        rows = np.flatnonzero((start[v] <= place) & (place < stop[v]))
        count[v] = rows.size
        children = taxonomy.children(v)
        if rows.size == 0 or stop[v] - start[v] == 1:
            continue
        if children.size:
            chosen = children[mass[np.ix_(rows, children)].argmax(axis=1)]
            right = (start[chosen] <= place[rows]) & (place[rows] < stop[chosen])
        else:
            inside = np.sort(order[start[v] : stop[v]])
            right = inside[proba[np.ix_(rows, inside)].argmax(axis=1)] == code[rows]
        accuracy[v] = right.mean()
    return accuracy, count


class TaxonomyDisplay(Display):
    r"""Dendrogram of a taxonomy, its nodes coloured by accuracy.

    It is recommended to use `from_estimator`, or ``TaxonomyDisplay(taxonomy).plot()``
    for the tree alone. The root is at the left, and every class has one line at the
    right. A node with an accuracy is a dot. The colour of a dot is the accuracy: of the
    samples whose class is below the node, the fraction for which the node chooses the
    right child.

    Parameters
    ----------
    taxonomy : Taxonomy
        The tree.

    node_accuracy : array-like of shape (n_nodes,), default=None
        Accuracy of each node, from 0 to 1, NaN for nodes without accuracy. None draws
        no colours.

    node_count : array-like of shape (n_nodes,), default=None
        Number of test samples below each node.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the dendrogram, after `plot`.

    figure_ : matplotlib Figure
        Figure that holds them.

    lines_ : matplotlib LineCollection
        The branches.

    nodes_ : matplotlib PathCollection or None
        The dots, if there is an accuracy.

    labels_ : list of matplotlib Text
        Names of the classes, from top to bottom; empty if letters would be too small to
        be read.

    names_ : list of matplotlib Text
        Names of the nodes that have a name, in the order of the nodes; empty if letters
        would be too small to be read.

    Examples
    --------
    >>> from sklstruct.taxonomy import Taxonomy
    >>> from sklstruct.plotting import TaxonomyDisplay
    >>> tree = Taxonomy.from_nested(
    ...     {"animal": ["cat", "dog"], "vehicle": {"road": ["bus"], "rail": ["tram"]}})
    >>> display = TaxonomyDisplay(tree).plot()
    >>> [text.get_text() for text in display.labels_]
    ['cat', 'dog', 'bus', 'tram']
    >>> [text.get_text() for text in display.names_]
    ['animal', 'vehicle', 'road', 'rail']
    """

    taxonomy: Taxonomy
    _: KW_ONLY
    node_accuracy: ArrayLike | None = None
    node_count: ArrayLike | None = None

    @classmethod
    def from_estimator(
        cls,
        estimator: HierarchicalClassifier | Pipeline,
        X: Any,
        y: ArrayLike,
        *,
        tree: int = 0,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> TaxonomyDisplay:
        """Dendrogram of a fitted classifier, with its accuracy on test data.

        Parameters
        ----------
        estimator : HierarchicalClassifier or Pipeline
            Fitted classifier, or a fitted pipeline with such a last step.

        X : array-like or sparse matrix of shape (n_samples, n_features)
            Test samples, in the form that the first step of the pipeline takes.

        y : array-like of shape (n_samples,)
            True labels. Samples whose label is not a class of the estimator are left
            out.

        tree : int, default=0
            Number of the tree in ``taxonomies_``. With several trees, decisions are by
            the probabilities averaged over the trees.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure high enough for all classes.

        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : TaxonomyDisplay

        Raises
        ------
        NotFittedError
            If the classifier is not fitted.

        ValueError
            If `estimator` is of another kind or has several labels per sample, no label
            of y is one of its classes, or `tree` does not exist.
        """
        model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
        if not isinstance(model, HierarchicalClassifier):
            raise ValueError(
                f"estimator must be a HierarchicalClassifier, or a Pipeline whose last "
                f"step is one, got {estimator!r}"
            )
        model._one_label("from_estimator", "TaxonomyDisplay(taxonomies_[0])")
        taxonomy = model._tree(tree)
        check_sparse(X)
        X, y = indexable(X, y)
        y = np.asarray(y)
        known = np.flatnonzero(among(y, model.classes_))
        if known.size == 0:
            raise ValueError("no label of y is a class of the estimator")
        proba = estimator.predict_proba(_safe_indexing(X, known))
        code = np.searchsorted(model.classes_, y[known])
        accuracy, count = _node_accuracy(taxonomy, proba, code)
        display = cls(taxonomy, node_accuracy=accuracy, node_count=count)
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        labels: ArrayLike | None = None,
        cmap: str | Colormap = "viridis",
    ) -> TaxonomyDisplay:
        """Draw the dendrogram, with the names of classes and of nodes.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. None makes a figure whose height grows with the
            number of classes, so that 150 names stay readable.

        labels : array-like of shape (n_classes,), default=None
            Names to write instead of the labels, in the order of ``classes``.

        cmap : str or Colormap, default="viridis"
            Colours of accuracies from 0.5 to 1; nodes with a smaller accuracy have the
            colour of 0.5.

        Returns
        -------
        self : TaxonomyDisplay
        """
        tree = self.taxonomy
        check_taxonomy(tree)
        names = tree.classes if labels is None else np.asarray(labels)
        if names.shape != (tree.n_classes,):
            raise ValueError(
                f"labels must have one entry for each of the {tree.n_classes} "
                f"classes, got shape {names.shape}"
            )
        for name in ("node_accuracy", "node_count"):
            value = getattr(self, name)
            if value is not None and np.shape(value) != (tree.n_nodes,):
                raise ValueError(
                    f"{name} must have one entry for each of the {tree.n_nodes} nodes, "
                    f"got shape {np.shape(value)}"
                )
        K = tree.n_classes
        ax = self._axes(ax, (8.0, max(3.0, _ROW_INCHES * K + 1.0)))
        from matplotlib.collections import LineCollection
        from matplotlib.ticker import MaxNLocator

        x, y, row_of_class = self._layout()
        right = tree.depth + 1
        segments = []
        for v in range(tree.n_nodes):
            children = tree.children(v)
            if children.size:
                ends = y[children]
                segments.append([(x[v], ends.min()), (x[v], ends.max())])
                segments.extend([(x[v], y[c]), (x[c], y[c])] for c in children)
        for v in np.flatnonzero(tree.is_leaf).tolist():
            rows = np.sort(row_of_class[tree.classes_below(v)])
            if rows.size > 1:
                segments.append([(x[v], rows[0]), (x[v], rows[-1])])
            segments.extend([(x[v], r), (right, r)] for r in rows)
        self.lines_ = LineCollection(segments, colors="0.45", linewidths=0.8)
        ax.add_collection(self.lines_)
        # First class on top.
        ax.set(xlim=(-0.3, right + 0.1), ylim=(K - 0.5, -0.5))
        self.nodes_ = None
        if self.node_accuracy is not None:
            self.nodes_ = self._draw_nodes(ax, x, y, cmap)
        size = _letter_size(ax, K)
        self.labels_ = self._draw_labels(ax, names[tree.class_sets.order], right, size)
        self.names_ = self._draw_names(ax, x, y, size)
        ticks = np.asarray(
            MaxNLocator(10, integer=True).tick_values(0, max(tree.depth, 1))
        )
        ax.set(
            xticks=ticks[(ticks >= 0) & (ticks <= tree.depth)],
            yticks=[],
            xlabel="depth (number of decisions)",
        )
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        return self

    def _layout(self) -> tuple[NDArray, NDArray, NDArray]:
        """(x of nodes, y of nodes, row of each class)."""
        tree = self.taxonomy
        row_of_class = np.empty(tree.n_classes)
        row_of_class[tree.class_sets.order] = np.arange(tree.n_classes)
        y = np.zeros(tree.n_nodes)
        for v in np.flatnonzero(tree.is_leaf).tolist():
            y[v] = row_of_class[tree.classes_below(v)].mean()
        for v in range(tree.n_nodes - 1, -1, -1):
            children = tree.children(v)
            if children.size:
                y[v] = (y[children[0]] + y[children[-1]]) / 2
        return tree.level_of_node.astype(float), y, row_of_class

    def _draw_nodes(self, ax, x, y, cmap):
        accuracy = np.asarray(self.node_accuracy, dtype=float)
        shown = np.flatnonzero(np.isfinite(accuracy))
        nodes = ax.scatter(
            x[shown],
            y[shown],
            c=accuracy[shown],
            s=28 if shown.size < 80 else 14,
            cmap=cmap,
            vmin=_COLOURED_FROM,
            vmax=1.0,
            edgecolors="0.2",
            linewidths=0.4,
            zorder=3,
        )
        bar = ax.figure.colorbar(
            nodes, ax=ax, fraction=0.04, pad=0.2, shrink=0.6, extend="min"
        )
        bar.set_label("accuracy of the node")
        return nodes

    def _draw_labels(self, ax, names, right, size):
        if not size:
            return []
        # A name may hold dollar signs, between which matplotlib would set formulas.
        style = {"size": size, "va": "center", "clip_on": False, "parse_math": False}
        return [
            ax.text(right + 0.15, row, str(name), **style)
            for row, name in enumerate(names)
        ]

    def _draw_names(self, ax, x, y, size):
        names = self.taxonomy.names
        if not size or names is None:
            return []
        # On the branch of the node, so that dots and other branches stay visible.
        style = {"size": size, "style": "italic", "va": "bottom", "zorder": 4}
        style["parse_math"] = False
        return [
            ax.annotate(
                str(name),
                (x[v], y[v]),
                xytext=(-4 if v else 4, 1),
                textcoords="offset points",
                ha="right" if v else "left",
                **style,
            )
            for v, name in enumerate(names)
            if name is not None
        ]


def _letter_size(ax: Axes, n_rows: int) -> float:
    """Size in points of letters that fit into a row; 0 if it is too small to read."""
    box = ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
    size = min(9.0, 0.85 * 72 * box.height / max(n_rows, 1))
    return size if size >= _LEAST_POINTS else 0.0
