"""
==============================
Smoothing a unigram model
==============================

How much probability do words get that occurred once, twice, or never? Each smoother
answers by a curve of probability against count, next to the empirical line: what
lies below it was taken from seen words, what the point at 0 shows was given to each
unseen one.

Smoothing matters where most words of the vocabulary are unseen. So the training text is
short: 3 000 tokens of the manual of the Python language, which every Python carries
along. Its paragraphs are put in random order, because training text and test text must
be alike for any of this to make sense; the vocabulary is that of the whole manual.
"""

# %%
# Counts
# ------

import pydoc_data.topics
import re

import numpy as np

from sklstruct.plotting import UnigramDiffusionDisplay
from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
    group_graph,
)

topics = pydoc_data.topics.topics
paragraphs = [p for name in sorted(topics) for p in topics[name].lower().split("\n\n")]
np.random.default_rng(0).shuffle(paragraphs)
words = re.findall("[a-z]+", "\n".join(paragraphs))
vocabulary, ids = np.unique(words, return_inverse=True)
train, valid, test = (
    np.bincount(part, minlength=vocabulary.size)
    for part in (ids[:3000], ids[3000:6000], ids[6000:])
)
print(
    f"{vocabulary.size} words, {np.count_nonzero(train == 0)} of them unseen; they are"
)
print(f"{test[train == 0].sum() / test.sum():.1%} of the test text")


def bits(model, counts=test):
    """Average number of bits that a token of a text with these counts costs."""
    return -(counts @ np.log2(model.proba_)) / counts.sum()


# %%
# Smoothers
# ---------
# Diffusion over the graph of counts is a random walk: words that occurred about equally
# often exchange probability. It is on a par with Good-Turing, which needs a threshold,
# and with absolute discounting; adding one is the baseline that all of them beat. One
# step is what the paper takes; here two more are better still.

models = {
    "add one": AdditiveUnigram(),
    "Good-Turing": GoodTuringUnigram(),
    "absolute discount": AbsoluteDiscountUnigram(),
    "diffusion": GraphDiffusionUnigram(),
    "diffusion, 3 steps": GraphDiffusionUnigram(n_steps=3),
    "kernel diffusion": GraphDiffusionUnigram("kernel"),
}
for name, model in models.items():
    model.from_counts(train, vocabulary)
    print(f"{name:<19} {bits(model):.3f} bits, unseen mass {model.unseen_mass_:.3f}")

# %%
# The picture
# -----------
# Adding one takes most from the frequent words, whose counts could be trusted. The
# others leave these on the empirical line.

UnigramDiffusionDisplay.from_estimator(
    {name: models[name] for name in ("add one", "Good-Turing", "diffusion")},
    max_count=50,
)

# %%
# A graph of words
# ----------------
# Counts say nothing about which of the unseen words are likely, but what is known about
# the language does: a word is likelier if another form of it occurred. A graph ties the
# words that are equal but for their ending, and `GraphSpreadUnigram` shares out a part
# of the unseen mass along it, tuned on other text. Seen words keep their probability.

stems = [re.sub("(ations?|ings?|ers?|ie[sd]|e[sd]|s|ly|e)$", "", w) for w in vocabulary]
graph = group_graph(stems)
spread = {
    share: GraphSpreadUnigram(graph, spread=share).from_counts(train, vocabulary)
    for share in (0.0, 0.1, 0.2, 0.3, 0.4)
}
for share, model in spread.items():
    print(f"spread {share:.1f}: {bits(model, valid):.3f} bits on the tuning text")
best = min(spread, key=lambda share: bits(spread[share], valid))
print(f"test text: {bits(spread[0.0]):.3f} bits without the graph, ", end="")
print(f"{bits(spread[best]):.3f} with spread {best}")

# %%
# When to use which
# -----------------
# The gain of the graph is small here, because the vocabulary is: it was made from the
# manual itself. It is larger where the vocabulary is many times that of the training
# text and the graph knows more than endings, as :ref:`the benchmark
# <benchmark_unigrams>` with WordNet shows. With ten times the text there is next to
# nothing left to gain: then take any of the smoothers above. If training and test
# text differ in kind, none of them helps against that, and adding one may look best
# because it trusts the training text least.
