"""FactorGraphVectorizer: instances from dictionaries of named features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._compat import BaseEstimator, TransformerMixin
from ._features_fast import FeatureReader
from ._graph import FactorGraph
from ._observations import Names, read_items, rows_of_entries
from ._predictor import as_list
from ._rows import FeatureRows, empty_rows, take

_VARIABLE_KEYS = {"candidates", "features", "candidate_features", "kinds"}
_INSTANCE_KEYS = {"variables", "edges", "forbidden", "name"}


class FactorGraphVectorizer(TransformerMixin, BaseEstimator):
    """Creates `FactorGraph` objects from dictionaries of named features.

    As in ``DictVectorizer(separator=":")`` of scikit-learn, a feature is a name and a
    number, a name and a string, or a name and an iterable of strings. A string becomes
    the feature ``name:string`` with the value 1. Names that `fit` did not see are
    ignored.

    An instance is a mapping with the keys

    - ``"variables"``: for each variable a mapping with ``"candidates"`` (list of
      values), and any of ``"features"`` (mapping), ``"candidate_features"`` (a mapping
      for each candidate), ``"kinds"`` (a kind for each candidate);
    - ``"edges"`` (optional): tuples ``(u, v, type)``, ``(u, v, type, features)`` or
      ``(u, v, type, features, pair_features)``; u and v are positions of variables,
      features is a mapping or None, pair_features maps pairs (value of u, value of v)
      to mappings, and may leave out pairs without features;
    - ``"forbidden"`` (optional): as in `FactorGraph`;
    - ``"name"`` (optional): name of the instance in error messages.

    Edges of a type without features in `fit` have the constant feature of
    `FactorGraph`, and so a weight for each pair of kinds. If a type has features, they
    replace the constant feature; add a feature that is always 1 to have both.

    Attributes
    ----------
    feature_names_ : ndarray of shape (n_features,)
        Names of the features of variables, in the order of the rows of
        ``feature_coef_``.

    candidate_feature_names_ : ndarray of shape (n_candidate_features,)
        Names of the features of candidates.

    edge_feature_names_ : dict from str to ndarray
        Names of the features of edges, by type; types without features are left out.

    pair_feature_names_ : dict from str to ndarray
        Names of the features of pairs of values, by type.

    See Also
    --------
    FactorGraph : The result.

    Examples
    --------
    >>> from sklstruct.factor_graph import FactorGraphVectorizer
    >>> text = {
    ...     "variables": [
    ...         {"candidates": ["Ada", "she"], "features": {"role": "subject"}},
    ...         {"candidates": ["Ada", "she"], "features": {"role": "object"}},
    ...     ],
    ...     "edges": [(0, 1, "next", {"distance": 3.0})],
    ... }
    >>> vectorizer = FactorGraphVectorizer().fit([text])
    >>> vectorizer.feature_names_.tolist()
    ['role:object', 'role:subject']
    >>> vectorizer.transform([text])
    [FactorGraph('0', n_variables=2, n_candidates=4, n_edges=1)]
    """

    def fit(
        self, X: Iterable[Mapping[str, Any]], y: Any = None
    ) -> FactorGraphVectorizer:
        """Learn the names of the features.

        Parameters
        ----------
        X : iterable of mappings
            Instances.

        y : None
            Ignored.

        Returns
        -------
        self : FactorGraphVectorizer
            Fitted vectorizer.
        """
        self._fit(_Instances(X))
        return self

    def fit_transform(
        self, X: Iterable[Mapping[str, Any]], y: Any = None
    ) -> list[FactorGraph]:
        """Learn the names and convert the instances; equals fit, then transform.

        Parameters
        ----------
        X : iterable of mappings
            Instances.

        y : None
            Ignored.

        Returns
        -------
        graphs : list of FactorGraph
        """
        instances = _Instances(X)
        self._fit(instances)
        return self._transform(instances)

    def transform(self, X: Iterable[Mapping[str, Any]]) -> list[FactorGraph]:
        """Convert instances to graphs.

        Parameters
        ----------
        X : iterable of mappings
            Instances.

        Returns
        -------
        graphs : list of FactorGraph

        Raises
        ------
        ValueError
            If an instance is malformed; the message names the instance and the
            variable.
        """
        check_is_fitted(self, "feature_names_")
        return self._transform(_Instances(X))

    def _fit(self, instances: _Instances) -> None:
        self._columns: dict[str, dict[str, int]] = {}
        for sort, given in instances.sorts.items():
            if given.dicts:
                names = Names()
                entries = read_items(given.dicts, names.reader, given.owner)
                self._columns[sort], new = names.finish()
                given.entries = entries, new

        def names_of(sort: str) -> np.ndarray:
            return np.array(list(self._columns.get(sort, ())), dtype=object)

        self.feature_names_ = names_of("features")
        self.candidate_feature_names_ = names_of("candidate_features")
        self.edge_feature_names_, self.pair_feature_names_ = (
            {
                sort.removeprefix(what): names_of(sort)
                for sort in self._columns
                if sort.startswith(what)
            }
            for what in ("edge ", "pair ")
        )

    def _rows(self, given: _Sort, sort: str) -> FeatureRows:
        """All feature dictionaries of one kind as rows."""
        columns = self._columns.get(sort)
        if columns is None:
            return empty_rows(given.n_rows)
        if given.entries is None:
            reader = FeatureReader(columns, False)
            entries = read_items(given.dicts, reader, given.owner)
            given.entries = entries, np.arange(len(columns))
        (per_dict, column, value), new = given.entries
        per_row = np.zeros(given.n_rows, dtype=np.int64)
        per_row[given.row] = per_dict
        return rows_of_entries(per_row, column, value, new)

    def _transform(self, instances: _Instances) -> list[FactorGraph]:
        rows = {
            sort: self._rows(given, sort) for sort, given in instances.sorts.items()
        }
        at = dict.fromkeys(rows, 0)

        def part(sort: str, n_rows: int) -> FeatureRows:
            start = at[sort]
            at[sort] = start + n_rows
            return take(rows[sort], start, start + n_rows)

        graphs = []
        for params, edges in instances.instances:
            pairs = {kind: known for kind, (known, _) in edges.items()}
            graph = FactorGraph(**params, edges=pairs)
            # The rows are not checked, because they were created here.
            graph.features = part("features", graph.n_variables)
            graph.candidate_features = part("candidate_features", graph.n_candidates)
            for kind, (known, n_pairs) in edges.items():
                crossed = part(f"edge {kind}", len(known))
                if f"edge {kind}" in self._columns:
                    graph.edge_features[kind] = crossed
                tables = part(f"pair {kind}", n_pairs)
                if f"pair {kind}" in self._columns:
                    graph.pair_features[kind] = tables
            graphs.append(graph)
        return graphs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        return tags


class _Sort:
    """The feature dictionaries of one kind, in the order of the instances."""

    def __init__(self) -> None:
        self.n_rows = 0
        self.row: list[int] = []  # row of each dictionary; other rows have no features
        self.dicts: list[Mapping] = []
        self.owners: list[tuple] = []
        self.entries: Any = None  # result of `read_items`, and the columns

    def owner(self, at: int) -> str:
        """The owner of a dictionary, for error messages."""
        return _say(self.owners[at])


class _Instances:
    """All instances, after checks of their form.

    sorts has the feature dictionaries by kind: "features", "candidate_features", "edge
    TYPE", "pair TYPE". instances has for each instance the parameters of its graph and,
    by type, its edges and the number of their pairs of values.
    """

    def __init__(self, X: Iterable[Mapping[str, Any]]) -> None:
        if isinstance(X, Mapping):
            raise ValueError(
                "X must be a list of instances; wrap a single instance in a list"
            )
        self.sorts = {"features": _Sort(), "candidate_features": _Sort()}
        X = as_list("X", X, "of instances")
        self.instances = [self._read(i, given) for i, given in enumerate(X)]

    def _add(self, given: _Sort, features: Any, owner: tuple) -> None:
        if features is not None:
            if not isinstance(features, (dict, Mapping)):
                raise ValueError(
                    f"{_say(owner)}: features must be a mapping from names to values, "
                    f"got {type(features).__name__}"
                )
            if features:
                given.row.append(given.n_rows)
                given.dicts.append(features)
                given.owners.append(owner)
        given.n_rows += 1

    def _read(self, i: int, given: Any) -> tuple[dict, dict]:
        if not isinstance(given, Mapping) or "variables" not in given:
            raise ValueError(
                f"instance {i}: must be a mapping with the key 'variables', got "
                f"{type(given).__name__}"
            )
        _only(given, _INSTANCE_KEYS, f"instance {i}")
        name = given.get("name")
        name = str(i if name is None else name)
        where = f"instance {name!r}"
        candidates: list[Any] = []
        kinds: list[Any] = []
        of_variables = self.sorts["features"]
        of_candidates = self.sorts["candidate_features"]
        for j, variable in enumerate(given["variables"]):
            label = where, "variable", j
            is_mapping = isinstance(variable, (dict, Mapping))
            if not is_mapping or "candidates" not in variable:
                raise ValueError(f"{_say(label)}: must be a mapping with 'candidates'")
            _only(variable, _VARIABLE_KEYS, label)
            values = variable["candidates"]
            if not isinstance(values, (list, tuple, Sequence, np.ndarray)):
                raise ValueError(f"{_say(label)}: candidates must be a list of values")
            candidates.append(values)
            kinds.append(variable.get("kinds"))
            self._add(of_variables, variable.get("features"), label)
            own = variable.get("candidate_features")
            if own is None:
                of_candidates.n_rows += len(values)
            else:
                own = list(own)
                if len(own) != len(values):
                    raise ValueError(
                        f"{_say(label)}: candidate_features has {len(own)} entries for "
                        f"{len(values)} candidates"
                    )
                for features in own:
                    self._add(of_candidates, features, label)
        params = {
            "candidates": candidates,
            "kinds": None,
            "forbidden": given.get("forbidden"),
            "name": name,
        }
        if any(k is not None for k in kinds):
            params["kinds"] = [v if k is None else k for k, v in zip(kinds, candidates)]
        return params, self._read_edges(candidates, given.get("edges") or (), where)

    def _read_edges(self, candidates: list, edges: Any, where: str) -> dict:
        sizes = list(map(len, candidates))
        n = len(sizes)
        # For each type: the two kinds of features and the edges; the number of pairs of
        # values.
        kinds: dict[str, tuple[_Sort, _Sort, list]] = {}
        n_tables: dict[str, int] = {}
        for e, edge in enumerate(edges):
            label = where, "edge", e
            features = tables = None
            if isinstance(edge, (tuple, list)) and len(edge) == 3:
                u, v, kind = edge
            elif isinstance(edge, (tuple, list)) and 3 < len(edge) <= 5:
                u, v, kind, features, tables = (*edge, None)[:5]
            else:
                raise ValueError(
                    f"{_say(label)}: must be (u, v, type), (u, v, type, features) or "
                    f"(u, v, type, features, pair_features), got {edge!r}"
                )
            for end in (u, v):
                if not isinstance(end, (int, np.integer)) or not 0 <= end < n:
                    raise ValueError(
                        f"{_say(label)} leads to variable {end!r}, but the variables "
                        f"are 0 to {n - 1}"
                    )
            if not isinstance(kind, str):
                raise ValueError(
                    f"{_say(label)}: the type must be a string, got {kind!r}"
                )
            if kind not in kinds:
                crossed, of_pairs = (
                    self.sorts.setdefault(f"{what} {kind}", _Sort())
                    for what in ("edge", "pair")
                )
                kinds[kind] = crossed, of_pairs, []
                n_tables[kind] = 0
            crossed, of_pairs, known = kinds[kind]
            known.append((int(u), int(v)))
            n_pairs = sizes[u] * sizes[v]
            n_tables[kind] += n_pairs
            if features is None:
                crossed.n_rows += 1
            else:
                self._add(crossed, features, label)
            if tables is not None and not isinstance(tables, Mapping):
                raise ValueError(f"{_say(label)}: pair_features must be a mapping")
            if tables:
                first, second = candidates[u], candidates[v]
                self._add_tables(of_pairs, tables, first, second, label)
            else:
                of_pairs.n_rows += n_pairs
        return {kind: (known, n_tables[kind]) for kind, (_, _, known) in kinds.items()}

    def _add_tables(
        self, given: _Sort, tables: Any, first: Any, second: Any, label: tuple
    ) -> None:
        """The features of the pairs of values of an edge."""
        pairs = list(product(list(first), list(second)))
        unknown = set(tables) - set(pairs)
        if unknown:
            raise ValueError(
                f"{_say(label)}: pair_features has {next(iter(unknown))!r}, which are "
                "not candidates of its variables"
            )
        for pair in pairs:
            self._add(given, tables.get(pair), label)


def _say(owner: tuple) -> str:
    where, what, number = owner
    return f"{where}: {what} {number}"


def _only(given: Mapping, keys: set[str], where: str | tuple) -> None:
    if not keys.issuperset(given):
        extra = set(given) - keys
        where = where if isinstance(where, str) else _say(where)
        raise ValueError(
            f"{where}: unknown key {sorted(map(str, extra))[0]!r}; known are "
            f"{', '.join(sorted(keys))}"
        )
