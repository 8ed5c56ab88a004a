"""The picture of the tree_linf operator against length and depth of a text.

python benchmarks/draw_prox.py RESULTS.json PICTURE.png
"""

from __future__ import annotations

import sys
from pathlib import Path

from _common import STYLE, read_results

CURVES = {
    ("trie", "pivot_milliseconds"): ("random pivots, trie", "C1", "--"),
    ("collapsed", "pivot_milliseconds"): ("random pivots, collapsed", "C1", "-"),
    ("trie", "milliseconds"): ("sklstruct, trie", "C0", "--"),
    ("collapsed", "milliseconds"): ("sklstruct, collapsed", "C0", "-"),
}
PANELS = {
    "length": ("words", "words of the text"),
    "depth": ("depth", "words of the longest context"),
}


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.style.use(STYLE)

    results = read_results(Path(sys.argv[1]))["results"]
    sections = {result["case"]["section"] for result in results}
    panels = {name: panel for name, panel in PANELS.items() if name in sections}
    if not panels:
        raise SystemExit(f"{sys.argv[1]} has no results of {' or '.join(PANELS)}")
    # Few inches, one panel below the other: the letters stay readable on a telephone.
    figure, axes = plt.subplots(
        len(panels), 1, figsize=(5.4, 3.6 * len(panels)), sharey=True, squeeze=False,
        layout="constrained",
    )  # fmt: skip
    for axis, (section, (key, label)) in zip(axes[:, 0], panels.items()):
        for (tree, field), (name, colour, line) in CURVES.items():
            points = sorted(
                (result["case"][key], result["figures"][field])
                for result in results
                if result["case"]["section"] == section
                and result["case"]["tree"] == tree
                and field in result["figures"]
            )
            if points:
                axis.loglog(
                    *zip(*points), line, marker="o", ms=4, color=colour, label=name
                )
        if section == "depth":
            axis.set_xscale("linear")
        axis.set_xlabel(label, fontsize=12)
        axis.set_ylabel("milliseconds of a step", fontsize=12)
        axis.tick_params(labelsize=11)
        axis.grid(alpha=0.3)
    handles = axes[0, 0].get_legend_handles_labels()
    figure.legend(*handles, fontsize=11, loc="outside upper center", ncols=2)
    figure.savefig(sys.argv[2], dpi=150)


if __name__ == "__main__":
    main()
