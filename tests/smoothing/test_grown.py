"""GrownLM: the greedy rule in dictionaries, and the objective it lowers."""

from collections import Counter, defaultdict

import numpy as np
import pytest
from _cases import each_value
from _loglinear import loglinear
from _oracles import following_text, histories, pairs_below_the_root, random_corpus

from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import AdditiveUnigram, GrownLM


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

            # Equal counts: the least likely in the parent first.
            order = sorted(count[x], key=lambda z: (-count[x][z], round(above[z], 12)))
            for z in order:
                times = count[x][z]
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


@pytest.mark.parametrize(*each_value(lam=[0.01, 0.5, 2.0, 8.0], delta=[0.5, 0.2]))
def test_equals_the_rule(lam, delta):
    X, y = random_corpus(2, 7, 300, 3)
    model = GrownLM(lam=lam, discount=delta, padding=-1, classes=range(8))
    model.fit(X, y)
    taken, row = reference(X, y, lam, delta, 8)
    backoff = model.backoff_model_
    assert pairs_below_the_root(backoff) == taken and model.n_grown_ == len(taken)
    assert backoff.check_normalized() < 1e-12
    for context, proba in zip(histories(X)[:80], model.predict_proba(X[:80])):
        np.testing.assert_allclose(proba, row(context), rtol=1e-10)


@pytest.mark.parametrize(
    *each_value(lam=[0.0, 1.0, 5.0], base=["uniform", AdditiveUnigram(0.5)])
)
def test_the_objective_is_the_loss_and_the_arcs(lam, base):
    X, y = random_corpus(3, 6, 400, 3)
    weight = np.random.default_rng(0).random(y.size) * 2
    model = GrownLM(lam=lam, base=base, padding=-1, classes=range(7))
    model.fit(X, y, sample_weight=weight)
    loss = -(weight * model.target_log_proba(X, y)).sum()
    assert model.objective_[-1] == pytest.approx(loss + lam * model.n_grown_, rel=1e-9)
    assert (np.diff(model.objective_) <= 1e-9).all()
    for depth in range(3):  # the same steps, stopped earlier
        short = GrownLM(depth, lam=lam, base=base, padding=-1, classes=range(7))
        short.fit(X, y, sample_weight=weight)
        loss = -(weight * short.target_log_proba(X, y)).sum()
        if depth == 0 or X.shape[1] > depth:
            assert short.objective_[-1] <= model.objective_[0] + 1e-9


def test_infinity_is_the_unigram_model_and_more_lam_is_smaller():
    X, y = random_corpus(3, 6, 400, 3)
    sizes = [
        GrownLM(lam=lam, padding=-1).fit(X, y).n_grown_ for lam in (0, 1, 4, 16, np.inf)
    ]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[1] > sizes[2] > sizes[-1] == 0


def test_expected_counts_without_discount_meet_their_distribution():
    """Weights of a Markov chain: the grown bigrams are its probabilities."""
    rng = np.random.default_rng(0)
    chain = rng.dirichlet(np.full(4, 0.5), size=4)
    X, y = np.divmod(np.arange(16), 4)
    weight = 1000 * chain[X, y]
    model = GrownLM(lam=0, discount=0).fit(X[:, None], y, sample_weight=weight)
    np.testing.assert_allclose(
        model.predict_proba(np.arange(4)[:, None]), chain, rtol=1e-9
    )


@pytest.mark.parametrize(
    ("y", "weight", "row"),
    [
        ([0, 1, 2, 3], [2, 2, 1, 5], [0.4, 0.4, 0.2, 0]),  # 1 - 0.4 - 0.4 - 0.2 < 0
        # The first class has all of the parent's mass.
        ([0, 1, 1, 0], [2e-17, 5e-18, 5e-18, 1], [2 / 3, 1 / 3]),
    ],
)
def test_rounding_leaves_no_negative_mass(y, weight, row):
    X = np.array([[0], [0], [0], [1]])
    model = GrownLM(lam=0, discount=0).fit(X, y, sample_weight=weight)
    np.testing.assert_allclose(model.predict_proba([[0]])[0], row, rtol=1e-12)
    assert np.isfinite(model.objective_).all()


@pytest.mark.parametrize(
    "model",
    [GrownLM(lam=1), loglinear(penalty="tree_l2", solver="active_set")],
    ids=repr,
)
def test_sentences_walk_and_go_to_files(model, tmp_path):
    text = following_text(1, 20, 200, spread=0.2, shortest=6, longest=6)
    lm = LanguageModel(model, max_depth=3).fit(text[:150])
    unigram = LanguageModel(GrownLM(lam=np.inf), max_depth=3).fit(text[:150])
    assert lm.perplexity(text[150:]) < 0.7 * unigram.perplexity(text[150:])
    lm.backoff_model_.begin()
    path = tmp_path / "grown.arpa"
    lm.save(path, precision=12)
    np.testing.assert_allclose(
        LanguageModel.load(path).score_samples(text[150:]),
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
        GrownLM(**params).fit([[0], [1]], [0, 1])


def test_batches_are_one_text():
    X, y = random_corpus(5, 5, 300, 3)
    model = GrownLM(padding=-1).partial_fit(X[:200], y[:200])
    model.partial_fit(X[200:], y[200:])
    assert model.n_grown_ == GrownLM(padding=-1).fit(X, y).n_grown_


def test_names_of_words_do_not_change_the_model():
    text = ["a a b", "f b", "c d e c f"]
    reverse = str.maketrans("abcdef", "fedcba")
    other = [sentence.translate(reverse) for sentence in text]
    one, two = (
        LanguageModel(GrownLM(lam=0.5), max_depth=2).fit(t) for t in (text, other)
    )
    assert one.estimator_.n_grown_ == two.estimator_.n_grown_
    np.testing.assert_allclose(one.perplexity(text), two.perplexity(other), rtol=1e-12)
