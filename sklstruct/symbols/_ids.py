"""Preparation of estimators for ids, by the parameters of `__sklstruct_ids__`."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator

from ._labels import Labels


def prepare_for_ids(estimator: Any, labels: Labels) -> None:
    """Set the parameters of all parts of an estimator for learning from ids.

    A part is the estimator itself or one of its parameters. If a part has a method
    ``__sklstruct_ids__(labels)``, the method returns a mapping from parameters to
    values. Parts that are already fitted are not changed. A part that was fitted to
    sentences has a method ``__sklstruct_over_ids__(labels, name)``, whose result
    replaces the part. ValueError if a fitted part was fitted to other ids, or has a
    parameter that is not possible with ids.
    """
    settings = {}
    for name, part in {"": estimator, **unfitted_params(estimator)}.items():
        if isinstance(part, FrozenEstimator):
            fitted = _check_frozen(name, part, labels)
            if name and hasattr(fitted, "__sklstruct_over_ids__"):
                over = fitted.__sklstruct_over_ids__(labels, name)
                settings[name] = FrozenEstimator(over)
        elif hasattr(part, "__sklstruct_ids__") and not isinstance(part, type):
            prefix = f"{name}__" if name else ""
            for parameter, value in part.__sklstruct_ids__(labels).items():
                settings[prefix + parameter] = value
    estimator.set_params(**settings)


def unfitted_params(estimator: Any) -> dict[str, Any]:
    """The parameters of all parts, except the parts of estimators that are already
    fitted."""
    params = estimator.get_params(deep=True)
    fitted = tuple(
        f"{name}__"
        for name, part in params.items()
        if isinstance(part, FrozenEstimator)
    )
    return {k: value for k, value in params.items() if not k.startswith(fitted)}


def _check_frozen(name, part, labels):
    """The fitted part; ValueError if it has other ids for its words."""
    fitted = part
    while isinstance(fitted, FrozenEstimator):
        fitted = fitted.estimator
    its = getattr(fitted, "sentence_labels_", labels)
    if its != labels:
        raise ValueError(
            f"{name}: the fitted {type(fitted).__name__} has other words or marks than "
            f"this model ({its.n_classes} and {labels.n_classes} classes), so that its "
            "ids mean others; fit both with the same vocabulary, start, end and unknown"
        )
    return fitted
