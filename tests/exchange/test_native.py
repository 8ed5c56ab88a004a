"""The native file: what is written is mapped again, damage is an error."""

import io
import json
import mmap
import pickle
import warnings

import numpy as np
import pytest
from _cases import each_value

from sklstruct import BackoffModel, KneserNeyLM, LanguageModel, exchange
from sklstruct.context_tree import ContextTree
from sklstruct.exchange import _container, _native
from sklstruct.exchange._container import HEAD, hash_of
from sklstruct.exchange._native import NATIVE, read_native
from sklstruct.exchange._probing_fast import hash_bytes
from sklstruct.symbols import Labels

TEXT = ["the cat sat", "the dog ran", "a cat ran", "the dög sat down"]


def fitted(**parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lm = LanguageModel(KneserNeyLM(discount=0.7), max_depth=2, **parameters)
        return lm.fit(TEXT).backoff_model_


def relabelled(classes, symbols):
    model = fitted(start=None, end=None, unknown=None)
    n, m = model.n_classes, model.n_symbols
    symbols = None if symbols is None else symbols[:m]
    return model.relabel(Labels(classes[:n], symbols))


NAMES = [f"w{i}" for i in range(50)]
MODELS = {
    "marks": fitted(),
    "fixed strings": relabelled(np.array(NAMES), np.array(NAMES)),
    "some strings": relabelled(
        np.array(NAMES, dtype=object), np.array(NAMES[::-1], dtype=object)
    ),
    "strings, no symbols": relabelled(np.array(NAMES, dtype=object), None),
    "integers": relabelled(np.arange(50, dtype=np.int16), np.arange(50)),
    "no symbols": relabelled(np.arange(50), None),
}


def data_of(model, **options):
    file = io.BytesIO()
    exchange.write(model, file, format="native", **options)
    return file.getvalue()


def load(data, **options):
    return exchange.read(io.BytesIO(data), **options)


def check_equal(a, b):
    assert a == b and a.labels == b.labels
    for name in ("classes", "symbols"):
        x, y = getattr(a.labels, name), getattr(b.labels, name)
        assert (x is None) == (y is None)
        assert x is None or x.dtype.kind == y.dtype.kind
    np.testing.assert_array_equal(a.tree.level_ptr, b.tree.level_ptr)
    np.testing.assert_array_equal(a.row_sums, b.row_sums)


def is_mapped(array):
    while isinstance(array, np.ndarray):
        array = array.base
    return isinstance(array.obj, mmap.mmap)


@pytest.mark.parametrize(*each_value(name=MODELS, verify=[True, False]))
def test_a_file_gives_the_model_back(name, verify, tmp_path):
    model, path = MODELS[name], tmp_path / "m.sklm"
    exchange.write(model, path, format="native")
    mapped = exchange.read(path, verify=verify)
    check_equal(mapped, model)
    assert is_mapped(mapped.log_prob) and not mapped.log_prob.flags.writeable
    in_memory = exchange.read(path, mmap=False, verify=verify)
    check_equal(in_memory, model)
    assert not is_mapped(in_memory.log_prob)
    packed = tmp_path / "m.sklm.gz"
    exchange.write(model, packed, format="native")
    check_equal(exchange.read(packed, verify=verify), model)
    assert data_of(mapped) == path.read_bytes()


def test_weights_of_nodes_stay_and_small_floats_are_near():
    model = MODELS["marks"].relabel(MODELS["marks"].labels)
    model.node_weight = np.arange(model.n_nodes) + 0.5
    again = load(data_of(model))
    np.testing.assert_array_equal(again.node_weight, model.node_weight)
    small = load(data_of(model, dtype="float32"))
    np.testing.assert_array_equal(small.log_prob, model.log_prob.astype(np.float32))
    with pytest.raises(ValueError, match="dtype must be"):
        data_of(model, dtype="float16")


def test_symbols_that_the_format_cannot_hold():
    for classes, message in (
        (np.array([b"a", *NAMES[1:]], dtype=object), "of type bytes"),
        (np.array([("a",), *NAMES[1:]], dtype=object), "of type tuple"),
        (np.array([1, *NAMES[1:]], dtype=object), "of type int"),
        (np.array(["\ud800", *NAMES[1:]], dtype=object), r"symbol '\\ud800' cannot"),
        (np.array(["a", "\ud800ä", *NAMES[2:]], dtype=object), r"'\\ud800ä' cannot be"),
        (np.arange(50) / 2, "of type float"),
    ):
        with pytest.raises(ValueError, match=message):
            data_of(relabelled(classes, None))


@pytest.mark.parametrize("version, remedy", [(7, "upgrade"), (1, "write it again")])
def test_other_versions_are_refused_by_name(version, remedy):
    data = bytearray(data_of(MODELS["marks"]))
    data[len(NATIVE.magic)] = version
    with pytest.raises(ValueError, match=f"version {version}.*{remedy}"):
        load(bytes(data))


def test_a_changed_word_and_another_length_change_the_hash():
    rng = np.random.default_rng(0)
    for size in (0, 1, 7, 8, 63, 64, 65, 200, 1000):
        data = rng.integers(0, 256, size, dtype=np.uint8)
        seen = {hash_bytes(data)}
        for at in range(0, size, 8):
            other = data.copy()
            other[at : at + 8] ^= rng.integers(
                1, 256, other[at : at + 8].size, np.uint8
            )
            seen.add(hash_bytes(other))
        assert len(seen) == 1 + -(-size // 8)
    assert len({hash_bytes(np.zeros(n, np.uint8)) for n in range(300)}) == 300
    # Words in another place: lanes differ, and so does each word of one lane.
    words = rng.integers(0, 2**63, 40, dtype=np.uint64)
    swapped = [words[rng.permutation(40)].view(np.uint8) for _ in range(100)]
    assert len({hash_bytes(other) for other in swapped}) == 100


def test_every_changed_byte_and_every_cut_is_found():
    """No byte but the filling between the arrays can change unseen."""
    model = MODELS["marks"]
    data = data_of(model)
    rng = np.random.default_rng(0)
    found = 0
    for at in {*range(300), *rng.integers(0, len(data), 700).tolist()}:
        other = bytearray(data)
        other[at] ^= 1 << int(rng.integers(8))
        try:
            again = load(bytes(other), format="native")
        except ValueError:
            found += 1
        else:
            check_equal(again, model)
    assert found > 600
    last = len(data.rstrip(b"\0"))
    for size in {*range(100), *rng.integers(0, last, 100).tolist()}:
        with pytest.raises(ValueError):
            load(data[:size], format="native")


def test_every_block_of_an_array_is_hashed(monkeypatch):
    monkeypatch.setattr(_container, "BLOCK", 8)
    data = data_of(MODELS["marks"])
    check_equal(load(data), MODELS["marks"])
    _, body = parts_of(data)
    first, n_blocks = len(data) - len(body), 0
    for name, (dtype, (n,), at, _) in parts_of(data)[0]["arrays"].items():
        for place in range(at, at + n * np.dtype(dtype).itemsize, 8):
            other = bytearray(data)
            other[first + place] ^= 1
            n_blocks += 1
            with pytest.raises(ValueError, match=f"{name} has another hash"):
                load(bytes(other))
    assert n_blocks > 100


def parts_of(data):
    version, size, _ = HEAD.unpack(
        data[len(NATIVE.magic) : len(NATIVE.magic) + HEAD.size]
    )
    first = len(NATIVE.magic) + HEAD.size
    return json.loads(data[first : first + size]), data[
        first + size + -(first + size) % 64 :
    ]


def joined(header, body):
    text = json.dumps(header).encode()
    head = NATIVE.magic + HEAD.pack(NATIVE.version, len(text), hash_bytes(text)) + text
    return head + bytes(-len(head) % 64) + body


def test_wrong_content_with_right_checksums_is_found():
    """As a file that was made to do harm has them."""
    model = MODELS["marks"]
    header, body = parts_of(data_of(model))
    check_equal(load(joined(header, body)), model)
    wrong_hash = json.loads(json.dumps(header))
    wrong_hash["arrays"]["target"][3] = "0" * 16
    with pytest.raises(ValueError, match="target has another hash"):
        load(joined(wrong_hash, body))
    check_equal(load(joined(wrong_hash, body), verify=False), model)
    rng = np.random.default_rng(1)
    n_found = 0
    for name, (dtype, (n,), at, _) in header["arrays"].items():
        width = np.dtype(dtype).itemsize
        for value in (-7, 10**8, 2):
            other, changed = json.loads(json.dumps(header)), bytearray(body)
            place = at + width * int(rng.integers(n))
            number = np.array(value).astype(np.dtype(dtype))
            changed[place : place + width] = number.tobytes()
            hashed = hash_of([hash_bytes(changed[at : at + n * width])])
            other["arrays"][name][3] = f"{hashed:016x}"
            for verify in (True, False):
                try:
                    again = load(joined(other, bytes(changed)), verify=verify)
                    assert again.row_sums.size
                except ValueError:
                    n_found += 1
    assert n_found > 30
    for name in header["arrays"]:
        for i, value in (
            (0, "<f2"), (0, "|O"), (1, [-1]), (1, [2, 2]), (1, [10**12]), (1, []),
            (2, -64), (2, 10**15), (2, "0"), (3, 0),
        ):  # fmt: skip
            other = json.loads(json.dumps(header))
            other["arrays"][name][i] = value
            with pytest.raises(ValueError):
                load(joined(other, body))
    for change in (
        {"n_symbols": 2}, {"n_symbols": "x"}, {"labels": {}}, {"marks": {}},
        {"marks": {"start": [], "end": None, "unknown": None}}, {"arrays": {}},
        {"labels": {"classes": "<f8", "symbols": "object"}},
    ):  # fmt: skip
        with pytest.raises(ValueError):
            load(joined({**header, **change}, body))


def test_a_header_of_another_checksum_is_found():
    """Also where it is a header, of the same arrays in other words."""
    data = data_of(MODELS["marks"])
    other = data.replace(b'"<unk>"', b'"<unc>"', 1)
    assert other != data and len(other) == len(data)
    with pytest.raises(ValueError, match="header has another hash"):
        load(other)


def test_a_file_that_begins_inside_another_is_read_and_not_mapped(tmp_path):
    data = data_of(MODELS["integers"])
    path = tmp_path / "two"
    path.write_bytes(data_of(MODELS["marks"]) + data)
    with open(path, "rb") as file:
        file.seek(-len(data), 2)
        check_equal(exchange.read(file, format="native"), MODELS["integers"])


def test_arrays_that_end_behind_the_file_are_found():
    """Without checksums nothing else looks at where an array ends."""
    header, body = parts_of(data_of(MODELS["marks"]))
    for name, (_, (n,), _, _) in header["arrays"].items():
        longer = json.loads(json.dumps(header))
        longer["arrays"][name][1] = [n + len(body)]
        with pytest.raises(ValueError, match=f"cut short: {name} ends behind"):
            load(joined(longer, body), verify=False)


def test_read_native_is_the_reader_of_the_table(tmp_path):
    path = tmp_path / "m.sklm"
    exchange.write(MODELS["marks"], path, format="native")
    with open(path, "rb") as file:
        assert isinstance(read_native(file, "m"), BackoffModel)
    assert LanguageModel.load(path).perplexity(TEXT) > 1


def of_file():
    file = io.BytesIO()
    exchange.write(MODELS["marks"], file)
    file.seek(0)
    return exchange.read(file)


def test_numbers_of_the_start_mark_stay():
    model = of_file()
    model.file_ngrams = np.array([0, 2], dtype=np.int32), np.array([-1.5, -np.inf])
    copies = [load(data_of(model)), pickle.loads(pickle.dumps(model))]
    copies.append(model.relabel(model.labels))
    copies.append(model.relabel(model.labels, model.tree))
    for again in copies:
        for a, b in zip(again.file_ngrams, model.file_ngrams):
            np.testing.assert_array_equal(a, b)
    assert load(data_of(MODELS["marks"])).file_ngrams is None


@pytest.mark.parametrize(
    "node, log_prob, message",
    [
        ([10**6], [-1.0], "file_node"),
        ([-1], [-1.0], "file_node"),
        ([2, 0], [-1.0, -1.0], "file_node does not rise"),
        ([0], [0.5], "file_log_prob is not at most 0"),
        ([0], [np.nan], "file_log_prob is not at most 0"),
        ([0, 1], [-1.0], "file_log_prob"),
    ],
)
def test_numbers_of_the_start_mark_are_checked(node, log_prob, message):
    model = of_file()
    model.file_ngrams = np.array(node, dtype=np.int32), np.array(log_prob)
    with pytest.raises(ValueError, match=message):
        load(data_of(model))


def test_children_from_a_file_are_checked():
    parent = [-1, 0, 0, 0, 1, 1, 3, 4, 6, 6]
    symbol = [-1, 0, 1, 2, 0, 1, 2, 0, 0, 1]
    right = ContextTree(np.array(parent), np.array(symbol)).child_ptr
    for i in range(right.size):
        for change in (-1, 1):
            tree = ContextTree(np.array(parent), np.array(symbol))
            wrong = right.copy()
            wrong[i] += change
            with pytest.raises(ValueError, match="child_ptr is not that of the tree"):
                _native.take_children(tree, wrong)
    _native.take_children(tree, right)
    assert tree.child_ptr is right
    with pytest.raises(ValueError, match="child_ptr"):
        _native.take_children(tree, right[:-1])
