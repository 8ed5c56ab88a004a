"""numpydoc's validation of the docstrings of all public names."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from sklstruct import compat

validate = pytest.importorskip("numpydoc.validate").validate

pytestmark = pytest.mark.house

ROOT = Path(compat.__file__).parents[1]
# The public names of compat are modules.
PACKAGES = [
    *sorted(path.parent.name for path in ROOT.glob("[a-z]*/__init__.py")),
    *(f"compat.{name}" for name in compat.__all__),
]
# numpydoc's numbers: a docstring (GL08) with a summary (SS01) of one line (SS06) that
# ends with a full stop (SS03); every parameter is documented (PR01), no other (PR02),
# with its type (PR04) and a description (PR07).
CHECKS = {"GL08", "SS01", "SS03", "SS06", "PR01", "PR02", "PR04", "PR07"}


def public_objects(package):
    """(name, object, class it is in or None): functions, classes, their methods."""
    module = import_module(package)
    for name in module.__all__:
        thing = getattr(module, name)
        if not (getattr(thing, "__module__", None) or "").startswith("sklstruct"):
            continue
        if inspect.isclass(thing) or inspect.isfunction(thing):
            yield f"{package}.{name}", thing, None
        for inner, member in vars(thing).items() if inspect.isclass(thing) else ():
            function = getattr(member, "__func__", getattr(member, "fget", member))
            # Attributes that are lambdas are described in the docstring of the class.
            named = inspect.isfunction(function) and function.__name__ != "<lambda>"
            if named and not inner.startswith("_"):
                yield f"{package}.{name}.{inner}", function, thing


def faults(name, thing, owner):
    doc = inspect.getdoc(thing) or ""
    # A method that is described in one sentence names its parameters there, the fields
    # of a tuple are described one by one, and a method that replaces another has its
    # docstring if it has no other.
    sentence = owner is not None and "\n---" not in doc
    fields = inspect.isclass(thing) and issubclass(thing, tuple)
    inherited = owner is not None and inspect.getdoc(
        inspect.getattr_static(owner, name.split(".")[-1])
    )
    for code, what in validate(name)["errors"]:
        passes = (
            (code == "PR01" and (sentence or fields))
            or (code == "GL08" and inherited)
            # The parameters of other libraries are not all listed.
            or (code in ("PR01", "PR02") and name.startswith("sklstruct.compat."))
        )
        if code in CHECKS and not passes:
            yield f"{name}: {code} {what}"


@pytest.mark.parametrize("package", PACKAGES)
def test_numpydoc(package):
    wrong = [
        fault
        for parts in public_objects(f"sklstruct.{package}")
        for fault in faults(*parts)
    ]
    assert not wrong, "\n".join(wrong)


def test_names_are_found():
    assert {"compat.fasttext", "compat.kenlm", "compat.pycrfsuite"} < set(PACKAGES)
    assert len(list(public_objects("sklstruct.taxonomy"))) > 30
