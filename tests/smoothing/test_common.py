"""scikit-learn's checks over the estimators of sklstruct.smoothing."""

import pickle

import numpy as np
import pytest
from sklearn.utils.estimator_checks import (
    check_dataframe_column_names_consistency,
    check_inplace_ensure_writeable,
    check_param_validation,
    parametrize_with_checks,
)

from sklstruct.context_tree import context_windows
from sklstruct.smoothing import AdditiveLM, KneserNeyLM

ALL = [
    KneserNeyLM(),
    KneserNeyLM(discount="single", interpolate=False),
    AdditiveLM(),
]

_NOT_PATHS = (
    "sparse X must be a path matrix of SuffixTreeVectorizer; this check passes an "
    "arbitrary one, which is refused with a message that says so"
)
FAILED_CHECKS = {
    "check_estimator_sparse_tag": _NOT_PATHS,
    "check_sample_weight_equivalence_on_sparse_data": _NOT_PATHS,
}

# The checks' data are small: their counts of counts give no discounts.
pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def expected_failed_checks(estimator):
    return FAILED_CHECKS


@parametrize_with_checks(ALL, expected_failed_checks=expected_failed_checks)
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
@pytest.mark.parametrize("estimator", ALL, ids=repr)
def test_checks_that_third_parties_do_not_get(estimator, check):
    check(type(estimator).__name__, estimator)


@pytest.mark.parametrize("estimator", ALL, ids=repr)
def test_pickle_holds_flat_arrays_only(estimator):
    rng = np.random.default_rng(0)
    w = context_windows([rng.integers(0, 8, 30).tolist() for _ in range(50)], 2,
                        start=-2, end=-3)  # fmt: skip
    estimator = estimator.set_params(padding=-1).fit(
        w.contexts, w.targets, sample_weight=w.sample_weight
    )
    model = estimator.backoff_model_
    arrays = 8 * (model.log_prob.size + model.log_backoff.size)
    data = pickle.dumps(estimator)
    assert len(data) < 3 * arrays + 10_000
    np.testing.assert_array_equal(
        pickle.loads(data).predict_proba(w.contexts),
        estimator.predict_proba(w.contexts),
    )


@pytest.mark.parametrize("estimator", ALL, ids=repr)
def test_log_proba_ranks_like_proba(estimator):
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 4, (200, 2)), rng.integers(0, 5, 200)
    estimator.set_params(padding=None).fit(X, y)
    log_proba = estimator.predict_log_proba(X)
    proba = estimator.predict_proba(X)
    np.testing.assert_allclose(np.exp(log_proba), proba, rtol=1e-14)
    np.testing.assert_array_equal(estimator.predict(X), proba.argmax(axis=1))
    np.testing.assert_array_equal(
        estimator.target_log_proba(X, y), log_proba[np.arange(200), y]
    )
