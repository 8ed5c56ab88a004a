"""partial_fit: batches against the whole."""

import pickle

import numpy as np
import pytest
from _cases import each_value
from _families import smoothers
from _loglinear import loglinear
from scipy import sparse
from sklearn.base import clone
from sklearn.dummy import DummyClassifier

from sklstruct import KneserNeyLM, StructuredLogLinearLM, SuffixTreeVectorizer
from sklstruct.backoff import ExtendedCounts
from sklstruct.backoff._estimator import BackoffClassifier
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import (
    AdditiveLM,
    JelinekMercerLM,
    WittenBellLM,
)
from sklstruct.symbols import TextFile

COUNT_MODELS = [
    model
    for model in smoothers(
        [
            KneserNeyLM(discount=0.6),
            KneserNeyLM(discount=0.6, interpolate=False, max_depth=1),
            JelinekMercerLM(weight=0.4),
        ]
    )
    if hasattr(model, "partial_fit")
]
ids = [repr(m) for m in COUNT_MODELS]
MARKS = ("start", "end", "unknown")


def draw(seed, n=300, strings=True):
    """Windows and targets; later ones hold symbols that earlier ones do not."""
    rng = np.random.default_rng(seed)
    limit = 2 + np.arange(n + 3) * 9 // n
    tokens = (rng.random(n + 3) ** 2 * limit).astype(int)
    if strings:
        tokens = np.array(["c", "a", "b", "zz", "0", "x", "ab", "m", "q", "y", "w"])[
            tokens
        ]
    return np.lib.stride_tricks.sliding_window_view(tokens, 3)[:-1], tokens[3:]


def same(a: BackoffClassifier, b: BackoffClassifier):
    assert a.classes_.tolist() == b.classes_.tolist()
    a, b = a.backoff_model_, b.backoff_model_
    assert a.labels.symbols.tolist() == b.labels.symbols.tolist()
    assert a.pairs == b.pairs and a.tree == b.tree
    np.testing.assert_array_equal(a.pairs.parent, b.pairs.parent)
    np.testing.assert_array_equal(a.log_prob, b.log_prob)
    np.testing.assert_array_equal(a.log_backoff, b.log_backoff)


@pytest.mark.filterwarnings("ignore:.*counts of counts")
@pytest.mark.parametrize(
    *each_value(model=COUNT_MODELS, strings=[True, False], weighted=[True, True, False])
)
def test_batches_are_the_whole(model, strings, weighted):
    X, y = draw(0, strings=strings)
    weight = np.arange(y.size) % 4 if weighted else None
    whole = clone(model).fit(X, y, sample_weight=weight)
    parts = clone(model)
    for rows in np.array_split(np.arange(y.size), 7):
        got = parts.partial_fit(
            X[rows], y[rows], sample_weight=None if weight is None else weight[rows]
        )
        assert got is parts
        parts = pickle.loads(pickle.dumps(parts))  # goes on after a restart
    same(parts, whole)
    np.testing.assert_array_equal(parts.predict_proba(X), whole.predict_proba(X))
    assert parts.backoff_model_.check_normalized() < 1e-12


@pytest.mark.parametrize("how", ["parameter", "argument"])
def test_closed_classes(how):
    X, y = draw(1)
    classes = np.unique(y)
    model = KneserNeyLM(discount=0.6)
    given = {"classes": classes}
    if how == "parameter":
        model.set_params(classes=classes)
        given = {}
    whole = KneserNeyLM(discount=0.6, classes=classes).fit(X, y)
    model.partial_fit(X[:50], y[:50], **given)
    assert model.classes_.tolist() == classes.tolist()
    with pytest.raises(ValueError, match=r"^y\[0\] = '?\w+'? is not among the"):
        model.partial_fit(X[:1], ["new"])
    with pytest.raises(ValueError, match="classes must be those of the first call"):
        model.partial_fit(X[:1], y[:1], classes=["a", "b"])
    same(model.partial_fit(X[50:], y[50:]), whole)  # nothing was lost


@pytest.mark.parametrize("how", ["fit", "partial_fit"])
def test_parameters_that_change_between_batches(how):
    X, y = draw(1)
    params = {"max_depth": 3, "padding": np.nan, "classes": None}
    model = KneserNeyLM(discount=0.6, **params)
    getattr(model, how)(X[:50], y[:50])
    changed = {"max_depth": 1, "padding": "a", "classes": np.unique(y)}
    for name, value in changed.items():
        model.set_params(**{name: value})
        with pytest.raises(ValueError, match=f"{name} was changed after the first"):
            model.partial_fit(X[50:], y[50:])
        model.set_params(**{name: params[name]})
    same(model.partial_fit(X[50:], y[50:]), clone(model).fit(X, y))


def test_sentence_parameters_that_change_between_batches():
    lm = LanguageModel(AdditiveLM(delta=0.1)).partial_fit(TEXT[:6])
    whole = clone(lm).fit(TEXT)
    changed = {"max_depth": 1, "start": "<b>", "end": "<e>", "unknown": None}
    changed |= {"vocabulary": ["the", "cat"], "analyzer": "char"}
    for name, value in changed.items():
        before = getattr(lm, name)
        lm.set_params(**{name: value})
        with pytest.raises(ValueError, match=f"{name} was changed after the first"):
            lm.partial_fit(TEXT[6:])
        lm.set_params(**{name: before})
    same(lm.partial_fit(TEXT[6:]).estimator_, whole.estimator_)


@pytest.mark.parametrize("kind", [tuple, np.array, lambda words: dict.fromkeys(words)])
def test_equal_parameters_of_another_type_are_not_a_change(kind):
    words = sorted({word for line in TEXT for word in line.split()})
    lm = LanguageModel(AdditiveLM(delta=0.1), max_depth=2, vocabulary=words)
    whole = clone(lm).fit(TEXT)
    lm.partial_fit(TEXT[:6])
    lm.set_params(vocabulary=kind(words), max_depth=np.int64(2)).partial_fit(TEXT[6:])
    same(lm.estimator_, whole.estimator_)


def test_misuse():
    X, y = draw(2)
    model = KneserNeyLM(discount=0.6)
    with pytest.raises(ValueError, match="dense context windows"):
        model.partial_fit(sparse.csr_matrix(np.ones((2, 2))), y[:2])
    with pytest.raises(ValueError, match="requires y"):
        model.partial_fit(X, None)
    paths = SuffixTreeVectorizer().fit_transform(X)
    with pytest.raises(ValueError, match="fitted on path matrices"):
        KneserNeyLM(discount=0.6).fit(paths, y).partial_fit(X, y)
    model = KneserNeyLM(discount=0.6).partial_fit(X, y)
    before = model.predict_proba(X)
    with pytest.raises(TypeError, match="strings in one batch and numbers"):
        model.partial_fit(np.ones((2, 3), dtype=int), y[:2])
    with pytest.raises(ValueError, match="features"):
        model.partial_fit(X[:, 1:], y)
    with pytest.raises(ValueError, match="non-zero|zero"):
        model.partial_fit(X[:2], y[:2], sample_weight=[0, 0])
    np.testing.assert_array_equal(model.predict_proba(X), before)
    # A model that was fitted goes on; another fit begins anew.
    model.fit(X[:50], y[:50]).partial_fit(X[50:], y[50:])
    same(model, KneserNeyLM(discount=0.6).fit(X, y))
    same(model.fit(X[:50], y[:50]), KneserNeyLM(discount=0.6).fit(X[:50], y[:50]))
    tuned = KneserNeyLM(discount="tuned")
    assert not hasattr(tuned, "partial_fit")
    with pytest.raises(AttributeError) as error:
        tuned.partial_fit(X, y)
    assert "which batches do not have" in str(error.value.__cause__)


@pytest.mark.parametrize("penalty", ["l2", "tree_l2", "tree_linf"])
def test_log_linear_model_goes_on_from_its_weights(penalty):
    X, y = draw(3)
    params = {"penalty": penalty, "lam": 0.3, "tol": 1e-7, "max_iter": 3000}
    params["alpha"] = 0.9  # at 1 tree_linf has more than one optimum
    whole = loglinear(**params).fit(X, y)
    parts = loglinear(**params)
    for rows in np.array_split(np.arange(y.size), 4):
        parts.partial_fit(X[rows], y[rows])
    assert parts.backoff_model_.pairs == whole.backoff_model_.pairs
    # The optimum of tree_linf is flat in some weights, which the answers do not show.
    np.testing.assert_allclose(
        parts.predict_log_proba(X), whole.predict_log_proba(X), atol=2e-3
    )
    np.testing.assert_allclose(parts.objective_[-1], whole.objective_[-1], rtol=1e-8)
    # A batch of samples that were seen at its end costs few steps.
    again = loglinear(**params).partial_fit(X, y)
    assert again.n_iter_ > 2
    again.partial_fit(X[:1], y[:1])
    assert again.n_iter_ < whole.n_iter_ or whole.n_iter_ < 10


TEXT = [
    "the cat sat", "the dog sat", "", "a cat ran home", "zebras <unk> ran", "A dog",
    "the end", "b b b b", "the cat sat home", "0 a",
]  # fmt: skip


@pytest.mark.filterwarnings("ignore:.*counts of counts")
@pytest.mark.parametrize(
    ("model", "marks"),
    [
        *((model, {}) for model in COUNT_MODELS),
        *((KneserNeyLM(discount=0.6), {mark: None}) for mark in MARKS),
    ],
)
def test_batches_of_sentences_are_the_whole(model, marks, tmp_path):
    path = tmp_path / "text"
    path.write_text("\n".join(TEXT))
    depth = model.max_depth or 3
    lm = LanguageModel(
        clone(model).set_params(max_depth=None), max_depth=depth, **marks
    )
    whole = clone(lm).fit(TEXT)
    weight = np.ones(len(TEXT))
    for parts in (
        [TEXT[:4], TEXT[4:5], TEXT[5:]],
        [TextFile(path, skip_blank_lines=0)],
    ):
        grown = clone(lm)
        for part in parts:
            grown.partial_fit(part)
            grown = pickle.loads(pickle.dumps(grown))
        assert grown.vocabulary_.tolist() == whole.vocabulary_.tolist()
        same(grown.estimator_, whole.estimator_)
        np.testing.assert_array_equal(
            grown.score_samples(TEXT), whole.score_samples(TEXT)
        )
    again = clone(lm).partial_fit(TEXT[:6], sample_weight=weight[:6])
    again.partial_fit(TEXT[6:], sample_weight=weight[6:])
    same(again.estimator_, whole.estimator_)


def test_sentences_with_a_closed_vocabulary():
    words = ["the", "cat", "sat"]
    lm = LanguageModel(AdditiveLM(delta=0.1), vocabulary=words)
    whole = clone(lm).fit(TEXT)
    grown = clone(lm).partial_fit(TEXT[5:]).partial_fit(TEXT[:5])
    same(grown.estimator_, whole.estimator_)
    open_ended = LanguageModel(AdditiveLM(delta=0.1), vocabulary=words, unknown=None)
    open_ended.partial_fit(["the cat sat"])
    with pytest.raises(
        ValueError, match="'dog' of sentence 0 is not in the vocabulary"
    ):
        open_ended.partial_fit(["dog"])


def test_misuse_of_sentences():
    lm = LanguageModel(AdditiveLM(delta=0.1), min_count=2)
    with pytest.raises(ValueError, match="min_count=2"):
        lm.partial_fit(TEXT)
    with pytest.raises(ValueError, match="max_vocabulary=3"):
        LanguageModel(AdditiveLM(), max_vocabulary=3).partial_fit(TEXT)
    lm = LanguageModel(AdditiveLM(delta=0.1))
    with pytest.raises(ValueError, match="fitted by fit"):
        clone(lm).fit(TEXT).partial_fit(TEXT)
    with pytest.raises(ValueError, match="X is empty: give at least one sentence"):
        clone(lm).partial_fit([])
    with pytest.raises(TypeError, match="partial_fit needs a model over contexts"):
        LanguageModel(DummyClassifier()).partial_fit(TEXT)
    # Frozen sets have no order that a sort could keep.
    sets = [[frozenset([i, j]) for i in range(5) for j in range(5)] for _ in range(2)]
    lm = LanguageModel(AdditiveLM(delta=0.1)).partial_fit([sets[0][:3]])
    before = lm.score([sets[0][:3]])
    try:
        lm.partial_fit([sets[1][::-1]])
    except TypeError as exc:
        assert "cannot be sorted" in str(exc)
        assert lm.score([sets[0][:3]]) == before


def test_log_linear_language_model_grows():
    lm = LanguageModel(loglinear(lam=0.2, tol=1e-6, max_iter=3000), max_depth=2)
    whole = clone(lm).fit(TEXT)
    grown = clone(lm)
    for part in (TEXT[:4], TEXT[4:7], TEXT[7:]):
        grown.partial_fit(part)
    np.testing.assert_allclose(grown.score(TEXT), whole.score(TEXT), rtol=1e-4)


@pytest.mark.filterwarnings("ignore:.*counts of counts")
@pytest.mark.parametrize("model", COUNT_MODELS, ids=ids)
def test_a_window_is_a_fit_of_its_batches(model):
    X, y = draw(3)
    batches = np.array_split(np.arange(y.size)[::-1], 7)  # classes go as well
    for window in (1, 3, 9):
        parts = clone(model)
        for k, rows in enumerate(batches):
            parts.partial_fit(X[rows], y[rows], window=window)
            parts = pickle.loads(pickle.dumps(parts))
            inside = np.concatenate(batches[max(0, k - window + 1) : k + 1])
            same(parts, clone(model).fit(X[inside], y[inside]))


def test_a_second_pass_takes_the_place_of_the_first():
    text = random_text(11, 100)
    batches = [text[i : i + 20] for i in range(0, 100, 20)]
    params = {"penalty": "l2", "tol": 1e-7, "max_iter": 3000}
    for estimator in (KneserNeyLM(discount=0.5), loglinear(**params)):
        lm = LanguageModel(estimator, max_depth=3)
        whole = clone(lm).partial_fit(text)
        parts = clone(lm)
        for _ in range(2):
            for batch in batches:
                parts.partial_fit(batch, window=len(batches))
            counts, once = parts._so_far.counted, whole._so_far.counted
            assert counts.pairs == once.pairs
            np.testing.assert_array_equal(counts.count, once.count)
            assert parts.vocabulary_.tolist() == whole.vocabulary_.tolist()
        if isinstance(estimator, KneserNeyLM):
            same_text_models(parts, whole)
        else:
            np.testing.assert_allclose(
                parts.score_samples(text), whole.score_samples(text), rtol=1e-4
            )


@pytest.mark.parametrize("window", [2, 4])
def test_old_pairs_are_found_among_those_of_a_window(window, monkeypatch):
    text = random_text(12, 100)
    batches = [text[i : i + 20] for i in range(0, 100, 20)]
    lm = LanguageModel(StructuredLogLinearLM(penalty="l2"), max_depth=3)
    places, fit = [], StructuredLogLinearLM.fit_counted

    def note(self, counted, **options):
        if isinstance(counted, ExtendedCounts):
            places.append((counted.new_index(), counted.weight))
        return fit(self, counted, **options)

    monkeypatch.setattr(StructuredLogLinearLM, "fit_counted", note)
    seen = []
    for batch in batches:
        before = getattr(lm, "backoff_model_", None)
        lm.partial_fit(batch, window=window)
        after = lm.backoff_model_
        if before is not None:
            new_index, weight = places.pop()
            assert not places
            assert weight == sum(len(line.split()) + 1 for line in batch)
            assert new_index.size == before.n_pairs
            assert named(after, new_index[new_index >= 0]) == named(
                before, np.flatnonzero(new_index >= 0)
            )
            gone = set(named(before, np.flatnonzero(new_index < 0)))
            assert not gone & set(named(after, np.arange(after.n_pairs)))
            seen.append(bool(gone))
    assert any(seen)


def named(model, pairs):
    """(context, word) of some pairs of a language model."""
    words = model.labels.classes
    nodes = model.pairs.nodes()[pairs]
    contexts = [tuple(model.labels.symbols[c]) for c in model.tree.contexts(nodes)]
    return list(zip(contexts, words[model.pairs.target[pairs]].tolist()))


@pytest.mark.filterwarnings("ignore:.*counts of counts")
@pytest.mark.parametrize("model", COUNT_MODELS, ids=ids)
def test_decay_is_a_fit_with_weights(model):
    X, y = draw(4)
    parts, weight = clone(model), np.ones(y.size)
    for rows in np.array_split(np.arange(y.size), 6):
        parts.partial_fit(X[rows], y[rows], decay=0.5)
        weight[: rows[0]] *= 0.5  # powers of two: sums are exact
        seen = slice(0, rows[-1] + 1)
        whole = clone(model).fit(X[seen], y[seen], sample_weight=weight[seen])
        same(parts, whole)


def test_decayed_n_grams_are_forgotten():
    X, y = draw(5)
    first, rest = np.arange(y.size) < 200, np.arange(y.size) >= 200
    model = WittenBellLM().partial_fit(X[first], y[first])
    n_pairs = model.backoff_model_.n_pairs
    for _ in range(40):
        model.partial_fit(X[rest], y[rest], decay=0.5)
    known = np.unique(y)
    alone = WittenBellLM(classes=known)
    alone.fit(X[rest], y[rest], sample_weight=np.full(rest.sum(), 2.0))
    assert model.classes_.tolist() == known.tolist()
    assert model.backoff_model_.n_pairs == alone.backoff_model_.n_pairs < n_pairs * 2
    np.testing.assert_allclose(
        model.predict_proba(X), alone.predict_proba(X), atol=1e-6
    )
    assert model.backoff_model_.check_normalized() < 1e-12


@pytest.mark.parametrize("how", [{"decay": 0.5}, {"window": 2}])
def test_log_linear_model_forgets(how):
    X, y = draw(6)
    model = loglinear(penalty="l2", tol=1e-6)
    batches = np.array_split(np.arange(y.size), 4)
    for rows in batches:
        model.partial_fit(X[rows], y[rows], **how)
    weight = np.repeat([0.125, 0.25, 0.5, 1.0], [rows.size for rows in batches])
    if "window" in how:
        weight = np.repeat([0.0, 0.0, 1.0, 1.0], [rows.size for rows in batches])
    whole = loglinear(penalty="l2", tol=1e-6)
    whole.fit(X, y, sample_weight=weight)
    assert model.classes_.tolist() == whole.classes_.tolist()
    np.testing.assert_allclose(
        model.predict_proba(X), whole.predict_proba(X), atol=1e-4
    )


@pytest.mark.parametrize("penalty", ["l2", "tree_l2"])
def test_a_batch_that_fails_leaves_nothing_for_the_next_fit(penalty):
    X, y = draw(10)
    params = {"penalty": penalty, "lam": 0.5, "tol": 1e-6, "max_iter": 3000}
    model = loglinear(**params).partial_fit(X, y)
    model.set_params(alpha=[1.0])
    with pytest.raises(ValueError, match="alpha must be a number or give one value"):
        model.partial_fit(X, y)
    model.set_params(alpha=1.0).fit(X[:40, 1:], y[:40])
    whole = loglinear(**params).fit(X[:40, 1:], y[:40])
    np.testing.assert_array_equal(model.coef_, whole.coef_)


def random_text(seed, n):
    rng = np.random.default_rng(seed)
    low = np.arange(n) * 20 // n  # early words are in no later sentence
    return [
        " ".join(f"w{i}" for i in low[k] + rng.integers(0, 6, rng.integers(1, 8)))
        for k in range(n)
    ]


def same_text_models(a, b):
    assert a.vocabulary_.tolist() == b.vocabulary_.tolist()
    assert a.backoff_model_.pairs == b.backoff_model_.pairs
    for name in ("log_prob", "log_backoff"):
        np.testing.assert_array_equal(
            getattr(a.backoff_model_, name), getattr(b.backoff_model_, name)
        )


@pytest.mark.parametrize("vocabulary", [None, [f"w{i}" for i in range(15)]])
@pytest.mark.parametrize("start", ["<s>", None])
def test_a_window_over_sentences(vocabulary, start):
    text = random_text(7, 140)
    lm = LanguageModel(
        KneserNeyLM(discount=0.5), max_depth=3, vocabulary=vocabulary, start=start
    )
    parts = clone(lm)
    batches = [text[i : i + 20] for i in range(0, 140, 20)]
    for k, batch in enumerate(batches):
        parts.partial_fit(batch, window=3)
        parts = pickle.loads(pickle.dumps(parts))
        inside = [line for b in batches[max(0, k - 2) : k + 1] for line in b]
        same_text_models(parts, clone(lm).fit(inside))
    if vocabulary is None:
        assert "w0" not in parts.vocabulary_
    # The window may become smaller.
    parts.partial_fit(batches[0], window=2)
    same_text_models(parts, clone(lm).fit(batches[-1] + batches[0]))


def test_decay_over_sentences():
    text = random_text(8, 100)
    # Closed: a word that weighs less than min_count=1 would not be in that of one fit.
    known = sorted({w for line in text for w in line.split()})
    lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=3, vocabulary=known)
    parts, weight = clone(lm), np.ones(100)
    for i in range(0, 100, 20):
        parts.partial_fit(text[i : i + 20], decay=0.5)
        weight[:i] *= 0.5
    same_text_models(parts, clone(lm).fit(text, sample_weight=weight))


def test_misuse_of_forgetting():
    X, y = draw(9)
    model = WittenBellLM()
    for decay in (0, 1.5, -1, "a", np.nan):
        with pytest.raises(ValueError, match="decay must be a number in .0, 1."):
            model.partial_fit(X, y, decay=decay)
    for window in (0, -1, 1.5, "a", True):
        with pytest.raises(ValueError, match="window must be an integer"):
            model.partial_fit(X, y, window=window)
    with pytest.raises(ValueError, match="both forget"):
        model.partial_fit(X, y, window=2, decay=0.5)
    model.partial_fit(X, y)
    with pytest.raises(ValueError, match="from the first batch"):
        model.partial_fit(X, y, window=2)
    lm = LanguageModel(WittenBellLM()).partial_fit(["a b"])
    with pytest.raises(ValueError, match="from the first batch"):
        lm.partial_fit(["a b"], window=2)
    assert lm.partial_fit(["a c"]).vocabulary_.tolist()[:3] == ["a", "b", "c"]
