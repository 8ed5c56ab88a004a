"""UnigramDiffusionDisplay."""

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError

from sklstruct.plotting import UnigramDiffusionDisplay
from sklstruct.smoothing import AdditiveUnigram, GraphDiffusionUnigram

COUNTS = [9, 4, 3, 2, 2, 1, 1, 1, 0, 0, 0, 0]


def test_curves_are_the_probabilities(pyplot):
    models = {
        "add": AdditiveUnigram().from_counts(COUNTS),
        "diffusion": GraphDiffusionUnigram().from_counts(COUNTS),
    }
    display = UnigramDiffusionDisplay.from_estimator(models, linewidth=3)
    empirical, add, diffusion = display.lines_
    x, y = empirical.get_data()
    np.testing.assert_allclose(y, np.asarray(x) / sum(COUNTS))
    for line, model in ((add, models["add"]), (diffusion, models["diffusion"])):
        x, y = line.get_data()
        np.testing.assert_array_equal(x, [0, 1, 2, 3, 4, 9])
        at = [COUNTS.index(c) for c in x]
        np.testing.assert_allclose(y, model.proba_[at], rtol=1e-14)
        assert line.get_linewidth() == 3
    labels = [t.get_text() for t in display.ax_.get_legend().get_texts()]
    assert labels == ["empirical", "add", "diffusion"]
    assert display.figure_ is display.ax_.figure
    display.figure_.canvas.draw()


def test_axes_are_reused_and_counts_cut(pyplot):
    _, ax = pyplot.subplots()
    model = AdditiveUnigram().from_counts(COUNTS)
    display = UnigramDiffusionDisplay.from_estimator(model, ax=ax, max_count=3)
    assert display.ax_ is ax
    assert display.lines_[1].get_xdata().max() == 3
    again = UnigramDiffusionDisplay(display.curves, display.n_tokens).plot()
    assert again.ax_ is not ax


def test_names_of_a_list(pyplot):
    models = [
        AdditiveUnigram().from_counts(COUNTS),
        AdditiveUnigram(0.1).from_counts(COUNTS),
        GraphDiffusionUnigram().from_counts(COUNTS),
    ]
    display = UnigramDiffusionDisplay.from_estimator(models)
    assert list(display.curves) == [
        "AdditiveUnigram",
        "AdditiveUnigram (2)",
        "GraphDiffusionUnigram",
    ]


def test_mean_where_equal_counts_differ(pyplot):
    fitted = AdditiveUnigram().from_counts([1, 1, 2])
    fitted.proba_ = np.array([0.2, 0.4, 0.4])
    display = UnigramDiffusionDisplay.from_estimator(fitted)
    value, proba = display.curves["AdditiveUnigram"]
    np.testing.assert_allclose(value, [1, 2])
    np.testing.assert_allclose(proba, [0.3, 0.4])


def test_bad_input():
    fitted = AdditiveUnigram().from_counts(COUNTS)
    other = AdditiveUnigram().from_counts([1, 2])
    with pytest.raises(ValueError, match="other counts"):
        UnigramDiffusionDisplay.from_estimator({"a": fitted, "b": other})
    with pytest.raises(ValueError, match="empty"):
        UnigramDiffusionDisplay.from_estimator([])
    with pytest.raises(NotFittedError):
        UnigramDiffusionDisplay.from_estimator(AdditiveUnigram())
