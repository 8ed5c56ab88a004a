"""``sklstruct classify``: text classifiers from labelled files; fastText's are read."""

from __future__ import annotations

import argparse
import codecs
import csv
import io
import sys
from collections.abc import Iterator
from itertools import chain
from typing import Any

import numpy as np

from .._checks import INT32_MAX
from .._files import open_read, without_compression
from .._warnings import warn
from ..compat import fasttext
from ..text import TextClassifier, is_fasttext, log_loss_of, read_labelled
from ._files import source_of, target_of
from ._tables import print_figures, progress, to_json

# Lines of a labelled file that are classified at a time; most bytes of other input.
_LINES = 4096
_BYTES = 1 << 18
_DELIMITERS = {".csv": ",", ".tsv": "\t"}


def _best(
    model: Any, texts: list[str], k: int, threshold: float
) -> list[list[tuple[str, float]]]:
    """The k most probable labels of each text with at least a given probability."""
    if not isinstance(model, TextClassifier):
        labels, proba = model.predict(texts, k=k, threshold=threshold)
        return [list(zip(row, p.tolist())) for row, p in zip(labels, proba)]
    found = model.predict_top_k(
        texts, min(k, model.classes_.size), return_log_proba=True
    )
    labels, proba = found[0].tolist(), np.exp(found[1]).tolist()
    return [
        [(str(label), p) for label, p in zip(*row) if p >= threshold]
        for row in zip(labels, proba)
    ]


def _labels_of(model: Any) -> set[str]:
    if isinstance(model, TextClassifier):
        return set(map(str, model.classes_.tolist()))
    return set(model.labels)


def _log_loss(
    model: TextClassifier, texts: list[str], labels: list[list[str]]
) -> float | None:
    """The log-loss of the texts whose labels the model knows."""
    known = _labels_of(model)
    several = model.estimator_.multilabel_
    kept = [
        i
        for i, row in enumerate(labels)
        if known.issuperset(row) and (several or len(row) == 1)
    ]
    if not kept:
        return None
    y: Any = [labels[i] for i in kept]
    if not several:
        y = np.array([row[0] for row in y]).astype(model.classes_.dtype)
    return log_loss_of(model, [texts[i] for i in kept], y)


def _load(path: str) -> Any:
    """The model of a file of `TextClassifier.save` or of fastText."""
    if path != "-" and is_fasttext(path):
        return fasttext.load_model(path)
    return TextClassifier.load(source_of(path))


def _delimiter(path: str) -> str | None:
    """The character between the columns of a table; None for lines of fastText."""
    return _DELIMITERS.get(without_compression(path)[-4:].lower())


def _check_table_options(arguments: argparse.Namespace, *paths: str | None) -> None:
    """ValueError for options of tables if no file is a table."""
    if any(path and _delimiter(path) for path in paths):
        return
    for option in ("columns", "header"):
        if getattr(arguments, option):
            raise ValueError(
                f"--{option} is for a file that ends in .csv or .tsv; {paths[0]} is "
                "read as lines of fastText"
            )


def _read(
    path: str, arguments: argparse.Namespace
) -> tuple[list[str], list[list[str]]]:
    """(texts, labels of each) of a file; the suffix tells the format."""
    delimiter = _delimiter(path)
    if delimiter is None:
        return read_labelled(source_of(path), arguments.label_prefix)
    label, text = arguments.columns or (1, 2)
    quoted: Any = csv.QUOTE_MINIMAL if delimiter == "," else csv.QUOTE_NONE
    csv.field_size_limit(INT32_MAX)  # texts may be long
    texts, labels = [], []
    with (
        open_read(path, name="FILE") as (file, _),
        io.TextIOWrapper(file, encoding="utf-8-sig", newline="") as lines,
    ):
        rows = csv.reader(lines, delimiter=delimiter, quoting=quoted, strict=True)
        first = 1  # line of the row; a row with quotes may have several
        try:
            for number, row in enumerate(rows):
                if row and not (arguments.header and number == 0):
                    if len(row) < max(label, text):
                        raise ValueError(
                            f"{len(row)} columns, and --columns names column "
                            f"{max(label, text)}"
                        )
                    if not row[label - 1].strip():
                        raise ValueError(
                            f"the label in column {label} is empty: remove the row"
                        )
                    texts.append(row[text - 1])
                    labels.append([row[label - 1]])
                first = rows.line_num + 1
        except (csv.Error, UnicodeDecodeError, ValueError) as exc:
            why = f"{exc}: a quote is not closed" if "end of data" in str(exc) else exc
            raise ValueError(f"{path}, line {first}: {why}") from exc
    if not texts:
        raise ValueError(f"{path}: the file has no line")
    return texts, labels


def train(arguments: argparse.Namespace) -> None:
    """``sklstruct classify train``."""
    _check_table_options(arguments, arguments.text, arguments.tune)
    with progress(arguments, f"reading {arguments.text}"):
        texts, labels = _read(arguments.text, arguments)
        held_out: Any = _read(arguments.tune, arguments) if arguments.tune else ()
    if arguments.min_count is not None and arguments.min_count > len(texts):
        raise ValueError(
            f"--min-count {arguments.min_count} is more than the {len(texts)} texts of "
            f"{arguments.text}"
        )
    several = any(len(set(row)) > 1 for row in labels)

    def targets(rows: list[list[str]]) -> list:
        return rows if several else [row[0] for row in rows]

    if held_out:
        known = {label for row in labels for label in row}
        kept = [pair for pair in zip(*held_out) if known.issuperset(pair[1])]
        if not kept:
            raise ValueError(
                f"--tune {arguments.tune}: no text has only labels of {arguments.text}"
            )
        held_out = [x for x, _ in kept], targets([row for _, row in kept])
    model = TextClassifier(
        arguments.features,
        min_df=arguments.min_count,
        C=arguments.C,
        threshold="f1" if several else 0.5,
        random_state=arguments.seed,
    )
    with progress(arguments, f"learning from {arguments.text}"):
        model.fit(texts, targets(labels))
        reduced = model.reduce(*held_out)
    with progress(arguments, f"writing {arguments.output}"):
        reduced.save(target_of(arguments.output))
    figures = {
        "n_texts": len(texts),
        "n_labels": int(model.classes_.size),
        "n_features": int(model.estimator_.n_features_in_),
    }
    print_figures(figures, arguments.json, arguments.output == "-")


def predict(arguments: argparse.Namespace) -> None:
    """``sklstruct classify predict``."""
    with progress(arguments, f"reading {arguments.model}"):
        model = _load(arguments.model)
    with open_read(source_of(arguments.text), name="FILE") as (file, label):
        for lines in _arrived(file, label):
            for row in _best(model, lines, arguments.k, arguments.threshold):
                print(_answer(row, arguments.json))
            sys.stdout.flush()


def _arrived(file: Any, label: str) -> Iterator[list[str]]:
    """Yield the lines of a file without line ends, as soon as a pipe or terminal has
    them."""
    number, rest = 0, b""
    while part := file.read1(_BYTES):
        *lines, rest = (rest + part).split(b"\n")
        if lines:
            yield [_text(line, label, number + i) for i, line in enumerate(lines, 1)]
        number += len(lines)
    if rest:
        yield [_text(rest, label, number + 1)]


def _text(line: bytes, label: str, number: int) -> str:
    if number == 1:
        line = line.removeprefix(codecs.BOM_UTF8)
    try:
        return line.decode().rstrip("\r")
    except UnicodeDecodeError as exc:
        raise ValueError(f"{label}, line {number}: not UTF-8: {exc}") from exc


def _answer(row: list[tuple[str, float]], as_json: bool) -> str:
    if as_json:
        labels, proba = [label for label, _ in row], [p for _, p in row]
        return to_json({"labels": labels, "proba": proba})
    return " ".join(chain.from_iterable((label, f"{p:.6g}") for label, p in row))


def test(arguments: argparse.Namespace) -> None:
    """``sklstruct classify test``."""
    _check_table_options(arguments, arguments.text)
    with progress(arguments, f"reading {arguments.model}"):
        model = _load(arguments.model)
        texts, labels = _read(arguments.text, arguments)
    known = _labels_of(model)
    if known.isdisjoint(chain.from_iterable(labels)):
        warn(
            f"no label of {arguments.text} is a label of the model, such as "
            f"{min(known)!r}; see --label-prefix and --columns"
        )
    k, n_found, n_right = arguments.k, 0, 0
    for i in range(0, len(texts), _LINES):
        part = slice(i, i + _LINES)
        for found, right in zip(
            _best(model, texts[part], k, arguments.threshold), labels[part]
        ):
            n_found += len(found)
            n_right += len({label for label, _ in found} & set(right))
    n_labels = sum(len(set(row)) for row in labels)
    figures: dict[str, Any] = {
        "n_texts": len(texts),
        f"precision_at_{k}": n_right / max(n_found, 1),
        f"recall_at_{k}": n_right / max(n_labels, 1),
    }
    if isinstance(model, TextClassifier):
        figures["log_loss"] = _log_loss(model, texts, labels)
    print_figures(figures, arguments.json)
