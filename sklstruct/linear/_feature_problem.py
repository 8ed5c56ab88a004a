"""The loss of a linear model on dense or sparse samples: values, duals, intercepts.

Lanes are the rows of weights: the classes of the multinomial loss, the labels of binary
losses that share X, or one lane for two classes. Arrays of samples are (lanes,
samples), so that the numbers of a lane are contiguous.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.special import entr

from .._penalties import Penalty, Separable
from . import _newton_cd_fast as kernels
from ._feature_bounds import SeparableTerm
from ._samples import Samples, is_sparse

# Largest absolute intercept. If a lane has the same outcome in all samples, the best
# intercept is infinite; with this one the probability is 1 in double precision.
_CERTAIN = 40.0

# Newton's method for the intercepts: largest number of steps, largest size of a step,
# and largest gradient at the end, as a fraction of the total weight.
_STEPS, _STRIDE, _LEFT = 50, 5.0, 1e-11


class Optimum(NamedTuple):
    """A solution: weights (columns, lanes) of some columns; other weights are zero."""

    columns: NDArray
    W: NDArray
    b: NDArray
    objective: NDArray  # after each round
    gap: float
    n_alive: int
    converged: bool


Report = Callable[[float, float, int], bool]
"""Called with (objective, gap, number of rounds) after each round; True: stop."""


class PathSolver(ABC):
    """Solutions of a problem for falling strengths, each begun at the previous one."""

    def __init__(self, problem: FeatureProblem) -> None:
        self.problem, self.b = problem, problem.best_constants()
        self.Z = np.repeat(self.b[:, None], problem.n_samples, axis=1)
        self.P = np.empty_like(self.Z)
        self.loss = problem.loss(self.Z, self.P)
        every = np.arange(problem.n_features, dtype=np.int32)
        # the gradient at zero weights, which the first round needs again
        self.G: NDArray | None = problem.gradient(every, self.P)

    def largest_lam(self, penalty: Any) -> float:
        """The least strength of a penalty at which all weights are 0."""
        assert self.G is not None
        return float(penalty.largest_pull(self.G))

    def gradient(self, columns: NDArray) -> NDArray:
        """The derivatives of the loss by the weights of columns at P."""
        G, self.G = self.G, None
        return self.problem.gradient(columns, self.P) if G is None else G

    @abstractmethod
    def solve(
        self, penalty: Any, goal: float, max_iter: int, report: Report
    ) -> Optimum:
        """Rounds until the gap is at most `goal`."""


class FeatureProblem:
    r"""Samples, outcomes and weights of

    .. math::
        f(W, b) = \sum_i s_i\, \ell(W x_i + b, y_i).

    X: checked, in double precision. Y: the outcomes, (n_lanes, n_samples).
    coupled: whether the lanes are the classes of one multinomial loss; else each lane
    has a binary loss.
    weight: positive weights s.
    fit_intercept: whether there is b.
    stop: the flag of `stop_flag`.
    """

    def __init__(
        self,
        X: Samples,
        Y: NDArray,
        coupled: bool,
        weight: NDArray,
        fit_intercept: bool,
        stop: NDArray,
    ) -> None:
        self.n_samples, self.n_features = X.shape
        self.n_lanes = Y.shape[0]
        self.Y, self.coupled, self.fit_intercept = Y, coupled, fit_intercept
        self.weight, self.total, self.stop = weight, float(weight.sum()), stop
        self.code = Y.argmax(axis=0) if coupled else None
        self.X = X
        self.dense: NDArray | None = None
        self.shift = np.zeros(self.n_features)
        if not is_sparse(X):
            self.X = self.dense = self._shifted(np.asfortranarray(X))
        else:
            if not (X.has_canonical_format or self._by_columns.has_canonical_format):
                self.X = X = X.copy()  # the sum of duplicates changes the matrix
                X.sum_duplicates()
                del self._by_columns
            parts = X.data**2, X.indices, X.indptr  # `power` would sort the user's X
            self.squares = sp.csr_matrix(parts, X.shape).T @ weight
        # Columns of zeros do not count: shifted constant columns of dense X are zero.
        n_dense = self.n_samples * np.count_nonzero(self.squares)
        self.n_entries = X.nnz if is_sparse(X) else n_dense
        # Sums of the outcomes. At an optimum the sums of the probabilities equal these.
        self.outcomes = Y @ weight

    def _shifted(self, X: NDArray) -> NDArray:
        """X without the means of columns far from 0; sets `shift` and `squares`.

        Columns far from 0 are nearly collinear with the intercepts, so that coordinate
        descent hardly moves. The intercepts absorb the means.
        """
        weight, squares = self.weight, "ij,ij,i->j"
        self.squares = np.einsum(squares, X, X, weight)
        if not self.fit_intercept:
            return X
        mean = weight @ X / self.total
        far = mean * mean * self.total > 0.99 * self.squares  # 10 standard deviations
        if far.any():
            # Means of the differences from the first sample: constant columns become
            # exactly 0, not the rounding errors of their means.
            first = X[0, far]
            self.shift[far] = first + weight @ (X[:, far] - first) / self.total
            X = X - self.shift
            self.squares = np.einsum(squares, X, X, weight)
        return X

    @cached_property
    def _by_columns(self) -> sp.csc_matrix:
        return sp.csc_matrix(self.X)

    @cached_property
    def columns(self) -> tuple[NDArray, NDArray, NDArray]:
        """X by columns: where each begins, rows and values of its entries."""
        X = self._by_columns
        row = X.indices.astype(np.int32, copy=False)
        return X.indptr.astype(np.int64), row, X.data

    def part(self, columns: NDArray) -> sp.csc_matrix:
        """Some columns of X."""
        return self._by_columns[:, columns]

    def bound(self, penalty: Penalty) -> SeparableTerm:
        """The term of a penalty of `sklstruct.loglinear`; see `Penalty.bind`."""
        kind = type(penalty).__name__
        if not isinstance(penalty, Separable):
            raise ValueError(
                f"penalty: {kind} is for context trees of language models; for "
                "features that extend each other use TreeNorm(parents)"
            )
        l1, l2 = penalty.ratios()
        by_depth = np.ndim(l2) or np.ndim(penalty.depth_weight)
        if penalty.count_weights() is not None or by_depth:
            raise ValueError(
                f"penalty: {kind} has factors for counts or depths of contexts, which "
                "features do not have; use numbers"
            )
        return SeparableTerm(l1, float(np.asarray(l2)))

    def loss(self, Z: NDArray, out: NDArray | None = None) -> float:
        """Total loss in nats at the scores Z; out is filled with the probabilities."""
        if not self.coupled:
            e = np.exp(-np.abs(Z))
            wrong = np.maximum(np.where(self.Y, -Z, Z), 0)
            if out is not None:
                np.divide(np.where(Z < 0, e, 1), 1 + e, out=out)
            return float(self.weight @ (wrong + np.log1p(e)).sum(axis=0))
        top = Z.max(axis=0)
        out = np.subtract(Z, top, out=out)
        right = out[self.code, np.arange(self.n_samples)]
        np.exp(out, out=out)
        total = out.sum(axis=0)
        out /= total
        return float(self.weight @ (np.log(total) - right))

    def curvature(self, P: NDArray) -> NDArray:
        """V of the kernels: s p for coupled lanes, else s p (1 - p)."""
        V = P * self.weight
        if not self.coupled:
            V *= 1 - P
        return V

    def derivatives(self, P: NDArray) -> NDArray:
        """Derivatives by the scores, (lanes, samples)."""
        R = P - self.Y
        R *= self.weight
        return R

    def gradient(self, columns: NDArray, P: NDArray) -> NDArray:
        """Derivatives by the weights of some columns, (columns, lanes)."""
        R = self.derivatives(P)
        if self.dense is not None:
            if columns.size < self.n_features:
                return np.ascontiguousarray((R @ self.dense[:, columns]).T)
            return np.ascontiguousarray((R @ self.dense).T[columns])
        if self.n_lanes == 1 and self._are_most(columns):
            # A pass over the rows is faster, and for all columns does not need X by
            # columns (`self.columns`).
            return (self.X.T @ R[0]).take(columns)[:, None]
        R = np.ascontiguousarray(R.T)
        G = np.empty((columns.size, self.n_lanes))
        kernels.gradient(*self.columns, columns, R, G, self.stop)
        return G

    def _are_most(self, columns):
        """Whether `columns` have at least half of the entries of sparse X."""
        if columns.size == self.n_features:
            return True
        ptr = self.columns[0]
        return 2 * (ptr[columns + 1] - ptr[columns]).sum() >= self.n_entries

    def dual(self, P: NDArray, share: NDArray) -> float:
        r"""The dual objective without the conjugate of the penalty.

        At the dual point theta = a s (y - p) it is

        .. math:: \sum_i s_i H((1 - a) y_i + a p_i)

        with H the entropy of the classes, or the sum of the entropies of the labels.
        share: a, one number or one per lane.
        """
        Q = P - self.Y
        Q *= np.reshape(share, (-1, 1))
        Q += self.Y
        entropy = entr(np.maximum(Q, 0)).sum(axis=0)
        if not self.coupled:
            entropy += entr(np.maximum(1 - Q, 0)).sum(axis=0)
        return float(self.weight @ entropy)

    def best_constants(self) -> NDArray:
        """The intercepts of a model without features."""
        if not self.fit_intercept:
            return np.zeros(self.n_lanes)
        if self.coupled:
            b = np.log(self.outcomes / self.total)
            return b - b.mean()
        with np.errstate(divide="ignore"):
            odds = np.log(self.outcomes) - np.log(~self.Y @ self.weight)
        return np.clip(odds, -_CERTAIN, _CERTAIN)

    def intercepts(self, b: NDArray, columns: NDArray, W: NDArray) -> NDArray:
        """The intercepts for the X of the user, centred over coupled lanes.

        b: the intercepts for the shifted X. A common shift of all classes is arbitrary.
        """
        b = b - self.shift[columns] @ W
        return b - b.mean() if self.coupled else b

    def fit_intercepts(self, b: NDArray, Z: NDArray, P: NDArray, loss: float) -> float:
        """Optimise the intercepts at fixed weights; returns the loss.

        P, loss: probabilities and loss at Z. b, Z and P are changed in place. Then the
        residuals of each lane sum to zero, as the residuals of a dual point must.
        """
        if not self.fit_intercept:
            return loss
        for _ in range(_STEPS):
            g = P @ self.weight - self.outcomes
            if np.abs(g).max() <= _LEFT * self.total:
                break
            move = -self.intercept_inverse(P, 0.0) @ g
            move *= min(1.0, _STRIDE / max(np.abs(move).max(), _STRIDE))
            step, start = 1.0, Z.copy()
            while True:
                np.add(start, step * move[:, None], out=Z)
                new = self.loss(Z, P)
                if new <= loss + 1e-14 * abs(loss) or step < 1e-8:
                    break
                step *= 0.5
            b += step * move
            loss = new
        return loss

    def intercept_inverse(self, P: NDArray, damping: float) -> NDArray:
        """Pseudo-inverse of the Hessian of the intercepts plus damping."""
        if self.coupled:
            H = -(P * self.weight) @ P.T
            H[np.diag_indices_from(H)] += P @ self.weight + damping
            return np.linalg.pinv(H, rcond=1e-12, hermitian=True)
        return np.diag(1 / (self.curvature(P).sum(axis=1) + damping + 1e-300))
