"""Where the trees come from: given, or built from a view of the data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import clone

from .._checks import INT32_MAX
from ..taxonomy import (
    TAXONOMY_BUILDERS,
    GivenTaxonomy,
    Taxonomy,
    TaxonomyBuilder,
    TreeShape,
    as_taxonomy,
    choose_shape,
)
from ._nodes import Samples, seeded

# Leaves that one routing node decides between.
_ONE_LEVEL = 256
# What builders are by name where nodes of many outcomes are cheap: with many classes of
# sparse samples, from few directions or from sparse means.
_WIDE_OPTIONS = {
    "cut": {"form": "class_means", "rank": 64},
    "kmeans": {"balanced": True, "spherical": True},
}


class Source(NamedTuple):
    """One tree: `given`, or made by `builder`, which sees all of the data or a view."""

    given: Taxonomy | None
    builder: Any
    view: RandomState | None
    max_depth: int | None
    max_leaf: int | None
    max_children: int | None

    def tree(self, samples: Samples, classes: NDArray) -> Taxonomy:
        """The taxonomy over exactly these classes, within the limits."""
        if self.given is not None:
            taxonomy = self.given
        elif classes.size == 1:
            return Taxonomy.flat(classes)
        else:
            X, code, weight = samples.X, samples.code, samples.weight
            if self.view is not None:
                X, code, weight = another_view(X, code, weight, self.view)
            taxonomy = self.builder.build(X, classes[code], sample_weight=weight)
        if self.max_depth is not None:
            taxonomy = taxonomy.cut(self.max_depth)
        if self.max_leaf is not None:
            taxonomy = taxonomy.stop_at(self.max_leaf)
        if self.max_children is not None:
            taxonomy = taxonomy.widen(self.max_children)
        return taxonomy


class Limits(NamedTuple):
    """How trees are to be: what the user said, and the shape where that pays."""

    max_depth: int | None
    max_leaf: int | None
    shape: TreeShape | None

    @classmethod
    def of(
        cls,
        samples: Samples,
        classes: NDArray,
        max_depth: int | None,
        max_leaf: int | None,
        wide: bool,
    ) -> Limits:
        """wide: whether nodes of many outcomes are cheap."""
        if not wide or not sp.issparse(samples.X):
            return cls(max_depth, max_leaf, None)
        shape = choose_shape(
            classes.size,
            *samples.X.shape,
            n_entries=samples.X.nnz,
            max_leaf=max_leaf,
        )
        return cls(max_depth, max_leaf, shape)


def sources(
    taxonomy: Any,
    n_taxonomies: int,
    classes: NDArray,
    limits: Limits,
    rng: RandomState,
) -> list[Source]:
    """The sources of all trees.

    All are checked before any is built, and seeded before any draw of the fits: how
    node models are fitted does not change the trees.
    """
    specs = taxonomy if isinstance(taxonomy, tuple) else (taxonomy,)
    found, seen = [], []
    for t in range(n_taxonomies):
        spec = specs[t % len(specs)]
        own = limits.max_depth, limits.max_leaf, None
        if isinstance(spec, str):
            spec, own = _by_name(spec, classes, n_taxonomies, limits)
        built = hasattr(spec, "build")
        spec = spec if built else as_taxonomy(spec, classes)
        again = any(_same(spec, other) for other in seen)
        if not again:
            seen.append(spec)
        elif isinstance(spec, GivenTaxonomy | Taxonomy):
            raise ValueError(
                "n_taxonomies averages different trees, but this one is given and "
                "would come twice; give a tuple of n_taxonomies trees or builders"
            )
        if built:
            # a seed of the user's would give the same tree again
            builder = seeded(clone(spec, safe=False), rng, replace=again)
            view = RandomState(rng.randint(INT32_MAX)) if again else None
            found.append(Source(None, builder, view, *own))
        else:
            found.append(Source(spec, None, None, *own))
    return found


def _by_name(
    name: str, classes: NDArray, n_taxonomies: int, limits: Limits
) -> tuple[TaxonomyBuilder | Taxonomy, tuple]:
    """(builder or flat tree, `max_depth`, `max_leaf` and `max_children` of it)"""
    if name not in TAXONOMY_BUILDERS and name != "auto":
        raise ValueError(
            f"taxonomy={name!r} is not the name of a builder; there are "
            f"{['auto', *sorted(TAXONOMY_BUILDERS)]}"
        )
    max_depth, max_leaf, shape = limits
    max_children, options = None, {}
    if shape is not None:
        if name == "auto" and shape.n_levels == 0 and n_taxonomies == 1:
            return Taxonomy.flat(classes), (None, None, None)
        # a mean of several needs trees that differ, of two leaves at least
        max_leaf = min(shape.max_leaf, max(classes.size // 2, 1))
        # leaves of unequal size are more than planned: one level all the same
        max_children = shape.max_children if shape.n_levels > 1 else _ONE_LEVEL
        options = _WIDE_OPTIONS.get("cut" if name == "auto" else name, {})
    builder = TAXONOMY_BUILDERS["cut" if name == "auto" else name]
    # every builder takes them: no splits that are cut off after
    builder = builder(max_depth=max_depth, max_leaf=max_leaf, **options)
    return builder, (max_depth, max_leaf, max_children)


def another_view(
    X: NDArray | sp.csr_matrix, code: NDArray, weight: NDArray, rng: RandomState
) -> tuple[NDArray | sp.csr_matrix, NDArray, NDArray]:
    """A bootstrap sample, within classes so that none is lost, and half the columns.

    What a builder that comes again sees. Rows alone change a tree too little for a
    mean of several to gain much. Node models are fitted to all of X.
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
    """Whether two parameters, with their own parameters, are equal."""
    if a is b or type(a) is not type(b):
        return a is b
    if not hasattr(a, "get_params"):
        return np.array_equal(a, b)
    a, b = a.get_params(deep=False), b.get_params(deep=False)
    return a.keys() == b.keys() and all(_same(a[key], b[key]) for key in a)
