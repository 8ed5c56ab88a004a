"""Pruning of back-off models.

A pruned model has fewer pairs; the others keep their probabilities, and each context's
back-off weight is set anew so that its row sums to 1. The cost of removing a pair is
one of

- the relative entropy between the models with it and without it (Stolcke),
- its joint probability times the change of its log-probability (Seymore, Rosenfeld),
- its count.

A pair (h, y) is never removed while the context "h y" holds pairs, so that every
context of the result can be reached by reading its symbols, as in a file of n-grams.
The cost of each pair is that in the unpruned model. Look-ups take O(pairs m log pairs),
with m the depth.
"""

from __future__ import annotations

import re
import warnings
from typing import Any, NamedTuple

import numpy as np

from .._checks import as_floats, as_numbers, check_count, check_length
from .._parallel import row_blocks, rows_per_block
from ..context_tree import (
    ContextTree,
    Histories,
    Pairs,
    pairs_of_arrays,
    pairs_of_keys,
)
from ..context_tree._links import drop_newest, extend_pairs
from ..symbols import Labels
from ._model import BackoffModel, check_model

METHODS: tuple[str, ...] = ("entropy", "weighted_difference", "count")
# The parent's mass on the classes without a pair is one minus a sum; a difference below
# this has lost digits, and the mass is summed instead.
_SMALL = 1e-2
# A model with a row that misses the sum 1 by more is told about.
_TOLERANCE = 1e-3
# Largest difference of natural logarithms by rounding, relative above 1.
_SAME = 1e-12
_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9}


def prune(
    model: BackoffModel,
    threshold: Any = None,
    *,
    to: int | str | None = None,
    method: str = "entropy",
    counts: Any = None,
) -> BackoffModel:
    r"""Remove the explicit probabilities that change a back-off model least.

    With p the model, b(h) its back-off weights, h' the context h without its oldest
    symbol and p(h) the probability of the context itself, the pair (h, y) costs

    .. math::
        D = -p(h) \Big[ p(y \mid h) \log \frac{p(y \mid h')\, \tilde b(h)}{p(y \mid h)}
        + \log \frac{\tilde b(h)}{b(h)} \sum_{z \text{ unseen}} p(z \mid h) \Big]

    where :math:`\tilde b(h)` is the back-off weight without the pair (if every class
    has a pair after h, it is 1 and the sum is over the other classes). The cost of each
    pair is that in the unpruned model, and pairs are removed from the longest contexts
    to the shortest. A pair whose n-gram is the beginning of one that stays is kept
    (unless the model does not know its context symbols), and so are the unigrams.

    Parameters
    ----------
    model : BackoffModel
        Rows that do not sum to 1, as in many files of other programs, are divided by
        their sums before anything is pruned.

    threshold : float or array-like, default=None
        Pairs of lower cost are removed.

        - ``"entropy"``: the relative rise of the perplexity, :math:`\exp D - 1`, as
          in SRILM. From 1e-9 to 1e-6 is usual.
        - ``"weighted_difference"``: nats a token.
        - ``"count"``: pairs of a count up to the threshold. One number, or one for each
          depth from 1 on, the last also for deeper ones.

        0 removes only pairs without cost; infinity leaves the unigrams. None: `to`
        gives the size.

    to : int or str, default=None
        Instead of `threshold`, the largest size of the result: a number of n-grams,
        unigrams included, such as 1_000_000; or the memory of the model's arrays and
        words, such as ``"20MB"`` (``kB``, ``MB``, ``GB``, powers of 1000). The n-grams
        of the highest cost stay, each with its prefixes and suffixes, so that a file
        needs no others.

    method : {"entropy", "weighted_difference", "count"}, default="entropy"
        ``"weighted_difference"`` is :math:`p(h, y) [\log p(y \mid h) - \log b(h)
        p(y \mid h')]` [2]_. ``"count"`` is the count cut-off.

    counts : array-like of shape (n_pairs,), default=None
        Count of each pair. p(h) and p(h, y) are then relative frequencies. None: p(h)
        is the product of the model's probabilities of its symbols (the start mark has
        that of the end mark). Kneser-Ney smoothing needs the counts, as its lower
        orders are not models of the text [3]_, and so does ``"count"``.

    Returns
    -------
    pruned : BackoffModel
        Normalised, with the labels of `model`.

    Raises
    ------
    ValueError
        If a parameter is out of range, the probabilities after some context are all 0
        or beyond the range of floats, or the unigrams alone are more than `to`.

    Warns
    -----
    UserWarning
        If a row misses the sum 1 by more than 0.001.

    See Also
    --------
    PrunedLM : The same as an estimator, with counts.
    sklstruct.smoothing.PrunedKneserNeyLM : Returns counts to the lower orders.
    restrict : Fewer words.

    References
    ----------
    .. [1] A. Stolcke, "Entropy-based pruning of backoff language models", DARPA
       Broadcast News Transcription and Understanding Workshop, 1998.
    .. [2] K. Seymore, R. Rosenfeld, "Scalable backoff language models", ICSLP 1996.
    .. [3] C. Chelba, T. Brants, W. Neveitt, P. Xu, "Study on interaction between
       entropy pruning and Kneser-Ney smoothing", Interspeech 2010.

    Examples
    --------
    >>> from sklstruct.backoff import prune
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import WittenBellLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran", "a dog ran"]
    >>> model = LanguageModel(WittenBellLM(), max_depth=2).fit(text).backoff_model_
    >>> smaller = prune(model, 0.05)
    >>> (model.n_pairs, smaller.n_pairs, prune(model, to=20).n_pairs)
    (30, 12, 20)
    >>> smaller.check_normalized() < 1e-12
    True
    """
    check_model(model)
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    if (threshold is None) == (to is None):
        raise ValueError("threshold and to: give one of them, and not both")
    least = None if to is not None else check_threshold(threshold, method)
    size = None if to is None else check_size(model, to)
    if counts is not None:
        counts = as_floats("counts", counts)
        check_length("counts", counts, model.n_pairs, "one per pair")
        if not (np.isfinite(counts).all() and (counts >= 0).all()):
            raise ValueError("counts must be finite and at least 0")
        if not counts[: model.n_classes].sum() > 0:
            raise ValueError("counts of the empty context are all 0")
    elif method == "count":
        raise ValueError("counts must be given for method='count'")
    model = as_distribution(model)
    return without_pairs(model, choose(model, least, method, counts, size))


def as_distribution(model: BackoffModel) -> BackoffModel:
    """The model with each row divided by its sum, and a warning if one is far from 1.

    Costs compare probabilities, and new back-off weights take what is left of 1: both
    need rows that sum to 1. The ratios within a row stay.
    """
    deviation = model.check_normalized(tol=np.inf)
    if deviation <= _TOLERANCE:
        return model
    total, pairs = model.row_sums(), model.pairs
    wrong = np.abs(total - 1) > _TOLERANCE
    wrong |= np.isnan(total)
    impossible = np.flatnonzero(~(total > 0) | ~(total < np.inf))
    if impossible.size:
        n = int(impossible[0])
        context = model.tree.contexts(impossible[:1])[0].tolist()
        if model.labels.symbols is not None:
            context = [model.labels.symbols[symbol] for symbol in context]
        raise ValueError(
            f"model: the probabilities after the context {context!r} sum to "
            f"{total[n]}, so that there is nothing to prune; leave the n-grams of this "
            "context out"
        )
    warnings.warn(
        f"model: {int(wrong.sum())} of {total.size} rows miss the sum 1, by up to "
        f"{deviation:.3g}; each row is divided by its sum before it is pruned",
        UserWarning,
        stacklevel=3,
    )
    log_prob = model.log_prob - np.log(total)[pairs.nodes()]
    left = 1.0 - pairs.node_sums(np.exp(log_prob))
    left[np.diff(pairs.ptr) == model.n_classes] = 0.0
    with np.errstate(divide="ignore"):
        log_left = np.log(np.maximum(left, 0.0))
    return renormalize(pairs, np.minimum(log_prob, 0.0), log_left, model.labels)


def without_zero_weights(model: BackoffModel) -> BackoffModel:
    """The same distribution without the n-grams that backing off gives.

    A pair of weight 0 has the probability of backing off, so that it can go, unless its
    n-gram is the beginning of one that stays, or the end. A context goes with the last
    of its pairs, if its back-off weight is 1.

    Parameters
    ----------
    model : BackoffModel
        Its `zero_weight` names the candidates. With a prior the weight of 0 keeps the
        number of the prior, so each is compared.

    Returns
    -------
    model : BackoffModel
        `model` itself if every pair stays.
    """
    if model.zero_weight is None or model.max_depth == 0:
        return model
    pairs, tree = model.pairs, model.tree
    some = np.flatnonzero(model.zero_weight[pairs.n_classes :]) + pairs.n_classes
    node = pairs.nodes()[some]
    low = model.target(tree.parent[node], pairs.target[some])
    with np.errstate(invalid="ignore"):  # -inf - -inf
        gap = np.abs(model.log_prob[some] - (low + model.log_backoff[node]))
    scale = _SAME * (1.0 + np.abs(low))
    keep = np.ones(pairs.n_pairs, dtype=bool)
    keep[some[(gap <= scale) & np.isfinite(low)]] = False
    alive = np.abs(model.log_backoff) > _SAME
    alive[0] = False  # where "h y" is not a context, `ahead` is the root
    ahead = np.maximum(next_contexts(pairs, model.labels), 0)
    of_pair = pairs.nodes()
    for k in range(tree.n_levels - 1, 0, -1):
        here, nodes = pairs.level(k), tree.level(k)
        keep[here] |= alive[ahead[here]]
        kept = np.flatnonzero(keep[here]) + here.start
        shorter = pairs.parent[kept]
        keep[shorter[shorter >= 0]] = True
        alive[of_pair[kept]] = True
        alive[tree.parent[nodes][alive[nodes]]] = k > 1
    if keep.all():
        return model
    smaller, index = tree.select(alive)
    sizes = np.bincount(index[of_pair[keep]], minlength=smaller.n_nodes)
    ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    out = BackoffModel(
        pairs_of_arrays(smaller, ptr, pairs.target[keep]),
        model.log_prob[keep],
        model.log_backoff[index >= 0],
        model.labels,
    )
    if model.node_weight is not None:
        out.node_weight = np.asarray(model.node_weight)[index >= 0]
    return out


class Size(NamedTuple):
    """The largest size of a pruned model, in pairs or in bytes."""

    most: int
    of_pair: int = 1
    of_node: int = 0


def check_size(model: BackoffModel, to: int | str) -> Size:
    """The parameter `to`, for a model."""
    if isinstance(to, str):
        found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMG])B\s*", to)
        if not found:
            raise ValueError(
                f"to must be a number of n-grams, or a size such as '20MB', got {to!r}"
            )
        labels = model.labels
        words = [*labels.classes.tolist(), *labels.known_symbols("a size")]
        rest = sum(len(str(word).encode()) + 8 for word in words)
        pair = model.log_prob.itemsize + model.pairs.target.itemsize
        node = model.log_backoff.itemsize + model.pairs.ptr.itemsize
        node += model.tree.parent.itemsize + model.tree.symbol.itemsize
        most = int(float(found[1]) * _UNITS[found[2]]) - rest
        size = Size(most, pair, node)
    else:
        size = Size(check_count("to", to, 1))
    if size.of_pair * model.n_classes + size.of_node > size.most:
        raise ValueError(
            f"to={to!r} is less than the {model.n_classes} unigrams of the model need; "
            "restrict it to fewer words"
        )
    return size


def choose(
    model: BackoffModel,
    least: np.ndarray | None,
    method: str,
    counts: np.ndarray | None,
    size: Size | None = None,
) -> np.ndarray:
    """A mask of the pairs that `prune` keeps.

    Parameters
    ----------
    model : BackoffModel

    least : ndarray or None
        From `check_threshold`.

    method : str

    counts : ndarray of shape (n_pairs,) or None

    size : Size, default=None
        In the place of `least`.

    Returns
    -------
    keep : ndarray of shape (n_pairs,), bool
    """
    cost = _costs(model, method, counts)
    pairs = model.pairs
    ahead = next_contexts(pairs, model.labels)
    if size is not None:
        worth = worth_of_prefixes(pairs, ahead, cost, suffixes=True)
        return _dearest(pairs, worth, size)
    assert least is not None  # one of the two
    pair_depth = model.tree.levels()[pairs.nodes()]
    cut = least[np.minimum(np.maximum(pair_depth, 1) - 1, least.size - 1)]
    cheap = cost <= cut if method == "count" else cost < cut
    return worth_of_prefixes(pairs, ahead, ~cheap)


def _dearest(pairs, worth, size):
    """The pairs of the largest worth that are within a size."""
    # Stable: of equal worth, shorter contexts come first.
    order = np.argsort(-worth, kind="stable")
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    # A context is needed from the first of its pairs on, or of those below it.
    tree = pairs.tree
    of_node = np.full(tree.n_nodes, order.size)
    some = np.flatnonzero(np.diff(pairs.ptr))
    of_node[some] = np.minimum.reduceat(place, pairs.ptr[some])
    for k in range(tree.n_levels - 1, 0, -1):
        here = tree.level(k)
        np.minimum.at(of_node, tree.parent[here], of_node[here])
    n_nodes = np.cumsum(np.bincount(of_node, minlength=order.size)[: order.size])
    n_pairs = np.arange(1, order.size + 1)
    held = size.of_pair * n_pairs + size.of_node * n_nodes
    return place < np.searchsorted(held, size.most, side="right")


def check_threshold(threshold: Any, method: str) -> np.ndarray:
    """The threshold as an array, one for each depth from 1 on."""
    least = as_numbers("threshold", threshold, "a number")
    many = method == "count"
    if least.ndim != 1 or least.size == 0 or (least.size > 1 and not many):
        rows = ", or one for each depth" if many else ""
        raise ValueError(f"threshold must be one number{rows}; got shape {least.shape}")
    if not (least >= 0).all():
        raise ValueError(f"threshold must be at least 0, got {threshold!r}")
    return least


class _Masses:
    """Probabilities of the pairs below the root, and the mass left by each context."""

    def __init__(self, model: BackoffModel):
        pairs, n_classes = model.pairs, model.n_classes
        self.node = pairs.nodes()[n_classes:]
        self.log_prob = model.log_prob[n_classes:]
        above = model.tree.parent[self.node]
        self.log_low = model.target(above, pairs.target[n_classes:])
        self.prob, self.low = np.exp(self.log_prob), np.exp(self.log_low)
        self.free = free_mass(
            model, self.low, np.arange(1, model.n_nodes, dtype=np.int32)
        )
        # The mass of each context for the classes that it has no pair for.
        self.left = np.exp(model.log_backoff) * self.free


def free_mass(model: BackoffModel, low: np.ndarray, nodes: np.ndarray) -> np.ndarray:
    """The parent's mass on the classes without a pair at a node, of the given nodes.

    Parameters
    ----------
    model : BackoffModel
        Its back-off weights are read at ancestors of `nodes` only.

    low : ndarray of shape (n_pairs - n_classes,)
        P(y | parent(n)) of the pairs (n, y) below the root.

    nodes : int32 ndarray
        Rising; not the root.

    Returns
    -------
    free : ndarray of shape (n_nodes,)
        0 for the root, nodes with every class, and nodes that are not asked for.
    """
    pairs, n_classes = model.pairs, model.n_classes
    sizes = np.diff(pairs.ptr)
    padded = np.concatenate([np.zeros(n_classes), low])
    free = np.zeros(model.n_nodes)
    free[nodes] = 1.0 - pairs.node_sums(padded)[nodes]
    full = sizes == n_classes
    free[full] = 0.0
    small = nodes[(free[nodes] < _SMALL) & ~full[nodes] & (sizes[nodes] > 0)]
    for rows in row_blocks(small.size, rows_per_block(n_classes)):
        some = small[rows]
        row = np.exp(model.rows(model.tree.parent[some]))
        size = sizes[some]
        first = np.repeat(pairs.ptr[some] - (np.cumsum(size) - size), size)
        own = first + np.arange(size.sum())
        row[np.repeat(np.arange(some.size), size), pairs.target[own]] = 0.0
        free[some] = row.sum(axis=1)
    return free


def _costs(model, method, counts):
    """The cost of removing each pair; infinite for the unigrams."""
    n_classes = model.n_classes
    cost = np.full(model.n_pairs, np.inf)
    if method == "count":
        cost[n_classes:] = counts[n_classes:]
        return cost
    m = _Masses(model)
    if counts is None:
        of_context = np.exp(log_marginals(model))[m.node]
        joint = of_context * m.prob
    else:
        total = counts[:n_classes].sum()
        of_context = model.pairs.node_sums(counts)[m.node] / total
        joint = counts[n_classes:] / total
    log_backoff = model.log_backoff[m.node]
    # If both the pair and its parent have probability 0, 0 log 0 counts as 0.
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if method == "weighted_difference":
            change = m.log_prob - (m.log_low + log_backoff)
            worth = np.where(joint > 0, joint * change, 0.0)
        else:
            left, free = m.left[m.node], m.free[m.node]
            without = np.log(left + m.prob) - np.log(free + m.low)
            own = m.prob * (m.log_low + without - m.log_prob)
            rest = left * (without - log_backoff)
            divergence = -(
                np.where(m.prob > 0, own, 0.0) + np.where(left > 0, rest, 0.0)
            )
            from scipy.special import rel_entr

            # If every class has a pair, one pair follows from the others and costs
            # nothing, but two do not: the cost is that of a back-off weight of 1.
            two = rel_entr(m.prob, m.low) + rel_entr(1 - m.prob, 1 - m.low)
            divergence = np.where(free > 0, divergence, np.maximum(two, 0.0))
            worth = np.expm1(np.where(of_context > 0, of_context * divergence, 0.0))
    cost[n_classes:] = worth
    return cost


def log_marginals(model: BackoffModel) -> np.ndarray:
    """log p(h) of every context: the product of the probabilities of its symbols.

    Parameters
    ----------
    model : BackoffModel

    Returns
    -------
    log_prob : ndarray of shape (n_nodes,)
        A start mark, which is never predicted, is as frequent as the end mark; other
        symbols that are no class have probability 1.
    """
    tree, labels = model.tree, model.labels
    labels.known_symbols("the probability of a context")
    class_of_symbol = labels.class_of_symbol
    out = np.zeros(model.n_nodes)
    opening = 0.0
    if labels.start is not None and labels.end is not None:
        opening = float(model.log_prob[labels.end_id])
    for k in range(1, tree.n_levels):
        here = tree.level(k)
        node = np.arange(here.start, here.stop, dtype=np.int32)
        state = np.zeros(node.size, dtype=np.int32)
        total = np.zeros(node.size)
        for _ in range(k):
            # The oldest symbol of a context is that of its node; then its parent's.
            symbol = tree.symbol[node]
            target = class_of_symbol[symbol]
            known = target >= 0
            total[known] += model.target(state[known], target[known])
            if labels.start is not None:
                total[symbol == labels.start_id] += opening
            state = model.follow(state, symbol)
            node = tree.parent[node]
        out[here.start : here.stop] = total
    return out


def next_contexts(pairs: Pairs, labels: Labels) -> np.ndarray:
    """The context "h y" of each pair (h, y).

    Parameters
    ----------
    pairs : Pairs

    labels : Labels
        Of the pairs; without symbols no context is known.

    Returns
    -------
    node : int32 ndarray of shape (n_pairs,)
        The root where it is not in the tree, -1 where it is not known.
    """
    tree = pairs.tree
    if tree.n_nodes == 1 or labels.symbols is None:
        return np.full(pairs.n_pairs, -1, dtype=np.int32)
    return extend_pairs(
        tree, drop_newest(tree), pairs.ptr, pairs.target, labels.class_of_symbol
    )


def worth_of_prefixes(
    pairs: Pairs, ahead: np.ndarray, worth: np.ndarray, suffixes: bool = False
) -> np.ndarray:
    """The largest worth of each pair and of the pairs of the context "h y".

    A pair (h, y) must stay while the context "h y" has pairs. The pairs whose result is
    above a threshold satisfy this.

    Parameters
    ----------
    pairs : Pairs

    ahead : int32 ndarray of shape (n_pairs,)
        From `next_contexts`.

    worth : ndarray of shape (n_pairs,)
        Numbers, or booleans: which pairs are to stay.

    suffixes : bool
        True: a pair (h', y), h' without the oldest symbol of h, must stay with (h, y),
        too, as files of n-grams need.

    Returns
    -------
    worth : ndarray of shape (n_pairs,)
        Those of the root are the largest number.
    """
    tree = pairs.tree
    worth = np.array(worth)
    none, best = (False, True) if worth.dtype == bool else (-np.inf, np.inf)
    worth[: pairs.n_classes] = best
    of_node = np.full(tree.n_nodes + 1, none, dtype=worth.dtype)  # last: no context
    some = np.flatnonzero(np.diff(pairs.ptr))
    for k in range(tree.n_levels - 1, 0, -1):
        here, nodes = pairs.level(k), tree.level(k)
        worth[here] = np.maximum(worth[here], of_node[ahead[here]])
        filled = some[slice(*np.searchsorted(some, (nodes.start, nodes.stop)))]
        if filled.size:
            starts = pairs.ptr[filled] - here.start
            of_node[filled] = np.maximum.reduceat(worth[here], starts)
        if suffixes:
            shorter = pairs.parent[here]
            some_has = shorter >= 0
            np.maximum.at(worth, shorter[some_has], worth[here][some_has])
    return worth


def add_prefixes(model: BackoffModel) -> tuple[BackoffModel, np.ndarray]:
    """The same distribution with the prefixes of all its contexts.

    An automaton reaches a context "h y" from "h", and a file of n-grams has its
    back-off weight beside the n-gram "h y". So "h" becomes a context and (h, y) a pair,
    with the probability that backing off gives.

    Parameters
    ----------
    model : BackoffModel
        Over a trie. If its labels have no symbols, nothing is added.

    Returns
    -------
    model : BackoffModel

    place : int32 ndarray of shape (n_pairs before,)
        The number of each pair of the model before.
    """
    pairs, old = model.pairs, model.pairs.tree
    if old.max_depth < 2 or model.labels.symbols is None:
        return model, np.arange(pairs.n_pairs, dtype=np.int32)
    shorter = windows = old.windows()
    rows = [windows]
    for _ in range(2, old.n_levels):
        shorter = _without_newest(shorter)
        rows.append(shorter)
    histories = Histories.from_windows(np.concatenate(rows), windows.shape[1])
    tree, terminal = ContextTree.from_histories(histories, old.n_symbols)
    node = terminal[: old.n_nodes]  # of each that there was

    windows = tree.windows()
    before = tree.find_windows(_without_newest(windows))
    newest = model.labels.class_of_symbol[windows[:, -1]]
    leads = np.flatnonzero((tree.levels() > 1) & (newest >= 0))
    size = np.int64(pairs.n_classes)
    key = np.unique(
        np.concatenate(
            [
                node[pairs.nodes()] * size + pairs.target,
                before[leads] * size + newest[leads],
            ]
        )
    )
    larger = pairs_of_keys(tree, key, pairs.n_classes)
    at, target = larger.nodes(), larger.target
    place = larger.find(node[pairs.nodes()], pairs.target)
    log_prob = model.target(old.find_windows(windows)[at], target)
    log_prob[place] = model.log_prob
    log_backoff = np.zeros(tree.n_nodes)
    log_backoff[node] = model.log_backoff
    return BackoffModel(larger, log_prob, log_backoff, model.labels), place


def _without_newest(windows):
    shorter = np.full_like(windows, -1)
    shorter[:, 1:] = windows[:, :-1]
    return shorter


def without_pairs(model: BackoffModel, keep: np.ndarray) -> BackoffModel:
    """The model of some of the pairs, normalised by its back-off weights.

    Parameters
    ----------
    model : BackoffModel

    keep : ndarray of shape (n_pairs,), bool
        Pairs to keep; those of the root stay.

    Returns
    -------
    smaller : BackoffModel
    """
    n_classes = model.n_classes
    m = _Masses(model)

    def per_node(values):
        return model.pairs.node_sums(np.concatenate([np.zeros(n_classes), values]))

    gone = ~keep[n_classes:]
    left = m.left + per_node(np.where(gone, m.prob, 0.0))
    total = left + per_node(np.where(gone, 0.0, m.prob))
    pairs, kept = model.pairs.select(keep)
    old = np.flatnonzero(selected_nodes(model.pairs, keep) >= 0)
    # Rows may miss the sum 1 a little; they sum to it afterwards.
    with np.errstate(divide="ignore"):
        log_total = np.log(np.where(total > 0, total, 1.0))[old]
        log_left = np.log(left)[old] - log_total
    log_prob = model.log_prob[kept] - np.repeat(
        np.concatenate([[0.0], log_total[1:]]), np.diff(pairs.ptr)
    )
    log_prob[:n_classes] -= np.log(np.exp(log_prob[:n_classes]).sum())
    return renormalize(pairs, np.minimum(log_prob, 0.0), log_left, model.labels)


def selected_nodes(pairs: Pairs, keep: np.ndarray) -> np.ndarray:
    """The number that each node has after ``pairs.select(keep)``.

    Parameters
    ----------
    pairs : Pairs

    keep : ndarray of shape (n_pairs,), bool

    Returns
    -------
    index : int32 ndarray of shape (n_nodes,)
        -1 for those that are gone.
    """
    alive = np.zeros(pairs.tree.n_nodes, dtype=bool)
    alive[pairs.nodes()[keep]] = True
    return pairs.tree.select(alive)[1]


def renormalize(
    pairs: Pairs, log_prob: np.ndarray, log_left: np.ndarray, labels: Labels
) -> BackoffModel:
    """The model with the back-off weights by which every row sums to 1.

    Parameters
    ----------
    pairs : Pairs

    log_prob : ndarray of shape (n_pairs,)
        Of each pair.

    log_left : ndarray of shape (n_nodes,)
        Logarithm of one minus the sum of a context's probabilities; the root's is not
        used.

    labels : Labels

    Returns
    -------
    model : BackoffModel
    """
    tree, n_classes = pairs.tree, pairs.n_classes
    log_prob = np.array(log_prob)
    log_backoff = np.zeros(tree.n_nodes)
    node = pairs.nodes()[n_classes:]
    target = pairs.target[n_classes:]
    low = np.zeros(node.size)
    for k in range(1, tree.n_levels):
        # A model of the levels above k, whose weights are known.
        known = BackoffModel(pairs, log_prob, log_backoff, labels)
        here = pairs.level(k)
        some = slice(here.start - n_classes, here.stop - n_classes)
        low[some] = np.exp(known.target(tree.parent[node[some]], target[some]))
        nodes = np.arange(tree.level(k).start, tree.level(k).stop, dtype=np.int32)
        free = free_mass(known, low, nodes)[nodes]
        left = log_left[nodes]
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = left - np.log(free)
        # The parent has no mass on other classes: the pairs share all.
        stuck = free <= 0
        weight[stuck] = 0.0
        lost = stuck & (left > -np.inf)
        if lost.any():
            share = np.zeros(tree.n_nodes)
            share[nodes[lost]] = np.log1p(-np.exp(left[lost]))
            sizes = np.diff(pairs.ptr)[nodes]
            log_prob[here] -= np.repeat(share[nodes], sizes)
        log_backoff[nodes] = weight
    return BackoffModel(pairs, log_prob, log_backoff, labels)
