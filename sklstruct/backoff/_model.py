"""The fitted state of every language model: a back-off model in flat arrays."""

from __future__ import annotations

import numpy as np
from sklearn.utils import check_random_state

from sklstruct._checks import (
    as_floats,
    as_ids,
    check_ids,
    check_length,
    check_pointers,
    check_sorted_groups,
)
from sklstruct.backoff import _backoff_fast
from sklstruct.context_tree import ContextTree
from sklstruct.context_tree._find_fast import find_nodes

_ARRAYS = (
    "parent",
    "symbol",
    "level_ptr",
    "child_ptr",
    "pair_ptr",
    "target",
    "log_prob",
    "log_backoff",
)
# A probability computed as a sum may pass 1 by rounding.
_MAX_LOG_PROB = 1e-6


def _label_index(labels):
    """label -> position, for any hashable labels."""
    return {label: i for i, label in enumerate(labels.tolist())}


def _is_missing(label):
    return label is None or (isinstance(label, float) and label != label)


def _encode(values, index, unknown):
    """Ids of an array of labels; missing labels (None, NaN) are -1."""
    flat = values.ravel()
    if flat.dtype.kind == "O":
        ids = np.array(
            [-1 if _is_missing(v) else index.get(v, unknown) for v in flat],
            dtype=np.int32,
        )
    else:
        distinct, inverse = np.unique(flat, return_inverse=True)
        ids = np.array(
            [
                -1 if _is_missing(v) else index.get(v, unknown)
                for v in distinct.tolist()
            ],
            dtype=np.int32,
        )
        ids = ids[inverse]
    return ids.reshape(values.shape)


class BackoffModel:
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
    parent : array-like of shape (n_nodes,)
        Parent of each node, ``parent[0] = -1``. The parent of a context is the
        context without its oldest symbol. Nodes are numbered level by level and,
        within a level, in the order of their parents.
    symbol : array-like of shape (n_nodes,)
        Id of each context's oldest symbol, ``symbol[0] = -1``; rises strictly
        among siblings.
    level_ptr : array-like of shape (n_levels + 1,)
        The nodes of depth k are ``level_ptr[k]:level_ptr[k + 1]``.
    child_ptr : array-like of shape (n_nodes + 1,)
        The children of n are the nodes ``child_ptr[n]:child_ptr[n + 1]``.
    pair_ptr : array-like of shape (n_nodes + 1,)
        The pairs of n are ``pair_ptr[n]:pair_ptr[n + 1]``; the root has all classes.
    target : array-like of shape (n_pairs,)
        Class id of each pair, rising strictly within a node.
    log_prob : array-like of shape (n_pairs,)
        Natural logarithm of P(target | node); ``-inf`` is a probability of 0.
    log_backoff : array-like of shape (n_nodes,)
        Natural logarithm of each node's back-off weight, finite or ``-inf``;
        the root has none: ``log_backoff[0] = 0``.
    classes : array-like of shape (n_classes,), default=None
        The symbols that are predicted. ``None``: the class ids.
    symbols : array-like of shape (n_symbols,), default=None
        The symbols a context can hold. ``None``: not known; contexts are then given
        as ids, and the model cannot be written as an ARPA file.
    n_symbols : int, default=None
        Number of context symbols where `symbols` is None; default the largest id of
        the tree + 1.
    span : array-like of shape (n_nodes,), default=None
        Number of contexts that each node of a collapsed tree stands for. Such a
        model answers for node ids only: it does not hold the symbols inside an edge.
    start, end, unknown : symbol, default=None
        The symbols that stand for a sentence start (a context symbol that is no
        class), a sentence end (a class) and unknown words. None: there is none.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The predicted symbols in the order of the class ids.
    symbols_ : ndarray of shape (n_symbols,) or None
        The context symbols in the order of their ids.
    start_ : symbol or None
        The sentence start.
    end_ : symbol or None
        The sentence end.
    unknown_ : symbol or None
        The unknown word.
    n_nodes, n_levels, n_pairs, n_classes, n_symbols, max_depth : int
        Sizes; ``max_depth`` is the length of the longest context.
    parent, symbol, level_ptr, child_ptr, pair_ptr, target : ndarray
        The arrays as given, int32 (``level_ptr`` int64). Do not change them: the
        model keeps tables derived from them.
    log_prob, log_backoff : ndarray
        The arrays as given, float64; likewise.

    See Also
    --------
    sklstruct.context_tree.ContextTree : The tree that the arrays come from.

    Notes
    -----
    Whether the rows sum to 1 is not checked at construction (see
    :meth:`check_normalized`). The compiled queries release the GIL.

    References
    ----------
    S. M. Katz, "Estimation of probabilities from sparse data for the language model
    component of a speech recognizer", IEEE TASSP 35(3), 1987 (the back-off form).

    Examples
    --------
    Classes "a", "b"; one context, "a", after which "b" has probability 0.9.

    >>> import numpy as np
    >>> from sklstruct.backoff import BackoffModel
    >>> model = BackoffModel(
    ...     parent=[-1, 0], symbol=[-1, 0], level_ptr=[0, 1, 2], child_ptr=[1, 2, 2],
    ...     pair_ptr=[0, 2, 3], target=[0, 1, 1],
    ...     log_prob=np.log([0.4, 0.6, 0.9]), log_backoff=np.log([1, 0.1 / 0.4]),
    ...     classes=["a", "b"], symbols=["a", "b"],
    ... )
    >>> model
    BackoffModel(order=2, n_nodes=2, n_pairs=3, n_classes=2, n_symbols=2)
    >>> nodes = model.find(model.encode_contexts([["b", "a"], ["a", "b"]]))
    >>> np.exp(model.predict_log_proba(nodes)).round(6)
    array([[0.1, 0.9],
           [0.4, 0.6]])
    >>> model.check_normalized() < 1e-12
    True
    """

    def __init__(
        self,
        parent,
        symbol,
        level_ptr,
        child_ptr,
        pair_ptr,
        target,
        log_prob,
        log_backoff,
        *,
        classes=None,
        symbols=None,
        n_symbols: int | None = None,
        span=None,
        start=None,
        end=None,
        unknown=None,
    ):
        self.parent = as_ids("parent", parent, 1)
        self.symbol = as_ids("symbol", symbol, 1)
        self.level_ptr = as_ids("level_ptr", level_ptr, 1, np.int64)
        self.child_ptr = as_ids("child_ptr", child_ptr, 1)
        self.pair_ptr = as_ids("pair_ptr", pair_ptr, 1)
        self.target = as_ids("target", target, 1)
        self.log_prob = as_floats("log_prob", log_prob)
        self.log_backoff = as_floats("log_backoff", log_backoff)
        self.span = None if span is None else as_ids("span", span, 1)
        self._check_tree()
        self.classes_ = self._check_labels("classes", classes, self._check_pairs())
        if symbols is None:
            self.symbols_ = None
            smallest = int(self.symbol.max()) + 1
            self.n_symbols = smallest if n_symbols is None else int(n_symbols)
            if self.n_symbols < smallest:
                raise ValueError(
                    f"n_symbols={n_symbols} is below the largest symbol id of the "
                    f"tree + 1, {smallest}."
                )
        else:
            self.symbols_ = self._check_labels("symbols", symbols, n_symbols)
            self.n_symbols = len(self.symbols_)
            check_ids(
                "symbol", self.symbol[1:], 0, self.n_symbols, "index into symbols"
            )
        if self.span is None:
            self.max_depth = self.n_levels - 1
        else:
            self.max_depth = int(self.tree.depths().max())
        self.start_, self.end_, self.unknown_ = start, end, unknown
        self._check_markers()
        self._cache = {}

    @classmethod
    def from_tree(
        cls,
        tree: ContextTree,
        log_prob,
        log_backoff,
        *,
        classes=None,
        symbols=None,
        start=None,
        end=None,
        unknown=None,
    ) -> BackoffModel:
        """Model over the arrays of a :class:`~sklstruct.context_tree.ContextTree`.

        Parameters
        ----------
        tree : ContextTree
            With pairs (``count_pairs``). Its arrays are shared, not copied. A
            collapsed tree gives a model that answers for node ids only.
        log_prob, log_backoff, classes, symbols, start, end, unknown
            As in the constructor.

        Returns
        -------
        BackoffModel

        Raises
        ------
        ValueError
            If the tree has no pairs or the arrays do not fit it.
        """
        if tree.pair_ptr is None:
            raise ValueError("tree has no pairs: call its count_pairs first.")
        return cls(
            tree.parent,
            tree.symbol,
            tree.level_ptr,
            tree.child_ptr,
            tree.pair_ptr,
            tree.target,
            log_prob,
            log_backoff,
            classes=classes,
            symbols=symbols,
            n_symbols=None if symbols is not None else tree.n_symbols,
            span=tree.span,
            start=start,
            end=end,
            unknown=unknown,
        )

    # ------------------------------------------------------------ construction

    def _check_tree(self):
        n = len(self.parent)
        if n == 0:
            raise ValueError("parent is empty: a tree has at least its root.")
        for name, length, why in (
            ("symbol", n, "one per node"),
            ("log_backoff", n, "one per node"),
            ("child_ptr", n + 1, "one per node and the end"),
            ("pair_ptr", n + 1, "one per node and the end"),
        ):
            check_length(name, getattr(self, name), length, why)
        if self.parent[0] != -1 or self.symbol[0] != -1:
            raise ValueError("parent[0] and symbol[0] must be -1: node 0 is the root.")
        if len(self.level_ptr) < 2:
            raise ValueError(
                "level_ptr must have at least 2 entries: the root's level."
            )
        check_pointers("level_ptr", self.level_ptr, 0, n)
        if self.level_ptr[1] != 1:
            raise ValueError("level_ptr[1] must be 1: the root is alone on its level.")
        check_pointers("child_ptr", self.child_ptr, 1, n)
        expected = np.repeat(np.arange(n, dtype=np.int32), np.diff(self.child_ptr))
        wrong = np.flatnonzero(self.parent[1:] != expected)
        if wrong.size:
            i = int(wrong[0]) + 1
            raise ValueError(
                f"parent and child_ptr disagree: parent[{i}] = {int(self.parent[i])}, "
                f"but node {i} lies among the children of {int(expected[i - 1])}."
            )
        # Children of a level's nodes are one contiguous range: the next level.
        ends = self.child_ptr[self.level_ptr[1:]]
        if not np.array_equal(ends, np.append(self.level_ptr[2:], n)):
            raise ValueError(
                "level_ptr does not match the tree: every node of depth k must have "
                "its parent among the nodes of depth k - 1."
            )
        if int(self.symbol[1:].min(initial=0)) < 0:
            raise ValueError("symbol holds a negative id below the root.")
        check_sorted_groups(
            "symbol", self.symbol[1:], self.child_ptr - 1, "children are sorted"
        )
        if np.isnan(self.log_backoff).any() or (self.log_backoff == np.inf).any():
            i = int(np.flatnonzero(~(self.log_backoff < np.inf))[0])
            raise ValueError(
                f"log_backoff[{i}] = {self.log_backoff[i]}: back-off weights must be "
                "finite, or -inf for a weight of 0."
            )
        if self.log_backoff[0] != 0:
            raise ValueError("log_backoff[0] must be 0: the root backs off to nothing.")
        self.n_nodes = n
        self.n_levels = len(self.level_ptr) - 1
        if self.span is not None:
            check_length("span", self.span, n, "one per node")
            check_ids("span", self.span, 1, 2**31 - 1, "number of contexts")

    def _check_pairs(self):
        n_pairs = len(self.target)
        check_length("log_prob", self.log_prob, n_pairs, "one per pair")
        check_pointers("pair_ptr", self.pair_ptr, 0, n_pairs)
        n_classes = int(self.pair_ptr[1])
        if n_classes == 0:
            raise ValueError("pair_ptr[1] is 0: the root must hold every class.")
        if not np.array_equal(
            self.target[:n_classes], np.arange(n_classes, dtype=np.int32)
        ):
            raise ValueError(
                "target must start with 0, 1, ..., pair_ptr[1] - 1: the root holds "
                "every class in order."
            )
        check_ids("target", self.target, 0, n_classes, "class id")
        check_sorted_groups("target", self.target, self.pair_ptr, "classes are sorted")
        bad = np.flatnonzero(~(self.log_prob <= _MAX_LOG_PROB))
        if bad.size:
            i = int(bad[0])
            raise ValueError(
                f"log_prob[{i}] = {self.log_prob[i]}: natural log-probabilities must "
                "be at most 0 and not NaN."
            )
        self.n_pairs = n_pairs
        self.n_classes = n_classes
        return n_classes

    @staticmethod
    def _check_labels(name, labels, length):
        if labels is None:
            return np.arange(length, dtype=np.int32)
        if not isinstance(labels, np.ndarray):
            labels = list(labels)
            array = np.asarray(labels)
            # numpy would turn ["a", 1] into strings.
            if array.ndim != 1 or (
                array.dtype.kind in "US"
                and any(not isinstance(v, (str, bytes)) for v in labels)
            ):
                array = np.empty(len(labels), dtype=object)
                array[:] = labels
            labels = array
        if labels.ndim != 1:
            raise ValueError(f"{name} must be 1-dimensional.")
        if length is not None and len(labels) != length:
            raise ValueError(f"{name} must have {length} entries, got {len(labels)}.")
        try:
            distinct = len(set(labels.tolist()))
        except TypeError as exc:
            raise ValueError(f"{name} must be hashable: {exc}") from exc
        if distinct != len(labels):
            seen = set()
            twice = next(v for v in labels.tolist() if v in seen or seen.add(v))
            raise ValueError(f"{name} holds {twice!r} twice.")
        return labels

    def _check_markers(self):
        for name in ("start", "end", "unknown"):
            try:
                hash(getattr(self, name + "_"))
            except TypeError as exc:
                raise ValueError(f"{name} must be hashable: {exc}") from exc
        if self.start_ is not None and self.start_ in _label_index(self.classes_):
            raise ValueError(
                f"start={self.start_!r} is one of classes: a sentence start is never "
                "predicted. Give start a symbol of its own."
            )
        if self.end_ is not None and self.end_ not in _label_index(self.classes_):
            raise ValueError(
                f"end={self.end_!r} is not one of classes: a sentence end is predicted "
                "like any class."
            )

    # --------------------------------------------------------- derived tables

    def _cached(self, name, compute):
        # Two threads may compute the same table; both results are equal.
        table = self._cache.get(name)
        if table is None:
            table = self._cache[name] = compute()
        return table

    @property
    def root_child(self) -> np.ndarray:
        """(max(n_symbols, 1),) int32: the root's child for each symbol id, or -1."""

        def compute():
            table = np.full(max(self.n_symbols, 1), -1, dtype=np.int32)
            first = slice(int(self.child_ptr[0]), int(self.child_ptr[1]))
            table[self.symbol[first]] = np.arange(
                first.start, first.stop, dtype=np.int32
            )
            return table

        return self._cached("root_child", compute)

    @property
    def class_of_symbol(self) -> np.ndarray:
        """(n_symbols,) int32: the class of each context symbol, -1 if it has none."""

        def compute():
            index = _label_index(self.classes_)
            symbols = self._known_symbols("class_of_symbol").tolist()
            return np.array([index.get(s, -1) for s in symbols], dtype=np.int32)

        return self._cached("class_of_symbol", compute)

    @property
    def symbol_of_class(self) -> np.ndarray:
        """(n_classes,) int32: each class as context symbol, -1 if it is none."""

        def compute():
            index = _label_index(self._known_symbols("symbol_of_class"))
            return np.array(
                [index.get(c, -1) for c in self.classes_.tolist()], dtype=np.int32
            )

        return self._cached("symbol_of_class", compute)

    def _known_symbols(self, what):
        if self.symbols_ is None:
            raise ValueError(
                f"{what} needs the context symbols, but the model was built with "
                "symbols=None; give symbols to BackoffModel."
            )
        return self.symbols_

    @property
    def tree(self) -> ContextTree:
        """The contexts alone, as a ContextTree that shares this model's arrays."""
        # Not kept: it is made in one pass over the nodes and costs 4 bytes for each.
        tree = ContextTree(self.parent, self.symbol, self.level_ptr, self.n_symbols)
        tree.span = self.span
        return tree

    def _check_not_collapsed(self, what):
        if self.span is not None:
            raise ValueError(
                f"{what} needs the symbols of every context, but this model stands on "
                "a collapsed tree (span is given), which answers for node ids only. "
                "Fit on a trie (collapse=False) instead."
            )

    def _node_arrays(self):
        return self.parent, self.pair_ptr, self.target, self.log_prob, self.log_backoff

    def _check_nodes(self, nodes):
        nodes = as_ids("nodes", nodes, 1)
        check_ids("nodes", nodes, 0, self.n_nodes, "node id")
        return nodes

    # ---------------------------------------------------------------- encoding

    def encode_contexts(self, X) -> np.ndarray:
        """Symbol ids of an array of context symbols.

        Parameters
        ----------
        X : array-like of any shape
            Symbols. ``None`` and NaN mean a missing history: id -1.

        Returns
        -------
        ids : ndarray of int32, same shape
            A symbol that is not in ``symbols_`` becomes the id of ``unknown_``, or -1
            (which ends the history) where the model has no such context symbol.
        """
        index = self._cached(
            "symbol_index", lambda: _label_index(self._known_symbols("encode_contexts"))
        )
        unknown = -1 if self.unknown_ is None else index.get(self.unknown_, -1)
        return _encode(_as_labels(X), index, unknown)

    def encode_targets(self, y) -> np.ndarray:
        """Class ids of an array of symbols.

        A symbol that is no class becomes the class of ``unknown_``, or -1 where the
        model has none (see `unknown_log_prob` of :meth:`log_proba`).

        Parameters
        ----------
        y : array-like of any shape

        Returns
        -------
        ids : ndarray of int32, same shape
        """
        index = self._cached("class_index", lambda: _label_index(self.classes_))
        unknown = -1 if self.unknown_ is None else index.get(self.unknown_, -1)
        return _encode(_as_labels(y), index, unknown)

    # ----------------------------------------------------------------- queries

    def find(self, contexts) -> np.ndarray:
        """Deepest known node of each context.

        Parameters
        ----------
        contexts : array-like of shape (n_samples, width), integers
            Symbol ids, last column the most recent (:meth:`encode_contexts` makes
            them). -1 is a missing or unknown symbol and ends the history: what is
            left of it is not read.

        Returns
        -------
        nodes : ndarray of shape (n_samples,), int32
            0, the root, where not even the most recent symbol is a known context.

        Raises
        ------
        ValueError
            If `contexts` does not hold integers in -1..n_symbols-1.
        """
        self._check_not_collapsed("find")
        array = np.asarray(contexts)
        if array.dtype.kind not in "iu" and array.size:
            raise ValueError(
                f"contexts must hold symbol ids, got dtype {array.dtype}; "
                "encode_contexts turns symbols into ids."
            )
        windows = as_ids("contexts", array, 2, contiguous=False)
        check_ids("contexts", windows, -1, self.n_symbols, "symbol id")
        out = np.zeros(windows.shape[0], dtype=np.int32)
        find_nodes(self.symbol, self.child_ptr, self.root_child, windows, out)
        return out

    def depth(self, nodes) -> np.ndarray:
        """Depth (length of the context) of each node.

        Parameters
        ----------
        nodes : array-like of shape (n_samples,)

        Returns
        -------
        depth : ndarray of shape (n_samples,), int32
        """
        return self._depth(self._check_nodes(nodes))

    def _depth(self, nodes):
        if self.span is not None:
            return self._cached("depths", lambda: self.tree.depths())[nodes]
        return (np.searchsorted(self.level_ptr, nodes, side="right") - 1).astype(
            np.int32
        )

    def log_proba(
        self,
        nodes,
        targets,
        *,
        return_depth: bool = False,
        unknown_log_prob: float | None = None,
    ):
        """Natural log-probability of each target after its context.

        Parameters
        ----------
        nodes : array-like of shape (n_samples,)
            Node ids, from :meth:`find`.
        targets : array-like of shape (n_samples,)
            Class ids, from :meth:`encode_targets`; -1 is an unknown class.
        return_depth : bool, default=False
            Also return the depth of the node that held each pair (0 for an unknown
            class).
        unknown_log_prob : float, default=None
            Natural log-probability of an unknown class at the root; the back-off
            weights of the context are added to it. ``-inf``: impossible.
            ``-100 * log(10)`` is what KenLM does for a file without ``<unk>``.
            None: an unknown class is an error.

        Returns
        -------
        log_prob : ndarray of shape (n_samples,), float64
        depth : ndarray of shape (n_samples,), int32
            Only if `return_depth`.

        Raises
        ------
        ValueError
            If a node or a target is out of range, or a target is -1 while
            `unknown_log_prob` is None.
        """
        log_prob, node = self._log_proba(nodes, targets, unknown_log_prob)
        return (log_prob, self._depth(node)) if return_depth else log_prob

    def _log_proba(self, nodes, targets, unknown_log_prob=None):
        nodes = self._check_nodes(nodes)
        targets = as_ids("targets", targets, 1)
        check_length("targets", targets, len(nodes), "one per node")
        unknown = self._check_unknown(unknown_log_prob)
        if unknown_log_prob is None and targets.size and targets.min() == -1:
            i = int(np.flatnonzero(targets == -1)[0])
            raise ValueError(
                f"targets[{i}] = -1, an unknown class, and the model has no class for "
                "unknown symbols. Leave such samples out, or give them a probability "
                "with unknown_log_prob."
            )
        check_ids("targets", targets, -1, self.n_classes, "class id")
        out = np.empty(len(nodes))
        node = np.empty(len(nodes), dtype=np.int32)
        _backoff_fast.log_proba(
            *self._node_arrays(), nodes, targets, unknown, out, node
        )
        return out, node

    @staticmethod
    def _check_unknown(unknown_log_prob):
        value = 0.0 if unknown_log_prob is None else float(unknown_log_prob)
        if not value <= 0:
            raise ValueError(
                f"unknown_log_prob must be a natural log-probability (at most 0), got "
                f"{unknown_log_prob!r}."
            )
        return value

    def score_tokens(
        self,
        tokens,
        class_of_token=None,
        *,
        return_depth: bool = False,
        unknown_log_prob: float | None = None,
    ):
        """Natural log-probability of every token of a text given the ones before it.

        The fast path for running text: no windows are copied.

        Parameters
        ----------
        tokens : array-like of shape (n_tokens,)
            Token ids. Ids below ``n_symbols`` are context symbols. A negative id is
            a separator; it and any id from ``n_symbols`` on (such as an end mark that
            is predicted but never a context) end the history of what follows.
        class_of_token : array-like of shape (n_token_ids,), default=None
            The class id of each token id; -1: not scored (a start mark), -2: unknown
            class. At least ``n_symbols`` long. Default: :attr:`class_of_symbol`.
        return_depth : bool, default=False
            Also return the depth of the node that held each pair.
        unknown_log_prob : float, default=None
            As in :meth:`log_proba`.

        Returns
        -------
        log_prob : ndarray of shape (n_tokens,), float64
            0 where a token is not scored.
        depth : ndarray of shape (n_tokens,), int32
            -1 where a token is not scored, 0 for an unknown class. Only if
            `return_depth`.

        Raises
        ------
        ValueError
            If an id is out of range, or a token has class -2 while `unknown_log_prob`
            is None.

        Examples
        --------
        >>> import numpy as np
        >>> from sklstruct.backoff import BackoffModel
        >>> model = BackoffModel(
        ...     [-1, 0], [-1, 0], [0, 1, 2], [1, 2, 2], [0, 2, 3], [0, 1, 1],
        ...     np.log([0.4, 0.6, 0.9]), np.log([1, 0.25]), n_symbols=2)
        >>> np.exp(model.score_tokens([0, 1, -1, 1], [0, 1])).round(6)
        array([0.4, 0.9, 1. , 0.6])
        """
        self._check_not_collapsed("score_tokens")
        tokens = as_ids("tokens", tokens, 1)
        if class_of_token is None:
            class_of_token = self.class_of_symbol
        class_of_token = as_ids("class_of_token", class_of_token, 1)
        if len(class_of_token) < self.n_symbols:
            raise ValueError(
                f"class_of_token must cover at least the {self.n_symbols} context "
                f"symbols, got {len(class_of_token)} entries."
            )
        check_ids("class_of_token", class_of_token, -2, self.n_classes, "class id")
        if tokens.size and int(tokens.max()) >= len(class_of_token):
            raise ValueError(
                f"tokens holds {int(tokens.max())}, but class_of_token has only "
                f"{len(class_of_token)} entries."
            )
        unknown = self._check_unknown(unknown_log_prob)
        if unknown_log_prob is None and (class_of_token == -2).any():
            at = np.flatnonzero(class_of_token[np.maximum(tokens, 0)] == -2)
            at = at[tokens[at] >= 0]
            if at.size:
                raise ValueError(
                    f"tokens[{int(at[0])}] has an unknown class. Give it a probability "
                    "with unknown_log_prob, or mark it as not scored with class -1."
                )
        if len(class_of_token) == 0:
            class_of_token = np.full(1, -1, dtype=np.int32)
        out = np.empty(len(tokens))
        depth = np.empty(len(tokens), dtype=np.int32)
        _backoff_fast.score_tokens(
            self.symbol,
            self.child_ptr,
            self.root_child[: self.n_symbols],
            self.pair_ptr,
            self.target,
            self.log_prob,
            self.log_backoff,
            tokens,
            class_of_token,
            unknown,
            np.empty(self.n_levels, dtype=np.int32),
            out,
            depth,
        )
        return (out, depth) if return_depth else out

    def predict_log_proba(self, nodes, out=None) -> np.ndarray:
        """Natural log-probabilities of all classes after each context.

        Parameters
        ----------
        nodes : array-like of shape (n_samples,)
            Node ids, from :meth:`find`.
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
        """
        nodes = self._check_nodes(nodes)
        shape = (len(nodes), self.n_classes)
        if out is None:
            out = np.empty(shape)
        elif not (
            isinstance(out, np.ndarray)
            and out.shape == shape
            and out.dtype == np.float64
            and out.flags.c_contiguous
            and out.flags.writeable
        ):
            raise ValueError(
                f"out must be a writeable C-contiguous float64 array of shape {shape}."
            )
        _backoff_fast.fill_rows(
            *self._node_arrays(),
            nodes,
            np.empty(self.n_levels, dtype=np.int32),
            np.empty(self.n_levels),
            out,
        )
        return out

    def top_k(self, nodes, k: int = 1) -> tuple[np.ndarray, np.ndarray]:
        """The k most probable classes after each context.

        Parameters
        ----------
        nodes : array-like of shape (n_samples,)
        k : int, default=1
            1..n_classes.

        Returns
        -------
        classes : ndarray of shape (n_samples, k), int32
            Class ids, most probable first; equal probabilities by class id.
        log_prob : ndarray of shape (n_samples, k), float64
            The same values as in :meth:`predict_log_proba`.

        Raises
        ------
        ValueError
            If `k` or a node is out of range.
        """
        nodes = self._check_nodes(nodes)
        if isinstance(k, bool) or not isinstance(k, (int, np.integer)):
            raise ValueError(f"k must be an integer, got {k!r}.")
        if not 1 <= k <= self.n_classes:
            raise ValueError(f"k={k} must be in 1..{self.n_classes} (classes).")
        order = self._cached(
            "root_order",
            lambda: np.argsort(-self.log_prob[: self.n_classes], kind="stable").astype(
                np.int32
            ),
        )
        classes = np.empty((len(nodes), int(k)), dtype=np.int32)
        log_prob = np.empty((len(nodes), int(k)))
        _backoff_fast.top_k(
            *self._node_arrays(),
            order,
            nodes,
            np.zeros(self.n_classes, dtype=np.int32),
            classes,
            log_prob,
        )
        return classes, log_prob

    def sample(self, nodes, random_state=None) -> np.ndarray:
        """Draw one class after each context.

        Parameters
        ----------
        nodes : array-like of shape (n_samples,)
        random_state : int, RandomState instance or None, default=None

        Returns
        -------
        classes : ndarray of shape (n_samples,), int32
            Class ids, drawn from the exact row by inversion of one uniform number
            each. A row that does not sum to 1 is sampled in proportion.

        Raises
        ------
        ValueError
            If a node is out of range or its row is 0 everywhere.
        """
        nodes = self._check_nodes(nodes)
        uniform = check_random_state(random_state).random_sample(len(nodes))
        return self._sample(nodes, uniform)

    def _sample(self, nodes, uniform):
        row_sum = self._cached("row_sums", self._row_sums)
        empty = np.flatnonzero(~(row_sum[nodes] > 0) | ~(row_sum[nodes] < np.inf))
        if empty.size:
            node = int(nodes[empty[0]])
            raise ValueError(
                f"node {node} cannot be sampled: its probabilities sum to "
                f"{row_sum[node]}."
            )
        root_prob = self._cached(
            "root_prob", lambda: np.exp(self.log_prob[: self.n_classes])
        )
        out = np.empty(len(nodes), dtype=np.int32)
        _backoff_fast.sample(
            *self._node_arrays(),
            root_prob,
            row_sum,
            nodes,
            uniform,
            np.zeros(self.n_classes, dtype=np.int32),
            out,
        )
        return out

    def sample_sequences(
        self,
        n_sequences: int = 1,
        *,
        max_length: int = 100,
        prefix=(),
        random_state=None,
        start: int | None = None,
        end: int | None = None,
        symbol_of_class=None,
    ) -> list[np.ndarray]:
        """Draw sequences symbol by symbol, all of them side by side.

        Parameters
        ----------
        n_sequences : int, default=1
        max_length : int, default=100
            A sequence without an end is cut after this many draws.
        prefix : sequence of int, default=()
            Symbol ids that follow the start symbol and precede the first draw.
        random_state : int, RandomState instance or None, default=None
        start : int, default=None
            Symbol id of the start symbol, the first of the history; -1: no start
            symbol. Default: the id of ``start_``, -1 if there is none.
        end : int, default=None
            Class id that ends a sequence (and is not part of it); -1: none.
            Default: the id of ``end_``, -1 if there is none.
        symbol_of_class : array-like of shape (n_classes,), default=None
            The context symbol of each class; -1: none, which empties the history.
            Default: :attr:`symbol_of_class`.

        Returns
        -------
        sequences : list of ndarray of int32
            Class ids of the drawn symbols.

        Raises
        ------
        ValueError
            If an id is out of range or a length is negative.

        Examples
        --------
        >>> import numpy as np
        >>> from sklstruct.backoff import BackoffModel
        >>> model = BackoffModel(
        ...     [-1, 0], [-1, 0], [0, 1, 2], [1, 2, 2], [0, 2, 3], [0, 1, 1],
        ...     [0, -np.inf, 0], [0, -np.inf],
        ...     classes=["a", "end"], symbols=["a"], end="end")
        >>> [model.classes_[s] for s in model.sample_sequences(2, random_state=0)]
        [array(['a'], dtype='<U3'), array(['a'], dtype='<U3')]
        """
        self._check_not_collapsed("sample_sequences")
        for name, value in (("n_sequences", n_sequences), ("max_length", max_length)):
            if not isinstance(value, (int, np.integer)) or value < 0:
                raise ValueError(f"{name} must be an integer of at least 0.")
        if symbol_of_class is None:
            symbol_of_class = self.symbol_of_class
        symbol_of_class = as_ids("symbol_of_class", symbol_of_class, 1)
        check_length("symbol_of_class", symbol_of_class, self.n_classes, "one a class")
        check_ids("symbol_of_class", symbol_of_class, -1, self.n_symbols, "symbol id")
        if start is None:
            start = -1
            if self.start_ is not None:
                start = int(self.encode_contexts(_one(self.start_))[0])
        if end is None:
            end = -1
            if self.end_ is not None:
                end = int(self.encode_targets(_one(self.end_))[0])
        history = as_ids("prefix", np.asarray([start, *prefix]), 1)
        check_ids("prefix", history, -1, self.n_symbols, "symbol id")
        check_ids("end", np.array([end]), -1, self.n_classes, "class id")

        rng = check_random_state(random_state)
        width = self.max_depth
        windows = np.full((n_sequences, width), -1, dtype=np.int32)
        if width:
            kept = history[-width:]
            windows[:, width - len(kept) :] = kept
        drawn = np.full((n_sequences, max_length), -1, dtype=np.int32)
        length = np.zeros(n_sequences, dtype=np.intp)
        live = np.arange(n_sequences)
        for step in range(max_length):
            if live.size == 0:
                break
            # One number per sequence and step, drawn or not, so that a sequence does
            # not depend on when its neighbours end.
            uniform = rng.random_sample(n_sequences)[live]
            nodes = self.find(windows[live]) if width else np.zeros(len(live), np.int32)
            classes = self._sample(nodes, uniform)
            going = classes != end
            live, classes = live[going], classes[going]
            drawn[live, step] = classes
            length[live] += 1
            if width:
                windows[live, :-1] = windows[live, 1:]
                windows[live, -1] = symbol_of_class[classes]
        return [drawn[i, : length[i]].copy() for i in range(n_sequences)]

    # ------------------------------------------------------------- evaluation

    def perplexity(
        self, nodes, targets, sample_weight=None, *, unknown_log_prob=None
    ) -> float:
        """``exp`` of minus the mean natural log-probability of the targets.

        Parameters
        ----------
        nodes, targets : array-like of shape (n_samples,)
            As in :meth:`log_proba`.
        sample_weight : array-like of shape (n_samples,), default=None
            Non-negative weights.
        unknown_log_prob : float, default=None
            As in :meth:`log_proba`.

        Returns
        -------
        perplexity : float
            Per target, in 1..inf.

        Raises
        ------
        ValueError
            If ids are out of range or the weights are negative, not finite or all 0.
        """
        log_prob, _ = self._log_proba(nodes, targets, unknown_log_prob)
        weight = _check_weight(sample_weight, len(log_prob))
        return float(np.exp(-_weighted_sum(log_prob, weight) / weight.sum()))

    def perplexity_by_depth(
        self, nodes, targets, sample_weight=None, *, unknown_log_prob=None
    ) -> dict[str, np.ndarray]:
        """Perplexity of the targets by the depth of the node that held their pair.

        Parameters
        ----------
        nodes, targets, sample_weight, unknown_log_prob
            As in :meth:`perplexity`.

        Returns
        -------
        table : dict of ndarray of shape (max_depth + 1,)
            ``depth`` (0..max_depth), ``weight`` (summed sample weight),
            ``log_likelihood`` (weighted sum of natural log-probabilities; over the
            depths they add up to the total) and ``perplexity`` (NaN where no target
            was matched at that depth). Unknown classes count as depth 0.
        """
        log_prob, node = self._log_proba(nodes, targets, unknown_log_prob)
        weight = _check_weight(sample_weight, len(log_prob))
        used = weight > 0
        depth = self._depth(node)[used]
        n = self.max_depth + 1
        total = np.bincount(depth, weights=weight[used], minlength=n)
        likelihood = np.bincount(
            depth, weights=weight[used] * log_prob[used], minlength=n
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            perplexity = np.where(total > 0, np.exp(-likelihood / total), np.nan)
        return {
            "depth": np.arange(n),
            "weight": total,
            "log_likelihood": likelihood,
            "perplexity": perplexity,
        }

    def _row_sums(self):
        out = np.empty(self.n_nodes)
        _backoff_fast.row_sums(*self._node_arrays(), out)
        return out

    def row_sums(self) -> np.ndarray:
        """Sum of P(y | n) over all classes, for every node, in O(pairs).

        Returns
        -------
        sums : ndarray of shape (n_nodes,)
            Relative to the row's back-off weight bow(n), exact to about
            1e-16 * (1 + bow(n)).
        """
        return self._cached("row_sums", self._row_sums).copy()

    def check_normalized(self, nodes=None, tol: float = 1e-9) -> float:
        """Largest deviation of a row's sum from 1, an error where it passes `tol`.

        Parameters
        ----------
        nodes : array-like of shape (n,), default=None
            Nodes to look at. None: all.
        tol : float, default=1e-9
            At least 0; ``inf`` to learn the deviation without an error.

        Returns
        -------
        deviation : float

        Raises
        ------
        ValueError
            If the row of some node deviates by more than `tol`; names the worst.
        """
        if not tol >= 0:
            raise ValueError(f"tol must be at least 0, got {tol!r}.")
        sums = self._cached("row_sums", self._row_sums)
        ids = None if nodes is None else self._check_nodes(nodes)
        deviation = np.abs((sums if ids is None else sums[ids]) - 1)
        if deviation.size == 0:
            return 0.0
        deviation[np.isnan(deviation)] = np.inf
        worst = int(np.argmax(deviation))
        largest = float(deviation[worst])
        if largest > tol:
            node = worst if ids is None else int(ids[worst])
            raise ValueError(
                f"The model is not normalised: the probabilities at node {node} (depth "
                f"{int(self._depth(np.array([node]))[0])}) sum to {sums[node]!r}, a "
                f"deviation of {largest:.3g} > tol={tol:g}."
            )
        return largest

    # ------------------------------------------------------------ object model

    @property
    def order(self) -> int:
        """Length of the longest n-gram: ``max_depth + 1``."""
        return self.max_depth + 1

    def __repr__(self):
        return (
            f"{type(self).__name__}(order={self.order}, n_nodes={self.n_nodes}, "
            f"n_pairs={self.n_pairs}, n_classes={self.n_classes}, "
            f"n_symbols={self.n_symbols})"
        )

    def __eq__(self, other):
        if not isinstance(other, BackoffModel):
            return NotImplemented
        if (self.symbols_ is None) != (other.symbols_ is None):
            return False
        if (self.span is None) != (other.span is None):
            return False
        return (
            self.n_symbols == other.n_symbols
            and (self.span is None or np.array_equal(self.span, other.span))
            and all(
                np.array_equal(getattr(self, name), getattr(other, name))
                for name in _ARRAYS
            )
            and self.classes_.tolist() == other.classes_.tolist()
            and (
                self.symbols_ is None
                or self.symbols_.tolist() == other.symbols_.tolist()
            )
            and (self.start_, self.end_, self.unknown_)
            == (other.start_, other.end_, other.unknown_)
        )

    __hash__ = None

    def __getstate__(self):
        state = self.__dict__.copy()
        state["_cache"] = {}
        return state


def _one(label):
    array = np.empty(1, dtype=object)
    array[0] = label
    return array


def _as_labels(values):
    """An array of labels, as objects where numpy would convert mixed types."""
    if isinstance(values, np.ndarray):
        return values
    if hasattr(values, "to_numpy"):
        return values.to_numpy()
    array = np.asarray(values)
    if array.dtype.kind in "US":
        # A list that mixes strings with None or numbers must not become strings.
        return np.asarray(values, dtype=object)
    return array


def _check_weight(sample_weight, n):
    if sample_weight is None:
        weight = np.ones(n)
    else:
        weight = as_floats("sample_weight", sample_weight)
        check_length("sample_weight", weight, n, "one per sample")
        if not np.isfinite(weight).all() or weight.min(initial=0) < 0:
            raise ValueError("sample_weight must be finite and not negative.")
    if not weight.sum() > 0:
        raise ValueError("perplexity needs at least one sample with positive weight.")
    return weight


def _weighted_sum(values, weight):
    # 0 * -inf is NaN: leave weights of 0 out.
    used = weight > 0
    return float(np.dot(weight[used], values[used]))
