"""Test suites of libraries, with our classifiers in the place of scikit-learn's.

    ANNIF_SOURCE=... python benchmarks/bench_suites.py --peer annif --out FILE

The suite of Annif's backend `svc` runs with the tests of its repository, a checkout of
which `ANNIF_SOURCE` names. `LinearSVC` in it is replaced by a `LinearClassifier`
(`flat`), by a `HierarchicalClassifier` (`tree`), and by nothing (`LinearSVC`). Figures:
the `version`, the numbers of tests that `passed` and `failed`.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from importlib import metadata
from pathlib import Path

from _common import main

MODELS = {
    "LinearSVC": None,
    "flat": "sklstruct.linear.LinearClassifier",
    "tree": "sklstruct.HierarchicalClassifier",
}
PLUGIN = """
from importlib import import_module

import annif.backend.svc as backend

folder, _, name = {model!r}.rpartition(".")
model = getattr(import_module(folder), name)
backend.LinearSVC = lambda **options: model(random_state=0)
"""


def cases():
    return [{"suite": "annif", "model": model, "needs": "annif"} for model in MODELS]


def run(case):
    source = os.environ.get("ANNIF_SOURCE") or sys.exit("set ANNIF_SOURCE")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    with tempfile.TemporaryDirectory() as folder:
        paths = [folder, *filter(None, [os.environ.get("PYTHONPATH")])]
        if MODELS[case["model"]]:
            text = PLUGIN.format(model=MODELS[case["model"]])
            Path(folder, "in_its_place.py").write_text(text)
            command += ["-p", "in_its_place"]
        done = subprocess.run(
            [*command, "tests/test_backend_svc.py"],
            cwd=source,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths)},
            capture_output=True,
            text=True,
        )
    print(done.stdout[-2000:], file=sys.stderr)
    counts = {
        what: int(number)
        for number, what in re.findall(r"(\d+) (passed|failed)", done.stdout)
    }
    if not counts:
        raise RuntimeError(done.stderr[-2000:])
    return {
        "version": metadata.version("annif"),
        "passed": counts.get("passed", 0),
        "failed": counts.get("failed", 0),
    }


if __name__ == "__main__":
    main(cases, run, peers=("annif",))
