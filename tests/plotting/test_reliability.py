"""ReliabilityDisplay."""

import numpy as np
import pytest
from numpy.testing import assert_allclose
from sklearn.calibration import calibration_curve
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

from sklstruct import HierarchicalClassifier
from sklstruct.plotting import ReliabilityDisplay

pytest.importorskip("matplotlib").use("agg")


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    return X[:1200] / 16, y[:1200], X[1200:] / 16, y[1200:]


@pytest.mark.parametrize("strategy", ["uniform", "quantile"])
def test_curve_is_that_of_scikit_learn(strategy):
    rng = np.random.default_rng(0)
    p = rng.uniform(0.1, 1, size=500)
    right = rng.uniform(size=500) < p**2
    display = ReliabilityDisplay(p, right, n_bins=8, strategy=strategy)
    share, mean = calibration_curve(right, p, n_bins=8, strategy=strategy)
    assert_allclose(display.accuracy_, share)
    assert_allclose(display.mean_confidence_, mean)
    assert display.count_.sum() == 500
    assert_allclose(display.ece_, np.abs(share - mean) @ display.count_ / 500)
    assert ReliabilityDisplay([1.0, 0.0], [True, False]).ece_ == 0


@pytest.mark.parametrize("kind", [LogisticRegression, HierarchicalClassifier])
def test_from_estimator(digits, kind):
    X, y, Z, target = digits
    model = kind().fit(X, y)
    first = ReliabilityDisplay.from_estimator(model, Z, target)
    confidence = model.predict_proba(Z).max(axis=1)
    right = model.predict(Z) == target
    second = ReliabilityDisplay(confidence, right, name="again").plot(ax=first.ax_)
    assert_allclose(first.accuracy_, second.accuracy_)
    assert_allclose(first.ece_, second.ece_, atol=1e-6)
    diagonal, *curves = first.ax_.lines
    assert len(curves) == 2
    assert_allclose(diagonal.get_xydata(), [[0, 0], [1, 1]])
    assert first.line_.get_label().startswith(kind.__name__)


def test_bad_input_of_reliability():
    for confidence, right, message in [
        ([0.5], [True, False], "of one length"),
        ([], [], "not empty"),
        ([1.5], [True], "from 0 to 1"),
        ([np.nan], [True], "from 0 to 1"),
    ]:
        with pytest.raises(ValueError, match=message):
            ReliabilityDisplay(confidence, right)
    with pytest.raises(ValueError, match="^n_bins"):
        ReliabilityDisplay([0.5], [True], n_bins=0)
    with pytest.raises(ValueError, match="^strategy"):
        ReliabilityDisplay([0.5], [True], strategy="log")
