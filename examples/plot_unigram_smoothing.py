"""
==============================
Smoothing a unigram model
==============================

How much probability do words get that occurred once, twice, or never? Each smoother
answers by a curve of probability against count, next to the empirical line: what
lies below it was taken from seen words, what the point at 0 shows was given to each
unseen one.

The text is the manual of the Python language that every Python carries along. The
vocabulary is that of the whole text; the first quarter of it is the training set.
"""

# %%
# Counts
# ------

import pydoc_data.topics

import numpy as np

from sklstruct.plotting import UnigramDiffusionDisplay
from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
)

topics = pydoc_data.topics.topics
words = " ".join(topics[name] for name in sorted(topics)).split()
vocabulary, ids = np.unique(words, return_inverse=True)
quarter = len(ids) // 4
train = np.bincount(ids[:quarter], minlength=vocabulary.size)
test = np.bincount(ids[quarter:], minlength=vocabulary.size)
print(f"{quarter} tokens of training text, {vocabulary.size} words, of which")
print(f"{np.count_nonzero(train == 0)} do not occur in it")

# %%
# Smoothers
# ---------
# The average number of bits that a token of the rest of the text costs.

models = {
    "add one": AdditiveUnigram(),
    "Good-Turing": GoodTuringUnigram(),
    "absolute discount": AbsoluteDiscountUnigram(),
    "normalized diffusion": GraphDiffusionUnigram(),
    "kernel diffusion": GraphDiffusionUnigram("kernel"),
}
for name, model in models.items():
    model.from_counts(train, vocabulary)
    bits = -(test @ np.log2(model.proba_)) / test.sum()
    print(f"{name:<21} {bits:.3f} bits, unseen mass {model.unseen_mass_:.3f}")

# %%
# The picture
# -----------
# Adding one gives the unseen words most, and takes it from the frequent ones, whose
# counts could be trusted. The others leave these on the empirical line.

UnigramDiffusionDisplay.from_estimator(models, max_count=50)
