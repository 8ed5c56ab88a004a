"""Tables 1-3 of Jedynak and Karakos (2007) on WikiText-2, word graphs, and speed.

    SKLSTRUCT_DATA=... python benchmarks/bench_unigram.py [--wordnet DIR] [--no-speed]

A closed vocabulary of K = 10^5: the 33 277 types of the text and words that never
occur. Ten training sets of 10^4 and of 10^5 tokens, one of 10^6, consecutive in the
training file; the first 10^5 tokens of the test file are the test set. Numbers are code
lengths in bits a token. The paper used the Penn Treebank; its figures are printed next
to ours. The spread along a word graph is tuned on the first 10^5 tokens of the
validation file. WordNet's files: apt install wordnet-base. Stems: nltk, if installed.
"""

import argparse
import gzip
import os
import sys
import time
from pathlib import Path

import numpy as np
import scipy.sparse as sp
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
SIZES = ((10_000, 10), (100_000, 10), (1_000_000, 1))
SPREADS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
MODELS = {
    "add-1": AdditiveUnigram(),
    "Good-Turing": GoodTuringUnigram(),
    "ND": GraphDiffusionUnigram(),
    "KD": GraphDiffusionUnigram("kernel"),
    "KD, exact": GraphDiffusionUnigram("kernel", n_terms="exact"),
    "discount": AbsoluteDiscountUnigram(),
    "3 discounts": AbsoluteDiscountUnigram("modified"),
}
PAPER = {
    "add-1": (12.94, 11.10, 10.34),
    "Good-Turing": (11.40, 10.68, 10.30),
    "ND": (11.42, 10.69, 10.30),
    "KD": (11.51, 10.74, 10.31),
}


def read(folder, name):
    with gzip.open(Path(folder, f"{name}.txt.gz"), "rt", encoding="utf-8") as file:
        return [word for line in file for word in line.split()]


def bits(counts, proba):
    """Mean code length of a text with these counts."""
    seen = counts > 0
    return -(counts[seen] @ np.log2(proba[seen])) / counts.sum()


def word_graphs(words, wordnet):
    graphs = {}
    try:
        graphs["WordNet"] = wordnet_graph(words, wordnet)
    except FileNotFoundError as exc:
        print(f"no WordNet graph: {exc}")
    try:
        from nltk.stem import PorterStemmer
    except ImportError:
        print("no stem graph: nltk is not installed")
    else:
        stem = PorterStemmer().stem
        graphs["stems"] = group_graph([stem(w) if w.isalpha() else None for w in words])
    if len(graphs) == 2:
        graphs["both"] = graphs["WordNet"] + graphs["stems"]
    return graphs


def tables(folder, wordnet):
    train, valid, test = (read(folder, name) for name in ("train", "valid", "test"))
    types = sorted(set(train))
    words = types + [f"\0{i}" for i in range(K - len(types))]
    code = {w: i for i, w in enumerate(words)}
    train = np.array([code[w] for w in train])
    valid, test = (
        np.bincount([code[w] for w in text[:100_000]], minlength=K)
        for text in (valid, test)
    )
    graphs = word_graphs(words, wordnet)
    for name, graph in graphs.items():
        known = np.count_nonzero(np.diff(graph.indptr))
        print(f"{name} graph: {graph.nnz // 2} edges, {known} words with neighbours")
    for column, (n, sets) in enumerate(SIZES):
        print(f"\n{sets} training sets of {n} tokens        paper")
        length = {name: [] for name in MODELS}
        gain = {name: [] for name in graphs}
        chosen = {name: [] for name in graphs}
        for k in range(sets):
            counts = np.bincount(train[k * n : (k + 1) * n], minlength=K)
            for name, model in MODELS.items():
                length[name].append(bits(test, model.from_counts(counts).proba_))
            for name, graph in graphs.items():
                fits = [
                    GraphSpreadUnigram(graph, spread=s).from_counts(counts).proba_
                    for s in SPREADS
                ]
                best = int(np.argmin([bits(valid, p) for p in fits]))
                chosen[name].append(SPREADS[best])
                gain[name].append(length["Good-Turing"][-1] - bits(test, fits[best]))
        for name, values in length.items():
            paper = f"{PAPER[name][column]:9.2f}" if name in PAPER else ""
            print(f"  {name:<12} {np.mean(values):7.3f} +- {std(values)} {paper}")
        if sets > 1:
            ks = ks_2samp(length["ND"], length["Good-Turing"])
            print(f"  ND against Good-Turing: Kolmogorov-Smirnov p = {ks.pvalue:.2f}")
        for name, values in gain.items():
            print(
                f"  Good-Turing spread along {name}: {np.mean(values):+.3f} bits "
                f"gained, +- {std(values)} by split, spread {np.mean(chosen[name]):.2f}"
            )


def std(values):
    return f"{np.std(values, ddof=1):.3f}" if len(values) > 1 else "  -  "


def speed():
    print("\nfit on counts, seconds, and ratio to np.unique and np.bincount of them")
    rng = np.random.default_rng(0)
    for n_words in (10**6, 10**7):
        counts = np.minimum(rng.zipf(1.6, n_words), 10**7) - 1
        unique = best_of(np.unique, counts)
        bincount = best_of(np.bincount, counts)
        print(f"{n_words} words: unique {unique:.4f}, bincount {bincount:.4f}")
        counts = counts.astype(np.float64)
        for name, model in MODELS.items():
            t = best_of(model.from_counts, counts)
            print(f"  {name:<12} {t:8.4f} {t / unique:7.2f} {t / bincount:7.2f}")
    n_words, n_edges = 10**6, 10**7
    i, j = rng.integers(0, n_words, (2, n_edges))
    graph = sp.csr_array((np.ones(n_edges), (i, j)), shape=(n_words, n_words))
    graph = graph + graph.T
    counts = rng.zipf(1.6, n_words) - 1.0
    product = best_of(graph.__matmul__, counts)
    print(f"sparse graph, {n_edges} edges; one product with it takes {product:.3f} s")
    for model in (
        GraphDiffusionUnigram(graph=graph),
        GraphDiffusionUnigram("kernel", graph=graph),
        GraphDiffusionUnigram("kernel", graph=graph, n_terms="exact"),
    ):
        t = best_of(model.from_counts, counts, repeat=1)
        print(
            f"  {model.method}, n_terms={model.n_terms}: {t:.2f} s, {t / product:.0f} x"
        )


def best_of(function, *args, repeat=5):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function(*args)
        times.append(time.perf_counter() - start)
    return min(times)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--wordnet", default="/usr/share/wordnet")
    parser.add_argument("--no-speed", action="store_true")
    args = parser.parse_args()
    data = os.environ.get("SKLSTRUCT_DATA")
    if not data:
        sys.exit("set SKLSTRUCT_DATA to the folder that holds wikitext-2/")
    tables(Path(data, "wikitext-2"), args.wordnet)
    if not args.no_speed:
        speed()


if __name__ == "__main__":
    main()
