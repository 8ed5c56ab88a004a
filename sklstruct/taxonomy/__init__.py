"""Trees over classes: given, learned from data, and classification along them."""

from sklstruct.taxonomy._proximity import ClassProximity, ClassStatistics
from sklstruct.taxonomy._taxonomy import ClassSets, Taxonomy

__all__ = [
    "ClassProximity",
    "ClassSets",
    "ClassStatistics",
    "Taxonomy",
]
