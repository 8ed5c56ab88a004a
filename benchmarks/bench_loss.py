"""One loss + gradient of the log-linear model against np.exp over P doubles.

    SKLSTRUCT_DATA=... python benchmarks/bench_loss.py [--case blocks]

WikiText-2, contexts of 1 to 6 symbols, one thread. The cases "blocks" are behind the
constant BLOCK_PAIRS in sklstruct/loglinear/_problem.py.
"""

import numpy as np
from _common import fastest, main, wikitext

from sklstruct.context_tree import ContextTree, Histories, Pairs
from sklstruct.loglinear import _problem
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.symbols import context_windows


def cases():
    depths = [
        {"table": "depths", "max_depth": m, "alpha": alpha}
        for m in (1, 2, 4, 6)
        for alpha in (1.0, 0.7)
    ]
    blocks = [
        {"table": "blocks", "max_depth": 4, "alpha": 0.7, "log2_block": k}
        for k in range(12, 24, 2)
    ]
    return depths + blocks


def pairs_of(sentences, max_depth):
    w = context_windows(sentences, max_depth)
    keep = w.sample_weight > 0
    histories = Histories.from_windows(w.contexts, max_depth).select(keep)
    tree, terminal = ContextTree.from_histories(histories, w.vocabulary.size)
    return Pairs.count(tree, terminal, w.targets[keep], w.vocabulary.size)


def run(case):
    m = case["max_depth"]
    _problem.BLOCK_PAIRS = 1 << case.get("log2_block", 16)
    problem = _problem.Problem(
        *pairs_of(wikitext("train"), m), case["alpha"] ** np.r_[: m + 1]
    )
    loss = LogLinearLoss(problem)
    weights = np.random.default_rng(0).random(problem.n_pairs) * 0.1
    gradient, out = np.empty_like(weights), np.empty_like(weights)
    times = fastest(
        both=lambda: loss.value_and_gradient(weights, gradient),
        value=lambda: loss.value(weights),
        exp=lambda: np.exp(weights, out=out),
    )
    both = times["both"].cpu
    return {
        "pairs": problem.n_pairs,
        "seconds": both,
        "ns per pair": both / problem.n_pairs * 1e9,
        "value seconds": times["value"].cpu,
        "np.exp seconds": times["exp"].cpu,
        "ratio": both / times["exp"].cpu,
    }


if __name__ == "__main__":
    main(cases, run)
