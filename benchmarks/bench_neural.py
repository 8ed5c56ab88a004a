"""A recurrent neural network on the text of `bench_word_classes.py`, on one core.

    pip install jax
    SKLSTRUCT_DATA=... python benchmarks/bench_neural.py --peer jax --out neural.json

WikiText-2 with V = 33 278 classes; lines are sentences, empty lines are dropped; end
marks and the token of unknown words count like any word. One thread. One layer of 200
units [1]_, words of 200 numbers that serve as input and as output [2]_, dropout of 0.2
before and after the layer, trained by Adam on 32 parallel pieces of the text, 35 words
at a time, with the state carried on. While it trains, the softmax is sampled: the
target among 1 024 words drawn once a step by count to the power .75, corrected for that
[3]_; a full one costs ten times as much. It trains for the CPU seconds of the case; the
rate of 0.003 falls in a straight line to a tenth over them. These are settings of
common practice; none was tuned. Perplexities are those of the full softmax, of the
texts read in their order with the state carried on from sentence to sentence (an empty
state at ten places): like a model with a cache, and unlike one without, it knows the
sentences before. CPU seconds are those of training. On the way the test text is scored
at every eighth word, a sample with a standard error of about 2 %; so is the validation
text in the end, when every word of the test text is. Scoring is not counted.

.. [1] S. Hochreiter, J. Schmidhuber, "Long Short-Term Memory", Neural Computation 9(8),
   1997.
.. [2] O. Press, L. Wolf, "Using the Output Embedding to Improve Language Models", EACL
   2017.
.. [3] S. Jean, K. Cho, R. Memisevic, Y. Bengio, "On Using Very Large Target Vocabulary
   for Neural Machine Translation", ACL 2015.
"""

from __future__ import annotations

import os
import time

import numpy as np
from _common import main, wikitext

UNITS, BATCH, LENGTH, DRAWN = 200, 32, 35, 1024
DROPOUT, RATE, CLIP = 0.2, 3e-3, 1.0
# Seconds of training after which a sample of the test text, every eighth word, is
# scored.
MARKS, SAMPLE = [60, 120, 240, 480, 960, 1920], 8
# Number of pieces of a text that are scored at a time.
PIECES = 10


def cases():
    budgets = (300, 900, 1800, 3600)
    marks = {"slow": True, "needs": "jax"}
    return [{"model": "LSTM", "units": UNITS, "seconds": s} | marks for s in budgets]


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


class Network:
    """The compiled functions of an LSTM, and its numbers."""

    def __init__(self, counts, rate_at, seed=0):
        # One thread, before jax is there.
        os.environ["XLA_FLAGS"] = (
            "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
        )
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        import jax.numpy as jnp

        drawn = counts**0.75
        drawn /= drawn.sum()
        cumulative = jnp.asarray(np.cumsum(drawn), jnp.float32)
        correction = jnp.asarray(np.log(DRAWN * drawn), jnp.float32)

        def layer(params, state, x, key=None):
            """(state, outputs) of inputs (length, batch)."""
            inputs = params["words"][x]
            if key is not None:
                inputs = dropped(inputs, key)
            inputs = inputs @ params["in"] + params["gates"]

            def step(state, here):
                h, c = state
                i, f, g, o = jnp.split(here + h @ params["back"], 4, axis=-1)
                c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
                h = jax.nn.sigmoid(o) * jnp.tanh(c)
                return (h, c), h

            return jax.lax.scan(step, state, inputs)

        def dropped(values, key):
            kept = jax.random.bernoulli(key, 1.0 - DROPOUT, values.shape)
            return jnp.where(kept, values / (1.0 - DROPOUT), 0.0)

        def loss(params, state, x, y, key):
            one, two, three = jax.random.split(key, 3)
            state, out = layer(params, state, x, one)
            out = dropped(out, two).reshape(-1, UNITS)
            y = y.reshape(-1)
            others = jnp.searchsorted(cumulative, jax.random.uniform(three, (DRAWN,)))
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
            state, out = layer(params, state, x)
            out, y = out.reshape(-1, UNITS), y.reshape(-1)
            out, y = out[::every], y[::every]
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
        shapes = {
            "words": (counts.size, UNITS),
            "in": (UNITS, 4 * UNITS),
            "back": (UNITS, 4 * UNITS),
            "gates": (4 * UNITS,),
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
        self.zero = jnp.zeros

    def empty(self, n):
        """The state at the beginning of n pieces."""
        return self.zero((n, UNITS)), self.zero((n, UNITS))

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
        for at in range(0, before.shape[1], LENGTH):
            x, y = before[:, at : at + LENGTH], target[:, at : at + LENGTH]
            if x.shape[1] < LENGTH:  # one compiled shape for all
                room = ((0, 0), (0, LENGTH - x.shape[1]))
                x = np.pad(x, room, constant_values=end)
                y = np.pad(y, room, constant_values=-1)
            state, here, known = self.score(self.params, state, x.T, y.T, every)
            total, n = total + float(here), n + int(known)
        return float(np.exp(-total / n))


def run(case):
    ids, n_words = texts()
    seconds = case["seconds"]
    counts = np.bincount(ids["train"], minlength=n_words).astype(float)
    network = Network(
        counts, lambda spent: RATE * max(0.1, 1.0 - 0.9 * spent / seconds)
    )
    before, target = parallel(ids["train"], BATCH, n_words - 1)
    width = before.shape[1] // LENGTH * LENGTH
    before, target = before[:, :width], target[:, :width]
    marks = [m for m in MARKS if m < seconds] + [seconds]
    curve = {"seconds": [], "epochs": [], "test_sample": []}
    spent, begin = 0.0, time.perf_counter()
    at, state, end = 0, network.empty(BATCH), n_words - 1
    while marks:
        start = time.process_time()
        here = slice(at, at + LENGTH)
        x, y = before[:, here].T, target[:, here].T
        state, value = network.step(state, x, y, spent)
        value = float(value)  # waits for the step
        spent += time.process_time() - start
        at += LENGTH
        if at == width:
            at, state = 0, network.empty(BATCH)
        if spent >= marks[0]:
            marks.pop(0)
            curve["seconds"].append(spent)
            curve["epochs"].append(network.number * LENGTH / width)
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
