"""Smaller back-off models: which explicit probabilities are worth their place.

A pruned model has fewer pairs; the others keep their probabilities, and each context's
back-off weight is set anew so that its row sums to 1. What a pair is worth is one of

- the relative entropy between the models with it and without it (Stolcke),
- its joint probability times the logarithm of what it changes (Seymore, Rosenfeld),
- its count.

A pair (h, y) is never removed while the context "h y" holds pairs, so that every
context of the result can be reached by reading its symbols, as in a file of n-grams.
All of a model's pairs are judged in the unpruned model: O(pairs m log pairs) for the
look-ups, m being the depth.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import as_floats, check_length
from .._parallel import row_blocks, rows_per_block
from ..context_tree import ContextTree, Histories, Pairs, pairs_of_arrays
from ..context_tree._links import drop_newest, extend_pairs
from ..symbols import Labels
from ._model import BackoffModel

METHODS: tuple[str, ...] = ("entropy", "weighted_difference", "count")
# A parent's mass on the classes that a context has no pair for is one minus a sum;
# below this it is summed itself.
_SMALL = 1e-2
# Rows that miss 1 by more are no distributions, and are not pruned.
_TOLERANCE = 1e-3


def prune(
    model: BackoffModel,
    threshold: Any,
    *,
    method: str = "entropy",
    counts: Any = None,
) -> BackoffModel:
    r"""Remove the explicit probabilities that change a back-off model least.

    With p the model, b(h) its back-off weights, h' the context h without its oldest
    symbol and p(h) the probability of the context itself, the pair (h, y) costs

    .. math::
        D = -p(h) \Big[ p(y \mid h) \log \frac{p(y \mid h')\, \tilde b(h)}{p(y \mid h)}
        + \log \frac{\tilde b(h)}{b(h)} \sum_{z \text{ unseen}} p(z \mid h) \Big]

    where :math:`\tilde b(h)` is the back-off weight without the pair (1 where every
    class has a pair after h, and the sum is over the other classes). Pairs are judged
    one by one in the model as it is, and removed from the longest contexts to the
    shortest; a pair whose n-gram begins one that stays is not removed (unless the model
    does not know its context symbols). The unigrams stay.

    Parameters
    ----------
    model : BackoffModel
        Its rows must sum to 1 (within 0.001, which is rounded away).

    threshold : float or array-like
        What is cheaper is removed.

        - ``"entropy"``: the relative rise of the perplexity, :math:`\exp D - 1`, as
          in SRILM. From 1e-9 to 1e-6 is usual.
        - ``"weighted_difference"``: nats a token.
        - ``"count"``: pairs of a count up to the threshold. One number, or one for each
          depth from 1 on, the last also for what is deeper.

        0 removes nothing that costs anything; infinity leaves the unigrams.

    method : {"entropy", "weighted_difference", "count"}, default="entropy"
        ``"weighted_difference"`` is :math:`p(h, y) [\log p(y \mid h) - \log b(h)
        p(y \mid h')]` [2]_. ``"count"`` is the count cut-off.

    counts : array-like of shape (n_pairs,), default=None
        How often each pair was seen. p(h) and p(h, y) are then relative frequencies.
        None: p(h) is the product of the model's probabilities of its symbols (the start
        mark has that of the end mark), which is poor for Kneser-Ney smoothing, whose
        lower orders are not models of the text [3]_. ``"count"`` needs them.

    Returns
    -------
    pruned : BackoffModel
        Normalised, with the labels of `model`.

    Raises
    ------
    ValueError
        If a parameter is out of range, or the rows of the model do not sum to 1.

    See Also
    --------
    PrunedLM : The same as an estimator, with counts.
    sklstruct.smoothing.PrunedKneserNeyLM : Returns counts to the lower orders.

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
    >>> (model.n_pairs, smaller.n_pairs)
    (30, 12)
    >>> smaller.check_normalized() < 1e-12
    True
    """
    if not isinstance(model, BackoffModel):
        raise TypeError(f"model must be a BackoffModel, got {type(model).__name__}")
    if method not in METHODS:
        raise ValueError(f"method must be one of {', '.join(METHODS)}, got {method!r}")
    least = check_threshold(threshold, method)
    if counts is not None:
        counts = as_floats("counts", counts)
        check_length("counts", counts, model.n_pairs, "one per pair")
        if not (np.isfinite(counts).all() and (counts >= 0).all()):
            raise ValueError("counts must be finite and at least 0")
        if not counts[: model.n_classes].sum() > 0:
            raise ValueError("counts of the empty context are all 0")
    elif method == "count":
        raise ValueError("counts must be given for method='count'")
    return without_pairs(model, choose(model, least, method, counts))


def choose(
    model: BackoffModel, least: np.ndarray, method: str, counts: np.ndarray | None
) -> np.ndarray:
    """Which pairs `prune` keeps.

    Parameters
    ----------
    model : BackoffModel

    least : ndarray
        From `check_threshold`.

    method : str

    counts : ndarray of shape (n_pairs,) or None

    Returns
    -------
    keep : ndarray of shape (n_pairs,), bool
    """
    deviation = model.check_normalized(tol=np.inf)
    if not deviation <= _TOLERANCE:
        raise ValueError(
            f"model: its rows miss the sum 1 by up to {deviation:.3g}; only "
            "distributions can be pruned"
        )
    cost = _costs(model, method, counts)
    pair_depth = model.tree.levels()[model.pairs.nodes()]
    cut = least[np.minimum(np.maximum(pair_depth, 1) - 1, least.size - 1)]
    cheap = cost <= cut if method == "count" else cost < cut
    ahead = next_contexts(model.pairs, model.labels)
    return keep_prefixes(model.pairs, ahead, cheap)


def check_threshold(threshold: Any, method: str) -> np.ndarray:
    """The threshold as an array, one for each depth from 1 on."""
    try:
        least = np.atleast_1d(np.asarray(threshold, dtype=np.float64))
    except (TypeError, ValueError) as exc:
        raise ValueError(f"threshold must be a number, got {threshold!r}") from exc
    many = method == "count"
    if least.ndim != 1 or least.size == 0 or (least.size > 1 and not many):
        rows = ", or one for each depth" if many else ""
        raise ValueError(f"threshold must be one number{rows}; got shape {least.shape}")
    if not (least >= 0).all():
        raise ValueError(f"threshold must be at least 0, got {threshold!r}")
    return least


class _Masses:
    """Probabilities of the pairs below the root, and what their contexts leave."""

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
    # A pair that only ever repeats its parent's 0 costs nothing: 0 times a logarithm.
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

            # Where every class has a pair, any one of them can be told from the others
            # and costs nothing, but not two: then as if the back-off weight were 1.
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
        Of the pairs; without symbols nothing can be said.

    Returns
    -------
    node : int32 ndarray of shape (n_pairs,)
        -1 where it is not in the tree, or not known.
    """
    tree = pairs.tree
    if tree.n_nodes == 1 or labels.symbols is None:
        return np.full(pairs.n_pairs, -1, dtype=np.int32)
    return extend_pairs(
        tree, drop_newest(tree), pairs.ptr, pairs.target, labels.class_of_symbol
    )


def keep_prefixes(pairs: Pairs, ahead: np.ndarray, cheap: np.ndarray) -> np.ndarray:
    """Which pairs stay: those not cheap, and those that lead to contexts with pairs.

    Parameters
    ----------
    pairs : Pairs

    ahead : int32 ndarray of shape (n_pairs,)
        From `next_contexts`.

    cheap : ndarray of shape (n_pairs,), bool

    Returns
    -------
    keep : ndarray of shape (n_pairs,), bool
    """
    tree = pairs.tree
    keep = ~cheap
    keep[: pairs.n_classes] = True
    node = pairs.nodes()
    needed = np.zeros(tree.n_nodes + 1, dtype=bool)  # the last: no such context
    for k in range(tree.n_levels - 1, 0, -1):
        here = pairs.level(k)
        keep[here] |= needed[ahead[here]]
        needed[node[here][keep[here]]] = True
    return keep


def add_prefixes(model: BackoffModel) -> tuple[BackoffModel, np.ndarray]:
    """The same distribution, with all that leads to the contexts of a model.

    An automaton reads the symbols of a context "h y" from "h" on, and a file of n-grams
    has its back-off weight beside the n-gram "h y": so "h" becomes a context, and
    (h, y) a pair, with the probability that backing off gives it.

    Parameters
    ----------
    model : BackoffModel
        Over a trie. Where its labels have no symbols nothing is added.

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
    at, target = np.divmod(key, size)
    ptr = np.zeros(tree.n_nodes + 1, dtype=np.int32)
    np.cumsum(np.bincount(at, minlength=tree.n_nodes), out=ptr[1:])
    larger = pairs_of_arrays(tree, ptr, target.astype(np.int32))
    place = larger.find(node[pairs.nodes()], pairs.target)
    log_prob = model.target(old.find_windows(windows)[at], target.astype(np.int32))
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
    # Rows that missed 1 by rounding, as those of a file do, sum to it now.
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
    """Back-off weights that hand what each context leaves to its other classes.

    Parameters
    ----------
    pairs : Pairs

    log_prob : ndarray of shape (n_pairs,)
        Of each pair.

    log_left : ndarray of shape (n_nodes,)
        Logarithm of one minus the sum of a context's probabilities; the root's is not
        looked at.

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
        # A model of what is known so far: nothing below the level k is read.
        known = BackoffModel(pairs, log_prob, log_backoff, labels)
        here = pairs.level(k)
        some = slice(here.start - n_classes, here.stop - n_classes)
        low[some] = np.exp(known.target(tree.parent[node[some]], target[some]))
        nodes = np.arange(tree.level(k).start, tree.level(k).stop, dtype=np.int32)
        free = free_mass(known, low, nodes)[nodes]
        left = log_left[nodes]
        with np.errstate(divide="ignore", invalid="ignore"):
            weight = left - np.log(free)
        # No mass is left, or no other class is there: the pairs share all.
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
