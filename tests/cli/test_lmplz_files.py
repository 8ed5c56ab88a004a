"""lmplz through files: any memory gives the same bytes, and nothing is left behind."""

import io
import os
import signal
import subprocess
import sys
import textwrap

import numpy as np
import pytest
from _texts import skewed_lines

from sklstruct import _cli
from sklstruct.backoff import _counting
from sklstruct.context_tree import _runs
from sklstruct.context_tree._runs import Column, Spill
from sklstruct.symbols import TextFile, _text_file


@pytest.fixture
def text(tmp_path, monkeypatch):
    """A text of many blocks; its path."""
    monkeypatch.setattr(_text_file, "_BLOCK", 1 << 9)
    path = tmp_path / "text"
    path.write_text("\n".join(skewed_lines()) + "\n")
    return path


def lmplz(text, arpa, *options):
    folder = text.parent / "temporary"
    folder.mkdir(exist_ok=True)
    given = ["lmplz", "-o", "4", "--discount_fallback", "--text", text, "--arpa", arpa]
    code = _cli.main([str(x) for x in [*given, "-q", "-T", folder, *options]])
    assert os.listdir(folder) == []
    return code


@pytest.mark.parametrize("options", [[], ["--prune", "0", "1", "2"], ["--prune", "3"]])
def test_memory_changes_no_byte(text, tmp_path, options, monkeypatch):
    whole, parts = tmp_path / "whole.arpa", tmp_path / "parts.arpa"
    assert lmplz(text, whole, *options) == 0
    calls = []
    add = _runs.CountRuns.add

    def counting(self, *args):
        calls.append(None)
        add(self, *args)

    monkeypatch.setattr(_runs.CountRuns, "add", counting)
    monkeypatch.setattr(_runs, "_MOST_RUNS", 5)
    for memory, piece in (("80%", 300), ("100k", 1 << 20), ("40k", 1 << 20)):
        calls.clear()
        monkeypatch.setattr(_counting, "_PIECE", piece)
        assert lmplz(text, parts, "-S", memory, *options) == 0
        assert len(calls) > 15
        assert parts.read_bytes() == whole.read_bytes()
    assert whole.read_bytes().count(b"\n") > 500


@pytest.mark.parametrize("nth", [1, 10, 30, 60])
def test_an_interrupt_leaves_nothing(text, tmp_path, nth, monkeypatch, interrupts):
    """The signal comes while a kernel writes: it ends there, and the old file stays."""
    monkeypatch.setattr(_counting, "_PIECE", 4000)
    arpa = tmp_path / "old.arpa"
    arpa.write_text("old")
    append, calls = Column.append, []

    def interrupted(self, array):
        calls.append(None)
        if len(calls) == nth:
            os.kill(os.getpid(), signal.SIGINT)
        append(self, array)

    monkeypatch.setattr(Column, "append", interrupted)
    assert lmplz(text, arpa) == 130
    assert nth <= len(calls) <= nth + 1
    assert arpa.read_text() == "old"
    assert sorted(os.listdir(tmp_path)) == ["old.arpa", "temporary", "text"]


@pytest.mark.parametrize("room", [10_000, 100_000, 300_000])
def test_a_full_disk_names_the_folder(text, tmp_path, room, monkeypatch, capsys):
    arpa = tmp_path / "old.arpa"
    arpa.write_text("old")
    write, written = Spill.write, [0]

    class Full:
        def __init__(self, file):
            self.file = file

        def write(self, data):
            if written[0] >= room:
                raise OSError(28, "No space left on device")
            n = self.file.write(data[: room - written[0]])
            written[0] += n
            return n

        def seek(self, at):
            self.file.seek(at)

    def full(self, data):
        file = self._file
        self._file = Full(file)
        try:
            return write(self, data)
        finally:
            self._file = file

    monkeypatch.setattr(Spill, "write", full)
    assert lmplz(text, arpa) == 1
    said = capsys.readouterr().err
    assert "no room for more than" in said and "-T of the command" in said
    assert str(tmp_path / "temporary") in said
    assert arpa.read_text() == "old" and written[0] == room


def test_a_full_disk_names_the_folder_of_a_copy(tmp_path, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="no room for a copy of the file object") as said:
        TextFile(io.BytesIO(b"a b\n"), folder=tmp_path)
    assert said.value.filename == str(tmp_path)


def test_a_prefix_that_is_not_a_folder(text, tmp_path, capsys):
    arpa = tmp_path / "x.arpa"
    missing = tmp_path / "missing" / "lm"
    assert _cli.main(
        [
            "lmplz",
            "-o",
            "2",
            "-T",
            str(missing),
            "--text",
            str(text),
            "--arpa",
            str(arpa),
        ]
    )
    assert "missing is not a folder" in capsys.readouterr().err
    # A prefix of names is in the folder before it.
    assert lmplz(text, arpa, "-T", tmp_path / "temporary" / "lm") == 0


LIMITED = """
    import resource, sys
    import numpy as np

    from sklstruct.language_model import LanguageModel
    from sklstruct.smoothing import KneserNeyLM
    from sklstruct.symbols import TextFile

    def limit(n_bytes):
        resource.setrlimit(resource.RLIMIT_AS, (n_bytes, n_bytes))

    if sys.argv[1] == "lmplz":
        from sklstruct._cli import main
        limit(600 * 2**20)
        sys.exit(main(["lmplz", "-o", "5", "-S", "100M", "-q", *sys.argv[2:]]))
    limit(2**30)
    lm = LanguageModel(KneserNeyLM(), max_depth=4)
    lm.fit(TextFile(sys.argv[2], memory=100_000_000))
    print(lm.backoff_model_.n_pairs)
"""


@pytest.mark.slow
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
@pytest.mark.parametrize("program", ["lmplz", "LanguageModel"])
def test_four_million_words_in_an_address_space(tmp_path, program):
    """100 MB, and the libraries; of a LanguageModel, the model besides."""
    rng = np.random.default_rng(0)
    path, arpa = tmp_path / "text", tmp_path / "x.arpa"
    words = np.array([f"{i:x} " for i in range(20_000)], dtype=object)
    with open(path, "w") as file:
        for _ in range(40):
            # Every other word follows from the one before, as phrases do.
            drawn = np.minimum(rng.zipf(1.3, size=100_000), 10_000) - 1
            drawn[1::2] = (7 * drawn[::2] + rng.integers(0, 3, size=50_000)) % 20_000
            lines = np.array_split(words[drawn], 4000)
            file.writelines("".join(line.tolist()) + "\n" for line in lines)
    arguments = [path]
    if program == "lmplz":
        arguments = ["--discount_fallback", "--text", path, "--arpa", arpa]
    ran = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(LIMITED), program, *map(str, arguments)],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    assert ran.returncode == 0, ran.stderr
    if program == "lmplz":
        assert arpa.stat().st_size > 100_000_000
    else:
        assert int(ran.stdout) > 4_000_000
