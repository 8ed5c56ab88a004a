"""Speed of BackoffModel next to KenLM's Python module, on the same ARPA file.

    python benchmarks/bench_backoff.py [--order 5] [--repeats 5] [--tokens 500000]

Text: WikiText-2 if the environment variable SKLSTRUCT_DATA names a folder with
``wikitext-2/{train,test}.txt.gz``, else a synthetic text of --tokens tokens. The
model is interpolated absolute discounting, estimated here with numpy. Every time is
the least of --repeats runs on one thread; ratios are ours to KenLM's.
"""

import argparse
import gzip
import os
import sys
import tempfile
import time

import numpy as np

from sklstruct import exchange
from sklstruct.backoff import BackoffModel


def sentences(args):
    """(train, test) lists of lists of words."""
    folder = os.environ.get("SKLSTRUCT_DATA")
    if folder:
        out = []
        for part in ("train", "test"):
            path = os.path.join(folder, "wikitext-2", f"{part}.txt.gz")
            with gzip.open(path, "rt", encoding="utf-8") as file:
                out.append([s for line in file if (s := line.split())])
        return out
    print("SKLSTRUCT_DATA is not set: synthetic text")
    rng = np.random.RandomState(0)
    # A word depends on the one before: enough structure for a deep tree.
    jump = rng.zipf(1.3, size=args.tokens) % 20_000
    words = np.empty(args.tokens, dtype=np.int64)
    last = 0
    for i, j in enumerate(jump):
        last = words[i] = (7 * last + j) % 20_000 if j > 3 else j
    text = [
        [f"w{w}" for w in line] for line in np.array_split(words, args.tokens // 25)
    ]
    cut = 9 * len(text) // 10
    return text[:cut], text[cut:]


def encode(text, index, n_classes):
    """Flat token ids: start mark, words, end mark; unknown words are <unk>."""
    unknown, start, end = index["<unk>"], n_classes - 1, n_classes
    flat = []
    for sentence in text:
        flat.append(start)
        flat.extend(index.get(w, unknown) for w in sentence)
        flat.append(end)
    return np.array(flat, dtype=np.int32)


def estimate(text, order, discount=0.75):
    """Absolute discounting over all contexts of the text, level by level."""
    words = sorted({w for s in text for w in s} | {"<unk>"})
    index = {w: i for i, w in enumerate(words)}
    n_words = len(words)
    # Symbols: the words and, as number n_words, the start mark. Classes: the words
    # and, as number n_words, the end mark. As a token the end mark is n_words + 1.
    V = n_words + 1
    tokens = encode(text, index, V)
    at = np.flatnonzero(tokens != n_words)
    y = np.where(tokens[at] == V, n_words, tokens[at]).astype(np.int64)
    count = np.bincount(y, minlength=V)
    seen = np.count_nonzero(count)
    prob = np.maximum(count - discount, 0) / count.sum()
    prob += discount * seen / count.sum() / V
    parent, symbol, level_ptr = [np.array([-1])], [np.array([-1])], [0, 1]
    bow, probs, targets = [np.ones(1)], [prob], [np.arange(V)]
    per_node, keys = [np.array([V])], np.arange(V, dtype=np.int64)
    node = np.zeros(len(at), dtype=np.int64)
    for depth in range(1, order):
        inside = (at >= depth) & (tokens[at - depth] != V)
        at, y, node = at[inside], y[inside], node[inside]
        edge = node * V + tokens[at - depth]
        edges, local = np.unique(edge, return_inverse=True)
        above = edges // V  # local number of the parent on its level
        pairs, first, c = np.unique(
            local * V + y, return_index=True, return_counts=True
        )
        n = pairs // V
        total = np.bincount(n, weights=c)
        types = np.bincount(n)
        b = discount * types / total
        before = np.searchsorted(keys, node[first] * V + y[first])
        prob = (c - discount) / total[n] + b[n] * prob[before]
        parent.append(above + level_ptr[-2])
        symbol.append(edges % V)
        level_ptr.append(level_ptr[-1] + len(edges))
        bow.append(b)
        probs.append(prob)
        targets.append(pairs % V)
        per_node.append(types)
        keys, node = pairs, local
    parent = np.concatenate(parent)
    children = np.bincount(parent[1:], minlength=len(parent))
    return BackoffModel(
        parent,
        np.concatenate(symbol),
        level_ptr,
        np.cumsum(np.append(1, children)),
        np.cumsum(np.append(0, np.concatenate(per_node))),
        np.concatenate(targets),
        np.log(np.concatenate(probs)),
        np.log(np.concatenate(bow)),
        classes=np.array([*words, "</s>"], dtype=object),
        symbols=np.array([*words, "<s>"], dtype=object),
        start="<s>",
        end="</s>",
        unknown="<unk>",
    )


def best(function, repeats):
    times = []
    for _ in range(repeats):
        start = time.perf_counter()
        result = function()
        times.append(time.perf_counter() - start)
    return min(times), result


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--order", type=int, default=5)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--tokens", type=int, default=500_000)
    args = parser.parse_args()

    train, test = sentences(args)
    seconds, model = best(lambda: estimate(train, args.order), 1)
    print(f"{model}\nestimated in {seconds:.1f} s")
    seconds, deviation = best(lambda: model.check_normalized(tol=1e-9), 1)
    print(f"check_normalized: {seconds:.2f} s, largest deviation {deviation:.1e}")

    V = model.n_classes
    tokens = encode(test, {w: i for i, w in enumerate(model.classes_[:-1])}, V)
    class_of_token = np.r_[np.arange(V - 1), -1, V - 1].astype(np.int32)
    scored = np.flatnonzero(tokens != V - 1)
    n = len(scored)
    width = args.order - 1
    history = np.r_[np.full(width, -1), np.where(tokens == V, -1, tokens)]
    view = np.lib.stride_tricks.sliding_window_view(history, width)
    windows = np.ascontiguousarray(view[scored], dtype=np.int32)
    targets = class_of_token[tokens[scored]]

    find, nodes = best(lambda: model.find(windows), args.repeats)
    query, lp = best(lambda: model.log_proba(nodes, targets), args.repeats)
    fast, flat = best(lambda: model.score_tokens(tokens, class_of_token), args.repeats)
    np.testing.assert_allclose(flat[scored], lp, atol=1e-12)
    print(f"\n{n} test tokens, perplexity {model.perplexity(nodes, targets):.2f}")
    print(
        "by matched depth: "
        + ", ".join(
            f"{d}: {p:.1f} ({w / n:.0%})"
            for d, w, p in zip(
                *(
                    model.perplexity_by_depth(nodes, targets)[c]
                    for c in ("depth", "weight", "perplexity")
                )
            )
        )
    )

    kenlm_word = kenlm_sentence = None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.arpa")
        write, _ = best(lambda: exchange.write(model, path), 1)
        size = os.path.getsize(path) / 2**20
        read, again = best(lambda: exchange.read(path), 1)
        try:
            import kenlm
        except ImportError:
            print("kenlm is not installed (pip install kenlm): no comparison")
        else:
            config = kenlm.Config()
            config.show_progress = False
            config.arpa_complain = kenlm.ARPALoadComplain.NONE
            load, peer = best(lambda: kenlm.Model(path, config), 1)
            lines = [" ".join(s) for s in test]
            kenlm_word, scores = best(
                lambda: [s for line in lines for s, _, _ in peer.full_scores(line)],
                args.repeats,
            )
            kenlm_sentence, _ = best(
                lambda: [peer.score(line) for line in lines], args.repeats
            )
            gap = np.abs(np.array(scores) - lp / np.log(10)).max()
            print(f"largest difference of a log10 score to kenlm: {gap:.1e}")

    def row(what, seconds, peer=None):
        ratio = "" if peer is None else f"{peer / seconds:8.1f} x kenlm"
        print(f"{what:44} {n / seconds / 1e6:7.2f} M tokens/s {ratio}")

    print()
    row("find", find)
    row("log_proba", query)
    row("find + log_proba", find + query, kenlm_word)
    row("score_tokens", fast, kenlm_word)
    if kenlm_word is not None:
        row("kenlm full_scores, word by word", kenlm_word)
        row("kenlm score, sentence by sentence", kenlm_sentence)
    some = nodes[np.random.RandomState(0).randint(n, size=2000)]
    for what, function in (
        ("predict_log_proba", lambda: model.predict_log_proba(some)),
        ("top_k(10)", lambda: model.top_k(some, 10)),
        ("sample", lambda: model.sample(some, 0)),
    ):
        seconds, _ = best(function, args.repeats)
        print(f"{what:44} {seconds / len(some) * 1e6:7.1f} µs a row")
    print(f"\nARPA file of {size:.0f} MB, {model.n_pairs / 1e6:.1f} M n-grams")
    print(f"written in {write:.1f} s, read in {read:.1f} s ({again})")
    if kenlm_word is not None:
        print(f"kenlm loads it in {load:.1f} s: ratio {read / load:.1f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
