"""TreePenalty: nested groups as a penalty of skglm."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ._arguments import check_flag, check_number, check_power
from ._tree_prox import norm_tree_l2, norm_tree_linf, prox_tree_l2, prox_tree_linf

MISSING = (
    "tree_penalty needs skglm, which is not installed; install it with "
    "pip install 'sklstruct[skglm]'"
)


def tree_penalty(
    parents: ArrayLike,
    alpha: float,
    *,
    weights: float | ArrayLike = 1.0,
    p: float = 2,
    positive: bool = False,
) -> Any:
    r"""Nested groups as a penalty for the solvers of skglm.

    .. math::
        \Omega(w) = \alpha \sum_g a_g \|w_{T(g)}\|_p

    where :math:`T(g)` has feature g and all features below it. If the weights of a
    group vanish, feature g and all features below it leave the model together.

    Parameters
    ----------
    parents : array-like of int, shape (n_features,)
        Parent of each feature, -1 for a root; any forest in any numbering.

    alpha : float
        Strength, finite and >= 0.

    weights : float or array-like of shape (n_features,), default=1.0
        Weights a of the groups, finite and >= 0; 0 for features without a group of
        their own.

    p : {2, inf}, default=2
        Norm within a group.

    positive : bool, default=False
        Only weights w >= 0.

    Returns
    -------
    penalty : object
        With the methods of skglm's penalties, for
        ``FISTA(opt_strategy="fixpoint")``, alone or in a
        ``GeneralizedLinearEstimator``.

    Raises
    ------
    ImportError
        If skglm is not installed.

    ValueError
        Naming the parameter. The number of features is checked when the penalty is
        used.

    Notes
    -----
    skglm compiles penalties by Numba. The compiled code calls the operators of this
    package, which costs some microseconds for each call.

    References
    ----------
    Q. Bertrand, Q. Klopfenstein, P.-A. Bannier, G. Gidel, M. Massias, "Beyond L1:
    faster and better sparse models with skglm", NeurIPS 2022.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.prox import tree_penalty
    >>> penalty = tree_penalty([-1, 0, 0], alpha=0.5)
    >>> penalty.value(np.array([3.0, 4.0, 0.0]))
    4.5
    """
    p = check_power(p, (2.0, np.inf))
    alpha = check_number(alpha, "alpha")
    positive = check_flag(positive, "positive")
    parents = np.asarray(parents)
    n = parents.size
    norm_tree_l2(np.zeros(n), parents, weights)  # checks both
    try:
        penalty = _penalty_class()
    except ImportError as exc:
        raise ImportError(MISSING) from exc
    weights = np.ascontiguousarray(np.broadcast_to(weights, (n,)), dtype=np.float64)
    parents = np.ascontiguousarray(parents, dtype=np.int32)
    return penalty(alpha, parents, weights, p == np.inf, positive)


def _operator(v, parents, kappa, largest, positive):
    prox = prox_tree_linf if largest else prox_tree_l2
    return prox(v, parents, kappa, positive=positive)


def _norm(v, parents, weights, largest):
    return (norm_tree_linf if largest else norm_tree_l2)(v, parents, weights)


_CLASSES: list[type] = []


def _penalty_class():
    """The class, made once, at first use: Numba compiles a class by its identity."""
    if _CLASSES:
        return _CLASSES[0]
    from numba import bool_, float64, int32, njit, objmode
    from skglm.penalties.base import BasePenalty

    @njit
    def call_operator(v, parents, kappa, largest, positive):
        with objmode(out="float64[:]"):
            out = _operator(v, parents, kappa, largest, positive)
        return out

    @njit
    def call_norm(v, parents, weights, largest):
        with objmode(out="float64"):
            out = _norm(v, parents, weights, largest)
        return out

    class TreePenalty(BasePenalty):
        """Nested groups; see `tree_penalty`."""

        def __init__(self, alpha, parents, weights, largest, positive):
            self.alpha = alpha
            self.parents = parents
            self.weights = weights
            self.largest = largest
            self.positive = positive

        def get_spec(self):
            return (
                ("alpha", float64),
                ("parents", int32[::1]),
                ("weights", float64[::1]),
                ("largest", bool_),
                ("positive", bool_),
            )

        def params_to_dict(self):
            return {
                "alpha": self.alpha,
                "parents": self.parents,
                "weights": self.weights,
                "largest": self.largest,
                "positive": self.positive,
            }

        def value(self, w):
            return self.alpha * call_norm(w, self.parents, self.weights, self.largest)

        def prox_vec(self, x, stepsize):
            kappa = stepsize * self.alpha * self.weights
            return call_operator(x, self.parents, kappa, self.largest, self.positive)

        def is_penalized(self, n_features):
            return np.ones(n_features, np.bool_)

        def generalized_support(self, w):
            return w != 0

    _CLASSES.append(TreePenalty)
    return TreePenalty
