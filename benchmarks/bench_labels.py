"""Several labels per sample: ours, scikit-learn's one-vs-rest, and peers'.

    SKLSTRUCT_DATA=... python benchmarks/bench_labels.py --peer --out FILE
    python benchmarks/bench_labels.py --list

A case is a data set and a model, all with C = 1 of the squared hinge or the defaults of
the program; rows have unit length. Figures on the test part: `p1`, `p3`, `p5`
(precision at k), `ndcg5`, `psp5` (propensity-scored, A = .55, B = 1.5), `micro_f1` and
`macro_f1` of `predict`; `log_loss`, of the marginals, nats per sample summed over the
labels, of models that have probabilities, and of these by bins of the marginals
(`EDGES`) the number of pairs of a sample and a label (`count`), the sum of the
marginals (`proba`) and of the labels that are right (`right`); `fit`, CPU seconds
from the matrices to the model; `predict`, CPU milliseconds for the five best labels of
a thousand samples; `peak_mb`, the peak memory of the process.

Sets: `medical`, `slashdot`, `langlog` and `chess` (real, 22 to 227 labels, one split),
and text of L labels, `text100` to `text100000`: a sample draws one of L subjects
(`make_sparse_classes`), and each subject has four labels, its own with probability .9
and three of other subjects of its group with .5, .3 and .15, all drawn independently.
Given the word lists the probability of a subject is known exactly, and so is that of a
label: `bayes` is the classifier that knows it.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1: every model has one thread.
Peers (`--peer`): omikuji (one tree and three), napkinXC (probabilistic label tree) and
PECOS (XLinear, as in `bench_sparse_classes`). The first two are given their files or
lists before the clock starts; omikuji is asked sample by sample, as its Python
interface has it.
"""

import tempfile
import time
import warnings
from functools import cache, partial

import numpy as np
import scipy.sparse as sp
from _common import data_folder, main, peak_mb
from bench_sparse_classes import SOURCES, Omikuji, Pecos, source_scores
from scipy.special import softmax
from sklearn.metrics import f1_score
from sklearn.multiclass import OneVsRestClassifier
from sklearn.preprocessing import normalize
from sklearn.svm import LinearSVC

from sklstruct import HierarchicalClassifier
from sklstruct.datasets import (
    load_sparse_labels,
    make_sparse_classes,
    save_sparse_labels,
)
from sklstruct.linear import LinearClassifier
from sklstruct.metrics import (
    label_propensities,
    ndcg_at_k,
    precision_at_k,
    propensity_scored_precision_at_k,
)

PEERS = ("omikuji", "napkinxc", "libpecos")
REAL = {
    "medical": "medical",
    "slashdot": "slashdot",
    "langlog": "langlog",
    "chess": "stackex_chess",
}
# Labels, features, training samples.
TEXT = {
    "text100": (100, 10_000, 4000),
    "text1000": (1000, 100_000, 40_000),
    "text10000": (10_000, 200_000, 100_000),
    "text100000": (100_000, 400_000, 400_000),
}
N_TEST = 2000
# Of the marginals in the picture of their reliability.
EDGES = (0, 1e-5, 1e-4, 1e-3, 0.01, 0.03, *np.arange(1, 10) / 10, 1)
CHANCES = np.array([0.9, 0.5, 0.3, 0.15])


# ------------------------------------------------------------------------- data


def real(name):
    folder = data_folder("multilabel")
    paths = [folder / f"{REAL[name]}.{part}.txt.gz" for part in ("train", "test")]
    return [(normalize(X).tocsr(), Y) for X, Y in load_sparse_labels(*paths)]


@cache
def text(name):
    """(samples, indicator, chances of the labels of a subject, word lists)."""
    n_labels, d, n_train = TEXT[name]
    X, subject, groups, *lists = make_sparse_classes(
        n_train + N_TEST, n_labels, d, **SOURCES, return_groups=True,
        return_words=True, random_state=0,
    )  # fmt: skip
    rng = np.random.default_rng(0)
    order = np.argsort(groups, kind="stable")
    first = np.searchsorted(groups[order], groups)
    size = np.bincount(groups)[groups]
    column = np.empty((n_labels, 4), dtype=np.int64)
    column[:, 0] = np.arange(n_labels)
    for k in range(1, 4):
        column[:, k] = order[first + (rng.random(n_labels) * size).astype(int)]
    # a label that was drawn twice has the larger chance
    chance = sp.csr_matrix((n_labels, n_labels))
    row = np.arange(n_labels)
    for k in range(4):
        one = sp.csr_matrix(
            (np.full(n_labels, CHANCES[k]), (row, column[:, k])), shape=chance.shape
        )
        chance = chance.maximum(one)
    chance = chance.tocsr()
    Y = chance[subject]
    Y.data = (rng.random(Y.nnz) < Y.data).astype(np.int64)
    Y.eliminate_zeros()
    return X, sp.csr_matrix(Y, dtype=np.int64), chance, (groups, *lists)


def parts_of(name):
    """(training, test), each (X, Y)."""
    if name in REAL:
        return real(name)
    X, Y, _, _ = text(name)
    n = TEXT[name][2]
    return [(X[:n], Y[:n]), (X[n:], Y[n:])]


class Bayes:
    """The probabilities of the labels given how the text was made."""

    def __init__(self, name):
        self.name = name

    def fit(self, X, Y):
        return self

    def predict_proba(self, X):
        _, _, chance, sources = text(self.name)
        out = np.empty((X.shape[0], chance.shape[1]))
        for a in range(0, X.shape[0], 200):
            score = source_scores(X[a : a + 200], *sources)
            out[a : a + 200] = softmax(score, axis=1) @ chance
        return out


# ----------------------------------------------------------------------- models


class OmikujiLabels(Omikuji):
    def fit(self, X, Y):
        import omikuji

        params = omikuji.Model.default_hyper_param()
        params.n_trees, params.linear_c = self.n_trees, self.C
        with tempfile.NamedTemporaryFile(suffix=".txt") as file:
            save_sparse_labels(file.name, X, Y)
            start = time.process_time()
            self.model = omikuji.Model.train_on_data(file.name, params, 1)
            self.seconds = time.process_time() - start
        self.model.init_prediction_thread_pool(1)
        self.n_labels = Y.shape[1]
        return self

    def predict_top_k(self, X, k):
        found = []
        for i in range(X.shape[0]):
            at = slice(X.indptr[i], X.indptr[i + 1])
            pairs = list(zip(X.indices[at].tolist(), X.data[at].tolist()))
            found += [(i, *pair) for pair in self.model.predict(pairs, top_k=k)]
        row, label, score = zip(*found)
        shape = X.shape[0], self.n_labels
        return sp.csr_matrix((np.add(score, 1e-30), (row, label)), shape=shape)


class Napkin:
    def fit(self, X, Y):
        import napkinxc.models

        self.folder = tempfile.TemporaryDirectory()
        self.n_labels = Y.shape[1]
        self.model = napkinxc.models.PLT(self.folder.name, seed=0, threads=1)
        labels = [Y.indices[a:b].tolist() for a, b in zip(Y.indptr[:-1], Y.indptr[1:])]
        start = time.process_time()
        self.model.fit(X, labels)
        self.seconds = time.process_time() - start
        return self

    def predict_top_k(self, X, k):
        found = self.model.predict_proba(X, top_k=k)
        triples = [(i, *pair) for i, row in enumerate(found) for pair in row]
        row, label, score = zip(*triples)
        shape = X.shape[0], self.n_labels
        return sp.csr_matrix((np.add(score, 1e-30), (row, label)), shape=shape)


class PecosLabels(Pecos):
    def fit(self, X, Y):
        self.fit_labels(X.astype(np.float32), sp.csr_matrix(Y, dtype=np.float32))
        with tempfile.TemporaryDirectory() as folder:
            self.model.save(folder)
            # the form that it has for predictions
            self.model = self.model.load(folder, is_predict_only=True)
        return self

    def predict_top_k(self, X, k):
        return self.model.predict(X.astype(np.float32), only_topk=k, threads=1)


def tree(**params):
    return HierarchicalClassifier(random_state=0, **params)


def flat(loss="auto"):
    return LinearClassifier(loss, weight_threshold=0.02, random_state=0)


MODELS = {
    "tree": tree,
    "tree, F1": partial(tree, threshold="f1"),
    "tree, 3 averaged": partial(tree, n_taxonomies=3),
    "flat": flat,
    "LinearSVC": lambda: OneVsRestClassifier(LinearSVC(random_state=0)),
    "omikuji": lambda: OmikujiLabels(1, 1.0),
    "omikuji, 3 trees": lambda: OmikujiLabels(3, 1.0),
    "napkinXC": Napkin,
    "PECOS": lambda: PecosLabels(1.0),
}
PEER_OF = {
    "omikuji": "omikuji",
    "omikuji, 3 trees": "omikuji",
    "napkinXC": "napkinxc",
    "PECOS": "libpecos",
}
# Sets that take others hours, or more memory than the machine has.
ONLY = {
    "LinearSVC": (*REAL, "text100"),
    "flat": (*REAL, "text100", "text1000", "text10000"),
    "tree, F1": (*REAL, "text100", "text1000"),
    "napkinXC": (*REAL, "text100", "text1000", "text10000"),
    "PECOS": (*REAL, "text100", "text1000", "text10000"),
    "omikuji, 3 trees": (*REAL, "text100", "text1000", "text10000"),
    "tree, 3 averaged": (*REAL, "text100", "text1000", "text10000"),
}


# -------------------------------------------------------------------- measuring


def marginals(model, X, Y):
    """Log-loss, nats per sample summed over the labels, and reliability by `EDGES`."""
    total, bins = 0.0, np.zeros((3, len(EDGES) - 1))
    step = max(1, 2 * 10**7 // Y.shape[1])
    for a in range(0, X.shape[0], step):
        P, yes = model.predict_proba(X[a : a + step]), Y[a : a + step].nonzero()
        at = np.clip(np.searchsorted(EDGES, P, side="right") - 1, 0, len(EDGES) - 2)
        bins[0] += np.bincount(at.ravel(), minlength=bins.shape[1])
        bins[1] += np.bincount(at.ravel(), P.ravel(), bins.shape[1])
        bins[2] += np.bincount(at[yes], minlength=bins.shape[1])
        P = np.clip(P, 1e-15, 1 - 1e-15)
        hits = np.log(P[yes]) - np.log1p(-P[yes])
        total -= np.log1p(-P).sum() + hits.sum()
    count, proba, right = bins.tolist()
    figures = {"count": count, "proba": proba, "right": right}
    return {"log_loss": total / X.shape[0]} | figures


def ranked(score, Y, propensity):
    figures = {f"p{k}": precision_at_k(Y, score, k=k) for k in (1, 3, 5)}
    figures["ndcg5"] = ndcg_at_k(Y, score, k=5)
    figures["psp5"] = propensity_scored_precision_at_k(
        Y, score, propensity=propensity, k=5
    )
    return figures


def cases():
    found = []
    for name in (*REAL, *TEXT):
        slow = name in ("text10000", "text100000")
        if name in TEXT and name != "text100000":
            found.append({"set": name, "model": "bayes", "slow": slow})
        for model in MODELS:
            if name in ONLY.get(model, (*REAL, *TEXT)):
                case = {"set": name, "model": model, "slow": slow}
                needs = {"needs": PEER_OF[model]} if model in PEER_OF else {}
                found.append({**case, **needs})
    return found


def run(case):
    (X, Y), (Z, T) = parts_of(case["set"])
    propensity = label_propensities(Y)
    if case["model"] == "bayes":
        bayes = Bayes(case["set"])
        score = bayes.predict_proba(Z)
        return ranked(score, T, propensity) | marginals(bayes, Z, T)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        start = time.process_time()
        model = MODELS[case["model"]]().fit(X, Y)
        seconds = getattr(model, "seconds", time.process_time() - start)
        start = time.process_time()
        if hasattr(model, "predict_top_k"):
            score = model.predict_top_k(Z, min(5, Y.shape[1]))
        else:
            score = model.decision_function(Z)
            # scikit-learn ranks labels without a positive above most others
            score[:, np.asarray(Y.sum(axis=0)).ravel() == 0] = -np.inf
        predict = time.process_time() - start
        figures = ranked(score, T, propensity)
        figures |= {"fit": seconds, "predict": 1e6 * predict / Z.shape[0]}
        if hasattr(model, "get_params"):  # not the peers
            found = model.predict(Z)
            for average in ("micro", "macro"):
                figures[f"{average}_f1"] = f1_score(T, found, average=average)
        if hasattr(model, "predict_proba"):
            figures |= marginals(model, Z, T)
    if isinstance(model, (HierarchicalClassifier, LinearClassifier)):
        nodes = getattr(model, "nodes_", model)
        figures["loss"] = nodes.loss_ if nodes is model else nodes.loss
    return figures | {"peak_mb": peak_mb()}


if __name__ == "__main__":
    main(cases, run, peers=PEERS)
