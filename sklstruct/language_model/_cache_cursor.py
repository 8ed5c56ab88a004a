"""The words after a text and its cache, read one by one, ranked and drawn."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._checks import as_random_state, check_count
from ..backoff import Distribution
from ..symbols import join_symbols, object_array
from ._cache_fast import SENTENCE, Mixer
from ._cache_state import CacheSettings, CacheState, ScoredWords, checked_state
from ._generation import each_word
from ._predictors import single_state

if TYPE_CHECKING:
    from ._language_model import LanguageModel


class CacheCursor(NamedTuple):
    """The state of a `CacheLM` after some words; see :meth:`CacheLM.begin`.

    Attributes
    ----------
    state : int or tuple of int
        State of the base, see :meth:`LanguageModel.begin`.

    cache : CacheState
        The cache after all words.

    begins : bool
        True if a sentence begins with the next word.
    """

    state: Any
    cache: CacheState
    begins: bool


class CacheModel(Distribution):
    """The distribution of a fitted `CacheLM`; contexts are arrays of `CacheCursor`."""

    def __init__(self, model: CacheCursorMixin) -> None:
        self.model = model
        self.n_classes = model.base_.predictor.encoder.labels.n_classes

    def rows(self, at: NDArray) -> NDArray:
        """As `Distribution.rows`."""
        base, (mixer, _) = self.model.base_, self.model._compiled
        out = np.empty((len(at), self.n_classes))
        for row, cursor in zip(out, at):
            log_base = base.rows(cursor.state)
            cursor.cache.counts.row(mixer, cursor.begins, log_base, row)
        return out


class CacheCursorMixin:
    """A `CacheLM` as a cursor: the words after a state."""

    if TYPE_CHECKING:
        base_: LanguageModel
        theta_: NDArray | None
        _counted: CacheSettings
        _compiled: tuple[Mixer, Any]

        def _positions(self, text: Any) -> Iterator[ScoredWords]: ...

    @property
    def distribution_(self) -> CacheModel:
        """P of the next word after a cursor, in ids."""
        check_is_fitted(self)
        return CacheModel(self)

    def begin(self, state: CacheState | None = None, n: int | None = None) -> Any:
        """The cursor at the beginning of a sentence.

        Parameters
        ----------
        state : CacheState, default=None
            The state after the text before; it is not changed. None: a new one.

        n : int, default=None
            Number of equal cursors, at least 0. None: a single cursor.

        Returns
        -------
        cursor : CacheCursor, or object ndarray of n of them
            Named tuple (state, cache, begins): the state of the base, the cache, and
            whether a sentence begins. It can be stored, and advanced more than once.
        """
        check_is_fitted(self)
        state = checked_state(state, self._counted)
        cursor = CacheCursor(self.base_.begin(), state, True)
        many = None if n is None else check_count("n", n, 0)
        return cursor if many is None else object_array([cursor] * many)

    def advance(self, cursor: Any, word: Any) -> tuple[Any, Any]:
        """Read one word after a cursor, or one after each of many.

        Parameters
        ----------
        cursor : CacheCursor, or object ndarray of them
            From `begin` or an earlier step; it is not changed.

        word : symbol, or sequence of symbols where there are many cursors
            The next word; the end mark is a word.

        Returns
        -------
        log_prob : float, or ndarray of shape (n,)
            Natural log-probability of the word, as that of `score_stream`.

        cursor : CacheCursor, or object ndarray of them
            After the end mark that of the next sentence. The cache is copied, which
            costs its size.

        Raises
        ------
        ValueError
            As :meth:`LanguageModel.advance` of the base, or if the cursor is of another
            model.
        """
        if isinstance(cursor, np.ndarray):
            words = each_word(word, len(cursor), "cursor")
            done = [self.advance(*pair) for pair in zip(cursor, words)]
            log_prob = np.array([p for p, _ in done], dtype=np.float64)
            return log_prob, object_array(c for _, c in done)
        cursor = self._check_cursor(cursor)
        return self._step(cursor._replace(cache=cursor.cache.copy()), word)

    def _check_cursor(self, cursor):
        """The cursor, if the kernel can read its cache."""
        if not isinstance(cursor, CacheCursor):
            raise TypeError(
                "cursor must be a CacheCursor, from begin or advance, got "
                f"{type(cursor).__name__}"
            )
        counts = getattr(cursor.cache, "counts", None)
        # Most caches were made by this model; a pickled one has equal settings.
        if counts is None or counts.settings is not self._counted:
            checked_state(cursor.cache, self._counted)
        return cursor

    def _step(self, cursor, word):
        """`advance`, which changes the cache of the cursor."""
        mixer, ask_base = self._compiled
        of_base = None if self.theta_ is None else np.empty(self.theta_.shape[1])
        found = ask_base(cursor.state, word, of_base)
        # A word without class is not asked about its class.
        log_base, state = found or self.base_.advance(cursor.state, word)
        encoder = self.base_.predictor.encoder
        token = encoder.labels.token_code.get(word, encoder.unknown)
        y = encoder.labels.class_of_token[token]
        first = SENTENCE * cursor.begins
        log_prob = cursor.cache.counts.step(mixer, y, first, log_base, of_base)
        return log_prob, CacheCursor(state, cursor.cache, token == encoder.end)

    def rows(self, cursor: Any) -> np.ndarray:
        """Natural log-probabilities of all words after a cursor, or each of many.

        Parameters
        ----------
        cursor : CacheCursor, or object ndarray of them
            From `begin` or `advance`.

        Returns
        -------
        log_prob : ndarray of shape (n_classes,) or (n, n_classes)
            In the order of ``vocabulary_``.
        """
        if isinstance(cursor, np.ndarray):
            return self.distribution_.rows(
                object_array(map(self._check_cursor, cursor))
            )
        return self.distribution_.rows(object_array([self._check_cursor(cursor)]))[0]

    # ----------------------------------------------------------- generation

    def _after(self, context, state):
        """The cursor after the first words of a sentence."""
        cursor = self.begin(state)
        predictor, encoder = self.base_.predictor, self.base_.predictor.encoder
        text = encoder.number_context(context)
        history = encoder.encode(text, end=False, name="context")[None, 1:]
        at = single_state(predictor.read(history))
        if not text.lengths[0]:
            return cursor._replace(state=at)
        cache, (mixer, _) = cursor.cache.copy(), self._compiled
        left = int(text.lengths[0])  # the end mark is not read
        for block in self._positions(text):
            arrays = (None if array is None else array[:left] for array in block)
            cache.read(mixer, ScoredWords(*arrays))
            left = max(0, left - block.words.size)
        return CacheCursor(at, cache, False)

    def sample(
        self,
        n_sentences: int = 1,
        *,
        max_length: int = 100,
        state: CacheState | None = None,
        allow_unknown: bool = False,
        random_state: Any = None,
    ) -> list[Any]:
        """Draw a text, every word given all before it.

        Parameters
        ----------
        n_sentences : int, default=1
            At least 0.

        max_length : int, default=100
            A sentence without an end mark is cut after this many words, at least 0.

        state : CacheState, default=None
            The state after the text before; it is not changed. None: a new one.

        allow_unknown : bool, default=False
            True: the unknown word may be drawn. False: words are drawn from the
            distribution over the others.

        random_state : int, RandomState, Generator or None, default=None
            Source of the random numbers.

        Returns
        -------
        sentences : list of list of symbols, or list of str
            In their order, without marks. Strings if the analyzer of the base is
            "char".

        Raises
        ------
        ValueError
            If a number is negative, the state is of another model, or nothing but the
            unknown word has a probability.
        """
        check_is_fitted(self)
        check_count("n_sentences", n_sentences, 0)
        check_count("max_length", max_length, 0)
        rng = as_random_state(random_state)
        labels = self.base_.predictor.encoder.labels
        skip = -1 if allow_unknown else labels.unknown_id
        cursor = self.begin(state)
        cursor = cursor._replace(cache=cursor.cache.copy())
        text = []
        for _ in range(n_sentences):
            sentence: list = []
            for _ in range(max_length):
                uniform = rng.random_sample(1)
                drawn = self.distribution_.draw(object_array([cursor]), uniform, skip)
                (word,) = labels.class_labels(drawn)
                _, cursor = self._step(cursor, word)
                if drawn[0] == labels.end_id:
                    break
                sentence.append(word)
            cursor = cursor._replace(state=self.base_.begin(), begins=True)
            text.append(sentence)
        if labels.analyzer == "char":
            return [join_symbols(sentence, "char") for sentence in text]
        return text

    def predict_next(
        self, context: Iterable = (), k: int = 10, *, state: CacheState | None = None
    ) -> list[tuple[Any, float]]:
        """The k most probable symbols after the first words of a sentence.

        Parameters
        ----------
        context : str or iterable of symbols, default=()
            Words since the start of the sentence. They are part of the history, but are
            not added to the state.

        k : int, default=10
            At least 1; at most all symbols are returned.

        state : CacheState, default=None
            The state after the text before; it is not changed. None: a new one.

        Returns
        -------
        symbols : list of (symbol, probability)
            Most probable first.
        """
        k = check_count("k", k, 1)
        cursor = self._after(context, state)
        k = min(k, self.distribution_.n_classes)
        best, log_prob = self.distribution_.best(object_array([cursor]), k)
        words = self.base_.predictor.encoder.labels.class_labels(best[0])
        return list(zip(words, np.exp(log_prob[0]).tolist()))
