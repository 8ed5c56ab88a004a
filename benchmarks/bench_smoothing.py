"""Kneser-Ney on WikiText-2: perplexity, seconds, memory, and KenLM side by side.

    SKLSTRUCT_DATA=... python benchmarks/bench_smoothing.py [--max-depth 4]
        [--n-tokens N] [--no-kenlm]

Lines are sentences, empty lines are dropped, <s> starts a context, </s> is
predicted, <unk> counts like any word: V = 33 278 classes. Times are wall clock in one
process, one thread. KenLM's estimator is not on PyPI, its query engine is: it reads the
ARPA file that the model is exported to and scores the same test text.
"""

import argparse
import gzip
import os
import resource
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from sklstruct.context_tree import ContextTree, context_windows
from sklstruct.context_tree._tree import Histories
from sklstruct.exchange import write
from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    KneserNeyLM,
)

MODELS = {
    "single": {"discount": "single"},
    "modified": {"discount": "modified"},
    "single, back-off": {"discount": "single", "interpolate": False},
    "modified, back-off": {"discount": "modified", "interpolate": False},
    # Other unigrams; they matter more with little text (--n-tokens 100000).
    "base: discounted": {"base": AbsoluteDiscountUnigram()},
    "base: diffusion": {"base": GraphDiffusionUnigram(floor=1e-6)},
    "base: kernel": {"base": GraphDiffusionUnigram("kernel", floor=1e-6)},
    "base: Good-Turing": {"base": GoodTuringUnigram(gaps="smooth")},
}


def read(folder, name):
    with gzip.open(Path(folder, f"{name}.txt.gz"), "rt", encoding="utf-8") as file:
        return [line.split() for line in file if line.strip()]


def windows_of(sentences, max_depth, vocabulary):
    """Contexts and targets of sentences, as ids of a given vocabulary."""
    w = context_windows(sentences, max_depth)
    code = {s: i for i, s in enumerate(vocabulary.tolist())}
    ids = np.array([code[s] for s in w.vocabulary.tolist()] + [-1])
    keep = w.sample_weight > 0
    return ids[w.contexts[keep]], ids[w.targets[keep]]


def peak_rss():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--max-depth", type=int, default=4)
    parser.add_argument("--n-tokens", type=int, help="train on the first N tokens")
    parser.add_argument("--no-kenlm", action="store_true")
    args = parser.parse_args()
    data = os.environ.get("SKLSTRUCT_DATA")
    if not data:
        sys.exit("set SKLSTRUCT_DATA to the folder that holds wikitext-2/")
    folder = Path(data, "wikitext-2")
    train, test = read(folder, "train"), read(folder, "test")

    w = context_windows(train, args.max_depth)
    X, y = windows_of(test, args.max_depth, w.vocabulary)
    keep = w.sample_weight > 0
    classes = np.unique(w.targets[keep])  # of the whole file, also with --n-tokens
    if args.n_tokens:
        keep[np.flatnonzero(keep)[args.n_tokens :]] = False
    start = time.perf_counter()
    histories = Histories.from_windows(w.contexts, args.max_depth).select(keep)
    tree, terminal = ContextTree.from_histories(histories, w.vocabulary.size)
    tree.count_pairs(terminal, w.targets[keep], w.vocabulary.size)
    tree_time = time.perf_counter() - start
    row = np.random.default_rng(0).random(tree.n_pairs)
    exp_time = min(_timed(np.exp, row) for _ in range(3))
    print(f"{keep.sum()} training samples, {y.size} test targets, max_depth=", end="")
    print(f"{args.max_depth}: {tree.n_nodes} contexts, {tree.n_pairs} pairs")
    print(f"context tree alone {tree_time:.2f} s, np.exp(pairs) {exp_time:.3f} s")
    print(f"peak memory before any fit {peak_rss():.2f} GB\n")
    del tree, terminal, histories, row

    print("discount             perplexity  fit s  beyond tree s  score tokens/s")
    models = {}
    for name, params in MODELS.items():
        model = KneserNeyLM(padding=-1, classes=classes, **params)
        seconds = _timed(model.fit, w.contexts, w.targets, keep.astype(float))
        begin = time.perf_counter()
        log_proba = model.target_log_proba(X, y)
        speed = y.size / (time.perf_counter() - begin)
        ppl = np.exp(-log_proba.mean())
        print(
            f"{name:<20} {ppl:>10.2f} {seconds:>6.2f} {seconds - tree_time:>14.2f} "
            f"{speed:>15.0f}"
        )
        models[name] = model if name == "modified" else None
    print(f"peak memory {peak_rss():.2f} GB")
    if not args.no_kenlm:
        compare_kenlm(train, test, args.max_depth, X, y, models["modified"], w)


def compare_kenlm(train, test, max_depth, X, y, model, w):
    import kenlm

    words = w.vocabulary
    ours = model.backoff_model_
    named = type(ours).from_tree(
        ours,
        ours.log_prob,
        ours.log_backoff,
        classes=words[model.classes_],
        symbols=words[model.categories_],
        start="<s>",
        end="</s>",
        unknown="<unk>",
    )
    with tempfile.TemporaryDirectory() as tmp:
        path = Path(tmp, "model.arpa")
        print(f"\nARPA written in {_timed(write, named, path):.1f} s")
        peer = kenlm.Model(str(path))
    lines = [" ".join(s) for s in test]
    nodes_targets = (X, y)
    mine = min(_timed(model.target_log_proba, *nodes_targets) for _ in range(3))
    begin = time.perf_counter()
    total = sum(peer.score(line) for line in lines)
    theirs = time.perf_counter() - begin
    gap = total * np.log(10) - model.target_log_proba(X, y).sum()
    print(
        f"kenlm on it: perplexity {10 ** (-total / y.size):.2f} (total log-likelihood"
    )
    print(f"{total * np.log(10):.0f} nats, {gap:+.2g} against ours)")
    print(
        f"scoring {y.size} tokens: here {mine:.3f} s, kenlm's Python module "
        f"{theirs:.3f} s, ratio {mine / theirs:.2f}"
    )


def _timed(function, *args):
    begin = time.perf_counter()
    function(*args)
    return time.perf_counter() - begin


if __name__ == "__main__":
    main()
