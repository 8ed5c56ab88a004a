"""JointLogLinear: several context trees in one exact softmax."""

from __future__ import annotations

import numbers
import os
from collections.abc import Iterable
from itertools import islice
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from .._checkpoint import NO_STORE, Checkpoint, FileStore
from .._checks import check_memory
from .._compat import (
    N_JOBS,
    BaseEstimator,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    _fit_context,
    _safe_indexing,
    with_callbacks,
)
from .._digest import digest
from .._members import NamedMembers
from .._parallel import ThreadMap
from .._progress import Progress
from ..backoff import (
    Counted,
    DeferredCounts,
    DistributionClassifier,
    count_windows,
    read_sample_weight,
    read_targets,
    require_targets,
    target_column,
)
from ..context_tree import ContextTree, Pairs, read_windows
from ..symbols import Labels, encode, learn_symbols
from ..word_classes._refiner import clustering_cache
from ._fit import LARGEST, check_total_weight, given_solver
from ._gap import warn_of_end
from ._joint_model import JointObjective, JointTrees, OutcomeRows
from ._joint_solver import solve_joint
from ._penalties import L2
from ._solvers import AutoSolver, Result, Solver, TreeMetricSolver


class JointLogLinear(
    CallbackSupportMixin, DistributionClassifier, NamedMembers, BaseEstimator
):
    r"""Log-linear model with the features of several context trees in one softmax.

    .. math::
        P(y \mid x) = \frac{e^{s(x, y)}}{\sum_{y'} e^{s(x, y')}}, \qquad
        s(x, y) = w_y + \sum_t \sum_{k \ge 1} \beta_k\, w^{(t)}_{x^{(t)}_{(k)},\, y}

    with :math:`x^{(t)}_{(k)}` the context of k symbols on path t of the history, and
    :math:`w_y` the weight of the empty context, which all paths share. In addition,
    every pair of a context and a class that occurs in training has a weight. The
    weights minimise

    .. math::
        \sum_i -\omega_i \ln P(y_i \mid x_i) + \frac{\lambda}{2} \|w\|^2 .

    The sum in the denominator is over all classes, so the model is suitable for up to
    some hundred classes, such as the word classes of a
    :class:`~sklstruct.mixture.FactoredLM`, or the words of one class. With one path the
    model is equal to :class:`StructuredLogLinearLM` with ``penalty="l2"``, which is
    faster.

    Parameters
    ----------
    paths : list of (str, transformer or "passthrough"), default=None
        Names and transformers, which are cloned and fitted to X and y. A transformer,
        such as :class:`~sklstruct.word_classes.ContextRefiner`, turns windows into
        windows whose last column is the first symbol of a path. ``"passthrough"``: the
        windows of X themselves. None: a single ``"passthrough"`` path.

    lam : float, default=0.3
        Strength :math:`\lambda` of the penalty, in counts; at least 0.

    alpha : float, default=0.87
        :math:`\beta_k = \alpha^k`; positive, at most 1.

    min_count : int, default=1
        Contexts with a smaller sum of sample weights are left out, and paths end before
        them; at least 1, which keeps all contexts. Most contexts of a text occur once,
        so a fit with 2 takes less memory and time.

    solver : {"auto", "tree_metric"} or Solver, default="auto"
        The stopping rules, as an `AutoSolver` or a `TreeMetricSolver` with `tol`,
        `max_iter`, `gap_tol` and `verbose`; a name has the default rules. The method is
        always the same: Newton steps of one tree after the other in the metric of
        `TreeMetricSolver`, with momentum. The fit stores one score of 4 bytes for each
        class and sample; samples with the same contexts on all paths share their
        scores.

        `max_iter` counts passes over all trees. The residual is relative to the sum of
        all sample weights. With weights of very different sizes the residual can be
        small far from the optimum, and a ConvergenceWarning says so. Then set
        `gap_tol`: each computation of the gap takes about as long as a pass, and needs
        24 bytes for each weight.

    checkpoint : str, os.PathLike or Checkpoint, default=None
        As in `StructuredLogLinearLM`; `gap_tol` may also change from or to None. The
        file has the scores, and 16 bytes for each weight.

    padding : object, default=None
        The symbol that marks missing history in X, for ``"passthrough"``. Transformers
        have a separate parameter, and return -1 for missing history.

    classes : array-like of shape (n_classes,), default=None
        All symbols that can be predicted, in any order. None: those of y.

    n_jobs : int, default=None
        Number of threads for the sweeps. None means 1 unless in a
        `joblib.parallel_config` context; -1 means all processors. Results do not depend
        on it; trees with few pairs are fitted in one thread.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted.

    distribution_ : Distribution
        The trees with the weights that are not 0, in single precision, for queries by
        ids. Rows sum to 1 as exactly as in double precision.

    coef_ : ndarray of shape (n_pairs,)
        Weights of the pairs of a context and a class, tree after tree.

    objective_ : ndarray of shape (`n_iter_` + 1,)
        Penalised loss at the start and after each pass, in nats, total over the
        samples.

    optimality_ : float
        Optimality residual as in `StructuredLogLinearLM`: the root mean square of the
        distances of the negative gradient to the penalty's subdifferential, over the
        roots of the pairs' counts.

    gap_ : float
        Duality gap as in `StructuredLogLinearLM`: upper bound, in nats, of how much
        lower the total penalised loss can be, over all weights that each add at most 25
        to a score.

    n_iter_ : int
        Passes over all trees.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    StructuredLogLinearLM : One tree, with an exact solver and structured penalties.
    sklstruct.mixture.MixtureLM : Several models, each with its own softmax.

    Notes
    -----
    Several trees explain the same samples with more weights: choose a larger `lam` and
    a smaller `alpha` than for one tree.

    The scores are in single precision and change in each pass. Therefore
    ``optimality_``, and ``objective_`` between its first and its last entry, contain
    rounding errors that add up: about 1e-6 of the objective after a thousand passes.
    The first and the last entry are computed in double precision. The fitted weights
    are those of the best pass, up to this rounding, and never worse than the start. If
    rounding prevents every further decrease, the fit ends with a ConvergenceWarning.

    The cost of a pass is, for each tree, n_classes exponentials for all samples with
    the same contexts, n_classes additions per context, and a few passes over the pairs.

    References
    ----------
    .. [1] S. J. Wright, "Coordinate descent algorithms", Mathematical Programming 151,
       2015 (block coordinate descent, with momentum and restarts).

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.loglinear import JointLogLinear
    >>> from sklstruct.word_classes import ContextRefiner
    >>> X = np.array([["", "a"], ["a", "cat"], ["", "one"], ["one", "dog"]] * 5)
    >>> y = np.array(["cat", "sat", "dog", "ran"] * 5)
    >>> coarse = ContextRefiner("c2(1) c2(2)", padding="")
    >>> paths = [("words", "passthrough"), ("coarse", coarse)]
    >>> model = JointLogLinear(paths, padding="").fit(X, y)
    >>> model.predict(X[:4]).tolist()
    ['cat', 'sat', 'dog', 'ran']
    """

    distribution_: JointTrees
    members_in = "paths"

    _parameter_constraints: dict = {
        "paths": [list, None],
        "lam": [Interval(numbers.Real, 0, LARGEST, closed="both")],
        "alpha": [Interval(numbers.Real, 0, 1, closed="right")],
        "min_count": [Interval(numbers.Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", "tree_metric"}), AutoSolver, TreeMetricSolver],
        "checkpoint": [str, os.PathLike, Checkpoint, None],
        "padding": "no_validation",
        "classes": ["array-like", None],
        "n_jobs": N_JOBS,
    }

    def __init__(
        self,
        paths: list[tuple[str, Any]] | None = None,
        *,
        lam: float = 0.3,
        alpha: float = 0.87,
        min_count: int = 1,
        solver: str | Solver = "auto",
        checkpoint: str | os.PathLike | Checkpoint | None = None,
        padding: Any = None,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.paths = paths
        self.lam = lam
        self.alpha = alpha
        self.min_count = min_count
        self.solver = solver
        self.checkpoint = checkpoint
        self.padding = padding
        self.classes = classes
        self.n_jobs = n_jobs

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=False)
    def fit(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Self:
        """Fit the weights.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Windows of symbols, the last column the most recent.

        y : array-like of shape (n_samples,)
            The symbol that followed each window.

        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights; samples of weight 0 are left out.

        Returns
        -------
        self : JointLogLinear
            Fitted estimator.

        Raises
        ------
        ValueError
            If X, y and weights do not fit together, or paths cannot read X.
        """
        require_targets(self, y)
        self._check_params()
        steps = self.read_paths()
        # The columns of X itself, which the paths may not all read.
        ids, self._symbols = read_windows(self, X, self.padding, reset=True)
        target: Any = target_column(y, ids.shape[0])
        keep, sample_weight = read_sample_weight(sample_weight, ids)
        if keep is not None:
            X, target, ids = _safe_indexing(X, keep), target[keep], ids[keep]
        outcome, self.classes_ = read_targets(target, self.classes)
        self._steps: list[Any] = []
        self._step_symbols: list[Any] = []

        def read():
            fitted: dict = {}
            for step in steps:
                made, symbols = ids, self._symbols
                if step is not None:
                    with clustering_cache(fitted):
                        step = clone(step).fit(X, target)
                    made = _windows(step.transform(X), step)
                    symbols = learn_symbols(made, -1)
                    made = encode(made, symbols)
                self._steps.append(step)
                self._step_symbols.append(symbols)
                labels = Labels(self.classes_, symbols)
                yield count_windows(
                    made, outcome, labels, sample_weight=sample_weight,
                    keep_positions=True,
                )  # fmt: skip

        return self._learn(read())

    def read_paths(self) -> list[Any]:
        """The transformers, None for "passthrough".

        Raises
        ------
        ValueError
            If `paths` is not a list of pairs.
        """
        if self.paths is None:
            return [None]
        paths = self._check_members(
            "transformer or 'passthrough'", "there is no context to look at"
        )
        steps = []
        for name, step in paths:
            passes = isinstance(step, str) and step == "passthrough"
            if not passes and (
                isinstance(step, type) or not hasattr(step, "transform")
            ):
                raise ValueError(
                    f"paths: {name!r} must be a transformer or 'passthrough', got "
                    f"{step!r}"
                )
            steps.append(None if passes else step)
        return steps

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counted(self, counted: Iterable[Counted]) -> Self:
        """Fit the weights to samples that were read.

        Parameters
        ----------
        counted : iterable of Counted
            The same samples as each path reads them, made by `count_windows` with
            ``keep_positions=True``. With a generator, which takes less memory, only one
            is stored at a time.

        Returns
        -------
        self : JointLogLinear
            Fitted estimator, to be queried by its ``distribution_``; `predict` needs
            `fit`.

        Raises
        ------
        ValueError
            If the paths have 0 samples, or have different samples.
        """
        return self._learn(counted)

    def _learn(self, counted):
        solver, checkpoint = self._check_params()
        with (
            Progress.of_fit(self, solver.max_iter, solver.verbose) as progress,
            ThreadMap(self.n_jobs) as parallel,
        ):

            def report(iteration, objective, optimality):
                return progress.step(
                    f"pass {iteration + 1}: objective {objective:.6g}, residual "
                    f"{optimality:.2g}"
                )

            paths, exact = self._read(counted, parallel)
            result, slope = self._solve(
                solver, paths, exact, checkpoint, parallel, report
            )
        joint, total = exact.joint, float(exact.row_weight.sum())
        self.gap_ = exact.gap(result.w, slope)
        del slope
        joint.finish(result.w)
        self.distribution_, self.coef_ = joint, result.w
        self.objective_ = np.array(result.history)
        self.optimality_ = result.optimality
        self.n_iter_ = len(result.history) - 1
        at_start = result.objective == result.history[0]
        warn_of_end(
            self, result, solver, total,
            f"{'These are the weights of the start. ' if at_start else ''}The scores "
            "are in single precision, in which no step lowers the objective; use "
            "a larger lam, or sample weights of more equal size",
        )  # fmt: skip
        return self

    def _read(self, counted, parallel):
        """(pairs and their counts of each path, the objective)."""
        trees, terminals, target, weight = self._read_trees(counted, parallel)
        n_outcomes = self.classes_.size
        samples, terminals = _grouped(trees, terminals, target, n_outcomes, weight)
        followed = np.diff(samples.ptr)

        def count(t):
            return Pairs.count(
                trees[t], np.repeat(terminals[t], followed), samples.outcome,
                n_outcomes, samples.weight,
            )  # fmt: skip

        paths = parallel(count, range(len(trees)))
        pairs, counts = zip(*paths)
        beta = float(self.alpha) ** np.arange(max(t.max_depth for t in trees) + 1)
        joint = JointTrees(trees, pairs, pairs[0].node_sums(counts[0]), beta)
        check_memory(
            24.0 * joint.w.size, "the weights of the pairs", "use shorter paths"
        )
        # No path leads to the roots of the other trees, which are left out.
        own = [slice(n_outcomes * (t > 0), None) for t in range(len(paths))]
        exact = JointObjective(
            joint, joint.places(terminals), samples, own, counts, float(self.lam),
            parallel,
        )  # fmt: skip
        return paths, exact

    def _read_trees(self, counted, parallel):
        """(the tree of each path, the node of each sample in it, targets, weights)."""
        trees, terminals = [], []
        target = weight = None

        def read(path):
            return ContextTree.from_histories(
                path.positions.histories, path.labels.n_symbols, weight=weight,
                min_count=self.min_count,
            )  # fmt: skip

        counted = iter(counted)
        # A generator makes a path when there is memory for it again.
        while some := list(islice(counted, parallel.n_threads)):
            for path in some:
                if not isinstance(path, DeferredCounts):
                    raise ValueError(_NO_POSITIONS)
                _, own_target, own_weight = path.positions
                if target is None:
                    self.classes_, target = path.labels.classes, own_target
                    weight = np.ones(target.size) if own_weight is None else own_weight
                    check_total_weight(weight.sum())
                elif not np.array_equal(own_target, target):
                    raise ValueError("counted: the paths have read other samples")
            for tree, terminal in parallel(read, some):
                trees.append(tree)
                terminals.append(terminal)
            del some, path
        if not trees:
            raise ValueError(_NO_POSITIONS)
        return trees, terminals, target, weight

    def _check_params(self):
        """(the solver, the checkpoint or None), and errors that scikit-learn's
        declarations cannot express."""
        solver = given_solver(self)
        solver._validate_params()
        solver = solver.chosen(L2(), positive=True)
        return solver, Checkpoint.of(self.checkpoint)

    def _solve(self, solver, paths, exact, checkpoint, parallel, report):
        store = NO_STORE
        if checkpoint is not None:
            trees = [pairs.tree for pairs, *_ in paths]
            identity = {
                "contexts": digest(*(a for t in trees for a in (t.parent, t.symbol))),
                "samples": digest(*exact.terminals(), *exact.samples),
                "classes": paths[0][0].n_classes,
                "lam": float(self.lam),
                "alpha": exact.joint.beta,
            }
            store = FileStore(checkpoint, identity, {"solver": solver.identity()})
            done = store.result(Result.like(exact.joint.w.size))
            if done is not None:
                result = Result(**done)
                return result, exact(result.w)[1]
        with store:
            result, slope = solve_joint(paths, exact, solver, parallel, report, store)
            if result.status != "stopped":
                store.finish(**result._asdict())
        return result, slope

    # ----------------------------------------------------------- prediction

    def locate(self, X: ArrayLike) -> NDArray:
        """Node of each tree for each row of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Windows of symbols.

        Returns
        -------
        nodes : ndarray of shape (n_samples, n_trees), int32
            For the methods of ``distribution_``.
        """
        check_is_fitted(self)
        ids, _ = read_windows(self, X, self.padding, reset=False, symbols=self._symbols)
        windows = []
        for step, symbols in zip(self._steps, self._step_symbols):
            made = ids
            if step is not None:
                made = encode(_windows(step.transform(X), step), symbols)
            windows.append(made)
        return self.distribution_.locate(tuple(windows))

    def __sklstruct_ids__(self, labels: Labels) -> dict[str, Any]:
        """Parameters with which the estimator learns from windows of class ids."""
        # Check names before any parameter is set: a path must not have a parameter's
        # name.
        self.read_paths()
        return {**super().__sklstruct_ids__(labels), "padding": -1}


_NO_POSITIONS = (
    "counted must hold a Counted with positions for each path; make them by "
    "count_windows with keep_positions=True"
)


def _grouped(trees, terminals, target, n_outcomes, weight):
    """(samples with equal contexts merged as one row, node of each row in each tree).

    Rows are in the order of the first tree: paths that begin alike are neighbours
    there, and nearly so in the other trees.
    """
    row = terminals[0].astype(np.int64)
    for tree, terminal in zip(trees[1:], terminals[1:]):
        row = np.unique(row * tree.n_nodes + terminal, return_inverse=True)[1]
    found, pair = np.unique(row * n_outcomes + target, return_inverse=True)
    weight = np.bincount(pair, weight)
    row, outcome = np.divmod(found, n_outcomes)
    # Any sample of the pair is one of its row.
    sample = np.empty(found.size, dtype=np.int64)
    sample[pair] = np.arange(pair.size)
    first = np.flatnonzero(np.diff(row, prepend=-1))
    samples = OutcomeRows(np.append(first, row.size), outcome.astype(np.int32), weight)
    return samples, [terminal[sample[first]] for terminal in terminals]


def _windows(made, step):
    """The output of a path: windows of ids."""
    made = np.asarray(made)
    if made.ndim != 2 or made.dtype.kind not in "iu" or made.min(initial=0) < -1:
        raise ValueError(
            f"paths: transform of {type(step).__name__} must give windows of ids, "
            f"integers of at least -1, got an array of {made.dtype} of shape "
            f"{made.shape}"
        )
    return made
