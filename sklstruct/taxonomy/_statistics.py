"""Statistics of one pass over the samples: class weights, class sums, a Gram matrix.

The `ClassProximity` of any subset of the classes, such as the classes of a node, is
computed from these statistics.
"""

from __future__ import annotations

import numpy as np
import scipy.linalg
import scipy.sparse as sp
from numpy.typing import ArrayLike, NDArray

from .._checks import (
    as_ids,
    check_choice,
    check_count,
    check_ids,
    check_memory,
    check_real,
)
from ._directions import leading_directions, weighted_means
from ._proximity import ClassProximity
from ._samples import check_samples, class_means, encode_classes, sum_by_class, to_dense

# Rows per block of the pass over dense X; 4096 x 200 float64 is 6.5 MB.
_CHUNK = 4096
# Below this density products of sparse matrices are faster than dense blocks.
_SPARSE = 0.1
# Smallest ridge in units of the mean variance: it keeps singular Gram matrices definite
# and changes Q by less than 1e-8.
_RIDGE_FLOOR = 1e-10
# Largest d or n for which "auto" makes the Gram matrix: 2048² float64 is 32 MB, and the
# Cholesky factorisation takes 0.1 s.
_MAX_PRIMAL = 2048
# Largest number of classes for which "class_means" keeps the whole span of the means,
# and the number of directions for more classes.
_ALL_DIRECTIONS = 512
_DIRECTIONS = 64


class ClassStatistics:
    r"""Statistics that builders need: class weights, class sums, a Gram matrix.

    Parameters
    ----------
    X : {array-like, sparse matrix} of shape (n_samples, n_features)
        Finite features. Sparse matrices are read as CSR, and only blocks of rows are
        made dense.

    y : array-like of shape (n_samples,)
        Labels.

    sample_weight : array-like of shape (n_samples,), default=None
        Weights >= 0; samples of weight 0 are left out.

    form : {"auto", "primal", "dual", "class_means"}, default="auto"
        Coordinates in which the statistics are kept.

        - "primal": the features; one d × d Gram matrix. O(nd²).
        - "dual": an orthonormal basis of the n centred rows, from the eigenvectors of
          the n × n Gram matrix; Q as with "primal", for n < d. O(n²d + n³).
        - "class_means": features projected on the span of the class means, or, for
          more than `rank` classes, on `rank` leading directions of the span, with
          sparse means. **Q differs** from Q of the other forms, see Notes. O(ndK), or
          O(nnz(X) rank) for sparse X.
        - "auto": "primal" if d <= min(n, 2048), else "dual" if n <= 2048, else
          "class_means".

    rank : int, default=None
        Largest number of directions of "class_means", >= 1. None: all for up to 512
        classes, else 64.

    keep_rows : bool, default=False
        Whether to store a copy of the rows, sorted by class. ``gram="exact"`` of
        `proximity` needs the copy to compute the Gram matrices of subsets of classes.

    Attributes
    ----------
    classes : ndarray of shape (n_classes,)
        Sorted labels of the samples of positive weight.

    weight : float64 ndarray of shape (n_classes,)
        Total weight of every class.

    mean : float64 ndarray of shape (n_columns,)
        Mean of the features (in the coordinates of `form`).

    class_sum : float64 ndarray of shape (n_classes, n_columns)
        Weighted sums of the centred rows of every class.

    scatter : float64 ndarray of shape (n_columns, n_columns)
        Weighted Gram matrix of the centred rows.

    form : str
        The form that was used.

    Raises
    ------
    ValueError
        If X is not finite, a malformed sparse matrix or so large that squares overflow
        (beyond 1.3e150); if X, y and weights differ in length; if a weight is negative
        or NaN, or none is positive.

    MemoryError
        If a dense array does not fit into this machine's memory. The message has the
        size.

    Notes
    -----
    "primal" and "dual" give equal Q, up to rounding. "class_means" gives another Q: it
    projects the samples on the span of the centred class means, by a projection P, and
    replaces :math:`X_c^\top X_c + \delta I` by :math:`P (X_c^\top X_c) P + \delta P`.
    Features outside of the span can then not cancel within-class noise in the span that
    is correlated with their own. The two Q are equal if the within-class scatter maps
    the span to itself, as for spherical classes.

    "auto" nevertheless uses "class_means" if n and d are larger than 2048: its trees
    are about as accurate as trees of the exact Q, at a fraction of the cost. Classes in
    G groups differ by more than the within-class noise in about G directions, so that a
    few dozen directions suffice for thousands of classes. For the exact Q choose
    "primal" or "dual".

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import ClassStatistics
    >>> stats = ClassStatistics(*load_iris(return_X_y=True))
    >>> stats.proximity().matrix().round(2)
    array([[19.85,  9.06, 21.09],
           [ 9.06, 41.73, -0.79],
           [21.09, -0.79, 29.7 ]])
    """

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        form: str = "auto",
        rank: int | None = None,
        keep_rows: bool = False,
    ):
        rows, labels, weight = check_samples(X, y, sample_weight)
        if rank is not None:
            check_count("rank", rank, 1)
        check_choice("form", form, ("auto", "primal", "dual", "class_means"))
        self.classes, codes = encode_classes(labels)
        n, d = rows.shape
        k = self.classes.size
        if form == "auto":
            if d <= min(n, _MAX_PRIMAL):
                form = "primal"
            elif n <= _MAX_PRIMAL:
                form = "dual"
            else:
                form = "class_means"
        self.form = form
        basis = None
        if rank is None:
            rank = k if k <= _ALL_DIRECTIONS else _DIRECTIONS
        if form == "dual":
            check_memory(8 * n * n, f"a dense {n} x {n} Gram", _PROJECT)
            rows = _dual_coordinates(rows, weight)
        elif form == "class_means" and k > rank:
            room = rows.dtype.itemsize * (rank + 10) * (d + k)
            check_memory(room, f"{d} x {rank} directions", "lower rank")
            basis = leading_directions(weighted_means(rows, codes, weight, k), rank)
            if keep_rows:
                check_memory(8 * n * rank, "the projection", "lower rank")
                rows, basis = np.asarray(rows @ basis, dtype=np.float64), None
        elif form == "class_means":
            check_memory(8 * n * min(k, d), "the projection", _FEWER)
            rows = _class_mean_coordinates(rows, codes, weight)
        d = rows.shape[1] if basis is None else basis.shape[1]
        check_memory(8 * d * d, f"a dense {d} x {d} Gram", _PROJECT)
        check_memory(8 * k * d, f"{k} x {d} class sums", _FEWER)
        self.weight = np.bincount(codes, weight, minlength=k)
        self._one_pass(rows, codes, weight, basis)
        self._rows = None
        if keep_rows:
            order = np.argsort(codes, kind="stable")
            ptr = np.concatenate([[0], np.cumsum(np.bincount(codes, minlength=k))])
            self._rows = rows[order], np.sqrt(weight[order]), ptr

    def _one_pass(self, X, codes, weight, basis) -> None:
        """Compute the sums and Gram matrix of X, or of X @ basis, basis (d, r)."""
        n, d = X.shape[0], X.shape[1] if basis is None else basis.shape[1]

        def rows(lo):
            block = X[lo : lo + _CHUNK]
            return to_dense(block if basis is None else block @ basis)

        k = self.weight.size
        total = self.weight.sum()
        if basis is None and sp.issparse(X) and X.nnz < _SPARSE * n * d:
            sums = to_dense(sum_by_class(X, codes, k, weight))
            gram = to_dense(X.T @ (sp.diags_array(weight) @ X))
            shift = np.zeros(d)
        else:
            # Rows are shifted by an approximate mean: centring only the sums loses
            # digits if the mean is large relative to the spread.
            shift = rows(0).mean(axis=0)
            sums, gram = np.zeros((k, d)), np.zeros((d, d))
            for lo in range(0, n, _CHUNK):
                block = rows(lo) - shift
                w = weight[lo : lo + _CHUNK]
                sums += sum_by_class(block, codes[lo : lo + _CHUNK], k, w)
                block *= np.sqrt(w)[:, None]
                gram += block.T @ block
        mean = sums.sum(axis=0) / total
        self.mean = shift + mean
        self.class_sum = sums - self.weight[:, None] * mean
        self.scatter = gram - total * np.outer(mean, mean)
        self._whitened: tuple[float, NDArray] | None = None

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.weight.size

    @property
    def class_mean(self) -> NDArray:
        """Means of the classes minus the overall mean, (n_classes, n_columns)."""
        return self.class_sum / self.weight[:, None]

    def ridge(self, delta: float) -> float:
        """max(`delta`, a floor that keeps a singular Gram matrix definite)."""
        variance = np.trace(self.scatter) / max(self.scatter.shape[0], 1)
        ridge = max(delta, _RIDGE_FLOOR * variance)
        # For constant features S = 0: any positive ridge gives A = 0.
        return ridge if ridge > 0 else 1.0

    def whitened_means(self, delta: float = 1.0) -> NDArray:
        r"""Centred class means, in coordinates with within-class covariance I.

        Parameters
        ----------
        delta : float, default=1.0
            Ridge >= 0 added to the within-class scatter.

        Returns
        -------
        means : float64 ndarray of shape (n_classes, n_columns)
            :math:`M L^{-\top}` with M the centred means, and
            :math:`LL^\top = (W + \delta I) / n` with W the within-class scatter and n
            the total weight.
        """
        if self._whitened is None or self._whitened[0] != delta:
            mean = self.class_mean
            within = self.scatter - self.class_sum.T @ mean
            within.flat[:: within.shape[0] + 1] += self.ridge(delta)
            within /= self.weight.sum()
            factor = _cholesky(within, _RIDGE_FLOOR * max(np.trace(within), 1e-300))
            white = scipy.linalg.solve_triangular(
                factor, mean.T, lower=True, check_finite=False
            )
            self._whitened = delta, np.ascontiguousarray(white.T)
        return self._whitened[1]

    def proximity(
        self,
        members: ArrayLike | None = None,
        *,
        delta: float = 1.0,
        gram: str = "pooled",
        scatter: NDArray | None = None,
    ) -> ClassProximity:
        r"""Proximity of a subset of the classes, centred within the subset.

        The ridge of a subset is :math:`\delta n_v / n`, with n_v the weight of its
        samples, in proportion to its Gram matrix.

        Parameters
        ----------
        members : array-like of int, default=None
            Distinct indices into `classes`; None means all.

        delta : float, default=1.0
            Ridge δ >= 0 for all classes, in units of the scatter (squared features
            times weight).

        gram : {"pooled", "exact", "root"}, default="pooled"
            Source of the Gram matrix :math:`X_v^\top X_v` of the subset. "pooled": the
            scaled within-class scatter of **all** classes plus the exact scatter of the
            means of the members; it needs no rows, and equals "exact" for the set of
            all classes. "exact": the rows of the members; needs ``keep_rows=True``.
            "root": the matrix of all classes, with the class sums centred again, so
            that Q is a submatrix of the Q of all classes except for the centring.

        scatter : ndarray of shape (n_columns, n_columns), default=None
            The result of ``subset_scatter(members)``, for "exact". None computes it.

        Returns
        -------
        proximity : ClassProximity

        Raises
        ------
        ValueError
            If `members` is empty, has repeats or is out of range; if `delta` is
            negative or `gram` unknown; for "exact" without ``keep_rows=True``.
        """
        check_choice("gram", gram, ("pooled", "exact", "root"))
        check_real("delta", delta, "[0, inf)")
        every = members is None
        index = np.arange(self.n_classes) if every else self._check_members(members)
        weight = self.weight[index]
        share = weight.sum() / self.weight.sum()
        classes = self.classes[index]
        if gram == "pooled":
            means = self.whitened_means(delta)[index]
            means = means - (weight @ means) / weight.sum()
            u, s, _ = np.linalg.svd(
                means * np.sqrt(weight)[:, None], full_matrices=False
            )
            # B = n_v I + PᵀP in whitened coordinates, P = N^(1/2) means = u s vᵀ.
            a = u * (s / np.sqrt(weight.sum() + s**2))
            return ClassProximity(classes, weight, a * np.sqrt(weight)[:, None])
        sums = self.class_sum[index]
        total = sums.sum(axis=0)
        sums = sums - np.outer(weight / weight.sum(), total)
        if gram == "root" or every:
            b, share = self.scatter.copy(), 1.0
        else:
            b = self.subset_scatter(index) if scatter is None else scatter
            b = b - np.outer(total, total / weight.sum())
        b.flat[:: b.shape[0] + 1] += self.ridge(delta) * share
        factor = _cholesky(b, _RIDGE_FLOOR * max(np.trace(b), 1e-300))
        a = scipy.linalg.solve_triangular(
            factor, sums.T, lower=True, check_finite=False
        ).T
        return ClassProximity(classes, weight, np.ascontiguousarray(a))

    def subset_scatter(self, members: ArrayLike) -> NDArray:
        """Weighted Gram matrix of the rows of `members` minus the mean of all samples.

        Parameters
        ----------
        members : array-like of int
            Distinct indices into `classes`.

        Returns
        -------
        scatter : float64 ndarray of shape (n_columns, n_columns)

        Raises
        ------
        ValueError
            If the statistics were made without ``keep_rows=True``, or if `members` is
            invalid as in `proximity`.
        """
        if self._rows is None:
            raise ValueError("gram='exact' needs statistics with keep_rows=True")
        X, root_weight, ptr = self._rows
        index = self._check_members(members)
        rows = np.concatenate([np.arange(ptr[c], ptr[c + 1]) for c in index])
        d = X.shape[1]
        if sp.issparse(X) and X.nnz < _SPARSE * X.shape[0] * d:
            part = sp.diags_array(root_weight[rows]) @ X[rows]
            total = self.class_sum[index].sum(axis=0)
            mass = self.weight[index].sum()
            cross = np.outer(total + mass * self.mean, self.mean)
            return (
                to_dense(part.T @ part)
                - cross
                - cross.T
                + mass * np.outer(self.mean, self.mean)
            )
        gram = np.zeros((d, d))
        for lo in range(0, rows.size, _CHUNK):
            block = rows[lo : lo + _CHUNK]
            part = to_dense(X[block]) - self.mean
            part *= root_weight[block, None]
            gram += part.T @ part
        return gram

    def _check_members(self, members) -> NDArray:
        index = as_ids("members", members, 1, np.int64)
        if index.size == 0:
            raise ValueError("members is empty: give at least one class")
        check_ids("members", index, 0, self.n_classes, "index of a class")
        # np.unique is not needed for sorted members, which builders pass.
        if (index[1:] <= index[:-1]).any() and np.unique(index).size < index.size:
            raise ValueError(f"members must be distinct, got {index}")
        return index


_PROJECT = "use form='class_means'"
_FEWER = "reduce the features"


def _cholesky(matrix, step) -> NDArray:
    """Lower Cholesky factor, with a growing ridge while the matrix is not definite."""
    for _ in range(12):
        try:
            return scipy.linalg.cholesky(matrix, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            matrix = matrix + step * np.eye(matrix.shape[0])
            step *= 10
    raise np.linalg.LinAlgError("the Gram matrix is not positive definite; raise delta")


def _dual_coordinates(X, weight) -> NDArray:
    """Coordinates R (n × r) of the centred rows Xc, with RRᵀ = XcXcᵀ."""
    mean = np.asarray(weight @ X, dtype=np.float64).ravel() / weight.sum()
    if sp.issparse(X):
        cross = X @ mean
        gram = to_dense(X @ X.T) - cross[:, None] - cross + mean @ mean
    else:
        centred = X.astype(np.float64) - mean
        gram = centred @ centred.T
    s2, u = np.linalg.eigh(gram)
    keep = s2 > 1e-14 * max(s2[-1], 0) * len(s2)
    if not keep.any():
        return np.zeros((X.shape[0], 1))
    return u[:, keep] * np.sqrt(s2[keep])


def _class_mean_coordinates(X, codes, weight) -> NDArray:
    """Coordinates of the rows in an orthonormal basis of the centred class means."""
    means = class_means(X, codes, weight)
    means -= means.mean(axis=0)
    s2, u = np.linalg.eigh(means @ means.T)
    keep = s2 > 1e-12 * max(s2[-1], 0)
    if not keep.any():
        return np.zeros((X.shape[0], 1))
    basis = (means.T @ u[:, keep]) / np.sqrt(s2[keep])
    return np.asarray(X @ basis, dtype=np.float64)
