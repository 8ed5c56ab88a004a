"""Figures of fitted models as dictionaries, texts and tables of notebooks."""

import pickle

import numpy as np
import pytest
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder

from sklstruct import KneserNeyLM, LanguageModel, StructuredLogLinearLM
from sklstruct._description import Description, shown
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import WittenBellLM
from sklstruct.taxonomy import Taxonomy

TEXT = ["the cat sat", "the dog sat", "a <b>dog</b> ran"]


@pytest.fixture
def lm():
    return LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(TEXT)


def grams(sentences, n):
    """Distinct n-grams with a prediction at the end, counted one by one."""
    found = set()
    for sentence in sentences:
        words = ["<s>", *sentence.split(), "</s>"]
        for i in range(1, len(words)):
            if i - n + 1 >= 0:
                found.add(tuple(words[i - n + 1 : i + 1]))
    return len(found)


def test_counts_are_those_of_the_text(lm):
    described = lm.describe()
    assert described["order"] == 3 and described["model"] == "KneserNeyLM"
    assert described["n_words"] == lm.vocabulary_.size
    assert [described[f"n_{n}_grams"] for n in (2, 3)] == [
        grams(TEXT, 2),
        grams(TEXT, 3),
    ]
    assert described["n_1_grams"] == lm.vocabulary_.size
    assert np.array_equal(described["discounts"], lm.estimator_.discounts_)
    model = lm.backoff_model_
    assert described["bytes"] > model.log_prob.nbytes + model.log_backoff.nbytes
    assert described.items() >= model.describe().items()


def test_models_without_a_table_or_discounts(lm, tmp_path):
    mixture = MixtureLM([("a", KneserNeyLM(discount=0.5)), ("b", WittenBellLM())])
    described = LanguageModel(mixture, max_depth=2).fit(TEXT).describe()
    assert described["model"] == "MixtureLM" and described["order"] == 3
    assert (
        described["unknown"] == "<unk>" and described["n_words"] == lm.vocabulary_.size
    )
    fitted = LanguageModel(StructuredLogLinearLM(), max_depth=1).fit(TEXT)
    assert "discounts" not in fitted.describe() and fitted.describe()["order"] == 2
    lm.save(tmp_path / "a.arpa")
    read = LanguageModel.load(tmp_path / "a.arpa").describe()
    assert read["model"] == "a file" and read["n_3_grams"] == grams(TEXT, 3)


def test_size_of_a_model_without_a_table_is_that_of_its_pickle():
    mixture = MixtureLM([("a", KneserNeyLM(discount=0.5)), ("b", WittenBellLM())])
    lm = LanguageModel(mixture, max_depth=2).fit([f"w{i} w{i * i}" for i in range(900)])
    size = len(pickle.dumps(lm.predictor.distribution))
    assert 0.95 < lm.describe()["bytes"] / size < 1.05


def test_a_model_that_cannot_be_pickled_has_no_size():
    estimator = make_pipeline(
        OneHotEncoder(handle_unknown="ignore"),
        FunctionTransformer(lambda X: X, accept_sparse=True),
        MultinomialNB(),
    )
    described = LanguageModel(estimator, max_depth=1).fit(TEXT).describe()
    assert described["bytes"] is None and described["order"] == 2


def test_unfitted_model_is_refused():
    with pytest.raises(Exception, match="not fitted"):
        LanguageModel().describe()


def test_text_has_a_line_a_figure():
    figures = Description(order=3, unknown=None, share=0.5, discounts=[[0.5, 1], [2]])
    assert str(figures).splitlines() == [
        "order      3",
        "unknown    -",
        "share      0.5000",
        "discounts  0.5000 1; 2",
    ]
    assert shown({"a": 1, "b": 2}) == "1 a, 2 b"
    assert str(Description()) == ""


@pytest.mark.parametrize(
    "make, words",
    [
        (
            lambda: LanguageModel(WittenBellLM(), max_depth=1).fit(TEXT).backoff_model_,
            ["n_2_grams", "&lt;s&gt;"],
        ),
        (lambda: Taxonomy.from_nested([["<b>", "c"], ["d"]]), ["&lt;b&gt;, c", "d"]),
    ],
    ids=["model", "taxonomy"],
)
def test_notebooks_show_what_is_there_and_no_markup_of_labels(make, words):
    page = make()._repr_html_()
    assert page.startswith(("<table>", "<pre>"))
    assert "<b>" not in page and all(word in page for word in words)


def test_large_trees_are_cut():
    groups = [[[[[i, i + 1]]], [[[i + 2]]]] for i in range(0, 900, 3)]
    tree = Taxonomy.from_nested(groups)
    assert tree._repr_html_().count("\n") < tree.n_nodes
