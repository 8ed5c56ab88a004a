"""No public call ends the interpreter, for all arrays of a sparse matrix.

Every entry that takes sparse input is called with every malformed variant of a matrix
that it accepts. This file runs itself in a child process, which prints one line per
call; where the child dies, that is a failure, and a new child goes on after it.
"""

import json
import subprocess
import sys
import warnings
from functools import cache, partial

import numpy as np
import pytest
import scipy.sparse as sp
from _loglinear import loglinear

TIMEOUT = 3600

# Copied by scikit-learn's clone before we see it, which may fail in SciPy's words.
CLONED = {"KneserNeyLM with a graph below"}


# -------------------------------------------------------------------- variants


def setting(fmt, name, at, value):
    """The matrix with one number of an index array changed."""

    def change(good):
        X = sp.csr_matrix(good, copy=True).asformat(fmt)
        array = X.coords[name] if isinstance(name, int) else getattr(X, name)
        array[at] = value(X) if callable(value) else value
        return X

    return change


def replacing(fmt, name, array):
    """The matrix with an attribute replaced."""

    def change(good):
        X = sp.csr_matrix(good, copy=True).asformat(fmt)
        setattr(X, name, array(X))
        return X

    return change


def lists(columns, values):
    def change(good):
        X = sp.lil_matrix(good)
        X.rows[2], X.data[2] = columns, values
        return X

    return change


def keyed(*key):
    def change(good):
        X = sp.dok_matrix(good)
        X._dict[key] = 1.0
        return X

    return change


def negative_zero_length(X):
    return np.concatenate([X.indptr[:2], [X.indptr[1] - 5], X.indptr[3:]]).astype(
        np.int32
    )


VARIANTS = {
    **{
        f"{fmt} {name}[{at}] = {value if not callable(value) else 'size'}": setting(
            fmt, name, at, value
        )
        for fmt in ("csr", "csc", "bsr")
        for name, at, value in (
            ("indices", 3, 10**8),
            ("indices", 0, -1),
            ("indices", 3, -(10**9)),
            ("indices", -1, lambda X: X.shape[0] if X.format == "csc" else X.shape[1]),
            ("indptr", 1, 10**8),
            ("indptr", 2, -5),
            ("indptr", 0, 7),
            ("indptr", -1, 10**6),
        )
    },
    **{
        f"{fmt} {name} too {how}": replacing(fmt, name, partial(cut, name))
        for fmt in ("csr", "csc", "bsr")
        for name in ("data", "indices", "indptr")
        for how, cut in (
            ("short", lambda name, X: getattr(X, name)[:-2]),
            (
                "long",
                lambda name, X: np.concatenate(
                    [getattr(X, name), getattr(X, name)[-2:]]
                ),
            ),
        )
    },
    "csr indptr falls": replacing("csr", "indptr", negative_zero_length),
    "csr indices of floats": replacing("csr", "indices", lambda X: X.indices + 0.5),
    "csr indices None": replacing("csr", "indices", lambda X: None),
    "csr data of two axes": replacing("csr", "data", lambda X: X.data[:, None]),
    "csr of more rows": replacing("csr", "_shape", lambda X: (10**8, X.shape[1])),
    "csr of fewer columns": replacing("csr", "_shape", lambda X: (X.shape[0], 1)),
    "csr without a shape": replacing("csr", "_shape", lambda X: None),
    "bsr blocks of size 0": replacing("bsr", "data", lambda X: X.data[:, :0]),
    "bsr blocks too large": replacing(
        "bsr", "data", lambda X: np.ones((X.indices.size, 7, 7))
    ),
    "coo row beyond": setting("coo", 0, 3, 10**8),
    "coo row negative": setting("coo", 0, 3, -(10**8)),
    "coo column beyond": setting("coo", 1, 3, lambda X: X.shape[1]),
    "coo column negative": setting("coo", 1, 3, -1),
    "coo data short": replacing("coo", "data", lambda X: X.data[:-2]),
    "coo columns short": replacing(
        "coo", "coords", lambda X: (X.coords[0], X.coords[1][:-2])
    ),
    "coo of one axis": replacing("coo", "coords", lambda X: X.coords[:1]),
    "lil column beyond": lists([10**8], [1.0]),
    "lil column negative": lists([-(10**8)], [1.0]),
    "lil column of 200 bits": lists([1 << 200], [1.0]),
    "lil without values": lists([0, 1, 2], []),
    "lil without columns": lists([], [1.0]),
    "lil row None": lists(None, None),
    "lil rows short": replacing("lil", "rows", lambda X: X.rows[:-2]),
    "dok row beyond": keyed(10**8, 0),
    "dok column negative": keyed(0, -(10**8)),
    "dia offsets short": replacing("dia", "offsets", lambda X: X.offsets[:-1]),
    "dia smallest offset": setting("dia", "offsets", 0, np.iinfo(np.int32).min),
    "dia data of one axis": replacing("dia", "data", lambda X: X.data.ravel()),
    "one axis": lambda good: sp.coo_array(np.asarray(good.todense())[0]),
}


# --------------------------------------------------------------------- entries


def entries():
    """name -> (good matrix, call of it)."""
    from sklearn.base import clone
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import MaxAbsScaler

    from sklstruct import (
        AdditiveLM,
        HierarchicalClassifier,
        KneserNeyLM,
        LinearClassifier,
        StructuredLogisticRegression,
        SuffixTreeVectorizer,
    )
    from sklstruct.metrics import log_likelihood
    from sklstruct.smoothing import (
        AdditiveUnigram,
        GraphDiffusionUnigram,
        GraphSpreadUnigram,
    )
    from sklstruct.smoothing import (
        KneserNeyLM as KN,
    )
    from sklstruct.taxonomy import (
        TAXONOMY_BUILDERS,
        ClassStatistics,
        RefinedTaxonomy,
    )

    rng = np.random.default_rng(0)
    found = {}

    # graphs of 12 words
    w = rng.random((12, 12)) * (rng.random((12, 12)) < 0.5)
    w = sp.csr_matrix(w + w.T)
    counts = rng.integers(0, 5, 12)
    y = np.arange(12)
    for method in ("normalized", "kernel"):
        found[f"GraphDiffusionUnigram {method}"] = (
            w,
            lambda X, method=method: GraphDiffusionUnigram(method, graph=X).from_counts(
                counts
            ),
        )
    found["GraphDiffusionUnigram.fit"] = (
        w,
        lambda X: GraphDiffusionUnigram(graph=X).fit(np.zeros((12, 1)), y),
    )
    found["GraphDiffusionUnigram of a function"] = (
        w,
        lambda X: GraphDiffusionUnigram(graph=lambda classes: X).from_counts(counts),
    )
    found["GraphSpreadUnigram"] = (
        w,
        lambda X: GraphSpreadUnigram(X, base=AdditiveUnigram()).from_counts(counts),
    )
    found["KneserNeyLM with a graph below"] = (
        w,
        lambda X: KN(discount=0.5, base=GraphDiffusionUnigram(graph=X, floor=0.1)).fit(
            y[:, None], y
        ),
    )

    # path matrices
    windows = rng.integers(0, 4, (40, 3))
    target = rng.integers(0, 3, 40)
    paths = sp.csr_matrix(SuffixTreeVectorizer(max_depth=3).fit_transform(windows))
    for model in (
        KneserNeyLM(discount=0.5),
        loglinear(max_iter=3, tol=0),
        AdditiveLM(),
    ):
        name = type(model).__name__
        found[f"{name}.fit"] = (paths, lambda X, m=model: m.fit(X, target))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fitted = type(model)(**model.get_params(deep=False)).fit(paths, target)
        for method in ("predict", "predict_proba", "predict_log_proba"):
            found[f"{name}.{method}"] = (paths, getattr(fitted, method))
        found[f"{name}.target_log_proba"] = (
            paths,
            lambda X, m=fitted: m.target_log_proba(X, target),
        )
        found[f"log_likelihood of {name}"] = (
            paths,
            lambda X, m=fitted: log_likelihood(m, X, target),
        )

    # features
    features = sp.random_array((40, 9), density=0.4, random_state=rng, format="csr")
    features = sp.csr_matrix(features)
    label = np.arange(40) % 5
    for name, builder in TAXONOMY_BUILDERS.items():
        found[f"builder {name}"] = (
            features,
            lambda X, b=builder: b().build(X, label),
        )
    groups = {c: ["left" if c < 2 else "right"] for c in range(5)}
    found["RefinedTaxonomy"] = (
        features,
        lambda X: RefinedTaxonomy(groups).build(X, label),
    )
    found["ClassStatistics"] = (features, lambda X: ClassStatistics(X, label))
    found["HierarchicalClassifier.fit"] = (
        features,
        lambda X: HierarchicalClassifier().fit(X, label),
    )
    found["HierarchicalClassifier.fit of an estimator"] = (
        features,
        lambda X: HierarchicalClassifier(estimator=LogisticRegression()).fit(X, label),
    )
    fitted = HierarchicalClassifier().fit(features, label)
    for method in ("predict", "predict_proba", "predict_log_proba"):
        found[f"HierarchicalClassifier.{method}"] = (features, getattr(fitted, method))
    found["HierarchicalClassifier.target_log_proba"] = (
        features,
        lambda X: fitted.target_log_proba(X, label),
    )
    for flat in (LinearClassifier(), StructuredLogisticRegression()):
        name = type(flat).__name__
        found[f"{name}.fit"] = (
            features,
            lambda X, flat=flat: clone(flat).fit(X, label),
        )
        flat.fit(features, label)
        for method in ("predict", "decision_function", "predict_proba"):
            found[f"{name}.{method}"] = (features, getattr(flat, method))
    other = LogisticRegression().fit(features, label)
    found["log_likelihood of LogisticRegression"] = (
        features,
        lambda X: log_likelihood(other, X, label),
    )
    pipeline = make_pipeline(MaxAbsScaler(), HierarchicalClassifier())
    pipeline.fit(features, label)
    found["log_likelihood of a pipeline"] = (
        features,
        lambda X: log_likelihood(pipeline, X, label),
    )
    try:
        import matplotlib
    except ImportError:
        pass
    else:
        matplotlib.use("Agg")
        from sklstruct.plotting import TaxonomyDisplay

        found["TaxonomyDisplay"] = (
            features,
            lambda X: TaxonomyDisplay.from_estimator(fitted, X, label),
        )
    return found


# ----------------------------------------------------------------------- child


def calls():
    for name, (good, call) in entries().items():
        yield name, "good", lambda good=good, call=call: call(good.copy())
        for variant, change in VARIANTS.items():
            yield (
                name,
                variant,
                lambda good=good, call=call, change=change: call(change(good)),
            )


def run(first):
    """Make the calls from number `first` on; two lines each: before and after."""
    warnings.simplefilter("ignore")
    for number, (name, variant, call) in enumerate(calls()):
        if number < first:
            continue
        print(json.dumps([number, name, variant]), flush=True)
        try:
            call()
        except BaseException as exc:
            outcome = f"{type(exc).__name__}: {exc}"
        else:
            outcome = "returned"
        print(json.dumps(outcome), flush=True)
    print(json.dumps("end"), flush=True)


@cache
def outcomes():
    """entry -> variant -> what came of the call."""
    found, first = {}, 0
    while True:
        child = subprocess.run(
            [sys.executable, __file__, str(first)],
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
        lines = [json.loads(line) for line in child.stdout.splitlines()]
        if not lines:
            raise RuntimeError(f"the child did nothing: {child.stderr[-2000:]}")
        ended = lines[-1] == "end"
        if ended:
            lines.pop()
        for (_, name, variant), outcome in zip(lines[::2], lines[1::2]):
            found.setdefault(name, {})[variant] = outcome
        if ended:
            return found
        # The last call has no outcome: it ended the interpreter.
        number, name, variant = lines[-1]
        found.setdefault(name, {})[variant] = f"died with {child.returncode}"
        first = number + 1


@pytest.fixture(scope="module")
def found():
    return outcomes()


@pytest.mark.processes
def test_every_entry_takes_the_matrix_that_is_not_malformed(found):
    assert len(found) > 40
    wrong = {name: of["good"] for name, of in found.items() if of["good"] != "returned"}
    assert not wrong


@pytest.mark.processes
def test_nothing_dies_and_all_is_refused_by_name(found):
    wrong = []
    for name, of in found.items():
        assert set(of) == {"good", *VARIANTS}
        for variant, outcome in of.items():
            if variant == "good":
                continue
            refused = outcome.startswith("ValueError: ") and (
                "malformed" in outcome or "dimensions" in outcome
            )
            if name in CLONED:
                refused = outcome != "returned" and not outcome.startswith("died")
            if not refused:
                wrong.append(f"{name}, {variant}: {outcome[:200]}")
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("n_columns", [10**9, 2**40])
def test_path_matrix_of_mostly_no_columns_is_refused(n_columns):
    from sklstruct import AdditiveLM, KneserNeyLM, StructuredLogLinearLM

    X = sp.csr_array(
        (np.ones(50), np.zeros(50, dtype=np.int64), np.arange(51)),
        shape=(50, n_columns),
    )
    y = np.arange(50) % 3
    good = X[:, :1]
    for model in (KneserNeyLM(discount=0.5), AdditiveLM(), StructuredLogLinearLM()):
        with pytest.raises(ValueError, match="columns"):
            model.fit(X, y)
        model.fit(good, y)
        for call in (model.predict, model.predict_proba):
            with pytest.raises(ValueError, match="features"):
                call(X)


if __name__ == "__main__":
    run(int(sys.argv[1]))
