"""TextClassifier on 560 000 texts: CPU seconds and peak memory of `fit`.

The data of SKLSTRUCT_DATA hold no set of this size. It is made of random windows of
longer texts, with repetitions. letters: 40 letters of a paragraph of the Universal
Declaration of Human Rights; its language. words: up to 60 words in a row of a newsgroup
post, of which one in six is left out (about 45 remain); its group, one of 14. The test
part has windows of other paragraphs and posts. The peak counts the texts too.
"""

from __future__ import annotations

import numpy as np
from _common import main, timed
from bench_text import lines
from bench_text_classes import figures_of, hashed

from sklstruct.text import TextClassifier

N_TRAIN, N_TEST = 560_000, 20_000


def cases():
    return [
        {"texts": "letters", "features": "letters", "min_df": 2, "slow": True},
        {"texts": "letters", "features": "letters", "min_df": 20, "slow": True},
        {"texts": "words", "features": "words", "min_df": 2, "slow": True},
        {"texts": "words", "features": "both", "min_df": 2, "slow": True},
    ]


def some_letters(text, rng):
    start = int(rng.integers(0, max(1, len(text) - 39)))
    return text[start : start + 40]


def some_words(text, rng):
    words = text.replace("\\n", " ").split()
    start = int(rng.integers(0, max(1, len(words) - 30)))
    window = words[start : start + 60]
    kept = rng.random(len(window)) < 5 / 6
    return " ".join(word for word, is_kept in zip(window, kept) if is_kept)


def windows(rows, n, cut):
    """(n windows of the texts of rows, their labels)."""
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(rows), n).tolist()
    return [cut(rows[i][-1], rng) for i in chosen], [rows[i][0] for i in chosen]


def parts_of(name):
    if name == "letters":
        rows = [row for row in lines("text-classes", "udhr") if len(row[1]) >= 40]
        parts = [], []
        for row in rows:
            parts[hashed(row[1]) < 0.3].append(row)
        return [windows(p, n, some_letters) for p, n in zip(parts, (N_TRAIN, N_TEST))]
    parts = [lines("text-classes", f"20news-bydate-{x}") for x in ("train", "test")]
    groups = sorted({row[0] for row in parts[0]})[:14]
    parts = [[row for row in rows if row[0] in groups] for rows in parts]
    return [windows(p, n, some_words) for p, n in zip(parts, (N_TRAIN, N_TEST))]


def run(case):
    train, test = parts_of(case["texts"])
    model = TextClassifier(case["features"], min_df=case["min_df"], random_state=0)
    fit = timed(model.fit, *train, repeats=1).cpu
    found = figures_of(model.classes_, model.predict_proba(test[0]), test[1])
    return {
        "n_train": len(train[0]),
        "n_classes": model.classes_.size,
        "n_columns": model.estimator_.n_features_in_,
        "fit": fit,
        "right": found["right"],
        "log_loss": found["log_loss"],
    }


if __name__ == "__main__":
    main(cases, run)
