"""Both solvers of `LinearClassifier("log_loss")`, and the one that "auto" takes.

    SKLSTRUCT_DATA=... python benchmarks/bench_linear_solvers.py --out FILE
    python benchmarks/bench_linear_solvers.py --list

A case is a data set and C, without calibration and with the default `tol`. Figures:
`dual`, `quasi_newton` and `auto`, CPU seconds of a fit, the least of some that take
turns; `solver`, that of "auto"; `excess` of each, how far the mean objective is above
the least of the three, in nats per sample; `ratio`, seconds of "auto" over those of the
faster solver that ends, in 200 epochs or 1000 iterations, with an excess at most 1e-4
above that of "auto". All cases take two minutes.

`noise` are classes that overlap, with three of ten labels drawn, n samples of d
columns. Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1.
"""

import warnings
from functools import partial

import numpy as np
from _common import fastest, main
from _many_classes import clinc150, read_table
from scipy.special import logsumexp
from sklearn.datasets import load_digits
from sklearn.exceptions import ConvergenceWarning
from sklearn.preprocessing import StandardScaler, normalize

from sklstruct.linear import LinearClassifier

STRENGTHS = (0.1, 1.0, 10.0, 100.0)
# Seconds after which no further round of fits begins.
BUDGET = 0.7
# Nats per sample by which the objective of a solver may be above that of "auto", if the
# seconds of both are compared.
NEAR = 1e-4
SOLVERS = ("dual", "quasi_newton", "auto")
TABLES = {
    "letter": ("letter.csv.gz", ["class"]),
    "isolet": ("isolet.csv.gz", ["class"]),
    "leaves100": ("leaves100.csv.gz", ["species"]),
    "omniglot": ("omniglot_a.csv.gz", ["alphabet"]),
}
NOISE = ((1000, 100, 2), (2000, 400, 3), (3000, 500, 5), (20_000, 20, 5))


def cases():
    names = ["digits", *TABLES, *(f"{name}, unit rows" for name in TABLES), "clinc150"]
    names += [f"noise {n} x {d}" for n, d, _ in NOISE]
    return [{"data": name, "C": C} for name in names for C in STRENGTHS]


def noise(n, d, n_classes):
    rng = np.random.default_rng(0)
    y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]
    X = 0.7 * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d))
    return X, np.where(rng.random(n) < 0.3, rng.integers(0, n_classes, n), y)


def load(name):
    if name == "clinc150":
        return clinc150(0)[0]
    name, _, rows = name.partition(", ")
    if name == "digits":
        X, y = load_digits(return_X_y=True)
    elif name in TABLES:
        X, y = read_table(name, *TABLES[name])
    else:
        shape = {f"noise {n} x {d}": (n, d, k) for n, d, k in NOISE}[name]
        X, y = noise(*shape)
    X = normalize(X) if rows or name == "digits" else StandardScaler().fit_transform(X)
    return X.astype(np.float32), y


def objective(model, X, y, C):
    """Mean over the samples, in nats."""
    W, b = model.coef_.astype(float), model.intercept_.astype(float)
    z = X @ W.T + b
    if z.shape[1] == 1:
        z = np.hstack([np.zeros_like(z), z])
    code = np.searchsorted(model.classes_, y)
    loss = logsumexp(z, axis=1) - z[np.arange(code.size), code]
    return loss.mean() + ((W**2).sum() + (b**2).sum()) / (2 * C * code.size)


def fit(solver, X, y, C):
    """(model, whether it met `tol`)."""
    model = LinearClassifier(
        "log_loss", C=C, calibration=None, solver=solver, random_state=0
    )
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model.fit(X, y)
    return model, not any(w.category is ConvergenceWarning for w in said)


def run(case):
    X, y = load(case["data"])
    C = case["C"]
    times = fastest(
        budget=BUDGET, **{solver: partial(fit, solver, X, y, C) for solver in SOLVERS}
    )
    models = {solver: times[solver].result[0] for solver in SOLVERS}
    ends = [solver for solver in SOLVERS if times[solver].result[1]]
    values = {solver: objective(models[solver], X, y, C) for solver in SOLVERS}
    least = min(values.values())
    known = [
        times[solver].cpu
        for solver in SOLVERS[:2]
        if solver in ends and values[solver] <= values["auto"] + NEAR
    ]
    return {
        **{solver: times[solver].cpu for solver in SOLVERS},
        "solver": models["auto"].solver_,
        "ends": ", ".join(ends),
        "ratio": times["auto"].cpu / min(known) if known else None,
        **{f"excess {solver}": values[solver] - least for solver in SOLVERS},
    }


if __name__ == "__main__":
    main(cases, run)
