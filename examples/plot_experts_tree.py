"""
A tree made by experts and a learned tree
=========================================

Physicians have arranged the diagnoses of ICD-10-CM in chapters, blocks and categories.
This page asks two questions. Does a classifier along the experts' tree have better
probabilities than a classifier along a learned tree? And if a tree is learned from the
words of the diagnoses, which blocks of the experts are also in this tree? The texts are
in the package simple-icd-10-cm (public domain)."""

# %%
# The texts are the titles of the codes of up to five characters. The class of a text is
# its category, a code of three characters. Titles that occur in several categories and
# categories with fewer than four texts are left out.
import matplotlib.pyplot as plt
import numpy as np
import simple_icd_10_cm as icd
from sklearn.decomposition import TruncatedSVD
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer

from sklstruct import HierarchicalClassifier
from sklstruct.taxonomy import CutSplit, RandomSplit, Taxonomy

category = {}
for code in icd.get_all_codes(with_dots=False):
    if icd.is_category_or_subcategory(code) and len(code) <= 5:
        for text in [icd.get_description(code), *icd.get_inclusion_term(code)]:
            category.setdefault(text.lower(), set()).add(code[:3])
pairs = [(text, min(of)) for text, of in category.items() if len(of) == 1]
texts, y = map(np.array, zip(*pairs))
names, code, count = np.unique(y, return_inverse=True, return_counts=True)
texts, y = texts[count[code] >= 4], y[count[code] >= 4]
paths = {}
for name in np.unique(y).tolist():
    *block, chapter = icd.get_ancestors(name)
    paths[name] = (chapter, *block[-1:])
print(f"{len(texts)} texts of {len(paths)} categories, such as {y[7]}: {texts[7]}")

# %%
# The classifiers at the nodes are the same for the experts' tree and for the tree that
# the classifier learns by default.
X_train, X_test, y_train, y_test = train_test_split(
    texts, y, stratify=y, random_state=0
)
tfidf = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
X_train, X_test = tfidf.fit_transform(X_train), tfidf.transform(X_test)
experts = Taxonomy.from_paths(paths)
for title, tree in {"experts": experts, "learned": "auto"}.items():
    model = HierarchicalClassifier(tree, random_state=0).fit(X_train, y_train)
    loss = -model.target_log_proba(X_test, y_test).mean()
    print(f"{title:8} accuracy {model.score(X_test, y_test):.3f}, log-loss {loss:.3f}")

# %%
# Two binary trees with one category per leaf are compared with the blocks of the
# experts. The first tree is learned from the word vectors of the titles, reduced to 100
# dimensions by a singular value decomposition. The second tree is random. For each
# block of at least three categories, the picture shows the node whose categories match
# the block best. The Jaccard index is the number of common categories divided by the
# number of categories that are in the block or below the node.
reduced = make_pipeline(TruncatedSVD(100, random_state=0), Normalizer())
Z = reduced.fit_transform(X_train)
trees = {
    "learned": CutSplit().build(Z, y_train),
    "random": RandomSplit(random_state=0).build(Z, y_train),
}
blocks = {}
for name, path in paths.items():
    blocks.setdefault((int(path[0]), path[-1]), set()).add(name)
blocks = {block: of for block, of in blocks.items() if len(of) >= 3}


def best_indices(tree, sets):
    """The Jaccard index of each set with the most similar node of the tree."""
    nodes = [set(tree.classes[tree.classes_below(v)]) for v in range(tree.n_nodes)]
    return np.array([max(len(s & n) / len(s | n) for n in nodes) for s in sets])


chapters = sorted({chapter for chapter, _ in blocks})
figure, ax = plt.subplots(figsize=(8, 6.5), layout="constrained")
for (title, tree), shift, style in zip(
    trees.items(),
    (-0.18, 0.18),
    (
        {"marker": "o", "color": "#0072B2", "alpha": 0.7},
        {"marker": "D", "facecolors": "none", "edgecolors": "#D55E00"},
    ),
):
    index = best_indices(tree, blocks.values())
    row = np.array([chapters.index(chapter) for chapter, _ in blocks])
    ax.scatter(index, row + shift, s=26, label=title, **style)
    for k in range(len(chapters)):
        mean = index[row == k].mean()
        ax.plot([mean, mean], [k + shift - 0.15, k + shift + 0.15], "k-", lw=2)
    print(f"{title}: {np.mean(index >= 0.5):.0%} of the blocks have a node that")
    print(f"  shares at least half; mean Jaccard index {index.mean():.2f}")
    if title == "learned":
        whole = [block for (_, block), found in zip(blocks, index) if found == 1]
        print("  found whole:", "; ".join(map(icd.get_description, whole[:6])))
ax.set_yticks(range(len(chapters)), [f"chapter {k}" for k in chapters])
ax.invert_yaxis()
ax.set_xlim(0, 1.03)
ax.set_xlabel("best Jaccard index of a block with the categories below a node")
ax.grid(axis="x", alpha=0.3)
title = "binary tree (a dot is a block, bars are the means of the chapters)"
figure.legend(title=title, loc="outside upper center", ncols=2)

# %%
# The learned tree finds blocks whose diagnoses have words in common, such as diabetes,
# burns and poisonings. If the diagnoses of a block have few words in common, the
# learned tree groups them in another way.
plt.show()
