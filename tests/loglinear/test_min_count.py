"""min_count of StructuredLogLinearLM: contexts of little weight have no weights."""

import numpy as np
import pytest
from _oracles import cut_to_frequent

from sklstruct import (
    KneserNeyLM,
    StructuredLogLinearLM,
    SuffixTreeVectorizer,
)
from sklstruct.backoff import Counted
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import Checkpoint, FitMemory, StructuredLogLinearLMCV, lam_path
from sklstruct.mixture import MixtureLM
from sklstruct.symbols import Labels

L2 = {"penalty": "l2", "lam": 0.3, "alpha": 0.8, "tol": 1e-4, "max_iter": 2000}
KINDS = [
    L2,
    {"penalty": "l2", "positive": False, "tol": 1e-4, "max_iter": 2000},
    {"penalty": "tree_linf", "lam": 0.4, "max_iter": 2000},
    {"lam": 0.4, "alpha": [1.0, 0.9, 0.8, 0.7], "max_iter": 2000},
]


def samples(n=300, width=3, seed=0):
    rng = np.random.default_rng(seed)
    tokens = rng.choice(5, n + width, p=[0.4, 0.3, 0.15, 0.1, 0.05]).astype(np.int32)
    windows = np.lib.stride_tricks.sliding_window_view(tokens, width)[:-1].copy()
    windows[rng.random(windows.shape) < 0.1] = -1
    weight = np.where(np.arange(n) % 3, 1.0, 0.5)
    return windows, tokens[width:], weight


def model_of(**options):
    return StructuredLogLinearLM(padding=-1, **options)


def equal_counts(a, b):
    assert a.pairs == b.pairs
    np.testing.assert_allclose(a.count, b.count, rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("least", [2, 5, 10**6])
@pytest.mark.parametrize("weighted", [False, True])
def test_histories_end_at_the_last_frequent_context(kind, least, weighted):
    X, y, weight = samples()
    weight = weight if weighted else np.ones(len(y))
    model = model_of(min_count=least, **kind).fit(X, y, sample_weight=weight)
    cut = cut_to_frequent(X, weight, least)
    by_hand = model_of(**kind).fit(cut, y, sample_weight=weight)
    assert model.coef_.size == by_hand.coef_.size
    assert model.coef_.size < model_of(**kind).fit(X, y, weight).coef_.size
    np.testing.assert_allclose(
        model.predict_proba(X), by_hand.predict_proba(cut), rtol=0, atol=1e-9
    )
    assert abs(model.predict_proba(X).sum(axis=1) - 1.0).max() < 1e-9
    assert model.depth_ == by_hand.depth_ == (cut >= 0).sum(axis=1).max()


@pytest.mark.parametrize("least", [2, 4])
def test_windows_paths_and_counts_give_the_same_model(least):
    X, y, _ = samples()
    model = model_of(min_count=least, **L2).fit(X, y)
    counted = Counted.of_windows(X, y, Labels(np.arange(5), np.arange(5)))
    of_counts = model_of(min_count=least, **L2).fit_counted(counted)
    np.testing.assert_array_equal(model.coef_, of_counts.coef_)
    vectorizer = SuffixTreeVectorizer(padding=-1)
    paths = vectorizer.fit_transform(X)
    of_paths = StructuredLogLinearLM(min_count=least, **L2).fit(paths, y)
    np.testing.assert_allclose(
        of_paths.predict_proba(paths), model.predict_proba(X), rtol=0, atol=1e-9
    )
    other = samples(seed=1)[0]
    np.testing.assert_allclose(
        of_paths.predict_proba(vectorizer.transform(other)),
        model.predict_proba(other), rtol=0, atol=1e-9,
    )  # fmt: skip


def test_counts_of_windows_are_those_that_are_left_of_all():
    X, y, weight = samples()
    labels = Labels(np.arange(5), np.arange(5))
    other, of_other, _ = samples(seed=1, n=50)
    for options in (
        {},
        {"sample_weight": weight},
        {"share": 0.3},
        {"validation": (other, of_other, None)},
        {"depth": 2},
    ):
        whole = Counted.of_windows(X, y, labels, **options)
        for least in (2, 3, 8):
            few = Counted.of_windows(X, y, labels, min_count=least, **options)
            left = whole.frequent(least)
            equal_counts(few, left)
            assert few.pairs.n_pairs < whole.pairs.n_pairs
            for a, b in ((few.held_out, left.held_out), (few.whole, left.whole)):
                assert (a is None) == (b is None)
            if few.whole is not None:
                equal_counts(few.whole, left.whole)
            if few.held_out is not None:
                for a, b in zip(few.held_out.samples(), left.held_out.samples()):
                    np.testing.assert_allclose(a, b)
    positions = Counted.of_windows(X, y, labels, keep_positions=True)
    equal_counts(positions.complete(3), Counted.of_windows(X, y, labels).frequent(3))
    assert whole.frequent(1) is whole


def test_sentences_are_those_of_their_windows(toy_text=("a b a c", "a b b", "c a")):
    text = [*toy_text, "a b c", "b a b a"] * 3
    lm = LanguageModel(StructuredLogLinearLM(min_count=4, **L2), max_depth=3)
    whole = LanguageModel(StructuredLogLinearLM(**L2), max_depth=3).fit(text)
    lm.fit(text)
    found = lm.backoff_model_.pairs.tree
    assert found.n_nodes < whole.backoff_model_.pairs.tree.n_nodes
    total = whole.backoff_model_.pairs.node_sums(lm.count(text).count)
    assert found == whole.backoff_model_.pairs.tree.select(total >= 4)[0]
    counted = lm.count(text)
    assert lm.perplexity(text) == pytest.approx(lm.fit(counted).perplexity(text))


def test_a_search_and_a_path_leave_out_the_same_contexts():
    X, y, _ = samples(600)
    search = StructuredLogLinearLMCV(
        padding=-1, min_count=3, search=("lam",), max_fits=4, **L2
    ).fit(X[:400], y[:400], X_val=X[400:], y_val=y[400:])
    options = {**L2, "lam": search.lam_}
    alone = model_of(min_count=3, **options).fit(X[:400], y[:400])
    assert search.coef_.size == alone.coef_.size
    log_loss = -np.mean(np.log(alone.predict_proba(X[400:])[np.arange(200), y[400:]]))
    assert search.held_out_loss_ == pytest.approx(log_loss, abs=1e-4)
    path = lam_path(
        model_of(min_count=3, **L2), X[:400], y[:400], lams=[1.0, search.lam_]
    )
    np.testing.assert_allclose(
        path.model(1).proba(np.arange(5)), alone.backoff_model_.proba(np.arange(5)),
        atol=1e-3,
    )  # fmt: skip
    assert path.coefs.shape[0] == alone.coef_.size
    counted = Counted.of_windows(X, y, Labels(np.arange(5), np.arange(5)))
    of_counts = lam_path(model_of(min_count=3, **L2), counted, lams=[1.0])
    of_windows = lam_path(model_of(min_count=3, **L2), X, y, lams=[1.0])
    np.testing.assert_array_equal(of_counts.coefs.toarray(), of_windows.coefs.toarray())


def test_a_memory_keeps_the_trees_apart():
    X, y, _ = samples()
    memory = FitMemory()
    for least in (1, 2, 1, 2):
        alone = model_of(min_count=least, **L2).fit(X, y)
        kept = model_of(min_count=least, memory=memory, **L2).fit(X, y)
        np.testing.assert_array_equal(alone.coef_, kept.coef_)
    assert (memory.n_counted, memory.n_found) == (2, 2)


def test_a_checkpoint_of_other_contexts_is_refused(tmp_path):
    X, y, _ = samples()
    path = Checkpoint(tmp_path / "fit.ckpt", interval=0)
    first = model_of(min_count=2, checkpoint=path, **L2).fit(X, y)
    again = model_of(min_count=2, checkpoint=path, **L2).fit(X, y)
    np.testing.assert_array_equal(first.coef_, again.coef_)
    with pytest.raises(ValueError, match=r"another fit \(contexts: "):
        model_of(min_count=3, checkpoint=path, **L2).fit(X, y)


def test_a_gate_reads_the_weight_of_the_contexts_that_are_left():
    X, y, _ = samples()
    models = [("few", model_of(min_count=3, **L2)), ("kn", KneserNeyLM(padding=-1))]
    mixture = MixtureLM(models, weights="logistic").fit(X, y)
    few = mixture.distribution_.models[0]
    total = {}
    for row in cut_to_frequent(X, np.ones(len(y)), 3).tolist():
        known = [s for s in row if s >= 0]
        for k in range(len(known) + 1):
            context = tuple(known[len(known) - k :])
            total[context] = total.get(context, 0) + 1
    for context, weight in zip(few.tree.contexts(), few.node_weight):
        assert total[tuple(int(s) for s in context)] == weight
    assert few.tree.n_nodes == len(total)


def test_refusals():
    X, y, _ = samples()
    with pytest.raises(ValueError, match="min_count: active_set=True makes only"):
        model_of(min_count=2, active_set=True).fit(X, y)
    prior = model_of(**L2).fit(X, y).backoff_model_
    with pytest.raises(ValueError, match="min_count: contexts that are left out"):
        StructuredLogLinearLM(
            min_count=2, prior=prior, positive=False, penalty="l2", padding=-1
        ).fit(X, y)
    with pytest.raises(AttributeError) as found:
        model_of(min_count=2).partial_fit(X, y)
    assert "min_count=2 keeps no counts" in str(found.value.__cause__)
    assert not hasattr(model_of(min_count=2).fit(X, y), "partial_fit")
    with pytest.raises(ValueError, match="min_count"):
        model_of(min_count=0).fit(X, y)
    # A context of which every occurrence has one extension is merged with it.
    chain = np.array([[0, 1, 2, 3]] * 3 + [[-1, -1, -1, 0]], dtype=np.int32)
    paths = SuffixTreeVectorizer(collapse=True, padding=-1).fit_transform(chain)
    with pytest.raises(ValueError, match="min_count=2 needs a context for every node"):
        StructuredLogLinearLM(min_count=2, **L2).fit(paths, [0, 1, 0, 1])
