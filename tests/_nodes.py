"""Node models of `HierarchicalClassifier` that several tests use."""

from contextlib import contextmanager

import numpy as np
import pytest

from sklstruct.hierarchical import _dual_nodes
from sklstruct.linear import LinearClassifier


@contextmanager
def leaves(n):
    """Fits in this context evaluate n leaves for each sample."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(_dual_nodes, "_LEAF_CANDIDATES", (n,))
        yield


def logistic(**params):
    """The default node of dense X, with other parameters."""
    plain = {
        "solver": "quasi_newton",
        "intercept_scaling": np.inf,
        "calibration": None,
    }
    return LinearClassifier("log_loss", **plain | params)
