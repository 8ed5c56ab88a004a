r"""Another model as the prior of a fit: the weights are differences from its weights.

Any back-off model is log-linear over its own pairs, with the scores

    s(n, y) = ln P(y | n) - sum of ln bow over the way from the root to n,

where a class without a pair at n has the score of the parent. The score of a pair minus
the score of its parent is the weight of the pair in the prior. A fit that penalises the
distance from these weights minimises the loss at w + (weights of the prior), with its
penalty on the difference w.
"""

from __future__ import annotations

import numpy as np

from ..backoff import BackoffModel, Counted, close_model
from ..context_tree import Pairs, merge_counts, pairs_of_arrays
from ..symbols import Labels


def check_labels(prior: BackoffModel, labels: Labels) -> None:
    """ValueError unless a prior has these classes and context symbols."""
    if prior.labels != labels:
        raise ValueError(
            "prior: its classes, context symbols and marks must be those of the data "
            f"({prior.n_classes} and {labels.n_classes} classes); fit both on one "
            "vocabulary, as with LanguageModel(vocabulary=...)"
        )


def with_pairs_of(
    prior: BackoffModel, counted: Counted
) -> tuple[Pairs, np.ndarray, np.ndarray]:
    """(pairs, count, scores less those of the parents) of a text and of a prior.

    The prior is over the classes and symbols of the text. Pairs that it alone has get a
    count of 0. The scores are the weights of the prior, for features of weight 1.
    """
    labels = counted.labels
    check_labels(prior, labels)
    if prior.max_depth > counted.depth:
        raise ValueError(
            f"prior: its contexts have up to {prior.max_depth} symbols, those of the "
            f"data up to {counted.depth}, so that the fit would not see them; set "
            "max_depth to that of the prior, or more"
        )
    pairs, count = counted.expanded()
    closed = close_model(prior, labels.class_of_symbol)
    own = pairs_of_arrays(closed.tree, closed.pair_ptr, closed.target)
    zeros = np.zeros(own.n_pairs)
    merged, total, (_, there) = merge_counts([(pairs, count), (own, zeros)])
    tree = merged.tree
    nearest = np.full(tree.n_nodes, -1, dtype=np.int32)
    nearest[there] = np.arange(closed.tree.n_nodes, dtype=np.int32)
    nearest = tree.nearest(nearest)
    backoff = np.zeros(tree.n_nodes)
    backoff[there] = closed.log_backoff
    node = merged.nodes()
    model = BackoffModel(own, closed.log_prob, closed.log_backoff, labels)
    weight = model.target(nearest[node], merged.target)
    below = slice(merged.n_classes, None)
    weight[below] -= backoff[node[below]] + weight[merged.parent[below]]
    if not np.isfinite(weight).all():
        raise ValueError(
            "prior: a class has the probability 0, or a context leaves none to the "
            "classes that it has not seen; smooth the model"
        )
    return merged, total, weight
