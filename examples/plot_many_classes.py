"""
Flat or a tree: by the number of classes
========================================

A flat linear model computes one score for each class. Along a tree it is some dozens,
whatever the number of classes. This page fits both to two sets of sparse text, beside
models of scikit-learn: thirty topics of Python's help, where flat models win, and 500
classes of generated texts, where the tree does.
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
# Which help text is a paragraph from? Paragraphs that stand in several texts word for
# word are left out, and so are topics with less than six others.
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
# The tree has leaves of at most 12 topics. Left to itself `HierarchicalClassifier`
# would be flat with so few classes.
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
# The words of a generated text are drawn from those of its class, of a group of classes
# and of the language. Naive Bayes assumes nearly this, so its accuracy here says little
# about real texts.
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
# Cost and loss
# -------------
# The log-loss says whether the right class got a high probability. Models without
# probabilities are not shown.
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
# The probabilities can be believed where a curve is on the dotted line: of the samples
# whose most probable class has a probability near p, a share of p is predicted right.
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
# :ref:`many_classes` says when a tree pays. The benchmark of
# :ref:`many sparse classes <benchmark_sparse_classes>` has up to 100 000 classes, and
# real texts too.
