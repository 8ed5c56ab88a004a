"""The promises of every `Distribution`, for all of its subclasses.

A subclass that is new needs an entry in MADE: a function that gives a model and what
it looks up, at least 20 rows of it.
"""

import inspect
import pkgutil
from importlib import import_module

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline

import sklstruct
from sklstruct.backoff import BackoffModel, Distribution, WiderModel
from sklstruct.backoff._classifier import ClassifierModel
from sklstruct.context_tree import ContextTree, Pairs, SuffixTreeVectorizer
from sklstruct.language_model import CacheLM, LanguageModel
from sklstruct.language_model._truncated import Truncated
from sklstruct.loglinear import JointLogLinear, StructuredLogLinearLM
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.mixture._models import UniformModel
from sklstruct.smoothing import AdditiveLM, KneserNeyLM, WittenBellLM
from sklstruct.symbols import Labels
from sklstruct.word_classes import ContextRefiner, ExchangeClustering

N_WORDS = 7
GROUPS = np.array([0, 1, 1, 2, 0, 2, 2])


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    y = rng.choice(N_WORDS, size=600, p=[0.3, 0.2, 0.2, 0.1, 0.1, 0.06, 0.04])
    X = np.lib.stride_tricks.sliding_window_view(y, 3)[:-1]
    return X, y[3:]


def kneser_ney(**params):
    return KneserNeyLM(discount=0.6, padding=-1, classes=np.arange(N_WORDS), **params)


def refined(path="w(1) c2(1) w(2)"):
    model = StructuredLogLinearLM(penalty="l2", lam=0.3, alpha=0.85)
    return make_pipeline(ContextRefiner(path, padding=-1), model)


def joint():
    paths = [("words", "passthrough"), ("refined", ContextRefiner("c2(1)", padding=-1))]
    return JointLogLinear(paths, padding=-1)


def of_classifier(estimator):
    def make(X, y):
        fitted = estimator().fit(X, y)
        return fitted.distribution_, fitted.locate(X[:60])

    return make


def frozen(X, y):
    models = [("a", FrozenEstimator(kneser_ney().fit(X, y)))]
    mixture = MixtureLM(models, weights=[1.0]).fit(X, y)
    return mixture.distribution_.models[0], mixture.locate(X[:60])[0]


def of_rows(X, y):
    # Class 6 is one that the classifier does not know.
    known = y < 6
    fitted = LogisticRegression(max_iter=500).fit(X[known], y[known])
    return ClassifierModel(fitted, np.arange(N_WORDS)), X[:60]


def cache(X, y):
    words = np.array([f"w{i}" for i in range(N_WORDS)])
    text = [words[y[i : i + 6]].tolist() for i in range(0, 120, 6)]
    base = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text)
    model = CacheLM(FrozenEstimator(base), max_order=2, weights="em").fit(text)
    at, cursor = np.empty(24, dtype=object), model.begin()
    for i, word in enumerate(
        [*text[0], "</s>", *text[1], "</s>", *text[2], "</s>"][:24]
    ):
        at[i] = cursor
        cursor = model.advance(cursor, word)[1]
    return model.distribution_, at[:20]


def truncated(X, y):
    fitted = kneser_ney().fit(X, y)
    return Truncated(fitted.distribution_, 0.7, 5, 0.9), fitted.locate(X[:60])


def wider(X, y):
    # Classes 4 and 5 are not words of the model, and share its 3 with 6.
    fitted = KneserNeyLM(discount=0.6, padding=-1, classes=np.arange(4)).fit(
        X, np.minimum(y, 3)
    )
    own = Labels([0, 1, 2, 6], unknown=6)
    model = WiderModel(fitted.distribution_, own, Labels.of_ids(N_WORDS))
    return model, fitted.locate(X[:60])


def of_windows(X, y):
    words = [f"w{i}" for i in range(N_WORDS)]
    text = [[words[i] for i in y[j : j + 6]] for j in range(0, 120, 6)]
    groups = {w: i % 3 for i, w in enumerate([*words, "<unk>", "</s>"])}
    model = LanguageModel(
        MixtureLM(
            [
                ("kn", KneserNeyLM(discount=0.6)),
                ("groups", FactoredLM(groups, AdditiveLM(), concentration=2.0)),
            ],
            weights="logistic",
        ),
        max_depth=2,
    ).fit(text)
    predictor, states = model.predictor, model.begin(60)
    for _ in range(2):
        states = model.advance(states, np.array(words)[y[:60]].tolist())[1]
    return predictor.model, predictor.locate(states)


MADE = {
    "BackoffModel": of_classifier(kneser_ney),
    "LocatedModel": frozen,
    "JointTrees": of_classifier(joint),
    "UniformModel": lambda X, y: (UniformModel(N_WORDS), X[:60]),
    "MixtureModel": of_classifier(
        lambda: MixtureLM(
            [("kn", kneser_ney()), ("joint", joint())], weights="by_depth"
        )
    ),
    "FactoredModel": of_classifier(lambda: FactoredLM(GROUPS, kneser_ney())),
    "ClassifierModel": of_rows,
    "CacheModel": cache,
    "Truncated": truncated,
    "WiderModel": wider,
    "WindowModel": of_windows,
}


def subclasses(kind):
    for module in pkgutil.walk_packages(sklstruct.__path__, "sklstruct."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    todo, found = [kind], set()
    while todo:
        for child in todo.pop().__subclasses__():
            todo.append(child)
            found.add(child)
    return {
        child
        for child in found
        if not inspect.isabstract(child) and child.__module__.startswith("sklstruct.")
    }


class WrittenModel(Distribution):
    """A distribution of a user: all other answers are computed from the rows."""

    n_classes = 5

    def rows(self, at):
        logits = np.sin(np.arange(self.n_classes) * (1.0 + at[:, :1]) + at[:, 1:])
        return logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))


def written(*_):
    return WrittenModel(), np.random.default_rng(0).integers(0, 9, (40, 2))


def test_every_distribution_is_tested():
    names = {kind.__name__ for kind in subclasses(Distribution)}
    assert names == set(MADE), "MADE in tests/test_distributions.py must have them all"


@pytest.fixture(scope="module")
def made(data):
    models = {}

    def make(name):
        if name not in models:
            models[name] = (MADE | {"WrittenModel": written})[name](*data)
        return models[name]

    return make


@pytest.fixture(params=[*MADE, "WrittenModel"])
def asked(request, made):
    """(model, what it looks up, its rows), of the class that the entry names."""
    model, at = made(request.param)
    assert type(model).__name__ == request.param
    return model, at, model.rows(at)


def test_rows_sum_to_one(asked):
    model, at, rows = asked
    assert len(rows) >= 20 and rows.shape[1] == model.n_classes
    np.testing.assert_allclose(np.exp(rows).sum(axis=1), 1.0, rtol=0, atol=1e-9)


def test_target_is_an_entry_of_the_row(asked):
    model, at, rows = asked
    for y in range(model.n_classes):
        found = model.target(at, np.full(len(rows), y))
        np.testing.assert_allclose(found, rows[:, y], rtol=1e-9, atol=1e-12)


def test_best_is_the_sorted_row(asked):
    model, at, rows = asked
    for k in (1, 3, model.n_classes):
        classes, log_prob = model.best(at, k)
        assert classes.shape == log_prob.shape == (len(rows), k)
        order = np.argsort(-rows, axis=1, kind="stable")[:, :k]
        expected = np.take_along_axis(rows, order, axis=1)
        np.testing.assert_allclose(log_prob, expected, rtol=1e-9, atol=1e-12)
        # Another class where rounding alone tells the two apart.
        other = np.take_along_axis(rows, classes.astype(np.int64), axis=1)
        np.testing.assert_allclose(other, expected, rtol=1e-9, atol=1e-12)
        assert (np.diff(np.sort(classes, axis=1), axis=1) > 0).all()


@pytest.mark.parametrize("skip", [-1, 2])
def test_draws_have_the_frequencies_of_the_row(asked, skip):
    model, at, rows = asked
    n = 4_000
    where = np.arange(3)
    grid = (np.arange(n) + 0.5) / n
    some = np.repeat(where, n)
    drawn = model.draw(take(at, some), np.tile(grid, where.size), skip)
    for i in where:
        proba = np.exp(rows[i])
        if skip >= 0:
            proba[skip] = 0.0
        proba /= proba.sum()
        share = np.bincount(drawn[some == i], minlength=model.n_classes) / n
        assert (share[proba == 0] == 0).all()
        # Inversion, or draws that are as good as independent.
        np.testing.assert_allclose(share, proba, rtol=0, atol=5 * 0.5 / np.sqrt(n))


def test_a_distribution_needs_its_rows():
    with pytest.raises(TypeError, match="Lacking must define rows"):
        type("Lacking", (Distribution,), {"n_classes": 2})().proba(np.zeros((2, 1)))


def test_nothing_but_the_class_that_is_skipped():
    with pytest.raises(ValueError, match="skip"):
        UniformModel(1).draw(np.zeros((2, 1)), np.array([0.1, 0.9]), skip=0)


def test_group_is_the_sum_over_its_classes(asked):
    model, at, rows = asked
    rng = np.random.default_rng(1)
    own = model.groups()
    groups = [rng.integers(0, 3, size=model.n_classes), np.arange(model.n_classes)]
    for group in groups if own is None else [*groups, own]:
        group = np.unique(group, return_inverse=True)[1]
        # Numbered otherwise, the same groups are found as well.
        turned = (group + 1) % (group.max() + 1)
        for numbers in (group, group.max() - group, turned):
            member = numbers[:, None] == np.arange(group.max() + 1)
            expected = np.exp(rows) @ member
            found = model.group_proba(at, numbers)
            np.testing.assert_allclose(found, expected, rtol=1e-8, atol=1e-12)
            assert (found >= 0).all()
            y = rng.integers(group.size, size=len(rows)).astype(np.int32)
            asked_for = numbers.astype(np.int32), None, y
            of_groups, one = model._ask(at, "group_sums", *asked_for)
            np.testing.assert_allclose(one, model.target(at, y), rtol=1e-12)
            np.testing.assert_allclose(of_groups, expected, rtol=1e-8, atol=1e-12)


def test_groups_of_ngrams_without_their_ends(tmp_path):
    """A pair need not have one at the parent."""
    path = tmp_path / "gap.arpa"
    path.write_text(
        "\\data\\\nngram 1=4\nngram 2=2\nngram 3=2\n\n"
        "\\1-grams:\n-0.7 a -0.2\n-0.6 b -0.4\n-0.5 </s>\n-0.6 <unk>\n\n"
        "\\2-grams:\n-0.3 a b -0.5\n-0.9 b b -0.1\n\n"
        "\\3-grams:\n-0.4 a b a\n-0.8 b b </s>\n\n\\end\\\n"
    )
    model = LanguageModel.load(path).backoff_model_
    at = np.arange(model.n_nodes, dtype=np.int32)[::-1]
    group = np.arange(model.n_classes) % 2
    expected = np.exp(model.rows(at)) @ (group[:, None] == np.arange(2))
    np.testing.assert_allclose(model.group_proba(at, group), expected, rtol=1e-12)


def test_probabilities_of_all_classes(asked):
    model, at, rows = asked
    np.testing.assert_allclose(model.proba(at), np.exp(rows), rtol=1e-12)


def test_gate_features_have_two_columns_per_tree(asked):
    model, at, rows = asked
    features = model.gate_features(at)
    assert features.shape == (len(rows), 2 * len(model.gate_depths))
    for k, depth in enumerate(model.gate_depths):
        assert (0 <= features[:, 2 * k]).all() and (features[:, 2 * k] <= depth).all()


def test_no_rows(asked):
    model, at, _ = asked
    none = take(at, slice(0, 0))
    assert model.rows(none).shape == (0, model.n_classes)
    assert model.target(none, np.zeros(0, int)).shape == (0,)
    group = np.zeros(model.n_classes, dtype=int)
    assert model.group_proba(none, group).shape == (0, 1)
    assert [a.shape for a in model.best(none, 2)] == [(0, 2)] * 2
    assert model.draw(none, np.zeros(0)).shape == (0,)


def take(at, rows):
    return tuple(take(a, rows) for a in at) if isinstance(at, tuple) else at[rows]


# --------------------------------------------------------------------- cursor

ESTIMATORS = {
    "back-off": kneser_ney,
    "refined": refined,
    # Begins with an older word, which the missing newer ones hide.
    "older": lambda: refined("w(2) c2(1) w(1)"),
    "vectorized": lambda: make_pipeline(
        SuffixTreeVectorizer(), StructuredLogLinearLM(penalty="l2", lam=0.3)
    ),
    "frozen": lambda: MixtureLM(
        [
            ("a", FrozenEstimator(of_text(kneser_ney()).estimator_)),
            ("uniform", AdditiveLM()),
        ],
        weights=[0.7, 0.3],
    ),
    "gated": lambda: MixtureLM(
        [("kn", kneser_ney()), ("joint", joint()), ("factored", clustered())],
        weights="logistic",
    ),
    "joint": joint,
    "factored": lambda: clustered(),
    "mixture": lambda: MixtureLM(
        [("kn", kneser_ney()), ("refined", refined())], weights="by_depth"
    ),
    "rows": lambda: LogisticRegression(max_iter=500),
}
TEXT = ["the cat sat on the mat", "the dog sat", "a cat ran", "a dog ran on"] * 5


def clustered():
    clustering = ExchangeClustering(3, offsets=(-1, 1))
    return FactoredLM(clustering, kneser_ney(), refined())


def of_text(estimator):
    """A model of TEXT, which numbers the classes itself."""
    parts = {"": estimator, **estimator.get_params()}
    for name, part in parts.items():
        frozen = isinstance(parts[name.partition("__")[0]], FrozenEstimator)
        if hasattr(part, "classes") and not frozen:
            prefix = f"{name}__" if name else ""
            estimator.set_params(**{f"{prefix}classes": None})
    return LanguageModel(estimator, max_depth=2).fit(TEXT)


@pytest.fixture(scope="module", params=ESTIMATORS)
def language_model(request):
    return of_text(ESTIMATORS[request.param]())


def test_cursor_is_the_score_of_the_whole_history(language_model):
    """Word by word in strings, also of unknown words; one state, or many."""
    text = ["the cat ran on a zebra", "a a the dog", "sat sat"]
    for sentence, expected in zip(text, language_model.token_log_proba(text)):
        state, found = language_model.begin(), []
        for word in [*sentence.split(), "</s>"]:
            row = language_model.rows(state)
            assert abs(np.exp(row).sum() - 1) < 1e-9
            log_prob, state = language_model.advance(state, word)
            at = language_model.vocabulary_.tolist()
            known = word if word in at else "<unk>"
            assert log_prob == pytest.approx(row[at.index(known)], rel=1e-10)
            found.append(log_prob)
        np.testing.assert_allclose(found, expected, rtol=1e-10)
        # After an end mark a sentence begins.
        np.testing.assert_array_equal(state, language_model.begin())
    states = language_model.begin(3)
    log_prob, states = language_model.advance(states, ["the", "a", "zebra"])
    one = language_model.advance(language_model.begin(), "a")
    assert log_prob[1] == pytest.approx(one[0], rel=1e-12)
    np.testing.assert_array_equal(states[1], one[1])
    np.testing.assert_allclose(
        language_model.rows(states)[1], language_model.rows(one[1]), rtol=1e-12
    )


def test_one_word_is_read_by_the_kernel(language_model):
    step = language_model.predictor.step
    found = step(language_model.begin(), "the")
    assert found[0] == language_model.advance(language_model.begin(), "the")[0]
    batch = language_model.advance(language_model.begin(1), ["the"])
    assert found[0] == pytest.approx(batch[0][0], rel=1e-12)
    # Equal histories are equal keys.
    assert len({found[1], language_model.advance(language_model.begin(), "the")[1]}) < 2
    assert step(language_model.begin(1), "the") is None


def test_cursor_refuses(language_model):
    state = language_model.begin()
    for wrong in (-1, 10**6, (), (0,), (0, 10**6), (10**6, 0), (-2, 0), "the", None):
        with pytest.raises((ValueError, TypeError)):
            language_model.advance(wrong, "the")
    with pytest.raises(ValueError, match="start mark"):
        language_model.advance(state, "<s>")
    with pytest.raises(ValueError, match="word must have 2 entries"):
        language_model.advance(language_model.begin(2), ["the"])
    with pytest.raises(TypeError, match="word must be a sequence of 2 symbols, got No"):
        language_model.advance(language_model.begin(2), None)
    with pytest.raises(TypeError, match=r"word must be a symbol, got \['the'\]"):
        language_model.advance(state, ["the"])
    with pytest.raises(TypeError, match="word must be a sequence of 3 symbols, got 't"):
        language_model.advance(language_model.begin(3), "the")
    with pytest.raises(TypeError, match="got 'the'; give a list with a symbol for eac"):
        language_model.advance(language_model.begin(3), "the")
    for wrong in (-1, 10**6):
        with pytest.raises(ValueError, match="^state must be a state"):
            language_model.rows(wrong)
    for name, ask in (
        ("context", language_model.predict_next),
        ("prefix", lambda text: language_model.sample(prefix=text)),
        ("X", language_model.perplexity),
    ):
        with pytest.raises(ValueError, match=f"^{name}: the end mark '</s>' occurs in"):
            ask(["the </s>"] if name == "X" else "the </s>")
    with pytest.raises(ValueError, match="state must be a state"):
        language_model.advance(np.zeros((2, 2, 2), dtype=np.int32), "the")


def test_cursor_over_words_without_class():
    for excluded in ("exclude", "error"):
        model = LanguageModel(
            AdditiveLM(), max_depth=2, unknown=None, out_of_vocabulary=excluded
        ).fit(TEXT)
        state = model.advance(model.begin(), "the")[1]
        if excluded == "error":
            with pytest.raises(ValueError, match="'zebra' is not in the vocabulary"):
                model.advance(state, "zebra")
            continue
        log_prob, state = model.advance(state, "zebra")
        expected = model.token_log_proba(["the zebra ran"])[0]
        assert np.isnan(log_prob) and np.isnan(expected[1])
        assert model.advance(state, "ran")[0] == pytest.approx(expected[2])


@pytest.mark.parametrize("path", [[("word", 2), ("word", 1)], [("word", 1)]])
def test_cursor_over_words_without_class_on_a_path(path):
    """A path that begins with an older word ends where that one is missing."""
    model = LanguageModel(
        make_pipeline(ContextRefiner(path), AdditiveLM()),
        max_depth=2, unknown=None, out_of_vocabulary="exclude",
    ).fit(TEXT)  # fmt: skip
    text = ["the zebra ran on a zebra", "zebra the cat sat", "the cat zebra ran"]
    for sentence, expected in zip(text, model.token_log_proba(text)):
        state, found = model.begin(), []
        for word in [*sentence.split(), "</s>"]:
            log_prob, state = model.advance(state, word)
            found.append(log_prob)
        np.testing.assert_allclose(found, expected, rtol=1e-10)


def test_cursor_over_a_tree_whose_nodes_are_not_states():
    """The context "a b" is in the tree and "a" is not: states are windows."""
    labels = Labels(["a", "b", "<unk>"], ["a", "b"], unknown="<unk>")
    pairs = Pairs(ContextTree([-1, 0, 1], [-1, 1, 0], 2), [0, 3, 4, 5], [0, 1, 2, 0, 0])
    log_prob = np.log([0.5, 0.3, 0.2, 0.6, 0.8])
    log_backoff = np.log([1.0, 0.4 / 0.5, 0.2 / 0.4])
    model = LanguageModel(max_depth=2, start=None, end=None)
    model._set_fitted(None, labels, BackoffModel(pairs, log_prob, log_backoff, labels))
    assert not model.backoff_model_.has_states
    text = ["a b a b b a zebra a b a"]
    state, found = model.begin(), []
    for word in text[0].split():
        log_prob, state = model.advance(state, word)
        found.append(log_prob)
    np.testing.assert_allclose(found, model.token_log_proba(text)[0], rtol=1e-12)
    assert model.predictor.step(state, "a") is not None


def test_contexts_beyond_the_kernel_are_read_by_arrays():
    """More than 64 symbols of history, a part of which the kernel would lose."""
    text = ["a " * 100]
    model = LanguageModel(AdditiveLM(), max_depth=80, start=None).fit(text)
    state, found = model.begin(), []
    for word in [*text[0].split(), "</s>"]:
        log_prob, state = model.advance(state, word)
        found.append(log_prob)
    assert model.predictor.step(state, "a") is not None
    np.testing.assert_allclose(found, model.token_log_proba(text)[0], rtol=1e-12)


def test_cursor_of_a_cache_is_its_stream():
    base = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(TEXT)
    model = CacheLM(FrozenEstimator(base), max_order=3, weights="em").fit(TEXT)
    text = ["the cat ran on a zebra", "a a the dog", "the zebra ran"]
    state = model.new_state()
    cursor, found = model.begin(state), []
    for sentence in text:
        for word in [*sentence.split(), "</s>"]:
            row = model.rows(cursor)
            log_prob, after = model.advance(cursor, word)
            # The cursor before is not changed.
            np.testing.assert_array_equal(model.rows(cursor), row)
            cursor = after
            found.append(log_prob)
    expected = np.concatenate(model.score_stream(text))
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    assert state.n_words_ == 0


def test_many_cursors_of_a_cache_are_single_ones():
    base = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(TEXT)
    model = CacheLM(FrozenEstimator(base), max_order=3, weights="em").fit(TEXT)
    state = model.advance(model.begin(), "the")[1].cache
    cursors, single = model.begin(state, n=3), [model.begin(state)] * 3
    assert cursors.shape == (3,) and model.begin(n=0).shape == (0,)
    for words in (["the", "a", "zebra"], ["a", "a", "</s>"], ["the"] * 3):
        rows = model.rows(cursors)
        np.testing.assert_array_equal(rows, [*map(model.rows, single)])
        log_prob, cursors = model.advance(cursors, words)
        pairs = [model.advance(*pair) for pair in zip(single, words, strict=True)]
        np.testing.assert_array_equal(log_prob, [p for p, _ in pairs])
        single = [cursor for _, cursor in pairs]
        assert log_prob.shape == (3,) and cursors.shape == (3,)
        assert [c.begins for c in cursors] == [c.begins for c in single]
    with pytest.raises(ValueError, match="^word must have 3 entries .one per cursor"):
        model.advance(cursors, ["the"])
    with pytest.raises(TypeError, match="^word must be a sequence of 3 symbols"):
        model.advance(cursors, "the")
    with pytest.raises(ValueError, match="^context: the end mark"):
        model.predict_next("the </s>")
    with pytest.raises(TypeError, match="^cursor must be a CacheCursor"):
        model.rows(np.array([0, 1]))
    with pytest.raises(ValueError, match="^n must be"):
        model.begin(n=-1)


def test_a_single_state_of_another_model_is_refused():
    mixed = MixtureLM([("a", AdditiveLM()), ("b", WittenBellLM())], weights="em")
    small = LanguageModel(mixed, max_depth=2).fit(["a b", "b a"] * 5)
    large = LanguageModel(clone(mixed), max_depth=2).fit(["a b c d e f"] * 5)
    wide = LanguageModel(clone(mixed), max_depth=3).fit(["a b", "b a"] * 5)
    for other, word in ((large, "f"), (wide, "a")):
        state = other.advance(other.begin(), word)[1]
        for ask in (small.rows, lambda state: small.advance(state, "a")):
            with pytest.raises(ValueError, match="state must be a state of this model"):
                ask(state)
    pair = small.advance(small.begin(), "a")  # the log-probability, too
    for wrong in (pair, [small.begin(2), small.begin()], []):
        with pytest.raises(ValueError, match="state must be a state of this model"):
            small.rows(wrong)
