"""Word classes: clusterings of words, and contexts that are made of them."""

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
