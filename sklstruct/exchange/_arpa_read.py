"""ARPA files into back-off models.

Each stage is a pass over flat arrays: lines -> rows of word ids and values (one section
at a time) -> one context tree of every context in the file -> pairs sorted by (node,
class).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._checks import INT32_MAX
from .._files import DamagedData
from .._warnings import warn
from ..backoff import BackoffModel
from ..context_tree import ContextTree, Histories, pairs_of_arrays
from ..context_tree._links import pair_pointers
from ..symbols import Labels, object_array
from ..symbols._text import WordTable
from . import _arpa_fast
from ._words import MARKS

_LN10 = np.log(10.0)
# Bytes of the first and of the largest chunk; each chunk is twice the previous.
_FIRST_CHUNK, _CHUNK = 1 << 16, 1 << 24
# A few bytes of a compressed file can expand to gigabytes: text that is not an n-gram
# raises an error before it fills the memory.
_LONGEST_LINE = 1 << 24
_MOST_FILLER = 1 << 20
_MOST_DIGITS = 10  # of 2^31 - 1
_UNKNOWN = (b"<unk>", b"<UNK>")
_MARKS = (b"<s>", b"</s>", *_UNKNOWN)


# Creates the error of a file, with the file's name, from a message and possibly a line.
Fail = Callable[..., ValueError]


class _Source:
    """Bytes of a file in chunks of whole lines, with the number of the next line."""

    def __init__(self, file: Any, label: str) -> None:
        self._file = file
        self.label = label
        self.line = 1
        self._rest = b""
        self._at = 0
        self._size = _FIRST_CHUNK
        self._filler = 0  # bytes without an n-gram since the last n-gram
        self._ended = False

    def fail(self, message: str, line: int | None = None) -> ValueError:
        return ValueError(f"{self.label}, line {line or self.line}: {message}")

    def _more(self) -> bool:
        """Append a chunk to the unread bytes; False at the end of the file."""
        if self._ended:
            return False
        try:
            chunk = self._file.read(min(self._size, _CHUNK))
        except DamagedData as exc:
            last = self.line + self._rest.count(b"\n", self._at)
            raise self.fail(f"at or after this line: {exc}", last) from exc
        self._size *= 2
        self._rest = self._rest[self._at :] + chunk
        self._at = 0
        if not chunk:
            self._ended = True
            if not self._rest or self._rest[-1:] == b"\n":
                return False
            self._rest += b"\n"
        return True

    def _line_end(self) -> int:
        """Index of the end of the next line in the buffer; -1: the end of the file."""
        while (end := self._rest.find(b"\n", self._at)) < 0:
            self._check_line()
            if not self._more():
                return -1
        return end

    def _check_line(self) -> None:
        """Raise an error if the incomplete line in the buffer is too long."""
        if len(self._rest) - self._at > _LONGEST_LINE:
            raise self.fail(f"the line is longer than {_LONGEST_LINE >> 20} MiB")

    def _skip(self, end: int) -> None:
        """Skip the line that ends at `end`."""
        self._filler += end + 1 - self._at
        if self._filler > _MOST_FILLER:
            raise self.fail(
                f"more than {_MOST_FILLER >> 20} MiB of text without an n-gram: this "
                "is not an ARPA file"
            )
        self._at = end + 1
        self.line += 1

    def read_line(self) -> bytes | None:
        """The next line, stripped; None at the end of the file."""
        end = self._line_end()
        if end < 0:
            return None
        line = self._rest[self._at : end]
        self._skip(end)
        return line.strip(b" \t\r")

    def skip_blank(self) -> None:
        while (end := self._line_end()) >= 0:
            if self._rest[self._at : end].strip(b" \t\r"):
                return
            self._skip(end)

    def read_content(self) -> bytes | None:
        """The next line that is not blank; None at the end of the file."""
        self.skip_blank()
        return self.read_line()

    def parse(
        self,
        words: WordTable,
        highest: bool,
        ids: np.ndarray,
        values: np.ndarray,
        row: int,
    ) -> tuple[int, bool]:
        """Let the kernel read lines up to the end of `ids` or of the section.

        Returns (rows read so far, True at the end of the arrays).
        """
        while True:
            stop = self._rest.rfind(b"\n") + 1
            if stop > self._at:
                first = row
                self._filler = 0
                if ids.shape[1] == 1:  # unigrams make the words known
                    words.reserve(stop - self._at)
                row, at, code, *span = _arpa_fast.parse_block(
                    words,
                    self._rest,
                    self._at,
                    stop,
                    highest,
                    ids,
                    values,
                    row,
                )
                self.line += row - first
                self._at = at
                if code == _arpa_fast.FULL:
                    words.grow()
                    continue
                if code == _arpa_fast.DONE:
                    return row, True
                if code == _arpa_fast.BLANK:
                    return row, False
                if code != _arpa_fast.MORE:
                    order = ids.shape[1]
                    raise self.fail(self._reason(code, order, self._rest, span))
            self._check_line()
            if not self._more():
                return row, False

    @staticmethod
    def _reason(code: int, order: int, rest: bytes, span: list[int]) -> str:
        text = repr(rest[span[0] : span[1]][:80].decode("utf-8", "replace"))
        gram = f"{order}-gram"
        words = f"{order} word{'s' if order > 1 else ''}"
        return {
            _arpa_fast.BAD_PROB: f"{text} is not a log10-probability",
            _arpa_fast.POSITIVE: f"the log10-probability {text} is positive",
            _arpa_fast.TOO_FEW: f"a {gram} must have {words}, this line has fewer",
            _arpa_fast.TOO_MANY: f"a {gram} must have {words} and at most one back-off "
            "weight, this line has more",
            _arpa_fast.UNKNOWN_WORD: f"{text} is not among the unigrams",
            _arpa_fast.BAD_BACKOFF: f"{text} is not a log10 back-off weight (a {gram} "
            f"must have {words})",
            _arpa_fast.HUGE_BACKOFF: f"the log10 back-off weight {text} is above 900",
            _arpa_fast.HIGHEST_BACKOFF: f"{text} is one field too many: a {gram} of a "
            f"model of order {order} has {words} and no back-off weight but 0",
        }[code]


def _read_counts(source: _Source) -> tuple[list[int], bytes]:
    """The counts of n-grams in the header, and the line after it."""
    first = None
    while (line := source.read_line()) != b"\\data\\":
        if line is None:
            begins = "" if first is None else f"; it begins with {_quoted(first)}"
            raise source.fail(
                f"the file has no line \\data\\: it is not an ARPA file{begins}"
            )
        if first is None and line:
            first = line
    counts: list[int] = []
    while True:
        line = source.read_content()
        if line is None:
            raise source.fail("the file ends in the header: it is cut short")
        if line.startswith(b"\\"):
            break
        match = re.fullmatch(rb"ngram[ \t]+0*(\d+)[ \t]*=[ \t]*0*(\d+)", line)
        if not match:
            raise source.fail(
                f"{_quoted(line)} is not a count: 'ngram 1=...' was expected",
                source.line - 1,
            )
        expected = str(len(counts) + 1).encode()
        if match[1] != expected:
            raise source.fail(
                f"the count of {len(counts) + 1}-grams was expected, this one is of "
                f"{match[1][:20].decode()}-grams",
                source.line - 1,
            )
        if len(match[2]) > _MOST_DIGITS or int(match[2]) > INT32_MAX:
            raise source.fail("more than 2^31 - 1 n-grams", source.line - 1)
        counts.append(int(match[2]))
        if counts[0] == 0:
            raise source.fail("the file has no unigrams", source.line - 1)
    if not counts:
        raise source.fail("the header has no counts", source.line - 1)
    return counts, line


def _quoted(line: bytes) -> str:
    return repr(line[:80].decode("utf-8", "replace"))


class Section(NamedTuple):
    """The n-grams of one order."""

    ids: np.ndarray  # (n, order) int32: words, the oldest first
    values: np.ndarray  # (n, 2): log10 probability and back-off weight
    first_line: int


def _read_section(
    source: _Source,
    header: bytes | None,
    words: WordTable,
    order: int,
    count: int,
    highest: bool,
) -> tuple[Section, bytes | None]:
    """One section and the header of the next."""
    expected = f"\\{order}-grams:"
    if header is None:
        raise source.fail(f"the file is cut short: section {expected} is missing")
    if header != expected.encode():
        raise source.fail(
            f"section {expected} was expected, not {_quoted(header)}", source.line - 1
        )
    # A damaged header may have any count, so the arrays grow with the file.
    size = min(count, 1 << 16)
    ids = np.empty((size, order), dtype=np.int32)
    values = np.empty((size, 2))
    if count:
        source.skip_blank()
    first = source.line
    row, more = 0, True
    while more and row < count:
        if row == size:
            size = min(count, 2 * size)
            ids = np.concatenate([ids, np.empty((size - row, order), np.int32)])
            values = np.concatenate([values, np.empty((size - row, 2))])
        row, more = source.parse(words, highest, ids, values, row)
    line = source.read_content()
    if row < count:
        if line is None:
            raise source.fail(
                f"the file is cut short: {row} of {count} {order}-grams read"
            )
        raise source.fail(
            f"section {expected} ends after {row} n-grams, but the header says "
            f"ngram {order}={count}",
            source.line - 1,
        )
    if line is not None and not line.startswith(b"\\"):
        raise source.fail(
            f"section {expected} goes on after the {count} n-grams of the header's "
            f"ngram {order}={count}",
            source.line - 1,
        )
    return Section(ids, values, first), line


def read_arpa(file: Any, label: str) -> BackoffModel:
    """See `sklstruct.exchange.read`."""
    source = _Source(file, label)
    header: bytes | None
    counts, header = _read_counts(source)
    order = len(counts)
    words = WordTable()
    sections = []
    for k, count in enumerate(counts, 1):
        section, header = _read_section(source, header, words, k, count, k == order)
        if k == 1:
            section, raw, word_of = _each_once(source, words.spelling(), section)
        elif len(raw) < word_of.size:
            section = section._replace(ids=word_of[section.ids])
        sections.append(section)
    if header is None:
        raise source.fail("the file is cut short: \\end\\ is missing")
    if header != b"\\end\\":
        raise source.fail(
            f"\\end\\ was expected, not {_quoted(header)}: the header has no count for "
            "it",
            source.line - 1,
        )
    if (rest := source.read_content()) is not None:
        raise source.fail(
            f"{_quoted(rest)} follows \\end\\: remove it", source.line - 1
        )
    spelt, roles = decode_words(source.fail, raw, sections[0].first_line)
    return build_model(source.fail, spelt, roles, sections)


def _each_once(
    source: _Source, raw: list[bytes], section: Section
) -> tuple[Section, list[bytes], np.ndarray]:
    """(unigrams without repetitions, so that row i is word i; words; the word of each
    id).

    <UNK> and <unk> are one word, and a mark may occur twice. KenLM then takes the first
    line of <s> and </s>, and the last one of <unk>.
    """
    ids = section.ids[:, 0]
    word_of = np.arange(len(raw), dtype=np.int32)
    if set(_UNKNOWN) <= set(raw):
        keep, gone = sorted(map(raw.index, _UNKNOWN))
        raw[keep] = b"<unk>"
        del raw[gone]
        word_of[gone:] -= 1
        word_of[gone] = keep
        ids = word_of[ids]
    if len(raw) == ids.size:
        return section, raw, word_of
    lines = section.first_line + np.arange(ids.size)
    found, row = np.unique(ids, return_index=True)  # the first rows
    for again in np.setdiff1d(np.arange(ids.size), row).tolist():
        word, first = raw[ids[again]], int(row[ids[again]])
        if word not in _MARKS:
            raise source.fail(
                f"the unigram {_quoted(word)} occurs twice", int(lines[again])
            )
        last = word in _UNKNOWN
        if (section.values[again] != section.values[first]).any():
            used = lines[again if last else first]
            warn(
                f"{source.label}: {word.decode()} has one pair of numbers in line "
                f"{lines[first]} and another in line {lines[again]}; those of line "
                f"{used} are used, as KenLM does",
            )
        if last:
            row[ids[again]] = again
    return (
        Section(found[:, None], section.values[row], section.first_line),
        raw,
        word_of,
    )


def decode_words(
    fail: Fail, raw: list[bytes], first_line: int
) -> tuple[list[str], dict[str, int]]:
    """Words as strings; ids of the marks. A lone <UNK> is <unk>."""
    spelt = []
    for i, word in enumerate(raw):
        try:
            spelt.append(word.decode("utf-8"))
        except UnicodeDecodeError as exc:
            raise fail(
                f"the word {word[:80]!r} is not UTF-8; convert the file, for example "
                "by iconv -f latin1 -t utf-8",
                first_line + i,
            ) from exc
    if "<UNK>" in spelt and "<unk>" not in spelt:
        spelt[spelt.index("<UNK>")] = "<unk>"
    return spelt, {p: spelt.index(mark) for p, mark in MARKS.items() if mark in spelt}


class _Numbering:
    """Ids of the chosen words in sorted order, -1 for the others."""

    def __init__(self, spelt: list[str], order: np.ndarray, chosen: np.ndarray) -> None:
        members = order[chosen[order]]
        self.of_word = np.full(len(spelt), -1, dtype=np.int32)
        self.of_word[members] = np.arange(len(members), dtype=np.int32)
        self.labels = object_array(spelt)[members]


def _number(
    fail: Fail,
    spelt: list[str],
    roles: dict[str, int],
    sections: list[Section],
) -> tuple[_Numbering, _Numbering]:
    """Words as classes and as context symbols."""
    is_class = np.ones(len(spelt), dtype=bool)
    is_context = np.ones(len(spelt), dtype=bool)
    if "start" in roles:
        is_class[roles["start"]] = False
    if "end" in roles:
        # An end mark is a context symbol where some n-gram says what follows it.
        mark = roles["end"]
        is_context[mark] = any(
            (s.ids[:, :-1] == mark).any()
            or (s.values[s.ids[:, -1] == mark, 1] != 0).any()
            for s in sections
        )
    order = np.array(sorted(range(len(spelt)), key=spelt.__getitem__))
    classes = _Numbering(spelt, order, is_class)
    if len(classes.labels) == 0:
        raise fail("the file has no unigram besides <s>", sections[0].first_line)
    return classes, _Numbering(spelt, order, is_context)


def build_model(
    fail: Fail,
    spelt: list[str],
    roles: dict[str, int],
    sections: list[Section],
) -> BackoffModel:
    """The model of the sections of n-grams."""
    classes, symbols = _number(fail, spelt, roles, sections)
    n_classes = len(classes.labels)
    tree, context, own = _grow(sections, symbols)
    log_backoff = np.zeros(tree.n_nodes)
    for section, (row, node) in zip(sections, own):
        log_backoff[node] = section.values[row, 1] * _LN10
    nodes, targets, log_probs = [], [], []
    of_start: list[tuple[np.ndarray, np.ndarray]] = []
    for section, node in zip(sections, context):
        target = classes.of_word[section.ids[:, -1]]
        log_prob = section.values[:, 0]
        by_key = _sorted_pairs(fail, spelt, section, node, target, n_classes)
        if by_key is not None:
            node, target, log_prob = node[by_key], target[by_key], log_prob[by_key]
        keep = target >= 0
        of_start.append((node[~keep], log_prob[~keep] * _LN10))
        if not keep.all():
            node, target, log_prob = node[keep], target[keep], log_prob[keep]
        nodes.append(node)
        targets.append(target)
        log_probs.append(log_prob * _LN10)
    # Order k has the nodes of depth k - 1, and deeper nodes have larger numbers.
    ptr = pair_pointers(np.concatenate(nodes), tree.n_nodes)
    pairs = pairs_of_arrays(tree, ptr, np.concatenate(targets))
    marks = {p: MARKS[p] for p in roles}
    # Such files store no rule for words, and other programs split as KenLM.
    labels = Labels(classes.labels, symbols.labels, analyzer="kenlm", **marks)
    model = BackoffModel(pairs, np.concatenate(log_probs), log_backoff, labels)
    node, log_prob = map(np.concatenate, zip(*of_start))
    model.file_ngrams = node.astype(np.int32), log_prob
    return model


def _grow(
    sections: list[Section], symbols: _Numbering
) -> tuple[ContextTree, list[np.ndarray], list[tuple[np.ndarray, np.ndarray]]]:
    """The tree of every context of the file.

    Returns the tree, the node of the context of each n-gram by section, and by section
    the rows and nodes of the n-grams that have a back-off weight.
    """
    # A weight of 1 needs no node. A word that is not a context symbol, as </s> in most
    # files, is the last of its n-grams, which are then no contexts.
    rows = [
        np.flatnonzero((s.values[:, 1] != 0) & (symbols.of_word[s.ids[:, -1]] >= 0))
        for s in sections
    ]
    n_samples = sum(len(s.ids) + len(row) for s, row in zip(sections, rows))
    flat = np.empty(sum(s.ids.size for s in sections), dtype=np.int32)
    offset = np.empty(n_samples, dtype=np.int64)
    length = np.empty(n_samples, dtype=np.int32)
    bounds = []
    start, at = 0, 0
    for order, (section, row) in enumerate(zip(sections, rows), 1):
        # n-gram i, the oldest word first, ends at start + order * (i + 1); its context
        # ends one word before.
        stop = start + section.ids.size
        # "clip" keeps take from making a copy first; all ids are in range.
        np.take(symbols.of_word, section.ids.ravel(), out=flat[start:stop], mode="clip")
        context = slice(at, at + len(section.ids))
        own = slice(context.stop, context.stop + len(row))
        offset[context] = np.arange(start + order - 1, stop, order)
        length[context] = order - 1
        offset[own] = offset[context][row] + 1
        length[own] = order
        bounds += [context.stop, own.stop]
        start, at = stop, own.stop
    tree, terminal = ContextTree.from_histories(
        Histories(flat, offset, length), len(symbols.labels)
    )
    parts = np.split(terminal, bounds[:-1])
    return tree, parts[::2], list(zip(rows, parts[1::2]))


def _sorted_pairs(
    fail: Fail,
    spelt: list[str],
    section: Section,
    node: np.ndarray,
    target: np.ndarray,
    n_classes: int,
) -> np.ndarray | None:
    """The order of the rows by (node, class), None where they are in order."""
    # -1 (the start mark as last word) gets its own key.
    key = node.astype(np.int64)
    key *= n_classes + 1
    key += target
    if len(key) < 2 or (key[1:] > key[:-1]).all():
        return None
    by_key = np.argsort(key, kind="stable")
    ordered = key[by_key]
    same = ordered[1:] == ordered[:-1]
    if same.any():
        again = int(by_key[1:][same].min())
        text = " ".join(spelt[w] for w in section.ids[again])
        raise fail(
            f"the {section.ids.shape[1]}-gram {text!r} occurs twice",
            section.first_line + again,
        )
    return by_key
