"""ConditionalRandomField: the exact conditional likelihood on chains and trees."""

from __future__ import annotations

import numbers
import os
from collections.abc import Sequence
from typing import Any, BinaryIO

import numpy as np
from scipy.optimize import minimize
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from .._compat import CallbackSupportMixin, Interval, _fit_context, with_callbacks
from .._docs import shared_docs
from .._files import open_write
from .._parallel import ThreadMap, single_blas_thread
from .._progress import Progress
from .._warnings import warn
from ._chains import ChainModel
from ._conditional import ConditionalLikelihood, duality_gap
from ._crfsuite import ChainWeights, model_bytes, read_file
from ._graph import FactorGraph, as_labels
from ._inference import BlockInference, refuse_loops
from ._pack import Packed, WeightLayout, unpacked
from ._predictor import ATTRIBUTES, GraphPredictor, check_labels, encode

# Pairs of vectors that L-BFGS remembers.
_MEMORY = 10


@shared_docs(attributes=ATTRIBUTES)
class ConditionalRandomField(CallbackSupportMixin, GraphPredictor):
    r"""Structured prediction on chains and trees by the conditional likelihood.

    .. math::
        p_w(y \mid x) = \frac{e^{s_w(y \mid x)}}{\sum_{y'} e^{s_w(y' \mid x)}}, \qquad
        \min_w\; -\sum_i \log p_w(y_i \mid x_i) + c_1 \|w\|_1 + c_2 \|w\|_2^2

    with the score :math:`s_w(y \mid x) = w^\top \varphi(x, y)` of a `FactorGraph`. The
    sum over all states and the expected features, which are the gradient, are exact by
    sum-product (forward-backward on a chain). The minimum is unique for
    :math:`c_2 > 0` and is found by L-BFGS, with a bound on the distance from it.

    Parameters
    ----------
    c1 : float, default=0.0
        Weight of the absolute values, at least 0; above 0 many weights become 0.

    c2 : float, default=1.0
        Weight of the squares, at least 0. Both have the scale of the total likelihood,
        not of its mean, as in CRFsuite.

    min_count : int or tuple of two int, default=1
        A feature of a variable or an edge has a weight for a kind of value (or a pair
        of kinds) if the two occur together at least so often in training; the other
        weights are 0. 0 gives a weight to all, which costs memory and time. Of two
        numbers the first is for variables, the second for edges: 0 is then CRFsuite's
        ``all_possible_states`` or ``all_possible_transitions``. Weights of
        `candidate_features` and `pair_features` are always learned.

    tol : float, default=1e-3
        Stop when the bound `gap_` says that the objective is within `tol` nats per
        variable of its minimum; at least 0. Without c1 and c2 there is no such bound,
        and the fit stops when ten iterations together lower the objective by less.

    max_iter : int, default=1000
        Most iterations of L-BFGS, at least 1.

    n_jobs : int, default=None
        Threads over the instances, in `fit` as in prediction. None is 1 unless in a
        `joblib.parallel_config` context. Results do not depend on it.

    verbose : int, default=0
        Print objective and gap after every `verbose` iterations; 0 is silent.

    Attributes
    ----------
    {attributes}

    objective_ : ndarray of shape (`n_iter_` + 1,)
        Penalised negative log-likelihood, total, in nats: of the zero weights and after
        each iteration.

    gap_ : float
        Duality gap: upper bound of the distance of the last objective from its
        minimum, in nats, total. Infinite without penalty.

    n_iter_ : int
        Iterations run.

    See Also
    --------
    SampleRankClassifier : For graphs with loops; learns faster, without probabilities.
    sklstruct.hmm.HighOrderHMM : Longer label contexts, learned by counting.

    Notes
    -----
    An iteration costs :math:`O(\sum_i k_i f_i + \sum_{(i, j)} k_i k_j)` with k values
    and f features of a variable, and an exponential for each value, not for each pair:
    edges of the same potentials share one table. L-BFGS keeps 25 vectors of the
    weights.

    Sums are scaled at each variable; an instance where they would underflow is summed
    again with logarithms, so that probabilities are right for scores of any size.

    Of paths of equal score `predict` takes that of the first label of `classes_` at the
    end, then before it, as CRFsuite does.

    With c1 the variables of L-BFGS are the positive and the negative parts of the
    weights, each at least 0.

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
    >>> bool(model.gap_ <= 1e-3 * 8)
    True
    """

    _parameter_constraints: dict = {
        "c1": [Interval(numbers.Real, 0, None, closed="left")],
        "c2": [Interval(numbers.Real, 0, None, closed="left")],
        "min_count": [Interval(numbers.Integral, 0, None, closed="left"), tuple],
        "tol": [Interval(numbers.Real, 0, None, closed="left")],
        "max_iter": [Interval(numbers.Integral, 1, None, closed="left")],
        "n_jobs": [numbers.Integral, None],
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
    def fit(self, X: Sequence, y: Sequence[Sequence[Any]]) -> ConditionalRandomField:
        """Learn the weights.

        Parameters
        ----------
        X : list of sequences of observations, or of FactorGraph
            An observation is a mapping from names of features to numbers, strings (the
            feature ``name:string`` is 1), lists of strings or further mappings, or a
            list of names, which are 1. Names and strings may be bytes, in UTF-8. Each
            sequence is a chain. Graphs must not have loops.

        y : list of array-like of shape (n_variables,)
            For each instance a label for each observation or variable.

        Returns
        -------
        self : ConditionalRandomField
            Fitted estimator.

        Raises
        ------
        ValueError
            If a graph has a loop, X and y do not fit each other, an observation is
            malformed or a parameter is infinite; the message names the place.

        Warns
        -----
        ConvergenceWarning
            If the gap is above `tol` at the end.
        """
        least = self.min_count
        if not isinstance(least, tuple):
            least = least, least
        elif len(least) != 2 or not all(
            isinstance(n, numbers.Integral) and n >= 0 for n in least
        ):
            raise ValueError(
                "min_count must be an integer of at least 0, or two of them for the "
                f"features of variables and of edges, got {least!r}"
            )
        graphs, truth = self._learn_input(X, y)
        self._refuse(graphs)
        layout = WeightLayout.of(graphs)
        packed = Packed(graphs, layout)
        with (
            ThreadMap(self.n_jobs) as parallel,
            single_blas_thread(),
            Progress.of_fit(self, max_subtasks=self.max_iter) as progress,
        ):
            loss = ConditionalLikelihood(packed, graphs, truth, parallel)
            wanted = np.zeros(layout.n_weights)
            wanted[: layout.own_offset] = least[0]
            for start, end in zip(layout.cross_offset, layout.pair_offset):
                wanted[start:end] = least[1]
            free = loss.counts() >= wanted
            descent = _Descent(self, loss, np.flatnonzero(free), progress)
            descent.run()
        self._set_weights(layout, descent.coef)
        self.objective_ = np.array(descent.history)
        self.gap_ = descent.gap
        self.n_iter_ = len(descent.history) - 1
        if not descent.ended and not descent.stopped:
            warn(
                f"gap of {self.gap_ / packed.n_variables:.2g} nats per variable, not "
                f"within tol={self.tol:g} after {self.n_iter_} iterations. Increase "
                "max_iter, tol, c1 or c2, or scale the features",
                ConvergenceWarning,
            )
        return self

    def _after_iteration(
        self, layout: WeightLayout, coef: np.ndarray, objective: list[float]
    ) -> None:
        """Called at the start and after each iteration; for subclasses."""

    def _refuse(self, graphs: list[FactorGraph]) -> None:
        if self._columns is None:  # sequences are chains
            refuse_loops(
                graphs, "ConditionalRandomField", "SampleRankClassifier learns on these"
            )

    def _best(self, infer: BlockInference) -> np.ndarray:
        return infer.exact()

    def predict_proba(self, X: Sequence) -> list:
        r"""Exact marginal probabilities :math:`p(y_i = a \mid x)` of the values.

        Parameters
        ----------
        X : list of sequences of observations, or of FactorGraph
            Instances.

        Returns
        -------
        proba : list
            For each sequence an ndarray of shape (length, n_classes), columns in the
            order of `classes_`. For each graph a list with an ndarray of shape
            (n_candidates of the variable,) for each variable. Each distribution sums
            to 1.
        """
        X = self._instances(X)
        if self._columns is None:
            return self._marginals(self._graphs(X))
        model = self._chain_model()
        return model.marginals(model.read(X, self.n_jobs))

    def _marginals(self, graphs: list[FactorGraph]) -> list:
        def marginals(infer: BlockInference) -> np.ndarray:
            return infer.sums()[1]

        packed, found = self._over_blocks(graphs, marginals)
        shares = unpacked(np.concatenate(found), packed.cand_ptr)
        return [shares[a:b] for a, b in zip(packed.var_ptr[:-1], packed.var_ptr[1:])]

    def target_log_proba(self, X: Sequence, y: Sequence[Sequence[Any]]) -> np.ndarray:
        r"""The logarithm of :math:`p(y \mid x)` of the whole state of each instance.

        Parameters
        ----------
        X : list of sequences of observations, or of FactorGraph
            Instances.

        y : list of array-like of shape (n_variables,)
            Values.

        Returns
        -------
        log_proba : ndarray of shape (n_instances,)
            In nats, at most 0.

        Raises
        ------
        ValueError
            If a value is not a candidate: of sequences, a label that `fit` did not see.
        """
        X = self._instances(X)
        if self._columns is None:
            graphs = self._graphs(X)
            return self._log_proba(graphs, encode(graphs, y))
        model = self._chain_model()
        given = model.read(X, self.n_jobs)
        labels = check_labels(y, given.lengths)
        code = {label: a for a, label in enumerate(model.labels)}
        path = np.array([code.get(v, -1) for row in labels for v in row], np.int32)
        if (path < 0).any():
            item = int(np.argmax(path < 0))
            ends = np.cumsum(given.lengths)
            i = int(np.searchsorted(ends, item, side="right"))
            t = item - int(ends[i]) + given.lengths[i]
            raise ValueError(
                f"y[{i}] has the label {labels[i][t]!r} at item {t}, which fit did not "
                "see; classes_ has the labels"
            )
        return model.log_proba(given, path)

    def _log_proba(self, graphs: list[FactorGraph], state: np.ndarray) -> np.ndarray:
        def log_proba(infer: BlockInference) -> np.ndarray:
            log_z = infer.sums(marginals=False)[0]
            return infer.score(state[infer.block.variables]) - log_z

        return np.concatenate(self._over_blocks(graphs, log_proba)[1])

    # ------------------------------------------------------------------- sequences

    def _chain_model(self) -> ChainModel:
        """The weights without graphs, kept until `coef_` is another array."""
        assert self._columns is not None
        coef, known = vars(self).get("_reader", (None, None))
        if coef is not self.coef_:
            known = ChainModel(
                self._columns,
                self.feature_coef_,
                self._transition(),
                self.classes_.tolist(),
            )
            self._reader = self.coef_, known
        return known

    def _transition(self) -> np.ndarray:
        """The weight of each pair of labels."""
        k, start = self._layout.n_kinds, self._layout.cross_offset
        if not start.size:  # all training sequences had one item
            return np.zeros((k, k))
        return self.coef_[start[0] : start[0] + k * k].reshape(k, k)

    def _predict_sequences(self, X: list) -> list[list]:
        model = self._chain_model()
        return model.best(model.read(X, self.n_jobs))

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_reader"}

    # ----------------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str] | BinaryIO) -> None:
        """Write a model of sequences to a file that CRFsuite reads.

        Weights and names are stored, not the parameters of the estimator. A file that
        CRFsuite wrote and `load` read is written byte for byte. Weights of 0 are left
        out, and with them the features that have no other weights.

        Parameters
        ----------
        path : str, os.PathLike or binary file object
            The file gets its name when it is complete; an older file stays until then.
            A name that ends in ``.gz``, ``.bz2`` or ``.xz`` is compressed, which
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
        """Read a model of CRFsuite: of `save`, of python-crfsuite or of its tools.

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
        model._columns = {name: j for j, name in enumerate(names)}
        model.classes_ = as_labels(labels)
        model.feature_names_ = np.array(names, dtype=object)
        coef = np.concatenate([state.ravel(), transition.ravel()])
        model._set_weights(layout, coef)
        return model


class _Descent:
    """L-BFGS over the free weights, until the gap is small enough."""

    def __init__(
        self,
        model: ConditionalRandomField,
        loss: ConditionalLikelihood,
        free: np.ndarray,
        progress: Progress,
    ) -> None:
        self.model = model
        self.loss, self.free, self.progress = loss, free, progress
        self.c1, self.c2 = float(model.c1), float(model.c2)
        self.max_iter = model.max_iter
        self.n_variables = max(1, loss.packed.n_variables)
        self.tol = model.tol * self.n_variables
        self.coef = np.zeros(loss.packed.layout.n_weights)
        self.history: list[float] = []
        self.gap = np.inf
        self.ended = self.stopped = False

    def weights(self, x: np.ndarray) -> np.ndarray:
        """The free weights of the variables of L-BFGS."""
        n = self.free.size
        return x if self.c1 == 0.0 else x[:n] - x[n:]

    def evaluate(self, x: np.ndarray) -> tuple[float, np.ndarray]:
        w = self.weights(x)
        coef = np.zeros(self.coef.size)
        coef[self.free] = w
        loss, gradient = self.loss.value_and_gradient(coef)
        gradient = gradient[self.free]
        gap = duality_gap(loss, gradient, w, self.c1, self.c2)
        objective = loss + self.c1 * float(np.abs(w).sum()) + self.c2 * float(w @ w)
        self.last = coef, objective, gap
        if not self.history:
            self.keep()
        gradient += 2.0 * self.c2 * w
        if self.c1 > 0.0:
            gradient = np.concatenate([self.c1 + gradient, self.c1 - gradient])
            objective = loss + self.c1 * float(x.sum()) + self.c2 * float(w @ w)
        return objective, gradient

    def keep(self) -> None:
        self.coef, objective, self.gap = self.last
        self.history.append(objective)
        self.model._after_iteration(self.loss.packed.layout, self.coef, self.history)
        self.ended = self.gap <= self.tol
        if self.gap == np.inf and len(self.history) > 10:
            self.ended = self.history[-11] - objective <= self.tol

    def after(self, intermediate_result: Any) -> None:
        """SciPy's callback after an iteration, at the point of the last evaluation."""
        self.keep()
        text = f"objective {self.history[-1]:.6g}"
        if self.progress.step(
            f"{text}, gap {self.gap / self.n_variables:.2g} nats per variable"
        ):
            self.stopped = True
            raise StopIteration
        if self.ended:
            raise StopIteration

    def run(self) -> None:
        n = self.free.size * (1 if self.c1 == 0.0 else 2)
        x = np.zeros(n)
        self.evaluate(x)
        if self.ended:
            return
        minimize(
            self.evaluate,
            x,
            jac=True,
            method="L-BFGS-B",
            bounds=None if self.c1 == 0.0 else [(0.0, None)] * n,
            callback=self.after,
            options={
                "maxcor": _MEMORY,
                "ftol": 0.0,
                "gtol": 0.0,
                "maxiter": self.max_iter,
                "maxfun": 20 * self.max_iter,
            },
        )
