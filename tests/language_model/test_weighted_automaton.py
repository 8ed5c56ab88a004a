"""WeightedAutomaton: expected n-grams by enumeration, files, and what is refused."""

import gzip
import io
from collections import defaultdict
from fractions import Fraction

import numpy as np
import pytest
from _cases import each_value
from _loglinear import loglinear

from sklstruct.language_model import WeightedAutomaton
from sklstruct.smoothing import GrownLM


def random_automaton(seed, n_states=4, symbols="abc"):
    rng = np.random.default_rng(seed)
    arcs = [
        (i, int(rng.integers(n_states)), s, rng.random())
        for i in range(n_states)
        for s in symbols
        if rng.random() < 0.8
    ]
    source, target, symbol, weight = map(list, zip(*arcs))
    weight = np.array(weight)
    for i in range(n_states):  # rows of sum 0.7
        at = np.array(source) == i
        if at.any():
            weight[at] *= 0.7 / weight[at].sum()
    return source, target, symbol, weight, rng.random(n_states)


def strings(automaton, longest):
    """{string: weight} by walking, up to a length."""
    source, target, symbol, weight, final = automaton
    out = defaultdict(int)
    states = {((), 0): 1}
    for _ in range(longest + 1):
        further = defaultdict(int)
        for (read, state), w in states.items():
            out[read] += w * final[state]
            for i, j, s, v in zip(source, target, symbol, weight):
                if i == state:
                    further[(*read, s), j] += w * v
        states = further
    return out


@pytest.mark.parametrize(*each_value(seed=[0, 1], max_depth=[1, 2, 3]))
def test_expected_windows_by_enumeration(seed, max_depth):
    arrays = random_automaton(seed, symbols="ab", n_states=3)
    source, target, symbol, weight, final = arrays
    weight *= 0.25  # long strings are rare: cut at 12 symbols
    automaton = WeightedAutomaton(*arrays)
    table = strings(arrays, 12)
    total = sum(table.values())
    assert automaton.total_weight == pytest.approx(total, rel=1e-8)
    expected = defaultdict(float)
    for string, w in table.items():
        marked = ("<s>", *string, "</s>")
        for i in range(1, len(marked)):
            expected[marked[max(0, i - max_depth) : i], marked[i]] += w / total
    found = {}
    windows = automaton.expected_windows(max_depth)
    for x, y, c in zip(*windows[:3]):
        key = tuple(windows.vocabulary[s] for s in x if s >= 0), windows.vocabulary[y]
        assert key not in found
        found[key] = c
    for key in expected.keys() | found.keys():
        assert found.get(key, 0) == pytest.approx(expected.get(key, 0), abs=1e-7)


@pytest.mark.parametrize("seed", range(5))
def test_weights_of_any_size(seed):
    """Exact fractions, of strings that weigh from 1e-1200 to 1e1200."""
    rng = np.random.default_rng(seed)
    arcs = [
        (i, j, s, 10.0 ** rng.uniform(-300, 300))
        for i in range(4)
        for j in range(i + 1, 5)
        for s in "ab"
    ]
    source, target, symbol, weight = map(list, zip(*arcs))
    final = [0.0, 0.0, 0.0, 10.0 ** rng.uniform(-300, 300), 1.0]
    exact = [*map(Fraction, weight)], [*map(Fraction, final)]
    table = strings((source, target, symbol, *exact), 4)
    total = sum(table.values())
    expected = defaultdict(Fraction)
    for string, w in table.items():
        for pair in zip(("<s>", *string), (*string, "</s>")):
            expected[pair] += w / total
    automaton = WeightedAutomaton(source, target, symbol, weight, final)
    windows = automaton.expected_windows(1)
    names = windows.vocabulary
    found = {(names[x[0]], names[y]): c for x, y, c in zip(*windows[:3])}
    for pair in expected.keys() | found.keys():
        wanted = float(expected[pair])
        assert found.get(pair, 0.0) == pytest.approx(wanted, rel=1e-9, abs=1e-300)


@pytest.mark.parametrize("cost", [74, 80, -80])
def test_long_strings_of_small_or_large_weight(cost):
    lines = [f"{i} {i + 1} w{i} {cost}\n" for i in range(10)]
    automaton = WeightedAutomaton.from_att(io.BytesIO("".join([*lines, "10"]).encode()))
    assert automaton.expected_windows(1).sample_weight == pytest.approx(np.ones(11))


@pytest.mark.parametrize("final", [[0, 1e-310], [1e308, 1e308], [1e-310, 0]])
def test_final_weights_of_any_size(final):
    automaton = WeightedAutomaton([0, 0], [0, 1], "aa", [0.5, 0.5], final)
    same = WeightedAutomaton([0, 0], [0, 1], "aa", [0.5, 0.5], np.sign(final))
    found, wanted = (a.expected_windows(2).sample_weight for a in (automaton, same))
    np.testing.assert_allclose(found, wanted, rtol=1e-12)


def test_many_strings_of_equal_weight():
    """2 ** 2000 strings, which weigh 1 in sum."""
    source = np.repeat(np.arange(2000), 2)
    final = np.append(np.zeros(2000), 1.0)
    automaton = WeightedAutomaton(source, source + 1, "ab" * 2000, [0.5] * 4000, final)
    assert automaton.total_weight == pytest.approx(1)
    weight = automaton.expected_windows(1).sample_weight
    np.testing.assert_allclose(np.sort(weight), [0.5] * 4 + [1999 / 4] * 4)


def test_states_on_no_string_do_not_matter():
    automaton = WeightedAutomaton(
        [0, 1, 2, 0], [0, 1, 0, 1], "aabb", [0.5, 1, 9, 3], [1, 0, 1]
    )
    assert automaton.total_weight == pytest.approx(2)


def test_a_grown_model_meets_a_markov_chain():
    """The bigram model of a bigram automaton is the automaton."""
    rng = np.random.default_rng(0)
    chain = rng.dirichlet(np.ones(4), size=4)  # three symbols and the end
    arcs = [(i, j + 1, "abc"[j], chain[i, j]) for i in range(4) for j in range(3)]
    source, target, symbol, weight = map(list, zip(*arcs))
    automaton = WeightedAutomaton(source, target, symbol, weight, chain[:, 3])
    w = automaton.expected_windows(2)
    model = GrownLM(lam=0, discount=0, padding=-1)
    model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    names = w.vocabulary.tolist()
    for i, context in enumerate(("<s>", "a", "b", "c")):
        row = model.predict_proba([[-1, names.index(context)]])[0]
        order = [model.classes_.tolist().index(names.index(s)) for s in "abc"]
        order.append(model.classes_.tolist().index(names.index("</s>")))
        np.testing.assert_allclose(row[order], chain[i], rtol=1e-7)
    # Trigrams say nothing new: at any price they are not worth it.
    priced = GrownLM(lam=1e-6, discount=0, padding=-1)
    priced.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
    assert priced.backoff_model_.max_depth == 1


@pytest.mark.parametrize("penalty", ["tree_l2", "tree_linf", "l1"])
def test_a_group_lasso_grows_from_an_automaton(penalty):
    w = WeightedAutomaton(*random_automaton(2)).expected_windows(3)
    sizes = []
    for lam in (1e-3, 1e-2, 1e-1):
        params = {"penalty": penalty, "lam": lam, "tol": 1e-5, "padding": -1}
        params |= {"alpha": 1.0, "depth_weight": 1.0, "max_iter": 5000}
        grown = loglinear(solver="active_set", **params)
        whole = loglinear(**params)
        for model in (grown, whole):
            model.fit(w.contexts, w.targets, sample_weight=w.sample_weight)
        assert grown.objective_[-1] == pytest.approx(whole.objective_[-1], rel=1e-6)
        assert grown.n_pairs_built_ <= whole.coef_.size
        sizes.append(grown.n_parameters_)
    assert sizes[0] > sizes[1] > sizes[2]


def test_rare_contexts_are_left_out():
    automaton = WeightedAutomaton(*random_automaton(2))
    whole = automaton.expected_windows(3)
    some = automaton.expected_windows(3, min_count=0.01)
    assert 0 < some.targets.size < whole.targets.size
    assert some.sample_weight.sum() < whole.sample_weight.sum()


def test_depths_beyond_the_last_context_take_no_time():
    automaton = WeightedAutomaton([0, 0], [0, 1], "ab", [0.75, 0.25], [0, 1])
    some = automaton.expected_windows(50, min_count=1e-3)
    same = automaton.expected_windows(50_000, min_count=1e-3)
    assert some.sample_weight.tolist() == same.sample_weight.tolist()


ATT = "0 1 a a 0.5\n1 1 b b\n1 2 a 1.5\n0 0.25\n\n2\n"


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_files(tmp_path, suffix):
    path = tmp_path / f"automaton.txt{suffix}"
    text = ATT.replace("1 1 b b\n", "1 1 b b 2\n")
    data = text.encode()
    path.write_bytes(gzip.compress(data) if suffix else data)
    automaton = WeightedAutomaton.from_att(path)
    assert (automaton.n_states, automaton.n_arcs) == (3, 3)
    assert automaton.symbols.tolist() == ["a", "b"]
    e = np.exp
    total = e(-0.25) + e(-0.5) / (1 - e(-2.0)) * e(-1.5)
    assert automaton.total_weight == pytest.approx(total)
    path = tmp_path / "real.txt"
    path.write_text("0 0 a 0.5\n0 2\n")
    real = WeightedAutomaton.from_att(path, negative_log=False)
    assert real.total_weight == pytest.approx(4.0)
    assert "n_states=1" in repr(real)


@pytest.mark.parametrize(
    "text, match",
    [
        ("", "holds no automaton"),
        ("0 1 a b 1.0\n1\n", "line 1: not an arc of an acceptor"),
        ("0 1 a x\n1\n", "line 1: the weight 'x' is not a number"),
        ("0 1 a\n1 nan\n", "line 2: the weight 'nan' is not a number"),
        ("0 1 a -800\n1\n", "line 1: the weight -800 is not allowed"),
        ("0 1 a 800\n1\n", "line 1: the weight 800 is not allowed: .* too large or sm"),
        ("0 1 a 1 2 3\n", "line 1: not an arc"),
        ("0 1 a\n1 0 <epsilon> 0.5\n1\n", "line 2: an arc that reads nothing"),
    ],
)
def test_malformed_files(tmp_path, text, match):
    path = tmp_path / "automaton.txt"
    path.write_text(text)
    with pytest.raises(ValueError, match=match):
        WeightedAutomaton.from_att(path)


@pytest.mark.parametrize("weight", [1.0, 1.5])
def test_cycles_of_weight_one_are_refused(weight):
    with pytest.raises(ValueError, match="cycles of weight 1 or more"):
        WeightedAutomaton([0], [0], "a", [weight], [1.0])
    with pytest.raises(ValueError, match="cycles of weight 1 or more"):
        WeightedAutomaton([0, 1, 1], [1, 0, 2], "abc", [2.0, weight / 2, 1], [0, 0, 1])
    large = [2.0**600, weight / 2.0**600, 1]
    with pytest.raises(ValueError, match="cycles of weight 1 or more"):
        WeightedAutomaton([0, 1, 1], [1, 0, 2], "abc", large, [0, 0, 1])


@pytest.mark.parametrize(
    "change, match",
    [
        ({"source": [3, 0]}, "source"),
        ({"target": [-1, 0]}, "target"),
        ({"symbol": ["a"]}, "symbol"),
        ({"symbol": ["a", None]}, r"symbol\[1\] is None"),
        ({"weight": [-0.1, 0.1]}, "weight must hold numbers in .0, inf"),
        ({"weight": [np.nan, 0.1]}, "weight must hold numbers in .0, inf"),
        ({"final": [0.0, 0.0]}, "no string of positive weight"),
        ({"final": []}, "final is empty"),
        ({"final": [np.inf, 1]}, "final must hold numbers in .0, inf"),
        ({"initial": 2}, "initial=2"),
        ({"initial": 0.5}, "initial must be an integer"),
    ],
)
def test_malformed_arrays(change, match):
    arrays = {
        "source": [0, 1], "target": [1, 0], "symbol": ["a", "b"],
        "weight": [0.5, 0.5], "final": [0.5, 0.5],
    }  # fmt: skip
    with pytest.raises(ValueError, match=match):
        WeightedAutomaton(**{**arrays, **change})


def test_symbols_that_are_not_hashable():
    with pytest.raises(TypeError, match="symbol must hold hashable"):
        WeightedAutomaton([0], [0], [["a"]], [0.5], [0.5])


@pytest.mark.parametrize(
    "params, match",
    [
        ({"max_depth": 0}, "max_depth must be an integer of at least 1"),
        ({"max_depth": 1.5}, "max_depth must be an integer"),
        ({"max_depth": 1, "min_count": -1}, "min_count"),
        ({"max_depth": 1, "min_count": np.nan}, "min_count"),
        ({"max_depth": 1, "min_count": None}, "min_count must be a number in .0, inf."),
        ({"max_depth": 1, "start": "a"}, "must differ"),
        ({"max_depth": 1, "start": ["x"]}, "start must be hashable"),
        ({"max_depth": 1, "end": np.array([1, 2])}, "end must be hashable"),
        ({"max_depth": 2**40}, "max_depth: the windows have more than 80000000"),
    ],
)
def test_bad_parameters(params, match):
    automaton = WeightedAutomaton([0], [0], ["a"], [0.5], [0.5])
    with pytest.raises(ValueError, match=match):
        automaton.expected_windows(**params)


def test_arcs_of_weight_0_do_not_take_the_symbols_of_others():
    automaton = WeightedAutomaton(
        [0, 0, 1, 1],
        [1, 1, 2, 2],
        ["x", "y", "x", "z"],
        [0.0, 1.0, 0.0, 0.5],
        [0, 0, 1],
    )
    found = automaton.expected_windows(2)
    assert found.vocabulary[found.targets].tolist() == ["y", "z", "</s>"]
    np.testing.assert_allclose(found.sample_weight, 1.0)
