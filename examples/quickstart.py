"""
Train, tune, compare, sample from and export language models
============================================================

Trains log-linear models with four penalties, and modified Kneser-Ney, on a text, at
orders 2 to 5. The strength of the penalty and the weight of deep contexts are tuned on
held-out sentences by a coordinate search. Prints the perplexity of test sentences,
plots it, writes the best model as an ARPA file and samples three sentences from it.

    python examples/quickstart.py              # Python's own help texts
    python examples/quickstart.py my_text.txt  # one sentence a line

The run takes about a minute with the default text.
"""

import argparse
import os
from pathlib import Path
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import clone

from sklstruct import StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import StructuredLogLinearLMCV
from sklstruct.smoothing import KneserNeyLM

ORDERS = (2, 3, 4, 5)
MAX_FITS = 24  # of a search
MODELS = {
    "modified Kneser-Ney": KneserNeyLM(),
    "elastic_net": StructuredLogLinearLMCV(max_fits=MAX_FITS),
    "l2": StructuredLogLinearLMCV(penalty="l2", max_fits=MAX_FITS),
    "tree_l2": StructuredLogLinearLMCV(
        penalty="tree_l2", search=["lam", "alpha"], max_fits=MAX_FITS
    ),
    "tree_linf": StructuredLogLinearLMCV(
        penalty="tree_linf", search=["lam", "alpha"], max_fits=MAX_FITS
    ),
}


class Tuned(NamedTuple):
    """A model fitted to training and validation sentences, and how it was chosen."""

    model: LanguageModel
    score: float  # mean log-likelihood of a validation token, before it was learned
    chosen: dict[str, float]


def read_text(path):
    """Sentences of a text file, one a line; of Python's help without a path."""
    if path is None:
        # Its longer sentences once each: a test sentence met in training is no test.
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


def tune_one(estimator, order, train, valid, min_count):
    """Strengths chosen on `valid`, then a model of all sentences."""
    lm = LanguageModel(estimator, max_depth=order - 1, min_count=min_count)
    if isinstance(estimator, KneserNeyLM):
        lm.fit(train)
        return Tuned(clone(lm).fit(train + valid), lm.score(valid), {})
    found = lm.fit(train, X_val=valid).estimator_
    values = {"lam": found.lam_, "alpha": found.alpha_}
    if found.depth_weight_ != 1.0:
        values["depth_weight"] = found.depth_weight_
    best = StructuredLogLinearLM(penalty=found.penalty_, **values)
    chosen = dict(values)
    if hasattr(found.penalty_, "gamma"):
        chosen = {"lam": found.lam_, "gamma": found.penalty_.gamma}
        chosen["depth_weight"] = found.depth_weight_
    final = lm.set_params(estimator=best).fit(train + valid)
    return Tuned(final, -found.held_out_loss_, chosen)


def tune(train, valid, min_count, n_jobs):
    """`Tuned` of each kind and order."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    what = [(order, name) for order in ORDERS for name in MODELS]
    found = Parallel(n_jobs, return_as="generator")(
        delayed(tune_one)(MODELS[name], order, train, valid, min_count)
        for order, name in what
    )
    tuned = {name: {} for name in MODELS}
    progress = Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("models tuned"),
        TimeElapsedColumn(),
        console=Console(stderr=True),
    )
    with progress:
        for order, name in progress.track(what):
            tuned[name][order] = next(found)
    return tuned


def print_table(tuned, perplexity):
    width = max(map(len, tuned)) + 2
    print(f"{'':{width}}" + "".join(f"{f'order {n}':>16}" for n in ORDERS))
    for name, by_order in tuned.items():
        print(f"{name:{width}}", end="")
        print("".join(f"{perplexity[name][n]:16.1f}" for n in ORDERS))
        chosen = [by_order[n].chosen for n in ORDERS]
        if chosen[0]:
            for parameter in chosen[0]:
                values = "".join(f"{c[parameter]:16.2g}" for c in chosen)
                print(f"{'  ' + parameter:{width}}{values}")


def print_legend():
    """One line for each thing in the table that needs one."""
    print(
        "\nsmaller is better: as hard to guess as one of so many equally likely words"
        "\norder n: the n - 1 words before a word are known"
        "\nlam: strength of the penalty; alpha: weight of a context for each word of it"
        "\n(below 1: long contexts count less); depth_weight: strength for each word of"
        "\na context (above 1: long contexts pay more); gamma: weight of the squares;"
        "\nall chosen by validation"
    )


def print_conclusion(tuned, test):
    """The best order of each model, chosen by validation, and whether they differ."""
    best = {
        name: max(by_order.values(), key=lambda found: found.score)
        for name, by_order in tuned.items()
    }
    loss = {name: -found.model.score_samples(test) for name, found in best.items()}
    n_tokens = sum(map(len, test)) + len(test)
    ranked = sorted(loss, key=lambda name: loss[name].sum())
    first = ranked[0]
    print(f"\nConclusion: {first} has the lowest test perplexity of the models whose")
    print(
        "order was chosen by validation. Against it, with the standard error over the"
    )
    print("test sentences:")
    for name in ranked:
        order = best[name].model.max_depth + 1
        line = f"  {name}, order {order}: {np.exp(loss[name].sum() / n_tokens):.1f}"
        if name != first:
            gap = loss[name] - loss[first]
            percent = 100 * gap.sum() / n_tokens
            error = 100 * gap.std() * np.sqrt(gap.size) / n_tokens
            line += f", {percent:.1f} ± {error:.1f} % more"
            if percent < 2 * error:
                line += ": a tie on this text"
        print(line)


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
        help="UTF-8 text, one sentence a line, words\nseparated by blanks",
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path(__file__).parent / "output",
        help="folder of plot and ARPA file (default:\noutput, next to this file)",
    )
    parser.add_argument(
        "--min-count",
        type=int,
        default=2,
        help="rarer words become <unk> (default: 2)",
    )
    parser.add_argument(
        "--jobs",
        type=int,
        default=min(2, os.cpu_count() or 1),
        help="processes (default: 2)",
    )
    parser.add_argument("--seed", type=int, default=0, help="of splits and samples")
    args = parser.parse_args()
    if args.min_count < 1 or args.jobs < 1 or args.seed < 0:
        parser.error("--min-count and --jobs must be at least 1, --seed at least 0")

    # Before the work, not after it: what could stop us from showing the results.
    sentences = read_text(args.textfile)
    try:
        import matplotlib
        import rich  # noqa: F401
    except ImportError as exc:
        raise SystemExit(f'{exc.name} is missing: pip install ".[plot]"') from None
    matplotlib.use("agg")
    from sklstruct.plotting import PerplexityDisplay

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
    tuned = tune(train, valid, args.min_count, args.jobs)
    models = {
        name: [found.model for found in by_order.values()]
        for name, by_order in tuned.items()
    }

    display = PerplexityDisplay.from_estimator(models, test)
    any_model = models["l2"][0]
    _, counts = any_model.perplexity(test, return_counts=True)
    print(
        f"\nTest perplexity (end marks counted, and {counts.n_unknown} unknown words "
        f"of {counts.n_counted} tokens;\n{any_model.vocabulary_.size} classes)\n"
    )
    print_table(tuned, display.perplexity)
    print_legend()
    print_conclusion(tuned, test)

    display.ax_.set_title("Perplexity of held-out sentences by order")
    display.ax_.set_ylim(bottom=0)  # differences of a per cent look like that
    plot = args.output / "quickstart.png"
    display.figure_.savefig(plot, dpi=150)
    best = max(
        (found for by_order in tuned.values() for found in by_order.values()),
        key=lambda found: found.score,
    ).model
    arpa = args.output / "quickstart.arpa"
    best.to_arpa(arpa)
    print(f"\nplot        {os.path.relpath(plot)}\nARPA file   {os.path.relpath(arpa)}")

    name = next(name for name, of_name in models.items() if best in of_name)
    order = best.max_depth + 1
    print(f"\n{name}, order {order}, the best on the validation sentences, writes (of")
    print(
        "500 samples, those of 6 to 20 known words that are not in the text, the three"
    )
    print("that it finds most probable, word by word):")
    print_samples(best, sentences, args.seed)


if __name__ == "__main__":
    main()
