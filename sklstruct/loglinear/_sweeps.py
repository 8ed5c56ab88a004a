"""Ranges of pairs: how shards, blocks and levels are walked."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

# Pairs in one chunk of a vector pass: its operands (about 60 bytes a pair) stay
# in a core's L2 cache between the passes of one step.
CHUNK_PAIRS = 1 << 14


class PairRanges:
    """The pairs of a tree as level ranges, chunks and blocks.

    Attributes
    ----------
    levels : list of (lo, hi)
        Pairs of each level.
    chunks : list of (level, lo, hi)
        Small ranges that cover all pairs, each within one level.
    groups : list of lists of (level, lo, hi)
        The chunks in consecutive groups, the unit of parallel work.
    blocks : list of lists of (lo, hi) arrays
        For each shard, its blocks' pair ranges by level (entry 0 unused).
    """

    def __init__(self, tree, shards, n_groups):
        ptr = tree.pair_ptr[tree.level_ptr].astype(np.int64)
        self.levels = [(int(a), int(b)) for a, b in pairwise(ptr)]
        self.chunks = [
            (k, lo, min(lo + CHUNK_PAIRS, stop))
            for k, (start, stop) in enumerate(self.levels)
            for lo in range(start, stop, CHUNK_PAIRS)
        ]
        bounds = np.linspace(0, len(self.chunks), n_groups + 1).astype(int)
        self.groups = [self.chunks[a:b] for a, b in pairwise(bounds)]
        self.blocks = [
            [
                (
                    tree.pair_ptr[lo].astype(np.int64).tolist(),
                    tree.pair_ptr[hi].astype(np.int64).tolist(),
                )
                for lo, hi in shard
            ]
            for shard in shards
        ]


def sum_over(parallel, function, groups):
    """Sum of function(level, lo, hi) over all chunks, in a fixed order."""

    def run(chunks):
        return [function(*chunk) for chunk in chunks]

    total = 0.0
    for part in parallel(run, groups):
        for value in part:
            if value is not None:
                total = total + value
    return total
