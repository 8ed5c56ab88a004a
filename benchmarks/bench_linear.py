"""Logistic regression with sparse and grouped features: seconds, and what it is for.

    SKLSTRUCT_DATA=... python benchmarks/bench_linear.py [--peer] [--case letter]

`l1`: seconds to the same objective, within a part 1e-3 or 1e-6 of the least one. `gap`
is a fit of `StructuredLogisticRegression` until its duality gap is such a part, which
proves it; `ours` is when its objective was there. saga of scikit-learn and, for two
classes, skglm (after a call that compiles) have no
proof: theirs is the fit with the loosest of some tolerances whose objective turns out
to be there. A fit of more than 60 s is the last one that is tried.

`curve`: seconds and objective of ours, saga and LIBLINEAR at several tolerances, for
the picture that `draw_linear.py` makes. LIBLINEAR penalises the intercept, here by
1/100.

`path`: eleven strengths from the largest on by factors of .53, all newsgroups, with the
share of right answers on the test part; and the l2 models of `LinearClassifier`.

`size`: small models of which language a text of 40 letters is in, from the n-grams of 1
to 5 letters; and of the five groups comp.* from words, pairs and triples of words.
`weights` are stored, `features` have one. C is chosen for a number of weights.

All seconds are CPU time in one thread.
"""

from __future__ import annotations

import gzip
import time
import warnings
from functools import cache, partial

import numpy as np
from _common import data_folder, main, options
from _many_classes import read_table
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer, TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import log_loss
from sklearn.preprocessing import StandardScaler

from sklstruct.linear import (
    GroupLasso,
    LinearClassifier,
    StructuredLogisticRegression,
    TreeNorm,
    ngram_parents,
)
from sklstruct.loglinear import ElasticNet

BINARY = ("alt.atheism", "sci.space")
N_LANGUAGES, N_LETTERS = 40, 40

# Parts of the least objective by which objectives and gaps may be above it, and the
# seconds of a fit after which a peer gets no tighter tolerance.
PARTS, LONGEST = (1e-3, 1e-6), 60.0

# Tolerances of the picture.
TOLERANCES = {
    "ours": (0.1, 1e-2, 1e-3, 1e-4, 1e-5, 1e-6),
    "saga": (0.1, 1e-2, 1e-3, 1e-4),
    "liblinear": (1.0, 0.1, 1e-2, 1e-3, 1e-4),
}

# Penalty and C of the models of a size.
MODELS = {
    "languages": {
        "l1": (2.0, 10.0),
        "elastic_net": (1.0, 4.0),
        "group_lasso": (0.3, 0.6),
        "tree_linf": (3.0, 10.0),
        "l2": (10.0,),
    },
    "comp": {
        "l1": (0.3, 0.6),
        "elastic_net": (0.5, 1.0),
        "group_lasso": (0.1, 0.2),
        "tree_linf": (0.4, 0.8),
        "l2": (0.03, 0.3),
    },
}


@cache
def newsgroups(part, groups=None):
    """(texts, names) of a part of the 20 newsgroups, in a drawn order."""
    path = data_folder("text-classes") / f"20news-bydate-{part}.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split("\t", 2) for line in lines]
    rows = [row for row in rows if groups is None or row[0] in groups]
    order = np.random.RandomState(0).permutation(len(rows))
    texts = [rows[i][2].replace("\\n", "\n").replace("\\t", "\t") for i in order]
    return texts, np.array([rows[i][0] for i in order])


@cache
def samples(data):
    """(X, y) of the cases of seconds."""
    if data in ("letter", "isolet"):
        X, y = read_table(data, f"{data}.csv.gz", ["class"])
        order = np.random.RandomState(0).permutation(y.size)
        order = order[: 16_000 if data == "letter" else 1_248]
        return StandardScaler().fit_transform(X[order]), y[order]
    texts, y = newsgroups("train", BINARY if data == "binary" else None)
    X = TfidfVectorizer().fit_transform(texts)
    return (X[:4500], y[:4500]) if data == "newsgroups" else (X, y)


class Traced(StructuredLogisticRegression):
    """`log_`: CPU seconds, objective and gap in nats per sample, of each round."""

    def fit(self, X, y):
        self.log_, self.start_ = [], time.process_time()
        return super().fit(X, y)

    def _solve(self, solver, term, lams, report):
        total = solver.problem.total

        def note(objective, gap, n_iter):
            seconds = time.process_time() - self.start_
            self.log_.append((seconds, objective / total, gap / total))
            return report(objective, gap, n_iter)

        return super()._solve(solver, term, lams, note)

    def seconds_until(self, objective=-np.inf, gap=-np.inf):
        """Of the first round with an objective or a gap as small."""
        for seconds, at, of_round in self.log_:
            if at <= objective or of_round <= gap:
                return seconds
        return None


def objective(coef, intercept, X, y, C):
    """Total loss + l1 norm / C over the number of samples, of any tool's weights."""
    Z = X @ coef.T + intercept
    Z = np.hstack([np.zeros_like(Z), Z]) if Z.shape[1] == 1 else Z
    code = np.unique(y, return_inverse=True)[1]
    top = Z.max(axis=1)
    loss = top + np.log(np.exp(Z - top[:, None]).sum(axis=1))
    loss -= Z[np.arange(code.size), code]
    return (loss.sum() + np.abs(coef).sum() / C) / code.size


def cpu(function):
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        result = function()
    return time.process_time() - start, result


def peers_of(X, y, C):
    """name -> (its tolerances, its estimator of a tolerance, its y)."""
    out = {
        "saga": (
            (0.1, 0.03, 0.01, 3e-3, 1e-3, 3e-4, 1e-4, 1e-5),
            lambda tol: LogisticRegression(
                C=C, l1_ratio=1.0, solver="saga", tol=tol, max_iter=3000
            ),
            y,
        )
    }
    names = np.unique(y)
    if "skglm" in options.peers and names.size == 2:
        from skglm import SparseLogisticRegression

        code = np.where(y == names[1], 1.0, -1.0)
        SparseLogisticRegression(alpha=0.1 / len(y), tol=1e-6).fit(X, code)  # compiles
        out["skglm"] = (
            10.0 ** -np.arange(2, 11),
            lambda tol: SparseLogisticRegression(alpha=1 / (C * len(y)), tol=tol),
            code,
        )
    return {name: out[name] for name in out if name in options.peers}


def run_l1(data, C):
    X, y = samples(data)
    best = Traced("l1", C=C, tol=1e-8, max_iter=500).fit(X, y)
    least = best.log_[-1][1]
    out = {
        "rows": X.shape[0],
        "columns": X.shape[1],
        "classes": len(set(y)),
        "objective": least,
        "proved": best.log_[-1][2] / least,
        "weights": best.coef_.nnz,
    }
    for part in PARTS:
        fits = [Traced("l1", C=C, tol=part * least) for _ in range(options.repeats)]
        for fit in fits:
            fit.fit(X, y)
            if fit.log_[-1][0] > 1:
                break
        fits = [fit for fit in fits if hasattr(fit, "coef_")]
        out[f"gap {part:g}"] = min(fit.seconds_until(gap=part * least) for fit in fits)
        out[f"ours {part:g}"] = min(
            fit.seconds_until(objective=(1 + part) * least) for fit in fits
        )
    for name, (tolerances, make, target) in peers_of(X, y, C).items():
        missing = list(PARTS)
        for tol in tolerances:
            fit = partial(make(tol).fit, X, target)
            seconds, model = cpu(fit)
            coef = model.coef_.reshape(-1, X.shape[1])
            value = objective(coef, model.intercept_, X, y, C)
            while missing and value <= (1 + missing[0]) * least:
                part = missing.pop(0)
                for _ in range(options.repeats - 1 if seconds < 1 else 0):
                    seconds = min(seconds, cpu(fit)[0])
                out |= {
                    f"{name} {part:g}": seconds,
                    f"{name} tol {part:g}": tol,
                    f"{name} ratio {part:g}": seconds / out[f"ours {part:g}"],
                }
            if not missing or seconds > LONGEST:
                break
        for part in missing:
            out[f"{name} longer {part:g}"] = seconds
    return out


def run_curve(data, C, solver, tol):
    X, y = samples(data)
    model = StructuredLogisticRegression("l1", C=C, tol=tol)
    if solver != "ours":
        model = LogisticRegression(
            C=C, l1_ratio=1.0, solver=solver, tol=tol, max_iter=1000,
            intercept_scaling=100.0,
        )  # fmt: skip
    seconds, _ = cpu(lambda: model.fit(X, y))
    for _ in range(options.repeats - 1 if seconds < 1 else 0):
        seconds = min(seconds, cpu(lambda: model.fit(X, y))[0])
    coef = model.coef_ if solver != "ours" else model.coef_.toarray()
    value = objective(coef, model.intercept_, X, y, C)
    return {"seconds": seconds, "objective": value, "weights": np.count_nonzero(coef)}


def run_path():
    texts, y = newsgroups("train")
    tfidf = TfidfVectorizer()
    X = tfidf.fit_transform(texts)
    texts, right = newsgroups("test")
    test = tfidf.transform(texts)
    model = StructuredLogisticRegression("l1", tol=1e-3)
    largest = StructuredLogisticRegression("l1", C=1e-9).fit(X, y).lam_max_
    Cs = 0.53 ** -np.arange(11.0) / largest
    seconds, path = cpu(lambda: model.coef_path(X, y, Cs))
    classes = np.unique(y)
    out = {"rows": X.shape[0], "columns": X.shape[1], "seconds": seconds}
    for i, coef in enumerate(path.coefs):
        Z = (test @ coef.T).toarray() + path.intercepts[i]
        share = float((classes[Z.argmax(axis=1)] == right).mean())
        out |= {f"weights {i}": coef.nnz, f"right {i}": share}
    out["worst gap"] = path.gap.max() / y.size
    for C in (10, 100):
        other = LinearClassifier("log_loss", C=C, random_state=0)
        out[f"l2 {C} seconds"], _ = cpu(lambda other=other: other.fit(X, y))
        out[f"l2 {C} right"] = other.score(test, right)
    return out


@cache
def small(data):
    """(vectorizer, X, y, test X, test y) of the cases of size."""
    if data == "languages":
        path = data_folder("text-classes") / "udhr.tsv.gz"
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [line.rstrip("\n").split("\t")[:2] for line in lines]
        rows = [(name, text[:N_LETTERS]) for name, text in rows]
        rows = [row for row in rows if len(row[1]) == N_LETTERS]
        names, count = np.unique([row[0] for row in rows], return_counts=True)
        rng = np.random.RandomState(0)
        names = rng.permutation(names[count >= 40])[:N_LANGUAGES]
        rows = [row for row in rows if row[0] in set(names)]
        order = rng.permutation(len(rows))
        y = np.array([rows[i][0] for i in order])
        texts = [rows[i][1] for i in order]
        cut = 2 * len(rows) // 3
        vectorizer = CountVectorizer(
            analyzer="char", ngram_range=(1, 5), min_df=3, binary=True
        )
        train, test = texts[:cut], texts[cut:]
        y, right = y[:cut], y[cut:]
    else:
        names = {name for name in newsgroups("train")[1] if name.startswith("comp.")}
        (train, y), (test, right) = (
            newsgroups(part, frozenset(names)) for part in ("train", "test")
        )
        train, test = (
            [text.partition("\n\n")[2][:1500] for text in part]
            for part in (train, test)
        )
        vectorizer = CountVectorizer(ngram_range=(1, 3), min_df=3, binary=True)
    X = vectorizer.fit_transform(train).astype(np.float64)
    return vectorizer, X, y, vectorizer.transform(test).astype(np.float64), right


def run_size(data, penalty, C):
    vectorizer, X, y, test, right = small(data)
    penalties = {
        "elastic_net": lambda: ElasticNet(1.0),
        "group_lasso": GroupLasso,
        "tree_linf": lambda: TreeNorm(ngram_parents(vectorizer)),
    }
    if penalty == "l2":
        model = LogisticRegression(C=C, max_iter=1000)
    else:
        chosen = penalties.get(penalty, lambda: penalty)()
        model = StructuredLogisticRegression(chosen, C=C, tol=1e-3, max_iter=200)
    seconds, _ = cpu(lambda: model.fit(X, y))
    coef = model.coef_ if penalty == "l2" else model.coef_.toarray()
    return {
        "rows": X.shape[0],
        "columns": X.shape[1],
        "test rows": test.shape[0],
        "seconds": seconds,
        "weights": np.count_nonzero(coef),
        "features": np.count_nonzero(coef.any(axis=0)),
        "right": model.score(test, right),
        "log loss": log_loss(right, model.predict_proba(test), labels=model.classes_),
        "gap": None if penalty == "l2" else model.gap_ / len(y),
    }


def cases():
    out = [
        {"name": f"l1 {data} C={C:g}", "task": "l1", "data": data, "C": C, **slow}
        for data, strengths, slow in (
            ("binary", (0.1, 1.0, 10.0, 100.0), {}),
            ("isolet", (0.1, 1.0, 10.0), {"slow": True}),
            ("letter", (0.1, 1.0, 10.0, 100.0), {"slow": True}),
            ("newsgroups", (1.0, 10.0), {"slow": True}),
        )
        for C in strengths
    ]
    out += [
        {
            "name": f"curve {data} C=1 {solver} {tol:g}",
            "task": "curve",
            "data": data,
            "C": 1.0,
            "solver": solver,
            "tol": tol,
            **({} if solver == "ours" else {"needs": solver}),
            **({} if data == "binary" else {"slow": True}),
        }
        for data, solvers in (
            ("newsgroups", ("ours", "saga")),
            ("binary", ("ours", "saga", "liblinear")),
        )
        for solver in solvers
        for tol in TOLERANCES[solver]
    ]
    out.append({"name": "path newsgroups", "task": "path", "slow": True})
    out += [
        {
            "name": f"size {data} {penalty} C={C:g}",
            "task": "size",
            "data": data,
            "penalty": penalty,
            "C": C,
        }
        for data, models in MODELS.items()
        for penalty, strengths in models.items()
        for C in strengths
    ]
    return out


def run(case):
    case.pop("name")
    tasks = {"l1": run_l1, "curve": run_curve, "path": run_path, "size": run_size}
    return tasks[case.pop("task")](**case)


if __name__ == "__main__":
    main(cases, run, peers=("saga", "skglm", "liblinear"))
