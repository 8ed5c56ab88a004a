"""Language models on WikiText-2: perplexity, fit time, tuning, queries.

    SKLSTRUCT_DATA=... python benchmarks/bench_wikitext.py [--case models]

Order 5, V = 33 278 classes. Lines are sentences, empty lines are dropped; end marks and
the token of unknown words count like any word. `models`: one fit from sentences, and
the perplexities. `tune`: lam, alpha and depth_weight of the l2 penalty, judged on the
validation file. `search`: the coordinate search of `StructuredLogLinearLMCV` on the
validation file, and what it finds. `query`: tokens a second. How fast fits converge is
measured by `bench_solvers.py`.
"""

from __future__ import annotations

import numpy as np
from _common import fastest, main, timed, wikitext

from sklstruct import KneserNeyLM, StructuredLogLinearLM
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import ElasticNet, StructuredLogLinearLMCV

DEPTH = 4

MODELS = {
    "interpolated Kneser-Ney": (KneserNeyLM, {"discount": "single"}),
    "modified Kneser-Ney": (KneserNeyLM, {}),
    "l1": (StructuredLogLinearLM, {"penalty": "l1", "lam": 0.5, "alpha": 0.7}),
    "l2": (StructuredLogLinearLM, {"penalty": "l2", "lam": 0.1, "alpha": 0.7}),
    "elastic_net": (
        StructuredLogLinearLM,
        {"penalty": "elastic_net", "lam": 0.2, "alpha": 0.75},
    ),
    "tree_l2": (
        StructuredLogLinearLM,
        {"penalty": "tree_l2", "lam": 0.5, "alpha": 0.9},
    ),
    "tree_linf": (
        StructuredLogLinearLM,
        {"penalty": "tree_linf", "lam": 0.5, "alpha": 0.8},
    ),
    # strengths that suit repetitive text as well: more absolute and less squared
    # discount for long contexts
    "elastic_net, weighted by depth": (
        StructuredLogLinearLM,
        {
            "penalty": ElasticNet(gamma=0.7),
            "lam": 0.17,
            "alpha": 1.0,
            "depth_weight": 1.33,
        },
    ),
    # the best of the cases `tune` on the validation file
    "l2, weighted by depth": (
        StructuredLogLinearLM,
        {
            "penalty": "l2",
            "lam": 0.1,
            "alpha": 0.7,
            "depth_weight": [1.0, 1.0, 1.3, 1.0, 1.0],
            "tol": 3e-3,
        },
    ),
}
# What `tune` tries: weights by depth and tol, at lam 0.1 and alpha 0.7; then lam and
# alpha at the best of them.
DEPTH_WEIGHTS = [
    ("1, 1, 1, 1, 1", 4e-3),
    ("3, 1, 1, 1, 1", 4e-3),
    ("1, 1.5, 1, 1, 1", 4e-3),
    ("1, 0.66, 1, 1, 1", 4e-3),
    ("1, 1, 0.66, 1, 1", 4e-3),
    ("1, 1, 1, 1.5, 1.5", 4e-3),
    ("1, 1, 2, 2, 2", 3e-3),
    ("1, 1, 1.5, 1.5, 1.5", 3e-3),
    ("1, 1, 1.5, 1, 1", 3e-3),
    ("1, 1, 1.3, 1.3, 1.3", 3e-3),
    ("1, 1, 1.3, 1, 1", 3e-3),
]


# Where `search` begins, and what it searches.
SEARCHES = {
    "l2": {"penalty": "l2", "lam": 0.1, "alpha": 0.7, "search": ["alpha", "lam"]},
    "elastic_net": {
        "penalty": ElasticNet(gamma=0.7),
        "lam": 0.17,
        "alpha": 1.0,
        "depth_weight": 1.33,
        "search": ["gamma", "depth_weight", "lam"],
    },
    "tree_l2": {
        "penalty": "tree_l2",
        "lam": 0.5,
        "alpha": 0.9,
        "search": ["alpha", "lam"],
    },
}
MAX_FITS = 16


def cases():
    out = [{"section": "models", "model": name} for name in MODELS]
    out += [{"section": "query", "model": "modified Kneser-Ney"}]
    tried = [(0.1, 0.7, *weight) for weight in DEPTH_WEIGHTS]
    tried += [
        (lam, alpha, *DEPTH_WEIGHTS[-1])
        for lam in (0.08, 0.1, 0.12)
        for alpha in (0.65, 0.7, 0.75)
        if (lam, alpha) != (0.1, 0.7)
    ]
    out += [{"section": "search", "model": name, "slow": True} for name in SEARCHES]
    names = ("lam", "alpha", "depth_weight", "tol")
    out += [{"section": "tune", **dict(zip(names, t)), "slow": True} for t in tried]
    return out


def estimator_of(name, **params):
    kind, own = MODELS[name]
    return kind(**{**own, **params})


def models(case):
    train = wikitext("train")
    lm = LanguageModel(estimator_of(case["model"]), max_depth=DEPTH)
    fit = timed(lm.fit, train, repeats=1)
    fitted = fit.result.estimator_
    n_pairs = fitted.backoff_model_.n_pairs
    return {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(wikitext("test")),
        "fit_seconds": fit.cpu,
        "parameters": int(getattr(fitted, "n_parameters_", n_pairs)),
    }


def tune(case):
    model = StructuredLogLinearLM(
        penalty="l2",
        lam=case["lam"],
        alpha=case["alpha"],
        depth_weight=[float(w) for w in case["depth_weight"].split(",")],
        tol=case["tol"],
    )
    lm = LanguageModel(model, max_depth=DEPTH).fit(wikitext("train"))
    return {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(wikitext("test")),
    }


def search(case):
    valid = wikitext("valid")
    model = StructuredLogLinearLMCV(**SEARCHES[case["model"]], max_fits=MAX_FITS)
    lm = LanguageModel(model, max_depth=DEPTH)
    fit = timed(lm.fit, wikitext("train"), X_val=valid, repeats=1)
    found = fit.result.estimator_

    def show(value):
        return ", ".join(f"{v:.3g}" for v in np.atleast_1d(value))

    first = found.search_results_[0]
    return {
        "lam": show(found.lam_),
        "alpha": show(found.alpha_),
        "depth_weight": show(found.depth_weight_),
        "gamma": show(getattr(found.penalty_, "gamma", np.nan)),
        "begin": float(np.exp(first["held_out_loss"])),
        "validation": lm.perplexity(valid),
        "test": lm.perplexity(wikitext("test")),
        "fits": len(found.search_results_),
        "evaluations_first": first["n_iter"],
        "evaluations": sum(r["n_iter"] for r in found.search_results_),
        "seconds": fit.cpu,
    }


def query(case):
    test = wikitext("test")
    lm = LanguageModel(estimator_of(case["model"]), max_depth=DEPTH)
    lm.fit(wikitext("train"))
    n_tokens = sum(map(len, test)) + len(test)
    times = fastest(score=lambda: lm.score_samples(test))
    return {"million_tokens_per_second": n_tokens / times["score"].cpu / 1e6}


def run(case):
    sections = {
        "models": models,
        "tune": tune,
        "search": search,
        "query": query,
    }
    return sections[case["section"]](case)


if __name__ == "__main__":
    main(cases, run)
