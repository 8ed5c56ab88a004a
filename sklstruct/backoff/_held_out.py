"""HeldOutClassifier: base of estimators that tune parameters on held-out samples."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Real
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._compat import Interval, available_if
from .._docs import shared_docs
from ..context_tree import Pairs
from ._counted import Counted, HeldOutSplit
from ._estimator import SAMPLES, BackoffClassifier, HeldOutData
from ._model import Fitted
from ._slots import HeldOut

VALIDATION_FRACTION = """
validation_fraction : float, default=0.1
    Share of the samples, between 0 and 1, that is held out if `fit` gets no X_val: the
    last samples, because neighbours of training samples are too easy to predict. The
    model is then fitted to all samples with the chosen numbers.
"""
VALIDATION_CONSTRAINT = {
    "validation_fraction": [Interval(Real, 0, 1, closed="neither")],
}


def refuse_held_out(estimator: Any) -> None:
    """Raise a ValueError for `X_val` of an estimator that does not use held-out
    samples.

    The remedy is the estimator's `held_out_hint`, if it has this attribute.
    """
    raise ValueError(
        f"X_val: a {type(estimator).__name__} does not use held-out samples; "
        f"{getattr(estimator, 'held_out_hint', 'leave it out')}"
    )


def _is_online(model: HeldOutClassifier) -> bool:
    if model._uses_held_out() or model.keeps_positions:
        raise AttributeError(
            f"this {type(model).__name__} tunes parameters on held-out samples, which "
            "batches do not have, so it has no partial_fit; give fixed numbers, or a "
            "formula"
        )
    return True


class HeldOutClassifier(BackoffClassifier):
    """Base of the estimators that tune parameters on held-out samples.

    Subclasses have the parameter `validation_fraction` and define `_uses_held_out`, and
    `_tune` or `_fit_divided`.
    """

    validation_fraction: float

    @abstractmethod
    def _uses_held_out(self) -> bool:
        """True if the parameters ask for held-out samples."""

    def _tune(self, pairs: Pairs, count: np.ndarray, held_out: HeldOut) -> None:
        """Tune the parameters, and set the fitted attributes that `_fit_tree` reads."""
        raise NotImplementedError

    @shared_docs(samples=SAMPLES)
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> Self:
        """Fit the model.

        Parameters
        ----------
        {samples}

        X_val, y_val : as X and y, default=None
            Held-out samples, on which parameters are tuned. None: the last
            `validation_fraction` of the samples.

        sample_weight_val : array-like of shape (n_val_samples,), default=None
            Weights of the held-out samples.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If X is neither context windows nor a path matrix, a target is not in
            `classes`, a weight is negative, or X_val is given but not used, or has no
            sample.
        """
        held_out = None
        if X_val is not None or y_val is not None:
            if X_val is None or y_val is None:
                raise ValueError("X_val and y_val must be given together")
            if not self._uses_held_out():
                refuse_held_out(self)
            held_out = HeldOutData(X_val, y_val, sample_weight_val)
        elif sample_weight_val is not None:
            raise ValueError("sample_weight_val was given without X_val and y_val")
        return self._fit(X, y, sample_weight, held_out)

    partial_fit = available_if(_is_online)(BackoffClassifier.partial_fit)

    @property
    def held_out_share(self) -> float | None:
        return self.validation_fraction if self._uses_held_out() else None

    def _fit_divided(self, counted: Counted, overwrite: bool) -> Fitted:
        if self._uses_held_out():
            self._tune(*counted.expanded(), self._held_out(counted))
        return super()._fit_divided(counted, overwrite)

    def _held_out(self, counted: Counted) -> HeldOut:
        if not isinstance(counted, HeldOutSplit):
            raise ValueError(
                f"counted: this {type(self).__name__} tunes parameters on held-out "
                "samples, but no sample is held out; count with X_val, or by a "
                "LanguageModel that has this estimator"
            )
        fraction = counted.held_out.fraction
        if fraction not in (None, self.validation_fraction):
            raise ValueError(
                f"validation_fraction={self.validation_fraction}, but the samples were "
                f"counted with validation_fraction={fraction}; count them again, or "
                "set the same value"
            )
        return counted.held_out
