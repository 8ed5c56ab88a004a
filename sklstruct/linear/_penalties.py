"""Penalties of structured features: groups, trees, n-grams that extend each other."""

from __future__ import annotations

import sys
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils.validation import check_is_fitted

from .._checks import as_floats, as_ids, check_choice, check_length, check_reals
from .._compat import BaseEstimator, Interval, StrOptions
from .._penalties import L1, ElasticNet
from ..prox import _overlapping_fast as overlapping
from ..prox import norm_tree_l2, norm_tree_linf, prox_tree_l2, prox_tree_linf
from ..prox._groups import Members
from ..symbols import is_missing
from ..taxonomy._labels import as_labels
from ._feature_bounds import GroupTerm, ProximalTerm

if TYPE_CHECKING:
    from ._feature_problem import FeatureProblem

# Error of the operator of overlapping groups, relative to the norm of its argument.
_OVERLAP_TOL = 1e-9

# Rounds per call of the operator (Ctrl-C is checked between calls), and largest number
# of calls.
_OVERLAP_ROUNDS, _OVERLAP_CALLS = 100, 50

# Largest weight of a subtree: its product with the length of a step is finite.
_MOST_WEIGHT = 1e100

# Blanks of n-grams of words: CountVectorizer joins words by one.
_BLANK = " "


class GroupLasso(BaseEstimator):
    r""":math:`\Omega(W) = \sum_g \omega_g \|W_g\|_2`, over groups of features.

    :math:`W_g` are the weights of the features of group g in all classes (or labels).
    All weights of a group are zero, for all classes, or the model uses the whole group.
    Use this penalty if each feature costs something, such as a measurement. With
    several labels per sample, all labels use the same groups.

    Parameters
    ----------
    groups : array-like of shape (n_features,) or list of lists of int, default=None
        The label of the group of each feature; or for each group a list of the numbers
        of its features. Lists may overlap; every feature must be in at least one list.
        None: each feature is a group.

    weights : "sqrt" or array-like of shape (n_groups,), default="sqrt"
        :math:`\omega_g`, positive and finite, in the order of the sorted labels or of
        the lists. "sqrt" is the square root of the number of features.

    See Also
    --------
    StructuredLogisticRegression : The model.
    sklstruct.prox.prox_group_lasso : The operator.

    References
    ----------
    .. [1] M. Yuan, Y. Lin, "Model selection and estimation in regression with grouped
       variables", JRSS B 68, 2006.

    Examples
    --------
    >>> from sklstruct.linear import GroupLasso, StructuredLogisticRegression
    >>> penalty = GroupLasso(groups=["size", "size", "colour", "colour"])
    >>> model = StructuredLogisticRegression(penalty, C=10.0)
    >>> X = [[1, 1, 0, 0], [2, 2, 0, 1], [8, 9, 1, 0], [9, 9, 0, 0]]
    >>> model.fit(X, ["small", "small", "large", "large"]).coef_.indices
    array([0, 1], dtype=int32)
    """

    _parameter_constraints: dict = {
        "groups": ["array-like", None],
        "weights": ["array-like", StrOptions({"sqrt"})],
    }

    def __init__(
        self,
        groups: ArrayLike | list[list[int]] | None = None,
        weights: Literal["sqrt"] | ArrayLike = "sqrt",
    ) -> None:
        self.groups = groups
        self.weights = weights

    def bind(self, problem: FeatureProblem) -> GroupTerm | ProximalTerm:
        """This penalty on the features of a problem.

        Parameters
        ----------
        problem : FeatureProblem
            Gives the number of features and of rows of weights.

        Returns
        -------
        bound : object
            The object that the solvers call.

        Raises
        ------
        ValueError
            If groups or weights do not fit the features; the message names a column.
        """
        d, groups = problem.n_features, cast(Any, self.groups)
        if groups is None:
            group, n_groups = np.arange(d), d
        elif len(groups) == 0 or np.ndim(next(iter(groups))) == 0:
            group, n_groups = _labels(groups, d)
        else:
            members = _members(groups, d)
            size, n_groups = np.diff(members.ptr), members.n_groups
            if members.entry.size > d:
                return ProximalTerm(
                    _Overlapping(members, self._weights(size), d, problem.n_lanes), 1.0
                )
            group = np.empty(d, dtype=np.intp)
            group[members.entry] = np.repeat(np.arange(n_groups), size)
        return GroupTerm(group, self._weights(np.bincount(group, minlength=n_groups)))

    def _weights(self, size: NDArray) -> NDArray:
        """The weight of each group; size: the numbers of features."""
        if isinstance(self.weights, str):
            return np.sqrt(size)
        weights = as_floats("weights", self.weights)
        check_length("weights", weights, size.size, "one per group")
        check_reals("weights", weights, "(0, inf)")
        return weights


def _labels(groups, d):
    """(group of each column from 0, number of groups)."""
    shape = np.shape(groups)
    if shape != (d,):
        raise ValueError(
            f"groups must have a label for each of the {d} columns of X, or be lists "
            f"of columns, got shape {shape}"
        )
    for column, label in enumerate(groups):
        if is_missing(label):
            raise ValueError(f"groups has no label for column {column}: {label!r:.60}")
    try:
        names, group = np.unique(as_labels(groups), return_inverse=True)
    except ValueError as exc:
        raise ValueError(f"groups: {exc}") from exc
    return group.astype(np.intp), names.size


def _members(groups, d):
    """The columns of each group; ValueError if a column is not in any group."""
    members = Members.of(groups, d, "column of X")
    times = np.bincount(members.entry, minlength=d)
    if not times.all():
        raise ValueError(
            f"groups leave out column {times.argmin()}: put the column into a group, "
            "for example a group with this column only"
        )
    return members


class _Overlapping:
    """The penalty sum_g weight_g ||W_g|| of groups that share columns.

    Computed as by `prox_overlapping_groups`, but each call starts from the dual vectors
    of the previous call: the arguments of a solver hardly change from step to step.
    """

    def __init__(self, members, weights, n_features, n_lanes):
        self.weights, self.shape = weights, (n_lanes, n_features)
        lanes = n_features * np.arange(n_lanes)[:, None]
        parts = np.split(members.entry, members.ptr[1:-1])
        entry = np.concatenate([(lanes + part).ravel() for part in parts])
        self.ptr, self.entry = n_lanes * members.ptr, entry.astype(np.int32)
        self.size = np.diff(self.ptr)
        self.order = np.argsort(self.size, kind="stable").astype(np.int64)
        self.dual = np.zeros(self.entry.size)
        self.room = np.empty(self.size.max())

    def _norms(self, w):
        return np.sqrt(np.add.reduceat(w[self.entry] ** 2, self.ptr[:-1]))

    def value(self, W):
        return self.weights @ self._norms(W.ravel())

    def _shrink(self, v, kappa):
        """v minus its dual vectors, each in the ball of its group."""
        w = np.empty(v.size)
        enough = 0.5 * _OVERLAP_TOL**2 * float(v @ v)
        for _ in range(_OVERLAP_CALLS):
            gap = overlapping.rounds(
                self.ptr, self.entry, kappa * self.weights, self.order, False, v, w,
                self.dual, self.room, enough, _OVERLAP_ROUNDS,
            )  # fmt: skip
            if gap <= enough:
                break
        return w

    def prox(self, W, kappa):
        v = W.ravel()
        w = self._shrink(v, kappa)
        # Groups that vanish are 0 up to the error.
        gone = self._norms(w) <= 10 * _OVERLAP_TOL * np.linalg.norm(v)
        w[self.entry[np.repeat(gone, self.size)]] = 0
        return w.reshape(self.shape)

    def gauge(self, W, G, kappa):
        """At least 1 and at least the least t with G in t times the dual ball.

        A step of length `kappa` from W to U = W - kappa G - (dual vectors) shows that
        -G is (U - W) / kappa plus vectors in the balls of the groups. (U - W) / kappa
        is 0 at an optimum. It is in ||U - W|| / (kappa w) times the dual ball, w being
        the smallest weight of a group. The dual vectors need not be exact.
        """
        U = self._shrink((W - kappa * G).ravel(), kappa)
        left = np.linalg.norm(U - W.ravel()) / kappa
        return 1 + float(left / self.weights.min())


class TreeNorm(BaseEstimator):
    r""":math:`\Omega(W) = \sum_k \sum_j a^{h(j)} \|W_{k,T(j)}\|`, over subtrees.

    :math:`T(j)` are feature j and all features below j, h(j) is the depth of j (0 for a
    root), and a the `depth_weight`. For every class k, whole subtrees become zero. A
    feature therefore has a weight only if the features above it have weights. Use this
    penalty if features extend each other, as n-grams do.

    Parameters
    ----------
    parents : array-like of int, shape (n_features,)
        Parent of each feature, -1 for a root; see `ngram_parents`.

    norm : {"linf", "l2"}, default="linf"
        Norm of a subtree: the largest absolute weight, or the Euclidean norm.

    depth_weight : float, default=1.0
        Factor a of the strength for each level below a root, positive. The largest
        :math:`a^{h(j)}` must be at most 1e100.

    See Also
    --------
    ngram_parents : The parents of n-grams.
    sklstruct.loglinear.TreeLinf, sklstruct.loglinear.TreeL2 : The same norms on the
        context tree of a language model.

    References
    ----------
    .. [1] R. Jenatton, J. Mairal, G. Obozinski, F. Bach, "Proximal methods for
       hierarchical sparse coding", JMLR 12, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.linear import TreeNorm
    >>> TreeNorm([-1, 0, 0]).value(np.array([[3.0, 4.0, 1.0]]))
    9.0
    """

    _parameter_constraints: dict = {
        "parents": ["array-like"],
        "norm": [StrOptions({"linf", "l2"})],
        "depth_weight": [Interval(Real, 0, sys.float_info.max, closed="neither")],
    }

    def __init__(
        self,
        parents: ArrayLike,
        norm: Literal["linf", "l2"] = "linf",
        depth_weight: float = 1.0,
    ) -> None:
        self.parents = parents
        self.norm = norm
        self.depth_weight = depth_weight

    def value(self, W: ArrayLike) -> float:
        r""":math:`\Omega(W)`.

        Parameters
        ----------
        W : array-like of shape (n_rows, n_features)
            Weights.

        Returns
        -------
        value : float
        """
        W = as_floats("W", W, 2)
        return self._bound(W.shape).value(W)

    def prox(self, W: ArrayLike, kappa: float) -> NDArray:
        r"""argmin over U of :math:`\tfrac12 \|U - W\|^2 + \kappa\, \Omega(U)`.

        Parameters
        ----------
        W : array-like of shape (n_rows, n_features)
            Weights.

        kappa : float
            Strength, at least 0.

        Returns
        -------
        U : ndarray of shape (n_rows, n_features)
        """
        W = as_floats("W", W, 2)
        return self._bound(W.shape).prox(W, kappa)

    def bind(self, problem: FeatureProblem) -> ProximalTerm:
        """This penalty on the features of a problem.

        Parameters
        ----------
        problem : FeatureProblem
            Gives the number of features and of rows of weights.

        Returns
        -------
        bound : object
            The object that the solvers call.

        Raises
        ------
        ValueError
            If the parents are not those of a forest of the features; the message names
            a column.
        """
        return ProximalTerm(self._bound((problem.n_lanes, problem.n_features)), 1.0)

    def _bound(self, shape):
        self._validate_params()
        parents = as_ids("parents", self.parents, 1, np.int64)
        check_length("parents", parents, shape[1], "one per column of X")
        return _Trees(parents, self.norm, float(self.depth_weight), shape[0])


class _Trees:
    """A checked `TreeNorm`: a forest with a copy of the tree for each row of W."""

    def __init__(self, parents, norm, depth_weight, n_rows):
        linf = norm == "linf"
        self._norm = norm_tree_linf if linf else norm_tree_l2
        self._prox = prox_tree_linf if linf else prox_tree_l2
        self._norm(np.zeros(parents.size), parents)  # raises an error for a cycle
        above, depth = parents, np.zeros(parents.size, dtype=np.int64)
        while (above >= 0).any():
            depth += above >= 0
            above = np.where(above < 0, -1, parents[above])
        first = parents.size * np.arange(n_rows)[:, None]
        self._parents = np.where(parents < 0, -1, parents + first).ravel()
        with np.errstate(over="ignore", under="ignore"):
            weights = depth_weight**depth
        if weights.max(initial=0.0) > _MOST_WEIGHT:
            raise ValueError(
                f"depth_weight={depth_weight:g} to the power of the depth, "
                f"{depth.max()}, must be at most {_MOST_WEIGHT:g}; lower it"
            )
        self._weights = np.tile(weights, n_rows)

    def value(self, W):
        return self._norm(W.ravel(), self._parents, self._weights)

    def prox(self, W, kappa):
        found = self._prox(W.ravel(), self._parents, kappa * self._weights)
        return found.reshape(W.shape)


def ngram_parents(vectorizer: Any, drop: Literal["first", "last"] = "last") -> NDArray:
    """The tree of the n-grams of a fitted vectorizer, for `TreeNorm`.

    The parent of an n-gram is the longest column that remains after symbols are removed
    from one end of the n-gram.

    Parameters
    ----------
    vectorizer : estimator
        A fitted `CountVectorizer` or `TfidfVectorizer` of words or characters (or
        another vectorizer with `get_feature_names_out` and `analyzer`), or a fitted
        `SuffixTreeVectorizer`, whose tree drops the first (oldest) symbol.

    drop : {"first", "last"}, default="last"
        The end from which symbols are removed. `SuffixTreeVectorizer` needs "first".

    Returns
    -------
    parents : int32 ndarray of shape (n_features,)
        Column of the parent of each column, -1 for a root.

    Raises
    ------
    ValueError
        If `analyzer` is not "word", "char" or "char_wb", or a `SuffixTreeVectorizer` is
        given without ``drop="first"``.

    Examples
    --------
    >>> from sklearn.feature_extraction.text import CountVectorizer
    >>> from sklstruct.linear import ngram_parents
    >>> vectorizer = CountVectorizer(ngram_range=(1, 2)).fit(["to be or not"])
    >>> vectorizer.get_feature_names_out().tolist()
    ['be', 'be or', 'not', 'or', 'or not', 'to', 'to be']
    >>> ngram_parents(vectorizer)
    array([-1,  0, -1, -1,  3, -1,  5], dtype=int32)
    """
    check_choice("drop", drop, ("first", "last"))
    check_is_fitted(vectorizer)
    tree = getattr(vectorizer, "tree_", None)
    if tree is not None:
        if drop != "first":
            raise ValueError(
                'drop must be "first" for a tree of contexts: the parent of a context '
                "lacks its oldest symbol"
            )
        return np.array(tree.parent, dtype=np.int32)
    analyzer = getattr(vectorizer, "analyzer", None)
    if analyzer not in ("word", "char", "char_wb"):
        raise ValueError(
            f'vectorizer must have analyzer="word", "char" or "char_wb", got '
            f"{analyzer!r}; give the parents as an array"
        )
    names = [
        tuple(name.split(_BLANK)) if analyzer == "word" else name
        for name in vectorizer.get_feature_names_out()
    ]
    column = {name: j for j, name in enumerate(names)}
    parents = np.full(len(names), -1, dtype=np.int32)
    for j, name in enumerate(names):
        for cut in range(1, len(name)):
            above = column.get(name[:-cut] if drop == "last" else name[cut:])
            if above is not None:
                parents[j] = above
                break
    return parents


# The names that the parameter `penalty` takes.
FEATURE_PENALTIES: dict[str, type] = {
    "l1": L1,
    "elastic_net": ElasticNet,
    "group_lasso": GroupLasso,
}


def bind(penalty: Any, problem: FeatureProblem) -> Any:
    """A penalty, or its name, on the features of a problem, with strength 1."""
    if isinstance(penalty, str):
        penalty = FEATURE_PENALTIES[penalty]()
    elif hasattr(penalty, "_validate_params"):
        penalty._validate_params()
    if hasattr(penalty, "bind"):
        return penalty.bind(problem)
    return ProximalTerm(penalty, 1.0)
