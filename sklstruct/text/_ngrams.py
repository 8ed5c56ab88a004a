"""The trie of the n-grams of texts, and the rows of its columns."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from .._checks import INT32_MAX, CheckedState, as_ids, check_ids
from .._parallel import ThreadMap, stop_flag
from ._letters_fast import FULL, N_IDS
from ._ngrams_fast import (
    N_TOGETHER,
    count_texts,
    fill_rows,
    find_ngrams,
    live_nodes,
    merge_nodes,
    parents_of,
    sorted_places,
    take_marks,
)
from ._reading import TOKEN, Reader, Symbols, Words, grown, table_of
from ._texts import Texts, blocks

NORMS = {None: 0, "l1": 1, "l2": 2}

# Letters below this have a place in the array of the children of the root.
_ROOTS = 1 << 16

# Empty marks, which stand for the nodes; empty node arrays of a trie that is finished.
_NO_MARKS = np.empty(0, np.int32)
_NO_NODES = _NO_MARKS, np.empty(0, np.uint32)

# With more lengths of n-grams, the length of the longest segment bounds the room.
_MANY_LENGTHS = 32

# Blocks of texts per thread whose rows are made before they are joined.
_AT_ONCE = 8


class FoundNgrams(NamedTuple):
    """The n-grams of each segment, and the segments of the texts.

    ids: nodes, or columns, of the n-grams of the segments, and at least one more entry.
    ends: the end of each segment among the ids; ends[0] = 0. numbers, text_ends: as in
    `Symbols`.
    """

    ids: np.ndarray
    ends: np.ndarray
    numbers: np.ndarray
    text_ends: np.ndarray

    @classmethod
    def room(cls, read: Symbols, reader: Reader) -> FoundNgrams:
        """Empty arrays with room for all n-grams."""
        n = reader.longest - reader.shortest + 1
        if n > _MANY_LENGTHS:
            n = min(n, int(np.diff(read.segment_ends, prepend=0).max(initial=0)))
        ids = np.empty(read.symbols.size * n + 1, np.int32)
        ends = np.zeros(read.segment_ends.size + 1, np.int64)
        return cls(ids, ends, read.numbers, read.text_ends)

    def take(self, mark: np.ndarray) -> FoundNgrams:
        """Replace the nodes by their marks; marks below 0 are left out."""
        take_marks(self.ids, self.ends, mark)
        return self.fitting()

    def fitting(self) -> FoundNgrams:
        """Release unused room, except one id that kernels prefetch; returns self."""
        self.ids.resize(int(self.ends[-1]) + 1, refcheck=False)
        return self


class _Learner:
    """The trie of the n-grams of some blocks of texts, while it grows."""

    def __init__(self, reader: Reader, totals: bool, n_bytes: int) -> None:
        words = reader.words
        if words is not None:  # a copy with the stop words: each learner learns words
            words = Words(words.letters, words.ends, words.n_stop)
        self.reader = reader._replace(words=words)
        self.table = table_of(min(max(n_bytes >> 4, 1 << 10), 1 << 20))
        self.roots = np.zeros((_ROOTS, 2), np.uint64)
        n = len(self.table) // 2
        # By node: parent, symbol, the last text that has the n-gram and the number of
        # such texts, occurrences.
        shapes = n, n, (n, 2), n if totals else 0
        kinds = np.int32, np.uint32, np.int32, np.int64
        self.nodes = [np.zeros(shape, kind) for shape, kind in zip(shapes, kinds)]
        self.n_nodes = 1
        self.found: list[FoundNgrams] = []

    def learn(
        self, texts: Texts, parts: list[slice], keep: bool, stop: Any
    ) -> _Learner:
        """Count the n-grams of blocks of texts; keep: also store the found n-grams."""
        for part in parts:
            if stop[0]:  # set by another thread; the result is not used
                break
            read = self.reader.read(texts[part], learn=True)
            found = FoundNgrams.room(read, self.reader)
            given = *read[:2], *self.reader.lengths, True, *found[:2]
            most = N_TOGETHER * min(self.reader.longest, max(1, read.symbols.size))
            self._enter(find_ngrams, most, given, stop)
            count_texts(*found, part.start + 1, *self.nodes[2:])
            if keep:
                self.found.append(found.fitting())
        return self

    def merge(self, other: _Learner, stop: Any) -> None:
        """Add the counts of another learner of other texts."""
        parent, symbol, n_texts, totals = other.counts
        if self.reader.words is not None:
            assert other.reader.words is not None
            letters, ends = other.reader.words.learned
            number = np.append(np.uint32(0), self.reader.words.add(letters, ends[1:]))
            symbol = number[symbol]
        here = np.zeros_like(parent)
        self._enter(merge_nodes, 1, (parent, symbol, _NO_MARKS, here), stop)
        self.nodes[2][here, 1] += n_texts
        self.nodes[3][here[: totals.size]] += totals
        self.found += [found.take(here) for found in other.found]

    @property
    def counts(self) -> Any:
        """By node: parent, symbol, number of texts, occurrences."""
        parent, symbol, seen, totals = (a[: self.n_nodes] for a in self.nodes)
        return parent, symbol, np.ascontiguousarray(seen[:, 1]), totals

    def _enter(self, kernel: Any, most: int, given: tuple, stop: Any) -> None:
        """Call a kernel that adds nodes; tables grow by at least `most` nodes."""
        words = self.reader.words
        if words is not None and words.n_words >= len(self.roots):
            more = max(len(self.roots), words.n_words)
            self.roots = np.concatenate([self.roots, np.zeros((more, 2), np.uint64)])
        state = np.zeros(5, dtype=np.int64)
        state[N_IDS] = self.n_nodes
        while (
            kernel(*given, self.table, self.roots, *self.nodes[:2], state, stop) == FULL
        ):
            if state[N_IDS] + most > INT32_MAX:
                raise ValueError(
                    f"X has more than {INT32_MAX} different n-grams; use a smaller "
                    "ngram_range or fewer texts"
                )
            self.table = grown(self.table)
            self.nodes = [np.append(a, np.zeros_like(a), axis=0) for a in self.nodes]
        self.n_nodes = int(state[N_IDS])


class CountedNgrams(NamedTuple):
    """All n-grams of texts: nodes of a trie, parents before their children.

    n_texts: the number of texts that have the n-gram of a node, 0 for nodes that only
    lead to n-grams. totals: the occurrences, empty if they were not asked for. found:
    the nodes of the texts, by block, if they were asked for. rank: `Words.ranks`.
    """

    reader: Reader
    parent: np.ndarray
    symbol: np.ndarray
    n_texts: np.ndarray
    totals: np.ndarray
    found: list[FoundNgrams]
    rank: np.ndarray

    @classmethod
    def of(
        cls,
        reader: Reader,
        texts: Texts,
        *,
        totals: bool,
        keep: bool,
        n_jobs: int | None = None,
    ) -> CountedNgrams:
        every, size = list(blocks(texts)), int(texts.sizes.sum())
        with stop_flag() as stop, ThreadMap(n_jobs) as parallel:
            step = -(-len(every) // parallel.n_threads) or 1
            parts = [every[i : i + step] for i in range(0, len(every), step)]
            learners = parallel(
                lambda part: _Learner(reader, totals, size).learn(
                    texts, part, keep, stop
                ),
                parts or [[]],
            )
            learner = learners[0]
            for i in range(1, len(learners)):
                learner.merge(learners[i], stop)
                learners[i] = learner  # frees the merged learner
        words = learner.reader.words
        rank = np.empty(0, np.uint32) if words is None else words.ranks()
        counts: tuple = (*learner.counts, learner.found, rank)
        return cls(learner.reader, *counts)

    def sorted_nodes(self, keep: np.ndarray) -> np.ndarray:
        """The nodes of the mask `keep`, sorted by their n-grams as strings."""
        old, parent, symbol = self._leading_to(keep)
        if self.reader.words is not None:
            # A space sorts before all letters of words.
            symbol = self.rank[symbol]
        order = old[depth_first(parent, symbol)[0]]
        return order[keep[order]]

    def trie(self, nodes: np.ndarray) -> tuple[NgramTrie, list[FoundNgrams]]:
        """The trie whose columns are these nodes, and the columns of the texts."""
        keep = np.zeros(self.parent.size, dtype=bool)
        keep[nodes] = True
        old, parent, symbol = self._leading_to(keep)
        column = np.full(self.parent.size, -1, dtype=np.int32)
        column[nodes] = np.arange(nodes.size)
        found = [found.take(column) for found in self.found]
        words = self.reader.words
        if words is not None:
            used = np.flatnonzero(np.bincount(symbol[1:]))
            used = used[np.argsort(self.rank[used])]
            number = np.zeros(self.rank.size, dtype=np.uint32)
            number[used] = np.arange(words.n_stop + 1, words.n_stop + 1 + used.size)
            symbol = number[symbol]
            words = words.chosen(used)
        reader = self.reader._replace(words=words)
        return NgramTrie(reader, parent, symbol, column[old], nodes.size), found

    def _leading_to(self, keep: np.ndarray) -> tuple[np.ndarray, ...]:
        """The nodes of a mask and the nodes above; their new parents, and symbols."""
        live = keep.astype(np.uint8)
        live[0] = 1
        live_nodes(self.parent, live)
        old = np.flatnonzero(live)
        new = np.cumsum(live, dtype=np.int32) - np.int32(1)
        return old, new[self.parent[old]], self.symbol[old]


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
    """The n-grams that are columns, and their prefixes, as nodes of a trie.

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
        """The trie of given n-grams; words of a term are separated by one space."""
        column_of, split = {}, [tuple(term) for term in terms]
        if reader.words is not None:
            stop = reader.words.strings()
            tokens = [TOKEN.findall(term) for term in terms]
            # Other terms cannot be n-grams of a text; their columns stay empty.
            split = [
                tuple(found) if " ".join(found) == term else ()
                for found, term in zip(tokens, terms)
            ]
            split = [() if set(found) & set(stop) else found for found in split]
            words = sorted({word for found in split for word in found})
            reader = reader._replace(words=Words.of(stop, words))
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
        least, most = (0, 0x10FFFF) if words is None else (1, words.n_words)
        if self.symbol[1:].min(initial=least) < least or self.symbol.max() > most:
            raise ValueError(f"symbol must be from {least} to {most}")
        if (self.parent < 0).any() or (self.parent[1:] >= np.arange(1, n)).any():
            raise ValueError("parent must hold an earlier node for each node")

    @property
    def reader(self) -> Reader:
        return Reader(**self.settings)

    @cached_property
    def spaces(self) -> np.ndarray:
        """The columns of n-grams that are a single white space."""
        top = (self.parent == 0) & (self.column >= 0) & (self.reader.words is None)
        is_space = [chr(symbol).isspace() for symbol in self.symbol[top].tolist()]
        return self.column[top][np.array(is_space, dtype=bool)]

    @cached_property
    def tables(self) -> tuple[np.ndarray, np.ndarray]:
        """The slots of the nodes, and the slots of the children of the root."""
        n_roots = int(self.symbol.max()) + 1
        if self.reader.words is None:
            n_roots = min(n_roots, _ROOTS)
        tables = table_of(self.parent.size), np.zeros((n_roots, 2), np.uint64)
        here, state = np.zeros((3, self.parent.size), np.int32), np.zeros(5, np.int64)
        state[N_IDS] = 1
        merge_nodes(
            self.parent, self.symbol, self.column, here[0], *tables, here[1],
            here[2].view(np.uint32), state, np.zeros(1, np.int32),
        )  # fmt: skip
        if state[N_IDS] != self.parent.size:
            raise ValueError("symbol must differ between the children of a node")
        return tables

    def make_tables(self) -> None:
        """Make the tables that all threads read, before the threads begin."""
        _ = self.tables
        if self.reader.words is not None:
            _ = self.reader.words.known

    def names(self, columns: np.ndarray | None = None) -> list[str]:
        """The n-grams of some columns; None: of all."""
        columns = np.arange(self.n_columns) if columns is None else columns
        live = np.isin(self.column, columns)
        live[0] = True
        live_nodes(self.parent, live.view(np.uint8))
        new = np.cumsum(live, dtype=np.int32) - np.int32(1)
        nodes, words = np.flatnonzero(live)[1:], self.reader.words
        used, symbol = np.unique(self.symbol[nodes], return_inverse=True)
        if words is None:
            space, parts = "", [chr(s) for s in used.tolist()]
        else:
            space, parts = " ", words.strings(used)[words.n_stop :]
        of_node, names = [""], [""] * (self.n_columns + 1)
        arrays = new[self.parent[nodes]], symbol, self.column[nodes]
        for p, s, c in zip(*(array.tolist() for array in arrays)):
            name = of_node[p] + space + parts[s] if p else parts[s]
            of_node.append(name)
            names[c] = name  # c = -1, the last entry, for nodes that are not columns
        return [names[c] for c in columns.tolist()]

    def found(self, texts: Texts, stop: np.ndarray) -> FoundNgrams:
        """The columns of the n-grams of some texts."""
        reader = self.reader
        read = reader.read(texts)
        found = FoundNgrams.room(read, reader)
        find_ngrams(
            *read[:2], *reader.lengths, False, *found[:2], *self.tables, *_NO_NODES,
            np.zeros(5, np.int64), stop,
        )  # fmt: skip
        return found

    def block_rows(
        self,
        found: FoundNgrams,
        stop: np.ndarray,
        *,
        idf: np.ndarray | None = None,
        logarithm: bool = False,
        norm: str | None = None,
        dtype: Any = np.float64,
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Data, indices and ends of the rows of some texts; the indices are sorted."""
        weights, n = np.empty(0) if idf is None else idf, self.n_columns
        if weights.size not in (0, n):
            raise ValueError(f"idf must have {n} entries, got {weights.size}")
        room = int(found.ends[-1])
        if found.numbers.size:
            room = int(np.diff(found.ends)[found.numbers - np.uint32(1)].sum())
        n_texts = found.text_ends.size
        room = min(room, n_texts * n)
        indices, data = np.empty(room + 2, np.int32), np.empty(room, dtype)
        bits = [np.zeros((n >> shift) + 1, np.uint64) for shift in (6, 12, 18)]
        ends = np.empty(n_texts, dtype=np.int64)
        fill_rows(
            *found, weights, logarithm, NORMS[norm], np.zeros(n, np.int32), *bits,
            ends, indices, data, stop,
        )  # fmt: skip
        end = int(ends[-1]) if n_texts else 0
        # The rest of the room is given back.
        data.resize(end, refcheck=False)
        indices.resize(end, refcheck=False)
        return data, indices, ends


class Columns(NamedTuple):
    """The columns of a trie, the options of their values, and a factor of the values.

    options: arguments of `NgramTrie.block_rows`. found: the columns of the texts, by
    block, if they are known; each block is freed once it is used.
    """

    trie: NgramTrie
    options: dict[str, Any]
    factor: float = 1.0
    found: list[Any] | None = None

    def block_rows(
        self, texts: Texts, i: int, part: slice, stop: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Data, indices and ends of the rows of block i."""
        if self.found is None:
            found = self.trie.found(texts[part], stop)
        else:
            found, self.found[i] = self.found[i], None
        data, indices, ends = self.trie.block_rows(found, stop, **self.options)
        if self.factor != 1:
            data *= self.factor
        return data, indices, ends


def side_by_side(
    parts: Sequence[Columns], texts: Texts, n_jobs: int | None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Data, indices and indptr of the rows of texts, with the columns of all parts."""
    for part in parts:
        if part.found is None:
            part.trie.make_tables()
    every = list(enumerate(blocks(texts)))
    dtype = np.result_type(*(part.options.get("dtype", np.float64) for part in parts))
    data, indices = np.empty(0, dtype), np.empty(0, np.int32)
    indptr = np.zeros(len(texts) + 1, dtype=np.int64)
    row = at = 0

    def block(numbered: tuple[int, slice]) -> tuple[np.ndarray, ...]:
        found = [part.block_rows(texts, *numbered, stop) for part in parts]
        if len(found) == 1:
            return found[0]
        sizes = np.diff([ends for _, _, ends in found], prepend=0)
        numbers = np.arange(len(parts), dtype=np.int16)
        owner = np.repeat(np.tile(numbers, sizes.shape[1]), sizes.T.ravel())
        values, columns = np.empty(owner.size, dtype), np.empty(owner.size, np.int32)
        first = 0
        for number, part, (some, index, _) in zip(numbers, parts, found):
            own = owner == number
            values[own], columns[own] = some, index + np.int32(first)
            first += part.trie.n_columns
        return values, columns, sizes.sum(axis=0).cumsum()

    with stop_flag() as stop, ThreadMap(n_jobs) as parallel:
        # With one thread only one block of rows is in memory.
        step = _AT_ONCE * parallel.n_threads if parallel.n_threads > 1 else 1
        for first in range(0, len(every), step):
            batch = every[first : first + step]
            done = parallel(block, batch)
            end = at + sum(int(ends[-1]) for _, _, ends in done)
            n = batch[-1][1].stop
            if end > data.size:
                # With room for the other texts, if they are like these. Large arrays
                # grow without a copy, so that the peak is about the size of the matrix.
                room = end if n == len(texts) else int(1.05 * end * len(texts) / n)
                if len(every) == 1:
                    data, indices, _ = done[0]
                elif at == 0:  # without writing zeros
                    data, indices = np.empty(room, dtype), np.empty(room, np.int32)
                data.resize(room, refcheck=False)
                indices.resize(room, refcheck=False)
            for some, columns, ends in done:
                stop_at = at + some.size
                data[at:stop_at], indices[at:stop_at] = some, columns
                indptr[row + 1 : row + 1 + ends.size] = ends + at
                row, at = row + ends.size, stop_at
            done.clear()  # before the next blocks are made
    data.resize(at, refcheck=False)
    indices.resize(at, refcheck=False)
    pointer = np.int32 if at <= INT32_MAX else np.int64
    return (
        data,
        indices.astype(pointer, copy=False),
        indptr.astype(pointer, copy=False),
    )
