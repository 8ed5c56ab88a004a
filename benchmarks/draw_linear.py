"""The picture of objective against seconds of l1 logistic regression.

python benchmarks/draw_linear.py RESULTS.json PICTURE.png

RESULTS.json is a record of ``bench_linear.py``. A point is a fit to a tolerance.
"""

from __future__ import annotations

import sys
from pathlib import Path

from _common import STYLE, read_results

# The digits of the records: smaller differences are drawn here.
LEAST = 1e-6

CURVES = {
    "ours": ("StructuredLogisticRegression", "C0"),
    "saga": ("saga (scikit-learn)", "C1"),
    "liblinear": ("LIBLINEAR", "C2"),
}
TITLES = {
    "newsgroups": "20 newsgroups, 4 500 texts, 20 classes",
    "binary": "two newsgroups, 2 classes",
}


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.style.use(STYLE)

    results = read_results(Path(sys.argv[1]))["results"]
    points: dict = {}
    for result in results:
        case, figures = result["case"], result["figures"]
        if case["task"] == "curve" and figures:
            curves = points.setdefault(case["data"], {})
            found = figures["seconds"], figures["objective"]
            curves.setdefault(case["solver"], []).append(found)
    if not points:
        raise SystemExit(f"{sys.argv[1]} has no results of the task curve")
    figure, axes = plt.subplots(
        1, len(points), figsize=(5.4 * len(points), 4.2), squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, (data, curves) in zip(axes[0], points.items()):
        least = min(value for curve in curves.values() for _, value in curve)
        for solver, (name, colour) in CURVES.items():
            curve = sorted(curves.get(solver, []))
            excess = [max(value - least, LEAST) for _, value in curve]
            seconds = [second for second, _ in curve]
            axis.loglog(seconds, excess, marker="o", ms=3, color=colour, label=name)
        axis.set(title=TITLES[data], xlabel="CPU seconds")
        axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("objective above the least, nats per sample")
    axes[0, -1].legend()
    figure.savefig(sys.argv[2], dpi=120)


if __name__ == "__main__":
    main()
