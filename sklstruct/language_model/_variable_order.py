"""Variable-order models grown from the unigrams on, in closed form."""

from __future__ import annotations

import os
from numbers import Integral, Real
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.exceptions import ConvergenceWarning

from .._checkpoint import Checkpoint
from .._compat import Interval, StrOptions, available_if
from .._docs import shared_docs
from .._warnings import warn
from ..backoff import BackoffClassifier, BackoffModel, Counted, Fitted
from ..backoff._counted import Positions
from ..backoff._prune import (
    add_prefixes,
    next_contexts,
    renormalize,
    selected_nodes,
)
from ..loglinear import StructuredLogLinearLM
from ..loglinear._active_set import grow
from ..smoothing import _engine
from ..smoothing._base import base_distribution

# A parent's mass on the other classes must not vanish in the sums that follow it.
_LEAST_MASS = 1e-9


def _is_online(model: VariableOrderLM) -> bool:
    if model.growth == "active_set":
        raise AttributeError(
            "growth='active_set' keeps no counts that partial_fit could add to; use "
            "growth='greedy', or fit"
        )
    return True


@shared_docs(
    max_depth=_engine.MAX_DEPTH,
    parameters=_engine.PARAMETERS,
    attributes=_engine.ATTRIBUTES,
)
class VariableOrderLM(BackoffClassifier):
    r"""Variable-order language model, grown while an n-gram is worth its cost.

    ``growth="greedy"``:

    .. math::
        \min_W\; -\sum_{n, y} T(n, y) \log P_W(y \mid n) + \lambda\, |W|, \qquad
        P_W(y \mid n) = \begin{cases}
        (c(n, y) - \delta) / c(n) & (n, y) \in W \\
        b(n)\, P_W(y \mid \mathrm{parent}(n)) & \text{otherwise,}
        \end{cases}

    over sets W of pairs of a context and a class, with c(n, y) how often y followed n,
    T(n, y) the part of it whose history is n alone, and b(n) such that the row sums to
    1. An automaton of the model has an arc for each pair, so that W grows
    only along what is there: the pair (n, y), the n-gram "n y", needs the n-grams of
    which it is a continuation, "n", and a refinement, "parent(n) y".
    Shorter n-grams come first and are then settled; those of one context are tried in
    the order of their counts, and one is taken if the log-likelihood gains more than
    :math:`\lambda` by it.

    ``growth="active_set"`` is the convex problem of `StructuredLogLinearLM`,

    .. math::
        \min_{w \ge 0}\ -\sum_{n, y} T(n, y) \log P_w(y \mid n) + \lambda\, \Omega(w),

    solved to the same optimum without making the tree: the pairs below a pair are
    counted when the optimality condition of their group says that one of them may have
    a weight, and W are the pairs whose weight is not zero. Groups extend into the past,
    as contexts do. (Those of [3]_ extend into the future, along the arcs of a
    left-to-right automaton.)

    Parameters
    ----------
    {max_depth}

    lam : float, default=1.0
        :math:`\lambda` in nats of the whole training text; at least 0. Of "greedy" the
        cost of an n-gram, where ``inf`` gives the unigrams; of "active_set" the
        strength of the penalty, finite and above 0.

    growth : {"greedy", "active_set"}, default="greedy"
        How the model is found: in closed form, by one pass over a tree of all contexts;
        or by the penalty, without that tree.

    penalty : name or Penalty, default="tree_l2"
        :math:`\Omega` of "active_set": "tree_l2" (the group lasso), "tree_linf", "l1",
        "elastic_net", or an object.

    alpha, depth_weight : float or array-like of shape (depth + 1,), default=None
        Of "active_set", as in `StructuredLogLinearLM`. None: 1, the plain penalty.

    tol : float, default=1e-2
        Of "active_set": tolerance of the last rounds; at least 0. Others are ten times
        less strict.

    max_iter : int, default=300
        Of "active_set": largest number of iterations of a round, at least 1.

    checkpoint : str, os.PathLike or Checkpoint, default=None
        Of "active_set": a file to which `fit` writes what is built and the state of the
        solver, and from which it goes on after the process was ended, or a folder of
        such files; as in `StructuredLogLinearLM`. "greedy" has no state to keep.

    discount : float, default=0.5
        Of "greedy": :math:`\delta`, 0 <= delta < 1, which every taken pair leaves to
        the others. 0 gives relative frequencies: right for expected counts, whose
        distribution is to be met, while a text needs a discount, as what it lacks would
        be impossible after contexts of which every follower was taken.

    base : "uniform" or unigram estimator, default="uniform"
        Of "greedy". Uniform: the unigrams are discounted by `discount` (1/2 where that
        is 0 and a class was not seen) and interpolated with 1 / V. An estimator is
        cloned, fitted to the counts of the classes, and takes the place of the unigram
        level; it must give every class a positive probability.

    {parameters}

    Attributes
    ----------
    {attributes}

    objective_ : ndarray of shape (n_rounds,)
        In nats. Of "greedy": of the unigrams alone, with contexts of one symbol, and so
        on; it never rises. Of "active_set": after each round of growth.

    n_grown_ : int
        Number of pairs below the unigrams, :math:`|W|`.

    coef_ : ndarray of shape (n_pairs,)
        Of "active_set": the weight of each pair of `backoff_model_`. It is 0 at pairs
        that only lead to contexts in which others have one, which an automaton and a
        file need.

    n_pairs_built_, n_nodes_built_ : int
        Pairs and contexts that were ever made, those without a weight included. A tree
        of all contexts has many more, which "greedy" does make.

    n_iter_ : int
        Of "active_set": evaluations of loss and gradient, of all rounds; of "greedy" 1.

    optimality_ : float
        Of "active_set": the optimality residual; see `StructuredLogLinearLM`.

    See Also
    --------
    sklstruct.backoff.PrunedLM : From the other side: a whole model cut down.

    sklstruct.StructuredLogLinearLM : The model of "active_set", on the whole tree.

    Notes
    -----
    "greedy": O(P log P) for the P pairs of the context tree. A path matrix does not say
    which symbols are which classes; then a pair needs its refinement only.

    "active_set": memory for what is built and 32 bytes a sample, 100 while children are
    counted. Windows and sentences are read without making the tree; with path matrices,
    whose tree is made already, the result is the same and nothing is saved. The smaller
    `lam`, the more of the tree is built: of a text, all that was seen more often than
    about :math:`\lambda / \beta` times.

    With fractional weights, the discount of a count c < 1 is :math:`\delta c`.

    References
    ----------
    .. [1] V. Siivola, B. Pellom, "Growing an n-gram language model", Interspeech 2005.
    .. [2] M. J. Paul, J. Eisner, "Implicitly intersecting weighted automata using dual
       decomposition", NAACL 2012 (features that a prefix and a suffix make active).
    .. [3] R. Cotterell, J. Eisner, "Penalized expectation propagation for graphical
       models over strings", NAACL 2015, section 6.1 (both ways to grow).

    Examples
    --------
    >>> from sklstruct.language_model import LanguageModel, VariableOrderLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran", "a dog ran"] * 3
    >>> model = LanguageModel(VariableOrderLM(lam=2), max_depth=2).fit(text)
    >>> model.estimator_.n_grown_
    13
    >>> model.backoff_model_.check_normalized() < 1e-12
    True

    The group lasso, of which fewer pairs are ever made:

    >>> lasso = VariableOrderLM(growth="active_set", lam=2)
    >>> grown = LanguageModel(lasso, max_depth=2).fit(text).estimator_
    >>> grown.n_grown_, grown.n_pairs_built_, model.estimator_.n_pairs_built_
    (9, 25, 30)
    """

    _parameter_constraints: dict = {
        **{k: v for k, v in _engine.CONSTRAINTS.items() if k != "interpolate"},
        "lam": [Interval(Real, 0, None, closed="both")],
        "growth": [StrOptions({"greedy", "active_set"})],
        "discount": [Interval(Real, 0, 1, closed="left")],
        "penalty": StructuredLogLinearLM._parameter_constraints["penalty"],
        "alpha": [Interval(Real, 0, None, closed="neither"), "array-like", None],
        "depth_weight": [Interval(Real, 0, None, closed="left"), "array-like", None],
        "tol": [Interval(Real, 0, None, closed="left")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "checkpoint": [str, os.PathLike, Checkpoint, None],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        lam: float = 1.0,
        growth: str = "greedy",
        discount: float = 0.5,
        base: Any = "uniform",
        penalty: Any = "tree_l2",
        alpha: float | ArrayLike | None = None,
        depth_weight: float | ArrayLike | None = None,
        tol: float = 1e-2,
        max_iter: int = 300,
        checkpoint: str | os.PathLike | Checkpoint | None = None,
        padding: Any = None,
        classes: ArrayLike | None = None,
    ):
        self.max_depth = max_depth
        self.lam = lam
        self.growth = growth
        self.discount = discount
        self.base = base
        self.penalty = penalty
        self.alpha = alpha
        self.depth_weight = depth_weight
        self.tol = tol
        self.max_iter = max_iter
        self.checkpoint = checkpoint
        self.padding = padding
        self.classes = classes

    def _log_linear(self):
        """The convex problem of "active_set"."""
        return StructuredLogLinearLM(
            penalty=self.penalty, lam=self.lam, tol=self.tol, max_iter=self.max_iter,
            alpha=1.0 if self.alpha is None else self.alpha,
            depth_weight=1.0 if self.depth_weight is None else self.depth_weight,
            checkpoint=self.checkpoint,
        )  # fmt: skip

    def __sklstruct_resumable__(self) -> bool:
        """Whether a fit has a state that `checkpoint` can keep."""
        return self.growth == "active_set"

    def _check_params(self):
        super()._check_params()
        if self.growth == "active_set":
            if not 0.0 < self.lam < np.inf:
                raise ValueError(
                    "lam must be finite and above 0 with growth='active_set', got "
                    f"{self.lam!r}"
                )
            self._log_linear()._check_params()
        elif self.checkpoint is not None:
            raise ValueError(
                "checkpoint: growth='greedy' is one pass over the counts, which has no "
                "state to go on from; set checkpoint=None, or growth='active_set'"
            )

    partial_fit = available_if(_is_online)(BackoffClassifier.partial_fit)

    @property
    def keeps_positions(self) -> bool:
        return self.growth == "active_set"

    def _fit_counted(self, counted: Counted, overwrite: bool) -> Fitted:
        if self.growth == "greedy":
            return self._take_greedily(counted)
        if counted.positions is not None:
            return self._grow(counted, counted.positions)
        pairs, count = counted.trie()
        tree = pairs.tree
        fitted = self._grow(counted, Positions.of_counts(pairs, count))
        node = fitted.pairs.tree.find_windows(tree.windows())
        same = fitted.pairs.tree.levels()[node] == tree.levels()
        return fitted._replace(place=np.where(same, node, -1).astype(np.int32))

    def _grow(self, counted, samples):
        """Fit by an active set."""
        n_symbols = counted.pairs.tree.n_symbols
        grown = grow(self._log_linear(), samples, n_symbols, counted.labels.n_classes)
        result, pairs = grown.result, grown.pairs
        if result.status == "max_iter":
            warn(
                f"the last round stopped at max_iter={self.max_iter} with an "
                f"optimality residual of {result.optimality:.2g}, not within tol. "
                "Increase max_iter or tol",
                ConvergenceWarning,
                stacklevel=4,
            )
        keep = result.w != 0.0
        keep[: pairs.n_classes] = True
        smaller, kept = pairs.select(keep)
        index = selected_nodes(pairs, keep)
        log_prob, log_backoff = grown.loss.backoff(result.w)
        model = BackoffModel(
            smaller, log_prob[kept], log_backoff[index >= 0], counted.labels
        )
        model, place = add_prefixes(model)
        self.coef_ = np.zeros(model.n_pairs)
        self.coef_[place] = result.w[kept]
        self.objective_ = grown.objective
        self.optimality_ = result.optimality
        self.n_iter_ = grown.n_iter
        self.n_grown_ = smaller.n_pairs - pairs.n_classes
        self.n_pairs_built_ = grown.n_pairs_built
        self.n_nodes_built_ = grown.n_nodes_built
        return Fitted(model.pairs, model.log_prob, model.log_backoff)

    def _take_greedily(self, counted):
        pairs, count = counted.trie()
        tree, n_classes = pairs.tree, pairs.n_classes
        proba = np.empty(pairs.n_pairs)
        proba[:n_classes] = self._unigrams(count[:n_classes])
        keep = np.zeros(pairs.n_pairs, dtype=bool)
        keep[:n_classes] = True
        left = np.ones(tree.n_nodes)

        # The pair "h" of each context h, -1 where its newest symbol is no class.
        ahead = next_contexts(pairs, counted.labels)
        prefix = np.full(tree.n_nodes, -1, dtype=np.int64)
        known = np.flatnonzero(ahead >= 0)
        prefix[ahead[known]] = known
        node, total = pairs.nodes(), pairs.node_sums(count)
        seen = count[:n_classes] > 0
        objective = [-float(count[:n_classes][seen] @ np.log(proba[:n_classes][seen]))]
        for k in range(1, tree.n_levels):
            here = np.arange(pairs.level(k).start, pairs.level(k).stop)
            up = pairs.parent[here]
            before = prefix[node[here]]
            here = here[keep[up] & ((before < 0) | keep[before])]
            c, low = count[here], proba[pairs.parent[here]]
            taken, share, rest, gain = self._take(
                node[here], c, total[node[here]], low, tree.n_nodes
            )
            proba[here] = share
            keep[here[taken]] = True
            left = np.where(rest < 1, rest, left)
            objective.append(objective[-1] - gain)
        self.objective_ = np.array(objective)

        smaller, kept = pairs.select(keep)
        index = selected_nodes(pairs, keep)
        with np.errstate(divide="ignore"):
            log_left = np.log(left[index >= 0])
        model = renormalize(smaller, np.log(proba[kept]), log_left, counted.labels)
        self.n_grown_ = smaller.n_pairs - n_classes
        self.n_pairs_built_, self.n_nodes_built_ = pairs.n_pairs, tree.n_nodes
        self.n_iter_ = 1
        return Fitted(model.pairs, model.log_prob, model.log_backoff, index)

    def _unigrams(self, count):
        base = base_distribution(self.base, count, self.classes_)
        if not isinstance(self.base, str):
            return base
        delta = self.discount or (0.5 if (count == 0).any() else 0.0)
        off = delta * np.minimum(count, 1.0)
        return (count - off) / count.sum() + off.sum() / count.sum() * base

    def _take(self, node, count, total, low, n_nodes):
        """(which pairs, their probability, what each node leaves, the gain).

        Greedy in each node, largest counts first; all nodes at once, one rank after
        the other.
        """
        share = (count - self.discount * np.minimum(count, 1.0)) / total
        order = np.lexsort((-count, node))
        first = np.ones(order.size, dtype=bool)
        first[1:] = node[order][1:] != node[order][:-1]
        start = np.flatnonzero(first)
        size = np.diff(np.append(start, order.size))
        rank = np.arange(order.size) - np.repeat(start, size)
        by_rank = order[np.argsort(rank, kind="stable")]
        stop = np.cumsum(np.bincount(rank)) if rank.size else np.empty(0, np.int64)
        taken = np.zeros(node.size, dtype=bool)
        mass, parent_mass = np.ones(n_nodes), np.ones(n_nodes)
        other = np.zeros(n_nodes)
        other[node] = total
        all_gain, begin = 0.0, 0
        for end in stop.tolist():
            p = by_rank[begin:end]  # at most one pair a node
            begin = end
            n = node[p]
            r, s, rest = mass[n], parent_mass[n], other[n]
            r_new, s_new, rest_new = r - share[p], s - low[p], rest - count[p]
            possible = (s_new > _LEAST_MASS) & (share[p] > 0)
            with np.errstate(divide="ignore", invalid="ignore"):
                after = np.where(
                    rest_new > 0, rest_new * (np.log(r_new) - np.log(s_new)), 0.0
                )
                gain = count[p] * (np.log(share[p]) - np.log(low[p])) + after
                gain -= rest * (np.log(r) - np.log(s))
                take = possible & (gain > self.lam)
            p, n = p[take], n[take]
            taken[p] = True
            mass[n] = np.maximum(r_new[take], 0.0)
            parent_mass[n] = s_new[take]
            other[n] = rest_new[take]
            all_gain += float((gain[take] - self.lam).sum())
        return taken, share, mass, all_gain
