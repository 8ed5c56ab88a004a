"""
Discounts of smoothers
======================

If a pair of words was seen once in a text, the expected count in another text of the
same length is less than one. If a pair was never seen, the expected count is more than
zero. This page measures the difference between a count and the expected count, shows
the difference that each smoother assumes, and compares the perplexities.

The text is Python's own help. Its sentences are divided into two halves by turns. The
counts of one half are compared with the counts of the other half.
"""

# %%
# The difference between a count and the expected count
# -----------------------------------------------------
# Consider the pairs that occurred r times in one half. Their mean count in the other
# half is smaller than r. The difference grows much more slowly than r. Therefore
# *absolute discounts* are accurate, and modified discounts have one number for r = 1,
# one for r = 2 and one for larger counts. The other curves are r minus the count that a
# model of two words expects, :math:`c(h) P(w \mid h)`, where h is the first word of the
# pair, w the second word and c(h) the count of h.
#
# A model returns a part of the discount to the pair, because the model is mixed with
# the shorter context, in which frequent words are more probable. Witten-Bell and
# Jelinek-Mercer smoothing multiply all counts of a context by the same number, so the
# discount grows with the count. Katz smoothing does not discount counts above k. Here k
# is 3, because the text is too short for the usual value 5.

import warnings

import matplotlib.pyplot as plt
import numpy as np
from sklearn.base import clone

from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.plotting import PerplexityDisplay
from sklstruct.smoothing import (
    AbsoluteDiscountLM,
    JelinekMercerLM,
    KatzLM,
    KneserNeyLM,
    WittenBellLM,
)
from sklstruct.symbols import context_windows

SMOOTHERS = {
    "Kneser-Ney": KneserNeyLM(),
    "absolute discounts": AbsoluteDiscountLM(discount="modified"),
    "Katz": KatzLM(k=3),
    "Jelinek-Mercer": JelinekMercerLM(),
    "Witten-Bell": WittenBellLM(),
}
LARGEST = 8

sentences = load_python_topics(drop_repeated=True)
windows = context_windows(sentences, max_depth=1)
n_words = windows.vocabulary.size
sentence = np.cumsum(windows.contexts[:, 0] == -1)
predicted = windows.sample_weight > 0


def part(which):
    """(contexts, targets) of every other sentence."""
    keep = predicted & (sentence % 2 == which)
    return windows.contexts[keep], windows.targets[keep]


def pair_counts(X, y):
    """Count of each pair of words, as a table."""
    return np.bincount(X[:, 0] * n_words + y, minlength=n_words**2)


models, discount = {}, {name: np.zeros(LARGEST) for name in ["held-out", *SMOOTHERS]}
for which in (0, 1):
    X, y = part(which)
    count, other = pair_counts(X, y), pair_counts(*part(1 - which))
    for r in range(1, LARGEST + 1):
        pairs = np.flatnonzero(count == r)
        discount["held-out"][r - 1] += 0.5 * (r - other[pairs].mean())
        h, w = np.divmod(pairs, n_words)
        seen = np.bincount(X[:, 0], minlength=n_words)[h]
        for name, smoother in SMOOTHERS.items():
            if r == 1:
                model = smoother.set_params(padding=-1, classes=np.arange(n_words))
                models[name] = model.fit(X, y)
            log_proba = models[name].target_log_proba(h[:, None], w)
            expected = seen * np.exp(log_proba)
            discount[name][r - 1] += 0.5 * (r - expected.mean())

_, ax = plt.subplots(layout="constrained")
r = np.arange(1, LARGEST + 1)
for name, taken in discount.items():
    held_out = name == "held-out"
    ax.plot(
        r, taken, "o-", color="k" if held_out else None, lw=3 if held_out else 1, ms=4,
        label="count in the other half" if held_out else name,
    )  # fmt: skip
ax.axhline(0, color="0.7", lw=0.8)
ax.set(xlabel="count r of a pair", ylabel="r minus the expected count")
_ = ax.legend()

# %%
# The probability of the shorter context
# --------------------------------------
# The picture shows the share of the probability that a context gives to the shorter
# context, by the number of occurrences of the context (means over contexts). The share
# is largest for contexts that occurred once. Absolute discounts subtract one number for
# each different following word. Contexts with many different following words therefore
# give a larger share to the shorter context. For the longest contexts, Kneser-Ney
# smoothing has the same shares. Jelinek-Mercer smoothing learns one weight for contexts
# with similar counts. Katz smoothing uses the shorter context only for words that were
# not seen, so its curve has another meaning.

seen = np.bincount(X[:, 0], minlength=n_words)
context = np.flatnonzero(seen)
edges = 2.0 ** np.arange(0, np.log2(seen.max()) + 1)
group = np.digitize(seen[context], edges) - 1
size = np.bincount(group)
_, ax = plt.subplots(layout="constrained")
for name, model in models.items():
    if name == "Katz":
        continue
    backoff = model.backoff_model_
    held = np.exp(backoff.log_backoff[model.locate(context[:, None])])
    ax.semilogx(
        np.bincount(group, seen[context]) / size, np.bincount(group, held) / size,
        "o-", ms=4, lw=5 if name == "Kneser-Ney" else 1.5, label=name,
    )  # fmt: skip
ax.set(xlabel="occurrences of the context", ylabel="share left to the shorter context")
ax.set_ylim(0, 1)
_ = ax.legend()

# %%
# Perplexity
# ----------
# The picture shows the perplexity of held-out sentences by order. With two words the
# smoothers differ least. With more words, most contexts occurred once or twice, and the
# distribution of the shorter context is more important. In Kneser-Ney smoothing this
# distribution is estimated from the number of different contexts in which a word
# occurred, and not from the frequency of the word.

block = np.arange(len(sentences)) // 50
is_test = np.isin(block, np.random.default_rng(0).permutation(block[-1] + 1)[:9])
train = [s for s, t in zip(sentences, is_test) if not t]
test = [s for s, t in zip(sentences, is_test) if t]
by_order = {name: [] for name in SMOOTHERS}
with warnings.catch_warnings():
    warnings.simplefilter("ignore", UserWarning)  # no unigram occurs once: min_count
    for name, smoother in SMOOTHERS.items():
        smoother.set_params(padding=None, classes=None)
        for k in range(1, 5):
            lm = LanguageModel(clone(smoother), max_depth=k, min_count=2)
            by_order[name].append(lm.fit(train))
display = PerplexityDisplay.from_estimator(by_order, test)
display.ax_.set_ylim(top=165)
_ = display.ax_.legend(loc="upper left")
