"""Searches over lam on WikiText-2: ten fits of clones, with a memory, and a path.

    SKLSTRUCT_DATA=... python benchmarks/bench_searches.py [--case "l2*"]

Order 5, all sentences or the first fifth of them; ten values of lam, from four times to
a quarter of the default of the penalty, for a `LanguageModel` that is cloned for each,
as ``GridSearchCV`` does, and fitted on the same sentences. "cold" has no memory,
"memory" counts the tree once, "path" is one `lam_path`, whose fits start where the last
one ended. Cold fits and fits with a memory are made in turns. Seconds are CPU seconds
of the ten, reading the text included; a single fit is a tenth of "cold". `apart` is how
far the objectives of path and cold are apart, at most, relatively.
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
    memory = FitMemory()
    searches = {
        name: LanguageModel(
            StructuredLogLinearLM(penalty=case["penalty"], memory=kept), max_depth=DEPTH
        )
        for name, kept in (("cold", None), ("memory", memory))
    }
    seconds = dict.fromkeys(searches, 0.0)
    objectives, iterations = [], 0
    for lam in lams:  # in turns, so that both see the same neighbours
        for name, lm in searches.items():
            begin = time.process_time()
            fit = clone(lm).set_params(estimator__lam=lam).fit(text).estimator_
            seconds[name] += time.process_time() - begin
        objectives.append(fit.objective_[-1])  # both fits are the same
        iterations += fit.n_iter_
        del fit
    figures = {f"{name}: seconds": spent for name, spent in seconds.items()}
    figures["cold: iterations"] = iterations
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
