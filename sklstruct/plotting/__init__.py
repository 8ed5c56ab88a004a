"""Display classes. They import matplotlib only when something is drawn."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._analysis import DepthLossDisplay as DepthLossDisplay
    from ._analysis import WeightsByDepthDisplay as WeightsByDepthDisplay
    from ._lattice import LatticeDisplay as LatticeDisplay
    from ._perplexity import PerplexityDisplay as PerplexityDisplay
    from ._taxonomy import TaxonomyDisplay as TaxonomyDisplay
    from ._unigram import UnigramDiffusionDisplay as UnigramDiffusionDisplay
else:
    __all__, __getattr__, __dir__ = face(__name__)
