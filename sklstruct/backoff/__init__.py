"""Back-off models: one query engine for every language model of sklstruct."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._classifier import DistributionClassifier
    from ._closure import ClosedModel, close_model
    from ._core_fast import Model
    from ._counted import Counted as Counted
    from ._distribution import Distribution as Distribution
    from ._distribution import single_precision
    from ._estimator import BackoffClassifier
    from ._mix import mix as mix
    from ._mix import mix_over
    from ._model import BackoffModel as BackoffModel
    from ._model import Fitted
    from ._prune import prune as prune
    from ._prune import without_zero_weights
    from ._pruned import PrunedLM as PrunedLM
    from ._restrict import restrict as restrict
    from ._targets import (
        read_sample_weight,
        read_targets,
        require_targets,
        target_column,
    )
    from ._wider import WiderModel
else:
    __all__, __getattr__, __dir__ = face(__name__)
