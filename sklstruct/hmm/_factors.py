"""The two factors of a tagger: models of the labels, and of the observations."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone

from ..backoff import BackoffModel
from ..smoothing import KneserNeyLM
from ._classifier_emission import ClassifierEmission
from ._emissions import CategoricalEmission, Emission
from ._sequence_model import id_windows, learn_from_ids
from ._suffix_emission import SuffixEmission
from ._vector_emissions import GaussianEmission, PoissonEmission

EMISSIONS: dict[str, type[Emission]] = {
    "suffix": SuffixEmission,
    "categorical": CategoricalEmission,
    "gaussian": GaussianEmission,
    "poisson": PoissonEmission,
}


class Factors:
    """Learns P(y) and p(o | y); each call fits clones of both estimators.

    `smoothing` and `emission` are as in `HighOrderHMM`. Label ids are indices into
    `classes`; a label is predicted from the order - 1 labels before it. `end`: whether
    the end of a sequence is a class of the transitions. `given`: the transition model,
    if it is not learned. `class_of_label` has the class of the transition model for
    each label.
    """

    def __init__(
        self, smoothing: Any, emission: Any, order: int, classes: np.ndarray, end: bool
    ):
        self.names, self.order, self.end = classes.tolist(), order, end
        self.n_labels = len(self.names)
        self.given = smoothing if isinstance(smoothing, BackoffModel) else None
        self.class_of_label = np.arange(self.n_labels, dtype=np.int32)
        if self.given is not None:
            self.class_of_label = self._classes_of(self.given)
        if smoothing is None:
            smoothing = KneserNeyLM(discount=(0.5, 1.0, 1.5))
        if isinstance(emission, str):
            emission = EMISSIONS[emission]()
        elif not isinstance(emission, Emission):
            emission = ClassifierEmission(emission)
        self.smoothing, self.emission = smoothing, emission

    def _classes_of(self, model):
        index = {c: i for i, c in enumerate(model.labels.classes.tolist())}
        for one in self.names:
            if one not in index or one == model.labels.end:
                raise ValueError(
                    f"y holds the label {one!r}, which smoothing, a fitted model, does "
                    "not predict"
                )
        return np.array([index[c] for c in self.names], dtype=np.int32)

    def transitions(
        self, contexts: Any, targets: Any, counts: Any
    ) -> tuple[BackoffModel, float]:
        """A model of the labels from windows of their ids, and the logarithm of its
        prior."""
        if self.given is not None:
            return self.given, 0.0
        if not self.end:
            kept = np.asarray(targets) < self.n_labels
            contexts, targets, counts = (a[kept] for a in (contexts, targets, counts))
        return learn_from_ids(
            self.smoothing, self.names, contexts, targets, counts, self.end
        )

    def emissions(self, X: list, ids: list, weight: list | None = None) -> Emission:
        """The fitted emission model; weight: an array for each sequence."""
        return clone(self.emission).fit(X, ids, self.n_labels, weight)

    def of_labels(
        self, X: list, ids: list, weight: np.ndarray | None
    ) -> tuple[BackoffModel, Emission]:
        """Both factors from the known labels of sequences; -1 is an unknown label."""
        windows = id_windows(ids, self.n_labels, self.order - 1, weight)
        each = None
        if weight is not None:
            each = [np.full(len(a), w) for a, w in zip(ids, weight.tolist())]
        return self.transitions(*windows)[0], self.emissions(X, ids, each)
