"""StructuredLogLinearLM as its users meet it: parameters, errors, pipelines."""

import pickle
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _callbacks import needs_callbacks
from _loglinear import loglinear
from _toy_problems import definition, dense_groups, make_problem
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline

from sklstruct import StructuredLogLinearLM, SuffixTreeVectorizer
from sklstruct.exchange import write
from sklstruct.loglinear import (
    L1,
    L2,
    AutoSolver,
    BoundPenalty,
    DiagonalSolver,
    ElasticNet,
    FistaSolver,
    Penalty,
    Solver,
    TreeMetricSolver,
    _problem,
)
from sklstruct.loglinear import PENALTIES as OF_NAME
from sklstruct.loglinear._solvers import SOLVERS
from sklstruct.symbols import Labels, context_windows

PENALTIES = sorted(OF_NAME)


def corpus(seed=0, n_sentences=120, max_depth=3):
    rng = np.random.default_rng(seed)
    sentences = []
    for _ in range(n_sentences):
        s = [int(rng.integers(6))]
        while rng.random() < 0.9:
            s.append(int((s[-1] * 2 + rng.integers(3)) % 6))
        sentences.append([f"w{i}" for i in s])
    return context_windows(sentences, max_depth)


def fit(model, w):
    return model.set_params(padding=-1).fit(
        w.contexts, w.targets, sample_weight=w.sample_weight
    )


# --------------------------------------------------------------- the parameters


@pytest.mark.parametrize("penalty", PENALTIES)
def test_objective_falls_and_the_residual_is_met(penalty):
    model = fit(loglinear(penalty=penalty, tol=1e-4, max_iter=5000), corpus())
    assert model.optimality_ <= 1e-4
    assert model.objective_.shape == (model.n_iter_,)
    assert model.objective_[-1] <= model.objective_.min() * (1 + 1e-6)
    assert model.n_parameters_ == np.count_nonzero(model.coef_)
    assert (model.coef_ >= 0).all()


@pytest.mark.parametrize("penalty", PENALTIES)
def test_alpha_and_depth_weight_as_numbers_or_by_depth(penalty):
    w = corpus()
    a = fit(loglinear(penalty=penalty, alpha=0.8, depth_weight=1.5), w)
    b = fit(
        loglinear(
            penalty=penalty,
            alpha=0.8 ** np.arange(6),
            depth_weight=list(1.5 ** np.arange(4)),
        ),
        w,
    )
    assert np.array_equal(a.coef_, b.coef_)
    c = fit(StructuredLogLinearLM(penalty=penalty, alpha=0.8), w)
    assert not np.allclose(a.coef_, c.coef_)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_scaling_alpha_is_scaling_the_penalty(penalty):
    # beta w and the penalty lam |w| only see the product: halving every beta
    # doubles the weights and charges twice as much.
    w = corpus()
    tight = {"penalty": penalty, "depth_weight": 1.0, "tol": 1e-7, "max_iter": 20_000}
    if penalty == "elastic_net":
        tight["penalty"], lam = ElasticNet(gamma=1.0), 0.5
    else:
        problem = make_problem(2)
        kind, groups = OF_NAME[penalty](), dense_groups(problem)
        value = [
            definition(kind, np.full(problem.n_pairs, x), groups) for x in (1, 2, 4)
        ]
        lam = value[0] / value[1]
        if value[1] / value[2] != pytest.approx(lam):
            pytest.skip("doubled weights are not charged by one factor")
    a = fit(loglinear(lam=1.0, alpha=np.full(4, 1.0), **tight), w)
    if penalty == "elastic_net":
        # l1 halves, the square quarters.
        tight["penalty"] = ElasticNet(gamma=0.5)
    b = fit(loglinear(lam=lam, alpha=np.full(4, 0.5), **tight), w)
    # l1 has nearly flat directions between a weight and its parent's.
    np.testing.assert_allclose(2.0 * a.coef_, b.coef_, atol=2e-2)
    assert a.objective_[-1] == pytest.approx(b.objective_[-1], rel=1e-8)


@pytest.mark.parametrize("penalty", ["l1", "l2", "elastic_net"])
def test_unpenalised_root_fits_the_unigrams_exactly(penalty):
    # If the root is free its moment conditions hold: the expected count of each
    # seen word is its count, so the average probability is the relative frequency.
    w = corpus()
    model = fit(
        loglinear(
            penalty=penalty, depth_weight=[0, 1, 1, 1], positive=False, tol=1e-7,
            max_iter=20_000, lam=3.0,
        ),
        w,
    )  # fmt: skip
    keep = w.sample_weight > 0
    proba = model.predict_proba(w.contexts[keep])
    counts = np.bincount(w.targets[keep], minlength=model.classes_.size)
    np.testing.assert_allclose(
        proba.sum(axis=0), counts[model.classes_], rtol=1e-5, atol=1e-3
    )


def test_strengths_by_depth_in_the_score_parametrisation():
    # v = beta w: lam |w| / beta and lam gamma w^2 / beta^2 as strengths at alpha 1.
    w = corpus()
    tight = {"tol": 1e-7, "max_iter": 20_000}
    beta, dw, lam, gamma = np.array([1.0, 0.8, 0.5, 0.7]), 1.3 ** np.arange(4), 0.3, 0.6
    a = fit(
        loglinear(
            penalty=ElasticNet(gamma), lam=lam, alpha=beta, depth_weight=dw, **tight
        ),
        w,
    )
    b = fit(
        loglinear(
            penalty=ElasticNet(gamma / beta), lam=lam, alpha=1.0,
            depth_weight=dw / beta, **tight,
        ),
        w,
    )  # fmt: skip
    assert a.objective_[-1] == pytest.approx(b.objective_[-1], rel=1e-9)
    X = w.contexts[w.sample_weight > 0]
    np.testing.assert_allclose(a.predict_proba(X), b.predict_proba(X), atol=1e-4)


def test_count_weights_of_one_change_nothing():
    w = corpus()
    for penalty in (L1, ElasticNet):
        a = fit(StructuredLogLinearLM(penalty=penalty()), w)
        b = fit(StructuredLogLinearLM(penalty=penalty(count_weight=[1, 1, 1])), w)
        c = fit(StructuredLogLinearLM(penalty=penalty(count_weight=[1, 3])), w)
        assert np.array_equal(a.coef_, b.coef_)
        assert not np.allclose(a.coef_, c.coef_)


@pytest.mark.parametrize(
    "net", [ElasticNet([1, 1, 2, 2]), ElasticNet(count_weight=[1, 2])]
)
def test_a_collapsed_tree_refuses_weights_per_depth_or_count(net):
    X, y = np.array([["a", "b", "c"], ["c", "d", "e"]]), ["x", "y"]
    paths = SuffixTreeVectorizer(collapse=True).fit_transform(X)
    with pytest.raises(ValueError, match="(gamma|count_weight).*collapse"):
        StructuredLogLinearLM(penalty=net, alpha=1.0).fit(paths, y)


def test_parameters_are_not_written_to():
    alpha, depth_weight = np.full(4, 0.9), np.full(4, 2.0)
    fit(loglinear(alpha=alpha, depth_weight=depth_weight), corpus())
    assert (alpha == 0.9).all() and (depth_weight == 2.0).all()


def test_same_input_same_answer():
    w = corpus()
    a, b = (fit(StructuredLogLinearLM(), w) for _ in range(2))
    assert np.array_equal(a.coef_, b.coef_)


def test_max_depth_cuts_the_windows():
    w = corpus(max_depth=4)
    for depth in range(5):
        model = fit(StructuredLogLinearLM(max_depth=depth), w)
        assert model.depth_ == depth
    assert fit(StructuredLogLinearLM(max_depth=9), w).depth_ == 4


def test_verbose_prints_lines(capsys):
    fit(loglinear(verbose=5), corpus())
    lines = capsys.readouterr().out.splitlines()
    assert lines and all("objective" in line for line in lines)


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize("kind", [float, np.float64, np.float32])
def test_convergence_warning_names_the_residual(kind):
    with pytest.warns(ConvergenceWarning, match="max_iter=3.*residual.*tol$"):
        fit(loglinear(max_iter=3, lam=kind(0.2)), corpus())
    with pytest.warns(ConvergenceWarning, match="max_iter=3.*or lam: unpenalised"):
        fit(loglinear(max_iter=3, lam=kind(0.0)), corpus())


@pytest.mark.parametrize("positive", [True, False])
@pytest.mark.parametrize("penalty", PENALTIES)
def test_lam_zero_ends_finite(penalty, positive):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model = fit(
            StructuredLogLinearLM(penalty=penalty, lam=0.0, positive=positive), corpus()
        )
    assert np.isfinite(model.coef_).all() and np.isfinite(model.objective_).all()
    w = corpus(seed=2)
    proba = model.predict_proba(w.contexts)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize(
    "params, words",
    [
        ({"lam": -1.0}, "lam"),
        ({"lam": np.inf}, "lam"),
        ({"lam": np.nan}, "lam"),
        ({"lam": "a"}, "lam"),
        ({"alpha": 0.0}, "alpha"),
        ({"alpha": -0.5}, "alpha"),
        ({"alpha": [1.0, 0.5]}, "alpha.*each depth"),
        ({"alpha": [1.0, 0.5, 0.0, 1.0]}, "alpha.*positive"),
        ({"alpha": [[1.0] * 4]}, "alpha"),
        ({"depth_weight": -1.0}, "depth_weight"),
        ({"depth_weight": [1, 1, -1, 1]}, "depth_weight.*non-negative"),
        ({"depth_weight": [1, np.nan, 1, 1]}, "depth_weight.*finite"),
        ({"lam": 1e51}, r"\'lam\' .* in the range \[0\.0, 1e\+50\]"),
        ({"alpha": 1e20}, r"alpha=1e\+20 weighs contexts of 3 symbols"),
        ({"alpha": [1.0, 1.0, 1e60, 1.0]}, "alpha.*contexts of 2 symbols"),
        ({"alpha": {}}, r"alpha must be numbers, got \{\}"),
        ({"depth_weight": 1e300}, r"depth_weight=1e\+300 weighs contexts of 1"),
        ({"penalty": ElasticNet(gamma=-1.0)}, "'gamma' parameter of ElasticNet"),
        ({"penalty": ElasticNet(gamma=np.inf)}, "gamma"),
        ({"penalty": ElasticNet(gamma=np.nan)}, "gamma"),
        ({"penalty": ElasticNet(gamma=[1.0, 1.0])}, "gamma.*each depth 0 ... 3"),
        ({"penalty": ElasticNet(gamma=[1.0, -1.0, 1, 1])}, "gamma must hold numbers"),
        ({"penalty": ElasticNet(gamma=["a"])}, "gamma must be numbers"),
        (
            {"penalty": ElasticNet(gamma=[[1.0]])},
            "gamma must be one number, or a sequence",
        ),
        (
            {"penalty": ElasticNet(count_weight=[])},
            "count_weight must be one number, or a sequence",
        ),
        ({"penalty": L1(count_weight=[np.nan])}, "count_weight must hold numbers in"),
        ({"penalty": L1(count_weight=1.0)}, "count_weight"),
        ({"penalty": "l0"}, "penalty"),
        ({"penalty": L1}, "penalty"),
        ({"penalty": FistaSolver()}, "penalty"),
        ({"solver": FistaSolver}, "solver"),
        ({"solver": FistaSolver(tol=-1.0)}, "'tol' parameter of FistaSolver"),
        ({"solver": "newton"}, "solver"),
        (
            {"solver": "tree_metric", "positive": False},
            r"solver=TreeMetricSolver\(\) cannot.*needs positive=True. .*'diagonal'",
        ),
        (
            {"solver": "tree_metric", "penalty": "tree_linf"},
            "BoundTreeLinf has no quadratic",
        ),
        ({"max_depth": -1}, "max_depth"),
        ({"max_iter": 0}, "max_iter"),
        ({"tol": -1.0}, "tol"),
        ({"positive": "yes"}, "positive"),
        ({"n_jobs": 1.5}, "n_jobs"),
    ],
)
def test_bad_parameters(params, words):
    with pytest.raises(ValueError, match=words):
        fit(loglinear(**params), corpus())


def test_an_unsupported_pair_is_refused_before_any_work():
    class BoundValueOnly(BoundPenalty):
        def value(self, w):
            return 0.0

    class ValueOnly(Penalty):
        bound = BoundValueOnly

    class NeedsMuch(Solver):
        needs = ("prox", "hessian")

        def solve(self, job, w): ...

    def message(**params):
        with pytest.raises(ValueError) as error:
            StructuredLogLinearLM(**params).fit("nonsense", None)
        return str(error.value)

    text = message(penalty=ValueOnly(), solver="fista")
    assert "solver='fista' cannot fit penalty=ValueOnly()" in text
    assert "BoundValueOnly has no prox" in text
    assert "Solvers that can: []" in text
    proximal = [name for name in OF_NAME if hasattr(OF_NAME[name].bound, "prox")]
    assert f"this solver can fit: {proximal}" in text
    text = message(penalty="l1", solver=NeedsMuch())
    assert "has no hessian" in text and "has no prox" not in text
    solvers = [name for name, kind in SOLVERS.items() if kind().fits(L1(), True)]
    assert f"Solvers that can: {[name for name in solvers if name != 'auto']}" in text


# ---------------------------------------------------------------------- objects


def test_names_and_objects_are_the_same():
    w = corpus()
    for name in PENALTIES:
        penalty = OF_NAME[name]()
        solver = AutoSolver(tol=0.1).chosen(penalty, positive=True)
        assert solver.tol == 0.1
        kind = DiagonalSolver if name == "tree_linf" else TreeMetricSolver
        assert type(solver) is kind
        a = fit(StructuredLogLinearLM(penalty=name), w)
        b = fit(StructuredLogLinearLM(penalty=penalty, solver=type(solver)()), w)
        assert np.array_equal(a.coef_, b.coef_)
    same = {"lam": 0.5, "alpha": 0.7, "depth_weight": 1.0}
    a = fit(loglinear(penalty="l1", **same), w)
    b = fit(loglinear(penalty=ElasticNet(gamma=0), **same), w)
    np.testing.assert_allclose(a.coef_, b.coef_, rtol=1e-12)


def test_a_solver_has_its_stopping_rules():
    w = corpus()

    def n_iter(solver):
        model = StructuredLogLinearLM(penalty="l2", solver=solver)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return fit(model, w).n_iter_

    assert n_iter(DiagonalSolver()) == n_iter("diagonal") < n_iter(DiagonalSolver(1e-6))
    assert n_iter(DiagonalSolver(tol=0, max_iter=7)) == 7
    assert n_iter(AutoSolver(1e-6)) == n_iter(TreeMetricSolver(1e-6)) > n_iter("auto")
    solver = DiagonalSolver()
    n_iter(solver)
    assert solver.get_params() == DiagonalSolver().get_params()  # not touched


def test_objects_in_clone_search_repr_pickle_and_params():
    w = corpus(n_sentences=60)
    model = StructuredLogLinearLM(
        penalty=ElasticNet(gamma=0.3), solver=DiagonalSolver(tol=0.7), padding=-1
    )
    assert "ElasticNet(gamma=0.3)" in repr(model)
    assert model._repr_html_()
    twin = clone(model)
    assert twin.penalty is not model.penalty and twin.penalty.gamma == 0.3
    assert model.get_params()["penalty__gamma"] == 0.3
    twin.set_params(penalty__gamma=0.5, solver__tol=1.0)
    assert (twin.penalty.gamma, twin.solver.tol) == (0.5, 1.0)
    assert model.penalty.gamma == 0.3
    fit(twin, w)
    again = pickle.loads(pickle.dumps(twin))
    assert again.penalty.gamma == 0.5
    X = w.contexts[:9]
    assert np.array_equal(again.predict_proba(X), twin.predict_proba(X))

    keep = w.sample_weight > 0
    search = GridSearchCV(
        model,
        [
            {"penalty": [L2(), "tree_l2"]},
            {"penalty": [ElasticNet()], "penalty__gamma": [0.1, 1.0]},
            {"lam": [0.1, 0.4], "alpha": [0.8, 1.0], "max_depth": [1, 2]},
        ],
        cv=2,
    )
    search.fit(w.contexts[keep], w.targets[keep])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()


def paths_and_targets():
    w = corpus()
    keep = w.sample_weight > 0
    vectorizer = SuffixTreeVectorizer(max_depth=3, padding=-1)
    return vectorizer.fit_transform(w.contexts[keep]).tocsr(), w.targets[keep]


def break_root(X):
    X = X.copy()
    X.data[X.indptr[7]] = 0.0
    X.eliminate_zeros()
    return X


def break_parent(X):
    X = X.copy()
    row = 5
    last = X.indptr[row + 1] - 1
    X.indices[last] = X.shape[1] - 1 - (X.indices[last] == X.shape[1] - 1)
    return X


def scale(X):
    return X * 2.5


def half(X):
    X = X.copy()
    X.data[X.indptr[9] + 1] = 3.0
    return X


@pytest.mark.parametrize("damage", [break_root, break_parent, scale, half])
def test_rows_that_are_not_paths(damage):
    X, y = paths_and_targets()
    with pytest.raises(ValueError, match="path matrix"):
        StructuredLogLinearLM().fit(damage(X), y)
    model = StructuredLogLinearLM().fit(X, y)
    with pytest.raises(ValueError, match="path matrix"):
        model.predict(damage(X))


def test_unsorted_and_64_bit_indices_are_normalised():
    X, y = paths_and_targets()
    model = StructuredLogLinearLM().fit(X, y)
    shuffled = X.copy()
    for i in range(X.shape[0]):
        part = slice(X.indptr[i], X.indptr[i + 1])
        shuffled.indices[part] = X.indices[part][::-1]
    shuffled.has_sorted_indices = False
    wide = X.copy()
    wide.indices = wide.indices.astype(np.int64)
    wide.indptr = wide.indptr.astype(np.int64)
    for twin in (shuffled, wide, sp.csr_array(X), X.tocsc(), X.tocoo()):
        assert np.array_equal(model.predict_proba(twin), model.predict_proba(X))
        assert np.array_equal(StructuredLogLinearLM().fit(twin, y).coef_, model.coef_)


def test_collapsed_tree_and_tree_l2():
    X, y = np.array([["a", "b"], ["c", "d"]]), ["x", "y"]
    paths = SuffixTreeVectorizer(collapse=True).fit_transform(X)
    with pytest.raises(ValueError, match=r"^penalty=TreeL2.*collapse=False"):
        StructuredLogLinearLM(penalty="tree_l2").fit(paths, y)


@pytest.mark.parametrize("penalty", ["l1", "l2", "elastic_net", "tree_linf"])
def test_collapse_warns_where_it_changes_the_model(penalty):
    # "c" is always preceded by "b", so that the contexts (c) and (b, c) are merged.
    X = np.array([["b", "c"]] * 6 + [["a", "b"]] * 4)
    y = np.array(["x"] * 5 + ["y"] + ["z"] * 4)
    paths = SuffixTreeVectorizer(collapse=True).fit_transform(X)
    plain = SuffixTreeVectorizer().fit_transform(X)
    model = loglinear(penalty=penalty, tol=1e-7, max_iter=5000)
    for params, name in (
        ({"alpha": 0.5, "penalty__depth_weight": 1.0}, "alpha"),
        ({"alpha": 1.0, "penalty__depth_weight": [1.0, 1.0, 3.0]}, "depth_weight"),
    ):
        with pytest.warns(
            UserWarning, match=f"{name} differs between depths.*collapse"
        ):
            changed = clone(model).set_params(**params).fit(paths, y)
        trie = clone(model).set_params(**params).fit(plain, y)
        assert changed.objective_[-1] > trie.objective_[-1] * (1 + 1e-6)
    same = {"alpha": 1.0, "penalty__depth_weight": [0.0, 1.0, 1.0]}
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        merged = clone(model).set_params(**same).fit(paths, y)
        trie = clone(model).set_params(**same).fit(plain, y)
    assert merged.objective_[-1] == pytest.approx(trie.objective_[-1], rel=1e-7)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("penalty", "params"),
    [
        *((penalty, {"lam": 1e50}) for penalty in PENALTIES),
        ("elastic_net", {"alpha": 1e-200}),
        ("tree_l2", {"alpha": 1e-200}),
        ("tree_linf", {"alpha": 1e-200}),
        ("elastic_net", {"depth_weight": 1e16}),
        ("tree_l2", {"depth_weight": 1e16}),
        ("tree_linf", {"depth_weight": 1e16}),
    ],
)
def test_extreme_weights_stay_finite(penalty, params):
    w = corpus()
    model = fit(loglinear(penalty=penalty, **params), w)
    assert np.isfinite(model.coef_).all() and np.isfinite(model.objective_).all()
    proba = model.predict_proba(w.contexts)
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize(("n", "depth"), [(2, 1250), (20, 2000)])
@pytest.mark.parametrize("harmless", [{"alpha": 0.5}, {"depth_weight": 1.1}, {}])
def test_alpha_that_overflows_at_great_depth(n, depth, harmless):
    text = np.random.default_rng(0).integers(0, 2, 2100)
    windows = np.lib.stride_tricks.sliding_window_view(text, depth + 1)[:n]
    X, y = windows[:, :-1], windows[:, -1]
    with pytest.raises(ValueError, match="alpha=1.1 weighs contexts of 1208"):
        StructuredLogLinearLM(alpha=1.1).fit(X, y)
    steep = np.geomspace(1.0, 1e100, depth + 1)
    with pytest.raises(ValueError, match="(?s)depth_weight=.* weighs contexts of"):
        loglinear(depth_weight=steep).fit(X, y)
    model = loglinear(**harmless).fit(X, y)
    assert np.isfinite(model.predict_proba(X)).all()


def test_total_weight_that_overflows():
    with pytest.raises(ValueError, match="sample_weight sums to inf"):
        StructuredLogLinearLM().fit([[0], [1], [1]], [0, 1, 0], [1e308, 1e308, 1e308])


def test_paths_longer_than_max_depth():
    X, y = paths_and_targets()
    with pytest.raises(ValueError, match="max_depth=1.*SuffixTreeVectorizer"):
        StructuredLogLinearLM(max_depth=1).fit(X, y)
    assert StructuredLogLinearLM(max_depth=3).fit(X, y).depth_ == 3


@pytest.mark.parametrize(
    "X, y, words",
    [
        ([[0.0, np.nan]], ["a"], "NaN"),
        ([[0, 1], [1, 0]], ["a"], "inconsistent"),
        ([[0, 1]], [0.5], "[Uu]nknown label type"),
        ([[0, 1]], [np.nan], r"y\[0\] is missing \(nan\)"),
        ([[0, 1]], None, "y"),
        (np.empty((0, 2)), [], "0 sample"),
    ],
)
def test_bad_data(X, y, words):
    with pytest.raises(ValueError, match=words):
        StructuredLogLinearLM().fit(X, y)


@pytest.mark.parametrize(
    "weight, words",
    [([-1.0, 1.0], "[Nn]egative"), ([0.0, 0.0], "zero"), ([np.nan, 1], "NaN")],
)
def test_bad_weights(weight, words):
    with pytest.raises(ValueError, match=words):
        StructuredLogLinearLM().fit([[0], [1]], ["a", "b"], sample_weight=weight)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_one_class_and_one_sample(penalty):
    model = StructuredLogLinearLM(penalty=penalty).fit([[0, 1], [1, 1]], ["a", "a"])
    assert model.predict_proba([[0, 1], [5, 5]]).tolist() == [[1.0], [1.0]]
    model = StructuredLogLinearLM(penalty=penalty).fit([[0, 1]], ["a"])
    assert model.predict([[0, 1]]).tolist() == ["a"]


@needs_callbacks
def test_an_interrupted_fit_leaves_the_interpreter_and_the_model_sane(monkeypatch):
    monkeypatch.setattr(_problem, "THREAD_PAIRS", 1)
    w = corpus()

    class Interrupt:
        def setup(self, estimator, context): ...
        def teardown(self, estimator, context): ...
        def on_fit_task_begin(self, estimator, context): ...

        def on_fit_task_end(self, estimator, context):
            if context.task_name == "iteration":
                raise KeyboardInterrupt

    for n_jobs in (1, 2):
        model = fit(StructuredLogLinearLM(penalty="tree_linf", n_jobs=n_jobs), w)
        before = model.predict_proba(w.contexts[:50])
        with pytest.raises(KeyboardInterrupt):
            fit(model.set_callbacks(Interrupt()), w)
        assert np.array_equal(model.predict_proba(w.contexts[:50]), before)
        fit(model.set_callbacks(), w)


# ------------------------------------------------------------- working together


def test_grid_search_over_a_pipeline():
    w = corpus(n_sentences=60)
    keep = w.sample_weight > 0
    pipeline = make_pipeline(
        SuffixTreeVectorizer(padding=-1), StructuredLogLinearLM(penalty="l2")
    )
    search = GridSearchCV(
        pipeline,
        {
            "suffixtreevectorizer__max_depth": [1, 2],
            "structuredloglinearlm__lam": [0.1, 1.0],
            "structuredloglinearlm__alpha": [0.7, 1.0],
        },
        cv=2,
    )
    search.fit(w.contexts[keep], w.targets[keep])
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    assert search.predict(w.contexts[:5]).shape == (5,)


@pytest.mark.parametrize("penalty", PENALTIES)
def test_arpa_file_scores_like_kenlm(penalty, tmp_path):
    kenlm = pytest.importorskip("kenlm")
    rng = np.random.default_rng(0)
    sentences = [
        [f"w{i}" for i in rng.integers(0, 9, size=rng.integers(1, 8))]
        for _ in range(200)
    ]
    w = context_windows(
        [["<s>", *s, "</s>"] for s in sentences], 3, start=None, end=None
    )
    keep = w.targets != np.flatnonzero(w.vocabulary == "<s>")[0]
    keep &= w.sample_weight > 0
    contexts = np.where(w.contexts < 0, "", w.vocabulary[w.contexts])
    model = StructuredLogLinearLM(penalty=penalty, padding="")
    model.fit(contexts[keep].astype(str), w.vocabulary[w.targets[keep]].astype(str))
    path = tmp_path / "model.arpa"
    found = model.backoff_model_
    marks = Labels(found.labels.classes, found.labels.symbols, start="<s>", end="</s>")
    write(found.relabel(marks), path)
    peer = kenlm.Model(str(path))
    for s in sentences[:30]:
        history = ["", "", "<s>"]
        for word, (score, *_) in zip([*s, "</s>"], peer.full_scores(" ".join(s))):
            ours = model.target_log_proba(np.array([history]), np.array([word]))[0]
            assert ours / np.log(10) == pytest.approx(score, abs=1e-5)
            history = [*history[1:], word]
