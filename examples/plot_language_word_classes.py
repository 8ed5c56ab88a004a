"""
Word classes
============

Exchange clustering puts words with the same neighbours into one class. The clustering
learns from sentences alone, here from the texts of Python's own help. The clustering
does not know what a verb or a type is.
"""

import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

from sklstruct.datasets import load_python_topics
from sklstruct.plotting import TaxonomyDisplay
from sklstruct.symbols import context_windows
from sklstruct.taxonomy import as_taxonomy
from sklstruct.word_classes import ExchangeClustering, class_taxonomy

sentences = load_python_topics(drop_repeated=True)
words, counts = np.unique(np.concatenate(sentences), return_counts=True)
count = dict(zip(words.tolist(), counts.tolist()))
print(f"{counts.sum():,} words, {words.size:,} of them distinct")

# %%
# The example learns forty classes from the word before and the word after each word.
# For each class it prints the number of words and the most frequent words:

clustering = ExchangeClustering(n_clusters=40, offsets=(-1, 1)).fit(sentences)
for c in range(clustering.n_clusters_):
    members = clustering.symbols_[clustering.labels_ == c]
    first = sorted(members, key=lambda w: -count[w])[:11]
    print(f"{c:2d} ({members.size:4d})  {' '.join(first)}")

# %%
# By default classes are learned from the two words that follow. Words such as "the" and
# "original" are then in one class, because a noun follows both of them:

ahead = ExchangeClustering(n_clusters=40).fit(sentences)
for word in ("the", "is", "method", "must", "of"):
    (c,) = ahead.classes_of([word])
    members = ahead.symbols_[ahead.labels_ == c]
    print(word, "→", *sorted(members, key=lambda w: -count[w])[:12])

# %%
# Words that did not occur in training are in an additional class, number 40:

print(ahead.classes_of(["method", "aardvark"]))

# %%
# Words with similar neighbours
# -----------------------------
# Here a word is a vector: the square roots of the shares of each neighbour before and
# after the word. The inner product of two words with equal neighbours is as large as
# possible. The example prints the nearest words of some words:

w = context_windows(sentences, max_depth=1)
pairs = w.sample_weight > 0
left, right = w.contexts[pairs, 0], w.targets[pairs]
n = w.vocabulary.size
ones = np.ones(left.size)
before = sp.coo_array((ones, (right, left)), shape=(n, n))
after = sp.coo_array((ones, (left, right)), shape=(n, n))
features = sp.hstack([before, after]).tocsr()
features.data /= np.repeat(features.sum(axis=1), np.diff(features.indptr))
features.data = np.sqrt(features.data)

total = np.array([count.get(word, 0) for word in w.vocabulary])
common = np.flatnonzero(total >= 20)
ids = {word: i for i, word in enumerate(w.vocabulary)}
for word in ("string", "called", "defines", "each", "if"):
    likeness = features[common] @ features[[ids[word]]].T.toarray().ravel()
    nearest = common[np.argsort(-likeness)][1:8]
    print(f"{word:>8}:", *w.vocabulary[nearest])

# %%
# A tree of the frequent words
# ----------------------------
# The tree is learned by merging two classes at a time, such that the likelihood
# decreases by the smallest amount. A cut of the tree near the root has few, coarse
# classes (:class:`~sklstruct.word_classes.TaxonomyClustering`). The picture shows the
# most frequent words in a tree whose leaves are 150 word classes.

fine = ExchangeClustering(n_clusters=150, offsets=(-1, 1)).fit(sentences)
tree = class_taxonomy(fine, sentences)
frequent = sorted(fine.symbols_, key=lambda word: -count[word])[:70]
_, ax = plt.subplots(figsize=(8, 11), layout="constrained")
display = TaxonomyDisplay(as_taxonomy(tree, frequent)).plot(ax)
_ = display.ax_.set_title("The 70 most frequent words of Python's help")
