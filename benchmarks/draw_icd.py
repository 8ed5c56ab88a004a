"""The picture of `bench_icd.py`: blocks of ICD-10-CM that a learned tree finds again.

    python benchmarks/draw_icd.py docs/_static/icd_groups.png

A dot is a block of at least three categories: the largest Jaccard index of its
categories with the classes below a node, for the tree of "cut" and for a random one.
"""

import sys

import matplotlib
import numpy as np
from bench_icd import best_matches, full_tree, groups, texts

matplotlib.use("Agg")
import matplotlib.pyplot as plt

# Two colours that the colour-blind tell apart, and two shapes.
BLUE, ORANGE = "#0072B2", "#D55E00"


def main(target):
    blocks = groups()["block"]
    chapter_of = {block: int(chapter) for chapter, block in texts()[2].values()}
    chapter = np.array([chapter_of[block] for block in blocks])
    number = np.unique(chapter)
    row = np.searchsorted(number, chapter)
    figure, ax = plt.subplots(figsize=(8, 6.5), layout="constrained")
    for name, shift, style in (
        ("cut", -0.18, {"marker": "o", "color": BLUE, "alpha": 0.7}),
        ("rand", 0.18, {"marker": "D", "facecolors": "none", "edgecolors": ORANGE}),
    ):
        jaccard, _ = best_matches(full_tree(name), blocks.values())
        ax.scatter(jaccard, row + shift, s=26, label=name, **style)
        for k in range(number.size):
            mean = jaccard[row == k].mean()
            ax.plot([mean, mean], [k + shift - 0.15, k + shift + 0.15], "k-", lw=2)
    ax.set_yticks(range(number.size), [f"chapter {k}" for k in number])
    ax.invert_yaxis()
    ax.set_xlim(0, 1.03)
    ax.set_xlabel("best Jaccard index of a block with the classes of a node")
    ax.axvline(0.5, color="0.6", lw=1, ls=":")
    ax.grid(axis="x", alpha=0.3)
    title = "builder of the tree (bars: means of the chapters)"
    figure.legend(title=title, loc="outside upper center", ncols=2)
    figure.savefig(target, dpi=110)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
