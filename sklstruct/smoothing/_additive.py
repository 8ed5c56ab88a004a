"""Additive smoothing (Laplace, Lidstone, Jeffreys) of every context's counts."""

from __future__ import annotations

import copy
from numbers import Integral, Real

import numpy as np

from .._compat import Interval
from ..backoff._estimator import BackoffClassifier
from . import _smoothing_fast as _fast
from ._base import BASE_CONSTRAINT, base_distribution

# 12 bytes a pair in the fitted model, 28 while it is fitted: 1.4 GB.
_MAX_PAIRS = 50_000_000


def with_parent_pairs(tree, limit=_MAX_PAIRS):
    """The tree with a pair (n, y) for every class y seen at the parent of n.

    Additive smoothing does not back off: its row at n is constant on the classes
    unseen at n, its parent's row is not. In back-off form both agree up to a
    factor on the classes unseen at the parent alone, so the others need a pair.
    """
    size = np.diff(tree.pair_ptr).astype(np.int64)
    size[0] = np.count_nonzero(tree.count[: tree.n_classes])
    new_ptr = np.zeros(tree.n_nodes + 1, dtype=np.int64)
    new_ptr[1] = tree.n_classes
    new_ptr[2:] = size[tree.parent[1:]]
    np.cumsum(new_ptr, out=new_ptr)
    if new_ptr[-1] > limit:
        raise ValueError(
            f"additive smoothing of these {tree.n_nodes} contexts needs "
            f"{new_ptr[-1]} probabilities, because it does not back off; the limit is "
            f"{limit}. Lower max_depth, map rare symbols to an unknown-word symbol, "
            f"or use KneserNeyLM, which needs {tree.n_pairs}"
        )
    out = copy.copy(tree)
    out.pair_ptr = new_ptr.astype(np.int32)
    out.target = np.empty(new_ptr[-1], dtype=np.int32)
    out.pair_parent = np.empty(new_ptr[-1], dtype=np.int32)
    out.count = np.empty(new_ptr[-1])
    _fast.add_parent_pairs(
        tree.parent, tree.pair_ptr, tree.target, tree.count,
        out.pair_ptr, out.target, out.pair_parent, out.count,
    )  # fmt: skip
    return out


class AdditiveLM(BackoffClassifier):
    r"""Language model with additive smoothing (Laplace, Lidstone, Jeffreys).

    .. math::
        P(y \mid n) = \frac{c(n, y) + \delta V P_0(y)}{c(n) + \delta V},

    with n the longest suffix of the context that was seen in training, c(n, y) the
    number of times that y followed it, V the number of classes and :math:`P_0` the
    distribution `base`: with the uniform one the numerator is :math:`c(n, y) +
    \delta`. There is no back-off, each context has a row of its own.

    A baseline for small vocabularies, e.g. of characters or tags: with many classes
    too much mass goes to the unseen ones.

    Parameters
    ----------
    max_depth : int, default=None
        Longest context m, in symbols. None: as many as X has columns (or, for path
        matrices, levels). 0 is the unigram model.

    delta : float, default=1.0
        What is added to each count, positive: 1 is Laplace's rule, 1/2 that of
        Jeffreys.

    base : "uniform" or unigram estimator, default="uniform"
        What is added follows this distribution. An estimator is cloned and fitted
        to the counts of the classes; it must give every class a positive
        probability.

    padding : object, default=None
        The symbol that marks missing history in dense X; see
        `sklstruct.context_tree.SuffixTreeVectorizer`.

    classes : array-like of shape (n_classes,), default=None
        The closed vocabulary; None: the targets seen in `fit`.

    Attributes
    ----------
    backoff_model_ : BackoffModel
        The model as flat arrays.

    classes_ : ndarray of shape (n_classes,)
        The predictable symbols.

    depth_ : int
        Length of the longest context in training, at most `max_depth`.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    KneserNeyLM : The model of choice where symbols are many.

    Notes
    -----
    The model is exact in back-off form, thus also as an ARPA file, but this form
    has a probability for each context and each class seen after the context's
    parent: up to (number of contexts) x V. `fit` refuses more than 50 million of them,
    before they are made.

    References
    ----------
    .. [1] S. F. Chen, J. Goodman, "An empirical study of smoothing techniques for
       language modeling", Computer Speech & Language 13, 1999, equation 9.

    Examples
    --------
    >>> from sklstruct.context_tree import context_windows
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
        "max_depth": [None, Interval(Integral, 0, None, closed="left")],
        "delta": [Interval(Real, 0, None, closed="neither")],
        "base": BASE_CONSTRAINT,
        "padding": "no_validation",
        "classes": [None, "array-like"],
    }

    def __init__(
        self,
        max_depth=None,
        *,
        delta=1.0,
        base="uniform",
        padding=None,
        classes=None,
    ):
        self.max_depth = max_depth
        self.delta = delta
        self.base = base
        self.padding = padding
        self.classes = classes

    def _read_training(self, X, y, sample_weight):
        return with_parent_pairs(super()._read_training(X, y, sample_weight))

    def _fit_tree(self, tree):
        n_classes = tree.n_classes
        mass = self.delta * n_classes
        base = base_distribution(self.base, tree.count[:n_classes], self.classes_)
        # Every node has a pair, as every context in training precedes some target.
        total = np.add.reduceat(tree.count, tree.pair_ptr[:-1]) + mass
        proba = tree.count + mass * base[tree.target]
        proba /= np.repeat(total, np.diff(tree.pair_ptr))
        log_total = np.log(total)
        log_backoff = np.zeros(tree.n_nodes)
        log_backoff[1:] = log_total[tree.parent[1:]] - log_total[1:]
        return np.log(proba, out=proba), log_backoff
