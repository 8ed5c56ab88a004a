"""SPEC: the split by the smallest eigenvector of the proximity matrix."""

from __future__ import annotations

import numpy as np

from sklstruct._compat import StrOptions
from sklstruct.taxonomy._builders._base import TopDownBuilder, leading_vectors

# Relative difference of entries of an eigenvector that may be rounding.
_TIE = 1e-9


class SpectralSplit(TopDownBuilder):
    r"""Top-down bisection by an eigenvector ("spec").

    .. math::

        \min_z z^\top Q z \quad\text{s.t.}\quad z^\top z = K,

    solved by the smallest eigenvector of Q = N - AAᵀ, i.e. the leading left singular
    vector of :math:`N^{-1/2}A`, then cut at a threshold.

    Parameters
    ----------
    threshold : {"zero", "median"}, default="zero"
        Where to cut the eigenvector; the median gives balanced trees. The largest entry
        of the eigenvector is made positive, and an odd class goes with the larger half.
    max_depth : int, default=None
        Largest depth, >= 0. Nodes there become leaves with several classes. None
        splits down to single classes.
    delta : float, default=1.0
        Ridge >= 0 of the proximity at the root; see `ClassStatistics.proximity`.
    normalize : bool, default=True
        Use :math:`N^{-1/2} Q N^{-1/2}`, for classes of unequal size.
    gram : {"pooled", "exact", "root"}, default="pooled"
        Gram matrix below the root; see `ClassStatistics.proximity`. "exact" reads the
        rows again, once per level at most.
    form, rank, max_bytes
        See `ClassStatistics`.

    Raises
    ------
    MemoryError
        From `build`: a dense array of the statistics beyond `max_bytes`.

    References
    ----------
    Nelakanti (2014), thesis, section 4.2.3, equation 4.10.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from sklstruct.taxonomy import SpectralSplit
    >>> SpectralSplit().build(*load_iris(return_X_y=True)).to_nested()
    [[0], [[1], [2]]]
    """

    _parameter_constraints: dict = {
        **TopDownBuilder._parameter_constraints,
        "threshold": [StrOptions({"zero", "median"})],
    }

    def __init__(
        self,
        *,
        threshold="zero",
        max_depth=None,
        delta=1.0,
        normalize=True,
        gram="pooled",
        form="auto",
        rank=512,
        max_bytes=2**31,
    ):
        super().__init__(
            max_depth=max_depth,
            delta=delta,
            normalize=normalize,
            gram=gram,
            form=form,
            rank=rank,
            max_bytes=max_bytes,
        )
        self.threshold = threshold

    def _bisect(self, factor):
        score = oriented(leading_vectors(factor, 1)[0][:, 0])
        if self.threshold == "zero":
            return score
        # By rank, not by value: equal scores must not end up on one side.
        half = np.zeros(score.size)
        half[np.argsort(score, kind="stable")[: score.size // 2]] = 1.0
        return half


def oriented(score):
    """The eigenvector with its largest entry positive, whatever sign LAPACK chose.

    Where z and -z have the same largest entries, the first difference between their
    sorted entries decides, so that the names of the classes do not. They decide only
    where z and -z have the same entries throughout.
    """
    up, down = np.sort(score)[::-1], np.sort(-score)[::-1]
    differ = np.flatnonzero(np.abs(up - down) > _TIE * max(up[0], down[0]))
    if differ.size:
        return score if up[differ[0]] > down[differ[0]] else -score
    return score if score[np.argmax(np.abs(score) > _TIE)] > 0 else -score
