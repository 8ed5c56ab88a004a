"""Searches over lam on WikiText-2: ten fits of clones, with a memory, and a path.

    SKLSTRUCT_DATA=... python benchmarks/bench_searches.py [--case "l2*"]

Order 5, all sentences or the first fifth of them; ten values of lam, from four times to
a quarter of the default of the penalty, for a `LanguageModel` that is cloned for each,
as ``GridSearchCV`` does, and fitted on the same sentences. "cold" has no memory,
"memory" counts the tree once, "path" is one `lam_path`, whose fits start where the last
one ended. Seconds are CPU seconds of the ten, reading the text included; a single fit
is a tenth of "cold". `apart` is how far the objectives of path and cold are apart, at
most, relatively.
"""

from __future__ import annotations

import time

import numpy as np
from _common import main, wikitext
from sklearn.base import clone

from sklstruct import StructuredLogLinearLM
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import FitMemory, lam_path

DEPTH = 4
CENTRE = {"elastic_net": 0.2, "l2": 0.1, "l1": 0.4, "tree_l2": 0.75, "tree_linf": 0.5}


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
    centre = CENTRE[case["penalty"]]
    lams = np.geomspace(4.0 * centre, 0.25 * centre, 10)
    figures, objectives = {}, []
    for name in ("cold", "memory"):
        memory = None if name == "cold" else FitMemory()
        model = StructuredLogLinearLM(penalty=case["penalty"], memory=memory)
        lm = LanguageModel(model, max_depth=DEPTH)
        fits = []
        begin = time.process_time()
        for lam in lams:
            fits.append(clone(lm).set_params(estimator__lam=lam).fit(text).estimator_)
            fits[-1] = fits[-1].objective_[-1], fits[-1].n_iter_
        figures[f"{name}: seconds"] = time.process_time() - begin
        objectives, iterations = zip(*fits)
    figures["cold: iterations"] = sum(iterations)  # those of "memory" are the same
    figures["memory: trees"] = memory.n_counted
    begin = time.process_time()
    lm = LanguageModel(StructuredLogLinearLM(penalty=case["penalty"]), max_depth=DEPTH)
    path = lam_path(lm, text, lams=lams)
    figures["path: seconds"] = time.process_time() - begin
    figures["path: iterations"] = int(path.n_iter.sum())
    single = figures["cold: seconds"] / lams.size
    for name in ("memory", "path"):
        figures[f"{name}: fits"] = figures[f"{name}: seconds"] / single
    figures["single: seconds"] = single
    figures["apart"] = float(np.abs(path.objective / np.array(objectives) - 1.0).max())
    return figures


if __name__ == "__main__":
    main(cases, run)
