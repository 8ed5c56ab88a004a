"""Chains, skip-chains and grids."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.sparse as sp

from ._graph import FactorGraph
from ._rows import FeatureRows


def chain_edges(n_variables: int) -> np.ndarray:
    """Edges from each variable to the next one.

    Parameters
    ----------
    n_variables : int
        At least 0.

    Returns
    -------
    edges : ndarray of shape (max(n_variables - 1, 0), 2)

    Examples
    --------
    >>> from sklstruct.factor_graph import chain_edges
    >>> chain_edges(3).tolist()
    [[0, 1], [1, 2]]
    """
    i = np.arange(max(n_variables - 1, 0), dtype=np.int32)
    return np.column_stack([i, i + 1])


def skip_edges(
    keys: Iterable[Hashable], *, max_distance: int | None = None
) -> np.ndarray:
    """Edges from each variable to the next one that has the same key.

    Parameters
    ----------
    keys : iterable of hashable
        A key for each variable, such as its lower-cased word; None: no edges.

    max_distance : int, default=None
        Largest distance of the variables of an edge, at least 1. None: no limit.

    Returns
    -------
    edges : ndarray of shape (n_edges, 2)
        Neighbours with equal keys are joined too.

    Examples
    --------
    >>> from sklstruct.factor_graph import skip_edges
    >>> skip_edges(["Apple", None, "eats", "Apple", None, "Apple"]).tolist()
    [[0, 3], [3, 5]]
    """
    last: dict[Hashable, int] = {}
    edges = []
    for i, key in enumerate(keys):
        if key is None:
            continue
        before = last.get(key)
        last[key] = i
        if before is not None and (max_distance is None or i - before <= max_distance):
            edges.append((before, i))
    return np.array(edges, dtype=np.int32).reshape(-1, 2)


def grid_edges(
    shape: tuple[int, int], *, connectivity: int = 4
) -> dict[str, np.ndarray]:
    """Edges between neighbours of a grid, whose cells are numbered row by row.

    Parameters
    ----------
    shape : (int, int)
        Rows and columns.

    connectivity : {4, 8}, default=4
        8 adds the diagonals.

    Returns
    -------
    edges : dict from str to ndarray of shape (n_edges, 2)
        Of the types "horizontal" (left to right), "vertical" (downward) and, for 8,
        "diagonal" (down and right) and "antidiagonal" (down and left).

    Examples
    --------
    >>> from sklstruct.factor_graph import grid_edges
    >>> {kind: e.tolist() for kind, e in grid_edges((2, 2)).items()}
    {'horizontal': [[0, 1], [2, 3]], 'vertical': [[0, 2], [1, 3]]}
    """
    if connectivity not in (4, 8):
        raise ValueError(f"connectivity must be 4 or 8, got {connectivity!r}")
    height, width = shape
    cell = np.arange(height * width, dtype=np.int32).reshape(height, width)
    steps = {
        "horizontal": (cell[:, :-1], cell[:, 1:]),
        "vertical": (cell[:-1], cell[1:]),
        "diagonal": (cell[:-1, :-1], cell[1:, 1:]),
        "antidiagonal": (cell[:-1, 1:], cell[1:, :-1]),
    }
    return {
        kind: np.column_stack([a.ravel(), b.ravel()])
        for kind, (a, b) in list(steps.items())[: 2 if connectivity == 4 else 4]
    }


def chain_graph(
    values: Sequence[Any],
    features: Any,
    *,
    edge_features: Any = None,
    forbidden: Iterable[tuple[Any, Any]] | None = None,
    name: str | None = None,
) -> FactorGraph:
    """A chain whose variables all have the same values.

    Parameters
    ----------
    values : sequence of n_values values
        Values that each variable may have, such as all tags. Pass the same object for
        all chains: it is then read once.

    features : array-like or sparse matrix of shape (n_variables, n_features)
        Features of the variables.

    edge_features : matrix of shape (n_variables - 1, n_edge_features), default=None
        Features of the edges, which are of the type "next". None: a constant.

    forbidden : iterable of (value, value), default=None
        Pairs that must not follow each other, such as ("O", "I").

    name : str, default=None
        Named in error messages.

    Returns
    -------
    graph : FactorGraph

    Examples
    --------
    >>> from sklstruct.factor_graph import chain_graph
    >>> chain_graph(["B", "I", "O"], [[1.0], [0.0]], forbidden=[("O", "I")])
    FactorGraph(n_variables=2, n_candidates=6, n_edges=1)
    """
    return skip_chain_graph(
        values,
        features,
        (),
        edge_features=edge_features,
        forbidden=forbidden,
        name=name,
    )


def skip_chain_graph(
    values: Sequence[Any],
    features: Any,
    keys: Iterable[Hashable],
    *,
    max_distance: int | None = None,
    edge_features: Any = None,
    forbidden: Iterable[tuple[Any, Any]] | None = None,
    name: str | None = None,
) -> FactorGraph:
    """A chain with further edges between variables that have the same key.

    Parameters
    ----------
    values : sequence of n_values values
        Values that each variable may have. Pass the same object for all chains.

    features : array-like or sparse matrix of shape (n_variables, n_features)
        Features of the variables.

    keys : iterable of n_variables hashables
        Each variable is joined with the next one of equal key by an edge of the type
        "skip"; None: no edges. See `skip_edges`.

    max_distance : int, default=None
        Longest skip; None: no limit.

    edge_features : matrix of shape (n_variables - 1, n_edge_features), default=None
        Features of the edges of the type "next". None: a constant.

    forbidden : iterable of (value, value), default=None
        Pairs that must not follow each other.

    name : str, default=None
        Named in error messages.

    Returns
    -------
    graph : FactorGraph

    Examples
    --------
    >>> from sklstruct.factor_graph import skip_chain_graph
    >>> graph = skip_chain_graph(["N", "V"], [[1]] * 4, ["a", "b", "c", "a"])
    >>> graph.edge_types, graph.n_edges
    (('next', 'skip'), 4)
    """
    n = _n_rows(features)
    keys = list(keys)
    if keys and len(keys) != n:
        raise ValueError(f"keys must have {n} entries, one a variable, got {len(keys)}")
    edges = {"next": chain_edges(n)}
    skips = skip_edges(keys, max_distance=max_distance)
    if len(skips):
        edges["skip"] = skips
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
        Neighbours of a cell; see `grid_edges` for the types of the edges.

    forbidden : mapping from str to iterable of (value, value), default=None
        By type of edge.

    name : str, default=None
        Named in error messages.

    Returns
    -------
    graph : FactorGraph
        Its variables are the cells, row by row.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.factor_graph import grid_graph
    >>> grid_graph([0, 1], np.ones((3, 4, 2)))
    FactorGraph(n_variables=12, n_candidates=24, n_edges=17)
    """
    features = np.asarray(features, dtype=np.float64)
    if features.ndim != 3:
        raise ValueError(
            "features must have the shape (n_rows, n_columns, n_features), got "
            f"{features.ndim} dimensions"
        )
    height, width, d = features.shape
    return FactorGraph(
        [values] * (height * width),
        features=features.reshape(height * width, d),
        edges=grid_edges((height, width), connectivity=connectivity),
        forbidden=forbidden,
        name=name,
    )


def _n_rows(features: Any) -> int:
    if isinstance(features, FeatureRows):
        return features.n_rows
    return features.shape[0] if sp.issparse(features) else len(features)
