"""A native file from the shards of a model: each writes its part of every array.

The contexts of a shard are one range of nodes, and of pairs, on every level. So the
offsets of a shard in the file follow from the sizes of all shards, and the shards write
in parallel. The hash of an array is the hash of the hashes of its blocks, which the
shards compute in parallel.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_choice
from .._files import open_there
from ..context_tree import Pairs
from ..context_tree._shards import LevelSlices, ShardPlaces, level_sizes
from ..symbols import Labels, need_symbols
from ._container import ArrayLayout
from ._native import NATIVE, header_of_labels
from ._probing_fast import hash_bytes


class NativeShard(NamedTuple):
    """The part of one shard. Its methods are the steps of writing the file."""

    plan: NativePlan
    shard: int
    pairs: Pairs
    log_prob: np.ndarray
    log_backoff: np.ndarray

    def sizes(self) -> tuple[list[int], list[int]]:
        """(nodes, pairs) of each level."""
        return level_sizes(self.pairs)

    def put(self, path: str, places: ShardPlaces, begin: dict[str, int]) -> None:
        """Write the arrays; begin: the first byte of each array of the file."""
        with open_there(path) as file:
            for place in places.ranges(self.shard, self.pairs):
                for name, into, part in self._arrays(place):
                    file.seek(begin[name] + into.start * part.itemsize)
                    file.write(part.data.cast("B") if part.size else b"")

    def _arrays(self, place: LevelSlices) -> Iterator[tuple[str, slice, np.ndarray]]:
        yield from place.arrays(self.pairs)
        child_ptr = self.pairs.tree.child_ptr[place.nodes] + np.int32(place.down)
        yield "child_ptr", place.nodes_into, child_ptr
        log_prob = self.log_prob[place.pairs].astype(self.plan.dtype)
        yield "log_prob", place.pairs_into, log_prob
        log_backoff = self.log_backoff[place.nodes].astype(self.plan.dtype)
        yield "log_backoff", place.nodes_into, log_backoff


class NativePlan:
    """The data that all shards need to write a file; `dtype` is as in `write`."""

    shard = NativeShard

    def __init__(self, labels: Labels, dtype: str = "float64") -> None:
        check_choice("dtype", dtype, ("float64", "float32"))
        self.dtype = dtype
        n_symbols = need_symbols(labels, "a native file")
        self._header, self._arrays = header_of_labels(labels, n_symbols)

    def __getstate__(self) -> dict[str, Any]:
        return {"dtype": self.dtype}  # all that a shard needs

    def layout(self, places: ShardPlaces) -> ArrayLayout:
        """The places of the arrays."""
        arrays: dict[str, tuple[Any, int]] = {
            name: (np.int32, size) for name, size in places.array_sizes().items()
        }
        arrays["child_ptr"] = arrays["ptr"]
        arrays["log_prob"] = self.dtype, places.n_pairs
        arrays["log_backoff"] = self.dtype, places.n_nodes
        for name, array in self._arrays.items():
            arrays[name] = array.dtype, array.size
        return ArrayLayout(NATIVE, self._header, arrays)

    def begin(self, file: Any, layout: ArrayLayout, places: ShardPlaces) -> None:
        """Write the entries that no shard has."""
        file.truncate(layout.size)
        for name, size in (("child_ptr", places.n_nodes), ("ptr", places.n_pairs)):
            end = np.array([size], dtype=np.int32)
            file.seek(layout.begin[name] + places.n_nodes * end.itemsize)
            file.write(end.tobytes())
        for name, array in self._arrays.items():
            file.seek(layout.begin[name])
            file.write(array.tobytes())

    def hashes(
        self, shard: int, path: str, blocks: list[tuple], n_shards: int
    ) -> list[int]:
        """The hashes of the blocks whose number modulo n_shards is the shard's."""
        out = []
        with open(path, "rb") as file:
            for _, at, size in blocks[shard::n_shards]:
                file.seek(at)
                out.append(hash_bytes(file.read(size)))
        return out
