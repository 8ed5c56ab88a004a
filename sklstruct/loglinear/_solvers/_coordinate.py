"""One weight after the other: sequential scaling, cyclic coordinate descent."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

import numpy as np

from ..._docs import shared_docs
from .. import _updates_fast as _fast
from ._base import REST, SWEEPS, TOL
from ._descent import DescentSolver, Moves

if TYPE_CHECKING:
    from .._loss import LogLinearLoss
    from .._penalties import BoundPenalty

# Contexts that the updates pass over before Python can handle Ctrl-C.
SLICE = 1 << 25


class _CoordinateSolver(DescentSolver):
    """Each weight to the minimum of a bound, or by a Newton step."""

    newton: ClassVar[bool]

    def moves(self, loss: LogLinearLoss, penalty: BoundPenalty) -> Moves:
        return _Columns(loss, penalty, self.newton)


class _Columns(Moves):
    """The pairs of each class in the order of a depth-first walk over the contexts.

    In this order the contexts at or below a node are a range. A pair of the node is
    part of the normalisers of these contexts alone.

    A move updates every weight once, class by class.
    """

    def __init__(
        self, loss: LogLinearLoss, penalty: BoundPenalty, newton: bool
    ) -> None:
        self.loss, self.newton = loss, newton
        self.problem = problem = loss.problem
        tree, pairs = problem.tree, problem.pairs
        first, size = _walk(problem)
        self.ends = np.flatnonzero(problem.node_weight > 0.0)
        self.ends = self.ends[np.argsort(first[self.ends], kind="stable")]
        node = pairs.nodes()
        # A context is behind the shorter ones, which may begin where it does.
        self.order = np.lexsort((tree.levels()[node], first[node], pairs.target))
        node = node[self.order]
        self.column = np.concatenate(
            [[0], np.cumsum(np.bincount(pairs.target, minlength=pairs.n_classes))]
        ).astype(np.int32)
        self.span = np.ascontiguousarray(
            np.stack([first[node], first[node] + size[node]], axis=1).astype(np.int32)
        )
        self.terms = np.empty((pairs.n_pairs, 4))
        l1, l2 = penalty.separable()
        of_level = np.empty((pairs.n_pairs, 4))

        def fill(k, lo, hi):
            here = of_level[lo:hi]
            here[:, 0] = problem.beta.of(lo, hi, k)
            here[:, 1] = problem.count[lo:hi]
            for j, values in ((2, l1(k)), (3, l2(k))):
                here[:, j] = values if values.size == 1 else values[lo:hi]

        problem.sum_over(fill)
        np.take(of_level, self.order, axis=0, out=self.terms)
        self.weight = problem.node_weight[self.ends]
        self.scores = np.empty(self.ends.size)
        cost = np.cumsum(self.span[:, 1].astype(np.int64) - self.span[:, 0])
        owner = (cost[self.column[1:] - 1] - 1) // SLICE
        cuts = np.flatnonzero(np.diff(owner, prepend=-1, append=-1))
        self.slices = list(zip(cuts[:-1].tolist(), cuts[1:].tolist()))

    def look(self, g: np.ndarray) -> None:
        """Do nothing: a sweep computes the expected counts itself."""

    def move(self, w: np.ndarray) -> None:
        # Computed again in every sweep: updates alone would let rounding add up.
        _, es, z = self.loss.value_and_scores(w)
        es, z, own = es[self.order], z[self.ends], w[self.order]
        for first, last in self.slices:
            _fast.sweep_columns(
                first, last, self.newton, self.problem.positive, self.column, self.span,
                self.terms, es, self.weight, own, z, self.scores,
            )  # fmt: skip
        w[self.order] = own


def _walk(problem):
    """Of the contexts at which samples end, for each node: the number before it in a
    depth-first walk, and the number at or below it."""
    tree = problem.tree
    ends = (problem.node_weight > 0.0).astype(np.int64)
    size = tree.add_up(ends.astype(np.float64)).astype(np.int64)
    first = np.zeros(tree.n_nodes, dtype=np.int64)
    for k in range(1, problem.n_levels):
        here = tree.level(k)
        parent = problem.parent[here]
        total = np.concatenate([[0], np.cumsum(size[here])[:-1]])
        eldest = tree.child_ptr[parent] - here.start
        first[here] = first[parent] + ends[parent] + total - total[eldest]
    return first, size


@shared_docs(tol=TOL, sweeps=SWEEPS, rest=REST)
class SCISSolver(_CoordinateSolver):
    r"""Sequential conditional (generalised) iterative scaling, with penalties.

    One weight at a time, with the normalisers always up to date. A feature alone sums
    to its own :math:`\beta_p`, so that the bound of `GISSolver` holds with :math:`I =
    \beta_p`:

    .. math::
        f(w + d) - f(w) \le E(p) \bigl(e^{\beta_p d} - 1\bigr) - \beta_p\, c(p)\, d ,

    and the steps are longer; without a penalty :math:`d = \ln(c(p) / E(p)) / \beta_p`
    [1]_. The weights of a class are taken in the order of a depth-first walk over the
    contexts. In that order the contexts in which a feature is active are a range: its
    expected count, and the change of the normalisers, are two sequential passes over
    that range.

    A sweep costs the sum over the pairs of the number of contexts at or below theirs,
    most of it for the V unigrams, which are active in every context: V times the number
    of contexts. 88 bytes per pair beside the loss, 32 per context. One thread.

    For "l1", "l2" and "elastic_net", weights of either sign.

    Parameters
    ----------
    {tol}

    {sweeps}

    {rest}

    References
    ----------
    .. [1] J. Goodman, "Sequential Conditional Generalized Iterative Scaling", ACL
       2002.

    Examples
    --------
    >>> from sklstruct.loglinear import SCISSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(
    ...     penalty="l2", solver=SCISSolver(tol=1e-3, max_iter=500)
    ... )
    """

    newton = False


@shared_docs(tol=TOL, sweeps=SWEEPS, rest=REST)
class CoordinateDescentSolver(_CoordinateSolver):
    r"""Cyclic coordinate descent, a guarded Newton step for each weight.

    As `SCISSolver`, with the curvature of the loss itself instead of that of its bound
    [1]_. Along one weight with :math:`\beta = \beta_p`,

    .. math::
        f' = \beta \bigl(E(p) - c(p)\bigr), \qquad
        f'' = h = \beta^2 \sum_x t(x)\, P_x (1 - P_x), \qquad |f'''| \le \beta f'' ,

    so that a step d changes the slope by at most
    :math:`h\, (e^{\beta |d|} - 1) / \beta`. The minimum of the bound that this gives,
    with the penalty, is a Newton step where it is short, never goes too far, and needs
    neither a line search nor a second pass: the objective falls at every update.

    A sweep costs the same passes as one of `SCISSolver`, and the same memory. One
    thread.

    For "l1", "l2" and "elastic_net", weights of either sign.

    Parameters
    ----------
    {tol}

    {sweeps}

    {rest}

    References
    ----------
    .. [1] F.-L. Huang, C.-J. Hsieh, K.-W. Chang, C.-J. Lin, "Iterative Scaling and
       Coordinate Descent Methods for Maximum Entropy Models", Journal of Machine
       Learning Research 11, 2010.

    Examples
    --------
    >>> from sklstruct.loglinear import CoordinateDescentSolver, StructuredLogLinearLM
    >>> model = StructuredLogLinearLM(
    ...     penalty="l1", solver=CoordinateDescentSolver(tol=1e-3, max_iter=500)
    ... )
    """

    newton = True
