"""HierarchicalClassifier beside flat models, on classes by the tens and thousands.

    python benchmarks/bench_taxonomy.py ws50 po50 letter
    SKLSTRUCT_DATA=... python benchmarks/bench_taxonomy.py words --builders ward cut
    python benchmarks/bench_taxonomy.py --list

Each data set is a table: one line for the flat `LogisticRegression` of scikit-learn,
one for every builder, full depth (or each of `--depths`), and for averages of
`--trees` taxonomies. All models get the same standardised (or tf-idf) features, and
C from the same grid on validation data (by log-loss; peers that give no probabilities
by accuracy), in the same run. `fit` is the time of one fit at the chosen C, building
the tree included, and `predict` that of all test samples, the best of five; `x` is the
ratio flat to this. `nll` is the mean, `median` the median of -ln P of the true class in
nats; `dots` the average number of products of a test sample. With several splits
(`--splits`), numbers are means and ± the standard deviation of the accuracy.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1 to compare one core with one
core: the trees use one BLAS thread anyway. `--keep FOLDER` keeps flat models, with the
seconds that they took, for the next run: 2 000 classes take minutes each.

Peers (`--peers sgd hiclass napkinxc omikuji`): `SGDClassifier` with log-loss and,
where installed, HiClass (local classifiers per parent node on our "cut" tree), napkinXC
(hierarchical softmax on its k-means tree) and omikuji (three trees, its default), with
one thread. napkinXC scales samples to norm 1 (without that it crashes). omikuji is
asked sample by sample, as its Python interface has it; prediction of peers is timed
once.
"""

import argparse
import itertools
import tempfile
from functools import partial

import numpy as np
import scipy.sparse as sp
import sklearn
from _common import machine
from _many_classes import GRID, SECTIONS, fit, flat, measure
from sklearn.linear_model import LogisticRegression, SGDClassifier

from sklstruct import HierarchicalClassifier
from sklstruct.taxonomy import TAXONOMY_BUILDERS


def show(name, runs, reference):
    mean = {key: np.mean([run[key] for run in runs]) for key in runs[0]}
    spread = np.std([run["accuracy"] for run in runs])
    base = {
        key: np.mean([run[key] for run in reference]) if reference else np.nan
        for key in ("fit", "predict")
    }
    print(
        f"{name:24} {mean['C']:7.3g} {mean['accuracy']:7.4f} ±{spread:.3f} "
        f"{mean['nll']:7.4f} {mean['median']:7.4f} {mean['dots']:7.1f} "
        f"{mean['fit']:8.2f} {base['fit'] / mean['fit']:6.1f}x "
        f"{1e3 * mean['predict']:9.2f} {base['predict'] / mean['predict']:6.1f}x",
        flush=True,
    )


def peers(names):
    """(name, function of C that makes a model) of every peer that is installed."""
    if "sgd" in names:
        yield (
            "SGD",
            lambda C: SGDClassifier(
                loss="log_loss", alpha=1e-4 / C, random_state=0, n_jobs=1
            ),
        )
    if "hiclass" in names:
        try:
            from hiclass import LocalClassifierPerParentNode
        except ImportError:
            print("hiclass is not installed: left out")
        else:
            yield (
                "hiclass, our cut tree",
                lambda C: Hiclass(LocalClassifierPerParentNode, C),
            )

    if "napkinxc" in names:
        try:
            import napkinxc.models
        except ImportError:
            print("napkinxc is not installed: left out")
        else:
            yield "napkinxc HSM", lambda C: Napkinxc(napkinxc.models.HSM, C)
    if "omikuji" in names:
        try:
            import omikuji
        except ImportError:
            print("omikuji is not installed: left out")
        else:
            yield "omikuji, 3 trees", lambda C: Omikuji(omikuji.Model, C)


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
        self.classes_ = tree.classes
        depth = tree.depth + 1
        self.paths = np.full((tree.n_classes, depth), "", dtype=object)
        for c in range(tree.n_classes):
            path = [f"n{v}" for v in tree.path(tree.leaf_of_class[c])[1:]]
            path = [*path[:-1], f"c{c}"]
            self.paths[c, : len(path)] = path
        self.model.fit(X, self.paths[np.searchsorted(tree.classes, y)])
        return self

    def predict(self, X):
        found = self.model.predict(X)
        last = ["".join(row[row != ""][-1:]) for row in found]
        return self.classes_[[int(name[1:]) for name in last]]


def run(section, args):
    load = SECTIONS[section]
    splits = [load(seed) for seed in range(args.splits)]
    (X, y), _, (Z, _) = splits[0]
    print(
        f"\n{section}: {X.shape[0]} training and {Z.shape[0]} test samples, "
        f"{X.shape[1]} features, {np.unique(y).size} classes"
    )
    print(
        f"{'model':24} {'C':>7} {'accuracy':>14} {'nll':>7} {'median':>7} {'dots':>7} "
        f"{'fit s':>8} {'':>7} {'predict ms':>9}"
    )
    reference = None
    options = {"max_iter": args.max_iter, "tol": args.flat_tol}
    if not args.no_flat:
        reference = [
            measure(
                (
                    (C, *flat(section, seed, parts, C, folder=args.keep, **options))
                    for C in args.flat_grid or args.grid
                ),
                parts,
            )
            for seed, parts in enumerate(splits)
        ]
        show("flat LogisticRegression", reference, reference)

    def report(label, make, repeat=5):
        show(label, [
            measure(((C, *fit(make(C), *parts[0])) for C in args.grid), parts, repeat)
            for parts in splits
        ], reference)  # fmt: skip

    for name, make in peers(args.peers):
        report(name, make, repeat=1)
    choices = itertools.product(args.builders, args.depths, args.trees, args.prediction)
    for builder, depth, trees, prediction in choices:
        label = builder
        label += "" if depth is None else f", depth {depth}"
        label += "" if trees == 1 else f", {trees} trees"
        label += "" if prediction == "joint" else f", {prediction}"
        report(
            label,
            partial(
                tree_model,
                builder,
                max_depth=depth,
                n_taxonomies=trees,
                prediction=prediction,
            ),
        )
    if args.mixed:
        mixed = partial(tree_model, tuple(args.mixed), n_taxonomies=len(args.mixed))
        report("+".join(args.mixed), mixed)


def tree_model(taxonomy, C, **options):
    return HierarchicalClassifier(taxonomy, C=C, random_state=0, **options)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("sections", nargs="*", metavar="section")
    parser.add_argument("--list", action="store_true", help="sections and builders")
    parser.add_argument("--builders", nargs="*", default=["cut", "ward", "rand"])
    parser.add_argument(
        "--depths",
        nargs="+",
        type=lambda s: None if s == "full" else int(s),
        default=[None],
    )
    parser.add_argument("--trees", nargs="+", type=int, default=[1])
    parser.add_argument("--mixed", nargs="*", help="builders averaged in one model")
    parser.add_argument("--prediction", nargs="+", default=["joint"])
    parser.add_argument("--grid", nargs="+", type=float, default=list(GRID))
    parser.add_argument("--flat-grid", nargs="+", type=float)
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--max-iter", type=int, default=1000, help="of the flat model")
    parser.add_argument("--flat-tol", type=float, default=1e-4)
    parser.add_argument("--no-flat", action="store_true")
    parser.add_argument("--keep", metavar="FOLDER", help="of fitted flat models")
    parser.add_argument("--peers", nargs="*", default=[])
    args = parser.parse_args()
    if args.list or not args.sections:
        print("sections:", *SECTIONS)
        print("builders:", *TAXONOMY_BUILDERS)
        return
    unknown = set(args.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {sorted(unknown)}; there are {list(SECTIONS)}")
    print(f"{machine()}, NumPy {np.__version__}, scikit-learn {sklearn.__version__}")
    for section in args.sections:
        run(section, args)


if __name__ == "__main__":
    main()
