"""Perplexity of documents as features, and as a filter."""

import itertools
import pickle
import unicodedata
import warnings

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.frozen import FrozenEstimator
from sklearn.utils.estimator_checks import (
    check_get_params_invariance,
    check_no_attributes_set_in_init,
    check_set_params,
)

from sklstruct.compat.kenlm import Model
from sklstruct.language_model import LanguageModel, PerplexityTransformer, _perplexity
from sklstruct.language_model._perplexity import normalize_ccnet
from sklstruct.smoothing import AdditiveLM, WittenBellLM

TEXT = ["the cat sat", "the dog sat", "the cat ran", "cafe 000 ran"] * 3
DOCUMENTS = [
    "the cat sat\nthe dog ran",
    "zebra crossing\n\nthe end",
    "",
    "  the   cat\tsat  ",
    "Café １９7 ran …",
    "the cat\u00a0sat",
    "a\n",
]


@pytest.fixture(scope="module")
def lm():
    return LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(TEXT)


@pytest.fixture(scope="module")
def path(lm, tmp_path_factory):
    name = tmp_path_factory.mktemp("models") / "model.arpa"
    lm.save(name)
    return str(name)


@pytest.mark.parametrize("normalize", [None, "ccnet"])
def test_formula_of_ccnet(path, normalize):
    """Its formula over KenLM's scores."""
    kenlm = pytest.importorskip("kenlm")
    model = kenlm.Model(path)
    step = PerplexityTransformer(path, normalize=normalize).fit()
    found = step.transform(DOCUMENTS)
    for document, (log_proba, perplexity, unknown, n) in zip(DOCUMENTS, found):
        if not document:
            assert n == 0 and np.isnan([log_proba, perplexity, unknown]).all()
            continue
        log_score, length, n_words, oov = 0.0, 0, 0, 0
        for line in document.split("\n"):
            line = normalize_ccnet(line) if normalize else line
            log_score += model.score(line)
            words = line.encode().split()  # as KenLM splits the bytes
            length, n_words = length + len(words) + 1, n_words + len(words)
            oov += sum(word.decode() not in model for word in words)
        expected = 10.0 ** (-log_score / length)
        assert perplexity == pytest.approx(expected, rel=1e-12)
        assert round(perplexity, 1) == round(expected, 1)
        assert n == length and unknown == oov / n_words
        assert log_proba == pytest.approx(-np.log(expected), rel=1e-12)


def test_normalisation_is_character_by_character():
    """Every character of the first planes, by the published rules one after another."""
    like = dict(zip("，。、", ",.,")) | dict.fromkeys("„”“«»」「《》", '"')
    like |= dict(zip("´∶：？！（）；–～’━〈〉【】％►", "'::?!();-~'-<>[]%-"))
    like |= {"—": " - ", "．": ". ", "…": "..."}
    for code in itertools.chain(range(0x3100), range(0xFE00, 0x10000)):
        line = f"x{chr(code)}y"
        line = "".join(
            c
            for c in unicodedata.normalize("NFD", line.lower())
            if unicodedata.category(c) != "Mn"
        )
        line = "".join("0" if c.isdecimal() else like.get(c, c) for c in line)
        line = "".join(c for c in line if not (ord(c) < 32 or 127 <= ord(c) < 160))
        assert normalize_ccnet(f" x{chr(code)}y ") == line, hex(code)
    assert normalize_ccnet("  ") == ""


def test_a_language_model_counts_as_its_perplexity(lm):
    step = PerplexityTransformer(FrozenEstimator(lm)).fit()
    found = step.transform(DOCUMENTS)
    for document, row in zip(DOCUMENTS, found):
        if document:
            lines = document.split("\n")
            ppl, counts = lm.perplexity(lines, return_counts=True)
            assert row[1] == pytest.approx(ppl, rel=1e-12)
            assert row[2] == counts.n_unknown / (counts.n_counted - counts.n_end)
            assert row[3] == counts.n_counted
    assert np.isnan(found[2, :3]).all()


def test_engines_agree(lm, path):
    steps = [
        FrozenEstimator(lm),
        path,
        Model(path),
        Model.from_backoff(lm.backoff_model_),
    ]
    first, *others = (
        PerplexityTransformer(m).fit().transform(DOCUMENTS) for m in steps
    )
    for other in others:
        # KenLM does not end words at a no-break space.
        plain = ["\u00a0" not in document for document in DOCUMENTS]
        np.testing.assert_allclose(other[plain], first[plain], rtol=1e-5)


def test_tokenizer_and_marks(lm):
    pieces = PerplexityTransformer(
        FrozenEstimator(lm), tokenizer=lambda line: line.replace("_", " ").split()
    ).fit()
    expected = (
        PerplexityTransformer(FrozenEstimator(lm)).fit().transform(["the cat sat"])
    )
    np.testing.assert_array_equal(pieces.transform(["the_cat_sat"]), expected)
    # A mark of the model in a text is a word that it does not know.
    marked = PerplexityTransformer(FrozenEstimator(lm)).fit()
    found = marked.transform(["the <s> </s> <s>the", "the zebra gnu gnu"])
    np.testing.assert_array_equal(found[0], found[1])


def test_batches_streams_and_columns(lm, path, monkeypatch):
    pandas = pytest.importorskip("pandas")
    expected = PerplexityTransformer(path).fit().transform(DOCUMENTS)
    monkeypatch.setattr(_perplexity, "_BATCH", 2)
    step = PerplexityTransformer(path).fit()
    frame = pandas.DataFrame({"text": DOCUMENTS, "number": range(len(DOCUMENTS))})
    forms = [DOCUMENTS, iter(DOCUMENTS), frame["text"], frame[["text"]]]
    forms += [np.array(DOCUMENTS), np.array(DOCUMENTS, dtype=object)[:, None]]
    for X in forms:
        np.testing.assert_array_equal(step.transform(X), expected)
    missing = step.transform([None, float("nan"), "the"])
    np.testing.assert_array_equal(np.isnan(missing[:, 1]), [True, True, False])
    assert step.transform([]).shape == (0, 4)
    columns = ColumnTransformer([("ppl", PerplexityTransformer(path), "text")])
    out = columns.set_output(transform="pandas").fit_transform(frame)
    assert list(out) == [f"ppl__{name}" for name in step.get_feature_names_out()]
    np.testing.assert_array_equal(out, expected)


@pytest.mark.processes
def test_processes(path, monkeypatch):
    expected = PerplexityTransformer(path).fit().transform(DOCUMENTS)
    monkeypatch.setattr(_perplexity, "_BATCH", 2)
    many = PerplexityTransformer(path, n_jobs=2).fit().transform(DOCUMENTS)
    np.testing.assert_array_equal(many, expected)


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_one_warning_for_all_batches(lm, path, n_jobs, monkeypatch):
    monkeypatch.setattr(_perplexity, "_BATCH", 3)
    documents = ["the cat sat"] * 3 + ["zebra\u00a0fish lion"] * 9
    for model, baseline, expected in (
        (FrozenEstimator(lm), None, ["different words", "9 of 18"]),
        (
            FrozenEstimator(lm),
            FrozenEstimator(lm),
            ["different words"] + ["9 of 18"] * 2,
        ),
        (path, None, ["different words"]),
    ):
        step = PerplexityTransformer(model, baseline=baseline, n_jobs=n_jobs).fit()
        with warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            step.transform(documents)
        assert len(found) == len(expected), [str(w.message) for w in found]
        for warning, part in zip(found, expected):
            assert warning.filename == __file__
            assert part in str(warning.message)


def test_a_table_of_arrow_is_refused_without_a_guess_of_its_column(path):
    pyarrow = pytest.importorskip("pyarrow")
    table = pyarrow.table({"id": range(len(DOCUMENTS)), "body": DOCUMENTS})
    step = PerplexityTransformer(path).fit()
    for X in (table, table.to_batches()[0]):
        with pytest.raises(
            TypeError, match=r"^X is a \w+; pass one column, such as table\['text'\]$"
        ):
            step.transform(X)
    np.testing.assert_array_equal(
        step.transform(table["body"]), step.transform(DOCUMENTS)
    )


def test_difference_of_two_models(lm, path):
    other = LanguageModel(AdditiveLM(delta=2.0), vocabulary=lm.vocabulary_[:-2])
    other.fit(TEXT[:2])
    step = PerplexityTransformer(
        FrozenEstimator(lm), baseline=FrozenEstimator(other)
    ).fit()
    assert step.get_feature_names_out()[-1] == "log_proba_difference"
    found = step.transform(DOCUMENTS)
    parts = [
        PerplexityTransformer(FrozenEstimator(m)).fit().transform(DOCUMENTS)
        for m in (lm, other)
    ]
    np.testing.assert_array_equal(found[:, :4], parts[0])
    np.testing.assert_allclose(found[:, 4], parts[0][:, 0] - parts[1][:, 0], atol=1e-14)
    without = LanguageModel(AdditiveLM(), end=None).fit(TEXT)
    step = PerplexityTransformer(FrozenEstimator(lm), baseline=FrozenEstimator(without))
    with pytest.raises(ValueError, match="count different numbers of tokens"):
        step.fit().transform(["the"])


def test_models_are_trained_used_or_refused(lm, path):
    trained = PerplexityTransformer(LanguageModel(AdditiveLM(delta=0.1), max_depth=2))
    found = trained.fit(["\n".join(TEXT)]).transform(DOCUMENTS)
    used = PerplexityTransformer(FrozenEstimator(lm)).fit().transform(DOCUMENTS)
    np.testing.assert_array_equal(found, used)
    with pytest.raises(ValueError, match="to be trained: give documents"):
        trained.fit()
    read = LanguageModel.load(path)
    for fitted in (lm, read, clone(read)):
        with pytest.raises(ValueError, match=r"give FrozenEstimator\(model\)"):
            PerplexityTransformer(fitted).fit(DOCUMENTS)
    with pytest.raises(TypeError, match="model must be a path"):
        PerplexityTransformer(3).fit()
    with pytest.raises(OSError, match="Cannot read model"):
        PerplexityTransformer("no such file").fit()
    again = clone(PerplexityTransformer(FrozenEstimator(lm))).fit(DOCUMENTS)
    copy = pickle.loads(pickle.dumps(again))
    np.testing.assert_array_equal(copy.transform(DOCUMENTS), again.transform(DOCUMENTS))


def test_bad_input_is_named(path):
    step = PerplexityTransformer(path).fit()
    with pytest.raises(TypeError, match=r"X\[1\] must be a string.*list"):
        step.transform(["a", ["b"]])
    with pytest.raises(TypeError, match=r"X\[1\] must be a string.*list"):
        PerplexityTransformer(LanguageModel(AdditiveLM())).fit(["a", ["b"]])
    with pytest.raises(TypeError, match="column of documents"):
        step.transform("a text")
    with pytest.raises(ValueError, match="one column of documents, got 2"):
        step.transform(np.array([["a", "b"]], dtype=object))
    for name in ("normalize", "tokenizer"):
        with pytest.raises(ValueError, match=f"'{name}' parameter"):
            PerplexityTransformer(path, **{name: "other"}).fit()
    for name, values in (("normalize", [5, None]), ("tokenizer", [5, "a b", b"a"])):
        for value in values:
            step = PerplexityTransformer(path, **{name: lambda line, v=value: v}).fit()
            with pytest.raises(TypeError, match=f"{name} must return .* got {value!r}"):
                step.transform(["a b"])


@pytest.mark.parametrize(
    "check",
    [check_get_params_invariance, check_set_params, check_no_attributes_set_in_init],
)
def test_scikit_learn_checks_that_feed_no_numbers(path, check):
    check("PerplexityTransformer", PerplexityTransformer(path))


@pytest.mark.parametrize("baseline", [None, WittenBellLM()])
def test_documents_of_an_iterator_are_read_once(baseline):
    model = LanguageModel(AdditiveLM(), max_depth=2)
    given = {} if baseline is None else {"baseline": LanguageModel(baseline)}
    expected = PerplexityTransformer(model, **given).fit_transform(TEXT)
    transformer = PerplexityTransformer(model, **given)
    np.testing.assert_array_equal(transformer.fit_transform(iter(TEXT)), expected)
    again = clone(transformer).fit(iter(TEXT)).transform(iter(TEXT))
    np.testing.assert_array_equal(again, expected)


def test_rows_of_a_frame_keep_their_index(lm):
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame({"text": TEXT}, index=np.arange(len(TEXT)) * 10 + 7)
    transformer = PerplexityTransformer(FrozenEstimator(lm)).set_output(
        transform="pandas"
    )
    found = transformer.fit_transform(frame[["text"]])
    assert found.index.equals(frame.index)
