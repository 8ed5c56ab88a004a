"""lam_max and lam_path: the optimality condition, and fits on both sides of it."""

import numpy as np
import pytest
from _cases import all_pairs, each_value
from _loglinear import loglinear
from _toy_problems import N_CLASSES, make_problem
from scipy.optimize import minimize

from sklstruct import StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import (
    L1,
    L2,
    DiagonalSolver,
    ElasticNet,
    TreeL2,
    TreeLinf,
    lam_max,
    lam_path,
)
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._problem import Problem
from sklstruct.loglinear._screening import (
    RootProblem,
    SafeScreening,
    residuals,
    smallest_lam,
    subtree_bound,
)
from sklstruct.loglinear._solvers import Job

SPARSE = [
    L1(),
    L1(count_weight=[1.3, 0.8]),
    ElasticNet(gamma=0.7),
    TreeL2(),
    TreeLinf(),
]
PRIOR = LanguageModel(StructuredLogLinearLM(), max_depth=1).fit(["a b"]).backoff_model_


def at(problem, lam):
    """The same problem with lam times its strengths."""
    return Problem(
        problem.pairs, problem.count, problem.beta_by_depth,
        lam * problem.strength_by_depth, positive=problem.positive,
    )  # fmt: skip


def root_solution(problem, penalty):
    w = np.zeros(problem.n_pairs)
    root = RootProblem(problem, penalty.bind(problem))
    w[: problem.n_classes] = root.weights(1.0)
    return w


def zero_stays(problem, penalty, w):
    """Whether the exact proximal step holds all weights below the root at zero.

    The metric is one number per class, in which every penalty's operator is exact.
    """
    g = np.empty_like(w)
    LogLinearLoss(problem).value_and_gradient(w, g)
    metric = np.full(w.size, 1e3 * problem.total_weight)
    v = w - g / metric
    if problem.positive:
        v = np.maximum(v, 0.0)
    out = penalty.bind(problem).prox(v, metric, np.empty_like(w))
    return not out[problem.n_classes :].any()


@pytest.mark.parametrize(*each_value(penalty=SPARSE, positive=[True, False]))
def test_root_problem_is_the_optimum_of_the_unigrams(penalty, positive):
    problem = make_problem(m=0, positive=positive, lam=3.0)
    loss, bound = LogLinearLoss(problem), penalty.bind(problem)

    def objective(w):
        w = np.where(problem.unseen, 0.0, w)
        return loss.value(w) + bound.value(w)

    bounds = [(0.0 if positive else None, None)] * N_CLASSES
    found = min(
        minimize(
            objective, start, method="Nelder-Mead", bounds=bounds,
            options={"xatol": 1e-10, "fatol": 1e-13, "maxiter": 8000, "maxfev": 8000},
        ).fun
        for start in (np.zeros(N_CLASSES), np.full(N_CLASSES, 0.3))
    )  # fmt: skip
    mine = objective(root_solution(problem, penalty))
    assert mine <= found + 1e-9
    assert mine == pytest.approx(found, rel=1e-7)


@pytest.mark.parametrize(
    *all_pairs(penalty=SPARSE, positive=[True, False], penalised_root=[True, False])
)
def test_everything_below_the_root_is_zero_from_lam_max_on(
    penalty, positive, penalised_root
):
    unit = make_problem(m=3, lam=1.0, positive=positive)
    if not penalised_root:
        # Every class must occur for there to be an optimum.
        keep = np.flatnonzero(unit.count[:N_CLASSES] == 0.0)
        unit.count[keep] = 0.5
        strength = unit.strength_by_depth.copy()
        strength[0] = 0.0
        unit = Problem(
            unit.pairs, unit.count, unit.beta_by_depth, strength, positive=positive
        )
    lam = smallest_lam(unit, penalty.bind(unit))
    for factor, zero in ((1 + 1e-9, True), (1.5, True), (1 - 1e-6, False)):
        problem = at(unit, lam * factor)
        w = root_solution(problem, penalty)
        assert zero_stays(problem, penalty, w) is zero


@pytest.mark.parametrize("penalty", [L1(), ElasticNet(), TreeLinf()], ids=repr)
def test_collapsed_trees_have_the_lam_max_of_the_trie(penalty):
    values = []
    for collapse in (False, True):
        unit = make_problem(4, seed=2, collapse=collapse, lam=1.0, depth_weight=1.0)
        unit = Problem(unit.pairs, unit.count, np.ones(5), np.ones(5))
        values.append(smallest_lam(unit, penalty.bind(unit)))
    assert values[0] == pytest.approx(values[1], rel=1e-12)


@pytest.mark.parametrize("coupling", [0.0, 1.0, 2.0])
def test_subtree_bound_holds_for_random_subtrees(coupling):
    rng = np.random.default_rng(0)
    beta, threshold = rng.random(5) + 0.3, rng.random(5)

    def exact(k, count):
        """R of a random subtree whose top has this count; for separable penalties
        the threshold and the largest excess."""
        shares = rng.dirichlet(np.full(3, 0.3)) * count * rng.random()
        own = beta[k] * count
        below = [exact(k + 1, c) for c in shares] if k < 4 else []
        if coupling == 0.0:
            over = [r - threshold[k + 1] for r in below]
            return threshold[k] + max([own - threshold[k], 0.0, *over])
        excess = np.maximum(np.array(below) - threshold[k + 1], 0.0) if below else 0.0
        return float((own**coupling + np.sum(excess**coupling)) ** (1 / coupling))

    for _ in range(300):
        k, count = int(rng.integers(0, 5)), float(rng.exponential(3.0))
        bound = subtree_bound(coupling, beta, threshold, k, np.array([count]))[0]
        assert exact(k, count) <= bound + 1e-12


@pytest.mark.parametrize("coupling", [1.0, 2.0])
def test_subtree_bound_is_reached_by_a_chain(coupling):
    beta, threshold = np.random.default_rng(0).random((2, 5)) + 0.3
    levels = [(k, k + 1) for k in range(5)]
    R = residuals(coupling, levels, np.arange(-1, 4), list(threshold), 3.0 * beta)
    for k in range(5):
        bound = subtree_bound(coupling, beta, threshold, k, np.array([3.0]))
        assert bound[0] == pytest.approx(R[k], rel=1e-12)


@pytest.mark.parametrize(
    ("penalty", "lam"),
    [
        *((penalty, 3.0) for penalty in (L1(), ElasticNet(), TreeL2(), TreeLinf())),
        (L1(), 1.0),
        (TreeL2(), 8.0),
    ],
)
def test_pairs_that_their_counts_hold_at_zero(penalty, lam):
    """The problem of the others has the loss, the optimum and the samples of all."""
    unit = make_problem(3, lam=1.0, n=200)
    whole = at(unit, lam)
    pairs, kept, weight = SafeScreening(unit, penalty.bind(unit)).part(lam)
    assert pairs.n_pairs == kept.size < unit.n_pairs
    part = Problem(
        pairs, unit.count[kept], unit.beta_by_depth, whole.strength_by_depth,
        node_weight=weight,
    )  # fmt: skip
    assert part.total_weight == pytest.approx(whole.total_weight)
    w = np.zeros(unit.n_pairs)
    w[kept] = np.random.default_rng(0).random(kept.size)
    assert LogLinearLoss(part).value(w[kept]) == pytest.approx(
        LogLinearLoss(whole).value(w)
    )
    found = []
    for problem in (whole, part):
        job = Job(LogLinearLoss(problem), penalty.bind(problem))
        solver = DiagonalSolver(tol=1e-8, max_iter=20_000)
        found.append(solver.solve(job, np.zeros(problem.n_pairs)))
    assert found[1].objective == pytest.approx(found[0].objective, rel=1e-9)
    dropped = np.ones(unit.n_pairs, dtype=bool)
    dropped[kept] = False
    assert not found[0].w[dropped].any()


@pytest.mark.parametrize(
    ("penalty", "positive"),
    [(L2(), True), (L1(count_weight=[1.0, 1.0, 1.5]), True), (L1(), False)],
)
def test_paths_of_models_that_cannot_leave_pairs_out(penalty, positive, topics):
    lm = language_model(penalty=penalty, positive=positive, alpha=0.9, depth_weight=1.0)
    lm.set_params(estimator__solver__tol=1e-5, estimator__solver__max_iter=3000)
    path = lam_path(lm, topics, lams=[3.0, 2.2])
    for lam, objective in zip(path.lams, path.objective):
        alone = lm.set_params(estimator__lam=lam).fit(topics).estimator_
        assert objective == pytest.approx(alone.objective_[-1], rel=1e-6)


@pytest.fixture(scope="module")
def topics():
    return load_python_topics()[:160]


def language_model(**params):
    return LanguageModel(loglinear(**params), max_depth=2)


@pytest.mark.parametrize("penalty", ["l1", "elastic_net", "tree_l2", "tree_linf"])
def test_fits_on_both_sides_of_lam_max(penalty, topics):
    lm = language_model(
        penalty=penalty, alpha=0.9, depth_weight=1.0, tol=1e-6, max_iter=3000
    )
    largest = lam_max(lm, topics)
    for lam, some in ((1.001 * largest, False), (0.999 * largest, True)):
        model = lm.set_params(estimator__lam=lam).fit(topics).estimator_
        assert bool(model.coef_[model.classes_.size :].any()) is some


@pytest.mark.parametrize("penalty", ["l1", "l2", "elastic_net", "tree_l2", "tree_linf"])
def test_path_is_that_of_fits_from_scratch(penalty, topics):
    params = {"penalty": penalty, "alpha": 0.9, "depth_weight": 1.0, "tol": 1e-5}
    lm = language_model(**params, max_iter=3000)
    lams = [0.3, 3.0, 1.0]
    path = lam_path(lm, topics, lams=lams, X_val=topics[:20])
    assert path.lams.tolist() == [3.0, 1.0, 0.3]
    assert path.coefs.indices.dtype == path.coefs.indptr.dtype == np.int32
    for i, lam in enumerate(path.lams):
        alone = lm.set_params(estimator__lam=lam).fit(topics)
        model = alone.estimator_
        assert path.objective[i] == pytest.approx(model.objective_[-1], rel=1e-6)
        assert path.n_parameters[i] == np.count_nonzero(path.coefs[:, [i]].toarray())
        assert path.optimality[i] <= 1e-5
        fitted = path.model(i)
        assert fitted.pairs == alone.backoff_model_.pairs
        assert fitted.check_normalized() < 1e-10
        np.testing.assert_allclose(
            fitted.log_prob, alone.backoff_model_.log_prob, atol=2e-2
        )
        score = lm.score(topics[:20])
        assert path.held_out_loss[i] == pytest.approx(-score, rel=1e-3)


def test_path_begins_with_the_unigrams(topics):
    lm = language_model(penalty="tree_l2", alpha=0.9, depth_weight=1.0)
    with pytest.raises(ValueError, match="'n_lams' parameter"):
        lam_path(lm, topics, n_lams=10**30)
    path = lam_path(lm, topics, n_lams=4, eps=0.1)
    assert path.lams[0] == lam_max(lm, topics)
    assert path.lams[-1] == pytest.approx(0.1 * path.lams[0])
    n_classes = path.pairs.n_classes
    assert not path.coefs[:, [0]].toarray()[n_classes:].any()
    assert path.coefs[:, [1]].toarray()[n_classes:].any()
    assert path.optimality[0] < 1e-9
    assert path.held_out_loss is None
    assert "LamPath: 4 strengths" in repr(path)


def test_windows_weights_and_the_estimator_itself(topics):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 4, (300, 3)), rng.integers(0, 4, 300)
    weight = rng.integers(0, 3, 300).astype(float)
    again = np.repeat(np.arange(300), weight.astype(int))
    model = loglinear(penalty="l1", alpha=1.0, depth_weight=1.0)
    weighted = lam_max(model, X, y, sample_weight=weight)
    assert weighted == pytest.approx(lam_max(model, X[again], y[again]), rel=1e-12)
    path = lam_path(model, X, y, n_lams=3, sample_weight=weight, X_val=X, y_val=y)
    assert path.labels.classes.tolist() == [0, 1, 2, 3]
    assert np.isfinite(path.held_out_loss).all()
    assert not hasattr(model, "coef_")  # the estimator is not touched


def test_nothing_to_learn():
    X, y = np.array([[0], [1], [0], [1]]), np.array([1, 1, 2, 2])
    model = StructuredLogLinearLM(penalty="l1")
    assert lam_max(model, X, y) == 0.0
    with pytest.raises(ValueError, match="lams: all weights"):
        lam_path(model, X, y)
    assert lam_path(model, X, y, lams=[1.0]).n_parameters.tolist() == [0]


@pytest.mark.parametrize(
    ("model", "more", "message"),
    [
        (StructuredLogLinearLM(penalty=L2()), {}, "no lam makes them all zero"),
        (loglinear(penalty="l1", depth_weight=0.0), {}, "not penalised"),
        (
            StructuredLogLinearLM(penalty="l1"),
            {"lams": [1.0, -1.0]},
            "^lams must hold numbers in",
        ),
        (
            StructuredLogLinearLM(penalty="l1"),
            {"lams": [np.nan]},
            "^lams must hold numbers in",
        ),
        (StructuredLogLinearLM(penalty="l1"), {"lams": []}, "^lams is empty"),
        (StructuredLogLinearLM(penalty="l1"), {"eps": 1.0}, "eps"),
        (StructuredLogLinearLM(penalty="l1"), {"y_val": [1]}, "together"),
        (StructuredLogLinearLM(prior=PRIOR), {"lams": [1.0]}, "^prior: a path of"),
        (StructuredLogLinearLM(solver="active_set"), {}, "^solver: a path of"),
        (StructuredLogLinearLM(checkpoint="fit"), {}, "^checkpoint: lam_path does not"),
    ],
)
def test_errors_name_the_parameter(model, more, message):
    X, y = np.array([[0], [1], [0], [1]]), np.array([1, 1, 2, 1])
    with pytest.raises(ValueError, match=message):
        lam_path(model, X, y, **more)


def test_estimators_without_lam_are_refused():
    from sklstruct.smoothing import KneserNeyLM

    with pytest.raises(TypeError, match="to vary lam of, or hold one"):
        lam_max(LanguageModel(KneserNeyLM()), [["a"]])
    with pytest.raises(TypeError, match="^estimator must be"):
        lam_max("l1", [["a"]])
