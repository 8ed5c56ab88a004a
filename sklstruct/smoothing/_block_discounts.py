"""Discounts by the number of blocks of the text that a pair occurred in.

Words come in bursts: a pair that was seen three times on one page is less likely in
another text than a pair that was seen once on each of three pages. The discount of a
pair therefore depends on its count and on the number of blocks (runs of neighbouring
samples) in which the pair occurred. The discounts maximise the likelihood of the
training samples. Each sample is scored by the counts without its section of the text, a
run of blocks. If only the sample were left out, the rest of its burst would predict it,
and if only its block were left out, the neighbouring blocks would. Samples of a class
that occurs in no other section are not scored: they show how often words are new, which
the counts of counts of the unigrams show better, and which does not matter for a closed
vocabulary.

Leaving a section out changes only the pairs that occur in it and the sums of their
contexts, so the counts without each section follow from one pass over its samples.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..backoff import Counted, DeferredCounts
from ..context_tree import Pairs, joined_ranges
from . import _smoothing_fast as _fast
from ._tuned_discounts import DiscountedLevel, PathLikelihood, discount_weights

# Discounts of a depth: for the counts 1, 2, 3, 4 and more, in 1, 2, 3, 4 and more
# blocks.
N_COUNTS = N_BLOCKS = 4
# Samples of a block.
BLOCK = 10_000
# Samples that are left out together, in whole blocks; a tenth of a short text.
_SECTION = 50_000
# Samples that are scored without their sections. More samples change the discounts by
# less than the sampling error.
_MOST_SAMPLES = 200_000
# A short text is cut into this many blocks.
_LEAST_BLOCKS = 10


class TextBlocks(NamedTuple):
    """Samples in the order of the text, as pairs of their tree."""

    slot: np.ndarray  # (n_samples,) int32, the pair at which each sample ends
    weight: np.ndarray  # (n_samples,)
    size: int  # samples of a block
    section: int  # blocks of a section
    spread: np.ndarray  # (n_pairs,) int32, blocks in which each pair occurred

    @classmethod
    def of(cls, samples: DeferredCounts, counted: Counted, size: int) -> TextBlocks:
        """Locate the samples, which are in the order of the text, in their contexts.

        size: samples per block; fewer if the text has fewer than ten such blocks.
        """
        positions, pairs = samples.positions, counted.pairs
        slot = pairs.find(counted.locate(positions), positions.target)
        weight = positions.weight
        weight = np.ones(slot.size) if weight is None else weight
        size = max(1, min(size, slot.size // _LEAST_BLOCKS))
        spread = np.zeros(pairs.n_pairs, dtype=np.int32)
        last = np.full(pairs.n_pairs, -1, dtype=np.int32)
        _fast.count_blocks(pairs.parent, slot, size, last, spread)
        section = min(_SECTION, slot.size // _LEAST_BLOCKS) // size
        return cls(slot, weight, size, max(1, section), spread)

    def sample(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """(section, block in it, slot, weight) of samples of evenly spaced sections."""
        section, block = np.divmod(np.arange(self.slot.size) // self.size, self.section)
        some = section % -(-self.slot.size // _MOST_SAMPLES) == 0
        return section[some], block[some], self.slot[some], self.weight[some]


def _columns(count: np.ndarray, spread: np.ndarray) -> tuple[np.ndarray, ...]:
    """(fixed, w, row): D(a, b) = fixed + w @ D[row], row = min(b, 4) - 1."""
    fixed, w = discount_weights(count, N_COUNTS)
    return fixed, w, np.clip(spread, 1, N_BLOCKS) - 1


def block_shares(
    pairs: Pairs,
    count: np.ndarray,
    spread: np.ndarray,
    discounts: np.ndarray,
    first: int,
) -> tuple[np.ndarray, np.ndarray]:
    """The discounted probability of each pair and the back-off mass of each context.

    discounts: of shape (n_levels, 4, 4). The probabilities overwrite the counts.
    """
    backoff_mass = np.empty(pairs.tree.n_nodes)
    for k in range(first, pairs.tree.n_levels):
        here, nodes = pairs.level(k), pairs.tree.level(k)
        if here.stop == here.start:
            continue
        ptr = pairs.ptr[nodes.start : nodes.stop + 1] - here.start
        fixed, w, row = _columns(count[here], spread[here])
        off = fixed + np.einsum("ij,ij->i", w, discounts[k][row])
        total = np.add.reduceat(count[here], ptr[:-1])
        backoff_mass[nodes] = np.add.reduceat(off, ptr[:-1]) / total
        count[here] = (count[here] - off) / np.repeat(total, np.diff(ptr))
    return count, backoff_mass


def left_out(
    pairs: Pairs,
    count: np.ndarray,
    adjusted: np.ndarray | None,
    blocks: TextBlocks,
    base: np.ndarray,
    first: int,
) -> PathLikelihood:
    """The likelihood of the samples; each sample is scored without its section.

    Samples of a class that occurs in their section only are left out.

    adjusted: the adjusted counts of Kneser-Ney, if adjusted counts are discounted.
    base: the distribution above the depth `first`. It is not estimated again.
    first: first depth with discounts, 0 or 1.
    """
    section, block, slot, weight = blocks.sample()
    n_levels = pairs.tree.n_levels
    levels: list[DiscountedLevel] = []
    # From the longest contexts up: a removed pair lowers the adjusted count of its
    # parent by 1.
    at, lost = slot.astype(np.int64), None
    starts = [pairs.level(k).start for k in range(n_levels)]
    depth = np.searchsorted(starts, slot, side="right") - 1
    for k in range(n_levels - 1, first - 1, -1):
        come = np.flatnonzero(depth >= k)
        ends = depth[come] == k
        local, lost = _without(
            pairs, count, adjusted, blocks, k,
            section[come], block[come], at[come], weight[come], ends, lost,
        )  # fmt: skip
        levels.append(_level(come, slot.size, *local))
        up = pairs.parent[at[come]]
        at[come] = up
    levels.reverse()
    target = pairs.target[slot].astype(np.int64)
    _, place = np.unique(section * pairs.n_classes + target, return_inverse=True)
    rest = count[target] - np.bincount(place, weight)[place]
    weight = np.where(rest > 1e-9 * count[target], weight, 0.0)
    chain = [
        level._replace(parent=target if i == 0 else np.arange(slot.size))
        for i, level in enumerate(levels)
    ]
    if chain:
        chain[-1] = chain[-1]._replace(weight=weight)
    top = np.tile(np.arange(1.0, N_COUNTS + 1), N_BLOCKS)
    return PathLikelihood(base, top, chain)


def _without(pairs, count, used, blocks, k, section, block, slot, weight, ends, lost):
    """(what `_level` takes, predecessors lost by (section, parent pair)) of depth k."""
    key, place = np.unique(section * pairs.n_pairs + slot, return_inverse=True)
    pair = key % pairs.n_pairs
    before = count[pair]
    after = before - np.bincount(place, weight, key.size)
    after[after <= 1e-12 * before] = 0.0
    old, new = before, after
    if used is not None:
        gone = np.bincount(place, weight * ends, key.size)
        if lost is not None:
            gone[np.searchsorted(key, lost[0])] += lost[1]
        old = used[pair]
        new = old - gone
        new[new <= 1e-12 * old] = 0.0
    inside = np.unique(place * blocks.section + block) // blocks.section
    spread = blocks.spread[pair], blocks.spread[pair] - np.bincount(inside)
    above = None
    if k:
        above, back = np.unique(
            key // pairs.n_pairs * pairs.n_pairs + pairs.parent[pair],
            return_inverse=True,
        )
        less = np.minimum(before, 1.0) - np.minimum(after, 1.0)
        above = above, np.bincount(back, less, above.size)
    before = _columns(old, spread[0])
    after = _columns(new, spread[1])
    here = count if used is None else used
    contexts = _contexts(pairs, here, blocks.spread, k, key, old - new, before, after)
    return (place, new, after, *contexts), above


def _contexts(pairs, used, spread, k, key, less, before, after):
    """(node, total, back-off mass) of the contexts of each section, without the
    section."""
    pair = key % pairs.n_pairs
    nodes = pairs.tree.level(k)
    # The context of each pair of this depth.
    at = np.searchsorted(
        pairs.ptr[nodes.start : nodes.stop + 1], pair, side="right"
    ) + (nodes.start - 1)
    context, node = np.unique(
        key // pairs.n_pairs * pairs.tree.n_nodes + at, return_inverse=True
    )
    which, inverse = np.unique(context % pairs.tree.n_nodes, return_inverse=True)
    size = pairs.ptr[which + 1] - pairs.ptr[which]
    start = np.cumsum(size) - size
    inside = joined_ranges(pairs.ptr[which], size)
    total = np.add.reduceat(used[inside], start)[inverse]
    total = total - np.bincount(node, less, context.size)
    fixed, w, row = _columns(used[inside], spread[inside])
    backoff_mass = np.empty((context.size, 1 + N_BLOCKS * N_COUNTS))
    change = np.bincount(node, after[0] - before[0], context.size)
    backoff_mass[:, 0] = np.add.reduceat(fixed, start)[inverse] + change
    for r in range(N_BLOCKS):
        for j in range(N_COUNTS):
            whole = np.add.reduceat(np.where(row == r, w[:, j], 0.0), start)[inverse]
            for sign, (_, here, at) in ((1.0, after), (-1.0, before)):
                whole = whole + sign * np.bincount(
                    node, np.where(at == r, here[:, j], 0.0), context.size
                )
            backoff_mass[:, 1 + r * N_COUNTS + j] = whole
    return node, total, backoff_mass


def _level(come, n_samples, place, used, columns, node, total, backoff_mass):
    """The level of all samples; samples with shorter contexts keep their probability.

    Of the pairs of one depth in each section, without that section:

    place: for each sample with so long a context, the index of its pair.
    used, columns: the counts that are discounted, and their discounts.
    node: for each pair, the row of its (section, context) in the arrays below.
    backoff_mass: (n, 1 + 16) the fixed sum and the sums of the discounts.
    """
    node = node[place]
    total = total[node]
    # A context that occurs only in this section is unknown.
    known = total > 1e-9
    total = np.where(known, total, 1.0)
    fixed, w, row = (column[place] for column in columns)
    n_discounts = N_BLOCKS * N_COUNTS
    level = DiscountedLevel(
        np.empty(0, dtype=np.int64),
        np.zeros(n_samples),
        np.zeros(n_samples),
        np.zeros((n_samples, n_discounts)),
        np.ones(n_samples),
        np.zeros((n_samples, n_discounts)),
    )
    here, total = come[known], total[known]
    level.discounted[here] = (used[place] - fixed)[known] / total
    column = row[known, None] * N_COUNTS + np.arange(N_COUNTS)
    level.discounted_slope[here[:, None], column] = -w[known] / total[:, None]
    backoff_mass = backoff_mass[node[known]] / total[:, None]
    level.backoff_mass[here] = backoff_mass[:, 0]
    level.mass_slope[here] = backoff_mass[:, 1:]
    return level
