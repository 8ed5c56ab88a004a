"""Neural networks on the text of `bench_word_classes.py`, on one core.

    pip install jax
    SKLSTRUCT_DATA=... python benchmarks/bench_neural.py --peer jax --out neural.json

WikiText-2 with V = 33 278 classes; lines are sentences, empty lines are dropped; end
marks and the token of unknown words count like any word. One thread. The LSTM has one
layer of 200 or 650 units [1]_. The transformer has four blocks of 200 units and four
heads [2]_ that normalise their inputs; a penalty on the distance stands for positions
[3]_, and each block also attends to what it read in the piece before [4]_. Words are
numbers that serve as input and as output [5]_; dropout of 0.2 before and after the
layers and in the blocks. Adam trains on parallel pieces of the text: 32, of which it
reads 35 words at a time, or 16 and 64 (transformer); the state is carried on. While it
trains, the softmax is sampled: the target among 1 024 words drawn in each step by count
to the power .75, corrected for that [6]_; a full one costs ten times as much. It trains
for the CPU seconds of the case; the rate (0.003 for the small LSTM, 0.001 for the
others) falls in a straight line to a tenth over them; that of the others rises over
the first hundredth. These are settings of common practice; none was tuned. Perplexities
are those of the full softmax, of the texts read in their order with the state carried
on from sentence to sentence (an empty state at ten places): like a model with a cache,
and unlike one without, it knows the sentences before. CPU seconds are those of
training. On the way the test text is scored at every eighth word, a sample with a
standard error of about 2 %; so is the validation text in the end, when every word of
the test text is. Scoring is not counted.

.. [1] S. Hochreiter, J. Schmidhuber, "Long Short-Term Memory", Neural Computation 9(8),
   1997.
.. [2] A. Vaswani et al., "Attention Is All You Need", NIPS 2017.
.. [3] O. Press, N. Smith, M. Lewis, "Train Short, Test Long: Attention with Linear
   Biases Enables Input Length Extrapolation", ICLR 2022.
.. [4] Z. Dai et al., "Transformer-XL: Attentive Language Models beyond a Fixed-Length
   Context", ACL 2019.
.. [5] O. Press, L. Wolf, "Using the Output Embedding to Improve Language Models", EACL
   2017.
.. [6] S. Jean, K. Cho, R. Memisevic, Y. Bengio, "On Using Very Large Target Vocabulary
   for Neural Machine Translation", ACL 2015.
"""

from __future__ import annotations

import os
import time

import numpy as np
from _common import main, wikitext

DRAWN, DROPOUT, CLIP = 1024, 0.2, 1.0
BLOCKS, HEADS = 4, 4
# (words at a time, parallel pieces, rate, share of the time in which the rate rises) of
# each network.
SETTINGS = {
    ("LSTM", 200): (35, 32, 3e-3, 0.0),
    ("LSTM", 650): (35, 32, 1e-3, 0.01),
    ("transformer", 200): (64, 16, 1e-3, 0.01),
}
# Seconds of training after which a sample of the test text, every eighth word, is
# scored.
MARKS, SAMPLE = [60, 120, 240, 480, 960, 1920], 8
# Number of pieces of a text that are scored at a time.
PIECES = 10


def cases():
    marks = {"slow": True, "needs": "jax"}
    runs = [("LSTM", 200, t) for t in (300, 900, 3600)]
    runs += [("LSTM", 650, 1800), ("transformer", 200, 900)]
    return [{"model": m, "units": n, "seconds": t} | marks for m, n, t in runs]


# ---------------------------------------------------------------- the network


def texts():
    """(ids of each text with an end mark after each sentence, number of words)."""
    train = wikitext("train")
    words = sorted({word for sentence in train for word in sentence})
    code = {word: i for i, word in enumerate(words)}
    end = len(words)
    ids = {}
    for split in ("train", "valid", "test"):
        sentences = wikitext(split)
        flat = [i for s in sentences for i in (*(code[w] for w in s), end)]
        ids[split] = np.array(flat, dtype=np.int32)
    return ids, end + 1


def parallel(ids, n_pieces, first):
    """(inputs, targets) of pieces of equal length, a row each; the last targets of the
    last piece may be -1."""
    length = -(-ids.size // n_pieces)
    target = np.full(n_pieces * length, -1, dtype=np.int32)
    target[: ids.size] = ids
    before = np.concatenate([[first], target[:-1]])
    return before.reshape(n_pieces, length), target.reshape(n_pieces, length)


class Lstm:
    """One layer: shapes of its numbers, its empty state, its outputs."""

    def __init__(self, jax, units, length):
        self.jax, self.units = jax, units
        self.shapes = {
            "in": (units, 4 * units),
            "back": (units, 4 * units),
            "gates": (4 * units,),
        }

    def empty(self, n):
        return tuple(self.jax.numpy.zeros((n, self.units)) for _ in "hc")

    def outputs(self, params, state, inputs, dropped):
        """(state, outputs) of inputs (length, pieces, units)."""
        jax, jnp = self.jax, self.jax.numpy

        def step(state, here):
            h, c = state
            i, f, g, o = jnp.split(here + h @ params["back"], 4, axis=-1)
            c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
            h = jax.nn.sigmoid(o) * jnp.tanh(c)
            return (h, c), h

        return jax.lax.scan(step, state, inputs @ params["in"] + params["gates"])


class Transformer:
    """Blocks of attention; the state is what each read in the piece before."""

    def __init__(self, jax, units, length):
        self.jax, self.units, self.length = jax, units, length
        self.shapes = {}
        for b in range(BLOCKS):
            self.shapes |= {
                f"{b} attention": (units, 3 * units),
                f"{b} joined": (units, units),
                f"{b} wide": (units, 4 * units),
                f"{b} wide bias": (4 * units,),
                f"{b} narrow": (4 * units, units),
                f"{b} first": (units,),
                f"{b} second": (units,),
            }
        self.shapes["last"] = (units,)

    def empty(self, n):
        zeros = self.jax.numpy.zeros
        blocks = [zeros((n, self.length, self.units)) for _ in range(BLOCKS)]
        return zeros(()), *blocks  # the first: 1 where there is a piece before

    def outputs(self, params, state, inputs, dropped):
        """(state, outputs) of inputs (length, pieces, units)."""
        jax, jnp = self.jax, self.jax.numpy
        n, units = self.length, self.units

        def normal(x, name):
            x = x - x.mean(axis=-1, keepdims=True)
            size = jnp.sqrt((x**2).mean(axis=-1, keepdims=True) + 1e-5)
            return x / size * (1.0 + params[name])

        # Distances from a word to those that it may attend to; slopes by head.
        distance = n + jnp.arange(n)[:, None] - jnp.arange(2 * n)[None, :]
        slope = 4.0 ** -(1.0 + jnp.arange(HEADS))
        bias = -slope[:, None, None] * distance
        known = (distance >= 0) & ((jnp.arange(2 * n) >= n) | (state[0] > 0))
        bias = jnp.where(known, bias, -jnp.inf)
        x, kept = inputs.transpose(1, 0, 2) * units**0.5, []
        for b in range(BLOCKS):
            kept.append(jax.lax.stop_gradient(x))
            both = normal(jnp.concatenate([state[b + 1], x], axis=1), f"{b} first")
            parts = both @ params[f"{b} attention"]
            parts = parts.reshape(*parts.shape[:2], 3, HEADS, units // HEADS)
            q, k, v = parts[:, n:, 0], parts[:, :, 1], parts[:, :, 2]
            score = jnp.einsum("pihd,pjhd->phij", q, k) * (units // HEADS) ** -0.5
            share = jax.nn.softmax(score + bias, axis=-1)
            out = jnp.einsum("phij,pjhd->pihd", share, v).reshape(x.shape)
            x = x + dropped(out @ params[f"{b} joined"])
            wide = normal(x, f"{b} second") @ params[f"{b} wide"]
            wide = jax.nn.relu(wide + params[f"{b} wide bias"])
            x = x + dropped(wide @ params[f"{b} narrow"])
        return (jnp.ones(()), *kept), normal(x, "last").transpose(1, 0, 2)


class Network:
    """The compiled functions of a network over words, and its numbers."""

    def __init__(self, kind, units, length, counts, rate_at, seed=0):
        # One thread, before jax is there.
        os.environ["XLA_FLAGS"] = (
            "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        )
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        import jax.numpy as jnp

        layers = {"LSTM": Lstm, "transformer": Transformer}[kind](jax, units, length)
        drawn = counts**0.75
        drawn /= drawn.sum()
        cumulative = jnp.asarray(np.cumsum(drawn), jnp.float32)
        correction = jnp.asarray(np.log(DRAWN * drawn), jnp.float32)

        def outputs(params, state, x, key=None):
            """(state, outputs) of words (length, pieces)."""
            keys = iter(() if key is None else jax.random.split(key, 2 + 2 * BLOCKS))

            def dropped(values):
                if key is None:
                    return values
                kept = jax.random.bernoulli(next(keys), 1.0 - DROPOUT, values.shape)
                return jnp.where(kept, values / (1.0 - DROPOUT), 0.0)

            inputs = dropped(params["words"][x])
            state, out = layers.outputs(params, state, inputs, dropped)
            return state, dropped(out).reshape(-1, units)

        def loss(params, state, x, y, key):
            one, two = jax.random.split(key)
            state, out = outputs(params, state, x, one)
            y = y.reshape(-1)
            others = jnp.searchsorted(cumulative, jax.random.uniform(two, (DRAWN,)))
            others = jnp.minimum(others, counts.size - 1)
            bias = params["bias"] - correction
            own = (out * params["words"][y]).sum(axis=1) + bias[y]
            score = out @ params["words"][others].T + bias[others]
            score = jnp.where(others == y[:, None], -jnp.inf, score)
            total = jnp.logaddexp(own, jax.nn.logsumexp(score, axis=1))
            return (total - own).mean(), state

        def train(params, moments, state, x, y, key, number, rate):
            (value, state), slope = jax.value_and_grad(loss, has_aux=True)(
                params, state, x, y, key
            )
            size = jnp.sqrt(sum((g**2).sum() for g in slope.values()))
            scale = jnp.minimum(1.0, CLIP / size)
            first, second = moments
            for name, g in slope.items():
                g = scale * g
                first[name] = 0.9 * first[name] + 0.1 * g
                second[name] = 0.999 * second[name] + 0.001 * g**2
                mean = first[name] / (1.0 - 0.9**number)
                square = second[name] / (1.0 - 0.999**number)
                params[name] -= rate * mean / (jnp.sqrt(square) + 1e-8)
            return params, (first, second), state, value

        def score(params, state, x, y, every):
            state, out = outputs(params, state, x)
            out, y = out[::every], y.reshape(-1)[::every]
            scores = out @ params["words"].T + params["bias"]
            own = jnp.take_along_axis(scores, jnp.maximum(y, 0)[:, None], axis=1)[:, 0]
            log_proba = own - jax.nn.logsumexp(scores, axis=1)
            known = y >= 0
            return state, jnp.where(known, log_proba, 0.0).sum(), known.sum()

        self.key = jax.random.PRNGKey(seed)
        self.split = jax.random.split
        self.rate_at = rate_at
        self.train = jax.jit(train, donate_argnums=(0, 1, 2))
        self.score = jax.jit(score, static_argnames="every")
        shapes = layers.shapes | {
            "words": (counts.size, units),
            "bias": (counts.size,),
        }
        rng = np.random.default_rng(seed)
        self.params = {
            name: jnp.asarray(rng.uniform(-0.1, 0.1, shape), jnp.float32)
            for name, shape in shapes.items()
        }
        self.params["bias"] = jnp.asarray(np.log(counts / counts.sum()), jnp.float32)
        zeros = [{k: jnp.zeros_like(v) for k, v in self.params.items()} for _ in "ab"]
        self.moments, self.number = tuple(zeros), 0
        self.empty, self.length = layers.empty, length

    def step(self, state, x, y, spent):
        """(state, loss) of a step of training, after `spent` seconds."""
        self.number += 1
        self.key, key = self.split(self.key)
        rate = self.rate_at(spent)
        self.params, self.moments, state, value = self.train(
            self.params, self.moments, state, x, y, key, float(self.number), rate
        )
        return state, value

    def perplexity(self, ids, end, every=1):
        """Of a text in its order, or of a sample of its words."""
        before, target = parallel(ids, PIECES, end)
        before[before < 0] = end
        state, total, n = self.empty(PIECES), 0.0, 0
        for at in range(0, before.shape[1], self.length):
            here = slice(at, at + self.length)
            x, y = before[:, here], target[:, here]
            if x.shape[1] < self.length:  # one compiled shape for all
                room = ((0, 0), (0, self.length - x.shape[1]))
                x = np.pad(x, room, constant_values=end)
                y = np.pad(y, room, constant_values=-1)
            state, here, known = self.score(self.params, state, x.T, y.T, every)
            total, n = total + float(here), n + int(known)
        return float(np.exp(-total / n))


def run(case):
    ids, n_words = texts()
    seconds = case["seconds"]
    counts = np.bincount(ids["train"], minlength=n_words).astype(float)
    length, pieces, rate, rise = SETTINGS[case["model"], case["units"]]

    def rate_at(spent):
        share = spent / seconds
        risen = 1.0 if share >= rise else 0.01 + share / rise
        return rate * min(risen, max(0.1, 1.0 - 0.9 * share))

    network = Network(case["model"], case["units"], length, counts, rate_at)
    before, target = parallel(ids["train"], pieces, n_words - 1)
    width = before.shape[1] // length * length
    before, target = before[:, :width], target[:, :width]
    marks = [m for m in MARKS if m < seconds] + [seconds]
    curve = {"seconds": [], "epochs": [], "test_sample": []}
    spent, begin = 0.0, time.perf_counter()
    at, state, end = 0, network.empty(pieces), n_words - 1
    while marks:
        start = time.process_time()
        here = slice(at, at + length)
        x, y = before[:, here].T, target[:, here].T
        state, value = network.step(state, x, y, spent)
        value = float(value)  # waits for the step
        spent += time.process_time() - start
        at += length
        if at == width:
            at, state = 0, network.empty(pieces)
        if spent >= marks[0]:
            marks.pop(0)
            curve["seconds"].append(spent)
            curve["epochs"].append(network.number * length / width)
            curve["test_sample"].append(network.perplexity(ids["test"], end, SAMPLE))
            print({k: round(v[-1], 2) for k, v in curve.items()}, flush=True)
    return {
        "validation_sample": network.perplexity(ids["valid"], end, SAMPLE),
        "test": network.perplexity(ids["test"], end),
        "fit_seconds": spent,
        "epochs": curve["epochs"][-1],
        "wall_seconds_with_scoring": time.perf_counter() - begin,
        "megabytes": sum(v.nbytes for v in network.params.values()) / 1e6,
        "curve": curve,
    }


if __name__ == "__main__":
    main(cases, run, peers=("jax",))
