"""Display classes. They import matplotlib only when something is drawn."""

from ._taxonomy import DepthTradeoffDisplay, TaxonomyDisplay

__all__ = ["DepthTradeoffDisplay", "TaxonomyDisplay"]
