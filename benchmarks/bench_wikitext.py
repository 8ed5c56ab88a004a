"""Language models on WikiText-2: perplexity, fit time, tuning, queries.

    SKLSTRUCT_DATA=... python benchmarks/bench_wikitext.py [--case models]

Order 5, V = 33 278 classes. Lines are sentences, empty lines are dropped; end marks and
the token of unknown words count like any word. `models`: one fit from sentences, and
the perplexities. `tune`: lam, alpha and depth_weight of the l2 penalty, judged on the
validation file. `search`: the coordinate search of `StructuredLogLinearLMCV` on the
validation file from the defaults of each penalty, what it finds, and its cost in fits
with the strengths found. `orders`: all smoothers and penalties at orders 2 to 6, with
their defaults (discounts called tuned and weights called held out are chosen on the
validation file, by the fit). `query`: tokens per second. How fast fits converge is
measured by `bench_solvers.py`.
"""

from __future__ import annotations

import warnings

import numpy as np
from _common import fastest, main, timed, wikitext
from bench_smoothing import HELD_OUT
from bench_smoothing import VARIANTS as SMOOTHERS
from sklearn.base import clone

from sklstruct import KneserNeyLM, StructuredLogLinearLM
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import L2, AutoSolver, ElasticNet, StructuredLogLinearLMCV

DEPTH = 4

# The values to begin with of the guide.
BEGIN = {
    "elastic_net": {"penalty": "elastic_net"},
    "l1": {"penalty": "l1", "lam": 0.5, "alpha": 0.8},
    "l2": {"penalty": "l2", "lam": 0.1, "alpha": 0.7},
    "tree_l2": {"penalty": "tree_l2", "lam": 0.9, "alpha": 1.2},
    "tree_linf": {"penalty": "tree_linf", "lam": 0.6, "alpha": 0.9},
}
MODELS = {
    "interpolated Kneser-Ney": (KneserNeyLM, {"discount": "single"}),
    "modified Kneser-Ney": (KneserNeyLM, {}),
    **{name: (StructuredLogLinearLM, begin) for name, begin in BEGIN.items()},
    "elastic_net, count_weight": (
        StructuredLogLinearLM,
        {"penalty": ElasticNet(gamma=0.5, count_weight=[0.8, 1.0]), "lam": 0.24},
    ),
    # the best of the cases `tune` on the validation file
    "l2, weighted by depth": (
        StructuredLogLinearLM,
        {
            "penalty": L2(depth_weight=[1.0, 1.0, 1.3, 1.0, 1.0]),
            "lam": 0.1,
            "alpha": 0.7,
            "solver": AutoSolver(tol=3e-3),
        },
    ),
}
LOGLINEAR = (
    "elastic_net",
    "elastic_net, count_weight",
    "l1",
    "l2",
    "tree_l2",
    "tree_linf",
)
ORDERS = range(2, 7)

# Grid of `tune`: weights by depth and tol, at lam 0.1 and alpha 0.7; then lam and
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


# Starts of `search` beside the defaults, and the number of its fits.
SEARCHES = {
    **{name: (begin, None, 16) for name, begin in BEGIN.items()},
    "elastic_net, by depth": (
        {
            "penalty": ElasticNet(
                gamma=np.full(DEPTH + 1, 0.5),
                depth_weight=1.33 ** np.arange(DEPTH + 1),
            )
        },
        ["penalty__depth_weight", "penalty__gamma"],
        40,
    ),
}


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
    out += [
        {"section": "orders", "model": name, "order": order, "slow": True}
        for name in (*SMOOTHERS, *LOGLINEAR)
        for order in ORDERS
    ]
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
        penalty=L2([float(w) for w in case["depth_weight"].split(",")]),
        lam=case["lam"],
        alpha=case["alpha"],
        solver=AutoSolver(tol=case["tol"]),
    )
    lm = LanguageModel(model, max_depth=DEPTH).fit(wikitext("train"))
    return {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(wikitext("test")),
    }


def search(case):
    train, valid = wikitext("train"), wikitext("valid")
    begin, searched, max_fits = SEARCHES[case["model"]]
    model = StructuredLogLinearLMCV(
        StructuredLogLinearLM(**begin), search=searched, max_fits=max_fits
    )
    lm = LanguageModel(model, max_depth=DEPTH)
    fit = timed(lm.fit, train, X_val=valid, repeats=1)
    found = fit.result.estimator_
    single = clone(found.best_estimator_)
    once = timed(LanguageModel(single, max_depth=DEPTH).fit, train, repeats=1)

    def show(value):
        return ", ".join(f"{v:.3g}" for v in np.atleast_1d(value))

    results = found.search_results_
    return {
        "lam": show(single.lam),
        "alpha": show(single.alpha),
        "depth_weight": show(single.penalty.depth_weight),
        "gamma": show(getattr(single.penalty, "gamma", np.nan)),
        "begin": float(np.exp(results[0]["held_out_loss"])),
        "validation": lm.perplexity(valid),
        "test": lm.perplexity(wikitext("test")),
        "fits": len(results),
        "evaluations_single": once.result.estimator_.n_iter_,
        "evaluations": sum(r["n_iter"] for r in results),
        "seconds": fit.cpu,
        "single_seconds": once.cpu,
        "single_fits": fit.cpu / once.cpu,
    }


def orders(case):
    name, choose = case["model"], {}
    if name in SMOOTHERS:
        estimator = clone(SMOOTHERS[name])
        if any(word in name for word in HELD_OUT):
            choose["X_val"] = wikitext("valid")
    else:
        estimator = estimator_of(name)
    lm = LanguageModel(estimator, max_depth=case["order"] - 1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # discounts of the unigrams
        fit = timed(lm.fit, wikitext("train"), **choose, repeats=1)
    fitted = fit.result.estimator_
    return {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(wikitext("test")),
        "fit_seconds": fit.cpu,
        "parameters": int(getattr(fitted, "n_parameters_", lm.backoff_model_.n_pairs)),
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
        "orders": orders,
        "query": query,
    }
    return sections[case["section"]](case)


if __name__ == "__main__":
    main(cases, run)
