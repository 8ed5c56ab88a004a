"""Kneser-Ney on WikiText-2: perplexity, seconds, memory; KenLM on the same model.

    SKLSTRUCT_DATA=... python benchmarks/bench_smoothing.py [--peer] [--case single]

Order 5. `fit_seconds` is a fit from sentences, `fit_ids_seconds` one from the ids of
contexts and targets. Other unigrams at the root matter more with little text: the cases
of 100 000 words, which share the vocabulary of the whole file. KenLM's estimator is not
on PyPI, its query engine is: it reads the ARPA file that the model is exported to and
scores the same test text.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
from _common import fastest, first_words, kenlm_model, main, options, timed, wikitext

from sklstruct import KneserNeyLM
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
)
from sklstruct.symbols import context_windows

DEPTH = 4

VARIANTS = {
    "single": {"discount": "single"},
    "modified": {"discount": "modified"},
    "single, back-off": {"discount": "single", "interpolate": False},
    "modified, back-off": {"discount": "modified", "interpolate": False},
}
BASES = {
    "none": None,
    "discounted": AbsoluteDiscountUnigram(),
    "diffusion": GraphDiffusionUnigram(floor=1e-6),
    "kernel": GraphDiffusionUnigram("kernel", floor=1e-6),
    "Good-Turing": GoodTuringUnigram(gaps="smooth"),
}


def cases():
    out = [{"variant": name, "base": "none", "words": "all"} for name in VARIANTS]
    out += [
        {"variant": "modified", "base": base, "words": words}
        for words in (100_000, "all")
        for base in BASES
        if not (base == "none" and words == "all")
    ]
    return out


def run(case):
    whole, test = wikitext("train"), wikitext("test")
    n_words = case["words"]
    train = whole if n_words == "all" else first_words(whole, n_words)
    params = VARIANTS[case["variant"]]
    if case["base"] != "none":
        params = {**params, "base": BASES[case["base"]]}
    # closed: without the vocabulary of the whole file its other words were unknown
    known = None if n_words == "all" else sorted({w for s in whole for w in s})
    lm = LanguageModel(KneserNeyLM(**params), max_depth=DEPTH, vocabulary=known)
    w = context_windows(train, DEPTH)
    ids = KneserNeyLM(padding=-1, **params)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # discounts of little text
        fit = timed(lm.fit, train)
        fit_ids = timed(ids.fit, w.contexts, w.targets, sample_weight=w.sample_weight)
    score = fastest(score=lambda: lm.score_samples(test))["score"]
    n_tokens = sum(map(len, test)) + len(test)
    figures = {
        "test": lm.perplexity(test),
        "fit_seconds": fit.cpu,
        "fit_ids_seconds": fit_ids.cpu,
        "million_tokens_per_second": n_tokens / score.cpu / 1e6,
    }
    if "kenlm" in options.peers:
        figures |= kenlm_figures(lm, test, score.result.sum())
    return figures


def kenlm_figures(lm, test, ours):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.arpa")
        lm.to_arpa(path)
        peer = kenlm_model(path)
    lines = [" ".join(sentence) for sentence in test]
    score = fastest(score=lambda: sum(peer.score(line) for line in lines))["score"]
    n_tokens = sum(map(len, test)) + len(test)
    return {
        "kenlm_test": 10 ** (-score.result / n_tokens),
        "difference_nats": float(score.result * np.log(10) - ours),
        "kenlm_million_tokens_per_second": n_tokens / score.cpu / 1e6,
    }


if __name__ == "__main__":
    main(cases, run, peers=("kenlm",))
