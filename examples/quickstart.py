"""
Train, tune, compare, sample from and export language models
============================================================

This program trains five language models of one text: modified Kneser-Ney smoothing; a
log-linear model whose two parameters GridSearchCV chooses; the presets "better" and
"best"; and "better" with a cache, which also uses the sentences before. The program
prints and plots the perplexity of test sentences, writes an ARPA file and a binary
file, and samples sentences.

    python examples/quickstart.py              # Python's own help texts
    python examples/quickstart.py my_text.txt  # one sentence per line

The run takes less than a minute with the default text.
"""

import argparse
import os
import time
from pathlib import Path
from typing import NamedTuple

import numpy as np
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import GridSearchCV

from sklstruct import LanguageModel, StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import CacheLM, compare

GRID = {"estimator__lam": [0.05, 0.1, 0.2], "estimator__alpha": [0.5, 0.7, 0.9]}


class Trained(NamedTuple):
    """A fitted model."""

    name: str
    model: LanguageModel | CacheLM
    seconds: float  # of training; of the cache alone for a model with a cache


def read_text(path):
    """Sentences of a text file, one per line; of Python's help without a path."""
    if path is None:
        # Its longer sentences once each: test sentences must not be training sentences.
        return load_python_topics(drop_repeated=True)
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as exc:
        raise SystemExit(f"cannot read {path}: {exc.strerror}") from exc
    except UnicodeDecodeError as exc:
        raise SystemExit(f"{path} is not UTF-8 text: {exc}") from exc
    return [line.split() for line in lines if line.strip()]


def split_text(sentences, random_state):
    """80 % training, 10 % validation, 10 % test sentences, in blocks.

    Blocks of up to 50 neighbouring sentences, so that a test sentence is not judged
    by a model that has read the lines around it.
    """
    size = min(50, max(1, len(sentences) // 20))
    block = np.arange(len(sentences)) // size
    n_blocks = block[-1] + 1 if len(sentences) else 0
    if n_blocks < 10:
        raise SystemExit(
            f"the text has {len(sentences)} sentences (lines with words); that is too "
            "few to train, tune and test on: give at least 10, better thousands"
        )
    order = np.random.default_rng(random_state).permutation(n_blocks)
    n_test = n_blocks // 10
    part = np.zeros(n_blocks, dtype=int)
    part[order[:n_test]] = 2
    part[order[n_test : 2 * n_test]] = 1
    return [[s for s, p in zip(sentences, part[block]) if p == k] for k in range(3)]


def tuned(train, valid, min_count):
    """A search over two parameters of a log-linear model, judged by `valid`."""
    lm = LanguageModel(StructuredLogLinearLM(penalty="l2"), min_count=min_count)
    known, held_out = np.split(np.arange(len(train) + len(valid)), [len(train)])
    search = GridSearchCV(lm, GRID, cv=[(known, held_out)], refit=False)
    chosen = search.fit(train + valid).best_params_
    return lm.set_params(**chosen).fit(train)


def trained_models(train, valid, min_count):
    """Yield the models, fitted to `train`, with choices and weights by `valid`."""
    start = time.perf_counter()

    def trained(name, model):
        return Trained(name, model, time.perf_counter() - start)

    model = LanguageModel("fast", min_count=min_count).fit(train)
    yield trained("modified Kneser-Ney", model)
    start = time.perf_counter()
    model = tuned(train, valid, min_count)
    values = model.get_params()
    chosen = (f"{name[11:]} {values[name]:g}" for name in GRID)
    yield trained(f"log-linear, {', '.join(chosen)}", model)
    for name in ("better", "best"):
        start = time.perf_counter()
        # A mixture learns its weights from sentences that its parts have not seen.
        model = LanguageModel(name, min_count=min_count).fit(train, X_val=valid)
        yield trained(f'"{name}"', model)
        if name == "better":
            better = model
    start = time.perf_counter()
    yield trained(
        '"better" and a cache',
        CacheLM(FrozenEstimator(better), word_classes="base").fit(valid),
    )


def show(found, test, base):
    """Print a line of the table as soon as its model is there; return perplexity."""
    perplexity = found.model.perplexity(test)
    gain = ""
    if base is not None:
        gap = compare(base, found.model, test, random_state=0)
        gain = f"{-gap.gain:+.1f} ± {gap.standard_error:.1f} %"
    print(
        f"{found.name:34}{perplexity:9.1f}{gain:>18}{found.seconds:9.1f} s", flush=True
    )
    return perplexity


def draw(models, perplexity, path):
    """Bars of perplexity, the first model at the top."""
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(7.5, 3.6), layout="constrained")
    names = [found.name for found in models]
    colours = ["#777777"] + ["#0072B2"] * (len(names) - 2) + ["#56B4E9"]
    bars = ax.barh(names, perplexity, color=colours)
    ax.bar_label(bars, [f"{value:.1f}" for value in perplexity], padding=4)
    ax.invert_yaxis()
    ax.set_xlabel("perplexity of the test sentences (lower is better)")
    ax.set_xlim(0, 1.12 * max(perplexity))
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    ax.tick_params(left=False)
    figure.savefig(path, dpi=150)


def print_samples(model, text, random_state):
    """Of many sampled sentences, those that the model itself finds most usual."""
    known = {tuple(sentence) for sentence in text}
    drawn = model.sample(500, max_length=30, random_state=random_state)
    drawn = {
        tuple(s) for s in drawn if 6 <= len(s) <= 20 and model.unknown not in s
    } - known
    if not drawn:
        print("  (no sampled sentence of 6 to 20 known words that is not in the text)")
        return
    drawn = sorted(drawn)
    per_word = model.score_samples(drawn) / [len(s) + 1 for s in drawn]
    for i in np.argsort(-per_word)[:3]:
        print("  *", " ".join(drawn[i]))


def main():
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n\n", 1)[1],
        formatter_class=argparse.RawTextHelpFormatter,
    )
    parser.add_argument(
        "textfile",
        nargs="?",
        type=Path,
        help="UTF-8 text, one sentence per line, words\nseparated by blanks",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent / "output",
        help="folder of what is written (default:\noutput, next to this file)",
    )
    parser.add_argument(
        "--min-count",
        type=int,
        default=2,
        help="rarer words become <unk> (default: 2)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of splits and samples")
    args = parser.parse_args()
    if args.min_count < 1 or args.seed < 0:
        parser.error("--min-count must be at least 1, --seed at least 0")

    # Before the work, not after it: what could stop us from showing the results.
    sentences = read_text(args.textfile)
    try:
        import matplotlib
    except ImportError as exc:
        raise SystemExit(f'{exc.name} is missing: pip install ".[plot]"') from None
    matplotlib.use("agg")
    try:
        args.output.mkdir(parents=True, exist_ok=True)
    except OSError as exc:
        raise SystemExit(f"cannot write to {args.output}: {exc.strerror}") from exc

    train, valid, test = split_text(sentences, args.seed)
    words = [sum(map(len, part)) for part in (train, valid, test)]
    print(
        "{:,} training, {:,} validation and {:,} test words in {:,} sentences".format(
            *words, len(sentences)
        )
    )
    print(f"\n{'':32}perplexity  against the first   trained")
    models, perplexity = [], []
    for found in trained_models(train, valid, args.min_count):
        base = models[0].model if models else None
        perplexity.append(show(found, test, base))
        models.append(found)
    _, counts = models[0].model.perplexity(test, return_counts=True)
    print(
        "\nPerplexity: the number of equally likely words that would be as hard to"
        "\npredict. Lower is better. The gain is mean ± standard error over the test"
        f"\nsentences. End marks count, and {counts.n_unknown} unknown words of "
        f"{counts.n_counted} tokens.\nAll models know the "
        f"{models[0].model.vocabulary_.size} words that occur at least "
        f"{args.min_count} times. A\ncache reads the test sentences in their order and "
        "learns from the sentences\nthat it has read. This is another task, so its bar "
        "has another colour."
    )

    picture = args.output / "quickstart.png"
    draw(models, perplexity, picture)
    arpa, binary = args.output / "quickstart.arpa", args.output / "quickstart.bin"
    models[1].model.save(arpa)
    models[0].model.save(binary, format="kenlm")
    for name, path in [
        ("picture", picture),
        (f"ARPA file of {models[1].name}", arpa),
        (f"KenLM's binary file of {models[0].name}", binary),
    ]:
        print(f"\n{name}:\n  {os.path.relpath(path)}", end="")

    static = min(range(len(models) - 1), key=perplexity.__getitem__)
    print(
        f"\n\n{models[static].name} writes (the three most probable by the word of 500"
    )
    print("samples, without those of unknown words and those that are in the text):")
    print_samples(models[static].model, sentences, args.seed)


if __name__ == "__main__":
    main()
