"""Classes of texts: TextClassifier, LinearSVC and fastText.

The sets are those of SKLSTRUCT_DATA: the language of a paragraph of the Universal
Declaration of Human Rights (429 languages) by its first 20, 40 or 100 letters; the
intent of a question of clinc150; the section and the tags of a Debian package by its
one-line description, with all packages of a source on one side. The tags have further
divisions into parts, by other hashes of the sources. A part of the texts is the test
part, on which nothing is chosen. A seventh of the other texts is the validation part
(clinc150 has its own validation part). ``clinc150/1500`` has 1500 training texts of
``clinc150``: sets of few texts are learned from the training part alone.

default: `TextClassifier` without a parameter, but that tags have ``threshold="f1"``.
words: the same with ``features="words"``, of the sets where the default also has
n-grams of words. saved: the default, written with 8 bits and read again. small: the
same for languages, without n-grams of fewer than six texts, and without weights of at
most 7 % of the largest weight of their class or node; both numbers were chosen on the
validation parts. LinearSVC is scikit-learn's over the n-grams of the default. fastText
has the settings that were best on the validation parts, by the results of
bench_fasttext_settings. For tags fastText has the loss "ova", and the threshold of the
largest F1 on the validation part. Texts per second are from a list of strings to the
most probable class and its probability.
"""

from __future__ import annotations

import functools
import os
import tempfile
import zlib
from collections import Counter
from operator import itemgetter
from pathlib import Path

import numpy as np
from _common import fastest, main, read_results, timed
from bench_text import lines

from sklstruct.text import TextClassifier

SETS = ("udhr20", "udhr40", "udhr100", "clinc150", "sections", "tags")
# Other divisions of the sources of "tags", to see how much the figures depend on them.
N_DIVISIONS = 8
# Few texts: so many of the training texts of a set.
FEW = "clinc150/1500", "sections/2000"
# The figures of each setting of fastText on the validation parts.
SETTINGS = Path(__file__).parents[1] / "docs/benchmarks/results/fasttext_settings.json"
SMALL = "udhr20", "udhr40", "udhr100"
# Sets whose default has words beside letters.
WORDS = "clinc150", "sections", "tags"
# Languages of fewer paragraphs, sections of fewer training texts, and tags of fewer
# texts, are left out. (All texts of the section "tasks" are of one source, which is in
# the test part.)
FEWEST_PARAGRAPHS = 30
FEWEST = {"sections": 80, "tags": 30, "few": 6}


def cases():
    made = []
    for name in SETS:
        made.append({"set": name, "model": "default"})
        if name in WORDS:
            made.append({"set": name, "model": "words"})
        if name != "tags":
            made.append({"set": name, "model": "saved"})
        if name in SMALL:
            made.append({"set": name, "model": "small"})
        made.append({"set": name, "model": "LinearSVC", "needs": "scikit-learn"})
        for model in fasttext_settings().get(name, ()):
            slow = {"set": name, "model": model, "needs": "fasttext"}
            made.append(slow | {"slow": True})
    for name in FEW:
        made.append({"set": name, "model": "default"})
        for model in fasttext_settings().get(name, ()):
            made.append({"set": name, "model": model, "needs": "fasttext"})
    for i in range(1, N_DIVISIONS + 1):
        made.append({"set": "tags", "model": f"default, {N_DIVISIONS} divisions"})
        made[-1]["division"] = str(i)
    return made


@functools.cache
def fasttext_settings() -> dict[str, dict[str, str]]:
    """Set -> model -> the setting of fastText that is best on the validation part.

    The best is that of accuracy (of tags F1). If another setting is better by log-loss
    (of tags by the precision of the first tag), the set has a second model.
    """
    tried: dict[str, list] = {}
    for result in read_results(SETTINGS)["results"]:
        case, figures = result["case"], result["figures"]
        by = "micro_f1" if case["set"] == "tags" else "right"
        also = figures["p1"] if case["set"] == "tags" else -figures["log_loss"]
        mine = tried.setdefault(case["set"], [])
        mine.append((case["setting"], figures[by], also))
    found = {}
    for name, mine in tried.items():
        first, second = (max(mine, key=itemgetter(at))[0] for at in (1, 2))
        other = "fastText, precision" if name == "tags" else "fastText, log-loss"
        found[name] = {"fastText": first}
        if second != first:
            found[name][other] = second
    return found


def hashed(text: str) -> float:
    """A number in [0, 1) that depends on the text alone."""
    return zlib.crc32(text.encode()) / 2**32


@functools.cache
def parts_of(name: str, division: str = "") -> list[tuple[list[str], list]]:
    """(texts, classes or tags) of the training, validation and test part."""
    parts: list[tuple[list, list]] = [([], []), ([], []), ([], [])]

    def put(part, text, label):
        parts[part][0].append(text)
        parts[part][1].append(label)

    if "/" in name:
        return few_of(*name.split("/"))
    if name == "clinc150":
        for part, split in enumerate(("train", "val", "test")):
            for row in lines("clinc150", split):
                put(part, row[2], row[1])
        return parts
    if name.startswith("udhr"):
        n = int(name[4:])
        rows = [r for r in lines("text-classes", "udhr") if len(r[1]) >= n]
        counts = Counter(label for label, _ in rows)
        rows = [row for row in rows if counts[row[0]] >= FEWEST_PARAGRAPHS]
        for label, text in rows:
            place = hashed(text)
            put(2 if place < 0.3 else int(place < 0.4), text[:n], label)
        return parts
    for section, source, tags, text in lines("text-classes", "debian"):
        if name == "tags" and not tags:
            continue
        place = hashed(division + source)
        label = tags.split(",") if name == "tags" else section
        put(2 if place < 0.2 else int(place < 0.32), text, label)
    if name == "tags":  # the same tags in every division
        counts = Counter(tag for _, y in parts for tags in y for tag in tags)
        return [
            (texts, [[t for t in tags if counts[t] >= FEWEST[name]] for tags in y])
            for texts, y in parts
        ]
    return of_frequent(parts, Counter(parts[0][1] + parts[1][1]), FEWEST[name])


def of_frequent(parts, counts, fewest) -> list[tuple[list[str], list]]:
    """The texts of the classes of at least so many texts."""
    kept = [
        [pair for pair in zip(*part) if counts[pair[1]] >= fewest] for part in parts
    ]
    return [([x for x, _ in pairs], [y for _, y in pairs]) for pairs in kept]


def few_of(name: str, n: str) -> list[tuple[list[str], list]]:
    """The parts of a set with n training texts, those of rare classes left out."""
    train, *others = parts_of(name)
    pairs = sorted(zip(*train), key=lambda pair: hashed("few" + pair[0]))[: int(n)]
    train = [x for x, _ in pairs], [y for _, y in pairs]
    return of_frequent([train, *others], Counter(train[1]), FEWEST["few"])


def figures_of(classes, proba, y) -> dict:
    """Accuracy, log-loss and calibration error of probabilities of one label."""
    classes = np.asarray(classes)
    code = np.minimum(np.searchsorted(classes, y), classes.size - 1)
    known = classes[code] == np.asarray(y)
    best = proba.argmax(axis=1)
    right, sure = (best == code) & known, proba.max(axis=1)
    target = np.maximum(proba[np.arange(code.size), code], 1e-15)
    bins = np.minimum((sure * 15).astype(int), 14)
    error = sum(abs(right[bins == b].sum() - sure[bins == b].sum()) for b in range(15))
    return {
        "right": right.mean(),
        "log_loss": -np.log(target[known]).mean(),
        "ece": error / code.size,
    }


def tag_figures(names, best, predicted, tags) -> dict:
    """Micro-averaged F1 of the predicted tags, and precision of the first.

    The precision is that of the texts with a tag, as in the test of fastText.
    """
    true = [set(row) for row in tags]
    n_right = sum(len(set(p) & t) for p, t in zip(predicted, true))
    n_all = sum(map(len, predicted)) + sum(map(len, true))
    p1 = np.mean([names[b] in t for b, t in zip(best, true) if t])
    return {"micro_f1": 2 * n_right / n_all, "p1": p1}


def run(case):
    train, valid, test = parts_of(case["set"], case.get("division", ""))
    every = train[0] + valid[0], train[1] + valid[1]
    if case["set"] in FEW:
        every = train
    figures = {"n_train": len(every[0]), "n_test": len(test[0])}
    if case["model"].startswith("fastText"):
        return figures | run_fasttext(case, train, valid, every, test)
    if case["model"] == "LinearSVC":
        return figures | run_svc(case["set"], every, test)
    features = "words" if case["model"] == "words" else "auto"
    if case["set"] == "tags":
        model = TextClassifier(features, threshold="f1", random_state=0)
        fit = timed(model.fit, *every, repeats=1).cpu
        best = model.predict_proba(test[0]).argmax(axis=1)
        names = model.classes_
        found = [names[row > 0] for row in model.predict(test[0]).toarray()]
        figures["n_classes"] = names.size
        return figures | tag_figures(names, best, found, test[1]) | {"fit": fit}
    small = case["model"] == "small"
    options = {"features": "letters", "min_df": 6} if small else {"features": features}
    model = TextClassifier(**options, random_state=0)
    fitted = timed(model.fit, *every, repeats=1)
    if small or case["model"] == "saved":
        model = model.reduce(weight_threshold=0.07 if small else 0.02)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.sktext"
            model.save(path)
            figures["mb"] = path.stat().st_size / 1e6
            figures["open_ms"] = 1e3 * timed(TextClassifier.load, path).cpu
            model = TextClassifier.load(path)
            figures |= speed_of(model, test[0])
            figures |= figures_of(model.classes_, model.predict_proba(test[0]), test[1])
    else:
        figures |= speed_of(model, test[0])
        figures |= figures_of(model.classes_, model.predict_proba(test[0]), test[1])
    return figures | {"n_classes": model.classes_.size, "fit": fitted.cpu}


def speed_of(model, texts) -> dict:
    asked = functools.partial(model.predict_top_k, texts, 1, return_log_proba=True)
    return {"texts_per_second": len(texts) / timed(asked).cpu}


def run_svc(name, every, test) -> dict:
    from sklearn.multiclass import OneVsRestClassifier
    from sklearn.preprocessing import MultiLabelBinarizer
    from sklearn.svm import LinearSVC

    model = TextClassifier(random_state=0).fit(*every)
    rows, new = (model.features_.transform(texts) for texts in (every[0], test[0]))
    if name != "tags":
        svc = LinearSVC()
        fit = timed(svc.fit, rows, every[1], repeats=1).cpu
        return {"right": svc.score(new, test[1]), "fit": fit}
    binarizer = MultiLabelBinarizer(sparse_output=True)
    Y = binarizer.fit_transform(every[1])
    svc = OneVsRestClassifier(LinearSVC())
    fit = timed(svc.fit, rows, Y, repeats=1).cpu
    scores, names = svc.decision_function(new), binarizer.classes_
    found = [names[row > 0] for row in scores]
    return tag_figures(names, scores.argmax(axis=1), found, test[1]) | {"fit": fit}


def run_fasttext(case, train, valid, every, test) -> dict:
    setting = fasttext_settings()[case["set"]][case["model"]]
    model, fit, mb = train_fasttext(setting, *every)
    clean = [text.lower() for text in test[0]]
    asked = fastest(best=functools.partial(model.predict, clean, k=1))["best"].cpu
    names, proba = probabilities_of(model, test[0])
    figures = {"mb": mb, "texts_per_second": len(clean) / asked, "fit": fit}
    figures["n_classes"] = names.size
    if case["set"] == "tags":
        # The threshold is that of a model of the training part.
        rough, _, _ = train_fasttext(setting, *train)
        threshold = threshold_of(*probabilities_of(rough, valid[0]), valid[1])
        return figures | fasttext_figures(names, proba, test[1], threshold)
    return figures | fasttext_figures(names, proba, test[1])


def fasttext_figures(names, proba, y, threshold=None) -> dict:
    """Figures of the probabilities of fastText; of tags, those above a threshold."""
    if threshold is not None:
        found = [names[row > threshold] for row in proba]
        return tag_figures(names, proba.argmax(axis=1), found, y)
    return figures_of(names, proba / proba.sum(axis=1, keepdims=True), y)


def train_fasttext(setting: str, texts, y) -> tuple:
    """(model, CPU seconds of its fit, MB of its file)."""
    import fasttext

    fasttext.FastText.eprint = print
    # Each thread draws a tenth of the first weights, so one thread leaves nine tenths
    # of them undrawn. The default of 12 threads draws all; on one core they take turns,
    # and take the processor time of one.
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    lines_of = (tags_of(label) + text.lower() for text, label in zip(texts, y))
    with tempfile.TemporaryDirectory() as folder:
        path, saved = Path(folder) / "train.txt", Path(folder) / "model.bin"
        path.write_text("\n".join(lines_of) + "\n", encoding="utf-8")
        fit = timed(
            fasttext.train_supervised, str(path), thread=12, verbose=0, repeats=1,
            **parameters_of(setting),
        )  # fmt: skip
        fit.result.save_model(str(saved))
        return fit.result, fit.cpu, saved.stat().st_size / 1e6


def parameters_of(setting: str) -> dict:
    """The parameters of a setting of fastText."""
    plain = {"lr": float, "loss": str}
    pairs = (part.split("=") for part in setting.split())
    return {key: plain.get(key, int)(value) for key, value in pairs}


def tags_of(label: str | list[str]) -> str:
    """The beginning of the line of a text for fastText."""
    names = [label] if isinstance(label, str) else label
    return "".join(f"__label__{name} " for name in names)


def probabilities_of(model, texts) -> tuple:
    """(sorted labels, probabilities of texts) of a model of fastText."""
    prefix = "__label__"
    names = np.unique([label.removeprefix(prefix) for label in model.labels])
    labels, found = model.predict([text.lower() for text in texts], k=-1)
    proba = np.zeros((len(texts), names.size))
    for row, given, p in zip(proba, labels, found):
        row[np.searchsorted(names, [x.removeprefix(prefix) for x in given])] = p
    return names, proba


def threshold_of(names, proba, tags) -> float:
    """The threshold of the largest micro-averaged F1; tags above it are predicted."""
    true = np.zeros(proba.shape, dtype=bool)
    for row, mine in zip(true, tags):
        row[np.isin(names, mine)] = True
    order = np.argsort(-proba, axis=None)
    p = proba.ravel()[order]
    n_found = np.arange(1, p.size + 1)
    f1 = 2 * np.cumsum(true.ravel()[order]) / (n_found + sum(map(len, tags)))
    f1[:-1][p[:-1] == p[1:]] = 0  # equal probabilities are predicted together
    best = int(f1.argmax())
    return float(np.append(p, 0.0)[best : best + 2].mean())


if __name__ == "__main__":
    main(cases, run, peers=("scikit-learn", "fasttext"))
