"""
A taxonomy of the ten digits
============================

Which digits does a linear model tell apart last? `HierarchicalClassifier` learns a
tree over the classes from residuals of a ridge regression, and fits a small classifier
at every node. With ten classes the flat model is better and no slower; ten
are few enough to look at the whole tree.
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
# The tree, as text: the children of a node are easy to tell apart, the
# classes of a pair at the end hard.
node = LinearClassifier("log_loss", C=0.1, calibration=None)
model = HierarchicalClassifier("cut", estimator=node, random_state=0)
model.fit(X_train, y_train)
print(model.taxonomy_.export_text())

# %%
# The same as a dendrogram. Colours say which decisions go wrong on test data.
TaxonomyDisplay.from_estimator(model, X_test, y_test)

# %%
# A tree of your own is a dict of groups, in each other if need be. The names of the
# groups stand on the branches.
shapes = {"round": [0, 6, 8, 9], "straight": [1, 4, 7], "hooked": [2, 3, 5]}
given = HierarchicalClassifier(shapes, estimator=node).fit(X_train, y_train)
TaxonomyDisplay.from_estimator(given, X_test, y_test)

# %%
# Accuracy, and what a prediction costs: products of a sample with a weight vector.
flat = LogisticRegression(C=0.1, max_iter=1000).fit(X_train, y_train)
print(f"flat        accuracy {flat.score(X_test, y_test):.3f}, 10 products")
for name, options in {
    "one tree": {},
    "three trees": {"taxonomy": ("cut", "ward", "kmeans"), "n_taxonomies": 3},
}.items():
    model = HierarchicalClassifier(estimator=node, random_state=0, **options)
    model.fit(X_train, y_train)
    print(
        f"{name:11} accuracy {model.score(X_test, y_test):.3f}, "
        f"{model.n_dot_products(X_test).mean():.1f} products"
    )

# %%
# Depth 0 is the flat model; every level more saves products. A learned tree
# loses less on the way than a random one.
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
