"""Lazy imports of the names of packages, and the state of objects with cached
properties.

The ``__init__.py`` of a package lists its names once, as imports below
``if TYPE_CHECKING``: type checkers follow the imports, and `face` reads them at run
time.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Callable
from functools import cached_property
from importlib import import_module
from typing import Any


def face(
    package: str,
) -> tuple[list[str], Callable[[str], object], Callable[[], list[str]]]:
    """``__all__``, ``__getattr__`` and ``__dir__`` of a package, by its ``__name__``.

    They are read from the imports below ``if TYPE_CHECKING`` in the source of the
    package, so that each name is written only once. A name that is imported ``as``
    itself is public; other names are for packages of sklstruct. The module of a name is
    imported when the name is first used.
    """
    spec = sys.modules[package].__spec__
    assert spec is not None and spec.loader is not None
    # The loader also finds the source in a zip archive.
    source = spec.loader.get_source(package)  # type: ignore[attr-defined]
    public: list[str] = []
    home_of = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.If):
            for line in node.body:
                assert isinstance(line, ast.ImportFrom)
                home = "." * line.level + (line.module or "")
                for alias in line.names:
                    home_of[alias.name] = home
                    if alias.asname:
                        public.append(alias.name)

    def get(name: str) -> object:
        if name not in home_of:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        if home_of[name] == ".":
            return import_module(f".{name}", package)
        found = getattr(import_module(home_of[name], package), name)
        setattr(sys.modules[package], name, found)
        return found

    return public, get, lambda: sorted(public)


def stored(thing: Any) -> dict[str, Any]:
    """The attributes of an object, without the values of its cached properties."""
    return {
        name: value
        # A copy, because another thread may compute a property at the same time.
        for name, value in vars(thing).copy().items()
        if not isinstance(getattr(type(thing), name, None), cached_property)
    }
