"""
Perplexity by order
===================

This page shows how much longer contexts help. A log-linear model with the penalty
tree_l2 and two count-based models are trained on the same sentences at orders 2 to 6,
with fixed parameters, and scored on held-out sentences.

The text is Python's own help, so nothing is downloaded. The sentences are divided by
blocks, because neighbouring sentences have the same subject.
"""

import numpy as np

from sklstruct import StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.plotting import PerplexityDisplay
from sklstruct.smoothing import AdditiveLM, KneserNeyLM

sentences = load_python_topics(drop_repeated=True)
block = np.arange(len(sentences)) // 50
test_blocks = np.random.default_rng(0).permutation(block[-1] + 1)[:9]
is_test = np.isin(block, test_blocks)
train = [s for s, t in zip(sentences, is_test) if not t]
test = [s for s, t in zip(sentences, is_test) if t]
print(f"{len(train)} training and {len(test)} test sentences")

# %%
# Every model is a :class:`~sklstruct.language_model.LanguageModel`. Words that occur
# once are replaced by ``<unk>``.

estimators = {
    "additive (δ = 0.01)": AdditiveLM(delta=0.01),
    "modified Kneser-Ney": KneserNeyLM(),
    "log-linear, tree_l2": StructuredLogLinearLM(penalty="tree_l2", lam=0.8, alpha=1.2),
}
models = {
    name: [
        LanguageModel(estimator, max_depth=m, min_count=2).fit(train)
        for m in (1, 2, 3, 4, 5)
    ]
    for name, estimator in estimators.items()
}

# %%
# Additive smoothing uses only the longest known context, so its perplexity rises with
# the order. The other two models also use the shorter contexts.

display = PerplexityDisplay.from_estimator(models, test)
_ = display.ax_.set_title("Test perplexity, end marks and unknown words counted")

# %%
# The table shows the perplexity by the length of the longest known context (*depth*).
# Most test words follow at most one known word. The few words after a long known
# context are predicted with a high probability.

table = models["log-linear, tree_l2"][-1].perplexity_by_depth(test)
print("depth  tokens  perplexity")
for depth, n, value in zip(table.depth, table.n_tokens, table.perplexity):
    print(f"{depth:5d}  {n:6d}  {value:10.1f}")

# %%
# A model of order 6 predicts the next word from the last five words:

best = models["log-linear, tree_l2"][-1]
for word, probability in best.predict_next("the value of the", k=5):
    print(f"{probability:.3f}  {word}")
