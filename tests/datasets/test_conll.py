"""CoNLL-U and files of columns: round trips, values, and lines that are wrong."""

import gzip
from io import BytesIO

import numpy as np
import pandas as pd
import pytest

from sklstruct.datasets import read_conll, write_conll

TREES = """# newdoc id = a
# sent_id = a-1
# text = vámonos al mar
1-2\tvámonos\t_\t_\t_\t_\t_\t_\t_\t_
1\tvamos\tir\tVERB\t_\t_\t0\troot\t_\t_
2\tnos\tnosotros\tPRON\t_\t_\t1\tobj\t_\t_
3-4\tal\t_\t_\t_\t_\t_\t_\t_\t_
3\ta\ta\tADP\t_\t_\t5\tcase\t_\t_
4\tel\tel\tDET\t_\t_\t5\tdet\t_\t_
5\tmar\tmar\tNOUN\t_\t_\t1\tobl\t_\t_
5.1\tver\tver\tVERB\t_\t_\t_\t_\t_\t_
5.2\tver\tver\tVERB\t_\t_\t_\t_\t_\t_

0.1\tel\tel\tDET\t_\t_\t_\t_\t_\t_
1\tmar 20 km\tmar\tNOUN\t_\t_\t0\troot\t_\tA=b c

"""
NER = "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\n# # O O\n\n\nc\u00a0d NN I-NP O\n\n"
COLUMNS = ("form", "pos", "chunk", "ner")


def written(bank, columns=None):
    file = BytesIO()
    write_conll(file, bank, columns)
    return file.getvalue().decode()


def test_words_ranges_and_empty_nodes_of_trees():
    bank = read_conll(TREES)
    assert bank.form == [["vamos", "nos", "a", "el", "mar"], ["mar 20 km"]]
    assert bank.upos == [["VERB", "PRON", "ADP", "DET", "NOUN"], ["NOUN"]]
    assert bank.head == [["0", "1", "5", "5", "1"], ["0"]]
    assert bank.sentence_ids == ["a-1", None]
    assert [k for k, _ in bank.extra_rows[0]] == [0, 2, 5, 5]
    assert bank.extra_rows[1][0][1][:2] == ("0.1", "el")
    assert bank.comments[0][0] == "# newdoc id = a"


def test_number_signs_and_spaces_of_unicode_are_words_in_files_of_spaces():
    bank = read_conll(NER, COLUMNS)
    assert bank.form == [["EU", "#"], ["c\u00a0d"]]
    assert bank.ner == [["B-ORG", "O"], ["O"]]
    bank = read_conll("# #\nx  \t y \n", ("form", "tag"), separator=" ")
    assert bank.form == [["#", "x"]]
    # A tab in the first row: comments begin with "#" and have no tab.
    text = "# newdoc id = 3\na b\tX\n#\tY\n"
    bank = read_conll(text, ("form", "tag"))
    assert bank.form == [["a b", "#"]]
    assert bank.comments == [["# newdoc id = 3"]]


def test_names_of_columns_in_the_file():
    text = "# global.columns = ID FORM PARSEME:MWE\n1\tgo\t1:VPC\n2\tup\t1\n\n"
    bank = read_conll(text)
    assert bank["parseme:mwe"] == [["1:VPC", "1"]]
    assert written(bank) == text
    with pytest.raises(ValueError, match="line 3: 3 columns instead of 10"):
        read_conll("# a\n" + text)  # only a first line names them


@pytest.mark.parametrize(
    ("text", "columns", "suffix"),
    [(TREES, "conllu", ""), (NER, COLUMNS, ".gz"), (TREES, "conllu", ".xz")],
    ids=["trees", "ner", "xz"],
)
def test_a_text_that_was_read_is_written_again(tmp_path, text, columns, suffix):
    path = tmp_path / f"a.conllu{suffix}"
    write_conll(path, read_conll(text, columns))
    if suffix == ".gz":
        assert gzip.decompress(path.read_bytes()).decode() == text
    bank = read_conll(path, columns)
    assert bank == read_conll(text, columns)
    assert written(bank) == text


def test_ends_of_lines_and_a_byte_order_mark():
    data = b"\xef\xbb\xbf" + NER.replace("\n", "\r\n").encode()
    assert read_conll(BytesIO(data), COLUMNS) == read_conll(NER, COLUMNS)
    assert read_conll(BytesIO(NER.strip().encode()), COLUMNS) == read_conll(
        NER, COLUMNS
    )


@pytest.mark.parametrize("seed", range(3))
def test_random_tables_come_back(seed):
    rng = np.random.default_rng(seed)
    letters = [*'ab#"-_|', "\u3000", "\u2028", "\x0b", "é", "😀"]
    separator = "\t" if seed % 2 else " "
    if separator == "\t":
        letters.append(" ")
    bank = {"form": [], "tag": [], "separator": separator}
    for _ in range(rng.integers(1, 9)):
        n = rng.integers(1, 6)
        for name in ("form", "tag"):
            words = ["".join(rng.choice(letters, rng.integers(1, 4))) for _ in range(n)]
            bank[name].append(words)
    again = read_conll(
        written(bank).replace("\n", "\r\n"), ("form", "tag"), separator=separator
    )
    assert again.form == bank["form"]
    assert again.tag == bank["tag"]


def test_answers_of_a_tagger_are_written():
    bank = read_conll(TREES)
    bank.upos = [np.array(["X"] * 5), [None]]
    new = read_conll(written(bank))
    assert new.upos == [["X"] * 5, ["_"]]
    assert new.extra_rows == bank.extra_rows
    plain = written({"form": bank.form, "upos": bank.upos}, "conllu")
    assert plain.splitlines()[4] == "5\tmar\t_\tX\t_\t_\t_\t_\t_\t_"
    assert read_conll(plain).form == bank.form


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "1\tvamos\tir",
            "1\tvamos",
            r"line 5: 9 columns instead of 10 \(id, form.*pass their names as columns",
        ),
        ("2\tnos", "3\tnos", "line 6: id '3' after 1 words"),
        ("3-4", "4-5", "line 7: id '4-5' after 2 words"),
        ("3-4", "3-3", "line 7: id '3-3'"),
        ("5.1", "4.1", "line 11: id '4.1' after 5 words"),
        ("3-4\tal", "# a comment\n3-4\tal", "line 7: a comment inside a sentence"),
        ("1\tvamos", "# a comment\n1\tvamos", "line 5: a comment inside a sentence"),
        ("3-4\tal", "# a\tb\n3-4\tal", "line 7: a comment inside a sentence"),
        ("3-4\tal", "3-99\tal", "line 13: the range 3-99 is beyond the 5 words"),
    ],
)
def test_wrong_lines_are_named(old, new, message):
    with pytest.raises(ValueError, match="the text, " + message):
        read_conll(TREES.replace(old, new))


def test_wrong_input(tmp_path):
    path = tmp_path / "latin.conll"
    path.write_bytes("a b\n\xe9 c\n".encode("latin-1"))
    with pytest.raises(ValueError, match=r"latin\.conll, line 2: not UTF-8"):
        read_conll(path, ("form", "tag"))
    with pytest.raises(FileNotFoundError):
        read_conll(tmp_path / "absent.conllu")
    with pytest.raises(
        ValueError, match="columns must be \"conllu\" or names, got 'x'"
    ):
        read_conll(path, "x")
    with pytest.raises(ValueError, match="columns must be different strings"):
        read_conll(path, ("form", "form"))
    with pytest.raises(ValueError, match="columns must be different strings"):
        read_conll(path, ("form", "comments"))
    with pytest.raises(ValueError, match="separator must be"):
        read_conll(path, ("form", "tag"), separator=",")
    with pytest.raises(ValueError, match="source must be a path or a binary file"):
        read_conll(["a b"])


@pytest.mark.parametrize(
    ("bank", "message"),
    [
        ({"form": [["a"]], "tag": [["X", "Y"]]}, "sentences of equal lengths"),
        ({"form": [["a"]], "tag": []}, "sentences of equal lengths"),
        ({"form": [["a\tb"]]}, "sentence 0 has a value that is empty or holds"),
        ({"form": [["a"], ["b\nc"]]}, "sentence 1 has a value"),
        ({"form": [["a", ""]], "separator": " "}, "sentence 0 has a value"),
        ({"form": [["a"], []]}, "sentence 1 has no words"),
        ({"form": [["a", "-DOCSTART-"]]}, "row that would be read as a comment"),
        ({"form": [["a\ud800"]]}, "sentence 0 is not text"),
        ({"form": [["a"]], "separator": ","}, "separator must be"),
        ({"form": [["a"]], "comments": ["# x"]}, r"comments'\]\[0\] must be a list"),
        ({"form": [["a"]], "extra_rows": [[(0, ("1-2",))]]}, "a row of 1 columns"),
        ({"form": [["a b"]], "separator": " "}, "sentence 0 has a value"),
        ({"form": "ab"}, "must be a list of sentences, got 'ab'"),
        ({"form": [["a"]], "comments": [[], []]}, "must have 1 entries"),
        ({"lemma": [["a"]]}, "bank must have one of the columns form"),
        ({"form": ["ab"]}, r"bank\['form'\] must have lists of words .* got 'ab'"),
        ({"form": [[b"a"]]}, r"must have lists of words that are not bytes, got \[b'a"),
        ({"form": [["a"]], "comments": [["x"]]}, "would be read as a word: 'x'"),
        ({"form": [["a"]], "comments": [["# x\ty"]]}, "would be read as a word"),
        ({"form": [["a"]], "comments": [["# x"]], "separator": " "}, "read as a word"),
        ({"form": [["a"]], "extra_rows": [[(0, ("1-2", "x"))]]}, "needs the column id"),
    ],
)
def test_sentences_that_cannot_be_written(tmp_path, bank, message):
    path = tmp_path / "a.conll"
    path.write_text("old")
    with pytest.raises(ValueError, match=message):
        write_conll(path, bank, ("form", "tag") if "form" in bank else ("form",))
    assert path.read_text() == "old"
    assert [p.name for p in tmp_path.iterdir()] == ["a.conll"]


@pytest.mark.parametrize(
    ("position", "number", "message"),
    [
        (-1, "1-2", "positions from 0 to 1, got -1"),
        (2, "2-3", "positions from 0 to 1, got 2"),
        (0, "x", r"bank\['extra_rows'\]\[0\]: id 'x' after 0 words"),
        (0, "1", "has the row of a word"),
        (0, "1-2", "the range 1-2 is beyond the 1 words"),
    ],
)
def test_extra_rows_that_would_not_be_read(position, number, message):
    bank = {"form": [["a"]], "extra_rows": [[(position, (number, "ab"))]]}
    with pytest.raises(ValueError, match=message):
        write_conll(BytesIO(), bank, ("id", "form"))


def test_a_comment_of_numbered_words_may_hold_a_tab():
    bank = read_conll(TREES.replace("# text", "# text\t"))
    assert any("\t" in line for line in bank.comments[0])
    assert read_conll(written(bank)).comments == bank.comments


@pytest.mark.parametrize("word", ["-DOCSTART-", "#"])
def test_words_that_would_be_comments_of_one_column(word):
    with pytest.raises(ValueError, match="row that would be read as a comment"):
        write_conll(BytesIO(), {"form": [[word]]})
    with pytest.raises(ValueError, match="row that would be read as a comment"):
        write_conll(BytesIO(), {"id": [[word]], "form": [["a"]]})


def test_sentences_may_be_iterators():
    bank = {"form": [iter(["a", "b"])], "tag": (map(str, (1, 2)),)}
    assert written(bank) == "a\t1\nb\t2\n\n"


def test_values_that_are_missing_or_empty():
    tags = [None, float("nan"), np.datetime64("NaT"), pd.NA, "nan"]
    text = written({"form": [["a"] * 5], "tag": [tags]})
    assert read_conll(text, ("form", "tag")).tag == [["_"] * 4 + ["nan"]]
    bank = {"form": [["a"]], "tag": [[""]]}
    assert read_conll(written(bank), ("form", "tag")).tag == [[""]]


def test_a_word_may_begin_with_a_byte_order_mark():
    text = written({"form": [["\ufeffa", "\ufeffb"], ["\ufeffc"]]})
    form = read_conll(text, ("form",)).form
    assert form == [["\ufeffa", "\ufeffb"], ["\ufeffc"]]


def test_arguments_of_other_types():
    with pytest.raises(ValueError, match="columns must be"):
        read_conll(TREES, 5)
    with pytest.raises(ValueError, match="bank must be a Bunch or a dict, got 5"):
        write_conll(BytesIO(), 5)
    # Names that are given are not those of the file.
    text = "# global.columns = ID FORM UPOS\n1\ta\tX\n"
    assert read_conll(text, ("n", "w", "t"), separator="\t").w == [["a"]]
    # A carriage return inside a line is a part of the word.
    with pytest.raises(ValueError, match="a line break"):
        written(read_conll("a\rb X\n", ("form", "tag")))
