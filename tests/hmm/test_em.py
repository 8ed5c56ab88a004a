"""Sequences whose labels are partly known: expectation-maximisation, weights, given."""

import itertools
import re
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from _cases import each_value
from _hmm_problems import only, random_model, remake, toy
from sklearn import config_context
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning, UnsetMetadataPassedError
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from sklstruct import AdditiveLM, KneserNeyLM, LanguageModel
from sklstruct.hmm import (
    CategoricalEmission,
    ClassifierEmission,
    EditDistanceChannel,
    HighOrderHMM,
    KeypadChannel,
    NoisyChannelDecoder,
    SuffixEmission,
    _em,
    _suffix_emission,
)
from sklstruct.hmm._automaton import ContextAutomaton
from sklstruct.hmm._em import ObservedSequences, expect, histories, with_histories
from sklstruct.hmm._sequence_model import id_windows

pytestmark = pytest.mark.filterwarnings(
    "ignore::sklearn.exceptions.ConvergenceWarning", "ignore:.*counts of counts"
)


@pytest.fixture
def no_tolerance(monkeypatch):
    monkeypatch.setattr(_em, "TOLERANCE", 0.0)


def masked(y, share, seed=0, unknown=None):
    """Labels of which a share is unknown, some sequences as a whole."""
    rng = np.random.RandomState(seed)
    out = [[unknown if rng.rand() < share else a for a in row] for row in y]
    return [[unknown] * len(row) if i % 4 == 3 else row for i, row in enumerate(out)]


def same_model(a, b):
    """Whether two taggers have the same numbers, to the last bit."""
    one, two = a.transition_model_, b.transition_model_
    rows = [t.emission_.candidates([["d0", "n1", "v3", "zz"]])[0] for t in (a, b)]
    return (
        np.array_equal(one.log_prob, two.log_prob)
        and np.array_equal(one.log_backoff, two.log_backoff)
        and one.tree == two.tree
        and all(
            np.array_equal(p[0], q[0]) and np.array_equal(p[1], q[1])
            for p, q in zip(*rows)
        )
    )


# ------------------------------------------------------------------ expectations


@pytest.mark.parametrize(
    *each_value(order=[2, 3, 4, 5], kind=["kneser-ney", "katz", "zeros"])
)
def test_expectations_equal_enumeration(kind, order):
    model = HighOrderHMM(order).fit(*toy(25, labels="012")).transition_model_
    rng = np.random.RandomState(order)
    log_prob, log_backoff = model.log_prob.copy(), model.log_backoff.copy()
    if kind == "katz":
        log_prob -= rng.uniform(0, 2, len(log_prob))
        log_backoff[1:] = rng.uniform(-1.0, 1.5, len(log_backoff) - 1)
    elif kind == "zeros":
        # Never all of them, so that each sequence has a labelling.
        some = (model.pairs.target == 0) & (rng.rand(len(log_prob)) < 0.6)
        log_prob[some] = -np.inf
    model = remake(model, log_prob, log_backoff)
    windows = histories(3, order)
    whole = with_histories(model, windows)
    symbols = ["p", "q"]
    table = np.log(rng.dirichlet(np.ones(3), size=3))
    table[0, 1] = -np.inf
    table[-1] = 0.0
    X = [["p", "q", None, "q", "p"], ["q"], [], ["q", "q", "p"]]
    known = [[-1, 2, -1, -1, -1], [-1], [], [1, -1, 2]]
    observed = ObservedSequences.of(
        X, [np.array(k, dtype=np.int32) for k in known], np.array([1.0, 2.0, 0.5, 1.5])
    )
    assert observed.symbols == symbols
    automaton = ContextAutomaton(whole)
    assert automaton.n_nodes == whole.n_nodes
    found = expect(automaton, observed, table, np.arange(3, dtype=np.int32), 10**6)
    index = {
        tuple(k for k in row if k >= 0): i
        for i, row in enumerate(automaton.tree.windows().tolist())
    }
    followed = np.zeros_like(found.followed)
    emitted = np.zeros((2, 3))
    total = 0.0
    for x, some, weight in zip(X, known, observed.weight):
        codes = [symbols.index(o) if o else -1 for o in x]
        paths, scores, events = [], [], []
        for path in itertools.product(range(3), repeat=len(x)):
            if any(k >= 0 and k != y for k, y in zip(some, path)):
                continue
            text, score, seen = [3], 0.0, []
            for y in [*path, 3]:
                history = text[-(order - 1) :]
                window = np.full((1, order - 1), -1, dtype=np.int32)
                window[0, order - 1 - len(history) :] = history
                score += model.target(model.locate(window), [y])[0]
                seen.append((index[tuple(history)], y))
                text.append(y)
            score += sum(table[c, y] for c, y in zip(codes, path))
            paths.append(path)
            scores.append(score)
            events.append(seen)
        log_z = np.logaddexp.reduce(scores)
        total += weight * log_z
        for path, score, seen in zip(paths, scores, events):
            for event in seen:
                followed[event] += weight * np.exp(score - log_z)
            for c, y in zip(codes, path):
                if c >= 0:
                    emitted[c, y] += weight * np.exp(score - log_z)
    assert found.log_likelihood == pytest.approx(total, abs=1e-9)
    np.testing.assert_allclose(found.followed, followed, atol=1e-9)
    np.testing.assert_allclose(found.emitted, emitted, atol=1e-9)


def test_histories_change_no_probability():
    X, y = toy(40)
    model = HighOrderHMM(4).fit(X, y).transition_model_
    windows = histories(4, 4)
    assert len(windows) == 1 + 4 + 16 + 64
    whole = with_histories(model, windows)
    nodes = whole.locate(windows)
    assert (whole.depth(nodes) == (windows >= 0).sum(axis=1)).all()
    np.testing.assert_array_equal(whole.rows(nodes), model.rows(model.locate(windows)))


# ------------------------------------------------------------------ the objective


@pytest.mark.parametrize(*each_value(order=[2, 3, 4, 5], unknown=[0.5, 1.0]))
def test_objective_rises(order, unknown, no_tolerance, monkeypatch):
    monkeypatch.setattr(_em, "UNLABELLED_WEIGHT", 1.0)
    # A maximum a posteriori step: no iteration is refused, none loses.
    X, y = toy(30, labels="DNV")
    tagger = HighOrderHMM(
        order, smoothing=AdditiveLM(delta=0.1), emission="categorical",
        classes=list("DNV"), max_iter=12, random_state=1,
    ).fit(X, masked(y, unknown))  # fmt: skip
    assert tagger.n_iter_ == 12
    gain = np.diff(tagger.objective_)
    assert (gain >= 0).all() and gain[0] > 1e-3
    # The last value is that of the model that is kept.
    known = masked(y, unknown)
    value = tagger.log_likelihood(X, given=known).sum()
    model = tagger.transition_model_
    leaves = np.flatnonzero(np.diff(model.tree.child_ptr) == 0)
    value += 0.1 * model.rows(leaves).sum()
    assert tagger.objective_[-1] == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("n", [20, 40])
def test_objective_of_other_smoothers_never_falls_and_says_when_it_stops(
    n, monkeypatch
):
    monkeypatch.setattr(_em, "UNLABELLED_WEIGHT", 1.0)
    monkeypatch.setattr(_em, "TOLERANCE", 1e-4)
    X, y = toy(n)
    some = masked(y, 0.6)
    tagger = HighOrderHMM(3, emission=CategoricalEmission(), max_iter=200)
    tagger.fit(X, some)
    assert 1 < tagger.n_iter_ < 200
    assert (np.diff(tagger.objective_) > 0).all()
    assert tagger.log_likelihood(X, given=some).sum() == pytest.approx(
        tagger.objective_[-1], rel=1e-9
    )
    # Without a tolerance, it ends where an iteration would lose.
    monkeypatch.setattr(_em, "TOLERANCE", 0.0)
    last = clone(tagger).set_params(max_iter=400).fit(X, some)
    assert tagger.n_iter_ < last.n_iter_ < 400
    assert (np.diff(last.objective_) > 0).all()
    assert last.log_likelihood(X, given=some).sum() == pytest.approx(
        last.objective_[-1], rel=1e-12
    )
    with pytest.warns(ConvergenceWarning, match="max_iter=2"):
        clone(tagger).set_params(max_iter=2).fit(X, some)


def test_windows_of_known_labels():
    ids = [np.array([0, -1, 1, 2], dtype=np.int32), np.array([-1, -1], dtype=np.int32)]
    contexts, targets, counts = id_windows(ids, 3, 3, np.array([2.0, 1.0]))
    kept = counts > 0
    # A label before an unknown one is not known to be next to what follows it.
    assert [(*c, t) for c, t in zip(contexts[kept].tolist(), targets[kept])] == [
        (-1, -1, 3, 0), (-1, -1, -1, 1), (-1, -1, 1, 2), (-1, 1, 2, 3),
    ]  # fmt: skip
    assert counts[kept].tolist() == [2.0] * 4


def test_weight_of_what_is_unlabelled():
    X, y = toy(60)
    some = [row if i < 20 else [None] * len(row) for i, row in enumerate(y)]
    alone = HighOrderHMM(3, emission="categorical").fit(X[:20], y[:20])
    tagger = HighOrderHMM(3, emission="categorical", max_iter=3)
    few = np.where(np.arange(60) < 20, 1.0, 1e-8)
    near = clone(tagger).fit(X, some, sample_weight=few)
    nodes = alone.transition_model_.locate(histories(4, 3))
    rows = alone.transition_model_.rows(nodes)
    model = near.transition_model_
    np.testing.assert_allclose(
        model.rows(model.locate(histories(4, 3))), rows, atol=1e-5
    )
    # Without labels, a sequence counts a fiftieth.
    plain = clone(tagger).fit(X, some)
    value = plain.log_likelihood(X, given=some) @ np.where(np.arange(60) < 20, 1, 0.02)
    assert plain.objective_[-1] == pytest.approx(value, rel=1e-9)
    # A weight of 2 is the unlabelled part twice.
    twice = clone(tagger).fit(X, some, sample_weight=1 + (np.arange(60) >= 20))
    again = clone(tagger).fit([*X, *X[20:]], [*some, *some[20:]])
    np.testing.assert_allclose(twice.objective_, again.objective_, rtol=1e-9)
    # A sequence of which one label is unknown counts less by its share of 0.98.
    some = [[None, *row[1:]] if i < 20 else row for i, row in enumerate(y)]
    part = clone(tagger).fit(X, some)
    weight = [1 - 0.98 / len(x) if i < 20 else 1 for i, x in enumerate(X)]
    value = part.log_likelihood(X, given=some) @ np.array(weight)
    assert part.objective_[-1] == pytest.approx(value, rel=1e-9)


def test_labels_of_the_first_class_alone_are_labels():
    """Known labels start the iterations; random numbers do not."""
    X, y = toy(40, labels="DNVA")
    only = [["A" if a == "A" else None for a in row] for row in y]
    model = HighOrderHMM(
        2,
        smoothing=AdditiveLM(),
        emission="categorical",
        classes=list("ADNV"),
        max_iter=3,
    )
    one, two = (clone(model).set_params(random_state=k).fit(X, only) for k in (0, 1))
    assert one.classes_[0] == "A" and same_model(one, two)


def test_sequences_count_in_full_if_nothing_is_labelled():
    X, _ = toy(30)
    tagger = HighOrderHMM(2, classes=3, max_iter=3, random_state=0).fit(X)
    value = tagger.log_likelihood(X).sum()
    assert tagger.objective_[-1] == pytest.approx(value, rel=1e-9)


def test_first_order_without_smoothing_is_hmmlearns(no_tolerance):
    hmm = pytest.importorskip("hmmlearn.hmm")
    rng = np.random.RandomState(3)
    K, V = 3, 4
    X = [rng.randint(V, size=rng.randint(1, 7)).tolist() for _ in range(25)]
    tagger = HighOrderHMM(
        2, smoothing=AdditiveLM(delta=1e-13), emission="categorical", classes=K,
        max_iter=1, random_state=0,
    )  # fmt: skip
    first = clone(tagger).fit(X)
    last = clone(tagger).set_params(max_iter=6).fit(X)

    def matrices(fitted):
        model = fitted.transition_model_
        windows = np.array([[K], *([k] for k in range(K))], dtype=np.int32)
        rows = np.exp(model.rows(model.locate(windows)))
        emit = np.zeros((K, V))
        for v in range(V):
            ids, factor = fitted.emission_.candidates([[v]])[0][0]
            emit[ids, v] = np.exp(factor)
        return rows[0], rows[1:], emit

    # The end is one more state, with its own symbol.
    start, step, emit = matrices(first)
    peer = hmm.CategoricalHMM(
        K + 1, n_features=V + 1, init_params="", params="ste", n_iter=5, tol=-np.inf
    )
    peer.startprob_ = start
    peer.transmat_ = np.vstack([step, np.eye(K + 1)[-1]])
    peer.emissionprob_ = np.zeros((K + 1, V + 1))
    peer.emissionprob_[:K, :V] = emit
    peer.emissionprob_[K, V] = 1
    flat = np.concatenate([[*x, V] for x in X])[:, None]
    peer.fit(flat, [len(x) + 1 for x in X])
    start, step, emit = matrices(last)
    np.testing.assert_allclose(peer.startprob_, start, atol=1e-9)
    np.testing.assert_allclose(peer.transmat_[:K], step, atol=1e-9)
    np.testing.assert_allclose(peer.emissionprob_[:K, :V], emit, atol=1e-9)
    np.testing.assert_allclose(
        list(peer.monitor_.history)[1:], last.objective_[1:5], atol=1e-6
    )


@pytest.mark.parametrize("n, n_init, max_iter", [(15, 3, 15), (40, 8, 50)])
def test_restarts_and_threads(n, n_init, max_iter):
    X, y = toy(n, labels="DN")
    tagger = HighOrderHMM(
        3, smoothing=AdditiveLM(), emission="categorical", classes=2, max_iter=6
    )
    several = clone(tagger).set_params(n_init=4, random_state=0).fit(X)
    single = clone(tagger).set_params(random_state=0).fit(X)
    assert several.objective_[-1] >= single.objective_[-1]
    again = clone(several).set_params(n_jobs=2).fit(X)
    assert same_model(several, again)
    assert not same_model(single, clone(single).set_params(random_state=1).fit(X))
    # Two clusters of words: their labels are found up to names.
    X = [[f"{'ab'[i % 2]}{i % 3}" for i in range(a, a + 6)] for a in range(30)]
    y = [[int(w[0] == "b") for w in row] for row in X]
    tagger.set_params(n_init=n_init, random_state=0, max_iter=max_iter)
    found = tagger.fit(X)
    share = found.score(X, y)
    assert max(share, 1 - share) > 0.99


def test_unlabelled_sequences_help():
    X, y = toy(400, seed=2)
    some = [row if i < 12 else [None] * len(row) for i, row in enumerate(y)]
    X_test, y_test = X[300:], y[300:]
    alone = HighOrderHMM(2).fit(X[:12], y[:12]).score(X_test, y_test)
    more = HighOrderHMM(2, max_iter=5).fit(X[:300], some[:300])
    assert more.score(X_test, y_test) > alone


# ------------------------------------------------------------------ labels, weights


def test_everything_labelled_needs_no_iteration():
    X, y = toy(50)
    plain = HighOrderHMM(3).fit(X, y)
    assert plain.n_iter_ == 0 and plain.objective_.size == 0
    assert same_model(plain, HighOrderHMM(3, classes=list("VNDA")).fit(X, y))
    assert same_model(plain, HighOrderHMM(3).fit(X, y, np.ones(len(X))))


@pytest.mark.parametrize("emission", ["suffix", "categorical"])
@pytest.mark.parametrize("share", [0.0, 0.5])
def test_integer_weights_are_repetitions(emission, share):
    X, y = toy(30)
    y = masked(y, share) if share else y
    weight = np.arange(len(X)) % 3
    tagger = HighOrderHMM(3, emission=emission, max_iter=3)
    weighted = clone(tagger).fit(X, y, sample_weight=weight)
    repeated = [i for i, w in enumerate(weight) for _ in range(w)]
    plain = clone(tagger).fit([X[i] for i in repeated], [y[i] for i in repeated])
    np.testing.assert_allclose(
        weighted.log_likelihood(X[:9]), plain.log_likelihood(X[:9]), rtol=1e-9
    )
    for a, b in zip(weighted.predict_proba(X[:9]), plain.predict_proba(X[:9])):
        np.testing.assert_allclose(a, b, atol=1e-9)
    assert weighted.score(X, y, sample_weight=weight) == pytest.approx(
        weighted.score([X[i] for i in repeated], [y[i] for i in repeated])
    )


def test_minus_one_marks_unknown_integer_labels():
    X, y = toy(30, labels="0123")
    number = [[int(a) for a in row] for row in y]
    none = HighOrderHMM(3, max_iter=2).fit(X, masked(number, 0.4))
    minus = HighOrderHMM(3, max_iter=2).fit(X, masked(number, 0.4, unknown=-1))
    arrays = [np.array(row) for row in masked(number, 0.4, unknown=-1)]
    assert same_model(none, minus)
    assert same_model(none, HighOrderHMM(3, max_iter=2).fit(X, arrays))
    assert none.classes_.tolist() == [0, 1, 2, 3]
    # Among strings "-1" is a label like another.
    assert "-1" in HighOrderHMM().fit([["a", "b"]], [["-1", "0"]]).classes_


def test_emissions_by_a_classifier_with_weights():
    rng = np.random.RandomState(0)
    y = [rng.randint(2, size=5).tolist() for _ in range(40)]
    X = [[[2.0 * a + rng.randn(), rng.randn()] for a in row] for row in y]
    some = [row if i < 10 else [-1] * 5 for i, row in enumerate(y)]
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    tagger = HighOrderHMM(2, emission=pipeline, max_iter=4).fit(X, some)
    assert tagger.score(X[10:], y[10:]) > 0.7
    weight = 1 + np.arange(40) % 2
    weighted = HighOrderHMM(2, emission=LogisticRegression(tol=1e-10)).fit(X, y, weight)
    twice = [i for i, w in enumerate(weight) for _ in range(w)]
    plain = HighOrderHMM(2, emission=LogisticRegression(tol=1e-10)).fit(
        [X[i] for i in twice], [y[i] for i in twice]
    )
    np.testing.assert_allclose(
        weighted.log_likelihood(X), plain.log_likelihood(X), rtol=1e-4
    )
    with pytest.raises(TypeError, match="does not take sample_weight"):
        HighOrderHMM(2, emission=ClassifierEmission(KNeighborsClassifier())).fit(
            X, some
        )


class WithoutLogarithms(LogisticRegression):
    @property
    def predict_log_proba(self):
        raise AttributeError("probabilities alone")


def test_emissions_by_a_classifier_without_logarithms():
    rng = np.random.RandomState(0)
    y = [rng.randint(3, size=5).tolist() for _ in range(20)]
    X = [[[2.0 * a + rng.randn(), rng.randn()] for a in row] for row in y]
    plain, alone = (
        HighOrderHMM(2, emission=kind()).fit(X, y)
        for kind in (LogisticRegression, WithoutLogarithms)
    )
    np.testing.assert_allclose(
        alone.log_likelihood(X), plain.log_likelihood(X), rtol=1e-12
    )


@pytest.mark.parametrize("n, options", [(20, {"max_iter": 15}), (60, {})], ids=str)
def test_transitions_that_are_given(n, options, no_tolerance):
    X, y = toy(n)
    model = HighOrderHMM(3).fit(X, y).transition_model_
    some = masked(y, 0.7)
    tagger = HighOrderHMM(smoothing=model, emission="categorical", max_iter=8).fit(
        X, some
    )
    assert tagger.transition_model_ is model
    assert tagger.n_iter_ == 8 and (np.diff(tagger.objective_) > 0).all()
    free = HighOrderHMM(
        smoothing=model, emission="categorical", classes=list("DNVA"), **options
    )
    assert (np.diff(free.fit(X).objective_) > 0).all()


# ------------------------------------------------------------------ labels given


@pytest.mark.parametrize(
    *each_value(order=[2, 3, 4], emission=["suffix", CategoricalEmission(floor=0.05)])
)
def test_given_labels_equal_enumeration(order, emission):
    X, y = toy()
    tagger = HighOrderHMM(order, emission=emission).fit(X, y)
    x = ["d0", "new", None, "n1"]
    given = [None, {"N", "V"}, "D", ["A", "N", "D"]]
    allowed = [tagger.classes_.tolist(), ["N", "V"], ["D"], ["A", "N", "D"]]
    paths = list(itertools.product(*allowed))
    scores = tagger.joint_log_proba([x] * len(paths), paths)
    log_z = np.logaddexp.reduce(scores)
    assert tagger.log_likelihood([x], given=[given])[0] == pytest.approx(log_z)
    assert tuple(tagger.predict([x], given=[given])[0]) == paths[int(scores.argmax())]
    expected = np.zeros((4, 4))
    for path, score in zip(paths, scores):
        for i, label in enumerate(path):
            expected[i, tagger.classes_.tolist().index(label)] += np.exp(score - log_z)
    proba = tagger.predict_proba([x], given=[given])[0]
    np.testing.assert_allclose(proba, expected, atol=1e-9)
    ranked = tagger.predict_k([x], 3, given=[given])[0]
    np.testing.assert_allclose([s for _, s in ranked], np.sort(scores)[:-4:-1])
    drawn = tagger.sample_posterior([x], 50, random_state=0, given=[given])[0]
    assert {tuple(row) for row in drawn} <= set(paths)
    with only("refine"):
        refined = tagger.predict([x], given=[given])
    assert refined == tagger.predict([x], given=[given])
    # Given labels count as they are in the score.
    assert tagger.score(X, y, given=y) == 1.0
    free = [[None] * len(row) for row in y]
    assert tagger.score(X, y, given=free) == tagger.score(X, y)


def test_minus_one_is_unknown_where_labels_are_integers():
    X, y = toy(40)
    numbers = [["ADNV".index(label) for label in row] for row in y]
    tagger = HighOrderHMM(2).fit(X, numbers)
    known = [
        [label if j % 2 else None for j, label in enumerate(row)] for row in numbers
    ]
    minus = [[-1 if label is None else label for label in row] for row in known]
    assert tagger.predict(X, given=minus) == tagger.predict(X, given=known)
    np.testing.assert_allclose(
        tagger.log_likelihood(X, given=minus), tagger.log_likelihood(X, given=known)
    )
    letters = HighOrderHMM(2).fit(X, y)
    with pytest.raises(ValueError, match=r"given\[0\]\[0\] holds -1, which is not in"):
        letters.predict(X[:1], given=[[-1] * len(X[0])])


def test_none_stands_for_a_sequence_without_labels():
    X, y = toy(30)
    some = [None if i % 3 == 0 else row for i, row in enumerate(y)]
    long = [[None] * len(x) if row is None else row for x, row in zip(X, some)]
    a, b = (HighOrderHMM(2).fit(X, labels) for labels in (some, long))
    assert same_model(a, b) and a.n_iter_ > 0
    assert a.predict(X, given=some) == a.predict(X, given=long)
    with pytest.raises(TypeError, match=r"X\[0\] is not a sequence"):
        HighOrderHMM(2).fit([None, *X[1:]], y)


@pytest.mark.parametrize("options", [{"max_iter": 3}, {}], ids=str)
def test_few_iterations_if_labels_are_known(options, monkeypatch):
    X, y = toy(60)
    with warnings.catch_warnings():
        warnings.simplefilter("error", ConvergenceWarning)
        some = HighOrderHMM(2).fit(X, masked(y, 0.5))
    assert some.n_iter_ == 2
    two = clone(some).set_params(max_iter=2)
    with pytest.warns(ConvergenceWarning):
        assert same_model(two.fit(X, masked(y, 0.5)), some)
    monkeypatch.setattr(_em, "TOLERANCE", 1e-3)
    free = HighOrderHMM(2, classes=4, random_state=0, **options).fit(X)
    assert free.n_iter_ > 2


def test_given_words_of_a_decoder():
    text = [s.split() for s in ["the dog ran home", "the fog came in", "the dog sat"]]
    decoder = NoisyChannelDecoder(
        LanguageModel(AdditiveLM(delta=0.1), max_depth=2), KeypadChannel()
    ).fit(text)
    keys = [["843", "364", "726"]]
    assert decoder.predict(keys) == [["the", "dog", "ran"]]
    assert decoder.predict(keys, given=[[None, "fog", None]]) == [["the", "fog", "ran"]]
    words, proba = decoder.predict_proba(keys, given=[[None, {"fog"}, None]])[0][1]
    assert words.tolist() == ["fog"] and proba.tolist() == [1.0]


@pytest.mark.parametrize("beam_width", [None, 5])
def test_an_unknown_word_can_be_given(beam_width):
    model, channel = (
        LanguageModel(AdditiveLM(delta=0.1), max_depth=2),
        EditDistanceChannel(),
    )
    decoder = NoisyChannelDecoder(model, channel, beam_width=beam_width)
    decoder.fit(["the dog ran home", "the cat ran home"])
    X = [["the", "doge", "ran"]]
    for word in ("dog", "doge"):
        for known in (word, {word}):
            assert decoder.predict(X, given=[[None, known, None]])[0][1] == word
    for other in ("dogs", "<unk>"):
        with pytest.raises(ValueError, match=rf"given\[0\]\[1\] holds '{other}'"):
            decoder.predict(X, given=[[None, other, None]])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ([["D"]], r"given has 1 sequences, but X has 2"),
        ([["D"], [None]], r"given\[0\] has 1 entries, but X\[0\] has 2"),
        ([[None, "X"], [None]], r"given\[0\]\[1\] holds 'X'"),
        ([[None, {"D", "X"}], [None]], r"given\[0\]\[1\] holds 'X'"),
        ([[None, set()], [None]], r"given\[0\]\[1\] is empty"),
        ([["V", None], [None]], r"given\[0\]\[0\]: 'V' is not a candidate of .* 'the'"),
        ([[[["D"]], None], [None]], r"given\[0\]\[0\] holds \['D'\], which is not in"),
        (["DN", "D"], "string"),
    ],
)
def test_malformed_given(given, message):
    X = [["the", "cat", "ran"], ["the", "dog", "sat"]]
    y = [["D", "N", "V"], ["D", "N", "V"]]
    tagger = HighOrderHMM(2, emission="categorical").fit(X, y)
    for method in (tagger.predict, tagger.predict_proba, tagger.log_likelihood):
        with pytest.raises((ValueError, TypeError), match=message):
            method([["the", "cat"], ["the"]], given=given)
    Series = pytest.importorskip("pandas").Series
    with pytest.raises(ValueError, match=r"given\[0\]\[1\]: 'V' is not a candidate"):
        tagger.predict([["cat", "the"]], given=[Series([None, "V"], index=[1, 0])])


def test_labels_that_make_a_sequence_impossible():
    # Nothing follows V, so that V at the first of two positions has no path.
    model = random_model("kneser-ney", 2, 2, seed=0)
    log_prob = model.log_prob.copy()
    a = int(model.labels.encode_targets(["a"])[0])
    log_prob[a] = -np.inf
    nodes = np.repeat(np.arange(model.n_nodes), np.diff(model.pairs.ptr))
    log_prob[(model.pairs.target == a) & (nodes > 0)] = -np.inf
    zero = type(model)(model.pairs, log_prob, model.log_backoff, model.labels)
    tagger = HighOrderHMM(smoothing=zero, emission=CategoricalEmission(floor=0.1))
    tagger.fit([["x", "y"]], [["a", "b"]])
    X, given = [["x", "y"]], [["a", None]]
    for method in (
        tagger.predict, tagger.predict_proba, tagger.log_likelihood, tagger.predict_k,
        tagger.sample_posterior,
    ):  # fmt: skip
        with pytest.raises(ValueError, match=r"given\[0\].*impossible|no possible"):
            method(X, given=given)
    with pytest.raises(ValueError, match=r"y\[0\]: X\[0\] has no possible labelling"):
        clone(tagger).fit([["x", "y"]], [["a", None]])


# ------------------------------------------------------------------ bad input


@pytest.mark.parametrize(
    ("params", "y", "weight", "message"),
    [
        ({}, None, None, "y is None"),
        ({}, [[None, None], [None]], None, "no label to learn from; .* classes"),
        ({}, [[-1, -1], [-1]], None, "no label to learn from; .* classes"),
        (
            {"classes": ["a"]},
            [["a", "b"], [None]],
            None,
            "'b', which is not in classes",
        ),
        ({"classes": []}, [["a", "b"], [None]], None, "one label or more"),
        ({"classes": ["a", "a"]}, None, None, "each once"),
        ({"classes": [-1, 0]}, None, None, "marks unknown"),
        ({"classes": 0}, None, None, "classes"),
        ({"classes": 2, "max_iter": 0}, None, None, "max_iter"),
        ({"classes": 2, "n_init": 0}, None, None, "n_init"),
        ({"classes": 30, "order": 6}, None, None, "order=6 is too high"),
        ({}, [["a", float("nan")], ["a"]], None, "NaN|one kind"),
        ({}, [["a"], ["b"]], None, r"y\[0\] has 1 labels"),
        ({}, [["a", "b"], ["b"]], [1], "sample_weight"),
        ({}, [["a", "b"], ["b"]], [1, -1], "Negative values in .*sample_weight"),
        ({}, [["a", "b"], ["b"]], [1, np.nan], "sample_weight"),
        ({}, [["a", "b"], ["b"]], [0, 0], "sample_weight: .*at least one non-zero"),
        ({}, [["a", "b"], ["b"]], [[1, 1]], "sample_weight"),
    ],
)
def test_malformed_labels_and_weights(params, y, weight, message):
    X = [["x", "y"], ["z"]]
    with pytest.raises((ValueError, TypeError), match=message):
        HighOrderHMM(**params).fit(X, y, sample_weight=weight)


def test_observations_are_needed():
    with pytest.raises(ValueError, match="no observation"):
        HighOrderHMM(classes=2).fit([[None, None]])
    fitted = HighOrderHMM(2, emission="categorical").fit([["x", "y"]], [["a", "b"]])
    with pytest.raises(ValueError, match="unknown label"):
        fitted.joint_log_proba([["x", "y"]], [["a", None]])
    with pytest.raises(ValueError, match="no known label: there is nothing to score"):
        fitted.score([["x", "y"]], [[None, None]])


def test_observations_may_be_missing():
    X, y = toy(40)
    X = [[None if j == 1 else o for j, o in enumerate(row)] for row in X]
    tagger = HighOrderHMM(3, smoothing=KneserNeyLM(discount="single"), max_iter=3)
    assert np.isfinite(tagger.fit(X, masked(y, 0.5)).objective_).all()
    assert isinstance(tagger.emission_, SuffixEmission)


# ------------------------------------------------------------------ outputs


def test_round_trip_of_skops():
    io = pytest.importorskip("skops.io")
    X, y = toy(40)
    tagger = HighOrderHMM(3, max_iter=2).fit(X, masked(y, 0.3))
    data = io.dumps(tagger)
    again = io.loads(data, trusted=io.get_untrusted_types(data=data))
    assert again.predict(X) == tagger.predict(X)
    np.testing.assert_array_equal(again.log_likelihood(X), tagger.log_likelihood(X))


def test_metrics_of_other_libraries():
    X, y = toy(40)
    tagger = HighOrderHMM(3).fit(X, y)
    found = tagger.predict(X)
    assert type(found[0]) is list and type(found[0][0]) is str
    assert np.asarray(found).shape == (len(X),)
    metrics = pytest.importorskip("nltk.metrics")
    flat = [[a for row in rows for a in row] for rows in (y, found)]
    assert metrics.accuracy(*flat) == tagger.score(X, y)
    seqeval = pytest.importorskip("seqeval.metrics")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert seqeval.accuracy_score(y, found) == pytest.approx(tagger.score(X, y))


def test_guess_by_a_classifier():
    X, y = toy(200)
    emission = SuffixEmission(guess="logistic", min_proba=0, max_count=10**6)
    tagger = HighOrderHMM(2, emission=emission).fit(X, y)
    fitted = tagger.emission_
    ids, factor = fitted.candidates([["n9"]])[0][0]
    proba = fitted.guess_.predict_proba(["n9"])[0]
    prior = fitted.label_counts_ / fitted.label_counts_.sum()
    np.testing.assert_allclose(np.exp(factor), (proba / prior)[ids])
    assert tagger.classes_[ids[factor.argmax()]] == "N"
    # Only rare words teach it, each of them once in all.
    own = make_pipeline(CountVectorizer(analyzer="char"), _Recorder())
    fitted = SuffixEmission(guess=own, max_count=2).fit(
        [["aa", "aa", "b", "b", "b"]], [np.array([0, 1, 0, 0, 1])], 2
    )
    last = fitted.guess_[-1]
    assert last.n_samples_ == 2 and last.weight_.tolist() == [0.5, 0.5]
    # Without rare words the guess is the frequency of the labels.
    few = SuffixEmission(max_count=1).fit([["a", "a", "a"]], [np.array([0, 1, 1])], 2)
    assert few.guess_ is None
    np.testing.assert_allclose(few.candidates([["b"]])[0][0][1], 0.0, atol=1e-15)
    # Words that are not rare keep the labels that they were seen with.
    assert fitted.candidates([["b"]])[0][0][0].tolist() == [0, 1]


def test_each_rare_word_is_spelt_once(monkeypatch):
    spelt = []
    monkeypatch.setattr(
        _suffix_emission, "spelling", lambda word: spelt.append(word) or [*word]
    )
    X = [["ab", "ab", "ba", "cc", "cc", "cc"]], [np.array([0, 1, 1, 0, 0, 0])], 2
    fitted = SuffixEmission(max_count=2).fit(*X)
    assert sorted(spelt) == ["ab", "ba"]
    # The own guess of a rare word is that of the fitted classifier.
    proba = fitted.guess_.predict_proba(["ab"])[0]
    ids, factor = fitted.candidates([["ab"]])[0][0]
    prior = fitted.label_counts_ / fitted.label_counts_.sum()
    np.testing.assert_allclose(np.exp(factor), ((1 + proba) / 3 / prior)[ids])


def test_weights_of_the_guess_reach_the_last_step_of_nested_pipelines():
    nested = make_pipeline(CountVectorizer(analyzer="char"), make_pipeline(_Recorder()))
    sequences = [["aa", "aa", "b", "b", "b"]], [np.array([0, 1, 0, 0, 1])], 2
    fitted = SuffixEmission(guess=nested, max_count=2).fit(*sequences)
    assert fitted.guess_[-1][-1].weight_.tolist() == [0.5, 0.5]


def test_weights_of_the_guess_with_metadata_routing():
    """ "logistic" needs no requests; the steps of a pipeline of the user need them."""
    X, y = toy(200)
    tagger = HighOrderHMM(2, emission=SuffixEmission(max_count=10**6))
    expected = clone(tagger).fit(X, y).predict(X)
    own = make_pipeline(CountVectorizer(analyzer="char"), _Recorder())
    sequences = [["aa", "aa", "b", "b", "b"]], [np.array([0, 1, 0, 0, 1])], 2
    with config_context(enable_metadata_routing=True):
        assert clone(tagger).fit(X, y).predict(X) == expected
        with pytest.raises(UnsetMetadataPassedError, match="_Recorder"):
            SuffixEmission(guess=own, max_count=2).fit(*sequences)
        own[-1].set_fit_request(sample_weight=True)
        fitted = SuffixEmission(guess=own, max_count=2).fit(*sequences)
    assert fitted.guess_[-1].weight_.tolist() == [0.5, 0.5]


class _Recorder(MultinomialNB):
    """Remembers what it was fitted to."""

    def fit(self, X, y, sample_weight=None):
        self.n_samples_, self.weight_ = X.shape[0], sample_weight
        return super().fit(X, y, sample_weight)


def test_adapter_of_the_guide_is_a_tagger_of_nltk():
    pytest.importorskip("nltk.tag.api")
    guide = Path(__file__).parents[2] / "docs" / "user_guide" / "hmm.rst"
    text = guide.read_text(encoding="utf-8")
    code = re.search(r"(    from nltk\.tag\.api.*?)\n\S", text, re.DOTALL)[1]
    X, y = toy(30)
    tagger = HighOrderHMM(3).fit(X, y)
    names = {"X": X, "y": y, "tagger": tagger}
    exec(textwrap.dedent(code), names)  # runs the text of the guide
    gold = [list(zip(words, tags)) for words, tags in zip(X, y)]
    adapter = names["Tagger"](tagger)
    assert adapter.accuracy(gold) == pytest.approx(tagger.score(X, y))
    confusion = adapter.confusion(gold)
    assert confusion["D", "D"] == sum(
        a == b == "D"
        for found, true in zip(tagger.predict(X), y)
        for a, b in zip(found, true)
    )
