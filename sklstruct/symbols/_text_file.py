"""Text files: blocks of whole lines, their checks, and their words numbered."""

from __future__ import annotations

import copy
import errno
import glob
import numbers
import os
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from types import SimpleNamespace
from typing import Any, BinaryIO

import numpy as np

from .._checks import check_count, physical_memory
from .._files import (
    COMPRESSIONS,
    LFS_POINTER,
    WHAT_POINTER,
    DamagedData,
    check_path,
    open_read,
    raise_if_full,
)
from . import _text_fast as _fast
from ._strings_fast import decode_strings
from ._text import MOST_TOKENS, NumberedText, WordTable, split_string

# Bytes of a file between two checks for signals.
_BLOCK = 1 << 20
# Tokens that are processed together if a text may be too large.
_CHUNK = 1 << 20
# Upper bound, in bytes, of the memory of a distinct word: its entries in tables and
# dictionaries.
_BYTES_PER_WORD = 300


class TextFile:
    r"""Sentences in text files, one per line.

    .. math::
        \text{line} = w_1 \ldots w_L , \qquad
        w_i \text{ a longest run of characters without white space.}

    A `TextFile` can be passed instead of a list of sentences:
    ``LanguageModel.fit(TextFile(path))``. Compiled code reads the files in blocks and
    numbers the words, without a Python object for each line or word. Iteration over a
    `TextFile` returns the lines as strings.

    Parameters
    ----------
    files : str, os.PathLike, binary file object, or list of them
        Files in UTF-8, plain or compressed (gzip, bzip2, xz; zstd from Python 3.14 on,
        before with the package ``backports.zstd``), recognised by their first bytes. A
        name that is not a file and contains ``*``, ``?`` or ``[`` is a pattern for
        files, in sorted order. The rest of a file object, such as ``sys.stdin.buffer``,
        or of a named pipe is first copied to a temporary file in `folder`, because a
        text can be read more than once.

    skip_blank_lines : bool, default=True
        Whether lines without a word are left out. False: such lines are empty
        sentences, as in KenLM.

    max_line_bytes : int, default=16777216
        Largest number of bytes of a line, at least 1. A longer line is an error,
        because such a file does not have one sentence per line. A line needs up to
        eight times its bytes of memory.

    memory : int, default=None
        Bytes for reading and counting in `LanguageModel.fit`, besides the model itself.
        A text that needs more is read twice, its parts are counted one by one, and
        their counts are merged on the disk. None: half of the memory of the machine.
        The model does not depend on `memory`.

    folder : str or os.PathLike, default=None
        Folder of temporary files: counts during the fit, and copies of file objects.
        None: the system's folder for temporary files.

    Attributes
    ----------
    paths : list of str
        The files, and copies of file objects.

    Raises
    ------
    FileNotFoundError
        If a file does not exist, or nothing matches a pattern.
    OSError
        If a path is a folder or a socket, or `folder` is not a folder.
    ValueError
        If `paths` is empty. When the files are read, with the name of the file and
        the number of the line: if they are not UTF-8, hold NUL bytes (binary files), a
        line is too long, or packed data are damaged.
    RuntimeError
        If a file changes while it is read.

    See Also
    --------
    sklstruct.language_model.LanguageModel : Takes text files for sentences.

    Notes
    -----
    A line ends only at a line feed. A byte order mark at the beginning of a file is
    skipped. The model that reads a line splits the line by the rule of its `analyzer`
    (see `LanguageModel`). A line is blank if it does not contain a word; with "char",
    if it has white space only.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import AdditiveLM
    >>> from sklstruct.symbols import TextFile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "cats.txt")
    ...     with open(path, "w") as file:
    ...         _ = file.write("the cat sat\nthe dog sat\nthe cat ran\n")
    ...     text = TextFile(path)
    ...     sentences = list(text)
    ...     model = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text)
    >>> sentences
    ['the cat sat', 'the dog sat', 'the cat ran']
    >>> round(model.perplexity(["the cat sat"]), 3)
    1.681
    """

    def __init__(
        self,
        files: str | os.PathLike | BinaryIO | Iterable[str | os.PathLike | BinaryIO],
        *,
        skip_blank_lines: bool = True,
        max_line_bytes: int = 1 << 24,
        memory: int | None = None,
        folder: str | os.PathLike | None = None,
    ) -> None:
        given: Iterable[Any]
        if isinstance(files, str | os.PathLike) or hasattr(files, "read"):
            given = [files]
        elif isinstance(files, bytes) or not isinstance(files, Iterable):
            raise TypeError(
                "files must be a path, a binary file object or a list of them, got "
                f"{type(files).__name__}"
            )
        else:
            given = files
        self.max_line_bytes = check_count("max_line_bytes", max_line_bytes, 1)
        known = isinstance(memory, numbers.Real) and 1 <= memory < np.inf
        if not known and memory is not None:
            raise ValueError(
                "memory must be a positive and finite number of bytes, got "
                f"{memory!r:.60}; None is half of what the machine has"
            )
        self.memory = memory
        self.folder = None if folder is None else check_path(folder, "folder", "a path")
        if self.folder is not None and not os.path.isdir(self.folder):
            raise NotADirectoryError(
                errno.ENOTDIR, "folder is not an existing folder", self.folder
            )
        self.paths: list[str] = []
        self._copies: dict[str, _Copy] = {}
        for file in given:
            if hasattr(file, "read"):
                stdin = getattr(sys.stdin, "buffer", None)
                self._copy(file, "standard input" if file is stdin else "")
                continue
            for path in _files_of(file):
                if stat.S_ISFIFO(os.stat(path).st_mode):
                    with open(path, "rb") as pipe:
                        self._copy(pipe, path)
                else:
                    self.paths.append(path)
        if not self.paths:
            raise ValueError("files is empty: give at least one file")
        self.skip_blank_lines = bool(skip_blank_lines)
        # (start, stop) where only the lines that begin in there are meant.
        self._part: tuple[int, int] | None = None

    def _copy(self, file, name):
        copy = _Copy(file, name, self.folder)
        self._copies[copy.path] = copy
        self.paths.append(copy.path)

    def _name(self, path):
        """Name of a file in messages."""
        return self._copies[path].name if path in self._copies else path

    def __repr__(self) -> str:
        what = repr(self._name(self.paths[0]))
        if self._part is not None:
            what += ", bytes {} to {}".format(*self._part)
        if len(self.paths) > 1:
            what = f"[{what}, ... {len(self.paths)} files]"
        return f"TextFile({what})"

    def __iter__(self) -> Iterator[str]:
        """The lines that are sentences, without their ends."""
        for _, _, line in self._lines("word"):
            yield line

    def _lines(self, analyzer):
        """(path, number of the line, line) of every sentence."""
        for path in self.paths:
            n_lines = 0
            for block in self._blocks(path):
                for raw in block.split(b"\n")[:-1]:
                    n_lines += 1
                    line = self._read_line(path, n_lines, raw, analyzer)
                    by = "kenlm" if analyzer == "kenlm" else "word"
                    if not (self.skip_blank_lines and not split_string(line, by)):
                        yield path, n_lines, line

    def _read_line(self, path, number, line, analyzer):
        if len(line) > self.max_line_bytes:
            self._raise(_fast.LONG_LINE, path, number, line)
        if b"\0" in line and analyzer != "kenlm":
            self._raise(_fast.NUL, path, number, line)
        try:
            return line.decode("utf-8").removesuffix("\r")
        except UnicodeDecodeError as exc:
            self._raise(_fast.BAD_UTF8, path, number, line[exc.start :])

    def _raise(self, code, path, number, rest):
        where = f"{self._name(path)}, line {number}"
        if self._part is not None and self._part[0]:
            where += f" after byte {self._part[0]}"
        if code == _fast.LONG_LINE:
            raise ValueError(
                f"{where}: the line is longer than max_line_bytes="
                f"{self.max_line_bytes}; a text file has one sentence per line. Split "
                "the text into lines, or raise max_line_bytes"
            )
        if code == _fast.NUL:
            raise ValueError(
                f"{where}: a NUL byte; this is a binary file, an archive to unpack "
                "first, or UTF-16, and not text in UTF-8"
            )
        first = bytes(rest[:4]).removesuffix(b"\n")
        was = "utf-16" if first[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin1"
        raise ValueError(
            f"{where}: invalid UTF-8, {first.hex(' ')}; convert the file, for example "
            f"with iconv -f {was} -t utf-8"
        )

    def _blocks(self, path):
        """Blocks of whole lines of one file; each line ends with a line feed."""
        state = self._state_of(path)
        with self._open(path) as file:
            rest, first = [], self._part is None or self._part[0] == 0
            n_rest = n_lines = 0
            while True:
                try:
                    block = file.read(_BLOCK)
                except DamagedData as exc:
                    raise ValueError(f"{self._name(path)}: {exc}") from exc
                if first:
                    block = block.removeprefix(b"\xef\xbb\xbf")
                    first = False
                    if block.startswith(LFS_POINTER):
                        raise ValueError(f"{self._name(path)}: {WHAT_POINTER}")
                if not block:
                    break
                cut = block.rfind(b"\n") + 1
                if cut:
                    yield b"".join([*rest, block[:cut]])
                    n_lines += block.count(b"\n")
                    rest, n_rest = [], 0
                rest.append(block[cut:])
                n_rest += len(block) - cut
                if n_rest > self.max_line_bytes:
                    self._raise(_fast.LONG_LINE, path, n_lines + 1, b"")
            if n_rest:
                yield b"".join([*rest, b"\n"])
        if self._state_of(path) != state:
            raise RuntimeError(
                f"{path} changed while it was read; read it again when nothing writes "
                "to it"
            )

    @contextmanager
    def _open(self, path):
        with open_read(path) as (file, _):
            yield file if self._part is None else _Lines(file, *self._part)

    def split(self, n_bytes: int) -> list[TextFile]:
        """The text in parts, of about n_bytes each, to be read apart.

        Parameters
        ----------
        n_bytes : int
            At least 1. A packed file is one part.

        Returns
        -------
        parts : list of TextFile
            Every line is in one of them; those of a part begin within a range of bytes
            of one file. Messages count lines from there.
        """
        n_bytes = check_count("n_bytes", n_bytes, 1)
        parts = []
        for path in self.paths:
            with open(path, "rb") as file:
                head = file.read(6)
            packed = any(head.startswith(m) for c in COMPRESSIONS for m in c.magics)
            size = os.path.getsize(path)
            for start in range(0, 1 if packed else max(size, 1), n_bytes):
                part = copy.copy(self)
                part.paths = [path]
                if not packed and self._part is None and size > n_bytes:
                    part._part = start, min(start + n_bytes, size)
                parts.append(part)
        return parts

    def number(self, analyzer: str = "word") -> NumberedText:
        """The numbers of the words of all files, in memory.

        Parameters
        ----------
        analyzer : {"word", "kenlm", "char"}, default="word"
            The rule by which lines are split.

        Returns
        -------
        text : NumberedText
            Words are numbered in the order of appearance.
        """
        words = WordTable(analyzer)
        for _ in self._read_into(words):
            pass
        return words.finish(partial(self.where, analyzer=analyzer))

    def _read_into(self, words):
        """Number the blocks, one at each step."""
        for path in self.paths:
            words.state[_fast.LINES] = 0
            for block in self._blocks(path):
                code = words.add(
                    block,
                    strict=True,
                    keep_blank=not self.skip_blank_lines,
                    max_line=self.max_line_bytes,
                )
                if code != _fast.DONE:
                    at = int(words.state[_fast.POSITION])
                    line = int(words.state[_fast.LINES]) + 1
                    self._raise(code, path, line, block[at:])
                yield

    def chunks(self, words: WordTable, n_tokens: int) -> Iterator[np.ndarray]:
        """The tokens of whole sentences, about n_tokens at a time."""
        before = words.n_tokens
        for _ in self._read_into(words):
            if words.n_tokens - before >= n_tokens:
                before = words.n_tokens
                yield words.take()
        if words.n_tokens > before:
            yield words.take()

    def number_or_count(
        self, bytes_per_token: int, analyzer: str = "word"
    ) -> NumberedText | LargeText:
        """The text in memory, if it and what it takes are within `memory`.

        Parameters
        ----------
        bytes_per_token : int
            Bytes that the caller needs per token.

        analyzer : {"word", "kenlm", "char"}, default="word"
            The rule by which lines are split.

        Returns
        -------
        text : NumberedText or LargeText
            The second, which can only be read part by part, also where 32-bit positions
            are not enough.
        """
        limit = self.memory or physical_memory() / 2
        words, kept = WordTable(analyzer), []
        n_kept, n_sentences, large = 0, 0, False
        count = np.zeros(0, dtype=np.int64)
        most = int(min(limit // bytes_per_token, _CHUNK, MOST_TOKENS // 4))
        for tokens in self.chunks(words, max(1, most)):
            kept.append(tokens)
            n_kept += tokens.size
            large = large or n_kept * bytes_per_token > limit
            large = large or n_kept > MOST_TOKENS // 3
            while large and kept:
                tokens, before = kept.pop(), count
                count = np.bincount(tokens[tokens >= 0], minlength=words.n_words)
                count[: before.size] += before
                n_sentences += int(np.count_nonzero(tokens < 0))
        if not large:
            words.chunks = kept
            return words.finish(partial(self.where, analyzer=analyzer))
        return LargeText(self, words, count, n_sentences)

    def state(self) -> list[tuple]:
        """Sizes and dates of the files; equal as long as these do not change."""
        return [self._state_of(path) for path in self.paths]

    def _state_of(self, path):
        s = os.stat(path)
        return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns

    def where(self, i: int, analyzer: str = "word") -> str:
        """Name of a sentence for messages."""
        for j, (path, number, _) in enumerate(self._lines(analyzer)):
            if j == i:
                return f"line {number} of {self._name(path)}"
        return f"sentence {i}"


class LargeText:
    """A text that is read again and again, a part at a time.

    symbols: its distinct words, in the order of appearance, with their occurrences
    `count`.
    """

    def __init__(
        self, file: TextFile, words: WordTable, count: np.ndarray, n_sentences: int
    ) -> None:
        self.file, self.symbols = file, decode_strings(*words.packed())
        self.n_sentences, self.n_tokens = n_sentences, words.n_tokens
        self._words, self._count = words, count
        self._state = file.state()
        self._gone: list[int] = []
        self.odd = words.odd()

    def counts(self) -> np.ndarray:
        """(n_symbols,) occurrences of each symbol."""
        return self._count

    def without(self, numbers: list[int]) -> LargeText:
        """The text without some of its symbols, which occur no more."""
        other = copy.copy(self)
        other._gone, other._count = numbers, self._count.copy()
        other._count[numbers] = 0
        return other

    def part_size(self, bytes_per_token: int, name: str = "memory of TextFile") -> int:
        """Tokens of a part that half of the memory can hold.

        MemoryError if the words alone need more than the other half; `name` is what
        sets the memory.
        """
        memory = self.file.memory or physical_memory() / 2
        needed = _BYTES_PER_WORD * len(self.symbols)
        if needed > memory / 2:
            raise MemoryError(
                f"{name}: the {len(self.symbols)} distinct words of the text need "
                f"about {2 * needed} bytes, more than {int(memory)}; raise {name}"
            )
        return int(memory / 2) // bytes_per_token

    def _where(self, first: int, sentence: int) -> str:
        return self.file.where(first + sentence, self._words.analyzer)

    def parts(self, n_tokens: int) -> Iterator[NumberedText]:
        """The text in parts of about n_tokens, under the same numbers."""
        if self.file.state() != self._state:
            raise RuntimeError(
                f"{self.file!r} changed between two readings; fit again when nothing "
                "writes to it"
            )
        first = 0
        for tokens in self.file.chunks(self._words, min(n_tokens, MOST_TOKENS // 4)):
            # `packed` has the words of a file that has grown, too.
            where = partial(self._where, first)
            part = NumberedText(tokens, self._words.packed(), where)
            first += part.n_sentences
            yield part.without(self._gone) if self._gone else part
        if self._words.n_words != len(self.symbols):
            raise RuntimeError(f"{self.file!r} changed between two readings")


class _Copy:
    """The rest of a file object in a temporary file, which goes with this object."""

    def __init__(self, file: Any, name: str, folder: str | None) -> None:
        if not name:
            given = getattr(file, "name", None)
            name = given if isinstance(given, str) else "the file object"
        self.name = name
        handle, self.path = tempfile.mkstemp(prefix="sklstruct-", dir=folder)
        weakref.finalize(self, _remove, self.path)
        with open(handle, "wb") as copy:
            head = file.read(0)
            if not isinstance(head, bytes):
                raise TypeError(
                    f"files: {name} is open as text; open it as binary, for example "
                    "with open(path, 'rb')"
                )
            try:
                shutil.copyfileobj(file, copy, _BLOCK)
                copy.flush()
            except OSError as exc:
                raise_if_full(exc, f"a copy of {name}", os.path.dirname(self.path))
                raise

    def __reduce__(self) -> tuple:
        # The process that made a copy removes it.
        return partial(SimpleNamespace, path=self.path, name=self.name), ()


def _remove(path):
    with suppress(OSError):
        os.unlink(path)


class _Lines:
    """The bytes of the lines of a file that begin in a range."""

    def __init__(self, file: Any, start: int, stop: int) -> None:
        self._file = file
        self._stop = self._line_end(stop)
        # The first line is the one after the byte before the range, if that ends one.
        self._at = self._line_end(start)
        file.seek(self._at)

    def _line_end(self, at):
        """The end of the line that holds the byte before `at`; 0 at the beginning."""
        if at == 0:
            return 0
        self._file.seek(at - 1)
        while line := self._file.readline(_BLOCK):
            if line.endswith(b"\n"):
                break
        return self._file.tell()

    def read(self, size: int) -> bytes:
        block = self._file.read(min(size, self._stop - self._at))
        self._at += len(block)
        return block


def _files_of(path):
    if isinstance(path, bytes) or not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"files must hold paths or binary file objects, got {type(path).__name__}"
        )
    path = os.fspath(path)
    if os.path.exists(path):
        if os.path.isdir(path):
            raise IsADirectoryError(
                errno.EISDIR,
                "is a folder; give its files, for example by a pattern",
                path,
            )
        if stat.S_ISSOCK(os.stat(path).st_mode):
            raise OSError(errno.ESPIPE, "is a socket; write its text to a file", path)
        return [path]
    found = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
    found = [name for name in found if os.path.isfile(name)]
    if not found:
        raise FileNotFoundError(
            errno.ENOENT, "no such file, and no file matches it", path
        )
    return found
