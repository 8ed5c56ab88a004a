"""Kneser-Ney smoothing with pruning: counts of removed n-grams go to the lower
orders."""

from __future__ import annotations

import warnings
from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import rel_entr

from ..._compat import Interval, StrOptions
from ..._docs import shared_docs
from ...backoff import Counted, Fitted, next_contexts, selected_nodes
from .. import _shares
from .. import _smoothing_fast as _fast
from .._base_distribution import DISCOUNT_NUMBERS
from ._discounting import DOCS
from ._kneser_ney import KneserNeyLM

# Pruning replaces these parameters.
_OTHERS = ("interpolate", "min_count", "by_block")


@shared_docs(**{k: text for k, text in DOCS.items() if k not in _OTHERS})
class PrunedKneserNeyLM(KneserNeyLM):
    r"""Kneser-Ney language model, pruned while it is estimated.

    .. math::
        \text{keep } (n, y) \iff c(n) \left[ p \log \frac{p}{q} + (1 - p)
        \log \frac{1 - p}{1 - q} \right] \ge \text{threshold},

    with p the probability of y after n, q this probability without the pair, and c(n)
    the count of n. The discounted mass of a removed pair goes to the back-off weight of
    n. A pair that is kept adds 1 to the adjusted count of its parent pair, as in
    Kneser-Ney smoothing. A removed pair adds its adjusted count a(n, y). The lower
    orders and their discounts are estimated from these counts. The longest contexts are
    pruned first.

    Parameters
    ----------
    {max_depth}

    threshold : float, default=1.0
        Pairs that change the log-likelihood of the training text by less are removed,
        in nats; at least 0. 0 removes no pair, infinity leaves the unigrams. A pair
        whose n-gram is the beginning of a kept n-gram is kept.

    discount : str, float or array-like, default="modified"
        The discounts D. With :math:`n_i` the number of pairs of a depth whose
        adjusted count is i:

        {values}

        Tuned discounts are tuned for the model before pruning.

    {validation}

    base : "uniform" or unigram estimator, default="uniform"
        As in `KneserNeyLM`. An estimator is fitted to the counts after pruning.

    {parameters}

    Attributes
    ----------
    {attributes}

    {discounts}

    n_pruned_ : int
        Number of pairs that were removed.

    See Also
    --------
    KneserNeyLM : The model without pruning.

    sklstruct.backoff.prune : Pruning of any model; it does not re-estimate the lower
        orders of Kneser-Ney smoothing.

    Notes
    -----
    All pairs of a depth are tested at once, with the lower orders of the model before
    pruning. A path matrix does not tell which symbol is which class; then the beginning
    of a kept n-gram can be removed.

    References
    ----------
    .. [1] V. Siivola, T. Hirsimaki, S. Virpioja, "On growing and pruning Kneser-Ney
       smoothed n-gram models", IEEE TASLP 15(5), 2007.

    Examples
    --------
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import PrunedKneserNeyLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran", "a dog ran"]
    >>> model = LanguageModel(PrunedKneserNeyLM(discount=0.5), max_depth=2).fit(text)
    >>> model.estimator_.n_pruned_
    18
    >>> round(model.backoff_model_.check_normalized(), 9)
    0.0
    """

    # The mass of a removed pair goes to the parent, as the discounts do.
    interpolate = True
    min_count = 1

    _parameter_constraints: dict = {
        **{k: v for k, v in KneserNeyLM._parameter_constraints.items()
           if k not in ("interpolate", "min_count")},
        "discount": [
            StrOptions({"modified", "single", "tuned"}), *DISCOUNT_NUMBERS,
        ],
        "threshold": [Interval(Real, 0, None, closed="both")],
    }  # fmt: skip

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        threshold: float = 1.0,
        discount: str | float | ArrayLike = "modified",
        validation_fraction: float = 0.1,
        base: Any = "uniform",
        padding: Any = None,
        classes: ArrayLike | None = None,
    ):
        self.max_depth = max_depth
        self.threshold = threshold
        self.discount = discount
        self.validation_fraction = validation_fraction
        self.base = base
        self.padding = padding
        self.classes = classes

    def _fit_counted(self, counted: Counted, overwrite: bool) -> Fitted:
        pairs, count = counted.expanded()
        with warnings.catch_warnings():
            # Only the fit after pruning warns of replaced discounts.
            warnings.simplefilter("ignore", UserWarning)
            whole = np.exp(super()._fit_counted(counted, False).log_prob)
        ahead = next_contexts(pairs, counted.labels)
        keep, adjusted = self._choose(pairs, count, whole, ahead)

        root = adjusted[: pairs.n_classes].copy()
        base, first = self._base_level(root)
        discounted, backoff_mass = self._shares(pairs, adjusted, first)
        backoff_mass += pairs.node_sums(np.where(keep, 0.0, discounted))
        discounted[~keep] = 0.0
        log_prob, log_backoff = _shares.hand_down(
            pairs, discounted, backoff_mass, root, base, first
        )
        # Removed pairs get the backed-off probability.
        smaller, kept = pairs.select(keep)
        index = selected_nodes(pairs, keep)
        self.n_pruned_ = pairs.n_pairs - smaller.n_pairs
        return Fitted(smaller, log_prob[kept], log_backoff[index >= 0], index)

    def _choose(self, pairs, count, whole, ahead):
        """(pairs to keep, adjusted counts), from the deepest level up."""
        tree, node = pairs.tree, pairs.nodes()
        keep = np.ones(pairs.n_pairs, dtype=bool)
        adjusted = pairs.terminal_counts(count)
        of_context = pairs.node_sums(count)
        one = np.minimum(count, 1.0)  # the count that a kept pair adds to its parent
        needed = np.zeros(tree.n_nodes + 1, dtype=bool)  # the last: not in the tree
        discounted, backoff_mass = np.empty(pairs.n_pairs), np.empty(tree.n_nodes)
        for k in range(tree.n_levels - 1, 0, -1):
            here, nodes, above = pairs.level(k), tree.level(k), pairs.level(k - 1)
            _fast.discount(
                pairs.ptr, nodes.start, nodes.stop, adjusted, self.discounts_[k],
                discounted, backoff_mass,
            )  # fmt: skip
            up = pairs.parent[here]
            kept, rest, low = discounted[here], backoff_mass[node[here]], whole[up]
            p, q = kept + rest * low, (kept + rest) * low
            # (1 - p) log((1 - p) / (1 - q)), 0 where p is 1.
            change = rel_entr(p, q) + rel_entr(1 - p, 1 - q)
            stay = ~(of_context[node[here]] * change < self.threshold)
            stay |= needed[ahead[here]]
            keep[here] = stay
            needed[node[here][stay]] = True
            adjusted[above] += np.bincount(
                up - above.start,
                np.where(stay, one[here], adjusted[here]),
                above.stop - above.start,
            )
        return keep, adjusted
