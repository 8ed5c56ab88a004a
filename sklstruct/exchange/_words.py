"""The words of a file: the spelling of the labels of a model."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Hashable

import numpy as np

from .._warnings import warn
from ..backoff import BackoffModel
from ..symbols import Labels, need_symbols
from ..symbols._text import BLANK
from ._arpa_fast import SPARE_BYTES

_LN10 = np.log(10.0)
MARKS = {"start": "<s>", "end": "</s>", "unknown": "<unk>"}
# The characters that end a word for KenLM. Vertical tabs, form feeds and the separators
# U+001C to U+001F belong to words.
_SEPARATORS = re.compile("[\0\t\n\r ]")


def file_words(model: BackoffModel) -> FileWords:
    """The words of the file of a model; ValueError if no such file can hold it."""
    if model.n_nodes > 1:
        need_symbols(model.labels, "a file of n-grams")
    check_backoffs(model.log_backoff)
    return FileWords(model.labels)


def check_backoffs(log_backoff: np.ndarray) -> None:
    """ValueError if a weight is too large for a file."""
    if (log_backoff > 900 * _LN10).any():
        raise ValueError("model has a back-off weight above 10^900 in log_backoff")


class FileWords:
    """Every word of a file. The classes come first, so that a class id is its word.

    The marks are written as ``<s>``, ``</s>`` and ``<unk>``. If the labels do not name
    a mark, the word with this spelling is the mark.

    spelling: the words, UTF-8.
    text, ptr: the same; word w is ``text[ptr[w]:ptr[w + 1]]``. `SPARE_BYTES` more
    follow the last word; see `_arpa_fast.format_block`.
    special: the word of each of "start", "end", "unknown".
    of_symbol, class_of_symbol: the word of each context symbol, and its class, -1 if it
    is never predicted.
    longest: number of bytes of the longest word.
    """

    def __init__(self, labels: Labels) -> None:
        classes = labels.classes.tolist()
        symbols = [] if labels.symbols is None else labels.symbols.tolist()
        words = list(dict.fromkeys([*classes, *symbols]))
        index = {label: i for i, label in enumerate(words)}
        n_classes = len(classes)

        marks = {p: getattr(labels, p) for p in MARKS}
        named = {p: m for p, m in marks.items() if m is not None}
        self.special = {p: index[m] for p, m in named.items() if m in index}
        # Special words are written as the marks, whatever the model calls them.
        spelt_as = {i: MARKS[p] for p, i in self.special.items()}
        spelt = [
            spelt_as[i] if i in spelt_as else _spell(label, labels.analyzer)
            for i, label in enumerate(words)
        ]
        for parameter, text in MARKS.items():
            if parameter in self.special:
                continue
            # If the labels name no such mark, the word with its spelling is the mark.
            if marks[parameter] is None and text in spelt:
                self.special[parameter] = spelt.index(text)
            else:
                self.special[parameter] = len(spelt)
                spelt.append(text)
                words.append(text)
        if self.special["start"] < n_classes:
            raise ValueError(
                f"{words[self.special['start']]!r} is a class of the model, but <s> is "
                "never predicted in a file; rename the class by relabel"
            )
        if self.special["end"] >= n_classes:
            warn(
                "end: the model has no end mark, and in a file </s> is a word of "
                "probability 0; score its sentences without their ends "
                "(include_end=False)"
            )
        if len(set(spelt)) < len(spelt):
            text = Counter(spelt).most_common(1)[0][0]
            first, again = [w for w, t in zip(words, spelt) if t == text][:2]
            raise ValueError(
                f"symbols {first!r} and {again!r} are both written as {text!r}"
            )
        try:
            self.spelling = [text.encode() for text in spelt]
        except UnicodeEncodeError as exc:
            label = words[spelt.index(exc.object)]
            raise ValueError(f"symbol {label!r} cannot be encoded as UTF-8") from exc
        joined = b"".join([*self.spelling, bytes(SPARE_BYTES)])
        self.text = np.frombuffer(joined, dtype=np.uint8)
        lengths = np.array(list(map(len, self.spelling)), dtype=np.int64)
        self.ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.longest = int(lengths.max())
        self.n_words = len(spelt)
        self.n_classes = n_classes
        self.of_symbol = np.array([index[s] for s in symbols], dtype=np.int32)
        known = self.of_symbol < n_classes
        self.class_of_symbol = np.where(known, self.of_symbol, np.int32(-1))


def _spell(label: Hashable, analyzer: str) -> str:
    if analyzer == "char" and label == " ":
        return BLANK
    if isinstance(label, bytes):
        try:
            text = label.decode("utf-8")
        except UnicodeDecodeError as exc:
            raise ValueError(f"symbol {label!r} is not UTF-8") from exc
    else:
        text = str(label)
    if not text or _SEPARATORS.search(text):
        what = "it is empty" if not text else "it contains white space"
        raise ValueError(f"symbol {label!r} cannot be written to a file: {what}")
    return text
