"""ScoringMixin: the probabilities of the words of a text, and perplexities."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Bunch

from .._compat import check_total, check_weights
from .._likelihood import innermost, sums_by_group, weighted_sum
from ..backoff import BackoffModel
from ._positions import score_positions

if TYPE_CHECKING:
    from ..symbols import NumberedText
    from ._predictors import TextPredictor


class ScoringMixin:
    """Scores of texts under a model of sentences; every method takes the same X."""

    if TYPE_CHECKING:
        estimator_: Any

        @property
        def predictor(self) -> TextPredictor: ...
        def number_text(self, X: Iterable, name: str = "X") -> NumberedText: ...

    def token_log_proba(self, X: Iterable) -> list[np.ndarray]:
        r"""Natural logarithm of the probability of every token.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            The text, in the form that `fit` takes.

        Returns
        -------
        log_proba : list of ndarray
            For each sentence of L symbols an array of L + 1 values (L with
            ``end=None``); the last value is for the end mark. NaN for a word that has
            no class (``unknown=None``), if `out_of_vocabulary` is ``"exclude"``.

        Raises
        ------
        ValueError
            If a start or end mark occurs in a sentence, or a word has no class and
            `out_of_vocabulary` is ``"error"``.
        """
        scored = score_positions(self, X)
        stop = np.cumsum(scored.length)
        return [scored.log_prob[a:b] for a, b in zip(stop - scored.length, stop)]

    def score_samples(self, X: Iterable) -> np.ndarray:
        """Natural logarithm of the probability of each sentence.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            The text, in the form that `fit` takes.

        Returns
        -------
        log_proba : ndarray of shape (n_sentences,)
            Sums over the tokens, the end mark included.
        """
        scored = score_positions(self, X)
        sentence = np.repeat(np.arange(scored.length.size), scored.length)
        known = scored.known
        return np.bincount(
            sentence[known],
            weights=scored.log_prob[known],
            minlength=scored.length.size,
        )

    def score(
        self, X: Iterable, y: Any = None, sample_weight: ArrayLike | None = None
    ) -> float:
        """Mean natural log-likelihood per token, unknown words and end marks counted.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            The text, in the form that `fit` takes.

        y : None
            Ignored.

        sample_weight : array-like of shape (n_sentences,), default=None
            Non-negative weight of each sentence.

        Returns
        -------
        score : float
            Minus the logarithm of `perplexity`.
        """
        scored = score_positions(self, X)
        weight = scored.known.astype(np.float64)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, scored.length)
            weight *= np.repeat(sample_weight, scored.length)
            check_total(weight)
        return mean_log_prob(scored.log_prob, weight)

    @overload
    def perplexity(
        self,
        X: Iterable,
        *,
        include_end: bool = True,
        include_unknown: bool = True,
        return_counts: Literal[False] = False,
    ) -> float: ...

    @overload
    def perplexity(
        self,
        X: Iterable,
        *,
        include_end: bool = True,
        include_unknown: bool = True,
        return_counts: Literal[True],
    ) -> tuple[float, Bunch]: ...

    def perplexity(
        self,
        X: Iterable,
        *,
        include_end: bool = True,
        include_unknown: bool = True,
        return_counts: bool = False,
    ) -> float | tuple[float, Bunch]:
        r"""Perplexity per token.

        .. math::
            \exp\Big(-\frac1N \sum_i \ln P(w_i \mid \ldots)\Big)

        Parameters
        ----------
        X : TextFile or iterable of sentences
            The text, in the form that `fit` takes.

        include_end : bool, default=True
            True: end marks are counted as tokens.

        include_unknown : bool, default=True
            True: unknown words are counted, each with the probability of the symbol
            `unknown`. False: unknown words are left out, but stay in the contexts of
            other words.

        return_counts : bool, default=False
            True: the numbers of tokens are also returned.

        Returns
        -------
        perplexity : float

        counts : Bunch
            Only if `return_counts`: ``n_counted`` (tokens in the mean), ``n_end`` and
            ``n_unknown`` (end marks and unknown words in X, counted or not).

        Raises
        ------
        ValueError
            If no token is left to count.
        """
        scored = score_positions(self, X)
        counted = scored.counted(include_end, include_unknown)
        value = float(np.exp(-mean_log_prob(scored.log_prob, counted)))
        if not return_counts:
            return value
        return value, Bunch(
            n_counted=int(counted.sum()),
            n_end=int(scored.is_end.sum()),
            n_unknown=int(scored.unknown.sum()),
        )

    def perplexity_by_depth(
        self,
        X: Iterable,
        *,
        include_end: bool = True,
        include_unknown: bool = True,
    ) -> Bunch:
        """Perplexity by the length of the context of the n-gram that was found.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            The text, in the form that `fit` takes.

        include_end, include_unknown : bool, default=True
            As in `perplexity`.

        Returns
        -------
        table : Bunch of ndarrays of shape (max_depth + 1,)
            ``depth``; ``n_tokens``; ``log_likelihood``, the sum of natural
            log-probabilities; ``perplexity``, NaN for a depth without tokens. Over the
            depths, tokens and log-likelihoods add up to those of `perplexity`.

        Raises
        ------
        AttributeError
            If the estimator does not fit a BackoffModel.

        Notes
        -----
        After a ContextRefiner the depth counts the symbols of its path.
        """
        model = self.predictor.distribution
        if not isinstance(model, BackoffModel):
            raise AttributeError(
                "perplexity_by_depth needs one tree of contexts, which a "
                f"{type(innermost(self.estimator_)).__name__} does not have; call it "
                "on the models that it is made of"
            )
        scored = score_positions(self, X)
        counted = scored.counted(include_end, include_unknown)
        n = model.max_depth + 1
        n_tokens, total, perplexity = sums_by_group(
            scored.log_prob[counted], np.asarray(scored.depth)[counted], n
        )
        return Bunch(
            depth=np.arange(n),
            n_tokens=n_tokens,
            log_likelihood=total,
            perplexity=perplexity,
        )

    def perplexity_by_sentence(
        self,
        X: Iterable,
        *,
        include_end: bool = True,
        include_unknown: bool = True,
    ) -> Bunch:
        """Perplexity of each sentence, and its unknown words.

        Parameters
        ----------
        X : TextFile or iterable of sentences
            The text, in the form that `fit` takes.

        include_end, include_unknown : bool, default=True
            As in `perplexity`.

        Returns
        -------
        table : Bunch
            ``n_tokens``, ``log_likelihood`` (sums of natural log-probabilities) and
            ``perplexity`` of the tokens that count, ``n_unknown``: ndarrays of shape
            (n_sentences,). ``unknown_words``: a list of the unknown words of each
            sentence. The perplexity of a sentence without a token is NaN.
        """
        text = self.number_text(X)
        at = score_positions(self, text)
        counted = at.counted(include_end, include_unknown)
        n = at.length.size
        sentence = np.repeat(np.arange(n), at.length)
        n_tokens, total, perplexity = sums_by_group(
            at.log_prob[counted], sentence[counted], n
        )
        unknown_words: list[list] = [[] for _ in range(n)]
        where = np.flatnonzero(at.unknown)
        for s, word in zip(sentence[where].tolist(), at.words(text)[where].tolist()):
            unknown_words[s].append(word)
        return Bunch(
            n_tokens=n_tokens,
            log_likelihood=total,
            perplexity=perplexity,
            n_unknown=np.array([len(words) for words in unknown_words]),
            unknown_words=unknown_words,
        )

    def surprisal(
        self, X: Iterable, *, unit: Literal["bits", "nats", "hartleys"] = "bits"
    ) -> Any:
        r"""The surprisal of every token, as a table.

        .. math::
            s_i = -\log P(w_i \mid w_{i-m}, \ldots, w_{i-1})

        Parameters
        ----------
        X : TextFile or iterable of sentences
            The text, in the form that `fit` takes.

        unit : {"bits", "nats", "hartleys"}, default="bits"
            Base of the logarithm: 2, e or 10.

        Returns
        -------
        table : pandas.DataFrame, or Bunch of ndarrays without pandas
            One row per token, end marks included. ``sentence`` and ``position`` count
            from 0. ``word``, the word of X or the end mark. ``surprisal``, NaN for a
            word without probability. ``depth``, the length of the context of the n-gram
            that the probability is taken from; -1 if the model is not one table of
            n-grams. ``unknown``, whether the word is unknown to the model. The mean
            surprisal in nats is the logarithm of `perplexity`.

        Raises
        ------
        ValueError
            If `unit` is not known, or as `token_log_proba`.

        Examples
        --------
        >>> from sklstruct.language_model import LanguageModel
        >>> from sklstruct.smoothing import AdditiveLM
        >>> text = ["the cat sat", "the dog sat", "the cat ran"]
        >>> model = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text)
        >>> table = model.surprisal(["the zebra sat"])
        >>> for row in zip(table["word"], table["surprisal"].round(2), table["depth"]):
        ...     print(*row)
        the 0.26 1
        zebra 5.21 0
        sat 2.6 0
        </s> 0.36 1
        """
        from ._reports import surprisal

        return surprisal(self, X, unit)


def mean_log_prob(log_prob: np.ndarray, weight: np.ndarray) -> float:
    """The weighted mean; ValueError if no weight is positive."""
    total = weight[weight > 0].sum()
    if not total > 0:
        raise ValueError(
            "X holds no token to score: it is empty, or all its tokens are left out"
        )
    return weighted_sum(log_prob, weight) / float(total)
