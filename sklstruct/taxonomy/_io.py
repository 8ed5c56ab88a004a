"""Readers and writers of other forms of a taxonomy.

A reader returns the arguments of `Taxonomy`: parent, leaf_of_class, labels and names of
nodes. No function is recursive.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import check_count
from ._labels import as_scalar, is_absent

Parts: TypeAlias = tuple[NDArray, NDArray, list, list | None]
# A `Taxonomy`; its module imports this one.
Tree: TypeAlias = Any

# Deepest tree that `write_text` draws without `max_depth`: a chain of K levels takes
# 5 K² characters, 5 MB here and 500 MB at 10 000.
_MAX_TEXT_DEPTH = 1000
# Labels of a leaf that `write_text` lists.
_MOST_LABELS = 8
_END: Any = object()


# ---------------------------------------------------------------------- readers


def is_nest(item: Any) -> bool:
    """Whether an item of nested labels is a node, not a label."""
    return isinstance(item, list | tuple | range | Mapping) or (
        isinstance(item, np.ndarray) and item.ndim > 0
    )


def read_nested(nested: Sequence | Mapping | NDArray) -> Parts:
    """Read lists of labels and lists, or mappings from names of nodes to lists."""
    if not is_nest(nested):
        raise ValueError(
            "nested must be a list of labels and lists, or a mapping from names to "
            f"such lists, got {nested!r:.60}"
        )
    if len(nested) == 0:
        raise ValueError("nested holds no labels: empty node")
    parent, names, labels, label_node = [-1], [None], [], []
    seen, open_ids = set(), {id(nested)}
    stack = [(0, nested, _children(nested))]
    while stack:
        node, here, items = stack[-1]
        name, item = next(items, (None, _END))
        if item is _END:
            open_ids.discard(id(here))
            stack.pop()
            continue
        child = len(parent)
        parent.append(node)
        names.append(name)
        if not is_nest(item):
            if isinstance(here, Mapping):
                raise ValueError(
                    f"nested[{name!r:.60}] must be a list of labels or a mapping, got "
                    f"{item!r:.60}"
                )
            label = as_scalar(item)
            if label in seen:
                raise ValueError(
                    f"duplicate label {label!r:.60}: every class has exactly one place "
                    "in the taxonomy"
                )
            seen.add(label)
            labels.append(label)
            label_node.append(child)
            continue
        if id(item) in open_ids:
            raise ValueError("cycle: a list of nested contains itself")
        if len(item) == 0:
            what = f"a list at depth {len(stack)}" if name is None else repr(name)
            raise ValueError(f"empty node: {what} of nested holds no labels")
        open_ids.add(id(item))
        stack.append((child, item, _children(item)))
    named = any(name is not None for name in names)
    return assemble(parent, labels, label_node, names if named else None)


def _children(nest: Sequence | Mapping | NDArray) -> Iterator[tuple[Any, Any]]:
    if isinstance(nest, Mapping):
        return ((as_scalar(name), item) for name, item in nest.items())
    return ((None, item) for item in nest)


def read_parents(parents: Mapping[Hashable, Hashable]) -> Parts:
    """Read a map from each node to its parent."""
    if not isinstance(parents, Mapping):
        raise ValueError(
            f"parents must be a mapping from node to parent, got "
            f"{type(parents).__name__}"
        )
    if not parents:
        raise ValueError("empty node: parents holds no nodes")
    clean = parents_of(parents)
    number: dict[Any, int] = {}
    for child, above in clean.items():
        number.setdefault(child, len(number))
        if above is not None:
            number.setdefault(above, len(number))
    parent = [-1] * len(number)
    for child, above in clean.items():
        if above is not None:
            parent[number[child]] = number[above]
    name = list(number)
    inner = set(parent)
    label_node = [v for v in range(len(parent)) if v not in inner]
    if not label_node:
        raise ValueError(f"cycle: no node of parents is a leaf, e.g. {name[0]!r:.60}")
    roots = [v for v, p in enumerate(parent) if p < 0]
    reject_cycle(parent, roots, name)
    if len(roots) > 1 or roots[0] in label_node:
        for v in roots:
            parent[v] = len(parent)
        parent.append(-1)
        name.append(None)
    labels = [name[v] for v in label_node]
    return assemble(parent, labels, label_node, name)


def parents_of(parents: Mapping[Hashable, Hashable]) -> dict[Any, Any]:
    """A map to parents in Python scalars; None for the parent of a root."""
    found = {}
    for child, above in parents.items():
        if is_absent(child):
            raise ValueError(
                f"parents has the node {child!r:.60}, which stands for a missing "
                "parent: name the node, or remove the node"
            )
        found[as_scalar(child)] = None if is_absent(above) else as_scalar(above)
    return found


def read_paths(paths: Mapping[Hashable, Sequence]) -> Parts:
    """Read a map from each label to its path of groups."""
    if not isinstance(paths, Mapping):
        raise ValueError(
            f"paths must be a mapping from label to path, got {type(paths).__name__}"
        )
    if not paths:
        raise ValueError("empty node: paths holds no labels")
    # The key of a group is (number of the group above, name), not the whole path: a
    # path of length m then costs O(m) and not O(m²).
    group: dict[tuple[int, Any], int] = {}
    parent, name, labels, label_node = [-1], [None], [], []
    for label, path in paths.items():
        if is_absent(path):
            path = ()
        if not isinstance(path, Iterable) or isinstance(path, Mapping):
            raise ValueError(
                f"the path of label {label!r:.60} must be a sequence of groups, got "
                f"{path!r:.60}"
            )
        node, ended = 0, False
        for step in [path] if isinstance(path, str) else path:
            if ended and not is_absent(step):
                raise ValueError(
                    f"the path of label {label!r:.60} has the group {step!r:.60} below "
                    "a missing one; only the end of a path may be missing"
                )
            ended = is_absent(step)
            if ended:
                continue
            key = (node, as_scalar(step))
            if key not in group:
                group[key] = len(parent)
                parent.append(node)
                name.append(key[1])
            node = group[key]
        labels.append(as_scalar(label))
        label_node.append(len(parent))
        parent.append(node)
        name.append(None)
    return assemble(parent, labels, label_node, name)


def assemble(
    parent: ArrayLike, labels: list, label_node: ArrayLike, names: list | None
) -> Parts:
    """`Parts` of a tree in which every label has its own node, `label_node`.

    A node whose children are all labels becomes a leaf with these classes.
    """
    parent = np.asarray(parent, dtype=np.int64)
    label_node = np.asarray(label_node, dtype=np.int64)
    is_label = np.zeros(parent.size, dtype=bool)
    is_label[label_node] = True
    rest = ~is_label
    rest_parent = parent[rest]
    mixed = np.zeros(parent.size, dtype=bool)
    mixed[rest_parent[rest_parent >= 0]] = True
    above = parent[label_node]
    own = mixed[above]
    leaf = np.where(own, label_node, above)
    keep = rest
    keep[label_node[own]] = True
    number = np.cumsum(keep) - 1
    kept = parent[keep]
    kept[kept >= 0] = number[kept[kept >= 0]]
    if names is not None:
        names = [names[v] for v in np.flatnonzero(keep)]
        for v in number[label_node[own]]:
            names[v] = None  # a leaf of one class has the label as its name
    return kept, number[leaf], labels, names


def reject_cycle(
    parent: Sequence[int], roots: Sequence[int] | NDArray, name: Sequence
) -> None:
    """ValueError unless the parents of every node lead to a root."""
    n = len(parent)
    done = np.zeros(n, dtype=bool)
    done[roots] = True
    for start in range(n):
        trail, v = [], start
        while not done[v]:
            done[v] = True
            trail.append(v)
            v = parent[v]
        # The walk ended at a node that it had visited: a cycle.
        if trail and v in set(trail):
            loop = [str(name[u]) for u in trail[trail.index(v) :]]
            shown = " -> ".join([*loop[:5], *(["..."] if len(loop) > 5 else [])])
            raise ValueError(f"cycle: {shown} -> {loop[0]}; every node needs a root")


# ---------------------------------------------------------------------- writers


def labels_of_nodes(tree: Tree) -> list[list]:
    """The labels at each node as Python scalars; inner nodes have no labels."""
    held: list[list] = [[] for _ in range(tree.n_nodes)]
    for label, v in zip(map(as_scalar, tree.classes), tree.leaf_of_class.tolist()):
        held[v].append(label)
    return held


def preorder(tree: Tree) -> Iterable[tuple[int, int]]:
    """(node, level), parents first, from left to right."""
    ptr = tree.child_ptr.tolist()
    stack = [(0, 0)]
    while stack:
        v, level = stack.pop()
        yield v, level
        stack.extend((c, level + 1) for c in range(ptr[v + 1] - 1, ptr[v] - 1, -1))


def write_nested(tree: Tree) -> list:
    lists = labels_of_nodes(tree)
    for v, p in enumerate(tree.parent.tolist()):
        if p >= 0:
            lists[p].append(lists[v])
    return lists[0]


def write_text(tree: Tree, max_depth: int | None) -> str:
    if max_depth is not None:
        max_depth = check_count("max_depth", max_depth, 0)
    elif tree.depth > _MAX_TEXT_DEPTH:
        raise ValueError(
            f"the tree has {tree.depth} levels, and the text grows with their "
            f"square; give max_depth, the deepest level to show (None draws at "
            f"most {_MAX_TEXT_DEPTH})"
        )
    held = labels_of_nodes(tree)
    sizes = tree.class_sets.stop - tree.class_sets.start
    lines = []
    for v, level in preorder(tree):
        if max_depth is not None and level > max_depth:
            continue
        name = None if tree.names is None else tree.names[v]
        if held[v]:
            text = ", ".join(str(label) for label in held[v][:_MOST_LABELS])
            if len(held[v]) > _MOST_LABELS:
                text += f", ... ({len(held[v])} classes)"
            if name is not None and len(held[v]) > 1:
                text = f"{name}: {text}"
        elif level == 0:
            text = "root" if name is None else str(name)
        else:
            text = f"({sizes[v]} classes)"
            text = text if name is None else f"{name} {text}"
        lines.append("|    " * (level - 1) + "|--- " * (level > 0) + text)
    return "\n".join(lines)
