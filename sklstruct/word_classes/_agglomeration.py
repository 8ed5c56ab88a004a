"""class_taxonomy: a tree over the classes of a clustering, by agglomeration."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import xlogy

from ..taxonomy import Taxonomy
from . import _exchange_fast
from ._clustering import WordClustering
from ._counts import count_neighbours


def class_taxonomy(
    clustering: WordClustering,
    X: Any,
    y: ArrayLike | None = None,
) -> Taxonomy:
    r"""A tree over the classes of a clustering, by merges with the smallest loss.

    Each step merges the two classes a and b with the smallest loss of log-likelihood of
    the words' neighbours,

    .. math::
        \Delta(a, b) = \sum_f \bigl[h(N(a, f)) + h(N(b, f)) - h(N(a, f) + N(b, f))\bigr]
        - \bigl[h(N(a)) + h(N(b)) - h(N(a) + N(b))\bigr], \qquad h(x) = x \ln x,

    the objective of `ExchangeClustering`, until one class is left.

    Parameters
    ----------
    clustering : WordClustering
        Fitted.

    X : array-like of shape (n_samples, n_columns), TextFile or sentences
        Windows or sentences in which the neighbours are counted, as in `fit`.

    y : array-like of shape (n_samples,), default=None
        The symbol after each window.

    Returns
    -------
    taxonomy : Taxonomy
        Over the words: every class with words is a leaf with these words, and every
        merge a node, so that the tree is binary.

    Raises
    ------
    ValueError
        If X has none of the words.

    Notes
    -----
    O(C² F) for C classes with F features.

    References
    ----------
    .. [1] P. F. Brown, V. J. Della Pietra, P. V. deSouza, J. C. Lai, R. L. Mercer,
       "Class-Based n-gram Models of Natural Language", Computational Linguistics 18(4),
       1992 (trees of words by merges).

    Examples
    --------
    >>> from sklstruct.word_classes import ExchangeClustering, class_taxonomy
    >>> text = ["a cat sat", "a dog sat", "one cat ran", "one dog ran"] * 2
    >>> clustering = ExchangeClustering(n_clusters=3).fit(text)
    >>> print(class_taxonomy(clustering, text).export_text())
    root
    |--- cat, dog
    |--- (4 classes)
    |    |--- a, one
    |    |--- ran, sat
    """
    offsets = getattr(clustering, "offsets", (1, 2))
    symbols, counts, _ = count_neighbours(clustering, X, y, offsets, reset=False)
    label = clustering.classes_of(symbols)
    used = (label >= 0) & (label < clustering.n_clusters_)
    used &= np.diff(counts.indptr) > 0
    if not used.any():
        raise ValueError("X has none of the words of clustering")
    counts, label, symbols = counts[used], label[used], symbols[used]
    groups, label = np.unique(label, return_inverse=True)
    parent = np.full(2 * groups.size - 1, -1, dtype=np.int64)  # node c is the class c
    top = np.arange(groups.size)  # the highest node above each class so far
    for node, (a, b) in enumerate(_merge(counts, label, groups.size), groups.size):
        parent[[top[a], top[b]]] = node
        top[a] = node
    return Taxonomy(parent, label, symbols)


def _merge(counts, label, n):
    """n - 1 pairs (kept, absorbed) of classes, the first merge first."""
    # Counts (classes, features); a feature of one class alone changes no loss.
    pairs = np.zeros((n, counts.shape[1]), dtype=np.int64)
    row = np.repeat(label, np.diff(counts.indptr))
    np.add.at(pairs, (row, counts.indices), counts.data)
    total = pairs.sum(axis=1)
    shared = (pairs > 0).sum(axis=0) > 1
    table = np.ascontiguousarray(pairs[:, shared], dtype=np.int32)
    del pairs
    x = np.arange(int(table.sum(axis=0).max(initial=0)) + 1, dtype=np.float64)
    h = xlogy(x, x)
    live = np.ones(n, dtype=bool)
    loss = np.full((n, n), np.inf)

    def update(a):
        others = np.flatnonzero(live).astype(np.int32)
        others = others[others != a]
        out = np.empty(others.size)
        _exchange_fast.merge_losses(table, a, others, h, out)
        t, s = float(total[a]), total[others].astype(np.float64)
        out -= xlogy(t, t) + xlogy(s, s) - xlogy(t + s, t + s)
        loss[a, others] = loss[others, a] = out

    for a in range(n):
        update(a)
    merges = []
    for _ in range(n - 1):
        a, b = sorted(divmod(int(np.argmin(loss)), n))
        table[a] += table[b]
        total[a] += total[b]
        live[b] = False
        loss[b] = loss[:, b] = np.inf
        merges.append((a, b))
        update(a)
    return merges
