"""
Nested groups in a classifier
=============================

With a penalty on nested groups, a feature can have a weight only if the features above
it in a tree have weights. Here the features are the wavelets of small pictures. Coarse
wavelets are at the top of the tree, and below each wavelet are the finer wavelets of
the same place. The classifier tells threes from eights, with the plain :math:`\\ell_1`
penalty and with nested groups (:class:`sklstruct.linear.TreeNorm`). The plain penalty
needs fewer wavelets, because it can use a fine wavelet alone. Nested groups choose
wavelets from coarse to fine, and the chosen wavelets form a picture that can be read.
Use nested groups if the features have such an order. If you only want few features, use
the plain penalty."""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

from sklstruct.linear import StructuredLogisticRegression, TreeNorm

# %%
# Wavelets as a tree
# ------------------
# Haar wavelets halve a picture again and again. The mean of every block of 2 x 2 pixels
# is used in the next step. Three differences of the block (left and right, top and
# bottom, diagonal) become features. In the tree, the difference of a block is above the
# same difference of the four blocks inside it.


def haar(pictures):
    """Features (n, 64) from coarse to fine, and the parent of each."""
    levels, parents = [], []
    while pictures.shape[1] > 1:
        n, size, _ = pictures.shape
        a, b, c, d = (pictures[:, i::2, j::2] for i in (0, 1) for j in (0, 1))
        differences = (a - b + c - d, a + b - c - d, a - b - c + d)
        levels.append([x / 2 for x in differences])
        pictures = (a + b + c + d) / 2
    blocks, parents, first = [pictures.reshape(n, 1)], [-1], {}
    for level, differences in enumerate(reversed(levels)):
        size = differences[0].shape[1]
        for kind, x in enumerate(differences):
            first[level, kind] = len(parents)
            for row in range(size):
                for column in range(size):
                    above = first.get((level - 1, kind))
                    inside = (row // 2) * (size // 2) + column // 2
                    parents.append(0 if above is None else above + inside)
            blocks.append(x.reshape(n, -1))
    return np.hstack(blocks), np.array(parents)


X, y = load_digits(return_X_y=True)
X, y = X[(y == 3) | (y == 8)], y[(y == 3) | (y == 8)]
features, parents = haar(X.reshape(-1, 8, 8))
# haar() is orthogonal: its matrix turns weights of wavelets into weights of pixels
pixels, _ = haar(np.eye(64).reshape(-1, 8, 8))
features = features / features.std()
parts = train_test_split(features, y == 3, test_size=0.5, random_state=0)
train, test, train_y, test_y = parts

# %%
# Twelve strengths of each penalty
# ---------------------------------
# The models are fitted with decreasing strength (increasing C). Every third model is
# printed.


def fit(penalty, C):
    model = StructuredLogisticRegression(penalty, C=C, fit_intercept=False)
    model.fit(train, train_y)
    return model.coef_.toarray()[0], model.score(test, test_y)


paths = {"l1": [], "nested groups": []}
for C in np.geomspace(0.04, 2.0, 12):
    paths["l1"].append(fit("l1", C))
    paths["nested groups"].append(fit(TreeNorm(parents, norm="l2"), 2 * C))

for name, path in paths.items():
    print(name)
    for w, accuracy in path[::3]:
        print(f"  {np.count_nonzero(w):2d} wavelets, accuracy {accuracy:.3f}")

# %%
# The chosen wavelets
# -------------------
# The two pictures show the weights of the models with about 16 wavelets, as weights of
# pixels. Red pixels speak for a three, and blue pixels for an eight, which has ink at
# the left.

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for name, path in paths.items():
    sizes = [np.count_nonzero(w) for w, _ in path]
    axes[0].plot(sizes, [a for _, a in path], marker="o", label=name)
axes[0].set(xlabel="wavelets", ylabel="accuracy on test pictures", ylim=(0.85, 1.0))
axes[0].legend()
shown = {
    name: min(path, key=lambda found: abs(np.count_nonzero(found[0]) - 16))
    for name, path in paths.items()
}
pictures = {name: (pixels @ w).reshape(8, 8) for name, (w, _) in shown.items()}
top = max(np.abs(picture).max() for picture in pictures.values())
for ax, (name, (w, accuracy)) in zip(axes[1:], shown.items()):
    image = ax.imshow(pictures[name], cmap="RdBu_r", vmin=-top, vmax=top)
    ax.set(
        title=f"{name}: {np.count_nonzero(w)} wavelets, {accuracy:.3f}",
        xticks=[],
        yticks=[],
    )
figure.colorbar(image, ax=axes[1:], label="weight of a pixel")
plt.show()
