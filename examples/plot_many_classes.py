"""
A flat model or a tree of classes
=================================

A flat linear model computes one score for each class. Along a tree, only some dozens of
scores are computed for any number of classes. This page compares the two models, and
models of scikit-learn, on two sets of sparse text. On thirty topics of Python's help a
flat model is better. On 500 classes of generated texts the tree is better.
"""

# %%
import re
import time
import warnings
from pydoc_data.topics import topics

import matplotlib.pyplot as plt
import numpy as np
from sklearn.calibration import CalibrationDisplay
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.naive_bayes import ComplementNB
from sklearn.svm import LinearSVC

from sklstruct import HierarchicalClassifier, LinearClassifier
from sklstruct.datasets import make_sparse_classes

warnings.simplefilter("ignore")

# %%
# Thirty topics
# -------------
# The task is to find the topic of a paragraph of Python's help. Paragraphs that occur
# in several topics are left out, and so are topics with fewer than six other
# paragraphs.
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
few = tfidf.fit_transform(train), tfidf.transform(test), y_train, y_test


# %%
# The tree has leaves of at most 12 topics. With so few classes the default of
# `HierarchicalClassifier` is the flat model.
def fitted(models, X_train, X_test, y_train, y_test):
    """Fit each; print the CPU seconds and the accuracy."""
    print(f"{y_train.size} texts, {np.unique(y_train).size} classes")
    for name, model in models.items():
        start = time.process_time()
        model.fit(X_train, y_train)
        seconds = time.process_time() - start
        accuracy = model.score(X_test, y_test)
        print(f"{name:18} {seconds:5.2f} s   accuracy {accuracy:.3f}")
    return models


of_few = fitted(
    {
        "flat": LinearClassifier(random_state=0),
        "tree": HierarchicalClassifier(max_leaf=12, random_state=0),
        "LinearSVC": LinearSVC(random_state=0),
        "ComplementNB": ComplementNB(alpha=0.1),
    },
    *few,
)

# %%
# Five hundred classes
# --------------------
# Each word of a generated text is drawn from the words of its class, of a group of
# classes, or of the language. The model of naive Bayes is close to this rule. The
# accuracy of naive Bayes is therefore much higher here than on real texts.
X, y = make_sparse_classes(20_000, n_classes=500, random_state=0)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)
many = X_train, X_test, y_train, y_test
of_many = fitted(
    {
        "flat": LinearClassifier(random_state=0),
        "tree": HierarchicalClassifier(random_state=0),
        "LinearSVC": LinearSVC(random_state=0),
        "ComplementNB": ComplementNB(alpha=0.1),
    },
    *many,
)

# %%
# Log-loss and time
# -----------------
# The log-loss measures the probability of the right class. Models without probabilities
# are not shown.
fig, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
for ax, title, models, (_, X, _, y) in (
    (axes[0], "30 topics", of_few, few),
    (axes[1], "500 classes", of_many, many),
):
    for name, model in models.items():
        if hasattr(model, "predict_proba"):
            start = time.process_time()
            proba = model.predict_proba(X)
            cost = 1e6 * (time.process_time() - start) / len(y)
            loss = log_loss(y, proba, labels=model.classes_)
            ax.scatter([cost], [loss], label=name)
    ax.set(title=title, xscale="log", xlabel="milliseconds for 1 000 samples")
    ax.set_ylim(0, None)
    ax.set_ylabel("log-loss, nats")
    ax.legend()

# %%
# The next picture shows the share of right predictions for each predicted probability.
# On the dotted line the two are equal, as they should be.
fig, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
for ax, title, models, (_, X, _, y) in (
    (axes[0], "30 topics", of_few, few),
    (axes[1], "500 classes", of_many, many),
):
    for name, model in models.items():
        if hasattr(model, "predict_proba"):
            proba = model.predict_proba(X)
            right = model.classes_[proba.argmax(axis=1)] == y
            confidence = np.minimum(proba.max(axis=1), 1)  # 1 + 1e-16 is refused
            CalibrationDisplay.from_predictions(
                right, confidence, n_bins=6, name=name, ax=ax
            )
    ax.set_title(title)
plt.show()

# %%
# :ref:`many_classes` says when a tree is better than a flat model. The benchmark of
# :ref:`sparse text with many classes <benchmark_sparse_classes>` has up to 100 000
# classes, and also real texts.
