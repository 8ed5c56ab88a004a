r"""Penalties of the log-linear model.

A penalty knows the tree, its strength and the sign of the weights, and offers

``value(w)``
    :math:`\lambda\,\Omega(w)`.
``step(kappa, y, g, out, epsilon)``
    The proximal step from y in the diagonal metric D = kappa * scale * count, exact
    or (``smoothed``) that of a majoriser tangent at y.
``prox(v, metric, out)``
    The exact proximal operator in the metric that ``uniform_metric`` makes.

A solver's ``supports`` names what it needs, and a pair that does not fit is refused
before any work. A new penalty is a class here and an entry in ``PENALTIES``.
"""

from __future__ import annotations

import numpy as np

from ..prox import _tree_prox_fast as _prox
from . import _solver_fast as _fast
from ._sweeps import sum_over

_EMPTY = np.empty(0)
_ONE = np.ones(1)


class Penalty:
    """Base: strengths of the groups or weights by depth, and the pair forest.

    Parameters
    ----------
    loss : LogLinearLoss
        Gives the tree, its ranges and the way to run in parallel.
    lam : float
        Strength, in counts (total loss, not mean).
    depth_weight : ndarray of shape (depth + 1,)
        Factor of `lam` for each depth.
    positive : bool
        Whether weights are non-negative.
    """

    smoothed = False  # whether `step` begins with a smoothed majoriser
    collapsible = True  # whether merged paths keep equal weights

    def __init__(self, loss, lam, depth_weight, positive):
        self.loss = loss
        self.tree = loss.tree
        self.ranges = loss.ranges
        self.map = loss.map
        self.lam = float(lam)
        self.positive = bool(positive)
        tree = self.tree
        if tree.span is None:
            self.level_strength = lam * depth_weight
            self.pair_strength = None
        else:
            # A collapsed node stands for `span` equal weights, one a depth.
            total = np.concatenate([[0.0], np.cumsum(depth_weight)])
            below = tree.depths() + 1
            of_node = lam * (total[below] - total[below - tree.spans()])
            self.pair_strength = np.repeat(of_node, np.diff(tree.pair_ptr))

    def strength(self, level):
        """lam times the weight of the range's groups: one entry, or one a pair."""
        if self.pair_strength is not None:
            return self.pair_strength
        return self.level_strength[level : level + 1]

    def pair_metric(self, kappa):
        """kappa * scale * count of every pair; 1 where the count is 0."""
        out = np.empty(self.tree.n_pairs)
        for k, (lo, hi) in enumerate(self.ranges.levels):
            scale = self.loss.metric_scale(k)
            part = scale if scale.size == 1 else scale[lo:hi]
            np.multiply(self.tree.count[lo:hi], kappa * part, out=out[lo:hi])
        out[: self.tree.n_classes][self.loss.unseen] = 1.0
        return out

    def _upward(self, up, push):
        """Bottom-up over the pair forest: blocks in parallel, then the root.

        up(level, lo, hi, push_now) handles a range and returns a number or None;
        push(lo, hi) hands the results of level 1 to the root's pairs, in one
        thread, as the branches share those.
        """

        def run(blocks):
            total = 0.0
            for lo, hi in blocks:
                for k in range(len(lo) - 1, 0, -1):
                    total += up(k, lo[k], hi[k], k > 1) or 0.0
            return total

        total = sum(self.map(run, self.ranges.blocks))
        if len(self.ranges.levels) > 1:
            push(*self.ranges.levels[1])
        return total + (up(0, *self.ranges.levels[0], False) or 0.0)

    def _downward(self, down):
        """Top-down over the pair forest: the root, then blocks in parallel."""
        down(0, *self.ranges.levels[0])

        def run(blocks):
            for lo, hi in blocks:
                for k in range(1, len(lo)):
                    down(k, lo[k], hi[k])

        self.map(run, self.ranges.blocks)


class Separable(Penalty):
    r""":math:`\sum_p \lambda_p [a\,|w_p| + \tfrac{b}{2} w_p^2]`."""

    l1_ratio = 0.0
    l2_ratio = 0.0

    def _terms(self, level):
        strength = self.strength(level)
        return strength * self.l1_ratio, strength * self.l2_ratio

    def prepare(self):
        n_levels = self.tree.n_levels
        if self.pair_strength is None:
            self._l1, self._l2 = zip(*(self._terms(k) for k in range(n_levels)))
        else:
            l1, l2 = self._terms(0)
            self._l1, self._l2 = (l1,) * n_levels, (l2,) * n_levels
        return self

    def step(self, kappa, y, g, out, epsilon=0.0):
        """out = the proximal step; (squared residual over count, value at y)."""
        squared, value = self._separable_step(kappa, y, g, _EMPTY, out)
        return squared, value

    def _separable_step(self, kappa, y, g, rho, out):
        loss, count = self.loss, self.tree.count

        def run(k, lo, hi):
            sums = np.zeros(2)
            _fast.separable_step(
                lo, hi, kappa, loss.metric_scale(k), self._l1[k], self._l2[k], rho,
                self.positive, count, y, g, out, sums,
            )  # fmt: skip
            return sums

        return sum_over(self.map, run, self.ranges.groups)

    def value(self, w):
        total = 0.0
        for k, (lo, hi) in enumerate(self.ranges.levels):
            l1, l2 = self._l1[k], self._l2[k]
            if l1.size > 1:
                l1, l2 = l1[lo:hi], l2[lo:hi]
            part = w[lo:hi]
            total += float(np.sum(l1 * np.abs(part)) + 0.5 * np.sum(l2 * part**2))
        return total

    def prox(self, v, metric, out):
        for k, (lo, hi) in enumerate(self.ranges.levels):
            l1, l2 = self._l1[k], self._l2[k]
            if l1.size > 1:
                l1, l2 = l1[lo:hi], l2[lo:hi]
            d = metric[lo:hi]
            shrunk = np.maximum(np.abs(v[lo:hi]) - l1 / d, 0.0) * (d / (d + l2))
            out[lo:hi] = np.copysign(shrunk, v[lo:hi])
        return out


class L1(Separable):
    r""":math:`\Omega(w) = \sum_p |w_p|`."""

    l1_ratio = 1.0


class L2(Separable):
    r""":math:`\Omega(w) = \tfrac12 \sum_p w_p^2`."""

    l2_ratio = 1.0


class ElasticNet(Separable):
    r""":math:`\Omega(w) = \sum_p |w_p| + \tfrac{\gamma}{2} \sum_p w_p^2`."""

    l1_ratio = 1.0

    def __init__(self, loss, lam, depth_weight, positive, gamma=1.0):
        super().__init__(loss, lam, depth_weight, positive)
        self.l2_ratio = float(gamma)


class TreeL2(Separable):
    r""":math:`\Omega(w) = \sum_q \|w_{subtree(q)}\|_2`.

    The exact operator needs one metric value a word, which is useless on text.
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

    smoothed = True
    collapsible = False
    threshold = 1e-2

    def prepare(self):
        n_levels = self.tree.n_levels
        zero = np.zeros(1)
        self._l1 = [zero] * n_levels
        self._l2 = [zero] * n_levels
        self._l1[-1] = self.strength(n_levels - 1)
        self._square = np.empty(self.tree.n_pairs)
        self._cut = None
        return self

    def step(self, kappa, y, g, out, epsilon=0.0):
        value = self.value(y)  # leaves the squared norms in _square
        if epsilon == 0.0:
            return self._exact_step(kappa, y, g, out), value
        last = self.tree.n_levels - 1
        parent, square = self.tree.pair_parent, self._square

        def down(k, lo, hi):
            _fast.group_weights(
                lo, hi, float(self.strength(k)[0]), k < last, epsilon, parent, square
            )

        self._downward(down)
        squared, _ = self._separable_step(kappa, y, g, square, out)
        return squared, value

    def _exact_step(self, kappa, y, g, out):
        """The step from the squared norms of y; its squared residual."""
        loss, parent, count = self.loss, self.tree.pair_parent, self.tree.count
        if self._cut is None:
            self._cut = np.empty(y.size, dtype=np.int32)
            self._metric, self._kappa = np.empty(y.size), np.empty(y.size)
        rho, metric, group_kappa, cut = (
            self._square, self._metric, self._kappa, self._cut
        )  # fmt: skip

        def split(k, lo, hi):
            _fast.split_groups(
                lo, hi, kappa, loss.metric_scale(k), float(self.strength(k)[0]),
                self.threshold, parent, count, rho, metric, group_kappa, cut,
            )  # fmt: skip

        self._downward(split)

        def centres(k, lo, hi):
            _fast.forest_centres(
                lo, hi, self.positive, rho, metric, y, g, group_kappa, out
            )

        sum_over(self.map, centres, self.ranges.groups)
        self._shrink(cut, group_kappa, out)

        def residual(k, lo, hi):
            return _fast.mapping_residual(lo, hi, metric, count, y, out)

        return sum_over(self.map, residual, self.ranges.groups)

    def _shrink(self, parent, kappa, out):
        """The exact operator on a forest, in place."""
        state = self._square
        state[:] = 0.0

        def up(k, lo, hi, push):
            _prox.tree_l2_up(parent, kappa, _ONE, out, state, lo, hi, push)

        def down(k, lo, hi):
            _prox.tree_l2_down(parent, kappa, out, state, lo, hi)

        self._upward(
            up, lambda lo, hi: _prox.tree_l2_push(parent, kappa, state, lo, hi)
        )
        self._downward(down)

    def value(self, w):
        parent, state = self.tree.pair_parent, self._square
        state[:] = 0.0

        def up(k, lo, hi, push):
            return _prox.tree_l2_norm_up(
                parent, self.strength(k), _ONE, w, state, lo, hi, push
            )

        return self._upward(
            up, lambda lo, hi: _prox.tree_l2_norm_push(parent, state, lo, hi)
        )

    def prox(self, v, metric, out):
        if out is not v:
            out[:] = v
        kappa = np.empty_like(metric)
        for k, (lo, hi) in enumerate(self.ranges.levels):
            np.divide(self.strength(k), metric[lo:hi], out=kappa[lo:hi])
        self._shrink(self.tree.pair_parent, kappa, out)
        return out


class TreeLinf(Penalty):
    r""":math:`\Omega(w) = \sum_q \max |w_{subtree(q)}|`; exact in any metric."""

    def prepare(self):
        self._slots = _prox.tree_linf_slots(self.tree.n_pairs)
        self._state = None
        self._metric = (None, None)
        return self

    def step(self, kappa, y, g, out, epsilon=0.0):
        if self._metric[0] != kappa:
            self._metric = (kappa, self.pair_metric(kappa))
        value = self.value(y)
        return proximal_step(self, self._metric[1], y, g, out), value

    def value(self, w):
        parent = self.tree.pair_parent
        state = self._state = np.empty(w.size) if self._state is None else self._state
        state[:] = 0.0

        def up(k, lo, hi, push):
            return _prox.tree_linf_norm_up(
                parent, self.strength(k), w, state, lo, hi, push
            )

        return self._upward(
            up, lambda lo, hi: _prox.tree_linf_norm_push(parent, state, lo, hi)
        )

    def prox(self, v, metric, out):
        parent, slots = self.tree.pair_parent, self._slots
        if out is not v:
            out[:] = v

        def up(k, lo, hi, push):
            _prox.tree_linf_up(
                parent, self.strength(k), metric, out, slots, lo, hi, push
            )

        def down(k, lo, hi):
            _prox.tree_linf_down(parent, out, slots, lo, hi)

        self._upward(up, lambda lo, hi: _prox.tree_linf_push(parent, slots, lo, hi))
        self._downward(down)
        return out


def proximal_step(penalty, metric, y, g, out):
    """out = prox(y - g / D); returns sum (D (y - out))^2 / count."""
    count, groups = penalty.tree.count, penalty.ranges.groups

    def forward(k, lo, hi):
        _fast.gradient_step(lo, hi, metric, y, g, penalty.positive, out)

    def residual(k, lo, hi):
        return _fast.mapping_residual(lo, hi, metric, count, y, out)

    sum_over(penalty.map, forward, groups)
    penalty.prox(out, metric, out)
    return sum_over(penalty.map, residual, groups)


PENALTIES = {
    "l1": L1,
    "l2": L2,
    "elastic_net": ElasticNet,
    "tree_l2": TreeL2,
    "tree_linf": TreeLinf,
}
