"""Held-out samples: what the numbers of an estimator are chosen on."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from .._compat import Interval, _check_sample_weight, available_if
from .._docs import shared_docs
from ..context_tree import Pairs, expand_pairs
from ..symbols import Labels
from ..symbols._encoding import encode, plain
from ._estimator import SAMPLES, BackoffClassifier
from ._model import BackoffModel

VALIDATION_FRACTION = """
validation_fraction : float, default=0.1
    Share of the samples, between 0 and 1, that is held out where `fit` gets no
    X_val: the last ones in order, as a text goes on, not random ones, which the
    words around them would make easy. The model is then fitted to all samples
    with the numbers found on these.
"""
VALIDATION_CONSTRAINT = {
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
}


class HeldOut(NamedTuple):
    """Held-out samples as slots over the tree of a model.

    Each ends at the deepest context that the model knows. Below the slots it has
    parent slots up to the root, so a sweep over the pairs gives the probabilities of
    all samples, and one back the gradient.
    """

    pairs: Pairs
    weight: np.ndarray  # (n_pairs,) of the samples that end at each pair
    slot: np.ndarray  # (n_pairs,) int32, the model's pair, -1 where it has none

    @classmethod
    def of_samples(
        cls, model: Pairs, node: np.ndarray, target: np.ndarray, weight: Any = None
    ) -> HeldOut:
        """Samples of a class after a context, given by its deepest known node."""
        pairs, count = Pairs.count(model.tree, node, target, model.n_classes, weight)
        slot = model.find(pairs.nodes(), pairs.target)
        return cls(pairs, pairs.terminal_counts(count), slot)

    def share(self, count: np.ndarray, total: np.ndarray) -> np.ndarray:
        """c(n, y) / c(n) of each pair, 0 where the model has no such pair."""
        known = np.where(self.slot >= 0, count[np.maximum(self.slot, 0)], 0.0)
        return known / total[self.pairs.nodes()]

    def samples(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """(node, class, weight) of the samples, equal ones as one."""
        ends = np.flatnonzero(self.weight)
        return self.pairs.nodes()[ends], self.pairs.target[ends], self.weight[ends]

    def log_loss(self, model: BackoffModel) -> float:
        """Mean log-loss of the samples, in nats; the model is over the same tree."""
        node, target, weight = self.samples()
        return float(-(weight @ model.target(node, target)) / weight.sum())


class _Validation(NamedTuple):
    """Held-out samples as `fit` gets them."""

    X: Any
    target: Any
    weight: Any
    encoded: bool  # whether X and target are ids


def _is_online(model: HeldOutClassifier) -> bool:
    if model._uses_held_out():
        raise AttributeError(
            f"this {type(model).__name__} chooses numbers on held-out samples, which "
            "batches do not have, and has no partial_fit; give it fixed numbers, or "
            "those of a formula"
        )
    return True


class HeldOutClassifier(BackoffClassifier):
    """Base of the estimators that choose numbers on held-out samples.

    Subclasses have the parameter `validation_fraction` and define `_uses_held_out` and
    `_tune`.
    """

    @abstractmethod
    def _uses_held_out(self) -> bool:
        """Whether the parameters ask for held-out samples."""

    @abstractmethod
    def _tune(self, pairs: Pairs, count: np.ndarray, held_out: HeldOut) -> None:
        """Choose the numbers, in fitted attributes which the fit then reads."""

    @shared_docs(samples=SAMPLES)
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        {samples}

        X_val, y_val : as X and y, default=None
            Held-out samples for the numbers that the parameters leave to them. None:
            the last `validation_fraction` of the samples.

        sample_weight_val : array-like of shape (n_val_samples,), default=None
            Weights of the held-out samples.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is neither (the message says where), a target is not in
            `classes`, a weight is negative, or X_val is given and not used, or has no
            sample.
        """
        validation = None
        if X_val is not None or y_val is not None:
            if X_val is None or y_val is None:
                raise ValueError("X_val and y_val must be given together")
            validation = _Validation(X_val, y_val, sample_weight_val, False)
        elif sample_weight_val is not None:
            raise ValueError("sample_weight_val was given without X_val and y_val")
        return self._fit(X, y, sample_weight, validation)

    def fit_tokens(
        self,
        tokens: np.ndarray,
        max_depth: int,
        labels: Labels,
        *,
        skip: int = -1,
        sample_weight: np.ndarray | None = None,
        validation: tuple[np.ndarray, np.ndarray, np.ndarray] | None = None,
    ) -> Self:
        """Fit on a running text, with or without held-out samples.

        Parameters
        ----------
        tokens, max_depth, labels, skip, sample_weight
            As in `BackoffClassifier.fit_tokens`.

        validation : tuple of ndarrays, default=None
            Held-out windows, targets and weights; None as in `fit`.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        if validation is None and not self._uses_held_out():
            return super().fit_tokens(
                tokens, max_depth, labels, skip=skip, sample_weight=sample_weight
            )
        if validation is not None:
            validation = _Validation(*validation, True)
        windows = np.lib.stride_tricks.sliding_window_view(tokens, max_depth)[:-1]
        target = tokens[max_depth:]
        weight = ((target >= 0) & (target != skip)).astype(np.float64)
        if sample_weight is not None:
            weight *= sample_weight[max_depth:]
        return self._fit_ids(windows, target, labels, weight, validation)

    partial_fit = available_if(_is_online)(BackoffClassifier.partial_fit)
    partial_fit_tokens = available_if(_is_online)(BackoffClassifier.partial_fit_tokens)

    def _fit_samples(self, reader, data, keep, target, sample_weight, validation=None):
        if not self._uses_held_out():
            if validation is not None:
                raise ValueError(
                    f"X_val: this {type(self).__name__} chooses nothing on held-out "
                    f"samples; {self._HELD_OUT_HINT}"
                )
            return super()._fit_samples(reader, data, keep, target, sample_weight)
        if validation is not None:
            counted = self._count_trie(reader, data, keep, target, sample_weight)
            self._tune(*counted, self._read(reader, counted[0], validation))
            return self._fit_counts(reader, *counted)
        rows = np.arange(data.shape[0]) if keep is None else np.flatnonzero(keep)
        n_held = int(np.ceil(self.validation_fraction * rows.size))
        if n_held >= rows.size:
            raise ValueError(
                f"validation_fraction={self.validation_fraction!r} of {rows.size} "
                "samples leaves none to learn from: give X_val and y_val, or more "
                "samples"
            )
        n = rows.size - n_held
        first, last = np.zeros((2, data.shape[0]), dtype=bool)
        first[rows[:n]] = True
        last[rows[n:]] = True
        weights = [None, None]
        if sample_weight is not None:
            weights = [sample_weight[:n], sample_weight[n:]]
        counted = self._count_trie(reader, data, first, target[:n], weights[0])
        nodes = self._nodes_of_ids(reader, counted[0].tree, data[last])
        held_out = HeldOut.of_samples(counted[0], nodes, target[n:], weights[1])
        self._tune(*counted, held_out)
        return super()._fit_samples(reader, data, keep, target, sample_weight)

    def _count_trie(self, reader, data, keep, target, sample_weight):
        pairs, count = self._count(reader, data, keep, target, sample_weight)
        pairs, source = expand_pairs(pairs)
        return pairs, count[source]

    def _nodes_of_ids(self, reader, tree, data):
        """Nodes of rows that the reader has encoded, or of a path matrix."""
        if isinstance(data, np.ndarray):
            return tree.find_windows(data)
        return reader.nodes(self, tree, data)

    def _read(self, reader, pairs, validation):
        X, target, weight, encoded = validation
        if encoded:
            nodes = pairs.tree.find_windows(X)
        else:
            nodes = reader.nodes(self, pairs.tree, X)
            y = column_or_1d(target)
            if y.size != nodes.size:
                raise ValueError(
                    f"X_val and y_val have inconsistent numbers of samples: "
                    f"{nodes.size} and {y.size}"
                )
            target = encode(y, self.classes_)
            if (target < 0).any():
                i = int(np.argmax(target < 0))
                raise ValueError(
                    f"y_val[{i}] = {plain(y[i])!r} is not among the "
                    f"{self.classes_.size} classes of y; add it to classes, or "
                    "leave such samples out"
                )
            if weight is not None:
                weight = _check_sample_weight(
                    weight, nodes[:, None], dtype=np.float64, ensure_non_negative=True
                )
        if weight is not None:
            keep = weight > 0
            nodes, target, weight = nodes[keep], target[keep], weight[keep]
        if nodes.size == 0:
            raise ValueError("X_val holds no sample of positive weight")
        return HeldOut.of_samples(pairs, nodes, target, weight)
