"""The command: what it prints, its files, its exit codes, its page of the guide."""

import gzip
import io
import itertools
import json
import os
import pickle
import re
import signal
import subprocess
import sys
import time
import tomllib
import warnings
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from sklstruct import KneserNeyLM, LanguageModel, _cli, exchange
from sklstruct._cli._arguments import MODELS, every_parser, make_parser
from sklstruct._cli._kenlm import _shortest
from sklstruct._compat import HAS_CALLBACKS
from sklstruct.backoff import mix, prune
from sklstruct.compat import kenlm as ours
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import interpolate
from sklstruct.smoothing import AdditiveLM
from sklstruct.symbols import TextFile

TEXT = [" ".join(words) for words in load_python_topics()[:400]]
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "user_guide" / "command_line.rst"


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("train.txt").write_text("\n".join(TEXT[:300]) + "\n", encoding="utf-8")
    Path("test.txt").write_text("\n".join(TEXT[300:]) + "\n", encoding="utf-8")
    return tmp_path


def run(*arguments, stdin=None, monkeypatch=None):
    """Exit code of a command that was given so many words."""
    if stdin is not None:
        monkeypatch.setattr(
            sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        )
    return _cli.main([str(a) for a in arguments])


def reference(max_depth=4, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LanguageModel(KneserNeyLM(), max_depth=max_depth, **parameters).fit(
            TEXT[:300]
        )


def same_scores(path, model):
    a, b = ours.Model(path), ours.Model.from_backoff(model)
    np.testing.assert_allclose(a.score_many(TEXT), b.score_many(TEXT), rtol=1e-5)
    return True


# Packages that cost a second and more at each start.
HEAVY = {"sklearn", "scipy", "pandas", "joblib", "threadpoolctl"}


def imported(*commands, cwd):
    """The packages that one process has imported after each of the commands.

    Modules stay, so that the packages after the last command are those of all.
    """
    code = (
        "import io, json, sys\n"
        "from sklstruct._cli import main\n"
        "data = sys.stdin.buffer.read()\n"
        "for words in json.loads(sys.argv[1]):\n"
        "    sys.stdin = io.TextIOWrapper(io.BytesIO(data), encoding='utf-8')\n"
        "    try:\n        code = main(words)\n"
        "    except SystemExit as exc:\n        code = exc.code\n"
        "    assert not code, words\n"
        "    names = {m.split('.')[0] for m in sys.modules}\n"
        "    print('MODULES', *names, file=sys.stderr)"
    )
    given = json.dumps([list(map(str, words)) for words in commands])
    done = subprocess.run(
        [sys.executable, "-c", code, given],
        input=Path("test.txt").read_bytes(),
        cwd=cwd,
        capture_output=True,
        check=True,
    )
    lines = done.stderr.decode().splitlines()
    found = [set(line.split()[1:]) for line in lines if line.startswith("MODULES ")]
    assert len(found) == len(commands)
    return found


@pytest.mark.processes
def test_imports(folder):
    """Help starts without numpy, what works on tables without scikit-learn."""
    names = ([], ["lmplz"], ["train"], ["query"], ["classify", "train"])
    for modules in imported(*([*name, "--help"] for name in names), cwd=folder):
        assert modules.isdisjoint(HEAVY | {"numpy"})
    given = "lmplz", "-o", 3, "--discount_fallback", "--text", "train.txt"
    more = ([], ["--prune", 0, 0, 1], ["--skip_symbols"], ["-S", "100M"])
    tables = imported(
        *([*given, "--arpa", "m.arpa", *options] for options in more),
        ["build_binary", "m.arpa", "m.bin"],
        *([name, model] for name in ("query", "info") for model in ("m.arpa", "m.bin")),
        ["convert", "m.arpa", "m.sklm"],
        cwd=folder,
    )
    for modules in tables:
        assert modules.isdisjoint(HEAVY) and "numpy" in modules
    mix = "mix", "m.arpa", "m.bin", "--weights", "0.5,0.5", "-o", "b.arpa"
    # the entropies of pruning are SciPy's
    prune = "prune", "m.arpa", "-o", "p.arpa", "--threshold", 1
    for modules in imported(mix, prune, cwd=folder):
        assert "sklearn" not in modules


def test_lazy_packages(tmp_path):
    """The import of a package imports nothing that is not used."""
    packages = sorted(
        path.parent.name
        for path in Path(_cli.__file__).parents[1].glob("*/__init__.py")
        if not path.parent.name.startswith("_")
    )
    code = "import sys, sklstruct\n"
    code += "".join(f"import sklstruct.{package}\n" for package in packages)
    code += "print(*sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=tmp_path, capture_output=True, check=True
    )
    assert HEAVY.isdisjoint(done.stdout.decode().split())


@pytest.mark.parametrize("name", ["m.arpa", "m.arpa.gz", "m.bin", "m.trie", "m.sklm"])
def test_train(folder, name, capsys):
    assert run("train", "train.txt", "-o", name, "-n", 3) == 0
    assert same_scores(name, reference(2).backoff_model_)


def test_train_reads_standard_input(folder, monkeypatch):
    text = Path("train.txt").read_bytes()
    assert run("train", "-", "-o", "m.bin", stdin=text, monkeypatch=monkeypatch) == 0
    assert same_scores("m.bin", reference().backoff_model_)


def test_train_options(folder, capsys):
    Path("words").write_text(" ".join(TEXT[0].split()))
    for given, parameters in (
        (["--min-count", 2], {"min_count": 2}),
        (["--max-vocabulary", 50], {"max_vocabulary": 50}),
        (["--vocabulary", "words"], {"vocabulary": TEXT[0].split()}),
        (["--unknown", "UNK"], {"unknown": "UNK"}),
    ):
        assert run("train", "train.txt", "-o", "m.bin", *given, "-q") == 0
        assert same_scores("m.bin", reference(**parameters).backoff_model_)


@pytest.mark.parametrize("name", [k for k, v in MODELS.items() if v])
def test_every_table_is_trained(folder, name):
    given = ["--model", name, "-n", 2, "-q"]
    assert run("train", "train.txt", "-o", "m.arpa", *given) == 0
    assert LanguageModel.load("m.arpa").perplexity(TEXT[300:]) > 1


@pytest.fixture
def model(folder):
    assert run("train", "train.txt", "-o", "m.arpa", "-n", 3, "-q") == 0
    return LanguageModel.load("m.arpa")


def test_evaluate(model, capsys):
    test = TEXT[300:]
    assert run("evaluate", "m.arpa", "test.txt", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    value, counts = model.perplexity(test, return_counts=True)
    assert figures["perplexity"] == value
    assert figures["n_unknown"] == counts.n_unknown > 0
    assert figures["n_sentences"] == len(test)
    assert figures["perplexity_without_end"] == model.perplexity(
        test, include_end=False
    )
    assert run("evaluate", "m.arpa", "test.txt", "--by-depth", "--json") == 0
    rows = json.loads(capsys.readouterr().out)
    assert sum(row["n_tokens"] for row in rows) == figures["n_tokens"]
    assert run("evaluate", "m.arpa", "test.txt", "--per-sentence") == 0
    lines = capsys.readouterr().out.splitlines()
    scores = [float(line.split("\t")[0]) for line in lines]
    np.testing.assert_allclose(
        scores, model.score_samples(test) / np.log(10), atol=1e-4
    )
    assert sum(int(line.split("\t")[2]) for line in lines) == counts.n_unknown
    assert [line.split("\t")[-1] for line in lines] == test


@pytest.mark.parametrize("form", ["--json", "--by-depth", "--per-sentence"])
def test_an_empty_text_is_an_error_in_every_form(model, capsys, form):
    Path("empty.txt").write_text("")
    assert run("evaluate", "m.arpa", "empty.txt", form) == 1
    assert "holds no token to score: it is empty" in capsys.readouterr().err


@pytest.mark.parametrize("mark", ["end", "unknown"])
def test_evaluate_without_a_mark(mark, folder, capsys, monkeypatch):
    """A figure without tokens is null, and sentences are those of the text."""
    lm = LanguageModel(AdditiveLM(), max_depth=1, **{mark: None}).fit(TEXT[:300])
    lm.save("m.sklm")
    text = b"zebra\n\nzebra\n"
    given = ["evaluate", "m.sklm", "--json"]
    assert run(*given, stdin=text, monkeypatch=monkeypatch) == 0
    figures = json.loads(capsys.readouterr().out)
    lm.set_params(out_of_vocabulary="exclude")
    assert figures["perplexity"] == lm.perplexity(["zebra", "zebra"]) > 1
    other = "unknown" if mark == "end" else "end"
    assert figures[f"perplexity_without_{other}"] is None
    assert figures[f"perplexity_without_{mark}"] == figures["perplexity"]
    assert figures["n_tokens"] == figures["n_sentences"] == figures["n_unknown"] == 2
    assert run(*given[:-1], stdin=text, monkeypatch=monkeypatch) == 0
    out = capsys.readouterr().out
    assert re.search(rf"^perplexity_without_{other} +-$", out, re.M)


def test_a_pickle_of_integers(folder, capsys):
    lm = LanguageModel(AdditiveLM(), max_depth=1).fit([[1, 2, 3], [2, 1]])
    Path("m.pkl").write_bytes(pickle.dumps(lm))
    assert run("sample", "m.pkl", "-k", 3, "--seed", 0) == 0
    drawn = lm.sample(3, random_state=0)
    expected = [" ".join(map(str, sentence)) for sentence in drawn]
    assert capsys.readouterr().out.splitlines() == expected


def test_sample(model, capsys):
    given = ["m.arpa", "-k", 5, "--seed", 3, "--prefix", "the", "--max-length", 7]
    assert run("sample", *given) == 0
    drawn = model.sample(5, random_state=3, prefix="the", max_length=7)
    assert capsys.readouterr().out.splitlines() == [" ".join(s) for s in drawn]
    assert run("sample", "m.arpa", "-k", 0) == 0
    assert capsys.readouterr().out == ""


def test_prune_and_convert_and_info(model, capsys):
    assert run("prune", "m.arpa", "-o", "small.arpa", "--threshold", 1e-4) == 0
    small = exchange.read("small.arpa")
    assert same_scores("small.arpa", prune(exchange.read("m.arpa"), 1e-4))
    assert small.n_pairs < exchange.read("m.arpa").n_pairs
    assert run("convert", "small.arpa", "small.bin") == 0
    assert run("convert", "small.bin", "again.arpa", "--precision", 9) == 0
    assert same_scores("again.arpa", small)
    capsys.readouterr()
    for name in ("small.arpa", "small.bin"):
        assert run("info", name, "--json") == 0
        figures = json.loads(capsys.readouterr().out)
        assert figures["order"] == 3 and figures["n_words"] == small.n_classes
        grams = sum(figures[f"n_{k}_grams"] for k in (1, 2, 3))
        assert grams == small.n_pairs
    assert run("convert", "m.arpa", "-") == 0


def test_prune_to_a_size_and_to_words(model, capsys):
    whole = exchange.read("m.arpa")
    assert run("prune", "m.arpa", "-o", "n.arpa", "--to", 2000) == 0
    assert exchange.read("n.arpa").n_pairs == 2000
    assert same_scores("n.arpa", prune(whole, to=2000))
    assert run("prune", "m.arpa", "-o", "b.bin", "--to", "0.05MB") == 0
    assert same_scores("b.bin", prune(whole, to="0.05MB"))
    Path("words").write_text("\n".join(TEXT[:3]) + "\nunheard\n")
    smaller = prune(whole, vocabulary=" ".join(TEXT[:3]).split())
    given = ["prune", "m.arpa", "-o", "r.arpa", "--vocabulary", "words"]
    assert run(*given) == 0 and same_scores("r.arpa", smaller)
    assert run(*given, "--to", 200) == 0
    assert same_scores("r.arpa", prune(smaller, to=200))
    assert run("prune", "m.arpa", "-o", "x.arpa", "--vocabulary", "") == 1
    assert "no such file" in capsys.readouterr().err
    assert run("prune", "m.arpa", "-o", "x.arpa") == 1
    assert "--to or --vocabulary is needed" in capsys.readouterr().err


def test_mix(model, folder, capsys):
    Path("other.txt").write_text("\n".join(TEXT[200:300]) + "\n")
    given = ["--min-count", 2, "-n", 2, "-q"]
    assert run("train", "other.txt", "-o", "o.bin", *given) == 0
    given = ["mix", "m.arpa", "o.bin", "--tune", "test.txt"]
    assert run(*given, "-o", "both.arpa", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    expected = interpolate(["m.arpa", "o.bin"], TEXT[300:])
    weights = expected.estimator_.weights_
    names, found = zip(*figures["weights"])
    np.testing.assert_allclose(found, weights, rtol=1e-9)
    assert names == ("m.arpa", "o.bin")
    assert 0 <= figures["weight_gap"] < 1e-3
    assert figures["perplexity"] == pytest.approx(expected.perplexity(TEXT[300:]))
    parts = [exchange.read(name) for name in ("m.arpa", "o.bin")]
    assert same_scores("both.arpa", mix(parts, weights))
    given[2] = "m.arpa"  # each has a weight, and their sum is 1
    assert run(*given, "-o", "twice.arpa", "--json") == 0
    found = [w for _, w in json.loads(capsys.readouterr().out)["weights"]]
    assert len(found) == 2 and sum(found) == pytest.approx(1)
    given[2] = "o.bin"
    assert run(*given, "-o", "both.sklm") == 0
    assert exchange.read("both.sklm").n_pairs == exchange.read("both.arpa").n_pairs
    # Exact in a pickle, and given weights.
    given = ["mix", "m.arpa", "o.bin", "--weights", "0.25,0.75"]
    assert run(*given, "-o", "both.pkl") == 0
    capsys.readouterr()
    assert run("evaluate", "both.pkl", "test.txt", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    exact = interpolate(["m.arpa", "o.bin"], weights=[0.25, 0.75])
    assert run(*given, "-o", "both.bin", "-q") == 0
    assert same_scores("both.bin", mix(parts, [0.25, 0.75]))
    assert figures["perplexity"] == pytest.approx(exact.perplexity(TEXT[300:]))
    assert run("sample", "both.pkl", "-k", 2, "--seed", 0) == 0
    capsys.readouterr()
    assert run("mix", "m.arpa", "o.bin", "--weights", "1", "-o", "x.arpa") == 1
    assert "1 numbers for 2 models" in capsys.readouterr().err
    # The pickle of a mixture is read as the table that a file of the mixture has.
    assert run("convert", "both.pkl", "x.sklm") == 0
    assert run(*given, "-o", "y.sklm") == 0
    assert "approximate probabilities" in capsys.readouterr().err
    assert Path("x.sklm").read_bytes() == Path("y.sklm").read_bytes()
    assert run("mix", "m.arpa", "both.pkl", "--weights", "0.5,0.5", "-o", "z.sklm") == 0
    lm = interpolate(["m.arpa", "o.bin"], TEXT[300:], weights="by_depth")
    Path("d.pkl").write_bytes(pickle.dumps(lm))
    capsys.readouterr()
    assert run("mix", "m.arpa", "d.pkl", "--weights", "1,0", "-o", "x.arpa") == 1
    said = capsys.readouterr().err
    assert "d.pkl is not a table" in said and "depend on the history" in said


@pytest.mark.processes
def test_qualities(folder, capsys):
    given = ["train", "train.txt", "-n", 3, "-q", "--model"]
    assert run(*given, "kneser-ney", "-o", "f.arpa") == 0
    assert same_scores("f.arpa", reference(2).backoff_model_)
    assert run(*given, "better", "-o", "g.pkl.gz") == 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        expected = LanguageModel("better", max_depth=2).fit(TEXT[:300])
    assert run("evaluate", "g.pkl.gz", "test.txt", "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["perplexity"] == pytest.approx(expected.perplexity(TEXT[300:]))
    assert run("evaluate", "g.pkl.gz", "test.txt", "--by-depth") == 1
    assert "needs one tree of contexts, which a MixtureLM" in capsys.readouterr().err
    for command in (["prune", "--to", 5000], ["convert"], ["info"]):
        name, *more = command
        out = {"prune": ["-o", "x.arpa"], "convert": ["x.arpa"], "info": []}[name]
        assert run(name, "g.pkl.gz", *out, *more) == 1
        assert "MixtureLM" in capsys.readouterr().err
    assert run("convert", "f.arpa", "f.pkl") == 0
    assert run("convert", "f.pkl", "g.arpa") == 0
    assert same_scores("g.arpa", exchange.read("f.arpa"))
    assert not Path("x.arpa").exists()


# ---------------------------------------------------------------- odd arguments

# Files that are not models, by their kind.
ODD = {
    "absent": None,
    "folder": "folder",
    "empty.arpa": b"",
    "empty.pkl": b"",
    "text.pkl": b"no pickle\n",
    "other.pkl": pickle.dumps({"a": 1}),
    "short.pkl": pickle.dumps(list(range(1000)))[:-5],
    "empty.bin": b"",
    "zeros.bin": bytes(300),
    "cut.arpa": b"\\data\\\nngram 1=5\n\n\\1-grams:\n-1\ta\n",
    "text.gz": b"not packed\n",
}
COMMANDS = [
    ["evaluate", "{}", "test.txt"],
    ["evaluate", "m.arpa", "{}"],
    ["sample", "{}", "-k", "1"],
    ["prune", "{}", "-o", "x.arpa", "--to", "500"],
    ["prune", "m.arpa", "-o", "x.arpa", "--vocabulary", "{}"],
    ["mix", "{}", "m.arpa", "-o", "x.arpa", "--weights", "0.5,0.5"],
    ["mix", "m.arpa", "m.arpa", "-o", "x.arpa", "--tune", "{}"],
    ["convert", "{}", "x.bin"],
    ["info", "{}"],
    ["train", "{}", "-o", "x.arpa"],
    ["train", "train.txt", "-o", "x.arpa", "--vocabulary", "{}"],
    ["train", "train.txt", "-o", "x.pkl", "--model", "better", "--tune", "{}"],
]


@pytest.mark.parametrize("given", COMMANDS, ids=" ".join)
def test_odd_files(model, given, capsys):
    for name, content in ODD.items():
        if content == "folder":
            Path(name).mkdir(exist_ok=True)
        elif content is not None:
            Path(name).write_bytes(content)
        reads_text = given[0] == "train" or given[-1] == "{}"
        if reads_text and name in ("text.pkl", "cut.arpa", "text.gz"):
            continue  # a text as good as any
        code = run(*(name if word == "{}" else word for word in given))
        out, err = capsys.readouterr()
        if code == 0:  # an empty or binary text may be read where it is one
            assert reads_text and name not in ("absent", "folder", "empty.arpa"), name
            Path("x.arpa").unlink(missing_ok=True)
            continue
        assert code == 1, (name, code)
        last = err.splitlines()[-1]
        assert last.startswith(f"sklstruct {given[0]}: ") and len(last) > 25, last
        assert "Traceback" not in err and not Path("x.arpa").exists()


def test_a_model_of_one_word(folder, capsys):
    Path("one.txt").write_text("word\nword word\n" * 5)
    assert run("train", "one.txt", "-o", "one.arpa", "-n", 2, "-q") == 0
    assert run("prune", "one.arpa", "-o", "p.arpa", "--to", 3, "-q") == 0
    assert exchange.read("p.arpa").n_pairs == 3
    assert run("prune", "one.arpa", "-o", "q.arpa", "--to", 2, "-q") == 1
    given = ["one.arpa", "p.arpa", "-o", "m.arpa", "--weights", "0.5,0.5"]
    assert run("mix", *given) == 0
    assert run("mix", *given[:-2], "--tune", "one.txt") == 0
    assert LanguageModel.load("m.arpa").perplexity(["word"]) < 10
    Path("words").write_text("nothing of it\n")
    assert run("prune", "one.arpa", "-o", "x.arpa", "--vocabulary", "words") == 1
    assert "holds no word of the model" in capsys.readouterr().err


def test_same_file_in_and_out(model, folder, capsys):
    before = Path("m.arpa").read_bytes()
    os.link("m.arpa", "link.arpa")
    for given in (
        ["prune", "m.arpa", "-o", "m.arpa", "--to", 2000],
        ["prune", "m.arpa", "-o", "link.arpa", "--to", 2000],
        ["mix", "m.arpa", "m.arpa", "-o", "./m.arpa", "--weights", "0.5,0.5"],
        ["convert", "m.arpa", "m.arpa"],
    ):
        assert run(*given) == 1
        assert "would be read and written" in capsys.readouterr().err
    assert Path("m.arpa").read_bytes() == before


# ------------------------------------------------------- terminal, completion


class Terminal(io.StringIO):
    def isatty(self):
        return True


@pytest.mark.parametrize("n", [60, 300])
def test_progress_is_for_terminals(n, folder, capsys, monkeypatch):
    Path("train.txt").write_text("\n".join(TEXT[:n]) + "\n", encoding="utf-8")
    given = ["train", "train.txt", "-n", 2, "--model", "better", "-o", "b.pkl"]
    assert run(*given) == 0
    assert "learning" not in capsys.readouterr().err
    # A clock that goes on by a second each time it is read, so that each step is shown.
    clock = SimpleNamespace(monotonic=itertools.count().__next__)
    monkeypatch.setattr("sklstruct._cli._tables.time", clock)
    for more, shown in (([], True), (["-q"], False)):
        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        assert run(*given, *more) == 0
        text = terminal.getvalue()
        assert ("learning from train.txt (" in text) == shown
        # The steps of a fit are told by callbacks, of scikit-learn 1.9.
        assert (", step" in text) == (shown and HAS_CALLBACKS)
        assert ("writing b.pkl" in text) == shown
        # The line is gone when the command ends.
        assert not shown or text.endswith("\r\x1b[K")
    monkeypatch.undo()
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion(shell, capsys):
    pytest.importorskip("shtab")
    with pytest.raises(SystemExit) as caught:
        run("--print-completion", shell)
    assert caught.value.code == 0
    script = capsys.readouterr().out
    for name in ("build_binary", "--tune", "kneser-ney", "better"):
        assert name in script
    if shell == "bash":
        assert subprocess.run(["bash", "-n"], input=script, text=True).returncode == 0


def test_completion_without_shtab(capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "shtab", None)
    with pytest.raises(SystemExit) as caught:
        run("--print-completion", "bash")
    assert caught.value.code == 1
    assert "sklstruct[completion]" in capsys.readouterr().err


# ----------------------------------------------------------------------- KenLM


def test_bare_names(folder, capsys, monkeypatch):
    """The scripts of packaging/kenlm-tools are there, and run."""
    page = ROOT / "packaging" / "kenlm-tools" / "pyproject.toml"
    project = tomllib.loads(page.read_text(encoding="utf-8"))["project"]
    assert project["dependencies"] == ["sklstruct"]
    scripts = {}
    for name, place in project["scripts"].items():
        scripts[name] = EntryPoint(name, place, "console_scripts").load()
    assert set(scripts) == {"lmplz", "query", "build_binary"}

    def call(*words, stdin=b""):
        stream = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)
        monkeypatch.setattr(sys, "argv", list(words))
        return scripts[words[0]]()

    given = ["-o", "2", "--arpa", "k.arpa", "--text", "train.txt"]
    assert call("lmplz", *given, "--discount_fallback") == 0
    assert call("build_binary", "k.arpa", "k.bin") == 0
    capsys.readouterr()
    line = TEXT[0].encode() + b"\n"
    assert call("query", "k.bin", stdin=line) == 0
    total = re.search(r"Total: (\S+)", capsys.readouterr().out)[1]
    assert float(total) == pytest.approx(ours.Model("k.arpa").score(TEXT[0]), rel=1e-6)
    assert call("lmplz", *given, "--prune", "1", "0") == 1


def test_lmplz(folder, capsys, monkeypatch):
    given = ["-o", 3, "--text", "train.txt", "--arpa", "k.arpa", "-S", "1G"]
    code = run("lmplz", *given)
    error = capsys.readouterr().err
    if code:  # KenLM asks for it as well
        assert "--discount_fallback" in error
        assert run("lmplz", *given, "--discount_fallback") == 0
        error = capsys.readouterr().err
    lm = reference(2)
    assert same_scores("k.arpa", lm.backoff_model_)
    n = sum(len(s.split()) for s in TEXT[:300])
    assert f"Unigram tokens {n} types {len(lm.vocabulary_) + 1}\n" in error
    rows = re.findall(r"^(\d) (\d+) D1=(\S+) D2=(\S+) D3\+=(\S+)$", error, re.M)
    assert [row[0] for row in rows] == ["1", "2", "3"]
    discounts = [[float(d) for d in row[2:]] for row in rows]
    np.testing.assert_allclose(discounts, lm.estimator_.discounts_, rtol=1e-5)


def test_lmplz_says_what_the_text_lacks(folder, capsys):
    Path("empty.txt").write_text("\n\n")
    Path("small.txt").write_text("a b c\n")
    given = ["lmplz", "-o", 3, "--arpa", "x.arpa", "-q", "--text"]
    Path("nothing.txt").touch()
    assert run(*given, "nothing.txt", "--discount_fallback") == 1
    assert "nothing.txt is empty" in capsys.readouterr().err
    assert run(*given, "small.txt") == 1
    error = capsys.readouterr().err
    assert "of the 1-grams" in error and "2 orders more" in error
    assert "--discount_fallback" in error and "discount=" not in error
    assert not Path("x.arpa").exists()
    assert run(*given, "empty.txt", "--discount_fallback") == 0  # empty sentences


def test_lmplz_prunes_as_counted_by_hand(folder):
    given = ["-o", 2, "--text", "train.txt", "--arpa", "k.arpa", "--prune", 0, 1]
    assert run("lmplz", *given, "--discount_fallback", "-q") == 0
    marked = [["<s>", *s.split(), "</s>"] for s in TEXT[:300]]
    count = {}
    for words in marked:
        for pair in pairwise(words):
            count[pair] = count.get(pair, 0) + 1
    kept = sum(n > 1 for n in count.values())
    assert f"ngram 2={kept}\n" in Path("k.arpa").read_text()


FEED = "open('pipe', 'wb').write(open('odd.txt', 'rb').read())"


def test_lmplz_takes_words_as_kenlm_does(folder, capsys, monkeypatch):
    text = "a\u00a0b c\x0bd\nc a\u00a0b\n\nd c <unk> </s>\n" * 5
    Path("odd.txt").write_text(text, encoding="utf-8")
    given = ["-o", 2, "--text", "odd.txt", "--arpa", "k.arpa", "--discount_fallback"]
    assert run("lmplz", *given) == 1  # a mark in the text
    assert "--skip_symbols marks are read as white space" in capsys.readouterr().err
    assert run("lmplz", *given, "--skip_symbols", "-q") == 0
    words = set(exchange.read("k.arpa").labels.classes.tolist())
    assert words == {"a\u00a0b", "c\x0bd", "c", "d", "<unk>", "</s>"}
    marks = b"a <s> b\n"
    assert run("lmplz", "-o", 2, stdin=marks, monkeypatch=monkeypatch) == 1
    assert "line 1 of standard input contains <s>" in capsys.readouterr().err


def test_lmplz_reads_files_pipes_and_large_text_alike(folder, capsys, monkeypatch):
    """Skipped parts are equal, too, in each of the ways that a text takes."""
    text = "".join(f"{line} </s>\n\n" for line in 4 * TEXT[:300]).encode()
    Path("odd.txt").write_bytes(text)
    Path("odd.txt.gz").write_bytes(gzip.compress(text))
    given = ["lmplz", "-o", 3, "-q", "--discount_fallback", "--skip_symbols"]
    assert run(*given, "--text", "odd.txt", "--arpa", "a.arpa") == 0
    expected = Path("a.arpa").read_bytes()
    assert run(*given, "--text", "odd.txt.gz", "--arpa", "b.arpa") == 0
    assert run(*given, "--arpa", "c.arpa", stdin=text, monkeypatch=monkeypatch) == 0
    # As the recipes of ESPnet and NeMo spell it.
    more = ["--arpa", "g.arpa", "-", ""]
    assert run(*given, *more, stdin=text, monkeypatch=monkeypatch) == 0
    with pytest.raises(SystemExit, match="2"):
        run(*given, "odd.txt", "--arpa", "h.arpa")
    large = "--text", "odd.txt", "-S", "1500K"
    file = TextFile("odd.txt", skip_blank_lines=False, memory=1_500 << 10)
    assert file.number_or_count(192, "kenlm").parts
    assert run(*given, *large, "--arpa", "d.arpa") == 0
    os.mkfifo("pipe")
    with subprocess.Popen([sys.executable, "-c", FEED]) as feed:
        assert run(*given, "--text", "pipe", "--arpa", "e.arpa") == 0
    assert feed.returncode == 0
    for name in "bcdeg":
        assert Path(f"{name}.arpa").read_bytes() == expected
    assert run(*given[:-1], *large, "--arpa", "f.arpa") == 1
    capsys.readouterr()
    assert run(*given, *large[:-1], "10K", "--arpa", "f.arpa") == 1
    message = r"sklstruct lmplz: -S: the \d+ distinct words .* 10240; raise -S\n"
    assert re.fullmatch(message, capsys.readouterr().err)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--prune", 1, 0], "must not fall"),
        (["--prune", 0, 0, 0, 1], "at most 2"),
        (["-S", "much"], "4G or 80%"),
        (["--intermediate", "x"], "--intermediate is not supported"),
        (["--text", "absent.txt"], "absent.txt"),
    ],
)
def test_lmplz_refuses(folder, given, message, capsys):
    code = run("lmplz", "-o", 2, "--text", "train.txt", "--arpa", "k.arpa", *given)
    assert code == 1 and message in capsys.readouterr().err
    assert not Path("k.arpa").exists()


def test_query_sums_up_the_scores_of_words(model, capsys, monkeypatch):
    assert run("build_binary", "-i", "probing", "m.arpa", "m.bin") == 0
    assert "no effect: -i" in capsys.readouterr().err
    tables = ours.Model("m.bin")
    lines = [*TEXT[300:350], "", "not there at all"]
    text = ("\n".join(lines) + "\n").encode()
    for more, bounds in (([], True), (["-n"], False)):
        assert run("query", "m.bin", *more, stdin=text, monkeypatch=monkeypatch) == 0
        *rows, including, excluding, n_unknown, n_tokens = (
            capsys.readouterr().out.splitlines()
        )
        assert len(rows) == len(lines)
        total, known, tokens, unknown = 0.0, 0.0, 0, 0
        for row, line in zip(rows, lines):
            *words, last = row.split("\t")
            scores = list(tables.full_scores(line, bounds, bounds))
            assert len(words) == len(scores)
            for word, (log_prob, length, oov) in zip(words, scores):
                found = re.fullmatch(r"(.+)=(\d+) (\d) (\S+)", word)
                assert (found[2] == "0") == oov and int(found[3]) == length
                assert np.float32(found[4]) == np.float32(log_prob)
                tokens += 1
                unknown += oov
                known += 0.0 if oov else log_prob
            score = float(re.match(r"Total: (\S+) OOV", last)[1])
            assert np.float32(score) == np.float32(tables.score(line, bounds, bounds))
            total += score
        assert n_tokens == f"Tokens:\t{tokens}" and n_unknown == f"OOVs:\t{unknown}"
        value = float(including.split("\t")[1])
        assert value == pytest.approx(10 ** (-total / tokens), rel=1e-6)
        value = float(excluding.split("\t")[1])
        assert value == pytest.approx(10 ** (-known / (tokens - unknown)), rel=1e-6)
    for level, n in (("sentence", len(lines)), ("summary", 4), ("1", len(lines) + 4)):
        given = ["query", "m.arpa", "-v", level]
        assert run(*given, stdin=text, monkeypatch=monkeypatch) == 0
        assert len(capsys.readouterr().out.splitlines()) == n


# ------------------------------------------------------------------ exit codes


@pytest.mark.parametrize(
    "given",
    [
        ["evaluate", "absent.arpa", "test.txt"],
        ["evaluate", "train.txt", "test.txt"],
        ["train", "absent.txt", "-o", "x.arpa"],
        ["train", "train.txt", "-", "-o", "x.arpa"],
        ["train", "train.txt", "-o", "no/such/folder/x.arpa"],
        ["convert", "train.txt", "x.arpa"],
        ["build_binary", "trie", "train.txt", "x.bin"],
        ["info", "train.txt"],
        ["mix", "absent.arpa", "-o", "x.arpa", "--weights", "1"],
        ["mix", "train.txt", "-o", "x.arpa", "--weights", "1"],
        ["prune", "train.txt", "-o", "x.arpa", "--to", "100"],
        ["train", "train.txt", "-o", "x.arpa", "--model", "better"],
        ["train", "train.txt", "-o", "x.pkl", "--model", "better", "-n", "1"],
        ["train", "train.txt", "-o", "x.arpa", "--tune", "test.txt"],
        ["train", "train.txt", "-o", "train.txt"],
        ["lmplz", "-o", "2", "--text", "train.txt", "--arpa", "train.txt"],
    ],
)
def test_bad_files_are_one_line(folder, given, capsys):
    assert run(*given) == 1
    out, err = capsys.readouterr()
    assert out == "" and err.count("\n") == 1
    assert err.startswith(f"sklstruct {given[0]}: ")
    assert not Path("x.arpa").exists() and not Path("x.bin").exists()


def test_messages_name_no_parameter_of_python(model, capsys):
    Path("odd.txt").write_text("a </s> b\u00a0c\n", encoding="utf-8")
    Path("empty.txt").touch()
    output = "-o", "x.pkl"
    for given, start in (
        (["train", "odd.txt", *output], "the text: the end mark"),
        (["train", "empty.txt", *output], "the text is empty"),
        (["evaluate", "m.arpa", "empty.txt"], "the text holds no token"),
        (["mix", "m.arpa", "--tune", "empty.txt", *output], "the text is empty"),
        (
            ["train", "train.txt", "--model", "better", "--tune", "empty.txt", *output],
            "--tune is empty",
        ),
    ):
        assert run(*given) == 1
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith(f"sklstruct {given[0]}: {start}"), last
    Path("odd.txt").write_text("a b\u00a0c\n", encoding="utf-8")
    assert run("train", "odd.txt", *output) == 0
    assert "train: warning: the text: str.split()" in capsys.readouterr().err


@pytest.mark.parametrize(
    "given",
    [
        [],
        ["absent"],
        ["train"],
        ["lmplz"],
        ["lmplz", "-o", "2", "--interpolate_unigrams", "2"],
        ["build_binary", "train.txt"],
        ["train", "x", "-o", "y", "-n", "0"],
        ["train", "x", "-o", "y", "-n", "16777218"],
        ["lmplz", "-o", "16777218"],
        ["sample", "x", "--temperature", "0"],
        ["sample", "x", "--top-p", "nan"],
        ["prune", "x", "-o", "y", "--threshold", "-1"],
        *(["prune", "x", "-o", "y", "--to", size] for size in ("0", "-5", "5XB")),
        ["convert", "x", "y", "--precision", "16"],
        ["train", "x", "-o", "y", "--model", "fine"],
        ["mix", "x", "-o", "y"],
        ["mix", "x", "-o", "y", "--weights", "1", "--tune", "z"],
        ["mix", "x", "y", "-o", "z", "--weights", "nan,1"],
        ["mix", "x", "y", "-o", "z", "--weights", "0.5,0.6"],
        ["mix", "x", "y", "-o", "z", "--weights", "-1,2"],
        ["mix", "x", "y", "-o", "z", "--weights", "a,b"],
        ["prune", "x", "-o", "y", "--to", "5", "--threshold", "1"],
        ["--print-completion", "powershell"],
    ],
)
def test_wrong_arguments(given, capsys):
    with pytest.raises(SystemExit) as caught:
        run(*given)
    assert caught.value.code == 2


def command(*arguments, **more):
    return subprocess.Popen(
        [sys.executable, "-m", "sklstruct", *map(str, arguments)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=os.getcwd(),
        **more,
    )


def test_help_needs_nothing(folder):
    program = (
        "import sys\n"
        "from sklstruct._cli import main\n"
        "try: main(['lmplz', '--help'])\n"
        "except SystemExit as exc: assert exc.code == 0\n"
        "heavy = {'numpy', 'scipy', 'sklearn', 'joblib', 'pandas'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run(
        [sys.executable, "-c", program], check=True, stdout=subprocess.DEVNULL
    )


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interrupted(folder):
    # A shell in the background has its programs ignore the signal.
    process = command(
        "train", "-", "-o", "x.arpa",
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )  # fmt: skip
    # The message of argparse is not there yet: wait until it reads its input.
    process.stdin.write(b"a b\n")
    process.stdin.flush()
    deadline = time.monotonic() + 600
    while process.poll() is None and time.monotonic() < deadline:
        process.send_signal(signal.SIGINT)
        time.sleep(0.2)
    # Before main runs, the interpreter itself ends by the signal.
    assert process.returncode in (130, 1, -signal.SIGINT)
    assert not Path("x.arpa").exists()
    for stream in (process.stdin, process.stdout, process.stderr):
        stream.close()


def test_interrupt_is_130(folder, monkeypatch):
    from sklstruct._cli import _tables

    def interrupted(arguments):
        raise KeyboardInterrupt

    monkeypatch.setattr(_tables, "info", interrupted)
    assert run("info", "m.arpa") == 130


@pytest.mark.processes
@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_closed_pipe(model):
    process = command("sample", "m.arpa", "-k", 4000)  # more than a pipe holds
    process.stdout.read(10)
    process.stdout.close()
    process.stdin.close()
    assert process.wait() == 141
    assert process.stderr.read() == b""
    process.stderr.close()


# ------------------------------------------------------------------------ page


def test_the_page_has_every_argument():
    """Every subcommand and option stands in docs/user_guide/command_line.rst."""
    page = PAGE.read_text(encoding="utf-8")
    parser = make_parser()
    missing = []
    for command, one in every_parser(parser).items():
        name = command.split()[-1]
        words = set(re.findall(r"[\w-]+", page))
        missing += [name] if name not in words else []
        for action in one._actions:
            options = action.option_strings
            if options and not {o.lstrip("-") for o in options} & {
                w.lstrip("-") for w in words
            }:
                missing.append(f"{name} {options[-1]}")
    assert not missing, f"add to {PAGE.name}: {missing}"


@pytest.mark.parametrize("value", [1e-7, 9.5e-7, 1e-6, 0.1, 1 / 3, 9e20, 1e21, 1.7e21])
def test_numbers_are_printed_as_javascript_prints_them(value):
    """KenLM's numbers: the shortest digits, with an exponent beyond 21 digits."""
    printed = _shortest(np.float64(value))
    assert float(printed) == value
    assert ("e" in printed) == (value < 1e-6 or value >= 1e21)
