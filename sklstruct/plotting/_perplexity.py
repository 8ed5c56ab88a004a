"""Display of perplexity by order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from ..language_model import LanguageModel
from ._display import Display, by_name

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class PerplexityDisplay(Display):
    r"""Perplexity of language models by order.

    It is recommended to use `from_estimator`, or the constructor with
    values that were computed elsewhere.

    Parameters
    ----------
    perplexity : mapping of str to mapping of int to float
        For each name of a model the perplexity (per token, at least 1) at each
        order :math:`n = m + 1`, where m is the longest context.

    Attributes
    ----------
    ax_ : matplotlib Axes
        Axes with the curves, after `plot`.

    figure_ : matplotlib Figure
        Figure that holds them.

    lines_ : list of matplotlib Line2D
        One line per model, in the order of `perplexity`.

    Examples
    --------
    >>> from sklstruct.plotting import PerplexityDisplay
    >>> display = PerplexityDisplay(
    ...     {"Kneser-Ney": {2: 160.1, 3: 148.0}, "tree_l2": {2: 155.0, 3: 146.2}}
    ... ).plot()
    >>> display.ax_.get_xlabel()
    'order n (contexts of up to n − 1 symbols)'
    """

    perplexity: Mapping[str, Mapping[int, float]]

    @classmethod
    def from_estimator(
        cls,
        estimator: LanguageModel
        | Mapping[str, LanguageModel | Sequence[LanguageModel]],
        X: Iterable,
        *,
        include_end: bool = True,
        include_unknown: bool = True,
        ax: Axes | None = None,
    ) -> PerplexityDisplay:
        """Score fitted models on sentences and plot them.

        Parameters
        ----------
        estimator : LanguageModel, or mapping of str to one or a list of LanguageModel
            Fitted models by name; each has the order ``max_depth + 1``.

        X : list of sentences
            Test text.

        include_end, include_unknown : bool, default=True
            As in `LanguageModel.perplexity`.

        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        Returns
        -------
        display : PerplexityDisplay
        """
        X = list(X)
        values = {
            name: {
                model.max_depth + 1: model.perplexity(
                    X, include_end=include_end, include_unknown=include_unknown
                )
                for model in (of_name if isinstance(of_name, Sequence) else [of_name])
            }
            for name, of_name in by_name(estimator).items()
        }
        return cls(values).plot(ax=ax)

    def plot(self, ax: Axes | None = None) -> PerplexityDisplay:
        """Draw one line per model.

        Parameters
        ----------
        ax : matplotlib Axes, default=None
            Axes to plot on; None makes a figure.

        Returns
        -------
        self : PerplexityDisplay

        Raises
        ------
        ValueError
            If `perplexity` is empty, or an order is not an integer of at least 1, or a
            perplexity is below 1.
        """
        if not self.perplexity:
            raise ValueError("perplexity is empty: give at least one model")
        for name, curve in self.perplexity.items():
            for order, value in curve.items():
                if order != int(order) or order < 1 or not value >= 1:
                    raise ValueError(
                        f"perplexity[{name!r}] has the entry {order!r}: {value!r}; "
                        "orders are integers of at least 1, perplexities at least 1"
                    )
        ax = self._axes(ax)
        curves = {
            name: (sorted(curve), [curve[n] for n in sorted(curve)])
            for name, curve in self.perplexity.items()
        }
        self._draw_curves(
            curves,
            xticks=sorted({n for curve in self.perplexity.values() for n in curve}),
            xlabel="order n (contexts of up to n − 1 symbols)",
            ylabel="perplexity per token",
        )
        ax.grid(axis="y", alpha=0.3)
        return self
