"""CacheLM: a language model that remembers what it has just read."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, DensityMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .._compat import HasMethods, Interval, Options, StrOptions, _fit_context
from .._likelihood import weighted_sum
from ..symbols._sentences import number_sentences
from ..word_classes import ExchangeClustering, WordClustering
from ._cache_state import CacheState
from ._language_model import LanguageModel

# Weights of an order are drawn to those of all orders as by so many positions.
_PRIOR_POSITIONS = 10.0
_HALF_LIFE = [
    Interval(numbers.Real, 1, None, closed="left"),
    Options(numbers.Real, {np.inf}),
]


class CacheLM(MetaEstimatorMixin, DensityMixin, BaseEstimator):
    r"""A language model with caches: words that were just used are used again.

    .. math::
        P(y \mid x, H) = \lambda^m_0\, P_0(y \mid x, H)
        + \lambda^m_1\, \frac{a(y)}{\sum_v a(v)} + \lambda^m_2\, P_n(y \mid x, H),

    where H is the text before, a(y) its decayed counts, :math:`a(y) = \sum_{i: w_i = y}
    2^{-(t - i)/\mathtt{half\_life}}`, and :math:`P_n` interpolates the n-grams of H
    with absolute discounts,

    .. math::
        P_n(y \mid x_{(k)}) = \frac{\max(c(x_{(k)} y) - D, 0)}{c(x_{(k)})}
        + \frac{D\, d(x_{(k)})}{c(x_{(k)})}\, P_n(y \mid x_{(k-1)}), \qquad
        P_n(y \mid x_{(0)}) = \frac{c(y)}{\sum_v c(v)},

    d(x) the number of distinct words after x in H. The weights depend on m, the longest
    n-gram order whose context occurs in H (0: H is empty, and all weight is on
    :math:`P_0`). :math:`P_0` is the base model or, with classes g of the words, the
    base model whose words compete within their class with the words just used,

    .. math::
        P_0(y \mid x, H) = P(g(y) \mid x)\,
        \frac{b(y) + \theta\, P(y \mid g(y), x)}{\sum_{v \in g(y)} b(v) + \theta},

    b(y) counts that decay with `class_half_life`.

    **The order of sentences matters**: each is scored with all before it in mind.
    Shuffled text, or text in parallel, has other and worse probabilities; perplexities
    are those of another task than without a cache and are to be reported apart.

    Parameters
    ----------
    base : LanguageModel
        The model without cache. It is cloned and fitted; a
        :class:`~sklearn.frozen.FrozenEstimator` around a fitted one is used as it is,
        and all sentences that `fit` is given are then held out.

    max_order : int, default=4
        Longest n-grams of the cache, 1 to 255.

    discount : float, default=0.7
        D, in [0, 1].

    half_life : float, default=150
        Words after which the count of a word is worth a half; at least 1, ``inf`` for
        no decay.

    word_classes : WordClustering, int or None, default=None
        Clustering for the within-class cache, cloned and fitted to the sentences; a
        number n is ``ExchangeClustering(n, offsets=(-1, 1))``. None: none.

    theta : float, default=15
        :math:`\theta`, positive: as many words of the cache count as much as the base
        model within a class.

    class_half_life : float, default=100
        As `half_life`, within classes.

    length : int, default=None
        Words that are remembered, at least 0; None: all since the last reset. With 0
        the model is its base.

    weights : "em" or array-like of shape (max_order, 3), default="em"
        The weights :math:`\lambda^m` of base, unigram and n-gram cache for m = 1 ...
        `max_order`. "em": those of largest likelihood on sentences that the base was
        not fitted to.

    validation_fraction : float, default=0.1
        The share of the sentences, the last ones, that the weights are fitted on, where
        `fit` is not given others. In (0, 1).

    refit : bool, default=True
        Whether the base is fitted once more to all sentences, after the weights were
        found with those that are not held out.

    Attributes
    ----------
    base_ : LanguageModel
        The fitted base.

    weights_ : ndarray of shape (max_order + 1, 3)
        A row for each m; the first is (1, 0, 0).

    class_of_ : int32 ndarray of shape (n_classes,) or None
        The class of each word of ``vocabulary_``.

    vocabulary_ : object ndarray of shape (n_classes,)
        As that of the base.

    See Also
    --------
    CacheState : What a cache remembers: reset, copied, stored, continued.

    LanguageModel : Scores sentences one by one, in any order.

    Notes
    -----
    A word costs O(max_order) beside the base, which is asked once. The within-class
    cache needs the base's probability of every class, and thus whole rows.

    References
    ----------
    .. [1] R. Kuhn, R. De Mori, "A Cache-Based Natural Language Model for Speech
       Recognition", IEEE TPAMI 12(6), 1990.

    .. [2] J. T. Goodman, "A bit of progress in language modeling", Computer Speech &
       Language 15(4), 2001, section 5 (n-gram caches).

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklstruct.language_model import CacheLM, LanguageModel
    >>> from sklstruct.smoothing import AdditiveLM
    >>> text = ["the cat sat", "the dog sat", "the fox ran", "a cat ran"]
    >>> base = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text)
    >>> model = CacheLM(FrozenEstimator(base), max_order=2,
    ...                 weights=[[0.8, 0.2, 0.0], [0.7, 0.1, 0.2]]).fit(text)
    >>> story = ["the fox sat", "the fox sat"]
    >>> first, second = model.score_stream(story)
    >>> bool(second.sum() > first.sum())
    True
    """

    _parameter_constraints: dict = {
        "base": [HasMethods(["fit"])],
        "max_order": [Interval(numbers.Integral, 1, 255, closed="both")],
        "discount": [Interval(numbers.Real, 0, 1, closed="both")],
        "half_life": _HALF_LIFE,
        "word_classes": [
            HasMethods(["fit", "predict"]),
            Interval(numbers.Integral, 1, None, closed="left"),
            None,
        ],
        "theta": [Interval(numbers.Real, 0, None, closed="neither")],
        "class_half_life": _HALF_LIFE,
        "length": [Interval(numbers.Integral, 0, None, closed="left"), None],
        "weights": [StrOptions({"em"}), "array-like"],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        "refit": ["boolean"],
    }

    def __init__(
        self,
        base: BaseEstimator,
        *,
        max_order: int = 4,
        discount: float = 0.7,
        half_life: float = 150.0,
        word_classes: WordClustering | int | None = None,
        theta: float = 15.0,
        class_half_life: float = 100.0,
        length: int | None = None,
        weights: str | ArrayLike = "em",
        validation_fraction: float = 0.1,
        refit: bool = True,
    ):
        self.base = base
        self.max_order = max_order
        self.discount = discount
        self.half_life = half_life
        self.word_classes = word_classes
        self.theta = theta
        self.class_half_life = class_half_life
        self.length = length
        self.weights = weights
        self.validation_fraction = validation_fraction
        self.refit = refit

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
            `validation_fraction` of X.

        Returns
        -------
        self : CacheLM
            Fitted model.

        Raises
        ------
        ValueError
            If there are no held-out sentences, or `weights` are not rows of
            probabilities.
        TypeError
            If `base` is no LanguageModel.
        """
        weights = self._given_weights()
        base = _melted(self.base)
        if not isinstance(base, LanguageModel):
            raise TypeError(
                f"base must be a LanguageModel, got {type(base).__name__}; wrap a "
                "classifier of windows as LanguageModel(classifier)"
            )
        frozen = base is not self.base
        sentences = number_sentences(X)
        held = None
        if weights is None:
            train, held = self._split(sentences, X_val, frozen)
        else:
            train = sentences
        self.base_ = base if frozen else clone(base).fit(train)
        check_is_fitted(self.base_)
        self.class_of_ = self._fit_classes(sentences)
        if weights is None:
            weights = self._fit_weights(held)
        first = np.zeros((1, 3))
        first[0, 0] = 1.0
        self.weights_ = np.vstack([first, weights])
        if not frozen and self.refit and train.n_sentences < sentences.n_sentences:
            self.base_ = clone(base).fit(sentences)
            self.class_of_ = self._classes_of_vocabulary()
        return self

    def _given_weights(self):
        if isinstance(self.weights, str):
            return None
        try:
            weights = np.asarray(self.weights, dtype=np.float64)
        except (TypeError, ValueError) as exc:
            raise ValueError(f"weights must be numbers: {exc}") from exc
        shape = (int(self.max_order), 3)
        if weights.shape != shape:
            raise ValueError(
                f"weights must have the shape {shape}: base, unigram cache, n-gram "
                f"cache for each order 1 ... {self.max_order}; got {weights.shape}"
            )
        if not ((weights >= 0).all() and np.allclose(weights.sum(axis=1), 1.0)):
            raise ValueError("weights must be rows of probabilities that sum to 1")
        return weights / weights.sum(axis=1, keepdims=True)

    def _split(self, sentences, X_val, frozen):
        if X_val is not None:
            held, train = number_sentences(X_val, "X_val"), sentences
            if not held.n_sentences:
                raise ValueError("X_val is empty: there is no text to fit weights on")
        elif frozen:
            held = train = sentences
        else:
            n_sentences = sentences.n_sentences
            n = int(np.ceil(self.validation_fraction * n_sentences))
            if n >= n_sentences:
                raise ValueError(
                    f"X: of {n_sentences} sentence(s), {n} would be held out for "
                    "the weights, and none be left to fit the base; give X_val, or "
                    "weights"
                )
            late = np.arange(n_sentences) >= n_sentences - n
            train, held = sentences.select(~late), sentences.select(late)
        return train, held

    def _fit_classes(self, sentences):
        self._clustering = None
        if self.word_classes is None:
            return None
        clustering = self.word_classes
        if isinstance(clustering, numbers.Integral):
            clustering = ExchangeClustering(int(clustering), offsets=(-1, 1))
        else:
            clustering = clone(clustering)
        self._clustering = clustering.fit(sentences, None)
        return self._classes_of_vocabulary()

    def _classes_of_vocabulary(self):
        if self._clustering is None:
            return None
        labels = np.asarray(self._clustering.predict(self.vocabulary_))
        # Without gaps: unseen words are a class like the others.
        return np.unique(labels, return_inverse=True)[1].ravel().astype(np.int32)

    def _fit_weights(self, held):
        log_base, recalled = self._recall(held, self.new_state(), None)
        use = np.isfinite(log_base) & (recalled.matched > 0)
        parts = np.column_stack(
            [
                np.exp(log_base[use]),
                recalled.unigram[use] / recalled.total[use],
                recalled.ngram[use],
            ]
        )
        matched = recalled.matched[use]
        if matched.size == 0:
            return np.tile([1.0, 0.0, 0.0], (self.max_order, 1))
        together = _em(parts, np.full(3, 1 / 3), 0.0)
        return np.array(
            [
                _em(parts[matched == m], together, _PRIOR_POSITIONS)
                for m in range(1, self.max_order + 1)
            ]
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
        return CacheState(
            self.vocabulary_.size,
            int(self.max_order),
            float(self.discount),
            float(self.half_life),
            float(self.class_half_life),
            self.length,
            self.class_of_,
        )

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
            The text in its order: each word is scored with all before it in mind.

        state : CacheState, default=None
            What was read before; it is changed, so that the next call continues. None:
            nothing was.

        starts : array-like of bool of shape (n_sentences,), default=None
            Where documents begin: before these sentences the state is reset. None:
            nowhere.

        Returns
        -------
        log_proba : list of ndarray
            As :meth:`LanguageModel.token_log_proba` of the base.

        Raises
        ------
        ValueError
            If the state is of another model, or `starts` does not fit X.
        """
        check_is_fitted(self)
        sentences = number_sentences(X)
        log_prob = self._score(sentences, state, starts)
        lengths = self.base_.predictor.encoder.lengths(sentences)
        stop = np.cumsum(lengths)
        return [log_prob[a:b] for a, b in zip(stop - lengths, stop)]

    def _score(self, sentences, state, starts):
        state = self._check_state(state)
        log_base, recalled = self._recall(sentences, state, starts)
        weights = self.weights_[recalled.matched]
        with np.errstate(divide="ignore", invalid="ignore"):
            # Where the order is 0 the weight of the caches is 0.
            share = np.where(
                recalled.matched > 0, recalled.unigram / recalled.total, 0.0
            )
            caches = weights[:, 1] * share + weights[:, 2] * recalled.ngram
            out = np.logaddexp(np.log(weights[:, 0]) + log_base, np.log(caches))
        out[np.isnan(log_base)] = np.nan
        return out

    def _check_state(self, state):
        if state is None:
            return self.new_state()
        if not isinstance(state, CacheState):
            raise TypeError(
                f"state must be a CacheState (see new_state), got "
                f"{type(state).__name__}"
            )
        if not state.fits(self.new_state()):
            raise ValueError(
                "state is of another model: it has other words, classes or parameters; "
                "make one with new_state"
            )
        return state

    def _recall(self, sentences, state, starts):
        """(log P_0 of every position, what the caches had for it)."""
        starts = _check_starts(starts, sentences.n_sentences)
        scored = self.base_.evaluate(sentences)
        words = self._classes_of_tokens(scored.token)
        stop = np.cumsum(scored.length)
        begin = stop - scored.length
        first = np.zeros(words.size, dtype=bool)
        first[begin[scored.length > 0]] = True
        runs = np.flatnonzero(starts)
        bounds = [0, *begin[runs].tolist(), words.size]
        parts = []
        for run, (a, b) in enumerate(pairwise(bounds)):
            if run > 0:
                state.reset()
            parts.append(state.read(words[a:b], first[a:b]))
        recalled = type(parts[0])(*map(np.concatenate, zip(*parts)))
        log_base = scored.log_prob
        if self.class_of_ is not None:
            of_class = self._class_log_proba(sentences, words)
            log_base = self._adapt(
                log_base, of_class, recalled.in_class, recalled.class_total
            )
        return log_base, recalled

    def _classes_of_tokens(self, tokens):
        """Class ids, negative for a word without class."""
        return self.base_.predictor.encoder.labels.class_of_token[tokens]

    def _adapt(self, log_base, of_class, count, total):
        """ln P_0 of the within-class cache."""
        with np.errstate(divide="ignore"):
            used = of_class + np.log(count)
        theta = float(self.theta)
        return np.logaddexp(used, np.log(theta) + log_base) - np.log(total + theta)

    def _class_log_proba(self, sentences, words):
        """ln P(g(y) | x) of the class of each word; NaN where it has none."""
        n_groups = int(self.class_of_.max()) + 1
        out = np.full(words.size, np.nan)
        member = _membership(self.class_of_, n_groups)
        for rows, log_proba in self.base_.predictor.blocks(sentences):
            here = words[rows]
            known = here >= 0
            np.exp(log_proba, out=log_proba)
            mass = member @ log_proba.T
            group = self.class_of_[here[known]]
            with np.errstate(divide="ignore"):
                out[rows][known] = np.log(mass[group, np.flatnonzero(known)])
        return out

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
        check_is_fitted(self)
        log_prob = self._score(number_sentences(X), None, None)
        known = ~np.isnan(log_prob)
        if not known.any():
            raise ValueError("X holds no token to score")
        return weighted_sum(log_prob, known.astype(np.float64)) / float(known.sum())

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
            Of the text with a cache: not to be compared with one without.
        """
        check_is_fitted(self)
        log_prob = self._score(number_sentences(X), state, starts)
        known = ~np.isnan(log_prob)
        if not known.any():
            raise ValueError("X holds no token to score")
        return float(np.exp(-log_prob[known].mean()))

    # ----------------------------------------------------------- generation

    def next_proba(
        self, context: Iterable = (), *, state: CacheState | None = None
    ) -> np.ndarray:
        """The probability of every word after the first words of a sentence.

        Parameters
        ----------
        context : str or iterable of symbols, default=()
            Words since the sentence's start. They are part of the history, and are not
            kept in the state.

        state : CacheState, default=None
            What was read before. None: nothing was.

        Returns
        -------
        proba : ndarray of shape (n_classes,)
            In the order of ``vocabulary_``; sums to 1.
        """
        check_is_fitted(self)
        state = self._check_state(state)
        predictor = self.base_.predictor
        history = predictor.encoder.encode_history(context)
        log_base = predictor.log_rows(predictor.recent(history[None]))[0]
        if predictor.encoder.labels.start is not None:
            history = history[1:]
        words = self._classes_of_tokens(history)
        if words.size:
            state = state.copy()
            first = np.zeros(words.size, dtype=bool)
            first[0] = True
            state.read(words, first)
        unigram, total, in_class, class_total, ngram, matched = state.rows(words)
        if self.class_of_ is not None:
            mass = np.bincount(self.class_of_, weights=np.exp(log_base))
            with np.errstate(divide="ignore"):
                of_class = np.log(mass)[self.class_of_]
            log_base = self._adapt(log_base, of_class, in_class, class_total)
        proba = np.exp(log_base)
        if matched == 0:
            return proba
        a, b, c = self.weights_[matched]
        return a * proba + b * unigram / total + c * ngram

    def predict_next(
        self, context: Iterable = (), k: int = 10, *, state: CacheState | None = None
    ) -> list[tuple[object, float]]:
        """The k most probable symbols after the first words of a sentence.

        Parameters
        ----------
        context : str or iterable of symbols, default=()
            As in `next_proba`.

        k : int, default=10
            At least 1; at most all symbols are returned.

        state : CacheState, default=None
            As in `next_proba`.

        Returns
        -------
        symbols : list of (symbol, probability)
            Most probable first.
        """
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
            raise ValueError(f"k must be an integer of at least 1, got {k!r}")
        proba = self.next_proba(context, state=state)
        best = np.argsort(-proba, kind="stable")[: int(k)]
        return list(zip(self.vocabulary_[best].tolist(), proba[best].tolist()))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags


def _melted(estimator):
    """What is inside of frozen estimators."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def _membership(class_of, n_groups):
    """CSR array of shape (n_groups, n_words) with a 1 for each word's class."""
    n = class_of.size
    ones = np.ones(n)
    return sp.csr_array((ones, (class_of, np.arange(n))), shape=(n_groups, n))


def _check_starts(starts, n_sentences):
    if starts is None:
        return np.zeros(n_sentences, dtype=bool)
    starts = np.asarray(starts)
    if starts.dtype != bool or starts.shape != (n_sentences,):
        raise ValueError(
            f"starts must be an array of {n_sentences} booleans, one a sentence, "
            f"got dtype {starts.dtype} and shape {starts.shape}"
        )
    return starts


def _em(parts, prior, strength):
    """Weights of a mixture of largest likelihood, drawn to those of `prior`."""
    weights = prior.copy()
    for _ in range(200):
        joint = parts * weights
        total = joint.sum(axis=1, keepdims=True)
        share = (joint / np.where(total > 0, total, 1.0)).sum(axis=0)
        new = share + strength * prior
        if not new.sum() > 0:
            return prior
        new /= new.sum()
        if np.abs(new - weights).max() < 1e-7:
            return new
        weights = new
    return weights
