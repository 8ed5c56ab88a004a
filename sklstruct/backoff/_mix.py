"""A linear mixture of back-off models as one back-off model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._checks import as_shares
from ..context_tree import ContextTree, Pairs
from . import _backoff_fast
from ._model import BackoffModel


def mix(models: list[BackoffModel], weights: ArrayLike) -> BackoffModel:
    r"""One back-off model that approximates a linear mixture of several.

    .. math::
        P(y \mid n) = \sum_k \pi_k P_k(y \mid n)

    for the contexts n of any of the models and the classes y that are explicit in one
    of them after n. The other classes have :math:`b(n) P(y \mid
    \mathrm{parent}(n))`, with b(n) such that the row sums to 1: there the exact
    mixture, whose models back off by weights of their own, has no back-off form.

    Parameters
    ----------
    models : list of BackoffModel
        With equal classes, and symbols with equal ids.

    weights : array-like of shape (n_models,)
        Non-negative, divided by their sum.

    Returns
    -------
    model : BackoffModel
        Over the union of the contexts, with the labels of the first model.

    Raises
    ------
    ValueError
        If there is no model, models and weights differ in number, a weight is negative
        or all are 0, or classes or symbols differ.

    Notes
    -----
    What `ngram` of SRILM and pocolm do. The exact mixture is
    :class:`sklstruct.mixture.MixtureLM`.

    Examples
    --------
    >>> from sklstruct.backoff import mix
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import AdditiveLM, WittenBellLM
    >>> text = ["the cat sat", "the dog sat"]
    >>> a = LanguageModel(AdditiveLM()).fit(text).backoff_model_
    >>> b = LanguageModel(WittenBellLM()).fit(text).backoff_model_
    >>> mixed = mix([a, b], [0.3, 0.7])
    >>> mixed.check_normalized() < 1e-12
    True
    """
    if not models:
        raise ValueError("models is empty: there is nothing to mix")
    what = f"one number for each of the {len(models)} models"
    shares = as_shares("weights", weights, len(models), what)
    first = models[0]
    for k, model in enumerate(models):
        if model.labels != first.labels or model.n_symbols != first.n_symbols:
            raise ValueError(
                f"models[{k}] has other labels than models[0]; give them one vocabulary"
            )
    shares = shares / shares.sum()
    tree, index = ContextTree.merge([model.tree for model in models])
    none = [np.zeros(model.n_pairs) for model in models]
    pairs, _ = Pairs.merge(
        tree, list(zip((model.pairs for model in models), none, index))
    )
    nodes = pairs.nodes()
    proba = np.zeros(pairs.n_pairs)
    for model, of_own, weight in zip(models, index, shares):
        own = _own_nodes(tree, of_own)
        proba += weight * np.exp(model.target(own[nodes], pairs.target))
    # A sum of probabilities may pass 1 by rounding.
    log_prob = np.log(np.clip(proba, np.finfo(np.float64).tiny, 1.0))
    log_backoff = _back_off(pairs, proba, log_prob)
    return BackoffModel(pairs, log_prob, log_backoff, first.labels)


def _own_nodes(tree, of_own):
    """A model's deepest known node for each node of the union."""
    own = np.full(tree.n_nodes, -1, dtype=np.int32)
    own[of_own] = np.arange(of_own.size, dtype=np.int32)
    for k in range(1, tree.n_levels):
        here = tree.level(k)
        missing = own[here] < 0
        own[here][missing] = own[tree.parent[here][missing]]
    return own


def _back_off(pairs, proba, log_prob):
    """Weights with which all rows sum to 1, level by level from the root."""
    tree, nodes = pairs.tree, pairs.nodes()
    log_backoff = np.zeros(tree.n_nodes)
    left = 1.0 - pairs.node_sums(proba)
    for k in range(1, tree.n_levels):
        here, slots = tree.level(k), pairs.level(k)
        above = np.empty(slots.stop - slots.start)
        at = np.empty(above.size, dtype=np.int32)
        _backoff_fast.log_proba(
            tree.parent, pairs.ptr, pairs.target, log_prob, log_backoff,
            tree.parent[nodes[slots]], pairs.target[slots], 0.0, above, at,
        )  # fmt: skip
        taken = np.bincount(
            nodes[slots] - here.start,
            weights=np.exp(above),
            minlength=here.stop - here.start,
        )
        free = 1.0 - taken
        # A parent without mass for the other classes: the mixture has none either.
        some = (left[here] > 0) & (free > 0)
        ratio = np.zeros(free.size)
        ratio[some] = left[here][some] / free[some]
        with np.errstate(divide="ignore"):
            log_backoff[here] = np.log(ratio)
    return log_backoff
