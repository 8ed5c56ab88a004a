"""Structured prediction by SampleRank: referring expressions, tags, pictures, speed.

- grec: the expressions of GREC-NEG and GREC-MSR. Every system is tuned on the
  development texts alone (string accuracy) and then run on the test texts; those that
  draw numbers run with five seeds. Edit distances are in words; "normalised" divides by
  the length of the longer expression. BLEU is that of sacrebleu over the expressions.
  NIST is left out: its weights come from the few words of the expressions at hand,
  so its values compare systems of one evaluation program only.
- tagging: universal tags of English. Of UD EWT, a document an instance: no edges,
  chains within sentences, and further edges between equal capitalised words of the
  document. And lists of names of features: by SampleRank and by the conditional
  likelihood, beside CRFsuite. Objectives and log-likelihoods are nats per word, the
  latter of the test part.
- pictures: binary pictures of 16 x 16 with a quarter of the pixels flipped.
- search: how often annealing and coordinate ascent reach the exact optimum.
- speed: states compared per second, and prediction with one and two threads.
- reading: the training part of EWT, chains of a document each, from lists of
  dictionaries and from dictionaries with edges to graphs, beside a DictVectorizer that
  reads the features alone, and beside learning; the fastest of three.
"""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from functools import cache

import numpy as np
import scipy.sparse as sp
from _common import data_folder, edits, ewt, fastest, main, options
from _grec import grec_instances, load_grec
from scipy.ndimage import median_filter
from sklearn.feature_extraction import DictVectorizer
from sklearn.linear_model import LogisticRegression

from sklstruct.factor_graph import (
    ConditionalRandomField,
    FactorGraph,
    FactorGraphVectorizer,
    SampleRankClassifier,
    grid_graph,
)
from sklstruct.factor_graph._observations import chains, learn_columns

SEEDS = range(5)
EDGES = {"unary": (), "chain": ("next",), "pairwise": ("next", "entity")}
# Settings tried on the development data.
GRID = [
    {"step": step, rate: size, "epochs": epochs}
    for step, rate, sizes in (
        ("adagrad", "learning_rate", (0.02, 0.1)),
        ("passive_aggressive", "learning_rate", (0.01, 0.1)),
    )
    for size in sizes
    for epochs in (5, 15)
]


def cases():
    grec = [
        {
            "name": f"grec {task} {system}",
            "part": "grec",
            "task": task,
            "system": system,
        }
        for task in ("neg", "msr")
        for system in ("majority", "logistic", "crf", "likelihood", *EDGES)
    ]
    tagging = [
        {"name": f"tagging {s}", "part": "tagging", "system": s, "slow": True}
        for s in ("unary", "chain", "skip-chain")
    ] + [
        {
            "name": f"tagging EWT {system}",
            "part": "tagging",
            "data": "EWT",
            "system": system,
            "slow": True,
        }
        for system in (
            "SampleRank", "likelihood", "crfsuite lbfgs", "crfsuite l2sgd",
            "crfsuite ap",
        )
    ]  # fmt: skip
    pictures = [
        {"name": f"pictures {s}", "part": "pictures", "system": s}
        for s in ("pixels", "median filter", "unary", "icm", "anneal")
    ]
    search = [
        {"name": f"search {s}", "part": "search", "shape": s, "n": 1000}
        for s in ("chain", "tree")
    ]
    speed = [
        {"name": f"speed {task} {proposal}", "part": "speed", "task": task,
         "proposal": proposal}
        for task in ("neg", "msr")
        for proposal in ("gibbs", "uniform")
    ]  # fmt: skip
    reading = [{"name": "reading", "part": "reading", "slow": True}]
    return search + speed + reading + pictures + grec + tagging


def run(case):
    if "crf" in case.get("system", "") and "sklearn-crfsuite" not in options.peers:
        return {"left_out": "needs --peer sklearn-crfsuite"}
    return PARTS[case["part"]](case)


def spread(name, values):
    """Mean and standard deviation over the seeds."""
    return {
        name: float(np.mean(values)),
        f"{name}_std": float(np.std(values, ddof=1)),
    }


# ----------------------------------------------------------------------------- GREC


@cache
def expressions(task, split, system):
    documents = load_grec(data_folder("grec") / f"{task}_{split}.jsonl.gz")
    edges = ("next",) if system == "likelihood" else EDGES.get(system, ())
    return grec_instances(documents, edges=edges)


def flat(X, y):
    """(variable, expression) of all mentions in a row."""
    return [(v, e) for x, row in zip(X, y) for v, e in zip(x["variables"], row)]


def kind_of(variable, expression):
    return variable["kinds"][variable["candidates"].index(expression)]


def bleu(found, truth):
    """BLEU-1 to BLEU-3 over all expressions, by sacrebleu."""
    if "sacrebleu" not in options.peers:
        return {}
    from sacrebleu.metrics import BLEU

    return {
        f"bleu{n}": BLEU(tokenize="none", max_ngram_order=n, smooth_method="none",
                         force=True).corpus_score(found, [truth]).score / 100
        for n in (1, 2, 3)
    }  # fmt: skip


def grec_figures(X, y, found):
    """The figures that the shared tasks report."""
    truth, found = flat(X, y), flat(X, found)
    right_form = [
        kind_of(v, a).split()[0] == kind_of(v, b).split()[0]
        for (v, a), (_, b) in zip(truth, found)
    ]
    words = [(a.split(), b.split()) for (_, a), (_, b) in zip(truth, found)]
    distance = np.array([edits(a, b) for a, b in words])
    longer = np.array([max(len(a), len(b)) for a, b in words])
    return {
        "type_accuracy": float(np.mean(right_form)),
        "string_accuracy": float(np.mean([a == b for a, b in words])),
        "edit_distance": float(distance.mean()),
        "normalised_distance": float((distance / longer).mean()),
        **bleu([e for _, e in found], [e for _, e in truth]),
    }


def best_by_score(X, score):
    """For each mention the candidate of the highest score."""
    found, at = [], 0
    for x in X:
        row = []
        for v in x["variables"]:
            k = len(v["candidates"])
            row.append(v["candidates"][int(np.argmax(score[at : at + k]))])
            at += k
        found.append(row)
    return found


def candidate_matrix(graphs, kinds):
    """The features that a graph without edges has, a row for each candidate."""
    code = {kind: j for j, kind in enumerate(kinds)}
    blocks = []
    for graph in graphs:
        f, own = graph.features, graph.candidate_features
        sizes = np.diff(graph.cand_ptr)
        x = sp.csr_array((f.value, f.column, f.ptr), (f.n_rows, f.width))
        x = x[np.repeat(np.arange(len(sizes)), sizes)]
        kind = np.array([code.get(k, -1) for ks in graph.kinds for k in ks])
        owner = np.repeat(kind, np.diff(x.indptr))
        crossed = sp.csr_array(
            (np.where(owner >= 0, x.data, 0.0),
             x.indices.astype(np.int64) * len(kinds) + np.maximum(owner, 0), x.indptr),
            (x.shape[0], f.width * len(kinds)),
        )  # fmt: skip
        own = sp.csr_array((own.value, own.column, own.ptr), (own.n_rows, own.width))
        blocks.append(sp.hstack([crossed, own], format="csr"))
    return sp.vstack(blocks, format="csr")


def grec(case):
    task, system = case["task"], case["system"]
    (X, y), (X_dev, y_dev), (X_test, y_test) = (
        expressions(task, split, system) for split in ("train", "dev", "test")
    )
    simple = {"majority": grec_majority, "logistic": grec_logistic, "crf": grec_crf}
    if system in simple:
        found, chosen, seconds = simple[system](X, y, X_dev, y_dev, X_test)
        return grec_figures(X_test, y_test, found) | {
            "chosen": chosen, "fit_cpu_seconds": seconds,
        }  # fmt: skip
    vectorizer = FactorGraphVectorizer()
    train = vectorizer.fit_transform(X)
    dev, test = vectorizer.transform(X_dev), vectorizer.transform(X_test)
    if system == "likelihood":
        return grec_likelihood(X_test, y_test, (train, y), (dev, y_dev), test)
    scores = [
        np.mean([
            SampleRankClassifier(random_state=seed, **params)
            .fit(train, y).score(dev, y_dev)
            for seed in SEEDS[:2]
        ])
        for params in GRID
    ]  # fmt: skip
    best = GRID[int(np.argmax(scores))]
    rows, seconds = [], []
    for seed in SEEDS:
        start = time.process_time()
        model = SampleRankClassifier(random_state=seed, **best).fit(train, y)
        seconds.append(time.process_time() - start)
        rows.append(grec_figures(X_test, y_test, model.predict(test)))
    figures = {}
    for name in rows[0]:
        figures |= spread(name, [row[name] for row in rows])
    return figures | {
        "dev_string_accuracy": float(max(scores)),
        "chosen": ", ".join(f"{k}={v}" for k, v in best.items()),
        "fit_cpu_seconds": float(np.mean(seconds)),
        "n_weights": model.coef_.size,
    }


def grec_likelihood(X_test, y_test, train, dev, test):
    best = None
    for c2 in (0.1, 0.3, 1.0, 3.0):
        model = ConditionalRandomField(c2=c2, min_count=0)
        seconds, _ = cpu_of(lambda model=model: model.fit(*train))
        score = model.score(*dev)
        if best is None or score > best[0]:
            best = (score, c2, model, seconds)
    score, c2, model, seconds = best
    return grec_figures(X_test, y_test, model.predict(test)) | {
        "dev_string_accuracy": score,
        "chosen": f"c2={c2}",
        "fit_cpu_seconds": seconds,
        "n_weights": model.coef_.size,
        "iterations": model.n_iter_,
    }


def grec_majority(X, y, X_dev, y_dev, X_test):
    """The candidate of the kind that was most frequent in training."""
    count = Counter(kind_of(v, e) for v, e in flat(X, y))
    score = [count[k] for x in X_test for v in x["variables"] for k in v["kinds"]]
    return best_by_score(X_test, np.array(score)), "", 0.0


def grec_logistic(X, y, X_dev, y_dev, X_test):
    """Each candidate is the right one or not; the likeliest of a mention is taken."""
    vectorizer = FactorGraphVectorizer()
    train = vectorizer.fit_transform(X)
    kinds = sorted({k for g in train for ks in g.kinds for k in ks})
    rows, dev, test = (
        candidate_matrix(graphs, kinds)
        for graphs in (train, vectorizer.transform(X_dev), vectorizer.transform(X_test))
    )
    right = np.array([c == e for v, e in flat(X, y) for c in v["candidates"]])
    best = None
    for C in (0.1, 0.3, 1.0, 3.0):
        start = time.process_time()
        model = LogisticRegression(C=C, max_iter=2000).fit(rows, right)
        seconds = time.process_time() - start
        found = best_by_score(X_dev, model.decision_function(dev))
        score = grec_figures(X_dev, y_dev, found)["string_accuracy"]
        if best is None or score > best[0]:
            best = (score, C, model, seconds)
    _, C, model, seconds = best
    return best_by_score(X_test, model.decision_function(test)), f"C={C}", seconds


def grec_crf(X, y, X_dev, y_dev, X_test):
    """A chain CRF over kinds; of a mention's candidates the one of likeliest kind."""
    import sklearn_crfsuite

    def rows(X):
        return [[crf_features(v["features"]) for v in x["variables"]] for x in X]

    labels = [
        [kind_of(v, e) for v, e in zip(x["variables"], row)] for x, row in zip(X, y)
    ]

    def decode(model, X):
        score = [
            proba.get(k, 0.0)
            for x, row in zip(X, model.predict_marginals(rows(X)))
            for v, proba in zip(x["variables"], row)
            for k in v["kinds"]
        ]
        return best_by_score(X, np.array(score))

    best = None
    for c2 in (0.1, 0.3, 1.0, 3.0):
        start = time.process_time()
        model = sklearn_crfsuite.CRF(c1=0.0, c2=c2, max_iterations=200)
        model.fit(rows(X), labels)
        seconds = time.process_time() - start
        score = grec_figures(X_dev, y_dev, decode(model, X_dev))["string_accuracy"]
        if best is None or score > best[0]:
            best = (score, c2, model, seconds)
    _, c2, model, seconds = best
    return decode(model, X_test), f"c2={c2}", seconds


def crf_features(features):
    return [f"{k}={v}" for k, v in features.items()]


# -------------------------------------------------------------------------- tagging


@cache
def tagged(split):
    """Documents: lists of sentences, lists of (word, tag)."""
    documents, bank = [], ewt(split)
    for comments, words, tags in zip(bank.comments, bank.form, bank.upos):
        if any(line.startswith("# newdoc") for line in comments):
            documents.append([])
        documents[-1].append([*zip(words, tags)])
    return documents


def shape(word):
    classes = ("X" if c.isupper() else "x" if c.islower() else
               "d" if c.isdigit() else c for c in word)  # fmt: skip
    return "".join(c for c, _ in itertools.groupby(classes))


def word_features(sentence, i):
    """Names of features, each of which is 1."""
    word = sentence[i][0]
    low = word.lower()
    before = sentence[i - 1][0].lower() if i else "<s>"
    after = sentence[i + 1][0].lower() if i + 1 < len(sentence) else "</s>"
    names = [
        "bias", f"word={low}", f"shape={shape(word)}", f"before={before}",
        f"after={after}", f"before shape={shape(sentence[i - 1][0]) if i else ''}",
        f"pair={before} {low}", f"first={i == 0}",
    ]  # fmt: skip
    names += [f"suffix={low[-n:]}" for n in (1, 2, 3, 4) if len(low) > n]
    names += [f"prefix={low[:n]}" for n in (1, 2, 3) if len(low) > n]
    return names + [f"before suffix={before[-2:]}", f"after suffix={after[-2:]}"]


def tag_instances(documents, system):
    """Instances for the vectorizer: a document each."""
    tags = sorted({tag for d in tagged("train") for s in d for _, tag in s})
    X, y = [], []
    for number, document in enumerate(documents):
        variables, edges, keys, start = [], [], [], 0
        for sentence in document:
            for i, (word, _) in enumerate(sentence):
                names = word_features(sentence, i)
                variables.append(
                    {"candidates": tags, "features": dict.fromkeys(names, 1)}
                )
                keys.append(word if word[0].isupper() and len(word) > 1 else None)
            if system != "unary":
                ends = range(start, start + len(sentence))
                edges += [(a, b, "next") for a, b in itertools.pairwise(ends)]
            start += len(sentence)
        if system == "skip-chain":
            last = {}
            for b, key in enumerate(keys):
                if key is not None:
                    a, last[key] = last.get(key, -math.inf), b
                    if b - a <= 100:
                        edges.append((a, b, "skip"))
        X.append({"variables": variables, "edges": edges, "name": str(number)})
        y.append([tag for sentence in document for _, tag in sentence])
    return X, y


def tagging(case):
    system = case["system"]
    if "data" not in case:
        return tagging_documents(system)
    parts = [sentences_of(split) for split in ("train", "dev", "test")]
    if system.startswith("crfsuite"):
        return tagging_crfsuite(system.split()[1], *parts)
    if system == "likelihood":
        return tagging_likelihood(*parts)
    # what the development part of EWT chooses
    return tagging_samplerank([{"learning_rate": 0.1, "epochs": 5}], *parts)


def sentences_of(split):
    """Names of features, and tags, of each sentence."""
    sentences = [s for document in tagged(split) for s in document]
    X = [[word_features(s, i) for i in range(len(s))] for s in sentences]
    return X, [[tag for _, tag in s] for s in sentences]


def tagging_samplerank(grid, train, dev, test):
    scores = [
        SampleRankClassifier(random_state=0, **p).fit(*train).score(*dev) for p in grid
    ]
    best = grid[int(np.argmax(scores))]
    accuracy, seconds, predicting = [], [], []
    for seed in SEEDS:
        model = SampleRankClassifier(random_state=seed, **best)
        seconds.append(cpu_of(lambda model=model: model.fit(*train))[0])
        spent, found = cpu_of(lambda model=model: model.predict(test[0]))
        predicting.append(spent)
        accuracy.append(token_accuracy(found, test[1]))
    return spread("accuracy", accuracy) | {
        "dev_accuracy": float(max(scores)),
        "chosen": ", ".join(f"{k}={v}" for k, v in best.items()),
        "fit_cpu_seconds": float(np.mean(seconds)),
        "predict_cpu_seconds": float(np.mean(predicting)),
    }


def tagging_likelihood(train, dev, test):
    model = ConditionalRandomField(c2=1.0)
    seconds, _ = cpu_of(lambda: model.fit(*train))
    predicting, found = cpu_of(lambda: model.predict(test[0]))
    n_words = sum(map(len, train[0]))
    known = set(model.classes_)
    same = [i for i, row in enumerate(test[1]) if known.issuperset(row)]
    X, y = ([part[i] for i in same] for part in test)
    return {
        "accuracy": token_accuracy(found, test[1]),
        "dev_accuracy": model.score(*dev),
        "chosen": "c2=1.0",
        "fit_cpu_seconds": seconds,
        "predict_cpu_seconds": predicting,
        "log_likelihood": model.target_log_proba(X, y).sum() / sum(map(len, y)),
        "iterations": model.n_iter_,
        "objective": model.objective_[-1] / n_words,
        "gap": model.gap_ / n_words,
        "n_weights": int(np.count_nonzero(model.coef_)),
    }


def tagging_crfsuite(algorithm, train, dev, test):
    """CRFsuite on the same features."""
    import sklearn_crfsuite

    params = {
        "lbfgs": {"c2": 1.0}, "l2sgd": {"c2": 1.0, "max_iterations": 100},
        "ap": {"max_iterations": 15},
    }[algorithm]  # fmt: skip
    model = sklearn_crfsuite.CRF(algorithm=algorithm, **params)
    seconds, _ = cpu_of(lambda: model.fit(*train))
    predicting, found = cpu_of(lambda: model.predict(test[0]))
    figures = {
        "accuracy": token_accuracy(found, test[1]),
        "dev_accuracy": token_accuracy(model.predict(dev[0]), dev[1]),
        "chosen": ", ".join(f"{k}={v}" for k, v in params.items()),
        "fit_cpu_seconds": seconds,
        "predict_cpu_seconds": predicting,
    }
    if algorithm == "ap":
        return figures
    weights = [*model.state_features_.values(), *model.transition_features_.values()]
    total, n_train = log_likelihood_of(model, train)
    objective = params["c2"] * float(np.square(weights).sum()) - total
    total, n_words = log_likelihood_of(model, test)
    return figures | {
        "log_likelihood": total / n_words,
        "iterations": model.training_log_.last_iteration["num"],
        "objective": objective / n_train,
        "n_weights": len(weights),
    }


def log_likelihood_of(model, samples):
    """(log-likelihood of the sentences whose tags CRFsuite knows, their words)."""
    known, total, n_words = set(model.classes_), 0.0, 0
    for x, row in zip(*samples):
        if known.issuperset(row):
            model.tagger_.set(x)
            total += np.log(model.tagger_.probability(row))
            n_words += len(row)
    return total, n_words


def cpu_of(function):
    """CPU seconds of a call, and what it returns."""
    start = time.process_time()
    found = function()
    return time.process_time() - start, found


def tagging_documents(system):
    """A document an instance, through the vectorizer of dictionaries."""
    (X, y), (X_dev, y_dev), (X_test, y_test) = (
        tag_instances(tagged(split), system) for split in ("train", "dev", "test")
    )
    vectorizer = FactorGraphVectorizer()
    reading, train = cpu_of(lambda X=X: vectorizer.fit_transform(X))
    dev, test = vectorizer.transform(X_dev), vectorizer.transform(X_test)
    del X, X_dev, X_test
    grid = [p for p in GRID if p["epochs"] == 5]
    figures = tagging_samplerank(grid, (train, y), (dev, y_dev), (test, y_test))
    return figures | {"read_cpu_seconds": reading}


def token_accuracy(found, truth):
    pairs = [(a, b) for x, z in zip(found, truth) for a, b in zip(x, z)]
    return float(np.mean([a == b for a, b in pairs]))


# ------------------------------------------------------------------------- pictures


def pictures_of(seed, n=100, size=16, flipped=0.25):
    """Pictures of two discs or squares each, and what a noisy camera made of them."""
    rng = np.random.default_rng(seed)
    row, column = np.mgrid[:size, :size]
    clean = np.zeros((n, size, size), dtype=int)
    for picture in clean:
        for _ in range(2):
            a, b = rng.uniform(2, size - 2, size=2)
            r = rng.uniform(2, 5)
            disc = (row - a) ** 2 + (column - b) ** 2 < r * r
            square = (abs(row - a) < r) & (abs(column - b) < r)
            picture |= disc if rng.random() < 0.5 else square
    noisy = np.where(rng.random(clean.shape) < flipped, 1 - clean, clean)
    return clean, noisy


def picture_graph(picture, edges):
    features = np.stack([np.ones_like(picture), picture], axis=2)
    if edges:
        return grid_graph([0, 1], features)
    return FactorGraph([[0, 1]] * picture.size, features=features.reshape(-1, 2))


def pictures(case):
    system = case["system"]
    accuracy, seconds = [], []
    for seed in SEEDS:
        clean, noisy = pictures_of(2 * seed)
        clean_new, noisy_new = pictures_of(2 * seed + 1)
        if system == "pixels":
            accuracy.append((noisy_new == clean_new).mean())
            continue
        if system == "median filter":
            smooth = median_filter(noisy_new, size=(1, 3, 3))
            accuracy.append((smooth == clean_new).mean())
            continue
        X, new = ([picture_graph(p, system != "unary") for p in q]
                  for q in (noisy, noisy_new))  # fmt: skip
        y, truth = ([p.ravel() for p in q] for q in (clean, clean_new))
        inference = "auto" if system == "unary" else system
        model = SampleRankClassifier(inference=inference, random_state=seed)
        start = time.process_time()
        model.fit(X, y)
        seconds.append(time.process_time() - start)
        accuracy.append(model.score(new, truth))
    figures = spread("accuracy", accuracy)
    if seconds:
        figures["fit_cpu_seconds"] = float(np.mean(seconds))
    return figures


# --------------------------------------------------------------------------- search


def search(case):
    """Random potentials, given as features with the weights +1 that a fit learns."""
    rng = np.random.default_rng(0)
    graphs = []
    for _ in range(case["n"]):
        n = int(rng.integers(5, 26))
        sizes = rng.integers(2, 9, size=n)
        if case["shape"] == "chain":
            pairs = np.array(list(itertools.pairwise(range(n))))
        else:
            pairs = np.array([(int(rng.integers(i)), i) for i in range(1, n)])
        graphs.append(
            FactorGraph(
                [range(k) for k in sizes],
                candidate_features=[rng.normal(size=(k, 1)) for k in sizes],
                edges={"edge": pairs},
                edge_features={"edge": np.empty((len(pairs), 0))},
                pair_features={
                    "edge": [rng.normal(size=(sizes[u], sizes[v], 1)) for u, v in pairs]
                },
            )
        )
    model = SampleRankClassifier(random_state=0, epochs=1)
    model.fit(graphs, [[0] * g.n_variables for g in graphs])
    model.coef_[:] = 1.0
    best = model.joint_score(
        graphs, model.set_params(inference="exact").predict(graphs)
    )
    figures = {}
    for method in ("anneal", "icm"):
        model.set_params(inference=method)
        start = time.process_time()
        found = model.predict(graphs)
        seconds = time.process_time() - start
        score = model.joint_score(graphs, found)
        figures |= {
            f"{method}_optimal": float(np.mean(score >= best - 1e-9)),
            f"{method}_score_share": float(score.sum() / best.sum()),
            f"{method}_cpu_seconds": seconds,
        }
    return figures


# ---------------------------------------------------------------------------- speed


def speed(case):
    X, y = expressions(case["task"], "train", "pairwise")
    graphs = FactorGraphVectorizer().fit_transform(X)

    def fit(epochs):
        model = SampleRankClassifier(
            proposal=case["proposal"], epochs=epochs, random_state=0
        )
        return model.fit(graphs, y)

    times = fastest(short=lambda: fit(5), long=lambda: fit(35))
    short, long = times["short"], times["long"]
    more = long.result.n_proposals_ - short.result.n_proposals_
    model = long.result.set_params(inference="anneal")

    def predict(n_jobs):
        return model.set_params(n_jobs=n_jobs).predict(graphs[:200])

    threads = fastest(one=lambda: predict(1), two=lambda: predict(2))
    same = all(map(np.array_equal, threads["one"].result, threads["two"].result))
    return {
        "million_proposals_per_second": more / (long.cpu - short.cpu) / 1e6,
        "values_per_variable": sum(g.n_candidates for g in graphs)
        / sum(g.n_variables for g in graphs),
        "edges_per_variable": sum(g.n_edges for g in graphs)
        / sum(g.n_variables for g in graphs),
        "fit_10_epochs_cpu_seconds": short.cpu + 5 * (long.cpu - short.cpu) / 30,
        "predict_wall_one_thread": threads["one"].wall,
        "predict_wall_two_threads": threads["two"].wall,
        "two_threads_same_result": same,
    }


def reading(case):
    X, y = tag_instances(tagged("train"), "chain")
    dicts = [variable["features"] for x in X for variable in x["variables"]]
    lists = [[variable["features"] for variable in x["variables"]] for x in X]
    tags = sorted(set(itertools.chain.from_iterable(y)))
    model = SampleRankClassifier(learning_rate=0.1, epochs=5, random_state=0)
    graphs = FactorGraphVectorizer().fit_transform(X)
    times = fastest(
        repeats=3,
        lists=lambda: chains(*learn_columns(lists)[:2], tags),
        graphs=lambda: FactorGraphVectorizer().fit_transform(X),
        rows=lambda: DictVectorizer().fit_transform(dicts),
        learning=lambda: model.fit(graphs, y),
    )
    return {
        "n_words": len(dicts),
        "n_features": times["rows"].result.shape[1],
        "lists_cpu_seconds": times["lists"].cpu,
        "graphs_cpu_seconds": times["graphs"].cpu,
        "dict_vectorizer_cpu_seconds": times["rows"].cpu,
        "learning_cpu_seconds": times["learning"].cpu,
    }


PARTS = {
    "reading": reading,
    "grec": grec,
    "tagging": tagging,
    "pictures": pictures,
    "search": search,
    "speed": speed,
}

if __name__ == "__main__":
    main(cases, run, peers=("sklearn-crfsuite", "sacrebleu"))
