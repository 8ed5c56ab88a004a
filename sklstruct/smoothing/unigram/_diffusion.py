"""Diffusion of the empirical distribution over a graph of classes."""

from __future__ import annotations

from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import HasMethods, Interval, StrOptions
from .._base_distribution import base_distribution
from ._base import UnigramSmoother, add_floor
from ._graphs import (
    GRAPH_CONSTRAINT,
    MAX_STEPS,
    CountGraph,
    SparseGraph,
    check_rows,
    read_graph,
)


class GraphDiffusionUnigram(UnigramSmoother):
    r"""Unigram distribution smoothed by diffusion over a graph of words.

    With :math:`\pi_0` the empirical distribution, w the similarity of two words and d
    its row sum,

    .. math::
        \pi(y) = \sum_x \pi_0(x) \frac{w(x, y)}{d(x)}
        \quad \text{(normalized)}, \qquad
        \pi = e^{tH} \pi_0, \ H = W - \mathrm{diag}(d)
        \quad \text{(kernel)}.

    In the graph of counts :math:`w(x, y) = 1` if the counts of x and y differ by at
    most 1. With :math:`r_j` the number of words that occurred j times, the normalized
    method on this graph is

    .. math::
        \pi(y) = \frac{1}{n} \sum_{j = c(y) - 1}^{c(y) + 1}
        \frac{j\, r_j}{r_{j - 1} + r_j + r_{j + 1}} ,

    which is close to the Good-Turing estimate.

    Parameters
    ----------
    method : {"normalized", "kernel"}, default="normalized"
        A random walk along w / d, or the heat kernel.

    graph : "counts", array or callable, default="counts"
        The similarities w. ``"counts"`` is the graph of counts above. A symmetric
        matrix of shape (n_classes, n_classes) without negative entries, dense or
        sparse, has its rows in the sorted order of the classes, and `classes` must be
        given in that order. A function makes the matrix from the array of classes, such
        as `group_graph`. The diagonal is ignored: :math:`w(x, x) = 1`. Multiply the
        matrix by a number to change the share that stays in the normalized method.

    n_steps : int, default=1
        Length of the walk of the normalized method, from 1 to 1 000 000: s steps give
        :math:`\pi_s = (T^\top)^s \pi_0` with :math:`T(x, y) = w(x, y) / d(x)`. The
        paper [1]_ uses one step.

    t : float, default=None
        Time of the kernel method, positive. None: 1 / n_classes for the graph of
        counts, as in the paper; 1 / (largest row sum) for other graphs.

    n_terms : int or "exact", default=3
        The kernel method computes :math:`(I + tH/s)^s` with s = `n_terms`, from 1 to
        1 000 000, as in the paper, or the exponential itself (``"exact"``). The power
        needs :math:`t \max_x d(x) \le s`; otherwise probabilities could be negative.

    {floor_parameter}
        Without it, unseen classes without a seen neighbour have probability 0; on the
        graph of counts these are all unseen classes if no class was seen once.

    base : None or unigram estimator, default=None
        The initial distribution :math:`\pi_0`. None takes the empirical distribution.

    {classes_parameter}

    Attributes
    ----------
    t_ : float
        The time of the kernel method, after the default is resolved.

    {shared_attributes}

    See Also
    --------
    GraphSpreadUnigram : Distributes only the mass of the unseen classes along a graph.
    GoodTuringUnigram, AbsoluteDiscountUnigram

    Notes
    -----
    The graph of counts is never built: both methods act on the count classes (for
    kernel diffusion a tridiagonal recursion), O(n_classes) in all, and are exact for
    any `base`. Other graphs cost `n_steps` or `n_terms` products with the matrix.
    ``"exact"`` sums :math:`(I + H/b)^k` with Poisson weights, for b the largest d:
    about :math:`tb` products, without cancellation.

    Fractional counts are neighbours if they differ by at most 1.

    The classifier ignores X, like :class:`sklearn.dummy.DummyClassifier`. It can be
    tuned by GridSearchCV, used as `base` of any other smoother, and exported to ARPA
    from `backoff_model_`.

    References
    ----------
    .. [1] B. Jedynak, D. Karakos, "Unigram language models using diffusion smoothing
       over graphs", TextGraphs-2 at HLT-NAACL 2007, equations 2-7 and 13-17.
    .. [2] R. I. Kondor, J. Lafferty, "Diffusion kernels on graphs and other discrete
       input spaces", ICML 2002.

    Examples
    --------
    Counts 3, 1, 1, 0, 0, 0: the two words seen once share with the three unseen.

    >>> from sklstruct.smoothing import GraphDiffusionUnigram
    >>> model = GraphDiffusionUnigram().from_counts([3, 1, 1, 0, 0, 0])
    >>> model.proba_.round(4).tolist()
    [0.6, 0.08, 0.08, 0.08, 0.08, 0.08]
    >>> round(model.unseen_mass_, 4)
    0.24
    """

    _parameter_constraints: dict = {
        "method": [StrOptions({"normalized", "kernel"})],
        "graph": [StrOptions({"counts"}), *GRAPH_CONSTRAINT],
        "t": [None, Interval(Real, 0, None, closed="neither")],
        "n_steps": [Interval(Integral, 1, MAX_STEPS, closed="both")],
        "n_terms": [
            Interval(Integral, 1, MAX_STEPS, closed="both"),
            StrOptions({"exact"}),
        ],
        "floor": [Interval(Real, 0, 1, closed="left")],
        "base": [None, HasMethods(["from_counts"])],
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        method: str = "normalized",
        *,
        graph: Any = "counts",
        n_steps: int = 1,
        t: float | None = None,
        n_terms: int | str = 3,
        floor: float = 0.0,
        base: Any = None,
        classes: ArrayLike | None = None,
    ) -> None:
        self.method = method
        self.graph = graph
        self.n_steps = n_steps
        self.t = t
        self.n_terms = n_terms
        self.floor = floor
        self.base = base
        self.classes = classes

    def _check_params(self, in_order: bool) -> None:
        check_rows(self.graph, in_order)

    def _smooth(self, counts: np.ndarray) -> np.ndarray:
        graph: CountGraph | SparseGraph = (
            CountGraph(counts)
            if isinstance(self.graph, str)
            else read_graph(self.graph, counts, self.classes_)
        )
        start = None
        if self.base is not None:
            start = base_distribution(self.base, counts, self.classes_)
        vars(self).pop("t_", None)
        if self.method == "normalized":
            proba = graph.normalized(start, self.n_steps)
        else:
            self.t_ = self._find_time(graph)
            proba = graph.kernel(start, self.t_, self.n_terms)
        if not isinstance(graph, CountGraph):
            np.maximum(proba, 0.0, out=proba)  # rounding of 1 - t d / s = 0
            proba /= proba.sum()
        return add_floor(proba, self.floor)

    def _find_time(self, graph: Any) -> float:
        """The parameter t, or its default."""
        degree = float(graph.max_degree)
        if self.t is None:
            if not isinstance(graph, SparseGraph):
                return 1.0 / graph.counts.size
            return 1.0 / degree if degree > 0 else 1.0
        t = float(self.t)
        exact = self.n_terms == "exact"
        n_terms = MAX_STEPS if exact else int(self.n_terms)
        if not t * max(degree, 1.0) < np.inf or t * degree > n_terms * (1 + 1e-12):
            largest = f"{n_terms / max(degree, np.finfo(float).tiny):.6g}"
            if exact:
                raise ValueError(
                    f"t={self.t:g} is too large: with n_terms='exact' the largest is "
                    f"{largest} on this graph"
                )
            raise ValueError(
                f"t={self.t:g} would make probabilities negative: with "
                f"n_terms={n_terms} the largest valid t is {largest} on this graph. "
                "Lower t, raise n_terms, or use n_terms='exact'"
            )
        return t
