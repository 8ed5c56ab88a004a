"""StructuredLogLinearLM: the log-linear language model with tree penalties."""

from __future__ import annotations

import numbers
import os
import re
import textwrap
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from .._checkpoint import Checkpoint, refuse_in_batches
from .._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    available_if,
    with_callbacks,
)
from .._docs import shared_docs
from .._parallel import ThreadMap
from .._progress import Progress
from .._warnings import warn
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
from ..backoff._estimator import BATCH, SAMPLES
from ..symbols import Labels
from ._active_set import check_active_set, grow
from ._fit import (
    Fit,
    Settings,
    backoff_numbers,
    fitted_numbers,
    penalty_of,
    solver_of,
)
from ._gap import shortfall_text
from ._memory import FitMemory
from ._penalties import PENALTIES, Penalty, Separable
from ._prior import check_labels, with_pairs_of
from ._solvers import SOLVERS, Report, Result, Solver, solvers_for
from ._start import kneser_ney_weights


class Carried(NamedTuple):
    """The weights of the batches before one more."""

    place: np.ndarray  # (n_pairs before,) their numbers now, -1 where they are gone
    coef: np.ndarray  # (n_pairs before,)
    base: np.ndarray | None  # those of Kneser-Ney smoothing then, if they are of use
    weight: float  # of the new samples

    def moved(self, smoothed: np.ndarray, positive: bool) -> np.ndarray:
        """The weights on the pairs of all samples.

        smoothed: those of Kneser-Ney smoothing. With a `base` the result differs from
        them as the weights before differ from `base`.
        """
        w, stays = smoothed.copy(), self.place >= 0
        to, before = self.place[stays], self.coef[stays]
        w[to] = before if self.base is None else w[to] + (before - self.base[stays])
        return np.maximum(w, 0.0, out=w) if positive else w


def _is_online(model: StructuredLogLinearLM) -> bool:
    if model.active_set:
        raise AttributeError(
            "active_set=True keeps no counts that partial_fit could add to; use "
            "active_set=False, or fit"
        )
    if model.min_count > 1:
        raise AttributeError(
            f"min_count={model.min_count} keeps no counts of the contexts that "
            "partial_fit may make frequent; use min_count=1, or fit"
        )
    if model.prior is not None:
        raise AttributeError(
            "prior: partial_fit has none; fit all samples, or set it to None"
        )
    return True


def _listed(table: dict[str, Any], note: Callable[[Any], str]) -> str:
    """The entries of a table for a docstring: name, class, summary and a note."""
    items = []
    for name, kind in table.items():
        summary = re.sub(r"\s*\[\d\]_", "", (kind.__doc__ or "").split("\n\n")[0])
        words = f'- "{name}" or `{kind.__name__}()`: {summary} {note(kind)}'.split()
        items.append(
            textwrap.fill(
                " ".join(words), 76, subsequent_indent="  ", break_on_hyphens=False
            )
        )
    return "\n".join(items)


def _values(penalty: type[Penalty]) -> str:
    values = ", ".join(f"`{k}` {v:g}" for k, v in penalty.defaults.items())
    return f"Defaults: {values}."


def _fitted(solver: type[Solver]) -> str:
    both, signed = (
        ", ".join(n for n, kind in PENALTIES.items() if solver().fits(kind(), positive))
        for positive in (True, False)
    )
    other = "" if both == signed else f"; with signed weights for {signed or 'none'}"
    return f"For {both}{other}."


@shared_docs(penalties=_listed(PENALTIES, _values), solvers=_listed(SOLVERS, _fitted))
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

        {penalties}

        A name stands for the object with its defaults. Parameters of an object are
        set and searched as ``penalty__gamma``.

    lam : float, default=None
        Strength :math:`\lambda`, from 0 to 1e50. The loss is a total over the samples,
        so `lam` is in counts, like an absolute discount: one value serves all
        corpus sizes. Papers that divide the loss by W tokens have lam / W. None, here
        and for the next two parameters, takes the default of the penalty. The defaults
        were chosen on words, for contexts of up to 4; `StructuredLogLinearLMCV` finds
        better values for other text.

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
        True: weights are non-negative.

    penalize_root : bool, default=True
        True: the weights of the empty context (the unigrams) are penalised.

    min_count : int, default=1
        Contexts whose samples weigh less in sum have no weights, and a history ends at
        the last one that has; at least 1, which keeps all that occur. Of the contexts
        of a text most occur once: 2 takes less memory and time. Of windows they are
        not made at all; of sentences, counts and path matrices they are left out after
        counting. Not with `active_set`, `prior` or `partial_fit`, nor for collapsed
        paths.

    solver : name or Solver, default="auto"
        All start from Kneser-Ney smoothing, which is a point of the model (or from 0
        where the objective is lower there).

        {solvers}
        - "auto": the first of these that can fit the penalty.

    tol : float, default=1e-2
        Stop when the optimality residual, ``optimality_``, is at most `tol` (in the
        tree metric, when the decrease to be expected is small as well); at least 0. It
        is no number of nats; see `gap_tol`. A solver object with a `tol` of its own
        uses that.

    gap_tol : float, default=None
        Stop only when the duality gap `gap_`, which bounds the distance from the
        minimum, is at most `gap_tol` nats a sample as well; at least 0. The fit goes on
        with a smaller residual than `tol` until it is, or until `max_iter`. It costs
        a gradient each time that the residual is reached. None: the residual alone
        decides.

    max_iter : int, default=300
        Largest number of iterations, at least 1; a ConvergenceWarning when it is
        reached. A solver object with a `max_iter` of its own uses that.

    active_set : bool, default=False
        True: the tree is built while it is fitted. The children of a pair are counted
        only if the optimality condition of their group allows a weight above 0. The
        optimum is that of the whole tree, of which a part is built, the smaller the
        larger `lam` is; the fitted model has only pairs with a weight. For penalties
        with an absolute term and without `count_weight`, non-negative weights, and
        `lam` above 0. Solvers other than the default need `tol`. This saves memory for
        windows and sentences, not for a path matrix, whose tree exists already.

    warm_start : bool, default=False
        Start from the weights of the previous `fit` when the pairs are the same
        (another `lam`, `alpha` or penalty on the same data), as if it were the first
        fit otherwise.

    memory : FitMemory, default=None
        Keeps the counted trees of samples for other fits of the same samples: in a grid
        search a tree is counted once a fold. See `FitMemory`.

    checkpoint : str, os.PathLike or Checkpoint, default=None
        A file such as ``fit.ckpt``, to which `fit` writes its state every minute (or
        as often as a `Checkpoint` says) and on Ctrl-C, and from which the same `fit`
        continues in another process. A file of other data or settings is refused. The
        file stays after the fit. `tol`, `max_iter` and, unless it is None, `gap_tol`
        may change in between. A name without a suffix is a folder, for many fits; see
        `Checkpoint`. For every solver but "lbfgs", as scipy hides its state; "owlqn"
        fits the same penalties. Not for `partial_fit`.

    prior : BackoffModel, default=None
        Another model P of the same classes and context symbols, of more text or of
        other text: then

        .. math::
            P(y \mid x) \propto P_{{\text{{prior}}}}(y \mid x) \exp s(x, y) ,

        so that the penalty is on the difference from the weights of the prior; any
        back-off model has such, whatever its estimator is. It needs
        ``positive=False`` and a solver that learns of the loss by its gradient alone
        ("diagonal", "fista", "lbfgs", "owlqn"); not with `active_set`, `count_weight`
        or `partial_fit`. A collapsed tree is expanded.

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
        Weight of each pair, in the order of the context tree; with a `prior` the
        difference from it, 0 at pairs that the prior alone has. With `active_set` it is
        0 at pairs that only lead to contexts in which others have a weight: an
        automaton and a file of n-grams need them.

    n_parameters_ : int
        Number of non-zero weights.

    n_iter_ : int
        Evaluations of loss and gradient.

    n_pairs_built_, n_nodes_built_ : int
        With `active_set`: pairs and contexts that were ever made, those without a
        weight included.

    objective_ : ndarray of shape (`n_iter_`,)
        Penalised loss of the best weights after each iteration, in nats, total over
        the samples; the first is that of the start, the last that of the fitted
        weights. With `active_set`: after each round of growth.

    optimality_ : float
        Optimality residual :math:`\sqrt{\sum_p r_p^2 / c_p \,/\, \sum_i \omega_i}`,
        with :math:`r_p` the distance of the negative gradient to the penalty's
        subdifferential (by the proximal mapping) and :math:`c_p` the count of the
        pair.

    gap_ : float
        Duality gap: no weights that each add at most 25 to a score have a penalised
        loss that is lower by more than this, in nats, total over the samples. Infinite
        where a callback stopped an active set that may have to grow.

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
    sklstruct.language_model.LanguageModel : Language models over sentences.

    Notes
    -----
    With `collapse=True` in the vectorizer, merged suffixes share one weight. For
    "l1", "l2", "elastic_net" and "tree_linf" with alpha = 1 and depth_weight = 1 the
    optimum is that of the trie. With other values it is another model, whose
    probabilities can differ much: a UserWarning says so. "tree_l2" does not keep equal
    weights equal and is refused.

    An active set takes memory for the pairs that are built and 32 bytes a sample, 100
    while children are counted. Rounds that only show where to grow are solved to ten
    times `tol`. Of a text, the tree has all that was seen more often than about
    :math:`\lambda / \beta` times. It grows from the empty context into the past, as the
    groups of the tree penalties do; those of [2]_ extend into the future, along the
    arcs of a left-to-right automaton.

    The optimum of "tree_linf" (and of "l1") need not be unique: two solutions with
    the same objective agree on the training samples and may differ at contexts that
    were not seen whole. See `TreeLinf`.

    References
    ----------
    .. [1] A. Nelakanti, C. Archambeau, J. Mairal, F. Bach, G. Bouchard, "Structured
       Penalties for Log-linear Language Models", EMNLP 2013, equations 1, 2 and 8.
    .. [2] R. Cotterell, J. Eisner, "Penalized expectation propagation for graphical
       models over strings", NAACL 2015, section 6.1.

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

    An active set ends at the same objective:

    >>> model = model.set_params(penalty="tree_l2", tol=1e-6)
    >>> whole = model.fit(X, y).objective_[-1]
    >>> grown = model.set_params(active_set=True).fit(X, y).objective_[-1]
    >>> bool(np.isclose(whole, grown))
    True
    """

    coef_: np.ndarray
    n_parameters_: int
    optimality_: float
    gap_: float

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
        "min_count": [Interval(numbers.Integral, 1, None, closed="left")],
        "solver": [StrOptions({"auto", *SOLVERS}), Solver],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "gap_tol": [Interval(numbers.Real, 0, None, closed="left"), None],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "active_set": ["boolean"],
        "warm_start": ["boolean"],
        "checkpoint": [str, os.PathLike, Checkpoint, None],
        "memory": [FitMemory, None],
        "prior": [BackoffModel, None],
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
        min_count: int = 1,
        solver: str | Solver = "auto",
        tol: float = 1e-2,
        gap_tol: float | None = None,
        max_iter: int = 300,
        active_set: bool = False,
        warm_start: bool = False,
        checkpoint: str | os.PathLike | Checkpoint | None = None,
        memory: FitMemory | None = None,
        prior: BackoffModel | None = None,
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
        self.min_count = min_count
        self.solver = solver
        self.tol = tol
        self.gap_tol = gap_tol
        self.max_iter = max_iter
        self.active_set = active_set
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.memory = memory
        self.prior = prior
        self.padding = padding
        self.classes = classes
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @shared_docs(samples=SAMPLES)
    def fit(
        self,
        X: ArrayLike | sp.spmatrix,
        y: ArrayLike | None = None,
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
    ) -> StructuredLogLinearLM:
        """Learn from more samples.

        The counts of the batches are summed, and the solver starts at the weights of
        the batches before: each batch ends within `tol` of the optimum for all samples
        so far. For penalties without groups the start is the Kneser-Ney smoothing of
        all samples plus the difference of the last weights from the Kneser-Ney
        smoothing of the samples before.
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
        refuse_in_batches(self.checkpoint)
        return super().partial_fit(
            X, y, classes, sample_weight, decay=decay, window=window
        )

    @property
    def keeps_positions(self) -> bool:
        return self.active_set

    @property
    def least_context(self) -> int:
        return self.min_count

    def __sklstruct_ids__(self, labels: Labels) -> dict:
        """The prior, over words before, is over their ids."""
        settings = super().__sklstruct_ids__(labels)
        if self.prior is not None:
            self._validate_params()
            check_labels(self.prior, labels)
            ids = Labels.of_ids(labels.n_classes, labels.n_symbols)
            settings["prior"] = self.prior.relabel(ids)
        return settings

    def _fit_counted(self, counted: Counted, overwrite: bool) -> Fitted:
        if self.active_set:
            return self._grow_counted(counted)
        return self._fit_settings(counted, Settings.of(self))

    def _fit_settings(self, counted, settings, record=None):
        """The model of some settings; record: that of the search that chose them."""
        pairs, count, offset = counted.pairs, counted.count, None
        if self.prior is not None:
            pairs, count, offset = with_pairs_of(self.prior, counted)
        count = np.asarray(count, dtype=np.float64)
        carried = self._carried(counted, settings)
        with reporting(self) as report, ThreadMap(self.n_jobs) as parallel:
            problem = settings.problem(pairs, count, parallel)
            problem.begin_at(offset)
            fit = Fit(settings, solver_of(self), problem, self.gap_tol)
            if record is None:
                fit.keeper = fit.keeper_at(Checkpoint.of(self.checkpoint))
            else:
                fit.keeper = record.last(fit.identity())
            result = fit.done()
            if result is None:
                result = self._solve(fit, report, carried)
            self.gap_ = fit.gap(result.w)
            fitted = fitted_numbers(problem, result.w)
        set_result(self, result)
        warn_of(self, fit, result, self.gap_)
        return fitted

    def _carried(self, counted: Counted, settings: Settings) -> Carried | None:
        """The weights of the batches before, if this fit continues from them."""
        if not isinstance(counted, ExtendedCounts) or not hasattr(self, "coef_"):
            return None
        before = counted.before
        if self.coef_.size != before.pairs.n_pairs:
            return None
        base = None
        if isinstance(settings.penalty, Separable):
            # Another batch changes the weights of Kneser-Ney smoothing and the optimum.
            # Their difference changes less, unless the optimum is sparse by groups.
            with ThreadMap(self.n_jobs) as parallel:
                count = np.asarray(before.count, dtype=np.float64)
                problem = settings.problem(before.pairs, count, parallel)
                l1_ratio = settings.penalty.bind(problem).l1_ratio
                base = kneser_ney_weights(problem, l1_ratio)
        return Carried(counted.place(), self.coef_, base, counted.weight)

    def _grow_counted(self, counted):
        if isinstance(counted, DeferredCounts):
            return self._grow(counted, counted.positions)
        pairs, count = counted.expanded()
        tree = pairs.tree
        fitted = self._grow(counted, Positions.of_counts(pairs, count))
        node = fitted.pairs.tree.find_windows(tree.windows())
        same = fitted.pairs.tree.levels()[node] == tree.levels()
        return fitted._replace(place=np.where(same, node, -1).astype(np.int32))

    def _grow(self, counted, samples):
        """The model of an active set."""
        n_symbols = counted.pairs.tree.n_symbols
        settings, solver = Settings.of(self), solver_of(self)
        with reporting(self) as report, ThreadMap(self.n_jobs) as parallel:
            grown = grow(
                settings, solver, Checkpoint.of(self.checkpoint), samples, n_symbols,
                counted.labels.n_classes, parallel, report, self.gap_tol,
            )  # fmt: skip
        fit, result = grown.fit, grown.result
        pairs, log_prob, log_backoff = backoff_numbers(fit.problem, result.w)
        keep = result.w != 0.0
        keep[: pairs.n_classes] = True
        smaller, kept = pairs.select(keep)
        index = selected_nodes(pairs, keep)
        model, place = with_all_contexts(
            BackoffModel(
                smaller, log_prob[kept], log_backoff[index >= 0], counted.labels
            )
        )
        coef = np.zeros(model.n_pairs)
        coef[place] = result.w[kept]
        set_result(self, result._replace(w=coef))
        # What is not built is held at zero by the gradient at these weights, and adds
        # nothing to the gap; a callback stops before that is known.
        stopped = result.status == "stopped"
        self.gap_ = np.inf if stopped else fit.gap(result.w)
        self.n_iter_, self.objective_ = grown.n_iter, grown.objective
        self.n_pairs_built_ = pairs.n_pairs
        self.n_nodes_built_ = pairs.tree.n_nodes
        warn_of(self, fit, result, self.gap_)
        return Fitted(model.pairs, model.log_prob, model.log_backoff)

    def _check_params(self):
        penalty, solver = penalty_of(self), solver_of(self)
        for part in (penalty, solver):
            part._validate_params()
        missing = solver.missing(penalty)
        if missing:
            solvers = solvers_for(penalty, self.positive)
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
                f"{solvers_for(penalty, self.positive)}"
            )
        goes_on = hasattr(solver, "tol") and hasattr(solver, "max_iter")
        if self.gap_tol is not None and not goes_on:
            raise ValueError(
                f"gap_tol: solver={self.solver!r} has no parameters tol and max_iter, "
                "with which the fit could go on; set gap_tol to None"
            )
        if Checkpoint.of(self.checkpoint) is not None and not solver.resumable:
            raise ValueError(
                f"checkpoint: solver={self.solver!r} cannot go on from a checkpoint; "
                f"solvers that can: {[s for s in SOLVERS if SOLVERS[s].resumable]}"
            )
        settings = Settings.of(self)
        settings.check()
        if self.prior is not None:
            self._check_prior(penalty, solver)
        if self.active_set:
            if self.min_count > 1:
                raise ValueError(
                    "min_count: active_set=True makes only contexts that may have a "
                    "weight; leave min_count 1"
                )
            check_active_set(settings)
            if self.warm_start:
                raise ValueError(
                    "warm_start=True: an active set starts from the unigrams; set it "
                    "to False"
                )

    def _check_prior(self, penalty, solver):
        if self.positive:
            raise ValueError(
                "prior: weights below those of the prior are negative differences; "
                "set positive=False"
            )
        if not solver.by_gradient:
            raise ValueError(
                f"prior: solver={self.solver!r} knows the loss of a model without a "
                "prior; use one of "
                f"{[s for s in SOLVERS if SOLVERS[s].by_gradient]}"
            )
        if self.min_count > 1:
            raise ValueError(
                "min_count: contexts that are left out may have weights in the prior; "
                "leave min_count 1 with a prior"
            )
        if self.active_set or getattr(penalty, "count_weight", None) is not None:
            what = "active_set=True" if self.active_set else "count_weight"
            raise ValueError(
                f"prior: {what} looks at the counts of a model without a prior; leave "
                "one of them out"
            )

    def _solve(self, fit, report, carried):
        if carried is None:
            return fit.solve(self._start(fit), report)
        w = fit.start(partial(carried.moved, positive=self.positive))
        if not fit.solver.incremental:
            return fit.solve(w, report)
        share = min(carried.weight / fit.problem.total_weight, 1.0)
        return fit.learn(w, report, share)

    def _start(self, fit):
        """The previous weights with `warm_start`, if the pairs are the same and the
        loss is finite, which a change of `alpha` may prevent."""
        coef = getattr(self, "coef_", None) if self.warm_start else None
        if (
            coef is not None
            and coef.size == fit.problem.n_pairs
            and fit.problem.same_pairs(self.backoff_model_)
        ):
            w = np.maximum(coef, 0.0) if self.positive else coef.copy()
            if np.isfinite(fit.objective(w)):
                return w
        return fit.start()


@contextmanager
def reporting(model: StructuredLogLinearLM) -> Iterator[Report]:
    """The context of a whole fit, which gives the function that iterations call."""
    # The rounds of an active set have max_iter iterations each.
    steps = None if model.active_set else getattr(solver_of(model), "max_iter", None)
    with Progress.of_fit(model, steps) as progress:

        def report(iteration, objective, optimality):
            return progress.step(
                f"iteration {iteration}: objective {objective:.6g}, residual "
                f"{optimality:.2g}"
            )

        yield report


def set_result(model: StructuredLogLinearLM, result: Result) -> None:
    """Set the fitted attributes that a solver's result gives."""
    model.coef_ = result.w
    model.n_iter_ = len(result.history)
    model.objective_ = np.array(result.history)
    model.optimality_ = result.optimality
    model.n_parameters_ = int(np.count_nonzero(result.w))


def warn_of(
    model: StructuredLogLinearLM, fit: Fit, result: Result, gap: float = np.inf
) -> None:
    """A warning if the fit has not converged; gap: infinite where it is not known."""
    shortfall = shortfall_text(gap, fit.gap_tol, fit.problem.total_weight)
    rules = "tol" if fit.gap_tol is None else "tol and gap_tol"
    if result.status == "stalled":
        warn(
            f"the solver stopped after {model.n_iter_} evaluations with an "
            f"optimality residual of {result.optimality:.2g}{shortfall}. Rounding "
            f"hides any further descent. Increase {rules}, or lam",
            ConvergenceWarning,
        )
    if result.status == "max_iter":
        free = ", or lam: unpenalised weights may have no finite optimum"
        warn(
            f"the solver stopped at max_iter={fit.solver.max_iter}, after "
            f"{model.n_iter_} evaluations, with an optimality residual of "
            f"{result.optimality:.2g}{shortfall}. Increase max_iter, or {rules}"
            f"{free if fit.settings.lam == 0 else ''}",
            ConvergenceWarning,
        )
