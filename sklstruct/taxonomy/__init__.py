"""Trees over classes: given or learned from data."""

from . import builders
from ._forest import Forest
from ._given import as_taxonomy
from ._label_paths import LabelTree, as_paths
from ._proximity import ClassProximity
from ._shape import TreeShape, choose_shape
from ._statistics import ClassStatistics
from ._taxonomy import ClassSets, Taxonomy
from .builders import *  # noqa: F403

__all__ = [
    "ClassProximity",
    "ClassSets",
    "ClassStatistics",
    "Forest",
    "LabelTree",
    "Taxonomy",
    "TreeShape",
    "as_paths",
    "as_taxonomy",
    "choose_shape",
]
__all__ += builders.__all__
