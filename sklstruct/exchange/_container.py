"""A memory-mapped file of named arrays with a header: the container of native files.

    magic | version, length of the header, its hash | header (JSON) | arrays

Little-endian. The header lists the arrays (type, shape, offset, hash), which begin at
multiples of 64 bytes. Reading does not execute code from the file, and processes that
map the same file share its pages.
"""

from __future__ import annotations

import json
import mmap as _mmap
import struct
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._checks import check_byte_order
from .._files import MappedFile
from ..symbols._encoding import pack_strings, unpack_strings
from ._probing_fast import hash_bytes

HEAD = struct.Struct("<IQQ")  # version, length of the header, hash of it
_ALIGNED = 64
# Bytes of an array that are hashed at once.
BLOCK = 1 << 24
_TYPES = {"|u1", "|i1", "<u2", "<u4", "<u8", "<i4", "<i8", "<f4", "<f8"}


class WrongFile(ValueError):
    """An error whose message is complete, without "damaged:" before it."""


class Container(NamedTuple):
    """A kind of file: its first bytes, its version, and its name in messages."""

    magic: bytes
    version: int
    what: str

    def writer(
        self, header: dict[str, Any], arrays: dict[str, np.ndarray]
    ) -> Callable[[Any], None]:
        """A function that writes one-dimensional arrays and a header to a file."""
        kept = {name: np.ascontiguousarray(array) for name, array in arrays.items()}
        sizes = {name: (array.dtype, array.size) for name, array in kept.items()}
        layout = ArrayLayout(self, header, sizes)
        head = layout.head(
            {n: hash_of([hash_bytes(b) for b in blocks(a)]) for n, a in kept.items()}
        )

        def store(file: Any) -> None:
            file.write(head)
            for array in kept.values():
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
        reopen: Callable[[str], Any] | None = None,
    ) -> Any:
        """make(header, arrays) of a file; ValueError, with the label, if damaged.

        The constructors that `make` calls must check every pointer and id. With
        `reopen`, a function that reads a path, an object of a mapped file has the
        `MappedFile` as its attribute `mapped_file`.
        """
        check_byte_order("files of arrays")
        mapped = self._mapped(file) if mmap else None
        data = file.read() if mapped is None else mapped
        try:
            made = make(*self._parts(memoryview(data), verify))
            if mapped is not None and reopen is not None:
                head = data[: len(self.magic) + HEAD.size]
                made.mapped_file = MappedFile.of(reopen, file, label, head)
            return made
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
            pickled = bytes(data[:1]) == b"\x80"
            remedy = "; a pickle is read with joblib.load" if pickled else ""
            raise WrongFile(f"not {self.what} of sklstruct{remedy}")
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


class ArrayLayout:
    """The offsets of arrays in a file; the contents need not be known yet.

    arrays: type and number of entries of each array. header: contents besides the
    arrays. `begin` is the first byte of each array, and `size` the number of bytes of
    the file.
    """

    def __init__(
        self,
        container: Container,
        header: dict[str, Any],
        arrays: dict[str, tuple[Any, int]],
    ) -> None:
        check_byte_order("files of arrays")
        self._container, self._header = container, header
        self._listed: dict[str, list] = {}
        at = 0
        for name, (kind, size) in arrays.items():
            kind = np.dtype(kind)
            self._listed[name] = [kind.str, [size], at]
            at += size * kind.itemsize
            at += -at % _ALIGNED
        first = len(self.head(dict.fromkeys(arrays, 0)))
        self.begin = {name: first + place[2] for name, place in self._listed.items()}
        self.size = first + at

    def blocks(self) -> list[tuple[str, int, int]]:
        """(array, first byte, size) of every block whose hash the header needs."""
        out = []
        for name, (kind, [n], _) in self._listed.items():
            begin, size = self.begin[name], n * np.dtype(kind).itemsize
            out += [
                (name, begin + at, min(BLOCK, size - at))
                for at in range(0, size, BLOCK)
            ]
        return out

    def head(self, hashes: dict[str, int]) -> bytes:
        """The bytes before the arrays, whose number does not depend on the hashes."""
        listed = {
            name: [*place, _hex(hashes[name])] for name, place in self._listed.items()
        }
        text = json.dumps({"arrays": listed, **self._header}).encode()
        head = HEAD.pack(self._container.version, len(text), hash_bytes(text))
        head = self._container.magic + head + text
        return head + bytes(-len(head) % _ALIGNED)


def blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """The bytes of an array, in the blocks whose hashes make its hash."""
    data = array.view(np.uint8)
    for at in range(0, data.size, BLOCK):
        yield data[at : at + BLOCK]


def hash_of(hashes: list[int]) -> int:
    """The hash of an array from the hashes of its blocks, computed by many
    processes."""
    return hash_bytes(np.array(hashes, dtype=np.uint64).view(np.uint8))


def _hex(number: int) -> str:
    return f"{number:016x}"


def _array(data: memoryview, name: str, place: list[Any], verify: bool) -> np.ndarray:
    dtype, shape, at, hashed = place
    if dtype not in _TYPES or len(shape) != 1 or shape[0] < 0 or at < 0:
        raise WrongFile(f"damaged: {name} is not an array of a known type")
    size = shape[0] * np.dtype(dtype).itemsize
    if at + size > len(data):
        raise WrongFile(f"cut short: {name} ends behind the end of the file")
    array = np.frombuffer(data[at : at + size], dtype=dtype)
    if verify and _hex(hash_of([hash_bytes(b) for b in blocks(array)])) != hashed:
        raise WrongFile(f"damaged: {name} has another hash")
    return array


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
