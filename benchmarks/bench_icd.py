"""A tree that experts made beside learned ones: the diagnoses of ICD-10-CM.

    python benchmarks/bench_icd.py --out docs/benchmarks/results/icd.json
    python benchmarks/bench_icd.py --list

The texts are the titles, inclusion terms and "includes" notes of the codes of at most
five characters, of the package simple-icd-10-cm (public domain), without those that
stand in two categories. The classes are the categories (three characters) with at least
four texts; the given tree is chapter, block, category. A quarter of the texts is for
testing, stratified. Features: tf-idf of words and pairs of words.

`model`: `HierarchicalClassifier` with the nodes of its default (squared hinge, C = 1)
and different trees: none (`flat`), the experts' (`given`), theirs with leaves of more
than 16 classes divided by "cut" (`given, refined`), those of builders on the leading
100 singular vectors of the class means, with one level above leaves of at most 100
classes, and `default`, the default itself. Figures on the test part: `accuracy`,
`log_loss` (nats), `chapter` and `block` (accuracy of the group of the answer), `h_f1`
(hierarchical F1 along the given tree), `fit`, CPU seconds with the tree, `predict`, CPU
milliseconds for a thousand texts.

`groups`: full binary trees of builders, and which of the experts' groups of at least
three classes they find again. For a group the best Jaccard index and F1 with the class
set of any node; figures are the means over blocks and over chapters, the part of blocks
with an index of at least .5 (`found`), and CPU seconds of the building.

Run it with OMP_NUM_THREADS=1 and OPENBLAS_NUM_THREADS=1.
"""

import time
from functools import cache

import numpy as np
import scipy.sparse as sp
from _common import main
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.preprocessing import normalize
from sklearn.utils.extmath import randomized_svd

from sklstruct import HierarchicalClassifier
from sklstruct.linear import DualLinearClassifier
from sklstruct.metrics import hierarchical_f1_score
from sklstruct.taxonomy import TAXONOMY_BUILDERS, RefinedTaxonomy, Taxonomy

FEWEST = 4  # texts of a class
LONGEST = 5  # characters of a code
LEVELS = ("chapter", "block")


@cache
def texts():
    """(texts, categories, {category: (chapter, block)})"""
    import simple_icd_10_cm as icd

    categories = {}
    for code in icd.get_all_codes(with_dots=False):
        if not icd.is_category_or_subcategory(code) or len(code) > LONGEST:
            continue
        notes = [icd.get_description(code), *icd.get_inclusion_term(code)]
        for text in notes + icd.get_includes(code):
            text = " ".join(text.lower().split())
            categories.setdefault(text, set()).add(code[:3])
    found = [(text, min(of)) for text, of in categories.items() if len(of) == 1]
    names, count = np.unique([name for _, name in found], return_counts=True)
    enough = set(names[count >= FEWEST].tolist())
    found = [(text, name) for text, name in found if name in enough]
    paths = {}
    for name in sorted(enough):
        *between, chapter = icd.get_ancestors(name)
        # a category may stand below its chapter without a block
        paths[name] = (chapter, between[-1] if between else name)
    return [text for text, _ in found], np.array([name for _, name in found]), paths


@cache
def parts():
    """((X, y), (Z, target)) of training and test."""
    lines, y, _ = texts()
    train, test, y_train, y_test = train_test_split(
        lines, y, test_size=0.25, stratify=y, random_state=0
    )
    tfidf = TfidfVectorizer(
        ngram_range=(1, 2), min_df=2, sublinear_tf=True, dtype=np.float32
    )
    return (tfidf.fit_transform(train).tocsr(), y_train), (
        tfidf.transform(test).tocsr(),
        y_test,
    )


def given():
    return Taxonomy.from_paths(texts()[2])


@cache
def dense(n_columns=100):
    """The training texts on the leading directions of the means of the classes."""
    (X, y), _ = parts()
    code = np.unique(y, return_inverse=True)[1]
    one = sp.csr_matrix((np.ones(y.size, np.float32), (code, np.arange(y.size))))
    _, _, V = randomized_svd(normalize(one @ X), n_columns, random_state=0)
    return normalize(X @ V.T), y


class Dense:
    """The tree of a builder on the dense rows, whatever the classifier reads."""

    def __init__(self, name, **params):
        self.builder = TAXONOMY_BUILDERS[name](**params)

    def build(self):
        params = self.builder.get_params()
        if "random_state" in params:
            self.builder.set_params(random_state=0)
        return self.builder.build(*dense())


def classifier(taxonomy="auto", **params):
    node = DualLinearClassifier(weight_threshold=0.02)
    return HierarchicalClassifier(taxonomy, estimator=node, random_state=0, **params)


BUILDERS = ("spec", "diff", "cut", "obyo", "hung", "ward", "kmeans", "rand")
LEARNED = ("spec", "diff", "hung", "obyo", "ward", "kmeans", "rand")
MODELS = {
    "flat": lambda: classifier(max_depth=0),
    "given": lambda: classifier(given()),
    "given, refined": lambda: classifier(
        RefinedTaxonomy(given(), max_leaf_size=16, regroup=False)
    ),
    "default": lambda: HierarchicalClassifier(random_state=0),
    "default, 3 averaged": lambda: HierarchicalClassifier(
        n_taxonomies=3, random_state=0
    ),
    **{name: name for name in LEARNED},
}


def fitted(name, X, y):
    """(model, CPU seconds)"""
    dense()
    start = time.process_time()
    if name in LEARNED:
        tree = Dense(name).build().stop_at(100).widen(256)
        model = classifier(tree).fit(X, y)
    else:
        model = MODELS[name]().fit(X, y)
    return model, time.process_time() - start


# ----------------------------------------------------------------------- groups


def groups():
    """{level: {name: classes}} of the experts' groups of at least three classes."""
    names = np.unique(parts()[0][1])
    paths = texts()[2]
    found = {}
    for level, kind in enumerate(LEVELS):
        of = np.array([paths[name][level] for name in names.tolist()])
        sets = {g: np.flatnonzero(of == g) for g in np.unique(of).tolist()}
        found[kind] = {g: s for g, s in sets.items() if s.size >= 3}
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


@cache
def full_tree(name):
    return Dense(name).build()


# -------------------------------------------------------------------- measuring


def cases():
    found = [{"section": "model", "model": name} for name in MODELS]
    return found + [{"section": "groups", "model": name} for name in BUILDERS]


def run(case):
    name = case["model"]
    if case["section"] == "groups":
        dense()
        start = time.process_time()
        tree = full_tree(name)
        figures = {"build": time.process_time() - start, "depth": tree.depth}
        for kind, sets in groups().items():
            jaccard, f1 = best_matches(tree, sets.values())
            figures |= {
                f"{kind}s": len(sets),
                f"{kind}_jaccard": jaccard.mean(),
                f"{kind}_f1": f1.mean(),
                f"{kind}_found": (jaccard >= 0.5).mean(),
            }
        return figures
    (X, y), (Z, target) = parts()
    model, seconds = fitted(name, X, y)
    model.predict(Z[:10])
    start = time.process_time()
    answer = model.predict(Z)
    predict = time.process_time() - start
    paths = texts()[2]
    figures = {
        "accuracy": (answer == target).mean(),
        "log_loss": -model.target_log_proba(Z, target).mean(),
    }
    for level, kind in enumerate(LEVELS):
        pair = [[paths[a][level] for a in of] for of in (answer, target)]
        figures[kind] = np.mean([a == b for a, b in zip(*pair)])
    route = [[(*paths[a], a) for a in of] for of in (target, answer)]
    figures["h_f1"] = hierarchical_f1_score(*route)
    figures |= {"fit": seconds, "predict": 1e6 * predict / target.size}
    return figures | {
        "classes": model.classes_.size,
        "leaves": model.taxonomy_.n_leaves,
        "depth": model.taxonomy_.depth,
        "n_leaves": model.n_leaves_,
    }


if __name__ == "__main__":
    main(cases, run)
