"""Display classes. They import matplotlib only when something is drawn."""

from ._analysis import DepthLossDisplay, WeightsByDepthDisplay, WordLossDisplay
from ._lattice import LatticeDisplay
from ._perplexity import PerplexityDisplay
from ._taxonomy import DepthTradeoffDisplay, TaxonomyDisplay
from ._unigram import UnigramDiffusionDisplay

__all__ = [
    "DepthLossDisplay",
    "DepthTradeoffDisplay",
    "LatticeDisplay",
    "PerplexityDisplay",
    "TaxonomyDisplay",
    "UnigramDiffusionDisplay",
    "WeightsByDepthDisplay",
    "WordLossDisplay",
]
