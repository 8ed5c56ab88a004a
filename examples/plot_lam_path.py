"""
Paths of strengths of a penalty
===============================

A penalty with absolute values keeps many weights at exactly zero. The larger the
strength `lam`, the more weights are zero. At `lam_max` and above, no context has a
weight, and the model has only probabilities of single words. If `lam` decreases from
`lam_max`, n-grams get a weight one after the other, first the n-grams whose count
differs most from the count that the model expects. Held-out sentences show which `lam`
is best.

The text is Python's own help, so nothing is downloaded.
"""

import matplotlib.pyplot as plt
import numpy as np

from sklstruct import StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import lam_max, lam_path

sentences = load_python_topics(drop_repeated=True)
block = np.arange(len(sentences)) // 50
test_blocks = np.random.default_rng(0).permutation(block[-1] + 1)[:9]
is_test = np.isin(block, test_blocks)
train = [s for s, t in zip(sentences, is_test) if not t]
test = [s for s, t in zip(sentences, is_test) if t]

# %%
# The text is counted once. Each fit starts from an extrapolation of the two fits
# before.

penalties = {
    "l1: single n-grams": "l1",
    "tree_l2: subtrees of longer and longer contexts": "tree_l2",
}
paths = {}
for title, penalty in penalties.items():
    model = StructuredLogLinearLM(penalty=penalty)
    lm = LanguageModel(model, max_depth=3, min_count=2)
    path = lam_path(lm, train, n_lams=28, eps=1e-3, X_val=test)
    paths[title] = path
    best = path.held_out_loss.argmin()
    print(f"{penalty}: lam_max {lam_max(lm, train):.1f}")
    print(
        f"  best lam {path.lams[best]:.2f}: {path.n_parameters[best]} of "
        f"{path.pairs.n_pairs} weights, perplexity "
        f"{np.exp(path.held_out_loss[best]):.1f}"
    )

# %%
# The example prints the n-grams that get a weight first on the l1 path:

path = paths["l1: single n-grams"]
symbols, classes = path.labels.symbols, path.labels.classes
contexts = path.pairs.tree.contexts(path.pairs.nodes())
coefs = path.coefs.toarray()
entered = np.where(coefs.any(axis=1), (coefs != 0.0).argmax(axis=1), path.lams.size)
entered[: path.pairs.n_classes] = path.lams.size
for pair in np.argsort(entered, kind="stable")[:10]:
    context = " ".join(symbols[contexts[pair]])
    word = classes[path.pairs.target[pair]]
    print(f"lam {path.lams[entered[pair]]:6.1f}: {context} -> {word}")

# %%
# The upper pictures show the forty largest weights for each length of the context. The
# lower pictures show the number of non-zero weights for each length, and the
# perplexity. With l1 the cost of a weight does not depend on the length of its context,
# so long contexts have weights as large as short contexts. The penalty tree_l2 adds the
# norm of the weights in each subtree of contexts. A weight of a long context is in more
# subtrees and costs more, so most of the large weights belong to short contexts.

fig, axes = plt.subplots(
    2, 2, figsize=(9.6, 6.4), sharex="col", layout="constrained", height_ratios=(3, 2)
)
colors = ["C0", "C1", "C2"]
for (title, path), (top, bottom) in zip(paths.items(), axes.T):
    coefs = path.coefs.toarray()
    depth = path.pairs.tree.levels()[path.pairs.nodes()]
    for k, color in enumerate(colors, start=1):
        of_depth = np.flatnonzero(depth == k)
        largest = of_depth[np.argsort(-coefs[of_depth, -1])[:40]]
        top.plot(path.lams, coefs[largest].T, color=color, lw=0.8, alpha=0.6)
        some = (coefs[of_depth] != 0.0).sum(axis=0)
        label = f"{k} symbol{'s' * (k > 1)} before"
        bottom.plot(path.lams, np.maximum(some, 0.7), color=color, label=label)
    top.set_title(title)
    bottom.set_yscale("log")
    bottom.set_xscale("log")
    bottom.invert_xaxis()
    bottom.set_xlabel("lam (decreasing)")
    right = bottom.twinx()
    right.plot(path.lams, np.exp(path.held_out_loss), "k--", label="perplexity")
    best = path.held_out_loss.argmin()
    right.plot(path.lams[best], np.exp(path.held_out_loss[best]), "k*", markersize=11)
    right.set_ylabel("held-out perplexity (dashed)")
    for ax in (top, bottom):
        ax.axvline(path.lams[best], color="k", lw=0.6, alpha=0.5)
        ax.grid(alpha=0.3)
axes[0, 0].set_ylabel("weight")
axes[1, 0].set_ylabel("weights that are not zero")
# The colours of the upper pictures are the same.
axes[0, 0].legend(*axes[1, 0].get_legend_handles_labels(), loc="upper left")
