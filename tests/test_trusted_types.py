"""TRUSTED_TYPES are what skops asks about in files of our estimators, no more."""

import inspect
import pickle
import re
import textwrap
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest
from _families import public_estimators
from _fitted import fitted, make
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import make_scorer

import sklstruct
from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.distributed import DaskLanguageModel
from sklstruct.factor_graph import ConditionalRandomField, SampleRankClassifier
from sklstruct.hmm import HighOrderHMM
from sklstruct.language_model import CacheLM, WeightedAutomaton
from sklstruct.language_model._names import QUALITIES
from sklstruct.linear import (
    StructuredLogisticRegression,
    StructuredLogisticRegressionCV,
)
from sklstruct.mixture import MixtureLM
from sklstruct.mixture._gates import GATES
from sklstruct.smoothing import GraphSpreadUnigram, WittenBellLM, group_graph

sio = pytest.importorskip("skops.io")


TEXT = ["the cat sat", "the dog sat", "a cat ran", "the cat ran home", "a dog"] * 8


def composed():
    """Named models, caches, every gate, frozen parts, labels of several values."""
    for name in QUALITIES:
        yield name, LanguageModel(name).fit(TEXT)
    for word_classes in (3, "base"):
        model = CacheLM(LanguageModel("better"), word_classes=word_classes)
        yield f"cache of classes {word_classes}", model.fit(TEXT)
    members = [("kn", KneserNeyLM(discount=0.5)), ("wb", WittenBellLM())]
    for gate in GATES:
        yield gate, LanguageModel(MixtureLM(members, weights=gate)).fit(TEXT)
    X = np.array([[0, 1], [1, 0], [1, 1]] * 5)
    y = np.array(["a", "b", "b"] * 5)
    frozen = FrozenEstimator(KneserNeyLM(discount=0.5).fit(X, y))
    yield "frozen", MixtureLM([("frozen", frozen), members[1]]).fit(X, y)
    words = [[{"w": w, "one": True} for w in sentence.split()] for sentence in TEXT]
    tags = [[(w["w"][0], len(w["w"])) for w in sentence] for sentence in words]
    yield "tuples", ConditionalRandomField(max_iter=5).fit(words, tags)
    yield "tuples of samples", SampleRankClassifier(random_state=0).fit(words, tags)
    plain = [sentence.split() for sentence in TEXT]
    yield "tuples of states", HighOrderHMM().fit(plain, tags)
    sentences = [[(w, len(w)) for w in sentence] for sentence in plain]
    yield "tuples of words", LanguageModel(WittenBellLM()).fit(sentences)
    X = np.zeros((4, 0), dtype=int)
    yield "graph", GraphSpreadUnigram(graph=group_graph).fit(X, ["a", "b", "a", "c"])
    for name, function in public_functions("metrics"):
        scorer, model = make_scorer(function), StructuredLogisticRegression()
        yield name, StructuredLogisticRegressionCV(model, scoring=scorer)
    arcs = [0, 0, 1], [1, 0, 1], ["a", "b", "b"], [0.5, 0.25, 0.25], [0.25, 0.75]
    yield "automaton", WeightedAutomaton(*arcs)
    yield "frequent words", LanguageModel(WittenBellLM(), min_count=2).count(TEXT)


def public_functions(*packages):
    root = Path(sklstruct.__file__).parent
    every = {path.parent.name for path in root.glob("[a-z]*/__init__.py")}
    # All functions of two packages are called.
    for package in packages or sorted(every - {"datasets", "prox"}):
        module = import_module(f"sklstruct.{package}")
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                yield name, getattr(module, name)


def answers(model):
    """The answers of a model, as far as it answers about sentences."""
    if isinstance(model, CacheLM):
        return np.concatenate(model.score_stream(TEXT[:9]))
    if isinstance(model, LanguageModel) and isinstance(model.vocabulary_[0], str):
        return model.score_samples(TEXT[:9])
    if isinstance(model, MixtureLM):
        return model.predict_proba(np.ones((2, model.n_features_in_), dtype=int))
    if isinstance(model, GraphSpreadUnigram):
        return model.predict_proba(np.zeros((1, 0), dtype=int))
    if isinstance(model, WeightedAutomaton):
        return model.expected_windows(3).sample_weight
    if isinstance(model, ConditionalRandomField | SampleRankClassifier):
        return model.coef_
    return None  # `repr` says what there is to compare


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_trusted_types_of_every_public_estimator(tmp_path):
    asked, kinds = set(), set()
    models = [(name, make(entry)) for name, entry in fitted().items()]
    for name, model in [*models, *composed()]:
        kinds.add(type(model))
        dump = sio.dumps(model)
        own = sio.get_untrusted_types(data=dump)
        unknown = sorted(set(own) - set(sklstruct.TRUSTED_TYPES))
        assert not unknown, f"{name}: add to sklstruct/_trusted.py {unknown}"
        asked.update(own)
        again = sio.loads(dump, trusted=list(sklstruct.TRUSTED_TYPES))
        assert repr(again) == repr(model)
        np.testing.assert_array_equal(answers(again), answers(model))
    assert asked == set(sklstruct.TRUSTED_TYPES)
    # Bases are not fitted, the classes below them are.
    missing = {kind for kind in public_estimators() if kind not in kinds}
    missing.discard(DaskLanguageModel)  # its fitted model is a LanguageModel
    missing = sorted(kind.__name__ for kind in missing if not kind.__subclasses__())
    assert not missing, f"add to fitted() in tests/_fitted.py: {', '.join(missing)}"


# Public functions that are called, and are not values of parameters.
CALLED = {
    "as_paths",
    "as_taxonomy",
    "chain_graph",
    "choose_shape",
    "class_taxonomy",
    "compare",
    "context_windows",
    "grid_graph",
    "interpolate",
    "lam_max",
    "lam_path",
    "named_estimator",
    "ngram_parents",
    "prune",
}


def test_trusted_types_have_every_function_that_is_a_value():
    missing = {
        name
        for name, function in public_functions()
        if f"{function.__module__}.{name}" not in sklstruct.TRUSTED_TYPES
    }
    assert missing == CALLED, (
        "add to sklstruct/_trusted.py the functions that are values of parameters"
    )


def test_altered_automaton():
    automaton = WeightedAutomaton([0], [1], ["a"], [0.5], [0.25, 0.75])
    automaton._next.indices[0] = 10**8
    with pytest.raises(ValueError, match="_next is a malformed CSR matrix"):
        pickle.loads(pickle.dumps(automaton))


def test_trusted_types_are_sorted_classes_and_functions():
    assert list(sklstruct.TRUSTED_TYPES) == sorted(set(sklstruct.TRUSTED_TYPES))
    for name in sklstruct.TRUSTED_TYPES:
        module, kind = name.rsplit(".", 1)
        found = getattr(import_module(module), kind)
        assert inspect.isclass(found) or inspect.isfunction(found)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", QUALITIES)
def test_named_models_in_mlflow(name, tmp_path):
    mlflow = pytest.importorskip("mlflow.sklearn", reason="needs MLflow")
    model = LanguageModel(name).fit(TEXT)
    trusted = list(sklstruct.TRUSTED_TYPES)
    mlflow.save_model(
        model, tmp_path / "model", serialization_format="skops",
        skops_trusted_types=trusted,
    )  # fmt: skip
    again = mlflow.load_model(str(tmp_path / "model"))
    assert again is not model
    np.testing.assert_array_equal(answers(again), answers(model))


def test_recipe_of_mlflow(tmp_path, monkeypatch):
    """The code of the page, run as it stands."""
    pytest.importorskip("mlflow.sklearn", reason="needs MLflow")
    page = Path(__file__).parents[1] / "docs" / "user_guide" / "exchange.rst"
    code = re.search(
        r"Pass the trusted types to MLflow, too:\n\n"
        r".. code-block:: python\n\n((?: .*\n|\n)+)",
        page.read_text(encoding="utf-8"),
    )[1]
    monkeypatch.chdir(tmp_path)
    sentences = ["sea salt", "salt sea", "salt", "sea salt sea"]
    lm = sklstruct.LanguageModel(sklstruct.KneserNeyLM(discount=0.5), max_depth=2)
    expected = lm.fit(sentences).score_samples(sentences)
    known = {"sklstruct": sklstruct, "lm": lm}
    exec(textwrap.dedent(code), known)
    assert known["lm"] is not lm and (tmp_path / "folder").is_dir()
    np.testing.assert_array_equal(known["lm"].score_samples(sentences), expected)
