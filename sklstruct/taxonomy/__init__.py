"""Trees over classes: given, learned from data, and classification along them."""

from sklstruct.taxonomy._taxonomy import ClassSets, Taxonomy

__all__ = [
    "ClassSets",
    "Taxonomy",
]
