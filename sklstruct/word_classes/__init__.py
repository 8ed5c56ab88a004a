"""Word classes: clusterings of words, and contexts of word classes."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._agglomeration import class_taxonomy
    from ._clustering import WordClustering
    from ._exchange import ExchangeClustering
    from ._refiner import ContextRefiner
    from ._taxonomy import TaxonomyClustering

__all__ = [
    "ContextRefiner",
    "ExchangeClustering",
    "TaxonomyClustering",
    "WordClustering",
    "class_taxonomy",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._agglomeration": ["class_taxonomy"],
            "._clustering": ["WordClustering"],
            "._exchange": ["ExchangeClustering"],
            "._refiner": ["ContextRefiner"],
            "._taxonomy": ["TaxonomyClustering"],
        },
    )
