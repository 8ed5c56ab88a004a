"""Flat, one tree or three: which shape for few classes, and for dense features.

    SKLSTRUCT_DATA=... python benchmarks/bench_shapes.py --out FILE
    python benchmarks/bench_shapes.py --list

`few`: sparse text of 2 to 150 classes. `HierarchicalClassifier()` and the flat
`DualLinearClassifier`, weights below .02 dropped as in the former, are fitted in turns:
`fit` and `flat_fit`, the least CPU seconds of some fits, and their `ratio`; `accuracy`
and `log_loss` (nats) of both on the test part. The classes are intents of clinc150, in
a random order; the features tf-idf of words and pairs (`words`) or of runs of two to
five letters (`letters`).

`dense`: `HierarchicalClassifier` of logistic regressions with one C: `flat`; one tree
of "cut" that stops at 100 or 32 classes, or goes down to single ones; the mean of
three of these. Figures: `accuracy` and `log_loss` on the test part, `fit`, CPU seconds,
and `predict`, CPU milliseconds for a thousand samples. Sets: `leaves` (100 classes, 192
columns), `isolet` (26, 617), `intents` (150; the leading 100 or 300 singular vectors of
the tf-idf), `words` (the next word of WikiText-2 among 1 000, from a vector of the
previous one, 100 columns), columns standardised.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1.
"""

import warnings
from functools import partial

import numpy as np
from _common import fastest, main, timed
from _many_classes import lines_of, parts_of
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler, normalize

from sklstruct import HierarchicalClassifier
from sklstruct.linear import DualLinearClassifier

FEW = (2, 5, 10, 20, 40, 77, 100, 150)
FEATURES = {
    "words": {"ngram_range": (1, 2)},
    "letters": {"analyzer": "char_wb", "ngram_range": (2, 5)},
}
# C of each dense set: the flat model's best of .01, .1 on the test part for all but the
# words, where it is that of other pages.
DENSE = {
    "leaves": 0.1,
    "isolet": 0.1,
    "intents, 100 columns": 0.1,
    "intents, 300 columns": 0.1,
    "words": 0.03,
}
SHAPES = {
    "flat": {"max_depth": 0},
    "one tree, leaves of 100": {"max_leaf": 100},
    "one tree, leaves of 32": {"max_leaf": 32},
    "one tree": {},
    "three trees": {"n_taxonomies": 3},
}


def intents(n_classes, features):
    """((X, y), (Z, target)) of some intents of clinc150."""
    parts = [
        [line.split("\t") for line in lines_of("clinc150", f"{name}.tsv.gz")]
        for name in ("train", "test")
    ]
    names = np.unique([row[1] for row in parts[0]])
    chosen = set(np.random.default_rng(0).permutation(names)[:n_classes].tolist())
    parts = [[row for row in part if row[1] in chosen] for part in parts]
    tfidf = TfidfVectorizer(min_df=2, sublinear_tf=True, **FEATURES[features])
    tfidf.fit([row[2] for row in parts[0]])
    return [
        (
            tfidf.transform([row[2] for row in part]).tocsr(),
            np.array([row[1] for row in part]),
        )
        for part in parts
    ]


def dense(name):
    """((X, y), (Z, target)), standardised."""
    if not name.startswith("intents"):
        section = {"leaves": "leaves100", "words": "words1000"}.get(name, name)
        train, _, test = parts_of(section, 0)
        return train, test
    (X, y), (Z, target) = intents(150, "words")
    directions = TruncatedSVD(int(name.split()[1]), random_state=0).fit(X)
    rows = [normalize(directions.transform(part)) for part in (X, Z)]
    scale = StandardScaler().fit(rows[0])
    return (scale.transform(rows[0]), y), (scale.transform(rows[1]), target)


def log_loss(model, X, y):
    known = np.isin(y, model.classes_)
    return -model.target_log_proba(X[known], y[known]).mean()


def cases():
    found = [
        {"section": "few", "features": features, "classes": k}
        for features in FEATURES
        for k in FEW
    ]
    return found + [
        {"section": "dense", "set": name, "shape": shape}
        | ({"slow": True} if name == "words" else {})
        for name in DENSE
        for shape in SHAPES
    ]


def run(case):
    warnings.simplefilter("ignore", ConvergenceWarning)
    if case["section"] == "dense":
        (X, y), (Z, target) = dense(case["set"])
        model = HierarchicalClassifier(
            "cut", C=DENSE[case["set"]], random_state=0, **SHAPES[case["shape"]]
        )
        fit = timed(model.fit, X, y, repeats=1)
        model.predict(Z[:10])
        predict = timed(model.predict, Z, repeats=2)
        return {
            "classes": model.classes_.size,
            "columns": X.shape[1],
            "samples": X.shape[0],
            "accuracy": (predict.result == target).mean(),
            "log_loss": log_loss(model, Z, target),
            "fit": fit.cpu,
            "predict": 1e6 * predict.cpu / target.size,
        }
    (X, y), (Z, target) = intents(case["classes"], case["features"])
    flat = DualLinearClassifier(weight_threshold=0.02, random_state=0)
    ours = HierarchicalClassifier(random_state=0)
    times = fastest(ours=partial(ours.fit, X, y), flat=partial(flat.fit, X, y))
    return {
        "fit": times["ours"].cpu,
        "flat_fit": times["flat"].cpu,
        "ratio": times["ours"].cpu / times["flat"].cpu,
        "accuracy": ours.score(Z, target),
        "flat_accuracy": flat.score(Z, target),
        "log_loss": log_loss(ours, Z, target),
        "flat_log_loss": log_loss(flat, Z, target),
        "loss": ours.nodes_.loss,
    }


if __name__ == "__main__":
    main(cases, run)
