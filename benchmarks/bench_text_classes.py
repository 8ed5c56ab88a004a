"""Classes of texts: TextClassifier, LinearSVC and fastText on five sets of texts.

The sets are those of SKLSTRUCT_DATA: the language of a paragraph of the Universal
Declaration of Human Rights (429 languages) by its first 20, 40 or 100 letters; the
intent of a question of clinc150; the section and the tags of a Debian package by its
one-line description, with all packages of a source on one side. The tags have further
divisions into parts, by other hashes of the sources. A part of the texts is the test
part, on which nothing is chosen. A seventh of the other texts is the validation part
(clinc150 has its own validation part).

default: `TextClassifier` without a parameter, but that tags have ``threshold="f1"``.
saved: the default, written with 8 bits and read again. small: the same for languages,
without n-grams of fewer than six texts, and without weights of at most 7 % of the
largest weight of their class or node; both numbers were chosen on the validation parts.
LinearSVC is scikit-learn's over the n-grams of the default. fastText has the settings
that were best on the validation parts. Texts per second are from a list of strings to
the most probable class and its probability.
"""

from __future__ import annotations

import functools
import tempfile
import zlib
from collections import Counter
from pathlib import Path

import numpy as np
from _common import fastest, main, timed
from bench_text import lines

from sklstruct.text import TextClassifier

SETS = ("udhr20", "udhr40", "udhr100", "clinc150", "sections", "tags")
# Other divisions of the sources of "tags", to see how much the figures depend on them.
N_DIVISIONS = 8
# Chosen on validation parts among 4 to 14 settings of each set.
FASTTEXT = {
    "udhr20": "minn=1 maxn=5 dim=64 lr=1 epoch=100",
    "udhr40": "minn=1 maxn=5 dim=100 lr=1 epoch=100",
    "clinc150": "minn=3 maxn=6 wordNgrams=3 dim=100 lr=.5 epoch=100",
    "sections": "minn=3 maxn=6 dim=32 lr=.2 epoch=100",
}
SMALL = "udhr20", "udhr40", "udhr100"
# Languages of fewer paragraphs, and sections and tags of fewer training texts, are left
# out. (All texts of the section "tasks" are of one source, which is in the test part.)
FEWEST_PARAGRAPHS = 30
FEWEST = {"sections": 80, "tags": 20}


def cases():
    made = []
    for name in SETS:
        made.append({"set": name, "model": "default"})
        if name != "tags":
            made.append({"set": name, "model": "saved"})
        if name in SMALL:
            made.append({"set": name, "model": "small"})
        made.append({"set": name, "model": "LinearSVC", "needs": "scikit-learn"})
        if name in FASTTEXT:
            slow = {"set": name, "model": "fastText", "needs": "fasttext"}
            made.append(slow | {"slow": True})
    for i in range(1, N_DIVISIONS + 1):
        made.append({"set": "tags", "model": f"default, {N_DIVISIONS} divisions"})
        made[-1]["division"] = str(i)
    return made


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
    trained, fewest = parts[0][1] + parts[1][1], FEWEST[name]
    if name == "tags":
        counts = Counter(tag for row in trained for tag in row)
        return [
            (texts, [[t for t in tags if counts[t] >= fewest] for tags in y])
            for texts, y in parts
        ]
    counts = Counter(trained)
    kept = [
        [pair for pair in zip(*part) if counts[pair[1]] >= fewest] for part in parts
    ]
    return [([x for x, _ in pairs], [y for _, y in pairs]) for pairs in kept]


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
    figures = {"n_train": len(every[0]), "n_test": len(test[0])}
    if case["model"] == "fastText":
        return figures | run_fasttext(case["set"], every, test)
    if case["model"] == "LinearSVC":
        return figures | run_svc(case["set"], every, test)
    if case["set"] == "tags":
        model = TextClassifier(threshold="f1", random_state=0)
        fit = timed(model.fit, *every, repeats=1).cpu
        best = model.predict_proba(test[0]).argmax(axis=1)
        names = model.classes_
        found = [names[row > 0] for row in model.predict(test[0]).toarray()]
        figures["n_classes"] = names.size
        return figures | tag_figures(names, best, found, test[1]) | {"fit": fit}
    small = case["model"] == "small"
    options = {"features": "letters", "min_df": 6} if small else {}
    model = TextClassifier(**options, random_state=0)
    fitted = timed(model.fit, *every, repeats=1)
    if case["model"] != "default":
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


def run_fasttext(name, every, test) -> dict:
    import fasttext

    fasttext.FastText.eprint = print
    parameters = {
        key: float(value) if key == "lr" else int(value)
        for key, value in (part.split("=") for part in FASTTEXT[name].split())
    }
    clean = [text.lower().replace("\n", " ") for text in test[0]]
    with tempfile.TemporaryDirectory() as folder:
        path, saved = Path(folder) / "train.txt", Path(folder) / "model.bin"
        path.write_text(
            "".join(
                f"__label__{label} {text.lower()}\n" for text, label in zip(*every)
            ),
            encoding="utf-8",
        )
        fit = timed(
            fasttext.train_supervised, str(path), thread=1, verbose=0, repeats=1,
            **parameters,
        )  # fmt: skip
        model = fit.result
        model.save_model(str(saved))
        mb = saved.stat().st_size / 1e6
    classes = np.unique(every[1])
    labels, found = model.predict(clean, k=-1)
    proba = np.zeros((len(clean), classes.size))
    for i, (names, p) in enumerate(zip(labels, found)):
        code = np.searchsorted(classes, [n.removeprefix("__label__") for n in names])
        proba[i, code] = p
    asked = fastest(best=functools.partial(model.predict, clean, k=1))["best"].cpu
    return {
        "mb": mb,
        "texts_per_second": len(clean) / asked,
        **figures_of(classes, proba / proba.sum(axis=1, keepdims=True), test[1]),
        "n_classes": classes.size,
        "fit": fit.cpu,
    }


if __name__ == "__main__":
    main(cases, run, peers=("scikit-learn", "fasttext"))
