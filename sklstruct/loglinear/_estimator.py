"""StructuredLogLinearLM: the log-linear language model with tree penalties."""

from __future__ import annotations

import numbers
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from .._checkpoint import Checkpoint, Keeper, digest
from .._compat import CallbackSupportMixin, Interval, StrOptions, with_callbacks
from .._docs import shared_docs
from .._parallel import ThreadMap
from .._progress import Progress
from .._warnings import warn
from ..backoff import BackoffClassifier, Counted, Fitted
from ..backoff._estimator import BATCH, SAMPLES, Report
from ._loss import LogLinearLoss
from ._memory import FitMemory, Solution
from ._penalties import PENALTIES, Penalty, Separable
from ._problem import Problem
from ._solvers import SOLVERS, Result, Solver, make_solver
from ._start import kneser_ney_weights, ridge_weights
from ._warm import rescaled_weights, warm_weights

# Largest strength and feature weight: squares of products of the two, times a count,
# stay far inside the range of floating point numbers.
LARGEST = 1e50


class Settings(NamedTuple):
    """What a fit minimises, beside the data."""

    penalty: Penalty
    lam: float
    alpha: Any
    depth_weight: Any


class Carried(NamedTuple):
    """The weights of the batches before one more."""

    place: np.ndarray  # (n_pairs before,) their numbers now, -1 where they are gone
    coef: np.ndarray  # (n_pairs before,)
    base: np.ndarray | None  # those of Kneser-Ney smoothing then, if they are of use
    weight: float  # of the new samples


class StructuredLogLinearLM(CallbackSupportMixin, BackoffClassifier):
    r"""Log-linear model over the suffixes of a context, with structured penalties.

    .. math::
        P(y \mid x) = \frac{\exp s(x, y)}{\sum_v \exp s(x, v)}, \qquad
        s(x, y) = \sum_{k=0}^{m} \beta_k\, w_{x_{(k)}, y},

    with :math:`x_{(k)}` the k most recent symbols of x and :math:`\beta_k =
    \alpha^k`, fitted by

    .. math::
        \min_w\ -\sum_i \omega_i \ln P(y_i \mid x_i) + \lambda\, \Omega(w),
        \qquad w \ge 0 .

    There is a weight for every pair (context, symbol that followed it in
    training; every class has one with the empty context), and no other. Loss and
    gradient are exact and cost O(number of pairs); no term is contexts times classes.
    The fitted model is exactly a back-off model.

    Parameters
    ----------
    max_depth : int, default=None
        Longest context m, at least 0. None: as long as the windows, or the paths,
        of X.

    penalty : name or Penalty, default="elastic_net"
        :math:`\Omega`. With q over the pairs and subtree(q) the pairs of the same
        symbol whose context extends that of q into the past, q included:

        - "elastic_net" or `ElasticNet(gamma=0.5)`:
          :math:`\sum_q |w_q| + \frac{\gamma}{2} \sum_q w_q^2`,
        - "l1" or `L1()`: :math:`\sum_q |w_q|`,
        - "l2" or `L2()`: :math:`\frac12 \sum_q w_q^2`,
        - "tree_l2" or `TreeL2()`: :math:`\sum_q \|w_{subtree(q)}\|_2`,
        - "tree_linf" or `TreeLinf()`: :math:`\sum_q \max w_{subtree(q)}`.

        A name stands for the object with its defaults. Parameters of an object are
        set and searched as ``penalty__gamma``.

    lam : float, default=None
        Strength :math:`\lambda`, from 0 to 1e50. The loss is a total over the samples,
        so `lam` is in counts, like an absolute discount: one value serves all
        corpus sizes. Papers that divide the loss by W tokens have lam / W. None, here
        and for the next two, is a value that suits the penalty:

        =========== === ===== ============
        penalty     lam alpha depth_weight
        =========== === ===== ============
        elastic_net 0.2 1     1.33
        l1          0.5 0.8   1
        l2          0.1 0.7   1
        tree_l2     0.9 1.2   1
        tree_linf   0.6 0.9   1
        =========== === ===== ============

        They were chosen on words, for contexts of up to 4; `StructuredLogLinearLMCV`
        finds better ones for other text.

    alpha : float or array-like of shape (depth + 1,), default=None
        Weight of the features by depth: :math:`\beta_k = \alpha^k` for a number, or
        the :math:`\beta_k` themselves, in order of depth; positive, and no
        :math:`\beta_k` above 1e50. 1 is unweighted. Smaller values charge deep
        contexts more.

    depth_weight : float or array-like of shape (depth + 1,), default=None
        Weight of the penalty's terms by depth: factor :math:`d^k` of `lam` for a
        number d (1e50 where it is larger: no weight is left there), or the factors
        themselves, non-negative and at most 1e50.

    positive : bool, default=True
        Whether weights are non-negative.

    penalize_root : bool, default=True
        Whether the weights of the empty context (the unigrams) are penalised.

    solver : name or Solver, default="auto"
        All start from Kneser-Ney smoothing, which is a point of the model (or from 0
        where the objective is lower there).

        - "tree_metric" or `TreeMetricSolver()`: proximal Newton steps in a metric that
          couples the weights of a path; l1, l2, elastic_net and tree_l2, non-negative
          weights.
        - "diagonal" or `DiagonalSolver()`: accelerated proximal gradient in a diagonal
          metric, for every penalty.
        - "fista" or `FistaSolver()`: one step size for all weights, a slow reference.
        - "lbfgs" or `LBFGSSolver()`: L-BFGS-B, for l1, l2 and elastic_net, of signed
          weights l2 alone; "owlqn" or `OWLQNSolver()`: OWL-QN, for the three.
        - "gis", "iis", "scis" and "cd" (`GISSolver()`, `IISSolver()`, `SCISSolver()`,
          `CoordinateDescentSolver()`): iterative scaling and coordinate descent, for
          the same three, slow references.
        - "stochastic" or `StochasticSolver()`: proximal steps on mini-batches, for
          every penalty.
        - "auto": the first of these that can fit the penalty.

    tol : float, default=1e-2
        Stop when the optimality residual, ``optimality_``, is at most `tol` (in the
        tree metric, when the decrease to be expected is small as well); at least 0. A
        solver object with a `tol` of its own uses that.

    max_iter : int, default=300
        Largest number of iterations, at least 1; a ConvergenceWarning when it is
        reached. A solver object with a `max_iter` of its own uses that.

    warm_start : bool, default=False
        Start from the weights of the previous `fit` when the pairs are the same
        (another `lam`, `alpha` or penalty on the same data), as if it were the first
        fit otherwise. With a `memory`, the fits of other clones count as previous.

    memory : FitMemory, default=None
        Where fits of the same samples share the counted tree and, with `warm_start`,
        their solutions: in a grid search the tree is counted once a fold. See
        `FitMemory`.

    checkpoint : str, os.PathLike or Checkpoint, default=None
        A file such as ``fit.ckpt``, to which `fit` writes its state every minute (or
        as often as a `Checkpoint` says) and on Ctrl-C, and from which the same `fit`
        goes on in another process. A file of other data or settings is refused. The
        file stays after the fit. `tol` and `max_iter` may change in between. A name
        without a suffix is a folder, for many fits; see `Checkpoint`. For every solver
        but "lbfgs", whose state scipy does not give out; "owlqn" fits the same
        penalties. Not for `partial_fit`.

    padding : object, default=None
        The symbol that marks missing history in dense X; see
        `SuffixTreeVectorizer`.

    classes : array-like of shape (n_classes,), default=None
        All symbols that can be predicted, in any order; closes the vocabulary. None:
        those of y. Symbols that y lacks get the probability of score 0.

    n_jobs : int, default=None
        Number of threads for the sweeps. None is 1 unless in a
        `joblib.parallel_config` context, -1 all processors. Results do not depend on
        it; a tree with few pairs is fitted in one thread.

    verbose : int, default=0
        Print objective and residual every `verbose` iterations; 0 is silent.
        For a progress bar set scikit-learn's ``ProgressBar`` callback with
        `set_callbacks`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted.

    coef_ : ndarray of shape (n_pairs,)
        Weight of each pair, in the order of the context tree.

    n_parameters_ : int
        Number of non-zero weights.

    n_iter_ : int
        Evaluations of loss and gradient.

    objective_ : ndarray of shape (`n_iter_`,)
        Penalised loss of the best weights after each iteration, in nats, total over
        the samples; the first is that of the start, the last that of the fitted
        weights.

    optimality_ : float
        Optimality residual :math:`\sqrt{\sum_p r_p^2 / c_p \,/\, \sum_i \omega_i}`,
        with :math:`r_p` the distance of the negative gradient to the penalty's
        subdifferential (by the proximal mapping) and :math:`c_p` the count of the
        pair.

    backoff_model_ : BackoffModel
        The fitted model: queries, sampling, ARPA.

    depth_ : int
        Longest context of the fitted tree.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    StructuredLogLinearLMCV : Chooses the strengths on held-out samples.
    sklstruct.smoothing.KneserNeyLM : Count-based model of the same form.
    sklstruct.language_model.LanguageModel : Sentences in, perplexity out.

    Notes
    -----
    With `collapse=True` in the vectorizer, merged suffixes share one weight. For
    "l1", "l2", "elastic_net" and "tree_linf" with alpha = 1 and depth_weight = 1 the
    optimum is that of the trie. With other values it is another model, whose
    probabilities can differ much: a UserWarning says so. "tree_l2" does not keep equal
    weights equal and is refused.

    The optimum of "tree_linf" (and of "l1") need not be unique: two solutions with
    the same objective agree on the training samples and may differ at contexts that
    were not seen whole. See `TreeLinf`.

    References
    ----------
    .. [1] A. Nelakanti, C. Archambeau, J. Mairal, F. Bach, G. Bouchard, "Structured
       Penalties for Log-linear Language Models", EMNLP 2013, equations 1, 2 and 8.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct import StructuredLogLinearLM
    >>> X = np.array([["", "a"], ["a", "b"], ["b", "a"], ["a", "b"], ["b", "a"]])
    >>> y = np.array(["b", "a", "b", "a", "c"])
    >>> model = StructuredLogLinearLM(lam=0.1, padding="").fit(X, y)
    >>> model.predict(np.array([["a", "b"], ["c", "a"]]))
    array(['a', 'b'], dtype='<U1')
    >>> model.predict_proba(X).sum(axis=1).round(12)
    array([1., 1., 1., 1., 1.])
    """

    _parameter_constraints: dict = {
        "max_depth": [Interval(numbers.Integral, 0, None, closed="left"), None],
        "penalty": [StrOptions(set(PENALTIES)), Penalty],
        "lam": [Interval(numbers.Real, 0, None, closed="left"), None],
        "alpha": [
            Interval(numbers.Real, 0, None, closed="neither"),
            "array-like",
            None,
        ],
        "depth_weight": [
            Interval(numbers.Real, 0, None, closed="left"),
            "array-like",
            None,
        ],
        "positive": ["boolean"],
        "penalize_root": ["boolean"],
        "solver": [StrOptions({"auto", *SOLVERS}), Solver],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "warm_start": ["boolean"],
        "checkpoint": [str, os.PathLike, Checkpoint, None],
        "memory": [FitMemory, None],
        "padding": "no_validation",
        "classes": ["array-like", None],
        "n_jobs": [numbers.Integral, None],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        penalty: str | Penalty = "elastic_net",
        lam: float | None = None,
        alpha: float | ArrayLike | None = None,
        depth_weight: float | ArrayLike | None = None,
        positive: bool = True,
        penalize_root: bool = True,
        solver: str | Solver = "auto",
        tol: float = 1e-2,
        max_iter: int = 300,
        warm_start: bool = False,
        checkpoint: str | os.PathLike | Checkpoint | None = None,
        memory: FitMemory | None = None,
        padding: Any = None,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.max_depth = max_depth
        self.penalty = penalty
        self.lam = lam
        self.alpha = alpha
        self.depth_weight = depth_weight
        self.positive = positive
        self.penalize_root = penalize_root
        self.solver = solver
        self.tol = tol
        self.max_iter = max_iter
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.memory = memory
        self.padding = padding
        self.classes = classes
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @shared_docs(samples=SAMPLES)
    def fit(
        self,
        X: ArrayLike | sp.spmatrix,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
    ) -> StructuredLogLinearLM:
        """Fit the weights.

        Parameters
        ----------
        {samples}

        Returns
        -------
        self : StructuredLogLinearLM
            Fitted estimator.
        """
        return self._fit(X, y, sample_weight)

    @with_callbacks
    def fit_counted(
        self, counted: Counted, *, overwrite: bool = False
    ) -> StructuredLogLinearLM:
        """Fit the weights to counts; see `BackoffClassifier.fit_counted`."""
        return super().fit_counted(counted, overwrite=overwrite)

    @with_callbacks
    @shared_docs(batch=BATCH)
    def partial_fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        classes: ArrayLike | None = None,
        sample_weight: ArrayLike | None = None,
        *,
        decay: float | None = None,
        window: int | None = None,
    ) -> StructuredLogLinearLM:
        """Learn from more samples.

        The counts of the batches merge, and the solver goes on from the weights of the
        batches before: each batch ends within `tol` of the optimum for all samples so
        far. For penalties without groups the start is Kneser-Ney smoothing of all
        samples, and as far from it as the weights before were from that of theirs.
        With ``solver="stochastic"`` only the first batch ends within `tol`; from the
        second on the solver makes a few steps.

        Parameters
        ----------
        {batch}

        Returns
        -------
        self : StructuredLogLinearLM
            Fitted estimator.
        """
        self._validate_params()
        if self.checkpoint is not None:
            raise ValueError(
                "checkpoint is for fit: a batch of partial_fit has other data than the "
                "one before; set checkpoint=None, and write the model between batches"
            )
        return super().partial_fit(
            X, y, classes, sample_weight, decay=decay, window=window
        )

    def _recall(self, samples: tuple, count: Callable[[], Counted]) -> Counted:
        return count() if self.memory is None else self.memory.counted(samples, count)

    def _fit_counted(self, counted: Counted, overwrite: bool) -> Fitted:
        count = np.asarray(counted.count, dtype=np.float64)
        carried = self._carried(counted)
        with self.reporting() as report:
            return Fitted(*self._minimise(counted.pairs, count, report, carried))

    def _carried(self, counted: Counted) -> Carried | None:
        """What the fit to the batches before gives, where this goes on from it."""
        if counted.growth is None or not hasattr(self, "coef_"):
            return None
        before = counted.growth.before
        if self.coef_.size != before.pairs.n_pairs:
            return None
        settings, base = self._settings(), None
        if isinstance(settings.penalty, Separable):
            # Of merged samples the weights of Kneser-Ney smoothing are others: a
            # context that went on in one way may go on in two. How far the optimum is
            # from them changes less than the optimum, unless it is sparse by groups.
            with ThreadMap(self.n_jobs) as parallel:
                count = np.asarray(before.count, dtype=np.float64)
                problem = self._problem(before.pairs, count, settings, parallel)
                l1_ratio = settings.penalty.bind(problem).l1_ratio
                base = kneser_ney_weights(problem, l1_ratio)
        place = counted.growth.place(counted.pairs)
        return Carried(place, self.coef_, base, counted.growth.weight)

    def _penalty(self) -> Penalty:
        is_name = isinstance(self.penalty, str)
        return PENALTIES[self.penalty]() if is_name else self.penalty

    def _solver(self) -> Solver:
        """A solver that has no tol or max_iter of its own gets those of the model."""
        if isinstance(self.solver, str):
            return make_solver(
                self.solver, self._penalty(), self.positive, tol=self.tol,
                max_iter=self.max_iter,
            )  # fmt: skip
        solver = clone(self.solver)
        for name in ("tol", "max_iter"):
            if getattr(solver, name, 0) is None:
                solver.set_params(**{name: getattr(self, name)})
        return solver

    def _check_params(self):
        penalty, solver = self._penalty(), self._solver()
        for part in (penalty, solver):
            part._validate_params()
        missing = solver.missing(penalty)
        if missing:
            solvers = _solvers_for(penalty, self.positive)
            penalties = [p for p in PENALTIES if not solver.missing(PENALTIES[p])]
            raise ValueError(
                f"solver={self.solver!r} cannot fit penalty={self.penalty!r}: it needs "
                f"the methods {list(solver.needs)} of the bound penalty, and "
                f"{penalty.bound.__name__} has no {' and no '.join(missing)}. Solvers "
                f"that can fit this penalty: {solvers}; penalties that this solver can "
                f"fit: {penalties}"
            )
        refusal = solver.refusal(penalty, self.positive)
        if refusal is not None:
            raise ValueError(
                f"solver={self.solver!r} cannot fit penalty={self.penalty!r} with "
                f"positive={self.positive!r}: {refusal}. Solvers that can: "
                f"{_solvers_for(penalty, self.positive)}"
            )
        if Checkpoint.of(self.checkpoint) is not None and not solver.resumable:
            raise ValueError(
                f"checkpoint: solver={self.solver!r} cannot go on from a checkpoint; "
                f"solvers that can: {[s for s in SOLVERS if SOLVERS[s].resumable]}"
            )
        settings = self._given()
        for name in Penalty.defaults:
            value = getattr(settings, name)
            if not np.isfinite(np.asarray(value, dtype=np.float64)).all():
                raise ValueError(f"{name} must be finite, got {value!r}")
        if float(settings.lam) > LARGEST:
            raise ValueError(f"lam must be at most {LARGEST:g}, got {self.lam!r}")

    def _given(self) -> Settings:
        """What the parameters say."""
        penalty = self._penalty()
        numbers = {
            name: default if getattr(self, name) is None else getattr(self, name)
            for name, default in (Penalty.defaults | penalty.defaults).items()
        }
        return Settings(penalty, **numbers)

    def _settings(self) -> Settings:
        """What is minimised; a subclass may have chosen other values."""
        return self._given()

    def _fit_tree(self, pairs, count):
        with self.reporting() as report:
            return self._minimise(pairs, count, report)[1:]

    def _problem(
        self, pairs, count, settings, parallel, *, node_weight=None, depth=None
    ):
        """The problem of some settings, with errors about those that do not fit it.

        `node_weight` and the `depth` of the whole tree are given where only a part of
        it is made.
        """
        penalty = settings.penalty
        if pairs.tree.span is not None and not penalty.collapsible:
            raise ValueError(
                f"penalty={self.penalty!r} does not keep the weights of merged "
                "suffixes equal, so it cannot be fitted on a collapsed tree; use "
                "SuffixTreeVectorizer(collapse=False), or penalty='tree_linf'"
            )
        if depth is None:
            depth = pairs.tree.max_depth
        beta = _by_depth("alpha", settings.alpha, depth, positive=True)
        depth_weight = _by_depth(
            "depth_weight", settings.depth_weight, depth, positive=False
        )
        if pairs.tree.span is not None:
            _warn_collapsed(beta, depth_weight)
        if not self.penalize_root:
            depth_weight[0] = 0.0
        problem = Problem(
            pairs, count, beta, settings.lam * depth_weight, positive=self.positive,
            parallel=parallel, node_weight=node_weight,
        )  # fmt: skip
        if not problem.total_weight <= LARGEST**2:
            raise ValueError(
                f"sample_weight must sum to at most {LARGEST**2:g}, got "
                f"{problem.total_weight:g}"
            )
        return problem

    @contextmanager
    def reporting(self) -> Iterator[Report]:
        """The context of a whole fit, to be entered once: what iterations call."""
        steps = getattr(self._solver(), "max_iter", None)
        with Progress.of_fit(self, steps) as progress:

            def report(iteration, objective, optimality):
                return progress.step(
                    f"iteration {iteration}: objective {objective:.6g}, residual "
                    f"{optimality:.2g}"
                )

            yield report

    def _minimise(self, pairs, count, report, carried=None, keep=None):
        settings, solver = self._settings(), self._solver()
        with ThreadMap(self.n_jobs) as parallel:
            weight = None if self.memory is None else self.memory.node_weight(pairs)
            problem = self._problem(
                pairs, count, settings, parallel, node_weight=weight
            )
            loss = LogLinearLoss(problem)
            keeper = (keep or self._keeper)(
                lambda: self._identity(problem, settings, solver)
            )
            # Steps that overflow are seen and taken again.
            with np.errstate(over="ignore", invalid="ignore"):
                done = None
                if keeper is not None:
                    done = keeper.result(Result.like(problem.n_pairs))
                if done is None:
                    result = self._solve(
                        solver, loss, settings, report, keeper, carried
                    )
                else:
                    result = Result(**done)
            trie, w = problem.expand(result.w)
            if trie is not problem:
                loss = LogLinearLoss(trie)
            log_prob, log_backoff = loss.backoff(w)
        self._keep_solution(problem, settings, result)
        self.coef_ = result.w
        self.n_iter_ = len(result.history)
        self.objective_ = np.array(result.history)
        self.optimality_ = result.optimality
        self.n_parameters_ = int(np.count_nonzero(result.w))
        self._warn_of(result, settings)
        return trie.pairs, log_prob, log_backoff

    def _solve(self, solver, loss, settings, report, keeper, carried):
        problem = loss.problem
        bound = settings.penalty.bind(problem)
        w = self._start(problem, loss, bound, settings, carried)
        if carried is not None and solver.incremental:
            share = min(carried.weight / problem.total_weight, 1.0)
            return solver.learn(loss, bound, w, report, share)
        if keeper is None:
            return solver.solve(loss, bound, w, report)
        with keeper:
            result = solver.solve(loss, bound, w, report, keeper)
        if result.status != "stopped":  # by a callback, which may not be there again
            keeper.finish(**result._asdict())
        return result

    def _warn_of(self, result, settings):
        """A warning if the fit has not converged."""
        if result.status == "stalled":
            warn(
                f"the solver stopped after {self.n_iter_} evaluations with an "
                f"optimality residual of {result.optimality:.2g}, not within tol: "
                "rounding hides any further descent. Increase tol, or lam",
                ConvergenceWarning,
                stacklevel=6,
            )
        if result.status == "max_iter":
            free = ", or lam: unpenalised weights may have no finite optimum"
            warn(
                f"the solver stopped at max_iter={self._solver().max_iter}, after "
                f"{self.n_iter_} evaluations, with an optimality residual of "
                f"{result.optimality:.2g}, not within tol. Increase max_iter or tol"
                f"{free if settings.lam == 0 else ''}",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _keeper(self, identity):
        """What keeps the checkpoints of a fit, and refuses those of others."""
        checkpoint = Checkpoint.of(self.checkpoint)
        if checkpoint is None:
            return None
        # With tol and max_iter, which are not in the identity.
        return Keeper(checkpoint, identity(), {"solver": self._solver().identity()})

    def _identity(self, problem, settings, solver):
        """What a checkpoint belongs to."""
        pairs, tree = problem.pairs, problem.tree
        return {
            "contexts": digest(tree.parent, tree.symbol, tree.span),
            "pairs": digest(pairs.ptr, pairs.target),
            "counts": digest(problem.count),
            "solver": solver.identity(whole=False),
            "penalty": repr(settings.penalty),
            "positive": problem.positive,
            "penalize_root": bool(self.penalize_root),
            "lam": settings.lam,
            "alpha": problem.beta_by_depth,
            "depth_weight": problem.strength_by_depth / (settings.lam or 1.0),
        }

    def _solution(self, problem, settings, w, objective=np.nan):
        """Weights, and what they are to minimise."""
        kind = repr(settings.penalty), problem.positive
        strength = problem.strength_by_depth / (settings.lam or 1.0)
        loss = objective
        if not np.isnan(objective):
            loss -= settings.penalty.bind(problem).value(w)
        return Solution(kind, problem.beta_by_depth, strength, settings.lam, w, loss)

    def _keep_solution(self, problem, settings, result):
        if self.memory is not None and self.warm_start:
            w, objective = result.w.copy(), result.objective
            solution = self._solution(problem, settings, w, objective)
            self.memory.keep(problem.pairs, solution)

    def _start(self, problem, loss, penalty, settings, carried=None):
        """The previous weights where they fit, else those of Kneser-Ney or 0.

        They do if their pairs are those of the tree and the loss is finite there: it
        need not be after a change of `alpha`. Solutions in the memory come first, those
        of another `alpha` or penalty only where they are better than Kneser-Ney.
        """
        zero = np.zeros(problem.n_pairs)
        starts = []
        if self.memory is not None and self.warm_start:
            found = self.memory.solutions(problem.pairs)
            wanted = self._solution(problem, settings, zero)
            w = warm_weights(loss, penalty, wanted, found)
            if w is not None:
                return w
            starts += rescaled_weights(problem, found)
        if (
            self.warm_start
            and getattr(self, "coef_", zero[:0]).size == zero.size
            and problem.same_pairs(self.backoff_model_)
        ):
            w = np.maximum(self.coef_, 0.0) if self.positive else self.coef_.copy()
            if np.isfinite(loss.value(w)):
                return w
        starts.append(kneser_ney_weights(problem, penalty.l1_ratio))
        if carried is not None:
            place, before, base, _ = carried
            w, stays = starts[-1].copy(), place >= 0
            to, before = place[stays], before[stays]
            w[to] = before if base is None else w[to] + (before - base[stays])
            if self.positive:
                np.maximum(w, 0.0, out=w)
            starts.append(w)
        elif penalty.l1_ratio == 0.0 and hasattr(penalty, "separable"):
            l2 = penalty.separable()[1]
            starts.append(ridge_weights(problem, starts[-1], l2))
        values = [loss.value(w) + penalty.value(w) for w in starts]
        at_zero = problem.total_weight * np.log(problem.n_classes)
        best = int(np.nanargmin([*values, at_zero]))
        return [*starts, zero][best]


def _solvers_for(penalty, positive):
    """The names of the solvers that can fit a penalty."""
    return [
        name
        for name, kind in SOLVERS.items()
        if not (kind().missing(penalty) or kind().refusal(penalty, positive))
    ]


def _by_depth(name, given, depth, positive):
    """The values of `alpha` or `depth_weight` for depths 0 ... depth."""
    parameter = np.asarray(given, dtype=np.float64)
    if parameter.ndim == 0:
        with np.errstate(over="ignore", under="ignore"):
            values = float(parameter) ** np.arange(depth + 1, dtype=np.float64)
        if name == "depth_weight" and parameter <= LARGEST:
            values = np.minimum(values, LARGEST)  # no weight is left either way
    else:
        if parameter.ndim != 1 or parameter.size <= depth:
            raise ValueError(
                f"{name} must be a number or give one value for each depth 0 ... "
                f"{depth} of the contexts, got shape {parameter.shape}"
            )
        if (parameter < 0).any() or (positive and (parameter == 0).any()):
            raise ValueError(
                f"{name} must be {'positive' if positive else 'non-negative'} at "
                f"every depth, got {parameter.tolist()}"
            )
        values = parameter[: depth + 1].copy()  # not the user's array
    if values.max() > LARGEST:
        k = int(np.argmax(values > LARGEST))
        raise ValueError(
            f"{name}={given!r} weighs contexts of {k} symbols by "
            f"{values[k]:.3g}, and weights must be at most {LARGEST:g}; use a "
            "smaller value, or a smaller max_depth"
        )
    return values


def _warn_collapsed(beta, depth_weight):
    # The root is never merged.
    for name, values in (("alpha", beta[1:]), ("depth_weight", depth_weight[1:])):
        if values.size and (values != values[0]).any():
            warnings.warn(
                f"{name} differs between depths, and on a collapsed tree merged "
                "suffixes of different depths share one weight: this is another model "
                f"than without collapse. Use {name}=1, or collapse=False in "
                "SuffixTreeVectorizer",
                UserWarning,
                stacklevel=5,
            )
