"""SuffixTreeVectorizer: context windows to paths of a context tree."""

from __future__ import annotations

import json
import numbers
from itertools import chain
from typing import Any

import numpy as np
import scipy.sparse as sp
from sklearn.utils._set_output import _get_output_config
from sklearn.utils.validation import check_is_fitted, validate_data

from .._checks import check_memory, strings_as_objects
from .._compat import (
    BaseEstimator,
    Interval,
    TransformerMixin,
    _align_api_if_sparse,
    _check_feature_names_in,
    _fit_context,
)
from ..symbols import (
    Labels,
    check_dtype,
    check_ends,
    encode,
    is_missing,
    is_nan,
    learn_symbols,
    plain,
)
from ._histories import Histories
from ._paths import path_arrays
from ._suffix_tree import find_histories, suffix_tree
from ._tree import ContextTree


def check_windows(
    estimator: BaseEstimator, X: Any, padding: Any, *, reset: bool, symbols: Any = None
) -> np.ndarray:
    """Validate a 2-D array of symbols; number and names of columns are set or checked.

    NaN is an error, with its place, unless it is the padding, the symbol that marks
    missing history. symbols: the symbols of `fit`; an error is raised if X has only
    symbols of another kind: strings, bytes or numbers.
    """

    def check(X):
        return validate_data(
            estimator,
            X,
            dtype=None,
            ensure_all_finite="allow-nan" if is_nan(padding) else True,
            reset=reset,
        )

    if np.ndim(padding):
        raise ValueError(
            f"padding must be one symbol, None or NaN, got {padding!r:.60}"
        )
    if np.ma.is_masked(X):
        raise ValueError("X is masked: put the padding there, by X.filled(padding)")
    X = strings_as_objects(X)
    if isinstance(X, list | tuple) and X and isinstance(X[0], list | tuple):
        check_ends("X", chain.from_iterable(X))
    try:
        X = check(X)
    except (TypeError, ValueError) as exc:
        if "inhomogeneous shape" in str(exc):
            raise ValueError(
                "X holds rows of several lengths: fill the shorter ones on the left "
                "with a symbol, and give it as padding"
            ) from None
        if "boolean value of NA" not in str(exc):
            raise
        if not (padding is None or is_nan(padding)):
            raise ValueError(
                f"X holds pandas' NA, and padding={padding!r:.60}: replace NA by the "
                "padding, or use padding=None"
            ) from None
        X = check(_filled(X, padding))
    if X.dtype.kind == "c":
        raise ValueError("Complex data not supported: symbols cannot be complex")
    check_dtype(X)
    if symbols is not None and symbols.size:
        _check_kind(X, padding, plain(symbols[0]))
    return X


def _check_kind(X: np.ndarray, padding: Any, known: Any) -> None:
    """ValueError if X holds only symbols of another kind than the symbol `known`."""
    fitted, other = _kind(known), None
    if X.dtype.kind != "O" and fitted == _kind(X.dtype.type()):
        return
    for symbol in X.flat:  # to the first symbol of the right kind
        if is_missing(symbol) or (padding is not None and symbol == padding):
            continue
        if _kind(symbol) == fitted:
            return
        other = plain(symbol)
    if other is not None:
        raise ValueError(
            f"X holds {_kind(other)} such as {other!r}, and fit was given {fitted} "
            f"such as {known!r}: convert X to symbols of the same kind"
        )


def _kind(symbol: Any) -> str:
    named = {str: "strings", bytes: "bytes"}
    return next((named[k] for k in named if isinstance(symbol, k)), "numbers")


def _filled(X: Any, padding: Any) -> Any:
    """X with the padding in place of pandas' NA; a frame stays a frame."""
    if hasattr(X, "notna"):
        return X.astype(object).where(X.notna(), padding)
    cells = np.array(X, dtype=object)
    cells[np.frompyfunc(is_missing, 1, 1)(cells).astype(bool)] = padding
    return cells


def read_windows(
    estimator: BaseEstimator, X: Any, padding: Any, *, reset: bool, symbols: Any = None
) -> tuple[np.ndarray, np.ndarray]:
    """`check_windows`, and (ids, symbols): -1 for padding and symbols that are not
    known.

    If `symbols` is None, the symbols are learned from X and sorted. Only the 1-D base
    of a sliding-window view is encoded; the result is also a view.
    """
    X = check_windows(estimator, X, padding, reset=reset, symbols=symbols)
    if symbols is None:
        symbols = learn_symbols(X, padding)
    return encode(X, symbols), symbols


class WindowTransformer(TransformerMixin, BaseEstimator):
    """Base of the transformers of context windows."""

    padding: Any

    def __sklstruct_ids__(self, labels: Labels) -> dict[str, Any]:
        """Parameters for windows of ids: missing history is -1."""
        return {"padding": -1}

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.allow_nan = is_nan(self.padding)
        tags.transformer_tags.preserves_dtype = []
        return tags


class SuffixTreeVectorizer(WindowTransformer):
    r"""Maps contexts to their path in the tree of all contexts seen in training.

    .. math::
        \phi(x) = (\mathbb{1}[x_{(0)}],\ \mathbb{1}[x_{(1)}],\ \ldots,\
        \mathbb{1}[x_{(d)}]), \qquad d = \min(m, |x|),

    with one column for every suffix :math:`x_{(k)}` (the k most recent symbols) that
    occurs in training. The row of x has a 1 in the columns of the suffixes of x. Column
    0 is the empty context, the root. Columns are numbered parent before child, so the
    sorted column indices of a row are its path from the root down, and the tree can be
    read back from the matrix alone.

    Parameters
    ----------
    max_depth : int, default=None
        Longest context m, in symbols; at least 1. Only the last `max_depth` columns of
        X are read. If X has fewer columns, contexts have at most as many symbols as X
        has columns. None: all columns.

    collapse : bool, default=False
        If True, a context shares one column with the context that is one symbol longer,
        if all its occurrences have the same symbol before (a suffix tree; False is a
        trie). The value of such a column is the number of suffixes of the row that are
        merged in it.

    padding : object, default=None
        The symbol that marks missing history. Columns left of the most recent padding
        are not read. The default, None, marks missing history in object arrays only, as
        pandas' NA does; for other arrays use e.g. ``padding=""``, ``-1`` or ``np.nan``
        (also for pandas' NaN and NA).

    dtype : dtype, default=numpy.float64
        Type of the output's values.

    sparse_output : bool, default=True
        Whether the output is a sparse matrix. False: a dense array, for estimators that
        take no sparse X and for `set_output`. It has n_samples times n_nodes values.
        The log-linear models and smoothers of this package need the sparse matrix: they
        read a dense X as windows of symbols.

    Attributes
    ----------
    tree_ : ContextTree
        The contexts, as flat arrays. Node k is column k.

    categories_ : ndarray of shape (n_symbols,)
        The symbols seen in training, sorted.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    sklstruct.StructuredLogLinearLM : Can be fitted to the paths or to windows.
    sklstruct.symbols.context_windows : Converts sentences to windows without copying.

    Notes
    -----
    Building costs O((n + S) m) for n windows over S symbols. The output holds at
    most n (m + 1) entries.

    References
    ----------
    .. [1] A. Nelakanti, C. Archambeau, J. Mairal, F. Bach, G. Bouchard, "Structured
       Penalties for Log-linear Language Models", EMNLP 2013, section 2.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct import SuffixTreeVectorizer
    >>> X = np.array([["the", "cat"], ["a", "cat"], ["", "the"]])
    >>> vectorizer = SuffixTreeVectorizer(max_depth=2, padding="").fit(X)
    >>> print(*vectorizer.get_feature_names_out(), sep=", ")
    context=, context=cat, context=the, context=a cat, context=the cat
    >>> vectorizer.transform(np.array([["my", "cat"]])).toarray()
    array([[1., 1., 0., 0., 0.]])

    A classifier that takes no sparse X:

    >>> from sklearn.naive_bayes import GaussianNB
    >>> from sklearn.pipeline import make_pipeline
    >>> model = make_pipeline(
    ...     SuffixTreeVectorizer(max_depth=2, padding="", sparse_output=False),
    ...     GaussianNB(),
    ... )
    >>> model.fit(X, ["sat", "ran", "cat"]).predict(X)
    array(['sat', 'ran', 'cat'], dtype='<U3')
    """

    _parameter_constraints: dict = {
        "max_depth": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "collapse": ["boolean"],
        "padding": "no_validation",
        "dtype": "no_validation",
        "sparse_output": ["boolean"],
    }

    def __init__(
        self,
        max_depth: int | None = None,
        *,
        collapse: bool = False,
        padding: Any = None,
        dtype: Any = np.float64,
        sparse_output: bool = True,
    ):
        self.max_depth = max_depth
        self.collapse = collapse
        self.padding = padding
        self.dtype = dtype
        self.sparse_output = sparse_output

    def fit(self, X: Any, y: Any = None) -> SuffixTreeVectorizer:
        """Learn the contexts of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Windows of symbols (strings, numbers or booleans), the last column the
            most recent.

        y : None
            Ignored.

        Returns
        -------
        self : SuffixTreeVectorizer
            Fitted vectorizer.

        Raises
        ------
        ValueError
            If X has missing values that are not the padding, or a sparse matrix cannot
            hold values of `dtype`.
        TypeError
            If X mixes strings and numbers, or holds other objects.
        """
        self._fit(X)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn the contexts of X and return their paths.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Windows of symbols.

        y : None
            Ignored.

        Returns
        -------
        paths : CSR matrix or ndarray of shape (n_samples, n_nodes)
            As `transform`.

        Raises
        ------
        ValueError, TypeError, MemoryError
            As `fit` and `transform`.
        """
        self._check_container()
        terminal = self._fit(X)
        # A training sample always reaches the end of its node.
        return self._to_matrix(terminal, self.tree_.spans()[terminal])

    def transform(self, X: Any) -> Any:
        """Paths of the contexts of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Windows of symbols; unknown symbols end the path.

        Returns
        -------
        paths : CSR matrix or ndarray of shape (n_samples, n_nodes)
            Values are numbers of suffixes. Sparse array or sparse matrix, by
            scikit-learn's configuration ``sparse_interface``. With
            ``sparse_output=False`` a dense array, or the data frame that `set_output`
            asks for.

        Raises
        ------
        ValueError
            If a data frame is asked for and `sparse_output` is True.
        MemoryError
            If the dense array needs more than this machine's memory.
        """
        check_is_fitted(self)
        self._check_container()
        codes, _ = read_windows(
            self, X, self.padding, reset=False, symbols=self.categories_
        )
        node, matched = find_histories(self.tree_, self._histories(codes))
        return self._to_matrix(node, matched)

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns: ``"context="`` and the context, oldest first.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Only checked against the names seen in `fit`.

        Returns
        -------
        names : object ndarray of shape (n_nodes,)
            Symbols are separated by blanks, and written as JSON strings
            where one of them is empty or holds white space. A collapsed column
            has the name of its longest context.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        symbols = [str(s) for s in self.categories_.tolist()]
        if any(not s or s.split() != [s] for s in symbols):
            symbols = [json.dumps(s, ensure_ascii=False) for s in symbols]
        names = np.empty(self.tree_.n_nodes, dtype=object)
        for i, context in enumerate(self.tree_.contexts()):
            names[i] = "context=" + " ".join([symbols[s] for s in context])
        return names

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, X):
        dtype = np.dtype(self.dtype)
        if dtype.kind not in "biufc" or dtype == np.float16:
            raise ValueError(
                f"dtype: a sparse matrix of SciPy cannot hold {dtype}; use float32 or "
                "float64"
            )
        codes, self.categories_ = read_windows(self, X, self.padding, reset=True)
        build = suffix_tree if self.collapse else ContextTree.from_histories
        histories = self._histories(codes)
        self.tree_, terminal = build(histories, self.categories_.size)
        return terminal

    def _histories(self, codes):
        return Histories.from_windows(codes, self.max_depth or codes.shape[1])

    def _check_container(self):
        """ValueError if the output is sparse and a data frame is asked for.

        scikit-learn would raise an error only after the work, without naming
        `sparse_output`.
        """
        container = _get_output_config("transform", self)["dense"]
        if self.sparse_output and container != "default":
            raise ValueError(
                f"sparse_output=True: a {container} data frame cannot hold the sparse "
                "output; set sparse_output=False, or set_output(transform='default')"
            )

    def _to_matrix(self, node, matched):
        shape = node.size, self.tree_.n_nodes
        if not self.sparse_output:
            check_memory(
                float(shape[0]) * shape[1] * np.dtype(self.dtype).itemsize,
                f"sparse_output=False: the dense output of {shape[0]} samples and "
                f"{shape[1]} contexts",
                "use sparse_output=True, or a smaller max_depth",
            )
        data, indices, indptr = path_arrays(self.tree_, node, matched)
        paths = _align_api_if_sparse(
            sp.csr_matrix(
                (data.astype(self.dtype, copy=False), indices, indptr), shape=shape
            )
        )
        paths.has_canonical_format = True
        return paths if self.sparse_output else paths.toarray()
