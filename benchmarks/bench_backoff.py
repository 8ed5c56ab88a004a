"""Queries and ARPA files of BackoffModel next to KenLM's Python module.

    python benchmarks/bench_backoff.py [--peer] [--case arpa]

The model is interpolated absolute discounting (0.75) of order 5 on WikiText-2, or, in
the cases `synthetic`, on a made-up text of 500 000 tokens. KenLM reads the ARPA file
that the model is exported to and scores the same test text; its scores are compared.
One thread; every time is the least of several calls, ratios are ours to KenLM's.
"""

from __future__ import annotations

import os
import tempfile

import numpy as np
from _common import fastest, kenlm_model, main, options, timed, wikitext

from sklstruct import BackoffModel, KneserNeyLM
from sklstruct.language_model import LanguageModel
from sklstruct.symbols import context_windows

DEPTH = 4
N_ROWS = 2000  # of full rows, rankings and samples


def cases():
    return [
        {"text": text, "what": what}
        for text in ("wikitext-2", "synthetic")
        for what in ("query", "arpa")
    ]


def synthetic(n_tokens=500_000, n_words=20_000):
    """Sentences in which a word depends on the one before."""
    rng = np.random.default_rng(0)
    jump = rng.zipf(1.3, size=n_tokens) % n_words
    words, last = [], 0
    for j in jump.tolist():
        last = (7 * last + j) % n_words if j > 3 else j
        words.append(f"w{last}")
    text = [words[i : i + 25] for i in range(0, n_tokens, 25)]
    known = {w for sentence in text[: 9 * len(text) // 10] for w in sentence}
    test = text[9 * len(text) // 10 :]
    return text[: 9 * len(text) // 10], [[w for w in s if w in known] for s in test]


def texts(name):
    if name == "synthetic":
        return synthetic()
    return wikitext("train"), wikitext("test")


def encoded(model, test):
    """(windows of symbol ids, class ids, token stream) of the test text."""
    labels = model.labels
    w = context_windows(test, DEPTH)
    keep = w.sample_weight > 0
    # -1, a missing history, is the last entry of the table
    symbol = np.append(labels.encode_contexts(w.vocabulary), -1).astype(np.int32)
    windows = np.ascontiguousarray(symbol[w.contexts[keep]])
    targets = labels.encode_targets(w.vocabulary)[w.targets[keep]]
    code = labels.token_code
    marked = (word for sentence in test for word in ("<s>", *sentence, "</s>"))
    tokens = np.fromiter((code[word] for word in marked), dtype=np.int32)
    return windows, targets, tokens


def query(model, test, peer):
    windows, targets, tokens = encoded(model, test)
    nodes = model.locate(windows)
    kernel = LanguageModel.from_backoff(model).predictor.kernel
    y = model.labels.class_of_token[tokens]
    predicted = np.flatnonzero(y >= 0)
    calls = {
        "find": lambda: model.locate(windows),
        "find_and_score": lambda: model.target(model.locate(windows), targets),
        "score_tokens": lambda: kernel.targets(tokens, predicted, y[predicted]),
    }
    if peer is not None:
        lines = [" ".join(sentence) for sentence in test]
        calls["kenlm_full_scores"] = lambda: [
            s for line in lines for s, _, _ in peer.full_scores(line)
        ]
        calls["kenlm_score"] = lambda: [peer.score(line) for line in lines]
    times = fastest(**calls)
    some = nodes[np.random.default_rng(0).integers(nodes.size, size=N_ROWS)]
    rows = fastest(
        row=lambda: model.rows(some),
        top_10=lambda: model.best(some, 10),
        sample=lambda: model.draw(
            some, np.random.RandomState(0).random_sample(len(some))
        ),
    )
    ours = times["find_and_score"].result
    figures = {f"{k}_million_per_second": targets.size / t.cpu / 1e6
               for k, t in times.items()}  # fmt: skip
    figures |= {f"{k}_microseconds": t.cpu / N_ROWS * 1e6 for k, t in rows.items()}
    gap = np.abs(times["score_tokens"].result - ours).max()
    figures["difference_of_two_routes"] = gap
    if peer is not None:
        theirs = np.array(times["kenlm_full_scores"].result) * np.log(10)
        figures["difference_to_kenlm"] = np.abs(theirs - ours).max()
    return figures


def arpa(lm, path, peer_loads):
    write = timed(lm.save, path)
    calls = {"read": lambda: LanguageModel.load(path)}
    if peer_loads is not None:
        calls["kenlm_load"] = lambda: peer_loads(path)
    times = fastest(**calls, repeats=min(3, options.repeats))
    figures = {
        "megabytes": os.path.getsize(path) / 2**20,
        "write_seconds": write.cpu,
        "read_seconds": times["read"].cpu,
    }
    if peer_loads is not None:
        figures["kenlm_load_seconds"] = times["kenlm_load"].cpu
        figures["read_ratio"] = times["read"].cpu / times["kenlm_load"].cpu
    return figures


def run(case):
    train, test = texts(case["text"])
    lm = LanguageModel(KneserNeyLM(discount=0.75), max_depth=DEPTH).fit(train)
    model: BackoffModel = lm.backoff_model_
    figures = {"contexts": model.n_nodes, "n_grams": model.n_pairs}
    load = kenlm_model if "kenlm" in options.peers else None
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.arpa")
        if case["what"] == "arpa":
            return figures | arpa(lm, path, load)
        peer = None
        if load is not None:
            lm.save(path)
            peer = load(path)
        return figures | query(model, test, peer)


if __name__ == "__main__":
    main(cases, run, peers=("kenlm",))
