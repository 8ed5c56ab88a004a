"""The pictures of `bench_labels.py`: growth with the labels, and reliability.

    python benchmarks/draw_labels.py docs/benchmarks/results/labels.json docs/_static

`labels_growth.png`: fit and prediction of the made text against the number of labels,
with the exponent of a power of it by least squares. `labels_reliability.png`: the part
of the labels that are right against the marginal probability that the models gave
them; points of fewer than 30 pairs of a sample and a label, or without a right one,
are left out.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from _common import read_results

matplotlib.use("Agg")
import matplotlib.pyplot as plt

PANELS = {
    "fit": "CPU seconds of a fit",
    "predict": "CPU ms, five best of 1 000 samples",
}
# Colours that the colour-blind tell apart.
MODELS = {
    "tree": ("#0072B2", "o"),
    "tree, 3 averaged": ("#56B4E9", "s"),
    "flat": ("#009E73", "D"),
    "omikuji": ("#D55E00", "^"),
    "omikuji, 3 trees": ("#E69F00", "v"),
    "napkinXC": ("0.4", "x"),
    "PECOS": ("#CC79A7", "P"),
}
FEWEST = 30


def exponent(k, value):
    return np.polyfit(np.log(k), np.log(value), 1)[0]


def growth(found, target):
    figure, axes = plt.subplots(1, 2, figsize=(10, 5), layout="constrained")
    for ax, (field, label) in zip(axes, PANELS.items()):
        for model, (color, marker) in MODELS.items():
            by_k = {
                int(name[4:]): figures[field]
                for (name, of), figures in found.items()
                if of == model and name.startswith("text")
            }
            if len(by_k) < 2:
                continue
            k = np.array(sorted(by_k))
            value = np.array([by_k[i] for i in k.tolist()])
            text = f"{model}: $L^{{{exponent(k, value):.2f}}}$"
            ax.plot(k, value, marker=marker, color=color, label=text)
            print(f"{field:8} {text}")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel("labels L")
        ax.set_ylabel(label)
        ax.grid(alpha=0.3)
        # above the panel: it hides no line there
        ax.legend(loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    figure.savefig(target, dpi=110)


def reliability(found, target):
    sets = ("text100", "text1000")
    figure, axes = plt.subplots(1, len(sets), figsize=(10, 4.8), layout="constrained")
    for ax, name in zip(axes, sets):
        least = 1.0
        # the larger marks lie below: they show where the two models agree
        for model, size in (("tree", 10), ("flat", 5)):
            figures = found.get((name, model), {})
            if "count" not in figures:
                continue
            color, marker = MODELS[model]
            count, proba, right = (
                np.array(figures[key]) for key in ("count", "proba", "right")
            )
            ok = (count >= FEWEST) & (right > 0)
            ax.plot(
                proba[ok] / count[ok], right[ok] / count[ok], marker=marker,
                color=color, ms=size,
                label=f"{model}, log-loss {figures['log_loss']:.2f}",
            )  # fmt: skip
            least = min(least, *(proba[ok] / count[ok]), *(right[ok] / count[ok]))
        ends = [least / 2, 1]
        ax.plot(ends, ends, color="0.7", lw=1, label="as often right as said")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(f"{int(name[4:]):,} labels")
        ax.set_xlabel("mean marginal probability")
        ax.set_ylabel("part of the labels that are right")
        ax.grid(alpha=0.3)
        ax.legend()
    figure.savefig(target, dpi=110)


def main(source, folder):
    found = {
        (r["case"]["set"], r["case"]["model"]): r["figures"]
        for r in read_results(Path(source))["results"]
    }
    growth(found, Path(folder, "labels_growth.png"))
    reliability(found, Path(folder, "labels_reliability.png"))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    main(*sys.argv[1:])
