"""Blocks of docstrings that several classes share."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from typing import TypeVar

T = TypeVar("T")


def shared_docs(**blocks: str) -> Callable[[T], T]:
    """Decorator that replaces lines ``{name}`` of a docstring by blocks of text.

    A line with nothing but ``{name}`` is replaced by ``blocks[name]`` at the line's
    indentation. A name without a block, or an unused block, is an error when the module
    is imported.
    """

    def fill(documented: T) -> T:
        text = documented.__doc__
        if text is None:  # python -OO
            return documented
        used = set()

        def block(match):
            used.add(match[2])
            return textwrap.indent(textwrap.dedent(blocks[match[2]]).strip(), match[1])

        documented.__doc__ = re.sub(r"(?m)^( *)\{(\w+)\}$", block, text)
        if used != set(blocks):
            raise ValueError(f"unused blocks: {sorted(set(blocks) - used)}")
        return documented

    return fill


def names_of(kinds: Mapping[str, type]) -> str:
    """The names that a parameter accepts, each with its class, as lines of a block."""
    listed = ", ".join(f'"{name}" (`{kind.__name__}`)' for name, kind in kinds.items())
    return textwrap.fill(f"{listed}.", width=76)
