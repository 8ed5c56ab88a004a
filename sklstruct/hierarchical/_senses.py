"""SenseClassifier: classes that have several leaves of a tree."""

from __future__ import annotations

from numbers import Integral

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.cluster import KMeans
from sklearn.impute import SimpleImputer
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import INT32_MAX, check_sparse, check_squares
from .._compat import (
    BaseEstimator,
    HasMethods,
    Interval,
    MetaEstimatorMixin,
    _fit_context,
)
from .._likelihood import LogProbaMixin, class_codes
from .._parallel import row_blocks, rows_per_block
from ..linear._labels import read_training
from ._classifier import HierarchicalClassifier
from ._nodes import seeded, tags_of_input
from ._paths import check_takes_weights


class SenseClassifier(MetaEstimatorMixin, LogProbaMixin, BaseEstimator):
    r"""Classifier of classes that consist of several senses, such as words.

    The senses S(y) of a class y, such as the meanings of a word, are clusters of its
    samples:

    .. math::
        P(y \mid x) = \sum_{s \in S(y)} P(s \mid x),

    with :math:`P(s \mid x)` a classifier of the senses of all classes. If the
    classifier learns a taxonomy, each sense has a leaf, so a class with several senses
    has several leaves.

    The first senses are the clusters of k-means among the samples of a class. Each
    further round assigns every sample to the most probable sense of its class and fits
    the classifier again.

    Parameters
    ----------
    estimator : classifier with `predict_proba`, default=None
        Classifier of the senses; None is ``HierarchicalClassifier("cut")``. If
        `estimator` is another classifier, it gets X with NaN. For k-means, NaN is
        replaced by the mean of the column in the class.

    n_senses : int, default=2
        Senses of a class, at least 1; a sense without samples is dropped.

    min_samples : int, default=20
        A class with fewer samples than `min_samples` times `n_senses` has one sense;
        at least 1.

    n_rounds : int, default=2
        Largest number of fits, at least 1; fewer if no sample changes its sense.

    random_state : int, RandomState instance or None, default=None
        Seed of k-means, and of an `estimator` whose own `random_state` is None.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.

    sense_class_ : ndarray of shape (n_senses,)
        Index into ``classes_`` of the class of each sense, ascending.

    sense_labels_ : ndarray of shape (n_samples,)
        Sense of each training sample; -1 for samples of weight 0.

    estimator_ : classifier
        Fitted to the senses.

    n_rounds_ : int
        Fits made.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    References
    ----------
    .. [1] A. Nelakanti, "Modélisation du langage à l'aide de pénalités structurées",
       thesis, Université Pierre et Marie Curie, 2014, on chapter 4: classes at
       multiple leaves.
    .. [2] A. Mnih, G. Hinton, "A scalable hierarchical distributed language model",
       NIPS 2008.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.hierarchical import SenseClassifier
    >>> rng = np.random.default_rng(0)
    >>> place = rng.integers(4, size=400)  # of four, every other one is "bank"
    >>> X = rng.normal(size=(400, 1)) * 0.3 + 3 * place[:, None]
    >>> y = np.array(["bank", "river", "bank", "money"])[place]
    >>> model = SenseClassifier(random_state=0).fit(X, y)
    >>> model.predict([[0.0], [3.0], [6.0], [9.0]])
    array(['bank', 'river', 'bank', 'money'], dtype='<U5')
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"]), None],
        "n_senses": [Interval(Integral, 1, None, closed="left")],
        "min_samples": [Interval(Integral, 1, None, closed="left")],
        "n_rounds": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: BaseEstimator | None = None,
        *,
        n_senses: int = 2,
        min_samples: int = 20,
        n_rounds: int = 2,
        random_state: int | RandomState | None = None,
    ) -> None:
        self.estimator = estimator
        self.n_senses = n_senses
        self.min_samples = min_samples
        self.n_rounds = n_rounds
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> SenseClassifier:
        """Find the senses and fit the classifier to them.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        y : array-like of shape (n_samples,)
            Labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights, for an estimator that takes them; weight 0 is as if
            absent.

        Returns
        -------
        self : SenseClassifier

        Raises
        ------
        ValueError
            If X is not finite (NaN is for the `estimator` to refuse), a malformed
            sparse matrix or so large that squares overflow; if no weight is positive;
            if there is a `sample_weight` and the estimator does not take weights.
        """
        estimator = self._estimator()
        if sample_weight is not None:
            check_takes_weights(estimator)
        rows, target, weight, every, used, _ = read_training(
            self, X, y, sample_weight, allow_nan=self.estimator is not None
        )
        check_squares(rows)
        params = {} if sample_weight is None else {"sample_weight": weight}
        rng = check_random_state(self.random_state)
        self.classes_, code = np.unique(target, return_inverse=True)
        sense = self._clusters(rows, code, weight, rng)
        estimator = seeded(clone(estimator), rng)
        for n_rounds in range(1, self.n_rounds + 1):
            owner, sense = _numbered(code, sense)
            self.sense_class_ = owner
            self.estimator_ = clone(estimator).fit(rows, sense, **params)
            self.n_rounds_ = n_rounds
            if n_rounds == self.n_rounds or owner.size == self.classes_.size:
                break
            moved = self._assign(rows, code)
            if np.array_equal(moved, sense):
                break
            sense = moved
        self.sense_labels_ = np.full(every.size, -1)
        self.sense_labels_[used] = sense
        return self

    class_weight = None  # of `read_training`

    def _refusal_of_labels(self):
        return "y has several labels per sample, and SenseClassifier is for one"

    def _clusters(self, X, code, weight, rng):
        """Numbers of senses, of each class its own."""
        sense = np.zeros(code.size, dtype=np.int64)
        order = np.argsort(code, kind="stable")
        ends = np.cumsum(np.bincount(code))
        for lo, hi in zip(np.append(0, ends[:-1]), ends):
            if self.n_senses == 1 or hi - lo < self.n_senses * self.min_samples:
                continue
            mine = order[lo:hi]
            seed = int(rng.randint(INT32_MAX))
            # the mean of the column in place of NaN separates no samples
            distinct = SimpleImputer(keep_empty_features=True).fit_transform(X[mine])
            if sp.issparse(distinct):
                distinct = distinct.tocsr()
                # KMeans reads 32-bit indices only; SciPy narrows those that fit.
                parts = distinct.data, distinct.indices, distinct.indptr
                distinct = sp.csr_matrix(parts, shape=distinct.shape)
            elif len(np.unique(distinct, axis=0)) < 2:
                continue
            model = KMeans(self.n_senses, n_init=4, random_state=seed)
            sense[mine] = model.fit(distinct, sample_weight=weight[mine]).labels_
        return sense

    def _assign(self, X, code):
        """The most probable sense of the class of each sample."""
        best = np.empty(code.size, dtype=np.int64)
        for part, proba in self._sense_proba(X):
            mine = self.sense_class_ == code[part, None]
            best[part] = np.where(mine, proba, -1.0).argmax(axis=1)
        return best

    def _sense_proba(self, X):
        """(rows, probabilities of all senses) by blocks."""
        for part in row_blocks(X.shape[0], rows_per_block(2 * self.sense_class_.size)):
            yield part, np.asarray(self.estimator_.predict_proba(X[part]))

    def predict_proba(self, X: ArrayLike) -> NDArray:
        r""":math:`P(y \mid x)`, the sums over the senses.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        proba : ndarray of shape (n_samples, n_classes)
            Columns in the order of ``classes_``.
        """
        check_is_fitted(self, "estimator_")
        check_sparse(X)
        samples = validate_data(
            self,
            X,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=self._finite(),
            reset=False,
        )
        first = np.searchsorted(self.sense_class_, np.arange(self.classes_.size))
        out = np.empty((samples.shape[0], self.classes_.size))
        for part, proba in self._sense_proba(samples):
            out[part] = np.add.reduceat(proba, first, axis=1)
        return out

    def _label_codes(self, y, n_samples):
        return class_codes(y, self.classes_, n_samples)

    def predict(self, X: ArrayLike) -> NDArray:
        """The most probable class.

        Parameters
        ----------
        X : array-like or CSR matrix of shape (n_samples, n_features)
            Features.

        Returns
        -------
        y : ndarray of shape (n_samples,)
        """
        proba = self.predict_proba(X)
        return self.classes_[proba.argmax(axis=1)]

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        return tags_of_input(tags, self._estimator())

    def _finite(self):
        """`ensure_all_finite`: an estimator of the user says what it makes of NaN."""
        return True if self.estimator is None else "allow-nan"

    def _estimator(self):
        return (
            HierarchicalClassifier("cut") if self.estimator is None else self.estimator
        )


def _numbered(code: NDArray, sense: NDArray) -> tuple[NDArray, NDArray]:
    """(class of each sense, sense of each sample), numbered by class."""
    pairs, number = np.unique(
        np.column_stack([code, sense]), axis=0, return_inverse=True
    )
    return pairs[:, 0], number.ravel()
