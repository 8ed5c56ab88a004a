"""Reliability of many-class probabilities, as a picture."""

from __future__ import annotations

from dataclasses import field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from .._checks import check_samples
from ._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.lines import Line2D


class ReliabilityDisplay(Display):
    r"""Share of right predictions, by the predicted probability.

    Samples are put into bins B by their confidence :math:`p_i = \max_y P(y \mid x_i)`;
    the plot shows the share of right answers of each bin against the mean confidence of
    the bin. Their expected distance is

    .. math::
        \mathrm{ECE} = \sum_B \frac{|B|}{n}
        \Bigl|\frac{1}{|B|} \sum_{i \in B} [\hat y_i = y_i] - p_i\Bigr| .

    It is recommended to use `from_estimator`, or the constructor with probabilities
    that were computed elsewhere. For two classes, and one class against the others, see
    `sklearn.calibration.CalibrationDisplay`.

    Parameters
    ----------
    confidence : array-like of shape (n_samples,)
        Probabilities of the predicted classes, 0 to 1.

    right : array-like of bool, shape (n_samples,)
        Whether they are the true ones.

    n_bins : int, default=10
        Number of bins, >= 1.

    strategy : {"uniform", "quantile"}, default="uniform"
        Bins of equal width, or of about as many samples each.

    name : str, default=None
        Label of the line.

    Attributes
    ----------
    ece_ : float
        The expected calibration error, 0 to 1.

    mean_confidence_, accuracy_, count_ : ndarray of shape (n_used_bins,)
        Of the bins that have samples.

    ax_ : matplotlib Axes
        Axes with the curve, after `plot`.

    figure_ : matplotlib Figure
        Figure that holds them.

    line_ : matplotlib Line2D
        The curve.

    Raises
    ------
    ValueError
        Lengths that differ, no samples, a confidence outside of 0 to 1, wrong
        `n_bins` or `strategy`.

    References
    ----------
    C. Guo, G. Pleiss, Y. Sun, K. Weinberger, "On calibration of modern neural
    networks", ICML 2017.

    Examples
    --------
    >>> from sklstruct.plotting import ReliabilityDisplay
    >>> display = ReliabilityDisplay([0.9, 0.9, 0.9, 0.6], [True, True, False, True])
    >>> round(display.ece_, 3)
    0.275
    """

    if TYPE_CHECKING:
        line_: Line2D = field(init=False)
    _figsize = (4.8, 4.6)

    def __init__(
        self,
        confidence: ArrayLike,
        right: ArrayLike,
        *,
        n_bins: int = 10,
        strategy: str = "uniform",
        name: str | None = None,
    ) -> None:
        p = np.asarray(confidence, dtype=np.float64)
        right = np.asarray(right)
        if p.ndim != 1 or p.shape != right.shape or p.size == 0:
            raise ValueError(
                "confidence and right must be one-dimensional, of one length and not "
                f"empty, got shapes {p.shape} and {right.shape}"
            )
        if not ((p >= 0) & (p <= 1 + 1e-6)).all():
            raise ValueError("confidence must be from 0 to 1 everywhere")
        if not isinstance(n_bins, (int, np.integer)) or n_bins < 1:
            raise ValueError(f"n_bins must be an integer >= 1, got {n_bins!r}")
        if strategy == "uniform":
            place = np.minimum((p * n_bins).astype(int), n_bins - 1)
        elif strategy == "quantile":
            edges = np.quantile(p, np.arange(1, n_bins) / n_bins)
            place = np.searchsorted(edges, p, side="right")
        else:
            raise ValueError(
                f'strategy must be "uniform" or "quantile", got {strategy!r}'
            )
        count = np.bincount(place, minlength=n_bins)
        used = count > 0
        self.confidence, self.right = p, right.astype(bool)
        self.n_bins, self.strategy, self.name = n_bins, strategy, name
        self.count_ = count[used]
        total = np.bincount(place, p)[used[: place.max() + 1]]
        self.mean_confidence_ = total / self.count_
        hits = np.bincount(place, self.right)[used[: place.max() + 1]]
        self.accuracy_ = hits / self.count_
        gap = np.abs(self.accuracy_ - self.mean_confidence_)
        self.ece_ = float(gap @ self.count_ / p.size)

    @classmethod
    def from_estimator(
        cls,
        estimator: Any,
        X: Any,
        y: ArrayLike,
        *,
        n_bins: int = 10,
        strategy: str = "uniform",
        name: str | None = None,
        ax: Axes | None = None,
    ) -> ReliabilityDisplay:
        """Score a fitted classifier on test data and plot it.

        Parameters
        ----------
        estimator : classifier
            With `predict_top_k`, which is preferred as it needs no matrix of all
            classes, or with `predict_proba`.

        X : array-like or sparse matrix of shape (n_samples, n_features)
            Test samples.

        y : array-like of shape (n_samples,)
            True labels; one that the classifier does not know is never right.

        n_bins : int, default=10
            Number of bins, >= 1.

        strategy : {"uniform", "quantile"}, default="uniform"
            Bins of equal width, or of about as many samples each.

        name : str, default=None
            Label of the line; None takes the name of the class.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        Returns
        -------
        display : ReliabilityDisplay
        """
        y = np.asarray(y)
        if hasattr(estimator, "predict_top_k"):
            labels, log_proba = estimator.predict_top_k(X, 1, return_log_proba=True)
            label, confidence = labels[:, 0], np.exp(log_proba[:, 0])
        else:
            proba = estimator.predict_proba(X)
            label = estimator.classes_[proba.argmax(axis=1)]
            confidence = proba.max(axis=1)
        check_samples(len(label), len(y))
        name = type(estimator).__name__ if name is None else name
        confidence = np.minimum(confidence, 1)
        right = label == y
        display = cls(confidence, right, n_bins=n_bins, strategy=strategy, name=name)
        return display.plot(ax)

    def plot(self, ax: Axes | None = None) -> ReliabilityDisplay:
        """Draw the curve, and the diagonal of perfect calibration.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on, for example those of another display; None makes a figure.

        Returns
        -------
        self : ReliabilityDisplay
        """
        ax = self._axes(ax)
        if not any(line.get_gid() == "diagonal" for line in ax.lines):
            ax.plot([0, 1], [0, 1], ":", color="gray", gid="diagonal")
        label = f"ECE {self.ece_:.3f}"
        label = label if self.name is None else f"{self.name}, {label}"
        (self.line_,) = ax.plot(
            self.mean_confidence_, self.accuracy_, marker="o", ms=4, label=label
        )
        ax.set(
            xlim=(0, 1),
            ylim=(0, 1),
            aspect="equal",
            xlabel="probability of the predicted class",
            ylabel="share of right answers",
        )
        ax.legend()
        return self
