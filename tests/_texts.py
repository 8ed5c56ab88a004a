"""Small texts of three classes, and of several labels; random tokens and lines."""

import sys

import numpy as np

WORDS = {
    "card": "card payment bank blocked declined money pin",
    "login": "password login account reset email code user",
    "travel": "flight hotel passport visa airport ticket train",
}


def tickets(n=240, seed=0, noise=0.3):
    """Texts of words of their class, and of words of all classes."""
    rng = np.random.RandomState(seed)
    every = " ".join(WORDS.values()).split() + ["the", "my", "a", "is", "please", "not"]
    labels = rng.choice(sorted(WORDS), n)
    texts = [
        " ".join(
            rng.choice(every if rng.rand() < noise else WORDS[label].split())
            for _ in range(rng.randint(2, 7))
        )
        for label in labels
    ]
    return texts, labels


TEXTS, LABELS = tickets()
NEW = tickets(60, seed=1)[0]


def several(labels, texts):
    """A second label for texts with a word that all classes have."""
    return [
        {label, "polite"} if "please" in text else {label}
        for label, text in zip(labels, texts)
    ]


def random_tokens(rng, n_sentences, n_words, longest, start=True, end=True):
    """-1, start, words, end of each sentence; the start mark is the last symbol."""
    parts = []
    for _ in range(n_sentences):
        words = rng.integers(0, n_words, size=rng.integers(0, longest + 1))
        parts += [[-1], [n_words + 1] * start, words, [n_words] * end]
    return np.concatenate(parts).astype(np.int32)


def skewed_lines():
    """1 500 lines of up to 11 of 60 words, the first of which are frequent."""
    rng = np.random.default_rng(0)
    words = np.array([f"w{i}" for i in range(60)])
    return [
        " ".join(words[(rng.random(rng.integers(0, 12)) ** 3 * 60).astype(int)])
        for _ in range(1500)
    ]


# The numbers of all characters of Unicode. The first planes have nearly all characters.
PLANES = [range(0x40000), range(0x40000, sys.maxunicode + 1)]
SPACES = [chr(i) for i in range(sys.maxunicode + 1) if chr(i).isspace()]
