"""VariableOrderLM: the greedy rule in dictionaries, and the objective it lowers."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from _oracles import following_text, histories, pairs_below_the_root, random_corpus

from sklstruct import StructuredLogLinearLM
from sklstruct.context_tree import SuffixTreeVectorizer
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel, VariableOrderLM
from sklstruct.loglinear import L1, L2, ElasticNet, TreeL2, TreeLinf
from sklstruct.smoothing import AdditiveUnigram


def reference(X, y, lam, delta, n_classes):
    """{(context, class)} that were taken, and P(. | context), pair by pair."""
    count = defaultdict(Counter)
    for history, target in zip(histories(X), y.tolist()):
        for depth in range(len(history) + 1):
            count[history[len(history) - depth :]][target] += 1
    total = sum(count[()].values())
    off = delta * len(count[()]) / total
    rows = {
        (): np.array(
            [
                max(count[()][z] - delta, 0) / total + off / n_classes
                for z in range(n_classes)
            ]
        )
    }
    taken = set()

    def row(x):
        return rows[x] if x in rows else row(x[1:])

    for depth in range(1, X.shape[1] + 1):
        for x in [x for x in count if len(x) == depth]:
            if len(x) > 1 and (x[:-1], x[-1]) not in taken:
                continue
            c = sum(count[x].values())
            above = row(x[1:])
            own = {}

            def loss(own, x=x, c=c, above=above):
                left = 1 - sum(own.values())
                rest = sum(p for z, p in enumerate(above) if z not in own)
                value = 0.0
                for z, times in count[x].items():
                    p = own.get(z, left * above[z] / rest)
                    value -= times * np.log(p)
                return value

            for z, times in sorted(count[x].items(), key=lambda i: (-i[1], i[0])):
                if depth > 1 and (x[1:], z) not in taken:
                    continue
                more = {**own, z: (times - delta) / c}
                if len(more) == n_classes:
                    continue
                if loss(own) - loss(more) > lam:
                    own = more
                    taken.add((x, z))
            if own:
                left = 1 - sum(own.values())
                rest = sum(p for z, p in enumerate(above) if z not in own)
                rows[x] = np.array(
                    [own.get(z, left * p / rest) for z, p in enumerate(above)]
                )
    return taken, row


@pytest.mark.parametrize("delta", [0.5, 0.2])
@pytest.mark.parametrize("lam", [0.01, 0.5, 2.0, 8.0])
def test_equals_the_rule(lam, delta):
    X, y = random_corpus(2, 7, 300, 3)
    model = VariableOrderLM(lam=lam, discount=delta, padding=-1, classes=range(8))
    model.fit(X, y)
    taken, row = reference(X, y, lam, delta, 8)
    backoff = model.backoff_model_
    assert pairs_below_the_root(backoff) == taken and model.n_grown_ == len(taken)
    assert backoff.check_normalized() < 1e-12
    for context, proba in zip(histories(X)[:80], model.predict_proba(X[:80])):
        np.testing.assert_allclose(proba, row(context), rtol=1e-10)


@pytest.mark.parametrize("base", ["uniform", AdditiveUnigram(0.5)])
@pytest.mark.parametrize("lam", [0.0, 1.0, 5.0])
def test_the_objective_is_the_loss_and_the_arcs(lam, base):
    X, y = random_corpus(3, 6, 400, 3)
    weight = np.random.default_rng(0).random(y.size) * 2
    model = VariableOrderLM(lam=lam, base=base, padding=-1, classes=range(7))
    model.fit(X, y, sample_weight=weight)
    loss = -(weight * model.target_log_proba(X, y)).sum()
    assert model.objective_[-1] == pytest.approx(loss + lam * model.n_grown_, rel=1e-9)
    assert (np.diff(model.objective_) <= 1e-9).all()
    for depth in range(3):  # the same steps, stopped earlier
        short = VariableOrderLM(depth, lam=lam, base=base, padding=-1, classes=range(7))
        short.fit(X, y, sample_weight=weight)
        loss = -(weight * short.target_log_proba(X, y)).sum()
        if depth == 0 or X.shape[1] > depth:
            assert short.objective_[-1] <= model.objective_[0] + 1e-9


def test_infinity_is_the_unigram_model_and_more_lam_is_smaller():
    X, y = random_corpus(3, 6, 400, 3)
    sizes = [
        VariableOrderLM(lam=lam, padding=-1).fit(X, y).n_grown_
        for lam in (0, 1, 4, 16, np.inf)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1] > sizes[2] > sizes[-1] == 0


def test_expected_counts_without_discount_meet_their_distribution():
    """Weights of a Markov chain: the grown bigrams are its probabilities."""
    rng = np.random.default_rng(0)
    chain = rng.dirichlet(np.full(4, 0.5), size=4)
    X, y = np.divmod(np.arange(16), 4)
    weight = 1000 * chain[X, y]
    model = VariableOrderLM(lam=0, discount=0).fit(X[:, None], y, sample_weight=weight)
    np.testing.assert_allclose(
        model.predict_proba(np.arange(4)[:, None]), chain, rtol=1e-9
    )


@pytest.mark.parametrize("growth", ["greedy", "active_set"])
def test_sentences_walk_and_go_to_arpa(growth, tmp_path):
    text = following_text(1, 20, 200, spread=0.2, shortest=6, longest=6)
    model = VariableOrderLM(lam=1, growth=growth)
    lm = LanguageModel(model, max_depth=3).fit(text[:150])
    unigram = LanguageModel(VariableOrderLM(lam=np.inf), max_depth=3).fit(text[:150])
    assert lm.perplexity(text[150:]) < 0.7 * unigram.perplexity(text[150:])
    lm.backoff_model_.start()
    path = tmp_path / "grown.arpa"
    lm.to_arpa(path, precision=12)
    np.testing.assert_allclose(
        LanguageModel.from_arpa(path).score_samples(text[150:]),
        lm.score_samples(text[150:]),
        rtol=1e-9,
    )


@pytest.mark.parametrize(
    "params, match",
    [
        ({"lam": -1.0}, "'lam' parameter"),
        ({"lam": np.nan}, "'lam' parameter"),
        ({"discount": 1.0}, "'discount' parameter"),
        ({"discount": -0.1}, "'discount' parameter"),
    ],
)
def test_bad_parameters(params, match):
    with pytest.raises(ValueError, match=match):
        VariableOrderLM(**params).fit([[0], [1]], [0, 1])


# ------------------------------------------------------------------ active set

PENALTIES = [TreeL2(), TreeLinf(), L1(), ElasticNet(gamma=0.5)]


def both(penalty, lam, **params):
    """The model that grows, and the one on the whole tree."""
    shared = {
        "penalty": penalty, "lam": lam, "alpha": 0.9, "depth_weight": 1.1,
        "max_iter": 20000, "tol": 1e-6, **params,
    }  # fmt: skip
    return VariableOrderLM(growth="active_set", **shared), StructuredLogLinearLM(
        **shared
    )


def support(model):
    """{(context, class)} of the pairs below the root that have a weight."""
    backoff = model.backoff_model_
    contexts = [tuple(c.tolist()) for c in backoff.tree.contexts()]
    pairs = zip(backoff.pairs.nodes().tolist(), backoff.pairs.target.tolist())
    some = model.coef_ != 0.0
    return {(contexts[n], y) for (n, y), keep in zip(pairs, some) if n > 0 and keep}


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
@pytest.mark.parametrize("lam", [0.7, 2.0, 6.0])
def test_what_grows_is_the_optimum_of_the_whole_tree(penalty, lam):
    X, y = random_corpus(4, 6, 500, 4)
    weight = np.random.default_rng(1).random(y.size) * 2 + 0.1
    grown, whole = both(penalty, lam, padding=-1)
    for model in (grown, whole):
        model.fit(X, y, sample_weight=weight)
    assert grown.objective_[-1] == pytest.approx(whole.objective_[-1], rel=1e-8)
    assert support(grown) == support(whole)
    assert grown.n_grown_ == len(support(whole))
    assert grown.backoff_model_.check_normalized() < 1e-10
    np.testing.assert_allclose(
        grown.predict_proba(X[:50]), whole.predict_proba(X[:50]), atol=1e-4
    )


@pytest.mark.parametrize("penalty", PENALTIES, ids=repr)
def test_most_of_a_text_is_never_built(penalty):
    topics = load_python_topics()
    built = []
    for lam in (1.5, 3.0, 6.0):
        grown, whole = both(penalty, lam, tol=1e-5)
        models = [LanguageModel(m, max_depth=3).fit(topics) for m in (grown, whole)]
        a, b = (lm.estimator_ for lm in models)
        assert a.objective_[-1] == pytest.approx(b.objective_[-1], rel=1e-7)
        assert models[0].perplexity(topics[:99]) == pytest.approx(
            models[1].perplexity(topics[:99]), rel=1e-3
        )
        assert a.n_grown_ <= a.n_pairs_built_ <= b.coef_.size
        assert a.n_nodes_built_ <= b.backoff_model_.tree.n_nodes
        built.append(a.n_pairs_built_ / b.coef_.size)
    assert built == sorted(built, reverse=True)
    assert built[-1] < 0.5


def test_a_strong_penalty_builds_the_root_alone():
    topics = load_python_topics()[:100]
    grown, _ = both(TreeL2(), 1e4)
    model = LanguageModel(grown, max_depth=3).fit(topics).estimator_
    assert model.n_grown_ == 0 and model.n_nodes_built_ == 1
    assert model.n_pairs_built_ == model.classes_.size


def test_windows_and_paths_give_one_model():
    X, y = random_corpus(5, 5, 300, 3)
    grown, _ = both(TreeL2(), 1.5, padding=-1)
    dense = grown.fit(X, y)
    vectorizer = SuffixTreeVectorizer(max_depth=3, padding=-1)
    paths = both(TreeL2(), 1.5)[0].fit(vectorizer.fit_transform(X), y)
    collapsed = SuffixTreeVectorizer(max_depth=3, padding=-1, collapse=True)
    merged = both(TreeL2(), 1.5)[0].fit(collapsed.fit_transform(X), y)
    expected = dense.predict_proba(X)
    for model, data in (
        (paths, vectorizer.transform(X)),
        (merged, collapsed.transform(X)),
    ):
        assert model.n_grown_ == dense.n_grown_
        np.testing.assert_allclose(model.predict_proba(data), expected, atol=1e-5)


def test_batches_are_for_the_greedy_one():
    X, y = random_corpus(5, 5, 300, 3)
    greedy = VariableOrderLM(padding=-1).partial_fit(X[:200], y[:200])
    greedy.partial_fit(X[200:], y[200:])
    assert greedy.n_grown_ == VariableOrderLM(padding=-1).fit(X, y).n_grown_
    with pytest.raises(AttributeError, match="partial_fit"):
        VariableOrderLM(growth="active_set").partial_fit(X, y)


def test_weights_are_repetitions():
    X, y = random_corpus(6, 5, 200, 3)
    times = np.random.default_rng(0).integers(0, 3, y.size)
    weighted = both(TreeLinf(), 1.0, padding=-1)[0].fit(
        X, y, sample_weight=times.astype(float)
    )
    repeated = both(TreeLinf(), 1.0, padding=-1)[0]
    repeated.fit(np.repeat(X, times, axis=0), np.repeat(y, times))
    assert weighted.objective_[-1] == pytest.approx(repeated.objective_[-1], rel=1e-9)


@pytest.mark.parametrize(
    "params, match",
    [
        ({"lam": 0.0}, "^lam must be finite and above 0"),
        ({"lam": np.inf}, "^lam must be finite and above 0"),
        ({"penalty": L2()}, "absolute term"),
        ({"penalty": L1(count_weight=[1.0, 2.0])}, "^penalty: count_weight"),
        ({"growth": "both"}, "'growth' parameter"),
        ({"alpha": -1.0}, "alpha"),
    ],
)
def test_bad_parameters_of_active_sets(params, match):
    model = VariableOrderLM(**{"growth": "active_set", **params})
    with pytest.raises(ValueError, match=match):
        model.fit([[0], [1]], [0, 1])


def test_few_iterations_are_said():
    X, y = random_corpus(4, 6, 500, 4)
    model = VariableOrderLM(growth="active_set", lam=0.5, max_iter=2, tol=1e-9)
    with pytest.warns(UserWarning, match="max_iter"):
        model.set_params(padding=-1).fit(X, y)
