"""A graph of words: a symmetric sparse similarity, from groups."""

from __future__ import annotations

from collections.abc import Hashable, Iterable

import numpy as np
import scipy.sparse as sp

# A group of g words has g (g - 1) edges.
_MAX_EDGES = 100_000_000


def group_graph(groups: Iterable[Hashable | None]) -> sp.csr_array:
    """Connect all words of each group, such as a stem, a class or a cluster.

    Parameters
    ----------
    groups : array-like of shape (n_words,)
        The group of each word; None for a word without group.

    Returns
    -------
    graph : CSR array of shape (n_words, n_words)
        1 for two words of the same group; the diagonal is empty.

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
    groups = list(groups)
    known: dict[Hashable, int] = {}
    word = [i for i, group in enumerate(groups) if group is not None]
    column = [known.setdefault(groups[i], len(known)) for i in word]
    size = np.bincount(column, minlength=1).astype(np.float64)
    n_edges = float(size @ (size - 1.0))
    if n_edges > _MAX_EDGES:
        raise ValueError(
            f"groups joins {n_edges:.0f} pairs of words, more than {_MAX_EDGES}; use "
            "smaller groups (None takes a word out)"
        )
    shape = len(groups), len(known)
    member = sp.csr_array((np.ones(len(word)), (word, column)), shape=shape)
    graph = sp.csr_array(member @ member.T)
    graph.setdiag(0.0)
    graph.eliminate_zeros()
    graph.sum_duplicates()  # sorts the indices
    return graph
