"""The second stage of several labels: what it learns from, and what it gains."""

from copy import copy

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.base import clone

from sklstruct import LinearClassifier
from sklstruct.hierarchical._score_model import ScoreModel
from sklstruct.taxonomy import CutSplit
from sklstruct.text import TextClassifier, _second
from sklstruct.text._scores import Reduced

WORDS = np.array([f"{topic}{i}" for topic in "abcd" for i in range(20)])
FLOOR = _second.FEWEST_TEXTS


def topics(n, seed=0):
    """Texts of 1 to 4 words of each topic; the last label: both first topics."""
    rng = np.random.RandomState(seed)
    there = rng.rand(n, 4) < 0.4
    texts = []
    for row in there:
        words = [
            rng.choice(20, rng.randint(1, 5)) + 20 * t for t in np.flatnonzero(row)
        ]
        texts.append(" ".join(WORDS[np.concatenate([[], *words]).astype(int)]))
    return texts, np.column_stack([there, there[:, 0] & there[:, 1]]).astype(int)


TEXTS, Y = topics(2 * FLOOR)
N = (
    int(np.searchsorted(np.cumsum(Y.any(axis=1)), FLOOR)) + 1
)  # with FLOOR labelled ones
TEXTS, Y = TEXTS[:N], Y[:N]
NEW, TRUE = topics(400, seed=1)
# texts without n-grams get the shares of the labels
TRUE, NEW = TRUE[[text != "" for text in NEW]], [text for text in NEW if text]


def fitted(texts=TEXTS, y=Y, **options):
    model = TextClassifier("words", threshold="f1", random_state=0, **options)
    return model.fit(texts, y)


def micro_f1(found, true):
    return 2 * (found & true).sum() / (found.sum() + true.sum())


def test_a_label_that_depends_on_two_others_is_found_by_their_answers():
    model = fitted()
    found = model.predict(NEW)
    np.testing.assert_array_equal(
        found, model.predict_proba(NEW) > model.second_.model.threshold
    )
    first = model.estimator_.predict(model.features_.transform(NEW))
    assert micro_f1(found, TRUE) > micro_f1(first, TRUE) + 0.02
    assert micro_f1(found[:, 4], TRUE[:, 4]) > micro_f1(first[:, 4], TRUE[:, 4]) + 0.1


def test_it_learns_from_answers_of_classifiers_that_had_not_seen_the_text():
    model = fitted()
    rows, rng = model.features_.transform(TEXTS), np.random.RandomState(0)
    fold = rng.permutation(len(TEXTS)) % 3
    rough = clone(model.estimator_).set_params(estimator__tol=0.1)
    unseen = np.empty(Y.shape)
    for k in range(3):
        part = clone(rough).fit(rows[fold != k], Y[fold != k])
        unseen[fold == k] = part.predict_proba(rows[fold == k])

    def columns(P):
        odds = np.log(P / (1 - P))
        return np.hstack([np.clip(odds / 4 + 1, 0, 6), P * (P > 0.02)])

    seed = rng.randint(np.iinfo(np.int32).max)
    found, seen = model.predict_proba(NEW), model.estimator_.predict_proba(rows)
    other = model.estimator_.predict_proba(model.features_.transform(NEW))
    far = []
    for P in unseen, seen:
        last = LinearClassifier(C=_second._C, tol=0.1, random_state=seed)
        last.fit(columns(P), Y)
        scores, weights, _ = Reduced.of(*ScoreModel.of(last), 0.0)
        z = weights.scores(sp.csr_matrix(columns(other)))
        P = scores.classifier(None).predict_proba(z)
        far.append(np.abs((P + other) / 2 - found).max())
    assert far[0] < 0.01 and far[1] > 0.25


def test_columns_of_certain_answers_are_finite():
    with np.errstate(divide="ignore"):
        log_proba = np.log([[0.0, 1.0, 0.5, 0.02, 1e-300]])
    found = _second.answer_columns(log_proba).toarray()
    odds = np.log(0.02 / 0.98)
    right = [[0, 6, 1, 1 + odds / 4, 0, 0, 1, 0.5, 0, 0]]
    np.testing.assert_allclose(found, right, rtol=1e-6)


def test_the_second_stage_needs_enough_labelled_texts():
    assert fitted().second_ is not None
    labelled = np.flatnonzero(Y.any(axis=1))
    assert labelled.size == FLOOR < len(TEXTS)
    weight = np.ones(len(TEXTS))
    weight[labelled[0]] = 0
    model = TextClassifier("words", threshold="f1", random_state=0)
    assert model.fit(TEXTS, Y, weight).second_ is None
    few = [text for text, w in zip(TEXTS, weight) if w]
    assert fitted(few, Y[weight > 0]).second_ is None
    assert TextClassifier("words").fit(TEXTS, Y).second_ is None
    # probabilities of labels along the tree would not rise
    assert fitted(taxonomy={1: 0, 2: 0, 3: 0, 4: 0}).second_ is None


def test_few_texts_of_each_label_have_no_second_stage(monkeypatch):
    per_label = Y.sum() / Y.shape[1]
    for least, has_one in (per_label, True), (1.01 * per_label, False):
        monkeypatch.setattr(_second, "_FEWEST_EACH", least)
        assert (fitted().second_ is not None) == has_one


def test_many_labels_have_no_second_stage(monkeypatch):
    monkeypatch.setattr(_second, "_MOST_LABELS", 4)
    assert fitted().second_ is None
    monkeypatch.setattr(_second, "_MOST_LABELS", 5)
    assert fitted().second_ is not None


@pytest.mark.parametrize("scale", [1.0, 3.0])
def test_weights_of_texts_reach_the_second_stage(scale):
    weight = np.where(np.arange(len(TEXTS)) % 2, scale, 1.0)
    model = TextClassifier("words", threshold="f1", random_state=0)
    P = model.fit(TEXTS, Y, weight).predict_proba(NEW)
    same = np.abs(P - fitted().predict_proba(NEW))
    assert (same.max() == 0) == (scale == 1)


def test_scores_of_sure_answers_are_the_log_odds_of_the_mean():
    stage = fitted().second_
    first = np.array([[-np.exp(-90.0), -90.0, -1.0, -np.exp(-50.0), -50.0]])
    scores = stage.weights.scores(_second.answer_columns(first))
    for shift in (100.0, 0.0, -100.0):
        weights = copy(stage.weights)
        weights.bias = weights.bias + np.float32(shift)
        found = _second.answer_of(
            stage._replace(weights=weights), "decision_function", first, None
        )
        odds = stage.model.classifier(None).decision_function(scores + shift)
        no, yes = (
            np.exp(a) + np.exp(-np.logaddexp(0, b))
            for a, b in ((np.log(-np.expm1(first)), odds), (first, -odds))
        )
        np.testing.assert_allclose(found, np.log(yes / no), rtol=1e-6)


def test_the_trees_of_the_first_classifier_serve_the_folds(monkeypatch):
    """Also if no text that a fold leaves has some label."""
    rare = np.zeros((len(TEXTS), 1), dtype=int)
    rare[np.flatnonzero(Y.any(axis=1))[0]] = 1
    built = []

    class Counted(CutSplit):
        def build(self, X, y, sample_weight=None):
            built.append(len(set(y)))
            return super().build(X, y, sample_weight)

    monkeypatch.setattr(_second, "_FEWEST_EACH", 1)
    model = fitted(y=np.hstack([Y, rare]), taxonomy=Counted())
    assert model.second_ is not None and built == [6]
    assert micro_f1(model.predict(NEW)[:, :5], TRUE) > 0.9
