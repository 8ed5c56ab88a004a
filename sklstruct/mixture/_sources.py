"""Sources: how fitted classifiers read the tokens of a language model."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.pipeline import Pipeline

from ..backoff import BackoffClassifier, Path
from ..backoff._readers import WindowReader
from ..loglinear import JointLogLinear
from ..symbols import TextWindows, encode
from ..word_classes import ContextRefiner


class TokenSources:
    """Creates the sources of the sub-models of a model; see `Distribution.compiled`.

    Tokens are 0 ... n_tokens - 1, and -1 for missing history. depth: columns of the
    windows that the classifiers were fitted on.
    """

    def __init__(self, n_tokens: int, depth: int) -> None:
        self.tokens, self.depth = np.arange(n_tokens, dtype=np.int32), depth
        self._arrays: dict[bytes, NDArray] = {}
        self._paths: dict[tuple, Path | None] = {}

    def windows(self, tokens: NDArray, end: NDArray) -> TextWindows:
        """The windows of the histories before ``tokens[end]``."""
        return TextWindows(tokens, end, self.depth).of_width(self.depth)

    def of_estimator(self, estimator: Any) -> Any:
        """The source of a fitted classifier; None if kernels cannot read its
        contexts."""
        steps, last = [], estimator
        while isinstance(last, Pipeline):
            *before, last = [step for _, step in last.steps]
            steps += before
        if hasattr(last, "part_") and not steps:
            return last.part_.source(self)
        if isinstance(last, JointLogLinear) and not steps:
            readers = zip(last._steps, last._step_symbols)
            of_trees = [
                self.of_steps([] if step is None else [step], symbols)
                for step, symbols in readers
            ]
            return None if None in of_trees else tuple(of_trees)
        symbol_of_id = getattr(last, "symbol_of_id", None)
        if symbol_of_id is not None and not steps:
            model = last.distribution_.model
            depth = max(1, model.max_depth)
            return Path(depth, model.n_symbols, [self._shared(symbol_of_id)] * depth)
        reader = getattr(last, "_reader", None)
        if isinstance(last, BackoffClassifier) and isinstance(reader, WindowReader):
            return self.of_steps(steps, reader.symbols)
        return None

    def of_steps(self, steps: list, symbols: NDArray | None) -> Path | None:
        """The path of a tree with these symbols after some transformers; equal paths
        are one object. None if a path cannot read the symbols."""
        if symbols is None or len(steps) > 1:
            return None
        key = (*steps, symbols.tobytes())
        if key not in self._paths:
            self._paths[key] = self._path_of(steps, symbols)
        return self._paths[key]

    def _path_of(self, steps, symbols):
        if not steps:
            table = encode(self.tokens[:, None], symbols)[:, 0]
            if np.array_equal(table[: symbols.size], self.tokens[: symbols.size]) and (
                (table[symbols.size :] < 0).all()
            ):
                return Path(self.depth, symbols.size)
            tables = [self._shared(table)] * self.depth
            return Path(self.depth, symbols.size, tables)
        (refiner,) = steps
        if type(refiner) is not ContextRefiner:
            return None
        # Transforming a window of equal tokens gives the token's symbol at every step.
        windows = np.repeat(self.tokens[:, None], self.depth, axis=1)
        # Not `transform`, which may give a data frame (`set_output`).
        made = encode(refiner.columns(windows).windows(), symbols)[:, ::-1]
        ids = refiner._encoder.ids(self.tokens, unknown=refiner._known.size)
        missing = refiner._missing[ids].astype(np.uint8)
        return Path(
            made.shape[1],
            symbols.size,
            [self._shared(column) for column in made.T],
            np.array([position for _, position in refiner.path_], dtype=np.int32),
            self._shared(missing) if missing.any() else None,
        )

    def _shared(self, array):
        """Equal arrays share memory, as many parts read words by the same classes."""
        array = np.ascontiguousarray(array)
        if array.dtype != np.uint8:
            array = array.astype(np.int32, copy=False)
        return self._arrays.setdefault(array.tobytes(), array)
