"""Display classes. They import matplotlib only when something is drawn."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
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

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._analysis": [
                "DepthLossDisplay",
                "WeightsByDepthDisplay",
                "WordLossDisplay",
            ],
            "._cost": ["CostDisplay"],
            "._display": ["Display"],
            "._lattice": ["LatticeDisplay"],
            "._perplexity": ["PerplexityDisplay"],
            "._reliability": ["ReliabilityDisplay"],
            "._taxonomy": ["DepthTradeoffDisplay", "TaxonomyDisplay"],
            "._unigram": ["UnigramDiffusionDisplay"],
        },
    )
