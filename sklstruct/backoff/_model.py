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
    check_rows,
    check_top_k,
)
from .._description import Description
from .._lazy import stored
from ..context_tree import ContextTree, Pairs, pairs_of_arrays
from ..context_tree._links import drop_newest
from ..symbols import Labels
from . import _backoff_fast
from ._core_fast import Backoff, Model, Path
from ._distribution import Distribution

# A probability computed as a sum may pass 1 by rounding.
_MAX_LOG_PROB = 1e-6


class Fitted(NamedTuple):
    """The numbers of a fitted model."""

    pairs: Pairs  # over a trie
    log_prob: np.ndarray  # (n_pairs,)
    log_backoff: np.ndarray  # (n_nodes,)
    # (n_nodes counted,) int32: the model's node for each counted node, -1 for none;
    # None: the nodes are the same.
    place: np.ndarray | None = None
    zero_weight: np.ndarray | None = None  # as of `BackoffModel`


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
        The slots of the probabilities, over a trie.

    log_prob : array-like of shape (n_pairs,)
        Natural logarithm of P(target | node); ``-inf`` is a probability of 0.

    log_backoff : array-like of shape (n_nodes,)
        Natural logarithm of each node's back-off weight, finite or ``-inf``;
        that of the root is 0: ``log_backoff[0] = 0``.

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
        As given, float64. Do not change them: the model keeps tables derived from
        them.

    labels : Labels
        As given.

    node_weight : ndarray of shape (n_nodes,) or None
        Weight of the training samples at each node, for the gates of mixtures. None,
        until it is set: not known.

    file_ngrams : (ndarray, ndarray) or None
        Nodes h, rising, and the natural log-probabilities of the n-grams "h <s>" of the
        file that the model was read from. The start mark is never predicted, so no row
        has these numbers; files that are written have them too. None: the model was not
        read from a file.

    zero_weight : ndarray of shape (n_pairs,), bool, or None
        The pairs of weight 0 in a log-linear model, whose probability is that of
        backing off; files leave them out. None, until it is set: not known.

    n_nodes, n_pairs, n_classes, n_symbols, max_depth, order : int
        Sizes; ``max_depth`` is the length of the longest context, ``order`` of the
        longest n-gram.

    See Also
    --------
    sklstruct.language_model.LanguageModel : Perplexity, samples, files of a model.

    Notes
    -----
    A :class:`Distribution` whose `locate` gives nodes. The constructor does not check
    that rows sum to 1; :meth:`check_normalized` does. The compiled queries release the
    GIL.

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
    >>> model.check_normalized() < 1e-12
    True
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
        check_length("log_prob", self.log_prob, pairs.n_pairs, "one per pair")
        check_length("log_backoff", self.log_backoff, self.n_nodes, "one per node")
        # Extrema first, which are NaN where one entry is, and need no memory.
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
        self._set_labels(Labels.of_ids(pairs.n_classes) if labels is None else labels)

    def _set_labels(self, labels):
        if not isinstance(labels, Labels):
            raise TypeError(f"labels must be Labels, got {type(labels).__name__}")
        self.n_classes = self.pairs.n_classes
        self.fact_depths = (self.max_depth,)
        self.node_weight: NDArray | None = None
        self.file_ngrams: tuple[NDArray, NDArray] | None = None
        self.zero_weight: NDArray | None = None
        labels.check_sizes(self.n_classes, self.n_symbols)
        self.labels = labels

    def relabel(self, labels: Labels) -> BackoffModel:
        """The same model under other names.

        Parameters
        ----------
        labels : Labels
            As many classes and symbols as this model has, in the order of their ids.

        Returns
        -------
        model : BackoffModel
            Shares pairs, tree and numbers with this one.
        """
        model = BackoffModel.__new__(type(self))
        model.pairs = self.pairs
        model.log_prob, model.log_backoff = self.log_prob, self.log_backoff
        model._set_labels(labels)
        model.node_weight = self.node_weight
        model.file_ngrams, model.zero_weight = self.file_ngrams, self.zero_weight
        return model

    def renamed(
        self, tree: ContextTree, symbols: NDArray, labels: Labels
    ) -> BackoffModel:
        """The same model with other ids of context symbols.

        Parameters
        ----------
        tree : ContextTree
            The tree of this model, or one of the same shape with other symbols.

        symbols : int ndarray of shape (n_symbols of tree,)
            The id in `labels` of each symbol of `tree`, in rising order.

        labels : Labels
            Of the model that is returned; as many classes as this one has.

        Returns
        -------
        model : BackoffModel
            Shares its numbers with this one.
        """
        symbol = tree.symbol.copy()
        symbol[1:] = symbols[symbol[1:]]
        check_ids("symbols", symbol[1:], 0, labels.n_symbols or 0, "symbol of labels")
        tree = ContextTree(tree.parent, symbol, labels.n_symbols or 0)
        pairs = pairs_of_arrays(tree, self.pairs.ptr, self.pairs.target)
        model = BackoffModel(pairs, self.log_prob, self.log_backoff, labels)
        model.file_ngrams, model.zero_weight = self.file_ngrams, self.zero_weight
        return model

    # ------------------------------------------------------------------ sizes

    @property
    def tree(self) -> ContextTree:
        """The contexts."""
        return self.pairs.tree

    @property
    def n_nodes(self) -> int:
        """Number of contexts, the empty one included."""
        return self.tree.n_nodes

    @property
    def n_pairs(self) -> int:
        """Number of explicit probabilities."""
        return self.pairs.n_pairs

    @property
    def n_symbols(self) -> int:
        """Number of context symbols."""
        return self.tree.n_symbols

    @property
    def max_depth(self) -> int:
        """Length of the longest context."""
        return self.tree.n_levels - 1

    @property
    def order(self) -> int:
        """Length of the longest n-gram: ``max_depth + 1``."""
        return self.max_depth + 1

    # --------------------------------------------------------- derived tables

    @cached_property
    def _root_order(self) -> NDArray:
        first = self.log_prob[: self.n_classes]
        return np.argsort(-first, kind="stable").astype(np.int32)

    @cached_property
    def _root_prob(self) -> NDArray:
        return np.exp(self.log_prob[: self.n_classes])

    @cached_property
    def _row_sums(self) -> NDArray:
        out = np.empty(self.n_nodes)
        _backoff_fast.row_sums(
            self.tree.parent, self.pairs.ptr, self.pairs.target, self.log_prob,
            self.log_backoff, out,
        )  # fmt: skip
        return out

    @cached_property
    def _gap(self) -> int:
        """The first context whose beginning is not a context, or -1."""
        gap = np.flatnonzero(drop_newest(self.tree) < 0)
        gap = gap[gap > 0]
        return int(gap[0]) if gap.size else -1

    @cached_property
    def of_nodes(self) -> Backoff:
        """The compiled model whose contexts are nodes."""
        return Backoff(self)

    @cached_property
    def of_tokens(self) -> Backoff:
        """The compiled model whose contexts are tokens of `labels`."""
        return self.compiled(Path(self.max_depth, self.n_symbols))

    def compiled(self, source: Any) -> Model:
        """As `Distribution.compiled`; contexts may also be read along a `Path`."""
        if isinstance(source, np.ndarray):
            windows = source.astype(np.int32, copy=False)
            source = Path(self.max_depth, self.n_symbols, windows=windows)
        return (
            Backoff(self, source)
            if isinstance(source, Path)
            else super().compiled(source)
        )

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
            0, the root, where not even the most recent symbol is a known context.

        Raises
        ------
        ValueError
            If `contexts` does not hold integers in -1..n_symbols-1.
        """
        return self.tree.find_windows(contexts)

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
        return self._depth(self._check_nodes(nodes, "nodes"))

    def _depth(self, nodes):
        return (np.searchsorted(self.tree.level_ptr, nodes, side="right") - 1).astype(
            np.int32
        )

    def target(
        self,
        at: ArrayLike,
        y: ArrayLike,
        *,
        unknown_log_prob: float | None = None,
    ) -> NDArray:
        """Natural log-probability of each target after its context.

        Parameters
        ----------
        at : array-like of shape (n_samples,)
            Node ids, from :meth:`locate`.

        y : array-like of shape (n_samples,)
            Class ids (``labels.encode_targets`` makes them); -1 is an unknown class.

        unknown_log_prob : float, default=None
            Natural log-probability of an unknown class at the root; the back-off
            weights of the context are added to it. ``-inf``: impossible.
            ``-100 * log(10)`` is what KenLM does for a file without ``<unk>``.
            None: an unknown class is an error.

        Returns
        -------
        log_prob : ndarray of shape (n_samples,), float64
            Natural logarithms.

        Raises
        ------
        ValueError
            If a node or a class is out of range, or a class is -1 while
            `unknown_log_prob` is None.
        """
        return self._target(at, y, unknown_log_prob)

    def target_depth(
        self, at: ArrayLike, y: ArrayLike, *, unknown_log_prob: float | None = None
    ) -> tuple[NDArray, NDArray]:
        """:meth:`target`, and the depth of the node that held each pair.

        Parameters
        ----------
        at, y : array-like of shape (n_samples,), int
            As in :meth:`target`.

        unknown_log_prob : float, default=None
            As in :meth:`target`.

        Returns
        -------
        log_prob : ndarray of shape (n_samples,), float64
            Natural logarithms.

        depth : ndarray of shape (n_samples,), int32
            0 for an unknown class.
        """
        depth = np.empty(len(np.asarray(at)), dtype=np.int32)
        return self._target(at, y, unknown_log_prob, depth), depth

    def _target(self, at, y, unknown_log_prob, depth=None):
        model, nodes, ends = self.as_tokens(at)
        targets = as_ids("y", y, 1)
        check_length("y", targets, len(nodes), "one per node")
        unknown = self._check_unknown(unknown_log_prob)
        if unknown_log_prob is None and targets.size and targets.min() == -1:
            i = int(np.flatnonzero(targets == -1)[0])
            raise ValueError(
                f"y[{i}] = -1, an unknown class, and the model has no class for "
                "unknown symbols. Leave such samples out, or give them a probability "
                "with unknown_log_prob"
            )
        check_ids("y", targets, -1, self.n_classes, "class id")
        out = model.targets(nodes, ends, targets, depth)
        if unknown_log_prob is not None:
            out[targets < 0] += unknown
        return out

    @staticmethod
    def _check_unknown(unknown_log_prob):
        value = 0.0 if unknown_log_prob is None else float(unknown_log_prob)
        if not value <= 0:
            raise ValueError(
                f"unknown_log_prob must be a natural log-probability (at most 0), got "
                f"{unknown_log_prob!r}"
            )
        return value

    def score_tokens(
        self, tokens: ArrayLike, *, unknown_log_prob: float | None = None
    ) -> NDArray:
        """Natural log-probability of every token of a text given the ones before it.

        The fast path for running text: no windows are copied.

        Parameters
        ----------
        tokens : array-like of shape (n_tokens,)
            Tokens of `labels`. A negative one is a separator; it and tokens that are
            not context symbols (such as an end mark) end the history of what follows.

        unknown_log_prob : float, default=None
            As in :meth:`target`; the token ``labels.n_tokens`` is an unknown word.

        Returns
        -------
        log_prob : ndarray of shape (n_tokens,), float64
            0 where a token is not predicted (separators, start marks).

        Raises
        ------
        ValueError
            If a token is out of range, or unknown while `unknown_log_prob` is None.

        Examples
        --------
        >>> import numpy as np
        >>> from sklstruct.backoff import BackoffModel
        >>> from sklstruct.context_tree import ContextTree, Pairs
        >>> from sklstruct.symbols import Labels
        >>> pairs = Pairs(ContextTree([-1, 0], [-1, 0], 2), [0, 2, 3], [0, 1, 1])
        >>> model = BackoffModel(
        ...     pairs, np.log([0.4, 0.6, 0.9]), np.log([1, 0.25]),
        ...     Labels.of_ids(2, n_symbols=2))
        >>> np.exp(model.score_tokens([0, 1, -1, 1])).round(6)
        array([0.4, 0.9, 1. , 0.6])
        """
        return self.score_tokens_depth(tokens, unknown_log_prob=unknown_log_prob)[0]

    def score_tokens_depth(
        self, tokens: ArrayLike, *, unknown_log_prob: float | None = None
    ) -> tuple[NDArray, NDArray]:
        """:meth:`score_tokens`, and the depth of the node that held each pair.

        Parameters
        ----------
        tokens : array-like of shape (n_tokens,), int
            As in :meth:`score_tokens`.

        unknown_log_prob : float, default=None
            As in :meth:`score_tokens`.

        Returns
        -------
        log_prob : ndarray of shape (n_tokens,), float64
            Natural logarithms.

        depth : ndarray of shape (n_tokens,), int32
            -1 where a token is not predicted, 0 for an unknown word.
        """
        tokens = as_ids("tokens", tokens, 1)
        class_of_token = self.labels.class_of_token
        check_ids("tokens", tokens, -(2**31), class_of_token.size, "token")
        unknown = self._check_unknown(unknown_log_prob)
        if unknown_log_prob is None:
            lost = np.flatnonzero(tokens == class_of_token.size - 1)
            if lost.size:
                raise ValueError(
                    f"tokens[{int(lost[0])}] is an unknown word. Give it a probability "
                    "with unknown_log_prob, or leave it out"
                )
        out = np.zeros(len(tokens))
        depth = np.full(len(tokens), -1, dtype=np.int32)
        # The class of a token that is not predicted is -1; -2 is an unknown class.
        y = np.where(tokens < 0, np.int32(-1), class_of_token[tokens])
        at = np.flatnonzero(y != -1)
        y, of_pair = y[at], np.empty(at.size, dtype=np.int32)
        out[at] = self.of_tokens.targets(tokens, at, y, of_pair)
        out[at[y < 0]] += unknown
        depth[at] = of_pair
        return out, depth

    def rows(self, at: ArrayLike, out: NDArray | None = None) -> NDArray:
        """Natural log-probabilities of all classes after each context.

        Parameters
        ----------
        at : array-like of shape (n_samples,)
            Node ids, from :meth:`locate`.

        out : ndarray of shape (n_samples, n_classes), float64, default=None
            C-contiguous array to write to.

        Returns
        -------
        log_prob : ndarray of shape (n_samples, n_classes)
            `out`, if given.

        Raises
        ------
        ValueError
            If a node is out of range or `out` does not fit.
        MemoryError
            If the machine cannot hold so many rows.
        """
        nodes = self._check_nodes(at)
        shape = (len(nodes), self.n_classes)
        if out is None:
            check_rows(*shape)
            out = np.empty(shape)
        elif not (
            isinstance(out, np.ndarray)
            and out.shape == shape
            and out.dtype == np.float64
            and out.flags.c_contiguous
            and out.flags.writeable
        ):
            raise ValueError(
                f"out must be a writeable C-contiguous float64 array of shape {shape}"
            )
        return self._ask(nodes, "rows", out)

    def best(self, at: ArrayLike, k: int = 1) -> tuple[NDArray, NDArray]:
        """The k most probable classes after each context.

        Parameters
        ----------
        at : array-like of shape (n_samples,)
            Node ids, from :meth:`locate`.

        k : int, default=1
            1..n_classes.

        Returns
        -------
        classes : ndarray of shape (n_samples, k), int32
            Class ids, most probable first; equal probabilities by class id.

        log_prob : ndarray of shape (n_samples, k), float64
            The same values as in :meth:`rows`.

        Raises
        ------
        ValueError
            If `k` or a node is out of range.
        """
        return self._ask(at, "best_of", check_top_k(k, self.n_classes))

    def draw(self, at: ArrayLike, uniform: ArrayLike, skip: int = -1) -> NDArray:
        """Draw a class from the row of each node, by inversion of a number in [0, 1).

        A row that does not sum to 1 is scaled.

        Parameters
        ----------
        at : array-like of shape (n_samples,)
            Node ids, from :meth:`locate`.

        uniform : array-like of shape (n_samples,)
            Numbers in [0, 1).

        skip : int, default=-1
            A class that is never drawn; the row of the others is scaled. -1: none.

        Returns
        -------
        classes : ndarray of shape (n_samples,), int32
            Class ids.

        Raises
        ------
        ValueError
            If a node is out of range, a number is not in [0, 1), or the row of a node
            (without `skip`) is 0 everywhere.
        """
        nodes = self._check_nodes(at)
        uniform = as_floats("uniform", uniform)
        check_length("uniform", uniform, len(nodes), "one per node")
        outside = np.flatnonzero(~((uniform >= 0.0) & (uniform < 1.0)))
        if outside.size:
            raise ValueError(
                f"uniform must hold numbers of at least 0 and below 1, got "
                f"uniform[{outside[0]}] = {uniform[outside[0]]}"
            )
        out = self._ask(nodes, "draws", uniform, skip)
        empty = np.flatnonzero(out < 0)
        if empty.size:
            node = int(nodes[empty[0]])
            mass, without = self._row_sums[node], ""
            if skip >= 0:
                mass -= np.exp(self.target([node], [skip])[0])
                without = f" without {self.labels.classes[skip]!r}"
            raise ValueError(
                f"node {node} cannot be drawn from: its probabilities{without} sum to "
                f"{mass}"
            )
        return out

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
            If n is not an integer of at least 0. If the tree has a context without its
            beginning (``"a b"`` without ``"a"``): the node of a history then does not
            determine those of its continuations. Use :meth:`locate` on windows.
        """
        n = check_count("n", n, 0)
        if not self.has_states:
            raise ValueError(
                f"node {self._gap} is a context whose beginning, "
                "without the newest symbol, is not in the tree, so a node is not a "
                "state; use locate on windows of symbols"
            )
        node = 0
        if self.labels.start is not None and self.labels.start_id >= 0:
            node = max(int(self.tree.root_child[self.labels.start_id]), 0)
        return np.full(n, node, dtype=np.int32)

    @property
    def has_states(self) -> bool:
        """True if the node of a history determines that of each continuation."""
        return self._gap < 0

    def advance(
        self,
        states: ArrayLike,
        y: ArrayLike,
        *,
        unknown_log_prob: float | None = None,
    ) -> tuple[NDArray, NDArray]:
        """Read one class after each state.

        Parameters
        ----------
        states : array-like of shape (n,)
            From :meth:`begin` or an earlier step.

        y : array-like of shape (n,)
            Class ids (``labels.encode_targets`` makes them); -1 is an unknown class.

        unknown_log_prob : float, default=None
            As in :meth:`target`.

        Returns
        -------
        log_prob : ndarray of shape (n,), float64
            Natural log-probability of each class.

        states : ndarray of shape (n,), int32
            The root after a class that is not a context symbol.

        Raises
        ------
        ValueError
            If an id is out of range, or a class is -1 while `unknown_log_prob` is
            None.
        """
        nodes = self._check_nodes(states, "states")
        ids = as_ids("y", y, 1)
        check_length("y", ids, len(nodes), "one per state")
        log_prob = self.target(nodes, ids, unknown_log_prob=unknown_log_prob)
        symbols = np.append(self.labels.symbol_of_class, np.int32(-1))[ids]
        return log_prob, self.follow(nodes, symbols)

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

    def row_sums(self) -> np.ndarray:
        """Sum of P(y | n) over all classes, for every node, in O(pairs).

        Returns
        -------
        sums : ndarray of shape (n_nodes,)
            Exact to about 1e-16 * (1 + bow(n)), with bow(n) the back-off weight of the
            row.
        """
        return self._row_sums.copy()

    def check_normalized(
        self, nodes: ArrayLike | None = None, tol: float = 1e-9
    ) -> float:
        """Largest deviation of a row's sum from 1; an error if it is above `tol`.

        Parameters
        ----------
        nodes : array-like of shape (n,), default=None
            Nodes to look at. None: all.

        tol : float, default=1e-9
            At least 0; ``inf`` returns the deviation without an error.

        Returns
        -------
        deviation : float
            At least 0.

        Raises
        ------
        ValueError
            If the row of some node deviates by more than `tol`; names the worst.
        """
        if not tol >= 0:
            raise ValueError(f"tol must be at least 0, got {tol!r}")
        sums = self._row_sums
        ids = None if nodes is None else self._check_nodes(nodes, "nodes")
        deviation = np.abs((sums if ids is None else sums[ids]) - 1)
        if deviation.size == 0:
            return 0.0
        deviation[np.isnan(deviation)] = np.inf
        worst = int(np.argmax(deviation))
        largest = float(deviation[worst])
        if largest > tol:
            node = worst if ids is None else int(ids[worst])
            raise ValueError(
                f"the model is not normalised: the probabilities at node {node} (depth "
                f"{int(self._depth(np.array([node]))[0])}) sum to {sums[node]!r}, a "
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
            ``bytes``, of the arrays. Printed, a line each.

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
        # As the parameter of an estimator: nothing changes it, so clones share it.
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

    def __getstate__(self):
        return stored(self)

    def __setstate__(self, state: dict) -> None:
        """Take a pickled model; ValueError if its arrays do not fit each other."""
        parts = (state[k] for k in ("pairs", "log_prob", "log_backoff", "labels"))
        BackoffModel.__init__(self, *parts)
        self.__dict__.update(state)
