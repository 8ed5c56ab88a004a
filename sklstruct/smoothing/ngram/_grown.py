"""Language models grown n-gram by n-gram, in closed form."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import Interval
from ..._docs import shared_docs
from ...backoff import (
    BackoffClassifier,
    Counted,
    Fitted,
    next_contexts,
    renormalize,
    selected_nodes,
)
from .. import _engine
from .._base_distribution import base_distribution

# The parent's mass on the other classes, a divisor, stays above this.
_LEAST_MASS = 1e-9


@shared_docs(**_engine.DOCS)
class GrownLM(BackoffClassifier):
    r"""Variable-order language model, grown n-gram by n-gram.

    .. math::
        \min_W\; -\sum_{n, y} T(n, y) \log P_W(y \mid n) + \lambda\, |W|, \qquad
        P_W(y \mid n) = \begin{cases}
        (c(n, y) - \delta) / c(n) & (n, y) \in W \\
        b(n)\, P_W(y \mid \mathrm{parent}(n)) & \text{otherwise,}
        \end{cases}

    over sets W of pairs of a context and a class, by a greedy search. c(n, y) is the
    number of times that y followed n, T(n, y) the number of these samples whose whole
    history is n, and b(n) is such that the probabilities after n sum to 1. A pair (n,
    y), the n-gram "n y", can enter W only after the n-grams "n" and "parent(n) y", so
    that an automaton of the model has one arc for each pair. The search begins with the
    shortest n-grams. It tries the n-grams of one context in the order of their counts,
    and n-grams of equal counts by their probability in the parent, smallest first. An
    n-gram is added if it raises the log-likelihood by more than :math:`\lambda`.

    Parameters
    ----------
    {max_depth}

    lam : float, default=1.0
        :math:`\lambda`, the cost of an n-gram, in nats of the whole training text; at
        least 0, and ``inf`` gives the unigrams.

    discount : float, default=0.5
        :math:`\delta`, at least 0 and below 1: the amount that is subtracted from the
        count of every added pair. Use 0 for expected counts of a distribution, and a
        positive discount for a text: otherwise classes that did not occur after a
        context can get probability 0.

    base : "uniform" or unigram estimator, default="uniform"
        Uniform: the unigrams are discounted by `discount` (by 1/2 if that is 0 and a
        class was not seen) and interpolated with 1 / V. An estimator is cloned, fitted
        to the counts of the classes, and takes the place of the unigram level; it must
        give every class a positive probability.

    {parameters}

    Attributes
    ----------
    {attributes}

    objective_ : ndarray of shape (depth + 1,)
        The objective in nats, with contexts of up to 0, 1, 2, ... symbols. It never
        rises.

    n_grown_ : int
        Number of pairs below the unigrams, :math:`|W|`.

    See Also
    --------
    sklstruct.backoff.prune : Prunes a full model.

    sklstruct.StructuredLogLinearLM : With ``solver="active_set"``, a model that grows
        under a penalty.

    Notes
    -----
    O(P log P) for the P pairs of the context tree. A path matrix does not tell which
    symbol is which class; then a pair needs only its suffix.

    With fractional weights, the discount of a count c < 1 is :math:`\delta c`.

    References
    ----------
    .. [1] V. Siivola, B. Pellom, "Growing an n-gram language model", Interspeech 2005.
    .. [2] M. J. Paul, J. Eisner, "Implicitly intersecting weighted automata using dual
       decomposition", NAACL 2012 (features that a prefix and a suffix make active).
    .. [3] R. Cotterell, J. Eisner, "Penalized expectation propagation for graphical
       models over strings", NAACL 2015, section 6.1.

    Examples
    --------
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import GrownLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran", "a dog ran"] * 3
    >>> model = LanguageModel(GrownLM(lam=2), max_depth=2).fit(text)
    >>> model.estimator_.n_grown_
    13
    >>> round(model.backoff_model_.check_normalized(), 9)
    0.0
    """

    _parameter_constraints: dict = {
        **_engine.CONSTRAINTS,
        "lam": [Interval(Real, 0, None, closed="both")],
        "discount": [Interval(Real, 0, 1, closed="left")],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        lam: float = 1.0,
        discount: float = 0.5,
        base: Any = "uniform",
        padding: Any = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.lam = lam
        self.discount = discount
        self.base = base
        self.padding = padding
        self.classes = classes

    def _fit_counted(self, counted: Counted, overwrite: bool) -> Fitted:
        pairs, count = counted.expanded()
        tree, n_classes = pairs.tree, pairs.n_classes
        proba = np.empty(pairs.n_pairs)
        proba[:n_classes] = self._unigrams(count[:n_classes])
        keep = np.zeros(pairs.n_pairs, dtype=bool)
        keep[:n_classes] = True
        left = np.ones(tree.n_nodes)

        # The pair "h" of each context h, -1 if its newest symbol is not a class.
        ahead = next_contexts(pairs, counted.labels)
        prefix = np.full(tree.n_nodes, -1, dtype=np.int64)
        known = np.flatnonzero(ahead >= 0)
        prefix[ahead[known]] = known
        node, total = pairs.nodes(), pairs.node_sums(count)
        seen = count[:n_classes] > 0
        objective = [-float(count[:n_classes][seen] @ np.log(proba[:n_classes][seen]))]
        for k in range(1, tree.n_levels):
            here = np.arange(pairs.level(k).start, pairs.level(k).stop)
            up = pairs.parent[here]
            before = prefix[node[here]]
            here = here[keep[up] & ((before < 0) | keep[before])]
            c, low = count[here], proba[pairs.parent[here]]
            taken, share, rest, gain = self._take(
                node[here], c, total[node[here]], low, tree.n_nodes
            )
            proba[here] = share
            keep[here[taken]] = True
            left = np.where(rest < 1, rest, left)
            objective.append(objective[-1] - gain)
        self.objective_ = np.array(objective)

        smaller, kept = pairs.select(keep)
        index = selected_nodes(pairs, keep)
        with np.errstate(divide="ignore"):
            log_left = np.log(left[index >= 0])
        model = renormalize(smaller, np.log(proba[kept]), log_left, counted.labels)
        self.n_grown_ = smaller.n_pairs - n_classes
        return Fitted(model.pairs, model.log_prob, model.log_backoff, index)

    def _unigrams(self, count):
        base = base_distribution(self.base, count, self.classes_)
        if not isinstance(self.base, str):
            return base
        delta = self.discount or (0.5 if (count == 0).any() else 0.0)
        off = delta * np.minimum(count, 1.0)
        return (count - off) / count.sum() + off.sum() / count.sum() * base

    def _take(self, node, count, total, low, n_nodes):
        """(mask of the taken pairs, their shares, mass left by each node, the gain).

        The search is greedy in each node, largest counts first; of equal counts, the
        pair that is least likely in the parent comes first, because it gains most. The
        pairs of the same rank in all nodes are tried at once.
        """
        share = (count - self.discount * np.minimum(count, 1.0)) / total
        order = np.lexsort((low, -count, node))
        first = np.ones(order.size, dtype=bool)
        first[1:] = node[order][1:] != node[order][:-1]
        start = np.flatnonzero(first)
        size = np.diff(np.append(start, order.size))
        rank = np.arange(order.size) - np.repeat(start, size)
        by_rank = order[np.argsort(rank, kind="stable")]
        stop = np.cumsum(np.bincount(rank)) if rank.size else np.empty(0, np.int64)
        taken = np.zeros(node.size, dtype=bool)
        mass, parent_mass = np.ones(n_nodes), np.ones(n_nodes)
        other = np.zeros(n_nodes)
        other[node] = total
        all_gain, begin = 0.0, 0
        for end in stop.tolist():
            p = by_rank[begin:end]  # at most one pair per node
            begin = end
            n = node[p]
            r, s, rest = mass[n], parent_mass[n], other[n]
            r_new, s_new, rest_new = r - share[p], s - low[p], rest - count[p]
            possible = (s_new > _LEAST_MASS) & (share[p] > 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                after = np.where(
                    rest_new > 0, rest_new * (np.log(r_new) - np.log(s_new)), 0.0
                )
                gain = count[p] * (np.log(share[p]) - np.log(low[p])) + after
                gain -= rest * (np.log(r) - np.log(s))
                take = possible & (gain > self.lam)
            p, n = p[take], n[take]
            taken[p] = True
            mass[n] = np.maximum(r_new[take], 0.0)
            parent_mass[n] = s_new[take]
            other[n] = rest_new[take]
            all_gain += float((gain[take] - self.lam).sum())
        return taken, share, mass, all_gain
