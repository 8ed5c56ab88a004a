"""Word classes: clusterings of words, and contexts of word classes."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._agglomeration import class_taxonomy as class_taxonomy
    from ._clustering import WordClustering
    from ._exchange import ExchangeClustering as ExchangeClustering
    from ._refiner import ContextRefiner as ContextRefiner
    from ._taxonomy_clustering import TaxonomyClustering as TaxonomyClustering
else:
    __all__, __getattr__, __dir__ = face(__name__)
