"""Where the trees come from: given, or built from a view of the data."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.random import RandomState
from numpy.typing import NDArray
from sklearn.base import clone

from .._checks import INT32_MAX
from ..taxonomy import TAXONOMY_BUILDERS, GivenTaxonomy, Taxonomy, as_taxonomy
from ._nodes import Samples, seeded


class Source(NamedTuple):
    """One tree: `given`, or made by `builder`, which sees all of the data or a view."""

    given: Taxonomy | None
    builder: Any
    view: RandomState | None

    def tree(
        self, samples: Samples, classes: NDArray, max_depth: int | None
    ) -> Taxonomy:
        """The taxonomy over exactly these classes, cut at `max_depth`."""
        if self.given is not None:
            taxonomy = self.given
        elif classes.size == 1:
            return Taxonomy.flat(classes)
        else:
            X, code, weight = samples.X, samples.code, samples.weight
            if self.view is not None:
                X, code, weight = another_view(X, code, weight, self.view)
            taxonomy = self.builder.build(X, classes[code], sample_weight=weight)
        return taxonomy if max_depth is None else taxonomy.cut(max_depth)


def sources(
    taxonomy: Any,
    n_taxonomies: int,
    classes: NDArray,
    max_depth: int | None,
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
        built = isinstance(spec, str) or hasattr(spec, "build")
        spec = _builder(spec, max_depth) if built else as_taxonomy(spec, classes)
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
            found.append(Source(None, builder, view))
        else:
            found.append(Source(spec, None, None))
    return found


def _builder(spec, max_depth):
    if not isinstance(spec, str):
        return spec
    if spec not in TAXONOMY_BUILDERS:
        raise ValueError(
            f"taxonomy={spec!r} is not the name of a builder; there are "
            f"{sorted(TAXONOMY_BUILDERS)}"
        )
    # every builder takes max_depth: no splits that are cut off after
    return TAXONOMY_BUILDERS[spec](max_depth=max_depth)


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
