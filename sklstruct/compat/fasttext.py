r"""The names of fastText's Python module: its files are read, our models are trained.

`load_model` opens a ``.bin`` or ``.ftz``, whatever the loss and whether quantised or
not. Labels, their order and probabilities are those of fastText. `train_supervised`
trains a :class:`~sklstruct.text.TextClassifier`, whose probabilities are calibrated.
Word vectors are read, and not trained.

A program that says ``import fasttext`` runs with
``import sklstruct.compat.fasttext as fasttext``. If it cannot be changed, call
``sklstruct.compat.fasttext.install()`` first.
"""

from __future__ import annotations

import os
import sys
from collections import Counter
from numbers import Integral, Real
from types import SimpleNamespace
from typing import Any

import numpy as np
from sklearn.base import clone

from .._checks import check_choice
from .._files import path_as_peers_take
from .._warnings import warn
from ..text import FastTextFile, TextClassifier, is_fasttext, read_labelled
from ._fasttext_words import WordVectors, check_line, words_of
from ._stand_in import stand_in

__all__ = [
    "BOW",
    "EOS",
    "EOW",
    "FastText",
    "install",
    "load_model",
    "tokenize",
    "train_supervised",
    "train_unsupervised",
]

EOS = "</s>"
BOW = "<"
EOW = ">"

# Programs import `_FastText` from the module fasttext.FastText, and set its `eprint`.
FastText = sys.modules[__name__]


def tokenize(text: str) -> list[str]:
    """The words of a text; each line feed is the word ``</s>``.

    Parameters
    ----------
    text : str
        Words, separated by white space.

    Returns
    -------
    words : list of str

    Examples
    --------
    >>> from sklstruct.compat import fasttext
    >>> fasttext.tokenize("a line\\nanother")
    ['a', 'line', '</s>', 'another']
    """
    first, *others = (words_of(line) for line in text.split("\n"))
    return first + [word for line in others for word in [EOS, *line]]


class _FastText(WordVectors):
    """A model of a file. `load_model` and `train_supervised` return such objects."""

    label = "__label__"  # a file does not hold the prefix of `train_supervised`

    def __init__(self, model_path, args=None):
        self._file = FastTextFile(model_path)
        self._settings = self._file.settings

    # ---------------------------------------------------------------- prediction

    def predict(self, text, k=1, threshold=0.0, on_unicode_error="strict"):
        """(labels, probabilities) of a line of text, the most probable label first.

        Parameters
        ----------
        text : str or list of str
            A line without its end, or lines.

        k : int, default=1
            Most labels; -1: all.

        threshold : float, default=0.0
            Least probability.

        on_unicode_error : str, default="strict"
            As `errors` of ``bytes.decode``, for labels that are not UTF-8.

        Returns
        -------
        labels : tuple of str, or a list for each line

        probabilities : float64 ndarray, or a float32 ndarray for each line
        """
        if isinstance(text, list):
            return self._lists(text, k, threshold, on_unicode_error, True)
        pairs = self._pairs(text, k, threshold, on_unicode_error, True)
        probabilities, labels = zip(*pairs) if pairs else ((), ())
        return labels, np.array(probabilities)

    @property
    def f(self):
        """The lower level of fastText's module, which programs use for old NumPys.

        A text is a line with its end; its first line counts.
        """
        return SimpleNamespace(
            predict=self._pairs,
            multilinePredict=self._lists,
            getArgs=lambda: SimpleNamespace(**self._settings),
        )

    def _pairs(self, text, k, threshold, on_unicode_error, one_line=False):
        names = self._names(on_unicode_error)
        k, threshold = _limits(k, threshold, len(names))
        return [(p, names[i]) for p, i in self._one(text, k, threshold, one_line)]

    def _lists(self, text, k, threshold, on_unicode_error, one_line=False):
        names = self._names(on_unicode_error)
        k, threshold = _limits(k, threshold, len(names))
        ids, found, ends = self._many(tuple(text), k, threshold, one_line)
        flat = [names[i] for i in ids.tolist()]
        labels, probabilities, begin = [], [], 0
        for end in ends.tolist():
            labels.append(flat[begin:end])
            probabilities.append(found[begin:end])
            begin = end
        return labels, probabilities

    def _one(self, text, k, threshold, one_line):
        """[(probability, number of the label)] of a text."""
        return self._file.tables.predict_text(text, k, threshold, one_line)

    def _many(self, texts, k, threshold, one_line):
        """(numbers of labels, probabilities, end of each text in them)."""
        return self._file.tables.predict_texts(texts, k, threshold, one_line)

    # -------------------------------------------------------------------- labels

    _kept: tuple[str, list[str]] = "", []

    def _names(self, on_unicode_error):
        """The labels; ValueError if the model does not have a label."""
        if not self._kept[1] or self._kept[0] != on_unicode_error:
            self._kept = on_unicode_error, self._read_names(on_unicode_error)
        if not self._kept[1]:
            raise ValueError(
                "predict: the model holds word vectors and predicts no labels; "
                "get_word_vector and get_sentence_vector read it"
            )
        return self._kept[1]

    def _read_names(self, on_unicode_error):
        n = self._file.n_words
        labels = range(n, n + self._file.n_targets)
        return [self._file.entry(i, on_unicode_error) for i in labels]

    def get_labels(self, include_freq=False, on_unicode_error="strict"):
        """The labels (the words of a model of word vectors); with their counts."""
        if not self._file.supervised:
            return self.get_words(include_freq, on_unicode_error)
        labels = list(self._names(on_unicode_error))
        counts = self._file.counts[self._file.n_words :]
        return (labels, counts.copy()) if include_freq else labels

    @property
    def labels(self):
        return self.get_labels()

    def get_label_id(self, label):
        """The number of a label, -1 if it is unknown."""
        return max(self.get_word_id(label) - self._file.n_words, -1)

    # ---------------------------------------------------------------------- lines

    def get_line(self, text, on_unicode_error="strict"):
        """(words, known labels) of a line, or of each line of a list."""
        if isinstance(text, list):
            lines = [self.get_line(line) for line in text]
            return [words for words, _ in lines], [labels for _, labels in lines]
        check_line(text, "get_line")
        words, labels = [], []
        for word in [*words_of(text), EOS]:
            if self.get_label_id(word) >= 0:
                labels.append(word)
            elif not word.startswith(self.label) or word in self:
                words.append(word)
            if word == EOS:
                break
        return words, labels

    def test(self, path, k=1, threshold=0.0):
        """(number of lines, precision, recall) of the labels of a file.

        Parameters
        ----------
        path : str
            A line for each text, with its labels.

        k : int, default=1
            Most labels that are predicted for a line; -1: all.

        threshold : float, default=0.0
            Least probability of a label that is predicted.
        """
        n, gold, predicted, right = self._counts(path, k, threshold)
        total = right.sum().item()
        return n, _share(total, predicted.sum()), _share(total, gold.sum())

    def test_label(self, path, k=1, threshold=0.0):
        """label -> {"precision", "recall", "f1score"}; see `test`."""
        _, *counts = self._counts(path, k, threshold)
        return {
            label: {
                "precision": _share(right, predicted),
                "recall": _share(right, gold),
                "f1score": _share(2 * right, predicted + gold),
            }
            for label, gold, predicted, right in zip(
                self.labels, *(count.tolist() for count in counts)
            )
        }

    def _counts(self, path, k, threshold):
        """(lines, how often each label is given, predicted, and both)."""
        n = len(self._names("strict"))
        k, threshold = _limits(k, threshold, n)
        with open(path, "rb") as file:
            text = file.read()
        counts = np.zeros((3, n), dtype=np.int64)
        return self._file.tables.test(text, k, threshold, *counts), *counts

    # ---------------------------------------------------------------------- files

    def is_quantized(self):
        """Whether the input matrix holds codes."""
        return self._file.quantized

    def quantize(self, **options):
        """Make the model of `train_supervised` smaller; the options have no meaning."""
        raise ValueError(
            "quantize: a model of fastText is read and not changed; quantise it with "
            "fastText, or train with train_supervised, whose models can be quantised"
        )

    def save_model(self, path):
        """Write the model as it was read."""
        self._file.save(path)

    def __reduce__(self):
        return type(self), (self._file.path,)


class _Trained(_FastText):
    """A `TextClassifier` under fastText's names; its options are attributes."""

    def __init__(self, classifier, settings):
        self._classifier, self._settings = classifier, settings
        vars(self).update(settings)

    @property
    def _file(self):
        raise AttributeError(
            "the model is a TextClassifier, which has labels and no word vectors; "
            "read word vectors with load_model, from a file of fastText"
        )

    def _read_names(self, on_unicode_error):
        return [str(label) for label in self._classifier.classes_.tolist()]

    def get_labels(self, include_freq=False, on_unicode_error="strict"):
        if include_freq:
            raise ValueError("include_freq: a TextClassifier does not count its labels")
        return list(self._names(on_unicode_error))

    def get_dimension(self):
        """Number of labels: each n-gram has a weight for each of them."""
        return len(self._names("strict"))

    def get_label_id(self, label):
        names = self._names("strict")
        return names.index(label) if label in names else -1

    def __contains__(self, word):
        return False

    def _one(self, text, k, threshold, one_line):
        ids, found, _ = self._many((text,), k, threshold, one_line)
        return list(zip(found.tolist(), ids.tolist()))

    def _many(self, texts, k, threshold, one_line):
        if one_line:
            for text in texts:
                check_line(text, "predict")
        proba = self._classifier.predict_proba(list(texts)) if texts else _NONE
        best = np.argsort(-proba, axis=1, kind="stable")[:, :k]
        found = np.take_along_axis(proba, best, axis=1).astype(np.float32)
        kept = found >= threshold
        return best[kept], found[kept], kept.sum(axis=1).cumsum()

    def _counts(self, path, k, threshold):
        names = self._names("strict")
        k, threshold = _limits(k, threshold, len(names))
        number = {name: i for i, name in enumerate(names)}
        texts, given = read_labelled(path, self.label, number)
        labels = [{number[x] for x in some if x in number} for some in given]
        texts = [text for text, some in zip(texts, labels) if some]
        labels = [some for some in labels if some]
        ids, _, ends = self._many(tuple(texts), k, threshold, False)
        counts = np.zeros((3, len(names)), dtype=np.int64)
        for some, found in zip(labels, np.split(ids, ends[:-1])):
            counts[0, list(some)] += 1
            counts[1, found] += 1
            counts[2, [i for i in found.tolist() if i in some]] += 1
        return len(texts), *counts

    def is_quantized(self):
        return self._classifier.reduced_ is not None

    def quantize(self, **options):
        _warn_of(list(options), "a model whose weights get 8 bits")
        self._classifier = self._classifier.reduce()

    def save_model(self, path):
        """Write the quantised model; `load_model` and `TextClassifier.load` read it."""
        self._classifier.save(path)

    def __reduce__(self):
        return type(self), (self._classifier, self._settings)


_NONE = np.empty((0, 0))


def _share(part: int, whole: int) -> float:
    return part / float(whole) if whole else float("nan")


def _limits(k: Any, threshold: Any, n: int) -> tuple[int, float]:
    """The number of labels to find, and the least probability."""
    # The abstract types take a fifth of the time of a short text.
    if type(k) is not int and (isinstance(k, bool) or not isinstance(k, Integral)):
        raise TypeError(f"k must be an integer, got {k!r:.60}")
    if k < 1 and k != -1:
        raise ValueError(f"k must be -1 (all) or an integer of at least 1, got {k!r}")
    if type(threshold) is not float and not isinstance(threshold, Real):
        raise TypeError(f"threshold must be a number, got {threshold!r:.60}")
    if threshold != threshold:
        raise ValueError("threshold must be a number, got NaN")
    return n if k == -1 else min(int(k), n), float(threshold)


def _warn_of(names: list[str], what: str) -> None:
    if names:
        warn(f"{', '.join(names)} has no meaning for {what}", UserWarning)


def load_model(path: str | os.PathLike) -> _FastText:
    """Open a model: of fastText (``.bin``, ``.ftz``), or one of `TextClassifier.save`.

    Parameters
    ----------
    path : str or os.PathLike
        The first bytes tell which kind the file is. A file of fastText is mapped.

    Returns
    -------
    model : _FastText

    Raises
    ------
    OSError
        If the file cannot be opened.

    ValueError
        If the file is damaged or is not a model; the message names the place.
    """
    path = path_as_peers_take(path)
    if is_fasttext(path):
        return _FastText(path)
    try:
        return _Trained(TextClassifier.load(path), {"label": _FastText.label})
    except ValueError as exc:
        raise ValueError(f"{exc}; not a model of fastText either") from exc


# Options of fastText that a convex linear model does not have, and those of its search.
_NO_MEANING = (
    "lr",
    "dim",
    "ws",
    "epoch",
    "neg",
    "bucket",
    "lrUpdateRate",
    "t",
    "autotuneDuration",
)
# Options that models of fastText have as attributes.
_OPTIONS = (
    *("lr", "dim", "ws", "epoch", "minCount", "minCountLabel", "minn", "maxn", "neg"),
    *("wordNgrams", "loss", "bucket", "thread", "lrUpdateRate", "t", "label"),
    *("verbose", "pretrainedVectors"),
)
_LOSSES = "softmax", "hs", "ns", "ova"


def train_supervised(
    input: str | os.PathLike,
    lr: float | None = None,
    dim: int | None = None,
    ws: int | None = None,
    epoch: int | None = None,
    minCount: int | None = None,
    minCountLabel: int = 0,
    minn: int = 0,
    maxn: int = 0,
    neg: int | None = None,
    wordNgrams: int | None = None,
    loss: str = "softmax",
    bucket: int | None = None,
    thread: int | None = None,
    lrUpdateRate: int | None = None,
    t: float | None = None,
    label: str = _FastText.label,
    verbose: int | None = None,
    pretrainedVectors: str = "",
    seed: int = 0,
    autotuneValidationFile: str = "",
    autotuneMetric: str = "f1",
    autotunePredictions: int = 1,
    autotuneDuration: int | None = None,
    autotuneModelSize: str = "",
) -> _FastText:
    """Train a `TextClassifier` from a file in fastText's form.

    The parameters that are not below (`lr`, `dim`, `ws`, `epoch`, `neg`, `bucket`,
    `lrUpdateRate`, `t`, `autotuneDuration`) have no meaning for a convex linear model.
    A warning names those that are given.

    Parameters
    ----------
    input : str or os.PathLike
        A line for each text; its words that begin with `label` are its labels.

    minCount : int, default=None
        Fewest texts that have an n-gram; None as for `min_df` of `TextClassifier`.

    minCountLabel : int, default=0
        Rarer labels are left out.

    minn, maxn : int, default=0
        Lengths of the n-grams of letters, beside words; as `ngram_range` of
        ``TextClassifier("both")``. With neither these nor `wordNgrams` the features are
        ``"auto"``.

    wordNgrams : int, default=None
        Longest n-grams of words; with `maxn` it is 2.

    loss : {"softmax", "hs", "ns", "ova"}, default="softmax"
        "ova", or a line with more than one label: each label has its probability.
        Otherwise the probabilities of a text sum to 1.

    thread : int, default=None
        `n_jobs`.

    label : str, default="__label__"
        How labels begin. Files do not hold it: words that are labels of a loaded model
        are labels in `test`, and other words are if they begin with "__label__".

    verbose : int, default=None
        Accepted; nothing is printed.

    pretrainedVectors : str, default=""
        Not possible.

    seed : int, default=0
        `random_state`.

    autotuneValidationFile : str, default=""
        The features, if they are not given, and C in 0.1, 1, 10 with the largest F1 on
        this file are taken.

    autotuneMetric : str, default="f1"
        Only "f1".

    autotunePredictions : int, default=1
        Labels that are predicted for a line of the validation file.

    autotuneModelSize : str, default=""
        Not possible; `quantize` makes the model smaller.

    Returns
    -------
    model : _FastText

    Raises
    ------
    ValueError
        If the file holds no labelled line, or an option is not possible.
    """
    given = locals()
    for name, remedy in (
        ("pretrainedVectors", "leave it out: n-grams are learned from the input"),
        ("autotuneModelSize", "call quantize, or save_model, and compare the sizes"),
    ):
        if given[name]:
            raise ValueError(f"{name}={given[name]!r:.60} is not possible; {remedy}")
    check_choice("loss", loss, _LOSSES)
    for name in ("minn", "maxn", "minCountLabel"):
        if not isinstance(given[name], Integral):
            raise TypeError(f"{name} must be an integer, got {given[name]!r:.60}")
        if given[name] < 0:
            raise ValueError(f"{name} must be at least 0, got {given[name]!r:.60}")
    if isinstance(label, bytes):
        label = given["label"] = label.decode()
    if not isinstance(label, str):
        raise TypeError(f"label must be a string, got {label!r:.60}")
    if autotuneMetric != "f1":
        raise ValueError(f'autotuneMetric must be "f1", got {autotuneMetric!r:.60}')
    unused = [name for name in _NO_MEANING if given[name] is not None]
    if maxn > 0 and wordNgrams not in (None, 2):
        unused.append("wordNgrams beside maxn, where it is 2,")
    _warn_of(unused, "a convex linear model of n-grams")
    texts, labels = read_labelled(input, label)
    if minCountLabel > 1:
        count = Counter(x for some in labels for x in some)
        labels = [[x for x in some if count[x] >= minCountLabel] for some in labels]
        texts = [text for text, some in zip(texts, labels) if some]
        labels = [some for some in labels if some]
    one_label = len({x for some in labels for x in some}) == 1
    several = any(len(some) > 1 for some in labels) or (loss == "ova" and not one_label)
    y = labels if several else [some[0] for some in labels]
    model = TextClassifier(min_df=minCount, n_jobs=thread, random_state=seed)
    if maxn > 0:
        model.set_params(features="both", ngram_range=(max(minn, 1), maxn))
    elif wordNgrams is not None:
        model.set_params(features="words", ngram_range=(1, wordNgrams))
    options = {name: given[name] for name in _OPTIONS}
    if not autotuneValidationFile:
        return _Trained(model.fit(texts, y), options)
    features = ("letters", "both") if model.features == "auto" else (model.features,)
    best, largest = None, -1.0
    for kind in features:
        for C in (0.1, 1.0, 10.0):
            tried = clone(model).set_params(features=kind, C=C).fit(texts, y)
            found = _Trained(tried, options)
            _, precision, recall = found.test(
                autotuneValidationFile, autotunePredictions
            )
            f1 = 2 * precision * recall / max(precision + recall, 1e-300)
            if f1 > largest:
                best, largest = found, f1
    if best is None:
        raise ValueError(
            "autotuneValidationFile: none of its labels is in the training file"
        )
    return best


def train_unsupervised(*args: Any, **kwargs: Any) -> None:
    """Not possible: word vectors are read and not trained.

    Raises
    ------
    ValueError
        Always.
    """
    raise ValueError(
        "train_unsupervised: word vectors are read and not trained; train them with "
        "the distribution fasttext-numpy2 or gensim and open the .bin with load_model"
    )


def install() -> None:
    """Put this module where ``import fasttext`` finds it.

    For tests and scripts of programs that cannot be changed.

    Raises
    ------
    RuntimeError
        If another module of that name is loaded.
    """
    stand_in(__name__, "fasttext", "fasttext.FastText")
