"""Display of accuracy and cost by the depth of a taxonomy."""

from __future__ import annotations

from dataclasses import KW_ONLY
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.model_selection import check_cv
from sklearn.pipeline import Pipeline
from sklearn.utils import indexable

from .._checks import check_sparse
from .._compat import _safe_indexing
from ..hierarchical import HierarchicalClassifier
from ._display import Display, plain_ticks
from ._taxonomy import classifier_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class DepthTradeoffDisplay(Display):
    r"""Accuracy and log-loss against products per sample, by depth of the tree.

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

    depths: ArrayLike
    n_dots: ArrayLike
    accuracy: ArrayLike
    log_loss: ArrayLike
    _: KW_ONLY
    name: str | None = None

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
        taxonomy = classifier_of(estimator).taxonomy
        check_sparse(X)
        X, y = indexable(X, y)
        y = np.asarray(y)
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
            classifier_of(model).set_params(**params)
            return model.fit(_safe_indexing(X, train), y[train])

        trees = [
            tuple(classifier_of(fit(train, max_depth=None)).taxonomies_)
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
                Z, target = _safe_indexing(X, test), y[test]
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

        The depth stands at each point where there is room for it.

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
            mean = value.mean(axis=1)
            line, _, _ = axes.errorbar(
                dots[order], mean[order], value.std(axis=1)[order],
                marker="o", label=self.name,
            )  # fmt: skip
            for depth, at, height in zip(depths, dots, mean):
                axes.annotate(
                    str(depth),
                    (at, height),
                    xytext=(3, 3),
                    textcoords="offset points",
                    size=8,
                    color=line.get_color(),
                )
            axes.set(
                xscale="log",
                xlabel="products per sample (depth at the points)",
                ylabel=text,
            )
            plain_ticks(axes)
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


def _make_room(axes: Axes) -> None:
    """Hide depths that would stand on others; those of all curves on the axes."""
    shown: list[Any] = []
    for text in axes.texts:
        box = text.get_window_extent()
        text.set_visible(not any(box.overlaps(other) for other in shown))
        if text.get_visible():
            shown.append(box)
