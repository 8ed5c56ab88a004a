"""Items as python-crfsuite takes them, and the tagger of a model file."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterator, Sequence
from numbers import Real
from typing import Any

import numpy as np

from ..._files import open_write
from ...factor_graph._chains import ChainModel, ScoredChains
from ...factor_graph._crfsuite import ChainWeights, read_file, read_header, read_model
from ...factor_graph._features_fast import FeatureReader
from ...factor_graph._observations import as_items, read_items


class ItemSequence:
    """Items whose attributes are read, for several calls.

    Parameters
    ----------
    pyseq : iterable of items
        An item is a mapping from names to numbers, strings (the attribute
        ``name:string`` is 1), lists of strings or further mappings, or an iterable of
        names, which are 1. Names may be bytes, in UTF-8.

    Raises
    ------
    ValueError
        If an item is malformed, or a value is NaN or infinite.

    Examples
    --------
    >>> from sklstruct.compat.pycrfsuite import ItemSequence
    >>> ItemSequence([["foo"], {"bar": {"baz": 1}, "word": "cat"}]).items()
    [{'foo': 1.0}, {'bar:baz': 1.0, 'word:cat': 1.0}]
    """

    def __init__(self, pyseq: Sequence) -> None:
        names: dict[str, int] = {}
        items = as_items("pyseq", pyseq)
        per_item, column, value = read_items(
            items, FeatureReader(names, True), lambda t: f"pyseq, item {t}"
        )
        every = iter(zip(map(list(names).__getitem__, column.tolist()), value.tolist()))
        self._pairs = [[next(every) for _ in range(n)] for n in per_item.tolist()]

    def items(self) -> list[dict[str, float]]:
        """The attributes of each item; of a repeated attribute the last value."""
        return [dict(pairs) for pairs in self._pairs]

    def summed(self) -> list[dict[str, float]]:
        """The attributes of each item; of a repeated attribute the sum, as tagging."""
        found = []
        for pairs in self._pairs:
            item: dict[str, float] = {}
            for name, value in pairs:
                item[name] = item.get(name, 0.0) + value
            found.append(item)
        return found

    def __len__(self) -> int:
        return len(self._pairs)

    def __repr__(self) -> str:
        return f"<ItemSequence of size {len(self)}>"


class ParsedDump:
    """The result of `Tagger.info`.

    Attributes
    ----------
    header : dict from str to str
        Fields of the header of the file.

    labels, attributes : dict from str to str
        The number, as text, of each label and of each attribute.

    transitions : dict from (str, str) to float
        Weights by earlier and later label; weights of 0 are left out.

    state_features : dict from (str, str) to float
        Weights by attribute and label; weights of 0 are left out.
    """

    def __init__(self, header: dict[str, str], weights: ChainWeights) -> None:
        self.header = header
        labels, attributes, state, transition = weights
        self.labels = {name: str(i) for i, name in enumerate(labels)}
        self.attributes = {name: str(i) for i, name in enumerate(attributes)}
        self.transitions = _named(transition, labels, labels)
        self.state_features = _named(state, attributes, labels)

    def lines(self) -> Iterator[str]:
        """The text of `Tagger.dump`."""
        head = (f"  {name}: {value}" for name, value in self.header.items())
        yield from ("FILEHEADER = {", *head, "}", "")
        for title, names in (("LABELS", self.labels), ("ATTRIBUTES", self.attributes)):
            body = (f"  {number:>5}: {name}" for name, number in names.items())
            yield from (f"{title} = {{", *body, "}", "")
        for title, kind, table in (
            ("TRANSITIONS", 1, self.transitions),
            ("STATE_FEATURES", 0, self.state_features),
        ):
            body = (f"  ({kind}) {a} --> {b}: {w:f}" for (a, b), w in table.items())
            yield from (f"{title} = {{", *body, "}", "")


def _named(
    table: np.ndarray, rows: list[str], columns: list[str]
) -> dict[tuple[str, str], float]:
    i, j = np.nonzero(table)
    pairs = zip(map(rows.__getitem__, i.tolist()), map(columns.__getitem__, j.tolist()))
    return dict(zip(pairs, table[i, j].tolist()))


class _Sequence:
    """The sequence that a tagger was asked about last."""

    __slots__ = ("length", "marginals", "scores")

    def __init__(self, scores: bytes, length: int) -> None:
        self.scores, self.length = scores, length
        self.marginals: np.ndarray | None = None

    def chain(self) -> ScoredChains:
        return ScoredChains([self.length], lambda first, end: self.scores)


class Tagger:
    """Labels of sequences, by a model file of CRFsuite.

    Notes
    -----
    A file that CRFsuite, python-crfsuite or `Trainer` wrote gives the same labels as
    with python-crfsuite, and the same probabilities to about 1e-13. A damaged file is
    an error that names the place. Values that are NaN or infinite are refused. `info`
    has exact weights. Threads may share a tagger for `tag` with an argument.

    Examples
    --------
    >>> from tempfile import TemporaryDirectory
    >>> from sklstruct.compat import pycrfsuite
    >>> trainer = pycrfsuite.Trainer(verbose=False, params={"c2": 0.1})
    >>> trainer.append([{"w": "the"}, {"w": "cat"}], ["D", "N"])
    >>> tagger = pycrfsuite.Tagger()
    >>> with TemporaryDirectory() as folder:
    ...     trainer.train(f"{folder}/model.crfsuite")
    ...     opened = tagger.open(f"{folder}/model.crfsuite")
    >>> tagger.tag([{"w": "the"}, {"w": "cat"}])
    ['D', 'N']
    >>> max(tagger.info().transitions, key=tagger.info().transitions.get)
    ('D', 'N')
    """

    def __init__(self) -> None:
        self._model: ChainModel | None = None
        self.close()

    def open(self, name: str | os.PathLike[str]) -> contextlib.closing[Tagger]:
        """Open a model file; the result closes it as a context manager.

        Parameters
        ----------
        name : str or os.PathLike
            Path, also of a file that gzip, bzip2 or xz compressed.

        Raises
        ------
        OSError
            If the file cannot be read.

        ValueError
            If the file is not a model of CRFsuite, is damaged or has no labels.
        """
        return self._open(*read_file(name, "name"))

    def open_inmemory(self, value: bytes) -> contextlib.closing[Tagger]:
        """Open the content of a model file.

        Parameters
        ----------
        value : bytes
            Content. It is read at once: the bytes need not be kept.

        Raises
        ------
        ValueError
            As `open`.
        """
        if not isinstance(value, bytes):
            raise TypeError(f"value must be bytes, got {type(value).__name__}")
        try:
            weights = read_model(value)
        except ValueError as exc:
            raise ValueError(f"value: {exc}") from exc
        return self._open(weights, value)

    def _open(self, weights: ChainWeights, data: bytes) -> contextlib.closing[Tagger]:
        self.close()
        self._header, self._weights = read_header(data), weights
        self._model = ChainModel(
            {name: j for j, name in enumerate(weights.attributes)},
            weights.state,
            weights.transition,
            weights.labels,
        )
        self._code = {label: a for a, label in enumerate(weights.labels)}
        return contextlib.closing(self)

    def close(self) -> None:
        """Close the model."""
        self._model = None
        self._current = _Sequence(b"", 0)

    def _opened(self, error: type[Exception] = ValueError) -> ChainModel:
        if self._model is None:
            raise error("the tagger is closed: call open(name) first")
        return self._model

    def labels(self) -> list[str]:
        """The labels, in the order of the file."""
        return list(self._opened().labels)

    def set(self, xseq: Sequence | ItemSequence) -> None:
        """Set the sequence that `tag`, `probability` and `marginal` are about.

        Parameters
        ----------
        xseq : iterable of items, or ItemSequence
            As `ItemSequence` takes them. Attributes that the model does not have are
            left out.

        Raises
        ------
        ValueError
            If an item is malformed, or a value is NaN or infinite.
        """
        self._current = self._read(xseq)

    def _read(self, xseq: Sequence | ItemSequence) -> _Sequence:
        model = self._opened()
        if isinstance(xseq, ItemSequence):
            items: list = xseq.summed()
        else:
            items = as_items("xseq", xseq)
        return _Sequence(model.scorer.scores([items], _owner), len(items))

    def tag(self, xseq: Sequence | ItemSequence | None = None) -> list[str]:
        """The most probable labels.

        Parameters
        ----------
        xseq : iterable of items, or ItemSequence, default=None
            As for `set`. None: the sequence that was set or tagged last.

        Returns
        -------
        labels : list of str
        """
        # one object, so that another thread cannot put its sequence between
        given = self._current if xseq is None else self._read(xseq)
        self._current = given
        return self._opened().scorer.best(given.scores, [given.length])[0]

    def probability(self, yseq: Sequence[str]) -> float:
        """The probability of a label sequence, given the items that were set.

        Parameters
        ----------
        yseq : list of str
            A label for each item.

        Returns
        -------
        probability : float
            0.0 of an empty sequence, as in python-crfsuite.

        Raises
        ------
        ValueError
            If the numbers of items and labels differ.

        RuntimeError
            If the model does not have a label.
        """
        model, labels, given = self._opened(), list(yseq), self._current
        if len(labels) != given.length:
            raise ValueError(
                f"yseq must have a label for each of the {given.length} items, got "
                f"{len(labels)}"
            )
        if not labels:
            return 0.0
        path = np.array([self._number(label) for label in labels])
        score = np.frombuffer(given.scores).reshape(given.length, -1)
        total = score[np.arange(given.length), path].sum()
        total += model.transition[path[:-1], path[1:]].sum()
        return float(np.exp(total - model.log_sums(given.chain())[0]))

    def marginal(self, y: str, pos: int) -> float:
        """The probability of a label at a position, given the items that were set.

        Parameters
        ----------
        y : str
            The label.

        pos : int
            The position, from 0.

        Returns
        -------
        probability : float
            0.0 of an empty sequence, as in python-crfsuite.

        Raises
        ------
        TypeError
            If the position is not an integer.

        ValueError
            If the position is not that of an item.

        RuntimeError
            If the model does not have the label.
        """
        model, given = self._opened(), self._current
        if not given.length:
            return 0.0
        code = self._number(y)
        pos = as_number("pos", pos)
        if not 0 <= pos < given.length:
            raise ValueError(f"pos must be from 0 to {given.length - 1}, got {pos}")
        if given.marginals is None:
            given.marginals = model.marginals(given.chain())[0]
        return float(given.marginals[pos, code])

    def _number(self, label: str) -> int:
        try:
            return self._code[label]
        except (KeyError, TypeError):
            raise RuntimeError(
                f"the model does not have the label {label!r}; labels() has its labels"
            ) from None

    def info(self) -> ParsedDump:
        """Labels, attributes and weights of the model."""
        self._opened(RuntimeError)
        return ParsedDump(self._header, self._weights)

    def dump(self, filename: str | os.PathLike[str] | None = None) -> None:
        """Write the model as text.

        Parameters
        ----------
        filename : str or os.PathLike, default=None
            None is the standard output.
        """
        text = "\n".join(self.info().lines()) + "\n"
        if filename is None:
            sys.stdout.write(text)
            return
        with open_write(filename, name="filename") as file:
            file.write(text.encode("utf-8", "surrogateescape"))


def as_number(name: str, value: Any) -> int:
    """An integer, of any type of real numbers."""
    is_whole = isinstance(value, Real) and value % 1 == 0  # NaN if not finite
    if not is_whole:
        raise TypeError(f"{name} must be an integer, got {value!r}")
    return int(value)


def _owner(_: int, t: int) -> str:
    return f"xseq, item {t}"
