"""Back-off models: one query engine for every language model of sklstruct."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

# Names imported `as` themselves are for the packages above, not on the API page.
if TYPE_CHECKING:
    from ._classifier import DistributionClassifier as DistributionClassifier
    from ._counted import Counted
    from ._distribution import Distribution
    from ._estimator import BackoffClassifier as BackoffClassifier
    from ._mix import mix
    from ._model import BackoffModel
    from ._model import Fitted as Fitted
    from ._prune import prune
    from ._pruned import PrunedLM
    from ._targets import read_targets as read_targets
    from ._targets import require_targets as require_targets
    from ._targets import target_column as target_column

__all__ = ["BackoffModel", "Counted", "Distribution", "PrunedLM", "mix", "prune"]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._classifier": ["DistributionClassifier"],
            "._counted": ["Counted"],
            "._distribution": ["Distribution"],
            "._estimator": ["BackoffClassifier"],
            "._mix": ["mix"],
            "._model": ["BackoffModel", "Fitted"],
            "._prune": ["prune"],
            "._pruned": ["PrunedLM"],
            "._targets": ["read_targets", "require_targets", "target_column"],
        },
    )
