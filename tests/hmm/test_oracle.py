"""An oracle of the tagger that shares nothing with the package.

The formulas of its documentation over dicts and every string of labels: counts of
n-grams, additive smoothing, relative frequencies of observations, sums over all
labellings, expectation-maximisation. Problems are tiny and random: missing and unseen
observations, empty sequences, one label, labels that are known, partly known or not.
"""

import functools
import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from _hmm_problems import only

from sklstruct import AdditiveLM
from sklstruct.hmm import HighOrderHMM, _em, _inference
from sklstruct.hmm._lattice import LatticeTooLargeError
from sklstruct.hmm._refinement import RefinementSolver

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
START, END = "start", "end"


def log(x):
    return math.log(x) if x > 0 else -math.inf


def log_sum(scores):
    top = max(scores, default=-math.inf)
    if top == -math.inf:
        return top
    return top + math.log(sum(math.exp(s - top) for s in scores))


class Oracle:
    """P(y, o) of order n with additive smoothing and relative frequencies."""

    def __init__(self, order, labels, delta):
        self.order, self.labels, self.delta = order, labels, delta
        self.follows = defaultdict(lambda: defaultdict(float))
        self.bears = defaultdict(lambda: defaultdict(float))
        self.times = defaultdict(float)

    def add_ngram(self, history, label, weight):
        """history: the n - 1 labels before, or fewer where others are not known."""
        history = tuple(history)[-(self.order - 1) :]
        for k in range(len(history) + 1):
            self.follows[history[k:]][label] += weight

    def add_observation(self, o, label, weight):
        if o is not None and weight:
            self.bears[o][label] += weight
            self.times[label] += weight

    def learn_known(self, X, y, weight):
        """From what is next to each other among the known labels."""
        for x, row, w in zip(X, y, weight):
            history = [START]
            for o, label in zip([*x, None], [*row, END]):
                if label is None:
                    history = []
                    continue
                # How often a sentence ends is known after a known label only.
                if label != END or history:
                    self.add_ngram(history, label, w)
                self.add_observation(o, label, w)
                history.append(label)
        return self

    def seen(self, history):
        history = tuple(history)[-(self.order - 1) :]
        while history and not sum(self.follows[history].values()):
            history = history[1:]
        return history

    def log_follow(self, history, label):
        row = self.follows[self.seen(history)]
        size = len(self.labels) + 1
        return log((row[label] + self.delta) / (sum(row.values()) + self.delta * size))

    def log_bear(self, o, label):
        if o is None or o not in self.bears:
            return 0.0
        own = self.bears[o][label]
        return log(own / self.times[label]) if own else -math.inf

    def log_joint(self, x, path):
        text, total = [START], 0.0
        for o, label in zip([*x, None], [*path, END]):
            total += self.log_follow(text, label)
            if label != END:
                total += self.log_bear(o, label)
            text.append(label)
        return total

    def paths(self, x, allowed):
        """(path, score) of every labelling in the product of `allowed`."""
        return [(p, self.log_joint(x, p)) for p in itertools.product(*allowed)]

    def log_prior(self):
        """delta log P(y | h) over all y and the histories without a shorter one."""
        kept = [h for h, row in self.follows.items() if sum(row.values())]
        longer = {h[1:] for h in kept if h}
        every = [*self.labels, END]
        return self.delta * sum(
            self.log_follow(h, y) for h in kept if h not in longer for y in every
        )

    def step(self, X, y, weight):
        """(the model of the expected counts, this model's weighted log-likelihood)."""
        new = Oracle(self.order, self.labels, self.delta)
        total = 0.0
        for x, row, w in zip(X, y, weight):
            scored = self.paths(x, [self.labels if a is None else [a] for a in row])
            log_z = log_sum([s for _, s in scored])
            total += w * log_z
            for path, s in scored:
                share = w * math.exp(s - log_z)
                if share:
                    new.learn_known([x], [path], [share])
        return new, total


def counted(y, weight, unlabelled_weight):
    """A sequence counts by the mean over its positions, 1 for a label that is known."""
    out = []
    for row, w in zip(y, weight):
        lost = row.count(None) / len(row) if row else 0.0
        out.append(w * (1 - lost + lost * unlabelled_weight))
    return out


def seeds(n, fast):
    """Few seeds reach all that the others do."""
    marks = [[] if i in fast else pytest.mark.slow for i in range(n)]
    return [pytest.param(i, marks=mark) for i, mark in enumerate(marks)]


def problem(seed):
    rng = np.random.RandomState(seed)
    order = 2 + seed % 4
    n_labels = 1 + rng.randint(3 if order < 4 else 2)
    labels = [*"abc"[:n_labels]]
    words = [f"w{i}" for i in range(rng.randint(1, 5))]
    X, y = [], []
    for _ in range(rng.randint(2, 7)):
        length = rng.randint(0, 5)
        X.append([None if rng.rand() < 0.1 else str(rng.choice(words))
                  for _ in range(length)])  # fmt: skip
        share = rng.choice([0.0, 0.4, 1.0])
        y.append([None if rng.rand() < share else str(rng.choice(labels))
                  for _ in range(length)])  # fmt: skip
    # One labelled word at least, so that there is something to start from.
    X.append([words[0]])
    y.append([labels[0]])
    return rng, order, labels, words, X, y


@pytest.mark.parametrize("seed", seeds(240, fast=(4, 6, 9, 13, 22, 38)))
def test_partly_labelled_sequences(seed, monkeypatch):
    rng, order, labels, _, X, y = problem(seed)
    delta, rest = float(rng.uniform(0.05, 1)), float(rng.choice([0.1, 1.0, 2.5]))
    weight = rng.randint(0, 4, size=len(X)).astype(float)
    weight[-1] = 1.0
    n_iter = 4
    monkeypatch.setattr(_em, "UNLABELLED_WEIGHT", rest)
    monkeypatch.setattr(_em, "TOLERANCE", 0.0)
    tagger = HighOrderHMM(
        order, smoothing=AdditiveLM(delta=delta), emission="categorical",
        classes=labels, max_iter=n_iter,
    ).fit(X, y, sample_weight=weight)  # fmt: skip
    kept = [i for i, w in enumerate(weight) if w]
    X, y, weight = ([part[i] for i in kept] for part in (X, y, weight))
    oracle = Oracle(order, labels, delta).learn_known(X, y, weight)
    if any(None in row for row in y):
        counts = counted(y, weight, rest)
        expected = []
        oracle, _ = oracle.step(X, y, counts)
        for _ in range(tagger.n_iter_):
            following, value = oracle.step(X, y, counts)
            expected.append(value + oracle.log_prior())
            last, oracle = oracle, following
        oracle = last
        np.testing.assert_allclose(tagger.objective_, expected, rtol=1e-9, atol=1e-9)
        assert (np.diff(tagger.objective_) >= 0).all()
        # An iteration is dropped only where nothing is gained but rounding.
        if tagger.n_iter_ < n_iter:
            _, value = following.step(X, y, counts)
            value += following.log_prior()
            assert value == pytest.approx(expected[-1], rel=1e-9)
    else:
        assert tagger.n_iter_ == 0
    check_answers(rng, tagger, oracle, labels)


def check_answers(rng, tagger, oracle, labels):
    words = [*oracle.bears, "new", None]
    for length in (0, 1, 3):
        x = [words[rng.randint(len(words))] for _ in range(length)]
        free = [None] * length
        some = []
        for _ in range(length):
            size = 1 + rng.randint(len(labels))
            few = set(rng.choice(labels, size, replace=False).tolist())
            some.append([None, str(rng.choice(labels)), few][rng.randint(3)])
        for given in (None, free, some):
            allowed = [
                labels if g is None else sorted(g) if isinstance(g, set) else [g]
                for g in (given or free)
            ]
            check_one(tagger, oracle, x, allowed, None if given is None else [given])


def check_one(tagger, oracle, x, allowed, given):
    scored = oracle.paths(x, allowed)
    scores = np.array([s for _, s in scored])
    log_z = log_sum(scores.tolist())
    if log_z == -math.inf:
        if given is None:
            assert tagger.log_likelihood([x])[0] == -math.inf
            assert tagger.predict([x]) == [[None] * len(x)]
            assert not tagger.predict_proba([x])[0].any()
            assert tagger.predict_k([x], 2) == [[]]
        else:
            for method in (tagger.predict, tagger.log_likelihood, tagger.predict_proba):
                with pytest.raises(ValueError, match=r"given\[0\]"):
                    method([x], given=given)
        return
    assert tagger.log_likelihood([x], given=given)[0] == pytest.approx(log_z, abs=1e-9)
    best = tuple(tagger.predict([x], given=given)[0])
    assert dict(scored)[best] == pytest.approx(scores.max(), abs=1e-9)
    expected = np.zeros((len(x), len(oracle.labels)))
    for path, s in scored:
        for i, label in enumerate(path):
            expected[i, oracle.labels.index(label)] += math.exp(s - log_z)
    found = tagger.predict_proba([x], given=given)[0]
    np.testing.assert_allclose(found, expected, atol=1e-9)
    ranked = tagger.predict_k([x], 5, given=given)[0]
    possible = np.sort(scores[scores > -math.inf])[::-1]
    np.testing.assert_allclose([s for _, s in ranked], possible[:5], atol=1e-9)
    assert len({tuple(p) for p, _ in ranked}) == len(ranked)
    for path, s in ranked:
        assert dict(scored)[tuple(path)] == pytest.approx(s, abs=1e-9)
    if x:
        drawn = tagger.sample_posterior([x], 20, random_state=0, given=given)[0]
        assert all(dict(scored)[tuple(row)] > -math.inf for row in drawn.tolist())
    with only("refine"):
        refine = tagger.decode([x], given=given)
    assert refine.log_proba[0] == pytest.approx(scores.max(), abs=1e-9)


@pytest.mark.parametrize("seed", seeds(200, fast=(1, 2, 13)))
def test_gap_of_sentences_beyond_max_states(seed, monkeypatch):
    """The path is one of the model, and no labelling is better by more than the gap."""
    rng = np.random.RandomState(seed)
    order, labels = 2 + seed % 3, [*"abcd"[: 1 + rng.randint(4)]]
    words = [f"w{i}" for i in range(rng.randint(1, 4))]
    X, y = (
        [[str(rng.choice(kind)) for _ in range(n)] for n in lengths]
        for lengths in [rng.randint(0, 6, 6)]
        for kind in (words, labels)
    )
    X, y = [*X, [words[0]]], [*y, [labels[0]]]
    delta = float(rng.uniform(0.05, 1))
    tagger = HighOrderHMM(
        order, smoothing=AdditiveLM(delta=delta), emission="categorical", classes=labels
    ).fit(X, y)  # fmt: skip
    options = {
        "tol": float(rng.choice([1e-9, 0.5, 3.0])), "max_iter": int(rng.randint(1, 4))
    }  # fmt: skip
    monkeypatch.setattr(
        _inference, "RefinementSolver", functools.partial(RefinementSolver, **options)
    )
    monkeypatch.setattr(_inference, "_TOLERANCE", options["tol"])
    oracle = Oracle(order, labels, delta).learn_known(X, y, [1.0] * len(X))
    x = [str(rng.choice([*words, "new"])) for _ in range(rng.randint(1, 6))]
    scored = dict(oracle.paths(x, [labels] * len(x)))
    best = max(scored.values())
    for max_states in (*range(1, 40, 3), 10_000):
        tagger.set_params(max_states=max_states)
        try:
            found = tagger.decode([x])
        except LatticeTooLargeError:
            continue
        if best == -math.inf:
            assert found.log_proba[0] == -math.inf
            continue
        own, gap = found.log_proba[0], found.gap[0]
        assert scored[tuple(found.labels[0])] == pytest.approx(own, abs=1e-9)
        assert gap >= max(best - own, 0.0) - 1e-9
    assert own == pytest.approx(best, abs=1e-9)  # the last lattice holds all
    assert gap <= 1e-9
