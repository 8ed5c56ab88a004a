"""Text files against Python's own reading and splitting."""

import bz2
import gzip
import lzma
import os
import pickle
import signal
import sys
import threading
import tracemalloc
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from _cases import all_pairs, each_value
from _texts import PLANES, SPACES

from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import AdditiveLM
from sklstruct.symbols import TextFile, context_windows
from sklstruct.symbols import _text_file as text_module
from sklstruct.symbols._number import number_sentences
from sklstruct.symbols._text import number_strings, number_symbols

ALPHABET = ["a", "b", "ß", "é", "€", "語", "🙂", "\u200b", "\ufeff", "\u0301", "\x7f"]


def random_lines(seed, n_lines=400):
    """Lines of odd words and spaces of all kinds, some of them empty."""
    rng = np.random.default_rng(seed)
    lines = []
    for _ in range(n_lines):
        line = ""
        for _ in range(rng.integers(0, 12)):
            line += "".join(rng.choice(ALPHABET, size=rng.integers(1, 4)))
            line += "".join(rng.choice(SPACES, size=rng.integers(1, 3)))
        lines.append(line)
    return lines


def same(a, b):
    assert a.symbols == b.symbols
    np.testing.assert_array_equal(a.tokens, b.tokens)
    assert a.tokens.dtype == b.tokens.dtype == np.int32


def write(path, text):
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


# ------------------------------------------------------------------ equality


@pytest.mark.parametrize("plane", PLANES, ids=["first", "other"])
def test_every_character_is_split_as_python_splits_it(plane):
    sentences = [
        "".join(f"x{chr(i)}y " for i in plane[start : start + 997])
        for start in range(0, len(plane), 997)
    ]
    same(number_strings(sentences), number_symbols([s.split() for s in sentences]))


@pytest.mark.parametrize("seed", range(3))
def test_strings_are_their_split_words(seed):
    sentences = [line + "\n" * (seed % 2) for line in random_lines(seed)]
    same(number_strings(sentences), number_symbols([s.split() for s in sentences]))
    assert number_sentences(sentences).n_sentences == len(sentences)


@pytest.mark.parametrize(*all_pairs(end=["\n", ""], skip=[True, False], seed=range(2)))
def test_a_file_is_its_lines(tmp_path, monkeypatch, seed, skip, end):
    # Line ends of other conventions are white space within a line.
    lines = [line.replace("\n", " ") for line in random_lines(seed)]
    lines = ["first", *lines, "last"]  # a byte order mark at the beginning is another's
    path = write(tmp_path / "text", "\n".join(lines) + end)
    expected = [line for line in lines if line.split() or not skip]
    same(
        TextFile(path, skip_blank_lines=skip).number(),
        number_symbols([line.split() for line in expected]),
    )
    assert [s.split() for s in TextFile(path, skip_blank_lines=skip)] == [
        s.split() for s in expected
    ]
    # Blocks that end anywhere, in the middle of a character too.
    for size in (1, 7, 64):
        monkeypatch.setattr(text_module, "_BLOCK", size)
        same(
            TextFile(path, skip_blank_lines=skip).number(),
            number_symbols([line.split() for line in expected]),
        )


def test_many_words_and_long_ones():
    rng = np.random.default_rng(0)
    words = [f"{i}" * int(rng.integers(1, 4)) for i in range(30_000)]
    words += ["x" * 100_000, "x" * 100_001, "y" * 1_000_000]
    order = rng.permutation(np.repeat(np.arange(len(words)), 2))
    sentences = [" ".join(words[i] for i in part) for part in np.split(order, 6)]
    same(number_strings(sentences), number_symbols([s.split() for s in sentences]))


@pytest.mark.parametrize(
    ("suffix", "pack"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)],
)
def test_packed_files(tmp_path, suffix, pack):
    raw = "\n".join(random_lines(5)).encode()
    plain = write(tmp_path / "text.txt", raw)
    packed = write(tmp_path / f"text.txt{suffix}", pack(raw))
    same(TextFile(packed).number(), TextFile(plain).number())
    damaged = write(tmp_path / f"bad.txt{suffix}", pack(raw)[:-20])
    with pytest.raises(ValueError, match=r"bad\.txt"):
        TextFile(damaged).number()


def test_zstd(tmp_path):
    raw = "\n".join(random_lines(5)).encode()
    path = tmp_path / "text.txt.zst"
    module = "compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd"
    zstd = pytest.importorskip(module)
    write(path, zstd.compress(raw))
    same(TextFile(path).number(), TextFile(write(tmp_path / "text", raw)).number())


def test_several_files_and_patterns(tmp_path):
    for name, text in (("b.txt", "b a\n"), ("a.txt", "a\nc"), ("c.dat", "no\n")):
        write(tmp_path / name, text)
    expected = number_symbols([["a"], ["c"], ["b", "a"]])
    pattern = TextFile(tmp_path / "*.txt")
    assert [os.path.basename(p) for p in pattern.paths] == ["a.txt", "b.txt"]
    same(pattern.number(), expected)
    same(TextFile([tmp_path / "a.txt", str(tmp_path / "b.txt")]).number(), expected)
    # A file whose name looks like a pattern is a file.
    same(TextFile(write(tmp_path / "[x]*", "q\n")).number(), number_symbols([["q"]]))


def test_byte_order_mark(tmp_path):
    path = write(tmp_path / "text", b"\xef\xbb\xbfa b\n")
    assert TextFile(path).number().symbols == ["a", "b"]
    assert list(TextFile(path)) == ["a b"]


@pytest.mark.parametrize("weighted", [False, True])
def test_language_model_of_a_file_is_that_of_its_sentences(tmp_path, weighted):
    lines = [line.replace("\n", " ") for line in random_lines(3)]
    path = write(tmp_path / "text", "\n".join(lines))
    lines = [line for line in lines if line.split()]
    weight = np.arange(len(lines)) % 3 if weighted else None
    models = [
        LanguageModel(AdditiveLM(delta=0.1), max_depth=3, min_count=2).fit(
            X, sample_weight=weight
        )
        for X in (TextFile(path), lines, [line.split() for line in lines])
    ]
    for model in models[1:]:
        assert model.vocabulary_.tolist() == models[0].vocabulary_.tolist()
        a, b = model.backoff_model_, models[0].backoff_model_
        assert a.pairs == b.pairs
        np.testing.assert_array_equal(a.log_prob, b.log_prob)
    assert models[0].score(TextFile(path)) == models[0].score(lines)
    w = context_windows(TextFile(path), max_depth=2)
    v = context_windows([line.split() for line in lines], max_depth=2)
    np.testing.assert_array_equal(w.tokens, v.tokens)
    assert w.vocabulary.tolist() == v.vocabulary.tolist()


def test_vocabulary_by_size_and_by_file(tmp_path):
    text = ["a a a b b c c d", "b e a"]
    model = LanguageModel(AdditiveLM(delta=0.1), max_vocabulary=3).fit(text)
    assert model.vocabulary_.tolist() == ["a", "b", "c", "<unk>", "</s>"]
    # d and e occur equally often.
    model.set_params(max_vocabulary=4).fit(text)
    assert model.vocabulary_.tolist() == ["a", "b", "c", "d", "<unk>", "</s>"]
    model.set_params(max_vocabulary=99, min_count=2).fit(text)
    assert model.vocabulary_.tolist() == ["a", "b", "c", "<unk>", "</s>"]
    words = TextFile(write(tmp_path / "words", "c\nz\na\n"))
    model = LanguageModel(AdditiveLM(delta=0.1), vocabulary=words).fit(text)
    assert model.vocabulary_.tolist() == ["a", "c", "z", "<unk>", "</s>"]
    model.set_params(max_vocabulary=2).fit(text)  # of a given vocabulary
    assert model.vocabulary_.tolist() == ["a", "c", "<unk>", "</s>"]
    model.set_params(max_vocabulary=None, min_count=3).fit(text)
    assert model.vocabulary_.tolist() == ["a", "<unk>", "</s>"]
    with pytest.raises(ValueError, match="'d'.*unknown=None.*max_vocabulary"):
        LanguageModel(max_vocabulary=4, unknown=None).fit(text[:1] + ["b e a e"])


# -------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("raw", "message"),
    [
        (b"a b\nc \xff\n", r"text, line 2: invalid UTF-8, ff"),
        (b"a\n\nb\n\xc3", r"line 4: invalid UTF-8, c3"),
        (b"\xc0\xaf", "line 1: invalid UTF-8"),  # longer than needed
        (b"\xe0\x80\x80 ", "line 1: invalid UTF-8"),
        (b"\xed\xa0\x80 ", "line 1: invalid UTF-8"),  # surrogate
        (b"\xf4\x90\x80\x80 ", "line 1: invalid UTF-8"),  # above U+10FFFF
        (b"\xf5\x80\x80\x80 ", "line 1: invalid UTF-8"),
        (b"caf\xe9 au\n", "line 1: invalid UTF-8, e9.* iconv -f latin1 "),  # Latin-1
        (b"\xff\xfea\0", "line 1: "),  # UTF-16
        (b"\xff\xfe\x48\x65\n", "line 1: .* iconv -f utf-16 "),  # without NUL
        (b"a\nb\0c\n", "line 2: a NUL byte"),
        (b"a\n" + b"b " * 60 + b"\n", "line 2: the line is longer"),
        (b"a\n" + b"b " * 60, "line 2: the line is longer"),
        (b"a\n" + b" " * 101 + b"\n", "line 2: the line is longer"),
    ],
)
def test_bad_files_are_reported_with_their_line(tmp_path, monkeypatch, raw, message):
    text = TextFile(write(tmp_path / "text", raw), max_line_bytes=100)
    for block in (1 << 20, 3):
        monkeypatch.setattr(text_module, "_BLOCK", block)
        with pytest.raises(ValueError, match=message):
            text.number()
        with pytest.raises(ValueError, match=message):
            list(text)


@pytest.mark.parametrize("packed", [bytes, gzip.compress])
def test_a_pointer_of_git_lfs_is_not_a_text(tmp_path, packed):
    raw = b"version https://git-lfs.github.com/spec/v1\noid sha256:4d7a\nsize 12\n"
    text = TextFile(write(tmp_path / "text", packed(raw)))
    for read in (text.number, partial(list, text), lambda: LanguageModel().fit(text)):
        with pytest.raises(
            ValueError, match=r"text: a pointer of git-lfs.* git lfs pul"
        ):
            read()
    later = TextFile(write(tmp_path / "text", packed(b"a line\n" + raw)))
    assert len(list(later)) == 4


@pytest.mark.parametrize("seed, n", [(0, 100), (1, 500), (2, 500)])
def test_bytes_are_valid_where_python_says_so(tmp_path, seed, n):
    rng = np.random.default_rng(seed)
    pool = np.array([0x41, 0x20, 0x80, 0xBF, 0xC1, 0xC3, 0xE0, 0xE1, 0xED, 0xF0, 0xF4])
    for _ in range(n):
        raw = rng.choice(pool, size=rng.integers(1, 6)).astype(np.uint8).tobytes()
        text = TextFile(write(tmp_path / "text", raw))
        try:
            words = raw.decode().split()
        except UnicodeDecodeError:
            with pytest.raises(ValueError, match="line 1: invalid UTF-8"):
                text.number()
        else:
            assert text.number().symbols == list(dict.fromkeys(words))


def test_paths_are_checked(tmp_path):
    for path in (tmp_path / "none", tmp_path / "*.none"):
        with pytest.raises(FileNotFoundError):
            TextFile(path)
    with pytest.raises(IsADirectoryError):
        TextFile(tmp_path)
    with pytest.raises(ValueError, match="files is empty"):
        TextFile([])
    for wrong in (3, b"x", [3], None):
        with pytest.raises(TypeError, match="files must"):
            TextFile(wrong)
    path = write(tmp_path / "text", "a")
    with pytest.raises(ValueError, match="max_line_bytes"):
        TextFile(path, max_line_bytes=0)
    with pytest.raises(ValueError, match="max_line_bytes"):
        TextFile(path, max_line_bytes=1.5)
    with pytest.raises(ValueError, match="max_line_bytes must be at most"):
        TextFile(path, max_line_bytes=10**30)
    with pytest.raises(NotADirectoryError, match="folder is not"):
        TextFile(path, folder=tmp_path / "none")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="no named pipes")
def test_a_named_pipe_is_copied(tmp_path):
    path = tmp_path / "pipe"
    os.mkfifo(path)
    feed = threading.Thread(target=path.write_bytes, args=[b"a b\n\nc \0\n"])
    feed.start()
    text = TextFile([path], folder=tmp_path)
    feed.join()
    assert list(tmp_path.glob("sklstruct-*")) == list(map(Path, text.paths))
    with pytest.raises(ValueError, match=f"{path}, line 3: a NUL byte"):
        text.number()
    assert text.number("kenlm").sentences() == [["a", "b"], ["c"]]
    del text
    assert not list(tmp_path.glob("sklstruct-*"))


@pytest.mark.parametrize("raw", [b"", b"\n \n\t\n", b"\xef\xbb\xbf"])
def test_files_without_a_sentence(tmp_path, raw):
    text = TextFile(write(tmp_path / "text", raw))
    with pytest.raises(ValueError, match="give at least one sentence in TextFile"):
        LanguageModel().fit(text)
    with pytest.raises(ValueError, match="empty"):
        context_windows(text)


def test_a_file_that_changes(tmp_path, monkeypatch):
    path = write(tmp_path / "text", "a b\n" * 100)
    blocks = TextFile._blocks

    def meanwhile(self, path):
        for i, block in enumerate(blocks(self, path)):
            yield block
            if i == 0:
                with open(path, "ab") as file:
                    file.write(b"more\n")

    monkeypatch.setattr(text_module, "_BLOCK", 64)
    monkeypatch.setattr(TextFile, "_blocks", meanwhile)
    with pytest.raises(RuntimeError, match="changed while it was read"):
        TextFile(path).number()
    # Cut short instead of longer: the interpreter must survive that.
    path = write(tmp_path / "text", "a b\n" * 100)

    def cut(self, path):
        for i, block in enumerate(blocks(self, path)):
            yield block
            if i == 0:
                os.truncate(path, 10)

    monkeypatch.setattr(TextFile, "_blocks", cut)
    with pytest.raises(RuntimeError, match="changed while it was read"):
        TextFile(path).number()


def test_a_long_line_within_the_limit_is_read(tmp_path):
    path = write(tmp_path / "text", "a b\n" + "word " * (1 << 22) + "\na\n")
    with pytest.raises(ValueError, match=r"text, line 2: .*max_line_bytes"):
        TextFile(path).number()
    text = TextFile(path, max_line_bytes=5 << 22).number()
    assert text.lengths.tolist() == [2, 1 << 22, 1]


@pytest.mark.slow
@pytest.mark.parametrize("packed", [False, True])
def test_a_line_of_a_gigabyte(tmp_path, packed):
    path = tmp_path / "text"
    block = b"word " * (1 << 18)
    with gzip.open(path, "wb", 1) if packed else open(path, "wb") as file:
        file.write(b"first line\n")
        for _ in range((1 << 30) // len(block) + 1):
            file.write(block)
    tracemalloc.start()
    try:
        for text in (TextFile(path), TextFile(path, memory=1 << 24)):
            with pytest.raises(ValueError, match=r"text, line 2: .*max_line_bytes"):
                LanguageModel().fit(text)
            with pytest.raises(ValueError, match=r"text, line 2: .*max_line_bytes"):
                list(text)
        assert tracemalloc.get_traced_memory()[1] < 80 << 20
    finally:
        tracemalloc.stop()


def test_marks_and_unknown_words_are_named_by_line(tmp_path):
    path = write(tmp_path / "text", "a b\n\nb <s>\n")
    model = LanguageModel(AdditiveLM(delta=0.1))
    with pytest.raises(
        ValueError, match=r"start mark '<s>' occurs in line 3 of .*text"
    ):
        model.fit(TextFile(path))
    closed = model.set_params(vocabulary=["a", "<s>"], unknown=None, start=None)
    with pytest.raises(ValueError, match=r"the word 'b' of line 1 of .*text"):
        closed.fit(TextFile(path))


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
def test_interrupt_is_heard_between_blocks(tmp_path, monkeypatch, interrupts):
    # Reading takes many times as long as the signal.
    path = write(tmp_path / "text", "a b c\n" * 5_000_000)
    monkeypatch.setattr(text_module, "_BLOCK", 16)
    timer = threading.Timer(
        0.05, lambda: signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
    )
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        TextFile(path).number()
    timer.join()


def test_repr_and_pickle(tmp_path):
    path = write(tmp_path / "text", "a b\n")
    text = pickle.loads(pickle.dumps(TextFile([path, path])))
    assert "2 files" in repr(text) and list(text) == ["a b", "a b"]


@pytest.mark.parametrize(*each_value(n_bytes=[7, 64, 1, 10**6], end=["", "\n"]))
def test_split_files_have_every_line_once(tmp_path, n_bytes, end):
    rng = np.random.default_rng(0)
    lines = [" ".join("ab" * rng.integers(0, 4) for _ in range(3)) for _ in range(40)]
    lines[3], lines[7] = "", "\ufeffmark in the middle \u00e4\u00f6"
    paths = [tmp_path / "a.txt", tmp_path / "b.txt", tmp_path / "c.txt.gz"]
    paths[0].write_text("\ufeff" + "\n".join(lines) + end, encoding="utf-8")
    paths[1].write_text("")
    with gzip.open(paths[2], "wt", encoding="utf-8") as file:
        file.write("packed text\n" * 3)
    for skip in (True, False):
        whole = TextFile(paths, skip_blank_lines=skip)
        parts = whole.split(n_bytes)
        assert [line for part in parts for line in part] == list(whole)
        assert sum(part.number().n_sentences for part in parts) == len(list(whole))
        again = pickle.loads(pickle.dumps(parts))
        assert [list(part) for part in again] == [list(part) for part in parts]
    if n_bytes < 10**6:
        assert len(parts) > 3
    with pytest.raises(ValueError, match="n_bytes must be an integer of at least 1"):
        whole.split(0)


def test_errors_in_parts_say_from_where_lines_count(tmp_path):
    path = tmp_path / "bad.txt"
    path.write_bytes(b"a b\n" * 10 + b"c\n\xff\n")
    part = TextFile(path).split(20)[1]
    assert repr(part).endswith("bytes 20 to 40)")
    part = TextFile(path).split(20)[-1]
    with pytest.raises(ValueError, match="bad.txt, line 2 after byte 40: invalid UTF"):
        part.number()


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="a file of Linux")
def test_errors_of_the_system_name_the_file():
    with pytest.raises(OSError, match="/proc/self/mem"):
        TextFile("/proc/self/mem").number()
