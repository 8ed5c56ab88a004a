"""JointLogLinear: the optimum of one tree, explicit sums, gradients."""

import numpy as np
import pytest
from scipy.optimize import minimize
from sklearn.preprocessing import FunctionTransformer

from sklstruct import StructuredLogLinearLM
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import JointLogLinear
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.word_classes import ContextRefiner


def text(n=400, n_words=6, seed=0):
    rng = np.random.RandomState(seed)
    follows = rng.dirichlet(np.full(n_words, 0.3), size=(n_words, n_words))
    words = [0, 1]
    for _ in range(n):
        words.append(rng.choice(n_words, p=follows[words[-2], words[-1]]))
    words = np.array(words)
    return np.lib.stride_tricks.sliding_window_view(words, 2)[:-1].copy(), words[2:]


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
EXACT = {"padding": -1, "max_iter": 3000, "solver": "lbfgs", "tol": 1e-9}


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

    def minimum(self, positive=True):
        n = len(self.index)
        bounds = [(0, None)] * n if positive else None
        return minimize(
            self.objective, np.zeros(n), jac=True, method="L-BFGS-B", bounds=bounds,
            options={"maxiter": 5000, "maxfun": 10000, "ftol": 1e-13, "gtol": 1e-9},
        )  # fmt: skip


@pytest.mark.parametrize("positive", [True, False])
def test_one_tree_is_the_structured_model(positive):
    X, y = text()
    tree = StructuredLogLinearLM(
        penalty="l2", lam=0.4, alpha=0.8, positive=positive, padding=-1, tol=1e-8,
        max_iter=5000,
    ).fit(X, y)  # fmt: skip
    joint = JointLogLinear(lam=0.4, alpha=0.8, positive=positive, **EXACT).fit(X, y)
    np.testing.assert_allclose(joint.predict_proba(X), tree.predict_proba(X), atol=1e-4)
    model = Explicit(PATHS[:1], X, y, 0.4, 0.8)
    # The pairs of a tree are numbered alike in both.
    value = -joint.target_log_proba(X, y).sum() + 0.2 * (joint.coef_**2).sum()
    assert value == pytest.approx(tree.objective_[-1], rel=1e-4)
    assert model.minimum(positive).fun == pytest.approx(tree.objective_[-1], rel=1e-6)


@pytest.mark.parametrize("paths", [None, PATHS])
def test_adagrad_comes_close_to_the_optimum(paths):
    X, y = text()
    best = JointLogLinear(paths, lam=0.4, **EXACT).fit(X, y)

    def objective(model):
        value = -model.target_log_proba(X, y).sum()
        return value + 0.2 * (model.coef_**2).sum()

    away = []
    for max_iter in (5, 50, 500):
        model = JointLogLinear(
            paths, lam=0.4, padding=-1, max_iter=max_iter, random_state=0
        )
        away.append(objective(model.fit(X, y)) / objective(best) - 1)
    assert 5e-2 > away[0] > away[1] > away[2] > 0
    assert away[2] < 3e-3


@pytest.mark.parametrize("positive", [True, False])
def test_several_trees_reach_the_optimum(positive):
    X, y = text(150, 4)
    model = Explicit(PATHS, X, y, 0.5, 0.9)
    best = model.minimum(positive)
    joint = JointLogLinear(PATHS, lam=0.5, alpha=0.9, positive=positive, **EXACT)
    joint.fit(X, y)
    value = -joint.target_log_proba(X, y).sum() + 0.25 * (joint.coef_**2).sum()
    assert joint.coef_.size == len(model.index)
    assert value == pytest.approx(best.fun, rel=1e-4)
    new = np.random.RandomState(1).randint(-1, 6, size=(50, 2))
    new[new[:, 1] < 0, 0] = -1
    expected = model.log_proba(best.x, model.design(new))
    np.testing.assert_allclose(joint.predict_proba(new), np.exp(expected), atol=3e-3)


def test_rows_targets_and_order():
    X, y = text()
    joint = JointLogLinear(PATHS, padding=-1, random_state=3).fit(X, y)
    new = np.random.RandomState(1).randint(-1, 9, size=(100, 2))
    rows = joint.predict_log_proba(new)
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=0, atol=1e-12)
    for label in range(6):
        target = joint.target_log_proba(new, np.full(100, label))
        np.testing.assert_allclose(target, rows[:, label], rtol=1e-12)
    again = JointLogLinear(PATHS, padding=-1, random_state=3).fit(X, y)
    np.testing.assert_array_equal(again.coef_, joint.coef_)
    assert (np.diff(joint.losses_) < 0).all() and joint.n_iter_ == 5


def test_weights_scale_the_samples():
    X, y = text(200, 4)
    weight = np.random.RandomState(0).randint(0, 3, size=y.size)
    joint = JointLogLinear(PATHS, **EXACT)
    a = joint.fit(X, y, sample_weight=weight).predict_proba(X)
    b = joint.fit(np.repeat(X, weight, axis=0), np.repeat(y, weight)).predict_proba(X)
    np.testing.assert_allclose(a, b, atol=1e-5)


def test_is_a_factor_and_a_part_of_mixtures():
    X, y = text(1500)
    joint = JointLogLinear(PATHS, padding=-1, random_state=0)
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


def test_stops_when_the_loss_does():
    X, y = text(200)
    joint = JointLogLinear(padding=-1, tol=1e-3, max_iter=500, random_state=0).fit(X, y)
    assert joint.n_iter_ < 500
    with pytest.warns(UserWarning, match="after max_iter=2"):
        JointLogLinear(padding=-1, tol=1e-9, max_iter=2, random_state=0).fit(X, y)


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
