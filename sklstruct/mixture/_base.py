"""ModelClassifier: what every classifier made of fitted distributions shares."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data

from .._checks import (
    as_floats,
    as_ids,
    check_ids,
    check_length,
    check_rows,
    check_sparse,
    check_top_k,
)
from .._compat import (
    BaseEstimator,
    CallbackSupportMixin,
    ClassifierMixin,
    _check_sample_weight,
    _fit_context,
    with_callbacks,
)
from .._parallel import row_blocks, rows_per_block
from .._progress import Progress
from ..backoff._targets import read_targets, require_targets, target_column
from ..symbols import Labels
from ..symbols._encoding import encode
from ._models import count_rows, more_uniform, take
from ._parts import Part, Reading, Samples

# Rounds in which numbers that fell on the skipped class are drawn again, before whole
# rows are made.
_REDRAWS = 32


class ModelClassifier(
    CallbackSupportMixin, ClassifierMixin, BaseEstimator, metaclass=ABCMeta
):
    """Base of the classifiers whose fitted distribution is a composed `Model`.

    Subclasses have the parameters `classes` and `verbose`, and define
    ``__sklstruct_part__`` and `_make_part`.

    Attributes
    ----------
    part_, model_ : object
        What reads contexts, and the distribution.
    """

    @abstractmethod
    def __sklstruct_part__(self, classes: np.ndarray, facts: bool) -> Part:
        """The part that this estimator, not fitted, is."""

    def _fitted(self):
        """Set attributes that tell of `model_`, at the end of a fit."""

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
            Held-out samples, which the weights of mixtures are learnt from. None: the
            mixtures hold out the last of X, see their `validation_fraction`.

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
        weight = np.ones(y.size)
        if sample_weight is not None:
            weight = _check_sample_weight(
                sample_weight, y, dtype=np.float64, ensure_non_negative=True
            )
            keep = np.flatnonzero(weight > 0)
            if keep.size == 0:
                raise ValueError(
                    "sample_weight is zero for every sample: there is nothing to "
                    "learn from"
                )
            if keep.size < y.size:
                X, y, weight = take(X, keep), y[keep], weight[keep]
        target, self.classes_ = read_targets(y, self.classes)
        n_classes = self.classes_.size
        with Progress.of_fit(self, None) as progress:
            part = self.__sklstruct_part__(self.classes_, False)
            if X_val is not None and not part.holds_out:
                raise ValueError(
                    f"X_val: this {type(self).__name__} learns no weights from "
                    "held-out samples; leave it out"
                )
            contexts = part.learn(Reading(X, y))
            progress.step(f"contexts of {y.size} samples are read")
            groups = np.zeros(target.size, dtype=np.int32)
            samples = Samples(contexts, groups, target, weight)
            held_out = None
            if X_val is not None:
                held_out = self._read_held_out(part, X_val, y_val)
                progress.step(f"{held_out.outcome.size} held-out samples are read")
            sizes = np.array([n_classes])
            part.report = progress.step
            self.model_ = part.fit(samples, sizes, held_out)[0]
            del part.report  # not to be pickled with the part
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

    def __sklstruct_ids__(self, labels: Labels) -> dict[str, Any]:
        """Parameters with which the estimator learns from class ids."""
        if self.classes is not None:
            raise ValueError(
                f"classes of {type(self).__name__} must be None inside a "
                "LanguageModel, which numbers its symbols itself; set vocabulary of "
                "the LanguageModel"
            )
        return {"classes": np.arange(labels.n_classes, dtype=np.int32)}

    # ----------------------------------------------------------- prediction

    def _blocks(self, X):
        """(rows, what the model looks up there), a bounded number at a time."""
        check_is_fitted(self)
        X = self._contexts(X, reset=False)
        contexts = self.part_.read(Reading(X))
        for rows in row_blocks(
            count_rows(contexts), rows_per_block(self.classes_.size)
        ):
            yield rows, self.model_.locate(take(contexts, rows))

    def _contexts(self, X, *, reset):
        """X with rows and columns; sets or checks their number and names."""
        X = _contexts(X)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return X

    def predict_log_proba(self, X: Any) -> np.ndarray:
        r"""Natural logarithm of :math:`P(y \mid x)` for every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        Returns
        -------
        log_proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``. For many classes prefer
            `target_log_proba`, which never makes this matrix.
        """
        check_is_fitted(self)
        n_samples = _contexts(X).shape[0]
        check_rows(n_samples, self.classes_.size)
        out = np.empty((n_samples, self.classes_.size))
        for rows, at in self._blocks(X):
            found = self.model_.rows(at)
            if len(found) == n_samples:
                return found
            out[rows] = found
        return out

    def predict_proba(self, X: Any) -> np.ndarray:
        r""":math:`P(y \mid x)` for every class.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Rows sum to 1, for seen and unseen contexts.
        """
        log_proba = self.predict_log_proba(X)
        return np.exp(log_proba, out=log_proba)

    def predict(self, X: Any) -> np.ndarray:
        """The most probable class after each context.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            The first of ``classes_`` among equally probable ones.
        """
        return self.top_k(X, 1)[0][:, 0]

    def top_k(self, X: Any, k: int = 10) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable classes after each context.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        k : int, default=10
            1 ... n_classes.

        Returns
        -------
        classes : ndarray of shape (n_samples, k)
            Most probable first, equal ones in the order of ``classes_``.

        log_proba : ndarray of shape (n_samples, k)
            Natural logarithms of their probabilities.
        """
        check_is_fitted(self)
        k = check_top_k(k, self.classes_.size)
        found = [self.model_.best(at, k) for _, at in self._blocks(X)]
        if not found:
            return self.classes_[:0].reshape(0, 1).repeat(k, 1), np.empty((0, k))
        best, log_proba = (np.concatenate(part) for part in zip(*found))
        return self.classes_[best], log_proba

    def target_log_proba(self, X: Any, y: ArrayLike) -> np.ndarray:
        r"""Natural logarithm of :math:`P(y_i \mid x_i)` for given targets.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        y : array-like of shape (n_samples,)
            Targets.

        Returns
        -------
        log_proba : ndarray of shape (n_samples,)
            NaN where y is not in ``classes_``.
        """
        at, target, known = self._known(X, y)
        out = np.full(target.size, np.nan)
        out[known] = self.model_.target(at, target[known])
        return out

    def _known(self, X, y):
        """(what the model looks up, class ids, rows) of the known targets."""
        check_is_fitted(self)
        X = self._contexts(X, reset=False)
        target = encode(column_or_1d(y), self.classes_)
        if target.size != X.shape[0]:
            raise ValueError(
                f"X and y have inconsistent numbers of samples: {X.shape[0]} and "
                f"{target.size}"
            )
        known = np.flatnonzero(target >= 0)
        contexts = self.part_.read(Reading(X))
        if known.size < target.size:
            contexts = take(contexts, known)
        return self.model_.locate(contexts), target, known

    def group_log_proba(
        self, X: Any, group: np.ndarray, wanted: np.ndarray
    ) -> np.ndarray:
        r"""Natural logarithm of the sum of :math:`P(y \mid x_i)` over a group.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        group : int ndarray of shape (n_classes,)
            The group of each of ``classes_``, from 0.

        wanted : int ndarray of shape (n_samples,)
            A group for each context.

        Returns
        -------
        log_proba : ndarray of shape (n_samples,)

        Raises
        ------
        ValueError
            If lengths or groups do not fit.
        """
        check_is_fitted(self)
        group = as_ids("group", group, 1)
        check_length("group", group, self.classes_.size, "one per class")
        check_ids("group", group, 0, group.size, "group")
        X = self._contexts(X, reset=False)
        wanted = as_ids("wanted", wanted, 1)
        check_length("wanted", wanted, X.shape[0], "one per row of X")
        check_ids("wanted", wanted, 0, int(group.max()) + 1, "group")
        contexts = self.part_.read(Reading(X))
        return self.model_.group_target(self.model_.locate(contexts), group, wanted)

    def sample(self, X: Any, random_state: Any = None) -> np.ndarray:
        """Draw one class after each context.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        random_state : int, RandomState instance or None, default=None
            Where the random numbers come from.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes, drawn from the exact distribution.
        """
        rng = check_random_state(random_state)
        return self.sample_at(X, rng.random_sample(_contexts(X).shape[0]))

    def sample_at(self, X: Any, uniform: np.ndarray, skip: int = -1) -> np.ndarray:
        """The class that a number in [0, 1) leads to, after each context.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Contexts.

        uniform : float64 ndarray of shape (n_samples,)
            Numbers in [0, 1).

        skip : int, default=-1
            Position in ``classes_`` of a class that is never drawn: the others in
            proportion. -1: none.

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Classes.

        Raises
        ------
        ValueError
            If there is not a number in [0, 1) for each row of X, or nothing but the
            skipped class has a probability.
        """
        uniform = as_floats("uniform", uniform)
        check_length("uniform", uniform, _contexts(X).shape[0], "one per row of X")
        if uniform.size and not 0 <= uniform.min() <= uniform.max() < 1:
            raise ValueError("uniform must hold numbers of at least 0 and below 1")
        out = np.empty(len(uniform), dtype=np.int64)
        for rows, at in self._blocks(X):
            out[rows] = self._draw(at, uniform[rows], skip)
        return self.classes_[out]

    def _draw(self, at, uniform, skip):
        drawn = self.model_.draw(at, uniform)
        again = np.flatnonzero(drawn == skip)
        for step in range(_REDRAWS):
            if again.size == 0:
                return drawn
            # Steps far from those that the models use themselves.
            uniform = more_uniform(uniform, 1000 + step)
            drawn[again] = self.model_.draw(take(at, again), uniform[again])
            again = again[drawn[again] == skip]
        if again.size:
            proba = np.exp(self.model_.rows(take(at, again)))
            proba[:, skip] = 0.0
            total = np.cumsum(proba, axis=1)
            if not (total[:, -1] > 0).all():
                raise ValueError(
                    f"X: nothing but the class {self.classes_.tolist()[skip]!r}, which "
                    "is to be skipped, has a probability after some context"
                )
            found = (total <= (uniform[again] * total[:, -1])[:, None]).sum(axis=1)
            drawn[again] = np.minimum(found, proba.shape[1] - 1)
        return drawn


def _contexts(X, name="X"):
    """X with a shape, of two dimensions."""
    check_sparse(X)
    if not (isinstance(X, np.ndarray) or sp.issparse(X) or hasattr(X, "iloc")):
        X = np.asarray(X)
    if len(X.shape) != 2:
        raise ValueError(
            f"{name}: Expected 2D array, got {len(X.shape)}D array instead; Reshape "
            "your data: a row of it is a context"
        )
    return X
