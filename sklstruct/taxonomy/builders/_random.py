"""RAND: a balanced random tree, for comparison."""

from __future__ import annotations

from typing import ClassVar

from numpy.random import RandomState

from ._base import TaxonomyBuilder
from ._top_down import split_top_down


class RandomSplit(TaxonomyBuilder):
    """Splits the classes at random into two halves, for comparisons ("rand").

    Parameters
    ----------
    max_depth : int, default=None
        Largest depth of the tree, >= 0; None does not limit it.

    max_leaf : int, default=None
        Nodes with at most `max_leaf` classes are not split, >= 1. None splits down to
        single classes.

    random_state : int, RandomState or None, default=None
        Seed.

    Examples
    --------
    >>> from sklstruct.taxonomy import RandomSplit
    >>> tree = RandomSplit(random_state=0).build([[0.0]] * 8, range(8))
    >>> tree.depth, tree.n_nodes
    (3, 15)
    """

    short_name = "rand"

    random_state: int | RandomState | None = None

    _parameter_constraints: ClassVar[dict] = {
        "random_state": ["random_state"],
    }

    def _parents(self, X, codes, weight, rng):
        k = int(codes.max()) + 1
        order = rng.permutation(k)

        def split(members, _):
            half = members.size // 2
            return members[:half], members[half:], None, None

        parent, leaf = split_top_down(k, split, self.max_depth, self.max_leaf)
        return parent, leaf[order]
