"""Proximal Newton steps on a working set, until the duality gap is small.

A round computes the intercepts, the gradient and the duality gap; proves columns zero;
and takes Newton steps on a working set: the weights that are not zero and the weights
that violate their optimality conditions most. A step minimises a quadratic model with
the exact Hessian (`_newton_cd_fast`) by coordinate descent, and a line search follows.

The purpose of the parts:

Levenberg damping
    Adds mu/2 (mu/4 for binary losses) sum_i s_i x_ij^2 to the curvature of a weight;
    mu falls after a step whose decrease the model predicts well, and rises after other
    steps. If the probabilities of most samples are 0 or 1 the model is flat: without
    damping its minimiser is far away, and the line search makes no progress.
The best common shift of the classes of a feature
    A shift does not change the multinomial loss, so the model is flat along the shift
    and coordinate descent is slow. The shift of least penalty has a formula. (All
    scores of a sample then change by one number, which changes no probability.)
One-hot groups and the intercepts
    One number added to all columns of such a group and subtracted from the intercept
    changes no score: descent on blocks is slow along this direction, and the best
    number has a formula.
Intercepts as one block
    They are in every sample and their Hessian has a null direction, the common shift
    of all lanes. One K x K solve replaces many sweeps.
Anderson extrapolation
    A combination of the last iterates of coordinate descent, accepted if the model has
    a smaller value there. It helps most with the Gram matrix and with groups, whose
    steps need many sweeps.
The Gram matrix
    For dense X and a small working set, a sweep over m coordinates with the Hessian as
    a matrix costs m^2, instead of m times the number of samples.
Screening
    The dual objective is strongly concave: the entropy of a distribution is 1-strongly
    concave in the l1 norm (Pinsker's inequality), so the squared l1 distances of the
    probabilities of a dual point to those of the optimum sum to at most 2 gap, with
    weights s. The probability of a class changes by at most half of the distance, and
    the same holds for yes/no answers: |x_j'(theta - theta*)_k| <= ||x_j||_s
    sqrt(gap / 2). For all lanes of a feature together the bound is ||x_j||_s sqrt(gap),
    as the squared Euclidean length of a vector that sums to 0 is at most half of its
    squared l1 length. A column whose distance from the boundary of the dual ball is
    larger than the bound is zero at the optimum.
"""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.linalg.blas import dsyrk, ssyrk

from .._parallel import row_blocks, rows_per_block
from . import _newton_cd_fast as kernels
from ._feature_bounds import GroupTerm
from ._feature_problem import FeatureProblem, Optimum, PathSolver, Report

# Largest number of Newton steps on a working set, of sweeps per step, and of sweeps per
# step on the Gram matrix.
_NEWTON, _SWEEPS, _GRAM_SWEEPS = 30, 200, 2000

# A working set is solved until violations are this fraction of the largest violation
# before; a step ends after a sweep whose decrease is this fraction of the decrease by
# the first sweep (second number: on the Gram matrix).
_SHARE, _INNER, _GRAM_INNER = 0.15, 0.1, 1e-3

# Number of multiplications of the sweeps on a working set, in units of those of a
# gradient, after which the next round begins.
_BUDGET = 10

# Largest working set whose Hessian is made, and rows of X per product. X is tall if it
# has more than _ENOUGH samples per coordinate; the Hessian then uses this number of
# samples while steps lower the objective by a fraction of more than _FAR.
_GRAM, _BLOCK_ROWS, _ENOUGH, _FAR = 2500, 1024, 3, 1e-2

# Iterates that an extrapolation combines, and the largest sum of its coefficients.
_MEMORY, _LARGEST = 6, 1e4

# Number of rounds without a smaller objective or gap after which the solver stops:
# rounding errors prevent progress.
_IDLE = 3

# Largest group whose matrix of products is decomposed, and the density of its columns
# above which the BLAS takes less time than sparse products.
_LARGEST_BLOCK, _DENSE = 500, 0.1

# The damping mu: initial and smallest value, and the factor of its changes.
_DAMPING, _LEAST, _FACTOR = 1e-3, 1e-10, 5.0


class QuadraticModel:
    """The quadratic model of a Newton step on a working set, and its iterate.

    columns, w: the columns of the working set and their weights (columns, lanes). u:
    the weights so far. db: the change of the intercepts so far.
    """

    def __init__(self, solver: NewtonSolver, penalty: Any) -> None:
        problem = solver.problem
        self.problem, self.penalty, self.stop = problem, penalty, problem.stop
        self.columns, self.w, self.P = solver.columns, solver.W, solver.P
        self.V = problem.curvature(self.P)
        unit = 0.5 if problem.coupled else 0.25
        self.damping = solver.mu * unit * problem.squares[self.columns]
        self.of_b = 0.1 * solver.mu * unit * problem.total
        self.gb = self.P @ problem.weight - problem.outcomes
        if not problem.fit_intercept:
            self.gb = np.zeros(problem.n_lanes)
        self.db = np.zeros(problem.n_lanes)
        self.u = self.w.copy()
        self.n_lanes_at, self.rough = solver.work.sum(axis=1), solver.rough
        self.sweeps, self.inner = _SWEEPS, _INNER

    def begin(self) -> None:
        """Prepare the sweeps; not called if the violation is already small."""
        problem = self.problem
        self.inverse = problem.intercept_inverse(self.P, self.of_b)
        self.D = np.zeros_like(self.P, order="K")
        self.Q = np.zeros(problem.n_samples)

    def sweep(self, full: bool) -> float:
        """A pass over the coordinates (all, or the active) and the intercepts.

        Returns the sum of curvature times squared change.
        """
        raise NotImplementedError

    def _sweep_intercepts(self) -> float:
        """Minimise the model over all intercepts; returns as `sweep`."""
        if not self.problem.fit_intercept:
            return 0.0
        t = self.gb + np.einsum("kn,kn->k", self.V, self.D) + self.of_b * self.db
        if self.problem.coupled:
            t -= self.V @ self.Q
        e = -self.inverse @ t
        self.db += e
        self.D += e[:, None]
        if self.problem.coupled:
            self.Q += e @ self.P
        return float(-e @ t)

    def cost(self) -> float:
        """Approximate number of multiplications of a sweep."""
        ptr = self.problem.columns[0]
        entries = (ptr[self.columns + 1] - ptr[self.columns]) @ self.n_lanes_at
        return float(2 * entries + 4 * self.P.size)

    def value(self) -> float:
        """The value of the model at u, up to a constant."""
        change, db, _, curvature = self.moves()
        damped = self.damping @ (change**2).sum(axis=1) + self.of_b * db @ db
        return float(
            self.slope(change)
            + 0.5 * (curvature + damped)
            + self.penalty.value(self.columns, self.u)
        )

    def slope(self, change: NDArray) -> float:
        """The derivative of the loss along the move to u."""
        raise NotImplementedError

    def vector(self) -> NDArray:
        """The variables that a sweep changes, in one vector."""
        raise NotImplementedError

    def load(self, vector: NDArray) -> None:
        """Set the variables to a vector of this form."""
        raise NotImplementedError

    def metric(self) -> NDArray:
        """The diagonal of the model, for the norm of an extrapolation."""
        raise NotImplementedError

    @cached_property
    def _X(self) -> sp.csc_matrix:
        return self.problem.part(self.columns)

    def _restore(self, db: NDArray) -> None:
        """Set db, and compute D and Q for the weights u."""
        # Centred: extrapolation may diverge along the common shift, a null direction.
        self.db = db - db.mean() if self.problem.coupled else db.copy()
        self.D[:] = (self._X @ (self.u - self.w)).T + self.db[:, None]
        if self.problem.coupled:
            self.Q = np.einsum("kn,kn->n", self.P, self.D)

    def _curvature_of_b(self) -> NDArray:
        of_b = self.V.sum(axis=1)
        if self.problem.coupled:
            of_b -= (self.V * self.P).sum(axis=1)
        return of_b

    def moves(self) -> tuple[NDArray, NDArray, NDArray, float]:
        """(change of W, of b, and of the scores, curvature along them), at the end."""
        curvature = np.einsum("kn,kn,kn->", self.V, self.D, self.D)
        if self.problem.coupled:
            curvature -= self.problem.weight @ self.Q**2
        return self.u - self.w, self.db, self.D, float(curvature)


class Coordinates(QuadraticModel):
    """Single weights as coordinates, for a separable penalty.

    rows, lanes: positions of the coordinates in the weights (columns, lanes).
    """

    def __init__(self, solver: NewtonSolver, penalty: Any) -> None:
        super().__init__(solver, penalty)
        lanes, self.rows = np.nonzero(solver.work.T)  # sorted by lane
        self.lanes = lanes.astype(np.int32)
        self.column = self.columns[self.rows]
        self.damping_at = self.damping[self.rows]
        self.g, self.h = self._derivatives()
        self.start = self.w[self.rows, self.lanes]
        self.x, self.active = self.start.copy(), np.ones(self.g.size, dtype=np.uint8)
        self.violation = float(penalty.violations(self.g, self.start).max(initial=0.0))

    def _derivatives(self):
        """First and second derivatives of the loss."""
        H = self.V if not self.problem.coupled else self.V * (1 - self.P)
        g, h = np.empty((2, self.rows.size))
        kernels.derivatives(
            *self.problem.columns, self.column, self.lanes,
            self.problem.derivatives(self.P), H, g, h, self.stop,
        )  # fmt: skip
        return g, h

    def sweep(self, full: bool) -> float:
        problem, penalty = self.problem, self.penalty
        moved = kernels.sweep(
            *problem.columns, self.column, self.lanes, self.P, self.V, problem.coupled,
            self.g, self.h, self.damping_at, penalty.l1, penalty.l2, self.start, full,
            self.x, self.active, self.D, self.Q, self.stop,
        )  # fmt: skip
        self.u[self.rows, self.lanes] = self.x
        return moved + self._sweep_intercepts()

    def slope(self, change: NDArray) -> float:
        return float(self.g @ change[self.rows, self.lanes] + self.gb @ self.db)

    def vector(self) -> NDArray:
        return np.concatenate([self.x, self.db])

    def load(self, vector: NDArray) -> None:
        self.x[:] = vector[: self.x.size]
        self.u[self.rows, self.lanes] = self.x
        self._restore(vector[self.x.size :])

    def metric(self) -> NDArray:
        h = self.h + self.damping_at + self.penalty.l2
        return np.concatenate([h, self._curvature_of_b()])


class Gram(Coordinates):
    """`Coordinates` with the Hessian as a matrix, for few coordinates and dense X."""

    def _derivatives(self):
        g = self.problem.gradient(self.columns, self.P)
        return g[self.rows, self.lanes], None  # second derivatives are in the Hessian

    def begin(self) -> None:
        m, K = self.rows.size, self.problem.n_lanes
        self.sweeps, self.inner = _GRAM_SWEEPS, _GRAM_INNER
        n_b = K if self.problem.fit_intercept else 0
        self.H = H = self._hessian(m + n_b)
        diagonal = np.concatenate([self.damping_at, np.full(n_b, self.of_b)])
        at = np.diag_indices(m + n_b)
        H[at] = H[at] * (1 + self.rounding) + diagonal
        self.first = np.concatenate([self.g, self.gb[:n_b]])
        of_b = np.zeros(n_b)
        self.l1 = np.concatenate([np.full(m, self.penalty.l1), of_b])
        self.l2 = np.concatenate([np.full(m, self.penalty.l2), of_b])
        self.from_ = np.concatenate([self.start, of_b])
        self.x, self.now = self.from_.copy(), self.first.copy()
        self.active = np.ones(m + n_b, dtype=np.uint8)

    def _hessian(self, N):
        """Hessian of the loss in the coordinates and the intercepts, (N, N)."""
        problem, m = self.problem, self.rows.size
        assert problem.dense is not None
        bounds = np.searchsorted(self.lanes, np.arange(problem.n_lanes + 1))
        weight, chosen = problem.weight, None
        enough = max(_ENOUGH * N, _BLOCK_ROWS)
        tall = enough < problem.n_samples
        if tall and self.rough:
            # The first steps are long, and a part of the samples determines them.
            rng = np.random.RandomState(0)
            share = weight / problem.total
            chosen = np.sort(rng.choice(problem.n_samples, enough, p=share))
            weight = np.full(problem.n_samples, problem.total / enough)
        # Sums over many samples are made in single precision, in half of the time.
        # `rounding` keeps rounding errors from making the model concave. Columns scaled
        # to mean square 1 do not overflow.
        syrk, dtype = (ssyrk, np.float32) if tall else (dsyrk, np.float64)
        self.rounding = 1e-6 if tall else 1e-10
        scale = np.sqrt(problem.squares[self.columns] / problem.total)
        scale[scale == 0] = 1.0
        H = np.zeros((N, N), dtype=dtype, order="F")
        size = problem.n_samples if chosen is None else chosen.size
        for part in row_blocks(size, _BLOCK_ROWS):
            part = part if chosen is None else chosen[part]
            root = np.sqrt(weight[part] / problem.total)
            X = (problem.dense[part][:, self.columns] / scale).T * root
            X, root = X.astype(dtype, order="C"), root.astype(dtype)
            P = self.P[:, part].astype(dtype)
            B = np.zeros((N, root.size), dtype=dtype)
            for k in range(problem.n_lanes):
                of_lane = slice(bounds[k], bounds[k + 1])
                A = X[self.rows[of_lane]]
                p = P[k] if problem.coupled else P[k] * (1 - P[k])
                np.multiply(A, P[k], out=B[of_lane])
                H[of_lane, of_lane] += (A * p) @ A.T
                if N > m:
                    p = root * p
                    B[m + k] = root * P[k]
                    H[m + k, of_lane] += A @ p
                    H[m + k, m + k] += root @ p
            if problem.coupled:
                H = syrk(-1.0, B.T, beta=1.0, c=H, trans=1, lower=1, overwrite_c=1)
        H = np.tril(H).T.astype(np.float64, order="C")
        H += H.T
        H[np.diag_indices(N)] *= 0.5
        scale = np.append(scale[self.rows], np.ones(N - m)) * np.sqrt(problem.total)
        H *= scale[:, None] * scale
        return H

    def sweep(self, full: bool) -> float:
        return kernels.sweep_gram(
            self.H, self.l1, self.l2, full, self.x, self.active, self.now, self.stop
        )

    def value(self) -> float:
        x = self.x
        smooth = 0.5 * (self.first + self.now) @ (x - self.from_)
        return float(smooth + self.l1 @ np.abs(x) + 0.5 * self.l2 @ x**2)

    def cost(self) -> float:
        return float(self.x.size) ** 2

    def vector(self) -> NDArray:
        return self.x.copy()

    def load(self, vector: NDArray) -> None:
        self.x[:], self.now = vector, self.first + self.H @ (vector - self.from_)

    def metric(self) -> NDArray:
        return self.H.diagonal()

    def moves(self) -> tuple[NDArray, NDArray, NDArray, float]:
        m = self.rows.size
        self.u[self.rows, self.lanes] = self.x[:m]
        if self.problem.fit_intercept:
            self.db = self.x[m:]
        if self.problem.coupled:
            self.db = self.db - self.db.mean()
        assert self.problem.dense is not None
        self.D = (self.u - self.w).T @ self.problem.dense[:, self.columns].T
        self.D += self.db[:, None]
        self.Q = np.einsum("kn,kn->n", self.P, self.D)
        return super().moves()


class Blocks(QuadraticModel):
    """All weights of a group as one block."""

    def __init__(self, solver: NewtonSolver, penalty: Any) -> None:
        super().__init__(solver, penalty)
        problem = self.problem
        self.group, first = np.unique(penalty.group[self.columns], return_index=True)
        self.starts = np.append(first, self.columns.size).astype(np.int64)
        self.g = problem.gradient(self.columns, self.P)
        self.h = block_curvatures(problem, self.columns, self.starts, self.P)
        self.h += self.damping[:, None]
        self.strength = np.ascontiguousarray(penalty.strength[self.group])
        self.active = np.ones(self.group.size, dtype=np.uint8)
        self.room = np.empty((np.diff(self.starts).max(initial=0) + 1, self.w.shape[1]))
        self.violation = float(
            penalty.violations(self.columns, self.g, self.w).max(initial=0.0)
        )

    def begin(self) -> None:
        super().begin()
        # The kernel goes from sample to sample: lanes of a sample are contiguous.
        self.by_sample = [np.ascontiguousarray(A.T) for A in (self.P, self.V)]
        self.D = np.zeros(self.P.shape[::-1]).T
        self.constant = self._constant()

    def sweep(self, full: bool) -> float:
        """A pass over the blocks and the intercepts."""
        problem = self.problem
        moved = kernels.sweep_blocks(
            *problem.columns, self.starts, self.columns, *self.by_sample,
            problem.coupled, self.g, self.h, self.damping, self.strength, self.w,
            full, self.u, self.active, self.D.T, self.Q, self.room, self.stop,
        )  # fmt: skip
        if self.constant[0].size:
            self._shift(*self.constant)
        return moved + self._sweep_intercepts()

    def _constant(self) -> tuple[NDArray, sp.csc_matrix, NDArray]:
        """(blocks, V (columns, blocks), c) with X V = c in every sample.

        Such blocks are one-hot columns, also scaled or centred: the entry of a column
        in V is 1 over the range of the column.
        """
        X, n = self._X, self.columns.size
        low, high = (A.toarray().ravel() for A in (X.min(axis=0), X.max(axis=0)))
        v = np.divide(1.0, high - low, out=np.zeros(n), where=high > low)
        V = sp.csc_matrix((v, np.arange(n), self.starts))
        sums = X @ V
        low, high = (A.toarray().ravel() for A in (sums.min(axis=0), sums.max(axis=0)))
        same = (high - low <= 1e-12) & self.problem.fit_intercept
        blocks = np.flatnonzero(same)
        return blocks, V[:, blocks], high[blocks]

    def _shift(self, blocks: NDArray, V: sp.csc_matrix, c: NDArray) -> None:
        """u += V t, b -= c t, which changes no score, with t (blocks, lanes).

        Descent would be slow along these directions. The norm of a block is at most the
        parabola that touches the norm at u. t minimises these parabolas and the
        damping; the damping of the intercepts is at most of_b times the number of
        blocks times the sum over the blocks of c^2 t^2 / 2.
        """
        squares = np.add.reduceat((self.u**2).sum(axis=1), self.starts[:-1])
        of_norm = self.strength / np.maximum(np.sqrt(squares), 1e-100)
        of_norm = np.repeat(of_norm, np.diff(self.starts))
        change = self.damping[:, None] * (self.u - self.w)
        slope = V.T @ (of_norm[:, None] * self.u + change)
        slope -= self.of_b * c[:, None] * self.db
        curvature = V.power(2).T @ (of_norm + self.damping)
        curvature += c.size * self.of_b * c**2
        t = -slope / (curvature[:, None] + 1e-300)
        t[squares[blocks] == 0] = 0.0
        self.u += V @ t
        self.db -= c @ t

    def slope(self, change: NDArray) -> float:
        return float((self.g * change).sum() + self.gb @ self.db)

    def vector(self) -> NDArray:
        return np.concatenate([self.u.ravel(), self.db])

    def load(self, vector: NDArray) -> None:
        self.u = vector[: self.u.size].reshape(self.u.shape).copy()
        self._restore(vector[self.u.size :])

    def metric(self) -> NDArray:
        return np.concatenate([self.h.ravel(), self._curvature_of_b()])


def block_curvatures(
    problem: FeatureProblem, columns: NDArray, starts: NDArray, P: NDArray
) -> NDArray:
    """A diagonal, (columns, lanes), that bounds the Hessians of the blocks.

    The Hessian of the scores of a sample, diag(p) - p p', is at most 2 diag(p (1 - p)),
    as the difference is diagonally dominant. The Hessian of yes/no answers is half of
    this bound. So each lane has a bound t. With D the diagonal of X_g' diag(s t) X_g,
    the numbers of a block are D times the largest eigenvalue of D^-1/2 X_g' diag(s t)
    X_g D^-1/2. One number for all columns of a block would make the steps along short
    columns tiny; one number for all lanes would make the steps of classes tiny that are
    nearly certain.
    """
    T = P * (1 - P) * problem.weight
    T *= 2 if problem.coupled else 1
    X = problem.part(columns)
    out = X.power(2).T @ T.T
    for lo, hi in itertools.pairwise(starts):
        A = X[:, lo:hi]
        if np.bincount(A.indices).max(initial=0) <= 1:
            continue  # no two columns have a sample in common
        at, value = np.repeat(np.arange(hi - lo), np.diff(A.indptr)), A.data
        if min(A.shape) > _LARGEST_BLOCK:
            for t, h in zip(T, out[lo:hi].T):
                A.data = value * np.sqrt(t[A.indices] / (h[at] + 1e-300))
                B = abs(A)  # no eigenvalue is above the largest sum of a row
                h *= (B.T @ (B @ np.ones(B.shape[1]))).max()
            continue
        if value.size > _DENSE * A.shape[0] * A.shape[1]:
            dense = A.toarray()
            for t, h in zip(T, out[lo:hi].T):
                B = np.sqrt(t)[:, None] * (dense / np.sqrt(h + 1e-300))
                B = B @ B.T if hi - lo > problem.n_samples else B.T @ B
                h *= np.linalg.eigvalsh(B)[-1] * (1 + 1e-10)
            continue
        place = sp.csc_matrix((np.arange(at.size), A.indices, A.indptr), A.shape)
        left, right = place.T, place.tocsr()
        if hi - lo > problem.n_samples:
            left, right = right, left
        size = left.shape[0]
        for lanes in row_blocks(len(T), rows_per_block(2 * at.size + size**2)):
            t, h = T[lanes], out[lo:hi, lanes].T
            scaled = value * np.sqrt(t[:, A.indices] / (h[:, at] + 1e-300))
            B = _stacked(left, scaled, True) @ _stacked(right, scaled, False)
            B = B.toarray().reshape(len(t), size, size)
            h *= np.linalg.eigvalsh(B)[:, -1:] * (1 + 1e-10)
    return out


def _stacked(place: sp.csr_matrix, values: NDArray, diagonal: bool) -> sp.csr_matrix:
    """One matrix per row of `values`, stacked vertically or as a block diagonal.

    place: the pattern of the matrices; its entries are positions in a row of `values`.
    """
    n, (height, width) = len(values), place.shape
    lane = np.arange(n)[:, None]
    indices = place.indices + width * diagonal * lane
    ends = (place.indptr[1:] + place.nnz * lane).ravel()
    return sp.csr_matrix(
        (values[:, place.data].ravel(), indices.ravel(), np.append(0, ends)),
        (n * height, n * width if diagonal else width),
    )


def descend(model: QuadraticModel) -> int:
    """Sweep until a sweep changes little; returns the number of sweeps.

    An extrapolation follows after every `_MEMORY` + 1 sweeps.
    """
    first, full, iterates, n_sweeps = None, True, [], 0
    while n_sweeps < model.sweeps:
        n_sweeps += 1
        moved = model.sweep(full)
        if first is None:
            first = moved
        if moved <= model.inner * first:
            if full:
                break
            full = True
        else:
            full = False
        iterates.append(model.vector())
        if len(iterates) > _MEMORY:
            _extrapolate(model, np.array(iterates))
            iterates = []
    return n_sweeps


def _extrapolate(model, iterates):
    """Anderson extrapolation: the affine combination of least combined difference."""
    differences = np.diff(iterates, axis=0)
    A = (differences * model.metric()) @ differences.T
    A[np.diag_indices(_MEMORY)] += 1e-10 * np.trace(A)
    try:
        c = np.linalg.solve(A, np.ones(_MEMORY))
    except np.linalg.LinAlgError:
        return
    c /= c.sum()
    if not np.abs(c).sum() < _LARGEST:
        return
    before, here = model.value(), iterates[-1]
    model.load(c @ iterates[1:])
    if not model.value() < before:
        model.load(here)


class NewtonSolver(PathSolver):
    """`PathSolver` by Newton steps on a working set."""

    def __init__(self, problem: FeatureProblem) -> None:
        super().__init__(problem)
        self.columns = np.empty(0, dtype=np.int32)
        self.W = np.empty((0, problem.n_lanes))
        self.mu, self.rough = _DAMPING, True

    def solve(
        self, penalty: Any, goal: float, max_iter: int, report: Report
    ) -> Optimum:
        problem = self.problem
        alive = np.arange(problem.n_features, dtype=np.int32)
        bound, idle, least, history = -np.inf, 0, (np.inf, np.inf), []
        while True:
            self.loss = problem.fit_intercepts(self.b, self.Z, self.P, self.loss)
            G = self.gradient(alive)
            objective = self.loss + penalty.value(self.columns, self.W)
            share, dual = max(
                (
                    (share, problem.dual(self.P, share) - conjugate)
                    for share, conjugate in penalty.duals(problem, alive, G)
                ),
                key=lambda pair: pair[1],
            )
            bound = max(bound, dual)
            gap = max(objective - bound, 0.0)
            history.append(objective)
            n_iter = len(history)
            stopped = report(objective, gap, n_iter)
            better = (
                objective < least[0] - 1e-14 * abs(objective) or gap < 0.9 * least[1]
            )
            idle, least = 0 if better else idle + 1, (objective, min(gap, least[1]))
            if gap <= goal or n_iter == max_iter or stopped or idle == _IDLE:
                break
            keep = penalty.may_act(
                problem, alive, share * G, max(objective - dual, 0.0)
            )
            keep[np.searchsorted(alive, self.columns)] = True
            alive, G = alive[keep], G.compress(keep, axis=0)
            self._work(penalty, alive, G)
        return Optimum(
            self.columns.copy(), self.W.copy(),
            problem.intercepts(self.b, self.columns, self.W),
            np.array(history), float(gap), alive.size, gap <= goal,
        )  # fmt: skip

    def _work(self, penalty, alive, G) -> None:
        """Choose a working set, and take Newton steps on it."""
        worst = self._choose(penalty, alive, G)
        kind = Blocks if isinstance(penalty, GroupTerm) else self._coordinates()
        cost, of_gradient = 0.0, 1.0 + self.problem.n_entries * self.W.shape[1]
        for step in range(_NEWTON):
            model = kind(self, penalty)
            # The gap is of first order in the error, the objective of second order:
            # near the minimum rounding hides its decrease, and only violations tell.
            violation = max(model.violation, np.abs(model.gb).max())
            share = _SHARE * min(cost / of_gradient, 1)
            if step and (violation <= share * worst or cost > _BUDGET * of_gradient):
                break
            model.begin()
            cost += descend(model) * model.cost()
            if not self._search(model, penalty):
                break
        keep = self.W.any(axis=1)
        if isinstance(penalty, GroupTerm):  # groups stay whole
            group = penalty.group[self.columns]
            keep = np.isin(group, group[keep])
        order = np.flatnonzero(keep)[np.argsort(self.columns[keep])]
        self.columns, self.W = self.columns[order], self.W[order]

    def _coordinates(self):
        few = np.count_nonzero(self.work) <= _GRAM
        return Gram if few and self.problem.dense is not None else Coordinates

    def _choose(self, penalty, alive, G) -> float:
        """Set the working set; returns the largest violation before."""
        worst, new, mask = penalty.choose(self.problem, self.columns, self.W, alive, G)
        columns = np.union1d(self.columns, new).astype(np.int32)
        W = np.zeros((columns.size, self.W.shape[1]))
        W[np.searchsorted(columns, self.columns)] = self.W
        work = W != 0
        work[np.searchsorted(columns, new)] |= mask
        if isinstance(penalty, GroupTerm):  # columns of a group are contiguous
            order = np.argsort(penalty.group[columns], kind="stable")
            columns, W, work = columns[order], W[order], work[order]
        self.columns, self.W, self.work = columns, W, work
        return worst

    def _search(self, model, penalty) -> bool:
        """Line search along the step of the model; returns whether it found a step."""
        change, db, D, curvature = model.moves()
        old = penalty.value(self.columns, self.W)
        new = penalty.value(self.columns, self.W + change)
        before = self.loss + old
        slope = model.slope(change) + new - old
        if not change.any() and not db.any():
            return False
        step, Z, P = 1.0, np.empty_like(self.Z), np.empty_like(self.P)
        while True:
            np.multiply(D, step, out=Z)
            Z += self.Z
            W = self.W + step * change
            loss = self.problem.loss(Z, P)
            after = loss + penalty.value(self.columns, W)
            if after <= before + 1e-4 * step * slope + 1e-14 * abs(before):
                break
            step *= 0.5
            if step < 1e-8:
                return False
        predicted = -(slope + 0.5 * curvature)
        ratio = (before - after) / max(predicted, 1e-300) if step == 1.0 else 0.0
        if ratio < 0.25:
            self.mu = min(max(self.mu, 1e-6) * _FACTOR, 1.0)
        elif ratio > 0.75:
            self.mu = max(self.mu / _FACTOR, _LEAST)
        self.rough = self.rough and before - after > _FAR * before
        # A full step takes u itself, whose zeros are exact.
        self.W = model.u if step == 1.0 else W
        if self.problem.coupled:
            self.W = penalty.shifted(self.W)
            self.work |= self.W != 0
        self.b = self.b + step * db
        self.Z, self.P, self.loss = Z, P, loss
        return True
