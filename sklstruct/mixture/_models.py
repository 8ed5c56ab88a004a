"""Fitted distributions over the same few questions, of which others are made.

A *model* is P(y | x) over the outcomes 0 ... n_outcomes - 1. What it reads of the
contexts x is made once by a part (`_parts`) and may be shared by many models: an
array, or a (nested) tuple of arrays, with a row a sample. A model turns it into what
it looks up (``locate``) and answers from there:

==================  ==========================================================
``target(at, y)``   ln P(y_i | x_i)
``rows(at)``        ln P of every outcome
``best(at, k)``     the k most probable outcomes
``draw(at, u)``     an outcome for each uniform number
``facts(at)``       what a gate may look at: it depends on the history only
``group_target``    ln of the sum of P(y | x_i) over a group of outcomes
==================  ==========================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._compat import BaseEstimator
from .._likelihood import target_log_proba
from .._parallel import row_blocks, rows_per_block
from ..backoff import BackoffModel
from ..backoff._groups import log_group_proba
from ..loglinear._joint import JointTrees
from ..taxonomy import Forest
from ._gates import Gate


def take(contexts: Any, rows: Any) -> Any:
    """Some rows of contexts."""
    if isinstance(contexts, tuple):
        return tuple(take(part, rows) for part in contexts)
    return contexts.iloc[rows] if hasattr(contexts, "iloc") else contexts[rows]


def count_rows(contexts: Any) -> int:
    """Number of samples."""
    while isinstance(contexts, tuple):
        contexts = contexts[0]
    return contexts.shape[0]


def by_group(group: NDArray, n_groups: int) -> Iterator[tuple[int, Any]]:
    """(group, its rows in order) of every group that has some."""
    if n_groups == 1:
        if group.size:
            yield 0, slice(None)
        return
    # numpy sorts small integers by counting them.
    small = group.astype(np.int16) if n_groups < 1 << 15 else group
    order = np.argsort(small, kind="stable")
    bounds = np.searchsorted(small[order], np.arange(n_groups + 1))
    for g in np.flatnonzero(bounds[1:] > bounds[:-1]).tolist():
        yield g, order[bounds[g] : bounds[g + 1]]


def more_uniform(uniform: NDArray, step: int) -> NDArray:
    """Further numbers in [0, 1), one made of each by a hash (SplitMix64)."""
    # The constants wrap around on purpose; arrays do so without a warning.
    x = np.ascontiguousarray(uniform, dtype=np.float64).view(np.uint64)
    x = x + np.uint64((0x9E3779B97F4A7C15 * (step + 1)) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


# Numbers that a mixture turns from logarithms to their mixture at a time.
_IN_CACHE = 1 << 15

# Which further number a mixture draws with: none that a path through a tree uses.
_OF_MIXTURE = 1 << 20


class Model(ABC):
    """A distribution over `n_outcomes` outcomes given contexts; see the module.

    Attributes
    ----------
    n_outcomes : int
        Outcomes are 0 ... n_outcomes - 1.

    fact_depths : tuple of int
        For each tree of contexts that the model looks into, its depth. `facts` has
        two columns for each: the depth of the node that was found, and the logarithm
        of one plus the weight of the training samples at it.
    """

    n_outcomes: int
    fact_depths: tuple[int, ...] = ()

    def locate(self, contexts: Any) -> Any:
        """What the other methods look at, with a row a sample."""
        return contexts

    @abstractmethod
    def rows(self, at: Any) -> NDArray:
        """(n_samples, n_outcomes) natural logarithms, a new array."""

    def target(self, at: Any, outcome: NDArray) -> NDArray:
        """(n_samples,) natural logarithms for one outcome a sample."""
        return self.rows(at)[np.arange(outcome.size), outcome]

    def group_target(self, at: Any, group: NDArray, wanted: NDArray) -> NDArray:
        """(n_samples,) logarithms of the sums over one group of outcomes a sample.

        group: that of each outcome; wanted: one a sample.
        """
        out = np.empty(wanted.size)
        members = [np.flatnonzero(group == g) for g in range(int(group.max()) + 1)]
        for s in row_blocks(wanted.size, rows_per_block(self.n_outcomes)):
            rows = self.rows(take(at, s))
            for g, mine in by_group(wanted[s], len(members)):
                picked = rows[mine][:, members[g]]
                out[s][mine] = np.logaddexp.reduce(picked, axis=1)
        return out

    def groups(self) -> NDArray | None:
        """The group of each outcome in the model's own grouping; None: it has none."""
        return None

    def best(self, at: Any, k: int) -> tuple[NDArray, NDArray]:
        """(outcomes, their logarithms), (n_samples, k), ties by the smaller outcome."""
        rows = self.rows(at)
        best = np.argsort(-rows, axis=1, kind="stable")[:, :k]
        return best, np.take_along_axis(rows, best, axis=1)

    def draw(self, at: Any, uniform: NDArray) -> NDArray:
        """(n_samples,) outcomes by inversion."""
        cumulative = np.cumsum(np.exp(self.rows(at)), axis=1)
        # Scaling the number, not the row: rows need not quite sum to 1.
        drawn = (cumulative <= (uniform * cumulative[:, -1])[:, None]).sum(axis=1)
        return np.minimum(drawn, self.n_outcomes - 1)

    def facts(self, at: Any) -> NDArray:
        """(n_samples, 2 * len(fact_depths)) numbers about the contexts."""
        return np.empty((count_rows(at), 0))


class UniformModel(Model):
    """Where there was nothing to learn from."""

    def __init__(self, n_outcomes: int, fact_depths: tuple[int, ...] = ()) -> None:
        self.n_outcomes = n_outcomes
        self.fact_depths = fact_depths

    def rows(self, at: Any) -> NDArray:
        shape = (count_rows(at), self.n_outcomes)
        return np.full(shape, -np.log(self.n_outcomes))

    def facts(self, at: Any) -> NDArray:
        return np.zeros((count_rows(at), 2 * len(self.fact_depths)))


class TreeModel(Model):
    """A back-off model; contexts are windows of its symbol ids.

    Parameters
    ----------
    model : BackoffModel
        The classes are the outcomes.

    weight : ndarray of shape (n_nodes,), default=None
        Weight of the training samples at each node, for gates. None: no facts.

    located : bool, default=False
        Whether contexts are nodes already.
    """

    def __init__(
        self,
        model: BackoffModel,
        weight: NDArray | None = None,
        located: bool = False,
    ) -> None:
        self.model = model
        self.n_outcomes = model.n_classes
        self.located = located
        self.log_weight = None
        if weight is not None:
            self.log_weight = np.log1p(weight).astype(np.float32)
            self.fact_depths = (model.max_depth,)

    def locate(self, contexts: Any) -> NDArray:
        return contexts if self.located else self.model.find(contexts)

    def target(self, at: Any, outcome: NDArray) -> NDArray:
        return self.model.log_proba(at, outcome)

    def rows(self, at: Any) -> NDArray:
        return self.model.predict_log_proba(at)

    def group_target(self, at: Any, group: NDArray, wanted: NDArray) -> NDArray:
        return log_group_proba(self.model, at, group, wanted)

    def best(self, at: Any, k: int) -> tuple[NDArray, NDArray]:
        return self.model.top_k(at, k)

    def draw(self, at: Any, uniform: NDArray) -> NDArray:
        return self.model.sample_at(at, uniform)

    def facts(self, at: Any) -> NDArray:
        if self.log_weight is None:
            return super().facts(at)
        return np.column_stack([self.model.depth(at), self.log_weight[at]])


class EstimatorModel(Model):
    """Any fitted classifier; contexts are its X.

    Parameters
    ----------
    estimator : classifier
        Fitted.

    classes : ndarray of shape (n_outcomes,)
        What the outcomes are to it; those that it does not know have probability 0.
    """

    def __init__(self, estimator: BaseEstimator, classes: NDArray) -> None:
        self.estimator, self.classes = estimator, classes
        self.n_outcomes = classes.size

    def target(self, at: Any, outcome: NDArray) -> NDArray:
        log_prob = target_log_proba(self.estimator, at, self.classes[outcome])
        log_prob[np.isnan(log_prob)] = -np.inf
        return log_prob

    def rows(self, at: Any) -> NDArray:
        if hasattr(self.estimator, "predict_log_proba"):
            rows = self.estimator.predict_log_proba(at)
        else:
            with np.errstate(divide="ignore"):  # ln 0 = -inf is meant
                rows = np.log(self.estimator.predict_proba(at))
        known = self.estimator.classes_
        if np.array_equal(known, self.classes):
            return np.array(rows, dtype=np.float64)
        out = np.full((rows.shape[0], self.n_outcomes), -np.inf)
        position = {label: i for i, label in enumerate(self.classes.tolist())}
        for column, label in enumerate(np.asarray(known).tolist()):
            if label in position:
                out[:, position[label]] = rows[:, column]
        return out


class JointModel(Model):
    """Several trees in one softmax; contexts are a tuple of windows of ids.

    Parameters
    ----------
    trees : JointTrees
        With their weights.

    facts : bool
        Whether a gate will look at facts.
    """

    def __init__(self, trees: JointTrees, facts: bool = False) -> None:
        self.trees = trees
        self.n_outcomes = trees.n_outcomes
        if facts:
            # The other trees tell a gate little more, and each has a score of columns.
            self.fact_depths = (trees.trees[0].max_depth,)

    def locate(self, contexts: Any) -> NDArray:
        return self.trees.find(contexts)

    def target(self, at: Any, outcome: NDArray) -> NDArray:
        return self.trees.log_targets(at, outcome)

    def rows(self, at: Any) -> NDArray:
        return self.trees.log_rows(at)

    def facts(self, at: Any) -> NDArray:
        if not self.fact_depths:
            return super().facts(at)
        node = at[:, 0]
        depth = self.trees.depths(node)
        return np.column_stack([depth, np.log1p(self.trees.node_weight[node])])


class MixtureModel(Model):
    r""":math:`\sum_k \omega_k(x) P_k(y \mid x)`.

    Parameters
    ----------
    models : list of Model
        Over the same outcomes; contexts are a tuple of theirs.

    gate : Gate
        Gives the weights; may be shared with other mixtures.
    """

    def __init__(self, models: list[Model], gate: Gate) -> None:
        self.models, self.gate = models, gate
        self.n_outcomes = models[0].n_outcomes
        self.fact_depths = sum((m.fact_depths for m in models), ())

    def locate(self, contexts: Any) -> tuple:
        return tuple(m.locate(c) for m, c in zip(self.models, contexts))

    def log_weights(self, at: Any) -> NDArray:
        """(n_samples or 1, n_models) logarithms of the weights."""
        return self.gate.log_weights(self.facts(at) if self.gate.reads_facts else None)

    def targets(self, at: Any, outcome: NDArray) -> NDArray:
        """(n_samples, n_models) natural logarithms by model."""
        return np.column_stack([m.target(a, outcome) for m, a in zip(self.models, at)])

    def target(self, at: Any, outcome: NDArray) -> NDArray:
        return self._mixed(at, self.targets(at, outcome))

    def group_target(self, at: Any, group: NDArray, wanted: NDArray) -> NDArray:
        of_each = [m.group_target(a, group, wanted) for m, a in zip(self.models, at)]
        return self._mixed(at, np.column_stack(of_each))

    def groups(self) -> NDArray | None:
        found = (model.groups() for model in self.models)
        return next((g for g in found if g is not None), None)

    def _mixed(self, at, log_prob):
        """ln of the weighted sum over the models, whose log_prob is changed."""
        log_prob += self.log_weights(at)
        top = log_prob.max(axis=1)
        top[np.isneginf(top)] = 0.0
        np.exp(log_prob - top[:, None], out=log_prob)
        with np.errstate(divide="ignore"):
            return np.log(log_prob.sum(axis=1)) + top

    def rows(self, at: Any) -> NDArray:
        rows = [m.rows(where) for m, where in zip(self.models, at)]
        total = rows[0]
        shape = (len(total), len(rows))
        weights = np.broadcast_to(np.exp(self.log_weights(at)), shape)
        # A few rows at a time stay in the processor's cache from the first step to
        # the last.
        with np.errstate(divide="ignore"):
            for s in row_blocks(len(total), max(1, _IN_CACHE // self.n_outcomes)):
                mixed = total[s]
                for k, of_model in enumerate(rows):
                    part = of_model[s]
                    np.exp(part, out=part)
                    part *= weights[s, k : k + 1]
                    if k:
                        mixed += part
                np.log(mixed, out=mixed)
        return total

    def draw(self, at: Any, uniform: NDArray) -> NDArray:
        """A model by its weight, then an outcome of that model."""
        weights = np.exp(self.log_weights(at))
        cumulative = np.cumsum(weights, axis=1)
        chosen = (cumulative <= uniform[:, None] * cumulative[:, -1:]).sum(axis=1)
        chosen = np.minimum(chosen, len(self.models) - 1)
        again = more_uniform(uniform, _OF_MIXTURE)
        drawn = np.empty(uniform.size, dtype=np.int64)
        for k, rows in by_group(chosen, len(self.models)):
            drawn[rows] = self.models[k].draw(take(at[k], rows), again[rows])
        return drawn

    def facts(self, at: Any) -> NDArray:
        return np.hstack([m.facts(a) for m, a in zip(self.models, at)])


class FactoredModel(Model):
    r""":math:`\prod_j P(v_{j+1} \mid v_j, x)` along the path of a tree to an outcome.

    Contexts are a pair: what the models of groups read, what those of words read.

    Parameters
    ----------
    tree : Forest
        One tree, whose terminal nodes are the outcomes.

    models : list of Model or None
        One for each node of the tree; None where there is nothing to decide.

    of_words : bool ndarray of shape (n_nodes,)
        Whether all children of a node are terminal.
    """

    def __init__(self, tree: Forest, models: list[Model | None], of_words: NDArray):
        self.tree, self.models, self.of_words = tree, models, of_words
        self.n_outcomes = tree.terminal.shape[1]
        self.path_node, self.path_child = paths(tree)
        self.root = models[0]
        self.fact_depths = () if self.root is None else self.root.fact_depths

    def _contexts(self, at, node):
        return at[int(self.of_words[node])]

    def target(self, at: Any, outcome: NDArray) -> NDArray:
        out = np.zeros(outcome.size)
        for node_of, child_of in zip(self.path_node, self.path_child):
            node, child = node_of[outcome], child_of[outcome]
            # Those whose path has ended are group 0, the rest node + 1.
            for g, rows in by_group(node + 1, len(self.models) + 1):
                if g and self.models[g - 1] is not None:
                    model = self.models[g - 1]
                    contexts = take(self._contexts(at, g - 1), rows)
                    out[rows] += model.target(model.locate(contexts), child[rows])
        return out

    def groups(self) -> NDArray | None:
        return None if self.root is None else self.path_child[0]

    def group_target(self, at: Any, group: NDArray, wanted: NDArray) -> NDArray:
        own = self.groups()
        if own is None or not _same_partition(own, group):
            return super().group_target(at, group, wanted)
        child = np.empty(int(group.max()) + 1, dtype=np.int64)
        child[group] = own
        return self.root.target(self.root.locate(self._contexts(at, 0)), child[wanted])

    def rows(self, at: Any) -> NDArray:
        tree = self.tree
        total = np.zeros((count_rows(at), tree.n_nodes))
        for v in np.flatnonzero(tree.n_child).tolist():
            a = tree.first_child[v]
            children = slice(a, a + tree.n_child[v])
            above, model = total[:, [v]], self.models[v]
            if model is None:
                total[:, children] = above
            else:
                rows = model.rows(model.locate(self._contexts(at, v)))
                np.add(above, rows, out=total[:, children])
        # Several times faster than an index of columns.
        return np.take(total, tree.terminal[0], axis=1)

    def best(self, at: Any, k: int) -> tuple[NDArray, NDArray]:
        """Best first over the nodes.

        Every sample names the open node of the highest probability, and each model
        sees the samples of its node in one call; a sample is done when no open node is
        as probable as the worst of its k outcomes. Of the children that are outcomes
        no more than k can be among the best k.
        """
        tree, n = self.tree, count_rows(at)
        if self.n_outcomes == 1:
            return np.zeros((n, 1), dtype=np.int64), np.zeros((n, 1))
        found = np.full((n, k), self.n_outcomes, dtype=np.int64)
        value = np.full((n, k), -np.inf)
        inner = np.flatnonzero(tree.n_child > 0)
        column = np.full(tree.n_nodes, -1)
        column[inner] = np.arange(inner.size)
        openness = np.full((n, inner.size), -np.nan)
        openness[:, 0] = 0.0
        active = np.arange(n)
        while active.size:
            reached = np.where(np.isnan(openness[active]), -np.inf, openness[active])
            at_node = reached.argmax(axis=1)
            top = reached[np.arange(active.size), at_node]
            closed = np.isnan(openness[active]).all(axis=1)
            # An open node that ties may hold an outcome with a smaller number.
            going = ~closed & (
                (top >= value[active, -1]) | (found[active, -1] >= self.n_outcomes)
            )
            active, at_node, top = active[going], at_node[going], top[going]
            for c, rows in by_group(at_node, inner.size):
                v, samples, above = int(inner[c]), active[rows], top[rows]
                openness[samples, c] = np.nan
                self._expand(at, v, samples, above, k, column, openness, found, value)
        return found, value

    def _expand(self, at, v, samples, above, k, column, openness, found, value):
        tree, a = self.tree, int(self.tree.first_child[v])
        children = np.arange(a, a + int(tree.n_child[v]))
        model = self.models[v]
        if model is None:
            child, log_prob = (
                np.zeros((samples.size, 1), np.int64),
                np.zeros((samples.size, 1)),
            )
        else:
            where = model.locate(take(self._contexts(at, v), samples))
            if self.of_words[v]:
                child, log_prob = model.best(where, min(k, children.size))
            else:
                log_prob = model.rows(where)
                child = np.broadcast_to(np.arange(children.size), log_prob.shape)
        log_prob = log_prob + above[:, None]
        node = children[child]
        word = tree.node_class[node]
        grown = column[node]
        group = word < 0
        if group.any():
            openness[
                np.broadcast_to(samples[:, None], node.shape)[group], grown[group]
            ] = log_prob[group]
        if not group.all():
            words = np.where(group, self.n_outcomes, word)
            values = np.where(group, -np.inf, log_prob)
            words = np.hstack([found[samples], words])
            values = np.hstack([value[samples], values])
            order = np.lexsort((words, -values), axis=1)[:, :k]
            found[samples] = np.take_along_axis(words, order, axis=1)
            value[samples] = np.take_along_axis(values, order, axis=1)

    def draw(self, at: Any, uniform: NDArray) -> NDArray:
        tree, node = self.tree, np.zeros(uniform.size, dtype=np.int64)
        for step in range(len(self.path_node)):
            for v, rows in by_group(
                np.where(tree.n_child[node] > 0, node, -1) + 1, tree.n_nodes + 1
            ):
                if not v:
                    continue
                child, model = 0, self.models[v - 1]
                if model is not None:
                    where = model.locate(take(self._contexts(at, v - 1), rows))
                    child = model.draw(where, uniform[rows])
                node[rows] = tree.first_child[v - 1] + child
            uniform = more_uniform(uniform, step)
        return tree.node_class[node]

    def facts(self, at: Any) -> NDArray:
        """Those of the root: nodes below it depend on the outcome."""
        if self.root is None:
            return super().facts(at)
        return self.root.facts(self.root.locate(self._contexts(at, 0)))


def _same_partition(a, b):
    """Whether two numberings put the same outcomes together."""
    pairs = np.unique(np.column_stack([a, b]), axis=0)
    return len(pairs) == np.unique(pairs[:, 0]).size == np.unique(pairs[:, 1]).size


def paths(tree: Forest) -> tuple[NDArray, NDArray]:
    """(depth, n_outcomes) nodes and children along the path to each outcome, -1 after
    its end."""
    node = tree.terminal[0].astype(np.int64)
    nodes, children = [], []
    while (node > 0).any():
        parent = np.where(node > 0, tree.parent[np.maximum(node, 0)], -1)
        nodes.append(parent)
        children.append(np.where(parent >= 0, node - tree.first_child[parent], -1))
        node = parent
    depth = len(nodes)
    # From the bottom up paths are aligned at their ends; the top is wanted first.
    node_of = np.full((depth, tree.terminal.shape[1]), -1, dtype=np.int32)
    child_of = node_of.copy()
    length = np.sum([n >= 0 for n in nodes], axis=0, dtype=np.int64) if nodes else None
    for j, (n, c) in enumerate(zip(nodes, children)):
        here = np.flatnonzero(n >= 0)
        step = length[here] - 1 - j
        node_of[step, here], child_of[step, here] = n[here], c[here]
    return node_of, child_of
