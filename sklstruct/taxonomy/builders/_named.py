"""Builders by name, for the parameters `taxonomy` and `builder` of estimators."""

from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from pkgutil import iter_modules

from ._base import TaxonomyBuilder

TAXONOMY_BUILDERS: dict[str, type[TaxonomyBuilder]] = {}
"""The builders of this folder by `short_name`."""


def named_builder(
    name: str, parameter: str, others: Iterable[str] = ()
) -> TaxonomyBuilder:
    """A builder with its default parameters.

    Raises ValueError for an unknown name. The message names the parameter, all builders
    and `others`, the other values of the parameter.
    """
    if name not in TAXONOMY_BUILDERS:
        raise ValueError(
            f"{parameter}={name!r:.60} is not the name of a builder; there are "
            f"{[*others, *sorted(TAXONOMY_BUILDERS)]}"
        )
    return TAXONOMY_BUILDERS[name]()


# After the functions, which a module of the folder imports.
for _module in iter_modules([str(Path(__file__).parent)]):
    for _thing in vars(import_module(f"{__package__}.{_module.name}")).values():
        _name = getattr(_thing, "short_name", None)
        if isinstance(_name, str):
            TAXONOMY_BUILDERS[_name] = _thing
