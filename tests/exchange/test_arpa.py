"""ARPA files: against the kenlm module, round trips, and malformed files."""

import bz2
import gzip
import io
import lzma
from collections import Counter
from itertools import pairwise

import numpy as np
import pytest
from _cases import each_value
from _oracles import make_model

from sklstruct import exchange
from sklstruct.context_tree import ContextTree
from sklstruct.exchange import _arpa_fast, _arpa_read
from sklstruct.exchange._arpa_write import NgramRows, format_rows
from sklstruct.exchange._words import FileWords
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import WittenBellLM
from sklstruct.symbols import Labels
from sklstruct.symbols._text import WordTable

LN10 = np.log(10.0)


def read(text, **options):
    data = text.encode() if isinstance(text, str) else text
    return exchange.read(io.BytesIO(data), **options)


def written(model, **options):
    file = io.BytesIO()
    exchange.write(model, file, **options)
    return file.getvalue()


def log10_scores(model, words):
    """log10-probability of every word of a sentence and of its end; as for KenLM, that
    of an unknown word without a class is -100 after the empty context."""
    history = ["<s>", *words]
    width = max(model.max_depth, 1)
    padded = [None] * width + history
    windows = [padded[i + 1 : i + 1 + width] for i in range(len(history))]
    nodes = model.locate(model.labels.encode_contexts(np.array(windows, dtype=object)))
    targets = model.labels.encode_targets(np.array([*words, "</s>"], dtype=object))
    log10 = model.target(nodes, np.maximum(targets, 0)) / LN10
    for i in np.flatnonzero(targets < 0).tolist():
        log10[i], node = -100.0, nodes[i]
        while node:
            log10[i] += model.log_backoff[node] / LN10
            node = model.tree.parent[node]
    return log10


def kenlm_scores(data, sentences, tmp_path):
    kenlm = pytest.importorskip("kenlm")
    path = tmp_path / "model.arpa"
    path.write_bytes(data.encode() if isinstance(data, str) else data)
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    model = kenlm.Model(str(path), config)
    return [
        np.array([s for s, _, _ in model.full_scores(" ".join(w))]) for w in sentences
    ]


def assert_same_as_kenlm(data, model, tmp_path, words, seed=0, n=60):
    rng = np.random.RandomState(seed)
    vocabulary = [*words, "never-seen", "<unk>"]
    sentences = [
        [vocabulary[i] for i in rng.randint(len(vocabulary), size=rng.randint(9))]
        for _ in range(n)
    ]
    for words, want in zip(sentences, kenlm_scores(data, sentences, tmp_path)):
        got = log10_scores(model, words)
        np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5, err_msg=str(words))


def random_model(seed, depth=3, *, closed=True, with_unknown=True):
    """A normalised model over "<s>", words and maybe "<unk>", not closed for ARPA.

    closed=False leaves contexts in that no n-gram leads to.
    """
    rng = np.random.RandomState(seed)
    words = [f"w{i}" for i in range(6)] + (["<unk>"] if with_unknown else [])
    classes = sorted([*words, "</s>"])
    symbols = sorted([*words, "<s>"])
    V, S = len(classes), len(symbols)
    contexts = {()}
    for _ in range(40):
        c = tuple(rng.randint(S, size=rng.randint(1, depth + 1)).tolist())
        if closed:
            for i in range(len(c) + 1):
                for j in range(i, len(c) + 1):
                    contexts.add(c[i:j])
        else:
            contexts.update(c[i:] for i in range(len(c) + 1))
    rows = {(): rng.dirichlet(np.ones(V))}
    pair_of = {(): dict(enumerate(np.log(rows[()])))}
    bow = {}
    for c in sorted(contexts - {()}, key=len):
        own = np.flatnonzero(rng.rand(V) < 0.5)[: V - 1]
        above = rows[c[1:]]
        mass = rng.uniform(0.2, 0.9) if len(own) else 0.0
        scale = (1 - mass) / (1 - above[own].sum())
        row = above * scale
        if len(own):
            row[own] = mass * rng.dirichlet(np.ones(len(own)) * 3)
        rows[c] = row
        bow[c] = np.log(scale)
        pair_of[c] = {int(y): np.log(row[y]) for y in own}
    number, order = {(): 0}, [()]
    for k in range(1, depth + 1):
        level = [c for c in contexts if len(c) == k]
        for c in sorted(level, key=lambda c: (number[c[1:]], c[0])):
            number[c] = len(order)
            order.append(c)
    pair_ptr = np.cumsum([0] + [len(pair_of[c]) for c in order])
    return make_model(
        [-1] + [number[c[1:]] for c in order[1:]],
        [-1] + [c[0] for c in order[1:]],
        pair_ptr,
        [y for c in order for y in sorted(pair_of[c])],
        [pair_of[c][y] for c in order for y in sorted(pair_of[c])],
        [0.0] + [bow[c] for c in order[1:]],
        classes=np.array(classes, dtype=object),
        symbols=np.array(symbols, dtype=object),
        start="<s>",
        end="</s>",
        unknown="<unk>" if with_unknown else None,
    )


def assert_same_answers(a, b, atol):
    """Equal rows for random contexts, whatever pairs the models hold."""
    rng = np.random.RandomState(0)
    assert a.labels.symbols.tolist() == b.labels.symbols.tolist()
    windows = rng.randint(-1, a.n_symbols, size=(300, a.max_depth + 1))
    columns = b.labels.encode_targets(a.labels.classes)
    np.testing.assert_allclose(
        a.rows(a.locate(windows)),
        b.rows(b.locate(windows))[:, columns],
        rtol=0,
        atol=atol,
    )


@pytest.mark.parametrize(*each_value(depth=[1, 2, 3, 5], closed=[True, False]))
def test_written_file_scores_like_kenlm(tmp_path, depth, closed):
    model = random_model(depth, depth, closed=closed)
    assert model.check_normalized() < 1e-12
    data = written(model)
    assert_same_as_kenlm(data, model, tmp_path, [f"w{i}" for i in range(6)])


def test_model_without_unknown_word_scores_like_kenlm(tmp_path):
    model = random_model(3, with_unknown=False)
    data = written(model)
    assert b"<unk>" not in data
    again = read(data)
    assert again.labels.unknown is None
    assert again.labels.classes.tolist() == model.labels.classes.tolist()
    assert_same_as_kenlm(data, again, tmp_path, [f"w{i}" for i in range(6)])
    assert_same_answers(model, again, 1e-5)


def test_a_start_mark_of_ours_has_the_number_of_lmplz(tmp_path):
    """A probability of 1, which KenLM uses for a mark inside a text."""
    kenlm = pytest.importorskip("kenlm")
    for model in (random_model(0), random_model(1, 1, with_unknown=False)):
        lines = [line.split("\t") for line in written(model).decode().splitlines()]
        assert [line[0] for line in lines if line[1:2] == ["<s>"]] == ["0"]
        exchange.write(model, tmp_path / "m.arpa")
        exchange.write(model, tmp_path / "m.bin", format="kenlm")
        for name in ("m.arpa", "m.bin"):
            theirs = kenlm.Model(str(tmp_path / name))
            scores = list(theirs.full_scores("<s>", bos=False, eos=False))
            assert scores == [(0.0, 1, False)]


@pytest.mark.parametrize("number", ["-98.2", "-99", "-100", "-inf"])
def test_an_unknown_word_of_a_file_has_its_number(number):
    model = read(PRUNED.replace("-1.5\t<unk>", f"{number}\t<unk>"))
    assert model.labels.unknown == "<unk>"
    assert log10_scores(model, ["<unk>"])[0] == pytest.approx(-0.3 + float(number))


def test_a_model_of_sentences_without_ends_is_written_with_a_warning(tmp_path):
    """Files have an end mark: that of this model has the probability 0."""
    lm = LanguageModel(WittenBellLM(), max_depth=2, end=None).fit(["the cat", "a cat"])
    with pytest.warns(UserWarning, match="^end: .*include_end=False"):
        lm.save(tmp_path / "x.arpa")
    again = LanguageModel.load(tmp_path / "x.arpa")
    text = ["the cat", "cat"]
    assert again.perplexity(text, include_end=False) == pytest.approx(
        lm.perplexity(text), rel=1e-6
    )


def test_depth_zero_is_written_so_that_kenlm_loads_it(tmp_path):
    model = make_model(
        [-1],
        [-1],
        [0, 3],
        [0, 1, 2],
        np.log([0.2, 0.3, 0.5]),
        [0.0],
        classes=["</s>", "a", "<unk>"],
        unknown="<unk>",
    )
    data = written(model)
    again = read(data)
    assert again.max_depth == 0 and b"\\2-grams:" in data
    assert_same_as_kenlm(data, again, tmp_path, ["a"])


def test_symbols_that_are_not_classes_and_zero_probabilities(tmp_path):
    """Symbols that are not predicted, P = 0, bow = 0: finite numbers in the file."""
    inf = -np.inf
    model = make_model(
        [-1, 0, 0, 1],
        [-1, 0, 2, 1],
        [0, 3, 5, 5, 6],
        [0, 1, 2, 0, 1, 1],
        [np.log(0.4), np.log(0.6), inf, np.log(0.5), np.log(0.5), 0.0],
        [0.0, inf, 0.0, inf],
        classes=["</s>", "a", "b"],
        symbols=["a", "feature", "<s>"],
    )
    data = written(model)
    assert b"inf" not in data and b"nan" not in data
    lines = data.decode().splitlines()
    assert "-99\tb\t0" in lines and "-99\tfeature\t0" in lines
    again = read(data)
    assert_same_as_kenlm(data, again, tmp_path, ["a", "b", "feature"])
    got = np.exp(
        again.rows(
            again.locate(
                again.labels.encode_contexts(
                    [[None, "a"], ["feature", "a"], ["a", "<s>"]]
                )
            )
        )
    )
    columns = again.labels.encode_targets(["</s>", "a", "b"])
    np.testing.assert_allclose(
        got[:, columns], [[0.5, 0.5, 0], [0, 1, 0], [0.4, 0.6, 0]], atol=1e-6
    )


PRUNED = r"""\data\
ngram 1=7
ngram 2=6
ngram 3=3

\1-grams:
-99	<s>	-0.3
-0.8	a	-0.2
-0.9	b	-0.15
-1.0	c
-1.1	d	0.1
-0.7	</s>
-1.5	<unk>	-0.4

\2-grams:
-0.3	<s> a	-0.11
-0.4	a b	-0.12
-0.5	b c	-0.13
-0.2	c a
-0.6	<unk> b	-0.14
-0.25	b </s>

\3-grams:
-0.1	a b c
-0.15	<s> a d
-0.35	c a b

\end\
"""


def test_hand_written_files_score_like_kenlm(tmp_path):
    """Among them a pruned one: "<s> a d" is listed, its suffix "a d" is not."""
    words = ["a", "b", "c", "d"]
    assert_same_as_kenlm(PRUNED, read(PRUNED), tmp_path, words, n=200)
    without = PRUNED.replace("-1.5\t<unk>\t-0.4\n", "").replace("1=7", "1=6")
    without = without.replace("-0.6\t<unk> b\t-0.14\n", "").replace("2=6", "2=5")
    model = read(without)
    assert model.labels.unknown is None
    assert_same_as_kenlm(without, model, tmp_path, words, n=200)
    # Our file of it has the missing suffix and means the same.
    again = written(read(PRUNED))
    assert b"\ta d" in again
    assert_same_as_kenlm(again, read(PRUNED), tmp_path, words, n=200)


def test_missing_context_is_a_back_off_weight_of_one():
    """kenlm refuses such files; SRILM's definition gives a weight of 1."""
    text = PRUNED.replace("-0.4\ta b\t-0.12\n", "").replace("2=6", "2=5")
    model = read(text)
    full = read(PRUNED.replace("-0.4\ta b\t-0.12\n", "-1.1\ta b\t0\n"))
    for words in (["a", "b", "c"], ["a", "b", "d"], ["a", "b", "a", "b"]):
        np.testing.assert_allclose(
            log10_scores(model, words), log10_scores(full, words), atol=1e-12
        )
    data = written(model)
    assert b"\ta b" in data
    assert_same_answers(model, read(data), 1e-6)


def test_values_are_taken_literally():
    model = read(PRUNED)
    root = model.rows([0])[0] / LN10
    want = {"a": -0.8, "b": -0.9, "c": -1, "d": -1.1, "</s>": -0.7, "<unk>": -1.5}
    assert dict(zip(model.labels.classes, root.round(12))) == want
    assert model.labels.classes.tolist() == sorted(want)
    assert model.labels.symbols.tolist() == sorted({*want, "<s>"} - {"</s>"})
    assert (model.labels.start, model.labels.end, model.labels.unknown) == (
        "<s>",
        "</s>",
        "<unk>",
    )
    assert model.order == 3
    np.testing.assert_allclose(
        log10_scores(model, ["a", "b", "c", "c"]),
        # <s> a | "<s> a" backs off, "a b" | "a b c" | bow("b c") + bow(c) + c | c </s>
        [-0.3, -0.11 - 0.4, -0.1, -0.13 - 1.0, -0.7],
        atol=1e-12,
    )


def kneser_ney_arpa(sentences, order, discount=0.6):
    """Interpolated Kneser-Ney as a list of lines, the slow and plain way."""
    grams = [Counter() for _ in range(order + 1)]
    for s in sentences:
        s = ["<s>", *s, "</s>"]
        for k in range(1, order + 1):
            for i in range(len(s) - k + 1):
                grams[k][tuple(s[i : i + k])] += 1
    adjusted = [None] * (order + 1)
    adjusted[order] = dict(grams[order])
    for k in range(order - 1, 0, -1):
        left = Counter(g[1:] for g in grams[k + 1])
        adjusted[k] = {g: grams[k][g] if g[0] == "<s>" else left[g] for g in grams[k]}
    words = sorted({w for s in sentences for w in s} | {"</s>"})
    total, types = {}, {}
    for k in range(2, order + 1):
        for g, a in adjusted[k].items():
            total[g[:-1]] = total.get(g[:-1], 0) + a
            types[g[:-1]] = types.get(g[:-1], 0) + 1
    unigram = sum(adjusted[1][w,] for w in words)
    prob = {
        (w,): (adjusted[1][w,] - discount) / unigram
        + discount * len(words) / unigram / (len(words) + 1)
        for w in words
    }
    prob["<unk>",] = discount * len(words) / unigram / (len(words) + 1)
    bow = {h: discount * types[h] / total[h] for h in total}
    for k in range(2, order + 1):
        for g, a in adjusted[k].items():
            h = g[:-1]
            prob[g] = (a - discount) / total[h] + bow[h] * prob[g[1:]]
    prob["<s>",] = 1.0
    lines = ["\\data\\"]
    for k in range(1, order + 1):
        lines.append(f"ngram {k}={sum(len(g) == k for g in prob)}")
    for k in range(1, order + 1):
        lines += ["", f"\\{k}-grams:"]
        for g in sorted(prob, key=lambda g: g[::-1]):
            if len(g) == k:
                line = f"{np.log10(prob[g]):.9g}\t{' '.join(g)}"
                if k < order:
                    line += f"\t{np.log10(bow.get(g, 1.0)):.9g}"
                lines.append(line)
    return "\n".join([*lines, "", "\\end\\", ""])


@pytest.mark.parametrize("order", [2, 3, 4])
def test_kneser_ney_file_scores_like_kenlm_and_sums_to_one(tmp_path, order):
    rng = np.random.RandomState(order)
    words = [f"w{i}" for i in range(12)]
    sentences = [
        [
            words[int(i)]
            for i in np.minimum(rng.geometric(0.25, rng.randint(1, 9)), 12) - 1
        ]
        for _ in range(60)
    ]
    text = kneser_ney_arpa(sentences, order)
    model = read(text)
    assert model.order == order
    assert model.check_normalized(tol=1) < 1e-7
    rng = np.random.RandomState(0)
    windows = rng.randint(-1, model.n_symbols, size=(200, order))
    rows = np.exp(model.rows(model.locate(windows)))
    np.testing.assert_allclose(rows.sum(axis=1), 1, atol=1e-7)
    assert_same_as_kenlm(text, model, tmp_path, words, n=100)
    # Written and read again: the same arrays up to the decimals.
    again = read(written(model, precision=15))
    assert again.pairs == model.pairs
    np.testing.assert_allclose(again.log_prob, model.log_prob, rtol=0, atol=1e-14)
    np.testing.assert_allclose(again.log_backoff, model.log_backoff, atol=1e-14)


@pytest.mark.parametrize(*each_value(seed=range(4), closed=[True, False]))
def test_round_trip(seed, closed):
    model = random_model(seed, 1 + seed, closed=closed)
    again = read(written(model, precision=15))
    assert_same_answers(model, again, 1e-12)
    assert again.check_normalized() < 1e-11
    # A model that was read is written unchanged (15 decimals pass the change of base).
    for precision in (4, 7, 12):
        data = written(model, precision=precision)
        assert written(read(data), precision=precision) == data
    assert_same_answers(model, read(written(model, precision=4)), 4 * 0.5e-4 * LN10)


def test_every_context_and_suffix_is_listed():
    model = random_model(5, 4, closed=False)
    grams = set()
    for line in written(model).decode().split("-grams:")[1:]:
        for row in line.splitlines()[1:]:
            if "\t" in row:
                grams.add(tuple(row.split("\t")[1].split(" ")))
    for g in grams:
        assert len(g) == 1 or (g[:-1] in grams and g[1:] in grams)


def test_paths_gzip_and_file_objects(tmp_path):
    model = random_model(2)
    plain, packed = tmp_path / "a.arpa", tmp_path / "a.arpa.gz"
    exchange.write(model, plain)
    exchange.write(model, str(packed))
    assert plain.read_bytes() == gzip.decompress(packed.read_bytes()) == written(model)
    first = packed.read_bytes()
    exchange.write(model, packed)
    assert packed.read_bytes() == first
    want = read(written(model))
    # Gzip is recognised by content.
    renamed = tmp_path / "b.arpa"
    renamed.write_bytes(first)
    for source in (plain, str(plain), packed, renamed, io.BytesIO(first)):
        assert exchange.read(source) == want
    with pytest.raises(ValueError, match="open as text"):
        exchange.read(io.StringIO("\\data\\"))
    with pytest.raises(ValueError, match="path_or_file"):
        exchange.read(7)
    with pytest.raises(ValueError, match="path_or_file"):
        exchange.write(model, None)
    with pytest.raises(FileNotFoundError):
        exchange.read(tmp_path / "none.arpa")


def test_layouts_of_other_tools():
    want = read(PRUNED)
    assert read(PRUNED.replace("\n", "\r\n")) == want
    assert read(PRUNED.replace("\t", " ")) == want
    assert read(PRUNED.replace("\t", "  \t ").replace("\n", " \n")) == want
    assert read("made by some tool\n\n" + PRUNED) == want
    assert read(PRUNED.rstrip("\n")) == want
    assert read(PRUNED.replace("-grams:\n", "-grams:\n\n")) == want
    assert read(PRUNED.replace("ngram 1=7", "ngram  1 = 7")) == want
    assert read(PRUNED.replace("-0.5\tb c", "-5.0e-1\tb c")) == want
    assert read(PRUNED.replace("-0.5\tb c", "-.5\tb c")) == want
    # -inf is a probability of 0; the order of lines is free.
    zero = read(PRUNED.replace("-0.25\tb </s>", "-inf\tb </s>"))
    assert log10_scores(zero, ["b"])[-1] == -np.inf
    swapped = PRUNED.replace("-0.3\t<s> a\t-0.11\n", "").replace(
        "-0.25\tb </s>\n", "-0.25\tb </s>\n-0.3\t<s> a\t-0.11\n"
    )
    assert read(swapped) == want


def test_chunks_of_any_size_give_the_same_model(monkeypatch):
    want = read(PRUNED)
    for size in (1, 2, 7, 50, 333):
        monkeypatch.setattr(_arpa_read, "_CHUNK", size)
        assert read(PRUNED) == want
        assert read(PRUNED.rstrip("\n")) == want
        assert read(gzip.compress(PRUNED.encode())) == want


def test_a_short_file_is_read_by_short_requests():
    """Buffers of 16 MiB for thousands of short files exhaust the address space."""
    asked = []

    class File(io.BytesIO):
        def read(self, size=-1):
            asked.append(size)
            return super().read(size)

    assert _arpa_read.read_arpa(File(PRUNED.encode()), "file") == read(PRUNED)
    assert 0 < min(asked) <= max(asked) <= 1 << 17
    asked.clear()
    with pytest.raises(ValueError, match="without an n-gram"):
        _arpa_read.read_arpa(File((b" " * 63 + b"\n") * (3 << 14)), "file")
    assert asked == [1 << 16, 1 << 17, 1 << 18, 1 << 19, 1 << 20][: len(asked)]
    assert len(asked) > 3


def test_large_enough_to_grow_every_table():
    """More words and contexts than the first allocations hold."""
    rng = np.random.RandomState(0)
    n = 70_000
    words = [f"word{i}" for i in range(n)]
    pairs = sorted({(int(a), int(b)) for a, b in rng.randint(n, size=(30_000, 2))})
    lines = ["\\data\\", f"ngram 1={n + 1}", f"ngram 2={len(pairs)}", "", "\\1-grams:"]
    lines += [f"-{i % 7}.5\t{w}\t-0.{i % 9}" for i, w in enumerate(words)]
    lines += ["-1\t</s>", "", "\\2-grams:"]
    lines += [f"-0.{i % 10}\t{words[a]} {words[b]}" for i, (a, b) in enumerate(pairs)]
    model = read("\n".join([*lines, "", "\\end\\"]))
    assert model.n_classes == n + 1
    assert model.n_pairs == n + 1 + len(pairs)
    pick = rng.randint(len(pairs), size=200)
    nodes = model.locate(
        model.labels.encode_contexts([[words[pairs[i][0]]] for i in pick])
    )
    got = model.target(
        nodes, model.labels.encode_targets([words[pairs[i][1]] for i in pick])
    )
    np.testing.assert_allclose(got / LN10, [-(i % 10) / 10 for i in pick], atol=1e-12)


def renamed(model, names, **marks):
    return model.relabel(
        Labels(
            [names.get(w, w) for w in model.labels.classes],
            [names.get(w, w) for w in model.labels.symbols],
            **marks,
        )
    )


def test_marks_of_any_name():
    model = random_model(4)
    names = {"<s>": "a start", "</s>": "", "<unk>": "\t"}  # what no word may be
    other = renamed(model, names, start="a start", end="", unknown="\t")
    assert set(written(other).splitlines()) == set(written(model).splitlines())
    back = read(written(other))
    assert (back.labels.start, back.labels.end) == ("<s>", "</s>")
    assert_same_answers(model, read_as(back, model), 1e-5)
    with pytest.raises(ValueError, match=r"'\\t' cannot be written.*white space"):
        written(renamed(model, names, start="a start", end=""))  # a word
    with pytest.raises(ValueError, match="'<s>' is a class of the model"):
        written(renamed(model, {"<s>": "BOS", "w1": "<s>"}))


def read_as(model, other):
    """`model` with the symbol numbering of `other`, which must be the same set."""
    assert sorted(model.labels.symbols) == sorted(other.labels.symbols)

    class View:
        max_depth, n_symbols = model.max_depth, model.n_symbols
        labels = Labels(model.labels.classes, other.labels.symbols)
        rows = staticmethod(model.rows)

        @staticmethod
        def locate(windows):
            to = np.append(model.labels.encode_contexts(other.labels.symbols), -1)
            return model.locate(to[windows])

    return View


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("a b", r"'a b' cannot be written.*white space"),
        ("", r"'' cannot be written.*empty"),
        ("a\tb", "white space"),
        ("a\n", "white space"),
        ("\ud800", "cannot be encoded"),
        ("w1", None),
        (b"\xff", "not UTF-8"),
        (b"w2", "both written as 'w2'"),
    ],
)
def test_symbols_that_cannot_be_written(bad, message):
    symbols = np.array(["w0", "w1", "w2"], dtype=object)
    classes = np.array(["w0", bad, "w2"], dtype=object)
    model = make_model(
        [-1, 0],
        [-1, 1],
        [0, 3, 3],
        [0, 1, 2],
        np.log([0.2, 0.3, 0.5]),
        [0, 0],
        classes=classes,
        symbols=symbols,
    )
    if message is None:
        written(model)
    else:
        with pytest.raises(ValueError, match=message):
            written(model)


def test_integer_symbols_and_unknown_context_symbols():
    model = random_model(1)
    classes = np.arange(model.n_classes)
    numbers = model.relabel(Labels(classes))
    with pytest.raises(ValueError, match="file of n-grams needs the context symbols"):
        written(numbers)
    for precision in (0, 16, 7.0, True):
        with pytest.raises(ValueError, match="precision"):
            written(model, precision=precision)
    n = model.n_symbols
    numbers = model.relabel(Labels(classes, np.arange(100, 100 + n)))
    again = read(written(numbers))
    assert {"100", "0", "1", "<s>"} <= {*again.labels.symbols}


def test_an_end_mark_that_the_model_lacks_is_a_warning():
    text = "\\data\\\nngram 1=2\n\n\\1-grams:\n-0.3\ta\n-0.3\tb\n\n\\end\\\n"
    model = read(text)
    for name in ("arpa", "kenlm", "trie"):
        with pytest.warns(UserWarning, match="end: the model has no end mark"):
            again = read(written(model, format=name))
        assert (model.labels.end, again.labels.end) == (None, "</s>")


# ----------------------------------------------------------------------- numbers


def printed(numbers, precision=None):
    """The first column of unigrams with these log10 values, as text."""
    n = len(numbers)
    words = FileWords(Labels([f"w{i}" for i in range(n)], []))
    rows = NgramRows(
        np.zeros(n, dtype=np.int32),
        np.arange(n, dtype=np.int32),
        np.array(numbers, dtype=float),
        np.full(n, np.nan),
    )
    root = ContextTree(np.array([-1]), np.array([-1]))
    blocks = format_rows(rows, words, root, 2, precision)
    lines = b"".join(bytes(block) for block in blocks).decode().splitlines()
    return [line.split("\t")[0] for line in lines]


def test_numbers_of_a_text_stay_as_they_were():
    rng = np.random.default_rng(0)
    texts = ["0", "-0.5", "-99", "-99.999", "-120.25", "-inf", "-1e-07", "-4.3e-08"]
    texts += [
        f"-{rng.random() * 10.0 ** rng.integers(-4, 4):.{d}g}" for d in range(1, 13)
    ]
    texts += [
        f"-{x:.12g}" for x in rng.random(2000) * 10.0 ** rng.integers(-9, 4, 2000)
    ]
    # Through natural logarithms, as models hold them.
    values = np.array([float(t) for t in texts]) * LN10 / LN10
    for text, shown in zip(texts, printed(values)):
        assert float(shown) == float(text), (text, shown)


def test_other_numbers_are_of_single_precision():
    rng = np.random.default_rng(1)
    values = -rng.random(5000) * 10.0 ** rng.uniform(-9, 3, 5000)
    single = values.astype(np.float32)
    for given in (values, single.astype(float)):
        shown = printed(given)
        back = np.array([np.float32(float(t)) for t in shown])
        # A number of 12 digits by chance is written with these.
        assert (back == single).all()
    # KenLM prints the fewest digits that give the number back.
    digits = [len(t.split("e")[0].replace(".", "").lstrip("-0")) for t in shown]
    fewest = [len(np.format_float_scientific(x).split("e")[0]) - 2 for x in single]
    assert np.mean(digits) < np.mean(fewest) + 0.3


def test_numbers_beyond_the_usual_are_written_with_decimals_too():
    values = [-1e17, -1e300, -1234567.125, -np.inf, -1e-12, -999.9999999]
    for precision in (1, 7, 15):
        for value, shown in zip(values, printed(values, precision)):
            assert float(shown) == pytest.approx(value, rel=1e-7, abs=10.0**-precision)


# -------------------------------------------------------------- other programs


def test_every_line_below_the_highest_order_has_a_back_off_weight():
    """As lmplz writes it: decoders count lines of three columns only."""
    for seed in range(6):
        model = random_model(seed, 1 + seed % 3, closed=seed % 2 == 0)
        sections = written(model).decode().split("-grams:\n")[1:]
        for order, section in enumerate(sections, 1):
            lines = section.split("\n\n")[0].splitlines()
            n_columns = {line.count("\t") + 1 for line in lines}
            assert n_columns == ({3} if order < len(sections) else {2})
            assert {len(line.split("\t")[1].split()) for line in lines} == {order}


def test_decoders_find_every_word(tmp_path):
    """ctc-beam-decoder takes the words it can decode from the unigrams of the file."""
    decoder = pytest.importorskip("ctc_beam_decoder")
    pytest.importorskip("kenlm")
    # "b" is never a context: its back-off weight is 1, and no n-gram follows it.
    model = make_model(
        [-1, 0],
        [-1, 0],
        [0, 4, 5],
        [0, 1, 2, 3, 2],
        np.log([0.2, 0.3, 0.4, 0.1, 0.9]),
        np.log([1, 0.1 / 0.6]),
        classes=["</s>", "a", "b", "<unk>"],
        symbols=["a"],
        end="</s>",
        unknown="<unk>",
    )
    path = tmp_path / "model.arpa"
    exchange.write(model, path)
    assert set(decoder._unigrams_from_arpa(path)) >= {"a", "b"}
    # Two frames that say "b" or, a little less, "ab", which is not a word.
    labels = ["", "a", "b", " "]
    frames = np.log(
        [[0.01, 0.4, 0.58, 0.01], [0.58, 0.01, 0.4, 0.01], [0.97, 0.01, 0.01, 0.01]]
    ).astype(np.float32)
    decode = decoder.build_ctcdecoder(labels, kenlm_model_path=str(path)).decode
    assert decode(frames) == "b"


# ----------------------------------------------------------- what cannot be read


def test_count_of_thousands_of_digits_names_file_and_line(tmp_path):
    path = tmp_path / "long.arpa"
    for old, new, line, message in (
        ("2=6", "2=" + "9" * 5000, 3, "more than 2.31 - 1"),
        ("ngram 2=6", "ngram " + "9" * 5000 + "=6", 3, "count of 2-grams was exp"),
    ):
        path.write_text(swap(old, new))
        with pytest.raises(
            ValueError, match=f"long.arpa, line {line}: .*{message}"
        ) as e:
            exchange.read(path)
        assert len(str(e.value)) < 300
    zeros = swap("2=6", "2=" + "0" * 5000 + "6").replace("ngram 1", "ngram 0001")
    assert read(zeros) == read(PRUNED)


@pytest.mark.parametrize(
    ("data", "name"),
    [
        (b"\xef\xbb\xbf" + b"\\data\\\nngram 1=1\n", "UTF-8 byte order mark"),
        (b"\n\r\n\xef\xbb\xbf\\data\\\nngram 1=1\n", "UTF-8 byte order mark"),
        ("\ufeff\\data\\\n".encode("utf-16-le"), "mark of UTF-16"),
        ("\ufeff\\data\\\n".encode("utf-16-be"), "mark of UTF-16"),
    ],
)
def test_byte_order_marks_are_named(data, name):
    for packed in (data, gzip.compress(data)):
        with pytest.raises(ValueError, match=f"text with .*{name}; save it as UTF-8"):
            read(packed)


class Endless(io.RawIOBase):
    """A head, then the same bytes again and again; counts what was taken."""

    def __init__(self, head, again):
        self.rest, self.again, self.taken = head, again, 0

    def read(self, size=-1):
        assert size >= 0
        if len(self.rest) < size:
            self.rest += self.again * (size // len(self.again) + 1)
        out, self.rest = self.rest[:size], self.rest[size:]
        self.taken += size
        return out


BEFORE_ROWS = PRUNED[: PRUNED.index("-99")].encode()
FIRST_ROWS = PRUNED[: PRUNED.index("-1.0\tc")].encode()


@pytest.mark.parametrize(
    ("head", "again", "message"),
    [
        (b"", b"\0", "line 1: the line is longer than 16 MiB"),
        (b"", b"x", "line 1: the line is longer than 16 MiB"),
        (b"", b"\n", "more than 1 MiB of text without an n-gram"),
        (b"", b"made by some tool\n", "more than 1 MiB of text without an n-gram"),
        (b"\\data\\\n", b"\n", "more than 1 MiB of text without an n-gram"),
        (b"\\data\\\nngram 1=", b"1", "the line is longer than 16 MiB"),
        (BEFORE_ROWS, b"\n \n", "more than 1 MiB of text without an n-gram"),
        (BEFORE_ROWS, b"9", "the line is longer than 16 MiB"),
        (FIRST_ROWS, b"\n\n", "more than 1 MiB of text without an n-gram"),
        (FIRST_ROWS + b"-1 ", b"w", "the line is longer than 16 MiB"),
        (FIRST_ROWS + b"-1 c ", b"w ", "the line is longer than 16 MiB"),
    ],
)
def test_files_without_end_are_refused_early(head, again, message):
    file = Endless(head, again)
    with pytest.raises(ValueError, match=message):
        exchange.read(file)
    assert file.taken < 4 * _arpa_read._LONGEST_LINE


@pytest.mark.parametrize("module", [gzip, bz2, lzma])
def test_small_packed_file_that_unpacks_to_gigabytes(module):
    packed = module.compress(bytes(1 << 20)) * 4096  # members are unpacked one by one
    with pytest.raises(ValueError, match="line 1: the line is longer than 16 MiB"):
        read(packed)


@pytest.mark.parametrize("module", [bz2, lzma])
def test_other_compressions_by_content_and_by_name(module, tmp_path):
    suffix = {bz2: ".bz2", lzma: ".xz"}[module]
    assert read(module.compress(PRUNED.encode())) == read(PRUNED)
    path = tmp_path / f"model.arpa{suffix}"
    exchange.write(read(PRUNED), path)
    assert module.decompress(path.read_bytes()) == written(read(PRUNED))
    assert exchange.read(path) == read(written(read(PRUNED)))
    cut = module.compress(PRUNED.encode())[:-20]
    with pytest.raises(ValueError, match=r"ARPA data, line \d+: at or after.*broken"):
        read(cut)


def test_back_off_weights_that_no_file_can_hold():
    with pytest.raises(ValueError, match=rf"line {at('-0.9')}: .*1e300' is above 900"):
        read(swap("b\t-0.15", "b\t1e300"))
    assert written(read(swap("b\t-0.15", "b\t900")))  # as large as can be written


def test_parameters():
    with pytest.raises(TypeError, match="model must be a BackoffModel, got str"):
        written("model")


# ------------------------------------------------------------- old and new files


def test_a_refused_write_leaves_the_old_file(tmp_path):
    path = tmp_path / "model.arpa"
    exchange.write(read(PRUNED), path)
    before = path.read_bytes()
    bad = read(PRUNED)
    with pytest.raises(ValueError, match="cannot be written to a file"):
        exchange.write(renamed(bad, {"a": "two words"}), path)
    with pytest.raises(ValueError, match="open as text"):
        exchange.write(bad, io.StringIO())
    with pytest.raises(ValueError, match=r"'.zip' cannot be written"):
        exchange.write(bad, tmp_path / "model.zip")
    assert path.read_bytes() == before and len(list(tmp_path.iterdir())) == 1


# ------------------------------------------------------------ malformed files

LINES = PRUNED.splitlines()


def at(text):
    """Number of the line that starts with `text`."""
    return next(i for i, line in enumerate(LINES, 1) if line.startswith(text))


def swap(old, new):
    assert PRUNED.count(old) == 1
    return PRUNED.replace(old, new)


MALFORMED = {
    "two files": (
        PRUNED.rstrip() + "\n\n" + PRUNED,
        len(LINES) + 2,
        "'.*data.*' follows .end",
    ),
    "empty": ("", None, "the file is empty"),
    "no data": (PRUNED[7:], None, "no line .data"),
    "only header": ("\\data\\\n", 2, "cut short"),
    "no counts": ("\\data\\\n\n\\1-grams:\n", 3, "no counts"),
    "count not a number": (swap("2=6", "2=x"), 3, "'ngram 2=x' is not a count"),
    "count negative": (swap("2=6", "2=-6"), 3, "is not a count"),
    "counts out of order": (swap("ngram 2=6", "ngram 3=6"), 3, "count of 2-grams"),
    "count too large for ids": (swap("2=6", "2=99999999999"), 3, "2.31"),
    "no unigrams": (swap("1=7", "1=0"), 2, "no unigrams"),
    "too few unigrams": (swap("1=7", "1=8"), at("\\2-g"), "ngram 1=8"),
    "too many unigrams": (swap("1=7", "1=6"), at("-1.5"), "goes on after the 6"),
    "too few bigrams": (swap("2=6", "2=7"), at("\\3-g"), "after 6 n-grams.*2=7"),
    "too many bigrams": (swap("2=6", "2=5"), at("-0.25"), "goes on after the 5"),
    "too few trigrams": (swap("3=3", "3=4"), at("\\end"), "after 3 n-grams"),
    "too many trigrams": (swap("3=3", "3=2"), at("-0.35"), "goes on after the 2"),
    "huge count": (swap("3=3", "3=2000000000"), at("\\end"), "after 3 n-grams"),
    "section missing": (
        PRUNED[: PRUNED.index("\\2-")] + PRUNED[PRUNED.index("\\3-") :],
        at("\\2-g"),
        r".2-grams: was expected, not .+3-grams:",
    ),
    "section not counted": (
        swap("ngram 3=3\n", ""),
        at("-0.3\t") - 1,
        "'-0.11' is one field too many",
    ),
    "bigrams not counted": (
        "\\data\\\nngram 1=1\n\n\\1-grams:\n-1\ta\n\n\\2-grams:\n",
        7,
        "no count for it",
    ),
    "section twice": (swap("\\3-grams:", "\\2-grams:"), at("\\3-g"), "was expected"),
    "no end": (swap("\\end\\\n", ""), len(LINES), "end. is missing"),
    "cut in a section": (
        PRUNED[: PRUNED.index("-0.5\tb c")],
        at("-0.5\tb"),
        "2 of 6 2-grams",
    ),
    "cut in a line": (
        PRUNED[: PRUNED.index("b c\t")],
        at("-0.5\tb"),
        "must have 2 words.*fewer",
    ),
    "cut before a section": (
        PRUNED[: PRUNED.index("\\3-")],
        at("\\3-g"),
        "3-grams: is missing",
    ),
    "probability not a number": (swap("-0.5\tb", "x\tb"), at("-0.5\tb"), "'x' is not"),
    "probability nan": (swap("-0.5\tb", "nan\tb"), at("-0.5\tb"), "'nan' is not"),
    "probability inf": (swap("-0.5\tb", "inf\tb"), at("-0.5\tb"), "'inf' is not"),
    "probability hex": (swap("-0.5\tb", "0x1\tb"), at("-0.5\tb"), "'0x1' is not"),
    "probability 1e": (swap("-0.5\tb", "-1e\tb"), at("-0.5\tb"), "'-1e' is not"),
    "probability -": (swap("-0.5\tb", "-\tb"), at("-0.5\tb"), "'-' is not"),
    "probability 1.2.3": (
        swap("-0.5\tb", "-1.2.3\tb"),
        at("-0.5\tb"),
        "is not a log10",
    ),
    "probability huge": (swap("-0.5\tb", "-1e999\tb"), at("-0.5\tb"), "is not a log10"),
    "probability missing": (swap("-0.5\tb", "b"), at("-0.5\tb"), "'b' is not a log10"),
    "probability positive": (swap("-0.5\tb", "0.5\tb"), at("-0.5\tb"), "positive"),
    "unigram not a number": (swap("-0.9\tb", "?\tb"), at("-0.9"), "'\\?' is not"),
    "unigram twice": (swap("-1.0\tc", "-1.0\ta"), at("-1.0"), "'a' occurs twice"),
    "unigram without word": (swap("-1.0\tc", "-1.0"), at("-1.0"), "must have 1 word"),
    "unigram of two words": (swap("-1.0\tc", "-1.0\tc e"), at("-1.0"), "'e' is not a"),
    "unigram of many words": (
        swap("-1.0\tc", "-1.0\tc 1 e"),
        at("-1.0"),
        "at most one back-off",
    ),
    "back-off not a number": (swap("-0.13", "x.13"), at("-0.5\tb"), "'x.13' is not a"),
    "back-off nan": (swap("-0.13", "nan"), at("-0.5\tb"), "'nan' is not a"),
    "back-off at the highest": (
        swap("a b c", "a b c\t-0.1"),
        at("-0.1\ta"),
        "one field too many",
    ),
    "too few words": (swap("-0.1\ta b c", "-0.1\ta b"), at("-0.1\ta"), "fewer"),
    "too few words, back-off": (swap("b c\t", "b\t"), at("-0.5\tb"), "fewer"),
    "too many words": (swap("-0.5\tb c", "-0.5\tb c a"), at("-0.5\tb"), "'a' is not a"),
    "unknown word": (swap("-0.5\tb c", "-0.5\tb z"), at("-0.5\tb"), "'z' is not among"),
    "unknown context": (
        swap("-0.1\ta b c", "-0.1\tz b c"),
        at("-0.1\ta"),
        "'z' is not",
    ),
    "bigram twice": (
        swap("-0.2\tc a", "-0.2\ta b"),
        at("-0.2\tc"),
        "'a b' occurs twice",
    ),
    "trigram twice": (
        swap("-0.35\tc a b", "-0.35\ta b c"),
        at("-0.35"),
        "3-gram 'a b c' occurs twice",
    ),
    "start mark twice": (
        swap("-0.2\tc a", "-9\ta <s>").replace("-0.6\t<unk> b", "-9\ta <s>"),
        at("-0.6"),
        "'a <s>' occurs twice",
    ),
    "blank line in a section": (
        swap("-0.2\tc a\n", "\n-0.2\tc a\n"),
        at("-0.2\tc") + 1,
        "ends after 3",
    ),
    "not UTF-8": (
        PRUNED.encode().replace(b"\td\t", b"\t\xff\xfe\t").replace(b"a d", b"a c"),
        at("-1.1"),
        "not UTF-8",
    ),
    "bad gzip": (gzip.compress(PRUNED.encode())[:60], None, "gzip"),
    "cut gzip": (gzip.compress(PRUNED.encode())[:-9], None, "gzip"),
    "gzip checksum": (gzip.compress(PRUNED.encode())[:-8] + b"12345678", None, "gzip"),
    "gzip magic only": (b"\x1f\x8b", None, "gzip"),
    "binary": (bytes(range(256)) * 20, None, "no line .data"),
}


@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_file(case):
    data, line, message = MALFORMED[case]
    where = "" if line is None else f"line {line}: "
    with pytest.raises(ValueError, match=where + ".*" + message):
        read(data)


def test_error_names_the_file(tmp_path):
    path = tmp_path / "broken.arpa"
    path.write_text(swap("-0.5\tb", "x\tb"))
    with pytest.raises(ValueError, match=rf"broken.arpa, line {at('-0.5')}: "):
        exchange.read(path)


@pytest.mark.parametrize("n", [300, 1500])
def test_random_bytes_never_crash(n):
    """Random changes either raise ValueError or give a model that answers."""
    rng = np.random.RandomState(0)
    raised = 0
    base = PRUNED.encode()
    for i in range(n):
        data = bytearray(base)
        for _ in range(rng.randint(1, 4)):
            at = rng.randint(len(data))
            kind = rng.randint(4)
            if kind == 0:
                data[at] = rng.randint(256)
            elif kind == 1:
                del data[at : at + rng.randint(1, 20)]
            elif kind == 2:
                data[at:at] = data[rng.randint(len(data)) :][: rng.randint(1, 20)]
            else:
                data[at] = b"\t\n -.\\0a"[rng.randint(8)]
        data = bytes(data)
        if i % 5 == 0:
            data = bytearray(gzip.compress(data))
            data[rng.randint(2, len(data))] ^= 1 << rng.randint(8)
            data = bytes(data)
        try:
            model = read(data)
        except ValueError:
            raised += 1
            continue
        model.rows(np.arange(model.n_nodes))
        read(written(model))
    assert 7 / 15 * n < raised < n


@pytest.mark.parametrize(
    "text",
    [
        "-0",
        "-1",
        "-1.5",
        "-0.1",
        "-99",
        "-123.456",
        "-1e-5",
        "-2.5E+1",
        "-.5",
        "-5.",
        "-0.30102999566398119521",
        "-1234567890123456789012e-21",
        "-7.0e-300",
        "-0.000000000000000000000000012345",
    ],
)
def test_numbers_are_parsed_to_the_last_digits(text):
    words = WordTable()
    ids, values = np.zeros((1, 1), np.int32), np.zeros((1, 2))
    row, _, code, *_ = _arpa_fast.parse_block(
        words,
        f"{text}\tw\t{text}\n".encode(),
        0,
        2 * len(text) + 4,
        False,
        ids,
        values,
        0,
    )
    assert (row, code) == (1, _arpa_fast.DONE)
    assert values[0] == pytest.approx([float(text)] * 2, rel=1e-15, abs=1e-322)
    assert words.spelling() == [b"w"]


@pytest.mark.parametrize("precision", [6, 7, 8])
def test_numbers_and_words_to_the_last_byte(precision):
    """Seven decimals, the default, have their own code, and so have short words."""
    rng = np.random.default_rng(precision)
    n = 500
    words = [b"w" * k for k in (1, 15, 16, 17, 40)]
    values = -rng.random(n) * 10.0 ** rng.integers(-9, 3, n)
    values[:8] = 0.0, -1.0, -10.0, -9.99999996, -9.99999994, -1e-9, -0.5, 2.25
    last = rng.integers(len(words), size=n).astype(np.int32)
    buffer = np.empty(1 << 17, dtype=np.uint8)
    text = b"".join(words) + bytes(_arpa_fast.SPARE_BYTES)
    row, size = _arpa_fast.format_block(
        np.frombuffer(text, np.uint8),
        np.concatenate([[0], np.cumsum([len(w) for w in words])]).astype(np.int64),
        *[np.zeros(1, np.int32)] * 3, np.zeros(n, np.int32), last,
        values, values, precision, 150, 0, buffer,
    )  # fmt: skip

    def number(value):
        scaled = int(np.floor(abs(value) * 10.0**precision + 0.5))
        whole, fraction = divmod(scaled, 10**precision)
        decimals = f"{fraction:0{precision}d}".rstrip("0")
        sign = "-" if value < 0 and scaled else ""
        return f"{sign}{whole}" + ("." + decimals if decimals else "")

    lines = bytes(buffer[:size]).decode().splitlines()
    assert row == len(lines) == n
    for line, value, w in zip(lines, values, last):
        shown = number(value)
        assert line == f"{shown}\t{words[w].decode()}\t{shown}"


def test_the_table_of_words_grows():
    """The text has more words than the first arrays hold; each word is found again."""
    words = [f"w{i}" + "x" * (i % 40) for i in range(5000)]
    lines = ["\\data\\", f"ngram 1={len(words)}", f"ngram 2={len(words) - 1}", ""]
    lines += ["\\1-grams:", *(f"-1.5\t{w}\t-0.25" for w in words), ""]
    lines += ["\\2-grams:", *(f"-0.5\t{a} {b}" for a, b in pairwise(words))]
    text = "\n".join([*lines, "", "\\end\\", ""]).encode()
    model = exchange.read(io.BytesIO(text), format="arpa")
    assert model.labels.classes.tolist() == sorted(words)
    node = model.locate(model.labels.encode_contexts([[w] for w in words[:-1]]))
    target = model.labels.encode_targets(words[1:])
    assert model.target(node, target) == pytest.approx(-0.5 * np.log(10))
    twice = text.replace(words[4000].encode() + b"\t", words[17].encode() + b"\t", 1)
    with pytest.raises(ValueError, match=f"unigram '{words[17]}' occurs twice"):
        exchange.read(io.BytesIO(twice), format="arpa")
