r"""Several trees in one softmax: Newton steps for the trees in turn.

With the scores of the other trees fixed, the objective is that of a single tree whose
samples have offsets. Its Hessian is below the tree metric, as without offsets, because
the bound holds for each sample:

.. math::
    \nabla^2 f \preceq B^\top \mathrm{diag}(e)\, B ,

e_p the expected count of the samples whose deepest pair of its class is p. So a step of
one tree is one elimination on its pairs, with expected counts that are sums of rows of
the softmax. The scores of all samples for all outcomes are kept; a step adds its change
of the weights to them. Samples whose contexts are the same in all trees share a row.
"""

from __future__ import annotations

import numpy as np

from .._checkpoint import NO_STORE, State, StateStore
from .._checks import check_memory
from .._parallel import ThreadMap
from ..context_tree import Pairs
from . import _joint_sweep_fast as _fast
from ._gap import is_within, next_share
from ._joint_model import JointObjective, OutcomeRows
from ._loss_fast import dot
from ._penalties import L2
from ._problem import Problem
from ._solvers import (
    Report,
    Result,
    Solver,
    TreeMetric,
    next_momentum,
    relative_residual,
    resume,
    shorter,
    stiffer,
)
from ._start import kneser_ney_weights

# A relative rise of the objective up to this counts as a rounding error.
SLACK = 1e-9

# Largest number of times that a step is shortened before it is undone.
SHORTER = 20

# Weights whose largest sum is between 2^-SAFE and 2^SAFE are not rescaled.
SAFE = 40

# The entries of `JointBlock.get_state`.
OF_BLOCK = ("y", "w", "best", "numbers")

# Number of scratch arrays per pair: three of the metric, and the gradient.
N_SHARED = 4


class JointBlock:
    """One tree of the joint model, and the scores that it shares with the others.

    terminal: node at which each row ends.
    samples: the outcomes of each row, their weights divided by `unit`, a power of two.
    scores: of all trees, (n_rows, n_outcomes); changed by `add`.
    shared: memory for a step, of at least `N_SHARED` n_pairs numbers.
    before: memory from a step to that of the next tree, of at least n_pairs numbers.
    root: whether it has the pairs of the root.
    """

    def __init__(
        self,
        problem: Problem,
        terminal: np.ndarray,
        samples: OutcomeRows,
        unit: float,
        scores: np.ndarray,
        shared: np.ndarray,
        before: np.ndarray,
        root: bool,
    ) -> None:
        self.problem, self.root = problem, root
        self.unit = unit
        n_pairs, tree = problem.n_pairs, problem.tree
        shared = shared[: N_SHARED * n_pairs].reshape(N_SHARED, n_pairs)
        self.g, self.before = shared[3], before[:n_pairs]
        self.metric = TreeMetric(problem, L2().bind(problem), shared[:3], root)
        self.kappa, self.levenberg = 1.0, 0.0
        self.slope = 0.0  # of the model along the last step
        self.undone = False  # the last step led upward, however short
        first = np.zeros(tree.n_nodes + 1, dtype=np.int64)
        np.cumsum(np.bincount(terminal, minlength=tree.n_nodes), out=first[1:])
        order = np.argsort(terminal, kind="stable").astype(np.int32)
        self.samples = _fast.SampleTree(problem, first, order, *samples, scores)
        # The point, the last one without momentum, and that of the best pass.
        self.y, self.w, self.best = np.zeros((3, n_pairs))
        self.t = 1.0

    def _scratch(self):
        return np.empty((self.problem.n_levels + 3, self.problem.n_classes), np.float32)

    def gradient(self) -> float:
        """The loss at the scores; its gradient with respect to this tree to `g`."""
        problem, g = self.problem, self.g

        def run(shard):
            value, rows = 0.0, self._scratch()
            total = np.zeros(problem.n_classes, dtype=np.float32)
            for lo, hi in shard:
                value += _fast.expected(self.samples, lo[1], hi[1], rows, g, total)
            return value, total

        total = np.zeros(problem.n_classes, dtype=np.float32)
        value = _fast.own_samples(self.samples, self._scratch(), total)
        for part, here in problem.map(run, problem.node_blocks):
            value += part
            total += here
        root = slice(problem.n_classes)
        g[root] = total
        g[root][problem.unseen] = 0.0

        def differ(k, lo, hi):
            here = g[lo:hi]
            if self.unit != 1.0:
                here *= self.unit
            here -= problem.count[lo:hi]
            here *= problem.beta.of(lo, hi, k)

        problem.sum_over(differ)
        return self.unit * value

    def step(self) -> float:
        """Make the step of the gradient; the squared residual before it.

        `before` becomes the change of the point.
        """
        y, w = self.y, self.w
        sums = self.metric.eliminate(self.kappa, self.levenberg, 0.0, y, y, y, self.g)
        momentum, self.t = next_momentum(self.t)
        newton, uphill, self.slope, _ = self.metric.substitute(
            momentum, self.g, y, self.before, w
        )
        if uphill > 0.0:
            y[:], self.t, self.slope = w, 1.0, newton
        np.subtract(y, self.before, out=self.before)
        return float(sums[1])

    def follow(self) -> None:
        """After a descent step: use a softer metric."""
        self.undone = False
        self.kappa = max(0.9 * self.kappa, 1.0)
        self.levenberg = 0.5 * self.levenberg if self.levenberg > 5e-4 else 0.0

    def shorten(self, change: np.ndarray, part: float) -> np.ndarray:
        """Keep this part of the last step, which led upward; return the part as an
        array.

        The metric of the next step is stiffer. With a part of 0 the scores stay as they
        are, and have to be computed again.
        """
        self.kappa, self.levenberg = stiffer(self.kappa, self.levenberg)
        self.slope *= part
        self.y -= (1.0 - part) * change
        self.w[:] = self.y
        self.undone = not part
        if part:
            self.add((part - 1.0) * change)
        return part * change

    def is_stuck(self) -> bool:
        """True if the next step would repeat the last step, which was undone."""
        here = self.kappa, self.levenberg
        return self.undone and stiffer(*here) == here

    def penalty(self) -> float:
        """The penalty of the weights of this tree."""
        lam = float(self.problem.strength_by_depth[0])
        first = 0 if self.root else self.problem.n_classes
        return 0.5 * lam * dot(self.y[first:], self.y[first:])

    def get_state(self) -> dict[str, np.ndarray]:
        """The state of later steps, without the scores."""
        numbers = [self.t, self.kappa, self.levenberg, self.slope, self.undone]
        points = {"y": self.y, "w": self.w, "best": self.best}
        return {**points, "numbers": np.array(numbers)}

    def set_state(self, state: dict[str, np.ndarray]) -> None:
        """Set what `get_state` returned."""
        for name in ("y", "w", "best"):
            vars(self)[name][:] = state[name]
        *numbers, undone = state["numbers"].tolist()
        self.t, self.kappa, self.levenberg, self.slope = numbers
        self.undone = bool(undone)

    def add(self, change: np.ndarray) -> None:
        """Add the effect of a change of this tree's weights to the scores."""
        problem = self.problem
        above = np.zeros(problem.n_classes, dtype=np.float32)
        if self.root:
            above += problem.beta_by_depth[0] * change[: problem.n_classes]
            _fast.move_own(self.samples, above)

        def run(shard):
            rows = self._scratch()
            for lo, hi in shard:
                _fast.move(self.samples, lo[1], hi[1], above, change, rows)

        problem.map(run, problem.node_blocks)


def solve_joint(
    paths: list[tuple[Pairs, np.ndarray]],
    exact: JointObjective,
    solver: Solver,
    parallel: ThreadMap,
    report: Report,
    store: StateStore,
) -> tuple[Result, np.ndarray]:
    """Minimise the joint objective over non-negative weights: (result, gradient there).

    The history holds the objective at the start and after each pass; its first and last
    entry, and `objective`, are in double precision. The status "stalled" says that no
    step leads downward in single precision, or that no pass came below the start, which
    is then the result.

    paths: the pairs of the tree of each path, and their counts.
    exact: the objective at the start and the end, as the one that the passes sum up
    from scores in single precision has their rounding. In the order of the rows the
    nodes of the first tree ascend.
    solver: its stopping rules; `max_iter` passes over all trees.
    report: called with (pass, objective, residual); True stops the fit.
    store: of checkpoints. The scores are part of the state: if they were recomputed
    from the weights, rounding would change all later steps.
    """
    tol, gap_tol, max_iter = solver.tol, solver.gap_tol, solver.max_iter
    samples, n_rows, beta = exact.samples, exact.nodes.shape[0], exact.joint.beta
    strength = np.full(beta.size, exact.lam)
    problems = [
        Problem(pairs, count, beta, strength, parallel=parallel)
        for pairs, count in paths
    ]
    n_outcomes = problems[0].n_classes
    largest = max(problem.n_pairs for problem in problems)
    # Ctrl-C writes a copy.
    copies = 1.0 if store is NO_STORE else 2.0
    check_memory(
        copies * 4.0 * n_rows * n_outcomes + 8.0 * (N_SHARED + 1) * largest,
        "scores of all samples for all classes", "use a FactoredLM of more levels",
    )  # fmt: skip
    like: State = {"scores": np.empty((n_rows, n_outcomes), np.float32)}
    for t, problem in enumerate(problems):
        w = np.empty(problem.n_pairs)
        like |= {f"y{t}": w, f"w{t}": w, f"best{t}": w, f"numbers{t}": np.empty(5)}
    like |= dict.fromkeys(("at_start", "share", "objective", "lowest"), 0.0)
    like["history"] = [0.0]
    iterations, state = resume(store, max_iter, like)
    if state is not None and "change" in state:
        store.checked(state, {"change": np.empty(problems[-1].n_pairs)})
    if state is None:
        scores = np.zeros((n_rows, n_outcomes), dtype=np.float32)
    else:
        scores = state["scores"]
    shared, before = np.empty(N_SHARED * largest), np.empty(largest)
    # Sums are in single precision, in which larger weights would overflow and smaller
    # weights would vanish. Scaling by a power of two is exact.
    size = float(np.log2(exact.row_weight.max()))
    unit = 1.0 if abs(size) < SAFE else 2.0 ** round(size)
    if unit != 1.0:
        samples = samples._replace(weight=samples.weight / unit)
    blocks = [
        JointBlock(problem, terminal, samples, unit, scores, shared, before, t == 0)
        for t, (problem, terminal) in enumerate(zip(problems, exact.terminals()))
    ]
    passes = _Passes(blocks, scores)
    if state is None:
        weights, at_start = _start(problems, exact)
        share = 1.0  # of tol, at which to look at the gap
        for block, w in zip(blocks, weights):
            block.w[:] = block.y[:] = w
            if w.any():
                block.add(w)
        del weights, w, block  # they hold what is freed below
    else:
        at_start, share = state.pop("at_start"), state.pop("share")
        passes.set_state(state)
        del state
    status, optimality = "max_iter", np.inf
    total = float(exact.row_weight.sum())
    for iteration in iterations:
        store.save(
            iteration=iteration, at_start=at_start, share=share, **passes.get_state()
        )
        optimality = relative_residual(passes.run(), problems[0])
        if report(iteration, passes.objective, optimality):
            status = "stopped"
            break
        if optimality <= share * tol:
            if gap_tol is not None:
                passes.settle(blocks[0])
                w = exact.joined([block.y for block in blocks])
                gap = exact.gap(w, exact(w)[1])
                if not is_within(gap, gap_tol, total):
                    share = next_share(share, gap, gap_tol * total)
                    continue
            status = "converged"
            break
        if all(block.is_stuck() for block in blocks):
            status = "stalled"
            break
    passes.settle(blocks[0])
    history = [at_start, *passes.history[1:]]
    weights = [block.y for block in blocks]
    best = None
    if status != "converged" and not passes.objective <= passes.lowest:
        best = [block.best for block in blocks]
    # Free memory first, because the next arrays are as large.
    del passes, blocks, scores, shared, before
    if best is not None and not exact.value(weights) <= exact.value(best):
        weights, optimality = best, np.nan
    w = exact.joined(weights)
    del weights, best
    at_end, gradient, residual = exact(w)
    if np.isnan(optimality):  # that of the best pass, which is not the last one
        optimality = residual
    if not at_end <= at_start:
        weights, at_end = _start(problems, exact)
        w = exact.joined(weights)
        _, gradient, optimality = exact(w)
        if status != "stopped":
            status = "converged" if optimality <= tol else "stalled"
    result = Result(w, [*history, at_end], at_end, optimality, status)
    return result, gradient


def _start(
    problems: list[Problem], exact: JointObjective
) -> tuple[list[np.ndarray], float]:
    """Kneser-Ney's weights, or 0 where the objective is lower there, or where they are
    not finite: counts can be too large for its discounts. And the objective there."""
    # With weights of 0, all classes are equally probable.
    at_zero = float(exact.row_weight.sum()) * np.log(problems[0].n_classes)
    with np.errstate(all="ignore"):
        found = exact.map(kneser_ney_weights, problems)
    value = np.inf
    for t, (problem, w) in enumerate(zip(problems, found)):
        # These are weights of a model of one tree each: the trees share them equally.
        w[problem.n_classes :] /= len(problems)
        if t:
            w[: problem.n_classes] = 0.0
    if all(np.isfinite(w).all() for w in found):
        value = exact.value(found)
    if value <= at_zero:
        return found, value
    for w in found:
        w[:] = 0.0
    return found, at_zero


class _Passes:
    """Steps of one tree after the other, on scores that all share."""

    def __init__(self, blocks: list[JointBlock], scores: np.ndarray) -> None:
        self.blocks, self.scores = blocks, scores
        self.objective = self.lowest = np.inf  # here, and of the best pass
        self.history: list[float] = []  # the objective before each pass
        # The block of the last step, which may have led upward.
        self.moved: JointBlock | None = None

    def run(self) -> float:
        """A step of each tree; the squared residual before them."""
        squared = 0.0
        for block in self.blocks:
            self.settle(block)
            if block.root:
                self.history.append(self.objective)
                self._keep_best()
            squared += block.step()
            block.add(block.before)
            self.moved = block
        return squared

    def _keep_best(self):
        # Rounding may hide a rise of the objective, which is detected here.
        if self.objective < self.lowest:
            self.lowest = self.objective
            for block in self.blocks:
                block.best[:] = block.y

    def settle(self, block: JointBlock) -> None:
        """The objective, with the gradient of `block`; a last step that led upward is
        shortened or undone."""
        value, moved = self._objective(block), self.moved
        if moved is not None:
            change = moved.before
            for left in reversed(range(SHORTER)):
                rise = value - self.objective
                if rise <= SLACK * abs(self.objective):
                    moved.follow()
                    break
                for each in self.blocks:
                    each.t = 1.0
                part = shorter(rise, moved.slope) if left else 0.0
                change = moved.shorten(change, part)
                if not part:  # without the rounding of steps that were undone
                    self.scores.fill(0.0)
                    for each in self.blocks:
                        each.add(each.y)
                value = self._objective(block)
            self.moved = None
        self.objective = value

    def _objective(self, block):
        return block.gradient() + sum(each.penalty() for each in self.blocks)

    def get_state(self) -> State:
        """The state of later passes."""
        state: State = {
            "scores": self.scores, "objective": self.objective, "history": self.history,
            "lowest": self.lowest,
        }  # fmt: skip
        if self.moved is not None:
            state["change"] = self.moved.before
        for t, block in enumerate(self.blocks):
            state |= {f"{name}{t}": value for name, value in block.get_state().items()}
        return state

    def set_state(self, state: State) -> None:
        """Set what `get_state` returned; the blocks have its scores."""
        self.objective, self.history = state["objective"], state["history"]
        self.lowest = state["lowest"]
        for t, block in enumerate(self.blocks):
            block.set_state({name: state[f"{name}{t}"] for name in OF_BLOCK})
        if "change" in state:
            self.moved = self.blocks[-1]
            self.moved.before[:] = state["change"]
