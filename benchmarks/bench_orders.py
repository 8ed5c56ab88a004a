"""Perplexity and number of parameters by order, penalty by penalty.

    SKLSTRUCT_DATA=... python benchmarks/bench_orders.py [--case tree_l2] [--quick]

The design of figure 2 of Nelakanti et al. (2013) on another text: WikiText-2, 100 000
words for training and 20 000 for testing, words seen fewer than 3 times mapped to the
unknown word, orders 2 to 12. Perplexities count end marks and leave the unknown word
out. `choose`: the grid of lam, and of lam and alpha in the models weighted by depth, at
order 4 on the 20 000 words after the first split's test part; `CHOSEN` holds its best,
kept for all orders and splits. `orders`: means over four splits (one with --quick).
`sizes`: pairs of the trie and of the collapsed tree.
"""

from __future__ import annotations

import itertools

import numpy as np
from _common import main, options, wikitext

from sklstruct import KneserNeyLM, StructuredLogLinearLM, SuffixTreeVectorizer
from sklstruct.language_model import LanguageModel
from sklstruct.symbols import context_windows

ORDERS = range(2, 13)
N_SPLITS = 4
GRID = {
    "l1": ([0.3, 0.5, 0.7, 1.0, 1.4, 2.0], [0.5, 0.6, 0.7, 0.8]),
    "l2": ([0.1, 0.2, 0.4, 0.8, 1.6], [0.5, 0.6, 0.7, 0.8]),
    "tree_l2": ([0.35, 0.5, 0.7, 1.0, 1.4], [0.7, 0.8, 0.9, 1.1]),
    "tree_linf": ([0.35, 0.5, 0.7, 1.0, 1.4], [0.7, 0.8, 0.85, 0.9]),
}
# penalty -> lam; (lam, alpha) weighted by depth: the best of the cases `choose`
CHOSEN = {
    "l1": (1.4, (0.5, 0.6)),
    "l2": (0.8, (0.2, 0.7)),
    "tree_l2": (0.7, (0.5, 0.8)),
    "tree_linf": (0.7, (0.7, 0.9)),
}


def estimators():
    """name -> estimator of the cases `orders`."""
    out = {
        "Kneser-Ney": KneserNeyLM(discount="single"),
        "modified Kneser-Ney": KneserNeyLM(),
    }
    for penalty, (lam, weighted) in CHOSEN.items():
        out[penalty] = StructuredLogLinearLM(penalty=penalty, lam=lam, alpha=1.0)
        out[f"weighted {penalty}"] = StructuredLogLinearLM(
            penalty=penalty, lam=weighted[0], alpha=weighted[1]
        )
    return out


def cases():
    out = [
        {"section": "orders", "model": name, "order": order}
        | ({"slow": True} if order not in (3, 5) else {})
        for name in estimators()
        for order in ORDERS
    ]
    out += [
        {"section": "sizes", "order": order} | ({"slow": True} if order > 6 else {})
        for order in ORDERS
    ]
    out += [
        {
            "section": "choose",
            "penalty": penalty,
            "lam": lam,
            "alpha": alpha,
            "slow": True,
        }
        for penalty, (lams, alphas) in GRID.items()
        for lam, alpha in itertools.product(lams, [1.0, *alphas])
    ]
    return out


def cut(sentences, start, n_words):
    """The sentences from `start` on that hold n_words; and where they end."""
    stop, total = start, 0
    while total < n_words:
        total += len(sentences[stop])
        stop += 1
    return sentences[start:stop], stop


def splits(n_splits):
    """(training, test, validation) sentences, one split after the other."""
    sentences, position = wikitext("train"), 0
    for _ in range(n_splits):
        train, position = cut(sentences, position, 100_000)
        test, position = cut(sentences, position, 20_000)
        valid, position = cut(sentences, position, 20_000)
        yield train, test, valid


def perplexity(estimator, order, train, test):
    lm = LanguageModel(estimator, max_depth=order - 1, min_count=3).fit(train)
    return lm.perplexity(test, include_unknown=False)


def sizes(train, depth):
    """(pairs of the trie, pairs of the collapsed tree) at a depth."""
    w = context_windows(train, depth)
    keep = w.sample_weight > 0
    for collapse in (False, True):
        vectorizer = SuffixTreeVectorizer(depth, padding=-1, collapse=collapse)
        paths = vectorizer.fit_transform(w.contexts[keep]).tocoo()
        key = paths.col.astype(np.int64) * w.vocabulary.size
        key += w.targets[keep][paths.row]
        yield np.unique(key).size


def run(case):
    if case["section"] == "sizes":
        train = next(splits(1))[0]
        trie, tree = sizes(train, case["order"] - 1)
        return {"trie_pairs": trie, "tree_pairs": tree}
    if case["section"] == "choose":
        train, _, valid = next(splits(1))
        model = StructuredLogLinearLM(
            penalty=case["penalty"], lam=case["lam"], alpha=case["alpha"]
        )
        return {"validation": perplexity(model, 4, train, valid)}
    model = estimators()[case["model"]]
    found = [
        perplexity(model, case["order"], train, test)
        for train, test, _ in splits(1 if options.quick else N_SPLITS)
    ]
    return {"test": np.mean(found), "deviation": np.std(found), "splits": len(found)}


if __name__ == "__main__":
    main(cases, run)
