"""Many classes on sparse, text-like samples: ours, scikit-learn's, and peers'.

    SKLSTRUCT_DATA=... python benchmarks/bench_sparse_classes.py --case "clinc150*" \\
        --peer --out FILE
    python benchmarks/bench_sparse_classes.py --list

A case is a data set, a model and a split. All models get the same rows of unit length.
Of the settings of a model (GRIDS) the one with the smallest log-loss on the validation
part is taken, the most accurate one if there are no probabilities or, as those of
ComplementNB, none that are meant to be; each is tried in its own process, then the
chosen one is fitted. If that takes too long the settings are compared on some of the
classes (EVERY), training samples of the others left out. Its figures: `accuracy`,
`log_loss` (mean, nats) and `ece` (expected calibration error of the predicted class, 15
bins of equal width) on the test part; `fit`, CPU seconds from the CSR matrix to the
model; `predict`, CPU milliseconds for a thousand samples; `model_mb`, the pickled model
or its files; `peak_mb`, the peak memory of the process over both, `data_mb` that of
the process before the fit.

Sets: `text1000` and `text10000` (`make_sparse_classes`, 40 and 10 samples per class),
`clinc150` (intents, tf-idf of words and pairs), `languages` (429 languages, tf-idf of
runs of letters; SKLSTRUCT_UDHR as in `_many_classes`), `next2000` and `next10000` (the
next word of WikiText-2 among the most frequent, from one-hot features of the four words
before). `growth` is `make_sparse_classes` with 10 samples and 10 features per class.

`objective` fits the same one-vs-rest squared hinge with C = 1 by LinearSVC at some
tolerance and by LinearClassifier at its default: CPU seconds, the objectives in
double precision, and by how much ours is larger (`excess`, relative).

`averaging` says what a mean of three trees gains: `tree` is the mean accuracy of the
three alone, `averaged` that of their mean, `all_wrong` the part of test samples that
each of the three gets wrong, with the log-losses; for the made text also `bayes`, the
accuracy of the classifier that knows how the text was made, and its log-loss.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1: every model has one thread.
Peers (`--peer`): omikuji (one tree and three), napkinXC (hierarchical softmax) and
PECOS (XLinear, libpecos). omikuji is asked sample by sample, as its Python interface
has it. PECOS 1.2.8 asks for what SciPy 1.17 and NumPy 2 have elsewhere: `Pecos` puts
that back.
"""

import multiprocessing
import os
import pickle
import tempfile
import time
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _common import main, peak_mb
from _many_classes import clinc150, languages, lines_of
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import ComplementNB
from sklearn.svm import LinearSVC

from sklstruct import HierarchicalClassifier
from sklstruct.datasets import make_sparse_classes
from sklstruct.linear import LinearClassifier
from sklstruct.taxonomy import KMeansSplit, RandomSplit, choose_shape

N_SPLITS = 3
PEERS = ("omikuji", "napkinxc", "libpecos")

# ------------------------------------------------------------------------- data


# Classes, features and training samples of the made text.
TEXT = {"text1000": (1000, 100_000, 40_000), "text10000": (10_000, 200_000, 100_000)}
# Sources of its words.
SOURCES = {"class_share": 0.12, "group_share": 0.18, "exponent": 3.0}


def text(n_classes, n_features, n_samples, n_test=4000):
    def load(seed):
        X, y = make_sparse_classes(
            n_samples + n_test // 2 + n_test, n_classes, n_features, **SOURCES,
            random_state=seed,
        )  # fmt: skip
        ends = n_samples, n_samples + n_test // 2, X.shape[0]
        parts = [slice(a, b) for a, b in zip((0, *ends), ends)]
        return [(X[part], y[part]) for part in parts]

    return load


def next_word(seed, n_classes, n_train=100_000, n_test=4000, n_words=20_000, length=4):
    """One-hot previous words, of equal weight; targets among the most frequent."""

    def read(name):
        lines = lines_of("wikitext-2", f"{name}.txt.gz")
        return np.array([t for line in lines for t in (*line.split(), "</s>")])

    train = read("train")
    types, counts = np.unique(train, return_counts=True)
    ranked = types[np.argsort(-counts, kind="stable")][:n_words].tolist()
    number = {word: i for i, word in enumerate(ranked)}
    rng = np.random.default_rng(seed)
    parts = []
    for name, n in {"train": n_train, "valid": n_test // 2, "test": n_test}.items():
        words = train if name == "train" else read(name)
        code = np.array([number.get(word, n_words) for word in words.tolist()])
        at = np.flatnonzero(code[length:] < n_classes) + length
        at = rng.permutation(at)
        if name == "train":  # two samples of every class, the others as the text is
            y = code[at]
            order = np.argsort(y, kind="stable")
            first = np.repeat(np.searchsorted(y[order], np.arange(n_classes)), np.bincount(y))  # fmt: skip  # noqa: E501
            rank = np.empty(y.size, dtype=int)
            rank[order] = np.arange(y.size) - first
            few = rank < 2
            at = np.concatenate([at[few], at[~few]])
        at = at[:n]
        column = code[at[:, None] - 1 - np.arange(length)]
        column += np.arange(length) * (n_words + 1)
        data = np.full(column.size, length**-0.5, dtype=np.float32)
        X = sp.csr_matrix(
            (data, column.ravel().astype(np.int32), np.arange(at.size + 1) * length),
            shape=(at.size, length * (n_words + 1)),
        )
        parts.append((X, code[at]))
    return parts


def growth(n_classes):
    def load(seed):
        n = 10 * n_classes
        X, y = make_sparse_classes(n + 1000, n_classes, n, random_state=seed)
        return [(X[:n], y[:n]), (X[:0], y[:0]), (X[n:], y[n:])]

    return load


# Classes up to which a model takes part in the growth.
MOST_GROWN = {"tree": 100_000, "flat hinge": 3000, "omikuji": 10_000}
GROWTH = (100, 300, 1000, 3000, 10_000, 30_000, 100_000)
SECTIONS = {
    **{name: text(*arguments) for name, arguments in TEXT.items()},
    "clinc150": clinc150,
    "languages": languages,
    "next2000": partial(next_word, n_classes=2000),
    "next10000": partial(next_word, n_classes=10_000),
    **{f"growth{k}": growth(k) for k in GROWTH},
}


@cache
def parts_of(section, number):
    """(training, validation, test): float32 rows, classes of the training part."""
    parts = [
        (sp.csr_matrix(X, dtype=np.float32), y) for X, y in SECTIONS[section](number)
    ]
    known = np.unique(parts[0][1])
    kept = [np.isin(y, known) for _, y in parts]
    return [
        (X[keep], np.searchsorted(known, y[keep])) for (X, y), keep in zip(parts, kept)
    ]


# ----------------------------------------------------------------------- models


def tree(setting, **params):
    loss, C = setting
    node = LinearClassifier(loss, C=C, weight_threshold=0.02)
    return HierarchicalClassifier(estimator=node, random_state=0, **params)


def shaped(setting):
    loss, C, max_leaf = setting
    return tree((loss, C), max_leaf=max_leaf)


def flat(loss, C, **params):
    return LinearClassifier(loss, C=C, random_state=0, **params)


HINGE = [("squared_hinge", C) for C in (0.3, 1.0, 3.0)]
LOG = [("log_loss", C) for C in (3.0, 10.0, 30.0)]

MODELS = {
    "tree": tree,
    "tree, leaves chosen": shaped,
    "tree, 3 averaged": partial(tree, n_taxonomies=3),
    "tree, kmeans": partial(
        tree, taxonomy=KMeansSplit(balanced=True, spherical=True, random_state=0)
    ),
    "tree, random": partial(tree, taxonomy=RandomSplit(random_state=0)),
    "flat hinge": lambda C: flat("squared_hinge", C),
    "flat multinomial": lambda C: flat("log_loss", C),
    "LinearSVC": lambda C: LinearSVC(C=C, random_state=0),
    "LogisticRegression": lambda C: LogisticRegression(C=C, max_iter=1000),
    "ComplementNB": lambda alpha: ComplementNB(alpha=alpha),
    "omikuji": lambda C: Omikuji(1, C),
    "omikuji, 3 trees": lambda C: Omikuji(3, C),
    "napkinXC": lambda C: Napkinxc(C),
    "PECOS": lambda C: Pecos(C),
}
GRIDS = {
    "tree": HINGE + LOG,
    # with all classes in one leaf the tree is the flat model
    "tree, leaves chosen": [(*s, m) for m in (50, 100, 200, 1000) for s in HINGE + LOG],
    "tree, 3 averaged": HINGE + LOG,
    "tree, kmeans": HINGE + LOG,
    "tree, random": HINGE + LOG,
    "flat hinge": [0.3, 1.0, 3.0],
    "flat multinomial": [3.0, 10.0, 30.0],
    "LinearSVC": [0.3, 1.0, 3.0],
    "LogisticRegression": [10.0, 30.0],
    "ComplementNB": [0.01, 0.1, 1.0],
    "omikuji": [0.3, 1.0, 3.0],
    "omikuji, 3 trees": [0.3, 1.0, 3.0],
    "napkinXC": [3.0, 10.0, 30.0],
    "PECOS": [0.3, 1.0, 3.0],
}
# The settings with which averaging is looked at: those that most splits choose.
AVERAGED = {
    "text1000": ("squared_hinge", 3.0),
    "clinc150": ("squared_hinge", 1.0),
    "next2000": ("log_loss", 3.0),
}
# Every which class the settings are compared on, where a fit takes long.
EVERY = {
    **{
        ("text1000", name): 5
        for name in (
            "LinearSVC",
            "ComplementNB",
            "flat hinge",
            "flat multinomial",
        )
    },
    **{("text10000", name): 10 for name in MODELS},
    ("languages", "LogisticRegression"): 5,
    **{("next10000", name): 5 for name in MODELS},
}
# The setting of another set, next2000, where even that takes long.
CHOSEN = {("next10000", "flat multinomial"): [3.0]}
# Cases that take hours, or more memory than the machine has.
LEFT_OUT = {
    "text1000": ("LogisticRegression",),
    "text10000": (
        "LogisticRegression",
        "LinearSVC",
        "ComplementNB",
        "flat hinge",
        "flat multinomial",
    ),
    "next2000": ("LogisticRegression", "LinearSVC"),
    "next10000": ("LogisticRegression", "LinearSVC", "ComplementNB"),
}
# Sets that a model is for.
ONLY = {"tree, leaves chosen": ("clinc150", "languages")}
PEER_OF = {"omikuji": "omikuji", "napkinXC": "napkinxc", "PECOS": "libpecos"}


class Omikuji:
    def __init__(self, n_trees, C):
        self.n_trees, self.C = n_trees, C

    def fit(self, X, y):
        import omikuji

        params = omikuji.Model.default_hyper_param()
        params.n_trees, params.linear_c = self.n_trees, self.C
        with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
            file.write(f"{X.shape[0]} {X.shape[1]} {y.max() + 1}\n")
            for i, label in enumerate(y):
                part = slice(X.indptr[i], X.indptr[i + 1])
                pairs = list(zip(X.indices[part], X.data[part])) or [(0, 0.0)]
                file.write(f"{label} " + " ".join(f"{j}:{v:.7g}" for j, v in pairs))
                file.write("\n")
            file.flush()
            start = time.process_time()
            self.model = omikuji.Model.train_on_data(file.name, params, 1)
            self.seconds = time.process_time() - start
        self.model.init_prediction_thread_pool(1)
        return self

    def predict(self, X):
        found = np.empty(X.shape[0], dtype=int)
        for i in range(X.shape[0]):
            part = slice(X.indptr[i], X.indptr[i + 1])
            pairs = list(zip(X.indices[part].tolist(), X.data[part].tolist()))
            found[i] = self.model.predict(pairs, top_k=1)[0][0]
        return found

    def n_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(folder)
            return size_of(folder)


class Napkinxc:
    def __init__(self, C):
        self.C = C

    def fit(self, X, y):
        import napkinxc.models

        self.folder = tempfile.TemporaryDirectory()
        self.n_classes = int(y.max()) + 1
        self.model = napkinxc.models.HSM(
            self.folder.name, liblinear_c=self.C, seed=0, threads=1
        )
        target = y.tolist()
        start = time.process_time()
        self.model.fit(X, target)
        self.seconds = time.process_time() - start
        return self

    def predict(self, X):
        return np.array([labels[0] for labels in self.model.predict(X, top_k=1)])

    def target_log_proba(self, X, y):
        rows = self.model.predict_proba(X, top_k=self.n_classes)
        with np.errstate(divide="ignore"):
            return np.log([dict(row).get(k, 0.0) for row, k in zip(rows, y.tolist())])

    def confidence(self, X):
        return np.array([row[0][1] for row in self.model.predict_proba(X, top_k=1)])

    def n_bytes(self):
        return size_of(self.folder.name)


class Pecos:
    """XLinear along a tree of hierarchical 2-means over its label embeddings."""

    def __init__(self, C):
        self.C = C

    @staticmethod
    def mend():
        """Names and behaviour of older SciPy and NumPy, for PECOS alone."""
        import pecos.utils.smat_util as util
        from scipy.sparse import _sputils, sputils

        class OlderNumpy:
            def __getattr__(self, name):
                return getattr(np, name)

            @staticmethod
            def array(*args, copy=True, **kwargs):
                return np.array(*args, copy=copy or None, **kwargs)

        sputils.get_index_dtype = _sputils.get_index_dtype
        util.np = OlderNumpy()

    def fit(self, X, y):
        shape = y.size, int(y.max()) + 1
        one = np.ones(y.size, dtype=np.float32)
        return self.fit_labels(
            X, sp.csr_matrix((one, (np.arange(y.size), y)), shape=shape)
        )

    def fit_labels(self, X, Y):
        self.mend()
        from pecos.xmc import Indexer, LabelEmbeddingFactory
        from pecos.xmc.xlinear.model import XLinearModel

        start = time.process_time()
        means = LabelEmbeddingFactory.create(Y, X, method="pifa")
        tree = Indexer.gen(means, indexer_type="hierarchicalkmeans", threads=1)
        self.model = XLinearModel.train(X, Y, C=tree, Cp=self.C, Cn=self.C, threads=1)
        self.seconds = time.process_time() - start
        return self

    def predict(self, X):
        return self.model.predict(X, only_topk=1, threads=1).indices.astype(int)

    def n_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(folder)
            return size_of(folder)


def size_of(folder):
    return sum(
        path.stat().st_size for path in Path(folder).rglob("*") if path.is_file()
    )


def pickled_bytes(model):
    """Length of the pickle, which is not kept: it would be in the peak memory."""

    class Length:
        total = 0

        def write(self, part):
            self.total += memoryview(part).nbytes

    length = Length()
    pickle.dump(model, length, protocol=5)
    return length.total


# -------------------------------------------------------------------- measuring


def fitted(name, setting, X, y):
    """(model, CPU seconds)"""
    model = MODELS[name](setting)
    builder = getattr(model, "taxonomy", None)
    if hasattr(builder, "max_leaf"):
        shape = choose_shape(y.max() + 1, *X.shape, n_entries=X.nnz)
        builder.set_params(max_leaf=shape.max_leaf)
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return model, getattr(model, "seconds", time.process_time() - start)


def log_loss(model, X, y):
    """Mean log-loss in nats; None without probabilities."""
    if hasattr(model, "target_log_proba"):
        return float(-model.target_log_proba(X, y).mean())
    if not hasattr(model, "predict_proba"):
        return None
    total = 0.0
    for lo in range(0, y.size, 500):
        p = model.predict_proba(X[lo : lo + 500])
        with np.errstate(divide="ignore"):
            total -= np.log(p[np.arange(len(p)), y[lo : lo + 500]]).sum()
    return float(total / y.size)


def calibration_error(model, X, right):
    """Expected calibration error of the predicted class, 15 bins."""
    if hasattr(model, "confidence"):
        p = model.confidence(X)
    elif hasattr(model, "predict_top_k"):
        p = np.exp(model.predict_top_k(X, 1, return_log_proba=True)[1][:, 0])
    elif hasattr(model, "predict_proba"):
        blocks = range(0, X.shape[0], 500)
        p = np.concatenate(
            [model.predict_proba(X[lo : lo + 500]).max(axis=1) for lo in blocks]
        )
    else:
        return None
    at = np.minimum((p * 15).astype(int), 14)
    gap = np.bincount(at, right - p, minlength=15)
    return float(np.abs(gap).sum() / p.size)


def score(name, setting, train, valid):
    """The loss that the choice of the setting minimises."""
    model, _ = fitted(name, setting, *train)
    loss = None if name == "ComplementNB" else log_loss(model, *valid)
    return -(model.predict(valid[0]) == valid[1]).mean() if loss is None else loss


def of_classes(X, y, every):
    """Samples of every which class, numbered anew."""
    kept = np.flatnonzero(y % every == 0)
    return X[kept], y[kept] // every


def apart(function, *args):
    """The result of a function, called in a child process."""
    context = multiprocessing.get_context("fork")
    receive, send = context.Pipe(duplex=False)

    def call():
        send.send(float(function(*args)))

    child = context.Process(target=call)
    child.start()
    send.close()
    try:
        return receive.recv()
    except EOFError:
        return float("inf")
    finally:
        child.join()


def objective(X, y, C, W, b):
    """The squared hinge of all classes against the rest, with its penalty."""
    total = (W.astype(float) ** 2).sum() / 2 + (b.astype(float) ** 2).sum() / 2
    for lo in range(0, y.size, 1000):
        rows = slice(lo, lo + 1000)
        margin = -(X[rows] @ W.T.astype(float) + b)
        own = np.arange(margin.shape[0]), y[rows]
        margin[own] *= -1
        total += C * (np.maximum(0, 1 - margin) ** 2).sum()
    return float(total)


def bayes(section, split):
    """(accuracy, log-loss) on the test part given the lists that text was made from."""
    n_classes, d, n_train = TEXT[section]
    X, y, groups, own, shared = make_sparse_classes(
        n_train + 6000, n_classes, d, **SOURCES, return_groups=True,
        return_words=True, random_state=split,
    )  # fmt: skip
    X, y = X[n_train + 2000 :], y[n_train + 2000 :]
    score = source_scores(X, groups, own, shared)
    loss = logsumexp(score, axis=1) - score[np.arange(y.size), y]
    return (score.argmax(axis=1) == y).mean(), loss.mean()


def source_scores(X, groups, own, shared):
    """ln P(x | class) of the drawn texts, up to a constant of x."""
    X, d = X.astype(float), X.shape[1]
    # the rarest word of nearly every sample occurs once in it
    least = np.minimum.reduceat(X.data, X.indptr[:-1])
    X.data = np.exp(X.data / np.repeat(least, np.diff(X.indptr)) - 1)
    of_class, of_group = SOURCES["class_share"], SOURCES["group_share"]
    edges = (np.arange(d + 1) / d) ** (1 / SOURCES["exponent"])
    common = (1 - of_class - of_group) * np.diff(edges)

    def rates(words, share):
        n, m = words.shape
        at = np.repeat(np.arange(n), m), words.ravel()
        return sp.csr_matrix((np.full(words.size, share / m), at), shape=(n, d))

    rate = (rates(own, of_class) + rates(shared, of_group)[groups]).tocsr()
    rate.data = np.log1p(rate.data / common[rate.indices])
    return (X @ rate.T).toarray()


def averaged(section, split):
    """Gain of a mean of three trees over one of them."""
    (X, y), _, (Z, target) = parts_of(section, split)
    setting = AVERAGED[section]
    mean = MODELS["tree, 3 averaged"](setting).fit(X, y)
    ones = [MODELS["tree"](setting, taxonomy=t).fit(X, y) for t in mean.taxonomies_]
    wrong = np.array([one.predict(Z) != target for one in ones])
    figures = {
        "setting": " ".join(map(str, setting)),
        "tree": 1 - wrong.mean(),
        "averaged": (mean.predict(Z) == target).mean(),
        "all_wrong": wrong.all(axis=0).mean(),
        "log_loss_tree": np.mean([log_loss(one, Z, target) for one in ones]),
        "log_loss_averaged": log_loss(mean, Z, target),
    }
    if section in TEXT:
        figures["bayes"], figures["log_loss_bayes"] = bayes(section, split)
    return figures


def compared(section, tol, split):
    """LinearSVC with a tolerance, LinearClassifier with its own: the same sum."""
    (X, y), _, (Z, target) = parts_of(section, split)
    models = {
        "svc": LinearSVC(C=1.0, tol=tol, random_state=0),
        "dual": flat("squared_hinge", 1.0, calibration=None),
    }
    figures = {}
    for name, model in models.items():
        start = time.process_time()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model.fit(X, y)
        figures[f"fit_{name}"] = time.process_time() - start
        figures[f"objective_{name}"] = objective(
            X, y, 1.0, model.coef_, model.intercept_
        )
        figures[f"accuracy_{name}"] = (model.predict(Z) == target).mean()
    figures["ratio"] = figures["fit_svc"] / figures["fit_dual"]
    figures["excess"] = figures["objective_dual"] / figures["objective_svc"] - 1
    return figures


def cases():
    found = [
        {"section": "objective", "set": name, "tol": tol, "split": split, "slow": True}
        for name in ("clinc150", "text1000")
        for tol in (1e-4, 1e-2, 1e-1)
        for split in range(N_SPLITS if name == "clinc150" else 1)
    ]
    found += [
        {"section": "averaging", "set": name, "split": split, "slow": True}
        for name in AVERAGED
        for split in range(N_SPLITS)
    ]
    for section in SECTIONS:
        grows = section.startswith("growth")
        for name in MODELS:
            if name in LEFT_OUT.get(section, ()):
                continue
            if section not in ONLY.get(name, (section,)):
                continue
            if grows and name not in MOST_GROWN:
                continue
            if grows and int(section[6:]) > MOST_GROWN[name]:
                continue
            for split in range(1 if grows else N_SPLITS):
                case = {"section": section, "model": name, "split": split}
                case |= {} if section == "clinc150" else {"slow": True}
                peer = PEER_OF.get(name.split(",")[0])
                found.append(case | ({} if peer is None else {"needs": peer}))
    return found


def run(case):
    if case["section"] == "objective":
        return compared(case["set"], case["tol"], case["split"])
    if case["section"] == "averaging":
        return averaged(case["set"], case["split"])
    section, name = case["section"], case["model"]
    train, valid, (Z, target) = parts_of(section, case["split"])
    grid = CHOSEN.get((section, name), GRIDS[name])
    if section.startswith("growth"):
        grid = {"tree": [("squared_hinge", 1.0)]}.get(name, [1.0])
    setting = grid[0]
    if len(grid) > 1:
        every = EVERY.get((section, name), 1)
        few = [of_classes(*part, every) for part in (train, valid)]
        scores = [apart(score, name, setting, *few) for setting in grid]
        setting = grid[int(np.argmin(scores))]
    data_mb = peak_mb()
    model, seconds = fitted(name, setting, *train)
    model.predict(Z[:10])  # what a first call alone does
    start = time.process_time()
    best = model.predict(Z)
    predict = time.process_time() - start
    right = best == target
    figures = {
        "setting": " ".join(map(str, setting))
        if isinstance(setting, tuple)
        else setting,
        "accuracy": right.mean(),
        "log_loss": log_loss(model, Z, target),
        "ece": calibration_error(model, Z, right),
        "fit": seconds,
        "predict": 1e6 * predict / target.size,
        "data_mb": round(data_mb),
    }
    size = model.n_bytes() if hasattr(model, "n_bytes") else pickled_bytes(model)
    figures["model_mb"] = size / 2**20
    if isinstance(model, HierarchicalClassifier):
        figures["leaves"] = model.taxonomy_.n_leaves
        figures["n_leaves"] = model.n_leaves_
        figures["depth"] = model.taxonomy_.depth
    return {name: value for name, value in figures.items() if value is not None}


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main(cases, run, peers=PEERS)
