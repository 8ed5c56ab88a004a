"""Taggers of real sentences."""

import gzip
import os
from pathlib import Path

import numpy as np
import pytest
from _hmm_problems import only

from sklstruct.hmm import HighOrderHMM, SuffixEmission


def sentences(split):
    root = os.environ.get("SKLSTRUCT_DATA")
    if not root:
        pytest.skip("SKLSTRUCT_DATA is not set")
    X, y = [[]], [[]]
    path = Path(root) / "ud-english-ewt" / f"{split}.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if not line.strip("\n"):
                X.append([])
                y.append([])
            elif not line.startswith("# "):
                word, _, tag = line.rstrip("\n").split("\t")
                X[-1].append(word)
                y[-1].append(tag)
    return X, y


@pytest.mark.slow
@pytest.mark.parametrize("order", range(2, 10))
def test_refinement_equals_lattice(order):
    X, _ = sentences("test")
    tagger = HighOrderHMM(order).fit(*sentences("train"))
    lattice = tagger.decode(X[:200])
    assert not lattice.n_iterations.any()
    with only("refine"):
        refined = tagger.decode(X[:200])
    np.testing.assert_allclose(lattice.log_proba, refined.log_proba, atol=1e-9)
    assert (refined.gap <= 1e-9).all()


def test_few_labelled_sentences():
    """The guess of unknown words is regularised as much as its few words need.

    A guess by the last letters alone (TnT) gives .779, and a logistic regression with
    the strength that suits all sentences .752.
    """
    X, y = sentences("train")
    order = np.random.RandomState(0).permutation(len(X))[: len(X) // 100]
    tagger = HighOrderHMM(2, emission=SuffixEmission(min_proba=0.01))
    tagger.fit([X[i] for i in order], [y[i] for i in order])
    assert tagger.score(*sentences("dev")) > 0.795
