"""Back-off models: one query engine for every language model of sklstruct."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._batches import (
        Batches,
        ExtendedCounts,
        add_batch,
        check_forgetting,
        read_settings,
    )
    from ._classifier import DistributionClassifier
    from ._closure import ClosedModel, close_model, with_all_contexts
    from ._core_fast import Model
    from ._counted import Counted as Counted
    from ._counted import DeferredCounts, FrequentWords, HeldOutSplit
    from ._counting import (
        bytes_per_token,
        count_parts,
        count_text,
        count_windows,
    )
    from ._distribution import Distribution as Distribution
    from ._distribution import single_precision
    from ._estimator import BackoffClassifier
    from ._held_out import refuse_held_out
    from ._mix import mix
    from ._model import BackoffModel as BackoffModel
    from ._model import Fitted
    from ._prune import prune as prune
    from ._samples import Positions
    from ._selected import (
        next_contexts,
        renormalize,
        selected_nodes,
        without_zero_weights,
    )
    from ._slots import HeldOut
    from ._targets import (
        read_known,
        read_sample_weight,
        read_targets,
        require_targets,
        target_column,
    )
    from ._trees_fast import Path
    from ._wider import WiderModel
else:
    __all__, __getattr__, __dir__ = face(__name__)
