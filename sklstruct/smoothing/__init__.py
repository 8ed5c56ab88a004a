"""Count-based smoothing: language models and unigrams from counts."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
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

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._word_graphs": [
                "cooccurrence_graph",
                "group_graph",
                "neighbors_graph",
                "wordnet_graph",
            ],
            ".ngram": [
                "AbsoluteDiscountLM",
                "AdditiveLM",
                "GrownLM",
                "JelinekMercerLM",
                "KatzLM",
                "KneserNeyLM",
                "PrunedKneserNeyLM",
                "WittenBellLM",
            ],
            ".unigram": [
                "AbsoluteDiscountUnigram",
                "AdditiveUnigram",
                "GoodTuringUnigram",
                "GraphDiffusionUnigram",
                "GraphSpreadUnigram",
            ],
        },
    )
