"""Reports about fitted language models: a comparison, sentences, n-grams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from sklearn.pipeline import Pipeline
from sklearn.utils import Bunch

from .._checks import as_random_state, check_choice, check_count
from .._likelihood import innermost
from ..backoff import BackoffModel
from ..loglinear import StructuredLogLinearLM
from ..symbols import NumberedText, TextFile, plain_list
from ..word_classes import ContextRefiner
from ._positions import score_positions

# Nats per unit of surprisal.
_UNITS = {"bits": float(np.log(2.0)), "nats": 1.0, "hartleys": float(np.log(10.0))}


class Comparison(NamedTuple):
    """The result of `compare`."""

    gain: float  # percent
    standard_error: float
    interval: tuple[float, float]
    p_worse: float
    perplexity: tuple[float, float]
    n_tokens: int
    n_sentences: int


def compare(
    a: Any,
    b: Any,
    X: Iterable,
    *,
    include_end: bool = True,
    include_unknown: bool = True,
    n_resamples: int = 1000,
    random_state: Any = None,
) -> Comparison:
    r"""Compare the perplexities of two models on one text, with an interval.

    .. math::
        \text{gain} = 100 \Big(1 - \frac{\mathrm{ppl}_b}{\mathrm{ppl}_a}\Big)
        = 100\, (1 - e^{-d}), \qquad
        d = \frac{\sum_s D_s}{\sum_s N_s} ,

    with :math:`N_s` the tokens of sentence s and :math:`D_s` the difference of its
    natural log-probabilities, b minus a. Both models score the same sentences, so the
    difficulty of each sentence cancels in the difference.

    Parameters
    ----------
    a, b : LanguageModel or CacheLM
        Fitted models. A `CacheLM` reads X in order.

    X : TextFile or iterable of sentences
        The text to score.

    include_end, include_unknown : bool, default=True
        As in :meth:`LanguageModel.perplexity`. With ``include_unknown=False``, words
        that are unknown to either model are left out.

    n_resamples : int, default=1000
        Number of resamples of the sentences for the interval, at least 2.

    random_state : int, RandomState, Generator or None, default=None
        Source of the resamples.

    Returns
    -------
    comparison : Comparison
        Named tuple. ``gain``, in percent, positive if b is better; its
        ``standard_error``, over sentences (ratio estimator, delta method);
        ``interval``, the 2.5 and 97.5 percentiles of the gain over the resamples
        (paired bootstrap); ``p_worse``, the share of the resamples in which b is not
        better; ``perplexity``, of a and of b; ``n_tokens``, ``n_sentences``.

    Raises
    ------
    ValueError
        If fewer than two sentences have a token, only one of the models has an end
        mark, the analyzers of the models split X into different words, a word is
        unknown to only one model and `include_unknown` is True, or a token has
        probability 0.

    Notes
    -----
    Sentences are assumed to be independent. For sentences of one document, and even
    more under a `CacheLM`, the intervals are too short.

    References
    ----------
    .. [1] P. Koehn, "Statistical significance tests for machine translation
       evaluation", EMNLP 2004 (paired bootstrap resampling).
    .. [2] W. G. Cochran, "Sampling Techniques", 3rd ed., 1977, section 6.3 (variance of
       a ratio).

    Examples
    --------
    >>> from sklstruct.language_model import LanguageModel, compare
    >>> from sklstruct.smoothing import AdditiveLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran"]
    >>> a, b = (LanguageModel(AdditiveLM(delta=d)).fit(text) for d in (1.0, 0.1))
    >>> found = compare(a, b, ["the cat sat", "the dog ran"], random_state=0)
    >>> bool(found.gain > 0), found.n_tokens
    (True, 8)
    """
    n_resamples = check_count("n_resamples", n_resamples, 2)
    text = _common_text(a, b, X)
    first, second = _score(a, text), _score(b, text)
    if not np.array_equal(first.length, second.length):
        raise ValueError(
            "a and b count different tokens: one of them has end=None. Fit both with "
            "the same marks"
        )
    if include_unknown and (first.unknown != second.unknown).any():
        i = int(np.argmax(first.unknown != second.unknown))
        raise ValueError(
            f"X: the word {first.words(text)[i]!r:.60} is unknown to one model and "
            "known to the other, so that their perplexities cannot be compared. Fit "
            "both with one vocabulary, or set include_unknown=False"
        )
    wanted = include_end, include_unknown
    counted = first.counted(*wanted) & second.counted(*wanted)
    both = np.column_stack([first.log_prob, second.log_prob])[counted]
    if not np.isfinite(both).all():
        raise ValueError(
            "X: a token has probability 0, so that the mean log-probability is not "
            "finite; smooth the models"
        )
    sentence = np.repeat(np.arange(first.length.size), first.length)[counted]
    size = np.bincount(sentence, minlength=first.length.size).astype(np.float64)
    total = np.bincount(sentence, both[:, 1] - both[:, 0], minlength=size.size)
    used = size > 0
    size, total = size[used], total[used]
    n = size.size
    if n < 2:
        raise ValueError(
            f"X has {n} sentence(s) with a token that counts, and a standard error "
            "needs two"
        )
    d = total.sum() / size.sum()
    residual = total - d * size
    error = np.sqrt(n / (n - 1) * (residual**2).sum()) / size.sum()
    rng = as_random_state(random_state)
    gains = np.empty(n_resamples)
    for i in range(n_resamples):
        drawn = rng.randint(n, size=n)
        gains[i] = _gain(total[drawn].sum() / size[drawn].sum())
    low, high = np.percentile(gains, [2.5, 97.5])
    return Comparison(
        gain=_gain(d),
        standard_error=float(100.0 * np.exp(-d) * error),
        interval=(float(low), float(high)),
        p_worse=float((gains <= 0).mean()),
        perplexity=tuple(np.exp(-both.mean(axis=0)).tolist()),
        n_tokens=int(size.sum()),
        n_sentences=n,
    )


def _gain(d):
    return float(-100.0 * np.expm1(-d))


def _common_text(a, b, X):
    """X in numbers, split by the rules of both models; ValueError if the words
    differ."""
    for name, model in (("a", a), ("b", b)):
        if not hasattr(getattr(model, "base_", model), "number_text"):
            raise TypeError(
                f"{name} must be a fitted LanguageModel or CacheLM, got {model!r:.60}"
            )
    first, second = (getattr(model, "base_", model) for model in (a, b))
    if not isinstance(X, TextFile | NumberedText):
        X = plain_list(X)  # read twice
    text = first.number_text(X)
    if text is X or first.analyzer == second.analyzer:
        return text
    other = second.number_text(X)
    if text.sentences() != other.sentences():
        raise ValueError(
            f"X: analyzer={first.analyzer!r} of a and {second.analyzer!r} of b split "
            "the text into different words, so perplexities cannot be compared"
        )
    return text


def _score(model, text):
    """`score_positions`, with the log-probabilities of a `CacheLM`."""
    base = getattr(model, "base_", model)
    scored = score_positions(base, text)
    if base is model:
        return scored
    return scored._replace(log_prob=np.concatenate(model.score_stream(text)))


def surprisal(model: Any, X: Iterable, unit: str) -> Any:
    """See :meth:`LanguageModel.surprisal`."""
    check_choice("unit", unit, _UNITS)
    base = getattr(model, "base_", model)
    text = base.number_text(X)
    at = _score(model, text)
    word = at.words(text)
    word[at.is_end] = base.predictor.encoder.labels.end
    start = np.repeat(np.cumsum(at.length) - at.length, at.length)
    single = at.depth is not None and base is model
    columns = {
        "sentence": np.repeat(np.arange(at.length.size), at.length),
        "position": np.arange(at.log_prob.size) - start,
        "word": word,
        "surprisal": -at.log_prob / _UNITS[unit],
        "depth": at.depth if single else np.full(at.log_prob.size, -1, np.int32),
        "unknown": at.unknown,
    }
    try:
        from pandas import DataFrame, Series
    except ImportError:
        return Bunch(**columns)
    # strings of Arrow, the type of pandas 3, cannot hold lone surrogates
    return DataFrame({**columns, "word": Series(word, dtype=object)})


def heaviest(model: Any, k: int, depth: int | None) -> list[tuple]:
    """See :meth:`LanguageModel.heaviest_ngrams`."""
    k = check_count("k", k, 1)
    found = model.predictor.distribution
    fitted = innermost(model.estimator_)
    if not isinstance(fitted, StructuredLogLinearLM) or not isinstance(
        found, BackoffModel
    ):
        raise AttributeError(
            "heaviest_ngrams needs the weights of a StructuredLogLinearLM, alone or at "
            f"the end of a pipeline, and the estimator is a {type(fitted).__name__}"
        )
    if fitted.coef_.size != found.n_pairs:
        raise AttributeError(
            "heaviest_ngrams: each weight of a collapsed tree belongs "
            "to several n-grams; use SuffixTreeVectorizer(collapse=False)"
        )
    tree, pairs, size = found.tree, found.pairs, np.abs(fitted.coef_)
    first, last = 0, found.n_pairs
    if depth is not None:
        level = tree.level(check_count("depth", depth, 0, found.max_depth))
        first, last = int(pairs.ptr[level.start]), int(pairs.ptr[level.stop])
    order = np.argsort(-size[first:last], kind="stable")[:k] + first
    order = order[size[order] > 0]
    names, contexts = _names_of(model, found), tree.contexts(pairs.nodes()[order])
    out = []
    for pair, context in zip(order.tolist(), contexts):
        # The first symbol below the root is step 1 of the path.
        steps = range(len(context), 0, -1)
        named = tuple(names(s, step) for s, step in zip(context.tolist(), steps))
        word = model.vocabulary_[pairs.target[pair]]
        out.append((named, word, float(fitted.coef_[pair])))
    return out


def _names_of(model, found):
    """(symbol, step) -> the name of a context symbol."""
    labels = model.predictor.encoder.labels
    estimator = model.estimator_
    while hasattr(estimator, "best_estimator_"):
        estimator = estimator.best_estimator_
    refiner = estimator.steps[0][1] if isinstance(estimator, Pipeline) else None
    if not isinstance(refiner, ContextRefiner):
        return lambda symbol, step: labels.symbols[symbol]
    n_words = refiner.symbols_.size
    sizes = [int(c.n_clusters_) + 1 for c in refiner.clusterings_]
    starts = n_words + np.cumsum([0, *sizes])

    def name(symbol, step):
        number, position = refiner.path_[step - 1]
        symbol = int(found.labels.symbols[symbol])
        if number < 0:
            token = int(refiner.symbols_[symbol])
            return f"w({position})={labels.symbols[token]}"
        return f"{refiner.get_feature_names_out()[-step]}={symbol - starts[number]}"

    return name
