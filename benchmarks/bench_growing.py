"""Growing as Cotterell and Eisner (2015) have it: arcs of the automaton as the size.

    SKLSTRUCT_DATA=... python benchmarks/bench_growing.py

The first 200 000 words of WikiText-2, contexts of 3, words of one occurrence unknown.
`arcs` are those of the automaton of a model that read a word or the end mark (distinct
prefixes of the n-grams with a weight, all unigrams included), `objective` is the mean
negative log-likelihood of the training text in nats.

`suffixes`: tree_l2 as in the package, groups extend into the past. `prefixes`: groups
of equation 9, which extend into the future along the arcs. alpha 0.9 for both. `l1`: no
groups. `grown`: `GrownLM`, depth by depth. `queue`: n-grams of all orders in decreasing
count from one priority queue, one taken if it raises the likelihood by more than lam;
after every 2 000 that are taken the true objective is measured, and growth ends where
it no longer gets better. `pruned`: Kneser-Ney pruned by entropy.
"""

from __future__ import annotations

import copy
import heapq

import numpy as np
from _common import first_words, main, wikitext

from sklstruct import KneserNeyLM, LanguageModel, StructuredLogLinearLM
from sklstruct.backoff import (
    Fitted,
    next_contexts,
    prune,
    renormalize,
    selected_nodes,
)
from sklstruct.context_tree._links import drop_newest, extend_pairs
from sklstruct.loglinear import DiagonalSolver, TreeL2
from sklstruct.loglinear._penalties._tree_l2 import BoundTreeL2
from sklstruct.loglinear._problem import Problem
from sklstruct.smoothing import GrownLM

DEPTH = 3
STRENGTHS = {
    "suffixes": (0.5, 1.0, 2.0, 4.0),
    "prefixes": (0.5, 1.0, 2.0, 4.0),
    "l1": (0.5, 1.0, 2.0, 4.0),
    "grown": (1.0, 2.0, 4.0, 8.0),
    "queue": (1.0, 2.0, 4.0, 8.0),
    "pruned": (1e-7, 1e-6, 3e-6, 1e-5),
    "Kneser-Ney": (0,),
}


def cases():
    return [
        {"model": name, "strength": s} for name, all_ in STRENGTHS.items() for s in all_
    ]


def prefixes(pairs, class_of_symbol):
    """The pair of the n-gram without its last word: -1 at unigrams, after a mark."""
    tree = pairs.tree
    ahead, _ = extend_pairs(
        tree, drop_newest(tree), pairs.ptr, pairs.target, class_of_symbol
    )
    of_node = np.full(tree.n_nodes, -1, dtype=np.int32)
    known = np.flatnonzero(ahead > 0)
    of_node[ahead[known]] = known
    return of_node[pairs.nodes()]


class ByLevel(Problem):
    """Walks over a forest whose children are not in one block with their parents."""

    def upward(self, up, state=None, push=None):
        if state is not None:
            state[:] = 0.0
        parts = [up(k, *self.levels[k]) or 0.0 for k in reversed(range(self.n_levels))]
        return float(sum(parts))

    def downward(self, down):
        for k in range(self.n_levels):
            down(k, *self.levels[k])


class BoundPrefixL2(BoundTreeL2):
    def __init__(self, penalty, problem):
        view = copy.copy(problem)
        view.__class__ = ByLevel
        n, symbols = problem.n_classes, problem.tree.n_symbols
        of_symbol = np.where(np.arange(symbols) < n, np.arange(symbols), -1)
        view.pair_parent = prefixes(problem.pairs, of_symbol.astype(np.int32))
        super().__init__(penalty, view)


class PrefixL2(TreeL2):
    bound = BoundPrefixL2


def n_arcs(pairs, labels, used):
    """Distinct prefixes of the n-grams that are used, and all unigrams."""
    used = used.copy()
    used[: pairs.n_classes] = True
    before = prefixes(pairs, labels.class_of_symbol)
    for k in reversed(range(1, pairs.tree.n_levels)):
        here = pairs.level(k)
        own = before[here][used[here]]
        used[own[own >= 0]] = True
    return int(used.sum())


class QueueLM(GrownLM):
    """`GrownLM` with one queue for all orders, and the true objective as the stop."""

    every = 2000

    def _fit_counted(self, counted, overwrite):
        pairs, count = counted.expanded()
        tree, n_classes = pairs.tree, pairs.n_classes
        unigram = self._unigrams(count[:n_classes])
        ahead = next_contexts(pairs, counted.labels)
        prefix = np.full(tree.n_nodes, -1, dtype=np.int64)
        prefix[ahead[ahead >= 0]] = np.flatnonzero(ahead >= 0)
        node, total = pairs.nodes(), pairs.node_sums(count)
        before, up = prefix[node].tolist(), pairs.parent.tolist()
        at, of_pair = node.tolist(), count.tolist()
        share = (count - self.discount) / total[node]
        share[:n_classes] = unigram
        share = share.tolist()
        keep = np.zeros(pairs.n_pairs, dtype=bool)
        keep[:n_classes] = True
        mass = [1.0] * tree.n_nodes  # left by the pairs that a node has
        low_mass = [1.0] * tree.n_nodes  # of the parent on the other classes
        rest = total.tolist()
        children = [[] for _ in range(pairs.n_pairs)]
        waiting = {}
        for p in range(n_classes, pairs.n_pairs):
            children[up[p]].append(p)
            if before[p] >= 0:
                waiting.setdefault(before[p], []).append(p)

        def prob(p):
            """P of the parent pair's class at the parent node, as the model is."""
            n, p = at[up[p]], up[p]
            return share[p] if keep[p] else mass[n] / max(low_mass[n], 1e-9) * prob(p)

        queue = [(-of_pair[p], prob(p), p) for q in range(n_classes)
                 for p in children[q] if before[p] < 0 or keep[before[p]]]  # fmt: skip
        heapq.heapify(queue)

        def model():
            smaller, kept = pairs.select(keep)
            index = selected_nodes(pairs, keep)
            with np.errstate(divide="ignore"):
                left = np.log(np.maximum(np.array(mass), 0.0)[index >= 0])
            return renormalize(
                smaller, np.log(np.array(share)[kept]), left, counted.labels
            ), index

        terminal = pairs.terminal_counts(count)
        ends = np.flatnonzero(terminal > 0)

        def objective():
            found, index = model()
            where = index.copy()
            for k in range(1, tree.n_levels):
                here = np.arange(tree.level(k).start, tree.level(k).stop)
                gone = here[where[here] < 0]
                where[gone] = where[tree.parent[gone]]
            log_p = found.target(where[node[ends]], pairs.target[ends])
            return float(-terminal[ends] @ log_p + self.lam * (keep.sum() - n_classes))

        values, taken = [objective()], 0
        while queue:
            *_, p = heapq.heappop(queue)
            n, c, low = at[p], of_pair[p], prob(p)
            r, s, o = mass[n], low_mass[n], rest[n]
            r_new, s_new, o_new = r - share[p], s - low, o - c
            if not (s_new > 1e-9 and share[p] > 0 and r_new > 1e-12):
                continue
            gain = c * np.log(share[p] / low) - o * np.log(r / s)
            gain += o_new * np.log(r_new / s_new) if o_new > 0 else 0.0
            if gain <= self.lam:
                continue
            keep[p], mass[n], low_mass[n], rest[n] = True, r_new, s_new, o_new
            for q in [*children[p], *waiting.get(p, ())]:
                if keep[up[q]] and (before[q] < 0 or keep[before[q]]) and not keep[q]:
                    heapq.heappush(queue, (-of_pair[q], prob(q), q))
            taken += 1
            if taken % self.every == 0:
                values.append(objective())
                if values[-1] >= values[-2]:
                    break
        self.objective_ = np.array(values)
        found, index = model()
        self.n_grown_ = found.n_pairs - n_classes
        return Fitted(found.pairs, found.log_prob, found.log_backoff, index)


def estimator(model, strength):
    def net(penalty):
        return StructuredLogLinearLM(
            penalty=penalty, lam=strength, alpha=0.9,
            solver=DiagonalSolver(tol=3e-3, max_iter=1000),
        )  # fmt: skip

    return {
        "suffixes": lambda: net(TreeL2()),
        "prefixes": lambda: net(PrefixL2()),
        "l1": lambda: net("l1"),
        "grown": lambda: GrownLM(lam=strength),
        "queue": lambda: QueueLM(lam=strength),
        "pruned": KneserNeyLM,
        "Kneser-Ney": KneserNeyLM,
    }[model]()


def run(case):
    train = first_words(wikitext("train"), 200_000)
    lm = LanguageModel(estimator(**case), max_depth=DEPTH, min_count=2)
    counted = lm.count(train)
    fitted = lm.fit(counted).estimator_
    if case["model"] == "pruned":
        smaller = prune(lm.backoff_model_, case["strength"], counts=counted)
        lm = LanguageModel.from_backoff(smaller)
    model = lm.backoff_model_
    used = np.ones(model.n_pairs, dtype=bool)
    if isinstance(fitted, StructuredLogLinearLM):
        used = fitted.coef_ != 0
    return {
        "arcs": n_arcs(model.pairs, model.labels, used),
        "objective": -lm.score(train),
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(wikitext("test")),
    }


if __name__ == "__main__":
    main(cases, run)
