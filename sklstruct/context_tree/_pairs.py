"""Pairs of a context and a class that followed it, and their counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import (
    as_floats,
    as_ids,
    check_ids,
    check_length,
    check_pointers,
    check_sorted_groups,
)
from . import _tree_fast as _fast
from ._find_fast import parent_pairs
from ._links import find_pairs
from ._tokens_fast import sort_symbols
from ._tree import ContextTree, check_size, pointers


class Pairs:
    r"""Pairs of a context and a class over a tree, in the order of the nodes.

    A pair (n, y) says that class y may follow context n; its parent pair is
    (parent(n), y). The root has a pair for every class. Counts, probabilities and
    weights of the pairs are separate arrays; with T(n, y) the weight of the samples
    whose longest context is n, the counts are

    .. math::
        c(n, y) = T(n, y) + \sum_{h \in \mathrm{children}(n)} c(h, y), \qquad
        t(n) = \sum_y T(n, y).

    Parameters
    ----------
    tree : ContextTree
        The contexts.

    ptr : array-like of shape (n_nodes + 1,)
        The pairs of n are ``ptr[n]:ptr[n + 1]``; the root has all classes.

    target : array-like of shape (n_pairs,)
        Class id of each pair, rising strictly within a node.

    Attributes
    ----------
    tree : ContextTree
        As given.

    ptr, target : int32 ndarray
        As given.

    n_classes : int
        Number of classes V.

    Raises
    ------
    ValueError
        If the arrays do not fit the tree; the message has the first wrong entry.

    Examples
    --------
    After the empty context "a" or "b" (classes 0 and 1), after "a" only "b":

    >>> from sklstruct.context_tree import ContextTree, Pairs
    >>> pairs = Pairs(ContextTree([-1, 0], [-1, 0]), [0, 2, 3], [0, 1, 1])
    >>> pairs.parent.tolist()
    [-1, -1, 1]
    """

    # Number of levels, including the root, whose first node belongs to an earlier
    # shard; 0 for a whole tree.
    borrowed = 0

    def __init__(self, tree: ContextTree, ptr: Any, target: Any):
        ptr = as_ids("ptr", ptr, 1)
        target = as_ids("target", target, 1)
        check_length("ptr", ptr, tree.n_nodes + 1, "one per node and the end")
        n_classes = int(ptr[1])
        if n_classes == 0 or not _fast.are_sorted(ptr, target, n_classes):
            check_pointers("ptr", ptr, target.size)
            if n_classes == 0:
                raise ValueError("ptr[1] is 0: the root must hold every class")
            if not np.array_equal(target[:n_classes], np.arange(n_classes)):
                raise ValueError(
                    "target must start with 0, 1, ..., ptr[1] - 1: the root holds "
                    "every class in order"
                )
            check_ids("target", target, 0, n_classes, "class id")
            check_sorted_groups("target", target, ptr)
        self._set(tree, ptr, target, None)

    def _set(self, tree, ptr, target, parent):
        self.tree, self.ptr, self.target = tree, ptr, target
        self.n_classes = int(ptr[1])
        self._parent = parent

    @classmethod
    def count(
        cls,
        tree: ContextTree,
        terminal: Any,
        target: Any,
        n_classes: int,
        sample_weight: Any = None,
    ) -> tuple[Pairs, np.ndarray]:
        """The pairs of a sample and their counts.

        Parameters
        ----------
        tree : ContextTree
            The contexts, collapsed or not.

        terminal : int32 array of shape (n_samples,)
            Each sample's deepest node.

        target : int32 array of shape (n_samples,)
            Class ids.

        n_classes : int
            Number of classes, seen or not.

        sample_weight : float64 array of shape (n_samples,), default=None
            Positive weights; leave out samples of weight 0 beforehand.

        Returns
        -------
        pairs : Pairs
            Every pair that occurs, and all classes at the root.

        count : float64 ndarray of shape (n_pairs,)
            c(n, y).
        """
        terminal, target = np.asarray(terminal), np.asarray(target)
        n = terminal.size
        weight = np.ones(n) if sample_weight is None else sample_weight
        if target.shape != (n,) or np.shape(weight) != (n,):
            raise ValueError("terminal, target and sample_weight differ in length")
        check_ids("terminal", terminal, 0, tree.n_nodes, "node")
        check_ids("target", target, 0, n_classes, "class id")
        node = np.array(terminal, dtype=np.int32)  # walks up to the root
        target = np.ascontiguousarray(target, dtype=np.int32)
        weight = np.ascontiguousarray(weight, dtype=np.float64)
        by_target = np.empty(n, dtype=np.int32)
        bucket = pointers(np.bincount(target, minlength=n_classes))
        sort_symbols(target, bucket, by_target)
        pair = np.full(n, -1, dtype=np.int32)
        order = np.empty(n, dtype=np.int32)
        targets, counts, parents, per_node = [], [], [], []
        below = np.empty(0, dtype=np.int32)
        for k in range(tree.n_levels - 1, 0, -1):
            first, last = int(tree.level_ptr[k]), int(tree.level_ptr[k + 1])
            n_here = int(np.count_nonzero(node >= first))
            bucket = np.empty(last - first + 1, dtype=np.int32)
            of_node = np.zeros(last - first, dtype=np.int32)
            target_here = np.empty(n_here, dtype=np.int32)
            count_here = np.empty(n_here)
            n_pairs = _fast.level_pairs(
                first, by_target, target, weight, tree.parent, node, pair,
                bucket, order, of_node, target_here, count_here, below,
            )  # fmt: skip
            parents.append(below)
            below = np.empty(n_pairs, dtype=np.int32)
            targets.append(target_here[:n_pairs].copy())
            counts.append(count_here[:n_pairs].copy())
            per_node.append(of_node)
            del target_here, count_here
        inside = pair >= 0
        below[pair[inside]] = target[inside]
        # The samples take as much memory as the pairs.
        del node, by_target, pair, order, inside
        parents.append(below)
        targets.append(np.arange(n_classes, dtype=np.int32))
        root_count: Any = np.bincount(target, weight, n_classes)
        counts.append(root_count)
        per_node.append(np.array([n_classes], dtype=np.int32))
        del target, weight, sample_weight, terminal

        # The lists are from the deepest level up; parents[j] points into the level
        # above, whose first pair is the sum of the sizes of the levels before.
        sizes = [t.size for t in reversed(targets)]
        starts = np.concatenate([[0], np.cumsum(sizes)])
        check_size(starts[-1], "(context, class) pairs")
        parent = np.empty(starts[-1], dtype=np.int32)
        parent[:n_classes] = -1
        for k, below in enumerate(reversed(parents)):
            # `below` holds the parents (level k) of the pairs of level k + 1.
            if below.size:
                parent[starts[k + 1] : starts[k + 2]] = below + starts[k]
        ptr = pointers(np.concatenate(per_node[::-1]))
        del per_node, parents, below
        joined = np.concatenate(targets[::-1])
        del targets
        pairs = pairs_of_arrays(tree, ptr, joined, parent)
        return pairs, np.concatenate(counts[::-1])

    def select(self, keep: Any) -> tuple[Pairs, np.ndarray]:
        """The pairs of some nodes, or some of the pairs.

        Parameters
        ----------
        keep : array-like of shape (n_pairs,), bool
            Pairs to keep. Pairs of the root are always kept. The nodes of kept pairs
            and their ancestors are kept too.

        Returns
        -------
        pairs : Pairs
            Over the selected tree.

        kept : ndarray of shape (n_kept,), int64
            The old number of each pair: numbers of the pairs become
            ``numbers[kept]``.
        """
        keep = np.array(keep, dtype=bool)
        check_length("keep", keep, self.n_pairs, "one per pair")
        keep[: self.n_classes] = True
        sizes = self._per_node(keep, np.int64)
        tree, index = self.tree.select(sizes > 0)
        ptr = pointers(sizes[index >= 0])
        return pairs_of_arrays(tree, ptr, self.target[keep]), np.flatnonzero(keep)

    # -------------------------------------------------------------- reading

    @property
    def n_pairs(self) -> int:
        """Number of pairs."""
        return self.target.size

    @property
    def parent(self) -> np.ndarray:
        """(n_pairs,) int32: the parent pair, -1 at the root or if it does not exist."""
        if self._parent is None:
            parent, place = (np.empty(n, np.int32) for n in (self.n_pairs, self.ptr[1]))
            parent_pairs(self.tree.parent, self.ptr, self.target, place, parent)
            self._parent = parent
        return self._parent

    def forget_parents(self) -> None:
        """Free `parent`, which is recomputed when it is next used."""
        self._parent = None

    def nodes(self) -> np.ndarray:
        """(n_pairs,) int32: the node of each pair."""
        return np.repeat(
            np.arange(self.tree.n_nodes, dtype=np.int32), np.diff(self.ptr)
        )

    def level(self, k: int) -> slice:
        """The pairs of the nodes of level k."""
        here = self.tree.level(k)
        return slice(int(self.ptr[here.start]), int(self.ptr[here.stop]))

    def find(self, nodes: np.ndarray, targets: np.ndarray) -> np.ndarray:
        """Index of each pair (node, target), -1 for a pair that is not stored.

        ValueError unless both are arrays of ids in range and of equal length.
        """
        nodes, targets = as_ids("nodes", nodes, 1), as_ids("targets", targets, 1)
        check_length("targets", targets, nodes.size, "one per node")
        check_ids("nodes", nodes, 0, self.tree.n_nodes, "node")
        check_ids("targets", targets, 0, self.n_classes, "class id")
        return find_pairs(self.ptr, self.target, nodes, targets)

    def _beside(self, name, numbers):
        numbers = as_floats(name, numbers, 1)
        check_length(name, numbers, self.n_pairs, "one per pair")
        return numbers

    def _per_node(self, values, dtype=np.float64):
        """Sums over the pairs of each node; 0 for a node without pairs."""
        out = np.zeros(self.tree.n_nodes, dtype=dtype)
        some = np.flatnonzero(self.ptr[1:] > self.ptr[:-1])
        out[some] = np.add.reduceat(values, self.ptr[some], dtype=dtype)
        return out

    def node_sums(self, numbers: np.ndarray) -> np.ndarray:
        """Sum of some numbers over the pairs of each node.

        Parameters
        ----------
        numbers : float64 ndarray of shape (n_pairs,)
            Such as counts, whose sums are c(n).

        Returns
        -------
        sums : float64 ndarray of shape (n_nodes,)
            0 for a node without pairs.
        """
        return self._per_node(self._beside("numbers", numbers))

    def terminal_counts(self, count: np.ndarray) -> np.ndarray:
        """T(n, y): weight of class y over the samples that end at the node.

        `node_sums` of T are t(n), the weight of all samples that end at each node.
        """
        count, below = self._beside("count", count), slice(self.n_classes, None)
        own = self._own_numbers(count)
        terminal = own.copy()
        np.subtract.at(terminal, self.parent[below], own[below])
        self._add_up(terminal)
        # Sums of fractional weights cancel only up to rounding.
        terminal[terminal < 1e-12 * count] = 0.0
        return terminal

    def adjusted_counts(self, count: np.ndarray) -> np.ndarray:
        """a(n, y), the adjusted counts of Kneser-Ney smoothing.

        ``a(n, y) = T(n, y) + number of children h of n where y followed h``: the raw
        count on the deepest level, distinct predecessors above it. On the deepest level
        there are no children and T is the count. On higher levels T(n, y) > 0 only for
        contexts at the start of a sentence, which nothing precedes: they keep their raw
        counts.
        """
        adjusted = self._own_numbers(self.terminal_counts(count), True)
        below = slice(self.n_classes, None)
        one = np.minimum(self._own_numbers(count)[below], 1.0)
        np.add.at(adjusted, self.parent[below], one)
        self._add_up(adjusted)
        return adjusted

    def adjust_counts(self, count: np.ndarray) -> np.ndarray:
        """`adjusted_counts`, computed in place if all counts are integers.

        Otherwise the result would not be exact, and a new array is returned.
        """
        self._beside("count", count)
        if not _fast.are_whole(count):
            return self.adjusted_counts(count)
        _fast.adjust_whole(self.parent, self._own_numbers(count, True))
        self._add_up(count)
        return count

    def total(self, x: Any) -> Any:
        """A sum over some contexts, taken over the whole tree.

        A whole tree returns `x`. A shard has some of the contexts, and returns the sum
        of `x` over all shards. `x` must leave out the root, which every shard has, and
        other contexts that are not `own`.

        Parameters
        ----------
        x : float or float64 ndarray
            The sum over the contexts of this object.

        Returns
        -------
        total : float or ndarray
            Of the same shape.
        """
        return x

    def own(self, k: int) -> tuple[slice, slice]:
        """(nodes, pairs) of level k that do not belong to an earlier shard."""
        nodes = self.tree.level(k)
        nodes = slice(nodes.start + (k < self.borrowed), nodes.stop)
        return nodes, slice(int(self.ptr[nodes.start]), int(self.ptr[nodes.stop]))

    def _own_numbers(self, numbers, overwrite=False):
        """The numbers of the pairs, 0 for pairs that belong to an earlier shard."""
        return numbers

    def _add_up(self, numbers):
        """Sum the numbers of pairs that several shards have over these shards."""

    # ----------------------------------------------------------- object model

    def __eq__(self, other):
        if not isinstance(other, Pairs):
            return NotImplemented
        return self is other or (
            np.array_equal(self.ptr, other.ptr)
            and np.array_equal(self.target, other.target)
            and self.tree == other.tree
        )

    __hash__ = None  # type: ignore[assignment]

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Restore pickled pairs; ValueError if the arrays do not fit each other."""
        Pairs.__init__(self, state["tree"], state["ptr"], state["target"])
        parent = state["_parent"]
        if parent is not None:
            check_length(
                "parent", as_ids("parent", parent, 1), self.n_pairs, "a pair each"
            )
            check_ids("parent", parent, -1, self.n_pairs, "pair")
        self.__dict__.update(state)

    def __sizeof__(self):
        # The scheduler of a cluster reads it to plan memory.
        arrays = [x for x in vars(self).values() if isinstance(x, np.ndarray)]
        size = object.__sizeof__(self) + self.tree.__sizeof__()
        return size + sum(x.nbytes for x in arrays)

    def __repr__(self):
        return (
            f"<Pairs: {self.n_pairs} pairs of {self.tree.n_nodes} contexts and "
            f"{self.n_classes} classes>"
        )


def pairs_of_arrays(
    tree: ContextTree,
    ptr: np.ndarray,
    target: np.ndarray,
    parent: np.ndarray | None = None,
) -> Pairs:
    """Pairs of arrays that are known to be valid, without checks."""
    pairs = Pairs.__new__(Pairs)
    pairs._set(tree, ptr, target, parent)
    return pairs


def pairs_of_keys(tree: ContextTree, key: np.ndarray, n_classes: int) -> Pairs:
    """Pairs of the keys ``node * n_classes + class``, rising and distinct."""
    node, target = np.divmod(key, np.int64(n_classes))
    ptr = pointers(np.bincount(node, minlength=tree.n_nodes))
    return pairs_of_arrays(tree, ptr, target.astype(np.int32))
