"""Penalties and solvers of this package: what a new one needs, and in which file."""

import inspect
import pkgutil
import re
from importlib import import_module
from pathlib import Path

import pytest

from sklstruct import loglinear
from sklstruct.loglinear import Penalty, Solver, _penalties, _solvers

ROOT = Path(__file__).resolve().parents[2]
FAMILIES = {
    "PENALTIES": (_penalties, Penalty, _penalties.PENALTIES),
    "SOLVERS": (_solvers, Solver, _solvers.SOLVERS),
}
families = pytest.mark.parametrize("family", FAMILIES)


def members(package, kind):
    """The public classes of a kind that the files of a package define."""
    for module in pkgutil.iter_modules(package.__path__):
        found = import_module(f"{package.__name__}.{module.name}")
        for name, thing in vars(found).items():
            if (
                inspect.isclass(thing)
                and issubclass(thing, kind)
                and thing.__module__ == found.__name__
                and not name.startswith("_")
                and not inspect.isabstract(thing)
            ):
                yield thing


@families
def test_every_member_has_a_name(family):
    package, kind, names = FAMILIES[family]
    missing = [thing.__name__ for thing in members(package, kind)
               if thing not in names.values()]  # fmt: skip
    file = package.__name__.replace(".", "/") + "/__init__.py"
    assert not missing, f"{file}: add to {family} {missing}"


@families
def test_every_named_member_is_public(family):
    named = {thing.__name__ for thing in FAMILIES[family][-1].values()}
    missing = sorted(named - set(loglinear.__all__))
    assert not missing, f"sklstruct/loglinear/__init__.py: import {missing}"


@families
def test_every_name_is_explained(family):
    names = FAMILIES[family][-1]
    guide = ROOT / "docs" / "user_guide" / "loglinear.rst"
    if guide.exists():
        text = guide.read_text(encoding="utf-8")
        missing = [name for name in names if not re.search(rf"\b{name}\b", text)]
        assert not missing, f"docs/user_guide/loglinear.rst: add {missing}"
