"""Word graphs."""

import numpy as np
import pytest
import scipy.sparse as sp

from sklstruct.smoothing import group_graph


def check_graph(graph, n):
    assert isinstance(graph, sp.csr_array)
    assert graph.shape == (n, n)
    assert graph.has_canonical_format
    assert (graph.data > 0).all()
    assert not graph.diagonal().any()
    assert abs(graph - graph.T).nnz == 0


def test_groups():
    graph = group_graph(["a", "b", "a", None, None, "a"])
    check_graph(graph, 6)
    expected = np.zeros((6, 6))
    for i, j in ((0, 2), (0, 5), (2, 5)):
        expected[i, j] = expected[j, i] = 1
    np.testing.assert_array_equal(graph.toarray(), expected)
    check_graph(group_graph(range(4)), 4)
    check_graph(group_graph([]), 0)


def test_groups_that_are_too_large():
    with pytest.raises(ValueError, match="smaller groups"):
        group_graph(["x"] * 10_002)
