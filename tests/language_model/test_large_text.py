"""Texts beyond a memory limit: the same model, and what is refused."""

import errno
import os
import subprocess
import sys
import textwrap
import tracemalloc

import numpy as np
import pytest
from _cases import each_value
from _texts import skewed_lines
from sklearn.base import clone

from sklstruct import StructuredLogLinearLM
from sklstruct.backoff import Counted
from sklstruct.context_tree import _runs
from sklstruct.context_tree import _tree as tree_module
from sklstruct.context_tree._runs import CountRuns, RunFile
from sklstruct.context_tree._tokens import count_tokens
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import JelinekMercerLM, KneserNeyLM, WittenBellLM
from sklstruct.symbols import TextFile, _text, _text_file
from sklstruct.symbols._text import NumberedText
from sklstruct.symbols._text_file import LargeText


@pytest.fixture
def path(tmp_path, monkeypatch):
    """A text of several blocks, each of which is beyond the limits below."""
    monkeypatch.setattr(_text_file, "_BLOCK", 1 << 9)
    monkeypatch.setattr(_runs, "_BLOCK", 1 << 9)
    path = tmp_path / "text"
    path.write_text("\n".join(skewed_lines()))
    return path


LIMIT = 100_000


@pytest.mark.filterwarnings("ignore:.*counts of counts")
@pytest.mark.parametrize(
    *each_value(
        model=[KneserNeyLM(discount=0.6), WittenBellLM()],
        params=[{}, {"min_count": 20}, {"max_vocabulary": 9}, {"start": None}],
    )
)
def test_the_limit_does_not_change_the_model(path, tmp_path, model, params):
    lm = LanguageModel(model, max_depth=4, **params)
    whole = clone(lm).fit(TextFile(path))
    text = TextFile(path, memory=LIMIT, folder=tmp_path)
    numbered = text.number_or_count(256)
    assert isinstance(numbered, LargeText)
    assert len(list(numbered.parts(LIMIT // 512))) > 10
    parts = clone(lm).fit(text)
    assert parts.vocabulary_.tolist() == whole.vocabulary_.tolist()
    a, b = parts.backoff_model_, whole.backoff_model_
    assert a.pairs == b.pairs
    np.testing.assert_array_equal(a.pairs.parent, b.pairs.parent)
    np.testing.assert_array_equal(a.log_prob, b.log_prob)
    np.testing.assert_array_equal(a.log_backoff, b.log_backoff)
    assert type(a.log_prob.base) is not memoryview and a.pairs.target.flags.owndata
    assert parts.score(text) == whole.score(TextFile(path))
    assert os.listdir(tmp_path) == ["text"]  # nothing is left


def test_log_linear_model_of_a_large_text(path):
    lm = LanguageModel(StructuredLogLinearLM(penalty="l2", lam=0.5), max_depth=2)
    whole = clone(lm).fit(TextFile(path))
    parts = clone(lm).fit(TextFile(path, memory=LIMIT))
    np.testing.assert_array_equal(parts.estimator_.coef_, whole.estimator_.coef_)


@pytest.mark.parametrize("n_parts", [1, 2, 3, 8, 11])
def test_runs_merge_to_the_whole(path, n_parts):
    lm = LanguageModel(WittenBellLM(), max_depth=3).fit(TextFile(path))
    text = TextFile(path).number()
    encoder = lm.predictor.encoder
    sizes = {"n_symbols": lm._labels.n_symbols, "n_classes": lm._labels.n_classes}
    cuts = np.array_split(np.arange(text.n_sentences), n_parts)
    runs = CountRuns()
    for rows in cuts:
        keep = np.zeros(text.n_sentences, dtype=bool)
        keep[rows] = True
        tokens = encoder.encode(text.select(keep))
        runs.add(
            *_runs_count(tokens, 3, sizes["n_symbols"], sizes["n_classes"], encoder)
        )
    pairs, count = runs.finish().pairs()
    whole = _runs_count(
        encoder.encode(text), 3, sizes["n_symbols"], sizes["n_classes"], encoder
    )
    assert pairs == whole[0]
    np.testing.assert_array_equal(pairs.parent, whole[0].parent)
    np.testing.assert_array_equal(count, whole[1])


def _runs_count(tokens, depth, n_symbols, n_classes, encoder):
    return count_tokens(tokens, depth, n_symbols, n_classes, skip=encoder.start)


def test_a_text_that_fits_into_memory_is_read_once(path):
    assert isinstance(TextFile(path).number_or_count(256), NumberedText)
    assert isinstance(TextFile(path, memory=10**9).number_or_count(256), NumberedText)


def test_a_disk_that_is_full(path, tmp_path, monkeypatch):
    write, calls = _runs.Spill.write, []

    class Full:
        """A file on a disk that has room for some bytes."""

        def __init__(self, file):
            self.file, self.left = file, 100

        def write(self, data):
            if not self.left:
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            n = self.file.write(data[: self.left])
            self.left -= n
            return n

        def __getattr__(self, name):
            return getattr(self.file, name)

    def full(self, data):
        calls.append(len(data))
        if len(calls) == 5:
            self._file = Full(self._file)
        return write(self, data)

    monkeypatch.setattr(_runs.Spill, "write", full)
    lm = LanguageModel(WittenBellLM())
    with pytest.raises(
        OSError, match="No space.* no room for .* another folder"
    ) as error:
        lm.fit(TextFile(path, memory=LIMIT, folder=tmp_path))
    assert error.value.filename == str(tmp_path)
    assert error.value.errno == errno.ENOSPC
    assert os.listdir(tmp_path) == ["text"] and not hasattr(lm, "vocabulary_")


def test_errors_of_large_texts(path, monkeypatch):
    text = TextFile(path, memory=LIMIT)
    lm = LanguageModel(WittenBellLM())
    with pytest.raises(ValueError, match="raise memory of TextFile"):
        lm.fit(text, sample_weight=np.ones(3))
    with pytest.raises(ValueError, match="raise memory of TextFile"):
        LanguageModel(JelinekMercerLM(weight="held_out")).fit(text)
    with pytest.raises(MemoryError, match=r"^memory of TextFile: the \d+ distinct"):
        lm.fit(TextFile(path, memory=20_000))
    for memory in (0, np.nan, np.inf):
        with pytest.raises(ValueError, match="memory must be a positive and finite"):
            TextFile(path, memory=memory)
    for memory in ("4G", -1):
        with pytest.raises(ValueError, match="memory must be a positive"):
            TextFile(path, memory=memory)
    closed = LanguageModel(WittenBellLM(), vocabulary=["w0"], unknown=None)
    with pytest.raises(ValueError, match=r"the word 'w\d+' of line \d+ of .*text"):
        closed.fit(text)
    parts = LargeText.parts

    def meanwhile(self, n_tokens):
        with open(path, "a") as file:
            file.write("\nmore")
        yield from parts(self, n_tokens)

    monkeypatch.setattr(LargeText, "parts", meanwhile)
    with pytest.raises(RuntimeError, match="changed between two readings"):
        lm.fit(text)


@pytest.mark.slow
def test_memory_is_what_the_limit_says(path):
    """Counting and merging allocate within the limit; the model comes on top."""
    lm = LanguageModel(WittenBellLM(), max_depth=2)
    clone(lm).fit(TextFile(path, memory=LIMIT))  # imports take memory, too
    path.write_text((path.read_text() + "\n") * 100)
    limit = path.stat().st_size // 5
    peaks = []
    read = RunFile.pairs

    def measured(self):
        peaks.append(tracemalloc.get_traced_memory()[1])
        return read(self)

    tracemalloc.start()
    try:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RunFile, "pairs", measured)
            patch.setattr(_runs, "_MOST_RUNS", 4)  # each takes some kilobytes
            lm.fit(TextFile(path, memory=limit))
    finally:
        tracemalloc.stop()
    assert len(peaks) == 1 and peaks[0] < limit


def test_more_positions_than_can_be_numbered(path, monkeypatch):
    """As if 32-bit numbers ended at 3 000: the text is then counted in parts."""
    lm = LanguageModel(KneserNeyLM(discount=0.6), max_depth=3)
    whole = lm.fit(TextFile(path))
    n_tokens = TextFile(path).number().tokens.size
    monkeypatch.setattr(_text, "MOST_TOKENS", 3000)
    monkeypatch.setattr(_text_file, "MOST_TOKENS", 3000)
    assert n_tokens > 3000
    numbered = TextFile(path).number_or_count(256)
    assert isinstance(numbered, LargeText) and numbered.n_tokens == n_tokens
    sizes = [part.tokens.size for part in numbered.parts(10**9)]
    assert sum(sizes) == n_tokens and max(sizes) < 1000
    parts = clone(lm).fit(TextFile(path))
    assert parts.backoff_model_.pairs == whole.backoff_model_.pairs
    np.testing.assert_array_equal(
        parts.backoff_model_.log_prob, whole.backoff_model_.log_prob
    )
    with pytest.raises(ValueError, match=rf"{n_tokens} tokens in one piece.*TextFile"):
        parts.score(TextFile(path))
    with pytest.raises(ValueError, match="tokens in one piece"):
        clone(lm).fit(list(TextFile(path)))


def test_counts_beyond_32_bits(path):
    """Runs whose counts pass 2^31 and 2^32 in their sum, as of so many samples."""
    lm = LanguageModel(WittenBellLM(), max_depth=2).fit(TextFile(path))
    encoder, labels = lm.predictor.encoder, lm._labels
    pairs, count = _runs_count(
        encoder.encode(TextFile(path).number()),
        2,
        labels.n_symbols,
        labels.n_classes,
        encoder,
    )
    runs = CountRuns()
    for _ in range(5):
        runs.add(pairs, count * 2.0**30)
    merged, total = runs.finish().pairs()
    assert merged == pairs and total.max() > 2.0**32
    np.testing.assert_array_equal(total, count * 5 * 2.0**30)
    ids = labels.of_ids(labels.n_classes, labels.n_symbols)
    big = WittenBellLM().fit_counted(Counted(merged, total, ids, 2, 2))
    assert big.backoff_model_.check_normalized() < 1e-12
    np.testing.assert_array_equal(total, count * 5 * 2.0**30)  # not overwritten


def test_more_nodes_or_pairs_than_can_be_numbered(path, monkeypatch):
    lm = LanguageModel(WittenBellLM(), max_depth=3).fit(TextFile(path))
    n_nodes, n_pairs = lm.backoff_model_.n_nodes, lm.backoff_model_.n_pairs
    assert n_nodes + 10 < n_pairs
    monkeypatch.setattr(tree_module, "INT32_MAX", n_pairs)
    clone(lm).fit(TextFile(path))
    monkeypatch.setattr(tree_module, "INT32_MAX", n_pairs - 1)
    with pytest.raises(ValueError, match=rf"hold {n_pairs} \(context, class\) pairs"):
        clone(lm).fit(TextFile(path))
    monkeypatch.setattr(tree_module, "INT32_MAX", n_nodes - 1)
    with pytest.raises(ValueError, match=rf"would hold {n_nodes} contexts"):
        clone(lm).fit(TextFile(path))
    # Counts that merge: the union is what counts, not the sum of the parts.
    text = TextFile(path, memory=LIMIT)
    monkeypatch.setattr(tree_module, "INT32_MAX", n_pairs)
    clone(lm).fit(text)
    monkeypatch.setattr(tree_module, "INT32_MAX", n_pairs - 1)
    with pytest.raises(ValueError, match=rf"hold {n_pairs} \(context, class\) pairs"):
        clone(lm).fit(text)
    monkeypatch.setattr(tree_module, "INT32_MAX", n_nodes - 1)
    with pytest.raises(ValueError, match=r"would hold \d+ "):
        clone(lm).fit(text)


SMALL_DISK = """
    import resource, sys
    from sklstruct.language_model import LanguageModel
    from sklstruct.smoothing import WittenBellLM
    from sklstruct.symbols import TextFile

    # No file may grow beyond this: the runs do not fit.
    resource.setrlimit(resource.RLIMIT_FSIZE, (30_000, 30_000))
    lm = LanguageModel(WittenBellLM())
    try:
        lm.fit(TextFile(sys.argv[1], memory=100_000, folder=sys.argv[2]))
    except OSError as exc:
        print(type(exc).__name__, exc)
    print(hasattr(lm, "vocabulary_"))
"""


def run_child(program, *arguments, cwd):
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=3600,
        check=False,
        cwd=cwd,
    )


@pytest.mark.processes
def test_files_that_may_not_grow(path, tmp_path):
    """A limit of the system on the size of files, as a real disk without room."""
    pytest.importorskip("resource")
    folder = tmp_path / "runs"
    folder.mkdir()
    ran = run_child(SMALL_DISK, path, folder, cwd=tmp_path)
    assert ran.returncode == 0, ran.stderr
    assert "OSError" in ran.stdout and "large" in ran.stdout
    assert ran.stdout.endswith("False\n")
    assert os.listdir(folder) == []


KILLED = """
    import os, signal, sys
    import sklstruct.symbols._text_file
    from sklstruct.context_tree._runs import CountRuns
    from sklstruct.language_model import LanguageModel
    from sklstruct.smoothing import WittenBellLM
    from sklstruct.symbols import TextFile

    add, calls = CountRuns.add, []

    def killing(self, *args):
        add(self, *args)
        calls.append(None)
        if len(calls) == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    CountRuns.add = killing
    sklstruct.symbols._text_file._BLOCK = 1 << 9
    text = TextFile(sys.argv[1], memory=100_000, folder=sys.argv[2])
    LanguageModel(WittenBellLM()).fit(text)
"""


@pytest.mark.processes
def test_a_killed_fit_leaves_no_files(path, tmp_path):
    """The files of the counts have no names."""
    if sys.platform == "win32":
        pytest.skip("files keep their names")
    folder = tmp_path / "runs"
    folder.mkdir()
    ran = run_child(KILLED, path, folder, cwd=tmp_path)
    assert ran.returncode == -9
    assert sum(len(files) for _, _, files in os.walk(folder)) == 0
    whole = LanguageModel(WittenBellLM()).fit(TextFile(path))
    again = LanguageModel(WittenBellLM()).fit(
        TextFile(path, memory=LIMIT, folder=folder)
    )
    np.testing.assert_array_equal(
        whole.backoff_model_.log_prob, again.backoff_model_.log_prob
    )


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "at least one sentence in"),
        (b"\n\n\n", "at least one sentence in"),
        (b"a b\n\x00\x01\n", "line 2: a NUL byte"),
        ("a b\nc d\n".encode("utf-16"), "binary file or UTF-16|invalid UTF-8"),
        (b"a b\n\xff\xfe\n", "line 2: invalid UTF-8"),
        (b"a " * 20_000_000, "longer than max_line_bytes"),
    ],
    ids=["empty", "blank", "binary", "utf-16", "bytes", "one line"],
)
@pytest.mark.parametrize("memory", [None, LIMIT])
def test_files_that_are_not_text(content, message, memory, tmp_path):
    path = tmp_path / "text"
    path.write_bytes(content)
    lm = LanguageModel(WittenBellLM())
    with pytest.raises(ValueError, match=message):
        lm.fit(TextFile(path, memory=memory))
    assert not hasattr(lm, "vocabulary_")
