"""
Paths of strengths: weights that enter one by one
=================================================

A penalty with an absolute value keeps weights at exactly zero, the more the larger its
strength `lam` is. From `lam_max` on, no context has a weight and the model is that of
the unigrams. Below it, n-grams enter one by one: those first whose count is farthest
from what shorter contexts expect. A path shows in which order, and held-out sentences
say where to stop.

The text is that of Python's own help, so nothing is downloaded.
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
# The text is counted once. Each model begins on the line through the last two.

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
# Which n-grams are the first? The ones of the strongest models of the l1 path:

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
# Above, the forty largest weights of each length of the context. Below, how many
# weights there are of each length, and how well the model predicts. To l1 a weight has
# the same price wherever it is: one long context may carry the whole of a surprise, and
# the largest weights of all lengths are alike. With tree_l2 a longer context pays for
# all the groups that it lies in, so that the shorter ones carry most of what is to say.

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
    bottom.set_xlabel("lam, falling")
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
# Above, where there is room; the colours are the same.
axes[0, 0].legend(*axes[1, 0].get_legend_handles_labels(), loc="upper left")
