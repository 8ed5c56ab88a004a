"""Chains, skip-chains and grids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .._checks import check_choice, check_count, check_length
from ._graph import FactorGraph
from ._rows import FeatureRows


def chain_graph(
    values: Sequence[Any],
    features: Any,
    *,
    keys: Iterable[Hashable] = (),
    max_distance: int | None = None,
    edge_features: Any = None,
    forbidden: Iterable[tuple[Any, Any]] | None = None,
    name: str | None = None,
) -> FactorGraph:
    """A chain whose variables all have the same values; a skip-chain with `keys`.

    Parameters
    ----------
    values : sequence of n_values values
        Values that each variable may have, such as all tags. If the same object is
        passed for all chains, it is checked only once.

    features : array-like or sparse matrix of shape (n_variables, n_features)
        Features of the variables.

    keys : iterable of n_variables hashables, default=()
        A key for each variable, such as its word. An edge of the type "skip" joins each
        variable with the next variable with the same key, also if the two are
        neighbours. None is not a key. Empty: no such edges.

    max_distance : int, default=None
        Largest distance of the variables of a skip edge, at least 1. None: no limit.

    edge_features : matrix of shape (n_variables - 1, n_edge_features), default=None
        Features of the edges between neighbours, which have the type "next". None: a
        constant feature.

    forbidden : iterable of (value, value), default=None
        Pairs that must not follow each other, such as ("O", "I").

    name : str, default=None
        Name of the graph in error messages.

    Returns
    -------
    graph : FactorGraph

    Raises
    ------
    ValueError
        If `keys` is not empty and does not have one key per variable, if max_distance
        is below 1, or if `FactorGraph` raises for the values or features.

    Examples
    --------
    >>> from sklstruct.factor_graph import chain_graph
    >>> chain_graph(["B", "I", "O"], [[1.0], [0.0]], forbidden=[("O", "I")])
    FactorGraph(n_variables=2, n_candidates=6, n_edges=1)
    >>> graph = chain_graph(["N", "V"], [[1]] * 4, keys=["a", "b", "c", "a"])
    >>> graph.edge_types, graph.n_edges
    (('next', 'skip'), 4)
    """
    if isinstance(features, FeatureRows):
        n = features.n_rows
    elif getattr(features, "shape", None):
        n = features.shape[0]
    elif isinstance(features, Sequence) and not isinstance(features, str):
        n = len(features)
    else:
        raise ValueError(
            "features must be a matrix with a row for each variable, got "
            f"{type(features).__name__}; without features use FactorGraph"
        )
    if max_distance is not None:
        check_count("max_distance", max_distance, 1)
    if not isinstance(keys, Iterable):
        raise ValueError(f"keys must have one entry per variable, got {keys!r:.60}")
    keys = list(keys)
    if keys:
        check_length("keys", keys, n, "one per variable")
    i = np.arange(max(n - 1, 0), dtype=np.int32)
    edges = {"next": np.column_stack([i, i + 1])}
    last: dict[Hashable, int] = {}
    skips = []
    for v, key in enumerate(keys):
        if key is not None:
            before = last.get(key)
            last[key] = v
            near = max_distance is None or v - (before or 0) <= max_distance
            if before is not None and near:
                skips.append((before, v))
    if skips:
        edges["skip"] = np.array(skips, dtype=np.int32)
    return FactorGraph(
        [values] * n,
        features=features,
        edges=edges,
        edge_features=None if edge_features is None else {"next": edge_features},
        forbidden=None if forbidden is None else {"next": forbidden},
        name=name,
    )


def grid_graph(
    values: Sequence[Any],
    features: Any,
    *,
    connectivity: int = 4,
    forbidden: Mapping[str, Iterable[tuple[Any, Any]]] | None = None,
    name: str | None = None,
) -> FactorGraph:
    """A grid whose variables all have the same values.

    Parameters
    ----------
    values : sequence of n_values values
        Values that each cell may have.

    features : array-like of shape (n_rows, n_columns, n_features)
        Features of the cells.

    connectivity : {4, 8}, default=4
        Neighbours of a cell. 4: edges of the types "horizontal" (left to right) and
        "vertical" (downward). 8: also "diagonal" (down and right) and "antidiagonal"
        (down and left).

    forbidden : mapping from str to iterable of (value, value), default=None
        Pairs of values that the ends of an edge must not have, by type of edge.

    name : str, default=None
        Name of the graph in error messages.

    Returns
    -------
    graph : FactorGraph
        Its variables are the cells, row by row.

    Raises
    ------
    ValueError
        If `connectivity` is not 4 or 8, the features do not have three dimensions, or
        `FactorGraph` raises for the values or features.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.factor_graph import grid_graph
    >>> grid_graph([0, 1], np.ones((3, 4, 2)))
    FactorGraph(n_variables=12, n_candidates=24, n_edges=17)
    """
    check_choice("connectivity", connectivity, (4, 8))
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 3:
        raise ValueError(
            "features must have the shape (n_rows, n_columns, n_features), got "
            f"{features.ndim} dimensions"
        )
    height, width, d = features.shape
    cell = np.arange(height * width, dtype=np.int32).reshape(height, width)
    ends = {
        "horizontal": (cell[:, :-1], cell[:, 1:]),
        "vertical": (cell[:-1], cell[1:]),
        "diagonal": (cell[:-1, :-1], cell[1:, 1:]),
        "antidiagonal": (cell[:-1, 1:], cell[1:, :-1]),
    }
    return FactorGraph(
        [values] * (height * width),
        features=features.reshape(height * width, d),
        edges={
            kind: np.column_stack([a.ravel(), b.ravel()])
            for kind, (a, b) in list(ends.items())[: connectivity // 2]
        },
        forbidden=forbidden,
        name=name,
    )
