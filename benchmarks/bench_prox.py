"""Tree-structured proximal operators, side by side with SPAMS.

    python benchmarks/bench_prox.py [--sizes 100000 400000] [--repeat 5]

Both tools get the same forest and the same values in one thread and their results
are compared; times are the best of `repeat` calls of the public function, checks
and allocation included. SPAMS needs the variables in depth-first order and, for a
forest, one more group above the roots; preparing that is not timed. sklstruct takes
the numbering of the shape as it is (level by level in `language`), which is the
harder one for the caches. `ratio` is SPAMS over sklstruct: above 1 we are faster.
"""

import argparse
import os
import platform
import time
from itertools import pairwise

import numpy as np
from scipy.sparse import csc_matrix

from sklstruct.prox import prox_tree_l2, prox_tree_linf


def random_recursive(n, rng):
    """Every node chooses its parent among all earlier ones; depth about e ln n."""
    parents = (rng.random(n) * np.arange(n)).astype(np.int32)
    parents[0] = -1
    return parents


def chains(length):
    def shape(n, rng):
        parents = np.arange(-1, n - 1, dtype=np.int32)
        parents[::length] = -1
        return parents

    return shape


def deep_thin(n, rng):
    """One tree; the parent is one of the 20 nodes before: depth about n / 10."""
    parents = (
        np.arange(n) - 1 - (rng.random(n) * np.minimum(np.arange(n), 20)).astype(int)
    )
    parents[0] = -1
    return parents.astype(np.int32)


def language(n, rng):
    """Like the pairs of a 5-gram model: levels in order, V roots, a long tail of
    nodes without children and few with very many."""
    shares = np.array([0.01, 0.17, 0.28, 0.28, 0.26])
    sizes = np.maximum((shares * n).astype(int), 1)
    parents, start = [np.full(sizes[0], -1)], 0
    for above, size in pairwise(sizes):
        at = np.floor(above * rng.random(size) ** 3).astype(int)
        parents.append(start + np.sort(at))
        start += above
    return np.concatenate(parents).astype(np.int32)


SHAPES = {
    "random recursive": random_recursive,
    "chains of 200": chains(200),
    "chains of 2000": chains(2000),
    "language": language,
    "deep thin": deep_thin,
}


def depth_first(parents):
    """Position of each node in a depth-first order (parents < children given)."""
    n = len(parents)
    parents = parents.tolist()
    size = [1] * n
    for i in range(n - 1, -1, -1):
        if parents[i] >= 0:
            size[parents[i]] += size[i]
    position, free, start = [0] * n, [0] * n, 0
    for i, p in enumerate(parents):
        if p < 0:
            position[i] = start
            start += size[i]
        else:
            position[i] = free[p]
            free[p] += size[i]
        free[i] = position[i] + 1
    return np.array(position)


class Spams:
    def __init__(self, parents):
        import spams

        self.spams = spams
        n = len(parents)
        self.position = depth_first(parents)
        above = np.empty(n, int)
        above[self.position] = np.where(parents >= 0, self.position[parents], -1)
        self.tree = {
            "eta_g": np.concatenate([[0.0], np.ones(n)]),
            "groups": csc_matrix(
                (np.ones(n, bool), (np.arange(1, n + 1), above + 1)),
                shape=(n + 1, n + 1),
            ),
            "own_variables": np.concatenate([[0], np.arange(n)]).astype(np.int32),
            "N_own_variables": np.concatenate([[0], np.ones(n)]).astype(np.int32),
        }

    def arrange(self, v):
        out = np.empty((len(v), 1), order="F")
        out[self.position, 0] = v
        return out

    def __call__(self, v, kappa, regul):
        return self.spams.proximalTree(
            v, self.tree, lambda1=kappa, regul=regul, numThreads=1
        )


def best(call, repeat, budget=30.0):
    """Shortest of `repeat` calls in seconds (fewer when `budget` is used up)."""
    times = []
    while len(times) < repeat and (not times or sum(times) < budget):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)


def processor():
    try:
        with open("/proc/cpuinfo") as lines:
            for line in lines:
                if line.startswith("model name"):
                    return line.split(":")[1].strip()
    except OSError:
        pass
    return platform.processor()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--sizes", type=int, nargs="+", default=[100_000, 400_000])
    parser.add_argument("--kappas", type=float, nargs="+", default=[0.01, 0.3])
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=list(SHAPES))
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument(
        "--no-peer",
        nargs="*",
        default=["deep thin"],
        help="shapes on which SPAMS is not run (quadratic where one tree is deep)",
    )
    args = parser.parse_args()
    print(f"{processor()}, {os.cpu_count()} cores, one thread used; "
          f"Python {platform.python_version()}, NumPy {np.__version__}")  # fmt: skip
    print(f"{'shape':17} {'nodes':>8} {'kappa':>5}  {'operator':9} "
          f"{'ms':>8} {'SPAMS ms':>9} {'ratio':>6} {'difference':>10}")  # fmt: skip
    for name in args.shapes:
        for size in args.sizes:
            rng = np.random.default_rng(0)
            parents = SHAPES[name](size, rng)
            v = rng.standard_normal(len(parents))
            peer = None if name in args.no_peer else Spams(parents)
            theirs_v = None if peer is None else peer.arrange(v)
            for kappa in args.kappas:
                for prox, regul in [
                    (prox_tree_l2, "tree-l2"),
                    (prox_tree_linf, "tree-linf"),
                ]:
                    ours = best(lambda: prox(v, parents, kappa), args.repeat)  # noqa: B023
                    row = f"{name:17} {len(v):8} {kappa:5}  {regul:9} {ours * 1e3:8.2f}"
                    if peer is not None:
                        other = best(
                            lambda: peer(theirs_v, kappa, regul),  # noqa: B023
                            args.repeat,
                        )
                        w = peer(theirs_v, kappa, regul)[peer.position, 0]
                        gap = np.abs(w - prox(v, parents, kappa)).max()
                        row += f" {other * 1e3:9.2f} {other / ours:6.1f} {gap:10.0e}"
                    print(row, flush=True)


if __name__ == "__main__":
    main()
