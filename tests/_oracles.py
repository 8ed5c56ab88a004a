"""Shared by the tests: random data, and readable twins of the definitions.

A twin is written for reading, in plain Python or dense numpy, and knows nothing of the
package's internals; a test compares the two.
"""

import gzip
import os
from bisect import bisect
from pathlib import Path

import numpy as np
from sklearn import get_config

# ------------------------------------------------------------------------ data

DATA = os.environ.get("SKLSTRUCT_DATA")


def wikitext(split):
    """Sentences (lists of words) of WikiText-2, from the folder SKLSTRUCT_DATA."""
    path = Path(DATA, "wikitext-2", f"{split}.txt.gz")
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [line.split() for line in file if line.strip()]


def sparse_settings():
    """Settings for each kind of sparse results, which scikit-learn has from 1.9 on."""
    if "sparse_interface" in get_config():
        return [{"sparse_interface": kind} for kind in ("sparray", "spmatrix")]
    return [{}]


def toy(seed=0, n=200):
    """Windows of three of four symbols, and five classes that follow the newest."""
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, 3))
    y = np.where(rng.random(n) < 0.7, X[:, -1], rng.integers(0, 5, size=n))
    return X, np.array(["v", "w", "x", "y", "z"])[y]


def random_corpus(seed, n_symbols, n_samples, width):
    """Windows of a random text in sentences, -1 = missing history; targets."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_symbols, 0.4), size=n_symbols)
    text, x = [], 0
    for _ in range(n_samples):
        x = rng.choice(n_symbols, p=p[x])
        text.append(x)
    X = np.full((n_samples, width), -1)
    start = 0
    for i in range(n_samples):
        if i and rng.random() < 0.15:
            start = i
        for k in range(1, width + 1):
            if i - k >= start:
                X[i, width - k] = text[i - k]
    return X, np.array(text)


def running_shares(p):
    """Lists for `bisect`: a number from [0, 1) is at k with probability p[..., k]."""
    total = np.cumsum(p, axis=-1)
    return (total / total[..., -1:]).tolist()


def second_order_text(n, n_words, spread, seed=0):
    """Windows of two words and the next, which two words leave few choices."""
    rng = np.random.RandomState(seed)
    follows = rng.dirichlet(np.full(n_words, spread), size=(n_words, n_words))
    share = running_shares(follows)
    words = [0, 1]
    for x in rng.random_sample(n).tolist():
        words.append(bisect(share[words[-2]][words[-1]], x))
    words = np.array(words)
    windows = np.lib.stride_tricks.sliding_window_view(words, 2)[:-1]
    return windows.copy(), words[2:]


def histories(X):
    """The symbols after the last -1 of each row, as tuples."""
    out = []
    for row in X.tolist():
        first = max((i + 1 for i, s in enumerate(row) if s < 0), default=0)
        out.append(tuple(row[first:]))
    return out


def pairs_below_the_root(backoff):
    """{(context, class id)} of a model, contexts as tuples of symbols."""
    contexts = [tuple(backoff.labels.symbols[c]) for c in backoff.tree.contexts()]
    return {
        (contexts[n], int(z))
        for n, z in zip(backoff.pairs.nodes(), backoff.pairs.target)
        if n > 0
    }


def random_forest(n, rng, roots=0.2, width=None):
    """parent < child; `width` bounds child - parent (deep trees), None is shallow."""
    low = np.zeros(n, int) if width is None else np.maximum(np.arange(n) - width, 0)
    parents = rng.integers(low, np.maximum(np.arange(n), 1))
    parents[rng.random(n) < roots] = -1
    parents[:1] = -1
    return parents


def below(parents):
    """Boolean (group, node): the node lies in the subtree of the group's node."""
    member = np.eye(len(parents), dtype=bool)
    for i, p in enumerate(parents):
        while p >= 0:
            member[p, i] = True
            p = parents[p]
    return member


def random_blocks(n_classes, rng, max_branch=4, leaf_size=3):
    """Random nested lists over the numbers of the classes, in a random order."""
    labels = rng.permutation(n_classes).tolist()
    blocks = []
    while labels:
        m = int(rng.integers(1, leaf_size + 1))
        blocks.append(labels[:m])
        labels = labels[m:]
    while len(blocks) > 1:
        rng.shuffle(blocks)
        m = int(rng.integers(2, max_branch + 1))
        blocks = [blocks[:m] if len(blocks[:m]) > 1 else blocks[0], *blocks[m:]]
    return blocks[0]


# ---------------------------------------------------------------------- models


def make_model(
    parent,
    symbol,
    ptr,
    target,
    log_prob,
    log_backoff,
    *,
    n_symbols=None,
    classes=None,
    symbols=None,
    **marks,
):
    """A BackoffModel from plain arrays; without labels classes are ids."""
    from sklstruct.backoff import BackoffModel
    from sklstruct.context_tree import ContextTree, Pairs
    from sklstruct.symbols import Labels

    if symbols is not None and n_symbols is None:
        n_symbols = len(symbols)
    pairs = Pairs(ContextTree(parent, symbol, n_symbols), ptr, target)
    labels = None
    if classes is not None or symbols is not None or marks:
        classes = np.arange(pairs.n_classes) if classes is None else classes
        labels = Labels(classes, symbols, **marks)
    return BackoffModel(pairs, log_prob, log_backoff, labels)


# ---------------------------------------------------------------- word classes


def following_text(
    seed, n_words=8, n_sentences=60, *, spread=0.5, shortest=1, longest=8
):
    """Sentences of words that follow one another with shares drawn at random."""
    rng = np.random.default_rng(seed)
    follow = rng.dirichlet(np.full(n_words, spread), size=n_words)
    text = []
    for _ in range(n_sentences):
        word, sentence = rng.integers(n_words), []
        for _ in range(rng.integers(shortest, longest + 1)):
            sentence.append(f"w{word}")
            word = rng.choice(n_words, p=follow[word])
        text.append(sentence)
    return text


def word_neighbours(text, offsets):
    """word -> Counter of (offset, neighbour); None is what is outside a sentence."""
    counts = {}
    for s in text:
        for i, word in enumerate(s):
            for k in offsets:
                if i + k > len(s):
                    continue  # farther than the end, which is one feature
                inside = 0 <= i + k < len(s)
                feature = (k, s[i + k] if inside else None)
                table = counts.setdefault(word, {})
                table[feature] = table.get(feature, 0) + 1
    return counts


def class_log_likelihood(counts, class_of):
    """The definition: every neighbour given the class of its word."""
    table, total = {}, {}
    for word, features in counts.items():
        c = class_of[word]
        for f, n in features.items():
            table[c, f] = table.get((c, f), 0) + n
            total[c] = total.get(c, 0) + n
    return sum(
        n * np.log(table[class_of[w], f] / total[class_of[w]])
        for w, features in counts.items()
        for f, n in features.items()
    )


# ------------------------------------------------------------------- sampling


def check_draws(model, window, skip, seed, n=40_000):
    """Draws follow the row, also without one class (-1: with all)."""
    uniform = np.random.RandomState(seed).random_sample(n)
    at = model.locate(np.tile(window, (n, 1)))
    drawn = model.distribution_.draw(at, uniform, skip)
    proba = model.predict_proba(window[None])[0]
    if skip >= 0:
        proba[skip] = 0.0
        proba /= proba.sum()
    share = np.bincount(drawn, minlength=proba.size) / n
    assert (np.abs(share - proba) < 5 * np.sqrt(proba * (1 - proba) / n) + 1e-9).all()


def cut_to_frequent(made, weight, least):
    """Windows whose rows end before the first context of less weight."""
    total = {}
    for row, here in zip(made.tolist(), weight.tolist()):
        for k in range(1, len(row) + 1):
            context = tuple(row[-k:])
            total[context] = total.get(context, 0.0) + here
    cut = np.full_like(made, -1)
    for out, row in zip(cut, made.tolist()):
        for k in range(1, len(row) + 1):
            if -1 in row[-k:] or total[tuple(row[-k:])] < least:
                break
            out[-k] = row[-k]
    return cut
