"""WiderModel: a model over more words than its own."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..symbols import Labels
from ._distribution import Distribution, take


class WiderModel(Distribution):
    r"""A model over more words than its own; the others are its unknown word.

    .. math::
        P(y \mid x) = \frac{P_0(\langle unk\rangle \mid x)}{1 + m}

    for the unknown word and each of the m words that the model :math:`P_0` lacks, and
    :math:`P_0(y \mid x)` for the others; the sums of rows stay. If the model has no
    unknown word, the words that it lacks have probability 0.

    Parameters
    ----------
    model : Distribution
        Over the classes of `own`; its `locate` serves this model too.

    own : Labels
        Its words, all of which are in `labels`.

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

    def rows(self, at: Any) -> NDArray:
        rows = self.model.rows(at)[:, self._class]
        rows += self._log_share
        return rows

    def target(self, at: Any, y: NDArray) -> NDArray:
        out, own = self._log_share[y], self._class[y]
        known = np.flatnonzero(own >= 0)
        out[known] += self.model.target(take(at, known), own[known])
        return out

    def gate_features(self, at: Any) -> NDArray:
        return self.model.gate_features(at)
