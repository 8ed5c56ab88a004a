"""Every door of a file gives the numbers of KenLM, token by token, to the last bit.

Random files with weights, marks and <unk> anywhere are read by KenLM's module and by
ours; files that KenLM refuses are compared with a plain reader, a dictionary of
n-grams.
"""

import io
import math
import warnings
from itertools import product
from pathlib import Path

import numpy as np
import pytest
from _cases import each_value

from sklstruct import LanguageModel, exchange
from sklstruct.compat import kenlm as ours
from sklstruct.language_model import PerplexityTransformer

LN10 = math.log(10.0)
MARKS = ["<s>", "</s>", "<unk>"]
CORPORA = Path(__file__).parents[1] / "corpora"


# ------------------------------------------------------------------ a plain reader


class Plain:
    """A file of n-grams as a dictionary, scored by the definition of the format."""

    def __init__(self, text):
        self.ngrams = {}
        order = 0
        for line in text.split("\n"):
            fields = line.replace("\t", " ").split(" ")
            fields = [f for f in fields if f.strip("\r")]
            if line.startswith("\\") and line.rstrip().endswith("-grams:"):
                order = int(line[1 : line.index("-")])
            elif order and fields and not line.startswith("\\"):
                words = tuple(
                    "<unk>" if w == "<UNK>" else w for w in fields[1:][:order]
                )
                weight = float(fields[order + 1]) if len(fields) > order + 1 else 0.0
                self.ngrams.setdefault(words, (float(fields[0]), weight))
        self.order = order
        self.words = {w for (w, *more) in self.ngrams if not more}

    def number(self, history, word):
        # A mark that the file lacks is a mark, and not an unknown word.
        known = {*self.words, "<s>", "</s>"}
        word, *known = (w if w in known else "<unk>" for w in (word, *history))
        known = tuple(known)
        known = known[max(0, len(known) - self.order + 1) :]
        total = 0.0
        while (*known, word) not in self.ngrams:
            if not known:
                # A file may lack an unknown word, or a mark.
                return total + {"<unk>": -100.0, "</s>": -99.0, "<s>": 0.0}[word]
            total += self.ngrams.get(known, (0.0, 0.0))[1]
            known = known[1:]
        return total + self.ngrams[(*known, word)][0]

    def scores(self, words, bos, eos):
        text = [*words, "</s>"] if eos else list(words)
        before = ["<s>"] if bos else []
        return [self.number((*before, *text[:i]), word) for i, word in enumerate(text)]


# ------------------------------------------------------------------- random files


def random_number(rng):
    kind = rng.integers(12)
    if kind == 0:
        return rng.choice(["-99", "-98.5", "-99.5", "-99.999", "-120", "-300", "-inf"])
    if kind == 1:
        return rng.choice(["0", "-0", "0.0", "-1e-9", "-1e2"])
    return f"{-5 * rng.random():.{rng.integers(1, 11)}g}"


def random_weight(rng, closed):
    """Above 1 only in closed files: the sum for an n-gram that is added is below 1."""
    number = random_number(rng).replace("-inf", "-7")
    above = closed and number[0] == "-" and rng.random() < 0.15
    return number[1:] if above else number


def random_file(rng, closed=True):
    """An ARPA file that KenLM reads; closed=False: n-grams may lack their suffix."""
    order = int(rng.integers(2, 5))
    words = ["<s>", "</s>", *[f"w{i}" for i in range(rng.integers(1, 5))]]
    if rng.random() < 0.7:
        words.append("<UNK>" if rng.random() < 0.1 else "<unk>")
    grams = [[(w,) for w in words]]
    for _ in range(2, order + 1):
        before = set(grams[-1])
        room = [
            (*h, w)
            for h, w in product(grams[-1], words)
            if (*h, w)[1:] in before or not (closed or rng.random() < 0.8)
        ]
        share = rng.random() * 0.6
        rows = [g for g in room if rng.random() < share][:40]
        grams.append(rows or room[:1])
        if not grams[-1]:
            grams.pop()
            break
    order = len(grams)
    if order < 2:
        return random_file(rng, closed)
    lines = ["\\data\\", *(f"ngram {k}={len(g)}" for k, g in enumerate(grams, 1))]
    for k, rows in enumerate(grams, 1):
        lines += ["", f"\\{k}-grams:"]
        rows = [rows[i] for i in rng.permutation(len(rows))]
        for row in rows:
            fields = [random_number(rng), " ".join(row)]
            if k < order and rng.random() < 0.8:
                fields.append(random_weight(rng, closed))
            elif k == order and rng.random() < 0.1:
                fields.append("0")
            lines.append("\t".join(fields))
    return "\n".join([*lines, "", "\\end\\", ""])


def random_text(rng, n):
    words = [*MARKS, "<UNK>", "absent", *[f"w{i}" for i in range(5)]]
    return [
        " ".join(rng.choice(words, size=rng.integers(0, 8)).tolist()) for _ in range(n)
    ]


def scores(model, text):
    return [
        (float(p), int(n), bool(o))
        for bos, eos in product((True, False), repeat=2)
        for p, n, o in model.full_scores(text, bos, eos)
    ]


def kenlm_model(path):
    kenlm = pytest.importorskip("kenlm")
    config = kenlm.Config()
    config.show_progress = False
    config.arpa_complain = kenlm.ARPALoadComplain.NONE
    return kenlm.Model(str(path), config)


def doors(path, folder):
    """The models of a file by every way of this package; binaries for KenLM, too."""
    yield "compat", ours.Model(path)
    model = exchange.read(path)
    yield "from_backoff", ours.Model.from_backoff(model)
    copy = folder / "copy.arpa"
    exchange.write(model, copy)
    yield "ARPA again", ours.Model(copy)
    yield "ARPA again, KenLM", kenlm_model(copy)
    binary = folder / "copy.bin"
    exchange.write(model, binary, format="kenlm")
    yield "binary", ours.Model(binary)
    yield "binary, KenLM", kenlm_model(binary)
    exchange.write(exchange.read(binary), copy)
    yield "ARPA of the binary, KenLM", kenlm_model(copy)
    exchange.write(model, folder / "copy.sklm", format="native")
    native = exchange.read(folder / "copy.sklm")
    yield "native", ours.Model.from_backoff(native)
    lm = LanguageModel.load(path)
    lm.save(copy)
    yield "LanguageModel, KenLM", kenlm_model(copy)


def check_language_model(path, theirs, texts):
    """A LanguageModel has no marks inside a text, and numbers in double precision."""
    lm = LanguageModel.load(path, out_of_vocabulary="exclude")
    plain = [
        [w for w in text.split() if w not in ("<s>", "</s>", "<UNK>")]
        for text in texts
        if "\0" not in text
    ]
    if lm.unknown is None:
        plain = [[w for w in words if w != "<unk>"] for words in plain]
    for words, got in zip(plain, lm.token_log_proba(plain)):
        want = [p for p, _, _ in theirs.full_scores(" ".join(words))]
        known = ~np.isnan(got)
        np.testing.assert_allclose(
            got[known] / LN10, np.array(want)[known], rtol=1e-6, atol=1e-4
        )


def check_file(text, texts, folder, every_door):
    path = folder / "model.arpa"
    path.write_text(text, encoding="utf-8")
    try:
        theirs = kenlm_model(path)
    except OSError as exc:  # small tables have no room for what pruning left out
        assert "probing_multiplier" in str(exc)
        return check_with_plain(text, texts, path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # marks that occur twice
        found = doors(path, folder) if every_door else [("compat", ours.Model(path))]
        for name, model in found:
            assert model.order == theirs.order
            for sentence in texts:
                assert scores(model, sentence) == scores(theirs, sentence), (
                    f"{name}: {sentence!r}\n{text}"
                )
        if "\t<UNK>" not in text:
            check_language_model(path, theirs, texts)
    return True


def check_with_plain(text, texts, path):
    """Files that KenLM refuses have the numbers of a plain reader."""
    plain = Plain(text)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = ours.Model(path)
    for words in map(str.split, texts):
        for bos, eos in product((True, False), repeat=2):
            got = [p for p, _, _ in model.full_scores(" ".join(words), bos, eos)]
            want = plain.scores(words, bos, eos)
            np.testing.assert_allclose(got, want, rtol=1e-6, atol=1e-5, err_msg=text)
    return False


@pytest.mark.parametrize(*each_value(seed=range(6), closed=[True, False]))
def test_random_files_have_the_numbers_of_kenlm(seed, closed, tmp_path):
    pytest.importorskip("kenlm")
    rng = np.random.default_rng([seed, closed])
    known = [
        check_file(random_file(rng, closed), random_text(rng, 12), tmp_path, n == 0)
        for n in range(6)
    ]
    assert any(known)


@pytest.mark.slow
@pytest.mark.parametrize("closed", [True, False])
def test_many_random_files_have_the_numbers_of_kenlm(closed, tmp_path):
    pytest.importorskip("kenlm")
    rng = np.random.default_rng([99, closed])
    known = [
        check_file(random_file(rng, closed), random_text(rng, 40), tmp_path, n % 4 == 0)
        for n in range(400)
    ]
    assert sum(known) > 100


# ------------------------------------------------------------------- damaged files


def mutated(rng, data):
    """The file with a few fields of its n-grams replaced."""
    head, body = data.split("\\1-grams:", 1)
    lines = body.split("\n")
    for _ in range(rng.integers(1, 4)):
        at = int(rng.choice([i for i, line in enumerate(lines) if "\t" in line]))
        fields = lines[at].split("\t")
        kind = rng.integers(6)
        if kind == 0:
            fields[0] = random_number(rng)
        elif kind == 1 and len(fields) > 2:
            fields[2] = random_weight(rng, closed=False)
        elif kind == 2:
            fields = fields[:2]
        elif kind == 3:
            words = fields[1].split(" ")
            words[rng.integers(len(words))] = str(rng.choice([*MARKS, "<UNK>", "w0"]))
            fields[1] = " ".join(words)
        elif kind == 4:
            lines[at] = lines[at].replace("\t", " ")
            continue
        else:
            other = lines[int(rng.integers(len(lines)))]
            fields = other.split("\t") if "\t" in other else fields
        lines[at] = "\t".join(fields)
    return head + "\\1-grams:" + "\n".join(lines)


def compare_if_both_read(data, texts, path):
    """1 where both read the file, 0 otherwise."""
    path.write_bytes(data.encode())
    try:
        theirs = kenlm_model(path)
    except OSError:
        return 0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            mine = ours.Model(path)
        except OSError:  # we refuse words and n-grams that occur twice
            return 0
    for text in texts:
        assert scores(mine, text) == scores(theirs, text), f"{text!r}\n{data}"
    return 1


def check_mutated(n, seed, folder):
    pytest.importorskip("kenlm")
    rng = np.random.default_rng(seed)
    start = [p.read_text() for p in sorted((CORPORA / "arpa").iterdir())]
    n_read = 0
    for number in range(n):
        data = random_file(rng) if number % 2 else start[number // 2 % len(start)]
        words = [w for line in data.split("\n") for w in line.split("\t")[1:2]]
        words = sorted({w for gram in words for w in gram.split()})
        texts = [
            " ".join(rng.choice(words, rng.integers(0, 7)).tolist()) for _ in range(10)
        ]
        n_read += compare_if_both_read(mutated(rng, data), texts, folder / "m.arpa")
    return n_read


def test_mutated_files_have_the_numbers_of_kenlm(tmp_path):
    assert check_mutated(120, 0, tmp_path) > 30


@pytest.mark.slow
def test_many_mutated_files_have_the_numbers_of_kenlm(tmp_path):
    assert check_mutated(4000, 1, tmp_path) > 1000


# ------------------------------------------------------------------- single numbers

UNIGRAMS = ["-2.5\t<unk>", "-99\t<s>\t-0.4", "-0.9\t</s>", "-0.6\tred\t-0.3"]
BIGRAMS = ["-0.2\t<s> red", "-0.4\tred </s>"]


def file_of(*sections):
    lines = ["\\data\\", *(f"ngram {k}={len(s)}" for k, s in enumerate(sections, 1))]
    for k, section in enumerate(sections, 1):
        lines += ["", f"\\{k}-grams:", *section]
    return "\n".join([*lines, "", "\\end\\", ""])


FILES = {
    "no unknown word": file_of(UNIGRAMS[1:], BIGRAMS),
    "unknown word of -98.9": file_of(["-98.9\t<unk>", *UNIGRAMS[1:]], BIGRAMS),
    "a weight of the unknown word": file_of(["-99\t<unk>\t-3", *UNIGRAMS[1:]], BIGRAMS),
    "start mark of lmplz": file_of(
        [UNIGRAMS[0], "0\t<s>\t-0.4", *UNIGRAMS[2:]], BIGRAMS
    ),
    "start mark of -0.83": file_of(
        [UNIGRAMS[0], "-0.83\t<s>\t-0.4", *UNIGRAMS[2:]], [*BIGRAMS, "-1.98\tred <s>"]
    ),
    "a weight of the end mark": file_of(
        [*UNIGRAMS[:2], "-0.9\t</s>\t-2.6692", UNIGRAMS[3]], BIGRAMS
    ),
    "below -99": file_of(
        ["-99.999\t<unk>", *UNIGRAMS[1:3], "-120\tred\t-120.25"],
        [*BIGRAMS, "-300\tred red"],
    ),
    "infinite": file_of(UNIGRAMS, [*BIGRAMS, "-inf\tred red"]),
    "zero at the highest order": file_of(UNIGRAMS, [BIGRAMS[0] + "\t0", BIGRAMS[1]]),
    "zeros at the highest order": file_of(
        UNIGRAMS, [BIGRAMS[0] + "\t0.0", BIGRAMS[1] + "\t-0"]
    ),
    "missing suffix": file_of(
        [
            "-1.2\t<unk>",
            "-99\t<s>\t-0.4",
            "-0.9\t</s>",
            "-1.230014\tred\t-2.889763",
            "-0.651426\tfox\t-2.909602",
            "-1.278048\truns\t-1.578100",
        ],
        [
            "-0.2\t<s> red\t-0.15",
            "-0.35\tfox runs\t-0.05",
            "-0.5\truns </s>",
            "-0.9\tfox </s>",
        ],
        ["-0.1\t<s> red fox", "-0.2\tfox runs </s>"],
    ),
    "end mark twice": file_of([*UNIGRAMS, "-0.3\t</s>\t-4"], BIGRAMS),
    "start mark twice": file_of([*UNIGRAMS, "-0.3\t<s>\t-4"], BIGRAMS),
    "unknown word twice": file_of([*UNIGRAMS, "-1.5\t<unk>\t-0.7"], BIGRAMS),
    "both unknown words": file_of([*UNIGRAMS, "-1.5\t<UNK>\t-0.7"], BIGRAMS),
    "both, the other way": file_of(["-1.5\t<UNK>\t-0.7", *UNIGRAMS], BIGRAMS),
    "both in n-grams": file_of(
        [*UNIGRAMS[1:], "-1.5\t<UNK>\t-0.7", "-3\tzz", UNIGRAMS[0]],
        [*BIGRAMS, "-0.7\tred <UNK>", "-0.8\t<unk> zz"],
    ),
    "control characters in words": file_of(
        [*UNIGRAMS, "-1\tred\x1cfox\t-0.2", "-1.1\ta\x0bb", "-1.2\tc\x0cd"],
        [*BIGRAMS, "-0.3\tred\x1cfox red"],
    ),
    "small weights": file_of(
        [*UNIGRAMS[:3], "-1e-7\tred\t-4.3e-08"], [*BIGRAMS, "-1.25e-30\tred red"]
    ),
}


@pytest.mark.parametrize("name", FILES)
def test_numbers_of_marks_and_unusual_numbers(name, tmp_path):
    pytest.importorskip("kenlm")
    words = ["red", "fox", "runs", "zz", "absent", "red\x1cfox", *MARKS, "<UNK>"]
    texts = [" ".join(t) for n in range(3) for t in product(words, repeat=n)]
    texts += ["<s> red fox </s>", "a\x0bb red c\x0cd", "red\0fox"]
    assert check_file(FILES[name], texts, tmp_path, every_door=True)


@pytest.mark.parametrize("name", FILES)
def test_numbers_agree_with_a_plain_reader(name, tmp_path):
    """Also without KenLM."""
    text = FILES[name]
    if ("both" in name and "n-grams" not in name) or name == "unknown word twice":
        # The last of both lines counts.
        lines = [line for line in text.split("\n") if line.lower().find("<unk>") > 0]
        text = text.replace(lines[0] + "\n", "").replace("1=5", "1=4")
    path = tmp_path / "m.arpa"
    path.write_text(FILES[name])
    words = ["red", "fox", "runs", "absent", *MARKS]
    texts = [" ".join(t) for n in range(3) for t in product(words, repeat=n)]
    check_with_plain(text.replace("-1.5\t<UNK>\t-0.7\n-3", "-3"), texts, path)


@pytest.mark.parametrize("gone", ["<s>", "</s>", "<s> </s>", "<s> </s> <unk>"])
def test_files_without_marks_agree_with_a_plain_reader(gone, tmp_path):
    """KenLM refuses them: <s> is certain, </s> has 10^-99, <unk> 10^-100."""
    unigrams = [line for line in UNIGRAMS if line.split("\t")[1] not in gone.split()]
    text = file_of([*unigrams, "-1\tfox\t-0.2"], ["-0.4\tred fox", "-0.3\tred red"])
    path = tmp_path / "m.arpa"
    path.write_text(text)
    words = ["red", "fox", "absent", *MARKS]
    texts = [" ".join(t) for n in range(4) for t in product(words, repeat=n)]
    check_with_plain(text, texts, path)


def with_gaps(rng, text):
    """The file without some of its n-grams, which longer ones begin or end with."""
    sections = [
        [line for line in part.split("\n")[1:] if "\t" in line]
        for part in text.split("-grams:")[1:]
    ]
    for rows in sections[1:-1]:
        rows[:] = [row for row in rows if rng.random() < 0.6] or rows[:1]
    return file_of(*sections)


@pytest.mark.parametrize("seed", range(3))
def test_files_without_contexts_agree_with_a_plain_reader(seed, tmp_path):
    """KenLM refuses them; a context that is not listed has no back-off weight."""
    rng = np.random.default_rng(seed)
    for _ in range(4):
        text = with_gaps(rng, random_file(rng, closed=False))
        check_with_plain(text, random_text(rng, 15), write_text(tmp_path, text))


def test_a_file_of_unigrams_agrees_with_a_plain_reader(tmp_path):
    """With the weights of 0 that toolkits write."""
    text = file_of([f"{line}\t0.0000" for line in ("-1\t<unk>", "-0.3\ta", "-2\t</s>")])
    texts = ["a", "a b a", "b </s> a", ""]
    check_with_plain(text, texts, write_text(tmp_path, text))


def write_text(folder, text):
    path = folder / "m.arpa"
    path.write_text(text)
    return path


@pytest.mark.parametrize("name", FILES)
def test_native_and_binary_files_keep_every_number(name):
    model = read_text(FILES[name])
    if "twice" not in name and "both" not in name:
        before, after = Plain(FILES[name]), Plain(written(model))
        assert before.ngrams.items() <= after.ngrams.items()
    native = exchange.read(copied(model, "native"))
    assert native == model
    for a, b in zip(native.file_ngrams, model.file_ngrams):
        np.testing.assert_array_equal(a, b)
    # KenLM's tables, in single precision.
    first = copied(model, "kenlm")
    second = copied(exchange.read(first), "kenlm")
    assert copied(exchange.read(second), "kenlm").getvalue() == second.getvalue()


@pytest.mark.parametrize("seed", range(4))
def test_random_files_keep_every_number(seed):
    rng = np.random.default_rng(seed)
    text = random_file(rng, closed=seed % 2 == 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        before, after = Plain(text), Plain(written(read_text(text)))
    assert before.ngrams.items() <= after.ngrams.items()
    if seed % 2 == 0:
        added = set(after.ngrams) - set(before.ngrams)
        assert not added


def read_text(text):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return exchange.read(io.BytesIO(text.encode()))


def copied(model, format):
    file = io.BytesIO()
    exchange.write(model, file, format=format)
    file.seek(0)
    return file


def written(model):
    return copied(model, "arpa").getvalue().decode()


def test_a_perplexity_of_a_file_is_that_of_kenlm(tmp_path):
    """A start mark in a web page does not make the page impossible."""
    kenlm = pytest.importorskip("kenlm")
    path = tmp_path / "m.arpa"
    path.write_text(FILES["start mark of lmplz"])
    texts = ["<s> red red </s>", "red", "<s> <s> absent", "</s> red <s>"]
    found = PerplexityTransformer(path).fit_transform(texts)
    theirs = kenlm.Model(str(path))
    for text, perplexity in zip(texts, np.asarray(found)[:, 1]):
        assert perplexity == pytest.approx(theirs.perplexity(text), rel=1e-6)
        assert perplexity < 1e4


@pytest.mark.parametrize(
    "sections, match",
    [
        ((UNIGRAMS, [BIGRAMS[0] + "\t0.1"]), "line 12: '0.1' is one field too many"),
        (([*UNIGRAMS, "-0.1\tred"], BIGRAMS), "line 10: the unigram 'red' occurs twi"),
        (([*UNIGRAMS, "-0.1\tr\0f"], BIGRAMS), "line 10: 'f' is not a log10 back-off"),
    ],
)
def test_malformed_lines_are_refused(sections, match):
    with pytest.raises(ValueError, match=match):
        read_text(file_of(*sections))


def test_marks_that_occur_twice():
    same = file_of([*UNIGRAMS, UNIGRAMS[2]], BIGRAMS)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert exchange.read(io.BytesIO(same.encode())) == read_text(
            file_of(UNIGRAMS, BIGRAMS)
        )
    for name, lines, used in (
        ("end mark twice", "line 8 and another in line 10", 8),
        ("start mark twice", "line 7 and another in line 10", 7),
        ("unknown word twice", "line 6 and another in line 10", 10),
        ("both unknown words", "line 6 and another in line 10", 10),
        ("both, the other way", "line 6 and another in line 7", 7),
    ):
        with pytest.warns(UserWarning, match=f"{lines}; those of line {used} are"):
            exchange.read(io.BytesIO(FILES[name].encode()))


def test_a_perplexity_beyond_floats_is_infinite(tmp_path):
    path = tmp_path / "m.arpa"
    path.write_text(file_of([*UNIGRAMS[:3], "-2000\tred"], BIGRAMS))
    assert ours.Model(path).perplexity("red red red red") == math.inf


def test_a_pipe_is_read_once(tmp_path):
    """As `query <(zcat model.arpa.gz)` gives it."""
    import os
    import threading

    if not hasattr(os, "mkfifo"):
        pytest.skip("needs named pipes")
    text = FILES["start mark of lmplz"]
    plain = tmp_path / "m.arpa"
    plain.write_text(text)
    binary = tmp_path / "m.bin"
    exchange.write(read_text(text), binary, format="kenlm")
    for path in (plain, binary):
        pipe = tmp_path / f"pipe{path.suffix}"
        os.mkfifo(pipe)
        writer = threading.Thread(target=pipe.write_bytes, args=(path.read_bytes(),))
        writer.start()
        model = ours.Model(pipe)
        writer.join(timeout=60)
        assert scores(model, "red fox") == scores(ours.Model(path), "red fox")
