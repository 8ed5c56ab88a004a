"""features="auto": the n-grams that classify best the texts that were not learned.

Linear models learn two thirds of some texts from the rows of each kind of n-grams, and
their log-losses of the other third are compared. The fold that calibrates probabilities
is too small for the choice: the log-losses of "letters" and "both" often differ by .02
nats, and the standard error of this difference is as large for 500 texts.

The models have the squared hinge and a rough tolerance, and are scaled to the texts
that they have not learned. The final classifier is fitted for the chosen n-grams only.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

from .._checks import INT32_MAX, as_indicator
from .._parallel import stop_flag
from ..linear import LinearClassifier
from ..linear._samples import single
from ..linear._solver import DescentSettings, NodeSolver
from ..linear._targets import Targets
from ..linear._trial import PausedDescents, fold_log_loss
from ..symbols import label_array

# Most texts that are compared, and the most pairs of a text and a class: of many
# classes a part is compared.
MOST_TRIED = 5_000
_MOST_PAIRS = 500_000


class Draw(NamedTuple):
    """The texts that are compared: their numbers, and the problem of their labels."""

    at: NDArray
    targets: Targets
    weight: NDArray
    held: NDArray  # places among `at` of the texts that are not learned
    seed: int

    @classmethod
    def of(cls, y: Any, weight: NDArray, rng: RandomState) -> Draw:
        targets = _targets_of(y)
        n, m = targets.n_samples, targets.n_outcomes
        part = _MOST_PAIRS / (min(n, MOST_TRIED) * m)
        if part < 1:  # texts of some classes, or all texts with some of the labels
            part = part if targets.several else np.sqrt(part)
            chosen = np.sort(rng.permutation(m)[: max(2, int(m * part))])
            at, targets = targets.among(chosen)
        else:
            at = np.arange(n)
        taken = np.sort(rng.permutation(at.size)[:MOST_TRIED])
        at, targets = at[taken], targets.take(taken)
        held = np.sort(rng.permutation(at.size)[: at.size // 3]).astype(np.int32)
        if not targets.several:  # a class of texts that are all held is not learned
            learned = np.ones(at.size, dtype=bool)
            learned[held] = False
            is_known = np.zeros(targets.n_outcomes, dtype=bool)
            is_known[targets.outcome[learned]] = True
            held = held[is_known[targets.outcome[held]]]
        return cls(at, targets, weight[at], held, int(rng.randint(1, INT32_MAX)))

    def log_loss(self, rows: Any, C: float) -> float:
        """Of the held texts, in nats per text; NaN if there are none.

        rows: those of the texts `at`.
        """
        if self.targets.n_outcomes == 1:
            return np.nan
        node = NodeSolver(single(rows), self.targets, self.weight, self.held)
        linear = LinearClassifier(tol=0.05)
        with stop_flag() as stop:
            settings = DescentSettings.of(linear, "squared_hinge", C, 0.0, stop)
            descents = PausedDescents.of(node, settings, self.seed)
            return fold_log_loss([node], [descents.fold_scores], "squared_hinge")


def _targets_of(y: Any) -> Targets:
    """Of one label for each text, or of an indicator matrix."""
    if len(np.shape(y)) == 2 and np.shape(y)[1] > 1:
        return Targets.of_indicator(as_indicator(y, "y"))
    y = y.toarray() if hasattr(y, "toarray") else y
    names, code = np.unique(np.ravel(label_array(y)), return_inverse=True)
    return Targets.one_each(code, names.size)
