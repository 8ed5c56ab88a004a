"""Estimators that learn from ids: the parameters of `__sklstruct_ids__` are set."""

from __future__ import annotations

from typing import Any

from sklearn.frozen import FrozenEstimator

from ._labels import Labels


def prepare_for_ids(estimator: Any, labels: Labels) -> None:
    """Set the parameters with which all parts of an estimator learn from ids.

    A part, the estimator itself or one of its parameters, says them by a method
    ``__sklstruct_ids__(labels)``, which returns a mapping from parameters to values.
    Parts that are fitted already are not changed. One that is fitted to sentences has a
    method ``__sklstruct_over_ids__(labels, name)``, and what this returns takes its
    place. ValueError if a fitted part was fitted to other ids, or has a parameter that
    is not possible with ids.
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
    """The parameters of all parts, except the parts of what is fitted already."""
    params = estimator.get_params(deep=True)
    fitted = tuple(
        f"{name}__"
        for name, part in params.items()
        if isinstance(part, FrozenEstimator)
    )
    return {k: value for k, value in params.items() if not k.startswith(fitted)}


def _check_frozen(name, part, labels):
    """The fitted part; a ValueError where it numbers its words in another way."""
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
