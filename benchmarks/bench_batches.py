"""partial_fit in batches against one fit of the same samples, along a given tree.

    python benchmarks/bench_batches.py --out FILE
    python benchmarks/bench_batches.py --list

A case is a set and a number of batches, in the order of the samples, which is random.
The tree is given: one level, the groups that the text was made with. `text100` has 100
classes, 10 000 features and 8 000 samples, `text1000` 1 000, 100 000 and 40 000
(`make_sparse_classes`); rows have unit length. The nodes are those of
``LinearClassifier()``, without dropped weights.

Figures on 2 000 other samples: `accuracy`; `log_loss`, nats per sample; `fit`, CPU
seconds of all batches; `weights_mb`, what the weights take.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1: one thread.
"""

import time

import numpy as np
from _common import main

from sklstruct import HierarchicalClassifier
from sklstruct.datasets import make_sparse_classes
from sklstruct.linear import LinearClassifier

# Classes, features, training samples.
SETS = {"text100": (100, 10_000, 8000), "text1000": (1000, 100_000, 40_000)}
N_TEST = 2000


def cases():
    return [{"set": name, "batches": n} for name in SETS for n in (1, 2, 5, 20)]


def run(case):
    n_classes, n_features, n = SETS[case["set"]]
    X, y, group = make_sparse_classes(
        n + N_TEST, n_classes, n_features, return_groups=True, random_state=0
    )
    tree = [np.flatnonzero(group == g).tolist() for g in np.unique(group)]
    node = LinearClassifier()
    model = HierarchicalClassifier(tree, estimator=node, random_state=0)
    start = time.process_time()
    for part in np.array_split(np.arange(n), case["batches"]):
        model.partial_fit(X[part], y[part], classes=np.arange(n_classes))
    weights = model.nodes_.weights
    stored = weights.words, weights.rank, weights.intercept, weights.cell, weights.start
    return {
        "fit": time.process_time() - start,
        "accuracy": model.score(X[n:], y[n:]),
        "log_loss": -model.target_log_proba(X[n:], y[n:]).mean(),
        "weights_mb": sum(a.nbytes for a in stored) / 1e6,
    }


if __name__ == "__main__":
    main(cases, run)
