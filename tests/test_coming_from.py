"""The page for those who come from other tools: our column runs, in its order."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

from sklstruct.datasets import load_python_topics

PAGE = Path(__file__).parents[1] / "docs" / "user_guide" / "coming_from.rst"


def ours(heading):
    """The right column of the table below a heading."""
    text = PAGE.read_text(encoding="utf-8")
    part = re.split(r"(?m)^=+$", text.split(f"\n{heading}\n")[1])[1]
    return re.findall(r"(?m)^     - ``(.+?)``$", part)


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
    """What the commands print, by command; their files are in the folder."""
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
        given = streams["<"].read_bytes() if "<" in streams else None
        done = subprocess.run(
            [sys.executable, "-m", "sklstruct", *words], cwd=folder, input=given,
            capture_output=True,
        )  # fmt: skip
        assert done.returncode == 0, (command, done.stderr.decode())
        if ">" in streams:
            streams[">"].write_bytes(done.stdout)
        found[command] = done.stdout.decode()
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
