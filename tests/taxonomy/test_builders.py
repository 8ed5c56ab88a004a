"""Builders: the common protocol, and each against its own oracle."""

import threading
from importlib import import_module
from itertools import combinations
from pkgutil import iter_modules

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import all_pairs, each_value
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.base import clone
from sklearn.cluster import AgglomerativeClustering, KMeans
from sklearn.datasets import load_digits, load_iris, load_wine
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import RidgeClassifier
from sklearn.model_selection import GridSearchCV

from sklstruct import HierarchicalClassifier, _checks, taxonomy
from sklstruct._compat import InvalidParameterError
from sklstruct.datasets import make_sparse_classes
from sklstruct.taxonomy import (
    TAXONOMY_BUILDERS,
    ClassStatistics,
    ConfusionSplit,
    CutSplit,
    DiffracSplit,
    GreedyMerge,
    HungarianMerge,
    KMeansSplit,
    RandomSplit,
    RefinedTaxonomy,
    SpectralSplit,
    Taxonomy,
    TaxonomyBuilder,
    WardMerge,
    _directions,
    as_taxonomy,
    builders,
)
from sklstruct.taxonomy._proximity import ClassProximity
from sklstruct.taxonomy.builders import (
    _bottom_up,
    _cut,
    _diffrac,
    _greedy,
    _hungarian,
    _kmeans,
    _signs,
    _spectral,
)

NAMES = sorted(TAXONOMY_BUILDERS)
# These look at the data alone, whatever the names of the classes.
EQUIVARIANT = ["cut", "diff", "hung", "obyo", "spec", "ward"]
TOP_DOWN = ["cut", "diff", "spec"]


def make(name, **params):
    builder = TAXONOMY_BUILDERS[name]()
    if "random_state" in builder.get_params():
        builder.set_params(random_state=0)
    return builder.set_params(**params)


def gaussians(k=24, d=12, m=15, seed=0, spread=2.0, ratio=0.7):
    """Class means on a random walk down a balanced binary tree; label = leaf."""
    rng = np.random.default_rng(seed)
    levels = int(np.ceil(np.log2(k)))
    means = np.zeros((k, d))
    for level in range(1, levels + 1):
        group = np.arange(k) >> (levels - level)
        means += spread * ratio**level * rng.normal(size=(k, d))[group]
    y = np.repeat(np.arange(k), m)
    return means[y] + rng.normal(size=(k * m, d)), y


def learned_builders():
    """Every builder of the package that learns."""
    for module in iter_modules(builders.__path__):
        import_module(f"{builders.__name__}.{module.name}")
    found, todo = set(), [TaxonomyBuilder]
    while todo:
        builder = todo.pop()
        below = builder.__subclasses__()
        todo += below
        learns = builder._parents is not TaxonomyBuilder._parents
        if learns and not below and builder.__module__.startswith("sklstruct."):
            found.add(builder)
    return found


def test_every_builder_is_in_the_tables():
    wrong = []
    for builder in learned_builders():
        cls = builder.__name__
        if builder not in TAXONOMY_BUILDERS.values():
            wrong.append(f"{cls}: give it its own short_name")
        if cls not in taxonomy.__all__ or getattr(taxonomy, cls, None) is not builder:
            wrong.append(f"{cls}: add it to sklstruct/taxonomy/__init__.py")
    assert len(TAXONOMY_BUILDERS) > 5 and not wrong, "\n".join(wrong)


def wine_bins():
    """Wine with 12 classes: cultivar and quartile of its strongest component."""
    X, y = load_wine(return_X_y=True)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    score = X @ np.linalg.svd(X, full_matrices=False)[2][0]
    return X, 4 * y + np.searchsorted(np.quantile(score, [0.25, 0.5, 0.75]), score)


def digit_halves():
    """Digits 0 ... 6 with much and with little ink: 14 classes."""
    X, y = load_digits(return_X_y=True)
    X, y = X[y < 7], y[y < 7]
    ink = X.sum(axis=1)
    return X, 2 * y + (ink > np.median(ink))


SMALL = {
    "digits": load_digits(return_X_y=True),
    "digits and ink": digit_halves(),
    "wine": wine_bins(),
    "synthetic": gaussians(k=14, m=8, seed=3),
    "overlap": gaussians(k=13, m=8, seed=4, spread=0.3),
}


# ------------------------------------------------------------ common protocol


def check_tree(tree, labels):
    assert isinstance(tree, Taxonomy)
    assert_array_equal(tree.classes, np.unique(labels))
    # Valid through all checks, and the same again.
    assert Taxonomy(tree.parent, tree.leaf_of_class, tree.classes) == tree


@pytest.mark.parametrize("name", NAMES)
def test_full_trees_have_one_class_per_leaf(name):
    X, y = gaussians()
    tree = make(name).build(X, y)
    check_tree(tree, y)
    assert tree.n_leaves == tree.n_classes == 24
    assert (np.diff(tree.child_ptr)[~tree.is_leaf] >= 2).all()


@pytest.mark.parametrize(*each_value(name=NAMES, max_depth=[1, 3, 0]))
def test_max_depth_cuts_the_tree(name, max_depth):
    X, y = gaussians()
    tree = make(name, max_depth=max_depth).build(X, y)
    check_tree(tree, y)
    assert tree.depth <= max_depth
    if name not in ("conf", "kmeans"):  # they draw numbers in the order of the nodes
        assert tree == make(name).build(X, y).limit(max_depth=max_depth)


@pytest.mark.parametrize(*each_value(name=NAMES, max_leaf=[5, 1, 24]))
def test_max_leaf_stops_at_small_nodes(name, max_leaf):
    X, y = gaussians()
    tree = make(name, max_leaf=max_leaf).build(X, y)
    check_tree(tree, y)
    size = tree.class_sets.stop - tree.class_sets.start
    assert (size[~tree.is_leaf] > max_leaf).all()
    if name not in ("conf", "kmeans"):
        assert tree == make(name).build(X, y).limit(max_leaf=max_leaf)
    if max_leaf == 24:
        assert tree.depth == 0
    deep = make(name, max_leaf=max_leaf, max_depth=2).build(X, y)
    assert deep.depth <= 2


@pytest.mark.parametrize("name", NAMES)
def test_kinds_of_input_agree(name):
    X, y = gaussians()
    X = np.round(X * 4)  # exact in float32
    expected = make(name).build(X, y)
    words = np.array([f"c{k:02d}" for k in range(24)])
    for other in (X.astype(np.float32), sp.csr_array(X), sp.csr_matrix(X)):
        assert make(name).build(other, y) == expected
    for labels in (words[y], words[y].astype(object), words[y].tolist()):
        named = make(name).build(X, labels)
        assert_array_equal(named.leaf_of_class, expected.leaf_of_class)
        assert_array_equal(named.classes, words)
    read_only = X.copy()
    read_only.flags.writeable = False
    assert make(name).build(read_only, y) == expected


@pytest.mark.parametrize("name", ["rand", "kmeans", "conf"])
def test_same_seed_same_tree(name):
    X, y = gaussians(spread=0.2)
    first, again = make(name).build(X, y), make(name).build(X, y)
    assert_array_equal(first.parent, again.parent)
    assert_array_equal(first.leaf_of_class, again.leaf_of_class)


@pytest.mark.parametrize("name", ["rand", "kmeans", "conf"])
def test_other_seed_other_tree(name):
    X, y = gaussians(spread=0.2)
    trees = [make(name, random_state=s).build(X, y) for s in range(5)]
    assert any(tree != trees[0] for tree in trees[1:])


@pytest.mark.parametrize(
    *each_value(builder=[*map(make, EQUIVARIANT)], seed=range(3), k=[25, 24])
)
def test_permuting_class_names_permutes_the_tree(builder, seed, k):
    X, y = gaussians(k=k, seed=seed, spread=1.0)
    perm = np.random.default_rng(seed).permutation(k)
    tree = builder.build(X, y)
    renamed = Taxonomy(tree.parent, tree.leaf_of_class, perm)
    assert builder.build(X, perm[y]) == renamed
    # Nor does the order of the samples matter.
    rows = np.random.default_rng(seed).permutation(len(y))
    assert builder.build(X[rows], y[rows]) == tree


@pytest.mark.parametrize("name", EQUIVARIANT)
def test_weights_are_repetitions_and_zero_is_absence(name):
    X, y = gaussians(spread=1.0)
    weight = np.random.default_rng(0).integers(0, 4, len(y))
    weight[y == 5] = 0
    repeated = make(name).build(np.repeat(X, weight, axis=0), np.repeat(y, weight))
    assert 5 not in repeated.classes
    assert make(name).build(X, y, sample_weight=weight) == repeated


@pytest.mark.parametrize("name", NAMES)
def test_degenerate_data(name):
    rng = np.random.default_rng(0)
    ten = np.arange(10)
    cases = {
        "one sample per class": (rng.normal(size=(10, 3)), ten),
        "constant features": (np.ones((40, 3)), np.arange(40) % 10),
        "one feature": (rng.normal(size=(40, 1)), np.arange(40) % 10),
        "equal means": (np.tile(rng.normal(size=(4, 3)), (10, 1)), np.repeat(ten, 4)),
        "n < d": (rng.normal(size=(20, 90)), np.arange(20) % 10),
        "copies": (np.ones(6) * rng.normal(size=(30, 1)), np.arange(30) % 10),
        "unequal classes": (rng.normal(size=(200, 3)), np.minimum(np.arange(200), 9)),
        "large mean": (rng.normal(size=(40, 3)) + 1e6, np.arange(40) % 10),
        "zeros": (sp.csr_array((20, 5)), np.arange(20) % 10),
    }  # fmt: skip
    for X, y in cases.values():
        check_tree(make(name).build(X, y), y)


@pytest.mark.parametrize("name", NAMES)
def test_few_classes(name):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 2))
    assert make(name).build(X, ["a"] * 12) == Taxonomy.flat(["a"])
    assert make(name).build(X[:1], [7]) == Taxonomy.flat([7])
    two = make(name).build(X, np.arange(12) % 2)
    assert two == Taxonomy.from_nested([[0], [1]])
    check_tree(make(name).build(X, np.arange(12) % 3), [0, 1, 2])


def test_all_builders_share_the_checks_of_build():
    assert {builder.build for builder in learned_builders()} == {TaxonomyBuilder.build}


@pytest.mark.parametrize(
    ("X", "y", "weight", "message"),
    [
        ([[np.nan], [1.0]], [0, 1], None, "NaN"),
        ([[np.inf], [1.0]], [0, 1], None, "infinity"),
        ([[0.0], [1.0]], [0], None, "inconsistent"),
        ([[0.0], [1.0]], [0.5, 1.3], None, "Unknown label type"),
        ([[0.0], [1.0]], [0, 1], [-1.0, 1.0], "[Nn]egative"),
        ([[0.0], [1.0]], [0, 1], [0.0, 0.0], "non-zero"),
        ([[0.0], [1.0]], [0, 1], [np.nan, 1.0], "NaN"),
        ([[0.0], [1.0]], None, None, "y is None"),
        ([[0.0], [1e200]], [0, 1], None, "X has entries .*StandardScaler"),
        ([[-1e200], [1.0]], [0, 1], None, "X has entries .*StandardScaler"),
        ([0.0, 1.0], [0, 1], None, "2D array"),
    ],
)
def test_bad_data(X, y, weight, message):
    with pytest.raises(ValueError, match=message):
        make("cut").build(X, y, weight)


def malformed():
    """Matrices that only a full check finds out, in every format."""
    for kind in (sp.csr_array, sp.csr_matrix, sp.csc_array):
        for where, value in (
            ("indices", -1),
            ("indices", 10**6),
            ("indptr", 10**6),
            ("indptr", -1),
        ):
            X = kind(np.arange(1.0, 13.0).reshape(4, 3))
            getattr(X, where)[2] = value
            yield X
    for where, value in (("row", -1), ("row", 4), ("col", 3), ("col", -1)):
        X = sp.coo_matrix(np.arange(1.0, 13.0).reshape(4, 3))
        getattr(X, where)[2] = value
        yield X
    full = np.arange(1.0, 13.0).reshape(4, 3)
    for columns in ([0, 1, 10**8], [-1, 1, 2], [0, 1]):
        X = sp.lil_matrix(full)
        X.rows[0] = columns
        yield X
    X = sp.bsr_array(np.arange(1.0, 17.0).reshape(4, 4), blocksize=(2, 2))
    X.indices[1] = 7
    yield X
    X = sp.dia_array(full)
    X.offsets[0] = 2**31 - 2
    yield X
    X = sp.dok_array(full)
    X._dict[9, 9] = 1.0
    yield X


def test_malformed_sparse_matrices_are_refused():
    for X in malformed():
        with pytest.raises(ValueError, match=r"X is a malformed \w{3} matrix"):
            make("cut").build(X, [0, 1, 2, 0])
        with pytest.raises(ValueError, match=r"X is a malformed \w{3} matrix"):
            ClassStatistics(X, [0, 1, 2, 0])


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("scale", [1e-120, 1e139])
def test_scale_of_the_features(name, scale):
    X, y = gaussians()
    check_tree(make(name).build(X / np.abs(X).max() * scale, y), y)


@pytest.mark.parametrize("name", NAMES)
def test_parameters(name):
    builder = make(name)
    same = clone(builder)
    assert same.get_params() == builder.get_params()
    assert builder.set_params(max_depth=2).max_depth == 2
    assert "max_depth=2" in repr(builder)
    wrong = {
        "max_depth": -1,
        "delta": -1.0,
        "gram": "none",
        "form": "none",
        "rank": 0,
        "normalize": "no",
        "n_init": 0,
        "smoothing": -1.0,
        "random_state": "seed",
        "estimator": "ridge",
        "certify": "no",
        "n_rounds": -1,
        "max_leaf": 0,
        "balanced": "no",
        "spherical": "no",
        "max_iter": 0,
    }
    assert set(builder.get_params(deep=False)) <= set(wrong)
    for key in builder.get_params(deep=False):
        bad = make(name).set_params(**{key: wrong[key]})
        with pytest.raises(InvalidParameterError, match=key):
            bad.build([[0.0], [1.0], [3.0]], [0, 1, 2])


@pytest.mark.parametrize("name", ["hung", "ward", "conf"])
def test_dense_matrices_beyond_memory_are_refused(name, monkeypatch):
    monkeypatch.setattr(_checks, "physical_memory", lambda: 500_000.0)
    X = np.zeros((400, 1))
    with pytest.raises(MemoryError, match=r"400 .*this machine's.*use the builder"):
        make(name).build(X, np.arange(400))


@pytest.mark.parametrize("name", [n for n in NAMES if n not in ("rand", "conf")])
def test_a_clear_hierarchy_is_found(name, monkeypatch):
    """Four pairs of classes in two far groups."""
    rng = np.random.default_rng(0)
    means = rng.normal(size=(2, 10))[np.arange(8) // 4] * 9
    means += rng.normal(size=(4, 10))[np.arange(8) // 2] * 3
    means += rng.normal(size=(8, 10))
    y = np.repeat(np.arange(8), 40)
    X = means[y] + 2 * rng.normal(size=(320, 10))
    expected = Taxonomy.from_nested(
        [[[[0], [1]], [[2], [3]]], [[[4], [5]], [[6], [7]]]]
    )
    monkeypatch.setattr(_hungarian, "_DUMMIES", 0.0)
    assert make(name).build(X, y) == expected


# ------------------------------------------------------------ top-down splits


def best_by_brute_force(q):
    """Smallest zᵀQz over all sign vectors but the constant ones."""
    k = len(q)
    bits = (np.arange(1, 2 ** (k - 1))[:, None] >> np.arange(k - 1)) & 1
    z = np.hstack([np.ones((len(bits), 1)), 1.0 - 2 * bits])
    return np.einsum("ij,ij->i", z @ q, z).min()


def normalized(near):
    """The proximity with the matrix N^{-1/2} Q N^{-1/2}."""
    scale = 1.0 / np.sqrt(near.weight)
    q = scale[:, None] * near.matrix() * scale
    found = ClassProximity(near.classes, np.ones(scale.size), near.normalized_factor)
    assert_allclose(found.matrix(), q, atol=1e-12)
    return found


@pytest.mark.parametrize(
    *each_value(data=[*SMALL], normalize=[False, True], delta=[1e-2, 10.0])
)
def test_cut_and_diff_reach_the_best_sign_vector(data, normalize, delta):
    X, y = SMALL[data]
    near = ClassStatistics(X, y).proximity(delta=delta)
    near = normalized(near) if normalize else near
    factor, best = near.factor, best_by_brute_force(near.matrix())
    # The heuristics themselves, without the enumeration that small nodes get.
    found = {
        "cut": _cut.sign_ascent(factor),
        "diff": DiffracSplit()._bisect(factor, None),
    }
    for name, z in found.items():
        value = near.residual(z)
        assert best * (1 - 1e-9) <= value <= best * 1.02, name
    if len(factor) <= 10:
        value = near.residual(CutSplit()._bisect(factor, None))
        assert_allclose(value, best, rtol=1e-9)


@pytest.mark.parametrize("seed", range(3))
def test_no_flip_of_one_or_two_helps(seed):
    factor = np.random.default_rng(seed).normal(size=(60, 7))
    for z in (
        _cut.sign_ascent(factor),
        DiffracSplit()._bisect(factor, None),
        _signs.flip(factor, np.ones(60)),
    ):
        value = _signs.objective(factor, z)
        for i in range(60):
            for j in range(i + 1):  # i == j: one flip
                other = z.copy()
                other[[i, j]] = -other[[i, j]]
                assert _signs.objective(factor, other) <= value * (1 + 1e-9)


def test_flips_without_the_gram_are_the_same(monkeypatch):
    factor = np.random.default_rng(0).normal(size=(60, 7))
    monkeypatch.setattr(_signs, "_PAIRS", 10)
    z = _signs.flip(factor, np.ones(60))
    columns = np.ones((60, 1))
    _signs.flip_columns(factor @ factor.T, columns)
    assert_array_equal(columns[:, 0], z)
    monkeypatch.setattr(_signs, "_DENSE_GRAM", 10)
    assert_array_equal(_signs.flip(factor, np.ones(60)), z)


@pytest.mark.parametrize("seed", range(3))
def test_the_relaxation_is_stationary_and_bounds_the_cut(seed):
    factor = np.random.default_rng(seed).normal(size=(12, 5))
    v = _diffrac.relax(factor, tol=1e-13, max_iter=20_000)
    assert_allclose(np.linalg.norm(v, axis=1), 1.0)
    pull = factor @ (factor.T @ v)
    # Stationary on the product of spheres: every row points along its gradient.
    length = np.linalg.norm(pull, axis=1, keepdims=True)
    assert_allclose(pull / length, v, atol=1e-3)
    relaxed = np.sum((factor.T @ v) ** 2)
    best = np.trace(factor @ factor.T) - best_by_brute_force(
        np.diag(np.sum(factor**2, axis=1)) - factor @ factor.T
    )
    assert relaxed >= best * (1 - 1e-4)
    # Goemans and Williamson, Nesterov: the cut is at least 2/π of the relaxation.
    assert best >= 2 / np.pi * relaxed * (1 - 1e-4)


@pytest.mark.parametrize("data", SMALL)
def test_spec_is_the_smallest_eigenvector(data):
    X, y = SMALL[data]
    near = ClassStatistics(X, y).proximity()
    _, vectors = np.linalg.eigh(normalized(near).matrix())
    side = vectors[:, 0] > 0
    tree = SpectralSplit(max_depth=1).build(X, y)
    expected = Taxonomy.from_nested([
        near.classes[side].tolist(), near.classes[~side].tolist()
    ])  # fmt: skip
    assert tree == expected


@pytest.mark.parametrize(*each_value(data=[*SMALL], gram=["pooled", "exact", "root"]))
def test_spec_without_normalisation_is_the_smallest_eigenvector_of_q(data, gram):
    """Classes of unequal size: the leading eigenvector of AAᵀ is another."""
    X, y = SMALL[data]
    weight = np.random.default_rng(0).uniform(0.2, 5.0, y.max() + 1)[y]
    options = {"normalize": False, "gram": gram}
    tree = SpectralSplit(**options).build(X, y, weight)
    stats = ClassStatistics(X, y, weight, keep_rows=True)
    for v in np.flatnonzero(~tree.is_leaf):
        members = np.sort(tree.classes_below(v))
        if members.size == 2:
            continue
        near = stats.proximity(members, gram=gram)
        q = near.matrix()
        values, vectors = np.linalg.eigh(q)
        z = _spectral.smallest_eigenvector(near.factor, near.weight)
        assert_allclose(z @ q @ z, values[0] * (z @ z), rtol=1e-9)
        side = vectors[:, 0] > 0
        found = {tuple(np.sort(tree.classes_below(c))) for c in tree.children(v)}
        assert found == {tuple(members[side]), tuple(members[~side])}


def test_smallest_eigenvector_of_many_classes(monkeypatch):
    rng = np.random.default_rng(0)
    for seed in range(5):
        factor = np.random.default_rng(seed).normal(size=(60, 7))
        diagonal = rng.uniform(1.0, 3.0, 60) + (factor**2).sum(axis=1)
        dense = _spectral.smallest_eigenvector(factor, diagonal)
        with monkeypatch.context() as patch:
            patch.setattr(_spectral, "_DENSE", 10)
            iterated = _spectral.smallest_eigenvector(factor, diagonal)
        assert_allclose(abs(dense @ iterated), 1.0, rtol=1e-9)
    same = _spectral.smallest_eigenvector(factor, np.full(60, 2.0))
    q = 2.0 * np.eye(60) - factor @ factor.T
    assert_allclose(same @ q @ same, np.linalg.eigvalsh(q)[0], rtol=1e-9)


@pytest.mark.parametrize(*each_value(name=TOP_DOWN, sparse=[False, True]))
def test_shared_grams_are_those_of_the_rows(name, sparse):
    """The tree of gram="exact" is the one that reads the rows anew at every node."""
    X, y = gaussians(spread=1.0)
    builder = make(name, gram="exact")
    tree = builder.build(sp.csr_array(X) if sparse else X, y)
    stats = ClassStatistics(X, y, keep_rows=True)
    for v in np.flatnonzero(~tree.is_leaf):
        members = np.sort(tree.classes_below(v))
        if members.size == 2:
            continue
        near = stats.proximity(members, gram="exact")
        left = builder._bisect(near.normalized_factor, np.ones(members.size)) > 0
        sides = {tuple(members[left]), tuple(members[~left])}
        assert sides == {
            tuple(np.sort(tree.classes_below(c))) for c in tree.children(v)
        }


def test_other_coordinates_give_the_same_tree():
    X, y = gaussians(spread=1.0)
    expected = CutSplit().build(X, y)
    assert CutSplit(form="dual").build(X, y) == expected
    wide = np.hstack([X, np.zeros((len(X), 500))])
    assert CutSplit().build(sp.csr_array(wide), y) == expected


# ----------------------------------------------------------- bottom-up merges


def merge_naively(q, size, normalize):
    """Smallest off-diagonal of Q, rows and columns summed; sets of classes."""
    q, size = q.copy(), size.copy()
    sets = [frozenset([i]) for i in range(len(q))]
    made = []
    while len(sets) > 1:
        score = q / np.sqrt(np.outer(size, size)) if normalize else q.copy()
        np.fill_diagonal(score, np.inf)
        i, j = np.unravel_index(np.argmin(score), score.shape)
        i, j = min(i, j), max(i, j)
        q[i] += q[j]
        q[:, i] += q[:, j]
        q = np.delete(np.delete(q, j, 0), j, 1)
        size[i] += size[j]
        size = np.delete(size, j)
        sets[i] = sets[i] | sets.pop(j)
        made.append(sets[i])
    return set(made)


@pytest.mark.parametrize(*each_value(seed=range(4), normalize=[False, True]))
def test_obyo_is_the_naive_merge(normalize, seed):
    X, y = gaussians(k=50, m=5, seed=seed, spread=[0.0, 0.3, 1, 3][seed % 4])
    near = ClassStatistics(X, y).proximity()
    tree = GreedyMerge(normalize=normalize).build(X, y)
    found = {
        frozenset(tree.classes_below(v).tolist()) for v in np.flatnonzero(~tree.is_leaf)
    }
    assert found == merge_naively(near.matrix(), near.weight, normalize)


def test_obyo_blocks_do_not_matter(monkeypatch):
    X, y = gaussians(k=50, m=5)
    expected = GreedyMerge().build(X, y)
    monkeypatch.setattr(_greedy, "_BLOCK", 7)
    assert GreedyMerge().build(X, y) == expected


BOTTOM_UP = ["hung", "obyo", "ward"]


@pytest.mark.parametrize("name", BOTTOM_UP)
@pytest.mark.parametrize("k", [25, 2])
def test_rounds_keep_the_first_merges(name, k):
    """Active nodes after d rounds stand below the root, as they are."""
    X, y = gaussians(k=k, spread=1.0)
    whole = make(name).build(X, y)
    assert make(name, n_rounds=0).build(X, y) == Taxonomy.flat(range(k))
    last = k
    for n_rounds in range(1, 8):
        tree = make(name, n_rounds=n_rounds).build(X, y)
        check_tree(tree, y)
        assert tree.n_leaves == k
        # Every cluster made so far is one of the whole tree.
        assert set(sets_of(tree)) <= set(sets_of(whole))
        active = tree.children(0).size
        if name != "hung":
            assert active == max(-(-k // 2**n_rounds), 2)
        assert 2 <= active <= last
        last = active
        if name == "hung":  # a round makes pairs of what was active
            assert tree.depth <= n_rounds + 1
        depth = make(name, n_rounds=n_rounds, max_depth=1).build(X, y)
        assert depth == tree.limit(max_depth=1)
    assert make(name, n_rounds=30).build(X, y) == whole


def test_rounds_of_hung_are_levels(monkeypatch):
    """Without dummies all but an odd one are paired in every round."""
    monkeypatch.setattr(_hungarian, "_DUMMIES", 0.0)
    X, y = gaussians(k=16, spread=1.0)
    for n_rounds, active in ((1, 8), (2, 4), (3, 2), (4, 2)):
        tree = HungarianMerge(n_rounds=n_rounds).build(X, y)
        assert tree.children(0).size == active
        sizes = [tree.classes_below(c).size for c in tree.children(0)]
        assert sizes == [16 // active] * active


def test_merges_in_rounds_halve_the_clusters():
    for k in range(2, 70):
        left, expected = k, []
        for _ in range(8):
            left -= left // 2
            expected.append(k - left)
        found = [_bottom_up.merges_in_rounds(k, d) for d in range(1, 9)]
        assert found == expected
        assert _bottom_up.merges_in_rounds(k, None) == k - 1
        assert _bottom_up.merges_in_rounds(k, 10**9) == k - 1


def test_obyo_builds_deep_chains():
    k = 1500
    factor = np.ones((k, 1)) * np.arange(1, k + 1)[:, None]
    merges = _greedy.merge_greedily(factor, np.ones(k), False, k - 1)
    assert len(merges) == k - 1
    assert Taxonomy(*_bottom_up.parents_of_merges(merges, k, None)).depth == k - 1


def all_matchings(edges):
    """All sets of disjoint edges."""
    for r in range(len(edges), -1, -1):
        for some in combinations(edges, r):
            nodes = [v for edge in some for v in edge]
            if len(set(nodes)) == len(nodes):
                yield some


@pytest.mark.parametrize("seed", range(5))
def test_hung_matches_most_pairs_at_least_cost(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(2, 10))
    cost = rng.normal(size=(k, k))
    cost += cost.T
    # A permutation without fixed points, some of its arrows cut off.
    while True:
        to = rng.permutation(k)
        if (to != np.arange(k)).all():
            break
    to[rng.random(k) < rng.choice([0, 0.2, 0.5])] = -1
    pairs = _hungarian.pairs_of_assignment(to, cost)
    edges = {(min(i, j), max(i, j)) for i, j in enumerate(to.tolist()) if j >= 0}
    assert set(pairs) <= edges
    nodes = [v for pair in pairs for v in pair]
    assert len(set(nodes)) == len(nodes)
    options = list(all_matchings(sorted(edges)))
    most = max(map(len, options))
    least = min(sum(cost[e] for e in m) for m in options if len(m) == most)
    assert len(pairs) == most
    assert_allclose(sum(cost[p] for p in pairs), least, atol=1e-12)


def test_hung_levels(monkeypatch):
    X, y = gaussians(k=32)
    # The last two are far from all others, and are paired without dummies only.
    rows = np.array([[1.0, 0.0], [1.0, 0.1], [-1.0, 1.0], [-1.0, -2.0]])
    for fraction, pairs in ((0.5, [(0, 1)]), (0.0, [(0, 1), (2, 3)])):
        monkeypatch.setattr(_hungarian, "_DUMMIES", fraction)
        assert sorted(_hungarian.pair_level(rows)) == pairs
    # Odd cycles leave few over: close to balanced.
    assert 5 <= HungarianMerge().build(X, y).depth <= 8
    # Far apart, every cluster is assigned to a dummy: the closest pair is merged.
    monkeypatch.setattr(_hungarian, "_DUMMIES", 1.0)
    apart = np.array([[1.0, 0.0], [-1.0, 1e-3], [-1.0, -1e-3]])
    assert _hungarian.pair_level(apart[:2]) == [(0, 1)]
    assert _hungarian.pair_level(apart) == [(1, 2)]


def test_hung_is_interrupted_in_its_assignment(interrupt, monkeypatch):
    """SciPy's assignment does not check for signals."""
    release, threads = threading.Event(), []

    def assign(cost):
        threads.append(threading.current_thread())
        release.wait()

    monkeypatch.setattr(_hungarian, "linear_sum_assignment", assign)
    X, y = gaussians()
    with pytest.raises(KeyboardInterrupt):
        interrupt()
        HungarianMerge().build(X, y)
    release.set()
    assert len(threads) == 1 and threads[0] is not threading.main_thread()


# ------------------------------------------------------- baselines and control


def test_ward_is_that_of_scikit_learn():
    X, y = gaussians()
    means = np.array([X[y == k].mean(axis=0) for k in range(24)])
    model = AgglomerativeClustering(linkage="ward", compute_full_tree=True).fit(means)
    assert WardMerge().build(X, y) == Taxonomy(
        *_bottom_up.parents_of_merges(model.children_, 24, None)
    )


@pytest.mark.parametrize("seed", range(3))
def test_two_means_is_as_good_as_kmeans(seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(40, 6)) * np.arange(1, 7)

    def inertia(side):
        parts = points[side], points[~side]
        return sum(((p - p.mean(axis=0)) ** 2).sum() for p in parts)

    side = _kmeans.two_means(points, 20, np.random.RandomState(0), False, 100)
    model = KMeans(2, n_init=20, random_state=0).fit(points)
    assert inertia(side) <= model.inertia_ * 1.02
    # Lloyd's condition: every point is on the side of the nearer mean.
    near = [((points - points[s].mean(axis=0)) ** 2).sum(1) for s in (side, ~side)]
    assert_array_equal(near[0] < near[1], side)


def test_rand_is_balanced_and_ignores_the_features():
    y = np.arange(37)
    a = RandomSplit(random_state=0).build(np.zeros((37, 1)), y)
    b = RandomSplit(random_state=0).build(np.random.default_rng(0).normal(size=(37, 5)), y)  # fmt: skip  # noqa: E501
    assert a == b and a.depth == 6
    size = a.class_sets.stop - a.class_sets.start
    for v in np.flatnonzero(~a.is_leaf):
        assert abs(np.diff(size[a.children(v)]))[0] <= 1
    first = [
        RandomSplit(max_depth=1, random_state=s).build(np.zeros((4, 1)), range(4))
        for s in range(60)
    ]
    assert len({tuple(sorted(t.classes_below(1).tolist())) for t in first}) >= 3


def test_conf_counts_its_random_splits():
    # Never confused: nothing is known, every split is random.
    far, y = gaussians(k=8, d=20, m=6, spread=1e4)
    builder = ConfusionSplit(random_state=0)
    builder.build(far, y)
    assert builder.n_random_splits_ == builder.n_splits_ > 0
    # Two pairs of classes which are confused within the pair only.
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 60)
    X = np.eye(2)[y // 2] * 50 + rng.normal(size=(240, 2))
    tree = ConfusionSplit(random_state=0).build(X, y)
    assert tree.limit(max_depth=1) == Taxonomy.from_nested([[0, 1], [2, 3]])


def test_conf_takes_any_classifier():
    from sklearn.neighbors import KNeighborsClassifier

    X, y = load_iris(return_X_y=True)
    builder = ConfusionSplit(KNeighborsClassifier(3), random_state=0)
    assert builder.build(X, y) == Taxonomy.from_nested([[0], [[1], [2]]])
    assert builder.set_params(estimator__n_neighbors=5).estimator.n_neighbors == 5
    assert not hasattr(builder.estimator, "classes_")


def test_conf_refuses_a_classifier_of_other_labels():
    X, y = load_iris(return_X_y=True)
    for names in y + 3, y.astype(str):
        frozen = FrozenEstimator(RidgeClassifier().fit(X, names))
        with pytest.raises(ValueError, match="estimator: .* pass an unfitted"):
            ConfusionSplit(frozen).build(X, names)


class Unweighted(RidgeClassifier):
    def fit(self, X, y):
        return super().fit(X, y)


def test_conf_weights_its_surrogate():
    """Many samples of hardly any weight, which say the opposite."""
    rng = np.random.default_rng(0)
    y = np.repeat(np.arange(4), 60)
    X = np.eye(2)[y // 2] * 50 + rng.normal(size=(240, 2))
    # Class 1 in the place of 2 and 3, class 2 in that of 0 and 1.
    other = np.repeat([1, 2], 600)
    Z = np.eye(2)[2 - other] * 50 + rng.normal(size=(1200, 2))
    data = np.vstack([X, Z]), np.concatenate([y, other])
    weight = np.repeat([1.0, 1e-9], [240, 1200])
    expected = Taxonomy.from_nested([[0, 1], [2, 3]])
    builder = ConfusionSplit(random_state=0, max_depth=1)
    assert builder.build(*data, weight) == expected
    assert builder.build(*data) != expected
    # A surrogate that takes no weights learns from the many.
    builder.set_params(estimator=Unweighted())
    assert builder.build(*data, weight) != expected


# -------------------------------------------------------------- given taxonomies


def refine(given, X, y, weight=None, **options):
    return RefinedTaxonomy(given, **options).build(X, y, weight)


def sets_of(tree):
    return {
        tuple(np.sort(tree.classes[tree.classes_below(v)]).tolist())
        for v in range(tree.n_nodes)
    }


@pytest.mark.parametrize("name", NAMES)
def test_refine_keeps_the_given_groups(name):
    X, y = gaussians()
    rng = np.random.default_rng(0)
    order = rng.permutation(24).tolist()
    given = Taxonomy.from_nested(
        [order[:6], order[6:8], [order[8:9], order[9:15], order[15:20]], order[20:]]
    )
    tree = refine(given, X, y, builder=make(name))
    assert sets_of(given) <= sets_of(tree)
    assert tree.n_leaves == 24
    only_leaves = refine(given, X, y, builder=make(name), regroup=False)
    assert_array_equal(np.diff(only_leaves.child_ptr)[0], 4)
    assert sets_of(given) <= sets_of(only_leaves)
    only_groups = refine(given, X, y, builder=make(name), max_leaf_size=24)
    assert only_groups.n_leaves == given.n_leaves
    assert sets_of(given) <= sets_of(only_groups)
    if name != "hung":  # which may join three at the root
        assert (np.diff(tree.child_ptr)[~tree.is_leaf] == 2).all()


def test_refine_of_the_flat_tree_is_the_builder():
    X, y = gaussians()
    for name in EQUIVARIANT:
        flat = Taxonomy.flat(range(24))
        assert refine(flat, X, y, builder=make(name)) == make(name).build(X, y)


def test_refine_leaves_out_classes_without_samples():
    X, y = gaussians()
    more = Taxonomy.from_nested([list(range(12)), list(range(12, 30))])
    weight = (y != 3).astype(float)
    rest = as_taxonomy(more, np.delete(np.arange(24), 3))
    assert refine(more, X, y, weight) == refine(rest, X[y != 3], y[y != 3])
    assert refine([list(range(12)), list(range(12, 30))], X, y, weight) == refine(
        more, X, y, weight
    )


def test_refine_splits_a_leaf_as_its_own_samples_say():
    X, y = gaussians(spread=1.0)
    given = Taxonomy.from_paths({k: f"group {k % 2}" for k in range(24)})
    tree = refine(given, X, y, np.ones(len(y)))
    assert tree.names[1:3] == ("group 0", "group 1")
    for node in (1, 2):
        members = given.classes_below(node)
        rows = np.isin(y, members)
        assert as_taxonomy(tree, members) == CutSplit().build(X[rows], y[rows])


def test_refine_bad_input():
    X, y = gaussians()
    flat = Taxonomy.flat(range(24))
    with pytest.raises(InvalidParameterError, match="'taxonomy' parameter .* Got 3"):
        refine(3, X, y)
    with pytest.raises(ValueError, match=r"missing labels.* 23"):
        refine(Taxonomy.flat(range(23)), X, y)
    with pytest.raises(ValueError, match="max_leaf_size"):
        refine(flat, X, y, max_leaf_size=0)
    with pytest.raises(ValueError, match="NaN"):
        refine(flat, X * np.nan, y)
    with pytest.raises(ValueError, match="y is None"):
        refine(flat, X, None)
    # Refused even where no builder is called.
    halves = Taxonomy.from_nested([list(range(12)), list(range(12, 24))])
    weight = np.ones(len(y))
    weight[0] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        refine(halves, X, y, weight, max_leaf_size=24)
    with pytest.raises(ValueError, match="builder='cutt' .* 'cut'"):
        refine(flat, X, y, builder="cutt")
    for bad in (CutSplit, 3):
        with pytest.raises(ValueError, match="builder"):
            refine(flat, X, y, builder=bad)


@pytest.mark.parametrize("name", NAMES)
def test_refine_takes_names_of_builders(name):
    X, y = gaussians(spread=0.2)
    flat = Taxonomy.flat(range(24))
    tree = refine(flat, X, y, builder=name, random_state=0)
    assert tree == refine(flat, X, y, builder=make(name))
    if "random_state" in make(name).get_params():
        builder = TAXONOMY_BUILDERS[name]()
        assert refine(flat, X, y, builder=builder, random_state=0) == tree
        assert builder.random_state is None
        seeded = make(name, random_state=7)
        assert refine(flat, X, y, builder=seeded, random_state=0) == seeded.build(X, y)


# Forms of one tree over 24 classes and two that have no samples.
GIVEN = {k: ["low", "even"] if k % 2 == 0 else ["odd"] for k in range(26)}
FORMS = {
    "taxonomy": Taxonomy.from_paths(GIVEN),
    "lists": [[list(range(0, 26, 2))], list(range(1, 26, 2))],
    "tuples": (tuple(range(0, 26, 2)), tuple(range(1, 26, 2))),
    "parents": {
        **{k: "odd" if k % 2 else "even" for k in range(26)},
        "even": "low",
        "low": "root",
        "odd": "root",
    },
    "paths": GIVEN,
    "groups": {
        "low": [{"even": list(range(0, 26, 2))}],
        "odd": list(range(1, 26, 2)),
    },
}
OVER_GIVEN = {
    "refined": lambda tree, **kw: RefinedTaxonomy(tree, **kw),
    "refined at random": lambda tree, **kw: RefinedTaxonomy(
        tree, **{"builder": "rand", "random_state": 3, **kw}
    ),
}


@pytest.mark.parametrize(*each_value(form=FORMS, maker=OVER_GIVEN))
def test_builders_over_a_given_tree(form, maker):
    X, y = gaussians()
    builder = OVER_GIVEN[maker](FORMS[form])
    tree = builder.build(X, y)
    check_tree(tree, y)
    groups = as_taxonomy(FORMS["taxonomy"], range(24))
    assert sets_of(groups) <= sets_of(tree)
    assert tree.n_leaves == 24
    again = clone(builder)
    assert again.build(X, y) == tree
    assert again.get_params().keys() == builder.get_params().keys()
    # The common protocol.
    rounded = np.round(X * 4)
    expected = builder.build(rounded, y)
    for other in (rounded.astype(np.float32), sp.csr_array(rounded)):
        assert builder.build(other, y) == expected
    weight = np.where(y == 5, 0.0, 2.0)
    assert 5 not in builder.build(X, y, weight).classes
    assert clone(builder).set_params(max_depth=1).build(X, y) == tree.limit(max_depth=1)
    assert builder.set_params(max_depth=0).build(X, y) == Taxonomy.flat(range(24))
    assert OVER_GIVEN[maker](FORMS[form]).build(X[:3], [4] * 3) == Taxonomy.flat([4])
    with pytest.raises(ValueError, match="missing labels: .* no place for 99"):
        builder.build(X, np.where(y == 3, 99, y))
    with pytest.raises(ValueError, match="missing labels"):
        builder.build(X[:2], [99, 99])
    with pytest.raises(ValueError, match="NaN"):
        builder.build(X * np.nan, y)
    with pytest.raises(ValueError, match="malformed"):
        builder.build(next(malformed()), [0, 1, 2, 0])


def test_given_trees_that_are_wrong():
    for bad, message in (
        (3, "taxonomy"),
        ("cut", "taxonomy"),
        ([], "empty node"),
        ([[0], [0]], "duplicate label"),
        ({0: "a", "a": "b", "b": "a"}, "cycle"),
        ({0: ["g"], 1: 3}, "path of label 1"),
        ({"g": [0]}, "missing labels: .* no place for 1"),
        ({"g": [5]}, "its values must hold the labels .groups., or its keys"),
        ({"g": {"h": [0]}, "i": 1}, r"nested\['i'\] must be a list"),
        ({"g": [0], "i": 1}, r"taxonomy\['i'\] is 1, but .* make it a list, \[1\]"),
        ({"g": {"h": []}, "i": [1]}, "empty node: 'h'"),
        ({0: [1], 1: [0]}, "every class among its keys and among its values"),
    ):
        with pytest.raises(ValueError, match=message):
            RefinedTaxonomy(bad).build([[0.0], [1.0]], [0, 1])
    for key, bad in (
        ("builder", "none"),
        ("builder", 3),
        ("max_leaf_size", 0),
        ("regroup", "no"),
        ("random_state", "seed"),
        ("max_depth", -1),
    ):
        builder = RefinedTaxonomy([[0, 1, 2]]).set_params(**{key: bad})
        with pytest.raises(ValueError, match=key):
            builder.build([[0.0], [1.0], [3.0]], [0, 1, 2])


def test_parameters_of_the_builder_inside():
    nested = RefinedTaxonomy(FORMS["lists"], CutSplit())
    nested.set_params(builder__delta=50.0)
    assert nested.get_params()["builder__delta"] == nested.builder.delta == 50.0
    assert clone(nested).builder is not nested.builder


def test_refining_inside_a_grid_search():
    X, y = load_digits(return_X_y=True)
    X, y = X[:300] / 16, y[:300]
    given = [[0, 6, 8, 9], [1, 4, 7], [2, 3, 5]]
    model = HierarchicalClassifier(RefinedTaxonomy(given, random_state=0))
    grid = {"taxonomy__builder": ["cut", "rand", CutSplit(delta=10.0)]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    assert np.isfinite(search.cv_results_["mean_test_score"]).all()
    best = search.best_estimator_
    assert sets_of(Taxonomy.from_nested(given)) <= sets_of(best.taxonomy_)
    assert best.taxonomy_.n_leaves == 10
    model.set_params(taxonomy__builder=CutSplit())
    grid = {"taxonomy__builder__delta": [0.1, 10.0], "taxonomy__max_leaf_size": [1, 4]}
    search = GridSearchCV(model, grid, cv=2, error_score="raise").fit(X, y)
    # A fold without a class leaves it out of its tree.
    few = HierarchicalClassifier(given).fit(X[y != 9], y[y != 9])
    assert few.taxonomy_ == Taxonomy.from_nested([[0, 6, 8], [1, 4, 7], [2, 3, 5]])


@pytest.mark.parametrize(
    *all_pairs(
        kind=[np.asarray, sp.csr_matrix, sp.csr_array],
        dtype=[np.float32, np.float64],
        spherical=[False, True],
    )
)
def test_balanced_kmeans_halves_every_node(kind, dtype, spherical):
    rng = np.random.default_rng(0)
    X = rng.poisson(0.3, size=(200, 60)).astype(dtype)
    y = np.arange(200) % 37
    tree = KMeansSplit(
        balanced=True, spherical=spherical, max_leaf=5, random_state=0
    ).build(kind(X), y)
    size = tree.class_sets.stop - tree.class_sets.start
    assert size[tree.is_leaf].max() <= 5
    for v in np.flatnonzero(~tree.is_leaf):
        assert abs(np.diff(size[tree.children(v)]))[0] <= 1


@pytest.mark.parametrize("balanced", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_spherical_halves_cannot_be_improved_by_their_own_directions(balanced, seed):
    rng = np.random.default_rng(seed)
    points = rng.normal(size=(31, 8)) + 0.5
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    shared = 6, np.random.RandomState(0), balanced, 100
    side = _kmeans.two_directions(points, *shared)
    shared = 6, np.random.RandomState(0), balanced, 100
    assert_array_equal(_kmeans.two_directions(sp.csr_array(points), *shared), side)
    a, b = points[side].sum(axis=0), points[~side].sum(axis=0)
    score = points @ (a / np.linalg.norm(a) - b / np.linalg.norm(b))
    if balanced:
        assert side.sum() == 16
        assert score[side].min() >= score[~side].max()
    else:
        assert_array_equal(score > 0, side)

    def value(side):
        return sum(np.linalg.norm(points[s].sum(axis=0)) for s in (side, ~side))

    for _ in range(50):
        other = np.zeros(31, dtype=bool)
        other[rng.permutation(31)[:16]] = True
        assert value(side) > value(other)


def test_spherical_kmeans_finds_the_groups_of_texts():
    X, y, groups = make_sparse_classes(
        4000, 64, 5000, n_groups=4, return_groups=True, random_state=0
    )
    tree = KMeansSplit(
        balanced=True, spherical=True, max_leaf=16, random_state=0
    ).build(X, y)
    assert tree.n_leaves == 4
    leaf = np.unique(tree.leaf_of_class, return_inverse=True)[1]
    together = np.zeros((4, 4))
    np.add.at(together, (leaf, groups[tree.classes]), 1)
    assert together.max(axis=0).sum() >= 60
    # Scaling classes or samples changes nothing.
    scaled = sp.diags_array(np.where(y % 2, 8.0, 1.0)) @ X
    same = KMeansSplit(balanced=True, spherical=True, max_leaf=16, random_state=0)
    assert same.build(scaled.astype(np.float32), y) == tree


def test_classes_without_features_do_not_stop_kmeans():
    X = sp.csr_matrix((40, 9), dtype=np.float32)
    y = np.arange(40) % 8
    options = {"balanced": True, "spherical": True, "random_state": 0}
    assert KMeansSplit(**options).build(X, y).depth == 3
    X = sp.csr_matrix(np.outer(y == 3, np.arange(9) == 1).astype(np.float32))
    for balanced in (True, False):
        tree = KMeansSplit(**options | {"balanced": balanced}).build(X, y)
        check_tree(tree, y)


@pytest.mark.parametrize("kind", [np.asarray, sp.csr_matrix])
def test_leading_directions_are_those_of_the_class_means(kind):
    rng = np.random.default_rng(0)
    # a clear gap after five directions
    centers = rng.normal(size=(40, 5)) @ rng.normal(size=(5, 300)) * 3
    y = np.repeat(np.arange(40), 6)
    X = centers[y] + rng.normal(size=(240, 300)) * 0.01
    weight = rng.uniform(0.5, 2, size=240)
    means = _directions.weighted_means(kind(X), y, weight, 40)
    expected = np.array(
        [np.average(X[y == c], axis=0, weights=weight[y == c]) for c in range(40)]
    )
    dense = means.toarray() if sp.issparse(means) else means
    assert_allclose(dense, expected, atol=1e-12)
    basis = _directions.leading_directions(means, 5)
    assert_allclose(basis.T @ basis, np.eye(5), atol=1e-10)
    v = np.linalg.svd(expected - expected.mean(axis=0))[2][:5]
    assert_allclose(abs(np.linalg.det(v @ basis)), 1, atol=1e-6)


def test_many_classes_of_sparse_samples_need_few_directions():
    X, y, groups = make_sparse_classes(
        6000, 600, 20_000, n_groups=12, return_groups=True, random_state=0
    )
    stats = ClassStatistics(X, y)
    assert stats.form == "class_means" and stats.scatter.shape == (64, 64)
    rows = ClassStatistics(X, y, keep_rows=True)
    assert_allclose(rows.scatter, stats.scatter, rtol=1e-5, atol=1e-6)
    for builder in (
        CutSplit(max_leaf=50),
        CutSplit(max_leaf=50, rank=12),
        CutSplit(max_leaf=50, gram="exact"),
    ):
        tree = builder.build(X, y)
        leaf = np.unique(tree.leaf_of_class, return_inverse=True)[1]
        together = np.zeros((tree.n_leaves, 12))
        np.add.at(together, (leaf, groups[tree.classes]), 1)
        assert together.max(axis=1).sum() >= 0.99 * tree.n_classes


def test_directions_of_large_numbers_in_single_precision():
    X, y = make_sparse_classes(1000, 100, 500, random_state=0)
    tree = CutSplit(form="class_means", rank=8).build(X, y)
    # a power of two: the same digits
    assert (
        CutSplit(form="class_means", rank=8, delta=2.0**200).build(
            X * np.float32(2.0**100), y
        )
        == tree
    )


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_directions_beyond_the_rank_of_the_means(dtype):
    X = np.zeros((60, 50), dtype=dtype)
    X[:, 0] = np.arange(60) // 3  # one direction tells all classes
    y = np.arange(60) // 3
    tree = CutSplit(form="class_means", rank=5).build(X, y)
    check_tree(tree, y)
    for flat in (np.zeros_like(X), np.ones_like(X)):
        check_tree(CutSplit(form="class_means", rank=5).build(flat, y), y)


def test_kmeans_without_random_starts_is_deterministic():
    X, y = gaussians()
    trees = [KMeansSplit(n_init=1, random_state=s).build(X, y) for s in range(3)]
    assert trees[0] == trees[1] == trees[2]


@pytest.mark.parametrize("seed", range(3))
def test_the_certificate_of_a_cut_bounds_all_sign_vectors(seed):
    rng = np.random.default_rng(seed)
    k = int(rng.integers(3, 13))
    factor = rng.standard_normal((k, int(rng.integers(1, 6))))
    factor -= factor.mean(axis=0)
    best = _signs.objective(factor, _cut.exhaustive(factor))
    near = _signs.bound_of(factor, _diffrac.relax(factor, tol=1e-12, max_iter=20_000))
    assert near >= best * (1 - 1e-12)
    # Goemans and Williamson, Nesterov: the relaxation is within 2 / pi.
    assert near <= best * np.pi / 2 * (1 + 1e-6)
    for v in (np.ones((k, 1)), rng.standard_normal((k, 2))):  # valid, if not sharp
        assert _signs.bound_of(factor, v) >= near * (1 - 1e-6)


def test_cut_reports_the_largest_gap():
    rng = np.random.default_rng(0)
    centers = rng.standard_normal((14, 6))
    y = np.repeat(np.arange(14), 20)
    X = centers[y] + 0.1 * rng.standard_normal((y.size, 6))
    builder = CutSplit(certify=True)
    tree = builder.build(X, y)
    assert tree.to_nested() == CutSplit().build(X, y).to_nested()
    assert 0 <= builder.gap_ < 1 - 2 / np.pi + 1e-6
    # Two far groups: the first split, the only one beyond enumeration, is optimal.
    X[y >= 7] += 100.0
    assert builder.build(X, y).to_nested()[1] == CutSplit().build(X, y).to_nested()[1]
    assert builder.gap_ < 1e-4


def test_the_gap_is_that_of_the_worst_split():
    gaps = []

    class OneByOne(CutSplit):
        def _bisect(self, factor, diagonal):
            self.gap_ = 0.0
            z = super()._bisect(factor, diagonal)
            if len(factor) > 10:  # smaller nodes are enumerated
                gaps.append(self.gap_)
            return z

    rng = np.random.default_rng(2)
    y = np.repeat(np.arange(40), 6)
    X = rng.standard_normal((40, 8))[y] + 0.1 * rng.standard_normal((y.size, 8))
    X[y >= 20] += 100.0  # the first split is optimal
    OneByOne(certify=True, max_leaf=10).build(X, y)
    assert len(gaps) >= 4
    assert max(gaps) > max(gaps[0], gaps[-1])  # neither of the first nor of the last
    builder = CutSplit(certify=True, max_leaf=10)
    builder.build(X, y)
    assert builder.gap_ == max(gaps)


def test_many_classes_have_the_bound_of_the_largest_eigenvalue(monkeypatch):
    monkeypatch.setattr(_signs, "_DENSE_GRAM", 4)
    rng = np.random.default_rng(0)
    factor = rng.standard_normal((9, 3))
    value = _signs.bound_of(factor, np.ones((9, 1)))
    assert value == pytest.approx(9 * np.linalg.eigvalsh(factor @ factor.T)[-1])
    assert value >= _signs.objective(factor, _cut.exhaustive(factor))
