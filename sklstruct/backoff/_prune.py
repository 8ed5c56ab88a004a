"""Pruning of back-off models.

A pruned model has fewer pairs. The remaining pairs keep their probabilities, and the
back-off weight of each context is recomputed so that its row sums to 1. The cost of
removing a pair is one of

- the relative entropy between the models with it and without it (Stolcke),
- its joint probability times the change of its log-probability (Seymore, Rosenfeld),
- its count.

The cost of each pair is computed in the unpruned model. Look-ups take O(pairs m log
pairs), with m the depth.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from .._checks import by_depth, check_choice, check_count, check_reals
from .._warnings import warn
from ..context_tree import Pairs, find_pairs
from ..context_tree._links import drop_newest, newest_symbols
from ..symbols import TextFile, need_symbols
from ._counted import Counted, check_counted
from ._fewer_words import with_vocabulary
from ._model import BackoffModel, check_model
from ._selected import Masses, next_contexts, renormalize, without_pairs

METHODS: tuple[str, ...] = ("entropy", "weighted_difference", "count")
# A warning is given if the sum of a row differs from 1 by more.
_TOLERANCE = 1e-3
_UNITS = {"k": 1e3, "M": 1e6, "G": 1e9}


def prune(
    model: BackoffModel,
    threshold: Any = None,
    *,
    to: int | str | None = None,
    vocabulary: ArrayLike | TextFile | None = None,
    method: str = "entropy",
    counts: Counted | None = None,
) -> BackoffModel:
    r"""Make a back-off model smaller: fewer n-grams, fewer words, or both.

    The n-grams that change the model least are removed. With p the model, b(h) its
    back-off weights, h' the context h without its oldest symbol and p(h) the
    probability of the context itself, the cost of the pair (h, y) is

    .. math::
        D = -p(h) \Big[ p(y \mid h) \log \frac{p(y \mid h')\, \tilde b(h)}{p(y \mid h)}
        + \log \frac{\tilde b(h)}{b(h)} \sum_{z \text{ unseen}} p(z \mid h) \Big]

    where :math:`\tilde b(h)` is the back-off weight without the pair (if every class
    has a pair after h, it is 1 and the sum is over the other classes). The cost of each
    pair is computed in the unpruned model, and pairs are removed from the longest
    contexts to the shortest. A pair whose n-gram is the beginning of a kept n-gram is
    kept (unless the labels of the model have no context symbols), and so are the
    unigrams.

    Parameters
    ----------
    model : BackoffModel
        Rows that do not sum to 1, as in many files of other programs, are divided by
        their sums before n-grams are removed.

    threshold : float or array-like, default=None
        Pairs of lower cost are removed.

        - ``"entropy"``: the relative rise of the perplexity, :math:`\exp D - 1`, as
          in SRILM. From 1e-9 to 1e-6 is usual.
        - ``"weighted_difference"``: nats per token.
        - ``"count"``: pairs with a count up to the threshold. One number, or a number
          for each depth from 1 on; the last number is also used for larger depths.

        0 removes only pairs of negative cost, or of count 0; infinity leaves the
        unigrams. None: `to` or `vocabulary` says what is removed.

    to : int or str, default=None
        Instead of `threshold`, the largest size of the result: a number of n-grams,
        unigrams included, such as 1_000_000; or the memory of the model's arrays and
        words, such as ``"20MB"`` (``kB``, ``MB``, ``GB``, powers of 1000). The n-grams
        of the highest cost stay, each with its prefixes and suffixes, so that a file
        needs no further n-grams.

    vocabulary : array-like of shape (n_words,) or TextFile, default=None
        The words that stay, or a file of words; before n-grams are removed, all other
        words become the unknown word ("<unk>" if the model lacks an unknown word),

        .. math::
            P'(\langle unk\rangle \mid n) = P(\langle unk\rangle \mid n) + \sum_{w
            \notin \mathtt{vocabulary}} P(w \mid n) .

        After a context n without removed words, the probabilities of the words that
        stay do not change. Contexts with removed words are removed. Marks always stay,
        and words that the model lacks stay unknown.

    method : {"entropy", "weighted_difference", "count"}, default="entropy"
        ``"weighted_difference"`` is :math:`p(h, y) [\log p(y \mid h) - \log b(h)
        p(y \mid h')]` [2]_. ``"count"`` is the count cut-off.

    counts : Counted, default=None
        Counts of the training text, from `LanguageModel.count` of the fitted model.
        p(h) and p(h, y) are then relative frequencies. None: p(h) is the product of the
        model's probabilities of its symbols (the start mark has the probability of the
        end mark). Kneser-Ney smoothing needs the counts, as its lower orders are not
        models of the text [3]_, and so does ``"count"``. With `vocabulary`, count with
        a `LanguageModel` of the words that model and vocabulary share.

    Returns
    -------
    pruned : BackoffModel
        A model with the order of words of `model`. If n-grams were removed, rows sum
        to 1. If nothing is to be removed, the same model.

    Raises
    ------
    ValueError
        If a parameter is out of range, the counts are of other words or of shorter
        contexts, the probabilities after some context are all 0 or beyond the range of
        floats, the unigrams alone are more than `to`, or no word of the model is in the
        vocabulary.
    TypeError
        If the vocabulary is one string, or a word is not hashable.

    Warns
    -----
    UserWarning
        If the sum of a row differs from 1 by more than 0.001.

    See Also
    --------
    sklstruct.smoothing.GrownLM : Adds n-grams to the unigrams while it is trained.

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
    >>> prune(model, vocabulary=["the", "cat", "dog", "fox"]).labels.classes.tolist()
    ['cat', 'dog', 'the', '<unk>', '</s>']
    >>> lm = LanguageModel("fast", max_depth=2)
    >>> counted = lm.count(text)
    >>> lm = lm.fit(counted)
    >>> prune(lm.backoff_model_, 0.05, counts=counted).n_pairs
    10
    """
    check_model(model)
    check_choice("method", method, METHODS)
    if threshold is None and to is None and vocabulary is None:
        raise ValueError("threshold, to or vocabulary must be given")
    if threshold is not None and to is not None:
        raise ValueError("threshold and to: give one of them, and not both")
    if counts is not None:
        check_counted(counts, "counts")
    least = None if threshold is None else check_threshold(threshold, method)
    if vocabulary is not None:
        model = with_vocabulary(model, vocabulary)
    if threshold is None and to is None:
        return model
    size = None if to is None else check_size(model, to)
    of_pairs = None
    if counts is not None:
        of_pairs = counts_beside(model, counts)
    elif method == "count":
        raise ValueError("counts must be given for method='count'")
    model = as_distribution(model)
    return without_pairs(model, _choose(model, least, method, of_pairs, size))


def as_distribution(model: BackoffModel) -> BackoffModel:
    """Divide each row by its sum, and warn, if a sum differs from 1 by over 0.001.

    Costs compare probabilities, and new back-off weights get the remaining mass: both
    need rows that sum to 1. The ratios within a row do not change.
    """
    deviation = model.check_normalized(tol=np.inf)
    if deviation <= _TOLERANCE:
        return model
    total, pairs = model.row_sums, model.pairs
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
    warn(
        f"model: {int(wrong.sum())} of {total.size} rows miss the sum 1, by up to "
        f"{deviation:.3g}; each row is divided by its sum before it is pruned",
    )
    log_prob = model.log_prob - np.log(total)[pairs.nodes()]
    left = 1.0 - pairs.node_sums(np.exp(log_prob))
    left[np.diff(pairs.ptr) == model.n_classes] = 0.0
    with np.errstate(divide="ignore"):
        log_left = np.log(np.maximum(left, 0.0))
    return renormalize(pairs, np.minimum(log_prob, 0.0), log_left, model.labels)


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
            "give a vocabulary of fewer words"
        )
    return size


def counts_beside(model: BackoffModel, counted: Counted) -> np.ndarray:
    """The count of each pair of a model, 0 for a pair that was not counted."""
    old, new = model.labels, counted.labels
    what = "counts"
    if not (
        np.array_equal(old.classes, new.classes)
        and np.array_equal(old.known_symbols(what), new.known_symbols(what))
    ):
        raise ValueError(
            "counts: the words that were counted are not those of the model; count the "
            "text with the LanguageModel that was fitted, or if vocabulary is given, "
            "with a LanguageModel of the words that model and vocabulary share"
        )
    if counted.depth < model.max_depth:
        raise ValueError(
            f"counts: contexts of up to {counted.depth} symbols were counted, and the "
            f"model has contexts of {model.max_depth}; count the text with a max_depth "
            f"of at least {model.max_depth}"
        )
    pairs, count = counted.all_counts.count_now().expanded()
    if not count[: pairs.n_classes].sum() > 0:
        raise ValueError("counts of the empty context are all 0")
    if pairs == model.pairs:
        return count
    # A smoother may have pairs that were never seen, and lack seen pairs.
    node = pairs.tree.nodes_in(model.tree)[pairs.nodes()]
    slot = find_pairs(model.pairs.ptr, model.pairs.target, node, pairs.target)
    of_pairs = np.zeros(model.n_pairs)
    of_pairs[slot[slot >= 0]] = count[slot >= 0]
    return of_pairs


def _choose(model, least, method, counts, size):
    """A mask of the pairs that stay: by the thresholds `least`, or by `size`."""
    cost = _costs(model, method, counts)
    pairs = model.pairs
    ahead = next_contexts(pairs, model.labels)
    if size is not None:
        worth = worth_of_prefixes(pairs, ahead, cost, suffixes=True)
        return _dearest(pairs, worth, size)
    pair_depth = model.tree.levels()[pairs.nodes()]
    cut = least[np.minimum(np.maximum(pair_depth, 1) - 1, least.size - 1)]
    cheap = cost <= cut if method == "count" else cost < cut
    return worth_of_prefixes(pairs, ahead, ~cheap)


def _dearest(pairs, worth, size):
    """The pairs of the largest worth that are within a size."""
    # Stable sort: of pairs of equal worth, shorter contexts come first.
    order = np.argsort(-worth, kind="stable")
    place = np.empty(order.size, dtype=np.int64)
    place[order] = np.arange(order.size)
    # A context is needed as soon as it, or a context below it, has a pair.
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
    shape = np.asarray(threshold, dtype=object).shape
    if method != "count" and shape not in ((), (1,)):
        raise ValueError(f"threshold must be one number; got shape {shape}")
    least = by_depth("threshold", threshold)
    check_reals("threshold", least, "[0, inf]")
    return least


def _costs(model, method, counts):
    """The cost of removing each pair; infinite for the unigrams."""
    n_classes = model.n_classes
    cost = np.full(model.n_pairs, np.inf)
    if method == "count":
        cost[n_classes:] = counts[n_classes:]
        return cost
    m = Masses(model)
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

            # If every class has a pair, a single pair is determined by the other pairs
            # and would cost nothing, but two pairs would not. The cost is therefore
            # computed with a back-off weight of 1.
            two = rel_entr(m.prob, m.low) + rel_entr(1 - m.prob, 1 - m.low)
            divergence = np.where(free > 0, divergence, np.maximum(two, 0.0))
            worth = np.expm1(np.where(of_context > 0, of_context * divergence, 0.0))
    cost[n_classes:] = worth
    return cost


def log_marginals(model: BackoffModel) -> np.ndarray:
    """log p(h) of every context: the product of the probabilities of its symbols.

    A start mark, which is never predicted, is as frequent as the end mark; other
    symbols that are not a class have probability 1.
    """
    tree, labels = model.tree, model.labels
    need_symbols(labels, "the probability of a context")
    class_of_symbol = labels.class_of_symbol
    out = np.zeros(model.n_nodes)
    opening = 0.0
    if labels.start is not None and labels.end is not None:
        opening = float(model.log_prob[labels.end_id])

    def read(state, total, symbol):
        """Add the probability of a symbol after each state to the totals."""
        target = class_of_symbol[symbol]
        known = target >= 0
        total[known] += model.target(state[known], target[known])
        if labels.start is not None:
            total[symbol == labels.start_id] += opening

    link, newest = drop_newest(tree), newest_symbols(tree)
    for k in range(1, tree.n_levels):
        here = tree.level(k)
        # "h y" has the probability of h, and that of y after it.
        state = link[here].copy()
        # In a tree of windows, h or a beginning of h may not be a node. Then all
        # symbols of "h y" are read.
        lost = np.flatnonzero((state < 0) | (link[state] < 0))
        link[here.start + lost] = -1
        total = out[state]
        if lost.size:
            node = (here.start + lost).astype(np.int32)
            at, so_far = np.zeros(node.size, dtype=np.int32), np.zeros(node.size)
            for _ in range(k - 1):
                # The node has the oldest symbol of a context, its parent the next
                # symbol.
                symbol = tree.symbol[node]
                read(at, so_far, symbol)
                at, node = model.follow(at, symbol), tree.parent[node]
            state[lost], total[lost] = at, so_far
        read(state, total, newest[here])
        out[here] = total
    return out


def worth_of_prefixes(
    pairs: Pairs, ahead: np.ndarray, worth: np.ndarray, suffixes: bool = False
) -> np.ndarray:
    """The maximum of the worth of each pair (h, y) and of the pairs of the context "h
    y".

    A pair (h, y) must stay while the context "h y" has pairs. The pairs whose result is
    above a threshold satisfy this. The pairs of the root get the largest value.

    ahead: from `next_contexts`.
    worth: numbers, or a mask of the pairs that stay.
    suffixes: a pair (h', y), with h' the context h without its oldest symbol, must also
    stay with (h, y), because files of n-grams need it.
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
