"""The picture of `bench_word_classes.py`: perplexity and seconds of training by model.

    python benchmarks/draw_ladder.py docs/benchmarks/results/word_classes.json \\
        docs/_static/ladder.png
"""

import sys
from pathlib import Path

import matplotlib
from _common import read_results

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullLocator


def main(source, target):
    rows = [
        (result["case"]["model"], result["figures"])
        for result in read_results(Path(source))["results"]
        if result["case"]["section"] == "ladder"
    ]
    rows.sort(key=lambda row: -row[1]["test"])  # the best at the top
    # One row per model: names beside points of a scatter plot would overlap.
    figure, (left, right) = plt.subplots(
        1, 2, sharey=True, figsize=(8.6, 5.2), layout="constrained", width_ratios=(3, 2)
    )
    for y, (name, figures) in enumerate(rows):
        peer, named = name.startswith("KenLM"), name.startswith('"')
        colour = "#777777" if peer else "#D55E00" if named else "#0072B2"
        marker = "s" if peer else "o"
        for ax, value, text in (
            (left, figures["test"], f"{figures['test']:.0f}"),
            (right, figures["fit_seconds"], f"{figures['fit_seconds']:.3g}"),
        ):
            ax.plot(value, y, marker, color=colour, ms=8)
            ax.annotate(
                text,
                (value, y),
                xytext=(8, 0),
                textcoords="offset points",
                va="center",
                fontsize=11,
                color=colour,
            )
    left.set_yticks(range(len(rows)), [name for name, _ in rows], fontsize=11)
    left.set_xlim(115, 265)
    left.set_xlabel("test perplexity (lower is better)", fontsize=11)
    right.set_xscale("log")
    right.set_xticks([1, 10, 100])
    right.set_xlim(0.8, 1500)
    right.xaxis.set_major_formatter("{x:g}")
    right.xaxis.set_minor_locator(NullLocator())
    right.set_xlabel("seconds of training", fontsize=11)
    for ax in (left, right):
        ax.grid(alpha=0.3)
        for side in ("top", "right"):
            ax.spines[side].set_visible(False)
    figure.savefig(target, dpi=150)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
