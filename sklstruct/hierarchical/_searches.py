"""Searches for the strengths of the penalties of all nodes.

Node v minimises its total loss plus :math:`\\lambda_v \\|w_v\\|^2`, which in
scikit-learn's terms is :math:`C_v = 1 / (2 \\lambda_v)`. A search is a
`StrengthSearch`. Its parameter `estimator` is the `LinearClassifier` of the nodes. Its
method ``solve(problems, C, fit, run)`` returns a `NodeFit`; `problems` are the
`NodeProblems` of a tree, `C` is the C of the `LinearClassifier`, ``fit(problems, C,
...)`` is its solver (`fit_nodes`), and `run` is the `Run` of the tree. A new search is
a class in this file.
"""

from __future__ import annotations

from collections.abc import Callable
from numbers import Real
from typing import NamedTuple

import numpy as np
from numpy.random import RandomState
from numpy.typing import ArrayLike, NDArray

from .._checks import as_numbers, check_reals
from .._compat import BaseEstimator, Interval
from .._progress import Progress
from ..linear import LinearClassifier
from ..linear._quasi_newton import NodeProblems
from ..taxonomy._samples import even_folds
from ._nodes import Run

# Folds that choose the strengths.
_N_FOLDS = 3

# Rounds of the alternation of `GammaPrior`. Few nodes still change in the tenth.
_ROUNDS = 10

# Relative change of C below which a node is at rest.
_AT_REST = 1e-2

# Candidates of `GammaPrior`. At w = 0 they give C = rate / (2 (shape - 1)) from 5e-4 to
# 500. The rate is the squared norm of the weights at which the penalty changes from
# quadratic to logarithmic.
_SHAPES = 2.0, 11.0, 101.0, 1001.0
_RATES = 1.0, 10.0, 100.0, 1000.0


class NodeFit(NamedTuple):
    """The fit of the nodes of one tree."""

    coef: NDArray  # (n_rows, n_features)
    intercept: NDArray  # (n_rows,)
    C: NDArray  # (n_models,)
    n_iter: NDArray  # (n_models,)
    status: NDArray  # (n_models,), as of `NodeProblems.fit`


def plain_logistic() -> LinearClassifier:
    """The node model of a search, and the default one of dense X."""
    return LinearClassifier(
        "log_loss", solver="quasi_newton", intercept_scaling=np.inf, calibration=None
    )


class StrengthSearch(BaseEstimator):
    """Base of the searches; `estimator` is the model of a node."""

    _parameter_constraints: dict = {"estimator": [LinearClassifier, None]}

    estimator: LinearClassifier | None

    def node(self) -> LinearClassifier:
        """The model of a node."""
        return plain_logistic() if self.estimator is None else self.estimator

    def n_solves(self) -> int:
        """Largest number of steps that `solve` reports."""
        raise NotImplementedError

    def check(self) -> None:
        """Raise ValueError for parameters out of their range."""
        self._validate_params()
        node = self.node()
        if not is_chain(node):
            raise ValueError(
                f"estimator of {type(self).__name__} must have "
                'loss="log_loss", calibration=None and weight_threshold=0, '
                f"got {node!r:.60}"
            )

    def solve(
        self, problems: NodeProblems, C: float, fit: Callable, run: Run
    ) -> NodeFit:
        """Choose the strengths of the nodes of one tree, and fit them."""
        raise NotImplementedError

    @staticmethod
    def _held_out(
        problems: NodeProblems, n_tried: int, each: Callable, run: Run
    ) -> NDArray:
        """Total loss of the held-out samples at each node (n_tried, n_nodes).

        each(train): for each value that is tried the (coef, intercept, n_iter) of a fit
        to the problems `train`, on all folds but one.
        """
        fold = folds(problems.code, run.rng)
        loss = np.zeros((n_tried, problems.n_nodes))
        for f in range(_N_FOLDS):
            held = np.flatnonzero(fold == f)
            train = problems.subset(np.flatnonzero(fold != f))
            n_iter = np.zeros(train.n_nodes, dtype=np.int64)
            for i, (coef, intercept, moved) in enumerate(each(train)):
                n_iter = n_iter + moved
                loss[i] += problems.loss(held, coef, intercept)
            if report(run.progress, f"fold {f + 1}", n_iter):
                break  # only the folds so far are used
        return loss


def is_chain(estimator: LinearClassifier) -> bool:
    """Whether nodes are plain: the probability of a class is the product of nodes."""
    given = estimator.loss, estimator.calibration, estimator.weight_threshold
    return given == ("log_loss", None, 0)


class PerNodeC(StrengthSearch):
    r"""A search for C of every node by cross-validation.

    .. math::
        C_v = \arg\min_{C} \sum_{f} \sum_{i \in f} s_i
        \bigl(-\ln P_{C, -f}(v(y_i) \mid x_i)\bigr)

    over the candidates. The three folds f are stratified by class; :math:`P_{C, -f}` is
    the model of the node fitted without fold f, :math:`v(y)` is the child above class
    y, and the sum is over the samples below the node, of weight :math:`s_i`. If a class
    has only one sample, the sample is not part of a fold. The held-out likelihood of
    the tree is the product of the held-out likelihoods of its nodes, so the choice of C
    for each node alone maximises the likelihood of the tree.

    Parameters
    ----------
    candidates : array-like of shape (n_candidates,), default=None
        Values of C, positive. None: C of the estimator times 0.01, 0.1, 1, 10, 100.

    estimator : LinearClassifier, default=None
        The model of a node, with ``loss="log_loss"``, ``calibration=None`` and
        ``weight_threshold=0``. None: the default of `HierarchicalClassifier` for dense
        X.

    References
    ----------
    A. Nelakanti, thesis, 2014, section 4.3, "indep".

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklstruct.hierarchical import HierarchicalClassifier, PerNodeC
    >>> X, y = load_digits(return_X_y=True)
    >>> each = PerNodeC([0.01, 0.1, 1])
    >>> model = HierarchicalClassifier(estimator=each, random_state=0)
    >>> model.fit(X / 16, y).C_.tolist()
    [1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    """

    _parameter_constraints: dict = {
        **StrengthSearch._parameter_constraints,
        "candidates": ["array-like", None],
    }

    def __init__(
        self,
        candidates: ArrayLike | None = None,
        *,
        estimator: LinearClassifier | None = None,
    ):
        self.candidates = candidates
        self.estimator = estimator

    def n_solves(self) -> int:
        return _N_FOLDS + 1

    def check(self) -> None:
        super().check()
        if self.candidates is not None:
            _numbers(self.candidates, "candidates", 0)

    def solve(
        self, problems: NodeProblems, C: float, fit: Callable, run: Run
    ) -> NodeFit:
        if self.candidates is None:
            candidates = float(C) * 10.0 ** np.arange(-2, 3)
        else:
            candidates = np.unique(_numbers(self.candidates, "candidates", 0))

        def each(train):
            start = None
            for value in candidates:  # ascending; a fit starts from the previous fit
                *start, moved, _ = fit(
                    train, np.full(train.n_nodes, value), start=start
                )
                yield *start, moved

        loss = self._held_out(problems, candidates.size, each, run)
        # argmin takes the smallest C, the simplest model, where nothing is held out
        return fit_at(problems, candidates[loss.argmin(axis=0)], fit, run.progress)


class GammaPrior(StrengthSearch):
    r"""A Gamma prior on the strengths of the nodes, with cross-validated parameters.

    The strengths are drawn from :math:`P(\lambda) \propto \lambda^{a - 1} e^{-b
    \lambda}`, and

    .. math::
        \min_{w, \lambda} \sum_v L_v(w_v) + \lambda_v \|w_v\|^2
        - (a - 1) \ln \lambda_v + b \lambda_v

    is minimised alternately over w, with given strengths, and over the strengths,
    :math:`\lambda_v = (a - 1) / (b + \|w_v\|^2)`, in at most ten rounds that start from
    the C of the estimator. The problem has local minima. With a large b all nodes have
    nearly the same :math:`C = b / (2 (a - 1))`. With a small b nodes with large weights
    are penalised less. All nodes of a tree have the same a and b, which are the
    candidates with the smallest log-loss of the tree on held-out folds.

    Parameters
    ----------
    shape : float or array-like, default=None
        Shape a > 1, or candidates for a. None: 2, 11, 101, 1001.

    rate : float or array-like, default=None
        Rate b > 0, or candidates for b. None: 1, 10, 100, 1000. If both `shape` and
        `rate` are numbers, both are used without cross-validation.

    estimator : LinearClassifier, default=None
        As in `PerNodeC`.

    Attributes
    ----------
    shape_ : float
        Shape that was chosen for the tree. ``searches_`` of the classifier has a fitted
        copy of the prior for each tree.

    rate_ : float
        Rate that was chosen for the tree.

    References
    ----------
    A. Nelakanti, thesis, 2014, section 4.3, "gamma"; C. B. Do, C.-S. Foo, A. Y. Ng,
    "Efficient multiple hyperparameter learning for log-linear models", NIPS 2007.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklstruct.hierarchical import GammaPrior, HierarchicalClassifier
    >>> X, y = load_digits(return_X_y=True)
    >>> prior = GammaPrior(shape=101, rate=[1, 10, 100])
    >>> model = HierarchicalClassifier(estimator=prior, random_state=0)
    >>> model.fit(X / 16, y).searches_[0].shape_
    101.0
    """

    _parameter_constraints: dict = {
        **StrengthSearch._parameter_constraints,
        "shape": [Interval(Real, 1, None, closed="neither"), "array-like", None],
        "rate": [Interval(Real, 0, None, closed="neither"), "array-like", None],
    }

    def __init__(
        self,
        shape: float | ArrayLike | None = None,
        rate: float | ArrayLike | None = None,
        *,
        estimator: LinearClassifier | None = None,
    ):
        self.shape = shape
        self.rate = rate
        self.estimator = estimator

    def _grid(self) -> list[tuple[float, float]]:
        shapes = _SHAPES if self.shape is None else self.shape
        rates = _RATES if self.rate is None else self.rate
        return [
            (float(a), float(b))
            for a in np.unique(_numbers(shapes, "shape", 1))
            for b in np.unique(_numbers(rates, "rate", 0))
        ]

    def check(self) -> None:
        super().check()
        self._grid()

    def n_solves(self) -> int:
        return _ROUNDS + (_N_FOLDS if len(self._grid()) > 1 else 0)

    def solve(
        self, problems: NodeProblems, C: float, fit: Callable, run: Run
    ) -> NodeFit:
        grid, best = self._grid(), 0

        def each(train):
            # the first round has the same C for every prior
            first, n_iter = fit(train, np.full(train.n_nodes, float(C))), 0
            for prior in grid:
                found = _alternate(train, C, prior, fit, first)
                yield found.coef, found.intercept, found.n_iter - n_iter
                n_iter = first[2]  # the first round is made once

        if len(grid) > 1:
            loss = self._held_out(problems, len(grid), each, run).sum(axis=1)
            best = int(loss.argmin())
        self.shape_, self.rate_ = grid[best]
        first = fit(problems, np.full(problems.n_nodes, float(C)))
        return _alternate(problems, C, grid[best], fit, first, run.progress)


def fit_at(
    problems: NodeProblems, C: NDArray, fit: Callable, progress: Progress
) -> NodeFit:
    """The fit of all nodes at given C."""
    coef, intercept, n_iter, status = fit(problems, C)
    report(progress, "fitted", n_iter)
    return NodeFit(coef, intercept, C, n_iter, status)


def _alternate(
    problems: NodeProblems,
    C: float,
    prior: tuple[float, float],
    fit: Callable,
    first: tuple[NDArray, ...],
    progress: Progress | None = None,
) -> NodeFit:
    """The alternation from the weights `first` at one C; see `GammaPrior`."""
    shape, rate = prior
    n_nodes = problems.n_nodes
    node_of_row = np.repeat(np.arange(n_nodes), problems.n_rows)
    coef, intercept, n_iter, status = (array.copy() for array in first)
    each, moving = np.full(n_nodes, float(C)), np.arange(n_nodes)
    stop = progress is not None and report(progress, "round 1", n_iter)
    for round_ in range(2, _ROUNDS + 1):
        if stop:
            break
        square = np.bincount(node_of_row, np.einsum("ij,ij->i", coef, coef), n_nodes)
        new = (rate + square) / (2 * (shape - 1))
        # nodes stop one by one: the result of a node does not depend on the others
        moving = moving[np.abs(new - each)[moving] > _AT_REST * each[moving]]
        if moving.size == 0:
            break
        each[moving] = new[moving]
        coef, intercept, moved, last = fit(
            problems, each, start=(coef, intercept), nodes=moving
        )
        n_iter += moved
        status[moving] = last[moving]
        if progress is not None:
            stop = report(progress, f"round {round_}", moved[moving])
    return NodeFit(coef, intercept, each, n_iter, status)


def report(progress: Progress, text: str, n_iter: NDArray) -> bool:
    """Report one solve of the nodes; returns whether a callback asks to stop."""
    most = n_iter.max(initial=0)
    return progress.step(
        f"{text}, {n_iter.size} nodes, at most {most} iterations", "solve"
    )


def _numbers(values: float | ArrayLike, name: str, above: float) -> NDArray:
    """A number or a list of them as an array, all finite and above a bound."""
    array = as_numbers(name, values, "a finite number or a list of these")
    if array.ndim != 1 or array.size == 0:
        raise ValueError(
            f"{name} must be a finite number or a list of these, got {values!r:.60}"
        )
    check_reals(name, array, f"({above}, inf)")
    return array


def folds(code: NDArray, rng: RandomState) -> NDArray:
    """Fold of each sample, stratified by class.

    The only sample of a class has fold -1 and is always in training, so that no outcome
    of a node is empty.
    """
    fold = even_folds(code, _N_FOLDS, rng)
    fold[np.bincount(code)[code] == 1] = -1
    return fold
