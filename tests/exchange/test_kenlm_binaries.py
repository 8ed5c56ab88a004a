"""KenLM's binaries: KenLM reads ours, we read them back, damage is an error."""

import hashlib
import io
import warnings
from itertools import product

import numpy as np
import pytest

from sklstruct import KneserNeyLM, LanguageModel, exchange
from sklstruct.backoff import BackoffModel, prune
from sklstruct.compat import kenlm as ours
from sklstruct.context_tree import ContextTree, Pairs
from sklstruct.datasets import load_python_topics
from sklstruct.exchange import (
    _kenlm_ngrams,
    _probing,
    _probing_fast,
    _trie,
    _trie_fast,
)
from sklstruct.exchange._kenlm import probing_image, read_kenlm, write_trie
from sklstruct.exchange._kenlm_layout import read_layout
from sklstruct.symbols import Labels

TEXT = [" ".join(words) for words in load_python_topics()[:400]]
ODD = ["", "  ", "the", "x y z", "<unk> </s> the <s> a", "the\x0bof\tthe\x0c", "ü the"]
MARKS = {"start": "<s>", "end": "</s>", "unknown": "<unk>"}


def model_of(max_depth, sentences=TEXT, **parameters):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lm = LanguageModel(
            KneserNeyLM(discount=0.7), max_depth=max_depth, **parameters
        ).fit(sentences)
    return lm.backoff_model_


def unigrams():
    from sklstruct.smoothing import AdditiveLM

    lm = LanguageModel(AdditiveLM(delta=0.5), max_depth=0).fit(TEXT)
    return lm.backoff_model_


MODELS = {
    **{f"order {d + 1}": model_of(d) for d in (1, 2, 4)},
    "order 1": unigrams(),
    "pruned": prune(model_of(3), 1e-5),
    "no unknown": model_of(2, unknown=None),
    "no start": model_of(2, start=None),
    "no end": model_of(2, end=None),
}


def trie_image(model, **options):
    file = io.BytesIO()
    write_trie(model, **options)(file)
    return np.frombuffer(file.getvalue(), np.uint8).copy()


def trie(**options):
    return lambda model: trie_image(model, **options)


EXACT = {
    "probing": probing_image,
    "trie": trie(),
    "compressed": trie(pointer_bits=22),
}
IMAGES = {
    **EXACT,
    "quantised": trie(prob_bits=5, backoff_bits=4),
    "both": trie(prob_bits=8, pointer_bits=6),
}


@pytest.fixture(params=IMAGES, ids=lambda name: name)
def kind(request):
    return request.param


def read(image):
    return read_kenlm(io.BytesIO(bytes(image)), "file")


def mapped(image):
    return ours.Model._of_image(bytes(image), b"")


def all_scores(model, sentences):
    return [
        list(model.full_scores(s, bos, eos))
        for s in sentences
        for bos in (True, False)
        for eos in (True, False)
    ]


# Each model in two kinds of files, and each kind with several models.
models_and_kinds = pytest.mark.parametrize(
    "name, kind",
    [
        (name, list(IMAGES)[(i + j) % len(IMAGES)])
        for i, name in enumerate(MODELS)
        for j in (0, 2)
    ],
)


@models_and_kinds
def test_kenlm_has_our_scores(name, kind, tmp_path):
    kenlm = pytest.importorskip("kenlm")
    model = MODELS[name]
    path = tmp_path / "model.bin"
    path.write_bytes(IMAGES[kind](model))
    theirs = kenlm.Model(str(path))
    sentences = TEXT[300:] + ODD
    assert theirs.order == ours.Model(path).order == max(2, model.order)
    assert all_scores(theirs, sentences) == all_scores(ours.Model(path), sentences)


def marks_inside():
    """A model whose contexts hold a symbol that is never predicted, in the middle.

    The contexts "a" and "b a" have no pairs and no weight: a longer context begins with
    the first ("a <s>"), and none with the second.
    """
    tree = ContextTree([-1, 0, 0, 0, 1, 3], [-1, 0, 1, 3, 1, 0])
    pairs = Pairs(tree, [0, 4, 4, 5, 6, 6, 8], [0, 1, 2, 3, 0, 0, 1, 3])
    proba = [0.3, 0.2, 0.1, 0.4, 0.6, 0.55, 0.7, 0.15]
    words = ["a", "b", "<unk>"]
    return BackoffModel(
        pairs,
        np.log(proba),
        np.log([1, 1, 0.4, 0.5, 1, 0.25]),
        Labels([*words, "</s>"], [*words, "<s>"], **MARKS),
    )


def test_flags_are_those_of_kenlm(tmp_path):
    """Scores, lengths of n-grams, and which histories are one state."""
    kenlm = pytest.importorskip("kenlm")
    model = marks_inside()
    arpa, *binaries = (str(tmp_path / name) for name in ("m.arpa", "m.bin", "m.trie"))
    for path in (arpa, *binaries):
        exchange.write(model, path)
    words = ["a", "b", "<s>", "</s>", "z"]
    texts = [t for n in range(5) for t in product(words, repeat=n)]
    theirs = kenlm.Model(arpa)
    expected = all_scores(theirs, map(" ".join, texts))
    assert max(length for scores in expected for _, length, _ in scores) == 3
    modules = [(m, m.Model(path)) for m in (kenlm, ours) for path in binaries]
    for _, other in [*modules, (ours, ours.Model(arpa))]:
        assert all_scores(other, map(" ".join, texts)) == expected

    def classes(module, model):
        """The first history with an equal state, for each."""
        states = {}
        out = []
        for text in texts:
            state = module.State()
            model.NullContextWrite(state)
            for word in text:
                after = module.State()
                model.BaseScore(state, word, after)
                state = after
            out.append(states.setdefault(state, len(out)))
        return out

    same = classes(kenlm, theirs)
    assert 3 < len(set(same)) < len(texts)
    for module, other in modules:
        assert classes(module, other) == same


@pytest.mark.parametrize("name", [n for n in MODELS if not n.startswith("no ")])
def test_scores_are_those_of_the_model(name):
    """Of models with all marks, which KenLM always has."""
    model = MODELS[name]
    tables, labels = ours.Model.from_backoff(model), model.labels
    for sentence in TEXT[:50]:
        tokens = [labels.token_code.get(w, labels.unknown_id) for w in sentence.split()]
        history = [labels.start_id]
        total = 0.0
        for token in [*tokens, labels.token_of_class[labels.end_id]]:
            window = np.array([history[-max(1, model.max_depth) :]], dtype=np.int32)
            y = labels.class_of_token[token]
            row = model.rows(model.locate(window))
            total += row[0, y]
            history.append(token)
        assert tables.score(sentence) == pytest.approx(total / np.log(10), rel=1e-5)


@models_and_kinds
def test_a_file_is_read_back(name, kind):
    model = MODELS[name]
    image = IMAGES[kind](model)
    again = read(image)
    assert again.order == model.order
    # Again the same tables, where words with the same ids stand.
    other, sentences = ours.Model.from_backoff(again), TEXT[350:] + ODD
    assert all_scores(other, sentences) == all_scores(mapped(image), sentences)
    assert EXACT.get(kind, trie())(again).size == (
        image.size if kind in EXACT else trie_image(model).size
    )


@pytest.mark.parametrize("name", MODELS)
def test_a_trie_holds_the_numbers_of_the_arpa_file(name, tmp_path):
    """Every n-gram, in single precision."""
    path = tmp_path / "m.arpa"
    exchange.write(MODELS[name], path)
    expected, got = exchange.read(path), read(trie_image(exchange.read(path)))
    assert_same_numbers(got, expected)


def assert_same_numbers(got, expected):
    """Every n-gram of one model is in the other, with equal single precision."""
    assert np.array_equal(got.labels.classes, expected.labels.classes)
    assert np.array_equal(got.labels.symbols, expected.labels.symbols)
    assert got.labels.unknown == expected.labels.unknown
    assert np.array_equal(got.tree.parent, expected.tree.parent)
    assert np.array_equal(got.pairs.target, expected.pairs.target)
    for which in ("log_prob", "log_backoff"):
        a, b = (getattr(m, which) / np.log(10) for m in (got, expected))
        assert np.array_equal(a.astype(np.float32), b.astype(np.float32))


def random_model(seed):
    """Of order 1 to 6, with or without each mark, whole or pruned."""
    rng = np.random.default_rng(seed)
    order, n_words = int(rng.integers(1, 7)), int(rng.choice([2, 5, 30, 300]))
    words = [f"w{i}" for i in range(n_words)]
    text = [
        " ".join(rng.choice(words, rng.integers(1, 12)))
        for _ in range(rng.integers(3, 400))
    ]
    marks = {m: None for m in ("unknown", "start", "end") if rng.random() < 0.2}
    model = model_of(order - 1, text, **marks)
    if rng.random() < 0.4 and set(marks) <= {"unknown"} and order > 1:
        model = prune(model, 10 ** rng.uniform(-5, -3))
    return model, [*text[:10], "w0 zz w1", ""]


@pytest.mark.parametrize("seed", [0, 5, 10, 11])
def test_random_models(seed, tmp_path):
    """One model in all kinds of files."""
    model, texts = random_model(seed)
    path = tmp_path / "m.arpa"
    exchange.write(model, path)
    expected = exchange.read(path)
    scores = all_scores(ours.Model(path), texts)
    for name, image_of in EXACT.items():
        image = image_of(expected)
        assert all_scores(mapped(image), texts) == scores, name
        assert_same_numbers(read(image), expected)
    for name in set(IMAGES) - set(EXACT):
        image = IMAGES[name](expected)
        again = read(image)
        assert np.array_equal(again.pairs.target, expected.pairs.target)
        assert all_scores(ours.Model.from_backoff(again), texts) == all_scores(
            mapped(image), texts
        )


def arpa_of_order_5():
    """Every n-gram of a text, with numbers of its rank."""
    words = [
        "<s>",
        *("abcdefg"[i * i * (i // 7) % 211 % 7] for i in range(500)),
        "</s>",
    ]
    sections = []
    for n in range(1, 6):
        grams = sorted({tuple(words[i : i + n]) for i in range(len(words) - n + 1)})
        lines = []
        for i, gram in enumerate(grams):
            weight = ""
            if gram[-1] != "</s>" and n < 5:
                weight = f"\t-{(i * 7 % 19 + 1) / 16}"
            lines.append(f"-{(i * 5 % 23 + 1) / 8}\t{' '.join(gram)}{weight}")
        if n == 1:
            lines.append("-4.5\t<unk>")
        sections.append(lines)
    text = "\\data\\\n"
    for n, s in enumerate(sections, 1):
        text += f"ngram {n}={len(s)}\n"
    for n, s in enumerate(sections, 1):
        text += f"\n\\{n}-grams:\n" + "\n".join(s) + "\n"
    return text + "\n\\end\\\n"


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"pointer_bits": 22}, "215244bb5541e34accf2022222663eda"),
        (
            {"prob_bits": 3, "backoff_bits": 2, "pointer_bits": 1},
            "8c6f268748cab97b6b7d147e4ce02928",
        ),
        ({"prob_bits": 2}, "6f6650c98fd2e4e3432ea93d09986826"),
    ],
)
def test_a_trie_has_the_bytes_of_kenlm(options, expected):
    """Hashes of the files that KenLM's build_binary makes of this ARPA file."""
    model = exchange.read(io.BytesIO(arpa_of_order_5().encode()))
    image = trie_image(model, **options)
    assert hashlib.sha256(image.tobytes()).hexdigest()[:32] == expected


@pytest.mark.parametrize("n", [20_000, 70_000])
def test_a_large_vocabulary(n):
    words = [f"w{i}" for i in range(n)]
    order = np.random.default_rng(0).permutation(words)
    texts = [" ".join(order[i : i + 7]) for i in range(0, len(order), 7)]
    model = model_of(2, texts)
    image = trie_image(model, pointer_bits=22)
    assert image.size < trie_image(model).size < probing_image(model).size
    tables, other = mapped(image), ours.Model.from_backoff(model)
    assert len(set(map(tables.id_of, map(str.encode, words)))) == len(words)
    some = [*texts[:300], *(" ".join(t.split()[::-1]) for t in texts[:300])]
    assert np.array_equal(tables.score_many(some), other.score_many(some))


def test_quantised_numbers_are_the_nearest_of_means():
    """By hand: of each order, the means of equal parts of the sorted numbers."""
    model = MODELS["order 3"]
    exact, rounded = (
        mapped(image) for image in (trie_image(model), trie_image(model, prob_bits=2))
    )
    bigrams = {}
    for a, b in {p for t in TEXT for p in zip(t.split(), t.split()[1:])}:
        bigrams[a, b] = [
            list(m.full_scores(f"{a} {b}", bos=False, eos=False))[1]
            for m in (exact, rounded)
        ]
    found = {e: r for (e, n, _), (r, *_) in bigrams.values() if n == 2}
    values = sorted(set(found.values()))
    assert len(values) == 4
    for e, r in found.items():
        assert abs(e - r) == pytest.approx(min(abs(e - v) for v in values), abs=1e-6)
    # KenLM takes the higher of two values that are equally near.
    near = _trie._nearest(np.float32([-2, -1, -0.5]), np.float32([-9, -1.5, -1.6, 0]))
    assert near.tolist() == [0, 1, 0, 2]
    bits = {"prob_bits": np.uint8(8), "pointer_bits": np.int64(3)}
    same = {name: int(value) for name, value in bits.items()}
    assert np.array_equal(trie_image(model, **bits), trie_image(model, **same))
    # With a value for each number nothing is rounded.
    assert_same_numbers(read(trie_image(model, prob_bits=16)), read(trie_image(model)))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"prob_bits": 0}, "prob_bits must be an integer from 1 to 25, got 0"),
        ({"prob_bits": True}, "prob_bits must be an integer"),
        ({"prob_bits": 8, "backoff_bits": 1}, "backoff_bits must be .* from 2 to 25"),
        ({"backoff_bits": 8}, "backoff_bits needs prob_bits"),
        ({"pointer_bits": 256}, "pointer_bits must be .* from 0 to 255"),
        ({"pointer_bits": 2.0}, "pointer_bits must be an integer"),
    ],
)
def test_options_of_a_trie_are_checked(options, message):
    with pytest.raises(ValueError, match=message):
        trie_image(MODELS["order 2"], **options)


def test_other_multipliers_hold_the_same():
    model = MODELS["order 3"]
    small, large = (probing_image(model, multiplier=m) for m in (1.01, 4))
    assert small.size < large.size
    a, b = (mapped(image) for image in (small, large))
    assert all_scores(a, TEXT[:50]) == all_scores(b, TEXT[:50])


@pytest.mark.parametrize(
    "name, multiplier", [("pruned", 1.0001), ("order 5", 1.5), ("order 1", 1.0001)]
)
def test_parts_of_tables_do_not_change_the_file(name, multiplier, monkeypatch):
    """Also if an entry passes several parts, and if it passes the end of the table."""
    model = MODELS[name]
    whole = probing_image(model, multiplier=multiplier)
    monkeypatch.setattr(_probing, "_WINDOW", 3)
    for size in (60, 1000, 50_000):
        monkeypatch.setattr(_probing, "_PART", size)
        assert np.array_equal(probing_image(model, multiplier=multiplier), whole)


@pytest.mark.parametrize(
    "name, kind",
    [("order 5", kind) for kind in IMAGES]
    + [(name, "both") for name in ("pruned", "order 1", "no unknown")],
)
def test_parts_of_a_trie_do_not_change_the_file(name, kind, monkeypatch):
    """Parts of one n-gram, of a few, and all in one."""
    model = MODELS[name]
    whole = IMAGES[kind](model)
    for size, samples in ((30_000, 100), (3000, 10_000)):
        monkeypatch.setattr(_trie, "_PART", size)
        monkeypatch.setattr(_kenlm_ngrams, "_SAMPLES", samples)
        assert np.array_equal(IMAGES[kind](model), whole)


@pytest.mark.parametrize("size", [12, 1 << 21])
@pytest.mark.parametrize("kind", [probing_image, trie_image])
def test_words_of_one_hash_are_an_error(kind, size, monkeypatch):
    """Also if both words are put in at the end, beyond their part of the table."""

    def hashing(text, ptr, out):
        hash_words(text, ptr, out)
        out[[7, 9]] = out[10:20].max()

    hash_words = _kenlm_ngrams.hash_words
    monkeypatch.setattr(_kenlm_ngrams, "hash_words", hashing)
    monkeypatch.setattr(_probing, "_PART", size)
    with pytest.raises(ValueError, match="^model: two words have one hash; rename"):
        kind(MODELS["order 2"])


def test_the_order_of_the_entries_does_not_change_a_table():
    """No entry passes a larger key on its way from its home, and this is one table."""
    rng = np.random.default_rng(0)
    keys = rng.integers(1, 2**64, 95, dtype=np.uint64)
    keys[::5] -= keys[::5] % np.uint64(100)  # at home in the first bucket
    keys[1] = 2**64 - 1
    entries = np.zeros((keys.size, 4), np.uint32)
    entries.view(np.uint64)[:, 0] = keys
    entries[:, 2:] = np.arange(2 * keys.size).reshape(-1, 2)
    tables = []
    for _ in range(5):
        table = np.zeros(1600, np.uint8)
        flat = rng.permutation(entries).view(np.uint8).ravel()
        beyond = flat.copy()
        n = _probing._fast.fill(table, 16, 100, 0, flat, beyond)
        again = _probing._fast.fill(table, 16, 100, -1, beyond[: 16 * n], flat)
        assert n >= 0 and again == 0
        tables.append(table)
    assert all(np.array_equal(table, tables[0]) for table in tables)
    found = tables[0].view(np.uint64).reshape(-1, 2)
    assert {tuple(row) for row in found[found[:, 0] > 0].tolist()} == {
        tuple(row) for row in entries.view(np.uint64).reshape(-1, 2).tolist()
    }
    for at in np.flatnonzero(found[:, 0]).tolist():
        passed = int(found[at, 0] % 100)
        while passed != at:
            assert 0 < found[passed, 0] < found[at, 0]
            passed = (passed + 1) % 100


def test_the_sign_of_a_weight_of_zero_says_whether_an_ngram_begins_with_it():
    weight = np.repeat([0.0, -0.0, -0.5, 0.25, -np.inf], 2)
    begins = np.tile([True, False], 5)
    bits = _kenlm_ngrams.weight_bits(weight, begins)
    got = bits.view(np.float32)
    assert np.array_equal(got, weight.astype(np.float32))
    assert np.signbit(got[:4]).tolist() == [False, True, False, True]


@pytest.mark.parametrize("multiplier", [1.0, 0, -2, np.nan, np.inf, "2", 100.5, 1e6])
def test_multipliers_are_checked(multiplier):
    with pytest.raises(ValueError, match="multiplier must be a number in .1, 100."):
        probing_image(MODELS["order 2"], multiplier=multiplier)


@pytest.mark.parametrize("multiplier", [1.01, 1.5, 100.0])
def test_tables_have_the_sizes_of_kenlm(multiplier):
    """A table has one bucket more than n-grams, or `multiplier` times as many."""
    sentences = ["a", "a b", "c"]  # tables of a few n-grams
    image = probing_image(model_of(2, sentences), multiplier=multiplier)
    layout = read_layout(memoryview(image), "file")
    many = [max(n + 1, int(np.float32(multiplier) * n)) for n in layout.counts]
    words, *others = many
    assert [layout.words.n, layout.unigrams.n] == [words, layout.counts[0] + 1]
    assert [table.n for table in layout.longer] == others
    room = 12 * words + 8 * (layout.counts[0] + 1) + 16 * others[0] + 12 * others[1]
    spelling = b"\0".join([b"<unk>", b"a", b"b", b"c", b"</s>", b"<s>"]) + b"\0"
    header = 88 + 20 + 3 * 8 + 4 + 8  # marks, parameters, counts, padding, words
    assert image.size == header + room + len(spelling)
    # Every word but <unk> has an entry in the table of words.
    used = layout.words.of(image).reshape(-1, 12)[:, :8].any(axis=1)
    assert used.sum() == layout.counts[0] - 1


def test_lost_ngrams_are_counted():
    """An n-gram whose context is gone would be lost: the file is refused."""
    image = probing_image(MODELS["order 3"])
    layout = read_layout(memoryview(image), "file")
    table = layout.longer[0].of(image).reshape(-1, 16)
    used = np.flatnonzero(table[:, :8].any(axis=1))
    # One key becomes that of no n-gram.
    table[used[5], :8] ^= 1
    with pytest.raises(ValueError, match=r"n-grams of order \d were found"):
        read(image)


def test_candidates_are_limited():
    with pytest.raises(ValueError, match="max_candidates"):
        read_kenlm(
            io.BytesIO(bytes(probing_image(MODELS["order 3"]))),
            "file",
            max_candidates=10,
        )


def change(image, at, value):
    out = image.copy()
    out[at : at + len(value)] = np.frombuffer(value, np.uint8)
    return out


@pytest.mark.parametrize(
    ("at", "value", "message"),
    [
        (0, b"text", "not a KenLM binary"),
        (50, b"9", "another version"),
        (88, b"\x01", "order 1"),
        (88, b"\xff", "order 255"),
        (92, b"\0\0\x80\x3f", "multiplier is 1"),
        (96, b"\x01", "is probing with rest costs; only probing and trie"),
        (96, b"\x02", r"search version 0 \(1 can be read\)"),
        (96, b"\x06", "of type 6; only probing and trie"),
        (104, b"\x01", "search version 1"),
        (108, b"\xff" * 8, "beyond the size"),
        (116, b"\xff\xff\xff\0", "beyond the size|cut short"),
        (136, b"\x01", "words, and"),
        (140, b"\x01\0", "words, and"),
    ],
)
def test_headers_are_checked(at, value, message):
    image = change(probing_image(MODELS["order 3"]), at, value)
    with pytest.raises(ValueError, match=message):
        read(image)


@pytest.mark.parametrize("place", [0, 4], ids=["probability", "back-off weight"])
@pytest.mark.parametrize("kind", ["probing", "trie", "both"])
def test_a_damaged_weight_is_told_by_the_score_that_meets_it(place, kind):
    image = IMAGES[kind](MODELS["order 3"])
    model = mapped(image)
    the = model.words().index("the")
    unigrams = read_layout(memoryview(image), "file").unigrams
    at = unigrams.first + unigrams.width * the + place
    nan = np.float32(np.nan).tobytes()
    broken = mapped(change(image, at, nan))
    state, after, end = ours.State(), ours.State(), ours.State()
    model.NullContextWrite(state)

    def word_by_word(score):
        score(state, "the", after)
        score(after, "the", end)

    for call in (
        lambda: broken.score("of the the", bos=False),
        lambda: list(broken.full_scores("of the the", bos=False)),
        lambda: broken.score_many(["of", "of the the", "of"], bos=False),
        lambda: word_by_word(broken.BaseScore),
        lambda: word_by_word(broken.BaseFullScore),
    ):
        with pytest.raises(ValueError, match="damaged weight"):
            call()
    assert broken.score("of of", bos=False) == model.score("of of", bos=False)


def test_ends_are_checked(kind):
    image = IMAGES[kind](MODELS["order 3"])
    layout = read_layout(memoryview(image), "file")
    first = [part.first for part in (layout.words, layout.unigrams, *layout.longer)]
    for size in (0, 20, 90, 110, 140, *first, layout.end - 1, layout.end + 1):
        with pytest.raises(ValueError, match="file"):
            read(image[:size])
    for size in (layout.end, image.size - 1):
        with pytest.raises(OSError, match="cut short or damaged: .* words are spelt"):
            mapped(image[:size])


def test_a_unigram_of_a_trie_is_not_above_1():
    image = trie_image(MODELS["order 3"])
    unigrams = read_layout(memoryview(image), "file").unigrams
    above = np.float32(0.5).tobytes()
    with pytest.raises(ValueError, match="log10-probability of a unigram is above 0"):
        read(change(image, unigrams.first + unigrams.width, above))


def test_full_tables_are_refused():
    """A probe in a table without an empty bucket would not end."""
    image = probing_image(MODELS["order 3"])
    layout = read_layout(memoryview(image), "file")
    for part in (layout.words, *layout.longer):
        full = image.copy()
        part.of(full).reshape(-1, part.width)[:, 7] |= 1
        with pytest.raises(OSError, match="no empty bucket"):
            mapped(full)


def test_ids_are_checked():
    image = probing_image(MODELS["order 3"])
    layout = read_layout(memoryview(image), "file")
    table = layout.words.of(image).reshape(-1, 12)
    table[np.flatnonzero(table[:, :8].any(axis=1))[3], 11] = 255
    with pytest.raises(OSError, match="beyond the number of words"):
        mapped(image)
    with pytest.raises(ValueError, match="^file: damaged: a word has an id beyond"):
        read(image)


def test_damage_of_a_trie_is_named():
    """Pointers, words, numbers, and the spelling of the words."""
    image = trie_image(MODELS["order 3"], prob_bits=3, pointer_bits=9)
    layout = read_layout(memoryview(image), "file")
    bigrams = layout.longer[0]
    values = layout.words.first + 8 * layout.n_words
    for at, value, message in (
        (layout.unigrams.first + 8, b"\xff", "pointers from order 1 do not divide"),
        (bigrams.offsets, b"\xff", "pointers from order 2 do not divide"),
        (bigrams.first, b"\xff" * 9, "words of the n-grams of order 2 do not rise"),
        (bigrams.probs, b"\xff" * 4, "a value of an n-gram of order 2 is not a number"),
        (layout.words.first, b"\xff", "is spelt as number 1, and found as number 0"),
        (values, b"\x03", "version 3 of quantised numbers"),
        (values + 1, b"\x1a", "of 26 and 3 bits"),
        (bigrams.offsets - 16 + 8, b"", "cut short"),
        (image.size - 1, b"x", "words are spelt"),
    ):
        broken = change(image, at, value)
        if not value:
            broken = broken[:at]
        with pytest.raises(ValueError, match=f"^file: .*{message}"):
            read(broken)


@pytest.mark.parametrize(
    "kind, n", [("probing", 100), *((kind, 300) for kind in IMAGES)]
)
def test_damaged_files_end_in_an_answer_or_an_error(kind, n):
    image = IMAGES[kind](MODELS["order 3"])
    rng = np.random.default_rng(0)
    ended = 0
    for _ in range(n):
        broken = image.copy()
        for _ in range(int(rng.integers(1, 4))):
            where = int(rng.integers(160 if rng.random() < 0.5 else broken.size))
            broken[where] = rng.integers(256)
        if rng.random() < 0.2:
            broken = broken[: int(rng.integers(broken.size))]
        for use in (
            lambda data: mapped(data).score_many(TEXT[:3]),
            read,
        ):
            try:
                use(broken)
            except (OSError, ValueError):
                ended += 1
    assert ended > n / 3


def test_orders_beyond_the_tables_are_refused():
    words = [f"w{i}" for i in range(40)]
    model = model_of(39, [" ".join(words)])
    with pytest.raises(ValueError, match="up to order 32"):
        probing_image(model)


def test_collisions_are_refused(monkeypatch):
    """Two n-grams of one key cannot be in a file."""
    fast, row_keys = _probing._fast, _probing._fast.row_keys

    def keys_of_one_word(node, last, *rest):
        row_keys(node, 0 * last + 1, *rest)

    monkeypatch.setattr(fast, "row_keys", keys_of_one_word)
    with pytest.raises(ValueError, match="one key"):
        probing_image(MODELS["order 3"])
    for keys in ([5, 7, 5], [3, 0]):
        entries = np.zeros((len(keys), 3), np.uint32)
        entries[:, 0] = keys
        entries = entries.view(np.uint8).ravel()
        table = np.zeros(96, np.uint8)
        assert fast.fill(table, 12, 8, 0, entries, entries.copy()) == -1


def test_mean_of_zeros_has_no_sign():
    """KenLM's table of quantised numbers has +0 for probabilities of 1."""
    zeros = np.full(3, -0.0, dtype=np.float32)
    assert not np.signbit(_trie._centres(zeros, 2)).any()


def test_a_trie_keeps_the_sign_of_a_zero():
    """KenLM stores the log-probability of a unigram as it reads it: 0 or -0."""
    lines = ["-1.5 <unk>", "-0 <s> -0.3", "-0.4 </s>", "-0 a -0.2", "0 b 0"]
    text = "\n".join(
        ["\\data\\", "ngram 1=5", "ngram 2=1", "", "\\1-grams:", *lines, ""]
        + ["\\2-grams:", "-0.1 <s> a", "", "\\end\\", ""]
    )
    image = trie_image(exchange.read(io.BytesIO(text.encode()), format="arpa"))
    layout = read_layout(image.data, "trie")
    rows = layout.unigrams.of(image).view(np.uint32).reshape(-1, 4)[:5, 0]
    assert rows[0] == np.float32(-1.5).view(np.uint32)
    assert sorted(rows[1:].tolist())[:2] == [0, 0x80000000]
    assert np.count_nonzero(rows == 0x80000000) == 2
    again = read_kenlm(io.BytesIO(image.tobytes()), "trie")
    assert not np.signbit(again.log_prob[again.log_prob == 0]).any()


def test_columns_and_keys_that_no_file_may_hold():
    data = np.zeros(16, dtype=np.uint8)
    assert _trie_fast.unpack(data, 64, 0, 8, 1).tolist() == [0]
    with pytest.raises(ValueError, match="reaches beyond the end"):
        _trie_fast.unpack(data, 72, 0, 8, 1)
    # A key of 0 would be an empty bucket.
    entries, beyond = np.zeros((2, 24), dtype=np.uint8)
    entries[0] = 4
    assert _probing_fast.fill(np.zeros(48, np.uint8), 12, 4, 0, entries, beyond) < 0
    entries[12] = 1
    assert _probing_fast.fill(np.zeros(48, np.uint8), 12, 4, 0, entries, beyond) == 0
