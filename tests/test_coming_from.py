"""The pages for those who come from other tools: our column runs, in its order."""

import importlib
import io
import re
import sys
from pathlib import Path

import numpy as np
import pytest
import sklearn.metrics
from sklearn.base import clone

from sklstruct import _cli
from sklstruct.datasets import load_python_topics

GUIDE = Path(__file__).parents[1] / "docs" / "user_guide"


def part(page, heading):
    """The text below a heading, up to the next one."""
    text = (GUIDE / page).read_text(encoding="utf-8")
    return re.split(r"(?m)^=+$", text.split(f"\n{heading}\n")[1])[1]


def ours(heading):
    """The right column of a table of commands or calls."""
    found = part("coming_from.rst", heading)
    return re.findall(r"(?m)^     - ``(.+?)``$", found)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    lines = [" ".join(words) for words in load_python_topics()[:900]]
    parts = {"train": lines[:500], "other": lines[500:800], "dev": lines[800:850]}
    parts["test"] = lines[850:]
    parts["words"] = sorted({w for line in lines[:100] for w in line.split()})
    for name, content in parts.items():
        path = folder / f"{name}.txt"
        path.write_text("\n".join(content) + "\n", encoding="utf-8")
    return folder


@pytest.fixture(scope="module")
def files(folder):
    """The output of the commands, by command; their files are in the folder."""
    found = {}
    for command in ours("Commands"):
        words = command.split()
        assert words.pop(0) == "sklstruct", command
        streams = {}
        for sign in "<>":
            if sign in words:
                at = words.index(sign)
                streams[sign] = folder / words[at + 1]
                del words[at : at + 2]
        given = streams["<"].read_bytes() if "<" in streams else b""
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(folder)
            made = {}
            for name, data in (("stdin", given), ("stdout", b""), ("stderr", b"")):
                made[name] = io.TextIOWrapper(io.BytesIO(data), encoding="utf-8")
                patch.setattr(sys, name, made[name])
            code = _cli.main(words)
        out, err = (made[name].buffer.getvalue() for name in ("stdout", "stderr"))
        assert code == 0, (command, err.decode())
        if ">" in streams:
            streams[">"].write_bytes(out)
        found[command] = out.decode()
    return found


def test_every_command_runs(folder, files):
    assert len(files) >= 12
    for command in files:
        for output in re.findall(r"(?:-o|>) (\S+\.arpa)", command):
            head = (folder / output).read_bytes()[:6]
            assert head.lstrip() == b"\\data" or head == b"\\data\\", command
    sampled = files["sklstruct sample a.arpa -k 5"].splitlines()
    assert len(sampled) == 5


def test_every_call_runs(folder, files, monkeypatch):
    monkeypatch.chdir(folder)
    lines = (folder / "test.txt").read_text(encoding="utf-8").splitlines()
    calls = ours("Calls")
    assert len(calls) >= 12
    names = {"lines": lines}
    for call in calls:
        exec(call, names)
    model, lm = names["model"], names["lm"]
    assert model.score_many(lines[:3]).tolist() == [model.score(s) for s in lines[:3]]
    expected = lm.token_log_proba(["the"])[0][0]
    assert names["log_prob"] == pytest.approx(expected, rel=1e-12)


# --------------------------------------------------- taggers and classifiers

WORDS = [["the", "cat", "ran"], ["the", "dog", "sat"], ["dogs", "ran"]] * 4
TAGS = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"]] * 4
FEATURES = [[{"word": w, "end": w[-2:]} for w in row] for row in WORDS]
VECTORS = [np.arange(8.0).reshape(4, 2) % 5, np.arange(6.0).reshape(3, 2)] * 3
NUMBERS = [["DNV".index(tag) for tag in row] for row in TAGS]
NAMES = [[(f"word={w}",) for w in row] for row in WORDS]
POINTS = np.random.RandomState(0).normal(size=(60, 4))
PATHS = np.array(["animal/cat", "animal/dog", "tool/axe"] * 20)
TREE = {path: path.split("/") for path in PATHS.tolist()}
CLASSES = np.array(list("abcdef") * 10)

# (page, heading) -> X and y of the calls in the right column of its table
TABLES = {
    ("coming_from_taggers.rst", "hmmlearn"): (WORDS, NUMBERS),
    ("coming_from_taggers.rst", "sklearn-crfsuite"): (FEATURES, TAGS),
    ("coming_from_taggers.rst", "seqlearn"): (NAMES, TAGS),
    ("coming_from_classifiers.rst", "HiClass"): (POINTS, PATHS),
    ("coming_from_classifiers.rst", "LinearSVC and LogisticRegression"): (
        POINTS,
        CLASSES,
    ),
    ("coming_from_classifiers.rst", "omikuji, napkinXC, PECOS"): (POINTS, CLASSES),
}


class Names(dict):
    """Names of the page: of the package, else methods and attributes of the models."""

    def __init__(self, models, **known):
        super().__init__(**known)
        self.models = models
        for package in (
            "sklstruct",
            "hmm",
            "factor_graph",
            "hierarchical",
            "smoothing",
        ):
            name = "sklstruct" if package == "sklstruct" else f"sklstruct.{package}"
            module = importlib.import_module(name)
            self.update({key: getattr(module, key) for key in module.__all__})

    def __missing__(self, name):
        for model in reversed(self.models):
            if hasattr(model, name):
                return getattr(model, name)
        raise KeyError(name)


@pytest.mark.parametrize(("page", "heading"), TABLES, ids=lambda value: value)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_every_row_runs(page, heading, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some rows write a file, the next ones read it
    X, y = TABLES[page, heading]
    table = part(page, heading).split("\n\n")
    table = next(block for block in table if block.startswith("   * - "))
    rows = [
        re.split(r"\n     - ", row) for row in re.split(r"(?m)^   \* - ", table)[2:]
    ]
    codes = [
        (found, "indicator matrix" in left)
        for left, right in rows
        for found in re.findall(r"``(.+?)``|:(?:func|class):`~(.+?)`", right)
    ]
    models, keyword, n_run = [], None, 0
    known = {"X": X, "y": y, "V": VECTORS, "tree": TREE}
    names = Names(models, np=np, sklearn=sklearn, **known)
    for (literal, role), of_matrix in codes:
        target = (
            (np.asarray(y)[:, None] == np.unique(y)).astype(int) if of_matrix else y
        )
        n_run += 1
        if role:
            module, _, name = role.rpartition(".")
            assert hasattr(importlib.import_module(module), name), role
            continue
        if literal[0] == '"':  # another value of the last parameter
            literal = f"{keyword}={literal}"
        if re.match(r"\w+=", literal):
            keyword = literal.split("=")[0]
            values = eval(f"dict({literal})")
            model = next(m for m in reversed(models) if keyword in m.get_params())
            models.append(clone(model).set_params(**values).fit(X, target))
            continue
        names["model"] = models[-1] if models else None
        found = eval(literal, {}, names)
        if hasattr(found, "fit") and not isinstance(found, type):
            fitted = any(name.endswith("_") and name[0] != "_" for name in vars(found))
            models.append(found if fitted else found.fit(X, target))
    assert n_run >= 2 and models


def test_every_table_is_read():
    found = []
    for page in sorted(GUIDE.glob("coming_from*.rst")):
        blocks = re.findall(
            r"(?m)^([^\n]+)\n=+\n\n(?:[^=]*?\n\n)?\.\. list-table::",
            page.read_text("utf-8"),
        )
        found += [(page.name, heading) for heading in blocks]
    assert sorted(found) == sorted(
        [*TABLES, ("coming_from.rst", "Commands"), ("coming_from.rst", "Calls")]
    )
