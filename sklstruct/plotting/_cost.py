"""CostDisplay: accuracy of classifiers against time or size."""

from __future__ import annotations

import pickle
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._likelihood import target_log_proba
from ._display import Display, by_name, plain_ticks

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_X = {
    "milliseconds": "milliseconds for 1 000 predictions",
    "megabytes": "megabytes of the pickled model",
}
_Y = {"accuracy": "accuracy", "log_loss": "log-loss (nats)"}


class CostDisplay(Display):
    r"""Accuracy or log-loss of classifiers against time or size.

    It is recommended to use `from_estimator`, or the constructor with figures that
    were measured elsewhere.

    Parameters
    ----------
    figures : mapping of str to mapping
        For each name of a model some of its "accuracy", "log_loss" (mean, nats),
        "milliseconds" (for 1 000 predictions) and "megabytes".

    Attributes
    ----------
    figures : mapping
        As given.

    ax_ : matplotlib Axes
        Axes with the points, after `plot`.

    figure_ : matplotlib Figure
        Figure that holds them.

    points_ : list of matplotlib PathCollection
        One per model that has both figures.

    Examples
    --------
    >>> from sklstruct.plotting import CostDisplay
    >>> display = CostDisplay({
    ...     "flat": {"accuracy": 0.95, "milliseconds": 60},
    ...     "tree": {"accuracy": 0.96, "milliseconds": 5},
    ... }).plot()
    >>> len(display.points_)
    2
    """

    figures: Mapping[str, Mapping[str, float]]

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        x: str = "milliseconds",
        value: str = "accuracy",
        ax: Axes | None = None,
    ) -> CostDisplay:
        """Measure fitted classifiers on test data and plot them.

        The time is the CPU time of the faster of two calls of `predict` for all
        samples.

        Parameters
        ----------
        estimator : classifier, list, or mapping of str to classifiers
            Fitted classifiers by name; without names those of their classes. Those
            without `predict_proba` have no log-loss.

        X : array-like or sparse matrix of shape (n_samples, n_features)
            Test samples.

        y : array-like of shape (n_samples,)
            True labels. Those that a model does not know are left out of its log-loss.

        x : {"milliseconds", "megabytes"}, default="milliseconds"
            The cost.

        value : {"accuracy", "log_loss"}, default="accuracy"
            The figure on the other axis.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        Returns
        -------
        display : CostDisplay
        """
        y = np.asarray(y)
        figures = {}
        for name, model in by_name(estimator).items():
            seconds = []
            for _ in range(2):
                start = time.process_time()
                found = model.predict(X)
                seconds.append(time.process_time() - start)
            figures[name] = {
                "accuracy": float((found == y).mean()),
                "milliseconds": 1e6 * min(seconds) / y.size,
                "megabytes": len(pickle.dumps(model)) / 2**20,
            }
            if hasattr(model, "predict_proba"):
                log_proba = np.asarray(target_log_proba(model, X, y))
                figures[name]["log_loss"] = float(-np.nanmean(log_proba))
        return cls(figures).plot(ax, x=x, value=value)

    def plot(
        self,
        ax: Axes | None = None,
        *,
        x: str = "milliseconds",
        value: str = "accuracy",
    ) -> CostDisplay:
        """Draw one point per model; costs are on a logarithmic axis.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        x : {"milliseconds", "megabytes"}, default="milliseconds"
            The cost.

        value : {"accuracy", "log_loss"}, default="accuracy"
            The figure on the other axis.

        Returns
        -------
        self : CostDisplay

        Raises
        ------
        ValueError
            Another `x` or `value`, no model that has both, a cost that is not positive.
        """
        if x not in _X:
            raise ValueError(f"x must be one of {sorted(_X)}, got {x!r}")
        if value not in _Y:
            raise ValueError(f"value must be one of {sorted(_Y)}, got {value!r}")
        points = {
            name: (found[x], found[value])
            for name, found in self.figures.items()
            if found.get(x) is not None and found.get(value) is not None
        }
        if not points:
            raise ValueError(f"figures has no model with both {x!r} and {value!r}")
        for name, (cost, _) in points.items():
            if not cost > 0:
                raise ValueError(f"figures[{name!r}][{x!r}] must be > 0, got {cost!r}")
        ax = self._axes(ax)
        self.points_ = [
            ax.scatter([cost], [bought], label=name, zorder=3)
            for name, (cost, bought) in points.items()
        ]
        ax.set(xscale="log", xlabel=_X[x], ylabel=_Y[value])
        plain_ticks(ax)
        ax.grid(alpha=0.3)
        ax.legend()
        return self
