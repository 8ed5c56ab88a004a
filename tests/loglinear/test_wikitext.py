"""The log-linear model on real text: perplexity, optimality, normalisation."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest

from sklstruct import StructuredLogLinearLM
from sklstruct.language_model import LanguageModel

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

    return read("train"), read("test")


@pytest.mark.parametrize(
    "penalty, lam, alpha, bound",
    # Modified Kneser-Ney: 224.8. The bounds are the design's prototype, rounded up.
    [
        ("l2", 0.1, 0.7, 221.5),
        ("tree_l2", 0.5, 0.9, 226.5),
        ("tree_linf", 0.5, 0.8, 226.5),
    ],
)
def test_perplexity_of_order_5(wikitext, penalty, lam, alpha, bound):
    train, test = wikitext
    lm = LanguageModel(
        StructuredLogLinearLM(penalty=penalty, lam=lam, alpha=alpha), max_depth=4
    ).fit(train)
    estimator = lm.estimator_
    assert estimator.classes_.size == 33_278
    assert estimator.optimality_ <= estimator.tol
    assert np.isfinite(estimator.objective_).all()
    assert lm.perplexity(test) < bound
    assert estimator.backoff_model_.check_normalized() < 1e-12
