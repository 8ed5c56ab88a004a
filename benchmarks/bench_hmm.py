"""High-order HMMs: tagging English, and text behind the keys of a telephone.

    SKLSTRUCT_DATA=... python benchmarks/bench_hmm.py [--peer nltk --peer hmmlearn ...]

`tagging`: XPOS of UD English EWT, trained on train, measured on test, orders 2 to 9;
refinement on the share of the sentences (`refined`) that have few candidates.
`peers`: taggers on EWT, on a random split of all its parts (`runs`) and on tree banks
of Universal Dependencies in folders of SKLSTRUCT_DATA, with files as UD names them:
UD English GUM (XPOS; *-ud-train.conllu holds the documents that are in neither dev nor
test and not from Reddit), and UPOS of UD Turkish IMST, Hungarian Szeged and Greek GDT.
The default guess of unknown words was chosen on the development parts of EWT and
Turkish IMST; GUM, Hungarian and Greek had no part in any choice. Ours at order 4 with
unknown words by a classifier, and with the emissions of `features`; with those features
too, `ConditionalRandomField` (c2 = 1) and sklearn-crfsuite (averaged perceptron, and
the likelihood with c2 = 1, each to its default end); NLTK's TnT; hmmlearn's
CategoricalHMM with smoothed relative frequencies. Fit and decoding begin with the
words.
`learning`: 1 to 100 % of the sentences labelled, the rest left out (weight 0) or learnt
from by so many iterations of expectation-maximisation; "default": the weight and the
iterations of the class, which were chosen on the development part.
`features`: a logistic regression over affixes, shapes and neighbours of words: alone,
as emissions of `HighOrderHMM` (a: weight, b: prior_weight), and the same features in
sklearn-crfsuite. Settings are chosen on the development part.
`keypad`: sentences of WikiText-2 (without the unknown word) typed on a keypad with k =
64, cut to the first `length` words; the design of figure 2 and tables 1 to 4 of Carter,
Dymetman and Bouchard (2012) on another text. Milliseconds of CPU time per sentence.
`dense` is a plain bigram Viterbi over all pairs of candidates. With --same-process all
lengths share a language model.
`emissions`: data drawn from a chain of order 3 with three labels, without labels:
expectation-maximisation at order 2 beside hmmlearn from the same start, milliseconds
per step, the largest difference of a parameter after ten steps; log-likelihood of new
data in nats per observation at orders 2 and 3.
`cut`: keypad sentences whose lattice may have `max_states` states: milliseconds, how
many paths are certified to be the best, the mean gap of all, and how much better the
best path is. The refined bound of as many states stands beside it.
"""

from __future__ import annotations

import functools
import itertools
import warnings
from collections import Counter, defaultdict
from unittest import mock

import numpy as np
from _common import data_folder, ewt, fastest, main, options, timed, wikitext
from sklearn.exceptions import ConvergenceWarning
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import SGDClassifier
from sklearn.pipeline import make_pipeline

from sklstruct import AdditiveLM, KneserNeyLM, LanguageModel
from sklstruct.datasets import read_conll
from sklstruct.factor_graph import ConditionalRandomField
from sklstruct.hmm import (
    CategoricalEmission,
    ClassifierEmission,
    GaussianEmission,
    HighOrderHMM,
    KeypadChannel,
    PoissonEmission,
    SuffixEmission,
    _em,
)
from sklstruct.hmm._automaton import ContextAutomaton
from sklstruct.hmm._candidates import make_candidates
from sklstruct.hmm._lattice import LatticeSolver
from sklstruct.hmm._refinement import RefinementSolver

N_SENTENCES = 30
# Largest numbers of candidates at which refinement is measured beside the lattice: of a
# position on average and of a sentence.
MOST_CANDIDATES, MOST_IN_ALL = 20, 500


def cases():
    out = [{"section": "tagging", "order": n} for n in range(2, 10)]
    out += [
        {"section": "peers", "split": split, "peer": peer}
        | ({} if peer.startswith("sklstruct") else {"needs": peer.split(",")[0]})
        for split in ("EWT", "runs", *TREE_BANKS)
        for peer in TAGGERS
        # The time of the likelihood grows with the square of the tags: 50 in English.
        if peer not in LIKELIHOODS or split not in ("EWT", "runs", "GUM")
    ]
    out += [
        {"section": "learning", "labelled": share, "weight": w, "iterations": n}
        for share in (1, 3, 10, 30, 100)
        for w, n in (
            (0, 0),
            (0.02, "default"),
            (0.02, 1),
            (0.02, 5),
            (0.02, 20),
            (1, 2),
        )
        if share < 100 or not w
    ]
    out += [
        {"section": "features", "model": m, "slow": True}
        for m in ("hybrid", "crfsuite lbfgs", "crfsuite ap")
    ]
    out += [
        {"section": "keypad", "order": n, "length": length, "candidates": k}
        | ({"slow": True} if length not in (5, 10) else {})
        for k in (17, 91, 0)
        for n in (3, 4, 5)
        for length in (range(1, 11) if k == 91 else (5, 10))
    ]
    # The longest sentences of so many candidates.
    out += [
        {"section": "keypad", "order": n, "length": length, "candidates": k}
        for n in (3, 4, 5)
        for length, k in ((25, 20), (50, 10), (100, 5))
    ]
    out += [
        {"section": "cut", "candidates": k, "max_states": n}
        for k in (91, 0)
        for n in ((200, 1000, 2000) if k else (5000, 10_000, 30_000))
    ]
    out += [
        {"section": "emissions", "emission": kind, "needs": "hmmlearn"}
        for kind in ("categorical", "poisson", "diagonal", "full")
    ]
    out += [
        {"section": "example", "part": p, "row": row}
        for p in ("bound", "samples")
        for row in range(5)
    ]
    out += [
        {"section": "sampling", "solver": "lattice", "batch": 1},
        *(
            {"section": "sampling", "solver": s, "batch": b, "slow": s == "literal"}
            for s in ("row", "literal")
            for b in (1, 10, 100)
        ),
    ]
    return out


def tagged(split):
    """(words, tags) of the sentences of UD English EWT."""
    bank = ewt(split)
    return bank.form, bank.xpos


# Other tree banks of Universal Dependencies: the folder, and the column of the tags.
TREE_BANKS = {
    "GUM": ("ud-english-gum", "xpos"),
    "Turkish": ("ud-turkish-imst", "upos"),
    "Hungarian": ("ud-hungarian-szeged", "upos"),
    "Greek": ("ud-greek-gdt", "upos"),
}


@functools.cache
def tree_bank(name, split):
    """(words, tags) of the sentences of one of TREE_BANKS."""
    folder, column = TREE_BANKS[name]
    (path,) = data_folder(folder).glob(f"*-ud-{split}.conllu")
    bank = read_conll(path)
    return bank.form, bank[column]


def tagging(case):
    X, y = tagged("train")
    test, true = tagged("test")
    fit = timed(HighOrderHMM(case["order"]).fit, X, y, repeats=3)
    tagger = fit.result
    tagger.decode(test[:1])  # makes the automaton
    decode = timed(tagger.decode, test)
    dev, accuracy = tagger.score(*tagged("dev")), tagger.score(test, true)
    few = [i for i, c in enumerate(candidates(tagger, test)) if is_small(c)]
    solver = RefinementSolver(tagger._automaton)
    refine = timed(
        lambda: [*map(solver.decode, candidates(tagger, [test[i] for i in few]))],
        repeats=1,
    )
    refined = np.array([d.log_proba for d in refine.result])
    same = np.abs(refined - decode.result.log_proba[few]).max()
    return {
        "dev": dev,
        "accuracy": accuracy,
        "fit_seconds": fit.cpu,
        "milliseconds": decode.cpu / len(test) * 1e3,
        "states": float(decode.result.n_states.mean()),
        "refined": len(few) / len(test),
        "refine_milliseconds": refine.cpu / len(few) * 1e3,
        "iterations": float(np.mean([d.n_iterations for d in refine.result])),
        "difference": float(same),
    }


def candidates(tagger, X):
    """The part of each sentence that the solvers read."""
    return tagger._sentences(X)[1]


def is_small(c):
    """Whether a sentence has few enough candidates for refinement."""
    n = int(c.ptr[c.length])
    return n <= MOST_IN_ALL and n <= MOST_CANDIDATES * max(c.length, 1)


def peers(case):
    part = tagged
    if case["split"] in TREE_BANKS:
        part = functools.partial(tree_bank, case["split"])
    (X, y), (test, true) = part("train"), part("test")
    if case["split"] == "runs":
        # All parts together; a tenth of the runs of twenty sentences is held back.
        X, y = ([*a, *b, *c] for a, b, c in zip((X, y), tagged("dev"), (test, true)))
        runs = np.arange(len(X)) // 20
        held = np.random.RandomState(0).rand(runs[-1] + 1)[runs] < 0.1
        test, true = ([a for a, h in zip(part, held) if h] for part in (X, y))
        X, y = ([a for a, h in zip(part, held) if not h] for part in (X, y))
    fit = timed(TAGGERS[case["peer"]], X, y, repeats=1)
    found = timed(fit.result, test, repeats=1)
    known = {word for x in X for word in x}
    new = [
        a == b
        for x, f, t in zip(test, found.result, true)
        for w, a, b in zip(x, f, t)
        if w not in known
    ]
    return {
        "accuracy": share(found.result, true),
        "unknown": float(np.mean(new)),
        "fit_seconds": fit.cpu,
        "milliseconds": found.cpu / len(test) * 1e3,
    }


def ours(X, y):
    return HighOrderHMM(4).fit(X, y).predict


def ours_with_features(X, y):
    """The setting that `features` chooses on the development part."""
    tags_of = ambiguity(X, y)
    emission = ClassifierEmission(
        feature_classifier(sum(map(len, X))), weight=3.0, prior_weight=0.6,
        min_proba=1e-3,
    )  # fmt: skip
    rows = [word_features(x, tags_of) for x in X]
    tagger = HighOrderHMM(4, emission=emission).fit(rows, y)
    return lambda test: tagger.predict([word_features(x, tags_of) for x in test])


def names_of_features(X, y):
    """The function that turns sentences into a list of names per word."""
    tags_of = ambiguity(X, y)
    return lambda part: [[r.split() for r in word_features(x, tags_of)] for x in part]


def field(X, y):
    """The penalty of the rows of `features`, and the default end of the descent."""
    rows = names_of_features(X, y)
    model = ConditionalRandomField(c1=0.0, c2=1.0, min_count=2).fit(rows(X), y)
    return lambda test: model.predict(rows(test))


def sklearn_crfsuite(setting, X, y):
    """The setting that `features` chooses on the development part."""
    from sklearn_crfsuite import CRF

    rows = names_of_features(X, y)
    crf = CRF(min_freq=2, **setting).fit(rows(X), y)
    return lambda test: crf.predict(rows(test))


def nltk(X, y):
    """Its own endings for unknown words; C and N are the best on the development
    part (C=False, N=1000 and 100000 tried too)."""
    from nltk.tag import tnt

    tagger = tnt.TnT(C=True, N=1000)
    tagger.train([list(zip(a, b)) for a, b in zip(X, y)])
    return lambda test: [[t for _, t in tagger.tag(x)] for x in test]


def hmmlearn(X, y):
    from hmmlearn.hmm import CategoricalHMM

    code = {w: i + 1 for i, w in enumerate(dict.fromkeys(w for x in X for w in x))}
    tags = sorted({t for row in y for t in row})
    table = np.full((len(tags), len(code) + 1), 1e-6)
    step, first = np.ones((len(tags), len(tags))), np.ones(len(tags))
    for x, row in zip(X, y):
        ids = [tags.index(t) for t in row]
        first[ids[0]] += 1
        np.add.at(table, (ids, [code[w] for w in x]), 1)
        np.add.at(step, (ids[:-1], ids[1:]), 1)
    table[:, 0] = 1.0
    tagger = CategoricalHMM(n_components=len(tags), n_features=table.shape[1])
    tagger.startprob_ = first / first.sum()
    tagger.transmat_ = step / step.sum(axis=1, keepdims=True)
    tagger.emissionprob_ = table / table.sum(axis=1, keepdims=True)

    def predict(test):
        ids = [np.array([[code.get(w, 0)] for w in x]) for x in test]
        return [[tags[i] for i in tagger.predict(x)] for x in ids]

    return predict


TAGGERS = {
    "sklstruct, logistic": ours,
    "sklstruct, hybrid": ours_with_features,
    "sklstruct, field": field,
    "sklearn-crfsuite": functools.partial(
        sklearn_crfsuite, {"algorithm": "ap", "max_iterations": 10}
    ),
    "sklearn-crfsuite, likelihood": functools.partial(
        sklearn_crfsuite, {"algorithm": "lbfgs", "c1": 0.0, "c2": 1.0}
    ),
    "nltk": nltk,
    "hmmlearn": hmmlearn,
}
LIKELIHOODS = ("sklstruct, field", "sklearn-crfsuite, likelihood")


def learning(case):
    """A share of the sentences labelled, the rest not: left out (weight 0) or used."""
    X, y = tagged("train")
    labelled = np.zeros(len(X), dtype=bool)
    order = np.random.RandomState(0).permutation(len(X))
    labelled[order[: len(X) * case["labelled"] // 100]] = True
    some = [row if a else [None] * len(row) for row, a in zip(y, labelled)]
    tagger = HighOrderHMM(2, emission=SuffixEmission(min_proba=0.01))
    weight, tolerance = None, _em.TOLERANCE
    if case["weight"]:
        tagger.set_params(classes=sorted({t for row in y for t in row}))
        if case["iterations"] != "default":
            tagger.set_params(max_iter=case["iterations"])
            # The class multiplies the weight of a sequence without labels.
            weight = np.where(labelled, 1.0, case["weight"] / _em.UNLABELLED_WEIGHT)
            tolerance = 0.0  # all iterations
    else:
        X, some = ([a for a, k in zip(part, labelled) if k] for part in (X, some))
    with warnings.catch_warnings(), mock.patch.object(_em, "TOLERANCE", tolerance):
        warnings.simplefilter("ignore", ConvergenceWarning)
        fit = timed(tagger.fit, X, some, weight, repeats=1)
    return {
        "dev": tagger.score(*tagged("dev")),
        "accuracy": tagger.score(*tagged("test")),
        "fit_seconds": fit.cpu,
        "gain": float(np.ptp(tagger.objective_)) if tagger.n_iter_ else 0.0,
    }


def shape(word):
    out = ""
    for c in word:
        kind = "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c
        if not out.endswith(kind):
            out += kind
    return out


def ambiguity(X, y):
    """word -> the tags that a frequent word was seen with, joined."""
    counts = defaultdict(Counter)
    for words, tags in zip(X, y):
        for word, tag in zip(words, tags):
            counts[word.lower()][tag] += 1
    return {
        word: "/".join(sorted(t for t, n in c.items() if n >= 0.05 * c.total()))
        for word, c in counts.items()
        if c.total() >= 5
    }


def word_features(words, tags_of):
    """One string of features per word: itself, affixes, shape, neighbours."""
    low = ["<s>", "<s>", *(w.lower() for w in words), "</s>", "</s>"]
    shapes = ["", "", *map(shape, words), "", ""]
    tags = [tags_of.get(w, f"?{w[-3:]}") for w in low]
    shouted = all(w.isupper() or not w.isalpha() for w in words)
    rows = []
    for i, word in enumerate(words, 2):
        row = [
            f"word={word}", f"low={low[i]}", f"shape={shapes[i]}|{i == 2}",
            f"shape={shapes[i]}", f"first={i == 2}|{shouted}", f"tags={tags[i]}",
            f"words-={low[i - 1]}|{low[i]}", f"words+={low[i]}|{low[i + 1]}",
            f"tags-={tags[i - 1]}|{tags[i]}", f"tags+={tags[i]}|{tags[i + 1]}",
            f"tags-+={tags[i - 1]}|{tags[i + 1]}",
            f"middle={tags[i - 1]}|{low[i]}|{tags[i + 1]}",
            f"tags--={tags[i - 2]}|{tags[i - 1]}",
            f"tags++={tags[i + 1]}|{tags[i + 2]}",
        ]  # fmt: skip
        row += [f"suffix{k}={low[i][-k:]}" for k in range(1, 6)]
        row += [f"prefix{k}={low[i][:k]}" for k in range(1, 5)]
        for k in (-2, -1, 1, 2):
            row += [f"low{k}={low[i + k]}", f"tags{k}={tags[i + k]}"]
        for k in (-1, 1):
            row += [f"ending{k}={low[i + k][-3:]}", f"shape{k}={shapes[i + k]}"]
        rows.append(" ".join(row))
    return rows


def share(found, true):
    right = sum(a == b for f, t in zip(found, true) for a, b in zip(f, t))
    return right / sum(map(len, true))


def features(case):
    """Every setting is chosen on the development part; the test part is read once."""
    X, y = tagged("train")
    tags_of = ambiguity(X, y)
    X = [word_features(x, tags_of) for x in X]
    parts = {
        split: ([word_features(x, tags_of) for x in tagged(split)[0]], tagged(split)[1])
        for split in ("dev", "test")
    }
    if case["model"] == "hybrid":
        return hybrid(X, y, parts)
    if "sklearn-crfsuite" not in options.peers:
        return {"accuracy": "not run"}
    return crfsuite(X, y, parts, case["model"].split()[1])


def feature_classifier(n_words):
    return make_pipeline(
        CountVectorizer(analyzer=str.split, min_df=2, binary=True, dtype=np.float32),
        SGDClassifier(
            loss="log_loss", alpha=2 / n_words, max_iter=5, tol=None, random_state=0
        ),
    )


def hybrid(X, y, parts):
    flat, labels = [o for x in X for o in x], [t for row in y for t in row]
    names, labels = np.unique(labels, return_inverse=True)
    classifier = feature_classifier(len(labels))
    fit = timed(classifier.fit, flat, labels, repeats=1)
    best = {"dev": 0.0}
    for order in (2, 3, 4):
        # The emissions are learnt once for all orders.
        emission = ClassifierEmission(FrozenEstimator(classifier), min_proba=1e-3)
        tagger = HighOrderHMM(order, emission=emission).fit(X, y)
        for weight, prior in itertools.product((2.0, 3.0, 4.0), (0.3, 0.6)):
            tagger.emission_.set_params(weight=weight, prior_weight=prior)
            dev = tagger.score(*parts["dev"])
            if dev > best["dev"]:
                best = {"dev": dev, "order": order, "a": weight, "b": prior}
    emission = ClassifierEmission(
        FrozenEstimator(classifier), weight=best["a"], prior_weight=best["b"],
        min_proba=1e-3,
    )  # fmt: skip
    tagger = HighOrderHMM(best["order"], emission=emission).fit(X, y)
    test, true = parts["test"]
    decode = timed(tagger.predict, test, repeats=1)
    alone = names[classifier.predict([o for x in test for o in x])]
    return {
        "dev": best["dev"],
        "accuracy": share(decode.result, true),
        "alone": float(np.mean(alone == [t for row in true for t in row])),
        "setting": f"order {best['order']}, a = {best['a']:g}, b = {best['b']:g}",
        "fit_seconds": fit.cpu,
        "milliseconds": decode.cpu / len(test) * 1e3,
    }


def crfsuite(X, y, parts, algorithm):
    from sklearn_crfsuite import CRF

    X = [[o.split() for o in x] for x in X]
    dev, test = ([[o.split() for o in x] for x in parts[s][0]] for s in parts)
    settings = [{"max_iterations": n} for n in (5, 10)]
    if algorithm == "lbfgs":
        settings = [{"c1": 0.0, "c2": 1.0, "max_iterations": 50}]
    best = {"dev": 0.0}
    for setting in settings:
        crf = CRF(algorithm=algorithm, min_freq=2, **setting)
        fit = timed(crf.fit, X, y, repeats=1)
        score = share(crf.predict(dev), parts["dev"][1])
        if score > best["dev"]:
            text = ", ".join(f"{k} = {v:g}" for k, v in setting.items())
            best = {"dev": score, "crf": crf, "setting": text, "fit": fit.cpu}
    decode = timed(best["crf"].predict, test, repeats=1)
    return {
        "dev": best["dev"],
        "accuracy": share(decode.result, parts["test"][1]),
        "setting": best["setting"],
        "fit_seconds": best["fit"],
        "milliseconds": decode.cpu / len(test) * 1e3,
    }


def clean(split):
    return [[w for w in x if w != "<unk>"] for x in wikitext(split)]


@functools.cache
def keypad_model(order):
    model = LanguageModel(KneserNeyLM(discount="single"), max_depth=order - 1)
    model = model.fit(clean("train")).backoff_model_
    return model, ContextAutomaton(model)


def keypad_sentences(order, length, n_candidates):
    model, automaton = keypad_model(order)
    words = model.labels.classes.tolist()
    channel = KeypadChannel()
    bound = channel.bind(["" if w in ("</s>", "<unk>") else w for w in words])
    rng = np.random.RandomState(0)
    sentences = []
    for x in [x for x in clean("test") if len(x) >= length][:N_SENTENCES]:
        positions = []
        for word in x[:length]:
            ids, factor = bound.candidates(channel.corrupt(word, rng))
            if n_candidates and len(ids) > n_candidates:
                keep = np.sort(np.argsort(-factor, kind="stable")[:n_candidates])
                ids, factor = ids[keep], factor[keep]
            positions.append((ids, factor))
        sentences.append(make_candidates(positions, automaton.end_class))
    return model, automaton, sentences


def dense_viterbi(tables):
    """Best score over all pairs of candidates; the steps are given."""
    score = np.zeros(1)
    for step in tables:
        score = (score[:, None] + step).max(axis=0)
    return score.max()


def bigram_steps(model, automaton, c):
    """The log-weights of all pairs of neighbouring candidates."""
    nodes, steps = np.array([automaton.start_node], dtype=np.int32), []
    for i in range(c.n_positions):
        at = slice(int(c.ptr[i]), int(c.ptr[i + 1]))
        rows = model.rows(nodes)[:, c.ids[at]]
        steps.append(rows + c.log_factor[at])
        nodes = automaton.arc_next[c.ids[at]]
    return steps


def keypad(case):
    model, automaton, sentences = keypad_sentences(
        case["order"], case["length"], case["candidates"]
    )
    if not case["candidates"]:
        sentences = sentences[:8]
    lattice, refinement = LatticeSolver(automaton), RefinementSolver(automaton)
    per = 1e3 / len(sentences)
    lattice.decode(sentences[0])
    calls = {"lattice": lambda: [*map(lattice.decode, sentences)]}
    if 0 < case["candidates"] <= MOST_CANDIDATES:
        calls["refine"] = lambda: [*map(refinement.decode, sentences)]
    times = fastest(**calls)  # in turns
    found = times["lattice"]
    sums = timed(lambda: [lattice.sums(c).log_z() for c in sentences], repeats=2)
    all_states = [int(lattice.best_lattice(c, False).ptr[-1]) for c in sentences]
    out = {
        "mean_candidates": float(np.mean([np.diff(c.ptr).mean() for c in sentences])),
        "milliseconds": found.cpu * per,
        "states": float(np.mean(all_states)),
        "kept": float(np.mean([d.n_states for d in found.result])),
        "log_z_milliseconds": sums.cpu * per,
    }
    # The bigram model's own contexts are the first level of this one.
    few = sentences[:3]
    dense = 0.0
    for c in few if case["length"] in (5, 10) else ():
        steps = bigram_steps(model, automaton, c)
        dense += timed(dense_viterbi, steps, repeats=3).cpu
    if dense:
        out["dense_milliseconds"] = dense / len(few) * 1e3
    solvers = {"refine": (refinement, sentences)}
    if case["candidates"] and case["length"] <= 10:
        literal = RefinementSolver(automaton, refine="literal")
        solvers["literal"] = literal, sentences[:10]
    for name, (solver, some) in solvers.items():
        refined = times.get(name) or timed(
            lambda s=solver, cs=some: [*map(s.decode, cs)], repeats=1
        )
        out[f"{name}_milliseconds"] = refined.cpu / len(some) * 1e3
        out[f"{name}_iterations"] = float(
            np.mean([d.n_iterations for d in refined.result])
        )
        out[f"{name}_states"] = float(np.mean([d.n_states for d in refined.result]))
        out[f"{name}_difference"] = float(
            max(
                abs(a.log_proba - b.log_proba)
                for a, b in zip(found.result, refined.result)
            )
        )
    if "refine" in times:
        out["refine_ratio"] = times["refine"].cpu / found.cpu
    return out


def cut(case):
    _, automaton, sentences = keypad_sentences(5, 10, case["candidates"])
    if not case["candidates"]:
        sentences = sentences[:8]
    whole = LatticeSolver(automaton)
    best = np.array([whole.decode(c).log_proba for c in sentences])
    small = LatticeSolver(automaton, case["max_states"])
    refinement = RefinementSolver(automaton, max_states=case["max_states"])
    out = {
        "states": float(np.mean([whole.decode(c, False).n_states for c in sentences]))
    }
    for name, solve in (("", small.decode_within), ("refine_", refinement.decode)):
        if name and not case["candidates"]:
            continue
        found = timed(lambda s=solve: [*map(s, sentences)], repeats=1)
        gap = np.array([d.gap for d in found.result])
        score = np.array([d.log_proba for d in found.result])
        assert (score + gap >= best - 1e-6).all()
        out |= {
            f"{name}milliseconds": found.cpu / len(sentences) * 1e3,
            f"{name}certified": float((gap <= 1e-9).mean()),
            f"{name}gap": float(gap.mean()),
            f"{name}missing": float((best - score).mean()),
        }
    return out


@functools.cache
def example_run():
    """(words, literal trace, draws) of one sentence of ten words."""
    model, automaton, sentences = keypad_sentences(5, 10, 91)
    c, trace = sentences[0], []
    found = RefinementSolver(automaton, refine="literal").decode(c, trace)
    lattice = LatticeSolver(automaton)
    assert abs(found.log_proba - lattice.decode(c).log_proba) < 1e-9
    drawn = lattice.sums(c).sample(1000, np.random.RandomState(0))[:, : c.length]
    return model.labels.classes, trace, Counter(map(tuple, drawn.tolist()))


# The probabilities of the labels 0, 1, 2 after each pair of labels.
THIRD_ORDER = np.random.default_rng(0).dirichlet(np.full(3, 0.3), size=(3, 3))
N_STEPS = 10


def drawn_sequences(kind, seed):
    """Sequences of observations of 1 000 labels, as lists and as one array."""
    rng = np.random.default_rng(seed)
    X = []
    for _ in range(10):
        y = [0, 1]
        while len(y) < 1000:
            y.append(rng.choice(3, p=THIRD_ORDER[y[-2], y[-1]]))
        y = np.array(y)
        if kind == "categorical":
            X.append(np.where(rng.random(1000) < 0.7, y, rng.integers(0, 6, 1000)))
        elif kind == "poisson":
            X.append(rng.poisson(np.array([[1, 9], [5, 5], [9, 1]])[y]))
        else:
            X.append(rng.normal(size=(1000, 3)) + 2.0 * y[:, None])
    flat = np.concatenate(X)
    if kind == "categorical":
        return [x.tolist() for x in X], flat[:, None]
    return X, flat


def emissions(case):
    from hmmlearn import hmm

    kind = case["emission"]
    X, flat = drawn_sequences(kind, 0)
    new, _ = drawn_sequences(kind, 1)
    emission = {
        "categorical": CategoricalEmission(),
        "poisson": PoissonEmission(prior=0),
        "diagonal": GaussianEmission("diagonal"),
        "full": GaussianEmission("full"),
    }[kind]

    def fit(order, n):
        return HighOrderHMM(
            order, smoothing=AdditiveLM(delta=1e-300), emission=emission, classes=3,
            end=False, max_iter=n, random_state=0,
        ).fit(X)  # fmt: skip

    with warnings.catch_warnings(), mock.patch("sklstruct.hmm._em.TOLERANCE", -1.0):
        warnings.simplefilter("ignore", ConvergenceWarning)
        first = timed(fit, 2, 1, repeats=1)
        ours = timed(fit, 2, 1 + N_STEPS, repeats=1)
        third = fit(3, 1 + 5 * N_STEPS)
    options = {"n_iter": N_STEPS, "tol": -np.inf, "init_params": ""}
    e, start = ours.result.emission_, first.result.emission_
    if kind == "categorical":
        peer = hmm.CategoricalHMM(3, **options)
        peer.n_features, peer.emissionprob_ = 6, start.probabilities(range(6)).T
        mine, theirs = lambda: e.probabilities(range(6)).T, "emissionprob_"
    elif kind == "poisson":
        peer = hmm.PoissonHMM(3, **options)
        peer.lambdas_, mine, theirs = start.rates_, lambda: e.rates_, "lambdas_"
    else:
        full = kind == "full"
        prior = 0.01 * np.eye(3) if full else 0.01
        peer = hmm.GaussianHMM(
            3, "full" if full else "diag", min_covar=0, covars_prior=prior, **options
        )
        peer.means_, peer.covars_ = start.means_, start.covariances_
        mine, theirs = lambda: e.means_, "means_"
    model = first.result.transition_model_
    begin = model.begin(1)
    after = model.follow(np.repeat(begin, 3), model.labels.symbol_of_class)
    peer.startprob_ = np.exp(model.rows(begin))[0]
    peer.transmat_ = np.exp(model.rows(after))
    fitted = timed(peer.fit, flat, [len(x) for x in X], repeats=1)
    return {
        "milliseconds": (ours.cpu - first.cpu) / N_STEPS * 1e3,
        "peer_milliseconds": fitted.cpu / N_STEPS * 1e3,
        "difference": float(np.abs(mine() - getattr(peer, theirs)).max()),
        "order_2": ours.result.score(new),
        "order_3": third.score(new),
    }


def example(case):
    """Best paths of the bound from the first iteration to the last; top samples."""
    words, trace, drawn = example_run()
    if case["part"] == "samples":
        path, count = drawn.most_common(5)[case["row"]]
        return {
            "text": " ".join(words[list(path)]),
            "samples": count,
            "different": len(drawn),
        }
    at = case["row"] * (len(trace) - 1) // 4
    log_q, log_p, n_states, path = trace[at]
    return {
        "iteration": at,
        "text": " ".join(words[path]),
        "log_q": log_q,
        "log_p": log_p,
        "states": n_states,
    }


def sampling(case):
    _, automaton, sentences = keypad_sentences(5, 10, 91)
    if case["solver"] == "lattice":
        lattice = LatticeSolver(automaton)
        lattice.sums(sentences[0])
        drawn = timed(
            lambda: [
                lattice.sums(c).sample(1000, np.random.RandomState(0))
                for c in sentences
            ],
            repeats=2,
        )
        return {"milliseconds": drawn.cpu / len(sentences) * 1e3, "samples": 1000}
    few = sentences[:2]
    solver = RefinementSolver(
        automaton, refine=case["solver"], batch_size=case["batch"]
    )
    drawn = timed(
        lambda: [
            solver.sample(c, 100, np.random.RandomState(0), acceptance=0.2) for c in few
        ],
        repeats=1,
    )
    return {
        "milliseconds": drawn.cpu / len(few) * 1e3,
        "samples": 100,
        "trials": float(np.mean([d.accepted.size for d in drawn.result])),
        "bound_states": float(np.mean([d.n_states for d in drawn.result])),
    }


def run(case):
    return globals()[case["section"]](case)


if __name__ == "__main__":
    main(
        cases,
        run,
        peers=("nltk", "hmmlearn", "sklearn-crfsuite"),
    )
