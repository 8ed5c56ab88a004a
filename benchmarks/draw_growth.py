"""The picture of the growth in `bench_sparse_classes.py`: seconds against classes.

    python benchmarks/draw_growth.py docs/benchmarks/results/sparse_classes.json \\
        docs/_static/growth_classes.png

Fit and prediction of every model that was measured, with the exponent of a power of
the number of classes by least squares. The dashed line is what the cost model of
`choose_shape` says of the tree: samples times the weight vectors that one of them
meets, times what such a product took with 1 000 classes.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from _common import read_results

from sklstruct.taxonomy import choose_shape

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PANELS = {"fit": "CPU seconds of a fit", "predict": "CPU ms for 1 000 predictions"}
# Colours that the colour-blind tell apart, as in `draw_labels`.
MODELS = {
    "tree": ("#0072B2", "o"),
    "flat hinge": ("#009E73", "D"),
    "omikuji": ("#D55E00", "^"),
}
# what `bench_sparse_classes.growth` makes: samples of up to 40 words, per class
SAMPLES, COLUMNS, WORDS = 10, 10, 40


def exponent(k, seconds):
    return np.polyfit(np.log(k), np.log(seconds), 1)[0]


def main(source, target):
    found = {}
    for result in read_results(Path(source))["results"]:
        section = result["case"]["section"]
        if section.startswith("growth"):
            name = result["case"]["model"]
            found.setdefault(name, {})[int(section[6:])] = result["figures"]
    figure, axes = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
    for ax, (field, label) in zip(axes, PANELS.items()):
        for name, by_k in found.items():
            k = np.array(sorted(by_k))
            value = np.array([by_k[i][field] for i in k.tolist()])
            power = exponent(k, value)
            color, marker = MODELS[name]
            text = f"{name}: $K^{{{power:.2f}}}$"
            ax.plot(k, value, marker=marker, color=color, label=text)
            print(f"{field:8} {name:12} K^{power:.2f}")
            if (field, name) == ("fit", "tree"):
                n = SAMPLES * k
                shapes = [
                    choose_shape(i, SAMPLES * i, COLUMNS * i, n_entries=WORDS * m)
                    for i, m in zip(k.tolist(), n.tolist())
                ]
                cost = n * np.array([shape.width for shape in shapes])
                at = int(np.searchsorted(k, 1000))
                ax.plot(
                    k, cost * value[at] / cost[at], "--", color=color,
                    label=f"its cost model: $K^{{{exponent(k, cost):.2f}}}$",
                )  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("classes K, with 10 samples and 10 features each")
        ax.set_ylabel(label)
        ax.grid(alpha=0.3)
        ax.legend()
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
