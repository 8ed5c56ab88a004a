"""Logistic regressions of all nodes of a tree in one call.

A scikit-learn fit has a floor of about 3 ms, which a tree of a thousand small nodes
pays a thousand times. Here the samples are sorted by the leaf order of the tree,
every node is a range of rows, and a compiled loop (`_logistic_fast`) fits nodes one
after the other without returning to Python; joblib threads share the nodes out.
Padding all nodes of a level to one array was the alternative: nodes of a level
differ in size and in iterations, so most of the padded work is wasted, and the
samples have to be copied.
"""

from __future__ import annotations

import warnings

import numpy as np
import scipy.sparse as sp
from joblib import Parallel, delayed, effective_n_jobs
from sklearn.exceptions import ConvergenceWarning

from .._compat import single_blas_thread
from . import _logistic_fast as kernels


USE = 3


def second_moments(X, weight, centre):
    n, d = X.shape
    share = weight / weight.sum()
    mean = np.zeros(d)
    step = 4096
    if centre:
        for a in range(0, n, step):
            mean += share[a : a + step] @ X[a : a + step].astype(np.float64)
    total = np.zeros((d, d))
    for a in range(0, n, step):
        part = X[a : a + step] - mean
        part *= np.sqrt(share[a : a + step])[:, None]
        total += part.T @ part
    variance, basis = np.linalg.eigh(total)
    return np.ascontiguousarray(basis), np.maximum(variance, 0), mean


class NodeProblems:
    """The classification problems of a set of nodes over one sorted X.

    Parameters
    ----------
    X : C-contiguous ndarray or CSR matrix of shape (n_samples, n_features)
        float32 or float64, rows sorted so that every outcome of every node is a range.
    weight : ndarray of shape (n_samples,)
        Positive sample weights.
    bounds : list of ndarray
        For each node its m + 1 boundaries, m >= 2: outcome k has the rows
        ``bounds[v][k]`` to ``bounds[v][k + 1]``. No outcome is empty.
    """

    def __init__(self, X, weight, bounds):
        self.X = X
        self.weight = np.ascontiguousarray(weight, dtype=np.float64)
        sizes = np.array([b.size for b in bounds], dtype=np.int64)
        self.ptr = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64)
        self.bounds = (
            np.concatenate(bounds).astype(np.int64) if bounds else np.empty(0, np.int64)
        )
        n_outcomes = sizes - 1
        self.n_rows = np.where(n_outcomes == 2, 1, n_outcomes)
        self.row_ptr = np.concatenate([[0], np.cumsum(self.n_rows)]).astype(np.int64)
        self.first = self.bounds[self.ptr[:-1]]
        self.last = self.bounds[self.ptr[1:] - 1]
        if sp.issparse(X):
            self.indptr = X.indptr.astype(np.int64)

    @property
    def n_nodes(self):
        return self.ptr.size - 1

    def empty_coef(self):
        """Weights (n_rows, n_features) and intercepts (n_rows,), all 0."""
        n = int(self.row_ptr[-1])
        return np.zeros((n, self.X.shape[1])), np.zeros(n)

    def _costs(self):
        """Multiplications of one product with X, by node."""
        if sp.issparse(self.X):
            width = self.indptr[self.last] - self.indptr[self.first]
        else:
            width = (self.last - self.first) * self.X.shape[1]
        return width * self.n_rows + 1

    def _solve(self, todo, C, coef, intercept, n_iter, status, options):
        X = self.X
        fit_intercept, warm, tol, max_iter = options
        samples = self.last[todo] - self.first[todo]
        rows = self.n_rows[todo]
        width = np.full(todo.size, X.shape[1], dtype=np.int64)
        if sp.issparse(X):
            nnz = self.indptr[self.last[todo]] - self.indptr[self.first[todo]]
            width = np.minimum(width, nnz)
        size = rows * (width + 1)
        if size.max() >= 2**31:
            raise ValueError(
                f"a node has {int(size.max())} weights, more than 2^31 - 1; use a "
                "deeper taxonomy (max_depth) or fewer features"
            )
        work = np.empty(
            int((size * (2 * kernels.MEMORY + 5) + samples * rows + 4 * rows + 4 * width).max()) + 1
        )
        fwork = np.empty(int((2 * samples * rows + size).max()) + 1, dtype=X.dtype)
        problem = (
            self.weight,
            self.bounds,
            self.ptr,
            self.row_ptr,
            C,
            todo,
            fit_intercept,
            warm,
            tol,
            max_iter,
            coef,
            intercept,
            n_iter,
            status,
            work,
            fwork,
        )
        if not sp.issparse(X):
            d = X.shape[1]
            if todo.size == 1 and USE and rows[0] >= USE:
                v = todo[0]
                metric = second_moments(
                    X[self.first[v] : self.last[v]],
                    self.weight[self.first[v] : self.last[v]], fit_intercept
                )
            else:
                metric = np.empty((0, 0)), np.empty(0), np.empty(0)
            kernels.solve_dense(X, *problem, *metric)
            return
        local = np.full(X.shape[1], -1, dtype=np.int32)
        columns = np.empty(int(width.max()) + 1, dtype=np.int32)
        index = np.empty(int(nnz.max()) + 1, dtype=np.int32)
        data, indices = X.data, X.indices
        if data.size == 0:  # a pointer to the first entry is taken
            data, indices = np.zeros(1, data.dtype), np.zeros(1, indices.dtype)
        kernels.solve_sparse(
            data, indices, self.indptr, X.shape[1], *problem, local, columns, index
        )

    def fit(
        self,
        C,
        *,
        fit_intercept=True,
        tol=1e-4,
        max_iter=1000,
        start=None,
        nodes=None,
        n_jobs=None,
    ):
        """Fit every node, or some.

        Parameters
        ----------
        C : ndarray of shape (n_nodes,)
            Inverse of the regularisation strength of each node, as in
            `sklearn.linear_model.LogisticRegression`.
        start : tuple (coef, intercept), default=None
            Values to start from; overwritten.
        nodes : ndarray of int, default=None
            The nodes to fit; the others keep `start`. None: all.

        Returns
        -------
        coef : ndarray of shape (n_rows, n_features)
        intercept : ndarray of shape (n_rows,)
        n_iter : ndarray of shape (n_nodes,)
        status : ndarray of shape (n_nodes,)
            0 converged, 1 stopped at max_iter, 3 no step found although the
            objective can be lowered: features of too different scales.

        Raises
        ------
        FloatingPointError
            If the objective of a node is not finite.
        """
        coef, intercept = self.empty_coef() if start is None else start
        n_iter = np.zeros(self.n_nodes, dtype=np.int32)
        status = np.zeros(self.n_nodes, dtype=np.int32)
        C = np.ascontiguousarray(C, dtype=np.float64)
        options = bool(fit_intercept), start is not None, float(tol), int(max_iter)
        arguments = C, coef, intercept, n_iter, status, options
        chunks = self._chunks(effective_n_jobs(n_jobs), nodes)

        def run(chunk):
            self._solve(chunk, *arguments)

        with single_blas_thread():
            if effective_n_jobs(n_jobs) == 1 or len(chunks) == 1:
                for chunk in chunks:
                    run(chunk)
            else:
                # the kernel releases the GIL; threads share X and coef
                Parallel(n_jobs=n_jobs, backend="threading", batch_size=1)(
                    delayed(run)(chunk) for chunk in chunks
                )
        if (status == 2).any():
            raise FloatingPointError(
                f"the weights of {int((status == 2).sum())} nodes diverged: the "
                "objective is no longer finite. Scale the features (StandardScaler) "
                "or use a smaller C."
            )
        return coef, intercept, n_iter, status

    def _chunks(self, n_jobs, nodes):
        """Nodes by falling cost, in shares of at most about 1 / (8 n_jobs)."""
        nodes = np.arange(self.n_nodes) if nodes is None else nodes
        if nodes.size == 0:
            return []
        cost = self._costs()[nodes]
        order = np.argsort(-cost, kind="stable")
        share = np.cumsum(cost[order]) * (8 * n_jobs) // (cost.sum() + 1)
        cuts = np.flatnonzero(np.diff(share)) + 1
        return np.split(nodes[order], cuts)


def warn_not_converged(status, max_iter, stacklevel):
    """One warning for all nodes."""
    slow, failed = int((status == 1).sum()), int((status == 3).sum())
    texts = []
    if slow:
        texts.append(
            f"{slow} of {status.size} node classifiers stopped at max_iter={max_iter} "
            "before they met tol. Scale the features (StandardScaler), or increase "
            "max_iter or tol, or decrease C."
        )
    if failed:
        texts.append(
            f"{failed} of {status.size} node classifiers stopped far from their "
            "optimum: the line search failed, because features differ too much in "
            "scale from each other or from the intercept. Scale them (StandardScaler)."
        )
    if texts:
        warnings.warn(" ".join(texts), ConvergenceWarning, stacklevel=stacklevel + 1)
