"""The picture of perplexity by order, from the results of bench_orders.py.

python benchmarks/plot_orders.py RESULTS.json PICTURE.png
"""

from __future__ import annotations

import sys
from pathlib import Path

from _common import STYLE, read_results

COLOURS = {"l1": "C0", "l2": "C1", "tree_l2": "C2", "tree_linf": "C3"}


def series(results, section, field, **having):
    """(orders, values) of the results of one curve."""
    points = sorted(
        (result["case"]["order"], result["figures"][field])
        for result in results
        if result["case"]["section"] == section
        and all(result["case"].get(key) == value for key, value in having.items())
    )
    return [order for order, _ in points], [value for _, value in points]


def main():
    if len(sys.argv) != 3:
        raise SystemExit(__doc__)
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.style.use(STYLE)
    results = read_results(Path(sys.argv[1]))["results"]
    figure, axes = plt.subplots(1, 3, figsize=(13, 4.6), layout="constrained")
    for axis, prefix in zip(axes, ("", "weighted ")):
        for penalty, colour in COLOURS.items():
            points = series(results, "orders", "test", model=prefix + penalty)
            axis.plot(*points, marker="o", ms=3, color=colour, label=penalty)
        for name, style in (("Kneser-Ney", "--"), ("modified Kneser-Ney", "-")):
            points = series(results, "orders", "test", model=name)
            axis.plot(*points, style, color="0.3", label=name)
        axis.set(xlabel="order (words)", ylabel="test perplexity")
        axis.set_title("weighted by depth" if prefix else "unweighted")
        axis.grid(axis="y", alpha=0.3)
    axes[1].sharey(axes[0])
    axes[0].autoscale()
    for field, label in (("trie_pairs", "trie"), ("tree_pairs", "collapsed tree")):
        orders, pairs = series(results, "sizes", field)
        axes[2].plot(orders, [n / 1e3 for n in pairs], marker="o", ms=3, label=label)
    axes[2].set(xlabel="order (words)", ylabel="(context, word) pairs, thousands")
    axes[2].set_title("size of the model")
    axes[2].set_ylim(bottom=0)
    axes[2].grid(axis="y", alpha=0.3)
    for axis in axes[1:]:
        axis.legend(
            loc="upper center", bbox_to_anchor=(0.5, -0.14), ncol=3, frameon=False
        )
    figure.savefig(sys.argv[2], dpi=110)


if __name__ == "__main__":
    main()
