"""
A ladder of language models
===========================

Better probabilities from the same text, rung by rung: contexts of words and word
classes in place of words alone, mixtures of models that err differently, and a cache
that remembers what was just read. The text is Python's own help, as in the quickstart,
split by blocks into training, validation and test sentences.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from sklstruct import KneserNeyLM, StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import CacheLM, LanguageModel
from sklstruct.mixture import MixtureLM
from sklstruct.word_classes import ContextRefiner, ExchangeClustering

sentences = load_python_topics(drop_repeated=True)
block = np.arange(len(sentences)) // 50
order = np.random.default_rng(0).permutation(block[-1] + 1)
n_test = order.size // 10
part = np.zeros(order.size, dtype=int)
part[order[:n_test]], part[order[n_test : 2 * n_test]] = 2, 1
train, valid, test = (
    [s for s, p in zip(sentences, part[block]) if p == k] for k in range(3)
)
print(*(f"{sum(map(len, text)):,} words" for text in (train, valid, test)), sep=", ")

# %%
# The path of a refined context: the class of the newest word, in few classes and in
# more, then the word itself, then the same for the word before. A short text wants
# fewer classes than the paths that have names.

PATH = "c10(1) c50(1) w(1) c10(2) c50(2) w(2) c50(3) c10(3) c10(4)"


def l2(lam, alpha):
    return StructuredLogLinearLM(penalty="l2", lam=lam, alpha=alpha)


def seeded(seed):
    """The same path with other classes: other errors."""

    def classes(n):
        return ExchangeClustering(n, init="random", random_state=seed)

    steps = [(10, 1), (50, 1), (0, 1), (10, 2), (50, 2), (0, 2), (50, 3), (10, 3)]
    path = [(classes(n) if n else "word", position) for n, position in steps]
    return make_pipeline(ContextRefiner(path), l2(0.4, 0.9))


refined = make_pipeline(ContextRefiner(PATH), l2(0.4, 0.9))
classes_only = make_pipeline(
    ContextRefiner("c50(1) c50(2) c50(3) c50(4)"), l2(0.3, 0.9)
)
pair = [("words", KneserNeyLM()), ("refined", refined)]
many = [*pair, ("coarse", classes_only), *((f"seed {i}", seeded(i)) for i in range(4))]
rungs = {
    "words, l2": (l2(0.1, 0.6), {}),
    "words, modified Kneser-Ney": (KneserNeyLM(), {}),
    "words and classes, l2": (refined, {}),
    "mixture of the last two": (MixtureLM(pair), {"X_val": valid}),
    "mixture of seven": (MixtureLM(many), {"X_val": valid}),
}
result, models = {}, {}
for name, (estimator, held_out) in rungs.items():
    start = time.perf_counter()
    model = LanguageModel(estimator, min_count=2).fit(train, **held_out)
    seconds = time.perf_counter() - start
    models[name] = model
    result[name] = seconds, model.perplexity(valid), model.perplexity(test)
    print(
        f"{name:28} validation {result[name][1]:6.1f}   test {result[name][2]:6.1f}   "
        f"{seconds:5.2f} s"
    )

# %%
# Perplexity of the test sentences against the seconds of training:

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, (seconds, _, perplexity) in result.items():
    ax.plot(seconds, perplexity, "o", color="C0")
    ax.annotate(name, (seconds, perplexity), xytext=(6, 4), textcoords="offset points")
ax.set_xscale("log")
ax.set_xlim(right=30 * max(seconds for seconds, *_ in result.values()))
ax.margins(y=0.1)
ax.set_xlabel("seconds of training")
_ = ax.set_ylabel("test perplexity")

# %%
# Is the gain chance? The difference to Kneser-Ney, sentence by sentence, with its
# standard error:

n_tokens = sum(map(len, test)) + len(test)
base = models["words, modified Kneser-Ney"].score_samples(test)
for name in ("words and classes, l2", "mixture of the last two", "mixture of seven"):
    gap = models[name].score_samples(test) - base
    percent = 100 * np.expm1(-gap.sum() / n_tokens)
    error = 100 * gap.std() * np.sqrt(gap.size) / n_tokens
    print(f"{name:28} {percent:5.1f} ± {error:.1f} % perplexity")

# %%
# With a cache the model remembers the test text so far. That is another task, in which
# the order of the sentences matters, and its perplexity is a number apart. Help texts
# repeat themselves a lot:

cache = CacheLM(FrozenEstimator(models["mixture of seven"])).fit(valid)
print(f"read in order, with a cache: {cache.perplexity(test):.1f}")
state = cache.new_state()
_ = cache.score_stream(test, state=state)
for word, probability in cache.predict_next("the value of the", k=5, state=state):
    print(f"{probability:.3f}  {word}")
