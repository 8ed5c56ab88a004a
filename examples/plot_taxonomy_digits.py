"""
A taxonomy of the ten digits
============================

`HierarchicalClassifier` learns a tree of the ten digits. Digits that a linear model can
separate easily are separated near the root. The tree is learned from the residuals of a
ridge regression, and a small classifier is fitted at every node. With ten classes the
flat model is more accurate and equally fast, but the whole tree can be shown.
"""

# %%
import matplotlib.pyplot as plt
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import train_test_split

from sklstruct import HierarchicalClassifier, LinearClassifier
from sklstruct.plotting import TaxonomyDisplay

X, y = load_digits(return_X_y=True)
X_train, X_test, y_train, y_test = train_test_split(
    X / 16, y, stratify=y, random_state=0
)

# %%
# The tree is printed as text. The children of a node near the root are easy to
# separate. Two digits that are the only children of a node are difficult to separate:
node = LinearClassifier("log_loss", C=0.1, calibration=None)
model = HierarchicalClassifier("cut", estimator=node, random_state=0)
model.fit(X_train, y_train)
print(model.taxonomy_.export_text())

# %%
# The picture shows the same tree. The colours show the accuracy of each node on test
# data.
TaxonomyDisplay.from_estimator(model, X_test, y_test)

# %%
# You can define a tree as a dict of groups, which can be nested. The names of the
# groups are at the nodes.
shapes = {"round": [0, 6, 8, 9], "straight": [1, 4, 7], "hooked": [2, 3, 5]}
given = HierarchicalClassifier(shapes, estimator=node).fit(X_train, y_train)
TaxonomyDisplay.from_estimator(given, X_test, y_test)

# %%
# The next lines print the accuracy, and the number of products of a sample with a
# weight vector that a prediction needs: of the flat model, of the tree above, and of
# the mean of three trees.
flat = LogisticRegression(C=0.1, max_iter=1000).fit(X_train, y_train)
print(f"flat        accuracy {flat.score(X_test, y_test):.3f}, 10 products")
for name, options in {
    "one tree": {"taxonomy": "cut"},
    "three trees": {"taxonomy": ("cut", "ward", "kmeans"), "n_taxonomies": 3},
}.items():
    model = HierarchicalClassifier(estimator=node, random_state=0, **options)
    model.fit(X_train, y_train)
    print(
        f"{name:11} accuracy {model.score(X_test, y_test):.3f}, "
        f"{model.n_dot_products(X_test).mean():.1f} products"
    )

# %%
# The picture shows trees of depth 0 to 4 of three builders. Depth 0 is the flat model.
# A deeper tree needs fewer products. A learned tree ("cut", "ward") loses less accuracy
# than a random tree ("rand").
fig, ax = plt.subplots(layout="constrained")
for name in ("cut", "ward", "rand"):
    products, accuracy = [], []
    for depth in range(5):
        model = HierarchicalClassifier(
            name, estimator=node, max_depth=depth, random_state=0
        ).fit(X_train, y_train)
        products.append(model.n_dot_products(X_test).mean())
        accuracy.append(model.score(X_test, y_test))
    ax.plot(products, accuracy, "o-", label=name)
ax.set(xlabel="products per sample", ylabel="accuracy")
ax.legend()
plt.show()
