"""Searches over lam on WikiText-2: ten fits of clones, and a path.

    SKLSTRUCT_DATA=... python benchmarks/bench_searches.py [--case "l2*"]

Order 5, all sentences or the first fifth of them; ten values of lam, from four times to
a quarter of the default of the penalty, for a `LanguageModel` that is cloned for each,
as ``GridSearchCV`` does, and fitted on the same sentences: "cold". "path" is one
`lam_path`, whose fits start where the last one ended. Seconds are CPU seconds of the
ten, reading the text included; a single fit is a tenth of "cold". `apart` is how far
the objectives of path and cold are apart, at most, relatively.
"""

from __future__ import annotations

import time

import numpy as np
from _common import main, wikitext
from sklearn.base import clone

from sklstruct import StructuredLogLinearLM
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import lam_path

DEPTH = 4
# The strength in the middle, and alpha.
CENTRE = {
    "elastic_net": (0.2, 1.0),
    "l2": (0.1, 0.7),
    "l1": (0.4, 0.8),
    "tree_l2": (0.75, 1.2),
    "tree_linf": (0.5, 0.9),
}


def cases():
    out = [{"penalty": name, "text": "a fifth"} for name in CENTRE]
    out += [
        {"penalty": name, "text": "all", "slow": True} for name in ("elastic_net", "l2")
    ]
    return out


def run(case):
    text = wikitext("train")
    if case["text"] == "a fifth":
        text = text[: len(text) // 5]
    centre, alpha = CENTRE[case["penalty"]]
    lams = np.geomspace(4.0 * centre, 0.25 * centre, 10)
    model = StructuredLogLinearLM(penalty=case["penalty"], alpha=alpha)
    lm = LanguageModel(model, max_depth=DEPTH)
    objectives, iterations, begin = [], 0, time.process_time()
    for lam in lams:
        fit = clone(lm).set_params(estimator__lam=lam).fit(text).estimator_
        objectives.append(fit.objective_[-1])
        iterations += fit.n_iter_
        del fit
    figures = {"cold: seconds": time.process_time() - begin}
    figures["cold: iterations"] = iterations
    begin = time.process_time()
    path = lam_path(lm, text, lams=lams)
    figures["path: seconds"] = time.process_time() - begin
    figures["path: iterations"] = int(path.n_iter.sum())
    single = figures["cold: seconds"] / lams.size
    figures["path: fits"] = figures["path: seconds"] / single
    figures["single: seconds"] = single
    figures["apart"] = float(np.abs(path.objective / np.array(objectives) - 1.0).max())
    return figures


if __name__ == "__main__":
    main(cases, run)
