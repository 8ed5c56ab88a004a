"""Model files of CRFsuite: hash, bytes, damaged files, and pycrfsuite as the peer."""

import gzip
import io
import random

import numpy as np
import pytest

from sklstruct.factor_graph import ConditionalRandomField, _crfsuite, chain_graph
from sklstruct.factor_graph._crfsuite import (
    ChainWeights,
    hash_strings,
    model_bytes,
    read_model,
)

# Values of the comments at the end of lookup3.c, and of no bytes.
HASHES = {b"Four score and seven years ago": 0x17770551, b"": 0xDEADBEEF}


def sentences(seed=0, n=25):
    """Items of all forms that CRFsuite reads, and labels that depend on them."""
    rng = random.Random(seed)
    X, y = [], []
    for _ in range(n):
        labels = rng.choices(["B-é", "I", "O"], k=rng.randrange(1, 7))
        X.append(
            [
                {
                    "w": f"{label}{rng.randrange(3)}" if rng.random() < 0.8 else "é=:",
                    "n": rng.random(),
                    "in": {"a": {"b": "c"}, "flag": rng.random() < 0.5},
                    "b": True,
                }
                for label in labels
            ]
        )
        y.append(labels)
    return X, y


def file_of(model):
    file = io.BytesIO()
    model.save(file)
    return file.getvalue()


def load(data):
    return ConditionalRandomField.load(io.BytesIO(data))


@pytest.fixture(scope="module")
def data():
    """The file of a small model."""
    return file_of(ConditionalRandomField(c1=0.05, c2=0.1).fit(*sentences()))


def test_published_hashes():
    assert dict(zip(HASHES, hash_strings(list(HASHES)).tolist())) == HASHES


def find_by_hash(data, start, string):
    """The number of a string, looked up as CRFsuite does."""
    word = lambda at: int.from_bytes(data[at : at + 4], "little")  # noqa: E731
    h = int(hash_strings([string + b"\0"])[0])
    table = start + 24 + 8 * (h % 256)
    m = word(table + 4)
    for step in range(m):
        place = start + word(table) + 8 * (((h >> 8) + step) % m)
        record = word(place + 4)
        if record == 0:
            return None
        at = start + record
        if word(place) == h and data[at + 8 :].startswith(string + b"\0"):
            assert word(at + 4) == len(string) + 1
            return word(at)
    return None


def test_every_string_is_found_by_its_hash(data):
    model = load(data)
    word = np.frombuffer(data, "<u4", 12)
    for start, names in (
        (int(word[8]), model.classes_.tolist()),
        (int(word[9]), model.feature_names_.tolist()),
    ):
        for i, name in enumerate(names):
            assert find_by_hash(data, start, name.encode()) == i
        assert find_by_hash(data, start, b"never seen") is None


@pytest.mark.parametrize("c1", [0.0, 0.3])
def test_a_written_file_is_read_again(c1, tmp_path):
    X, y = sentences()
    model = ConditionalRandomField(c1, 0.1).fit(X, y)
    for name in ("model.crfsuite", "model.crfsuite.gz"):
        model.save(tmp_path / name)
        again = ConditionalRandomField.load(tmp_path / name)
        assert file_of(again) == file_of(model)
        assert again.predict(X) == model.predict(X)
        np.testing.assert_allclose(
            again.target_log_proba(X, y), model.target_log_proba(X, y), atol=1e-12
        )
        for ours, theirs in zip(again.predict_proba(X), model.predict_proba(X)):
            np.testing.assert_allclose(ours, theirs, atol=1e-12)
        used = model.feature_coef_.any(axis=1)
        assert again.feature_names_.tolist() == model.feature_names_[used].tolist()
        np.testing.assert_array_equal(again.feature_coef_, model.feature_coef_[used])
    assert gzip.decompress((tmp_path / name).read_bytes()) == file_of(model)


def test_a_model_whose_weights_are_all_zero():
    X, y = sentences()
    model = ConditionalRandomField(max_iter=1, tol=1e9).fit(X, y)
    again = load(file_of(model))
    assert again.feature_coef_.shape == (0, 3)
    assert again.predict(X) == model.predict(X)
    np.testing.assert_allclose(again.predict_proba(X[:1])[0], 1 / 3, rtol=1e-12)


def test_sequences_of_one_item_have_no_transitions():
    model = ConditionalRandomField().fit([[["a"]], [["b"]]], [["x"], ["y"]])
    again = load(file_of(model))
    assert not again.edge_coef_["next"].any()
    assert again.predict([[["a"], ["b"]]]) == [["x", "y"]]


def test_order_and_repetition_of_names_stay():
    """Labels and attributes are numbered as in the file, in any order."""
    rng = np.random.default_rng(0)
    labels = [f"l{i}" for i in rng.permutation(40)]
    names = [f"{'x' * (i % 30)}{i}" for i in rng.permutation(700)]
    state = np.round(rng.normal(size=(700, 40))) + 3 * np.eye(700, 40)
    state[:, 0] = 1  # no attribute is without weights
    model = ChainWeights(labels, names, state, np.round(rng.normal(size=(40, 40))))
    again = read_model(model_bytes(model))
    assert again[:2] == (labels, names)
    np.testing.assert_array_equal(again.state, state)
    np.testing.assert_array_equal(again.transition, model.transition)


# ------------------------------------------------------------------------ bad input


def test_models_that_cannot_be_written():
    graphs = [chain_graph(["a", "b"], np.eye(2))]
    with pytest.raises(ValueError, match="was fitted on graphs"):
        file_of(ConditionalRandomField().fit(graphs, [["a", "b"]]))
    with pytest.raises(ValueError, match="label 1 cannot be written"):
        file_of(ConditionalRandomField().fit([[["a"], ["b"]]], [[1, 2]]))
    with pytest.raises(ValueError, match=r"attribute 'a\\x00b' cannot be written"):
        file_of(ConditionalRandomField().fit([[["a\0b"], ["b"]]], [["x", "y"]]))


def test_an_old_file_stays(tmp_path, data):
    path = tmp_path / "model"
    path.write_bytes(b"old")
    with pytest.raises(ValueError, match="label 1"):
        ConditionalRandomField().fit([[["a"], ["b"]]], [[1, 2]]).save(path)
    assert path.read_bytes() == b"old"
    load(data).save(path)
    assert path.read_bytes() == data
    assert [p.name for p in tmp_path.iterdir()] == ["model"]


def put(data, at, value):
    return data[:at] + int(value).to_bytes(4, "little") + data[at + 4 :]


def last_list(data, count):
    """The list of the first attribute begins, with its number, at the last word."""
    data = put(data, len(data) - 4, count)
    return put(data, data.rindex(b"AFRF") + 12, len(data) - 4)


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda d, h: b"", "does not begin with b'lCRF'"),
        (lambda d, h: b"\x7fELF" + d[4:], "does not begin with b'lCRF'"),
        (lambda d, h: d[:40], "the header: bytes 0 to 48 are not in the file"),
        (lambda d, h: d[:-1], "the file is cut"),
        (lambda d, h: put(d, 4, 2**32 - 1), "cut: it has .* of 4294967295 bytes"),
        (lambda d, h: put(d, 12, 101), "version 101"),
        (lambda d, h: d[:8] + b"FOMX" + d[12:], "type b'FOMX'"),
        (lambda d, h: put(d, 20, 0), "no labels"),
        (lambda d, h: put(d, 20, 2**32 - 1), "dictionary of labels: has 3 strings"),
        (lambda d, h: put(d, 24, 2**32 - 1), "dictionary of attributes: has"),
        (lambda d, h: put(d, 28, 2**32 - 4), "the features: bytes 4294967292 to"),
        (lambda d, h: put(d, h[7] + 4, 2**32 - 1), "the features: bytes"),
        (lambda d, h: put(d, h[7] + 8, 2**32 - 1), "the features: 4294967295 do not"),
        (lambda d, h: put(d, h[7] + 20, 7), "the features: number 0 has an unknown"),
        (lambda d, h: put(d, h[7] + 28, 2**31 - 1), "number 0 .* NaN or infinite"),
        (lambda d, h: put(d, h[8] + 4, 2**32 - 1), "dictionary of labels: bytes"),
        (lambda d, h: put(d, h[8] + 12, 1), "dictionary of labels: byte"),
        (lambda d, h: put(d, h[8] + 2072, 9), "record of label 0 is damaged"),
        (lambda d, h: put(d, h[8] + 2076, 2**32 - 1), "record of label 0 is damaged"),
        (lambda d, h: put(d, h[10] + 12, 2**32 - 4), "LFRF': list 0 is not in the"),
        (lambda d, h: put(d, h[11] + 8, 2**30), "AFRF': 1073741824 lists in"),
        (lambda d, h: put(d, d.rindex(b"AFRF") + 12 + 0, 1), "AFRF': list 0 is not"),
        (lambda d, h: put(d, len(d) - 4, 2**32 - 1), "AFRF': feature 4294967295 is"),
        (lambda d, h: last_list(d, 1), "AFRF': list 0 is not"),
    ],
)
def test_damaged_places(change, message, data):
    header = np.frombuffer(data, "<u4", 12).tolist()
    with pytest.raises(ValueError, match=message):
        load(change(data, header))


@pytest.mark.parametrize("damage", [b"\x7fELF", b"lCRF\0\0\0\xffother types"])
def test_large_files_of_another_type_are_not_read(damage):
    file = io.BytesIO(damage.ljust(2**22))
    with pytest.raises(ValueError, match="begin with b'lCRF'|the header has the type"):
        ConditionalRandomField.load(file)
    assert file.tell() < 2**17  # a buffer of bytes, not the whole


def test_two_labels_are_equal(data):
    assert data.count(b"\x02\0\0\0I\0") == 1
    with pytest.raises(ValueError, match="two labels are equal"):
        load(data.replace(b"\x02\0\0\0I\0", b"\x02\0\0\0O\0"))


def test_strings_that_overlap():
    """Each string is inside the file; together they are 100 times as long."""
    names = [f"{i:03}" for i in range(300)]
    model = ChainWeights(["a"], names, np.ones((300, 1)), np.ones((1, 1)))
    data = model_bytes(model)
    start = int(np.frombuffer(data, "<u4", 12)[9])
    end = 12 * 300  # of the records, each of 12 bytes
    for i in range(300):
        data = put(data, start + 2072 + 12 * i + 4, end - 12 * i - 8)
    with pytest.raises(ValueError, match="attributes: its records overlap"):
        read_model(data)


def test_lists_that_overlap(data):
    """Each list begins where the first one does."""
    start = int(np.frombuffer(data, "<u4", 12)[11])
    first = int.from_bytes(data[start + 12 : start + 16], "little")
    n = int.from_bytes(data[start + 8 : start + 12], "little")
    for i in range(n):
        data = put(data, start + 12 + 4 * i, first)
    data = put(data, first, (len(data) - first) // 4 - 1)
    with pytest.raises(ValueError, match="AFRF': its lists overlap"):
        load(data)


def test_tables_are_bounded_by_the_file():
    """20 000 labels without weights would have a table of 3 GB."""
    labels = [str(i) for i in range(3)]
    empty = ChainWeights(labels, [], np.zeros((0, 3)), np.zeros((3, 3)))
    assert read_model(model_bytes(empty)).transition.shape == (3, 3)
    names = [b"%d" % i for i in range(20000)]
    dictionary = _crfsuite._dictionary(names)
    start = 48 + len(dictionary)
    numbers = [0, 100, 0, 20000, 0, start, 48, start, start, start]
    head = b"lCRF" + _crfsuite._packed(0) + b"FOMC" + _crfsuite._packed(*numbers[1:])
    data = head + dictionary + _crfsuite._dictionary([])
    with pytest.raises(ValueError, match="20000 labels and 0 attributes have 4000"):
        read_model(data)


@pytest.mark.parametrize("seed", range(30))
def test_fuzzed_files(seed, data):
    """A ValueError with the name of the parameter, or a model that answers."""
    rng = random.Random(seed)
    X, y = sentences(n=3)
    for _ in range(10):
        broken = bytearray(data[: rng.randrange(len(data))])
        if rng.random() < 0.8:
            broken = bytearray(data)
            for _ in range(rng.randrange(1, 5)):
                at = rng.randrange(len(data) if rng.random() < 0.5 else 64)
                broken[at] = rng.choice([0, 1, 255, rng.randrange(256)])
        try:
            model = load(bytes(broken))
        except ValueError as exc:
            assert str(exc).startswith("path=")
        else:
            assert np.isfinite(model.coef_).all()
            assert [len(row) for row in model.predict(X)] == [len(row) for row in X]


# -------------------------------------------------------------------------- the peer


def trained(pycrfsuite, path, X, y, algorithm="lbfgs", **params):
    trainer = pycrfsuite.Trainer(algorithm, params, verbose=False)
    for items, labels in zip(X, y):
        trainer.append(items, labels)
    trainer.train(str(path))
    return path.read_bytes()


def assert_same_answers(tagger, model, X):
    for items in X:
        tags = tagger.tag(items)
        assert model.predict([items]) == [tags]
        log_proba = model.target_log_proba([items], [tags])
        assert np.exp(log_proba) == pytest.approx([tagger.probability(tags)], abs=1e-12)
        for t, row in enumerate(model.predict_proba([items])[0]):
            wanted = [tagger.marginal(label, t) for label in model.classes_]
            np.testing.assert_allclose(row, wanted, atol=1e-12)


@pytest.mark.parametrize(
    "algorithm, params",
    [
        ("lbfgs", {"c1": 0.1, "c2": 0.1}),
        ("lbfgs", {"c2": 1.0, "feature.possible_transitions": 1}),
        ("l2sgd", {"max_iterations": 20}),
        ("ap", {"max_iterations": 5}),
        ("pa", {"feature.possible_states": 1}),
        ("arow", {}),
    ],
)
def test_models_of_crfsuite(algorithm, params, tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    X, y = sentences()
    path = tmp_path / "model.crfsuite"
    data = trained(pycrfsuite, path, X, y, algorithm, **params)
    model = ConditionalRandomField.load(path)
    assert file_of(model) == data
    tagger = pycrfsuite.Tagger()
    tagger.open(str(path))
    assert model.classes_.tolist() == tagger.labels()
    assert_same_answers(tagger, model, [*X, *sentences(seed=1)[0]])


def test_crfsuite_reads_what_is_written(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    X, y = sentences()
    model = ConditionalRandomField(0.05, 0.1).fit(X, y)
    model.save(tmp_path / "model")
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "model"))
    assert_same_answers(tagger, model, [*X, *sentences(seed=1)[0]])


def test_attributes_and_labels_of_any_bytes(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    X = [[[b"\xff\xfe", "é"], [b"\x80"]], [["é"]]]
    data = trained(pycrfsuite, tmp_path / "m", X, [["a", "b"], ["a"]])
    model = load(data)
    assert file_of(model) == data
    assert "\udc80" in model.feature_names_.tolist()


def test_a_model_without_labels(tmp_path):
    pycrfsuite = pytest.importorskip("pycrfsuite", reason="needs python-crfsuite")
    data = trained(pycrfsuite, tmp_path / "m", [], [])
    with pytest.raises(ValueError, match="the model has no labels"):
        load(data)
