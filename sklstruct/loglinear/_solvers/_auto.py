"""Solvers that choose a method by the penalty."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._docs import shared_docs
from ..._penalties import Separable
from ._base import EVALUATIONS, REST, TOL, Job, Result, Solver
from ._diagonal import DiagonalSolver
from ._fista import FistaSolver
from ._tree_metric import TreeMetricSolver

if TYPE_CHECKING:
    from .._penalties import Penalty

# In order of speed. `DiagonalSolver` needs the fewest methods of a penalty.
CANDIDATES: tuple[type[Solver], ...] = (TreeMetricSolver, DiagonalSolver, FistaSolver)


class _ChoosingSolver(Solver):
    """Base of the solvers that are the first of `CANDIDATES` that fits."""

    def chosen(self, penalty: Penalty, positive: bool, prior: bool = False) -> Solver:
        fitting = (k for k in CANDIDATES if k().fits(penalty, positive, prior))
        # For a penalty that no solver fits, the error of DiagonalSolver names what the
        # penalty lacks.
        return next(fitting, DiagonalSolver)(**self.get_params(deep=False))

    def solve(self, job: Job, w: np.ndarray) -> Result:
        problem = job.problem
        prior = problem.offset is not None
        kind = self.chosen(job.penalty.penalty, problem.positive, prior)
        return kind.solve(job, w)


@shared_docs(tol=TOL, evaluations=EVALUATIONS, rest=REST)
class AutoSolver(_ChoosingSolver):
    """The first of `TreeMetricSolver`, `DiagonalSolver`, `FistaSolver` that can fit.

    Parameters
    ----------
    {tol}

    {evaluations}

    {rest}

    Examples
    --------
    >>> from sklstruct.loglinear import AutoSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(solver=AutoSolver(tol=1e-4, max_iter=1000))
    >>> model.set_params(solver__tol=1e-5).solver
    AutoSolver(max_iter=1000, tol=1e-05)
    """

    resumable = True


@shared_docs(tol=TOL, rest=REST)
class ActiveSetSolver(_ChoosingSolver):
    """A solver that builds only the part of the tree that can have non-zero weights.

    The children of a pair are counted only if the optimality condition of their group
    allows a weight above 0. The result is the optimum of the whole tree. The larger
    `lam` is, the smaller is the part of the tree that is built. The fitted model has
    only pairs with a non-zero weight. The solver needs a penalty with an absolute term
    and without `count_weight`, and non-negative weights.

    Parameters
    ----------
    {tol}

    max_iter : int, default=300
        Largest number of evaluations of loss and gradient in each round of growth, at
        least 1.

    {rest}

    Notes
    -----
    `AutoSolver` solves the rounds; rounds that only show where to grow stop at ten
    times `tol`. The solver saves memory for windows and sentences, but not for a path
    matrix, whose tree already exists. In addition to the built pairs, it needs 32 bytes
    per sample, and 100 bytes while children are counted. On text, the tree has all
    pairs that were seen more often than about :math:`\\lambda / \\beta` times. The tree
    grows from the empty context into the past, as the groups of the tree penalties do;
    the groups of [1]_ extend into the future, along the arcs of a left-to-right
    automaton. Checkpoints are not supported.

    References
    ----------
    .. [1] R. Cotterell, J. Eisner, "Penalized expectation propagation for graphical
       models over strings", NAACL 2015, section 6.1.

    Examples
    --------
    >>> from sklstruct.loglinear import StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(penalty="tree_l2", lam=4.0, solver="active_set")
    """

    needs = ("alone", "coupling")
    signed = False
    grows = True

    def refusal(self, penalty: Penalty, positive: bool) -> str | None:
        if penalty.count_weight is not None:
            return "count_weight needs the adjusted counts of the whole tree"
        if isinstance(penalty, Separable) and penalty.ratios()[0] == 0.0:
            return "without an absolute term no weight is exactly zero"
        return super().refusal(penalty, positive)
