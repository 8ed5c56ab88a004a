"""Tree-structured proximal operators, side by side with SPAMS.

    python benchmarks/bench_prox.py [--peer] [--case language]

Both tools get the same forest and the same values in one thread, in turns, and their
results are compared; times are CPU time of the public function, checks and allocation
included. SPAMS needs the variables in depth-first order and, for a forest, one more
group above the roots; preparing that is not timed. sklstruct takes the numbering of the
shape as it is (level by level in `language`), which is the harder one for the caches.
`ratio` is SPAMS over sklstruct: above 1 we are faster. A single deep tree is not given
to SPAMS, whose time grows there with nodes times depth.
"""

from itertools import pairwise

import numpy as np
from _common import fastest, main, options
from scipy.sparse import csc_matrix

from sklstruct.prox import prox_tree_l2, prox_tree_linf


def random_recursive(n, rng):
    """Every node chooses its parent among all earlier ones; depth about e ln n."""
    parents = (rng.random(n) * np.arange(n)).astype(np.int32)
    parents[0] = -1
    return parents


def chains(length):
    def shape(n, rng):
        parents = np.arange(-1, n - 1, dtype=np.int32)
        parents[::length] = -1
        return parents

    return shape


def deep_thin(n, rng):
    """One tree; the parent is one of the 20 nodes before: depth about n / 10."""
    parents = (
        np.arange(n) - 1 - (rng.random(n) * np.minimum(np.arange(n), 20)).astype(int)
    )
    parents[0] = -1
    return parents.astype(np.int32)


def language(n, rng):
    """Like the pairs of a 5-gram model: levels in order, V roots, a long tail of
    nodes without children and few with very many."""
    shares = np.array([0.01, 0.17, 0.28, 0.28, 0.26])
    sizes = np.maximum((shares * n).astype(int), 1)
    parents, start = [np.full(sizes[0], -1)], 0
    for above, size in pairwise(sizes):
        at = np.floor(above * rng.random(size) ** 3).astype(int)
        parents.append(start + np.sort(at))
        start += above
    return np.concatenate(parents).astype(np.int32)


SHAPES = {
    "random recursive": random_recursive,
    "chains of 200": chains(200),
    "chains of 2000": chains(2000),
    "language": language,
    "deep thin": deep_thin,
}


def depth_first(parents):
    """Position of each node in a depth-first order (parents < children given)."""
    n = len(parents)
    parents = parents.tolist()
    size = [1] * n
    for i in range(n - 1, -1, -1):
        if parents[i] >= 0:
            size[parents[i]] += size[i]
    position, free, start = [0] * n, [0] * n, 0
    for i, p in enumerate(parents):
        if p < 0:
            position[i] = start
            start += size[i]
        else:
            position[i] = free[p]
            free[p] += size[i]
        free[i] = position[i] + 1
    return np.array(position)


class Spams:
    def __init__(self, parents):
        import spams

        self.spams = spams
        n = len(parents)
        self.position = depth_first(parents)
        above = np.empty(n, int)
        above[self.position] = np.where(parents >= 0, self.position[parents], -1)
        self.tree = {
            "eta_g": np.concatenate([[0.0], np.ones(n)]),
            "groups": csc_matrix(
                (np.ones(n, bool), (np.arange(1, n + 1), above + 1)),
                shape=(n + 1, n + 1),
            ),
            "own_variables": np.concatenate([[0], np.arange(n)]).astype(np.int32),
            "N_own_variables": np.concatenate([[0], np.ones(n)]).astype(np.int32),
        }

    def arrange(self, v):
        out = np.empty((len(v), 1), order="F")
        out[self.position, 0] = v
        return out

    def __call__(self, v, kappa, regul):
        return self.spams.proximalTree(
            v, self.tree, lambda1=kappa, regul=regul, numThreads=1
        )


OPERATORS = {"tree_l2": prox_tree_l2, "tree_linf": prox_tree_linf}


def cases():
    return [
        {"shape": shape, "nodes": nodes, "kappa": kappa, "operator": operator}
        | ({"slow": True} if nodes > 100_000 else {})
        for shape in SHAPES
        for nodes in (100_000, 400_000)
        for kappa in (0.01, 0.3)
        for operator in OPERATORS
    ]


def run(case):
    rng = np.random.default_rng(0)
    parents = SHAPES[case["shape"]](case["nodes"], rng)
    v = rng.standard_normal(len(parents))
    kappa, prox = case["kappa"], OPERATORS[case["operator"]]
    calls = {"ours": lambda: prox(v, parents, kappa)}
    peer = None
    if "spams" in options.peers and case["shape"] != "deep thin":
        peer = Spams(parents)
        theirs = peer.arrange(v)
        regul = case["operator"].replace("_", "-")
        calls["spams"] = lambda: peer(theirs, kappa, regul)
    times = fastest(**calls)
    figures = {"milliseconds": 1e3 * times["ours"].cpu}
    if peer is not None:
        gap = times["spams"].result[peer.position, 0] - times["ours"].result
        figures["spams_milliseconds"] = 1e3 * times["spams"].cpu
        figures["ratio"] = times["spams"].cpu / times["ours"].cpu
        figures["difference"] = np.abs(gap).max()
    return figures


if __name__ == "__main__":
    main(cases, run, peers=("spams",))
