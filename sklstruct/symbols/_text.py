"""Sentences numbered: text files, lists of strings and lists of symbols.

Whatever the text is, the result is one `NumberedText`: the numbers of its symbols in
the order of appearance. Strings and files take the compiled way, block by block.

An *analyzer* is the rule by which a string is split into symbols. There are three:
"word" is `str.split()`, "kenlm" is KenLM's rule, "char" makes each character a symbol.
"""

from __future__ import annotations

import copy
import errno
import glob
import numbers
import os
import re
import shutil
import stat
import sys
import tempfile
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cached_property, partial
from itertools import chain
from typing import Any, BinaryIO, Literal, NamedTuple, get_args

import numpy as np

from .._checks import INT32_MAX, check_count, physical_memory
from .._files import COMPRESSIONS, DamagedData, open_read
from .._warnings import warn
from . import _text_fast as _fast
from ._encoding import object_array

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
# Words that a warning shows.
_EXAMPLES = 3

# What stands for a blank in files of models of characters, whose words hold no space.
BLANK = "\u2581"

Analyzer = Literal["word", "kenlm", "char"]
ANALYZERS: tuple[str, ...] = get_args(Analyzer)
_RULES = {"word": _fast.UNICODE, "kenlm": _fast.KENLM, "char": _fast.CHARACTERS}
_KENLM_WORDS = re.compile("[^\0\t\n\r ]+")
# White space on which `str.split()` and KenLM differ, and what is around it.
_ODD_RUN = re.compile(
    "[^\t\n\r ]*[\0\v\f\x1c-\x1f\x85\xa0\u1680\u2000-\u200a\u2028\u2029\u202f"
    "\u205f\u3000][^\t\n\r ]*"
)


def split_string(text: str, analyzer: str = "word") -> list[str]:
    """The symbols of a string."""
    if analyzer == "char":
        return list(without_line_end(text))
    return text.split() if analyzer == "word" else _KENLM_WORDS.findall(text)


def without_line_end(text: str) -> str:
    """The string without a line feed, or carriage return and line feed, at its end.

    Lines of a file object or a Dask bag have one, those of a `TextFile` do not. By
    rules for words it is white space.
    """
    return text[:-1].removesuffix("\r") if text.endswith("\n") else text


def join_symbols(symbols: Iterable[str], analyzer: str = "word") -> str:
    """A string that `split_string` splits into the symbols."""
    return ("" if analyzer == "char" else " ").join(symbols)


class OddSpaces(NamedTuple):
    """Characters of a text that separate words by only one of "word" and "kenlm"."""

    n_places: int = 0
    examples: tuple[str, ...] = ()  # runs of characters around some of them

    def plus(self, other: OddSpaces) -> OddSpaces:
        """Those of two parts of a text."""
        examples = dict.fromkeys(self.examples + other.examples)
        return OddSpaces(self.n_places + other.n_places, tuple(examples)[:_EXAMPLES])

    def warn(self, analyzer: str, name: str = "X") -> None:
        """Say that the two rules split a text into other words."""
        if not self.n_places:
            return
        rules = {"word": "str.split()", "kenlm": "KenLM"}
        other = "kenlm" if analyzer == "word" else "word"
        warn(
            f"{name}: str.split() and KenLM split the text into different words, at "
            f"{self.n_places} place(s), as in {', '.join(map(repr, self.examples))}. "
            f"This model splits as {rules[analyzer]} (analyzer={analyzer!r}), programs "
            "of the other rule read other words. Replace these characters by blanks, "
            f"or use analyzer={other!r} to split as {rules[other]}",
            UserWarning,
        )


def odd_spaces(lines: Iterable[str]) -> OddSpaces:
    """The `OddSpaces` of strings."""
    words = _Words()
    words.add_strings(list(lines))
    return words.odd()


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

    odd : OddSpaces, default=None
        White space on which the rules for words differ. None: there is none.
    """

    def __init__(
        self,
        tokens: np.ndarray,
        symbols: list,
        where: Callable[[int], str],
        odd: OddSpaces | None = None,
    ) -> None:
        self.tokens, self.symbols, self.where = tokens, symbols, where
        self.odd = odd or OddSpaces()

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

    def __iter__(self) -> Iterator[list]:
        return iter(self.sentences())

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
        return NumberedText(self.tokens[mask], self.symbols, self.where, self.odd)

    def sentences(self) -> list[list]:
        """The symbols of each sentence."""
        symbols = object_array(self.symbols)
        parts = np.split(self.tokens, self.starts)[1:]
        return [symbols[part[1:]].tolist() for part in parts]

    def select(self, keep: np.ndarray) -> NumberedText:
        """Some of the sentences; symbols keep their numbers."""
        kept = np.flatnonzero(keep)
        mask = np.repeat(keep, self.lengths + 1)
        return NumberedText(
            self.tokens[mask],
            self.symbols,
            lambda i: self.where(int(kept[i])),
            self.odd,
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
            part = NumberedText(tokens, self.symbols, partial(self._where, first))
            first += part.n_sentences
            yield part.without(self._gone) if self._gone else part
        if self._words.n_words != len(self.symbols):
            raise RuntimeError(f"{self.file!r} changed between two readings")


class _Words:
    """The table of `number_words`, which grows."""

    def __init__(self, analyzer: str = "word") -> None:
        self.analyzer = analyzer
        self.slots = np.full(1 << 12, -1, dtype=np.int32)
        self.hashes = np.empty(1 << 11, dtype=np.uint64)
        self.ends = np.empty(1 << 11, dtype=np.int64)
        self.arena = np.empty(1 << 14, dtype=np.uint8)
        self.state = np.zeros(8, dtype=np.int64)
        self._examples: list[str] = []
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
    ) -> int:
        """Number whole lines; the code of what is wrong, at state[POSITION]."""
        state = self.state
        state[[_fast.POSITION, _fast.TOKENS, _fast.IN_LINE, _fast.LINE_START]] = 0
        state[_fast.ODD_AT] = -1
        n_bytes = len(text)
        if self._tokens.size <= n_bytes:
            self._tokens = np.empty(n_bytes + 1, dtype=np.int32)
        used = int(self.ends[self.n_words - 1]) if self.n_words else 0
        if used + n_bytes > self.arena.size:
            self.arena = _grown(self.arena, used + n_bytes)
        while True:
            code = _fast.number_words(
                np.frombuffer(text, dtype=np.uint8), strict, _RULES[self.analyzer],
                keep_blank, max_line, self.seed, self.slots, self.hashes, self.ends,
                self.arena, self._tokens, state,
            )  # fmt: skip
            if code != _fast.FULL:
                break
            self._grow()
        n = int(state[_fast.TOKENS])
        self.chunks.append(self._tokens[:n].copy())
        self.n_tokens += n
        if state[_fast.ODD_AT] >= 0 and len(self._examples) < _EXAMPLES:
            runs = self._examples + _odd_runs(text, int(state[_fast.ODD_AT]))
            self._examples = list(dict.fromkeys(runs))[:_EXAMPLES]
        return code

    def add_strings(self, sentences: list[str]) -> None:
        """Number strings; a line feed within one is white space like any other."""
        for i in range(0, len(sentences), _BLOCK_STRINGS):
            lines = [s.replace("\n", " ") for s in sentences[i : i + _BLOCK_STRINGS]]
            lines.append("")
            text = "\n".join(lines).encode("utf-8", "surrogatepass")
            self.add(text, strict=False, keep_blank=True, max_line=len(text))

    def odd(self) -> OddSpaces:
        """White space on which the rules for words differ; none for characters."""
        return OddSpaces(int(self.state[_fast.N_ODD]), tuple(self._examples))

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
        return NumberedText(self.take(), self.symbols(), where, self.odd())


def _odd_runs(text: bytes, at: int) -> list[str]:
    """Runs of characters around white space on which the rules differ, from the first
    on, which is at `at`."""
    near = bytes(text[max(0, at - 30) : at + 2000]).decode("utf-8", "ignore")
    return [found[0][:40] for found in _ODD_RUN.finditer(near)]


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
    r"""Sentences in text files, one per line.

    .. math::
        \text{line} = w_1 \ldots w_L , \qquad
        w_i \text{ a longest run of characters without white space.}

    Stands wherever sentences are asked for: ``LanguageModel.fit(TextFile(path))``.
    The files are read in blocks and their words numbered by compiled code, without
    a Python object for each line or word; iterating gives the lines as strings.

    Parameters
    ----------
    files : str, os.PathLike, binary file object, or list of them
        Files in UTF-8, plain or packed (gzip, bzip2, xz; zstd where Python has it,
        from 3.14), which their first bytes tell. A name that is not a file and holds
        ``*``, ``?`` or ``[`` is a pattern, and stands for the files that match it, in
        sorted order. The rest of a file object, such as ``sys.stdin.buffer``, or of a
        named pipe is copied to a temporary file in `folder` first, as a text may be
        read more than once.

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
        Where temporary files are made: those of the counts, for the time of the fit,
        and copies of file objects. None: the folder of the system for temporary files.

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
        If there is no path. When the files are read, with the name of the file and
        the number of the line: if they are not UTF-8, hold NUL bytes (binary files), a
        line is too long, or packed data are damaged.
    RuntimeError
        If a file changes while it is read.

    See Also
    --------
    sklstruct.language_model.LanguageModel : Takes text files for sentences.

    Notes
    -----
    Lines end at a line feed and nowhere else. A byte order mark at the beginning of a
    file is skipped. The model that reads a line splits it, by its `analyzer`: by
    "word" a line gives the words of ``line.split()``, so that spaces of all widths, the
    no-break space and the carriage return separate words; by "kenlm" only space, tab,
    carriage return and NUL do; by "char" each character is a symbol, except a carriage
    return before the line feed. A line is blank if it has no word; by "char", if it
    has white space only.

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
        self._copies: dict[str, _Copy] = {}
        for file in given:
            if hasattr(file, "read"):
                self._copy(file, "standard input" if file is _stdin() else "")
                continue
            for path in _files_of(file):
                if stat.S_ISFIFO(os.stat(path).st_mode):
                    with open(path, "rb") as pipe:
                        self._copy(pipe, path)
                else:
                    self.paths.append(path)
        if not self.paths:
            raise ValueError("files is empty: there is no file to read")
        self.skip_blank_lines = bool(skip_blank_lines)
        self.max_line_bytes = int(max_line_bytes)
        # (start, stop) where only the lines that begin in there are meant.
        self._part: tuple[int, int] | None = None

    def _copy(self, file, name):
        copy = _Copy(file, name, self.folder)
        self._copies[copy.path] = copy
        self.paths.append(copy.path)

    def _name(self, path):
        """What messages call a file."""
        return self._copies[path].name if path in self._copies else path

    def __getstate__(self):
        # The process that made a copy removes it.
        copies = {path: copy.described() for path, copy in self._copies.items()}
        return vars(self) | {"_copies": copies}

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
                lines = block.split(b"\n")
                if not lines[-1]:
                    lines.pop()
                for line in lines:
                    n_lines += 1
                    self._check_line(path, n_lines, line, analyzer)
                    line = line.decode("utf-8").removesuffix("\r")
                    by = "kenlm" if analyzer == "kenlm" else "word"
                    if not (self.skip_blank_lines and not split_string(line, by)):
                        yield path, n_lines, line

    def _check_line(self, path, number, line, analyzer):
        if len(line) > self.max_line_bytes:
            self._raise(_fast.LONG_LINE, path, number, line)
        if b"\0" in line and analyzer != "kenlm":
            self._raise(_fast.NUL, path, number, line)
        try:
            line.decode("utf-8")
        except UnicodeDecodeError as exc:
            self._raise(_fast.BAD_UTF8, path, number, line[exc.start :])

    def _raise(self, code, path, number, rest):
        where = f"{self._name(path)}, line {number}"
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
                    raise ValueError(f"{self._name(path)}: {exc}") from exc
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
        words = _Words(analyzer)
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

    def chunks(self, words: _Words, n_tokens: int) -> Iterator[np.ndarray]:
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
            What the caller needs for a token.

        analyzer : {"word", "kenlm", "char"}, default="word"
            The rule by which lines are split.

        Returns
        -------
        text : NumberedText or LargeText
            The second, which can only be read part by part, also where 32-bit positions
            are not enough.
        """
        limit = self.memory
        if limit is None:
            limit = physical_memory() / 2
        words, kept = _Words(analyzer), []
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
            shutil.copyfileobj(file, copy, _BLOCK)

    def described(self) -> _Described:
        """The path and the name, for another process."""
        return _Described(self.path, self.name)


class _Described(NamedTuple):
    path: str
    name: str

    def described(self) -> _Described:
        """Itself."""
        return self


def _remove(path):
    with suppress(OSError):
        os.unlink(path)


def _stdin():
    """Standard input as a file of bytes; None if it is closed."""
    return getattr(sys.stdin, "buffer", None)


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


class _Numbers(dict):
    """A dictionary that gives new keys the next number."""

    def __missing__(self, key):
        number = self[key] = len(self)
        return number


def _sentence_name(i):
    return f"sentence {i}"


def number_strings(sentences: list[str], analyzer: str = "word") -> NumberedText:
    """Strings, split by a rule and numbered."""
    if analyzer == "char":
        return number_symbols(sentences, analyzer)
    words = _Words(analyzer)
    words.add_strings(sentences)
    return words.finish(_sentence_name)


def number_symbols(sentences: list, analyzer: str = "word") -> NumberedText:
    """Sequences of hashable symbols; strings among them are split.

    Raises
    ------
    TypeError
        If a symbol is not hashable; the message names its sentence.
    """
    # A string is a sequence of its characters.
    split = (
        without_line_end
        if analyzer == "char"
        else partial(split_string, analyzer=analyzer)
    )
    sentences = [split(s) if isinstance(s, str) else s for s in sentences]
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
        hint = "pass [text] or text.splitlines()"
        if isinstance(sentences, str) and _is_file_name(sentences):
            hint = f"pass TextFile({sentences!r}) to read that file"
        raise TypeError(
            f"sentences must be an iterable of sentences, not one string: {hint}"
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


def number_sentences(X: Any, name: str = "X", analyzer: str = "word") -> NumberedText:
    """X, whatever form of sentences it is, as numbers of symbols.

    Parameters
    ----------
    X : TextFile or iterable of sentences
        A sentence is a string, which is split, or an iterable of symbols. Strings and
        files take the compiled way.

    name : str
        What messages call X.

    analyzer : {"word", "kenlm", "char"}
        The rule by which strings are split.
    """
    if isinstance(X, NumberedText):
        return X
    if isinstance(X, TextFile):
        return X.number(analyzer)
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
        text = number_strings(X, analyzer)
        if analyzer != "char":
            _warn_of_words(text, name)
        return text
    try:
        sentences = check_sentences(X)
    except TypeError as exc:
        raise TypeError(f"{name}: {exc}") from exc
    text = number_symbols(sentences, analyzer)
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


# Names of files of text, for messages.
_FILE_NAME = re.compile(
    r"\S+\.(txt|text|tok|csv|tsv|json|jsonl|gz|bz2|xz|zst|[a-z]{2})"
)
# Characters of scripts that put no spaces between words: Thai, Lao, Tibetan, Burmese,
# Khmer, Japanese kana, Chinese characters.
_SPACELESS = re.compile(
    "[\u0e00-\u0fff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff"
    "\uf900-\ufaff\U00020000-\U0003ffff]"
)
# Mean characters of words, above which a text is most likely not split into words.
_LONG_SPACELESS, _LONG = 6, 20


def _is_file_name(text: str) -> bool:
    try:
        return bool(_FILE_NAME.fullmatch(text)) or os.path.isfile(text)
    except ValueError:  # a NUL
        return False


def seems_unsplit(symbols: Iterable, counts: Iterable[float]) -> bool:
    """Whether symbols are most likely sentences of a text without spaces.

    Parameters
    ----------
    symbols : iterable
        Words; others than strings are left out.

    counts : iterable of float
        How often each occurs.
    """
    total = length = spaceless = 0.0
    for symbol, count in zip(symbols, counts):
        if isinstance(symbol, str) and count > 0:
            total += count
            length += count * len(symbol)
            spaceless += count * len(_SPACELESS.findall(symbol))
    if not total:
        return False
    mostly = 2 * spaceless > length
    return length / total > (_LONG_SPACELESS if mostly else _LONG)


UNSPLIT = (
    "if the text has no spaces between words, use analyzer='char', which makes each "
    "character a symbol, or pass lists of the words that a tokenizer finds"
)


def _warn_of_words(text: NumberedText, name: str) -> None:
    """Strings of one word each are most likely one text that was split."""
    if text.n_sentences > 2 and (text.lengths == 1).all():
        if seems_unsplit(text.symbols, text.counts()):
            return  # a text without spaces, of which the model warns
        characters = all(len(s) == 1 for s in text.symbols)
        what = "characters of one string" if characters else "words of one sentence"
        how = f"[''.join({name})]" if characters else f"[' '.join({name})]"
        warn(
            f"{name} holds {text.n_sentences} strings of one word each, and each "
            f"string is a sentence. Are they the {what}? Then pass {how}",
            UserWarning,
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
        )
