"""Tree-structured proximal operators, side by side with SPAMS and with random pivots.

    SKLSTRUCT_DATA=... python benchmarks/bench_prox.py [--peer] [--case "WikiText-2"]

`operators`: both tools get the same forest and the same values in one thread, in turns,
and their results are compared; times are CPU time of the public function, checks and
allocation included. SPAMS needs the variables in depth-first order and, for a forest,
one more group above the roots; preparing that is not timed. sklstruct takes the
numbering of the shape as it is (level by level in word trees), which is the harder one
for the caches. `ratio` is SPAMS over sklstruct: above 1 we are faster. A single deep
tree is not given to SPAMS, whose time grows there with nodes times depth. "WikiText-2"
are the pairs of its first words at order 5, a tree for each word that follows, about as
many nodes as said.

`length`, `depth`: figure 3 of Nelakanti et al. (2013), the tree_linf operator on the
pairs of the first words of WikiText-2 against the length of the text and of the
contexts, on the trie and on the collapsed tree. The values are the weights at which the
log-linear model is Kneser-Ney smoothing. `RandomPivot` is algorithm 3 of the paper: a
projection at each node, by random pivots, of its whole subtree. It runs on numpy, so
that its seconds are those of its method and of Python; `values` counts the numbers that
it compares with pivots.
"""

from __future__ import annotations

import numpy as np
from _common import fastest, first_words, main, options, timed, wikitext
from scipy.sparse import csc_matrix

from sklstruct.context_tree import ContextTree, Histories, Pairs
from sklstruct.context_tree._suffix_tree import suffix_tree
from sklstruct.loglinear._problem import Problem
from sklstruct.loglinear._start import kneser_ney_weights
from sklstruct.prox import prox_tree_l2, prox_tree_linf
from sklstruct.symbols import context_windows

NODES = (10_000, 100_000, 1_000_000)
WORDS = {10_000: 2_600, 100_000: 28_000, 1_000_000: 320_000}
LENGTHS = (1_000, 3_000, 10_000, 30_000, 100_000)
DEPTHS = (1, 2, 3, 4, 6, 8, 10)

# Words of the text, and the longest context, where the other one grows.
LENGTH, DEPTH = 10_000, 10

# Beyond this a projection at each node takes minutes.
PIVOT_NODES = 200_000

# Threshold of the cases against length and depth.
KAPPA = 0.1


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


def star(n, rng):
    parents = np.zeros(n, dtype=np.int32)
    parents[0] = -1
    return parents


def text_pairs(sentences, depth, collapse=False):
    """(pairs, counts) of all contexts of up to `depth` words."""
    w = context_windows(sentences, depth)
    keep = w.sample_weight > 0
    windows, target = w.contexts[keep].astype(np.int32), w.targets[keep]
    histories = Histories.from_windows(windows, depth)
    tree, terminal = (suffix_tree if collapse else ContextTree.from_histories)(
        histories, w.vocabulary.size
    )
    return Pairs.count(tree, terminal, target.astype(np.int32), w.vocabulary.size)


def word_trees(n, rng):
    """The pairs of a text of as many words as make about n pairs."""
    return text_pairs(first_words(wikitext("train"), WORDS[n]), 4)[0].parent


SHAPES = {
    "random recursive": random_recursive,
    "chains of 200": chains(200),
    "chains of 2000": chains(2000),
    "star": star,
    "WikiText-2": word_trees,
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


class RandomPivot:
    """Algorithm 3 of the paper on a forest: projections from the leaves up.

    Nodes come in depth-first order, so that a subtree is a slice.
    """

    def __init__(self, parents):
        n = parents.size
        self.position = depth_first(parents)
        self.size = np.ones(n, dtype=np.int64)
        above = np.empty(n, dtype=np.int64)
        above[self.position] = np.where(parents >= 0, self.position[parents], -1)
        for i in range(n - 1, -1, -1):
            if above[i] >= 0:
                self.size[above[i]] += self.size[i]

    def __call__(self, v, multiplicity, kappa, rng):
        """(result in the order of v, values compared with a pivot)."""
        w, c = np.empty_like(v), np.empty_like(v)
        w[self.position], c[self.position] = v, multiplicity
        touched = 0
        for i in range(w.size - 1, -1, -1):
            here = slice(i, i + self.size[i])
            touched += self.project(w[here], c[here], c[i] * kappa, rng)
        return w[self.position], touched

    @staticmethod
    def project(w, c, kappa, rng):
        """w <- what its projection on the l1 ball of radius kappa leaves."""
        total, weight, touched = 0.0, 0.0, 0
        x, m = w, c
        while x.size:
            pivot = rng.integers(x.size)
            upper = x >= x[pivot]
            touched += x.size
            more, heavier = float((x * m)[upper].sum()), float(m[upper].sum())
            if (total + more) - (weight + heavier) * x[pivot] < kappa:
                total, weight = total + more, weight + heavier
                x, m = x[~upper], m[~upper]
            else:
                upper[pivot] = False
                x, m = x[upper], m[upper]
        level = (total - kappa) / weight if weight else 0.0
        np.minimum(w, max(level, 0.0), out=w)
        return touched


def cases():
    out = [
        {
            "section": "operators",
            "shape": shape,
            "nodes": nodes,
            "kappa": kappa,
            "operator": operator,
        }
        | ({"slow": True} if nodes > 100_000 else {})
        for shape in SHAPES
        for nodes in NODES
        for kappa in (0.01, 0.3)
        for operator in OPERATORS
    ]
    sweeps = [("length", words, DEPTH) for words in LENGTHS]
    sweeps += [("depth", LENGTH, depth) for depth in DEPTHS]
    return out + [
        {"section": section, "words": words, "depth": depth, "tree": tree}
        | ({"slow": True} if words > 3_000 else {})
        for section, words, depth in sweeps
        for tree in ("trie", "collapsed")
    ]


def against_length(case):
    """Our operator and random pivots on the pairs of a text."""
    text = first_words(wikitext("train"), case["words"])
    pairs, count = text_pairs(text, case["depth"], case["tree"] == "collapsed")
    k = np.zeros(case["depth"] + 1)
    v = kneser_ney_weights(Problem(pairs, count, k + 1.0, k))
    multiplicity = pairs.tree.spans()[pairs.nodes()].astype(np.float64)
    ours = fastest(
        ours=lambda: prox_tree_linf(
            v, pairs.parent, KAPPA, multiplicity=multiplicity, positive=True
        )
    )["ours"]
    figures = {"pairs": pairs.n_pairs, "milliseconds": 1e3 * ours.cpu}
    if pairs.n_pairs <= PIVOT_NODES:
        reference = RandomPivot(pairs.parent)
        rng = np.random.default_rng(0)
        theirs = timed(reference, v, multiplicity, KAPPA, rng, repeats=1)
        result, touched = theirs.result
        figures["pivot_milliseconds"] = 1e3 * theirs.cpu
        figures["pivot_values"] = touched
        figures["difference"] = float(np.abs(result - ours.result).max())
    return figures


def run(case):
    if case["section"] != "operators":
        return against_length(case)
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
    figures = {"true_nodes": parents.size, "milliseconds": 1e3 * times["ours"].cpu}
    if peer is not None:
        gap = times["spams"].result[peer.position, 0] - times["ours"].result
        figures["spams_milliseconds"] = 1e3 * times["spams"].cpu
        figures["ratio"] = times["spams"].cpu / times["ours"].cpu
        figures["difference"] = np.abs(gap).max()
    return figures


if __name__ == "__main__":
    main(cases, run, peers=("spams",))
