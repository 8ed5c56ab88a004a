"""Every predicted position of a text under a language model, in ids."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._warnings import warn
from ..symbols import NumberedText, object_array
from ._unknown import lost_word

# Logarithms are rounded, in files to few decimals, so that their sum can be above 0.
_ROUNDING = 0.01


class Scored(NamedTuple):
    """Every predicted position of a text, in order."""

    log_prob: np.ndarray  # (n_positions,) NaN for a word that is not a class
    token: np.ndarray  # (n_positions,) int32
    depth: np.ndarray | None  # (n_positions,) of the node of the n-gram; None: no tree
    length: np.ndarray  # (n_sentences,) positions of each sentence
    end_token: int
    unknown_token: int

    @property
    def known(self) -> np.ndarray:
        """(n_positions,) bool, words that are classes."""
        return ~np.isnan(self.log_prob)

    @property
    def is_end(self) -> np.ndarray:
        """(n_positions,) bool, end marks."""
        return self.token == self.end_token

    @property
    def unknown(self) -> np.ndarray:
        """(n_positions,) bool, unknown words, with a class or without."""
        return (self.token == self.unknown_token) | ~self.known

    def words(self, text: NumberedText) -> np.ndarray:
        """(n_positions,) object, the words of the text, None at end marks."""
        words = np.full(self.is_end.size, None, dtype=object)
        words[~self.is_end] = object_array(text.symbols)[text.tokens[text.tokens >= 0]]
        return words

    def counted(self, include_end: bool, include_unknown: bool) -> np.ndarray:
        """A mask of the positions in the mean."""
        counted = self.known
        if not include_end:
            counted &= ~self.is_end
        if not include_unknown:
            counted &= ~self.unknown
        return counted


def check_text(model: Any, X: Iterable) -> NumberedText:
    """The sentences of X, all of whose words have a probability.

    ValueError if a word has no class and `out_of_vocabulary` is "error", or lists of
    sentences are given as one sentence.
    """
    check_is_fitted(model)
    text = model.number_text(X)
    encoder = model.predictor.encoder
    _check_lists(text, encoder.labels)
    lost = None
    if model.out_of_vocabulary == "error" and encoder.labels.unknown is None:
        lost = encoder.first_lost(text)
    if lost is not None:
        where, word = lost
        raise lost_word(f"X: the word {word!r:.60} of {where}")
    return text


def score_positions(model: Any, X: Iterable) -> Scored:
    """Every predicted position of a text, in ids; errors as `token_log_proba`."""
    scored = model.predictor.score(check_text(model, X))
    n_above = np.count_nonzero(scored.log_prob > _ROUNDING)
    if n_above:
        warn(
            f"X: {n_above} token(s) have a probability above 1: the model is not "
            "normalised, and its perplexities are too small; backoff_model_."
            "check_normalized() returns how far the sums of rows are from 1"
        )
    return scored


def _check_lists(text, labels):
    """ValueError if an entry of a list, which is read as a word, is a sentence."""
    if not isinstance(text.words, list):
        return  # of strings that were split
    try:
        if " " not in "".join(text.symbols):
            return
    except TypeError:  # a symbol is not a string
        pass
    code = labels.token_code
    for number, symbol in enumerate(text.symbols):
        if (
            isinstance(symbol, str)
            and " " in symbol.strip()
            and symbol not in code
            and (text.tokens == number).any()
        ):
            raise ValueError(
                f"X: {text.where_is(number)} holds {symbol!r:.60}, an unknown word "
                "with white space in it: a list inside of X is one sentence, and its "
                "entries are words. Score lists of sentences as one flat list: "
                "score_samples([sentence for group in X for sentence in group])"
            )
