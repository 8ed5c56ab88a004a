"""Count-based smoothing: language models and unigrams from counts."""

from ._additive import AdditiveLM
from ._kneser_ney import KneserNeyLM
from ._word_graphs import (
    cooccurrence_graph,
    group_graph,
    neighbors_graph,
    wordnet_graph,
)
from .unigram import (
    AbsoluteDiscountUnigram,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
)

__all__ = [
    "AbsoluteDiscountUnigram",
    "AdditiveLM",
    "AdditiveUnigram",
    "GoodTuringUnigram",
    "GraphDiffusionUnigram",
    "GraphSpreadUnigram",
    "KneserNeyLM",
    "cooccurrence_graph",
    "group_graph",
    "neighbors_graph",
    "wordnet_graph",
]
