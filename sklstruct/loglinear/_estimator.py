"""StructuredLogLinearLM: the log-linear language model with tree penalties."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._checkpoint import Checkpoint, refuse_in_batches
from .._compat import (
    N_JOBS,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    available_if,
    with_callbacks,
)
from .._docs import names_of, shared_docs
from .._parallel import ThreadMap
from .._progress import Progress
from ..backoff import (
    BackoffClassifier,
    BackoffModel,
    Counted,
    DeferredCounts,
    ExtendedCounts,
    Fitted,
    Positions,
    selected_nodes,
    with_all_contexts,
)
from ..backoff._estimator import BATCH
from ..symbols import Labels
from ._active_set import grow
from ._fit import (
    LARGEST,
    Fit,
    bind,
    check_numbers,
    fitted_numbers,
    given_solver,
    is_positive,
    penalty_of,
    solver_of,
)
from ._gap import warn_of_end
from ._penalties import PENALTIES, Penalty, Separable
from ._prior import check_labels, with_pairs_of
from ._solvers import SOLVERS, Report, Result, Solver, solvers_that
from ._start import kneser_ney_weights


def _is_online(model: StructuredLogLinearLM) -> bool:
    for name, stands in (
        ("solver", model.keeps_positions),
        ("min_count", model.min_count > 1),
        ("prior", model.prior is not None),
    ):
        if stands:
            raise AttributeError(
                f"{name}: partial_fit needs a model of its samples alone and the "
                f"counts of all contexts; with {name}={getattr(model, name)!r} use fit"
            )
    return True


@shared_docs(penalties=names_of(PENALTIES), solvers=names_of(SOLVERS))
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

    There is one weight for every pair of a context and a symbol that followed the
    context in training, and for every pair of the empty context and a class. The loss
    and the gradient are exact. The time to compute them is O(number of pairs), for any
    number of classes. The fitted model is exactly a back-off model.

    Parameters
    ----------
    max_depth : int, default=None
        Longest context m, at least 0. None: the number of columns, or the depth, of X.

    penalty : name or Penalty, default="elastic_net"
        The shape :math:`\Omega` of the penalty. A name stands for the object with its
        defaults. Parameters of an object can be set and searched, for example as
        ``penalty__gamma``. The names are
        {penalties}

    lam : float, default=0.2
        Strength :math:`\lambda`, from 0 to 1e50. The loss is a total over the samples,
        so `lam` is measured in counts, like an absolute discount, and the same value
        suits texts of all sizes. The defaults of `lam` and `alpha` are for the default
        penalty and words; :ref:`loglinear` has values for the other penalties.

    alpha : float or array-like of shape (depth + 1,), default=1.0
        Weight of the features by depth: :math:`\beta_k = \alpha^k` for a number, or the
        :math:`\beta_k` themselves, in order of depth; positive, with no :math:`\beta_k`
        above 1e50. With 1, all depths have equal weights. Smaller values penalise long
        contexts more.

    positive : bool, default=True
        Whether weights are non-negative. With a `prior` they have either sign.

    min_count : int, default=1
        Contexts with a smaller sum of sample weights are left out; at least 1, which
        keeps all contexts. Most contexts of a text occur once, so a fit with 2 takes
        less memory and time. Not with a `prior`, an active set, `partial_fit` or
        collapsed paths.

    solver : name or Solver, default="auto"
        The method and its stopping rules, as a name or as an object with `tol`,
        `max_iter`, `gap_tol` and `verbose`. Solvers start from Kneser-Ney smoothing (or
        from 0 if the objective is lower there). The names are
        {solvers}

    prior : BackoffModel, default=None
        Another model of the same classes and context symbols, for example of a larger
        text. Then

        .. math::
            P(y \mid x) \propto P_{\text{prior}}(y \mid x) \exp s(x, y) ,

        so the penalty is on the difference from the weights of the prior. Any back-off
        model can be a prior. Allowed for the solvers "auto", "diagonal" and "fista".

    checkpoint : str, os.PathLike or Checkpoint, default=None
        A file such as ``fit.ckpt``, or a folder for many fits: `fit` writes its state
        there every minute, at its end and on Ctrl-C, and continues from this state in
        another process; see `Checkpoint`. A file of other data or parameters is an
        error; `tol`, `max_iter` and, unless it is None, `gap_tol` may change. Not for
        `partial_fit`.

    padding : object, default=None
        The symbol that marks missing history in dense X.

    classes : array-like of shape (n_classes,), default=None
        All symbols that can be predicted, in any order. None: the symbols of y. Symbols
        that y lacks get the probability of score 0.

    n_jobs : int, default=None
        Number of threads. None means 1 unless in a `joblib.parallel_config` context; -1
        means all processors. The results do not depend on `n_jobs`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The classes, sorted.

    coef_ : ndarray of shape (n_pairs,)
        Weight of each pair, in the order of the context tree. With a `prior` the weight
        is the difference from the prior, and 0 for pairs that only the prior has. With
        an active set some pairs have weight 0: parents of other pairs.

    n_parameters_ : int
        Number of non-zero weights.

    n_iter_ : int
        Evaluations of loss and gradient.

    n_pairs_built_, n_nodes_built_ : int
        With an active set: pairs and contexts that were built during the fit.

    objective_ : ndarray of shape (`n_iter_`,)
        Total penalised loss of the best weights, in nats: at the start and after each
        iteration, or, with an active set, after each round of growth.

    optimality_ : float
        Optimality residual :math:`\sqrt{\sum_p r_p^2 / c_p \,/\, \sum_i \omega_i}`,
        with :math:`r_p` the distance of the negative gradient to the penalty's
        subdifferential (by the proximal mapping) and :math:`c_p` the count of the pair.

    gap_ : float
        Duality gap, in nats, total over the samples: the penalised loss is at most this
        much above the penalised loss of any weights that each add at most 25 to a
        score. Infinite if a callback stopped an active set, and on the shards of a
        tree.

    backoff_model_ : BackoffModel
        The fitted model, with methods for queries, sampling and ARPA files.

    depth_ : int
        Longest context of the fitted tree.

    n_features_in_, feature_names_in_ : int, ndarray of shape (`n_features_in_`,)
        Number of columns of X, and their names if they were strings.

    See Also
    --------
    StructuredLogLinearLMCV : Tunes the strengths on held-out samples.
    sklstruct.smoothing.KneserNeyLM : Count-based model of the same form.
    sklstruct.language_model.LanguageModel : Language models over sentences.

    Notes
    -----
    With `collapse=True` in the vectorizer, merged suffixes share one weight. With alpha
    = 1 and a `depth_weight` of 1 the optimum is the optimum on the trie. With other
    values the probabilities can differ much from the trie, and a UserWarning says so.
    `TreeL2` raises an error.

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

    coef_: np.ndarray
    n_parameters_: int
    optimality_: float
    gap_: float

    _parameter_constraints: dict = {
        "max_depth": [Interval(numbers.Integral, 0, None, closed="left"), None],
        "penalty": [StrOptions(set(PENALTIES)), Penalty],
        "lam": [Interval(numbers.Real, 0, LARGEST, closed="both")],
        "alpha": [Interval(numbers.Real, 0, None, closed="neither"), "array-like"],
        "positive": ["boolean"],
        "min_count": [Interval(numbers.Integral, 1, None, closed="left")],
        "solver": [StrOptions(set(SOLVERS)), Solver],
        "prior": [BackoffModel, None],
        "checkpoint": [str, os.PathLike, Checkpoint, None],
        "padding": "no_validation",
        "classes": ["array-like", None],
        "n_jobs": N_JOBS,
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        penalty: str | Penalty = "elastic_net",
        lam: float = 0.2,
        alpha: float | ArrayLike = 1.0,
        positive: bool = True,
        min_count: int = 1,
        solver: str | Solver = "auto",
        prior: BackoffModel | None = None,
        checkpoint: str | os.PathLike | Checkpoint | None = None,
        padding: Any = None,
        classes: ArrayLike | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.max_depth = max_depth
        self.penalty = penalty
        self.lam = lam
        self.alpha = alpha
        self.positive = positive
        self.min_count = min_count
        self.solver = solver
        self.prior = prior
        self.checkpoint = checkpoint
        self.padding = padding
        self.classes = classes
        self.n_jobs = n_jobs

    fit = with_callbacks(BackoffClassifier.fit)

    fit_counted = with_callbacks(BackoffClassifier.fit_counted)

    @available_if(_is_online)
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
    ) -> Self:
        """Learn from more samples.

        The counts of the batches are summed, and the solver starts at the weights of
        the batches before: each batch ends within `tol` of the optimum for all samples
        so far. For penalties without groups the start is the Kneser-Ney smoothing of
        all samples plus the difference of the last weights from the Kneser-Ney
        smoothing of the samples before.

        Parameters
        ----------
        {batch}

        Returns
        -------
        self : StructuredLogLinearLM
            Fitted estimator.
        """
        self._validate_params()
        refuse_in_batches(self.checkpoint)
        return super().partial_fit(
            X, y, classes, sample_weight, decay=decay, window=window
        )

    @property
    def keeps_positions(self) -> bool:
        known = (
            SOLVERS.get(self.solver) if isinstance(self.solver, str) else self.solver
        )
        return getattr(known, "grows", False)

    @property
    def least_context(self) -> int:
        return self.min_count

    def __sklstruct_ids__(self, labels: Labels) -> dict:
        """Replace the prior over words by a prior over their ids."""
        settings = super().__sklstruct_ids__(labels)
        if self.prior is not None:
            self._validate_params()
            check_labels(self.prior, labels)
            ids = Labels.of_ids(labels.n_classes, labels.n_symbols)
            settings["prior"] = self.prior.relabel(ids)
        return settings

    def _fit_counted(self, counted: Counted, overwrite: bool) -> Fitted:
        """Bind the parameters, start, solve, and wrap the result."""
        if self.keeps_positions:
            return self._grow_counted(counted)
        with reporting(self) as report, ThreadMap(self.n_jobs) as parallel:
            fit = Fit(self, self._bind(counted, parallel))
            fit.store = fit.store_at(Checkpoint.of(self.checkpoint))
            result = fit.done()
            if result is None:
                result = fit.solve(fit.start(self._nearer(counted)), report)
            gap = fit.gap(result.w)
            fitted = fitted_numbers(fit.problem, result.w)
        set_result(self, fit, result, gap)
        return fitted

    def _bind(self, counted, parallel):
        pairs, count, offset = counted.pairs, counted.count, None
        if self.prior is not None:
            pairs, count, offset = with_pairs_of(self.prior, counted)
        problem = bind(self, pairs, np.asarray(count, dtype=np.float64), parallel)
        problem.begin_at(offset)
        return problem

    def _nearer(self, counted: Counted) -> Callable[[np.ndarray], np.ndarray] | None:
        """A function from the weights of Kneser-Ney smoothing to the weights of a
        start, if this fit continues from earlier batches."""
        if not isinstance(counted, ExtendedCounts) or not hasattr(self, "coef_"):
            return None
        before, coef = counted.before, self.coef_
        if coef.size != before.pairs.n_pairs:
            return None
        base = None
        if isinstance(penalty_of(self), Separable):
            # Another batch changes the weights of Kneser-Ney smoothing and the optimum.
            # Their difference changes less, unless the optimum is sparse by groups.
            with ThreadMap(self.n_jobs) as parallel:
                problem = self._bind(before, parallel)
                l1_ratio = penalty_of(self).bind(problem).l1_ratio
                base = kneser_ney_weights(problem, l1_ratio)
        new_index = counted.new_index()  # -1 for removed pairs
        stays = new_index >= 0

        def moved(smoothed):
            """With a `base` the result differs from `smoothed` as the weights before
            differ from `base`."""
            w, to = smoothed.copy(), new_index[stays]
            w[to] = coef[stays] if base is None else w[to] + (coef - base)[stays]
            return np.maximum(w, 0.0, out=w) if is_positive(self) else w

        return moved

    def _grow_counted(self, counted):
        if isinstance(counted, DeferredCounts):
            return self._grow(counted, counted.positions)
        pairs, count = counted.expanded()
        fitted = self._grow(counted, Positions.of_counts(pairs, count))
        return fitted._replace(new_index=pairs.tree.nodes_in(fitted.pairs.tree))

    def _grow(self, counted, samples):
        """The model of an active set."""
        with reporting(self) as report, ThreadMap(self.n_jobs) as parallel:
            n_symbols = counted.pairs.tree.n_symbols
            grown = grow(
                self, samples, n_symbols, counted.labels.n_classes, parallel, report
            )
        fit, result = grown.fit, grown.result
        pairs, log_prob, log_backoff = fitted_numbers(fit.problem, result.w)[:3]
        keep = result.w != 0.0
        keep[: pairs.n_classes] = True
        smaller, kept = pairs.select(keep)
        index = selected_nodes(pairs, keep)
        model, new_index = with_all_contexts(
            BackoffModel(
                smaller, log_prob[kept], log_backoff[index >= 0], counted.labels
            )
        )
        # Unbuilt pairs are 0 at the optimum and contribute nothing to the gap; a
        # callback stops the fit before that is known.
        gap = np.inf if result.status == "stopped" else fit.gap(result.w)
        set_result(self, fit, result, gap)
        self.coef_ = np.zeros(model.n_pairs)
        self.coef_[new_index] = result.w[kept]
        self.n_iter_, self.objective_ = grown.n_iter, grown.objective
        self.n_pairs_built_ = pairs.n_pairs
        self.n_nodes_built_ = pairs.tree.n_nodes
        return Fitted(model.pairs, model.log_prob, model.log_backoff)

    def _check_params(self):
        penalty, solver = penalty_of(self), given_solver(self)
        for part in (penalty, solver):
            part._validate_params()
        if not solver.grows:
            solver = solver_of(self)
        positive, prior = is_positive(self), self.prior is not None
        reason = solver.why_not(penalty, positive, prior)
        if reason is not None:
            others = solvers_that(lambda s: s.fits(penalty, positive, prior))
            kinds = [
                p for p in PENALTIES if solver.fits(PENALTIES[p](), positive, prior)
            ]
            raise ValueError(
                f"solver={self.solver!r} cannot fit penalty={self.penalty!r} with "
                f"positive={positive}{' and a prior' if prior else ''}: {reason}. "
                f"Solvers that can: {others}; penalties that this solver can fit: "
                f"{kinds}"
            )
        if Checkpoint.of(self.checkpoint) is not None and not solver.resumable:
            raise ValueError(
                f"checkpoint: solver={self.solver!r} cannot go on from a checkpoint; "
                f"solvers that can: {solvers_that(lambda s: s.resumable)}"
            )
        check_numbers(self)
        if self.min_count > 1 and (prior or solver.grows):
            raise ValueError(
                "min_count: contexts that are left out may have weights in a prior, "
                "and an active set leaves contexts out by itself; leave min_count 1"
            )


@contextmanager
def reporting(model: StructuredLogLinearLM) -> Iterator[Report]:
    """Context manager of a fit, which returns the function that iterations call."""
    solver = given_solver(model)
    # The rounds of an active set have max_iter iterations each.
    steps = None if solver.grows else solver.max_iter
    with Progress.of_fit(model, steps, solver.verbose) as progress:

        def report(iteration, objective, optimality):
            return progress.step(
                f"iteration {iteration}: objective {objective:.6g}, residual "
                f"{optimality:.2g}"
            )

        yield report


def set_result(
    model: StructuredLogLinearLM, fit: Fit, result: Result, gap: float = np.inf
) -> None:
    """Set the fitted attributes from a solver's result, and warn of an early end.

    gap: infinite if it is not known.
    """
    model.coef_ = result.w
    model.n_iter_ = len(result.history)
    model.objective_ = np.array(result.history)
    model.optimality_ = result.optimality
    model.n_parameters_ = int(np.count_nonzero(result.w))
    model.gap_ = gap
    warn_of_end(
        model, result, fit.solver, fit.problem.total_weight,
        "Rounding hides any further descent. Increase tol, or lam",
    )  # fmt: skip
