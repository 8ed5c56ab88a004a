"""The context tree: contexts as the nodes of flat arrays."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from .._checks import INT32_MAX, as_ids, check_ids, check_length, least_weight
from .._lazy import stored
from . import _tree_fast as _fast
from ._find_fast import find_nodes
from ._histories import Histories, HistoryColumns


class ContextTree:
    r"""Tree of contexts; a parent is the context without its oldest symbol.

    .. math::
        \mathrm{parent}(x_1 x_2 \ldots x_k) = x_2 \ldots x_k ,

    The root is the empty context. A `ContextTree` contains only the contexts. `Pairs`
    contains the classes that follow each context. Numbers such as counts are separate
    arrays. A tree is immutable and is shared by training data and fitted models.

    Parameters
    ----------
    parent : array-like of shape (n_nodes,)
        Parent of each node, ``parent[0] = -1`` for the root. Nodes are numbered
        level by level and, within a level, in the order of their parents: `parent`
        never falls.

    symbol : array-like of shape (n_nodes,)
        Id of the oldest symbol of each context, ``symbol[0] = -1``; rises strictly
        among siblings.

    n_symbols : int, default=None
        Symbol ids are below n_symbols. None: the largest + 1.

    Attributes
    ----------
    parent, symbol : int32 ndarray of shape (n_nodes,)
        As given. In a collapsed tree `symbol` is the most recent of the symbols that
        the node adds to its parent's context.

    level_ptr : int64 ndarray of shape (n_levels + 1,)
        Nodes of level k are ``level_ptr[k]:level_ptr[k + 1]``.

    child_ptr : int32 ndarray of shape (n_nodes + 1,)
        Children of node n are the nodes ``child_ptr[n]:child_ptr[n + 1]``.

    n_symbols : int
        Number of symbols.

    span : int32 ndarray of shape (n_nodes,) or None
        Number of contexts merged in each node of a collapsed tree (root: 1);
        None for a trie, where all are 1.

    edge_text, edge_pos : ndarray or None
        In a collapsed tree the symbols that node n adds are
        ``edge_text[edge_pos[n] - j]`` for j < ``span[n]``, most recent first.

    Raises
    ------
    ValueError
        If the arrays are not a tree in this order; the message has the first fault.

    See Also
    --------
    Pairs : The classes that followed the contexts.
    SuffixTreeVectorizer : Transformer that uses the tree.

    Examples
    --------
    The contexts "", "a", "b", "ba" (a is symbol 0, b is symbol 1):

    >>> from sklstruct.context_tree import ContextTree
    >>> tree = ContextTree([-1, 0, 0, 1], [-1, 0, 1, 1])
    >>> [c.tolist() for c in tree.contexts()]
    [[], [0], [1], [1, 0]]
    >>> tree.find_windows([[1, 0], [0, 1]]).tolist()
    [3, 2]
    """

    def __init__(
        self, parent: np.ndarray, symbol: np.ndarray, n_symbols: int | None = None
    ):
        parent = as_ids("parent", parent, 1)
        symbol = as_ids("symbol", symbol, 1)
        n = parent.size
        if n == 0:
            raise ValueError("parent is empty: a tree has at least its root")
        check_length("symbol", symbol, n, "one per node")
        if parent[0] != -1 or symbol[0] != -1:
            raise ValueError("parent[0] and symbol[0] must be -1: node 0 is the root")
        smallest = _fast.largest_symbol(parent, symbol) + 1
        if smallest < 0:
            raise ValueError(_fault(parent, symbol))
        if n_symbols is None:
            n_symbols = smallest
        elif n_symbols < smallest:
            raise ValueError(
                f"n_symbols={n_symbols} is below the largest symbol id of the tree + "
                f"1, {smallest}"
            )
        self._set(parent, symbol, None, n_symbols)

    def _set(self, parent, symbol, level_ptr, n_symbols):
        """Set all attributes, from valid arrays."""
        self.parent, self.symbol = parent, symbol
        self.n_symbols = int(n_symbols)
        if level_ptr is None:
            ends = [0, 1]
            while ends[-1] < parent.size:
                # Parents never fall.
                ends.append(int(np.searchsorted(parent, np.int32(ends[-1]))))
            level_ptr = np.array(ends, dtype=np.int64)
        self.level_ptr = level_ptr
        self.span = self.edge_text = self.edge_pos = None
        self.expanded: Any = None  # the result of `expand_tree`, after its first call

    # ------------------------------------------------------------- building

    @classmethod
    def from_histories(
        cls,
        histories: Histories | HistoryColumns,
        n_symbols: int,
        *,
        weight: np.ndarray | None = None,
        min_count: int = 1,
    ) -> tuple[ContextTree, np.ndarray]:
        """Trie of the contexts of the samples.

        Memory is proportional to the number of samples and of kept contexts.

        Parameters
        ----------
        histories : Histories or HistoryColumns
            The samples.

        n_symbols : int
            Symbol ids are below n_symbols.

        weight : float64 ndarray of shape (n_samples,), default=None
            Positive weights; None: 1 each.

        min_count : int, default=1
            Contexts whose samples have a smaller total weight are left out, and so are
            their extensions. At least 1, which keeps all contexts that occur.

        Returns
        -------
        tree : ContextTree
            See `suffix_tree` for the collapsed tree.

        terminal : int32 ndarray of shape (n_samples,)
            The deepest node of each sample.
        """
        histories.check(n_symbols)
        n, depth = histories.n_samples, histories.depth
        check_samples(n)
        if weight is None:
            weight = np.empty(0)
        elif weight.shape != (n,):
            raise ValueError("histories and weight differ in length")
        weight = np.ascontiguousarray(weight, dtype=np.float64)
        least = least_weight(min_count)
        node = np.zeros(n, dtype=np.int32)
        parents, symbols = ([np.full(1, -1, dtype=np.int32)] for _ in range(2))
        level_ptr = [0, 1]
        work = np.empty((2, n), dtype=np.int32)
        for k in range(1, depth + 1):
            column = histories.column(k)
            if int(column.max(initial=-1)) >= n_symbols:
                raise ValueError(
                    f"histories hold the symbol id {column.max()}, but n_symbols="
                    f"{n_symbols}"
                )
            first, n_nodes = level_ptr[-2:]
            bucket = np.empty(max(n_symbols, n_nodes - first, 1), dtype=np.int32)
            n_here = _fast.sort_level(column, node, first, bucket, *work)
            parent, order = work[:, :n_here]
            n_new = _fast.next_level(
                column, weight, least, n_nodes, node, order, parent
            )
            if not n_new:
                break
            level_ptr.append(check_size(n_nodes + n_new, "contexts"))
            parents.append(parent[:n_new].copy())
            symbols.append(order[:n_new].copy())
            del column, bucket
        tree = tree_of_arrays(
            np.concatenate(parents), np.concatenate(symbols),
            np.array(level_ptr, dtype=np.int64), n_symbols,
        )  # fmt: skip
        return tree, node

    def select(self, keep: Any) -> tuple[ContextTree, np.ndarray]:
        """The tree of some of the nodes and their ancestors.

        Parameters
        ----------
        keep : array-like of shape (n_nodes,), bool
            Nodes to keep; their ancestors and the root are always kept.

        Returns
        -------
        tree : ContextTree
            Of the kept nodes, in their order.

        index : int32 ndarray of shape (n_nodes,)
            The new number of each node, -1 for removed nodes.
        """
        self.check_trie("select")
        keep = np.array(keep, dtype=bool)
        check_length("keep", keep, self.n_nodes, "one per node")
        keep[0] = True
        for k in range(self.n_levels - 1, 0, -1):
            here = self.level(k)
            keep[self.parent[here][keep[here]]] = True
        index = np.where(keep, np.cumsum(keep) - 1, -1).astype(np.int32)
        # The last levels of a shard may be empty.
        levels = map(self.level, range(self.n_levels))
        sizes = np.array([np.count_nonzero(keep[here]) for here in levels])
        sizes = sizes[: int(np.flatnonzero(sizes)[-1]) + 1]
        parent = self.parent[keep]
        parent[1:] = index[parent[1:]]
        return (
            tree_of_arrays(
                parent,
                self.symbol[keep],
                np.concatenate([[0], np.cumsum(sizes)]),
                self.n_symbols,
            ),
            index,
        )

    # -------------------------------------------------------------- reading

    @cached_property
    def child_ptr(self) -> np.ndarray:
        """(n_nodes + 1,) int32: the first child of each node."""
        # Computed at first use, because counting and smoothing do not need it.
        child_ptr = np.empty(self.parent.size + 1, dtype=np.int32)
        _fast.count_children(self.parent, child_ptr)
        return child_ptr

    @property
    def n_nodes(self) -> int:
        """Number of contexts, including the empty context."""
        return self.parent.size

    @property
    def n_levels(self) -> int:
        """Number of levels, including the root."""
        return self.level_ptr.size - 1

    @property
    def max_depth(self) -> int:
        """Length of the longest context."""
        if self.span is None:
            return self.n_levels - 1
        return int(self.depths().max())

    def level(self, k: int) -> slice:
        """The nodes of level k."""
        if k >= self.n_levels:
            return slice(self.n_nodes, self.n_nodes)
        return slice(int(self.level_ptr[k]), int(self.level_ptr[k + 1]))

    def add_up(self, numbers: np.ndarray) -> np.ndarray:
        """The sum of some numbers over each node and all nodes below it.

        Parameters
        ----------
        numbers : float64 ndarray of shape (n_nodes,)
            Overwritten with the sums.

        Returns
        -------
        sums : float64 ndarray of shape (n_nodes,)
        """
        for k in range(self.n_levels - 1, 0, -1):
            here, above = self.level(k), self.level(k - 1)
            parent, n_above = self.parent[here] - above.start, above.stop - above.start
            numbers[above] += np.bincount(parent, numbers[here], n_above)
        return numbers

    def nearest(self, number: np.ndarray) -> np.ndarray:
        """The number of each node, or the number of its nearest ancestor with a number.

        Parameters
        ----------
        number : int32 ndarray of shape (n_nodes,)
            The numbers of the nodes, -1 for a node without number; the root has a
            number.

        Returns
        -------
        number : int32 ndarray of shape (n_nodes,)
        """
        number = number.copy()
        for k in range(1, self.n_levels):
            here = self.level(k)
            gone = here.start + np.flatnonzero(number[here] < 0)
            number[gone] = number[self.parent[gone]]
        return number

    def levels(self) -> np.ndarray:
        """Level of each node: the number of edges above it."""
        return np.repeat(
            np.arange(self.n_levels, dtype=np.int32), np.diff(self.level_ptr)
        )

    def spans(self) -> np.ndarray:
        """Number of contexts that each node represents (1 in a trie)."""
        if self.span is not None:
            return self.span
        return np.ones(self.n_nodes, dtype=np.int32)

    def depths(self) -> np.ndarray:
        """Length of the (longest) context that each node represents."""
        if self.span is None:
            return self.levels()
        depth = np.empty(self.n_nodes, dtype=np.int32)
        depth[0] = 0
        for k in range(1, self.n_levels):
            here = self.level(k)
            depth[here] = depth[self.parent[here]] + self.span[here]
        return depth

    def check_trie(self, what: str) -> None:
        """ValueError for a collapsed tree; `what` needs a trie."""
        if self.span is not None:
            raise ValueError(
                f"tree: {what} needs a node for every context, but this tree is "
                "collapsed; expand it first"
            )

    @cached_property
    def root_child(self) -> np.ndarray:
        """(max(n_symbols, 1),) int32: the root's child for each symbol id, or -1."""
        table = np.full(max(self.n_symbols, 1), -1, dtype=np.int32)
        first = slice(int(self.child_ptr[0]), int(self.child_ptr[1]))
        table[self.symbol[first]] = np.arange(first.start, first.stop, dtype=np.int32)
        return table

    @cached_property
    def entry(self) -> tuple[int, np.ndarray]:
        """(a depth at which no two nodes have one symbol, its node for each symbol id,
        -1 for none): of these depths, the first one with the most nodes. A search can
        begin there."""
        size, best = max(self.n_symbols, 1), slice(0, 0)
        depth = 1
        for k in range(1, self.n_levels):
            level = self.level(k)
            n_nodes = level.stop - level.start
            # There is no room for more nodes than symbols.
            if best.stop - best.start < n_nodes <= size:
                times = np.bincount(self.symbol[level])
                if times.max() == 1:
                    depth, best = k, level
        table = np.full(size, -1, dtype=np.int32)
        table[self.symbol[best]] = np.arange(best.start, best.stop, dtype=np.int32)
        return depth, table

    def find_windows(self, contexts: Any) -> np.ndarray:
        """Deepest known node of each row of symbol ids.

        Parameters
        ----------
        contexts : array-like of shape (n_samples, width), integers
            Symbol ids, last column the most recent. -1 is a missing or unknown symbol
            and ends the history: the columns left of it are not read.

        Returns
        -------
        nodes : int32 ndarray of shape (n_samples,)
            0, the root, if the most recent symbol is not a known context.

        Raises
        ------
        ValueError
            If `contexts` are not integers in -1..n_symbols-1, or the tree is collapsed.
        """
        self.check_trie("find_windows")
        array = np.asarray(contexts)
        if array.dtype.kind not in "iu" and array.size:
            raise ValueError(
                f"contexts must hold symbol ids, got dtype {array.dtype}; "
                "Labels.encode_contexts turns symbols into ids"
            )
        windows = as_ids("contexts", array, 2, contiguous=False)
        check_ids("contexts", windows, -1, self.n_symbols, "symbol id")
        out = np.zeros(windows.shape[0], dtype=np.int32)
        find_nodes(self.parent, self.symbol, self.child_ptr, *self.entry, windows, out)
        return out

    def contexts(self, nodes: Any = None) -> list[np.ndarray]:
        """Symbol ids of contexts, oldest first: a list of int arrays."""
        if nodes is None:
            nodes = range(self.n_nodes)
        else:
            nodes = as_ids("nodes", nodes, 1)
            check_ids("nodes", nodes, 0, self.n_nodes, "node")
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

    def windows(self) -> np.ndarray:
        """The contexts of a trie as rows that `find_windows` takes.

        Returns
        -------
        windows : int32 ndarray of shape (n_nodes, max(max_depth, 1))
            Symbol ids, last column the most recent; -1 beyond the oldest symbol.
        """
        self.check_trie("windows")
        width = max(self.n_levels - 1, 1)
        windows = np.full((self.n_nodes, width), -1, dtype=np.int32)
        for k in range(1, self.n_levels):
            here = self.level(k)
            windows[here] = windows[self.parent[here]]
            windows[here, width - k] = self.symbol[here]
        return windows

    def nodes_in(self, other: ContextTree) -> np.ndarray:
        """The node in another trie of each context of this one, -1 if it lacks it.

        Their symbols have the same ids.
        """
        node = other.find_windows(self.windows())
        node[other.levels()[node] != self.levels()] = -1
        return node

    # ----------------------------------------------------------- object model

    def __eq__(self, other):
        if not isinstance(other, ContextTree):
            return NotImplemented
        return self is other or (
            self.n_symbols == other.n_symbols
            and np.array_equal(self.parent, other.parent)
            and np.array_equal(self.symbol, other.symbol)
            and np.array_equal(self.spans(), other.spans())
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self):
        return {**stored(self), "expanded": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore a pickled tree; ValueError if its arrays contradict each other."""
        ContextTree.__init__(self, state["parent"], state["symbol"], state["n_symbols"])
        n, levels = self.n_nodes, as_ids("level_ptr", state["level_ptr"], 1, np.int64)
        # A part of a cluster's tree has empty levels at the end.
        own = self.level_ptr.size
        if (
            not np.array_equal(levels[:own], self.level_ptr)
            or (levels[own:] != n).any()
        ):
            raise ValueError("level_ptr of the pickled tree does not fit its parents")
        text, at, span = (state[k] for k in ("edge_text", "edge_pos", "span"))
        if span is not None:
            check_length("span", as_ids("span", span, 1), n, "one per node")
            check_ids("span[0]", span[:1], 1, 2, "length of the root")
            check_ids("span", span, 1, INT32_MAX, "length of an edge")
        if text is not None:
            at = as_ids("edge_pos", at, 1, np.int64)
            check_length("edge_pos", at, n, "one per node")
            check_ids("edge_pos", at, 0, text.size, "place in edge_text")
            check_ids("edge_pos - span", at - span, -1, text.size, "place before it")
            check_ids("edge_text", text, -1, self.n_symbols, "symbol id")
        self.__dict__.update(state)

    def __sizeof__(self):
        # The scheduler of a cluster reads it to plan memory.
        arrays = [x for x in vars(self).values() if isinstance(x, np.ndarray)]
        return object.__sizeof__(self) + sum(x.nbytes for x in arrays)

    def __repr__(self):
        kind = "trie" if self.span is None else "collapsed tree"
        return (
            f"<ContextTree: {kind}, {self.n_nodes} nodes on {self.n_levels} levels, "
            f"{self.n_symbols} symbols>"
        )


def _fault(parent: np.ndarray, symbol: np.ndarray) -> str:
    """The fault of the arrays of a tree whose nodes are not in order."""
    before, at = parent[:-1], np.arange(1, parent.size)
    bad = (parent[1:] < 0) | (parent[1:] >= at)
    if bad.any():
        i = int(at[bad][0])
        return (
            f"parent[{i}] = {parent[i]}: every node but the root needs an earlier node "
            "as parent"
        )
    falls = parent[1:] < before
    if falls.any():
        i = int(at[falls][0])
        return (
            f"parent must not fall, but parent[{i}] = {parent[i]} < parent[{i - 1}] = "
            f"{parent[i - 1]}: number the nodes level by level, in the order of their "
            "parents"
        )
    if symbol[1:].min() < 0:
        return "symbol holds a negative id below the root"
    i = int(at[(parent[1:] == before) & (symbol[1:] <= symbol[:-1])][0])
    return (
        "symbol must rise strictly within a node (children are sorted), but "
        f"symbol[{i}] = {symbol[i]} follows {symbol[i - 1]} at node {parent[i]}"
    )


def tree_of_windows(
    rows: list[np.ndarray], n_symbols: int
) -> tuple[ContextTree, list[np.ndarray]]:
    """The trie of all contexts of several arrays of windows, of any widths.

    Also the node of each window of each array.
    """
    width = max(windows.shape[1] for windows in rows)
    padded = [
        np.pad(windows, ((0, 0), (width - windows.shape[1], 0)), constant_values=-1)
        for windows in rows
    ]
    histories = Histories.from_windows(np.concatenate(padded), width)
    tree, node = ContextTree.from_histories(histories, n_symbols)
    return tree, np.split(node, np.cumsum([len(windows) for windows in rows[:-1]]))


def check_samples(n: int) -> None:
    """ValueError for more samples than 32-bit ids can number."""
    if n > INT32_MAX - 1:
        raise ValueError(
            f"{n} samples exceed the {INT32_MAX - 1} that one tree can hold; "
            "split the corpus"
        )


def check_size(size: Any, what: str) -> int:
    """`size` as int; ValueError if it exceeds 32-bit ids."""
    if size > INT32_MAX:
        raise ValueError(
            f"the tree would hold {size} {what}, more than the {INT32_MAX} that "
            "32-bit ids of one machine can number; lower max_depth, map rare words to "
            "the unknown word (min_count of LanguageModel), collapse the tree, or fit "
            "shards of it (sklstruct.distributed)"
        )
    return int(size)


def pointers(sizes: np.ndarray) -> np.ndarray:
    """(n + 1,) int32: where each of n runs of these sizes begins, and the end."""
    ptr = np.zeros(sizes.size + 1, dtype=np.int32)
    np.cumsum(sizes, out=ptr[1:])
    return ptr


def tree_of_arrays(
    parent: np.ndarray,
    symbol: np.ndarray,
    level_ptr: np.ndarray,
    n_symbols: int,
    *,
    span: np.ndarray | None = None,
    edges: tuple[np.ndarray | None, np.ndarray | None] = (None, None),
) -> ContextTree:
    """A tree of arrays that are known to be valid, without checks.

    For code that makes trees; arrays of users go through the constructor.
    """
    tree = ContextTree.__new__(ContextTree)
    tree._set(parent, symbol, level_ptr, n_symbols)
    tree.span = span
    tree.edge_text, tree.edge_pos = edges
    return tree
