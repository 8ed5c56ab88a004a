"""A disk without room: an error that names the file, and nothing lost or left behind.

The limit on the size of a file, which is one of the process, stands for the disk: it is
set in a fork of a child, and every write beyond it fails.
"""

import os
import subprocess
import sys

import pytest

from sklstruct.exchange import read
from sklstruct.factor_graph import ConditionalRandomField

pytestmark = pytest.mark.skipif(os.name == "nt", reason="limits of POSIX")

CHILD = """
import io, os, resource, sys, traceback, warnings
from pathlib import Path
import numpy as np
from sklstruct import KneserNeyLM, StructuredLogLinearLM
from sklstruct._cli import main
from sklstruct.compat import pycrfsuite
from sklstruct.exchange import write
from sklstruct.factor_graph import ConditionalRandomField
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import AutoSolver, Checkpoint
from sklstruct.symbols import TextFile

rng = np.random.default_rng(0)
words = [f"w{i}" for i in range(400)]
text = [" ".join(rng.choice(words, 12)) for _ in range(1500)]
small = LanguageModel(KneserNeyLM(discount=0.5), max_depth=1).fit(text[:2])
large = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(text)


def limit():
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))


def full(call):
    try:
        call()
    except OSError as exc:
        print(exc.errno, exc.filename, exc)
    else:
        print("nothing was raised")


def run(kind, folder):
    path = folder / f"old{kind}"
    (folder / "text").write_text("\\n".join(text * 4))
    if kind.startswith((".arpa", ".bin", ".trie", ".sklm")):
        format = {".bin": "kenlm", ".sklm": "native", ".trie": "trie"}.get(kind, "arpa")
        write(small.backoff_model_, path, format=format)
        limit()
        full(lambda: write(large.backoff_model_, path, format=format))
    elif kind in (".mix", ".prune", ".convert"):
        path = folder / "old.arpa"
        write(small.backoff_model_, path)
        for name in ("a.arpa", "b.arpa"):
            write(large.backoff_model_, folder / name)
        limit()
        a, b, out = (str(folder / name) for name in ("a.arpa", "b.arpa", path.name))
        given = {
            ".mix": ["mix", a, b, "--weights", "0.5,0.5", "-o", out],
            ".prune": ["prune", a, "--threshold", "0", "-o", out],
            ".convert": ["convert", a, out],
        }
        sys.stderr = sys.stdout
        print(main(given[kind]))
    elif kind == ".crfsuite":
        X = [[[f"{word}{i}"] for word in words] for i in range(3)]
        crf = ConditionalRandomField(max_iter=1)
        crf.fit(X[:1], [["a", "b"] * 200]).save(path)
        crf.fit(X, [["a", "b"] * 200] * 3)
        trainer = pycrfsuite.Trainer(params={"max_iterations": 1}, verbose=False)
        trainer.append(X[0] + X[1] + X[2], ["a", "b"] * 600)
        packed, tagger = io.BytesIO(), pycrfsuite.Tagger()
        crf.save(packed)
        tagger.open_inmemory(packed.getvalue())
        limit()
        full(lambda: crf.save(path))
        full(lambda: trainer.train(path))
        full(lambda: tagger.dump(path))
    elif kind == ".checkpoint":
        model = StructuredLogLinearLM(
            penalty="l2", solver=AutoSolver(max_iter=3),
            checkpoint=Checkpoint(path, interval=0),
        )
        lm = LanguageModel(model, max_depth=2)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            lm.fit(text)
        print(path.read_bytes().hex()[:2000], path.stat().st_size)
        limit()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            fitted = lm.set_params(estimator__solver__max_iter=300).fit(text)
        print(*{str(w.message) for w in caught if w.category is RuntimeWarning})
        print(path.read_bytes().hex()[:2000], path.stat().st_size)
        print(fitted.estimator_.optimality_)
    elif kind == ".runs":
        limit()
        reader = TextFile(folder / "text", memory=400_000, folder=folder)
        full(lambda: LanguageModel(KneserNeyLM(), max_depth=4).fit(reader))


base = Path(sys.argv[1])
for kind in sys.argv[2:]:
    (base / kind).mkdir()
    if not os.fork():
        sys.stdout = open(base / f"said{kind}", "w")
        code = 1
        try:
            run(kind, base / kind)
            sys.stdout.flush()
            code = 0
        except BaseException:
            traceback.print_exc()
        os._exit(code)
    assert os.wait()[1] == 0, kind
"""


MODELS = [".arpa", ".arpa.gz", ".bin", ".trie", ".sklm"]
COMMANDS = [".mix", ".prune", ".convert"]


@pytest.fixture(scope="module")
def child(tmp_path_factory):
    """child(kind): the folder of a kind, and the lines that were printed."""
    base = tmp_path_factory.mktemp("disk")
    kinds = [*MODELS, *COMMANDS, ".crfsuite", ".checkpoint", ".runs"]
    command = [sys.executable, "-P", "-c", CHILD, base, *kinds]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return lambda kind: (base / kind, (base / f"said{kind}").read_text().splitlines())


@pytest.mark.processes
@pytest.mark.parametrize("kind", MODELS)
def test_models(kind, child):
    folder, (said,) = child(kind)
    path = folder / f"old{kind}"
    assert str(path) in said, said
    assert sorted(os.listdir(folder)) == [path.name, "text"]
    assert len(read(path).labels.classes) < 40  # the old model, whole


@pytest.mark.processes
def test_models_of_crfsuite(child):
    folder, said = child(".crfsuite")
    path = folder / "old.crfsuite"
    assert len(said) == 3 and all(str(path) in line for line in said), said
    assert sorted(os.listdir(folder)) == [path.name, "text"]
    assert len(ConditionalRandomField.load(path).feature_names_) == 400  # the old one


@pytest.mark.processes
@pytest.mark.parametrize("kind", COMMANDS)
def test_commands(kind, child):
    folder, (*said, code) = child(kind)
    path = folder / "old.arpa"
    assert code == "1" and str(path) in said[-1], said
    assert sorted(os.listdir(folder)) == ["a.arpa", "b.arpa", path.name, "text"]
    assert len(read(path).labels.classes) < 40  # the old model, whole


@pytest.mark.processes
def test_checkpoints(child):
    folder, (before, warned, after, optimality) = child(".checkpoint")
    assert "the fit continues" in warned and str(folder / "old.checkpoint") in warned
    assert after == before
    assert float(optimality) <= 1e-2
    assert sorted(os.listdir(folder)) == ["old.checkpoint", "text"]


@pytest.mark.processes
def test_runs(child):
    folder, (said,) = child(".runs")
    assert "no room for" in said and str(folder) in said, said
    assert os.listdir(folder) == ["text"]
