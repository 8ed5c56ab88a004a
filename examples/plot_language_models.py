"""
From Kneser-Ney smoothing to the preset "best"
==============================================

This page compares several language models of one text, from the fastest to the model
with the lowest perplexity: Kneser-Ney smoothing, a log-linear model of words, a
log-linear model of words and word classes, and the presets "better" and "best". The
text is Python's own help, divided by blocks of lines into training, validation and test
sentences.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import make_pipeline

from sklstruct import LanguageModel, StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import CacheLM, compare
from sklstruct.word_classes import ContextRefiner

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
# The contexts of the third model consist of words and word classes. The string names
# the symbols of a context in their order: the class of the last word among 10 classes,
# its class among 50 classes, the last word itself, and the same for the word before. A
# short text needs few classes.

PATH = "c10(1) c50(1) w(1) c10(2) c50(2) w(2) c50(3) c10(3) c10(4)"


def l2(lam, alpha):
    return StructuredLogLinearLM(penalty="l2", lam=lam, alpha=alpha)


estimators = {
    '"fast" (Kneser-Ney)': "fast",
    "log-linear, words": l2(0.1, 0.6),
    "log-linear, words and classes": make_pipeline(ContextRefiner(PATH), l2(0.4, 0.9)),
    '"better"': "better",
    '"best"': "best",
}
result, models = {}, {}
for name, estimator in estimators.items():
    start = time.perf_counter()
    # Mixtures learn their weights on sentences that their parts have not read.
    held_out = {"X_val": valid} if estimator in ("better", "best") else {}
    model = LanguageModel(estimator, min_count=2).fit(train, **held_out)
    seconds = time.perf_counter() - start
    models[name] = model
    result[name] = seconds, model.perplexity(test)
    print(f"{name:30} test perplexity {result[name][1]:6.1f}   {seconds:5.2f} s")

# %%
# The picture shows the perplexity of the test sentences and the seconds of training:

_, ax = plt.subplots(figsize=(7, 4), layout="constrained")
for name, (seconds, perplexity) in result.items():
    ax.plot(seconds, perplexity, "o", color="C0")
    ax.annotate(name, (seconds, perplexity), xytext=(6, 4), textcoords="offset points")
ax.set_xscale("log")
longest = max(seconds for seconds, _ in result.values())
ax.set_xlim(right=4 * longest)
ax.margins(y=0.1)
ax.set_xlabel("seconds of training")
_ = ax.set_ylabel("test perplexity (lower is better)")

# %%
# `compare` tests whether a gain over "fast" could be random. The interval contains 95 %
# of the gains on resampled test texts.

first, *others = models
for name in others:
    found = compare(models[first], models[name], test, random_state=0)
    low, high = found.interval
    print(f"{name:30} {found.gain:5.1f} %, between {low:5.1f} and {high:5.1f} %")

# %%
# A model with a cache also uses the sentences that it has read before. The perplexity
# then depends on the order of the sentences. Do not compare this perplexity with the
# perplexities above. The texts of Python's help repeat many phrases, so the cache helps
# much:

cache = CacheLM(FrozenEstimator(models['"better"']), word_classes="base").fit(valid)
print(f"read in order, with a cache: {cache.perplexity(test):.1f}")
state = cache.new_state()
_ = cache.score_stream(test, state=state)
for word, probability in cache.predict_next("the value of the", k=5, state=state):
    print(f"{probability:.3f}  {word}")
