"""Back-off models: one query engine for every language model of sklstruct."""

# Names imported `as` themselves are for the packages above, not on the API page.
from ._classifier import DistributionClassifier as DistributionClassifier
from ._counted import Counted
from ._distribution import Distribution
from ._estimator import BackoffClassifier as BackoffClassifier
from ._estimator import Fitted as Fitted
from ._mix import mix
from ._model import BackoffModel
from ._prune import prune
from ._pruned import PrunedLM
from ._targets import read_targets as read_targets
from ._targets import require_targets as require_targets
from ._targets import target_column as target_column

__all__ = ["BackoffModel", "Counted", "Distribution", "PrunedLM", "mix", "prune"]
