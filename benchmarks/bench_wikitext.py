"""Language models on WikiText-2: perplexity, fit time, memory, query speed.

    SKLSTRUCT_DATA=... python benchmarks/bench_wikitext.py [SECTION ...]

Sections: `models` (the table of order-5 models; end marks and the unknown-word
token counted), `tune` (lam, alpha and depth_weight of the l2 penalty on the
validation file), `converge` (seconds to a relative objective error of 1e-3 and the
default tolerance), `query` (tokens a second). All by default.
"""

import argparse
import time

import numpy as np
from _common import best_time, machine, peak_mb, wikitext
from sklearn.base import clone

from sklstruct.context_tree import context_windows
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import StructuredLogLinearLM
from sklstruct.smoothing import KneserNeyLM

DEPTH = 4

# The best on the validation file of those in docs/benchmarks.rst.
TUNED = {
    "penalty": "l2",
    "lam": 0.1,
    "alpha": 0.7,
    "depth_weight": [1.0, 1.0, 1.3, 1.0, 1.0],
    "tol": 3e-3,
}

MODELS = {
    "interpolated Kneser-Ney": KneserNeyLM(discount="single"),
    "modified Kneser-Ney": KneserNeyLM(),
    "l1": StructuredLogLinearLM(penalty="l1", lam=0.5, alpha=0.7),
    "l2": StructuredLogLinearLM(penalty="l2", lam=0.1, alpha=0.7),
    "elastic_net": StructuredLogLinearLM(penalty="elastic_net", lam=0.2, alpha=0.75),
    "tree_l2": StructuredLogLinearLM(penalty="tree_l2", lam=0.5, alpha=0.9),
    "tree_linf": StructuredLogLinearLM(penalty="tree_linf", lam=0.5, alpha=0.8),
    "tuned on validation": StructuredLogLinearLM(**TUNED),
}


def models():
    train, valid, test = (wikitext(s) for s in ("train", "valid", "test"))
    print(
        f"{'model':24} {'valid':>7} {'test':>7} {'fit s':>6} {'parameters':>10} "
        f"{'peak MB':>7}"
    )
    for name, estimator in MODELS.items():
        start = time.perf_counter()
        lm = LanguageModel(estimator, max_depth=DEPTH).fit(train)
        seconds = time.perf_counter() - start
        size = getattr(
            lm.estimator_, "n_parameters_", lm.estimator_.backoff_model_.n_pairs
        )
        print(
            f"{name:24} {lm.perplexity(valid):7.2f} {lm.perplexity(test):7.2f} "
            f"{seconds:6.1f} {size:10} {peak_mb():7.0f}",
            flush=True,
        )


def tune():
    train, valid, test = (wikitext(s) for s in ("train", "valid", "test"))
    best = (np.inf, None)
    for lam in (0.08, 0.1, 0.12):
        for alpha in (0.65, 0.7, 0.75):
            for depth_weight in (1.0, [1.0, 1.0, 1.3, 1.0, 1.0]):
                lm = LanguageModel(
                    StructuredLogLinearLM(
                        penalty="l2",
                        lam=lam,
                        alpha=alpha,
                        depth_weight=depth_weight,
                        tol=5e-3,
                    ),
                    max_depth=DEPTH,
                ).fit(train)
                score = lm.perplexity(valid)
                print(
                    f"lam {lam} alpha {alpha} depth_weight {depth_weight}: "
                    f"validation {score:.2f}",
                    flush=True,
                )
                if score < best[0]:
                    best = (score, lm)
    print(
        f"best on validation: {best[1].estimator}: test {best[1].perplexity(test):.2f}"
    )


def converge():
    w = context_windows(wikitext("train"), DEPTH)
    for name in ("l1", "l2", "elastic_net", "tree_l2", "tree_linf"):
        estimator = clone(MODELS[name]).set_params(padding=-1)
        minimum = None
        for label, params in (
            ("minimum", {"tol": 3e-4, "max_iter": 1000}),
            ("default tol", {"tol": 1e-2, "max_iter": 300}),
        ):
            estimator.set_params(**params)
            start = time.perf_counter()
            estimator.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
            seconds = time.perf_counter() - start
            history = estimator.objective_
            minimum = history[-1] if minimum is None else minimum
            if label == "minimum":
                continue
            reached = int(np.argmax(history <= minimum * 1.001)) + 1
            share = seconds * reached / estimator.n_iter_
            print(
                f"{name:12} {estimator.n_iter_} iterations in {seconds:.1f} s from "
                f"token ids, relative error {history[-1] / minimum - 1:.1e}; 1e-3 "
                f"after {reached} (about {share:.1f} s); peak {peak_mb():.0f} MB",
                flush=True,
            )


def query():
    train, test = wikitext("train"), wikitext("test")
    lm = LanguageModel(KneserNeyLM(), max_depth=DEPTH).fit(train)
    n_tokens = sum(map(len, test)) + len(test)
    seconds = best_time(lambda: lm.score_samples(test), 5)
    print(f"LanguageModel.score_samples: {n_tokens / seconds / 1e6:.2f} M tokens/s")


def main():
    sections = {f.__name__: f for f in (models, tune, converge, query)}
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("sections", nargs="*", metavar="SECTION", default=[])
    chosen = parser.parse_args().sections or list(sections)
    unknown = set(chosen) - set(sections)
    if unknown:
        parser.error(f"unknown section {unknown.pop()!r}; choose from {list(sections)}")
    print(machine())
    for name in chosen:
        print(f"\n== {name}")
        sections[name]()


if __name__ == "__main__":
    main()
