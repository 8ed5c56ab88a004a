"""ContextRefiner: contexts of words and word classes."""

from __future__ import annotations

import numbers
import pickle
import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from typing import Any, Self

import joblib
import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .._checks import INT32_MAX, check_count
from .._compat import (
    BaseEstimator,
    _check_feature_names_in,
    _fit_context,
)
from .._parallel import ThreadMap
from ..context_tree import HistoryColumns, check_windows
from ..context_tree._vectorizer import WindowTransformer
from ..symbols import Labels, is_nan, learn_symbols
from ..symbols._encoding import SymbolIndex
from ._exchange import ExchangeClustering

# Paths by name. The class comes before the word, so that a rare word backs off to its
# class before the context gets shorter.
PATHS = {
    "short": "c50(1) w(1) c50(2) w(2) c50(3) c50(4)",
    "long": "c20(1) c100(1) w(1) c20(2) c100(2) w(2) c100(3) c20(3) c50(4)",
}
# Clusterings that refiners share inside of `clustering_cache`. A context variable,
# because the pipelines of scikit-learn fit the refiners and pass no further arguments.
_shared: ContextVar[dict | None] = ContextVar("shared clusterings", default=None)

_STEP = re.compile(r"(?:c([1-9]\d*)|(w))\(([1-9]\d*)\)")


class ContextRefiner(WindowTransformer):
    r"""Contexts of words and word classes, instead of words alone.

    .. math::
        (w_{-m}, \ldots, w_{-1}) \mapsto (g_d(w_{-p_d}), \ldots, g_1(w_{-p_1})),

    where step j of the path :math:`(g_1, p_1), \ldots, (g_d, p_d)` consists of a map
    :math:`g_j` (a clustering, or the word itself) and a position :math:`p_j`, counted
    back from the newest word. A model over the refined contexts uses the longest
    beginning of the path that occurred in training. If the class of a word comes before
    the word, a model uses at least the class of a rare word. The output is windows,
    with the first step in the last column. Any model over a context tree can be fitted
    to these windows, and its probabilities sum to 1.

    Parameters
    ----------
    path : str or list of (map, position), default="short"
        - ``"short"``: ``"c50(1) w(1) c50(2) w(2) c50(3) c50(4)"``;
        - ``"long"``: ``"c20(1) c100(1) w(1) c20(2) c100(2) w(2) c100(3) c20(3)
          c50(4)"``;
        - any other path in this notation, ``w(p)`` the word at position p and
          ``cn(p)`` its class in ``ExchangeClustering(n)``;
        - a list of pairs: the map is ``"word"``, a number of classes (of an
          `ExchangeClustering`), or a clustering, which is cloned: an estimator with
          ``fit(X, y)``, ``classes_of(symbols)`` and ``n_clusters_``. A
          :class:`~sklearn.frozen.FrozenEstimator` around a fitted clustering is not
          fitted again.

        Position 1 is the newest word. Clusterings with the same parameters are fitted
        once.

    padding : object, default=None
        The symbol that marks missing history in X; also set in the clusterings. See
        :class:`~sklstruct.context_tree.SuffixTreeVectorizer`.

    Attributes
    ----------
    clusterings_ : list
        The fitted clusterings, in the order of their first place on the path.

    path_ : list of (int, int)
        For each step the index of its clustering in ``clusterings_`` (-1: the word)
        and its position.

    symbols_ : ndarray of shape (n_words,)
        The words, sorted.

    n_symbols_ : int
        Number of ids of the output; each map has its own range of ids.

    n_features_in_ : int
        Number of columns of X.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns of X, if it had string names.

    See Also
    --------
    ExchangeClustering : The clustering ``cn`` of the notation.

    sklstruct.StructuredLogLinearLM : The model that benefits most from refined
    contexts.

    Notes
    -----
    Missing history is -1 in the output, for any `padding`: the next step of a pipeline
    needs ``padding=-1`` (a :class:`~sklstruct.language_model.LanguageModel` sets it). A
    word that `fit` did not see is -1 in the steps of words, and a separate class in the
    steps of classes. A path ends at the first -1.

    A refined model cannot be written as an ARPA file: its contexts are not sequences of
    words.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.word_classes import ContextRefiner
    >>> X = np.array([["", "a"], ["a", "cat"], ["", "one"], ["one", "dog"]])
    >>> y = np.array(["cat", "sat", "dog", "sat"])
    >>> refiner = ContextRefiner("c2(1) w(1) c2(2)", padding="").fit(X, y)
    >>> refiner.get_feature_names_out().tolist()
    ['c2(2)', 'w(1)', 'c2(1)']
    >>> refiner.transform(X)
    array([[-1,  0,  4],
           [ 4,  1,  5],
           [-1,  3,  4],
           [ 4,  2,  5]], dtype=int32)

    Below a model:

    >>> from sklearn.pipeline import make_pipeline
    >>> from sklstruct import StructuredLogLinearLM
    >>> model = make_pipeline(refiner, StructuredLogLinearLM(padding=-1)).fit(X, y)
    >>> model.predict_proba(X).shape
    (4, 3)
    """

    _parameter_constraints: dict = {
        "path": [str, list, tuple],
        "padding": "no_validation",
    }

    def __init__(self, path: str | Sequence = "short", *, padding: Any = None):
        self.path = path
        self.padding = padding

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Learn the words and cluster them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Windows of symbols, the last column the most recent.

        y : array-like of shape (n_samples,), default=None
            The symbol after each window, for the clusterings.

        Returns
        -------
        self : ContextRefiner
            Fitted transformer.

        Raises
        ------
        ValueError
            If the path is malformed, has the same step twice or a position beyond the
            windows, or a clustering cannot be fitted.
        """
        steps = self._read_path()
        checked = check_windows(self, X, self.padding, reset=True)
        self._check_positions(steps, checked.shape[1])
        symbols = learn_symbols(checked, self.padding)
        known = self._with_padding(symbols)
        first = symbols.size
        clusterings: list[Any] = []
        number, path = {}, []
        for key, clustering, position in steps:
            if key == "word":
                path.append((-1, position))
                continue
            if key not in number:
                number[key] = len(clusterings)
                clustering = fit_clustering(key, clustering, X, y)
                if not hasattr(clustering, "n_clusters_"):
                    raise ValueError(
                        f"path: {type(clustering).__name__} has no attribute "
                        "n_clusters_ after fit, which a clustering of words must have"
                    )
                clusterings.append(clustering)
            path.append((number[key], position))
        word = np.full(known.size + 2, -1, dtype=np.int32)
        word[: symbols.size] = np.arange(symbols.size)
        tables, names = [word], ["w"]
        for clustering in clusterings:
            table, size = self._table(clustering, symbols, known.size, first)
            tables.append(table)
            names.append(_name(clustering, names))
            first += size
        if first > INT32_MAX:
            raise ValueError(f"path needs {first} symbols, more than {INT32_MAX}")
        self.symbols_, self.n_symbols_ = symbols, first
        self.clusterings_, self.path_ = clusterings, path
        self._missing = np.zeros(known.size + 2, dtype=bool)
        self._missing[symbols.size : known.size] = self._missing[-1] = True
        self._known, self._tables, self._names = known, np.array(tables), names
        # Made here: methods of a fitted estimator set no attribute.
        self._encoder = SymbolIndex(known)
        return self

    def _read_path(self):
        """(key, clustering or None, position) of each step."""
        path = self.path
        if isinstance(path, str):
            path = _parse(path)
        steps, seen = [], set()
        for i, step in enumerate(path):
            if not isinstance(step, list | tuple) or len(step) != 2:
                raise ValueError(
                    f"path[{i}] must be a pair (clustering or 'word', position), got "
                    f"{step!r:.60}"
                )
            what, position = step
            check_count(f"path[{i}]: the position", position, 1)
            if isinstance(what, numbers.Integral) and not isinstance(what, bool):
                what = ExchangeClustering(int(what))
            if isinstance(what, str) and what == "word":
                key, what = "word", None
            elif (
                not isinstance(what, str | type)
                and hasattr(what, "fit")
                and hasattr(what, "classes_of")
            ):
                what = clone(what)
                if "padding" in what.get_params(deep=False):
                    what.set_params(padding=self.padding)
                key = clustering_key(what)
            else:
                raise ValueError(
                    f"path[{i}] must begin with 'word', a number of classes or a "
                    f"clustering with fit and classes_of, got {what!r:.60}"
                )
            if (key, position) in seen:
                raise ValueError(
                    f"path[{i}] = {step!r:.60} is already on the path: remove it"
                )
            seen.add((key, position))
            steps.append((key, what, int(position)))
        if not steps:
            raise ValueError("path is empty: it needs at least one step")
        return steps

    def _check_positions(self, steps, width):
        farthest = max(position for _, _, position in steps)
        if farthest > width:
            raise ValueError(
                f"path has position {farthest}, but the windows of X have {width} "
                "column(s): shorten the path, or make the windows longer (max_depth of "
                "a LanguageModel)"
            )

    def _table(self, clustering, symbols, n_known, first):
        """(id of each known symbol, number of ids) of one clustering."""
        size = int(clustering.n_clusters_) + 1  # one for unseen words
        label = np.asarray(clustering.classes_of(symbols))
        if label.shape != symbols.shape or label.dtype.kind not in "iu":
            raise ValueError(
                f"path: classes_of of {type(clustering).__name__} must return an "
                "integer for each word"
            )
        if label.size and not (-1 <= label.min() and label.max() < size):
            raise ValueError(
                f"path: {type(clustering).__name__} returns classes from {label.min()} "
                f"to {label.max()}: they must be from 0 to n_clusters_ = {size - 1}, "
                "the class of unseen words"
            )
        table = np.full(n_known + 2, -1, dtype=np.int32)
        table[: label.size] = np.where(label < 0, -1, first + label)
        table[n_known] = first + size - 1
        return table, size

    def _with_padding(self, symbols):
        """The known symbols, with the padding as the last one."""
        padding = self.padding
        if padding is None or is_nan(padding):
            return symbols  # their id is -1 in any case
        text = isinstance(padding, str | bytes)
        if text != (symbols.dtype.kind in "OSU"):
            return symbols  # cannot occur among these symbols
        if symbols.dtype.kind in "OSU":
            return np.append(symbols.astype(object), padding)
        return np.append(symbols, padding)

    def transform(self, X: ArrayLike) -> np.ndarray:
        """The symbols of the path of each window.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Windows of symbols.

        Returns
        -------
        refined : int32 ndarray of shape (n_samples, n_steps)
            The first step of the path in the last column; -1 for missing symbols.
        """
        return self.columns(X).windows()

    def columns(self, X: ArrayLike) -> HistoryColumns:
        """`transform`, one step of the path at a time when it is read.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns)
            Windows of symbols.

        Returns
        -------
        columns : HistoryColumns
            Column k is the k-th step; ids are below ``n_symbols_``.
        """
        check_is_fitted(self)
        X = check_windows(self, X, self.padding, reset=False, symbols=self._known)
        n, width = X.shape
        ids = self._encoder.ids(X, unknown=self._known.size)

        # In a sliding view the symbols before missing history belong to the previous
        # sentence, and count as missing.
        ended = [np.zeros(n, dtype=bool)]

        def make(k):
            clustering, position = self.path_[k - 1]
            while len(ended) <= position:
                symbol = ids[:, width - len(ended)]
                ended.append(ended[-1] | self._missing[symbol])
            column = self._tables[clustering + 1][ids[:, width - position]]
            column[ended[position]] = -1
            return column

        return HistoryColumns(make, n, len(self.path_))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """Names of the columns: the map and the position of each step.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Only checked against the names seen in `fit`.

        Returns
        -------
        names : object ndarray of shape (n_steps,)
            As in the notation of `path`, the last step first.
        """
        check_is_fitted(self)
        _check_feature_names_in(self, input_features, generate_names=False)
        names = [f"{self._names[c + 1]}({p})" for c, p in reversed(self.path_)]
        return np.array(names, dtype=object)

    @cached_property
    def _encoder(self):
        return SymbolIndex(self._known)

    def __sklstruct_ids__(self, labels: Labels) -> dict[str, Any]:
        """Parameters for windows of ids, also of the clusterings."""
        settings = super().__sklstruct_ids__(labels)
        if isinstance(self.path, list | tuple):
            settings["path"] = [
                (_for_ids(step[0], labels), *step[1:])
                if isinstance(step, list | tuple) and step
                else step
                for step in self.path
            ]
        return settings


def _parse(text):
    """The pairs of a path in short notation."""
    text = PATHS.get(text, text)
    steps = []
    for word in text.split():
        found = _STEP.fullmatch(word)
        if found is None:
            raise ValueError(
                f"path holds {word!r:.60}; it must be {' or '.join(map(repr, PATHS))}, "
                "or steps such as 'c50(1) w(1) c50(2)': a class or a word and its "
                "position"
            )
        what = "word" if found[2] else int(found[1])
        steps.append((what, int(found[3])))
    return steps


@contextmanager
def clustering_cache(fitted: dict) -> Iterator[None]:
    """Context in which `fit_clustering` fits equal clusterings once.

    fitted: the clusterings, by key. Empty at first; several contexts may share one.
    """
    token = _shared.set(fitted)
    try:
        yield
    finally:
        _shared.reset(token)


def clustering_key(clustering: Any) -> tuple:
    """Equal for equal clusterings."""
    try:
        return type(clustering), joblib.hash(clustering.get_params())
    except pickle.PicklingError:  # a function of a notebook
        return type(clustering), id(clustering)


def fit_clustering(key: tuple, clustering: Any, X: Any, y: Any) -> Any:
    """The clustering fitted to X and y, or one of this key that is shared and was."""
    fitted = _shared.get()
    # The samples are stored too: while they exist no other object has their id.
    at = (key, id(X), id(y))
    if fitted is not None and at in fitted:
        return fitted[at][0]
    clustering.fit(X, y)
    if fitted is not None:
        store_clustering(fitted, key, clustering, X, y)
    return clustering


def store_clustering(fitted: dict, key: tuple, clustering: Any, X: Any, y: Any) -> None:
    """Store a fitted clustering where `fit_clustering` finds it for this X and y."""
    fitted[key, id(X), id(y)] = clustering, X, y


def unfitted_clusterings(refiner: ContextRefiner, n_columns: int) -> dict:
    """The clusterings of a path, not fitted, by key; ValueError for a path that windows
    of `n_columns` columns do not allow."""
    steps = refiner._read_path()
    refiner._check_positions(steps, n_columns)
    return {key: clustering for key, clustering, _ in steps if key != "word"}


def fit_clusterings(
    refiners: list[ContextRefiner], X: Any, y: Any, n_jobs: int | None = None
) -> None:
    """Fit the clusterings of several refiners, in threads, before these are fitted.

    For a context of `clustering_cache`, in which `fit_clustering` finds them.
    """
    todo: dict = {}
    for refiner in refiners:
        for key, clustering in unfitted_clusterings(refiner, X.shape[1]).items():
            # A clustering that cannot be hashed has no key under which the refiner
            # would find its fit.
            if key[1] != id(clustering):
                todo[key] = clustering
    with ThreadMap(n_jobs) as parallel:
        parallel(lambda key: fit_clustering(key, todo[key], X, y), list(todo))


def _name(clustering, taken):
    name = f"c{clustering.n_clusters_}"
    while name in taken:
        name += "'"
    return name


class _NamedClustering(BaseEstimator):
    """A clustering that was fitted to words, for ids of these words."""

    def __init__(self, clustering, names):
        self.clustering = clustering
        self.names = names

    def fit(self, X, y=None):
        return self

    @property
    def n_clusters_(self):
        return self.clustering.n_clusters_

    def classes_of(self, symbols):
        ids = np.asarray(symbols)
        labels = np.append(self.clustering.classes_of(self.names), -1)
        return labels[np.where((ids >= 0) & (ids < labels.size - 1), ids, -1)]


def _for_ids(what, labels):
    """The clustering of a step, for windows of ids of these labels."""
    if isinstance(what, FrozenEstimator):
        return _NamedClustering(what, labels.symbols)
    if not hasattr(what, "__sklstruct_ids__") or isinstance(what, type):
        return what
    return clone(what).set_params(**what.__sklstruct_ids__(labels))
