"""The picture of `bench_neural.py`: perplexity against the time of training.

python benchmarks/draw_neural.py docs/benchmarks/results docs/_static/neural.png
"""

import sys
from pathlib import Path

import matplotlib
from _common import read_results

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from draw_front import LINES, WINDOWS
from matplotlib.ticker import NullLocator

# Cases of bench_word_classes.py, from the fastest to the best; with a cache: CACHED.
NAMES = (*WINDOWS, *LINES)
CACHED = (
    "modified Kneser-Ney + caches with classes",
    '"better" + caches with classes',
    "best static + caches with classes",
)

# Marks and colour of each network of bench_neural.py.
NETWORKS = {
    ("LSTM", 200): ("^--", "#D55E00"),
    ("LSTM", 650): ("v--", "#CC79A7"),
    ("transformer", 200): ("D--", "#56B4E9"),
}


def is_of(case, network):
    return (case["model"], case["units"]) == network


def draw(ax, points, style, colour, label, below=False, **line):
    points = sorted(points)
    ax.plot(*zip(*points), style, color=colour, ms=7, label=label, **line)
    # Of runs of one network only the longest has a number at each point.
    for x, y in points[-1:] if line.get("markerfacecolor") else points:
        ax.annotate(
            f"{y:.0f}",
            (x, y),
            xytext=(0, -16 if below else 7),
            textcoords="offset points",
            fontsize=9,
            color=colour,
        )


def main(folder, target):
    folder = Path(folder)
    book = read_results(folder / "word_classes.json")["results"]
    found = {(r["case"]["section"], r["case"].get("model")): r["figures"] for r in book}

    def points(section, names):
        figures = [found[section, n] for n in names if (section, n) in found]
        return [(f["fit_seconds"], f["test"]) for f in figures]

    figure, ax = plt.subplots(figsize=(8, 4.8), layout="constrained")
    draw(ax, points("ladder", NAMES), "o-", "#0072B2", "sentence by sentence", True)
    draw(ax, points("caches", CACHED), "s-", "#009E73", "with caches", True)
    neural = read_results(folder / "neural.json")["results"]
    neural.sort(key=lambda result: tuple(result["case"].values()))
    for result in neural:
        case, figures = result["case"], result["figures"]
        curve, network = figures["curve"], (case["model"], case["units"])
        line = list(zip(curve["seconds"], curve["test_sample"]))[:-1]
        line.append((figures["fit_seconds"], figures["test"]))
        name = f"{case['model']}, {case['units']} units, {case['seconds']} s"
        same = [r["case"]["seconds"] for r in neural if is_of(r["case"], network)]
        face = "white" if case["seconds"] < max(same) else None
        # Beside the transformer, or a longer run, which are above.
        below = network == ("LSTM", 650) or face is not None
        draw(ax, line, *NETWORKS[network], name, below, markerfacecolor=face)
    ax.set_xscale("log")
    ax.margins(y=0.1)
    ax.set_xticks([1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_yscale("log")
    ax.set_yticks([100, 150, 200, 300, 400, 600])
    ax.yaxis.set_major_formatter("{x:g}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    ax.set_xlabel("CPU seconds of training, one core")
    ax.set_ylabel("test perplexity, WikiText-2")
    ax.legend(frameon=False)
    ax.grid(alpha=0.3)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
