"""N-gram smoothers on WikiText-2: perplexity, seconds, memory; KenLM on the same model.

    SKLSTRUCT_DATA=... python benchmarks/bench_smoothing.py [--peer] [--case single]

Order 5. `fit_seconds` is a fit from sentences. Other unigrams at the root matter more
with little text: the cases of 100 000 words, which share the vocabulary of the whole
file. KenLM's estimator is not on PyPI, its query engine is: it reads the ARPA file that
the model is exported to and scores the same test text. The cases "tuned" and "held out"
choose their discounts and weights on the validation file, "deleted" and "by block" on
the training text; nothing else is chosen. Other orders are in `bench_wikitext.py`.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
from _common import fastest, first_words, kenlm_model, main, options, timed, wikitext
from sklearn.base import clone

from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import (
    AbsoluteDiscountLM,
    AbsoluteDiscountUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    JelinekMercerLM,
    KatzLM,
    KneserNeyLM,
    WittenBellLM,
)

DEPTH = 4

VARIANTS = {
    "single": KneserNeyLM(discount="single"),
    "modified": KneserNeyLM(),
    "tuned": KneserNeyLM(discount="tuned"),
    "by block": KneserNeyLM(discount="by_block"),
    "single, back-off": KneserNeyLM(discount="single", interpolate=False),
    "modified, back-off": KneserNeyLM(interpolate=False),
    "absolute": AbsoluteDiscountLM(),
    "absolute, modified": AbsoluteDiscountLM(discount="modified"),
    "absolute, tuned": AbsoluteDiscountLM(discount="tuned"),
    "absolute, by block": AbsoluteDiscountLM(discount="by_block"),
    "absolute, back-off": AbsoluteDiscountLM(interpolate=False),
    "Katz": KatzLM(),
    "Jelinek-Mercer, deleted": JelinekMercerLM(),
    "Jelinek-Mercer, held out": JelinekMercerLM(weight="held_out"),
    "Jelinek-Mercer, held out, by depth": JelinekMercerLM(
        weight="held_out", bucket="depth"
    ),
    "Witten-Bell": WittenBellLM(),
    "Witten-Bell, deleted": WittenBellLM(strength="deleted"),
    "Witten-Bell, back-off": WittenBellLM(interpolate=False),
}
HELD_OUT = ("tuned", "held out")
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
    smoother = clone(VARIANTS[case["variant"]])
    if case["base"] != "none":
        smoother.set_params(base=BASES[case["base"]])
    choose = {}
    if any(word in case["variant"] for word in HELD_OUT):
        choose["X_val"] = wikitext("valid")
    # closed: without the vocabulary of the whole file its other words were unknown
    known = None if n_words == "all" else sorted({w for s in whole for w in s})
    lm = LanguageModel(smoother, max_depth=DEPTH, vocabulary=known)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # discounts of little text
        fit = timed(lm.fit, train, **choose)
    score = fastest(score=lambda: lm.score_samples(test))["score"]
    n_tokens = sum(map(len, test)) + len(test)
    figures = {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(test),
        "fit_seconds": fit.cpu,
        "million_tokens_per_second": n_tokens / score.cpu / 1e6,
    }
    if "kenlm" in options.peers:
        figures |= kenlm_figures(lm, test, score.result.sum())
    return figures


def kenlm_figures(lm, test, ours):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.arpa")
        lm.save(path)
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
