"""Labels: what the ids of a language model mean."""

from __future__ import annotations

from functools import cached_property
from itertools import repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._checks import check_length
from ._encoding import (
    SymbolIndex,
    is_missing,
    label_array,
    object_array,
    pack_strings,
    unpack_strings,
)
from ._text import ANALYZERS, Analyzer, plain_list
from ._text_file import TextFile

_FIELDS = ("classes", "symbols", "start", "end", "unknown", "analyzer")


def _check_labels(name, labels):
    """`labels` as a 1-D array of distinct hashable labels, or a ValueError."""
    if not isinstance(labels, np.ndarray):
        labels = list(plain_list(labels))
        array = np.asarray(labels)
        # numpy would turn ["a", 1] into strings.
        if array.ndim != 1 or (
            array.dtype.kind in "US"
            and any(not isinstance(v, str | bytes) for v in labels)
        ):
            array = object_array(labels)
        labels = array
    if labels.ndim != 1:
        raise ValueError(f"{name} must be 1-dimensional")
    if labels.dtype.kind in "iu" and labels.size:
        rising = bool((labels[1:] > labels[:-1]).all())
    else:
        rising = False
    if not rising:
        try:
            distinct = len(set(labels.tolist()))
        except TypeError as exc:
            raise ValueError(f"{name} must be hashable: {exc}") from exc
        if distinct != len(labels):
            seen = set()
            twice = next(v for v in labels.tolist() if v in seen or seen.add(v))
            raise ValueError(f"{name} holds {twice!r} twice")
    return labels


class Labels:
    r"""Ids of a model: its classes, context symbols, start, end and unknown.

    A *class* can be predicted, and a *symbol* can be part of a context. Most words are
    both. The ids of *tokens* number all of them: first the symbols, then the classes
    that are not symbols,

    .. math::
        0 \le \text{symbol} < S \le \text{token} < S + |\text{classes} \setminus
        \text{symbols}| .

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        The labels that are predicted, distinct and hashable; position = class id.

    symbols : array-like of shape (n_symbols,), default=None
        The labels that a context can hold; position = symbol id. None: not known;
        contexts are then given as ids, and nothing that needs to know which class is
        which symbol (text, files, sampling of sequences) works.

    start : hashable, default=None
        The label of a sentence start: a context symbol that is not a class. None: no
        start mark.

    end : hashable, default=None
        The label of a sentence end, one of `classes`. None: no end mark.

    unknown : hashable, default=None
        The label that stands for all others, among `classes`, `symbols` or both.
        None: no unknown word.

    analyzer : {"word", "kenlm", "char"}, default="word"
        The rule by which a string is split into labels: "word" as ``str.split()``;
        "kenlm" at space, tab, line feed, carriage return and NUL, as KenLM; "char"
        into characters, without a line feed at the end.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        As given.

    symbols : ndarray of shape (n_symbols,) or None
        As given.

    start, end, unknown : hashable or None
        As given.

    analyzer : str
        As given.

    Raises
    ------
    ValueError
        If labels are not hashable or occur twice, `start` is a class or not one of
        `symbols`, `end` is not a class, `unknown` is in neither, or there is no such
        `analyzer`.

    Examples
    --------
    >>> from sklstruct.symbols import Labels
    >>> labels = Labels(["a", "b", "</s>"], ["a", "b", "<s>"], start="<s>", end="</s>")
    >>> labels.encode_targets(["b", "c"]).tolist()
    [1, -1]
    >>> labels.start_id, labels.end_id, labels.token_of_class.tolist()
    (2, 2, [0, 1, 3])
    """

    def __init__(
        self,
        classes: ArrayLike,
        symbols: ArrayLike | None = None,
        *,
        start: Any = None,
        end: Any = None,
        unknown: Any = None,
        analyzer: Analyzer = "word",
    ):
        if analyzer not in ANALYZERS:
            raise ValueError(
                f"analyzer must be one of {', '.join(ANALYZERS)}, got {analyzer!r}"
            )
        self.analyzer = analyzer
        self.classes = _check_labels("classes", classes)
        self.symbols = None if symbols is None else _check_labels("symbols", symbols)
        for name, mark in (("start", start), ("end", end), ("unknown", unknown)):
            try:
                hash(mark)
            except TypeError as exc:
                raise ValueError(f"{name} must be hashable: {exc}") from exc
        self.start, self.end, self.unknown = start, end, unknown
        if start is not None and self.class_id(start) >= 0:
            raise ValueError(
                f"start={start!r} is one of classes: a sentence start is never "
                "predicted. Give start a symbol that is not a class"
            )
        if end is not None and self.class_id(end) < 0:
            raise ValueError(
                f"end={end!r} is not one of classes: a sentence end is predicted like "
                "any class"
            )
        if self.symbols is None:
            return
        if start is not None and self.symbol_id(start) < 0:
            raise ValueError(
                f"start={start!r} is not one of symbols: contexts begin with it"
            )
        if unknown is not None and max(self.unknown_id, self.symbol_id(unknown)) < 0:
            raise ValueError(
                f"unknown={unknown!r} is neither one of classes nor one of symbols"
            )

    @classmethod
    def of_ids(cls, n_classes: int, n_symbols: int | None = None) -> Labels:
        """Labels that are their own ids.

        Parameters
        ----------
        n_classes : int
            The classes are 0 ... n_classes - 1.

        n_symbols : int, default=None
            The symbols are 0 ... n_symbols - 1, and the symbol i is the class i.
            None: not known.
        """
        return cls(
            np.arange(n_classes, dtype=np.int32),
            None if n_symbols is None else np.arange(n_symbols, dtype=np.int32),
        )

    # ------------------------------------------------------------------ sizes

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.classes.size

    @property
    def n_symbols(self) -> int | None:
        """Number of context symbols, None where they are not known."""
        return None if self.symbols is None else self.symbols.size

    # --------------------------------------------------------- derived tables

    def forget_tables(self) -> None:
        """Free what is derived from the labels; it is made again when it is needed."""
        self.__dict__ = {name: vars(self)[name] for name in _FIELDS}

    @cached_property
    def _class_index(self) -> SymbolIndex:
        return SymbolIndex(self.classes)

    @cached_property
    def _symbol_index(self) -> SymbolIndex:
        return SymbolIndex(self.known_symbols("the encoding of contexts"))

    def known_symbols(self, what: str) -> np.ndarray:
        """`symbols`, or a ValueError that says what needs them."""
        if self.symbols is None:
            raise ValueError(
                f"labels: {what} needs the context symbols, but the labels were made "
                "with symbols=None; give symbols to Labels"
            )
        return self.symbols

    def class_id(self, label: Any) -> int:
        """Class id of one label, -1 if it is not a class."""
        return self._class_index.code.get(label, -1)

    def symbol_id(self, label: Any) -> int:
        """Symbol id of one label, -1 if it is not a context symbol."""
        return self._symbol_index.code.get(label, -1)

    @property
    def start_id(self) -> int:
        """Symbol id of the sentence start, -1 without start mark."""
        return -1 if self.start is None else self.symbol_id(self.start)

    @property
    def end_id(self) -> int:
        """Class id of the sentence end, -1 without end mark."""
        return -1 if self.end is None else self.class_id(self.end)

    @property
    def unknown_id(self) -> int:
        """Class id of the unknown word, -1 without unknown word."""
        return -1 if self.unknown is None else self.class_id(self.unknown)

    @cached_property
    def symbol_of_class(self) -> np.ndarray:
        """(n_classes,) int32: the context symbol of each class, or -1."""
        code = self._symbol_index.code
        found = map(code.get, self.classes.tolist(), repeat(-1))
        return np.fromiter(found, np.int32, self.n_classes)

    @property
    def class_of_symbol(self) -> np.ndarray:
        """(n_symbols,) int32: the class of each context symbol, or -1."""
        n_symbols = 0 if self.symbols is None else self.symbols.size
        return self.class_of_token[:n_symbols]

    @cached_property
    def token_of_class(self) -> np.ndarray:
        """(n_classes,) int32: the token of each class."""
        token = self.symbol_of_class.copy()
        new = token < 0
        n_symbols = self.known_symbols("tokens").size
        token[new] = n_symbols + np.arange(new.sum(), dtype=np.int32)
        return token

    @cached_property
    def class_of_token(self) -> np.ndarray:
        """(n_tokens + 1,) int32: the class of each token, or -1.

        The last entry is the token of a word that the labels do not know, -2.
        """
        n_symbols = self.known_symbols("tokens").size
        new = int(np.count_nonzero(self.symbol_of_class < 0))
        table = np.full(n_symbols + new + 1, -1, dtype=np.int32)
        table[self.token_of_class] = np.arange(self.n_classes, dtype=np.int32)
        table[-1] = -2
        return table

    @cached_property
    def token_code(self) -> dict:
        """label -> token, for every label of the model."""
        new = self.symbol_of_class < 0
        tokens = self.token_of_class[new].tolist()
        return self._symbol_index.code | dict(zip(self.classes[new].tolist(), tokens))

    # --------------------------------------------------------------- encoding

    def encode_contexts(self, X: ArrayLike) -> np.ndarray:
        """Symbol ids of an array of context symbols.

        Parameters
        ----------
        X : array-like of any shape
            Labels. ``None`` and NaN mean a missing history: id -1.

        Returns
        -------
        ids : int32 ndarray of the same shape
            A label that is not a context symbol becomes the id of `unknown`, or,
            without such a symbol, -1, which ends the history.
        """
        index = self._symbol_index
        unknown = -1 if self.unknown is None else index.code.get(self.unknown, -1)
        return _ids(index, X, unknown)

    def encode_targets(self, y: ArrayLike) -> np.ndarray:
        """Class ids of an array of labels.

        Parameters
        ----------
        y : array-like of any shape
            Labels.

        Returns
        -------
        ids : int32 ndarray of the same shape
            A label that is not a class becomes the class of `unknown`, or -1 without
            unknown word. ``None`` and NaN become -1.
        """
        return _ids(self._class_index, y, self.unknown_id)

    # ----------------------------------------------------------- object model

    def __eq__(self, other):
        if not isinstance(other, Labels):
            return NotImplemented
        return (
            (self.symbols is None) == (other.symbols is None)
            and self.settings == other.settings
            and self.classes.tolist() == other.classes.tolist()
            and (
                self.symbols is None or self.symbols.tolist() == other.symbols.tolist()
            )
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self):
        state = {name: vars(self)[name] for name in _FIELDS}
        # One string per label takes a hundred times the time of two arrays.
        for name in ("classes", "symbols"):
            values = state[name]
            if values is not None and values.dtype == object:
                values = values.tolist()
                if all(type(value) is str for value in values):
                    state[name] = pack_strings(values, "surrogatepass")
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take pickled labels; ValueError if the state is not that of labels."""
        arrays = []
        for name in ("classes", "symbols"):
            values = state[name]
            if isinstance(values, tuple):
                values = unpack_strings(name, values, "surrogatepass")
            arrays.append(values)
        settings = {name: state[name] for name in _FIELDS[2:]}
        Labels.__init__(self, *arrays, **settings)
        self.forget_tables()

    @property
    def settings(self) -> dict[str, Any]:
        """The marks and the analyzer by name, for labels of other words."""
        return {name: vars(self)[name] for name in _FIELDS[2:]}

    def __repr__(self):
        symbols = "unknown" if self.symbols is None else self.symbols.size
        settings = "".join(
            f", {name}={value!r}"
            for name, value in self.settings.items()
            if value not in (None, "word")
        )
        return f"Labels(n_classes={self.classes.size}, n_symbols={symbols}{settings})"


def check_sizes(labels: Labels, n_classes: int, n_symbols: int) -> None:
    """ValueError unless the labels fit a model of these sizes."""
    check_length("labels.classes", labels.classes, n_classes, "one per class")
    if labels.symbols is not None:
        check_length("labels.symbols", labels.symbols, n_symbols, "one per symbol")


def _ids(index, values, unknown):
    array = label_array(values)
    return index.ids(array.reshape(-1), unknown).reshape(array.shape)


def sort_symbols(symbols: Any) -> list:
    """Sorted; in the given order where they are of kinds that do not compare."""
    symbols = list(symbols)
    try:
        return sorted(symbols)
    except TypeError:
        return symbols


def read_vocabulary(vocabulary: Any, analyzer: str = "word") -> list:
    """The distinct words of a parameter `vocabulary`, sorted.

    Parameters
    ----------
    vocabulary : array-like of shape (n_words,) or TextFile
        Words, or a file of them.

    analyzer : {"word", "kenlm", "char"}, default="word"
        The rule by which the file is split.

    Returns
    -------
    words : list
    """
    if isinstance(vocabulary, str | bytes):
        raise TypeError(
            "vocabulary must be an array of symbols, not a string; a file of words is "
            "given as TextFile(path)"
        )
    words = vocabulary
    if isinstance(vocabulary, TextFile):
        words = vocabulary.number(analyzer).symbols
    try:
        words = sort_symbols(dict.fromkeys(plain_list(words)))
    except TypeError as exc:
        raise TypeError(
            f"vocabulary must be an array of hashable symbols: {exc}"
        ) from exc
    if gone := [word for word in words if is_missing(word)]:
        raise ValueError(f"vocabulary holds {gone[0]!r}, which is not a word")
    if not words:
        where = f" of {vocabulary!r}" if isinstance(vocabulary, TextFile) else ""
        raise ValueError(f"vocabulary{where} is empty: give at least one word")
    return words


def union_labels(parts: list[Labels]) -> Labels:
    """Labels with the words of all of several.

    Parameters
    ----------
    parts : list of Labels
        With one start mark and one end mark. Those that have an unknown word call it
        alike. All split strings into characters, or none.

    Returns
    -------
    labels : Labels
        The first of `parts`, if all are equal. Else the words are sorted, and unknown
        word and end mark follow them; every class is a symbol, and the start mark is
        the last of these. If some split words as "word" and others as "kenlm", which
        is assumed of files that store no rule, the union splits as "word".

    Raises
    ------
    ValueError
        If the marks differ, some split into characters and others into words, or the
        labels differ and some have no symbols.
    """
    first = parts[0]
    if all(labels == first for labels in parts):
        return first
    unknown = next((p.unknown for p in parts if p.unknown is not None), None)
    for k, labels in enumerate(parts):
        labels.known_symbols("a union of words")
        marks = labels.start, labels.end
        if marks != (first.start, first.end) or labels.unknown not in (None, unknown):
            raise ValueError(
                f"models[{k}] has the marks start={labels.start!r}, "
                f"end={labels.end!r}, unknown={labels.unknown!r} and models[0] "
                f"{first.start!r}, {first.end!r}, {unknown!r}; give them the same ones"
            )
    analyzers = {labels.analyzer for labels in parts}
    if len(analyzers) > 1 and "char" in analyzers:
        raise ValueError(
            "models: some split strings into characters (analyzer='char') and others "
            "into words; mix models of one kind"
        )
    marks_last = [mark for mark in (unknown, first.end) if mark is not None]
    known = {*marks_last, first.start}
    classes = dict.fromkeys(w for p in parts for w in p.classes.tolist())
    words = sort_symbols(w for w in classes if w not in known)
    words += [mark for mark in marks_last if mark in classes]
    symbols = dict.fromkeys(w for p in parts for w in p.known_symbols("").tolist())
    others = sort_symbols(w for w in symbols if w not in classes and w != first.start)
    others += [w for w in (first.start,) if w in symbols]
    return Labels(
        object_array(words),
        object_array(words + others),
        start=first.start,
        end=first.end,
        unknown=unknown,
        analyzer=first.analyzer if len(analyzers) == 1 else "word",
    )
