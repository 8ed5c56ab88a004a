"""High-order HMMs: tagging English, and text behind the keys of a telephone.

    SKLSTRUCT_DATA=... python benchmarks/bench_hmm.py [--peer nltk --peer hmmlearn ...]

`tagging`: XPOS of UD English EWT, trained on train, measured on test, orders 2 to 9.
`peers`: NLTK's TnT; hmmlearn's CategoricalHMM with smoothed relative frequencies.
`features`: a logistic regression over affixes, shapes and neighbours of words: alone,
as emissions of `HighOrderHMM`, and the same features in sklearn-crfsuite.
`keypad`: sentences of WikiText-2 (without the unknown word) typed on a keypad with k =
64, cut to the first `length` words; the design of figure 2 and tables 1 to 4 of Carter,
Dymetman and Bouchard (2012) on another text. Milliseconds of CPU time a sentence.
`dense` is a plain bigram Viterbi over all pairs of candidates.
"""

from __future__ import annotations

import functools
import gzip
import warnings

import numpy as np
from _common import data_folder, main, options, timed, wikitext

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.hmm import ClassifierEmission, HighOrderHMM, KeypadChannel
from sklstruct.hmm._automaton import ContextAutomaton
from sklstruct.hmm._candidates import make_candidates
from sklstruct.hmm._lattice import LatticeSolver
from sklstruct.hmm._refinement import RefinementSolver

N_SENTENCES = 30


def cases():
    out = [{"section": "tagging", "order": n} for n in range(2, 10)]
    out += [{"section": "peers", "peer": p} for p in ("nltk", "hmmlearn")]
    out += [
        {"section": "features", "model": m, "slow": True}
        for m in ("hybrid", "sklearn-crfsuite")
    ]
    out += [
        {"section": "keypad", "order": n, "length": length, "candidates": k}
        | ({"slow": True} if length not in (5, 10) else {})
        for k in (91, 0)
        for n in (3, 4, 5)
        for length in range(1, 11)
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


@functools.cache
def ewt(split):
    """(words, tags) of the sentences of UD English EWT."""
    X, y, words, tags = [], [], [], []
    path = data_folder("ud-english-ewt") / f"{split}.tsv.gz"
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in [*lines, "\n"]:
            if line.startswith("# "):
                continue
            if line.strip("\n"):
                word, _, tag = line.rstrip("\n").split("\t")
                words.append(word)
                tags.append(tag)
            elif words:
                X.append(words)
                y.append(tags)
                words, tags = [], []
    return X, y


def tagging(case):
    X, y = ewt("train")
    test, true = ewt("test")
    fit = timed(HighOrderHMM(case["order"]).fit, X, y, repeats=3)
    tagger = fit.result
    tagger.decode(test[:1])  # makes the automaton
    decode = timed(tagger.decode, test)
    tagger.set_params(solver="refine")
    refine = timed(tagger.decode, test, repeats=1)
    same = np.abs(refine.result.log_proba - decode.result.log_proba).max()
    return {
        "accuracy": tagger.score(test, true),
        "fit_seconds": fit.cpu,
        "milliseconds": decode.cpu / len(test) * 1e3,
        "states": float(decode.result.n_states.mean()),
        "refine_milliseconds": refine.cpu / len(test) * 1e3,
        "iterations": float(refine.result.n_iterations.mean()),
        "difference": float(same),
    }


def peers(case):
    if case["peer"] not in options.peers:
        return {"accuracy": "not run"}
    X, y = ewt("train")
    test, true = ewt("test")
    if case["peer"] == "nltk":
        from nltk.tag import AffixTagger, DefaultTagger, tnt

        # TnT of NLTK leaves unknown words to a tagger of the user: its own of endings.
        pairs = [list(zip(a, b)) for a, b in zip(X, y)]
        unknown = DefaultTagger("NN")
        for length in (-1, -2, -3, -4):
            unknown = AffixTagger(pairs, affix_length=length, backoff=unknown)
        tagger = tnt.TnT(unk=unknown, Trained=True)
        tagger.train(pairs)
        found = timed(lambda: [tagger.tag(x) for x in test], repeats=1)
        labels = [[t for _, t in sentence] for sentence in found.result]
    else:
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
        ids = [np.array([[code.get(w, 0)] for w in x]) for x in test]
        found = timed(lambda: [tagger.predict(x) for x in ids], repeats=1)
        labels = [[tags[i] for i in row] for row in found.result]
    right = sum(a == b for f, t in zip(labels, true) for a, b in zip(f, t))
    return {
        "accuracy": right / sum(map(len, true)),
        "milliseconds": found.cpu / len(test) * 1e3,
    }


def shape(word):
    out = ""
    for c in word:
        kind = "X" if c.isupper() else "x" if c.islower() else "d" if c.isdigit() else c
        if not out.endswith(kind):
            out += kind
    return out


def word_features(words):
    """One dict of strings a word: itself, affixes, shape, neighbours."""
    padded = ["<s>", "<s>", *(w.lower() for w in words), "</s>", "</s>"]
    rows = []
    for i, word in enumerate(words):
        low = word.lower()
        row = {"word": word, "low": low, "shape": shape(word), "first": str(i == 0)}
        for k in (1, 2, 3, 4):
            row[f"suffix{k}"], row[f"prefix{k}"] = low[-k:], low[:k]
        for k in (-2, -1, 1, 2):
            row[f"at{k}"] = padded[i + 2 + k]
        for k in (-1, 1):
            row[f"suffix at{k}"] = padded[i + 2 + k][-3:]
        rows.append(row)
    return rows


def features(case):
    X, y = ewt("train")
    test, true = ewt("test")
    X, test = [word_features(x) for x in X], [word_features(x) for x in test]
    if case["model"] == "hybrid":
        from sklearn.feature_extraction import DictVectorizer
        from sklearn.linear_model import LogisticRegression
        from sklearn.pipeline import make_pipeline

        classifier = make_pipeline(
            DictVectorizer(), LogisticRegression(C=2.0, max_iter=100)
        )
        emission = ClassifierEmission(classifier, min_proba=1e-4)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tagger = HighOrderHMM(3, emission=emission).fit(X, y)
        classes = tagger.classes_
        flat = [row for x in test for row in x]
        alone = classes[tagger.emission_.estimator_.predict(flat)]
        labels = [t for row in true for t in row]
        out = {"alone": float(np.mean(alone == np.array(labels)))}
        for weight in (0.5, 0.7, 0.85, 1.0):
            for prior in (0.5, 1.0):
                tagger.emission_.weight, tagger.emission_.prior_weight = weight, prior
                out[f"a={weight} b={prior}"] = tagger.score(test, true)
        return out
    if "sklearn-crfsuite" not in options.peers:
        return {"accuracy": "not run"}
    from sklearn_crfsuite import CRF

    crf = CRF(algorithm="lbfgs", c1=0.1, c2=0.1, max_iterations=100).fit(X, y)
    found = crf.predict(test)
    right = sum(a == b for f, t in zip(found, true) for a, b in zip(f, t))
    return {"accuracy": right / sum(map(len, true))}


def keypad_sentences(order, length, n_candidates):
    def clean(split):
        return [[w for w in x if w != "<unk>"] for x in wikitext(split)]

    model = LanguageModel(KneserNeyLM(discount="single"), max_depth=order - 1)
    model = model.fit(clean("train")).backoff_model_
    automaton = ContextAutomaton(model)
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
        rows = model.predict_log_proba(nodes)[:, c.ids[at]]
        steps.append(rows + c.log_factor[at])
        nodes = automaton.arc_next[c.ids[at]]
    return steps


def keypad(case):
    model, automaton, sentences = keypad_sentences(
        case["order"], case["length"], case["candidates"]
    )
    lattice, refinement = LatticeSolver(automaton), RefinementSolver(automaton)
    per = 1e3 / len(sentences)
    lattice.decode(sentences[0])
    found = timed(lambda: [lattice.decode(c) for c in sentences])
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
    few = sentences[:5]
    dense = 0.0
    for c in few:
        steps = bigram_steps(model, automaton, c)
        dense += timed(dense_viterbi, steps, repeats=3).cpu
    out["dense_milliseconds"] = dense / len(few) * 1e3
    if case["candidates"]:
        refined = timed(lambda: [refinement.decode(c) for c in sentences], repeats=1)
        out["refine_milliseconds"] = refined.cpu * per
        out["iterations"] = float(np.mean([d.n_iterations for d in refined.result]))
        out["bound_states"] = float(np.mean([d.n_states for d in refined.result]))
        out["difference"] = float(
            max(
                abs(a.log_proba - b.log_proba)
                for a, b in zip(found.result, refined.result)
            )
        )
    return out


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
        "trials": float(np.mean([d.n_trials for d in drawn.result])),
        "bound_states": float(np.mean([d.n_states for d in drawn.result])),
    }


def run(case):
    return globals()[case["section"]](case)


if __name__ == "__main__":
    main(cases, run, peers=("nltk", "hmmlearn", "sklearn-crfsuite"))
