"""From a text file to a model: seconds, memory, growth; learning in batches.

    SKLSTRUCT_DATA=... SKLSTRUCT_TEXT=large.txt LMPLZ=build/bin/lmplz \\
        python benchmarks/bench_scale.py [--peer lmplz]

File to modified Kneser-Ney model at order 5. `SKLSTRUCT_TEXT` is a large text, one
sentence per line (such as that of make_large_corpus.py, 12.7 M words), `LMPLZ` the
program of KenLM that estimates models, built from its source; it runs with ``-S 4G``
and no pruning, writes an ARPA file as it always does, and is held to one core by
``taskset`` of whoever runs this. Seconds are those of the processor, ours and its. The
peak memory of ours is that of the process, Python and the libraries included.

Cases "memory": `SKLSTRUCT_SAMPLED`, 100 M words drawn from the model of the large text
by ``_sampled_text.py``, counted under ``memory`` of 4 GB in runs on the disk.

Cases "ARPA": text to an ARPA file of order 5, in a separate process: `sklstruct
lmplz` under ``-S``, which streams everything through files, or a `LanguageModel` that
is saved, with the `memory` of its `TextFile`; of the first words of
`SKLSTRUCT_SAMPLED`, such as a text drawn from the model of WikiText-2. The program of
KenLM runs beside each with ``-S 500M``. Seconds of the processor and peaks are those of
the whole processes.

Cases "mixture": Kneser-Ney, and its mixture with a log-linear model over refined
contexts, of the same text, in one process and in memory. The last lines are held out,
half for the gate of the mixture, half for the perplexity; the end of the text was drawn
like the rest, from a Kneser-Ney model. The mixture leaves out contexts by `min_count`,
which grows with the text.

Cases "mixture, two workers": the mixture on two processes of a Dask cluster
on this machine, of one thread each, which write the contexts into files (where TMPDIR
says). Peaks of memory are those of the client, of the larger worker, and of all three
together.

Case "beyond 2^31": a text of more than 2^31 - 1 words that the program writes into a
temporary folder (5 GB, where TMPDIR says), one letter per word, one block of lines
again and again: the counts of its n-grams are those of the block, times how often it
stands there, and one word is more frequent than 2^31 - 1. Counted under ``memory`` of
4 GB into a Witten-Bell model of order 2; "exact" says that every count is the known
one.

Cases "log-linear": the large text, order 5, two threads, from the file to the model;
the duality gap is in nats per word.

Cases "paper": what 10^9 and 10^12 words would take, from constants that are measured
here: pairs grow as a power of the words, fitted to 1 M words and the large text;
counting costs so many seconds per word, an iteration per pair, both on one core;
pairs are sent to their shards once, and V numbers a few times per iteration. A worker
has 8 cores, 64 GB and a network of 1 GB per second; a pair of the log-linear model
takes 140 bytes with its share of the tree, and a shard holds at most 2^31 - 1 pairs.

Cases "cluster": a text on two workers of a Dask cluster on this machine, processes of
one thread, and then in one process of one thread. Seconds are those of a clock, from
the file to the model at the client, which reaches the workers directly; the workers
have started and imported the package before. Memory is the peak of the client and of
the larger worker. Bytes are those of the arrays that shards and client exchange in an
iteration (or, for models of counts, in all); differences those of the two models.

Cases "shards": modified Kneser-Ney of the first words of `SKLSTRUCT_SAMPLED`. The model
stays on one or two workers, which are processes of one thread with a `memory_limit` of
450 MB, and is written from the workers as a native file and as an ARPA file. The native
file is compared with the file of one process. Seconds are CPU seconds. For the client
only the thread that calls `fit` and `save` is counted. The other threads of this
process run the scheduler and the event loop of Dask; "loop_share" is their CPU time
divided by the elapsed time. Pages of mapped files are not counted as memory.

Cases "log-linear shards": the penalty "l2" on two workers, which are processes of one
thread with a `memory_limit` of 450 MB, or without a limit: then each has one shard. The
text is the first words of `SKLSTRUCT_SAMPLED`. The memory is the peak of the larger
worker with mapped files. Seconds are the CPU seconds of both workers.

Cases "limits": what larger texts would take on 50 workers of 64 GB, from the bytes of a
worker for each pair of a shard, measured on two workers with one shard each of 1 M and
4 M words, and those of the client for each word, measured with texts of 100 000 and
800 000 words that occur once.

Cases "presets": memory of one process in which "better" and "best" learn the first
words of WikiText-2, and at how many words it would reach 16 GB if it grew on as it does
from half of these words to all. "weights" are those of the joint models. If the samples
were divided between workers, each pass over the trees would need sums with one number
for each weight: "exchange_gb" is what a worker would send and receive for 10^9 words.

Cases "scoring": Kneser-Ney of WikiText-2 at order 5 as a mapped native file; two
workers, processes of one thread, score the validation part in partitions of a bag.
"pickle" is the size of the model in the task; private memory is that by which a worker
grows while it scores the text twice, with a bigram model of 300 lines and then with
this one, pages of mapped files left out; and by how much in the second pass.

Cases "online": the training text of WikiText-2 in 20 batches by `partial_fit`, one
pass, against one fit of all; a log-linear model a second time over all batches too,
under a window of 20, in which a batch takes the place of its first copy. Nothing is
chosen on the test text.
"""

from __future__ import annotations

import contextlib
import filecmp
import functools
import gzip
import itertools
import math
import os
import pickle
import subprocess
import sys
import tempfile
import threading
import time
from importlib import import_module
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from _common import (
    data_folder,
    first_words,
    lmplz_program,
    main,
    options,
    peak_mb,
    read_results,
    timed,
    wikitext,
)
from sklearn.base import clone
from sklearn.pipeline import make_pipeline

from sklstruct import KneserNeyLM, StructuredLogLinearLM
from sklstruct.context_tree._runs import RunFile
from sklstruct.distributed import DaskLanguageModel
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import L2, AutoSolver
from sklstruct.loglinear._joint_model import JointTrees
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import WittenBellLM
from sklstruct.symbols import TextFile
from sklstruct.word_classes import ContextRefiner

DEPTH = 4
HELD_OUT = 20_000  # lines, twice
# The context of the log-linear model of the mixture.
PATH = "c20(1) c100(1) w(1) c20(2) c100(2) w(2) c100(3) w(3) c50(4) w(4)"
# Words of the sampled text, and the least weight of a context of the mixture.
SAMPLED_WORDS = [("13e6", 2), ("13e6", 16), ("1e9", 128)]
N_BATCHES = 20
# Worker that the cases "paper" suppose.
WORKER_BYTES, WORKER_CORES, WORKER_NETWORK, PAIR_BYTES = 64e9, 8, 1e9, 140
# Context, class, count of a pair that is sent from where it was counted to its shard.
SENT_BYTES = 16
INT32_MAX = 2**31 - 1
# Memory of a worker of the cases "shards".
SHARDS_BYTES = 450_000_000
# Workers, and texts, of the cases "limits"; a part of a text file, and bytes of a word.
MACHINES, LIMITS = 50, ("1e9", "1e10", "1e11")
PART_BYTES, BYTES_PER_WORD = 2**26, 5.4
# The text of "beyond 2^31".
BEYOND_WORDS, MOST_FREQUENT = 2_600_000_000, 0.85
BLOCK_WORDS, LINE_WORDS = 1 << 23, 32
# The strengths of the pages of language models; l2 has one for each depth.
PENALTIES = {
    "l2": {"penalty": L2(depth_weight=[1.0, 1.5, 2.5, 4.0, 6.0]), "lam": 0.1},
    "tree_l2": {"penalty": "tree_l2", "lam": 0.5, "alpha": 0.9},
    "tree_linf": {"penalty": "tree_linf", "lam": 0.5, "alpha": 0.8},
}
TEXTS = ("WikiText-2", "1 M words", "large")


def n_ngrams(path):
    """The number of n-grams that the header of an ARPA file gives."""
    with open(path, encoding="utf-8") as lines:
        header = itertools.takewhile(lambda line: "-grams:" not in line, lines)
        return sum(int(line.split("=")[1]) for line in header if "=" in line)


def cases():
    out = [{"part": "file", "text": text} for text in TEXTS]
    out += [{"part": "memory", "text": "sampled", "memory_gb": 4}]
    out += [
        {"part": "ARPA", "program": program, "memory": memory, "words": words}
        | ({"slow": True} if words == "16e6" else {})
        for words in ("1e6", "4e6", "16e6")
        for program in ("lmplz", "LanguageModel")
        for memory in ("none", "500M", "100M")
    ]
    out += [
        {"part": "mixture", "model": "Kneser-Ney", "words": words}
        for words in ("13e6", "1e9")
    ]
    out += [
        {"part": "mixture", "model": "mixture", "words": words, "min_count": least}
        for words, least in SAMPLED_WORDS
    ]
    out += [
        {"part": "mixture, two workers", "words": words, "min_count": least}
        for words, least in SAMPLED_WORDS[1:]
    ]
    out += [{"part": "beyond 2^31", "memory_gb": 4, "slow": True}]
    out += [{"part": "log-linear", "penalty": name} for name in PENALTIES]
    out += [{"part": "paper", "words": words} for words in ("1e9", "1e12")]
    out += [{"part": "online", "model": name} for name in ("modified Kneser-Ney", "l2")]
    out += [
        {"part": "shards", "words": words, "workers": n} | ({"slow": True} if k else {})
        for k, words in enumerate(("1e6", "4e6", "16e6", "64e6"))
        for n in (1, 2)
    ]
    out += [
        {"part": "log-linear shards", "words": words, "memory": memory}
        for words in ("1e6", "4e6")
        for memory in ("no limit", "450 MB")
    ]
    out += [{"part": "limits", "words": words} for words in LIMITS]
    out += [
        {"part": "presets", "model": "better", "words": "5e5"},
        {"part": "presets", "model": "best", "words": "1e5"},
    ]
    out += [{"part": "scoring", "partitions": n} for n in (20, 200)]
    out += [
        {"part": "cluster", "text": text, "model": model}
        | ({"slow": True} if text == "large" else {})
        for text in ("WikiText-2", "large")
        for model in ("modified Kneser-Ney", "l2", "tree_l2")
    ]
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
    return PARTS[case["part"]](case)


@contextlib.contextmanager
def two_workers(folder, n=2, memory_limit=0):
    """The client of a cluster of processes that have imported the package."""
    import distributed

    with (
        distributed.LocalCluster(
            n_workers=n,
            threads_per_worker=1,
            memory_limit=memory_limit,
            dashboard_address=":0",
            local_directory=folder,
        ) as cluster,
        distributed.Client(cluster, direct_to_workers=True) as client,
    ):
        client.run(peak_mb)
        client.run(import_module, DaskLanguageModel.__module__)
        yield client


def sampled_words(words, folder):
    """A file of the first words of the sampled text, and their number."""
    path, n_words = Path(folder, "text.txt"), 0
    with open(sampled(), "rb") as text, open(path, "wb") as file:
        for line in text:
            if n_words >= float(words):
                break
            file.write(line)
            n_words += len(line.split())
    if n_words < float(words):
        sys.exit(f"SKLSTRUCT_SAMPLED has only {n_words} words")
    return path, n_words


def on_workers(path, folder, n_workers, memory_limit=0):
    """(figures, model file) of a fit on workers and of the files that they write."""
    with two_workers(folder, n_workers, memory_limit) as client:
        lm = DaskLanguageModel(LanguageModel(KneserNeyLM(), max_depth=DEPTH))
        native, arpa = Path(folder, "many.sklm"), Path(folder, "many.arpa")
        pids = client.run(os.getpid)
        before = client.run(time.process_time)
        with OwnMemory(pids.values()) as watch:
            start_mb, start = watch.now_mb(), time.thread_time()
            fit = timed(lm.fit, TextFile(path), repeats=1)
            fitted = client.run(time.process_time)
            fit_mb = max(watch.peaks[1:])
            write = timed(lambda: (lm.save(native), lm.save(arpa)), repeats=1)
            written = client.run(time.process_time)
            client_seconds = time.thread_time() - start
    shards = [n_pairs for _, _, n_pairs in lm.shard_sizes_]
    figures = {
        "shards": len(shards),
        "larger_shard": max(shards),
        "client_start_mb": start_mb,
        "client_mb": watch.peak_mb,
        "worker_fit_mb": fit_mb,
        "worker_mb": max(watch.peaks[1:]),
        "client_seconds": client_seconds,
        "loop_share": (fit.cpu + write.cpu - client_seconds) / (fit.wall + write.wall),
        "worker_seconds": sum(fitted[k] - before[k] for k in before),
        "write_seconds": sum(written[k] - fitted[k] for k in before),
        "native_gb": native.stat().st_size / 1e9,
        "arpa_gb": arpa.stat().st_size / 1e9,
        "exchanged_mb": lm.n_bytes_exchanged_ / 1e6,
    }
    return figures, native


def shards(case):
    with tempfile.TemporaryDirectory() as folder:
        path, n_words = sampled_words(case["words"], folder)
        figures, native = on_workers(path, folder, case["workers"], SHARDS_BYTES)
        one = LanguageModel(KneserNeyLM(), max_depth=DEPTH)
        fit = timed(one.fit, TextFile(path), repeats=1)
        whole = Path(folder, "one.sklm")
        one.save(whole)
        same = filecmp.cmp(native, whole, shallow=False)
        if "lmplz" in options.peers:
            figures |= lmplz(path, folder, "500M")
    return {
        "read_words": n_words,
        "pairs": one.backoff_model_.n_pairs,
        "classes": one.backoff_model_.n_classes,
        **figures,
        "one_seconds": fit.cpu,
        "one_mb": peak_mb(),
        "equal": "yes" if same else "no",
    }


def loglinear_shards(case):
    limit = 450_000_000 if case["memory"] == "450 MB" else 0
    estimator = StructuredLogLinearLM(**PENALTIES["l2"])
    with tempfile.TemporaryDirectory() as folder:
        path, n_words = sampled_words(case["words"], folder)
        with two_workers(folder, memory_limit=limit) as client:
            trainer = DaskLanguageModel(LanguageModel(estimator, max_depth=DEPTH))
            before = sum(client.run(time.process_time).values())
            trainer.fit(TextFile(path))
            seconds = sum(client.run(time.process_time).values()) - before
            worker_mb = max(client.run(peak_mb).values())
            model = trainer.compute().estimator_
    return {
        "read_words": n_words,
        "pairs": model.backoff_model_.n_pairs,
        "shards": len(trainer.shard_sizes_),
        "iterations": model.n_iter_,
        "objective": model.objective_[-1],
        "worker_mb": worker_mb,
        "seconds": seconds,
        "exchanged_mb": trainer.n_bytes_exchanged_ / model.n_iter_ / 1e6,
        "lost": trainer.n_lost_shards_,
    }


@functools.cache
def memory_of_workers():
    """Bytes of a worker for a pair of a shard, and of the client for a word."""
    clients, sizes = [], (100_000, 800_000)
    for n in sizes:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "words.txt")
            lines = (
                " ".join(f"word{i}" for i in range(a, a + 20)) for a in range(0, n, 20)
            )
            path.write_text("\n".join(lines) + "\n", encoding="utf-8")
            with two_workers(folder) as client, OwnMemory() as watch:
                lm = LanguageModel(WittenBellLM(), max_depth=1)
                lm = DaskLanguageModel(lm, client=client).fit(TextFile(path))
                lm.save(Path(folder, "words.sklm"))
            clients.append(watch.peak_mb)
    found = []
    for words in ("1e6", "4e6"):
        with tempfile.TemporaryDirectory() as folder:
            path, _ = sampled_words(words, folder)
            figures, native = on_workers(path, folder, 2)
            figures["pairs"] = LanguageModel.load(native).backoff_model_.n_pairs
            found.append(figures)
    small, large = found
    grown = large["worker_mb"] - small["worker_mb"]
    per_pair = 1e6 * grown / (large["larger_shard"] - small["larger_shard"])
    per_word = 1e6 * (clients[1] - clients[0]) / (sizes[1] - sizes[0])
    return {
        "bytes_per_pair": per_pair,
        "bytes_per_word": per_word,
        "arpa_bytes": 1e9 * large["arpa_gb"] / large["pairs"],
    }


def limits(case):
    """Memory and time of a text on MACHINES workers; pairs and words grow as the cases
    "paper" have measured on another text."""
    measured, words = memory_of_workers(), float(case["words"])
    results = Path(__file__).parents[1] / "docs" / "benchmarks" / "results"
    law = next(
        row["figures"]
        for row in read_results(results / "scale.json")["results"]
        if row["case"] == {"part": "paper", "words": "1e9"}
    )
    pairs = law["pairs"] * (words / 1e9) ** law["pair_exponent"]
    classes = law["classes"] * (words / 1e9) ** law["class_exponent"]
    # The largest shard has at most a quarter more than the mean, and half of a worker.
    n_shards = 1.25 * pairs * measured["bytes_per_pair"] / (0.5 * WORKER_BYTES)
    n_shards = max(MACHINES, math.ceil(n_shards))
    used = {
        "client_gb": classes * measured["bytes_per_word"] / 1e9,
        "native_pairs": pairs / INT32_MAX,
    }
    beyond = {
        "client": used["client_gb"] > WORKER_BYTES / 1e9,
        "pairs of a native file": used["native_pairs"] > 1,
    }
    too_large = [name for name, is_beyond in beyond.items() if is_beyond]
    n_parts = words * BYTES_PER_WORD / PART_BYTES
    return {
        "pairs": pairs,
        "classes": classes,
        **used,
        "shards": n_shards,
        # Prefixes of one symbol and of two are counted to divide branches.
        "tasks": 5 * n_parts + n_shards,
        "exchange_gb": 2 * 8 * classes * MACHINES / 1e9,
        "arpa_tb": pairs * measured["arpa_bytes"] / 1e12,
        "beyond": ", ".join(too_large) or "nothing",
        **measured,
    }


def joint_weights(x, seen):
    """The number of weights of all joint models in a fitted model."""
    if id(x) in seen:
        return 0
    seen.add(id(x))
    if isinstance(x, JointTrees):
        return x.w.size
    if isinstance(x, dict):
        x = x.values()
    elif type(x).__module__.startswith("sklstruct"):
        x = [*getattr(x, "__dict__", {}).values(), *(x if isinstance(x, tuple) else ())]
    elif not isinstance(x, (list, tuple)):
        return 0
    return sum(joint_weights(y, seen) for y in x)


def presets(case):
    """Memory of one process for the models that are not fitted on shards."""
    text, peaks, weights = wikitext("train"), [], []
    for share in (0.5, 1.0):
        fit = None  # the model of the half is freed
        some = first_words(text, share * float(case["words"]))
        with OwnMemory() as watch:
            fit = timed(LanguageModel(case["model"]).fit, some, repeats=1)
        peaks.append((sum(map(len, some)), watch.peak_mb))
        weights.append(joint_weights(fit.result, set()))
    (n0, mb0), (n1, mb1) = peaks
    slope = (mb1 - mb0) / (n1 - n0)
    return {
        "read_words": n1,
        "fit_seconds": fit.cpu,
        "half_mb": mb0,
        "own_peak_mb": mb1,
        "bytes_per_word": 1e6 * slope,
        "words_16gb": n1 + (16e3 - mb1) / slope,
        "weights": weights[1],
        "exchange_gb": 2 * 8 * 1e9 * (weights[1] - weights[0]) / (n1 - n0) / 1e9,
    }


def private_mb():
    """Memory of this process that no other has, in MB."""
    lines = Path("/proc/self/smaps_rollup").read_text(encoding="ascii").splitlines()
    return sum(int(line.split()[1]) for line in lines if "Private_D" in line) / 1e3


def scoring(case):
    from dask import bag

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "model.sklm")
        lm = LanguageModel(KneserNeyLM(), max_depth=DEPTH).fit(wikitext("train"))
        lm.save(path)
        model = LanguageModel.load(path)
        text = wikitext("valid")
        with two_workers(folder) as client:
            lines = bag.from_sequence(text, npartitions=case["partitions"])
            # Workers import all that scoring needs.
            client.run(LanguageModel(WittenBellLM(), max_depth=1).fit, [["a"]])
            before = client.run(private_mb)
            small = LanguageModel(WittenBellLM(), max_depth=1).fit(text[:300])
            small.save(Path(folder, "small.sklm"))
            small = LanguageModel.load(Path(folder, "small.sklm"))
            lines.map_partitions(small.score_samples).compute()
            between = client.run(private_mb)
            scored = timed(
                lambda: lines.map_partitions(model.score_samples).compute(), repeats=1
            )
            after = client.run(private_mb)
        right = np.array_equal(scored.result, lm.score_samples(text))
        return {
            "file_mb": path.stat().st_size / 1e6,
            "pickle": len(pickle.dumps(model)),
            "private_mb": max(after[w] - before[w] for w in after),
            "model_mb": max(after[w] - between[w] for w in after),
            "seconds": scored.wall,
            "equal": "yes" if right else "no",
        }


def on_cluster(case):
    estimator = KneserNeyLM()
    if case["model"] in PENALTIES:
        name = case["model"]
        estimator = StructuredLogLinearLM(**PENALTIES[name])
    with tempfile.TemporaryDirectory() as folder:
        path, n_words = text_file(case["text"], folder)
        with two_workers(folder) as client:
            trainer = DaskLanguageModel(LanguageModel(estimator, max_depth=DEPTH))

            def train():
                return trainer.fit(TextFile(path)).compute()

            fit = timed(train, repeats=1)
            many = fit.result
            worker_mb = max(client.run(peak_mb).values())
            client_mb = peak_mb()
        one = LanguageModel(estimator, max_depth=DEPTH)
        fit_one = timed(one.fit, TextFile(path), repeats=1)
    models = [lm.backoff_model_ for lm in (one, many)]
    figures = {
        "words": n_words,
        "pairs": models[0].n_pairs,
        "seconds": fit.wall,
        "one_seconds": fit_one.wall,
        "client_mb": client_mb,
        "worker_mb": worker_mb,
        "log_prob_difference": np.abs(models[0].log_prob - models[1].log_prob).max(),
    }
    iterations = 1
    if case["model"] in PENALTIES:
        ends = [lm.estimator_.objective_[-1] for lm in (one, many)]
        iterations = many.estimator_.n_iter_
        figures["iterations"] = iterations
        figures["one_iterations"] = one.estimator_.n_iter_
        figures["objective_difference"] = abs(ends[1] / ends[0] - 1.0)
    figures["exchanges"] = trainer.n_exchanges_ / iterations
    figures["exchanged_mb"] = trainer.n_bytes_exchanged_ / iterations / 1e6
    return figures


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


def measured(command):
    """(seconds of the processor, by the clock, peak in MB) of a program."""
    start, peak = time.perf_counter(), 0.0
    child = subprocess.Popen(command, stderr=subprocess.DEVNULL)
    done = 0
    while not done:
        # `used` has the memory of this process, from before the program runs, too.
        with contextlib.suppress(OSError):
            status = Path(f"/proc/{child.pid}/status").read_text(encoding="ascii")
            lines = [x for x in status.splitlines() if x.startswith("VmHWM")]
            peak = max([peak, *(int(line.split()[1]) / 1024 for line in lines)])
        time.sleep(0.02)
        done, status, used = os.wait4(child.pid, os.WNOHANG)
    if status:
        sys.exit(f"{' '.join(map(str, command))} ended with {status}")
    wall = time.perf_counter() - start
    return used.ru_utime + used.ru_stime, wall, peak


def lmplz(path, folder, memory="4G"):
    options = ["-o", "5", "-S", memory, "-T", folder, "--skip_symbols"]
    options += ["--discount_fallback", "--text", str(path)]
    arpa = Path(folder, "model.arpa")
    cpu, wall, mb = measured([lmplz_program(), *options, "--arpa", str(arpa)])
    arpa.unlink()
    return {"lmplz_seconds": cpu, "lmplz_wall": wall, "lmplz_mb": mb}


SAVING = """
import sys, warnings
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import KneserNeyLM
from sklstruct.symbols import TextFile

warnings.simplefilter("ignore", UserWarning)
memory = None if sys.argv[3] == "none" else int(sys.argv[3][:-1]) * 2**20
lm = LanguageModel(KneserNeyLM(), max_depth=4)
lm.fit(TextFile(sys.argv[1], memory=memory)).save(sys.argv[2])
"""


def text_to_arpa(case):
    with tempfile.TemporaryDirectory() as folder:
        path, n_words = sampled_words(case["words"], folder)
        arpa = Path(folder, "ours.arpa")
        if case["program"] == "lmplz":
            command = [sys.executable, "-m", "sklstruct", "lmplz", "-o", "5", "-q"]
            command += ["-T", folder, "--skip_symbols", "--discount_fallback"]
            command += ["--text", path, "--arpa", arpa]
            if case["memory"] != "none":
                command += ["-S", case["memory"]]
        else:
            command = [sys.executable, "-c", SAVING, path, arpa, case["memory"]]
        cpu, wall, mb = measured(command)
        figures = {
            "words": n_words,
            "seconds": cpu,
            "wall": wall,
            "own_mb": mb,
            "ngrams": n_ngrams(arpa),
        }
        arpa.unlink()
        if "lmplz" in options.peers:
            figures |= lmplz(path, folder, "500M")
    return figures


class OwnMemory(threading.Thread):
    """Peak of the memory of this process without files, looked at all the time.

    others: numbers of other processes, which are looked at too.
    """

    def __init__(self, others=()):
        super().__init__(daemon=True)
        self.pids = ["self", *others]
        self.peaks, self.sum_mb = [0.0] * len(self.pids), 0.0
        self.done = threading.Event()

    @property
    def peak_mb(self):
        return self.peaks[0]

    def now_mb(self, pid="self"):
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        line = next(x for x in status.splitlines() if x.startswith("RssAnon"))
        return int(line.split()[1]) / 1024

    def run(self):
        while not self.done.wait(0.02):
            now = [self.now_mb(pid) for pid in self.pids]
            self.peaks = [max(peak, mb) for peak, mb in zip(self.peaks, now)]
            self.sum_mb = max(self.sum_mb, sum(now))

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.done.set()
        self.join()


def sampled():
    source = os.environ.get("SKLSTRUCT_SAMPLED")
    if not source:
        sys.exit("set SKLSTRUCT_SAMPLED to a text made by _sampled_text.py to run this")
    return source


@contextlib.contextmanager
def text_and_held_out(case):
    """(file of the first words of the sampled text, their number, two texts of its end,
    which is held out)."""
    source, n_words = sampled(), 0
    with open(source, encoding="utf-8") as file:
        n_train = sum(1 for _ in file) - 2 * HELD_OUT
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "train.txt")
        with (
            open(source, encoding="utf-8") as text,
            open(path, "w", encoding="utf-8") as file,
        ):
            for line in islice(text, n_train):
                if n_words < float(case["words"]):
                    file.write(line)
                    n_words += len(line.split())
            held_out = list(text)
        yield path, n_words, held_out[:HELD_OUT], held_out[HELD_OUT:]


def mixture(case):
    least = case["min_count"]
    l2 = StructuredLogLinearLM(
        penalty="l2",
        lam=0.3,
        alpha=0.88,
        min_count=least,
        solver=AutoSolver(max_iter=1000),
    )
    refined = make_pipeline(ContextRefiner(PATH), l2)
    models = [("refined", refined), ("kn", KneserNeyLM())]
    return MixtureLM(models, weights="logistic")


def in_memory(case):
    alone = case["model"] == "Kneser-Ney"
    with text_and_held_out(case) as (path, n_words, valid, test):
        options = {} if alone else {"X_val": valid}
        model = KneserNeyLM() if alone else mixture(case)
        lm = LanguageModel(model, max_depth=DEPTH)
        with OwnMemory() as watch:
            fit = timed(lm.fit, TextFile(path), repeats=1, **options)
    found = {
        "words": n_words,
        "fit_seconds": fit.cpu,
        "wall_seconds": fit.wall,
        "own_peak_mb": watch.peak_mb,
        "validation": lm.perplexity(valid),
        "test": lm.perplexity(test),
    }
    if not alone:
        refined = lm.estimator_.distribution_.models[0]
        found["pairs"] = refined.pairs.n_pairs
    return found


def mixture_on_workers(case):
    with text_and_held_out(case) as (path, n_words, valid, test):
        lm = DaskLanguageModel(LanguageModel(mixture(case), max_depth=DEPTH))
        with two_workers(str(path.parent)) as client:
            pids = client.run(os.getpid)
            before = client.run(time.process_time)
            with OwnMemory(pids.values()) as watch:
                fit = timed(lm.fit, TextFile(path), repeats=1, X_val=valid)
            after = client.run(time.process_time)
    return {
        "words": n_words,
        "client_seconds": fit.cpu,
        "worker_seconds": sum(after[k] - before[k] for k in before),
        "wall_seconds": fit.wall,
        "client_mb": watch.peak_mb,
        "worker_mb": max(watch.peaks[1:]),
        "sum_mb": watch.sum_mb,
        "exchanged_mb": lm.n_bytes_exchanged_ / 1e6,
        "validation": lm.model_.perplexity(valid),
        "test": lm.model_.perplexity(test),
        "pairs": lm.model_.estimator_.distribution_.models[0].pairs.n_pairs,
    }


def memory(case):
    source = sampled()
    lm = LanguageModel(KneserNeyLM(), max_depth=DEPTH)
    text = TextFile(source, memory=case["memory_gb"] * 2**30)
    counted = []
    pairs = RunFile.pairs

    def reading(self):
        counted.append((watch.peak_mb, time.process_time()))
        return pairs(self)

    RunFile.pairs = reading
    start = time.process_time()
    with OwnMemory() as watch:
        before = watch.now_mb()
        fit = timed(lm.fit, text, repeats=1)
    model = lm.backoff_model_
    return {
        "bytes": os.path.getsize(source),
        "pairs": model.n_pairs,
        "contexts": model.n_nodes,
        "fit_seconds": fit.cpu,
        "wall_seconds": fit.wall,
        "counting_seconds": counted[0][1] - start,
        "counting_mb": counted[0][0] - before,
        "own_peak_mb": watch.peak_mb,
        "peak_mb": peak_mb(),
    }


class KeptCounts(WittenBellLM):
    """Keeps a copy of what it was fitted on."""

    def fit_counted(self, counted, *, overwrite=False):
        self.counted = counted.pairs, counted.count.copy()
        return super().fit_counted(counted, overwrite=overwrite)


def beyond(case):
    rng = np.random.default_rng(0)
    share = np.r_[MOST_FREQUENT, np.full(7, (1.0 - MOST_FREQUENT) / 7)]
    lines = rng.choice(8, size=(BLOCK_WORDS // LINE_WORDS, LINE_WORDS), p=share)
    text = np.full((len(lines), 2 * LINE_WORDS), ord(" "), dtype=np.uint8)
    text[:, ::2] = ord("a") + lines
    text[:, -1] = ord("\n")
    n_blocks = -(-BEYOND_WORDS // BLOCK_WORDS)
    # Letters, then the mark at the start (before) or at the end (after).
    known = np.zeros((9, 9), dtype=np.int64)
    np.add.at(known, (lines[:, :-1], lines[:, 1:]), n_blocks)
    np.add.at(known, (8, lines[:, 0]), n_blocks)
    np.add.at(known, (lines[:, -1], 8), n_blocks)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "text.txt")
        with open(path, "wb") as file:
            for _ in range(n_blocks):
                file.write(text)
        size = path.stat().st_size
        lm = LanguageModel(KeptCounts(), max_depth=1)
        reader = TextFile(path, memory=case["memory_gb"] * 2**30, folder=folder)
        with OwnMemory() as watch:
            before = watch.now_mb()
            fit = timed(lm.fit, reader, repeats=1)
    pairs, count = lm.estimator_.counted
    labels = lm.backoff_model_.labels
    place = {chr(ord("a") + i): i for i in range(8)} | {"<s>": 8, "</s>": 8}
    after = np.array([place.get(c, -1) for c in labels.classes])
    found, totals = np.zeros_like(known), np.zeros(9, dtype=np.int64)
    for node, y, c in zip(pairs.nodes(), pairs.target, count):
        if node == 0:
            if after[y] >= 0:
                totals[after[y]] = c
        else:
            symbol = labels.symbols[pairs.tree.symbol[node]]
            found[place[symbol], after[y]] = c
    exact = (found == known).all() and (totals == known.sum(axis=0)).all()
    exact = exact and count[: pairs.n_classes].sum() == known.sum()
    return {
        "words": n_blocks * BLOCK_WORDS,
        "bytes": size,
        "largest": int(count.max()),
        "exact": "yes" if exact else "no",
        "fit_seconds": fit.cpu,
        "wall_seconds": fit.wall,
        "own_peak_mb": watch.peak_mb - before,
    }


def log_linear(case):
    estimator = StructuredLogLinearLM(n_jobs=2, **PENALTIES[case["penalty"]])
    with tempfile.TemporaryDirectory() as folder:
        path, n_words = text_file("large", folder)
        lm = LanguageModel(estimator, max_depth=DEPTH)
        fit = timed(lm.fit, TextFile(path), repeats=1)
    fitted = lm.estimator_
    return {
        "words": n_words,
        "wall_seconds": fit.wall,
        "cpu_seconds": fit.cpu,
        "iterations": fitted.n_iter_,
        "residual": fitted.optimality_,
        "gap": fitted.gap_ / n_words,
        "peak_mb": peak_mb(),
    }


@functools.cache
def constants():
    """Seconds per word and per pair, and how pairs and words of a text grow."""
    sizes = {}
    for text in ("1 M words", "large"):
        with tempfile.TemporaryDirectory() as folder:
            path, n_words = text_file(text, folder)
            lm = LanguageModel(KneserNeyLM(), max_depth=DEPTH)
            fit = timed(lm.fit, TextFile(path), repeats=1)
        model = lm.backoff_model_
        sizes[text] = n_words, model.n_pairs, model.n_classes
    (n0, p0, v0), (n1, p1, v1) = sizes.values()
    seconds_per_word = fit.cpu / n1
    with tempfile.TemporaryDirectory() as folder:
        path, _ = text_file("1 M words", folder)
        estimator = StructuredLogLinearLM(**PENALTIES["l2"])
        lm = LanguageModel(estimator, max_depth=DEPTH)
        fit = timed(lm.fit, TextFile(path), repeats=1)
    n_iter = lm.estimator_.n_iter_
    solving = fit.cpu - n0 * seconds_per_word
    return {
        "n": n1,
        "pairs": p1,
        "classes": v1,
        "pair_exponent": float(np.log(p1 / p0) / np.log(n1 / n0)),
        "class_exponent": float(np.log(v1 / v0) / np.log(n1 / n0)),
        "seconds_per_word": seconds_per_word,
        "seconds_per_pair": solving / (n_iter * p0),
        "iterations": n_iter,
    }


def paper(case):
    measured, words = constants(), float(case["words"])
    times = words / measured["n"]
    pairs = measured["pairs"] * times ** measured["pair_exponent"]
    classes = measured["classes"] * times ** measured["class_exponent"]
    held = min(INT32_MAX, WORKER_BYTES / PAIR_BYTES)
    workers = int(np.ceil(pairs / held))
    cores = workers * WORKER_CORES
    counting = words * measured["seconds_per_word"] / cores
    iteration = pairs * measured["seconds_per_pair"] / cores
    # Root scores and Z out; E, A and the sums of the root pairs back; float64.
    sent = 4 * 8 * classes * workers
    # Pairs of parts as large as the text here go to their shards once.
    shuffled = words * measured["pairs"] / measured["n"] * SENT_BYTES
    n_iter = measured["iterations"]
    network = (shuffled + n_iter * sent) / (workers * WORKER_NETWORK)
    return {
        "pairs": pairs,
        "classes": classes,
        "terabytes": pairs * PAIR_BYTES / 1e12,
        "workers": workers,
        "counting_hours": counting / 3600,
        "training_hours": n_iter * iteration / 3600,
        "network_hours": network / 3600,
        "shuffled_gigabytes": shuffled / 1e9,
        "gigabytes_per_iteration": sent / 1e9,
        "us_per_word": 1e6 * measured["seconds_per_word"],
        "ns_per_pair": 1e9 * measured["seconds_per_pair"],
        "iterations": n_iter,
        "pair_exponent": measured["pair_exponent"],
        "class_exponent": measured["class_exponent"],
    }


def online(case):
    train, test = wikitext("train"), wikitext("test")
    estimator = KneserNeyLM()
    if case["model"] == "l2":
        estimator = StructuredLogLinearLM(penalty="l2", lam=0.1, alpha=0.7)
    # Closed: with an open one the batches have the classes of the text so far.
    known = sorted({w for sentence in train for w in sentence})
    whole = LanguageModel(clone(estimator), max_depth=DEPTH, vocabulary=known)
    fit = timed(whole.fit, train, repeats=1)
    grown = LanguageModel(estimator, max_depth=DEPTH, vocabulary=known)
    cuts = np.linspace(0, len(train), N_BATCHES + 1).astype(int)
    batches = [train[a:b] for a, b in pairwise(cuts)]
    begin = time.process_time()
    for batch in batches:
        grown.partial_fit(batch)
    seconds = time.process_time() - begin
    batch, online = whole.perplexity(test), grown.perplexity(test)
    same = np.array_equal(whole.backoff_model_.log_prob, grown.backoff_model_.log_prob)
    figures = {
        "batch_test": batch,
        "online_test": online,
        "percent": 100 * (online / batch - 1),
        "equal": "yes" if same else "no",
        "fit_seconds": fit.cpu,
        "online_seconds": seconds,
    }
    if case["model"] == "l2":
        grown = clone(grown)
        begin = time.process_time()
        for batch_of_either_pass in batches + batches:
            grown.partial_fit(batch_of_either_pass, window=N_BATCHES)
        figures["window_seconds"] = time.process_time() - begin
        twice = grown.perplexity(test)
        figures["second_test"] = twice
        figures["second_percent"] = 100 * (twice / batch - 1)
        figures["same_counts"] = (
            "yes" if grown.backoff_model_.pairs == whole.backoff_model_.pairs else "no"
        )
    return figures


PARTS = {
    "file": from_file,
    "memory": memory,
    "ARPA": text_to_arpa,
    "mixture": in_memory,
    "mixture, two workers": mixture_on_workers,
    "beyond 2^31": beyond,
    "log-linear": log_linear,
    "paper": paper,
    "online": online,
    "cluster": on_cluster,
    "shards": shards,
    "log-linear shards": loglinear_shards,
    "limits": limits,
    "presets": presets,
    "scoring": scoring,
}

if __name__ == "__main__":
    main(cases, run, peers=("lmplz",))
