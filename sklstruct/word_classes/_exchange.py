"""ExchangeClustering: classes of words with similar neighbours."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import ArrayLike
from scipy.special import xlogy
from sklearn.utils import check_random_state

from .._checks import check_memory
from .._compat import (
    CallbackSupportMixin,
    Interval,
    StrOptions,
    _fit_context,
    with_callbacks,
)
from .._progress import Progress
from . import _exchange_fast
from ._clustering import WordClustering
from ._counts import count_neighbours


class ExchangeClustering(CallbackSupportMixin, WordClustering):
    r"""Word classes by the exchange algorithm.

    The algorithm maximises the log-likelihood of the neighbours of the words, given
    only the class of each word,

    .. math::
        \ell = \sum_{w, f} N(w, f) \ln P(f \mid c(w))
        = \sum_{c, f} N(c, f) \ln N(c, f) - \sum_c N(c) \ln N(c),

    where the features f of a word w are the words at the places `offsets` around it.
    N(w, f) is the number of times that f is a neighbour of w, N(c, f) is the sum of
    N(w, f) over the words of class c, and N(c) the sum of N(c, f) over all features.
    Every word in turn is moved to the class with the largest :math:`\ell`, until no
    word moves.

    Parameters
    ----------
    n_clusters : int, default=100
        Number of classes, at least 1 and at most the number of distinct words.

    offsets : tuple of int, default=(1, 2)
        Positions of the neighbours, distinct and not 0: k > 0 is the word k positions
        after the word, k < 0 the word -k positions before. The default, the words that
        follow, is for classes in contexts; ``(-1, 1)`` is for classes that are
        predicted.

    max_iter : int, default=12
        Largest number of passes over the words, at least 0 (the start alone). The
        search ends there without a warning, because the last passes change little.

    init : {"frequent", "random"}, default="frequent"
        The order in which words are visited. "frequent": from the most frequent to the
        least. "random": drawn with probabilities in proportion to the counts; the
        clusterings then differ, with about the same objective. At the start each of
        the first `n_clusters` words gets a class, every other word the best class at
        its turn.

    padding : object, default=None
        The symbol that marks missing history in windows; see
        :class:`~sklstruct.context_tree.SuffixTreeVectorizer`. It has no class.

    random_state : int, RandomState instance or None, default=None
        Used with ``init="random"``.

    verbose : int, default=0
        v > 0 prints the moves and the gain of every v-th pass.

    Attributes
    ----------
    symbols_ : ndarray of shape (n_symbols,)
        The words that have neighbours, sorted.

    labels_ : int32 ndarray of shape (n_symbols,)
        The class of each symbol. Classes are numbered from the most to the least
        frequent.

    n_clusters_ : int
        Number of classes, and the class that `classes_of` returns for words that were
        not seen in `fit`.

    objective_ : float
        :math:`\ell`, in nats.

    n_iter_ : int
        Number of passes.

    n_features_in_ : int
        Number of columns of the windows. Not set by a fit on sentences.

    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if they had string names.

    See Also
    --------
    TaxonomyClustering : Classes from a tree over the words.

    ContextRefiner : Uses classes in the contexts of language models.

    Notes
    -----
    A pass takes at most (number of distinct pairs (w, f)) × `n_clusters` additions. The
    memory is 12 bytes for each feature and class.

    References
    ----------
    .. [1] R. Kneser, H. Ney, "Improved clustering techniques for class-based
       statistical language modelling", Eurospeech 1993 (the exchange algorithm).

    .. [2] J. Uszkoreit, T. Brants, "Distributed Word Clustering for Large Scale
       Class-Based Language Modeling in Machine Translation", ACL 2008 (words, not
       classes, as features).

    Examples
    --------
    >>> from sklstruct.word_classes import ExchangeClustering
    >>> text = ["a cat sat", "a dog sat", "one cat ran", "one dog ran"]
    >>> clustering = ExchangeClustering(n_clusters=3).fit(text)
    >>> for c in range(3):
    ...     print(*clustering.symbols_[clustering.labels_ == c])
    a one
    cat dog
    ran sat
    >>> clustering.classes_of(["dog", "cow"]).tolist()
    [1, 3]
    """

    _parameter_constraints: dict = {
        "n_clusters": [Interval(numbers.Integral, 1, None, closed="left")],
        "offsets": [tuple, list],
        "max_iter": [Interval(numbers.Integral, 0, None, closed="left")],
        "init": [StrOptions({"frequent", "random"})],
        "padding": "no_validation",
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        n_clusters: int = 100,
        *,
        offsets: Iterable[int] = (1, 2),
        max_iter: int = 12,
        init: str = "frequent",
        padding: Any = None,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_clusters = n_clusters
        self.offsets = offsets
        self.max_iter = max_iter
        self.init = init
        self.padding = padding
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Any, y: ArrayLike | None = None) -> ExchangeClustering:
        """Cluster the words of windows, or of sentences.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_columns), TextFile or sentences
            With `y`, or as an array or data frame of two dimensions: windows of
            symbols, the last column the most recent. Else sentences: iterables of
            symbols, or strings, which are split on whitespace.

        y : array-like of shape (n_samples,), default=None
            The symbol after each window. For an offset k > 0 the word is column -k and
            its feature y; for k < 0 the word is y and its feature column k. None: the
            last column of the windows.

        Returns
        -------
        self : ExchangeClustering
            Fitted clustering.

        Raises
        ------
        ValueError
            If there are fewer words than `n_clusters`, or the windows are shorter than
            the largest offset.
        """
        return self._fit_counts(*count_neighbours(self, X, y, self.offsets))

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit_counts(
        self, symbols: np.ndarray, counts: sp.csr_array, n_samples: int, n_columns: int
    ) -> ExchangeClustering:
        """Cluster the words of windows whose neighbours were counted elsewhere.

        Parameters
        ----------
        symbols : ndarray of shape (n_symbols,)
            The words, sorted.

        counts : CSR array of shape (n_symbols, n_features)
            N(w, f), as the workers of a cluster count them.

        n_samples, n_columns : int
            The shape of the windows.

        Returns
        -------
        self : ExchangeClustering
            Fitted clustering.

        Raises
        ------
        ValueError
            If there are fewer words than `n_clusters`.
        """
        self.n_features_in_ = n_columns
        return self._fit_counts(symbols, counts, n_samples)

    def _fit_counts(self, symbols, counts, n_samples):
        weight = np.asarray(counts.sum(axis=1, dtype=np.int64)).ravel()
        seen = weight > 0
        if not seen.all():
            counts, weight, symbols = counts[seen], weight[seen], symbols[seen]
        if self.n_clusters > symbols.size:
            raise ValueError(
                f"n_clusters={self.n_clusters} is more than the {symbols.size} "
                f"distinct word(s) with neighbours in X (n_samples={n_samples}); "
                "lower n_clusters, or n_words of named_estimator"
            )
        label, table = self._search(counts, weight)
        self.n_clusters_ = int(self.n_clusters)
        size = np.bincount(label, weights=weight, minlength=self.n_clusters_)
        rank = np.empty(self.n_clusters_, dtype=np.int32)
        rank[np.argsort(-size, kind="stable")] = np.arange(self.n_clusters_)
        self._set_symbols(symbols, rank[label])
        self.objective_ = float(table - xlogy(size, size).sum())
        return self

    def _search(self, counts, weight):
        """(label of each word, sum of N(c, f) ln N(c, f))."""
        counts, alone = _shared_features(counts)
        n_words, n_features = counts.shape
        k = int(self.n_clusters)
        check_memory(
            12.0 * n_features * k,
            f"the table of {n_features} features and {k} classes",
            "use fewer clusters or offsets",
        )
        words = self._order(weight)
        largest = int(counts.sum(axis=0).max()) if counts.nnz else 0
        # The kernel adds the word to its own class, which has it already, before it
        # corrects the score: h is needed up to twice the largest count.
        x = np.arange(2 * largest + 2, dtype=np.float64)
        label = np.full(n_words, -1, dtype=np.int32)
        table = np.zeros((n_features, k), dtype=np.int32)
        one_more = np.zeros((n_features, k))
        # Each of the first words is the first of a class.
        label[words[:k]] = np.arange(k, dtype=np.int32)
        first, h = counts[words[:k]].tocoo(), xlogy(x, x)
        table[first.col, first.row] = first.data
        one_more[first.col, first.row] = h[first.data + 1] - h[first.data]
        data = (
            counts.indptr.astype(np.int64),
            counts.indices.astype(np.int32, copy=False),
            counts.data.astype(np.int32, copy=False),
            weight,
        )
        state = (h, label, table, one_more, weight[words[:k]])
        score = np.empty(k)
        with Progress.of_fit(self, self.max_iter) as progress:
            _exchange_fast.exchange(*data, words[k:], *state, score)
            self.n_iter_ = 0
            for _ in range(self.max_iter if k > 1 else 0):
                moves, gain = _exchange_fast.exchange(*data, words, *state, score)
                self.n_iter_ += 1
                stops = progress.step(
                    f"pass {self.n_iter_}: {moves} words moved, gain {gain:.6g}"
                )
                if stops or moves == 0:
                    break
        return label, float(xlogy(table, table).sum()) + alone

    def _order(self, weight):
        if self.init == "frequent":
            key = -weight.astype(np.float64)
        else:
            # The order of independent exponential times with the counts as rates.
            rng = check_random_state(self.random_state)
            key = rng.exponential(size=weight.size) / weight
        return np.argsort(key, kind="stable").astype(np.int32)


def _shared_features(counts):
    """(counts without features of a single word, sum of n ln n of these features).

    The contribution of such a feature is the same in every class.
    """
    shared = np.bincount(counts.indices, minlength=counts.shape[1]) > 1
    alone = counts.data[~shared[counts.indices]]
    return counts[:, shared], float(xlogy(alone, alone).sum())
