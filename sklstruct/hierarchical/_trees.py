"""Sources of trees: given trees, and builders with the data that they get."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import clone

from .._checks import INT32_MAX
from ..linear._samples import Samples, is_sparse
from ..taxonomy import Taxonomy, TreeShape, as_taxonomy, choose_shape
from ..taxonomy.builders._named import named_builder
from ._nodes import TrainingSet, seeded

# Largest number of leaves below one routing node of a tree of one routing level.
_ONE_LEVEL = 256
# Parameters of builders by name, for sparse samples of many classes and nodes of many
# outcomes.
_WIDE_OPTIONS: dict[str, dict[str, Any]] = {
    "cut": {"form": "class_means", "rank": 64},
    "kmeans": {"balanced": True, "spherical": True},
}


# A flat logistic regression is more accurate than a tree. The default is flat up to
# this number of classes, or of classes times values of X.
_FLAT_CLASSES = 100
_FLAT_PRODUCTS = 1e9


class TreeSource(NamedTuple):
    """A given tree, or a builder, which gets all of the data or `another_view`."""

    given: Taxonomy | None
    builder: Any
    view: RandomState | None  # seed of `another_view`; None: all of the data
    bounds: dict[str, int | None]  # of `Taxonomy.limit`

    def tree(self, data: TrainingSet, classes: NDArray) -> Taxonomy:
        """The taxonomy over exactly these classes, within the bounds."""
        if self.given is not None:
            taxonomy = self.given
        elif classes.size <= 1 + data.several:
            return Taxonomy.flat(classes)
        else:
            X, code, weight = data.by_label()
            if self.view is not None:
                X, code, weight = another_view(X, code, weight, self.view)
            taxonomy = self.builder.build(X, classes[code], sample_weight=weight)
        return taxonomy.limit(**self.bounds)


class Limits(NamedTuple):
    """The bounds of the user, and the shape of `choose_shape` if nodes are `wide`."""

    max_depth: int | None
    max_leaf: int | None
    shape: TreeShape | None
    flat: bool = False  # "auto" has one leaf


def shape_for(data: TrainingSet, max_leaf: int | None) -> TreeShape:
    """The shape of the tree if `NodeModels.wide`."""
    return choose_shape(
        data.n_classes, *data.X.shape, n_entries=_n_entries(data), max_leaf=max_leaf
    )


def flat_pays(data: TrainingSet) -> bool:
    """Whether a flat logistic regression is cheap enough to be the default.

    If not, the default is a tree with the nodes of a `LinearClassifier`.
    """
    products = float(_n_entries(data)) * data.n_classes
    return data.n_classes <= _FLAT_CLASSES or products <= _FLAT_PRODUCTS


def _n_entries(data):
    return data.X.nnz if is_sparse(data.X) else data.X.size


def tree_sources(
    taxonomy: Any, n_taxonomies: int, classes: NDArray, limits: Limits, rng: RandomState
) -> list[TreeSource]:
    """The sources of all trees.

    All sources are checked before the first tree is built, and seeded before the fits
    draw random numbers: the trees do not depend on how node models are fitted.
    """
    specs = taxonomy if isinstance(taxonomy, tuple) else (taxonomy,)
    found: list[TreeSource] = []
    seen: list[Any] = []
    for t in range(n_taxonomies):
        source = as_source(specs[t % len(specs)], classes, n_taxonomies, limits)
        builder = source.builder
        spec = source.given if builder is None else builder
        again = any(_same(spec, other) for other in seen)
        if not again:
            seen.append(spec)
        elif isinstance(spec, Taxonomy):
            raise ValueError(
                "n_taxonomies averages different trees, but the given tree would be "
                "used twice; give a tuple of n_taxonomies trees or builders"
            )
        if builder is not None:
            # with the user's own seed the tree would be the same again
            builder = seeded(clone(builder, safe=False), rng, replace=again)
            view = RandomState(rng.randint(INT32_MAX)) if again else None
            source = source._replace(builder=builder, view=view)
        found.append(source)
    return found


def as_source(
    spec: Any, classes: NDArray, n_taxonomies: int, limits: Limits
) -> TreeSource:
    """The source of one tree, from any form of it: a name, a builder or a tree."""
    bounds = {"max_depth": limits.max_depth, "max_leaf": limits.max_leaf}
    if isinstance(spec, str):
        return _by_name(spec, classes, n_taxonomies, limits)
    if hasattr(spec, "build"):
        return TreeSource(None, spec, None, bounds)
    return TreeSource(as_taxonomy(spec, classes), None, None, bounds)


def _by_name(
    name: str, classes: NDArray, n_taxonomies: int, limits: Limits
) -> TreeSource:
    max_depth, max_leaf, shape, flat = limits
    if name == "auto" and flat and n_taxonomies == 1:
        return TreeSource(Taxonomy.flat(classes), None, None, {})
    plain = "cut" if name == "auto" else name
    builder = named_builder(plain, "taxonomy", ["auto"])
    max_children, options = None, dict[str, Any]()
    if shape is not None:
        # two leaves at least: the trees of a mean must differ
        max_leaf = min(shape.max_leaf, max(classes.size // 2, 1))
        # leaves may differ in size, so their number is not known: keep to one level
        max_children = shape.max_children if shape.n_levels > 1 else _ONE_LEVEL
        options = _WIDE_OPTIONS.get(plain, {})
    # every builder has these parameters, and then makes no split that would be cut off
    bounds = {"max_depth": max_depth, "max_leaf": max_leaf}
    builder.set_params(**bounds, **options)
    return TreeSource(None, builder, None, {**bounds, "max_children": max_children})


def another_view(
    X: Samples, code: NDArray, weight: NDArray, rng: RandomState
) -> tuple[Samples, NDArray, NDArray]:
    """A bootstrap sample within classes, so that no class is lost, of half the columns.

    A builder that is used again gets this data: a bootstrap of the rows alone changes
    the tree too little for a mean of trees to gain much. Node models use all of X.
    """
    order = np.argsort(code, kind="stable")
    counts = np.bincount(code)
    first = np.repeat(np.cumsum(counts) - counts, counts)
    drawn = (rng.random_sample(code.size) * np.repeat(counts, counts)).astype(np.int64)
    times = np.bincount(order[first + drawn], minlength=code.size)
    rows = np.flatnonzero(times)
    columns = np.sort(rng.permutation(X.shape[1])[: (X.shape[1] + 1) // 2])
    return X[rows][:, columns], code[rows], weight[rows] * times[rows]


def _same(a, b):
    """Whether two parameters are equal; estimators are compared by their parameters."""
    if a is b or type(a) is not type(b):
        return a is b
    if not hasattr(a, "get_params"):
        return np.array_equal(a, b)
    a, b = a.get_params(deep=False), b.get_params(deep=False)
    return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
