"""The base of the solvers, and their common parts."""

from __future__ import annotations

import numbers
from abc import ABCMeta, abstractmethod
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import numpy as np

from ..._checkpoint import NO_STORE, StateStore
from ..._compat import BaseEstimator, Interval
from ..._digest import settings_of
from ..._docs import shared_docs

if TYPE_CHECKING:
    from ..._checkpoint import State
    from .._loss import LogLinearLoss
    from .._penalties import BoundPenalty, Penalty
    from .._problem import Problem

# Called with (iteration, objective, optimality) after each; True stops the fit.
Report = Callable[[int, float, float], bool]

# Blocks of the docstrings of solvers; see `shared_docs`.
TOL = """
tol : float, default=1e-2
    Stop when the optimality residual, ``optimality_``, is at most `tol`; at least 0.
    The residual is not a number of nats; see `gap_tol`.
"""
EVALUATIONS = """
max_iter : int, default=300
    Largest number of evaluations of loss and gradient, at least 1. A
    ConvergenceWarning when it is reached.
"""
REST = """
gap_tol : float, default=None
    Stop only when the duality gap ``gap_``, which bounds the distance from the minimum,
    is also at most `gap_tol` nats per sample; at least 0. Until then, or until
    `max_iter`, the fit continues to smaller residuals. None: only the residual is
    tested.

verbose : int, default=0
    Print objective and residual every `verbose` iterations; 0 is silent.
"""

# Factor of the diagonal metric in which the residual is measured.
DIAGONAL = 0.6


def silent(iteration: int, objective: float, optimality: float) -> bool:
    """A report that prints nothing and stops nothing."""
    return False


def counted_on(report: Report, before: int) -> Report:
    """A report that counts iterations from `before` on."""
    return lambda iteration, *more: report(before + iteration, *more)


class Job(NamedTuple):
    """The problem of a solver, and the callback of its iterations.

    Parameters
    ----------
    loss : LogLinearLoss
        ``value_and_gradient(w, grad)``, ``value(w)``.

    penalty : BoundPenalty
        The methods that `Solver.needs` names.

    report : callable, default=silent
        Called with (iteration, objective, optimality); True stops the fit.

    store : StateStore, default=NO_STORE
        For a solver that is `Solver.resumable`. ``load(like)`` gives the state to go on
        from, with names and types as in the dict `like`, or None; ``save(**state)``
        at the top of each iteration writes it when it is time to: all that the
        iteration reads, as numbers, lists and arrays.
    """

    loss: LogLinearLoss
    penalty: BoundPenalty
    report: Report = silent
    store: StateStore = NO_STORE

    @property
    def problem(self) -> Problem:
        """The problem of the loss and of the penalty."""
        return self.loss.problem


class Result(NamedTuple):
    """The result of a solver; objective and optimality are those of `w`."""

    w: np.ndarray
    history: list[float]  # best objective so far, at each evaluation
    objective: float
    optimality: float
    # "converged"; "max_iter"; "stopped" by a callback; "stalled" (of the joint model):
    # rounding hides every lower point, and tol is not met.
    status: str

    @staticmethod
    def like(n_pairs: int) -> State:
        """Examples of the entries, for `check_like`."""
        w = np.empty(n_pairs)
        return Result(w, [0.0], 0.0, 0.0, "")._asdict()


@shared_docs(tol=TOL, rest=REST)
class Solver(BaseEstimator, metaclass=ABCMeta):
    r"""Base of the solvers of `StructuredLogLinearLM`.

    To write another solver, derive a class from `Solver` with `needs` and `solve`. As
    for any scikit-learn object, the arguments of ``__init__`` are its parameters.

    Parameters
    ----------
    {tol}

    max_iter : int, default=300
        Largest number of iterations, at least 1.

    {rest}

    Attributes
    ----------
    needs : tuple of str
        The methods of a bound penalty that the solver calls. A penalty without these
        methods raises an error before any work.

    signed : bool
        Whether weights may be negative.

    resumable : bool
        Whether `solve` stores its state in the store of the job.

    by_gradient : bool
        Whether the solver uses only values and gradients of the loss, so that scores
        may include the scores of a prior.

    sharded : bool
        Whether the solver can run on the shards of a tree in lockstep: all its
        decisions depend only on the loss, the penalty and sums over the problem.

    grows : bool
        Whether the tree is built while it is fitted.
    """

    needs: ClassVar[tuple[str, ...]] = ()
    signed: ClassVar[bool] = True
    resumable: ClassVar[bool] = False
    sharded: ClassVar[bool] = False
    by_gradient: ClassVar[bool] = False
    grows: ClassVar[bool] = False
    # For subclasses that have not these parameters.
    tol: float = 1e-2
    max_iter: int = 300
    gap_tol: float | None = None
    verbose: int = 0
    _parameter_constraints: ClassVar[dict] = {
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "gap_tol": [Interval(numbers.Real, 0, None, closed="left"), None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        tol: float = 1e-2,
        max_iter: int = 300,
        *,
        gap_tol: float | None = None,
        verbose: int = 0,
    ) -> None:
        self.tol = tol
        self.max_iter = max_iter
        self.gap_tol = gap_tol
        self.verbose = verbose

    @abstractmethod
    def solve(self, job: Job, w: np.ndarray) -> Result:
        """Minimise from w, which is overwritten.

        Parameters
        ----------
        job : Job
            Loss, penalty, callback of the iterations, and store of the state.

        w : float64 ndarray of shape (n_pairs,)
            Start; 0 at classes never seen, and not negative where weights are not.

        Returns
        -------
        result : Result
            Its objective is not above that of the start.
        """

    def identity(self, *, whole: bool = True) -> str:
        """A text that identifies the solver, in any process.

        Parameters
        ----------
        whole : bool, default=True
            Whether to include `tol`, `max_iter` and `gap_tol`, which only decide when
            to stop.
        """
        end = () if whole else ("tol", "max_iter", "gap_tol")
        return settings_of(self, without=("verbose", *end))

    def chosen(self, penalty: Penalty, positive: bool, prior: bool = False) -> Solver:
        """The solver for such a model: this one, or the one that it chooses.

        Parameters
        ----------
        penalty : Penalty
            Of the model.

        positive : bool
            Whether weights are non-negative.

        prior : bool, default=False
            Whether the scores have those of a prior in them.

        Returns
        -------
        solver : Solver
        """
        return self

    def fits(self, penalty: Penalty, positive: bool, prior: bool = False) -> bool:
        """True if it can fit a penalty, with weights of this sign, and with a prior."""
        return self.why_not(penalty, positive, prior) is None

    def why_not(
        self, penalty: Penalty, positive: bool, prior: bool = False
    ) -> str | None:
        """The reason why it cannot fit such a model, or None."""
        kind = penalty.bound
        missing = [name for name in self.needs if not hasattr(kind, name)]
        if missing:
            return (
                f"it needs the methods {list(self.needs)} of the bound penalty, and "
                f"{kind.__name__} has no {' and no '.join(missing)}"
            )
        if prior and not self.by_gradient:
            return "it knows the loss of a model without a prior"
        if prior and penalty.count_weight is not None:
            return "count_weight looks at the counts of a model without a prior"
        return self.refusal(penalty, positive)

    def refusal(self, penalty: Penalty, positive: bool) -> str | None:
        """The reason why a penalty with all these methods does not fit, or None."""
        return None if positive or self.signed else "it needs positive=True"


class Best:
    """The best of the points that a solver has evaluated.

    Momentum and smoothing may raise the objective in some iterations; a fit that ends
    there returns an earlier point. A point is copied only if the next point is worse,
    so a monotone descent costs nothing.
    """

    def __init__(self) -> None:
        self.start = self.objective = self.optimality = np.inf
        self._w: np.ndarray | None = None  # None: the point of the last update
        self.history: list[float] = []

    def get_state(self) -> State:
        """The points as a state, for `Best.of_state`."""
        numbers = [self.start, self.objective, self.optimality]
        return {"best": numbers, "history": self.history, "best_w": self._w}

    @staticmethod
    def like(w: np.ndarray) -> State:
        """Examples of what `get_state` has, for `check_like`; `w`: weights."""
        return {"best": [0.0] * 3, "history": [0.0], "best_w": (None, w)}

    @classmethod
    def of_state(cls, state: State) -> Best:
        """The points of a state."""
        best = cls()
        best.start, best.objective, best.optimality = state["best"]
        best.history, best._w = state["history"], state["best_w"]
        return best

    def update(self, objective: float, optimality: float, before: np.ndarray) -> None:
        """A new point; `before` is the point of the last update."""
        if not self.history:
            self.start = objective
        if objective <= self.objective or not self.history:
            self.objective, self.optimality, self._w = objective, optimality, None
        elif self._w is None:
            self._w = before.copy()
        self.history.append(self.objective)

    def rose(self, objective: float) -> bool:
        """True if a point is worse than the start, by more than rounding."""
        return not objective <= self.start + 1e-12 * abs(self.start)

    def point(self, last: np.ndarray) -> np.ndarray:
        """The best point; `last` is that of the last update."""
        return last if self._w is None else self._w

    def converged(self, w: np.ndarray, objective: float, optimality: float) -> Result:
        """The last point, w, which meets tol, even if an earlier one was lower."""
        self.history[-1] = objective
        return Result(w, self.history, objective, optimality, "converged")

    def result(self, last: np.ndarray, status: str) -> Result:
        w = self.point(last)
        return Result(w, self.history, self.objective, self.optimality, status)


class Course(SimpleNamespace):
    """The variables that each iteration passes to the next, stored when it starts.

    The store of the job may have those of an earlier run. `best` is the best of the
    points that were evaluated, and `last` says whether no iteration follows.

    max_iter: number of iterations; see `resume`.
    optional: an example of each variable that is None at the start.
    variables: numbers and arrays of shape (n_pairs,), as they are at the start.
    """

    def __init__(
        self, job: Job, max_iter: int, optional: State | None = None, **variables: Any
    ) -> None:
        like = variables | {k: (None, v) for k, v in (optional or {}).items()}
        n_pairs = np.empty(job.problem.n_pairs)
        super().__init__()
        self._store, self._names, self.best = job.store, list(variables), Best()
        self._iterations, state = resume(job.store, max_iter, like | Best.like(n_pairs))
        if state is not None:
            variables = {name: state[name] for name in variables}
            self.best = Best.of_state(state)
        vars(self).update(variables)

    def __iter__(self) -> Iterator[int]:
        for iteration in self._iterations:
            self.last = iteration == self._iterations[-1]
            variables = {name: getattr(self, name) for name in self._names}
            self._store.save(iteration=iteration, **variables, **self.best.get_state())
            yield iteration


def resume(store: StateStore, max_iter: int, like: State) -> tuple[range, State | None]:
    """(iterations, state to go on from) of a fit that may have begun before.

    The iterations of earlier runs are part of `max_iter`. If it is smaller than in the
    run before, there is one iteration, which evaluates the last point. The state is
    `like` (see `check_like`).
    """
    state = store.load({"iteration": 0, **like})
    first = 0 if state is None else state["iteration"]
    return range(first, max(max_iter, first + 1)), state


def next_momentum(t: float) -> tuple[float, float]:
    """(momentum, next t) of Nesterov's sequence."""
    t_next = 0.5 * (1.0 + np.sqrt(1.0 + 4.0 * t * t))
    return (t - 1.0) / t_next, t_next


def relative_residual(squared: float, problem: Problem) -> float:
    """The optimality residual: root of sum r_p^2 / c_p over the total weight."""
    return float(np.sqrt(squared / problem.total_weight))
