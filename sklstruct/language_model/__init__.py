"""Language models over sentences."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._cache import CacheCursor, CacheLM
    from ._cache_state import CacheState
    from ._interpolate import interpolate
    from ._language_model import LanguageModel
    from ._perplexity import (
        PerplexityFilter,
        PerplexityTransformer,
        normalize_ccnet,
    )
    from ._quality import named_estimator
    from ._reports import compare
    from ._weighted_automaton import ExpectedWindows, WeightedAutomaton

__all__ = [
    "CacheCursor",
    "CacheLM",
    "CacheState",
    "ExpectedWindows",
    "LanguageModel",
    "PerplexityFilter",
    "PerplexityTransformer",
    "WeightedAutomaton",
    "compare",
    "interpolate",
    "named_estimator",
    "normalize_ccnet",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._cache": ["CacheCursor", "CacheLM"],
            "._cache_state": ["CacheState"],
            "._interpolate": ["interpolate"],
            "._language_model": ["LanguageModel"],
            "._perplexity": [
                "PerplexityFilter",
                "PerplexityTransformer",
                "normalize_ccnet",
            ],
            "._quality": ["named_estimator"],
            "._reports": ["compare"],
            "._weighted_automaton": ["ExpectedWindows", "WeightedAutomaton"],
        },
    )
