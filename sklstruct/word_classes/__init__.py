"""Word classes: clusterings of words, and contexts that are made of them."""

from ._base import WordClustering
from ._exchange import ExchangeClustering
from ._refiner import ContextRefiner

__all__ = ["ContextRefiner", "ExchangeClustering", "WordClustering"]
