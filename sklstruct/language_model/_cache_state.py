"""CacheState: the counts of a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ._cache_fast import Counts, Mixer


class CacheSettings(NamedTuple):
    """Words and half-lives of a cache; see the parameters of `CacheLM`."""

    n_classes: int  # words that are predicted
    max_order: int
    half_life: tuple[float, ...]
    ngram_half_life: tuple[float, ...]
    class_half_life: tuple[float, ...]
    length: int | None
    class_of: NDArray | None  # int32, the class of each word
    learning_rate: tuple[float, ...]
    learning_half_life: float


class ScoredWords(NamedTuple):
    """Words of a text, and their probabilities in the base."""

    words: NDArray  # (n,) int32 class ids, negative for a word without class
    first: NDArray  # (n,) uint8: SENTENCE or DOCUMENT at its first word, else WITHIN
    log_base: NDArray  # (n,) ln P of the word
    of_base: NDArray | None  # (n, n_groups) P of each class of words


class Recalled(NamedTuple):
    """Data from which weights are learned, for each word of a text."""

    log_parts: NDArray  # (n, n_parts) ln P in each part; NaN for a word without class
    features: NDArray  # (n, n_features) of the gate
    in_class: NDArray  # (n, 2 * n_half_lives) counts of the word and of its class


class CacheState:
    """The counts of the words that a `CacheLM` has read.

    :meth:`CacheLM.new_state` creates a state, :meth:`CacheLM.score_stream` reads and
    changes the state. A state can be pickled, and used further in another process. A
    state takes memory for the different n-grams of the text, not for the vocabulary.

    Parameters
    ----------
    settings : CacheSettings
        Settings of the model, which `CacheLM.fit` has checked.

    Attributes
    ----------
    n_words_ : int
        Words read since the last reset.
    """

    def __init__(self, settings: CacheSettings) -> None:
        self.counts = Counts(settings)

    @property
    def n_words_(self) -> int:
        """Words read since the last reset."""
        return self.counts.n_read

    def reset(self) -> CacheState:
        """Forget everything, as at the beginning of a document.

        Returns
        -------
        self : CacheState
            The same state, without counts.
        """
        self.counts.reset()
        return self

    def copy(self) -> CacheState:
        """An independent copy.

        Returns
        -------
        state : CacheState
            With the same counts; neither state changes the other.
        """
        other = CacheState.__new__(CacheState)
        other.counts = self.counts.copy()
        return other

    def read(self, mixer: Mixer, at: ScoredWords, *records: NDArray) -> NDArray:
        """ln P of each word of a text before the word is counted; records: arrays that
        `Counts.read` writes to, with a row for each word."""
        out = np.empty(at.words.size)
        self.counts.read(mixer, *at, out, *records)
        return out

    def recall(self, mixer: Mixer, blocks: Sequence[ScoredWords]) -> Recalled:
        """Read a text, and return the data from which weights are learned."""
        settings: CacheSettings = self.counts.settings
        n = sum(at.words.size for at in blocks)
        found = Recalled(
            np.full((n, mixer.n_parts), np.nan),
            np.zeros((n, 1 + 3 * settings.max_order)),
            np.zeros((n, 2 * len(settings.class_half_life))),
        )
        begin = 0
        for at in blocks:
            here = slice(begin, begin + at.words.size)
            self.read(mixer, at, *(array[here] for array in found))
            begin = here.stop
        return found


def checked_state(state: CacheState | None, settings: CacheSettings) -> CacheState:
    """The state, if a model with these settings can use it; None: a new state.

    TypeError if it is not a CacheState; ValueError if the settings of the state differ.
    """
    if state is None:
        return CacheState(settings)
    if not isinstance(state, CacheState):
        raise TypeError(
            f"state must be a CacheState (see new_state), got {type(state).__name__}"
        )
    pairs = zip(state.counts.settings, settings)
    if not all(np.array_equal(np.asarray(a), np.asarray(b)) for a, b in pairs):
        raise ValueError(
            "state is of another model: it has other words, classes or parameters; "
            "make a state with new_state"
        )
    return state
