"""A module of ours under the name of another."""

from __future__ import annotations

import sys
from importlib.machinery import ModuleSpec


def stand_in(module: str, name: str, *others: str) -> None:
    """Put one of our loaded modules where ``import name`` finds it, and `others`.

    RuntimeError if another module of that name is loaded.
    """
    here = sys.modules[module]
    for one in (name, *others):
        if sys.modules.get(one, here) is not here:
            raise RuntimeError(
                f"a module named {one} is loaded already; call install() before it is "
                "imported"
            )
    here.__spec__ = ModuleSpec(name, None, origin=here.__file__)
    sys.modules.update(dict.fromkeys((name, *others), here))
    for known, part in list(sys.modules.items()):  # of a package
        if known.startswith(f"{module}."):
            sys.modules[name + known.removeprefix(module)] = part
