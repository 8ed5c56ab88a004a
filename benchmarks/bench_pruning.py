"""Perplexity against size on WikiText-2: pruned, penalised and grown models.

    SKLSTRUCT_DATA=... python benchmarks/bench_pruning.py

Order 5, V = 33 278 classes. `n_grams` are the explicit probabilities of a model (pairs
of a context and a class, unigrams included). Nothing but the size is chosen by the
thresholds of a curve.
"""

from __future__ import annotations

from _common import main, timed, wikitext

from sklstruct.backoff import PrunedLM
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import AbsoluteDiscountLM, KneserNeyLM, PrunedKneserNeyLM

DEPTH = 4
ENTROPY = (1e-8, 3e-8, 1e-7, 3e-7, 1e-6, 3e-6)

CURVES = {
    "Kneser-Ney": lambda _: KneserNeyLM(),
    "Kneser-Ney, order": lambda t: KneserNeyLM(int(t)),
    "Kneser-Ney, entropy": lambda t: PrunedLM(KneserNeyLM(), t),
    "Kneser-Ney, entropy by the model": lambda t: PrunedLM(
        KneserNeyLM(), t, history="model"
    ),
    "Kneser-Ney, weighted difference": lambda t: PrunedLM(
        KneserNeyLM(), t, method="weighted_difference"
    ),
    "Kneser-Ney, cut-off": lambda t: PrunedLM(KneserNeyLM(), [0, t], method="count"),
    "Kneser-Ney, counts returned": lambda t: PrunedKneserNeyLM(threshold=t),
    "absolute discounts, entropy": lambda t: PrunedLM(
        AbsoluteDiscountLM(discount="modified"), t
    ),
}
THRESHOLDS = {
    "Kneser-Ney": (0,),
    "Kneser-Ney, order": (1, 2, 3),
    "Kneser-Ney, entropy": ENTROPY,
    "Kneser-Ney, entropy by the model": (1e-9, 1e-8, 1e-7),
    "Kneser-Ney, weighted difference": (1e-7, 1e-6),
    "Kneser-Ney, cut-off": (1, 2, 4),
    "Kneser-Ney, counts returned": (0.01, 0.03, 0.1, 0.3, 1.0),
    "absolute discounts, entropy": ENTROPY,
}


def cases():
    return [
        {"model": name, "threshold": threshold}
        for name, thresholds in THRESHOLDS.items()
        for threshold in thresholds
    ]


def run(case):
    estimator = CURVES[case["model"]](case["threshold"])
    lm = LanguageModel(estimator, max_depth=DEPTH)
    fit = timed(lm.fit, wikitext("train"), repeats=1)
    model = lm.backoff_model_
    return {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(wikitext("test")),
        "n_grams": model.n_pairs,
        "fit_seconds": fit.cpu,
    }


if __name__ == "__main__":
    main(cases, run)
