"""
========================================
What a smoother takes, and what it gives
========================================

A pair of words that was seen once in a text will occur less than once in another text
of the same length, and a pair that was never seen more than never. This page looks at
how much that is, at what each smoother makes of it, and at what it costs.

The text is that of Python's own help. Its sentences are dealt into two halves in turns,
so that one half says what the counts of the other are worth.
"""

# %%
# What a count is worth
# ---------------------
# Of the pairs that occurred r times in one half, count the occurrences in the other.
# The mean lies below r, by an amount that grows far more slowly than r: that is why
# *absolute discounts* work, and why the modified ones have a number for r = 1, one for
# r = 2 and one for more. The other curves are the counts that models of two words
# expect, :math:`c(h) P(w \mid h)`, less r.
#
# A model gives back a part of the count that it takes off a pair, when it mixes with
# the shorter context: a frequent word gets more. Witten-Bell and Jelinek-Mercer
# smoothing scale all counts of a context, and take the more, the larger the count is.
# Katz smoothing takes nothing off counts above k, here 3: the text is too small for the
# usual 5.

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
        label="the other half" if held_out else name,
    )  # fmt: skip
ax.axhline(0, color="0.7", lw=0.8)
ax.set(xlabel="count r of a pair", ylabel="r less the count expected or held out")
_ = ax.legend()

# %%
# What a context holds back
# -------------------------
# The share of its probability that a context leaves to the shorter one, by the number
# of times that it was seen (means; the last half). A context seen once leaves
# most; the more it has seen, the less. Absolute discounts take one number per kind of
# follower, so that contexts that are followed by many kinds leave more, however often
# they were seen; those of Kneser-Ney smoothing are the same in the longest contexts.
# Jelinek-Mercer smoothing finds a weight for contexts of like counts, on the text
# itself. Katz smoothing backs off, and its mass for shorter contexts is not such a
# share.

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
# What it costs
# -------------
# Perplexity of held-out sentences by order. With two words the smoothers differ least.
# With more, most contexts were seen once or twice, and what happens to the rest of the
# probability decides. The lower orders of Kneser-Ney smoothing are made for that: they
# count in how many contexts a word occurred, not how often.

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
