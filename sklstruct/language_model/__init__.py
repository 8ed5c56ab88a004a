"""Language models over sentences."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._cache import CacheLM as CacheLM
    from ._interpolate import interpolate as interpolate
    from ._language_model import LanguageModel as LanguageModel
    from ._perplexity import PerplexityTransformer as PerplexityTransformer
    from ._quality import named_estimator as named_estimator
    from ._reports import compare as compare
    from ._weighted_automaton import WeightedAutomaton as WeightedAutomaton
else:
    __all__, __getattr__, __dir__ = face(__name__)
