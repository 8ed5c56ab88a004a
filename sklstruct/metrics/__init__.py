"""Metrics and scorers: likelihood, hierarchical precision, precision of ranks."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._hierarchical import (
        hierarchical_f1_score,
        hierarchical_precision_score,
        hierarchical_recall_score,
    )
    from ._likelihood import (
        LikelihoodScorer,
        TargetCounts,
        code_length,
        log_likelihood,
        log_likelihood_scorer,
        make_code_length_scorer,
        make_log_likelihood_scorer,
        make_perplexity_scorer,
        neg_code_length_scorer,
        neg_perplexity_scorer,
        perplexity,
    )
    from ._ranked_labels import (
        label_propensities,
        make_ranking_scorer,
        ndcg_at_k,
        precision_at_k,
        propensity_scored_precision_at_k,
    )

__all__ = [
    "LikelihoodScorer",
    "TargetCounts",
    "code_length",
    "hierarchical_f1_score",
    "hierarchical_precision_score",
    "hierarchical_recall_score",
    "label_propensities",
    "log_likelihood",
    "log_likelihood_scorer",
    "make_code_length_scorer",
    "make_log_likelihood_scorer",
    "make_perplexity_scorer",
    "make_ranking_scorer",
    "ndcg_at_k",
    "neg_code_length_scorer",
    "neg_perplexity_scorer",
    "perplexity",
    "precision_at_k",
    "propensity_scored_precision_at_k",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._hierarchical": [
                "hierarchical_f1_score",
                "hierarchical_precision_score",
                "hierarchical_recall_score",
            ],
            "._likelihood": [
                "LikelihoodScorer",
                "TargetCounts",
                "code_length",
                "log_likelihood",
                "log_likelihood_scorer",
                "make_code_length_scorer",
                "make_log_likelihood_scorer",
                "make_perplexity_scorer",
                "neg_code_length_scorer",
                "neg_perplexity_scorer",
                "perplexity",
            ],
            "._ranked_labels": [
                "label_propensities",
                "make_ranking_scorer",
                "ndcg_at_k",
                "precision_at_k",
                "propensity_scored_precision_at_k",
            ],
        },
    )
