"""Texts to symbols, and the trie of their n-grams."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache, cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from .._checks import INT32_MAX, CheckedState, as_ids, check_ids, check_pointers
from .._lazy import stored
from .._parallel import ThreadMap, stop_flag
from ._ngrams_fast import (
    BINARY,
    COUNTED,
    FULL,
    LOGARITHM,
    N_IDS,
    N_OUT,
    SPACE,
    WORD,
    count_rows,
    enter_nodes,
    learn_ngrams,
    live_nodes,
    move_slots,
    number_words,
    pad_words,
    parents_of,
    replace_letters,
    sorted_places,
    squeeze_spaces,
)

# Letters that are read at a time: the arrays of a block stay in the cache.
_BLOCK = 1 << 17

VALUES = {"count": COUNTED, "binary": BINARY, "logarithm": LOGARITHM}
NORMS = {None: 0, "l1": 1, "l2": 2}

# The words of the word analyzer of scikit-learn.
_TOKEN = re.compile(r"(?u)\b\w\w+\b")
_SHORTEST_WORD = 2
_LAST_LETTER = 0x10FFFF

# Texts with these letters are converted to lower case one by one: the form of a sigma
# depends on the letters around it, and the other letter becomes two.
_BY_TEXT = "\u03a3\u0130"
# Letters below have a place in the array of the children of the root.
_ROOTS = 1 << 16


def is_word(text: str) -> bool:
    """Whether the whole text is one word of the analyzer of words."""
    return _TOKEN.fullmatch(text) is not None


@cache
def _classes() -> np.ndarray:
    """The bits SPACE and WORD of each code point, as the module `re` sees them."""
    letters = np.arange(0x110000, dtype=np.uint32).view("U1")
    classes = SPACE * np.char.isspace(letters) + WORD * np.char.isalnum(letters)
    classes[ord("_")] = WORD
    return classes.astype(np.uint8)


@cache
def _lower() -> np.ndarray:
    """The lower case of each code point but those of `_BY_TEXT`."""
    table = np.arange(0x110000, dtype=np.uint32)
    # No letter above has an upper case.
    last = 0x1FFFF
    table[: last + 1] = [ord(chr(i).lower()[0]) for i in range(last + 1)]
    return table


def _table(n: int) -> np.ndarray:
    """An empty table for n ids."""
    return np.zeros((1 << max(4, (2 * n - 1).bit_length()), 2), dtype=np.uint64)


def _grown(table: np.ndarray) -> np.ndarray:
    larger = _table(len(table))
    move_slots(table, larger)
    return larger


def _letters(texts: Sequence[str], lowercase: bool) -> tuple[np.ndarray, np.ndarray]:
    """The code points of texts, and the end of each text among them."""
    joined = "".join(texts)
    by_text = lowercase and any(letter in joined for letter in _BY_TEXT)
    if by_text:
        texts = [text.lower() for text in texts]
        joined = "".join(texts)
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    code = np.frombuffer(joined.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    letters = code.astype(np.uint32)
    if lowercase and not by_text:
        replace_letters(letters, _lower())
    return letters, ends


class Words(CheckedState):
    """Distinct words, numbered from 1; the first `n_stop` of them are stop words.

    letters, ends: the code points of the words, and the end of each; ends[0] is 0.
    n_words: number of the words, with those learned since.
    """

    def __init__(self, stop_words: Sequence[str], words: Sequence[str] = ()) -> None:
        self.letters, ends = _letters([*stop_words, *words], False)
        self.ends = np.append(0, ends)
        self.n_stop, self.n_words = len(stop_words), ends.size

    def _check_arrays(self) -> None:
        self.letters = as_ids("letters", self.letters, 1, np.uint32)
        if self.letters.max(initial=0) > _LAST_LETTER:
            raise ValueError(f"letters must not be above {_LAST_LETTER}")
        self.ends = as_ids("ends", self.ends, 1, np.int64)
        if not self.ends.size:
            raise ValueError("ends must begin with 0, got no number")
        check_pointers("ends", self.ends, 0, self.letters.size)
        self.n_stop, self.n_words = int(self.n_stop), self.ends.size - 1

    def __getstate__(self) -> dict[str, Any]:
        return stored(self)

    @cached_property
    def known(self) -> list[np.ndarray]:
        """Table, letters and ends of all words, with room for more."""
        n = self.n_words
        known = [_table(n), np.empty_like(self.letters), np.zeros_like(self.ends)]
        every = np.full(0x110000, WORD, dtype=np.uint8)
        numbers, out_ends = np.empty(n, np.uint32), np.empty(n, np.int64)
        state = np.zeros(5, dtype=np.int64)
        number_words(
            self.letters, self.ends[1:], every, 1, 0, True, *known, numbers, out_ends,
            state,
        )  # fmt: skip
        if state[N_OUT] != n or state[N_IDS] != n:
            raise ValueError("letters must hold distinct words that are not empty")
        return known

    def strings(self) -> list[str]:
        """The words, stop words included."""
        _, letters, ends = self.known
        stops = ends[: self.n_words + 1].tolist()
        code = letters[: stops[-1]].astype("<u4").tobytes()
        text = code.decode("utf-32-le", "surrogatepass")
        return [text[a:b] for a, b in pairwise(stops)]

    def number(
        self, letters: np.ndarray, ends: np.ndarray, learn: bool
    ) -> tuple[np.ndarray, np.ndarray]:
        """The numbers of the words of texts, and the end of each text among them."""
        out = np.empty(letters.size // _SHORTEST_WORD + 1, dtype=np.uint32)
        out_ends = np.empty_like(ends)
        state = np.zeros(5, dtype=np.int64)
        state[N_IDS] = self.n_words
        while (
            number_words(
                letters, ends, _classes(), _SHORTEST_WORD, self.n_stop, learn,
                *self.known, out, out_ends, state,
            )
            == FULL
        ):  # fmt: skip
            table, arena, word_ends = self.known
            if arena.size - word_ends[state[N_IDS]] < letters.size:
                more = np.zeros(arena.size + letters.size, np.uint32)
                self.known[1] = np.append(arena, more)
            else:
                self.known[0] = _grown(table)
                self.known[2] = np.append(word_ends, np.zeros(len(table), np.int64))
        self.n_words = int(state[N_IDS])
        return out[: state[N_OUT]], out_ends


class Symbols(NamedTuple):
    """The symbols of texts, the ends of their segments, and those of the texts."""

    symbols: np.ndarray
    segment_ends: np.ndarray
    text_ends: np.ndarray


class Reader(NamedTuple):
    """How texts are cut into symbols; `words` is None for n-grams of letters."""

    analyzer: str
    shortest: int
    longest: int
    lowercase: bool
    words: Words | None

    @property
    def padded(self) -> bool:
        return self.analyzer == "char_wb"

    def read(self, texts: Sequence[str], learn: bool = False) -> Symbols:
        letters, ends = _letters(texts, self.lowercase)
        if self.words is not None:
            symbols, ends = self.words.number(letters, ends, learn)
        elif self.padded:
            symbols = np.empty(3 * letters.size, dtype=np.uint32)
            segments = np.empty(letters.size, dtype=np.int64)
            text_ends = np.empty_like(ends)
            n = pad_words(letters, ends, _classes(), symbols, segments, text_ends)
            return Symbols(symbols, segments[:n], text_ends)
        else:
            symbols, out_ends = np.empty_like(letters), np.empty_like(ends)
            squeeze_spaces(letters, ends, _classes(), symbols, out_ends)
            ends = out_ends
        return Symbols(symbols, ends, np.arange(1, ends.size + 1))


def blocks(texts: Sequence[str]) -> Iterator[slice]:
    """Slices of texts of about as many letters."""
    ends = np.cumsum(np.fromiter(map(len, texts), np.int64, len(texts)))
    start = 0
    while start < len(texts):
        before = int(ends[start - 1]) if start else 0
        stop = int(np.searchsorted(ends, before + _BLOCK, side="right"))
        stop = min(max(stop, start + 1), start + _BLOCK)
        yield slice(start, stop)
        start = stop


class CountedNgrams(NamedTuple):
    """All n-grams of texts: nodes of a trie, parents before their children.

    n_texts: the number of texts that have the n-gram of a node, 0 for nodes that only
    lead to n-grams. totals: the occurrences, empty if they were not asked for. read:
    the symbols of the texts, by block, if they were asked for.
    """

    reader: Reader
    parent: np.ndarray
    symbol: np.ndarray
    n_texts: np.ndarray
    totals: np.ndarray
    read: list[Symbols]

    @classmethod
    def of(
        cls, reader: Reader, texts: Sequence[str], *, totals: bool, keep: bool
    ) -> CountedNgrams:
        table, roots = _table(1 << 10), np.zeros((_ROOTS, 2), np.uint64)
        kept = []
        kinds = (np.int32, np.uint32, np.int32, np.int64)
        sizes = [len(table) // 2] * 3 + [len(table) // 2 if totals else 0]
        nodes = [np.zeros(n, kind) for n, kind in zip(sizes, kinds)]
        n_nodes = 1
        with stop_flag() as stop:
            for part in blocks(texts):
                read = reader.read(texts[part], learn=True)
                if keep:
                    kept.append(read)
                if reader.words is not None and reader.words.n_words >= len(roots):
                    more = max(len(roots), reader.words.n_words)
                    roots = np.concatenate([roots, np.zeros((more, 2), np.uint64)])
                state = np.zeros(5, dtype=np.int64)
                state[N_IDS] = n_nodes
                longest = min(reader.longest, max(1, read.symbols.size))
                while (
                    learn_ngrams(
                        *read, reader.shortest, longest, reader.padded, part.start + 1,
                        table, roots, *nodes, state, stop,
                    )
                    == FULL
                ):  # fmt: skip
                    if state[N_IDS] + longest > INT32_MAX:
                        raise ValueError(
                            f"X has more than {INT32_MAX} different n-grams; use a "
                            "smaller ngram_range or fewer texts"
                        )
                    table = _grown(table)
                    nodes = [np.append(a, np.zeros_like(a)) for a in nodes]
                n_nodes = int(state[N_IDS])
        parent, symbol, n_texts, counts = (a[:n_nodes] for a in nodes)
        return cls(reader, parent, symbol, n_texts, counts, kept)

    def sorted_nodes(self, keep: np.ndarray) -> np.ndarray:
        """The nodes of a mask, sorted by their n-grams as strings."""
        old, parent, symbol = self._leading_to(keep)
        if self.reader.words is not None:
            # A space sorts before all letters of words.
            symbol = self._ranks(symbol)
        order = old[depth_first(parent, symbol)[0]]
        return order[keep[order]]

    def trie(self, nodes: np.ndarray) -> tuple[NgramTrie, list[Symbols]]:
        """The trie whose columns are these nodes, and the symbols read for it."""
        keep = np.zeros(self.parent.size, dtype=bool)
        keep[nodes] = True
        old, parent, symbol = self._leading_to(keep)
        column = np.full(self.parent.size, -1, dtype=np.int32)
        column[nodes] = np.arange(nodes.size)
        read, words = self.read, self.reader.words
        if words is not None:
            strings = words.strings()
            used = self._sorted_words(symbol)
            number = np.zeros(len(strings) + 1, dtype=np.uint32)
            number[used] = np.arange(words.n_stop + 1, words.n_stop + 1 + len(used))
            symbol = number[symbol]
            read = [r._replace(symbols=number[r.symbols]) for r in read]
            words = Words(strings[: words.n_stop], [strings[w - 1] for w in used])
        reader = self.reader._replace(words=words)
        return NgramTrie(reader, parent, symbol, column[old], nodes.size), read

    def _leading_to(self, keep: np.ndarray) -> tuple[np.ndarray, ...]:
        """The nodes that lead to nodes of a mask; their parents and symbols."""
        live = keep.astype(np.uint8)
        live[0] = 1
        live_nodes(self.parent, live)
        old = np.flatnonzero(live)
        new = np.cumsum(live, dtype=np.int32) - np.int32(1)
        return old, new[self.parent[old]], self.symbol[old]

    def _sorted_words(self, symbol: np.ndarray) -> list[int]:
        """The words of some nodes, sorted as strings."""
        assert self.reader.words is not None
        strings = self.reader.words.strings()
        return sorted(np.unique(symbol[1:]).tolist(), key=lambda w: strings[w - 1])

    def _ranks(self, symbol: np.ndarray) -> np.ndarray:
        """The places of words in their sorted list."""
        used = self._sorted_words(symbol)
        rank = np.zeros(max(used, default=0) + 1, dtype=np.uint32)
        rank[used] = np.arange(len(used))
        return rank[symbol]


def depth_first(
    parent: np.ndarray, symbol: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(nodes of a trie in depth-first order, siblings by symbol; their depths)."""
    key = parent[1:].astype(np.uint64) << np.uint64(32) | symbol[1:]
    by_key = np.argsort(key) + 1
    place, depth = np.empty_like(parent), np.zeros_like(parent)
    sorted_places(
        parent, by_key, np.ones_like(parent), np.empty_like(parent), place, depth
    )
    order = np.empty_like(parent)
    order[place] = np.arange(parent.size, dtype=np.int32)
    return order, depth[order]


def parents_in_order(depth: np.ndarray) -> np.ndarray:
    """The parents of nodes in the order of `depth_first`; depth: without the root."""
    depth = np.append(0, depth).astype(np.int32)
    parent = np.empty_like(depth)
    last = np.empty(int(depth.max()) + 1, dtype=np.int32)
    if not parents_of(depth, last, parent):
        raise ValueError("depth is not that of a trie")
    return parent


class NgramTrie(CheckedState):
    """The n-grams that are columns, and what leads to them, as nodes of a trie.

    parent, symbol, column: by node, parents before their children, node 0 the root;
    column is -1 for nodes that are not a column.
    """

    def __init__(
        self,
        reader: Reader,
        parent: np.ndarray,
        symbol: np.ndarray,
        column: np.ndarray,
        n_columns: int,
    ) -> None:
        self.settings = reader._asdict()
        self.parent, self.symbol, self.column = parent, symbol, column
        self.n_columns = n_columns
        self._check_arrays()

    @classmethod
    def of_terms(cls, reader: Reader, terms: Sequence[str]) -> NgramTrie:
        """The trie of given n-grams. Words of a term have one space between them."""
        column_of, split = {}, [tuple(term) for term in terms]
        if reader.words is not None:
            stop = reader.words.strings()
            tokens = [_TOKEN.findall(term) for term in terms]
            # Other terms are n-grams of no text; their columns stay empty.
            split = [
                tuple(found) if " ".join(found) == term else ()
                for found, term in zip(tokens, terms)
            ]
            split = [() if set(found) & set(stop) else found for found in split]
            words = sorted({word for found in split for word in found})
            reader = reader._replace(words=Words(stop, words))
            number = {word: i for i, word in enumerate(words, len(stop) + 1)}
        nodes: dict[tuple[int, int], int] = {}
        for j, found in enumerate(split):
            v = 0
            for part in found:
                symbol = ord(part) if reader.words is None else number[part]
                v = nodes.setdefault((v, symbol), len(nodes) + 1)
            if v:
                column_of[v] = j
        pairs = np.array([(0, 0), *nodes], dtype=np.int64)
        column = np.full(len(pairs), -1, dtype=np.int32)
        column[list(column_of)] = list(column_of.values())
        parent, symbols = pairs[:, 0].astype(np.int32), pairs[:, 1].astype(np.uint32)
        return cls(reader, parent, symbols, column, len(terms))

    def _check_arrays(self) -> None:
        self.parent = as_ids("parent", self.parent, 1)
        n = self.parent.size
        self.symbol = as_ids("symbol", self.symbol, 1, np.uint32)
        self.column = as_ids("column", self.column, 1)
        if not n or n != self.symbol.size or n != self.column.size:
            raise ValueError("parent, symbol and column must have equal lengths")
        self.n_columns = int(self.n_columns)
        check_ids("column", self.column, -1, self.n_columns, "column")
        words = self.reader.words
        most = _LAST_LETTER if words is None else words.n_words
        if int(self.symbol.max()) > most:
            raise ValueError(f"symbol must not be above {most}")
        if (self.parent < 0).any() or (self.parent[1:] >= np.arange(1, n)).any():
            raise ValueError("parent must hold an earlier node for each node")

    def __getstate__(self) -> dict[str, Any]:
        return stored(self)

    @property
    def reader(self) -> Reader:
        return Reader(**self.settings)

    @cached_property
    def spaces(self) -> np.ndarray:
        """The columns of n-grams of a white space alone."""
        top = (self.parent == 0) & (self.column >= 0) & (self.reader.words is None)
        is_space = [chr(symbol).isspace() for symbol in self.symbol[top].tolist()]
        return self.column[top][np.array(is_space, dtype=bool)]

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """The slots of the nodes, and those of the children of the root."""
        n_roots = int(self.symbol.max()) + 1
        if self.reader.words is None:
            n_roots = min(n_roots, _ROOTS)
        tables = _table(self.parent.size), np.zeros((n_roots, 2), np.uint64)
        if not enter_nodes(self.parent, self.symbol, self.column, *tables):
            raise ValueError("symbol must differ between the children of a node")
        return tables

    def names(self) -> list[str]:
        """The n-grams of the columns."""
        words = self.reader.words
        strings = None if words is None else words.strings()
        of_node = [""]
        names = [""] * self.n_columns
        for p, s, c in zip(
            self.parent[1:].tolist(), self.symbol[1:].tolist(), self.column[1:].tolist()
        ):
            if strings is None:
                name = of_node[p] + chr(s)
            else:
                name = f"{of_node[p]} {strings[s - 1]}" if p else strings[s - 1]
            of_node.append(name)
            if c >= 0:
                names[c] = name
        return names

    def block_rows(
        self,
        read: Symbols,
        stop: np.ndarray,
        *,
        idf: np.ndarray | None = None,
        values: str = "count",
        norm: str | None = None,
        dtype: Any = np.float64,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Data, indices and ends of the rows of some texts; the indices are sorted."""
        weights = np.empty(0) if idf is None else idf
        reader, n = self.reader, self.n_columns
        if weights.size not in (0, n):
            raise ValueError(f"idf must have {n} entries, got {weights.size}")
        n_texts, n_lengths = read.text_ends.size, reader.longest - reader.shortest + 1
        size = read.segment_ends[-1] if read.segment_ends.size else 0
        room = min(int(size) * n_lengths, n_texts * n)
        indices, data = np.empty(room, np.int32), np.empty(room, dtype)
        bits = [np.zeros((n >> shift) + 1, np.uint64) for shift in (6, 12, 18)]
        ends = np.empty(n_texts, dtype=np.int64)
        count_rows(
            *read, reader.shortest, reader.longest, reader.padded, *self.tables,
            weights, VALUES[values], NORMS[norm], np.zeros(n, np.int32), *bits, ends,
            indices, data, stop,
        )  # fmt: skip
        end = int(ends[-1])
        return data[:end], indices[:end], ends

    def rows(
        self,
        texts: Sequence[str],
        *,
        n_jobs: int | None = None,
        read: list[Symbols] | None = None,
        **options: Any,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Data, indices and indptr of the rows of texts; options: of `block_rows`.

        read: the symbols of the texts, by block, if they are known.
        """
        reader = self.reader
        self.tables  # noqa: B018 - made once, not by each thread

        def block(part: slice | Symbols) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
            read = reader.read(texts[part]) if isinstance(part, slice) else part
            data, indices, ends = self.block_rows(read, stop, **options)
            return data.copy(), indices.copy(), ends

        with stop_flag() as stop, ThreadMap(n_jobs) as parallel:
            done = parallel(block, blocks(texts) if read is None else read)
        sizes = [int(ends[-1]) for _, _, ends in done]
        total = sum(sizes)
        pointer = np.int32 if total <= INT32_MAX else np.int64
        indptr = np.zeros(len(texts) + 1, dtype=pointer)
        data = np.empty(total, options.get("dtype", np.float64))
        indices = np.empty(total, pointer)
        row = at = 0
        # A block is freed once it is copied: the peak is the matrix and one block.
        done.reverse()
        for size in sizes:
            part, columns, ends = done.pop()
            data[at : at + size], indices[at : at + size] = part, columns
            indptr[row + 1 : row + 1 + ends.size] = ends + at
            row, at = row + ends.size, at + size
        return data, indices, indptr
