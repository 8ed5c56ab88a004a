"""TaxonomyClustering: the classes of words at a level of a tree."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from .._compat import Interval, StrOptions, _fit_context
from ..symbols import Labels
from ..symbols._encoding import SymbolIndex
from ..taxonomy import TAXONOMY_BUILDERS, Taxonomy, TaxonomyBuilder
from ._clustering import WordClustering
from ._counts import count_neighbours


class TaxonomyClustering(WordClustering):
    r"""Word classes from a taxonomy of the words, cut at a level.

    .. math::
        g(w) = \text{the node at level } \mathtt{depth} \text{ above } w,
        \text{ or its leaf, if that is higher.}

    Two cuts of one tree at different levels are nested, so a path of a `ContextRefiner`
    can contain coarse and fine classes of one tree.

    Parameters
    ----------
    taxonomy : Taxonomy, TaxonomyBuilder or name
        The tree. A `Taxonomy` over words is used as it is. A builder, or its name in
        `TAXONOMY_BUILDERS`, learns a tree from the distributions of the neighbours,
        :math:`\sqrt{P(f \mid w)}`, whose distances are Hellinger distances. Every word
        is one class of the builder: choose one that is fast for many classes, such as
        ``KMeansSplit(balanced=True, spherical=True)``.

    depth : int, default=1
        Level of the cut, at least 1.

    offsets : tuple of int, default=(-1, 1)
        Places of the neighbours, for a builder; as in `ExchangeClustering`.

    padding : object, default=None
        The symbol that marks missing history in windows. It has no class.

    names : array-like of shape (n,), default=None
        For windows of ids: ``names[i]`` is the word of the id i in the taxonomy. A
        :class:`~sklstruct.language_model.LanguageModel` sets it.

    Attributes
    ----------
    symbols_ : ndarray of shape (n_symbols,)
        The words of the taxonomy, or their ids, sorted.

    labels_ : int32 ndarray of shape (n_symbols,)
        The class of each, in the order of the nodes.

    n_clusters_ : int
        Number of classes. It is also the class of `classes_of` for words that the
        taxonomy does not have.

    taxonomy_ : Taxonomy
        The whole tree.

    See Also
    --------
    class_taxonomy : A tree above the classes of an ExchangeClustering.

    ExchangeClustering : Classes without a tree.

    Examples
    --------
    >>> from sklstruct.taxonomy import Taxonomy
    >>> from sklstruct.word_classes import TaxonomyClustering
    >>> tree = Taxonomy.from_nested([["cat", "dog"], [["car"], ["bus", "tram"]]])
    >>> for depth in (1, 2):
    ...     clustering = TaxonomyClustering(tree, depth=depth).fit(["a cat", "a car"])
    ...     print(clustering.classes_of(["cat", "dog", "car", "bus", "tram", "pear"]))
    [0 0 1 1 1 2]
    [0 0 1 2 2 3]
    """

    _parameter_constraints: dict = {
        "taxonomy": [Taxonomy, TaxonomyBuilder, StrOptions(set(TAXONOMY_BUILDERS))],
        "depth": [Interval(numbers.Integral, 1, None, closed="left")],
        "offsets": [tuple, list],
        "padding": "no_validation",
        "names": "no_validation",
    }

    def __init__(
        self,
        taxonomy: Taxonomy | TaxonomyBuilder | str,
        depth: int = 1,
        *,
        offsets: Iterable[int] = (-1, 1),
        padding: Any = None,
        names: ArrayLike | None = None,
    ):
        self.taxonomy = taxonomy
        self.depth = depth
        self.offsets = offsets
        self.padding = padding
        self.names = names

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike | None = None) -> TaxonomyClustering:
        """Cut the taxonomy, or learn one from X and cut it.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns), TextFile or sentences
            Windows or sentences, as in `ExchangeClustering`. Ignored for a given
            `Taxonomy`.

        y : array-like of shape (n_samples,), default=None
            The symbol after each window.

        Returns
        -------
        self : TaxonomyClustering
            Fitted clustering.

        Raises
        ------
        ValueError
            If no word of `names` is in the taxonomy.
        """
        tree = self.taxonomy
        if not isinstance(tree, Taxonomy):
            tree = self._build(X, y)
        words, label = tree.classes, _leaf_numbers(tree.limit(max_depth=self.depth))
        if tree is self.taxonomy and self.names is not None:
            words, label = self._ids_of(words, label)
        self.taxonomy_ = tree
        self.n_clusters_ = int(label.max()) + 1
        self._set_symbols(words, label)
        return self

    def _ids_of(self, words, label):
        """(ids whose word is in the taxonomy, their classes without gaps)."""
        names = np.asarray(self.names)
        at = SymbolIndex(words).ids(names)
        known = np.flatnonzero(at >= 0)
        if known.size == 0:
            raise ValueError(
                f"taxonomy has none of the {names.size} words of the text; it has "
                f"{words[0]!r} and others"
            )
        label = np.unique(label[at[known]], return_inverse=True)[1]
        return known.astype(np.int32), label.ravel().astype(np.int32)

    def _build(self, X, y):
        symbols, counts, _ = count_neighbours(self, X, y, self.offsets)
        weight = np.asarray(counts.sum(axis=1, dtype=np.int64)).ravel()
        seen = weight > 0
        counts, symbols = counts[seen].astype(np.float64), symbols[seen]
        row = np.repeat(np.arange(symbols.size), np.diff(counts.indptr))
        counts.data = np.sqrt(counts.data / weight[seen][row])
        builder = self.taxonomy
        builder = TAXONOMY_BUILDERS[builder]() if isinstance(builder, str) else builder
        return clone(builder).build(counts, symbols)

    def __sklstruct_ids__(self, labels: Labels) -> dict[str, Any]:
        """Parameters for windows of ids: missing history is -1; `names` of a tree."""
        settings = super().__sklstruct_ids__(labels)
        if isinstance(self.taxonomy, Taxonomy):
            settings["names"] = labels.symbols
        return settings


def _leaf_numbers(tree):
    """The leaf of each class, numbered without gaps."""
    leaves = np.unique(tree.leaf_of_class, return_inverse=True)[1]
    return leaves.ravel().astype(np.int32)
