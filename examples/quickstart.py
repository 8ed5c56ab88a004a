"""
Train, tune, compare, sample from and export language models
============================================================

Trains log-linear models with three penalties, and modified Kneser-Ney, on a text, at
orders 2 to 5. The penalty's strength and the weight of deep contexts are tuned by
``GridSearchCV`` on held-out sentences. Prints the perplexity of test sentences,
plots it, writes the best model as an ARPA file and samples three sentences from it.

    python examples/quickstart.py              # Python's own help texts
    python examples/quickstart.py my_text.txt  # one sentence a line

The run takes about a minute with the default text.
"""

import argparse
import os
from pathlib import Path

import numpy as np
from sklearn.model_selection import GridSearchCV, PredefinedSplit

from sklstruct import StructuredLogLinearLM
from sklstruct.datasets import load_python_topics
from sklstruct.language_model import LanguageModel
from sklstruct.smoothing import KneserNeyLM

ORDERS = (2, 3, 4, 5)
UNSQUARED = {
    "estimator__lam": [0.35, 0.5, 0.8, 1.1, 1.4],
    "estimator__alpha": [0.7, 0.9, 1.2, 1.5],
}
SQUARED = {
    "estimator__lam": [0.07, 0.1, 0.15, 0.25],
    "estimator__alpha": [0.5, 0.6, 0.7, 0.8, 1.0],
}
# name -> (estimator, what is tuned)
MODELS = {
    "modified Kneser-Ney": (KneserNeyLM(), {"estimator__discount": ["modified"]}),
    "l2": (StructuredLogLinearLM(penalty="l2"), SQUARED),
    "tree_l2": (StructuredLogLinearLM(penalty="tree_l2"), UNSQUARED),
    "tree_linf": (StructuredLogLinearLM(penalty="tree_linf"), UNSQUARED),
}


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


def tune(train, valid, min_count, n_jobs):
    """Best model of each kind and order, by its score on the validation sentences.

    `GridSearchCV` trains every candidate on `train`, scores it on `valid`, and fits
    the best one again on both.
    """
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
    )

    text = train + valid
    fold = PredefinedSplit([-1] * len(train) + [0] * len(valid))
    n_fits = {
        name: 1 + int(np.prod([len(v) for v in grid.values()]))
        for name, (_, grid) in MODELS.items()
    }
    searches = {name: {} for name in MODELS}
    progress = Progress(
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("fits"),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=Console(stderr=True),
    )
    with progress:
        task = progress.add_task("", total=len(ORDERS) * sum(n_fits.values()))
        for order in ORDERS:
            for name, (estimator, grid) in MODELS.items():
                progress.update(task, description=f"{name}, order {order}")
                model = LanguageModel(
                    estimator, max_depth=order - 1, min_count=min_count
                )
                search = GridSearchCV(
                    model, grid, cv=fold, n_jobs=n_jobs, error_score="raise"
                )
                searches[name][order] = search.fit(text)
                progress.advance(task, n_fits[name])
        progress.update(task, description="done")
    return searches


def print_table(searches, perplexity):
    width = max(map(len, searches)) + 2
    print(f"{'':{width}}" + "".join(f"{f'order {n}':>14}" for n in ORDERS))
    for name, by_order in searches.items():
        print(f"{name:{width}}", end="")
        print("".join(f"{perplexity[name][n]:14.1f}" for n in ORDERS))
        best = [by_order[n].best_params_ for n in ORDERS]
        if "estimator__lam" in best[0]:
            print(f"{'  lam, alpha':{width}}", end="")
            for b in best:
                tuned = f"{b['estimator__lam']:g}, {b['estimator__alpha']:g}"
                print(f"{tuned:>14}", end="")
            print()


def print_legend(searches):
    """One line for each thing in the table that needs one."""
    print(
        "\nsmaller is better: as hard to guess as one of so many equally likely words"
        "\norder n: the n - 1 words before a word are known"
    )
    if any("estimator__lam" in grid for _, grid in MODELS.values()):
        print(
            "lam: strength of the penalty, alpha: weight of a context for each word of "
            "it\n(below 1: long contexts count less), both chosen by validation"
        )
    for name, by_order in searches.items():
        for parameter, values in MODELS[name][1].items():
            for edge, word in ((min, "smallest"), (max, "largest")):
                at = [
                    str(order)
                    for order, search in by_order.items()
                    if len(values) > 1
                    and search.best_params_[parameter] == edge(values)
                ]
                if at:
                    print(
                        f"! {name}: {parameter.removeprefix('estimator__')} "
                        f"{edge(values):g} is the {word} value tried (order "
                        f"{', '.join(at)}); a wider grid may do better"
                    )


def print_conclusion(searches, test):
    """The best order of each model, chosen by validation, and whether they differ."""
    best = {
        name: max(by_order.values(), key=lambda search: search.best_score_)
        for name, by_order in searches.items()
    }
    loss = {
        name: -search.best_estimator_.score_samples(test)
        for name, search in best.items()
    }
    n_tokens = sum(map(len, test)) + len(test)
    ranked = sorted(loss, key=lambda name: loss[name].sum())
    first = ranked[0]
    print(f"\nConclusion: {first} has the lowest test perplexity of the models whose")
    print(
        "order was chosen by validation. Against it, with the standard error over the"
    )
    print("test sentences:")
    for name in ranked:
        order = best[name].best_estimator_.max_depth + 1
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
    searches = tune(train, valid, args.min_count, args.jobs)
    models = {
        name: [search.best_estimator_ for search in by_order.values()]
        for name, by_order in searches.items()
    }

    display = PerplexityDisplay.from_language_models(models, test)
    any_model = models["l2"][0]
    _, counts = any_model.perplexity(test, return_counts=True)
    print(
        f"\nTest perplexity (end marks counted, and {counts.n_unknown} unknown words "
        f"of {counts.n_counted} tokens;\n{any_model.vocabulary_.size} classes)\n"
    )
    print_table(searches, display.perplexity)
    print_legend(searches)
    print_conclusion(searches, test)

    display.ax_.set_title("Perplexity of held-out sentences by order")
    display.ax_.set_ylim(bottom=0)  # differences of a per cent look like that
    plot = args.output / "quickstart.png"
    display.figure_.savefig(plot, dpi=150)
    best = max(
        (search for by_order in searches.values() for search in by_order.values()),
        key=lambda search: search.best_score_,
    ).best_estimator_
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
