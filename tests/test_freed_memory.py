"""Equal fits give equal answers, whatever freed and new memory holds; what is freed.

glibc fills memory with a byte when it is allocated, and with another one when it is
freed, if MALLOC_PERTURB_ is set. This file runs itself in a child process for each of
two values, fits every public estimator and classifiers whose fits go on after a halt,
and compares all answers bit by bit: a kernel that reads memory after it was freed, or
before it was written, gives other numbers. The first child fits everything twice: fits
of one process are equal, too. If the C library is another one, equal fits are compared
all the same.

    MALLOC_PERTURB_=85 python tests/test_freed_memory.py 2    # digests of two fits each
"""

import gc
import hashlib
import json
import os
import subprocess
import sys
import warnings

import numpy as np
import pytest
import scipy.sparse as sp
from _fitted import ask, fitted
from sklearn.base import clone
from sklearn.datasets import make_multilabel_classification

from sklstruct import HierarchicalClassifier, LinearClassifier
from sklstruct.backoff._words_fast import Cursor
from sklstruct.hierarchical import PerNodeC

VALUES = ("85", "165")
GROUPS = [list(range(7)), list(range(7, 14))]


def pour(answer, digest):
    """Add every bit of an answer to a digest."""
    if sp.issparse(answer):
        answer = answer.tocsr()
        answer = [answer.shape, answer.data, answer.indices, answer.indptr]
    if isinstance(answer, np.ndarray) and answer.dtype != object:
        digest.update(f"{answer.dtype}{answer.shape}".encode())
        digest.update(np.ascontiguousarray(answer).tobytes())
    elif isinstance(answer, dict):
        for key in answer:
            pour(key, digest)
            pour(answer[key], digest)
    elif isinstance(answer, list | tuple | np.ndarray):
        digest.update(b"(")
        for part in answer:
            pour(part, digest)
    elif isinstance(answer, Exception):
        digest.update(type(answer).__name__.encode())
    elif isinstance(answer, float | int | str | bytes | np.generic | None):
        digest.update(repr(answer).encode())
    elif isinstance(answer, Cursor):
        pour(np.asarray(answer), digest)
    elif vars(answer):  # a model, as `partial_fit` returns
        digest.update(type(answer).__name__.encode())


def digest_of(make, kind, X, y):
    np.random.seed(0)  # noqa: NPY002, that of estimators without random_state
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = make()
        digest = hashlib.sha256()
        if kind is not None:
            pour(ask(model, kind, X, y), digest)
    return digest.hexdigest()


def labels_above():
    """(X, y): label 0 is above the labels 1 and 2, by chance of the samples."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 4))
    leaf = (X[:, 1:4] + 0.5 * rng.normal(size=(300, 3)) > 0.6).astype(int)
    return X, np.c_[leaf[:, :2].any(axis=1), leaf].astype(int)


def many_labels(n=1400, n_labels=14):
    X, Y = make_multilabel_classification(
        n, 40, n_classes=n_labels, n_labels=3, random_state=0
    )
    return X / np.linalg.norm(X, axis=1, keepdims=True), Y


def continued():
    """name -> (function that fits, question, X, y) of fits that stop and go on.

    ``loss="auto"`` halts the descents of the tried nodes and continues those of the
    loss that it chooses; `partial_fit` continues from the weights of earlier batches.
    """
    found = {}

    def put(name, model, X, Y):
        found[name] = (lambda: clone(model).fit(X, Y), "rows", X[:100], None)

    X, Y = labels_above()
    for seed in range(2):
        for name, tree in {
            "above": {1: 0, 2: 0, 3: None},
            "nested": [[0, 1, 2], [3]],
        }.items():
            model = HierarchicalClassifier(tree, random_state=seed)
            put(f"{name}, seed {seed}", model, X, Y)
    put("above, threshold", clone(model).set_params(threshold="f1"), X, Y)
    put("two threads", clone(model).set_params(n_jobs=2), X, Y)
    X, Y = many_labels()
    default = {"random_state": 0}
    for name, parameters in {
        "groups": {"taxonomy": GROUPS},
        "cut": {"taxonomy": "cut", "max_leaf": 5},
        "kmeans": {"taxonomy": "kmeans", "max_leaf": 5},
        "ward": {"taxonomy": "ward", "max_leaf": 5},
        "mean": {"taxonomy": "rand", "max_leaf": 7, "n_taxonomies": 2},
        "hinge": {"taxonomy": GROUPS, "estimator": LinearClassifier()},
        "logistic": {
            "taxonomy": GROUPS,
            "estimator": LinearClassifier("ovr_log_loss", C=10.0),
        },
    }.items():
        put(name, HierarchicalClassifier(**(default | parameters)), X, Y)
    model = HierarchicalClassifier(GROUPS, random_state=0)
    put("single precision", model, X.astype(np.float32), Y)
    put("sparse", model, sp.csr_array(X), Y)
    put("flat", LinearClassifier("auto", random_state=0), X, Y)
    y = Y.argmax(axis=1)
    auto = LinearClassifier("auto", max_iter=50)
    model = HierarchicalClassifier(GROUPS, estimator=auto, random_state=0)
    put("one label", model, X, y)
    put("one label, sparse", model, sp.csr_array(X), y)
    model = HierarchicalClassifier(GROUPS, estimator=PerNodeC(), random_state=0)
    put("logistic, search of C", model, X, y)

    def in_batches(dense):
        model = HierarchicalClassifier(GROUPS, estimator=auto, random_state=0)
        for part in np.array_split(np.arange(len(X)), 4):
            rows = X[part] if dense else sp.csr_array(X[part])
            model.partial_fit(rows, y[part], classes=np.arange(14))
        return model

    for dense in (True, False):
        make = lambda dense=dense: in_batches(dense)  # noqa: E731
        found[f"batches, {'dense' if dense else 'sparse'}"] = make, "rows", X[:99], None
    return found


def digests(times):
    """name -> digests of the answers of so many fits in this process."""
    return {
        name: [digest_of(*entry) for _ in range(times)]
        for name, entry in {**fitted(), **continued()}.items()
    }


def margins():
    """The least P(parent) - P(child), and the largest distance of dense from CSR."""
    X, Y = labels_above()
    model = HierarchicalClassifier({1: 0, 2: 0, 3: None}, random_state=0)
    with warnings.catch_warnings():  # lengths of rows
        warnings.simplefilter("ignore")
        model.fit(X, Y)
    P = model.predict_proba(X)
    X, Y = many_labels()
    model = HierarchicalClassifier(GROUPS, random_state=0)
    dense = model.fit(X, Y).predict_proba(X)
    apart = np.abs(dense - model.fit(sp.csr_array(X), Y).predict_proba(X)).max()
    return float((P[:, [0]] - P[:, 1:3]).min()), float(apart)


def child(value, times):
    """(digests, margins) of a process with this value of MALLOC_PERTURB_."""
    done = subprocess.run(
        [sys.executable, __file__, str(times)],
        env={**os.environ, "MALLOC_PERTURB_": value},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout)


@pytest.mark.processes
def test_answers_do_not_depend_on_what_memory_held():
    (first, bounds), (second, bounds_again) = map(child, VALUES, (2, 1))
    assert len(first) > 90 and first.keys() == second.keys()
    assert [name for name, (a, b) in first.items() if a != b] == []
    assert [name for name, (a, _) in first.items() if second[name] != [a]] == []
    for below, apart in (bounds, bounds_again):
        assert below >= 0
        assert apart < 0.03  # the tolerance of the descents


@pytest.mark.parametrize("name", sorted(fitted()))
def test_a_model_is_freed_when_its_last_name_goes(name):
    """Objects that refer to each other are freed much later, by the next full search
    of the interpreter, and the arrays of a large model with them."""
    make, kind, X, y = fitted()[name]
    gc.disable()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            gc.collect()
            model = make()
            answers = None if kind is None else ask(model, kind, X, y)
        del model, answers
        gc.set_debug(gc.DEBUG_SAVEALL)
        gc.collect()
        left = {type(one) for one in gc.garbage}
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()
    assert not {one for one in left if one.__module__.startswith("sklstruct")}


if __name__ == "__main__":
    print(json.dumps([digests(int(sys.argv[1])), margins()], indent=0))
