"""A classifier whose X is the scores of the nodes of another classifier.

The scores of a node are linear in X. `ScoreModel.classifier` is a
`HierarchicalClassifier` whose columns of X are the scores, for packages that compute
the scores themselves. A `LinearClassifier` is a flat tree.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..linear import LinearClassifier
from ..linear._labels import LabelColumns
from ..taxonomy import Forest, Taxonomy
from ._chain_nodes import ChainNodes
from ._classifier import HierarchicalClassifier
from ._dual_nodes import DualNodes
from ._evidence import CHAIN


class ScoreModel(NamedTuple):
    """A fitted classifier without its weights."""

    taxonomies: list[Taxonomy]
    classes: NDArray
    columns: LabelColumns | None  # with several labels per sample
    loss: str
    numbers: NDArray  # as `DualNodes.numbers`
    n_leaves: int
    threshold: float

    @classmethod
    def of(cls, model: Any) -> tuple[ScoreModel, sp.csr_matrix, NDArray]:
        """(the model, weights of shape (n_scores, n_features), intercepts).

        ValueError if the scores of the classifier are not linear.
        """
        classes, columns = model.classes_, getattr(model, "label_columns_", None)
        if isinstance(model, LinearClassifier):
            if not hasattr(model, "predict_proba"):
                raise ValueError(
                    f"estimator: loss={model.loss!r} with calibration=None has no "
                    'probabilities; use calibration="fold"'
                )
            own = model.scale_, model.offset_, model.power_
            numbers: tuple = (1.0, model.scale_, *CHAIN[2:])
            if columns is not None:
                numbers = (1.0, 0.0, 1.0, *own)
            trees = [Taxonomy.flat(classes if columns is None else columns.leaves)]
            found = cls(
                trees, classes, columns, model.loss_, np.array([numbers]), 1,
                model.threshold_,
            )  # fmt: skip
            return found, model.weights_.sparse(), model.weights_.intercepts()
        nodes = getattr(model, "nodes_", None)
        if isinstance(nodes, ChainNodes):
            nodes = DualNodes.of_chain(nodes, LinearClassifier("log_loss"))
        if not isinstance(nodes, DualNodes):
            raise ValueError(
                f"estimator: a {type(model).__name__} has no linear scores; use a "
                "LinearClassifier, or a HierarchicalClassifier of them"
            )
        if nodes.raised is not None:
            raise ValueError(
                "estimator: a taxonomy with labels as inner nodes cannot be reduced"
            )
        found = cls(
            model.taxonomies_, classes, columns, nodes.loss, nodes.numbers,
            nodes.n_leaves, float(nodes.threshold),
        )  # fmt: skip
        return found, nodes.weights.sparse(), nodes.weights.intercepts()

    def classifier(self, n_jobs: int | None) -> HierarchicalClassifier:
        """The classifier of the scores."""
        forest = Forest.from_taxonomies(self.taxonomies)
        model = HierarchicalClassifier(n_jobs=n_jobs)
        model.classes_, model.label_columns_ = self.classes, self.columns
        model.taxonomies_, model.taxonomy_ = self.taxonomies, self.taxonomies[0]
        model.builders_ = [None] * len(self.taxonomies)
        model.forest_, model.model_nodes_ = forest, forest.model_nodes
        model.nodes_ = DualNodes.over_scores(forest, self)
        model.n_features_in_ = model.nodes_.weights.n_features
        return model
