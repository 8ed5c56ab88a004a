"""
===============================
The sentence behind the keys
===============================

On a telephone keypad three or four letters share a key: ``364`` is "dog" and "fog". A
language model knows which one is meant. The decoder finds the most probable sentence
exactly, says how sure it is of every word, and draws sentences from the posterior.

The text is the manual of the Python language, which every Python carries along.
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
# Typing, with slips to near keys
# -------------------------------

rng = np.random.RandomState(1)
keys = [[channel.corrupt(word, rng) for word in s] for s in test]
found = decoder.predict(keys)
for typed, line in list(zip(keys, found))[:5]:
    print(" ".join(typed), "->", " ".join(line))
print(f"words right: {decoder.score(keys, test):.3f}")

# %%
# When does order pay?
# --------------------
# With keys it does: the observations say little. (For tagging it hardly does.)

for n in (2, 3, 5):
    shorter = LanguageModel(KneserNeyLM(discount="single"), max_depth=n - 1)
    score = NoisyChannelDecoder(shorter, channel).fit(train).score(keys, test)
    print(f"order {n}: words right {score:.3f}")

# %%
# How sure is it?
# ---------------
# Exact marginal probabilities of each word: the sentence that leaves most in doubt,
# with the five most probable words of each position. The words of the best sentence are
# bold; the darker, the more probable.

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
# Sentences drawn from the posterior differ where it is in doubt:

for line in decoder.sample_posterior([sentence], 3, random_state=0)[0]:
    print(" ".join(line))

# %%
# What it costs
# -------------
# On the left the states of the lattice, position by position, and those that can still
# be on the best path once a bound has been looked at. On the right the other solver,
# which refines an upper bound until its best path is exact: stopped at any time, the
# distance of the two lines is a certificate.

figure, axes = plt.subplots(1, 2, figsize=(10, 4), layout="constrained")
display = LatticeDisplay.from_estimator(decoder, sentence, ax=axes[0])
_ = display.plot_bound(ax=axes[1])
