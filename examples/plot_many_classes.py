"""
Flat or a tree: topics of Python's help
=======================================

Which help text is a paragraph from? The texts that come with Python have some dozens of
topics, a few paragraphs each: a small case of many classes on sparse text. A flat
model with all classes at once, a tree over them, and scikit-learn's models are fitted
to the same tf-idf vectors. Their accuracy is drawn against their cost, and their
probabilities against how often they are right.
"""

# %%
import re
import warnings
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import ComplementNB

from sklstruct.hierarchical import HierarchicalClassifier
from sklstruct.linear import DualLinearClassifier
from sklstruct.plotting import CostDisplay, ReliabilityDisplay

warnings.simplefilter("ignore")

# %%
# Paragraphs that stand in several texts word for word are left out, and so are topics
# with less than six others.
text_of: dict[str, set[str]] = {}
for topic, text in topics.items():
    for part in re.split(r"\n\s*\n", text):
        part = " ".join(part.split())
        if len(part.split()) >= 5:
            text_of.setdefault(part, set()).add(topic)
texts = np.array([text for text, found in text_of.items() if len(found) == 1])
labels = np.array([min(text_of[text]) for text in texts])
names, sizes = np.unique(labels, return_counts=True)
keep = np.isin(labels, names[sizes >= 6])
train, test, y_train, y_test = train_test_split(
    texts[keep], labels[keep], stratify=labels[keep], random_state=0
)
tfidf = TfidfVectorizer(ngram_range=(1, 2), sublinear_tf=True)
X_train, X_test = tfidf.fit_transform(train), tfidf.transform(test)
print(f"{y_train.size} paragraphs, {np.unique(y_train).size} topics, "
      f"{X_train.shape[1]} features")  # fmt: skip

# %%
# The tree has leaves of at most 12 topics. Left to itself `HierarchicalClassifier`
# would be flat with so few classes.
models = {
    "flat, squared hinge": DualLinearClassifier(random_state=0),
    "flat, multinomial": DualLinearClassifier("log_loss", C=30, random_state=0),
    "tree": HierarchicalClassifier(max_leaf=12, random_state=0),
    "LogisticRegression": LogisticRegression(C=30, max_iter=300),
    "ComplementNB": ComplementNB(alpha=0.1),
}
for name, model in models.items():
    model.fit(X_train, y_train)
    print(f"{name:20} accuracy {model.score(X_test, y_test):.3f}")

# %%
# Every model by what it achieves and what it costs.
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
display = CostDisplay.from_estimator(models, X_test, y_test, ax=axes[0])
display.plot(x="megabytes", value="log_loss", ax=axes[1])

# %%
# And whether its probabilities can be believed: on the dotted line they can.
ax = None
for name in ("flat, squared hinge", "tree", "LogisticRegression"):
    ax = ReliabilityDisplay.from_estimator(
        models[name], X_test, y_test, n_bins=6, name=name, ax=ax
    ).ax_
plt.show()
