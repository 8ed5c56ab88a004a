"""A large text, drawn from the model of a smaller one, so that it grows like text.

    python benchmarks/_sampled_text.py large.txt sampled.txt 100_000_000

The model is modified Kneser-Ney of order 5. An interpolated model is drawn from by its
own mixture: at each context, from its own classes or, with the probability that it
holds back, at the context without the oldest symbol. That is a bisection in the running
sum of all own shares, for many sentences at once.
"""

from __future__ import annotations

import sys
import time

import numpy as np

DEPTH = 4
N_LIVE = 200_000  # sentences at once
LONGEST = 200


class Sampler:
    """Draws sentences from an interpolated model of a LanguageModel."""

    def __init__(self, lm, seed):
        self.model = model = lm.backoff_model_
        self.random = np.random.default_rng(seed)
        pairs, V = model.pairs, model.n_classes
        own = np.exp(model.log_prob)
        self.held = np.exp(model.log_backoff)
        inner = np.repeat(self.held[1:], np.diff(pairs.ptr[1:]))
        inner *= own[pairs.parent[V:]]
        own[V:] -= inner
        self.total = np.cumsum(np.maximum(own, 0.0, out=own), out=own)
        labels = model.labels
        self.end = labels.end_id
        self.words = np.array(
            [f"{word} " for word in labels.classes.tolist()], dtype=object
        )
        self.words[self.end] = "\n"
        # Symbols are the classes and then the start mark.
        self.first = int(model.tree.root_child[labels.start_id])

    def draw(self, nodes):
        """A class after each node."""
        model, total, ptr = self.model, self.total, self.model.pairs.ptr
        at = nodes.copy()
        up = np.flatnonzero(at > 0)
        while up.size:
            up = up[self.random.random(up.size) < self.held[at[up]]]
            at[up] = model.tree.parent[at[up]]
            up = up[at[up] > 0]
        first, last = ptr[at], ptr[at + 1] - 1
        low = np.where(first > 0, total[first - 1], 0.0)
        x = low + self.random.random(at.size) * (total[last] - low)
        found = np.searchsorted(total, x, side="right")
        return model.pairs.target[np.clip(found, first, last)]

    def sentences(self):
        """(N_LIVE sentences as text, number of their words)."""
        nodes = np.full(N_LIVE, self.first, dtype=np.int32)
        live = np.arange(N_LIVE)
        owners, drawn = [], []
        for step in range(LONGEST + 1):
            target = self.draw(nodes)
            if step == LONGEST:
                target[:] = self.end
            owners.append(live)
            drawn.append(target)
            going = target != self.end
            live = live[going]
            if not live.size:
                break
            nodes = self.model.follow(nodes[going], target[going])
        order = np.argsort(np.concatenate(owners), kind="stable")
        words = self.words[np.concatenate(drawn)[order]]
        return "".join(words.tolist()), words.size - N_LIVE


def write_sample(source, path, n_words, seed=0):
    """Write at least n_words words to path, one sentence per line."""
    from sklstruct import KneserNeyLM
    from sklstruct.language_model import LanguageModel
    from sklstruct.symbols import TextFile

    start = time.perf_counter()
    lm = LanguageModel(KneserNeyLM(), max_depth=DEPTH).fit(TextFile(source))
    sampler, written = Sampler(lm, seed), 0
    with open(path, "w", encoding="utf-8") as file:
        while written < n_words:
            text, n = sampler.sentences()
            file.write(text)
            written += n
            seconds = time.perf_counter() - start
            print(f"{written} words, {seconds:.0f} s", flush=True)


if __name__ == "__main__":
    write_sample(sys.argv[1], sys.argv[2], int(sys.argv[3]))
