"""The sum of maxima over subtrees of the pairs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..._docs import shared_docs
from ..._penalties import DEPTH_WEIGHT, DepthWeighted, Penalty
from ...prox import _tree_prox_fast as _prox
from ._base import ProximalPenalty

if TYPE_CHECKING:
    from .._problem import Problem


class BoundTreeLinf(ProximalPenalty):
    """Its operator clips subtrees to a common level, which composes over nested
    groups in any diagonal metric."""

    coupling = 1.0

    def __init__(self, penalty: Penalty, problem: Problem) -> None:
        super().__init__(penalty, problem)
        self._slots = _prox.tree_linf_slots(problem.n_pairs)
        self._state = np.empty(problem.n_pairs)

    def alone(self, lo: int, hi: int, level: int) -> tuple[np.ndarray, np.ndarray]:
        return self.problem.strength.of(lo, hi, level), np.zeros(1)

    def value(self, w: np.ndarray) -> float:
        problem, state = self.problem, self._state
        parent = problem.pair_parent

        def up(k, lo, hi):
            weight = problem.strength.at(k)
            return _prox.tree_norm_up(parent, weight, weight, w, state, True, lo, hi)

        return problem.upward(up, state)

    def prox(self, v: np.ndarray, metric: np.ndarray, out: np.ndarray) -> np.ndarray:
        problem, slots = self.problem, self._slots
        parent = problem.pair_parent
        if out is not v:
            out[:] = v

        def up(k, lo, hi):
            _prox.tree_linf_up(
                parent, problem.strength.at(k), metric, out, slots, lo, hi, k > 1
            )

        def push(lo, hi):
            _prox.tree_linf_push(parent, slots, lo, hi)

        def down(k, lo, hi):
            _prox.tree_linf_down(parent, out, slots, lo, hi)

        problem.upward(up, push=push)
        problem.downward(down)
        return out


@shared_docs(depth_weight=DEPTH_WEIGHT)
class TreeLinf(DepthWeighted):
    r""":math:`\Omega(w) = \sum_q \max |w_{subtree(q)}|`, q over the pairs.

    subtree(q) are q and the pairs of the same class whose context ends in the context
    of q. A weight that is smaller than the largest weight of a group adds nothing to
    the penalty of this group. Therefore many weights of a group are equal.

    Parameters
    ----------
    {depth_weight}

    Notes
    -----
    On text, begin a search at ``lam=0.6, alpha=0.9``.

    The optimum need not be unique. If a context is always preceded by the same symbol,
    the context and the longer context have the same samples. Weight can then move from
    the longer to the shorter context without cost, as long as it stays below the
    largest weight of the surrounding groups. Such solutions have the same objective and
    give the same probabilities to the training samples, but not to the shorter context
    after another symbol, which was never seen. The solver returns the one that it
    reaches from its start.

    References
    ----------
    .. [1] A. Nelakanti, C. Archambeau, J. Mairal, F. Bach, G. Bouchard, "Structured
       Penalties for Log-linear Language Models", EMNLP 2013, section 3.

    Examples
    --------
    >>> from sklstruct.loglinear import StructuredLogLinearLM, TreeLinf
    >>> model = StructuredLogLinearLM(penalty=TreeLinf(), lam=0.6, alpha=0.9)
    """

    bound = BoundTreeLinf
    searched = ("lam", "alpha", "penalty__depth_weight")
