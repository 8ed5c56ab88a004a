"""Perplexities on real text that other implementations agree on."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from sklstruct.context_tree import context_windows
from sklstruct.smoothing import KneserNeyLM

DATA = os.environ.get("SKLSTRUCT_DATA")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not DATA, reason="SKLSTRUCT_DATA is not set"),
]


@pytest.fixture(scope="module")
def wikitext():
    def read(name):
        path = Path(DATA, "wikitext-2", f"{name}.txt.gz")
        with gzip.open(path, "rt", encoding="utf-8") as file:
            return [line.split() for line in file if line.strip()]

    train, test = (context_windows(read(name), 4) for name in ("train", "test"))
    # The test text as ids of the training vocabulary, which covers it.
    code = {s: i for i, s in enumerate(train.vocabulary.tolist())}
    ids = np.array([code[s] for s in test.vocabulary.tolist()] + [-1])
    keep = test.sample_weight > 0
    return train, ids[test.contexts[keep]], ids[test.targets[keep]]


@pytest.mark.parametrize(
    "discount, perplexity", [("single", 230.8), ("modified", 224.6)]
)
def test_perplexity_of_order_5(wikitext, discount, perplexity):
    train, X, y = wikitext
    model = KneserNeyLM(max_depth=4, discount=discount, padding=-1)
    model.fit(train.contexts, train.targets, sample_weight=train.sample_weight)
    assert model.classes_.size == 33_278
    got = np.exp(-model.target_log_proba(X, y).mean())
    assert got == pytest.approx(perplexity, abs=0.5)
    assert model.backoff_model_.check_normalized() < 1e-12
