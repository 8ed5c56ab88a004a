"""
===============================
Which penalty, at which order
===============================

The penalties of :class:`~sklstruct.loglinear.StructuredLogLinearLM` on Python's help
texts: l1, l2, elastic net, and the two that act on whole subtrees of contexts. Their
strengths are chosen on held-out sentences by
:class:`~sklstruct.loglinear.StructuredLogLinearLMCV`, at orders 2 to 5.
"""

# %%
# Every fifth sentence is for the choice of strengths, every fifth for the test.

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
# A search goes through the strength and the weight of deep contexts in turn, each fit
# from the weights of the fit before.

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
display.ax_.set_title("Perplexity of other sentences by order")

# %%
# Perplexity and size
# -------------------
# The order matters more than the penalty: with squares or with subtrees, all come
# within about a percent of each other and of Kneser-Ney smoothing. l1 stays behind by
# some percent and keeps a third of the weights, and the tree penalties go on gaining
# where the others have stopped. Other contexts and mixtures go
# beyond all of them on the same text: see the ladder of language models.

print(f"{'':12s}" + "".join(f"{f'order {n}':>18s}" for n in orders))
for name, of_name in models.items():
    cells = ""
    for lm, value in zip(of_name, display.perplexity[name].values()):
        size = getattr(lm.estimator_, "n_parameters_", lm.backoff_model_.n_pairs)
        cells += f"{value:9.1f} {size:>8,}"
    print(f"{name:12s}{cells}")
