"""
Smoothing a unigram model
=========================

This page shows the probabilities of words that occurred never, once, twice and more
often in a text. For each smoother, a curve shows the probability against the count. The
empirical line is the relative frequency. Below the line, a smoother has reduced the
probability of seen words. The point at the count 0 is the probability of each unseen
word.

Smoothing is important if most words of the vocabulary are unseen. Therefore the
training text is short: 3 000 tokens of the manual of the Python language, which is part
of every Python. The paragraphs are in random order, because training text and test text
must be similar. The vocabulary contains all words of the manual.
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
# Diffusion over the graph of counts is a random walk, in which words with about equal
# counts exchange probability. Diffusion is about as good as Good-Turing smoothing,
# which needs a threshold, and as absolute discounting. All three are better than adding
# one to each count. The paper that :class:`~sklstruct.smoothing.GraphDiffusionUnigram`
# cites uses one step of diffusion. On this text three steps are better.

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
# Probability against count
# -------------------------
# Adding one reduces the probabilities of frequent words most, although their counts are
# reliable. With the other smoothers the probabilities of frequent words stay on the
# empirical line.

UnigramDiffusionDisplay.from_estimator(
    {name: models[name] for name in ("add one", "Good-Turing", "diffusion")},
    max_count=50,
)

# %%
# A graph of words
# ----------------
# From counts alone, all unseen words are equally probable. But an unseen word is more
# probable if another form of the word occurred. The edges of the graph join words that
# are equal except for their ending. `GraphSpreadUnigram` divides a part of the
# probability of unseen words along the edges. The part is chosen on other text. The
# probabilities of seen words do not change.

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
# When to use which smoother
# --------------------------
# The gain from the graph is small here, because the vocabulary is small: it contains
# only words of the manual. The gain is larger if the vocabulary is many times larger
# than the vocabulary of the training text, and if the graph contains more knowledge
# than endings, such as WordNet (:ref:`benchmark <benchmark_unigrams>`). With ten times
# as much training text, the smoothers have nearly the same result, and any of them can
# be used. If training text and test text are of different kinds, no smoother corrects
# the difference. Adding one can then have the best result, because it depends least on
# the training text.
