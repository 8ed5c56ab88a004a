"""NGramSmoother: base of the smoothers that combine a context with its parent."""

from __future__ import annotations

from abc import abstractmethod
from numbers import Integral
from typing import Any

import numpy as np

from .._compat import Interval
from ..backoff import BackoffClassifier
from ..context_tree import Pairs
from ._base_distribution import BASE_CONSTRAINT, base_distribution
from ._shares import hand_down

# Blocks of the docstrings of all n-gram smoothers; see `shared_docs`.
DOCS: dict[str, str] = {
    "parameters": """
padding : object, default=None
    The symbol that marks missing history in dense X; see
    `sklstruct.context_tree.SuffixTreeVectorizer`.

classes : array-like of shape (n_classes,), default=None
    All classes that can be predicted. None: the targets that occur in `fit`. The
    probability of classes without samples is given by `base`. For the conventions of
    KenLM, include the unknown word and the end mark, but not the start mark.
""",
    "max_depth": """
max_depth : int, default=None
    Longest context m, in symbols; the n-grams have m + 1 symbols. None: the number of
    columns of X, or of levels of a path matrix. 0 is the unigram model.
""",
    "attributes": """
backoff_model_ : BackoffModel
    The model as flat arrays.

classes_ : ndarray of shape (n_classes,)
    The predictable symbols.

depth_ : int
    Length of the longest context in training, at most `max_depth`.

n_features_in_ : int
    Number of columns of X.

feature_names_in_ : ndarray of shape (`n_features_in_`,)
    Names of the columns of X, if it had string names.
""",
}
INTERPOLATE = r"""
interpolate : bool, default=True
    False gives the back-off form: no second term for symbols seen after n, and
    :math:`b(n) P(y \mid \mathrm{parent}(n))` for all other symbols, with b(n) such that
    the row sums to 1. A context after which all classes were seen interpolates in both
    forms.
"""
CONSTRAINTS: dict[str, Any] = {
    "max_depth": [None, Interval(Integral, 0, None, closed="left")],
    "base": BASE_CONSTRAINT,
    "padding": "no_validation",
    "classes": [None, "array-like"],
}


class NGramSmoother(BackoffClassifier):
    r"""Base of the smoothers that combine a context with its parent.

    .. math::
        P(y \mid n) = \mathrm{discounted}(n, y) + \mathrm{mass}(n)\, P(y \mid
        \mathrm{parent}(n)), \qquad
        \sum_y \mathrm{discounted}(n, y) + \mathrm{mass}(n) = 1 ,

    or, backing off, the discounted probability for the classes seen after n and
    :math:`b(n) P(y \mid \mathrm{parent}(n))` for the others. Subclasses define
    `_shares` and have the parameters `interpolate` and `base`.
    """

    base: Any
    interpolate: bool

    @abstractmethod
    def _shares(
        self, pairs: Pairs, count: np.ndarray, first_level: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The discounted probability of each pair and the back-off mass of each node.

        For the levels from first_level on. The probabilities may be written into
        `count`.
        """

    def _base_level(self, root: np.ndarray) -> tuple[np.ndarray, int]:
        """(the distribution above the depth `first`, `first`); root: counts of the
        root."""
        # A unigram estimator has already smoothed the counts. If they were smoothed
        # again, unseen classes would get only a part of their probability.
        first = 0 if isinstance(self.base, str) else 1
        return base_distribution(self.base, root, self.classes_), first

    def _fit_tree(self, pairs, count):
        root = count[: pairs.n_classes].copy()
        base, first = self._base_level(root)
        shares = self._shares(pairs, count, first)
        return hand_down(
            pairs, *shares, root, base, first, interpolate=self.interpolate
        )
