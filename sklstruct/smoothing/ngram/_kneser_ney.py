"""Kneser-Ney smoothing: discounted counts of distinct contexts."""

from __future__ import annotations

from ..._docs import shared_docs
from ._discounting import DOCS, DiscountingSmoother


@shared_docs(**DOCS)
class KneserNeyLM(DiscountingSmoother):
    r"""Kneser-Ney language model, modified or with one discount.

    With the parent of a context n being n without its oldest symbol,

    .. math::
        P(y \mid n) = \frac{a(n, y) - D(a(n, y))}{a(n)}
        + \gamma(n)\, P(y \mid \mathrm{parent}(n)), \qquad
        \gamma(n) = \frac{1}{a(n)} \sum_{y'} D(a(n, y')),

    where a(n) is the sum of the adjusted counts a(n, y) over y. For the longest
    contexts a(n, y) is the raw count c(n, y). For shorter contexts a(n, y) is the
    number of different symbols before "n y", plus the number of times that "n y" begins
    a history. The parent of the empty context is the uniform distribution.

    Parameters
    ----------
    {max_depth}

    discount : str, float or array-like, default="modified"
        The discounts D. With :math:`n_i` the number of pairs of a depth whose
        adjusted count is i:

        {values}

        {by_block}

    {interpolate}

    {min_count}

    {validation}

    base : "uniform" or unigram estimator, default="uniform"
        Uniform: the unigrams are discounted and interpolated with :math:`1 / V`, as
        if ``base=AbsoluteDiscountUnigram(discount)``. An estimator is cloned, fitted
        to the adjusted counts of the unigrams, and takes the place of their level;
        it must give every class a positive probability.

    {parameters}

    Attributes
    ----------
    {attributes}

    {discounts}

    See Also
    --------
    AbsoluteDiscountLM : Uses the counts of the text at every depth.

    sklstruct.symbols.context_windows : Converts sentences to windows.

    Notes
    -----
    Fitting costs O(P) for the P pairs of the context tree, after O(n m) for the tree.

    Fractional `sample_weight`: each function of an integer count (D, :math:`n_i`, and
    the number of different symbols before) is interpolated linearly between integers,
    except that a count a < 1 keeps :math:`(1 - D_1) a^2` after discounting. A sample of
    weight 2 counts as two samples, and a sample of weight 0 does not count. The
    interpolated model is continuous in the weights.

    A path matrix of a collapsed tree gives the model of the trie.

    References
    ----------
    .. [1] R. Kneser, H. Ney, "Improved backing-off for m-gram language modeling",
       ICASSP 1995.
    .. [2] S. F. Chen, J. Goodman, "An empirical study of smoothing techniques for
       language modeling", Computer Speech & Language 13, 1999, equations 24-26.
    .. [3] K. Heafield, I. Pouzyrevsky, J. H. Clark, P. Koehn, "Scalable modified
       Kneser-Ney language model estimation", ACL 2013.

    Examples
    --------
    >>> from sklstruct.symbols import context_windows
    >>> from sklstruct.smoothing import KneserNeyLM
    >>> w = context_windows(["a b a", "a b b"], max_depth=1)
    >>> model = KneserNeyLM(discount=0.5, padding=-1)
    >>> model = model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    >>> [str(s) for s in w.vocabulary[model.classes_]]
    ['a', 'b', '</s>']
    >>> model.predict_proba([[0]]).round(4).tolist()  # after "a"
    [[0.1111, 0.6111, 0.2778]]
    """

    _counts_contexts = True
