"""Additive smoothing (Laplace, Lidstone, Jeffreys) of every context's counts."""

from __future__ import annotations

from numbers import Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._compat import Interval
from ..._docs import shared_docs
from ...backoff import BackoffClassifier, Counted, Fitted
from ...context_tree import Pairs, pairs_of_arrays
from .. import _engine
from .. import _smoothing_fast as _fast
from .._base_distribution import base_distribution

# 12 bytes per pair in the fitted model, 28 while it is fitted: 1.4 GB.
_MAX_PAIRS = 50_000_000


def with_parent_pairs(
    pairs: Pairs, count: np.ndarray, limit: int = _MAX_PAIRS
) -> tuple[Pairs, np.ndarray]:
    """Pairs (n, y) for every class y seen at the parent of n, and their counts.

    Additive smoothing does not back off: with a uniform base, its row at n is constant
    on the classes unseen at n, but the row of the parent is not. The rows agree up to a
    factor only on the classes unseen at the parent, so all other classes need a pair.
    """
    tree = pairs.tree
    size = np.diff(pairs.ptr).astype(np.int64)
    size[0] = np.count_nonzero(count[: pairs.n_classes])
    ptr = np.zeros(tree.n_nodes + 1, dtype=np.int64)
    ptr[1] = pairs.n_classes
    ptr[2:] = size[tree.parent[1:]]
    np.cumsum(ptr, out=ptr)
    n_pairs = int(ptr[-1])
    if n_pairs > limit:
        raise ValueError(
            f"additive smoothing of these {tree.n_nodes} contexts needs {n_pairs} "
            "probabilities, because it does not back off; the limit is "
            f"{limit}. Lower max_depth, map rare symbols to an unknown-word symbol, "
            f"or use KneserNeyLM, which needs {pairs.n_pairs}"
        )
    ptr = ptr.astype(np.int32)
    target, parent = (np.empty(n_pairs, dtype=np.int32) for _ in range(2))
    more = np.empty(n_pairs)
    _fast.add_parent_pairs(
        tree.parent, pairs.ptr, pairs.target, count, ptr, target, parent, more
    )
    return pairs_of_arrays(tree, ptr, target, parent), more


@shared_docs(**_engine.DOCS)
class AdditiveLM(BackoffClassifier):
    r"""Language model with additive smoothing (Laplace, Lidstone, Jeffreys).

    .. math::
        P(y \mid n) = \frac{c(n, y) + \delta V P_0(y)}{c(n) + \delta V},

    with n the longest suffix of the context that was seen in training, c(n, y) the
    number of times that y followed n, V the number of classes and :math:`P_0` the
    distribution `base`. With the uniform distribution the numerator is
    :math:`c(n, y) + \delta`. The model does not back off: the probabilities after a
    context do not use shorter contexts.

    The model is a baseline for small vocabularies, such as characters or tags. With
    many classes the unseen classes get too much probability.

    Parameters
    ----------
    {max_depth}

    delta : float, default=1.0
        Added to each count, positive: 1 is Laplace's rule, 1/2 is Jeffreys' rule.

    base : "uniform" or unigram estimator, default="uniform"
        The distribution of the added counts. An estimator is cloned and fitted to the
        counts of the classes; it must give every class a positive probability.

    {parameters}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    KneserNeyLM : Better for many symbols.

    Notes
    -----
    The model is exact in back-off form, and so in an ARPA file, but this form has a
    probability for each context and each class seen after the context's parent: up to
    (number of contexts) x V. `fit` raises a ValueError, before it allocates memory, if
    more than 50 million probabilities are needed.

    References
    ----------
    .. [1] S. F. Chen, J. Goodman, "An empirical study of smoothing techniques for
       language modeling", Computer Speech & Language 13, 1999, equation 9.

    Examples
    --------
    >>> from sklstruct.symbols import context_windows
    >>> from sklstruct.smoothing import AdditiveLM
    >>> w = context_windows(["a b a", "a b b"], max_depth=1)
    >>> model = AdditiveLM(padding=-1)
    >>> model = model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    >>> [str(s) for s in w.vocabulary[model.classes_]]
    ['a', 'b', '</s>']
    >>> model.predict_proba([[0]]).round(4).tolist()  # after "a": (0, 2, 1) + 1
    [[0.1667, 0.5, 0.3333]]
    """

    _parameter_constraints: dict = {
        **_engine.CONSTRAINTS,
        "delta": [Interval(Real, 0, None, closed="neither")],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        delta: float = 1.0,
        base: Any = "uniform",
        padding: Any = None,
        classes: ArrayLike | None = None,
    ):
        self.max_depth = max_depth
        self.delta = delta
        self.base = base
        self.padding = padding
        self.classes = classes

    def _fit_counted(self, counted: Counted, overwrite: bool) -> Fitted:
        pairs, count = with_parent_pairs(*counted.expanded())
        n_classes = pairs.n_classes
        mass = self.delta * n_classes
        base = base_distribution(self.base, count[:n_classes], self.classes_)
        # Every node has a pair, because every context in training precedes a target.
        total = np.add.reduceat(count, pairs.ptr[:-1]) + mass
        if not np.isfinite(total).all():
            raise ValueError(
                f"delta={self.delta!r} is too large: the smoothed counts of "
                f"{n_classes} classes overflow"
            )
        proba = count + mass * base[pairs.target]
        proba /= np.repeat(total, np.diff(pairs.ptr))
        log_total = np.log(total)
        log_backoff = np.zeros(pairs.tree.n_nodes)
        log_backoff[1:] = log_total[pairs.tree.parent[1:]] - log_total[1:]
        return Fitted(pairs, np.log(proba, out=proba), log_backoff)

    def log_prior(self) -> float:
        r"""Logarithm of the prior density at the fitted model, up to a constant.

        .. math::
            \sum_n \sum_y \delta\, \log P(y \mid n)

        over the longest contexts: the rows are maximum a posteriori estimates under
        Dirichlet distributions of the parameter :math:`\delta + 1`. It is 0 if `base`
        is an estimator, because such a base depends on the counts.
        """
        if not isinstance(self.base, str):
            return 0.0
        tree = self.backoff_model_.tree
        leaves = np.flatnonzero(np.diff(tree.child_ptr) == 0).astype(np.int32)
        return float(self.delta * self.backoff_model_.rows(leaves).sum())
