"""A file of named arrays with a header, mapped: the container of the library's models.

    magic | version, length of the header, its hash | header (JSON) | arrays

Little-endian. The header lists the arrays (type, shape, place, hash), which begin at
multiples of 64 bytes. Reading runs no code of the file, and processes that map one file
share its pages.
"""

from __future__ import annotations

import json
import mmap as _mmap
import struct
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_byte_order
from ..symbols._encoding import pack_strings, unpack_strings
from ._probing_fast import hash_bytes

HEAD = struct.Struct("<IQQ")  # version, length of the header, hash of it
_ALIGNED = 64
_TYPES = {"|u1", "|i1", "<u2", "<u4", "<i4", "<i8", "<f4", "<f8"}


class WrongFile(ValueError):
    """An error whose message is complete, without "damaged:" before it."""


class Container(NamedTuple):
    """A kind of file: its first bytes, its version, and what messages call it."""

    magic: bytes
    version: int
    what: str

    def writer(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> Callable[[Any], None]:
        """A function that writes one-dimensional arrays and a header to a file."""
        check_byte_order("files of arrays")
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
        text = json.dumps({"arrays": listed, **header}).encode()
        head = HEAD.pack(self.version, len(text), hash_bytes(text))
        head = self.magic + head + text

        def store(file: Any) -> None:
            file.write(head + bytes(-len(head) % _ALIGNED))
            for array in arrays.values():
                file.write(array.data.cast("B") if array.size else b"")
                file.write(bytes(-array.nbytes % _ALIGNED))

        return store

    def read(
        self,
        file: Any,
        label: str,
        make: Callable[[dict[str, Any], dict[str, np.ndarray]], Any],
        *,
        mmap: bool = True,
        verify: bool = True,
    ) -> Any:
        """make(header, arrays) of a file; ValueError, with the label, if damaged.

        The constructors that `make` calls must check every pointer and id.
        """
        check_byte_order("files of arrays")
        data = self._mapped(file) if mmap else None
        if data is None:
            data = file.read()
        try:
            return make(*self._parts(memoryview(data), verify))
        except WrongFile as exc:
            raise ValueError(f"{label}: {exc}") from exc
        except (ValueError, TypeError, KeyError, IndexError, OverflowError) as exc:
            raise ValueError(f"{label}: damaged: {exc}") from exc

    def _mapped(self, file: Any) -> Any:
        """The bytes of a plain file from its beginning, None if it cannot be mapped."""
        try:
            if file.tell() != 0:
                return None
            data = _mmap.mmap(file.fileno(), 0, access=_mmap.ACCESS_READ)
        except (OSError, ValueError, AttributeError):
            return None
        # A compressed file does not begin with the magic; `file` decompresses it.
        return data if data[: len(self.magic)] == self.magic else None

    def _parts(
        self, data: memoryview, verify: bool
    ) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        first = len(self.magic) + HEAD.size
        if data[: len(self.magic)] != self.magic:
            raise WrongFile(f"not {self.what} of sklstruct")
        if len(data) < first:
            raise WrongFile("cut short within its header")
        version, size, hashed = HEAD.unpack(data[len(self.magic) : first])
        if version != self.version:
            remedy = "upgrade sklstruct" if version > self.version else "write it again"
            raise WrongFile(
                f"{self.what} of version {version}, and this sklstruct reads version "
                f"{self.version}; {remedy}"
            )
        if size > len(data) - first:
            raise WrongFile("cut short within its header")
        if hash_bytes(data[first : first + size]) != hashed:
            raise WrongFile("damaged: the header has another hash")
        header = json.loads(bytes(data[first : first + size]))
        begin = first + size
        begin += -begin % _ALIGNED
        arrays = {
            name: _array(data[begin:], name, place, verify)
            for name, place in header.pop("arrays").items()
        }
        return header, arrays


def _array(data: memoryview, name: str, place: list[Any], verify: bool) -> np.ndarray:
    dtype, shape, at, hashed = place
    if dtype not in _TYPES or len(shape) != 1 or shape[0] < 0 or at < 0:
        raise WrongFile(f"damaged: {name} is not an array of a known type")
    size = shape[0] * np.dtype(dtype).itemsize
    if at + size > len(data):
        raise WrongFile(f"cut short: {name} ends behind the end of the file")
    part = data[at : at + size]
    if verify and hash_bytes(part) != hashed:
        raise WrongFile(f"damaged: {name} has another hash")
    return np.frombuffer(part, dtype=dtype)


def put_labels(
    name: str, labels: np.ndarray, arrays: dict, errors: str = "strict"
) -> str:
    """Labels as numbers, or as text and the end of each; the name of their type."""
    values = labels.tolist()
    if labels.dtype.kind in "iu":
        arrays[name] = labels.astype(np.int64)
        return labels.dtype.str
    if not all(isinstance(value, str) for value in values):
        wrong = next(value for value in values if not isinstance(value, str))
        raise ValueError(
            f"the label {wrong!r} is of type {type(wrong).__name__}: native files hold "
            "strings, or integers in an array of integers"
        )
    try:
        arrays[name], arrays[f"{name}_end"] = pack_strings(values, errors)
    except UnicodeEncodeError as exc:
        raise ValueError(f"a label cannot be encoded as UTF-8: {exc}") from exc
    return "object" if labels.dtype == object else "str"


def labels_of(name: str, kind: str, arrays: dict, errors: str = "strict") -> np.ndarray:
    """The labels of `put_labels`."""
    data = arrays[name]
    if kind not in ("object", "str"):
        dtype = np.dtype(kind)
        if dtype.kind not in "iu":
            raise WrongFile(f"damaged: {name} are of type {kind}")
        return data.astype(dtype)
    out = unpack_strings(name, (data, arrays[f"{name}_end"]), errors)
    return out if kind == "object" else out.astype(np.str_)
