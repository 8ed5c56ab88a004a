"""Penalties and solvers against definitions, each other, and generic solvers."""

import pickle

import numpy as np
import pytest
from _cases import all_pairs
from _loglinear import loglinear
from _toy_problems import (
    N_CLASSES,
    definition,
    dense_groups,
    make_pairs,
    make_problem,
    problem_of,
    weights_for,
)
from scipy.optimize import minimize
from sklearn.base import clone

from sklstruct._parallel import ThreadMap
from sklstruct.loglinear import (
    L1,
    L2,
    PENALTIES,
    DiagonalSolver,
    ElasticNet,
    FistaSolver,
    Penalty,
    ProximalPenalty,
    TreeL2,
    TreeLinf,
    TreeMetricSolver,
    _problem,
    _start,
)
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._problem import Problem
from sklstruct.loglinear._solvers import SOLVERS, Job
from sklstruct.loglinear._solvers._tree_metric import TreeMetric
from sklstruct.loglinear._start import kneser_ney_weights, ridge_weights
from sklstruct.smoothing import KneserNeyLM


class BoundContextL2(ProximalPenalty):
    """sum_n strength ||w_n||_2 over the pairs of a context, as a user would add it.

    The operator in the metric D: with s = ||u||, u_p = D_p v_p / (D_p + strength / s),
    and s solves sum_p [D_p v_p / (D_p s + strength)]^2 = 1, a falling function of s.
    """

    def _contexts(self, lo, hi):
        ptr = self.problem.pair_ptr
        first, last = np.searchsorted(ptr, [lo, hi])
        ptr = ptr[first : last + 1]
        return (ptr[:-1] - lo)[np.diff(ptr) > 0]

    def value(self, w):
        def part(k, lo, hi):
            if lo == hi:
                return 0.0
            starts = self._contexts(lo, hi)
            norm = np.sqrt(np.add.reduceat(w[lo:hi] ** 2, starts))
            return self.problem.strength.at(k)[0] * norm.sum()

        return self.problem.sum_over(part)

    def prox(self, v, metric, out):
        def part(k, lo, hi):
            starts = self._contexts(lo, hi)
            size = np.diff(starts, append=hi - lo)
            strength = self.problem.strength.at(k)[0]
            d, x = metric[lo:hi], v[lo:hi]

            def total(values):
                return np.add.reduceat(values, starts)

            if strength == 0.0:
                out[lo:hi] = x
                return
            zero = np.sqrt(total((d * x) ** 2)) <= strength
            low, high = np.zeros(starts.size), np.sqrt(total(x**2))
            for _ in range(60):
                s = 0.5 * (low + high)
                above = total((d * x / (d * np.repeat(s, size) + strength)) ** 2) > 1
                low, high = np.where(above, s, low), np.where(above, high, s)
            s = np.repeat(np.where(zero, 0.0, high), size)
            out[lo:hi] = np.where(s > 0, d * x * s / (d * s + strength), 0.0)

        self.problem.sum_over(part)
        return out


class ContextL2(Penalty):
    bound = BoundContextL2
    collapsible = False

    def definition(self, w, groups):
        return sum(
            groups.strength[pairs[0]] * np.linalg.norm(w[pairs])
            for pairs in groups.context
            if len(pairs)
        )


BY_DEPTH = ElasticNet(
    gamma=[0.3, 1.0, 0.0, 2.0, 0.5, 0.7, 1.0], count_weight=[0.5, 1.4]
)
TABLE = [*(kind() for kind in PENALTIES.values()), BY_DEPTH, ContextL2()]
penalties = pytest.mark.parametrize("penalty", TABLE, ids=repr)
COLLAPSIBLE = [p for p in TABLE if p.collapsible and p is not BY_DEPTH]
IN_TREE_METRIC = [p for p in TABLE if TreeMetricSolver().fits(p, True)]
in_tree_metric = pytest.mark.parametrize("penalty", IN_TREE_METRIC, ids=repr)
# The others choose one of these.
METHODS = sorted(SOLVERS.keys() - {"auto", "active_set"})
ALL_FIT = [
    pytest.param(p, name, id=f"{p!r}-{name}")
    for p in TABLE
    for name in METHODS
    if SOLVERS[name]().fits(p, True)
]


def solve(solver, problem, penalty, report=lambda *_: False):
    loss, start = LogLinearLoss(problem), np.zeros(problem.n_pairs)
    bound = penalty.bind(problem)
    return loss, bound, solver.solve(Job(loss, bound, report), start)


# -------------------------------------------------------------------- penalties


@penalties
def test_penalties_are_objects_like_all_of_scikit_learn(penalty):
    assert clone(penalty).get_params() == penalty.get_params()
    again = pickle.loads(pickle.dumps(penalty))
    assert repr(again) == repr(penalty)


@penalties
@pytest.mark.parametrize("positive", [True, False])
def test_value_is_the_definition(penalty, positive):
    problem = make_problem(positive=positive)
    w = weights_for(problem, 1, positive)
    expected = definition(penalty, w, dense_groups(problem))
    assert penalty.bind(problem).value(w) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("penalty", COLLAPSIBLE, ids=repr)
def test_collapsed_value_equals_that_of_the_trie(penalty):
    problem = make_problem(5, seed=2, collapse=True)
    w = weights_for(problem, 3)
    trie, spread = problem.expand(w)
    expected = definition(penalty, spread, dense_groups(trie))
    assert penalty.bind(problem).value(w) == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(
    ("penalty", "positive", "metric"),
    [
        # The others are exact only with one metric value per class.
        (p, positive, "any" if issubclass(p.bound, ProximalPenalty) else "one")
        for p in TABLE
        for positive in (True, False)
    ],
)
def test_prox_is_a_minimiser(penalty, positive, metric):
    # Against random perturbations, at every scale.
    problem = make_problem(positive=positive)
    bound = penalty.bind(problem)
    rng = np.random.default_rng(0)
    v = weights_for(problem, 2, positive)
    metric = np.full(v.size, 1.7) if metric == "one" else rng.random(v.size) + 0.1
    u = bound.prox(v.copy(), metric, np.empty_like(v))

    def objective(x):
        return 0.5 * np.sum(metric * (x - v) ** 2) + bound.value(x)

    best = objective(u)
    for scale in (1e-1, 1e-3, 1e-5):
        for _ in range(50):
            x = u + scale * rng.normal(size=v.size)
            if positive:
                x = np.maximum(x, 0.0)
            assert objective(x) >= best - 1e-12
    assert objective(np.zeros_like(v)) >= best


@pytest.mark.parametrize(
    "penalty, name", [p for p in ALL_FIT if "fista" not in p.values]
)
def test_threads_and_cuts_do_not_matter(penalty, name, monkeypatch):
    results = []
    for chunk, n_jobs in ((1 << 16, 1), (37, 1), (37, 2)):
        monkeypatch.setattr(_problem, "CHUNK_PAIRS", chunk)
        monkeypatch.setattr(_problem, "BLOCK_PAIRS", 4 * chunk)
        monkeypatch.setattr(_problem, "THREAD_PAIRS", 1)
        problem = make_problem(3, n=300, n_symbols=5)
        with ThreadMap(n_jobs) as parallel:
            problem.map = parallel
            solver = SOLVERS[name](tol=0.0, max_iter=10)
            results.append(solve(solver, problem, penalty)[2])
    a, b, c = results
    assert np.array_equal(b.w, c.w) and b.history == c.history  # to the last bit
    assert a.objective == pytest.approx(b.objective, rel=1e-9)


# ---------------------------------------------------------------------- solvers


@pytest.mark.parametrize(
    ("penalty", "positive", "m"),
    [
        *((p, i % 2 == 0, 3) for i, p in enumerate(TABLE)),
        *((L1(), True, m) for m in (0, 1)),
        *((TreeL2(), False, m) for m in (0, 1)),
    ],
)
def test_solvers_reach_the_same_optimum(penalty, m, positive):
    problem = make_problem(m, positive=positive, depth_weight=1.0)
    results = []
    for solver in (DiagonalSolver, FistaSolver):
        loss, bound, r = solve(solver(tol=1e-7, max_iter=50_000), problem, penalty)
        assert r.status == "converged"
        assert r.optimality <= 1e-7
        assert loss.value(r.w) + bound.value(r.w) == pytest.approx(
            r.objective, rel=1e-12
        )
        if positive:
            assert (r.w >= 0).all()
        results.append(r)
    a, b = results
    assert a.objective == pytest.approx(b.objective, rel=1e-9)
    np.testing.assert_allclose(a.w, b.w, atol=2e-4)
    assert np.array_equal(a.w == 0, b.w == 0)


@penalties
def test_optimum_beats_a_generic_solver(penalty):
    # scipy knows nothing of trees; the penalty is smoothed by its own rounding only.
    problem = make_problem(1, depth_weight=1.0)
    loss, bound, found = solve(
        DiagonalSolver(tol=1e-8, max_iter=50_000), problem, penalty
    )

    def objective(w):
        w = np.maximum(w, 0.0)
        w[: problem.n_classes][problem.unseen] = 0.0
        return loss.value(w) + bound.value(w)

    rng = np.random.default_rng(0)
    noise = 0.01 * rng.normal(size=problem.n_pairs)
    for start in (found.w, np.maximum(found.w + noise, 0)):
        generic = minimize(objective, start, method="Powell", options={"maxiter": 3})
        assert generic.fun >= found.objective - 1e-7


@penalties
def test_optimality_by_directions(penalty):
    # First-order condition on directions: at the optimum no coordinate direction,
    # and no direction towards another point, goes downhill.
    problem = make_problem(depth_weight=1.0)
    n = problem.n_pairs
    loss, bound, r = solve(DiagonalSolver(tol=1e-9, max_iter=100_000), problem, penalty)
    w = r.w
    f = loss.value(w) + bound.value(w)
    rng = np.random.default_rng(0)
    for _ in range(200):
        other = np.maximum(w + rng.normal(size=n) * rng.choice([1e-3, 1e-1, 1]), 0.0)
        other[: problem.n_classes][problem.unseen] = 0.0
        x = w + 1e-4 * (other - w)
        assert loss.value(x) + bound.value(x) >= f - 1e-10


@penalties
def test_huge_penalty_gives_zero_and_no_penalty_stays_finite(penalty):
    _, _, r = solve(
        DiagonalSolver(tol=1e-6, max_iter=1000), make_problem(lam=1e9), penalty
    )
    assert r.status == "converged"
    if isinstance(penalty, L2):
        assert np.abs(r.w).max() < 1e-6
    else:
        assert not r.w.any()

    _, _, r = solve(
        DiagonalSolver(tol=1e-6, max_iter=200), make_problem(lam=0.0), penalty
    )
    assert np.isfinite(r.objective) and np.isfinite(r.w).all()


@pytest.mark.parametrize(
    ("penalty", "solver", "max_iter"),
    [
        *(pytest.param(*fit.values, 7, id=fit.id) for fit in ALL_FIT),
        *((L1(), name, max_iter) for name in METHODS for max_iter in (1, 2)),
    ],
)
def test_the_reported_objective_is_that_of_the_result(penalty, solver, max_iter):
    seen = []
    solver = SOLVERS[solver](tol=0.0, max_iter=max_iter)
    loss, bound, r = solve(
        solver, make_problem(), penalty, lambda *args: seen.append(args)
    )
    assert r.status == "max_iter" and len(r.history) == max_iter
    assert [(i, f) for i, f, _ in seen] == list(enumerate(r.history))
    assert r.history[-1] == r.objective
    assert loss.value(r.w) + bound.value(r.w) == pytest.approx(r.objective, rel=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    *all_pairs(
        penalty=[kind() for kind in PENALTIES.values()],
        lam=[0.5, 10.0],
        m_and_solver=[(20, "auto"), (50, "auto"), (20, "diagonal"), (20, "fista")],
    )
)
def test_never_above_the_start_and_the_best_point_is_kept(penalty, lam, m_and_solver):
    m, solver = m_and_solver
    # On long random paths momentum and smoothing lead far above the start.
    text = np.random.default_rng(0).integers(0, 2, 200)
    windows = np.lib.stride_tricks.sliding_window_view(text, m + 1)
    for alpha in (0.9, 1.0):
        model = loglinear(penalty=penalty, lam=lam, alpha=alpha, solver=solver, tol=0)
        previous = None
        for max_iter in (1, 4, 15, 40):
            model.set_params(solver__max_iter=max_iter)
            model.fit(windows[:, :m], windows[:, m])
            objective = model.objective_
            assert (np.diff(objective) <= 1e-9 * objective[0]).all()
            if previous is not None:
                assert np.array_equal(objective[: previous.size], previous) or (
                    # tree_l2 leaves its smoothed phase at a share of max_iter
                    isinstance(penalty, TreeL2)
                )
            previous = objective
        assert objective[-1] < objective[0] or not model.coef_.any()


@pytest.mark.parametrize("solver", METHODS)
def test_callback_stops_a_solver(solver):
    solver = SOLVERS[solver](tol=0.0, max_iter=1000)
    _, _, r = solve(solver, make_problem(), L2(), lambda i, *_: i == 4)
    assert r.status == "stopped" and len(r.history) == 5
    assert r.objective == r.history[-1]


@pytest.mark.parametrize(
    ("penalty", "collapse", "m", "alpha"),
    [
        *((p, False, 3, (0.7, 1.2)[i % 2]) for i, p in enumerate(IN_TREE_METRIC)),
        *((L1(), False, m, 1.0) for m in (0, 1, 5)),
        *((TreeL2(), False, m, 1.0) for m in (0, 1, 5)),
        # Only penalties that are one number per level fit a collapsed tree.
        *((p, True, 3, 0.7) for p in COLLAPSIBLE if p in IN_TREE_METRIC),
        (L1(), True, 5, 1.0),
    ],
)
def test_the_tree_metric_reaches_the_optimum(penalty, collapse, m, alpha):
    pairs, count, *_ = make_pairs(m, m, collapse)
    depths = np.arange(m + 1.0)
    problem = Problem(pairs, count, alpha**depths, 0.4 * 1.3**depths)
    _, _, reference = solve(
        DiagonalSolver(tol=1e-8, max_iter=100_000), problem, penalty
    )
    for start in (np.zeros(problem.n_pairs), kneser_ney_weights(problem, 1.0)):
        loss, bound = LogLinearLoss(problem), penalty.bind(problem)
        solver = TreeMetricSolver(tol=1e-7, max_iter=20_000)
        r = solver.solve(Job(loss, bound), start)
        assert r.status == "converged" and (r.w >= 0).all()
        assert loss.value(r.w) + bound.value(r.w) == pytest.approx(
            r.objective, rel=1e-12
        )
        assert r.objective == pytest.approx(reference.objective, rel=1e-8)


@pytest.mark.parametrize("seeds", [range(4), range(4, 12)], ids=["few", "more"])
@in_tree_metric
def test_the_tree_metric_on_random_problems(penalty, seeds):
    # Strengths, weights of features, counts, shapes: never above the start, and not
    # above where the diagonal metric gets.
    for seed in seeds:
        rng = np.random.default_rng(seed)
        m, n, n_symbols = int(rng.integers(0, 7)), int(rng.integers(1, 150)), 4
        pairs, count, *_ = make_pairs(seed, m, n=n, n_symbols=n_symbols)
        count = count * 10.0 ** rng.uniform(-1, 2)
        beta = rng.uniform(0.4, 1.3, m + 1)
        strength = 10.0 ** rng.uniform(-1, 1, m + 1)
        strength[1:][rng.random(m) < 0.1] = 0.0
        problem = Problem(pairs, count, beta, strength)
        loss, bound = LogLinearLoss(problem), penalty.bind(problem)
        start = kneser_ney_weights(problem)
        begin = loss.value(start) + bound.value(start)
        with np.errstate(over="ignore", invalid="ignore"):
            r = TreeMetricSolver(tol=1e-5, max_iter=3000).solve(
                Job(loss, bound), start.copy()
            )
            assert np.isfinite(r.w).all() and r.objective <= begin * (1 + 1e-12)
            other = DiagonalSolver(tol=1e-5, max_iter=5000).solve(
                Job(loss, bound), start.copy()
            )
        assert r.objective <= other.objective * (1 + 1e-6)


@pytest.mark.parametrize(
    "lam, penalty, m, seed",
    [
        (1e-4, L1(), 3, 0),
        (1e-6, L1(), 3, 0),
        (1e-5, L2(), 5, 1),
        (1e-5, TreeL2(), 5, 1),
        (1e-3, L2(), 6, 2),
        (1e-5, ElasticNet(gamma=0.5), 6, 2),
    ],
)
def test_the_tree_metric_does_not_stall_where_penalties_are_weak(lam, penalty, m, seed):
    # A metric that forgets that it was too soft fails again after a few iterations, and
    # never has momentum: 1e-3 above the minimum after as many of them.
    problem = make_problem(m, seed=seed, lam=lam, depth_weight=1.0, n=150)
    loss, bound = LogLinearLoss(problem), penalty.bind(problem)
    start = kneser_ney_weights(problem, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):
        reference = DiagonalSolver(tol=1e-8, max_iter=3000).solve(
            Job(loss, bound), start.copy()
        )
        r = TreeMetricSolver(tol=1e-8, max_iter=800).solve(
            Job(loss, bound), start.copy()
        )
    assert r.objective <= reference.objective * (1 + 2e-4)
    assert r.optimality <= 1e-3


def test_a_start_that_overflows_is_refused():
    problem = make_problem()
    loss, bound = LogLinearLoss(problem), L2().bind(problem)
    start = np.where(problem.count > 0, 1e5, 0.0)
    with (
        np.errstate(over="ignore", invalid="ignore"),
        pytest.raises(FloatingPointError, match="not finite at the start"),
    ):
        TreeMetricSolver(tol=1e-3, max_iter=9).solve(Job(loss, bound), start)


@pytest.mark.parametrize("clip", [False, True])
def test_a_step_minimises_the_model_of_the_tree_metric(clip):
    # The dense quadratic, in which a number that is added to all scores is
    # free; without bounds that bind the step is its minimum, with them it is feasible
    # and goes down.
    problem = make_problem(4, seed=3, depth_weight=1.2)
    n, penalty = problem.n_pairs, L2().bind(problem)
    loss, metric = LogLinearLoss(problem), TreeMetric(problem, penalty)
    seen = np.flatnonzero(problem.count > 0)
    y = np.where(problem.count > 0, 0.02 if clip else 20.0, 0.0)
    beta = problem.beta_by_depth[problem.tree.levels()][problem.pairs.nodes()]
    y = y / beta if clip else y
    g, w = np.empty(n), y.copy()
    loss.value_and_gradient(y, g)
    if not clip:  # any gradient will do
        g = beta * problem.count * np.random.default_rng(0).uniform(-0.5, 0.5, n)
    empty, y_prev = np.empty(0), y.copy()
    metric.eliminate(1.3, 0.1, 0.0, y, y_prev, empty, g)
    h, gradient = metric.work[2].copy(), g.copy()
    newton, *_ = metric.substitute(0.0, g, y, y_prev, w)
    d = w - y_prev
    assert (w >= 0).all()
    above = np.zeros((n, n))
    for p in range(n):
        q = p
        while q >= 0:
            above[p, q] = beta[q]
            q = problem.pair_parent[q]
    r = problem.strength_by_depth[problem.tree.levels()][problem.pairs.nodes()]
    # The Levenberg term of unigrams is of what moves their scores apart.
    weight = 1.3 * np.diag(h)
    root = np.arange(problem.n_classes)
    stiff = 0.1 * beta**2 * problem.count
    r[root[-1] + 1 :] += stiff[root[-1] + 1 :]
    curved = above.T @ weight @ above
    curved[root, root] += stiff[root]
    # All scores move by s: h (sigma + s)^2, and that of the Levenberg term.
    of_s = above.T @ weight.sum(axis=1)
    of_s[root] += stiff[root] / beta[root]
    whole = weight.sum() + (stiff[root] / beta[root] ** 2).sum()
    model = curved - np.outer(of_s, of_s) / whole + np.diag(r)
    if clip:
        assert newton < 0
        assert 0.5 * d @ model @ d + gradient @ d < 0
    else:
        free = np.ix_(seen, seen)
        expected = np.linalg.solve(model[free], -gradient[seen])
        np.testing.assert_allclose(d[seen], expected, atol=1e-9)
        assert newton == pytest.approx(gradient @ d, rel=1e-9)


@pytest.mark.parametrize("penalty", [L2(), ElasticNet(gamma=0.7)])
def test_a_step_does_not_depend_on_what_all_unigrams_share(penalty):
    # Scores that all move alike change nothing but the penalty, which the model knows
    # whole: the step from anywhere on that line ends at the same point.
    rng = np.random.default_rng(0)
    text = rng.choice(6, size=400, p=rng.dirichlet(np.full(6, 2.0)))
    windows = np.lib.stride_tricks.sliding_window_view(text, 3)
    problem = problem_of(
        windows[:, :2], windows[:, 2], 0.8 ** np.arange(3), np.full(3, 0.2)
    )
    assert not problem.unseen.any()
    loss, bound = LogLinearLoss(problem), penalty.bind(problem)
    metric, ends = TreeMetric(problem, bound), []
    for shift in (0.0, 0.3, 5.0):
        y = kneser_ney_weights(problem)
        y[: problem.n_classes] += 0.2 + shift
        y_prev, w, g = y.copy(), y.copy(), np.empty_like(y)
        loss.value_and_gradient(y, g)
        metric.eliminate(1.2, 0.05, 0.0, y, y_prev, np.empty(0), g)
        metric.substitute(0.0, g, y, y_prev, w)
        ends.append(w)
    np.testing.assert_allclose(ends[1], ends[0], atol=1e-9)
    np.testing.assert_allclose(ends[2], ends[0], atol=1e-9)


def test_a_start_at_the_minimum_is_not_smoothed_away():
    problem = make_problem(4, seed=1, n=300)
    loss, bound = LogLinearLoss(problem), TreeL2().bind(problem)

    def solve_from(start, tol):
        solver = TreeMetricSolver(tol=tol, max_iter=3000)
        return solver.solve(Job(loss, bound), start)

    minimum = solve_from(kneser_ney_weights(problem, 1.0), 1e-6)
    again = solve_from(minimum.w.copy(), 1e-3)
    assert again.status == "converged"
    assert again.objective <= minimum.objective * (1 + 1e-4)
    # Smoothing is given up when it has led upward once; without that the metric was
    # stiffened at every step of it.
    assert len(again.history) <= 4


def test_the_start_of_a_squared_penalty():
    # One pair alone: the minimum of c beta^2 (u - w)^2 / 2 + l2 u^2 / 2 over u.
    problem = make_problem(2, seed=2)
    w = kneser_ney_weights(problem)
    found = ridge_weights(L2().bind(problem), w)
    level = problem.tree.levels()[problem.pairs.nodes()]
    c = problem.beta_by_depth[level] ** 2 * problem.count
    l2 = problem.strength_by_depth[level]
    np.testing.assert_allclose(found * (c + l2), c * w, atol=1e-12)


def test_the_start_is_kneser_ney():
    # Deepest contexts that samples end in have KneserNeyLM's probabilities.
    rng = np.random.default_rng(0)
    text = rng.choice(9, size=3000, p=rng.dirichlet(np.full(9, 0.7)))
    windows = np.lib.stride_tricks.sliding_window_view(text, 4)
    X, y = windows[:, :3], windows[:, 3]
    peer = KneserNeyLM(discount=(0.5, 1.0, 1.5)).fit(X, y)
    problem = problem_of(X, y, 0.7 ** np.arange(4.0), np.zeros(4))
    with pytest.MonkeyPatch.context() as patch:
        fixed = np.array([0.5, 1.0, 1.5])
        patch.setattr(_start, "modified_discounts", lambda *_: fixed)
        w = kneser_ney_weights(problem)
    assert (w >= 0).all()
    log_prob, _ = LogLinearLoss(problem).backoff(w)
    assert problem.pairs == peer.backoff_model_.pairs
    ends = problem.pairs.terminal_counts(problem.count) > 0
    np.testing.assert_allclose(
        log_prob[ends], peer.backoff_model_.log_prob[ends], rtol=1e-10
    )


@pytest.mark.parametrize("alpha", [1.0, 0.8])
def test_the_start_of_a_collapsed_tree_is_that_of_the_trie(alpha):
    collapsed = make_problem(5, seed=2, collapse=True)
    trie, _ = collapsed.expand(np.zeros(collapsed.n_pairs))
    w = kneser_ney_weights(collapsed)
    np.testing.assert_allclose(
        collapsed.expand(w)[1], kneser_ney_weights(trie), rtol=1e-12
    )


def test_weights_whose_counts_are_all_taken_off_start_at_zero():
    problem = make_problem(3, lam=1.5)
    w = kneser_ney_weights(problem, 1.0)
    low = problem.pairs.adjusted_counts(problem.count) < 1.0
    assert low[N_CLASSES:].any() and not w[N_CLASSES:][low[N_CLASSES:]].any()


def test_linf_has_more_than_one_optimum_where_contexts_are_unseen():
    # 0 is always preceded by 1 and followed by 0: the contexts (0) and (1, 0) have the
    # same samples, and weight may move to the shorter one as long as it stays below
    # that of the unigram.
    X = np.array([[1, 0]] * 6 + [[2, 2]] * 20 + [[3, 2]] * 20)
    y = np.repeat([0, 0, 1, 0, 1, 2], [6, 15, 5, 12, 4, 4])
    problem = problem_of(X, y, np.ones(3), np.full(3, 0.3))
    loss, bound, r = solve(
        DiagonalSolver(tol=1e-9, max_iter=100_000), problem, TreeLinf()
    )
    assert r.status == "converged"
    short, long = 3, 7
    assert problem.pair_parent[[short, long]].tolist() == [0, short]
    w = r.w.copy()
    move = 0.9 * (w[0] - w[short])
    assert move > 0.1
    w[short] += move
    w[long] -= move
    assert loss.value(w) + bound.value(w) == pytest.approx(r.objective, rel=1e-12)
    a, b = loss.backoff(r.w)[0].copy(), loss.backoff(w)[0]
    assert a[long] == pytest.approx(b[long], abs=1e-12)  # the training samples
    assert abs(a[short] - b[short]) > 0.01  # 0 after anything but 1


@pytest.mark.parametrize("positive", [True, False])
def test_l1_is_maximum_entropy_with_fat_constraints(positive):
    """|E(p) - c(p)| <= width, equal where a weight is not 0: of every n-gram, by hand.

    With weights of one sign the constraint is one-sided, and an n-gram with a weight
    has the expected count c - width: a discounted count.
    """
    rng = np.random.default_rng(3)
    X, y = rng.integers(0, 4, (80, 2)), rng.integers(0, 4, 80)
    y[::3] = X[::3, 1]
    model = loglinear(
        penalty=L1(count_weight=[0.6, 0.8, 1.0]), lam=0.7, alpha=1.0, depth_weight=1.0,
        positive=positive, tol=1e-9, max_iter=20_000, padding=-1,
    ).fit(X, y)  # fmt: skip
    pairs = model.backoff_model_.pairs
    proba = model.predict_proba(X)
    count, expected = np.zeros(pairs.n_pairs), np.zeros(pairs.n_pairs)
    node, where = pairs.nodes(), pairs.tree.contexts()
    for p, (n, target) in enumerate(zip(node, pairs.target)):
        suffix = where[n]
        known = model.backoff_model_.labels.symbols[suffix] if len(suffix) else []
        inside = (X[:, 2 - len(suffix) :] == np.asarray(known)).all(axis=1)
        count[p] = (inside & (y == model.classes_[target])).sum()
        expected[p] = proba[inside, target].sum()
    assert (count > 0).all()
    kind = np.clip(np.rint(pairs.adjusted_counts(count)), 1, 3).astype(int) - 1
    width = 0.7 * np.array([0.6, 0.8, 1.0])[kind]
    used = model.coef_ != 0
    np.testing.assert_allclose(
        (count - expected)[used], (width * np.sign(model.coef_))[used], atol=1e-5
    )
    assert (count - expected <= width + 1e-5).all()
    assert positive or (expected - count <= width + 1e-5).all()
    assert used.any() and not used.all()
