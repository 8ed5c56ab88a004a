"""DiscountingSmoother: base of the smoothers with absolute discounts."""

from __future__ import annotations

import warnings
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._checks import by_depth
from ..._compat import Interval, StrOptions
from ...backoff import Counted, DeferredCounts, Fitted
from ...backoff._discounts import check_discount, find_discounts
from ...backoff._held_out import (
    VALIDATION_CONSTRAINT,
    VALIDATION_FRACTION,
    HeldOutClassifier,
)
from .. import _engine, _shares
from .._base_distribution import DISCOUNT_NUMBERS
from .._block_discounts import (
    BLOCK,
    N_BLOCKS,
    N_COUNTS,
    TextBlocks,
    block_shares,
    left_out,
)
from .._tuned_discounts import held_out_likelihood

# Blocks of the docstrings of all smoothers with discounts; see `shared_docs`.
DOCS: dict[str, str] = {
    **_engine.DOCS,
    "validation": VALIDATION_FRACTION,
    "values": r"""
- ``"modified"``: three per depth, :math:`D_i = i - (i + 1) Y n_{i+1} / n_i`
  for i = 1, 2 and 3 (for 3 and more), :math:`Y = n_1 / (n_1 + 2 n_2)`.
- ``"single"``: one per depth, Y.
- ``"tuned"``: three per depth, which maximise the likelihood of held-out samples:
  `X_val` of `fit`, or the last `validation_fraction` of the samples. The optimisation
  starts from the modified discounts. Needs ``interpolate=True``.
- a number, 0 < D <= 1: for every count and depth.
- a sequence of floats (D_1, ..., D_k), 0 < D_i <= i: for the counts 1, 2, ...,
  k and more, at every depth.
- an array of such rows, like ``discounts_``: for the depths 0, 1, ...; the last row
  also for all deeper depths.

If a formula cannot be computed (texts of characters, small texts, closed vocabularies)
or gives a discount out of range, the depth gets 0.5, 1, 1.5 (modified) or 0.75
(single), and one warning names all such depths and the reasons.
""",
    "by_block": """
``"by_block"``: sixteen per depth, for the counts 1, 2, 3, 4 and more of pairs that
occurred in 1, 2, 3, 4 and more blocks of the text; modified discounts for the unigrams.
A block is a run of 10 000 samples, or a tenth of a text of fewer than 100 000 samples.
The discounts maximise the likelihood of the training samples. Each sample is scored by
the counts without its section, a sequence of blocks. `X` must be dense and in the order
of the text. Needs `interpolate`.
""",
    "interpolate": rf"""
{_engine.INTERPOLATE.strip()} Discounts must
    then be below the count they apply to.
""",
    "min_count": """
min_count : int or array-like of shape (n_depths,), default=1
    Pairs of lower counts are removed: one number for every depth from 1 on, or one
    number for each depth 0, 1, ..., the last also for all deeper depths; at least 1 and
    not falling. The unigrams stay. Discounts are estimated on all pairs, and the
    probability of removed pairs goes to the lower order, as with ``--prune`` of lmplz,
    whose thresholds are smaller by 1.
""",
    "discounts": """
discounts_ : ndarray of shape (`depth_` + 1, n_discounts)
    Discounts of the counts 1, 2, ... at each depth; NaN at depth 0 if `base` is an
    estimator. With ``"by_block"`` the shape is (`depth_` + 1, 4, 4), with a row for
    each number of blocks.
""",
}


class DiscountingSmoother(HeldOutClassifier, _engine.NGramSmoother):
    """Base of the smoothers that subtract a discount from every count."""

    held_out_hint = "set discount='tuned'"
    _counts_contexts = False  # True: use adjusted counts a(n, y)

    _parameter_constraints: dict = {
        **_engine.CONSTRAINTS,
        **VALIDATION_CONSTRAINT,
        "interpolate": ["boolean"],
        "discount": [
            StrOptions({"modified", "single", "tuned", "by_block"}),
            *DISCOUNT_NUMBERS,
        ],
        "min_count": [Interval(Integral, 1, None, closed="left"), "array-like"],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        discount: str | float | ArrayLike = "modified",
        interpolate: bool = True,
        min_count: int | ArrayLike = 1,
        validation_fraction: float = 0.1,
        base: Any = "uniform",
        padding: Any = None,
        classes: ArrayLike | None = None,
    ):
        self.max_depth = max_depth
        self.discount = discount
        self.interpolate = interpolate
        self.min_count = min_count
        self.validation_fraction = validation_fraction
        self.base = base
        self.padding = padding
        self.classes = classes

    def _check_params(self):
        chosen = self._uses_held_out() or self.keeps_positions
        if chosen and not self.interpolate:
            raise ValueError(
                f"discount={self.discount!r} needs interpolate=True; without "
                "interpolation give discounts as numbers"
            )
        check_discount(self.discount, strict=not self.interpolate, by_depth=True)
        _check_min_count(self.min_count)

    def _uses_held_out(self):
        return isinstance(self.discount, str) and self.discount == "tuned"

    @property
    def keeps_positions(self) -> bool:
        return isinstance(self.discount, str) and self.discount == "by_block"

    def _used_counts(self, pairs, count):
        """The counts that are smoothed; they may overwrite `count`."""
        return pairs.adjust_counts(count) if self._counts_contexts else count

    def _find(self, discount, pairs, count, first_level):
        """Discounts of all depths, NaN above `first_level`."""
        n_levels = pairs.tree.n_levels
        found = find_discounts(
            discount, [count[pairs.own(k)[1]] for k in range(first_level, n_levels)],
            strict=not self.interpolate, owner=type(self).__name__,
            first_depth=first_level, total=pairs.total,
        )  # fmt: skip
        rows = np.full((n_levels, found.shape[1]), np.nan)
        rows[first_level:] = found
        return rows

    def _start(self, pairs, count, first_level):
        # The fallback for discounts that cannot be estimated is a valid start.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            return self._find("modified", pairs, count, first_level)

    def _tune(self, pairs, count, held_out):
        count = self._used_counts(pairs, count.copy())
        base, first = self._base_level(count[: pairs.n_classes])
        rows = self._start(pairs, count, first)
        likelihood = held_out_likelihood(
            pairs, count, held_out, base, first, rows.shape[1]
        )
        rows[first:] = likelihood.minimize(rows[first:])
        self.discounts_ = rows

    def _fit_counted(self, counted: Counted, overwrite: bool) -> Fitted:
        spread = None
        if self.keeps_positions:
            counted, spread = self._fit_blocks(counted)
        pairs, count = counted.expanded(copy=not overwrite)
        keep = _shares.reached(pairs, count, self.min_count)
        count = self._used_counts(pairs, count)
        root = count[: pairs.n_classes].copy()
        base, first = self._base_level(root)
        if spread is None:
            shares: tuple[np.ndarray, np.ndarray] = self._shares(pairs, count, first)
        else:
            shares = block_shares(pairs, count, spread, self.discounts_, first)
        new_index = None
        if keep is not None:
            # Shares are computed for all pairs; the mass of removed pairs is held back.
            pairs, shares, new_index = _shares.leave_out(pairs, *shares, keep)
        numbers = _shares.hand_down(
            pairs, *shares, root, base, first, interpolate=self.interpolate
        )
        return Fitted(pairs, *numbers, new_index)

    def _fit_blocks(self, samples: Counted) -> tuple[Counted, np.ndarray]:
        """(the counts, the number of blocks of each pair); sets `discounts_`."""
        if not isinstance(samples, DeferredCounts):
            raise ValueError(
                "discount='by_block' needs the samples in the order of the text: dense "
                "context windows, or sentences of a LanguageModel with this estimator"
            )
        counted = samples.count_now()
        blocks = TextBlocks.of(samples, counted, BLOCK)
        pairs, count = counted.expanded(copy=True)
        used = self._used_counts(pairs, count.copy())
        adjusted = used if self._counts_contexts else None
        base, first = self._base_level(used[: pairs.n_classes])
        rows = self._start(pairs, used, first)
        likelihood = left_out(pairs, count, adjusted, blocks, base, first)
        rows = rows[:, [0, 1, 2, 2]]  # the last also for larger counts
        start = np.tile(rows[first:], N_BLOCKS)
        found = np.full((len(rows), N_BLOCKS, N_COUNTS), np.nan)
        best = likelihood.minimize(start, 1e-8, fixed=1 - first)
        found[first:] = best.reshape(-1, N_BLOCKS, N_COUNTS)
        self.discounts_ = found
        return counted, blocks.spread

    def _shares(self, pairs, count, first_level):
        discount = self.discounts_ if self._uses_held_out() else self.discount
        self.discounts_ = self._find(discount, pairs, count, first_level)
        return _shares.discount_levels(pairs, count, self.discounts_, first_level)


def _check_min_count(min_count):
    least = by_depth("min_count", min_count)
    # If min_count fell with the depth, an n-gram could stay without its beginning.
    if not (least >= 1.0).all() or (np.diff(least) < 0).any():
        raise ValueError(
            "min_count must be at least 1 and must not fall with the depth, got "
            f"{min_count!r:.60}"
        )
