"""Flat, one tree or three: which shape for few classes, and for dense features.

    SKLSTRUCT_DATA=... python benchmarks/bench_shapes.py --out FILE
    python benchmarks/bench_shapes.py --list

`few`: sparse text of 5 to 300 classes. `HierarchicalClassifier()` and the flat
`LinearClassifier`, weights below .02 dropped as in the former, are fitted in turns,
the latter with the squared hinge and with ``loss="auto"``, as the default has it:
`fit`, `flat_fit` and `auto_fit`, the least CPU seconds of some fits, `ratio` and
`auto_ratio` of the first to the others; `accuracy` and `log_loss` (nats) of the default
and of the squared hinge on the test part; `loss`, the one that the default chose. The
classes are intents of clinc150, in a random order; the features tf-idf of words and
pairs (`words`) or of runs of two to five letters (`letters`); or the classes and
features are those of `make_sparse_classes` (`made`), 40 samples per class; or, as an
example of noisy labels, the next word of WikiText-2 among the most frequent (`next`, as
in `bench_sparse_classes`, 10 000 samples).

`dense`: `HierarchicalClassifier` of logistic regressions with one C: `flat`; one tree
of "cut" that stops at 100 or 32 classes, or goes down to single ones; one level of up
to 128 children above leaves of 100; means of three trees; `dual`, the default
tree of the nodes of a `LinearClassifier` of the same loss, and `flat, dual`, one
such node alone; their `intercept_scaling` is the length of a row. Figures: `accuracy`
and `log_loss` on the test part, `fit`, CPU seconds, and `predict`, CPU milliseconds for
a thousand samples.
Sets: `leaves` (100 classes, 192 columns), `isolet` (26, 617), `letter` (26, 16),
`omniglot` (136, 196), `intents` (150; the leading 100 or 300 singular vectors of the
tf-idf), `words` (the next word of WikiText-2 among 1 000, from a vector of the previous
one, 100 columns), and `made`: K classes in sqrt(K) groups, a sample the sum of three
normal vectors, of its group, its class and its own, of unit length; columns
standardised; 20 samples per class where the name does not say their number.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1.
"""

import warnings
from functools import partial

import numpy as np
from _common import fastest, main, timed
from _many_classes import lines_of, parts_of, plain_node
from bench_sparse_classes import next_word
from sklearn.decomposition import TruncatedSVD
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.preprocessing import StandardScaler, normalize

from sklstruct import HierarchicalClassifier
from sklstruct.datasets import make_sparse_classes
from sklstruct.linear import LinearClassifier
from sklstruct.taxonomy import CutSplit

FEW = (5, 10, 20, 40, 77, 100, 150, 300)
N_INTENTS = 150
FEATURES = {
    "words": {"ngram_range": (1, 2)},
    "letters": {"analyzer": "char_wb", "ngram_range": (2, 5)},
    "made": None,
    "next": None,
}
MOST = {"made": 300, "next": 300}  # classes
SECTION_OF = {"leaves": "leaves100", "words": "words1000", "omniglot": "omniglot_a"}
# C of each dense set: the flat model's best of .01, .1 on the test part for all but the
# words, where it is that of other pages.
DENSE = {
    "leaves": 0.1,
    "isolet": 0.1,
    "intents, 100 columns": 0.1,
    "intents, 300 columns": 0.1,
    "omniglot": 0.1,
    "letter": 0.1,
    "words": 0.03,
    "made, 500 classes": 0.1,
    "made, 2000 classes": 0.1,
    "made, 2000 classes, 300 columns": 0.1,
    "made, 10000 classes, 100 columns, 5 samples": 0.1,
    "made, 10000 classes": 0.1,
    "made, 20000 classes": 0.1,
}


class OneLevel:
    """Leaves of up to 100 classes, as "cut" finds them, below one node."""

    def build(self, X, y, *, sample_weight=None):
        builder = CutSplit(max_leaf=100)
        return builder.build(X, y, sample_weight=sample_weight).limit(max_children=256)


SHAPES = {
    "flat": {"max_depth": 0},
    "one tree, leaves of 100": {"max_leaf": 100},
    "one level, leaves of 100": {"taxonomy": OneLevel()},
    "one tree, leaves of 32": {"max_leaf": 32},
    "one tree": {},
    "three trees": {"n_taxonomies": 3},
    "dual": {"taxonomy": "auto", "estimator": "dual"},
    "flat, dual": {"max_depth": 0, "estimator": "dual"},
}
# Shapes of the sets of more than 2 000 classes. "flat" is refused for its memory, with
# 20 000 "flat, dual" too.
LARGE = ("one tree, leaves of 100", "one tree", "three trees", "dual", "flat, dual")
N_TEST = 4000


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


def made_text(n_classes, n_of_class=40):
    """((X, y), (Z, target)) of made sparse text."""
    n = n_classes * n_of_class
    X, y = make_sparse_classes(n + N_TEST, n_classes, 100 * n_classes, random_state=0)
    return (X[:n], y[:n]), (X[n:], y[n:])


def dense(name):
    """((X, y), (Z, target)), standardised."""
    if name.startswith("made"):
        return made(*[int(word) for word in name.split() if word.isdigit()])
    if not name.startswith("intents"):
        train, _, test = parts_of(SECTION_OF.get(name, name), 0)
        return train, test
    (X, y), (Z, target) = intents(150, "words")
    directions = TruncatedSVD(int(name.split()[1]), random_state=0).fit(X)
    rows = [normalize(directions.transform(part)) for part in (X, Z)]
    scale = StandardScaler().fit(rows[0])
    return (scale.transform(rows[0]), y), (scale.transform(rows[1]), target)


def made(n_classes, n_columns=100, n_of_class=20, noise=3.0):
    """((X, y), (Z, target)) of classes in groups, standardised float32."""
    rng = np.random.default_rng(0)
    # as of embeddings, the leading columns vary most
    scale = np.arange(1.0, n_columns + 1) ** -0.25
    group = rng.integers(round(n_classes**0.5), size=n_classes)
    centre = rng.normal(size=(group.max() + 1, n_columns))[group]
    centre += rng.normal(size=centre.shape)
    y = np.concatenate(
        [
            np.repeat(np.arange(n_classes), n_of_class),
            rng.integers(n_classes, size=N_TEST),
        ]
    )
    X = (centre[y] + noise * rng.normal(size=(y.size, n_columns))) * scale
    X = StandardScaler().fit_transform(normalize(X)).astype(np.float32)
    return (X[:-N_TEST], y[:-N_TEST]), (X[-N_TEST:], y[-N_TEST:])


def log_loss(model, X, y):
    known = np.isin(y, model.classes_)
    return -model.target_log_proba(X[known], y[known]).mean()


def cases():
    found = [
        {"section": "few", "features": features, "classes": k}
        for features in FEATURES
        for k in FEW
        if k <= MOST.get(features, N_INTENTS)
    ]
    for name in DENSE:
        k = int(name.split()[1]) if name.startswith("made") else 0
        found += [
            {"section": "dense", "set": name, "shape": shape, "slow": k > 500}
            for shape in SHAPES
            if k <= 2000 or (shape in LARGE and (k, shape) != (20_000, "flat, dual"))
        ]
    return found


def run(case):
    warnings.simplefilter("ignore", ConvergenceWarning)
    if case["section"] == "dense":
        (X, y), (Z, target) = dense(case["set"])
        C = DENSE[case["set"]]
        params = {"taxonomy": "cut", "random_state": 0} | SHAPES[case["shape"]]
        if params.get("estimator") == "dual":
            # as the default has it
            length = float(np.sqrt(np.mean(np.einsum("ij,ij->i", X, X))))
            params["estimator"] = LinearClassifier(
                "log_loss", C=C, intercept_scaling=length
            )
        else:
            params["estimator"] = plain_node(C)
        model = HierarchicalClassifier(**params)
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
            "leaves": model.taxonomy_.n_leaves,
            "depth": model.taxonomy_.depth,
        }
    k, features = case["classes"], case["features"]
    if features == "made":
        parts = made_text(k)
    elif features == "next":
        parts = next_word(0, k, n_train=10_000)
    else:
        parts = intents(k, features)
    (X, y), (Z, target) = parts[0], parts[-1]
    flat, auto = (
        LinearClassifier(loss, weight_threshold=0.02, random_state=0)
        for loss in ("squared_hinge", "auto")
    )
    ours = HierarchicalClassifier(random_state=0)
    times = fastest(
        ours=partial(ours.fit, X, y),
        flat=partial(flat.fit, X, y),
        auto=partial(auto.fit, X, y),
    )
    return {
        "fit": times["ours"].cpu,
        "flat_fit": times["flat"].cpu,
        "auto_fit": times["auto"].cpu,
        "ratio": times["ours"].cpu / times["flat"].cpu,
        "auto_ratio": times["ours"].cpu / times["auto"].cpu,
        "accuracy": ours.score(Z, target),
        "flat_accuracy": flat.score(Z, target),
        "log_loss": log_loss(ours, Z, target),
        "flat_log_loss": log_loss(flat, Z, target),
        "loss": ours.nodes_.loss,
    }


if __name__ == "__main__":
    main(cases, run)
