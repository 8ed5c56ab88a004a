"""Expectation-maximisation of a tagger on sequences whose labels are partly known.

The expectations are sums over the exact lattice of the model in which every history of
order - 1 labels is a state. So the expected counts are those of n-grams of full length,
and the smoother reads them as it reads the n-grams of labelled sequences.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from .._parallel import ThreadMap
from ..backoff import BackoffModel
from ..context_tree import ContextTree, Histories, merge_trees, pairs_of_arrays
from ._automaton import ContextAutomaton
from ._candidates import Candidates
from ._lattice import LatticeSolver
from ._sequences import is_unknown

MAX_HISTORIES = 1_000_000
# Parts of the sums. Their number is fixed, so that rounding does not depend on n_jobs.
_PARTS = 8


def histories(n_labels: int, order: int) -> np.ndarray:
    """All histories of order - 1 labels, and shorter ones after the start.

    Returns
    -------
    windows : int32 ndarray of shape (n_histories, order - 1)
        Label ids, n_labels for the start, -1 before it.

    Raises
    ------
    ValueError
        If there are more than a million.
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
    """The same model with these contexts as nodes; no query changes.

    Parameters
    ----------
    model : BackoffModel
        Symbols and classes in the order of the ids of `windows`.

    windows : ndarray of shape (n_histories, width)
        As `histories` gives them.
    """
    whole, _ = ContextTree.from_histories(
        Histories.from_windows(windows, windows.shape[1]), model.n_symbols
    )
    tree, index, _ = merge_trees(model.tree, whole)
    sizes = np.zeros(tree.n_nodes, dtype=np.int64)
    sizes[index] = np.diff(model.pairs.ptr)
    log_backoff = np.zeros(tree.n_nodes)
    log_backoff[index] = model.log_backoff
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    # Nodes keep their order, and so do the pairs.
    pairs = pairs_of_arrays(tree, ptr, model.pairs.target, model.pairs.parent)
    return BackoffModel(pairs, model.log_prob, log_backoff, model.labels)


class Observed(NamedTuple):
    """Sequences as numbers: what was observed, and the labels that are known."""

    symbols: list  # the distinct observations
    code: list  # an int array a sequence: which of them, -1 where it is missing
    known: list  # an int array a sequence: label ids, -1 where it is unknown
    weight: np.ndarray  # (n_sequences,)

    @classmethod
    def of(cls, X: list, known: list, weight: np.ndarray) -> Observed:
        """Equal observations get one number; those that cannot be hashed one each."""
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
    observed: Observed,
    log_factor: np.ndarray,
    class_of_label: np.ndarray,
    max_states: int,
    n_jobs: int | None = None,
) -> Expected:
    """Expected counts, by the exact lattice of every sequence.

    Parameters
    ----------
    automaton : ContextAutomaton

    observed : Observed

    log_factor : ndarray of shape (n_observations + 1, n_labels)
        log p(o | y), -inf where it is ruled out; the last row is for what is missing.

    class_of_label : ndarray of shape (n_labels,)
        Class of the automaton for each label.

    max_states : int
        See `LatticeSolver`.

    n_jobs : int or None, default=None
        Threads; the result does not depend on them.

    Raises
    ------
    ValueError
        If a sequence has no possible labelling.
    """
    n = len(observed.code)
    bounds = np.linspace(0, n, min(_PARTS, n) + 1).astype(np.int64).tolist()
    automaton.arcs  # noqa: B018  before threads share it

    def part(span):
        solver = LatticeSolver(automaton, max_states)
        followed = np.zeros((automaton.n_nodes, automaton.n_classes))
        emitted = np.zeros(log_factor.shape)
        total = 0.0
        for i in range(*span):
            c, row, label = _candidates(observed, i, log_factor, class_of_label)
            if automaton.end_class >= 0:
                c = c.with_end(automaton.end_class)
            weight = float(observed.weight[i])
            lattice = solver.sums(c)
            log_z = lattice.log_z()
            if log_z == -np.inf:
                raise ValueError(
                    f"y[{i}]: X[{i}] has no possible labelling with the labels given "
                    "there; the model gives all of them the probability 0"
                )
            total += weight * log_z
            share = lattice.expect(weight, followed)
            np.add.at(emitted, (row, label), share[: len(row)])
        return total, followed, emitted

    with ThreadMap(n_jobs) as parallel:
        parts = parallel(part, list(itertools.pairwise(bounds)))
    total, followed, emitted = parts[0]
    for one, other, third in parts[1:]:
        total += one
        followed += other
        emitted += third
    return Expected(total, followed, emitted[:-1])


def _candidates(observed, i, log_factor, class_of_label):
    """(candidates without the end, observation and label of each of them)."""
    code, known = observed.code[i], observed.known[i]
    factor = log_factor[code]
    fixed = np.flatnonzero(known >= 0)
    if fixed.size:
        kept = factor[fixed, known[fixed]]
        factor[fixed] = -np.inf
        factor[fixed, known[fixed]] = kept
    position, label = np.nonzero(factor > -np.inf)
    ptr = np.zeros(len(code) + 1, dtype=np.int64)
    np.cumsum(np.bincount(position, minlength=len(code)), out=ptr[1:])
    ids = class_of_label[label]
    return (
        Candidates(ptr, ids, factor[position, label], len(code)),
        code[position],
        label,
    )


def random_counts(
    n_histories: int, n_labels: int, observed: Observed, rng: np.random.RandomState
) -> tuple[np.ndarray, np.ndarray]:
    """Random counts to start from: (after each history, of each observation)."""
    followed = rng.dirichlet(np.ones(n_labels + 1), size=n_histories)
    times = np.bincount(
        np.concatenate([c[c >= 0] for c in observed.code]),
        minlength=len(observed.symbols),
    )
    emitted = rng.dirichlet(np.ones(n_labels), size=len(observed.symbols))
    # Rows large enough for a smoother to leave them as random as they are.
    return followed * 100.0 * (n_labels + 1), emitted * times[:, None]


def table_of(rows: Sequence, n_labels: int) -> np.ndarray:
    """(n_rows + 1, n_labels) log-factors of candidates; the last row is 0."""
    table = np.full((len(rows) + 1, n_labels), -np.inf)
    table[-1] = 0.0
    for i, (ids, factor) in enumerate(rows):
        table[i, ids] = factor
    return table
