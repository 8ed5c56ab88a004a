"""Generalised and improved iterative scaling: all weights at once, by a bound."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from ..._docs import shared_docs
from .. import _updates_fast as _fast
from ._base import EVALUATIONS, REST, TOL
from ._descent import DescentSolver, Moves

if TYPE_CHECKING:
    from .._loss import LogLinearLoss
    from .._penalties import BoundPenalty
    from .._problem import Problem


class _ScalingSolver(DescentSolver):
    """All weights at once, each to the minimum of its part of a bound."""

    @abstractmethod
    def _rates(self, problem: Problem) -> np.ndarray:
        """The largest sum of active features at each level that E is split by."""

    def moves(self, loss: LogLinearLoss, penalty: BoundPenalty) -> Moves:
        return _Scaling(loss.problem, penalty, self._rates(loss.problem))


class _Scaling(Moves):
    """Every weight goes to the minimum of its bound."""

    def __init__(
        self, problem: Problem, penalty: BoundPenalty, rates: np.ndarray
    ) -> None:
        self.problem, self.rates = problem, rates
        self.separable = penalty.separable()
        self.shares = np.empty((problem.n_pairs, rates.size))

    def look(self, g: np.ndarray) -> None:
        """Split E, which follows from the gradient, by the levels of deepest pairs."""
        problem, by_level = self.problem, self.rates.size > 1

        def split(k, lo, hi, pushes=False):
            _fast.split_expected(
                lo, hi, k if by_level else 0, pushes, problem.pair_parent,
                problem.beta.at(k), problem.count, g, self.shares,
            )  # fmt: skip

        def push(lo, hi):
            _fast.push_shares(lo, hi, problem.pair_parent, self.shares)

        if by_level:
            problem.upward(split, push, clear=self.shares)
        else:
            problem.sum_over(split)

    def move(self, w: np.ndarray) -> None:
        problem, rates = self.problem, self.rates
        l1, l2 = self.separable

        def scale(k, lo, hi):
            _fast.scale_pairs(
                lo, hi, k if rates.size > 1 else 0, problem.positive, rates,
                self.shares, problem.beta.at(k), l1(k), l2(k), problem.count, w,
            )  # fmt: skip

        problem.sum_over(scale)


@shared_docs(tol=TOL, evaluations=EVALUATIONS, rest=REST)
class GISSolver(_ScalingSolver):
    r"""Generalised iterative scaling, with penalties.

    The features of a sample with class y sum to at most :math:`I = \sum_k \beta_k`, and
    features are not negative. By Jensen's inequality, with a further feature of
    weight 0 that fills each sum up to I, and :math:`\ln x \le x - 1`,

    .. math::
        f(w + d) - f(w) \le \sum_p \frac{\beta_p E(p)}{I}
        \bigl(e^{I d_p} - 1\bigr) - \beta_p\, c(p)\, d_p ,

    a bound in which every weight is by itself. Each moves to the minimum of its
    term and its part of the penalty, where weights are not negative to the minimum
    there. Without a penalty that is :math:`d_p = \ln(c(p) / E(p)) / I` [1]_; with the
    absolute term :math:`a |w|`, and w above 0,
    :math:`\ln((c(p) - a / \beta_p) / E(p)) / I`; with a squared term it is the root of
    a convex function, found by Newton's method. The objective falls at every iteration,
    linearly, and the slower the larger I is and the weaker the penalty: a reference,
    not a solver for large texts.

    An iteration costs one evaluation of loss and gradient and a few exponentials a
    pair; 32 bytes per pair beside the loss.

    For "l1", "l2" and "elastic_net", weights of either sign.

    Parameters
    ----------
    {tol}

    {evaluations}

    {rest}

    References
    ----------
    .. [1] J. Darroch, D. Ratcliff, "Generalized Iterative Scaling for Log-Linear
       Models", Annals of Mathematical Statistics 43, 1972.

    Examples
    --------
    >>> from sklstruct.loglinear import GISSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(
    ...     penalty="l2", solver=GISSolver(tol=1e-3, max_iter=2000)
    ... )
    """

    def _rates(self, problem: Problem) -> np.ndarray:
        return np.array([problem.beta_sum])


@shared_docs(tol=TOL, evaluations=EVALUATIONS, rest=REST)
class IISSolver(_ScalingSolver):
    r"""Improved iterative scaling, with penalties.

    As `GISSolver`, but the bound of a sample uses the sum of its own features,
    :math:`I_j = \sum_{k \le j} \beta_k` where its deepest pair of the class is at depth
    j:

    .. math::
        f(w + d) - f(w) \le \sum_p \sum_j \frac{\beta_p E_j(p)}{I_j}
        \bigl(e^{I_j d_p} - 1\bigr) - \beta_p\, c(p)\, d_p ,

    with :math:`E_j(p)` the part of the expected count of p that belongs to such
    samples [1]_. One pass from the leaves up splits E(p): the samples whose deepest
    pair is p are those of p without those of its child pairs. The minimum of each term
    is the root of a convex function, found by Newton's method. Steps are longer than
    those of GIS wherever most samples match short contexts only. On a collapsed tree,
    where depths differ within a level, :math:`I_j` is the largest of the level.

    An iteration costs one evaluation of loss and gradient and, for a pair of depth k, a
    few times m - k exponentials; 24 + 8 (m + 1) bytes per pair beside the loss.

    For "l1", "l2" and "elastic_net", weights of either sign.

    Parameters
    ----------
    {tol}

    {evaluations}

    {rest}

    References
    ----------
    .. [1] S. Della Pietra, V. Della Pietra, J. Lafferty, "Inducing Features of Random
       Fields", IEEE Transactions on Pattern Analysis and Machine Intelligence 19, 1997.

    Examples
    --------
    >>> from sklstruct.loglinear import IISSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(
    ...     penalty="l2", solver=IISSolver(tol=1e-3, max_iter=2000)
    ... )
    """

    def _rates(self, problem: Problem) -> np.ndarray:
        beta, n_levels = problem.beta.of_nodes, problem.n_levels
        if problem.beta.a_level:
            return np.cumsum(beta)
        total, rates = beta.copy(), np.empty(n_levels)
        for k in range(n_levels):
            here = problem.tree.level(k)
            if k:
                total[here] += total[problem.parent[here]]
            rates[k] = total[here].max()
        return rates
