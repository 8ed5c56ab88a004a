"""``sklstruct classify``: its files, its answers and its errors."""

import codecs
import gzip
import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from _fasttext_models import LABELS as THEIR_LABELS
from _fasttext_models import Model
from _texts import LABELS, NEW, TEXTS, several, tickets

from sklstruct import _cli
from sklstruct._cli._classify import _arrived
from sklstruct._compat import StrOptions
from sklstruct._files import open_read
from sklstruct.compat import fasttext
from sklstruct.text import TextClassifier

NAMES = [sorted(labels) for labels in several(LABELS, TEXTS)]
HELD_OUT = tickets(300, seed=5)


def lines(texts, names, prefix="__label__"):
    rows = (
        " ".join([*(prefix + name for name in row), text])
        for row, text in zip(names, texts)
    )
    return "".join(row + "\n" for row in rows)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    one = [[label] for label in LABELS]
    Path("one.txt").write_text(lines(TEXTS, one))
    Path("several.txt").write_text(lines(TEXTS, NAMES))
    Path("tune.txt").write_text(lines(HELD_OUT[0], [[label] for label in HELD_OUT[1]]))
    quoted = "".join(f'"{text}, ""ok""",{y}\n' for text, y in zip(TEXTS, LABELS))
    Path("one.csv").write_text("text,team\n" + quoted)
    rows = "".join(f'{y}\tx\t"{text}\n' for text, y in zip(TEXTS, LABELS))
    Path("one.tsv.gz").write_bytes(gzip.compress(rows.encode()))
    Path("new.txt").write_text("".join(text + "\n" for text in NEW))
    return tmp_path


def run(*arguments, stdin=None, monkeypatch=None):
    if stdin is not None:
        given = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", given)
    return _cli.main(["classify", *map(str, arguments)])


def train_options(name):
    options = {"one.csv": ["--columns", "2,1", "--header"]}
    return options.get(name, ["--columns", "1,3"] if ".tsv" in name else [])


def test_options_of_tables_with_lines_of_fasttext_are_errors(folder, capsys):
    assert run("train", "one.txt", "m.sktext") == 0
    for command in (["train", "one.txt", "n.sktext"], ["test", "m.sktext", "one.txt"]):
        for option in (["--columns", "1,2"], ["--header"]):
            assert run(*command, *option) == 1
            error = capsys.readouterr().err
            assert f"{option[0]} is for a file that ends in .csv or .tsv" in error
    assert not Path("n.sktext").exists()
    rows = "".join(f"{y}\t{text}\n" for text, y in zip(*HELD_OUT))
    Path("tune.tsv").write_text("label\ttext\n" + rows)
    options = "--tune", "tune.tsv", "--header"
    assert run("train", "one.txt", "n.sktext", *options) == 1
    assert "no text has only labels of one.txt" in capsys.readouterr().err


def test_lines_of_a_pipe_are_answered_when_they_come():
    read, write = os.pipe()
    with os.fdopen(read, "rb") as end, os.fdopen(write, "wb", 0) as pipe:
        pipe.write(codecs.BOM_UTF8 + b"first line\n")
        with open_read(end) as (file, label):
            found = _arrived(file, label)
            assert next(found) == ["first line"]
            pipe.write("second\r\nthird \u00e9".encode()[:-1])
            assert next(found) == ["second"]
            pipe.write("\u00e9".encode()[-1:] + b"\n\nlast")
            assert next(found) == ["third \u00e9", ""]
            pipe.close()
            assert list(found) == [["last"]]


@pytest.mark.parametrize("name", ["one.txt", "one.csv", "one.tsv.gz", "several.txt"])
def test_a_model_of_a_file_is_that_of_its_texts(folder, name, capsys):
    options = train_options(name)
    assert run("train", name, "m.sktext", "--json", *options) == 0
    printed = json.loads(capsys.readouterr().out)
    texts = {"one.csv": [f'{text}, "ok"' for text in TEXTS],
             "one.tsv.gz": [f'"{text}' for text in TEXTS]}.get(name, TEXTS)  # fmt: skip
    prefix = "__label__" if name.endswith(".txt") else ""
    y = [prefix + label for label in LABELS]
    if name == "several.txt":
        y = [[prefix + label for label in row] for row in NAMES]
    threshold = "f1" if name == "several.txt" else 0.5
    model = TextClassifier(threshold=threshold, random_state=0).fit(texts, y).reduce()
    loaded = TextClassifier.load("m.sktext")
    np.testing.assert_array_equal(loaded.predict_proba(NEW), model.predict_proba(NEW))
    assert loaded.classes_.tolist() == model.classes_.tolist()
    assert printed["n_texts"] == len(TEXTS)
    assert printed["n_labels"] == model.classes_.size

    assert run("predict", "m.sktext", "new.txt", "-k", 2) == 0
    rows = [line.split() for line in capsys.readouterr().out.splitlines()]
    labels, log_proba = model.predict_top_k(NEW, 2, return_log_proba=True)
    assert [row[::2] for row in rows] == labels.tolist()
    found = [[float(p) for p in row[1::2]] for row in rows]
    np.testing.assert_allclose(found, np.exp(log_proba), rtol=1e-5)
    assert run("predict", "m.sktext", "new.txt", "-k", 9, "--threshold", 0.3,
               "--json") == 0  # fmt: skip
    for line, p in zip(capsys.readouterr().out.splitlines(), model.predict_proba(NEW)):
        row = json.loads(line)
        assert set(row["labels"]) == set(model.classes_[p >= 0.3])
        assert row["proba"] == sorted(row["proba"], reverse=True)

    assert run("test", "m.sktext", name, "--json", *options) == 0
    figures = json.loads(capsys.readouterr().out)
    P = model.predict_proba(texts)
    Y = np.array([[c in (row if isinstance(row, list) else [row])
                   for c in model.classes_] for row in y])  # fmt: skip
    right = Y[np.arange(len(P)), P.argmax(axis=1)].sum()
    assert figures["precision_at_1"] == pytest.approx(right / len(P))
    assert figures["recall_at_1"] == pytest.approx(right / Y.sum())
    loss = -np.log(P[Y]).sum()
    if name == "several.txt":
        loss -= np.log1p(-P[~Y]).sum()
    assert figures["log_loss"] == pytest.approx(loss / len(P), rel=1e-5)


def test_tune_leaves_out_weights(folder, capsys):
    assert run("train", "one.txt", "m", "--features", "letters") == 0
    options = "--features", "letters", "--tune", "tune.txt", "--min-count", 3, "-C", 2
    assert run("train", "one.txt", "small", *options, "--seed", 1) == 0
    model = TextClassifier("letters", min_df=3, C=2, random_state=1)
    model.fit(TEXTS, LABELS)
    n = model.reduce(*HELD_OUT).reduced_.weights.sparse().nnz
    assert TextClassifier.load("small").reduced_.weights.sparse().nnz == n
    assert n < model.reduce().reduced_.weights.sparse().nnz
    assert "n_features" in capsys.readouterr().out


def test_streams(folder, capsysbinary, monkeypatch):
    text = Path("one.txt").read_bytes()
    assert run("train", "-", "-", "-q", stdin=text, monkeypatch=monkeypatch) == 0
    out, err = capsysbinary.readouterr()
    Path("m").write_bytes(out)
    assert b"n_texts" in err
    new = Path("new.txt").read_bytes()
    assert run("predict", "m", stdin=new, monkeypatch=monkeypatch) == 0
    piped = capsysbinary.readouterr().out
    assert run("predict", "m", "new.txt") == 0
    assert piped == capsysbinary.readouterr().out
    assert run("predict", "-", "new.txt", stdin=out, monkeypatch=monkeypatch) == 0
    assert piped == capsysbinary.readouterr().out


def test_a_file_of_fasttext_is_a_model(folder, capsys):
    Path("m.bin").write_bytes(Model().to_bytes())
    model = fasttext.load_model("m.bin")
    assert run("predict", "m.bin", "new.txt", "-k", 2) == 0
    out = capsys.readouterr().out.splitlines()
    for line, text in zip(out, NEW):
        labels, proba = model.predict(text, k=2)
        assert tuple(line.split()[::2]) == labels
        np.testing.assert_allclose([float(p) for p in line.split()[1::2]], proba, 1e-5)
    known = "".join(f"{THEIR_LABELS[i % 4]} {text}\n" for i, text in enumerate(NEW))
    Path("known.txt").write_text(known)
    assert run("test", "m.bin", "known.txt", "-k", 2, "--json") == 0
    figures = json.loads(capsys.readouterr().out)
    n, precision, recall = model.test("known.txt", k=2)
    assert figures == pytest.approx(
        {"n_texts": n, "precision_at_2": precision, "recall_at_2": recall}
    )


@pytest.mark.parametrize("name", ["one.txt", "one.csv", "one.tsv.gz", "several.txt"])
def test_a_byte_order_mark_is_skipped(folder, name, capsys):
    options = train_options(name)
    data = Path(name).read_bytes()
    if name.endswith(".gz"):
        data = gzip.decompress(data)
    marked = "marked" + name.removesuffix(".gz")[-4:]
    Path(marked).write_bytes(b"\xef\xbb\xbf" + data)
    assert run("train", name, "m.sktext", *options) == 0
    assert run("train", marked, "n.sktext", *options) == 0
    assert Path("m.sktext").read_bytes() == Path("n.sktext").read_bytes()
    capsys.readouterr()
    Path("new_marked.txt").write_bytes(b"\xef\xbb\xbf" + Path("new.txt").read_bytes())
    for file in ("new.txt", "new_marked.txt"):
        assert run("predict", "m.sktext", file) == 0
    out = capsys.readouterr().out.splitlines()
    assert out[: len(NEW)] == out[len(NEW) :]


def test_labels_of_tables(folder, capsys):
    """They may hold blanks, and are not empty."""
    rows = "".join(
        f"{y.replace('_', ' ')} x,{text}\n" for text, y in zip(TEXTS, LABELS)
    )
    Path("blanks.csv").write_text(rows)
    assert run("train", "blanks.csv", "m.sktext") == 0
    capsys.readouterr()
    assert run("predict", "m.sktext", "new.txt") == 0
    first, *_ = capsys.readouterr().out.splitlines()
    label, p = first.rsplit(" ", 1)
    assert label.endswith(" x") and 0 < float(p) <= 1
    Path("empty.csv").write_text(rows + ",a text\n")
    assert run("train", "empty.csv", "m.sktext") == 1
    assert "the label in column 1 is empty" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="pipes of POSIX")
def test_a_model_is_read_from_a_pipe(folder, capsys):
    assert run("train", "one.txt", "m.sktext", "-q") == 0
    capsys.readouterr()
    assert run("predict", "m.sktext", "new.txt") == 0
    expected = capsys.readouterr().out
    os.mkfifo("pipe")
    feed = "open('pipe', 'wb').write(open('m.sktext', 'rb').read())"
    with subprocess.Popen([sys.executable, "-c", feed]):
        assert run("predict", "pipe", "new.txt") == 0
    assert capsys.readouterr().out == expected


def test_labels_that_the_model_lacks_have_no_log_loss(folder, capsys):
    assert run("train", "one.txt", "m", "-q") == 0
    capsys.readouterr()
    Path("other.txt").write_text("__label__none a text\n__label__none more\n")
    assert run("test", "m", "other.txt", "--json") == 0
    out, err = capsys.readouterr()
    figures = json.loads(out)
    assert "no label of other.txt is a label of the model, such as '__label__" in err
    assert figures["precision_at_1"] == 0 and figures["log_loss"] is None


def test_log_loss_of_one_label_has_no_sign(folder, capsys):
    Path("same.txt").write_text(lines(TEXTS, [["a"] for _ in TEXTS]))
    run("train", "same.txt", "m", "-q")
    assert run("test", "m", "same.txt") == 0
    assert capsys.readouterr().out.split()[-2:] == ["log_loss", "0.0000"]


def test_tune_passes_over_labels_that_the_texts_lack(folder, capsys):
    options = "--features", "letters", "--tune"
    assert run("train", "one.txt", "small", *options, "tune.txt") == 0
    more = Path("tune.txt").read_text() + "__label__rare a card\n"
    Path("more.txt").write_text(more)
    assert run("train", "one.txt", "other", *options, "more.txt") == 0
    assert Path("other").read_bytes() == Path("small").read_bytes()


WRONG = {
    (
        "train",
        "one.txt",
        "x",
        "--tune",
        "rare.txt",
    ): "--tune rare.txt: no text has only",
    ("train", "one.txt", "x", "--min-count", "999"): "--min-count 999 is more than the",
    ("train", "one.txt", "x", "--label-prefix", ""): "prefix of labels is empty",
    ("train", "open.csv", "x"): "open.csv, line 2: unexpected end of data: a quote is",
    ("train", "absent", "x"): "absent",
    ("train", "one.txt", "none/x"): "MODEL cannot be written (the folder",
    ("train", "one.txt", "one.txt"): "MODEL one.txt would be read and written",
    ("train", "new.txt", "x"): "no line has a label that begins with '__label__'",
    (
        "train",
        "one.tsv.gz",
        "x",
        "--columns",
        "1,4",
    ): "line 1: 3 columns, and",
    ("train", "empty.csv", "x"): "empty.csv: the file has no line",
    ("train", "latin.csv", "x"): "latin.csv, line",
    ("train", "short.txt", "x", "--min-count", "2"): "leave no n-gram; lower min_df",
    ("predict", "one.txt", "new.txt"): "not a text classifier of sklstruct",
    ("predict", "-", "-"): "standard input can be read once only",
    ("test", "one.txt", "one.txt"): "not a text classifier of sklstruct",
}


@pytest.mark.parametrize("words", WRONG, ids=" ".join)
def test_errors_are_one_line(folder, words, capsys):
    Path("empty.csv").write_text("")
    Path("latin.csv").write_bytes(b"a,caf\xe9\n")
    Path("rare.txt").write_text("__label__rare a card\n")
    Path("open.csv").write_text('a,one\na,"lost card\nb,word more words\na,card\n')
    Path("short.txt").write_text("__label__a one\n__label__b qu\n")
    assert run(*words) == 1
    out, err = capsys.readouterr()
    assert WRONG[words] in err and err.startswith("sklstruct classify: ")
    assert len(err.splitlines()) == 1 and not out and not Path("x").exists()


@pytest.mark.parametrize(
    "words", [["train", "a"], ["teach"], [], ["predict", "m", "t", "-k", "0"],
              ["train", "a", "b", "--columns", "0,1"],
              ["train", "a", "b", "--columns", "2,02"],
              *(["train", "a", "b", "-C", C] for C in ("0", "-1", "inf", "nan", "x")),
              *(["predict", "m", "--threshold", p] for p in ("2", "-.1", "nan")),
             ], ids=" ".join
)  # fmt: skip
def test_wrong_arguments_end_with_two(words, capsys):
    with pytest.raises(SystemExit) as ended:
        run(*words)
    assert (
        ended.value.code == 2 and "usage: sklstruct classify" in capsys.readouterr().err
    )


def test_features_are_those_of_the_classifier(capsys):
    with pytest.raises(SystemExit):
        run("train", "text", "model", "--features", "other")
    said = capsys.readouterr().err.partition("choose from")[2]
    (names,) = (
        option.options
        for option in TextClassifier._parameter_constraints["features"]
        if isinstance(option, StrOptions)
    )
    assert set(re.findall(r"\w+", said)) == names
