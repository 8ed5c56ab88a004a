"""Sentences of `LanguageModel.fit` as tokens, windows and counts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._compat import check_total, check_weights
from ..backoff import (
    BackoffClassifier,
    Counted,
    FrequentWords,
    bytes_per_token,
    count_text,
)
from ..symbols import (
    NumberedText,
    SentenceEncoder,
    TextFile,
    VocabularyRules,
    number_sentences,
)
from ..symbols._text_file import LargeText
from ._unknown import UnknownWords, warn_of_unsplit


def width_of(lm: Any) -> int:
    """Columns of the windows of a `LanguageModel`: `max_depth`, but at least 1."""
    return max(1, lm.max_depth)


def vocabulary_rules(lm: Any) -> VocabularyRules:
    """The rules by which a `LanguageModel` makes its vocabulary."""
    return VocabularyRules(
        lm.start, lm.end, lm.unknown, lm.min_count, lm.max_vocabulary,
        lm.vocabulary, lm.analyzer,
    )  # fmt: skip


def number(X: Iterable, analyzer: str, name: str = "X") -> NumberedText:
    """Number the words of sentences; warn if another analyzer would split them
    elsewhere."""
    text = number_sentences(X, name, analyzer)
    if text is not X:
        text.odd.warn(analyzer, name)
    return text


def encode_held_out(lm: Any, encoder: SentenceEncoder, X_val: Iterable) -> NDArray:
    """The tokens of held-out sentences."""
    text = number(X_val, encoder.labels.analyzer, "X_val")
    if not text.n_sentences:
        raise ValueError("X_val is empty: give at least one sentence")
    UnknownWords.of(text, encoder).warn(encoder, "X_val")
    return encoder.encode_known(text, front=width_of(lm) - 1, name="X_val")


def encode(
    lm: Any,
    X: Iterable,
    sample_weight: Any,
    X_val: Iterable | None,
    estimator: Any = None,
) -> tuple[SentenceEncoder, Any, NDArray | None, NDArray | None]:
    """(encoder, tokens, weights of the tokens or None, tokens of X_val or None).

    estimator: a model over contexts. A TextFile that needs more than its `memory` is
    then read in parts: the tokens are an iterator over arrays.
    """
    front, size = width_of(lm) - 1, bytes_per_token(width_of(lm))
    text: Any  # NumberedText or LargeText
    if estimator is None or not isinstance(X, TextFile):
        text = number(X, lm.analyzer)
    else:
        text = X.number_or_count(size, lm.analyzer)
        text.odd.warn(lm.analyzer)
    if lm.analyzer != "char" and text is not X:
        warn_of_unsplit(text)
    large = isinstance(text, LargeText)
    if large:
        online = hasattr(estimator, "partial_fit") and not estimator.keeps_positions
        if not online or sample_weight is not None or X_val is not None:
            raise ValueError(
                f"X: {X!r} needs more than its memory, and "
                f"{type(estimator).__name__} with these arguments cannot learn "
                "from parts of a text; raise memory of TextFile, or fit a model of "
                "counts without sample_weight and X_val"
            )
    if not text.n_sentences:
        where = f" in {X!r}" if isinstance(X, TextFile) else ""
        raise ValueError(f"X is empty: give at least one sentence{where}")
    if sample_weight is not None:
        sample_weight = check_weights(sample_weight, np.empty(text.n_sentences))
        keep = sample_weight > 0
        if not keep.all():
            text, sample_weight = text.select(keep), sample_weight[keep]
    encoder = SentenceEncoder(vocabulary_rules(lm).find_labels(text, sample_weight))
    if large:
        parts = encoder.encode_parts(text, text.part_size(size), front=front)
        return encoder, parts, None, None
    if encoder.labels.n_classes < text.n_symbols:
        reason = _left_out_by(lm)
        hint = reason if lm.vocabulary is None else ""  # else the cause is looked for
        UnknownWords.of(text, encoder).warn(encoder, hint=hint, otherwise=reason)
    exclude = estimator is None and lm.out_of_vocabulary == "exclude"
    tokens = (encoder.encode if exclude else encoder.encode_known)(text, front=front)
    scored = encoder.is_target(tokens)
    if not scored.any():
        raise ValueError(
            "X: every sentence is empty and end=None: there is nothing to predict"
        )
    weight = held_out = None
    if sample_weight is not None:
        weight = np.zeros(tokens.size)
        weight[scored] = np.repeat(sample_weight, encoder.lengths(text))
        check_total(weight)
    if X_val is not None:
        held_out = encode_held_out(lm, encoder, X_val)
    return encoder, tokens, weight, held_out


def _left_out_by(lm):
    """The parameters that may be the reason why words of the training text are
    unknown."""
    names = ["vocabulary"] if lm.vocabulary is not None else []
    for name, unset in (("min_count", 1), ("max_vocabulary", None)):
        if (value := getattr(lm, name)) != unset:
            names.append(f"{name}={value}")
    return f"{' or '.join(names)} leaves them out"


def count(
    lm: Any,
    estimator: BackoffClassifier,
    X: Iterable | Counted,
    sample_weight: Any,
    X_val: Iterable | None = None,
) -> Counted:
    """The counts of the n-grams of sentences; given counts are cut to max_depth."""
    width = width_of(lm)
    if isinstance(X, Counted):
        _check_counted(lm, X, sample_weight, X_val)
        return replace(X.cut(width), max_depth=width)
    encoder, tokens, weight, held_out = encode(lm, X, sample_weight, X_val, estimator)
    labels = encoder.labels
    options: dict[str, Any] = {
        "depth": estimator.max_depth,
        "skip": encoder.start,
        "sample_weight": weight,
        "validation": held_out,
        "share": estimator.held_out_share if held_out is None else None,
        "keep_positions": estimator.keeps_positions,
    }
    folder = X.folder if isinstance(X, TextFile) else None
    # The text and the encoder are freed before the counts take their memory.
    del X, encoder
    labels.forget_tables()
    counted = count_text(tokens, labels, width, folder=folder, **options)
    if type(counted) is Counted and vocabulary_rules(lm).by_count:
        return FrequentWords(counted.pairs, counted.count, labels, width, counted.depth)
    return counted


def _check_counted(lm, counted, sample_weight, X_val):
    """Check counts that are given in the place of sentences."""
    if sample_weight is not None or X_val is not None:
        raise ValueError("X was counted already: give sample_weight and X_val to count")
    weight = counted.all_counts.count[: counted.labels.n_classes]
    vocabulary_rules(lm).check_labels(counted.labels, weight)
    if lm.max_depth > counted.depth:
        raise ValueError(
            f"X was counted with contexts of up to {counted.depth} symbols, and "
            f"max_depth asks for {lm.max_depth}; count it with this model"
        )
