"""Predictors: queries of a fitted distribution in tokens of sentences.

A `TextPredictor` turns sentences and histories into the contexts of a `Distribution`,
and is a cursor: a *state* holds the part of a history that predictions depend on. A
`TreePredictor` does the same for a back-off model over the symbols: compiled code reads
the text, and the nodes of the model are states.

A history is a row of tokens, the last one the most recent, -1 for a missing one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .._compat import BaseEstimator
from .._lazy import stored
from .._likelihood import innermost, last_step, reads_history
from .._parallel import row_blocks
from ..backoff import (
    BackoffModel,
    Distribution,
    DistributionClassifier,
    Model,
    WiderModel,
)
from ..backoff._classifier import ClassifierModel
from ..backoff._order import by_last, order_pays
from ..backoff._words_fast import ArrayModel, Cursor, WordReader, cursor_of
from ..symbols import Labels, NumberedText, SentenceEncoder, TextWindows
from ..symbols._sentences import LONGEST_HISTORY
from ._positions import Scored

# Positions that are scored at a time.
_BLOCK = 1 << 18

# Probabilities of groups that are computed at a time.
_NUMBERS = 1 << 22


def single_state(states: NDArray) -> int | Cursor:
    """The state of one row: a node, or a cursor of a window."""
    return int(states[0]) if states.ndim == 1 else cursor_of(states[0])


class WindowModel(Distribution):
    """The model of a predictor; its places are `TextWindows` of tokens.

    The kernel of the predictor computes the probabilities. The kernel is not stored
    here, because it cannot be pickled.
    """

    def __init__(self, predictor: TextPredictor) -> None:
        self.predictor = predictor
        self.n_classes = predictor.distribution.n_classes
        self.gate_depths = predictor.distribution.gate_depths

    def as_tokens(self, at: TextWindows) -> tuple[Model, NDArray, NDArray]:
        """As `Distribution.as_tokens`."""
        return self.predictor.kernel, at.tokens, at.end


class TextPredictor:
    """Probabilities of sentences under a classifier of windows of class ids.

    The tokens of the encoder are class ids, then the start mark and the token `lost` of
    words without class. The distribution is over the classes of the encoder's labels.
    `reads_history` says whether the classifier reads more of a sentence than its
    windows; a state has `width` columns.
    """

    distribution: Distribution

    def __init__(
        self, estimator: BaseEstimator, encoder: SentenceEncoder, max_depth: int
    ) -> None:
        self.estimator, self.encoder, self.max_depth = estimator, encoder, max_depth
        classes = np.arange(encoder.labels.n_classes)
        last = innermost(estimator)
        self._has_own = isinstance(last, DistributionClassifier) and np.array_equal(
            last.classes_, classes
        )
        self.reads_history = reads_history(estimator)
        self.width = max_depth
        if self.reads_history:
            self.width = max(max_depth, LONGEST_HISTORY)
        self.distribution = (
            last.distribution_ if self._has_own else ClassifierModel(estimator, classes)
        )

    def __getstate__(self):
        return stored(self)

    # ----------------------------------------------------------------- cursor

    def begin(self, n: int = 1) -> NDArray:
        """States of n sentences that begin."""
        states = np.full((n, self.width), -1, dtype=np.int32)
        if self.encoder.start >= 0:
            states[:, -1] = self.encoder.start
        return states

    def follow(self, states: NDArray, tokens: NDArray) -> NDArray:
        """States after one more token each."""
        tokens = self._known(tokens)
        return np.column_stack([states[:, 1:], tokens]).astype(np.int32)

    @cached_property
    def kernel(self) -> Model:
        """The distribution as a compiled model of tokens; -1, for words without class
        and missing words, ends a history."""
        from ..mixture._sources import TokenSources

        sources = TokenSources(self.encoder.lost, self.max_depth)
        if self._has_own:
            found = sources.of_estimator(self.estimator)
            if found is not None:
                return self.distribution.compiled(found)

        def find(tokens, end):
            return self._read_windows(sources.windows(tokens, end))

        return ArrayModel(self.distribution, find, True)

    @property
    def model(self) -> Distribution:
        """The distribution whose places are those of `locate`."""
        return WindowModel(self)

    @cached_property
    def step(self) -> Callable[[Any, Any], tuple[float, Any] | None]:
        """(state, word) -> (ln P, next state), for a single state; the result is None
        if the methods for many states must be used."""
        return self.step_with_groups(None)

    def step_with_groups(self, group: NDArray | None) -> Callable[..., Any]:
        """`step` with an array for P of each group of words after the state."""
        state = single_state(self.begin())
        return WordReader(self.kernel, self.encoder, state, group).step

    def read(self, history: NDArray) -> NDArray:
        """States after histories, which are rows of tokens of any length."""
        states = np.full((len(history), self.width), -1, dtype=np.int32)
        n = min(self.width, history.shape[1])
        states[:, self.width - n :] = self._known(history)[:, history.shape[1] - n :]
        return states

    def locate(self, states: NDArray) -> Any:
        """The places of the states, for the methods of `model`."""
        states = states.astype(np.int32, copy=False)
        return self.locate_text(TextWindows.of_rows(states, self.max_depth))

    def locate_text(self, windows: TextWindows) -> Any:
        """The places after the histories of windows of tokens."""
        return windows.with_tokens(self._known(windows.tokens))

    def _read_windows(self, windows):
        """The places for the methods of `distribution`."""
        X = windows if self.reads_history else windows.array
        if not self._has_own:
            return self.distribution.locate(X)
        last, X = last_step(self.estimator, X)
        return last.locate(X)

    def _known(self, tokens):
        """The tokens, with -1 for words without class, which end a history."""
        return np.where(tokens == self.encoder.lost, np.int32(-1), tokens)

    # -------------------------------------------------------------- sentences

    def windows(self, sentences: NumberedText) -> tuple[TextWindows, NDArray]:
        """(windows, next token) of every predicted position, as in training."""
        width = self.max_depth
        tokens = self.encoder.encode(sentences, front=width - 1)
        windows, target = self.encoder.windows(tokens, width)
        if self.encoder.unknown == self.encoder.lost:
            windows = windows.with_tokens(TextPredictor._known(self, tokens))
        return windows, target

    def score(self, sentences: NumberedText) -> Scored:
        """Natural logarithms of P at every predicted position."""
        windows, token = self.windows(sentences)
        log_prob, depth = self._targets(windows, token)
        encoder = self.encoder
        length = encoder.lengths(sentences)
        return Scored(log_prob, token, depth, length, encoder.end, encoder.unknown)

    def _targets(self, windows, token):
        y = self.encoder.labels.class_of_token[token]
        kernel, depth = self.kernel, None
        sort = kernel.sorted_is_faster or order_pays(token.size, kernel.n_entries)
        if isinstance(self.distribution, BackoffModel):
            depth = np.zeros(token.size, dtype=np.int32)
        if y.min(initial=0) >= 0 and not sort:
            log_prob = kernel.targets(windows.tokens, windows.end, y, depth, False)
            return log_prob, depth
        # A word without class has no probability; a symbol that is not a class, P = 0.
        log_prob = np.where(token == self.encoder.lost, np.nan, -np.inf)
        known = np.flatnonzero(y >= 0)
        for block in row_blocks(known.size, _BLOCK):
            rows = known[block]
            if sort:
                end = windows.end[rows]
                rows = rows[by_last(windows.tokens[end - 1], windows.tokens[end - 2])]
            of_rows: Any = None if depth is None else depth[rows]
            log_prob[rows] = kernel.targets(
                windows.tokens, windows.end[rows], y[rows], of_rows, False
            )
            if depth is not None:
                depth[rows] = of_rows
        return log_prob, depth

    def score_groups(
        self, sentences: NumberedText, group: NDArray
    ) -> Iterator[tuple[NDArray, NDArray, NDArray]]:
        """Yield (ln P of the word, its token, P of every group of words) of blocks of
        predicted positions; at least one block."""
        windows, token = self.windows(sentences)
        word = self.encoder.labels.class_of_token[token]
        group = np.ascontiguousarray(group, dtype=np.int32)
        n_groups, kernel = int(group.max()) + 1, self.kernel.grouped(group)
        blocks = row_blocks(token.size, max(1, _NUMBERS // n_groups))
        for block in blocks or [slice(0, 0)]:
            end, y = windows.end[block], word[block]
            order = by_last(windows.tokens[end - 1], windows.tokens[end - 2])
            proba, log_prob = kernel.sums_and_targets(
                windows.tokens, end, group, order, y
            )
            proba[y < 0] = np.nan
            yield log_prob, token[block], proba


class TreePredictor(TextPredictor):
    """Probabilities of sentences under a back-off model with the encoder's labels."""

    distribution: BackoffModel

    def __init__(self, model: BackoffModel, encoder: SentenceEncoder) -> None:
        self.distribution, self.encoder = model, encoder
        self.max_depth = self.width = max(1, model.max_depth)
        self.reads_history = False

    @property
    def kernel(self) -> Model:
        """As in `TextPredictor`."""
        return self.distribution.of_symbols

    @property
    def model(self) -> Distribution:
        """As in `TextPredictor`."""
        return self.distribution

    def step_with_groups(self, group: NDArray | None) -> Callable[..., Any]:
        """As in `TextPredictor`."""
        kernel = self.distribution.of_nodes
        if not self.distribution.has_states:
            kernel = self.kernel
        return WordReader(kernel, self.encoder, single_state(self.begin()), group).step

    # States are nodes, or windows if a node and a word do not determine the next node.

    def begin(self, n: int = 1) -> NDArray:
        """States of n sentences that begin."""
        if self.distribution.has_states:
            return self.distribution.begin(n)
        return super().begin(n)

    def follow(self, states: NDArray, tokens: NDArray) -> NDArray:
        """States after one more token each."""
        if self.distribution.has_states:
            return self.distribution.follow(states, self._known(tokens))
        return super().follow(states, tokens)

    def read(self, history: NDArray) -> NDArray:
        """States after histories, which are rows of tokens of any length."""
        if self.distribution.has_states:
            return self.distribution.locate(self._known(history))
        return super().read(history)

    def locate_text(self, windows: TextWindows) -> NDArray:
        """As in `TextPredictor`."""
        return self.distribution.locate(self._known(windows.array))

    def locate(self, states: NDArray) -> NDArray:
        """The node of each state."""
        if states.ndim == 1:
            return states
        return self.distribution.locate(self._known(states))

    def _known(self, tokens):
        known = (tokens >= 0) & (tokens < self.distribution.n_symbols)
        return np.where(known, tokens, np.int32(-1))


class WindowClassifier(DistributionClassifier, BaseEstimator):
    """A fitted language model as a classifier of windows of the ids of `labels`.

    ValueError if `labels` lack a word of the model, or have other marks. name: the name
    of the model in messages.
    """

    distribution_: WiderModel

    def __init__(self, model: Any, labels: Labels, name: str = "model") -> None:
        self.model, self.labels, self.name = model, labels, name
        predictor = model.predictor
        own = predictor.encoder.labels
        lacking = [word for word in own.classes.tolist() if labels.class_id(word) < 0]
        if (
            lacking
            or (own.start, own.end) != (labels.start, labels.end)
            or own.unknown not in (None, labels.unknown)
        ):
            raise ValueError(
                f"{name}: the fitted {type(model).__name__} has "
                + (f"the word {lacking[0]!r}, " if lacking else "other marks ")
                + "which the outer model lacks; interpolate takes all words"
            )
        self.classes_ = np.arange(labels.n_classes, dtype=np.int32)
        words = labels.known_symbols("").tolist()
        token = own.tokens(words, predictor.encoder.unknown)
        self._token = np.append(token, np.int32(-1))
        # As in the predictor.
        self.reads_history = predictor.reads_history
        # The symbol of the model's tree that each id is, -1 for none; None if the model
        # has no tree of symbols.
        symbols = self.symbol_of_id = None
        if isinstance(predictor, TreePredictor):
            symbols = labels.encode_contexts(own.known_symbols("a mixture"))
            self.symbol_of_id = predictor._known(token)
        unknown = None if own.unknown_id < 0 else labels.unknown_id
        ids = Labels(labels.encode_targets(own.classes), symbols, unknown=unknown)
        self.distribution_ = WiderModel(
            predictor.model, ids, Labels.of_ids(labels.n_classes)
        )

    def locate(self, X: NDArray | TextWindows) -> Any:
        """The places of windows of symbol ids, for the distribution."""
        predictor = self.model.predictor
        if isinstance(X, TextWindows):
            X = X.with_tokens(self._token[X.tokens])
            return predictor.locate_text(X.of_width(predictor.max_depth))
        return predictor.locate(predictor.read(self._token[X]))

    def __sklearn_is_fitted__(self) -> bool:
        return True
