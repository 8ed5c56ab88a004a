"""Witten-Bell smoothing: P of new symbols depends on the number of distinct symbols."""

from __future__ import annotations

from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize

from ..._checks import by_depth, check_reals
from ..._compat import Interval, StrOptions
from ..._docs import shared_docs
from .. import _engine
from .._chains import leave_one_out, log_likelihood, parents_in_level

# Bounds of estimated strengths, and the weight of a normal prior on their logarithms,
# which keeps the strength of a depth without repeated contexts near 1.
_RANGE = (1e-3, 1e3)
_PRIOR = 1e-2


@shared_docs(**_engine.DOCS, interpolate=_engine.INTERPOLATE)
class WittenBellLM(_engine.NGramSmoother):
    r"""Witten-Bell language model.

    With d(n) the number of distinct symbols that followed the context n,

    .. math::
        P(y \mid n) = \frac{c(n, y)}{c(n) + \kappa_k d(n)}
        + \frac{\kappa_k d(n)}{c(n) + \kappa_k d(n)}\, P(y \mid \mathrm{parent}(n)),

    where c(n, y) is the number of times that y followed n, k is the length of n and the
    parent of the empty context is the uniform distribution. The formula can be computed
    for any counts. The model is suitable for small texts, characters and tags, for
    which the formulas of Kneser-Ney discounts can fail.

    Parameters
    ----------
    {max_depth}

    strength : "deleted", float or array-like, default=1.0
        :math:`\kappa > 0`. Witten and Bell use 1. With a larger value, the parent
        context has a larger weight.

        - a number, or a number for each depth from 0 on; the last number is also used
          for longer contexts;
        - ``"deleted"``: the strengths that maximise the leave-one-out likelihood of the
          training samples. Each sample is scored by the counts of the other samples.

    {interpolate}

    base : "uniform" or unigram estimator, default="uniform"
        The distribution above the empty context. An estimator is cloned, fitted to
        the counts of the classes, and takes the place of the unigram level; it must
        give every class a positive probability.

    {parameters}

    Attributes
    ----------
    {attributes}

    strengths_ : ndarray of shape (`depth_` + 1,)
        :math:`\kappa` of each depth; NaN at depth 0 if `base` is an estimator.

    See Also
    --------
    KneserNeyLM : Has lower perplexity on large texts.

    AdditiveLM : Adds a constant to every count.

    Notes
    -----
    With fractional weights a class of weight w < 1 counts as w distinct symbols, so
    that the model is continuous if a weight tends to 0. A sample of weight 2 counts as
    two samples.

    With :math:`\kappa = 1` the perplexity rises with the order on large texts, because
    a context that was seen once gives half of the probability to the symbol that
    followed, which is too much. Larger strengths lower the perplexity. Estimated
    strengths are maximum a posteriori, by L-BFGS with the exact gradient, under a
    normal prior on :math:`\log\kappa` with the weight of a hundredth of a sample. An
    evaluation costs O(pairs).

    References
    ----------
    .. [1] I. H. Witten, T. C. Bell, "The zero-frequency problem: estimating the
       probabilities of novel events in adaptive text compression", IEEE Transactions
       on Information Theory 37(4), 1991, method C.
    .. [2] S. F. Chen, J. Goodman, "An empirical study of smoothing techniques for
       language modeling", Computer Speech & Language 13, 1999, section 2.6.

    Examples
    --------
    >>> from sklstruct.symbols import context_windows
    >>> from sklstruct.smoothing import WittenBellLM
    >>> w = context_windows(["a b a", "a b b"], max_depth=1)
    >>> model = WittenBellLM(padding=-1)
    >>> model = model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    >>> [str(s) for s in w.vocabulary[model.classes_]]
    ['a', 'b', '</s>']
    >>> model.predict_proba([[0]]).round(4).tolist()  # after "a": b twice, </s> once
    [[0.1455, 0.5455, 0.3091]]
    >>> model = model.set_params(strength=[1.0, 2.0])
    >>> model = model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    >>> model.strengths_.tolist()
    [1.0, 2.0]
    """

    _parameter_constraints: dict = {
        **_engine.CONSTRAINTS,
        "strength": [
            StrOptions({"deleted"}),
            Interval(Real, 0, None, closed="neither"),
            "array-like",
        ],
        "interpolate": ["boolean"],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        strength: str | float | ArrayLike = 1.0,
        interpolate: bool = True,
        base: Any = "uniform",
        padding: Any = None,
        classes: ArrayLike | None = None,
    ):
        self.max_depth = max_depth
        self.strength = strength
        self.interpolate = interpolate
        self.base = base
        self.padding = padding
        self.classes = classes

    def _check_params(self):
        if isinstance(self.strength, str):
            return
        check_reals("strength", by_depth("strength", self.strength), "(0, inf)")

    def _shares(self, pairs, count, first_level):
        n_levels = pairs.tree.n_levels
        if isinstance(self.strength, str):
            top = self._base_level(count[: pairs.n_classes])[0]
            strength = np.ones(n_levels)
            strength[first_level:] = _most_likely(pairs, count, top, first_level)
        else:
            given = by_depth("strength", self.strength)
            strength = given[np.minimum(np.arange(n_levels), given.size - 1)]
        backoff_mass = (
            pairs.node_sums(np.minimum(count, 1.0)) * strength[pairs.tree.levels()]
        )
        total = pairs.node_sums(count) + backoff_mass
        strength[:first_level] = np.nan
        self.strengths_ = strength
        return count / np.repeat(total, np.diff(pairs.ptr)), backoff_mass / total


class _DeletedLevel(NamedTuple):
    """The pairs of one depth, each with one of its samples left out of the counts."""

    parent: np.ndarray
    weight: np.ndarray
    left: np.ndarray  # remaining count of the pair
    total: np.ndarray  # remaining count of its context; 0: the context is unknown
    distinct: np.ndarray  # remaining classes


def _most_likely(pairs, count, top, first):
    """The strengths of the local maximum of the leave-one-out likelihood of the
    training samples, with the prior, that L-BFGS finds from 1."""
    deleted = leave_one_out(pairs, count)
    weight = pairs.terminal_counts(count)
    levels = []
    for k in range(first, pairs.tree.n_levels):
        here, parent = pairs.level(k), parents_in_level(pairs, k)
        levels.append(_DeletedLevel(parent, weight[here], *(x[here] for x in deleted)))
    size = max(1.0, sum(float(level.weight.sum()) for level in levels))

    def objective(log_strength):
        """Negative logarithm of the posterior, in nats per sample, and its gradient."""
        shares = []
        for kappa, level in zip(np.exp(log_strength), levels):
            # An unknown context has the probability of its parent.
            known, new = level.total > 0, kappa * level.distinct
            total = np.where(known, level.total + new, 1.0)
            shares.append(
                (
                    np.where(known, level.left, 0.0) / total,
                    np.where(known, new, 1.0) / total,
                )
            )
        value, slopes = log_likelihood(top, levels, shares)
        gradient = _PRIOR * log_strength
        for k, (slope, up, proba) in enumerate(slopes):
            # d P / d log kappa, 0 where the mass is 1
            gradient[k] -= float(slope @ (shares[k][1] * (up - proba)))
        value = 0.5 * _PRIOR * float(log_strength @ log_strength) - value
        return value / size, gradient / size

    low, high = np.log(_RANGE)
    found = minimize(
        objective,
        np.zeros(len(levels)),
        jac=True,
        method="L-BFGS-B",
        bounds=[(low, high)] * len(levels),
        options={"maxiter": 200, "ftol": 1e-13, "gtol": 1e-7},
    )
    return np.exp(found.x)
