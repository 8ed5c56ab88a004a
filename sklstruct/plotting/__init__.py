"""Display classes. They import matplotlib only when something is drawn."""

from ._perplexity import PerplexityDisplay

__all__ = ["PerplexityDisplay"]
