"""SampleRankClassifier: factor graphs learned by SampleRank."""

from __future__ import annotations

import numbers
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from .._checks import INT32_MAX, as_random_state, check_count, check_real
from .._compat import (
    N_JOBS,
    CallbackSupportMixin,
    Interval,
    StrOptions,
    _fit_context,
    with_callbacks,
)
from .._docs import shared_docs
from .._progress import Progress
from ._graph import FactorGraph
from ._inference import BlockInference, Walk, put_starts, refuse_loops
from ._pack import Packed, WeightLayout, unpacked
from ._predictor import ATTRIBUTES, GraphPredictor
from ._samplerank_fast import (
    ADAGRAD,
    GIBBS,
    PASSIVE_AGGRESSIVE,
    PERCEPTRON,
    UNIFORM,
    Graphs,
    Learner,
    value_scores,
    walk,
)

_RULES = {
    "perceptron": PERCEPTRON,
    "passive_aggressive": PASSIVE_AGGRESSIVE,
    "adagrad": ADAGRAD,
}
_PROPOSALS = {"gibbs": GIBBS, "uniform": UNIFORM}
# Steps of a kernel call, some tens of milliseconds: signals are handled between calls.
_BUDGET = 500_000


@shared_docs(attributes=ATTRIBUTES)
class SampleRankClassifier(CallbackSupportMixin, GraphPredictor):
    r"""Structured prediction over factor graphs, learned by SampleRank.

    .. math::
        \hat y(x) = \arg\max_{y \in Y(x)} s_w(y \mid x), \qquad
        s_w(y \mid x) = w^\top \varphi(x, y),

    with the features :math:`\varphi` of the factors of a `FactorGraph`, one for each
    variable and each edge. Learning walks through the states of each training instance.
    A step compares two states y', y'' that differ in one variable. Let y' have the
    smaller loss, :math:`\ell(y') < \ell(y'')`, and let
    :math:`\delta = \varphi(x, y') - \varphi(x, y'')`. If

    .. math::
        w^\top \delta < m\,\bigl(\ell(y'') - \ell(y')\bigr)
        \quad\text{or}\quad w^\top \delta \le 0,

    the weights are changed in the direction of :math:`\delta`. The next state is drawn
    by the scores of the model.

    Parameters
    ----------
    loss : {"hamming"} or callable, default="hamming"
        :math:`\ell`: "hamming" is the number of wrong variables. A callable
        ``loss(y_true, y, graph) -> float`` gets the values as arrays and returns a
        finite number of at least 0. Learning is then at least a hundred times slower.

    step : {"adagrad", "passive_aggressive", "perceptron"}, default="adagrad"
        The update along :math:`\delta`:

        - "perceptron": :math:`\eta\, \delta`, :math:`\eta` the `learning_rate`;
        - "adagrad": :math:`\eta\, \delta_j / \sqrt{G_j}` for each weight, with
          :math:`G_j` the sum of all :math:`\delta_j^2` so far;
        - "passive_aggressive": :math:`\min\bigl(\eta, (m \Delta\ell - w^\top\delta)
          / \|\delta\|^2\bigr)\, \delta` (PA-I, where :math:`\eta` is called C).

    learning_rate : float, default=0.1
        :math:`\eta`, above 0. Only its ratio to `margin` and `temperature` matters.

    margin : float, default=1.0
        m, at least 0: the required difference of scores for each unit of difference in
        loss. 0 learns from mistakes only, and is an error for "passive_aggressive".

    average : bool, default=True
        Whether to predict with the mean of the weights over all comparisons.

    epochs : int, default=10
        Passes over the training instances, at least 1, each over all variables.

    proposal : {"gibbs", "uniform"}, default="gibbs"
        The states to compare. "gibbs": all values of a variable. The value with the
        smallest loss is compared with the value that violates the ranking most, and the
        next state is drawn from the conditional distribution of the model. "uniform":
        the current value and another random value, a Metropolis step.

    temperature : float, default=0.1
        Temperature of the learning walk, at least 0; with 0 no state of a lower score
        is accepted. Far above `margin` the scores hardly influence the walk, and the
        weights of edges become too small.

    inference : {"auto", "anneal", "icm", "exact"}, default="auto"
        How `predict` searches for the best state:

        - "exact": max-product, for chains and trees; an error for graphs with a loop;
        - "anneal": three times 100 sweeps of Gibbs sampling at falling temperatures,
          then coordinate ascent from the best state;
        - "icm": coordinate ascent from the best value of each variable without its
          neighbours; fast, but often ends in a local optimum;
        - "auto": "exact" for each instance without a loop, "anneal" for the others.

    n_jobs : int, default=None
        Threads over the instances of a prediction; learning uses one thread. None means
        1 unless in a `joblib.parallel_config` context. Results do not depend on it.

    random_state : int, RandomState instance or None, default=None
        Seed of the walk, and of annealing: a fitted model predicts the same each time.

    verbose : int, default=0
        Print the number of updates after every `verbose` epochs; 0 is silent.

    Attributes
    ----------
    {attributes}

    n_iter_ : int
        Number of epochs; fewer than `epochs` if a callback stopped the fit.

    n_proposals_ : int
        Number of comparisons of two states.

    n_updates_ : ndarray of shape (`n_iter_`,)
        Number of updates in each epoch.

    See Also
    --------
    FactorGraph : One instance.
    FactorGraphVectorizer : Instances from dictionaries.

    Notes
    -----
    SampleRank learns to rank. It does not estimate probabilities, so there is no
    `predict_proba`. `sample` and `predict_marginals` use the scores as logarithms of
    unnormalised probabilities, which are *not calibrated*.

    The steps of learning change one variable. If two variables must be equal, use one
    variable instead, because neither can change alone. Sampling and annealing also
    change the two ends of an edge together, if they have at most 1024 pairs of values.

    References
    ----------
    .. [1] M. Wick, K. Rohanimanesh, A. Culotta, A. McCallum, "SampleRank: Learning
       preferences from atomic gradients", NIPS Workshop on Advances in Ranking, 2009.
    .. [2] G. Bouchard, "Named Entity Generation using Sampling-based Structured
       Prediction", INLG 2010 (the GREC-NEG system), section 2.
    .. [3] K. Crammer et al., "Online Passive-Aggressive Algorithms", JMLR 7, 2006,
       figure 1 (PA-I).
    .. [4] J. Duchi, E. Hazan, Y. Singer, "Adaptive Subgradient Methods for Online
       Learning and Stochastic Optimization", JMLR 12, 2011.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.factor_graph import SampleRankClassifier, chain_graph
    >>> rng = np.random.default_rng(0)
    >>> y = [np.repeat(rng.integers(2, size=5), 4) for _ in range(50)]
    >>> seen = [row + 0.5 * rng.normal(size=20) for row in y]
    >>> X = [chain_graph([0, 1], np.c_[np.ones(20), row]) for row in seen]
    >>> model = SampleRankClassifier(random_state=0).fit(X[:40], y[:40])
    >>> model.predict(X[40:])[0].shape
    (20,)
    >>> round(model.score(X[40:], y[40:]), 3)
    0.925
    """

    n_iter_: int
    n_proposals_: int
    n_updates_: np.ndarray
    _seed: int

    _parameter_constraints: dict = {
        "loss": [StrOptions({"hamming"}), callable],
        "step": [StrOptions(set(_RULES))],
        "learning_rate": [Interval(numbers.Real, 0, None, closed="neither")],
        "margin": [Interval(numbers.Real, 0, None, closed="left")],
        "average": ["boolean"],
        "epochs": [Interval(numbers.Integral, 1, None, closed="left")],
        "proposal": [StrOptions(set(_PROPOSALS))],
        "temperature": [Interval(numbers.Real, 0, None, closed="left")],
        "inference": [StrOptions({"auto", "anneal", "icm", "exact"})],
        "n_jobs": N_JOBS,
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        loss: str | Callable = "hamming",
        *,
        step: str = "adagrad",
        learning_rate: float = 0.1,
        margin: float = 1.0,
        average: bool = True,
        epochs: int = 10,
        proposal: str = "gibbs",
        temperature: float = 0.1,
        inference: str = "auto",
        n_jobs: int | None = None,
        random_state: Any = None,
        verbose: int = 0,
    ) -> None:
        self.loss = loss
        self.step = step
        self.learning_rate = learning_rate
        self.margin = margin
        self.average = average
        self.epochs = epochs
        self.proposal = proposal
        self.temperature = temperature
        self.inference = inference
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    # ------------------------------------------------------------------- learning

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(
        self, X: Sequence[FactorGraph], y: Sequence[Sequence[Any]]
    ) -> SampleRankClassifier:
        """Learn the weights.

        Parameters
        ----------
        X : list of FactorGraph
            Instances.

        y : list of array-like of shape (n_variables,)
            For each instance a value for each of its variables, one of its candidates.

        Returns
        -------
        self : SampleRankClassifier
            Fitted estimator.

        Raises
        ------
        ValueError
            If features differ in number between instances, a label is not a candidate,
            or y has a forbidden pair; the message names the instance and the variable.
            If `loss` returns a value of another kind.
        FloatingPointError
            If the weights overflow.
        """
        if self.step == "passive_aggressive" and self.margin == 0:
            raise ValueError(
                "margin must be positive with step='passive_aggressive', which does "
                "not update at a tie and would never change the zero weights"
            )
        graphs, truth, columns = self._learn_input(X, y)
        layout = WeightLayout.of(graphs)
        packed = Packed(graphs, layout)
        rng = check_random_state(self.random_state)
        seeds = rng.randint(INT32_MAX, size=3)
        learner = Learner(
            np.zeros(layout.n_weights), _RULES[self.step], self.learning_rate,
            self.margin, self.temperature, int(seeds[0]),
        )  # fmt: skip
        sizes = np.diff(packed.cand_ptr)
        first = np.random.default_rng(seeds[1]).random(sizes.size)
        state = (first * sizes).astype(np.int32)
        put_starts(graphs, packed.var_ptr, state)
        run = self._runner(graphs, packed, learner, truth, state)
        updates = []
        with Progress.of_fit(self, max_subtasks=self.epochs) as progress:
            for epoch in range(self.epochs):
                before = learner.n_updates
                run(rng.permutation(len(graphs)).astype(np.int32))
                updates.append(learner.n_updates - before)
                if not np.isfinite(learner.coef).all():
                    raise FloatingPointError(
                        "the weights are no longer finite; scale the features, or "
                        "lower learning_rate"
                    )
                if progress.step(f"epoch {epoch + 1}: {updates[-1]} updates"):
                    break
        self._set_model(
            layout,
            learner.average() if self.average else learner.coef,
            columns,
            _seed=int(seeds[2]),
            n_iter_=len(updates),
            n_proposals_=learner.n_proposals,
            n_updates_=np.array(updates),
        )
        return self

    def _runner(
        self,
        graphs: list[FactorGraph],
        packed: Packed,
        learner: Learner,
        truth: np.ndarray,
        state: np.ndarray,
    ) -> Callable[[np.ndarray], None]:
        """A function that runs one epoch over instances in a given order."""
        kernel = Graphs(packed)
        cost = np.ones(int(packed.cand_ptr[-1]))
        cost[packed.cand_ptr[:-1] + truth] = 0.0
        scan = np.empty(int(np.diff(packed.var_ptr).max()), dtype=np.int32)
        score = np.empty(int(np.diff(packed.cand_ptr).max()))
        proposal, budget = _PROPOSALS[self.proposal], _BUDGET
        loss: Any = self.loss
        if callable(loss):
            budget = 1  # the costs of each variable are computed before its visit
            var_ptr, cand_ptr = packed.var_ptr.tolist(), packed.cand_ptr.tolist()
            parts = [slice(*ends) for ends in pairwise(var_ptr)]
            values = [g.decode(truth[part]) for g, part in zip(graphs, parts)]

        def put_costs(i: int, v: int) -> None:
            start, end = cand_ptr[v : v + 2]
            if end - start == 1:  # a single value: nothing to compare
                return
            value_scores(kernel, learner, state, v, score)
            now = state[v]
            for a in np.flatnonzero(score[: end - start] > -np.inf).tolist():
                state[v] = a
                y = graphs[i].decode(state[parts[i]])
                cost[start + a] = _checked(loss(values[i], y, graphs[i]), i)
            state[v] = now

        def run(order: np.ndarray) -> None:
            place = np.array([0, -1], dtype=np.int64)
            done = False
            while not done:
                if callable(loss) and place[1] >= 0:
                    i = int(order[place[0]])
                    put_costs(i, var_ptr[i] + int(scan[place[1]]))
                done = walk(
                    kernel, learner, cost, order, proposal, state, place, scan, score,
                    budget,
                )  # fmt: skip

        return run

    # ----------------------------------------------------------------- prediction

    def _best(self, infer: BlockInference) -> np.ndarray:
        block = infer.block
        if self.inference == "icm":
            walk = Walk(infer, infer.start())
            walk.icm()
            return walk.state
        # The same seed for each instance: its prediction does not depend on the others.
        seeds = np.full(block.n_instances, self._seed, dtype=np.uint64)
        if self.inference == "anneal":
            return infer.anneal(seeds)
        state, loopy = infer.exact(), 1 - block.forest.is_forest
        if loopy.any():
            owner = np.repeat(loopy.astype(bool), np.diff(block.var_ptr))
            state = np.where(owner, infer.anneal(seeds, loopy), state)
        return state

    def _refuse(self, graphs: list[FactorGraph]) -> None:
        if self.inference == "exact":
            refuse_loops(
                graphs, "inference='exact'", "use inference='auto' or 'anneal'"
            )

    # ------------------------------------------------------------------- sampling

    def sample(
        self,
        X: Sequence[FactorGraph],
        n_samples: int = 1,
        *,
        temperature: float = 1.0,
        burn_in: int = 100,
        thin: int = 10,
        random_state: Any = None,
    ) -> list[list[np.ndarray]]:
        """States drawn by Gibbs sampling from p(y) ∝ exp(score / temperature).

        The scores rank states and are not fitted as probabilities, so frequencies of
        the samples are **not calibrated**. Successive samples are correlated, and hard
        constraints may restrict the walk to a part of the states.

        Parameters
        ----------
        X : list of FactorGraph
            Instances.

        n_samples : int, default=1
            States for each instance, at least 1.

        temperature : float, default=1.0
            Positive; small values stay close to the best state.

        burn_in : int, default=100
            Sweeps before the first sample.

        thin : int, default=10
            Sweeps from one sample to the next, at least 1.

        random_state : int, RandomState, Generator or None, default=None
            None: the seed of `fit`, so that all calls give the same samples.

        Returns
        -------
        samples : list of lists of ndarray of shape (n_variables,)
            For each instance its samples.
        """
        check_count("n_samples", n_samples, 1)
        check_count("thin", thin, 1)

        def draw(chain: Walk) -> np.ndarray:
            out = np.empty((n_samples, chain.state.size), dtype=np.int32)
            for s in range(n_samples):
                chain.at(temperature, thin if s else 0)
                out[s] = chain.state
            return out

        graphs, packed, drawn = self._gibbs_walks(
            X, draw, temperature, burn_in, random_state
        )
        states = np.concatenate(drawn, axis=1)
        return [
            [graph.decode(row) for row in states[:, a:b]]
            for graph, a, b in zip(graphs, packed.var_ptr[:-1], packed.var_ptr[1:])
        ]

    def predict_marginals(
        self,
        X: Sequence[FactorGraph],
        n_sweeps: int = 1000,
        *,
        temperature: float = 1.0,
        burn_in: int = 100,
        random_state: Any = None,
    ) -> list[list[np.ndarray]]:
        """Frequencies of each candidate in Gibbs sampling; **not calibrated**.

        They estimate the marginals of p(y) ∝ exp(score / temperature), with sampling
        noise. The model was trained to rank and not to estimate probabilities: use the
        frequencies to find uncertain variables, not for decisions that need a
        probability.

        Parameters
        ----------
        X : list of FactorGraph
            Instances.

        n_sweeps : int, default=1000
            Sweeps that are counted, at least 1.

        temperature : float, default=1.0
            Positive.

        burn_in : int, default=100
            Sweeps before the first counted sweep.

        random_state : int, RandomState, Generator or None, default=None
            None: the seed of `fit`, so that all calls give the same estimates.

        Returns
        -------
        marginals : list of lists of ndarray of shape (n_candidates of the variable,)
            For each variable of each instance the share of sweeps of each candidate;
            each sums to 1.
        """
        check_count("n_sweeps", n_sweeps, 1)

        def watch(chain: Walk) -> np.ndarray:
            chain.count = np.zeros(chain.infer.unary.size)
            chain.at(temperature, n_sweeps)
            return chain.count / n_sweeps

        _, packed, counts = self._gibbs_walks(
            X, watch, temperature, burn_in, random_state
        )
        shares = unpacked(np.concatenate(counts), packed.cand_ptr)
        return unpacked(shares, packed.var_ptr)

    def _gibbs_walks(
        self,
        X: Sequence[FactorGraph],
        function: Callable[[Walk], np.ndarray],
        temperature: float,
        burn_in: int,
        random_state: Any,
    ) -> tuple[list[FactorGraph], Packed, list]:
        check_count("burn_in", burn_in, 0)
        check_real("temperature", temperature, "(0, inf)")
        graphs = self._graphs(X)
        rng = as_random_state(self._seed if random_state is None else random_state)
        seeds = rng.randint(2**63 - 1, size=len(graphs), dtype=np.int64).astype(
            np.uint64
        )

        def from_warm_start(infer: BlockInference) -> np.ndarray:
            seed = seeds[infer.block.first : infer.block.last].copy()
            chain = Walk(infer, infer.start(), seed)
            chain.at(temperature, burn_in)
            return function(chain)

        return graphs, *self._over_blocks(graphs, from_warm_start)


def _checked(loss: Any, i: int) -> float:
    """The number that a loss in Python returned for instance i."""
    try:
        number = float(loss)
    except (TypeError, ValueError):
        number = np.nan
    if not 0.0 <= number < np.inf:
        raise ValueError(
            "loss must return a finite number of at least 0, got "
            f"{loss!r:.60} for X[{i}]"
        )
    return number
