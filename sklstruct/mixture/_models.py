"""Distributions that are made of others, and the uniform one."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._checks import CheckedState
from .._parallel import row_blocks
from ..backoff import Distribution
from ..backoff._distribution import by_group, count_rows, draw_columns, take
from ..taxonomy import Forest
from ._gates import Gate, log_mixture
from ._history import adapt_groups, after_words, count_all_words, count_words


def more_uniform(uniform: NDArray, step: int) -> NDArray:
    """Further numbers in [0, 1), one made of each by a hash (SplitMix64)."""
    # The constants wrap around on purpose; arrays do so without a warning.
    x = np.ascontiguousarray(uniform, dtype=np.float64).view(np.uint64)
    x = x + np.uint64((0x9E3779B97F4A7C15 * (step + 1)) % 2**64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    x = x ^ (x >> np.uint64(31))
    return (x >> np.uint64(11)).astype(np.float64) * 2.0**-53


# Probabilities of groups that are made at a time for single targets.
_NUMBERS = 1 << 20

# Numbers that a mixture turns from logarithms to their mixture at a time.
_IN_CACHE = 1 << 15

# Steps of `more_uniform`: those of a path through a tree are below 1000.
_OF_MIXTURE, _OF_REDRAWS = 1 << 20, 1000

# Rounds in which numbers that fell on the skipped class are drawn again, before whole
# rows are made.
_REDRAWS = 32


class UniformModel(Distribution):
    """The uniform distribution, for groups without samples."""

    def __init__(self, n_classes: int) -> None:
        self.n_classes = n_classes

    def rows(self, at: Any) -> NDArray:
        shape = (count_rows(at), self.n_classes)
        return np.full(shape, -np.log(self.n_classes))


class ComposedModel(Distribution):
    """A distribution over other distributions; it computes blocks of rows."""

    @abstractmethod
    def _rows(self, at: Any) -> NDArray:
        """(n_samples, n_classes) natural logarithms, a new array."""

    def rows(self, at: Any) -> NDArray:
        n = count_rows(at)
        blocks = self._blocks(n)
        if len(blocks) < 2:
            return self._rows(at)
        out = np.empty((n, self.n_classes))
        for s in blocks:
            out[s] = self._rows(take(at, s))
        return out

    @abstractmethod
    def _draw(self, at: Any, uniform: NDArray) -> NDArray:
        """(n_samples,) classes."""

    def draw(self, at: Any, uniform: NDArray, skip: int = -1) -> NDArray:
        """As `Distribution.draw`; a number that falls on `skip` is drawn again."""
        drawn = self._draw(at, uniform)
        if skip < 0:
            return drawn
        again = np.flatnonzero(drawn == skip)
        for step in range(_REDRAWS):
            if again.size == 0:
                return drawn
            uniform = more_uniform(uniform, _OF_REDRAWS + step)
            drawn[again] = self._draw(take(at, again), uniform[again])
            again = again[drawn[again] == skip]
        if again.size:
            drawn[again] = super().draw(take(at, again), uniform[again], skip)
        return drawn


class MixtureModel(ComposedModel):
    r""":math:`\sum_k \omega_k(x) P_k(y \mid x)`.

    Parameters
    ----------
    models : list of Distribution
        Over the same classes; contexts are a tuple of theirs.

    gate : Gate
        Gives the weights; may be shared with other mixtures.
    """

    def __init__(self, models: list[Distribution], gate: Gate) -> None:
        self.models, self.gate = models, gate
        self.n_classes = models[0].n_classes
        self.fact_depths = sum((m.fact_depths for m in models), ())

    def locate(self, contexts: Any) -> tuple:
        return tuple(m.locate(c) for m, c in zip(self.models, contexts))

    def log_weights(self, at: Any) -> NDArray:
        """(n_samples or 1, n_models) logarithms of the weights."""
        facts = self.facts(at) if self.gate.reads_facts else np.empty((1, 0))
        return self.gate.log_weights(facts)

    def targets(self, at: Any, y: NDArray) -> NDArray:
        """(n_samples, n_models) natural logarithms by model."""
        return np.column_stack([m.target(a, y) for m, a in zip(self.models, at)])

    def target(self, at: Any, y: NDArray) -> NDArray:
        return log_mixture(self.log_weights(at), self.targets(at, y))

    def target_with_groups(
        self, at: Any, y: NDArray, group: NDArray
    ) -> tuple[NDArray, NDArray]:
        of_each = [m.target_with_groups(a, y, group) for m, a in zip(self.models, at)]
        log_prob, of_groups = zip(*of_each)
        log_weights = self.log_weights(at)
        mixed = log_mixture(log_weights, np.column_stack(log_prob))
        return mixed, self._sum(log_weights, of_groups)

    def proba(self, at: Any) -> NDArray:
        of_each = [m.proba(a) for m, a in zip(self.models, at)]
        return self._sum(self.log_weights(at), of_each)

    def group_proba(self, at: Any, group: NDArray) -> NDArray:
        of_each = [m.group_proba(a, group) for m, a in zip(self.models, at)]
        return self._sum(self.log_weights(at), of_each)

    def _sum(self, log_weights, of_each):
        """The weighted sum of matrices of probabilities, which are changed."""
        total, weights = of_each[0], np.exp(log_weights)
        for k, part in enumerate(of_each):
            part *= weights[:, k : k + 1]
            if k:
                total += part
        return total

    def groups(self) -> NDArray | None:
        found = (model.groups() for model in self.models)
        return next((g for g in found if g is not None), None)

    def _rows(self, at: Any) -> NDArray:
        rows = [m.rows(where) for m, where in zip(self.models, at)]
        total = rows[0]
        log_weights = self.log_weights(at)
        log_weights = np.broadcast_to(log_weights, (len(total), len(rows)))
        # A few rows at a time stay in the processor's cache for all steps.
        with np.errstate(divide="ignore"):
            for s in row_blocks(len(total), max(1, _IN_CACHE // self.n_classes)):
                proba = [np.exp(part[s], out=part[s]) for part in rows]
                np.log(self._sum(log_weights[s], proba), out=total[s])
        return total

    def _draw(self, at: Any, uniform: NDArray) -> NDArray:
        """A model by its weight, then a class of that model."""
        weights = np.exp(self.log_weights(at))
        weights = np.broadcast_to(weights, (uniform.size, len(self.models)))
        chosen = draw_columns(weights, uniform)
        again = more_uniform(uniform, _OF_MIXTURE)
        drawn = np.empty(uniform.size, dtype=np.int64)
        for k, rows in by_group(chosen, len(self.models)):
            drawn[rows] = self.models[k].draw(take(at[k], rows), again[rows])
        return drawn

    def facts(self, at: Any) -> NDArray:
        return np.hstack([m.facts(a) for m, a in zip(self.models, at)])


class FactoredModel(CheckedState, ComposedModel):
    r""":math:`\prod_j P(v_{j+1} \mid v_j, x)` along the path of a tree to a class.

    Contexts are a tuple: those of the models of groups, those of the models of words,
    and with `concentration` the histories in which words are counted. A place also
    holds that of the model of the root, of which most questions ask something; the
    other nodes locate what they are asked for.

    Parameters
    ----------
    tree : Forest
        One tree, whose terminal nodes are the classes.

    models : list of Distribution or None
        One for each node of the tree; None for nodes with fewer than two children.

    of_words : bool ndarray of shape (n_nodes,)
        True for nodes whose children are all terminal.

    concentration : float64 ndarray of shape (n_nodes,), default=None
        Of each node, see `sklstruct.mixture._history`; infinite where the history does
        not matter, None: nowhere.

    share : float64 ndarray of shape (n_nodes,), default=None
        Of each node among the children of its parent, with `concentration`.
    """

    def __init__(
        self,
        tree: Forest,
        models: list[Distribution | None],
        of_words: NDArray,
        concentration: NDArray | None = None,
        share: NDArray | None = None,
    ) -> None:
        self.tree, self.models, self.of_words = tree, models, of_words
        self.concentration, self.share = concentration, share
        self._set_paths()

    def _check_arrays(self) -> None:
        self.tree.check()
        sizes = {len(self.models), len(self.of_words)}
        if self.concentration is not None and self.share is not None:
            sizes |= {len(self.concentration), len(self.share)}
        if sizes != {self.tree.n_nodes}:
            raise ValueError(
                "models, of_words, concentration and share must have one entry per node"
            )
        self._set_paths()

    def _set_paths(self):
        tree = self.tree
        self.n_classes = tree.terminal.shape[1]
        self.path_node, self.path_child = paths(tree)
        self.word_node = word_nodes(tree, self.of_words)
        self.root = self.models[0]
        self.fact_depths = () if self.root is None else self.root.fact_depths

    def locate(self, contexts: Any) -> tuple:
        of_root = contexts[int(self.of_words[0])]
        root = of_root if self.root is None else self.root.locate(of_root)
        return (*contexts[:2], root, *contexts[2:])

    def _where(self, at, node, rows=slice(None)):
        """The places of some rows for the model of a node."""
        if node == 0:
            return take(at[2], rows)
        return self.models[node].locate(take(at[int(self.of_words[node])], rows))

    def target(self, at: Any, y: NDArray) -> NDArray:
        out = np.zeros(y.size)
        for step in range(len(self.path_node)):
            self._add_step(step, at, y, out)
        return out

    def _add_step(self, step, at, y, out):
        """Add ln P of one step of the path to each class."""
        node, child = self.path_node[step][y], self.path_child[step][y]
        log_prob = np.zeros(y.size)
        # Those whose path has ended are group 0, the rest node + 1.
        for g, rows in by_group(node + 1, len(self.models) + 1):
            model = self.models[g - 1] if g else None
            if model is None:
                continue
            if self._adapts(g - 1):
                log_prob[rows] = self._target_of_groups(g - 1, at, child, rows)
            else:
                where = self._where(at, g - 1, rows)
                log_prob[rows] = model.target(where, child[rows])
        if self.concentration is not None:
            # The last step is to the word.
            last = (node >= 0) & (node == self.word_node[y])
            if last.any():
                word, of_group = count_words(at[3], y, self.word_node)
                theta = np.where(last, self.concentration[node], np.inf)
                rows = np.flatnonzero((of_group > 0) & (theta < np.inf))
                log_prob[rows] = after_words(
                    log_prob[rows], word[rows], of_group[rows], theta[rows]
                )
        out += log_prob

    def _rows_at(self, v, at, counts=None):
        """(n_samples, n_children) ln P of the children of a node; 0 for an only child.

        counts: how often the words of its children occur in each history.
        """
        model = self.models[v]
        if model is None:
            return np.zeros((count_rows(at), 1))
        if self._adapts(v):
            with np.errstate(divide="ignore"):
                return np.log(self._proba_of_groups(v, at))
        rows = model.rows(self._where(at, v))
        if not self._recurs(v):
            return rows
        if counts is None:
            counts = count_all_words(at[3], self._words_of(v), self.n_classes)
        theta, n_words = self.concentration[v], counts.sum(axis=1)
        some = np.flatnonzero(n_words)
        if some.size:
            rows[some] = after_words(
                rows[some], counts[some], n_words[some, None], theta
            )
        return rows

    def _recurs(self, v):
        """Whether words of the history count at a node of words."""
        return bool(self.of_words[v]) and self._is_finite(v)

    def _adapts(self, v):
        """Whether the groups below a node adapt to the history."""
        return not self.of_words[v] and self._is_finite(v)

    def _is_finite(self, v):
        theta = self.concentration
        return theta is not None and bool(theta[v] < np.inf)

    def _proba_of_groups(self, v, at, rows=slice(None)):
        """(n_samples, n_children) P of the groups below a node."""
        proba = self.models[v].proba(self._where(at, v, rows))
        if self._adapts(v):
            step = int((self.path_node == v).any(axis=1).argmax())
            inside = self.path_node[step] == v
            column = np.where(inside, self.path_child[step], np.int32(-1))
            share = self.share[self._children(v)]
            adapt_groups(proba, at[3][rows], column, self.concentration[v] * share)
        return proba

    def _target_of_groups(self, v, at, child, rows):
        """ln P of a child of a node, for some rows."""
        rows = np.arange(child.size)[rows]
        proba = np.empty(rows.size)
        n_children = int(self.tree.n_child[v])
        for s in row_blocks(rows.size, max(1, _NUMBERS // n_children)):
            here = rows[s]
            of_groups = self._proba_of_groups(v, at, here)
            proba[s] = of_groups[np.arange(here.size), child[here]]
        with np.errstate(divide="ignore"):
            return np.log(proba)

    def _children(self, v):
        """The nodes below a node."""
        first = int(self.tree.first_child[v])
        return slice(first, first + int(self.tree.n_child[v]))

    def _words_of(self, v):
        return self.tree.node_class[self._children(v)]

    def groups(self) -> NDArray | None:
        return None if self.root is None else self.path_child[0]

    def target_with_groups(
        self, at: Any, y: NDArray, group: NDArray
    ) -> tuple[NDArray, NDArray]:
        own = self.groups()
        if own is None or self._recurs(0) or not _same_partition(own, group):
            return super().target_with_groups(at, y, group)
        # The first step is to the group: its model is asked once.
        proba = self._proba_of_groups(0, at)
        with np.errstate(divide="ignore"):
            out = np.log(proba[np.arange(y.size), own[y]])
        for step in range(1, len(self.path_node)):
            self._add_step(step, at, y, out)
        return out, _renumbered(proba, own, group)

    def group_proba(self, at: Any, group: NDArray) -> NDArray:
        own = self.groups()
        if own is None or self._recurs(0) or not _same_partition(own, group):
            return super().group_proba(at, group)
        return _renumbered(self._proba_of_groups(0, at), own, group)

    def _rows(self, at: Any) -> NDArray:
        tree, counts = self.tree, None
        total = np.zeros((count_rows(at), tree.n_nodes))
        if self.concentration is not None:
            counts = count_all_words(at[3], np.arange(self.n_classes), self.n_classes)
        for v in np.flatnonzero(tree.n_child).tolist():
            above, own = total[:, [v]], None
            if counts is not None and self._recurs(v):
                own = counts[:, self._words_of(v)]
            rows = self._rows_at(v, at, own)
            np.add(above, rows, out=total[:, self._children(v)])
        # Several times faster than an index of columns.
        return np.take(total, tree.terminal[0], axis=1)

    def best(self, at: Any, k: int) -> tuple[NDArray, NDArray]:
        n = count_rows(at)
        found = [self._best(take(at, s), k) for s in self._blocks(n)]
        if not found:
            return np.empty((0, k), dtype=np.int64), np.empty((0, k))
        classes, log_prob = zip(*found)
        return np.concatenate(classes), np.concatenate(log_prob)

    def _best(self, at, k):
        """Best-first search over the nodes.

        In each round every sample chooses its open node of the highest probability, and
        each model gets the samples of its node in one call. A sample is done when no
        open node is as probable as the worst of its k classes. Of the children that are
        classes, no more than k can be among the best k.
        """
        tree, n = self.tree, count_rows(at)
        if self.n_classes == 1:
            return np.zeros((n, 1), dtype=np.int64), np.zeros((n, 1))
        found = np.full((n, k), self.n_classes, dtype=np.int64)
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
            # An open node of equal probability may hold a class of a smaller number.
            going = ~closed & (
                (top >= value[active, -1]) | (found[active, -1] >= self.n_classes)
            )
            active, at_node, top = active[going], at_node[going], top[going]
            for c, rows in by_group(at_node, inner.size):
                v, samples, above = int(inner[c]), active[rows], top[rows]
                openness[samples, c] = np.nan
                self._expand(at, v, samples, above, k, column, openness, found, value)
        return found, value

    def _expand(self, at, v, samples, above, k, column, openness, found, value):
        tree, children = self.tree, np.arange(self.tree.n_nodes)[self._children(v)]
        model, here = self.models[v], take(at, samples)
        if model is not None and self.of_words[v] and not self._recurs(v):
            where = self._where(here, v)
            child, log_prob = model.best(where, min(k, children.size))
        else:
            log_prob = self._rows_at(v, here)
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
            words = np.where(group, self.n_classes, word)
            values = np.where(group, -np.inf, log_prob)
            words = np.hstack([found[samples], words])
            values = np.hstack([value[samples], values])
            order = np.lexsort((words, -values), axis=1)[:, :k]
            found[samples] = np.take_along_axis(words, order, axis=1)
            value[samples] = np.take_along_axis(values, order, axis=1)

    def _draw(self, at: Any, uniform: NDArray) -> NDArray:
        tree, node = self.tree, np.zeros(uniform.size, dtype=np.int64)
        for step in range(len(self.path_node)):
            for v, rows in by_group(
                np.where(tree.n_child[node] > 0, node, -1) + 1, tree.n_nodes + 1
            ):
                if not v:
                    continue
                node[rows] = tree.first_child[v - 1]
                model, here = self.models[v - 1], take(at, rows)
                if self._is_finite(v - 1) and model is not None:
                    proba = np.exp(self._rows_at(v - 1, here))
                    node[rows] += draw_columns(proba, uniform[rows])
                elif model is not None:
                    where = self._where(here, v - 1)
                    node[rows] += model.draw(where, uniform[rows])
            uniform = more_uniform(uniform, step)
        return tree.node_class[node]

    def facts(self, at: Any) -> NDArray:
        """The facts of the root: nodes below it depend on the class."""
        if self.root is None:
            return super().facts(at)
        return self.root.facts(at[2])


def without_tables(model: Distribution) -> Distribution:
    """The mixtures and factored models of a model, with nothing to mix: a later fit
    takes the weights from it, and the tables of the first one need no memory then."""
    if isinstance(model, MixtureModel):
        return MixtureModel([without_tables(m) for m in model.models], model.gate)
    if isinstance(model, FactoredModel):
        of_nodes = [None if m is None else without_tables(m) for m in model.models]
        return FactoredModel(model.tree, of_nodes, model.of_words)
    return UniformModel(model.n_classes)


def _renumbered(proba, own, group):
    """The columns of the groups `own` in the order of the same groups, `group`."""
    number = np.empty(proba.shape[1], dtype=np.int64)
    number[group] = own
    same = np.array_equal(number, np.arange(number.size))
    return proba if same else np.take(proba, number, axis=1)


def _same_partition(a, b):
    """True where two numberings put the same classes together."""
    pairs = np.unique(np.column_stack([a, b]), axis=0)
    return len(pairs) == np.unique(pairs[:, 0]).size == np.unique(pairs[:, 1]).size


def word_nodes(tree: Forest, of_words: NDArray) -> NDArray:
    """(n_classes,) the node above each class, -1 where its children are not all
    terminal."""
    above = tree.parent[tree.terminal[0]]
    known = (above >= 0) & of_words[np.maximum(above, 0)]
    return np.where(known, above, -1).astype(np.int32)


def paths(tree: Forest) -> tuple[NDArray, NDArray]:
    """(depth, n_classes) nodes and children along the path to each class, -1 after its
    end."""
    node = tree.terminal[0].astype(np.int64)
    nodes, children = [], []
    while (node > 0).any():
        parent = np.where(node > 0, tree.parent[np.maximum(node, 0)], -1)
        nodes.append(parent)
        children.append(np.where(parent >= 0, node - tree.first_child[parent], -1))
        node = parent
    depth = len(nodes)
    # The loop went from the ends of the paths up; row 0 is to hold their first steps.
    node_of = np.full((depth, tree.terminal.shape[1]), -1, dtype=np.int32)
    child_of = node_of.copy()
    length = np.array([n >= 0 for n in nodes]).sum(axis=0)
    for j, (n, c) in enumerate(zip(nodes, children)):
        here = np.flatnonzero(n >= 0)
        step = length[here] - 1 - j
        node_of[step, here], child_of[step, here] = n[here], c[here]
    return node_of, child_of
