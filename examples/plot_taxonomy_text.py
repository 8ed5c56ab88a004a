"""
A taxonomy of the topics of Python's help
=========================================

Python comes with texts on its own language: what ``help("ASSERTION")`` and its like
show. Which text is a paragraph from? From the tf-idf vectors of the paragraphs a
builder of taxonomies learns a tree of two-way decisions: topics that a linear model
confuses stand side by side. `HierarchicalClassifier` classifies along it.
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
# Paragraphs that stand in several texts word for word are left out, and so are topics
# with less than five others.
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
# Sparse features stay sparse everywhere: building the tree, fitting, predicting. With
# so few classes the flat model is more accurate; the tree is here to be looked at.
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
# Where the tree errs: dark dots are decisions that often go wrong. Topics that belong
# together, such as ``global`` and ``nonlocal``, find each other by their words.
TaxonomyDisplay.from_estimator(model, X_test, y_test)

# %%
# The most probable topics of a paragraph, without the probabilities of all others.
labels, log_proba = model.predict_top_k(X_test[:1], 3, return_log_proba=True)
print(test[0])
for label, value in zip(labels[0], log_proba[0]):
    print(f"  {label:30} {np.exp(value):.3f}")
plt.show()
