"""HierarchicalClassifier beside flat models and other libraries, on many classes.

    SKLSTRUCT_DATA=... python benchmarks/bench_taxonomy.py --case "letter*" --out FILE
    python benchmarks/bench_taxonomy.py --list

A case is a data set, a model and a split: the flat `LogisticRegression` of
scikit-learn, a tree of full depth from every builder, and averages of three trees. All
models get the same standardised (or tf-idf) features, and C from the same grid on
validation data (by log-loss; peers that give no probabilities by accuracy). `fit` are
the CPU seconds of one fit at the chosen C, building the tree included, and `predict`
those of all test samples, the best of some; `nll` is the mean, `median` the median of
-ln P of the true class in nats; `dots` the average number of products of a test
sample.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 to compare one core with one
core: the trees use one BLAS thread anyway.

"certificates": how far the splits of "cut" can be from the optimum, by the semidefinite
bound, and the CPU seconds of a tree without and with it.

Peers (`--peer`), where installed: HiClass (local classifiers per parent node on our
"cut" tree), napkinXC (hierarchical softmax on its k-means tree) and omikuji (three
trees, its default), with one thread; `SGDClassifier` with log-loss. napkinXC scales
samples to norm 1 (without that it crashes). omikuji is asked sample by sample, as its
Python interface has it.
"""

import tempfile

import numpy as np
import scipy.sparse as sp
from _common import fastest, main
from _many_classes import (
    GRID,
    GRIDS,
    SECTIONS,
    default_node,
    fit,
    measure,
    parts_of,
)
from sklearn.linear_model import LogisticRegression, SGDClassifier

from sklstruct.hierarchical import HierarchicalClassifier
from sklstruct.taxonomy import TAXONOMY_BUILDERS, CutSplit

AVERAGES = {
    "3 x cut": "cut",
    "3 x ward": "ward",
    "cut+ward+kmeans": ("cut", "ward", "kmeans"),
}
PEERS = ("sgd", "hiclass", "napkinxc", "omikuji")
SMALL = ("ws50", "po50", "letter")
N_SPLITS = 3
CERTIFIED = ("letter", "isolet", "leaves100", "omniglot_a", "clinc150")


def cases():
    models = ["flat", *TAXONOMY_BUILDERS, *AVERAGES, *PEERS]
    return [
        {"section": section, "model": model, "split": split}
        | ({} if section in SMALL else {"slow": True})
        | ({"needs": model} if model in PEERS else {})
        for section in SECTIONS
        for split in range(N_SPLITS)
        for model in models
    ] + [{"section": "certificates", "data": name} for name in CERTIFIED]


def run(case):
    if case["section"] == "certificates":
        return certificates(case["data"])
    section, name = case["section"], case["model"]
    parts = parts_of(section, case["split"])
    grid = GRIDS.get(section, GRID)
    return measure(
        ((C, *fit(make(name, C, parts[0][0]), *parts[0])) for C in grid), parts
    )


def certificates(data):
    X, y = parts_of(data, 0)[0]
    certified = CutSplit(certify=True)
    times = fastest(
        plain=lambda: CutSplit().build(X, y), certified=lambda: certified.build(X, y)
    )
    return {
        "n_classes": np.unique(y).size,
        "gap_percent": 100 * certified.gap_,
        "seconds": times["plain"].cpu,
        "certified_seconds": times["certified"].cpu,
    }


def make(name, C, X):
    if name == "flat":
        return LogisticRegression(C=C, max_iter=1000)
    if name == "sgd":
        return SGDClassifier(loss="log_loss", alpha=1e-4 / C, random_state=0, n_jobs=1)
    if name == "hiclass":
        from hiclass import LocalClassifierPerParentNode

        return Hiclass(LocalClassifierPerParentNode, C)
    if name == "napkinxc":
        import napkinxc.models

        return Napkinxc(napkinxc.models.HSM, C)
    if name == "omikuji":
        import omikuji

        return Omikuji(omikuji.Model, C)
    n_trees = 3 if name in AVERAGES else 1
    return HierarchicalClassifier(
        AVERAGES.get(name, name),
        estimator=default_node(X, C),
        n_taxonomies=n_trees,
        random_state=0,
    )


class Napkinxc:
    def __init__(self, kind, C):
        self.folder = tempfile.TemporaryDirectory()
        self.model = kind(self.folder.name, liblinear_c=C, seed=0, threads=1)

    def fit(self, X, y):
        self.classes_, code = np.unique(y, return_inverse=True)
        self.model.fit(sp.csr_matrix(X), code.tolist())
        return self

    def predict(self, X):
        found = self.model.predict(sp.csr_matrix(X), top_k=1)
        return self.classes_[[labels[0] for labels in found]]


class Omikuji:
    def __init__(self, kind, C):
        self.kind, self.C = kind, C

    def fit(self, X, y):
        self.classes_, code = np.unique(y, return_inverse=True)
        options = self.kind.default_hyper_param()
        options.linear_c = self.C
        X = sp.csr_matrix(X)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {self.classes_.size}\n")
            for i, label in enumerate(code):
                part = slice(X.indptr[i], X.indptr[i + 1])
                pairs = list(zip(X.indices[part], X.data[part]))
                pairs = pairs or [(0, 0.0)]  # it refuses samples without features
                file.write(f"{label} " + " ".join(f"{j}:{v:.7g}" for j, v in pairs))
                file.write("\n")
            file.flush()
            self.model = self.kind.train_on_data(file.name, options, 1)
        self.model.init_prediction_thread_pool(1)
        return self

    def predict(self, X):
        X = sp.csr_matrix(X)
        found = []
        for i in range(X.shape[0]):
            part = slice(X.indptr[i], X.indptr[i + 1])
            pairs = list(zip(X.indices[part].tolist(), X.data[part].tolist()))
            found.append(self.model.predict(pairs, top_k=1)[0][0])
        return self.classes_[found]


class Hiclass:
    """HiClass on the paths of our "cut" tree; answers have no probabilities."""

    def __init__(self, kind, C):
        self.model = kind(
            local_classifier=LogisticRegression(C=C, max_iter=1000),
            probability_combiner=None,
        )

    def fit(self, X, y):
        tree = TAXONOMY_BUILDERS["cut"]().build(X, y)
        self.class_of = dict(zip(tree.classes.astype(str), tree.classes))
        self.model.fit(X, tree.label_paths(y).astype(object))
        return self

    def predict(self, X):
        found = self.model.predict(X)
        return np.array([self.class_of[row[row != ""][-1]] for row in found])


if __name__ == "__main__":
    main(cases, run, peers=PEERS)
