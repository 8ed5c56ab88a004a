"""PrunedLM: an estimator whose model is pruned."""

from __future__ import annotations

from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._compat import Interval, MetaEstimatorMixin, StrOptions, available_if
from ..context_tree import expand_pairs
from ..symbols import Labels
from ._estimator import BackoffClassifier
from ._prune import METHODS, check_threshold, choose, selected_nodes, without_pairs


class PrunedLM(MetaEstimatorMixin, BackoffClassifier):
    r"""Language model over contexts, pruned after it is fitted.

    .. math::
        \text{keep } (h, y) \iff D(h, y) \ge \text{threshold,}

    D being what the model loses without the probability of class y after the context h;
    see `prune`, which this is with the counts of the training data.

    Parameters
    ----------
    estimator : estimator over contexts
        What fits the model: a smoother or `StructuredLogLinearLM`; cloned. Its
        `max_depth`, `padding` and `classes` say how X is read.

    threshold : float or array-like, default=1e-7
        What is cheaper is removed; at least 0. See `prune`.

    method : {"entropy", "weighted_difference", "count"}, default="entropy"
        How the cost of a pair is measured; see `prune`.

    history : {"counts", "model"}, default="counts"
        Where the probability of a context comes from: its relative frequency in the
        training data, or the model.

    Attributes
    ----------
    backoff_model_ : BackoffModel
        The pruned model.

    n_pruned_ : int
        Number of probabilities that were removed.

    classes_ : ndarray of shape (n_classes,)
        The predictable symbols.

    depth_ : int
        Length of the longest context in training, pruned or not.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    prune : The same for any `BackoffModel`, such as one from a file.
    sklstruct.smoothing.PrunedKneserNeyLM : For Kneser-Ney smoothing.

    Notes
    -----
    A path matrix does not say which symbols are which classes, so that pairs are judged
    without regard to the n-grams which they begin.

    A grid over ``threshold`` fits the whole model at each value; `prune` is cheaper
    where one model is to be pruned to several sizes.

    References
    ----------
    .. [1] A. Stolcke, "Entropy-based pruning of backoff language models", DARPA
       Broadcast News Transcription and Understanding Workshop, 1998.

    Examples
    --------
    >>> from sklstruct.backoff import PrunedLM
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import WittenBellLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran", "a dog ran"]
    >>> model = LanguageModel(PrunedLM(WittenBellLM(), threshold=0.05), max_depth=2)
    >>> model.fit(text).estimator_.n_pruned_
    18
    """

    _parameter_constraints: dict = {
        "estimator": [BackoffClassifier],
        "threshold": [Interval(Real, 0, None, closed="both"), "array-like"],
        "method": [StrOptions(set(METHODS))],
        "history": [StrOptions({"counts", "model"})],
    }

    def __init__(
        self,
        estimator: Any,
        threshold: float | ArrayLike = 1e-7,
        *,
        method: str = "entropy",
        history: str = "counts",
    ):
        self.estimator = estimator
        self.threshold = threshold
        self.method = method
        self.history = history

    # How X is read is the estimator's affair.

    @property
    def max_depth(self) -> int | None:
        """Longest context, as the estimator has it."""
        return self.estimator.max_depth

    @property
    def padding(self) -> Any:
        """The symbol of missing history, as the estimator has it."""
        return self.estimator.padding

    @property
    def classes(self) -> ArrayLike | None:
        """The closed vocabulary, as the estimator has it."""
        return self.estimator.classes

    def __sklstruct_ids__(self, labels: Labels) -> dict:
        """Nothing: the estimator inside is asked for itself."""
        return {}

    def _check_params(self):
        check_threshold(self.threshold, self.method)

    def fit_tokens(
        self,
        tokens: np.ndarray,
        max_depth: int,
        labels: Labels,
        *,
        skip: int = -1,
        sample_weight: np.ndarray | None = None,
    ) -> Self:
        """Fit on every position of a running text, without windows.

        Parameters
        ----------
        tokens, max_depth, labels, skip, sample_weight
            As in `BackoffClassifier.fit_tokens`.

        Returns
        -------
        self : object
            Fitted estimator.
        """
        if hasattr(self.estimator, "partial_fit"):  # it learns from counts alone
            return super().fit_tokens(
                tokens, max_depth, labels, skip=skip, sample_weight=sample_weight
            )
        self._validate_params()
        self._check_params()
        inner = clone(self.estimator)
        inner.fit_tokens(
            tokens, max_depth, labels, skip=skip, sample_weight=sample_weight
        )
        self.n_features_in_ = max_depth
        self.classes_ = labels.classes
        counted = None
        if self._needs_counts():
            counted = self.count_tokens(
                tokens, max_depth, labels, skip=skip, sample_weight=sample_weight
            )
        return self._prune(inner, counted)

    # Where the estimator learns from counts alone.
    partial_fit = available_if(lambda self: hasattr(self.estimator, "partial_fit"))(
        BackoffClassifier.partial_fit
    )

    def _fit_counts(self, reader, pairs, count, overwrite=False):
        inner = clone(self.estimator)
        inner._validate_params()
        inner._check_params()
        inner.classes_ = self.classes_
        inner._fit_counts(reader, pairs, count)
        self._counts = None
        return self._prune(inner, (pairs, count) if self._needs_counts() else None)

    def _fit_samples(self, reader, data, keep, target, sample_weight):
        if hasattr(self.estimator, "partial_fit"):
            return super()._fit_samples(reader, data, keep, target, sample_weight)
        inner = clone(self.estimator)
        inner._validate_params()
        inner._check_params()
        inner.classes_ = self.classes_
        inner._fit_samples(reader, data, keep, target, sample_weight)
        counted = None
        if self._needs_counts():
            counted = self._count(reader, data, keep, target, sample_weight)
        return self._prune(inner, counted)

    def _needs_counts(self):
        return self.history == "counts" or self.method == "count"

    def _prune(self, inner, counted):
        model, counts = inner.backoff_model_, None
        if counted is not None:
            pairs, source = expand_pairs(counted[0])
            # Smoothers may have probabilities of pairs that were never seen.
            slot = model.pairs.find(pairs.nodes(), pairs.target)
            counts = np.zeros(model.n_pairs)
            counts[slot] = counted[1][source]
        least = check_threshold(self.threshold, self.method)
        keep = choose(model, least, self.method, counts)
        self.depth_ = inner.depth_
        self._reader = inner._reader
        self._reader.renumber(model.tree, selected_nodes(model.pairs, keep))
        self.backoff_model_ = without_pairs(model, keep)
        self.n_pruned_ = model.n_pairs - self.backoff_model_.n_pairs
        return self

    def _fit_tree(self, pairs, count):
        raise NotImplementedError("PrunedLM fits its estimator and prunes that model")
