"""Exact inference on chains and trees: best states, marginals, sums and draws."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from .._checks import INT32_MAX, as_random_state, check_count
from .._docs import shared_docs
from ..symbols import (
    DRAWS,
    GIVEN,
    LabelLists,
    check_draws,
    check_possible,
    known_labels,
    object_array,
)
from ._chains import ChainModel, ScoredChains
from ._graph import FactorGraph
from ._inference import BlockInference, candidate_flags, refuse_loops
from ._pack import unpacked
from ._paths import InstanceTree
from ._predictor import GraphPredictor

# Arguments of `refuse_loops`.
REFUSAL = "ConditionalRandomField", "SampleRankClassifier learns on these"


class ExactPredictor(GraphPredictor):
    """Base of models of instances without loops, with exact inference."""

    def _refuse(self, graphs: list[FactorGraph]) -> None:
        if self._columns is None:  # sequences are chains
            refuse_loops(graphs, *REFUSAL)

    def _best(self, infer: BlockInference) -> np.ndarray:
        return infer.exact()

    @shared_docs(given=GIVEN)
    def predict(self, X: Sequence, given: Sequence | None = None) -> list:
        """The most probable state of each instance.

        Parameters
        ----------
        X : list of sequences of observations, or of FactorGraph
            Instances.

        {given}

        Returns
        -------
        y : list of list, or list of ndarray of shape (n_variables,)
            The labels of each sequence, or a value for each variable of each graph.

        Raises
        ------
        ValueError
            If a graph has a loop, if features or types of edges are not those of `fit`,
            or if `given` does not fit X or leaves an instance no possible state.
        """
        X = self._instances(X)
        if self._columns is not None:
            model = self._chain_model()
            chains = self._within(model.read(X, self.n_jobs), given)
            return LabelLists(model.best(chains))
        graphs, allowed = self._known(X, given)
        return LabelLists(self._predict_graphs(graphs, allowed))

    @shared_docs(given=GIVEN)
    def predict_proba(self, X: Sequence, given: Sequence | None = None) -> list:
        r"""Exact marginal probabilities :math:`p(y_i = a \mid x)` of the values.

        Parameters
        ----------
        X : list of sequences of observations, or of FactorGraph
            Instances.

        {given}

        Returns
        -------
        proba : list
            For each sequence an ndarray of shape (length, n_classes), columns in the
            order of `classes_`. For each graph a list with an ndarray of shape
            (n_candidates of the variable,) for each variable. Each distribution sums
            to 1.

        Raises
        ------
        ValueError
            If `given` does not fit X, or leaves an instance no possible state.
        """
        X = self._instances(X)
        if self._columns is not None:
            model = self._chain_model()
            return model.marginals(self._within(model.read(X, self.n_jobs), given))
        return self._marginals(*self._known(X, given))

    def _marginals(
        self, graphs: list[FactorGraph], allowed: np.ndarray | None = None
    ) -> list:
        def marginals(infer: BlockInference) -> np.ndarray:
            return infer.sums(np.ones(infer.block.n_instances))[1]

        packed, found = self._over_blocks(graphs, marginals, allowed)
        shares = unpacked(np.concatenate(found), packed.cand_ptr)
        return unpacked(shares, packed.var_ptr)

    def target_log_proba(self, X: Sequence, y: Sequence[Sequence[Any]]) -> np.ndarray:
        r"""Natural logarithm of :math:`p(y \mid x)` of the state of each instance.

        Parameters
        ----------
        X : list of sequences of observations, or of FactorGraph
            Instances.

        y : list of array-like of shape (n_variables,)
            Values. Unknown values and sets are given as in `given` of `predict`; the
            probability is then the sum over all states that agree with y.

        Returns
        -------
        log_proba : ndarray of shape (n_instances,)
            In nats, at most 0.

        Raises
        ------
        ValueError
            If a value is not a candidate; for sequences, a label that `fit` did not
            see.
        """
        X = self._instances(X)
        if self._columns is None:
            graphs = self._graphs(X)
            allowed = self._allowed(graphs, y, "y")
            return self._log_sums(graphs, allowed) - self._log_sums(graphs, None)
        model = self._chain_model()
        chains = model.read(X, self.n_jobs)
        known = self._within(chains, y, "y")
        return np.minimum(model.log_sums(known) - model.log_sums(chains), 0.0)

    def _log_sums(
        self, graphs: list[FactorGraph], allowed: np.ndarray | None
    ) -> np.ndarray:
        found = self._over_blocks(graphs, lambda infer: infer.sums()[0], allowed)[1]
        return np.concatenate(found)

    @shared_docs(given=GIVEN)
    def predict_k(self, X: Sequence, k: int = 5, given: Sequence | None = None) -> list:
        r"""The `k` most probable states of each instance.

        Parameters
        ----------
        X : list of sequences of observations, or of FactorGraph
            Instances.

        k : int, default=5
            At least 1.

        {given}

        Returns
        -------
        states : list of list of (labels, log_proba)
            Best first, with :math:`\log p(y \mid x)`, or the logarithm of the
            conditional probability given `given`; fewer than k if there are fewer
            states. Labels are a list for sequences, an ndarray for graphs.

        Raises
        ------
        ValueError
            If `given` does not fit X, or leaves an instance no possible state.
        """
        k = check_count("k", k, 1)

        def best(infer: BlockInference, i: int, log_z: float) -> list:
            found = InstanceTree(infer, i, np.maximum).n_best(k)
            return [(state, score - log_z) for state, score in found]

        graphs, every = self._of_trees(X, given, best)
        as_list = self._columns is not None
        out = []
        for graph, found in zip(graphs, every):
            named = [(graph.decode(state), log_proba) for state, log_proba in found]
            if as_list:
                named = [(labels.tolist(), log_proba) for labels, log_proba in named]
            out.append(named)
        return out

    @shared_docs(draws=DRAWS, given=GIVEN)
    def sample_posterior(
        self,
        X: Sequence,
        n_samples: int = 1,
        random_state: int | np.random.RandomState | None = None,
        given: Sequence | None = None,
    ) -> np.ndarray:
        """Independent, exact draws of the labels given the observations.

        Parameters
        ----------
        X : list of sequences of observations, or of FactorGraph
            Instances.

        {draws}

        {given}

        Returns
        -------
        samples : object ndarray of shape (n_instances,)
            One array of shape (n_samples, length) for each instance.

        Raises
        ------
        ValueError
            If `given` does not fit X, or leaves an instance no possible state, or if
            the samples of an instance have more than 2^31 - 1 labels.
        """
        n_samples = check_count("n_samples", n_samples, 1)
        X = self._instances(X)
        seeds = as_random_state(random_state).randint(INT32_MAX, size=len(X))

        def draw(infer: BlockInference, i: int, log_z: float) -> np.ndarray:
            rng = np.random.RandomState(seeds[infer.block.first + i])
            tree = InstanceTree(infer, i, np.logaddexp)
            check_draws(n_samples, len(tree.order))
            return tree.sample(n_samples, rng)

        graphs, every = self._of_trees(X, given, draw)
        return object_array(
            np.array([graph.decode(state) for state in states], dtype=object).reshape(
                n_samples, graph.n_variables
            )
            if self._columns is None
            else self.classes_[states]
            for graph, states in zip(graphs, every)
        )

    def _of_trees(
        self,
        X: Sequence,
        given: Any,
        function: Callable[[BlockInference, int, float], Any],
    ) -> tuple[list[FactorGraph], list]:
        """(the instances as graphs, function(block, number in the block, log Z) of
        each)."""
        graphs, allowed = self._known(X, given)

        def each(infer: BlockInference) -> list:
            log_z = infer.sums()[0].tolist()
            return [function(infer, i, z) for i, z in enumerate(log_z)]

        found = self._over_blocks(graphs, each, allowed)[1]
        return graphs, [answer for block in found for answer in block]

    # -------------------------------------------------------------- known labels

    def _known(self, X: Any, given: Any) -> tuple[list[FactorGraph], np.ndarray | None]:
        """(the instances as graphs, a mask of the candidates that agree with `given`).

        ValueError if constraints leave no state that agrees.
        """
        graphs = self._graphs(X)
        allowed = self._allowed(graphs, given)
        if given is not None:
            check_possible(given, self._log_sums(graphs, allowed).tolist())
        return graphs, allowed

    def _allowed(
        self, graphs: list[FactorGraph], given: Any, name: str = "given"
    ) -> np.ndarray | None:
        """Whether each candidate of each variable agrees with `given`."""
        if given is None and name == "given":
            return None
        codes: dict[int, dict] = {}

        def code_of(i: int, v: int) -> dict:
            values = graphs[i].candidates[v]
            if id(values) not in codes:
                codes[id(values)] = {value: a for a, value in enumerate(values)}
            return codes[id(values)]

        variables = [graph.candidates for graph in graphs]
        known = known_labels(name, given, variables, code_of)
        return candidate_flags(known, [len(values) for g in variables for values in g])

    def _within(
        self, chains: ScoredChains, given: Any, name: str = "given"
    ) -> ScoredChains:
        """Sequences with only the labels that agree with `given`."""
        if given is None and name == "given":
            return chains
        classes = self.classes_.tolist()
        code = {label: a for a, label in enumerate(classes)}
        sequences = [range(n) for n in chains.lengths]
        known = known_labels(name, given, sequences, lambda i, t: code)
        flags = candidate_flags(known, [len(classes)] * sum(chains.lengths))
        return chains.within(flags.reshape(-1, len(classes)))

    # ------------------------------------------------------------------- sequences

    def _chain_model(self) -> ChainModel:
        """The weights without graphs, cached until `coef_` is another array."""
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
        k, start = self._layout.n_kinds, self._layout.cross_offset[0]
        return self.coef_[start : start + k * k].reshape(k, k)

    def __getstate__(self) -> dict:
        state = super().__getstate__()
        return {name: value for name, value in state.items() if name != "_reader"}
