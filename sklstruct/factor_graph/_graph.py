"""FactorGraph: one structured instance, checked once, as flat arrays."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .._checks import INT32_MAX
from ..symbols import items
from ._gibbs_fast import feasible
from ._inference_fast import Potentials, forests
from ._rows import FeatureRows, as_rows, as_stacked_rows, constant_rows, empty_rows

# Steps of the search for an allowed state: far more than usual constraints need, and
# less than a second.
_SEARCH_LIMIT = 1_000_000


class FactorGraph:
    r"""A structured instance: variables, their candidate values, typed edges.

    .. math::
        s(y \mid x) = \sum_i \Bigl(\sum_f x_{if}\, W_{f, \kappa(y_i)}
        + c_{i y_i}^\top v\Bigr) + \sum_{e = (i, j)} \Bigl(\sum_f x_{ef}\,
        U^{t_e}_{f, \kappa(y_i), \kappa(y_j)} + p_{e y_i y_j}^\top z^{t_e}\Bigr)

    is the score that a `SampleRankClassifier` learns: :math:`x_i` are `features` of a
    variable, crossed with the kind :math:`\kappa` of its value; :math:`c` are
    `candidate_features`, one row for each value of each variable; :math:`x_e` are
    `edge_features`, crossed with the kinds of both values; :math:`p` are
    `pair_features`, one row for each pair of values. Each of the four kinds of features
    is optional.

    Parameters
    ----------
    candidates : sequence of n_variables sequences
        The values that each variable may take: hashable, each once, at least one.
        Different variables may have different values, and different numbers of values.

    features : matrix of shape (n_variables, n_features), default=None
        Features of the variables, dense or sparse, with a weight for each kind of
        value. Usual if all variables have the same few values (tags, pixels).

    candidate_features : matrix or list of n_variables matrices, default=None
        Features of each single value of each variable, dense or sparse, in the order
        of `candidates`: one matrix of shape (n_candidates, n_candidate_features),
        n_candidates being the total over the variables, or a matrix per variable.

    kinds : sequence of n_variables sequences, default=None
        The kind of each candidate, hashable, for the crossed features; for example,
        "pronoun" or "name" for referring expressions. None: each value is its own kind.

    edges : mapping from str to array-like of shape (n_edges, 2), default=None
        For each type of edge the pairs of variables that it joins. The order of a pair
        matters: the kind (or value) of the first variable is the first index of the
        weights of `edge_features`, and of the rows of `pair_features`. Several edges
        may join the same two variables.

    edge_features : mapping from str to matrix, default=None
        Features of the edges of a type, of shape (n_edges, n_edge_features). A type
        without an entry has a constant feature 1, and so a weight for each pair of
        kinds; a matrix without columns removes these weights.

    pair_features : mapping from str to list of matrices, default=None
        For each edge of a type a matrix of shape (k_u * k_v, n_pair_features), or an
        array of shape (k_u, k_v, n_pair_features), where the first variable has k_u
        candidates and the second k_v; or all of them stacked.

    forbidden : mapping from str to iterable of (value, value), default=None
        Hard constraints: pairs of values that the two variables of an edge of a type
        must not have. Inference and learning never visit a state with such a pair. To
        forbid a single value, leave it out of `candidates`; to constrain a single edge,
        give it its own type.

    name : str, default=None
        Named in error messages.

    Attributes
    ----------
    n_variables, n_edges, n_candidates : int
        Sizes; `n_candidates` is the total over the variables.

    candidates : tuple of tuples
        Values of each variable.

    edge_types : tuple of str
        Types, in the given order.

    Raises
    ------
    ValueError
        If a variable has no candidates or a repeated candidate, an edge leads to a
        variable that does not exist or from a variable to itself, features have the
        wrong number of rows or are not finite, or no state satisfies the constraints.
        The message names the instance (by `name`) and the variable.

    See Also
    --------
    FactorGraphVectorizer : Instances from dictionaries of features.
    chain_graph, grid_graph : Common shapes.

    Notes
    -----
    For constraints on a graph with loops, the constructor searches for a state that
    satisfies the constraints, by depth-first search after arc consistency. If no state
    is found within a million steps, an error is raised.

    Examples
    --------
    >>> from sklstruct.factor_graph import FactorGraph
    >>> graph = FactorGraph(
    ...     [["John Napier", "he"], ["his father", "he"], ["Napier", "he"]],
    ...     features=[[1, 0], [0, 1], [0, 1]],
    ...     kinds=[["name", "pronoun"], ["name", "pronoun"], ["name", "pronoun"]],
    ...     edges={"next": [(0, 1), (1, 2)], "same entity": [(0, 2)]},
    ... )
    >>> graph
    FactorGraph(n_variables=3, n_candidates=6, n_edges=3)
    >>> graph.n_variables, graph.n_edges
    (3, 3)
    """

    def __init__(
        self,
        candidates: Sequence[Sequence[Any]],
        *,
        features: Any = None,
        candidate_features: Any = None,
        kinds: Sequence[Sequence[Any]] | None = None,
        edges: Mapping[str, Any] | None = None,
        edge_features: Mapping[str, Any] | None = None,
        pair_features: Mapping[str, Any] | None = None,
        forbidden: Mapping[str, Iterable[tuple[Any, Any]]] | None = None,
        name: str | None = None,
    ) -> None:
        self.name = name
        self._set_candidates(candidates, kinds)
        n = self.n_variables
        self.features = empty_rows(n)
        if features is not None:
            self.features = self._named(as_rows, features, n, "features", "variable")
        self.candidate_features = empty_rows(self.n_candidates)
        if candidate_features is not None:
            self.candidate_features = self._named(
                as_stacked_rows, candidate_features, np.diff(self.cand_ptr),
                "candidate_features", "variable", "candidate",
            )  # fmt: skip
        self._set_edges(edges, edge_features, pair_features)
        self._set_forbidden(forbidden)

    # ---------------------------------------------------------------- construction

    def with_rows(self, features: FeatureRows) -> FactorGraph:
        """The same graph with other, unchecked features of its variables."""
        graph = FactorGraph.__new__(FactorGraph)
        graph.__dict__.update(self.__dict__, features=features)
        return graph

    def _fail(self, text: str) -> None:
        if self.name is not None:
            text = f"instance {self.name!r:.60}: {text}"
        raise ValueError(text)

    def _named(self, function: Any, *args: Any) -> Any:
        try:
            return function(*args)
        except ValueError as exc:
            if self.name is None:
                raise
            raise ValueError(f"instance {self.name!r:.60}: {exc}") from exc

    def _set_candidates(self, candidates: Any, kinds: Any) -> None:
        self.candidates = self._lists(candidates, "candidates")
        self.n_variables = len(self.candidates)
        self.cand_ptr = np.zeros(self.n_variables + 1, dtype=np.int64)
        np.cumsum([len(v) for v in self.candidates], out=self.cand_ptr[1:])
        self.n_candidates = int(self.cand_ptr[-1])
        if self.n_candidates > INT32_MAX:
            self._fail("candidates: there are more candidates than 32-bit ids")
        self.kinds = self.candidates
        if kinds is None:
            return
        self.kinds = self._lists(kinds, "kinds")
        if len(self.kinds) != self.n_variables:
            self._fail(
                f"kinds must have a list for each of the {self.n_variables} variables, "
                f"got {len(self.kinds)}"
            )
        for i, (own, values) in enumerate(zip(self.kinds, self.candidates)):
            if len(own) != len(values):
                self._fail(
                    f"variable {i}: kinds has {len(own)} entries for "
                    f"{len(values)} candidates"
                )

    def _lists(self, given: Any, name: str) -> tuple[tuple, ...]:
        """The list of each variable; a list of several variables is checked once."""
        try:
            lists = list(given)
        except TypeError:
            self._fail(f"{name} must be a sequence of sequences of values")
        checked: dict[int, tuple] = {}
        for i, one in enumerate(lists):
            if id(one) not in checked:
                if isinstance(one, (str, bytes)):
                    self._fail(
                        f"variable {i}: {name} must be a list of values, got the "
                        f"single {type(one).__name__} {one!r:.60}"
                    )
                try:
                    values = tuple(_plain(one))
                except TypeError:
                    self._fail(f"variable {i}: {name} must be a list of values")
                try:
                    distinct = set(values)
                except TypeError:
                    self._fail(f"variable {i}: {name} must be hashable")
                if name == "candidates":
                    self._check_values(i, values, distinct)
                checked[id(one)] = values
        return tuple(checked[id(one)] for one in lists)

    def _check_values(self, i: int, values: tuple, distinct: set) -> None:
        if not values:
            self._fail(
                f"variable {i}: has no candidates; every variable needs at least one"
            )
        if len(distinct) != len(values):
            twice = next(v for j, v in enumerate(values) if v in values[:j])
            self._fail(f"variable {i}: candidate {twice!r:.60} is listed twice")

    def _set_edges(self, edges: Any, edge_features: Any, pair_features: Any) -> None:
        edges = {} if edges is None else dict(edges)
        edge_features = {} if edge_features is None else dict(edge_features)
        pair_features = {} if pair_features is None else dict(pair_features)
        self._check_types("edge_features", edge_features, edges)
        self._check_types("pair_features", pair_features, edges)
        pairs = []
        self.edge_features: dict[str, FeatureRows] = {}
        self.pair_features: dict[str, FeatureRows | None] = {}
        sizes = np.diff(self.cand_ptr)
        for kind, given in edges.items():
            if not isinstance(kind, str):
                self._fail(f"edges: a type must be a string, got {kind!r:.60}")
            pair = self._check_pairs(kind, given)
            pairs.append(pair)
            m = len(pair)
            rows, tables = edge_features.get(kind), pair_features.get(kind)
            self.edge_features[kind] = constant_rows(m)
            if rows is not None:
                self.edge_features[kind] = self._named(
                    as_rows, rows, m, f"edge_features[{kind!r:.60}]", "edge"
                )
            self.pair_features[kind] = None
            if tables is not None:
                self.pair_features[kind] = self._named(
                    as_stacked_rows, tables, sizes[pair[:, 0]] * sizes[pair[:, 1]],
                    f"pair_features[{kind!r:.60}]", "edge", "pair of values",
                )  # fmt: skip
        self.edge_types = tuple(edges)
        self.n_edges_of_type = tuple(len(pair) for pair in pairs)
        self.n_edges = sum(self.n_edges_of_type)
        both = np.concatenate([np.empty((0, 2), dtype=np.int32), *pairs])
        self.edge_u = np.ascontiguousarray(both[:, 0])
        self.edge_v = np.ascontiguousarray(both[:, 1])
        self.adj_ptr, self.adj_edge = adjacency(
            self.edge_u, self.edge_v, self.n_variables
        )

    def _check_types(self, name: str, given: Any, types: Any) -> None:
        for kind in given:
            if kind not in types:
                self._fail(f"{name}: there are no edges of the type {kind!r:.60}")

    def _check_pairs(self, kind: str, given: Any) -> np.ndarray:
        name = f"edges[{kind!r:.60}]"
        try:
            pair = np.asarray(given)
        except ValueError as exc:
            self._fail(f"{name} must be an array of shape (n_edges, 2): {exc}")
        if pair.size == 0:
            return np.empty((0, 2), dtype=np.int32)
        if pair.ndim != 2 or pair.shape[1] != 2 or pair.dtype.kind not in "iu":
            self._fail(
                f"{name} must be an integer array of shape (n_edges, 2), got "
                f"{pair.dtype} of shape {pair.shape}"
            )
        outside = (pair < 0) | (pair >= self.n_variables)
        if outside.any():
            e = int(np.flatnonzero(outside.any(axis=1))[0])
            missing = int(pair[e][outside[e]][0])
            self._fail(
                f"{name}: edge {e} = {tuple(pair[e].tolist())} leads to variable "
                f"{missing}, but the variables are 0 to {self.n_variables - 1}"
            )
        loop = np.flatnonzero(pair[:, 0] == pair[:, 1])
        if loop.size:
            self._fail(
                f"{name}: edge {int(loop[0])} joins variable {int(pair[loop[0], 0])} "
                "with itself"
            )
        return pair.astype(np.int32)

    def _set_forbidden(self, forbidden: Any) -> None:
        """Tables of allowed pairs, one for each pair of candidate lists."""
        self.mask_first = np.full(self.n_edges, -1, dtype=np.int64)
        self.allowed = np.empty(0, dtype=np.uint8)
        self.start = None  # without constraints every state is allowed
        self.forbidden: dict[str, list] = {}
        forbidden = {} if forbidden is None else dict(forbidden)
        self._check_types("forbidden", forbidden, self.edge_types)
        for kind, pairs in forbidden.items():
            try:
                self.forbidden[kind] = [(a, b) for a, b in pairs]
            except (TypeError, ValueError):
                self._fail(f"forbidden[{kind!r:.60}] must hold pairs of values")
        tables: list[np.ndarray] = []
        first, size = 0, 0
        known: dict[tuple, int] = {}
        for kind, m in zip(self.edge_types, self.n_edges_of_type):
            for e in range(first, first + m) if kind in self.forbidden else ():
                u = self.candidates[self.edge_u[e]]
                v = self.candidates[self.edge_v[e]]
                key = (kind, id(u), id(v))
                if key not in known:
                    table = np.ones((len(u), len(v)), dtype=np.uint8)
                    row, column = ({x: j for j, x in enumerate(end)} for end in (u, v))
                    for a, b in self.forbidden[kind]:
                        if a in row and b in column:
                            table[row[a], column[b]] = 0
                    known[key] = -1
                    if not table.all():
                        known[key] = size
                        tables.append(table.ravel())
                        size += table.size
                self.mask_first[e] = known[key]
            first += m
        if tables:
            self.allowed = np.concatenate(tables)
            self.start = self._first_state()

    def __getstate__(self) -> dict[str, Any]:
        """The parameters, which the constructor checks again when they are loaded."""
        pairs = np.column_stack([self.edge_u, self.edge_v])
        cuts = np.cumsum(self.n_edges_of_type, dtype=int)[:-1]
        return {
            "candidates": self.candidates,
            "features": self.features,
            "candidate_features": self.candidate_features,
            "kinds": None if self.kinds is self.candidates else self.kinds,
            "edges": dict(zip(self.edge_types, np.split(pairs, cuts))),
            "edge_features": self.edge_features,
            "pair_features": self.pair_features,
            "forbidden": self.forbidden,
            "name": self.name,
        }

    def __setstate__(self, state: dict[str, Any]) -> None:
        FactorGraph.__init__(self, **state)

    # ------------------------------------------------------------------ properties

    def __repr__(self) -> str:
        name = "" if self.name is None else f"{self.name!r:.60}, "
        return (
            f"FactorGraph({name}n_variables={self.n_variables}, "
            f"n_candidates={self.n_candidates}, n_edges={self.n_edges})"
        )

    @property
    def constrained(self) -> bool:
        """Whether some pair of values is forbidden."""
        return self.allowed.size > 0

    @property
    def is_forest(self) -> bool:
        """Whether the edges form no loop; parallel edges count as one."""
        return bool(forest(self).is_forest[0])

    @property
    def var_ptr(self) -> np.ndarray:
        """The variables of a block that has only this graph."""
        return np.array([0, self.n_variables], dtype=np.int64)

    @property
    def edge_ptr(self) -> np.ndarray:
        """The edges of a block that has only this graph."""
        return np.array([0, self.n_edges], dtype=np.int64)

    @property
    def pair_ptr(self) -> np.ndarray:
        """First pair of values of each edge, and the end."""
        sizes = np.diff(self.cand_ptr)
        n_pairs = sizes[self.edge_u] * sizes[self.edge_v]
        return np.concatenate([[0], np.cumsum(n_pairs)]).astype(np.int64)

    # --------------------------------------------------------------------- states

    def encode(self, y: Sequence[Any] | np.ndarray) -> np.ndarray:
        """Positions of the values y in the candidates of their variables.

        Parameters
        ----------
        y : array-like of shape (n_variables,)
            A value for each variable.

        Returns
        -------
        state : ndarray of shape (n_variables,), int32

        Raises
        ------
        ValueError
            If y has another length, a value that is not a candidate, or a forbidden
            pair.
        """
        return self.positions(y, False)

    def positions(self, y: Sequence[Any] | np.ndarray, unknown: bool) -> np.ndarray:
        """As `encode`; if `unknown` is True, None gets -1 unless it is a candidate."""
        y = _plain(y)
        if len(y) != self.n_variables:
            self._fail(
                f"y must have a value for each of the {self.n_variables} variables, "
                f"got {len(y)}"
            )
        state = np.empty(self.n_variables, dtype=np.int32)
        position: dict[int, dict] = {}
        for i, (value, values) in enumerate(zip(y, self.candidates)):
            if id(values) not in position:
                position[id(values)] = {v: j for j, v in enumerate(values)}
            try:
                state[i] = position[id(values)][value]
            except (KeyError, TypeError):
                if unknown and value is None:
                    state[i] = -1
                    continue
                shown = ", ".join(repr(v) for v in values[:5])
                self._fail(
                    f"variable {i}: y is {value!r:.60}, which is not among its "
                    f"{len(values)} candidates ({shown}"
                    f"{', ...' if len(values) > 5 else ''})"
                )
        if self.allowed.size:
            self._check_allowed(state)
        return state

    def _check_allowed(self, state: np.ndarray) -> None:
        known = np.minimum(state[self.edge_u], state[self.edge_v]) >= 0
        at = np.flatnonzero(known & (self.mask_first >= 0))
        u, v = self.edge_u[at], self.edge_v[at]
        width = np.diff(self.cand_ptr)[v]
        bad = self.allowed[self.mask_first[at] + state[u] * width + state[v]] == 0
        if bad.any():
            e = np.flatnonzero(bad)[0]
            i, j = int(u[e]), int(v[e])
            self._fail(
                f"variables {i} and {j}: y has the forbidden pair "
                f"({self.candidates[i][state[i]]!r}, {self.candidates[j][state[j]]!r})"
            )

    def decode(self, state: np.ndarray) -> np.ndarray:
        """Values at the positions `state`; the inverse of `encode`."""
        return as_labels([c[a] for c, a in zip(self.candidates, state.tolist())])

    def _first_state(self) -> np.ndarray:
        """A state that satisfies the constraints; ValueError if no state is found."""
        pair_ptr = self.pair_ptr
        pair = np.zeros(int(pair_ptr[-1]))
        for e in np.flatnonzero(self.mask_first >= 0):
            first, end = pair_ptr[e : e + 2].tolist()
            mask = self.allowed[self.mask_first[e] :][: end - first]
            pair[first:end][mask == 0] = -np.inf
        state = np.zeros(self.n_variables, dtype=np.int32)
        potentials = Potentials(self, np.zeros(self.n_candidates), pair)
        alive = np.empty(self.n_candidates, dtype=np.uint8)
        order = forest(self).order
        variable, proved = feasible(potentials, order, alive, state, _SEARCH_LIMIT)
        if variable >= 0 and proved:
            self._fail(
                f"variable {variable}: the forbidden pairs leave it no candidate; "
                "no state satisfies the constraints"
            )
        if variable >= 0:
            self._fail(
                f"variable {variable}: no state that satisfies the constraints was "
                f"found in {_SEARCH_LIMIT} steps; forbid fewer pairs, or leave "
                "out candidates that cannot be"
            )
        return state


class ForestOrder(NamedTuple):
    """Breadth-first order of each instance, parents (-1: root), whether it is a
    forest."""

    order: np.ndarray
    parent: np.ndarray
    is_forest: np.ndarray


def forest(block: Any) -> ForestOrder:
    """The order of a graph, or of a block of graphs."""
    n = int(block.var_ptr[-1])
    order, parent = np.empty(n, dtype=np.int32), np.empty(n, dtype=np.int32)
    is_forest = np.empty(block.var_ptr.size - 1, dtype=np.uint8)
    forests(block, order, parent, is_forest)
    return ForestOrder(order, parent, is_forest)


def adjacency(
    edge_u: np.ndarray, edge_v: np.ndarray, n_variables: int
) -> tuple[np.ndarray, np.ndarray]:
    """The edges of each variable, in order: adj_edge[adj_ptr[v] : adj_ptr[v + 1]]."""
    ends = np.concatenate([edge_u, edge_v])
    edge = np.tile(np.arange(edge_u.size, dtype=np.int32), 2)
    order = np.lexsort((edge, ends))
    adj_ptr = np.zeros(n_variables + 1, dtype=np.int64)
    np.cumsum(np.bincount(ends, minlength=n_variables), out=adj_ptr[1:])
    return adj_ptr, edge[order]


def as_labels(values: list) -> np.ndarray:
    """A 1-d array of the values, with their common type, or of objects."""
    types = {type(v) for v in values}
    if len(types) == 1 and types <= {str, int, float, bool}:
        labels = np.array(values)
        # numpy would strip a null character at the end of a string
        if labels.dtype.kind != "O" and labels.tolist() == values:
            return labels
    labels = np.empty(len(values), dtype=object)
    labels[:] = values
    return labels


def _plain(values: Any) -> list:
    """A list of Python objects; NumPy numbers and strings are converted."""
    values = items(values)
    if not isinstance(values, list):
        raise TypeError("a single value is not a list of values")
    return values
