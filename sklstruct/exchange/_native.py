"""Native files: the memory-mapped arrays of a back-off model.

The container is that of `_container`. Its header has the labels too, with the rule for
words.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import check_choice, check_ids, check_length
from ..backoff import BackoffModel
from ..context_tree import ContextTree, Pairs
from ..symbols import Labels, Strings, StringTable
from ._container import Container, WrongFile, labels_of, put_labels

# Arrays of the table of the words.
_TABLE = ("text", "ends", "hashes", "slots")

NATIVE = Container(b"sklstruct model\n", 5, "a native file")


def write_native(
    model: BackoffModel, *, dtype: str = "float64"
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    check_choice("dtype", dtype, ("float64", "float32"))
    tree, pairs = model.tree, model.pairs
    arrays = {
        "parent": tree.parent,
        "symbol": tree.symbol,
        "ptr": pairs.ptr,
        "target": pairs.target,
        "child_ptr": tree.child_ptr,
        "log_prob": model.log_prob.astype(dtype),
        "log_backoff": model.log_backoff.astype(dtype),
    }
    if model.node_weight is not None:
        arrays["node_weight"] = np.asarray(model.node_weight, dtype=np.float64)
    if model.file_ngrams is not None:
        arrays["file_node"], arrays["file_log_prob"] = (
            np.asarray(numbers, dtype=kind)
            for numbers, kind in zip(model.file_ngrams, (np.int32, np.float64))
        )
    header, of_labels = header_of_labels(model.labels, tree.n_symbols)
    return NATIVE.writer(header, arrays | of_labels)


def header_of_labels(
    labels: Labels, n_symbols: int
) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """(header, arrays) of the labels of a file."""
    arrays: dict[str, np.ndarray] = {}
    kinds: dict[str, Any] = {}
    if (strings := labels.strings) is not None:
        table = strings.table
        try:
            table.text.tobytes().decode()
        except UnicodeDecodeError as exc:
            at = int(np.searchsorted(table.ends, exc.start, side="right"))
            label = table.strings([at])[0]
            raise ValueError(f"symbol {label!r} cannot be encoded as UTF-8") from exc
        kinds = {"n_symbols": strings.n_symbols, "seed": table.seed}
        arrays |= {name: getattr(table, name) for name in _TABLE}
        arrays["token_of_class"] = strings.token_of_class
    else:
        kinds["classes"] = put_labels("classes", labels.classes, arrays)
        if labels.symbols is not None:
            kinds["symbols"] = put_labels("symbols", labels.symbols, arrays)
    marks = {name: _plain_mark(name, labels) for name in ("start", "end", "unknown")}
    header = {
        "labels": kinds,
        "marks": marks,
        "analyzer": labels.analyzer,
        "n_symbols": n_symbols,
    }
    return header, arrays


def read_native(
    file: Any, label: str, *, mmap: bool = True, verify: bool = True
) -> BackoffModel:
    """See `sklstruct.exchange.read`."""
    return NATIVE.read(file, label, _model_of, mmap=mmap, verify=verify, reopen=_reopen)


def _reopen(path: str) -> BackoffModel:
    with open(path, "rb") as file:
        return read_native(file, path)


def _model_of(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> BackoffModel:
    labels = _labels_of(header, arrays)
    # The constructors check every pointer and id: no query of a damaged file leaves
    # its arrays.
    tree = ContextTree(arrays["parent"], arrays["symbol"], header["n_symbols"])
    take_children(tree, arrays["child_ptr"])
    pairs = Pairs(tree, arrays["ptr"], arrays["target"])
    model = BackoffModel(pairs, arrays["log_prob"], arrays["log_backoff"], labels)
    if "node_weight" in arrays:
        model.node_weight = arrays["node_weight"]
        check_length("node_weight", model.node_weight, model.n_nodes, "one per node")
    if "file_node" in arrays:
        node, log_prob = arrays["file_node"], arrays["file_log_prob"]
        check_length("file_log_prob", log_prob, node.size, "one per node")
        check_ids("file_node", node, 0, model.n_nodes, "node id")
        if not (np.diff(node) > 0).all() or not (log_prob <= 0).all():
            raise WrongFile(
                "damaged: file_node does not rise, or file_log_prob is not at most 0"
            )
        model.file_ngrams = node, log_prob
    return model


def _labels_of(header: dict[str, Any], arrays: dict[str, np.ndarray]) -> Labels:
    kinds = header["labels"]
    marks = {name: header["marks"][name] for name in ("start", "end", "unknown")}
    marks["analyzer"] = header["analyzer"]
    if "seed" in kinds:
        parts = [arrays[name] for name in _TABLE]
        table = StringTable(*parts, kinds["seed"], strict=True)
        strings = Strings(table, arrays["token_of_class"], kinds["n_symbols"])
        return Labels(strings, **marks)
    if "classes" not in kinds:
        raise WrongFile("damaged: the classes are missing")
    classes, symbols = labels_of("classes", kinds["classes"], arrays), None
    if "symbols" in kinds:
        symbols = labels_of("symbols", kinds["symbols"], arrays)
    return Labels(classes, symbols, **marks)


def take_children(tree: ContextTree, child_ptr: np.ndarray) -> None:
    """Give a tree the `child_ptr` of a file, where its pages are shared.

    ValueError if an entry is not that of the tree.
    """
    check_length("child_ptr", child_ptr, tree.n_nodes + 1, "one per node, and 1")
    if not np.array_equal(tree.child_ptr, child_ptr):
        raise ValueError("child_ptr is not that of the tree")
    vars(tree)["child_ptr"] = child_ptr


def _plain_mark(name: str, labels: Labels) -> str | int | None:
    mark = getattr(labels, name)
    if mark is None or type(mark) in (str, int):
        return mark
    if isinstance(mark, np.integer):
        return int(mark)
    raise ValueError(
        f"{name}={mark!r} is of type {type(mark).__name__}: native files hold strings "
        "and integers"
    )
