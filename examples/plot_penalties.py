"""
Penalties by order
==================

This page compares the penalties of :class:`~sklstruct.loglinear.StructuredLogLinearLM`
on Python's help: l1, l2, elastic net, and the two penalties on subtrees of contexts
(tree_l2 and tree_linf). :class:`~sklstruct.loglinear.StructuredLogLinearLMCV` chooses
the strengths on held-out sentences, at orders 2 to 5.
"""

# %%
# Every fifth sentence is used to choose the strengths, and another fifth of the
# sentences for the test.

import numpy as np

from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import StructuredLogLinearLM, StructuredLogLinearLMCV
from sklstruct.plotting import PerplexityDisplay
from sklstruct.smoothing import KneserNeyLM

text = load_python_topics(drop_repeated=True)
block = np.arange(len(text)) // 50 % 5  # neighbours stay together
parts = [[s for s, b in zip(text, block) if (b - 2).clip(0) == k] for k in range(3)]
train, valid, test = parts

# %%
# Tuned penalties
# ---------------
# The search changes the strength `lam` and the factor `alpha` of long contexts in turn.
# Each fit starts from the weights of the fit before.

orders = [2, 3, 4, 5]
begin = {"l1": (0.5, 0.8), "l2": (0.1, 0.7), "elastic_net": (0.2, 1.0)}
begin |= {"tree_l2": (0.9, 1.2), "tree_linf": (0.6, 0.9)}
models = {name: [] for name in ("Kneser-Ney", *begin)}
for name, of_name in models.items():
    for order in orders:
        estimator = KneserNeyLM()
        if name != "Kneser-Ney":
            lam, alpha = begin[name]
            estimator = StructuredLogLinearLMCV(
                StructuredLogLinearLM(penalty=name, lam=lam, alpha=alpha),
                search=("lam", "alpha"),
                max_fits=10,
            )
        lm = LanguageModel(estimator, max_depth=order - 1, min_count=2)
        held_out = {} if name == "Kneser-Ney" else {"X_val": valid}
        of_name.append(lm.fit(train, **held_out))

display = PerplexityDisplay.from_estimator(models, test)
display.ax_.set_title("Test perplexity by order")

# %%
# Perplexity and size
# -------------------
# The table shows the perplexity and the number of non-zero weights (of n-grams for
# Kneser-Ney smoothing). The order has a larger effect than the penalty. At each order,
# the perplexities of Kneser-Ney smoothing and of all penalties except l1 differ by less
# than three percent. From order 3 on l1 has the highest perplexity. At order 5 l1 has
# less than half as many non-zero weights as any other penalty. From order 4 to order 5
# the perplexity falls most with the tree penalties, by about one. Models with word
# classes and mixtures have lower perplexities on this text
# (:ref:`sphx_glr_auto_examples_language_models_plot_language_models.py`).

print(f"{'':12s}" + "".join(f"{f'order {n}':>18s}" for n in orders))
for name, of_name in models.items():
    cells = ""
    for lm, value in zip(of_name, display.perplexity[name].values()):
        best = getattr(lm.estimator_, "best_estimator_", None)
        size = best.n_parameters_ if best else lm.backoff_model_.n_pairs
        cells += f"{value:9.1f} {size:>8,}"
    print(f"{name:12s}{cells}")
