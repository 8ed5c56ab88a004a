"""A smoother that distributes the mass of the unseen classes along a graph."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import HasMethods, Interval
from .._base_distribution import base_distribution
from ._base import UnigramSmoother
from ._good_turing import GoodTuringUnigram
from ._graphs import GRAPH_CONSTRAINT, check_rows, read_graph


class GraphSpreadUnigram(UnigramSmoother):
    r"""Unigram distribution that distributes the unseen mass along a graph of words.

    Seen classes keep their probability under `base`. Unseen classes y have

    .. math::
        P(y) = \lambda\, p_0\, s(y) + (1 - \lambda)\, b(y),
        \qquad
        s(y) \propto \sum_{x\ \mathrm{seen}} \frac{w(x, y)}{d(x)} ,

    for b the distribution `base`, :math:`p_0` the sum of b over the unseen classes, w
    the similarity of two words and d its row sum. The shares s sum to 1 over the unseen
    classes. s(y) is the probability that one step of a random walk from a random seen
    class leads to y.

    Parameters
    ----------
    graph : array, callable or None, default=None
        The similarities, as in `GraphDiffusionUnigram`. None: s is uniform.

    spread : float, default=0.5
        :math:`\lambda`, in [0, 1]. Tune it on held-out text. With 1, unseen
        classes without a seen neighbour have probability 0.

    base : unigram estimator, default=None
        The distribution b. None takes ``GoodTuringUnigram()``.

    {classes_parameter}

    Attributes
    ----------
    reached_ : int
        Number of unseen classes with a seen neighbour. If it is 0, P is `base`.

    {shared_attributes}

    See Also
    --------
    group_graph : Connects the words of a group.

    Examples
    --------
    "cats" was not seen, but its neighbour "cat" was.

    >>> import numpy as np
    >>> from sklstruct.smoothing import AdditiveUnigram, GraphSpreadUnigram, group_graph
    >>> words = np.array(["cat", "cats", "dog", "hut"])
    >>> graph = group_graph(["cat", "cat", "dog", "hut"])
    >>> model = GraphSpreadUnigram(graph, base=AdditiveUnigram(0.5))
    >>> model.from_counts([2, 0, 2, 0], words).proba_.round(4).tolist()
    [0.4167, 0.125, 0.4167, 0.0417]
    """

    _parameter_constraints: dict = {
        "graph": [None, *GRAPH_CONSTRAINT],
        "spread": [Interval(Real, 0, 1, closed="both")],
        "base": [None, HasMethods(["from_counts"])],
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        graph: Any = None,
        *,
        spread: float = 0.5,
        base: Any = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.graph = graph
        self.spread = spread
        self.base = base
        self.classes = classes

    def _check_params(self, in_order: bool) -> None:
        check_rows(self.graph, in_order)

    def _smooth(self, counts: np.ndarray) -> np.ndarray:
        base = GoodTuringUnigram() if self.base is None else self.base
        proba = base_distribution(base, counts, self.classes_, positive=False)
        unseen = counts == 0
        share = unseen.astype(np.float64)
        if self.graph is not None:
            graph = read_graph(self.graph, counts, self.classes_)
            per_link = np.zeros(counts.size)
            np.divide(
                1.0, graph.degree, out=per_link, where=~unseen & (graph.degree > 0)
            )
            share = graph.matrix @ per_link
            share[~unseen] = 0.0
        self.reached_ = int(np.count_nonzero(share))
        if self.reached_:
            mass = proba[unseen].sum()
            proba[unseen] *= 1.0 - self.spread
            proba += share * (self.spread * mass / share.sum())
        return proba / proba.sum()
