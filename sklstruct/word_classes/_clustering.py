"""WordClustering: base of the maps from words to classes."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from collections.abc import Iterable
from functools import cached_property
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from .._compat import BaseEstimator
from ..symbols import Labels, is_nan, label_array
from ..symbols._encoding import SymbolIndex


class WordClustering(BaseEstimator, metaclass=ABCMeta):
    """Base of the clusterings of symbols.

    A subclass has a parameter `padding`, and its `fit` sets ``symbols_``, ``labels_``
    and ``n_clusters_``. The path of a `ContextRefiner` takes any object with
    ``fit(X, y)``, ``classes_of(symbols)`` and ``n_clusters_``.
    """

    padding: Any
    symbols_: np.ndarray
    labels_: np.ndarray
    n_clusters_: int

    @abstractmethod
    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn the symbols and the class of each."""

    def classes_of(self, symbols: ArrayLike) -> np.ndarray:
        """The class of each symbol.

        Parameters
        ----------
        symbols : array-like of any shape
            Symbols, such as words.

        Returns
        -------
        classes : int32 ndarray of the shape of `symbols`
            0 ... ``n_clusters_ - 1``; ``n_clusters_``, a separate class, for a symbol
            that was not seen in `fit`; -1 for a missing one (None, NaN, `padding`).

        Raises
        ------
        TypeError
            If `symbols` is not an array, or a single string.
        """
        check_is_fitted(self)
        if not isinstance(symbols, Iterable) or isinstance(symbols, str):
            raise TypeError(
                f"symbols must be an array of symbols, got {type(symbols).__name__}"
            )
        array = label_array(symbols)
        flat = array.reshape(-1)
        # Entry n is for unseen symbols, entry -1 (the last) for missing ones.
        table = np.append(self.labels_, [self.n_clusters_, -1]).astype(np.int32)
        ids = self._encoder.ids(flat, unknown=self.symbols_.size)
        if self.padding is not None and not is_nan(self.padding):
            ids = np.where(flat == self.padding, np.int32(-1), ids)
        return table[ids].reshape(array.shape)

    def _set_symbols(self, symbols, labels):
        self.symbols_, self.labels_ = symbols, labels
        # Created here, because methods of a fitted estimator must not set attributes.
        self._encoder = SymbolIndex(symbols)

    @cached_property
    def _encoder(self):
        return SymbolIndex(self.symbols_)

    def __sklstruct_ids__(self, labels: Labels) -> dict[str, Any]:
        """Parameters for windows of ids: missing history is -1."""
        return {"padding": -1}
