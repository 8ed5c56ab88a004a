"""Node models of `HierarchicalClassifier` that several tests use."""

from sklstruct.linear import LinearClassifier


def logistic(**params):
    """The default node of dense X, with other parameters."""
    plain = {
        "solver": "quasi_newton",
        "penalize_intercept": False,
        "calibration": None,
    }
    return LinearClassifier("log_loss", **plain | params)
