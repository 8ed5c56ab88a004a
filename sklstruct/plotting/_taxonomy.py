"""Displays of taxonomies, and of accuracy and cost by their depth."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import check_consistent_length
from sklearn.utils.validation import check_is_fitted

from .._checks import check_sparse
from ..hierarchical import HierarchicalClassifier
from ..taxonomy import Taxonomy
from ..taxonomy._labels import among
from ._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.colors import Colormap
    from matplotlib.text import Annotation

Box = tuple[float, float, float, float]  # x0, y0, x1, y1

_ROW_INCHES = 0.13  # height of a label of 6 points, with room
_LEAST_POINTS = 2.5  # smaller letters are not drawn
_COLOURED_FROM = 0.5  # the accuracy of the darkest dots
_DEPTH = "depth"  # marks the texts that are depths
# Offsets of a depth from its point, with the alignment of the text.
_CORNERS = (
    ((3, 3), ("left", "bottom")),
    ((3, -3), ("left", "top")),
    ((-3, 3), ("right", "bottom")),
    ((-3, -3), ("right", "top")),
    ((0, 5), ("center", "bottom")),
    ((0, -5), ("center", "top")),
)


def _classifier_of(estimator: Any) -> HierarchicalClassifier:
    """The classifier itself, or that at the end of a pipeline."""
    model = estimator[-1] if isinstance(estimator, Pipeline) else estimator
    if not isinstance(model, HierarchicalClassifier):
        raise ValueError(
            f"estimator must be a HierarchicalClassifier, or a Pipeline whose last "
            f"step is one, got {estimator!r}"
        )
    return model


def _rows_of(X: Any) -> Callable[[NDArray], Any]:
    """Function of row numbers to rows of X; sparse matrices of any format, lists."""
    if hasattr(X, "iloc"):
        return lambda rows: X.iloc[rows]
    if sp.issparse(X):
        X = X.tocsr()
    elif not hasattr(X, "shape"):
        return lambda rows: [X[i] for i in rows]
    return X.__getitem__


def _node_accuracy(
    taxonomy: Taxonomy, proba: NDArray, code: NDArray
) -> tuple[NDArray, NDArray]:
    """(share of right decisions, number of samples) of every node of a taxonomy.

    A decision of node v is right when the child that the probabilities favour holds
    the class of the sample; at a leaf with several classes the children are these.
    Nodes that decide nothing, or see no sample, have NaN.
    """
    n, K = taxonomy.n_nodes, taxonomy.n_classes
    mass = np.zeros((n, proba.shape[0]))
    inside = np.zeros((n, K), dtype=bool)
    # the most probable class of each node, which decides inside leaves
    top_mass = np.full((n, proba.shape[0]), -1.0)
    top_class = np.zeros((n, proba.shape[0]), dtype=np.int64)
    for c in range(K):
        v = taxonomy.leaf_of_class[c]
        mass[v] += proba[:, c]
        inside[v, c] = True
        better = proba[:, c] > top_mass[v]
        top_mass[v, better] = proba[better, c]
        top_class[v, better] = c
    for v in range(n - 1, 0, -1):
        mass[taxonomy.parent[v]] += mass[v]
        inside[taxonomy.parent[v]] |= inside[v]
    accuracy, count = np.full(n, np.nan), np.zeros(n, dtype=np.int64)
    for v in range(n):
        rows = np.flatnonzero(inside[v, code])
        count[v] = rows.size
        children = taxonomy.children(v)
        if rows.size == 0 or inside[v].sum() == 1:
            continue
        if children.size:
            chosen = children[mass[np.ix_(children, rows)].argmax(axis=0)]
            right = inside[chosen, code[rows]]
        else:
            right = top_class[v, rows] == code[rows]
        accuracy[v] = right.mean()
    return accuracy, count


class TaxonomyDisplay(Display):
    r"""Dendrogram of a taxonomy, its nodes coloured by accuracy.

    It is recommended to use `from_estimator`, or `from_taxonomy` for the tree alone.
    The root is at the left, every class has one line at the right. A node that
    decides something is a dot; its colour is the share of samples that belong below
    it and that it sends to the right child.

    Parameters
    ----------
    taxonomy : Taxonomy
        The tree.

    node_accuracy : array-like of shape (n_nodes,), default=None
        Accuracy of each node, from 0 to 1, NaN where there is none. None draws no
        colours.

    node_count : array-like of shape (n_nodes,), default=None
        Test samples below each node.

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
        Names of the classes, from top to bottom; empty where letters would be too
        small to be seen.

    names_ : list of matplotlib Text
        Names of the nodes that have one, in the order of the nodes; empty under the
        same condition.

    Examples
    --------
    >>> from sklstruct.taxonomy import Taxonomy
    >>> from sklstruct.plotting import TaxonomyDisplay
    >>> tree = Taxonomy.from_nested(
    ...     {"animal": ["cat", "dog"], "vehicle": {"road": ["bus"], "rail": ["tram"]}})
    >>> display = TaxonomyDisplay.from_taxonomy(tree)
    >>> [text.get_text() for text in display.labels_]
    ['cat', 'dog', 'bus', 'tram']
    >>> [text.get_text() for text in display.names_]
    ['animal', 'vehicle', 'road', 'rail']
    """

    def __init__(
        self,
        taxonomy: Taxonomy,
        *,
        node_accuracy: ArrayLike | None = None,
        node_count: ArrayLike | None = None,
    ):
        self.taxonomy = taxonomy
        self.node_accuracy = node_accuracy
        self.node_count = node_count

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
            Fitted; the last step of a pipeline is a `HierarchicalClassifier`.

        X : array-like or sparse matrix of shape (n_samples, n_features)
            Test samples, in the form that the first step of the pipeline takes.

        y : array-like of shape (n_samples,)
            Their labels; those the estimator does not know are left out.

        tree : int, default=0
            Which of ``taxonomies_``. With several, colours are decisions by the
            averaged probabilities.

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
            The classifier is not fitted.

        ValueError
            Another kind of estimator, no label that it knows, no such tree.
        """
        model = _classifier_of(estimator)
        check_is_fitted(model, "taxonomies_")
        if not 0 <= tree < len(model.taxonomies_):
            raise ValueError(
                f"tree must be from 0 to {len(model.taxonomies_) - 1}, got {tree!r}"
            )
        check_sparse(X)
        check_consistent_length(X, y)
        y = np.asarray(y)
        known = np.flatnonzero(among(y, model.classes_))
        if known.size == 0:
            raise ValueError("no label of y is a class of the estimator")
        proba = estimator.predict_proba(_rows_of(X)(known))
        code = np.searchsorted(model.classes_, y[known])
        taxonomy = model.taxonomies_[tree]
        return cls.from_predictions(taxonomy, proba, code, ax=ax, **kwargs)

    @classmethod
    def from_taxonomy(
        cls, taxonomy: Taxonomy, *, ax: Axes | None = None, **kwargs: Any
    ) -> TaxonomyDisplay:
        """Dendrogram of a taxonomy, without accuracies.

        Parameters
        ----------
        taxonomy : Taxonomy
            The tree, such as ``taxonomies_[0]`` of a fitted `HierarchicalClassifier`.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure high enough for all classes.

        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : TaxonomyDisplay

        Raises
        ------
        TypeError
            If `taxonomy` is no `Taxonomy`.
        """
        if not isinstance(taxonomy, Taxonomy):
            raise TypeError(
                f"taxonomy must be a Taxonomy, got {type(taxonomy).__name__}; "
                "sklstruct.taxonomy.as_taxonomy makes one from other forms"
            )
        return cls(taxonomy).plot(ax=ax, **kwargs)

    @classmethod
    def from_predictions(
        cls,
        taxonomy: Taxonomy,
        proba: ArrayLike,
        code: ArrayLike,
        *,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> TaxonomyDisplay:
        """Dendrogram with the accuracy of given probabilities.

        Parameters
        ----------
        taxonomy : Taxonomy
            The tree.

        proba : array-like of shape (n_samples, n_classes)
            Probabilities, columns in the order of ``taxonomy.classes``.

        code : array-like of int, shape (n_samples,)
            Index into ``taxonomy.classes`` of the class of each sample, from 0 to
            n_classes - 1.

        ax : matplotlib Axes, default=None
            Axes to plot on.

        **kwargs : dict
            Passed to `plot`.

        Returns
        -------
        display : TaxonomyDisplay

        Raises
        ------
        ValueError
            Shapes that do not fit, or a `code` that is no index of a class.
        """
        proba, code = np.asarray(proba), np.asarray(code)
        if code.ndim != 1 or code.size == 0 or code.dtype.kind not in "iu":
            raise ValueError(
                f"code must be a 1-D array of at least one integer, got shape "
                f"{code.shape} and dtype {code.dtype}"
            )
        if code.min() < 0 or code.max() >= taxonomy.n_classes:
            bad = code.min() if code.min() < 0 else code.max()
            raise ValueError(
                f"code must be from 0 to {taxonomy.n_classes - 1}, got {bad}"
            )
        if proba.shape != (code.size, taxonomy.n_classes):
            raise ValueError(
                f"proba must have the shape (n_samples, n_classes) = ({code.size}, "
                f"{taxonomy.n_classes}), got {proba.shape}"
            )
        accuracy, count = _node_accuracy(taxonomy, proba, code)
        display = cls(taxonomy, node_accuracy=accuracy, node_count=count)
        return display.plot(ax=ax, **kwargs)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        labels: ArrayLike | None = None,
        node_names: bool = True,
        cmap: str | Colormap = "viridis",
    ) -> TaxonomyDisplay:
        """Draw the dendrogram.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on. None makes a figure whose height grows with the
            number of classes, so that 150 names stay readable.

        labels : array-like of shape (n_classes,), default=None
            Names to write instead of the labels, in the order of its classes.

        node_names : bool, default=True
            Whether to write the names of the nodes that have one (see `Taxonomy`) on
            the branches that lead to them.

        cmap : str or Colormap, default="viridis"
            Colours of accuracies from 0.5 to 1, the same for every tree; worse nodes
            have the colour of 0.5.

        Returns
        -------
        self : TaxonomyDisplay
        """
        tree = self.taxonomy
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
        ax.set_xlim(-0.3, right + 0.1)
        ax.set_ylim(K - 0.5, -0.5)  # first class on top
        self.nodes_ = None
        if self.node_accuracy is not None:
            self.nodes_ = self._draw_nodes(ax, x, y, cmap)
        size = _letter_size(ax, K)
        self.labels_ = self._draw_labels(ax, names[tree.leaf_order()], right, size)
        self.names_ = self._draw_names(ax, x, y, size) if node_names else []
        ticks = np.asarray(
            MaxNLocator(10, integer=True).tick_values(0, max(tree.depth, 1))
        )
        ax.set_xticks(ticks[(ticks >= 0) & (ticks <= tree.depth)])
        ax.set_yticks([])
        ax.set_xlabel("depth (number of decisions)")
        for side in ("top", "right", "left"):
            ax.spines[side].set_visible(False)
        return self

    def _layout(self) -> tuple[NDArray, NDArray, NDArray]:
        """x and y of nodes, and the row of each class."""
        tree = self.taxonomy
        row_of_class = np.empty(tree.n_classes)
        row_of_class[tree.leaf_order()] = np.arange(tree.n_classes)
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
        # On the branch, so that it hides neither the dots nor the lines of others.
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
    """Points of letters that fit into a row, 0 if they cannot be read."""
    box = ax.get_window_extent().transformed(ax.figure.dpi_scale_trans.inverted())
    size = min(9.0, 0.85 * 72 * box.height / max(n_rows, 1))
    return size if size >= _LEAST_POINTS else 0.0


class DepthTradeoffDisplay(Display):
    r"""Accuracy and log-loss against products per sample, over depths of the tree.

    Depth 0 is the flat model with K products. It is recommended to use
    `from_estimator`.

    Parameters
    ----------
    depths : array-like of int, shape (n_depths,)
        Values of `max_depth`.

    n_dots : array-like of shape (n_depths, n_splits)
        Average number of products of a test sample with a weight vector.

    accuracy : array-like of shape (n_depths, n_splits)
        Share of right predictions.

    log_loss : array-like of shape (n_depths, n_splits)
        Mean of :math:`-\ln P(y_i \mid x_i)`, in nats per sample.

    name : str, default=None
        Name in the legend.

    Attributes
    ----------
    ax_ : ndarray of two matplotlib Axes
        Accuracy and log-loss, after `plot`.

    figure_ : matplotlib Figure
        Figure that holds them.

    lines_ : list of two matplotlib Line2D
        The curves.

    Examples
    --------
    >>> from sklstruct.plotting import DepthTradeoffDisplay
    >>> display = DepthTradeoffDisplay(
    ...     [0, 1, 2], [[10], [6], [4.5]], [[0.95], [0.95], [0.94]],
    ...     [[0.2], [0.19], [0.21]], name="cut").plot()
    >>> display.ax_[0].get_ylabel()
    'accuracy'
    """

    _figsize, _n_axes = (9.6, 4.0), 2

    def __init__(
        self,
        depths: ArrayLike,
        n_dots: ArrayLike,
        accuracy: ArrayLike,
        log_loss: ArrayLike,
        *,
        name: str | None = None,
    ):
        self.depths = depths
        self.n_dots = n_dots
        self.accuracy = accuracy
        self.log_loss = log_loss
        self.name = name

    @classmethod
    def from_estimator(
        cls,
        estimator: HierarchicalClassifier | Pipeline,
        X: Any,
        y: ArrayLike,
        *,
        depths: ArrayLike | None = None,
        cv: Any = None,
        name: str | None = None,
        ax: Any = None,
    ) -> DepthTradeoffDisplay:
        """Fit a classifier at several depths and plot accuracy and cost.

        The taxonomies are built once for each split of `cv` and cut at each depth.

        Parameters
        ----------
        estimator : HierarchicalClassifier or Pipeline
            Not fitted; the `max_depth` of the classifier is ignored. The last step of
            a pipeline is a `HierarchicalClassifier`, its other steps are fitted anew
            for every split and depth.

        X : array-like or sparse matrix of shape (n_samples, n_features)
            Samples, in the form that the first step of the pipeline takes.

        y : array-like of shape (n_samples,)
            Labels; in each split those of the test samples are among those of the
            training samples.

        depths : array-like of int, default=None
            Depths of at least 0. None: 0 to the depth of the deepest tree, at most 12
            of them.

        cv : int, splitter or iterable, default=None
            As in `sklearn.model_selection.cross_validate`.

        name : str, default=None
            Name in the legend; None takes the estimator's `taxonomy` if that is a
            name.

        ax : array of two matplotlib Axes, default=None
            Axes to plot on, for example ``ax_`` of another display.

        Returns
        -------
        display : DepthTradeoffDisplay

        Raises
        ------
        ValueError
            Another kind of estimator, depths below 0, test samples of a class without
            training samples.
        """
        taxonomy = _classifier_of(estimator).taxonomy
        check_sparse(X)
        check_consistent_length(X, y)
        y, take = np.asarray(y), _rows_of(X)
        if depths is not None:
            depths = np.asarray(depths)
            if depths.ndim != 1 or depths.dtype.kind not in "iu" or depths.min() < 0:
                raise ValueError(f"depths must be integers >= 0, got {depths}")
        splits = list(check_cv(cv, y, classifier=True).split(X, y))
        for train, test in splits:
            unknown = ~np.isin(y[test], y[train])
            if unknown.any():
                raise ValueError(
                    f"{unknown.sum()} test labels of a split, e.g. "
                    f"{y[test][unknown][0]!r}, are not among its training classes; "
                    f"leave out classes with fewer samples than folds, and let cv "
                    f"stratify (as a number does)"
                )

        def fit(train, **params):
            model = clone(estimator)
            _classifier_of(model).set_params(**params)
            return model.fit(take(train), y[train])

        trees = [
            tuple(_classifier_of(fit(train, max_depth=None)).taxonomies_)
            for train, _ in splits
        ]
        if depths is None:
            deepest = max(tree.depth for of_split in trees for tree in of_split)
            depths = np.unique(np.linspace(0, deepest, min(deepest + 1, 12)).round())
        depths = depths.astype(int)
        values = np.empty((3, depths.size, len(splits)))
        for i, depth in enumerate(depths.tolist()):
            for j, (train, test) in enumerate(splits):
                model = fit(
                    train,
                    taxonomy=trees[j],
                    n_taxonomies=len(trees[j]),
                    max_depth=depth,
                )
                Z, target = take(test), y[test]
                if isinstance(model, Pipeline):
                    Z = model[:-1].transform(Z) if len(model) > 1 else Z
                    model = model[-1]
                values[0, i, j] = model.n_dot_products(Z).mean()
                values[1, i, j] = (model.predict(Z) == target).mean()
                values[2, i, j] = -model.target_log_proba(Z, target).mean()
        if name is None and isinstance(taxonomy, str):
            name = taxonomy
        return cls(depths, *values, name=name).plot(ax=ax)

    def plot(self, ax: Any = None) -> DepthTradeoffDisplay:
        """Draw the two curves.

        The depth stands at a point where there is room for it.

        Parameters
        ----------
        ax : array of two matplotlib Axes, default=None
            Axes to plot on; None makes a figure with two.

        Returns
        -------
        self : DepthTradeoffDisplay
        """
        depths = np.asarray(self.depths)
        curves = []
        for attribute in ("n_dots", "accuracy", "log_loss"):
            value = np.asarray(getattr(self, attribute), dtype=float)
            if value.ndim != 2 or value.shape[0] != depths.size:
                raise ValueError(
                    f"{attribute} must have the shape (n_depths, n_splits) with "
                    f"n_depths = {depths.size}, got {value.shape}"
                )
            curves.append(value)
        axes_pair = self._axes(ax)
        dots = curves[0].mean(axis=1)
        order = np.argsort(dots)
        self.lines_ = []
        for axes, value, text in zip(
            axes_pair, curves[1:], ("accuracy", "log-loss (nats per sample)")
        ):
            spread = value.std(axis=1)
            (line,) = axes.plot(
                dots[order], value.mean(axis=1)[order], marker="o", label=self.name
            )
            axes.errorbar(
                dots,
                value.mean(axis=1),
                yerr=spread,
                fmt="none",
                color=line.get_color(),
            )
            for depth, at, height in zip(depths, dots, value.mean(axis=1)):
                axes.annotate(
                    str(depth),
                    (at, height),
                    xytext=(3, 3),
                    textcoords="offset points",
                    size=8,
                    color=line.get_color(),
                    gid=_DEPTH,
                )
            axes.set_xscale("log")
            _plain_ticks(axes)
            axes.set_xlabel("products per sample (depth at the points)")
            axes.set_ylabel(text)
            axes.grid(alpha=0.3)
            self.lines_.append(line)
        if self.name is not None:
            # Above the axes: inside it would hide points of one curve or another.
            axes_pair[0].legend(
                loc="lower left",
                bbox_to_anchor=(0.0, 1.0),
                ncols=5,
                frameon=False,
                borderaxespad=0.0,
            )
        self.figure_.draw_without_rendering()  # places the axes
        for axes in axes_pair:
            _make_room(axes)
        return self


def _plain_ticks(axes: Axes) -> None:
    """1, 2, 5, 10 on a logarithmic axis, and more of them where it is short."""
    from matplotlib.ticker import LogLocator, NullFormatter

    low, high = axes.dataLim.intervalx
    steps = range(1, 10) if high < 8 * low else (1, 2, 5) if high < 300 * low else (1,)
    axes.xaxis.set_major_locator(LogLocator(subs=tuple(steps)))
    axes.xaxis.set_major_formatter("{x:g}")
    axes.xaxis.set_minor_formatter(NullFormatter())


def _make_room(axes: Axes) -> None:
    """Move the depths at the points apart; those without room are not shown.

    Looks at the depths of all curves that share the axes. Curves that meet in a point,
    as in the flat model, have its depth once.
    """
    taken, shown = [*_boxes_of_curves(axes)], set()
    for text in cast("list[Annotation]", axes.texts):
        if text.get_gid() != _DEPTH:
            continue
        text.set_visible(True)
        known = (text.get_text(), *np.round(axes.transData.transform(text.xy)))
        if known in shown:
            text.set_visible(False)
            continue
        for where, (right, top) in _CORNERS:
            text.set(position=where, ha=right, va=top)
            box = text.get_window_extent().extents
            if not any(_meet(box, other) for other in taken):
                taken.append(box)
                shown.add(known)
                break
        else:
            text.set_visible(False)


def _boxes_of_curves(axes: Axes) -> Iterator[Box]:
    """Small boxes (x0, y0, x1, y1) in pixels at the points, along curves and bars."""
    paths = [line.get_xydata() for line in axes.lines]
    for path in map(axes.transData.transform, paths):
        for x, y in path:
            yield x - 3, y - 3, x + 3, y + 3
    for bars in axes.collections:
        paths += bars.get_segments() if hasattr(bars, "get_segments") else []
    for path in map(axes.transData.transform, paths):
        for start, end in pairwise(path):
            n = int(np.hypot(*(end - start)) / 3) + 2
            for x, y in np.linspace(start, end, n):
                yield x - 1, y - 1, x + 1, y + 1


def _meet(a: Box, b: Box) -> bool:
    return bool(a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3])
