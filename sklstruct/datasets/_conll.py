"""Tree banks and tagged text: files of CoNLL-U, and files of columns."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from io import BytesIO
from typing import Any

from sklearn.utils import Bunch

from .._files import open_read, open_write
from ..symbols import is_missing

_CONLLU = ("id", "form", "lemma", "upos", "xpos", "feats") + (
    ("head", "deprel", "deps", "misc")
)
# A first line of CoNLL-U Plus names the columns.
_NAMES = "# global.columns ="
_RANGE = re.compile(r"([1-9][0-9]*)-([1-9][0-9]*)\Z")
_EMPTY = re.compile(r"(0|[1-9][0-9]*)\.[1-9][0-9]*\Z")
# str.split() would also split words at a no-break space.
_BLANKS = re.compile("[ \t]+")
_DOCUMENT = "-DOCSTART-"
# A byte order mark, which a reader drops at the start of a file.
_MARK = "\ufeff"
# Keys of a bank that are not columns.
_OTHERS = ("comments", "extra_rows", "sentence_ids", "separator")


def read_conll(
    source: Any,
    columns: str | Sequence[str] = "conllu",
    *,
    separator: str | None = None,
) -> Bunch:
    r"""Read a tree bank or tagged text, one word per line.

    A blank line ends a sentence. Files are UTF-8, and values are strings: the
    underscore of CoNLL-U for an absent value stays "_".

    Parameters
    ----------
    source : path-like, str or binary file object
        The file; compressed data is recognised by its first bytes. A string that
        holds a line break is the text itself.

    columns : "conllu" or sequence of str, default="conllu"
        Names of the columns. "conllu": the ten columns of CoNLL-U [1]_ in lower case,
        ``id, form, lemma, upos, xpos, feats, head, deprel, deps, misc``, or the columns
        that the first line of a CoNLL-U Plus file names, ``# global.columns = ID FORM
        UPOS``. For other files pass the names, such as ``("form", "pos", "chunk",
        "ner")``. A column ``id`` has the numbers of the words, as in CoNLL-U.

    separator : {"\t", " "}, default=None
        The separator of columns: a tab, or any number of spaces and tabs. None: a tab
        if `columns` is "conllu" or the first row of a word has one, else spaces.

    Returns
    -------
    bank : Bunch
        One list of sentences for each column, ``bank.form[i][j]``, and:

        comments : list of list of str
            Lines before each sentence, without line breaks. In files with tabs, lines
            that begin with "#" are comments if they have no tab or if ``id`` is the
            first column; in files with spaces "#" is a word. In all files, additional
            blank lines and lines with ``-DOCSTART-`` are comments. Lines after the last
            sentence are left out.
        extra_rows : list of list of (int, tuple of str)
            Rows of ranges of words (``1-2``) and of empty nodes (``3.1``) of each
            sentence, with the number of words before the row.
        sentence_ids : list of (str or None)
            The value of ``# sent_id = value`` in the comments.
        separator : str
            The tab or the space.

    Raises
    ------
    ValueError
        If a line has another number of columns, a comment is inside a sentence, the
        numbers of words are not 1, 2, ..., a range is beyond the sentence, or the text
        is not UTF-8. The message has the file and the line.

    OSError
        If the file cannot be read.

    See Also
    --------
    write_conll : Writes such a file.

    References
    ----------
    .. [1] The CoNLL-U format, https://universaldependencies.org/format.html

    Examples
    --------
    >>> from sklstruct.datasets import read_conll
    >>> text = "EU B-ORG\nrejects O\n\nPeter B-PER\nBlackburn I-PER\n"
    >>> bank = read_conll(text, ("form", "ner"))
    >>> bank.form
    [['EU', 'rejects'], ['Peter', 'Blackburn']]
    >>> bank.ner
    [['B-ORG', 'O'], ['B-PER', 'I-PER']]
    """
    if separator not in (None, "\t", " "):
        raise ValueError(f'separator must be "\\t" or " ", got {separator!r:.60}')
    names = _names(columns)
    if columns == "conllu":
        separator = separator or "\t"
    text = source
    if isinstance(source, str) and "\n" in source:
        text = BytesIO(source.encode("utf-8", "surrogatepass"))
    with open_read(text, name="source", what="the text") as (file, label):
        return _read(file, label, names, separator)


def write_conll(
    path_or_file: Any, bank: Mapping, columns: str | Sequence[str] | None = None
) -> None:
    r"""Write a tree bank or tagged text, one word per line.

    A file that `read_conll` has read is written line by line as it was, except that
    lines after the last sentence, carriage returns and runs of spaces are not kept.

    Parameters
    ----------
    path_or_file : path-like or binary file object
        A path is written to a temporary file, which is renamed at the end; the suffix
        gives the compression.

    bank : Bunch or dict
        Lists of sentences by name of column, such as the result of `read_conll` or
        ``{"form": X, "upos": tagger.predict(X)}``. The optional ``comments``,
        ``extra_rows`` and ``separator`` (default: a tab) are as in `read_conll`. A
        missing value (None, NaN or pandas' NA) is written as "_".

    columns : None, "conllu" or sequence of str, default=None
        Names of the columns in their order. None: the columns of `bank`. A column that
        is not in `bank` is written as "_", but ``id`` as the numbers of the words.

    Raises
    ------
    ValueError
        If columns have different lengths; if a sentence has no words or is a string; if
        a value is bytes, or has a separator or a line break, or is empty in a file with
        spaces; if all values of a row are blank; if `read_conll` would read a comment
        or extra row as a word, or a row as a comment.

    OSError
        If the file cannot be written. An existing file is then unchanged.

    See Also
    --------
    read_conll : Reads such a file.

    Examples
    --------
    >>> from io import BytesIO
    >>> from sklstruct.datasets import write_conll
    >>> file = BytesIO()
    >>> bank = {"form": [["dogs", "ran"]], "upos": [["NOUN", None]]}
    >>> write_conll(file, bank, columns=("id", "form", "upos"))
    >>> file.getvalue().decode().splitlines()
    ['1\tdogs\tNOUN', '2\tran\t_', '']
    """
    if not isinstance(bank, Mapping):
        raise ValueError(f"bank must be a Bunch or a dict, got {bank!r:.60}")
    found = [name for name in bank if name not in _OTHERS]
    names = _names(found if columns is None else columns)
    given = {name: _sentences(name, bank[name]) for name in names if name in bank}
    if not given:
        raise ValueError(f"bank must have one of the columns {', '.join(names)}")
    first, lengths = next((name, [*map(len, rows)]) for name, rows in given.items())
    for name, rows in given.items():
        if [*map(len, rows)] != lengths:
            raise ValueError(
                f"bank[{name!r}] and bank[{first!r}] must have sentences of "
                "equal lengths"
            )
    n = len(lengths)
    given.setdefault("id", [[str(j + 1) for j in range(m)] for m in lengths])
    absent = [["_"] * m for m in lengths]
    table = [given.get(name, absent) for name in names]
    comments = bank.get("comments") or [()] * n
    extra = bank.get("extra_rows") or [()] * n
    for name, rows in (("comments", comments), ("extra_rows", extra)):
        if len(rows) != n:
            raise ValueError(f"bank[{name!r}] must have {n} entries, one per sentence")
    separator = bank.get("separator", "\t")
    if separator not in ("\t", " "):
        raise ValueError(f'bank: separator must be "\\t" or " ", got {separator!r:.60}')
    for i, before in enumerate(comments):
        if isinstance(before, str) or any("\n" in line for line in before):
            raise ValueError(f"bank['comments'][{i}] must be a list of lines")
        wrong = [one for one in before if not _is_comment(one, names, separator)]
        if wrong:
            raise ValueError(
                f"bank['comments'][{i}] has a line that would be read as a word: "
                f"{wrong[0]!r:.60}"
            )
    bad = re.compile("[ \t\r\n]|^$" if separator == " " else "[\t\r\n]")

    def line(values: Iterable[str], i: int) -> str:
        values = tuple(values)
        whole = separator.join(values)
        if len(values) != len(names):
            raise ValueError(f"bank: sentence {i} has a row of {len(values)} columns")
        if any(map(bad.search, values)) or not whole.strip(" \t"):
            raise ValueError(
                f"bank: sentence {i} has a value that is empty or holds a separator "
                f"or a line break: {values!r:.60}"
            )
        if _is_comment(whole, names, separator):
            raise ValueError(
                f"bank: sentence {i} has a row that would be read as a comment: "
                f"{values!r:.60}"
            )
        return whole

    with open_write(path_or_file) as file:
        for i in range(n):
            lines = [line(row, i) for row in zip(*(column[i] for column in table))]
            if not lines and not extra[i]:
                raise ValueError(f"bank: sentence {i} has no words")
            m, place = len(lines), f"bank['extra_rows'][{i}]"
            for position, row in reversed(extra[i]):
                new = line(row, i)
                if "id" not in names or not 0 <= position <= m:
                    raise ValueError(
                        f"{place} needs the column id and positions from 0 to {m}, "
                        f"got {position} for {new!r:.60}"
                    )
                if not _is_extra(row[names.index("id")], position, place):
                    raise ValueError(f"{place} has the row of a word: {new!r:.60}")
                lines.insert(position, new)
            _check_ranges(extra[i], names, m, place)
            text = "\n".join([*comments[i], *lines, "", ""])
            if i == 0 and text.startswith(_MARK):
                text = _MARK + text
            try:
                file.write(text.encode())
            except UnicodeEncodeError as exc:
                raise ValueError(f"bank: sentence {i} is not text: {exc}") from exc


def _names(columns: str | Sequence[str]) -> tuple[str, ...]:
    """The names of the columns."""
    if isinstance(columns, str) and columns == "conllu":
        return _CONLLU
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        raise ValueError(f'columns must be "conllu" or names, got {columns!r:.60}')
    names = tuple(columns)
    wrong = [name for name in names if not isinstance(name, str) or name in _OTHERS]
    if wrong or not names or len(set(names)) < len(names):
        raise ValueError(
            f"columns must be different strings other than {', '.join(_OTHERS)}, got "
            f"{names!r:.60}"
        )
    return names


def _sentences(name: str, rows: Any) -> list[list[str]]:
    """A column of the bank as strings."""
    if isinstance(rows, str) or not isinstance(rows, Iterable):
        raise ValueError(
            f"bank[{name!r}] must be a list of sentences, got {rows!r:.60}"
        )
    rows = [row if isinstance(row, str | bytes) else list(row) for row in rows]
    for row in rows:
        if isinstance(row, str | bytes) or any(isinstance(one, bytes) for one in row):
            raise ValueError(
                f"bank[{name!r}] must have lists of words that are not bytes, got "
                f"{row!r:.60}"
            )
    return [["_" if is_missing(one) else str(one) for one in row] for row in rows]


def _lines(file: Iterable[bytes], label: str) -> Iterator[tuple[str, str]]:
    """(place, line) of each line, without its end."""
    for k, raw in enumerate(file, 1):
        place = f"{label}, line {k}"
        try:
            line = raw.decode("utf-8-sig" if k == 1 else "utf-8")
        except UnicodeDecodeError as exc:
            raise ValueError(f"{place}: not UTF-8 ({exc.reason})") from None
        yield place, line.removesuffix("\n").removesuffix("\r")
    yield f"{label}, end", ""


def _read(
    file: Iterable[bytes], label: str, names: tuple[str, ...], separator: str | None
) -> Bunch:
    """The columns of all sentences."""
    bank = Bunch(comments=[], extra_rows=[], sentence_ids=[])
    of_file = names == _CONLLU
    table: list[list[tuple[str, ...]]] = []
    comments: list[str] = []
    rows: list[tuple[str, ...]] = []
    extra: list[tuple[int, tuple[str, ...]]] = []
    lines = _lines(file, label)
    if separator is None:
        head = []
        for place, line in lines:
            head.append((place, line))
            if line and line[0] != "#":
                break
        separator = "\t" if "\t" in line else " "
        lines = itertools.chain(head, lines)
    # Equal values share one string, as a file has few tags and many rows.
    values: dict[str, str] = {}
    for place, line in lines:
        if line.startswith("#") and _is_comment(line, names, separator):
            if rows or extra:
                raise ValueError(f"{place}: a comment inside a sentence: {line!r:.60}")
            if of_file and not table and not comments and line.startswith(_NAMES):
                names = _names(line.removeprefix(_NAMES).lower().split())
            comments.append(line)
        elif line.strip(" \t"):
            parts = _fields(line, separator)
            row = tuple(map(values.setdefault, parts, parts))
            if row[0] == _DOCUMENT and not rows:
                comments.append(line)
            elif len(row) != len(names):
                raise ValueError(
                    f"{place}: {len(row)} columns instead of {len(names)} "
                    f"({', '.join(names)}): {line!r:.60}. If the file has other "
                    "columns, pass their names as columns"
                )
            elif "id" in names and _is_extra(row[names.index("id")], len(rows), place):
                extra.append((len(rows), row))
            else:
                rows.append(row)
        elif rows or extra:
            _check_ranges(extra, names, len(rows), place)
            table.append(rows)
            bank.comments.append(comments)
            bank.extra_rows.append(extra)
            bank.sentence_ids.append(_sentence_id(comments))
            comments, rows, extra = [], [], []
        else:
            comments.append(line)
    for k, name in enumerate(names):
        bank[name] = [[row[k] for row in rows] for rows in table]
    bank.separator = separator
    return bank


def _fields(line: str, separator: str) -> list[str]:
    """The columns of a line that is not blank."""
    return line.split("\t") if separator == "\t" else _BLANKS.split(line.strip(" \t"))


def _is_comment(line: str, names: tuple[str, ...], separator: str) -> bool:
    """Whether a line before the first row of a sentence is a comment."""
    if separator == "\t" and line.startswith("#"):
        return names[0] == "id" or "\t" not in line
    return not line.strip(" \t") or _fields(line, separator)[0] == _DOCUMENT


def _check_ranges(
    extra: Sequence, names: tuple[str, ...], n_words: int, place: str
) -> None:
    for _, row in extra:
        both = _RANGE.match(row[names.index("id")])
        if both and int(both[2]) > n_words:
            raise ValueError(
                f"{place}: the range {both[0]} is beyond the {n_words} words of the "
                "sentence"
            )


def _is_extra(number: str, n_words: int, place: str) -> bool:
    """Whether a row is a range or an empty node; ValueError for a wrong number."""
    if number == str(n_words + 1):
        return False
    if (both := _RANGE.match(number)) and int(both[2]) > int(both[1]) == n_words + 1:
        return True
    if (before := _EMPTY.match(number)) and int(before[1]) == n_words:
        return True
    raise ValueError(f"{place}: id {number!r} after {n_words} words of the sentence")


def _sentence_id(comments: list[str]) -> str | None:
    """The value of the comment sent_id."""
    for line in comments:
        name, equal, value = line.lstrip("# ").partition("=")
        if equal and name.strip() == "sent_id":
            return value.strip()
    return None
