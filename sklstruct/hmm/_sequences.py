"""One long sequence as many."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike


def split_sequences(X: Any, lengths: ArrayLike) -> list:
    r"""Split one long sequence into a list of sequences.

    Sequence i is :math:`X[s_i : s_i + \ell_i]` with :math:`s_i = \sum_{j<i} \ell_j`.

    For data in the format of other libraries, which pass all sequences end to end
    and an array of their lengths; that format cannot be cross-validated.

    Parameters
    ----------
    X : sequence or array-like of shape (n_observations, ...)
        Anything that can be sliced.

    lengths : array-like of shape (n_sequences,)
        Non-negative; they add up to ``len(X)``.

    Returns
    -------
    sequences : list
        Slices of X.

    Raises
    ------
    ValueError
        If the lengths are negative or do not add up.

    Examples
    --------
    >>> from sklstruct.hmm import split_sequences
    >>> split_sequences(["the", "cat", "ran", "go"], [3, 1])
    [['the', 'cat', 'ran'], ['go']]
    """
    lengths = np.asarray(lengths)
    if lengths.ndim != 1 or (lengths.size and lengths.dtype.kind not in "iu"):
        raise ValueError("lengths must be a one-dimensional array of integers")
    if lengths.size and lengths.min() < 0:
        raise ValueError(f"lengths must not be negative, got {int(lengths.min())}")
    if int(lengths.sum()) != len(X):
        raise ValueError(
            f"lengths add up to {int(lengths.sum())}, but X has {len(X)} observations"
        )
    ends = np.cumsum(lengths).tolist()
    return [X[end - n : end] for end, n in zip(ends, lengths.tolist())]
