"""Metrics of the k labels that a model ranks first, for several labels per sample."""

from __future__ import annotations

from numbers import Real

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_array

from .._checks import as_indicator, check_sparse, check_top_k
from .._compat import check_weights, validate_params
from .._docs import shared_docs

_BLOCKS = {
    "shared_parameters": """
        y_true : array-like or sparse matrix of shape (n_samples, n_labels)
            Indicator of the labels, 0 or 1.

        y_score : array-like or sparse matrix of shape (n_samples, n_labels)
            Scores; labels are ranked from the largest to the smallest score, labels of
            equal scores by their number. In a sparse matrix, such as the result of
            `predict_top_k`, labels that are not stored are not ranked, and count as
            wrong.

        k : int, default=5
            Number of ranked labels that count, from 1 to n_labels.
    """,
    "shared_weight": """
        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0.
    """,
    "shared_errors": """
        ValueError
            If `y_true` has other values than 0 and 1, shapes differ, a score is NaN,
            weights are negative or all 0, or `k` is out of its range.
    """,
}


def _indicator(y_true, name="y_true") -> sp.csr_matrix:
    check_sparse(y_true, name)
    Y = check_array(y_true, accept_sparse="csr", input_name=name)
    return as_indicator(Y, name).astype(np.float64)


def _ranked(y_true, y_score, k, sample_weight):
    """(indicator, best k labels of each sample or -1, weights that sum to 1)."""
    Y = _indicator(y_true)
    check_sparse(y_score, "y_score")
    # minus infinity is the log-probability of a label without training samples
    score = check_array(
        y_score, accept_sparse="csr", input_name="y_score", ensure_all_finite=False
    )
    data = score.data if sp.issparse(score) else score
    if np.isnan(data).any():
        raise ValueError("y_score has NaN; every label needs a score")
    if score.shape != Y.shape:
        raise ValueError(
            f"y_true and y_score must have one shape, got {Y.shape} and {score.shape}"
        )
    k = check_top_k(k, Y.shape[1])
    weight = check_weights(sample_weight, Y)
    return Y, _best(score, k), weight / weight.sum()


def _best(score, k) -> NDArray:
    """(n_samples, k): labels by decreasing score, -1 if fewer than k are stored."""
    if not sp.issparse(score):
        return np.argsort(-score, axis=1, kind="stable")[:, :k]
    best = np.full((score.shape[0], k), -1)
    row = np.repeat(np.arange(score.shape[0]), np.diff(score.indptr))
    order = np.lexsort((score.indices, -score.data, row))
    rank = np.arange(row.size) - score.indptr[row]
    kept = rank < k
    best[row[kept], rank[kept]] = score.indices[order][kept]
    return best


def _gains(Y, best) -> NDArray:
    """(n, k): 1 if the label at the rank is right, else 0."""
    sample, label = np.nonzero(best >= 0)
    out = np.zeros(best.shape)
    found = Y[sample, best[sample, label]]
    out[sample, label] = np.asarray(found).ravel()
    return out


@shared_docs(**_BLOCKS)
def precision_at_k(
    y_true: ArrayLike | sp.spmatrix,
    y_score: ArrayLike | sp.spmatrix,
    *,
    k: int = 5,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Fraction of right labels among the k labels ranked first.

    .. math::
        \mathrm{P@}k = \frac1n \sum_i \frac1k \sum_{r=1}^k y_{i\,l_r},

    with :math:`l_1, l_2, \dots` the labels of sample i by decreasing score. (The mean
    is weighted if `sample_weight` is given.) A sample with fewer than k true labels
    cannot reach 1.

    Parameters
    ----------
    {shared_parameters}

    {shared_weight}

    Returns
    -------
    precision : float
        From 0 to 1.

    Raises
    ------
    {shared_errors}

    References
    ----------
    K. Bhatia et al., "The extreme classification repository: multi-label datasets and
    code", 2016.

    Examples
    --------
    >>> from sklstruct.metrics import precision_at_k
    >>> precision_at_k([[1, 0, 1], [0, 1, 0]], [[.9, .5, .1], [.2, .7, .6]], k=2)
    0.5
    """
    Y, best, share = _ranked(y_true, y_score, k, sample_weight)
    return float(share @ _gains(Y, best).mean(axis=1))


@shared_docs(**_BLOCKS)
def ndcg_at_k(
    y_true: ArrayLike | sp.spmatrix,
    y_score: ArrayLike | sp.spmatrix,
    *,
    k: int = 5,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Discounted gain of the k labels ranked first, divided by the largest possible.

    .. math::
        \mathrm{nDCG@}k = \frac1n \sum_i
        \frac{\sum_{r=1}^k y_{i\,l_r} / \log_2(r + 1)}
        {\sum_{r=1}^{\min(k, |y_i|)} 1 / \log_2(r + 1)},

    with :math:`l_1, l_2, \dots` the labels of sample i by decreasing score and
    :math:`|y_i|` the number of its true labels. A sample without labels counts as 0.

    Parameters
    ----------
    {shared_parameters}

    {shared_weight}

    Returns
    -------
    gain : float
        From 0 to 1.

    Raises
    ------
    {shared_errors}

    See Also
    --------
    sklearn.metrics.ndcg_score : The metric for dense scores; equal scores share ranks.

    Examples
    --------
    >>> from sklstruct.metrics import ndcg_at_k
    >>> ndcg_at_k([[0, 0, 1], [0, 1, 0]], [[.9, .5, .1], [.2, .7, .6]], k=3)
    0.75
    """
    Y, best, share = _ranked(y_true, y_score, k, sample_weight)
    discount = 1 / np.log2(np.arange(2, best.shape[1] + 2))
    ideal = np.append(0.0, np.cumsum(discount))
    ideal = ideal[np.minimum(np.diff(Y.indptr), best.shape[1])]
    gain = _gains(Y, best) @ discount
    return float(share @ (gain / np.where(ideal > 0, ideal, 1.0)))


@validate_params({"A": [Real], "B": [Real]}, prefer_skip_nested_validation=True)
def label_propensities(
    y_train: ArrayLike | sp.spmatrix, *, A: float = 0.55, B: float = 1.5
) -> NDArray:
    r"""Probability that a right label of a sample is in the data.

    .. math::
        p_l = \frac{1}{1 + C\, (N_l + B)^{-A}},
        \qquad C = (\ln N - 1) (B + 1)^A,

    with N the number of training samples and :math:`N_l` the number of those with
    label l.

    Parameters
    ----------
    y_train : array-like or sparse matrix of shape (n_samples, n_labels)
        Indicator of the labels of the training samples, at least 3.

    A, B : float, default=0.55 and 1.5
        Parameters of the formula, finite, B > -1. The defaults were fitted to
        Wikipedia; 0.6 and 2.6 are for products of Amazon.

    Returns
    -------
    propensity : ndarray of shape (n_labels,)
        In (0, 1].

    Raises
    ------
    ValueError
        If `y_train` has other values than 0 and 1, or fewer than 3 samples; if A or B
        is not a finite number, B <= -1, or a propensity would not be above 0.

    References
    ----------
    H. Jain, Y. Prabhu, M. Varma, "Extreme multi-label loss functions for
    recommendation, tagging, ranking and other missing label applications", KDD 2016,
    equation 2.

    Examples
    --------
    >>> from sklstruct.metrics import label_propensities
    >>> label_propensities([[1, 0], [1, 0], [1, 1], [1, 0]]).round(2)
    array([0.8 , 0.72])
    """
    Y = _indicator(y_train, "y_train")
    if Y.shape[0] < 3:
        raise ValueError(f"y_train has {Y.shape[0]} samples; ln N - 1 needs 3 or more")
    if not (np.isfinite([A, B]).all() and B > -1):
        raise ValueError(f"A must be finite and B > -1, got A={A!r} and B={B!r}")
    n_of_label = np.bincount(Y.indices, minlength=Y.shape[1])
    with np.errstate(all="ignore"):
        C = (np.log(Y.shape[0]) - 1) * np.float64(B + 1) ** A
        propensity = 1 / (1 + C * (n_of_label + np.float64(B)) ** -A)
    if not (propensity > 0).all():
        raise ValueError(
            f"A={A!r} and B={B!r} give propensities that are not above 0; use values "
            "nearer to 0.55 and 1.5"
        )
    return propensity


@shared_docs(**_BLOCKS)
def propensity_scored_precision_at_k(
    y_true: ArrayLike | sp.spmatrix,
    y_score: ArrayLike | sp.spmatrix,
    *,
    propensity: ArrayLike,
    k: int = 5,
    sample_weight: ArrayLike | None = None,
) -> float:
    r"""Precision of the first k labels, with larger weights for rare labels.

    .. math::
        \mathrm{PSP@}k = \frac{\sum_i \sum_{r=1}^k y_{i\,l_r} / p_{l_r}}
        {\sum_i \max_{|S| \le k} \sum_{l \in S} y_{il} / p_l},

    with :math:`l_1, l_2, \dots` the labels of sample i by decreasing score and
    :math:`p_l` the propensities. If right labels are missing with probability
    :math:`1 - p_l`, the expectation of the numerator is the number of right labels
    among the first k on complete data.

    Parameters
    ----------
    {shared_parameters}

    propensity : array-like of shape (n_labels,)
        Propensities :math:`p_l` in (0, 1]; see `label_propensities`.

    {shared_weight}

    Returns
    -------
    precision : float
        From 0 to 1; 0 if no sample has a label.

    Raises
    ------
    {shared_errors}

    References
    ----------
    H. Jain, Y. Prabhu, M. Varma, "Extreme multi-label loss functions for
    recommendation, tagging, ranking and other missing label applications", KDD 2016.
    The extreme classification repository uses the same denominator.

    Examples
    --------
    >>> from sklstruct.metrics import propensity_scored_precision_at_k
    >>> propensity_scored_precision_at_k(
    ...     [[1, 0, 1], [0, 1, 0]], [[.9, .5, .1], [.2, .7, .6]],
    ...     propensity=[1, 1, .5], k=1)
    0.6666666666666666
    """
    Y, best, share = _ranked(y_true, y_score, k, sample_weight)
    p = np.asarray(propensity, dtype=np.float64)
    if p.shape != Y.shape[1:] or not ((p > 0) & (p <= 1)).all():
        raise ValueError(
            f"propensity must be {Y.shape[1]} numbers in (0, 1]; see label_propensities"
        )
    gain = (_gains(Y, best) / p[best]).sum(axis=1)
    ideal = _best(Y.multiply(1 / p).tocsr(), best.shape[1])
    total = float(share @ np.where(ideal >= 0, 1 / p[ideal], 0.0).sum(axis=1))
    return float(share @ gain) / total if total > 0 else 0.0
