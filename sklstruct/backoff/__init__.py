"""Back-off models: one query engine for every language model of sklstruct."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

# Names imported `as` themselves are for the packages above, not on the API page.
if TYPE_CHECKING:
    from ._classifier import DistributionClassifier as DistributionClassifier
    from ._closure import ClosedModel as ClosedModel
    from ._closure import close_model as close_model
    from ._counted import Counted
    from ._distribution import Distribution
    from ._distribution import single_precision as single_precision
    from ._estimator import BackoffClassifier as BackoffClassifier
    from ._mix import mix
    from ._mix import mix_over as mix_over
    from ._model import BackoffModel
    from ._model import Fitted as Fitted
    from ._prune import prune
    from ._prune import without_zero_weights as without_zero_weights
    from ._pruned import PrunedLM
    from ._restrict import restrict
    from ._targets import read_sample_weight as read_sample_weight
    from ._targets import read_targets as read_targets
    from ._targets import require_targets as require_targets
    from ._targets import target_column as target_column
    from ._wider import WiderModel as WiderModel

__all__ = [
    "BackoffModel",
    "Counted",
    "Distribution",
    "PrunedLM",
    "mix",
    "prune",
    "restrict",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._classifier": ["DistributionClassifier"],
            "._closure": ["ClosedModel", "close_model"],
            "._counted": ["Counted"],
            "._distribution": ["Distribution", "single_precision"],
            "._estimator": ["BackoffClassifier"],
            "._mix": ["mix", "mix_over"],
            "._model": ["BackoffModel", "Fitted"],
            "._prune": ["prune", "without_zero_weights"],
            "._pruned": ["PrunedLM"],
            "._restrict": ["restrict"],
            "._targets": [
                "read_sample_weight",
                "read_targets",
                "require_targets",
                "target_column",
            ],
            "._wider": ["WiderModel"],
        },
    )
