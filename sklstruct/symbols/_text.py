"""Sentences numbered: text files, lists of strings and lists of symbols.

Whatever the text is, the result is one `NumberedText`: the numbers of its symbols in
the order of appearance. Strings and files take the compiled way, block by block.
"""

from __future__ import annotations

import copy
import errno
import glob
import numbers
import os
import stat
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property, partial
from itertools import chain
from typing import Any

import numpy as np

from .._checks import INT32_MAX, check_count, physical_memory
from .._files import COMPRESSIONS, DamagedData, open_read
from .._warnings import warn
from . import _text_fast as _fast

# Bytes of a file between two looks at signals.
_BLOCK = 1 << 20
# Tokens that are looked at together where a text may be too large.
_CHUNK = 1 << 20
# Tokens of a text in one array, with the marks around its sentences, of which there may
# be three times as many: their positions are 32-bit numbers.
MOST_TOKENS = INT32_MAX
# Upper bound, in bytes, of the memory of a distinct word: its entries in tables and
# dictionaries.
_BYTES_PER_WORD = 300
# Strings that are joined to one text.
_BLOCK_STRINGS = 4096


class NumberedText:
    """A text as the numbers of its symbols.

    Parameters
    ----------
    tokens : int32 ndarray of shape (n_sentences + n_words,)
        -1 before each sentence, then the numbers of its symbols.

    symbols : list
        The distinct symbols, in the order of appearance; position = number.

    where : callable
        What messages call the sentence of a number.
    """

    def __init__(
        self, tokens: np.ndarray, symbols: list, where: Callable[[int], str]
    ) -> None:
        self.tokens, self.symbols, self.where = tokens, symbols, where

    def __sizeof__(self) -> int:
        # The scheduler of a cluster reads it to plan memory; a symbol is some 60 bytes.
        return object.__sizeof__(self) + self.tokens.nbytes + 60 * len(self.symbols)

    @cached_property
    def starts(self) -> np.ndarray:
        """(n_sentences,) position before each sentence."""
        return np.flatnonzero(self.tokens < 0)

    @property
    def n_sentences(self) -> int:
        """Number of sentences, empty ones included."""
        return self.starts.size

    @property
    def lengths(self) -> np.ndarray:
        """(n_sentences,) number of symbols of each sentence."""
        return np.diff(self.starts, append=self.tokens.size) - 1

    def counts(self, sample_weight: np.ndarray | None = None) -> np.ndarray:
        """(n_symbols,) occurrences of each symbol, weighted by its sentences."""
        if sample_weight is not None:
            sample_weight = np.repeat(sample_weight, self.lengths)
        words = self.tokens[self.tokens >= 0]
        return np.bincount(words, sample_weight, minlength=len(self.symbols))

    def where_is(self, number: int) -> str:
        """Name, for messages, of the first sentence that holds a symbol."""
        at = int(np.argmax(self.tokens == number))
        return self.where(int(np.searchsorted(self.starts, at)) - 1)

    def without(self, numbers: list[int]) -> NumberedText:
        """The text without some of its symbols, which occur no more."""
        mask = ~np.isin(self.tokens, numbers)
        return NumberedText(self.tokens[mask], self.symbols, self.where)

    def select(self, keep: np.ndarray) -> NumberedText:
        """Some of the sentences; symbols keep their numbers."""
        kept = np.flatnonzero(keep)
        mask = np.repeat(keep, self.lengths + 1)
        return NumberedText(
            self.tokens[mask], self.symbols, lambda i: self.where(int(kept[i]))
        )


class LargeText:
    """A text that is read again and again, a part at a time.

    Parameters
    ----------
    file : TextFile
        Where it stands.

    symbols : list
        Its distinct words, in the order of appearance.

    count : int64 ndarray of shape (n_symbols,)
        Their occurrences.

    n_sentences, n_tokens : int
        Sizes.
    """

    def __init__(
        self, file: TextFile, words: _Words, count: np.ndarray, n_sentences: int
    ) -> None:
        self.file, self.symbols = file, words.symbols()
        self.n_sentences, self.n_tokens = n_sentences, words.n_tokens
        self._words, self._count = words, count
        self._state = file.state()
        self._gone: list[int] = []

    def counts(self) -> np.ndarray:
        """(n_symbols,) occurrences of each symbol."""
        return self._count

    def without(self, numbers: list[int]) -> LargeText:
        """The text without some of its symbols, which occur no more."""
        other = copy.copy(self)
        other._gone, other._count = numbers, self._count.copy()
        other._count[numbers] = 0
        return other

    def part_size(self, bytes_per_token: int) -> int:
        """Tokens of a part that half of the memory can hold.

        Raises
        ------
        MemoryError
            If the words alone need more than the other half.
        """
        memory = self.file.memory or physical_memory() / 2
        needed = _BYTES_PER_WORD * len(self.symbols)
        if needed > memory / 2:
            raise MemoryError(
                f"X: the {len(self.symbols)} distinct words of {self.file!r} need "
                f"about {2 * needed} bytes, more than memory={int(memory)}; raise "
                "memory"
            )
        return int(memory / 2) // bytes_per_token

    def _where(self, first: int, sentence: int) -> str:
        return self.file.where(first + sentence)

    def parts(self, n_tokens: int) -> Iterator[NumberedText]:
        """The text in parts of about n_tokens, under the same numbers."""
        if self.file.state() != self._state:
            raise RuntimeError(
                f"{self.file!r} changed between two readings; fit again when nothing "
                "writes to it"
            )
        first = 0
        for tokens in self.file.chunks(self._words, min(n_tokens, MOST_TOKENS // 4)):
            part = NumberedText(tokens, self.symbols, partial(self._where, first))
            first += part.n_sentences
            yield part.without(self._gone) if self._gone else part
        if self._words.n_words != len(self.symbols):
            raise RuntimeError(f"{self.file!r} changed between two readings")


class _Words:
    """The table of `number_words`, which grows."""

    def __init__(self) -> None:
        self.slots = np.full(1 << 12, -1, dtype=np.int32)
        self.hashes = np.empty(1 << 11, dtype=np.uint64)
        self.ends = np.empty(1 << 11, dtype=np.int64)
        self.arena = np.empty(1 << 14, dtype=np.uint8)
        self.state = np.zeros(6, dtype=np.int64)
        # Nobody who writes a text knows which of its words share a slot.
        self.seed = int.from_bytes(os.urandom(8), "little")
        self._tokens = np.empty(0, dtype=np.int32)
        self.chunks: list[np.ndarray] = []
        self.n_tokens = 0

    @property
    def n_words(self) -> int:
        return int(self.state[_fast.WORDS])

    def add(
        self,
        text: Any,
        *,
        strict: bool,
        keep_blank: bool,
        max_line: int,
        narrow: bool = False,
    ) -> int:
        """Number whole lines; the code of what is wrong, at state[POSITION]."""
        state = self.state
        state[[_fast.POSITION, _fast.TOKENS, _fast.IN_LINE, _fast.LINE_START]] = 0
        n_bytes = len(text)
        if self._tokens.size <= n_bytes:
            self._tokens = np.empty(n_bytes + 1, dtype=np.int32)
        used = int(self.ends[self.n_words - 1]) if self.n_words else 0
        if used + n_bytes > self.arena.size:
            self.arena = _grown(self.arena, used + n_bytes)
        while True:
            code = _fast.number_words(
                np.frombuffer(text, dtype=np.uint8), strict, narrow, keep_blank,
                max_line, self.seed, self.slots, self.hashes, self.ends, self.arena,
                self._tokens, state,
            )  # fmt: skip
            if code != _fast.FULL:
                break
            self._grow()
        n = int(state[_fast.TOKENS])
        self.chunks.append(self._tokens[:n].copy())
        self.n_tokens += n
        return code

    def _grow(self):
        n = self.n_words
        if n >= INT32_MAX // 4:
            raise ValueError(f"the text has more than {n} distinct words")
        self.slots = np.full(2 * self.slots.size, -1, dtype=np.int32)
        self.hashes = _grown(self.hashes, 2 * self.hashes.size)
        self.ends = _grown(self.ends, 2 * self.ends.size)
        _fast.rehash(self.hashes, n, self.slots)

    def symbols(self) -> list[str]:
        """The words, in the order of their numbers."""
        ends = self.ends[: self.n_words].tolist()
        arena = self.arena[: ends[-1] if ends else 0].tobytes()
        return [
            arena[a:b].decode("utf-8", "surrogatepass")
            for a, b in zip([0, *ends], ends)
        ]

    def take(self) -> np.ndarray:
        """The tokens since the last call."""
        check_tokens(sum(chunk.size for chunk in self.chunks))
        tokens = np.concatenate(self.chunks or [np.empty(0, np.int32)])
        self.chunks = []
        return tokens

    def finish(self, where: Callable[[int], str]) -> NumberedText:
        return NumberedText(self.take(), self.symbols(), where)


def check_tokens(n_tokens: int) -> None:
    """ValueError for a text that cannot be in one array."""
    if n_tokens > MOST_TOKENS:
        raise ValueError(
            f"X: {n_tokens} tokens in one piece, more than the {MOST_TOKENS} that "
            "32-bit positions can number; `LanguageModel.fit` takes a text of any size "
            "as a TextFile, others in parts"
        )


def _grown(array, size):
    out = np.empty(max(size, 2 * array.size), dtype=array.dtype)
    out[: array.size] = array
    return out


class TextFile:
    r"""Sentences in text files, one a line.

    .. math::
        \text{line} = w_1 \ldots w_L , \qquad
        w_i \text{ a longest run of characters without white space.}

    Stands wherever sentences are asked for: ``LanguageModel.fit(TextFile(path))``.
    The files are read in blocks and their words numbered by compiled code, without
    a Python object for each line or word; iterating gives the lines as strings.

    Parameters
    ----------
    path_or_paths : str, os.PathLike or list of them
        Files in UTF-8, plain or packed (gzip, bzip2, xz; zstd where Python has it,
        from 3.14), which their first bytes tell. A name that is no file and holds
        ``*``, ``?`` or ``[`` is a pattern, and stands for the files that match it, in
        sorted order.

    skip_blank_lines : bool, default=True
        Whether lines without a word are left out. False: they are empty sentences, as
        KenLM takes them.

    max_line_bytes : int, default=16777216
        A longer line is an error, at least 1: such a file has no line for each
        sentence. No more than that and a block of a megabyte is held of a line before
        it is refused; one within the limit is held whole, and numbering it takes up to
        eight times its bytes.

    memory : int, default=None
        Bytes that reading and counting may take in `LanguageModel.fit`, besides the
        model itself. A text that needs more is read twice, its parts are counted one
        by one, and their counts are merged on the disk. None: half of what the machine
        has. The model does not depend on it.

    folder : str or os.PathLike, default=None
        Where the files of the counts are made, for the time of the fit. None: the
        folder of the system for temporary files.

    Attributes
    ----------
    paths : list of str
        The files.

    Raises
    ------
    FileNotFoundError
        If a file does not exist, or nothing matches a pattern.
    OSError
        If a path is a folder or a pipe, or `folder` is none.
    ValueError
        If there is no path. When the files are read, with the name of the file and
        the number of the line: if they are no UTF-8, hold NUL bytes (binary files), a
        line is too long, or packed data are damaged.
    RuntimeError
        If a file changes while it is read.

    See Also
    --------
    sklstruct.language_model.LanguageModel : Takes text files for sentences.

    Notes
    -----
    White space is what Unicode says, as of ``str.split()``: spaces of all widths, the
    no-break space and the ideographic space separate words. Lines end at a line feed
    and nowhere else; a carriage return is white space. A byte order mark at the
    beginning of a file is skipped. So a file gives what
    ``[line.split() for line in file]`` gives.

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
        path_or_paths: str | os.PathLike | Iterable[str | os.PathLike],
        *,
        skip_blank_lines: bool = True,
        max_line_bytes: int = 1 << 24,
        memory: int | None = None,
        folder: str | os.PathLike | None = None,
    ) -> None:
        if isinstance(path_or_paths, str | os.PathLike):
            path_or_paths = [path_or_paths]
        elif isinstance(path_or_paths, bytes) or not isinstance(
            path_or_paths, Iterable
        ):
            raise TypeError(
                "path_or_paths must be a path or a list of paths, got "
                f"{type(path_or_paths).__name__}"
            )
        if isinstance(max_line_bytes, bool) or not isinstance(
            max_line_bytes, int | np.integer
        ):
            raise TypeError(
                f"max_line_bytes must be an integer, got {max_line_bytes!r}"
            )
        if max_line_bytes < 1:
            raise ValueError(f"max_line_bytes must be at least 1, got {max_line_bytes}")
        if memory is not None and (
            isinstance(memory, bool) or not isinstance(memory, numbers.Real)
        ):
            raise TypeError(f"memory must be a number of bytes or None: {memory!r}")
        if memory is not None and not 1 <= memory < np.inf:
            raise ValueError(
                "memory must be a positive and finite number of bytes, got "
                f"{memory}; None is half of what the machine has"
            )
        self.memory = memory
        self.folder = None if folder is None else os.fspath(folder)
        if self.folder is not None and not os.path.isdir(self.folder):
            raise NotADirectoryError(
                errno.ENOTDIR, "folder is no existing folder", self.folder
            )
        self.paths: list[str] = []
        for path in path_or_paths:
            self.paths += _files_of(path)
        if not self.paths:
            raise ValueError("path_or_paths is empty: there is no file to read")
        self.skip_blank_lines = bool(skip_blank_lines)
        self.max_line_bytes = int(max_line_bytes)
        # Whether words end at ASCII white space only; see `kenlm_text`.
        self._narrow = False
        # (start, stop) where only the lines that begin in there are meant.
        self._part: tuple[int, int] | None = None

    def __repr__(self) -> str:
        what = repr(self.paths[0])
        if self._part is not None:
            what += ", bytes {} to {}".format(*self._part)
        if len(self.paths) > 1:
            what = f"[{what}, ... {len(self.paths)} files]"
        return f"TextFile({what})"

    def __iter__(self) -> Iterator[str]:
        """The lines that are sentences, without their ends."""
        for _, _, line in self._lines():
            yield line

    def _lines(self):
        """(path, number of the line, line) of every sentence."""
        for path in self.paths:
            n_lines = 0
            for block in self._blocks(path):
                lines = block.split(b"\n")
                if not lines[-1]:
                    lines.pop()
                for line in lines:
                    n_lines += 1
                    self._check_line(path, n_lines, line)
                    line = line.decode("utf-8").removesuffix("\r")
                    if not (self.skip_blank_lines and not line.split()):
                        yield path, n_lines, line

    def _check_line(self, path, number, line):
        if len(line) > self.max_line_bytes:
            self._raise(_fast.LONG_LINE, path, number, line)
        if b"\0" in line and not self._narrow:
            self._raise(_fast.NUL, path, number, line)
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as exc:
            self._raise(_fast.BAD_UTF8, path, number, line[exc.start :])

    def _raise(self, code, path, number, rest):
        where = f"{path}, line {number}"
        if self._part is not None and self._part[0]:
            where += f" after byte {self._part[0]}"
        if code == _fast.LONG_LINE:
            raise ValueError(
                f"{where}: the line is longer than max_line_bytes="
                f"{self.max_line_bytes}; a text file has one sentence a line. Split "
                "the text into lines, or raise max_line_bytes"
            )
        if code == _fast.NUL:
            raise ValueError(
                f"{where}: a NUL byte; this is a binary file or UTF-16, not text in "
                "UTF-8"
            )
        raise ValueError(
            f"{where}: invalid UTF-8, {bytes(rest[:4]).hex(' ')}; convert the file, "
            "for example with iconv -t utf-8"
        )

    def _blocks(self, path):
        """Blocks of whole lines of one file."""
        state = self._state_of(path)
        with self._open(path) as file:
            rest, first = [], self._part is None or self._part[0] == 0
            n_rest = n_lines = 0
            while True:
                try:
                    block = file.read(_BLOCK)
                except DamagedData as exc:
                    raise ValueError(f"{path}: {exc}") from exc
                if first:
                    block = block.removeprefix(b"\xef\xbb\xbf")
                    first = False
                    if not block:
                        break
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
                yield b"".join(rest)
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

    def number(self) -> NumberedText:
        """The numbers of the words of all files, in memory.

        Returns
        -------
        text : NumberedText
            Words are numbered in the order of appearance.
        """
        words = _Words()
        for _ in self._read_into(words):
            pass
        return words.finish(self.where)

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
                    narrow=self._narrow,
                )
                if code != _fast.DONE:
                    at = int(words.state[_fast.POSITION])
                    line = int(words.state[_fast.LINES]) + 1
                    self._raise(code, path, line, block[at:])
                yield

    def chunks(self, words: _Words, n_tokens: int) -> Iterator[np.ndarray]:
        """The tokens of whole sentences, about n_tokens at a time."""
        before = words.n_tokens
        for _ in self._read_into(words):
            if words.n_tokens - before >= n_tokens:
                before = words.n_tokens
                yield words.take()
        if words.n_tokens > before:
            yield words.take()

    def number_or_count(self, bytes_per_token: int) -> NumberedText | LargeText:
        """The text in memory, if it and what it takes are within `memory`.

        Parameters
        ----------
        bytes_per_token : int
            What whoever asks needs for a token.

        Returns
        -------
        text : NumberedText or LargeText
            The second, which can only be read part by part, also where 32-bit positions
            are not enough.
        """
        limit = self.memory
        if limit is None:
            limit = physical_memory() / 2
        words, kept = _Words(), []
        n_kept, n_sentences, large = 0, 0, False
        count = np.zeros(0, dtype=np.int64)
        most = int(min(limit // bytes_per_token, _CHUNK, MOST_TOKENS // 4))
        for tokens in self.chunks(words, max(1, most)):
            kept.append(tokens)
            n_kept += tokens.size
            large = large or n_kept * bytes_per_token > limit
            large = large or n_kept > MOST_TOKENS // 3
            while large and kept:
                count, n_sentences = _tally(kept.pop(), words, count, n_sentences)
        if not large:
            words.chunks = kept
            return words.finish(self.where)
        return LargeText(self, words, count, n_sentences)

    def state(self) -> list[tuple]:
        """Sizes and dates of the files; equal as long as these do not change."""
        return [self._state_of(path) for path in self.paths]

    def _state_of(self, path):
        s = os.stat(path)
        return s.st_dev, s.st_ino, s.st_size, s.st_mtime_ns

    def where(self, i: int) -> str:
        """Name of a sentence for messages."""
        for j, (path, number, _) in enumerate(self._lines()):
            if j == i:
                return f"line {number} of {path}"
        return f"sentence {i}"


class _Stream(TextFile):
    """The sentences of an open file, which can be read once."""

    def __init__(self, file: Any, name: str) -> None:
        super().__init__(os.devnull, skip_blank_lines=False, memory=None)
        self.paths, self._file = [name], file

    @contextmanager
    def _open(self, path):
        with open_read(self._file, what=path) as (file, _):
            yield file

    def _state_of(self, path):
        return None

    def number_or_count(self, bytes_per_token: int) -> NumberedText:
        return self.number()

    def where(self, i: int) -> str:
        return f"line {i + 1} of {self.paths[0]}"


def kenlm_text(source: Any, memory: int | None = None) -> TextFile:
    """A text as KenLM's lmplz reads it.

    Blank lines are sentences; words end at space, tab, line feed, carriage return, NUL.

    Parameters
    ----------
    source : str or binary file object
        A file object, such as standard input, is read once, into memory.

    memory : int, default=None
        As of `TextFile`.

    Returns
    -------
    text : TextFile
        To be numbered; the strings that iteration gives are not split.
    """
    if isinstance(source, str):
        text = TextFile(source, skip_blank_lines=False, memory=memory)
    else:
        text = _Stream(source, "standard input")
    text._narrow = True
    return text


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


def _tally(tokens, words, count, n_sentences):
    """Counts and number of sentences with those of some tokens."""
    sentences = int(np.count_nonzero(tokens < 0))
    more = np.bincount(tokens[tokens >= 0], minlength=words.n_words)
    more[: count.size] += count
    return more, n_sentences + sentences


def _files_of(path):
    if isinstance(path, bytes) or not isinstance(path, str | os.PathLike):
        raise TypeError(
            f"path_or_paths must hold paths, got {type(path).__name__}; open files "
            "cannot be read twice"
        )
    path = os.fspath(path)
    if os.path.exists(path):
        if os.path.isdir(path):
            raise IsADirectoryError(
                errno.EISDIR,
                "is a folder; give its files, for example by a pattern",
                path,
            )
        mode = os.stat(path).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            raise OSError(
                errno.ESPIPE,
                "is a pipe, and a text may be read more than once; write it to a file",
                path,
            )
        return [path]
    found = sorted(glob.glob(path, recursive=True)) if glob.has_magic(path) else []
    found = [name for name in found if os.path.isfile(name)]
    if not found:
        raise FileNotFoundError(
            errno.ENOENT, "no such file, and no file matches it", path
        )
    return found


class _Numbers(dict):
    """A dictionary that gives new keys the next number."""

    def __missing__(self, key):
        number = self[key] = len(self)
        return number


def _sentence_name(i):
    return f"sentence {i}"


def number_strings(sentences: list[str]) -> NumberedText:
    """Strings, split on white space and numbered by the compiled way."""
    words = _Words()
    for i in range(0, len(sentences), _BLOCK_STRINGS):
        block = sentences[i : i + _BLOCK_STRINGS]
        # A line feed within a sentence is white space like any other.
        lines = [s.replace("\n", " ") for s in block]
        lines.append("")
        text = "\n".join(lines).encode("utf-8", "surrogatepass")
        words.add(text, strict=False, keep_blank=True, max_line=len(text))
    return words.finish(_sentence_name)


def number_symbols(sentences: list) -> NumberedText:
    """Sequences of hashable symbols; strings among them are split.

    Raises
    ------
    TypeError
        If a symbol is not hashable; the message names its sentence.
    """
    sentences = [s.split() if isinstance(s, str) else s for s in sentences]
    lengths = np.fromiter((len(s) for s in sentences), np.int64, len(sentences))
    stop = np.cumsum(lengths + 1)
    size = int(stop[-1]) if stop.size else 0
    check_tokens(size)
    tokens = np.full(size, -1, dtype=np.int32)
    inner = np.ones(size, dtype=bool)
    inner[stop - lengths - 1] = False
    code = _Numbers()
    try:
        tokens[inner] = np.fromiter(
            map(code.__getitem__, chain.from_iterable(sentences)),
            dtype=np.int32,
            count=size - len(sentences),
        )
    except TypeError as exc:
        for i, sentence in enumerate(sentences):
            for s in sentence:
                try:
                    hash(s)
                except TypeError:
                    raise TypeError(
                        f"X: sentence {i} holds a symbol that is not hashable, {s!r}"
                    ) from exc
        raise
    return NumberedText(tokens, list(code), _sentence_name)


def check_sentences(sentences: Any) -> list:
    """A list of sentences, or a readable error when it is not one."""
    if isinstance(sentences, str | bytes):
        raise TypeError(
            "sentences must be an iterable of sentences, not one string: pass "
            "[text] or text.splitlines()"
        )
    if not isinstance(sentences, Iterable):
        raise TypeError(
            "sentences must be an iterable of sentences (strings, or iterables of "
            f"symbols), got {type(sentences).__name__}"
        )
    if isinstance(sentences, np.ndarray) and sentences.ndim == 0:
        raise TypeError("sentences must be an iterable of sentences, got a scalar")
    if isinstance(sentences, Mapping):
        raise TypeError(
            "sentences must be an iterable of sentences, got a mapping: pass the list "
            "of its values, or of its keys"
        )
    out = []
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, Mapping):
            raise TypeError(
                f"sentence {i} must be a string or an iterable of symbols, got a "
                "mapping: pass one of its values, such as [row['text'] for row in X]"
            )
        if isinstance(sentence, bytes) or not isinstance(sentence, Iterable):
            raise TypeError(
                f"sentence {i} must be a string or an iterable of symbols, got "
                f"{type(sentence).__name__}"
            )
        out.append(sentence if isinstance(sentence, str) else list(sentence))
    return out


def number_sentences(X: Any, name: str = "X") -> NumberedText:
    """X, whatever form of sentences it is, as numbers of symbols.

    Parameters
    ----------
    X : TextFile or iterable of sentences
        A sentence is a string, which is split on white space, or an iterable of
        symbols. Strings and files take the compiled way.

    name : str
        What messages call X.
    """
    if isinstance(X, NumberedText):
        return X
    if isinstance(X, TextFile):
        return X.number()
    if not isinstance(X, str | bytes) and hasattr(X, "columns"):
        raise TypeError(
            f"{name} is a data frame; pass one column of it, a sentence in each row"
        )
    strings = False
    if (
        isinstance(X, Iterable)
        and not isinstance(X, str | bytes | Mapping)
        and getattr(X, "ndim", 1) > 0
    ):
        X = plain_list(X)
        strings = all(isinstance(s, str) for s in X)
        if not strings:
            kept = str | bytes | Mapping
            X = [s if isinstance(s, kept) else plain_list(s) for s in X]
    if strings:
        text = number_strings(X)
        _warn_of_words(text, name)
        return text
    try:
        sentences = check_sentences(X)
    except TypeError as exc:
        raise TypeError(f"{name}: {exc}") from exc
    text = number_symbols(sentences)
    _warn_of_sentences(text, name)
    return text


def plain_list(values: Any) -> Any:
    """The values of a list, an array or a column as Python objects, in a list.

    Scalars of NumPy and Arrow hash and compare slowly or not at all, and would come
    back from `sample`. Values that cannot be iterated are returned unchanged.
    """
    if isinstance(values, Mapping) or not isinstance(values, Iterable):
        # A scalar of Arrow may hold a list.
        return values.as_py() if hasattr(values, "as_py") else values
    if not isinstance(values, list | tuple):
        for method in ("to_pylist", "as_py", "to_list", "tolist"):
            if hasattr(values, method):
                return getattr(values, method)()
    values = list(values)
    if values and hasattr(values[0], "as_py"):
        values = [v.as_py() if hasattr(v, "as_py") else v for v in values]
    return values


def _warn_of_words(text: NumberedText, name: str) -> None:
    """Strings of one word each are most likely one text that was split."""
    if text.n_sentences > 2 and (text.lengths == 1).all():
        warn(
            f"{name} holds {text.n_sentences} strings of one word each, and each "
            "string is a sentence. Are they the words of one sentence? Then pass "
            f"[' '.join({name})]",
            UserWarning,
            stacklevel=3,
        )


def _warn_of_sentences(text: NumberedText, name: str) -> None:
    """Symbols that are mostly strings of several words are most likely sentences."""
    spaced = [s for s in text.symbols if isinstance(s, str) and len(s.split()) > 1]
    if spaced and 2 * len(spaced) > len(text.symbols):
        warn(
            f"{name} holds lists of strings such as {spaced[0]!r}: a list is one "
            "sentence and each of its strings one symbol, white space included. Are "
            "they sentences? Then pass one flat list of strings",
            UserWarning,
            stacklevel=3,
        )
