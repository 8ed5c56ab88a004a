"""Similarity of words from WordNet's plain files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

# This reader of 40 lines reads the folders of all distributions. nltk's also needs the
# file lexnames, which Debian's package lacks, and a folder on its own path; wn reads
# another format, from a database that it downloads.
_WORDNET_FILES = ("noun", "verb", "adj", "adv")
_RELATIONS = {
    "hypernym": ("@", "@i"),
    "similar": ("&",),
    "derivation": ("+",),
    "antonym": ("!",),
}


def symmetric(
    rows: ArrayLike, columns: ArrayLike, values: ArrayLike, n: int
) -> sp.csr_array:
    """CSR matrix with the largest of the values given for each pair of words."""
    matrix = sp.coo_array(
        (np.asarray(values, dtype=np.float64), (rows, columns)), shape=(n, n)
    )
    row, column, value = matrix.row, matrix.col, matrix.data
    keep = (row != column) & (value > 0)
    row, column, value = row[keep], column[keep], value[keep]
    row, column = np.concatenate([row, column]), np.concatenate([column, row])
    value = np.concatenate([value, value])
    order = np.lexsort((-value, column, row))
    row, column, value = row[order], column[order], value[order]
    first = np.ones(row.size, dtype=bool)
    first[1:] = (row[1:] != row[:-1]) | (column[1:] != column[:-1])
    return sp.csr_array((value[first], (row[first], column[first])), shape=(n, n))


def wordnet_graph(
    words: Iterable[str],
    path: str | PathLike = "/usr/share/wordnet",
    *,
    relations: Sequence[str] = ("hypernym", "similar", "derivation"),
    relation_weight: float = 0.5,
) -> sp.csr_array:
    """Similarity of words from WordNet's plain files.

    Words of one synset are tied with weight 1, words of two synsets that a relation
    joins with `relation_weight`. Words are looked up in lower case.

    Parameters
    ----------
    words : array-like of str of shape (n_words,)
        The words; those that WordNet does not know have no neighbours.

    path : str or os.PathLike, default="/usr/share/wordnet"
        Folder with ``data.noun``, ``data.verb``, ``data.adj`` and ``data.adv``. On
        Debian and Ubuntu ``apt install wordnet-base`` lays them down in the default.

    relations : sequence of {"hypernym", "similar", "derivation", "antonym"}, \
            default=("hypernym", "similar", "derivation")
        The relations to follow, () for none.

    relation_weight : float, default=0.5
        Positive.

    Returns
    -------
    graph : CSR array of shape (n_words, n_words)
        Symmetric, with an empty diagonal.

    Raises
    ------
    FileNotFoundError
        If a file is not there.
    ValueError
        If a file is not in WordNet's format; names the line.

    References
    ----------
    .. [1] C. Fellbaum (ed.), "WordNet: An Electronic Lexical Database", MIT Press,
       1998. The format is described in its manual page wndb(5WN).
    """
    unknown = set(relations) - set(_RELATIONS)
    if unknown:
        raise ValueError(
            f"relations must be among {sorted(_RELATIONS)}, got {sorted(unknown)}"
        )
    if not relation_weight > 0:
        raise ValueError(f"relation_weight must be positive, got {relation_weight!r}")
    words = list(words)
    ids = defaultdict(list)
    for i, word in enumerate(words):
        ids[str(word).lower()].append(i)
    pointers = {p for r in relations for p in _RELATIONS[r]}

    synsets = {}  # (part of speech, offset) -> ids of its words
    joined: list[tuple] = []  # pairs of such keys
    for name in _WORDNET_FILES:
        file = Path(path, f"data.{name}")
        if not file.is_file():
            raise FileNotFoundError(
                f"WordNet's file {file} is not there. Install its plain files (Debian, "
                "Ubuntu: apt install wordnet-base) or give their folder as path="
            )
        with open(file, encoding="latin-1") as lines:
            for number, line in enumerate(lines, start=1):
                if line.startswith("  "):  # the licence
                    continue
                try:
                    key, members, targets = _read_synset(line, pointers)
                except (ValueError, IndexError) as exc:
                    raise ValueError(
                        f"{file}, line {number} is not in WordNet's format: {exc}"
                    ) from exc
                known = [i for m in members for i in ids.get(m, ())]
                if known:
                    synsets[key] = known
                    joined.extend((key, target) for target in targets)
    rows, columns, values = [], [], []
    for member in synsets.values():
        for a in range(len(member)):
            for b in range(a):
                rows.append(member[a])
                columns.append(member[b])
                values.append(1.0)
    for key, target in joined:
        for i in synsets[key]:
            for j in synsets.get(target, ()):
                rows.append(i)
                columns.append(j)
                values.append(relation_weight)
    row, column = np.asarray(rows, dtype=int), np.asarray(columns, dtype=int)
    return symmetric(row, column, values, len(words))


def _read_synset(line, pointers):
    """Key, words and related keys of one line of a data file.

    offset lex_file type n_words(hex) {word lex_id} n_pointers {symbol offset pos
    source/target} [frames] | gloss
    """
    field = line.split("|", 1)[0].split()
    n_words = int(field[3], 16)
    # A satellite adjective (s) is pointed to as an adjective (a).
    key = ("a" if field[2] == "s" else field[2], int(field[0]))
    members = {field[4 + 2 * k].split("(")[0].lower() for k in range(n_words)}
    at = 4 + 2 * n_words
    targets = []
    for k in range(int(field[at])):
        symbol, offset, pos, _ = field[at + 1 + 4 * k : at + 5 + 4 * k]
        if symbol in pointers:
            targets.append(("a" if pos == "s" else pos, int(offset)))
    return key, members, targets
