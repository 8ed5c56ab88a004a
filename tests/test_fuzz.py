"""Readers of files get altered bytes: each file is read, or refused as a file.

A target is a reader with the files that it starts from: those of ``tests/corpora``, of
its own name, and what is altered in them is drawn from a seed. The reader must
return something that answers, or raise ValueError or OSError, within seconds and a
bounded amount of memory. It runs in a fork, since a fault of a kernel ends a process.

    pytest tests/test_fuzz.py -m slow               # every target, ten thousand files
    python tests/test_fuzz.py arpa 5000 90000       # one target, these numbers
    python tests/test_fuzz.py corpora               # write the corpora again

A file that a target fails on belongs into its corpus, under a name that says why.
"""

import io
import json
import os
import random
import re
import resource
import signal
import sys
import tempfile
import traceback
import warnings
from pathlib import Path

import numpy as np
import pytest
from _fasttext_models import MODELS
from _loglinear import loglinear

from sklstruct.exchange._formats import FORMATS

CORPORA = Path(__file__).parent / "corpora"
MAX_BYTES = 1 << 30  # above what the process has already
MAX_SECONDS = 20  # of CPU, of one file
REFUSED = (ValueError, OSError)

# --------------------------------------------------------------------- targets


def ask(model):
    """Probabilities of a back-off model that was read."""
    ids = np.arange(min(4, model.labels.classes.size))
    rows = model.rows(np.arange(min(6, model.tree.n_nodes)))
    assert not np.isnan(rows).any()
    assert not np.isnan(model.log_backoff).any() and ids.size


def formats(name):
    def read(path):
        from sklstruct import exchange

        ask(exchange.read(path, format=name))

    return read


def kenlm(path):
    from sklstruct.compat import kenlm

    model = kenlm.Model(path)
    assert not np.isnan(model.score("the cat sat"))
    list(model.full_scores("a dog never sat"))


def automaton(path):
    from sklstruct.language_model import WeightedAutomaton

    found = WeightedAutomaton.from_att(path)
    assert (found.expected_windows(2).sample_weight >= 0).all()


def sparse_labels(path):
    from sklstruct.datasets import load_sparse_labels

    [(X, Y)] = load_sparse_labels(path)
    X.check_format()
    Y.check_format()
    assert X.shape[0] == Y.shape[0] and np.isfinite(X.data).all()


def text(path):
    from sklstruct import KneserNeyLM, LanguageModel
    from sklstruct.symbols import TextFile

    lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2, min_count=1)
    assert lm.fit(TextFile(path)).perplexity(["the cat", "sat"]) > 0


def taxonomy(path):
    """A tree as JSON: nested lists, or an object with a map of parents or of paths."""
    from sklstruct.taxonomy import Taxonomy

    tree = json.loads(Path(path).read_bytes())
    if isinstance(tree, dict) and "parents" in tree:
        made = Taxonomy.from_parents(tree["parents"])
    elif isinstance(tree, dict) and "paths" in tree:
        made = Taxonomy.from_paths(tree["paths"])
    else:
        made = Taxonomy.from_nested(tree)
    made.export_text()
    Taxonomy.from_nested(made.to_nested())


def classifier(path):
    from sklstruct.text import TextClassifier

    model = TextClassifier.load(path)
    assert np.isfinite(model.predict_proba(["the cat", "", "a dog ran", "xyz"])).all()
    model.explain("the cat sat")


def fasttext(path):
    from sklstruct.compat import fasttext

    model = fasttext.load_model(path)
    texts = ["the card", "", "lost </s> a", "中文 unknown"]
    if getattr(model.f.getArgs(), "model", "supervised") == "supervised":
        for k in (1, -1):
            _, found = model.predict(texts, k, on_unicode_error="replace")
            assert np.isfinite(np.concatenate(found)).all()
        model.test(__file__, 2)
    model.get_words(on_unicode_error="replace")
    for word in ("card", "unknown"):
        assert np.isfinite(model[word]).all()
        model.get_nearest_neighbors(word, 2, on_unicode_error="replace")
    model.get_sentence_vector(texts[0])


def steps(path):
    """A fit that goes on from a checkpoint that is not what was written."""

    X, y = np.arange(12).reshape(6, 2) % 3, np.arange(6) % 2
    lm = loglinear(max_iter=4, tol=0.0, checkpoint=path).fit(X, y)
    assert np.isfinite(lm.predict_proba(X)).all()


TARGETS = {
    **{name: formats(name) for name in FORMATS},
    "any": formats(None),
    "kenlm_module": kenlm,
    "automaton": automaton,
    "sparse_labels": sparse_labels,
    "text": text,
    "taxonomy": taxonomy,
    "checkpoint": steps,
    "classifier": classifier,
    "fasttext": fasttext,
}


LINES = ["the cat sat", "the dog ran", "a cat ran", "the dog sat down"]


def write_small(path, name):
    """A small model in a format."""
    from sklstruct import KneserNeyLM, LanguageModel, exchange

    lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2, min_count=1).fit(LINES)
    exchange.write(lm.backoff_model_, path, format=name)


def write_corpora():
    """Small files of every reader, made by the package."""
    from sklstruct.datasets import save_sparse_labels
    from sklstruct.text import TextClassifier

    def put(name, file, data):
        folder = CORPORA / name
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / file
        if isinstance(data, bytes):
            path.write_bytes(data)
        else:
            data(path)

    def model_as(name):
        return lambda path: write_small(path, name)

    for name in FORMATS:
        put(name, "small", model_as(name))
        put("any", name, model_as(name))
    for suffix in (".gz", ".bz2", ".xz"):
        put("any", f"arpa{suffix}", model_as("arpa"))
    put("kenlm_module", "small.bin", model_as("kenlm"))
    put("kenlm_module", "small.arpa", model_as("arpa"))
    put(
        "automaton",
        "small",
        b"0 1 the the 0.5\n1 2 cat 1.0\n1 2 dog\n0 2 a 1.2\n2 0.25\n",
    )
    X, Y = [[0, 0.25, 1], [1, 0, 0], [0, 0, 3]], [[1, 1, 0], [0, 0, 0], [0, 1, 1]]
    put("sparse_labels", "sizes", lambda path: save_sparse_labels(path, X, Y))
    put("sparse_labels", "plain", b"1,2 1:0.5 4:2\n 2:1\n0 3:1e5\n")
    put("text", "lines", "the cat sat\nthe dog\n\nein Größe ran\r\n".encode())
    put("text", "marks", b"<s> the cat </s>\n<unk> sat\x00down\n")
    for name, features, labels in (
        ("one label", "both", ["cat", "dog", "cat", "dog"]),
        ("several labels", "words", [["cat"], ["dog", "run"], ["run"], ["dog"]]),
    ):
        model = TextClassifier(features, min_df=1, random_state=0).fit(LINES, labels)
        put("classifier", f"{name}.sktext", model.save)
    put("taxonomy", "nested", b'[["cat", "dog"], [["car"], ["bus", "tram"]]]')
    put("taxonomy", "names", b'{"animal": ["cat", "dog"], "rail": {"old": ["tram"]}}')
    put("taxonomy", "parents", b'{"parents": {"cat": 1, "dog": 1, "1": 0, "bus": 0}}')
    put("taxonomy", "paths", b'{"paths": {"cat": ["animal"], "bus": ["road", "big"]}}')


# ------------------------------------------------------------------ alterations

NUMBERS = [
    *(b"0", b"-1", b"7", b"1_0", b"0x1F", b"", b"-0.0", b"1e999", b"nan", b"-inf"),
    *(b"99999999999999999999", b"2147483648", b"4294967295", b"1e-320"),
]
BYTES = [0, 1, 9, 10, 13, 32, 127, 128, 194, 255]


def altered(data, others, rng):
    """One to four changes of a file; now and then none."""
    data = bytearray(data)
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 3, 4))):
        at = rng.randrange(len(data) + 1)
        end = min(len(data), at + rng.choice((1, 1, 2, 4, 8, 30, 200)))
        kind = rng.randrange(9)
        if kind == 0 and at < len(data):
            data[at] = rng.choice((rng.randrange(256), rng.choice(BYTES)))
        elif kind == 1 and at < len(data):
            data[at] ^= 1 << rng.randrange(8)
        elif kind == 2:
            del data[at:end]
        elif kind == 3:
            data[at:at] = data[at:end]
        elif kind == 4:
            del data[at:]
        elif kind == 5:
            data[at:at] = bytes([rng.choice(BYTES)] * rng.choice((1, 1, 3, 300)))
        elif kind == 6:
            other = rng.choice(others)
            data[at:end] = other[rng.randrange(len(other) + 1) :][: rng.randrange(99)]
        elif kind == 7:
            numbers = list(re.finditer(rb"-?\d+(?:\.\d+)?", data))
            if numbers:
                begin, stop = rng.choice(numbers).span()
                data[begin:stop] = rng.choice(NUMBERS)
        elif kind == 8 and len(data) >= 8:  # integers of binary files
            at = rng.randrange(len(data) // 8) * 8
            value = rng.choice((0, 1, -1, 1 << 31, 1 << 40, (1 << 63) - 1))
            data[at : at + 8] = value.to_bytes(8, "little", signed=True)
    return bytes(data)


def written_checkpoint():
    """Its bytes hold versions and settings: no file of the corpora."""
    from sklstruct.loglinear import Checkpoint

    X, y = np.arange(12).reshape(6, 2) % 3, np.arange(6) % 2
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "fit.ckpt"
        keep = Checkpoint(path, interval=0)
        loglinear(max_iter=2, tol=0.0, checkpoint=keep).fit(X, y)
        return [path.read_bytes()]


def files(name):
    found = sorted((CORPORA / name).glob("*"))
    seeds = [path.read_bytes() for path in found]
    if name == "checkpoint":
        seeds += written_checkpoint()
    elif name == "fasttext":
        seeds += [model.to_bytes() for model in MODELS.values()]
    elif name in FORMATS and not seeds:  # a format that was just added
        small = io.BytesIO()
        write_small(small, name)
        seeds = [small.getvalue()]
    return seeds


def altered_file(name, seeds, number):
    """File `number` of a target; the first ones are the corpus as it is."""
    if number < len(seeds):
        return seeds[number]
    rng = random.Random(f"{name} {number}")
    return altered(rng.choice(seeds), seeds, rng)


# ------------------------------------------------------------------------- runs


def outcomes(name, first, last, report):
    """Read the files one by one; report all but answers and refusals."""
    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    read, seeds = TARGETS[name], files(name)
    path = Path(tempfile.mkdtemp()) / "file.ckpt"
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + MAX_BYTES
    n_read = 0
    for number in range(first, last):
        path.write_bytes(altered_file(name, seeds, number))
        report([number, "began"])
        signal.setitimer(signal.ITIMER_PROF, MAX_SECONDS)
        resource.setrlimit(resource.RLIMIT_AS, (most, resource.RLIM_INFINITY))
        try:
            read(str(path))
            n_read += 1
        except REFUSED:
            pass
        except BaseException as exc:
            where = traceback.extract_tb(exc.__traceback__)[-1]
            report(
                [number, f"{exc!r:.200} at {Path(where.filename).name}:{where.lineno}"]
            )
        signal.setitimer(signal.ITIMER_PROF, 0)
    report([n_read, "read"])


def in_a_fork(name, first, last):
    """(number, what) of the files that failed, and how many were read."""
    wrong, began, n_read = [], -1, 0
    receive, send = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.close(receive)
            signal.signal(signal.SIGPROF, signal.SIG_DFL)
            outcomes(
                name, first, last,
                lambda line: os.write(send, (json.dumps(line) + "\n").encode()),
            )  # fmt: skip
        except BaseException:
            traceback.print_exc()
            os._exit(3)
        os._exit(0)
    os.close(send)
    with os.fdopen(receive) as lines:
        for line in lines:
            number, what = json.loads(line)
            if what == "began":
                began = number
            elif what == "read":
                n_read = number
            else:
                wrong.append((number, what))
    code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    if code:
        wrong.append((began, f"the process ended with {code}"))
    return wrong, n_read


@pytest.mark.skipif(sys.platform != "linux", reason="each target runs in a fork")
@pytest.mark.parametrize("n_files", [120, pytest.param(10_000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("name", TARGETS)
def test_altered_files_are_read_or_refused(name, n_files):
    wrong, n_read = in_a_fork(name, 0, n_files)
    assert not wrong, "\n".join(f"{name} {number}: {what}" for number, what in wrong)
    # Some get through, some do not; hashes may refuse every change.
    assert (name not in ("classifier", "native")) <= n_read < n_files


if __name__ == "__main__":
    if sys.argv[1] == "corpora":
        write_corpora()
    else:
        name, first, last = sys.argv[1], *map(int, sys.argv[2:4])
        wrong, n_read = in_a_fork(name, first, last)
        for number, what in wrong:
            print(f"{name} {number}: {what}")
        print(f"{n_read} of {last - first} files were read")
        sys.exit(bool(wrong))
