"""Reduced text classifiers: one answer on all ways, the size of the steps, files."""

import io
import pickle
import random
import re
from unittest import mock

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import Endless
from _texts import LABELS, NEW, TEXTS, several, tickets
from sklearn.ensemble import RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import MultiLabelBinarizer

from sklstruct import HierarchicalClassifier, LinearClassifier
from sklstruct.exchange._container import HEAD
from sklstruct.text import NgramVectorizer, TextClassifier, _scores, _second, _texts
from sklstruct.text._file import TEXT_MODEL
from sklstruct.text._scores import ByteWeights

TREE = [["card", "login"], "travel"]
MANY = [f"c{i}" for i in range(130)]
ODD = ["", " ", "Große İ Σας 中文 card", "\ud800 card\0", "card " * 300, *NEW]


def many_classes():
    """Texts of 130 classes, each with words of its name."""
    rng = np.random.RandomState(0)
    labels = np.repeat(MANY, 8)
    texts = [
        f"{label} {label}{rng.randint(3)} word{rng.randint(40)}" for label in labels
    ]
    return texts, labels


def linear(loss="squared_hinge", **options):
    return LinearClassifier(loss, random_state=0, **options)


NAMES = several(LABELS, TEXTS)
ALL = [{"text", *labels} for labels in NAMES]  # a label of every text
MODELS = {
    "letters": (TextClassifier("letters"), LABELS),
    "both": (TextClassifier("both"), LABELS),
    "two classes": (TextClassifier("words"), np.where(LABELS == "card", 1, 0)),
    "one class": (TextClassifier("words"), ["x"] * len(TEXTS)),
    "a tree": (TextClassifier("words", taxonomy=TREE), LABELS),
    "two trees": (TextClassifier("words", taxonomy=(TREE, "rand")), LABELS),
    "log_loss": (TextClassifier("words", estimator=linear("log_loss", C=9)), LABELS),
    "ovr_log_loss": (TextClassifier("both", estimator=linear("ovr_log_loss")), LABELS),
    "plain tree": (
        TextClassifier(
            "words",
            estimator=HierarchicalClassifier(
                TREE, estimator=linear("log_loss", C=5, calibration=None)
            ),
        ),
        LABELS,
    ),
    "several": (TextClassifier("words", threshold="f1"), NAMES),
    "several, a tree": (TextClassifier("both", taxonomy=[[0, 1], [2, 3]]), NAMES),
    "several, two stages": (TextClassifier("words", threshold="f1"), NAMES),
    "several, flat": (TextClassifier("letters", estimator=linear()), NAMES),
    "several, one of all texts": (TextClassifier("words"), ALL),
    "several, one with positives": (
        TextClassifier("words"),
        np.outer(LABELS == "card", [0, 1, 0]),
    ),
    "several, numbers": (
        TextClassifier("words"),
        sp.csr_matrix(MultiLabelBinarizer().fit_transform(NAMES)),
    ),
    "counts of given words": (
        TextClassifier(
            NgramVectorizer(
                vocabulary=["login", "card", "no match here!", "my card", "flight"],
                ngram_range=(1, 2), use_idf=False, norm="l1",
            )
        ),
        LABELS,
    ),
    "stop words": (
        TextClassifier(NgramVectorizer(stop_words=["card", "my"], norm=None)), LABELS,
    ),
    "letters across words": (
        TextClassifier(
            NgramVectorizer(
                analyzer="char", ngram_range=(2, 3), lowercase=False, max_features=99
            )
        ),
        LABELS,
    ),
}  # fmt: skip


def fitted(name):
    model, y = MODELS[name]
    model = model.set_params(random_state=0)
    most = 1 if name == "several, two stages" else _second.FEWEST_TEXTS
    with mock.patch.object(_second, "FEWEST_TEXTS", most):
        return model.fit(TEXTS, y)


def matrix_route(reduced, texts):
    """Probabilities by matrices alone: rows, dense weights, the classifier of these."""
    rows = sp.csr_matrix(reduced.features_.transform(texts), dtype=np.float64)
    weights = reduced.reduced_.weights
    Z = rows @ weights.sparse().T.toarray().astype(np.float64) + weights.bias
    P = reduced.estimator_.predict_proba(Z.astype(np.float32))
    if reduced.second_ is not None:
        model, second, _ = reduced.second_
        X = _second.answer_columns(np.log(P)).toarray()
        Z = X @ second.sparse().T.toarray() + second.bias
        P = P + model.classifier(None).predict_proba(Z.astype(np.float32))
        P /= 2
    names = reduced.features_.get_feature_names_out()
    is_space = np.array([name.split("__", 1)[-1].isspace() for name in names])
    P[rows[:, ~is_space].getnnz(axis=1) == 0] = reduced.class_prior_
    return P


@pytest.mark.filterwarnings("ignore:no training sample")
@pytest.mark.parametrize("name", MODELS)
def test_one_answer_on_all_ways(name, tmp_path, monkeypatch):
    model = fitted(name)
    reduced = model.reduce(weight_threshold=0.0)
    P = reduced.predict_proba(ODD)
    np.testing.assert_allclose(matrix_route(reduced, ODD), P, atol=2e-5)
    # 8 bits: a step is at most 1/254 of the largest weight of an n-gram.
    np.testing.assert_allclose(model.predict_proba(ODD), P, atol=0.03)
    path = tmp_path / "model.sktext"
    reduced.save(path)
    files = {"mapped": path}
    for suffix in (".gz", ".xz"):
        files[suffix] = tmp_path / f"model.sktext{suffix}"
        reduced.save(files[suffix])
    files["memory"] = io.BytesIO(path.read_bytes())
    others = {kind: TextClassifier.load(file) for kind, file in files.items()}
    others["pickled"] = pickle.loads(pickle.dumps(reduced))
    others["reduced again"] = reduced.reduce(weight_threshold=0.0)
    others["threads"] = TextClassifier.load(path).set_params(n_jobs=2)
    for other in others.values():
        np.testing.assert_array_equal(other.predict_proba(ODD), P)
        np.testing.assert_array_equal(other.classes_, reduced.classes_)
        assert other.weight_threshold_ == 0.0
        assert other.classes_.dtype == reduced.classes_.dtype
        found, given = (sp.csr_matrix(m.predict(ODD)) if sp.issparse(m.predict(ODD))
                        else m.predict(ODD) for m in (other, reduced))  # fmt: skip
        if sp.issparse(given):
            found, given = found.toarray(), given.toarray()
        np.testing.assert_array_equal(found, given)
        names = (m.features_.get_feature_names_out() for m in (other, reduced))
        np.testing.assert_array_equal(*names)
        for text in ODD[2:6]:
            assert other.explain(text) == reduced.explain(text)
    # The file holds no more than is read: writing what was read gives the same bytes.
    again = io.BytesIO()
    others["mapped"].save(again)
    assert again.getvalue() == path.read_bytes() or name in OBJECTS
    monkeypatch.setattr(_texts, "_BLOCK", 40)
    np.testing.assert_array_equal(reduced.predict_proba(ODD), P)


# Their parameters that are objects are not in the file.
OBJECTS = {
    "two trees", "log_loss", "ovr_log_loss", "plain tree", "several, flat",
    "counts of given words", "stop words", "letters across words",
    "a tree", "several, a tree",
}  # fmt: skip


def test_many_classes_have_rows_with_and_without_gaps():
    texts, labels = many_classes()
    kinds = set()
    for estimator in (None, linear("ovr_log_loss"), linear(weight_threshold=0.05)):
        model = TextClassifier("words", estimator=estimator).fit(texts, labels)
        reduced = model.reduce(weight_threshold=0.0)
        weights = reduced.reduced_.weights
        kinds |= {"gaps"} if weights.gap.size else set()
        kinds |= {"whole"} if weights.weight.size > weights.gap.size else set()
        np.testing.assert_allclose(
            matrix_route(reduced, texts), reduced.predict_proba(texts), atol=2e-5
        )
        assert reduced.score(texts, labels) == model.score(texts, labels)
    assert kinds == {"gaps", "whole"}


def test_long_gaps_are_filled_with_zeros():
    W = np.zeros((5000, 3), dtype=np.float32)
    for column, scores in enumerate([(0, 255, 256), (256, 700, 4999), (1, 258, 1500)]):
        W[list(scores), column] = 1, -2, 4
    weights = ByteWeights.of(sp.csr_matrix(W), np.zeros(5000), 0.0)
    assert weights.gap.size > 9
    np.testing.assert_allclose(weights.sparse().toarray(), W, atol=4 / 254)


@pytest.mark.parametrize("seed", range(20))
def test_weights_of_eight_bits_are_near(seed):
    rng = np.random.RandomState(seed)
    n_scores, n_columns = rng.choice([1, 2, 7, 300, 900, 5000]), rng.randint(1, 30)
    W = sp.random(
        n_scores, n_columns, rng.choice([0.0, 0.001, 0.05, 0.5, 1.0]), format="csr",
        random_state=rng, dtype=np.float32,
    )  # fmt: skip
    W.data = (W.data - 0.5) * 10 ** rng.uniform(-3, 3)
    bias = rng.normal(size=n_scores).astype(np.float32)
    threshold = rng.choice([0.0, 0.2])
    weights = ByteWeights.of(W, bias, threshold)
    dense = W.toarray()
    top = np.abs(dense).max(axis=1, initial=0)[:, None]
    dense[np.abs(dense) <= np.float32(threshold) * top] = 0
    step = np.abs(dense).max(axis=0) / 127
    found = weights.sparse().toarray()
    assert (np.abs(found - dense) <= step / 2 + 1e-6 * np.abs(dense)).all()
    assert not (found[dense == 0]).any()
    X = sp.random(20, n_columns, 0.4, format="csr", random_state=rng, dtype=np.float32)
    z = np.tile(bias, (20, 1))
    stop = np.zeros(1, dtype=np.int32)
    at, before, scale, weight, gap = weights.kernel
    _scores.add_scores(
        X.indices, X.data, X.indptr[1:].astype(np.int64), 0.5, at, before, scale,
        weight, gap, z, stop,
    )  # fmt: skip
    right = 0.5 * X.toarray().astype(float) @ found.T.astype(float) + bias
    np.testing.assert_allclose(z, right, rtol=1e-4, atol=1e-4 * (1 + np.abs(z).max()))
    again = pickle.loads(pickle.dumps(weights))
    np.testing.assert_array_equal(again.sparse().toarray(), found)


def test_the_threshold_is_the_largest_that_the_texts_allow():
    model = fitted("letters")
    X, y = tickets(300, seed=5)

    def loss(reduced):
        code = np.searchsorted(model.classes_, y)
        return -reduced.predict_log_proba(X)[np.arange(len(X)), code].mean()

    def n_weights(reduced):
        return reduced.reduced_.weights.sparse().nnz

    tried = {t: model.reduce(weight_threshold=t) for t in (0.0, 0.03, 0.05, 0.07, 0.1)}
    tried |= {t: model.reduce(weight_threshold=t) for t in (0.15, 0.2)}
    most, best = 1.02 * loss(tried[0.0]), 0.0
    for t in list(tried)[1:]:
        if loss(tried[t]) > most:
            break
        best = t
    assert best < 0.2  # the search stops somewhere
    chosen = model.reduce(X, np.array(y)[:, None], weight_threshold=0.0)
    assert n_weights(chosen) == n_weights(tried[best])
    assert chosen.weight_threshold_ == best and not hasattr(model, "weight_threshold_")
    sizes = [n_weights(one) for one in tried.values()]
    assert sizes == sorted(sizes, reverse=True) and sizes[0] > sizes[-1]
    several = fitted("several")
    small = several.reduce(TEXTS, NAMES)
    assert n_weights(small) <= n_weights(several.reduce())


def test_a_large_file_of_another_kind_is_refused_by_its_first_bytes():
    with pytest.raises(ValueError, match="not a text classifier"):
        TextClassifier.load(Endless())


@pytest.mark.parametrize("name", ["both", "several, two stages"])
def test_answers_do_not_unpack_the_weights(name, monkeypatch):
    model = fitted(name).reduce()
    right = model.predict_log_proba(NEW[:1])[0]
    monkeypatch.setattr(_scores.ByteWeights, "sparse", None)
    np.testing.assert_array_equal(model.predict_log_proba(NEW[:1])[0], right)
    label = model.classes_[int(right.argmax())]
    assert model.explain(NEW[0]) == model.explain(NEW[0], label)


def test_reduce_names_the_part_that_cannot_be_reduced(tmp_path):
    path, model = tmp_path / "m", fitted("letters")
    for estimator in (RandomForestClassifier(5), HierarchicalClassifier(
        TREE, estimator=RandomForestClassifier(5)
    )):  # fmt: skip
        other = TextClassifier("words", estimator=estimator).fit(TEXTS, LABELS)
        with pytest.raises(ValueError, match="estimator: .* has no linear scores"):
            other.save(path)
    other = TextClassifier(TfidfVectorizer(), estimator=linear()).fit(TEXTS, LABELS)
    with pytest.raises(ValueError, match="features: a TfidfVectorizer cannot be"):
        other.reduce()
    plain = TextClassifier("words", estimator=linear(calibration=None))
    with pytest.raises(ValueError, match="estimator: .* has no probabilities"):
        plain.fit(TEXTS, LABELS).reduce()
    above = TextClassifier("words", taxonomy={1: 0, 2: 0, 3: 0}).fit(TEXTS, NAMES)
    with pytest.raises(ValueError, match="labels as inner nodes cannot be reduced"):
        above.reduce()
    for threshold in (-0.1, 1.0, "0.1", np.nan):
        with pytest.raises(ValueError, match="weight_threshold must be a number in .0"):
            model.reduce(weight_threshold=threshold)
    for X, y, match in (
        (NEW, None, "y must hold"),
        (None, LABELS, "y needs X"),
        (["a"], ["x"], "'x', which is not in classes_"),
        (["a"], ["card"] * 2, "inconsistent numbers of samples: 1 and 2"),
        ("a", ["card"], "X must be a list"),
        ([], [], "X must hold at least one text"),
    ):
        with pytest.raises(ValueError, match=match):
            model.reduce(X, y)
    floats = TextClassifier("words").fit(TEXTS, LABELS == "card")
    with pytest.raises(ValueError, match="the label .* is of type bool"):
        floats.save(path)
    assert not path.exists()
    with pytest.raises(ValueError, match="not fitted yet"):
        TextClassifier().save(path)
    with pytest.raises(OSError, match="does not exist"):
        model.save(tmp_path / "none" / "m")


def test_files_that_are_not_models(tmp_path):
    good = io.BytesIO()
    fitted("both").save(good)
    data, path = good.getvalue(), tmp_path / "m.sktext"
    good.seek(0)
    for size in (0, 10, 30, 200, len(data) // 2, len(data) - 100):
        path.write_bytes(data[:size])
        with pytest.raises(ValueError, match=re.escape(str(path))):
            TextClassifier.load(path)
    rng, P = random.Random(0), TextClassifier.load(good).predict_proba(NEW)
    for _ in range(60):
        at = rng.randrange(len(data))
        changed = bytearray(data)
        changed[at] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        try:  # a bit between two arrays is not read
            found = TextClassifier.load(path)
        except ValueError:
            continue
        np.testing.assert_array_equal(found.predict_proba(NEW), P)
    with pytest.raises(OSError):
        TextClassifier.load(tmp_path / "none")
    path.write_bytes(pickle.dumps("a", protocol=4))
    with pytest.raises(ValueError, match="a pickle is read with joblib.load"):
        TextClassifier.load(path)


def written(name):
    """(header, arrays) of a model."""
    file = io.BytesIO()
    fitted(name).save(file)
    file.seek(0)
    return TEXT_MODEL.read(file, "m", lambda header, arrays: (header, arrays))


EXTREMES = (0, np.nan, 1e30)


@pytest.mark.parametrize(
    "name, values",
    [("both", EXTREMES)]
    + [
        (name, (*EXTREMES, 1, 77, 127))
        for name in ("both", "several, two stages", "counts of given words")
    ],
)
def test_no_array_leads_out_of_the_others(name, values):
    """Files with right hashes whose arrays were changed answer, or are refused."""
    header, arrays = written(name)
    refused = 0
    for key, array in arrays.items():
        changes = [array[:-1], np.append(array, array[-1:]), array[:0]]
        for at in {0, array.size // 2, array.size - 1} if array.size else ():
            for value in values:
                if array.dtype.kind != "f" and not np.isfinite(value):
                    continue
                if array.dtype.kind != "f" and value > np.iinfo(array.dtype).max:
                    value = np.iinfo(array.dtype).max
                other = array.copy()
                other[at] = value
                changes.append(other)
        for other in changes:
            file = io.BytesIO()
            TEXT_MODEL.writer(dict(header), {**arrays, key: other})(file)
            file.seek(0)
            try:
                model = TextClassifier.load(file)
            except ValueError as exc:
                assert "damaged" in str(exc)
                refused += 1
                continue
            P = model.predict_proba(ODD)
            assert np.isfinite(P).all(), key
            model.predict_top_k(ODD, 2)
            model.explain("card password")
    assert refused > 3 * len(arrays)


def test_another_version_is_named():
    file = io.BytesIO()
    fitted("two classes").save(file)
    data, at = file.getvalue(), len(TEXT_MODEL.magic)
    version, *rest = HEAD.unpack(data[at : at + HEAD.size])
    head = HEAD.pack(version + 1, *rest)
    newer = io.BytesIO(data[:at] + head + data[at + HEAD.size :])
    message = f"version {version + 1}, .* upgrade sklstruct"
    with pytest.raises(ValueError, match=message):
        TextClassifier.load(newer)
