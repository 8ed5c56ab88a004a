"""fastText's files, ``.bin`` and ``.ftz``: their layout, byte for byte.

Numbers are little-endian. A file holds

- a magic number, the version (11 or 12), 12 settings and one float64;
- the dictionary: numbers of entries, words and labels, of tokens, and of the buckets
  that were kept (-1: all); words, then labels, each with a zero byte, its count and
  its kind; pairs (bucket, row) of the buckets that were kept;
- the input matrix, with a row for each word and for each bucket, and the output matrix,
  with a row for each label (for each word in a model of word vectors).

A matrix is float32 or, in a ``.ftz``, product-quantised: a row is split into parts, and
each part is stored as a code, the number of one of 256 centroids. A row may also have
a factor, which is stored as a code, too.

The matrices stay in the mapped file. Every size is compared with the size of the file
before memory is allocated.
"""

from __future__ import annotations

import codecs
import mmap
import os
import struct
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from .._checks import INT32_MAX, check_byte_order
from .._files import open_read, open_write
from . import _fasttext_open_fast as _open
from ._fasttext_fast import FastTextTables

_MAGIC = struct.pack("<i", 793712314)
_HEAD = struct.Struct("<2i12id")
_SETTINGS = [
    "dim",
    "ws",
    "epoch",
    "minCount",
    "neg",
    "wordNgrams",
    "loss",
    "model",
    "bucket",
    "minn",
    "maxn",
    "lrUpdateRate",
    "t",
]
# Names by their numbers in a file, which begin with 1.
LOSSES = ("", "hs", "ns", "softmax", "ova")
MODELS = ("", "cbow", "skipgram", "supervised")


class _Matrix(NamedTuple):
    """A matrix of a file; the fields from `parts` on are for codes."""

    n: int  # columns
    at: int  # offset in the file
    parts: int = 0
    part: int = 0
    last: int = 0
    centroids: np.ndarray | None = None
    scale_at: int | None = None
    scale: np.ndarray | None = None


class _Bytes:
    """The bytes of a file, which are read in order."""

    def __init__(self, image: Any, label: str) -> None:
        self.image = memoryview(image)
        self.label = label
        self.at = 0

    def fail(self, what: str) -> ValueError:
        return ValueError(f"{self.label}, byte {self.at}: {what}")

    def skip(self, size: int, what: str) -> int:
        """Skip the next `size` bytes; returns their offset."""
        at, rest = self.at, len(self.image) - self.at
        if size > rest:
            raise self.fail(
                f"cut short or damaged: {what} needs {size} bytes, and {rest} are left"
            )
        self.at += size
        return at

    def numbers(self, layout: str, what: str) -> tuple:
        at = self.skip(struct.calcsize(layout), what)
        return struct.unpack_from(layout, self.image, at)

    def array(self, dtype: str, n: int, what: str) -> np.ndarray:
        """A copy of the next n numbers, which is aligned."""
        at = self.skip(n * np.dtype(dtype).itemsize, what)
        return np.frombuffer(self.image, dtype, n, at).copy()

    def flag(self, what: str) -> bool:
        (value,) = self.numbers("<B", what)
        if value > 1:
            raise self.fail(f"damaged: {what} is {value}, and must be 0 or 1")
        return bool(value)


class FastTextFile:
    """A model of fastText, a ``.bin`` or ``.ftz`` file, opened and mapped.

    OSError if the file cannot be opened. ValueError, with the place, if it is not a
    model of fastText, or is damaged.

    settings: the settings that the file holds, by fastText's names.
    supervised: whether the model predicts labels; else the file holds word vectors.
    n_targets: number of labels that can be predicted, 0 for word vectors.
    n_rows: rows of the input matrix.
    counts: how often each word, then each label, was in the training text.
    tables: answers to queries.
    """

    def __init__(self, path: str | bytes | os.PathLike) -> None:
        check_byte_order("fastText's files")
        self.path = os.fsdecode(path)
        with open(self.path, "rb") as file:
            try:
                image: Any = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            except (OSError, ValueError):  # a pipe, or empty
                image = file.read()
        source = _Bytes(image, self.path)
        self._image = source.image
        self.settings = _read_settings(source)
        self.supervised = self.settings["model"] == "supervised"
        words, pairs = self._read_words(source)
        self.quantized = source.flag("the mark of codes")
        if pairs is not None and not self.quantized:
            raise source.fail(
                "the words are pruned but the matrix has no codes, as in early .ftz "
                "files, which fastText does not read either; get the model again"
            )
        self._input = self._read_input(source, pairs)
        self._output = self._read_output(source)
        if source.at != len(source.image):
            rest = len(source.image) - source.at
            raise source.fail(f"{rest} bytes follow the output matrix, the last part")
        blocks, children = self._prepare_labels(source)
        settings = self.settings
        self.tables = FastTextTables(
            self._image,
            tuple(settings[name] for name in ("minn", "maxn", "wordNgrams", "bucket"))
            + (self.n_words, self.n_targets, LOSSES.index(settings["loss"])),
            self._start,
            words,
            None if pairs is None else _bucket_table(pairs),
            self._input,
            self._output,
            blocks,
            children,
        )

    def _read_words(self, source: _Bytes) -> tuple[np.ndarray, np.ndarray | None]:
        """Read the dictionary.

        Returns its hash table, and pairs (bucket, row) of the buckets that were kept,
        or None if all buckets were kept.
        """
        size, self.n_words, self.n_labels = source.numbers("<3i", "the dictionary")
        _, n_pairs = source.numbers("<2q", "the dictionary")
        if min(self.n_words, self.n_labels) < 0 or size != self.n_words + self.n_labels:
            raise source.fail(
                f"damaged: {size} entries, {self.n_words} words and {self.n_labels} "
                "labels"
            )
        self.n_targets, self._n_outputs = 0, self.n_words
        if self.supervised:
            self.n_targets = self._n_outputs = self.n_labels
        if self._n_outputs == 0:
            raise source.fail(f"damaged: {self.n_words} words, {self.n_labels} labels")
        begin = source.skip(10 * size, "the dictionary")  # and the letters
        self._start = np.empty(size + 1, dtype=np.int64)
        self.counts = np.empty(size, dtype=np.int64)
        found, source.at = _open.read_entries(
            source.image, begin, self.n_words, self._start, self.counts
        )
        if found < size:
            kind = "a word" if found < self.n_words else "a label"
            raise source.fail(
                f"cut short or damaged: entry {found} of {size} is not {kind}"
            )
        table = np.zeros((_slots(size), 2), dtype=np.uint32)
        _open.fill_table(source.image, self._start, table)
        if n_pairs < 0:
            return table, None
        pairs = source.array("<i4", 2 * n_pairs, "the list of kept buckets")
        return table, pairs.reshape(-1, 2)

    def _read_input(self, source: _Bytes, pairs: np.ndarray | None) -> _Matrix:
        settings = self.settings
        n_rows = self.n_words
        if pairs is not None:
            n_rows += max(pairs[:, 1].max(initial=-1).item() + 1, 0)
        if pairs is None and (settings["maxn"] > 0 or settings["wordNgrams"] > 1):
            n_rows += settings["bucket"]
        if n_rows > INT32_MAX or (pairs is not None and (pairs[:, 1] < 0).any()):
            raise source.fail("damaged: a kept bucket or their number is out of range")
        matrix, found = _read_matrix(
            source, self.quantized, settings["dim"], "the input matrix"
        )
        if found < n_rows:
            raise source.fail(
                f"damaged: the input matrix has {found} rows, and {n_rows} are named"
            )
        self.n_rows = found
        return matrix

    def _read_output(self, source: _Bytes) -> _Matrix:
        codes = source.flag("the mark of codes of the output matrix")
        matrix, found = _read_matrix(
            source, self.quantized and codes, self.settings["dim"], "the output matrix"
        )
        if found != self._n_outputs:
            raise source.fail(
                f"damaged: the output matrix has {found} rows for {self._n_outputs} "
                "targets"
            )
        return matrix

    def _prepare_labels(
        self, source: _Bytes
    ) -> tuple[np.ndarray | None, np.ndarray | None]:
        """(output matrix in blocks of 16 rows, tree); None for what is not needed."""
        blocks = children = None
        n = self.n_targets
        if n and not self._output.parts:
            rows, width = self.matrix("output"), self._output.n
            blocks = np.zeros((-(-n // 16), width, 16), dtype=np.float32)
            whole, rest = divmod(n, 16)
            blocks[:whole] = rows[: n - rest].reshape(whole, 16, width).swapaxes(1, 2)
            blocks[whole:, :, :rest] = rows[n - rest :].T
        if n and self.settings["loss"] == "hs":
            children = np.empty((n - 1, 2), dtype=np.int32)
            if not _open.grow_tree(self.counts[self.n_words :], children):
                raise source.fail("damaged: the counts of the labels give no tree")
        return blocks, children

    def entry(self, i: int, errors: str) -> str:
        """Entry i of the dictionary: a word, or a label after all words."""
        spelling = bytes(self._image[self._start[i] : self._start[i + 1] - 10])
        return spelling.decode("utf-8", errors)

    def matrix(self, name: str) -> np.ndarray:
        """The float32 matrix "input" or "output", a view of the mapped file.

        ValueError if the matrix is quantised.
        """
        matrix, n_rows = {
            "input": (self._input, self.n_rows),
            "output": (self._output, self._n_outputs),
        }[name]
        if matrix.parts:
            raise ValueError(
                f"the {name} matrix is quantised; get_word_vector and get_input_vector "
                "return single rows of the input matrix"
            )
        size = n_rows * matrix.n
        flat = np.frombuffer(self._image, "<f4", size, matrix.at)
        return flat.reshape(n_rows, matrix.n)

    def save(self, path: Any) -> None:
        """Copy the file; `path` is as for `open_write`."""
        with open_write(path, name="path") as file:
            file.write(self._image)


def is_fasttext(path: str | bytes | os.PathLike) -> bool:
    """Whether a file begins with the magic number of fastText's models.

    False for a pipe, whose first bytes can be read only once.
    """
    if not os.path.isfile(path):
        return False
    with open(path, "rb") as file:
        return file.read(len(_MAGIC)) == _MAGIC


def read_labelled(
    path: Any, prefix: str = "__label__", known: Iterable[str] = ()
) -> tuple[list[str], list]:
    """(texts, labels of each text) from a file in fastText's format.

    A line is a text; its words that begin with the prefix or are known labels are its
    labels. Lines without a label are left out. Words are separated by ASCII white space
    and zero bytes. A byte order mark at the beginning is skipped. The file is UTF-8,
    plain or compressed.
    ValueError if a line is not UTF-8, no line has a label, or `prefix` is empty.
    """
    if not prefix:
        raise ValueError("prefix of labels is empty: every word would be a label")
    mark, names = prefix.encode(), {name.encode() for name in known}
    texts, labels = [], []
    with open_read(path, name="path") as (file, label):
        for number, line in enumerate(file, 1):
            if number == 1:
                line = line.removeprefix(codecs.BOM_UTF8)
            words = line.replace(b"\0", b" ").split()
            marked = [x for x in words if x.startswith(mark) or x in names]
            if not marked:
                continue
            gone = set(marked)
            text = b" ".join(x for x in words if x not in gone)
            try:
                texts.append(text.decode())
                labels.append([word.decode() for word in marked])
            except UnicodeDecodeError as exc:
                raise ValueError(f"{label}, line {number}: not UTF-8: {exc}") from exc
    if not texts:
        raise ValueError(f"{label}: no line has a label that begins with {prefix!r}")
    return texts, labels


def _read_settings(source: _Bytes) -> dict[str, Any]:
    if source.image[:4] != _MAGIC:
        raise source.fail(
            "not a model of fastText, which begins with the bytes "
            f"{_MAGIC.hex(' ')}, not {bytes(source.image[:4]).hex(' ')}"
        )
    _, version, *values = source.numbers(_HEAD.format, "the header")
    if not 11 <= version <= 12:
        raise source.fail(f"damaged: version {version}; fastText wrote 11 and 12")
    settings = dict(zip(_SETTINGS, values))
    for name, known in (("loss", LOSSES), ("model", MODELS)):
        number = settings[name]
        if not 1 <= number < len(known):
            raise source.fail(f"damaged: {name} {number}, not 1 to {len(known) - 1}")
        settings[name] = known[number]
    if version == 11 and settings["model"] == "supervised":
        settings["maxn"] = 0  # n-grams of letters came with version 12
    uses_buckets = settings["maxn"] > 0 or settings["wordNgrams"] > 1
    if settings["dim"] < 1 or settings["bucket"] < uses_buckets:
        raise source.fail(
            f"damaged: dim={settings['dim']}, bucket={settings['bucket']}"
        )
    return settings


def _read_matrix(
    source: _Bytes, quantized: bool, dim: int, what: str
) -> tuple[_Matrix, int]:
    """A matrix and its number of rows."""
    scaled = quantized and source.flag(f"the mark of factors of {what}")
    m, n = source.numbers("<2q", what)
    if m < 0 or n != dim:
        raise source.fail(f"damaged: {what} is {m} by {n}, and dim={dim}")
    if not quantized:
        return _Matrix(n, source.skip(4 * m * n, what)), m
    (size,) = source.numbers("<i", what)
    at = source.skip(max(size, 0), f"the codes of {what}")
    parts, part, last, centroids = _read_centroids(source, n, what)
    if size != m * parts:
        raise source.fail(f"damaged: {what} has {size} codes for {m} x {parts} parts")
    matrix = _Matrix(n, at, parts, part, last, centroids)
    if scaled:
        scale_at = source.skip(m, f"the factors of {what}")
        *_, scale = _read_centroids(source, 1, f"the factors of {what}")
        matrix = matrix._replace(scale_at=scale_at, scale=scale)
    return matrix, m


def _read_centroids(
    source: _Bytes, n: int, what: str
) -> tuple[int, int, int, np.ndarray]:
    """(parts of a row, columns of a part, of the last part, 256 centroids each)."""
    dim, parts, part, last = source.numbers("<4i", f"the centroids of {what}")
    if part < 1 or (dim, parts, last) != (n, -(-n // part), (n - 1) % part + 1):
        raise source.fail(
            f"damaged: {what} of {n} columns has codes for {dim}, in {parts} parts of "
            f"{part} and a last one of {last}"
        )
    return parts, part, last, source.array("<f4", 256 * n, f"the centroids of {what}")


def _slots(n: int) -> int:
    """Slots of a hash table of n entries: a power of two, at least a third free."""
    return 1 << (3 * n // 2).bit_length()


def _bucket_table(pairs: np.ndarray) -> np.ndarray:
    table = np.full((_slots(len(pairs)), 2), -1, dtype=np.int32)
    _open.fill_pairs(pairs, table)
    return table
