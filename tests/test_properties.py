"""Invariants of every estimator that learns, on data that hypothesis draws.

The data are small and odd: empty sentences, one class, repeated rows, constant columns.
A fit may refuse them with a `ValueError`; a fitted model gives valid answers.
"""

import os
import pickle
import warnings

import numpy as np
import pytest
from _fitted import fitted
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from sklstruct import KneserNeyLM, LanguageModel, StructuredLogLinearLM
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import PrunedKneserNeyLM
from sklstruct.symbols import TextFile
from sklstruct.word_classes import ContextRefiner, ExchangeClustering

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

# Few data give warnings of discounts and of convergence.
pytestmark = pytest.mark.filterwarnings("ignore")

FITTED = fitted()
KINDS = {name: entry[1] for name, entry in FITTED.items()}


def of_kind(*kinds):
    return [name for name, kind in KINDS.items() if kind in kinds]


def runs(**arguments):
    """A test over drawn data: the same few examples every time.

    SKLSTRUCT_EXAMPLES: the number of new examples to draw; a failing one is made small.
    """
    number = int(os.environ.get("SKLSTRUCT_EXAMPLES", "0"))
    phases = [hypothesis.Phase.explicit, hypothesis.Phase.generate]
    settings = hypothesis.settings(
        max_examples=number or 6, deadline=None, derandomize=not number,
        suppress_health_check=list(hypothesis.HealthCheck), database=None,
        phases=list(hypothesis.Phase) if number else phases,
    )  # fmt: skip
    return lambda test: settings(hypothesis.given(**arguments)(test))


# ------------------------------------------------------------------------ data

WORD = st.sampled_from("abcde")
SENTENCES = st.lists(
    st.lists(WORD, max_size=6).map(" ".join), min_size=1, max_size=12
).filter(lambda text: any(line for line in text))


@st.composite
def windows(draw):
    n = draw(st.integers(1, 25))
    rows = st.lists(st.integers(0, 3), min_size=3, max_size=3)
    X = np.array(draw(st.lists(rows, min_size=n, max_size=n)))
    y = np.array(draw(st.lists(st.sampled_from("vwxyz"), min_size=n, max_size=n)))
    return X, y


@st.composite
def features(draw):
    """Numbers of all sizes and columns that are constant, and at least two classes."""
    n = draw(st.integers(4, 25))
    number = st.floats(-1e3, 1e3, width=32) | st.sampled_from([0.0, 1.0])
    rows = st.lists(number, min_size=3, max_size=3)
    X = np.array(draw(st.lists(rows, min_size=n, max_size=n)))
    X[:, 0] = X[0, 0]
    y = np.array(draw(st.lists(st.sampled_from("vwxyz"), min_size=n, max_size=n)))
    y[:2] = "v", "w"
    return X, y


def estimator_of(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(FITTED[name][0]())


def fit(model, *data, **options):
    """The fitted model; an example whose data are refused does not count."""
    try:
        return model.fit(*data, **options)
    except ValueError as exc:
        assert str(exc)
        hypothesis.reject()


def question(model, X):
    for name in ("predict_proba", "transform", "predict"):
        if hasattr(model, name):
            return getattr(model, name)(X)
    return None


def check_rows(proba):
    proba = np.asarray(proba)
    assert np.isfinite(proba).all() and (proba >= 0).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0, rtol=0, atol=1e-9)


def check_twins(a, b):
    if hasattr(a, "toarray"):
        a, b = a.toarray(), b.toarray()
    np.testing.assert_array_equal(a, b)


# --------------------------------------------------------------------- contexts

ROWS = of_kind("rows")
OF_WINDOWS = [n for n in ROWS if np.shape(FITTED[n][2])[1:] == (3,)]
OF_FEATURES = [
    name
    for name in ROWS
    if name not in OF_WINDOWS
    and FITTED[name][3] is not None
    and np.ndim(FITTED[name][3]) == 1
    and "paths" not in name
    and name != "hierarchical in batches"
    and "of estimators" not in name  # slow: scikit-learn's estimators at the nodes
]
MODELS = [n for n in OF_WINDOWS if hasattr(estimator_of(n), "predict_proba")]
# Their fits depend on the order of the samples: the last ones are held out, or they are
# read one after the other.
ORDERED = {"StructuredLogLinearLMCV", "MixtureLM", "KatzLM", "JelinekMercerLM"}


def samples_for(name, data):
    return data.draw(windows() if name in OF_WINDOWS else features())


@pytest.mark.parametrize("name", OF_WINDOWS + OF_FEATURES)
@runs(data=st.data())
def test_a_fit_answers_and_is_the_same_again(name, data):
    X, y = samples_for(name, data)
    model = fit(estimator_of(name), X, y)
    answer = question(model, X)
    if hasattr(model, "predict_proba"):
        check_rows(answer)
        assert set(model.predict(X)) <= set(y)
    check_twins(question(pickle.loads(pickle.dumps(model)), X), answer)
    check_twins(question(clone(model).fit(X, y), X), answer)


@pytest.mark.parametrize("name", [n for n in MODELS if n not in ORDERED])
@runs(data=st.data())
def test_models_of_contexts_know_counts_alone(name, data):
    X, y = data.draw(windows())
    model = estimator_of(name)
    if "tol" in model.get_params():
        model.set_params(tol=1e-8)
    if "max_iter" in model.get_params() and name != "JointLogLinear":
        model.set_params(max_iter=5_000)
    expected = fit(model, X, y).predict_log_proba(X)
    error = 1e-6 if "tol" in model.get_params() else 1e-9
    error = 1e-3 if name == "JointLogLinear" else error  # scores in single precision
    close = {"rtol": error, "atol": error}

    order = np.array(data.draw(st.permutations(range(len(y)))))
    shuffled = clone(model).fit(X[order], y[order])
    np.testing.assert_allclose(shuffled.predict_log_proba(X), expected, **close)

    # Another order of the symbols and of the classes.
    symbol = np.array(data.draw(st.permutations(range(4))))
    label = dict(zip("vwxyz", data.draw(st.permutations("vwxyz"))))
    renamed = clone(model).fit(symbol[X], np.array([label[c] for c in y]))
    there = renamed.predict_log_proba(symbol[X])
    at = np.searchsorted(renamed.classes_, [label[c] for c in np.unique(y)])
    if name not in ("FactoredLM", "GrownLM"):  # their choices may be ties
        np.testing.assert_allclose(there[:, at], expected, **close)

    if "sample_weight" in model.fit.__code__.co_varnames:
        twice = np.concatenate([X, X]), np.concatenate([y, y])
        repeated = fit(clone(model), *twice).predict_log_proba(X)
        weighted = clone(model).fit(X, y, sample_weight=np.full(len(y), 2.0))
        np.testing.assert_allclose(weighted.predict_log_proba(X), repeated, **close)


# ---------------------------------------------------------------------- sentences

WORDS = of_kind("sentences")
UNTAUGHT = ("DaskLanguageModel", "words counted in batches")  # fitted by other methods
TAUGHT = [n for n in WORDS if n not in UNTAUGHT]


@pytest.mark.parametrize("name", TAUGHT)
@runs(text=SENTENCES)
def test_language_models_answer_and_are_the_same_again(name, text):
    model = fit(estimator_of(name), text)
    state = model.begin()
    for word in [*text[0].split(), "never seen"]:
        row = model.rows(state)
        assert np.isfinite(row).any() and not np.isnan(row).any()
        np.testing.assert_allclose(np.exp(row).sum(), 1.0, rtol=0, atol=1e-9)
        state = model.advance(state, word)[1]
    perplexity = model.perplexity(text)
    assert 1.0 <= perplexity < np.inf
    assert pickle.loads(pickle.dumps(model)).perplexity(text) == perplexity
    assert clone(model).fit(text).perplexity(text) == perplexity


@pytest.mark.parametrize(
    "estimator",
    [
        KneserNeyLM(discount=0.5),
        PrunedKneserNeyLM(discount=0.5, threshold=0.05),
        StructuredLogLinearLM(penalty="l2", tol=1e-8, max_iter=5_000),
        make_pipeline(
            ContextRefiner([(ExchangeClustering(2, random_state=0), 1), ("word", 1)]),
            KneserNeyLM(discount=0.5),
        ),
    ],
    ids=lambda e: type(e).__name__,
)
@runs(data=st.data())
def test_the_text_and_not_its_form(estimator, data, tmp_path_factory):
    """Order, repetition, lists, files and batches of the same sentences."""
    text = data.draw(SENTENCES)
    lm = LanguageModel(estimator, max_depth=2)
    expected = fit(lm, text).score_samples(text)
    close = {"rtol": 1e-6} if hasattr(estimator, "tol") else {"rtol": 1e-9}

    def same(model, factor=1.0):
        found = model.score_samples(text)
        np.testing.assert_allclose(found, expected, **close)

    same(clone(lm).fit([line.split() for line in text]))
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{line}\n" for line in text))
    same(clone(lm).fit(TextFile(path, skip_blank_lines=False)))
    clustered = not hasattr(estimator, "discount") and not hasattr(estimator, "tol")
    if not clustered:  # clusterings depend on the order of the sentences
        same(clone(lm).fit(data.draw(st.permutations(text))))
        same(clone(lm).fit(clone(lm).count(text)))
    if not clustered and not hasattr(estimator, "tol"):
        cut = data.draw(st.integers(1, len(text)))
        closed = clone(lm).set_params(vocabulary=list("abcde"))
        parts, whole = clone(closed), clone(closed).fit(text)
        for part in (text[:cut], text[cut:]):
            if part:
                parts.partial_fit(part)
        np.testing.assert_allclose(
            parts.score_samples(text), whole.score_samples(text), **close
        )


@runs(text=SENTENCES, weights=st.tuples(st.floats(0.1, 10), st.floats(0.1, 10)))
def test_mixtures_of_frozen_models_are_their_mean(text, weights):
    models = [
        fit(LanguageModel(kind, max_depth=2), text)
        for kind in (KneserNeyLM(discount=0.5), KneserNeyLM(discount=0.9))
    ]
    share = np.array(weights) / sum(weights)
    mixed = LanguageModel(
        MixtureLM(
            [(str(k), FrozenEstimator(m.estimator_)) for k, m in enumerate(models)],
            weights=list(share),
        ),
        max_depth=2,
    ).fit(text)
    parts = [np.exp(np.concatenate(m.token_log_proba(text))) for m in models]
    found = np.exp(np.concatenate(mixed.token_log_proba(text)))
    np.testing.assert_allclose(found, share @ np.array(parts), rtol=1e-9)


# ---------------------------------------------------------------------- sequences


@pytest.mark.parametrize("name", ["HighOrderHMM", "hmm of frequencies"])
@runs(
    data=st.data(),
    sequences=st.lists(st.lists(WORD, min_size=1, max_size=5), min_size=1, max_size=8),
)
def test_taggers_answer_and_are_the_same_again(name, data, sequences):
    tag = st.sampled_from("XYZ")
    tags = [
        data.draw(st.lists(tag, min_size=len(s), max_size=len(s))) for s in sequences
    ]
    model = fit(estimator_of(name), sequences, tags)
    asked = [*sequences, ["zebra"]]
    for proba in model.predict_proba(asked):
        check_rows(proba)
    best = model.predict(asked)
    assert {t for s in best for t in s} <= {t for s in tags for t in s}
    assert (model.log_likelihood(asked) <= 1e-9).all()
    again = clone(model).fit(sequences, tags)
    for other in (pickle.loads(pickle.dumps(model)), again):
        assert [list(s) for s in other.predict(asked)] == [list(s) for s in best]
