"""Fitting of a `CacheLM`: classes of words, theta of each class, weights of parts."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator

from .._checks import as_numbers, as_shares, last_share
from .._parallel import single_blas_thread
from ..mixture._gates import em_weights, relative, softmax_coef
from ..symbols import NumberedText, encode
from ..word_classes import ExchangeClustering
from ._cache_state import CacheSettings
from ._language_model import LanguageModel

# theta of a class without words in the held-out text, and of all classes if there is no
# held-out text.
THETA = 15.0
# The values of theta that are tried.
_THETAS = 2.0 ** np.arange(-2.0, 17.5, 0.5)
# A prior for theta of each class and for the weights of each order: the likelihood of
# the whole text counts as this many positions.
_PRIOR_POSITIONS = 20.0


def unwrapped(base: Any) -> tuple[LanguageModel, bool]:
    """(the model inside frozen estimators, whether the model is frozen)."""
    model = base
    while isinstance(model, FrozenEstimator):
        model = model.estimator
    if not isinstance(model, LanguageModel):
        raise TypeError(
            f"base must be a LanguageModel, got {type(model).__name__}; wrap a "
            "classifier of windows as LanguageModel(classifier)"
        )
    if model.from_file and model is base:
        raise ValueError(
            "base was read from a file, and fit would train a new model in its "
            "place; give FrozenEstimator(base)"
        )
    return model, model is not base


def half_lives(value: Any) -> tuple[float, ...]:
    """The half-lives of words: a number, or a list of numbers."""
    out = as_numbers("half_life", value)
    if out.ndim > 1 or not (out >= 1).all():
        raise ValueError(
            "half_life must be a number of at least 1 or a list of such numbers, got "
            f"{value!r:.60}"
        )
    return tuple(out.tolist())


def learning_rates(value: Any) -> tuple[float, ...]:
    """The steps of the weights of classes: three numbers, or one number for all."""
    rates = as_numbers("learning_rate", value)
    if rates.shape == (1,):
        rates = np.full(3, rates)
    if rates.shape != (3,) or not ((rates >= 0) & (rates <= 1)).all():
        raise ValueError(
            "learning_rate must be a number in [0, 1], or three numbers: after all "
            "histories, after the class of the last word, after the last word; got "
            f"{value!r:.60}"
        )
    return tuple(rates.tolist())


def parts_of(settings: CacheSettings) -> tuple[list[str], NDArray]:
    """Names of the base and its caches; the n-gram order whose context each part
    needs."""
    names, order = ["base"], [0]
    for kind in ("class", "word"):
        taus = settings.class_half_life if kind == "class" else settings.half_life
        names += [f"{kind} {tau:g}" for tau in taus]
        order += [1] * len(taus)
    for k in range(2, settings.max_order + 1):
        names += [f"{k}-gram {tau:g}" for tau in settings.ngram_half_life]
        order += [k] * len(settings.ngram_half_life)
    return names, np.array(order, dtype=np.int32)


def given_weights(value: Any, parts: list[str]) -> NDArray | None:
    """Constant weights of the parts; None if they are learned."""
    if isinstance(value, str):
        return None
    what = f"{len(parts)} numbers, for {', '.join(parts)}"
    weights = as_shares(value, len(parts), what)
    if weights[0] == 0:
        raise ValueError(
            "weights must be positive for the base: only the base is used after an "
            "empty history"
        )
    return weights


def by_order(weights: NDArray, order: NDArray, max_order: int) -> NDArray:
    """Weights for each longest order whose context occurs; parts of longer orders get
    0."""
    can = order <= np.arange(max_order + 1)[:, None]
    table = np.where(can, weights, 0.0)
    return table / table.sum(axis=1, keepdims=True)


def split_text(
    base: LanguageModel, text: NumberedText, X_val: Any, share: float | None
) -> tuple[NumberedText, NumberedText]:
    """(sentences for the base, held-out sentences); if share is None, both are all
    sentences."""
    if X_val is not None:
        train, held, name = text, base.number_text(X_val, "X_val"), "X_val"
    elif share is None:
        train, held, name = text, text, "X"
    else:
        n = text.n_sentences
        n_held = last_share(n, share, remedy="give X_val, weights")
        late = np.arange(n) >= n - n_held
        return text.select(~late), text.select(late)
    if not held.n_sentences:
        raise ValueError(f"{name} is empty: weights are fitted on its sentences")
    return train, held


def classes_of_words(
    word_classes: Any, base: LanguageModel, text: NumberedText
) -> NDArray | None:
    """The class of each word of a fitted model, from 0, without gaps."""
    if word_classes is None:
        return None
    if isinstance(word_classes, str):
        labels = base.predictor.distribution.groups()
        if labels is None:
            raise ValueError(
                "word_classes='base', but the base has no classes of words: give a "
                "clustering or a number, or a base with a FactoredLM"
            )
    else:
        clustering = word_classes
        if isinstance(clustering, numbers.Integral):
            clustering = ExchangeClustering(int(clustering), offsets=(-1, 1))
        try:
            clustering = clone(clustering).fit(text, None)
        except ValueError as exc:
            raise ValueError(f"word_classes: {exc}") from exc
        # Words that the clustering has not seen form one class.
        labels = np.asarray(clustering.classes_of(base.vocabulary_))
    return np.unique(labels, return_inverse=True)[1].ravel().astype(np.int32)


def most_likely_theta(
    log_inside: NDArray, counts: NDArray, group: NDArray, n_groups: int
) -> NDArray:
    """theta of each half-life and class: the most likely value of a grid.

    log_inside (n,): ln P of each word within its class, in the base. counts (n, 2 *
    n_half_lives): decayed counts of the word and of its class, before the word. group
    (n,): the class of each word.
    """
    best = np.full((counts.shape[1] // 2, n_groups), THETA)
    for k, (count, total) in enumerate(zip(counts[:, ::2].T, counts[:, 1::2].T)):
        # A word of probability 0 in cache and base does not depend on theta.
        use = (total > 0) & (count + np.exp(log_inside) > 0)
        if not use.any():
            continue
        count, total, inside = count[use], total[use], np.exp(log_inside[use])
        gains = (np.log((count + t * inside) / (total + t)) for t in _THETAS)
        fit = np.array([np.bincount(group[use], gain, n_groups) for gain in gains])
        fit += _PRIOR_POSITIONS * fit.sum(axis=1, keepdims=True) / use.sum()
        best[k] = _THETAS[fit.argmax(axis=0)]
    return best


def theta_after_refit(
    theta: NDArray,
    before: tuple[NDArray, NDArray],
    base: LanguageModel,
    class_of: NDArray,
    text: NumberedText,
) -> NDArray:
    """theta of the classes after a refit, from theta of the classes before the refit.

    The geometric mean, over the words of a class, of theta of their earlier classes; a
    word counts 1 + its number of occurrences. New words are left out, as they had no
    class; a class of new words gets the mean over all words. before: words and their
    earlier classes.
    """
    encoder = base.predictor.encoder
    tokens = encoder.encode(text)
    words = encoder.labels.class_of_token[tokens[tokens >= 0]]
    n_words, size = base.vocabulary_.size, int(class_of.max()) + 1
    count = 1.0 + np.bincount(words[words >= 0], minlength=n_words)
    place = encode(base.vocabulary_, before[0])
    old = np.flatnonzero(place >= 0)
    class_of, count = class_of[old], count[old]
    total = np.bincount(class_of, count, size)
    of_word = np.log(theta)[:, before[1][place[old]]] * count
    sums = [np.bincount(class_of, row, size) for row in of_word]
    mean = of_word.sum(axis=1, keepdims=True) / count.sum()
    with np.errstate(invalid="ignore"):  # 0 / 0 of a class of new words
        log_theta = np.reshape(sums, (-1, size)) / total
    return np.exp(np.where(total > 0, log_theta, mean))


def fit_gate(log_parts: NDArray, features: NDArray, order: NDArray) -> NDArray:
    """Coefficients of the logistic gate, from ln P of held-out words in the parts."""
    with single_blas_thread():
        proba, weight, features, matched = _usable(log_parts, features)
        return softmax_coef(features, proba, weight, order > matched[:, None])


def fit_constants(log_parts: NDArray, features: NDArray, order: NDArray) -> NDArray:
    """Constant weights for each longest order whose context occurs."""
    with single_blas_thread():
        proba, weight, _, matched = _usable(log_parts, features)
        overall = np.maximum(em_weights(proba, weight), 1e-12)
        table = by_order(overall, order, features.shape[1] // 3)
        for m in range(1, len(table)):
            here = matched == m
            if here.any():
                prior = _PRIOR_POSITIONS * table[m]
                table[m] = em_weights(proba[here], weight[here], prior)
    return table


def _usable(log_parts, features):
    """(P in the parts up to a factor, weight, features, longest order whose context
    occurs) of the positions that the weights depend on."""
    matched = features[:, 1::3].sum(axis=1)  # shorter contexts also occur
    use = np.flatnonzero(~np.isnan(log_parts[:, 0]) & (matched > 0))
    proba, weight, rows = relative(log_parts[use], np.ones(use.size))
    rows = use[rows]
    return proba, weight, features[rows], matched[rows]
