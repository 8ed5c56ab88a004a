"""Subcommands over models: train, evaluate, sample, prune, convert, info."""

from __future__ import annotations

import argparse
import json
import os
import sys
from typing import Any

import numpy as np

from .. import exchange
from ..backoff import prune as prune_model
from ..language_model import LanguageModel
from ..loglinear import StructuredLogLinearLM
from ..smoothing import AbsoluteDiscountLM, KatzLM, KneserNeyLM, WittenBellLM
from ..symbols import TextFile
from ._write import BINARY, write_model

_ESTIMATORS = {
    "kneser-ney": KneserNeyLM,
    "absolute-discount": AbsoluteDiscountLM,
    "witten-bell": WittenBellLM,
    "katz": KatzLM,
    "log-linear": StructuredLogLinearLM,
}


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


def train(arguments: argparse.Namespace) -> None:
    """``sklstruct train``."""
    # Order 1 has no contexts; a language model reads at least one word of them.
    depth = arguments.order - 1
    vocabulary = arguments.vocabulary
    lm = LanguageModel(
        _ESTIMATORS[arguments.smoothing](max_depth=depth),
        max_depth=max(1, depth),
        min_count=arguments.min_count,
        max_vocabulary=arguments.max_vocabulary,
        vocabulary=None if vocabulary is None else TextFile(vocabulary),
        unknown=arguments.unknown,
    ).fit(text_of(arguments.text))
    write_model(lm.backoff_model_, arguments.output)


def evaluate(arguments: argparse.Namespace) -> None:
    """``sklstruct evaluate``."""
    lm = LanguageModel.load(arguments.model, out_of_vocabulary="exclude")
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
            print("\t".join(_show(value) for value in row.values()))


def sample(arguments: argparse.Namespace) -> None:
    """``sklstruct sample``."""
    lm = LanguageModel.load(arguments.model)
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
    model = exchange.read(arguments.model)
    write_model(prune_model(model, arguments.threshold), arguments.output)


def convert(arguments: argparse.Namespace) -> None:
    """``sklstruct convert``."""
    options = {}
    if arguments.precision is not None:
        if arguments.output.endswith(BINARY):
            raise ValueError("--precision is of ARPA files, and OUTPUT is a binary")
        options["precision"] = arguments.precision
    write_model(exchange.read(arguments.model), arguments.output, **options)


def info(arguments: argparse.Namespace) -> None:
    """``sklstruct info``."""
    model = exchange.read(arguments.model)
    tree, ptr = model.tree, model.pairs.ptr
    counts = [int(ptr[b] - ptr[a]) for a, b in zip(tree.level_ptr, tree.level_ptr[1:])]
    labels = model.labels
    figures = {
        "order": model.order,
        "n_words": len(labels.classes),
        **{f"n_{k}_grams": n for k, n in enumerate(counts, 1)},
        "start": labels.start,
        "end": labels.end,
        "unknown": labels.unknown,
        "bytes": os.path.getsize(arguments.model),
    }
    _print(figures, arguments.json)


def _print(figures: Any, as_json: bool) -> None:
    if as_json:
        print(json.dumps(figures, ensure_ascii=False))
    elif isinstance(figures, list):
        print("\t".join(figures[0]))
        for row in figures:
            print("\t".join(_show(value) for value in row.values()))
    else:
        width = max(map(len, figures))
        for name, value in figures.items():
            print(f"{name:{width}}  {_show(value)}")


def _show(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.4f}" if isinstance(value, float) else str(value)
