"""Perplexity and number of parameters by order: the papers' figure 2, redone.

    SKLSTRUCT_DATA=... python benchmarks/bench_orders.py [--splits N] [--output DIR]

WikiText-2, 100 K words for training and 20 K for testing, words seen fewer than 3
times mapped to the unknown word, orders 2 to 12. For each penalty lam (and alpha, in
the weighted models) is chosen at order 4 on the 20 K words after the test part of the
first split and then kept for all orders and splits. Perplexities count end marks and
not the unknown word, as in the papers. Writes orders.tsv and orders.png.
"""

import argparse
import csv
import itertools
import time
from pathlib import Path

import numpy as np
from _common import machine, wikitext

from sklstruct import SuffixTreeVectorizer
from sklstruct.context_tree import context_windows
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import StructuredLogLinearLM
from sklstruct.smoothing import KneserNeyLM

ORDERS = range(2, 13)
GRID = {
    "l1": ([0.3, 0.5, 0.7, 1.0, 1.4], [0.5, 0.6, 0.7, 0.8]),
    "l2": ([0.1, 0.2, 0.4, 0.8, 1.6], [0.5, 0.6, 0.7, 0.8]),
    "tree_l2": ([0.35, 0.5, 0.7, 1.0, 1.4], [0.7, 0.8, 0.9, 1.1]),
    "tree_linf": ([0.35, 0.5, 0.7, 1.0, 1.4], [0.7, 0.8, 0.85, 0.9]),
}


def cut(sentences, start, n_words):
    """The sentences from `start` on that hold n_words; and where they end."""
    stop, total = start, 0
    while total < n_words:
        total += len(sentences[stop])
        stop += 1
    return sentences[start:stop], stop


def make_splits(n_splits):
    sentences = wikitext("train")
    position, splits = 0, []
    for _ in range(n_splits):
        train, position = cut(sentences, position, 100_000)
        test, position = cut(sentences, position, 20_000)
        valid, position = cut(sentences, position, 20_000)
        splits.append((train, test, valid))
    return splits


def fit(estimator, train, depth):
    return LanguageModel(estimator, max_depth=depth, min_count=3).fit(train)


def perplexity(lm, test):
    return lm.perplexity(test, include_unknown=False)


def choose(penalty, train, valid):
    """Best lam unweighted, best (lam, alpha) weighted, by validation at order 4."""
    lams, alphas = GRID[penalty]
    scores = {}
    for lam, alpha in itertools.product(lams, [1.0, *alphas]):
        if (lam, alpha) in scores:
            continue
        model = StructuredLogLinearLM(penalty=penalty, lam=lam, alpha=alpha)
        scores[lam, alpha] = perplexity(fit(model, train, 3), valid)
    plain = min((s, k) for k, s in scores.items() if k[1] == 1.0)[1]
    return plain, min((s, k) for k, s in scores.items())[1]


def tree_sizes(train, depth):
    """(trie pairs, collapsed tree pairs) at a depth."""
    w = context_windows(train, depth)
    keep = w.sample_weight > 0
    sizes = []
    for collapse in (False, True):
        vectorizer = SuffixTreeVectorizer(depth, padding=-1, collapse=collapse)
        paths = vectorizer.fit_transform(w.contexts[keep])
        entries = paths.tocoo()
        key = entries.col.astype(np.int64) * w.vocabulary.size
        key += w.targets[keep][entries.row]
        sizes.append(np.unique(key).size)
    return sizes


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--splits", type=int, default=1, help="1 to 4 (papers: 4)")
    parser.add_argument("--output", type=Path, default=Path("benchmarks/output"))
    options = parser.parse_args()
    options.output.mkdir(parents=True, exist_ok=True)
    print(machine())
    splits = make_splits(options.splits)
    models = {"Kneser-Ney": KneserNeyLM(discount="single")}
    models["modified Kneser-Ney"] = KneserNeyLM()
    for penalty in GRID:
        plain, weighted = choose(penalty, splits[0][0], splits[0][2])
        print(
            f"{penalty}: lam {plain[0]}; weighted: lam {weighted[0]}, alpha "
            f"{weighted[1]}",
            flush=True,
        )
        for label, (lam, alpha) in (
            (penalty, plain),
            (f"weighted {penalty}", weighted),
        ):
            models[label] = StructuredLogLinearLM(penalty=penalty, lam=lam, alpha=alpha)
    rows = []
    for order in ORDERS:
        depth = order - 1
        trie, tree = tree_sizes(splits[0][0], depth)
        row = {"order": order, "trie pairs": trie, "tree pairs": tree}
        start = time.perf_counter()
        for name, estimator in models.items():
            scores = [perplexity(fit(estimator, a, depth), b) for a, b, _ in splits]
            row[name] = round(float(np.mean(scores)), 2)
        row["seconds"] = round(time.perf_counter() - start, 1)
        rows.append(row)
        print(row, flush=True)
    with open(options.output / "orders.tsv", "w", newline="") as file:
        writer = csv.DictWriter(file, rows[0], delimiter="\t")
        writer.writeheader()
        writer.writerows(rows)
    plot(rows, list(models), options.output / "orders.png")
    print(f"wrote {options.output / 'orders.tsv'} and orders.png")


def plot(rows, names, path):
    try:
        import matplotlib
    except ImportError:
        raise SystemExit('the plot needs matplotlib: pip install ".[plot]"') from None
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13, 4.8), layout="constrained")
    orders = [r["order"] for r in rows]
    colours = {"l1": "C0", "l2": "C1", "tree_l2": "C2", "tree_linf": "C3"}
    curves = [n for n in names if not n.startswith("weighted ")]
    for axis, weighted in zip(axes, (False, True)):
        for name in curves:
            column = f"weighted {name}" if weighted and name in colours else name
            axis.plot(
                orders,
                [r[column] for r in rows],
                "--" if name == "Kneser-Ney" else "-",
                marker="o",
                markersize=3,
                color=colours.get(name, "0.3"),
                label=name,
            )
        axis.set_title("weighted by depth" if weighted else "unweighted")
        axis.set(xlabel="order (words)", ylabel="test perplexity")
    low = min(a.get_ylim()[0] for a in axes[:2])
    high = max(a.get_ylim()[1] for a in axes[:2])
    for axis in axes[:2]:
        axis.set_ylim(low, high)
        axis.grid(axis="y", alpha=0.3)
    for name, label in (("trie pairs", "trie"), ("tree pairs", "collapsed tree")):
        values = [r[name] / 1e3 for r in rows]
        axes[2].plot(orders, values, marker="o", markersize=3, label=label)
    axes[2].set_title("size of the model")
    axes[2].set(xlabel="order (words)", ylabel="(context, word) pairs, thousands")
    axes[2].set_ylim(bottom=0)
    axes[2].grid(axis="y", alpha=0.3)
    for axis in axes[1:]:
        axis.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=3, frameon=False
        )
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
