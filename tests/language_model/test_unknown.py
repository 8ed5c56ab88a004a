"""Warnings about words that a model does not know, and errors that name the remedy."""

import re
import unicodedata
import warnings

import numpy as np
import pytest
from _loglinear import loglinear_cv
from sklearn.frozen import FrozenEstimator

from sklstruct import KneserNeyLM, LanguageModel, StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import CacheLM, PerplexityTransformer
from sklstruct.mixture import MixtureLM
from sklstruct.smoothing import AdditiveLM, WittenBellLM
from sklstruct.symbols import TextFile

TEXT = ["the café is open", "a naïve dog ran home", "le garçon est là"] * 5
CHINESE = ["我喜欢吃苹果和香蕉", "他今天 去了北京的大学", "我们一起去看电影吧好吗"] * 5


def trained(text, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return LanguageModel(WittenBellLM(), max_depth=2, **options).fit(text)


def messages(call, *arguments, **options):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        call(*arguments, **options)
    assert all(w.filename == __file__ for w in caught)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("train", "test", "cause"),
    [
        (TEXT, [s.upper() for s in TEXT], "in another case"),
        (
            TEXT,
            [unicodedata.normalize("NFD", "café naïve garçon là")] * 3,
            "normal form",
        ),
        (TEXT, [s.replace(" ", ", ") + "." for s in TEXT], "with punctuation"),
        (TEXT, [s.replace(" ", "@@ ") for s in TEXT], "marks of word pieces"),
        (TEXT, ["aa bb cc dd ee ff gg hh ii jj kk"], "another language or domain"),
        (["我 喜欢 吃 苹果"] * 5, CHINESE, "analyzer='char'"),
        (TEXT, [list(s) for s in TEXT], "split into characters: pass strings"),
        ([list(s) for s in TEXT], TEXT, "pass lists of characters"),
        (["▁the ▁c af é ▁is ▁open"], ["the café is open"] * 3, "marks of word pieces"),
        ([(1, 2), (2, 3)], [tuple("abcdefghijkl")], "another language or domain"),
    ],
)
def test_many_unknown_words_are_a_warning_with_the_cause(train, test, cause):
    model = trained(train)
    known = set(model.vocabulary_.tolist())
    split = [s.split() if isinstance(s, str) else s for s in test]
    n = sum(map(len, split))
    n_unknown = sum(w not in known for s in split for w in s)
    assert 3 * n_unknown > n
    cache = CacheLM(FrozenEstimator(model), max_order=1, weights=[0.9, 0.05, 0.05])
    cache.fit(train)
    for ask in (
        model.perplexity,
        model.score,
        model.score_samples,
        model.perplexity_by_sentence,
        cache.perplexity,
    ):
        (message,) = messages(ask, test)
        assert message.startswith(f"X: {n_unknown} of {n} words are unknown")
        assert cause in message


def test_a_third_is_the_limit():
    model = trained(["a b c d e f g h i j k l"])
    for n_unknown, n in ((3, 9), (3, 10), (4, 12), (5, 12), (9, 9), (6, 18), (7, 18)):
        words = ["xx"] * n_unknown + ["a"] * (n - n_unknown)
        expected = n >= 10 and 3 * n_unknown > n
        assert bool(messages(model.score, [words])) == expected


def test_unknown_words_of_the_training_text():
    fit = LanguageModel(WittenBellLM(), max_depth=2, min_count=2).fit
    text = [f"a{i} b{i}" for i in range(9)] + ["c c"]
    (message,) = messages(fit, text)
    assert "X: 18 of 20 words are unknown" in message and "min_count=2" in message
    fit = LanguageModel(WittenBellLM(), max_depth=2, vocabulary=["c", "B1"]).fit
    (message,) = messages(fit, text)
    assert "vocabulary leaves them out" in message
    fit = LanguageModel(KneserNeyLM(discount="tuned"), max_depth=2).fit
    found = messages(fit, load_python_topics()[:300], X_val=[s.upper() for s in TEXT])
    assert any("X_val: 65 of 65 words are unknown" in message for message in found)
    assert not messages(LanguageModel(WittenBellLM(), max_depth=2).fit, text)


def test_text_without_spaces_is_noticed_in_training(tmp_path):
    path = tmp_path / "zh.txt"
    path.write_text("\n".join(CHINESE), encoding="utf-8")
    for X in (CHINESE, TextFile(path), ["MKVLAARNDWTYEEDLLKQKAEQ" * 2] * 9):
        (message,) = messages(LanguageModel(WittenBellLM(), max_depth=2).fit, X)
        assert re.search("characters on average; .* analyzer='char'", message)
        assert not messages(trained(X, analyzer="char").score, X)
        assert not messages(LanguageModel(WittenBellLM(), analyzer="char").fit, X)
    words = ["我 喜欢 吃 苹果", "他 今天 去 了 北京"]
    assert not messages(LanguageModel(WittenBellLM()).fit, words)
    (message,) = messages(LanguageModel(WittenBellLM()).fit, ["the", "cat", "sat"])
    assert "' '.join(X)" in message
    (message,) = messages(LanguageModel(WittenBellLM()).fit, list("the"))
    assert "characters of one string" in message and "''.join(X)" in message


def test_a_prefix_that_is_split_in_another_way():
    characters, words = trained(list(map(list, CHINESE))), trained(TEXT)
    for ask in (characters.predict_next, lambda s: characters.sample(1, prefix=s)):
        (message,) = messages(ask, "我喜欢")
        assert "pass list('我喜欢')" in message and "analyzer='char'" in message
    assert not messages(characters.predict_next, list("我喜欢"))
    split = LanguageModel(AdditiveLM(), analyzer="char").fit(CHINESE)
    assert not messages(split.predict_next, "我喜欢")
    (message,) = messages(split.score_samples, [["我喜欢"]])
    assert message.endswith("pass strings, or list('我喜欢')")
    (message,) = messages(split.score_samples, [["我喜欢", "苹果"]] * 9)
    assert message.endswith("pass strings, or lists of characters")
    (message,) = messages(words.predict_next, list("the dog"))
    assert "pass the string itself" in message
    (message,) = messages(trained(["我 喜欢 吃 苹果"]).predict_next, "我喜欢吃苹果了吗")
    assert "one unknown word" in message
    for context in ("the zebra", "", ["the", "zebra"]):
        assert not messages(words.predict_next, context)


def test_one_string_and_names_of_files(tmp_path):
    path = tmp_path / "text"
    path.write_text("a b", encoding="utf-8")
    for name in ("train.txt", "corpus/part.gz", str(path)):
        with pytest.raises(TypeError, match=re.escape(f"TextFile({name!r})")):
            LanguageModel("fast").fit(name)
    with pytest.raises(TypeError, match=r"pass \[text\]"):
        LanguageModel("fast").fit("the cat sat.")


@pytest.mark.parametrize(
    "estimator",
    [
        KneserNeyLM(),
        StructuredLogLinearLM(),
        loglinear_cv(),
        MixtureLM([("kn", KneserNeyLM())]),
    ],
)
def test_sentences_for_a_classifier_of_contexts(estimator):
    name = type(estimator).__name__
    remedy = re.escape(f"LanguageModel({name}()) learns from sentences")
    with pytest.raises(TypeError, match=f"X holds strings: .*{remedy}"):
        estimator.fit(TEXT)
    with pytest.raises(TypeError, match=remedy):
        estimator.fit(TEXT, ["a"] * len(TEXT))
    with pytest.raises(ValueError, match=f"requires y to be passed.*{remedy}"):
        estimator.fit([[0, 1], [1, 0]])


@pytest.mark.parametrize("name", ["fast", "better"])
def test_a_named_model_warns_of_what_its_user_chose(name):
    text = ["the cat sat", "a dog ran", "the dog sat home"] * 4
    found = messages(LanguageModel(name, max_depth=2).fit, text)
    (message,) = found
    assert message.startswith(f'estimator="{name}": the text has too few words')
    assert "KneserNeyLM" not in message and "discount=" not in message
    assert "small text, and for symbols that all occur often" in message
    assert not messages(LanguageModel(name, max_depth=2, analyzer="char").fit, text)
    # An estimator of the user's own warns as before.
    (message,) = messages(LanguageModel(KneserNeyLM(), max_depth=2).fit, text)
    assert "pass discount=" in message


def test_unknown_rates_are_shares_of_words(tmp_path):
    lm = trained(["red fox", "fox red"], unknown=None, out_of_vocabulary="exclude")
    documents = ["red zebra", "zebra zebra zebra", "red", "\n", "zebra\nred fox", ""]
    expected = [0.5, 1.0, 0.0, 0.0, 1 / 3, np.nan]
    rates = PerplexityTransformer(FrozenEstimator(lm)).fit().transform(documents)[:, 2]
    np.testing.assert_allclose(rates, expected)
    lm.save(tmp_path / "m.arpa", format="arpa")
    step = PerplexityTransformer(tmp_path / "m.arpa").fit()
    np.testing.assert_allclose(step.transform(documents)[:, 2], expected)
    # The words that were scored: a no-break space belongs to a word in a file.
    nbsp = trained(["7\u00a0000 cats", "cats 7\u00a0000"], analyzer="kenlm")
    nbsp.save(tmp_path / "m.arpa", format="arpa")
    with pytest.warns(UserWarning, match="KenLM split"):
        found = (
            PerplexityTransformer(tmp_path / "m.arpa")
            .fit()
            .transform(["7\u00a0000 cats", "7 000 cats"])
        )
    np.testing.assert_allclose(found[:, 2], [0, 2 / 3])
    np.testing.assert_array_equal(found[:, 3], [3, 4])


@pytest.mark.parametrize("model", ["words", "characters", "cache", "window classifier"])
def test_surprisal_is_minus_log_of_the_score(model):
    text = ["the cat sat", "the dog sat", "", "a zebra"]
    if model == "window classifier":
        from sklearn.naive_bayes import CategoricalNB

        lm = LanguageModel(CategoricalNB(min_categories=20), max_depth=1)
        lm = lm.fit(["the cat sat", "a dog sat"])
    else:
        analyzer = "char" if model == "characters" else "word"
        lm = trained(["the cat sat", "the dog ran"], analyzer=analyzer)
    if model == "cache":
        lm = CacheLM(FrozenEstimator(lm), max_order=1, weights=[0.8, 0.1, 0.1])
        lm.fit(text)
        scores = lm.score_stream(text)
    else:
        scores = lm.token_log_proba(text)
    flat = np.concatenate(scores)
    for unit, base in (("bits", 2), ("nats", np.e), ("hartleys", 10)):
        table = lm.surprisal(text, unit=unit)
        np.testing.assert_allclose(table["surprisal"], -flat / np.log(base), rtol=1e-12)
    nats = lm.surprisal(text, unit="nats")["surprisal"]
    assert np.exp(np.mean(nats)) == pytest.approx(lm.perplexity(text))
    lengths = [len(s) for s in scores]
    assert table["sentence"].tolist() == np.repeat(range(4), lengths).tolist()
    assert table["position"].tolist() == [i for n in lengths for i in range(n)]
    split = [list(s) if model == "characters" else s.split() for s in text]
    assert list(table["word"]) == [w for s in split for w in [*s, "</s>"]]
    known = set(lm.vocabulary_.tolist())
    assert table["unknown"].tolist() == [w not in known for w in table["word"]]
    if model in ("words", "characters"):
        counts = np.bincount(table["depth"], minlength=3)
        assert counts.tolist() == lm.perplexity_by_depth(text).n_tokens.tolist()
    else:
        assert (np.asarray(table["depth"]) == -1).all()
    with pytest.raises(ValueError, match="unit must be one of bits, nats, hartleys"):
        lm.surprisal(text, unit="bit")


def test_surprisal_without_pandas(monkeypatch):
    lm = trained(["the cat sat"])
    frame = lm.surprisal(["the cat"])
    assert "\ud800" in lm.surprisal(["the \ud800"])["word"].tolist()
    import sys

    monkeypatch.setitem(sys.modules, "pandas", None)
    table = lm.surprisal(["the cat"])
    assert list(table) == list(frame.columns)
    for name in table:
        assert table[name].tolist() == frame[name].tolist()


def test_generators_and_random_states():
    text = load_python_topics()[:200]
    lm = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text)
    a, b = (np.random.default_rng(0) for _ in range(2))
    first = lm.sample(3, random_state=a)
    assert first == lm.sample(3, random_state=b)
    assert lm.sample(3, random_state=a) != first  # the generator has moved on
    assert lm.sample(3, random_state=1) == lm.sample(
        3, random_state=np.random.RandomState(1)
    )
    with pytest.raises(ValueError, match="random_state must be None, an integer"):
        lm.sample(1, random_state="seed")
