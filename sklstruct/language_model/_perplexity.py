"""PerplexityTransformer: documents in, perplexities out."""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import islice
from typing import Any, Self

import numpy as np
from joblib import Parallel, delayed
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.utils.validation import check_is_fitted

from .._compat import N_JOBS, StrOptions, TextEstimator, TransformerMixin, _fit_context
from ..compat.kenlm import Model
from ..symbols import is_missing, number_sentences, odd_spaces, plain_list, split_string
from ._language_model import LanguageModel
from ._unknown import UnknownWords

# Documents that are scored together.
_BATCH = 1000
_LN10 = float(np.log(10.0))
_NAMES = ("log_proba", "perplexity", "unknown_rate", "n_tokens")

_ALIKE = {
    "，、": ",",
    "。": ".",
    "：∶": ":",
    "；": ";",
    "？": "?",
    "！": "!",
    "（": "(",
    "）": ")",
    "【": "[",
    "】": "]",
    "〈": "<",
    "〉": ">",
    "„”“«»「」《》": '"',
    "´’": "'",
    "–━►": "-",
    "～": "~",
    "％": "%",
    "—": " - ",
    "．": ". ",
    "…": "...",
}


class _Characters(dict):
    """The string by which CCNet replaces each character."""

    def __missing__(self, code):
        kind = unicodedata.category(chr(code))
        if kind in ("Mn", "Cc"):
            found = ""
        else:
            found = "0" if kind == "Nd" else chr(code)
        self[code] = found
        return found


_characters = _Characters(
    {ord(c): plain for alike, plain in _ALIKE.items() for c in alike}
)


def normalize_ccnet(line: str) -> str:
    """Normalise a line as CCNet does before scoring.

    Lower case; no accents (combining marks of the canonical decomposition); every digit
    becomes 0; punctuation of other scripts as in ASCII; no control characters.

    Parameters
    ----------
    line : str
        Text. Line ends in it are control characters, and are removed.

    Returns
    -------
    normalized : str

    References
    ----------
    .. [1] G. Wenzek et al., "CCNet: Extracting high quality monolingual datasets from
       web crawl data", LREC 2020.

    Examples
    --------
    >>> from sklstruct.language_model._perplexity import normalize_ccnet
    >>> normalize_ccnet(" Café ２０:15 “Ünï” ")
    'cafe 00:00 "uni"'
    """
    line = unicodedata.normalize("NFD", line.strip().lower())
    return line.translate(_characters)


def _sentences(normalize, tokenizer, document, row):
    """Yield the lines of a document; see `PerplexityTransformer`."""
    if not isinstance(document, str):
        raise TypeError(
            f"X[{row}] must be a string, a document, got {type(document).__name__}"
        )
    for line in document.split("\n"):
        if normalize is not None:
            line = normalize(line)
            if not isinstance(line, str):
                raise TypeError(f"normalize must return a string, got {line!r}")
        if tokenizer is not None:
            line = tokenizer(line)
            if isinstance(line, str | bytes) or not isinstance(line, Iterable):
                raise TypeError(f"tokenizer must return a list of words, got {line!r}")
            line = list(line)
        yield line


def _kenlm_sums(model, sentences):
    """(ln P, tokens, words, unknown words) of each sentence, as CCNet counts, and the
    words to warn of."""
    lines = [s if isinstance(s, str) else " ".join(s) for s in sentences]
    # `score_many` splits bytes, as the Python module of KenLM does.
    words = [line.encode("utf-8", "surrogatepass").split() for line in lines]
    log10 = model.score_many(lines).astype(np.float64)
    n_unknown = [sum(w not in model for w in line) for line in words]
    n_words = [len(line) for line in words]
    sums = log10 * _LN10, [n + 1 for n in n_words], n_words, n_unknown
    return sums, odd_spaces(lines), UnknownWords()


def _sentence_sums(model, sentences):
    """`_kenlm_sums` for a LanguageModel, to which marks in the text are unknown
    words."""
    labels = model.predictor.encoder.labels
    marks = {m for m in (labels.start, labels.end) if isinstance(m, str)}
    read = []
    for sentence in sentences:
        if any(mark in sentence for mark in marks):
            words = sentence
            if isinstance(sentence, str):
                words = split_string(sentence, labels.analyzer)
            sentence = [labels.unknown if w in marks else w for w in words]
        read.append(sentence)
    text = number_sentences(read, "X", labels.analyzer)
    table = model.perplexity_by_sentence(text)
    sums = table.log_likelihood, table.n_tokens, text.lengths, table.n_unknown
    return sums, text.odd, UnknownWords.of(text, model.predictor.encoder)


def _score(models, sentences_of, first, documents):
    """(n, 3 + n_models) tokens, words, unknown words, and ln P under each model; and
    the words to warn of, for each model."""
    sentences: list = []
    owner: list[int] = []
    for i, document in enumerate(documents):
        if is_missing(document) or document == "":
            continue
        sentences += sentences_of(document, first + i)
        owner += [i] * (len(sentences) - len(owner))
    out, n_tokens = np.zeros((len(documents), 3 + len(models))), None
    if not sentences:
        return out, []
    notes = []
    for k, model in enumerate(models):
        sums = _kenlm_sums if isinstance(model, Model) else _sentence_sums
        of_sentence, *note = sums(model, sentences)
        notes.append(note)
        columns = (3, 0, 1, 2) if k == 0 else (3 + k,)
        for column, values in zip(columns, of_sentence):
            out[:, column] = np.bincount(owner, values, minlength=len(documents))
        if k and not np.array_equal(of_sentence[1], n_tokens):
            raise ValueError(
                "model and baseline count different numbers of tokens in a document: "
                "give both an end mark, and a symbol for unknown words"
            )
        n_tokens = of_sentence[1]
    return out, notes


class _Warnings:
    """Warns once for all batches of X, which several processes may score."""

    def __init__(self, models):
        self.models = models
        self.unknown = [UnknownWords() for _ in models]
        self.warned: set = set()

    def add(self, notes):
        """Take the notes of the next batch."""
        for k, (odd, unknown) in enumerate(notes):
            model = self.models[k]
            is_file = isinstance(model, Model)
            rule = "kenlm" if is_file else model.predictor.encoder.labels.analyzer
            if odd.n_places and rule not in self.warned:
                odd.warn(rule)
                self.warned.add(rule)
            self.unknown[k] = self.unknown[k].plus(unknown)
            if not is_file and k not in self.warned:
                encoder = model.predictor.encoder
                self.warned |= {k} if self.unknown[k].warn(encoder) else set()


def _columns(X):
    """An iterator over the documents of a list, a column or an iterator."""
    if hasattr(X, "column_names"):  # of Arrow
        raise TypeError(
            f"X is a {type(X).__name__}; pass one column, such as table['text']"
        )
    if isinstance(X, str | bytes) or not isinstance(X, Iterable):
        raise TypeError(
            "X must be a column of documents (an iterable of strings), got "
            f"{type(X).__name__}"
        )
    if len(getattr(X, "shape", ())) == 2:
        if X.shape[1] != 1:
            raise ValueError(
                f"X must be one column of documents, got {X.shape[1]} columns; choose "
                "one, as ColumnTransformer does"
            )
        X = X[X.columns[0]] if hasattr(X, "columns") else X[:, 0]
    return X if isinstance(X, Iterator) else iter(plain_list(X))


def _batches(documents):
    while batch := list(islice(documents, _BATCH)):
        yield batch


class PerplexityTransformer(TransformerMixin, TextEstimator):
    r"""Features of documents: perplexity and log-probability under a language model.

    .. math::
        \mathrm{ppl}(d) = \exp\Big(-\frac{1}{N_d} \sum_{s \in d} \ln P(s)\Big)
        = 10^{-\sum_s \log_{10} P(s) / N_d}, \qquad
        N_d = \sum_{s \in d} (|s| + 1) ,

    over the lines s of the document, each with its end mark, as CCNet computes it [1]_.

    Parameters
    ----------
    model : path, kenlm.Model, FrozenEstimator or LanguageModel
        The path of an ARPA file or of a binary file of KenLM, or a
        :class:`sklstruct.compat.kenlm.Model`, scores as KenLM does.
        ``FrozenEstimator(language_model)`` is a fitted :class:`LanguageModel` of any
        kind. A `LanguageModel` that is not fitted is trained on the documents of `fit`.

    baseline : as `model`, default=None
        A second model; its log-probability per token is subtracted.

    normalize : {"ccnet"} or callable, default=None
        A function that is applied to each line first. "ccnet" is the function of CCNet:
        lower case; no accents; every digit becomes 0; punctuation of other scripts as
        in ASCII; no control characters.

    tokenizer : callable, default=None
        A function that splits a line into words, such as ``encode_as_pieces`` of
        sentencepiece. None: the rule of the model, see ``analyzer`` of
        :class:`LanguageModel`. A model that scores as KenLM does uses the rule of
        KenLM.

    n_jobs : int, default=None
        Number of processes over batches of documents. None means 1 unless in a
        `joblib.parallel_config` context; -1 means all processors. Models that are given
        as paths are memory-mapped, and the processes share the pages.

    Attributes
    ----------
    model_, baseline_ : LanguageModel or kenlm.Model
        The models that score. ``baseline_`` is None without `baseline`.

    Notes
    -----
    A model that scores as KenLM counts the words of a line and its end, and unknown
    words as ``<unk>``; words end at white space of ASCII. A LanguageModel with
    ``unknown=None`` needs ``out_of_vocabulary="exclude"``, and leaves unknown words
    out. A mark that occurs in a text is a word for KenLM, and an unknown word for a
    LanguageModel.

    ``normalize="ccnet"`` is the ``DocLM`` of CCNet. CCNet's chain of sentencepiece and
    ``DocLM`` normalises the whole document without its line ends: use
    ``normalize="ccnet", tokenizer=pieces.encode_as_pieces`` and documents
    ``d.replace("\n", "")``. CCNet rounds to one decimal.

    The difference of two models is the score of Moore and Lewis [2]_.

    References
    ----------
    .. [1] G. Wenzek et al., "CCNet: Extracting high quality monolingual datasets from
       web crawl data", LREC 2020.
    .. [2] R. C. Moore, W. Lewis, "Intelligent selection of language model training
       data", ACL 2010.

    Examples
    --------
    >>> from sklearn.frozen import FrozenEstimator
    >>> from sklstruct.language_model import LanguageModel, PerplexityTransformer
    >>> from sklstruct.smoothing import AdditiveLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran"]
    >>> lm = LanguageModel(AdditiveLM(delta=0.1), max_depth=2).fit(text)
    >>> documents = ["the cat sat\nthe dog ran", "zebra crossing", ""]
    >>> step = PerplexityTransformer(FrozenEstimator(lm)).fit(documents)
    >>> step.get_feature_names_out().tolist()
    ['log_proba', 'perplexity', 'unknown_rate', 'n_tokens']
    >>> step.transform(documents)[:, 1:].round(2)
    array([[ 2.32,  0.  ,  8.  ],
           [26.8 ,  1.  ,  3.  ],
           [  nan,   nan,  0.  ]])
    """

    _parameter_constraints: dict = {
        "model": "no_validation",
        "baseline": "no_validation",
        "normalize": [StrOptions({"ccnet"}), callable, None],
        "tokenizer": [callable, None],
        "n_jobs": N_JOBS,
    }

    def __init__(
        self,
        model: Any,
        *,
        baseline: Any = None,
        normalize: str | Callable[[str], str] | None = None,
        tokenizer: Callable[[str], Iterable[str]] | None = None,
        n_jobs: int | None = None,
    ) -> None:
        self.model = model
        self.baseline = baseline
        self.normalize = normalize
        self.tokenizer = tokenizer
        self.n_jobs = n_jobs

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: Iterable | None = None, y: Any = None) -> Self:
        """Open or train the model.

        Parameters
        ----------
        X : iterable of str, default=None
            Documents, for a model that is to be trained.

        y : None
            Ignored.

        Returns
        -------
        self : PerplexityTransformer

        Raises
        ------
        TypeError, ValueError
            If a parameter is not valid, or `model` is a fitted LanguageModel that is
            not inside a FrozenEstimator.
        OSError
            If a file cannot be read.
        """
        X = None if X is None else list(_columns(X))  # read twice
        self.model_ = self._fit_model("model", self.model, X)
        self.baseline_ = None
        if self.baseline is not None:
            self.baseline_ = self._fit_model("baseline", self.baseline, X)
        return self

    def fit_transform(self, X: Iterable, y: Any = None) -> NDArray:
        """Open or train the model, and compute the features of the same documents.

        Parameters
        ----------
        X : iterable of str
            Documents.

        y : None
            Ignored.

        Returns
        -------
        features : ndarray of shape (n_documents, 4 or 5)
            As in `transform`.
        """
        X = list(X) if isinstance(X, Iterator) else X  # read twice
        return self.fit(X).transform(X)

    def transform(self, X: Iterable) -> NDArray:
        """Compute the features of each document.

        Parameters
        ----------
        X : iterable of str
            Documents: a list, a column, or an iterator, which is read in batches. None
            and NaN are documents without text.

        Returns
        -------
        features : ndarray of shape (n_documents, 4 or 5)
            ``log_proba``, the mean natural log-probability per token; ``perplexity``;
            ``unknown_rate``, the share of the words that are unknown, from 0 to 1;
            ``n_tokens``, end marks included;
            with a baseline ``log_proba_difference``. All but ``n_tokens`` are NaN for a
            document without text.

        Raises
        ------
        TypeError
            If a document is not a string.
        """
        n_columns = len(self.get_feature_names_out())
        return np.concatenate([np.empty((0, n_columns)), *self._features(X)])

    def get_feature_names_out(self, input_features: Any = None) -> NDArray:
        """Names of the columns.

        Parameters
        ----------
        input_features : array-like of str, default=None
            Ignored.

        Returns
        -------
        names : object ndarray
        """
        check_is_fitted(self)
        more = () if self.baseline_ is None else ("log_proba_difference",)
        return np.array([*_NAMES, *more], dtype=object)

    def _fit_model(self, name, model, X):
        if isinstance(model, str | bytes | os.PathLike):
            return Model(model)
        if isinstance(model, Model):
            return model
        if isinstance(model, FrozenEstimator) and isinstance(
            model.estimator, LanguageModel
        ):
            check_is_fitted(model.estimator)
            return model.estimator
        if not isinstance(model, LanguageModel):
            raise TypeError(
                f"{name} must be a path of a file, a kenlm.Model of sklstruct.compat, "
                "FrozenEstimator(language_model), or a LanguageModel to be trained, "
                f"got {type(model).__name__}"
            )
        if model.__sklearn_is_fitted__() or model.from_file:
            raise ValueError(
                f"{name} is a fitted LanguageModel, which a clone of this "
                f"{type(self).__name__} would lose: give FrozenEstimator({name})"
            )
        if X is None:
            raise ValueError(f"{name} is to be trained: give documents to fit")
        sentences_of = self._sentences_of()
        text = [
            sentence
            for row, document in enumerate(_columns(X))
            if not is_missing(document)
            for sentence in sentences_of(document, row)
        ]
        return clone(model).fit(text)

    def _sentences_of(self):
        named = isinstance(self.normalize, str)
        normalize = normalize_ccnet if named else self.normalize
        return partial(_sentences, normalize, self.tokenizer)

    def _features(self, X) -> Iterator[NDArray]:
        """Yield the features of each batch of documents of X."""
        models = [m for m in (self.model_, self.baseline_) if m is not None]
        warnings = _Warnings(models)
        sentences_of = self._sentences_of()
        parallel = Parallel(n_jobs=self.n_jobs, return_as="generator")
        sums = parallel(
            delayed(_score)(models, sentences_of, i * _BATCH, batch)
            for i, batch in enumerate(_batches(_columns(X)))
        )
        for found, notes in sums:
            warnings.add(notes)
            n_tokens, n_words, n_unknown, *log_prob = found.T
            with np.errstate(invalid="ignore", divide="ignore", over="ignore"):
                mean = log_prob[0] / n_tokens
                # A document of blank lines has end marks, but no words.
                rate = np.where(n_tokens > 0, n_unknown / np.maximum(n_words, 1), mean)
                columns = [mean, np.exp(-mean), rate, n_tokens]
                if len(log_prob) > 1:
                    columns.append(mean - log_prob[1] / n_tokens)
            yield np.column_stack(columns)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags
