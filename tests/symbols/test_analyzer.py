"""The three rules that split strings, over files, streams and strings."""

import bz2
import gzip
import io
import itertools
import lzma
import pickle
import re
import threading
import warnings

import numpy as np
import pytest
from _cases import each_value
from _texts import PLANES, SPACES

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.backoff import Counted, mix, prune
from sklstruct.exchange import read
from sklstruct.language_model import CacheLM, compare, interpolate
from sklstruct.smoothing import AdditiveLM, WittenBellLM
from sklstruct.symbols import Labels, TextFile
from sklstruct.symbols._number import number_sentences
from sklstruct.symbols._text import (
    ANALYZERS,
    join_symbols,
    odd_spaces,
    split_string,
)

KENLM = "\0\t\n\r "
ODD = [c for c in SPACES if c not in KENLM] + ["\0"]
# Every oddity of a text at once: a byte order mark, blank lines, line ends of other
# conventions, white space of all kinds, no line end at the end.
EVIL = (
    "\ufeffthe cat sat\r\n\n \u00a0\n12\u00a0000 a\u2028b c\x85d\n"
    "\x0b\n\x0ce\x0bf g\x1ch\n"
    "lone\rcr\n\t\r\n\u3000 \n\x1c\nla\u00a0fin "
)


def reference(text, analyzer):
    """The rule, spelt as a loop over characters."""
    if analyzer == "char":
        return list(text)
    separators = frozenset(KENLM if analyzer == "kenlm" else SPACES)
    words, word = [], ""
    for c in text + " ":
        if c not in separators:
            word += c
        elif word:
            words.append(word)
            word = ""
    return words


def sentences_of(raw, analyzer, skip=True):
    """Sentences of the bytes of a text, by Python."""
    lines = raw.decode().removeprefix("\ufeff").split("\n")
    if not lines[-1]:
        lines.pop()
    lines = [line.removesuffix("\r") for line in lines]
    by = "kenlm" if analyzer == "kenlm" else "word"
    return [
        split_string(line, analyzer)
        for line in lines
        if not skip or split_string(line, by)
    ]


@pytest.mark.parametrize("plane", PLANES, ids=["first", "other"])
@pytest.mark.parametrize("analyzer", ANALYZERS)
def test_every_character_is_split_by_the_rule(analyzer, plane):
    texts = [
        "".join(f"x{chr(i)}y " for i in plane[start : start + 9973])
        for start in range(0, len(plane), 9973)
    ]
    for text, found in zip(texts, number_sentences(texts, analyzer=analyzer)):
        assert found == reference(text, analyzer)
        assert split_string(text, analyzer) == found
        assert split_string(join_symbols(found, analyzer), analyzer) == found


@pytest.mark.parametrize(
    *each_value(
        analyzer=[*ANALYZERS, *ANALYZERS],
        skip=[True, False],
        pack=[bytes, gzip.compress, bz2.compress, lzma.compress],
    )
)
def test_one_reader(tmp_path, monkeypatch, analyzer, skip, pack):
    """Files, packed files and file objects give the same sentences."""
    raw = EVIL.encode()
    expected = sentences_of(raw, analyzer, skip)
    path = tmp_path / "text"
    path.write_bytes(pack(raw))
    for block in (1 << 20, 7):
        monkeypatch.setattr("sklstruct.symbols._text_file._BLOCK", block)
        with open(path, "rb") as file:
            for source in (path, io.BytesIO(pack(raw)), file):
                text = TextFile(source, skip_blank_lines=skip)
                found = text.number(analyzer)
                assert found.sentences() == expected
                # Again, as messages and large texts do.
                assert text.number(analyzer).sentences() == expected
                where = [found.where(i).split(" of ")[0] for i in range(len(expected))]
        parts = TextFile(path, skip_blank_lines=skip).split(20)
        split = [s for part in parts for s in part.number(analyzer)]
        assert split == expected
    lines = raw.decode().split("\n")
    for sentence, name in zip(expected, where):
        line = lines[int(name.removeprefix("line ")) - 1].removeprefix("\ufeff")
        assert split_string(line.removesuffix("\r"), analyzer) == sentence


@pytest.mark.parametrize(*each_value(analyzer=ANALYZERS, end=["\n", "\r\n"]))
def test_a_line_with_its_end_is_the_line(tmp_path, analyzer, end):
    lines = ["the cat\n sat", " a  cat ", "", "a"]
    expected = number_sentences(lines, "X", analyzer)
    read = number_sentences([line + end for line in lines], "X", analyzer)
    mixed = number_sentences(
        [*(line + end for line in lines[:3]), ["a"]], "X", analyzer
    )
    for text in (read, mixed):
        assert text.tokens.tolist() == expected.tokens.tolist()
        assert text.symbols == expected.symbols
    for line in lines:
        assert split_string(line + end, analyzer) == split_string(line, analyzer)


def test_the_place_in_a_file_object_and_its_copy(tmp_path):
    file = io.BytesIO(b"gone\na b\n\xff\n")
    file.readline()
    text = TextFile(file, folder=tmp_path)
    (copy,) = tmp_path.iterdir()
    with pytest.raises(ValueError, match="the file object, line 2: invalid UTF-8"):
        text.number()
    again = pickle.loads(pickle.dumps(text))
    with pytest.raises(ValueError, match="the file object, line 2"):
        again.number()
    del again
    assert copy.exists()
    del text
    assert not copy.exists()
    with pytest.raises(TypeError, match="files: .* is open as text"):
        TextFile(io.StringIO("a b"), folder=tmp_path)


def test_nul_separates_by_kenlm_only(tmp_path):
    path = tmp_path / "text"
    path.write_bytes(b"a\nb\0c\n")
    assert TextFile(path).number("kenlm").sentences() == [["a"], ["b", "c"]]
    for analyzer in ("word", "char"):
        with pytest.raises(ValueError, match="line 2: a NUL byte"):
            TextFile(path).number(analyzer)
    assert number_sentences(["b\0c"], analyzer="kenlm").sentences() == [["b", "c"]]
    assert number_sentences(["b\0c"]).sentences() == [["b\0c"]]


@pytest.mark.parametrize("analyzer", ["word", "kenlm"])
def test_white_space_on_which_the_rules_differ_is_counted(tmp_path, analyzer):
    rng = np.random.default_rng(0)
    letters = ["a", "é", "語", " ", "\t", "\r", *rng.choice(ODD, 8)]
    lines = ["".join(row) for row in rng.choice(letters, (9000, 30)).tolist()]
    expected = sum(line.count(c) for line in lines for c in set(ODD))
    found = number_sentences(lines, analyzer=analyzer).odd
    assert found.n_places == expected == odd_spaces(lines).n_places
    for example in found.examples:
        assert split_string(example, "word") != split_string(example, "kenlm") or any(
            c in example for c in ODD
        )
    plain = ["".join(c for c in line if c not in ODD) for line in lines]
    assert number_sentences(plain, analyzer=analyzer).odd.n_places == 0
    # Many new words, for which the table grows.
    words = [f"{i}\u00a0{i}" for i in range(20_000)]
    assert number_sentences([" ".join(words)], analyzer=analyzer).odd.n_places == 20_000


TEXT = ["12\u00a0000 euro ici", "il y a 12\u00a0000 euro", "12 euro"] * 9


def fit(analyzer="word", text=TEXT, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = LanguageModel(WittenBellLM(), max_depth=2, analyzer=analyzer, **options)
        return model.fit(text)


def split_all(text, analyzer):
    return [split_string(line, analyzer) for line in text]


@pytest.mark.parametrize("analyzer", ANALYZERS)
@pytest.mark.filterwarnings("ignore")
def test_all_methods_split_by_the_rule_of_the_model(tmp_path, analyzer):
    path = tmp_path / "text"
    path.write_text("\n".join(TEXT), encoding="utf-8")
    model, lists = fit(analyzer), split_all(TEXT, analyzer)
    assert model.vocabulary_.tolist() == fit("word", lists).vocabulary_.tolist()
    held_out = KneserNeyLM(discount="tuned")
    tuned = LanguageModel(held_out, max_depth=2, analyzer=analyzer).fit(
        TEXT, X_val=TEXT
    )
    same = LanguageModel(held_out, max_depth=2).fit(lists, X_val=lists)
    np.testing.assert_array_equal(
        tuned.estimator_.discounts_, same.estimator_.discounts_
    )
    cache = CacheLM(model, max_order=2, weights=[0.5, *[0.125] * 4]).fit(TEXT)
    for method in (
        model.perplexity,
        model.score,
        model.score_samples,
        lambda X: np.concatenate(model.token_log_proba(X)),
        lambda X: model.perplexity_by_depth(X).perplexity,
        lambda X: model.perplexity_by_sentence(X).perplexity,
        lambda X: model.surprisal(X).surprisal,
        cache.perplexity,
        lambda X: np.concatenate(cache.score_stream(X)),
        lambda X: cache.surprisal(X).surprisal,
        lambda X: compare(fit("word"), model, X).gain if analyzer == "word" else 0,
        lambda X: model.count(X).count,
        lambda X: interpolate([model, model], X).estimator_.weights_,
    ):
        expected = method(lists)
        for X in (TEXT, TextFile(path), model.number_text(TEXT)):
            np.testing.assert_array_equal(method(X), expected)
    line = "il y a 12\u00a0000"
    for other in (model, cache):
        assert other.predict_next(line, 3) == other.predict_next(
            split_string(line, analyzer), 3
        )
    (drawn,) = model.sample(1, prefix=line, max_length=0)
    if analyzer != "char":
        drawn = join_symbols(drawn, analyzer)
    assert split_string(drawn, analyzer) == split_string(line, analyzer)
    assert clone_of(model).analyzer == analyzer


def clone_of(model):
    from sklearn.base import clone

    return clone(model)


@pytest.mark.filterwarnings("ignore")
def test_the_rule_is_kept_with_the_labels(tmp_path):
    by_kenlm, by_word = fit("kenlm"), fit("word")
    for model in (by_kenlm, by_word, fit("char")):
        table = model.backoff_model_
        assert table.labels.analyzer == model.analyzer
        model.save(tmp_path / "m.sklm", format="native")
        loaded = LanguageModel.load(tmp_path / "m.sklm")
        for other in (
            loaded,
            pickle.loads(pickle.dumps(model)),
            LanguageModel.from_backoff(pickle.loads(pickle.dumps(table))),
            LanguageModel.from_backoff(prune(table, vocabulary=["euro", "12", "e"])),
            LanguageModel.from_backoff(mix([table, table], [0.5, 0.5])),
            fit(model.analyzer).fit(model.count(TEXT)),
        ):
            assert other.predictor.encoder.labels.analyzer == model.analyzer
            assert clone_of(other).analyzer == model.analyzer
        assert loaded.perplexity(TEXT) == model.perplexity(TEXT)
        assert model.describe()["analyzer"] == model.analyzer
    # Files of other programs store no rule.
    for format in ("arpa", "kenlm"):
        by_kenlm.save(tmp_path / "file", format=format)
        found = LanguageModel.load(tmp_path / "file", format=format)
        assert found.analyzer == "kenlm"
        assert found.perplexity(TEXT) == pytest.approx(by_kenlm.perplexity(TEXT), 1e-6)
    fit("word", ["a b", "b a"]).save(tmp_path / "file", format="att")
    assert LanguageModel.load(tmp_path / "file", format="att").analyzer == "kenlm"
    by_word.save(tmp_path / "file", format="arpa")
    read_as = LanguageModel.load(tmp_path / "file", analyzer="word")
    assert read_as.perplexity(TEXT) == pytest.approx(by_word.perplexity(TEXT), rel=1e-6)
    of_both = mix([read(tmp_path / "file"), by_word.backoff_model_], [0.5, 0.5])
    assert of_both.labels.analyzer == "word"


def test_rules_do_not_mix():
    counted = fit().count(["a b"])
    with pytest.raises(ValueError, match="X was counted with .* analyzer"):
        LanguageModel(WittenBellLM(), max_depth=2, analyzer="kenlm").fit(counted)
    a, b = fit(), fit("char")
    with pytest.raises(ValueError, match="analyzer='char'"):
        mix([a.backoff_model_, b.backoff_model_], [0.5, 0.5])
    with pytest.raises(ValueError, match="another analyzer"):
        Counted.merge([counted, fit("kenlm").count(["a b"])])
    with pytest.raises(ValueError, match="analyzer must be one of word, kenlm, char"):
        Labels(["a"], analyzer="bytes")
    with pytest.raises(ValueError, match="'analyzer' parameter of LanguageModel"):
        LanguageModel(analyzer="bytes").fit(["a b"])
    assert Labels(["a"], analyzer="char") != Labels(["a"])


@pytest.mark.filterwarnings("ignore")
def test_models_of_two_rules_are_compared_where_they_agree():
    a, b = fit(), fit("kenlm")
    assert compare(a, b, ["12 euro ici", "il y a"], include_unknown=False).n_tokens > 0
    with pytest.raises(ValueError, match="'word' of a and 'kenlm' of b split the text"):
        compare(a, b, TEXT)


def test_one_warning_says_where_the_rules_differ():
    plain = fit(text=["il y a 12 000 euro ici"] * 9)
    as_kenlm = fit("kenlm")
    for model, rule, other in ((plain, "word", "kenlm"), (as_kenlm, "kenlm", "word")):
        with pytest.warns(UserWarning) as caught:
            model.perplexity(["il y a 12\u00a0000 euro", "3\u00a0euro et 3\u2009g"])
        (message,) = [str(w.message) for w in caught if "KenLM" in str(w.message)]
        assert "at 3 place(s), as in '12\\xa0000', '3\\xa0euro', '3\\u2009g'" in message
        assert f"analyzer={rule!r})" in message and f"use analyzer={other!r}" in message
        assert message.count("KenLM") == (3 if other == "kenlm" else 2)
        assert caught[0].filename == __file__
    with pytest.warns(UserWarning, match="KenLM split the text into different words"):
        LanguageModel(WittenBellLM()).fit(TEXT)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        LanguageModel(WittenBellLM(), analyzer="char").fit(TEXT).score(TEXT)
        plain.perplexity(["il y a 12 000"])


def test_blanks_in_files_of_characters(tmp_path):
    text = ["the cat sat", "the dog  sat", "a cat"]
    model = fit("char", text)
    model.save(tmp_path / "m.arpa", format="arpa")
    assert "\t\u2581" in (tmp_path / "m.arpa").read_text(encoding="utf-8")
    found = LanguageModel.load(tmp_path / "m.arpa", analyzer="char")
    assert found.perplexity(text) == pytest.approx(model.perplexity(text), rel=1e-6)
    assert sorted(found.vocabulary_) == sorted(model.vocabulary_)
    with pytest.raises(ValueError, match="both written as"):
        fit("char", ["a b\u2581"]).save(tmp_path / "m.arpa", format="arpa")
    with pytest.raises(ValueError, match=re.escape(r"'\t' cannot be written")):
        fit("char", ["a\tb"]).save(tmp_path / "m.arpa", format="arpa")


def test_characters_of_a_model():
    text = ["我喜欢吃苹果", "我喜欢 香蕉", "他喜欢吃香蕉"]
    model = LanguageModel(AdditiveLM(delta=0.01), max_depth=2, analyzer="char").fit(
        text
    )
    lists = LanguageModel(AdditiveLM(delta=0.01), max_depth=2).fit(
        list(map(list, text))
    )
    assert model.perplexity(text) == lists.perplexity(list(map(list, text)))
    assert model.predict_next("我喜", 1)[0][0] == "欢"
    drawn = model.sample(5, prefix="他喜", random_state=0)
    assert all(type(s) is str and s.startswith("他喜") for s in drawn)
    as_lists = lists.sample(5, prefix=list("他喜"), random_state=0)
    assert drawn == ["".join(s) for s in as_lists]
    cache = CacheLM(model, max_order=1, weights=[0.9, 0.05, 0.05]).fit(text)
    assert all(type(s) is str for s in cache.sample(3, random_state=0))
    words = LanguageModel(AdditiveLM(), analyzer="char", vocabulary=list("我他")).fit(
        text
    )
    assert words.vocabulary_.tolist() == [*sorted("我他"), "<unk>", "</s>"]


def test_threads_share_a_model_of_characters():
    model = fit("char", ["the cat sat", "the dog sat"])
    expected = model.perplexity(["the cat"])
    found = []
    threads = [
        threading.Thread(target=lambda: found.append(model.perplexity(["the cat"])))
        for _ in range(4)
    ]
    for step in (threading.Thread.start, threading.Thread.join):
        for thread in threads:
            step(thread)
    assert found == list(itertools.repeat(expected, 4))
