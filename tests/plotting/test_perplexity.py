"""PerplexityDisplay draws what the models score."""

import pytest

from sklstruct.language_model import LanguageModel
from sklstruct.plotting import PerplexityDisplay
from sklstruct.smoothing import AdditiveLM, KneserNeyLM

TEXT = ["a b c", "b a", "a a b", "c a b", "", "b"]


def test_from_estimator(pyplot):
    models = {
        "additive": [
            LanguageModel(AdditiveLM(delta=0.1), max_depth=m).fit(TEXT) for m in (2, 1)
        ],
        "Kneser-Ney": [
            LanguageModel(KneserNeyLM(discount=0.5), max_depth=m).fit(TEXT)
            for m in (1, 2)
        ],
    }
    _, ax = pyplot.subplots()
    display = PerplexityDisplay.from_estimator(
        models, iter(TEXT), include_end=False, ax=ax
    )
    assert display.ax_ is ax and display.figure_ is ax.figure
    for line, (name, of_name) in zip(display.lines_, models.items(), strict=True):
        expected = {m.max_depth + 1: m.perplexity(TEXT, include_end=False)
                    for m in of_name}  # fmt: skip
        assert line.get_label() == name
        assert dict(zip(line.get_xdata(), line.get_ydata())) == expected
        assert list(line.get_xdata()) == [2, 3]
    assert [t.get_text() for t in ax.get_legend().get_texts()] == list(models)
    assert "order" in ax.get_xlabel() and "perplexity" in ax.get_ylabel()


@pytest.mark.parametrize(
    "values", [{}, {"a": {0: 3.0}}, {"a": {1.5: 3.0}}, {"a": {2: 0.5}},
               {"a": {2: float("nan")}}]
)  # fmt: skip
def test_bad_values(values, pyplot):
    with pytest.raises(ValueError, match="perplexity"):
        PerplexityDisplay(values).plot()
