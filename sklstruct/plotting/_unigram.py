"""UnigramDiffusionDisplay: probability against count, for smoothers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ._display import Display, by_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class UnigramDiffusionDisplay(Display):
    r"""Probability of a class against its count, for one or several smoothers.

    Each smoother has a curve of the mean probability of the classes that occurred j
    times, j = 0, 1, 2 and so on. The empirical line is :math:`j / n` for n tokens. If
    the curve is below the line, the smoother reduces the probability of seen classes.
    The point at 0 is the probability of an unseen class.

    Use `from_estimator` to make one.

    Parameters
    ----------
    curves : dict of str to (counts, proba)
        For each name two arrays of shape (n_values,): the distinct counts, ascending,
        and the mean probability of the classes with each count.

    n_tokens : float
        Sum of the counts.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves, after `plot`.

    figure_ : matplotlib Figure
        Figure that holds them.

    lines_ : list of matplotlib Line2D
        The empirical line first, then the smoothers in their order.

    Examples
    --------
    >>> from sklstruct.plotting import UnigramDiffusionDisplay
    >>> from sklstruct.smoothing import AdditiveUnigram, GraphDiffusionUnigram
    >>> counts = [9, 4, 3, 2, 2, 1, 1, 1, 0, 0, 0, 0]
    >>> models = {
    ...     "add one": AdditiveUnigram().from_counts(counts),
    ...     "diffusion": GraphDiffusionUnigram().from_counts(counts),
    ... }
    >>> display = UnigramDiffusionDisplay.from_estimator(models)
    >>> [line.get_label() for line in display.lines_]
    ['empirical', 'add one', 'diffusion']
    """

    curves: dict[str, tuple[np.ndarray, np.ndarray]]
    n_tokens: float

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        *,
        ax: Axes | None = None,
        max_count: float | None = None,
        **kwargs: Any,
    ) -> UnigramDiffusionDisplay:
        """Display of fitted unigram estimators.

        Parameters
        ----------
        estimator : fitted unigram estimator, list, or dict of str to estimators
            Estimators that are fitted to the same counts. Names are the keys of a dict,
            otherwise the names of the classes.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        max_count : float, default=None
            Larger counts are not shown.

        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : UnigramDiffusionDisplay
        """
        estimator = by_name(estimator)
        for one in estimator.values():
            check_is_fitted(one, "proba_")
        counts = np.asarray(next(iter(estimator.values())).counts_, dtype=np.float64)
        for name, one in estimator.items():
            if not np.array_equal(one.counts_, counts):
                raise ValueError(
                    f"estimator: {name!r} was fitted to other counts than the first"
                )
        value, group, size = np.unique(counts, return_inverse=True, return_counts=True)
        curves = {
            name: (value, np.bincount(group, one.proba_) / size)
            for name, one in estimator.items()
        }
        display = cls(curves, float(counts.sum()))
        return display.plot(ax=ax, max_count=max_count, **kwargs)

    def plot(
        self, ax: Axes | None = None, *, max_count: float | None = None, **kwargs: Any
    ) -> UnigramDiffusionDisplay:
        """Draw the curves.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        max_count : float, default=None
            Larger counts are not shown.

        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : UnigramDiffusionDisplay
        """
        ax = self._axes(ax)
        top = max(value[-1] for value, _ in self.curves.values())
        if max_count is not None:
            top = min(top, max_count)
        # A logarithmic axis has no 0: the axis is linear up to 1, logarithmic beyond.
        ax.set_xscale("symlog", linthresh=1.0)
        ax.set_yscale("log")
        line = np.array([1.0, max(top, 1.0)])
        (empirical,) = ax.plot(
            line, line / self.n_tokens, color="0.5", linestyle="--", label="empirical"
        )
        shown = {
            name: (value[keep], proba[keep])
            for name, (value, proba) in self.curves.items()
            for keep in [(value <= top) & (proba > 0)]
        }
        style = {"marker": ".", "markersize": 4, "linewidth": 1, **kwargs}
        self._draw_curves(
            shown, style, xlabel="count", ylabel="probability of one class"
        )
        self.lines_ = [empirical, *self.lines_]
        ax.set_xlim(left=-0.2)
        return self
