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
# What the lattice looks like
# ---------------------------
# States of one sentence, position by position, and those that can still be on the best
# path once a bound has been looked at.

sentence = max(keys, key=len)
display = LatticeDisplay.from_estimator(decoder, sentence)
display.figure_.tight_layout()

# %%
# The other solver refines an upper bound until its best path is exact. Stopped at
# any time, the distance of the two lines is a certificate.

_ = display.plot_bound()

# %%
# How sure is it?
# ---------------
# Exact marginal probabilities of each word, and sentences drawn from the posterior.

for words, proba in decoder.predict_proba([sentence])[0]:
    print(", ".join(f"{w} {p:.2f}" for w, p in list(zip(words, proba))[:3]))
for line in decoder.sample_posterior([sentence], 3, random_state=0)[0]:
    print(" ".join(line))
