"""One minimisation of the penalised loss: parameters, data, solver, checkpoints.

The estimator, the search for strengths, the path and the active set all `bind` the
parameters of a model to counts, create a `Fit`, and call its `start` and `solve`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from sklearn.base import clone

from .._checkpoint import (
    NO_STORE,
    Checkpoint,
    FileStore,
    PartStore,
    State,
    StateStore,
    split_part,
)
from .._checks import as_numbers
from .._digest import digest, settings_of
from .._parallel import ThreadMap
from .._warnings import warn
from ..backoff import BackoffModel, Fitted
from ..context_tree import Pairs
from ._gap import duality_gap, is_within, next_share
from ._loss import LogLinearLoss
from ._penalties import PENALTIES, Penalty
from ._problem import Problem
from ._solvers import SOLVERS, Job, Report, Result, Solver, counted_on, silent
from ._start import kneser_ney_weights, ridge_weights

# Largest strength and feature weight: squares of products of the two, times a count, do
# not overflow.
LARGEST = 1e50


def penalty_of(model: Any) -> Penalty:
    """The penalty of a model whose parameter may be a name."""
    given = model.penalty
    return PENALTIES[given]() if isinstance(given, str) else given


def is_positive(model: Any) -> bool:
    """Whether the weights are non-negative; the differences from a prior are not."""
    return bool(model.positive) and model.prior is None


def given_solver(model: Any) -> Solver:
    """A new solver, as the parameter says."""
    given = model.solver
    return SOLVERS[given]() if isinstance(given, str) else clone(given)


def solver_of(model: Any) -> Solver:
    """The solver of a model, or of the rounds of an active set."""
    prior = model.prior is not None
    return given_solver(model).chosen(penalty_of(model), is_positive(model), prior)


def check_one_tree(model: Any, what: str) -> None:
    """ValueError unless all fits of a model are on the tree of the counts."""
    for name, stands in (
        ("prior", model.prior is not None),
        ("solver", given_solver(model).grows),
    ):
        if stands:
            raise ValueError(
                f"{name}: {what} uses only the tree of the counts; fit "
                f"{name}={getattr(model, name)!r} for each strength separately"
            )


def check_numbers(model: Any) -> None:
    """ValueError for numbers of depths that are not finite."""
    numbers = {"alpha": model.alpha, "depth_weight": penalty_of(model).depth_weight}
    for name, value in numbers.items():
        if not np.isfinite(as_numbers(name, value)).all():
            raise ValueError(f"{name} must be finite, got {value!r}")


def bind(
    model: Any,
    pairs: Pairs,
    count: np.ndarray,
    parallel: ThreadMap,
    *,
    lam: float | None = None,
    node_weight: np.ndarray | None = None,
    depth: int | None = None,
) -> Problem:
    """The problem for counts; raises errors about parameters that do not fit the
    counts.

    lam: another strength than that of the model.
    node_weight: weight of the samples that end at each node, where it is known.
    depth: depth of the whole tree, where `pairs` are a part of it.
    """
    penalty, collapsed = penalty_of(model), pairs.tree.span is not None
    if collapsed and not penalty.collapsible:
        raise ValueError(
            f"penalty={penalty!r} does not keep the weights of merged suffixes equal, "
            "so it cannot be fitted on a collapsed tree; use "
            "SuffixTreeVectorizer(collapse=False), or penalty='tree_linf'"
        )
    if depth is None:
        depth = pairs.tree.max_depth
    beta = _by_depth("alpha", model.alpha, depth, positive=True)
    weight = _by_depth("depth_weight", penalty.depth_weight, depth, positive=False)
    if collapsed:
        _warn_collapsed(beta, weight)
    problem = Problem(
        pairs, count, beta, (model.lam if lam is None else lam) * weight,
        positive=is_positive(model), parallel=parallel, node_weight=node_weight,
    )  # fmt: skip
    check_total_weight(problem.total_weight)
    return problem


def check_total_weight(total: float) -> None:
    """ValueError if the sum of the sample weights is too large for a fit."""
    if not total <= LARGEST**2:
        raise ValueError(
            f"sample_weight must sum to at most {LARGEST**2:g}, got {total:g}"
        )


class Fit:
    """One minimisation of the penalised loss, by a new solver.

    The penalty is bound to the problem as `bound`. Initially nothing is stored in
    checkpoints.
    """

    def __init__(self, model: Any, problem: Problem) -> None:
        self.model, self.problem = model, problem
        self.penalty, self.solver = penalty_of(model), solver_of(model)
        self.loss = LogLinearLoss(problem)
        self.bound = self.penalty.bind(problem)
        self.store: StateStore = NO_STORE

    # ------------------------------------------------------------- checkpoints

    def identity(self) -> dict[str, Any]:
        """The data and parameters that a checkpoint belongs to."""
        model, problem = self.model, self.problem
        pairs, tree = problem.pairs, problem.tree
        own: dict[str, Any] = {}
        if problem.offset is not None:
            own["prior"] = digest(problem.offset)
        if self.solver.gap_tol is not None:
            own["gap_tol"] = True  # its state is that of rounds
        return own | {
            "contexts": digest(tree.parent, tree.symbol, tree.span),
            "pairs": digest(pairs.ptr, pairs.target),
            "counts": digest(problem.count),
            "solver": self.solver.identity(whole=False),
            "penalty": settings_of(self.penalty),
            "positive": problem.positive,
            "lam": float(model.lam),
            "alpha": problem.beta_by_depth,
        }

    def store_at(self, checkpoint: Checkpoint | None, **more: Any) -> StateStore:
        """A store of the fit's state, whose identity has `more` entries."""
        if checkpoint is None:
            return NO_STORE
        # A result depends on tol, gap_tol and max_iter, a state does not.
        stop = {"solver": self.solver.identity()}
        return FileStore(checkpoint, {**self.identity(), **more}, stop)

    # ------------------------------------------------------------------- start

    def objective(self, w: np.ndarray) -> float:
        """The penalised loss; infinite or NaN where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.loss.value(w) + self.bound.value(w)

    def start(
        self, nearer: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> np.ndarray:
        """The weights of Kneser-Ney smoothing, or other weights of lower objective; a
        new array.

        `nearer` gives a further start from these weights. None: for a squared penalty,
        their `ridge_weights`. Zero where there is a prior.
        """
        zero = np.zeros(self.problem.n_pairs)
        if self.problem.offset is not None:
            return zero
        smoothed = kneser_ney_weights(self.problem, self.bound.l1_ratio)
        starts = [smoothed]
        if nearer is not None:
            starts.append(nearer(smoothed))
        elif self.bound.l1_ratio == 0.0 and hasattr(self.bound, "alone"):
            starts.append(ridge_weights(self.bound, smoothed))
        at_zero = self.problem.total_weight * np.log(self.problem.n_classes)
        values = [*(self.objective(w) for w in starts), at_zero]
        return [*starts, zero][int(np.nanargmin(values))]

    def from_solution(self, w: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """The weights of a solution with other strengths, rescaled to keep the scores.

        With another `alpha` the features of a depth have another weight, `beta` before.
        The part of a score that a weight adds stays about the same. A new array.
        """
        w, problem = w.copy(), self.problem
        for (lo, hi), old, new in zip(problem.levels, beta, problem.beta_by_depth):
            w[lo:hi] *= old / new
        return w

    def lowest(self, candidates: list[np.ndarray]) -> np.ndarray:
        """The first of the candidates with the lowest objective."""
        return candidates[int(np.nanargmin([self.objective(w) for w in candidates]))]

    # ------------------------------------------------------------------- solve

    def solve(self, w: np.ndarray, report: Report = silent) -> Result:
        """Minimise from `w`, which is overwritten, or return the stored result."""
        # Solvers detect steps that overflow, and repeat them.
        with np.errstate(over="ignore", invalid="ignore"), self.store:
            if self.solver.gap_tol is None:
                result = self.solver.solve(self.job(report), w)
            else:
                result = self._solve_to_gap(self.solver.gap_tol, report, w)
            if result.status != "stopped":  # by a callback, which may be gone next time
                self.store.finish(**result._asdict())
        return result

    def gap(self, w: np.ndarray) -> float:
        """The duality gap at w, in nats."""
        return duality_gap(self.loss, self.bound, w)

    def _solve_to_gap(self, gap_tol, report, w):
        """Rounds of the solver, each with a smaller `tol`, until the gap is within
        `gap_tol`."""
        tol, max_iter = self.solver.tol, self.solver.max_iter
        total = self.problem.total_weight
        # The state of the rounds before; `share`: of tol, in this round.
        share, history, running = 1.0, [], {}
        like: State = {"share": 0.0, "earlier": [0.0]}
        state = self.store.load(like)
        if state is not None:
            state, running = split_part(state)
            share, history = state["share"], state["earlier"]
        while True:
            solver = clone(self.solver).set_params(
                tol=share * tol, max_iter=max(max_iter - len(history), 1)
            )
            whole = {"share": share, "earlier": history}
            job = self.job(counted_on(report, len(history)))
            store = PartStore(self.store, whole, running)
            result, running = solver.solve(job._replace(store=store), w), {}
            history = history + result.history
            result = result._replace(history=history)
            if result.status == "stopped":
                return result
            gap = self.gap(result.w)
            if is_within(gap, gap_tol, total):
                met = result.optimality <= tol
                return result._replace(status="converged") if met else result
            if result.status != "converged":
                return result
            if len(history) >= max_iter:
                return result._replace(status="max_iter")
            if tol > 0.0:
                share = min(share, result.optimality / tol)
            share = next_share(share, gap, gap_tol * total)
            w = result.w

    def job(self, report: Report = silent) -> Job:
        """The input of the solver."""
        return Job(self.loss, self.bound, report, self.store)

    def done(self) -> Result | None:
        """The stored result of an earlier run, or None."""
        found = self.store.result(Result.like(self.problem.n_pairs))
        return None if found is None else Result(**found)


def fitted_numbers(problem: Problem, w: np.ndarray) -> Fitted:
    """The numbers of the back-off model with weights w, a trie.

    Pairs, log-probabilities, log back-offs, and which pairs have a weight of 0.
    """
    trie, w = problem.expand(w)
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = LogLinearLoss(trie).backoff(w)
    return Fitted(trie.pairs, *numbers, zero_weight=w == 0.0)


def held_out_loss(held_out: Any, problem: Problem, w: np.ndarray) -> float:
    """Mean log-loss of held-out samples under the model with weights w."""
    return held_out.log_loss(BackoffModel(*fitted_numbers(problem, w)[:3]))


def _by_depth(name, given, depth, positive):
    """The values of `alpha` or `depth_weight` for depths 0 ... depth."""
    parameter = np.asarray(given, dtype=np.float64)
    if parameter.ndim == 0:
        with np.errstate(over="ignore", under="ignore"):
            values = float(parameter) ** np.arange(depth + 1, dtype=np.float64)
        if name == "depth_weight" and parameter <= LARGEST:
            values = np.minimum(values, LARGEST)  # all weights are 0 in both cases
    else:
        if parameter.ndim != 1 or parameter.size <= depth:
            raise ValueError(
                f"{name} must be a number or give one value for each depth 0 ... "
                f"{depth} of the contexts, got shape {parameter.shape}"
            )
        if (parameter < 0).any() or (positive and (parameter == 0).any()):
            raise ValueError(
                f"{name} must be {'positive' if positive else 'non-negative'} at "
                f"every depth, got {parameter.tolist()!r:.60}"
            )
        values = parameter[: depth + 1].copy()  # not the user's array
    if values.max() > LARGEST:
        k = int(np.argmax(values > LARGEST))
        raise ValueError(
            f"{name}={given!r} weighs contexts of {k} symbols by "
            f"{values[k]:.3g}, and weights must be at most {LARGEST:g}; use a "
            "smaller value, or a smaller max_depth"
        )
    return values


def _warn_collapsed(beta, depth_weight):
    # The root is never merged.
    for name, values in (("alpha", beta[1:]), ("depth_weight", depth_weight[1:])):
        if values.size and (values != values[0]).any():
            warn(
                f"{name} differs between depths, and on a collapsed tree merged "
                "suffixes of different depths share one weight: this is another model "
                f"than without collapse. Use {name}=1, or collapse=False in "
                "SuffixTreeVectorizer",
            )
