"""Fits of estimators on the shards of a tree.

The fit of such an estimator runs on every shard at once. It needs only sums over all
shards, by `Pairs.total`. `FITS` lists these estimators; subclasses are not included,
because they may need more.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from .._parallel import ThreadMap
from ..backoff import BackoffClassifier, BackoffModel, Counted, single_precision
from ..backoff._estimator import check_parameters
from ..context_tree import Pairs, pairs_of_arrays
from ..context_tree._shards import Joined, PairShard, border
from ..loglinear import PENALTIES, StructuredLogLinearLM
from ..loglinear._estimator import reporting, set_result
from ..loglinear._fit import (
    Fit,
    bind,
    fitted_numbers,
    given_solver,
    penalty_of,
    solver_of,
)
from ..loglinear._solvers import Report, silent, solvers_that
from ..smoothing import AbsoluteDiscountLM, KatzLM, KneserNeyLM, WittenBellLM
from ..symbols import Labels

# Takes a function that returns the identity of a fit, and returns the store of its
# state; see `Checkpoint`.
Keep = Callable[[Callable[[], dict[str, Any]]], Any]


class ShardModel(NamedTuple):
    """The part of a model that belongs to a shard."""

    pairs: Pairs
    log_prob: np.ndarray  # (n_pairs,)
    log_backoff: np.ndarray  # (n_nodes,)
    of_pairs: dict[str, np.ndarray]  # fitted attributes with an entry per pair
    fitted: dict[str, Any]  # the others, the same in all shards
    # (n_nodes,) weight of the samples in each context, for the gate of a mixture
    node_weight: np.ndarray | None = None


class ShardedFit:
    """The fit of a smoother on shards."""

    # Fitted attributes with an entry for each pair.
    of_pairs: tuple[str, ...] = ()
    # Whether a fit makes so few requests that it can start again for each answer. Then
    # the shards of a worker are in memory one after the other.
    restarts = True
    # Memory of a shard while it is fitted.
    bytes_per_pair = 40

    def check(self, estimator: Any) -> None:
        """ValueError for parameters that are not possible on shards."""
        if estimator.held_out_share is not None:
            raise ValueError(
                "discount='tuned' needs held-out samples of all shards together; tune "
                "on a part of the text and pass its discounts_ as discount"
            )
        if estimator.keeps_positions:
            raise ValueError(
                f"{type(estimator).__name__} with these parameters needs the text in "
                "its order, and shards hold counts; give discount='modified'"
            )
        if isinstance(getattr(estimator, "strength", None), str):
            raise ValueError(
                f"strength={estimator.strength!r} needs the likelihood of all shards "
                "together; fit a part of the text and pass its strengths_ as strength"
            )

    def fit(
        self, estimator: Any, counted: Counted, keep: Keep, report: Report
    ) -> tuple[Pairs, np.ndarray, np.ndarray]:
        """(pairs, log_prob, log_backoff) of a shard; there may be fewer pairs."""
        model = estimator.fit_counted(counted, overwrite=True).backoff_model_
        return model.pairs, model.log_prob, model.log_backoff

    def reporting(self, estimator: Any) -> AbstractContextManager[Report]:
        """The context of a whole fit; yields the function that receives the reports."""
        return nullcontext(silent)

    def finish(self, estimator: Any) -> None:
        """Set the fitted attributes that are sums over the shards."""


class LogLinearFit(ShardedFit):
    """The fit of a log-linear model on shards."""

    of_pairs = ("coef_",)
    restarts = False
    # 102 to 150 with a separable penalty, and 156 to 175 with "tree_l2".
    bytes_per_pair = 160

    def check(self, estimator: StructuredLogLinearLM) -> None:
        penalty, solver = penalty_of(estimator), solver_of(estimator)
        if given_solver(estimator).grows or not solver.sharded:
            raise ValueError(
                f"solver={estimator.solver!r} cannot work on the shards of a tree; use "
                f"one of {solvers_that(lambda s: s.sharded)}"
            )
        if not penalty.bound.sharded:
            raise ValueError(
                f"penalty={estimator.penalty!r} cannot work on the shards of a tree "
                "(its bound penalty has not sharded=True); use one of "
                f"{sorted(name for name in PENALTIES if PENALTIES[name].bound.sharded)}"
            )
        whole_tree = {"gap_tol": solver.gap_tol, "prior": estimator.prior}
        for name, value in whole_tree.items():
            if value is not None:
                raise ValueError(
                    f"{name} is not possible on the shards of a tree; set it to None"
                )

    def fit(
        self,
        estimator: StructuredLogLinearLM,
        counted: Counted,
        keep: Keep,
        report: Report,
    ) -> tuple[Pairs, np.ndarray, np.ndarray]:
        with ThreadMap(estimator.n_jobs) as parallel:
            problem = bind(estimator, counted.pairs, counted.count, parallel)
            fit = Fit(estimator, problem)
            fit.store = keep(fit.identity)
            result = fit.solve(fit.start(), report)
            _, log_prob, log_backoff = fitted_numbers(problem, result.w)[:3]
        set_result(estimator, fit, result)
        return counted.pairs, log_prob, log_backoff

    def reporting(
        self, estimator: StructuredLogLinearLM
    ) -> AbstractContextManager[Report]:
        return reporting(estimator)

    def finish(self, estimator: StructuredLogLinearLM) -> None:
        estimator.n_parameters_ = int(np.count_nonzero(estimator.coef_))


FITS: dict[type, ShardedFit] = {
    **dict.fromkeys(
        (KneserNeyLM, AbsoluteDiscountLM, WittenBellLM, KatzLM), ShardedFit()
    ),
    StructuredLogLinearLM: LogLinearFit(),
}


def sharded_fit(estimator: Any, name: str = "estimator") -> ShardedFit:
    """The `ShardedFit` of an estimator; an error if it cannot be fitted on shards.

    name: what the error calls it.
    """
    how = FITS.get(type(estimator))
    if how is None:
        raise TypeError(
            f"{name}: {type(estimator).__name__} cannot be fitted on the shards of "
            f"a tree; {', '.join(kind.__name__ for kind in FITS)} can, a MixtureLM of "
            "these, and pipelines of a ContextRefiner and one of these"
        )
    check_parameters(estimator)
    how.check(estimator)
    return how


def most_bytes(estimator: BackoffClassifier, n_samples: int, depth: int) -> int:
    """An upper bound of the memory of all shards of a fit.

    depth: of the longest contexts.
    """
    return (depth + 1) * n_samples * FITS[type(estimator)].bytes_per_pair


def fit_shard(
    estimator: BackoffClassifier,
    shard: PairShard,
    counted: Counted,
    keep: Keep,
    report: Report,
    for_gate: bool = False,
) -> ShardModel:
    """The part of the model that belongs to a shard.

    It is called on all shards at once, each in its own thread or process, with clones
    of one estimator of `FITS`. The counts may be overwritten; those of contexts that
    several shards have, such as the root, are those of the whole tree.

    keep: called with a function that returns the identity of the fit; returns the store
    of its state; see `Checkpoint`.
    report: called with (iteration, objective, optimality) after each iteration; True
    stops the fit.
    for_gate: whether the weight of the samples in each context is wanted.
    """
    how, weight = FITS[type(estimator)], None
    if for_gate:
        weight = single_precision(shard.node_sums(counted.count))
    of_shard = replace(counted, pairs=shard)
    pairs, log_prob, log_backoff = how.fit(estimator, of_shard, keep, report)
    tree = pairs.tree
    if pairs is shard:
        tree = counted.pairs.tree  # without empty levels
    elif weight is not None:  # the model has fewer contexts
        weight = weight[tree.nodes_in(counted.pairs.tree)]
    pairs = pairs_of_arrays(tree, pairs.ptr, pairs.target)
    pairs.borrowed = len(border(tree, shard.bounds[0], False))
    fitted = {
        name: value
        for name, value in vars(estimator).items()
        if name.endswith("_") and name not in ("backoff_model_", "classes_")
    }
    of_pairs = {name: fitted.pop(name) for name in how.of_pairs}
    return ShardModel(pairs, log_prob, log_backoff, of_pairs, fitted, weight)


def gather(
    estimator: BackoffClassifier,
    models: Callable[[str], list],
    max_depth: int,
    labels: Labels,
) -> BackoffClassifier:
    """Fit the estimator in place, from the models of all shards; returns it.

    models: called with the name of a field of `ShardModel`; returns those of all
    shards.
    max_depth: columns of the windows of the text.
    labels: the meaning of the ids.
    """
    # One array after the other: the arrays of all shards together take as much memory
    # as the joined array.
    how, joined = FITS[type(estimator)], Joined(models("pairs"))
    of_pairs = models("of_pairs")
    for name in how.of_pairs:
        setattr(estimator, name, joined.of_pairs([part[name] for part in of_pairs]))
    del of_pairs
    log_prob = joined.of_pairs(models("log_prob"))
    log_backoff = joined.of_nodes(models("log_backoff"))
    weights = models("node_weight")
    model = BackoffModel(joined.pairs, log_prob, log_backoff, labels)
    if weights[0] is not None:
        model.node_weight = joined.of_nodes(weights)
    estimator.adopt(model, max_depth)
    for name, value in models("fitted")[0].items():
        setattr(estimator, name, value)
    how.finish(estimator)
    return estimator
