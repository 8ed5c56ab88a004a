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

# Offsets of numbers from their points.
BELOW, LEFT = (0, -16), (-30, -6)


def is_of(case, network):
    return (case["model"], case["units"]) == network


def draw(ax, points, style, colour, label, offset=(0, 7), **line):
    points = sorted(points)
    ax.plot(*zip(*points), style, color=colour, ms=7, label=label, **line)
    # Of runs of one network only the longest has a number at each point.
    for x, y in points[-1:] if line.get("markerfacecolor") else points:
        ax.annotate(
            f"{y:.0f}",
            (x, y),
            xytext=offset,
            textcoords="offset points",
            fontsize=11,
            color=colour,
        )


def main(folder, target):
    folder = Path(folder)
    book = read_results(folder / "word_classes.json")["results"]
    found = {(r["case"]["section"], r["case"].get("model")): r["figures"] for r in book}

    def points(section, names):
        figures = [found[section, n] for n in names if (section, n) in found]
        return [(f["fit_seconds"], f["test"]) for f in figures]

    figure, ax = plt.subplots(figsize=(5.8, 6.4), layout="constrained")
    draw(ax, points("models", NAMES), "o-", "#0072B2", "sklstruct without cache", BELOW)
    draw(ax, points("caches", CACHED), "s-", "#009E73", "sklstruct with cache", BELOW)
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
        # The curves of the transformer and of a longer run are above.
        offset = LEFT if network == ("LSTM", 650) else BELOW if face else (0, 7)
        draw(ax, line, *NETWORKS[network], name, offset, markerfacecolor=face)
    ax.set_xscale("log")
    ax.set_xlim(1, 8000)
    ax.margins(y=0.1)
    ax.set_xticks([1, 10, 100, 1000])
    ax.xaxis.set_major_formatter("{x:g}")
    ax.set_yscale("log")
    ax.set_yticks([100, 150, 200, 300, 400, 600])
    ax.yaxis.set_major_formatter("{x:g}")
    for axis in (ax.xaxis, ax.yaxis):
        axis.set_minor_locator(NullLocator())
    ax.set_xlabel("CPU seconds of training, one core", fontsize=12)
    ax.set_ylabel("test perplexity, WikiText-2", fontsize=12)
    ax.tick_params(labelsize=11)
    figure.legend(frameon=False, fontsize=11, loc="outside lower center", ncols=2)
    ax.grid(alpha=0.3)
    figure.savefig(target, dpi=150)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
