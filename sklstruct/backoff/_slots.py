"""HeldOut: held-out samples with the pairs of a model that they use."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np

from ..context_tree import Pairs
from ._model import BackoffModel


class HeldOut(NamedTuple):
    """Held-out samples as pairs over the tree of a model.

    Each sample ends at the deepest context that the model knows. Its pair has parent
    pairs up to the root, so that one sweep down gives the probabilities of all samples
    and one sweep up the gradient.
    """

    pairs: Pairs
    weight: np.ndarray  # (n_pairs,) of the samples that end at each pair
    slot: np.ndarray  # (n_pairs,) int32, the model's pair, -1 if the model lacks it
    fraction: float | None = None  # of all samples; None: separate samples

    @classmethod
    def of_samples(
        cls,
        model: Pairs,
        node: np.ndarray,
        target: np.ndarray,
        weight: np.ndarray | None = None,
        fraction: float | None = None,
    ) -> Self:
        """Samples of classes after contexts, which are given by their deepest known
        nodes."""
        pairs, count = Pairs.count(model.tree, node, target, model.n_classes, weight)
        slot = model.find(pairs.nodes(), pairs.target)
        return cls(pairs, pairs.terminal_counts(count), slot, fraction)

    def share(self, count: np.ndarray, total: np.ndarray) -> np.ndarray:
        """c(n, y) / c(n) of each pair, 0 for pairs that the model does not have."""
        known = np.where(self.slot >= 0, count[np.maximum(self.slot, 0)], 0.0)
        return known / total[self.pairs.nodes()]

    def samples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(node, class, weight) of the samples; equal samples are merged."""
        ends = np.flatnonzero(self.weight)
        return self.pairs.nodes()[ends], self.pairs.target[ends], self.weight[ends]

    def log_loss(self, model: BackoffModel) -> float:
        """Mean log-loss of the samples, in nats; the model is over the same tree."""
        node, target, weight = self.samples()
        return float(-(weight @ model.target(node, target)) / weight.sum())
