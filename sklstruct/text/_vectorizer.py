"""NgramVectorizer: texts to rows of counts or tf-idf of n-grams."""

from __future__ import annotations

import numbers
from collections.abc import Iterable, Mapping
from typing import Any, Literal

import numpy as np
import scipy.sparse as sp
from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS
from sklearn.pipeline import FeatureUnion
from sklearn.utils.validation import check_is_fitted

from .._compat import (
    N_JOBS,
    Interval,
    RealNotInt,
    StrOptions,
    TextEstimator,
    TransformerMixin,
    _align_api_if_sparse,
    _fit_context,
)
from ..symbols import object_array, plain_list
from ._ngrams import Columns, CountedNgrams, FoundNgrams, NgramTrie, side_by_side
from ._reading import TOKEN, Reader, Words
from ._texts import Texts, as_texts

# Largest number of n-grams (4 bytes each) that are kept from the first pass to the
# second; every byte of the texts is assumed to begin n-grams.
_MOST_KEPT = 1 << 26
# Constraints of `min_df` and `max_df`.
_NUMBER_OR_SHARE = [
    Interval(numbers.Integral, 1, None, closed="left"),
    Interval(RealNotInt, 0, 1, closed="both"),
]


def _as_terms(vocabulary: Any) -> list[str]:
    """The n-grams of a vocabulary in the order of their columns."""
    if isinstance(vocabulary, str):
        raise ValueError("vocabulary must be a list of n-grams, got one string")
    if isinstance(vocabulary, Mapping):
        terms = sorted(vocabulary, key=vocabulary.__getitem__)
        if [vocabulary[term] for term in terms] != list(range(len(terms))):
            raise ValueError(
                f"vocabulary must give each column from 0 to {len(terms) - 1} once"
            )
    elif not isinstance(vocabulary, Iterable):
        raise ValueError(
            "vocabulary must be a mapping or an iterable of strings, got "
            f"{vocabulary!r:.60}"
        )
    else:
        terms = list(plain_list(vocabulary))
        if isinstance(vocabulary, set | frozenset):
            terms = sorted(terms)
    if not all(isinstance(term, str) for term in terms):
        raise ValueError("vocabulary must hold strings only")
    if not terms:
        raise ValueError("vocabulary must hold at least one n-gram")
    if len(set(terms)) < len(terms):
        twice = next(term for i, term in enumerate(terms) if term in terms[:i])
        raise ValueError(f"vocabulary must hold each n-gram once, got {twice!r} twice")
    return terms


def idf_of(n_texts: int, n_with: np.ndarray) -> np.ndarray:
    """Inverse document frequencies of n-grams that are in `n_with` of the texts."""
    return np.log((1.0 + n_texts) / (1.0 + n_with)) + 1.0


class NgramVectorizer(TransformerMixin, TextEstimator):
    r"""Transforms texts to a sparse matrix of tf-idf values, or of counts, of n-grams.

    The matrix is equal to the matrix of scikit-learn's
    :class:`~sklearn.feature_extraction.text.TfidfVectorizer` with the same parameters,
    and is computed several times as fast. With :math:`c_{tg}` for the number of
    occurrences of n-gram g in text t, :math:`d_g` for the number of the n training
    texts that contain g, and natural logarithms,

    .. math::
        x_{tg} = f(c_{tg}) \left(\log \frac{1 + n}{1 + d_g} + 1\right), \qquad
        f(c) = c \text{ or } 1 + \log c \text{ for } c > 0,

    and each row is divided by its norm. The columns are sorted as strings.

    Parameters
    ----------
    analyzer : {"word", "char", "char_wb"}, default="word"
        N-grams of words (two or more letters, digits or underscores), of characters, or
        of characters inside words, with a space before and after each word.

    ngram_range : tuple (shortest, longest), default=(1, 1)
        Lengths of the n-grams, in words or characters; 1 <= shortest <= longest.

    lowercase : bool, default=True
        Whether to convert the texts to lower case first.

    stop_words : {"english"}, list of str or None, default=None
        Words to leave out before n-grams are formed; "english" is scikit-learn's list.
        Only for ``analyzer="word"``.

    min_df : int or float, default=1
        Least number of training texts with an n-gram. An int of at least 1 is a number
        of texts; a float from 0 to 1 is a fraction.

    max_df : int or float, default=1.0
        N-grams in more training texts are left out. An int or a float as in `min_df`.

    max_features : int or None, default=None
        Largest number of n-grams; the most frequent n-grams are kept. At least 1.

    vocabulary : mapping, iterable of str or None, default=None
        N-grams of the columns, in this order, or a mapping to their columns. `min_df`,
        `max_df` and `max_features` are then ignored. None: the n-grams of the training
        texts.

    use_idf : bool, default=True
        Whether to multiply by the inverse document frequency. For the matrix of counts
        use ``use_idf=False, norm=None``.

    sublinear_tf : bool, default=False
        Whether f(c) is 1 + log c.

    norm : {"l1", "l2"} or None, default="l2"
        Norm by which rows are divided. None: rows are not divided.

    n_jobs : int or None, default=None
        Threads that learn the n-grams and compute the rows, each for a part of the
        texts. None: 1 unless in a `joblib.parallel_config` context, -1: all processors.
        The result does not depend on `n_jobs`.

    Attributes
    ----------
    vocabulary_ : dict
        Column of each n-gram. Each access makes a new dict.

    idf_ : ndarray of shape (n_features,)
        Inverse document frequency of each column. Only with ``use_idf=True``.

    n_texts_ : int
        Number of training texts.

    See Also
    --------
    sklstruct.linear.ngram_parents : The tree of the n-grams, for penalties.
    sklstruct.LinearClassifier : A classifier for many sparse features.
    sklstruct.HierarchicalClassifier : A classifier for many classes.

    Notes
    -----
    `fit_transform` goes through the texts twice, first to learn the n-grams, then to
    compute the rows. The memory holds the matrix, all different n-grams of the training
    texts (before `min_df` is applied), and buffers of a bounded size. For strings that
    are not ASCII Python makes and keeps a copy in UTF-8.

    The idf is that of TfidfVectorizer with ``smooth_idf=True``, the default, and the
    values are float64. Instead of `preprocessor`, `tokenizer`, `token_pattern` and
    `strip_accents`, change the texts first, or use TfidfVectorizer in the same
    pipelines. Instead of `binary` use :class:`~sklearn.preprocessing.Binarizer` after a
    vectorizer of counts.

    Examples
    --------
    >>> from sklstruct.text import NgramVectorizer
    >>> texts = ["to be or not to be", "to see or not"]
    >>> vectorizer = NgramVectorizer(ngram_range=(1, 2), min_df=2)
    >>> vectorizer.fit_transform(texts).toarray().round(2)
    array([[0.38, 0.38, 0.38, 0.76],
           [0.5 , 0.5 , 0.5 , 0.5 ]])
    >>> vectorizer.get_feature_names_out().tolist()
    ['not', 'or', 'or not', 'to']
    """

    _parameter_constraints: dict = {
        "analyzer": [StrOptions({"word", "char", "char_wb"}), callable],
        "ngram_range": [tuple],
        "lowercase": ["boolean"],
        "stop_words": [StrOptions({"english"}), "array-like", set, frozenset, None],
        "min_df": _NUMBER_OR_SHARE,
        "max_df": _NUMBER_OR_SHARE,
        "max_features": [Interval(numbers.Integral, 1, None, closed="left"), None],
        "vocabulary": "no_validation",
        "use_idf": ["boolean"],
        "sublinear_tf": ["boolean"],
        "norm": [StrOptions({"l1", "l2"}), None],
        "n_jobs": N_JOBS,
    }

    # Type of the values, which are computed in float64. `TextClassifier` sets "float32"
    # for its vectorizers: it takes half of the memory, and its models are float32.
    _dtype = "float64"

    def __init__(
        self,
        *,
        analyzer: Literal["word", "char", "char_wb"] = "word",
        ngram_range: tuple[int, int] = (1, 1),
        lowercase: bool = True,
        stop_words: Literal["english"] | Iterable[str] | None = None,
        min_df: float = 1,
        max_df: float = 1.0,
        max_features: int | None = None,
        vocabulary: Mapping[str, int] | Iterable[str] | None = None,
        use_idf: bool = True,
        sublinear_tf: bool = False,
        norm: Literal["l1", "l2"] | None = "l2",
        n_jobs: int | None = None,
    ):
        self.analyzer = analyzer
        self.ngram_range = ngram_range
        self.lowercase = lowercase
        self.stop_words = stop_words
        self.min_df = min_df
        self.max_df = max_df
        self.max_features = max_features
        self.vocabulary = vocabulary
        self.use_idf = use_idf
        self.sublinear_tf = sublinear_tf
        self.norm = norm
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any = None) -> NgramVectorizer:
        """Learn the n-grams of texts and their inverse document frequencies.

        Parameters
        ----------
        X : iterable of str
            Texts: a list, an array, a Series, an Arrow array.

        y : None
            Ignored.

        Returns
        -------
        self : NgramVectorizer
            Fitted vectorizer.

        Raises
        ------
        ValueError
            If a parameter is out of its range, X is one string or has an entry that is
            not a string, or no n-gram is left.
        """
        self._fit(as_texts(X), keep=False)
        return self

    def fit_transform(self, X: Any, y: Any = None) -> Any:
        """Learn the n-grams of texts and return their rows.

        Parameters
        ----------
        X : iterable of str
            Texts.

        y : None
            Ignored.

        Returns
        -------
        rows : CSR matrix of shape (n_texts, n_features)
            As in `transform`.

        Raises
        ------
        ValueError
            As in `fit`.
        """
        return rows_of(self, as_texts(X), fit=True)

    def transform(self, X: Any) -> Any:
        """Rows of texts.

        Parameters
        ----------
        X : iterable of str
            Texts. N-grams that are not columns are ignored; a text without any n-gram
            of a column has a row of zeros.

        Returns
        -------
        rows : CSR matrix of shape (n_texts, n_features)
            Sorted indices. Sparse array or sparse matrix, by scikit-learn's
            configuration ``sparse_interface``.

        Raises
        ------
        ValueError
            If X is one string, or has an entry that is not a string.
        """
        check_is_fitted(self)
        return rows_of(self, as_texts(X))

    def get_feature_names_out(self, input_features: Any = None) -> np.ndarray:
        """N-grams of the columns.

        Parameters
        ----------
        input_features : None
            Ignored.

        Returns
        -------
        names : object ndarray of shape (n_features,)
            Words of an n-gram are separated by one space.
        """
        check_is_fitted(self)
        return object_array(self.trie_.names() if self.terms_ is None else self.terms_)

    @property
    def vocabulary_(self) -> dict[str, int]:
        """Column of each n-gram."""
        return {name: j for j, name in enumerate(self.get_feature_names_out())}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "trie_")

    def _reader(self) -> Reader:
        """The reader of texts for the checked parameters."""
        if callable(self.analyzer):
            raise ValueError(
                'analyzer must be "word", "char" or "char_wb", got a callable; use '
                "sklearn.feature_extraction.text.TfidfVectorizer for a callable"
            )
        bounds = self.ngram_range
        whole = all(isinstance(n, numbers.Integral) for n in bounds)
        if len(bounds) != 2 or not whole or not 1 <= bounds[0] <= bounds[1]:
            raise ValueError(
                "ngram_range must be (shortest, longest), integers with 1 <= shortest "
                f"<= longest, got {bounds!r:.60}"
            )
        words = None
        if self.analyzer == "word":
            given = () if self.stop_words is None else self.stop_words
            english = isinstance(given, str)
            stop = ENGLISH_STOP_WORDS if english else plain_list(given)
            if not all(isinstance(word, str) for word in stop):
                raise ValueError(f"stop_words must hold strings, got {given!r:.60}")
            words = Words.of(sorted(set(filter(TOKEN.fullmatch, stop))))
        elif self.stop_words is not None:
            raise ValueError(
                f'stop_words needs analyzer="word", got analyzer={self.analyzer!r}'
            )
        shortest, longest = map(int, bounds)
        return Reader(self.analyzer, shortest, longest, self.lowercase, words)

    @_fit_context(prefer_skip_nested_validation=True)
    def _fit(self, texts: Texts, keep: bool) -> list[FoundNgrams] | None:
        """Learn from texts; keep: return the columns in the texts if there is room."""
        found = None
        reader = self._reader()
        n_lengths = reader.longest - reader.shortest + 1
        keep = keep and int(texts.sizes.sum()) * n_lengths <= _MOST_KEPT
        if self.vocabulary is not None:
            self.terms_: list[str] | None = _as_terms(self.vocabulary)
            self.trie_ = NgramTrie.of_terms(reader, self.terms_)
            if self.use_idf:
                every = [Columns(self.trie_, {})]
                _, columns, _ = side_by_side(every, texts, self.n_jobs)
                n_texts = np.bincount(columns, minlength=len(self.terms_))
        else:
            self.terms_ = None
            low, high = self._bounds(len(texts))
            counted = CountedNgrams.of(
                reader,
                texts,
                totals=self.max_features is not None,
                keep=keep,
                n_jobs=self.n_jobs,
            )
            nodes = self._chosen(counted, low, high)
            n_texts = counted.n_texts[nodes]
            self.trie_, kept = counted.trie(nodes)
            found = kept if keep else None
        self.n_texts_ = len(texts)
        if self.use_idf:
            self.idf_ = idf_of(self.n_texts_, n_texts)
        return found

    def _bounds(self, n_texts: int) -> tuple[float, float]:
        """Least and largest number of texts that have the n-gram of a column."""
        low, high = (
            bound if isinstance(bound, numbers.Integral) else bound * n_texts
            for bound in (self.min_df, self.max_df)
        )
        if n_texts and high < low:
            raise ValueError(
                f"min_df={self.min_df} and max_df={self.max_df}: of {n_texts} text(s) "
                f"an n-gram would be in at least {low:g} and at most {high:g}"
            )
        return low, high

    def _chosen(self, counted: CountedNgrams, low: float, high: float) -> np.ndarray:
        """The nodes of the columns, in their order."""
        n_texts = counted.n_texts
        if not n_texts.any():
            raise ValueError(
                f"X holds no n-gram of analyzer={self.analyzer!r} and "
                f"ngram_range={self.ngram_range}; the texts are empty, too short or "
                "hold only stop words"
            )
        keep = (n_texts > 0) & (n_texts >= low) & (n_texts <= high)
        if not keep.any():
            raise ValueError(
                f"min_df={self.min_df} and max_df={self.max_df} leave no n-gram; lower "
                "min_df or raise max_df"
            )
        nodes = counted.sorted_nodes(keep)
        if self.max_features is not None and nodes.size > self.max_features:
            # The sort of scikit-learn on equal numbers, so that ties are broken alike.
            total = counted.totals[nodes].astype(np.float64)
            chosen = (-total).argsort()[: self.max_features]
            nodes = nodes[np.sort(chosen)]
        return nodes

    def row_options(self, dtype: Any) -> dict[str, Any]:
        """The arguments of `NgramTrie.block_rows` for the values of rows."""
        return {
            "idf": self.idf_ if self.use_idf else None,
            "logarithm": self.sublinear_tf,
            "norm": self.norm,
            "dtype": np.dtype(dtype),
        }


def parts_of(features: Any) -> dict[str, tuple[NgramVectorizer, float]]:
    """The `NgramVectorizer` parts of a vectorizer of texts by name, with their factors.

    The dict is empty if a part is not an `NgramVectorizer`.
    """
    parts = {"": (features, 1.0)}
    if isinstance(features, FeatureUnion):
        factors = features.transformer_weights or {}
        names, steps = zip(*features.transformer_list)
        if (
            len(set(names)) < len(names)
            or not set(factors) <= set(names)
            or any("__" in name or name in vars(features) for name in names)
        ):
            return {}  # FeatureUnion raises the error
        share = {name: 1.0 if x is None else x for name, x in factors.items()}
        parts = {n: (one, share.get(n, 1.0)) for n, one in zip(names, steps)}
    ours = all(isinstance(one, NgramVectorizer) for one, _ in parts.values())
    return parts if ours else {}


def joined(parts: dict[str, NgramVectorizer]) -> Any:
    """One vectorizer from several; their parts of a row have equal lengths."""
    if len(parts) == 1:
        return next(iter(parts.values()))
    # A Python float does not change the dtype of the rows.
    share = float(1 / np.sqrt(len(parts)))
    return FeatureUnion(
        list(parts.items()), transformer_weights=dict.fromkeys(parts, share)
    )


def equal_parts(features: Any) -> dict[str, NgramVectorizer]:
    """The vectorizers of `joined`; ValueError for others."""
    parts = parts_of(features)
    shares = np.array([share for _, share in parts.values()])
    if not parts or not np.allclose(shares, 1 / np.sqrt(len(parts))):
        raise ValueError(
            f"features: a {type(features).__name__} cannot be reduced or saved; use a "
            "name or an NgramVectorizer"
        )
    return {name: one for name, (one, _) in parts.items()}


def names_of(features: Any, columns: np.ndarray) -> list[str]:
    """The n-grams of some columns."""
    parts, first = parts_of(features), 0
    if not parts:
        try:
            return list(map(str, features.get_feature_names_out()[columns]))
        except AttributeError:
            raise ValueError(
                f"features: a {type(features).__name__} does not name its n-grams; use "
                "an NgramVectorizer to explain texts"
            ) from None
    names = np.empty(columns.size, dtype=object)
    for name, (one, _) in parts.items():
        last = first + one.trie_.n_columns
        mine = (first <= columns) & (columns < last)
        long = getattr(features, "verbose_feature_names_out", name)
        before = f"{name}__" if long else ""
        names[mine] = [before + g for g in one.trie_.names(columns[mine] - first)]
        first = last
    return names.tolist()


def rows_of(features: Any, texts: Texts, fit: bool = False, y: Any = None) -> Any:
    """The rows of texts; if `fit`, the vectorizer first learns from the texts and y."""
    parts = parts_of(features)
    if not parts:
        given = list(texts)
        if not fit:
            return features.transform(given)
        if hasattr(features, "fit_transform"):
            return features.fit_transform(given, y)
        return features.fit(given, y).transform(given)
    columns = []
    for one, factor in parts.values():
        found: Any = one._fit(texts, keep=True) if fit else None
        options = one.row_options(one._dtype)
        columns.append(Columns(one.trie_, options, factor, found))
    shape = len(texts), sum(part.trie.n_columns for part in columns)
    arrays = side_by_side(columns, texts, one.n_jobs)
    if fit:  # a classifier that is fitted to the rows needs the memory
        for part in columns:
            vars(part.trie).pop("tables", None)
    return _align_api_if_sparse(sp.csr_array(arrays, shape=shape))
