"""Our tables under KenLM's names next to KenLM's own module, on one file.

    python benchmarks/bench_clients.py [--peer]

The model is modified Kneser-Ney of order 5 on WikiText-2, written as a probing binary,
which both map. `words` are single calls of ``BaseScore`` on the validation text,
`sentences` calls of ``score``, a sentence each, `column` one call of ``score_many``
over a list of a million sentences. All scores are compared. `online` is one word after
one state of a `LanguageModel`, by ``advance``; that of ``"better"`` learns from the
first 4 000 sentences. `documents` are words a second of a `PerplexityTransformer`, over
documents of eight sentences. One thread.
"""

from __future__ import annotations

import os
import tempfile

import numpy as np
from _common import fastest, main, options, timed, wikitext
from sklearn.frozen import FrozenEstimator

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.compat import kenlm as ours
from sklstruct.exchange import read, write
from sklstruct.language_model import PerplexityTransformer

N_COLUMN = 10**6


def cases():
    return [
        {"what": "words"},
        {"what": "sentences"},
        {"what": "column"},
        {"what": "online"},
        {"what": "online", "model": "better", "slow": True},
        {"what": "documents"},
        {"what": "files"},
        {"what": "files", "read": True, "slow": True},
    ]


def word_by_word(module, model, words):
    state, out = module.State(), module.State()
    model.BeginSentenceWrite(state)
    total, score = 0.0, model.BaseScore
    for word in words:
        total += score(state, word, out)
        state, out = out, state
    return total


def advance(lm, words):
    state, total = lm.begin(), 0.0
    for word in words:
        log_prob, state = lm.advance(state, word)
        total += log_prob
    return total


def online(lm, text):
    words = [word for sentence in text for word in [*sentence, "</s>"]]
    lm.advance(lm.begin(), words[0])  # tables are made at the first call
    found = timed(advance, lm, words)
    expected = lm.score_samples(text).sum()
    return {
        "microseconds": found.cpu / len(words) * 1e6,
        "largest_difference": abs(found.result / expected - 1.0),
    }


def documents(lm, path, lines):
    text = ["\n".join(lines[i : i + 8]) for i in range(0, len(lines), 8)]
    n_words = sum(len(line.split()) for line in lines)
    figures = {}
    for name, model in {"model": FrozenEstimator(lm), "file": path}.items():
        for normalize in (None, "ccnet"):
            step = PerplexityTransformer(model, normalize=normalize).fit()
            seconds = timed(step.transform, text).cpu
            figures[f"{name}_{normalize or 'plain'}_words_a_second"] = n_words / seconds
    return figures


def run(case):
    if case.get("model"):
        lm = LanguageModel(case["model"], max_depth=4).fit(wikitext("train")[:4000])
        return online(lm, wikitext("valid")[:200])
    lm = LanguageModel(KneserNeyLM(), max_depth=4).fit(wikitext("train"))
    model = lm.backoff_model_
    if case["what"] == "online":
        return online(lm, wikitext("valid")[:1000])
    lines = [" ".join(sentence) for sentence in wikitext("valid")]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "model.bin")
        stored = timed(write, model, path, format="kenlm", repeats=1)
        figures = {"n_grams": model.n_pairs, "megabytes": os.path.getsize(path) / 2**20}
        if case["what"] == "files":
            figures["write_seconds"] = stored.cpu
            figures["map_seconds"] = timed(ours.Model, path).cpu
            if case.get("read"):
                figures["read_seconds"] = timed(read, path, repeats=1).cpu
            return figures
        if case["what"] == "documents":
            return figures | documents(lm, path, lines)
        mine = ours.Model(path)
        theirs = None
        if "kenlm" in options.peers:
            import kenlm

            theirs = kenlm.Model(path)
        return figures | scores(case["what"], mine, theirs, lines)


def scores(what, mine, theirs, lines):
    calls = {}
    if what == "words":
        words = " ".join(lines).split()
        n, unit = len(words), 1e9
        calls["ours"] = lambda: word_by_word(ours, mine, words)
        if theirs is not None:
            import kenlm

            calls["kenlm"] = lambda: word_by_word(kenlm, theirs, words)
    elif what == "sentences":
        n, unit = len(lines), 1e6
        calls["ours"] = lambda: [mine.score(line) for line in lines]
        if theirs is not None:
            calls["kenlm"] = lambda: [theirs.score(line) for line in lines]
    else:
        lines = (lines * (N_COLUMN // len(lines) + 1))[:N_COLUMN]
        n, unit = N_COLUMN, 1e6
        calls["ours"] = lambda: mine.score_many(lines)
        if theirs is not None:
            calls["kenlm"] = lambda: [theirs.score(line) for line in lines]
    times = fastest(**calls)
    name = "nanoseconds" if what == "words" else "microseconds"
    figures = {f"{who}_{name}": t.cpu / n * unit for who, t in times.items()}
    if theirs is not None:
        figures["ratio"] = times["ours"].cpu / times["kenlm"].cpu
        a, b = (np.asarray(times[who].result, dtype=np.float64) for who in times)
        figures["largest_difference"] = float(np.abs(a - b).max())
    return figures


if __name__ == "__main__":
    main(cases, run, peers=("kenlm",))
