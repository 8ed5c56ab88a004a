r"""The names of KenLM's Python module, over our own tables.

.. math::
    \log_{10} P(w \mid h) = \log_{10} p(h' w) + \sum_{k=|h'|}^{|h|} \beta_k ,

h' w the longest n-gram of the model that ends the text, :math:`\beta_k` the back-off
weight of the last k words of the history h. All numbers are float32, log10, and are
added in KenLM's order: the scores of a file that KenLM reads equal those of KenLM to
the last bit, whatever marks are in the text.

A program that says ``import kenlm`` runs with ``from sklstruct.compat import kenlm``.
If it cannot be changed, call ``sklstruct.compat.kenlm.install()`` first.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._files import path_as_peers_take
from ..backoff import BackoffModel, without_zero_weights
from ..exchange import read
from ..exchange._kenlm import probing_image
from ..exchange._kenlm_fast import State, Tables
from ..exchange._kenlm_layout import MAGIC, read_layout, read_words
from ..symbols import plain_list
from ._stand_in import stand_in

__all__ = [
    "ARPALoadComplain",
    "Config",
    "FullScoreReturn",
    "LanguageModel",
    "LoadMethod",
    "Model",
    "State",
    "install",
]


class FullScoreReturn(NamedTuple):
    """The result of `Model.BaseFullScore`."""

    log_prob: float  # log10
    ngram_length: int
    oov: bool


class LoadMethod:
    """How KenLM loads a file. Accepted and not needed: a file is always mapped."""

    LAZY = 0
    POPULATE_OR_LAZY = 1
    POPULATE_OR_READ = 2
    READ = 3
    PARALLEL_READ = 4


class ARPALoadComplain:
    """When KenLM complains that it reads an ARPA file. Accepted and not needed."""

    ALL = 0
    EXPENSIVE = 1
    NONE = 2


class Config:
    """Settings of KenLM. Accepted and not needed.

    Attributes
    ----------
    load_method, show_progress, arpa_complain
        As in KenLM.
    """

    def __init__(self) -> None:
        self.load_method = LoadMethod.POPULATE_OR_READ
        self.show_progress = True
        self.arpa_complain = ARPALoadComplain.ALL


class Model(Tables):
    r"""A back-off model of words, asked as KenLM's.

    .. math::
        \log_{10} P(w_1 \ldots w_L) = \sum_{i=1}^{L+1}
        \log_{10} P(w_i \mid w_{i-N+1}, \ldots, w_{i-1})

    Parameters
    ----------
    path : str, bytes or os.PathLike
        An ARPA file, plain or compressed, or a binary of KenLM, probing or trie, also
        from ``LanguageModel.save(..., format="kenlm")`` or ``"trie"``, which is mapped.
        The first bytes tell which it is.

    config : Config, default=None
        Accepted as KenLM accepts it; nothing in it is needed.

    Attributes
    ----------
    path : bytes
        Absolute.

    order : int
        Length N of the longest n-grams.

    n_words : int
        Words, ``<unk>`` among them.

    Raises
    ------
    OSError
        If the file cannot be read as such a model; the message says why.

    Notes
    -----
    Words end at ASCII white space, and NUL ends the spelling of a word. Unknown words
    are ``<unk>``, in histories too. A model without ``<unk>`` gives them a
    log10-probability of -100.

    Examples
    --------
    >>> from sklstruct import KneserNeyLM, LanguageModel
    >>> from sklstruct.compat import kenlm
    >>> lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2)
    >>> lm.fit(["the cat sat", "the dog sat", "the cat ran"])  # doctest: +ELLIPSIS
    LanguageModel(...)
    >>> model = kenlm.Model.from_backoff(lm.backoff_model_)
    >>> round(model.score("the cat sat"), 3)
    -0.694
    >>> state, after = kenlm.State(), kenlm.State()
    >>> model.BeginSentenceWrite(state)
    >>> round(model.BaseScore(state, "the", after), 3)
    -0.069
    """

    def __init__(
        self, path: str | bytes | os.PathLike, config: Config | None = None
    ) -> None:
        if config is not None and not isinstance(config, Config):
            raise TypeError(f"config must be a Config, got {type(config).__name__}")
        name = os.path.abspath(path_as_peers_take(path))
        try:
            image = _load(name)
        except (OSError, ValueError) as exc:
            raise OSError(f"Cannot read model '{name}' ({exc})") from exc
        self._set(image, os.fsencode(name))

    def _set(self, image: Any, path: bytes) -> None:
        label = os.fsdecode(path) or "image"
        try:
            layout = read_layout(memoryview(image), label)
            super().__init__(image, layout)
        except ValueError as exc:
            raise OSError(f"Cannot read model '{label}' ({exc})") from exc
        self._image, self._layout, self.path = image, layout, path
        self.order, self.n_words = layout.order, layout.n_words

    # Of compiled methods, so that a word costs no call in between.
    BaseScore = Tables.score_word
    BeginSentenceWrite = Tables.write_start
    NullContextWrite = Tables.write_empty

    @classmethod
    def from_backoff(cls, model: BackoffModel, path: bytes = b"") -> Model:
        """The tables of a model in memory, without a file.

        Parameters
        ----------
        model : BackoffModel
            Over words: the ``backoff_model_`` of a fitted language model.

        path : bytes, default=b""
            Value of the attribute `path`.

        Returns
        -------
        model : Model
        """
        return cls._of_image(probing_image(without_zero_weights(model)), path)

    @classmethod
    def _of_image(cls, image: Any, path: bytes) -> Model:
        new = cls.__new__(cls)
        new._set(image, path)
        return new

    def score(self, sentence: str | bytes, bos: bool = True, eos: bool = True) -> float:
        """log10-probability of a sentence.

        Parameters
        ----------
        sentence : str or bytes
            Words with white space between them.

        bos : bool, default=True
            Whether the history begins with ``<s>``.

        eos : bool, default=True
            Whether ``</s>`` is scored.

        Returns
        -------
        log_prob : float
        """
        return self.score_text(sentence, bos, eos)

    def score_many(
        self, sentences: Iterable[str | bytes] | Any, bos: bool = True, eos: bool = True
    ) -> np.ndarray:
        """log10-probabilities of many sentences, in one call.

        Parameters
        ----------
        sentences : iterable of str or bytes, or Arrow array of strings
            An Arrow array of pyarrow becomes a list.

        bos, eos : bool, default=True
            As in `score`.

        Returns
        -------
        log_prob : float32 ndarray of shape (n_sentences,)
        """
        if isinstance(sentences, str | bytes):
            raise TypeError("sentences must be a list of sentences, not one")
        return self.score_texts(tuple(plain_list(sentences)), bos, eos)

    def perplexity(self, sentence: str | bytes) -> float:
        """Perplexity per word, the end mark counted: 10^(-score / (words + 1)).

        Infinite beyond the range of floats, where KenLM raises OverflowError.

        Parameters
        ----------
        sentence : str or bytes
            Words with white space between them.

        Returns
        -------
        perplexity : float
        """
        text = sentence.encode() if isinstance(sentence, str) else sentence
        exponent = -self.score(sentence) / (len(text.split()) + 1)
        try:
            return 10.0**exponent
        except OverflowError:
            return float("inf")

    def full_scores(
        self, sentence: str | bytes, bos: bool = True, eos: bool = True
    ) -> Iterator[tuple[float, int, bool]]:
        """(log10-probability, length of the n-gram, unknown) of each word.

        Parameters
        ----------
        sentence : str or bytes
            Words with white space between them.

        bos, eos : bool, default=True
            As in `score`.

        Returns
        -------
        scores : iterator of tuples
        """
        return iter(self.score_text_fully(sentence, bos, eos))

    def BaseFullScore(
        self, in_state: State, word: str, out_state: State
    ) -> FullScoreReturn:
        """`BaseScore` with the length of the n-gram and whether the word is unknown.

        Parameters
        ----------
        in_state, out_state : State
            The state before the word, and an object that gets the state after the word.

        word : str
            The word, without white space.

        Returns
        -------
        result : FullScoreReturn
        """
        return FullScoreReturn(*self.score_word_fully(in_state, word, out_state))

    def __contains__(self, word: str | bytes) -> bool:
        text = word.encode() if isinstance(word, str) else word
        return self.id_of(text) != 0

    def words(self) -> list[str]:
        """All words, in the order of their ids, ``<unk>`` first.

        Raises
        ------
        ValueError
            If the file does not hold them.
        """
        return read_words(self._image, self._layout, os.fsdecode(self.path))

    def __repr__(self) -> str:
        return f"<Model from {os.path.basename(self.path)!r}>"

    def __reduce__(self) -> tuple:
        if self.path and os.path.exists(self.path):
            return Model, (self.path,)
        return Model._of_image, (bytes(memoryview(self._image)), self.path)


LanguageModel = Model


def _load(path: str) -> Any:
    """The image of a binary, mapped, or of the tables of an ARPA file."""
    with open(path, "rb") as file:
        if not file.peek(len(MAGIC)).startswith(MAGIC):
            return probing_image(read(file))
        try:
            return mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        except (OSError, ValueError):  # a pipe
            return file.read()


def install() -> None:
    """Put this module where ``import kenlm`` finds it.

    For tests and scripts of programs that cannot be changed.

    Raises
    ------
    RuntimeError
        If another module of that name is loaded.
    """
    stand_in(__name__, "kenlm")
