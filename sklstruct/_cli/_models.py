"""Subcommands over models: train, evaluate, sample, prune, mix, convert, info."""

from __future__ import annotations

import argparse
import json
import os
import pickle
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .. import exchange
from .._compat import HAS_CALLBACKS
from .._description import Description, shown
from .._files import open_read, open_write
from ..backoff import BackoffModel, restrict
from ..backoff import prune as prune_model
from ..language_model import LanguageModel, interpolate
from ..loglinear import StructuredLogLinearLM
from ..smoothing import AbsoluteDiscountLM, KatzLM, KneserNeyLM, WittenBellLM
from ..symbols import TextFile
from ._write import format_of, write_model

_ESTIMATORS = {
    "kneser-ney": KneserNeyLM,
    "absolute-discount": AbsoluteDiscountLM,
    "witten-bell": WittenBellLM,
    "katz": KatzLM,
    "log-linear": StructuredLogLinearLM,
}
_PICKLE = (".pkl", ".pkl.gz", ".pkl.bz2", ".pkl.xz")


@contextmanager
def progress(arguments: argparse.Namespace, text: str) -> Iterator[Progress]:
    """A line about what is being done, on a terminal, which goes when it is done."""
    shown = Progress(text, sys.stderr.isatty() and not arguments.quiet)
    try:
        yield shown
    finally:
        shown.clear()


class Progress:
    """What is being done, since when, and a fit's steps; a callback of estimators.

    Parameters
    ----------
    text : str
        What is being done.

    shows : bool
        Whether it is shown at all.
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

    def teardown(self, estimator: Any, context: Any) -> None:
        """Nothing."""

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        """Nothing."""

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        """Count the step; show it if the last one was some time ago."""
        self.steps += 1
        if time.monotonic() > self.last + 0.2:
            self.last = time.monotonic()
            self.show()


def text_of(paths: list[str], **options: Any) -> TextFile | list[str]:
    """The sentences of files, or of standard input."""
    if "-" not in paths:
        return TextFile(paths, **options)
    if len(paths) > 1:
        raise ValueError("-: standard input stands alone")
    try:
        lines = sys.stdin.buffer.read().decode("utf-8").splitlines()
    except UnicodeDecodeError as exc:
        raise ValueError(f"standard input is not UTF-8: {exc}") from exc
    return [line for line in lines if line.strip() or not options]


def load(path: str, **options: Any) -> LanguageModel:
    """A model of sentences from a file: a table, or by its name a pickle."""
    if not path.endswith(_PICKLE):
        return LanguageModel.load(path, **options)
    with open_read(path) as (file, label):
        try:
            model = pickle.load(file)
        except Exception as exc:  # a pickle can raise anything
            message = str(exc) or type(exc).__name__
            raise ValueError(f"{label}: no pickle of a model: {message}") from exc
    if not isinstance(model, LanguageModel) or not model.__sklearn_is_fitted__():
        raise ValueError(f"{label}: a {type(model).__name__}, and no fitted model")
    return model.set_params(**options)


def load_table(path: str) -> BackoffModel:
    """A back-off model from a file of any kind."""
    if not path.endswith(_PICKLE):
        return exchange.read(path)
    try:
        return load(path).backoff_model_
    except AttributeError as exc:
        raise ValueError(f"{path}: {exc}") from exc


def save(lm: LanguageModel, path: str, method: str = "exact") -> None:
    """Write a model of sentences in the format that the name of the file says."""
    if path.endswith(_PICKLE):
        with open_write(path) as file:
            pickle.dump(lm, file, protocol=pickle.HIGHEST_PROTOCOL)
    elif method == "exact":
        write_model(lm.backoff_model_, path)
    else:
        format = format_of(path)
        file = sys.stdout.buffer if path == "-" else path
        lm.save(file, format=format, method=method)


def train(arguments: argparse.Namespace) -> None:
    """``sklstruct train``."""
    # Order 1 has no contexts; a language model reads at least one word of them.
    depth = arguments.order - 1
    vocabulary, quality = arguments.vocabulary, arguments.quality
    if quality and depth < 1:
        raise ValueError(f"--quality {quality} needs -n 2 or more")
    if quality not in (None, "fast") and not arguments.output.endswith(_PICKLE):
        raise ValueError(
            f"--quality {quality}: no ARPA file or KenLM binary can hold such a model; "
            "give the output a name that ends in .pkl"
        )
    if arguments.tune and quality in (None, "fast"):
        raise ValueError("--tune is for --quality good, better and best")
    lm = LanguageModel(
        quality or _ESTIMATORS[arguments.smoothing](max_depth=depth),
        max_depth=max(1, depth),
        min_count=arguments.min_count,
        max_vocabulary=arguments.max_vocabulary,
        vocabulary=None if vocabulary is None else TextFile(vocabulary),
        unknown=arguments.unknown,
    )
    held_out = text_of([arguments.tune]) if arguments.tune else None
    with progress(arguments, f"learning from {', '.join(arguments.text)}") as shown:
        if shown.shows and HAS_CALLBACKS:
            lm.set_callbacks(shown)
        lm.fit(text_of(arguments.text), X_val=held_out)
        lm.set_callbacks()
    with progress(arguments, f"writing {arguments.output}"):
        save(lm, arguments.output)


def evaluate(arguments: argparse.Namespace) -> None:
    """``sklstruct evaluate``."""
    with progress(arguments, f"reading {arguments.model}"):
        lm = load(arguments.model, out_of_vocabulary="exclude")
    text = text_of([arguments.text])
    if arguments.by_depth:
        table = lm.perplexity_by_depth(text)
        rows = [
            {
                "depth": int(depth),
                "n_tokens": int(n),
                "perplexity": float(p) if n else None,
            }
            for depth, n, p in zip(table.depth, table.n_tokens, table.perplexity)
        ]
        _print(rows, arguments.json)
    elif arguments.per_sentence:
        _print_sentences(lm, text, arguments.json)
    else:
        perplexity, counts = lm.perplexity(text, return_counts=True)
        figures = {
            "perplexity": perplexity,
            "perplexity_without_end": lm.perplexity(text, include_end=False),
            "perplexity_without_unknown": lm.perplexity(text, include_unknown=False),
            "n_tokens": counts.n_counted,
            "n_sentences": counts.n_end,
            "n_unknown": counts.n_unknown,
        }
        _print(figures, arguments.json)


def _print_sentences(lm: LanguageModel, text: Any, as_json: bool) -> None:
    table = lm.perplexity_by_sentence(text)
    for i, sentence in enumerate(text):
        n = int(table.n_tokens[i])
        row = {
            "log10_prob": float(table.log_likelihood[i] / np.log(10)),
            "n_tokens": n,
            "n_unknown": int(table.n_unknown[i]),
            "perplexity": float(table.perplexity[i]) if n else None,
            "sentence": " ".join(sentence.split()),
        }
        if as_json:
            print(json.dumps(row, ensure_ascii=False))
        else:
            print("\t".join(map(shown, row.values())))


def sample(arguments: argparse.Namespace) -> None:
    """``sklstruct sample``."""
    with progress(arguments, f"reading {arguments.model}"):
        lm = load(arguments.model)
    drawn = lm.sample(
        arguments.k,
        max_length=arguments.max_length,
        prefix=arguments.prefix,
        temperature=arguments.temperature,
        top_k=arguments.top_k,
        top_p=arguments.top_p,
        random_state=arguments.seed,
    )
    for sentence in drawn:
        print(" ".join(sentence))


def prune(arguments: argparse.Namespace) -> None:
    """``sklstruct prune``."""
    threshold, to, vocabulary = arguments.threshold, arguments.to, arguments.vocabulary
    if threshold is None and to is None and vocabulary is None:
        raise ValueError("--threshold, --to or --vocabulary is needed")
    with progress(arguments, f"reading {arguments.model}"):
        model = load_table(arguments.model)
    with progress(arguments, f"pruning {model.n_pairs} n-grams"):
        if vocabulary is not None:
            model = restrict(model, TextFile(vocabulary))
        if to is not None:
            to = int(to) if to.isdecimal() else to
        if threshold is not None or to is not None:
            model = prune_model(model, threshold, to=to)
    with progress(arguments, f"writing {arguments.output}"):
        save(LanguageModel.from_backoff(model), arguments.output)


def mix(arguments: argparse.Namespace) -> None:
    """``sklstruct mix``."""
    models = []
    for path in arguments.models:
        with progress(arguments, f"reading {path}"):
            models.append(load(path))
    if arguments.weights is not None and len(arguments.weights) != len(models):
        raise ValueError(
            f"--weights has {len(arguments.weights)} numbers for {len(models)} models"
        )
    with progress(arguments, "mixing"):
        if arguments.weights is None:
            text = text_of([arguments.tune])
            lm = interpolate(models, text)
        else:
            lm = interpolate(models, weights=arguments.weights)
    with progress(arguments, f"writing {arguments.output}"):
        save(lm, arguments.output, method="union")
    mixture = lm.estimator_
    figures = {
        "weights": dict(zip(arguments.models, mixture.weights_.tolist())),
        "weight_gap": mixture.weight_gap_,
        "n_words": len(lm.vocabulary_),
    }
    if arguments.weights is None:
        lm.set_params(out_of_vocabulary="exclude")
        figures["perplexity"] = lm.perplexity(text)
    # The model may go to standard output.
    _print(figures, arguments.json, arguments.output == "-")


def convert(arguments: argparse.Namespace) -> None:
    """``sklstruct convert``."""
    options = {}
    if arguments.precision is not None:
        if arguments.output.endswith(_PICKLE) or format_of(arguments.output) != "arpa":
            raise ValueError("--precision is of ARPA files, and OUTPUT is none")
        options["precision"] = arguments.precision
    with progress(arguments, f"reading {arguments.model}"):
        model = load_table(arguments.model)
    with progress(arguments, f"writing {arguments.output}"):
        if arguments.output.endswith(_PICKLE):
            save(LanguageModel.from_backoff(model), arguments.output)
        else:
            write_model(model, arguments.output, **options)


def info(arguments: argparse.Namespace) -> None:
    """``sklstruct info``."""
    with progress(arguments, f"reading {arguments.model}"):
        model = load_table(arguments.model)
    size = os.path.getsize(arguments.model)
    _print(model.describe() | {"bytes": size}, arguments.json)


def _print(figures: Any, as_json: bool, to_errors: bool = False) -> None:
    out = sys.stderr if to_errors else sys.stdout
    if as_json:
        print(json.dumps(figures, ensure_ascii=False), file=out)
    elif isinstance(figures, list):
        print("\t".join(figures[0]), file=out)
        for row in figures:
            print("\t".join(map(shown, row.values())), file=out)
    else:
        print(Description(figures), file=out)
