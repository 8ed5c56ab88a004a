"""MAX-ARPA: an ARPA file with the two columns of max-backoff bounds."""

from __future__ import annotations

import os
from typing import BinaryIO

import numpy as np

from .._files import open_write
from ..backoff import BackoffModel
from ..exchange import put, sections_of
from ._automaton import max_backoffs, shorter_pairs

_LN10 = np.log(10.0)
_ZERO = -99.0  # log10 of 0 in these files


def write_max_arpa(
    model: BackoffModel,
    path_or_file: str | os.PathLike[str] | BinaryIO,
    *,
    precision: int = 7,
) -> None:
    r"""Write a model as an ARPA file with its max-backoff bounds.

    .. math::
        w(g) = \max_{h' \text{ ends in } h} P(w \mid h') = \begin{cases}
        \mathrm{mf}(g) & g = h w \text{ stored} \\
        \mathrm{mbow}(h)\, P(w \mid h) & \text{otherwise}\end{cases}

    Parameters
    ----------
    model : BackoffModel
        The model to write.

    path_or_file : str, os.PathLike or binary file object
        As in `LanguageModel.save`.

    precision : int, default=7
        Decimals of the log10 values, 1..15.

    See Also
    --------
    sklstruct.language_model.LanguageModel.save : Writes the file without the bounds.

    Notes
    -----
    Every line has five fields, separated by tabs: log10 f, the n-gram, log10 bow,
    log10 mf, log10 mbow; the lines are in the order of the ARPA file, and numbers have
    no trailing zeros. For an n-gram without back-off weight, log10 bow is 0.

    References
    ----------
    .. [1] S. Carter, M. Dymetman, G. Bouchard, "Exact Sampling and Decoding in
       High-Order Hidden Markov Models", EMNLP 2012, section 2.3.

    Examples
    --------
    >>> import io
    >>> from sklstruct import LanguageModel
    >>> from sklstruct.hmm import write_max_arpa
    >>> from sklstruct.smoothing import AdditiveLM
    >>> model = LanguageModel(AdditiveLM(), max_depth=1).fit(["a b", "b"])
    >>> file = io.BytesIO()
    >>> write_max_arpa(model.backoff_model_, file, precision=2)
    >>> next(line for line in file.getvalue().splitlines() if b"\ta\t" in line).split()
    [b'-0.65', b'a', b'0.26', b'-0.48', b'0']
    """
    sections, words = sections_of(model, precision)
    closed = sections.closed
    # Use the numbers of the file, in which -99 and less is a probability of 0.
    log_prob = closed.log_prob.copy()
    log_prob[log_prob <= _ZERO * _LN10 + 1e-9] = -np.inf
    written = closed._replace(
        log_prob=log_prob, log_backoff=np.maximum(closed.log_backoff, _ZERO * _LN10)
    )
    # Every word of the file except the end mark may occur in a history.
    of_symbol, special = words.of_symbol, words.special
    start = np.flatnonzero(of_symbol == special["start"])
    possible = of_symbol != special["end"]
    unknown = special["unknown"]
    # The file of a model without unknown word does not list an unknown word.
    n_listed = words.n_words - (unknown >= words.n_classes and unknown not in of_symbol)
    mf, mbow = max_backoffs(
        written, shorter_pairs(model, closed), possible,
        bool(possible.sum() == n_listed - 1),
        int(start[0]) if start.size else -1,
    )  # fmt: skip
    # In place, because the arrays have a number for each n-gram.
    mf /= _LN10
    mbow /= _LN10
    mbow[~np.isfinite(mbow)] = 0.0  # nothing can precede the context
    sections.bounds = np.maximum(mf, _ZERO, out=mf), mbow
    with open_write(path_or_file) as file:
        put(sections, words, precision, file)
