"""
A taxonomy of the topics of Python's help
=========================================

Python comes with texts on its own language: what ``help("ASSERTION")`` and its like
show. Which text is a paragraph from? From the tf-idf vectors of the paragraphs
`HierarchicalClassifier` finds a tree over the topics: nobody told it which belong
together. The dendrogram has one readable line for each.
"""

# %%
import re
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.model_selection import train_test_split

from sklstruct.hierarchical import HierarchicalClassifier
from sklstruct.plotting import TaxonomyDisplay

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
# Sparse features stay sparse everywhere: building the tree, fitting, predicting.
tfidf = TfidfVectorizer(ngram_range=(1, 2), min_df=2, sublinear_tf=True)
X_train, X_test = tfidf.fit_transform(train), tfidf.transform(test)

model = HierarchicalClassifier("cut", C=30, random_state=0)
model.fit(X_train, y_train)
print(f"{X_train.shape[1]} features, {model.classes_.size} classes")
print(
    f"accuracy {model.score(X_test, y_test):.3f} with "
    f"{model.n_dot_products(X_test).mean():.1f} products per text"
)

# %%
# Where the tree errs: red dots are decisions that often go wrong.
TaxonomyDisplay.from_estimator(model, X_test, y_test)

# %%
# The most probable topics of a paragraph, without the probabilities of all others.
labels, log_proba = model.predict_top_k(X_test[:1], 3, return_log_proba=True)
print(test[0])
for label, value in zip(labels[0], log_proba[0]):
    print(f"  {label:30} {np.exp(value):.3f}")
plt.show()
