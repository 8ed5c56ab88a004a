"""The command reads a text from a file and from standard input in one way."""

import bz2
import gzip
import io
import json
import lzma
import sys
from pathlib import Path

import pytest

from sklstruct import LanguageModel, _cli
from sklstruct.symbols import TextFile

LINES = ["the cat sat", "a dog ran home", "the dog sat", "a cat ran"] * 8
EVIL = {
    "plain": "\n".join(LINES) + "\n",
    "no line end at the end": "\n".join(LINES),
    "blank lines": "\n\n".join(LINES) + "\n\n \n\t\n",
    "byte order mark": "\ufeff" + "\n".join(LINES),
    "carriage returns": "\r\n".join(LINES) + "\r\n",
    "lone carriage returns": "a\rb\r" + "\n".join(LINES) + "\r",
    "line separators": "a\u2028b\u2029c\x85d\n" + "\n".join(LINES),
    "controls": "a\x0bb\x0cc\x1cd\x1de\x1ef\x1fg\n\x0c\n" + "\n".join(LINES),
    "no-break spaces": "12\u00a0000\n\u00a0\n" + "\n".join(LINES),
    "NUL": "a\0b\n" + "\n".join(LINES),
    "nothing": "",
    "blank lines only": "\n\n \n",
    "not UTF-8": None,
}
RAW = {
    name: b"the \xff\n" if text is None else text.encode()
    for name, text in EVIL.items()
}


def run(capsys, *arguments, stdin=None, monkeypatch=None):
    """(exit code, output, errors with the name of the text replaced)"""
    if stdin is not None:
        stream = io.TextIOWrapper(io.BytesIO(stdin), encoding="utf-8")
        monkeypatch.setattr(sys, "stdin", stream)
    code = _cli.main([str(a) for a in arguments])
    out, errors = capsys.readouterr()
    for name in ("standard input", "text.txt", "-:"):
        errors = errors.replace(name, "TEXT:" if name == "-:" else "TEXT")
    return code, out, errors


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


# Packed text is read as other bytes are, so one text of each kind is enough.
PACKED = [
    ("plain", gzip.compress),
    ("blank lines", bz2.compress),
    ("byte order mark", lzma.compress),
]


@pytest.mark.parametrize(("name", "pack"), [(n, bytes) for n in RAW] + PACKED)
def test_standard_input_is_a_file(here, capsys, monkeypatch, name, pack):
    raw = pack(RAW[name])
    Path("text.txt").write_bytes(raw)
    Path("plain.txt").write_bytes(RAW["plain"])
    assert _cli.main(["train", "plain.txt", "-o", "m.sklm", "-q", "-n", "2"]) == 0
    assert _cli.main(["convert", "m.sklm", "m.arpa", "-q"]) == 0
    commands = [
        ("train", TEXT, "-o", "out", "-n", 3),
        ("train", TEXT, "-o", "out", "-n", 2, "--min-count", 2),
        ("train", TEXT, "-o", "out", "-n", 3, "--characters"),
        ("train", "plain.txt", "--model", "better", "--tune", TEXT, "-o", "m.pkl"),
        ("evaluate", "m.sklm", TEXT),
        ("evaluate", "m.arpa", TEXT, "--per-sentence"),
        ("evaluate", "m.sklm", TEXT, "--per-sentence", "--json"),
        ("evaluate", "m.arpa", TEXT, "--by-depth"),
        ("mix", "m.arpa", "m.sklm", "--tune", TEXT, "-o", "mixed"),
        ("lmplz", "-o", 2, "--text", TEXT, "--arpa", "out", "--discount_fallback"),
    ]
    if name != "plain" or pack is not bytes:
        commands = [c for c in commands if "better" not in c]
    if pack is not bytes:
        commands = commands[::4]
    for command in commands:
        found = []
        for source in ("text.txt", "-"):
            words = [source if word is TEXT else word for word in command]
            both = "out" in words and "lmplz" not in words
            for suffix in (".arpa", ".sklm")[: 1 + both]:
                names = {"out": f"out{suffix}", "mixed": "mixed.arpa"}
                stdin = raw if source == "-" else None
                answer = run(
                    capsys,
                    *[names.get(word, word) for word in words],
                    stdin=stdin,
                    monkeypatch=monkeypatch,
                )
                out = Path(f"out{suffix}")
                found.append((answer, out.read_bytes() if out.exists() else None))
                out.unlink(missing_ok=True)
        half = len(found) // 2
        assert found[:half] == found[half:], command
        wrong = name in ("nothing", "blank lines only", "not UTF-8")
        wrong |= name == "NUL" and command[0] == "train"
        if "--characters" in command:  # a file of words holds no carriage return
            wrong |= name == "lone carriage returns"
        if command[0] == "train" and "better" not in command:
            assert (found[0][0][0] == 1) == wrong, found[0]
            assert (found[0][1] is None) == wrong


TEXT = object()


def test_the_model_says_how_its_text_is_split(here, capsys):
    """Training and scoring on one text, by both rules: no word is unknown."""
    Path("fr.txt").write_text("12\u00a0000 euro\nil y a 12\u00a0000 euro\n" * 9)
    given = ["--text", "fr.txt", "-o", 2, "--discount_fallback"]
    assert run(capsys, "lmplz", *given, "--arpa", "m.arpa")[0] == 0
    assert run(capsys, "convert", "m.arpa", "m.sklm")[0] == 0
    assert run(capsys, "train", "fr.txt", "-o", "t.sklm", "-n", 2)[0] == 0
    found = {}
    for name in ("m.arpa", "m.sklm", "t.sklm"):
        code, out, errors = run(capsys, "evaluate", name, "fr.txt", "--json")
        figures = json.loads(out)
        assert code == 0 and figures["n_unknown"] == 0
        assert errors.count("KenLM split the text into different words, at 18") == 1
        found[name] = figures["perplexity"]
    assert found["m.sklm"] == pytest.approx(found["m.arpa"], rel=1e-6)
    assert found["t.sklm"] != pytest.approx(found["m.arpa"], rel=0.01)
    model = LanguageModel.load("m.arpa")
    assert found["m.arpa"] == model.perplexity(TextFile("fr.txt"))


def test_blank_lines_count_for_lmplz_only(here, capsys):
    for name, text in (("a", "x y\n\n\nx y\n"), ("b", "x y\nx y\n")):
        Path(f"{name}.txt").write_text(text)
        given = ["--text", f"{name}.txt", "-o", 2, "--discount_fallback"]
        assert run(capsys, "lmplz", *given, "--arpa", f"{name}.l.arpa")[0] == 0
        assert (
            run(capsys, "train", f"{name}.txt", "-o", f"{name}.arpa", "-n", 2)[0] == 0
        )
    assert Path("a.arpa").read_bytes() == Path("b.arpa").read_bytes()
    assert Path("a.l.arpa").read_bytes() != Path("b.l.arpa").read_bytes()
    assert "<s> </s>" in Path("a.l.arpa").read_text()


def test_characters(here, capsys):
    Path("zh.txt").write_text(
        "我喜欢吃苹果喜欢苹果\n我喜欢香蕉吃香蕉吗 好\n他喜欢吃香蕉吗他说\n" * 5
    )
    code, _, errors = run(capsys, "train", "zh.txt", "-o", "w.arpa")
    assert code == 0 and "analyzer='char'" in errors
    for name in ("m.sklm", "m.pkl"):
        given = ["train", "zh.txt", "-o", name, "--characters", "-n", 3, "-q"]
        assert run(capsys, *given)[0] == 0
        out = run(capsys, "evaluate", name, "zh.txt", "--json")[1]
        assert json.loads(out)["n_tokens"] == 5 * (11 + 12 + 10)
        assert json.loads(out)["n_unknown"] == 0
        out = run(capsys, "evaluate", name, "zh.txt", "--per-sentence")[1]
        assert [line.split("\t")[-1] for line in out.splitlines()] == (
            Path("zh.txt").read_text().splitlines()
        )
        out = run(capsys, "sample", name, "-k", 3, "--seed", 0, "--prefix", "我喜")[1]
        assert all(line.startswith("我喜欢") for line in out.splitlines())
    code, out, _ = run(capsys, "info", "m.sklm", "--json")
    assert json.loads(out)["analyzer"] == "char"


def test_standard_input_is_read_once(here, capsys):
    code, _, errors = run(capsys, "train", "-", "-", "-o", "m.arpa")
    assert code == 1 and "TEXT can be read once only" in errors
