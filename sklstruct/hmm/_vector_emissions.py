"""Emissions of numbers and vectors: normal and Poisson distributions."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, solve_triangular
from scipy.special import gammaln, xlogy
from sklearn.cluster import KMeans

from .._compat import Interval, StrOptions
from .._docs import shared_docs
from ._emissions import DRAWN_IDS, RowsEmission

_LARGEST = 1e150  # sums of many squares stay finite


class VectorEmission(RowsEmission):
    """Base of densities of vectors: a number is a vector of length 1."""

    n_features_in_: int

    def _fit(self, observations, label, weight, n_labels):
        x = _vectors(observations)
        self.n_features_in_ = x.shape[1]
        share = np.zeros((len(x), n_labels))
        share[np.arange(len(x)), label] = 1.0 if weight is None else weight
        total = share.sum(axis=0)
        self._ids = np.flatnonzero(total > 0).astype(np.int32)
        self._estimate(x, share[:, self._ids].T, total[self._ids, None])

    def _estimate(self, x, share, total):
        """Learn from vectors and their weights for each observed label."""
        raise NotImplementedError

    def _rows(self, observations):
        x = _vectors(observations)
        if x.shape[1] != self.n_features_in_:
            raise ValueError(
                f"X has observations of {x.shape[1]} numbers, but fit saw vectors of "
                f"{self.n_features_in_}"
            )
        return self._log_density(x)

    def _log_density(self, x):
        """(n_observations, n_observed_labels)."""
        raise NotImplementedError

    def _random_shares(self, observations, n_labels, rng):
        """Each observation with the label of its cluster, by k-means."""
        x = _vectors(observations)
        n = min(n_labels, len(np.unique(x, axis=0)))
        clusters = KMeans(n, n_init=1, random_state=rng).fit(x).labels_
        return np.eye(n_labels)[clusters]

    def _rows_of(self, ids):
        at = np.searchsorted(self._ids, ids)
        if not np.isin(ids, self._ids).all():
            unseen = int(np.setdiff1d(ids, self._ids)[0])
            raise ValueError(
                f"classes: label number {unseen} was drawn, but fit has no observation "
                "of this label; leave labels without observations out of classes"
            )
        return at


class GaussianEmission(VectorEmission):
    r"""Normal distributions: one mean and covariance for each label.

    .. math::
        \log p(o \mid y) = -\tfrac12 \left((o - \mu_y)^\top \Sigma_y^{-1} (o - \mu_y)
        + \log \det \Sigma_y + d \log 2\pi\right), \qquad
        \Sigma_y = \frac{a I + \sum_i w_{iy} (o_i - \mu_y)(o_i - \mu_y)^\top}
        {\sum_i w_{iy}}

    An observation is a vector of d numbers, or one number. Every label that occurs in
    `fit` has a density.

    Parameters
    ----------
    covariance : {"diagonal", "full"}, default="diagonal"
        Form of :math:`\Sigma_y`.

    prior : float, default=0.01
        a, at least 0, in the squared unit of the observations. It is added to the sum
        of squares, so that a label with few observations has a density.

    Attributes
    ----------
    means_ : ndarray of shape (n_observed_labels, n_features)
        :math:`\mu_y` of the observed labels.

    covariances_ : ndarray of shape (n_observed_labels, n_features[, n_features])
        Variances, or matrices if `covariance` is "full".

    n_features_in_ : int
        d.

    See Also
    --------
    PoissonEmission : For counts.
    ClassifierEmission : Factors from the probabilities of a classifier.

    References
    ----------
    .. [1] L. Rabiner, "A tutorial on hidden Markov models and selected applications
       in speech recognition", Proc. IEEE 77(2), 1989, section IV.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.hmm import GaussianEmission, HighOrderHMM
    >>> X = [[0.1, -0.2, 5.1, 4.9], [5.0, 0.2, 0.0]]
    >>> y = [[0, 0, 1, 1], [1, 0, 0]]
    >>> model = HighOrderHMM(2, emission=GaussianEmission()).fit(X, y)
    >>> model.emission_.means_.ravel().round(3).tolist()
    [0.025, 5.0]
    >>> model.predict([[0.3, 4.7]])
    [[0, 1]]
    """

    _parameter_constraints: dict = {
        "covariance": [StrOptions({"diagonal", "full"})],
        "prior": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(self, covariance: str = "diagonal", *, prior: float = 0.01):
        self.covariance = covariance
        self.prior = prior

    def _estimate(self, x, share, total):
        self.means_ = share @ x / total
        d = x.shape[1]
        full = self.covariance == "full"
        shape = (len(total), d, d) if full else (len(total), d)
        self.covariances_ = np.empty(shape)
        for k, (mean, w) in enumerate(zip(self.means_, share)):
            off = x - mean
            squares = (off.T * w) @ off if full else w @ off**2
            prior = self.prior * np.eye(d) if full else self.prior
            self.covariances_[k] = (prior + squares) / total[k]
        self._factors()

    def _factors(self):
        """Cholesky factors of the covariances; standard deviations if diagonal."""
        if self.covariance != "full":
            roots = np.sqrt(self.covariances_)
            singular = ~(roots > 0).all(axis=1)
        else:
            roots = np.zeros_like(self.covariances_)
            singular = np.zeros(len(roots), dtype=bool)
            for k, matrix in enumerate(self.covariances_):
                try:
                    roots[k] = np.tril(cho_factor(matrix, lower=True)[0])
                except np.linalg.LinAlgError:
                    singular[k] = True
        if singular.any():
            raise ValueError(
                f"emission: the covariance of label {self._ids[singular.argmax()]} is "
                f"singular with prior={self.prior}; raise prior"
            )
        return roots

    def _log_density(self, x):
        out = np.empty((len(x), len(self._ids)))
        for k, (mean, root) in enumerate(zip(self.means_, self._factors())):
            off = x - mean
            if root.ndim == 1:
                scaled, diagonal = off / root, root
            else:
                scaled = solve_triangular(root, off.T, lower=True).T
                diagonal = np.diagonal(root)
            out[:, k] = -0.5 * (scaled**2).sum(axis=1) - np.log(diagonal).sum()
        return out - 0.5 * x.shape[1] * np.log(2.0 * np.pi)

    def log_prior(self) -> float:
        r"""Logarithm of the prior of the covariances, up to a constant.

        Returns
        -------
        log_prior : float
            :math:`-\tfrac a2 \sum_y \operatorname{tr} \Sigma_y^{-1}`, such that
            :math:`\Sigma_y` maximises it plus the log-likelihood; 0 if `prior` is 0.
        """
        if not self.prior:
            return 0.0
        if self.covariance == "full":
            inverse = np.linalg.inv(self.covariances_)
            return -0.5 * self.prior * float(np.trace(inverse, axis1=1, axis2=2).sum())
        return -0.5 * self.prior * float((1.0 / self.covariances_).sum())

    def n_parameters(self) -> int:
        """Number of free parameters.

        Returns
        -------
        n : int
            Means and distinct entries of the covariances.
        """
        k, d = self.means_.shape
        return k * (d + (d * (d + 1) // 2 if self.covariance == "full" else d))

    @shared_docs(ids=DRAWN_IDS)
    def sample(self, ids: Any, random_state: np.random.RandomState) -> list:
        """Draw an observation for each label.

        Parameters
        ----------
        {ids}

        Returns
        -------
        observations : list of ndarray of shape (n_features,)
            The vectors.
        """
        at = self._rows_of(ids)
        noise = random_state.standard_normal((len(at), self.n_features_in_))
        roots = self._factors()[at]
        if self.covariance == "full":
            return [*(self.means_[at] + np.einsum("nij,nj->ni", roots, noise))]
        return [*(self.means_[at] + roots * noise)]


class PoissonEmission(VectorEmission):
    r"""Poisson distributions: one rate for each label and each entry of a vector.

    .. math::
        \log p(o \mid y) = \sum_j o_j \log \lambda_{yj} - \lambda_{yj} - \log o_j!,
        \qquad
        \lambda_{yj} = \frac{a + \sum_i w_{iy} o_{ij}}{a + \sum_i w_{iy}}

    An observation is a vector of counts, or one count.

    Parameters
    ----------
    prior : float, default=0.01
        a, at least 0: each label gets an additional observation of weight a, in which
        every count is 1. With 0, a label that was seen only with counts of 0 excludes
        positive counts.

    Attributes
    ----------
    rates_ : ndarray of shape (n_observed_labels, n_features)
        :math:`\lambda_y` of the observed labels.

    n_features_in_ : int
        Number of counts in an observation.

    See Also
    --------
    GaussianEmission : For real numbers.
    CategoricalEmission : For symbols.

    Examples
    --------
    >>> from sklstruct.hmm import HighOrderHMM, PoissonEmission
    >>> X, y = [[0, 1, 9, 12], [10, 0, 2]], [["low", "low", "high", "high"],
    ...                                      ["high", "low", "low"]]
    >>> model = HighOrderHMM(2, emission=PoissonEmission()).fit(X, y)
    >>> model.emission_.rates_.ravel().round(2).tolist()
    [10.3, 0.75]
    >>> model.predict([[1, 8]])
    [['low', 'high']]
    """

    _parameter_constraints: dict = {"prior": [Interval(Real, 0, None, closed="left")]}

    def __init__(self, prior: float = 0.01):
        self.prior = prior

    def _estimate(self, x, share, total):
        _check_counts(x)
        self.rates_ = (self.prior + share @ x) / (self.prior + total)

    def _log_density(self, x):
        _check_counts(x)
        # xlogy: a count of 0 has probability 1 if the rate is 0.
        each = xlogy(x[:, None, :], self.rates_).sum(axis=2)
        return each - self.rates_.sum(axis=1) - gammaln(x + 1.0).sum(axis=1)[:, None]

    def log_prior(self) -> float:
        r"""Logarithm of the prior of the rates, up to a constant.

        Returns
        -------
        log_prior : float
            :math:`a \sum_{y,j} (\log \lambda_{yj} - \lambda_{yj})`; 0 if `prior` is 0.
        """
        if not self.prior:
            return 0.0
        return self.prior * float((np.log(self.rates_) - self.rates_).sum())

    def n_parameters(self) -> int:
        """Number of free parameters.

        Returns
        -------
        n : int
            The number of rates.
        """
        return self.rates_.size

    @shared_docs(ids=DRAWN_IDS)
    def sample(self, ids: Any, random_state: np.random.RandomState) -> list:
        """Draw an observation for each label.

        Parameters
        ----------
        {ids}

        Returns
        -------
        observations : list of int ndarray of shape (n_features,)
            The counts.
        """
        return [*random_state.poisson(self.rates_[self._rows_of(ids)])]


def _vectors(observations: list) -> NDArray:
    """Observations as the rows of a matrix of finite numbers."""
    try:
        x = np.asarray(observations, dtype=np.float64)
    except (TypeError, ValueError, OverflowError) as exc:
        raise ValueError(
            "X: observations must be numbers, or vectors of equal lengths; got "
            f"{observations[0]!r:.60}"
        ) from exc
    x = x.reshape(len(x), 1) if x.ndim == 1 else x
    if x.ndim != 2 or not x.shape[1]:
        raise ValueError(
            f"X: observations must be numbers or vectors, got {observations[0]!r:.60}"
        )
    wrong = np.flatnonzero(~np.isfinite(x).all(axis=1))
    if wrong.size:
        raise ValueError(
            f"X holds {observations[wrong[0]]!r:.60}, which is not finite; None is a "
            "missing observation"
        )
    if np.abs(x).max(initial=0.0) > _LARGEST:
        raise ValueError(
            f"X holds a number above {_LARGEST:g}, whose square overflows; scale X"
        )
    return x


def _check_counts(x: NDArray) -> None:
    wrong = np.flatnonzero(((x < 0) | (x != np.floor(x))).any(axis=1))
    if wrong.size:
        raise ValueError(
            f"X must hold counts of at least 0, got {x[wrong[0]].tolist()}"
        )
