"""ModelClassifier: base of the classifiers that are composed of distributions."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_sparse
from .._compat import (
    BaseEstimator,
    CallbackSupportMixin,
    _fit_context,
    with_callbacks,
)
from .._progress import Progress
from ..backoff import (
    Distribution,
    DistributionClassifier,
    read_sample_weight,
    read_targets,
    require_targets,
    target_column,
)
from ..backoff._distribution import count_rows, take
from ..symbols import encode
from ._parts import GroupFit, Part, Reading, Samples


class ModelClassifier(
    CallbackSupportMixin, DistributionClassifier, BaseEstimator, metaclass=ABCMeta
):
    """Base of the classifiers whose fitted distribution is composed of others.

    Subclasses have the parameters `classes`, `n_jobs` and `verbose`, and define
    ``__sklstruct_part__`` and `_make_part`.

    Attributes
    ----------
    part_, distribution_ : object
        The part that reads contexts, and the distribution.
    """

    distribution_: Distribution

    @abstractmethod
    def __sklstruct_part__(self, classes: np.ndarray, facts: bool) -> Part:
        """The part that this estimator, not fitted, is."""

    def _fitted(self):
        """Set the attributes that describe `distribution_`, at the end of a fit."""

    @with_callbacks
    def fit(
        self,
        X: Any,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Fit the models.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts, in the form that the estimators take: windows of symbols, the
            last column the most recent, for those of this package.

        y : array-like of shape (n_samples,)
            The symbol that followed each context.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; 0 is as if absent.

        X_val, y_val : array-like, default=None
            Held-out samples, on which the weights of mixtures are learnt. None: the
            mixtures hold out the last rows of X, see their `validation_fraction`.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If X, y, weights and held-out samples do not fit together, or a parameter
            does not fit the data.
        """
        return self._fit(X, y, sample_weight, X_val, y_val)

    @_fit_context(prefer_skip_nested_validation=False)
    def _fit(self, X, y, sample_weight, X_val, y_val):
        require_targets(self, y)
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val go together: give both or neither")
        X = self._contexts(X, reset=True)
        y = target_column(y, X.shape[0])
        keep, weight = read_sample_weight(sample_weight, y)
        if keep is not None:
            X, y = take(X, keep), y[keep]
        weight = np.ones(y.size) if weight is None else weight
        target, self.classes_ = read_targets(y, self.classes)
        n_classes = self.classes_.size
        with Progress.of_fit(self, None) as progress:
            part = self.__sklstruct_part__(self.classes_, False)
            if X_val is not None and not part.holds_out:
                raise ValueError(
                    f"X_val: this {type(self).__name__} learns no weights from "
                    "held-out samples; leave it out"
                )
            contexts = part.learn(Reading(X, y, progress.step))
            progress.step(f"contexts of {y.size} samples are read")
            groups = np.zeros(target.size, dtype=np.int32)
            samples = Samples(contexts, groups, target, weight)
            held_out = None
            if X_val is not None:
                held_out = self._read_held_out(part, X_val, y_val)
                progress.step(f"{held_out.outcome.size} held-out samples are read")
            task = GroupFit(
                samples, np.array([n_classes]), held_out, n_jobs=self.n_jobs,
                report=progress.step,
            )  # fmt: skip
            self.distribution_ = part.fit(task)[0]
        self.part_ = part
        self._fitted()
        return self

    def _read_held_out(self, part, X_val, y_val):
        X_val = _contexts(X_val, "X_val")
        outcome = encode(target_column(y_val, X_val.shape[0]), self.classes_)
        known = np.flatnonzero(outcome >= 0)
        if known.size == 0:
            raise ValueError(
                "y_val holds none of the classes: there is nothing to learn the "
                "weights from"
            )
        contexts = take(part.read(Reading(X_val)), known)
        groups = np.zeros(known.size, dtype=np.int32)
        return Samples(contexts, groups, outcome[known], np.ones(known.size))

    # ----------------------------------------------------------- prediction

    def locate(self, X: Any) -> Any:
        """Locate each row of X for the methods of ``distribution_``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        Returns
        -------
        at : array or tuple of arrays
            With a row a sample, for the methods of ``distribution_``.
        """
        check_is_fitted(self)
        contexts = self.part_.read(Reading(self._contexts(X, reset=False)))
        return self.distribution_.locate(contexts)

    def _contexts(self, X, *, reset):
        """X with rows and columns; sets or checks their number and names."""
        X = _contexts(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X

    def sample(self, X: Any, random_state: Any = None) -> NDArray:
        """Draw one class after each context.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        random_state : int, RandomState instance or None, default=None
            Source of the random numbers.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes, drawn from the exact distribution.
        """
        at = self.locate(X)
        uniform = check_random_state(random_state).random_sample(count_rows(at))
        return self.classes_[self.distribution_.draw(at, uniform)]


def _contexts(X, name="X"):
    """X as an object with a shape; ValueError unless it has two dimensions."""
    check_sparse(X)
    if not (isinstance(X, np.ndarray) or sp.issparse(X) or hasattr(X, "iloc")):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"{name}: Expected 2D array, got {len(X.shape)}D array instead; Reshape "
            "your data: a row of it is a context"
        )
    return X
