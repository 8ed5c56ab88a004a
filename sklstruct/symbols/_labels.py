"""Labels: the meaning of the ids of a language model."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._checks import check_choice
from .._lazy import stored
from ._encoding import (
    Packed,
    SymbolIndex,
    code_ids,
    is_missing,
    label_array,
    object_array,
)
from ._strings import Strings
from ._strings_fast import StringTable, decode_strings
from ._text import ANALYZERS, Analyzer, plain_list
from ._text_file import TextFile

_MARKS = ("start", "end", "unknown", "analyzer")


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
    rising = labels.dtype.kind in "iu" and (labels[1:] > labels[:-1]).all()
    if not rising:
        try:
            distinct = len(set(labels.tolist()))
        except TypeError as exc:
            raise ValueError(f"{name} must be hashable: {exc}") from exc
        if distinct != len(labels):
            seen = set()
            twice = next(v for v in labels.tolist() if v in seen or seen.add(v))
            raise ValueError(f"{name} holds {twice!r:.60} twice")
    return labels


def check_hashable(name: str, mark: Any) -> None:
    """ValueError for a mark that cannot be a label."""
    try:
        hash(mark)
    except TypeError as exc:
        raise ValueError(f"{name} must be hashable: {exc}") from exc


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
        The labels that are predicted, distinct and hashable; position = class id. Or a
        `Strings`, the classes and symbols of a file.

    symbols : array-like of shape (n_symbols,), default=None
        The labels that can occur in a context; position = symbol id. None: not known.
        Contexts are then given as ids, and functions that need to know which class is
        which symbol (text, files, sampling of sequences) raise an error.

    start : hashable, default=None
        The label of a sentence start: a context symbol that is not a class. None: no
        start mark.

    end : hashable, default=None
        The label of a sentence end, one of `classes`. None: no end mark.

    unknown : hashable, default=None
        The label that represents all other labels, among `classes`, `symbols` or both.
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
        `symbols`, `end` is not a class, `unknown` is in neither, or `analyzer` is
        not a known name.

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
        classes: ArrayLike | Strings,
        symbols: ArrayLike | None = None,
        *,
        start: Any = None,
        end: Any = None,
        unknown: Any = None,
        analyzer: Analyzer = "word",
    ):
        check_choice("analyzer", analyzer, ANALYZERS)
        self.analyzer = analyzer
        # Labels are arrays, or a table if they are strings alone.
        self._arrays: tuple[Any, Any] = None, None
        self.strings: Strings | None
        self.n_symbols: int | None
        if isinstance(classes, Strings):
            self.strings = classes.check()
        else:
            known = _check_labels("classes", classes)
            of_contexts = None
            if symbols is not None:
                of_contexts = _check_labels("symbols", symbols)
            self.strings = Strings.of(known, of_contexts)
        if self.strings is None:
            self._arrays = known, of_contexts
            self.n_classes = known.size
            self.n_symbols = None if of_contexts is None else of_contexts.size
        else:
            self.n_classes = self.strings.token_of_class.size
            self.n_symbols = self.strings.n_symbols
        for name, mark in (("start", start), ("end", end), ("unknown", unknown)):
            check_hashable(name, mark)
        self.start, self.end, self.unknown = start, end, unknown
        if start is not None and self.class_id(start) >= 0:
            raise ValueError(
                f"start={start!r:.60} is one of classes: a sentence start is never "
                "predicted. Give start a symbol that is not a class"
            )
        self.end_id = -1 if end is None else self.class_id(end)
        if end is not None and self.end_id < 0:
            raise ValueError(
                f"end={end!r:.60} is not one of classes: a sentence end is predicted "
                "like any class"
            )
        self.unknown_id = -1 if unknown is None else self.class_id(unknown)
        if self.n_symbols is None:
            return
        if start is not None and self.symbol_id(start) < 0:
            raise ValueError(
                f"start={start!r:.60} is not one of symbols: contexts begin with it"
            )
        if unknown is not None and max(self.unknown_id, self.symbol_id(unknown)) < 0:
            raise ValueError(
                f"unknown={unknown!r:.60} is neither one of classes nor one of symbols"
            )

    @classmethod
    def of_ids(cls, n_classes: int, n_symbols: int | None = None) -> Labels:
        """Labels that are equal to their ids.

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

    # --------------------------------------------------------- derived tables

    @cached_property
    def classes(self) -> np.ndarray:
        """(n_classes,) labels."""
        if self.strings is None:
            return self._arrays[0]
        return object_array(self.class_labels(np.arange(self.n_classes)))

    @cached_property
    def symbols(self) -> np.ndarray | None:
        """(n_symbols,) labels."""
        if self.strings is None or self.n_symbols is None:
            return self._arrays[1]
        return object_array(self.strings.table.strings(range(self.n_symbols)))

    def forget_tables(self) -> None:
        """Free the tables derived from the labels; they are recomputed when needed."""
        self.__dict__ = stored(self)

    @cached_property
    def _class_index(self) -> SymbolIndex:
        if self.strings is None:
            return SymbolIndex(self.classes)
        # Without symbols the tokens are the classes.
        number = None if self.n_symbols is None else self.class_of_token
        return SymbolIndex(self.strings.table, number)

    @cached_property
    def _symbol_index(self) -> SymbolIndex:
        n_symbols = need_symbols(self, "the encoding of contexts")
        if self.strings is None:
            return SymbolIndex(self.known_symbols(""))
        number = None
        if n_symbols < len(self.strings.table):
            number = np.arange(len(self.strings.table) + 1, dtype=np.int32)
            number[n_symbols:] = -1
        return SymbolIndex(self.strings.table, number)

    def known_symbols(self, what: str) -> np.ndarray:
        """`symbols`, or a ValueError that names what needs the symbols."""
        need_symbols(self, what)
        assert self.symbols is not None
        return self.symbols

    def class_id(self, label: Any) -> int:
        """Class id of one label, -1 if it is not a class."""
        return self._class_index.id(label)

    def symbol_id(self, label: Any) -> int:
        """Symbol id of one label, -1 if it is not a context symbol."""
        return self._symbol_index.id(label)

    def class_labels(self, ids: np.ndarray) -> list:
        """The labels of some class ids, without creating `classes` for a table."""
        if self.strings is None:
            return self.classes[ids].tolist()
        return self.strings.table.strings(self.strings.token_of_class[ids].tolist())

    @property
    def start_id(self) -> int:
        """Symbol id of the sentence start, -1 without start mark."""
        return -1 if self.start is None else self.symbol_id(self.start)

    @cached_property
    def symbol_of_class(self) -> np.ndarray:
        """(n_classes,) int32: the context symbol of each class, or -1."""
        token, n_symbols = self.token_of_class, self.n_symbols
        return np.where(token < n_symbols, token, np.int32(-1))

    @property
    def class_of_symbol(self) -> np.ndarray:
        """(n_symbols,) int32: the class of each context symbol, or -1."""
        return self.class_of_token[: self.n_symbols or 0]

    @cached_property
    def token_of_class(self) -> np.ndarray:
        """(n_classes,) int32: the token of each class."""
        n_symbols = need_symbols(self, "tokens")
        if self.strings is not None:
            return self.strings.token_of_class
        token = code_ids(self._symbol_index.code, self.classes.tolist())
        new = token < 0
        token[new] = n_symbols + np.arange(new.sum(), dtype=np.int32)
        return token

    @cached_property
    def class_of_token(self) -> np.ndarray:
        """(n_tokens + 1,) int32: the class of each token, or -1.

        The last entry is the token of a word that the labels do not know, -2.
        """
        n_symbols = need_symbols(self, "tokens")
        token = self.token_of_class
        new = int(np.count_nonzero(token >= n_symbols))
        table = np.full(n_symbols + new + 1, -1, dtype=np.int32)
        table[token] = np.arange(self.n_classes, dtype=np.int32)
        table[-1] = -2
        return table

    @cached_property
    def token_code(self) -> dict | StringTable:
        """label -> token, for every label of the model."""
        if self.strings is not None:
            return self.strings.table
        new = self.symbol_of_class < 0
        tokens = self.token_of_class[new].tolist()
        return self._symbol_index.code | dict(zip(self.classes[new].tolist(), tokens))

    def tokens(self, words: list | Packed, unknown: int) -> np.ndarray:
        """(n_words,) int32: the tokens of words; `unknown` for unknown ones."""
        if self.strings is not None and not isinstance(words, list):
            return self.strings.table.packed_ids(*words, unknown)
        words = words if isinstance(words, list) else decode_strings(*words)
        return code_ids(self.token_code, words, unknown)

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
        unknown = -1 if self.unknown is None else index.id(self.unknown)
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
        if self.settings != other.settings or self.n_symbols != other.n_symbols:
            return False
        if self.strings is not None and other.strings is not None:
            pairs = zip(self.strings.packed()[:3], other.strings.packed())
            return all(np.array_equal(a, b) for a, b in pairs)
        return self.classes.tolist() == other.classes.tolist() and (
            self.n_symbols is None or self.symbols.tolist() == other.symbols.tolist()
        )

    __hash__ = None  # type: ignore[assignment]

    def __getstate__(self):
        names = self._arrays if self.strings is None else self.strings.packed()
        return {"names": names, **self.settings}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Take pickled labels; ValueError if the state is not that of labels."""
        names, marks = state["names"], {name: state[name] for name in _MARKS}
        if len(names) == 4:
            names = (Strings(StringTable(*names[:2]), *names[2:]),)
        Labels.__init__(self, *names, **marks)
        self.forget_tables()

    @property
    def settings(self) -> dict[str, Any]:
        """The marks and the analyzer by name, for labels of other words."""
        return {name: vars(self)[name] for name in _MARKS}

    def __repr__(self):
        symbols = "unknown" if self.n_symbols is None else self.n_symbols
        settings = "".join(
            f", {name}={value!r}"
            for name, value in self.settings.items()
            if value not in (None, "word")
        )
        return f"Labels(n_classes={self.n_classes}, n_symbols={symbols}{settings})"


def need_symbols(labels: Labels, what: str) -> int:
    """The number of symbols, or a ValueError that names what needs the symbols."""
    if labels.n_symbols is None:
        raise ValueError(
            f"labels: {what} needs the context symbols, but the labels were made "
            "with symbols=None; give symbols to Labels"
        )
    return labels.n_symbols


def check_sizes(labels: Labels, n_classes: int, n_symbols: int) -> None:
    """ValueError unless the labels fit a model of these sizes."""
    for name, n, wanted, why in (
        ("classes", labels.n_classes, n_classes, "class"),
        ("symbols", labels.n_symbols, n_symbols, "symbol"),
    ):
        if n not in (None, wanted):
            raise ValueError(
                f"labels.{name} must have {wanted} entries (one per {why}), got {n}"
            )


def _ids(index, values, unknown):
    array = label_array(values)
    return index.ids(array.reshape(-1), unknown).reshape(array.shape)


def sort_symbols(symbols: Any) -> list:
    """Sorted symbols; in the given order if they cannot be compared."""
    symbols = list(symbols)
    try:
        return sorted(symbols)
    except TypeError:
        return symbols


def read_vocabulary(vocabulary: Any, analyzer: str = "word") -> list:
    """The distinct words of a parameter `vocabulary`, or of its file, sorted."""
    if isinstance(vocabulary, str | bytes | Iterator):
        raise TypeError(
            "vocabulary must be an array of symbols, not a string or an iterator; a "
            "file of words is given as TextFile(path)"
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
        raise ValueError(f"vocabulary holds {gone[0]!r:.60}, which is not a word")
    if not words:
        where = f" of {vocabulary!r}" if isinstance(vocabulary, TextFile) else ""
        raise ValueError(f"vocabulary{where} is empty: give at least one word")
    return words


def union_labels(parts: list[Labels]) -> Labels:
    """Labels with the words of several labels; the first labels if all are equal.

    Otherwise the words are sorted, followed by the unknown word and the end mark; every
    class is a symbol, and the start mark is the last symbol. If some split words as
    "word" and others as "kenlm", which is assumed of files that store no rule, the
    union splits as "word". ValueError if the marks differ, some split into characters
    and others into words, or the labels differ and some have no symbols.
    """
    first = parts[0]
    if all(labels == first for labels in parts):
        return first
    unknown = next((p.unknown for p in parts if p.unknown is not None), None)
    for k, labels in enumerate(parts):
        need_symbols(labels, "a union of words")
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
