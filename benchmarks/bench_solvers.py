"""Solvers of the log-linear model on WikiText-2: evaluations, seconds, objective.

    SKLSTRUCT_DATA=... python benchmarks/bench_solvers.py [--case "l2*"]

Order 5, all sentences or the first fifth of them. The minimum of each problem is what
the tree metric finds at a tenth of the default tolerance. Then each solver runs with
the default one: evaluations of loss and gradient and CPU seconds (without the start's,
which `start_seconds` has) until the objective is within 1e-3 and 3e-4 of the minimum,
relatively, and until it stops; `above` is how far above the minimum that is. "diagonal
from 0" is the diagonal metric without the start at Kneser-Ney.

The cases of "every method" compare all solvers, and the older ones of `_scaling.py`, on
the first 50 000 words: how far above the minimum the objective is after so many passes
over the data (evaluations of loss and gradient; sweeps), and after so many CPU seconds.
The minimum is what the tree metric finds at a residual of 1e-6. `draw_solvers.py` draws
them.
"""

from __future__ import annotations

import functools
import time

import numpy as np
from _common import first_words, main, wikitext
from _scaling import SCALING

from sklstruct.context_tree import ContextTree, Histories, Pairs
from sklstruct.loglinear import (
    L1,
    L2,
    DiagonalSolver,
    ElasticNet,
    TreeL2,
    TreeLinf,
    TreeMetricSolver,
)
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._problem import Problem
from sklstruct.loglinear._solvers import SOLVERS as OURS
from sklstruct.loglinear._solvers import Job
from sklstruct.loglinear._start import kneser_ney_weights
from sklstruct.symbols import context_windows

DEPTH = 4

# penalty, lam, alpha, depth_weight
PROBLEMS = {
    "l2, alpha 0.7": (L2(), 0.1, 0.7, 1.0),
    "elastic net, alpha 0.75": (ElasticNet(gamma=0.8), 0.12, 0.75, 1.0),
    "tree_l2, alpha 0.9": (TreeL2(), 0.5, 0.9, 1.0),
    "l2, alpha 1": (L2(), 0.1, 1.0, 1.0),
    "l1, alpha 0.7": (L1(), 0.5, 0.7, 1.0),
    "elastic net, alpha 1, weighted by depth": (ElasticNet(gamma=0.7), 0.17, 1.0, 1.33),
    "tree_linf, alpha 0.8": (TreeLinf(), 0.5, 0.8, 1.0),
}
SOLVERS = {
    "tree metric": TreeMetricSolver(tol=1e-2, max_iter=300),
    "diagonal": DiagonalSolver(tol=1e-2, max_iter=300),
    "diagonal from 0": DiagonalSolver(tol=1e-2, max_iter=300),
}

# Of "every method": the part of the text, and where a solver is stopped.
METHODS = {"l2": (L2(), 0.1, 0.7, 1.0), "l1": (L1(), 0.5, 0.7, 1.0)}
N_WORDS, SECONDS, PASSES = 50_000, 15.0, 500
SLOW = {"scis": 90.0, "cd": 90.0}  # seconds of the loops in Python
BY_NAME = {k: OURS[k] for k in ("tree_metric", "diagonal", "fista")} | SCALING
MARKS = [1, 2, 3, 5, 7, 10, 15, 20, 30, 50, 70, 100, 150, 200, 300, 500]


def cases():
    out = [{"problem": name, "text": "a fifth"} for name in PROBLEMS]
    out += [{"problem": name, "text": "all", "slow": True} for name in PROBLEMS]
    every = [
        {"problem": name, "solver": solver, "text": "every method"}
        for name in METHODS
        for solver in BY_NAME
    ]
    return every + out


@functools.cache
def wikitext_pairs(text):
    sentences = wikitext("train")
    if text == "every method":
        sentences = first_words(sentences, N_WORDS)
    if text == "a fifth":
        sentences = sentences[: len(sentences) // 5]
    w = context_windows(sentences, DEPTH)
    keep = w.sample_weight > 0
    windows = w.contexts[keep].astype(np.int32)
    histories = Histories.from_windows(windows, DEPTH)
    tree, terminal = ContextTree.from_histories(histories, w.vocabulary.size)
    target = w.targets[keep].astype(np.int32)
    return Pairs.count(tree, terminal, target, w.vocabulary.size)


def follow(case):
    """One solver: how far above the minimum, pass by pass and second by second."""
    penalty, lam, alpha, depth_weight = METHODS[case["problem"]]
    pairs, count = wikitext_pairs(case["text"])
    k = np.arange(DEPTH + 1.0)
    problem = Problem(pairs, count, alpha**k, lam * depth_weight**k)
    end = TreeMetricSolver(tol=1e-6, max_iter=3000)
    minimum = solve(problem, penalty, end, True)[0].objective
    limit = SLOW.get(case["solver"], SECONDS)
    solver = BY_NAME[case["solver"]](tol=1e-5, max_iter=PASSES)
    job = Job(LogLinearLoss(problem), penalty.bind(problem))
    w = kneser_ney_weights(problem, job.penalty.l1_ratio)
    begin, seconds = time.process_time(), []

    def report(*_):
        seconds.append(time.process_time() - begin)
        return seconds[-1] > limit

    with np.errstate(over="ignore", invalid="ignore"):
        result = solver.solve(job._replace(report=report), w)
    above = np.array(result.history) / minimum - 1.0
    figures = {
        "pairs": problem.n_pairs, "minimum": minimum / problem.total_weight,
        "passes": above.size, "seconds": seconds[-1], "above": above[-1],
        "residual": result.optimality,
    }  # fmt: skip
    for gap in (1e-3, 1e-4, 1e-5, 1e-6):
        there = np.flatnonzero(above <= gap)
        reached = bool(there.size)
        figures[f"passes to {gap:g}"] = int(there[0]) + 1 if reached else "not reached"
        figures[f"seconds to {gap:g}"] = (
            float(seconds[there[0]]) if reached else "not reached"
        )
    for mark in MARKS:
        if mark <= above.size:
            figures[f"above after {mark}"] = above[mark - 1]
            figures[f"seconds after {mark}"] = seconds[mark - 1]
    return figures


def solve(problem, penalty, solver, start):
    """Result, start's CPU seconds, CPU seconds at each evaluation."""
    loss, bound = LogLinearLoss(problem), penalty.bind(problem)
    begin = time.process_time()
    w = np.zeros(problem.n_pairs)
    if start:
        w = kneser_ney_weights(problem, bound.l1_ratio)
    started = time.process_time()
    seconds = []

    def report(*_):
        seconds.append(time.process_time() - started)
        return False

    with np.errstate(over="ignore", invalid="ignore"):
        result = solver.solve(Job(loss, bound, report), w)
    return result, started - begin, np.array(seconds)


def run(case):
    if "solver" in case:
        return follow(case)
    penalty, lam, alpha, depth_weight = PROBLEMS[case["problem"]]
    pairs, count = wikitext_pairs(case["text"])
    k = np.arange(DEPTH + 1.0)
    problem = Problem(pairs, count, alpha**k, lam * depth_weight**k)
    fits = {TreeMetricSolver: TreeMetricSolver().fits(penalty, positive=True)}
    reference = (
        TreeMetricSolver(tol=1e-3, max_iter=120)
        if fits[TreeMetricSolver]
        else DiagonalSolver(tol=2e-3, max_iter=250)
    )
    minimum = solve(problem, penalty, reference, True)[0].objective
    figures = {"pairs": problem.n_pairs, "minimum": minimum / problem.total_weight}
    for name, solver in SOLVERS.items():
        if not fits.get(type(solver), True):
            continue
        r, start, seconds = solve(problem, penalty, solver, name != "diagonal from 0")
        history = np.array(r.history)
        figures[f"{name}: evaluations"] = history.size
        figures[f"{name}: seconds"] = seconds[-1]
        figures[f"{name}: above"] = r.objective / minimum - 1
        figures[f"{name}: residual"] = r.optimality
        figures[f"{name}: start_seconds"] = start
        for gap in (1e-3, 3e-4):
            there = np.flatnonzero(history <= minimum * (1 + gap))
            reached = bool(there.size)
            figures[f"{name}: evaluations to {gap:g}"] = (
                int(there[0]) + 1 if reached else "not reached"
            )
            figures[f"{name}: seconds to {gap:g}"] = (
                float(seconds[there[0]]) if reached else "not reached"
            )
    return figures


if __name__ == "__main__":
    main(cases, run)
