"""Display, the base class of all displays; it imports matplotlib only to draw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, dataclass_transform

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKERS = "osD^vPX*"


@dataclass_transform(eq_default=False, field_specifiers=(field,))
class Display:
    """Base of the displays: numbers, which `plot` draws.

    The numbers of a subclass are annotated attributes; the constructor is generated
    from these. A subclass has a class method `from_estimator`, whose first parameter is
    one fitted estimator or several by name (see `by_name`), and ``plot(ax=None)``,
    which draws on the axes of `_axes` and returns self.
    """

    if TYPE_CHECKING:
        ax_: Axes = field(init=False)
        figure_: Figure = field(init=False)
        lines_: Any = field(init=False)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        dataclass(repr=False, eq=False)(cls)

    def _axes(self, ax: Any, figsize: tuple[float, float] = (6.4, 4.2)) -> Any:
        """`ax`, or the axes of a new figure (size in inches); sets ax_ and figure_."""
        try:
            import matplotlib.pyplot as plt
        except ImportError as exc:
            raise ImportError(
                "plotting needs matplotlib: install it with `pip install "
                '"sklstruct[plot]"` or `pip install matplotlib`'
            ) from exc
        if ax is None:
            _, ax = plt.subplots(figsize=figsize, layout="constrained")
        if np.ndim(ax):
            raise ValueError(f"ax must be one Axes, got {np.size(ax)}")
        self.ax_, self.figure_ = ax, ax.figure
        return ax

    def _draw_curves(
        self,
        curves: Mapping[str, tuple[Any, Any]],
        style: Mapping[str, Any] | None = None,
        **settings: Any,
    ) -> None:
        """Draw one line for each name, from its (x, y), with a legend; sets lines_.

        style: keywords of all lines; None: each line has another marker. settings:
        properties of the axes.
        """
        self.lines_ = [
            self.ax_.plot(
                np.asarray(x),
                np.asarray(y),
                label=name,
                **({"marker": _MARKERS[i % len(_MARKERS)]} if style is None else style),
            )[0]
            for i, (name, (x, y)) in enumerate(curves.items())
        ]
        self.ax_.set(**settings)
        self.ax_.legend()


def by_name(estimator: Any) -> dict[str, Any]:
    """A mapping from names to estimators, as a dict.

    The names of a list or of a single estimator are the names of the classes, with a
    number if several estimators have the same class.
    """
    if isinstance(estimator, Mapping):
        named = dict(estimator)
    else:
        several = estimator if isinstance(estimator, list | tuple) else [estimator]
        named, seen = {}, dict.fromkeys(map(type, several), 0)
        for one in several:
            seen[type(one)] += 1
            number = seen[type(one)]
            name = type(one).__name__
            named[name if number == 1 else f"{name} ({number})"] = one
    if not named:
        raise ValueError("estimator is empty: there is nothing to show")
    return named
