"""Many classes and samples, from files that are mapped: seconds and peak memory.

    python benchmarks/bench_mapped_classes.py --case "tree 1000000*" --out FILE

The samples are those of `make_sparse_classes`, made by a separate process and written
to files of NumPy; a fit maps the files. `peak_mb` is the peak memory of the process of
the fit, pages of the mapped files included; `files_mb` the size of the files. The last
tenth of the samples, at most 10 000, is the test part: `accuracy`. `weights` are those
that are kept, of `of` in all.

`tree` is `HierarchicalClassifier` as it is for sparse X, `flat` is `LinearClassifier`
with the squared hinge, one model against the rest for each class. Both drop weights of
at most .02 of the largest of a class as soon as a block of classes is fitted.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1.
"""

import multiprocessing
import tempfile
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _common import main, peak_mb, timed

from sklstruct import HierarchicalClassifier
from sklstruct.datasets import make_sparse_classes
from sklstruct.linear import LinearClassifier

ARRAYS = "data", "indices", "indptr"


def write(folder, n_samples, n_classes, n_features):
    X, y = make_sparse_classes(
        n_samples, n_classes, n_features, class_share=0.12, group_share=0.18,
        exponent=3.0, random_state=0,
    )  # fmt: skip
    for name in ARRAYS:
        np.save(folder / f"{name}.npy", getattr(X, name))
    np.save(folder / "y.npy", y)


def mapped(folder, n_features):
    arrays = (np.load(folder / f"{name}.npy", mmap_mode="r") for name in ARRAYS)
    y = np.load(folder / "y.npy")
    return sp.csr_matrix(tuple(arrays), shape=(y.size, n_features)), y


def rows(X, first, last):
    """Rows of X without a copy of their entries."""
    a, b = X.indptr[[first, last]]
    parts = X.data[a:b], X.indices[a:b], X.indptr[first : last + 1] - a
    return sp.csr_matrix(parts, shape=(last - first, X.shape[1]))


def cases():
    sizes = (
        (10_000, 1000, 10_000),
        (100_000, 1000, 10_000),
        (1_000_000, 10_000, 100_000),
    )
    return [
        {
            "name": f"{model} {n}",
            "model": model,
            "n_samples": n,
            "n_classes": n_classes,
            "n_features": n_features,
            **({"slow": True} if n > 10_000 else {}),
        }
        for n, n_classes, n_features in sizes
        for model in ("tree", "flat")
        if n <= 100_000 or model == "tree"
    ]


def run(case):
    sizes = case["n_samples"], case["n_classes"], case["n_features"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        maker = multiprocessing.Process(target=write, args=(folder, *sizes))
        maker.start()
        maker.join()
        files_mb = sum(f.stat().st_size for f in folder.iterdir()) / 2**20
        X, y = mapped(folder, case["n_features"])
        n_test = min(y.size // 10, 10_000)
        cut = y.size - n_test
        if case["model"] == "tree":
            model = HierarchicalClassifier(random_state=0)
        else:
            model = LinearClassifier(weight_threshold=0.02, random_state=0)
        before = peak_mb()
        seconds = timed(model.fit, rows(X, 0, cut), y[:cut], repeats=1).cpu
        peak = peak_mb()
        right = model.predict(rows(X, cut, y.size)) == y[cut:]
        return {
            "files_mb": files_mb,
            "before_mb": before,
            "fit_mb": peak,
            "seconds": seconds,
            "accuracy": float(right.mean()),
            "weights": int(model.coef_.nnz),
            "of": model.coef_.shape[0] * model.coef_.shape[1],
        }


if __name__ == "__main__":
    main(cases, run)
