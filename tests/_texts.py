"""Small texts of three classes, and of several labels."""

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
