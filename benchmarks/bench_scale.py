"""From a text file to a model: seconds, memory, growth; learning in batches.

    SKLSTRUCT_DATA=... SKLSTRUCT_TEXT=large.txt LMPLZ=build/bin/lmplz \\
        python benchmarks/bench_scale.py [--peer lmplz]

File to modified Kneser-Ney model at order 5. `SKLSTRUCT_TEXT` is a large text, one
sentence a line (such as that of make_large_corpus.py, 12.7 M words), `LMPLZ` the
program of KenLM that estimates models, built from its source; it runs with ``-S 4G``
and no pruning, writes an ARPA file as it always does, and is held to one core by
``taskset`` of whoever runs this. Seconds are those of the processor, ours and its. The
peak memory of ours is that of the process, Python and the libraries included.

Cases "online": the training text of WikiText-2 in 20 batches by `partial_fit`, one
pass, against one fit of all. Nothing is chosen on the test text.
"""

from __future__ import annotations

import gzip
import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
from _common import data_folder, main, options, peak_mb, timed, wikitext

from sklstruct import KneserNeyLM, StructuredLogLinearLM
from sklstruct.language_model import LanguageModel
from sklstruct.symbols import TextFile

DEPTH = 4
N_BATCHES = 20
TEXTS = ("WikiText-2", "1 M words", "large")


def cases():
    out = [{"part": "file", "text": text} for text in TEXTS]
    out += [{"part": "online", "model": name} for name in ("modified Kneser-Ney", "l2")]
    return out


def text_file(text, folder):
    """A plain file of the text, without empty lines."""
    path = Path(folder, "text.txt")
    if text == "WikiText-2":
        source, opener = data_folder("wikitext-2") / "train.txt.gz", gzip.open
    else:
        source, opener = os.environ.get("SKLSTRUCT_TEXT"), open
        if not source:
            sys.exit("set SKLSTRUCT_TEXT to a large text to run this")
    limit = 1_000_000 if text == "1 M words" else np.inf
    n_words = 0
    with opener(source, "rb") as raw, open(path, "wb") as file:
        for line in raw:
            words = len(line.split())
            if words:
                file.write(line)
                n_words += words
            if n_words >= limit:
                break
    return path, n_words


def run(case):
    return from_file(case) if case["part"] == "file" else online(case)


def from_file(case):
    with tempfile.TemporaryDirectory() as folder:
        path, n_words = text_file(case["text"], folder)
        figures = {}
        if "lmplz" in options.peers:
            figures = lmplz(path, folder)
        lm = LanguageModel(KneserNeyLM(), max_depth=DEPTH)
        # The parts on their own; the fit reads the file anew.
        read = timed(TextFile(path).number, repeats=1)
        read = read._replace(result=None)
        fit = timed(lm.fit, TextFile(path), repeats=1)
    model = lm.backoff_model_
    ours = {
        "words": n_words,
        "pairs": model.n_pairs,
        "read_seconds": read.cpu,
        "fit_seconds": fit.cpu,
        "peak_mb": peak_mb(),
    }
    if figures:
        figures["ratio"] = figures["lmplz_seconds"] / fit.cpu
    return ours | figures


def lmplz(path, folder):
    program = shutil.which(os.environ.get("LMPLZ", "lmplz"))
    if program is None:
        sys.exit("set LMPLZ to KenLM's lmplz to compare with it")
    options = ["-o", "5", "-S", "4G", "-T", folder, "--skip_symbols"]
    command = [program, *options, "--text", str(path)]
    command += ["--arpa", str(Path(folder, "model.arpa"))]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    start = time.perf_counter()
    subprocess.run(command, check=True, stderr=subprocess.DEVNULL)
    wall = time.perf_counter() - start
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    Path(folder, "model.arpa").unlink()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {
        "lmplz_seconds": cpu,
        "lmplz_wall": wall,
        "lmplz_mb": after.ru_maxrss / 1024,
    }


def online(case):
    train, test = wikitext("train"), wikitext("test")
    estimator = KneserNeyLM()
    if case["model"] == "l2":
        estimator = StructuredLogLinearLM(penalty="l2", lam=0.1, alpha=0.7)
    # Closed: with an open one the batches have the classes of the text so far.
    known = sorted({w for sentence in train for w in sentence})
    whole = LanguageModel(estimator, max_depth=DEPTH, vocabulary=known)
    fit = timed(whole.fit, train, repeats=1)
    grown = LanguageModel(estimator, max_depth=DEPTH, vocabulary=known)
    cuts = np.linspace(0, len(train), N_BATCHES + 1).astype(int)
    start = time.process_time()
    for a, b in pairwise(cuts):
        grown.partial_fit(train[a:b])
    seconds = time.process_time() - start
    batch, online = whole.perplexity(test), grown.perplexity(test)
    same = np.array_equal(whole.backoff_model_.log_prob, grown.backoff_model_.log_prob)
    return {
        "batch_test": batch,
        "online_test": online,
        "percent": 100 * (online / batch - 1),
        "equal": "yes" if same else "no",
        "fit_seconds": fit.cpu,
        "online_seconds": seconds,
    }


if __name__ == "__main__":
    main(cases, run, peers=("lmplz",))
