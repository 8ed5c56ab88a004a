"""Subcommands over tables of n-grams (prune, convert, info), progress and output.

The module does not import scikit-learn, which would take most of the time of a short
command: only pickles need it.
"""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from .. import exchange
from .._description import Description, shown
from .._files import open_read, open_write
from ..backoff import BackoffModel
from ..backoff import prune as prune_model
from ._files import is_pickle, read_words, source_of, target_of

if TYPE_CHECKING:
    from ..language_model import LanguageModel


@contextmanager
def progress(arguments: argparse.Namespace, text: str) -> Iterator[ProgressLine]:
    """Show a task on a terminal while it runs."""
    shown = ProgressLine(text, sys.stderr.isatty() and not arguments.quiet)
    try:
        yield shown
    finally:
        shown.clear()


class ProgressLine:
    """A task, its seconds and the steps of its fit in one line; a callback.

    Nothing is printed unless it `shows`.
    """

    max_propagation_depth = None  # of all estimators inside

    def __init__(self, text: str, shows: bool) -> None:
        self.text, self.shows, self.steps = text, shows, 0
        self.began = self.last = time.monotonic()
        self.show()

    def show(self) -> None:
        """Write the line."""
        if self.shows:
            steps = f", step {self.steps}" if self.steps else ""
            seconds = time.monotonic() - self.began
            line = f"\r\x1b[K{self.text} ({seconds:.0f} s{steps})"
            print(line, end="", file=sys.stderr, flush=True)

    def clear(self) -> None:
        """Remove the line."""
        if self.shows:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)

    def setup(self, estimator: Any, context: Any) -> None:
        """Nothing."""

    teardown = on_fit_task_begin = setup

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Count the step; rewrite the line at most five times per second."""
        self.steps += 1
        if time.monotonic() > self.last + 0.2:
            self.last = time.monotonic()
            self.show()


def load_pickle(path: str) -> LanguageModel:
    """A fitted model of sentences."""
    import joblib

    from ..language_model import LanguageModel

    with open_read(path) as (file, label):
        try:
            model = joblib.load(file)  # of joblib.dump and of pickle.dump
        except Exception as exc:  # unpickling can raise any error
            message = str(exc) or type(exc).__name__
            raise ValueError(f"{label}: not a pickle of a model: {message}") from exc
    if not isinstance(model, LanguageModel) or not model.__sklearn_is_fitted__():
        raise ValueError(
            f"{label}: a {type(model).__name__}, not a fitted LanguageModel"
        )
    return model


def save_pickle(arguments: argparse.Namespace, lm: LanguageModel) -> None:
    """Write the model of sentences of a command as a pickle."""
    path = arguments.output
    with progress(arguments, f"writing {path}"), open_write(path) as file:
        pickle.dump(lm, file, protocol=pickle.HIGHEST_PROTOCOL)


def load_table(arguments: argparse.Namespace, path: str) -> BackoffModel:
    """A back-off model of a command, from a file of any kind."""
    with progress(arguments, f"reading {path}"):
        if not is_pickle(path):
            return exchange.read(source_of(path))
        from ..language_model._saving import table_of

        try:
            return table_of(load_pickle(path))
        except AttributeError as exc:
            raise ValueError(f"{path}: {exc}") from exc


def save_table(
    arguments: argparse.Namespace, model: BackoffModel, **options: Any
) -> None:
    """Write the back-off model of a command in the format of the suffix."""
    path = arguments.output
    if is_pickle(path):
        from ..language_model import LanguageModel

        save_pickle(arguments, LanguageModel.from_backoff(model))
        return
    with progress(arguments, f"writing {path}"):
        exchange.write(model, target_of(path), **options)


def prune(arguments: argparse.Namespace) -> None:
    """``sklstruct prune``."""
    threshold, to, vocabulary = arguments.threshold, arguments.to, arguments.vocabulary
    if threshold is None and to is None and vocabulary is None:
        raise ValueError("--threshold, --to or --vocabulary is needed")
    model = load_table(arguments, arguments.model)
    with progress(arguments, f"pruning {model.n_pairs} n-grams"):
        words = None
        if vocabulary is not None:
            words = read_words(vocabulary, arguments.quiet)
        model = prune_model(model, threshold, to=to, vocabulary=words)
    save_table(arguments, model)


def convert(arguments: argparse.Namespace) -> None:
    """``sklstruct convert``."""
    options = {}
    if arguments.precision is not None:
        path = arguments.output
        if is_pickle(path) or (
            path != "-" and exchange.format_to_write(path) != "arpa"
        ):
            raise ValueError("--precision is for ARPA files, and OUTPUT is not one")
        options["precision"] = arguments.precision
    save_table(arguments, load_table(arguments, arguments.model), **options)


def info(arguments: argparse.Namespace) -> None:
    """``sklstruct info``."""
    figures = load_table(arguments, arguments.model).describe()
    del figures["bytes"]  # in memory
    if os.path.isfile(arguments.model):
        figures["bytes"] = os.path.getsize(arguments.model)
    print_figures(figures, arguments.json)


def to_json(figures: Any) -> str:
    """JSON, in which infinite numbers are null."""
    figures = json.loads(json.dumps(figures), parse_constant=lambda _: None)
    return json.dumps(figures, ensure_ascii=False)


def print_figures(figures: Any, as_json: bool, to_errors: bool = False) -> None:
    """Numbers with names, or rows of them, as text or as JSON."""
    out = sys.stderr if to_errors else sys.stdout
    if as_json:
        print(to_json(figures), file=out)
    elif isinstance(figures, list):
        print("\t".join(figures[0]), file=out)
        for row in figures:
            print("\t".join(map(shown, row.values())), file=out)
    else:
        print(Description(figures), file=out)
