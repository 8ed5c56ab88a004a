"""Expectation-maximisation of a tagger on sequences whose labels are partly known.

The expectations are sums over the exact lattice of a model in which every history of
order - 1 labels is a state. So the expected counts are counts of n-grams of full
length, and the smoother takes them in the same way as counts of labelled sequences.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from .._parallel import ThreadMap
from ..backoff import BackoffModel
from ..context_tree import pairs_of_arrays, tree_of_windows
from ..symbols import is_unknown
from ._automaton import ContextAutomaton
from ._candidates import Candidates, candidate_rows
from ._factors import Factors
from ._lattice import LatticeSolver

MAX_HISTORIES = 1_000_000
# Weight of an unknown label; the weight of a known label is 1. With weight 1, many
# sequences without labels change the meaning of the classes. Of 0.02, 0.05 and 0.1,
# 0.02 is the most accurate on EWT (development part) if 3, 10 or 30 % have labels.
UNLABELLED_WEIGHT = 0.02
# Stop after an iteration that gains at most this share of the objective.
TOLERANCE = 1e-5
# Parts of the sums. Their number is fixed, so that rounding does not depend on n_jobs.
_PARTS = 8
# Sequences whose candidates are found together.
_BLOCK = 256


class Maximum(NamedTuple):
    """The best factors that were found."""

    model: BackoffModel
    emission: Any
    objective: list  # after each iteration
    converged: bool


def maximise(
    factors: Factors, X: list, ids: list, weight: np.ndarray, tagger: Any, max_iter: int
) -> Maximum:
    """Expectation-maximisation, from the known labels or from random counts.

    X: the sequences. tagger: the `HighOrderHMM` with the other parameters. ids: label
    ids, -1 for an unknown label. ValueError if nothing is observed, the order is too
    high, or a sequence has no possible labelling.
    """
    known = any((some >= 0).any() for some in ids)
    counts = weight
    if known:
        lost = np.array([np.mean(some < 0) if len(some) else 0.0 for some in ids])
        counts = weight * (1.0 - lost + lost * UNLABELLED_WEIGHT)
    observed = ObservedSequences.of(X, ids, counts)
    if not observed.symbols:
        raise ValueError("X holds no observation to learn emissions from")
    windows = None
    if factors.given is None:
        windows = histories(factors.n_labels, factors.order)
    rng = check_random_state(tagger.random_state)
    best: Maximum | None = None
    for _ in range(1 if known else tagger.n_init):
        if known:
            model, emission = factors.of_labels(X, ids, weight)
        else:
            start = random_counts(windows, factors, observed, rng)
            model, emission, _ = _of_counts(factors, windows, observed, *start)
        found = _climb(factors, model, emission, windows, observed, max_iter, tagger)
        if best is None or found.objective[-1] > best.objective[-1]:
            best = found
    assert best is not None
    return best


def _climb(factors, model, emission, windows, observed, max_iter, tagger):
    """The iterations from one start."""

    def expected():
        whole = model if windows is None else with_histories(model, windows)
        automaton = ContextAutomaton(whole)
        n = factors.n_labels
        table = table_of(candidate_rows(emission, [observed.symbols], n)[0], n)
        return automaton.tree, expect(
            automaton, observed, table, factors.class_of_label, tagger.max_states,
            tagger.n_jobs,
        )  # fmt: skip

    tree, counts = expected()
    objective: list[float] = []
    for _ in range(max_iter):
        before = model, emission
        contexts = None if windows is None else tree.windows()
        model, emission, prior = _of_counts(
            factors, contexts, observed, counts.followed, counts.emitted
        )
        tree, counts = expected()
        value = counts.log_likelihood + prior
        if objective and not value > objective[-1]:
            return Maximum(*before, objective, True)
        objective.append(value)
        gain = np.diff(objective[-2:])
        if gain.size and gain[0] <= TOLERANCE * abs(value):
            return Maximum(model, emission, objective, True)
    return Maximum(model, emission, objective, False)


def _of_counts(factors, windows, observed, followed, emitted):
    """(model, emission, log of the priors of both) from counts.

    followed: of each class after each window. emitted: of each label with each
    observation.
    """
    model, prior = factors.given, 0.0
    if windows is not None:
        at, target = np.nonzero(followed)
        model, prior = factors.transitions(
            windows[at], target.astype(np.int32), followed[at, target]
        )
    # One sequence, with each observation repeated for each of its labels.
    at, label = np.nonzero(emitted)
    X = [[observed.symbols[i] for i in at.tolist()]]
    emission = factors.emissions(X, [label], [emitted[at, label]])
    return model, emission, prior + emission.log_prior()


def histories(n_labels: int, order: int) -> np.ndarray:
    """All histories of order - 1 labels, and all shorter histories after the start.

    Rows of label ids: n_labels for the start, -1 before it. ValueError if there are
    more than a million.
    """
    width = order - 1
    if width * np.log(n_labels + 1) > np.log(MAX_HISTORIES):
        raise ValueError(
            f"order={order} is too high to learn from sequences without labels: "
            f"{n_labels} labels have more than {MAX_HISTORIES} histories of {width}"
        )
    parts = []
    for length in range(width + 1):
        part = np.full((n_labels**length, width), -1, dtype=np.int32)
        if length:
            grid = np.indices((n_labels,) * length, dtype=np.int32)
            part[:, width - length :] = grid.reshape(length, -1).T
        if length < width:
            part[:, width - length - 1] = n_labels
        parts.append(part)
    return np.concatenate(parts)


def with_histories(model: BackoffModel, windows: np.ndarray) -> BackoffModel:
    """The same model with the contexts of `histories` as nodes; no query changes.

    The symbols and classes of the model must be in the order of the ids.
    """
    rows = [model.tree.windows(), windows]
    tree, (index, _) = tree_of_windows(rows, model.n_symbols)
    sizes = np.zeros(tree.n_nodes, dtype=np.int64)
    sizes[index] = np.diff(model.pairs.ptr)
    log_backoff = np.zeros(tree.n_nodes)
    log_backoff[index] = model.log_backoff
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    # Nodes keep their order, and so do the pairs.
    pairs = pairs_of_arrays(tree, ptr, model.pairs.target, model.pairs.parent)
    return BackoffModel(pairs, model.log_prob, log_backoff, model.labels)


class ObservedSequences(NamedTuple):
    """Sequences as numbers: what was observed, and the labels that are known."""

    symbols: list  # the distinct observations
    code: list  # an int array per sequence: indices of symbols, -1 if missing
    known: list  # an int array per sequence: label ids, -1 if unknown
    weight: np.ndarray  # (n_sequences,)

    @classmethod
    def of(cls, X: list, known: list, weight: np.ndarray) -> ObservedSequences:
        """Equal observations share a number; each unhashable observation gets a new
        number."""
        index: dict[Any, int] = {}
        symbols: list = []
        code = []
        for sequence in X:
            row = np.full(len(sequence), -1, dtype=np.int64)
            for j, o in enumerate(sequence):
                if is_unknown(o):
                    continue
                try:
                    row[j] = index.setdefault(o, len(symbols))
                except TypeError:
                    row[j] = len(symbols)
                if row[j] == len(symbols):
                    symbols.append(o)
            code.append(row)
        return cls(symbols, code, known, weight)


class Expected(NamedTuple):
    """Weighted expected counts of sequences."""

    log_likelihood: float  # sum of weight times log P(o, known labels)
    followed: np.ndarray  # (n_nodes, n_classes) of each class after each history
    emitted: np.ndarray  # (n_observations, n_labels) of each observation with a label


def expect(
    automaton: ContextAutomaton,
    observed: ObservedSequences,
    log_factor: np.ndarray,
    class_of_label: np.ndarray,
    max_states: int,
    n_jobs: int | None = None,
) -> Expected:
    """Expected counts, by the exact lattice of every sequence.

    ValueError if a sequence has no possible labelling.

    automaton: of the current transition model, with every history as a node.
    log_factor: log p(o | y) by observation and label, -inf if ruled out; the last row
    is for a missing observation.
    class_of_label: class of the automaton for each label.
    n_jobs: threads; the result does not depend on them.
    """
    n = len(observed.code)
    bounds = np.linspace(0, n, min(_PARTS, n) + 1).astype(np.int64).tolist()
    n_labels = log_factor.shape[1]
    end = automaton.end_class >= 0
    if end:
        # Add a label for the end, and a row (before the last) whose only label is the
        # end.
        log_factor = np.insert(log_factor, -1, -np.inf, axis=0)
        log_factor = np.insert(log_factor, n_labels, -np.inf, axis=1)
        log_factor[-2, n_labels] = 0.0
        class_of_label = np.append(class_of_label, np.int32(automaton.end_class))

    def part(span):
        solver = LatticeSolver(automaton, max_states)
        followed = np.zeros((automaton.n_nodes, automaton.n_classes))
        emitted = np.zeros(log_factor.shape)
        total = 0.0
        for first in range(*span, _BLOCK):
            block = slice(first, min(first + _BLOCK, span[1]))
            found, row, label = _candidates(
                observed, block, log_factor, class_of_label, end
            )
            shares = []
            for i, c in enumerate(found, first):
                weight = float(observed.weight[i])
                log_z, share = solver.sums(c).expect(weight, followed)
                if log_z == -np.inf:
                    raise ValueError(
                        f"y[{i}]: X[{i}] has no possible labelling with the labels "
                        "given there; the model gives all of them the probability 0"
                    )
                total += weight * log_z
                shares.append(share)
            np.add.at(emitted, (row, label), np.concatenate(shares))
        return total, followed, emitted

    with ThreadMap(n_jobs) as parallel:
        parts = parallel(part, list(itertools.pairwise(bounds)))
    total, followed, emitted = parts[0]
    for one, other, third in parts[1:]:
        total += one
        followed += other
        emitted += third
    return Expected(total, followed, emitted[: len(observed.symbols), :n_labels])


def _candidates(observed, block, log_factor, class_of_label, end):
    """(candidates of each sequence of a block, observation and label of each
    candidate).

    end: whether each sequence is extended by the end, the row before the last.
    """
    length = np.array([len(code) for code in observed.code[block]])
    code = np.concatenate(observed.code[block])
    known = np.concatenate(observed.known[block])
    if end:
        code = np.insert(code, np.cumsum(length), len(log_factor) - 2)
        known = np.insert(known, np.cumsum(length), -1)
    factor = log_factor[code]
    fixed = np.flatnonzero(known >= 0)
    kept = factor[fixed, known[fixed]]
    factor[fixed] = -np.inf
    factor[fixed, known[fixed]] = kept
    position, label = np.nonzero(factor > -np.inf)
    ptr = np.zeros(len(code) + 1, dtype=np.int64)
    np.cumsum(np.bincount(position, minlength=len(code)), out=ptr[1:])
    ids, factor = class_of_label[label], factor[position, label]
    found, last = [], 0
    for n in length.tolist():
        first, last = last, last + n + end
        rows = slice(int(ptr[first]), int(ptr[last]))
        of_sequence = ptr[first : last + 1] - ptr[first]
        found.append(Candidates(of_sequence, ids[rows], factor[rows], n))
    return found, code[position], label


def random_counts(
    windows: np.ndarray | None,
    factors: Factors,
    observed: ObservedSequences,
    rng: np.random.RandomState,
) -> tuple[np.ndarray, np.ndarray]:
    """Random counts for a start: (of classes by history, of labels by observation)."""
    n_histories = 0 if windows is None else len(windows)
    n_classes = factors.n_labels + factors.end
    followed = rng.dirichlet(np.ones(n_classes), size=n_histories)
    times = np.bincount(
        np.concatenate([c[c >= 0] for c in observed.code]),
        minlength=len(observed.symbols),
    )
    shares = factors.emission._random_shares(observed.symbols, factors.n_labels, rng)
    # Large counts, so that a smoother hardly changes the random shares.
    return followed * 100.0 * n_classes, shares * times[:, None]


def table_of(rows: Sequence, n_labels: int) -> np.ndarray:
    """(n_rows + 1, n_labels) log-factors of candidates; the last row is 0."""
    table = np.full((len(rows) + 1, n_labels), -np.inf)
    table[-1] = 0.0
    for i, (ids, factor) in enumerate(rows):
        table[i, ids] = factor
    return table
