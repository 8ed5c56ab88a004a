"""The sum of Euclidean norms over subtrees of the pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._docs import shared_docs
from ..._penalties import DEPTH_WEIGHT, DepthWeighted, Penalty
from ...prox import _tree_prox_fast as _prox
from .. import _solver_fast as _fast
from ._base import BoundPenalty, conjugate_by_prox
from ._separable import ByLevel, separable_step

if TYPE_CHECKING:
    from .._problem import Problem

_ONE = np.ones(1)
_ZERO = np.zeros(1)

# Groups with smaller norms use the exact operator in the last phase; weights are of
# order 1.
THRESHOLD = 1e-2


def _no_weight(level):
    return _ZERO


class BoundTreeL2(BoundPenalty):
    r"""The exact operator needs one metric value per word, which is useless on text.

    Instead, :math:`\|v\| \le \tfrac12 (\|v\|^2/\eta + \eta)`, tight at
    :math:`\eta = \|v\|`, makes groups separable with the quadratic weight
    :math:`\rho_p = \sum_{g \ni p} \lambda_g / \eta_g`:

    - with epsilon > 0, for all groups, :math:`\eta_g^2 = \|y_g\|^2 +
      \varepsilon^2`. The groups of the deepest level are single weights and keep
      their exact norm (soft threshold), so most zeros are exact from the start;
    - with epsilon = 0, for the groups with :math:`\|y_g\|` above a threshold,
      where the norm is smooth. The subtrees below it are near zero, one metric
      value suits each, and the exact operator decides which vanish. A fixed point
      of this step is a minimum of the penalised loss itself.
    """

    sharded = True
    smoothed = True
    coupling = 2.0

    def __init__(self, penalty: Penalty, problem: Problem) -> None:
        super().__init__(penalty, problem)
        self._square = np.empty(problem.n_pairs)  # squared norms, then rho
        self._exact = None  # working arrays of the exact step

    def _strength(self, level):
        return float(self.problem.strength.at(level)[0])

    def _leaf_l1(self, level):
        last = self.problem.n_levels - 1
        return self.problem.strength.at(level) if level == last else _ZERO

    def step(
        self,
        kappa: float,
        y: np.ndarray,
        g: np.ndarray,
        out: np.ndarray,
        epsilon: float = 0.0,
    ) -> tuple[float, float]:
        value = self.value(y)  # leaves the squared norms in _square
        if epsilon == 0.0:
            return self._exact_step(kappa, y, g, out), value
        problem, square = self.problem, self._square
        last = problem.n_levels - 1

        def down(k, lo, hi):
            _fast.group_weights(
                lo, hi, self._strength(k), k < last, epsilon, problem.pair_parent,
                square,
            )  # fmt: skip

        problem.downward(down)
        squared, _ = separable_step(
            problem, self._leaf_l1, _no_weight, kappa, y, g, square, out
        )
        return squared, value

    def quadratic(self, epsilon: float) -> tuple[ByLevel, ByLevel, np.ndarray]:
        l1 = self._leaf_l1 if epsilon > 0.0 else _no_weight
        return l1, _no_weight, self._square

    def _exact_step(self, kappa, y, g, out):
        """The step from the squared norms of y; its squared residual."""
        problem = self.problem
        parent, count = problem.pair_parent, problem.count
        if self._exact is None:
            self._exact = (
                np.empty(y.size), np.empty(y.size), np.empty(y.size),
                np.empty(y.size, dtype=np.int32),
            )  # fmt: skip
        rho = self._square
        metric, group_kappa, state, cut = self._exact

        def split(k, lo, hi):
            _fast.split_groups(
                lo, hi, kappa, problem.scale.at(k), self._strength(k), THRESHOLD,
                parent, count, rho, metric, group_kappa, cut,
            )  # fmt: skip

        def centres(k, lo, hi):
            _fast.forest_centres(
                lo, hi, problem.positive, rho, metric, y, g, group_kappa, out
            )

        def residual(k, lo, hi):
            return _fast.mapping_residual(lo, hi, metric, count, y, out)

        problem.downward(split)
        problem.sum_over(centres)
        self._shrink(cut, group_kappa, state, out)
        return problem.sum_over(residual)

    def _shrink(self, parent, kappa, state, out):
        """The exact operator on a forest, in place."""

        def up(k, lo, hi):
            _prox.tree_l2_up(parent, kappa, _ONE, out, state, lo, hi)

        def down(k, lo, hi):
            _prox.tree_l2_down(parent, kappa, out, state, lo, hi)

        self.problem.upward(up, state)
        self.problem.downward(down)

    def alone(self, lo: int, hi: int, level: int) -> tuple[np.ndarray, np.ndarray]:
        return self.problem.strength.of(lo, hi, level), np.zeros(1)

    def value(self, w: np.ndarray) -> float:
        problem, state = self.problem, self._square
        parent = problem.pair_parent

        def up(k, lo, hi):
            return _prox.tree_norm_up(
                parent, problem.strength.at(k), _ONE, w, state, False, lo, hi
            )

        return problem.upward(up, state)

    def conjugate(self, v: np.ndarray) -> float:
        return conjugate_by_prox(self, v)

    def prox(self, v: np.ndarray, metric: np.ndarray, out: np.ndarray) -> np.ndarray:
        """Exact where the metric is the same for all pairs of a class."""
        if out is not v:
            out[:] = v
        kappa = np.empty_like(metric)

        def divide(k, lo, hi):
            np.divide(
                self.problem.strength.of(lo, hi, k), metric[lo:hi], out=kappa[lo:hi]
            )

        self.problem.sum_over(divide)
        self._shrink(self.problem.pair_parent, kappa, self._square, out)
        return out


@shared_docs(depth_weight=DEPTH_WEIGHT)
class TreeL2(DepthWeighted):
    r""":math:`\Omega(w) = \sum_q \|w_{subtree(q)}\|_2`, q over the pairs.

    subtree(q) are q and the pairs of the same class whose context ends in the context
    of q. The weights of whole subtrees become zero. Weights of long contexts are in
    more groups and are penalised more. The penalty cannot be fitted on a collapsed
    tree, because the weights of merged suffixes would not be equal.

    Parameters
    ----------
    {depth_weight}

    Notes
    -----
    On text, begin a search at ``lam=0.9, alpha=1.2``.

    References
    ----------
    .. [1] A. Nelakanti, C. Archambeau, J. Mairal, F. Bach, G. Bouchard, "Structured
       Penalties for Log-linear Language Models", EMNLP 2013, section 3.

    Examples
    --------
    >>> from sklstruct.loglinear import StructuredLogLinearLM, TreeL2
    >>> model = StructuredLogLinearLM(penalty=TreeL2(), lam=0.9, alpha=1.2)
    """

    bound = BoundTreeL2
    collapsible = False
    searched = ("lam", "alpha", "penalty__depth_weight")
