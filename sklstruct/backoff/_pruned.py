"""PrunedLM: an estimator whose model is pruned."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._compat import Interval, MetaEstimatorMixin, StrOptions, available_if
from ..context_tree import ContextTree
from ..symbols import Labels
from ._counted import Counted
from ._estimator import BackoffClassifier, check_parameters
from ._model import Fitted
from ._prune import METHODS, check_threshold, choose, selected_nodes, without_pairs


class PrunedLM(MetaEstimatorMixin, BackoffClassifier):
    r"""Language model over contexts, pruned after it is fitted.

    .. math::
        \text{keep } (h, y) \iff D(h, y) \ge \text{threshold,}

    with D(h, y) the cost of removing the probability of class y after the context h.
    `prune` defines it; this estimator passes it the counts of the training data.

    Parameters
    ----------
    estimator : estimator over contexts
        A smoother or `StructuredLogLinearLM`, which fits the model; cloned. X is read
        by its `max_depth`, `padding` and `classes`.

    threshold : float or array-like, default=1e-7
        Pairs of lower cost are removed; at least 0. See `prune`.

    method : {"entropy", "weighted_difference", "count"}, default="entropy"
        The cost of a pair; see `prune`.

    history : {"counts", "model"}, default="counts"
        The probability of a context: its relative frequency in the training data, or
        the model's.

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
    A path matrix does not say which symbols are which classes, so that a pair may be
    removed while a longer n-gram that begins with it stays.

    A grid over ``threshold`` fits the whole model at each value; to prune one model to
    several sizes, `prune` is cheaper.

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

    @property
    def max_depth(self) -> int | None:  # type: ignore[override]
        """Longest context, as the estimator has it."""
        return self.estimator.max_depth

    @property
    def padding(self) -> Any:
        """The symbol of missing history, as the estimator has it."""
        return self.estimator.padding

    @property
    def classes(self) -> ArrayLike | None:  # type: ignore[override]
        """The closed vocabulary, as the estimator has it."""
        return self.estimator.classes

    def __sklstruct_ids__(self, labels: Labels) -> dict:
        """No parameters: `LanguageModel` asks the inner estimator, too."""
        return {}

    def _check_params(self):
        check_threshold(self.threshold, self.method)
        check_parameters(self.estimator)

    @property
    def held_out_share(self) -> float | None:
        return self.estimator.held_out_share

    @property
    def keeps_positions(self) -> bool:
        counts = self.history == "counts" or self.method == "count"
        return self.estimator.keeps_positions and not counts

    partial_fit = available_if(lambda self: hasattr(self.estimator, "partial_fit"))(
        BackoffClassifier.partial_fit
    )

    def _fit_divided(self, counted: Counted, overwrite: bool) -> Fitted:
        inner = clone(self.estimator).set_params(classes=None, max_depth=None)
        inner.fit_counted(counted)
        model, counts = inner.backoff_model_, None
        pairs, count = counted.undivided.trie()
        place = _nodes_in(model.tree, pairs.tree)
        if self.history == "counts" or self.method == "count":
            # A smoother may have pairs that were never seen, and lack seen ones.
            node = place[pairs.nodes()]
            there = np.flatnonzero(node >= 0)
            slot = model.pairs.find(node[there], pairs.target[there])
            counts = np.zeros(model.n_pairs)
            counts[slot[slot >= 0]] = count[there[slot >= 0]]
        least = check_threshold(self.threshold, self.method)
        keep = choose(model, least, self.method, counts)
        pruned = without_pairs(model, keep)
        self.n_pruned_ = model.n_pairs - pruned.n_pairs
        left = selected_nodes(model.pairs, keep)
        place = np.where(place >= 0, left[place], -1).astype(np.int32)
        return Fitted(pruned.pairs, pruned.log_prob, pruned.log_backoff, place)


def _nodes_in(tree: ContextTree, counted: ContextTree) -> np.ndarray:
    """The node in a model's tree of each that was counted, -1 for those it lacks."""
    if tree.n_nodes == counted.n_nodes:
        return np.arange(tree.n_nodes, dtype=np.int32)
    node = tree.find_windows(counted.windows())
    return np.where(tree.levels()[node] == counted.levels(), node, np.int32(-1))
