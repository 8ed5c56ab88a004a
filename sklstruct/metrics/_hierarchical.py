"""Precision and recall of the nodes on predicted paths."""

from __future__ import annotations

from numbers import Real

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.exceptions import UndefinedMetricWarning
from sklearn.utils.validation import column_or_1d

from .._checks import check_samples
from .._compat import Options, StrOptions, check_weights, validate_params
from .._docs import shared_docs
from .._warnings import warn
from ..taxonomy import Taxonomy, as_paths
from ..taxonomy._given import check_taxonomy
from ..taxonomy._labels import among

_CHECKED = {
    "average": [StrOptions({"micro", "macro"})],
    "zero_division": [Options(Real, {0.0, 1.0}), "nan", StrOptions({"warn"})],
}
_BLOCKS = {
    "shared_parameters": """
        y_true, y_pred : array-like of shape (n_samples, n_levels)
            Paths without the root, one column for each level, padded with "", or lists
            of unequal length (see `sklstruct.taxonomy.as_paths`). A group is identified
            by its whole path. A path of "" only is the root. With `taxonomy`, labels of
            shape (n_samples,).

        taxonomy : Taxonomy, default=None
            The tree of the labels; it must have all of them.

        average : {"micro", "macro"}, default="micro"
            "micro": the ratio of the sums over all samples. "macro": the mean of the
            ratios of the samples.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0.

        zero_division : {"warn", 0.0, 1.0, nan}, default="warn"
            The value of 0 / 0; "warn" is 0 with a warning.
    """,
    "shared_sets": r"""
        with :math:`\alpha_i` the predicted node and the nodes above it, and
        :math:`\beta_i` the true node and the nodes above it, both without the root.
    """,
    "shared_errors": """
        ValueError
            If paths are malformed, y_true and y_pred differ in length, one of them has
            numbers at a level and the other has strings, the taxonomy lacks a label, or
            a parameter is out of its range.
    """,
    "shared_sources": """
        .. [1] S. Kiritchenko, S. Matwin, R. Nock, A. F. Famili, "Learning and
           evaluation in the presence of class hierarchies: application to text
           categorization", Canadian AI 2006.
        .. [2] F. M. Miranda, N. Köhnecke, B. Y. Renard, "HiClass: a Python library for
           local hierarchical classification compatible with scikit-learn", JMLR 24,
           2023. Its values are equal to these if no label is at two places of the tree.
    """,
}


@validate_params(_CHECKED, prefer_skip_nested_validation=True)
@shared_docs(**_BLOCKS)
def hierarchical_precision_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    taxonomy: Taxonomy | None = None,
    average: str = "micro",
    sample_weight: ArrayLike | None = None,
    zero_division: str | float = "warn",
) -> float:
    r"""Hierarchical precision: the fraction of the predicted nodes that are right.

    .. math::
        hP = \frac{\sum_i |\alpha_i \cap \beta_i|}{\sum_i |\alpha_i|},

    {shared_sets}

    Parameters
    ----------
    {shared_parameters}

    Returns
    -------
    precision : float
        From 0 to 1, or `zero_division`.

    Raises
    ------
    {shared_errors}

    References
    ----------
    {shared_sources}

    Examples
    --------
    >>> from sklstruct.metrics import hierarchical_precision_score
    >>> y_true = [["animal", "dog"], ["animal", "cat"], ["vehicle"]]
    >>> y_pred = [["animal", "cat"], ["animal"], ["vehicle", "bus"]]
    >>> hierarchical_precision_score(y_true, y_pred)
    0.6
    """
    return _score(
        "precision", y_true, y_pred, taxonomy, average, sample_weight, zero_division
    )


@validate_params(_CHECKED, prefer_skip_nested_validation=True)
@shared_docs(**_BLOCKS)
def hierarchical_recall_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    taxonomy: Taxonomy | None = None,
    average: str = "micro",
    sample_weight: ArrayLike | None = None,
    zero_division: str | float = "warn",
) -> float:
    r"""Hierarchical recall: the fraction of the true nodes that are predicted.

    .. math::
        hR = \frac{\sum_i |\alpha_i \cap \beta_i|}{\sum_i |\beta_i|},

    {shared_sets}

    Parameters
    ----------
    {shared_parameters}

    Returns
    -------
    recall : float
        From 0 to 1, or `zero_division`.

    Raises
    ------
    {shared_errors}

    References
    ----------
    {shared_sources}

    Examples
    --------
    >>> from sklstruct.metrics import hierarchical_recall_score
    >>> y_true = [["animal", "dog"], ["animal", "cat"], ["vehicle"]]
    >>> y_pred = [["animal", "cat"], ["animal"], ["vehicle", "bus"]]
    >>> hierarchical_recall_score(y_true, y_pred)
    0.6
    """
    return _score(
        "recall", y_true, y_pred, taxonomy, average, sample_weight, zero_division
    )


@validate_params(_CHECKED, prefer_skip_nested_validation=True)
@shared_docs(**_BLOCKS)
def hierarchical_f1_score(
    y_true: ArrayLike,
    y_pred: ArrayLike,
    *,
    taxonomy: Taxonomy | None = None,
    average: str = "micro",
    sample_weight: ArrayLike | None = None,
    zero_division: str | float = "warn",
) -> float:
    r"""Harmonic mean of hierarchical precision and recall.

    .. math::
        hF = \frac{2\, hP\, hR}{hP + hR}
        = \frac{2 \sum_i |\alpha_i \cap \beta_i|}{\sum_i |\alpha_i| + |\beta_i|},

    {shared_sets}

    Parameters
    ----------
    {shared_parameters}

    Returns
    -------
    f1 : float
        From 0 to 1, or `zero_division`.

    Raises
    ------
    {shared_errors}

    References
    ----------
    {shared_sources}

    Examples
    --------
    >>> from sklstruct.metrics import hierarchical_f1_score
    >>> from sklstruct.taxonomy import Taxonomy
    >>> tree = Taxonomy.from_nested([["cat", "dog"], [["tram"], ["bus"]]])
    >>> y_true, y_pred = ["dog", "cat", "bus"], ["cat", "cat", "tram"]
    >>> round(hierarchical_f1_score(y_true, y_pred, taxonomy=tree), 3)
    0.667
    """
    return _score("f1", y_true, y_pred, taxonomy, average, sample_weight, zero_division)


def _score(
    which, y_true, y_pred, taxonomy, average, sample_weight, zero_division
) -> float:
    warns = zero_division == "warn"
    if taxonomy is not None:
        check_taxonomy(taxonomy)
    true = _paths(taxonomy, y_true, "y_true")
    predicted = _paths(taxonomy, y_pred, "y_pred")
    check_samples(len(true), len(predicted), "y_true and y_pred")
    weight = check_weights(sample_weight, true)
    width = min(true.shape[1], predicted.shape[1])
    for level in range(width):
        here = [part[part[:, level] != "", level] for part in (true, predicted)]
        if len({isinstance(label, str) for part in here for label in part[:1]}) > 1:
            raise ValueError(
                f"level {level} has numbers in one of y_true and y_pred, and strings "
                "in the other, which are never equal; taxonomy_.label_paths(y) gives "
                "paths of strings, as predict_at does"
            )
    same = true[:, :width] == predicted[:, :width]
    # The common nodes are a prefix: they end with the first difference, or "".
    both = np.cumprod(same & (true[:, :width] != ""), axis=1).sum(axis=1)
    n_true, n_predicted = (true != "").sum(axis=1), (predicted != "").sum(axis=1)
    right, total = {
        "precision": (both, n_predicted),
        "recall": (both, n_true),
        "f1": (2 * both, n_predicted + n_true),
    }[which]
    if average == "micro":
        right, total, weight = weight @ right, weight @ total, np.ones(1)
    used = weight > 0
    right, total, weight = (
        np.atleast_1d(part).astype(np.float64)[used] for part in (right, total, weight)
    )
    ratio = np.full(total.size, 0.0 if warns else float(zero_division))
    np.divide(right, total, out=ratio, where=total > 0)
    if warns and not total.all():
        warn(
            f"hierarchical {which} is 0 / 0 for paths that are the root only, and is "
            "set to 0; choose another value by zero_division",
            UndefinedMetricWarning,
        )
    return float(np.average(ratio, weights=weight))


def _paths(taxonomy: Taxonomy | None, y: ArrayLike, name: str) -> NDArray:
    if taxonomy is None:
        return as_paths(y, name)
    labels = column_or_1d(y)
    unknown = labels[~among(labels, taxonomy.classes)].tolist()
    if unknown:
        raise ValueError(
            f"{name} has the label {unknown[0]!r}, which the taxonomy lacks"
        )
    return taxonomy.label_paths(labels)
