"""Files that the shards of a model write together.

The model does not pass through the client, which makes an empty file and a folder
beside it that all workers see. The shards go through the steps of `ArpaShard`,
`KenlmShard` or `NativeShard`, all at once, and exchange what they need by files in that
folder. A step depends on the model, its arguments and these files alone, so that a
restored shard repeats the step in which it was lost and no other. In the end the client
writes the few bytes that two parts of a KenLM binary share.
"""

from __future__ import annotations

import io
import os
import pickle
import shutil
from collections.abc import Callable
from functools import partial
from itertools import chain
from typing import Any

from .._files import check_path, compression_of, packing, write_aside
from ..context_tree._shards import ShardPlaces
from ..exchange import format_to_write
from ..exchange._arpa_shards import ArpaPlan
from ..exchange._arpa_write import END, header, section_header
from ..exchange._container import hash_of
from ..exchange._kenlm import check_multiplier, check_packing
from ..exchange._kenlm_shards import KenlmPlan
from ..exchange._native_shards import NativePlan
from ..exchange._probing import ProbingFile
from ..exchange._trie import TrieFile
from ..symbols import Labels
from ._driver import ShardDriver
from ._tasks import PLAN

# Called with the name of a step and its arguments: the results of all shards.
Ask = Callable[..., list]


def save_shards(
    driver: ShardDriver,
    labels: Labels,
    path: Any,
    format: str | None,
    **options: Any,
) -> None:
    """Write the model of the shards, whose fits have ended, to a file."""
    path = check_path(
        path, "path", "a path while the model is on workers (or call compute() before)"
    )
    format = format_to_write(path, format, "path")
    if os.path.exists(path) and not os.path.isfile(path):
        raise ValueError(
            f"path={path!r} must be a regular file: all shards write to it"
        )
    if format != "arpa" and compression_of(path, "path") is not None:
        raise ValueError(
            f"path={path!r}: the shards write such a file in parts at their places, "
            "which a compressed file does not have; leave the suffix out"
        )
    if format == "native":
        plan: Any = NativePlan(labels, **options)
        save: Callable = save_native
    elif format == "att":
        raise ValueError(
            "format must not be 'att' while the model is on workers; save a native "
            "file, and LanguageModel.load(file) writes it"
        )
    else:
        facts = labels, driver.bounds, max(driver.ask_all("n_levels"))
        if format == "arpa":
            plan, save = ArpaPlan(*facts, path, **options), save_arpa
        else:
            kind: tuple = (
                (TrieFile, check_packing(**options))
                if format == "trie"
                else (ProbingFile, check_multiplier(**options))
            )
            plan, save = KenlmPlan(*facts, *kind), save_kenlm
    with write_aside(path) as file:
        folder = f"{file.name}.parts"
        os.mkdir(folder)
        try:
            with open(os.path.join(folder, PLAN), "wb") as out:
                pickle.dump(plan, out, protocol=5)
            save(partial(driver.ask_all, "write", folder), plan, folder, file)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


def save_native(ask: Ask, plan: NativePlan, folder: str, file: Any) -> None:
    """Let the shards write their parts of the arrays, and hash them."""
    sizes = ask("sizes")
    places, n_shards = ShardPlaces(sizes), len(sizes)
    layout = plan.layout(places)
    plan.begin(file, layout, places)
    file.flush()
    ask("put", file.name, places, layout.begin)
    blocks = layout.blocks()
    found = ask("hashes", file.name, blocks, n_shards)
    hashes: dict[str, list[int]] = {name: [] for name in layout.begin}
    for i, (name, _, _) in enumerate(blocks):
        hashes[name].append(found[i % n_shards][i // n_shards])
    file.seek(0)
    file.write(layout.head({name: hash_of(some) for name, some in hashes.items()}))


def save_arpa(ask: Ask, plan: ArpaPlan, folder: str, file: Any) -> None:
    """Let the shards make their lines, and copy them to their places."""
    n_lines, listed = zip(*ask("give", folder))
    sizes = ask("write", folder)

    def put(text: bytes) -> None:
        packed = io.BytesIO()
        with packing(packed, plan.path) as out:
            out.write(text)
        file.write(packed.getvalue())

    places: list[list[int]] = [[] for _ in sizes]

    def leave(section: int) -> None:
        for mine, size in zip(places, sizes):
            mine.append(file.tell())
            file.seek(size[section], os.SEEK_CUR)

    put(header(plan.counts(n_lines, listed)))
    for order in range(1, plan.order + 1):
        put(section_header(order))
        leave(0 if order == 1 else order)
        if order == 1:
            leave(1)
            put(plan.lines(plan.marks(listed)))
        put(b"\n")
    put(END)
    file.flush()
    ask("put", folder, file.name, places, sizes)


def save_kenlm(ask: Ask, plan: KenlmPlan, folder: str, file: Any) -> None:
    """Let the shards give their n-grams to the parts of tables, and fill these."""
    n_rows, listed = zip(*ask("give", folder))
    facts = plan.counts(n_rows, listed), ask("sample")
    written = plan.file(facts)
    written.begin(file, plan.ids.spelling(plan.words))
    file.flush()
    ask("write", folder, file.name, facts, plan.marks(listed))
    ask("on_file", "values", folder, file.name, facts)
    left = ask("on_file", "fill", folder, file.name, facts)
    written.finish(file, chain.from_iterable(left))
