"""Questions to a fitted language model, one after the other or in one call.

    python benchmarks/bench_questions.py

`word` is one word after one state, by ``advance``; `score` a word of a whole text in
one call; `row` the probabilities of all words, of 400 states in one call; `best` the
ten most probable words of as many; `classes` the sums of a base's row over 40 classes
of words. The text is Python's help, nine tenths for training, or `library`, the sources
of Python's standard library (about 2.5 million words, of which the last 20 000 lines
are scored). One thread; microseconds. `difference` is the largest one between the
scores word by word and those of the text.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
from _common import main, timed

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import CacheLM
from sklstruct.loglinear import JointLogLinear
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.smoothing import WittenBellLM
from sklstruct.word_classes import ContextRefiner

N_ROWS = 400


def mixture(weights):
    models = [("kn", KneserNeyLM()), ("wb", WittenBellLM())]
    return MixtureLM(models, weights=weights)


MODELS = {
    "fast": lambda words: KneserNeyLM(),
    "mixture, em": lambda words: mixture("em"),
    "mixture, by_count": lambda words: mixture("by_count"),
    "mixture, logistic": lambda words: mixture("logistic"),
    "factored": lambda words: FactoredLM(
        {word: i % 40 for i, word in enumerate(words)},
        KneserNeyLM(),
        concentration="auto",
    ),
    "better": lambda words: "better",
    "best": lambda words: "best",
    "joint trees": lambda words: JointLogLinear(
        [("words", "passthrough"), ("refined", ContextRefiner("c50(1) c50(2)"))]
    ),
}


def cases():
    of_help = [{"text": "help", "model": model} for model in MODELS]
    slow = ("better", "best", "joint trees")
    of_help = [c | ({"slow": True} if c["model"] in slow else {}) for c in of_help]
    large = ("fast", "mixture, logistic", "factored")
    return [
        *of_help,
        {"text": "help", "model": "cache of fast"},
        {"text": "help", "model": "cache of better", "slow": True},
        *({"text": "library", "model": m, "slow": True} for m in large),
    ]


def library():
    """Lines of words and signs of the standard library."""
    lines: list = []
    for path in sorted(Path(os.__file__).parent.rglob("*.py")):
        if "site-packages" in path.parts:
            continue
        text = path.read_text(encoding="utf-8", errors="replace")
        words = (re.findall(r"\w+|[^\w\s]", line) for line in text.split("\n"))
        lines += [line for line in words if 2 < len(line) < 60]
        if len(lines) > 250_000:
            break
    return lines[:-20_000], lines[-20_000:]


def text_of(name):
    if name == "library":
        return library()
    text = load_python_topics()
    return text[: len(text) * 9 // 10], text[len(text) * 9 // 10 :]


def fitted(name, train):
    if name.startswith("cache of "):
        base = name.removeprefix("cache of ")
        classes = 50 if base == "fast" else "base"
        return CacheLM(LanguageModel(base), word_classes=classes).fit(train)
    words = sorted({word for line in train for word in line}) + ["</s>", "<unk>"]
    return LanguageModel(MODELS[name](words)).fit(train)


def word_by_word(lm, sentences):
    out = []
    state = lm.begin()
    for sentence in sentences:
        for word in [*sentence, "</s>"]:
            log_prob, state = lm.advance(state, word)
            out.append(log_prob)
    return out


def run(case):
    train, test = text_of(case["text"])
    return asked(fitted(case["model"], train), test)


def asked(lm, test):
    """Figures of a fitted model."""
    cache = isinstance(lm, CacheLM)
    some = test[: 20 if cache else 150]
    n = sum(len(sentence) + 1 for sentence in test)
    n_some = sum(len(sentence) + 1 for sentence in some)
    word_by_word(lm, test[:1])  # tables are made at the first call
    words = timed(word_by_word, lm, some)
    if cache:
        score = timed(lm.score_stream, test)
        log_prob = np.concatenate(score.result)[:n_some]
    else:
        numbered = lm.number_text(test)
        score = timed(lm.token_log_proba, numbered)
        log_prob = np.concatenate(score.result)[:n_some]
    figures = {
        "word": words.cpu / n_some * 1e6,
        "score": score.cpu / n * 1e6,
        "difference": float(np.abs(words.result - log_prob).max()),
    }
    if cache:
        return figures
    predictor = lm.predictor
    states = states_of(lm, test)
    model = predictor.model
    group = np.arange(lm.vocabulary_.size) % 40
    calls = {
        "row": lambda: lm.rows(states),
        "best": lambda: model.best(predictor.locate(states), 10),
        "classes": lambda: model.group_proba(predictor.locate(states), group),
    }
    for name, call in calls.items():
        figures[name] = timed(call).cpu / len(states) * 1e6
    return figures


def states_of(lm, test):
    """States inside of the text, `N_ROWS` of them."""
    states = []
    for sentence in test:
        state = lm.begin(1)
        for word in sentence:
            state = lm.advance(state, [word])[1]
            states.append(state)
            if len(states) == N_ROWS:
                return np.concatenate(states)
    return np.concatenate(states)


if __name__ == "__main__":
    main(cases, run)
