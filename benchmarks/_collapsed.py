"""Contexts of any length: power-law discounts on the collapsed suffix tree.

A context holds back ``d c^e`` of each of its counts c and gives ``c^e`` to the count of
its parent; e = 0 is Kneser-Ney with one discount per depth. On a path of contexts
without branches, ``(c^e)^f = c^(e f)`` and

    c - d c^e + d (c^e - b c^(e f)) = c - d b c^(e f),

so that the path is one node with the product of its discounts and that of its
exponents (Wood et al., "A stochastic memoizer for sequence data", ICML 2009, theorem 1,
for the tables of a Pitman-Yor process without strength). The contexts of a text of n
words are all there, back to the start of their sentence, in at most 2 n nodes.

Sentences are sequences of ids; a context ends with the start of its sentence.
"""

from __future__ import annotations

import numpy as np


class Positions:
    """Places of several texts, in the order of their contexts, read backwards."""

    def __init__(self, texts, n_classes, end):
        stream, target, length, text = [], [], [], []
        for number, sentences in enumerate(texts):
            for sentence in sentences:
                ids = np.asarray(sentence, dtype=np.int64)
                stream += [[0], ids + 1]
                target += [ids, [end]]
                length.append(np.arange(1, ids.size + 2))
                text.append(np.full(ids.size + 1, number))
        self.n_classes = n_classes
        self.target = np.concatenate(target)
        self.length = np.concatenate(length)  # with the start of the sentence
        self.text = np.concatenate(text)
        self._double(np.concatenate(stream))

    def _double(self, symbol):
        """Ranks of the last 1, 2, 4, ... symbols of each context."""
        n = symbol.size
        self.ranks = [symbol]
        h = 1
        while h < self.length.max():
            before = np.full(n, -1)
            known = np.flatnonzero(self.length > h)
            before[known] = self.ranks[-1][known - h]
            key = self.ranks[-1] * (n + 1) + before + 1
            self.ranks.append(np.unique(key, return_inverse=True)[1])
            h *= 2
        self.order = np.argsort(self.ranks[-1], kind="stable")

    def common(self, a, b):
        """Number of symbols that the contexts of two arrays of places share."""
        a, b = a.copy(), b.copy()
        shared, open_ = np.zeros(a.size, dtype=np.int64), np.ones(a.size, dtype=bool)
        for k in reversed(range(len(self.ranks))):
            same = open_ & (self.ranks[k][a] == self.ranks[k][b])
            step = np.minimum(2**k, self.length[a])
            open_ &= ~(same & (step == self.length[a]))
            shared += np.where(same, step, 0)
            ahead = same & open_
            a[ahead] -= 2**k
            b[ahead] -= 2**k
        return shared


class CollapsedTree:
    """The branching contexts of text 0 of some places, its ends, and their pairs.

    Nodes have a `depth`, a `parent` and a `level`, the number of nodes above. The pairs
    of a level are sorted by node and class; `up` is the pair of the node above.
    """

    def __init__(self, places):
        self.places, self.n_classes = places, places.n_classes
        order = places.order[places.text[places.order] == 0]
        shared = places.common(order[1:], order[:-1])
        same = shared == places.length[order[1:]]
        same &= places.length[order[1:]] == places.length[order[:-1]]
        first = np.r_[True, ~same]
        leaf = self._grow(
            places.length[order[first]].tolist(), [0, *shared[~same].tolist()]
        )
        leaf = np.asarray(leaf)[np.cumsum(first) - 1]
        self.leaf_of = np.full(places.text.size, -1)
        self.leaf_of[order] = leaf
        self._levels()
        self._pairs(leaf, places.target[order])

    def _grow(self, lengths, shared):
        depth, parent, path, leaf = [0], [-1], [0], []
        for length, common in zip(lengths, shared):
            last = -1
            while depth[path[-1]] > common:
                last = path.pop()
            if depth[path[-1]] < common:
                depth.append(common)
                parent.append(path[-1])
                parent[last] = len(depth) - 1
                path.append(len(depth) - 1)
            depth.append(length)
            parent.append(path[-1])
            path.append(len(depth) - 1)
            leaf.append(path[-1])
        self.depth, self.parent = np.array(depth), np.array(parent)
        return leaf

    def _levels(self):
        self.level = np.zeros(self.depth.size, dtype=np.int64)
        above = self.parent.copy()
        while (above >= 0).any():
            self.level += above >= 0
            above = np.where(above >= 0, self.parent[above], -1)
        self.n_levels = int(self.level.max()) + 1

    def _pairs(self, leaf, target):
        """Sorted keys of each level, the numbers of the text, and the pair above."""
        V, n = self.n_classes, self.n_levels
        self.key, self.up, self.own = [None] * n, [None] * n, [None] * n
        below = np.empty(0, dtype=np.int64)
        for k in reversed(range(n)):
            at = self.level[leaf] == k
            ends = leaf[at] * V + target[at]
            key, place = np.unique(np.r_[below, ends], return_inverse=True)
            if k + 1 < n:
                self.up[k + 1] = place[: below.size]
            own = np.bincount(place[below.size :], minlength=key.size)
            self.key[k], self.own[k] = key, own.astype(float)
            below = self.parent[key // V] * V + key % V
        self.node = [key // V for key in self.key]
        self.n_pairs = sum(map(len, self.key))

    def find(self, at):
        """(node, length): the longest context of text 0 that ends each place.

        It lies on the edge above the node, whose depth is at least the length.
        """
        places, n = self.places, self.places.order.size
        rank = np.empty(n, dtype=np.int64)
        rank[places.order] = np.arange(n)
        seen = places.text[places.order] == 0
        before = np.maximum.accumulate(np.where(seen, np.arange(n), -1))
        after = np.minimum.accumulate(np.where(seen, np.arange(n), n)[::-1])[::-1]
        best, length = np.zeros(at.size, dtype=np.int64), np.full(at.size, -1)
        for near in (before[rank[at]], after[rank[at]]):
            known = (near >= 0) & (near < n)
            near = places.order[near.clip(0, n - 1)]
            shared = np.where(known, places.common(at, near), -1)
            better = shared > length
            best, length = (
                np.where(better, near, best),
                np.where(better, shared, length),
            )
        node = self.leaf_of[best]
        while True:
            above = self.parent[node]
            climb = (above >= 0) & (self.depth[above] >= length)
            if not climb.any():
                return node, length
            node = np.where(climb, above, node)


class Queries:
    """Classes after contexts: the path of each, found once for all discounts."""

    def __init__(self, tree, at, target):
        self.tree = tree
        node, self.length = tree.find(at)
        V = tree.n_classes
        self.last = node
        self.levels = []
        for k in range(tree.n_levels):
            who = np.flatnonzero(tree.level[node] >= k)
            if not who.size:
                break
            here = node[who]
            while (deep := tree.level[here] > k).any():
                here = np.where(deep, tree.parent[here], here)
            key = here * V + target[who]
            pair = np.searchsorted(tree.key[k], key).clip(max=tree.key[k].size - 1)
            pair = np.where(tree.key[k][pair] == key, pair, -1)
            self.levels.append((who, here, pair, tree.level[node[who]] == k))


class PowerLaw:
    """Probabilities with a discount and an exponent of each depth, the last for deeper
    ones."""

    def __init__(self, tree, discount, exponent):
        self.tree = tree
        deepest = int(tree.depth.max())

        def running(values):
            by_depth = np.r_[values, np.full(max(deepest, 1), values[-1])]
            return np.r_[0.0, np.cumsum(np.log(by_depth[: deepest + 1]))]

        # [k + 1] - [j + 1]: the product of the depths j + 1 to k
        self.d, self.e = running(discount), running(exponent)
        top = np.where(tree.parent >= 0, tree.depth[tree.parent], -1)
        self.top = top
        D = np.exp(self.d[tree.depth + 1] - self.d[top + 1])
        E = np.exp(self.e[tree.depth + 1] - self.e[top + 1])
        n_nodes = tree.depth.size
        self.count, self.given = [None] * tree.n_levels, [None] * tree.n_levels
        self.total, self.tables = np.zeros(n_nodes), np.zeros(n_nodes)
        up = None
        for k in reversed(range(tree.n_levels)):
            x = tree.own[k].copy()
            if up is not None:
                x += np.bincount(tree.up[k + 1], up, x.size)
            node = tree.node[k]
            up = x ** E[node]
            self.count[k], self.given[k] = x, up
            self.total += np.bincount(node, x, n_nodes)
            self.tables += np.bincount(node, up, n_nodes)
        self.D = D

    def proba(self, queries):
        tree = self.tree
        p = np.full(queries.last.size, 1.0 / tree.n_classes)
        for k, (who, node, pair, last) in enumerate(queries.levels):
            found = pair >= 0
            x = np.where(found, self.count[k][pair], 0.0)
            t = np.where(found, self.given[k][pair], 0.0)
            D, total = self.D[node], self.total[node].copy()
            if last.any():
                x[last], D[last], total[last] = self._within(
                    k, node[last], queries.length[who[last]], x[last]
                )
            p[who] = (x - D * t) / total + D * self.tables[node] / total * p[who]
        return p

    def _within(self, k, node, length, x):
        """(count, discount, total) of contexts within the edges above some nodes."""
        tree = self.tree
        D = np.exp(self.d[length + 1] - self.d[self.top[node] + 1])
        E = np.exp(self.e[tree.depth[node] + 1] - self.e[length + 1])
        place = node * (tree.depth.max() + 1) + length
        _, one, which = np.unique(place, return_index=True, return_inverse=True)
        begin = np.searchsorted(tree.node[k], node[one])
        size = np.searchsorted(tree.node[k], node[one], side="right") - begin
        of = np.repeat(np.arange(one.size), size)
        at = np.arange(of.size) - np.repeat(np.cumsum(size) - size, size) + begin[of]
        total = np.bincount(of, self.count[k][at] ** E[one][of], one.size)
        return np.where(x > 0, x**E, 0.0), D, total[which]
