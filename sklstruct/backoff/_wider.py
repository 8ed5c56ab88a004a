"""WiderModel: a model extended to more words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..symbols import Labels
from ._core_fast import Model, Wider
from ._distribution import Distribution
from ._trees_fast import Path


class WiderModel(Distribution):
    r"""A model extended to more words, which share the probability of its unknown word.

    .. math::
        P(y \mid x) = \frac{P_0(\langle unk\rangle \mid x)}{1 + m}

    for the unknown word and each of the m words that the model :math:`P_0` lacks, and
    :math:`P_0(y \mid x)` for the other words; the sums of rows do not change. If the
    model has no unknown word, the words that it lacks have probability 0.

    Parameters
    ----------
    model : Distribution
        A model over the classes of `own`; its `locate` gives the places of this model
        too.

    own : Labels
        The words of `model`, all of which are in `labels`.

    labels : Labels
        The words of this distribution.
    """

    def __init__(self, model: Distribution, own: Labels, labels: Labels) -> None:
        self.model, self.own, self.n_classes = model, own, labels.n_classes
        self.gate_depths = model.gate_depths
        self._class = own.encode_targets(labels.classes)
        lacking = self._class == own.unknown_id
        self._log_share = np.zeros(self.n_classes)
        if own.unknown_id >= 0:
            self._log_share[lacking] = -np.log(lacking.sum())
        else:
            self._log_share[lacking] = -np.inf

    def compiled(self, source: Any) -> Model:
        """As `Distribution.compiled`; a `Path` is read by the model."""
        if not isinstance(source, Path):
            return super().compiled(source)
        return self._over(self.model.compiled(source))

    def as_tokens(self, at: Any) -> tuple[Model, NDArray, NDArray]:
        """As `Distribution.as_tokens`."""
        model, tokens, end = self.model.as_tokens(at)
        return self._over(model), tokens, end

    def _over(self, model):
        return Wider(model, self._class, self._log_share)
