"""The file of a model in files, line by line that of the model in memory."""

import io

import numpy as np
import pytest
from _cases import all_pairs
from _texts import random_tokens

from sklstruct.backoff import BackoffModel
from sklstruct.context_tree._runs import CountRuns
from sklstruct.context_tree._tokens import count_tokens
from sklstruct.exchange import _arpa_levels, write
from sklstruct.exchange._arpa_levels import ArpaLevels
from sklstruct.smoothing._levels import adjust_counts, smooth
from sklstruct.smoothing._shares import discount_levels, hand_down
from sklstruct.symbols import Labels, object_array

CLASSES = ["a", "bb", "c", "ddd", "e" * 40, "</s>", "never"]
LABELS = Labels(
    object_array(CLASSES), object_array([*CLASSES, "<s>"]), start="<s>", end="</s>"
)


def model_in_files(depth, end=True):
    tokens = random_tokens(np.random.default_rng(depth), 150, 5, 7, end=end)
    tokens[tokens == 6] = 7
    pairs, count = count_tokens(tokens, depth, 8, 7, skip=7)
    runs = CountRuns()
    runs.add(pairs, count)
    return runs.finish(), pairs, count


@pytest.mark.parametrize(
    *all_pairs(depth=[0, 1, 2, 4], memory=[1, 100, 2000, 10**6], rows=[1, 7, 1 << 16])
)
def test_lines(depth, memory, rows, monkeypatch):
    monkeypatch.setattr(_arpa_levels, "_ROWS", rows)
    run, pairs, count = model_in_files(depth)
    n_levels = len(run.levels)
    some, every = np.zeros(n_levels), np.ones(8, dtype=bool)
    adjusted = adjust_counts(run, some, every[:7], every, None)
    discounts = np.tile([0.5, 1.0, 1.5], (n_levels, 1))
    base = np.full(7, 1 / 7)
    numbers = smooth(run, adjusted.counts, discounts, base, None)
    found = io.BytesIO()
    ArpaLevels(run, *numbers, adjusted.n_kept.tolist(), LABELS, memory).put(found)

    used = pairs.adjusted_counts(count)
    shares = discount_levels(pairs, used.copy(), discounts, 0)
    model = BackoffModel(pairs, *hand_down(pairs, *shares, used[:7], base, 0), LABELS)
    expected = io.BytesIO()
    write(model, expected, format="arpa")
    assert found.getvalue() == expected.getvalue()
    assert found.getvalue().count(b"\n") > 8 + 10 * depth


def test_sentences_without_an_end_are_refused():
    """Their last words are followed by nothing, so that numbers would shift."""
    run, *_ = model_in_files(4, end=False)
    every = np.ones(8, dtype=bool)
    adjusted = adjust_counts(run, np.zeros(5), every[:7], every, None)
    discounts = np.tile([0.5, 1.0, 1.5], (5, 1))
    numbers = smooth(run, adjusted.counts, discounts, np.full(7, 1 / 7), None)
    model = ArpaLevels(run, *numbers, adjusted.n_kept.tolist(), LABELS, 10**6)
    with pytest.raises(ValueError, match="only counts of sentences with an end mark"):
        model.put(io.BytesIO())
