"""Language models over sentences."""

from ._cache import CacheCursor, CacheLM
from ._cache_state import CacheState
from ._language_model import LanguageModel
from ._weighted_automaton import ExpectedWindows, WeightedAutomaton

__all__ = [
    "CacheCursor",
    "CacheLM",
    "CacheState",
    "ExpectedWindows",
    "LanguageModel",
    "WeightedAutomaton",
]
