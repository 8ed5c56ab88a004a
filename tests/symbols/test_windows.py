"""Streams of tokens, and their windows."""

import numpy as np
import pytest

from sklstruct.symbols import number_sentences, stream_windows
from sklstruct.symbols._sentences import token_stream


@pytest.mark.parametrize(
    "n_tokens, width", [(9, 2), (0, 1), (1, 1), (2, 1), (5, 5), (6, 5)]
)
def test_every_token_with_the_tokens_before_it(n_tokens, width):
    tokens = np.random.default_rng(0).integers(0, 9, n_tokens).astype(np.int32)
    windows, targets = stream_windows(tokens, width)
    expected = [
        (tokens[i - width : i].tolist(), tokens[i]) for i in range(width, n_tokens)
    ]
    assert list(zip(windows.tolist(), targets.tolist())) == expected
    assert windows.shape == (len(expected), width) and windows.dtype == np.int32


def test_a_mark_may_have_the_number_0():
    text = number_sentences(["a b", "", "b"])
    table = np.array([2, 3], dtype=np.int32)
    found = token_stream(text, table, start=0, end=1)
    assert found.tolist() == [-1, 0, 2, 3, 1, -1, 0, 1, -1, 0, 3, 1]
    found = token_stream(text, table, end=0, front=1)
    assert found.tolist() == [-1, -1, 2, 3, 0, -1, 0, -1, 3, 0]
