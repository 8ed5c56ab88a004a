"""
A taxonomy of the topics of Python's help
=========================================

Python contains texts on its own language, which ``help("ASSERTION")`` and similar calls
show. The task is to find the topic of a paragraph. A builder of taxonomies learns a
binary tree from the tf-idf vectors of the paragraphs. Topics that a linear model
confuses are close to each other in the tree. `HierarchicalClassifier` classifies along
the tree.
"""

# %%
import re
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from sklstruct.hierarchical import HierarchicalClassifier
from sklstruct.linear import LinearClassifier
from sklstruct.plotting import TaxonomyDisplay
from sklstruct.taxonomy import CutSplit

# %%
# Paragraphs that occur in several topics are left out, and so are topics with fewer
# than five other paragraphs.
texts, labels = [], []
count = {}
for topic in sorted(topics):
    for part in re.split(r"\n\s*\n", topics[topic]):
        part = " ".join(part.split())
        if len(part.split()) >= 5:
            count[part] = count.get(part, 0) + 1
            texts.append(part)
            labels.append(topic)
texts, labels = np.array(texts), np.array(labels)
once = np.array([count[text] == 1 for text in texts])
texts, labels = texts[once], labels[once]
names, sizes = np.unique(labels, return_counts=True)
keep = np.isin(labels, names[sizes >= 5])
train, test, y_train, y_test = train_test_split(
    texts[keep], labels[keep], stratify=labels[keep], random_state=0
)
print(f"{train.size} paragraphs of {np.unique(y_train).size} topics")

# %%
# Building the tree, fitting and predicting use sparse matrices. With so few classes the
# flat model is more accurate. This page uses a tree because the whole tree can be
# shown.
tfidf = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
X_train, X_test = tfidf.fit_transform(train), tfidf.transform(test)

tree = CutSplit().build(X_train, y_train)
node = LinearClassifier("auto", C=10, weight_threshold=0.02)
model = HierarchicalClassifier(tree, estimator=node, random_state=0)
model.fit(X_train, y_train)
print(f"{X_train.shape[1]} features, {model.classes_.size} classes")
flat = HierarchicalClassifier(max_depth=0, estimator=node, random_state=0)
flat.fit(X_train, y_train)
for name, classifier in {"tree": model, "flat": flat}.items():
    print(
        f"{name} accuracy {classifier.score(X_test, y_test):.3f}, "
        f"{classifier.n_dot_products(X_test).mean():.1f} products per text"
    )

# %%
# In the picture, dark nodes often choose the wrong child. Topics that belong together,
# such as ``global`` and ``nonlocal``, are close to each other because they have words
# in common.
TaxonomyDisplay.from_estimator(model, X_test, y_test)

# %%
# `predict_top_k` returns the most probable topics of a paragraph. It does not compute
# the probabilities of all topics.
labels, log_proba = model.predict_top_k(X_test[:1], 3, return_log_proba=True)
print(test[0])
for label, value in zip(labels[0], log_proba[0]):
    print(f"  {label:30} {np.exp(value):.3f}")
plt.show()
