"""The walk against a readable twin, and what must hold of any learning."""

import pickle

import numpy as np
import pytest
from _callbacks import StopAfter, needs_callbacks
from _cases import all_pairs
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, KFold, cross_val_score

from sklstruct.factor_graph import (
    FactorGraph,
    SampleRankClassifier,
    chain_graph,
    grid_graph,
)
from sklstruct.factor_graph import _samplerank as samplerank

RULES = ["perceptron", "passive_aggressive", "adagrad"]


class Stream:
    """splitmix64, as published."""

    def __init__(self, seed):
        self.state = seed

    def draw(self):
        mask = (1 << 64) - 1
        self.state = (self.state + 0x9E3779B97F4A7C15) & mask
        z = self.state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
        return ((z ^ (z >> 31)) >> 11) / 2**53

    def below(self, n):
        return int(self.draw() * n)


class Twin:
    """SampleRank with dense feature vectors of whole states: slow and plain."""

    def __init__(self, phi, size, rule, rate, margin, temperature, seed):
        self.phi, self.rule, self.rate, self.margin = phi, rule, rate, margin
        self.t, self.stream = temperature, Stream(seed)
        self.w, self.sum, self.squares = np.zeros(size), np.zeros(size), np.zeros(size)
        self.n_proposals = self.n_updates = 0

    def learn(self, better, worse, gain):
        delta = better - worse
        advantage = delta @ self.w
        if advantage > 0 and advantage >= self.margin * gain - 1e-9:
            return
        self.n_updates += bool(delta.any())
        if self.rule == "passive_aggressive":
            short = self.margin * gain - advantage
            norm = delta @ delta
            move = min(self.rate, short / norm) * delta if norm else 0 * delta
        elif self.rule == "adagrad":
            self.squares += delta**2
            root = np.sqrt(np.where(self.squares > 0, self.squares, 1))
            move = self.rate * delta / root
        else:
            move = self.rate * delta
        self.w = self.w + move
        self.sum += self.n_proposals * move

    def average(self):
        return self.w - self.sum / self.n_proposals

    def sweep(self, graph, truth, state, proposal, allowed):
        n = graph.n_variables
        scan = list(range(n))
        for x in range(n - 1, 0, -1):
            r = self.stream.below(x + 1)
            scan[x], scan[r] = scan[r], scan[x]
        for v in scan:
            k = len(graph.candidates[v])
            if proposal == "gibbs" and k > 1:
                self.all_values(graph, truth, state, v, k, allowed)
            elif proposal == "uniform":
                for _ in range(k - 1):
                    self.one_value(graph, truth, state, v, k, allowed)

    def all_values(self, graph, truth, state, v, k, allowed):
        phi, score, loss = {}, {}, {}
        for a in range(k):
            other = state.copy()
            other[v] = a
            if allowed(graph, other):
                phi[a] = self.phi(graph, other)
                score[a] = phi[a] @ self.w
                loss[a] = (other != truth).sum()
        self.n_proposals += k - 1
        top = max(score.values())
        after = state[v]
        if self.t > 0:
            weight = {a: np.exp((s - top) / self.t) for a, s in score.items()}
            u = self.stream.draw() * sum(weight.values())
            for a, x in weight.items():
                if u < x:
                    after = a
                    break
                u -= x
        elif score[after] < top:
            after = min(a for a in score if score[a] == top)
        best = min(score, key=lambda a: (loss[a], -score[a], a))
        worse = [a for a in score if loss[a] > loss[best]]
        if worse:
            rival = max(worse, key=lambda a: (score[a] + self.margin * loss[a], -a))
            self.learn(phi[best], phi[rival], loss[rival] - loss[best])
        state[v] = after

    def one_value(self, graph, truth, state, v, k, allowed):
        new = self.stream.below(k - 1)
        new += new >= state[v]
        other = state.copy()
        other[v] = new
        self.n_proposals += 1
        if not allowed(graph, other):
            return
        here, there = self.phi(graph, state), self.phi(graph, other)
        rise = (there - here) @ self.w
        go = rise >= 0 or (self.t > 0 and self.stream.draw() < np.exp(rise / self.t))
        gain = int((state != truth).sum()) - int((other != truth).sum())
        if gain > 0:
            self.learn(there, here, gain)
        elif gain < 0:
            self.learn(here, there, -gain)
        if go:
            state[:] = other


def draws_of_fit(random_state, graphs, epochs):
    """The draws of `fit` outside the walk: seeds, first states, orders."""
    rng = np.random.RandomState(random_state)
    seeds = rng.randint(2**31 - 1, size=3)
    sizes = np.concatenate([np.diff(g.cand_ptr) for g in graphs])
    state = np.random.default_rng(seeds[1]).random(sizes.size) * sizes
    at = np.concatenate([[0], np.cumsum([g.n_variables for g in graphs])])
    states = [
        g.start.copy() if g.start is not None else state[a:b].astype(np.int32)
        for g, a, b in zip(graphs, at[:-1], at[1:])
    ]
    return int(seeds[0]), states, [rng.permutation(len(graphs)) for _ in range(epochs)]


def random_task(tools, seed, constraints=False, n_graphs=4):
    """Graphs of integer features, so that all routes add up to the same bits."""
    rng = np.random.default_rng(seed)
    graphs = []
    while len(graphs) < n_graphs:
        try:
            graph = tools.make_graph(rng, n=5, constraints=constraints, integers=True)
        except ValueError:
            continue
        graphs.append(graph)
    y = []
    for graph in graphs:
        every = list(tools.states(graph))
        y.append(graph.decode(every[rng.integers(len(every))]))
    return graphs, y


@pytest.mark.parametrize(
    *all_pairs(
        constraints=[False, True],
        temperature=[0.0, 0.7],
        margin=[0.0, 1.0],
        proposal=["gibbs", "uniform"],
        step=RULES,
    )
)
def test_walk_is_the_readable_twin(
    tools, step, proposal, margin, temperature, constraints
):
    if step == "passive_aggressive" and margin == 0:
        margin = 0.5
    graphs, y = random_task(tools, 0, constraints)
    params = {
        "step": step,
        "proposal": proposal,
        "margin": margin,
        "temperature": temperature,
        "epochs": 3,
        "random_state": 3,
    }
    model = SampleRankClassifier(learning_rate=0.25, **params).fit(graphs, y)

    def phi(graph, state):
        return tools.feature_vector(graph, state, model.kinds_, tools.types)

    seed, states, orders = draws_of_fit(3, graphs, 3)
    twin = Twin(phi, model.coef_.size, step, 0.25, margin, temperature, seed)
    truth = [g.encode(row) for g, row in zip(graphs, y)]
    updates = []
    for order in orders:
        before = twin.n_updates
        for i in order:
            twin.sweep(graphs[i], truth[i], states[i], proposal, tools.allowed)
        updates.append(twin.n_updates - before)
    assert model.n_updates_.tolist() == updates
    assert model.n_proposals_ == twin.n_proposals
    np.testing.assert_allclose(model.coef_, twin.average(), atol=1e-12)
    last = SampleRankClassifier(learning_rate=0.25, average=False, **params)
    np.testing.assert_allclose(last.fit(graphs, y).coef_, twin.w, atol=1e-12)


@pytest.mark.parametrize("margin", [0.0, 1.0])
def test_unary_only_is_the_ranking_perceptron(margin):
    """On independent variables: rank the right candidate above its best rival."""
    rng = np.random.default_rng(0)
    graphs, y = [], []
    for _ in range(20):
        sizes = rng.integers(2, 6, size=4)
        own = [rng.integers(-3, 4, size=(s, 5)).astype(float) for s in sizes]
        graphs.append(FactorGraph([range(s) for s in sizes], candidate_features=own))
        y.append([int(rng.integers(s)) for s in sizes])
    model = SampleRankClassifier(
        step="perceptron",
        learning_rate=1.0,
        margin=margin,
        temperature=0.0,
        epochs=4,
        random_state=0,
    ).fit(graphs, y)

    seed, _, orders = draws_of_fit(0, graphs, 4)
    stream, w, mean, n = Stream(seed), np.zeros(5), np.zeros(5), 0
    for order in orders:
        for i in order:
            scan = list(range(4))
            for x in range(3, 0, -1):
                r = stream.below(x + 1)
                scan[x], scan[r] = scan[r], scan[x]
            for v in scan:
                rows = tools_rows(graphs[i], v)
                right = y[i][v]
                rivals = [a for a in range(len(rows)) if a != right]
                n += len(rivals)
                rival = max(rivals, key=lambda a: (rows[a] @ w, -a))
                advantage = (rows[right] - rows[rival]) @ w
                if advantage <= 0 or advantage < margin:
                    w = w + rows[right] - rows[rival]
                    mean = mean + n * (rows[right] - rows[rival])
    np.testing.assert_allclose(model.coef_, w - mean / n, atol=1e-12)
    best = [
        [int(np.argmax(tools_rows(g, v) @ model.coef_)) for v in range(4)]
        for g in graphs
    ]
    assert [row.tolist() for row in model.predict(graphs)] == best


def tools_rows(graph, v):
    own = graph.candidate_features
    out = np.zeros((len(graph.candidates[v]), own.width))
    for a in range(len(out)):
        row = slice(*own.ptr[graph.cand_ptr[v] + a :][:2])
        out[a, own.column[row]] = own.value[row]
    return out


@pytest.mark.parametrize(
    *all_pairs(
        constraints=[False, True],
        temperature=[0.0, 0.7],
        proposal=["gibbs", "uniform"],
        step=RULES,
    )
)
def test_python_walk_is_the_compiled_walk(
    tools, step, proposal, temperature, constraints
):
    graphs, y = random_task(tools, 1, constraints)
    model = SampleRankClassifier(
        step=step,
        proposal=proposal,
        temperature=temperature,
        learning_rate=0.25,
        epochs=3,
        random_state=5,
    )

    def hamming(y_true, y, graph):
        assert len(y_true) == graph.n_variables
        return (y_true != y).sum()

    compiled = model.fit(graphs, y)
    python = clone(model).set_params(loss=hamming).fit(graphs, y)
    np.testing.assert_allclose(compiled.coef_, python.coef_, atol=1e-12)
    assert compiled.n_updates_.tolist() == python.n_updates_.tolist()
    assert compiled.n_proposals_ == python.n_proposals_


@pytest.mark.parametrize("proposal", ["gibbs", "uniform"])
def test_a_loss_times_two_needs_half_the_margin(tools, proposal):
    graphs, y = random_task(tools, 1)
    params = {"proposal": proposal, "epochs": 3, "random_state": 5}
    single = SampleRankClassifier(margin=4.0, **params).fit(graphs, y)

    def double(y_true, y, graph):
        return 2 * (y_true != y).sum()

    model = SampleRankClassifier(double, margin=2.0, **params).fit(graphs, y)
    np.testing.assert_array_equal(model.coef_, single.coef_)
    assert model.n_updates_.tolist() == single.n_updates_.tolist()


def test_constraints_may_tie_variables_together():
    """Equal neighbours: neither can change alone; as one variable they are learned."""
    rng = np.random.default_rng(0)
    bad = [(0, 1), (1, 0)]
    y = [np.repeat(rng.integers(2), 3) for _ in range(60)]
    X = [chain_graph([0, 1], row[:, None] - 0.5, forbidden=bad) for row in y]
    assert not SampleRankClassifier(random_state=0).fit(X, y).coef_.any()
    joined = [FactorGraph([[0, 1]], features=[row - 0.5]) for row in y]
    moving = SampleRankClassifier(random_state=0).fit(joined, [row[:1] for row in y])
    assert moving.score(joined, [row[:1] for row in y]) == 1.0


@pytest.mark.parametrize("proposal", ["gibbs", "uniform"])
def test_a_loss_sees_allowed_states_alone(tools, proposal):
    graphs, y = random_task(tools, 2, constraints=True)
    seen = []

    def loss(y_true, y, graph):
        seen.append(tools.allowed(graph, graph.encode(y)))
        return (y_true != y).sum()

    SampleRankClassifier(loss, proposal=proposal, epochs=2, random_state=0).fit(
        graphs, y
    )
    assert any(graph.constrained for graph in graphs) and all(seen) and len(seen) > 50


@pytest.mark.parametrize("proposal", ["gibbs", "uniform"])
def test_a_loss_is_called_for_variables_with_a_choice(proposal):
    graph = FactorGraph([["a"], ["a", "b"], ["c"]], features=np.ones((3, 1)))
    seen = []

    def loss(y_true, y, graph):
        seen.append(y.tolist())
        return (y_true != y).sum()

    model = SampleRankClassifier(loss, proposal=proposal, epochs=2, random_state=0)
    model.fit([graph], [["a", "b", "c"]])
    assert seen == [["a", "a", "c"], ["a", "b", "c"]] * 2


def test_another_loss_teaches_something_else():
    """A loss that only counts the first variable leaves the second one's weights 0."""
    rng = np.random.default_rng(0)
    y = [rng.integers(2, size=2) for _ in range(30)]
    X = [
        FactorGraph(
            [["a0", "a1"], ["b0", "b1"]],
            candidate_features=[[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [0, 0, -1]]],
        )
        for _ in y
    ]
    labels = [[f"a{a}", f"b{b}"] for a, b in y]
    model = SampleRankClassifier(
        lambda t, p, graph: float(t[0] != p[0]), random_state=0
    ).fit(X, labels)
    assert model.coef_[:2].all() and model.coef_[2] == 0
    for wrong in (np.nan, np.inf, -1.0, None, "x", np.zeros(2), 1j):
        with pytest.raises(ValueError, match=r"loss must return .*got .* for X\["):
            SampleRankClassifier(lambda t, p, graph, wrong=wrong: wrong).fit(X, labels)


def noisy_chains(seed, n=40, length=20):
    rng = np.random.default_rng(seed)
    y = [np.repeat(rng.integers(2, size=length // 5), 5) for _ in range(n)]
    X = [
        chain_graph([0, 1], np.c_[np.ones(length), row + rng.normal(size=length)])
        for row in y
    ]
    return X, y


@pytest.mark.parametrize("proposal", ["gibbs", "uniform"])
@pytest.mark.parametrize("step", RULES)
def test_neighbours_help(step, proposal):
    X, y = noisy_chains(0, n=150)
    new, truth = noisy_chains(1, n=150)
    alone = [FactorGraph(g.candidates, features=g.features) for g in X]
    alone_new = [FactorGraph(g.candidates, features=g.features) for g in new]
    model = SampleRankClassifier(step=step, proposal=proposal, random_state=0)
    chain = clone(model).fit(X, y)
    unary = clone(model).fit(alone, y)
    assert chain.score(new, truth) > unary.score(alone_new, truth) + 0.04
    same, other = np.diag(chain.edge_coef_["next"][0]).sum(), chain.edge_coef_["next"]
    assert same > other.sum() - same  # equal neighbours are likelier


def test_a_grid_and_a_skip_chain_learn_what_a_chain_cannot_see():
    rng = np.random.default_rng(0)
    X, y = [], []
    for _ in range(80):
        cell = np.zeros((8, 8), dtype=int)
        cell[2:6, 1:7] = 1
        noisy = np.where(rng.random(cell.shape) < 0.2, 1 - cell, cell)
        X.append(grid_graph([0, 1], np.stack([np.ones_like(noisy), noisy], axis=2)))
        y.append(cell.ravel())
    model = SampleRankClassifier(random_state=0).fit(X[:50], y[:50])
    assert model.score(X[50:], y[50:]) > 0.87  # the pixels alone: 0.80

    # the second mention of a key shows nothing; the first one does
    X, y = [], []
    for _ in range(100):
        tag = rng.integers(2, size=3)
        X.append(
            chain_graph(
                [0, 1],
                np.concatenate([tag - 0.5, np.zeros(3)])[:, None],
                keys=["a", "b", "c", "a", "b", "c"],
            )
        )
        y.append(np.tile(tag, 2))
    model = SampleRankClassifier(random_state=0).fit(X[:50], y[:50])
    assert model.score(X[50:], y[50:]) > 0.98


def test_slices_do_not_change_the_walk(monkeypatch):
    X, y = noisy_chains(2)
    for proposal in ("gibbs", "uniform"):
        model = SampleRankClassifier(proposal=proposal, random_state=0)
        whole = clone(model).fit(X, y).coef_
        with monkeypatch.context() as patch:
            patch.setattr(samplerank, "_BUDGET", 1)
            assert np.array_equal(clone(model).fit(X, y).coef_, whole)


def test_same_seed_same_model_other_seed_another():
    X, y = noisy_chains(3)
    a, b, c = (SampleRankClassifier(random_state=r).fit(X, y).coef_ for r in (0, 0, 1))
    assert np.array_equal(a, b) and not np.array_equal(a, c)
    two = SampleRankClassifier(random_state=0, n_jobs=2).fit(X, y)
    assert np.array_equal(two.coef_, a)


@pytest.mark.parametrize("kind", [list, np.asarray, tuple])
def test_lists_of_instances_in_model_selection(kind):
    X, y = noisy_chains(4)
    model = SampleRankClassifier(random_state=0, epochs=3)
    scores = cross_val_score(model, X, y, cv=4)
    assert scores.shape == (4,) and (scores > 0.6).all()
    fold = next(iter(KFold(4).split(X)))
    by_hand = clone(model).fit([X[i] for i in fold[0]], [y[i] for i in fold[0]])
    assert scores[0] == by_hand.score([X[i] for i in fold[1]], [y[i] for i in fold[1]])
    search = GridSearchCV(
        model, {"step": RULES, "inference": ["icm", "exact"]}, cv=3
    ).fit(X, [kind(row.tolist()) for row in y])
    assert len(search.best_estimator_.predict(X)) == len(X)
    assert not np.isnan(search.cv_results_["mean_test_score"]).any()


def test_pickle_is_the_weights_once():
    X, y = noisy_chains(5)
    wide = [
        FactorGraph(
            g.candidates, features=np.c_[np.ones((20, 3000))], edges={"next": [(0, 1)]}
        )
        for g in X
    ]
    model = SampleRankClassifier(random_state=0, epochs=1).fit(wide, y)
    dump = pickle.dumps(model)
    assert len(dump) < model.coef_.nbytes + 10_000
    again = pickle.loads(dump)
    assert all(map(np.array_equal, model.predict(wide), again.predict(wide)))
    assert np.array_equal(again.feature_coef_, model.feature_coef_)
    assert np.array_equal(again.edge_coef_["next"], model.edge_coef_["next"])
    graph = pickle.loads(pickle.dumps(wide[0]))
    assert np.array_equal(model.predict([graph])[0], model.predict(wide[:1])[0])
    assert "SampleRankClassifier" in model._repr_html_()


def test_views_of_the_weights():
    X, y = noisy_chains(6)
    model = SampleRankClassifier(random_state=0).fit(X, y)
    assert model.kinds_.tolist() == [0, 1]
    assert model.feature_coef_.shape == (2, 2)
    assert model.edge_coef_["next"].shape == (1, 2, 2)
    parts = [model.feature_coef_, model.candidate_coef_, model.edge_coef_["next"]]
    both = np.concatenate([p.ravel() for p in parts])
    assert np.array_equal(both, model.coef_)


@needs_callbacks
def test_callbacks_and_verbose(capsys):
    X, y = noisy_chains(7)
    model = (
        SampleRankClassifier(random_state=0)
        .set_callbacks(StopAfter("iteration", 3))
        .fit(X, y)
    )
    assert model.n_iter_ == 3 and model.n_updates_.shape == (3,)
    three = SampleRankClassifier(random_state=0, epochs=3).fit(X, y)
    assert np.array_equal(model.coef_, three.coef_)
    capsys.readouterr()
    SampleRankClassifier(epochs=4, verbose=2, random_state=0).fit(X, y)
    assert capsys.readouterr().out.count("updates") == 2
    pytest.importorskip("rich")
    from sklearn.callback import ProgressBar

    SampleRankClassifier(epochs=2).set_callbacks(ProgressBar()).fit(X, y)


# ------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda X, y: (X[0], y), "wrap a graph in a list"),
        (lambda X, y: ([], []), "at least one instance"),
        (lambda X, y: (3, y), "list of FactorGraph"),
        (lambda X, y: ([np.ones(3)], y[:1]), r"X\[0\], item 0: must be"),
        (lambda X, y: (X, y[:-1]), "y must have labels for each instance"),
        (lambda X, y: (X, None), "y must be a list"),
        (lambda X, y: (X, [*y[:-1], y[-1][:-1]]), r"X\[39\].*each of the 20 variables"),
        (lambda X, y: (X, [y[0], y[1] + 1, *y[2:]]), r"X\[1\], variable \d+: y is 2"),
        (lambda X, y: (X, [*y[:-1], 7]), r"X\[39\]"),
        (
            lambda X, y: ([*X[:-1], chain_graph([0, 1], np.ones((20, 5)))], y),
            r"X\[39\]: features has 5 columns, that of X\[0\] has 2",
        ),
        (
            lambda X, y: ([FactorGraph([[0, 1]] * 20) for _ in X], y),
            "X has no features",
        ),
        (lambda X, y: ([FactorGraph([])] * 2, [[], []]), "no variables"),
    ],
)
def test_bad_input_of_fit(change, message):
    X, y = noisy_chains(8)
    with pytest.raises(ValueError, match=message):
        SampleRankClassifier().fit(*change(X, y))


def test_too_many_kinds():
    X = [FactorGraph([range(50_000)] * 2, edges={"e": [(0, 1)]})]
    with pytest.raises(ValueError, match=r"X needs 2500000000 weights for its 50000"):
        SampleRankClassifier().fit(X, [[0, 0]])


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("loss", "squared"),
        ("step", "newton"),
        ("learning_rate", 0.0),
        ("learning_rate", np.inf),
        ("margin", -0.1),
        ("margin", np.nan),
        ("epochs", 0),
        ("proposal", "all"),
        ("temperature", -1),
        ("inference", "best"),
        ("random_state", "x"),
    ],
)
def test_bad_parameters(name, value):
    X, y = noisy_chains(9, n=3)
    with pytest.raises(ValueError, match=name):
        SampleRankClassifier(**{name: value}).fit(X, y)


def test_bad_combinations_and_prediction():
    X, y = noisy_chains(10, n=5)
    with pytest.raises(ValueError, match="margin must be positive"):
        SampleRankClassifier(step="passive_aggressive", margin=0).fit(X, y)
    from sklearn.exceptions import NotFittedError

    for method in ("predict", "sample", "predict_marginals"):
        with pytest.raises(NotFittedError):
            getattr(SampleRankClassifier(), method)(X)
    with pytest.raises(NotFittedError):
        SampleRankClassifier().score(X, y)
    model = SampleRankClassifier(random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"X\[0\].*'skip' were not in"):
        model.predict([chain_graph([0, 1], np.ones((3, 2)), keys="aba")])
    with pytest.raises(ValueError, match=r"X\[1\]: features has 3 columns.*fit had 2"):
        model.predict([X[0], chain_graph([0, 1], np.ones((4, 3)))])
    for name, value in (
        ("n_samples", 0), ("thin", 0), ("burn_in", -1), ("temperature", 0),
        ("temperature", np.nan),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=name):
            model.sample(X, **{name: value})
    with pytest.raises(ValueError, match="n_sweeps"):
        model.predict_marginals(X, 0)
    with pytest.raises(ValueError, match=r"X\[2\], variable 0"):
        model.joint_score(X, [*y[:2], ["?"] * 20, *y[3:]])


def test_kinds_that_fit_did_not_see_have_no_weight():
    X, y = noisy_chains(11, n=10)
    model = SampleRankClassifier(random_state=0).fit(X, y)
    graph = chain_graph([0, "new", 1], np.ones((3, 2)))
    assert model.joint_score([graph], [["new"] * 3])[0] == 0.0
    assert np.isfinite(model.joint_score([graph], model.predict([graph]))).all()


def test_overflow_is_an_error():
    X = [FactorGraph([[0, 1]], candidate_features=[[[1e150], [-1e150]]])] * 3
    with pytest.raises((ValueError, FloatingPointError)):
        SampleRankClassifier(step="perceptron", learning_rate=1e300).fit(X, [[0]] * 3)


def test_instances_may_be_empty():
    X, y = noisy_chains(12, n=5)
    X, y = [FactorGraph([]), *X, FactorGraph([])], [[], *y, []]
    model = SampleRankClassifier(random_state=0).fit(X, y)
    found = model.predict(X)
    assert found[0].size == found[-1].size == 0 and found[1].size == 20
    assert model.predict([X[0]])[0].size == 0
    assert len(model.sample(X)) == len(model.predict_marginals(X, 3)) == 7
