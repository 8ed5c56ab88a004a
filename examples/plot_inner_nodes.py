"""
Answers at inner nodes of a tree
================================

A classifier that is not sure of the class may be sure of a group of classes.
`predict_at` returns the deepest node of the tree that has at least a given probability.
Such answers are useful if the classes that the model confuses are below one node.
Otherwise the answer is often the root, which stands for any class.
"""

# %%
# The data are images of digits with less contrast and added noise, so that many digits
# are hard to recognise.
import matplotlib.pyplot as plt
import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import confusion_matrix
from sklearn.model_selection import train_test_split

from sklstruct import HierarchicalClassifier, LinearClassifier
from sklstruct.metrics import hierarchical_precision_score

X, y = load_digits(return_X_y=True)
X = X / 32 + 0.2 * np.random.default_rng(0).normal(size=X.shape)
X_train, X_test, y_train, y_test = train_test_split(X, y, stratify=y, random_state=0)

# %%
# Three trees are compared: groups of digits with similar shapes, random groups, and a
# learned tree. The groups of the first tree have names.
shapes = {
    "round": {"one hole": [0, 6, 9], "two holes": [8]},
    "angular": {"straight": [1, 4, 7], "hooked": [2, 3, 5]},
}
trees = {"by shape": shapes, "at random": "rand", "learned": "ward"}
node = LinearClassifier("log_loss", C=10, calibration=None)
models = {
    name: HierarchicalClassifier(tree, estimator=node, random_state=0).fit(
        X_train, y_train
    )
    for name, tree in trees.items()
}
model = models["by shape"]
tree = model.taxonomy_
for path, digit in zip(model.predict_at(X_test[:8], threshold=0.8), y_test[:8]):
    print(f"true {digit}: {' / '.join(path[path != '']) or 'some digit'}")

# %%
# The probability of a group is found by the name of the group. The confusion matrix
# counts groups.
P = model.predict_node_proba(X_test)
print("P(round | x) of the first five:", P[:5, tree.find("round")].round(2))
level = tree.label_paths(y_test)[:, 1], tree.label_paths(model.predict(X_test))[:, 1]
groups = ["one hole", "8", "straight", "hooked"]
print(confusion_matrix(*level, labels=groups))

# %%
# The picture shows which share of the answers is a digit, a group or the root (no
# answer), for each required confidence. The smaller the green area, the better. In the
# learned tree, the digits that the model confuses are below the same node, so most
# answers are a digit or a group. With random groups, the model is rarely sure of a
# group if it is not sure of the digit. The share of answers that are a digit or a group
# is smaller with the groups by shape than with the learned tree, and larger than with
# random groups.
confidences = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99])
figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), sharey=True, layout="tight")
for ax, (name, model) in zip(axes, models.items()):
    ends = {"".join(p) for p in model.taxonomy_.label_paths(range(10))}
    true, shares = model.taxonomy_.label_paths(y_test), []
    for confidence in confidences:
        paths = model.predict_at(X_test, confidence)
        digit = np.array(["".join(p) in ends for p in paths])
        root = (paths == "").all(axis=1)
        shares.append([digit.mean(), (~digit & ~root).mean(), root.mean()])
        if confidence == 0.9:
            right = hierarchical_precision_score(true, paths)
            print(
                f"{name:10} at .9: digits {shares[-1][0]:.2f}, groups "
                f"{shares[-1][1]:.2f}, precision of the nodes {right:.3f}; accuracy "
                f"of predict {model.score(X_test, y_test):.3f}"
            )
    ax.stackplot(
        confidences, np.transpose(shares), labels=["a digit", "a group", "no answer"]
    )
    ax.set(title=name, xlabel="confidence", xlim=(0.5, 0.99), ylim=(0, 1))
axes[0].set_ylabel("share of the answers")
axes[0].legend(loc="lower left")

# %%
# `predict_set` returns a set of digits and does not need groups. The example prints the
# size of the smallest set with a probability of at least .9:
sets = models["by shape"].predict_set(X_test, alpha=0.1)
size = np.diff(sets.indptr)
covered = sets[np.arange(len(y_test)), y_test].mean()
print(f"{size.mean():.2f} on average, and holds the true digit in {covered:.3f}")
plt.show()
