"""A dictionary of numbers about an object that prints as a table."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from html import escape
from typing import Any


def shown(value: Any) -> str:
    """A value as text: "-" for None, floats with four decimals, "; " between lists."""
    if value is None:
        return "-"
    if isinstance(value, Mapping):
        return ", ".join(f"{shown(v)} {k}" for k, v in value.items())
    if isinstance(value, (list, tuple)):
        nested = any(isinstance(part, (list, tuple)) for part in value)
        return ("; " if nested else " ").join(map(shown, value))
    return f"{value:.4f}" if isinstance(value, float) else str(value)


def pickled_bytes(model: Any) -> int | None:
    """The size in bytes of a pickle of a model, without a copy of its arrays.

    None if a part, such as a function of the user, cannot be pickled.
    """
    sizes: list[int] = []
    try:
        head = pickle.dumps(
            model, protocol=5, buffer_callback=lambda b: sizes.append(b.raw().nbytes)
        )
    except (pickle.PicklingError, AttributeError, TypeError):
        return None
    return len(head) + sum(sizes)


class Description(dict[str, Any]):
    """A dictionary that prints one line per entry, and a table in a notebook."""

    def __str__(self):
        width = max(map(len, self), default=0)
        return "\n".join(f"{name:{width}}  {shown(v)}" for name, v in self.items())

    __repr__ = __str__

    def _repr_html_(self):
        rows = "".join(
            f"<tr><th style='text-align: left'>{escape(name)}</th>"
            f"<td style='text-align: left'>{escape(shown(value))}</td></tr>"
            for name, value in self.items()
        )
        return f"<table>{rows}</table>"
