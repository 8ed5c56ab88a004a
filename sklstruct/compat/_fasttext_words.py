"""Words and word vectors of a file of fastText, under the names of its module."""

from __future__ import annotations

from typing import Any

import numpy as np

from .._checks import check_count, check_memory
from ..text import FastTextFile
from ..text._fasttext_open_fast import hash_bytes

Neighbours = list[tuple[float, str]]


def encoded(word: str) -> bytes:
    if not isinstance(word, str):
        raise TypeError(f"word must be a str, got {type(word).__name__}")
    return word.encode("utf-8", "surrogatepass")


def words_of(line: str) -> list[str]:
    """The words of a line, which white space of ASCII and zero bytes separate."""
    words = encoded(line).replace(b"\0", b" ").split()
    return [word.decode("utf-8", "surrogatepass") for word in words]


def check_line(text: Any, name: str) -> None:
    if not isinstance(text, str):
        raise TypeError(f"text must be a str, got {type(text).__name__}")
    if "\n" in text:
        raise ValueError(
            f"text has a line feed; {name} takes one line at a time: replace '\\n' by "
            "a space"
        )


class WordVectors:
    """The words of a file of fastText, and their rows of the input matrix."""

    _file: FastTextFile
    _directions: np.ndarray | None = None

    def get_dimension(self) -> int:
        """Number of columns of the matrices."""
        return self._file.settings["dim"]

    def get_words(
        self, include_freq: bool = False, on_unicode_error: str = "strict"
    ) -> Any:
        """The known words, the most frequent first; with their counts if asked for."""
        n = self._file.n_words
        words = [self._file.entry(i, on_unicode_error) for i in range(n)]
        return (words, self._file.counts[:n].copy()) if include_freq else words

    @property
    def words(self) -> list[str]:
        return self.get_words()

    def get_word_id(self, word: str) -> int:
        """The number of a word, -1 if it is unknown."""
        return self._file.tables.id_of(encoded(word))

    def __contains__(self, word: str) -> bool:
        return 0 <= self.get_word_id(word) < self._file.n_words

    def get_subword_id(self, subword: str) -> int:
        """The row of an n-gram of letters, before pruning."""
        bucket = self._file.settings["bucket"]
        if bucket < 1:
            raise ValueError("subword: the model has no n-grams of letters")
        return self._file.n_words + hash_bytes(encoded(subword)) % bucket

    def get_subwords(
        self, word: str, on_unicode_error: str = "strict"
    ) -> tuple[list[str], np.ndarray]:
        """(a word, if it is known, and its n-grams of letters, their rows)."""
        text = encoded(word)
        rows, places = self._file.tables.rows_of_word(text)
        padded = b"<" + text + b">"
        parts = [padded[a:b].decode("utf-8", on_unicode_error) for a, b in places]
        return ([word] if len(parts) < len(rows) else []) + parts, rows

    def get_input_vector(self, ind: int) -> np.ndarray:
        """A row of the input matrix."""
        if not 0 <= ind < self._file.n_rows:
            raise ValueError(
                f"ind={ind} is not a row: the input matrix has {self._file.n_rows}"
            )
        return self._file.tables.mean_of_rows(np.array([ind], dtype=np.int32))

    def get_word_vector(self, word: str) -> np.ndarray:
        """The mean of the rows of a word and of its letters; zeros for no row."""
        tables = self._file.tables
        return tables.mean_of_rows(tables.rows_of_word(encoded(word))[0])

    __getitem__ = get_word_vector

    def get_sentence_vector(self, text: str) -> np.ndarray:
        """The mean of the rows of a line; for word vectors that of unit vectors."""
        check_line(text, "get_sentence_vector")
        tables = self._file.tables
        if self._file.supervised:
            return tables.mean_of_rows(tables.rows_of_line(text))
        total, n = np.zeros(self.get_dimension(), dtype=np.float32), 0
        for word in encoded(text).split():
            vector = tables.mean_of_rows(tables.rows_of_word(word)[0])
            length = self._length(vector)
            if length > 0:
                total += vector * np.float32(1.0 / length)
                n += 1
        return total * np.float32(1.0 / n) if n else total

    def get_input_matrix(self) -> np.ndarray:
        """A copy of the input matrix."""
        return self._file.matrix("input").copy()

    def get_output_matrix(self) -> np.ndarray:
        """A copy of the output matrix."""
        return self._file.matrix("output").copy()

    def get_nearest_neighbors(
        self, word: str, k: int = 10, on_unicode_error: str = "strict"
    ) -> Neighbours:
        """[(cosine, word)] of the k words nearest to a word, which is left out."""
        return self._nearest(self.get_word_vector(word), k, {word}, on_unicode_error)

    def get_analogies(
        self,
        wordA: str,
        wordB: str,
        wordC: str,
        k: int = 10,
        on_unicode_error: str = "strict",
    ) -> Neighbours:
        """[(cosine, word)] of the k words nearest to A - B + C."""
        query = np.zeros(self.get_dimension(), dtype=np.float32)
        for word, sign in ((wordA, 1.0), (wordB, -1.0), (wordC, 1.0)):
            vector = self.get_word_vector(word)
            query += vector * np.float32(sign / (self._length(vector) + 1e-8))
        return self._nearest(query, k, {wordA, wordB, wordC}, on_unicode_error)

    def _length(self, vector):
        squares = self._file.tables.products(vector[np.newaxis], vector)
        return float(np.sqrt(squares[0]))

    def _nearest(self, query, k, without, on_unicode_error):
        n = self._file.n_words
        if self._directions is None:
            shape = n, self.get_dimension()
            what = f"the matrix of {n} words and {shape[1]} columns"
            check_memory(4.0 * n * shape[1], what, "read single words")
            self._directions = np.empty(shape, dtype=np.float32)
            self._file.tables.word_directions(self._directions)
        length = self._length(query)
        cosine = self._file.tables.products(self._directions, query)
        cosine /= np.float32(length if length >= 1e-8 else 1.0)
        left_out = [self.get_word_id(word) for word in without]
        cosine[[i for i in left_out if 0 <= i < n]] = -np.inf
        best = np.argsort(-cosine, kind="stable")[: check_count("k", k, 1)]
        return [
            (float(cosine[i]), self._file.entry(i, on_unicode_error))
            for i in best.tolist()
            if cosine[i] > -np.inf
        ]
