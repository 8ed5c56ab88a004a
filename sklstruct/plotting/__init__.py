"""Display classes. They import matplotlib only when something is drawn."""

from ._analysis import DepthLossDisplay, WeightsByDepthDisplay, WordLossDisplay
from ._cost import CostDisplay
from ._display import Display
from ._lattice import LatticeDisplay
from ._perplexity import PerplexityDisplay
from ._reliability import ReliabilityDisplay
from ._taxonomy import DepthTradeoffDisplay, TaxonomyDisplay
from ._unigram import UnigramDiffusionDisplay

__all__ = [
    "CostDisplay",
    "DepthLossDisplay",
    "DepthTradeoffDisplay",
    "Display",
    "LatticeDisplay",
    "PerplexityDisplay",
    "ReliabilityDisplay",
    "TaxonomyDisplay",
    "UnigramDiffusionDisplay",
    "WeightsByDepthDisplay",
    "WordLossDisplay",
]
