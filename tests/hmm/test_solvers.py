"""Both solvers against enumeration of every path, and against each other."""

import itertools

import numpy as np
import pytest
from _cases import each_value
from _hmm_problems import only, random_model
from scipy.special import logsumexp
from scipy.stats import chisquare

from sklstruct.hmm import HighOrderHMM, _lattice, _refinement
from sklstruct.hmm._automaton import ContextAutomaton
from sklstruct.hmm._candidates import Decoded, make_candidates
from sklstruct.hmm._lattice import LatticeSolver, LatticeTooLargeError
from sklstruct.hmm._refinement import RefinementSolver

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")


def log_joints(model, paths):
    """log P of paths of one length with their ends, by the model's own queries."""
    marks = [] if model.labels.start is None else [model.labels.start]
    ends = [] if model.labels.end is None else [model.labels.end_id]
    width = max(model.max_depth, 1)
    windows, targets = [], []
    for path in paths:
        words = [*marks, *model.labels.classes[list(path)].tolist()]
        targets += [*path, *ends]
        for i in range(len(path) + len(ends)):
            history = words[: len(marks) + i][-width:]
            windows.append([None] * (width - len(history)) + history)
    if not targets:
        return np.zeros(len(paths))
    array = np.empty((len(windows), width), dtype=object)
    array[:] = windows
    nodes = model.locate(
        model.labels.encode_contexts(array)[:, width - model.max_depth :]
    )
    return model.target(nodes, targets).reshape(len(paths), -1).sum(axis=1)


def log_joint(model, path, factors=0.0):
    return float(log_joints(model, [path])[0]) + factors


def random_candidates(model, length, rng, all_classes=False):
    end = -1
    if model.labels.end is not None:
        end = model.labels.end_id
    words = [y for y in range(model.n_classes) if y != end]
    positions = []
    for _ in range(length):
        n = len(words) if all_classes else rng.randint(1, len(words) + 1)
        ids = np.sort(rng.choice(words, n, replace=False))
        positions.append((ids, rng.normal(scale=1.5, size=n)))
    return make_candidates(positions, end)


def enumerate_paths(model, c):
    """(paths, scores) over the product of the candidates, best first."""
    choices = [range(c.ptr[i], c.ptr[i + 1]) for i in range(c.length)]
    picks = np.array(list(itertools.product(*choices)), dtype=np.intp)
    paths = [tuple(path) for path in c.ids[picks].tolist()]
    scores = log_joints(model, paths) + c.log_factor[picks].sum(axis=1)
    order = np.argsort(-scores, kind="stable")
    return [paths[i] for i in order], scores[order]


KINDS = ["additive", "kneser-ney", "witten-bell", "katz", "zeros"]
# Order of the model, number of words, length of the sequence.
SHAPES = [(2, 2, 6), (2, 5, 4), (3, 3, 5), (3, 5, 3), (4, 2, 6), (4, 3, 5), (5, 2, 6),
          (5, 3, 5), (5, 4, 4), (3, 4, 1), (2, 3, 3), (4, 2, 0)]  # fmt: skip


@pytest.mark.parametrize(*each_value(kind=KINDS, shape=SHAPES, marks=[True, False]))
def test_lattice_equals_enumeration(kind, shape, marks):
    order, n_words, length = shape
    seed = SHAPES.index(shape)
    model = random_model(kind, order, n_words, seed, marks)
    rng = np.random.RandomState(seed)
    c = random_candidates(model, length, rng)
    paths, scores = enumerate_paths(model, c)
    possible = scores > -np.inf
    solver = LatticeSolver(ContextAutomaton(model))
    for prune in (False, True):
        found = solver.decode(c, prune)
        if not possible.any():
            assert found.log_proba == -np.inf and len(found.path) == 0
            continue
        assert found.log_proba == pytest.approx(scores[0], abs=1e-9)
        assert log_joint(model, found.path) > -np.inf
        ties = [p for p, s in zip(paths, scores) if s > scores[0] - 1e-9]
        assert tuple(found.path.tolist()) in ties
    lattice = solver.sums(c)
    if not possible.any():
        assert lattice.log_z() == -np.inf
        assert (lattice.marginals() == 0).all()
        assert solver.n_best(c, 3) == []
        return
    log_z = logsumexp(scores)
    assert lattice.log_z() == pytest.approx(log_z, abs=1e-9)
    expected = np.zeros(len(c.ids))
    for path, score in zip(paths, scores):
        for i, y in enumerate(path):
            at = c.ptr[i] + np.flatnonzero(c.ids[c.ptr[i] : c.ptr[i + 1]] == y)[0]
            expected[at] += np.exp(score - log_z)
    if model.labels.end is not None:
        expected[-1] = 1.0
    n = c.ptr[c.length]
    np.testing.assert_allclose(lattice.marginals()[:n], expected[:n], atol=1e-9)
    n_best = solver.n_best(c, 7)
    assert len(n_best) == min(7, possible.sum())
    np.testing.assert_allclose([s for _, s in n_best], scores[: len(n_best)], atol=1e-9)
    assert len({tuple(p.tolist()) for p, _ in n_best}) == len(n_best)
    for path, score in n_best:
        i = paths.index(tuple(path.tolist()))
        assert scores[i] == pytest.approx(score, abs=1e-9)


@pytest.mark.parametrize(
    *each_value(
        kind=KINDS,
        shape=SHAPES,
        marks=[True, False],
        refine=["row", "row", "literal", "literal"],
    )
)
def test_refinement_equals_enumeration(kind, shape, marks, refine):
    order, n_words, length = shape
    seed = SHAPES.index(shape)
    model = random_model(kind, max(order, 2), n_words, seed, marks)
    c = random_candidates(model, length, np.random.RandomState(seed))
    paths, scores = enumerate_paths(model, c)
    solver = RefinementSolver(ContextAutomaton(model), refine=refine)
    trace = []
    found = solver.decode(c, trace)
    if scores[0] == -np.inf:
        assert found.log_proba == -np.inf and len(found.path) == 0
        return
    assert found.gap <= 1e-9
    assert found.log_proba == pytest.approx(scores[0], abs=1e-9)
    ties = [p for p, s in zip(paths, scores) if s > scores[0] - 1e-9]
    assert tuple(found.path.tolist()) in ties
    bound = [log_q for log_q, _, _, _ in trace]
    assert (np.diff(bound) <= 1e-9).all()  # the bound falls, and stays one
    assert all(log_q >= scores[0] - 1e-9 for log_q in bound)
    assert all(log_p <= log_q + 1e-9 for log_q, log_p, _, _ in trace)
    for max_iter in range(min(len(trace), 5)):
        solver.max_iter = max_iter
        early = solver.decode(c)
        assert early.n_iterations <= max_iter
        assert early.log_proba <= scores[0] + 1e-9
        if early.log_proba == -np.inf:  # no possible path found yet
            assert early.gap == np.inf
        else:
            assert early.log_proba + early.gap >= scores[0] - 1e-9


@pytest.mark.parametrize(
    *each_value(
        kind=["additive", "kneser-ney", "witten-bell", "katz"],
        refine=["row", "literal"],
        batch_size=[1, 3, 10],
    )
)
def test_refinement_samples_follow_the_posterior(kind, refine, batch_size):
    model = random_model(kind, 3, 3, 5)
    c = random_candidates(model, 4, np.random.RandomState(0), all_classes=True)
    paths, scores = enumerate_paths(model, c)
    exact = np.exp(scores - logsumexp(scores))
    solver = RefinementSolver(
        ContextAutomaton(model), refine=refine, batch_size=batch_size
    )
    drawn = solver.sample(c, 5000, np.random.RandomState(3), acceptance=1.0)
    assert len(drawn.paths) == 5000
    check_frequencies(paths, exact, drawn.paths)


@pytest.mark.parametrize("kind", KINDS)
def test_bounds_of_a_longer_context_are_not_larger(kind):
    larger = 0
    for seed in range(10):
        model = random_model(kind, 4, 5, seed)
        rng = np.random.RandomState(seed)
        c = random_candidates(model, 6, rng, all_classes=True)
        q = RefinementSolver(ContextAutomaton(model))._bound(c)
        for _ in range(20):  # along random paths: most refinements of decoding are few
            q.refine(rng.randint(np.diff(c.ptr)).astype(np.int32))
        ptr, score, state = (q._arrays[n] for n in ("row_ptr", "score", "state"))
        rows = [score[ptr[s] : ptr[s + 1]] for s in range(q.n_states)]
        for s in range(c.n_positions + 1, q.n_states):
            up = state[s, 3]
            assert (rows[s] <= rows[up]).all()
            larger += 1
    assert larger > 100


@pytest.mark.parametrize("refine", ["row", "literal"])
def test_the_first_of_equal_candidates_is_the_best(refine):
    model = random_model("additive", 2, 8, 0, False)
    automaton = ContextAutomaton(model)
    automaton.arc_log_prob[:] = automaton.arc_max[:] = -2.0
    automaton.backoff[:] = automaton.max_backoff[:] = 0.0
    for n in range(2, 9):
        factor = np.append(-1.0, np.zeros(n - 1))  # all others are equal
        c = make_candidates([(np.arange(n)[::-1], factor)] * 3, -1)
        solver = RefinementSolver(automaton, refine=refine)
        assert solver.decode(c).path.tolist() == [n - 2] * 3


@pytest.mark.parametrize(
    *each_value(kind=KINDS, order=[5, 3, 2, 4], n_words=[5, 2, 3], marks=[True, False])
)
def test_max_backoff_table(kind, order, n_words, marks):
    model = random_model(kind, order, n_words, order, marks)
    a = ContextAutomaton(model)
    words = [y for y in range(a.n_classes) if y != a.end_class]
    # Every full history: order - 1 words, or fewer after the start, marked or not.
    best = {}
    for length in range(order):
        for history in itertools.product(words, repeat=length):
            if marks and length < order - 1:
                ids = [a.start_symbol, *a.symbol_of_class[list(history)]]
            else:
                ids = a.symbol_of_class[list(history)]
            window = np.full((1, model.max_depth), -1)
            if len(ids):
                window[0, -len(ids) :] = ids
            row = model.rows(model.locate(window))[0]
            for k in range(len(ids) + 1):
                key = tuple(int(s) for s in ids[len(ids) - k :])
                best[key] = np.maximum(best.get(key, -np.inf), row)
    seen = 0
    for node in range(a.n_nodes):
        context, n = [], node
        while n:
            context.append(int(a.tree.symbol[n]))
            n = a.tree.parent[n]
        context = tuple(context)  # oldest first
        if context not in best:
            continue
        seen += 1
        arcs = slice(a.arc_ptr[node], a.arc_ptr[node + 1])
        row = model.rows([node])[0] + a.max_backoff[node]
        row[a.arc_class[arcs]] = a.arc_max[arcs]
        np.testing.assert_allclose(row, best[context], atol=1e-12)
    assert seen >= n_words


@pytest.mark.parametrize("kind", ["additive", "kneser-ney", "witten-bell", "katz"])
def test_lattice_samples_follow_the_posterior(kind):
    model = random_model(kind, 3, 3, 5)
    c = random_candidates(model, 4, np.random.RandomState(0), all_classes=True)
    paths, scores = enumerate_paths(model, c)
    exact = np.exp(scores - logsumexp(scores))
    drawn = (
        LatticeSolver(ContextAutomaton(model))
        .sums(c)
        .sample(20000, np.random.RandomState(7))
    )
    check_frequencies(paths, exact, drawn)


def check_frequencies(paths, exact, drawn):
    index = {p: i for i, p in enumerate(paths)}
    counts = np.bincount(
        [index[tuple(row)] for row in drawn.tolist()], minlength=len(paths)
    )
    common = exact * len(drawn) >= 5
    observed = np.append(counts[common], counts[~common].sum())
    expected = np.append(exact[common], exact[~common].sum()) * len(drawn)
    keep = expected > 0
    expected = expected[keep] * observed.sum() / expected[keep].sum()
    assert chisquare(observed[keep], expected).pvalue > 1e-3


def test_max_states():
    model = random_model("additive", 4, 5, 0)
    c = random_candidates(model, 6, np.random.RandomState(0), all_classes=True)
    with pytest.raises(LatticeTooLargeError, match="max_states=3"):
        LatticeSolver(ContextAutomaton(model), max_states=3).decode(c)


def test_max_states_of_a_long_sentence_are_for_each_1000_positions():
    model = random_model("additive", 4, 5, 0)
    automaton, rng = ContextAutomaton(model), np.random.RandomState(0)
    c = random_candidates(model, 2_000, rng, all_classes=True)
    exact = LatticeSolver(automaton).decode(c)
    most = -(-exact.n_states * 1_000 // c.n_positions)
    found = LatticeSolver(automaton, most).decode(c)
    assert found.log_proba == exact.log_proba and (found.path == exact.path).all()
    with pytest.raises(LatticeTooLargeError, match=f"max_states={most - 1} "):
        LatticeSolver(automaton, most - 1).decode(c)


def without_memory(n_bytes, what, remedy):
    raise MemoryError(f"{what}: {remedy}")


def test_a_lattice_that_no_memory_holds_says_so(monkeypatch):
    monkeypatch.setattr(_lattice, "check_memory", without_memory)
    X, y = [["a", "b"]] * 3, [["x", "y"]] * 3
    model = HighOrderHMM(2).fit(X, y)
    with pytest.raises(MemoryError, match="lattice of 16384 states: lower max_states"):
        model.predict([["a"] * 5000])


@pytest.mark.parametrize("kind", KINDS)
def test_a_cut_lattice_has_a_certified_gap(kind):
    gaps = []
    for seed in range(10):
        model = random_model(kind, 4, 5, seed)
        automaton, rng = ContextAutomaton(model), np.random.RandomState(seed)
        c = random_candidates(model, 4, rng, all_classes=True)
        _, scores = enumerate_paths(model, c)
        best, before = scores.max(), np.inf
        for max_states in (*range(c.n_positions + c.width, 120, 3), 100_000):
            found = LatticeSolver(automaton, max_states).decode_within(c)
            gaps.append(found.gap)
            assert found.gap >= 0.0
            if found.log_proba == -np.inf:
                assert best == -np.inf or found.gap == np.inf
                continue
            path = log_joint(model, found.path, factors_of(c, found.path))
            assert found.log_proba == pytest.approx(path, abs=1e-9)
            assert found.log_proba <= best + 1e-9
            assert found.log_proba + found.gap >= best - 1e-9
            before = found.gap
        assert before == 0.0 and found.log_proba == pytest.approx(best, abs=1e-9)
    assert 0.0 < max(gaps) and sum(g > 0.0 for g in gaps) < len(gaps)


def factors_of(c, path):
    """Sum of the candidates' factors along a path."""
    where = [
        c.ptr[i] + int(np.flatnonzero(c.ids[c.ptr[i] : c.ptr[i + 1]] == y)[0])
        for i, y in enumerate(path)
    ]
    return float(c.log_factor[where].sum())


def test_the_gap_of_a_beam_is_that_of_the_best_state_left_out():
    """One state per position: the bound is the best of all first steps away from it."""
    for seed in range(20):
        model = random_model("kneser-ney", 3, 4, seed)
        c = random_candidates(model, 4, np.random.RandomState(seed), all_classes=True)
        solver = LatticeSolver(ContextAutomaton(model), c.n_positions + c.width)
        found = solver.decode_within(c)
        if found.gap == 0.0:
            continue
        bound, best = solver.bounds(c), -np.inf
        for i in range(c.length):
            start = [c.ids[c.ptr[j] : c.ptr[j + 1]].tolist() for j in range(i)]
            start = [
                s.index(y) + c.ptr[j] for j, (s, y) in enumerate(zip(start, found.path))
            ]
            for at in range(c.ptr[i], c.ptr[i + 1]):
                if c.ids[at] != found.path[i]:
                    prefix = [*found.path[:i].tolist(), int(c.ids[at])]
                    score = prefix_score(model, prefix)
                    score += c.log_factor[[*start, at]].sum() + bound[at]
                    best = max(best, score)
        assert found.log_proba + found.gap == pytest.approx(best, abs=1e-9)


def prefix_score(model, path):
    """log P of the first class ids of a path."""
    whole = log_joint(model, path)
    end = model.labels.end_id
    marks = [] if model.labels.start is None else [model.labels.start]
    words = [*marks, *model.labels.classes[path].tolist()]
    width = max(model.max_depth, 1)
    history = ([None] * width + words)[-width:]
    window = np.empty((1, width), dtype=object)
    window[0] = history
    node = model.locate(
        model.labels.encode_contexts(window)[:, width - model.max_depth :]
    )
    return whole - float(model.target(node, [end])[0])


def test_the_nearer_of_two_answers():
    none, path = np.empty(0, dtype=np.int32), np.arange(2, dtype=np.int32)
    cut = Decoded(path, -5.0, 2.0, 0, 10)  # at most -3
    assert cut.nearer(Decoded(none, -np.inf, np.inf, 3, 4)) == Decoded(
        path, -5, 2, 3, 10
    )
    better = cut.nearer(Decoded(path + 1, -4.0, 3.0, 3, 4))  # at most -1
    assert better.log_proba == -4.0 and better.gap == 1.0
    assert (better.path == path + 1).all()
    lost = Decoded(none, -np.inf, np.inf, 0, 10)
    assert lost.nearer(lost).gap == np.inf
    assert lost.nearer(Decoded(none, -np.inf, 0.0, 1, 1)).gap == 0.0  # impossible
    assert lost.nearer(Decoded(path, -4.0, 0.5, 1, 1)).gap == 0.5


@pytest.mark.parametrize("kind", KINDS)
def test_pruning_after_a_narrow_beam(kind, monkeypatch):
    monkeypatch.setattr("sklstruct.hmm._lattice._BEAM", 1)
    for seed in range(10):
        model = random_model(kind, 4, 5, seed)
        c = random_candidates(model, 8, np.random.RandomState(seed), all_classes=True)
        solver = LatticeSolver(ContextAutomaton(model))
        whole, pruned = solver.decode(c, False), solver.decode(c, True)
        assert pruned.log_proba == pytest.approx(whole.log_proba, abs=1e-12)
        assert pruned.n_states <= whole.n_states


@pytest.mark.parametrize("at", [0, 1, 2])
def test_a_position_without_candidates_has_no_path(at):
    # The place of the last position is past all bounds: kernels with bounds checks
    # refuse its address.
    model = random_model("additive", 3, 3, 0, marks=False)
    positions = [(np.array([0, 1]), np.zeros(2))] * 3
    positions[at] = np.empty(0, dtype=np.int64), np.empty(0)
    c = make_candidates(positions, -1)
    assert c.ptr[at] == c.ptr[at + 1]
    solver = LatticeSolver(ContextAutomaton(model))
    for prune in (False, True):
        n_states = np.diff(solver.best_lattice(c, prune).ptr)
        assert (n_states[: at + 1] > 0).all() and not n_states[at + 1 :].any()
        assert solver.decode(c, prune).log_proba == -np.inf


def test_a_bound_that_no_memory_holds_says_so(monkeypatch):
    monkeypatch.setattr(_refinement, "check_memory", without_memory)
    X, y = [["a", "b"]] * 3, [["x", "y"]] * 3
    tagger = HighOrderHMM(2).fit(X, y)
    with only("refine"), pytest.raises(MemoryError, match="lower max_states"):
        tagger.predict(X)


def test_trials_that_are_all_rejected_end():
    """max_iter rejected trials in a row are an error, and max_iter - 1 are not."""
    model, rng = random_model("additive", 3, 3, 5), np.random.RandomState(0)
    c = random_candidates(model, 4, rng, all_classes=True)
    solver = RefinementSolver(ContextAutomaton(model), max_iter=3)

    class Scripted:
        """Paths are drawn at random; the answers whether to accept are given."""

        def __init__(self, answers):
            self.answers = iter(answers)

        def random_sample(self, size=None):
            return next(self.answers) if size is None else rng.random_sample(size)

    assert len(solver.sample(c, 1, Scripted([1.0] * 2 + [0.0])).paths) == 1
    with pytest.raises(ValueError, match="3 trials in a row were rejected"):
        solver.sample(c, 1, Scripted([1.0] * 3))
