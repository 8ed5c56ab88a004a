"""Values that are made at first use: names of packages, cached properties of objects.

The ``__init__.py`` of a package lists its names twice: as imports below
``if TYPE_CHECKING`` for type checkers, and as a table for Python. A test compares the
two.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from importlib import import_module
from typing import Any

__all__ = ["lazy_face", "stored"]


def lazy_face(
    package: str, homes: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], object], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a package.

    Parameters
    ----------
    package : str
        The ``__name__`` of the package.

    homes : mapping from str to sequence of str
        The names that come from each module of the package; module names are relative
        to the package. The names of ``"."`` are modules.

    Returns
    -------
    get : callable
        Imports the module of a name, and sets the object as an attribute of the
        package.

    names : callable
        Returns the public names, for ``dir``.
    """
    home_of = {name: home for home, names in homes.items() for name in names}

    def get(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home_of[name] == ".":
            return import_module(f".{name}", package)
        found = getattr(import_module(home_of[name], package), name)
        setattr(sys.modules[package], name, found)
        return found

    def names() -> list[str]:
        return sorted(sys.modules[package].__all__)

    return get, names


def stored(thing: Any) -> dict[str, Any]:
    """The attributes of an object, without the values of its cached properties."""
    return {
        name: value
        for name, value in vars(thing).items()
        if not isinstance(getattr(type(thing), name, None), cached_property)
    }
