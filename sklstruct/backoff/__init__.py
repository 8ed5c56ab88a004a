"""Back-off models: one query engine for every language model of sklstruct."""

from ._counted import Counted
from ._distribution import Distribution
from ._mix import mix
from ._model import BackoffModel
from ._prune import prune
from ._pruned import PrunedLM

__all__ = ["BackoffModel", "Counted", "Distribution", "PrunedLM", "mix", "prune"]
