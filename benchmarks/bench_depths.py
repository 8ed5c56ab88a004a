"""Accuracy, log-loss and cost by depth: figures 4.3 to 4.7, C.1 and C.2 of the thesis.

    SKLSTRUCT_DATA=... python benchmarks/bench_depths.py --case "depths ws50" --out FILE
    python benchmarks/draw_depths.py FILE FOLDER

A case is a figure, a data set, a builder, an option and a split; its figures are lists,
one entry per depth. Depth 0 is the flat `LogisticRegression` of scikit-learn ("flat")
or the flat tree. C is chosen for every model from the same grid by validation log-loss.

- ``depths`` (figures 4.3, 4.5 to 4.7): every builder, the tree cut at each depth, from
  the root; those that merge also in ``rounds`` (algorithm 9 of the thesis: what is left
  after so many rounds stands below the root).
- ``policy`` (figure 4.4): the regularisation of the nodes, by depth. "single" is
  chosen by validation, the others choose their numbers themselves, by cross-validation.
- ``delta`` (figure C.1): the ridge of the proximity.
- ``gram`` (figure C.2): where the Gram matrix of a node comes from, its own samples
  ("exact") or an approximation.

Numbers are those of the test samples: mean and median of -ln P of the true class in
nats, average products with a weight vector, CPU seconds to build the tree, to fit the
nodes, and to predict all test samples. Run it with OMP_NUM_THREADS=1 and
OPENBLAS_NUM_THREADS=1.
"""

import time

from _common import main
from _many_classes import (
    GRID,
    GRIDS,
    SECTIONS,
    default_node,
    fit,
    measure,
    parts_of,
)
from sklearn.linear_model import LogisticRegression

from sklstruct.hierarchical import GammaPrior, HierarchicalClassifier, PerNodeC
from sklstruct.taxonomy import TAXONOMY_BUILDERS

SMALL = ("ws50", "po50", "letter", "leaves100")
DEPTHS = [1, 2, 3, 4, 5, 6, 8]
N_SPLITS = 3
SEARCHES = {"single": None, "indep": PerNodeC(), "gamma": GammaPrior()}
BOTTOM_UP = ("hung", "obyo", "ward")


def cases():
    chosen = [("depths", s, "flat", "") for s in SECTIONS]
    chosen += [
        ("depths", section, builder, option)
        for section in SECTIONS
        for builder in TAXONOMY_BUILDERS
        for option in ("root", "rounds")
        if option == "root" or builder in BOTTOM_UP
    ]
    for section in ("po50", "ws50"):
        chosen += [
            ("policy", section, "cut", policy)
            for policy in ("single", "indep", "gamma")
        ]
        chosen += [
            ("delta", section, builder, delta)
            for builder in ("cut", "spec", "hung", "obyo")
            for delta in (0.001, 1.0, 1000.0)
        ]
        chosen += [
            ("gram", section, builder, gram)
            for builder in ("cut", "diff", "spec")
            for gram in ("exact", "pooled", "root")
        ]
    return [
        {
            "figure": figure,
            "section": section,
            "builder": builder,
            "option": option,
            "split": split,
        }
        | ({} if section in SMALL else {"slow": True})
        for split in range(N_SPLITS)
        for figure, section, builder, option in chosen
    ]


def run(case):
    figure, section, name = case["figure"], case["section"], case["builder"]
    parts = parts_of(section, case["split"])
    X, y = parts[0]
    grid = GRIDS.get(section, GRID)
    if name == "flat":
        fitted = ((C, *fit(LogisticRegression(C=C, max_iter=1000), X, y)) for C in grid)
        return by_depth([{"depth": 0, "build": 0.0} | measure(fitted, parts)])
    builder = TAXONOMY_BUILDERS[name]()
    if "random_state" in builder.get_params():
        builder.set_params(random_state=0)
    search = None
    if figure in ("delta", "gram"):
        builder.set_params(**{figure: case["option"]})
    elif figure == "policy":
        search = SEARCHES[case["option"]]
        if search is not None:
            grid = (1.0,)

    def at(tree, depth, seconds):
        nodes = ((C, search or default_node(X, C)) for C in grid)
        models = ((C, HierarchicalClassifier(tree, estimator=e)) for C, e in nodes)
        fitted = ((C, *fit(model, X, y)) for C, model in models)
        known = {"depth": depth, "levels": tree.depth, "build": seconds}
        return known | measure(fitted, parts)

    whole, seconds = build(builder, X, y)
    rows = []
    for depth in DEPTHS if figure != "policy" else [0, *DEPTHS]:
        if case["option"] == "rounds":
            tree, again = build(builder.set_params(n_rounds=depth), X, y)
        else:
            tree, again = whole.limit(max_depth=depth), seconds
        if tree == whole:
            break
        rows.append(at(tree, depth, again))
    rows.append(at(whole, "full", seconds))
    return by_depth(rows)


def build(builder, X, y):
    start = time.process_time()
    tree = builder.build(X, y)
    return tree, time.process_time() - start


def by_depth(rows):
    """One list per figure, one entry per depth."""
    return {name: [row[name] for row in rows] for name in rows[0]}


if __name__ == "__main__":
    main(cases, run)
