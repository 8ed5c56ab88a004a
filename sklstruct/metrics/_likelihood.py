r"""Likelihood of targets: mean log-likelihood, perplexity, a scorer of both.

scikit-learn's ``neg_log_loss`` builds the (n, V) matrix, and is wrong or NaN if a fold
lacks classes. Here targets are aligned by ``classes_``, and the parameter `unknown`
says what happens to targets that are not in ``classes_``.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike

from .._compat import (
    BaseEstimator,
    Interval,
    StrOptions,
    check_weights,
    validate_params,
)
from .._docs import shared_docs
from .._likelihood import innermost, last_step, target_log_proba, weighted_sum
from ..symbols import object_array, plain

_UNKNOWN = [
    StrOptions({"exclude", "error"}),
    Interval(numbers.Real, 0, 1, closed="neither"),
]


_PARAMETERS = """
estimator : fitted classifier or LanguageModel
    A fitted classifier or language model, or a `Pipeline` or fitted search of it. Its
    method `target_log_proba` is called if it exists, else `predict_log_proba` (or
    `predict_proba`) on blocks of rows, about 64 MB at a time.

X : array-like
    Samples in the form the estimator takes; sentences for a `LanguageModel`.

y : array-like of shape (n_samples,), default=None
    Targets, aligned with the estimator's ``classes_``. None for a
    `LanguageModel`.

sample_weight : array-like of shape (n_samples,), default=None
    Non-negative weights, one per target (with y=None: one per sentence).

unknown : {"exclude", "error"} or float, default="exclude"
    Treatment of a target that is not in ``classes_``. ``"exclude"``: the target is
    left out (two models with different classes are then scored on different targets).
    ``"error"``: an error that names the target. A float m in (0, 1): all unknown
    targets are one class of probability m, and the probability of a known target is
    multiplied by 1 - m.
"""


@validate_params({"unknown": _UNKNOWN}, prefer_skip_nested_validation=True)
@shared_docs(parameters=_PARAMETERS)
def log_likelihood(
    estimator: BaseEstimator,
    X: Any,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    unknown: str | float = "exclude",
) -> float:
    r"""Mean log-likelihood of the targets, natural logarithm.

    .. math::
        \frac{1}{\sum_i v_i} \sum_i v_i \ln P(y_i \mid x_i)

    Parameters
    ----------
    {parameters}

    Returns
    -------
    log_likelihood : float
        At most 0; ``-inf`` if a counted target has the probability 0.

    Raises
    ------
    ValueError
        If y has several labels per sample, no target is counted, `unknown` is out of
        its range, or it is ``"error"`` and a target is unknown.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklstruct.metrics import log_likelihood
    >>> model = DummyClassifier(strategy="prior").fit([[0]] * 4, ["a", "a", "a", "b"])
    >>> round(log_likelihood(model, [[0]] * 2, ["b", "c"]), 4)
    -1.3863
    """
    log_prob, weight = _log_proba(estimator, X, y, sample_weight)
    lacking = np.isnan(log_prob) & (weight > 0)
    if unknown == "error" and lacking.any():
        i, first = int(np.argmax(lacking)), ""
        if y is not None:
            first = f", the first is y[{i}] = {plain(np.asarray(y)[i])!r}"
        raise ValueError(
            f"{int(lacking.sum())} targets are unknown to the estimator{first}. Fix "
            "its classes (parameter classes or vocabulary), or choose "
            "unknown='exclude' or a probability mass"
        )
    if isinstance(unknown, str):
        weight = np.where(lacking, 0.0, weight)
    else:  # probabilities of known targets and m sum to 1
        log_prob = np.where(lacking, np.log(unknown), log_prob + np.log1p(-unknown))
    total = weight.sum()
    if not total > 0:
        reason = "X is empty or every weight is 0"
        if lacking.any():
            reason = "all are unknown to the estimator"
        raise ValueError(f"there is no target to score: {reason}")
    return weighted_sum(log_prob, weight) / float(total)


def _log_proba(estimator, X, y, sample_weight):
    """(ln P of each target, NaN for an unknown one; weight of each target)."""
    if y is None:
        estimator, X = last_step(estimator, X)
        if not hasattr(estimator, "token_log_proba"):
            raise ValueError(
                f"y is None, but {type(estimator).__name__} is not a language model "
                "over sentences: pass the targets"
            )
        by_sentence = estimator.token_log_proba(X)
        if sample_weight is not None:
            sample_weight = check_weights(sample_weight, by_sentence)
            sample_weight = np.repeat(sample_weight, [len(s) for s in by_sentence])
        log_prob = np.concatenate([np.empty(0), *by_sentence])
    else:
        _check_one_each(y)
        log_prob = np.asarray(target_log_proba(estimator, X, y))
    if sample_weight is None:
        return log_prob, np.ones(log_prob.size)
    return log_prob, check_weights(sample_weight, log_prob)


def _check_one_each(y):
    """ValueError for several labels per sample, and for sequences of labels."""
    try:
        labels = np.asarray(y)
    except ValueError:  # lists of unequal length
        labels = object_array(y)
    kinds = {*map(type, labels.flat)} if labels.dtype == object else set()
    lists = list, set, np.ndarray, sp.sparray, sp.spmatrix
    if labels.shape[1:] not in ((), (1,)) or any(issubclass(k, lists) for k in kinds):
        raise ValueError(
            "y must hold one target for each sample; for several labels per sample use "
            "precision_at_k or ndcg_at_k, for sequences of labels the method score of "
            "the estimator"
        )


@validate_params({"unknown": _UNKNOWN}, prefer_skip_nested_validation=True)
@shared_docs(parameters=_PARAMETERS)
def perplexity(
    estimator: BaseEstimator,
    X: Any,
    y: ArrayLike | None = None,
    *,
    sample_weight: ArrayLike | None = None,
    unknown: str | float = "exclude",
) -> float:
    r"""Perplexity of the targets: the exponential of minus their mean log-likelihood.

    .. math::
        \exp\Big(-\frac{1}{\sum_i v_i} \sum_i v_i \ln P(y_i \mid x_i)\Big)

    Parameters
    ----------
    {parameters}

    Returns
    -------
    perplexity : float
        At least 1; V for the uniform distribution over V classes; ``inf`` if a
        counted target has the probability 0. Its logarithm to base 2 is the number of
        bits per target of an ideal code for the probabilities.

    Raises
    ------
    ValueError
        As in `log_likelihood`.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklstruct.metrics import perplexity
    >>> model = DummyClassifier(strategy="uniform").fit([[0]] * 4, ["a", "b", "c", "d"])
    >>> round(perplexity(model, [[0]] * 2, ["a", "d"]), 10)
    4.0
    """
    value = log_likelihood(
        estimator, X, y, sample_weight=sample_weight, unknown=unknown
    )
    with np.errstate(over="ignore"):
        return float(np.exp(-value))


_SIGNED: dict[str, tuple[Callable[..., Any], float]] = {
    "log_likelihood": (log_likelihood, 1.0),
    "neg_perplexity": (perplexity, -1.0),
}


class LikelihoodScorer(BaseEstimator):
    """Scorer by log-likelihood or perplexity, for the parameter ``scoring``.

    A larger score is better. The scorer supports metadata routing: after
    ``scorer.set_score_request(sample_weight=True)``, `GridSearchCV` and
    `cross_validate` pass weights to the scorer.

    Parameters
    ----------
    metric : {"log_likelihood", "neg_perplexity"}, default="log_likelihood"
        The score: `log_likelihood` (mean, natural logarithm), or minus `perplexity`.

    unknown : {"exclude", "error"} or float, default="exclude"
        Treatment of a target outside ``classes_``, as in `log_likelihood`.

    Raises
    ------
    ValueError
        If a parameter is out of its range; raised by the constructor.

    Examples
    --------
    >>> from sklearn.dummy import DummyClassifier
    >>> from sklearn.model_selection import KFold, cross_val_score
    >>> from sklstruct.metrics import LikelihoodScorer
    >>> y = ["a", "b", "a", "c", "a", "a"]
    >>> scorer = LikelihoodScorer("neg_perplexity", unknown=0.1)
    >>> model = DummyClassifier(strategy="prior")
    >>> cross_val_score(model, [[0]] * 6, y, cv=KFold(3), scoring=scorer).round(2)
    array([-3.85, -3.85, -2.22])
    """

    _parameter_constraints: ClassVar[dict] = {
        "metric": [StrOptions({*_SIGNED})],
        "unknown": _UNKNOWN,
    }

    def __init__(self, metric: str = "log_likelihood", *, unknown: Any = "exclude"):
        self.metric = metric
        self.unknown = unknown
        # Checked here: a search turns an error of `score` into NaN, after all fits.
        self._validate_params()

    def score(
        self, estimator: Any, X: Any, y: Any = None, sample_weight: Any = None
    ) -> float:
        """Score of a fitted estimator.

        Parameters
        ----------
        estimator : fitted classifier or LanguageModel
            The estimator, a pipeline that ends in one, or a fitted search.

        X : array-like
            Samples in the form the estimator takes; sentences for a `LanguageModel`.

        y : array-like of shape (n_samples,), default=None
            Targets. None for a `LanguageModel`.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.

        Returns
        -------
        score : float
        """
        function, sign = _SIGNED[self.metric]
        if hasattr(innermost(estimator), "token_log_proba"):
            y = None  # the targets of a language model are in its sentences
        return sign * function(
            estimator, X, y, sample_weight=sample_weight, unknown=self.unknown
        )

    __call__ = score
