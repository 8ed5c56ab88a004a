"""HierarchicalClassifier beside flat models, on classes by the tens and thousands.

    python benchmarks/bench_taxonomy.py ws50 po50 letter
    SKLSTRUCT_DATA=... python benchmarks/bench_taxonomy.py words --builders ward cut
    python benchmarks/bench_taxonomy.py --list

Each data set is a table: one line for the flat `LogisticRegression` of scikit-learn,
one for every builder, full depth (or each of `--depths`), and for averages of
`--trees` taxonomies. All models get the same standardised (or tf-idf) features, and
C from the same grid on validation data (by log-loss), in the same run. `fit` is the
time of one fit at the chosen C, building the tree included, and `predict` that of
all test samples, the best of three; `x` is the ratio flat to this. `nll` is the mean,
`median` the median of -ln P of the true class in nats; `dots` the average number of
products of a test sample. With several splits (`--splits`), numbers are means and ±
the standard deviation of the accuracy.

On a machine that is busy with other work set OMP_NUM_THREADS=1 and
OPENBLAS_NUM_THREADS=1: the flat model's threads wait for each other otherwise, which
flatters every ratio. The trees use one BLAS thread anyway.

Peers (`--peers sgd hiclass napkinxc omikuji`): `SGDClassifier` with log-loss and,
where installed, HiClass (local classifiers per parent node on our "cut" tree), napkinXC
(hierarchical softmax on its k-means tree) and omikuji (three trees, its default). The
last three are run with C = 1 and one thread, and their log-loss is left out.
napkinXC scales samples to norm 1 (without that it crashes).
"""

import argparse
import csv
import gzip
import os
import platform
import tempfile
import time
import warnings

import numpy as np
import scipy.sparse as sp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split
from sklearn.preprocessing import StandardScaler

from sklstruct.datasets import make_clustered_classes
from sklstruct.taxonomy import TAXONOMY_BUILDERS, HierarchicalClassifier

GRID = (0.01, 0.1, 1.0, 10.0)


# ------------------------------------------------------------------------- data


def data_file(*parts):
    root = os.environ.get("SKLSTRUCT_DATA")
    if root is None:
        raise SystemExit("this section needs the environment variable SKLSTRUCT_DATA")
    return os.path.join(root, *parts)


def read_table(*parts, label):
    with gzip.open(data_file(*parts), "rt", encoding="utf-8") as lines:
        rows = list(csv.reader(lines))
    head, rows = rows[0], rows[1:]
    y = np.array(["/".join(r[head.index(name)] for name in label) for r in rows])
    drop = {"class", "species", "genus", "alphabet", "character", "drawer"}
    columns = [i for i, name in enumerate(head) if name not in drop]
    return np.array([[float(r[i]) for i in columns] for r in rows]), y


def split(X, y, seed, test_size=0.25):
    """(train, validation, test), stratified, standardised by the training part."""
    whole = StratifiedShuffleSplit(1, test_size=test_size, random_state=seed)
    rest, test = next(whole.split(X, y))
    train, valid = train_test_split(
        rest, test_size=0.2, stratify=y[rest], random_state=seed
    )
    scale = StandardScaler().fit(X[train])
    return [(scale.transform(X[part]), y[part]) for part in (train, valid, test)]


def clustered(preset):
    def load(seed):
        X, y = make_clustered_classes(preset=preset, random_state=seed)
        return split(X, y, seed, test_size=0.4)

    return load


def table(*parts, label):
    def load(seed):
        return split(*read_table(*parts, label=label), seed)

    return load


def clinc150(seed):
    """Given split; tf-idf of words and pairs of words."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    parts = []
    for name in ("train", "val", "test"):
        with gzip.open(
            data_file("clinc150", f"{name}.tsv.gz"), "rt", encoding="utf-8"
        ) as lines:
            rows = [line.rstrip("\n").split("\t") for line in lines]
        parts.append(([r[2] for r in rows], np.array([r[1] for r in rows])))
    tfidf = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    tfidf.fit(parts[0][0])
    return [(tfidf.transform(texts).tocsr(), y) for texts, y in parts]


def words(seed, n_classes=2000, d=100, n_train=30_000, n_test=5_000):
    """The next word among the most frequent, given a vector of the previous word.

    Vectors: canonical correlations of previous and next word on the training text.
    """
    from sklearn.utils.extmath import randomized_svd

    def read(name):
        path = data_file("wikitext-2", f"{name}.txt.gz")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            return [t for line in lines for t in (*line.split(), "</s>")]

    texts = {name: read(name) for name in ("train", "valid", "test")}
    types, counts = np.unique(texts["train"], return_counts=True)
    n_context = 10_000
    ranked = types[np.argsort(-counts, kind="stable")][:n_context]
    number = {word: i for i, word in enumerate(ranked.tolist())}

    def pairs(name):
        code = np.array([number.get(word, n_context) for word in texts[name]])
        before, after = code[:-1], code[1:]
        keep = (after < n_classes) & (before < n_context)
        return before[keep], after[keep]

    before, after = pairs("train")
    N = sp.csr_matrix((np.ones(before.size), (before, after)))
    row = np.asarray(N.sum(axis=1)).ravel() + 1
    column = np.asarray(N.sum(axis=0)).ravel() + 1
    U, _, _ = randomized_svd(
        sp.diags(row**-0.5) @ N @ sp.diags(column**-0.5), d, random_state=seed
    )
    V = U / np.sqrt(row)[:, None]
    V *= np.sqrt(d) / np.maximum(np.linalg.norm(V, axis=1, keepdims=True), 1e-12)
    rng = np.random.default_rng(seed)
    # five samples of every class, the others as the text has them
    shuffled = rng.permutation(after.size)
    order = shuffled[np.argsort(after[shuffled], kind="stable")]
    size = np.bincount(after, minlength=n_classes)
    rank = np.empty(after.size, dtype=int)
    rank[order] = np.arange(after.size) - np.repeat(np.cumsum(size) - size, size)
    few = np.flatnonzero(rank < 5)
    rest = rng.permutation(np.flatnonzero(rank >= 5))[: n_train - few.size]
    chosen = np.concatenate([few, rest])
    parts = [(V[before[chosen]], after[chosen])]
    for name in ("valid", "test"):
        before, after = pairs(name)
        chosen = rng.permutation(after.size)[:n_test]
        parts.append((V[before[chosen]], after[chosen]))
    return parts


def gaussian_hierarchy(n_classes, per_class, d, levels):
    """Centres by a random walk down a balanced binary tree: a hierarchy is there."""

    def load(seed):
        rng = np.random.default_rng(seed)
        centres = np.zeros((1, d))
        for level in range(levels):
            centres = np.repeat(centres, 2, axis=0)
            centres += rng.normal(size=centres.shape) * 0.8**level
        centres = centres[rng.permutation(len(centres))[:n_classes]]
        y = np.repeat(np.arange(n_classes), per_class)
        X = centres[y] + rng.normal(size=(y.size, d))
        return split(X, y, seed)

    return load


SECTIONS = {
    "ws50": clustered("WS50"),
    "po50": clustered("PO50"),
    "letter": table("letter", "letter.csv.gz", label=["class"]),
    "isolet": table("isolet", "isolet.csv.gz", label=["class"]),
    "leaves100": table("leaves100", "leaves100.csv.gz", label=["species"]),
    "omniglot_a": table(
        "omniglot", "omniglot_a.csv.gz", label=["alphabet", "character"]
    ),
    "clinc150": clinc150,
    "words": words,
    "gauss1000": gaussian_hierarchy(1000, 40, 50, 10),
    "gauss10000": gaussian_hierarchy(10_000, 12, 50, 14),
}


# -------------------------------------------------------------------- measuring


def best_time(call, repeat=3):
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        result = call()
        times.append(time.perf_counter() - start)
    return min(times), result


def target_log_proba(model, X, y):
    if hasattr(model, "target_log_proba"):
        return model.target_log_proba(X, y)
    column = np.searchsorted(model.classes_, y)
    with np.errstate(divide="ignore"):
        return np.log(model.predict_proba(X)[np.arange(y.size), column])


def measure(make, parts, grid, reference=None):
    """Fit for each C, choose by validation log-loss, and report on the test part."""
    (X, y), valid, (Z, target) = parts
    best = None
    for C in grid:
        model = make(C)
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        seconds = time.perf_counter() - start
        known = np.isin(valid[1], model.classes_)
        loss = -target_log_proba(model, valid[0][known], valid[1][known]).mean()
        if best is None or loss < best[0]:
            best = loss, C, model, seconds
    _, C, model, seconds = best
    predict, found = best_time(lambda: model.predict(Z))
    loss = -target_log_proba(model, Z, target)
    dots = (
        model.n_dot_products(Z).mean()
        if hasattr(model, "n_dot_products")
        else np.nan
        if isinstance(model, AnswersOnly)
        else model.classes_.size
    )
    return {
        "C": C,
        "accuracy": (found == target).mean(),
        "nll": loss.mean(),
        "median": np.median(loss),
        "dots": dots,
        "fit": seconds,
        "predict": predict,
    }


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
            yield "omikuji, 3 trees", lambda C: Omikuji(omikuji.Model)


class AnswersOnly:
    def target_log_proba(self, X, y):
        return np.full(len(y), np.nan)


class Napkinxc(AnswersOnly):
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


class Omikuji(AnswersOnly):
    def __init__(self, kind):
        self.kind = kind

    def fit(self, X, y):
        self.classes_, code = np.unique(y, return_inverse=True)
        X = sp.csr_matrix(X)
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {self.classes_.size}\n")
            for i, label in enumerate(code):
                part = slice(X.indptr[i], X.indptr[i + 1])
                pairs = zip(X.indices[part], X.data[part])
                file.write(f"{label} " + " ".join(f"{j}:{v:.7g}" for j, v in pairs))
                file.write("\n")
            file.flush()
            self.model = self.kind.train_on_data(file.name, None, 1)
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


class Hiclass(AnswersOnly):
    """HiClass on the paths of our "cut" tree; answers have no probabilities."""

    def __init__(self, kind, C):
        self.model = kind(
            local_classifier=LogisticRegression(C=C, max_iter=1000),
            probability_combiner=None,
        )

    def fit(self, X, y):
        tree = TAXONOMY_BUILDERS["cut"]().build(X, y)
        self.classes_ = tree.classes_
        depth = tree.depth + 1
        self.paths = np.full((tree.n_classes, depth), "", dtype=object)
        for c in range(tree.n_classes):
            path = [f"n{v}" for v in tree.path(tree.leaf_of_class[c])[1:]]
            path = [*path[:-1], f"c{c}"]
            self.paths[c, : len(path)] = path
        self.model.fit(X, self.paths[np.searchsorted(tree.classes_, y)])
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
    if not args.no_flat:
        grid = args.flat_grid or args.grid
        reference = [
            measure(
                lambda C: LogisticRegression(C=C, max_iter=args.max_iter), parts, grid
            )
            for parts in splits
        ]
        show("flat LogisticRegression", reference, reference)
        if args.depth0:
            show(
                "ours, depth 0",
                [
                    measure(
                        lambda C: HierarchicalClassifier("rand", max_depth=0, C=C),
                        parts,
                        grid,
                    )
                    for parts in splits
                ],
                reference,
            )
    for name, make in peers(args.peers):
        show(name, [measure(make, parts, [1.0]) for parts in splits], reference)
    for builder in args.builders:
        for depth in args.depths:
            for trees in args.trees:
                for prediction in args.prediction:

                    def make(C):
                        return HierarchicalClassifier(
                            builder,  # noqa: B023
                            C=C,
                            max_depth=depth,  # noqa: B023
                            n_taxonomies=trees,  # noqa: B023
                            prediction=prediction,  # noqa: B023
                            random_state=0,
                        )

                    label = builder
                    label += "" if depth is None else f", depth {depth}"
                    label += "" if trees == 1 else f", {trees} trees"
                    label += "" if prediction == "joint" else f", {prediction}"
                    show(
                        label, [measure(make, p, args.grid) for p in splits], reference
                    )
    if args.mixed:
        names = tuple(args.mixed)

        def mixed(C):
            return HierarchicalClassifier(
                names, n_taxonomies=len(names), C=C, random_state=0
            )

        show("+".join(names), [measure(mixed, p, args.grid) for p in splits], reference)


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
    parser.add_argument("--no-flat", action="store_true")
    parser.add_argument("--depth0", action="store_true", help="our flat model too")
    parser.add_argument("--peers", nargs="*", default=[])
    args = parser.parse_args()
    if args.list or not args.sections:
        print("sections:", *SECTIONS)
        print("builders:", *TAXONOMY_BUILDERS)
        return
    unknown = set(args.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {sorted(unknown)}; there are {list(SECTIONS)}")
    import sklearn

    print(
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores; Python "
        f"{platform.python_version()}, NumPy {np.__version__}, scikit-learn "
        f"{sklearn.__version__}"
    )
    for section in args.sections:
        run(section, args)


if __name__ == "__main__":
    main()
