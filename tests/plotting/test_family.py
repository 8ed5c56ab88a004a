"""The promises of every display: a new display is tested by being there.

Each is made by the example of its docstring, which assigns it to `display`.
"""

import doctest
import inspect
import pkgutil
import subprocess
import sys
from importlib import import_module

import pytest

import sklstruct.plotting
from sklstruct.plotting._display import Display

DISPLAYS = [
    thing
    for name in sklstruct.plotting.__all__
    if issubclass(thing := getattr(sklstruct.plotting, name), Display)
]
of_each = pytest.mark.parametrize("display", DISPLAYS, ids=lambda d: d.__name__)


def defined():
    """Displays in the modules of the package, public or not, without their base."""
    for module in pkgutil.iter_modules(sklstruct.plotting.__path__):
        for thing in vars(import_module(f"sklstruct.plotting.{module.name}")).values():
            named = inspect.isclass(thing) and thing.__name__.endswith("Display")
            if named and thing is not Display:
                yield thing


def test_every_display_is_public():
    for thing in defined():
        name = thing.__name__
        assert issubclass(thing, Display), f"{name}: derive it from Display"
        assert name in sklstruct.plotting.__all__, (
            f"{name}: import it in sklstruct/plotting/__init__.py"
        )


def example(display):
    """The object `display` of the class's example."""
    names = {}
    (test,) = doctest.DocTestFinder(recurse=False).find(display, display.__name__)
    assert test.examples, f"{display.__name__}: its docstring has no example"
    for part in test.examples:
        exec(part.source, names)
    made = names.get("display")
    assert isinstance(made, display), f"{display.__name__}: no `display` in the example"
    return made


def constructors(display):
    names = [name for name in dir(display) if name.startswith("from_")]
    return {name: inspect.getattr_static(display, name) for name in names}


@of_each
def test_constructors(display):
    found = constructors(display)
    assert "from_estimator" in found
    for name, method in found.items():
        assert isinstance(method, classmethod), name
        parameters = inspect.signature(getattr(display, name)).parameters
        assert parameters["ax"].default is None, name
        assert parameters["ax"].kind is inspect.Parameter.KEYWORD_ONLY, name
        assert method.__func__.__annotations__["return"] == display.__name__, name
    first = next(iter(inspect.signature(display.from_estimator).parameters))
    assert first == "estimator"


@of_each
def test_plot(display, pyplot):
    first, *rest = list(inspect.signature(display.plot).parameters.values())[1:]
    assert first.name == "ax" and first.default is None
    assert all(p.kind is not p.POSITIONAL_OR_KEYWORD for p in rest)
    made = example(display)
    before = pyplot.get_fignums()
    assert made.plot() is made
    assert len(pyplot.get_fignums()) == len(before) + 1
    assert pyplot.figure(pyplot.get_fignums()[-1]) is made.figure_
    assert made.ax_.figure is made.figure_
    # The drawing goes to the axes that are given, and no figure is made.
    figure, ax = pyplot.subplots()
    count = len(pyplot.get_fignums())
    made.plot(ax=ax)
    assert len(pyplot.get_fignums()) == count and made.figure_ is figure
    assert made.ax_ is ax and ax.has_data()
    _, wrong = pyplot.subplots(1, 2)
    with pytest.raises(ValueError, match="ax must be one Axes, got 2"):
        made.plot(ax=wrong)


@of_each
def test_documented_attributes(display):
    for name in ("ax_ :", "figure_ :"):
        assert name in inspect.getdoc(display)


@of_each
def test_without_matplotlib(display, monkeypatch, pyplot):
    made = example(display)
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"pip install .*sklstruct\[plot\]"):
        made.plot()


def test_matplotlib_is_imported_to_draw(tmp_path):
    code = "import sys, sklstruct.plotting; assert 'matplotlib' not in sys.modules"
    # Away from the source tree, which may hold no kernels.
    subprocess.run([sys.executable, "-c", code], check=True, cwd=tmp_path)
