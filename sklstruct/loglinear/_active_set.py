"""The active-set algorithm: a tree that grows where weights can be non-zero.

Weights of pairs that are not built are zero. At an optimum on the built pairs, with v
the negative gradient (see `_screening`), an unbuilt subtree at the pair r is zero at
the optimum of the whole problem if R_r <= t_r. The count and the expected count of r
are known when the samples that reach r are counted, because all classes have their
scores at the deepest built node. Below r nothing is counted; with p a lower bound of
the probability of the class there,

    count - expected count <= (1 - p) count,

and the counts of the pairs below r sum to at most the count of r. `subtree_bound` is an
upper bound of the excess that the subtree passes up. The algorithm:

    1. solve on the pairs that are built, from where the last round ended;
    2. count the children of the pairs whose samples are enough for one to enter;
    3. build the children that can enter. Without any, every pair that was not
       built is zero at the optimum of the whole problem, which is found.

Samples keep the deepest pair and the deepest node on their paths that are built, four
bytes each; the rest of the tree is never made.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._parallel import ThreadMap
from ..backoff import Positions
from ..context_tree import pairs_of_arrays, tree_of_arrays
from ..context_tree._tree import check_size, pointers
from ._fit import Fit, bind
from ._problem import Problem, pull
from ._screening import RootProblem, join_excesses, subtree_bound
from ._solvers import Report, Result, counted_on

# Factor of the tolerance in the rounds before the last, which only show where to grow.
_LOOSE = 10.0


class Grown(NamedTuple):
    """The optimum, on the part of the tree that was built."""

    fit: Fit
    result: Result
    objective: np.ndarray  # after each round
    n_iter: int  # evaluations of loss and gradient in all rounds


def grow(
    model: Any,
    samples: Positions,
    n_symbols: int,
    n_classes: int,
    parallel: ThreadMap,
    report: Report,
) -> Grown:
    """Minimise the penalised loss without making the whole tree.

    model: its solver is used in the last rounds; earlier rounds have a larger tolerance
    and no `gap_tol`.
    samples: histories no longer than the deepest context.
    report: called with (iteration, objective, optimality); True stops the fit.
    """
    tree = _Growth(samples, n_symbols, n_classes)
    # A tolerance is given to the last rounds only.
    tight, n_iter, starts = False, 0, None
    objectives: list[float] = []
    while True:
        fit = Fit(model, tree.problem(model, parallel))
        if not tight:
            fit.solver.set_params(tol=_LOOSE * fit.solver.tol, gap_tol=None)
        if starts is None:
            w = RootProblem(fit.problem, fit.bound).weights(1.0)
        else:
            w = fit.lowest(starts)
        result = fit.solve(w, counted_on(report, n_iter))
        objectives.append(result.objective)
        n_iter += len(result.history)
        if result.status == "stopped":
            break
        starts = tree.extend(fit.loss, fit.bound, result.w)
        if starts is None:
            if tight:
                break
            tight, starts = True, [result.w.copy()]
    return Grown(fit, result, np.array(objectives), n_iter)


class _Growth:
    """The built part of the tree, and the position of each sample in it.

    Pairs and nodes are in the order of `ContextTree` and `Pairs`: level by level.
    """

    def __init__(self, samples: Positions, n_symbols: int, n_classes: int) -> None:
        histories, self.target, weight = samples.stored, samples.target, samples.weight
        self.weight = np.ones(self.target.size) if weight is None else weight
        histories.check(n_symbols)
        self.flat, self.offset, self.length = histories
        self.n_symbols, self.n_classes = n_symbols, n_classes
        self.depth = int(self.length.max(initial=0))
        # Of the samples: deepest pair and deepest node on the way that are built.
        self.slot = self.target.astype(np.int32)
        self.node = np.zeros(self.slot.size, dtype=np.int32)
        # Of the nodes.
        self.parent = np.array([-1], dtype=np.int32)
        self.symbol = np.array([-1], dtype=np.int32)
        self.level_ptr = np.array([0, 1], dtype=np.int64)
        # Of the pairs. `rest` is an upper bound of the counts of unbuilt children.
        self.of_node = np.zeros(n_classes, dtype=np.int32)
        self.of_class = np.arange(n_classes, dtype=np.int32)
        self.pair_parent = np.full(n_classes, -1, dtype=np.int32)
        self.count = np.bincount(self.target, self.weight, n_classes)
        self.rest = self.count.copy()

    # ----------------------------------------------------------------- problem

    def problem(self, model: Any, parallel: ThreadMap) -> Problem:
        """The problem of the pairs that are built."""
        n_nodes = self.parent.size
        tree = tree_of_arrays(self.parent, self.symbol, self.level_ptr, self.n_symbols)
        ptr = pointers(np.bincount(self.of_node, minlength=n_nodes))
        pairs = pairs_of_arrays(tree, ptr, self.of_class, self.pair_parent)
        weight = np.bincount(self.node, self.weight, n_nodes)
        return bind(
            model, pairs, self.count, parallel, node_weight=weight, depth=self.depth
        )

    # ------------------------------------------------------------------ growth

    def extend(self, loss, bound, w):
        """Build the pairs that may have a weight; return two starts, or None without
        such pairs.

        The new weights are a guess in the first start and zero in the second.
        """
        problem = loss.problem
        gradient = np.empty_like(w)
        loss.value_and_gradient(w, gradient)
        _, es, z = loss.value_and_scores(w)
        deepest = self.depth
        coupling = float(bound.coupling)
        beta = problem.beta_by_depth[: deepest + 1]
        strength = problem.strength_by_depth[: deepest + 1]
        threshold = strength * (1.0 if coupling else bound.l1_ratio)
        largest_z, samples_over_z = self._summaries(problem, z)

        found = []  # of every depth: (pair, symbol, count, E, R)
        for k in range(min(problem.n_levels, deepest)):
            here = np.arange(*problem.levels[k])
            n = self.of_node[here]
            room = self.rest[here] * np.maximum(1.0 - es[here] / largest_z[n], 0.0)
            reach = subtree_bound(coupling, beta, threshold, k + 1, room)
            ask = here[reach > threshold[k + 1]]
            if not ask.size:
                continue
            pair, symbol, count = self._children(ask, k)
            room = count * np.maximum(1.0 - es[pair] / largest_z[self.of_node[pair]], 0)
            reach = subtree_bound(coupling, beta, threshold, k + 1, room)
            some = reach > threshold[k + 1]
            pair, symbol, count = pair[some], symbol[some], count[some]
            if not pair.size:
                continue
            inside, zs = self._below(pair, symbol, k, z, largest_z, samples_over_z)
            expected = es[pair] * inside
            R = beta[k + 1] * np.maximum(count - expected, 0.0)
            if k + 2 <= deepest:
                room = count * np.maximum(1.0 - es[pair] / zs, 0.0)
                below = subtree_bound(coupling, beta, threshold, k + 2, room)
                excess = np.maximum(below - threshold[k + 2], 0.0)
                if coupling:
                    R = (R**coupling + excess**coupling) ** (1.0 / coupling)
                else:
                    R = np.maximum(R, threshold[k + 1] + excess)
            over = R > threshold[k + 1]
            found.append(
                (k, pair[over], symbol[over], count[over], expected[over],
                 (R - threshold[k + 1])[over])
            )  # fmt: skip
        if coupling:
            v = pull(-gradient, problem.positive)
            self._absorb(problem, coupling, threshold, w, v, found)
        found = [f for f in found if f[1].size]
        if not found:
            return None
        return self._build(found, w, beta, threshold)

    def _summaries(self, problem, z):
        """The largest Z at and below each node; the sum of weight / Z over the samples
        at and below it."""
        largest = z.copy()
        for k in range(problem.n_levels - 1, 0, -1):
            here = problem.tree.level(k)
            np.maximum.at(largest, self.parent[here], largest[here])
        return largest, problem.tree.add_up(problem.node_weight / z)

    def _next(self, rows, k):
        """The next symbol in the histories of some samples, after k symbols."""
        return self.flat[self.offset[rows] - (k + 1)].astype(np.int64)

    def _continued(self, at, asked, n, k):
        """(keys, weights) of the samples whose deepest pair (or node) is in `asked`, of
        depth k, by their next symbol; see `_moved` for the keys.

        n: number of all pairs, or nodes.
        """
        wanted = np.zeros(n, dtype=bool)
        wanted[asked] = True
        rows = np.flatnonzero(wanted[at] & (self.length > k))
        key = at[rows] * np.int64(self.n_symbols) + self._next(rows, k)
        keys, which = np.unique(key, return_inverse=True)
        return keys, np.bincount(which, self.weight[rows], keys.size)

    def _children(self, ask, k):
        """(pair, symbol, count) of the unbuilt children of some pairs of depth k."""
        keys, count = self._continued(self.slot, ask, self.count.size, k)
        pair, symbol = np.divmod(keys, self.n_symbols)
        self.rest[ask] = 0.0
        np.maximum.at(self.rest, pair, count)
        return pair, symbol, count

    def _find_nodes(self, parent, symbol):
        """Node of each (parent, symbol), -1 where it is not built."""
        size = np.int64(self.n_symbols)
        keys = self.parent[1:] * size + self.symbol[1:]  # rising
        key = parent * size + symbol
        at = np.searchsorted(keys, key)
        inside = at < keys.size
        inside[inside] = keys[at[inside]] == key[inside]
        return np.where(inside, at + 1, -1)

    def _below(self, pair, symbol, k, z, largest_z, samples_over_z):
        """(sum of weight / Z over the samples, largest Z) of children."""
        up = self.of_node[pair].astype(np.int64)
        node = self._find_nodes(up, symbol)
        inside = samples_over_z[np.maximum(node, 0)]
        zs = largest_z[np.maximum(node, 0)]
        new = np.flatnonzero(node < 0)
        if new.size:
            keys, total = self._continued(self.node, up[new], self.parent.size, k)
            place = np.searchsorted(keys, up[new] * self.n_symbols + symbol[new])
            inside[new] = total[place] / z[up[new]]
            zs[new] = z[up[new]]
        return inside, zs

    def _absorb(self, problem, coupling, threshold, w, v, found):
        """Drop the pairs in groups that stay zero as a whole."""
        R, some = v.copy(), w != 0.0
        by_depth = {k: i for i, (k, *_) in enumerate(found)}
        for k in range(problem.n_levels - 1, -1, -1):
            here = slice(*problem.levels[k])
            if k in by_depth:
                _, pair, *_, excess = found[by_depth[k]]
                R[here] = join_excesses(coupling, R[here], excess, pair - here.start)
            if k > 0:
                up = slice(*problem.levels[k - 1])
                at = self.pair_parent[here]
                excess = np.maximum(R[here] - threshold[k], 0.0)
                R[up] = join_excesses(coupling, R[up], excess, at - up.start)
                some[at[some[here]]] = True
        held = np.zeros(w.size, dtype=bool)
        for k in range(problem.n_levels):
            here = slice(*problem.levels[k])
            held[here] = ~some[here] & (R[here] <= threshold[k])
            if k > 0:
                held[here] |= held[self.pair_parent[here]]
        for i, (k, pair, *rest) in enumerate(found):
            free = ~held[pair]
            found[i] = (k, pair[free], *(a[free] for a in rest))

    def _build(self, found, w, beta, threshold):
        n_pairs, n_nodes = self.count.size, self.parent.size
        size = np.int64(self.n_symbols)
        depth = np.concatenate([np.full(f[1].size, f[0] + 1) for f in found])
        pair, symbol, count, expected = (
            np.concatenate([f[i] for f in found]) for i in range(1, 5)
        )
        up = self.of_node[pair].astype(np.int64)
        # New nodes, each once; their keys are those of their parents' old numbers.
        node = self._find_nodes(up, symbol)
        new_keys, first, which = np.unique(
            (up * size + symbol)[node < 0], return_index=True, return_inverse=True
        )
        new_depth = depth[node < 0][first]
        node[node < 0] = n_nodes + which
        level = np.repeat(np.arange(self.level_ptr.size - 1), np.diff(self.level_ptr))
        level = np.concatenate([level, new_depth])
        check_size(level.size, "contexts")
        check_size(n_pairs + pair.size, "(context, class) pairs")
        parent = np.concatenate([self.parent, new_keys // size])
        key = np.concatenate([self.symbol, new_keys % size])
        order = self._order(level, parent, key)
        place = np.empty(order.size, dtype=np.int32)
        place[order] = np.arange(order.size, dtype=np.int32)
        self.node = self._moved(self.node, new_keys, new_depth, place)
        up_again = place[np.maximum(parent, 0)]
        up_again[0] = -1
        self.parent = up_again[order].astype(np.int32)
        self.symbol = key[order].astype(np.int32)
        self.level_ptr = np.concatenate([[0], np.cumsum(np.bincount(level))])

        of_node = place[np.concatenate([self.of_node, node])]
        of_class = np.concatenate([self.of_class, self.of_class[pair]])
        pair_order = np.lexsort((of_class, of_node))
        pair_place = np.empty(pair_order.size, dtype=np.int32)
        pair_place[pair_order] = np.arange(pair_order.size, dtype=np.int32)
        above = pair_place[np.concatenate([np.maximum(self.pair_parent, 0), pair])]
        above[: self.n_classes] = -1
        keys = pair * size + symbol
        rising = np.argsort(keys)
        moved = np.concatenate([pair_place[:n_pairs], pair_place[n_pairs:][rising]])
        self.slot = self._moved(self.slot, keys[rising], depth[rising], moved)
        # A first guess that assumes an unchanged score of the parent.
        with np.errstate(divide="ignore"):
            off = threshold[depth] / beta[depth]
            guess = np.log(np.maximum(count - off, 0.0) / expected) / beta[depth]
        guess = np.where(np.isfinite(guess), np.maximum(guess, 0.0), 0.0)
        new = guess, np.zeros_like(guess)
        starts = [np.concatenate([w, of_new])[pair_order] for of_new in new]
        self.of_node, self.of_class = of_node[pair_order], of_class[pair_order]
        self.pair_parent = above[pair_order].astype(np.int32)
        self.count = np.concatenate([self.count, count])[pair_order]
        self.rest = np.concatenate([self.rest, count])[pair_order]
        return starts

    @staticmethod
    def _order(level, parent, symbol):
        """Nodes level by level, in the order of their parents, then of symbols."""
        place = np.zeros(level.size, dtype=np.int64)
        parts, done = [], 0
        for k in range(int(level.max()) + 1):
            here = np.flatnonzero(level == k)
            up = place[np.maximum(parent[here], 0)]
            here = here[np.lexsort((symbol[here], up))]
            place[here] = done + np.arange(here.size)
            done += here.size
            parts.append(here)
        return np.concatenate(parts)

    def _moved(self, at, keys, depth, place):
        """The samples that move to new nodes, or new pairs.

        at: the node, or the pair, of each sample; overwritten.
        keys: of the new ones, rising: the old number of the parent times n_symbols,
        plus the symbol.
        depth: of the new ones.
        place: the number now of each old one, then of each new one in the order of
        `keys`.
        """
        size, n_old = np.int64(self.n_symbols), place.size - keys.size
        parent, grows = keys // size, np.zeros(n_old, dtype=bool)
        grows[parent] = True
        above = np.zeros(n_old, dtype=np.int64)  # depth of those that get children
        above[parent] = depth - 1
        rows = np.flatnonzero(grows[at])
        k = above[at[rows]]
        longer = self.length[rows] > k
        rows, k = rows[longer], k[longer]
        key = at[rows] * size + self._next(rows, k)
        found = np.minimum(np.searchsorted(keys, key), keys.size - 1)
        hit = keys[found] == key
        at[rows[hit]] = n_old + found[hit]
        return place[at]
