"""The picture of `bench_word_classes.py`: perplexity and seconds of training by model.

    python benchmarks/draw_word_classes.py docs/benchmarks/results/word_classes.json \\
        docs/_static/word_classes.png
"""

import sys
from pathlib import Path

import matplotlib
from _common import read_results

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LEFT = 120  # of the axis, where the names begin


def main(source, target):
    rows = [
        (result["case"]["model"], result["figures"])
        for result in read_results(Path(source))["results"]
        if result["case"]["section"] == "models"
    ]
    rows.sort(key=lambda row: -row[1]["test"])  # the best at the top
    # One row per model, with its name above the point: names beside points of a scatter
    # plot would overlap. Few inches: the letters stay readable on a telephone.
    figure, ax = plt.subplots(figsize=(5.4, 9.6), layout="constrained")
    for y, (name, figures) in enumerate(rows):
        peer, named = name.startswith("KenLM"), name.startswith('"')
        colour = "#777777" if peer else "#D55E00" if named else "#0072B2"
        value, seconds = figures["test"], figures["fit_seconds"]
        digits = 1 if seconds < 10 else 0
        ax.plot(value, y, "s" if peer else "o", color=colour, ms=9)
        ax.text(LEFT, y + 0.25, name, va="bottom", fontsize=12)
        ax.annotate(
            f"{value:.0f} ({seconds:.{digits}f} s)",
            (value, y),
            xytext=(9, 0),
            textcoords="offset points",
            va="center_baseline",
            fontsize=13,
            color=colour,
        )
    ax.set_xlim(LEFT, 300)
    ax.set_ylim(-0.6, len(rows) - 0.2)
    ax.set_yticks([])
    ax.set_xticks([150, 200, 250])
    ax.tick_params(labelsize=13)
    ax.set_xlabel("test perplexity (seconds of training)", fontsize=13)
    ax.grid(axis="x", alpha=0.3)
    for side in ("top", "right", "left"):
        ax.spines[side].set_visible(False)
    figure.savefig(target, dpi=150)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
