"""HighOrderHMM, NoisyChannelDecoder, channels and emission models."""

import functools
import io
import itertools
import pickle
from collections import Counter
from enum import Enum

import numpy as np
import pytest
import scipy.sparse as sp
from _cases import each_value
from _hmm_problems import only, toy
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, cross_val_predict, cross_val_score
from sklearn.naive_bayes import GaussianNB, MultinomialNB
from sklearn.utils._param_validation import InvalidParameterError

from sklstruct import (
    AdditiveLM,
    BackoffModel,
    KneserNeyLM,
    LanguageModel,
    StructuredLogLinearLM,
)
from sklstruct.context_tree import ContextTree, pairs_of_arrays
from sklstruct.datasets import load_python_topics
from sklstruct.exchange import read, write
from sklstruct.hmm import (
    CategoricalEmission,
    ClassifierEmission,
    EditDistanceChannel,
    HighOrderHMM,
    KeypadChannel,
    NoisyChannelDecoder,
    SuffixEmission,
)
from sklstruct.hmm._automaton import ContextAutomaton
from sklstruct.hmm._lattice import LatticeSolver, LatticeTooLargeError
from sklstruct.language_model import CacheLM
from sklstruct.smoothing import GrownLM, KatzLM, WittenBellLM
from sklstruct.symbols import Labels
from sklstruct.symbols._encoding import object_array

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def all_paths(tagger, x):
    """Every labelling of a sequence with its joint log-probability."""
    paths = list(itertools.product(tagger.classes_.tolist(), repeat=len(x)))
    scores = tagger.joint_log_proba([x] * len(paths), paths)
    return paths, scores


@pytest.mark.parametrize(
    *each_value(order=[2, 3, 5], emission=["suffix", "categorical"])
)
def test_answers_agree_with_enumeration(order, emission):
    X, y = toy()
    tagger = HighOrderHMM(order, emission=emission).fit(X, y)
    for x in [X[0][:4], ["d0", None, "n1"], ["new", "d1"], [float("nan")], []]:
        paths, scores = all_paths(tagger, x)
        decoding = tagger.decode([x])
        assert decoding.log_proba[0] == pytest.approx(scores.max(), abs=1e-9)
        assert scores[paths.index(tuple(decoding.labels[0]))] == pytest.approx(
            scores.max(), abs=1e-9
        )
        assert decoding.gap[0] == 0 and not decoding.approximate[0]
        log_z = np.logaddexp.reduce(scores)
        assert tagger.log_likelihood([x])[0] == pytest.approx(log_z, abs=1e-9)
        expected = np.zeros((len(x), len(tagger.classes_)))
        for path, score in zip(paths, scores):
            for i, label in enumerate(path):
                k = tagger.classes_.tolist().index(label)
                expected[i, k] += np.exp(score - log_z)
        np.testing.assert_allclose(tagger.predict_proba([x])[0], expected, atol=1e-9)
        best = tagger.predict_k([x], 4)[0]
        np.testing.assert_allclose(
            [s for _, s in best], np.sort(scores)[::-1][: len(best)], atol=1e-9
        )


@pytest.mark.parametrize("solver", ["auto", "refine"])
@pytest.mark.parametrize("labels", ["DNVA", "0123"])
def test_solvers_and_threads_agree(solver, labels):
    X, y = toy(labels=labels)
    if labels == "0123":
        y = [[int(label) for label in row] for row in y]
    one = HighOrderHMM(4).fit(X, y)
    two = clone(one).set_params(n_jobs=2).fit(X, y)
    expected = two.predict(X)
    with only(solver):
        assert one.predict(X) == expected
        assert one.predict(object_array(X)) == expected
        draws = one.sample_posterior(X[:5], 3, random_state=0)
        again = one.set_params(n_jobs=2).sample_posterior(X[:5], 3, random_state=0)
    assert all((a == b).all() for a, b in zip(draws, again))
    assert [d.shape for d in draws] == [(3, len(x)) for x in X[:5]]
    for a, b in zip(one.predict_proba(X), two.predict_proba(X)):
        np.testing.assert_array_equal(a, b)
        np.testing.assert_allclose(a.sum(axis=1), 1.0, atol=1e-12)


@pytest.mark.parametrize("orders, cv", [([2, 3], 2), ([2, 3, 4], 3)])
def test_cross_validation_and_search(orders, cv):
    X, y = toy(90)
    search = GridSearchCV(
        HighOrderHMM(),
        {"order": orders, "smoothing": [KneserNeyLM(discount="single"), None]},
        cv=cv,
    ).fit(X, y)
    assert search.best_params_["order"] in orders
    assert 0.5 < search.best_score_ <= 1
    search = GridSearchCV(
        HighOrderHMM(emission=SuffixEmission()),
        {"emission__min_proba": [0, 0.01], "emission__max_count": [1, 5]},
        cv=cv,
    ).fit(X, y)
    assert search.score(X, y) > 0.5
    predicted = cross_val_predict(HighOrderHMM(), X, y, cv=cv)
    assert [len(p) for p in predicted] == [len(x) for x in X]
    assert cross_val_score(HighOrderHMM(), X, y, cv=cv).shape == (cv,)


def test_order_is_learnt_from_data():
    # The label repeats what stood two positions before; observations say nothing.
    rng = np.random.RandomState(0)
    X, y = [], []
    for _ in range(60):
        row = list(rng.choice(list("ab"), 2))
        while len(row) < 10:
            row.append(row[-2])
        y.append([str(label) for label in row])
        X.append([row[0], row[1]] + ["?"] * 8)
    search = GridSearchCV(HighOrderHMM(emission="categorical"), {"order": [2, 3]}, cv=3)
    assert search.fit(X, y).best_params_["order"] == 3
    assert search.best_score_ > 0.99


@pytest.mark.parametrize("length", [4, 5])
def test_transition_weight(length):
    X, y = toy()
    tagger = HighOrderHMM(3).fit(X, y)
    x = [max(X, key=len)[:length]]
    labels = [y[X.index(max(X, key=len))][:length]]
    emission = sum(
        dict(zip(*(a.tolist() for a in row)))["ADNV".index(label)]
        for row, label in zip(tagger.emission_.candidates(x)[0], labels[0])
    )
    transitions = tagger.joint_log_proba(x, labels)[0] - emission
    for weight in (0.3, 2.0):
        tagger.set_params(transition_weight=weight)
        assert tagger.joint_log_proba(x, labels)[0] == pytest.approx(
            weight * transitions + emission
        )
        scores = all_paths(tagger, x[0])[1]
        for solver in ("auto", "refine"):
            with only(solver):
                found = tagger.decode(x)
            assert found.log_proba[0] == pytest.approx(scores.max(), abs=1e-9)
        log_z = np.logaddexp.reduce(scores)
        assert tagger.log_likelihood(x)[0] == pytest.approx(log_z, abs=1e-9)
    with pytest.raises(ValueError, match="'transition_weight' parameter"):
        clone(tagger).set_params(transition_weight=0).fit(X, y)


def test_clone_pickle_and_size():
    X, y = toy()
    tagger = HighOrderHMM(3).fit(X, y)
    before = tagger.predict(X)
    again = pickle.loads(pickle.dumps(tagger))
    assert before == again.predict(X)
    assert "_weighted" not in tagger.__getstate__()
    assert not hasattr(clone(tagger), "classes_")
    model = tagger.transition_model_
    arrays = len(pickle.dumps(model)) + len(pickle.dumps(tagger.emission_))
    assert len(pickle.dumps(tagger)) < arrays + 5000


@pytest.mark.parametrize(
    "smoothing",
    [
        AdditiveLM(delta=0.1),
        KneserNeyLM(discount="single"),
        WittenBellLM(),
        StructuredLogLinearLM(),
    ],
    ids=lambda s: type(s).__name__,
)
def test_any_smoothing(smoothing):
    X, y = toy()
    tagger = HighOrderHMM(3, smoothing=smoothing).fit(X, y)
    assert tagger.score(X, y) > 0.6
    assert tagger.order_ == 3
    assert tagger.transition_model_.check_normalized() < 1e-9
    for x in [X[0][:4], ["d0", None, "n1"]]:
        paths, scores = all_paths(tagger, x)
        for solver in ("auto", "refine"):
            with only(solver):
                decoding = tagger.decode([x])
            assert decoding.log_proba[0] == pytest.approx(scores.max(), abs=1e-9)
        log_z = np.logaddexp.reduce(scores)
        assert tagger.log_likelihood([x])[0] == pytest.approx(log_z, abs=1e-9)


def test_transitions_from_a_file():
    X, y = toy()
    first = HighOrderHMM(3).fit(X, y)
    file = io.BytesIO()
    write(first.transition_model_, file, precision=15)
    file.seek(0)
    model = read(file)
    second = HighOrderHMM(smoothing=model).fit(X, y)
    np.testing.assert_allclose(
        first.log_likelihood(X), second.log_likelihood(X), atol=1e-6
    )
    assert first.predict(X) == second.predict(X)
    with pytest.raises(ValueError, match="the label 'new'"):
        HighOrderHMM(smoothing=model).fit([["a"]], [["new"]])


def test_classifier_as_emission():
    X, y = toy()
    letters = [[[int(c == w[0]) for c in "dnva"] for w in x] for x in X]
    tagger = HighOrderHMM(3, emission=MultinomialNB()).fit(letters, y)
    assert tagger.score(letters, y) > 0.6
    assert not tagger.decode(letters[:1]).approximate[0]
    # Dividing by the prior: the factors are those of the generative model.
    ids, factor = tagger.emission_.candidates(letters)[0][0]
    proba = tagger.emission_.estimator_.predict_proba(np.array(letters[0]))[0]
    counts = np.bincount([tagger.classes_.tolist().index(t) for r in y for t in r])
    np.testing.assert_allclose(factor, np.log(proba / (counts / counts.sum())))
    pruned = ClassifierEmission(MultinomialNB(), min_proba=0.2)
    tagger = HighOrderHMM(3, emission=pruned).fit(letters, y)
    assert tagger.decode(letters[:1]).approximate[0]
    assert len(tagger.predict([[None, letters[0][0]]])[0]) == 2


def test_suffix_emission_sums():
    X, y = toy()
    ids = [np.array(["DNVA".index(t) for t in row]) for row in y]
    emission = SuffixEmission(min_proba=0).fit(X, ids, 4)
    # p(o | y) P(y) = P(y | o) sums to 1 over the labels, known word or not.
    prior = emission.label_counts_ / emission.label_counts_.sum()
    for word in ("d0", "zz1", "Upper", "n-9", ""):
        some, factor = emission.candidates([[word]])[0][0]
        assert (np.exp(factor) * prior[some]).sum() == pytest.approx(1.0)


def test_frequency_emission_floor():
    ids = [np.array([0, 1, 0])]
    sharp = CategoricalEmission().fit([["a", "b", "c"]], ids, 2)
    assert sharp.candidates([["a"]])[0][0][0].tolist() == [0]
    soft = CategoricalEmission(floor=0.01).fit([["a", "b", "c"]], ids, 2)
    np.testing.assert_allclose(np.exp(soft.candidates([["a"]])[0][0][1]), [0.5, 0.01])
    some, factor = sharp.candidates([["new"]])[0][0]
    assert some.tolist() == [0, 1] and (factor == factor[0]).all()


def test_impossible_sequences():
    # After "a" only "b" can stand, and "x" is only ever an "a".
    data = b"""\\data\\
ngram 1=3
ngram 2=2

\\1-grams:
-99 <s>
-0.30103 a 0
-0.30103 b 0

\\2-grams:
-99 a a
0 a b

\\end\\
"""
    model = read(io.BytesIO(data))
    log_prob = np.where(model.log_prob < -200, -np.inf, model.log_prob)
    model = BackoffModel(model.pairs, log_prob, model.log_backoff, model.labels)
    tagger = HighOrderHMM(smoothing=model, emission="categorical")
    tagger.fit([["x", "y"]], [["a", "b"]])
    for solver in ("auto", "refine"):
        with only(solver):
            decoding = tagger.decode([["x", "x"], ["x", "y"]])
            with pytest.raises(ValueError, match=r"X\[0\]: the sentence has no poss"):
                tagger.sample_posterior([["x", "x"]])
        assert decoding.log_proba[0] == -np.inf and np.isfinite(decoding.log_proba[1])
        assert decoding.labels[0].tolist() == [None, None]
        assert decoding.labels[1].tolist() == ["a", "b"]
    assert tagger.log_likelihood([["x", "x"]])[0] == -np.inf
    assert (tagger.predict_proba([["x", "x"]])[0] == 0).all()
    assert tagger.predict_k([["x", "x"]]) == [[]]
    assert tagger.score([["x", "x"]], [["a", "a"]]) == 0
    tagger.set_params(decoding="posterior")
    assert tagger.predict([["x", "x"], [], ["x", None]]) == [
        [None, None], [], ["a", "b"],
    ]  # fmt: skip


def test_anytime():
    X, y = toy(200, labels="DNVA")
    exact = HighOrderHMM(5, emission=CategoricalEmission(floor=0.05)).fit(X, y)
    best = exact.decode(X).log_proba
    with only("refine", max_iter=2):
        early = exact.decode(X)
    assert (early.n_iterations <= 2).all()
    assert (early.gap > 1e-9).any()
    assert (early.log_proba <= best + 1e-9).all()
    assert (early.log_proba + early.gap >= best - 1e-9).all()


def test_max_states():
    X, y = toy()
    tagger = HighOrderHMM(4, emission=CategoricalEmission(floor=0.1), max_states=4)
    tagger.fit(X, y)
    long = [x for x in X if len(x) > 4][:3]
    assert (tagger.decode(long).n_iterations >= 0).all()  # falls back to refinement
    assert tagger.sample_posterior(long, 2, random_state=0)[0].shape[0] == 2
    for call in (tagger.predict_proba, tagger.log_likelihood, tagger.predict_k):
        with pytest.raises(LatticeTooLargeError, match="max_states=4"):
            call(long)


def test_a_beam_keeps_no_more_states_where_scores_are_equal():
    y = [[c, "z"] for c in "aaaabbccdd"]
    tagger = HighOrderHMM(2).fit([["x", "x"]] * 10, y)
    (c,) = tagger._sentences([["x", "x"]])[1]
    solver = LatticeSolver(tagger._automaton)
    for beam in (1, 2, 3):
        assert solver._forward(c, 0, beam=beam).ptr.tolist()[2] == 1 + beam


def test_refinement_brings_the_gap_of_a_beam_down():
    X, y = toy(200)
    tagger = HighOrderHMM(5, emission=CategoricalEmission(floor=0.05)).fit(X, y)
    best = tagger.decode(X).log_proba
    tagger.set_params(max_states=60)
    found = tagger.decode(X)
    assert (found.log_proba + found.gap >= best - 1e-9).all()
    solver, gaps = LatticeSolver(tagger._automaton, 60), []
    for i in np.flatnonzero(found.n_iterations):
        (c,) = tagger._sentences([X[i]])[1]
        gaps.append((solver.decode_within(c).gap, found.gap[i]))
    beam, both = np.array(gaps).T
    assert (both <= beam).all() and (both < beam).mean() > 0.5


@pytest.mark.parametrize(
    "X, y, error, message",
    [
        ([["a"]], [["A", "B"]], ValueError, r"y\[0\] has 2 labels, but X\[0\] has 1"),
        ([["a"], ["b"]], [["A"]], ValueError, "y has 1 sequences, but X has 2"),
        ([["a"]], None, ValueError, "y is None"),
        ([], [], ValueError, "y holds no label"),
        ([[]], [[]], ValueError, "y holds no label"),
        ("abc", [["A"]], TypeError, "X must be a list of sequences"),
        (["abc"], [["A"]], TypeError, r"X\[0\] is a string"),
        ([1], [["A"]], TypeError, r"X\[0\] is not a sequence"),
        ([["a"]], [[["A"]]], TypeError, "unhashable label"),
        ([["a", "b"]], [["A", 1]], TypeError, "of one kind"),
        ([[["a"]]], [["A"]], TypeError, "not hashable"),
        ([[None]], [["A"]], ValueError, "no observation"),
    ],
)
def test_malformed_input(X, y, error, message):
    with pytest.raises(error, match=message):
        HighOrderHMM().fit(X, y)


def test_other_errors():
    X, y = toy(10)
    tagger = HighOrderHMM(emission=CategoricalEmission(0.1)).fit(X, y)
    with pytest.raises(ValueError, match="not in classes_"):
        tagger.joint_log_proba([["d0"]], [["unseen"]])
    with pytest.raises(ValueError, match="k must be an integer of at least 1"):
        tagger.predict_k(X, 0)
    assert len(tagger.predict_k(X[:1])[0]) == 5  # the default
    labels, _ = tagger.predict_k(X[:1], 1)[0][0]
    assert labels == tagger.predict(X[:1])[0]  # both are lists
    with pytest.raises(ValueError, match="n_samples must be an integer of at least 1"):
        tagger.sample_posterior(X, 0)
    with pytest.raises(ValueError, match="'order' parameter"):
        HighOrderHMM(1).fit(X, y)
    with pytest.raises(TypeError, match="fits no back-off model"):
        HighOrderHMM(smoothing=GaussianNB()).fit(X, y)
    for reader in (LanguageModel("fast"), CacheLM(LanguageModel("fast"))):
        with pytest.raises(TypeError, match="^smoothing: .* fits no back-off model"):
            HighOrderHMM(smoothing=reader).fit(X, y)
    assert len(tagger.predict([])) == 0
    with pytest.raises(ValueError, match="no known label: there is nothing to score"):
        tagger.score([[]], [[]])


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "2", None, True])
def test_numbers_of_answers(wrong):
    tagger = HighOrderHMM(2).fit([["a", "b"]], [["N", "V"]])
    for method in (tagger.predict_k, tagger.sample_posterior):
        with pytest.raises(ValueError, match="must be an integer of at least 1"):
            method([["a"]], wrong)


@pytest.mark.parametrize("kind", ["array", "chunked", "rows"])
def test_arrow(kind):
    pa = pytest.importorskip("pyarrow")
    make = {
        "array": pa.array,
        "chunked": lambda rows: pa.chunked_array([pa.array(rows)]),
        "rows": lambda rows: [pa.array(row) for row in rows],
    }[kind]
    X, y = [["a", "b"], ["b", None]], [["N", "V"], ["V", "N"]]
    tagger, other = HighOrderHMM(2), HighOrderHMM(2).fit(X, y)
    tagger.fit(make(X), make(y))
    assert tagger.classes_.tolist() == ["N", "V"]
    for a, b in ((tagger, other), (other, tagger)):
        np.testing.assert_array_equal(a.log_likelihood(make(X)), b.log_likelihood(X))
    assert other.score(make(X), make(y)) == other.score(X, y)
    assert other.predict(X, given=make(y)) == y


def test_missing_values_of_pandas():
    pd = pytest.importorskip("pandas")
    tagger = HighOrderHMM(2).fit([["a", "b", pd.NA]], [["N", "V", "N"]])
    found = tagger.log_likelihood([["a", pd.NA]])
    assert found == tagger.log_likelihood([["a", None]])
    assert tagger.predict([["a"]], given=[[pd.NA]]) == tagger.predict([["a"]])
    for y in ([pd.NA, "N"], [pd.NA, pd.NA], [1, float("nan")], ["N", float("nan")]):
        with pytest.raises(ValueError, match="y holds NaN; an unknown label"):
            HighOrderHMM(2).fit([["a", "b"]], [y])
    for gone in (float("nan"), None):
        with pytest.raises(ValueError, match="classes holds NaN or None"):
            HighOrderHMM(2, classes=["N", gone]).fit([["a"]], [["N"]])


@pytest.mark.parametrize("y", [None, []])
def test_no_sequences(y):
    with pytest.raises(ValueError, match="X must have at least one sequence"):
        HighOrderHMM(emission="categorical", classes=2).fit([], y)


def test_missing_values_of_pandas_are_not_labels():
    pd = pytest.importorskip("pandas")
    X, y = [["dog", "cat"], ["dog"]], [["N", pd.NA], ["V"]]
    for classes in (None, ["N", "V"]):
        with pytest.raises(ValueError, match="y holds NaN; an unknown label"):
            HighOrderHMM(2, classes=classes).fit(X, y)
    fitted = HighOrderHMM(2).fit(X, [["N", "V"], ["N"]])
    with pytest.raises(
        ValueError, match=r"y\[0\] holds <NA>, which is not in classes_"
    ):
        fitted.joint_log_proba(X, y)
    with pytest.raises(ValueError, match=r"y\[1\] holds NaT"):
        fitted.joint_log_proba(X, [["N", "V"], [pd.NaT]])
    for tags in (["N", "V"], [1, 2]):
        fitted = HighOrderHMM(2).fit(X, [tags, tags[:1]])
        with pytest.raises(ValueError, match="y holds NaN"):
            fitted.score(X, y)


@pytest.mark.parametrize("wrong", [{"a", "b"}, frozenset("ab"), {"a": 1, "b": 2}])
def test_containers_without_order_are_not_sequences(wrong):
    tagger = HighOrderHMM(2).fit([["a", "b"]], [["N", "V"]])
    with pytest.raises(TypeError, match=r"X\[0\] is a .*, which has no order"):
        tagger.predict([wrong])
    with pytest.raises(TypeError, match=r"y\[0\] is a .*, which has no order"):
        HighOrderHMM(2).fit([["a", "b"]], [wrong])
    with pytest.raises(TypeError, match="X is a .*; pass a list of sequences"):
        tagger.predict(wrong)


@pytest.mark.parametrize("kind", ["pandas", "polars", "csr"])
def test_a_table_in_place_of_a_sequence_raises_an_error(kind):
    rows, y = np.array([[1.0, 2.0], [3.0, 4.0]]), [["a", "b"]] * 2
    if kind == "csr":
        table, remedy = sp.csr_array(rows), "toarray"
    else:
        table, remedy = pytest.importorskip(kind).DataFrame(rows), "to_numpy"
    tagger = HighOrderHMM(2, emission="gaussian", end=False)
    with pytest.raises(TypeError, match=rf"X\[1\] is a .*; pass X\[1\]\.{remedy}\(\)"):
        tagger.fit([rows, table], y)
    tagger.fit([rows, rows], y)
    for method in (tagger.predict_proba, tagger.log_likelihood):
        with pytest.raises(TypeError, match=rf"X\[0\] is a .*{remedy}"):
            method([table])
    with pytest.raises(TypeError, match=r"given\[0\] is a"):
        tagger.predict([rows], given=[table])


def test_half_of_a_pair_of_code_points_is_a_letter():
    bound = EditDistanceChannel(max_distance=1).bind(["cat", "c\ud800t"])
    assert [found.tolist() for found in bound.candidates("c\ud800t")] == [[1], [0.0]]
    assert np.isfinite(bound.log_unknown("c\ud801t"))


def test_answers_are_lists_of_lists():
    X, y = toy(12)
    tagger = HighOrderHMM(2).fit(X, y)
    expected = tagger.predict(X)
    inputs = [tuple(X), iter(X), object_array(X), [np.array(x) for x in X]]
    for name in ("pandas", "polars"):
        frames = pytest.importorskip(name)
        inputs.append(frames.Series(X))
    inputs.append(pytest.importorskip("pyarrow").array(X))
    for given in inputs:
        found = tagger.predict(given)
        assert isinstance(found, list) and found == expected
        assert all(type(row) is list for row in found)
        assert {type(label) for row in found for label in row} == {str}


def test_seqeval_takes_the_answers_for_a_table():
    pd = pytest.importorskip("pandas")
    metrics = pytest.importorskip("seqeval.metrics")
    words, tags = ["the", "cat", "ran", "dogs", "ran"], ["O", "B-N", "O", "B-N", "O"]
    table = pd.DataFrame({"s": [0, 0, 0, 1, 1], "w": words, "t": tags})
    rows = pd.concat([table.groupby("s").agg(list)] * 4, ignore_index=True)
    tagger = HighOrderHMM(2).fit(rows.w, rows.t)
    assert metrics.f1_score(list(rows.t), tagger.predict(rows.w)) == 1


WRONG = [
    (StructuredLogLinearLM(lam=-1), "lam"),
    (GrownLM(discount=2.0), "discount"),
    (WittenBellLM(interpolate="no"), "interpolate"),
    (AdditiveLM(delta=-1), "delta"),
    (AdditiveLM(0.1), "max_depth"),
    (KneserNeyLM(-1), "max_depth"),
    (WittenBellLM(max_depth=0.5), "max_depth"),
    (KatzLM(k=-3), "k"),
]


class NotToBeFitted(KneserNeyLM):
    def fit(self, X, y, sample_weight=None):
        raise AssertionError("work was done before the parameters were checked")

    fit_counted = fit


@pytest.mark.parametrize(("wrong", "name"), WRONG, ids=str)
def test_parameters_of_parts_are_checked(wrong, name):
    X, y = toy(4)
    match = f"The '{name}' parameter of"
    with pytest.raises(InvalidParameterError, match=match):
        HighOrderHMM(2, smoothing=wrong).fit(X, y)
    with pytest.raises(InvalidParameterError, match=match):
        HighOrderHMM(2, smoothing=wrong).fit(X, [[None] * len(X[0]), *y[1:]])
    with pytest.raises(InvalidParameterError, match=match):
        NoisyChannelDecoder(LanguageModel(wrong), KeypadChannel()).fit(TEXT)


def test_parameters_of_parts_are_checked_before_work():
    X, y = [[[1.0], [2.0]]], [["a", "b"]]
    for emission in (
        LogisticRegression(C=-1),
        ClassifierEmission(LogisticRegression(), weight=-1),
        SuffixEmission(max_count=-1),
    ):
        tagger = HighOrderHMM(2, emission=emission, smoothing=NotToBeFitted())
        with pytest.raises(InvalidParameterError, match="parameter of"):
            tagger.fit(X, y)

    class Undeclared(ClassifierMixin, BaseEstimator):
        def fit(self, X, y):
            self.classes_ = np.unique(y)
            return self

        def predict_proba(self, X):
            return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))

    plain = HighOrderHMM(2, emission=Undeclared()).fit(X, y)
    assert plain.predict(X) == [["a", "b"]]
    inside = ClassifierEmission(LogisticRegression(C=-1))
    with pytest.raises(InvalidParameterError, match="'C' parameter of"):
        HighOrderHMM(2, emission=inside).fit(X, y)
    model = LanguageModel(NotToBeFitted())
    with pytest.raises(InvalidParameterError, match="'error_rate' parameter"):
        NoisyChannelDecoder(model, EditDistanceChannel(-1)).fit(TEXT)


def test_labels_without_an_order():
    Tag = Enum("Tag", ["noun", "verb"])
    model = HighOrderHMM(2).fit([["a", "b"]], [[Tag.verb, Tag.noun]])
    assert model.predict([["a", "b"]]) == [[Tag.verb, Tag.noun]]
    assert model.classes_.tolist() == [Tag.noun, Tag.verb]


def test_a_frozen_emission_of_other_labels_is_refused():
    X, y = [[[1.0], [2.0], [1.5]]], [["a", "b", "a"]]
    frozen = FrozenEstimator(LogisticRegression().fit(X[0], y[0]))
    with pytest.raises(ValueError, match="emission: .* knows 'a' .* unfitted"):
        HighOrderHMM(2, emission=ClassifierEmission(frozen)).fit(X, y)


def test_columns_are_not_symbols():
    X = np.split(np.array([[0], [2], [1]]), [2])
    with pytest.raises(TypeError, match=r"X holds array\(\[0\]\).*the column X.ravel"):
        HighOrderHMM(2).fit(X, [["a", "b"], ["b"]])


def test_order_2_equals_hmmlearn():
    hmmlearn = pytest.importorskip("hmmlearn.hmm")
    X, y = toy()
    # A chain with an end cannot be written in hmmlearn's parameters: none here.
    text = [[*row] for row in y]
    model = LanguageModel(
        AdditiveLM(delta=0.5), max_depth=1, unknown=None, end=None
    ).fit(text)
    model = model.backoff_model_
    tagger = HighOrderHMM(smoothing=model, emission=CategoricalEmission(floor=1e-3))
    tagger.fit(X, y)
    words = sorted({w for x in X for w in x})
    n = len(tagger.classes_)
    peer = hmmlearn.CategoricalHMM(n_components=n, n_features=len(words))
    contexts = np.array(["<s>", *tagger.classes_], dtype=object)[:, None]
    rows = model.rows(model.locate(model.labels.encode_contexts(contexts)))
    order = model.labels.encode_targets(tagger.classes_)
    peer.startprob_ = np.exp(rows[0, order])
    peer.transmat_ = np.exp(rows[1:, order])
    emission = np.exp([
        [dict(zip(*(a.tolist() for a in tagger.emission_.candidates([[w]])[0][0])))[k]
         for w in words] for k in range(n)
    ])  # fmt: skip
    # hmmlearn wants the rows of emissions to sum to 1: take such for both.
    peer.emissionprob_ = emission / emission.sum(axis=1, keepdims=True)
    columns = np.log(peer.emissionprob_).T
    tagger.emission_._known = {
        w: (np.arange(n, dtype=np.int32), columns[i]) for i, w in enumerate(words)
    }
    code = {w: i for i, w in enumerate(words)}
    for x in X:
        log_proba, states = peer.decode(np.array([[code[w]] for w in x]))
        assert log_proba == pytest.approx(tagger.decode([x]).log_proba[0], abs=1e-9)
        assert tagger.classes_[states].tolist() == tagger.predict([x])[0]
        assert peer.score(np.array([[code[w]] for w in x])) == pytest.approx(
            tagger.log_likelihood([x])[0], abs=1e-9
        )


def test_keypad():
    channel = KeypadChannel(k=2.0)
    assert channel.encode("Dog-7?") == "364*7*"
    bound = channel.bind(["dog", "eye", "aa", "fog"])
    ids, factor = bound.candidates("364")
    assert ids.tolist() == [0, 1, 3]
    # e(3) y(9) e(3) against 3 6 4: distances 0, 1, sqrt(5).
    assert factor[1] == pytest.approx(-np.log(2 + 1) - np.log(2 * np.sqrt(5) + 1))
    assert factor[0] == factor[2] == 0
    assert len(bound.candidates("1")[0]) == 0
    with pytest.raises(ValueError, match="strings of the keys"):
        bound.candidates("dog")
    rng = np.random.RandomState(0)
    drawn = [channel.corrupt("dog", rng) for _ in range(50)]
    assert all(len(d) == 3 for d in drawn) and len(set(drawn)) > 1
    with pytest.raises(ValueError, match="'k' parameter"):
        KeypadChannel(k=-1).bind(["a"])


@functools.cache
def aligned(a, b):
    """(edits, new letters) from a to b: the least of all alignments, one by one."""
    if not a and not b:
        return 0, 0
    ways = []
    if a:  # the last letter of a is missing in b
        edits, new = aligned(a[:-1], b)
        ways.append((edits + 1, new))
    if b:  # the last letter of b was added
        edits, new = aligned(a, b[:-1])
        ways.append((edits + 1, new + (b[-2:-1] != b[-1:])))
    if a and b:
        edits, new = aligned(a[:-1], b[:-1])
        wrong = a[-1] != b[-1]
        ways.append((edits + wrong, new + wrong))
    if a[-2:] == b[-2:][::-1] and len(a) > 1 and len(b) > 1:
        edits, new = aligned(a[:-2], b[:-2])
        ways.append((edits + 1, new))
    return min(ways)


def signs_of_words(text):
    return text.strip("'-") != "" and not set(text) & {"1", "."}


@pytest.mark.parametrize("limit", [0, 1, 2])
def test_edit_distance(limit):
    rng = np.random.RandomState(limit)
    words = [
        "".join(rng.choice(list("aabbé'1."), rng.randint(8), p=P_SIGNS))
        for _ in range(80)
    ]
    words = list(dict.fromkeys(words))
    bound = EditDistanceChannel(0.1, max_distance=limit).bind(words)
    share = np.array(list(Counter("".join(words)).values())) / sum(map(len, words))
    log_letters = -(share * np.log(share)).sum()
    n_edited = 0
    for o in [*words[:50], "", "ab", "aba", "babab", "abbéab", "ééééééé"]:
        most = min(limit, len(o) // 3) if signs_of_words(o) else 0
        expected = {}
        for i, word in enumerate(words):
            edits, new = aligned(word, o) if abs(len(word) - len(o)) <= 2 else (9, 9)
            if edits == 0 or (edits <= most and signs_of_words(word)):
                expected[i] = edits * np.log(0.1) - new * log_letters
                n_edited += edits > 0
        ids, factor = bound.candidates(o)
        assert ids.tolist() == list(expected)
        np.testing.assert_allclose(factor, list(expected.values()), atol=1e-12)
    assert (n_edited > 20) == (limit > 0)


P_SIGNS = [0.2, 0.2, 0.2, 0.2, 0.1, 0.05, 0.03, 0.02]


@pytest.mark.parametrize(
    "typed, edits, new",
    [("teh", 1, 0), ("thhe", 1, 0), ("he", None, None), ("thr", 1, 1), ("thxe", 1, 1)],
)
def test_slips(typed, edits, new):
    bound = EditDistanceChannel(0.01).bind(["the"])
    ids, factor = bound.candidates(typed)
    assert len(ids) == (edits is not None)
    if len(ids):
        expected = edits * np.log(0.01) - new * np.log(
            3
        )  # three letters, equally common
        assert factor[0] == pytest.approx(expected)


def test_only_words_of_letters_are_edited():
    words = [
        "1",
        "12",
        "123456",
        "...",
        "!?",
        "a",
        "I",
        "x.y.z.w",
        "don't",
        "of",
        "3rd",
    ]
    bound = EditDistanceChannel().bind(words)
    for o in ["2", "13", "123457", "..,", "!!", "b", "i", "x.y.z.v", "on", "2rd"]:
        assert bound.candidates(o)[0].tolist() == []
    for i, word in enumerate(words):
        assert bound.candidates(word)[0].tolist() == [i]
    assert bound.candidates("dont")[0].tolist() == [words.index("don't")]


def test_spelling_of_unknown_words():
    words = ["cat", "cart", "act", "tact", "", "rat", "cat's"]
    bound = EditDistanceChannel().bind(words)
    # Another way: sentences of letters, in which a new letter is the unknown word.
    model = LanguageModel(KneserNeyLM(discount=(0.5, 1, 1.5)), max_depth=5)
    model.fit([list(word) for word in words])
    for o in ["cat", "tac", "", "zz", "caz", "rats", "\U0001f600"]:
        expected = np.sum(model.token_log_proba([list(o)])[0])
        assert bound.log_unknown(o) == pytest.approx(expected, rel=1e-9)
    assert np.isfinite(EditDistanceChannel().bind([""]).log_unknown("a"))


TEXT = [
    "the dog ran home",
    "the fog came in",
    "the dog sat in the fog",
    "a cat sat on the dog",
] * 3


def test_a_decoder_does_not_train_a_fitted_model_again(tmp_path):
    channel, path = KeypadChannel(), tmp_path / "model.arpa"
    trained = LanguageModel(KneserNeyLM(discount="single"), max_depth=3).fit(TEXT)
    trained.save(path)
    model = LanguageModel.load(path)
    for text in (TEXT[:1], None):
        with pytest.raises(ValueError, match="read from a file.*FrozenEstimator"):
            NoisyChannelDecoder(model, channel).fit(text)
        with pytest.raises(ValueError, match="read from a file.*FrozenEstimator"):
            NoisyChannelDecoder(clone(model), channel).fit(text)
        decoder = NoisyChannelDecoder(FrozenEstimator(model), channel).fit(text)
        assert decoder.transition_model_ is model.backoff_model_
    with pytest.raises(ValueError, match="X is None.*fitted already"):
        NoisyChannelDecoder(trained, channel).fit()
    other = LanguageModel(GaussianNB(), max_depth=1)
    with pytest.raises(TypeError, match=r"GaussianNB.*back-off model; use .*'fast'"):
        NoisyChannelDecoder(other, channel).fit(TEXT)


@pytest.mark.parametrize("solver", ["auto", "refine"])
def test_decoder(solver):
    channel = KeypadChannel()
    model = LanguageModel(KneserNeyLM(discount="single"), max_depth=3)
    decoder = NoisyChannelDecoder(model, channel).fit(TEXT)
    clean = [line.split() for line in TEXT[:4]]
    keys = [[channel.encode(w) for w in line] for line in clean]
    with only(solver):
        assert decoder.predict(keys) == clean
    assert decoder.score(keys, clean) == 1.0
    rows = decoder.predict_proba(keys[:1])[0]
    assert [words[0] for words, _ in rows] == clean[0]
    np.testing.assert_allclose([p.sum() for _, p in rows], 1.0)
    # A word as long as none in the vocabulary stays as it is: the unknown word.
    assert decoder.predict([["843", "22222222"]])[0] == ["the", "22222222"]
    few = clone(decoder).set_params(n_candidates=1).fit(TEXT).decode(keys)
    assert few.approximate.all() and not decoder.decode(keys).approximate.any()
    ready = NoisyChannelDecoder(decoder.transition_model_, channel).fit()
    assert ready.predict(keys) == clean
    assert ready.predict([[None, "364"]]) == decoder.predict([[None, "364"]])
    again = pickle.loads(pickle.dumps(decoder))
    assert again.predict(keys) == clean
    assert cross_val_score(decoder, keys * 3, clean * 3, cv=3).mean() > 0.5


class Answering:
    """A channel whose answer is given: what a user's own may get wrong."""

    def __init__(self, answer):
        self.answer = answer

    def bind(self, words):
        return self

    def candidates(self, observation):
        return self.answer


MALFORMED = [
    (None, r"must give a pair \(ids, log-factors\), got NoneType"),
    (([0, 1, 2], []), "log-factors must have 3 entries"),
    (([0], [0.0, 0.0]), "log-factors must have 1 entries"),
    (([0, -1], [0.0, 0.0]), r"ids\[1\] = -1 is not a candidate"),
    (([10**6], [0.0]), r"ids\[0\] = 1000000 is not a candidate"),
    (([10**12], [0.0]), "ids holds 1000000000000"),
    (([1, 0, 1], [0.0, 0.0, 0.0]), "ids must differ, got 1 more than once"),
    (([0.0], [0.0]), "ids must hold integers"),
    (([[0]], [0.0]), "ids must be a 1-dimensional array"),
    (([0], [[0.0]]), "log-factors must be a 1-dimensional array"),
    (([0], ["a"]), "log-factors must hold numbers"),
    (([0, 1], [0.0, np.nan]), "log-factors must be finite or -inf"),
    (([0, 1], [-np.inf, np.inf]), "log-factors must be finite or -inf"),
]


@pytest.mark.parametrize("answer, message", MALFORMED, ids=[str(i) for i in range(13)])
def test_wrong_candidates_of_a_channel(answer, message):
    model = LanguageModel(AdditiveLM(), max_depth=1).fit(TEXT).backoff_model_
    decoder = NoisyChannelDecoder(model, Answering(answer)).fit()
    for method in (decoder.predict, decoder.sample_posterior, decoder.predict_proba):
        with pytest.raises(ValueError, match=f"channel: candidates of 'x': {message}"):
            method([["x", "x"]])


@pytest.mark.parametrize("answer, message", MALFORMED, ids=[str(i) for i in range(13)])
def test_wrong_candidates_of_an_emission(answer, message):
    class Own(CategoricalEmission):
        def candidates(self, X):
            other = np.arange(2, dtype=np.int32), np.zeros(2)
            return [[answer if o == "b" else other for o in x] for x in X]

    tagger = HighOrderHMM(2, emission=Own()).fit([["a", "b"]], [["A", "B"]])
    assert len(tagger.predict([["a", "a"]])[0]) == 2
    if answer is not None:  # None is the row of a missing observation
        with pytest.raises(ValueError, match=f"emission: candidates of 'b': {message}"):
            tagger.predict([["a", "a"], ["b", "a"]])


def test_candidates_in_any_order():
    ids, factor = np.array([2, 0, 1]), np.array([0.0, -1.0, -np.inf])
    model = LanguageModel(AdditiveLM(), max_depth=1).fit(TEXT).backoff_model_
    order = np.argsort(ids)
    one, other = (
        NoisyChannelDecoder(model, Answering(answer)).fit()
        for answer in [(ids, factor), (ids[order], factor[order])]
    )
    X = [["x", "y", None, "x"]]
    np.testing.assert_allclose(one.log_likelihood(X), other.log_likelihood(X))
    assert one.predict(X)[0] == other.predict(X)[0]


@pytest.mark.parametrize(
    "answer, message",
    [
        (lambda n: np.zeros((n, 3)), r"shape \(2, 3\) for 2 observations and 2 labels"),
        (lambda n: np.zeros((n - 1, 2)), r"shape \(1, 2\) for 2 observations"),
        (lambda n: np.zeros(n), "must be a 2-dimensional array"),
        (lambda n: np.full((n, 2), "x", dtype=object), "must hold numbers"),
        (lambda n: np.full((n, 2), np.nan), "NaN or infinite"),
        (lambda n: np.full((n, 2), np.inf), "NaN or infinite"),
    ],
)
def test_wrong_probabilities_of_a_classifier(answer, message):
    class Own(MultinomialNB):
        def predict_log_proba(self, X):
            return answer(len(X))

    tagger = HighOrderHMM(2, emission=Own()).fit([[[1, 0], [0, 1]]], [["A", "B"]])
    with pytest.raises(ValueError, match=f"emission: .*{message}"):
        tagger.predict([[[1, 0], [0, 1]]])


@pytest.mark.parametrize("weight", [1.0, 0.5])
@pytest.mark.parametrize("unknown", ["<unk>", None])
def test_an_unknown_word_by_hand(unknown, weight):
    """log P(words) + log-factors of every possible sentence, one by one."""
    model = LanguageModel(AdditiveLM(delta=0.1), max_depth=2, unknown=unknown)
    channel = EditDistanceChannel(0.01)
    decoder = NoisyChannelDecoder(model, channel, transition_weight=weight).fit(TEXT)
    words = decoder.classes_.tolist()
    assert set(words) == {word for line in TEXT for word in line.split()}
    lm, bound = decoder.transition_model_, channel.bind(words)
    labels, scored = lm.labels, LanguageModel.from_backoff(lm)
    observed = ["teh", "dxg", "sta", "12", "home"]
    share = min(0.5, 10 / np.sqrt(len(words)))
    empty = lm.rows(np.zeros(1, dtype=np.int32))[0]
    choices = []
    for o in observed:
        ids, factor = bound.candidates(o)
        some = [(words[i], f) for i, f in zip(ids, factor)]
        if o not in words:
            own = bound.log_unknown(o)
            own += weight * (np.log(share) - empty[labels.unknown_id])
            some.append((None, own))
        choices.append(some)
    assert [len(some) for some in choices] == [2, 2, 2, 1, 1]
    best, total = (-np.inf, None), -np.inf
    for path in itertools.product(*choices):
        said = [labels.unknown if word is None else word for word, _ in path]
        value = weight * scored.score_samples([said])[0]
        value += sum(f for _, f in path)
        answer = [o if word is None else word for o, (word, _) in zip(observed, path)]
        best, total = max(best, (value, answer)), np.logaddexp(total, value)
    found = decoder.decode([observed])
    assert found.log_proba[0] == pytest.approx(best[0], rel=1e-9)
    assert found.labels[0].tolist() == best[1]
    assert decoder.log_likelihood([observed])[0] == pytest.approx(total, rel=1e-9)


@pytest.mark.parametrize("solver", ["auto", "refine"])
def test_decoder_without_unknown_word(solver):
    model = LanguageModel(AdditiveLM(delta=0.1), max_depth=2, unknown=None)
    channel = EditDistanceChannel()
    decoder = NoisyChannelDecoder(model, channel).fit(TEXT)
    with only(solver):
        decoding = decoder.decode([["teh", "dgo"], ["the", "zzzzzzzzz", "fgo"], []])
    assert decoding.labels[0].tolist() == ["the", "dog"]
    assert decoding.labels[1].tolist() == ["the", "zzzzzzzzz", "fog"]
    assert np.isfinite(decoding.log_proba).all()
    with pytest.raises(ValueError, match="X is None"):
        NoisyChannelDecoder(model, EditDistanceChannel()).fit()
    with pytest.raises(ValueError, match="'n_candidates' parameter"):
        NoisyChannelDecoder(model, EditDistanceChannel(), n_candidates=0).fit(TEXT)


def test_a_fit_that_fails_leaves_the_corrector_as_it_was():
    decoder = NoisyChannelDecoder(
        LanguageModel(KneserNeyLM(), max_depth=1), EditDistanceChannel()
    ).fit(TEXT)
    before = dict(vars(decoder))

    class Refusing(EditDistanceChannel):
        def bind(self, words):
            raise RuntimeError("no words")

    with pytest.raises(RuntimeError, match="no words"):
        decoder.set_params(channel=Refusing()).fit(["new words"] * 3)
    changed = {k for k, v in vars(decoder).items() if before.get(k) is not v}
    assert changed == {"channel"} and vars(decoder).keys() == before.keys()


def test_a_corrector_of_words_refuses_a_model_of_characters():
    for unknown in (None, "<unk>"):
        model = LanguageModel(
            WittenBellLM(), max_depth=2, analyzer="char", unknown=unknown
        ).fit(TEXT)
        model = FrozenEstimator(model)
        for width in (None, 3):
            decoder = NoisyChannelDecoder(
                model, EditDistanceChannel(), beam_width=width
            )
            with pytest.raises(ValueError, match="language_model is a model of char"):
                decoder.fit()
    keys = NoisyChannelDecoder(model, KeypadChannel()).fit()
    assert len(keys.predict([["8", "4", "3"]])[0]) == 3


def test_decoder_of_a_file_without_an_unknown_word(tmp_path):
    path = tmp_path / "closed.arpa"
    LanguageModel(WittenBellLM(), max_depth=1, unknown=None).fit(TEXT).save(path)
    text = path.read_text()
    n_words = len({word for line in TEXT for word in line.split()}) + 2
    head = f"ngram 1={n_words}\n"
    assert head in text and "<unk>" not in text
    # Other programs list an unknown word whose probability is 0.
    listed = text.replace(head, f"ngram 1={n_words + 1}\n")
    listed = listed.replace("\\1-grams:\n", "\\1-grams:\n-99\t<unk>\n")
    for content in (text, listed):
        path.write_text(content)
        model = FrozenEstimator(LanguageModel.load(path))
        decoder = NoisyChannelDecoder(model, EditDistanceChannel()).fit()
        found = decoder.predict([["teh", "qqqqqqq", "dgo", "12"]])
        assert found == [["the", "qqqqqqq", "dog", "12"]]


def test_an_impossible_unknown_word_becomes_possible():
    model = LanguageModel(AdditiveLM(), max_depth=1).fit(TEXT).backoff_model_
    log_prob = model.log_prob.copy()
    log_prob[model.labels.unknown_id] = -np.inf
    model = BackoffModel(model.pairs, log_prob, model.log_backoff, model.labels)
    decoder = NoisyChannelDecoder(model, EditDistanceChannel()).fit()
    assert decoder.predict([["the", "zzzzzzzzz"]]) == [["the", "zzzzzzzzz"]]


def test_a_corrector_keeps_a_sentence_of_other_words():
    decoder = NoisyChannelDecoder(LanguageModel(KneserNeyLM()), EditDistanceChannel())
    decoder.fit(load_python_topics())
    right = [
        "please send the invoice to berlin",
        "python 3 is great ( really )",
        "my name is kessler and i have 3 dogs",
    ]
    assert decoder.predict([s.split() for s in right]) == [s.split() for s in right]
    typed = "teh valeu of the expresion is returnd"
    assert " ".join(decoder.predict([typed.split()])[0]) == (
        "the value of the expression is returned"
    )


@pytest.mark.parametrize("answer", [np.nan, np.inf])
def test_log_unknown_of_a_channel_is_checked(answer):
    class Own(Answering):
        def log_unknown(self, observation):
            return answer

    model = LanguageModel(AdditiveLM(), max_depth=1).fit(TEXT).backoff_model_
    decoder = NoisyChannelDecoder(model, Own(([0], [0.0]))).fit()
    with pytest.raises(ValueError, match="channel: log_unknown of 'x' must be finite"):
        decoder.predict([["x"]])


def test_bounds_of_histories_that_are_all_stored():
    """Only then can every longer history lower a probability: no end is in any."""
    before = ["a", "U", "S"]
    contexts = np.array(
        [(x, y) for x in before for y in before if y != "S" or x == "S"]
    )
    targets = np.resize(["a", "E", "U"], len(contexts))
    model = AdditiveLM(delta=0.1).fit(contexts, targets).backoff_model_
    log_backoff = np.append(0.0, np.full(model.n_nodes - 1, -0.5))
    # The end is a context symbol too, as in files of n-grams.
    labels = Labels(
        model.labels.classes, [*model.labels.symbols.tolist(), "E"],
        start="S", end="E", unknown="U",
    )  # fmt: skip
    tree = ContextTree(model.tree.parent, model.tree.symbol, len(labels.symbols))
    pairs = pairs_of_arrays(
        tree, model.pairs.ptr, model.pairs.target, model.pairs.parent
    )
    model = BackoffModel(pairs, model.log_prob, log_backoff, labels)
    automaton = ContextAutomaton(model)
    node = int(model.locate(labels.encode_contexts(np.array([["a"]], dtype=object)))[0])
    # mbow(a) is the largest bow(v a), as each v there can be is stored.
    assert automaton.max_backoff[node] == pytest.approx(-0.5)


def test_the_smoothing_learns_from_ids():
    X, y = toy()
    model = HighOrderHMM(3, smoothing=KneserNeyLM(discount=0.5)).fit(X, y)
    assert model.transition_model_.labels.classes.tolist() == [
        *model.classes_.tolist(), "</s>"
    ]  # fmt: skip
    with pytest.raises(ValueError, match="classes of KneserNeyLM must be None"):
        HighOrderHMM(3, smoothing=KneserNeyLM(classes=[0, 1])).fit(X, y)


def test_lattice_display():
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    from sklstruct.plotting import LatticeDisplay

    X, y = toy()
    tagger = HighOrderHMM(4, emission=CategoricalEmission(floor=0.02)).fit(X, y)
    x = max(X, key=len)
    display = LatticeDisplay.from_estimator(tagger, x)
    assert len(display.states) == len(x) + 2 == len(display.pruned)
    assert (display.pruned <= display.states).all() and display.states[0] == 1
    assert list(display.labels) == tagger.predict([x])[0]
    ticks = display.ax_.get_xticklabels()  # names, which may hold dollar signs
    assert not any(text.get_parse_math() for text in ticks)
    drawn = [line.get_ydata() for line in display.ax_.lines]
    np.testing.assert_array_equal(drawn[0], display.states)
    np.testing.assert_array_equal(drawn[1], display.pruned)
    log_q, log_p, _ = np.array(display.trace).T
    assert (np.diff(log_q) <= 1e-9).all()
    assert log_q[-1] == pytest.approx(log_p.max(), abs=1e-9)
    assert len(display.plot_bound().ax_.lines) == 2
    matplotlib.pyplot.close("all")


@pytest.mark.parametrize("wrong", [np.array([-7]), np.array([10**8]), np.empty(0, int)])
def test_pickle_with_other_classes_is_refused(wrong):
    lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2)
    decoder = NoisyChannelDecoder(lm, EditDistanceChannel()).fit(["the cat", "a dog"])
    hmm = HighOrderHMM(order=2).fit([["the", "cat"]], [["D", "N"]])
    for model in (decoder, hmm):
        n = model._class_of_label.size
        model._class_of_label = np.resize(wrong, n if wrong.size else 0)
        with pytest.raises(ValueError, match="_class_of_label"):
            pickle.loads(pickle.dumps(model))
    decoder = NoisyChannelDecoder(lm, EditDistanceChannel()).fit(["the cat", "a dog"])
    decoder._bound.ptr = decoder._bound.ptr[:1]
    with pytest.raises(ValueError, match="the words"):
        pickle.loads(pickle.dumps(decoder))


def test_posterior_decoding_has_the_largest_expected_accuracy():
    X, y = toy(60, seed=3)
    tagger = HighOrderHMM(2, emission=CategoricalEmission(floor=0.1)).fit(X, y)
    by_position = clone(tagger).set_params(decoding="posterior").fit(X, y)
    expected = {}
    for model in (tagger, by_position):
        rows = model.predict_proba(X)
        ids = [np.searchsorted(model.classes_, labels) for labels in model.predict(X)]
        shares = [p[np.arange(len(p)), i] for p, i in zip(rows, ids)]
        expected[model.decoding] = np.concatenate(shares).mean()
        best = np.concatenate([p.max(axis=1) for p in rows]).mean()
    assert expected["posterior"] == pytest.approx(best)
    assert expected["path"] < expected["posterior"]
    assert by_position.score(X, y) > 0.5
    known = [[row[0]] + [None] * (len(row) - 1) for row in y]
    found = by_position.predict(X, given=known)
    assert [row[0] for row in found] == [row[0] for row in y]
    with pytest.raises(ValueError, match="'decoding' parameter"):
        HighOrderHMM(decoding="viterbi").fit(X, y)


@pytest.mark.parametrize("error", [KeyboardInterrupt, ValueError])
@pytest.mark.parametrize("place", ["Factors.of_labels", "maximise"])
def test_a_fit_that_does_not_end_leaves_the_model_before(place, error, monkeypatch):
    def stop(*given, **options):
        raise error

    X, last = [[1.0, 2.0, 8.0, 9.0]], None if place == "maximise" else "c"
    model = HighOrderHMM(2, emission="gaussian")
    failing = [[5.0, 6.0, 7.0]], [["0", "a", last]]
    with monkeypatch.context() as patch:
        patch.setattr(f"sklstruct.hmm._hmm.{place}", stop)
        with pytest.raises(error):
            model.fit(*failing)
        with pytest.raises(NotFittedError):
            model.predict(X)
    model.fit(X, [["a", "a", "b", "b"]])
    before = dict(vars(model))
    with monkeypatch.context() as patch:
        patch.setattr(f"sklstruct.hmm._hmm.{place}", stop)
        with pytest.raises(error):
            model.fit(*failing)
    assert vars(model) == before
    assert model.predict(X) == [["a", "a", "b", "b"]]


@pytest.mark.parametrize("classes", [10**30, 10**6 + 1])
def test_too_many_classes_are_refused_before_they_are_made(classes):
    model = HighOrderHMM(2, emission="gaussian", classes=classes)
    with pytest.raises(InvalidParameterError, match="'classes'.*1000000"):
        model.fit([[1.0, 2.0]], [[0, 1]])


def test_a_drawn_label_without_observations_is_named():
    model = HighOrderHMM(
        2, emission="poisson", classes=2, smoothing=AdditiveLM(delta=0.3), end=False
    ).fit([[3, 2]], [[0, 0]])
    with pytest.raises(ValueError, match="^classes: label number 1 was drawn"):
        model.sample(50, random_state=0)


def test_a_bound_of_states_may_be_any_integer():
    X, y = [["a"]], [["N"]]
    for one in (True, np.int8(1)):
        model = HighOrderHMM(2, emission="categorical", max_states=one).fit(X, y)
        with pytest.raises(LatticeTooLargeError, match="^max_states=1 is too small"):
            model.predict_proba(X)


def test_words_that_lower_lengthens_are_found():
    channel = KeypadChannel()
    assert channel.encode("İstanbul") == "*7826285"
    ids, log_factor = channel.bind(["Istanbul", "İstanbul"]).candidates("*7826285")
    assert ids[log_factor.argmax()] == 1


def test_keypad_of_what_is_not_valid():
    for word in (3, None):
        with pytest.raises(TypeError, match=f"word must be a string, got {word}"):
            KeypadChannel().encode(word)
    with pytest.raises(ValueError, match="'k' parameter of KeypadChannel"):
        KeypadChannel(k=-1).corrupt("cat")


def test_equal_observations_that_are_spelt_differently():
    model = LanguageModel(WittenBellLM()).fit(["the cat"] * 5)
    decoder = NoisyChannelDecoder(FrozenEstimator(model), KeypadChannel()).fit()
    for X in ([[843.0]], [[843], [843.0]]):
        with pytest.raises(ValueError, match="X holds '843.0'"):
            decoder.predict(X)
    with pytest.raises(TypeError, match=r"X\[1\]\[0\] must be hashable, such as a st"):
        decoder.predict([["843"], [["a", "b"]]])
    words = [["1", "a", "1.0", "b", "22", "c", "2.0", "d"]]
    emission = SuffixEmission().fit(words, [np.array([0, 2, 1, 2, 0, 2, 1, 2])], 3)
    together = emission.candidates([[3, 3.0, True, 1]])[0]
    for o, row in zip((3, 3.0, True, 1), together):
        np.testing.assert_array_equal(row, emission.candidates([[o]])[0][0])
    assert together[0][1].tolist() != together[1][1].tolist()
