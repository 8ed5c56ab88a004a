"""Graphs of words: symmetric sparse similarities from several sources."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from os import PathLike
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.neighbors import kneighbors_graph
from sklearn.utils import check_array

from .._checks import check_sparse

# A group of g words has g (g - 1) edges.
_MAX_EDGES = 100_000_000

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


def _symmetric(
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


def cooccurrence_graph(
    cooccurrence: ArrayLike, *, weighting: str = "ppmi"
) -> sp.csr_array:
    r"""Similarity of words from how often they occur together.

    .. math::
        w(x, y) = \left[\ln \frac{c(x, y)\, c}{c(x)\, c(y)}\right]_+
        \quad \text{(ppmi)}, \qquad w(x, y) = c(x, y) \quad \text{(count)}

    Parameters
    ----------
    cooccurrence : array or sparse matrix of shape (n_words, n_words)
        c(x, y), not negative. Made symmetric by adding its transpose.

    weighting : {"ppmi", "count"}, default="ppmi"
        Positive pointwise mutual information, in nats, or the counts themselves.

    Returns
    -------
    graph : CSR array of shape (n_words, n_words)
        Symmetric, with an empty diagonal.

    Examples
    --------
    >>> from sklstruct.smoothing import cooccurrence_graph
    >>> together = [[0, 2, 0], [0, 0, 1], [0, 0, 0]]
    >>> cooccurrence_graph(together, weighting="count").toarray()
    array([[0., 2., 0.],
           [2., 0., 1.],
           [0., 1., 0.]])
    """
    if weighting not in ("ppmi", "count"):
        raise ValueError(f"weighting must be 'ppmi' or 'count', got {weighting!r}")
    check_sparse(cooccurrence, "cooccurrence")
    counts = sp.csr_array(
        check_array(cooccurrence, accept_sparse="csr", dtype=np.float64)
    )
    n = counts.shape[0]
    if counts.shape != (n, n):
        raise ValueError(f"cooccurrence must be square, got shape {counts.shape}")
    if counts.nnz and counts.data.min() < 0:
        raise ValueError("cooccurrence must not be negative")
    if weighting == "ppmi":  # the unit cancels; sums of 1e308 would overflow
        top = np.frexp(counts.data.max(initial=0.0))[1]
        data = np.ldexp(counts.data, -top)
        counts = sp.csr_array((data, counts.indices, counts.indptr), counts.shape)
    counts = sp.coo_array(counts + counts.T)
    value = counts.data
    if not np.isfinite(value).all():
        raise ValueError("cooccurrence has counts whose sums are not finite")
    if weighting == "ppmi":
        total = np.asarray(counts.sum(axis=1), dtype=np.float64).ravel()
        row, column = counts.row, counts.col
        positive = value > 0
        ratio = np.ones(value.size)
        ratio[positive] = (
            value[positive]
            * total.sum()
            / (total[row[positive]] * total[column[positive]])
        )
        value = np.log(ratio)
    return _symmetric(counts.row, counts.col, value, n)


def neighbors_graph(
    features: ArrayLike,
    n_neighbors: int = 10,
    *,
    metric: str = "cosine",
    n_jobs: int | None = None,
) -> sp.csr_array:
    r"""Similarity of words from their nearest neighbours in a feature space.

    .. math::
        w(x, y) = \max(0, 1 - \mathrm{dist}(x, y)) \ (\text{cosine}), \qquad
        w(x, y) = e^{-\mathrm{dist}(x, y)^2 / (2 h^2)} \ (\text{others}),

    where x is among the nearest neighbours of y or y among those of x, and h is the
    median distance of neighbours.

    Parameters
    ----------
    features : array or sparse matrix of shape (n_words, n_features)
        Embeddings, or any features, one row a word.

    n_neighbors : int, default=10
        Neighbours of each word, between 1 and n_words - 1.

    metric : str, default="cosine"
        A metric of :func:`sklearn.neighbors.kneighbors_graph`.

    n_jobs : int, default=None
        Number of parallel jobs of the search.

    Returns
    -------
    graph : CSR array of shape (n_words, n_words)
        Symmetric, with an empty diagonal.

    Examples
    --------
    >>> from sklstruct.smoothing import neighbors_graph
    >>> neighbors_graph([[1, 0], [2, 0], [0, 1], [0, 3]], n_neighbors=1).toarray()
    array([[0., 1., 0., 0.],
           [1., 0., 0., 0.],
           [0., 0., 0., 1.],
           [0., 0., 1., 0.]])
    """
    check_sparse(features, "features")
    data = check_array(features, accept_sparse="csr", ensure_min_samples=2)
    n = data.shape[0]
    if not 1 <= n_neighbors < n:
        raise ValueError(
            f"n_neighbors must be between 1 and {n - 1}, the number of other words; "
            f"got {n_neighbors}"
        )
    near = kneighbors_graph(
        data, n_neighbors, mode="distance", metric=metric, n_jobs=n_jobs
    ).tocoo()
    distance = near.data
    if metric == "cosine":
        value = np.maximum(0.0, 1.0 - distance)
    else:
        width = np.median(distance)
        value = np.exp(-0.5 * (distance / width) ** 2) if width > 0 else distance == 0
    return _symmetric(near.row, near.col, value, n)


def group_graph(groups: Iterable[Hashable | None]) -> sp.csr_array:
    """Ties all words of a group to each other: stems, classes, clusters.

    Parameters
    ----------
    groups : array-like of shape (n_words,)
        The group of each word; None for a word that is in none.

    Returns
    -------
    graph : CSR array of shape (n_words, n_words)
        1 for two words of a group, with an empty diagonal.

    Raises
    ------
    ValueError
        If there would be more than 100 million entries.

    Examples
    --------
    >>> from sklstruct.smoothing import group_graph
    >>> words = ["walk", "walked", "walks", "run"]
    >>> group_graph([w.removesuffix("ed").removesuffix("s") for w in words]).toarray()
    array([[0., 1., 1., 0.],
           [1., 0., 1., 0.],
           [1., 1., 0., 0.],
           [0., 0., 0., 0.]])
    """
    members = defaultdict(list)
    n = 0
    for word, group in enumerate(groups):
        n += 1
        if group is not None:
            members[group].append(word)
    n_edges = sum(len(m) * (len(m) - 1) for m in members.values())
    if n_edges > _MAX_EDGES:
        raise ValueError(
            f"groups ties {n_edges} pairs of words, more than {_MAX_EDGES}; use "
            "smaller groups (None takes a word out)"
        )
    rows, columns = [np.empty(0, int)], [np.empty(0, int)]
    for member in members.values():
        if len(member) > 1:
            i, j = np.triu_indices(len(member), 1)
            rows.append(np.take(member, i))
            columns.append(np.take(member, j))
    row = np.concatenate(rows)
    return _symmetric(row, np.concatenate(columns), np.ones(row.size), n)


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
    return _symmetric(row, column, values, len(words))


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
