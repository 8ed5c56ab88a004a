"""The picture of `bench_word_classes.py`: perplexity against the time of training.

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
    points = [
        (result["case"]["model"], result["figures"])
        for result in read_results(Path(source))["results"]
        if result["case"]["section"] == "ladder"
        # The named models have a picture of their own, that of draw_front.py.
        and not result["case"]["model"].startswith('"')
    ]
    points.sort(key=lambda point: point[1]["fit_seconds"])
    figure, ax = plt.subplots(figsize=(8, 4.8), layout="constrained")
    front, on_front, lowest = [], set(), float("inf")
    for name, figures in points:
        if figures["test"] < lowest and not name.startswith("KenLM"):
            lowest = figures["test"]
            front.append((figures["fit_seconds"], lowest))
            on_front.add(name)
    crowded = 1.7  # seconds apart by less than this factor: one name on either side
    last = 0.0
    for name, figures in points:
        x, y = figures["fit_seconds"], figures["test"]
        below = name in on_front and x > crowded * last
        last = x if below else last
        peer = name.startswith("KenLM")
        colour = "tab:grey" if peer else "tab:blue"
        ax.plot(x, y, "s" if peer else "o", color=colour)
        # names below the front, which falls, or above it, and above the others
        ax.annotate(
            name,
            (x, y),
            xytext=(-6, -9) if below else (5, 5),
            ha="right" if below else "left",
            textcoords="offset points",
            fontsize=8,
            color=colour,
        )
    ax.plot(*zip(*front), color="tab:blue", lw=0.8, alpha=0.6, zorder=0)
    ax.set_xscale("log")
    ax.set_xticks([0.5, 1, 2, 5, 10, 20, 50, 100, 200, 500])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    right = max(figures["fit_seconds"] for _, figures in points)
    ax.set_xlim(0.3, 2 * right)
    ax.set_xlabel("seconds of training, clusterings included")
    ax.set_ylabel("test perplexity")
    ax.grid(alpha=0.3)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
