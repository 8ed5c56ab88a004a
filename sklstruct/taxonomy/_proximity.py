r"""Proximity of classes: the residual of a linear model that separates the classes.

With Y the n × K class indicators, Xc the centred features, N the diagonal matrix of
class weights, S = YᵀXc and B = XcᵀXc + δI = LLᵀ,

    Q = Yᵀ(I - Xc B⁻¹ Xcᵀ)Y = N - S B⁻¹ Sᵀ = N - AAᵀ,   A = S L⁻ᵀ.

Sample weights w are weights in all sums, so a weight of 2 is a sample seen twice.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import as_ids, check_ids, check_length, check_memory


class ClassProximity:
    r"""Residual matrix Q of groups of classes in the factored form N - AAᵀ.

    .. math::

        Q = Y^\top\bigl(I_n - X_c (X_c^\top X_c + \delta I)^{-1} X_c^\top\bigr) Y
          = N - A A^\top

    :math:`z^\top Q z` is the ridge-regression residual of the sign vector z over the
    classes, which is small if a linear model predicts the split z well.
    :math:`-Q_{pq} = a_p^\top a_q`, with :math:`a_p` the rows of A, is large if classes
    p and q are close.

    Parameters
    ----------
    classes : array-like of shape (n_classes,)
        Labels of the rows.

    weight : array-like of shape (n_classes,)
        Total sample weight of each class, the diagonal of N.

    factor : array-like of shape (n_classes, rank)
        The matrix A.

    Attributes
    ----------
    classes, weight, factor : ndarray
        As given.

    References
    ----------
    Nelakanti (2014), Modélisation du langage à l'aide de pénalités structurées, thesis,
    section 4.2.1, with the identity of size n where equation 4.4 prints K.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.taxonomy import ClassStatistics
    >>> X, y = np.array([[0.0], [1.0], [10.0]]), ["a", "b", "c"]
    >>> near = ClassStatistics(X, y).proximity()
    >>> [round(float(near.residual(z)), 3) for z in ([1, 1, -1], [1, -1, 1])]
    [0.398, 2.539]
    """

    def __init__(self, classes: ArrayLike, weight: ArrayLike, factor: ArrayLike):
        self.classes = np.asarray(classes)
        self.weight = np.asarray(weight, dtype=np.float64)
        self.factor = np.asarray(factor, dtype=np.float64)
        k = self.weight.size
        if self.factor.ndim != 2 or not self.factor.shape[0] == self.classes.size == k:
            raise ValueError(
                f"classes, weight and factor must have one entry per class, got "
                f"shapes {self.classes.shape}, {self.weight.shape} and "
                f"{self.factor.shape}"
            )

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return self.weight.size

    @property
    def normalized_factor(self) -> NDArray:
        r""":math:`N^{-1/2} A`, the factor of :math:`N^{-1/2} Q N^{-1/2}`.

        For classes of unequal size.
        """
        return self.factor / np.sqrt(self.weight)[:, None]

    def matrix(self) -> NDArray:
        """The dense matrix Q.

        Returns
        -------
        q : float64 ndarray of shape (n_classes, n_classes)

        Raises
        ------
        MemoryError
            If Q does not fit into this machine's memory. The message has the size.
        """
        k = self.n_classes
        check_memory(
            8 * k * k, f"a dense {k} x {k} proximity matrix", "work with the factor A"
        )
        q = -(self.factor @ self.factor.T)
        q.flat[:: k + 1] += self.weight
        return q

    def residual(self, z: ArrayLike) -> float:
        r""":math:`z^\top Q z` without Q.

        Parameters
        ----------
        z : array-like of shape (n_classes,)
            Any vector over the classes; a vector of ±1 is a split.

        Returns
        -------
        value : float
        """
        z = np.asarray(z, dtype=np.float64)
        return float(np.sum(self.weight * z * z) - np.sum((z @ self.factor) ** 2))

    def merge(self, group: ArrayLike) -> ClassProximity:
        r"""The proximity of groups of classes: :math:`U^\top Q U`.

        U are the indicators of the groups. The result is exactly the Q that samples
        labelled by the groups have.

        Parameters
        ----------
        group : array-like of int, shape (n_classes,)
            Group of each class, 0 ... n_groups - 1, with no empty group. The label of a
            group is the label of its first class.

        Returns
        -------
        proximity : ClassProximity

        Raises
        ------
        ValueError
            If `group` is not one integer >= 0 for each class, or a group is empty.
        """
        group = as_ids("group", group, 1, np.int64)
        check_length("group", group, self.n_classes, "one per class")
        check_ids("group", group, 0, self.n_classes, "group")
        order = np.argsort(group, kind="stable")
        size = np.bincount(group)
        if not size.all():
            raise ValueError(f"group {np.argmin(size)} is empty")
        start = np.cumsum(size) - size
        return ClassProximity(
            self.classes[order[start]],
            np.bincount(group, self.weight),
            np.add.reduceat(self.factor[order], start, axis=0),
        )
