"""The library's own file of a back-off model: its arrays as they are, mapped.

    magic | version, length of the header, its hash | header (JSON) | arrays

Little-endian. The header lists the arrays (type, shape, place, hash), which begin at
multiples of 64 bytes, and the labels with the rule for words. Reading runs no code of
the file, and processes that map one file share its pages.
"""

from __future__ import annotations

import json
import mmap as _mmap
import struct
from collections.abc import Callable
from typing import Any

import numpy as np

from .._checks import check_byte_order, check_ids, check_length
from ..backoff import BackoffModel
from ..context_tree import ContextTree, Pairs
from ..symbols import Labels
from ..symbols._encoding import pack_strings, unpack_strings
from ._probing_fast import hash_bytes

MAGIC = b"sklstruct model\n"
_VERSION = 3
_HEAD = struct.Struct("<IQQ")  # version, length of the header, hash of it
_ALIGNED = 64
_TYPES = {"<i4", "<i8", "<f4", "<f8", "|u1"}


def write_native(
    model: BackoffModel, *, dtype: str = "float64"
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    check_byte_order("native files")
    if dtype not in ("float64", "float32"):
        raise ValueError(f"dtype must be 'float64' or 'float32', got {dtype!r}")
    tree, pairs, labels = model.tree, model.pairs, model.labels
    arrays = {
        "parent": tree.parent,
        "symbol": tree.symbol,
        "ptr": pairs.ptr,
        "target": pairs.target,
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
    kinds = {"classes": _put_labels("classes", labels.classes, arrays)}
    if labels.symbols is not None:
        kinds["symbols"] = _put_labels("symbols", labels.symbols, arrays)
    marks = {name: _plain_mark(name, labels) for name in ("start", "end", "unknown")}
    listed, at = {}, 0
    for name, array in arrays.items():
        array = arrays[name] = np.ascontiguousarray(array)
        listed[name] = [
            array.dtype.str,
            list(array.shape),
            at,
            hash_bytes(array.view(np.uint8)),
        ]
        at += array.nbytes + -array.nbytes % _ALIGNED
    header = json.dumps(
        {
            "arrays": listed,
            "labels": kinds,
            "marks": marks,
            "analyzer": labels.analyzer,
            "n_symbols": tree.n_symbols,
        }
    ).encode()
    head = MAGIC + _HEAD.pack(_VERSION, len(header), hash_bytes(header)) + header

    def store(file: Any) -> None:
        file.write(head + bytes(-len(head) % _ALIGNED))
        for array in arrays.values():
            file.write(array.data.cast("B") if array.size else b"")
            file.write(bytes(-array.nbytes % _ALIGNED))

    return store


def read_native(
    file: Any, label: str, *, mmap: bool = True, verify: bool = True
) -> BackoffModel:
    """See `sklstruct.exchange.read`."""
    check_byte_order("native files")
    data = _mapped(file) if mmap else None
    if data is None:
        data = file.read()
    try:
        return _model_of(memoryview(data), verify)
    except _WrongFile as exc:
        raise ValueError(f"{label}: {exc}") from exc
    except (ValueError, TypeError, KeyError, IndexError, OverflowError) as exc:
        raise ValueError(f"{label}: damaged: {exc}") from exc


class _WrongFile(ValueError):
    """An error whose message is complete, without "damaged:" before it."""


def _mapped(file: Any) -> Any:
    """The bytes of a plain file from its beginning, None if they cannot be mapped."""
    try:
        if file.tell() != 0:
            return None
        data = _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_READ)
    except (OSError, ValueError, AttributeError):
        return None
    # A compressed file does not begin with MAGIC; `file` decompresses it.
    return data if data[: len(MAGIC)] == MAGIC else None


def _model_of(data: memoryview, verify: bool) -> BackoffModel:
    first = len(MAGIC) + _HEAD.size
    if data[: len(MAGIC)] != MAGIC:
        raise _WrongFile("not a native file of sklstruct")
    if len(data) < first:
        raise _WrongFile("cut short within its header")
    version, size, hashed = _HEAD.unpack(data[len(MAGIC) : first])
    if version != _VERSION:
        remedy = "upgrade sklstruct" if version > _VERSION else "write it again"
        raise _WrongFile(
            f"a native file of version {version}, and this sklstruct reads version "
            f"{_VERSION}; {remedy}"
        )
    if size > len(data) - first:
        raise _WrongFile("cut short within its header")
    if hash_bytes(data[first : first + size]) != hashed:
        raise _WrongFile("damaged: the header has another hash")
    header = json.loads(bytes(data[first : first + size]))
    begin = first + size
    begin += -begin % _ALIGNED
    arrays = {
        name: _array(data[begin:], name, place, verify)
        for name, place in header["arrays"].items()
    }
    classes, symbols = (
        _labels_of(name, header["labels"], arrays) for name in ("classes", "symbols")
    )
    if classes is None:
        raise _WrongFile("damaged: the classes are missing")
    marks = {name: header["marks"][name] for name in ("start", "end", "unknown")}
    labels = Labels(classes, symbols, analyzer=header["analyzer"], **marks)
    parent, symbol, ptr, target = (
        arrays[name] for name in ("parent", "symbol", "ptr", "target")
    )
    # The constructors check every pointer and id: no query of a damaged file leaves
    # its arrays.
    pairs = Pairs(ContextTree(parent, symbol, header["n_symbols"]), ptr, target)
    model = BackoffModel(pairs, arrays["log_prob"], arrays["log_backoff"], labels)
    if "node_weight" in arrays:
        model.node_weight = arrays["node_weight"]
        if model.node_weight.shape != (model.n_nodes,):
            raise _WrongFile("damaged: node_weight is not one number a node")
    if "file_node" in arrays:
        node, log_prob = arrays["file_node"], arrays["file_log_prob"]
        check_length("file_log_prob", log_prob, node.size, "one per node")
        check_ids("file_node", node, 0, model.n_nodes, "node id")
        if not (np.diff(node) > 0).all() or not (log_prob <= 0).all():
            raise _WrongFile(
                "damaged: file_node does not rise, or file_log_prob is not at most 0"
            )
        model.file_ngrams = node, log_prob
    return model


def _array(data: memoryview, name: str, place: list[Any], verify: bool) -> np.ndarray:
    dtype, shape, at, hashed = place
    if dtype not in _TYPES or len(shape) != 1 or shape[0] < 0 or at < 0:
        raise _WrongFile(f"damaged: {name} is not an array of a known type")
    size = shape[0] * np.dtype(dtype).itemsize
    if at + size > len(data):
        raise _WrongFile(f"cut short: {name} ends behind the end of the file")
    part = data[at : at + size]
    if verify and hash_bytes(part) != hashed:
        raise _WrongFile(f"damaged: {name} has another hash")
    return np.frombuffer(part, dtype=dtype)


def _put_labels(name: str, labels: np.ndarray, arrays: dict) -> str:
    """Labels as numbers, or as text and the end of each; the name of their type."""
    values = labels.tolist()
    if labels.dtype.kind in "iu":
        arrays[name] = labels.astype(np.int64)
        return labels.dtype.str
    if not all(type(value) is str for value in values):
        wrong = next(value for value in values if type(value) is not str)
        raise ValueError(
            f"the label {wrong!r} is of type {type(wrong).__name__}: native files hold "
            "strings, or integers in an array of integers"
        )
    try:
        arrays[name], arrays[f"{name}_end"] = pack_strings(values)
    except UnicodeEncodeError as exc:
        raise ValueError(f"a label cannot be encoded as UTF-8: {exc}") from exc
    return "object" if labels.dtype == object else "str"


def _labels_of(name: str, kinds: dict, arrays: dict) -> np.ndarray | None:
    if name not in kinds:
        return None
    kind, data = kinds[name], arrays[name]
    if kind not in ("object", "str"):
        dtype = np.dtype(kind)
        if dtype.kind not in "iu":
            raise _WrongFile(f"damaged: {name} are of type {kind}")
        return data.astype(dtype)
    out = unpack_strings(name, (data, arrays[f"{name}_end"]))
    return out if kind == "object" else out.astype(np.str_)


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
