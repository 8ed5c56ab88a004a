"""Language models of words: word classes, refined contexts, mixtures, caches.

    SKLSTRUCT_DATA=... python benchmarks/bench_word_classes.py [--case models]

WikiText-2 with V = 33 278 classes; lines are sentences, empty lines are dropped; end
marks and the token of unknown words count like any word. One thread. `models`: one fit
from sentences (clusterings included), perplexities, scored tokens per second,
milliseconds of a full row, the model's pickle in megabytes, and the largest deviation
from 1 of the sums of rows at 100 random histories. `tune`: strengths, decays and paths
of refined trees, judged on the validation file. `caches`: perplexity with caches, whose
weights are fitted on the validation file in its order: another task. `clusters`:
seconds of exchange clustering. `depths`: Kneser-Ney mixed with a log-linear model of
the same contexts, by the depth that the history matches, and that mixture as a
back-off model over the union of contexts. `trees`: a log-linear model of words at each
node of a tree over the words, against the flat one. Mixtures learn their weights on the
validation file. `large`: the text of SKLSTRUCT_TEXT, one sentence per line, with the
names of qualities, "best" with windows of six words as in `models`, the others of
four; `large_threads`: in several threads, with the seconds of the clock.
`help`: the lines of Python's help, every tenth to test, with the names of qualities and
no validation text. With ``--peer kenlm`` also ``lmplz`` of KenLM, from `LMPLZ` or the
PATH.
"""

from __future__ import annotations

import os
import pickle
import random
import subprocess
import tempfile
import time
from pathlib import Path
from pydoc_data.topics import topics

import joblib
import numpy as np
import scipy.sparse as sp
from _common import fastest, lmplz_program, main, timed, wikitext
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import normalize

from sklstruct import KneserNeyLM, StructuredLogLinearLM
from sklstruct.backoff import mix
from sklstruct.language_model import CacheLM, LanguageModel, named_estimator
from sklstruct.loglinear import AutoSolver, JointLogLinear
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.symbols import number_sentences
from sklstruct.taxonomy import CutSplit
from sklstruct.word_classes import ContextRefiner, ExchangeClustering

DEPTH = 4
BEST_DEPTH = 6
N_WORDS = 33_278
DEEP = "c100(1) c100(2) c100(3) c100(4) c100(5) c100(6)"
# Paths of the joint models: from the newest word, and from older ones.
OLDER = (
    "c20(2) c100(2) w(2) c20(1) c100(1) w(1) c100(3) w(3)",
    "c100(3) w(3) c100(1) c100(2) w(1)",
    "c100(4) w(4) c100(1) c100(2)",
    "c100(5) w(5) c100(1)",
)
FINE = "c400(1) c400(2) c400(3) c400(4)"
CLASSES = "c50(1) c50(2) c50(3) c50(4) c50(5) c50(6)"


def l2(lam, alpha, **params):
    return StructuredLogLinearLM(penalty="l2", lam=lam, alpha=alpha, **params)


def refined(path, estimator):
    return make_pipeline(ContextRefiner(path), estimator)


def factored(*paths):
    """One or more refined trees in both factors; a gate mixes several."""
    trees = [(f"tree{i}", refined(p, l2(0.3, 0.87))) for i, p in enumerate(paths)]
    factor = trees[0][1] if len(trees) == 1 else MixtureLM(trees, weights="logistic")
    return FactoredLM(ExchangeClustering(100, offsets=(-1, 1)), factor)


def joint(paths, lam, alpha):
    """Several refined trees in one softmax."""
    steps = [(f"path{i}", ContextRefiner(path)) for i, path in enumerate(paths)]
    return JointLogLinear(steps, lam=lam, alpha=alpha, solver=AutoSolver(tol=0.03))


def factored_joint():
    """Joint models in both factors."""
    return FactoredLM(
        ExchangeClustering(100, offsets=(-1, 1)),
        joint(["long", DEEP, *OLDER, FINE], 3.0, 0.88),
        joint(["long", "short", *OLDER[:3]], 2.0, 0.85),
    )


def by_windows(name, depth):
    """A named model in which words of the sentence do not count."""
    model = named_estimator(name, n_words=N_WORDS, max_depth=depth)
    return model.set_params(factored__concentration=None)


def with_kneser_ney(model, weights="em"):
    return MixtureLM([("model", model), ("kn", KneserNeyLM())], weights=weights)


# name -> (estimator of windows, their width)
MODELS = {
    "modified Kneser-Ney": lambda: (KneserNeyLM(), DEPTH),
    "l2 on words": lambda: (l2(0.1, 0.7), DEPTH),
    "modified Kneser-Ney on the short path": lambda: (
        refined("short", KneserNeyLM()),
        DEPTH,
    ),
    "l2 on classes only": lambda: (refined(CLASSES, l2(0.3, 0.85)), 6),
    "l2 on the short path": lambda: (refined("short", l2(0.3, 0.85)), DEPTH),
    "l2 on the long path": lambda: (refined("long", l2(0.3, 0.88)), DEPTH),
    "factored on the long path": lambda: (factored("long"), DEPTH),
    "factored + Kneser-Ney": lambda: (with_kneser_ney(factored("long")), DEPTH),
    "joint trees in the factors + Kneser-Ney": lambda: (
        with_kneser_ney(factored_joint()),
        6,
    ),
    "three trees in the factors + Kneser-Ney": lambda: (
        with_kneser_ney(factored("long", "short", DEEP), "logistic"),
        6,
    ),
    '"better"': lambda: ("better", DEPTH),
    '"best"': lambda: ("best", BEST_DEPTH),
    '"better" by windows alone': lambda: (by_windows("better", DEPTH), DEPTH),
    '"best" by windows alone': lambda: (by_windows("best", BEST_DEPTH), BEST_DEPTH),
}
# Trees over the words for `trees`.
TREES = ("flat", "exchange 100", "exchange 20, 100", "cut")
# The best static rung, which has its own word classes.
BEST = '"best"'
CLASSES_OF_ITS_OWN = {"word_classes": 100}
# name -> (name of a model, parameters of the cache)
CACHES = {
    "modified Kneser-Ney + caches": ("modified Kneser-Ney", {}),
    "modified Kneser-Ney + caches with classes": (
        "modified Kneser-Ney",
        CLASSES_OF_ITS_OWN,
    ),
    "l2 on the long path + caches": ("l2 on the long path", {}),
    "l2 on the long path + caches with classes": (
        "l2 on the long path",
        CLASSES_OF_ITS_OWN,
    ),
    "best static + caches": (BEST, {}),
    "best static + caches with classes": (BEST, {"word_classes": "base"}),
    '"better" + caches with classes': ('"better"', {"word_classes": "base"}),
    '"better" + caches with classes, fixed base': (
        '"better"',
        {"word_classes": "base", "learning_rate": 0},
    ),
    '"better" + caches with classes, constant weights': (
        '"better"',
        {"word_classes": "base", "weights": "em"},
    ),
}
# Grid of `tune` on the validation file: lam, alpha, path.
TUNED = [
    *[
        (lam, alpha, "short")
        for lam in (0.2, 0.3, 0.45)
        for alpha in (0.82, 0.85, 0.88)
    ],
    *[(lam, alpha, "long") for lam in (0.2, 0.3, 0.45) for alpha in (0.85, 0.88, 0.91)],
]


def cases():
    out = [{"section": "models", "model": name} for name in MODELS]
    out += [
        {"section": "models", "model": "KenLM lmplz", "needs": "kenlm"},
    ]
    out += [{"section": "caches", "model": name, "slow": True} for name in CACHES]
    out += [
        {"section": "clusters", "n_clusters": k, "offsets": offsets}
        for k, offsets in ((50, "1, 2"), (100, "1, 2"), (200, "1, 2"), (100, "-1, 1"))
    ]
    out += [{"section": "depths", "slow": True}]
    out += [{"section": "trees", "tree": tree, "slow": True} for tree in TREES]
    for name in ("fast", "better"):
        out.append({"section": "help", "model": name})
    for name in ("fast", "better", "best"):
        out.append({"section": "large", "model": name, "slow": True})
    threads = {"section": "large_threads", "n_jobs": 2, "slow": True}
    out += [{**threads, "model": name} for name in ("better", "best")]
    names = ("lam", "alpha", "path")
    out += [{"section": "tune", **dict(zip(names, t)), "slow": True} for t in TUNED]
    return out


def fitted(name):
    """(LanguageModel of a name, seconds of its fit)."""
    estimator, depth = MODELS[name]()
    lm = LanguageModel(estimator, max_depth=depth)
    held_out = {}
    if isinstance(estimator, MixtureLM | str):
        held_out["X_val"] = wikitext("valid")
    return lm, timed(lm.fit, wikitext("train"), repeats=1, **held_out).cpu


def histories(n, seed=0):
    """The first words of random test sentences."""
    rng = np.random.default_rng(seed)
    test = wikitext("test")
    chosen = [test[i] for i in rng.integers(len(test), size=n)]
    return [s[: rng.integers(len(s) + 1)] for s in chosen]


def states_after(lm, contexts):
    states = []
    for words in contexts:
        state = lm.begin()
        for word in words:
            _, state = lm.advance(state, word)
        states.append(state)
    return np.stack(states)


def models(case):
    if case["model"] == "KenLM lmplz":
        return lmplz()
    lm, seconds = fitted(case["model"])
    test = wikitext("test")
    n_tokens = sum(map(len, test)) + len(test)
    states = states_after(lm, histories(100))
    deviation = np.abs(np.exp(lm.rows(states)).sum(axis=1) - 1).max()
    times = fastest(
        score=lambda: lm.score_samples(test),
        rows=lambda: np.exp(lm.rows(states)),
        repeats=3,
    )
    return {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(test),
        "fit_seconds": seconds,
        "tokens_per_second": n_tokens / times["score"].cpu,
        "row_milliseconds": 10 * times["rows"].cpu,
        "megabytes": len(pickle.dumps(lm)) / 1e6,
        "deviation": deviation,
    }


def sentences_of(split):
    """One string each; KenLM would not count its own name of unknown words."""
    return [" ".join(s).replace("<unk>", "<rare>") for s in wikitext(split)]


def lmplz():
    """Order 5, its own smoothing; judged by our reader of the file that it writes."""
    with tempfile.TemporaryDirectory() as folder:
        arpa = Path(folder, "wt2.arpa")
        start = time.perf_counter()
        subprocess.run(
            [lmplz_program(), "-o", "5", "-T", folder, "-S", "2G", "--arpa", arpa],
            input="\n".join([*sentences_of("train"), ""]),
            text=True,
            check=True,
            capture_output=True,
        )
        seconds = time.perf_counter() - start
        size = arpa.stat().st_size / 1e6
        lm = LanguageModel.load(arpa)
    return {
        "validation": lm.perplexity(sentences_of("valid")),
        "test": lm.perplexity(sentences_of("test")),
        "fit_seconds": seconds,
        "megabytes": size,
    }


def large(case):
    """The text file SKLSTRUCT_TEXT, lines shuffled: 20 000 to test, 20 000 to validate.

    Words seen once in training are the unknown word.
    """
    with open(os.environ["SKLSTRUCT_TEXT"], encoding="utf-8") as file:
        lines = [line for line in file if line.strip()]
    random.Random(0).shuffle(lines)
    test, valid, train = lines[:20_000], lines[20_000:40_000], lines[40_000:]
    name = case["model"]
    depth = BEST_DEPTH if name == "best" else DEPTH
    lm = LanguageModel(name, max_depth=depth, min_count=2)
    held_out = {} if name == "fast" else {"X_val": valid}
    with joblib.parallel_config(n_jobs=case.get("n_jobs", 1)):
        fit = timed(lm.fit, train, repeats=1, **held_out)
    return {
        "words": sum(line.count(" ") + 1 for line in train),
        "validation": lm.perplexity(valid),
        "test": lm.perplexity(test),
        "fit_seconds": fit.cpu,
        "wall_seconds": fit.wall,
    }


def help_lines(case):
    """Raw lines: many stand in several topics."""
    lines = [line for text in topics.values() for line in text.splitlines()]
    lines = [line for line in lines if line.strip()]
    train = [line for i, line in enumerate(lines) if i % 10]
    lm = LanguageModel(case["model"], max_depth=DEPTH)
    fit = timed(lm.fit, train, repeats=1)
    return {
        "words": sum(len(line.split()) for line in train),
        "test": lm.perplexity(lines[::10]),
        "fit_seconds": fit.cpu,
    }


def caches(case):
    rung, params = CACHES[case["model"]]
    lm, seconds = fitted(rung)
    if isinstance(params.get("word_classes"), int):
        clustering = ExchangeClustering(params["word_classes"], offsets=(-1, 1))
        clustering.fit(wikitext("train"))
        params = {**params, "word_classes": FrozenEstimator(clustering)}
    model = CacheLM(FrozenEstimator(lm), **params)
    fit = timed(model.fit, wikitext("valid"), repeats=1)
    test = wikitext("test")
    n_tokens = sum(map(len, test)) + len(test)
    score = fastest(score=lambda: model.score_stream(test), repeats=3)["score"]
    return {
        "validation": model.perplexity(wikitext("valid")),
        "test": model.perplexity(test),
        "static_test": lm.perplexity(test),
        "fit_seconds": seconds + fit.cpu,
        "tokens_per_second": n_tokens / score.cpu,
    }


def clusters(case):
    offsets = tuple(int(k) for k in case["offsets"].split(","))
    clustering = ExchangeClustering(case["n_clusters"], offsets=offsets)
    fit = timed(clustering.fit, wikitext("train"), repeats=1)
    return {
        "seconds": fit.cpu,
        "passes": clustering.n_iter_,
        "nats_per_neighbour": clustering.objective_
        / (len(offsets) * sum(map(len, wikitext("train")))),
    }


def depths(case):
    valid, test = wikitext("valid"), wikitext("test")
    figures, parts, models = {}, [], []
    for name, estimator in (
        ("kn", KneserNeyLM()),
        ("tree_l2", StructuredLogLinearLM(penalty="tree_l2", lam=0.9, alpha=1.2)),
    ):
        lm = LanguageModel(estimator, max_depth=DEPTH)
        figures[f"{name}_seconds"] = timed(lm.fit, wikitext("train"), repeats=1).cpu
        figures[f"{name}_test"] = lm.perplexity(test)
        parts.append((name, FrozenEstimator(lm.estimator_)))
        models.append(lm.backoff_model_)
    depth_of = parts[0][1].estimator
    for weights in ("em", "by_depth"):
        model = LanguageModel(MixtureLM(parts, weights=weights), max_depth=DEPTH)
        model.fit(wikitext("train"), X_val=valid)
        figures[f"{weights}_valid"] = model.perplexity(valid)
        figures[f"{weights}_test"] = model.perplexity(test)
        if weights == "em":
            figures.update(one_of_two(model, depth_of, valid, test))
            table = mix(models, model.estimator_.weights_)
            union = LanguageModel.from_backoff(table)
            figures["union_test"] = union.perplexity(test)
    return figures


def one_of_two(model, tree, valid, test):
    """Perplexity where the second model has the histories that match up to a depth,
    which the validation file chooses, and the first the others."""
    perplexity = {}
    for name, text in (("valid", valid), ("test", test)):
        windows, target = model.predictor.windows(number_sentences(text))
        of_each = model.estimator_.model_log_proba(windows, target)
        depth = tree.backoff_model_.depth(tree.locate(windows))
        perplexity[name] = [
            float(np.exp(-np.where(depth <= k, of_each[:, 1], of_each[:, 0]).mean()))
            for k in range(-1, DEPTH + 1)
        ]
    best = int(np.argmin(perplexity["valid"]))
    return {"one_of_two_up_to": best - 1, "one_of_two_test": perplexity["test"][best]}


def words_of(split):
    """(words, sparse counts of their neighbours, one row per word, scaled)."""
    sentences = [[*s, "</s>"] for s in wikitext(split)]
    words = sorted({w for s in sentences for w in s})
    code = {w: i for i, w in enumerate(words)}
    ids = np.array([code[w] for s in sentences for w in ["</s>", *s]])
    n = len(words)
    after = sp.csr_matrix((np.ones(ids.size - 1), (ids[:-1], ids[1:])), shape=(n, n))
    common = np.argsort(-np.bincount(ids, minlength=n))[:2000]
    counts = sp.hstack([after[:, common], after.T.tocsr()[:, common]]).tocsr()
    counts.data = np.sqrt(counts.data)
    return np.array(words, dtype=object), normalize(counts)


def tree_over_words(name):
    if name == "exchange 100":
        return ExchangeClustering(100, offsets=(-1, 1))
    if name == "exchange 20, 100":
        return [ExchangeClustering(k, offsets=(-1, 1)) for k in (20, 100)]
    words, counts = words_of("train")
    tree = CutSplit(form="class_means", max_leaf=400, rank=64)
    return tree.build(counts, words).limit(max_children=256)


def trees(case):
    estimator = l2(0.1, 0.7)
    begin = time.process_time()
    if case["tree"] != "flat":
        estimator = FactoredLM(tree_over_words(case["tree"]), estimator)
    lm = LanguageModel(estimator, max_depth=DEPTH).fit(wikitext("train"))
    seconds = time.process_time() - begin
    nodes = {}
    if case["tree"] != "flat":
        taxonomy = lm.estimator_.taxonomy_
        nodes = {"leaves": taxonomy.n_leaves, "depth": taxonomy.depth}
    return {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(wikitext("test")),
        "seconds": seconds,
        **nodes,
    }


def tune(case):
    model = refined(case["path"], l2(case["lam"], case["alpha"]))
    lm = LanguageModel(model, max_depth=DEPTH).fit(wikitext("train"))
    return {
        "validation": lm.perplexity(wikitext("valid")),
        "test": lm.perplexity(wikitext("test")),
    }


def run(case):
    sections = {
        "models": models,
        "caches": caches,
        "large": large,
        "large_threads": large,
        "help": help_lines,
        "clusters": clusters,
        "depths": depths,
        "trees": trees,
        "tune": tune,
    }
    return sections[case["section"]](case)


if __name__ == "__main__":
    main(cases, run, peers=("kenlm",))
