"""A linear mixture of back-off models as one back-off model."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from .._checks import as_shares
from .._warnings import warn
from ..context_tree import Pairs, pairs_of_keys, tree_of_windows
from ..symbols import Labels, union_labels
from ._model import BackoffModel, check_model
from ._selected import renormalize
from ._wider import WiderModel


def mix(models: list[BackoffModel], weights: ArrayLike) -> BackoffModel:
    r"""One back-off model that approximates a linear mixture of several.

    .. math::
        P(y \mid n) = \sum_k \pi_k P_k(y \mid n)

    for the contexts n of any of the models and the classes y for which one of the
    models has an n-gram (n, y). The other classes have :math:`b(n) P(y \mid
    \mathrm{parent}(n))`, with b(n) such that the row sums to 1: for these classes the
    exact mixture does not have the form of a back-off model, because the models back
    off with different weights. Models may have different words, as in
    `sklstruct.language_model.interpolate`. If all models have the same labels, the
    labels are kept; otherwise words are sorted.

    weights are divided by their sum. ``ngram -mix-lm`` of SRILM computes the same
    mixture, except that words that a model lacks have probability 0 in this model, and
    its unknown word keeps its probability.

    ValueError if models is empty, the marks of models differ, or a weight is negative.
    UserWarning if there are several models.
    """
    models = list(models)
    if not models:
        raise ValueError("models is empty: there is nothing to mix")
    for k, model in enumerate(models):
        check_model(model, f"models[{k}]")
    what = f"one number for each of the {len(models)} models"
    shares = as_shares(weights, len(models), what)
    labels = union_labels([model.labels for model in models])
    if labels.symbols is None and len({model.n_symbols for model in models}) > 1:
        raise ValueError("models have different numbers of symbols, without labels")
    if len(models) > 1:
        warn(
            "the mixture becomes one table, in which n-grams that no model lists have "
            "approximate probabilities; a pickle (joblib.dump, or a name in .pkl for "
            "the command) keeps the mixture itself"
        )
    pairs = _union(models, labels)
    windows, nodes = pairs.tree.windows(), pairs.nodes()
    proba = np.zeros(pairs.n_pairs)
    for model, weight in zip(models, shares / shares.sum()):
        own = model.labels
        at = model.tree.find_windows(_ids(own, labels, model.n_symbols)[windows])
        wider = WiderModel(model, own, labels)
        proba += weight * np.exp(wider.target(at[nodes], pairs.target))
    # Rows of files sum to 1 only up to rounding. Rows with a larger sum are divided by
    # the sum; the root is always divided, because it cannot back off.
    total = pairs.node_sums(proba)
    over = np.maximum(total, 1.0)
    over[0] = total[0]
    proba /= over[nodes]
    with np.errstate(divide="ignore"):
        log_left = np.log(np.maximum(1.0 - total / over, 0.0))
    # A sum of probabilities may exceed 1 by rounding.
    log_prob = np.log(np.clip(proba, np.finfo(np.float64).tiny, 1.0))
    return renormalize(pairs, log_prob, log_left, labels)


def _ids(labels: Labels, of: Labels, n_symbols: int) -> np.ndarray:
    """The symbol id in `labels` of each symbol of `of`, and -1 at the end."""
    if of.symbols is None:  # equal labels
        return np.append(np.arange(n_symbols, dtype=np.int32), np.int32(-1))
    return np.append(labels.encode_contexts(of.symbols), np.int32(-1))


def _union(models: list[BackoffModel], labels: Labels) -> Pairs:
    """The pairs of all models, in the ids of labels that contain all their labels."""
    n_symbols = labels.n_symbols
    if n_symbols is None:
        n_symbols = models[0].n_symbols
    rows = [_ids(labels, m.labels, m.n_symbols)[m.tree.windows()] for m in models]
    tree, nodes = tree_of_windows(rows, n_symbols)
    size, keys = np.int64(labels.n_classes), []
    for model, node in zip(models, nodes):
        class_id = labels.encode_targets(model.labels.classes)
        at = node[model.pairs.nodes()]
        keys.append(at * size + class_id[model.pairs.target])
    # The keys of a model are nearly in order, which this sort makes use of.
    key = np.sort(np.concatenate(keys), kind="stable")
    first = np.append(True, key[1:] > key[:-1])
    return pairs_of_keys(tree, key[first], labels.n_classes)
