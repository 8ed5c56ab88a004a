"""FactorGraphVectorizer: instances from dictionaries of named features."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
from sklearn.feature_extraction import DictVectorizer
from sklearn.utils.validation import check_is_fitted

from .._checks import check_squares
from .._compat import BaseEstimator, TransformerMixin
from ._graph import FactorGraph
from ._rows import FeatureRows, empty_rows, take

_VARIABLE_KEYS = {"candidates", "features", "candidate_features", "kinds"}
_INSTANCE_KEYS = {"variables", "edges", "forbidden", "name"}


class FactorGraphVectorizer(TransformerMixin, BaseEstimator):
    """Makes `FactorGraph` objects of instances written as dictionaries.

    As in `sklearn.feature_extraction.DictVectorizer` a feature is a name and a number,
    or a name and a string (then ``name=string`` is a feature that is 1), or a name and
    an iterable of strings. Names that `fit` did not see are ignored.

    An instance is a mapping with the keys

    - ``"variables"``: for each variable a mapping with ``"candidates"`` (list of
      values), and any of ``"features"`` (mapping), ``"candidate_features"`` (a mapping
      for each candidate), ``"kinds"`` (a kind for each candidate);
    - ``"edges"`` (optional): tuples ``(u, v, type)``, ``(u, v, type, features)`` or
      ``(u, v, type, features, pair_features)``; u and v are positions of variables,
      features is a mapping or None, pair_features maps pairs (value of u, value of v)
      to mappings, and pairs that it leaves out have none;
    - ``"forbidden"`` (optional): as in `FactorGraph`;
    - ``"name"`` (optional): named in error messages.

    Edges of a type that had no features in `fit` have the constant feature of
    `FactorGraph`, hence a weight for each pair of kinds. Features of a type replace it:
    add one that is always 1 if the type should have both.

    Attributes
    ----------
    feature_names_ : ndarray of shape (n_features,)
        Names of the features of variables, in the order of the rows of
        ``feature_coef_``.

    candidate_feature_names_ : ndarray of shape (n_candidate_features,)
        Names of the features of candidates.

    edge_feature_names_ : dict from str to ndarray
        Names of the features of edges, by type; of types that have some.

    pair_feature_names_ : dict from str to ndarray
        Names of the features of pairs of values, by type; of types that have some.

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
    ['role=object', 'role=subject']
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
        self._fit(_Reading(X))
        return self

    def fit_transform(
        self, X: Iterable[Mapping[str, Any]], y: Any = None
    ) -> list[FactorGraph]:
        """Learn the names and return the instances; same as fit, then transform.

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
        reading = _Reading(X)
        self._fit(reading)
        return self._transform(reading)

    def transform(self, X: Iterable[Mapping[str, Any]]) -> list[FactorGraph]:
        """Instances as graphs.

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
            If an instance is malformed; the message names it and the variable.
        """
        check_is_fitted(self, "feature_names_")
        return self._transform(_Reading(X))

    def _fit(self, reading: _Reading) -> None:
        sorts = [key for key, dicts in reading.dicts.items() if any(dicts)]
        # Keys are strings: formats other than pickle allow no other keys.
        self._encoders = {
            " ".join(key): DictVectorizer().fit(reading.dicts[key]) for key in sorts
        }

        def names(key: tuple) -> np.ndarray:
            if key not in sorts:
                return np.empty(0, dtype=object)
            return self._encoders[" ".join(key)].get_feature_names_out()

        self.feature_names_ = names(("features",))
        self.candidate_feature_names_ = names(("candidate_features",))
        self.edge_feature_names_, self.pair_feature_names_ = (
            {key[1]: names(key) for key in sorts if key[0] == what}
            for what in ("edge", "pair")
        )

    def _rows(self, reading: _Reading, key: tuple) -> FeatureRows:
        """All feature dictionaries of one sort as rows."""
        dicts = reading.dicts.get(key, [])
        n_rows = reading.n_pairs.get(key, len(dicts))
        encoder = self._encoders.get(" ".join(key))
        if encoder is None:
            return empty_rows(n_rows)
        width = len(encoder.vocabulary_)
        if not dicts:
            return empty_rows(n_rows, width)
        matrix = encoder.transform(dicts).tocsr()
        matrix.sum_duplicates()
        what = " ".join(key)
        if not np.isfinite(matrix.data).all():
            bad = np.flatnonzero(~np.isfinite(matrix.data))[0]
            row = int(np.searchsorted(matrix.indptr, bad, side="right")) - 1
            name = encoder.get_feature_names_out()[matrix.indices[bad]]
            raise ValueError(
                f"{reading.owner(key, row)}: feature {name!r} is NaN or infinite"
            )
        check_squares(matrix, name=what)
        return FeatureRows.of(matrix)

    def _transform(self, reading: _Reading) -> list[FactorGraph]:
        rows = {
            key: self._rows(reading, key)
            for key in {
                ("features",),
                ("candidate_features",),
                *reading.dicts,
                *reading.n_pairs,
            }
        }
        at = dict.fromkeys(rows, 0)

        def part(key: tuple, n_rows: int) -> FeatureRows:
            start = at[key]
            at[key] = start + n_rows
            return take(rows[key], start, start + n_rows)

        graphs = []
        for instance in reading.instances:
            edges, edge_features, pair_features = {}, {}, {}
            for kind, (pairs, n_tables) in instance.edges.items():
                edges[kind] = pairs
                crossed = part(("edge", kind), len(pairs))
                if f"edge {kind}" in self._encoders:
                    edge_features[kind] = crossed
                tables = part(("pair", kind), n_tables)
                if f"pair {kind}" in self._encoders:
                    pair_features[kind] = tables
            graphs.append(
                FactorGraph(
                    instance.candidates,
                    features=part(("features",), len(instance.candidates)),
                    candidate_features=part(
                        ("candidate_features",), instance.n_candidates
                    ),
                    kinds=instance.kinds,
                    edges=edges,
                    edge_features=edge_features,
                    pair_features=pair_features,
                    forbidden=instance.forbidden,
                    name=instance.name,
                )
            )
        return graphs

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.dict = True
        return tags


class _Instance:
    """One instance without its feature dictionaries."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.candidates: list = []
        self.kinds: list | None = None
        self.n_candidates = 0
        self.edges: dict[str, tuple[list, int]] = {}
        self.forbidden: Any = None


class _Reading:
    """All instances, whose form is checked.

    dicts holds the feature dictionaries of each sort, in the order of the instances:
    ("features",), ("candidate_features",), ("edge", type), ("pair", type).
    """

    def __init__(self, X: Iterable[Mapping[str, Any]]) -> None:
        if isinstance(X, Mapping):
            raise ValueError(
                "X must be a list of instances; wrap a single one in a list"
            )
        self.dicts: dict[tuple, list] = {}
        self.instances: list[_Instance] = []
        self._owners: dict[tuple, list] = {}
        self._tables: dict[str, list] = {}
        for i, given in enumerate(X):
            self.instances.append(self._read(i, given))
        self.n_pairs = {
            ("pair", kind): sum(len(a) * len(b) for a, b, _, _ in edges)
            for kind, edges in self._tables.items()
        }
        # Only for types with features of pairs: there are many pairs.
        for kind, edges in self._tables.items():
            if any(tables for _, _, tables, _ in edges):
                for first, second, tables, label in edges:
                    for pair in product(first, second):
                        self._add(("pair", kind), tables.get(pair), label)

    def owner(self, key: tuple, row: int) -> str:
        """The owner of a feature dictionary, for error messages."""
        return self._owners[key][row]

    def _add(self, key: tuple, features: Any, owner: str) -> None:
        if features is None:
            features = {}
        if not isinstance(features, Mapping):
            raise ValueError(
                f"{owner}: features must be a mapping from names to values, got "
                f"{type(features).__name__}"
            )
        self.dicts.setdefault(key, []).append(features)
        self._owners.setdefault(key, []).append(owner)

    def _read(self, i: int, given: Any) -> _Instance:
        if not isinstance(given, Mapping) or "variables" not in given:
            raise ValueError(
                f"instance {i}: must be a mapping with the key 'variables', got "
                f"{type(given).__name__}"
            )
        _only(given, _INSTANCE_KEYS, f"instance {i}")
        name = given.get("name")
        instance = _Instance(str(i) if name is None else str(name))
        where = f"instance {instance.name!r}"
        kinds: list[Any] = []
        for j, variable in enumerate(given["variables"]):
            label = f"{where}: variable {j}"
            if not isinstance(variable, Mapping) or "candidates" not in variable:
                raise ValueError(f"{label}: must be a mapping with 'candidates'")
            _only(variable, _VARIABLE_KEYS, label)
            values = variable["candidates"]
            if not isinstance(values, (Sequence, np.ndarray)):
                raise ValueError(f"{label}: candidates must be a list of values")
            instance.candidates.append(values)
            kinds.append(variable.get("kinds"))
            self._add(("features",), variable.get("features"), label)
            own = variable.get("candidate_features")
            own = [None] * len(values) if own is None else list(own)
            if len(own) != len(values):
                raise ValueError(
                    f"{label}: candidate_features has {len(own)} entries for "
                    f"{len(values)} candidates"
                )
            for features in own:
                self._add(("candidate_features",), features, label)
            instance.n_candidates += len(values)
        if any(k is not None for k in kinds):
            instance.kinds = [
                v if k is None else k for k, v in zip(kinds, instance.candidates)
            ]
        self._read_edges(instance, given.get("edges") or (), where)
        instance.forbidden = given.get("forbidden")
        return instance

    def _read_edges(self, instance: _Instance, edges: Any, where: str) -> None:
        n = len(instance.candidates)
        for e, edge in enumerate(edges):
            label = f"{where}: edge {e}"
            if not isinstance(edge, (tuple, list)) or not 3 <= len(edge) <= 5:
                raise ValueError(
                    f"{label}: must be (u, v, type), (u, v, type, features) or "
                    f"(u, v, type, features, pair_features), got {edge!r}"
                )
            u, v, kind, features, tables = (*edge, None, None)[:5]
            for end in (u, v):
                if not isinstance(end, (int, np.integer)) or not 0 <= end < n:
                    raise ValueError(
                        f"{label} leads to variable {end!r}, but the variables are 0 "
                        f"to {n - 1}"
                    )
            if not isinstance(kind, str):
                raise ValueError(f"{label}: the type must be a string, got {kind!r}")
            self._add(("edge", kind), features, label)
            tables = {} if tables is None else tables
            if not isinstance(tables, Mapping):
                raise ValueError(f"{label}: pair_features must be a mapping")
            first, second = list(instance.candidates[u]), list(instance.candidates[v])
            if tables:
                unknown = set(tables) - set(product(first, second))
                if unknown:
                    raise ValueError(
                        f"{label}: pair_features has {next(iter(unknown))!r}, which "
                        f"are no candidates of the variables {u} and {v}"
                    )
            self._tables.setdefault(kind, []).append((first, second, tables, label))
            n_pairs = len(first) * len(second)
            known, n_tables = instance.edges.get(kind, ([], 0))
            known.append((int(u), int(v)))
            instance.edges[kind] = (known, n_tables + n_pairs)


def _only(given: Mapping, keys: set[str], where: str) -> None:
    extra = set(given) - keys
    if extra:
        raise ValueError(
            f"{where}: unknown key {sorted(map(str, extra))[0]!r}; known are "
            f"{', '.join(sorted(keys))}"
        )
