"""Metrics of ranked labels against their definitions, one sample after the other."""

import re

import numpy as np
import pytest
import scipy.sparse as sp
from sklearn.metrics import ndcg_score

from sklstruct.metrics import (
    label_propensities,
    ndcg_at_k,
    precision_at_k,
    propensity_scored_precision_at_k,
)


@pytest.fixture
def case():
    rng = np.random.default_rng(0)
    Y = (rng.random((60, 9)) < 0.25).astype(int)
    Y[:3] = 0
    return Y, rng.random((60, 9)).round(1), rng.random(60)


def first(score, k):
    return [sorted(range(len(row)), key=lambda j: (-row[j], j))[:k] for row in score]


@pytest.mark.parametrize("k, weighted", [(3, True), (1, False), (9, False)])
def test_definitions(case, k, weighted):
    Y, score, weight = case
    w = weight if weighted else np.ones(len(Y))
    options = {"k": k, "sample_weight": weight if weighted else None}
    top = first(score, k)
    hits = [[Y[i, j] for j in row] for i, row in enumerate(top)]
    precision = (w * np.mean(hits, axis=1)).sum() / w.sum()
    assert precision_at_k(Y, score, **options) == pytest.approx(precision)
    gain, best, worth = [], [], []
    p = np.linspace(0.2, 1, 9)
    scored = []
    for i, row in enumerate(top):
        n = min(k, Y[i].sum())
        dcg = sum(h / np.log2(r + 2) for r, h in enumerate(hits[i]))
        gain.append(dcg / sum(1 / np.log2(r + 2) for r in range(n)) if n else 0.0)
        scored.append(sum(Y[i, j] / p[j] for j in row))
        worth.append(sum(sorted(Y[i] / p, reverse=True)[:k]))
    best = (w * gain).sum() / w.sum()
    assert ndcg_at_k(Y, score, **options) == pytest.approx(best)
    found = propensity_scored_precision_at_k(Y, score, propensity=p, **options)
    assert found == pytest.approx((w * scored).sum() / (w * worth).sum())


def test_ndcg_is_that_of_scikit_learn(case):
    Y, _, _ = case
    score = np.random.default_rng(1).random(Y.shape)
    some = Y.sum(axis=1) > 0
    expected = ndcg_score(Y[some], score[some], k=4)
    assert ndcg_at_k(Y[some], score[some], k=4) == pytest.approx(expected)


@pytest.mark.parametrize(
    "metric", [precision_at_k, ndcg_at_k, propensity_scored_precision_at_k]
)
def test_sparse_scores_rank_what_they_store(case, metric):
    Y, score, _ = case
    params = {"k": 3}
    if metric is propensity_scored_precision_at_k:
        params["propensity"] = label_propensities(Y)
    kept = np.full(score.shape, -np.inf)
    for i, row in enumerate(first(score, 4)):
        kept[i, row] = score[i, row] + 0.1
    sparse = sp.csr_matrix(np.where(np.isinf(kept), 0, kept))
    expected = metric(Y, kept, **params)
    assert metric(sp.csr_matrix(Y), sparse, **params) == pytest.approx(expected)
    params["k"] = 1
    expected = metric(Y, kept, **params)
    assert metric(Y, sparse, **params) == pytest.approx(expected)
    params["k"] = 3
    # one stored label a sample: the other ranks are wrong
    only = sp.csr_matrix((np.ones(60), (np.arange(60), np.arange(60) % 9)), (60, 9))
    mean = Y[np.arange(60), np.arange(60) % 9].mean()
    assert precision_at_k(Y, only, k=3) == pytest.approx(mean / 3)
    assert metric(Y, Y, **(params | {"k": 9})) <= 1


def test_propensities():
    Y = np.zeros((1000, 3), dtype=int)
    Y[:1, 0], Y[:50, 1], Y[:, 2] = 1, 1, 1
    n = np.array([1, 50, 1000])
    C = (np.log(1000) - 1) * 2.5**0.55
    expected = 1 / (1 + C * np.exp(-0.55 * np.log(n + 1.5)))
    np.testing.assert_allclose(label_propensities(Y), expected)
    assert (np.diff(label_propensities(Y, A=0.6, B=2.6)) > 0).all()


def test_perfect_and_empty():
    Y = np.eye(3, dtype=int)
    assert ndcg_at_k(Y, Y, k=2) == 1
    assert precision_at_k(Y, Y, k=2) == 0.5
    p = [0.1, 0.5, 1]
    assert propensity_scored_precision_at_k(Y, Y, propensity=p, k=2) == 1
    zero = np.zeros((3, 3), dtype=int)
    assert propensity_scored_precision_at_k(zero, Y, propensity=p, k=1) == 0


def test_bad_input(case):
    Y, score, _ = case
    with pytest.raises(ValueError, match="indicator"):
        precision_at_k(2 * Y, score)
    with pytest.raises(ValueError, match="one shape"):
        precision_at_k(Y, score[:, 1:])
    with pytest.raises(ValueError, match="NaN"):
        ndcg_at_k(Y, np.where(score > 0.5, np.nan, score))
    with pytest.raises(ValueError, match="k must be"):
        precision_at_k(Y, score, k=10)
    with pytest.raises(ValueError, match="non-zero"):
        precision_at_k(Y, score, sample_weight=np.zeros(60))
    with pytest.raises(ValueError, match="sample_weight sums to inf"):
        precision_at_k(Y, score, sample_weight=np.full(60, 1e308))
    for p in ([1] * 8, [0] * 9, [2] * 9):
        with pytest.raises(ValueError, match="propensity must be"):
            propensity_scored_precision_at_k(Y, score, propensity=p)
    with pytest.raises(ValueError, match="3 or more"):
        label_propensities(Y[:2])
    with pytest.raises(ValueError, match="B > -1"):
        label_propensities(Y, B=-1)
    for name, value in (("A", "x"), ("B", None), ("A", 1e300), ("A", -1e300)):
        with pytest.raises(ValueError, match=f"{name}\\b.*{re.escape(repr(value))}"):
            label_propensities(Y, **{name: value})
    with pytest.raises(ValueError, match="B=-0.5 give"):  # of a label without samples
        label_propensities(np.eye(3, 4), B=-0.5)
