"""The picture of the first page: models by name, and KenLM.

    python benchmarks/draw_front.py docs/benchmarks/results/word_classes.json \\
        docs/_static/front.png
"""

import sys
from pathlib import Path

import matplotlib
from _common import read_results

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import NullLocator

# Cases of bench_word_classes.py, measured on one machine: label and offset in points.
WINDOWS = {
    "modified Kneser-Ney": ('"fast"', (-4, 10)),
    '"better" by windows alone': ('"better"', (-76, -16)),
}
LINES = {'"better"': ('"better"', (-76, -16)), '"best"': ('"best"', (-62, -16))}


def main(source, target):
    models = {
        result["case"]["model"]: result["figures"]
        for result in read_results(Path(source))["results"]
        if result["case"]["section"] == "models"
    }
    # Few inches: the letters stay readable on a telephone.
    figure, ax = plt.subplots(figsize=(5.4, 3.5), layout="constrained")

    def series(names, colour, label):
        points = [(models[m]["fit_seconds"], models[m]["test"]) for m in names]
        ax.plot(*zip(*points), "o-", color=colour, lw=2, ms=9, label=label)
        for (name, offset), (x, y) in zip(names.values(), points):
            ax.annotate(
                f"{name}  {y:.0f}",
                (x, y),
                xytext=offset,
                textcoords="offset points",
                fontsize=11,
                color=colour,
            )

    kenlm = models["KenLM lmplz"]
    x, y = kenlm["fit_seconds"], kenlm["test"]
    ax.plot(x, y, "s", color="#777777", ms=9, ls="")
    ax.annotate(
        f"KenLM  {y:.0f}",
        (x, y),
        xytext=(9, -4),
        textcoords="offset points",
        fontsize=11,
        color="#555555",
    )
    series(WINDOWS, "#0072B2", "from the last four words")
    series(LINES, "#D55E00", "also from earlier words of the line")
    ax.legend(fontsize=10, loc="upper right", frameon=False)
    ax.set_xscale("log")
    ax.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlim(0.5, 200)
    ax.set_ylim(110, 275)
    ax.set_xlabel("seconds of training, one core")
    ax.set_ylabel("test perplexity")
    ax.set_title("WikiText-2 (lower is better)", fontsize=12)
    ax.grid(alpha=0.3)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    figure.savefig(target, dpi=175)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
