"""Subcommands over models of sentences: train, evaluate, sample, mix."""

from __future__ import annotations

import argparse
from contextlib import suppress
from importlib import import_module
from typing import Any

import numpy as np

from .._compat import HAS_CALLBACKS
from .._description import shown
from ..backoff import mix
from ..language_model import LanguageModel, interpolate
from ..language_model._saving import table_of
from ..symbols import NumberedText, TextFile, join_symbols
from ._arguments import MODELS
from ._files import is_pickle, label_of, read_words, source_of
from ._tables import (
    load_pickle,
    print_figures,
    progress,
    save_pickle,
    save_table,
    to_json,
)


def text_of(paths: list[str]) -> TextFile:
    """The sentences of files; "-" is standard input."""
    return TextFile([source_of(path) for path in paths])


def load(arguments: argparse.Namespace, path: str, **options: Any) -> LanguageModel:
    """A model of sentences from a pickle or a file of n-grams."""
    with progress(arguments, f"reading {path}"):
        if not is_pickle(path):
            return LanguageModel.load(source_of(path), **options)
        return load_pickle(path).set_params(**options)


def train(arguments: argparse.Namespace) -> None:
    """``sklstruct train``."""
    vocabulary, name = arguments.vocabulary, arguments.estimator
    of_table = MODELS[name]
    mixed = of_table is None
    if mixed and arguments.order < 2:
        raise ValueError(f"--model {name} needs -n 2 or more")
    if mixed and not is_pickle(arguments.output):
        raise ValueError(
            f"--model {name}: no ARPA file or KenLM binary can hold such a model; "
            "give the output a name that ends in .pkl"
        )
    if arguments.tune and not mixed:
        raise ValueError("--tune is for --model better and best")
    if vocabulary is not None:
        vocabulary = read_words(vocabulary, arguments.quiet)
    estimator: Any = name
    if of_table is not None:
        package = import_module(f"..{of_table[0]}", __package__)
        estimator = getattr(package, of_table[1])()
    lm = LanguageModel(
        estimator,
        max_depth=arguments.order - 1,
        min_count=arguments.min_count,
        max_vocabulary=arguments.max_vocabulary,
        vocabulary=vocabulary,
        unknown=arguments.unknown,
        analyzer="char" if arguments.characters else "word",
    )
    held_out = text_of([arguments.tune]) if arguments.tune else None
    with progress(arguments, f"learning from {', '.join(arguments.text)}") as shown:
        if shown.shows and HAS_CALLBACKS:
            lm.set_callbacks(shown)
        lm.fit(text_of(arguments.text), X_val=held_out)
        lm.set_callbacks()
    if is_pickle(arguments.output):
        save_pickle(arguments, lm)
    else:
        save_table(arguments, lm.backoff_model_)


def evaluate(arguments: argparse.Namespace) -> None:
    """``sklstruct evaluate``."""
    lm = load(arguments, arguments.model, out_of_vocabulary="exclude")
    # Read once: standard input cannot be read again.
    text = lm.number_text(text_of([arguments.text]), label_of(arguments.text))
    if not text.n_sentences:
        raise ValueError("the text holds no token to score: it is empty")
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
        print_figures(rows, arguments.json)
    elif arguments.per_sentence:
        _print_sentences(lm, text, arguments.json)
    else:
        perplexity, counts = lm.perplexity(text, return_counts=True)
        figures: dict[str, Any] = {"perplexity": perplexity}
        for part in ("end", "unknown"):
            name = f"perplexity_without_{part}"
            left_out: dict[str, Any] = {f"include_{part}": False}
            figures[name] = None
            with suppress(ValueError):  # all tokens are left out
                figures[name] = lm.perplexity(text, **left_out)
        figures |= {
            "n_tokens": counts.n_counted,
            "n_sentences": text.n_sentences,
            "n_unknown": counts.n_unknown,
        }
        print_figures(figures, arguments.json)


def _print_sentences(lm: LanguageModel, text: NumberedText, as_json: bool) -> None:
    table = lm.perplexity_by_sentence(text)
    analyzer = lm.predictor.encoder.labels.analyzer
    for i, symbols in enumerate(text.sentences()):
        n = int(table.n_tokens[i])
        row = {
            "log10_prob": float(table.log_likelihood[i] / np.log(10)),
            "n_tokens": n,
            "n_unknown": int(table.n_unknown[i]),
            "perplexity": float(table.perplexity[i]) if n else None,
            "sentence": join_symbols(symbols, analyzer),
        }
        if as_json:
            print(to_json(row))
        else:
            print("\t".join(map(shown, row.values())))


def sample(arguments: argparse.Namespace) -> None:
    """``sklstruct sample``."""
    lm = load(arguments, arguments.model)
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
        symbols = [sentence] if isinstance(sentence, str) else map(str, sentence)
        print(*symbols)


def mix_models(arguments: argparse.Namespace) -> None:
    """``sklstruct mix`` for models that are not tables, or with learned weights."""
    models, tables = [], []
    for path in arguments.models:
        models.append(load(arguments, path))
        if not is_pickle(arguments.output):
            try:
                tables.append(table_of(models[-1]))
            except AttributeError as exc:
                raise ValueError(
                    f"{path} is not a table of n-grams; give -o a name that ends in "
                    f".pkl. {exc}"
                ) from exc
    text = None if arguments.tune is None else text_of([arguments.tune])
    with progress(arguments, "mixing"):
        lm = interpolate(models, text, weights=arguments.weights or "em")
    mixture = lm.estimator_
    if is_pickle(arguments.output):
        save_pickle(arguments, lm)
    else:
        save_table(arguments, mix(tables, mixture.weights_))
    figures = {
        "weights": list(zip(arguments.models, mixture.weights_.tolist())),
        "weight_gap": mixture.weight_gap_,
        "n_words": len(lm.vocabulary_),
    }
    if text is not None:
        lm.set_params(out_of_vocabulary="exclude")
        figures["perplexity"], counts = lm.perplexity(text, return_counts=True)
        figures["n_unknown"] = counts.n_unknown
    # The model may go to standard output.
    print_figures(figures, arguments.json, arguments.output == "-")
