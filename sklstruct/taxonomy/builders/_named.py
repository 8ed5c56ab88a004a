# ruff: noqa: F403
"""Builders by name: one line each."""

from ._base import TaxonomyBuilder
from ._confusion import *
from ._cut import *
from ._diffrac import *
from ._greedy import *
from ._hungarian import *
from ._kmeans import *
from ._random import *
from ._spectral import *
from ._ward import *

_BUILDERS = [
    found
    for found in vars().copy().values()
    if isinstance(found, type) and issubclass(found, TaxonomyBuilder) and found.name
]
TAXONOMY_BUILDERS = {builder.name: builder for builder in _BUILDERS}

__all__ = ["TAXONOMY_BUILDERS", *(builder.__name__ for builder in _BUILDERS)]
