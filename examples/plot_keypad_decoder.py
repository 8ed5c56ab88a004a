"""
Decoding the keys of a telephone
================================

On a telephone keypad one key stands for three or four letters: ``364`` means "dog" or
"fog". A language model can choose the word. The decoder finds the most probable
sentence, computes the probability of each word, and draws sentences from the posterior
distribution. All three results are exact.

The text is the manual of the Python language, which is part of every Python.
"""

# %%
# A language model and a channel
# ------------------------------

import pydoc_data.topics
import re

import matplotlib.pyplot as plt
import numpy as np

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.hmm import KeypadChannel, NoisyChannelDecoder
from sklstruct.plotting import LatticeDisplay

text = " ".join(pydoc_data.topics.topics.values()).lower()
sentences = [re.findall("[a-z]+", s) for s in re.split(r"[.:;]", text)]
sentences = [s for s in sentences if 3 < len(s) < 40]
order = np.random.RandomState(0).permutation(len(sentences))
train = [sentences[i] for i in order[200:]]
test = [s for s in (sentences[i] for i in order[:200]) if len(s) <= 10]

channel = KeypadChannel()
model = LanguageModel(KneserNeyLM(discount="single"), max_depth=4)
decoder = NoisyChannelDecoder(model, channel).fit(train)

# %%
# Keys with typing errors
# -----------------------
# Some keys are replaced by neighbouring keys. The decoder finds the words:

rng = np.random.RandomState(1)
keys = [[channel.corrupt(word, rng) for word in s] for s in test]
found = decoder.predict(keys)
for typed, line in list(zip(keys, found))[:5]:
    print(" ".join(typed), "->", " ".join(line))
print(f"words right: {decoder.score(keys, test):.3f}")

# %%
# When is a high order useful?
# ----------------------------
# A high order is useful for keys, because a key contains little information about the
# letter. (For part-of-speech tags a high order is rarely useful.)

for n in (2, 3, 5):
    shorter = LanguageModel(KneserNeyLM(discount="single"), max_depth=n - 1)
    score = NoisyChannelDecoder(shorter, channel).fit(train).score(keys, test)
    print(f"order {n}: words right {score:.3f}")

# %%
# Probabilities of words
# ----------------------
# The picture shows the sentence with the least certain words, and the five most
# probable words of each position. The words of the most probable sentence are bold. The
# darker a word, the more probable it is. The probabilities are exact.

marginals = decoder.predict_proba(keys)
doubt = [sum(1 - proba[0] for _, proba in of_words) for of_words in marginals]
at = int(np.argmax(doubt))
sentence, best = keys[at], found[at]
figure, ax = plt.subplots(figsize=(9, 3.4), layout="constrained")
for position, (words, proba) in enumerate(marginals[at]):
    for row, (word, p) in enumerate(list(zip(words, proba))[:5]):
        chosen = word == best[position]
        ax.text(
            position, row, f"{word}\n{p:.2f}", ha="center", va="center", fontsize=9,
            fontweight="bold" if chosen else "normal",
            bbox={"boxstyle": "round", "fc": plt.cm.Blues(0.7 * p), "ec": "0.7"},
        )  # fmt: skip
ax.set(xlim=(-0.6, len(sentence) - 0.4), ylim=(4.6, -0.6), yticks=[])
ax.set_xticks(range(len(sentence)), sentence)
ax.set_xlabel("keys that were typed")
ax.spines[:].set_visible(False)
print("meant:", *test[at])
print("found:", *best)

# %%
# Sentences that are drawn from the posterior distribution differ at the uncertain
# words:

for line in decoder.sample_posterior([sentence], 3, random_state=0)[0]:
    print(" ".join(line))

# %%
# Time and memory
# ---------------
# A state consists of the last words up to a position, as many words as the contexts of
# the language model. The left picture shows the number of states at each position, and
# the number of states that can still be on the best path when an upper bound is known.
# The right picture shows a second solver, which computes an upper bound of the score of
# every path. The solver refines the bound until, for the path with the highest bound,
# the bound equals the score. This path is the best path of the model. If this solver is
# stopped early, the error is at most the distance between the two lines, the bound and
# the score of the best path so far.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
display = LatticeDisplay.from_estimator(decoder, sentence, ax=axes[0])
_ = display.plot_bound(ax=axes[1])
