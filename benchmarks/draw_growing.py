"""The pictures of `bench_growing.py`: objective and perplexity against arcs.

    python benchmarks/draw_growing.py docs/benchmarks/results/growing.json \\
        docs/_static/growing.png
"""

import sys
from pathlib import Path

import matplotlib
from _common import STYLE, read_results

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter

plt.style.use(STYLE)

MODELS = {
    "suffixes": ("tree_l2, groups of suffixes", "C0", "o-"),
    "prefixes": ("tree_l2, groups of prefixes", "C5", "s--"),
    "l1": ("l1", "C2", "^-"),
    "grown": ("grown by depth", "C1", "D-"),
    "queue": ("grown from a queue", "C4", "v--"),
    "pruned": ("Kneser-Ney, pruned", "C3", "P-"),
    "Kneser-Ney": ("Kneser-Ney, whole", "k", "*"),
}
PANELS = {
    "objective": "log-loss of the training text, nats per word",
    "test": "test perplexity",
}


def main(source, target):
    results = read_results(Path(source))["results"]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.6), layout="constrained")
    for ax, (name, label) in zip(axes, PANELS.items()):
        for model, (text, colour, style) in MODELS.items():
            points = sorted(
                (result["figures"]["arcs"], result["figures"][name])
                for result in results
                if result["case"]["model"] == model
            )
            size = 10 if model == "Kneser-Ney" else 5
            ax.plot(*zip(*points), style, ms=size, lw=1.4, color=colour, label=text)
        ax.set_xscale("log")
        ticks = [20_000, 50_000, 100_000, 200_000, 400_000]
        ax.set_xticks(ticks, minor=False)
        ax.set_xticks([], minor=True)
        ax.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        ax.set_xlabel("arcs of the automaton")
        ax.set_ylabel(label)
        ax.grid(alpha=0.3)
    figure.legend(
        *axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=4
    )
    figure.savefig(target, dpi=100)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
