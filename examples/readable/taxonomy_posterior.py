"""The probabilities of ``HierarchicalClassifier`` along a taxonomy, in NumPy.

The taxonomy is a nested list of classes. Every list is a node with a multinomial
logistic regression over its entries: one row of weights and one intercept for each
entry, or a single row for the second of two entries, whose score is compared with 0.
With v_0, v_1, ..., y the path from the root to the class y,

    P(y | x) = product over j of P(v_{j+1} | v_j, x).

P falls along a path. A best-first search therefore finds the most probable class
without the branches whose probability is smaller.
"""

import heapq

import numpy as np


def children_proba(node_weights, x):
    """P(child | node, x) of the children of one node."""
    coef, intercept = node_weights
    z = coef @ x + intercept
    if z.size == 1:  # two children
        z = np.array([0.0, z[0]])
    e = np.exp(z - z.max())
    return e / e.sum()


def posterior(tree, weights, x, above=1.0, path=()):
    """{class: P(class | x)} of the classes below a node.

    weights: {path of positions from the root: (coef, intercept)}.
    """
    found = {}
    for k, p in enumerate(children_proba(weights[path], x)):
        child = tree[k]
        if isinstance(child, list):
            found |= posterior(child, weights, x, above * p, (*path, k))
        else:
            found[child] = above * p
    return found


def most_probable(tree, weights, x):
    """(class, its probability, number of nodes that were evaluated), best first."""
    queue, n_nodes = [(-1.0, (), tree)], 0
    while True:
        minus_p, path, best = heapq.heappop(queue)
        if not isinstance(best, list):
            return best, -minus_p, n_nodes
        n_nodes += 1
        for k, p in enumerate(children_proba(weights[path], x)):
            heapq.heappush(queue, (minus_p * p, (*path, k), best[k]))
