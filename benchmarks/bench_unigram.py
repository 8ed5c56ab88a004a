"""Unigram smoothers: tables 1-3 of Jedynak and Karakos (2007), word graphs, and speed.

    SKLSTRUCT_DATA=... python benchmarks/bench_unigram.py [--case "brown *" ...]

With ``--same-process`` the texts are read once.

A closed vocabulary of K = 10^5: the types of the text and words that never occur.
Training sets of 10^4 and of 10^5 tokens (ten of each) and one of 10^6, consecutive, and
a test set of 10^5 tokens. `bits` is the mean code length of a test token, `std` its
standard deviation over the training sets, `ks_p` the p-value of the two-sample
Kolmogorov-Smirnov test of the code lengths against those of Good-Turing, as in the
paper. The paper used the Penn Treebank; its figures stand beside ours, and so do those
that an independent program gave on the Brown corpus.

Texts: "wikitext-2" (training and test file; validation file for tuning); "brown", from
nltk (``nltk.download("brown")``, or its folder in NLTK_DATA), in lower case and with
its files in random order: the first 10^6 tokens train, the next 10^5 test, the rest
tunes. The share of the unseen mass that goes along a word graph is tuned on other
tokens, up to 10^5. Graphs: "WordNet" reads the folder WORDNET, /usr/share/wordnet by
default (Debian, Ubuntu: apt install wordnet-base); "stems" ties words with one stem
(Porter's, in nltk).

The speed cases compare a fit on the counts of many words with `np.unique` of them.
"""

from __future__ import annotations

import functools
import os

import numpy as np
import scipy.sparse as sp
from _common import fastest, main, wikitext
from scipy.stats import ks_2samp

from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
    group_graph,
    wordnet_graph,
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
# Means of another implementation on the Brown corpus.
REFERENCE = {
    "add one": (12.75, 10.94, 10.30),
    "Good-Turing": (11.23, 10.52, 10.28),
    "ND": (11.24, 10.53, 10.29),
    "KD": (11.34, 10.57, 10.31),
    "one discount": (11.22, 10.51, 10.28),
    "Good-Turing + WordNet": (11.10, 10.51, 10.28),
}


def cases():
    found = []
    for text in ("wikitext-2", "brown"):
        for n_tokens in SIZES:
            for smoother in (*SMOOTHERS, *(f"Good-Turing + {g}" for g in GRAPHS)):
                case = {"text": text, "tokens": n_tokens, "smoother": smoother}
                found.append(case | ({"slow": True} if text == "brown" else {}))
    for n_words in (10**6, 10**7):
        found += [{"words": n_words, "smoother": smoother} for smoother in SMOOTHERS]
    found += [{"edges": 10**7, "diffusion": name} for name in ("ND", "KD", "KD exact")]
    return found


def run(case):
    if "text" in case:
        return code_lengths(case["text"], case["tokens"], case["smoother"])
    if "words" in case:
        return speed(case["words"], SMOOTHERS[case["smoother"]])
    return graph_speed(case["edges"], SMOOTHERS[case["diffusion"]])


# -------------------------------------------------------------------- code lengths


@functools.cache
def read(text):
    """(words, ids of training tokens, counts of tuning and of test tokens)."""
    if text == "brown":
        from nltk.corpus import brown

        # Its files go from genre to genre: in random order, training is like test.
        order = np.random.default_rng(0).permutation(len(brown.fileids()))
        files = [brown.fileids()[i] for i in order]
        tokens = [word.lower() for file in files for word in brown.words(file)]
        train, test = tokens[: 10**6], tokens[10**6 : 11 * 10**5]
        valid = tokens[11 * 10**5 :]
        types = sorted(set(tokens))
    else:
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
def word_graph(text, name):
    words = read(text)[0]
    if name == "WordNet":
        return wordnet_graph(words, os.environ.get("WORDNET", "/usr/share/wordnet"))
    if name == "stems":
        from nltk.stem import PorterStemmer

        stem = PorterStemmer().stem
        return group_graph([stem(w) if w.isalpha() else None for w in words])
    return word_graph(text, "WordNet") + word_graph(text, "stems")


def bits(counts, proba):
    """Mean code length of a text with these counts."""
    seen = counts > 0
    return -(counts[seen] @ np.log2(proba[seen])) / counts.sum()


def code_lengths(text, n_tokens, smoother):
    _, train, valid, test = read(text)
    base = SMOOTHERS["Good-Turing"]
    lengths, of_base, spreads = [], [], []
    for k in range(SIZES[n_tokens]):
        counts = np.bincount(train[k * n_tokens : (k + 1) * n_tokens], minlength=K)
        of_base.append(bits(test, base.from_counts(counts).proba_))
        if smoother in SMOOTHERS:
            proba = SMOOTHERS[smoother].from_counts(counts).proba_
        else:
            graph = word_graph(text, smoother.removeprefix("Good-Turing + "))
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
    reference = REFERENCE[smoother][size] if smoother in REFERENCE else None
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
        "reference": reference if text == "brown" else None,
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
