"""Parameters of the penalties that language models and linear models share.

A `Penalty` has parameters and no data. Each problem binds it to its own arithmetic:
`sklstruct.loglinear` to the pairs of a context tree, `sklstruct.linear` to features.
"""

from __future__ import annotations

import numbers
import sys
from abc import ABCMeta, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from ._checks import by_depth, check_reals
from ._compat import BaseEstimator, Interval
from ._docs import shared_docs

# A block of the docstrings of penalties; see `shared_docs`.
DEPTH_WEIGHT = """
depth_weight : float or array-like of shape (depth + 1,), default=1.0
    For language models: factors of the strength by depth k, :math:`d^k` for a number d
    (at most 1e50, where all weights with k > 0 are 0), or the factors themselves, from
    0 to 1e50. A factor of 0 removes the penalty at a depth: ``[0, 1, 1]`` does not
    penalise unigrams.
"""


class Penalty(BaseEstimator, metaclass=ABCMeta):
    r"""Base of the penalties :math:`\Omega` of `StructuredLogLinearLM`.

    `L1`, `L2` and `ElasticNet` are also penalties of `StructuredLogisticRegression`. As
    for any scikit-learn object, the arguments of ``__init__`` are the parameters, so a
    penalty can be cloned, searched over (``penalty__gamma``) and pickled. A penalty
    defines the form of :math:`\Omega`. The strength (`lam` or `C`) and the sign of the
    weights are parameters of the model. To write another penalty for language models,
    derive a class from `Penalty` and set its attribute `bound`.

    Attributes
    ----------
    bound : type
        Class of the penalty bound to a context tree, a subclass of `BoundPenalty`.

    collapsible : bool
        Whether the pairs that a collapsed tree merges have equal weights at an
        optimum.

    count_weight : array-like
        Factors of the strength by adjusted count. None unless a subclass has the
        parameter.

    depth_weight : float or array-like
        Factors of the strength by depth. 1 unless a subclass has the parameter.

    searched : tuple of str
        The parameters of the model that `StructuredLogLinearLMCV` searches by default.
    """

    bound: ClassVar[Any]
    collapsible: ClassVar[bool] = True
    count_weight: ArrayLike | None = None
    depth_weight: float | ArrayLike = 1.0
    searched: ClassVar[tuple[str, ...]] = ("lam", "alpha")
    _parameter_constraints: ClassVar[dict] = {}

    def bind(self, problem: Any) -> Any:
        """This penalty bound to the weights of a problem.

        Parameters
        ----------
        problem : Problem or FeatureProblem
            Pairs of a context tree with counts and strengths, or features.

        Returns
        -------
        bound : object
            The methods that solvers call.
        """
        return problem.bound(self)


class DepthWeighted(Penalty):
    """Base of the penalties with the parameter `depth_weight`."""

    _parameter_constraints: ClassVar[dict] = {
        "depth_weight": [Interval(numbers.Real, 0, None, closed="left"), "array-like"]
    }

    def __init__(self, depth_weight: float | ArrayLike = 1.0) -> None:
        self.depth_weight = depth_weight


class Separable(DepthWeighted):
    """Base of `L1`, `L2`, `ElasticNet`: a sum over the weights."""

    @abstractmethod
    def ratios(self) -> tuple[float, ArrayLike]:
        """(a, b): factors of the l1 term and of the squared l2 term; b may have one
        number per depth.
        """

    def count_weights(self) -> np.ndarray | None:
        """Further factors of the l1 term, for the adjusted counts 1, 2, ..."""
        if self.count_weight is None:
            return None
        return _factors("count_weight", self.count_weight)


class _CountWeighted(Separable):
    """Base of the separable penalties with the parameter `count_weight`."""

    _parameter_constraints: ClassVar[dict] = {
        **Separable._parameter_constraints,
        "count_weight": ["array-like", None],
    }

    def __init__(
        self,
        count_weight: ArrayLike | None = None,
        depth_weight: float | ArrayLike = 1.0,
    ) -> None:
        super().__init__(depth_weight)
        self.count_weight = count_weight

    def _validate_params(self) -> None:
        super()._validate_params()
        self.count_weights()


@shared_docs(depth_weight=DEPTH_WEIGHT)
class L1(_CountWeighted):
    r""":math:`\Omega(w) = \sum_q |w_q|`, q over the weights.

    The penalty sets single weights to zero: weights of pairs of a language model, or of
    features and classes of a linear model. In a language model each pair with a
    positive weight has an absolute discount of `lam` / :math:`\beta` counts.

    Parameters
    ----------
    count_weight : array-like of shape (n_weights,), default=None
        Further factors of the strength, non-negative: of pairs whose adjusted count
        (that of Kneser-Ney smoothing: on inner levels the number of distinct
        predecessors) is 1, 2, ..., n_weights and more. None: 1. For language models.

    {depth_weight}

    Notes
    -----
    On text, begin a search at ``lam=0.5, alpha=0.8``.

    Examples
    --------
    >>> from sklstruct.loglinear import L1, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(penalty=L1(), lam=0.5, alpha=0.8)
    """

    def ratios(self) -> tuple[float, ArrayLike]:
        return 1.0, 0.0


@shared_docs(depth_weight=DEPTH_WEIGHT)
class L2(Separable):
    r""":math:`\Omega(w) = \frac12 \sum_q w_q^2`, q over the weights.

    Parameters
    ----------
    {depth_weight}

    Notes
    -----
    On text, begin a search at ``lam=0.1, alpha=0.7``.

    Examples
    --------
    >>> from sklstruct.loglinear import L2, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(penalty=L2(), lam=0.1, alpha=0.7)
    """

    def ratios(self) -> tuple[float, ArrayLike]:
        return 0.0, 1.0


class ElasticNet(_CountWeighted):
    r"""Sum of absolute values and half of the squares.

    .. math:: \Omega(w) = \sum_q |w_q| + \frac{\gamma}{2} \sum_q w_q^2

    For linear models, scikit-learn's `l1_ratio` r and `C` correspond to
    :math:`\gamma = (1 - r) / r` and C / r.

    In a language model with ``alpha=1`` the strengths of the two terms at depth k are
    :math:`\lambda d_k` (`lam`, `depth_weight`) and :math:`\lambda d_k \gamma_k`. The
    default of `depth_weight` is suitable for words. The absolute term subtracts the
    same discount from every count, as Kneser-Ney smoothing does. The discount of the
    squared term grows with the weight.

    Parameters
    ----------
    gamma : float or array-like of shape (depth + 1,), default=0.5
        Weight :math:`\gamma \ge 0` of the squared term, finite, or one for each depth
        of a language model; 0 is `L1`.

    count_weight : array-like of shape (n_weights,), default=None
        Further factors of the absolute term, non-negative: of pairs whose adjusted
        count (that of Kneser-Ney smoothing: on inner levels the number of distinct
        predecessors) is 1, 2, ..., n_weights and more. None: 1. For language models.

    depth_weight : float or array-like of shape (depth + 1,), default=1.33
        As in `L2`.

    Examples
    --------
    >>> from sklstruct.loglinear import ElasticNet, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(penalty=ElasticNet(gamma=0.3), lam=0.2)
    >>> model.set_params(penalty__gamma=0.4).penalty
    ElasticNet(gamma=0.4)

    More absolute and less squared discount for long contexts:

    >>> net = ElasticNet(
    ...     gamma=[0.6, 0.8, 1.4, 0.7, 0.4],
    ...     count_weight=[1.0, 1.4, 1.0],
    ...     depth_weight=[1.0, 0.9, 1.2, 2.3, 3.1],
    ... )
    >>> model = StructuredLogLinearLM(4, penalty=net, lam=0.17)

    In a linear model:

    >>> from sklstruct.linear import StructuredLogisticRegression
    >>> StructuredLogisticRegression(ElasticNet(gamma=0.3), C=2.0).penalty
    ElasticNet(gamma=0.3)
    """

    searched = ("lam", "penalty__depth_weight", "penalty__gamma")
    _parameter_constraints: ClassVar[dict] = {
        **_CountWeighted._parameter_constraints,
        "gamma": [
            Interval(numbers.Real, 0, sys.float_info.max, closed="both"),
            "array-like",
        ],
    }

    def __init__(
        self,
        gamma: float | ArrayLike = 0.5,
        count_weight: ArrayLike | None = None,
        depth_weight: float | ArrayLike = 1.33,
    ) -> None:
        super().__init__(count_weight, depth_weight)
        self.gamma = gamma

    def _validate_params(self) -> None:
        super()._validate_params()
        self.ratios()

    def ratios(self) -> tuple[float, ArrayLike]:
        if isinstance(self.gamma, numbers.Real):
            return 1.0, float(self.gamma)
        return 1.0, _factors("gamma", self.gamma)


def _factors(name, values):
    """A parameter that is a list of factors as an array, all >= 0 and finite."""
    array = by_depth(name, values)
    check_reals(name, array, "[0, inf)")
    return array
