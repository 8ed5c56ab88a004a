"""Jelinek-Mercer smoothing: maximum likelihood mixed over the orders."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from ..._checks import by_depth, check_reals
from ..._compat import Interval, StrOptions
from ..._docs import shared_docs
from ..._warnings import warn
from ...backoff._held_out import (
    VALIDATION_CONSTRAINT,
    VALIDATION_FRACTION,
    HeldOutClassifier,
)
from .. import _engine
from .._chains import leave_one_out
from .._mixture_weights import Mixtures, fit_weights

_N_BUCKETS = 32


def bucket_of(kind: str, total: np.ndarray, distinct: np.ndarray) -> np.ndarray:
    """Bucket of contexts, from their numbers of samples and of distinct classes."""
    if kind == "depth":
        return np.zeros(total.size, dtype=np.int8)
    if kind == "count":
        size, parts = total, 1
    else:
        size, parts = total / np.maximum(distinct, np.finfo(float).tiny), 4
    octaves = parts * np.log2(np.maximum(size, 1.0))
    return np.minimum(octaves + 1e-9, _N_BUCKETS - 1).astype(np.int8)


@shared_docs(**_engine.DOCS, validation=VALIDATION_FRACTION)
class JelinekMercerLM(HeldOutClassifier, _engine.NGramSmoother):
    r"""Jelinek-Mercer language model: interpolation of all orders, weights by EM.

    .. math::
        P(y \mid n) = \lambda_{g(n)} \frac{c(n, y)}{c(n)}
        + (1 - \lambda_{g(n)})\, P(y \mid \mathrm{parent}(n)),

    where c(n, y) is the number of times that y followed the context n, the parent of
    the empty context is the uniform distribution, and all contexts of one bucket g have
    the same weight :math:`0 < \lambda < 1`. The weights maximise the likelihood of
    samples that are not part of the counts.

    Parameters
    ----------
    {max_depth}

    weight : {"deleted", "held_out"}, float or array-like, default="deleted"
        The weights :math:`\lambda`, by expectation-maximisation or given.

        - ``"deleted"``: deleted interpolation, one sample at a time. Each training
          sample is scored by the counts of the other samples.
        - ``"held_out"``: on `X_val` of `fit`, or the last `validation_fraction` of
          the samples.
        - a number, or a number for each depth from 0 on (the last also for larger
          depths), strictly between 0 and 1.

    bucket : {"mean_count", "count", "depth"}, default="mean_count"
        The groups of contexts (buckets) that have the same weight.

        - ``"mean_count"``: contexts of one depth with a similar ratio of c(n) to the
          number of distinct classes that followed n, in steps of a quarter of a power
          of 2, as in [2]_.
        - ``"count"``: contexts of one depth with a similar c(n), in steps of a power of
          2.
        - ``"depth"``: all contexts of one depth.

        Not used if weights are given.

    {validation}

    max_iter : int, default=200
        Maximum number of iterations of expectation-maximisation, at least 1.

    tol : float, default=1e-6
        Stop when an iteration gains no more than this, in nats per sample; at least 0.

    base : "uniform" or unigram estimator, default="uniform"
        The distribution above the empty context. An estimator is cloned, fitted to
        the counts of the classes, and takes the place of the unigram level; it must
        give every class a positive probability.

    {parameters}

    Attributes
    ----------
    {attributes}

    weights_ : ndarray of shape (`depth_` + 1, n_buckets)
        :math:`\lambda` of each depth and bucket, in rising order of counts; NaN at
        depth 0 if `base` is an estimator.

    n_iter_ : int
        Iterations of expectation-maximisation; 0 for given weights.

    See Also
    --------
    WittenBellLM : Computes the weight of each context by a formula.

    KneserNeyLM : Uses discounts instead of weights; has lower perplexity.

    Warns
    -----
    ConvergenceWarning
        If the weights still change after `max_iter` iterations.

    Notes
    -----
    Weights are maximum a posteriori estimates under a Beta(3/2, 3/2) prior, which is
    worth one sample, so that none is 0 or 1. A bucket without samples has the weight of
    the nearest bucket of its depth; at a depth without samples the weight is 1/2.

    An iteration costs O(pairs). Pairs that occurred once are dropped before the first
    iteration: without their only sample, their count is 0.

    References
    ----------
    .. [1] F. Jelinek, R. L. Mercer, "Interpolated estimation of Markov source
       parameters from sparse data", Pattern Recognition in Practice, 1980.
    .. [2] S. F. Chen, J. Goodman, "An empirical study of smoothing techniques for
       language modeling", Computer Speech & Language 13, 1999, sections 2.3 and 4.1.

    Examples
    --------
    >>> from sklstruct.symbols import context_windows
    >>> from sklstruct.smoothing import JelinekMercerLM
    >>> w = context_windows(["a b a", "a b b"], max_depth=1)
    >>> model = JelinekMercerLM(weight=0.5, padding=-1)
    >>> model = model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    >>> [str(s) for s in w.vocabulary[model.classes_]]
    ['a', 'b', '</s>']
    >>> model.predict_proba([[0]]).round(4).tolist()  # after "a": b twice, </s> once
    [[0.1771, 0.5104, 0.3125]]
    """

    # Classes seen after a context also get their share of the parent's mass.
    interpolate = True

    held_out_hint = "set weight='held_out'"

    _parameter_constraints: dict = {
        **_engine.CONSTRAINTS,
        **VALIDATION_CONSTRAINT,
        "weight": [
            StrOptions({"deleted", "held_out"}),
            Interval(Real, 0, 1, closed="neither"),
            "array-like",
        ],
        "bucket": [StrOptions({"mean_count", "count", "depth"})],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "tol": [Interval(Real, 0, None, closed="left")],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        weight: str | float | ArrayLike = "deleted",
        bucket: str = "mean_count",
        validation_fraction: float = 0.1,
        max_iter: int = 200,
        tol: float = 1e-6,
        base: Any = "uniform",
        padding: Any = None,
        classes: ArrayLike | None = None,
    ):
        self.max_depth = max_depth
        self.weight = weight
        self.bucket = bucket
        self.validation_fraction = validation_fraction
        self.max_iter = max_iter
        self.tol = tol
        self.base = base
        self.padding = padding
        self.classes = classes

    def _check_params(self):
        if isinstance(self.weight, str):
            return
        check_reals("weight", by_depth("weight", self.weight), "(0, 1)")

    def _uses_held_out(self):
        return isinstance(self.weight, str) and self.weight == "held_out"

    def _tune(self, pairs, count, held_out):
        total = pairs.node_sums(count)
        distinct = pairs.node_sums(np.minimum(count, 1.0))
        bucket = bucket_of(self.bucket, total, distinct)[held_out.pairs.nodes()]
        share = held_out.share(count, total)
        self._expect(held_out.pairs, count, held_out.weight, share, bucket)

    def _delete(self, pairs, count):
        """Fit the weights to the training samples; each sample is scored without
        itself."""
        left, total, distinct = leave_one_out(pairs, count)
        with np.errstate(divide="ignore", invalid="ignore"):
            # Without its only sample a context is unknown.
            share = np.where(total > 0, left / total, np.nan)
        bucket = bucket_of(self.bucket, total, distinct)
        self._expect(pairs, count, pairs.terminal_counts(count), share, bucket)

    def _expect(self, pairs, count, weight, share, bucket):
        base, first = self._base_level(count[: pairs.n_classes])
        n_buckets = 1 if self.bucket == "depth" else _N_BUCKETS
        mixtures = Mixtures.of_pairs(
            pairs, weight, share, bucket, base, first, n_buckets
        )
        g, self.n_iter_, gain = fit_weights(mixtures, self.max_iter, self.tol)
        if gain > self.tol:
            warn(
                f"JelinekMercerLM: the weights did not converge in max_iter="
                f"{self.max_iter} iterations: the last gain is {gain:.2g} nats "
                f"per sample, more than tol={self.tol:g}",
                ConvergenceWarning,
            )
        self.weights_ = np.full((pairs.tree.n_levels, n_buckets), np.nan)
        self.weights_[first:] = g

    def _shares(self, pairs, count, first_level):
        n_levels = pairs.tree.n_levels
        bucket = np.zeros(pairs.tree.n_nodes, dtype=np.int8)
        total = pairs.node_sums(count)
        if isinstance(self.weight, str):
            if self.weight == "deleted":
                self._delete(pairs, count)
            distinct = pairs.node_sums(np.minimum(count, 1.0))
            bucket = bucket_of(self.bucket, total, distinct)
            rows = self.weights_
        else:
            rows = by_depth("weight", self.weight)[:, None]
            self.n_iter_ = 0
        # Larger depths than the known depths have the weights of the last known depth.
        rows = rows[np.minimum(np.arange(n_levels), len(rows) - 1)].copy()
        rows[:first_level] = np.nan
        self.weights_ = rows
        kept = rows[pairs.tree.levels(), bucket]
        return count / np.repeat(total / kept, np.diff(pairs.ptr)), 1.0 - kept
