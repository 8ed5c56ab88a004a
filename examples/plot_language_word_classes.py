"""
Word classes to look at
=======================

Words with the same neighbours belong together. Exchange clustering finds such classes
from running text alone, here from the texts of Python's own help: the algorithm is
not told what a verb is, or a type.
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
# Forty classes, judged by the word before and the word after. Of each class the words
# that occur most often:

clustering = ExchangeClustering(n_clusters=40, offsets=(-1, 1)).fit(sentences)
for c in range(clustering.n_clusters_):
    members = clustering.symbols_[clustering.labels_ == c]
    first = sorted(members, key=lambda w: -count[w])[:11]
    print(f"{c:2d} ({members.size:4d})  {' '.join(first)}")

# %%
# The classes of contexts look ahead instead: what a word foretells: after "the" as
# after "original" comes a noun.

ahead = ExchangeClustering(n_clusters=40).fit(sentences)
for word in ("the", "is", "method", "must", "of"):
    (c,) = ahead.classes_of([word])
    members = ahead.symbols_[ahead.labels_ == c]
    print(word, "→", *sorted(members, key=lambda w: -count[w])[:12])

# %%
# A word that the clustering never saw is in a separate class:

print(ahead.classes_of(["method", "aardvark"]))

# %%
# Nearest words
# -------------
# The same neighbours as points in space: the square roots of how often each word
# stands before and after, whose inner product is 1 for words with equal neighbours.

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
# Merging the two classes that lose the least by it, again and again, makes a tree. Cut
# at a level it gives coarse classes, cut deeper fine ones
# (:class:`~sklstruct.word_classes.TaxonomyClustering`). Here are the most frequent
# words in a tree above 150 classes.

fine = ExchangeClustering(n_clusters=150, offsets=(-1, 1)).fit(sentences)
tree = class_taxonomy(fine, sentences)
frequent = sorted(fine.symbols_, key=lambda word: -count[word])[:70]
_, ax = plt.subplots(figsize=(8, 11), layout="constrained")
display = TaxonomyDisplay(as_taxonomy(tree, frequent)).plot(ax)
_ = display.ax_.set_title("The 70 most frequent words of Python's help")
