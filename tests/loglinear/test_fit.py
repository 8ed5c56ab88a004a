"""Fit: starts from other solutions, and the start of Kneser-Ney smoothing."""

import numpy as np
from _loglinear import loglinear

from sklstruct._parallel import ThreadMap
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear._fit import Fit, bind


def fit_of(**params):
    model = loglinear(**{"penalty": "l2", "lam": 0.3, **params})
    counted = LanguageModel(max_depth=3).count(["a b a c", "b a b", "c a b a"] * 2)
    count = np.asarray(counted.count, dtype=np.float64)
    return Fit(model, bind(model, counted.pairs, count, ThreadMap(1)))


def test_weights_of_another_alpha_keep_their_scores():
    before, after = fit_of(alpha=0.5), fit_of(alpha=0.9)
    w = np.random.default_rng(0).random(before.problem.n_pairs)
    moved = after.from_solution(w, before.problem.beta_by_depth)
    same = before.loss.value(w), after.loss.value(moved)
    assert np.isclose(*same, rtol=1e-12)
    assert np.array_equal(before.from_solution(w, before.problem.beta_by_depth), w)


def test_the_start_is_the_lowest_of_its_candidates():
    fit = fit_of(lam=1e6)  # 0 is nearly the optimum
    assert not fit.start().any()
    fit = fit_of(lam=1e-6)
    start = fit.objective(fit.start())
    assert start < fit.objective(np.zeros(fit.problem.n_pairs))
    best = fit.solve(fit.start()).w.copy()
    assert fit.objective(fit.start(lambda smoothed: best)) <= start
    assert np.array_equal(fit.start(lambda smoothed: best), best)
