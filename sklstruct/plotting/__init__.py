"""Display classes. They import matplotlib only when something is drawn."""

from ._perplexity import PerplexityDisplay
from ._unigram import UnigramDiffusionDisplay

__all__ = ["PerplexityDisplay", "UnigramDiffusionDisplay"]
