"""The words of a file: how the labels of a model are spelt."""

from __future__ import annotations

import re
from collections.abc import Hashable

import numpy as np

from ..symbols import Labels
from ._parts import Parts

# Separators of fields in the programs that read such files, and NUL.
_SEPARATORS = re.compile("[\0\t\n\v\f\r \x1c-\x1f]")


class Words:
    """Every word of a file. The classes come first, so that a class id is its word.

    Attributes
    ----------
    text, ptr : ndarrays
        Word w is ``text[ptr[w]:ptr[w + 1]]``, UTF-8.

    special : dict
        The word of each of "start", "end", "unknown".

    of_symbol : int32 ndarray of shape (n_symbols,)
        The word of each context symbol.

    n_words, n_classes, longest : int
        Sizes; `longest` is the number of bytes of the longest word.
    """

    def __init__(
        self, parts: Parts | Labels, marks: dict[str, tuple[Hashable, str]]
    ) -> None:
        """marks: parameter -> (its value, or None; how the word is spelt)."""
        classes = parts.classes.tolist()
        symbols = [] if parts.symbols is None else parts.symbols.tolist()
        labels = list(dict.fromkeys([*classes, *symbols]))
        index = {label: i for i, label in enumerate(labels)}
        n_classes = len(classes)

        self.special = {}
        for parameter, (given, _) in marks.items():
            label = getattr(parts, parameter) if given is None else given
            if label is not None and label in index:
                self.special[parameter] = index[label]
            elif given is not None:
                raise ValueError(
                    f"{parameter}={given!r} is neither a class nor a context symbol of "
                    "the model"
                )
        if len(set(self.special.values())) < len(self.special):
            raise ValueError("start, end and unknown must be different symbols")
        # Special words are written as the marks, whatever the model calls them.
        spelt_as = {i: marks[p][1] for p, i in self.special.items()}
        spelt = [
            spelt_as[i] if i in spelt_as else _spell(label)
            for i, label in enumerate(labels)
        ]
        word_of = {text: i for i, text in enumerate(spelt)}
        for parameter, (given, text) in marks.items():
            if parameter in self.special:
                continue
            # A label of the model is unknown to it as a mark; then the spelling says.
            unnamed = given is None and getattr(parts, parameter) is None
            if unnamed and text in word_of:
                self.special[parameter] = word_of[text]
            else:
                self.special[parameter] = len(spelt)
                spelt.append(text)
                labels.append(text)
        if self.special["start"] < n_classes:
            raise ValueError(
                f"start={labels[self.special['start']]!r} is a class of the model, but "
                "<s> is never predicted in a file; name another start symbol"
            )
        seen: dict[str, int] = {}
        for i, text in enumerate(spelt):
            if seen.setdefault(text, i) != i:
                raise ValueError(
                    f"symbols {labels[seen[text]]!r} and {labels[i]!r} are both "
                    f"written as {text!r}"
                )

        encoded = []
        for label, text in zip(labels, spelt):
            try:
                encoded.append(text.encode("utf-8"))
            except UnicodeEncodeError as exc:
                raise ValueError(
                    f"symbol {label!r} cannot be encoded as UTF-8"
                ) from exc
        self.text = np.frombuffer(b"".join(encoded), dtype=np.uint8)
        lengths = np.array([len(word) for word in encoded], dtype=np.int64)
        self.ptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        self.longest = int(lengths.max())
        self.n_words = len(encoded)
        self.n_classes = n_classes
        self.of_symbol = np.array([index[s] for s in symbols], dtype=np.int32)


def _spell(label: Hashable) -> str:
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
