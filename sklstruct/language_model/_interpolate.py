"""interpolate: several fitted language models as one."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from numpy.typing import ArrayLike
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from ..backoff import BackoffModel
from ..mixture import MixtureLM
from ..symbols import union_labels
from ._language_model import LanguageModel


def interpolate(
    models: Sequence[LanguageModel | BackoffModel | str | os.PathLike[str]],
    X_val: Iterable | None = None,
    *,
    weights: str | ArrayLike = "em",
) -> LanguageModel:
    r"""Linear mixture of fitted language models, which may have different vocabularies.

    .. math::
        P(y \mid x) = \sum_k \pi_k P_k(y \mid x)

    over the words of all models, with weights that maximise the likelihood of held-out
    text. A model reads a word outside its vocabulary as its unknown word. The
    probability of the unknown word is divided equally among the unknown word and the
    words that only the other models have,

    .. math::
        P_k(y \mid x) = \frac{P_k(\langle unk\rangle \mid x)}{1 + m_k}

    with :math:`m_k` the number of words that model k lacks. These words have
    probability 0 in a model without unknown word. So the probabilities of each model
    sum to 1 over the words of all models.

    Parameters
    ----------
    models : list of LanguageModel, BackoffModel, str or os.PathLike
        Fitted models of sentences of any kind, or files that `LanguageModel.load`
        reads, with the same start, end and unknown marks; the unknown word may be
        absent from a model. The models are not changed.

    X_val : TextFile or iterable of sentences, default=None
        Held-out text, on which the weights are learned. None if `weights` are numbers.
        If no model has an unknown word, words that no model knows are not counted.

    weights : {"em", "by_depth", "logistic"} or array-like, default="em"
        As of :class:`~sklstruct.mixture.MixtureLM`: constants by
        expectation-maximisation, weights that depend on the history, or an array-like
        of shape (n_models,), non-negative, which is divided by its sum.

    Returns
    -------
    model : LanguageModel
        Its ``estimator_`` is a :class:`~sklstruct.mixture.MixtureLM`, whose
        ``weights_`` are the weights, and whose ``weight_gap_`` bounds the gain of
        better constants.

    Raises
    ------
    ValueError
        If `models` is empty, the marks differ, `X_val` is given together with constant
        weights, `X_val` is missing for other weights, or constant weights are negative,
        all 0 or not one per model.
    TypeError
        If a model is not of these kinds.

    See Also
    --------
    LanguageModel.save : Writes a mixture with constant weights as one table of n-grams.
    sklstruct.mixture.MixtureLM : Trains several models on one text, and mixes them.

    Notes
    -----
    In ``ngram -mix-lm`` of SRILM, a word that a model lacks has probability 0 in this
    model, and the unknown word keeps its probability.

    References
    ----------
    .. [1] F. Jelinek, R. L. Mercer, "Interpolated estimation of Markov source
       parameters from sparse data", Pattern Recognition in Practice, 1980.

    Examples
    --------
    >>> from sklstruct.language_model import LanguageModel, interpolate
    >>> from sklstruct.smoothing import AdditiveLM
    >>> a = LanguageModel(AdditiveLM(), max_depth=2).fit(["the cat sat", "a cat ran"])
    >>> b = LanguageModel(AdditiveLM(), max_depth=2).fit(["the dog sat", "one dog ran"])
    >>> both = interpolate([a, b], ["the cat ran", "one cat sat", "a dog sat"])
    >>> both.vocabulary_.tolist()
    ['a', 'cat', 'dog', 'one', 'ran', 'sat', 'the', '<unk>', '</s>']
    >>> both.estimator_.weights_.round(2).tolist()
    [0.64, 0.36]
    """
    if isinstance(models, str | bytes) or not isinstance(models, Iterable):
        raise TypeError("models must be a list of models, got one path or model")
    fitted = [_model(k, model) for k, model in enumerate(models)]
    if not fitted:
        raise ValueError("models is empty: there is nothing to mix")
    if isinstance(weights, str) == (X_val is None):
        raise ValueError(
            "X_val: weights are learned on held-out text; give X_val or constant "
            "weights"
        )
    labels = union_labels([model.predictor.encoder.labels for model in fitted])
    named = [(f"model{k}", FrozenEstimator(m)) for k, m in enumerate(fitted)]
    marks = {labels.start, labels.end, labels.unknown}
    words = [word for word in labels.classes.tolist() if word not in marks]
    lm = LanguageModel(
        MixtureLM(named, weights=weights),
        max_depth=max(model.predictor.max_depth for model in fitted),
        vocabulary=words,
        out_of_vocabulary="exclude",
        **labels.settings,
    )
    # With given weights nothing is learned, and any sentence is valid.
    lm.fit([words[:1]] if X_val is None else X_val)
    return lm.set_params(out_of_vocabulary="error")


def _model(k, model):
    """An entry of `models` as a fitted LanguageModel."""
    if isinstance(model, str | os.PathLike):
        return LanguageModel.load(model)
    if isinstance(model, BackoffModel):
        return LanguageModel.from_backoff(model)
    if not isinstance(model, LanguageModel):
        raise TypeError(
            f"models[{k}] must be a fitted LanguageModel, a BackoffModel or the path "
            f"of a file, got {type(model).__name__}"
        )
    check_is_fitted(model)
    return model
