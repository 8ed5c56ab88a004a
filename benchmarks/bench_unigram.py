"""Unigram smoothers: tables 1-3 of Jedynak and Karakos (2007), word graphs, and speed.

    SKLSTRUCT_DATA=... python benchmarks/bench_unigram.py [--case "wikitext-2 *" ...]

With ``--same-process`` the texts are read once.

A closed vocabulary of K = 10^5: the types of the text and words that never occur.
Training sets of 10^4 and of 10^5 tokens (ten of each) and one of 10^6, consecutive, and
a test set of 10^5 tokens. `bits` is the mean code length of a test token, `std` its
standard deviation over the training sets, `ks_p` the p-value of the two-sample
Kolmogorov-Smirnov test of the code lengths against those of Good-Turing, as in the
paper. The paper used the Penn Treebank; its figures stand beside ours.

The text is WikiText-2: its training and its test file. The share of the unseen mass
that goes along a word graph is tuned on up to 10^5 tokens of the validation file.
Graphs: "WordNet" reads the folder WORDNET, /usr/share/wordnet by default (Debian,
Ubuntu: apt install wordnet-base); "stems" ties words with one stem (Porter's, in nltk).

The speed cases compare a fit on the counts of many words with `np.unique` of them.
"""

from __future__ import annotations

import functools
import os

import numpy as np
import scipy.sparse as sp
from _common import fastest, main, wikitext
from _wordnet import wordnet_graph
from scipy.stats import ks_2samp

from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
    group_graph,
)

K = 100_000
SIZES = {10_000: 10, 100_000: 10, 1_000_000: 1}
SPREADS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
SMOOTHERS = {
    "add one": AdditiveUnigram(),
    "Good-Turing": GoodTuringUnigram(),
    "ND": GraphDiffusionUnigram(),
    "ND 2 steps": GraphDiffusionUnigram(n_steps=2),
    "ND 3 steps": GraphDiffusionUnigram(n_steps=3),
    "KD": GraphDiffusionUnigram("kernel"),
    "KD exact": GraphDiffusionUnigram("kernel", n_terms="exact"),
    "one discount": AbsoluteDiscountUnigram(),
    "three discounts": AbsoluteDiscountUnigram("modified"),
}
GRAPHS = ("WordNet", "stems", "both")
# Mean and standard deviation on the Penn Treebank, tables 1-3 of the paper.
PAPER = {
    "add one": ((12.94, 0.05), (11.10, 0.03), (10.34, None)),
    "Good-Turing": ((11.40, 0.08), (10.68, 0.06), (10.30, None)),
    "ND": ((11.42, 0.08), (10.69, 0.06), (10.30, None)),
    "KD": ((11.51, 0.08), (10.74, 0.08), (10.31, None)),
}
# Of Kolmogorov-Smirnov tests of ND against Good-Turing.
PAPER_P = {10_000: 0.65, 100_000: 0.95}


def cases():
    found = []
    for n_tokens in SIZES:
        for smoother in (*SMOOTHERS, *(f"Good-Turing + {g}" for g in GRAPHS)):
            case = {"text": "wikitext-2", "tokens": n_tokens, "smoother": smoother}
            found.append(case)
    for n_words in (10**6, 10**7):
        found += [{"words": n_words, "smoother": smoother} for smoother in SMOOTHERS]
    found += [{"edges": 10**7, "diffusion": name} for name in ("ND", "KD", "KD exact")]
    return found


def run(case):
    if "text" in case:
        return code_lengths(case["tokens"], case["smoother"])
    if "words" in case:
        return speed(case["words"], SMOOTHERS[case["smoother"]])
    return graph_speed(case["edges"], SMOOTHERS[case["diffusion"]])


# -------------------------------------------------------------------- code lengths


@functools.cache
def read():
    """(words, ids of training tokens, counts of tuning and of test tokens)."""
    train, valid, test = (
        [word for sentence in wikitext(split) for word in sentence]
        for split in ("train", "valid", "test")
    )
    types = sorted(set(train))
    words = types + [f"\0{i}" for i in range(K - len(types))]
    code = {w: i for i, w in enumerate(words)}
    valid, test = (
        np.bincount([code[w] for w in part[:100_000]], minlength=K)
        for part in (valid, test)
    )
    return words, np.array([code[w] for w in train]), valid, test


@functools.cache
def word_graph(name):
    words = read()[0]
    if name == "WordNet":
        return wordnet_graph(words, os.environ.get("WORDNET", "/usr/share/wordnet"))
    if name == "stems":
        from nltk.stem import PorterStemmer

        stem = PorterStemmer().stem
        return group_graph([stem(w) if w.isalpha() else None for w in words])
    return word_graph("WordNet") + word_graph("stems")


def bits(counts, proba):
    """Mean code length of a text with these counts."""
    seen = counts > 0
    return -(counts[seen] @ np.log2(proba[seen])) / counts.sum()


def code_lengths(n_tokens, smoother):
    _, train, valid, test = read()
    base = SMOOTHERS["Good-Turing"]
    lengths, of_base, spreads = [], [], []
    for k in range(SIZES[n_tokens]):
        counts = np.bincount(train[k * n_tokens : (k + 1) * n_tokens], minlength=K)
        of_base.append(bits(test, base.from_counts(counts).proba_))
        if smoother in SMOOTHERS:
            proba = SMOOTHERS[smoother].from_counts(counts).proba_
        else:
            graph = word_graph(smoother.removeprefix("Good-Turing + "))
            fits = [
                GraphSpreadUnigram(graph, spread=s).from_counts(counts).proba_
                for s in SPREADS
            ]
            best = int(np.argmin([bits(valid, p) for p in fits]))
            spreads.append(SPREADS[best])
            proba = fits[best]
        lengths.append(bits(test, proba))
    several = len(lengths) > 1
    size = list(SIZES).index(n_tokens)
    paper, paper_std = PAPER.get(smoother, [(None, None)] * 3)[size]
    gains = np.subtract(of_base, lengths)
    return {
        "bits": np.mean(lengths),
        "std": np.std(lengths, ddof=1) if several else None,
        "ks_p": ks_2samp(lengths, of_base).pvalue if several else None,
        "gain": np.mean(gains),
        "gain_std": np.std(gains, ddof=1) if several else None,
        "spread": np.mean(spreads) if spreads else None,
        "paper": paper,
        "paper_std": paper_std,
        "paper_ks_p": PAPER_P.get(n_tokens) if smoother == "ND" else None,
    }


# --------------------------------------------------------------------------- speed


def speed(n_words, smoother):
    counts = np.minimum(np.random.default_rng(0).zipf(1.6, n_words), 10**7) - 1
    real = counts.astype(np.float64)
    times = fastest(
        fit=lambda: smoother.from_counts(real),
        unique=lambda: np.unique(counts),
        bincount=lambda: np.bincount(counts),
    )
    fit = times["fit"].cpu
    return {
        "seconds": fit,
        "to_unique": fit / times["unique"].cpu,
        "to_bincount": fit / times["bincount"].cpu,
    }


def graph_speed(n_edges, smoother):
    n_words = n_edges // 10
    rng = np.random.default_rng(0)
    i, j = rng.integers(0, n_words, (2, n_edges))
    graph = sp.csr_array((np.ones(n_edges), (i, j)), shape=(n_words, n_words))
    graph = graph + graph.T
    counts = rng.zipf(1.6, n_words) - 1.0
    smoother = smoother.set_params(graph=graph)
    times = fastest(
        repeats=2,
        fit=lambda: smoother.from_counts(counts),
        product=lambda: graph @ counts,
    )
    fit = times["fit"].cpu
    return {"seconds": fit, "to_product": fit / times["product"].cpu}


if __name__ == "__main__":
    main(cases, run)
