"""ConditionalRandomField: training by conditional likelihood, and model files."""

from __future__ import annotations

import numbers
import os
from collections.abc import Callable, Sequence
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._compat import (
    N_JOBS,
    CallbackSupportMixin,
    Interval,
    _fit_context,
    check_weights,
    with_callbacks,
)
from .._docs import shared_docs
from .._files import open_write
from .._parallel import ThreadMap, single_blas_thread
from .._progress import Progress
from .._warnings import warn
from ._chain_likelihood import ChainLikelihood
from ._conditional import ConditionalLikelihood, duality_gap
from ._crfsuite import ChainWeights, model_bytes, read_file
from ._descent import descend
from ._exact import REFUSAL, ExactPredictor
from ._graph import FactorGraph
from ._inference import refuse_loops
from ._pack import Packed, WeightLayout, check_graphs
from ._predictor import ATTRIBUTES, as_instances, as_list, encode


@shared_docs(attributes=ATTRIBUTES)
class ConditionalRandomField(CallbackSupportMixin, ExactPredictor):
    r"""Structured prediction on chains and trees, trained by conditional likelihood.

    .. math::
        p_w(y \mid x) = \frac{e^{s_w(y \mid x)}}{\sum_{y'} e^{s_w(y' \mid x)}}, \qquad
        \min_w\; -\sum_i \log p_w(y_i \mid x_i) + c_1 \|w\|_1 + c_2 \|w\|_2^2

    with the score :math:`s_w(y \mid x) = w^\top \varphi(x, y)` of a `FactorGraph`. The
    sum over all states and the expected features, which are the gradient, are exact by
    sum-product (forward-backward on a chain). For :math:`c_2 > 0` the minimum is
    unique. L-BFGS finds the minimum, with a bound on the distance from the minimum.

    Parameters
    ----------
    c1 : float, default=0.0
        Weight of the absolute values, at least 0; above 0 many weights become 0.

    c2 : float, default=1.0
        Weight of the squares, at least 0. Both penalties are relative to the total
        log-likelihood, not its mean, as in CRFsuite.

    min_count : int or tuple of two int, default=1
        A feature of a variable or an edge has a weight for a kind of value (or a pair
        of kinds) if both occur together at least this number of times in training;
        other weights are 0. With 0 all features have all weights, which needs more
        memory and time. The first of two numbers is for variables (0: CRFsuite's
        ``all_possible_states``), the second for edges (0:
        ``all_possible_transitions``). Weights of `candidate_features` and
        `pair_features` are always learned. In a dict of features every key counts as an
        occurrence, as in CRFsuite, even if its value is 0 or False. In a feature matrix
        of a graph zeros do not count.

    tol : float, default=1e-3
        The fit stops when `gap_` is at most `tol` nats per variable; at least 0.
        Without c1 and c2, or with unknown labels, `gap_` is infinite, and the fit stops
        when ten iterations together lower the objective by less than `tol` nats per
        variable.

    max_iter : int, default=1000
        Largest number of iterations of L-BFGS, at least 1.

    n_jobs : int, default=None
        Threads over the instances, in `fit` and in prediction. None means 1 unless in a
        `joblib.parallel_config` context. The results do not depend on `n_jobs`.

    verbose : int, default=0
        Print the objective after every `verbose` iterations; 0 is silent.

    Attributes
    ----------
    {attributes}

    objective_ : ndarray of shape (`n_iter_` + 1,)
        Total penalised negative log-likelihood, in nats, at zero weights and after each
        iteration.

    gap_ : float
        Duality gap: upper bound, in nats, of the last objective minus its minimum.
        Infinite without penalty, and with unknown labels.

    n_iter_ : int
        Number of iterations.

    See Also
    --------
    SampleRankClassifier : For graphs with loops; learns faster, without probabilities.
    sklstruct.hmm.HighOrderHMM : Longer label contexts, learned by counting.

    Notes
    -----
    An iteration costs :math:`O(\sum_i k_i f_i + \sum_{(i, j)} k_i k_j)` with k values
    and f features of a variable, and an exponential for each value, not for each pair:
    edges with the same potentials share one table. L-BFGS stores 35 vectors of the size
    of the weights.

    Sums are scaled at each variable. If a scaled sum would underflow, the sum is
    computed from logarithms, so probabilities are right for scores of any size.

    If several paths have the largest score, `predict` chooses the path whose last label
    is first in `classes_`; ties are broken by the label before, as in CRFsuite.

    With c1 a step of L-BFGS changes the non-zero weights, and the zero weights that the
    gradient would move away from 0. Weights are scaled by powers of the curvature at 0.

    Unknown labels are summed over: the loss of an instance is
    :math:`-\log \sum_{y \in Y} p_w(y \mid x)`, Y the states that agree with the known
    labels. This loss is not convex. An instance without any known label has the loss 0.

    `partial_fit` is not available, because steps by part of the data would not reach
    the minimum.

    References
    ----------
    .. [1] J. Lafferty, A. McCallum, F. Pereira, "Conditional Random Fields:
       Probabilistic Models for Segmenting and Labeling Sequence Data", ICML 2001.
    .. [2] F. Sha, F. Pereira, "Shallow Parsing with Conditional Random Fields", NAACL
       2003, sections 2 and 3 (L-BFGS).
    .. [3] N. Okazaki, "CRFsuite: a fast implementation of Conditional Random Fields",
       2007: meaning of c1 and c2.

    Examples
    --------
    >>> from sklstruct.factor_graph import ConditionalRandomField
    >>> words = [["the", "cat", "ran"], ["the", "dog", "sat"], ["dogs", "ran"]]
    >>> X = [[{"word": w, "ending": w[-2:]} for w in sentence] for sentence in words]
    >>> y = [["D", "N", "V"], ["D", "N", "V"], ["N", "V"]]
    >>> model = ConditionalRandomField(c2=0.1).fit(X, y)
    >>> model.predict([[["word:the"], ["word:cat"], ["word:sat"]]])
    [['D', 'N', 'V']]
    >>> model.predict_proba(X)[0].sum(axis=1).round(6).tolist()
    [1.0, 1.0, 1.0]
    >>> round(float(model.gap_), 4)  # 8 items: at most 8e-3
    0.0004
    """

    objective_: np.ndarray
    gap_: float
    n_iter_: int

    _parameter_constraints: dict = {
        "c1": [Interval(numbers.Real, 0, None, closed="left")],
        "c2": [Interval(numbers.Real, 0, None, closed="left")],
        "min_count": [Interval(numbers.Integral, 0, None, closed="left"), tuple],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_jobs": N_JOBS,
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        c1: float = 0.0,
        c2: float = 1.0,
        *,
        min_count: int | tuple[int, int] = 1,
        tol: float = 1e-3,
        max_iter: int = 1000,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.c1 = c1
        self.c2 = c2
        self.min_count = min_count
        self.tol = tol
        self.max_iter = max_iter
        self.n_jobs = n_jobs
        self.verbose = verbose

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self,
        X: Sequence,
        y: Sequence[Sequence[Any]],
        sample_weight: ArrayLike | None = None,
    ) -> ConditionalRandomField:
        """Learn the weights.

        Parameters
        ----------
        X : list of sequences of observations, or of FactorGraph
            An observation is a mapping from names of features to numbers, strings (the
            feature ``name:string`` is 1), lists of strings or further mappings, or a
            list of names, whose features are 1. Names and strings may be bytes, in
            UTF-8. Each sequence is a chain. Graphs must not have loops.

        y : list of array-like of shape (n_variables,)
            For each instance a label for each observation or variable. An unknown label
            is None, or -1 if the labels of sequences are integers; None for an instance
            means that all its labels are unknown. Unknown labels are summed over (see
            Notes).

        sample_weight : array-like of shape (n_instances,), default=None
            Weight of each instance: finite, at least 0. An instance of weight n counts
            as n instances; an instance of weight 0 is left out.

        Returns
        -------
        self : ConditionalRandomField
            Fitted estimator.

        Raises
        ------
        ValueError
            If a graph has a loop, X and y do not fit each other, an observation is
            malformed, a parameter is infinite, the known labels of a graph are
            impossible, or weights are negative, not finite or all 0; the message names
            the place.

        Warns
        -----
        ConvergenceWarning
            If the gap is above `tol` nats per variable at the end, or, if `gap_` is
            infinite, if `max_iter` ends the descent.
        """
        least = self.min_count
        if not isinstance(least, tuple):
            least = least, least
        elif len(least) != 2 or not all(
            isinstance(n, numbers.Integral) and n >= 0 for n in least
        ):
            raise ValueError(
                "min_count must be an integer of at least 0, or two of them for the "
                f"features of variables and of edges, got {least!r:.60}"
            )
        X = as_instances(X)
        weight = check_weights(sample_weight, X)
        y = as_list("y", y, "with the labels of each instance")
        if not weight.all() and len(y) == len(X):
            X, y = ([s for s, w in zip(part, weight) if w] for part in (X, y))
            weight = weight[weight > 0.0]
        with (
            ThreadMap(self.n_jobs) as parallel,
            single_blas_thread(),
            Progress.of_fit(self, max_subtasks=self.max_iter) as progress,
        ):
            loss: ChainLikelihood | ConditionalLikelihood
            if isinstance(X[0], FactorGraph):
                graphs, columns = check_graphs(X), None
                truth = encode(graphs, y, True)
                refuse_loops(graphs, *REFUSAL)
                layout = WeightLayout.of(graphs)
                lengths = np.array([graph.n_variables for graph in graphs])
                loss = ConditionalLikelihood(
                    Packed(graphs, layout), graphs, truth, weight, least, parallel
                )
            else:
                lengths, every, truth, columns, values = self._learn_sequences(
                    X, y, True
                )
                ptr = np.cumsum([0, *lengths], dtype=np.int64)
                layout = WeightLayout(every.width, 0, values, ["next"], [1], [0])
                loss = ChainLikelihood(
                    ptr, every, truth, len(values), weight, least, parallel
                )
            n_variables = max(1.0, float(weight @ lengths))
            convex = bool((truth >= 0).all())
            descent = _Descent(
                self, loss, layout, columns, n_variables, convex, progress
            )
            descend(
                loss.value_and_gradient,
                loss.curvature,
                float(self.c1),
                float(self.c2),
                descent.after,
            )
        self._set_model(
            layout,
            descent.coef(),
            columns,
            objective_=np.array(descent.history),
            gap_=descent.gap(),
            n_iter_=len(descent.history) - 1,
        )
        # Without a bound, the descent may also end when rounding hides all lower
        # points.
        bounded = self.gap_ < np.inf
        if not (descent.ended or descent.stopped) and (
            bounded or self.n_iter_ == self.max_iter
        ):
            gap = self.gap_ / n_variables
            left = (
                f"gap of {gap:.2g} nats per variable, not within"
                if bounded
                else "the objective may still fall by more than"
            )
            warn(
                f"{left} tol={self.tol:g} after {self.n_iter_} iterations. Increase "
                "max_iter, tol, c1 or c2, or scale the features",
                ConvergenceWarning,
            )
        return self

    def _after_iteration(
        self, set_model: Callable[[], None], objective: list[float]
    ) -> None:
        """Hook for subclasses, called at the start and after each iteration.

        set_model: sets the model to the current weights.
        """

    # ----------------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Write a model of sequences to a file that CRFsuite reads.

        Weights and names are stored, not the parameters of the estimator. A file that
        CRFsuite wrote is reproduced byte for byte after `load`. Weights of 0 are left
        out, and so are features without other weights.

        Parameters
        ----------
        path : str, os.PathLike or binary file object
            The file is renamed to `path` when it is complete; an older file stays until
            then. A name that ends in ``.gz``, ``.bz2`` or ``.xz`` is compressed, which
            CRFsuite cannot read.

        Raises
        ------
        ValueError
            If the model was fitted on graphs, if a label is not a string, if a name has
            a null character, or if the file would have 4 GiB or more.

        See Also
        --------
        load : The reverse.
        """
        check_is_fitted(self)
        if self._columns is None:
            raise ValueError(
                "the model was fitted on graphs, and a CRFsuite model is of sequences; "
                "fit on sequences of observations, or use pickle"
            )
        labels = self.classes_.tolist()
        names = list(self._columns)
        model = ChainWeights(labels, names, self.feature_coef_, self._transition())
        data = model_bytes(model)
        with open_write(path, name="path") as file:
            file.write(data)

    @classmethod
    def load(cls, path: str | os.PathLike[str] | BinaryIO) -> ConditionalRandomField:
        """Read a model file of CRFsuite, python-crfsuite or `save`.

        Parameters
        ----------
        path : str, os.PathLike or binary file object
            Plain, or compressed by gzip, bzip2 or xz.

        Returns
        -------
        model : ConditionalRandomField
            Ready to predict, with default parameters. `classes_` and `feature_names_`
            have the order of the file; `objective_`, `gap_` and `n_iter_` are absent.

        Raises
        ------
        ValueError
            If the file is not a model of CRFsuite, is damaged or cut (the message names
            the place), or has no labels.

        See Also
        --------
        save : The reverse.

        Examples
        --------
        >>> from io import BytesIO
        >>> from sklstruct.factor_graph import ConditionalRandomField
        >>> X, y = [[{"w": "the"}, {"w": "cat"}]], [["D", "N"]]
        >>> file = BytesIO()
        >>> ConditionalRandomField().fit(X, y).save(file)
        >>> _ = file.seek(0)
        >>> ConditionalRandomField.load(file).predict(X)
        [['D', 'N']]
        """
        (labels, names, state, transition), _ = read_file(path, "path")
        model = cls()
        layout = WeightLayout(len(names), 0, labels, ["next"], [1], [0])
        coef = np.concatenate([state.ravel(), transition.ravel()])
        model._set_model(layout, coef, {name: j for j, name in enumerate(names)})
        return model


class _Descent:
    """The progress of a descent, and the decision to stop."""

    def __init__(
        self,
        model: ConditionalRandomField,
        loss: ChainLikelihood | ConditionalLikelihood,
        layout: WeightLayout,
        columns: dict[str, int] | None,
        n_variables: float,
        convex: bool,
        progress: Progress,
    ) -> None:
        self.model, self.free, self.layout = model, loss.free, layout
        self.columns = columns
        self.n_variables, self.convex, self.progress = n_variables, convex, progress
        self.history: list[float] = []
        self.ended = self.stopped = False

    def after(self, w: np.ndarray, loss: float, gradient: np.ndarray) -> bool:
        """Called at the start and after each iteration; returns whether to stop."""
        c1, c2 = float(self.model.c1), float(self.model.c2)
        self.w, self.point = w, (loss, gradient, w, c1, c2)
        self.history.append(loss + c1 * float(np.abs(w).sum()) + c2 * float(w @ w))
        self.model._after_iteration(self.set_model, self.history)
        n, tol = len(self.history) - 1, self.model.tol * self.n_variables
        # Compute the bound only when an iteration gains at most `tol`.
        fell = self.history[-2] - self.history[-1] if n else 0.0
        self.ended = fell <= tol and self.gap() <= tol
        if n >= 10 and not (self.convex and (c1 > 0.0 or c2 > 0.0)):
            self.ended |= self.history[-11] - self.history[-1] <= tol
        if n:
            self.stopped = self.progress.step(
                f"objective {self.history[-1]:.6g}, lower by "
                f"{fell / self.n_variables:.2g} nats per variable"
            )
        return self.ended or self.stopped or n == self.model.max_iter

    def gap(self) -> float:
        """Upper bound of the distance from the minimum, or infinity without a bound."""
        return duality_gap(*self.point) if self.convex else np.inf

    def set_model(self) -> None:
        self.model._set_model(self.layout, self.coef(), self.columns)

    def coef(self) -> np.ndarray:
        """All weights."""
        coef = np.zeros(self.layout.n_weights)
        coef[self.free] = self.w
        return coef
