"""The fitted state of every language model: pairs, two arrays and labels."""

from __future__ import annotations

import itertools
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .._checks import (
    as_floats,
    as_ids,
    check_count,
    check_ids,
    check_length,
    check_real,
)
from .._description import Description
from .._files import MappedFile
from .._lazy import stored
from ..context_tree import ContextTree, Pairs, pairs_of_arrays
from ..context_tree._links import drop_newest
from ..symbols import Labels, check_sizes
from . import _backoff_fast
from ._core_fast import Model
from ._distribution import Distribution, class_ids
from ._order import by_last, order_pays
from ._trees_fast import Backoff, Path

# A probability that is computed as a sum may exceed 1 by rounding.
_MAX_LOG_PROB = 1e-6


class Fitted(NamedTuple):
    """The numbers of a fitted model."""

    pairs: Pairs  # over a trie
    log_prob: np.ndarray  # (n_pairs,)
    log_backoff: np.ndarray  # (n_nodes,)
    # (n_nodes counted,) int32: the model's node for each counted node, -1 if removed;
    # None: the nodes are the same.
    new_index: np.ndarray | None = None
    zero_weight: np.ndarray | None = None  # as in `BackoffModel`


def check_model(model: object, name: str = "model") -> None:
    """TypeError unless it is a `BackoffModel`."""
    if not isinstance(model, BackoffModel):
        raise TypeError(
            f"{name} must be a BackoffModel, got {type(model).__name__}; a fitted "
            "LanguageModel has one as backoff_model_"
        )


class BackoffModel(Distribution):
    r"""Back-off model over a context tree, queried by compiled kernels.

    .. math::
        \log P(y \mid n) = \mathtt{log\_prob}(a, y) +
        \sum_{b \text{ on the path from } n \text{ up to, without, } a}
        \mathtt{log\_backoff}(b)

    where :math:`n` is the deepest known node of the context and :math:`a` the
    nearest of :math:`n` and its ancestors that has a pair for :math:`y`. The root
    has a pair for every class. Every smoothed n-gram model and every log-linear
    model over the contexts of a tree has exactly this form, which is also the form
    of an ARPA file.

    Parameters
    ----------
    pairs : Pairs
        The pairs (context, class) of the probabilities, over a trie.

    log_prob : array-like of shape (n_pairs,)
        Natural logarithm of P(target | node); ``-inf`` is a probability of 0.

    log_backoff : array-like of shape (n_nodes,)
        Natural logarithm of each node's back-off weight, finite or ``-inf``; 0 for the
        root: ``log_backoff[0] = 0``.

    labels : Labels, default=None
        The meaning of the ids. None: classes are their ids, and contexts are given as
        ids.

    Attributes
    ----------
    pairs : Pairs
        As given, shared.

    tree : ContextTree
        The contexts, ``pairs.tree``.

    log_prob, log_backoff : ndarray
        As given, float64. Do not change these arrays: the model caches tables that
        depend on them.

    labels : Labels
        As given.

    node_weight : ndarray of shape (n_nodes,) or None
        Weight of the training samples at each node, for the gates of mixtures. None:
        not known.

    mapped_file : MappedFile or None
        The native file that the model reads. A pickle holds the path instead of the
        numbers, as long as the file is unchanged.

    file_ngrams : (ndarray, ndarray) or None
        Nodes h, in rising order, and the natural log-probabilities of the n-grams "h
        <s>" of the file from which the model was read. The start mark is never
        predicted, so rows do not contain these numbers; they are written to files
        again. None: the model was not read from a file.

    zero_weight : ndarray of shape (n_pairs,), bool, or None
        The pairs of weight 0 in a log-linear model. A file does not contain such a pair
        if backing off gives the same probability and no longer n-gram needs the pair.
        None: not known.

    n_nodes, n_pairs, n_classes, n_symbols, max_depth, order : int
        Sizes; ``max_depth`` is the length of the longest context, ``order`` of the
        longest n-gram.

    See Also
    --------
    sklstruct.language_model.LanguageModel : Perplexity, samples, files of a model.

    Notes
    -----
    A :class:`Distribution` whose `locate` returns nodes. Only :meth:`check_normalized`
    checks that rows sum to 1. The compiled queries release the GIL.

    References
    ----------
    S. M. Katz, "Estimation of probabilities from sparse data for the language model
    component of a speech recognizer", IEEE TASSP 35(3), 1987 (the back-off form).

    Examples
    --------
    Classes "a", "b"; one context, "a", after which "b" has probability 0.9.

    >>> import numpy as np
    >>> from sklstruct.backoff import BackoffModel
    >>> from sklstruct.context_tree import ContextTree, Pairs
    >>> from sklstruct.symbols import Labels
    >>> tree = ContextTree(parent=[-1, 0], symbol=[-1, 0], n_symbols=2)
    >>> model = BackoffModel(
    ...     Pairs(tree, ptr=[0, 2, 3], target=[0, 1, 1]),
    ...     log_prob=np.log([0.4, 0.6, 0.9]), log_backoff=np.log([1, 0.1 / 0.4]),
    ...     labels=Labels(["a", "b"], ["a", "b"]),
    ... )
    >>> model
    BackoffModel(order=2, n_nodes=2, n_pairs=3, n_classes=2, n_symbols=2)
    >>> nodes = model.locate(model.labels.encode_contexts([["b", "a"], ["a", "b"]]))
    >>> np.exp(model.rows(nodes)).round(6)
    array([[0.1, 0.9],
           [0.4, 0.6]])
    >>> round(model.check_normalized(), 9)
    0.0
    """

    def __init__(
        self,
        pairs: Pairs,
        log_prob: ArrayLike,
        log_backoff: ArrayLike,
        labels: Labels | None = None,
    ):
        if not isinstance(pairs, Pairs):
            raise TypeError(f"pairs must be Pairs, got {type(pairs).__name__}")
        pairs.tree.check_trie("a BackoffModel")
        self.pairs = pairs
        self.log_prob = as_floats("log_prob", log_prob)
        self.log_backoff = as_floats("log_backoff", log_backoff)
        self.n_nodes, self.n_symbols = pairs.tree.n_nodes, pairs.tree.n_symbols
        self.n_pairs, self.n_classes = pairs.n_pairs, pairs.n_classes
        self.max_depth = pairs.tree.n_levels - 1
        self.order = self.max_depth + 1
        self.gate_depths = (self.max_depth,)
        self.node_weight: NDArray | None = None
        self.file_ngrams: tuple[NDArray, NDArray] | None = None
        self.mapped_file: MappedFile | None = None
        self.zero_weight: NDArray | None = None
        check_length("log_prob", self.log_prob, self.n_pairs, "one per pair")
        check_length("log_backoff", self.log_backoff, self.n_nodes, "one per node")
        # Test the maximum first, which needs no memory and is NaN if an entry is NaN.
        if not self.log_prob.max() <= _MAX_LOG_PROB:
            i = int(np.argmin(self.log_prob <= _MAX_LOG_PROB))
            raise ValueError(
                f"log_prob[{i}] = {self.log_prob[i]}: natural log-probabilities must "
                "be at most 0 and not NaN"
            )
        if not self.log_backoff.max() < np.inf:
            i = int(np.argmin(self.log_backoff < np.inf))
            raise ValueError(
                f"log_backoff[{i}] = {self.log_backoff[i]}: back-off weights must be "
                "finite, or -inf for a weight of 0"
            )
        if self.log_backoff[0] != 0:
            raise ValueError("log_backoff[0] must be 0: the root backs off to nothing")
        self.labels = Labels.of_ids(self.n_classes) if labels is None else labels
        if not isinstance(self.labels, Labels):
            raise TypeError(f"labels must be Labels, got {type(labels).__name__}")
        check_sizes(self.labels, self.n_classes, self.n_symbols)

    def relabel(self, labels: Labels, tree: ContextTree | None = None) -> BackoffModel:
        """The same model with other labels.

        Parameters
        ----------
        labels : Labels
            Labels with as many classes as the model, in the order of the class ids.

        tree : ContextTree, default=None
            A tree of the same shape, with ids of `labels` as symbols. None: the ids of
            the symbols stay.

        Returns
        -------
        model : BackoffModel
            A model that shares the arrays of this model.
        """
        pairs = self.pairs
        if tree is not None:
            pairs = pairs_of_arrays(tree, pairs.ptr, pairs.target)
        model = BackoffModel(pairs, self.log_prob, self.log_backoff, labels)
        # Assign the arrays themselves, which may be memory-mapped.
        model.log_prob, model.log_backoff = self.log_prob, self.log_backoff
        model.node_weight = self.node_weight
        model.file_ngrams, model.zero_weight = self.file_ngrams, self.zero_weight
        return model

    @property
    def tree(self) -> ContextTree:
        """The contexts."""
        return self.pairs.tree

    # --------------------------------------------------------- derived tables

    @cached_property
    def _root_prob(self) -> NDArray:
        return np.exp(self.log_prob[: self.n_classes])

    @cached_property
    def row_sums(self) -> NDArray:
        """(n_nodes,) sum of P(y | n) over all classes, in O(pairs).

        Exact to about 1e-16 * (1 + bow(n)), with bow(n) the back-off weight of the row.
        """
        out = np.empty(self.n_nodes)
        _backoff_fast.row_sums(
            self.tree.parent, self.pairs.ptr, self.pairs.target, self.log_prob,
            self.log_backoff, out,
        )  # fmt: skip
        return out

    @cached_property
    def has_states(self) -> bool:
        """True if the node of a history determines the node of each continuation."""
        return not (drop_newest(self.tree)[1:] < 0).any()

    def _twin(self) -> BackoffModel:
        """A model of the same arrays, for a compiled model that this model caches: a
        reference cycle would delay freeing the arrays."""
        twin = object.__new__(type(self))
        vars(twin).update(vars(self), _root_prob=self._root_prob)
        return twin

    @cached_property
    def of_nodes(self) -> Backoff:
        """The compiled model whose contexts are nodes."""
        return Backoff(self._twin())

    @cached_property
    def of_symbols(self) -> Backoff:
        """The compiled model whose contexts are symbols."""
        return Backoff(self._twin(), Path(self.max_depth, self.n_symbols))

    def compiled(self, source: Any) -> Model:
        """As `Distribution.compiled`; contexts may also be read along a `Path`."""
        if isinstance(source, np.ndarray):
            windows = source.astype(np.int32, copy=False)
            source = Path(self.max_depth, self.n_symbols, windows=windows)
        if isinstance(source, Path):
            return Backoff(self, source)
        return super().compiled(source)

    def as_tokens(self, at: ArrayLike) -> tuple[Model, NDArray, NDArray]:
        """As `Distribution.as_tokens`."""
        nodes = self._check_nodes(at)
        return self.of_nodes, nodes, np.arange(1, len(nodes) + 1)

    def _check_nodes(self, at, name="at"):
        nodes = as_ids(name, at, 1)
        check_ids(name, nodes, 0, self.n_nodes, "node id")
        return nodes

    # ----------------------------------------------------------------- queries

    def locate(self, contexts: ArrayLike) -> NDArray:
        """Deepest known node of each context.

        Parameters
        ----------
        contexts : array-like of shape (n_samples, width), integers
            Symbol ids, last column the most recent (``labels.encode_contexts`` makes
            them). -1 is a missing or unknown symbol and ends the history.

        Returns
        -------
        nodes : ndarray of shape (n_samples,), int32
            0, the root, if not even the most recent symbol is a known context.

        Raises
        ------
        ValueError
            If `contexts` does not hold integers in -1..n_symbols-1.
        """
        array = np.asarray(contexts)
        if (
            array.ndim != 2
            or array.shape[1] < 2
            or array.dtype.kind not in "iu"
            or not order_pays(len(array), self.n_nodes)
        ):
            return self.tree.find_windows(array)
        rows, nodes = by_last(*array.T[:-3:-1]), np.empty(len(array), dtype=np.int32)
        nodes[rows] = self.tree.find_windows(array[rows])
        return nodes

    def target(self, at: Any, y: NDArray) -> NDArray:
        """As `Distribution.target`."""
        nodes, ids = self._check_nodes(at), class_ids(y, self.n_classes)
        check_length("y", ids, len(nodes), "one per context")
        return self.of_nodes.scores(nodes, ids)

    def depth(self, nodes: ArrayLike) -> np.ndarray:
        """Depth (length of the context) of each node.

        Parameters
        ----------
        nodes : array-like of shape (n_samples,)
            Node ids.

        Returns
        -------
        depth : ndarray of shape (n_samples,), int32
            0 for the root.
        """
        nodes, level_ptr = self._check_nodes(nodes, "nodes"), self.tree.level_ptr
        return np.searchsorted(level_ptr, nodes, side="right").astype(np.int32) - 1

    # ------------------------------------------------------------------ cursor

    def begin(self, n: int = 1) -> np.ndarray:
        """States at the beginning of n sequences.

        A state is the node of the longest known context of a history.

        Parameters
        ----------
        n : int, default=1
            Number of states, at least 0.

        Returns
        -------
        states : ndarray of shape (n,), int32
            After the start mark, if `labels` has one.

        Raises
        ------
        ValueError
            If n is not an integer of at least 0, or the tree has a context without its
            beginning (``"a b"`` without ``"a"``): the node of a history then does not
            determine the nodes of its continuations. Use :meth:`locate` on windows.
        """
        n = check_count("n", n, 0)
        if not self.has_states:
            node = int(np.argmax(drop_newest(self.tree)[1:] < 0)) + 1
            raise ValueError(
                f"node {node} is a context whose beginning, without the newest symbol, "
                "is not in the tree, so a node is not a state; use locate on windows "
                "of symbols"
            )
        node = 0
        if self.labels.start is not None and self.labels.start_id >= 0:
            node = max(int(self.tree.root_child[self.labels.start_id]), 0)
        return np.full(n, node, dtype=np.int32)

    def follow(self, states: ArrayLike, symbols: ArrayLike) -> NDArray:
        """States after one more context symbol each.

        Parameters
        ----------
        states : array-like of shape (n,)
            From :meth:`begin` or an earlier step.

        symbols : array-like of shape (n,)
            Symbol ids; -1 leads to the root.

        Returns
        -------
        states : ndarray of shape (n,), int32
            Nodes of the longest known contexts.

        Raises
        ------
        ValueError
            If an id is out of range.
        """
        nodes = self._check_nodes(states, "states")
        ids = as_ids("symbols", symbols, 1)
        check_length("symbols", ids, len(nodes), "one per state")
        check_ids("symbols", ids, -1, max(self.n_symbols, 1), "symbol id")
        return self.of_nodes.follow(nodes, ids)

    # -------------------------------------------------------------- evaluation

    def check_normalized(self, tol: float = 1e-9) -> float:
        """Largest deviation of a row's sum from 1; an error if it is above `tol`.

        Parameters
        ----------
        tol : float, default=1e-9
            At least 0; ``inf`` returns the deviation without an error.

        Returns
        -------
        deviation : float
            At least 0.

        Raises
        ------
        ValueError
            If the row of a node deviates by more than `tol`; the message names the
            worst node.
        """
        check_real("tol", tol, "[0, inf]")
        deviation = np.abs(self.row_sums - 1)
        deviation[np.isnan(deviation)] = np.inf
        worst = int(np.argmax(deviation))
        largest = float(deviation[worst])
        if largest > tol:
            raise ValueError(
                f"the model is not normalised: the probabilities at node {worst} "
                f"(depth {self.depth([worst])[0]}) sum to {self.row_sums[worst]!r}, a "
                f"deviation of {largest:.3g} > tol={tol:g}"
            )
        return largest

    # ------------------------------------------------------------ object model

    def describe(self) -> Description:
        """Order, numbers of n-grams, marks and size, by name.

        Returns
        -------
        description : dict
            ``order``; ``n_words``, the number of classes; ``n_1_grams`` and so on;
            ``start``, ``end`` and ``unknown``, the marks, or None;
            ``bytes``, the size of the arrays. ``print`` writes an entry per line.

        Examples
        --------
        >>> from sklstruct import KneserNeyLM, LanguageModel
        >>> text = ["the cat sat", "the dog sat"]
        >>> lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=1).fit(text)
        >>> description = lm.backoff_model_.describe()
        >>> description["order"], description["n_2_grams"]
        (2, 6)
        """
        levels, ptr = self.tree.level_ptr, self.pairs.ptr
        size = self.log_prob.nbytes + self.log_backoff.nbytes
        return Description(
            order=self.order,
            n_words=self.n_classes,
            **{
                f"n_{k}_grams": int(ptr[stop] - ptr[start])
                for k, (start, stop) in enumerate(itertools.pairwise(levels), 1)
            },
            **self.labels.settings,
            bytes=size + self.pairs.__sizeof__(),
        )

    def _repr_html_(self):
        return self.describe()._repr_html_()

    def __repr__(self):
        return (
            f"{type(self).__name__}(order={self.order}, n_nodes={self.n_nodes}, "
            f"n_pairs={self.n_pairs}, n_classes={self.n_classes}, "
            f"n_symbols={self.n_symbols})"
        )

    def __sklearn_clone__(self):
        # The model is immutable, so clones of an estimator with this parameter share
        # it.
        return self

    def __eq__(self, other):
        if not isinstance(other, BackoffModel):
            return NotImplemented
        return (
            np.array_equal(self.log_prob, other.log_prob)
            and np.array_equal(self.log_backoff, other.log_backoff)
            and self.pairs == other.pairs
            and self.labels == other.labels
        )

    __hash__ = None  # type: ignore[assignment]  # as Python does it

    def __reduce_ex__(self, protocol):
        if self.mapped_file is not None and self.mapped_file.is_unchanged():
            return MappedFile.reopen, (self.mapped_file,)
        return super().__reduce_ex__(protocol)

    def __getstate__(self):
        state = stored(self)
        return {k: v for k, v in state.items() if k not in ("mapped_file", "predictor")}

    def __setstate__(self, state: dict) -> None:
        """Take a pickled model; ValueError if its arrays do not fit each other."""
        parts = (state[k] for k in ("pairs", "log_prob", "log_backoff", "labels"))
        BackoffModel.__init__(self, *parts)
        self.__dict__.update(state)
