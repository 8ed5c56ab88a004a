"""The picture of `bench_solvers.py`: every method, by seconds and by passes.

    python benchmarks/draw_solvers.py docs/benchmarks/results/solvers.json \\
        docs/_static/solvers.png
"""

import sys
from pathlib import Path

import matplotlib
from _common import STYLE, read_results

matplotlib.use("Agg")
import matplotlib.pyplot as plt

plt.style.use(STYLE)

# A column of panels each; the solver in all of them is the yardstick.
FAMILIES = {
    "gradients": {"diagonal": "diagonal metric", "fista": "FISTA"},
    "curvature": {"lbfgs": "L-BFGS-B"},
    "scaling and coordinates": {
        "gis": "GIS",
        "iis": "IIS",
        "scis": "SCIS",
        "cd": "coordinate descent",
    },
}
YARDSTICK = {"tree_metric": "tree metric"}
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
    rows = [(problem, column) for column in (1, 0) for problem in problems]
    figure, axes = plt.subplots(
        len(rows), len(FAMILIES), figsize=(10, 2.5 * len(rows)), sharey="row",
        sharex="row", layout="constrained", squeeze=False,
    )  # fmt: skip
    for (problem, column), row in zip(rows, axes):
        for ax, (title, family) in zip(row, FAMILIES.items()):
            for i, (solver, label) in enumerate({**YARDSTICK, **family}.items()):
                points = curves[problem, solver]
                x = [point[column] for point in points]
                above = [max(point[2], LOWEST) for point in points]
                style = {"color": "0.6", "ls": "--"} if solver in YARDSTICK else {}
                style = style or {"color": f"C{i - 1}", "marker": "osv^"[i - 1]}
                ax.loglog(x, above, label=label, ms=3, lw=1.3, **style)
            ax.set_ylim(LOWEST, None)
            ax.set_xlabel(("passes over the data", "CPU seconds")[column])
            ax.set_title(f"{problem}: {title}", fontsize=10)
            ax.grid(alpha=0.3)
        row[0].set_ylabel("(F - F*) / F*")
    for ax in axes[-1]:  # below: curves fill the panels
        ax.legend(fontsize=8, ncols=2, loc="upper center", bbox_to_anchor=(0.5, -0.3))
    figure.savefig(target, dpi=100)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
