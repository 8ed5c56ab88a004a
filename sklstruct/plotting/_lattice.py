"""States of a high-order HMM's lattice, and the bound of its refinement."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ._display import Display

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from ..hmm import HighOrderHMM, NoisyChannelDecoder


class LatticeDisplay(Display):
    r"""States per position of a sentence's lattice, before and after pruning.

    Position i has one state for each stored context with which a labelling of the first
    i observations can end. After pruning, only states that can be on the best path are
    left.

    Use `from_estimator` to make one.

    Parameters
    ----------
    states : ndarray of shape (n_positions + 1,)
        Number of states after each observation, the sentence start first.

    pruned : ndarray of shape (n_positions + 1,)
        Number of states that are left after pruning.

    labels : sequence of length n_positions
        Labels of the best path, which are written below the positions.

    trace : list of (log_q, log_p, n_states), default=()
        One entry per iteration of the refinement: the bound, the natural
        log-probability of the path found, and the number of states.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves, after `plot`.

    figure_ : matplotlib Figure
        Figure that holds them.

    lines_ : list of two matplotlib Line2D
        The curves.

    Examples
    --------
    >>> from sklstruct.hmm import HighOrderHMM
    >>> from sklstruct.plotting import LatticeDisplay
    >>> X = [["the", "cat", "ran"], ["the", "dog", "sat"], ["dogs", "ran"]]
    >>> y = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"]]
    >>> tagger = HighOrderHMM(order=3).fit(X, y)
    >>> display = LatticeDisplay.from_estimator(tagger, ["the", None, "ran"])
    >>> [str(label) for label in display.labels]
    ['D', 'N', 'V']
    """

    states: np.ndarray
    pruned: np.ndarray
    labels: Sequence | np.ndarray
    trace: Sequence = ()

    @classmethod
    def from_estimator(
        cls,
        estimator: HighOrderHMM | NoisyChannelDecoder,
        sequence: Sequence,
        *,
        ax: Axes | None = None,
        **kwargs: Any,
    ) -> LatticeDisplay:
        """Display of one sequence of observations.

        Parameters
        ----------
        estimator : HighOrderHMM or NoisyChannelDecoder
            Fitted estimator.

        sequence : sequence
            Observations.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        display : LatticeDisplay
        """
        found = estimator.inspect(sequence)
        return cls(found.states, found.pruned, found.labels, found.trace).plot(
            ax=ax, **kwargs
        )

    def plot(self, ax: Axes | None = None, **kwargs: Any) -> LatticeDisplay:
        """Draw the numbers of states over the best path.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : LatticeDisplay
        """
        ax = self._axes(ax)
        place = np.arange(len(self.states))
        curves = {
            "all states": (place, self.states),
            "after pruning": (place, self.pruned),
        }
        self._draw_curves(
            curves, {"marker": ".", **kwargs}, yscale="log", ylabel="states"
        )
        names = [str(label) for label in self.labels]
        ends = len(self.states) - 1 - len(names)
        names = ["start", *names, *["end"] * ends]
        ax.set_xticks(place, names, rotation=60, parse_math=False)  # words may hold "$"
        return self

    def plot_bound(self, ax: Axes | None = None, **kwargs: Any) -> LatticeDisplay:
        """Draw the bound against the iterations of the refinement.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        **kwargs : dict
            Passed to :meth:`matplotlib.axes.Axes.plot`.

        Returns
        -------
        self : LatticeDisplay
        """
        ax = self._axes(ax)
        log_q = [q for q, _, _ in self.trace]
        log_p = np.maximum.accumulate([p for _, p, _ in self.trace])
        number = np.arange(len(log_q))
        curves = {
            "bound: log q of its best path": (number, log_q),
            "best path found: log p": (number, log_p),
        }
        self._draw_curves(curves, kwargs, xlabel="iteration", ylabel="log-probability")
        ax.locator_params(axis="x", integer=True)
        return self
