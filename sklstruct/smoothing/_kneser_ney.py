"""Kneser-Ney smoothing: discounted counts of distinct contexts."""

from __future__ import annotations

from numbers import Integral

import numpy as np

from .._compat import Interval
from ..backoff._estimator import BackoffClassifier
from . import _smoothing_fast as _fast
from ._base import BASE_CONSTRAINT, base_distribution
from ._discount import DISCOUNT_CONSTRAINT, check_discount, find_discounts


def adjusted_counts(tree):
    """a(n, y): the raw count on the deepest level, distinct predecessors above.

    ``a(n, y) = T(n, y) + number of children h of n where y followed h``. On the
    deepest level there are no children and T is the count. Further up T(n, y) > 0
    only for the contexts that nothing can precede, those at a sentence start, which
    thus keep their raw counts.
    """
    adjusted = tree.terminal_counts()
    _fast.add_distinct(tree.pair_parent, tree.count, adjusted)
    return adjusted


class KneserNeyLM(BackoffClassifier):
    r"""Kneser-Ney language model, modified or with one discount.

    With the parent of a context n being n without its oldest symbol,

    .. math::
        P(y \mid n) = \frac{a(n, y) - D(a(n, y))}{a(n)}
        + \gamma(n)\, P(y \mid \mathrm{parent}(n)), \qquad
        \gamma(n) = \frac{1}{a(n)} \sum_{y'} D(a(n, y')),

    where a(n) is the sum of a(n, y) and the adjusted count a(n, y) is the raw count
    c(n, y) for the longest contexts and, for the shorter ones, the number of
    distinct symbols that precede n y (plus its raw count at the start of the
    history, which nothing can precede). The parent of the empty context is the uniform
    distribution.

    Parameters
    ----------
    max_depth : int, default=None
        Longest context m, in symbols; an m-gram of other tools is ``max_depth = m -
        1``. None: as many as X has columns (or, for path matrices, levels). 0 is
        the unigram model.

    discount : {"modified", "single"}, float or sequence, default="modified"
        The discounts D. With :math:`n_i` the number of pairs of a depth whose
        adjusted count is i:

        - ``"modified"``: three a depth, :math:`D_i = i - (i + 1) Y n_{i+1} / n_i`
          for i = 1, 2 and 3 (for 3 and more), :math:`Y = n_1 / (n_1 + 2 n_2)`.
        - ``"single"``: one a depth, Y.
        - a number, 0 < D <= 1: for every count and depth.
        - a sequence of floats (D_1, ..., D_k), 0 < D_i <= i: for the counts 1, 2, ...,
          k and more, at every depth.

        Where these estimates do not exist (small, character and closed-vocabulary
        data) or are out of range, the depth gets 0.5, 1, 1.5 (modified) or 0.75
        (single), and one warning names all such depths and the reasons.

    interpolate : bool, default=True
        False gives the back-off form: no second term for symbols seen after n, and
        :math:`b(n) P(y \mid \mathrm{parent}(n))` for the others, with b(n) such that
        the row sums to 1. At a context after which every class was seen, b has
        nothing to go to, and the left-over mass is interpolated there. Discounts must
        then be below the count they apply to.

    base : "uniform" or unigram estimator, default="uniform"
        Uniform: the unigrams are discounted and interpolated with :math:`1 / V`, as
        if ``base=AbsoluteDiscountUnigram(discount)``. An estimator is cloned, fitted
        to the adjusted counts of the unigrams, and takes the place of their level;
        it must give every class a positive probability.

    padding : object, default=None
        The symbol that marks missing history in dense X; see
        `sklstruct.context_tree.SuffixTreeVectorizer`.

    classes : array-like of shape (n_classes,), default=None
        The closed vocabulary; None: the targets seen in `fit`. Classes without a
        sample get the mass of `base`. Put the unknown-word symbol and the end mark
        here, not the start mark, to have the conventions of KenLM.

    Attributes
    ----------
    backoff_model_ : BackoffModel
        The model as flat arrays.

    classes_ : ndarray of shape (n_classes,)
        The predictable symbols.

    discounts_ : ndarray of shape (`depth_` + 1, n_discounts)
        Discounts of the counts 1, 2, ... at each depth; NaN at depth 0 where `base`
        is an estimator.

    depth_ : int
        Length of the longest context in training, at most `max_depth`.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    AdditiveLM : Adds a constant to every count.
    sklstruct.context_tree.context_windows : Sentences to windows.

    Notes
    -----
    Fitting costs O(P) for the P pairs of the context tree, after O(n m) for the tree.

    Fractional `sample_weight`: each function of an integer count (D, :math:`n_i`, and
    the indicator that a predecessor is one distinct symbol) is interpolated
    linearly between integers, except that a count a < 1 keeps :math:`(1 - D_1) a^2`
    after discounting. Weight 2 is thus exactly a repetition and weight 0 an absence,
    and the interpolated model is continuous in the weights, at 0 too: the row of a
    context of vanishing weight tends to its parent's.

    A path matrix of a collapsed tree gives the model of the trie: the merged contexts,
    whose adjusted counts differ, are taken apart again.

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
    >>> from sklstruct.context_tree import context_windows
    >>> from sklstruct.smoothing import KneserNeyLM
    >>> w = context_windows(["a b a", "a b b"], max_depth=1)
    >>> model = KneserNeyLM(discount=0.5, padding=-1)
    >>> model = model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    >>> [str(s) for s in w.vocabulary[model.classes_]]
    ['a', 'b', '</s>']
    >>> model.predict_proba([[0]]).round(4).tolist()  # after "a"
    [[0.1111, 0.6111, 0.2778]]
    """

    _parameter_constraints: dict = {
        "max_depth": [None, Interval(Integral, 0, None, closed="left")],
        "discount": DISCOUNT_CONSTRAINT,
        "interpolate": ["boolean"],
        "base": BASE_CONSTRAINT,
        "padding": "no_validation",
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        max_depth=None,
        *,
        discount="modified",
        interpolate=True,
        base="uniform",
        padding=None,
        classes=None,
    ):
        self.max_depth = max_depth
        self.discount = discount
        self.interpolate = interpolate
        self.base = base
        self.padding = padding
        self.classes = classes

    def _check_params(self):
        check_discount(self.discount, strict=not self.interpolate)

    def _fit_tree(self, tree):
        adjusted = adjusted_counts(tree)
        n_classes = tree.n_classes
        base = base_distribution(self.base, adjusted[:n_classes], self.classes_)
        proba = np.empty(tree.n_pairs)
        backoff = np.empty(tree.n_nodes)
        # A unigram estimator smooths by itself; discounting its counts again would
        # hand the unseen classes only a share of the mass it means for them.
        first = 0 if isinstance(self.base, str) else 1
        if first:
            proba[:n_classes] = base
        found = find_discounts(
            self.discount,
            np.split(adjusted, tree.pair_ptr[tree.level_ptr[1:-1]])[first:],
            strict=not self.interpolate,
            owner=type(self).__name__,
            first_depth=first,
        )
        self.discounts_ = np.full((tree.n_levels, found.shape[1]), np.nan)
        self.discounts_[first:] = found
        if self.interpolate:
            _fast.interpolate(
                tree.level_ptr, tree.pair_ptr, tree.pair_parent, adjusted,
                self.discounts_, base, first, proba, backoff,
            )  # fmt: skip
        else:
            _fast.back_off(
                tree.level_ptr, tree.parent, tree.pair_ptr, tree.target,
                tree.pair_parent, adjusted, self.discounts_, base, first,
                np.zeros(tree.n_nodes), proba, backoff,
            )  # fmt: skip
        backoff[0] = 1.0  # every class has a pair at the root
        # Weights of 1e-160 and the like underflow when they are squared.
        np.maximum(proba, np.finfo(np.float64).tiny, out=proba)
        return np.log(proba, out=proba), np.log(backoff, out=backoff)
