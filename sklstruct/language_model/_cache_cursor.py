"""CacheCursor: the state of a `CacheLM` after some words, and P of the next word."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..backoff import Distribution
from ._cache_state import CacheState


class CacheCursor(NamedTuple):
    """The state of a `CacheLM` after some words; see :meth:`CacheLM.begin`.

    Attributes
    ----------
    state : int or tuple of int
        State of the base, see :meth:`LanguageModel.begin`.

    cache : CacheState
        The cache after all words.

    begins : bool
        True if a sentence begins with the next word.
    """

    state: Any
    cache: CacheState
    begins: bool


class CacheModel(Distribution):
    """The distribution of a fitted `CacheLM`; contexts are arrays of `CacheCursor`."""

    def __init__(self, model: Any) -> None:
        self.model = model
        self.n_classes = model.base_.predictor.encoder.labels.n_classes

    def rows(self, at: NDArray) -> NDArray:
        """As `Distribution.rows`."""
        base, (mixer, _) = self.model.base_, self.model._compiled
        out = np.empty((len(at), self.n_classes))
        for row, cursor in zip(out, at):
            log_base = base.rows(cursor.state)
            cursor.cache.counts.row(mixer, cursor.begins, log_base, row)
        return out
