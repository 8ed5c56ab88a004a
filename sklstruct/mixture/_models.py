"""Distributions that are composed of other distributions, and the uniform one."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import CheckedState
from ..backoff import Distribution, Model
from ..backoff._core_fast import Uniform
from ..taxonomy import Forest
from ._gates import Gate
from ._models_fast import Factored, Mixture


class UniformModel(Distribution):
    """The uniform distribution, for groups without samples."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def compiled(self, source: Any) -> Model:
        """As `Distribution.compiled`; the contexts are not read."""
        return Uniform(self.n_classes, 2 * len(self.gate_depths))

    compiled_places = compiled


class MixtureModel(Distribution):
    r""":math:`\sum_k \omega_k(x) P_k(y \mid x)`, of models over the same classes.

    Contexts are a tuple of the contexts of the models. The gate, which gives the
    weights, may be shared with other mixtures.
    """

    def __init__(self, models: list[Distribution], gate: Gate) -> None:
        self.models, self.gate = models, gate
        self.n_classes = models[0].n_classes
        self.gate_depths = sum((m.gate_depths for m in models), ())

    def compiled(self, source: Any) -> Model:
        """As `Distribution.compiled`; source: a tuple of the sources of the models."""
        parts = [m.compiled(part) for m, part in zip(self.models, source)]
        return Mixture(parts, self.gate)

    compiled_places = compiled  # `locate` changes nothing

    def log_weights(self, at: Any) -> NDArray:
        """(n_samples or 1, n_models) logarithms of the weights."""
        return self.gate.log_weights(
            self.gate_features(at) if self.gate.reads_features else np.zeros((1, 1))
        )

    def gate_features(self, at: Any) -> NDArray:
        # Computed from the models, because a gate is fitted to the features before
        # there are weights.
        features = [m.gate_features(m.locate(a)) for m, a in zip(self.models, at)]
        return np.hstack(features)

    def targets(self, at: Any, y: NDArray) -> NDArray:
        """(n_samples, n_models) natural logarithms by model."""
        return np.column_stack(
            [m.target(m.locate(a), y) for m, a in zip(self.models, at)]
        )

    def groups(self) -> NDArray | None:
        found = (model.groups() for model in self.models)
        return next((g for g in found if g is not None), None)


class FactoredModel(CheckedState, Distribution):
    r""":math:`\prod_j P(v_{j+1} \mid v_j, x)` along the path of a tree to a class.

    Contexts are a tuple: the contexts of the models of groups, the contexts of the
    models of words, and with `concentration` the histories in which words are counted.

    tree: one tree, whose terminal nodes are the classes.
    models: one for each node of the tree; None for nodes with fewer than two children.
    of_words: True for nodes whose children are all terminal.
    concentration: of each node, see `sklstruct.mixture._history`; infinite if the
    history is not used at the node. None: the history is not used.
    share: of each node among the children of its parent, with `concentration`.
    """

    def __init__(
        self,
        tree: Forest,
        models: list[Distribution | None],
        of_words: NDArray,
        concentration: NDArray | None = None,
        share: NDArray | None = None,
    ) -> None:
        self.tree, self.models, self.of_words = tree, models, of_words
        self.concentration, self.share = concentration, share
        self._set_paths()

    def _check_arrays(self) -> None:
        self.tree.check()
        sizes = {len(self.models), len(self.of_words)}
        if self.concentration is not None and self.share is not None:
            sizes |= {len(self.concentration), len(self.share)}
        if sizes != {self.tree.n_nodes}:
            raise ValueError(
                "models, of_words, concentration and share must have one entry per node"
            )
        self._set_paths()

    def _set_paths(self):
        tree = self.tree
        self.n_classes = tree.terminal.shape[1]
        self.path_node, self.path_child = paths(tree)
        # The parent of each class, -1 if the parent's children are not all terminal.
        above = tree.parent[tree.terminal[0]]
        known = (above >= 0) & self.of_words[np.maximum(above, 0)]
        self.word_node = np.where(known, above, -1).astype(np.int32)
        root = self.models[0]
        self.gate_depths = () if root is None else root.gate_depths

    def compiled(self, source: Any) -> Model:
        """As `Distribution.compiled`; the third source, if it is an array, has the
        class id of each token, -1 for missing history."""
        models = [
            None if m is None else m.compiled(source[int(of_words)])
            for m, of_words in zip(self.models, self.of_words)
        ]
        history = source[2] if len(source) > 2 else None
        return Factored(models, self, history)

    compiled_places = compiled  # `locate` changes nothing

    def groups(self) -> NDArray | None:
        return None if self.models[0] is None else self.path_child[0]


def without_tables(model: Distribution) -> Distribution:
    """A copy of a composed model with uniform models instead of tables: a later fit
    takes the weights from the copy, and the memory of the tables is freed."""
    if isinstance(model, MixtureModel):
        return MixtureModel([without_tables(m) for m in model.models], model.gate)
    if isinstance(model, FactoredModel):
        of_nodes = [None if m is None else without_tables(m) for m in model.models]
        return FactoredModel(model.tree, of_nodes, model.of_words)
    return UniformModel(model.n_classes)


def paths(tree: Forest) -> tuple[NDArray, NDArray]:
    """(depth, n_classes) nodes and children along the path to each class, -1 after its
    end."""
    ups = [tree.terminal[0].astype(np.int64)]  # 0: the path is at its end
    while (ups[-1] > 0).any():
        ups.append(np.where(ups[-1] > 0, tree.parent[ups[-1]], 0))
    node = np.array(ups[:-1], dtype=np.int64).reshape(-1, ups[0].size)[::-1]
    # Row 0 must have the first step of every path, also of shorter paths.
    node = np.take_along_axis(node, np.argsort(node <= 0, axis=0, kind="stable"), 0)
    node_of = np.where(node > 0, tree.parent[node], -1).astype(np.int32)
    child_of = np.where(node > 0, node - tree.first_child[node_of], -1)
    return node_of, child_of.astype(np.int32)
