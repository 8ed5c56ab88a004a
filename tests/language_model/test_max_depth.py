"""max_depth: that of the LanguageModel is the length of contexts, from 0 on."""

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import CategoricalNB
from sklearn.pipeline import make_pipeline

from sklstruct import KneserNeyLM, LanguageModel, SuffixTreeVectorizer
from sklstruct.distributed import DaskLanguageModel
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import WittenBellLM

TEXT = ["the cat sat", "a dog ran", "the dog sat home"] * 3

OTHERS = {
    "longer": WittenBellLM(8),
    "shorter": WittenBellLM(1),
    "vectorizer": make_pipeline(SuffixTreeVectorizer(max_depth=8), WittenBellLM()),
    "in a mixture": MixtureLM(
        [("a", WittenBellLM(8)), ("b", WittenBellLM(1))], weights=[0.5, 0.5]
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_another_value_of_the_estimator_is_refused(name):
    message = "^max_depth=[81] of .*: max_depth=2 of the LanguageModel"
    with pytest.raises(ValueError, match=message):
        LanguageModel(OTHERS[name], max_depth=2).fit(TEXT)


def test_equal_values_and_shorter_models_of_a_mixture():
    for estimator in (
        WittenBellLM(2),
        make_pipeline(SuffixTreeVectorizer(), WittenBellLM()),
        make_pipeline(SuffixTreeVectorizer(max_depth=2), WittenBellLM()),
    ):
        lm = LanguageModel(estimator, max_depth=2).fit(TEXT)
        assert lm.backoff_model_.max_depth == 2
    deep = make_pipeline(SuffixTreeVectorizer(), WittenBellLM())
    lm = LanguageModel(deep, max_depth=5).fit(["a b c d e f"])
    assert lm.backoff_model_.max_depth == 5
    parts = [("a", WittenBellLM()), ("b", WittenBellLM(1))]
    lm = LanguageModel(MixtureLM(parts, weights=[0.5, 0.5]), max_depth=2).fit(TEXT)
    assert [m.max_depth for m in lm.estimator_.distribution_.models] == [2, 1]


def test_a_search_over_the_other_one_is_not_cut_off_silently():
    lm = LanguageModel(WittenBellLM(), max_depth=2)
    with pytest.raises(ValueError, match=r"(?s)fits failed.*of the LanguageModel"):
        GridSearchCV(lm, {"estimator__max_depth": [1, 3]}, cv=2).fit(TEXT)
    search = GridSearchCV(lm, {"max_depth": [0, 1, 2]}, cv=2).fit(TEXT)
    assert len(np.unique(search.cv_results_["mean_test_score"])) == 3


@pytest.mark.parametrize(
    "estimator", [WittenBellLM(), KneserNeyLM(discount=0.5), "fast"]
)
def test_unigrams(estimator, tmp_path):
    """Probabilities do not depend on the words before; files have order 1."""
    lm = LanguageModel(estimator, max_depth=0).fit(TEXT)
    assert lm.backoff_model_.order == 1
    first, second = (dict(lm.predict_next(c, 20)) for c in ("", "the cat"))
    assert first == second and sum(first.values()) == pytest.approx(1.0)
    lm.save(tmp_path / "m.arpa", precision=12)
    read = LanguageModel.load(tmp_path / "m.arpa")
    assert read.score(TEXT) == pytest.approx(lm.score(TEXT))
    counted = lm.count(TEXT)
    np.testing.assert_array_equal(
        LanguageModel(estimator, max_depth=0).fit(counted).score_samples(TEXT),
        lm.score_samples(TEXT),
    )


def test_unigrams_by_batches():
    whole = LanguageModel(WittenBellLM(), max_depth=0).fit(TEXT)
    parts = LanguageModel(WittenBellLM(), max_depth=0)
    parts.partial_fit(TEXT[:4]).partial_fit(TEXT[4:])
    assert parts.score(TEXT) == pytest.approx(whole.score(TEXT))


@pytest.mark.parametrize("estimator", ["better", CategoricalNB(min_categories=20)])
def test_models_of_windows_need_a_word(estimator):
    with pytest.raises(ValueError, match="^max_depth"):
        LanguageModel(estimator, max_depth=0).fit(TEXT)


def test_a_cluster_needs_a_word():
    with pytest.raises(ValueError, match="^model: max_depth=0"):
        DaskLanguageModel(LanguageModel(WittenBellLM(), max_depth=0)).fit(["a"])
