"""From symbols of any dtype to ids, and from sentences to context windows."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import chain, repeat
from typing import NamedTuple

import numpy as np

from ._tree import INT32_MAX, sliding_base


def is_nan(value) -> bool:
    """True for a float NaN, whatever its type; False for anything else."""
    try:
        return bool(np.isnan(value))
    except TypeError:
        return False


def encode_windows(X, padding=None, categories=None):
    """Ids of the symbols of a 2-D array, -1 for padding and unknown symbols.

    Parameters
    ----------
    X : ndarray of shape (n_samples, n_columns)
        Symbols. A sliding-window view is encoded once, in its 1-D base.
    padding : object
        The symbol that marks missing history.
    categories : ndarray of shape (n_symbols,), default=None
        Sorted known symbols; None to learn them from X.

    Returns
    -------
    codes : int32 ndarray of shape (n_samples, n_columns)
        A sliding-window view where X is one.
    categories : ndarray of shape (n_symbols,)
    """
    base = sliding_base(X)
    flat = np.ascontiguousarray(X).ravel() if base is None else base
    if flat.dtype.kind == "O":
        codes, categories = _encode_objects(flat, padding, categories)
    else:
        codes, categories = _encode_array(flat, padding, categories)
    if base is None:
        return codes.reshape(X.shape), categories
    return np.lib.stride_tricks.sliding_window_view(codes, X.shape[1]), categories


def _encode_array(flat, padding, categories):
    if flat.dtype.kind not in "biufSU":
        raise TypeError(
            f"symbols of dtype {flat.dtype} are not supported: the argument must be "
            "an array of strings, numbers or booleans"
        )
    missing = None
    if padding is not None:
        if flat.dtype.kind == "f" and is_nan(padding):
            missing = np.isnan(flat)
        elif isinstance(padding, str | bytes) == (flat.dtype.kind in "SU"):
            missing = flat == padding
    if categories is None:
        seen = flat if missing is None else flat[~missing]
        categories = _unique(seen)
    elif (categories.dtype.kind in "SUO") != (flat.dtype.kind in "SU"):
        return np.full(flat.size, -1, dtype=np.int32), categories
    if categories.size > INT32_MAX:
        raise ValueError(f"X holds more than {INT32_MAX} distinct symbols")
    if categories.size == 0:
        return np.full(flat.size, -1, dtype=np.int32), categories
    if categories.dtype.kind == "O":
        return _encode_objects(flat.astype(object), padding, categories)
    codes = np.searchsorted(categories, flat).astype(np.int32)
    codes[codes == categories.size] = 0
    codes[categories[codes] != flat] = -1
    if missing is not None:
        codes[missing] = -1
    return codes, categories


def _unique(seen):
    """np.unique, by counting where the values are small integers (20 x faster)."""
    if seen.dtype.kind in "iu" and seen.size:
        low, high = int(seen.min()), int(seen.max())
        if high - low <= 4 * seen.size:
            present = np.zeros(high - low + 1, dtype=bool)
            # Subtracting in the wider type keeps e.g. int8 from overflowing.
            present[seen.astype(np.int64, copy=False) - low] = True
            return (np.flatnonzero(present) + low).astype(seen.dtype)
    return np.unique(seen)


def _encode_objects(flat, padding, categories):
    values = flat.tolist()
    if categories is None:
        try:
            distinct = set(values)
        except TypeError:
            distinct = None
        if distinct is not None:
            distinct = {v for v in distinct if not _is_padding(v, padding)}
        kinds = {type(v) for v in (values if distinct is None else distinct)}
        strings = kinds <= {str, np.str_}
        numbers = all(issubclass(k, int | float | np.number | np.bool_) for k in kinds)
        if distinct is None or not (strings or numbers):
            names = sorted(k.__name__ for k in kinds)
            raise TypeError(
                "the symbols of X must be uniform: the argument must be an array of "
                f"string or of number symbols, got {names}"
                + (
                    ". None marks missing history only with padding=None"
                    if "NoneType" in names
                    else ""
                )
            )
        categories = np.empty(len(distinct), dtype=object)
        categories[:] = sorted(distinct)
        if numbers:
            categories = np.asarray(categories.tolist())
    code = {c: i for i, c in enumerate(categories.tolist())}
    for marker in (None, padding):
        if marker is not None or padding is None:
            code.pop(marker, None)
    try:
        codes = np.fromiter(
            (code.get(v, -1) for v in values), dtype=np.int32, count=len(values)
        )
    except TypeError as exc:
        raise TypeError(
            "the argument must be an array of string or of number symbols; "
            f"an element of X cannot be one ({exc})"
        ) from exc
    return codes, categories


def _is_padding(value, padding):
    if padding is None:
        return value is None
    return value == padding or (is_nan(padding) and is_nan(value))


def encode_labels(y, classes=None):
    """Class ids of labels, -1 for labels that are not in `classes`.

    Parameters
    ----------
    y : ndarray of shape (n_samples,)
    classes : ndarray of shape (n_classes,), default=None
        Sorted labels; None to learn them from y.

    Returns
    -------
    codes : int32 ndarray of shape (n_samples,)
    classes : ndarray of shape (n_classes,)
    """
    y = np.asarray(y)
    if y.dtype.kind == "O":
        codes, found = _encode_objects(y, None, classes)
    else:
        codes, found = _encode_array(y, None, classes)
    return codes, found


class ContextWindows(NamedTuple):
    """Sentences as contexts and targets that share one array of token ids.

    Attributes
    ----------
    contexts : int32 ndarray of shape (n_positions, max_depth)
        Sliding-window view, last column most recent; -1 marks missing history.
    targets : int32 ndarray of shape (n_positions,)
        The symbol that followed, a view of the same array.
    sample_weight : float64 ndarray of shape (n_positions,)
        1 where the target is a symbol of the text or an end mark, 0 at
        the separators and start marks between sentences.
    tokens : int32 ndarray
        The array below both views.
    vocabulary : ndarray of shape (n_symbols,)
        Symbol of each id.
    """

    contexts: np.ndarray
    targets: np.ndarray
    sample_weight: np.ndarray
    tokens: np.ndarray
    vocabulary: np.ndarray


def object_array(symbols):
    """1-D object array of any symbols; numpy would take tuples for rows."""
    symbols = list(symbols)
    out = np.empty(len(symbols), dtype=object)
    for i, s in enumerate(symbols):
        out[i] = s
    return out


def split_sentence(sentence) -> Sequence:
    """The symbols of a sentence: a string is split on whitespace."""
    return sentence.split() if isinstance(sentence, str) else sentence


def check_sentences(sentences):
    """A list of sentences, or a readable error when it is not one."""
    if isinstance(sentences, str | bytes):
        raise TypeError(
            "sentences must be an iterable of sentences, not one string: pass "
            "[text] or text.splitlines()"
        )
    if not isinstance(sentences, Iterable):
        raise TypeError(
            "sentences must be an iterable of sentences (strings, or iterables of "
            f"symbols), got {type(sentences).__name__}"
        )
    if isinstance(sentences, np.ndarray) and sentences.ndim == 0:
        raise TypeError("sentences must be an iterable of sentences, got a scalar")
    out = []
    for i, sentence in enumerate(sentences):
        if isinstance(sentence, bytes) or not isinstance(sentence, Iterable):
            raise TypeError(
                f"sentence {i} must be a string or an iterable of symbols, got "
                f"{type(sentence).__name__}"
            )
        out.append(sentence if isinstance(sentence, str) else list(sentence))
    return out


def context_windows(
    sentences, max_depth=4, *, start="<s>", end="</s>"
) -> ContextWindows:
    r"""Turn sentences into contexts and targets without copying.

    A sentence :math:`w_1 \ldots w_L` gives the samples

    .. math::
        (\langle s\rangle) \to w_1,\quad (\langle s\rangle w_1) \to w_2,\ \ldots,\
        (\langle s\rangle w_1 \ldots w_L) \to \langle /s\rangle ,

    each context cut to its `max_depth` most recent symbols. All contexts and
    targets are strided views of one integer array, 4 bytes a token.

    Parameters
    ----------
    sentences : iterable of sentences
        A sentence is an iterable of hashable symbols of one kind, or a string,
        which is split on whitespace. An empty sentence gives the single sample
        :math:`\langle s\rangle \to \langle /s\rangle`.
    max_depth : int, default=4
        Number of columns of `contexts`, at least 1.
    start, end : object or None, default="<s>", "</s>"
        The marks around each sentence; None leaves the mark out. They must not
        occur in the sentences.

    Returns
    -------
    windows : ContextWindows
        Named tuple (contexts, targets, sample_weight, tokens, vocabulary). Train on
        it with ``model.fit(windows.contexts, windows.targets,
        sample_weight=windows.sample_weight)`` and ``padding=-1``.

    Raises
    ------
    ValueError
        If there is no sentence, or a mark occurs inside one (the message names the
        sentence).
    TypeError
        If `sentences` is a single string, or its symbols cannot be sorted.

    Examples
    --------
    >>> from sklstruct.context_tree import context_windows
    >>> w = context_windows(["a b", "b"], max_depth=2)
    >>> keep = w.sample_weight > 0
    >>> for context, target in zip(w.contexts[keep], w.targets[keep]):
    ...     names = [w.vocabulary[c] if c >= 0 else "." for c in context]
    ...     print(*names, "->", w.vocabulary[target])
    . <s> -> a
    <s> a -> b
    a b -> </s>
    . <s> -> b
    <s> b -> </s>
    """
    if max_depth < 1:
        raise ValueError(f"max_depth must be at least 1, got {max_depth}")
    sentences = [split_sentence(s) for s in check_sentences(sentences)]
    if not sentences:
        raise ValueError("sentences is empty: there is nothing to learn from")
    code = {}
    for s in sentences:
        code.update(dict.fromkeys(s))
    for name, mark in (("start", start), ("end", end)):
        if mark is not None and mark in code:
            where = next(i for i, s in enumerate(sentences) if mark in s)
            raise ValueError(
                f"the {name} mark {mark!r} occurs in sentence {where}; remove it or "
                f"choose another mark with {name}="
            )
    try:
        vocabulary = sorted(code)
    except TypeError as exc:
        raise TypeError(f"the symbols must all be of one kind: {exc}") from exc
    marks = [m for m in (start, end) if m is not None]
    symbols = object_array(vocabulary + marks)
    code = {s: i for i, s in enumerate(symbols)}
    tokens = token_stream(
        sentences,
        code,
        unknown=None,
        start=None if start is None else code[start],
        end=None if end is None else code[end],
        front=max_depth - 1,
    )
    windows = np.lib.stride_tricks.sliding_window_view(tokens, max_depth)[:-1]
    targets = tokens[max_depth:]
    weight = (targets >= 0).astype(np.float64)
    if start is not None:
        weight[targets == code[start]] = 0.0
    return ContextWindows(windows, targets, weight, tokens, symbols)


def token_stream(sentences, code, *, unknown, start, end, front=0):
    """One int32 array of ids for all sentences, -1 before each of them.

    `code` maps symbols to ids; `unknown` is the id of symbols that it does not
    hold (None: a KeyError), `start` and `end` the ids of the marks (None: no
    mark), `front` the number of extra -1 at the very beginning.
    """
    lengths = np.fromiter((len(s) for s in sentences), np.int64, len(sentences))
    extra = 1 + (start is not None) + (end is not None)
    stop = np.cumsum(lengths + extra) + front
    if stop[-1] > INT32_MAX if len(stop) else False:
        raise ValueError(f"more than {INT32_MAX} tokens; split the corpus")
    tokens = np.full(int(stop[-1]) if len(stop) else front, -1, dtype=np.int32)
    inner = np.ones(tokens.size, dtype=bool)
    inner[:front] = False
    first = stop - lengths - extra
    inner[first] = False
    if start is not None:
        inner[first + 1] = False
        tokens[first + 1] = start
    if end is not None:
        inner[stop - 1] = False
        tokens[stop - 1] = end
    # map() over a chain stays in C: a quarter faster than a generator expression.
    words = chain.from_iterable(sentences)
    if unknown is None:
        ids = map(code.__getitem__, words)
    else:
        ids = map(code.get, words, repeat(unknown))
    tokens[inner] = np.fromiter(ids, dtype=np.int32, count=int(lengths.sum()))
    return tokens
