"""Our tables under KenLM's names next to KenLM's own module, on one file.

    [SKLSTRUCT_TEXT=large.txt LMPLZ=build/bin/lmplz] \\
        python benchmarks/bench_clients.py [--peer]

The model is modified Kneser-Ney of order 5 on WikiText-2, written as a probing binary,
which both map. `words` are single calls of ``BaseScore`` on the validation text,
`sentences` calls of ``score``, one per sentence, `column` one call of ``score_many``
over a list of a million sentences. All scores are compared. `online` is one word after
one state of a `LanguageModel`, by ``advance``; the model ``"better"`` learns from the
first 4 000 sentences. `documents` are words per second of a `PerplexityTransformer` on
documents of eight sentences. `files` writes and maps KenLM's binary, and opens a native
file with its hashes compared and without. One thread.

`binary` is ``sklstruct build_binary`` from an ARPA file to each kind of KenLM's
binaries, and KenLM's ``build_binary`` beside it, whose bytes are compared. A million
words are scored by ``sklstruct query`` from our file and by KenLM's ``query`` from
KenLM's, and all scores are compared; then the validation text is scored by
``score_many``, and by calls of KenLM's ``score``.

`train` is the command ``sklstruct lmplz -o 5`` from a text file to an ARPA file, in
its own process with start-up and imports, and KenLM's ``lmplz`` beside it with
``-S 1G`` and as it is called without; `SKLSTRUCT_TEXT` is the large text. All run in
turns on one core, with the least seconds of each. `mix` is ``sklstruct mix`` of the
trigram models of the two halves of WikiText-2, words in one of them or in both.
"""

from __future__ import annotations

import gzip
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
from _common import (
    data_folder,
    fastest,
    lmplz_program,
    main,
    options,
    timed,
    wikitext,
)
from sklearn.frozen import FrozenEstimator

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.compat import kenlm as ours
from sklstruct.exchange import read, write
from sklstruct.language_model import PerplexityTransformer

N_COLUMN = 10**6
N_QUERY = 10**6
BINARIES = (
    "probing", "trie", "trie -a 22", "trie -q 8 -b 8", "trie -q 8 -b 8 -a 22"
)  # fmt: skip


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
        {"what": "train", "text": "WikiText-2"},
        {"what": "train", "text": "large", "slow": True},
        {"what": "mix"},
        *({"what": "binary", "options": kind, "needs": "kenlm"} for kind in BINARIES),
    ]


def process(command, **streams):
    """(CPU seconds, wall seconds, peak MB) of a program on the first core."""
    start = time.perf_counter()
    child = subprocess.Popen(
        command, **streams, preexec_fn=lambda: os.sched_setaffinity(0, {0})
    )
    _, status, usage = os.wait4(child.pid, 0)
    wall = time.perf_counter() - start
    if os.waitstatus_to_exitcode(status):
        raise RuntimeError(f"{command} ended with {os.waitstatus_to_exitcode(status)}")
    return usage.ru_utime + usage.ru_stime, wall, usage.ru_maxrss / 1024


def in_turns(commands, **streams):
    """Figures of several programs, in turns."""
    found = {who: [] for who in commands}
    for _ in range(min(options.repeats, 3)):
        for who, command in commands.items():
            found[who].append(process(command, **streams))
    figures = {}
    for who, runs in found.items():
        for name, values in zip(("seconds", "wall", "mb"), zip(*runs)):
            figures[f"{who}_{name}"] = min(values)
    return figures


def text_file(name, folder):
    """WikiText-2 unpacked without a list of it: a child's peak counts its parent's."""
    if name == "large":
        return os.environ.get("SKLSTRUCT_TEXT") or sys.exit(
            "set SKLSTRUCT_TEXT to a large text to run this"
        )
    path = Path(folder, "text.txt")
    with (
        gzip.open(data_folder("wikitext-2") / "train.txt.gz", "rb") as packed,
        open(path, "wb") as file,
    ):
        file.writelines(line for line in packed if line.strip())
    return str(path)


def train(case):
    ours = [sys.executable, "-m", "sklstruct", "lmplz", "-o", "5", "--skip_symbols"]
    with tempfile.TemporaryDirectory() as folder:
        text = text_file(case["text"], folder)
        files = ["--text", text, "--arpa", str(Path(folder, "model.arpa"))]
        commands = {"ours": [*ours, "-T", folder, *files]}
        if "kenlm" in options.peers:
            theirs = [lmplz_program(), "-o", "5", "--skip_symbols", "-T", folder]
            theirs += files
            commands["lmplz_1g"] = [*theirs, "-S", "1G"]
            commands["lmplz"] = theirs
        figures = in_turns(commands, stderr=subprocess.DEVNULL)
    for who in list(commands)[1:]:
        for name in ("seconds", "wall", "mb"):
            ratio = figures[f"ours_{name}"] / figures[f"{who}_{name}"]
            figures[f"{who}_{name}_ratio"] = ratio
    return figures


def binary(options):
    import kenlm

    program, theirs = [sys.executable, "-m", "sklstruct"], Path(lmplz_program()).parent
    with tempfile.TemporaryDirectory() as folder:
        text = text_file("WikiText-2", folder)
        arpa, our_file, their_file = (f"{folder}/{name}" for name in ("m", "a", "b"))
        train = ["lmplz", "-o", "5", "--skip_symbols", "--text", text, "--arpa", arpa]
        process([*program, *train], stderr=subprocess.DEVNULL)
        given = [*options.split(), arpa]
        figures = in_turns(
            {
                "ours": [*program, "build_binary", "--quiet", *given, our_file],
                "kenlm": [str(theirs / "build_binary"), *given, their_file],
            },
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        a, b = (np.memmap(path, dtype=np.uint8) for path in (our_file, their_file))
        figures["megabytes"] = a.size / 2**20
        # Of hash tables the ids of words and the order of buckets are free.
        figures["bytes_equal"] = "yes" if np.array_equal(a, b) else "no"
        queries = f"{folder}/text"
        n = 0
        with open(text, "rb") as lines, open(queries, "wb") as file:
            for line in lines:
                n += len(line.split()) + 1
                file.write(line)
                if n >= N_QUERY:
                    break
        printed = []
        for who, path in (
            ([*program, "query"], our_file), ([theirs / "query"], their_file)
        ):  # fmt: skip
            out = f"{path}.out"
            with open(queries, "rb") as stdin, open(out, "wb") as stdout:
                process(
                    [*who, "-v", "word", path], stdin=stdin, stdout=stdout,
                    stderr=subprocess.DEVNULL,
                )  # fmt: skip
            printed.append(Path(out).read_bytes().split())
        scores = [[f for f in words if b"=" not in f] for words in printed]
        figures["scores_compared"] = n
        figures["scores_different"] = sum(a != b for a, b in zip(*scores, strict=True))
        lines = [" ".join(sentence) for sentence in wikitext("valid")]
        mine, model = ours.Model(our_file), kenlm.Model(their_file)
        times = fastest(
            ours=lambda: mine.score_many(lines),
            kenlm=lambda: [model.score(line) for line in lines],
        )
        n_words = sum(len(line.split()) + 1 for line in lines)
        for who, t in times.items():
            figures[f"{who}_words_per_second"] = n_words / t.cpu
        figures["ratio"] = times["kenlm"].cpu / times["ours"].cpu
        x, y = (np.asarray(t.result, dtype=np.float64) for t in times.values())
        figures["largest_difference"] = float(np.abs(x - y).max())
    return figures


def mix():
    program = [sys.executable, "-m", "sklstruct"]
    with tempfile.TemporaryDirectory() as folder:
        text = text_file("WikiText-2", folder)
        with open(text, "rb") as file:
            lines = file.readlines()
        half, models = len(lines) // 2, []
        for name, part in (("a", lines[:half]), ("b", lines[half:])):
            Path(folder, name).write_bytes(b"".join(part))
            models.append(str(Path(folder, f"{name}.arpa")))
            train = ["lmplz", "-o", "3", "--skip_symbols", "--text", f"{folder}/{name}"]
            process([*program, *train, "--arpa", models[-1]], stderr=subprocess.DEVNULL)
        out = ["-o", str(Path(folder, "mixed.arpa"))]
        command = [*program, "mix", *models, "--weights", "0.5,0.5", *out]
        figures = in_turns({"mix": command}, stderr=subprocess.DEVNULL)
        figures["megabytes"] = os.path.getsize(out[1]) / 2**20
    return figures


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
            field = f"{name}_{normalize or 'plain'}_words_per_second"
            figures[field] = n_words / seconds
    return figures


def run(case):
    if case["what"] == "train":
        return train(case)
    if case["what"] == "mix":
        return mix()
    if case["what"] == "binary":
        return binary(case["options"])
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
            native = os.path.join(folder, "model.sklm")
            write(model, native, format="native")
            figures["native_seconds"] = timed(read, native).cpu
            figures["unverified_seconds"] = timed(read, native, verify=False).cpu
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
