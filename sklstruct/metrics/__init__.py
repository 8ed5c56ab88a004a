"""Likelihood, perplexity and code length, and scorers aligned by ``classes_``."""

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

__all__ = [
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
]
