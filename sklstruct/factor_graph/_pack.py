"""Many instances in flat arrays, and the layout of the weights."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from typing import Any

import numpy as np

from .._checks import INT32_MAX
from ._graph import FactorGraph, ForestOrder, adjacency, forest


def check_graphs(graphs: list) -> list[FactorGraph]:
    """The instances, or a ValueError if one is not a FactorGraph."""
    for i, graph in enumerate(graphs):
        if not isinstance(graph, FactorGraph):
            raise ValueError(
                f"X must be a list of FactorGraph, but X[{i}] is "
                f"{type(graph).__name__}; FactorGraphVectorizer makes them from "
                "dictionaries, chain_graph and grid_graph from arrays"
            )
    return graphs


def where(i: int, graph: FactorGraph) -> str:
    return f"X[{i}]" if graph.name is None else f"X[{i}] ({graph.name!r})"


@dataclass
class WeightLayout:
    """Positions of the weights of all features in one array; learned in `fit`.

    The weights are in this order: features x kinds, candidate features, and for each
    edge type edge features x kinds x kinds, then pair features.
    """

    n_features: int
    n_candidate_features: int
    kinds: list
    edge_types: list[str]
    n_edge_features: list[int]
    n_pair_features: list[int]

    def __post_init__(self) -> None:
        self.n_kinds = len(self.kinds)
        self.own_offset = self.n_features * self.n_kinds
        at = self.own_offset + self.n_candidate_features
        cross, pair = [], []
        for d, dp in zip(self.n_edge_features, self.n_pair_features):
            cross.append(at)
            at += d * self.n_kinds**2
            pair.append(at)
            at += dp
        self.cross_offset = np.array(cross, dtype=np.int64)
        self.pair_offset = np.array(pair, dtype=np.int64)
        self.n_weights = at
        if at > INT32_MAX:
            raise ValueError(
                f"X needs {at} weights for its {self.n_kinds} kinds of values, more "
                f"than {INT32_MAX}; pass fewer `kinds`, or edge_features without "
                "columns"
            )

    @cached_property
    def code(self) -> dict[Any, int]:
        """The position of each kind."""
        return {kind: j for j, kind in enumerate(self.kinds)}

    # Positions are recomputed on loading, so a damaged pickle cannot have wrong
    # positions. skops cannot write `code`, a dictionary whose keys may be tuples.
    def __getstate__(self) -> dict:
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def __setstate__(self, state: dict) -> None:
        self.__init__(**state)  # type: ignore[misc]

    @classmethod
    def of(cls, graphs: Sequence[FactorGraph]) -> WeightLayout:
        """The layout of some instances, whose numbers of features must agree."""
        widths: dict[Any, int] = {}
        owner: dict[Any, tuple[int, FactorGraph]] = {}
        for i, graph in enumerate(graphs):
            for key, label, width in _widths(graph):
                owner.setdefault(key, (i, graph))
                if widths.setdefault(key, width) != width:
                    raise ValueError(
                        f"{where(i, graph)}: {label} has {width} columns, that of "
                        f"{where(*owner[key])} has {widths[key]}; all instances must "
                        "have the same"
                    )
        if "features" not in widths:
            raise ValueError("X has no variables: all its instances are empty")
        types = [key[0] for key in widths if key[1:] == ("edge",)]
        n_edge = [widths[t, "edge"] for t in types]
        crossed = widths["features"] > 0 or any(n_edge)
        layout = cls(
            widths["features"],
            widths["candidate_features"],
            _sorted_kinds(graphs) if crossed else [],
            types,
            n_edge,
            [widths[t, "pair"] for t in types],
        )
        if layout.n_weights == 0:
            raise ValueError(
                "X has no features: there is nothing to learn; give the instances "
                "features, candidate_features or edges"
            )
        return layout

    def check(self, graphs: Sequence[FactorGraph]) -> None:
        """Raise ValueError if an instance has other features than those of `fit`."""
        known: dict[Any, int] = {
            "features": self.n_features,
            "candidate_features": self.n_candidate_features,
        }
        for j, t in enumerate(self.edge_types):
            known[t, "edge"] = self.n_edge_features[j]
            known[t, "pair"] = self.n_pair_features[j]
        for i, graph in enumerate(graphs):
            for key, label, width in _widths(graph):
                if key not in known:
                    raise ValueError(
                        f"{where(i, graph)}: edges of the type {key[0]!r} were not in "
                        f"the instances of fit, which had {self.edge_types}"
                    )
                if known[key] != width:
                    raise ValueError(
                        f"{where(i, graph)}: {label} has {width} columns, that of fit "
                        f"had {known[key]}"
                    )


def _widths(graph: FactorGraph) -> list[tuple[Any, str, int]]:
    found: list[tuple[Any, str, int]] = [
        ("features", "features", graph.features.width),
        ("candidate_features", "candidate_features", graph.candidate_features.width),
    ]
    # an instance without variables has no columns to compare
    if not graph.n_variables:
        found = []
    for t, m in zip(graph.edge_types, graph.n_edges_of_type):
        if m:
            found.append(
                ((t, "edge"), f"edge_features[{t!r}]", graph.edge_features[t].width)
            )
            tables = graph.pair_features[t]
            width = 0 if tables is None else tables.width
            found.append(((t, "pair"), f"pair_features[{t!r}]", width))
    return found


def _sorted_kinds(graphs: Sequence[FactorGraph]) -> list:
    tuples = {id(kinds): kinds for graph in graphs for kinds in graph.kinds}
    return in_order({kind for t in tuples.values() for kind in t})


def in_order(kinds: set) -> list:
    """Values of any types, sorted."""

    def key(kind: Any) -> tuple[str, Any]:
        plain = isinstance(kind, (str, int, float))
        return type(kind).__name__, kind if plain else repr(kind)

    return sorted(kinds, key=key)


class Packed:
    """Instances as the arrays of `Graphs`, numbered over all instances."""

    def __init__(self, graphs: Sequence[FactorGraph], layout: WeightLayout) -> None:
        def starts(sizes: Any) -> np.ndarray:
            return np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)

        def joined(parts: list, dtype: Any) -> np.ndarray:
            return np.concatenate([np.empty(0, dtype=dtype), *parts], dtype=dtype)

        def rows(parts: list) -> tuple:
            shift = starts([part.value.size for part in parts]).tolist()
            ptr = [part.ptr[1:] + s for part, s in zip(parts, shift)]
            return (
                joined([np.zeros(1, dtype=np.int64), *ptr], np.int64),
                joined([part.column for part in parts], np.int32),
                joined([part.value for part in parts], np.float64),
            )

        self.layout = layout
        self.var_ptr = starts([g.n_variables for g in graphs])
        self.edge_ptr = starts([g.n_edges for g in graphs])
        if max(self.var_ptr[-1], self.edge_ptr[-1]) > INT32_MAX:
            raise ValueError("X has more variables or edges than 32-bit ids")
        sizes = joined([np.diff(g.cand_ptr) for g in graphs], np.int64)
        self.cand_ptr = starts(sizes)
        self.kind, lists, self.has_all_kinds = self._kinds(graphs)
        self.features = rows([g.features for g in graphs])
        self.candidate_features = rows([g.candidate_features for g in graphs])
        shift = self.var_ptr[:-1].tolist()
        self.edge_u = joined([g.edge_u + s for g, s in zip(graphs, shift)], np.int32)
        self.edge_v = joined([g.edge_v + s for g, s in zip(graphs, shift)], np.int32)
        code = {t: j for j, t in enumerate(layout.edge_types)}
        groups = [
            (g, t, m)
            for g in graphs
            for t, m in zip(g.edge_types, g.n_edges_of_type)
            if m
        ]
        self.edge_type = np.repeat(
            np.array([code[t] for _, t, _ in groups], dtype=np.int32),
            np.array([m for _, _, m in groups], dtype=np.int64),
        )
        self.edge_features = rows([g.edge_features[t] for g, t, _ in groups])
        self.n_pairs = sizes[self.edge_u] * sizes[self.edge_v]
        tables = [g.pair_features[t] for g, t, _ in groups]
        has_table = np.repeat(
            np.array([t is not None for t in tables], dtype=bool),
            [m for _, _, m in groups],
        )
        first = starts(np.where(has_table, self.n_pairs, 0))[:-1]
        self.pair_first = np.where(has_table, first, -1)
        self.pair_features = rows([t for t in tables if t is not None])
        masks = {g.allowed.tobytes(): g.allowed for g in graphs}
        at = dict(zip(masks, starts([mask.size for mask in masks.values()]).tolist()))
        self.allowed = joined(list(masks.values()), np.uint8)
        self.mask_first = joined(
            [
                np.where(g.mask_first >= 0, g.mask_first + at[g.allowed.tobytes()], -1)
                for g in graphs
            ],
            np.int64,
        )
        self.adj_ptr, self.adj_edge = adjacency(
            self.edge_u, self.edge_v, int(self.var_ptr[-1])
        )
        self.table = self._tables(lists)
        self.cost = self._costs()

    def _kinds(
        self, graphs: Sequence[FactorGraph]
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Codes of the kinds of all candidates, -1 for candidates without weights.

        Also a number for each variable, equal for equal lists of codes, and whether its
        list is all kinds in order.
        """
        code = self.layout.code
        known: dict[int, tuple[np.ndarray, int]] = {}  # by the id of a list of kinds
        number: dict[bytes, int] = {}
        codes, lists = [np.empty(0, dtype=np.int32)], []
        for graph in graphs:
            for kinds in graph.kinds:
                if id(kinds) not in known:
                    row = np.array([code.get(kind, -1) for kind in kinds], np.int32)
                    at = number.setdefault(row.tobytes(), len(number))
                    known[id(kinds)] = row, at
                row, at = known[id(kinds)]
                codes.append(row)
                lists.append(at)
        every = np.arange(self.layout.n_kinds, dtype=np.int32).tobytes()
        numbers = np.array(lists, dtype=np.int64)
        return (
            np.concatenate(codes),
            numbers,
            (numbers == number.get(every, -1)).astype(np.uint8),
        )

    def _tables(self, lists: np.ndarray) -> np.ndarray:
        """For each edge, the first edge that must have the same potentials.

        Such edges have the same type, the same kinds and constraints at their ends, the
        same single feature (mostly the constant), and no pair features.
        """
        ptr, column, value = self.edge_features
        table = np.arange(self.edge_u.size)
        n_features = np.diff(ptr)
        edges = np.flatnonzero((self.pair_first < 0) & (n_features <= 1))
        if not edges.size:
            return table
        entry = np.where(n_features[edges] > 0, ptr[edges], value.size)
        key = [
            self.edge_type[edges],
            np.append(column, -1)[entry],
            np.append(value, 0.0)[entry],
            lists[self.edge_u[edges]],
            lists[self.edge_v[edges]],
            self.mask_first[edges],
        ]
        order = np.lexsort(key)
        new = np.ones(edges.size, dtype=bool)
        new[1:] = np.any([k[order][1:] != k[order][:-1] for k in key], axis=0)
        first = np.flatnonzero(new)
        table[edges[order]] = edges[order][first[np.cumsum(new) - 1]]
        return table

    def _costs(self) -> np.ndarray:
        """Approximate number of steps for the potentials of each instance."""
        n_features = np.diff(self.features[0])
        per_variable = np.diff(self.cand_ptr) * (1 + n_features)
        own = self.candidate_features[0][self.cand_ptr]
        per_variable += np.diff(own)
        per_edge = self.n_pairs * (1 + np.diff(self.edge_features[0]))
        total = np.concatenate([[0], np.cumsum(per_variable)])[self.var_ptr]
        edges = np.concatenate([[0], np.cumsum(per_edge)])[self.edge_ptr]
        return np.diff(total) + np.diff(edges) + 1

    def blocks(self, budget: int) -> list[tuple[int, int]]:
        """Ranges of consecutive instances that cost about `budget` each."""
        group = np.cumsum(self.cost) // budget
        cut = np.flatnonzero(np.diff(group)) + 1
        ends = [0, *cut.tolist(), self.var_ptr.size - 1]
        return list(itertools.pairwise(ends))


class Block:
    """Instances first ... last - 1 of a `Packed`, numbered from 0.

    Table j of potentials has the entries table_ptr[j] ... table_ptr[j + 1] - 1. It
    belongs to the edge table_edge[j] of the `Packed` and to all edges e of the block
    with table[e] = j; for these, it begins at pair_ptr[e].
    """

    def __init__(self, packed: Packed, first: int, last: int) -> None:
        v0, v1 = (int(packed.var_ptr[i]) for i in (first, last))
        e0, e1 = (int(packed.edge_ptr[i]) for i in (first, last))
        self.first, self.last, self.n_instances = first, last, last - first
        self.cost = packed.cost[first:last].sum()
        self.variables, self.edges = slice(v0, v1), slice(e0, e1)
        self.var_ptr = packed.var_ptr[first : last + 1] - v0
        self.n_variables = self.var_ptr[-1]
        self.edge_ptr = packed.edge_ptr[first : last + 1] - e0
        cand = packed.cand_ptr[v0 : v1 + 1]
        self.cand_ptr = cand - cand[0]
        self.candidates = slice(int(cand[0]), int(cand[-1]))
        self.edge_u = packed.edge_u[e0:e1] - np.int32(v0)
        self.edge_v = packed.edge_v[e0:e1] - np.int32(v0)
        _, owner, self.table = np.unique(
            packed.table[e0:e1], return_index=True, return_inverse=True
        )
        self.table_edge = owner + e0
        self.n_pairs = packed.n_pairs[e0:e1]
        self.table_ptr = np.concatenate([[0], np.cumsum(self.n_pairs[owner])])
        self.pair_ptr = self.table_ptr[self.table]
        adj = packed.adj_ptr[v0 : v1 + 1]
        self.adj_ptr = adj - adj[0]
        self.adj_edge = packed.adj_edge[adj[0] : adj[-1]] - np.int32(e0)

    @cached_property
    def forest(self) -> ForestOrder:
        """Order of elimination, parents, and which instances are forests."""
        return forest(self)

    @cached_property
    def upward_ptr(self) -> np.ndarray:
        """First entry of the message of each variable to its parent."""
        parent = self.forest.parent
        n_values = np.where(parent < 0, 0, np.diff(self.cand_ptr)[parent])
        return np.concatenate([[0], np.cumsum(n_values)]).astype(np.int64)

    def pairs_of(self, state: np.ndarray) -> np.ndarray:
        """The entry of each edge's table for the values of a state."""
        width = np.diff(self.cand_ptr)[self.edge_v]
        return self.pair_ptr + state[self.edge_u] * width + state[self.edge_v]

    def table_runs(self) -> list[tuple[int, int]]:
        """Ranges of tables whose edges are consecutive."""
        new = np.diff(self.table_edge, prepend=-2) != 1
        return list(
            itertools.pairwise([*np.flatnonzero(new).tolist(), self.table_edge.size])
        )


def unpacked(values: Any, ptr: np.ndarray) -> list:
    """The parts between consecutive positions of ptr."""
    return [values[a:b] for a, b in zip(ptr[:-1].tolist(), ptr[1:].tolist())]
