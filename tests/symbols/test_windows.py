"""Windows of a stream of tokens."""

import numpy as np
import pytest

from sklstruct.symbols import stream_windows


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
