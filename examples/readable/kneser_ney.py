"""Modified Kneser-Ney smoothing in Python: the model of ``LanguageModel("fast")``.

An n-gram is a tuple (*context, word). Its adjusted count c is the number of its
occurrences if it has the full order or begins a sentence. Otherwise c is the number of
different words that occur before it. D(c) is the discount of the counts 1, 2 and 3 or
more, estimated for each order. With h the context and h' the context without its oldest
word,

    P(w | h) = max(c(h w) - D(c(h w)), 0) / c(h) + gamma(h) P(w | h'),

where c(h) is the sum of the counts of the n-grams of h, and the back-off weight
gamma(h) is the sum of their discounts, divided by c(h). Below the unigrams P is 1 / V.
"""

import math
from collections import Counter


def count(sentences, order):
    """Adjusted counts of the n-grams of each length, and the vocabulary."""
    counts = [Counter() for _ in range(order + 1)]
    for sentence in sentences:
        words = ["<s>", *sentence, "</s>"]
        for i in range(1, len(words)):
            n = min(order, i + 1)  # the longest n-gram that ends here
            counts[n][tuple(words[i - n + 1 : i + 1])] += 1
    for n in range(order, 1, -1):
        for gram in counts[n]:  # each adds a different word before gram[1:]
            counts[n - 1][gram[1:]] += 1
    return counts, {gram[0] for gram in counts[1]} | {"<unk>", "</s>"}


def discounts(counts):
    """D(1), D(2) and D(3+) of the n-grams of one length."""
    n = Counter(counts.values())
    if n[1] and n[2] and n[3]:
        y = n[1] / (n[1] + 2 * n[2])
        found = [k - (k + 1) * y * n[k + 1] / n[k] for k in (1, 2, 3)]
        if all(0 < d <= k for k, d in enumerate(found, 1)):
            return found
    return [0.5, 1.0, 1.5]


class KneserNey:
    def __init__(self, sentences, order=5):
        self.counts, self.vocabulary = count(sentences, order)
        self.discounts = [discounts(c) for c in self.counts]
        self.total, self.discount = Counter(), Counter()
        for n, of_length in enumerate(self.counts):
            for gram, c in of_length.items():
                self.total[gram[:-1]] += c
                self.discount[gram[:-1]] += self.discounts[n][min(c, 3) - 1]
        self.order = order

    def probability(self, context, word):
        shorter = 1 / len(self.vocabulary)
        if context:
            shorter = self.probability(context[1:], word)
        if context not in self.total:
            return shorter
        n, own = len(context) + 1, 0.0
        if c := self.counts[n][(*context, word)]:
            own = c - self.discounts[n][min(c, 3) - 1]
        return (own + self.discount[context] * shorter) / self.total[context]

    def perplexity(self, sentences):
        log_likelihood = n_words = 0
        for sentence in sentences:
            known = (w if w in self.vocabulary else "<unk>" for w in sentence)
            words = ["<s>", *known, "</s>"]
            for i in range(1, len(words)):
                context = tuple(words[max(0, i - self.order + 1) : i])
                log_likelihood += math.log(self.probability(context, words[i]))
                n_words += 1
        return math.exp(-log_likelihood / n_words)
