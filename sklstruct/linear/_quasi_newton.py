"""Multinomial logistic regressions by L-BFGS: of many nodes in one call, or of one.

A scikit-learn fit takes milliseconds even for few samples, and a tree may have a
thousand small nodes. Here the samples are sorted by outcome (for a tree: by its leaf
order). Every node is a range of rows that one call of a kernel (`_quasi_newton_fast`)
fits; threads share the nodes. The alternative, all nodes of a level padded to one
array, copies the samples and wastes most of its work: nodes of a level differ in size
and in iterations.

At large dense nodes of three outcomes and more, L-BFGS starts from a metric of the
features (the formulas are in `_quasi_newton_fast`). Its moments and eigenvectors take
n d² + d³ multiplications in the BLAS. `metric_pays` allows the metric if this time is
estimated at five iterations or less and n >= 4 d. With fewer samples the outcomes are
separable, and the products with the eigenvectors are not cheap compared with the
products with X.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from .._checks import INT32_MAX, check_memory
from .._parallel import interruptible, serial_map, single_blas_thread
from . import _quasi_newton_fast as kernels
from ._samples import Samples, is_sparse, narrow_indices
from ._targets import Targets
from ._weights import Features, FittedStrip, lanes_of

# Tolerance of `NodeProblems.fit` in units of `LinearClassifier.tol`: with an equal
# `LinearClassifier.tol` both solvers end at about the same distance from the optimum.
PER_TOL = 0.03

# Tolerance of the fit without the fold, in units of the tolerance of the whole fit.
_ROUGH = 2.0


def moments(X: NDArray, weight: NDArray, centre: bool) -> tuple[NDArray, NDArray]:
    """(moment (d, d), mean (d,)): the weighted second moment of the rows of X.

    The moment is about the mean if `centre`, else about 0, and zeros are returned as
    the mean. Entries whose squares overflow are not finite.
    """
    share = weight / weight.sum()
    step = min(4096, max(1, 2**30 // X.shape[1] ** 2))  # Ctrl-C waits for one product
    mean = np.zeros(X.shape[1])
    moment = np.zeros((mean.size, mean.size))
    # by blocks, without a second X in double precision
    blocks = [slice(a, a + step) for a in range(0, share.size, step)]
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        if centre:
            for rows in blocks:
                mean += share[rows] @ X[rows].astype(np.float64, copy=False)
        for rows in blocks:
            part = (X[rows] - mean) * np.sqrt(share[rows])[:, None]
            moment += part.T @ part
    return moment, mean


def metric_pays(n: int, d: int, n_rows: int) -> bool:
    """Whether the metric is cheap compared with the solve (see module docstring)."""
    if n_rows == 1 or n < 4 * d:
        return False
    setup = (n + 800 + d) * float(d) ** 2 + 2e6
    iteration = n * (d * (2.0 * n_rows + 25) + 130 * n_rows)
    return setup <= 5 * iteration


class NodeProblems:
    """The classification problems of the nodes of a tree over one X.

    weight: positive, sorted so that every outcome of every node is a range.
    bounds: for each node its m + 1 boundaries, m >= 2: outcome k has the rows
    ``bounds[v][k]`` to ``bounds[v][k + 1]``. No outcome is empty.
    code: class of each row, for folds that are stratified by class.
    rows: the row of X of each weight; None: X is sorted, too.
    """

    def __init__(
        self,
        X: Samples,
        weight: NDArray,
        bounds: list[NDArray],
        code: NDArray | None = None,
        rows: NDArray | None = None,
    ) -> None:
        self.X: Any = X
        self.code: Any = code
        self.rows: Any = np.arange(weight.size) if rows is None else rows
        self._is_sorted = rows is None
        self.weight = np.ascontiguousarray(weight, dtype=np.float64)
        sizes = np.array([b.size for b in bounds], dtype=np.int64)
        self.ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.bounds = (
            np.concatenate(bounds).astype(np.int64) if bounds else np.empty(0, np.int64)
        )
        self.n_nodes, self.n_outcomes = sizes.size, sizes - 1
        self.n_rows = np.where(self.n_outcomes == 2, 1, self.n_outcomes)
        self.row_ptr = np.concatenate([[0], np.cumsum(self.n_rows)]).astype(np.int64)
        self.first = self.bounds[self.ptr[:-1]]
        self.last = self.bounds[self.ptr[1:] - 1]
        self.sizes = self.last - self.first

    @cached_property
    def sorted(self) -> Samples:
        """The rows of X in the order of `weight`: a copy, needed by L-BFGS only."""
        return self.X if self._is_sorted else self.X[self.rows]

    @cached_property
    def _index(self):
        return narrow_indices(self.sorted)

    @property
    def n_entries(self) -> NDArray:
        """Number of values of X (stored values, if sparse) of each node."""
        if sp.issparse(self.X):
            length = np.diff(self.X.indptr).astype(np.int64)
            ends = np.append(0, np.cumsum(length[self.rows]))
            return ends[self.last] - ends[self.first]
        return self.sizes * self.X.shape[1]

    def bounds_of(self, v: int) -> NDArray:
        """The boundaries of the outcomes of a node."""
        return self.bounds[self.ptr[v] : self.ptr[v + 1]]

    def targets_of(self, v: int) -> tuple[slice, Targets]:
        """(the samples of a node, the outcome of each)."""
        bound = self.bounds_of(v)
        m = bound.size - 1
        outcome = np.repeat(np.arange(m, dtype=np.int32), np.diff(bound))
        return slice(bound[0], bound[-1]), Targets.one_each(outcome, m)

    def subset(self, rows: NDArray) -> NodeProblems:
        """The problems on some of their rows, which must leave no outcome empty."""
        before = np.searchsorted(rows, self.bounds)
        bounds = [before[a:b] for a, b in zip(self.ptr[:-1], self.ptr[1:])]
        return NodeProblems(self.X, self.weight[rows], bounds, rows=self.rows[rows])

    def loss(self, held: NDArray, coef: NDArray, intercept: NDArray) -> NDArray:
        """Total loss of the rows `held` (ascending) at each node."""
        loss = np.zeros(self.n_nodes)
        lo, hi = (np.searchsorted(held, ends) for ends in (self.first, self.last))
        with single_blas_thread():
            for v in np.flatnonzero(hi > lo).tolist():
                rows = held[lo[v] : hi[v]]
                outcome = np.searchsorted(self.bounds_of(v), rows, side="right") - 1
                a, b = self.row_ptr[v], self.row_ptr[v + 1]
                z = self.sorted[rows] @ coef[a:b].T.astype(self.X.dtype)
                z = np.asarray(z.toarray() if sp.issparse(z) else z) + intercept[a:b]
                if z.shape[1] == 1:
                    z = np.hstack([np.zeros_like(z), z])
                # scipy's logsumexp takes longer than the products of small nodes
                z -= z.max(axis=1, keepdims=True)
                own = z[np.arange(rows.size), outcome]
                loss[v] = self.weight[rows] @ (np.log(np.exp(z).sum(axis=1)) - own)
        return loss

    def empty_coef(self) -> tuple[NDArray, NDArray]:
        """Weights (n_rows, n_features) and intercepts (n_rows,), all 0."""
        n = int(self.row_ptr[-1])
        return np.zeros((n, self.X.shape[1])), np.zeros(n)

    def _metric(self, v, C, constant):
        """Eigenvectors, eigenvalues and mean of the features of a node.

        None, three times, if they take too long or are not finite.
        """
        rows, r = slice(self.first[v], self.last[v]), int(self.n_rows[v])
        weight = self.weight[rows]
        nothing = None, None, None
        if is_sparse(self.X) or not metric_pays(weight.size, self.X.shape[1], r):
            return nothing
        moment, mean = moments(self.sorted[rows], weight, constant > 0)
        if constant > 0:
            # elimination of an intercept (curvature 1 / r plus its penalty) removes a
            # part of the mean
            lam = 1 / (C * weight.sum())
            part = 1 / (1 + r * lam / constant**2)
            with np.errstate(over="ignore", invalid="ignore"):
                moment += (1 - part) * np.outer(mean, mean)
            mean *= part
        if not np.isfinite(moment).all():
            return nothing
        try:
            variance, basis = interruptible(np.linalg.eigh, moment)
        except np.linalg.LinAlgError:
            return nothing
        if not (np.isfinite(variance).all() and np.isfinite(basis).all()):
            return nothing
        # eigenvalues 0 of dependent features may be negative by rounding
        return np.ascontiguousarray(basis), np.maximum(variance, 0), mean

    def _solve(self, v, C, constant, tol, max_iter, warm, stop, coef, intercept):
        """Fit node v and write its weights; returns (iterations, status)."""
        X, lo, hi, r = self.sorted, self.first[v], self.last[v], int(self.n_rows[v])
        lanes = slice(self.row_ptr[v], self.row_ptr[v + 1])
        bound, weight = self.bounds_of(v) - lo, self.weight[lo:hi]
        index = indptr = None
        columns: Any = slice(None)
        d = X.shape[1]
        if is_sparse(X):
            # the weights of columns that the samples do not have are 0
            indptr = X.indptr[lo : hi + 1].astype(np.int64)
            ends = slice(indptr[0], indptr[-1])
            features = Features.of(self._index[ends], d)
            index, data = features.rows(self._index[ends]), X.data[ends]
            indptr -= indptr[0]
            columns, d = features.columns(), features.size
        else:
            data = X[lo:hi].reshape(-1)
        n_free = r if constant > 0 else 0
        p, unit = d * r + n_free, min(constant, 1.0) if n_free else 1.0
        w = np.zeros(p)
        if np.isinf(constant):  # the best intercepts for weights 0
            best = np.log(np.add.reduceat(weight, bound[:-1]))
            w[d * r :] = best - best.mean() if r > 1 else best[1] - best[0]
        zero = w.copy() if warm else None
        if warm:
            w[: d * r] = coef[lanes, columns].T.ravel()
            w[d * r :] = intercept[lanes][:n_free] / unit
        metric = self._metric(v, C, constant)
        if metric[0] is not None:  # all steps sum to 0 over the outcomes
            w -= np.repeat(w.reshape(-1, r).mean(axis=1), r)
        n_iter = status = 0
        if p:
            n = weight.size
            size = (2 * kernels.MEMORY + 3) * p + p // r + (n + 2) * r
            room = np.empty(size), np.empty(2 * n * r + p, dtype=X.dtype)
            n_iter, status = kernels.minimise(
                data, index, indptr, bound, weight, w, zero, C, constant, tol, max_iter,
                *metric, *room, stop,
            )  # fmt: skip
            if status == 4:  # stopped in the middle
                return n_iter, status
        if index is not None:
            coef[lanes] = 0
        coef[lanes, columns] = w[: d * r].reshape(d, r).T
        intercept[lanes][:n_free] = unit * w[d * r :]
        return n_iter, status

    def _check_size(self):
        """Raise an error if the largest node is too large."""
        r, n = self.n_rows.astype(float), self.sizes
        p = r * (np.minimum(self.n_entries, self.X.shape[1]) + 1)
        if p.max() > INT32_MAX:
            raise ValueError(
                f"a node has {int(p.max())} weights, more than 2^31 - 1; use a "
                "deeper taxonomy (max_depth) or fewer features"
            )
        needed = 8 * (2 * kernels.MEMORY + 3 + 1 / r) * p + 8 * (n + 2) * r
        needed += self.X.dtype.itemsize * (2 * n * r + p)
        v = int(needed.argmax())
        check_memory(
            needed[v],
            f"the fit of a node with {n[v]} samples and {int(r[v])} vectors of weights",
            'use a deeper taxonomy (max_depth), or solver="dual"',
        )

    def fit(
        self,
        C: NDArray,
        *,
        constant: float = np.inf,
        tol: float = 1e-3,
        max_iter: int = 1000,
        start: tuple[NDArray, NDArray] | None = None,
        nodes: NDArray | None = None,
        parallel: Callable[..., Any] = serial_map,
        stop: NDArray | None = None,
    ) -> tuple[NDArray, NDArray, NDArray, NDArray]:
        """(coef, intercept, n_iter, status) of every node, or of some.

        The status of a node is 0: converged; 1: stopped at max_iter; 3: no step found
        although the objective can be lowered, because the scales of features differ too
        much; 4: stopped by the flag, and the node keeps its start. FloatingPointError
        if the objective of a node is not finite.

        C: inverse of the regularisation strength of each node, as in
        `LogisticRegression`.
        constant: value of the feature whose weight is the intercept; 0: no intercepts,
        inf: they are not penalised.
        tol: a node is done if the decrease of the objective that the change of any
        single weight guarantees is at most `tol`² times the largest such decrease at
        zero weights (`_quasi_newton_fast`).
        max_iter: largest number of iterations of a node.
        start: (coef, intercept) to start from; overwritten.
        nodes: the nodes to fit; other nodes keep `start`. None: all nodes.
        parallel: a map over nodes, called in `single_blas_thread`.
        stop: the flag of `stop_flag`.
        """
        coef, intercept = self.empty_coef() if start is None else start
        n_iter = np.zeros(self.n_nodes, dtype=np.int32)
        status = np.zeros(self.n_nodes, dtype=np.int32)
        nodes = np.arange(self.n_nodes) if nodes is None else nodes
        if nodes.size:
            self._check_size()
            _ = self.sorted  # made once, before several threads use it
        work = (self.n_entries * self.n_rows)[nodes]
        order = nodes[np.argsort(-work, kind="stable")].tolist()
        stop = np.zeros(1, dtype=np.int32) if stop is None else stop

        def run(v):
            n_iter[v], status[v] = self._solve(
                v, float(C[v]), constant, tol, max_iter, start is not None, stop, coef,
                intercept,
            )  # fmt: skip

        parallel(run, order)
        if (status == 2).any():
            raise FloatingPointError(
                f"the weights of {int((status == 2).sum())} nodes diverged: the "
                "objective is no longer finite. Scale the features (StandardScaler) "
                "or use a smaller C"
            )
        return coef, intercept, n_iter, status


class QuasiNewton:
    """The fit of all outcomes of a node by L-BFGS, with the methods of `Descent`.

    The samples of the fold, `held`, first have weight 0, so that X is not copied
    without the fold.
    """

    def __init__(self, node: Any, settings: Any) -> None:
        X, targets, weight, held = node.X, node.targets, node.weight, node.held
        outcome = targets.outcome
        self.m, self.few, self.n_iter = targets.n_rows, settings.iterations, 0
        self.solver = "quasi_newton"
        self._settings, self._met = settings, True
        self._weight, self._held, self._fold = weight, held, X[held]
        if (np.diff(outcome) < 0).any():
            order = np.argsort(outcome, kind="stable")
            X, self._weight = X[order], weight[order]
            self._held = np.argsort(order)[held]
        counts = np.bincount(outcome, minlength=targets.n_outcomes)
        bounds = np.concatenate([[0], np.cumsum(counts)])
        self._problem = NodeProblems(X, self._weight, [bounds])
        self._found: Any = None  # (coef, intercept)
        self._start: Any = None

    def _solve(self, weight, tol):
        settings, problem = self._settings, self._problem
        problem.weight = np.ascontiguousarray(weight, dtype=np.float64)
        coef, intercept, n_iter, status = problem.fit(
            np.array([settings.C]),
            constant=settings.constant,
            tol=PER_TOL * tol,
            max_iter=settings.iterations,
            start=self._start if self._found is None else self._found,
            stop=settings.stop,
        )
        self._found = coef, intercept
        self.n_iter += int(n_iter[0])
        self._met = bool(status[0] == 0)

    def begin_at(self, W: NDArray) -> None:
        """Start from the weights (features + 1, lanes) of a `Descent` on dense X."""
        coef = np.ascontiguousarray(W[:-1, : self.m].T, dtype=np.float64)
        self._start = coef, W[-1, : self.m] * np.float64(self._settings.unit)

    def without_fold(self, tol: float, most: int) -> None:
        """Fit the samples outside of the fold; `tol` and `most` are ignored.

        The fit does not stop early, so a second call, after a trial, does nothing.
        """
        if self._found is None:
            weight = self._weight.copy()
            weight[self._held] = 0
            rough = _ROUGH if self._held.size else 1.0
            self._solve(weight, rough * self._settings.tol)

    def fold_scores(self) -> NDArray:
        """(fold samples, outcomes) by weights fitted without the fold."""
        coef, intercept = self._found
        scores = np.asarray(self._fold @ coef.T.astype(np.float32))
        return scores + intercept.astype(np.float32)

    def finish(self) -> tuple[NDArray, bool]:
        """Complete the fit; returns (fold scores, whether `tol` was met)."""
        settings = self._settings
        self.without_fold(settings.tol, settings.max_iter)
        found, met = self.fold_scores(), self._met
        if self._held.size:
            self._solve(self._weight, settings.tol)
        return found, met and self._met

    def strip(self, features: Features) -> FittedStrip:
        """The fitted weights of `features`, the features of the samples."""
        (coef, intercept), settings = self._found, self._settings
        lanes = lanes_of(self.m)
        W = np.zeros((features.size + 1, lanes), dtype=np.float32)
        W[:-1, : self.m] = coef[:, features.columns()].T
        W[-1, : self.m] = intercept / (settings.unit or 1.0)
        return FittedStrip(W, self.m)
