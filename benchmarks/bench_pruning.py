"""Perplexity against size on WikiText-2: pruned, penalised and grown models.

    SKLSTRUCT_DATA=... python benchmarks/bench_pruning.py

Order 5, V = 33 278 classes. `n_grams` are the explicit probabilities of a model (pairs
of a context and a class, unigrams included); those of a penalised model that have a
non-zero weight, as the others are what backing off gives. Nothing but the size is
chosen by the thresholds of a curve, `lam` for the penalties; tree_l2 and l1 have alpha
0.9 and no weights by depth, "elastic net" has the default settings, and pruned models
the default or the `lam` in their names. The pairs that an active set has built
are told beside; its optimum is that of the same penalty on the whole tree, whose
objective is in the same table.
"""

from __future__ import annotations

import numpy as np
from _common import main, timed, wikitext

from sklstruct import StructuredLogLinearLM
from sklstruct.backoff import prune
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import (
    AbsoluteDiscountLM,
    GrownLM,
    KneserNeyLM,
)

DEPTH = 4
ENTROPY = (1e-8, 3e-8, 1e-7, 3e-7, 1e-6, 3e-6)


def plain(penalty, lam):
    return StructuredLogLinearLM(penalty=penalty, lam=lam, alpha=0.9)


def active_set(penalty, lam):
    return plain(penalty, lam).set_params(solver="active_set")


CURVES = {
    "Kneser-Ney": lambda _: KneserNeyLM(),
    "Kneser-Ney, order": lambda _: KneserNeyLM(),
    "grown": lambda t: GrownLM(lam=t),
    "tree_l2": lambda t: plain("tree_l2", t),
    "tree_linf": lambda t: plain("tree_linf", t),
    "l1": lambda t: plain("l1", t),
    "active set of tree_l2": lambda t: active_set("tree_l2", t),
    "active set of tree_linf": lambda t: active_set("tree_linf", t),
    "active set of l1": lambda t: active_set("l1", t),
    "elastic net": lambda t: StructuredLogLinearLM(penalty="elastic_net", lam=t),
}
# Whole models, and the arguments of `prune`, which takes the counts of the text; with
# "by the model" it does not.
PRUNED = {
    "Kneser-Ney, entropy": (KneserNeyLM(), "entropy"),
    "Kneser-Ney, entropy by the model": (KneserNeyLM(), "entropy"),
    "Kneser-Ney, weighted difference": (KneserNeyLM(), "weighted_difference"),
    "Kneser-Ney, cut-off": (KneserNeyLM(), "count"),
    "absolute discounts, entropy": (AbsoluteDiscountLM(discount="modified"), "entropy"),
    "elastic net, entropy": (StructuredLogLinearLM(penalty="elastic_net"), "entropy"),
    "l1 0.5, entropy": (plain("l1", 0.5), "entropy"),
}
THRESHOLDS = {
    "Kneser-Ney": (0,),
    "Kneser-Ney, order": (1, 2, 3),
    "Kneser-Ney, entropy": ENTROPY,
    "Kneser-Ney, entropy by the model": (1e-9, 1e-8, 1e-7),
    "Kneser-Ney, weighted difference": (1e-7, 1e-6),
    "Kneser-Ney, cut-off": (1, 2, 4),
    "absolute discounts, entropy": ENTROPY,
    "grown": (0.5, 1.0, 2.0, 4.0, 8.0),
    "tree_l2": (0.5, 1.0, 2.0, 4.0),
    "tree_linf": (0.5, 1.0, 2.0, 4.0),
    "l1": (0.5, 1.0, 2.0, 4.0),
    "active set of tree_l2": (1.0, 2.0, 4.0),
    "active set of tree_linf": (2.0, 4.0),
    "active set of l1": (1.0, 2.0, 4.0),
    "elastic net": (0.2, 0.5, 1.0),
    "elastic net, entropy": (*ENTROPY, 1e-5),
    "l1 0.5, entropy": (3e-7, 1e-6, 3e-6),
}


def cases():
    return [
        {"model": name, "threshold": threshold}
        for name, thresholds in THRESHOLDS.items()
        for threshold in thresholds
    ]


def run(case):
    name, threshold = case["model"], case["threshold"]
    if name in PRUNED:
        estimator, method = PRUNED[name]
    else:
        estimator = CURVES[name](threshold)
    depth = threshold if name.endswith("order") else DEPTH
    lm, train = LanguageModel(estimator, max_depth=depth), wikitext("train")

    def fit_and_prune():
        counted = lm.count(train)
        lm.fit(counted)
        if name not in PRUNED:
            return lm
        counts = None if name.endswith("by the model") else counted
        cut = [0, threshold] if method == "count" else threshold
        small = prune(lm.backoff_model_, cut, method=method, counts=counts)
        return LanguageModel.from_backoff(small)

    fit = timed(fit_and_prune, repeats=1)
    fitted, lm = lm.estimator_, fit.result
    model = lm.backoff_model_
    used, more = model.n_pairs, {}
    if isinstance(estimator, StructuredLogLinearLM) and name not in PRUNED:
        used = model.n_classes + np.count_nonzero(fitted.coef_[model.n_classes :])
        more = {"objective": fitted.objective_[-1], "built": model.n_pairs}
        if estimator.solver == "active_set":
            more["built"] = fitted.n_pairs_built_
            more["rounds"] = fitted.objective_.size
    return {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(wikitext("test")),
        "n_grams": int(used),
        "fit_seconds": fit.cpu,
        **more,
    }


if __name__ == "__main__":
    main(cases, run)
