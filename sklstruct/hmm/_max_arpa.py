"""MAX-ARPA: an ARPA file with the two columns of max-backoff bounds."""

from __future__ import annotations

import io
import os
from typing import BinaryIO

import numpy as np

from .._files import open_read, open_write
from ..backoff import BackoffModel
from ..exchange import put, read, sections_of
from ._automaton import ContextAutomaton, max_backoffs, shorter_pairs

_LN10 = np.log(10.0)
_ZERO = -99.0  # log10 of 0 in these files


def _ids(model, words):
    """Symbols of rows of words, and the class of the last one, -1 for none."""
    labels = model.labels
    target = labels.encode_targets(words[:, -1])
    # The class of a word that is none, as the start, is that of unknown words.
    target[labels.classes[target] != words[:, -1]] = -1
    return labels.encode_contexts(words), target


def _columns(model, automaton, ids, target):
    """(log10 mf, log10 mbow) of n-grams, rows of symbols; the class of the last."""
    n = ids.shape[1]

    def find(windows):
        width = windows.shape[1]
        if width == 0:
            return np.zeros(len(windows), dtype=np.int32)
        node = model.locate(np.ascontiguousarray(windows))
        return np.where(automaton.depth[node] == width, node, -1).astype(np.int32)

    node, own = find(ids[:, :-1]), np.full(len(ids), -1, dtype=np.int32)
    if n <= automaton.max_depth:
        own = find(ids)
    arc = np.where(target < 0, -1, automaton.find_arcs(node, target))
    return _as_written(
        np.where(arc >= 0, automaton.arc_max[arc], np.nan),
        np.where(own >= 0, automaton.max_backoff[own], 0.0),
    )


def _as_written(mf, mbow):
    """log10 of the bounds: a zero is -99; 0 where nothing can precede a context.

    The arrays are overwritten: there is one number for each n-gram.
    """
    mf /= _LN10
    mbow /= _LN10
    mbow[~np.isfinite(mbow)] = 0.0
    return np.maximum(mf, _ZERO, out=mf), mbow


def _with_zeros(log_prob):
    """Probabilities as they are in the file, where -99 and less is 0."""
    zero = log_prob <= _ZERO * _LN10 + 1e-9
    return np.where(zero, -np.inf, log_prob) if zero.any() else log_prob


def _sections(lines):
    """(order, first line number, lines) of each section; the head has order 0."""
    order, first, kept = 0, 0, []
    for i, line in enumerate(lines):
        if line.startswith("\\") and line.rstrip().endswith("-grams:"):
            yield order, first, kept
            order, first, kept = int(line[1 : line.index("-")]), i + 1, []
        elif line.startswith("\\end\\"):
            break
        else:
            kept.append(line)
    yield order, first, kept


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

    path_or_file : str, os.PathLike or binary file object
        As in `LanguageModel.save`.

    precision : int, default=7
        Decimals of the log10 values, 1..15.

    See Also
    --------
    read_max_arpa : Reads such a file.
    sklstruct.language_model.LanguageModel.save : The file without the bounds.

    Notes
    -----
    Every line has five fields, separated by tabs: log10 f, the n-gram, log10 bow,
    log10 mf, log10 mbow; the lines are those of the ARPA file, in its order, and
    numbers have no zeros at their end. An n-gram without bow has 0 there.

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
    sections, words = sections_of(model, precision=precision)
    closed = sections.closed
    written = closed._replace(
        log_prob=_with_zeros(closed.log_prob),
        log_backoff=np.maximum(closed.log_backoff, _ZERO * _LN10),
    )
    # A history may hold every word that the file lists, but not the end.
    of_symbol, special = words.of_symbol, words.special
    start = np.flatnonzero(of_symbol == special["start"])
    possible = of_symbol != special["end"]
    unknown = special["unknown"]
    # A file of a model without unknown words lists none.
    n_listed = words.n_words - (unknown >= words.n_classes and unknown not in of_symbol)
    mf, mbow = max_backoffs(
        written, shorter_pairs(model, closed), possible,
        bool(possible.sum() == n_listed - 1),
        int(start[0]) if start.size else -1,
    )  # fmt: skip
    sections.bounds = _as_written(mf, mbow)
    with open_write(path_or_file) as file:
        put(sections, words, precision, file)


def read_max_arpa(
    path_or_file: str | os.PathLike[str] | BinaryIO, *, tol: float = 1e-3
) -> BackoffModel:
    r"""Read a MAX-ARPA file, and check its bounds.

    The inverse of `write_max_arpa`: :math:`\mathrm{mf}` and :math:`\mathrm{mbow}` of
    the file have to be those of the model in its first three columns.

    Parameters
    ----------
    path_or_file : str, os.PathLike or binary file object
        As in `LanguageModel.load`.

    tol : float, default=1e-3
        Largest difference of a bound from its value, in log10; at least 0.

    Returns
    -------
    model : BackoffModel

    Raises
    ------
    ValueError
        With the number of the line, if a line has not five fields or a bound is
        wrong; and where `LanguageModel.load` refuses the file.

    See Also
    --------
    write_max_arpa : Writes such a file.

    Examples
    --------
    >>> import io
    >>> from sklstruct import LanguageModel
    >>> from sklstruct.hmm import read_max_arpa, write_max_arpa
    >>> from sklstruct.smoothing import AdditiveLM
    >>> model = LanguageModel(AdditiveLM(), max_depth=1).fit(["a b", "b"])
    >>> file = io.BytesIO()
    >>> write_max_arpa(model.backoff_model_, file)
    >>> _ = file.seek(0)
    >>> read_max_arpa(file).order
    2
    """
    if not tol >= 0:
        raise ValueError(f"tol must be at least 0, got {tol!r}")
    with open_read(path_or_file) as (file, _):
        text = b"".join(iter(lambda: file.read(1 << 20), b"")).decode().split("\n")
    plain, sections = [], []
    for order, first, lines in _sections(text):
        if order:
            plain.append(f"\\{order}-grams:")
        rows = []
        for i, line in enumerate(lines, first + 1):
            if order and line.strip():
                columns, bounds = _split(i, line)
                gram = columns[1].split()
                if len(gram) != order:
                    raise ValueError(f"line {i}: {len(gram)} words in section {order}")
                rows.append((i, gram, bounds))
                plain.append("\t".join(columns))
            else:
                plain.append(line)
        if rows:
            sections.append((order, rows))
    # The highest order has no back-off weights in an ARPA file.
    highest = max((order for order, _ in sections), default=0)
    at = plain.index(f"\\{highest}-grams:") if highest else len(plain)
    plain[at:] = [
        line.rsplit("\t", 1)[0] if "\t" in line else line for line in plain[at:]
    ]
    plain += ["\\end\\", ""]
    model = read(io.BytesIO("\n".join(plain).encode("utf-8")), format="arpa")
    automaton = ContextAutomaton(
        BackoffModel(
            model.pairs, _with_zeros(model.log_prob), model.log_backoff, model.labels
        )
    )
    for _, rows in sections:
        _check_bounds(model, automaton, rows, tol)
    return model


def _split(number, line):
    """(the three columns of an ARPA file, (log10 mf, log10 mbow)) of a line."""
    fields = line.rstrip("\r").split("\t")
    try:
        bounds = [float(x) for x in fields[3:]]
    except ValueError:
        bounds = []
    if len(fields) != 5 or len(bounds) != 2:
        raise ValueError(
            f"line {number}: a line of a MAX-ARPA file has five fields separated by "
            f"tabs, three of them and the first numbers, got {line!r:.80}"
        )
    return fields[:3], bounds


def _check_bounds(model, automaton, rows, tol):
    """A ValueError if the bounds of a section are not those of its model."""
    words = np.array([gram for _, gram, _ in rows], dtype=object)
    ids, target = _ids(model, words)
    found = _columns(model, automaton, ids, target)
    for (i, _, given), *true in zip(rows, *found):
        for name, a, b in zip(("mf", "mbow"), given, true):
            if not np.isnan(b) and not abs(a - b) <= tol:
                raise ValueError(
                    f"line {i}: {name} is {a:g} in log10, but the file's own model "
                    f"makes it {b:g}"
                )
