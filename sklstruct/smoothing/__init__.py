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
    from .ngram._absolute_discount import AbsoluteDiscountLM
    from .ngram._additive import AdditiveLM
    from .ngram._grown import GrownLM
    from .ngram._jelinek_mercer import JelinekMercerLM
    from .ngram._katz import KatzLM
    from .ngram._kneser_ney import KneserNeyLM
    from .ngram._pruned_kneser_ney import PrunedKneserNeyLM
    from .ngram._witten_bell import WittenBellLM
    from .unigram._additive import AdditiveUnigram
    from .unigram._diffusion import GraphDiffusionUnigram
    from .unigram._discount import AbsoluteDiscountUnigram
    from .unigram._good_turing import GoodTuringUnigram
    from .unigram._spread import GraphSpreadUnigram

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
            ".ngram._absolute_discount": ["AbsoluteDiscountLM"],
            ".ngram._additive": ["AdditiveLM"],
            ".ngram._grown": ["GrownLM"],
            ".ngram._jelinek_mercer": ["JelinekMercerLM"],
            ".ngram._katz": ["KatzLM"],
            ".ngram._kneser_ney": ["KneserNeyLM"],
            ".ngram._pruned_kneser_ney": ["PrunedKneserNeyLM"],
            ".ngram._witten_bell": ["WittenBellLM"],
            ".unigram._additive": ["AdditiveUnigram"],
            ".unigram._diffusion": ["GraphDiffusionUnigram"],
            ".unigram._discount": ["AbsoluteDiscountUnigram"],
            ".unigram._good_turing": ["GoodTuringUnigram"],
            ".unigram._spread": ["GraphSpreadUnigram"],
        },
    )
