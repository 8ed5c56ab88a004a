"""Classes and symbols that are all strings, as a table that processes can share."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .._checks import as_ids, check_ids
from ._encoding import pack_strings
from ._strings_fast import StringTable


class Strings(NamedTuple):
    """Classes and symbols that are all strings, in the form of files and pickles.

    Python's strings take ten times the memory, and processes cannot share them.
    """

    table: StringTable  # of the tokens
    token_of_class: np.ndarray  # (n_classes,) int32
    n_symbols: int | None  # None: not known; the tokens are the classes

    @classmethod
    def of(cls, classes: np.ndarray, symbols: np.ndarray | None) -> Strings | None:
        """The `Strings` of two arrays; None if the arrays also have other labels."""
        tokens: list[list[str]] = []
        for array in (classes, symbols):
            if array is None:
                continue
            if array.dtype != object or not set(map(type, array.tolist())) <= {str}:
                return None
            tokens.append(array.tolist())
        table = StringTable(*pack_strings(tokens[-1], "surrogatepass"))
        if tokens[0] == tokens[-1][: classes.size]:  # and the rest are marks
            token = np.arange(classes.size, dtype=np.int32)
        else:
            token = table.ids(tokens[0])
        new = np.flatnonzero(token < 0)
        if new.size:
            token[new] = len(table) + np.arange(new.size, dtype=np.int32)
            tokens[-1] += [tokens[0][i] for i in new.tolist()]
            table = StringTable(*pack_strings(tokens[-1], "surrogatepass"))
        return cls(table, token, None if symbols is None else symbols.size)

    def check(self) -> Strings:
        """The same with arrays of the right types; ValueError if they do not fit."""
        n_tokens, token = len(self.table), as_ids("token_of_class", self[1], 1)
        # Without symbols each token is a new class.
        n_symbols = 0 if self.n_symbols is None else self.n_symbols
        if type(n_symbols) is not int or not 0 <= n_symbols <= n_tokens:
            raise ValueError(f"n_symbols={n_symbols!r} of {n_tokens} tokens")
        check_ids("token_of_class", token, 0, n_tokens, "token")
        seen = np.zeros(n_tokens, dtype=bool)
        seen[token] = True
        new = token[token >= n_symbols]
        if np.count_nonzero(seen) != token.size or not np.array_equal(
            new, np.arange(n_symbols, n_tokens)
        ):
            raise ValueError("token_of_class does not number the classes")
        return self._replace(token_of_class=token)

    def packed(self) -> tuple:
        """The arrays of a pickle: two of a `StringTable`, the rest of `Strings`."""
        return self.table.text, self.table.ends, self.token_of_class, self.n_symbols
