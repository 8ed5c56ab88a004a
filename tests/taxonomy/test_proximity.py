"""ClassStatistics and ClassProximity against the formulas, written out."""

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import each_value
from numpy.testing import assert_allclose, assert_array_equal
from sklearn.datasets import load_digits, load_iris, load_wine

from sklstruct import _checks
from sklstruct.taxonomy import ClassStatistics
from sklstruct.taxonomy._proximity import ClassProximity


def brute_force(X, y, weight=None, delta=1.0):
    """Q in the words of its definition, samples repeated by their weight."""
    X, y = np.asarray(X, float), np.asarray(y)
    if weight is not None:
        X, y = np.repeat(X, weight, axis=0), np.repeat(y, weight)
    Y = (y[:, None] == np.unique(y)).astype(float)
    Xc = X - X.mean(axis=0)
    hat = Xc @ np.linalg.solve(Xc.T @ Xc + delta * np.eye(X.shape[1]), Xc.T)
    return Y.T @ (np.eye(len(X)) - hat) @ Y


def n_by_n(X, y, delta=1.0):
    """The same by the n × n Gram: Q = δ Yᵀ(XcXcᵀ + δI)⁻¹Y."""
    Y = (y[:, None] == np.unique(y)).astype(float)
    Xc = X - X.mean(axis=0)
    gram = Xc @ Xc.T + delta * np.eye(len(X))
    return delta * Y.T @ np.linalg.solve(gram, Y)


def synthetic(n=120, d=15, k=9, seed=0):
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    X = rng.normal(size=(n, d)) + 2 * rng.normal(size=(k, d))[y] + 3
    return X, y


DATA = {
    "iris": load_iris(return_X_y=True),
    "wine": load_wine(return_X_y=True),
    "digits": tuple(a[:300] for a in load_digits(return_X_y=True)),
    "synthetic": synthetic(),
    "n < d": synthetic(n=30, d=60, k=5),
}


@pytest.mark.parametrize(*each_value(data=DATA, delta=[1e-3, 1.0, 1e3]))
def test_factored_equals_n_by_n_equals_brute_force(data, delta):
    X, y = DATA[data]
    expected = brute_force(X, y, delta=delta)
    # The plain n × n formula itself loses the digits of the condition number.
    condition = ((X - X.mean(axis=0)) ** 2).sum() / delta
    loss = max(1e-8, 1e-15 * condition)
    assert_allclose(n_by_n(X, y, delta), expected, rtol=1e-8, atol=loss)
    for form in ("primal", "dual"):
        stats = ClassStatistics(X, y, form=form, keep_rows=True)
        for gram in ("pooled", "exact", "root"):
            got = stats.proximity(delta=delta, gram=gram).matrix()
            assert_allclose(got, expected, rtol=1e-8, atol=1e-8, err_msg=gram)


@pytest.mark.parametrize(
    *each_value(form=["primal", "dual", "class_means"], density=[0.03, 0.5])
)
def test_sparse_equals_dense(density, form):
    rng = np.random.default_rng(0)
    S = sp.random_array((90, 20), density=density, random_state=rng, format="csr")
    y = rng.integers(0, 6, 90)
    w = rng.random(90) + 0.1
    dense = ClassStatistics(S.toarray(), y, w, form=form, rank=90, keep_rows=True)
    sparse = ClassStatistics(S, y, w, form=form, rank=90, keep_rows=True)
    old = ClassStatistics(sp.csr_matrix(S), y, w, form=form, rank=90, keep_rows=True)
    for members in (None, [0, 2, 5]):
        for gram in ("pooled", "exact", "root"):
            want = dense.proximity(members, gram=gram).matrix()
            for other in (sparse, old):
                got = other.proximity(members, gram=gram).matrix()
                assert_allclose(got, want, atol=1e-8)


def test_float32_is_accumulated_in_float64():
    X, y = DATA["digits"]
    got = ClassStatistics(X.astype(np.float32), y).proximity().matrix()
    assert_allclose(got, brute_force(X, y), atol=1e-8)  # digits are small integers


def test_weights_are_repetitions_and_zero_is_absence():
    X, y = synthetic()
    rng = np.random.default_rng(1)
    weight = rng.integers(0, 4, len(y))
    weight[y == 3] = 0
    stats = ClassStatistics(X, y, weight)
    assert_array_equal(stats.classes, np.delete(np.arange(9), 3))
    assert_allclose(stats.proximity().matrix(), brute_force(X, y, weight), atol=1e-8)
    scaled = ClassStatistics(X, y, weight * 0.5).proximity(delta=0.5).matrix()
    assert_allclose(scaled, 0.5 * brute_force(X, y, weight), atol=1e-8)


def test_exact_subset_equals_the_data_of_the_subset():
    X, y = synthetic()
    members = [1, 4, 6, 7]
    stats = ClassStatistics(X, y, keep_rows=True)
    rows = np.isin(y, members)
    share = rows.sum() / len(y)
    expected = brute_force(X[rows], y[rows], delta=share)
    got = stats.proximity(members, gram="exact").matrix()
    assert_allclose(got, expected, atol=1e-8)
    # Pooled is exact where all classes have the same covariance.
    base = np.random.default_rng(0).normal(size=(20, 5))
    base -= base.mean(axis=0)
    shifts = np.random.default_rng(1).normal(size=(6, 5))
    X = np.concatenate([base + s for s in shifts])
    y = np.repeat(np.arange(6), 20)
    stats = ClassStatistics(X, y, keep_rows=True)
    pooled = stats.proximity([0, 2, 3]).matrix()
    exact = stats.proximity([0, 2, 3], gram="exact").matrix()
    assert_allclose(pooled, exact, atol=1e-8)


@pytest.mark.parametrize("gram", ["pooled", "exact", "root"])
def test_subsets_are_centred(gram):
    X, y = synthetic()
    stats = ClassStatistics(X, y, keep_rows=True)
    for members in (None, [0, 1], [2, 5, 8, 3]):
        near = stats.proximity(members, gram=gram)
        assert_allclose(near.factor.sum(axis=0), 0, atol=1e-9)
        # Hence the constant vector is the worst of all: its residual is the weight.
        ones = np.ones(near.n_classes)
        assert_allclose(near.residual(ones), near.weight.sum(), rtol=1e-12)


@pytest.mark.parametrize("data", DATA)
def test_merge_is_exact(data):
    X, y = DATA[data]
    near = ClassStatistics(X, y).proximity()
    q = near.matrix()
    U = np.delete(np.eye(near.n_classes), 2, axis=1)
    U[2, 0] = 1
    group = np.arange(near.n_classes)
    group[2] = 0
    merged = near.merge(np.unique(group, return_inverse=True)[1])
    scale = abs(q).max()
    assert_allclose(merged.matrix(), U.T @ q @ U, atol=1e-10 * scale)
    relabelled = np.where(y == 2, 0, y)
    direct = ClassStatistics(X, relabelled).proximity()
    assert_allclose(merged.matrix(), direct.matrix(), atol=1e-10 * scale)
    assert_array_equal(merged.classes, direct.classes)


@pytest.mark.parametrize("sparse", [False, True])
def test_subset_scatter_is_that_of_the_rows(sparse):
    X, y = synthetic()
    X[np.abs(X) < 4.5] = 0.0  # sparse enough for the sparse route
    w = np.random.default_rng(0).random(len(y)) + 0.1
    stats = ClassStatistics(sp.csr_array(X) if sparse else X, y, w, keep_rows=True)
    members = [7, 2, 3]
    rows = np.isin(y, members)
    part = X[rows] - np.average(X, axis=0, weights=w)
    expected = part.T @ (part * w[rows, None])
    assert_allclose(stats.subset_scatter(members), expected, atol=1e-9)


def test_whitened_means_have_the_within_class_covariance_one():
    X, y = synthetic()
    stats = ClassStatistics(X, y)
    n, d = X.shape
    means = np.array([X[y == c].mean(axis=0) for c in range(9)])
    within = (X - means[y]).T @ (X - means[y]) + 2.0 * np.eye(d)
    centred = means - X.mean(axis=0)
    white = stats.whitened_means(2.0)
    # Distances of Mahalanobis, whatever the rotation.
    assert_allclose(
        white @ white.T, centred @ np.linalg.solve(within / n, centred.T), rtol=1e-9
    )


def test_merge_of_several_groups():
    near = ClassStatistics(*synthetic()).proximity()
    group = np.array([0, 1, 0, 2, 2, 3, 0, 1, 3])
    U = np.eye(4)[group]
    merged = near.merge(group)
    assert_allclose(merged.matrix(), U.T @ near.matrix() @ U, atol=1e-10)
    assert_array_equal(merged.classes, [0, 1, 3, 5])
    with pytest.raises(ValueError, match="group 1 is empty"):
        near.merge([0, 2, 0, 2, 2, 3, 0, 2, 3])
    for bad in ([0, 1], np.zeros(9), 3, [[0] * 9], [0] * 8 + [-1], [0] * 8 + [9]):
        with pytest.raises(ValueError, match="^group"):
            near.merge(bad)


def test_residual_is_the_residual_of_ridge_regression():
    from sklearn.linear_model import Ridge

    X, y = synthetic()
    z = np.where(np.arange(9) % 2, 1.0, -1.0)
    near = ClassStatistics(X, y).proximity(delta=3.0)
    model = Ridge(alpha=3.0).fit(X, z[y])
    # Ridge fits an intercept, ours does not: remove the mean of the target there.
    centred = z[y] - z[y].mean()
    loss = ((z[y] - model.predict(X)) ** 2).sum() + 3.0 * (model.coef_**2).sum()
    without = near.residual(z) - (z[y] ** 2).sum() + (centred**2).sum()
    assert_allclose(without, loss, rtol=1e-10)
    assert_allclose(near.residual(z), z @ near.matrix() @ z, rtol=1e-10)


def test_class_mean_coordinates_are_exact_for_spherical_classes():
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.normal(size=(30, 30)))[0]
    # Each class scatters equally in all directions: nothing lies outside the span.
    X = np.concatenate(
        [m + sign * 0.5 * basis for m in rng.normal(size=(4, 30)) for sign in (1, -1)]
    )
    y = np.repeat(np.arange(4), 60)
    full = ClassStatistics(X, y).proximity().matrix()
    projected = ClassStatistics(X, y, form="class_means")
    assert projected.scatter.shape == (3, 3)
    assert_allclose(projected.proximity().matrix(), full, atol=1e-8)


@pytest.mark.parametrize(
    *each_value(
        gram=["pooled", "exact", "root"],
        form=["primal", "dual", "class_means"],
        delta=[0.0, 1.0],
    )
)
def test_degenerate_data_stay_finite(gram, form, delta):
    cases = {
        "constant features": (np.ones((12, 3)), np.arange(12) % 4),
        "one sample per class": (
            np.random.default_rng(0).normal(size=(8, 3)),
            range(8),
        ),
        "duplicate features": (np.repeat(synthetic(d=1)[0], 4, axis=1), synthetic()[1]),
        "one class": (np.random.default_rng(0).normal(size=(5, 2)), [0] * 5),
        "one sample": (np.ones((1, 2)), [0]),
        "large mean": (synthetic()[0] + 1e7, synthetic()[1]),
        "tiny": (synthetic()[0] * 1e-150, synthetic()[1]),
        "huge": (synthetic()[0] * 1e120, synthetic()[1]),
    }
    for name, (X, y) in cases.items():
        stats = ClassStatistics(X, y, form=form, keep_rows=True)
        some = np.arange(stats.n_classes)[: max(stats.n_classes // 2, 1)]
        for members in (None, some):
            q = stats.proximity(members, delta=delta, gram=gram).matrix()
            assert np.isfinite(q).all(), name
            # 0 <= Q <= N in the order of positive semi-definite matrices.
            weight = stats.weight[: len(q)]
            low = np.linalg.eigvalsh(q)
            assert low.min() >= -1e-6 * weight.sum(), name
            assert np.linalg.eigvalsh(np.diag(weight) - q).min() >= -1e-8, name


def test_automatic_form():
    rng = np.random.default_rng(0)
    y = np.arange(3000) % 3
    assert ClassStatistics(*synthetic()).form == "primal"
    assert ClassStatistics(*DATA["n < d"]).form == "dual"
    S = sp.random_array((3000, 4000), density=0.001, random_state=rng, format="csr")
    assert ClassStatistics(S, y).form == "class_means"


def test_memory_is_asked_for_before_it_is_used(monkeypatch):
    near = ClassProximity(np.arange(200_000), np.ones(200_000), np.zeros((200_000, 1)))
    with pytest.raises(MemoryError, match=r"200000 x 200000 .* 298 GiB"):
        near.matrix()
    S = sp.csr_array((3, 10**6))
    with pytest.raises(
        MemoryError, match=r"1000000 x 1000000 Gram needs 7.45e\+03 GiB"
    ):
        ClassStatistics(S, [0, 1, 1], form="primal")
    monkeypatch.setattr(_checks, "physical_memory", lambda: 50_000.0)
    with pytest.raises(MemoryError, match="3000 x 3000 Gram"):
        ClassStatistics(np.ones((3000, 2)), np.arange(3000) % 2, form="dual")
    with pytest.raises(MemoryError, match="class sums"):
        ClassStatistics(np.ones((400, 30)), range(400))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"X": [[np.nan], [1.0]]}, "NaN"),
        ({"X": [[np.inf], [1.0]]}, "infinity"),
        ({"X": [1.0, 2.0]}, "2D array"),
        ({"y": [0]}, "inconsistent"),
        ({"y": [0.5, 1.7]}, "Unknown label type"),
        ({"sample_weight": [-1.0, 1.0]}, "[Nn]egative"),
        ({"sample_weight": [0.0, 0.0]}, "at least one non-zero"),
        ({"form": "svd"}, "form must be"),
        ({"rank": 0}, "rank must be"),
    ],
)
def test_bad_input(change, message):
    good = {"X": [[0.0], [1.0]], "y": [0, 1]}
    with pytest.raises(ValueError, match=message):
        ClassStatistics(**(good | change))


def test_bad_calls():
    stats = ClassStatistics(*synthetic())
    with pytest.raises(ValueError, match="keep_rows"):
        stats.proximity([0, 1], gram="exact")
    with pytest.raises(ValueError, match="gram must be"):
        stats.proximity(gram="none")
    with pytest.raises(ValueError, match="delta must be"):
        stats.proximity(delta=-1.0)
    for members, message in (
        ([0, 0, 1], "distinct"),
        ([2, 0, 2], "distinct"),
        ([-1, 0], "= -1"),
        ([0, 9], "= 9"),
        ([], "at least one class"),
        ([0.0, 1.0], "integers"),
        ([[0, 1]], "1-dimensional"),
    ):
        with pytest.raises(ValueError, match=message):
            stats.proximity(members)
    kept = ClassStatistics(*synthetic(), keep_rows=True)
    with pytest.raises(ValueError, match="distinct"):
        kept.subset_scatter([0, 0])
    with pytest.raises(ValueError, match="one entry per class"):
        ClassProximity([0, 1], [1.0], [[0.0]])
