"""The context tree: nodes, pairs and counts as flat arrays."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._checks import INT32_MAX
from . import _tree_fast as _fast


class Histories(NamedTuple):
    """n samples as offsets into one flat array of symbol ids.

    The k-th most recent symbol of sample i is ``flat[offset[i] - k]``; an id of
    -1 (or the start of the array) ends the history, and ``length[i]`` says how
    many symbols are read.
    """

    flat: np.ndarray  # (n_tokens,) int32
    offset: np.ndarray  # (n_samples,) int64
    length: np.ndarray  # (n_samples,) int32

    def check(self, n_symbols=None):
        """ValueError unless every read stays within `flat` and below n_symbols."""
        flat, offset, length = self
        if not (flat.dtype == np.int32 and flat.ndim == 1 and flat.flags.c_contiguous):
            raise ValueError("histories.flat must be a contiguous 1-D int32 array")
        if offset.shape != length.shape or offset.ndim != 1:
            raise ValueError("histories.offset and .length must be of one length")
        if offset.size and (
            length.min() < 0 or (offset - length).min() < 0 or offset.max() > flat.size
        ):
            raise ValueError("a history reaches outside of histories.flat")
        if n_symbols is not None and flat.size and flat.max() >= n_symbols:
            raise ValueError(
                f"histories hold the symbol id {flat.max()}, but n_symbols={n_symbols}"
            )

    @classmethod
    def from_tokens(cls, tokens, positions, max_depth):
        """Histories of the given positions of one token stream."""
        flat = np.ascontiguousarray(tokens, dtype=np.int32)
        offset = np.ascontiguousarray(positions, dtype=np.int64)
        if offset.size and not (0 <= offset.min() and offset.max() <= flat.size):
            raise ValueError("positions must lie within the token stream")
        length = np.empty(offset.size, dtype=np.int32)
        _fast.history_lengths(flat, offset, max_depth, length)
        return cls(flat, offset, length)

    @classmethod
    def from_windows(cls, windows, max_depth):
        """Histories of the rows of a 2-D array, last column most recent.

        A sliding-window view is read in place: its rows overlap in one
        underlying array, which is used as the token stream.
        """
        n, width = windows.shape
        depth = min(max_depth, width)
        base = sliding_base(windows)
        if base is not None:
            flat, stride, start = base, 1, 0
        else:
            # The oldest columns are not read when max_depth < width.
            flat = np.ascontiguousarray(windows[:, width - depth :]).ravel()
            stride, start, width = depth, 0, depth
        flat = np.ascontiguousarray(flat, dtype=np.int32)
        offset = np.arange(n, dtype=np.int64) * stride + (start + width)
        length = np.empty(n, dtype=np.int32)
        _fast.history_lengths(flat, offset, depth, length)
        return cls(flat, offset, length)

    def select(self, keep):
        """The samples for which the boolean array `keep` holds."""
        return Histories(
            self.flat,
            np.ascontiguousarray(self.offset[keep]),
            np.ascontiguousarray(self.length[keep]),
        )


def sliding_base(windows):
    """The 1-D array below a sliding-window view, or None.

    ``sliding_window_view(tokens, w)`` has equal strides on both axes; its rows
    are then read out of `tokens` without making the (n, w) copy.
    """
    n, width = windows.shape
    item = windows.itemsize
    if n < 2 or width < 2 or windows.strides != (item, item):
        return None
    return np.lib.stride_tricks.as_strided(
        windows, shape=(n + width - 1,), strides=(item,), writeable=False
    )


class ContextTree:
    r"""Contexts seen in training, and which symbols followed them how often.

    A *node* is a context; its parent is the context without its **oldest**
    symbol, so children extend into the past. A *pair* (n, y) says that class y
    followed context n; its parent pair is (parent(n), y). With T(n, y) the
    weight of the samples whose longest context is n,

    .. math::
        t(n) = \sum_y T(n, y), \qquad
        c(n, y) = T(n, y) + \sum_{h \in children(n)} c(h, y).

    Trees are built by the class methods; the attributes are the fitted state of
    every estimator that uses contexts, all flat arrays.

    Attributes
    ----------
    parent : int32 ndarray of shape (n_nodes,)
        ``parent[0] == -1`` is the root, the empty context. Nodes are numbered
        level by level and lexicographically within a level (most recent symbol
        first), so parents come before children, siblings are contiguous and
        sorted by symbol, and the nodes below one branch are contiguous on every
        level.
    symbol : int32 ndarray of shape (n_nodes,)
        Id of the symbol that the node adds to its parent's context (in a
        collapsed tree: the most recent of them). ``symbol[0] == -1``.
    level_ptr : int64 ndarray of shape (n_levels + 1,)
        Nodes of level k are ``level_ptr[k]:level_ptr[k + 1]``.
    child_ptr : int32 ndarray of shape (n_nodes + 1,)
        Children of node n are the nodes ``child_ptr[n]:child_ptr[n + 1]``.
    span : int32 ndarray of shape (n_nodes,) or None
        Number of suffixes merged in each node of a collapsed tree (root: 1);
        None for a trie, where all are 1.
    edge_text, edge_pos : ndarrays or None
        In a collapsed tree the symbols that node n adds are
        ``edge_text[edge_pos[n] - j]`` for j < ``span[n]``, most recent first.
    n_symbols : int
        Context symbols have ids 0 ... n_symbols - 1.
    pair_ptr : int32 ndarray of shape (n_nodes + 1,) or None
        Pairs of node n are ``pair_ptr[n]:pair_ptr[n + 1]``; None when the tree
        was built without targets. The root has all classes, seen or not.
    target : int32 ndarray of shape (n_pairs,)
        Class of each pair, sorted within a node.
    pair_parent : int32 ndarray of shape (n_pairs,)
        The parent pair; -1 at the root.
    count : float64 ndarray of shape (n_pairs,)
        c(n, y).
    node_weight : float64 ndarray of shape (n_nodes,)
        t(n), the weight of the samples that end at the node.
    n_classes : int
        Number of classes V.
    """

    def __init__(self, parent, symbol, level_ptr, n_symbols):
        if parent.size == 0 or parent[0] != -1:
            raise ValueError("parent must begin with the root, -1")
        if (parent[1:] < 0).any() or (
            parent[1:] >= np.arange(1, parent.size, dtype=np.int64)
        ).any():
            raise ValueError("parent: every node but the root needs an earlier parent")
        self.parent = parent
        self.symbol = symbol
        self.level_ptr = level_ptr
        self.n_symbols = int(n_symbols)
        self.child_ptr = np.empty(parent.size + 1, dtype=np.int32)
        _fast.count_children(parent, self.child_ptr)
        self.span = None
        self.edge_text = None
        self.edge_pos = None
        self.pair_ptr = None
        self.target = None
        self.pair_parent = None
        self.count = None
        self.node_weight = None
        self.n_classes = None

    # ------------------------------------------------------------- building

    @classmethod
    def from_histories(cls, histories, n_symbols, *, collapse=False):
        """Nodes of the contexts of the samples.

        Parameters
        ----------
        histories : Histories
            The samples; contexts are as long as their ``length`` says.
        n_symbols : int
            Symbol ids are below n_symbols.
        collapse : bool, default=False
            Merge a context with its only extension when every occurrence has
            that extension (suffix tree); the trie otherwise.

        Returns
        -------
        tree : ContextTree
        terminal : int32 ndarray of shape (n_samples,)
            The deepest node of each sample.
        """
        histories.check(n_symbols)
        flat, offset, length = histories
        n = offset.size
        if n > INT32_MAX - 1:
            raise ValueError(
                f"{n} samples exceed the {INT32_MAX - 1} that one tree can hold; "
                "split the corpus"
            )
        depth = int(length.max()) if n else 0
        order = np.empty(n, dtype=np.int32)
        lcp = np.empty(n, dtype=np.int32)
        terminal = np.empty(n, dtype=np.int32)
        scratch = np.empty(max(n, n_symbols + 1), dtype=np.int32)
        bucket = np.empty(n_symbols + 1, dtype=np.int32)
        _fast.sort_contexts(flat, offset, length, depth, bucket, order, scratch)
        _fast.common_prefixes(flat, offset, length, order, lcp)
        if collapse:
            tree = cls._suffix_tree(histories, order, lcp, terminal, n_symbols)
            return tree, terminal

        per_level = np.zeros(depth + 1, dtype=np.int64)
        per_level[0] = 1
        _fast.count_trie_nodes(length, order, lcp, per_level)
        level_ptr = np.concatenate([[0], np.cumsum(per_level)])
        n_nodes = _check_size(level_ptr[-1], "contexts")
        parent = np.empty(n_nodes, dtype=np.int32)
        symbol = np.empty(n_nodes, dtype=np.int32)
        last = np.empty(depth + 1, dtype=np.int32)
        _fast.fill_trie_nodes(
            flat, offset, length, order, lcp, level_ptr, last, parent, symbol, terminal
        )
        return cls(parent, symbol, level_ptr, n_symbols), terminal

    @classmethod
    def _suffix_tree(cls, histories, order, lcp, terminal, n_symbols):
        flat, offset, length = histories
        n = offset.size
        capacity = 2 * n + 1
        _check_size(capacity, "contexts")
        parent, depth, first = (np.empty(capacity, dtype=np.int32) for _ in range(3))
        stack = np.empty((2, int(length.max(initial=0)) + 1), dtype=np.int32)
        n_nodes = _fast.collapse_nodes(
            length, order, lcp, stack[0], stack[1], parent, depth, first, terminal
        )
        parent, depth, first = parent[:n_nodes], depth[:n_nodes], first[:n_nodes]
        level = np.empty(n_nodes, dtype=np.int32)
        by_depth = np.argsort(depth, kind="stable").astype(np.int32)
        _fast.node_levels(parent, by_depth, level)
        canonical = np.lexsort((first, level))
        rank = np.empty(n_nodes, dtype=np.int32)
        rank[canonical] = np.arange(n_nodes, dtype=np.int32)
        level_ptr = np.concatenate([[0], np.cumsum(np.bincount(level))])
        old_parent = parent[canonical]
        new_parent = np.where(old_parent < 0, np.int32(-1), rank[old_parent])
        above = np.where(old_parent < 0, -1, depth[old_parent])  # root: span 1
        span = (depth[canonical] - above).astype(np.int32)
        sample = order[first[canonical]] if n else np.zeros(1, dtype=np.int32)
        position = (offset[sample] if n else np.zeros(1, np.int64)) - above - 1
        symbol = np.full(n_nodes, -1, dtype=np.int32)
        symbol[1:] = flat[position[1:]]
        tree = cls(new_parent, symbol, level_ptr, n_symbols)
        tree.span = span
        # The text is the cheaper of the two stores when windows overlap.
        if flat.size <= span.sum():
            tree.edge_text, tree.edge_pos = flat.copy(), position
        else:
            stop = np.cumsum(span, dtype=np.int64)
            owner = np.repeat(np.arange(n_nodes), span)
            back = stop[owner] - 1 - np.arange(stop[-1])  # span - 1 ... 0
            source = position[owner] - back
            source[0] = 0  # the root adds no symbol
            tree.edge_text = flat[source] if flat.size else np.zeros(1, np.int32)
            tree.edge_pos = stop - 1
        tree.edge_pos = np.ascontiguousarray(tree.edge_pos, dtype=np.int64)
        terminal[:] = rank[terminal]
        return tree

    @classmethod
    def from_paths(cls, X):
        """Read the nodes back from a path matrix.

        Parameters
        ----------
        X : CSR matrix of shape (n_samples, n_columns)
            Row = path of a sample (see `SuffixTreeVectorizer`), indices sorted.

        Returns
        -------
        tree : ContextTree
            Nodes are the columns that occur; symbols are numbered by column, so
            they only tell siblings apart.
        terminal : int32 ndarray of shape (n_samples,)
        column_to_node : int32 ndarray of shape (n_columns,)
            -1 for a column that does not occur.

        Raises
        ------
        ValueError
            If a row is not a path of one tree.
        """
        indptr, indices, data = _path_arrays(X)
        n_columns = X.shape[1]
        # A column is a context of training, and what follows takes memory for each.
        if n_columns > 10_000_000 + 100 * data.size:
            raise ValueError(
                f"X has {n_columns} columns for {data.size} entries: a path matrix has "
                "one for each context that occurs; fit SuffixTreeVectorizer on these "
                "samples themselves"
            )
        parent = np.full(n_columns, -2, dtype=np.int32)
        value = np.zeros(n_columns)
        terminal = np.empty(X.shape[0], dtype=np.int32)
        _raise_path_error(
            *_fast.read_paths(indptr, indices, data, parent, value, terminal)
        )
        used = np.flatnonzero(parent > -2).astype(np.int32)
        if used.size == 0:  # no sample: the tree of the root alone
            used = np.zeros(1, dtype=np.int32)
            parent[0], value[0] = -1, 1.0
        level = np.full(n_columns, -1, dtype=np.int32)
        _fast.node_levels(parent, used, level)  # parents have smaller columns
        # Canonical order level by level: by the parent's new number, then column.
        column_to_node = np.full(n_columns, -1, dtype=np.int32)
        columns = np.empty(used.size, dtype=np.int32)
        level_ptr = [0]
        by_level = used[np.argsort(level[used], kind="stable")]
        bounds = np.concatenate([[0], np.cumsum(np.bincount(level[used]))])
        for k in range(bounds.size - 1):
            here = by_level[bounds[k] : bounds[k + 1]]
            if k:
                here = here[np.argsort(column_to_node[parent[here]], kind="stable")]
            columns[bounds[k] : bounds[k + 1]] = here
            column_to_node[here] = np.arange(bounds[k], bounds[k + 1], dtype=np.int32)
            level_ptr.append(bounds[k + 1])
        new_parent = np.full(used.size, -1, dtype=np.int32)
        new_parent[1:] = column_to_node[parent[columns[1:]]]
        symbol = columns.copy()
        symbol[0] = -1
        tree = cls(new_parent, symbol, np.asarray(level_ptr, np.int64), n_columns)
        span = value[columns]
        if np.any(span != np.round(span)) or span.max() > INT32_MAX:
            column = columns[np.argmax(span != np.round(span))]
            raise ValueError(
                f"X is not a path matrix: column {column} has the value "
                f"{value[column]:g}, which is not a number of suffixes. Pass the "
                "sparse output of SuffixTreeVectorizer unchanged (unscaled)."
            )
        if np.any(span != 1):
            tree.span = span.astype(np.int32)
        return tree, column_to_node[terminal], column_to_node

    def count_pairs(self, terminal, target, n_classes, sample_weight=None):
        """Add the pairs and their counts, from each sample's deepest node.

        Parameters
        ----------
        terminal : int32 array of shape (n_samples,)
        target : int32 array of shape (n_samples,)
            Class ids.
        n_classes : int
        sample_weight : float64 array of shape (n_samples,), default=None
            Positive weights; leave out samples of weight 0 beforehand.

        Returns
        -------
        self : ContextTree
        """
        n = terminal.size
        weight = np.ones(n) if sample_weight is None else sample_weight
        target = np.asarray(target)
        if target.shape != (n,) or np.shape(weight) != (n,):
            raise ValueError("terminal, target and sample_weight differ in length")
        for name, values, size in (
            ("terminal", terminal, self.n_nodes),
            ("target", target, n_classes),
        ):
            if n and not (values.min() >= 0 and values.max() < size):
                raise ValueError(f"{name} holds an id outside of 0 ... {size - 1}")
        node = np.array(terminal, dtype=np.int32)  # walks up to the root
        target = np.ascontiguousarray(target, dtype=np.int32)
        weight = np.ascontiguousarray(weight, dtype=np.float64)
        self.node_weight = np.bincount(node, weight, minlength=self.n_nodes)
        by_target = np.empty(n, dtype=np.int32)
        _fast.sort_targets(target, np.empty(n_classes, dtype=np.int32), by_target)
        pair = np.full(n, -1, dtype=np.int32)
        order = np.empty(n, dtype=np.int32)
        targets, counts, parents, per_node = [], [], [], []
        below = np.empty(0, dtype=np.int32)
        for k in range(self.n_levels - 1, 0, -1):
            first, last = int(self.level_ptr[k]), int(self.level_ptr[k + 1])
            n_here = int(np.count_nonzero(node >= first))
            bucket = np.empty(last - first + 1, dtype=np.int32)
            of_node = np.zeros(last - first, dtype=np.int32)
            target_here = np.empty(n_here, dtype=np.int32)
            count_here = np.empty(n_here)
            n_pairs = _fast.level_pairs(
                first, by_target, target, weight, self.parent, node, pair,
                bucket, order, of_node, target_here, count_here, below,
            )  # fmt: skip
            parents.append(below)
            below = np.empty(n_pairs, dtype=np.int32)
            targets.append(target_here[:n_pairs].copy())
            counts.append(count_here[:n_pairs].copy())
            per_node.append(of_node)
        root_count = np.zeros(n_classes)
        _fast.root_pairs(target, weight, pair, root_count, below)
        parents.append(below)
        targets.append(np.arange(n_classes, dtype=np.int32))
        counts.append(root_count)
        per_node.append(np.array([n_classes], dtype=np.int32))

        # Levels were met from the deepest up; parents[j] points into the level
        # above, whose first pair is the sum of the sizes of the levels before.
        sizes = [t.size for t in reversed(targets)]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        _check_size(starts[-1], "(context, class) pairs")
        self.pair_parent = np.empty(starts[-1], dtype=np.int32)
        self.pair_parent[:n_classes] = -1
        for k, below in enumerate(reversed(parents)):
            # `below` holds the parents (level k) of the pairs of level k + 1.
            if below.size:
                self.pair_parent[starts[k + 1] : starts[k + 2]] = below + starts[k]
        self.target = np.concatenate(targets[::-1])
        self.count = np.concatenate(counts[::-1])
        self.pair_ptr = np.zeros(self.n_nodes + 1, dtype=np.int32)
        np.cumsum(np.concatenate(per_node[::-1]), out=self.pair_ptr[1:])
        self.n_classes = int(n_classes)
        return self

    def expand(self):
        """The trie that a collapsed tree stands for; the tree itself for a trie.

        Every suffix merged in a node becomes a node again, with the same pairs and
        counts; samples end at the longest of them.

        Returns
        -------
        trie : ContextTree
        index : int32 ndarray of shape (n_trie_nodes,)
            Suffix j (1 ... ``span[n]``) of node n is the trie's node
            ``index[offset[n] + j - 1]``, with `offset` the exclusive running sum of
            the spans.
        """
        if self.span is None:
            return self, np.arange(self.n_nodes, dtype=np.int32)
        span, depth = self.span, self.depths()
        start = depth - span
        offset = np.cumsum(span, dtype=np.int64) - span
        size = _check_size(int(span.sum()), "contexts")
        parent, source = (np.full(size, -1, dtype=np.int32) for _ in range(2))
        rank, index = (np.zeros(size, dtype=np.int32) for _ in range(2))
        newest = np.zeros(self.n_nodes, dtype=np.int32)  # deepest suffix so far
        level_ptr = [0, 1]
        source[0] = 0
        for d in range(1, int(depth.max()) + 1):
            here = np.flatnonzero((start < d) & (d <= depth)).astype(np.int32)
            first = start[here] + 1 == d
            above = newest[np.where(first, self.parent[here], here)]
            # Siblings come in the order of their nodes: sorted by symbol.
            order = np.argsort(above, kind="stable")
            here, above = here[order], above[order]
            ids = slice(level_ptr[-1], level_ptr[-1] + here.size)
            parent[ids], source[ids] = above, here
            rank[ids] = d - start[here] - 1
            newest[here] = np.arange(ids.start, ids.stop, dtype=np.int32)
            index[offset[here] + rank[ids]] = newest[here]
            level_ptr.append(ids.stop)
        symbol = self.symbol[source].copy()
        if self.edge_text is not None:
            symbol[1:] = self.edge_text[self.edge_pos[source[1:]] - rank[1:]]
        trie = ContextTree(
            parent, symbol, np.asarray(level_ptr, np.int64), self.n_symbols
        )
        if self.pair_ptr is None:
            return trie, index
        n_pairs = np.diff(self.pair_ptr)[source]
        trie.pair_ptr = np.zeros(size + 1, dtype=np.int32)
        _check_size(int(n_pairs.sum(dtype=np.int64)), "(context, class) pairs")
        np.cumsum(n_pairs, out=trie.pair_ptr[1:])
        within = np.arange(trie.pair_ptr[-1], dtype=np.int32)
        within -= np.repeat(trie.pair_ptr[:-1], n_pairs)
        old = np.repeat(self.pair_ptr[source], n_pairs) + within
        trie.target = self.target[old]
        trie.count = self.count[old]
        # The first suffix of a node hangs on its parent's last one, by the parent
        # pairs; the others on the suffix before, pair by pair.
        above = self.pair_ptr[self.parent[source]]  # of the root: not used
        up = np.where(
            np.repeat(rank == 0, n_pairs),
            self.pair_parent[old] - np.repeat(above, n_pairs),
            within,
        )
        trie.pair_parent = np.repeat(trie.pair_ptr[parent], n_pairs) + up
        trie.pair_parent[: self.n_classes] = -1
        trie.pair_parent = trie.pair_parent.astype(np.int32, copy=False)
        trie.node_weight = np.where(
            rank + 1 == span[source], self.node_weight[source], 0.0
        )
        trie.n_classes = self.n_classes
        return trie, index

    def structure(self):
        """The nodes alone, without pairs and counts; arrays are shared."""
        tree = ContextTree.__new__(ContextTree)
        vars(tree).update(vars(self))
        tree.pair_ptr = tree.target = tree.pair_parent = None
        tree.count = tree.node_weight = tree.n_classes = None
        return tree

    # -------------------------------------------------------------- reading

    @property
    def n_nodes(self) -> int:
        return self.parent.size

    @property
    def n_pairs(self) -> int:
        return 0 if self.target is None else self.target.size

    @property
    def n_levels(self) -> int:
        return self.level_ptr.size - 1

    def levels(self):
        """Level of each node: the number of edges above it."""
        return np.repeat(
            np.arange(self.n_levels, dtype=np.int32), np.diff(self.level_ptr)
        )

    def spans(self):
        """Number of suffixes that each node stands for (1 in a trie)."""
        if self.span is not None:
            return self.span
        return np.ones(self.n_nodes, dtype=np.int32)

    def depths(self):
        """Length of the (longest) context that each node stands for."""
        if self.span is None:
            return self.levels()
        depth = np.empty(self.n_nodes, dtype=np.int32)
        depth[0] = 0
        for k in range(1, self.n_levels):
            here = slice(self.level_ptr[k], self.level_ptr[k + 1])
            depth[here] = depth[self.parent[here]] + self.span[here]
        return depth

    def find(self, histories):
        """Deepest known node of each sample.

        Returns
        -------
        node : int32 ndarray of shape (n_samples,)
        matched : int32 ndarray of shape (n_samples,)
            How many of the suffixes merged in the node were matched; 1 in a
            trie.
        """
        histories.check()
        flat, offset, length = histories
        node = np.empty(offset.size, dtype=np.int32)
        matched = np.empty(offset.size, dtype=np.int32)
        text, pos = self.edge_text, self.edge_pos
        if self.span is None:
            text, pos = np.zeros(1, np.int32), np.zeros(self.n_nodes, np.int64)
        _fast.find_collapsed(
            flat, offset, length, self.symbol, self.child_ptr, self.spans(),
            text, pos, node, matched,
        )  # fmt: skip
        return node, matched

    def find_paths(self, X, column_to_node):
        """Deepest known node of each row of a path matrix; see `find`."""
        indptr, indices, data = _path_arrays(X)
        node = np.empty(X.shape[0], dtype=np.int32)
        matched = np.empty(X.shape[0], dtype=np.int32)
        _raise_path_error(
            *_fast.find_paths(
                indptr,
                indices,
                data,
                column_to_node,
                self.parent,
                self.spans(),
                node,
                matched,
            )
        )
        return node, matched

    def paths(self, node, matched):
        """CSR arrays (data, indices, indptr) of the paths to the given nodes."""
        level = self.levels()
        indptr = np.zeros(node.size + 1, dtype=np.int64)
        np.cumsum(level[node] + 1, out=indptr[1:])
        indices = np.empty(indptr[-1], dtype=np.int32)
        data = np.empty(indptr[-1])
        _fast.fill_paths(
            self.parent, level, self.spans(), node, matched, indptr, indices, data
        )
        if indptr[-1] <= INT32_MAX:
            indptr = indptr.astype(np.int32)
        return data, indices, indptr

    def contexts(self, nodes=None):
        """Symbol ids of contexts, oldest first: a list of int arrays."""
        nodes = range(self.n_nodes) if nodes is None else nodes
        out = []
        for node in nodes:
            parts = []
            x = int(node)
            while x > 0:
                if self.span is None:
                    parts.append([self.symbol[x]])
                else:
                    pos = self.edge_pos[x]
                    parts.append(self.edge_text[pos - self.span[x] + 1 : pos + 1])
                x = self.parent[x]
            out.append(np.concatenate(parts) if parts else np.empty(0, np.int32))
        return out

    def terminal_counts(self):
        """T(n, y): weight of class y over the samples that end at the node."""
        terminal = np.empty(self.n_pairs)
        _fast.terminal_counts(self.pair_parent, self.count, terminal, self.n_classes)
        return terminal

    def __repr__(self):
        kind = "trie" if self.span is None else "collapsed tree"
        return (
            f"<ContextTree: {kind}, {self.n_nodes} nodes on {self.n_levels} levels, "
            f"{self.n_pairs} pairs>"
        )


def _check_size(size, what):
    if size > INT32_MAX:
        raise ValueError(
            f"the tree would hold {size} {what}, more than the {INT32_MAX} that "
            "32-bit ids can number; lower max_depth, use collapse=True or split "
            "the corpus"
        )
    return int(size)


def _path_arrays(X):
    if X.nnz > INT32_MAX:
        raise ValueError(f"a path matrix may hold at most {INT32_MAX} entries")
    if not X.has_sorted_indices or not X.has_canonical_format:
        X = X.copy()
        X.sum_duplicates()
    return (
        np.ascontiguousarray(X.indptr, dtype=np.int32),
        np.ascontiguousarray(X.indices, dtype=np.int32),
        np.ascontiguousarray(X.data, dtype=np.float64),
    )


_PATH_ERRORS = {
    1: "does not start at column 0, the root",
    2: "is not a path: one of its columns stands below another column than elsewhere",
    3: (
        "has a value below 1, or another value than the same column elsewhere (rows "
        "that leave a merged edge half-way can be predicted but not trained on)"
    ),
    4: "has a value larger than the number of suffixes that its column merges",
}


def _raise_path_error(row, code):
    if code:
        raise ValueError(
            f"sparse X is not a path matrix: row {row} {_PATH_ERRORS[code]}. Pass the "
            "output of SuffixTreeVectorizer unchanged, or a dense array of context "
            "windows."
        )
