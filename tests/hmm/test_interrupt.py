"""Ctrl-C in the middle of one sentence ends there, not behind it."""

import numpy as np
import pytest
from _hmm_problems import random_model

from sklstruct.hmm._automaton import ContextAutomaton
from sklstruct.hmm._candidates import make_candidates
from sklstruct.hmm._lattice import LatticeSolver
from sklstruct.hmm._refinement import RefinementSolver

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def problem(length):
    model = random_model("katz", 5, 5, 0)
    rng = np.random.RandomState(0)
    words = np.delete(np.arange(model.n_classes), model.labels.end_id)
    positions = [(words, rng.normal(size=len(words))) for _ in range(length)]
    return ContextAutomaton(model), make_candidates(positions, model.labels.end_id)


@pytest.mark.parametrize("call", ["decode", "sums"])
def test_lattice(interrupt, call):
    # Many times as long as the signal takes.
    automaton, c = problem(400_000)
    solver = LatticeSolver(automaton, max_states=10**9)
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        getattr(solver, call)(c)
    # The solver's memory is in order: it answers as a new one does.
    _, small = problem(5)
    again = LatticeSolver(automaton).decode(small)
    assert solver.decode(small).log_proba == again.log_proba


@pytest.mark.parametrize("refine", ["row", "literal"])
@pytest.mark.parametrize("sampling", [False, True])
def test_refinement(interrupt, refine, sampling):
    automaton, c = problem(3_000)
    solver = RefinementSolver(automaton, refine=refine, max_states=10**7)
    interrupt()
    with pytest.raises(KeyboardInterrupt):
        if sampling:
            solver.sample(c, 10**6, np.random.RandomState(0))
        else:
            while True:  # however good the first bound is
                solver.decode(c)
