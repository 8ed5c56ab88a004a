"""Count-based smoothing: language models and unigrams from counts."""

from ._word_graphs import (
    cooccurrence_graph,
    group_graph,
    neighbors_graph,
    wordnet_graph,
)
from .ngram import (
    AbsoluteDiscountLM,
    AdditiveLM,
    GrownLM,
    JelinekMercerLM,
    KatzLM,
    KneserNeyLM,
    PrunedKneserNeyLM,
    WittenBellLM,
)
from .unigram import (
    AbsoluteDiscountUnigram,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
)

__all__ = [
    "AbsoluteDiscountLM",
    "AbsoluteDiscountUnigram",
    "AdditiveLM",
    "AdditiveUnigram",
    "GoodTuringUnigram",
    "GraphDiffusionUnigram",
    "GraphSpreadUnigram",
    "GrownLM",
    "JelinekMercerLM",
    "KatzLM",
    "KneserNeyLM",
    "PrunedKneserNeyLM",
    "WittenBellLM",
    "cooccurrence_graph",
    "group_graph",
    "neighbors_graph",
    "wordnet_graph",
]
