"""Log-linear models from a flat list of settings, those of their parts included."""

from sklearn.base import clone

from sklstruct.loglinear import (
    PENALTIES,
    JointLogLinear,
    StructuredLogLinearLM,
    StructuredLogLinearLMCV,
)
from sklstruct.loglinear._solvers import SOLVERS

OF_SOLVER = {"tol", "max_iter", "gap_tol", "verbose"}
OF_PENALTY = {"depth_weight", "gamma", "count_weight"}
OF_SEARCH = {"search", "factor", "max_fits", "validation_fraction"}


def part(given, table, settings, names):
    """The object of a name or a copy of an object, with its own settings taken out."""
    if not (names & settings.keys() or (isinstance(given, str) and given in table)):
        return given
    made = table[given]() if isinstance(given, str) else clone(given)
    return made.set_params(**{k: settings.pop(k) for k in names & settings.keys()})


def loglinear(max_depth=None, *, penalty="elastic_net", solver="auto", **settings):
    """A StructuredLogLinearLM whose penalty and solver are objects."""
    return StructuredLogLinearLM(
        max_depth,
        penalty=part(penalty, PENALTIES, settings, OF_PENALTY),
        solver=part(solver, SOLVERS, settings, OF_SOLVER),
        **settings,
    )


def loglinear_cv(**settings):
    """A StructuredLogLinearLMCV around `loglinear`."""
    of_search = {k: settings.pop(k) for k in OF_SEARCH & settings.keys()}
    return StructuredLogLinearLMCV(loglinear(**settings), **of_search)


def joint_loglinear(paths=None, *, solver="auto", **settings):
    """A JointLogLinear whose solver is an object."""
    solver = part(solver, SOLVERS, settings, OF_SOLVER)
    return JointLogLinear(paths, solver=solver, **settings)
