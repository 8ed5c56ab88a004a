"""scikit-learn's checks, and our own, over every public estimator."""

import inspect
import pickle
import pkgutil
from importlib import import_module

import numpy as np
import pytest
from sklearn import config_context
from sklearn.base import BaseEstimator, clone
from sklearn.callback import ProgressBar
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_inplace_ensure_writeable,
    check_param_validation,
    check_transformer_get_feature_names_out,
    check_transformer_get_feature_names_out_pandas,
    parametrize_with_checks,
)

import sklstruct
from sklstruct import (
    AdditiveLM,
    HierarchicalClassifier,
    KneserNeyLM,
    StructuredLogLinearLM,
    SuffixTreeVectorizer,
)
from sklstruct.backoff._estimator import BackoffClassifier
from sklstruct.language_model import LanguageModel
from sklstruct.metrics import LikelihoodScorer
from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
)
from sklstruct.taxonomy import (
    TAXONOMY_BUILDERS,
    GivenTaxonomy,
    RefinedTaxonomy,
    TaxonomyBuilder,
)

PENALTIES = ["l1", "l2", "elastic_net", "tree_l2", "tree_linf"]

# One entry for each way of working of each public estimator.
ESTIMATORS = [
    SuffixTreeVectorizer(),
    SuffixTreeVectorizer(collapse=True),
    *(StructuredLogLinearLM(penalty=p) for p in PENALTIES),
    StructuredLogLinearLM(penalty="l2", solver="fista", positive=False),
    KneserNeyLM(),
    KneserNeyLM(discount="single", interpolate=False),
    AdditiveLM(),
    AdditiveUnigram(),
    AbsoluteDiscountUnigram(),
    GoodTuringUnigram(),
    GraphDiffusionUnigram(),
    GraphDiffusionUnigram("kernel", n_terms="exact"),
    GraphSpreadUnigram(),
]

# Public classes that are estimators by interface but do not take a 2-D array, so
# that scikit-learn's checks cannot reach them: where they are tested instead.
ELSEWHERE = {
    HierarchicalClassifier: "tests/hierarchical (its own table of checks, one a builder)",
    TaxonomyBuilder: "tests/taxonomy (builders build from (X, y) and do not fit)",
    **dict.fromkeys(
        [*TAXONOMY_BUILDERS.values(), GivenTaxonomy, RefinedTaxonomy],
        "tests/taxonomy (as TaxonomyBuilder)",
    ),
    LanguageModel: "tests/language_model (its X are sentences)",
    LikelihoodScorer: "tests/metrics (a scorer; an estimator for its parameters only)",
}

_NOT_PATHS = (
    "a sparse X must be a path matrix of SuffixTreeVectorizer; the check passes an "
    "arbitrary one, which is refused with a message that says so"
)


def reads_contexts(estimator):
    return isinstance(estimator, BackoffClassifier) and hasattr(estimator, "padding")


def expected_failed_checks(estimator):
    failed = {}
    if reads_contexts(estimator):
        failed["check_estimator_sparse_tag"] = _NOT_PATHS
        failed["check_sample_weight_equivalence_on_sparse_data"] = _NOT_PATHS
    return failed


# The checks' data are tiny: no discounts can be estimated, solvers may run long.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning"),
    pytest.mark.filterwarnings("ignore:GoodTuringUnigram:UserWarning"),
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
]


@parametrize_with_checks(ESTIMATORS, expected_failed_checks=expected_failed_checks)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize(
    "check",
    [
        check_param_validation,
        check_dataframe_column_names_consistency,
        check_inplace_ensure_writeable,
    ],
)
@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_checks_that_third_parties_do_not_get(estimator, check):
    check(type(estimator).__name__, estimator)


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if hasattr(e, "transform")], ids=repr
)
def test_feature_names_out(estimator):
    check_transformer_get_feature_names_out(type(estimator).__name__, estimator)
    check_transformer_get_feature_names_out_pandas(type(estimator).__name__, estimator)


def public_estimators():
    for module in pkgutil.walk_packages(sklstruct.__path__, "sklstruct."):
        if any(part.startswith("_") for part in module.name.split(".")[1:]):
            continue
        package = import_module(module.name)
        for name in getattr(package, "__all__", ()):
            thing = getattr(package, name)
            if inspect.isclass(thing) and issubclass(thing, BaseEstimator):
                yield thing


def test_every_public_estimator_is_checked():
    checked = {type(e) for e in ESTIMATORS} | set(ELSEWHERE)
    missing = {e.__name__ for e in public_estimators() if e not in checked}
    assert not missing


def test_top_level_names():
    for name in sklstruct.__all__:
        assert getattr(sklstruct, name) is not None
    with pytest.raises(AttributeError, match="no_such"):
        sklstruct.no_such_name  # noqa: B018


# ------------------------------------------------------------------- classifiers

CLASSIFIERS = [e for e in ESTIMATORS if hasattr(e, "predict_proba")]


def toy(seed=0, n=200):
    rng = np.random.default_rng(seed)
    X = rng.integers(0, 4, size=(n, 3))
    y = np.where(rng.random(n) < 0.7, X[:, -1], rng.integers(0, 5, size=n))
    return X, np.array(["v", "w", "x", "y", "z"])[y]


def ready(estimator):
    return clone(estimator).set_params(
        **{k: 1e-7 for k in ("tol",) if k in estimator.get_params()},
        **{k: 20_000 for k in ("max_iter",) if k in estimator.get_params()},
    )


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_log_proba_ranks_exactly_like_proba(estimator):
    X, y = toy()
    estimator = clone(estimator).fit(X, y)
    new = np.random.default_rng(1).integers(-1, 6, size=(300, 3))
    proba, log_proba = estimator.predict_proba(new), estimator.predict_log_proba(new)
    np.testing.assert_allclose(np.exp(log_proba), proba, rtol=1e-13)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    assert (proba > 0).all()
    order = np.argsort(log_proba, axis=1, kind="stable")
    assert (np.diff(np.take_along_axis(proba, order, axis=1), axis=1) >= 0).all()
    assert np.array_equal(estimator.predict(new), estimator.classes_[proba.argmax(1)])


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_probabilities_do_not_depend_on_the_batch(estimator):
    X, y = toy()
    estimator = clone(estimator).fit(X, y)
    whole = estimator.predict_proba(X)
    alone = np.vstack([estimator.predict_proba(X[i : i + 1]) for i in range(len(X))])
    assert np.array_equal(whole, alone)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_weight_two_is_repetition_and_zero_is_absence(estimator):
    X, y = toy()
    weight = np.random.default_rng(2).integers(0, 3, size=len(y))
    weighted = ready(estimator).fit(X, y, sample_weight=weight)
    again = np.repeat(np.arange(len(y)), weight)
    repeated = ready(estimator).fit(X[again], y[again])
    assert np.array_equal(weighted.classes_, repeated.classes_)
    np.testing.assert_allclose(
        weighted.predict_proba(X), repeated.predict_proba(X), atol=1e-5
    )
    if hasattr(weighted, "objective_"):
        assert weighted.objective_[-1] == pytest.approx(repeated.objective_[-1], 1e-9)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_closed_vocabulary(estimator):
    X, y = toy()
    classes = np.array(["never", "z", "y", "x", "w", "v"])
    estimator = clone(estimator).set_params(classes=classes).fit(X, y)
    assert estimator.classes_.tolist() == sorted(classes)
    proba = estimator.predict_proba(X)
    assert proba.shape == (len(X), 6) and (proba >= 0).all()
    if reads_contexts(estimator):  # some unigrams give unseen symbols nothing
        assert (proba > 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)
    with pytest.raises(ValueError, match="'q'.*classes"):
        clone(estimator).fit(X, np.where(y == "v", "q", y))
    with pytest.raises(ValueError, match="twice"):
        clone(estimator).set_params(classes=["v", "v"]).fit(X, y)


@pytest.mark.parametrize("estimator", CLASSIFIERS, ids=repr)
def test_target_log_proba(estimator):
    X, y = toy()
    estimator = clone(estimator).fit(X, y)
    row = np.searchsorted(estimator.classes_, y)
    np.testing.assert_allclose(
        estimator.target_log_proba(X, y),
        estimator.predict_log_proba(X)[np.arange(len(y)), row],
        rtol=1e-13,
    )
    other = np.array(["nobody"] * 2 + ["v"])
    assert np.isnan(estimator.target_log_proba(X[:3], other)).tolist() == [1, 1, 0]
    with pytest.raises(ValueError, match="inconsistent"):
        estimator.target_log_proba(X[:3], y[:2])


@pytest.mark.parametrize("interface", ["sparray", "spmatrix"])
@pytest.mark.parametrize("collapse", [False, True])
@pytest.mark.parametrize(
    "estimator", [e for e in CLASSIFIERS if reads_contexts(e)], ids=repr
)
def test_paths_and_windows_give_the_same_model(estimator, collapse, interface):
    if collapse and getattr(estimator, "penalty", "") == "tree_l2":
        pytest.skip("refused: tree_l2 does not keep merged weights equal")
    X, y = toy()
    params = {"alpha": 1.0} if hasattr(estimator, "alpha") else {}
    dense = ready(estimator).set_params(**params).fit(X, y)
    with config_context(sparse_interface=interface):
        vectorizer = SuffixTreeVectorizer(max_depth=3, collapse=collapse)
        paths = vectorizer.fit_transform(X)
        fitted = ready(estimator).set_params(**params).fit(paths, y)
        new = np.random.default_rng(1).integers(-1, 6, size=(100, 3))
        np.testing.assert_allclose(
            fitted.predict_proba(vectorizer.transform(new)),
            dense.predict_proba(new),
            atol=1e-5,
        )
    with pytest.raises(ValueError, match="path matrix"):
        fitted.predict(X)
    with pytest.raises(ValueError, match="sparse"):
        dense.predict(paths)


@pytest.mark.parametrize("estimator", ESTIMATORS, ids=repr)
def test_pickles_are_flat_arrays(estimator):
    X, y = toy(n=4000)
    X = np.random.default_rng(0).integers(0, 30, size=(4000, 3))
    estimator = clone(estimator).fit(X, y)
    seen, total = set(), 0

    def add(thing):
        nonlocal total
        if id(thing) in seen:
            return
        seen.add(id(thing))
        if isinstance(thing, np.ndarray):
            total += thing.nbytes
        elif hasattr(thing, "__dict__"):
            for value in vars(thing).values():
                add(value)

    add(estimator)
    dump = pickle.dumps(estimator, protocol=5)
    assert len(dump) < 1.1 * total + 20_000
    again = pickle.loads(dump)
    method = "predict_proba" if hasattr(estimator, "predict_proba") else "transform"
    a, b = getattr(estimator, method)(X), getattr(again, method)(X)
    assert (a != b).sum() == 0


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if hasattr(e, "n_jobs")], ids=repr
)
def test_n_jobs_never_changes_results(estimator):
    X, y = toy(n=2000)
    one = clone(estimator).set_params(n_jobs=1).fit(X, y)
    two = clone(estimator).set_params(n_jobs=2).fit(X, y)
    assert np.array_equal(one.predict_proba(X), two.predict_proba(X))
    assert np.array_equal(one.coef_, two.coef_)


@pytest.mark.parametrize(
    "estimator", [e for e in ESTIMATORS if hasattr(e, "set_callbacks")], ids=repr
)
def test_callbacks(estimator, capsys):
    X, y = toy()

    class Stop:
        """Counts iterations and stops the fit at the third."""

        seen = 0

        def setup(self, estimator, context):
            pass

        def teardown(self, estimator, context):
            pass

        def on_fit_task_begin(self, estimator, context):
            pass

        def on_fit_task_end(self, estimator, context):
            if context.task_name == "iteration":
                self.seen += 1
                return self.seen == 3
            return False

    stop = Stop()
    fitted = clone(estimator).set_params(tol=0.0).set_callbacks(stop).fit(X, y)
    assert stop.seen == 3 and fitted.n_iter_ == 3
    np.testing.assert_allclose(fitted.predict_proba(X).sum(axis=1), 1.0, atol=1e-12)
    clone(estimator).set_callbacks(ProgressBar()).fit(X, y)
