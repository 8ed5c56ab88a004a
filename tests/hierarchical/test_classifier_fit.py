"""HierarchicalClassifier: scales, parameters, seeds and callbacks of `fit`."""

import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _callbacks import StopAfter, needs_callbacks
from _cases import each_value
from _nodes import logistic
from numpy.testing import assert_allclose, assert_array_equal
from sklearn import config_context
from sklearn.datasets import load_digits, make_classification
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

from sklstruct.hierarchical import GammaPrior, HierarchicalClassifier, PerNodeC
from sklstruct.hierarchical._trees import another_view
from sklstruct.taxonomy import (
    ConfusionSplit,
    CutSplit,
    RandomSplit,
    Taxonomy,
)

NESTED = [[0], [[1, 8], [2, [3, 9]]], [[4], [5, 6, 7]]]


@pytest.fixture(scope="module")
def train():
    X, y = load_digits(return_X_y=True)
    keep = np.random.default_rng(0).permutation(y.size)[:500]
    return X[keep] / 16, y[keep]


# ------------------------------------------------------------------------ scales


@pytest.mark.parametrize(
    *each_value(scale=[1e6, 1e12, 1e30, 1e140], kind=[np.asarray, sp.csr_matrix])
)
def test_common_scale_of_the_features(kind, scale):
    """With a ridge that does not matter, the scale of X only scales the weights."""
    X, y = make_classification(
        200, 5, n_informative=3, random_state=0, flip_y=0.1
    )  # fmt: skip
    model = HierarchicalClassifier(
        [[0], [1]], estimator=logistic(intercept_scaling=0, tol=1e-10)
    )
    plain = model.set_params(estimator__C=1e12).fit(X, y).predict_proba(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        scaled = model.set_params(estimator__C=1.0).fit(kind(X * scale), y)
    assert model.n_iter_ > 1
    assert_allclose(scaled.predict_proba(kind(X * scale)), plain, atol=1e-5)


def test_failed_line_search_is_reported():
    X, y = make_classification(200, 5, n_informative=3, random_state=0)
    stamp = 1.7e18 + np.random.default_rng(0).normal(size=200) * 1e15
    model = HierarchicalClassifier([[0], [1]])
    with pytest.warns(ConvergenceWarning, match="line search failed.*StandardScaler"):
        model.fit(np.c_[X, stamp], y)


# --------------------------------------------------------------------- bad input


def corrupt(X, fault):
    X = sp.csr_matrix(X)
    if fault == "too large":
        X.indices[5] = 10**9
    elif fault == "negative":
        X.indices[5] = -3
    elif fault == "decreasing":
        X.indptr[3] = X.indptr[5]
        X.indptr[4] = 0
    elif fault == "beyond":
        X.indptr[-1] += 1000
    elif fault == "sizes":
        X.indices = X.indices[:-4]
    elif fault == "csc":
        X = X.tocsc()
        X.indices[5] = 10**9
    return X


@pytest.mark.parametrize(
    "fault", ["too large", "negative", "decreasing", "beyond", "sizes", "csc"]
)
def test_malformed_sparse_matrix(train, fault):
    X = corrupt(train[0], fault)
    with pytest.raises(ValueError, match="X is a malformed CS[RC] matrix"):
        HierarchicalClassifier(NESTED).fit(X, train[1])


def test_squares_that_overflow(train):
    X, y = train
    for data in (X * 1e200, sp.csr_matrix(-X * 1e200), (X * 1e25).astype(np.float32)):
        with pytest.raises(ValueError, match="X has entries.*StandardScaler"):
            HierarchicalClassifier().fit(data, y)


def test_weighted_squares_that_overflow(train):
    X, y = train
    for data in (X * 1e100, sp.csr_matrix(X * -1e100)):
        with pytest.raises(ValueError, match="sample_weight.*weighted squares"):
            HierarchicalClassifier().fit(data, y, np.full(len(y), 1e95))


@pytest.mark.parametrize("value", [np.nan, -1.0, np.inf])
def test_bad_class_weight(train, value):
    with pytest.raises(ValueError, match="class_weight"):
        HierarchicalClassifier(class_weight={3: value}).fit(*train)


def test_class_weight_zero_removes_the_class(train):
    model = HierarchicalClassifier(class_weight={3: 0.0}).fit(*train)
    assert_array_equal(model.classes_, [0, 1, 2, 4, 5, 6, 7, 8, 9])


# -------------------------------------------------------------------- taxonomies


@pytest.mark.parametrize("kind", [tuple, list])
def test_table_of_paths(train, kind):
    paths = {c: kind(["odd" if c % 2 else "even", str(c // 4)]) for c in range(10)}
    model = HierarchicalClassifier(paths).fit(*train)
    assert model.taxonomy_ == Taxonomy.from_paths(paths)


def test_nesting_is_guarded(train):
    deep = list(range(10))
    for _ in range(10_000):
        deep = [deep]
    with pytest.raises(ValueError, match="from_nested"):
        HierarchicalClassifier(deep).fit(*train)
    loop = [0]
    loop += [loop, loop]
    with pytest.raises(ValueError, match="from_nested"):
        HierarchicalClassifier(loop).fit(*train)


class Counting(RandomSplit):
    built = 0

    def build(self, X, y, sample_weight=None):
        Counting.built += 1
        return super().build(X, y, sample_weight)


@pytest.mark.parametrize("bad", ["nonsense", [[0, 1], [2]], [[0, 0], [1]]])
def test_nothing_is_built_before_all_is_checked(train, bad):
    Counting.built = 0
    with pytest.raises(ValueError):
        HierarchicalClassifier((Counting(), bad), n_taxonomies=2).fit(*train)
    assert Counting.built == 0


@pytest.mark.parametrize(
    "taxonomy",
    [("cut", "cut"), ("cut", CutSplit()), RandomSplit(random_state=0)],
    ids=["names", "name and builder", "seeded"],
)
def test_equal_builders_give_different_trees(train, taxonomy):
    options = {"n_taxonomies": 2, "random_state": 0}
    model = HierarchicalClassifier(taxonomy, **options).fit(*train)
    assert model.taxonomies_[0] != model.taxonomies_[1]
    again = HierarchicalClassifier(taxonomy, **options).fit(*train)
    assert model.taxonomies_ == again.taxonomies_


class Recording(RandomSplit):
    shapes = ()

    def build(self, X, y, sample_weight=None):
        Recording.shapes += (X.shape,)
        return super().build(X, y, sample_weight)


def test_a_builder_that_is_used_again_gets_another_view(train):
    Recording.shapes = ()
    HierarchicalClassifier(Recording(), n_taxonomies=3, random_state=0).fit(*train)
    n, d = train[0].shape
    first, *others = Recording.shapes
    assert first == (n, d)
    assert all(shape[0] < n and shape[1] == (d + 1) // 2 for shape in others)


def test_another_view():
    """A bootstrap within classes, and half of the columns."""
    rng = np.random.RandomState(0)
    n, d = 60, 7
    X = 100.0 * np.arange(n)[:, None] + np.arange(d)
    code, weight = rng.randint(4, size=n), rng.random_sample(n)
    seen = np.zeros(n, dtype=bool)
    for _ in range(20):
        part, its_code, its_weight = another_view(X, code, weight, rng)
        rows, columns = part[:, 0] // 100, part[0] % 100
        assert_array_equal(part, 100 * rows[:, None] + columns)
        assert np.unique(columns).size == 4
        rows = rows.astype(int)
        assert np.unique(rows).size == rows.size < n
        assert_array_equal(its_code, code[rows])
        times = its_weight / weight[rows]
        assert_allclose(times, times.round())
        assert_allclose(np.bincount(its_code, times), np.bincount(code))
        seen[rows] = True
    assert seen.all()


def test_builders_are_cloned_and_kept(train):
    conf = ConfusionSplit()
    options = {"n_taxonomies": 2, "random_state": 3}
    model = HierarchicalClassifier((conf, NESTED), **options).fit(*train)
    assert vars(conf) == vars(ConfusionSplit())
    built, given = model.builders_
    assert given is None
    assert built.n_random_splits_ <= built.n_splits_
    again = HierarchicalClassifier((conf, NESTED), **options).fit(*train)
    assert again.taxonomies_ == model.taxonomies_


def test_node_models_are_seeded(train):
    node = make_pipeline(
        StandardScaler(), DecisionTreeClassifier(max_depth=3, max_features=3)
    )
    proba = [
        HierarchicalClassifier(NESTED, estimator=node, random_state=seed)
        .fit(*train)
        .predict_proba(train[0])
        for seed in (0, 0, 1)
    ]
    assert_array_equal(proba[0], proba[1])
    assert (proba[0] != proba[2]).any()
    assert node[1].random_state is None


# ---------------------------------------------------------------------- metadata


class Tagged(GaussianNB):
    def fit(self, X, y, sample_weight=None, tag=None, rows=None):
        self.tag_, self.rows_ = tag, rows
        return super().fit(X, y, sample_weight)


def test_parameters_with_weight_zero(train):
    X, y = train
    weight = np.ones(y.size)
    weight[:40] = 0
    rows = sp.csr_matrix(np.arange(y.size)[:, None])
    model = HierarchicalClassifier(NESTED, estimator=Tagged())
    for tag in ("x" * 60, list(range(y.size - 40))):
        model.fit(X, y, sample_weight=weight, tag=tag, rows=rows)
        assert all(m.tag_ == tag for m in model.estimators_)
    root = model.estimators_[0].rows_.toarray().ravel()
    assert_array_equal(np.sort(root), np.arange(40, y.size))


@pytest.mark.parametrize("class_weight", [None, {0: 3.0}])
def test_aliased_sample_weight(train, class_weight):
    X, y = train
    weight = np.random.default_rng(0).uniform(0.1, 5, y.size)
    with config_context(enable_metadata_routing=True):
        node = LogisticRegression().set_fit_request(sample_weight="node_w")
        aliased = HierarchicalClassifier(
            NESTED, estimator=node, class_weight=class_weight
        ).fit(X, y, node_w=weight)
    plain = HierarchicalClassifier(
        NESTED, estimator=LogisticRegression(), class_weight=class_weight
    ).fit(X, y, sample_weight=weight)
    for one, other in zip(aliased.estimators_, plain.estimators_):
        assert_allclose(one.coef_, other.coef_)


# ---------------------------------------------------------------------- policies


def test_gamma_of_a_node_does_not_depend_on_others(train):
    X, y = train
    prior = GammaPrior(2, 1)
    model = HierarchicalClassifier(NESTED, estimator=prior).fit(X, y)
    part = np.isin(y, [4, 5, 6, 7])
    alone = HierarchicalClassifier(NESTED[2], estimator=prior)
    alone.fit(X[part], y[part])
    node = np.flatnonzero(np.isclose(model.C_[:, None], alone.C_).any(axis=1))
    assert node.size == alone.C_.size
    assert_array_equal(model.node_n_iter_[node], alone.node_n_iter_)


def test_verbose_counts_iterations_of_folds(train, capsys):
    HierarchicalClassifier(NESTED, estimator=PerNodeC(), verbose=1).fit(*train)
    lines = [line for line in capsys.readouterr().out.splitlines() if "fold" in line]
    assert len(lines) == 3
    assert not any("at most 0" in line for line in lines)


# --------------------------------------------------------------------- callbacks


@needs_callbacks
@pytest.mark.parametrize(
    ("estimator", "n_solves"),
    [(logistic(), 1), (GammaPrior(2, 1), 1), (GammaPrior(), 2), (PerNodeC(), 2)],
)
def test_callback_stops_rounds_and_folds(train, estimator, n_solves):
    callback = StopAfter("solve")
    model = HierarchicalClassifier(NESTED, estimator=estimator)
    model.set_callbacks(callback).fit(*train)
    assert callback.tasks.count("solve") == n_solves
    assert model.score(*train) > 0.8


@needs_callbacks
@pytest.mark.parametrize("estimator", [None, GaussianNB()])
def test_callback_stops_trees(train, estimator):
    callback = StopAfter("taxonomy")
    model = HierarchicalClassifier("rand", n_taxonomies=3, estimator=estimator)
    model.set_callbacks(callback).fit(*train)
    assert callback.tasks.count("build") == len(model.taxonomies_) == 1
    assert len(model.builders_) == 1
    if estimator is not None:
        assert callback.tasks.count("node") == len(model.estimators_)
    assert_allclose(model.predict_proba(train[0]).sum(axis=1), 1)


def test_a_given_tree_is_not_averaged_with_itself(train):
    tree = Taxonomy.from_nested(NESTED)
    for given in (tree, NESTED, (tree, NESTED)):
        count = 3 if isinstance(given, tuple) else 2
        with pytest.raises(ValueError, match="would be used twice"):
            HierarchicalClassifier(given, n_taxonomies=count).fit(*train)
    two = (NESTED, [[0, 1, 2, 3], [4, 5, 6, 7, 8, 9]])
    model = HierarchicalClassifier(two, n_taxonomies=2).fit(*train)
    assert model.taxonomies_[0].to_nested() != model.taxonomies_[1].to_nested()


def test_a_tuple_makes_as_many_trees_as_it_has_entries(train):
    model = HierarchicalClassifier(("cut", [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9]]))
    assert [tree.depth for tree in model.fit(*train).taxonomies_][1] == 1
    assert len(model.taxonomies_) == 2
    model.set_params(n_taxonomies=3, taxonomy=("cut", "rand"), random_state=0)
    assert len(model.fit(*train).taxonomies_) == 3
