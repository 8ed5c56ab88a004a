"""Our lmplz, build_binary and query print what KenLM's programs print.

Recorded outputs, and random cases where the programs are installed: see
`kenlm_programs`, which says how the outputs are recorded.
"""

import re
import sys
from pathlib import Path

import numpy as np
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from kenlm_programs import (
    Case,
    compare,
    compare_arpa,
    discounts_by_hand,
    find_programs,
    random_case,
    read_arpa,
    recorded_cases,
    run_kenlm,
    run_ours,
)

from sklstruct.compat import kenlm
from sklstruct.symbols import TextFile

RECORDED = recorded_cases()
ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "user_guide" / "command_line.rst"


@pytest.mark.parametrize("number", range(len(RECORDED)))
def test_recorded_outputs(number, tmp_path):
    case, theirs = RECORDED[number]
    result = compare(case, theirs, tmp_path)
    assert not result.problems
    assert result.n_lines > 5 or theirs.code


def test_records_cover_the_options():
    options = [" ".join(case.options) for case, _ in RECORDED]
    for needed in (
        "--prune 1", "--prune 0", "--vocab_pad", "--interpolate_unigrams 0",
        "--discount_fallback 0", "--skip_symbols",
    ):  # fmt: skip
        assert any(needed in text for text in options), needed
    assert any(case.vocabulary for case, _ in RECORDED)
    assert any(theirs.code for _, theirs in RECORDED)
    assert sum(len(theirs.tries) for _, theirs in RECORDED) > 40
    moved = [
        discounts_by_hand(case, True) != discounts_by_hand(case, False)
        for case, _ in RECORDED
    ]
    assert any(moved) and not all(moved)


@pytest.mark.skipif(
    find_programs() is None,
    reason="KENLM_PROGRAMS is not the folder of KenLM's programs",
)
def test_installed_programs(tmp_path):
    for seed in range(1000, 1030):
        case = random_case(seed)
        result = compare(case, run_kenlm(case, tmp_path, find_programs()), tmp_path)
        assert not result.problems, seed


def test_comparison_sees_small_differences():
    """A number that is off by 5e-5, a line that is missing, a word that is another."""
    case, theirs = next(pair for pair in RECORDED if pair[1].arpa.count("\t") > 20)
    assert compare_arpa(theirs.arpa, theirs.arpa)[1] == []
    lines = theirs.arpa.split("\n")
    at = next(i for i, line in enumerate(lines) if re.match(r"-0\.\d+\t", line))
    first, rest = lines[at].split("\t", 1)
    for line in ([f"{float(first) - 5e-5}\t{rest}"], [], [f"{first}\tx{rest}"]):
        other = "\n".join([*lines[:at], *line, *lines[at + 1 :]])
        assert compare_arpa(theirs.arpa, other)[1]


# ------------------------------------------------- what can be counted by hand


def lmplz(text, *options, order=2):
    code, out, err = run_ours("lmplz", "-o", order, *options, stdin=text.encode())
    assert code == 0, err
    return read_arpa(out), err


TEXT = "a b a c\na b d\nc a b\ne\n" * 2


def test_unigrams_that_are_pruned_give_their_mass_to_the_others():
    whole, _ = lmplz(TEXT, "--discount_fallback", order=1)
    # Occurrences: a 8, b 6, c 4, d 2, e 2, </s> 8; a discount of 1.5 from 3 on, of 1
    # for 2. Those of d and e, and the discounts of the others, are shared equally.
    fewer, err = lmplz(TEXT, "--discount_fallback", "--prune", 2, order=1)
    assert set(whole) - set(fewer) == {"d", "e"}
    total, left = 30.0, 4.0 + 1.5 * 4
    for word, n in (("a", 8), ("b", 6), ("c", 4), ("</s>", 8), ("<unk>", 1.5)):
        expected = (n - 1.5 + left / 5) / total
        assert 10 ** fewer[word][0] == pytest.approx(expected, rel=1e-6)
    assert "1 6/8 D1=0.5 D2=1 D3+=1.5" in err


def test_limit_vocab_file_counts_all_words(tmp_path):
    path = tmp_path / "words.txt"
    path.write_text("a\nb\nabsent\n")
    options = ["--discount_fallback", "--limit_vocab_file", path]
    whole, whole_err = lmplz(TEXT, "--discount_fallback", order=3)
    fewer, err = lmplz(TEXT, *options, order=3)
    allowed = {"a", "b", "<s>", "</s>", "<unk>"}
    assert set(fewer) == {gram for gram in whole if set(gram.split()) <= allowed}
    # Counts and discounts are those of all words.
    row = re.compile(r"^(\d) [\d/]+ (D1.*)$", re.M)
    assert row.findall(err) == row.findall(whole_err)
    rows = [10 ** fewer[word][0] for word in ("a", "b", "</s>", "<unk>")]
    assert sum(rows) == pytest.approx(1.0, abs=1e-6)
    # An equal list changes nothing.
    path.write_text("a b c d e")
    assert lmplz(TEXT, *options, order=3)[0] == whole


def test_large_texts_are_pruned_alike(tmp_path):
    rng = np.random.default_rng(0)
    words = [f"w{i}" for i in np.minimum(rng.zipf(1.3, 30_000), 3000)]
    path, some = tmp_path / "text", tmp_path / "words"
    path.write_text("\n".join(map(" ".join, np.reshape(words, (-1, 10)))) + "\n")
    some.write_text(" ".join(sorted(set(words))[::2]))
    assert TextFile(path, memory=2 << 20).number_or_count(192).parts  # not in memory
    files = []
    for memory in ("2M", "1G"):
        files.append(tmp_path / f"{memory}.arpa")
        given = ["-o", 3, "--text", path, "--arpa", files[-1], "-S", memory]
        more = ["--prune", 1, 1, 2, "--limit_vocab_file", some]
        assert run_ours("lmplz", *given, *more, "--discount_fallback")[0] == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert b"ngram 3=" in files[0].read_bytes()


def test_vocab_pad():
    whole, _ = lmplz(TEXT, "--discount_fallback")
    assert lmplz(TEXT, "--discount_fallback", "--vocab_pad", 7)[0] == whole
    padded, _ = lmplz(TEXT, "--discount_fallback", "--vocab_pad", 7000)
    ratio = 10 ** (whole["<unk>"][0] - padded["<unk>"][0])
    assert ratio == pytest.approx(1000, rel=1e-5)


def test_unigrams_without_interpolation():
    """<unk> has what the others held back."""
    model, _ = lmplz(TEXT, "--discount_fallback", "--interpolate_unigrams", 0, order=1)
    discounts = 1.5 * 4 + 1 * 2
    assert 10 ** model["<unk>"][0] == pytest.approx(discounts / 30, rel=1e-6)
    assert 10 ** model["a"][0] == pytest.approx((8 - 1.5) / 30, rel=1e-6)


def test_a_discount_of_zero():
    """KenLM takes every D with 0 <= D <= i."""
    # Words that occur once, twice, three times; </s> occurs once.
    words = [["a"], ["b", "c"], ["d", "e", "f", "g"]]
    line = " ".join(word for i, of in enumerate(words, 1) for word in of * i)
    n = [2, 2, 4, 0]
    y = n[0] / (n[0] + 2 * n[1])
    d = [i - (i + 1) * y * n[i] / n[i - 1] for i in (1, 2, 3)]
    np.testing.assert_allclose(d, [1 / 3, 0, 3], atol=1e-15)
    _, err = lmplz(line + "\n", order=1)  # without a fallback
    assert re.search(r"^1 10 D1=0.333333 D2=0 D3\+=3$", err, re.M)


def test_discounts_of_the_last_unigram():
    """The example of the page: ours are those of the formula, KenLM's are not."""
    page = PAGE.read_text(encoding="utf-8").split("*Counts of the last n-grams.*")[1]
    text = re.search(r"the text ::\n\n((?: {4}.*\n)+)", page)[1]
    text = re.sub(r"^ {4}", "", text, flags=re.M)
    stated = re.findall(r"D1=(\S+)\sD2=(\S+)\sD3\+=(\d+)", page)
    assert len(stated) == 2
    case = Case(text, 2, [], None, "")
    for numbers, is_raw in zip(stated, (False, True)):
        row = discounts_by_hand(case, is_raw)[0][1]
        np.testing.assert_allclose([float(d) for d in numbers], row, 1e-6)
    _, err = lmplz(text, "--discount_fallback")
    assert f"D1={stated[0][0]} D2={stated[0][1]} D3+={stated[0][2]}\n" in err


def test_control_characters_belong_to_words():
    text = "a\x1cb c\x0bd\0e\rf\tg\x0c\n" * 3
    model, _ = lmplz(text, "--discount_fallback", order=1)
    words = {"a\x1cb", "c\x0bd", "e", "f", "g\x0c"}
    assert set(model) == words | {"<s>", "</s>", "<unk>"}


def test_query_reads_words_to_their_end(tmp_path):
    path = tmp_path / "a.arpa"
    lmplz("a b\nb a\n" * 3, "--discount_fallback", "--arpa", path)
    given = ["query", "-v", "word", path]
    cut, whole = (run_ours(*given, stdin=b"a %s a\n" % w)[1] for w in (b"z", b"b\0c"))
    assert cut == whole.replace("b\0c", "z")


@pytest.mark.parametrize("order", [1, 2, 3])
def test_empty_text(order):
    given = ["lmplz", "-o", order, "--discount_fallback"]
    code, out, err = run_ours(*given)
    assert (code, out) == (1, "")
    assert err == (
        "sklstruct lmplz: standard input is empty: give at least one sentence\n"
    )
    assert run_ours(*given, stdin=b"\n")[0] == 0  # one empty sentence


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["--discount_fallback", "0.5", "3"], "between 0 and 2"),
        (["--discount_fallback", "-1"], "between 0 and 1"),
        (["--discount_fallback", "0", "0", "0", "0"], "at most 3 numbers"),
        (["--vocab_pad", "9", "--interpolate_unigrams", "0"], "--vocab_pad needs"),
        (["--collapse_values"], "--collapse_values is not supported"),
    ],
)
def test_lmplz_refuses(given, message):
    code, out, err = run_ours("lmplz", "-o", 2, *given, stdin=TEXT.encode())
    assert (code, out) == (1, "") and message in err


def test_format_of_lmplz_is_arpa_whatever_the_name(tmp_path):
    path = tmp_path / "model.bin"
    lmplz(TEXT, "--discount_fallback", "--arpa", path)
    assert path.read_bytes().startswith(b"\\data\\")


# ---------------------------------------------------------------- build_binary


def test_build_binary_options(tmp_path):
    """KenLM's own lines, with their options wherever getopt takes them."""
    arpa, binary = tmp_path / "m.arpa", tmp_path / "m.bin"
    lmplz(TEXT, "--discount_fallback", "--arpa", arpa)

    def build(*given):
        code, out, err = run_ours("build_binary", *given)
        assert out == ""
        return code, err

    assert build(arpa, binary)[0] == 0
    expected = binary.read_bytes()
    for given in (
        ["-i", "probing", arpa, binary],
        ["-a", "22", "-T", tmp_path, "-S", "1G", "-w", "after", arpa, binary, "-s"],
        ["probing", "-u", "-5", arpa, binary],
        [arpa, "-p", "1.5", binary],
    ):
        binary.unlink()
        assert build(*given)[0] == 0, given
        assert binary.read_bytes() == expected
    assert "no effect: -a" in build("-a", "22", arpa, binary)[1]
    for given, message in (
        (["hash", arpa, binary], "hash: the type must be probing or trie"),
        (["-q", "8", arpa, binary], "-q and -b quantise a trie"),
        (["-b", "8", "trie", arpa, binary], "-b needs -q"),
        (
            ["-q", "26", "trie", arpa, binary],
            "prob_bits must be an integer from 1 to 25",
        ),
        (["-r", "a b", arpa, binary], "-r: rest costs are not supported"),
    ):
        code, err = build(*given)
        assert code == 1 and message in err
    code, err = build(binary, tmp_path / "again.bin")
    assert code == 1 and "m.bin" in err
    assert binary.read_bytes() == expected
    with pytest.raises(SystemExit, match="2"):
        build(arpa)
    before = arpa.read_bytes()
    code, err = build(arpa, arpa)
    assert code == 1 and "would be read and written" in err
    assert arpa.read_bytes() == before


def test_unknown_probability_of_build_binary(tmp_path):
    path = tmp_path / "m.arpa"
    path.write_text(
        "\\data\\\nngram 1=3\nngram 2=1\n\n\\1-grams:\n-1\t<s>\t-0.3\n-0.3\ta\t0\n"
        "-0.3\t</s>\t0\n\n\\2-grams:\n-0.1\t<s> a\n\n\\end\\\n"
    )
    code, _, err = run_ours("build_binary", "-u", "-5", path, tmp_path / "m.bin")
    assert code == 1 and "has no <unk>" in err


@pytest.mark.parametrize(
    ("kind", "unigram", "longer"),
    [("probing", "-0", "-0"), ("trie", "0", "-0"), ("-q 8 trie", "0", "0")],
)
def test_sign_of_zero_is_that_of_kenlm(kind, unigram, longer, tmp_path):
    arpa, binary = tmp_path / "m.arpa", tmp_path / "m.bin"
    arpa.write_text(
        "\\data\\\nngram 1=4\nngram 2=2\nngram 3=1\n\n\\1-grams:\n-1\t<unk>\n"
        "-99\t<s>\t-0.3\n0\t</s>\n-1\ta\t-0.2\n\n\\2-grams:\n0\t<s> a\t-0.1\n"
        "-0.5\ta a\t-0.1\n\n\\3-grams:\n0\t<s> a a\n\n\\end\\\n"
    )
    assert run_ours("build_binary", *kind.split(), arpa, binary)[0] == 0
    query = ["query", "-v", "word", binary]
    printed = re.sub(r"=\d+", "", run_ours(*query, stdin=b"a a\n")[1])
    assert printed.startswith(f"a 2 {longer}\ta 3 {longer}\t</s> 1 -0.3\t")
    printed = re.sub(r"=\d+", "", run_ours(*query, "-n", stdin=b"</s>\n")[1])
    assert printed.startswith(f"</s> 1 {unigram}\t")


def test_zeros_and_empty_orders_are_as_the_page_says(tmp_path):
    given = ["--interpolate_unigrams", 0, "--discount_fallback"]
    text = b"a b c\nb a c\nc c a\n"
    _, out, _ = run_ours("lmplz", "-o", 2, *given, 1, 2, 3, stdin=text)
    assert "\n-307.65" in out and "inf" not in out
    _, out, _ = run_ours("lmplz", "-o", 2, *given, 0, stdin=text)
    assert "\t<s>\t-99\n" in out and "inf" not in out
    arpa, binary = tmp_path / "m.arpa", tmp_path / "m.bin"
    head, end = out.replace("\t-99\n", "\t-inf\n").split("\\end\\")
    head = re.sub(r"(ngram 2=\d+\n)", r"\1ngram 3=0\n", head)
    arpa.write_text(f"{head}\\3-grams:\n\n\\end\\{end}")
    assert run_ours("build_binary", arpa, binary)[0] == 0
    assert kenlm.Model(str(binary)).order == 2


def test_query_of_nothing(tmp_path):
    """KenLM's perplexity of no word is NaN."""
    path = tmp_path / "m.arpa"
    lmplz(TEXT, "--discount_fallback", "--arpa", path)
    assert run_ours("query", path)[1].splitlines() == [
        "Perplexity including OOVs:\tNaN",
        "Perplexity excluding OOVs:\tNaN",
        "OOVs:\t0",
        "Tokens:\t0",
    ]
    _, out, _ = run_ours("query", path, "-v", "word", "-v", "0", stdin=b"a\n")
    assert "=" not in out and "Total" not in out and "Tokens:\t2" in out


def test_query_of_a_last_line_without_a_line_feed(tmp_path):
    """KenLM counts its words as tokens, and leaves them out of the sums."""
    path = tmp_path / "m.arpa"
    lmplz(TEXT, "--discount_fallback", "--arpa", path)
    whole, cut = (
        run_ours("query", path, "-v", "0", stdin=text) for text in (b"a\n", b"a\nb c")
    )
    (one, n_one), (more, n_more) = (
        (float(out.split()[3]), int(out.split()[-1])) for _, out, _ in (whole, cut)
    )
    assert (n_one, n_more) == (2, 4) and more**2 == pytest.approx(one)
    assert "line feed" not in whole[2] and "has no line feed" in cut[2]
