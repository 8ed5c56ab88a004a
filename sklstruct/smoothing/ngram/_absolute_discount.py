"""Absolute discounting of raw counts."""

from __future__ import annotations

from typing import Any

from numpy.typing import ArrayLike

from ..._docs import shared_docs
from ._discounting import DOCS, DiscountingSmoother


@shared_docs(**DOCS)
class AbsoluteDiscountLM(DiscountingSmoother):
    r"""Language model with absolute discounting.

    .. math::
        P(y \mid n) = \frac{c(n, y) - D(c(n, y))}{c(n)}
        + \gamma(n)\, P(y \mid \mathrm{parent}(n)), \qquad
        \gamma(n) = \frac{1}{c(n)} \sum_{y'} D(c(n, y')),

    with c(n, y) the number of times that y followed the context n, and c(n) the sum of
    c(n, y) over y. The parent of the empty context is the uniform distribution.
    `KneserNeyLM` has the same formula, but other counts for all contexts except the
    longest.

    Parameters
    ----------
    {max_depth}

    discount : str, float or array-like, default="single"
        The discounts D. With :math:`n_i` the number of pairs of a depth whose
        count is i:

        {values}

        {by_block}

    {interpolate}

    {min_count}

    {validation}

    base : "uniform" or unigram estimator, default="uniform"
        Uniform: the unigrams are discounted and interpolated with :math:`1 / V`, as
        if ``base=AbsoluteDiscountUnigram(discount)``. An estimator is cloned, fitted
        to the counts of the classes, and takes the place of the unigram level; it
        must give every class a positive probability.

    {parameters}

    Attributes
    ----------
    {attributes}

    {discounts}

    See Also
    --------
    KneserNeyLM : Lower perplexity, with counts of distinct contexts.

    KatzLM : Discounts in proportion to the count, by Good and Turing.

    Notes
    -----
    The lower orders are estimated from the counts of the text, so each of them alone is
    also a language model of the text, and the model can be pruned. The lower orders of
    Kneser-Ney smoothing are not such models.

    Fractional `sample_weight`: as in `KneserNeyLM`.

    References
    ----------
    .. [1] H. Ney, U. Essen, R. Kneser, "On structuring probabilistic dependences in
       stochastic language modelling", Computer Speech & Language 8, 1994.
    .. [2] S. F. Chen, J. Goodman, "An empirical study of smoothing techniques for
       language modeling", Computer Speech & Language 13, 1999, section 2.7.

    Examples
    --------
    >>> from sklstruct.symbols import context_windows
    >>> from sklstruct.smoothing import AbsoluteDiscountLM
    >>> w = context_windows(["a b a", "a b b"], max_depth=1)
    >>> model = AbsoluteDiscountLM(discount=0.5, padding=-1)
    >>> model = model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    >>> [str(s) for s in w.vocabulary[model.classes_]]
    ['a', 'b', '</s>']
    >>> model.predict_proba([[0]]).round(4).tolist()  # after "a": b twice, </s> once
    [[0.125, 0.625, 0.25]]
    """

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        discount: str | float | ArrayLike = "single",
        interpolate: bool = True,
        min_count: int | ArrayLike = 1,
        validation_fraction: float = 0.1,
        base: Any = "uniform",
        padding: Any = None,
        classes: ArrayLike | None = None,
    ):
        super().__init__(
            max_depth,
            discount=discount,
            interpolate=interpolate,
            min_count=min_count,
            validation_fraction=validation_fraction,
            base=base,
            padding=padding,
            classes=classes,
        )
