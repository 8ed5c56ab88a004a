"""Witten-Bell smoothing: the number of distinct symbols estimates new ones."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..._docs import shared_docs
from .. import _engine


@shared_docs(
    max_depth=_engine.MAX_DEPTH,
    interpolate=_engine.INTERPOLATE,
    parameters=_engine.PARAMETERS,
    attributes=_engine.ATTRIBUTES,
)
class WittenBellLM(_engine.NGramSmoother):
    r"""Witten-Bell language model.

    With d(n) the number of distinct symbols that followed the context n,

    .. math::
        P(y \mid n) = \frac{c(n, y)}{c(n) + d(n)}
        + \frac{d(n)}{c(n) + d(n)}\, P(y \mid \mathrm{parent}(n)),

    where c(n, y) is how often y followed n and the parent of the empty context is the
    uniform distribution. The estimate always exists: a choice for small data,
    characters and tags, on which the discounts of Kneser-Ney cannot be estimated.

    Parameters
    ----------
    {max_depth}

    {interpolate}

    base : "uniform" or unigram estimator, default="uniform"
        The distribution above the empty context. An estimator is cloned, fitted to
        the counts of the classes, and takes the place of the unigram level; it must
        give every class a positive probability.

    {parameters}

    Attributes
    ----------
    {attributes}

    See Also
    --------
    KneserNeyLM : Lower perplexity where counts are many.

    AdditiveLM : Adds a constant to every count.

    Notes
    -----
    With fractional weights a class of weight w < 1 counts as w distinct symbols, so
    that the model is continuous where a weight goes to 0, and a weight of 2 is a
    repetition.

    References
    ----------
    .. [1] I. H. Witten, T. C. Bell, "The zero-frequency problem: estimating the
       probabilities of novel events in adaptive text compression", IEEE Transactions
       on Information Theory 37(4), 1991, method C.
    .. [2] S. F. Chen, J. Goodman, "An empirical study of smoothing techniques for
       language modeling", Computer Speech & Language 13, 1999, section 2.6.

    Examples
    --------
    >>> from sklstruct.symbols import context_windows
    >>> from sklstruct.smoothing import WittenBellLM
    >>> w = context_windows(["a b a", "a b b"], max_depth=1)
    >>> model = WittenBellLM(padding=-1)
    >>> model = model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    >>> [str(s) for s in w.vocabulary[model.classes_]]
    ['a', 'b', '</s>']
    >>> model.predict_proba([[0]]).round(4).tolist()  # after "a": b twice, </s> once
    [[0.1455, 0.5455, 0.3091]]
    """

    _parameter_constraints: dict = {**_engine.CONSTRAINTS, "interpolate": ["boolean"]}

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        interpolate: bool = True,
        base: Any = "uniform",
        padding: Any = None,
        classes: ArrayLike | None = None,
    ):
        self.max_depth = max_depth
        self.interpolate = interpolate
        self.base = base
        self.padding = padding
        self.classes = classes

    def _shares(self, pairs, count, first_level):
        distinct = pairs.node_sums(np.minimum(count, 1.0))
        total = pairs.node_sums(count) + distinct
        return count / np.repeat(total, np.diff(pairs.ptr)), distinct / total
