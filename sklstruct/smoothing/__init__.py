"""Count-based smoothing: language models and unigrams from counts."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._word_graphs import group_graph as group_graph
    from .ngram._absolute_discount import AbsoluteDiscountLM as AbsoluteDiscountLM
    from .ngram._additive import AdditiveLM as AdditiveLM
    from .ngram._grown import GrownLM as GrownLM
    from .ngram._jelinek_mercer import JelinekMercerLM as JelinekMercerLM
    from .ngram._katz import KatzLM as KatzLM
    from .ngram._kneser_ney import KneserNeyLM as KneserNeyLM
    from .ngram._witten_bell import WittenBellLM as WittenBellLM
    from .unigram._additive import AdditiveUnigram as AdditiveUnigram
    from .unigram._diffusion import GraphDiffusionUnigram as GraphDiffusionUnigram
    from .unigram._discount import AbsoluteDiscountUnigram as AbsoluteDiscountUnigram
    from .unigram._good_turing import GoodTuringUnigram as GoodTuringUnigram
    from .unigram._spread import GraphSpreadUnigram as GraphSpreadUnigram
else:
    __all__, __getattr__, __dir__ = face(__name__)
