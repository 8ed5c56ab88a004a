"""CursorMixin: the words after a history, read one by one, ranked and drawn."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._checks import as_random_state, check_count, check_length
from ..symbols import Labels, join_symbols
from ._predictors import TextPredictor, single_state
from ._truncated import Truncated, check_truncation
from ._unknown import UnknownWords, lost_word


def each_word(words: Any, n: int, unit: str = "state") -> list:
    """The words that follow n states."""
    if isinstance(words, str | bytes) or not isinstance(words, Iterable):
        raise TypeError(
            f"word must be a sequence of {n} symbols, got {words!r:.60}; give a list "
            f"with a symbol for each {unit}"
        )
    words = list(words)
    check_length("word", words, n, f"one per {unit}")
    return words


class CursorMixin:
    """Methods that read, rank and draw the words after a state."""

    if TYPE_CHECKING:
        out_of_vocabulary: str
        _labels: Labels

        @property
        def predictor(self) -> TextPredictor: ...

    def begin(self, n: int | None = None) -> Any:
        """The state at the beginning of a sentence.

        A state holds the part of a history that predictions depend on. States can be
        stored, and advanced in any order.

        Parameters
        ----------
        n : int, default=None
            Number of equal states, which are rows of an array, at least 0. None: a
            single state.

        Returns
        -------
        state : int, cursor or int32 ndarray
            A node of ``backoff_model_``. A model without ``backoff_model_`` has
            cursors, which hold the ids of the last words. A single state is hashable
            and can be pickled; n states are an array with n rows.

        Examples
        --------
        >>> from sklstruct.language_model import LanguageModel
        >>> from sklstruct.smoothing import AdditiveLM
        >>> model = LanguageModel(AdditiveLM(), max_depth=2).fit(["a b", "a c"])
        >>> state, total = model.begin(), 0.0
        >>> for word in ["a", "b", "</s>"]:
        ...     log_prob, state = model.advance(state, word)
        ...     total += log_prob
        >>> round(float(total), 6), round(float(model.score_samples(["a b"])[0]), 6)
        (-3.198673, -3.198673)
        """
        states = self.predictor.begin(1 if n is None else check_count("n", n, 0))
        return single_state(states) if n is None else states

    def advance(self, state: Any, word: Any) -> tuple[Any, Any]:
        """Read one word after a state, or one word after each of many states.

        Parameters
        ----------
        state : int, cursor or int32 ndarray
            From `begin` or an earlier step; any rows of an array of states are states.

        word : symbol, or sequence of symbols where there are many states
            The next word, which may be the end mark.

        Returns
        -------
        log_prob : float, or ndarray of shape (n,)
            Natural log-probability of the word; NaN for a word without class, if
            `out_of_vocabulary` is ``"exclude"``.

        state : int, cursor or int32 ndarray
            The state after the word; after the end mark, a new sentence begins.

        Raises
        ------
        ValueError
            If the word is the start mark, or has no class and `out_of_vocabulary` is
            ``"error"``.
        """
        predictor = self.predictor
        found = predictor.step(state, word)
        if found is not None:
            return found
        states, single = self._states(state)
        token = self._tokens(word, None if single else len(states))
        known = np.flatnonzero(token != predictor.encoder.lost)
        log_prob = np.full(token.size, np.nan)
        if known.size:
            y = self._labels.class_of_token[token[known]]
            at = predictor.locate(states[known])
            log_prob[known] = predictor.model.target(at, y)
        states = predictor.follow(states, token)
        states[token == predictor.encoder.end] = predictor.begin(1)
        return (
            (float(log_prob[0]), single_state(states)) if single else (log_prob, states)
        )

    def rows(self, state: Any) -> NDArray:
        """Natural log-probabilities of all words after a state, or after many states.

        Parameters
        ----------
        state : int, cursor or int32 ndarray
            From `begin` or `advance`.

        Returns
        -------
        log_prob : ndarray of shape (n_classes,) or (n, n_classes)
            In the order of ``vocabulary_``.
        """
        states, single = self._states(state)
        rows = self.predictor.model.rows(self.predictor.locate(states))
        return rows[0] if single else rows

    def _states(self, state):
        """(array with a row for each state, whether a single state was given)."""
        shape = self.predictor.begin(0).shape
        try:
            states = np.asarray(state)
        except ValueError:  # several shapes, such as the tuple that advance returns
            states = np.empty(0)
        single = states.ndim == len(shape) - 1
        states = states[None] if single else states
        if len(shape) > 1:
            least, most = -1, self.predictor.encoder.lost
        else:
            least, most = 0, self.predictor.distribution.n_nodes - 1
        if (
            states.dtype.kind not in "iu"
            or states.shape[1:] != shape[1:]
            or not ((states >= least) & (states <= most)).all()
        ):
            raise ValueError(
                f"state must be a state of this model, from begin or advance, got "
                f"{state!r:.60}"
            )
        return states, single

    def _tokens(self, word, n):
        """The token of a word, or the tokens of n words."""
        encoder, labels = self.predictor.encoder, self._labels
        words = [word] if n is None else each_word(word, n)
        try:
            token = labels.tokens(words, encoder.unknown)
        except TypeError as exc:
            what = "a symbol" if n is None else f"a sequence of {n} symbols"
            raise TypeError(f"word must be {what}, got {word!r:.60} ({exc})") from exc
        if labels.start is not None and labels.start in words:
            raise ValueError(
                f"word: the start mark {labels.start!r:.60} is never predicted; begin "
                "a sentence with begin()"
            )
        if self.out_of_vocabulary == "error" and (token == encoder.lost).any():
            word = words[int(np.argmax(token == encoder.lost))]
            raise lost_word(f"word: {word!r:.60}")
        return token

    def _read_context(self, context, name="context"):
        """The first words of a sentence as a text, and as tokens."""
        encoder = self.predictor.encoder
        text = encoder.number_context(context, name)
        UnknownWords.of(text, encoder).warn(encoder, name)
        return text, encoder.encode(text, end=False, name=name)[1:]

    def predict_next(
        self, context: Iterable = (), k: int = 10
    ) -> list[tuple[Any, float]]:
        """The k most probable symbols after the first words of a sentence.

        Parameters
        ----------
        context : str or iterable of symbols, default=()
            Words since the sentence's start, without the start mark; a string is split
            as in `fit`.

        k : int, default=10
            At least 1; at most all symbols are returned.

        Returns
        -------
        symbols : list of (symbol, probability)
            Most probable first; the end mark and `unknown` may be among them.
        """
        check_is_fitted(self)
        k = min(check_count("k", k, 1), self._labels.n_classes)
        predictor = self.predictor
        history = self._read_context(context)[1]
        at = predictor.locate(predictor.read(history[None]))
        best, log_prob = predictor.model.best(at, k)
        words = self._labels.class_labels(best[0])
        return list(zip(words, np.exp(log_prob[0]).tolist()))

    def sample(
        self,
        n_sentences: int = 1,
        *,
        max_length: int = 100,
        prefix: Iterable = (),
        allow_unknown: bool = False,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float = 1.0,
        random_state: Any = None,
    ) -> list[Any]:
        """Draw sentences from the model.

        Parameters
        ----------
        n_sentences : int, default=1
            At least 0.

        max_length : int, default=100
            A sentence without an end mark is cut after this many drawn symbols.

        prefix : str or iterable of symbols, default=()
            First words of every sentence.

        allow_unknown : bool, default=False
            True: `unknown` may be drawn. False: symbols are drawn from the model's
            distribution over the other symbols.

        temperature : float, default=1.0
            T, above 0: symbols are drawn from :math:`P^{1/T}`, normalised. Below 1,
            probable symbols become more probable.

        top_k : int, default=None
            Number of the most probable symbols that may be drawn, at least 1. None:
            all.

        top_p : float, default=1.0
            Only the smallest set of the most probable symbols whose probabilities sum
            to `top_p` or more may be drawn; above 0 and at most 1. Applied after
            `top_k`.

        random_state : int, RandomState, Generator or None, default=None
            Source of the random numbers.

        Returns
        -------
        sentences : list of list of symbols, or list of str
            The prefix and the drawn symbols, without marks. Strings if the analyzer
            is "char".

        Raises
        ------
        ValueError
            If a number is not valid, or only `unknown` has a positive probability.
        """
        check_is_fitted(self)
        check_count("n_sentences", n_sentences, 0)
        check_count("max_length", max_length, 0)
        check_truncation(temperature, top_k, top_p)
        rng = as_random_state(random_state)
        predictor, labels = self.predictor, self._labels
        skip = -1 if allow_unknown else labels.unknown_id
        text, start = self._read_context(prefix, "prefix")
        n_sentences = int(n_sentences)
        states = np.repeat(predictor.read(start[None]), n_sentences, axis=0)
        (first,) = text.sentences()
        sentences = [list(first) for _ in range(n_sentences)]
        model = predictor.model
        if (temperature, top_k, top_p) != (1.0, None, 1.0):
            model = Truncated(model, temperature, top_k, top_p, skip)
        live = np.arange(n_sentences)
        for _ in range(max_length):
            if live.size == 0:
                break
            # Finished sentences also take a random number: a sentence must not depend
            # on the lengths of other sentences.
            uniform = rng.random_sample(n_sentences)[live]
            at = predictor.locate(states)
            drawn = model.draw(at, uniform, skip)
            going = drawn != labels.end_id
            live, drawn = live[going], drawn[going]
            for i, word in zip(live.tolist(), labels.class_labels(drawn)):
                sentences[i].append(word)
            states = predictor.follow(states[going], labels.token_of_class[drawn])
        if labels.analyzer == "char":
            return [join_symbols(sentence, "char") for sentence in sentences]
        return sentences
