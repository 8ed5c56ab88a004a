"""Metrics and scorers: likelihood, hierarchical precision, precision at k."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._hierarchical import hierarchical_f1_score as hierarchical_f1_score
    from ._hierarchical import (
        hierarchical_precision_score as hierarchical_precision_score,
    )
    from ._hierarchical import hierarchical_recall_score as hierarchical_recall_score
    from ._likelihood import LikelihoodScorer as LikelihoodScorer
    from ._likelihood import log_likelihood as log_likelihood
    from ._likelihood import perplexity as perplexity
    from ._ranked_labels import label_propensities as label_propensities
    from ._ranked_labels import ndcg_at_k as ndcg_at_k
    from ._ranked_labels import precision_at_k as precision_at_k
    from ._ranked_labels import (
        propensity_scored_precision_at_k as propensity_scored_precision_at_k,
    )
else:
    __all__, __getattr__, __dir__ = face(__name__)
