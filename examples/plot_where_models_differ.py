"""
Where one language model is better than another
===============================================

A perplexity is one number for a whole text. The displays of this page show where two
models differ: by the length of the known context, word by word, by the frequency of the
words, and by the length of the contexts with weights.

Three log-linear models are compared with Kneser-Ney smoothing. The text is Python's own
help, so nothing is downloaded.
"""

from collections import Counter

import matplotlib.pyplot as plt
import numpy as np

from sklstruct import StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.plotting import DepthLossDisplay, WeightsByDepthDisplay
from sklstruct.smoothing import KneserNeyLM

sentences = load_python_topics(drop_repeated=True)
block = np.arange(len(sentences)) // 50
test_blocks = np.random.default_rng(0).permutation(block[-1] + 1)[:9]
is_test = np.isin(block, test_blocks)
train = [s for s, t in zip(sentences, is_test) if not t]
test = [s for s, t in zip(sentences, is_test) if t]


def fitted(estimator):
    return LanguageModel(estimator, max_depth=4, min_count=2).fit(train)


baseline = fitted(KneserNeyLM())
models = {
    "l1": fitted(StructuredLogLinearLM(penalty="l1", lam=0.5, alpha=0.7)),
    "l2": fitted(StructuredLogLinearLM(penalty="l2", lam=0.1, alpha=0.7)),
    "tree_l2": fitted(StructuredLogLinearLM(penalty="tree_l2", lam=0.8, alpha=1.2)),
}
for name, model in {"Kneser-Ney": baseline, **models}.items():
    print(f"{name:>10}: perplexity {model.perplexity(test):.1f}")

# %%
# By the length of the known context
# ----------------------------------
# The tokens are grouped by the longest suffix of their context that the training text
# contains. All models then predict the same words after the same contexts. Above 0 a
# model is better than Kneser-Ney smoothing. The bars are the numbers of tokens.

DepthLossDisplay.from_estimator(
    models, test, baseline=baseline, baseline_name="Kneser-Ney"
)

# %%
# Word by word
# ------------
#
# `surprisal` gives the log-loss of each token. Each point is a word of the vocabulary,
# coloured by its frequency in training. Below the diagonal the log-linear model is
# better. Most points are rare words. Rare words have a large log-loss and are at the
# top right.
tables = {
    name: model.surprisal(test, unit="nats")
    for name, model in {"Kneser-Ney": baseline, **models}.items()
}
known = set(baseline.vocabulary_.tolist())
first = tables["Kneser-Ney"]
tokens = np.where(first["unknown"], "<unk>", np.asarray(first["word"], dtype=str))
words, at, times = np.unique(tokens, return_inverse=True, return_counts=True)
loss = {name: np.bincount(at, t["surprisal"]) / times for name, t in tables.items()}
counts = Counter(w if w in known else "<unk>" for s in train for w in [*s, "</s>"])
frequency = np.array([max(counts[word], 0.5) for word in words.tolist()])

fig, ax = plt.subplots(layout="constrained")
points = ax.scatter(
    loss["Kneser-Ney"], loss["tree_l2"], c=np.log10(frequency), s=6
)  # fmt: skip
ax.axline((0, 0), slope=1, color="0.4", linewidth=0.8)
ax.set(xlabel="log-loss of Kneser-Ney, nats", ylabel="log-loss of tree_l2, nats")
fig.colorbar(points, label="log10 of the frequency in training")

# %%
# The next picture shows the same words by frequency. The circles are the means of words
# with similar frequencies. The circles show at which frequencies two models differ, and
# the points show the variation between words.
part = np.unique(np.floor(2 * np.log2(frequency)), return_inverse=True)[1]
size = np.bincount(part)
fig, axes = plt.subplots(1, 3, figsize=(12, 3.8), sharey=True, layout="constrained")
for ax, name in zip(axes, models):
    gain = loss["Kneser-Ney"] - loss[name]
    ax.scatter(frequency, gain, s=4, color="0.7")
    mean = np.exp(np.bincount(part, np.log(frequency)) / size)
    ax.plot(mean, np.bincount(part, gain) / size, "o", label="mean")
    ax.axhline(0, color="0.4", linewidth=0.8)
    ax.set(title=name, xscale="log", xlabel="frequency in training")
axes[0].set_ylabel("gain over Kneser-Ney, nats")
axes[0].legend()

# %%
# Weights by the length of the context
# ------------------------------------
# The picture counts the non-zero weights of the log-linear models, and the n-grams of
# Kneser-Ney smoothing in an ARPA file. Penalties that set weights to zero remove mostly
# weights of long contexts.

WeightsByDepthDisplay.from_estimator({"Kneser-Ney": baseline, **models})
