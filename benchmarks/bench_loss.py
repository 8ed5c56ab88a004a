"""One loss + gradient of the log-linear model against np.exp over P doubles.

    SKLSTRUCT_DATA=... python benchmarks/bench_loss.py [--block]

WikiText-2, contexts of 1 to 6 symbols, one core. --block also prints the table of
block sizes behind the constant in sklstruct/loglinear/_loss.py.
"""

import argparse

import numpy as np
from _common import best_time, machine, wikitext

from sklstruct.context_tree import ContextTree, context_windows
from sklstruct.context_tree._tree import Histories
from sklstruct.loglinear import _loss


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--block", action="store_true")
    block_table = parser.parse_args().block
    print(machine())
    w = context_windows(wikitext("train"), 6)
    keep = w.sample_weight > 0
    print(
        f"{'m':>2} {'pairs':>10} {'alpha':>5} {'ms':>7} {'ns/pair':>7} "
        f"{'value ms':>8} {'np.exp ms':>9} {'ratio':>6}"
    )
    for m in (1, 2, 4, 6):
        histories = Histories.from_windows(w.contexts, m).select(keep)
        tree, terminal = ContextTree.from_histories(histories, w.vocabulary.size)
        tree.count_pairs(terminal, w.targets[keep], w.vocabulary.size)
        weights = np.random.default_rng(0).random(tree.n_pairs) * 0.1
        gradient, out = np.empty(tree.n_pairs), np.empty(tree.n_pairs)
        exp = best_time(lambda: np.exp(weights, out=out))  # noqa: B023
        for alpha in (1.0, 0.7):
            loss = _loss.LogLinearLoss(tree, alpha ** np.arange(m + 1.0))
            both = best_time(lambda: loss.value_and_gradient(weights, gradient))  # noqa: B023
            value = best_time(lambda: loss.value(weights))  # noqa: B023
            print(
                f"{m:2} {tree.n_pairs:10} {alpha:5} {both * 1e3:7.1f} "
                f"{both / tree.n_pairs * 1e9:7.2f} {value * 1e3:8.1f} "
                f"{exp * 1e3:9.2f} {both / exp:6.1f}"
            )
        if block_table and m == 4:
            for size in range(12, 24, 2):
                loss.shards = _loss.Shards(tree, _loss.N_SHARDS, 1 << size).blocks
                t = best_time(lambda: loss.value_and_gradient(weights, gradient))  # noqa: B023
                print(f"   blocks of 2^{size} pairs: {t * 1e3:.1f} ms")


if __name__ == "__main__":
    main()
