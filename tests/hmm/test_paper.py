"""An oracle that shares nothing with the package: the paper's formulas over a dict.

A random table of n-grams is written as an ARPA text and read back through the public
API. Probabilities are equation 7, max-backoff weights equation 2 (the maximum over all
full histories), decoding and sums plain dynamic programs over all (n - 1)-tuples.
"""

import io
import itertools
import math

import numpy as np
import pytest
from _hmm_problems import only

from sklstruct.exchange import read
from sklstruct.hmm import NoisyChannelDecoder
from sklstruct.hmm._automaton import ContextAutomaton


class Table:
    """log10 f and log10 bow of n-grams; back-off weights may be above 1."""

    def __init__(self, order, n_words, seed, before_start=False):
        rng = np.random.RandomState(seed)
        self.words = [f"w{i}" for i in range(n_words)]
        f, bow = {("<s>",): -99.0}, {}
        for word in [*self.words, "</s>"]:
            f[word,] = round(rng.uniform(-3, -0.1), 4)
        for n in range(2, order + 1):
            # Contexts and suffixes of a stored n-gram are stored.
            if before_start:  # no history holds it
                f["w0", "<s>"] = -99.0
            for gram in [g for g in f if len(g) == n - 1 and "</s>" not in g]:
                for word in [*self.words, "</s>"]:
                    if (*gram[1:], word) in f and rng.rand() < 0.5:
                        f[(*gram, word)] = round(rng.uniform(-3, 0), 4)
        self.order = order = max(2, max(map(len, f)))
        for gram in f:
            if len(gram) < order and "</s>" not in gram:
                bow[gram] = round(rng.uniform(-1, 0.6), 4)
        self.f, self.bow = f, bow

    def arpa(self):
        lines = ["\\data\\"]
        sections = {n: [g for g in self.f if len(g) == n] for n in range(1, 9)}
        sections = {n: rows for n, rows in sections.items() if rows}
        lines += [f"ngram {n}={len(rows)}" for n, rows in sections.items()]
        for n, rows in sections.items():
            lines += ["", f"\\{n}-grams:"]
            for g in rows:
                bow = f"\t{self.bow[g]:.4f}" if g in self.bow else ""
                lines.append(f"{self.f[g]:.4f}\t{' '.join(g)}{bow}")
        return "\n".join([*lines, "", "\\end\\", ""]).encode()

    def log_p(self, history, word):
        """Equation 7; history of any length."""
        history = tuple(history)[-(self.order - 1) :]
        total = 0.0
        while (*history, word) not in self.f:
            total += self.bow.get(history, 0.0)
            history = history[1:]
        return total + self.f[(*history, word)]

    def histories(self):
        n, words = self.order - 1, self.words
        for length in range(n):
            for tail in itertools.product(words, repeat=length):
                yield ("<s>", *tail)
        yield from itertools.product(words, repeat=n)


class Channel:
    """Candidates and their log-likelihoods from a dict."""

    def __init__(self, table):
        self.table = table

    def get_params(self, deep=False):
        return {"table": self.table}

    def set_params(self, **params):
        return self

    def bind(self, words):
        self.index = {w: i for i, w in enumerate(words)}
        return self

    def candidates(self, observation):
        row = self.table[observation]
        return [self.index[w] for w in row], list(row.values())


def full_hmm(table, sentence, channel):
    """(best score, log Z, score of every path's last state) over all tuples."""
    states = {("<s>",): (0.0, 0.0)}
    steps = [*(channel[o] for o in sentence), {"</s>": 0.0}]
    for row in steps:
        new = {}
        for history, (best, total) in states.items():
            for word, factor in row.items():
                step = table.log_p(history, word) * math.log(10) + factor
                key = (*history, word)[-(table.order - 1) :]
                a, b = new.get(key, (-math.inf, -math.inf))
                new[key] = max(a, best + step), float(np.logaddexp(b, total + step))
        states = new
    best, total = zip(*states.values())
    return max(best), float(np.logaddexp.reduce(total))


@pytest.mark.parametrize("seed", [2, 9, 4, 7])
def test_against_the_paper(seed):
    rng = np.random.RandomState(seed)
    order, n_words = 2 + seed % 4, 2 + seed % 3
    table = Table(order, n_words, seed)
    model = read(io.BytesIO(table.arpa()))
    observations = [f"o{i}" for i in range(4)]
    channel = {
        o: {w: rng.normal() for w in table.words if rng.rand() < 0.8}
        or {table.words[0]: 0.0}
        for o in observations
    }
    decoder = NoisyChannelDecoder(model, Channel(channel)).fit()
    X = [[observations[k] for k in rng.randint(4, size=n)] for n in range(7)]
    expected = [full_hmm(table, x, channel) for x in X]
    for solver in ("auto", "refine"):
        with only(solver):
            found = decoder.decode(X)
        np.testing.assert_allclose(found.log_proba, [e[0] for e in expected], atol=1e-9)
        assert (found.gap <= 1e-9).all()
    np.testing.assert_allclose(
        decoder.log_likelihood(X), [e[1] for e in expected], atol=1e-9
    )


@pytest.mark.parametrize("seed", range(8))
def test_max_backoff_bounds(seed):
    order = 2 + seed % 4
    table = Table(order, 2 + seed % 2, seed, before_start=order > 2 and seed % 3 == 0)
    model = read(io.BytesIO(table.arpa()))
    automaton, labels = ContextAutomaton(model), model.labels
    classes, symbols = labels.classes.tolist(), labels.symbols.tolist()
    mf, mbow = {}, {}
    for n, ids in enumerate(model.tree.contexts()):
        context = tuple(symbols[i] for i in ids)
        mbow[context] = automaton.max_backoff[n] / math.log(10)
        for a in range(*automaton.arc_ptr[n : n + 2]):
            word = classes[automaton.arc_class[a]]
            mf[*context, word] = automaton.arc_max[a] / math.log(10)
    assert set(mf) <= set(table.f)
    full = {h: {} for h in table.histories()}
    for h, row in full.items():
        for word in [*table.words, "</s>"]:
            row[word] = table.log_p(h, word)
    contexts = {h[len(h) - k :] for h in full for k in range(len(h) + 1)}
    for context in contexts:
        for word in [*table.words, "</s>"]:
            # Equation 2: the maximum over all full histories that end in the context.
            best = max(
                row[word]
                for h, row in full.items()
                if h[len(h) - len(context) :] == context
            )
            gram = (*context, word)
            if gram in mf:
                bound = mf[gram]  # equation 8
            else:
                bound = mbow.get(context, 0.0) + table.log_p(context, word)
            if context and context not in table.f:
                assert bound >= best - 1e-6  # exact, as nothing longer is stored
            assert bound == pytest.approx(best, abs=1e-6)
