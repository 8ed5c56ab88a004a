"""CacheLM: a language model with caches of recent words."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Iterator
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._checks import INT64_MAX, as_random_state, check_count
from .._compat import (
    BaseEstimator,
    DensityMixin,
    HasMethods,
    Interval,
    MetaEstimatorMixin,
    Options,
    StrOptions,
    TextEstimator,
    _fit_context,
)
from ..symbols import join_symbols, object_array
from ..word_classes import WordClustering
from . import _cache_fit as _fit
from ._cache_cursor import CacheCursor, CacheModel
from ._cache_fast import DOCUMENT, SENTENCE, Mixer
from ._cache_state import CacheSettings, CacheState, ScoredWords, checked_state
from ._generation import each_word
from ._positions import check_text
from ._predictors import single_state
from ._scoring import mean_log_prob

# Half-lives of the caches of n-grams and of words within their class, and of the steps
# of the weights of classes.
_NGRAM_HALF_LIVES = 600.0, np.inf
_CLASS_HALF_LIVES = 100.0, 1000.0
_LEARNING_HALF_LIFE = 2500.0
_HALF_LIFE = [
    Interval(numbers.Real, 1, None, closed="left"),
    Options(numbers.Real, {np.inf}),
    "array-like",
]


class CacheLM(MetaEstimatorMixin, DensityMixin, TextEstimator):
    r"""A language model with caches: recent words are more probable.

    .. math::
        P(y \mid x, H) = \lambda_0 P_0(y \mid x) + \sum_h \lambda_h
        P_h(y \mid x, H), \qquad \lambda = \lambda(x, H) \ge 0,\ \lambda_0 + \sum_h
        \lambda_h = 1,

    where H is the text before and :math:`P_0` the base model. A count that decays with
    the half-life :math:`\tau` is :math:`a_\tau(\cdot) = \sum 2^{-(t - i)/\tau}` over
    the occurrences i in H. For each half-life there are the caches

    .. math::
        \text{words:}\quad & a_\tau(y) \Big/ \sum_v a_\tau(v) , \\
        \text{n-grams, for } k = 1 \ldots \mathtt{max\_order} - 1\text{:}\quad &
        a_\tau(x_{(k)} y) \Big/ \sum_v a_\tau(x_{(k)} v) , \\
        \text{words within their class g:}\quad & P_0(g(y) \mid x)\,
        \frac{a_\tau(y) + \theta_g\, P_0(y \mid g(y), x)}
        {\sum_{v \in g(y)} a_\tau(v) + \theta_g} ,

    with :math:`x_{(k)}` the last k words of the sentence, and :math:`\theta_g` the
    number of words of class g in the cache at which the cache and the base have equal
    weights. A cache whose context does not occur in H has weight 0. The weights depend
    on two numbers for each :math:`x_{(k)}`: its occurrences in H, and the different
    words that followed it.

    With word classes the base also adapts to the text:

    .. math::
        P_0(y \mid x, H) = P_b(y \mid x)\, \frac{P_0(g \mid x, H)}{P_b(g \mid x)},
        \qquad P_0(g \mid x, H) \propto P_b(g \mid x)\,
        e^{\delta_g + \delta_{g(x_1), g} + \delta_{x_1, g}}, \qquad g = g(y),

    :math:`P_b` the model `base` and :math:`x_1` the last word (or the start mark).
    The weights :math:`\delta` are 0 at first. After each word y, those after the same
    histories take a step :math:`\eta` along the gradient of
    :math:`\ln P_0(g(y) \mid x, H)`: for each class h it is
    :math:`[h = g(y)] - P_0(h \mid x, H)` [4]_. Steps decay by
    :math:`2^{-(t - i)/\tau}` as counts do.

    **The order of sentences matters.** Each sentence is scored given all sentences
    before it. Text that is shuffled or scored in parallel gets other, usually lower
    probabilities. Do not compare perplexities with and without a cache.

    Parameters
    ----------
    base : LanguageModel
        The model without cache, which is cloned and fitted. A fitted model inside a
        :class:`~sklearn.frozen.FrozenEstimator` is not fitted again. All sentences of
        `fit` are then held-out sentences.

    max_order : int, default=5
        Longest n-grams of the cache, 1 to 255.

    half_life : float or array-like, default=(60, 1000)
        :math:`\tau` of each cache of words: the number of words after which the count
        of an occurrence is one half. At least 1. With ``inf`` counts do not decay;
        ``()`` leaves the caches out. The caches of n-grams have half-lives of 600 and
        ``inf``.

    word_classes : WordClustering, int, "base" or None, default=None
        Clustering for the caches of words within their class, which have half-lives of
        100 and 1000 words, and for the weights of classes. The clustering is cloned and
        fitted to the sentences. A number n is
        ``ExchangeClustering(n, offsets=(-1, 1))``. "base": the classes of a
        :class:`~sklstruct.mixture.FactoredLM` in the base. None: no caches within
        classes, and the base does not adapt.

    learning_rate : float or array-like of shape (3,), default=(0.02, 0.05, 0.2)
        Steps :math:`\eta` of the weights of classes after all histories, after the
        class of the last word, and after the last word; each in [0, 1]. A single number
        is used for all three. Steps have a half-life of 2500 words.

    length : int, default=None
        Number of last words in the cache, at least 0, including words outside of a
        closed vocabulary. None: all words since the last reset.

    weights : {"logistic", "em"} or array-like of shape (n_parts,), default="logistic"
        - "logistic": a multinomial logistic gate on the counts, which maximises the
          likelihood of sentences that the base was not fitted to.
        - "em": constants for each longest order whose context occurs in H, which
          maximise the likelihood of the same sentences.
        - array-like: constants in the order of ``part_names_``, non-negative; the
          constant of the base is positive. If the context of a cache does not occur,
          its weight is divided among the other parts in proportion.

    validation_fraction : float, default=0.1
        The share of the sentences, the last ones, on which the weights are fitted if
        `fit` gets no `X_val`. In (0, 1). The base is then fitted once more, to all
        sentences.

    Attributes
    ----------
    base_ : LanguageModel
        The fitted base.

    part_names_ : list of str
        The base and its caches, such as "3-gram 600": its order and half-life.

    weights_ : ndarray of shape (max_order + 1, n_parts) or None
        The weights :math:`\lambda`, a row for each longest order m whose context occurs
        in H (0: H is empty, and all weight is on the base). None for "logistic".

    gate_coef_ : ndarray of shape (n_parts, 1 + 3 * max_order) or None
        Coefficients of the logistic gate, None for other weights. After the intercept,
        three for each order k: whether its context occurs, 0.3 ln(1 + occurrences), 0.3
        ln(1 + different next words).

    class_of_ : int32 ndarray of shape (n_classes,) or None
        The class of each word of ``vocabulary_``.

    theta_ : ndarray of shape (n_half_lives, n_groups) or None
        :math:`\theta` of each half-life and class: the value with the largest
        likelihood on the text from which the weights are learned, usually smaller for
        names than for function words. 15 if the weights are given.

    vocabulary_ : object ndarray of shape (n_classes,)
        The vocabulary of the base.

    See Also
    --------
    CacheState : The counts of a cache, which can be reset, copied and stored.
    LanguageModel : Scores sentences one by one, in any order.

    Notes
    -----
    To score a word takes O(max_order) and one query of the base, and with word classes
    the probabilities of all classes. The state then has a number for each class and
    each different word that was read.

    References
    ----------
    .. [1] R. Kuhn, R. De Mori, "A Cache-Based Natural Language Model for Speech
       Recognition", IEEE TPAMI 12(6), 1990.

    .. [2] P. Clarkson, A. Robinson, "Language model adaptation using mixtures and an
       exponentially decaying cache", ICASSP 1997.

    .. [3] J. T. Goodman, "A bit of progress in language modeling", Computer Speech &
       Language 15(4), 2001, section 5 (n-gram caches).

    .. [4] B. Krause, E. Kahembwe, I. Murray, S. Renals, "Dynamic Evaluation of Neural
       Sequence Models", ICML 2018.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklstruct.language_model import CacheLM, LanguageModel
    >>> from sklstruct.smoothing import AdditiveLM
    >>> text = ["the cat sat", "the dog sat", "the fox ran", "a cat ran"]
    >>> base = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text)
    >>> model = CacheLM(FrozenEstimator(base), max_order=2, half_life=100,
    ...                 weights=[0.7, 0.1, 0.1, 0.1]).fit(text)
    >>> model.part_names_
    ['base', 'word 100', '2-gram 600', '2-gram inf']
    >>> story = ["the fox sat", "the fox sat"]
    >>> [round(float(log_prob.sum()), 2) for log_prob in model.score_stream(story)]
    [-5.39, -2.98]
    """

    _parameter_constraints: dict = {
        "base": [HasMethods(["fit"])],
        "max_order": [Interval(numbers.Integral, 1, 255, closed="both")],
        "half_life": _HALF_LIFE,
        "word_classes": [
            HasMethods(["fit", "classes_of"]),
            Interval(numbers.Integral, 1, None, closed="left"),
            StrOptions({"base"}),
            None,
        ],
        "learning_rate": [Interval(numbers.Real, 0, 1, closed="both"), "array-like"],
        "length": [Interval(numbers.Integral, 0, INT64_MAX, closed="both"), None],
        "weights": [StrOptions({"logistic", "em"}), "array-like"],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
    }

    def __init__(
        self,
        base: BaseEstimator,
        *,
        max_order: int = 5,
        half_life: float | ArrayLike = (60.0, 1000.0),
        word_classes: WordClustering | int | str | None = None,
        learning_rate: float | ArrayLike = (0.02, 0.05, 0.2),
        length: int | None = None,
        weights: str | ArrayLike = "logistic",
        validation_fraction: float = 0.1,
    ):
        self.base = base
        self.max_order = max_order
        self.half_life = half_life
        self.word_classes = word_classes
        self.learning_rate = learning_rate
        self.length = length
        self.weights = weights
        self.validation_fraction = validation_fraction

    # ------------------------------------------------------------- training

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: Iterable, y: Any = None, *, X_val: Iterable | None = None
    ) -> CacheLM:
        """Fit the base, the classes and the weights.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            In the order of the text.

        y : None
            Ignored.

        X_val : TextFile or iterable of sentences, default=None
            Held-out text, in its order, for the weights. None: the last
            `validation_fraction` of X, or all of X if the base is frozen.

        Returns
        -------
        self : CacheLM
            Fitted model.

        Raises
        ------
        ValueError
            If held-out sentences are missing, or are given together with
            `weights`; if `weights` or half-lives are not valid; if the base has no
            classes for "base"; or if the base was read from a file and is not inside a
            FrozenEstimator.
        TypeError
            If `base` is not a LanguageModel.
        """
        settings = CacheSettings(
            n_classes=0,  # n_classes and class_of are set after the base is fitted
            class_of=None,
            max_order=int(self.max_order),
            half_life=_fit.half_lives(self.half_life),
            ngram_half_life=_NGRAM_HALF_LIVES,
            class_half_life=() if self.word_classes is None else _CLASS_HALF_LIVES,
            length=self.length,
            learning_rate=_fit.learning_rates(self.learning_rate),
            learning_half_life=_LEARNING_HALF_LIFE,
        )
        parts, order = _fit.parts_of(settings)
        given = _fit.given_weights(self.weights, parts)
        if given is not None and X_val is not None:
            raise ValueError(
                "X_val: weights are given, so nothing is learned on held-out "
                "sentences; leave X_val out"
            )
        base, frozen = _fit.unwrapped(self.base)
        text = train = base.number_text(X)
        if given is None:
            share = None if frozen else self.validation_fraction
            train, held = _fit.split_text(base, text, X_val, share)
        self.base_ = base if frozen else clone(base).fit(train)
        check_is_fitted(self.base_)
        # The weights are learnt with classes that have not seen the held-out text.
        self.part_names_, self._order = parts, order
        self._set_classes(settings, train)
        self.weights_ = self.gate_coef_ = self.theta_ = None
        if self.class_of_ is not None:
            n_groups = int(self.class_of_.max()) + 1
            shape = len(settings.class_half_life), n_groups
            self.theta_ = np.full(shape, _fit.THETA)
        if given is None:
            self._fit_weights(held)
        else:
            self.weights_ = _fit.by_order(given, order, settings.max_order)
        if train.n_sentences < text.n_sentences:
            before = self.vocabulary_, self.class_of_
            self.base_ = clone(base).fit(text)
            self._set_classes(settings, text)
            if self.theta_ is not None:
                self.theta_ = _fit.theta_after_refit(
                    self.theta_, before, self.base_, self.class_of_, text
                )
        return self

    def _set_classes(self, settings, text):
        vars(self).pop("_compiled", None)
        self.class_of_ = _fit.classes_of_words(self.word_classes, self.base_, text)
        self._counted = settings._replace(
            n_classes=self.base_.predictor.encoder.labels.n_classes,
            class_of=self.class_of_,
        )

    def _fit_weights(self, held):
        blocks = list(self._positions(held))
        if self.theta_ is not None:
            parts = Mixer(self._order, self.theta_, None, None)
            counts = self.new_state().recall(parts, blocks).in_class
            words, of_base, log_base = (
                np.concatenate([getattr(at, name) for at in blocks])
                for name in ("words", "of_base", "log_base")
            )
            known = words >= 0
            group = self.class_of_[words[known]]
            with np.errstate(divide="ignore", invalid="ignore"):
                log_inside = log_base[known] - np.log(of_base[known, group])
            n_groups = self.theta_.shape[1]
            self.theta_ = _fit.most_likely_theta(
                log_inside, counts[known], group, n_groups
            )
        parts = Mixer(self._order, self.theta_, None, None)
        log_parts, features, _ = self.new_state().recall(parts, blocks)
        if self.weights == "logistic":
            self.gate_coef_ = _fit.fit_gate(log_parts, features, self._order)
        else:
            self.weights_ = _fit.fit_constants(log_parts, features, self._order)

    @cached_property
    def _compiled(self):
        """The mixer, and a function for P of a word and of all classes in the base."""
        return (
            Mixer(self._order, self.theta_, self.gate_coef_, self.weights_),
            self.base_.predictor.step_with_groups(self.class_of_),
        )

    @property
    def vocabulary_(self) -> np.ndarray:
        """The words that are predicted, as in the base."""
        return self.base_.vocabulary_

    def __sklearn_is_fitted__(self):
        return hasattr(self, "weights_")

    # -------------------------------------------------------------- scoring

    def new_state(self) -> CacheState:
        """A state that has read nothing.

        Returns
        -------
        state : CacheState
        """
        check_is_fitted(self)
        return CacheState(self._counted)

    def score_stream(
        self,
        X: Iterable,
        *,
        state: CacheState | None = None,
        starts: ArrayLike | None = None,
    ) -> list[np.ndarray]:
        """Natural logarithm of the probability of every token, in the order of X.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            The text in its order: each word is scored given all before it.

        state : CacheState, default=None
            The state after the text before; it is changed, so that the next call
            continues. None: a new state.

        starts : array-like of bool of shape (n_sentences,), default=None
            True for a sentence that begins a document: the state is reset before it.
            None: the state is never reset.

        Returns
        -------
        log_proba : list of ndarray
            In the form of :meth:`LanguageModel.token_log_proba` of the base.

        Raises
        ------
        ValueError
            If the state is of another model, or `starts` does not fit X.
        """
        log_prob, lengths = self._score(X, state, starts)
        stop = np.cumsum(lengths)
        return [log_prob[a:b] for a, b in zip(stop - lengths, stop)]

    def _score(self, X, state=None, starts=None):
        """(ln P of every position, positions of each sentence)."""
        check_is_fitted(self)
        text = check_text(self.base_, X)
        state = checked_state(state, self._counted)
        lengths = self.base_.predictor.encoder.lengths(text)
        starts = _check_starts(starts, lengths.size)
        mixer, _ = self._compiled
        scored = [state.read(mixer, at) for at in self._positions(text, starts)]
        if starts.any() and not lengths[np.flatnonzero(starts)[-1] :].any():
            state.reset()  # no word follows the last start
        return np.concatenate(scored), lengths

    def _positions(self, text, starts=None) -> Iterator[ScoredWords]:
        """Yield the words of a text in blocks; at least one block."""
        predictor = self.base_.predictor
        length = predictor.encoder.lengths(text)
        begin = np.cumsum(length) - length
        first = np.zeros(int(length.sum()), dtype=np.uint8)
        first[begin[length > 0]] = SENTENCE
        if starts is not None:
            documents = begin[starts]
            first[documents[documents < first.size]] = DOCUMENT
        blocks: Iterable[tuple[NDArray, NDArray, NDArray | None]]
        if self.class_of_ is None:
            scored = predictor.score(text)
            blocks = [(scored.log_prob, scored.token, None)]
        else:
            blocks = predictor.score_groups(text, self.class_of_)
        at = 0
        for log_base, token, of_base in blocks:
            words = predictor.encoder.labels.class_of_token[token]
            here = slice(at, at + token.size)
            yield ScoredWords(words, first[here], log_base, of_base)
            at += token.size

    def score(self, X: Iterable, y: Any = None) -> float:
        """Mean natural log-likelihood per token of a text, read from its beginning.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            In the order of the text. Folds of a cross-validation must not be shuffled.

        y : None
            Ignored.

        Returns
        -------
        score : float
            Minus the logarithm of `perplexity`.
        """
        return float(-np.log(self.perplexity(X)))

    def perplexity(
        self,
        X: Iterable,
        *,
        state: CacheState | None = None,
        starts: ArrayLike | None = None,
    ) -> float:
        """Perplexity per token of a text in its order, end marks counted.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            In the order of the text.

        state : CacheState, default=None
            As in `score_stream`.

        starts : array-like of bool of shape (n_sentences,), default=None
            As in `score_stream`.

        Returns
        -------
        perplexity : float
            Not comparable with the perplexity of a model without cache.

        Raises
        ------
        ValueError
            If no token is left to score, or as `score_stream`.
        """
        log_prob, _ = self._score(X, state, starts)
        return float(np.exp(-mean_log_prob(log_prob, ~np.isnan(log_prob))))

    def surprisal(
        self, X: Iterable, *, unit: Literal["bits", "nats", "hartleys"] = "bits"
    ) -> Any:
        """The surprisal of every token of a text, read from its beginning.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            In the order of the text.

        unit : {"bits", "nats", "hartleys"}, default="bits"
            Base of the logarithm: 2, e or 10.

        Returns
        -------
        table : pandas.DataFrame, or Bunch of ndarrays without pandas
            The table of :meth:`LanguageModel.surprisal`; ``depth`` is -1.

        Raises
        ------
        ValueError
            If `unit` is not known, or as `score_stream`.
        """
        from ._reports import surprisal

        return surprisal(self, X, unit)

    # --------------------------------------------------------------- cursor

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
            The state after the text before; it is not changed. None: a new state.

        n : int, default=None
            Number of equal cursors, at least 0. None: a single cursor.

        Returns
        -------
        cursor : CacheCursor, or object ndarray of n cursors
            Named tuple (state, cache, begins): the state of the base, the cache, and
            whether a sentence begins. It can be stored, and advanced more than once.
        """
        check_is_fitted(self)
        state = checked_state(state, self._counted)
        cursor = CacheCursor(self.base_.begin(), state, True)
        many = None if n is None else check_count("n", n, 0)
        return cursor if many is None else object_array([cursor] * many)

    def advance(self, cursor: Any, word: Any) -> tuple[Any, Any]:
        """Read one word after a cursor, or one word after each of many cursors.

        Parameters
        ----------
        cursor : CacheCursor, or object ndarray of cursors
            From `begin` or an earlier step; it is not changed.

        word : symbol, or sequence of symbols where there are many cursors
            The next word, which may be the end mark.

        Returns
        -------
        log_prob : float, or ndarray of shape (n,)
            Natural log-probability of the word, as in `score_stream`.

        cursor : CacheCursor, or object ndarray of cursors
            The cursor after the word; after the end mark, the next sentence begins. The
            cache is copied, so the time grows with the size of the cache.

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
        # A cache of this model shares the settings object; the settings of a pickled
        # cache are only equal.
        if counts is None or counts.settings is not self._counted:
            checked_state(cursor.cache, self._counted)
        return cursor

    def _step(self, cursor, word):
        """`advance` without a copy: the cache of the cursor is changed."""
        mixer, ask_base = self._compiled
        of_base = None if self.theta_ is None else np.empty(self.theta_.shape[1])
        found = ask_base(cursor.state, word, of_base)
        # For a word without class, P of the classes is not needed.
        log_base, state = found or self.base_.advance(cursor.state, word)
        encoder = self.base_.predictor.encoder
        token = encoder.labels.token_code.get(word, encoder.unknown)
        y = encoder.labels.class_of_token[token]
        first = SENTENCE * cursor.begins
        log_prob = cursor.cache.counts.step(mixer, y, first, log_base, of_base)
        return log_prob, CacheCursor(state, cursor.cache, token == encoder.end)

    def rows(self, cursor: Any) -> np.ndarray:
        """Natural log-probabilities of all words after a cursor, or after many cursors.

        Parameters
        ----------
        cursor : CacheCursor, or object ndarray of cursors
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
        """Draw a text; each word depends on all words before it.

        Parameters
        ----------
        n_sentences : int, default=1
            At least 0.

        max_length : int, default=100
            A sentence without an end mark is cut after this many words, at least 0.

        state : CacheState, default=None
            The state after the text before; it is not changed. None: a new state.

        allow_unknown : bool, default=False
            True: the unknown word may be drawn. False: words are drawn from the
            distribution over the other words.

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
            If a number is negative, the state is of another model, or only the unknown
            word has a positive probability.
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
            The state after the text before; it is not changed. None: a new state.

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


def _check_starts(starts, n_sentences):
    if starts is None:
        return np.zeros(n_sentences, dtype=bool)
    starts = np.asarray(starts)
    if starts.dtype != bool or starts.shape != (n_sentences,):
        raise ValueError(
            f"starts must be an array of {n_sentences} booleans, one per sentence, "
            f"got dtype {starts.dtype} and shape {starts.shape}"
        )
    return starts
