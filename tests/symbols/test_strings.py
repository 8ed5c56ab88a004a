"""The table of the words of a model: as a dictionary, and labels of it as of arrays."""

import pickle
import tracemalloc

import numpy as np
import pytest

from sklstruct import KneserNeyLM, LanguageModel, exchange
from sklstruct.symbols import Labels, Strings, StringTable, pack_strings
from sklstruct.symbols._number import number_sentences

PARTS = ["a", "ä", "語", "😀", "\0", " ", "\ud800", "z" * 40, ""]


def random_words(rng, n):
    """Distinct strings of all lengths of UTF-8, the empty one among them."""
    words = {"".join(rng.choice(PARTS, rng.integers(5))) for _ in range(n)}
    return sorted(words | {"", "a"}, key=lambda w: (len(w), w))


def table_of(words):
    return StringTable(*pack_strings(words, "surrogatepass"))


def arrays_of(table):
    return [table.text, table.ends, table.hashes, table.slots, table.seed]


def objects(words):
    return np.array([*words, None], dtype=object)[:-1]


@pytest.mark.parametrize("seed", range(3))
def test_a_table_is_a_dictionary(seed):
    rng = np.random.default_rng(seed)
    words = random_words(rng, 300)
    rng.shuffle(words)
    known, others = words[: len(words) // 2], words[len(words) // 2 :]
    table, code = table_of(known), dict(zip(known, range(len(known))))
    assert {w: table[w] for w in table} == code and len(table) == len(code)
    assert list(table) == known
    asked = [*words, np.str_("a"), 1, None, 2.5, ("a",), b"a"]
    assert [table.get(w) for w in asked] == [code.get(w) for w in asked]
    assert [w in table for w in asked] == [w in code for w in asked]
    want = [code.get(w, -3) for w in asked]
    assert table.ids(asked, -3).tolist() == want
    packed = pack_strings(words, "surrogatepass")
    assert table.packed_ids(*packed, -3).tolist() == [code.get(w, -3) for w in words]
    at = rng.integers(len(known), size=20).tolist()
    assert table.strings(at) == [known[i] for i in at]
    assert table.lengths().tolist() == list(map(len, known))
    with pytest.raises(KeyError):
        table[others[0]]
    with pytest.raises(TypeError, match="unhashable"):
        table.get(["a"])
    with pytest.raises(IndexError):
        table.strings([len(known)])


def test_a_table_has_its_arrays_from_the_beginning():
    with pytest.raises(TypeError, match="positional argument"):
        StringTable.__new__(StringTable)
    table = table_of(["a", "b"])
    with pytest.raises(TypeError, match="pickle|reduce"):
        pickle.dumps(table)
    assert table.get("b") == 1


@pytest.mark.parametrize("words", [[], [""], ["", "a"], ["\0", ""]])
def test_tables_of_few_strings(words):
    table = table_of(words)
    assert list(table) == words and "b" not in table
    assert table.ids(["", "b", *words]).tolist()[2:] == list(range(len(words)))
    assert table.packed_ids(*pack_strings(["", ""])).tolist() == [table.get("", -1)] * 2
    assert list(StringTable(*arrays_of(table))) == words


def test_a_string_is_there_once():
    with pytest.raises(ValueError, match="'ä' occurs twice"):
        table_of(["a", "ä", "b", "ä"])


def test_surrogates_are_not_valid_utf8():
    arrays = arrays_of(table_of(["a", "\ud800"]))
    assert list(StringTable(*arrays)) == ["a", "\ud800"]
    with pytest.raises(ValueError, match="string 1 is not valid UTF-8"):
        StringTable(*arrays, strict=True)


@pytest.mark.parametrize("seed", range(3))
def test_no_change_of_an_array_is_an_answer_that_differs(seed):
    """Any one entry: an error, or the same table."""
    rng = np.random.default_rng(seed)
    words = random_words(rng, 12)
    table = table_of(words)
    arrays, n_errors = arrays_of(table), 0
    for k, array in enumerate(arrays[:4]):
        for at in range(array.size):
            for value in (-1, 0, 1, 3, array[at] + 1, array[at] - 1, 10**9):
                other = [*arrays]
                other[k] = array.copy()
                other[k][at] = np.int64(int(value) % 2**63).astype(array.dtype)
                if value == -1:
                    other[k][at] = np.array(-1).astype(array.dtype)
                try:
                    again = StringTable(*other)
                except ValueError:
                    n_errors += 1
                else:
                    assert (other[k] == array).all() and list(again) == words
    assert n_errors > 200
    for k in range(4):
        for other_array in (arrays[k][:-1], np.append(arrays[k], arrays[k][-1:])):
            other = [*arrays]
            other[k] = other_array
            with pytest.raises(ValueError):
                StringTable(*other)
    with pytest.raises(ValueError, match="do not lead to each string"):
        StringTable(*arrays[:4], arrays[4] ^ 1)


def test_a_table_without_free_slots_is_refused():
    """No search in it would end."""
    table = table_of(["a", "b", "c", "d"])
    full = np.arange(8, dtype=np.int32) % 4
    with pytest.raises(ValueError, match="do not lead to each string"):
        StringTable(table.text, table.ends, table.hashes, full, table.seed)


def pairs_of_labels(rng):
    """Equal labels as a table and as arrays of NumPy's strings."""
    words = [w for w in random_words(rng, 30) if w and not w.endswith("\0")]
    rng.shuffle(words)
    classes, symbols = words[: len(words) * 2 // 3], words[len(words) // 3 :]
    if rng.integers(2):
        symbols = [*classes, *words[len(classes) :][:1]]
    marks = {"unknown": classes[0], "end": classes[1]}
    marks["start"] = next(w for w in symbols if w not in classes)
    if rng.integers(3) == 0:
        symbols, marks = None, {"unknown": classes[0]}
    return [
        Labels(make(classes), None if symbols is None else make(symbols), **marks)
        for make in (objects, np.array)
    ], words


@pytest.mark.parametrize("seed", range(3))
def test_labels_of_a_table_are_those_of_arrays(seed):
    rng = np.random.default_rng(seed)
    (a, b), words = pairs_of_labels(rng)
    assert a.strings is not None and b.strings is None
    assert a == b and b == a and a == pickle.loads(pickle.dumps(a))
    assert a.classes.tolist() == b.classes.tolist() and a.n_classes == b.n_classes
    assert a.n_symbols == b.n_symbols
    asked = objects([*words, "new", None, np.nan, 3])
    np.testing.assert_array_equal(a.encode_targets(asked), b.encode_targets(asked))
    strings = np.array(words).reshape(1, -1)
    np.testing.assert_array_equal(a.encode_targets(strings), b.encode_targets(strings))
    ids = rng.integers(a.n_classes, size=5)
    assert a.class_labels(ids) == b.class_labels(ids)
    names = ["start_id", "end_id", "unknown_id"] if a.n_symbols else ["unknown_id"]
    if a.n_symbols is not None:
        names += ["symbol_of_class", "class_of_symbol", "token_of_class"]
        names += ["class_of_token", "symbols"]
        assert {w: a.token_code[w] for w in a.token_code} == b.token_code
        for x in (asked, strings):
            np.testing.assert_array_equal(a.encode_contexts(x), b.encode_contexts(x))
        packed = pack_strings(words, "surrogatepass")
        for given in (words, packed):
            np.testing.assert_array_equal(a.tokens(given, 99), b.tokens(given, 99))
    for name in names:
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    for word in [*words, "new", 3]:
        assert a.class_id(word) == b.class_id(word)
        if a.n_symbols is not None:
            assert a.symbol_id(word) == b.symbol_id(word)


@pytest.mark.parametrize("make", [objects, np.array])
def test_labels_that_differ(make):
    words = ["a", "b", "c"]
    some = [
        Labels(make(words)),
        Labels(make(words), make(words)),
        Labels(make(words), make(words[:2])),
        Labels(make(words[:2]), make(words)),
        Labels(make(words), make(words[::-1])),
        Labels(make(["a", "b", "d"]), make(["a", "b", "d"])),
    ]
    for i, a in enumerate(some):
        assert [a == b for b in some] == [i == j for j in range(len(some))]


@pytest.mark.parametrize(
    ("token_of_class", "n_symbols"),
    [
        ([0, 1, 1], 3), ([0, 1, 3], 3), ([0, -1, 2], 3), ([0, 1], 2), ([0, 2, 1], 1),
        ([0, 1, 2], 4), ([0, 1, 2], -1), ([0, 1, 2], 2.0), ([1, 0, 2], None),
        ([0, 1], None), ([[0, 1, 2]], 3),
    ],
)  # fmt: skip
def test_numbers_of_a_table_are_checked(token_of_class, n_symbols):
    strings = Strings(table_of(["a", "b", "c"]), np.array(token_of_class), n_symbols)
    with pytest.raises(ValueError):
        Labels(strings)


def test_words_of_a_text_are_found_by_their_bytes():
    """As the strings, which are not made."""
    lines = ["a b ä", "語 a q", "b😀 b"]
    text = number_sentences(lines)
    labels = Labels(objects(["ä", "a", "b"]), objects(["a", "b", "語"]))
    found = labels.tokens(text.words, 7)
    assert "symbols" not in vars(text)
    assert found.tolist() == [labels.token_code.get(w, 7) for w in text.symbols]


def test_opening_a_model_makes_no_strings(tmp_path):
    n = 20_000
    lines = [" ".join(f"word{i}" for i in range(a, a + 20)) for a in range(0, n, 20)]
    model = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(lines)
    assert not {"classes", "symbols"} & set(vars(model._labels))
    path = tmp_path / "m.sklm"
    model.save(path)
    exchange.read(path)
    tracemalloc.start()
    try:
        opened = LanguageModel.load(path)
        log_prob = opened.score_samples(lines[:2])
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    np.testing.assert_allclose(log_prob, model.score_samples(lines[:2]))
    # Numbers of the classes and of the first level of the tree, and what makes them; a
    # string alone takes 49 bytes and its characters.
    assert peak < 48 * n
    assert opened.vocabulary_.tolist() == model.vocabulary_.tolist()
