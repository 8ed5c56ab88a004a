"""
Sorting documents by perplexity
===============================

Text that was downloaded from web pages can be filtered by the perplexity of a model of
good text. The program CCNet filters text in this way. Here a model of Python's help
sorts documents into head, middle and tail. The documents are test documents of Python's
help, and damaged documents: their words are shuffled, or a share of their letters is
replaced.
"""

import matplotlib.pyplot as plt
import numpy as np
from sklearn.frozen import FrozenEstimator

from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel, PerplexityTransformer
from sklstruct.smoothing import KneserNeyLM

rng = np.random.default_rng(0)
sentences = [" ".join(words) for words in load_python_topics(drop_repeated=True)]
half = len(sentences) // 2
model = LanguageModel(KneserNeyLM(), max_depth=2).fit(sentences[:half])

# %%
# A document is a string, and each line of the string is a sentence.
documents = ["\n".join(sentences[i : i + 5]) for i in range(half, len(sentences), 5)]


def shuffled(document):
    return " ".join(rng.permutation(document.split()))


def misspelt(document):
    letters = np.array(list(document))
    wrong = (rng.random(letters.size) < 0.05) & np.char.isalpha(letters)
    letters[wrong] = rng.choice(list("abcdefghijklmnopqrstuvwxyz"), wrong.sum())
    return "".join(letters)


kinds = {
    "as written": documents,
    "misspelt": [misspelt(document) for document in documents],
    "shuffled": [shuffled(document) for document in documents],
}

# %%
# The transformer returns four columns: log-probability per token, perplexity, share of
# unknown words, and number of tokens.
numbers = PerplexityTransformer(FrozenEstimator(model)).fit(documents)
fig, ax = plt.subplots(figsize=(7, 3.5))
every = np.concatenate([numbers.transform(d)[:, 1] for d in kinds.values()])
bins = np.geomspace(every.min(), every.max(), 30)
for name, some in kinds.items():
    ax.hist(numbers.transform(some)[:, 1], bins, histtype="step", label=name, lw=2)
ax.set(xscale="log", xlabel="perplexity of a document", ylabel="documents")
ax.legend()
fig.tight_layout()

# %%
# The cut-offs are quantiles of all documents, good and damaged: a third of the
# documents is the head.
cutoffs = np.nanquantile(every, [1 / 3, 2 / 3])
print(f"{'':12}{'head':>7}{'middle':>8}{'tail':>6}")
for name, some in kinds.items():
    part = np.searchsorted(cutoffs, numbers.transform(some)[:, 1], side="right")
    shares = np.bincount(part, minlength=3) / len(some)
    print(f"{name:12}{shares[0]:7.0%}{shares[1]:8.0%}{shares[2]:6.0%}")

# %%
# `transform` reads documents in batches, so an iterator over a large collection is
# never in memory as a whole. The example keeps the documents of the head.
perplexity = numbers.transform(iter(kinds["misspelt"]))[:, 1]
print(f"{(perplexity < cutoffs[0]).sum()} of {len(documents)} misspelt ones are kept")
