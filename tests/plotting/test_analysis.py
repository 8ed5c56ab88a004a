"""The displays of where a model is better: numbers by hand, and what is drawn."""

import numpy as np
import pytest

from sklstruct import StructuredLogLinearLM
from sklstruct.language_model import LanguageModel
from sklstruct.plotting import DepthLossDisplay, WeightsByDepthDisplay
from sklstruct.smoothing import KneserNeyLM, WittenBellLM

TRAIN = ["a b c", "b a", "a a b", "c a b", "", "b", "a b a b"]
TEST = ["a b", "c zebra a", "b a b c", ""]


def fitted(estimator, **params):
    return LanguageModel(estimator, max_depth=2, **params).fit(TRAIN)


def test_gains_by_depth_are_over_the_same_tokens(pyplot):
    base, other = fitted(KneserNeyLM(discount=0.5)), fitted(WittenBellLM())
    display = DepthLossDisplay.from_estimator(
        {"WB": other, "same": base}, TEST, baseline=base, baseline_name="KN"
    )
    train = set()
    for sentence in TRAIN:
        words = ("<s>", *sentence.split(), "</s>")
        for i in range(1, len(words)):
            for k in range(3):
                if k <= i:
                    train.add(words[i - k : i])
    depths = []
    for sentence in TEST:
        words = [w if w in "abc" else "<unk>" for w in sentence.split()]
        words = ("<s>", *words, "</s>")
        for i in range(1, len(words)):
            deepest = max(
                k for k in range(3) if k <= i and words[i - k : i] in train | {()}
            )
            depths.append(deepest)
    expected = np.bincount(depths, minlength=3)
    np.testing.assert_array_equal(display.n_tokens, expected)
    gain = np.concatenate(other.token_log_proba(TEST)) - np.concatenate(
        base.token_log_proba(TEST)
    )
    for k in range(3):
        at = np.array(depths) == k
        if at.any():
            assert display.gain["WB"][k] == pytest.approx(gain[at].mean())
            assert display.gain["same"][k] == 0
        else:
            assert np.isnan(display.gain["WB"][k])
    assert [line.get_label() for line in display.lines_] == ["WB", "same"]
    assert "KN" in display.ax_.get_ylabel()
    assert [bar.get_height() for bar in display.count_ax_.patches] == expected.tolist()
    shallow = DepthLossDisplay.from_estimator({"WB": other}, [""], baseline=base)
    assert shallow.n_tokens.tolist() == [0, 1, 0]  # depths that no token reaches


def test_weights_by_depth(pyplot):
    loglinear = fitted(StructuredLogLinearLM(penalty="l1", lam=0.5))
    base = fitted(KneserNeyLM(discount=0.5))
    display = WeightsByDepthDisplay.from_estimator({"l1": loglinear, "KN": base})
    assert sum(display.n_weights["l1"]) == loglinear.estimator_.n_parameters_
    assert sum(display.n_weights["KN"]) == base.backoff_model_.n_pairs
    assert display.n_weights["KN"][0] == base.backoff_model_.n_classes
    np.testing.assert_array_equal(
        display.lines_[1].get_ydata(), display.n_weights["KN"]
    )


def test_bad_input(pyplot):
    base = fitted(KneserNeyLM(discount=0.5))
    with pytest.raises(ValueError, match="estimator is empty"):
        DepthLossDisplay.from_estimator({}, TEST, baseline=base)
    with pytest.raises(TypeError, match="x: a LanguageModel is needed, got int"):
        DepthLossDisplay.from_estimator({"x": 3}, TEST, baseline=base)
    with pytest.raises(ValueError, match="X is empty"):
        DepthLossDisplay.from_estimator({"x": base}, [], baseline=base)
    with pytest.raises(ValueError, match="gain is empty"):
        DepthLossDisplay([1], {}).plot()
    with pytest.raises(ValueError, match=r"gain\['x'\] must have one value"):
        DepthLossDisplay([1, 2], {"x": [1]}).plot()
    with pytest.raises(ValueError, match="n_weights is empty"):
        WeightsByDepthDisplay({}).plot()
    with pytest.raises(ValueError, match="at least 0"):
        WeightsByDepthDisplay({"x": [-1]}).plot()
