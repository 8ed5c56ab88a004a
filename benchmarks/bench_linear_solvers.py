"""Both solvers of `LinearClassifier("log_loss")`, and the one that "auto" takes.

    SKLSTRUCT_DATA=... python benchmarks/bench_linear_solvers.py --out FILE
    python benchmarks/bench_linear_solvers.py --case "held out*"

A case is a data set and C, without calibration and with the default `tol`. Figures:
`dual`, `quasi_newton` and `auto`, CPU seconds of a fit, the least of some that take
turns; `solver`, that of "auto"; `excess` of each, how far the mean objective is above
the least of the three, in nats per sample; `ratio`, seconds of "auto" over those of the
faster solver that ends, in 200 epochs or 1000 iterations, with an excess at most 1e-4
above that of "auto". All cases take two minutes.

`noise` are classes that overlap, with three of ten labels drawn, n samples of d
columns. `held out` are fits that were not used to make the rule of "auto": small sets
of scikit-learn, singular vectors of texts, other labels or columns of the tables, and
drawn columns with heavy tails or of unequal lengths; their record is
`linear_held_out.json`. Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1.
"""

import warnings
from functools import partial

import numpy as np
from _common import fastest, main
from _many_classes import clinc150, lines_of, read_table
from scipy.special import logsumexp
from sklearn.datasets import load_breast_cancer, load_digits, load_iris, load_wine
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import PolynomialFeatures, StandardScaler, normalize

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


HELD_OUT_STRENGTHS = (0.05, 0.7, 8.0)


def cases():
    names = ["digits", *TABLES, *(f"{name}, unit rows" for name in TABLES), "clinc150"]
    names += [f"noise {n} x {d}" for n, d, _ in NOISE]
    every = [(name, C) for name in names for C in STRENGTHS]
    every += [(name, C) for name in HELD_OUT for C in HELD_OUT_STRENGTHS]
    return [{"data": name, "C": C} for name, C in every]


def scaled(X, y):
    return StandardScaler().fit_transform(X), y


def squares(X, y):
    return scaled(PolynomialFeatures(2, include_bias=False).fit_transform(X), y)


def table(name, label, columns, n):
    X, y = read_table(name, TABLES[name][0], [label])
    rows = np.random.default_rng(3).permutation(y.size)[:n]
    return scaled(X[rows][:, columns], y[rows])


def texts(name, text, n_columns, n, n_letters=None, **how):
    """tf-idf of n texts of a file of labels and texts, or as many singular vectors."""
    lines = [line.split("\t") for line in lines_of("text-classes", name)]
    lines = [line for line in lines if len(line) > text]
    if n_letters:  # some of the languages
        some = np.unique([line[0] for line in lines])[::29].tolist()
        lines = [line for line in lines if line[0] in some]
    rows = np.random.default_rng(7).permutation(len(lines))[:n]
    X = TfidfVectorizer(sublinear_tf=True, min_df=2, **how).fit_transform(
        lines[i][text][:n_letters] for i in rows
    )
    if n_columns:
        X = TruncatedSVD(n_columns, random_state=0).fit_transform(X)
    return X, np.array([lines[i][0] for i in rows])


def drawn(kind, n, d, n_classes):
    rng = np.random.default_rng(11)
    X = rng.standard_t(2.5, size=(n, d)) if kind == "tails" else rng.normal(size=(n, d))
    if kind == "lengths":
        X *= np.geomspace(1, 0.01, d)
    if kind == "shared":
        X += 2 * rng.normal(size=(n, 1))
    score = X @ rng.normal(size=(d, n_classes)) / np.sqrt(d)
    return X, (score + rng.gumbel(size=score.shape)).argmax(axis=1)


news = partial(texts, "20news-bydate-test.tsv.gz", 2)
languages = partial(
    texts, "udhr.tsv.gz", 1, n_letters=60, analyzer="char", ngram_range=(1, 3)
)
EVERY = slice(None)
HELD_OUT = {
    f"held out: {name}": make
    for name, make in {
        "iris": lambda: scaled(*load_iris(return_X_y=True)),
        "iris, as it is": lambda: load_iris(return_X_y=True),
        "iris, squares": lambda: squares(*load_iris(return_X_y=True)),
        "wine": lambda: scaled(*load_wine(return_X_y=True)),
        "breast cancer": lambda: scaled(*load_breast_cancer(return_X_y=True)),
        "digits, standardised": lambda: scaled(*load_digits(return_X_y=True)),
        "letter, 5000 rows": partial(table, "letter", "class", EVERY, 5000),
        "letter, 8 columns": partial(table, "letter", "class", slice(4, 12), 9000),
        "letter, squares": lambda: squares(*table("letter", "class", EVERY, 4000)),
        "isolet, 40 columns": partial(
            table, "isolet", "class", slice(0, 600, 15), 1500
        ),
        "leaves100, genera": partial(table, "leaves100", "genus", slice(64), 1600),
        "omniglot, 30 columns": partial(
            table, "omniglot", "alphabet", slice(3, 183, 6), 2500
        ),
        "news, words": partial(news, 0, 3000),
        "news, 40 vectors": partial(news, 40, 6000),
        "news, 150 vectors": partial(news, 150, 4000),
        "languages, letters": partial(languages, 0, 2000),
        "languages, 60 vectors": partial(languages, 60, 2000),
        "tails 4000 x 25": partial(drawn, "tails", 4000, 25, 4),
        "lengths 3000 x 60": partial(drawn, "lengths", 3000, 60, 6),
        "shared 8000 x 12": partial(drawn, "shared", 8000, 12, 9),
    }.items()
}


def noise(n, d, n_classes):
    rng = np.random.default_rng(0)
    y = np.r_[np.arange(n_classes), rng.integers(0, n_classes, n - n_classes)]
    X = 0.7 * rng.normal(size=(n_classes, d))[y] + rng.normal(size=(n, d))
    return X, np.where(rng.random(n) < 0.3, rng.integers(0, n_classes, n), y)


def load(name):
    if name in HELD_OUT:
        X, y = HELD_OUT[name]()
        return X.astype(np.float32), y
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
