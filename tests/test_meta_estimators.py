"""Every public classifier in the hands of scikit-learn's meta-estimators."""

import joblib
import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _oracles import toy
from sklearn import config_context
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.experimental import enable_halving_search_cv  # noqa: F401
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import (
    GridSearchCV,
    HalvingGridSearchCV,
    KFold,
    cross_val_predict,
    cross_validate,
)
from sklearn.multiclass import OneVsOneClassifier, OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline, make_union
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils import get_tags
from test_estimators import READS, TABLE

from sklstruct.factor_graph import ConditionalRandomField

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning"),
    pytest.mark.filterwarnings("ignore:GoodTuringUnigram:UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]

X, Y = toy()
X += 5  # the ids of classes that meta-estimators pass as y are not symbols of contexts
COLUMNS = ["w3", "w2", "w1"]
CLASSIFIERS = [
    e.estimator for e in TABLE if e.suite and hasattr(e.estimator, "predict_proba")
]
every_classifier = pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
every_classifier_of_features = pytest.mark.parametrize(
    "estimator",
    [
        e
        for e in CLASSIFIERS
        if READS[type(e)] == "features" and get_tags(e).input_tags.sparse
    ],
    ids=repr,
)


def expected(estimator):
    return clone(estimator).fit(X, Y).predict_proba(X)


def assert_rows_are_distributions(proba):
    assert proba.shape == (len(X), 5) and (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-9)


@every_classifier
def test_meta_estimators_that_keep_the_model(estimator):
    """One copy of the model on all samples inside answers as the model alone."""
    proba = expected(estimator)
    frozen = FrozenEstimator(clone(estimator).fit(X, Y))
    for meta in (
        VotingClassifier([("a", clone(estimator))], voting="soft"),
        GridSearchCV(clone(estimator), {}, cv=2, error_score="raise"),
        make_pipeline("passthrough", clone(estimator)),
        make_pipeline(
            ColumnTransformer([("a", "passthrough", [0, 1, 2])]), clone(estimator)
        ),
        frozen,
    ):
        meta.fit(X, Y)
        np.testing.assert_array_equal(meta.predict_proba(X), proba)
        assert meta.classes_.tolist() == list("vwxyz")
    hard = VotingClassifier([("a", clone(estimator))]).fit(X, Y)
    np.testing.assert_array_equal(hard.predict(X), frozen.predict(X))


@every_classifier
def test_meta_estimators_that_fit_several(estimator):
    for meta in (
        CalibratedClassifierCV(clone(estimator), cv=2),
        StackingClassifier([("a", clone(estimator))], cv=2),
        BaggingClassifier(clone(estimator), 2, max_features=2, random_state=0),
        OneVsRestClassifier(clone(estimator)),
        make_pipeline(make_union("passthrough", FunctionTransformer()), estimator),
    ):
        meta = clone(meta).fit(X, Y)
        assert_rows_are_distributions(meta.predict_proba(X))
        assert set(meta.predict(X)) <= set("vwxyz")
    assert set(OneVsOneClassifier(clone(estimator)).fit(X, Y).predict(X)) <= set(Y)
    halving = HalvingGridSearchCV(
        clone(estimator), {}, cv=2, min_resources=100, error_score="raise"
    )
    assert halving.fit(X, Y).best_score_ > 0
    scores = cross_validate(
        clone(estimator), X, Y, cv=2, error_score="raise",
        scoring=["accuracy", "neg_log_loss", "roc_auc_ovr", "f1_macro"],
    )  # fmt: skip
    assert all(np.isfinite(found).all() for found in scores.values())


@every_classifier
def test_cross_val_predict_is_the_answers_of_the_folds(estimator):
    folds = KFold(2)
    methods = ["predict", "predict_proba", "predict_log_proba", "decision_function"]
    for method in methods:
        if not hasattr(estimator, method):
            continue
        found = cross_val_predict(clone(estimator), X, Y, cv=folds, method=method)
        for train, test in folds.split(X):
            fitted = clone(estimator).fit(X[train], Y[train])
            np.testing.assert_array_equal(found[test], getattr(fitted, method)(X[test]))


@every_classifier
def test_frames_memory_maps_and_strings(estimator, tmp_path):
    proba = expected(estimator)
    frame = pd.DataFrame(X, columns=COLUMNS, index=np.arange(len(X)) + 7)
    fitted = clone(estimator).fit(frame, pd.Series(Y, index=frame.index))
    np.testing.assert_array_equal(fitted.predict_proba(frame), proba)
    assert fitted.feature_names_in_.tolist() == COLUMNS

    joblib.dump((X, Y, fitted), tmp_path / "all")
    mapped_X, mapped_Y, model = joblib.load(tmp_path / "all", mmap_mode="r")
    assert not mapped_X.flags.writeable
    again = clone(estimator).fit(mapped_X, mapped_Y)
    np.testing.assert_array_equal(again.predict_proba(mapped_X), proba)
    np.testing.assert_array_equal(model.predict_proba(frame), proba)

    wide = np.dtypes.StringDType()
    for strings in (Y.astype(wide), Y.astype(object), pd.Series(Y, dtype="category")):
        fitted = clone(estimator).fit(X, strings)
        np.testing.assert_array_equal(fitted.predict_proba(X), proba)
        assert fitted.predict(X).tolist() == clone(fitted).fit(X, Y).predict(X).tolist()
        assert fitted.classes_.dtype == object  # skops cannot write StringDType
        assert fitted.score(X, strings) == fitted.score(X, Y)
        np.testing.assert_array_equal(
            fitted.target_log_proba(X, strings), fitted.target_log_proba(X, Y)
        )


@pytest.mark.parametrize(
    "estimator", [e for e in CLASSIFIERS if READS[type(e)] != "features"], ids=repr
)
def test_windows_of_strings(estimator):
    words = np.array(["a", "b", "c", "d"])[X - 5]
    proba = clone(estimator).fit(words, Y).predict_proba(words)
    for kind in (object, np.dtypes.StringDType()):
        fitted = clone(estimator).fit(words.astype(kind), Y)
        np.testing.assert_array_equal(fitted.predict_proba(words.astype(kind)), proba)


@every_classifier_of_features
def test_sparse_formats(estimator):
    S = sp.csr_array(X.astype(np.float64))
    long = S.copy()
    long.indices, long.indptr = long.indices.astype("i8"), long.indptr.astype("i8")
    proba = clone(estimator).fit(S, Y).predict_proba(S)
    assert_rows_are_distributions(proba)
    formats = [S.asformat(f) for f in ("csc", "coo", "lil", "dok", "bsr")]
    for other in [sp.csr_matrix(S), long, *formats]:
        fitted = clone(estimator).fit(other, Y)
        np.testing.assert_array_equal(fitted.predict_proba(other), proba)


@every_classifier
def test_weights_are_routed(estimator):
    weight = np.where(np.arange(len(Y)) % 2, 2.0, 1.0)
    with config_context(enable_metadata_routing=True):
        inner = clone(estimator).set_fit_request(sample_weight=True)
        inner.set_score_request(sample_weight=True)
        if isinstance(getattr(inner, "estimator", None), GaussianNB):
            inner.estimator.set_fit_request(sample_weight=True)
        alone = clone(inner).fit(X, Y, sample_weight=weight).predict_proba(X)
        for meta in (
            VotingClassifier([("a", clone(inner))], voting="soft"),
            GridSearchCV(clone(inner), {}, cv=2, error_score="raise"),
            make_pipeline("passthrough", clone(inner)),
        ):
            meta.fit(X, Y, sample_weight=weight)
            np.testing.assert_array_equal(meta.predict_proba(X), alone)


@every_classifier
def test_single_precision_of_x_does_not_change_the_type_of_answers(estimator):
    """Probabilities are float64: single precision would lose small ones."""
    fitted = clone(estimator).fit(X.astype(np.float32), Y)
    assert fitted.predict_proba(X.astype(np.float32)).dtype == np.float64


@every_classifier
def test_missing_labels_are_named(estimator):
    wide = Y.astype(np.dtypes.StringDType(na_object=np.nan))
    for labels, missing in ((Y.astype(object), None), (wide, np.nan)):
        labels[1] = missing
        with pytest.raises(ValueError, match=r"y\[1\] is (missing|an empty path)"):
            clone(estimator).fit(X, labels)


def test_a_random_field_in_meta_estimators():
    words = [["the", "cat", "ran"], ["the", "dog", "sat"], ["dogs", "ran"], []] * 6
    tags = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"], []] * 6
    sequences = [[{"w": w, "end": w[-2:]} for w in row] for row in words]
    crf = ConditionalRandomField(c2=0.1)
    alone = clone(crf).fit(sequences, tags)
    for meta in (
        GridSearchCV(crf, {"c2": [0.1]}, cv=3, error_score="raise"),
        make_pipeline("passthrough", crf),
        make_pipeline(FunctionTransformer(list), crf),
        FrozenEstimator(clone(alone).fit(sequences, tags)),
    ):
        found = meta.fit(sequences, tags)
        assert found.predict(sequences) == alone.predict(sequences)
        for ours, theirs in zip(
            found.predict_proba(sequences), alone.predict_proba(sequences)
        ):
            np.testing.assert_array_equal(ours, theirs)
        assert found.score(sequences, tags) == 1.0
    scores = cross_validate(crf, sequences, tags, cv=KFold(3), error_score="raise")
    assert scores["test_score"].tolist() == [1.0] * 3
    halving = HalvingGridSearchCV(
        crf, {"c2": [0.1, 10.0]}, cv=2, min_resources=8, random_state=0
    )
    assert halving.fit(sequences, tags).best_params_ == {"c2": 0.1}
