"""Texts to rows of n-grams: our vectorizer, and scikit-learn's with ``--peer``.

The texts are those of SKLSTRUCT_DATA: paragraphs of the Universal Declaration of Human
Rights in 429 languages, cut after 40 letters; the questions of clinc150; one-line
descriptions of Debian packages; newsgroup posts; paragraphs of WikiText-2. The last
fifth of the texts is transformed, the others are learned. Ratios are scikit-learn's
seconds of the processor to ours. `equal` says whether both matrices have the same
columns and entries, and `difference` is the largest relative one of an entry.
"""

from __future__ import annotations

import functools
import gzip

import numpy as np
from _common import data_folder, fastest, main, options, wikitext

from sklstruct.text import NgramVectorizer

# Texts, analyzer, ngram_range, min_df.
SETTINGS = [
    ("languages", "char", (1, 3), 3),
    ("languages", "char_wb", (1, 4), 2),
    ("languages", "char", (1, 5), 2),
    ("questions", "word", (1, 2), 1),
    ("questions", "char_wb", (2, 5), 2),
    ("posts", "word", (1, 2), 2),
    ("posts", "char_wb", (2, 4), 2),
    ("descriptions", "word", (1, 1), 1),
    ("descriptions", "char", (2, 5), 2),
    ("paragraphs", "word", (1, 1), 1),
    ("paragraphs", "word", (1, 3), 2),
    ("paragraphs", "char_wb", (3, 3), 1),
]


def lines(folder: str, name: str) -> list[list[str]]:
    """The columns of the lines of a packed table."""
    with gzip.open(data_folder(folder) / f"{name}.tsv.gz", "rt", encoding="utf-8") as f:
        return [line.rstrip("\n").split("\t") for line in f]


@functools.cache
def texts_of(name: str) -> list[str]:
    if name == "languages":
        texts = [row[1][:40] for row in lines("text-classes", "udhr")]
    elif name == "descriptions":
        texts = [row[3] for row in lines("text-classes", "debian")]
    elif name == "questions":
        texts = [row[-1] for row in lines("clinc150", "train")]
    elif name == "posts":
        posts = lines("text-classes", "20news-bydate-train")[:2500]
        texts = [row[-1].replace("\\n", "\n").replace("\\t", "\t") for row in posts]
    else:
        texts = [" ".join(words) for words in wikitext("train")]
    return list(np.random.default_rng(0).permutation(np.array(texts, dtype=object)))


def cases():
    named = []
    for texts, analyzer, (shortest, longest), min_df in SETTINGS:
        named.append(
            {
                "texts": texts,
                "analyzer": analyzer,
                "shortest": shortest,
                "longest": longest,
                "min_df": min_df,
            }
        )
    return named


def run(case):
    texts = texts_of(case["texts"])
    n = len(texts) * 4 // 5
    given = {
        "analyzer": case["analyzer"],
        "ngram_range": (case["shortest"], case["longest"]),
        "min_df": case["min_df"],
    }
    kinds = {"ours": NgramVectorizer(**given)}
    if "scikit-learn" in options.peers:
        from sklearn.feature_extraction.text import TfidfVectorizer

        kinds["peer"] = TfidfVectorizer(**given)
    fits = {
        name: functools.partial(v.fit_transform, texts[:n]) for name, v in kinds.items()
    }
    fit = fastest(**fits)
    new = {name: functools.partial(v.transform, texts[n:]) for name, v in kinds.items()}
    rows = fastest(**new)
    ours = fit["ours"].result
    figures = {
        "n_texts": n,
        "n_columns": ours.shape[1],
        "fit_seconds": fit["ours"].cpu,
        "transform_us_per_text": 1e6 * rows["ours"].cpu / (len(texts) - n),
    }
    if "peer" in kinds:
        figures["fit_ratio"] = fit["peer"].cpu / fit["ours"].cpu
        figures["transform_ratio"] = rows["peer"].cpu / rows["ours"].cpu
        equal, difference = True, 0.0
        for found in (fit, rows):
            a, b = found["ours"].result, found["peer"].result.tocsr()
            b.sort_indices()
            equal &= a.shape == b.shape and np.array_equal(a.indptr, b.indptr)
            equal &= np.array_equal(a.indices, b.indices)
            difference = max(difference, float(np.abs(a.data / b.data - 1).max()))
        figures["equal"] = str(bool(equal))
        figures["difference"] = difference
    return figures


if __name__ == "__main__":
    main(cases, run, peers=("scikit-learn",))
