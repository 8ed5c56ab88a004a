"""Model files of CRFsuite: the weights of a first-order chain.

Integers are 32 bits, unsigned, little-endian; weights are IEEE doubles. Offsets in the
header and in the chunks of references are relative to the start of the file, offsets in
a dictionary to the start of the dictionary:

- header: "lCRF", size of the file, "FOMC", version 100, a 0 (CRFsuite never fills in
  the number of features), numbers of labels and attributes, offsets of the five parts;
- "FEAT": the features: 0 and attribute, or 1 and label; the next label; the weight;
- "CQDB", of labels and of attributes: strings by number, and numbers by hash;
- "LFRF" and "AFRF": for each label, or attribute, the numbers of its features.

The sizes in a file are compared with the size of the file before memory is allocated.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from .._files import open_read

_WORD = np.dtype("<u4")
_FEATURE = np.dtype(
    [("type", "<u4"), ("source", "<u4"), ("target", "<u4"), ("weight", "<f8")]
)
_MAGIC = b"lCRF"
_HEADER, _CHUNK, _VERSION, _BYTE_ORDER = 48, 12, 100, 0x62445371
_TABLES = 256
_RECORDS = 24 + 8 * _TABLES  # start of the first record of a dictionary
_DEFAULT_HASH = 0xDEADBEEF
# Largest number of weights of a model: _FEW, plus _PER_BYTE per byte of the file. An
# attribute takes at least 37 bytes, so a model with up to 592 labels is always read.
_FEW, _PER_BYTE = 2**20, 16


class ChainWeights(NamedTuple):
    """Weights of a chain, with the names of labels and attributes."""

    labels: list[str]
    attributes: list[str]
    state: np.ndarray  # (n_attributes, n_labels)
    transition: np.ndarray  # (n_labels, n_labels), the earlier label first


# ---------------------------------------------------------------------------- reading


def read_file(path_or_file: Any, name: str) -> tuple[ChainWeights, bytes]:
    """The weights in a file, and its content.

    name: name of the parameter in error messages
    """
    with open_read(path_or_file, name=name, what="the file") as (file, label):
        try:
            data = file.read(_HEADER)
            # Checked first, so that a large file of another type is not read.
            size = _header(data)[1]
            data += file.read(max(size - _HEADER, 0))
            return read_model(data), data
        except ValueError as exc:
            raise ValueError(f"{name}={label!r}: {exc}") from exc


def _header(data: bytes) -> list[int]:
    """The numbers of the header; ValueError if `data` is of another type."""
    if data[:4] != _MAGIC:
        raise ValueError("the file does not begin with b'lCRF', as models of CRFsuite")
    head = _words(data, 0, _HEADER // 4, "the header").tolist()
    if data[8:12] != b"FOMC" or head[3] != _VERSION:
        raise ValueError(
            f"the header has the type {data[8:12]!r} and version {head[3]}; only "
            f"b'FOMC' and {_VERSION} can be read"
        )
    return head


def read_model(data: bytes) -> ChainWeights:
    """The weights in a file; the ValueError for a damaged file names the place."""
    head = _header(data)
    if head[1] > len(data):
        raise ValueError(f"the file is cut: it has {len(data)} of {head[1]} bytes")
    n_labels, n_attributes = head[5:7]
    features_at, labels_at, attributes_at, of_labels_at, of_attributes_at = head[7:]
    labels = _read_strings(data, labels_at, n_labels, "label")
    attributes = _read_strings(data, attributes_at, n_attributes, "attribute")
    if not labels:
        raise ValueError("the model has no labels: CRFsuite was trained on nothing")
    n_weights = n_labels * (n_attributes + n_labels)
    if n_weights > _FEW + _PER_BYTE * len(data):
        raise ValueError(
            f"{n_labels} labels and {n_attributes} attributes have {n_weights} "
            f"weights, too many for a file of {len(data)} bytes"
        )
    size, n = _chunk(data, features_at, b"FEAT", "the features")
    if _CHUNK + n * _FEATURE.itemsize > size:
        raise ValueError(f"the features: {n} do not fit into {size} bytes")
    features = np.frombuffer(data, _FEATURE, n, features_at + _CHUNK)
    wrong = (features["target"] >= n_labels) | ~np.isfinite(features["weight"])
    if wrong.any():
        raise ValueError(
            f"the features: number {wrong.argmax()} has an unknown label, or a weight "
            "that is NaN or infinite"
        )
    transition = np.zeros((n_labels, n_labels))
    owner, chosen = _read_references(data, of_labels_at, b"LFRF", n_labels, features)
    # CRFsuite uses the last of several weights of a pair of labels
    transition[owner, chosen["target"]] = chosen["weight"]
    owner, chosen = _read_references(
        data, of_attributes_at, b"AFRF", n_attributes, features
    )
    # and sums several weights of an attribute and a label
    total = np.bincount(
        owner * n_labels + chosen["target"], chosen["weight"], n_attributes * n_labels
    )
    # without a feature `bincount` counts integers
    state = total.astype(np.float64, copy=False).reshape(n_attributes, n_labels)
    return ChainWeights(labels, attributes, state, transition)


def read_header(data: bytes) -> dict[str, str]:
    """The fields of the header of a file that `read_model` reads, as texts."""
    numbers = np.frombuffer(data, _WORD, _HEADER // 4).tolist()
    names = ("features", "labels", "attrs", "labelrefs", "attrrefs")
    return {
        "magic": "lCRF",
        "size": str(numbers[1]),
        "type": "FOMC",
        "version": str(numbers[3]),
        "num_features": str(numbers[4]),
        "num_labels": str(numbers[5]),
        "num_attrs": str(numbers[6]),
        **{f"off_{name}": f"0x{at:X}" for name, at in zip(names, numbers[7:])},
    }


def _words(data: bytes, start: int, n: int, place: str) -> np.ndarray:
    _inside(data, start, 4 * n, place)
    return np.frombuffer(data, _WORD, n, start)


def _inside(data: bytes, start: int, size: int, place: str) -> None:
    if start + size > len(data):
        raise ValueError(
            f"{place}: bytes {start} to {start + size} are not in the file, which has "
            f"{len(data)}"
        )


def _chunk(data: bytes, start: int, mark: bytes, place: str) -> tuple[int, int]:
    """(bytes, number of entries) of a chunk."""
    size, n = _words(data, start, 3, place)[1:].tolist()
    if data[start : start + 4] != mark:
        raise ValueError(f"{place}: byte {start} does not begin with {mark!r}")
    _inside(data, start, size, place)
    return size, n


def _read_strings(data: bytes, start: int, n: int, what: str) -> list[str]:
    """The strings of a dictionary, by number."""
    place = f"the dictionary of {what}s"
    _inside(data, start, _RECORDS, place)
    size, _, order, stored, back = _words(data, start + 4, 5, place).tolist()
    if data[start : start + 4] != b"CQDB" or order != _BYTE_ORDER:
        raise ValueError(f"{place}: byte {start} does not begin with the mark b'CQDB'")
    _inside(data, start, size, place)
    if n == 0:
        return []
    if stored < n or back + 4 * n > size:
        raise ValueError(f"{place}: has {stored} strings, the header says {n}")
    offset = _words(data, start + back, n, place).astype(np.int64)
    wrong = (offset < _RECORDS) | (offset + 8 > size)
    raw = np.frombuffer(data, np.uint8, size, start)
    if not wrong.any():
        record = raw[offset[:, None] + np.arange(8)].view(_WORD).astype(np.int64)
        end = offset + 8 + record[:, 1]
        wrong = (record[:, 0] != np.arange(n)) | (record[:, 1] < 1) | (end > size)
        wrong[~wrong] = raw[end[~wrong] - 1] != 0
    if wrong.any():
        raise ValueError(f"{place}: the record of {what} {wrong.argmax()} is damaged")
    if record[:, 1].sum() > size:  # otherwise short files would give long strings
        raise ValueError(f"{place}: its records overlap")
    found = []
    for a, b in zip((start + offset + 8).tolist(), (start + end - 1).tolist()):
        # CRFsuite reads to the first zero byte; strings may be any bytes
        found.append(data[a:b].partition(b"\0")[0].decode("utf-8", "surrogateescape"))
    if len(set(found)) < n:
        raise ValueError(f"{place}: two {what}s are equal")
    return found


def _read_references(
    data: bytes, start: int, mark: bytes, n: int, features: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(owner, feature) of the concatenated lists of n owners."""
    place = f"the references {mark!r}"
    size, stored = _chunk(data, start, mark, place)
    first = _CHUNK // 4 + stored
    words = _words(data, start, size // 4, place)
    if stored < n or first > words.size:
        raise ValueError(f"{place}: {stored} lists in {size} bytes, {n} are needed")
    at = words[_CHUNK // 4 :][:n].astype(np.int64) - start
    wrong = (at < 4 * first) | (at % 4 != 0) | (at >= 4 * words.size)
    at //= 4
    if not wrong.any():
        count = words[at].astype(np.int64)
        wrong = at + 1 + count > words.size
    if wrong.any():
        raise ValueError(f"{place}: list {wrong.argmax()} is not in the chunk")
    if count.sum() > words.size:
        raise ValueError(f"{place}: its lists overlap")
    owner = np.repeat(np.arange(n), count)
    before = np.concatenate([[0], np.cumsum(count)])
    ids = words[np.arange(before[-1]) + (at + 1 - before[:-1])[owner]]
    if ids.size and ids.max() >= features.size:
        raise ValueError(f"{place}: feature {ids.max()} is not in the file")
    return owner, features[ids]


# ---------------------------------------------------------------------------- writing


def model_bytes(model: ChainWeights) -> bytes:
    """The file of a model. As in CRFsuite, weights of 0 are left out."""
    used = model.state.any(axis=1)
    state, transition = model.state[used], model.transition
    labels = _encoded(model.labels, "label")
    attributes = _encoded(model.attributes, "attribute")
    attributes = [attributes[i] for i in np.flatnonzero(used)]
    features = np.concatenate([_features(0, state), _features(1, transition)])
    out = bytearray(_HEADER)
    starts = [len(out)]
    out += b"FEAT" + _packed(_CHUNK + features.nbytes, features.size)
    out += features.tobytes()
    for strings in (labels, attributes):
        starts.append(len(out))
        out += _dictionary(strings)
    out += bytes(-len(out) % 4)
    n_state = int(np.count_nonzero(state))
    # CRFsuite has two further lists of labels, for the ends, which are not used
    for mark, table, first, more in (
        (b"LFRF", transition, n_state, 2),
        (b"AFRF", state, 0, 0),
    ):
        starts.append(len(out))
        out += _references(mark, len(out), np.count_nonzero(table, axis=1), first, more)
    if len(out) >= 2**32:
        raise ValueError("the file would have 4 GiB or more, the format has 32 bits")
    numbers = _packed(_VERSION, 0, len(labels), len(attributes), *starts)
    out[:_HEADER] = _MAGIC + _packed(len(out)) + b"FOMC" + numbers
    return bytes(out)


def _packed(*numbers: int) -> bytes:
    return b"".join(number.to_bytes(4, "little") for number in numbers)


def _encoded(names: list[str], what: str) -> list[bytes]:
    for name in names:
        if not isinstance(name, str) or "\0" in name:
            raise ValueError(
                f"the {what} {name!r} cannot be written: a CRFsuite model has strings "
                "without null characters"
            )
    return [name.encode("utf-8", "surrogateescape") for name in names]


def _features(kind: int, table: np.ndarray) -> np.ndarray:
    source, target = np.nonzero(table)
    features = np.empty(source.size, dtype=_FEATURE)
    features["type"], features["source"], features["target"] = kind, source, target
    features["weight"] = table[source, target]
    return features


def _references(
    mark: bytes, start: int, count: np.ndarray, first: int, more: int
) -> bytes:
    """A chunk of lists of consecutive features."""
    n, ends = count.size, np.cumsum(count)
    begin = ends - count + np.arange(n)  # places of the counts among the words
    words = np.empty(int(count.sum()) + n, dtype=_WORD)
    is_count = np.zeros(words.size, dtype=bool)
    is_count[begin] = True
    words[is_count] = count
    words[~is_count] = first + np.arange(words.size - n)
    offset = np.zeros(n + more, dtype=_WORD)
    offset[:n] = start + _CHUNK + 4 * (offset.size + begin)
    size = _CHUNK + offset.nbytes + words.nbytes
    return mark + _packed(size, offset.size) + offset.tobytes() + words.tobytes()


def _dictionary(strings: list[bytes]) -> bytes:
    """A dictionary: records, hash tables with open addressing, offsets of records."""
    n = len(strings)
    ended = [string + b"\0" for string in strings]
    records = [_packed(i, len(string)) + string for i, string in enumerate(ended)]
    ends = _RECORDS + np.cumsum([0, *map(len, records)])
    offset = ends[:-1].astype(_WORD)
    hashed = hash_strings(ended)
    table = hashed % _TABLES
    n_places = 2 * np.bincount(table, minlength=_TABLES)
    first = np.cumsum(n_places) - n_places
    places = np.zeros((2 * n, 2), dtype=_WORD)
    taken = bytearray(2 * n)
    for i, (t, h) in enumerate(zip(table.tolist(), (hashed >> 8).tolist())):
        m, base = int(n_places[t]), int(first[t])
        k = h % m
        while taken[base + k]:
            k = (k + 1) % m
        taken[base + k] = True
        places[base + k] = hashed[i], offset[i]
    tables = np.zeros((_TABLES, 2), dtype=_WORD)
    tables[:, 0] = np.where(n_places > 0, ends[-1] + 8 * first, 0)
    tables[:, 1] = n_places
    back = int(ends[-1]) + places.nbytes
    head = b"CQDB" + _packed(back + offset.nbytes, 0, _BYTE_ORDER, n, back if n else 0)
    parts = [head, tables.tobytes(), *records, places.tobytes(), offset.tobytes()]
    return b"".join(parts)


def hash_strings(strings: list[bytes]) -> np.ndarray:
    """Bob Jenkins' hash lookup3, little-endian with the seed 0."""
    sizes = np.array([len(string) for string in strings], dtype=np.int64)
    out = np.full(sizes.size, _DEFAULT_HASH, dtype=np.uint32)
    n_blocks = -(-sizes // 12)
    # strings with the same number of blocks are hashed together
    for m in np.unique(n_blocks[n_blocks > 0]).tolist():
        chosen = np.flatnonzero(n_blocks == m)
        text = b"".join(strings[i].ljust(12 * m, b"\0") for i in chosen)
        blocks = np.frombuffer(text, _WORD).reshape(-1, m, 3).astype(np.uint32)
        a = (_DEFAULT_HASH + sizes[chosen]).astype(np.uint32)
        b, c = a.copy(), a.copy()
        for j in range(m):
            a, b, c = a + blocks[:, j, 0], b + blocks[:, j, 1], c + blocks[:, j, 2]
            if j < m - 1:
                for k in (4, 6, 8, 16, 19, 4):
                    a, b, c = b, c + b, (a - c) ^ _rotated(c, k)
        for k in (14, 11, 25, 16, 4, 14, 24):
            a, b, c = b, (c ^ b) - _rotated(b, k), a
        out[chosen] = b
    return out


def _rotated(x: np.ndarray, k: int) -> np.ndarray:
    return (x << np.uint32(k)) | (x >> np.uint32(32 - k))
