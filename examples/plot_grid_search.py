"""
Tuning language models with GridSearchCV
========================================

A :class:`~sklstruct.language_model.LanguageModel` learns from sentences and has a
method ``score``, so ``GridSearchCV`` needs neither targets nor a scorer. An estimator
such as :class:`~sklstruct.loglinear.StructuredLogLinearLM` can also be tuned alone. It
learns from windows, the last symbols before each symbol, and needs a scorer of
:mod:`sklstruct.metrics`, because ``neg_log_loss`` of scikit-learn fails if a fold does
not contain all classes."""

import numpy as np
from sklearn.model_selection import GridSearchCV, KFold
from sklearn.pipeline import Pipeline

from sklstruct import StructuredLogLinearLM, SuffixTreeVectorizer
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.metrics import LikelihoodScorer
from sklstruct.symbols import context_windows

sentences = load_python_topics(drop_repeated=True)[:1200]

# %%
# A search with sentences
# -----------------------
# The parameters of the language model and of its estimator are tuned together. The
# score is the mean log-likelihood per token. ``KFold`` without shuffling keeps
# neighbouring sentences in the same fold.

search = GridSearchCV(
    LanguageModel(StructuredLogLinearLM(penalty="l2"), min_count=2),
    {
        "max_depth": [1, 3],
        "estimator__lam": [0.05, 0.15, 0.5, 1.5],
        "estimator__alpha": [0.4, 0.6, 0.8, 1.0],
    },
    cv=KFold(3),
).fit(sentences)
print(search.best_params_)
print(f"held-out perplexity {np.exp(-search.best_score_):.1f}")

# %%
# The good values lie along a diagonal: the smaller the weight ``alpha`` of long
# contexts, the smaller is the best strength ``lam`` of the penalty. ``lam`` is measured
# in counts, so good values do not change with the size of the text.

import matplotlib.pyplot as plt

results = search.cv_results_
depths = search.param_grid["max_depth"]
lams = search.param_grid["estimator__lam"]
alphas = search.param_grid["estimator__alpha"]
perplexity = {
    (p["max_depth"], p["estimator__lam"], p["estimator__alpha"]): np.exp(-score)
    for p, score in zip(results["params"], results["mean_test_score"])
}
low, high = min(perplexity.values()), max(perplexity.values())
figure, axes = plt.subplots(1, len(depths), figsize=(7, 4), layout="constrained")
for ax, depth in zip(axes, depths):
    table = np.array([[perplexity[depth, lam, a] for a in alphas] for lam in lams])
    ax.imshow(table, vmin=low, vmax=high, cmap="viridis", origin="lower", aspect="auto")
    for i, j in np.ndindex(table.shape):
        bright = table[i, j] < (low + high) / 2
        ax.text(
            j,
            i,
            f"{table[i, j]:.0f}",
            ha="center",
            va="center",
            color="white" if bright else "black",
        )
    ax.set_xticks(range(len(alphas)), alphas)
    ax.set_yticks(range(len(lams)), lams)
    ax.set_xlabel("alpha")
    ax.set_title(f"max_depth = {depth}")
axes[0].set_ylabel("lam")
_ = figure.suptitle("Held-out perplexity (dark: better)")

# %%
# A search with windows
# ---------------------
# Here the estimator is the last step of a pipeline with a
# :class:`~sklstruct.context_tree.SuffixTreeVectorizer`, for any sequence of symbols.
# The folds do not contain the same classes. Targets that do not occur in the training
# part are left out of the mean. With
# ``LikelihoodScorer("neg_perplexity", unknown=1e-3)`` these targets get a probability
# instead.

windows = context_windows([s for s in sentences[:600] if s], max_depth=3)
keep = windows.sample_weight > 0
symbols = np.append(windows.vocabulary, "")  # id -1: missing history
X, y = symbols[windows.contexts[keep]], symbols[windows.targets[keep]]

pipeline = Pipeline(
    [
        ("contexts", SuffixTreeVectorizer(padding="")),
        ("model", StructuredLogLinearLM(penalty="tree_l2")),
    ]
)
search = GridSearchCV(
    pipeline,
    {
        "contexts__max_depth": [1, 2, 3],
        "model__lam": [0.2, 0.5, 1.0],
        "model__alpha": [0.8, 1.1],
    },
    scoring=LikelihoodScorer("neg_perplexity"),
    cv=KFold(3),
).fit(X, y)
print(search.best_params_)
print(f"held-out perplexity of known words {-search.best_score_:.1f}")
