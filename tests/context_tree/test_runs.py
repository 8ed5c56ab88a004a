"""Counts in files: what was written is read, and merged counts are the whole."""

import os
from itertools import pairwise

import numpy as np
import pytest
from _cases import all_pairs
from _texts import random_tokens

from sklstruct.context_tree import _runs, merge_counts
from sklstruct.context_tree._runs import CountRuns, RunFile, Spill
from sklstruct.context_tree._tokens import count_tokens


def test_columns_are_the_arrays_that_were_added(tmp_path):
    rng = np.random.default_rng(0)
    file = Spill(str(tmp_path))
    columns, whole = [], []
    for dtype in (np.int32, np.float64, np.int64):
        columns.append(file.column(dtype))
        whole.append(np.empty(0, dtype=dtype))
    for _ in range(60):  # in turns, as the kernels write
        j = rng.integers(3)
        piece = rng.integers(-9, 9, size=rng.integers(0, 30)).astype(whole[j].dtype)
        columns[j].append(piece)
        whole[j] = np.append(whole[j], piece)
    for column, array in zip(columns, whole):
        assert column.size == array.size > 100
        for start, stop in rng.integers(0, array.size + 1, size=(50, 2)):
            found = column.read(start, max(start, stop))
            np.testing.assert_array_equal(found, array[start : max(start, stop)])
        for n_bytes in (1, 40, 10**6):
            blocks = [block.copy() for block in column.blocks(n_bytes)]
            np.testing.assert_array_equal(np.concatenate(blocks), array)
    assert os.listdir(tmp_path) == []  # the file has no name


@pytest.mark.parametrize(
    *all_pairs(
        n_parts=[1, 2, 9],
        most=[2, 64],  # runs that are merged at once
        depth=[0, 1, 4],
        n_bytes=[1, 64, 1 << 16],  # of a block
        end=[True, False],
    )
)
def test_merged_parts_are_the_whole(n_parts, most, depth, n_bytes, end, monkeypatch):
    monkeypatch.setattr(_runs, "_MOST_RUNS", most)
    monkeypatch.setattr(_runs, "_BLOCK", n_bytes)
    monkeypatch.setattr(_runs, "_BLOCKS", 0 if n_bytes == 1 else 1 << 24)
    rng = np.random.default_rng(n_parts)
    parts = [
        random_tokens(rng, 12, 5, rng.integers(1, 9), end=end) for _ in range(n_parts)
    ]
    sizes = {"n_symbols": 7, "n_classes": 6, "skip": 6}
    whole, total = count_tokens(np.concatenate(parts), depth, **sizes)
    counts = [count_tokens(part, depth, **sizes) for part in parts]
    runs = CountRuns()
    for counted in counts:
        runs.add(*counted)
    pairs, count = runs.finish().pairs()
    merged, summed, index = merge_counts(counts)
    for found, weights in ((pairs, count), (merged, summed)):
        assert found == whole
        np.testing.assert_array_equal(found.tree.level_ptr, whole.tree.level_ptr)
        np.testing.assert_array_equal(weights, total)
    contexts = [tuple(c) for c in whole.tree.contexts()]
    for (part, _), nodes in zip(counts, index):
        found = [contexts[node] for node in nodes]
        assert found == [tuple(c) for c in part.tree.contexts()]


@pytest.mark.parametrize(
    *all_pairs(
        n_parts=[1, 4],
        depth=[0, 1, 4],
        n_bytes=[64, 1 << 16],
        n_ranges=[1, 2, 9],
        width=[1, 3],
    )
)
def test_merged_ranges_are_those_of_the_whole(
    n_parts, depth, n_bytes, n_ranges, width, monkeypatch
):
    monkeypatch.setattr(_runs, "_BLOCK", n_bytes)
    rng = np.random.default_rng(n_parts + 10 * depth)
    parts = [random_tokens(rng, 12, 5, rng.integers(1, 9)) for _ in range(n_parts)]
    check_ranges(rng, parts, depth, n_ranges, min(width, max(depth, 1)))


@pytest.mark.parametrize("seed", range(3))
def test_parts_without_the_contexts_of_a_bound(seed):
    rng = np.random.default_rng(seed)
    parts = [random_tokens(rng, 4, 5, rng.integers(1, 9)) for _ in range(4)]
    check_ranges(rng, parts, 4, 9, 3)


def check_ranges(rng, parts, depth, n_ranges, width):
    """Cut at random prefixes; there may be ranges without any context of a part."""
    sizes = {"n_symbols": 7, "n_classes": 6, "skip": 6}
    whole, total = count_tokens(np.concatenate(parts), depth, **sizes)
    bounds = sorted(
        tuple(rng.integers(0, 7, rng.integers(1, 1 + width)))
        for _ in range(n_ranges - 1)
    )
    bounds = [(), *bounds, (7,)]
    runs = [
        RunFile.of_pairs(*count_tokens(part, depth, **sizes), None) for part in parts
    ]
    places = [run.places(bounds) for run in runs]
    newest = [tuple(c[::-1]) for c in whole.tree.contexts()]
    for k, (first, last) in enumerate(pairwise(bounds)):
        merge = CountRuns()
        for run, (begin, end) in zip(runs, places):
            merge.take(run.range(begin[..., k], end[..., k + 1]))
        pairs, count = merge.finish().pairs()
        found = [tuple(c[::-1]) for c in pairs.tree.contexts()]
        # A tuple comes before all that begin with it.
        above = [first[:n] for n in range(max(1, len(first)))]
        wanted = [i for i, c in enumerate(newest) if c in above or first <= c < last]
        assert found == [newest[i] for i in wanted]
        assert pairs.tree.n_levels == max(map(len, found)) + 1
        slots = np.concatenate([np.arange(*whole.ptr[i : i + 2]) for i in wanted])
        np.testing.assert_array_equal(pairs.target, whole.target[slots])
        np.testing.assert_array_equal(count, total[slots])


def test_an_error_of_the_disk_passes_the_kernel(monkeypatch):
    """The kernel asks for blocks in the midst of its work."""
    rng = np.random.default_rng(0)
    runs = CountRuns()
    for _ in range(2):
        runs.add(*count_tokens(random_tokens(rng, 50, 5, 9), 3, 7, 6, skip=6))
    monkeypatch.setattr(_runs, "_BLOCK", 64)
    read, calls = Spill.read_into, []

    def failing(self, at, data):
        calls.append(at)
        if len(calls) == 40:
            raise OSError("the disk has failed")
        read(self, at, data)

    monkeypatch.setattr(Spill, "read_into", failing)
    with pytest.raises(OSError, match="the disk has failed"):
        runs.finish()
    assert len(calls) == 40
