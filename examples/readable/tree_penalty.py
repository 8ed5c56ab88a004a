"""The objective of ``StructuredLogLinearLM`` with a tree penalty, in NumPy.

A weight belongs to a pair (context, class). The context is a tuple of the newest
symbols. A sample with the history x has the scores

    s(x, y) = sum of alpha^k w(last k symbols of x, y) over k = 0, 1, ...,

and P(y | x) = exp s(x, y) / sum over v of exp s(x, v). The objective is

    - sum over the samples of ln P(y_i | x_i) + lam sum over the pairs q of |w below q|,

where "w below q" holds the weights of q and of all pairs of the same class whose
context extends the context of q into the past. The norm is the Euclidean norm
("tree_l2") or the largest absolute value ("tree_linf").
"""

import numpy as np


def suffixes(history):
    """The empty context, the last symbol, the last two symbols, ..."""
    return [history[len(history) - k :] for k in range(len(history) + 1)]


def scores(weights, classes, history, alpha):
    """s(x, y) of every class y."""
    found = np.zeros(len(classes))
    for k, context in enumerate(suffixes(history)):
        for j, y in enumerate(classes):
            found[j] += alpha**k * weights.get((context, y), 0.0)
    return found


def log_probabilities(weights, classes, history, alpha):
    s = scores(weights, classes, history, alpha)
    top = s.max()
    return s - top - np.log(np.exp(s - top).sum())


def loss(weights, classes, histories, targets, alpha):
    """Minus the log-likelihood of the samples, in nats."""
    return -sum(
        log_probabilities(weights, classes, history, alpha)[classes.index(y)]
        for history, y in zip(histories, targets)
    )


def penalty(weights, norm):
    """The sum of the norms of the groups."""
    groups = {pair: [] for pair in weights}
    for (context, y), w in weights.items():
        for ancestor in suffixes(context):  # the context itself is the last one
            groups[ancestor, y].append(w)
    order = {"tree_l2": 2, "tree_linf": np.inf}[norm]
    return sum(np.linalg.norm(group, order) for group in groups.values())


def objective(weights, classes, histories, targets, *, lam, alpha, norm):
    return loss(weights, classes, histories, targets, alpha) + lam * penalty(
        weights, norm
    )
