"""ModelClassifier: base of the classifiers that are composed of distributions."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import as_random_state, check_sparse, last_share
from .._compat import BaseEstimator, CallbackSupportMixin, _fit_context, with_callbacks
from .._progress import Progress
from .._warnings import warn_once
from ..backoff import (
    Distribution,
    DistributionClassifier,
    read_known,
    read_sample_weight,
    read_targets,
    refuse_held_out,
    require_targets,
    target_column,
)
from ..backoff._distribution import count_rows, take
from ..symbols import TextWindows
from ._models import without_tables
from ._sub_models import GroupFit, SubModel
from ._transforms import GroupedSamples, Report, TransformCache


class Rows(Protocol):
    """The samples of a fit, in their order."""

    n_samples: int
    n_columns: int

    def learn(self, part: SubModel, n: int, report: Report) -> GroupedSamples:
        """The first n samples, after a part has learnt to read their contexts."""

    def known_after(self, n: int) -> tuple[Any, NDArray, NDArray]:
        """(contexts, outcomes, weights) of the later samples whose class occurs in the
        first n samples."""


class RowsHere(NamedTuple):
    """Samples in the memory of this process."""

    X: Any
    y: NDArray
    target: NDArray
    weight: NDArray

    @property
    def n_samples(self) -> int:
        return self.target.size

    def learn(self, part: SubModel, n: int, report: Report) -> GroupedSamples:
        here = TransformCache(take(self.X, slice(0, n)), self.y[:n], report)
        return one_group(part.learn(here), self.target[:n], self.weight[:n])

    def known_after(self, n: int) -> tuple[Any, NDArray, NDArray]:
        seen = np.isin(self.target[n:], self.target[:n])
        last = n + np.flatnonzero(seen)
        return take(self.X, last), self.target[last], self.weight[last]


def one_group(contexts: Any, outcome: NDArray, weight: NDArray) -> GroupedSamples:
    """Samples of one group."""
    # A broadcast array needs no memory.
    group = np.broadcast_to(np.int32(0), outcome.shape)
    return GroupedSamples(contexts, group, outcome, weight)


class ModelClassifier(
    CallbackSupportMixin, DistributionClassifier, BaseEstimator, metaclass=ABCMeta
):
    """Base of the classifiers whose distribution is composed of other distributions.

    Subclasses have the parameters `classes`, `n_jobs` and `verbose`, and define
    ``__sklstruct_sub_model__`` and `_make_sub_model`.

    Attributes
    ----------
    part_, distribution_ : object
        The sub-model that reads contexts, and the fitted distribution.
    """

    distribution_: Distribution

    @abstractmethod
    def __sklstruct_sub_model__(self, classes: np.ndarray, for_gate: bool) -> SubModel:
        """The sub-model of this unfitted estimator."""

    def _fitted(self):
        """Set the attributes that describe `distribution_`, at the end of a fit."""

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self,
        X: Any,
        y: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        X_val: Any = None,
        y_val: ArrayLike | None = None,
    ) -> Self:
        """Fit the models.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts, in the form that the estimators take. Estimators of this package
            take windows of symbols, the last column the most recent.

        y : array-like of shape (n_samples,)
            The symbol that followed each context.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; samples of weight 0 are left out.

        X_val, y_val : array-like, default=None
            Held-out samples, on which the weights of mixtures are learned. None: the
            mixtures hold out the last rows of X, see their parameter
            `validation_fraction`.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            If X, y, weights and held-out samples do not fit together, a parameter does
            not fit the data, or all held-out rows have classes that do not occur in the
            other rows.
        """
        require_targets(self, y, X)
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val: give both or neither")
        X = self._contexts(X, reset=True)
        labels = target_column(y, X.shape[0])
        keep, weight = read_sample_weight(sample_weight, labels)
        if keep is not None:
            X, labels = take(X, keep), labels[keep]
        if weight is None:
            weight = np.broadcast_to(1.0, labels.shape)  # which takes no memory
        target, self.classes_ = read_targets(labels, self.classes)
        return self._learn(RowsHere(X, labels, target, weight), X_val, y_val)

    @with_callbacks
    def fit_rows(self, rows: Rows, X_val: Any = None, y_val: Any = None) -> Self:
        """Fit the models to samples in another place, such as the workers of a cluster.

        Parameters
        ----------
        rows : Rows
            The samples; their classes are the parameter `classes`, sorted.

        X_val, y_val : array-like, default=None
            As in `fit`.

        Returns
        -------
        self : object
            Fitted estimator.

        Raises
        ------
        ValueError
            As `fit`.
        """
        self._validate_params()
        self.n_features_in_ = rows.n_columns
        vars(self).pop("feature_names_in_", None)
        self.classes_ = np.asarray(self.classes)
        return self._learn(rows, X_val, y_val)

    def _learn(self, rows, X_val, y_val):
        with Progress.of_fit(self, None) as progress, warn_once():
            part = self.__sklstruct_sub_model__(self.classes_, False)
            if X_val is not None and not part.holds_out:
                refuse_held_out(self)

            def fit(part, n, held_out, like=None):
                """The models of the first n rows. Transformers, such as word classes,
                are fitted to these rows only, so that held-out samples are as new to
                them as any other text."""
                samples = rows.learn(part, n, progress.step)
                progress.step(f"contexts of {samples.outcome.size} samples are read")
                if held_out is not None:
                    X_held, *others = held_out
                    held_out = one_group(part.read(TransformCache(X_held)), *others)
                    n_held = held_out.outcome.size
                    progress.step(f"{n_held} held-out samples are read")
                task = GroupFit(
                    samples, np.array([self.classes_.size]), held_out, like,
                    self.n_jobs, progress.step,
                )  # fmt: skip
                return part.fit(task)

            n = rows.n_samples
            if X_val is not None:
                models = fit(part, n, self._check_held_out(X_val, y_val))
            elif not part.validation_fraction:
                models = fit(part, n, None)
            else:
                remedy = "give held-out samples (X_val), constant weights"
                n_rest = n - last_share(n, part.validation_fraction, remedy=remedy)
                # Models know nothing about a class that occurs only in held-out rows.
                held_out = rows.known_after(n_rest)
                if held_out[1].size == 0:
                    raise ValueError(
                        f"X: the weights of the mixture are learned from the last "
                        f"{n - n_rest} of {n} sample(s), and none of their "
                        f"classes occurs before them; {remedy}, or more samples"
                    )
                models = fit(part, n_rest, held_out)
                if part.refit:
                    models = [without_tables(model) for model in models]
                    part = self.__sklstruct_sub_model__(self.classes_, False)
                    models = fit(part, n, None, models)
        self.distribution_, self.part_ = models[0], part
        self._fitted()
        return self

    def _check_held_out(self, X_val, y_val):
        """(contexts, ids, weights) of the held-out samples."""
        X_val = _contexts(X_val, "X_val")
        outcome = read_known(target_column(y_val, X_val.shape[0]), self.classes_)
        if outcome.size == 0:
            raise ValueError(
                "X_val is empty: there is nothing to learn the weights from"
            )
        return X_val, outcome, np.ones(outcome.size)

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
            One row per sample, for the methods of ``distribution_``.
        """
        check_is_fitted(self)
        contexts = self.part_.read(TransformCache(self._contexts(X, reset=False)))
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

        random_state : int, RandomState, Generator or None, default=None
            Source of the random numbers.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes, drawn from the exact distribution.
        """
        at = self.locate(X)
        uniform = as_random_state(random_state).random_sample(count_rows(at))
        return self.classes_[self.distribution_.draw(at, uniform)]


def _contexts(X, name="X"):
    """X as an object with a shape; ValueError unless it has two dimensions."""
    check_sparse(X)
    if isinstance(X, TextWindows):
        return X
    if sp.issparse(X):
        X = X.tocsr()  # rows of other formats cannot be selected
    elif not (isinstance(X, np.ndarray) or hasattr(X, "iloc")):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"{name}: Expected 2D array, got {len(X.shape)}D array instead; Reshape "
            "your data: a row is a context"
        )
    return X
