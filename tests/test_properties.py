"""Invariants of every estimator that learns, on data that hypothesis draws.

The data are small and odd: empty sentences, one class, repeated rows, constant columns.
A fit may refuse them with a `ValueError`; a fitted model gives valid answers.
"""

import functools
import os
import pickle
import warnings

import numpy as np
import pytest
from _families import public_estimators, smoothers
from _fitted import GROUPS, fitted
from _loglinear import loglinear
from _nodes import logistic
from sklearn.base import clone
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from sklstruct import (
    HierarchicalClassifier,
    KneserNeyLM,
    LanguageModel,
    StructuredLogLinearLM,
    SuffixTreeVectorizer,
)
from sklstruct.backoff import Counted
from sklstruct.distributed import DaskLanguageModel
from sklstruct.factor_graph import (
    ConditionalRandomField,
    FactorGraphVectorizer,
    SampleRankClassifier,
)
from sklstruct.hierarchical import GammaPrior, PerNodeC
from sklstruct.hmm import (
    ClassifierEmission,
    EditDistanceChannel,
    GaussianEmission,
    HighOrderHMM,
    KeypadChannel,
    NoisyChannelDecoder,
    PoissonEmission,
    SuffixEmission,
)
from sklstruct.language_model import PerplexityTransformer
from sklstruct.loglinear import PENALTIES, AutoSolver, Checkpoint
from sklstruct.loglinear._solvers import SOLVERS
from sklstruct.metrics import LikelihoodScorer
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import GrownLM, WittenBellLM
from sklstruct.symbols import TextFile
from sklstruct.taxonomy import (
    TAXONOMY_BUILDERS,
    RefinedTaxonomy,
    Taxonomy,
)
from sklstruct.text import NgramVectorizer, TextClassifier
from sklstruct.word_classes import (
    ContextRefiner,
    ExchangeClustering,
    TaxonomyClustering,
)

hypothesis = pytest.importorskip("hypothesis")
st = hypothesis.strategies

# Few data give warnings of discounts and of convergence.
pytestmark = pytest.mark.filterwarnings("ignore")

FITTED = fitted()
KINDS = {name: entry[1] for name, entry in FITTED.items()}


def part_models():
    """name -> a model with one of the parts that learn nothing by themselves."""
    found = {}
    for name, kind in PENALTIES.items():
        found[f"penalty {name}"] = StructuredLogLinearLM(penalty=kind())
    for name, kind in SOLVERS.items():
        fitting = (p() for p in PENALTIES.values() if kind().fits(p(), True))
        found[f"solver {name}"] = StructuredLogLinearLM(
            penalty=next(fitting), solver=kind()
        )
    builders = [kind(max_leaf=2) for kind in TAXONOMY_BUILDERS.values()]
    for builder in (*builders, RefinedTaxonomy(GROUPS)):
        found[f"builder {type(builder).__name__}"] = HierarchicalClassifier(
            builder, estimator=logistic(), random_state=0
        )
    for kind in (PerNodeC, GammaPrior):
        found[f"search {kind.__name__}"] = HierarchicalClassifier(
            estimator=kind(), random_state=0
        )
    return found


PARTS = part_models()


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
    rows = st.lists(number, min_size=4, max_size=4)
    X = np.array(draw(st.lists(rows, min_size=n, max_size=n)))
    X[:, 0] = X[0, 0]
    y = np.array(draw(st.lists(st.sampled_from("vwxyz"), min_size=n, max_size=n)))
    y[:2] = "v", "w"
    return X, y


@functools.cache
def model_of(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return PARTS[name] if name in PARTS else FITTED[name][0]()


def estimator_of(name):
    return clone(model_of(name))


def fit(model, *data, **options):
    """The fitted model; an example whose data are refused does not count."""
    try:
        return model.fit(*data, **options)
    except ValueError as exc:
        assert str(exc)
        hypothesis.reject()


def fit_part(model, text):
    """A batch that is refused, as one has too few counts, ends the example."""
    try:
        model.partial_fit(text)
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
    and "of paths" not in name
    and name != "hierarchical in batches"
    and "of estimators" not in name  # slow: scikit-learn's estimators at the nodes
]
MODELS = [n for n in OF_WINDOWS if hasattr(estimator_of(n), "predict_proba")]
for part in PARTS:
    of_windows = isinstance(PARTS[part], StructuredLogLinearLM)
    (OF_WINDOWS if of_windows else OF_FEATURES).append(part)
OF_PATHS = [name for name in ROWS if name.endswith("of paths")]
# Their fits depend on the order of the samples: the last ones are held out, or they are
# read one after the other.
ORDERED = {"StructuredLogLinearLMCV", "MixtureLM", "KatzLM", "JelinekMercerLM"}


def samples_for(name, data):
    X, y = data.draw(features() if name in OF_FEATURES else windows())
    if name in OF_PATHS:
        X = SuffixTreeVectorizer(max_depth=3).fit_transform(X)
    if "several labels" in name:
        y = np.stack([y < "x", y > "w", y == "z"], axis=1).astype(int)
    return X, y


@pytest.mark.parametrize("name", OF_WINDOWS + OF_PATHS + OF_FEATURES)
@runs(data=st.data())
def test_a_fit_answers_and_is_the_same_again(name, data):
    X, y = samples_for(name, data)
    model = fit(estimator_of(name), X, y)
    answer = question(model, X)
    if hasattr(model, "predict_proba") and "several labels" not in name:
        check_rows(answer)
    elif hasattr(model, "predict_proba"):
        assert (answer >= 0).all() and (answer <= 1).all()
    if hasattr(model, "predict"):
        known = {tuple(np.atleast_1d(row)) for row in y}
        if "several labels" in name:  # any set of the labels
            known = {tuple(map(int, f"{k:03b}")) for k in range(8)}
        assert {tuple(np.atleast_1d(row)) for row in model.predict(X)} <= known
    check_twins(question(pickle.loads(pickle.dumps(model)), X), answer)
    check_twins(question(clone(model).fit(X, y), X), answer)


@pytest.mark.parametrize("name", [n for n in MODELS if n not in ORDERED])
@runs(data=st.data())
def test_models_of_contexts_know_counts_alone(name, data):
    X, y = data.draw(windows())
    model = estimator_of(name)
    given = model.get_params()
    if "tol" in given:
        model.set_params(tol=1e-8)
    if "max_iter" in given:
        model.set_params(max_iter=5_000)
    if name == "JointLogLinear":
        model.set_params(solver=AutoSolver(tol=1e-8, max_iter=100))
    elif "solver" in given:
        model.set_params(solver=AutoSolver(tol=1e-8, max_iter=5_000))
    expected = fit(model, X, y).predict_log_proba(X)
    at = np.searchsorted(model.classes_, y)
    mean = expected[np.arange(len(y)), at].mean()
    assert LikelihoodScorer()(model, X, y) == pytest.approx(mean, rel=1e-9)
    error = 1e-6 if {"tol", "solver"} & given.keys() else 1e-9
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
UNTAUGHT = ("words counted in batches",)  # fitted by other methods
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
    if isinstance(model, LanguageModel) and hasattr(model, "backoff_model_"):
        again = LanguageModel.from_backoff(model.backoff_model_)
        assert again.perplexity(text) == pytest.approx(perplexity, rel=1e-12)
    assert pickle.loads(pickle.dumps(model)).perplexity(text) == perplexity
    assert clone(model).fit(text).perplexity(text) == perplexity


@pytest.mark.parametrize(
    "estimator",
    [
        *(s for s in smoothers() if type(s).__name__ not in ORDERED),
        KneserNeyLM(discount=0.5),
        GrownLM(lam=0.1),
        loglinear(penalty="l2", tol=1e-8, max_iter=5_000),
        make_pipeline(
            ContextRefiner([(ExchangeClustering(2, random_state=0), 1), ("word", 1)]),
            KneserNeyLM(discount=0.5),
        ),
    ],
    ids=lambda e: type(e).__name__,
)
@runs(data=st.data())
def test_the_text_and_not_its_form(estimator, data, tmp_path_factory):
    """Order, repetition, names, lists, files, batches, parts of the same sentences."""
    text = data.draw(SENTENCES)
    lm = LanguageModel(estimator, max_depth=2)
    expected = fit(lm, text).score_samples(text)
    iterates = hasattr(estimator, "tol") or hasattr(estimator, "solver")
    close = {"rtol": 1e-6} if iterates else {"rtol": 1e-9}

    def same(model, factor=1.0):
        found = model.score_samples(text)
        np.testing.assert_allclose(found, expected, **close)

    same(clone(lm).fit([line.split() for line in text]))
    path = tmp_path_factory.mktemp("text") / "text.txt"
    path.write_text("".join(f"{line}\n" for line in text))
    same(clone(lm).fit(TextFile(path, skip_blank_lines=False)))
    if hasattr(estimator, "steps"):
        return  # clusterings depend on the order of the sentences
    same(clone(lm).fit(data.draw(st.permutations(text))))
    same(clone(lm).fit(clone(lm).count(text)))
    again = fit(clone(lm), text, sample_weight=np.full(len(text), 2.0))
    twice = clone(lm).fit(text + text).score_samples(text)
    np.testing.assert_allclose(again.score_samples(text), twice, **close)
    if not isinstance(estimator, GrownLM):  # its choices may be ties
        names = str.maketrans("abcde", "".join(data.draw(st.permutations("abcde"))))
        renamed = [line.translate(names) for line in text]
        there = clone(lm).fit(renamed).score_samples(renamed)
        np.testing.assert_allclose(there, expected, **close)

    cut = data.draw(st.integers(1, len(text)))
    closed = clone(lm).set_params(vocabulary=list("abcde"))
    whole = fit(clone(closed), text).score_samples(text)
    parts = [part for part in (text[:cut], text[cut:]) if part]
    merged = Counted.merge([clone(closed).count(part) for part in parts])
    np.testing.assert_allclose(
        clone(closed).fit(merged).score_samples(text), whole, **close
    )
    if not iterates:
        batches = clone(closed)
        for part in parts:
            fit_part(batches, part)
        np.testing.assert_allclose(batches.score_samples(text), whole, **close)


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

SEQUENCES = st.lists(st.lists(WORD, min_size=1, max_size=5), min_size=1, max_size=8)
TAGGERS = {
    "HighOrderHMM": HighOrderHMM(3, emission="categorical"),
    # The steps of the default guess depend on the order of the labels.
    "hmm of spellings": HighOrderHMM(
        3,
        emission=SuffixEmission(
            guess=make_pipeline(CountVectorizer(analyzer="char"), MultinomialNB())
        ),
    ),
    "hmm of frequencies": estimator_of("hmm of frequencies"),
    "hmm of a classifier": HighOrderHMM(
        2, emission=ClassifierEmission(MultinomialNB())
    ),
    "field": ConditionalRandomField(0.3, tol=1e-8),
}


def asked_by(name, sequences):
    """The observations of a tagger, of words."""
    if name == "hmm of a classifier":
        return [np.eye(5)[["abcde".index(w) for w in row]] for row in sequences]
    if name == "field":
        return [[[f"word={w}"] for w in row] for row in sequences]
    return sequences


@pytest.mark.parametrize("name", TAGGERS)
@runs(data=st.data(), sequences=SEQUENCES)
def test_taggers_answer_and_are_the_same_again(name, data, sequences):
    tag = st.sampled_from("XYZ")
    tags = [
        data.draw(st.lists(tag, min_size=len(s), max_size=len(s))) for s in sequences
    ]
    X = asked_by(name, sequences)
    model = fit(clone(TAGGERS[name]), X, tags)
    asked = X if name == "hmm of a classifier" else [*X, *asked_by(name, [["zebra"]])]
    for proba in model.predict_proba(asked):
        check_rows(proba)
    best = [list(s) for s in model.predict(asked)]
    assert {t for s in best for t in s} <= {t for s in tags for t in s}
    for other in (pickle.loads(pickle.dumps(model)), clone(model).fit(X, tags)):
        assert [list(s) for s in other.predict(asked)] == best

    def likelihood(model, tags):
        if name == "field":
            return model.target_log_proba(X, tags)
        return model.log_likelihood(asked)

    expected = likelihood(model, tags)
    close = {"rtol": 1e-9, "atol": 1e-9} if name != "field" else {"atol": 1e-4}
    if name in ("hmm of frequencies", "field"):  # others: up to the words' own factors
        assert (expected <= 1e-9).all()
    order = data.draw(st.permutations(range(len(X))))
    shuffled = fit(clone(model), [X[i] for i in order], [tags[i] for i in order])
    np.testing.assert_allclose(likelihood(shuffled, tags), expected, **close)
    names = dict(zip("XYZ", data.draw(st.permutations("XYZ"))))
    renamed = [[names[t] for t in row] for row in tags]
    there = likelihood(fit(clone(model), X, renamed), renamed)
    np.testing.assert_allclose(there, expected, **close)


@pytest.mark.parametrize(
    "channel", [EditDistanceChannel(), KeypadChannel()], ids=lambda c: type(c).__name__
)
@runs(text=SENTENCES, asked=SEQUENCES)
def test_decoders_answer_and_are_the_same_again(channel, text, asked):
    language = LanguageModel(WittenBellLM(), max_depth=2)
    model = fit(NoisyChannelDecoder(language, channel), text)
    if isinstance(channel, KeypadChannel):  # the keys of the words
        asked = [["23"["def".count(w)] for w in row] for row in asked]
    found = model.predict(asked)
    assert [len(row) for row in found] == [len(row) for row in asked]
    for row in model.predict_proba(asked):
        for words, proba in row:
            assert len(set(words)) == len(words)
            check_rows([proba])
    for other in (pickle.loads(pickle.dumps(model)), clone(model).fit(text)):
        assert other.predict(asked) == found


@st.composite
def instances(draw):
    """Variables with features, in chains or with any pairs as edges; and states."""
    any_pairs = draw(st.booleans())
    X, y = [], []
    for words in draw(SEQUENCES):
        n = len(words)
        edges = [(i, i + 1, "next") for i in range(n - 1)]
        if any_pairs:
            pairs = [(i, j, "pair") for j in range(n) for i in range(j)]
            edges = [pair for pair in pairs if draw(st.booleans())]
        variables = [
            {"candidates": ["n", "v"], "features": {"word": word}} for word in words
        ]
        X.append({"variables": variables, "edges": edges})
        y.append(draw(st.lists(st.sampled_from("nv"), min_size=n, max_size=n)))
    return X, y


@pytest.mark.parametrize(
    "estimator",
    [SampleRankClassifier(random_state=0, epochs=2), ConditionalRandomField(0.3)],
    ids=lambda e: type(e).__name__,
)
@runs(drawn=instances())
def test_graph_models_answer_and_are_the_same_again(estimator, drawn):
    X, y = drawn
    vectorizer = fit(FactorGraphVectorizer(), X)
    graphs = vectorizer.transform(X)
    model = fit(clone(estimator), graphs, y)
    found = [list(row) for row in model.predict(graphs)]
    assert [len(row) for row in found] == [len(row) for row in y]
    assert {state for row in found for state in row} <= set("nv")
    proba = "predict_proba" if hasattr(model, "predict_proba") else "predict_marginals"
    for rows in getattr(model, proba)(graphs):
        check_rows(rows)
    again = pickle.loads(pickle.dumps(vectorizer)).transform(X)
    for other in (pickle.loads(pickle.dumps(model)), clone(model).fit(again, y)):
        assert [list(row) for row in other.predict(again)] == found


# ------------------------------------------------------- groups of words, documents

WORD_TREE = Taxonomy.from_nested([["a", "b"], ["c", ["d", "e"]]])
CLUSTERINGS = [ExchangeClustering(2, random_state=0), TaxonomyClustering(WORD_TREE)]


@pytest.mark.parametrize("estimator", CLUSTERINGS, ids=lambda e: type(e).__name__)
@runs(text=SENTENCES)
def test_clusterings_answer_and_are_the_same_again(estimator, text):
    model = fit(clone(estimator), text)
    words = sorted({word for line in text for word in line.split()})
    found = model.classes_of([*words, "zebra"])
    assert found.shape == (len(words) + 1,) and found.dtype.kind == "i"
    for other in (pickle.loads(pickle.dumps(model)), clone(model).fit(text)):
        check_twins(other.classes_of([*words, "zebra"]), found)


FROZEN = FrozenEstimator(
    LanguageModel(WittenBellLM(), max_depth=2).fit(["a b c", "c d e"])
)
STEP = PerplexityTransformer(FROZEN)


@runs(text=SENTENCES)
def test_steps_over_documents_answer_and_are_the_same_again(text):
    model = fit(clone(STEP), text)
    found = question(model, text)
    # NaN for a document without words
    empty = [not line for line in text]
    np.testing.assert_array_equal(np.isnan(found).any(axis=1), empty)
    assert len(found) == len(text)
    for other in (pickle.loads(pickle.dumps(model)), clone(model).fit(text)):
        check_twins(question(other, text), found)


def test_data_are_drawn_for_every_public_estimator():
    models = [model_of(name) for name in (*OF_WINDOWS, *OF_FEATURES, *TAUGHT)]
    models += [*TAGGERS.values(), *CLUSTERINGS, STEP, SampleRankClassifier()]
    drawn = {type(model) for model in models}
    for model in models:
        drawn |= {type(value) for value in model.get_params().values()}
    drawn |= {NoisyChannelDecoder, EditDistanceChannel, KeypadChannel}
    drawn |= {FactorGraphVectorizer, LikelihoodScorer, DaskLanguageModel}
    drawn |= {NgramVectorizer, TextClassifier}  # tests/text
    drawn |= {GaussianEmission, PoissonEmission}  # tests/hmm/test_vector_emissions.py
    drawn.add(Checkpoint)  # a file: tests/test_fuzz.py, tests/loglinear
    missing = [kind for kind in public_estimators() if kind not in drawn]
    missing = [kind.__name__ for kind in missing if not kind.__subclasses__()]
    assert not missing, f"tests/test_properties.py: draw data for {missing}"
