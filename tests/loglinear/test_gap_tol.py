"""`gap_tol`: a fit that goes on until its duality gap is small enough, or says so."""

import re
from functools import partial

import numpy as np
import pytest
from _callbacks import StopAfter, needs_callbacks
from _cases import each_value
from _loglinear import joint_loglinear, loglinear, loglinear_cv
from _oracles import second_order_text
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer

from sklstruct.context_tree import SuffixTreeVectorizer
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import PENALTIES, ActiveSetSolver, DiagonalSolver, lam_path
from sklstruct.loglinear._fit import Fit, bind
from sklstruct.loglinear._gap import next_share
from sklstruct.loglinear._solvers import SOLVERS

FITS = [
    (solver, penalty, positive)
    for solver in sorted(SOLVERS.keys() - {"auto", "active_set"})
    for penalty in PENALTIES
    for positive in (True, False)
    if SOLVERS[solver]().fits(PENALTIES[penalty](), positive)
]


def data(seed=0, n=200):
    X, y = second_order_text(n, 5, 0.3, seed)
    return X, y, np.random.RandomState(seed).uniform(0.2, 3.0, y.size)


def estimator(**settings):
    plain = {"lam": 0.4, "tol": 0.05, "max_iter": 30_000, "padding": -1}
    return loglinear(**{**plain, **settings})


def joint(**settings):
    paths = [
        ("words", "passthrough"),
        ("coarse", FunctionTransformer(lambda X: np.where(X < 0, -1, X // 2))),
    ]
    plain = {"lam": 0.3, "tol": 0.3, "max_iter": 3000, "padding": -1}
    return joint_loglinear(paths, **{**plain, **settings})


@pytest.mark.parametrize(("solver", "penalty", "positive"), FITS)
def test_every_solver_ends_within_it(solver, penalty, positive):
    X, y, weight = data()
    settings = {"penalty": penalty, "positive": positive}
    best = estimator(solver="diagonal", tol=1e-8, **settings).fit(X, y, weight)
    model = estimator(solver=solver, **settings).fit(X, y, weight)
    assert model.gap_ > 1e-3 * weight.sum()
    before = model.objective_
    model.set_params(solver__gap_tol=1e-3).fit(X, y, weight)
    assert model.gap_ <= 1e-3 * weight.sum()
    assert model.optimality_ <= 0.05
    distance = model.objective_[-1] - best.objective_[-1]
    assert distance <= model.gap_ + 1e-9
    # The first round is the fit without it; the next begins where that has ended.
    assert model.n_iter_ == model.objective_.size > before.size
    assert np.array_equal(model.objective_[: before.size], before)
    assert model.objective_[before.size] == pytest.approx(before[-1], rel=1e-12)


@pytest.mark.parametrize("make", [estimator, joint])
def test_a_gap_that_is_small_enough_changes_nothing(make):
    X, y, weight = data()
    plain = make().fit(X, y, weight)
    model = make(gap_tol=1.01 * plain.gap_ / weight.sum()).fit(X, y, weight)
    assert np.array_equal(model.coef_, plain.coef_)
    assert np.array_equal(model.objective_, plain.objective_)
    model = make(gap_tol=0.99 * plain.gap_ / weight.sum()).fit(X, y, weight)
    assert model.n_iter_ > plain.n_iter_
    assert model.gap_ <= 0.99 * plain.gap_


@pytest.mark.parametrize(
    "make", [estimator, partial(estimator, solver="active_set"), joint]
)
def test_max_iter_is_the_budget_of_all_rounds(make):
    X, y, weight = data()
    first = make().fit(X, y, weight)
    model = make(gap_tol=1e-5, max_iter=first.n_iter_ + 2)
    if model.solver.grows:
        model.set_params(solver__max_iter=4)  # of each of its rounds
    with pytest.warns(ConvergenceWarning, match="not within gap_tol=1e-05") as told:
        model.fit(X, y, weight)
    if make is not joint and not model.solver.grows:
        assert model.n_iter_ <= model.solver.max_iter
    nats = re.search(r"at most (\S+) nats per sample above", str(told[-1].message))[1]
    assert float(nats) == pytest.approx(model.gap_ / weight.sum(), rel=0.05)
    assert model.gap_ > 1e-5 * weight.sum()


def test_no_round_begins_without_a_budget():
    X, y, weight = data()
    n_iter = estimator().fit(X, y, weight).n_iter_
    model = estimator(gap_tol=1e-5, max_iter=n_iter)
    with pytest.warns(ConvergenceWarning, match=f"max_iter={n_iter}, after {n_iter} "):
        model.fit(X, y, weight)
    assert model.n_iter_ == n_iter


def test_the_other_rule_is_named_where_the_gap_is_small():
    X, y, weight = data()
    model = estimator(tol=1e-9, gap_tol=10.0, max_iter=5)
    with pytest.warns(ConvergenceWarning, match=r"residual of \S+, not within tol=1"):
        model.fit(X, y, weight)


def test_zero_ends_where_rounding_hides_all():
    X, y, weight = data()
    model = estimator(penalty="l2", solver="fista", gap_tol=0.0, max_iter=400)
    with pytest.warns(ConvergenceWarning, match="not within gap_tol=0"):
        model.fit(X, y, weight)
    assert model.n_iter_ <= 400
    assert 0.0 < model.gap_ < 1e-6 * weight.sum()


@pytest.mark.parametrize("penalty", ["l1", "elastic_net", "tree_l2", "tree_linf"])
def test_active_set(penalty):
    text = load_python_topics()[:60]
    model = loglinear(penalty=penalty, lam=2.0, tol=0.2, max_iter=5000)
    lm = LanguageModel(model, max_depth=3)
    lm.set_params(estimator__solver__tol=1e-8)
    least = lm.fit(text).estimator_.objective_[-1]
    lm.set_params(estimator__solver=ActiveSetSolver(0.2, 5000))
    loose = lm.fit(text).estimator_
    n_samples = lm.count(text).count.sum()
    assert loose.gap_ > 2e-3 * n_samples
    grown = lm.set_params(estimator__solver__gap_tol=2e-3).fit(text).estimator_
    assert grown.gap_ <= 2e-3 * n_samples
    assert -1e-6 <= grown.objective_[-1] - least <= grown.gap_


@pytest.mark.parametrize("collapse", [False, True])
def test_paths_of_a_tree(collapse):
    X, y, weight = data()
    paths = SuffixTreeVectorizer(collapse=collapse, padding=-1).fit_transform(X)
    model = loglinear(
        penalty="tree_linf", lam=0.5, alpha=1.0, depth_weight=1.0, tol=0.1,
        max_iter=5000,
    )  # fmt: skip
    best = model.set_params(solver__tol=1e-7).fit(paths, y, weight).objective_[-1]
    model.set_params(solver__tol=0.1, solver__gap_tol=1e-4).fit(paths, y, weight)
    assert -1e-6 <= model.objective_[-1] - best <= model.gap_ <= 1e-4 * weight.sum()


@pytest.mark.parametrize(*each_value(penalty=sorted(PENALTIES), positive=[True, False]))
def test_every_model_of_a_path(penalty, positive):
    """And a gap of the whole problem, though most pairs take no part."""
    X, y, weight = data()
    model = estimator(penalty=penalty, positive=positive, solver="diagonal", tol=0.3)
    lams = [30.0, 8.0, 2.0, 0.5]
    loose = lam_path(model, X, y, lams=lams, sample_weight=weight)
    assert (loose.gap > 1e-3 * weight.sum()).any()
    model.set_params(solver__gap_tol=1e-3)
    path = lam_path(model, X, y, lams=lams, sample_weight=weight)
    assert (path.gap <= 1e-3 * weight.sum()).all()
    for i, lam in enumerate(path.lams):
        alone = model.set_params(lam=lam, solver=DiagonalSolver(1e-8))
        alone.fit(X, y, weight)
        assert path.objective[i] - alone.objective_[-1] <= path.gap[i] + 1e-9
        whole = Fit(model, bind(model, path.pairs, path.count, parallel=None))
        w = path.coefs[:, [i]].toarray().ravel()
        assert whole.gap(w) == pytest.approx(path.gap[i], rel=1e-6, abs=1e-9)


def test_search_uses_it_for_the_last_fit():
    X, y, weight = data(n=400)
    model = loglinear_cv(
        penalty="l2", lam=0.5, max_fits=5, tol=0.1, max_iter=5000, padding=-1
    )
    plain = model.fit(X, y, weight)
    losses = [fit["held_out_loss"] for fit in plain.search_results_]
    assert plain.best_estimator_.gap_ > 1e-4 * weight.sum()
    model.set_params(estimator__solver__gap_tol=1e-4).fit(X, y, weight)
    assert [fit["held_out_loss"] for fit in model.search_results_] == losses
    assert model.best_estimator_.gap_ <= 1e-4 * weight.sum()


def test_several_trees():
    X, y, weight = data()
    model = joint()
    best = joint(tol=1e-4, max_iter=3000).fit(X, y, weight)
    assert model.fit(X, y, weight).gap_ > 1e-3 * weight.sum()
    for gap_tol in (1e-2, 1e-3):
        model.set_params(solver__gap_tol=gap_tol).fit(X, y, weight)
        assert model.gap_ <= gap_tol * weight.sum()
        assert model.optimality_ <= model.solver.tol
        distance = model.objective_[-1] - best.objective_[-1]
        assert -1e-4 <= distance <= model.gap_ + 1e-6
        assert model.n_iter_ == model.objective_.size - 1


def test_every_batch_ends_within_it():
    X, y, weight = data(n=300)
    model, total = estimator(penalty="l2", tol=0.5, gap_tol=1e-3), 0.0
    for part in np.array_split(np.arange(y.size), 3):
        model.partial_fit(X[part], y[part], np.arange(5), weight[part])
        total += weight[part].sum()
        assert model.gap_ <= 1e-3 * total


def test_iterations_are_counted_over_the_rounds(capsys):
    X, y, weight = data()
    model = estimator(gap_tol=1e-4, verbose=1).fit(X, y, weight)
    told = re.findall(r"iteration (\d+)", capsys.readouterr().out)
    assert len(told) > estimator().fit(X, y, weight).n_iter_
    assert list(map(int, told)) == sorted(map(int, told))
    assert len(told) == model.n_iter_


@needs_callbacks
def test_a_callback_stops_a_later_round():
    X, y, weight = data()
    n_iter = estimator().fit(X, y, weight).n_iter_
    model = estimator(gap_tol=0.0)
    model.set_callbacks(StopAfter("iteration", n_iter + 3))
    model.fit(X, y, weight)
    assert n_iter < model.n_iter_ <= n_iter + 5


def test_wrong_values_of_gap_tol():
    X, y, _ = data()
    for make in (estimator, joint):
        for bad in (-1e-9, np.nan, "0.1", [0.1]):
            with pytest.raises(ValueError, match="gap_tol"):
                make(gap_tol=bad).fit(X, y)


def test_next_share_falls_and_aims_at_the_goal():
    assert next_share(1.0, 10.0, 5.0) == pytest.approx(0.45)
    assert next_share(0.5, 10.0, 9.99) == pytest.approx(0.35)
    for gap, goal in ((10.0, 0.0), (1e9, 1.0), (np.inf, 1.0)):
        assert next_share(1.0, gap, goal) == pytest.approx(0.1)
