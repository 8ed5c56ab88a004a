"""The quickstart does what it promises, on its own small text."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sklstruct.language_model import LanguageModel

SCRIPT = Path(__file__).parents[2] / "examples" / "quickstart.py"


def run(*args, cwd):
    return subprocess.run(
        [sys.executable, str(SCRIPT), *map(str, args)],
        cwd=cwd,
        capture_output=True,
        text=True,
        # matplotlib's cache must not be looked for in a home that may not exist.
        env={**os.environ, "MPLCONFIGDIR": str(cwd)},
        timeout=3600,
    )


@pytest.mark.slow
def test_quickstart(tmp_path):
    pytest.importorskip("matplotlib")
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in range(30)]
    p = 1 / np.arange(1, 31)
    lines = [
        " ".join(rng.choice(words, size=rng.integers(1, 9), p=p / p.sum()))
        for _ in range(400)
    ]
    text = tmp_path / "text.txt"
    text.write_text("\n".join(lines), encoding="utf-8")
    result = run(text, "--output", tmp_path / "out", cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    for name in ("modified Kneser-Ney", "log-linear, lam", '"best"', "and a cache"):
        assert name in result.stdout
    assert 1 <= result.stdout.count("  * ") <= 3
    assert "lower is better" in result.stdout
    assert (tmp_path / "out" / "quickstart.png").read_bytes()[1:4] == b"PNG"
    binary = LanguageModel.load(tmp_path / "out" / "quickstart.bin")
    assert 1 < binary.perplexity(lines) < len(words) + 2
    read = LanguageModel.load(tmp_path / "out" / "quickstart.arpa")
    assert 1 < read.perplexity(lines) < len(words) + 2


@pytest.mark.processes
@pytest.mark.parametrize(
    "make, message",
    [
        (lambda p: None, "cannot read"),
        (lambda p: p.write_text("one line\n"), "too few"),
        (lambda p: p.write_bytes(b"\xff\xfe\x00"), "not UTF-8"),
    ],
    ids=["missing", "short", "binary"],
)
def test_bad_text_is_told_at_once(tmp_path, make, message):
    if message == "too few":  # matplotlib is asked for first
        pytest.importorskip("matplotlib")
    text = tmp_path / "text.txt"
    make(text)
    result = run(text, cwd=tmp_path)
    assert result.returncode == 1
    assert message in result.stderr and "Traceback" not in result.stderr
