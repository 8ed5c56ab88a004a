"""Generalised and improved iterative scaling: all weights at once, by a bound."""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

import numpy as np

from .. import _updates_fast as _fast
from ._base import (
    DIAGONAL,
    Best,
    Report,
    Result,
    Solver,
    relative_residual,
    resume,
)

if TYPE_CHECKING:
    from ..._checkpoint import Keeper
    from .._loss import LogLinearLoss
    from .._penalties import BoundPenalty
    from .._problem import Problem


class _ScalingSolver(Solver):
    """The loop of both: evaluate, then move every weight to the minimum of its bound.

    The objective falls at every iteration, so there is nothing to search for, to
    restart or to choose.
    """

    needs = ("step", "separable")
    resumable = True

    def __init__(self, tol: float | None = None, max_iter: int | None = None) -> None:
        self.tol = tol
        self.max_iter = max_iter

    @abstractmethod
    def _rates(self, problem: Problem) -> np.ndarray:
        """What active features sum to at most, at each of the levels that E is split
        by."""

    def solve(
        self,
        loss: LogLinearLoss,
        penalty: BoundPenalty,
        w: np.ndarray,
        report: Report,
        keeper: Keeper | None = None,
    ) -> Result:
        problem = loss.problem
        l1, l2 = penalty.separable()
        rates = self._rates(problem)
        shares = np.empty((problem.n_pairs, rates.size))
        g, before = np.empty_like(w), w.copy()
        best = Best()
        start, state = resume(keeper, self.max_iter)
        if state is not None:
            w[:], before, best = state["w"], state["before"], Best.of_state(state)

        def move(k, lo, hi):
            _fast.scale_pairs(
                lo, hi, k if rates.size > 1 else 0, problem.positive, rates, shares,
                problem.beta.at(k), l1(k), l2(k), problem.count, w,
            )  # fmt: skip

        for iteration in range(start, self.max_iter):
            if keeper is not None:
                keeper.save(iteration=iteration, w=w, before=before, **best.state())
            f = loss.value_and_gradient(w, g)
            # Without the step that it computes: g holds the step's place.
            _split(problem, g, shares)
            squared, value = penalty.step(DIAGONAL, w, g, g)
            objective, optimality = f + value, relative_residual(squared, problem)
            best.update(objective, optimality, before)
            stop = report(iteration, best.objective, optimality)
            if optimality <= self.tol:
                best.history[-1] = objective
                return Result(w, best.history, objective, optimality, "converged")
            if stop:
                return best.result(w, "stopped")
            if iteration < self.max_iter - 1:
                before[:] = w
                problem.sum_over(move)
        return best.result(w, "max_iter")


def _split(problem, g, shares):
    """E of every pair, by the level of the deepest pair if shares has such columns."""
    if shares.shape[1] == 1:

        def split(k, lo, hi):
            _fast.split_expected(
                lo, hi, 0, False, problem.pair_parent, problem.beta.at(k),
                problem.count, g, shares,
            )  # fmt: skip

        problem.sum_over(split)
        return

    def up(k, lo, hi, push):
        _fast.split_expected(
            lo, hi, k, push, problem.pair_parent, problem.beta.at(k), problem.count, g,
            shares,
        )  # fmt: skip

    def push(lo, hi):
        _fast.push_shares(lo, hi, problem.pair_parent, shares)

    problem.upward(up, push, clear=shares)


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
    pair; 32 bytes a pair beside the loss.

    For "l1", "l2" and "elastic_net", weights of either sign.

    Parameters
    ----------
    tol : float, default=None
        Tolerance on the optimality residual, at least 0. None: `tol` of the model.

    max_iter : int, default=None
        Largest number of evaluations of loss and gradient, at least 1. None:
        `max_iter` of the model.

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


class IISSolver(_ScalingSolver):
    r"""Improved iterative scaling, with penalties.

    As `GISSolver`, but each sample is bounded by what its own features sum to,
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
    few times m - k exponentials; 24 + 8 (m + 1) bytes a pair beside the loss.

    For "l1", "l2" and "elastic_net", weights of either sign.

    Parameters
    ----------
    tol : float, default=None
        Tolerance on the optimality residual, at least 0. None: `tol` of the model.

    max_iter : int, default=None
        Largest number of evaluations of loss and gradient, at least 1. None:
        `max_iter` of the model.

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
