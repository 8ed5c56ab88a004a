"""Language models over sentences."""

from ._cache import CacheLM
from ._cache_state import CacheState
from ._language_model import LanguageModel

__all__ = ["CacheLM", "CacheState", "LanguageModel"]
