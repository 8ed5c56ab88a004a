"""
A taxonomy of 150 intents
=========================

Requests to an assistant ("set an alarm for seven") fall into 150 intents. From
their tf-idf vectors `HierarchicalClassifier` finds a tree over the intents;
nobody told it about the ten domains. The dendrogram has one readable line for each.

The texts are CLINC150, read from the folder named by the environment variable
``SKLSTRUCT_DATA``. Without it the example makes up requests for 40 intents out of
shared and own words, so that it runs anywhere.
"""

# %%
import gzip
import os
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
from sklearn.feature_extraction.text import TfidfVectorizer

from sklstruct import HierarchicalClassifier
from sklstruct.plotting import TaxonomyDisplay


def clinc150(folder):
    for name in ("train", "test"):
        path = Path(folder, "clinc150", f"{name}.tsv.gz")
        with gzip.open(path, "rt", encoding="utf-8") as lines:
            rows = [line.rstrip("\n").split("\t") for line in lines]
        yield [row[2] for row in rows], np.array([row[1] for row in rows])


def made_up(n_domains=8, n_intents=5, n_texts=30):
    rng = np.random.default_rng(0)
    for _ in ("train", "test"):
        texts, labels = [], []
        for domain in range(n_domains):
            for intent in range(n_intents):
                for _ in range(n_texts):
                    words = [
                        *(f"common{i}" for i in rng.integers(20, size=4)),
                        *(f"domain{domain}x{i}" for i in rng.integers(6, size=3)),
                        *(f"own{domain}x{intent}x{i}" for i in rng.integers(6, size=2)),
                    ]
                    texts.append(" ".join(rng.permutation(words)))
                    labels.append(f"domain {domain}, intent {intent}")
        yield texts, np.array(labels)


folder = os.environ.get("SKLSTRUCT_DATA")
(train, y_train), (test, y_test) = clinc150(folder) if folder else made_up()

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
# The most probable intents of a request, without the probabilities of all others.
labels, log_proba = model.predict_top_k(X_test[:1], 3, return_log_proba=True)
print(test[0])
for label, value in zip(labels[0], log_proba[0]):
    print(f"  {label:30} {np.exp(value):.3f}")
plt.show()
