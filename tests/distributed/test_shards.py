"""Shards of a tree: cut, joined, and models fitted on them in lockstep."""

import warnings
import weakref
from bisect import bisect
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pytest
from _cases import all_pairs, each_value
from _families import smoothers
from _loglinear import loglinear
from _oracles import running_shares
from numpy._core.multiarray import get_handler_name
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning

from sklstruct import KneserNeyLM, StructuredLogLinearLM
from sklstruct._checkpoint import NO_STORE
from sklstruct.backoff import Counted
from sklstruct.context_tree import ContextTree, Pairs, RunFile
from sklstruct.context_tree._shards import (
    Joined,
    PairShard,
    border,
    shard_bounds,
)
from sklstruct.context_tree._tokens import count_tokens
from sklstruct.distributed import _tasks
from sklstruct.distributed._array_file_fast import ArrayFile
from sklstruct.distributed._lockstep import DONE, ERROR, Lockstep, Request, join
from sklstruct.distributed._sharded_fit import (
    FITS,
    ShardedFit,
    fit_shard,
    gather,
    sharded_fit,
)
from sklstruct.loglinear import L1, ElasticNet, Penalty
from sklstruct.smoothing import AbsoluteDiscountLM, WittenBellLM
from sklstruct.symbols import Labels

warnings_expected = pytest.mark.filterwarnings("ignore::UserWarning")


def random_pairs(seed=0, n_symbols=7, n=400, depth=3, weighted=False):
    """Pairs and counts of a random text in sentences."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.full(n_symbols, 0.4), size=n_symbols)
    share = running_shares(p)
    tokens, x = [-1], 0
    for _ in range(n):
        x = bisect(share[x], rng.random())
        tokens.append(-1 if rng.random() < 0.1 and tokens[-1] >= 0 else x)
    tokens = np.array(tokens, dtype=np.int32)
    weight = rng.random(tokens.size) + 0.1 if weighted else None
    # A class that is never seen.
    return count_tokens(tokens, depth, n_symbols + 1, n_symbols + 1, weight=weight)


def no_store(identity):
    return NO_STORE


def run_in_lockstep(functions, stop_after=None, after=lambda k: None):
    """Results of the functions of all shards, and what they asked for.

    after: called with the number of a shard when the shard has made a request.
    """
    shards = [Lockstep(function) for function in functions]
    reply, log = None, []
    while True:
        requests = []
        for k, shard in enumerate(shards):
            requests.append(shard.advance(reply))
            after(k)
        kinds = {request.kind for request in requests}
        if ERROR in kinds:
            raise next(r.value for r in requests if r.kind == ERROR)
        if kinds == {DONE}:
            return [r.value[0] for r in requests], requests[0].value[1], log
        log.append(requests[0])
        if kinds == {"report"}:
            assert len({r.value for r in requests}) == 1
            reply = stop_after is not None and requests[0].value[0] >= stop_after
        elif kinds == {"keep"}:
            reply = False
        else:
            reply = join(requests).value
            for request in requests:
                assert request.value.keys() <= reply.keys()


def counted_of(pairs, count, max_depth=3):
    labels = Labels.of_ids(pairs.n_classes, pairs.tree.n_symbols)
    return Counted(pairs, count, labels, max_depth, max_depth)


def cut(pairs, count, n_shards, width=1):
    """(bounds, pairs, counts) of each shard; cuts are at up to `width` symbols."""
    tree = pairs.tree
    newest = np.pad(tree.windows()[:, ::-1], ((0, 0), (0, width)), constant_values=-1)
    own = pairs.node_sums(pairs.terminal_counts(count))
    if width == 1:
        prefixes, sizes = np.arange(tree.n_symbols), np.zeros(tree.n_symbols)
        np.add.at(sizes, newest[1:, 0], own[1:])
    else:
        prefixes, of = np.unique(newest[1:, :width], axis=0, return_inverse=True)
        sizes = np.bincount(of.ravel(), own[1:])
    bounds = shard_bounds(
        prefixes.reshape(len(sizes), -1), sizes, n_shards, tree.n_symbols
    )
    run = RunFile.of_pairs(pairs, count, None)
    begin, end = run.places([(), *(last for _, last in bounds)])
    parts = [run.range(begin[..., k], end[..., k + 1]).pairs() for k in range(n_shards)]
    for (part, _), (first, _) in zip(parts, bounds):
        part.borrowed = len(border(part.tree, first, False))
    return bounds, parts


def fit_sharded(
    model, pairs, count, n_shards, max_depth=3, stop_after=None, width=1, files=None
):
    """files: `ArrayFile` of each shard, whose pages leave after each request."""
    bounds, parts = cut(pairs, count, n_shards, width)

    def function(bounds, part, numbers, file):
        def run(meeting):
            shard = PairShard(part, bounds, pairs.tree.n_levels, meeting)
            return fit_shard(
                clone(model), shard, counted_of(part, numbers), no_store,
                meeting.report,
            )  # fmt: skip

        return run if file is None else lambda meeting: file.call(lambda: run(meeting))

    models, notes, log = run_in_lockstep(
        [
            function(*of_shard)
            for of_shard in zip(bounds, *zip(*parts), files or [None] * n_shards)
        ],
        stop_after,
        lambda k: files and files[k].release(),
    )
    labels = Labels.of_ids(pairs.n_classes, pairs.tree.n_symbols)

    def fields(name):
        return [getattr(one, name) for one in models]

    fitted = gather(clone(model), fields, max_depth, labels)
    return fitted, notes, log


def fit_whole(model, pairs, count, max_depth=3):
    return clone(model).fit_counted(counted_of(pairs, count, max_depth))


# ---------------------------------------------------------------- cut and join


@pytest.mark.parametrize(
    "n_shards, depth, width",
    [
        (1, 4, 1), (2, 0, 1), (3, 0, 1), (2, 1, 1), (20, 1, 1), (2, 4, 2), (20, 4, 2),
        (3, 4, 3), (20, 4, 3),
    ],
)  # fmt: skip
def test_joined_shards_are_the_tree(n_shards, depth, width):
    pairs, count = random_pairs(depth=depth)
    bounds, parts = cut(pairs, count, n_shards, width)
    assert [a for a, _ in bounds[1:]] == [b for _, b in bounds[:-1]]
    assert (bounds[0][0], bounds[-1][1]) == ((), (pairs.tree.n_symbols,))
    for part, numbers in parts:  # as the public constructors check them
        tree = ContextTree(part.tree.parent, part.tree.symbol, pairs.tree.n_symbols)
        assert tree == part.tree
        np.testing.assert_array_equal(tree.level_ptr, part.tree.level_ptr)
        again = Pairs(tree, part.ptr, part.target)
        np.testing.assert_array_equal(again.parent, part.parent)
        np.testing.assert_array_equal(
            numbers[: part.n_classes], count[: part.n_classes]
        )
    joined = Joined([part for part, _ in parts])
    assert joined.pairs == pairs
    np.testing.assert_array_equal(joined.pairs.parent, pairs.parent)
    np.testing.assert_array_equal(joined.pairs.tree.level_ptr, pairs.tree.level_ptr)
    np.testing.assert_array_equal(joined.of_pairs([c for _, c in parts]), count)
    nodes = pairs.node_sums(count)
    of_parts = [part.node_sums(c) for part, c in parts]
    np.testing.assert_array_equal(joined.of_nodes(of_parts), nodes)


def test_shards_are_of_about_equal_sizes():
    rng = np.random.default_rng(0)
    sizes = rng.integers(0, 50, 1000)
    for n in (1, 2, 7):
        cuts = [a for a, _ in shard_bounds(np.arange(1000)[:, None], sizes, n, 1000)]
        at = [0, *(symbol for (symbol,) in cuts[1:]), 1000]
        got = [sizes[a:b].sum() for a, b in pairwise(at)]
        assert sum(got) == sizes.sum()
        assert max(got) - min(got) <= 2 * sizes.max()


@pytest.mark.parametrize(
    *all_pairs(weighted=[False, True], width=[1, 2, 3], n_shards=[3, 20])
)
def test_counts_of_shards(weighted, width, n_shards):
    """Terminal and adjusted counts of a context in several shards need all of them."""
    pairs, count = random_pairs(1, weighted=weighted)
    bounds, parts = cut(pairs, count, n_shards, width)

    def function(bounds, part, numbers):
        def run(meeting):
            shard = PairShard(part, bounds, pairs.tree.n_levels, meeting)
            return shard.terminal_counts(numbers), shard.adjusted_counts(numbers)

        return run

    functions = [function(*of_shard) for of_shard in zip(bounds, *zip(*parts))]
    found, _, _ = run_in_lockstep(functions)
    joined = Joined([part for part, _ in parts])
    for k, name in enumerate(("terminal_counts", "adjusted_counts")):
        want = getattr(pairs, name)(count)
        got = joined.of_pairs([numbers[k] for numbers in found])
        np.testing.assert_allclose(got, want, atol=1e-10 if weighted else 0)
        root = [numbers[k][: pairs.n_classes] for numbers in found]
        assert all(np.array_equal(r, root[0]) for r in root)


# --------------------------------------------------------------- count models


COUNT_MODELS = [
    *(kind() for kind, way in FITS.items() if type(way) is ShardedFit),
    KneserNeyLM(discount="single", interpolate=False),
    KneserNeyLM(discount=[0.4, 0.9]),
    KneserNeyLM(min_count=[1, 2, 3]),
    KneserNeyLM(min_count=1000),
    KneserNeyLM(min_count=2, interpolate=False, discount=0.5),
    AbsoluteDiscountLM(min_count=[1, 1, 4]),
    WittenBellLM(interpolate=False),
]


@warnings_expected
@pytest.mark.parametrize(
    *all_pairs(model=COUNT_MODELS, n_shards=[1, 2, 5, 20], width=[1, 2, 3]), ids=str
)
def test_count_models_are_those_of_the_whole_tree(model, n_shards, width):
    pairs, count = random_pairs(2, n=3000)
    whole = fit_whole(model, pairs, count)
    fitted, _, _ = fit_sharded(model, pairs, count, n_shards, width=width)
    a, b = whole.backoff_model_, fitted.backoff_model_
    assert a.pairs == b.pairs
    np.testing.assert_array_equal(a.log_prob, b.log_prob)
    np.testing.assert_array_equal(a.log_backoff, b.log_backoff)
    for name in ("discounts_", "discount_ratios_"):
        if hasattr(whole, name):
            np.testing.assert_array_equal(getattr(fitted, name), getattr(whole, name))
    assert fitted.depth_ == whole.depth_ and fitted.n_features_in_ == 3
    row = fitted.predict_proba(np.array([[1, 2, 3]]))
    np.testing.assert_allclose(row.sum(), 1.0)


def test_warnings_of_shards_are_collected_once():
    pairs, count = random_pairs(3, n=50)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        fit_whole(KneserNeyLM(), pairs, count)
    with warnings.catch_warnings(record=True) as here:
        warnings.simplefilter("always")
        _, notes, _ = fit_sharded(KneserNeyLM(), pairs, count, 3)
    assert not here
    assert [m for m, _ in notes] == [str(w.message) for w in told]
    assert len(notes) == 1


# ---------------------------------------------------------- log-linear models

MODELS = {
    "l2": loglinear(penalty="l2", lam=0.1, alpha=0.7),
    "l1": loglinear(penalty="l1", lam=0.2),
    "elastic_net": loglinear(penalty="elastic_net", lam=0.2),
    "count_weight": loglinear(
        penalty=ElasticNet(gamma=0.5, count_weight=[1.0, 1.4, 1.0]), lam=0.17
    ),
    "tree_l2": loglinear(penalty="tree_l2", lam=0.3),
    "diagonal": loglinear(penalty="l2", lam=0.1, solver="diagonal"),
    "diagonal elastic_net": loglinear(lam=0.3, solver="diagonal"),
    "signed": loglinear(penalty="l2", lam=0.2, positive=False),
    "fista": loglinear(penalty="l2", lam=1.0, solver="fista", tol=1e-2),
}


@pytest.mark.parametrize(*each_value(name=MODELS, n_shards=[2, 5]))
def test_log_linear_models_are_those_of_the_whole_tree(name, n_shards):
    pairs, count = random_pairs(4, n=3000)
    model = clone(MODELS[name]).set_params(solver__max_iter=2000)
    whole = fit_whole(model, pairs, count)
    fitted, _, _ = fit_sharded(model, pairs, count, n_shards)
    assert fitted.n_iter_ == whole.n_iter_
    np.testing.assert_allclose(fitted.objective_, whole.objective_, rtol=1e-10)
    np.testing.assert_allclose(fitted.optimality_, whole.optimality_, rtol=1e-4)
    np.testing.assert_allclose(fitted.coef_, whole.coef_, atol=1e-7)
    assert abs(fitted.n_parameters_ - whole.n_parameters_) <= 2
    assert fitted.backoff_model_.pairs == whole.backoff_model_.pairs
    for part in ("log_prob", "log_backoff"):
        a = getattr(fitted.backoff_model_, part)
        np.testing.assert_allclose(a, getattr(whole.backoff_model_, part), atol=1e-7)


@pytest.mark.parametrize("name", MODELS)
def test_arrays_in_files_change_nothing(name):
    """Bit by bit, though the pages of a shard leave the memory after each request."""
    pairs, count = random_pairs(4, n_symbols=40, n=40_000)
    model = clone(MODELS[name]).set_params(solver__max_iter=20)
    files = [ArrayFile(None, 1) for _ in range(2)]
    assert min(part.n_pairs for part, _ in cut(pairs, count, 2)[1]) > 1 << 13
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        inside, _, log = fit_sharded(model, pairs, count, 2, files=files)
        outside, _, more = fit_sharded(model, pairs, count, 2)
    assert len(log) == len(more) > 40
    np.testing.assert_array_equal(inside.coef_, outside.coef_)
    for part in ("log_prob", "log_backoff"):
        a, b = (getattr(fit.backoff_model_, part) for fit in (inside, outside))
        np.testing.assert_array_equal(a, b)
    files = [weakref.ref(file) for file in files]
    del inside, log
    assert [file() for file in files] == [None, None]


def mb_of_files():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(x.split()[1]) for x in lines if x.startswith("RssFile")) / 1e3


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="reads /proc")
def test_pages_leave_and_come_back():
    file = ArrayFile(None, 1)
    arrays = file.call(lambda: [np.full(1_000_000, i) for i in range(5)])
    before = mb_of_files()
    file.release()
    assert before - mb_of_files() > 0.9 * sum(x.nbytes for x in arrays) / 1e6
    assert [float(x.mean()) for x in arrays] == [0.0, 1.0, 2.0, 3.0, 4.0]


def test_memory_of_a_file_is_used_again():
    """Arrays that are kept, that end, that are zero, and that grow."""
    file, rng = ArrayFile(None, 1), np.random.default_rng(0)

    def work():
        kept = {}
        for i in range(300):
            kept.pop(rng.integers(8), None)
            x = np.zeros(rng.integers(1, 60_000)) if i % 3 else np.empty(9_000)
            assert i % 3 == 0 or not x.any()
            x[:] = i
            if i % 7 == 0:
                x.resize(x.size + 50_000, refcheck=False)
                assert not x[-50_000:].any()
                x[-50_000:] = i
            kept[rng.integers(8)] = i, x
            assert all((y == j).all() for j, y in kept.values())
        return x

    assert get_handler_name(file.call(work)) == "sklstruct"
    assert file.size < 3e7  # of 70 MB


def test_a_full_disk_is_the_error(tmp_path):
    """And not the MemoryError of NumPy, which does not name the folder."""
    resource = pytest.importorskip("resource")
    file, said = ArrayFile(str(tmp_path), 1), "no room for more .* of a Dask worker"
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (3 << 20, limits[1]))
    try:
        with pytest.raises(OSError, match=said) as caught:
            file.call(lambda: [np.ones(100_000) for _ in range(9)])
        assert str(tmp_path) in str(caught.value)
        with pytest.raises(OSError, match=said):
            ArrayFile(str(tmp_path), 1 << 22)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)

    def short():
        raise MemoryError("of the program")

    with pytest.raises(MemoryError, match="of the program"):
        ArrayFile(str(tmp_path), 1).call(short)


class Pages:
    """As an `ArrayFile`."""

    size, inside = 20, False

    def release(self):
        self.inside = False


@pytest.mark.parametrize("room, hits", [(1, 0), (39, 0), (45, 5), (80, 16)])
def test_fits_that_take_turns(room, hits, monkeypatch):
    """Four fits: as many as fit are in memory, and stay there for their next turn."""
    monkeypatch.setattr(_tasks, "_in_memory", [])
    files, found = [Pages() for _ in range(4)], 0
    for round_ in range(20):
        file = files[round_ % 4]
        found += file.inside
        file.inside = True
        _tasks.make_room(file, room)
        assert file.inside and sum(file.inside for file in files) <= max(room // 20, 1)
    assert found >= hits
    del files[:3], file
    _tasks.make_room(files[0], room)
    assert len(_tasks._in_memory) == 1


@pytest.mark.parametrize("name", ["l2", "tree_l2"])
def test_exchanges_are_of_the_size_of_the_vocabulary(name):
    pairs, count = random_pairs(5, n=3000)
    fitted, _, log = fit_sharded(MODELS[name], pairs, count, 3)
    V = pairs.n_classes
    sums = [r.value for r in log if r.kind == "total"]
    assert {*chain(*sums)} == {()}
    assert max(x[()].size for x in sums) <= 3 * V + 3
    assert pairs.n_pairs > 10 * V
    assert sum(r.kind == "report" for r in log) == fitted.n_iter_


def test_a_report_stops_all_shards():
    pairs, count = random_pairs(6)
    model = loglinear(penalty="l2", lam=0.01, tol=1e-9)
    fitted, notes, _ = fit_sharded(model, pairs, count, 3, stop_after=2)
    assert fitted.n_iter_ == 3
    assert not notes  # stopped on request


def test_an_early_end_is_told():
    pairs, count = random_pairs(6)
    model = loglinear(penalty="l2", lam=0.01, tol=1e-9, max_iter=2)
    _, notes, _ = fit_sharded(model, pairs, count, 3)
    assert [category for _, category in notes] == [ConvergenceWarning]


def test_a_lost_shard_is_made_again_by_the_same_answers():
    pairs, count = random_pairs(7, n=2000)
    model = clone(MODELS["tree_l2"])
    bounds, parts = cut(pairs, count, 2)

    def make(k):
        def run(meeting):
            shard = PairShard(parts[k][0], bounds[k], pairs.tree.n_levels, meeting)
            return fit_shard(
                clone(model), shard, counted_of(*parts[k]), no_store, meeting.report
            )

        return Lockstep(run)

    shards, answers = [make(0), make(1)], [None]
    while True:
        requests = [shard.advance(answers[-1]) for shard in shards]
        if len(answers) == 20:
            shards[1].close()
            shards[1] = make(1)
            again = [shards[1].advance(a) for a in answers][-1]
            assert again.kind == requests[1].kind
            np.testing.assert_equal(again.value, requests[1].value)
        if requests[0].kind in (DONE, ERROR):
            break
        report = requests[0].kind == "report"
        answers.append(False if report else join(requests).value)
    joined = Joined([part for part, _ in parts])
    got = joined.of_pairs([r.value[0].of_pairs["coef_"] for r in requests])
    want, _, _ = fit_sharded(model, pairs, count, 2)
    np.testing.assert_array_equal(got, want.coef_)


# ----------------------------------------------------------------- refusals


def test_estimators_that_cannot_be_fitted_on_shards():
    others = [model for model in smoothers() if type(model) not in FITS]
    assert others
    for model in others:
        with pytest.raises(TypeError, match="estimator: .* cannot be fitted on the sh"):
            sharded_fit(model)
    with pytest.raises(ValueError, match="discount='tuned' needs held-out"):
        sharded_fit(KneserNeyLM(discount="tuned"))
    with pytest.raises(ValueError, match="needs the text in its order"):
        sharded_fit(KneserNeyLM(discount="by_block"))
    with pytest.raises(ValueError, match="^strength='deleted' needs the likelihood of"):
        sharded_fit(WittenBellLM(strength="deleted"))
    with pytest.raises(ValueError, match="solver='active_set' cannot work on the sh"):
        sharded_fit(StructuredLogLinearLM(solver="active_set"))
    with pytest.raises(ValueError, match="^gap_tol is not possible on the shards"):
        sharded_fit(loglinear(gap_tol=0.1))
    other = KneserNeyLM(discount=0.5, padding=-1).fit([[0], [1], [1]], [1, 0, 1])
    with pytest.raises(ValueError, match="prior is not possible on the shards"):
        sharded_fit(StructuredLogLinearLM(prior=other.backoff_model_))

    with pytest.raises(ValueError, match="cannot work on the shards.*'tree_l2'.$"):
        sharded_fit(StructuredLogLinearLM(penalty="tree_linf"))

    class Own(L1):
        class bound(L1.bound):
            sharded = False

    with pytest.raises(ValueError, match="cannot work on the shards"):
        sharded_fit(StructuredLogLinearLM(penalty=Own()))
    assert issubclass(Own, Penalty)


def test_shards_that_drift_apart_are_an_error():
    with pytest.raises(RuntimeError, match="differ in their steps"):
        join([Request("total", {(): np.ones(2)}), Request("report", (0, 1.0, 1.0))])
    with pytest.raises(RuntimeError, match="differ in their steps"):
        join([Request("total", {(): np.ones(n)}) for n in (2, 3)])


def test_an_error_in_a_shard_is_the_error():
    def bad(meeting):
        meeting.total({(): np.ones(1)})
        raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        run_in_lockstep([bad, bad])


def test_a_shard_is_not_pickled():
    import pickle

    pairs, _ = random_pairs()
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(PairShard(pairs, ((), (7,)), 4, None))
