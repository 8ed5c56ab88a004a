"""JointLogLinear: the optimum of one tree, explicit sums, gradients."""

import pickle
import warnings
from types import SimpleNamespace

import numpy as np
import pytest
from _cases import each_value
from _loglinear import joint_loglinear, loglinear
from _oracles import cut_to_frequent, second_order_text
from scipy.optimize import minimize
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import FunctionTransformer

from sklstruct import StructuredLogLinearLM
from sklstruct._checkpoint import FileStore
from sklstruct.backoff import count_windows
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import (
    ActiveSetSolver,
    AutoSolver,
    Checkpoint,
    JointLogLinear,
    TreeMetricSolver,
    _joint_fast,
)
from sklstruct.loglinear._joint_fast import dense_levels
from sklstruct.loglinear._joint_model import JointObjective
from sklstruct.loglinear._joint_solver import JointBlock
from sklstruct.loglinear._joint_sweep_fast import SampleTree, expected, own_samples
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.symbols import Labels
from sklstruct.word_classes import ContextRefiner, ExchangeClustering


def text(n=400, n_words=6):
    return second_order_text(n, n_words, 0.3)


def coarse(X):
    X = np.asarray(X)
    return np.where(X < 0, -1, X // 2)


def backwards(X):
    """The older word first."""
    return np.asarray(X)[:, ::-1]


PATHS = [
    ("words", "passthrough"),
    ("coarse", FunctionTransformer(coarse)),
    ("older", FunctionTransformer(backwards)),
]
# Scores in single precision: the residual ends near 1e-4.
NEWTON = {"padding": -1, "max_iter": 1000, "tol": 2e-4}


def contexts_of(step, X):
    made = X if step == "passthrough" else step.transform(X)
    return [tuple(row[::-1][:k]) for row in made for k in range(made.shape[1] + 1)]


class Explicit:
    """The model written out: a weight for each (path, context, class) of training."""

    def __init__(self, paths, X, y, lam, alpha):
        self.paths, self.lam, self.alpha = paths, lam, alpha
        self.n_classes = int(y.max()) + 1
        self.index = {}
        for t, k, context, row in self._contexts(X):
            self.index.setdefault((t, k, context, y[row]), len(self.index))
        for label in range(self.n_classes):
            self.index.setdefault((0, 0, (), label), len(self.index))
        self.X, self.y = X, y
        self.features = self.design(X)

    def _contexts(self, X):
        for t, (_, step) in enumerate(self.paths):
            made = X if isinstance(step, str) else step.transform(X)
            for row, window in enumerate(made):
                for k in range(t > 0, made.shape[1] + 1):
                    context = tuple(window[::-1][:k].tolist())
                    if -1 in context:
                        break
                    yield t, k, context, row

    def design(self, X):
        """(n, n_classes, n_weights)"""
        out = np.zeros((len(X), self.n_classes, len(self.index)))
        for t, k, context, row in self._contexts(X):
            for label in range(self.n_classes):
                at = self.index.get((t, k, context, label))
                if at is not None:
                    out[row, label, at] = self.alpha**k
        return out

    def log_proba(self, w, features):
        score = features @ w
        score -= score.max(axis=1, keepdims=True)
        return score - np.log(np.exp(score).sum(axis=1, keepdims=True))

    def objective(self, w):
        log_proba = self.log_proba(w, self.features)
        rows = np.arange(len(self.y))
        value = -log_proba[rows, self.y].sum() + 0.5 * self.lam * (w**2).sum()
        away = np.exp(log_proba)
        away[rows, self.y] -= 1
        return value, np.einsum("iy,iyp->p", away, self.features) + self.lam * w

    def minimum(self):
        n = len(self.index)
        bounds = [(0, None)] * n
        return minimize(
            self.objective, np.zeros(n), jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-13, "gtol": 1e-9},
        )  # fmt: skip


def value_of(model, X, y, weight=1.0):
    """The objective at the weights of a fitted model."""
    loss = -(weight * model.target_log_proba(X, y)).sum()
    return loss + 0.5 * model.lam * (model.coef_**2).sum()


def test_one_tree_is_the_structured_model():
    X, y = text()
    tree = loglinear(
        penalty="l2", lam=0.4, alpha=0.8, padding=-1, tol=1e-8,
        max_iter=5000,
    ).fit(X, y)  # fmt: skip
    joint = joint_loglinear(lam=0.4, alpha=0.8, **NEWTON)
    joint.set_params(solver__tol=min(joint.solver.tol, 5e-5)).fit(X, y)
    np.testing.assert_allclose(joint.predict_proba(X), tree.predict_proba(X), atol=1e-4)
    model = Explicit(PATHS[:1], X, y, 0.4, 0.8)
    # The pairs of a tree are numbered alike in both.
    value = value_of(joint, X, y)
    assert value == pytest.approx(tree.objective_[-1], rel=1e-6)
    assert value == pytest.approx(joint.objective_[-1], rel=1e-6)
    assert model.minimum().fun == pytest.approx(tree.objective_[-1], rel=1e-6)


def test_several_trees_reach_the_optimum():
    X, y = text(150, 4)
    model = Explicit(PATHS, X, y, 0.5, 0.9)
    best = model.minimum()
    joint = joint_loglinear(PATHS, lam=0.5, alpha=0.9, **NEWTON)
    joint.fit(X, y)
    assert joint.coef_.size == len(model.index)
    assert value_of(joint, X, y) == pytest.approx(best.fun, rel=1e-5)
    assert joint.optimality_ <= NEWTON["tol"]
    new = np.random.RandomState(1).randint(-1, 6, size=(50, 2))
    new[new[:, 1] < 0, 0] = -1
    expected = model.log_proba(best.x, model.design(new))
    np.testing.assert_allclose(joint.predict_proba(new), np.exp(expected), atol=3e-3)


def test_the_fitted_model_has_the_weights_above_zero_in_single_precision():
    X, y = text()
    joint = joint_loglinear(PATHS, lam=3.0, **NEWTON).fit(X, y)
    model, w = joint.distribution_, joint.coef_
    assert 0 < model.w.size < w.size and w.dtype == np.float64
    np.testing.assert_array_equal(model.w, w[w != 0].astype(np.float32))
    at = joint.locate(X)
    rows = model.rows(at)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, atol=1e-12)
    log_proba = model.target(at, y)
    np.testing.assert_allclose(log_proba, rows[np.arange(y.size), y], rtol=1e-13)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.parent, model.parent)
    np.testing.assert_array_equal(again.ptr, model.ptr)
    assert again.ptr.dtype == again.pair_class.dtype == np.int32
    np.testing.assert_array_equal(again.rows(at), rows)
    state = model.__getstate__()
    assert state["n_pairs"].dtype == state["pair_class"].dtype == np.uint8
    state["n_pairs"] = state["n_pairs"] + np.uint8(1)
    with pytest.raises(ValueError, match="n_pairs"):
        model.__class__.__new__(model.__class__).__setstate__(state)
    state = model.__getstate__()
    for w in (state["w"][:-1], np.repeat(state["w"], 2)):
        with pytest.raises(ValueError, match=r"\bw\b.*one per pair"):
            model.__class__.__new__(model.__class__).__setstate__({**state, "w": w})


def test_each_pass_comes_closer():
    X, y = text()
    best = Explicit(PATHS, X, y, 0.4, 0.87).minimum().fun
    away = []
    for max_iter in (1, 5, 25, 125):
        model = joint_loglinear(PATHS, lam=0.4, padding=-1, max_iter=max_iter, tol=0)
        with pytest.warns(ConvergenceWarning, match="within tol=0"):
            model.fit(X, y)
        assert (np.diff(model.objective_) <= 1e-8 * best).all()
        assert model.n_iter_ == max_iter
        away.append(value_of(model, X, y) / best - 1)
    assert 5e-2 > away[0] > away[1] > away[2] > away[3] > -1e-6
    assert away[3] < 3e-4


def test_threads_do_not_change_results(monkeypatch):
    # Few pairs are left to one thread.
    monkeypatch.setattr("sklstruct.loglinear._problem.THREAD_PAIRS", 1)
    monkeypatch.setattr("sklstruct.loglinear._problem.BLOCK_PAIRS", 64)
    monkeypatch.setattr("sklstruct.loglinear._joint_model.THREAD_PAIRS", 1)
    monkeypatch.setattr("sklstruct.loglinear._joint_model._SCORES", 100)
    X, y = text(3000, 9)
    one, two = (
        JointLogLinear(PATHS, padding=-1, n_jobs=n_jobs).fit(X, y) for n_jobs in (1, 2)
    )
    np.testing.assert_array_equal(one.coef_, two.coef_)
    np.testing.assert_array_equal(one.objective_, two.objective_)
    assert one.gap_ == two.gap_


@pytest.mark.parametrize("n_scores", [1, 500, 1 << 20])
def test_slopes_of_rare_and_of_frequent_contexts(n_scores, monkeypatch):
    """Against sums over the samples, one after the other."""
    monkeypatch.setattr("sklstruct.loglinear._joint_model._SCORES", n_scores)
    rng = np.random.RandomState(3)
    X = np.minimum(rng.geometric(0.2, size=(500, 2)), 12)
    y = (X.sum(axis=1) + rng.geometric(0.1, size=500)) % 50
    model = joint_loglinear(PATHS, padding=-1, max_iter=1, tol=9.0).fit(X, y)
    joint = model.distribution_
    nodes, weight = model.locate(X), rng.uniform(1, 2, size=500)
    wanted = np.zeros(joint.w.size)
    for proba, w, path in zip(np.exp(joint.rows(nodes)), weight, nodes):
        for t, node in enumerate(path):
            up = []
            while node >= 0:
                up.append(node)
                node = joint.parent[node]
            for depth, node in enumerate(reversed(up), int(t > 0)):
                pairs = slice(joint.ptr[node], joint.ptr[node + 1])
                found = proba[joint.pair_class[pairs]]
                wanted[pairs] += w * joint.beta[depth] * found
    value, slopes = joint.weighted_log_totals(nodes, weight)
    np.testing.assert_allclose(slopes, wanted, rtol=1e-11)
    np.testing.assert_allclose(value, weight @ joint.log_totals(nodes), rtol=1e-13)
    n_pairs = np.diff(joint.ptr)
    assert (n_pairs * 16 < 50).any() and (n_pairs * 16 >= 50).sum() > 5


def test_rows_targets_and_order():
    X, y = text()
    joint = JointLogLinear(PATHS, padding=-1).fit(X, y)
    new = np.random.RandomState(1).randint(-1, 9, size=(100, 2))
    rows = joint.predict_log_proba(new)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=0, atol=1e-12)
    for label in range(6):
        target = joint.target_log_proba(new, np.full(100, label))
        np.testing.assert_allclose(target, rows[:, label], rtol=1e-12)
    again = JointLogLinear(PATHS, padding=-1).fit(X, y)
    np.testing.assert_array_equal(again.coef_, joint.coef_)


def test_weights_scale_the_samples():
    X, y = text(200, 4)
    weight = np.random.RandomState(0).randint(0, 3, size=y.size)
    joint = joint_loglinear(PATHS, **NEWTON)
    a = joint.fit(X, y, sample_weight=weight).predict_proba(X)
    b = joint.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict_proba(X)
    np.testing.assert_allclose(a, b, atol=5e-4)


@pytest.mark.parametrize("scale", [1.0, 2.0**60])
def test_equal_samples_are_one_of_their_weight(scale):
    X, y = text(300, 4)
    times = np.random.RandomState(0).randint(1, 5, size=y.size)
    joint = JointLogLinear(PATHS, lam=0.3 * scale, padding=-1)
    weighted = joint.fit(X, y, sample_weight=times * scale).coef_.copy()
    many, targets = np.repeat(X, times, axis=0), np.repeat(y, times)
    for order in (
        np.arange(targets.size),
        np.random.RandomState(1).permutation(targets.size),
    ):
        joint.fit(many[order], targets[order], np.full(targets.size, scale))
        np.testing.assert_array_equal(joint.coef_, weighted)


def test_sums_over_many_samples_keep_their_digits():
    # A tree of a root and a child, at which all rows end.
    n, n_outcomes = 400_000, 3
    first = np.array([0, 0, n])
    problem = SimpleNamespace(
        tree=SimpleNamespace(child_ptr=np.array([1, 2, 2], dtype=np.int32)),
        pair_ptr=np.array([0, 3, 6], dtype=np.int32),
        pairs=SimpleNamespace(target=np.array([0, 1, 2] * 2, dtype=np.int32)),
        beta_by_depth=np.ones(2),
    )
    random = np.random.RandomState(0)
    row = random.normal(size=n_outcomes).astype(np.float32)
    weight = random.randint(1, 4, size=(n, 2)).astype(float)
    tree = SampleTree(
        problem, first, np.arange(n, dtype=np.int32), np.arange(0, 2 * n + 1, 2),
        np.array([0, 2] * n, dtype=np.int32), weight.ravel(), np.tile(row, (n, 1)),
    )  # fmt: skip
    rows = np.empty((5, n_outcomes), np.float32)
    log_proba = row - np.log(np.exp(row.astype(float)).sum())
    for child in (True, False):
        if not child:  # at the root
            first[1] = n
        out, total = np.zeros(6), np.zeros(n_outcomes, np.float32)
        if child:
            loss = expected(tree, 1, 2, rows, out, total)
            np.testing.assert_array_equal(out[3:], total)
        else:
            loss = own_samples(tree, rows, total)
        np.testing.assert_allclose(total, np.exp(log_proba) * weight.sum(), rtol=1e-5)
        wanted = -(weight.sum(axis=0) @ log_proba[[0, 2]])
        np.testing.assert_allclose(loss, wanted, rtol=1e-6)


@pytest.mark.parametrize("n", [400, 1500])
def test_is_a_factor_and_a_part_of_mixtures(n):
    X, y = text(n)
    joint = JointLogLinear(PATHS, padding=-1)
    alone = joint.fit(X, y)
    groups = np.arange(6) // 2
    model = FactoredLM(groups, joint).fit(X, y)
    rows = model.predict_proba(X[:50])
    np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)
    plain = FactoredLM(np.zeros(6, int), joint).fit(X, y)
    np.testing.assert_allclose(
        plain.predict_proba(X), alone.predict_proba(X), rtol=1e-10
    )
    tree = StructuredLogLinearLM(penalty="l2", padding=-1)
    for weights in ("em", "logistic"):
        mixed = MixtureLM([("joint", joint), ("tree", tree)], weights=weights)
        mixed.fit(X, y)
        rows = mixed.predict_proba(X[:50])
        np.testing.assert_allclose(rows.sum(axis=1), 1.0, rtol=0, atol=1e-12)


def test_in_a_language_model():
    text = ["the cat sat", "the dog sat", "a cat ran", "a dog ran home"] * 5
    joint = JointLogLinear([("w", "passthrough"), ("c", ContextRefiner("c3(1) c3(2)"))])
    model = LanguageModel(joint, max_depth=2).fit(text)
    assert {word for word, _ in model.predict_next("the", 2)} == {"cat", "dog"}
    total = sum(p for _, p in model.predict_next("the", 20))
    assert total == pytest.approx(1.0, abs=1e-12)


def test_more_than_one_path_to_the_root_only():
    X, y = text(200)
    nothing = ("none", FunctionTransformer(lambda X: np.full((len(X), 2), -1)))
    alone = joint_loglinear(lam=0.4, **NEWTON).fit(X, y)
    joint = joint_loglinear([PATHS[0], nothing], lam=0.4, **NEWTON).fit(X, y)
    np.testing.assert_allclose(
        joint.predict_proba(X), alone.predict_proba(X), atol=1e-3
    )


@pytest.mark.parametrize("scale", [1e-60, 1e60])
def test_weights_of_any_size(scale):
    X, y = text(200, 4)
    weight = np.random.RandomState(0).randint(1, 4, size=y.size)
    plain = joint_loglinear(PATHS, lam=0.4, padding=-1, tol=1e-3, max_iter=200).fit(
        X, y, weight
    )
    other = joint_loglinear(
        PATHS, lam=0.4 * min(scale, 1e49), padding=-1, tol=1e-3, max_iter=200
    )
    other.fit(X, y, weight * min(scale, 1e49))
    np.testing.assert_allclose(
        other.predict_proba(X), plain.predict_proba(X), atol=1e-2
    )
    for lam, weights, message in (
        (1e60, weight, r"'lam' .* in the range \[0\.0, 1e\+50\]"),
        (0.4, weight * 1e150, "sample_weight must sum to at most"),
    ):
        with pytest.raises(ValueError, match=message):
            JointLogLinear(PATHS, lam=lam, padding=-1).fit(X, y, weights)


def test_equal_clusterings_of_the_paths_are_fitted_once(monkeypatch):
    fits = []
    plain = ExchangeClustering.fit

    def fit(self, X, y=None):
        fits.append(self.n_clusters)
        return plain(self, X, y)

    monkeypatch.setattr(ExchangeClustering, "fit", fit)
    X, y = text(500)
    paths = [("a", "c2(1) c3(2)"), ("b", "c3(1) w(1)"), ("c", "c2(2) w(2)")]
    paths = [(name, ContextRefiner(path, padding=-1)) for name, path in paths]
    joint = JointLogLinear(paths, padding=-1).fit(X, y)
    assert sorted(fits) == [2, 3]
    # Other samples are read anew, in a mixture and in a second fit as well.
    joint.fit(X[:300], y[:300])
    assert sorted(fits) == [2, 2, 3, 3]
    MixtureLM([("one", joint), ("two", joint)], weights=[1, 1]).fit(X, y)
    assert sorted(fits) == [2, 2, 2, 3, 3, 3]
    # Alone each refiner learns for itself.
    for _, refiner in paths:
        refiner.fit(X, y)
    assert len(fits) == 10


@pytest.mark.parametrize(
    ("paths", "match"),
    [
        ([], "paths is empty"),
        (["words"], "pairs \\(name"),
        ([("a", "words")], "transformer or 'passthrough'"),
        ([("a", ContextRefiner)], "transformer or 'passthrough'"),
        ([("a", "passthrough"), ("a", "passthrough")], "unique"),
        ([("a", FunctionTransformer(lambda X: X + 0.5))], "windows of ids"),
        ([("a", FunctionTransformer(lambda X: X - 10))], "windows of ids"),
    ],
)
def test_paths_that_do_not_fit_are_told(paths, match):
    X, y = text(50)
    with pytest.raises(ValueError, match=match):
        JointLogLinear(paths, padding=-1).fit(X, y)


def random_windows(seed):
    rng = np.random.default_rng(seed)
    n, width = int(rng.integers(2, 200)), int(rng.integers(1, 4))
    X, y = rng.integers(0, 5, (n, width)), rng.integers(0, 5, n)
    return X, y, 10.0 ** rng.integers(-6, 7, n)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    "lam, uneven", [(0.0, False), (1e-6, False), (1e-6, True), (1e-3, True)]
)
def test_weights_are_never_worse_than_the_start(lam, uneven):
    for seed in (*range(8), 133):
        X, y, weight = random_windows(seed)
        weight = weight if uneven else np.ones(y.size)
        model = JointLogLinear(lam=lam).fit(X, y, sample_weight=weight)
        objective = model.objective_
        assert objective[-1] <= objective[0]
        # Reported values are computed from the weights, not summed up. The model has
        # them in single precision.
        value = value_of(model, X, y, weight)
        assert objective[-1] == pytest.approx(value, rel=1e-8, abs=1e-6)


@pytest.mark.parametrize("max_iter", [400, 2500])
def test_rounding_does_not_grow_into_nan(max_iter):
    """Steps of a pass that lead upward by rounding alone, again and again."""
    X, y = hard_windows()
    model = joint_loglinear(lam=1e-6, alpha=1.0, max_iter=max_iter, tol=1e-9)
    with pytest.warns(ConvergenceWarning, match="solver stopped"):
        model.fit(X, y)
    objective = model.objective_
    assert np.isfinite(objective).all()
    assert objective[-1] <= objective.min() * (1.0 + 1e-6)
    assert objective[-1] < 10.2302  # after 60 passes: 10.2324


@pytest.mark.parametrize("first, then", [(53, 150), (300, 900), (901, 903)])
def test_passes_with_undone_steps_go_on_from_a_checkpoint(
    first, then, tmp_path, monkeypatch
):
    """The step before pass 53 led upward; the pass after the restart undoes it."""
    X, y = hard_windows()
    options = {"lam": 1e-6, "alpha": 1.0, "tol": 1e-9}

    def fit(max_iter, path=None):
        with pytest.warns(ConvergenceWarning):
            model = joint_loglinear(max_iter=max_iter, checkpoint=path, **options)
            return model.fit(X, y)

    path, save = tmp_path / "fit.ckpt", FileStore.save

    def save_last(self, **state):
        if state["iteration"] == first - 1:
            save(self, **state)

    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "save", save_last)
        fit(first, Checkpoint(path, interval=0))
    assert path.exists()
    got, want = fit(then, path), fit(then)
    np.testing.assert_array_equal(got.coef_, want.coef_)
    np.testing.assert_array_equal(got.objective_[1:], want.objective_[1:])


def hard_windows():
    rng = np.random.default_rng(51)
    n = int(rng.integers(1, 150))
    width, n_words, n_classes = (int(rng.integers(1, k)) for k in (4, 6, 5))
    X, y = rng.integers(0, n_words, (n, width)), rng.integers(0, n_classes, n)
    assert (n, width, n_words, n_classes) == (58, 3, 5, 2)
    return X, y


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(*each_value(seed=[18, 0, 7, 11, 36], lam=[0.0, 1e-6, 1e-3]))
def test_the_best_pass_is_kept(seed, lam):
    rng = np.random.default_rng(1000 + seed)
    n = int(rng.integers(20, 200))
    X = rng.integers(0, 5, (n, 3))
    y = (X[:, -1] + (rng.random(n) < 0.2)) % 3
    weight = None if seed % 2 else 10.0 ** rng.uniform(-4, 4, n)
    options = {"lam": lam, "alpha": 1.0, "tol": 1e-9}
    model = joint_loglinear(max_iter=1500, **options).fit(X, y, sample_weight=weight)
    objective = model.objective_
    assert objective[-1] <= objective.min() * (1.0 + 1e-4)
    exact = loglinear(penalty="l2", solver="diagonal", max_iter=3000, **options)
    best = exact.fit(X, y, sample_weight=weight).objective_[-1]
    # 8 powers of ten are more than single precision has digits.
    assert objective[-1] <= (1.05 if weight is not None else 1.001) * best
    assert model.gap_ >= objective[-1] - best - 1e-6


def test_a_fit_that_no_step_improves_ends():
    X, y = random_windows(0)[:2]
    weight = 10.0 ** np.random.default_rng(0).uniform(-4, 4, y.size)
    model = joint_loglinear(lam=1e-6, tol=0.0, max_iter=5000)
    with pytest.warns(ConvergenceWarning, match="no step lowers the objective"):
        model.fit(X, y, sample_weight=weight)
    assert model.n_iter_ < 5000
    objective = model.objective_
    assert objective[-1] <= objective.min() * (1.0 + 1e-5)


@pytest.mark.parametrize(
    ("solver", "words"),
    [
        ("fista", "'solver' parameter"),
        (ActiveSetSolver(), "'solver' parameter"),
        (AutoSolver(max_iter=0), "'max_iter' parameter of AutoSolver"),
    ],
)
def test_solvers_that_do_not_fit_are_refused(solver, words):
    with pytest.raises(ValueError, match=words):
        JointLogLinear(solver=solver).fit([[0], [1]], [0, 1])


def test_a_solver_object_has_the_stopping_rules(capsys):
    X, y = text(200)
    loose, tight = AutoSolver(tol=0.3), TreeMetricSolver(tol=1e-2, verbose=1)
    first = JointLogLinear(PATHS, padding=-1, solver=loose).fit(X, y)
    then = JointLogLinear(PATHS, padding=-1, solver=tight).fit(X, y)
    assert then.optimality_ <= 1e-2 < first.optimality_ <= 0.3
    assert capsys.readouterr().out.count("[JointLogLinear] pass") == then.n_iter_


def test_a_step_that_cannot_be_made_leaves_the_start():
    X, y = [[0], [1], [0], [0], [0]], [0, 1, 1, 1, 0]
    weight = np.array([100, 1e6, 1000, 1000, 0.01])
    model = joint_loglinear(lam=0.0).fit(X, y, sample_weight=weight)
    assert model.objective_[-1] <= model.objective_[0]
    assert model.optimality_ <= model.solver.tol
    with pytest.warns(ConvergenceWarning, match=r"tol=0\b"):
        joint_loglinear(lam=0.0, tol=0, max_iter=3).fit(X, y, sample_weight=weight)


def test_passes_that_do_not_come_below_the_start_are_told(monkeypatch):
    X, y = text(100, 4)
    started = []
    value = JointObjective.value

    def lower(self, weights):
        started.append(self.joined(weights))
        return value(self, weights) - 1e6

    monkeypatch.setattr(JointObjective, "value", lower)
    joint = joint_loglinear(PATHS, padding=-1, tol=0, max_iter=3)
    with pytest.warns(ConvergenceWarning, match="are the weights of the start"):
        joint.fit(X, y)
    np.testing.assert_array_equal(joint.coef_, started[0])
    joint.set_params(solver__tol=1e3).fit(X, y)  # any weights are near enough


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("max_iter", [50, 500])
def test_a_class_that_never_occurs_keeps_a_weight_of_zero(max_iter):
    X, y = text(100, 4)
    y = np.where(y == 2, 1, y)
    joint = joint_loglinear(
        PATHS, padding=-1, classes=np.arange(4), tol=1e-5, max_iter=max_iter
    ).fit(X, y)
    assert joint.coef_[2] == 0.0 and (joint.coef_[[0, 1]] != 0.0).all()


def test_the_gradient_of_a_class_that_never_occurs_is_zero(monkeypatch):
    X, y = text(100, 4)
    gradients, step = [], JointBlock.step

    def look(block):
        if block.root:
            gradients.append(block.g[:4].copy())
        return step(block)

    monkeypatch.setattr(JointBlock, "step", look)
    joint_loglinear(PATHS, padding=-1, classes=np.arange(4), tol=1e-2).fit(
        X, np.where(y == 2, 1, y)
    )
    assert gradients and all(g[2] == 0.0 != g[1] for g in gradients)


def test_without_a_penalty_the_passes_descend():
    X, y, _ = random_windows(133)
    newton = JointLogLinear(lam=0.0).fit(X, y)
    one = loglinear(penalty="l2", lam=0.0, alpha=0.87).fit(X, y)
    assert newton.objective_[-1] == pytest.approx(one.objective_[-1], rel=1e-3)


def counted(X, y, weight=None, **more):
    """The samples as each of `PATHS` reads them."""
    options = {"sample_weight": weight, "keep_positions": True, **more}
    paths = [X if step == "passthrough" else step.transform(X) for _, step in PATHS]
    return [
        count_windows(
            windows.astype(np.int32), y, Labels.of_ids(y.max() + 1, 6), **options
        )
        for windows in paths
    ]


def test_counted_samples_give_the_model_of_the_windows():
    X, y = text()
    weight = np.random.default_rng(0).integers(0, 3, y.size).astype(float)
    fitted = joint_loglinear(PATHS, **NEWTON).fit(X, y, sample_weight=weight)
    again = joint_loglinear(PATHS, **NEWTON).fit_counted(counted(X, y, weight))
    assert np.array_equal(again.coef_, fitted.coef_)
    assert np.array_equal(again.classes_, fitted.classes_)


def test_counted_samples_that_are_refused():
    X, y = text()
    model = joint_loglinear(PATHS, **NEWTON)
    for wrong in ([], counted(X, y, keep_positions=False)):
        with pytest.raises(ValueError, match="a Counted with positions for each path"):
            model.fit_counted(wrong)
    first, *_ = counted(X, y)
    with pytest.raises(ValueError, match="have read other samples"):
        model.fit_counted([first, counted(X[1:], y[1:])[1]])


def test_scores_do_not_depend_on_the_other_samples(monkeypatch):
    """Of many classes, where the upper nodes of a path have a row of sums: bit by bit
    those of single samples, to rounding the sums over the pairs."""
    rng = np.random.RandomState(0)
    X, y = text(3000, 40)
    model = joint_loglinear(PATHS, padding=-1, lam=0.05, tol=0.3).fit(X, y)
    trees = model.distribution_
    X = np.concatenate([X[rng.permutation(500)], rng.randint(-1, 45, size=(200, 2))])
    at, y = model.locate(X), rng.randint(40, size=700)
    sizes = np.diff(trees.ptr)[at.max(axis=1)]
    assert (16 * sizes < 40).any() and (16 * sizes >= 40).any()
    rows, target = trees.rows(at), trees.target(at, y)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(target, rows[np.arange(700), y])
    one = np.concatenate([trees.rows(at[[i]]) for i in range(700)])
    np.testing.assert_array_equal(rows, one)
    monkeypatch.setattr("sklstruct.loglinear._joint_model._SCORES", 900)
    np.testing.assert_array_equal(trees.target(at, y), target)
    for i in range(0, 700, 7):
        score = np.zeros(40)
        for t, node in enumerate(at[i].tolist()):
            path = []
            while node >= 0:
                path.append(node)
                node = trees.parent[node]
            for k, node in enumerate(reversed(path), start=int(t > 0)):
                pairs = slice(trees.ptr[node], trees.ptr[node + 1])
                score[trees.pair_class[pairs]] += trees.beta[k] * trees.w[pairs]
        expected = score - np.log(np.exp(score).sum())
        np.testing.assert_allclose(rows[i], expected, rtol=0, atol=1e-12)


@pytest.mark.parametrize(*each_value(least=[2, 3, 9, 10**6], weighted=[False, True]))
def test_rare_contexts_are_as_if_the_windows_ended_before_them(least, weighted):
    X, y = text(300)
    weight = np.where(np.arange(len(y)) % 3, 1.0, 0.5) if weighted else np.ones(len(y))
    options = {"lam": 0.5, "padding": -1, "tol": 1e-3, "max_iter": 500}
    model = joint_loglinear(PATHS, min_count=least, **options)
    model.fit(X, y, sample_weight=weight)
    counted = []
    for _, step in PATHS:
        made = X if isinstance(step, str) else step.transform(X)
        cut = cut_to_frequent(np.asarray(made), weight, least)
        labels = Labels(np.unique(y), np.arange(made.max() + 1))
        counted.append(
            count_windows(cut, y, labels, sample_weight=weight, keep_positions=True)
        )
    by_hand = joint_loglinear(**options).fit_counted(counted)
    np.testing.assert_array_equal(model.coef_, by_hand.coef_)
    whole = joint_loglinear(PATHS, **options).fit(X, y, sample_weight=weight)
    assert model.coef_.size < whole.coef_.size
    # Windows that were not cut lead to the same contexts as those that were.
    assert abs(model.predict_proba(X).sum(axis=1) - 1.0).max() < 1e-9
    nodes = by_hand.distribution_.locate(
        tuple(
            cut_to_frequent(
                np.asarray(X if isinstance(s, str) else s.transform(X)), weight, least
            )
            for _, s in PATHS
        )
    )
    np.testing.assert_array_equal(model.locate(X), nodes)


@pytest.mark.parametrize("n_outcomes", [1, 2, 7, 8, 9, 16, 23, 40])
def test_sums_of_exponentials_of_any_size(n_outcomes):
    """Against SciPy's, where the largest score stands at each place."""
    rng = np.random.RandomState(n_outcomes)
    score = rng.normal(scale=3.0, size=(n_outcomes, n_outcomes))
    score[np.diag_indices(n_outcomes)] += 1000.0
    total = np.empty(n_outcomes)
    expected = logsumexp(score, axis=1)
    _joint_fast.weighted_softmax(score, np.ones(n_outcomes), total)
    np.testing.assert_allclose(total, expected, rtol=1e-14)


def test_without_weights_at_the_root_scores_begin_at_zero(monkeypatch):
    """Not with those of the block before, whose memory they take."""
    X, y = text(3000, 40)
    model = joint_loglinear(PATHS, padding=-1, lam=0.05, tol=0.3).fit(X, y)
    trees = model.distribution_
    w = trees.w.astype(np.float64)
    w[: trees.ptr[1]] = 0.0
    trees.finish(w)
    monkeypatch.setattr("sklstruct.loglinear._joint_model._SCORES", 900)
    X[::3] = -1
    target = trees.target(model.locate(X), y.astype(np.int32))
    np.testing.assert_allclose(target[::3], -np.log(40.0), rtol=1e-14)
    assert np.ptp(target) > 1.0


def test_places_have_rows_for_the_levels_with_many_pairs_only():
    rng = np.random.RandomState(0)
    words = [f"w{i}" for i in range(80)]
    # After "w0" every word, after all others a few.
    text = [["w0", w] for w in words] + rng.choice(words, size=(60, 5)).tolist()
    lm = LanguageModel(joint_loglinear(max_iter=3), max_depth=3)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        lm.fit(text)
    model = lm.estimator_.distribution_
    sizes, n_rows = np.diff(model.ptr), 0
    for t, tree in enumerate(model.trees):
        levels = np.repeat(np.arange(tree.n_levels), np.diff(tree.level_ptr))
        many = 16 * sizes[model.first[t] : model.first[t + 1]] >= model.n_classes
        found = dense_levels(model, t)
        assert found == levels[many].max(initial=-1) + 1
        n_rows += found
    assert 0 < n_rows < len(model.trees) * model.beta.size
    # The places and the nodes of 32 contexts ahead.
    ahead = 32 * (8 + 12 * len(model.trees))
    size = (lm.predictor.kernel.room - ahead) / (8 * model.n_classes)
    assert 2 + n_rows <= size < 3 + n_rows
    whole = lm.token_log_proba(text)
    for sentence, of_text in zip(text[:40], whole):
        state = lm.begin()
        for word, log_prob in zip(sentence, of_text):
            assert np.exp(lm.rows(state)).sum() == pytest.approx(1, abs=1e-12)
            found, state = lm.advance(state, word)
            assert found == pytest.approx(log_prob, rel=1e-13)
