"""
Pruning n-grams
===============

For most n-grams of a language model, the probability is close to the :term:`back-off`
probability, which the model computes from the shorter n-gram without the oldest word.
Such n-grams can be removed. This page makes a modified Kneser-Ney model smaller in
two ways: by the counts of the n-grams, and by relative entropy (the change of the model
if an n-gram is removed).

The text is Python's own help, so nothing is downloaded.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklstruct.backoff import prune
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import KneserNeyLM

sentences = load_python_topics(drop_repeated=True)
block = np.arange(len(sentences)) // 50
test_blocks = np.random.default_rng(0).permutation(block[-1] + 1)[:9]
is_test = np.isin(block, test_blocks)
train = [s for s, t in zip(sentences, is_test) if not t]
test = [s for s, t in zip(sentences, is_test) if t]

# %%
# The text is counted once, and the fitted model is pruned at several thresholds.

lm = LanguageModel(KneserNeyLM(), max_depth=4, min_count=2)
counted = lm.count(train)
whole = lm.fit(counted).backoff_model_

ways = {
    "count cut-off": [
        prune(whole, [0, k], method="count", counts=counted) for k in (1, 2, 4)
    ],
    "relative entropy": [
        prune(whole, t, counts=counted) for t in (3e-7, 1e-6, 3e-6, 1e-5, 3e-5)
    ],
}


def size_and_perplexity(model):
    return model.n_pairs, LanguageModel.from_backoff(model).perplexity(test)


whole = size_and_perplexity(whole)
curves = {
    name: np.array([size_and_perplexity(model) for model in models])
    for name, models in ways.items()
}
print(f"whole model: {whole[0]} n-grams, perplexity {whole[1]:.1f}")
for name, curve in curves.items():
    for size, perplexity in curve:
        print(f"{name:>16}: {size:6.0f} n-grams, perplexity {perplexity:.1f}")

# %%
# Points at the lower left are best. A cut-off by count removes rare n-grams, also
# n-grams whose probability differs much from the back-off probability. Relative entropy
# keeps such n-grams.

fig, ax = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
for name, curve in curves.items():
    ax.plot(*curve.T, marker="o", label=name)
ax.plot(*whole, "k*", markersize=12, label="whole model")
ax.set_xscale("log")
ax.set_xlabel("n-grams")
ax.set_ylabel("perplexity per token")
ax.grid(alpha=0.3)
ax.legend()
