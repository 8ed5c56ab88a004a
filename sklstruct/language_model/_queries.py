"""Queries of one window at a time, without arrays.

`query_of` wraps a fitted model in a `Query`. Mixtures and factored models query their
parts. Back-off models answer in compiled code, other models with arrays of one row.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from math import exp, inf, log, log1p, sqrt
from typing import Any, Protocol

import numpy as np
from sklearn.pipeline import Pipeline

from .._likelihood import reads_history
from ..backoff import BackoffClassifier, BackoffModel, Distribution
from ..backoff._readers import WindowReader
from ..context_tree import ContextTree
from ..loglinear._joint_fast import JointLeaf
from ..loglinear._joint_model import JointTrees
from ..mixture._gates import Gate
from ..mixture._models import FactoredModel, MixtureModel
from ..mixture._parts import (
    EstimatorPart,
    FrozenPart,
    JointPart,
    Reading,
)
from ..symbols import TextWindows, encode
from ..word_classes import ContextRefiner
from ._step_fast import Leaf, Path, Walk

Window = tuple[int, ...]


class Query(Protocol):
    """A model that is queried with one window, a tuple of tokens."""

    def target(self, window: Window, y: int) -> float:
        """ln P of one class."""

    def facts(self, window: Window) -> list[float]:
        """The input of a gate; see `Distribution.facts`."""


def query_of(
    estimator: Any, model: Distribution, depth: int, lost: int, width: int
) -> Query:
    """The query of a fitted classifier of windows.

    Parameters
    ----------
    estimator : classifier
        Fitted on windows of class ids, alone or at the end of a pipeline.

    model : Distribution
        Its distribution.

    depth : int
        Columns that the estimator was fitted on.

    lost : int
        The largest token, of a word without class; like -1 it is missing history.

    width : int
        Length of the windows, whose last `depth` tokens are those columns.
    """
    return _Maker(depth, lost, width).of_estimator(estimator, model)


def query_of_tree(model: BackoffModel, width: int, lost: int) -> Query:
    """The query of a back-off model whose symbols are the first tokens."""
    maker = _Maker(width, lost, width)
    return _PathModel(maker.path(model, [], np.arange(model.n_symbols)), model)


class _Maker:
    def __init__(self, depth: int, lost: int, width: int) -> None:
        self.tokens = np.arange(-1, lost + 1, dtype=np.int32)
        self.tokens[lost + 1] = -1
        self.depth, self.lost, self.width = depth, lost, width
        self._paths: dict[int, Path] = {}

    def of_estimator(self, estimator, model) -> Query:
        *steps, last = _steps_of(estimator)
        if hasattr(last, "part_") and not steps:
            return self.of_part(last.part_, model)
        if isinstance(last, BackoffClassifier):
            reader = last._reader
            if _is_path(steps) and isinstance(reader, WindowReader):
                path = self.path(estimator, steps, reader.symbols)
                return _PathModel(path, last.backoff_model_)

        def locate(windows):
            if not reads_history(last):
                windows = windows.array
            if steps:
                windows = estimator[:-1].transform(windows)
            return last.locate(windows)

        return _Rows(model, locate, self.lost, self.depth)

    def of_part(self, part: Any, model: Distribution) -> Query:
        if isinstance(model, MixtureModel):
            parts = zip(part.parts, model.models)
            return _Mixture([self.of_part(p, m) for p, m in parts], model.gate)
        if isinstance(model, FactoredModel):
            models = [
                None if m is None else self.of_part(part.parts[of_words], m)
                for m, of_words in zip(model.models, model.of_words.astype(int))
            ]
            return _Factored(models, model, self.lost)
        if isinstance(part, FrozenPart) and part.same:
            return self.of_estimator(part.estimator, model)
        if isinstance(part, EstimatorPart) and isinstance(model, BackoffModel):
            reader = part.reader
            if reader.symbols is not None and _is_path(reader.steps):
                path = self.path(reader, reader.steps, reader.symbols)
                return _PathModel(path, model)
        if isinstance(part, JointPart) and isinstance(model, JointTrees):
            readers = part.readers
            if all(r.symbols is not None and _is_path(r.steps) for r in readers):
                paths = [self.path(r, r.steps, r.symbols) for r in readers]
                return _JointModel(paths, model)

        def locate(windows):
            return model.locate(part.read(Reading(windows)))

        return _Rows(model, locate, self.lost, self.depth)

    def path(self, key, steps, symbols) -> Path:
        """The path that windows are read along; the same one for the same key."""
        found = self._paths.get(id(key))
        if found is None:
            # A window of equal tokens gives the symbol of the token at every step.
            windows = np.repeat(self.tokens[:, None], self.depth, axis=1)
            position = np.arange(1, self.depth + 1, dtype=np.int32)
            missing = self.tokens < 0
            if steps:
                refiner = steps[0]
                ids = refiner._encoder.ids(self.tokens, unknown=refiner._known.size)
                missing = refiner._missing[ids]
                position = np.array([p for _, p in refiner.path_], dtype=np.int32)
                windows = refiner.transform(windows)
            ids = encode(windows, symbols)[:, ::-1].T
            found = self._paths[id(key)] = Path(
                np.ascontiguousarray(ids, dtype=np.int32), position,
                missing.astype(np.uint8), self.width,
            )  # fmt: skip
        return found


def _steps_of(estimator):
    while isinstance(estimator, Pipeline) and len(estimator.steps) == 1:
        estimator = estimator.steps[0][1]
    if isinstance(estimator, Pipeline):
        return [step for _, step in estimator.steps]
    return [estimator]


def _is_path(steps):
    return not steps or (len(steps) == 1 and type(steps[0]) is ContextRefiner)


class _PathModel:
    """A back-off model after a path."""

    def __init__(self, path: Path, model: BackoffModel) -> None:
        tree, pairs = model.tree, model.pairs
        self.read, self.locate = path.read, _walk(tree).locate
        self.weight, self.levels = model.node_weight, tree.level_ptr.tolist()
        self.score = Leaf(
            tree.parent, pairs.ptr, pairs.target, model.log_prob, model.log_backoff
        ).score
        # One window is asked for facts and targets. In one tuple, which other threads
        # see whole.
        self.last: tuple[Window, int] = ((), 0)

    def _node(self, window):
        last = self.last
        if last[0] is not window:
            self.last = last = window, self.locate(self.read(window))
        return last[1]

    def target(self, window: Window, y: int) -> float:
        return self.score(self._node(window), y)

    def facts(self, window: Window) -> list[float]:
        return _facts(self._node(window), self.levels, self.weight)


class _JointModel:
    """Several trees in one softmax, each after a path."""

    def __init__(self, paths: list[Path], model: JointTrees) -> None:
        self.walks = [
            (path.read, _walk(tree).locate, first)
            for path, tree, first in zip(paths, model.trees, model.first.tolist())
        ]
        self.weight = model.node_weight
        self.levels = model.trees[0].level_ptr.tolist()
        self.score = JointLeaf(
            model.parent, model.ptr, model.pair_class, model.beta, model.w,
            model.n_classes,
        ).score  # fmt: skip
        self.last: tuple[Window, list[int]] = ((), [])

    def _nodes(self, window):
        last = self.last
        if last[0] is not window:
            # Only the root of the first tree has pairs.
            nodes = [first + locate(read(window)) for read, locate, first in self.walks]
            self.last = last = window, nodes
        return last[1]

    def target(self, window: Window, y: int) -> float:
        return self.score(self._nodes(window), y)

    def facts(self, window: Window) -> list[float]:
        return _facts(self._nodes(window)[0], self.levels, self.weight)


def _walk(tree: ContextTree) -> Walk:
    return Walk(tree.symbol, tree.child_ptr, tree.root_child)


def _facts(node, levels, weight):
    """The depth of a node, and ln of one more than its weight."""
    depth = bisect_right(levels, node) - 1
    return [float(depth), log1p(0.0 if weight is None else weight[node])]


class _Rows:
    """Any distribution, queried with arrays of one row."""

    def __init__(
        self,
        model: Distribution,
        locate: Callable[[TextWindows], Any],
        lost: int,
        depth: int,
    ) -> None:
        self.model, self.locate, self.lost, self.depth = model, locate, lost, depth

    def _at(self, window):
        known = [-1 if t == self.lost else t for t in window]
        rows = np.array([known], dtype=np.int32)
        return self.locate(TextWindows.of_rows(rows, self.depth))

    def target(self, window: Window, y: int) -> float:
        return float(self.model.target(self._at(window), np.array([y]))[0])

    def facts(self, window: Window) -> list[float]:
        return self.model.facts(self._at(window))[0].tolist()


class _Mixture:
    def __init__(self, models: list[Query], gate: Gate) -> None:
        self.models = models
        self.weights, self.reads_facts = gate.row_log_weights(), gate.reads_facts

    def target(self, window: Window, y: int) -> float:
        weights = self.weights(self.facts(window) if self.reads_facts else [])
        parts = [m.target(window, y) + w for m, w in zip(self.models, weights)]
        top = max(parts)
        if top == -inf:
            return top
        return log(sum(exp(part - top) for part in parts)) + top

    def facts(self, window: Window) -> list[float]:
        return [fact for model in self.models for fact in model.facts(window)]


class _Factored:
    def __init__(
        self, models: list[Query | None], model: FactoredModel, lost: int
    ) -> None:
        self.models, self.lost = models, lost
        self.nodes = model.path_node.T.tolist()
        self.children = model.path_child.T.tolist()
        self.word_node = model.word_node.tolist()
        self.concentration = self.prior = None
        if model.concentration is not None:
            self.concentration = model.concentration.tolist()
            above = model.concentration[np.maximum(model.tree.parent, 0)]
            with np.errstate(invalid="ignore"):
                self.prior = (above * model.share).tolist()
            self.first = model.tree.first_child.tolist()

    def target(self, window: Window, y: int) -> float:
        total = 0.0
        for step, (node, child) in enumerate(zip(self.nodes[y], self.children[y])):
            model = self.models[node] if node >= 0 else None
            if model is None:
                continue
            log_prob = model.target(window, child)
            if self.concentration is not None and self.concentration[node] < inf:
                after = self._word if node == self.word_node[y] else self._group
                log_prob = after(window, step, node, child, log_prob)
            total += log_prob
        return total

    def _counts(self, window, step, node):
        """How often words below each child of a node occur in a window."""
        counts: dict[int, int] = {}
        for token in reversed(window):
            if token < 0 or token == self.lost:
                break
            if token < len(self.nodes) and self.nodes[token][step] == node:
                child = self.children[token][step]
                counts[child] = counts.get(child, 0) + 1
        return counts

    def _word(self, window, step, node, child, log_prob):
        """ln P of a word in its group, after the words of the window."""
        counts, theta = self._counts(window, step, node), self.concentration[node]
        if not counts:
            return log_prob
        above = counts.get(child, 0) + theta * exp(log_prob)
        if above <= 0.0:
            return -inf
        return log(above / (sum(counts.values()) + theta))

    def _group(self, window, step, node, child, log_prob):
        """ln P of a group, after the words of the window."""
        total, factor, first = 1.0, 1.0, self.first[node]
        for other, n in self._counts(window, step, node).items():
            prior = self.prior[first + other]
            if prior > 0.0:
                scale = sqrt(1.0 + n / prior)
                before = log_prob
                if other == child:
                    factor = scale
                else:
                    before = self.models[node].target(window, other)
                total += exp(before) * (scale - 1.0)
        return log_prob + log(factor / total)

    def facts(self, window: Window) -> list[float]:
        root = self.models[0]
        return [] if root is None else root.facts(window)
