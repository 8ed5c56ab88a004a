"""The pictures of `bench_depths.py`.

    python benchmarks/draw_depths.py docs/benchmarks/results/depths.json docs/_static

Writes ``depths_<section>.png`` for every data set in the file, ``depths_policy.png``,
``depths_delta.png`` and ``depths_gram.png``: small panels with few curves each, means
over the splits and their standard deviations.
"""

import sys
from pathlib import Path

import matplotlib
import numpy as np
from _common import STYLE, read_results

matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter

plt.style.use(STYLE)

# The panels of a data set: (builder, option) of the curves of each.
FAMILIES = {
    "top down": [("cut", "root"), ("diff", "root"), ("spec", "root")],
    "bottom up, cut from the root": [
        ("hung", "root"),
        ("obyo", "root"),
        ("ward", "root"),
    ],
    "bottom up, in rounds": [
        ("hung", "rounds"),
        ("obyo", "rounds"),
        ("ward", "rounds"),
    ],
    "others": [("kmeans", "root"), ("conf", "root")],
}
COLOURS = {
    "cut": "C0",
    "diff": "C1",
    "spec": "C2",
    "hung": "C0",
    "obyo": "C1",
    "ward": "C2",
    "kmeans": "C0",
    "conf": "C1",
}
MARKERS = "osv"
TITLES = {"accuracy": "accuracy", "nll": "mean of -ln P (nats)"}


class Curves:
    """Means and deviations over the splits, by depth."""

    def __init__(self, path):
        self.found = {}
        for result in read_results(path)["results"]:
            case = result["case"]
            key = (case["figure"], case["section"], case["builder"], case["option"])
            self.found.setdefault(key, []).append(result["figures"])

    def sections(self):
        return sorted({key[1] for key in self.found if key[0] == "depths"})

    def splits(self, figure, sections):
        """How many splits the curves are means of, for a title."""
        found = {
            len(v) for k, v in self.found.items() if k[0] == figure and k[1] in sections
        }
        low, high = min(found), max(found)
        many = f"{low}" if low == high else f"{low} to {high}"
        return f"{many} split{'' if high == 1 else 's'}"

    def curve(self, figure, section, builder, option, field, *, full=True):
        """(depth, products, mean, deviation) over the depths of all splits."""
        splits = self.found.get((figure, section, builder, option), [])
        rows = [
            {
                depth: (figures["dots"][i], figures[field][i])
                for i, depth in enumerate(figures["depth"])
            }
            for figures in splits
        ]
        if not rows:
            return [], np.empty(0), np.empty(0), np.empty(0)
        depths = sorted({d for row in rows for d in row if d != "full"})
        for row in rows:
            # a depth that is not measured is beyond the leaves: the whole tree
            for d in depths:
                row.setdefault(d, row.get("full"))
        depths += ["full"] if full and "full" in rows[0] else []
        values = np.array([[row[d] for row in rows] for d in depths])
        dots, value = values[..., 0], values[..., 1]
        return depths, dots.mean(axis=1), value.mean(axis=1), value.std(axis=1)


def panels(n_rows, n_columns, sharey=False, width=7.2, height=2.3):
    figure, axes = plt.subplots(
        n_rows,
        n_columns,
        figsize=(width, height * n_rows + 0.4),
        layout="constrained",
        squeeze=False,
        sharex=True,
        sharey=sharey,
    )
    for ax in axes.flat:
        ax.grid(alpha=0.3)
    return figure, axes


def draw_section(curves, section, folder):
    fields = list(TITLES)
    # one scale per column, so that the rows can be compared
    figure, axes = panels(len(FAMILIES), len(fields), sharey="col")
    for row, (family, members) in zip(axes, FAMILIES.items()):
        for ax, field in zip(row, fields):
            _, _, flat, _ = curves.curve("depths", section, "flat", "", field)
            if flat.size:
                ax.axhline(flat[0], color="black", lw=1, ls="--", label="flat")
            _, dots, value, _ = curves.curve("depths", section, "rand", "root", field)
            order = np.argsort(dots)
            ax.plot(dots[order], value[order], color="0.6", lw=1, label="rand")
            for i, (builder, option) in enumerate(members):
                _, dots, value, spread = curves.curve(
                    "depths", section, builder, option, field
                )
                order = np.argsort(dots)
                ax.errorbar(
                    dots[order],
                    value[order],
                    yerr=spread[order],
                    marker=MARKERS[i],
                    ms=4,
                    lw=1.2,
                    color=COLOURS[builder],
                    label=builder,
                )
            ax.set_xscale("log")
            ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
            ax.xaxis.set_major_formatter("{x:g}")
            ax.xaxis.set_minor_formatter(NullFormatter())
            ax.set_title(f"{family}: {TITLES[field]}", size=9)
        row[0].legend(fontsize=8, loc="lower right")
    for ax in axes[-1]:
        ax.set_xlabel("products per sample")
    splits = curves.splits("depths", [section])
    save(figure, folder, f"depths_{section}", f"{section}, {splits}")


def draw_options(curves, figure_name, builders, options, labels, folder, title):
    """Accuracy by depth; a row of panels a data set, a column a builder."""
    sections = ("po50", "ws50")
    figure, axes = panels(len(sections), len(builders), sharey="row")
    for row, section in zip(axes, sections):
        for ax, builder in zip(row, builders):
            by_depth(ax, curves, figure_name, section, builder, options, labels)
            ax.set_title(f"{section}, {builder}", size=9)
        row[0].set_ylabel("accuracy")
    axes[0, 0].legend(fontsize=8)
    for ax in axes[-1]:
        ax.set_xlabel("depth")
    splits = curves.splits(figure_name, sections)
    save(figure, folder, f"depths_{figure_name}", f"{title}, {splits}")


def draw_policy(curves, folder):
    sections, options = ("po50", "ws50"), ("single", "indep", "gamma")
    figure, axes = panels(len(TITLES), len(sections))
    for row, field in zip(axes, TITLES):
        for ax, section in zip(row, sections):
            by_depth(
                ax, curves, "policy", section, "cut", options, options, field=field
            )
            ax.set_title(f"{section}: {TITLES[field]}", size=9)
    axes[0, 0].legend(fontsize=8)
    for ax in axes[-1]:
        ax.set_xlabel("depth")
    splits = curves.splits("policy", sections)
    title = f'regularisation of the nodes of a "cut" tree, {splits}'
    save(figure, folder, "depths_policy", title)


def by_depth(ax, curves, name, section, builder, options, labels, field="accuracy"):
    for i, (option, label) in enumerate(zip(options, labels)):
        depths, _, value, spread = curves.curve(
            name, section, builder, option, field, full=False
        )
        # side by side, for the bars would hide each other
        at = np.array(depths, dtype=float) + 0.12 * (i - 1)
        ax.errorbar(at, value, yerr=spread, marker=MARKERS[i], ms=4, lw=1, label=label)
    ax.xaxis.set_major_locator(MaxNLocator(integer=True))


def save(figure, folder, name, title):
    figure.suptitle(title, size=10)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=90)
    plt.close(figure)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    path, folder = map(Path, sys.argv[1:])
    curves = Curves(path)
    for section in curves.sections():
        draw_section(curves, section, folder)
    drawn = {key[0] for key in curves.found}
    if "policy" in drawn:
        draw_policy(curves, folder)
    if "delta" in drawn:
        deltas = (0.001, 1.0, 1000.0)
        labels = [f"δ = {delta:g}" for delta in deltas]
        builders = ("cut", "spec", "hung", "obyo")
        title = "ridge of the proximity"
        draw_options(curves, "delta", builders, deltas, labels, folder, title)
    if "gram" in drawn:
        grams = ("exact", "pooled", "root")
        builders = ("cut", "diff", "spec")
        title = "Gram matrix of a node"
        draw_options(curves, "gram", builders, grams, grams, folder, title)


if __name__ == "__main__":
    main()
