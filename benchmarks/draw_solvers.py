"""The picture of `bench_solvers.py`: every method, by passes and by seconds.

    python benchmarks/draw_solvers.py docs/benchmarks/results/solvers.json \\
        docs/_static/solvers.png
"""

import sys
from pathlib import Path

import matplotlib
from _common import read_results

matplotlib.use("Agg")
import matplotlib.pyplot as plt

LABELS = {
    "tree_metric": ("tree metric", "tab:blue", "-"),
    "diagonal": ("diagonal metric", "tab:cyan", "-"),
    "fista": ("FISTA", "tab:grey", "-"),
    "lbfgs": ("L-BFGS-B", "tab:green", "-"),
    "owlqn": ("OWL-QN", "tab:olive", "--"),
    "gis": ("GIS", "tab:red", "-"),
    "iis": ("IIS", "tab:red", "--"),
    "scis": ("SCIS", "tab:orange", "-"),
    "cd": ("coordinate descent", "tab:brown", "-"),
    "stochastic": ("stochastic", "tab:purple", "-"),
}
LOWEST = 1e-7


def main(source, target):
    curves = {}
    for result in read_results(Path(source))["results"]:
        case, figures = result["case"], result["figures"]
        if case["text"] != "every method":
            continue
        points = [
            (int(name.split()[-1]), figures[name.replace("above", "seconds")], value)
            for name, value in figures.items()
            if name.startswith("above after")
        ]
        points.append((figures["passes"], figures["seconds"], figures["above"]))
        curves[case["problem"], case["solver"]] = sorted(points)
    problems = sorted({problem for problem, _ in curves}, reverse=True)
    figure, axes = plt.subplots(
        len(problems), 2, figsize=(10, 3.2 * len(problems)), sharey=True,
        layout="constrained", squeeze=False,
    )  # fmt: skip
    for row, problem in zip(axes, problems):
        for (name, solver), points in curves.items():
            if name != problem:
                continue
            label, colour, style = LABELS[solver]
            above = [max(point[2], LOWEST) for point in points]
            for ax, column in zip(row, (0, 1)):
                x = [point[column] for point in points]
                ax.plot(x, above, style, color=colour, label=label, marker=".", ms=4)
        row[0].set_xlabel("passes over the data")
        row[1].set_xlabel("CPU seconds")
        row[0].set_ylabel(f"{problem}: (F - F*) / F*")
        for ax in row:
            ax.set_xscale("log")
            ax.set_yscale("log")
            ax.set_ylim(LOWEST, None)
            ax.grid(alpha=0.3)
    handles, labels = axes[0, 0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside right upper", fontsize=8)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
