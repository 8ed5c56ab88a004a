"""Models and sequences for the tests of `sklstruct.hmm`."""

import contextlib

import numpy as np
import pytest

from sklstruct import AdditiveLM, BackoffModel, KneserNeyLM, LanguageModel
from sklstruct.hmm._inference import SequenceInference
from sklstruct.hmm._refinement import RefinementSolver
from sklstruct.smoothing import WittenBellLM


@contextlib.contextmanager
def only(solver, **options):
    """Decode and sample by "refine" alone, with options; "auto" changes nothing."""

    def refinement(s):
        if options:
            return RefinementSolver(s.lattice.automaton, **options)
        return s.refinement

    with pytest.MonkeyPatch.context() as patch:
        if solver == "refine":
            patch.setattr(
                SequenceInference, "_decode_one",
                lambda self, s, c: refinement(s).decode(c),
            )  # fmt: skip
            patch.setattr(
                SequenceInference, "_sample_one",
                lambda self, s, c, n, rng: refinement(s).sample(c, n, rng).paths,
            )  # fmt: skip
        yield


def toy(n=60, seed=0, labels="DNVA"):
    """Sentences of words whose first letter hints at the label."""
    rng = np.random.RandomState(seed)
    n_labels = len(labels)
    step = rng.dirichlet(np.full(n_labels, 0.5), size=(n_labels, n_labels))
    X, y = [], []
    for _ in range(n):
        a = b = 0
        sequence = []
        for _ in range(rng.randint(1, 8)):
            a, b = b, rng.choice(n_labels, p=step[a, b])
            sequence.append(b)
        letters = [c if rng.rand() < 0.8 else (c + 1) % n_labels for c in sequence]
        X.append([f"{'dnva'[c % 4]}{rng.randint(4)}" for c in letters])
        y.append([labels[c] for c in sequence])
    return X, y


def remake(model, log_prob, log_backoff):
    """The same structure with other numbers."""
    return BackoffModel(model.pairs, log_prob, log_backoff, model.labels)


def random_model(kind, order, n_words, seed, marks=True):
    """A back-off model over letters from a random text."""
    rng = np.random.RandomState(seed)
    words = list("abcdefgh"[:n_words])
    weight = rng.dirichlet(np.full(n_words, 0.7), size=n_words)
    text = []
    for _ in range(12):
        sentence = [words[rng.randint(n_words)]]
        while rng.rand() < 0.75 and len(sentence) < 9:
            sentence.append(rng.choice(words, p=weight[words.index(sentence[-1])]))
        text.append(sentence)
    estimators = {"kneser-ney": KneserNeyLM(), "witten-bell": WittenBellLM()}
    estimator = estimators.get(kind, AdditiveLM(delta=0.3))
    model = LanguageModel(
        estimator,
        max_depth=order - 1,
        unknown=None,
        start="<s>" if marks else None,
        end="</s>" if marks else None,
    ).fit(text)
    model = model.backoff_model_
    if kind == "katz":
        # Stored probabilities below what backing off would give, weights above 1.
        log_prob = model.log_prob + rng.uniform(-2, 0, len(model.log_prob))
        log_backoff = rng.uniform(-1.0, 1.5, len(model.log_backoff))
        log_backoff[0] = 0
        model = remake(model, np.minimum(log_prob, 0), log_backoff)
    elif kind == "zeros":
        log_prob = model.log_prob.copy()
        log_prob[rng.rand(len(log_prob)) < 0.3] = -np.inf
        model = remake(model, log_prob, model.log_backoff)
    return model
