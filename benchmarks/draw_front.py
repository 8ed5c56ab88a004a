"""The picture of the first page: three rungs of the ladder, and KenLM.

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

# Cases of bench_word_classes.py; one machine measured them all. The first is "fast".
NAMES = ("modified Kneser-Ney", '"better"', '"best"')


def main(source, target):
    ladder = {
        result["case"]["model"]: result["figures"]
        for result in read_results(Path(source))["results"]
        if result["case"]["section"] == "ladder"
    }
    # Few inches: the letters stay readable on a telephone.
    figure, ax = plt.subplots(figsize=(5.4, 3.3), layout="constrained")
    points = [(ladder[m]["fit_seconds"], ladder[m]["test"]) for m in NAMES]
    ax.plot(*zip(*points), "o-", color="#0072B2", lw=2, ms=9)
    for name, (x, y) in zip(('"fast"', *NAMES[1:]), points):
        ax.annotate(
            f"{name}  {y:.0f}",
            (x, y),
            xytext=(0, 9),
            textcoords="offset points",
            ha="left",
            fontsize=12,
            color="#0072B2",
        )
    kenlm = ladder["KenLM lmplz"]
    x, y = kenlm["fit_seconds"], kenlm["test"]
    ax.plot(x, y, "s", color="#777777", ms=9)
    ax.annotate(
        f"KenLM, with its file  {y:.0f}",
        (x, y),
        xytext=(9, -5),
        textcoords="offset points",
        fontsize=12,
        color="#555555",
    )
    ax.set_xscale("log")
    ax.set_xticks([2, 5, 10, 20, 50, 100])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.xaxis.set_minor_locator(NullLocator())
    ax.set_xlim(1.2, 5 * max(x for x, _ in points))
    ax.set_ylim(min(y for _, y in points) - 13, 245)
    ax.set_xlabel("seconds of training, one core")
    ax.set_ylabel("test perplexity")
    ax.set_title("WikiText-2, 33 278 words", fontsize=12)
    ax.grid(alpha=0.3)
    for side in ("top", "right"):
        ax.spines[side].set_visible(False)
    figure.savefig(target, dpi=175)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
