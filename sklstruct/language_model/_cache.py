"""CacheLM: a language model with caches of recent words."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from itertools import pairwise
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .._checks import (
    as_numbers,
    as_random_state,
    as_shares,
    check_count,
    last_share,
)
from .._compat import (
    BaseEstimator,
    DensityMixin,
    HasMethods,
    Interval,
    MetaEstimatorMixin,
    Options,
    StrOptions,
    _fit_context,
)
from .._parallel import single_blas_thread
from ..backoff import Distribution
from ..mixture._gates import (
    em_weights,
    log_mixture,
    log_softmax,
    relative,
    softmax_coef,
)
from ..symbols import encode, join_symbols
from ..word_classes import ExchangeClustering, WordClustering
from ._cache_state import CacheState, Recalled, learning_rates, matched_order
from ._language_model import LanguageModel
from ._positions import score_groups, score_positions
from ._predictors import single_state

# The weights of each order are smoothed, as is theta of each class: those of the whole
# text count as this many positions.
_PRIOR_POSITIONS = 20.0
# The values of theta that are tried; a class without words in the text has that of all.
_THETAS = 2.0 ** np.arange(-2.0, 17.5, 0.5)
_THETA = 15.0
# Logarithms of counts are scaled to about 1 for the gate.
_SCALE = 0.3
_HALF_LIFE = [
    Interval(numbers.Real, 1, None, closed="left"),
    Options(numbers.Real, {np.inf}),
    "array-like",
]


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
    """The distribution of a `CacheLM`; contexts are arrays of `CacheCursor`.

    Parameters
    ----------
    model : CacheLM
        Fitted.
    """

    def __init__(self, model: CacheLM) -> None:
        self.model = model
        self.n_classes = model.vocabulary_.size

    def rows(self, at: NDArray) -> NDArray:
        """As `Distribution.rows`."""
        out = np.empty((len(at), self.n_classes))
        for row, cursor in zip(out, at):
            row[:] = self.model._row(cursor)
        with np.errstate(divide="ignore"):
            return np.log(out, out=out)


class CacheLM(MetaEstimatorMixin, DensityMixin, BaseEstimator):
    r"""A language model with caches: recent words are more probable.

    .. math::
        P(y \mid x, H) = \lambda_0 P_0(y \mid x) + \sum_h \lambda_h
        P_h(y \mid x, H), \qquad \lambda = \lambda(x, H) \ge 0,\ \lambda_0 + \sum_h
        \lambda_h = 1,

    where H is the text before and :math:`P_0` the base model. With counts that decay,
    :math:`a_\tau(\cdot) = \sum 2^{-(t - i)/\tau}` over the occurrences i in H, the
    caches are, for each half-life :math:`\tau` of their kind,

    .. math::
        \text{words:}\quad & a_\tau(y) \Big/ \sum_v a_\tau(v) , \\
        \text{n-grams, for } k = 1 \ldots \mathtt{max\_order} - 1\text{:}\quad &
        a_\tau(x_{(k)} y) \Big/ \sum_v a_\tau(x_{(k)} v) , \\
        \text{words within their class g:}\quad & P_0(g(y) \mid x)\,
        \frac{a_\tau(y) + \theta_g\, P_0(y \mid g(y), x)}
        {\sum_{v \in g(y)} a_\tau(v) + \theta_g} ,

    :math:`x_{(k)}` the last k words of the sentence. A cache whose context does not
    occur in H has weight 0. The weights depend on two numbers for each
    :math:`x_{(k)}`: its occurrences in H, and the different words that followed it.

    With classes of words the base adapts as well: it is

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

    **The order of sentences matters**: each is scored given all before it. Shuffled
    text, or text scored in parallel, has other and worse probabilities. Perplexities
    with and without a cache belong to different tasks; report them apart.

    Parameters
    ----------
    base : LanguageModel
        The model without cache. It is cloned and fitted; a
        :class:`~sklearn.frozen.FrozenEstimator` around a fitted one is used as it is,
        and all sentences that `fit` is given are then held out.

    max_order : int, default=5
        Longest n-grams of the cache, 1 to 255.

    half_life : float or array-like, default=(60, 1000)
        :math:`\tau` of the caches of words, one for each: the number of words after
        which an occurrence counts one half. At least 1; ``inf`` is no decay, ``()`` no
        such cache.

    ngram_half_life : float or array-like, default=(600, inf)
        As `half_life`, of the caches of n-grams.

    class_half_life : float or array-like, default=(100, 1000)
        As `half_life`, of the within-class caches. Without `word_classes` there are
        none.

    word_classes : WordClustering, int, "base" or None, default=None
        Clustering for the within-class caches and the weights of classes, cloned and
        fitted to the sentences; a number n is
        ``ExchangeClustering(n, offsets=(-1, 1))``. "base": the classes of a
        :class:`~sklstruct.mixture.FactoredLM` in the base. None: neither.

    theta : float or "auto", default="auto"
        :math:`\theta`, positive: within a class, the number of words in the cache that
        weighs as much as the base model. "auto": for each class and half-life the most
        likely one, of the text that the weights are learnt from: words that name
        things come again, function words do not. With given weights there is none, and
        "auto" is 15.

    learning_rate : float or array-like of shape (3,), default=(0.02, 0.05, 0.2)
        Steps :math:`\eta` of the weights of classes after all histories, after the
        class of the last word, and after the last word; each in [0, 1]. A number is
        that of all three; with 0 the base does not adapt.

    learning_half_life : float, default=2500
        :math:`\tau` of these steps, at least 1.

    length : int, default=None
        Number of the last words that are remembered, at least 0, words outside of a
        closed vocabulary included, which are not counted; None: all since the last
        reset. With 0 the model is its base.

    weights : {"logistic", "em"} or array-like of shape (n_parts,), default="logistic"
        - "logistic": a multinomial logistic gate on the counts. It maximises the
          likelihood of sentences that the base was not fitted to.
        - "em": constants for each longest order whose context occurs in H. They
          maximise the likelihood of the same sentences.
        - array-like: constants in the order of ``part_names_``, non-negative, that of
          the base positive. The weights of caches whose context does not occur go to
          the other parts in proportion.

    validation_fraction : float, default=0.1
        The share of the sentences, the last ones, on which the weights are fitted if
        `fit` gets no others. In (0, 1).

    refit : bool, default=True
        True: after the weights the base is fitted once more, to all sentences. False:
        it stays fitted without the held-out ones.

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
        :math:`\theta` of each half-life within classes, and of each class.

    vocabulary_ : object ndarray of shape (n_classes,)
        As that of the base.

    See Also
    --------
    CacheState : The counts of a cache, which can be reset, copied and stored.

    LanguageModel : Scores sentences one by one, in any order.

    Notes
    -----
    A word costs O(max_order) and one query of the base; with classes of words the
    probabilities of all classes as well, and a number for each class in the state for
    each different word read.

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
    ...                 ngram_half_life=100, weights=[0.7, 0.1, 0.2]).fit(text)
    >>> model.part_names_
    ['base', 'word 100', '2-gram 100']
    >>> story = ["the fox sat", "the fox sat"]
    >>> first, second = model.score_stream(story)
    >>> bool(second.sum() > first.sum())
    True
    """

    _parameter_constraints: dict = {
        "base": [HasMethods(["fit"])],
        "max_order": [Interval(numbers.Integral, 1, 255, closed="both")],
        "half_life": _HALF_LIFE,
        "ngram_half_life": _HALF_LIFE,
        "class_half_life": _HALF_LIFE,
        "word_classes": [
            HasMethods(["fit", "classes_of"]),
            Interval(numbers.Integral, 1, None, closed="left"),
            StrOptions({"base"}),
            None,
        ],
        "theta": [
            Interval(numbers.Real, 0, None, closed="neither"),
            StrOptions({"auto"}),
        ],
        "learning_rate": [Interval(numbers.Real, 0, 1, closed="both"), "array-like"],
        "learning_half_life": [
            Interval(numbers.Real, 1, None, closed="left"),
            Options(numbers.Real, {np.inf}),
        ],
        "length": [Interval(numbers.Integral, 0, None, closed="left"), None],
        "weights": [StrOptions({"logistic", "em"}), "array-like"],
        "validation_fraction": [Interval(numbers.Real, 0, 1, closed="neither")],
        "refit": ["boolean"],
    }

    def __init__(
        self,
        base: BaseEstimator,
        *,
        max_order: int = 5,
        half_life: float | ArrayLike = (60.0, 1000.0),
        ngram_half_life: float | ArrayLike = (600.0, np.inf),
        class_half_life: float | ArrayLike = (100.0, 1000.0),
        word_classes: WordClustering | int | str | None = None,
        theta: float | str = "auto",
        learning_rate: float | ArrayLike = (0.02, 0.05, 0.2),
        learning_half_life: float = 2500.0,
        length: int | None = None,
        weights: str | ArrayLike = "logistic",
        validation_fraction: float = 0.1,
        refit: bool = True,
    ):
        self.base = base
        self.max_order = max_order
        self.half_life = half_life
        self.ngram_half_life = ngram_half_life
        self.class_half_life = class_half_life
        self.word_classes = word_classes
        self.theta = theta
        self.learning_rate = learning_rate
        self.learning_half_life = learning_half_life
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
            If there are no held-out sentences, or they are given together with
            `weights`; if `weights` or half-lives are not valid; if the base has no
            classes for "base"; or if it was read from a file and is not inside a
            FrozenEstimator.
        TypeError
            If `base` is no LanguageModel.
        """
        half_lives, rates = self._half_lives(), learning_rates(self.learning_rate)
        parts, of_parts = self._name_parts(half_lives)
        given = self._given_weights(parts)
        if given is not None and X_val is not None:
            raise ValueError(
                "X_val: weights are given, and nothing is chosen on held-out "
                "sentences; leave it out"
            )
        base = _melted(self.base)
        if not isinstance(base, LanguageModel):
            raise TypeError(
                f"base must be a LanguageModel, got {type(base).__name__}; wrap a "
                "classifier of windows as LanguageModel(classifier)"
            )
        frozen = base is not self.base
        if base.from_file and not frozen:
            raise ValueError(
                "base was read from a file, and fit would train another model in its "
                "place; give it as FrozenEstimator(base)"
            )
        sentences = base.number_text(X)
        held = None
        if given is None:
            train, held = self._split(base, sentences, X_val, frozen)
        else:
            train = sentences
        self.base_ = base if frozen else clone(base).fit(train)
        check_is_fitted(self.base_)
        self.half_lives_, self.part_names_, self._rates = half_lives, parts, rates
        self._order_of_part = of_parts
        # The weights are learnt with classes that have not seen the held-out text.
        self._clustering = self._fit_classes(train)
        self.class_of_ = self._classes_of_vocabulary()
        self.weights_ = self.gate_coef_ = self.theta_ = None
        if self.class_of_ is not None:
            shape = len(half_lives[1]), int(self.class_of_.max()) + 1
            self.theta_ = np.full(shape, _THETA if self._learns_theta else self.theta)
        if given is None:
            self._fit_weights(held)
        else:
            self.weights_ = self._by_order(given)
        if not frozen and self.refit and train.n_sentences < sentences.n_sentences:
            before = self.vocabulary_, self.class_of_
            self.base_ = clone(base).fit(sentences)
            self._clustering = self._fit_classes(sentences)
            self.class_of_ = self._classes_of_vocabulary()
            if self.class_of_ is not None:
                self.theta_ = self._theta_of(*before, sentences)
        return self

    @property
    def _learns_theta(self):
        return isinstance(self.theta, str)

    def _half_lives(self):
        """The half-lives of words, of words within classes, and of n-grams."""
        out = []
        for name in ("half_life", "class_half_life", "ngram_half_life"):
            value = as_numbers(name, getattr(self, name))
            if value.ndim > 1 or not (value >= 1).all():
                raise ValueError(
                    f"{name} must be a number of at least 1 or a list of such, got "
                    f"{getattr(self, name)!r}"
                )
            out.append(tuple(value.tolist()))
        if self.word_classes is None:
            out[1] = ()
        if self.max_order == 1:
            out[2] = ()
        return out

    def _name_parts(self, half_lives):
        """(names of the parts, the n-gram order that each needs)."""
        words, classes, ngrams = half_lives
        names, order = ["base"], [0]
        for kind, taus in (("class", classes), ("word", words)):
            names += [f"{kind} {tau:g}" for tau in taus]
            order += [1] * len(taus)
        for k in range(2, self.max_order + 1):
            names += [f"{k}-gram {tau:g}" for tau in ngrams]
            order += [k] * len(ngrams)
        return names, np.array(order)

    def _given_weights(self, parts):
        if isinstance(self.weights, str):
            return None
        what = f"{len(parts)} numbers, for {', '.join(parts)}"
        weights = as_shares("weights", self.weights, len(parts), what)
        if weights[0] == 0:
            raise ValueError(
                "weights must be positive for the base, the only part after an "
                "empty history"
            )
        return weights

    def _by_order(self, weights):
        """A row for each longest order whose context occurs."""
        can = self._order_of_part <= np.arange(self.max_order + 1)[:, None]
        table = np.where(can, weights, 0.0)
        return table / table.sum(axis=1, keepdims=True)

    def _split(self, base, sentences, X_val, frozen):
        if X_val is not None:
            held, train = base.number_text(X_val, "X_val"), sentences
            if not held.n_sentences:
                raise ValueError("X_val is empty: there is no text to fit weights on")
        elif frozen:
            held = train = sentences
            if not held.n_sentences:
                raise ValueError("X is empty: there is no text to fit weights on")
        else:
            n_sentences = sentences.n_sentences
            remedy = "give X_val, weights"
            n = last_share(n_sentences, self.validation_fraction, remedy=remedy)
            late = np.arange(n_sentences) >= n_sentences - n
            train, held = sentences.select(~late), sentences.select(late)
        return train, held

    def _fit_classes(self, sentences):
        clustering = self.word_classes
        if clustering is None or isinstance(clustering, str):
            return None
        if isinstance(clustering, numbers.Integral):
            clustering = ExchangeClustering(int(clustering), offsets=(-1, 1))
        else:
            clustering = clone(clustering)
        return clustering.fit(sentences, None)

    def _classes_of_vocabulary(self):
        if self.word_classes is None:
            return None
        if self._clustering is None:
            labels = self.base_.predictor.distribution.groups()
            if labels is None:
                raise ValueError(
                    "word_classes='base', but the base has no classes of words: give a "
                    "clustering or a number, or a base with a FactoredLM"
                )
        else:
            labels = np.asarray(self._clustering.classes_of(self.vocabulary_))
        # Numbered without gaps; words that the clustering has not seen are a class.
        return np.unique(labels, return_inverse=True)[1].ravel().astype(np.int32)

    def _theta_of(self, words_before, class_before, sentences):
        """theta of the classes of a refit.

        The geometric mean, over the words of a class, of theta of the classes before;
        each word counts as often as it occurs. New words had no class before; a class
        of new words gets the mean over all words.
        """
        tokens = self.base_.predictor.encoder.encode(sentences)
        words = self._classes_of_tokens(tokens[tokens >= 0])
        n_words, size = self.vocabulary_.size, int(self.class_of_.max()) + 1
        count = 1.0 + np.bincount(words[words >= 0], minlength=n_words)
        place = encode(self.vocabulary_, words_before)
        old = np.flatnonzero(place >= 0)
        class_of, count = self.class_of_[old], count[old]
        total = np.bincount(class_of, count, size)
        of_word = np.log(self.theta_)[:, class_before[place[old]]] * count
        sums = [np.bincount(class_of, row, size) for row in of_word]
        mean = of_word.sum(axis=1, keepdims=True) / count.sum()
        with np.errstate(invalid="ignore"):  # 0 / 0 of a class of new words
            log_theta = np.reshape(sums, (-1, size)) / total
        return np.exp(np.where(total > 0, log_theta, mean))

    def _most_likely_theta(self, blocks):
        """theta of each half-life and class: the best of a grid on a text that was
        read."""
        n_parts, size = self.theta_.shape
        fit = np.zeros((n_parts, len(_THETAS), size))
        n_used = np.zeros((n_parts, 1, 1))
        for log_base, own, words, found in blocks:
            with np.errstate(invalid="ignore"):
                inside = np.exp(log_base) / own
            for k in range(n_parts):
                count, total = found.in_class[:, k], found.class_total[:, k]
                # A word that neither of the two knows says nothing about theta.
                use = (total > 0) & (count + inside > 0)
                group, base = self.class_of_[words[use]], inside[use]
                count, total = count[use], total[use]
                n_used[k] += group.size
                for t, theta in enumerate(_THETAS):
                    gain = np.log((count + theta * base) / (total + theta))
                    fit[k, t] += np.bincount(group, gain, size)
        prior = _PRIOR_POSITIONS * fit.sum(axis=2, keepdims=True)
        best = _THETAS[(fit + prior / np.maximum(n_used, 1)).argmax(axis=1)]
        return np.where(n_used[:, 0] > 0, best, _THETA)

    def _fit_weights(self, held):
        blocks = list(self._read(held, self.new_state(), None))
        if self.theta_ is not None and self._learns_theta:
            self.theta_ = self._most_likely_theta(blocks)
        log_parts, recalled = self._recall(blocks)
        matched = matched_order(recalled.facts)
        use = np.flatnonzero(~np.isnan(log_parts[:, 0]) & (matched > 0))
        with single_blas_thread():
            proba, weight, rows = relative(log_parts[use], np.ones(use.size))
            rows = use[rows]
            if self.weights == "logistic":
                closed = self._order_of_part > matched[rows][:, None]
                self.gate_coef_ = softmax_coef(
                    _gate_facts(recalled.facts[rows]), proba, weight, closed
                )
                return
            overall = em_weights(proba, weight)
            self.weights_ = self._by_order(np.maximum(overall, 1e-12))
            for m in range(1, self.max_order + 1):
                here = matched[rows] == m
                if here.any():
                    prior = _PRIOR_POSITIONS * self.weights_[m]
                    self.weights_[m] = em_weights(proba[here], weight[here], prior)

    def _log_weights(self, facts):
        """(n, n_parts) logarithms, -inf for a part whose context does not occur."""
        matched = matched_order(facts)
        with np.errstate(divide="ignore"):
            if self.gate_coef_ is None:
                return np.log(self.weights_)[matched]
            with single_blas_thread():
                score = _gate_facts(facts) @ self.gate_coef_.T
            score[self._order_of_part > matched[:, None]] = -np.inf
            return log_softmax(score)

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
        words, classes, ngrams = self.half_lives_
        return CacheState(
            self.vocabulary_.size,
            int(self.max_order),
            words,
            classes,
            ngrams,
            self.length,
            self.class_of_,
            self._rates,
            float(self.learning_half_life),
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
            The text in its order: each word is scored given all before it.

        state : CacheState, default=None
            The state after the text before; it is changed, so that the next call
            continues. None: a new one.

        starts : array-like of bool of shape (n_sentences,), default=None
            True for a sentence that begins a document: the state is reset before it.
            None: no sentence does.

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
        sentences = self.base_.number_text(X)
        log_prob = self._score(sentences, state, starts)
        lengths = self.base_.predictor.encoder.lengths(sentences)
        stop = np.cumsum(lengths)
        return [log_prob[a:b] for a, b in zip(stop - lengths, stop)]

    def _score(self, sentences, state, starts):
        blocks = self._read(sentences, self._check_state(state), starts)
        return self._mixed(*self._recall(blocks))

    def _mixed(self, log_parts, recalled):
        """ln P of each word, from its ln P in the parts; NaN for one without class."""
        return log_mixture(self._log_weights(recalled.facts), log_parts)

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

    def _recall(self, blocks):
        """(ln P of every position in the parts, the counts of the caches before it)."""
        log_parts, recalled = [], []
        for log_base, own, words, found in blocks:
            recalled.append(found)
            log_parts.append(self._log_parts(log_base, own, words, found).T)
        # The numbers of a part are consecutive: all that follows goes by parts.
        of_parts = np.concatenate(log_parts, axis=1)
        return of_parts.T, Recalled(*map(np.concatenate, zip(*recalled)))

    def _read(self, sentences, state, starts):
        """(ln P in the base, P of the word's class there or None, the word, the counts
        before it) of the next positions; at least once."""
        starts = _check_starts(starts, sentences.n_sentences)
        length = self.base_.predictor.encoder.lengths(sentences)
        begin = np.cumsum(length) - length
        first = np.zeros(int(length.sum()), dtype=bool)
        first[begin[length > 0]] = True
        resets, at = begin[starts], 0
        for log_base, token, proba in self._evaluate(sentences):
            words, stop = self._classes_of_tokens(token), at + token.size
            here = resets[(at <= resets) & (resets < stop)] - at
            for run, (a, b) in enumerate(pairwise([0, *here.tolist(), token.size])):
                if run > 0:
                    state.reset()
                s = slice(a, b)
                of_classes = None if proba is None else proba[s]
                found = state.read(words[s], first[at:][s], of_classes)
                own = self._own(of_classes, words[s])
                yield log_base[s], own, words[s], found
            at = stop
        if (resets >= at).any():
            state.reset()

    def _evaluate(self, sentences):
        """(ln P of the word, its token, P of all classes or None) in the base, at the
        next positions; at least once."""
        if self.class_of_ is None:
            scored = score_positions(self.base_, sentences)
            yield scored.log_prob, scored.token, None
        else:
            yield from score_groups(self.base_, sentences, self.class_of_)

    def _log_parts(self, log_base, own, words, recalled):
        """(n, n_parts) ln P of each word in each part, from its ln P in the base and
        the P of its class there."""
        n_classes, n_unigrams = recalled.in_class.shape[1], recalled.unigram.shape[1]
        log_base, of_class = log_base + recalled.gain, None
        if n_classes:
            with np.errstate(divide="ignore"):
                of_class = np.log(own)
            of_class += recalled.gain
        out = np.empty(
            (1 + n_classes + n_unigrams + self._n_ngram_parts(), log_base.size)
        )
        out[0] = log_base
        with np.errstate(divide="ignore", invalid="ignore"):
            for k in range(n_classes):
                count, total = recalled.in_class[:, k], recalled.class_total[:, k]
                theta = self.theta_[k, self.class_of_[np.maximum(words, 0)]]
                out[1 + k] = _adapt(log_base, of_class, count, total, theta)
            shares = out[1 + n_classes :]
            empty = recalled.facts[:, 0, 0] == 0
            for k in range(n_unigrams):
                shares[k] = recalled.unigram[:, k] / recalled.total[:, k]
                shares[k, empty] = 0.0
            shares[n_unigrams:] = recalled.share.reshape(
                log_base.size, self._n_ngram_parts()
            ).T
            np.log(shares, out=shares)
        out[:, np.isnan(log_base)] = np.nan
        return out.T

    def _own(self, proba, words):
        """P of the class of each word, NaN for a word without class; None where there
        are no classes."""
        if proba is None:
            return None
        own = proba[np.arange(words.size), self.class_of_[np.maximum(words, 0)]]
        own[words < 0] = np.nan
        return own

    def _n_ngram_parts(self):
        return (self.max_order - 1) * len(self.half_lives_[2])

    def _classes_of_tokens(self, tokens):
        """Class ids, negative for a word without class."""
        return self.base_.predictor.encoder.labels.class_of_token[tokens]

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
            Not comparable with that of a model without cache.

        Raises
        ------
        ValueError
            If no token is left to score, or as `score_stream`.
        """
        check_is_fitted(self)
        log_prob = self._score(self.base_.number_text(X), state, starts)
        known = ~np.isnan(log_prob)
        if not known.any():
            raise ValueError("X holds no token to score")
        return float(np.exp(-log_prob[known].mean()))

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
            As of :meth:`LanguageModel.surprisal`; ``depth`` is -1.

        Raises
        ------
        ValueError
            If there is no such `unit`, or as `score_stream`.
        """
        from ._reports import surprisal

        return surprisal(self, X, unit)

    # --------------------------------------------------------------- cursor

    @property
    def distribution_(self) -> CacheModel:
        """P of the next word after a cursor, in ids."""
        check_is_fitted(self)
        return CacheModel(self)

    def begin(self, state: CacheState | None = None) -> CacheCursor:
        """The cursor at the beginning of a sentence.

        Parameters
        ----------
        state : CacheState, default=None
            The state after the text before; it is not changed. None: a new one.

        Returns
        -------
        cursor : CacheCursor
            Named tuple (state, cache, begins): the state of the base, the cache, and
            whether a sentence begins. It can be stored, and advanced more than once.
        """
        check_is_fitted(self)
        return CacheCursor(self.base_.begin(), self._check_state(state), True)

    def advance(self, cursor: CacheCursor, word: Any) -> tuple[float, CacheCursor]:
        """Read one word.

        Parameters
        ----------
        cursor : CacheCursor
            From `begin` or an earlier step; it is not changed.

        word : symbol
            The next word; the end mark is a word.

        Returns
        -------
        log_prob : float
            Natural log-probability of the word, as that of `score_stream`.

        cursor : CacheCursor
            After the end mark that of the next sentence. The cache is copied, which
            costs its size.

        Raises
        ------
        ValueError
            As :meth:`LanguageModel.advance` of the base.
        """
        log_base, state = self.base_.advance(cursor.state, word)
        labels = self.base_.predictor.encoder.labels
        y = labels.encode_targets([word])
        proba = self._proba_of_classes(np.asarray(cursor.state)[None])
        cache = cursor.cache.copy()
        recalled = cache.read(y, np.array([cursor.begins]), proba)
        own = self._own(proba, y)
        log_parts = self._log_parts(np.array([log_base]), own, y, recalled)
        log_prob = float(self._mixed(log_parts, recalled)[0])
        return log_prob, CacheCursor(state, cache, bool(0 <= y[0] == labels.end_id))

    def _proba_of_classes(self, states):
        """P of all classes in the base after its states; None: there are none."""
        if self.class_of_ is None:
            return None
        predictor = self.base_.predictor
        at = predictor.locate(states)
        return predictor.model.group_proba(at, self.class_of_)

    def rows(self, cursor: CacheCursor) -> np.ndarray:
        """Natural log-probabilities of all words after a cursor.

        Parameters
        ----------
        cursor : CacheCursor
            From `begin` or `advance`.

        Returns
        -------
        log_prob : ndarray of shape (n_classes,)
            In the order of ``vocabulary_``.
        """
        return self.distribution_.rows(_one(cursor))[0]

    # ----------------------------------------------------------- generation

    def next_proba(
        self, context: Iterable = (), *, state: CacheState | None = None
    ) -> np.ndarray:
        """The probability of every word after the first words of a sentence.

        Parameters
        ----------
        context : str or iterable of symbols, default=()
            Words since the start of the sentence. They are part of the history, but not
            added to the state.

        state : CacheState, default=None
            The state after the text before. None: a new one.

        Returns
        -------
        proba : ndarray of shape (n_classes,)
            In the order of ``vocabulary_``; sums to 1.
        """
        return np.exp(self.rows(self._after(context, state)))

    def _after(self, context, state):
        """The cursor after the first words of a sentence."""
        check_is_fitted(self)
        cache = self._check_state(state)
        predictor = self.base_.predictor
        history = predictor.encoder.encode_history(context)
        start = predictor.encoder.labels.start is not None
        words = self._classes_of_tokens(history[1:] if start else history)
        if words.size:
            cache = cache.copy()
            before = len(history) - words.size
            prefixes = (history[None, : before + i] for i in range(words.size))
            states = [predictor.read(prefix) for prefix in prefixes]
            proba = self._proba_of_classes(np.concatenate(states))
            cache.read(words, _first_of(words.size), proba)
        state = single_state(predictor.read(history[None]))
        return CacheCursor(state, cache, not words.size)

    def _row(self, cursor):
        """P of every word after a cursor."""
        log_base = self.base_.rows(cursor.state)
        counts, class_counts, facts, add_ngrams = cursor.cache.rows(cursor.begins)
        weight = np.exp(self._log_weights(facts))[0]
        added = cursor.cache.class_scores(cursor.begins)
        if added is not None:
            added -= added.max()
            mass = np.bincount(self.class_of_, weights=np.exp(log_base))
            added -= np.log(mass @ np.exp(added))
            log_base = log_base + added[self.class_of_]
        row = weight[0] * np.exp(log_base)
        part = 1
        if class_counts:
            mass = np.bincount(self.class_of_, weights=np.exp(log_base))
            with np.errstate(divide="ignore"):
                of_class = np.log(mass)[self.class_of_]
            for (count, total), theta in zip(class_counts, self.theta_):
                adapted = _adapt(
                    log_base, of_class, count, total, theta[self.class_of_]
                )
                row += weight[part] * np.exp(adapted)
                part += 1
        for count, total in counts:
            if weight[part] > 0:
                row += weight[part] * (count / total)
            part += 1
        if self._n_ngram_parts():
            add_ngrams(weight[part:].reshape(self.max_order - 1, -1).copy(), row)
        return row

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
        cursor = self.begin(self._check_state(state).copy())
        text = []
        for _ in range(n_sentences):
            sentence: list = []
            for _ in range(max_length):
                uniform = rng.random_sample(1)
                drawn = self.distribution_.draw(_one(cursor), uniform, skip)
                proba = self._proba_of_classes(np.asarray(cursor.state)[None])
                cursor.cache.read(drawn, np.array([cursor.begins]), proba)
                word = self.vocabulary_[drawn[0]]
                _, state = self.base_.advance(cursor.state, word)
                cursor = cursor._replace(state=state, begins=False)
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
        k = check_count("k", k, 1)
        cursor = self._after(context, state)
        k = min(k, self.vocabulary_.size)
        best, log_prob = self.distribution_.best(_one(cursor), k)
        words = self.vocabulary_[best[0]].tolist()
        return list(zip(words, np.exp(log_prob[0]).tolist()))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.two_d_array = False
        tags.input_tags.one_d_array = True
        tags.input_tags.string = True
        return tags


def _one(cursor):
    """An array of one cursor."""
    out = np.empty(1, dtype=object)
    out[0] = cursor
    return out


def _melted(estimator):
    """The estimator inside frozen ones."""
    while isinstance(estimator, FrozenEstimator):
        estimator = estimator.estimator
    return estimator


def _gate_facts(facts):
    """(n, 1 + 3 * max_order) the features of the gate."""
    count = facts.astype(np.float64)
    columns = [np.ones((len(facts), 1))]
    for k in range(facts.shape[1]):
        columns += [count[:, k, :1] > 0, _SCALE * np.log1p(count[:, k])]
    return np.hstack(columns)


def _adapt(log_base, of_class, count, total, theta):
    """ln P of a within-class cache."""
    with np.errstate(divide="ignore"):
        used = of_class + np.log(count)
    return np.logaddexp(used, np.log(theta) + log_base) - np.log(total + theta)


def _first_of(n):
    """A mask of n words: the first begins a sentence."""
    first = np.zeros(n, dtype=bool)
    first[:1] = True
    return first


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
