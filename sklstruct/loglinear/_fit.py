"""One minimisation of the penalised loss: settings, data, solver, checkpoints.

The estimator, the search for strengths, the path and the active set all make a `Fit` of
their settings and counts, ask it for a start and let it solve.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol

import numpy as np
from sklearn.base import clone

from .._checkpoint import (
    NO_KEEPER,
    Checkpoint,
    FitKeeper,
    Keeper,
    PartKeeper,
    State,
    split_part,
)
from .._digest import digest
from .._parallel import ThreadMap
from ..backoff import BackoffModel, Fitted
from ..context_tree import Pairs
from ._gap import duality_gap, is_within, next_share
from ._loss import LogLinearLoss
from ._penalties import PENALTIES, Penalty
from ._problem import Problem
from ._solvers import Job, Report, Result, Solver, make_solver, silent
from ._start import kneser_ney_weights, ridge_weights

# Largest strength and feature weight: squares of products of the two, times a count,
# stay far inside the range of floating point numbers.
LARGEST = 1e50


class Parameters(Protocol):
    """The parameters of an estimator that define the objective and the solver."""

    penalty: str | Penalty
    lam: float | None
    alpha: Any
    depth_weight: Any
    positive: bool
    penalize_root: bool
    solver: str | Solver
    tol: float
    max_iter: int
    prior: BackoffModel | None


def penalty_of(model: Parameters) -> Penalty:
    """The penalty of a model whose parameter may be a name."""
    given = model.penalty
    return PENALTIES[given]() if isinstance(given, str) else given


def solver_of(model: Parameters) -> Solver:
    """A new solver; where it has no tol or max_iter it gets those of the model."""
    if isinstance(model.solver, str):
        return make_solver(
            model.solver, penalty_of(model), model.positive, model.prior is not None,
            tol=model.tol, max_iter=model.max_iter,
        )  # fmt: skip
    solver = clone(model.solver)
    for name in ("tol", "max_iter"):
        if getattr(solver, name, 0) is None:
            solver.set_params(**{name: getattr(model, name)})
    return solver


class Settings(NamedTuple):
    """The settings that, with the data, define the objective of a fit."""

    penalty: Penalty
    lam: float
    alpha: Any
    depth_weight: Any
    positive: bool
    penalize_root: bool

    @classmethod
    def of(cls, model: Parameters) -> Settings:
        """The settings of a model's parameters."""
        penalty = penalty_of(model)
        numbers = {
            name: default if getattr(model, name) is None else getattr(model, name)
            for name, default in (Penalty.defaults | penalty.defaults).items()
        }
        return cls(
            penalty,
            positive=bool(model.positive),
            penalize_root=bool(model.penalize_root),
            **numbers,
        )

    def check(self) -> None:
        """ValueError for numbers that are not finite, or too large."""
        for name in Penalty.defaults:
            value = getattr(self, name)
            if not np.isfinite(np.asarray(value, dtype=np.float64)).all():
                raise ValueError(f"{name} must be finite, got {value!r}")
        if float(self.lam) > LARGEST:
            raise ValueError(f"lam must be at most {LARGEST:g}, got {self.lam!r}")

    def problem(
        self,
        pairs: Pairs,
        count: np.ndarray,
        parallel: ThreadMap,
        *,
        node_weight: np.ndarray | None = None,
        depth: int | None = None,
    ) -> Problem:
        """The problem of counts, with errors about settings that do not fit them.

        Parameters
        ----------
        pairs, count : Pairs, ndarray of shape (n_pairs,)
            Contexts with their classes, and the counts.

        parallel : ThreadMap
            For the sweeps.

        node_weight : ndarray of shape (n_nodes,), default=None
            Weight of the samples that end at each node, where it is known.

        depth : int, default=None
            Depth of the whole tree, where `pairs` are a part of it.
        """
        collapsed = pairs.tree.span is not None
        if collapsed and not self.penalty.collapsible:
            raise ValueError(
                f"penalty={self.penalty!r} does not keep the weights of merged "
                "suffixes equal, so it cannot be fitted on a collapsed tree; use "
                "SuffixTreeVectorizer(collapse=False), or penalty='tree_linf'"
            )
        if depth is None:
            depth = pairs.tree.max_depth
        beta = _by_depth("alpha", self.alpha, depth, positive=True)
        weight = _by_depth("depth_weight", self.depth_weight, depth, positive=False)
        if collapsed:
            _warn_collapsed(beta, weight)
        if not self.penalize_root:
            weight[0] = 0.0
        problem = Problem(
            pairs, count, beta, self.lam * weight, positive=self.positive,
            parallel=parallel, node_weight=node_weight,
        )  # fmt: skip
        if not problem.total_weight <= LARGEST**2:
            raise ValueError(
                f"sample_weight must sum to at most {LARGEST**2:g}, got "
                f"{problem.total_weight:g}"
            )
        return problem


class Fit:
    """One minimisation of the penalised loss.

    Parameters
    ----------
    settings : Settings
        The objective.

    solver : Solver
        The solver.

    problem : Problem
        The data, under these settings.

    gap_tol : float, default=None
        Largest duality gap at which a fit ends, in nats a sample. None: any.

    Attributes
    ----------
    loss : LogLinearLoss
        Of the problem.

    bound : BoundPenalty
        The penalty of the settings, bound to the problem.

    keeper : FitKeeper
        Of checkpoints; at first it keeps nothing.
    """

    def __init__(
        self,
        settings: Settings,
        solver: Solver,
        problem: Problem,
        gap_tol: float | None = None,
    ) -> None:
        self.settings, self.solver, self.problem = settings, solver, problem
        self.gap_tol = gap_tol
        self.loss = LogLinearLoss(problem)
        self.bound = settings.penalty.bind(problem)
        self.keeper = NO_KEEPER

    # ------------------------------------------------------------- checkpoints

    def identity(self) -> dict[str, Any]:
        """The data and settings that a checkpoint belongs to."""
        problem, settings = self.problem, self.settings
        pairs, tree = problem.pairs, problem.tree
        own: dict[str, Any] = {}
        if problem.offset is not None:
            own["prior"] = digest(problem.offset)
        if self.gap_tol is not None:
            own["gap_tol"] = True  # its state is that of rounds
        return own | {
            "contexts": digest(tree.parent, tree.symbol, tree.span),
            "pairs": digest(pairs.ptr, pairs.target),
            "counts": digest(problem.count),
            "solver": self.solver.identity(whole=False),
            "penalty": repr(settings.penalty),
            "positive": settings.positive,
            "penalize_root": settings.penalize_root,
            "lam": settings.lam,
            "alpha": problem.beta_by_depth,
            "depth_weight": problem.strength_by_depth / (settings.lam or 1.0),
        }

    def keeper_at(self, checkpoint: Checkpoint | None, **more: Any) -> FitKeeper:
        """A keeper of the fit's state, whose identity has `more` entries."""
        if checkpoint is None:
            return NO_KEEPER
        # A result depends on tol, gap_tol and max_iter, a state does not.
        stop: dict[str, Any] = {"solver": self.solver.identity()}
        if self.gap_tol is not None:
            stop["gap_tol"] = float(self.gap_tol)
        return Keeper(checkpoint, {**self.identity(), **more}, stop)

    # ------------------------------------------------------------------- start

    def objective(self, w: np.ndarray) -> float:
        """The penalised loss; infinite or NaN where it overflows."""
        with np.errstate(over="ignore", invalid="ignore"):
            return self.loss.value(w) + self.bound.value(w)

    def start(
        self, nearer: Callable[[np.ndarray], np.ndarray] | None = None
    ) -> np.ndarray:
        """The weights of Kneser-Ney smoothing, or others of lower objective.

        Parameters
        ----------
        nearer : callable, default=None
            Gives a further start from the weights of Kneser-Ney smoothing. None: for a
            squared penalty, their `ridge_weights`.

        Returns
        -------
        w : ndarray of shape (n_pairs,)
            A new array. Zero where there is a prior.
        """
        zero = np.zeros(self.problem.n_pairs)
        if self.problem.offset is not None:
            return zero
        smoothed = kneser_ney_weights(self.problem, self.bound.l1_ratio)
        starts = [smoothed]
        if nearer is not None:
            starts.append(nearer(smoothed))
        elif self.bound.l1_ratio == 0.0 and hasattr(self.bound, "separable"):
            l2 = self.bound.separable()[1]
            starts.append(ridge_weights(self.problem, smoothed, l2))
        at_zero = self.problem.total_weight * np.log(self.problem.n_classes)
        values = [*(self.objective(w) for w in starts), at_zero]
        return [*starts, zero][int(np.nanargmin(values))]

    def from_solution(self, w: np.ndarray, beta: np.ndarray) -> np.ndarray:
        """The weights of a solution with other strengths, with the scores they had.

        With another `alpha` the features of a depth have another weight. The part of a
        score that a weight adds stays about the same.

        Parameters
        ----------
        w : ndarray of shape (n_pairs,)
            The solution.

        beta : ndarray of shape (depth + 1,)
            Its weights of the features by depth.

        Returns
        -------
        w : ndarray of shape (n_pairs,)
            A new array.
        """
        w, problem = w.copy(), self.problem
        for (lo, hi), old, new in zip(problem.levels, beta, problem.beta_by_depth):
            w[lo:hi] *= old / new
        return w

    def lowest(self, candidates: list[np.ndarray]) -> np.ndarray:
        """The weights of least objective, the first of equal ones."""
        return candidates[int(np.nanargmin([self.objective(w) for w in candidates]))]

    # ------------------------------------------------------------------- solve

    def solve(self, w: np.ndarray, report: Report = silent) -> Result:
        """Minimise from `w`, which is overwritten; or the result that is kept."""
        # Solvers detect steps that overflow, and repeat them.
        with np.errstate(over="ignore", invalid="ignore"), self.keeper:
            if self.gap_tol is None:
                result = self.solver.solve(self.job(report), w)
            else:
                result = self._solve_to_gap(self.gap_tol, report, w)
        if result.status != "stopped":  # by a callback, which may be gone next time
            self.keeper.finish(**result._asdict())
        return result

    def gap(self, w: np.ndarray) -> float:
        """The duality gap at w, in nats."""
        return duality_gap(self.loss, self.bound, w)

    def _solve_to_gap(self, gap_tol, report, w):
        """Rounds of the solver, each with a smaller `tol`, until the gap is within
        `gap_tol`."""
        tol, max_iter = self.solver.limits()
        total = self.problem.total_weight
        # What the rounds before have left; `share`: of tol, in this round.
        share, history, running = 1.0, [], {}
        like: State = {"share": 0.0, "earlier": [0.0]}
        state = self.keeper.load(like)
        if state is not None:
            state, running = split_part(state)
            share, history = state["share"], state["earlier"]
        while True:
            solver = clone(self.solver).set_params(
                tol=share * tol, max_iter=max(max_iter - len(history), 1)
            )
            whole = {"share": share, "earlier": history}
            job = self.job(counted_on(report, len(history)))
            keeper = PartKeeper(self.keeper, whole, running)
            result, running = solver.solve(job._replace(keeper=keeper), w), {}
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

    def learn(self, w: np.ndarray, report: Report, share: float) -> Result:
        """A few steps from `w`, which is overwritten, with an incremental solver.

        share: of the new samples in the weight of all.
        """
        solver: Any = self.solver
        with np.errstate(over="ignore", invalid="ignore"):
            return solver.learn(self.job(report), w, share)

    def job(self, report: Report = silent) -> Job:
        """The input of the solver."""
        return Job(self.loss, self.bound, report, self.keeper)

    def done(self) -> Result | None:
        """The result that an earlier run has left, or None."""
        found = self.keeper.result(Result.like(self.problem.n_pairs))
        return None if found is None else Result(**found)


def counted_on(report: Report, before: int) -> Report:
    """A report that counts iterations from `before` on."""
    return lambda iteration, *more: report(before + iteration, *more)


def backoff_numbers(
    problem: Problem, w: np.ndarray
) -> tuple[Pairs, np.ndarray, np.ndarray]:
    """(pairs, log-probabilities, log back-offs) of the model with weights w, a trie."""
    return fitted_numbers(problem, w)[:3]


def fitted_numbers(problem: Problem, w: np.ndarray) -> Fitted:
    """The same, and which pairs have a weight of 0."""
    trie, w = problem.expand(w)
    with np.errstate(over="ignore", invalid="ignore"):
        numbers = LogLinearLoss(trie).backoff(w)
    return Fitted(trie.pairs, *numbers, zero_weight=w == 0.0)


def held_out_loss(held_out: Any, problem: Problem, w: np.ndarray) -> float:
    """Mean log-loss of held-out samples under the model with weights w."""
    return held_out.log_loss(BackoffModel(*backoff_numbers(problem, w)))


def _by_depth(name, given, depth, positive):
    """The values of `alpha` or `depth_weight` for depths 0 ... depth."""
    parameter = np.asarray(given, dtype=np.float64)
    if parameter.ndim == 0:
        with np.errstate(over="ignore", under="ignore"):
            values = float(parameter) ** np.arange(depth + 1, dtype=np.float64)
        if name == "depth_weight" and parameter <= LARGEST:
            values = np.minimum(values, LARGEST)  # no weight is left either way
    else:
        if parameter.ndim != 1 or parameter.size <= depth:
            raise ValueError(
                f"{name} must be a number or give one value for each depth 0 ... "
                f"{depth} of the contexts, got shape {parameter.shape}"
            )
        if (parameter < 0).any() or (positive and (parameter == 0).any()):
            raise ValueError(
                f"{name} must be {'positive' if positive else 'non-negative'} at "
                f"every depth, got {parameter.tolist()}"
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
            warnings.warn(
                f"{name} differs between depths, and on a collapsed tree merged "
                "suffixes of different depths share one weight: this is another model "
                f"than without collapse. Use {name}=1, or collapse=False in "
                "SuffixTreeVectorizer",
                UserWarning,
                stacklevel=5,
            )
