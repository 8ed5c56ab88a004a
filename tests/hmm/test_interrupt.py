"""Ctrl-C in the middle of one sentence ends there, not behind it."""

import contextlib

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
    positions = [(words, row) for row in rng.normal(size=(length, len(words)))]
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


@pytest.mark.parametrize("length", [500, 2_000])
def test_lattice_whose_memory_grows(length, monkeypatch):
    """An interrupt at any new array leaves sizes and arrays that belong together."""
    automaton, c = problem(length)
    _, small = problem(5)
    found = [LatticeSolver(automaton).decode(x) for x in (small, c)]
    expected = [x.log_proba for x in found]
    # Memory that has grown to the most states is not tried again.
    most = found[1].n_states
    made, np_empty = [], np.empty

    def empty(*arguments, **options):
        made.append(arguments)
        if len(made) == last:
            raise KeyboardInterrupt
        return np_empty(*arguments, **options)

    last = 0
    while len(made) >= last:  # until no array is left to interrupt
        solver = LatticeSolver(automaton, max_states=most)
        solver.decode(small)
        made.clear()
        last += 1
        with monkeypatch.context() as patch, contextlib.suppress(KeyboardInterrupt):
            patch.setattr(np, "empty", empty)
            solver.decode(c)
        assert [solver.decode(x).log_proba for x in (small, c)] == expected
    assert last > 10


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


def test_a_few_refinements_of_a_long_sentence(interrupt):
    automaton, c = problem(3_000)
    bounds = [RefinementSolver(automaton)._bound(c) for _ in range(2)]
    for q in bounds:
        q._reserve(70 * c.n_positions, 70 * len(c.ids))
    interrupt(working=True)
    with pytest.raises(KeyboardInterrupt):
        bounds[0].climb(63, 0.0, 10**9)
    bounds[1].climb(63, 0.0, 10**9)
    assert bounds[0].n_states < bounds[1].n_states
