"""Accuracy, log-loss and cost by depth: the thesis' figures 4.3-4.7, C.1 and C.2.

    SKLSTRUCT_DATA=... python benchmarks/bench_depths.py FILE [SECTION ...]
    python benchmarks/bench_depths.py FILE --report FOLDER

For every builder the tree of each split is built once and cut at each depth; depth 0 is
the flat `LogisticRegression` of scikit-learn. C is chosen for every model from the same
grid by validation log-loss. Every result is appended to FILE (JSON, one a line) as soon
as it is there, and what FILE has already is not measured again. `--report` writes, from
FILE, one picture a section and prints one table a section: for every builder the depth
with the least validation log-loss, and full depth.

Numbers are those of the test samples: mean and median of -ln P of the true class in
nats, average products with a weight vector, seconds to build the tree, to fit the
nodes, and to predict all test samples (best of five). Run it with OMP_NUM_THREADS=1 and
OPENBLAS_NUM_THREADS=1.
"""

import argparse
import json
import time
import warnings
from pathlib import Path

import numpy as np
from _common import machine
from _many_classes import GRID, SECTIONS, fit, flat, measure
from sklearn.exceptions import ConvergenceWarning

from sklstruct import HierarchicalClassifier
from sklstruct.taxonomy import TAXONOMY_BUILDERS

FULL = "full"
KEYS = ("section", "builder", "depth", "split")


def read(path):
    if not path.exists():
        return {}
    records = [json.loads(line) for line in path.read_text().splitlines()]
    return {tuple(r[k] for k in KEYS): r for r in records}


def make_builder(name):
    make = TAXONOMY_BUILDERS[name]
    seeded = "random_state" in make().get_params()
    return make(random_state=0) if seeded else make()


def run(section, args, done):
    def write(key, values):
        record = dict(zip(KEYS, key)) | {k: float(v) for k, v in values.items()}
        done[key] = record
        with args.file.open("a") as out:
            out.write(json.dumps(record) + "\n")

    for split in args.splits:
        parts = SECTIONS[section](split)
        (X, y), _, _ = parts
        key = (section, "flat", 0, split)
        if key not in done and not args.no_flat:
            fitted = (
                (C, *flat(section, split, parts, C, folder=args.keep))
                for C in args.flat_grid or args.grid
            )
            write(key, measure(fitted, parts) | {"build": 0})
            print(*key, f"accuracy {done[key]['accuracy']:.4f}", flush=True)
        for name in args.builders:
            missing = [d for d in args.depths if (section, name, d, split) not in done]
            if not missing:
                continue
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                start = time.perf_counter()
                tree = make_builder(name).build(X, y)
                build = time.perf_counter() - start
            whole = None
            # the deepest first: a cut below the leaves is the whole tree
            for depth in sorted(missing, key=lambda d: -np.inf if d == FULL else -d):
                if depth != FULL and depth >= tree.depth and whole:
                    values = whole
                else:
                    part = tree if depth == FULL else tree.cut(depth)
                    values = measure(
                        (
                            (C, *fit(HierarchicalClassifier(part, C=C), X, y))
                            for C in args.grid
                        ),
                        parts,
                    ) | {"build": build, "levels": part.depth}
                if depth == FULL or depth >= tree.depth:
                    whole = values
                key = (section, name, depth, split)
                write(key, values)
                print(*key, f"accuracy {done[key]['accuracy']:.4f}", flush=True)


def series(done, section, name):
    """depth -> list of records of the splits, flat first and full depth last."""
    found = {}
    for (s, builder, depth, _), record in sorted(
        done.items(), key=lambda item: (item[0][2] == FULL, str(item[0]))
    ):
        if s == section and builder == name:
            found.setdefault(depth, []).append(record)
    return found


def mean(records, field):
    return float(np.mean([r[field] for r in records]))


def spread(records, field):
    return float(np.std([r[field] for r in records]))


def report(section, done, folder):
    import matplotlib.pyplot as plt
    from matplotlib.ticker import LogLocator, NullFormatter

    base = series(done, section, "flat").get(0)
    names = [n for n in TAXONOMY_BUILDERS if series(done, section, n)]
    print(f"\n{section}")
    print(
        f"{'model':18} {'accuracy':>15} {'nll':>15} {'median':>7} {'products':>8} "
        f"{'build s':>8} {'fit s':>8} {'predict ms':>10}"
    )

    def line(label, records):
        both = " ".join(
            f"{mean(records, field):7.4f} ±{spread(records, field):.4f}"
            for field in ("accuracy", "nll")
        )
        print(
            f"{label:18} {both} "
            f"{mean(records, 'median'):7.4f} {mean(records, 'dots'):8.1f} "
            f"{mean(records, 'build'):8.3f} {mean(records, 'fit'):8.3f} "
            f"{1e3 * mean(records, 'predict'):10.2f}  ({len(records)} splits)"
        )

    if base:
        line("flat", base)
    figure, axes = plt.subplots(1, 3, figsize=(12.5, 3.9), layout="constrained")
    for i, name in enumerate(names):
        found = series(done, section, name)
        for depth, records in found.items():
            if depth == FULL or depth in (1, 2, 4):
                line(f"{name} {depth}", records)
        # a mean over fewer splits is not a point of the same curve
        n_splits = max(len(records) for records in found.values())
        order = [d for d in found if len(found[d]) == n_splits]
        order.sort(key=lambda d: mean(found[d], "dots"))
        dots = [mean(found[d], "dots") for d in order]
        for ax, field in zip(axes, ("accuracy", "nll", "median")):
            ax.errorbar(
                dots,
                [mean(found[d], field) for d in order],
                yerr=[spread(found[d], field) for d in order],
                marker="osv^D<>pP"[i % 9],
                ms=4,
                lw=1.1,
                color=plt.colormaps["tab10"](i),
                label=name,
            )
    for ax, field, title in zip(
        axes,
        ("accuracy", "nll", "median"),
        ("accuracy", "mean -ln P (nats)", "median -ln P (nats)"),
    ):
        if base:
            ax.axhline(mean(base, field), color="black", lw=1, ls="--", label="flat")
        ax.set_xscale("log")
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter("{x:g}")
        ax.xaxis.set_minor_formatter(NullFormatter())
        ax.set_xlabel("products per sample")
        ax.set_title(title, size=10)
        ax.grid(alpha=0.3)
    axes[0].legend(fontsize=7, ncols=2)
    figure.suptitle(section)
    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"depths_{section}.png", dpi=80)
    plt.close(figure)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("file", type=Path, help="of results, appended to")
    parser.add_argument("sections", nargs="*", metavar="section")
    parser.add_argument("--builders", nargs="*", default=list(TAXONOMY_BUILDERS))
    parser.add_argument(
        "--depths",
        nargs="+",
        type=lambda s: s if s == FULL else int(s),
        default=[*range(1, 9), FULL],
    )
    parser.add_argument("--splits", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--grid", nargs="+", type=float, default=list(GRID))
    parser.add_argument("--flat-grid", nargs="+", type=float)
    parser.add_argument("--no-flat", action="store_true")
    parser.add_argument("--keep", metavar="FOLDER", help="of fitted flat models")
    parser.add_argument("--report", type=Path, metavar="FOLDER", help="of pictures")
    args = parser.parse_args()
    unknown = set(args.sections) - set(SECTIONS)
    if unknown:
        parser.error(f"no section {sorted(unknown)}; there are {list(SECTIONS)}")
    print(machine())
    done = read(args.file)
    for section in args.sections:
        run(section, args, done)
    if args.report:
        for section in SECTIONS:
            if any(key[0] == section for key in done):
                report(section, done, args.report)


if __name__ == "__main__":
    main()
