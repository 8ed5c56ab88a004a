"""Two threads against one: iterations of the log-linear solver.

    python benchmarks/bench_threads.py [--case 1000000]

Random texts, contexts of up to four symbols, about as many pairs as `pairs` says. The
two fits run in turns on one problem, for a fixed number of iterations of the diagonal
or the tree metric, and the shortest of several runs of each counts: `speed-up` is one
thread over two, in wall time, and says something only on a machine with two idle cores.
Below the number of pairs that THREAD_PAIRS names (sklstruct/loglinear/_problem.py) the
model stays in one thread; the cases "forced" ignore it.
"""

import numpy as np
from _common import fastest, main

from sklstruct._parallel import ThreadMap
from sklstruct.context_tree import ContextTree, Histories, Pairs
from sklstruct.loglinear import _problem
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._penalties import PENALTIES
from sklstruct.loglinear._solvers import DiagonalSolver, Job, TreeMetricSolver

MAX_DEPTH = 4
# Pairs per token of the random text, for the sizes below.
PAIRS_PER_TOKEN = 2.9


def cases():
    sizes = (10**5, 10**6, 5 * 10**6, 28 * 10**6)
    model = [
        {"threshold": "model", "pairs": n, "penalty": p, "slow": n > 10**7}
        for n in sizes
        for p in ("l2", "tree_l2", "tree_linf")
    ]
    model += [
        case | {"solver": "tree_metric"}
        for case in model
        if case["penalty"] != "tree_linf"
    ]
    forced = [
        {"threshold": "forced", "pairs": n, "penalty": p}
        for n in (10**5, 2 * 10**5, 4 * 10**5)
        for p in ("l2", "tree_l2", "tree_linf")
    ]
    return model + forced


def text(n_tokens, n_symbols=20_000, seed=0):
    """Zipfian words; after each, half of the time one of its ten followers."""
    rng = np.random.default_rng(seed)
    zipf = 1.0 / np.arange(1, n_symbols + 1)
    words = rng.choice(n_symbols, size=n_tokens, p=zipf / zipf.sum()).astype(np.int32)
    followers = rng.choice(n_symbols, size=(n_symbols, 10), p=zipf / zipf.sum())
    pick, follow = rng.integers(0, 10, n_tokens), rng.random(n_tokens) < 0.5
    for i in np.flatnonzero(follow[1:]) + 1:
        words[i] = followers[words[i - 1], pick[i]]
    return words, n_symbols


def pairs_of(n_pairs):
    words, n_symbols = text(int(n_pairs / PAIRS_PER_TOKEN))
    windows = np.lib.stride_tricks.sliding_window_view(words, MAX_DEPTH + 1)
    histories = Histories.from_windows(np.ascontiguousarray(windows[:, :-1]), MAX_DEPTH)
    tree, terminal = ContextTree.from_histories(histories, n_symbols)
    targets = np.ascontiguousarray(windows[:, -1])
    return Pairs.count(tree, terminal, targets, n_symbols)


def run(case):
    if case["threshold"] == "forced":
        _problem.THREAD_PAIRS = 1
    pairs, count = pairs_of(case["pairs"])
    depths = np.arange(MAX_DEPTH + 1.0)
    # About a second per run, or two iterations.
    n_iter = int(np.clip(4e7 / pairs.n_pairs, 2, 60))
    solvers = {"diagonal": DiagonalSolver, "tree_metric": TreeMetricSolver}
    solver = solvers[case.get("solver", "diagonal")](tol=0.0, max_iter=n_iter)

    def fit(n_jobs):
        with ThreadMap(n_jobs) as parallel:
            problem = _problem.Problem(
                pairs,
                count,
                0.8**depths,
                np.full(MAX_DEPTH + 1, 0.5),
                parallel=parallel,
            )
            loss = LogLinearLoss(problem)
            penalty = PENALTIES[case["penalty"]]().bind(problem)
            start = np.zeros(pairs.n_pairs)
            return solver.solve(Job(loss, penalty), start)

    times = fastest(one=lambda: fit(1), two=lambda: fit(2), budget=120.0)
    one, two = times["one"], times["two"]
    if not np.array_equal(one.result.w, two.result.w):
        raise AssertionError("the number of threads changed the weights")
    return {
        "true pairs": pairs.n_pairs,
        "iterations": n_iter,
        "one thread": one.wall,
        "two threads": two.wall,
        "speed-up": one.wall / two.wall,
        "cpu two / one": two.cpu / one.cpu,
    }


if __name__ == "__main__":
    main(cases, run)
