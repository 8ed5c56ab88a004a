"""Every door of a file gives the numbers of KenLM, token by token, to the last bit.

Random files with weights, marks and <unk> anywhere are read by KenLM's module and by
ours; files that KenLM refuses are compared with a plain reader, a dictionary of
n-grams.
"""

import io
import math
import warnings
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pytest

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
                words = tuple("<unk>" if w == "<UNK>" else w for w in fields[1:][:order])
                weight = float(fields[order + 1]) if len(fields) > order + 1 else 0.0
                self.ngrams.setdefault(words, (float(fields[0]), weight))
        self.order = order
        self.words = {w for (w, *more) in self.ngrams if not more}

    def number(self, history, word):
        if word not in self.words:
            word = "<unk>"
        known = tuple(w if w in self.words else "<unk>" for w in history)
        known = known[max(0, len(known) - self.order + 1) :]
        total = 0.0
        while (*known, word) not in self.ngrams:
            if not known:
                # What a file lacks: an unknown word, or a mark.
                return total + {"<unk>": -100.0, "</s>": -99.0, "<s>": 0.0}[word]
            total += self.ngrams.get(known, (0.0, 0.0))[1]
            known = known[1:]
        return total + self.ngrams[(*known, word)][0]

    def scores(self, words, bos, eos):
        text = [*words, "</s>"] if eos else list(words)
        before = ["<s>"] if bos else []
        return [
            self.number((*before, *text[:i]), word)
            for i, word in enumerate(text)
        ]


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
    for k in range(2, order + 1):
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
    lm = LanguageModel.from_arpa(path, out_of_vocabulary="exclude")
    plain = [
        [w for w in text.split() if w not in ("<s>", "</s>", "<UNK>")] for text in texts
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


@pytest.mark.parametrize("closed", [True, False])
@pytest.mark.parametrize("seed", range(12))
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
