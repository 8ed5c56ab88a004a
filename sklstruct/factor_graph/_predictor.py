"""Base of the models over factor graphs: instances as input, states and scores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._compat import BaseEstimator, check_weights
from .._parallel import ThreadMap
from ..symbols import (
    LabelLists,
    check_pairs,
    count_right,
    is_missing,
    items,
    refuse_frame,
    share_right,
)
from ._graph import FactorGraph, as_labels
from ._inference import BUDGET, BlockInference
from ._observations import chains, find_columns, learn_columns
from ._pack import Block, Packed, WeightLayout, check_graphs, in_order, unpacked
from ._rows import FeatureRows
from ._samplerank_fast import Graphs

# For `shared_docs`.
ATTRIBUTES = """
    coef_ : ndarray of shape (n_weights,)
        All weights. The other arrays of weights below are views of `coef_`.

    kinds_ : ndarray of shape (n_kinds,)
        Kinds of values in the training instances, sorted; empty if no weight depends on
        the kind.

    feature_coef_ : ndarray of shape (n_features, n_kinds)
        Weights of `features`.

    candidate_coef_ : ndarray of shape (n_candidate_features,)
        Weights of `candidate_features`.

    edge_coef_ : dict from str to ndarray of shape (n_edge_features, n_kinds, n_kinds)
        Weights of `edge_features` by type of edge; the kind of an edge's first variable
        comes first. If X had sequences, ``edge_coef_["next"][0]`` has the transitions.

    pair_coef_ : dict from str to ndarray of shape (n_pair_features,)
        Weights of `pair_features` by type of edge.

    classes_ : ndarray of shape (n_classes,)
        Labels, sorted, if X had sequences of observations. In a model that was read by
        ``load``, labels and names of features have the order of the file.

    feature_names_ : ndarray of shape (n_features,)
        Names of the features, sorted, if X had sequences of observations.
"""


class GraphPredictor(BaseEstimator):
    """Base of the models with a weight for each feature of a `FactorGraph`.

    X is a list of graphs, or of sequences of observations, which become chains: fit
    then sets `feature_names_` and `classes_`, and prediction reads the same names.
    """

    feature_names_: np.ndarray | None
    classes_: np.ndarray
    _columns: dict[str, int] | None
    _layout: WeightLayout
    coef_: np.ndarray
    kinds_: np.ndarray
    n_jobs: int | None

    # ----------------------------------------------------------------------- input

    def _learn_input(
        self, X: Any, y: Any
    ) -> tuple[list[FactorGraph], np.ndarray, dict[str, int] | None]:
        """(instances, positions of y in their candidates, columns of names)."""
        X = as_instances(X)
        if isinstance(X[0], FactorGraph):
            graphs = check_graphs(X)
            return graphs, encode(graphs, y), None
        lengths, rows, path, columns, values = self._learn_sequences(X, y, False)
        return chains(lengths, rows, values), path, columns

    def _learn_sequences(
        self, X: list, y: Any, unknown: bool
    ) -> tuple[np.ndarray, FeatureRows, np.ndarray, dict[str, int], list]:
        """Lengths, rows of all items, positions of all labels, columns and labels.

        unknown: whether None, and -1 among integers, are unknown labels with the id -1.
        """
        lengths, rows, columns = learn_columns(X)
        labels = check_labels(y, lengths.tolist(), unknown)
        distinct = {label for row in labels for label in row}
        distinct.discard(None)
        if unknown and all(isinstance(v, int) for v in distinct):
            distinct.discard(-1)
        values = in_order(distinct)
        if not values:
            raise ValueError(
                "X has no observations: all its sequences are empty"
                if not any(labels)
                else "y has no label to learn from: all are unknown"
            )
        code = {label: a for a, label in enumerate(values)}
        path = np.array([code.get(v, -1) for row in labels for v in row], np.int32)
        return lengths, rows, path, columns, values

    def _graphs(self, X: Any) -> list[FactorGraph]:
        """Instances of prediction."""
        X = self._instances(X)
        fits = self.coef_.shape == (self._layout.n_weights,)
        if self._columns is not None:
            fits &= len(self._columns) == self._layout.n_features
        if not fits:  # the kernels do not check sizes
            raise ValueError("coef_ does not have the size that fit gave it")
        if self._columns is not None:
            # edges have no weights if all training sequences had one item
            joined = bool(self._layout.edge_types)
            rows = find_columns(X, self._columns)
            return chains(*rows, self.classes_.tolist(), joined)
        graphs = check_graphs(X)
        self._layout.check(graphs)
        return graphs

    def _instances(self, X: Any) -> list:
        """X as a list, of sequences if those of `fit` were sequences."""
        # check_is_fitted takes longer than the prediction of a sequence.
        if "coef_" not in vars(self):
            check_is_fitted(self)
        X = as_instances(X, 0)
        if X and isinstance(X[0], FactorGraph) and self._columns is not None:
            raise ValueError(
                "X must be sequences of observations, as in fit; got FactorGraph, "
                "whose columns of features have no names"
            )
        return X

    # --------------------------------------------------------------------- weights

    def _set_model(
        self,
        layout: WeightLayout,
        coef: np.ndarray,
        columns: dict[str, int] | None,
        **others: Any,
    ) -> None:
        """Set all fitted attributes in one assignment.

        So an error or interrupt in `fit` does not change an earlier fitted model.

        columns: the column of each name of sequences, whose labels are the kinds; None
            for graphs.
        """
        model = {
            name: value
            for name, value in vars(self).items()
            if name not in ("classes_", "feature_names_", "_reader")
        }
        kinds = as_labels(layout.kinds)
        model |= {"_layout": layout, "coef_": coef, "kinds_": kinds, **others}
        model["_columns"] = columns
        if columns is not None:
            model["classes_"] = kinds
            model["feature_names_"] = np.array(list(columns), dtype=object)
        self.__dict__ = model

    @property
    def feature_coef_(self) -> np.ndarray:
        """Weights of `features`, a view of `coef_`."""
        shape = self._layout.n_features, self._layout.n_kinds
        return self.coef_[: self._layout.own_offset].reshape(shape)

    @property
    def candidate_coef_(self) -> np.ndarray:
        """Weights of `candidate_features`, a view of `coef_`."""
        start = self._layout.own_offset
        return self.coef_[start : start + self._layout.n_candidate_features]

    @property
    def edge_coef_(self) -> dict[str, np.ndarray]:
        """Weights of `edge_features` by type of edge, views of `coef_`."""
        layout, k = self._layout, self._layout.n_kinds
        return {
            kind: self.coef_[start : start + d * k * k].reshape(d, k, k)
            for kind, start, d in zip(
                layout.edge_types, layout.cross_offset.tolist(), layout.n_edge_features
            )
        }

    @property
    def pair_coef_(self) -> dict[str, np.ndarray]:
        """Weights of `pair_features` by type of edge, views of `coef_`."""
        layout = self._layout
        return {
            kind: self.coef_[start : start + d]
            for kind, start, d in zip(
                layout.edge_types, layout.pair_offset.tolist(), layout.n_pair_features
            )
        }

    # ------------------------------------------------------------------ prediction

    def _best(self, infer: BlockInference) -> np.ndarray:
        """The best states of a block."""
        raise NotImplementedError

    def _refuse(self, graphs: list[FactorGraph]) -> None:
        """ValueError for graphs on which inference is not possible."""

    def _over_blocks(
        self,
        graphs: list[FactorGraph],
        function: Callable[[BlockInference], Any],
        allowed: np.ndarray | None = None,
    ) -> tuple[Packed, list]:
        """(the packed instances, results of function of each block).

        allowed: a mask of the allowed candidates; None: all.
        """
        self._refuse(graphs)

        packed = Packed(graphs, self._layout)
        kernel, coef = Graphs(packed), np.ascontiguousarray(self.coef_)

        def work(ends: tuple[int, int]) -> Any:
            infer = BlockInference(Block(packed, *ends), kernel, coef, graphs)
            if allowed is not None:
                infer.keep_only(allowed)
            return function(infer)

        with ThreadMap(self.n_jobs) as parallel:
            return packed, parallel(work, packed.blocks(BUDGET))

    def _predict_graphs(
        self, graphs: list[FactorGraph], allowed: np.ndarray | None = None
    ) -> list[np.ndarray]:
        packed, found = self._over_blocks(graphs, self._best, allowed)
        states = unpacked(np.concatenate(found), packed.var_ptr)
        return [graph.decode(state) for graph, state in zip(graphs, states)]

    def predict(self, X: Sequence) -> list:
        """The best state of each instance that inference finds.

        Parameters
        ----------
        X : list of FactorGraph, or of sequences of observations
            Instances.

        Returns
        -------
        y : list of list, or list of ndarray of shape (n_variables,)
            The labels of each sequence, or a value for each variable of each graph.

        Raises
        ------
        ValueError
            If an instance has a loop and inference is exact; if features or types of
            edges are not those of `fit`.
        """
        X = self._instances(X)
        found = self._predict_graphs(self._graphs(X))
        if self._columns is None:
            return LabelLists(found)
        return LabelLists(row.tolist() for row in found)

    def joint_score(self, X: Sequence, y: Sequence[Sequence[Any]]) -> np.ndarray:
        """The score :math:`w^\\top \\varphi(x, y)` of a state of each instance.

        Only scores of states of the same instance can be compared.

        Parameters
        ----------
        X : list of FactorGraph, or of sequences of observations
            Instances.

        y : list of array-like of shape (n_variables,)
            Values.

        Returns
        -------
        score : ndarray of shape (n_instances,)
        """
        graphs = self._graphs(X)
        state = encode(graphs, y)

        def score(infer: BlockInference) -> np.ndarray:
            return infer.score(state[infer.block.variables])

        return np.concatenate(self._over_blocks(graphs, score)[1])

    def score(
        self,
        X: Sequence,
        y: Sequence[Sequence[Any]],
        sample_weight: ArrayLike | None = None,
    ) -> float:
        """Share of the variables, over all instances, that are predicted right.

        Parameters
        ----------
        X : list of FactorGraph, or of sequences of observations
            Instances.

        y : list of array-like of shape (n_variables,)
            The true values. Unknown values (None; for sequences also -1, if labels are
            integers without -1) are not counted. For sequences, a label that `fit` did
            not see counts as wrong.

        sample_weight : array-like of shape (n_instances,), default=None
            Weight of each instance, at least 0.

        Returns
        -------
        accuracy : float
        """
        X = self._instances(X)
        weight = check_weights(sample_weight, X)
        if self._columns is None:
            graphs = self._graphs(X)
            truth = encode(graphs, y, True)
            packed, found = self._over_blocks(graphs, self._best)
            start = packed.var_ptr
            of_each = np.concatenate(found) == truth, truth >= 0
            right, size = (np.diff(np.append(0, np.cumsum(a))[start]) for a in of_each)
        else:
            rows = self.predict(X)
            labels = check_labels(y, list(map(len, rows)), True)
            right, size = count_right(rows, labels, self.classes_)
        return share_right(right, size, weight)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.target_tags.required = True
        return tags


def as_instances(X: Any, least: int = 1) -> list:
    """X as a list of at least so many instances."""
    if isinstance(X, FactorGraph):
        raise ValueError("X must be a list of FactorGraph; wrap a graph in a list")
    instances = as_list("X", X, "of FactorGraph or of sequences of observations")
    if len(instances) < least:
        raise ValueError("X must have at least one instance")
    return instances


def as_list(name: str, given: Any, what: str) -> list:
    """A parameter as a list; ValueError, with what it must hold, otherwise."""
    refuse_frame(name, given)
    try:
        return items(given) if hasattr(given, "to_pylist") else list(given)
    except TypeError as exc:
        raise ValueError(f"{name} must be a list {what}, got {given!r:.60}") from exc


def check_labels(y: Any, lengths: list[int], unknown: bool = False) -> list[list]:
    """y as lists of plain values, with a value for each item of each sequence of X.

    unknown: whether a label, or a whole sequence of labels, may be None.
    """
    _, labels = check_pairs([range(n) for n in lengths], y)
    for i, row in enumerate(labels):
        try:
            set(row)
        except TypeError as exc:
            raise ValueError(f"y[{i}] must be a list of hashable labels") from exc
        for t, value in enumerate(row):
            if is_missing(value) and not (unknown and value is None):
                remedy = "; an unknown label is None" if unknown else ""
                raise ValueError(
                    f"y[{i}] has no label at item {t}, but {value!r}{remedy}"
                )
    return labels


def encode(graphs: list[FactorGraph], y: Any, unknown: bool = False) -> np.ndarray:
    """Positions in the candidates, concatenated for all instances; -1 if unknown."""
    rows = as_list("y", y, "with the labels of each instance")
    if len(rows) != len(graphs):
        raise ValueError(
            f"y must have labels for each instance: X has {len(graphs)}, y has "
            f"{len(rows)}"
        )
    parts = [np.empty(0, dtype=np.int32)]
    for i, (graph, labels) in enumerate(zip(graphs, rows)):
        try:
            if unknown and labels is None:
                labels = [None] * graph.n_variables
            parts.append(graph.positions(labels, unknown))
        except (TypeError, ValueError) as exc:
            raise ValueError(f"X[{i}], {exc}") from exc
    return np.concatenate(parts)
