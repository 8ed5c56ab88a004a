"""Training of conditional random fields beside CRFsuite, by strength of penalties.

Universal tags of three tree banks: English (ud-english-ewt), Turkish (ud-turkish-imst)
and Finnish (ud-finnish-tdt, of which the development part is learned from), the last
two as UD names its files. The first 200 sentences are learned from, 500 of the test
part are tagged; 19 names of features per word.

- peer_seconds: CRFsuite (L-BFGS, or OWL-QN with c1) from lists of names to its own end,
  peer_objective: its objective there;
- seconds, iterations: ours from lists of names until the objective is not above that;
  ratio: of the two times;
- stop_seconds, stop_excess, gap: ours to its default end, the objective less
  CRFsuite's, and the bound of its distance from the minimum, in nats per word;
- accuracy, peer_accuracy: of the test words, each at its own end.

Times are CPU.
"""

from __future__ import annotations

import contextlib
import tempfile
import time
import warnings
from functools import cache
from pathlib import Path

import numpy as np
from _common import data_folder, ewt, main
from sklearn.exceptions import ConvergenceWarning

from sklstruct.datasets import read_conll
from sklstruct.factor_graph import ConditionalRandomField

STRENGTHS = (0.0, 0.01, 0.1, 1.0)
BANKS = {
    "Turkish": ("ud-turkish-imst", "*-ud-train.conllu", "*-ud-test.conllu"),
    "Finnish": ("ud-finnish-tdt", "*-ud-dev.conllu", "*-ud-test.conllu"),
}


def cases():
    return [
        {"bank": bank, "c1": c1, "c2": c2, "needs": "python-crfsuite"}
        | ({} if bank == "English" and {c1, c2} <= {0.0, 0.1} else {"slow": True})
        for bank in ("English", *BANKS)
        for c1 in STRENGTHS
        for c2 in STRENGTHS
    ]


def features(words):
    around = ["<s>", "<s>", *words, "</s>", "</s>"]
    out = []
    for i, word in enumerate(words, 2):
        b, a, _, c, d = around[i - 2 : i + 3]
        out.append([
            "bias", f"w={word}", f"w-1={a}", f"w-2={b}", f"w+1={c}", f"w+2={d}",
            *(f"p{n}={word[:n]}" for n in (1, 2, 3)),
            *(f"s{n}={word[-n:]}" for n in (1, 2, 3, 4)),
            f"upper={word[0].isupper()}", f"digit={any(map(str.isdigit, word))}",
            f"s-1={a[-3:]}", f"s+1={c[-3:]}", f"w-1,0={a}|{word}", f"w0,1={word}|{c}",
        ])  # fmt: skip
    return out


@cache
def sentences(bank, part, n):
    if bank == "English":
        found = ewt(("train", "test")[part])
    else:
        folder, *names = BANKS[bank]
        (path,) = data_folder(folder).glob(names[part])
        found = read_conll(path)
    return [*map(features, found.form[:n])], found.upos[:n]


class Reached(Exception):
    """The objective is that of the peer."""


class Watched(ConditionalRandomField):
    """Ends at an objective."""

    def _after_iteration(self, set_model, objective):
        if objective[-1] <= self.wanted:
            self.iterations = len(objective) - 1
            raise Reached


def run(case):
    import pycrfsuite

    X, y = sentences(case["bank"], 0, 200)
    test, truth = sentences(case["bank"], 1, 500)
    c1, c2 = case["c1"], case["c2"]
    flat = [label for row in truth for label in row]
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model")
        start = time.process_time()
        trainer = pycrfsuite.Trainer(verbose=False)
        for a, b in zip(X, y):
            trainer.append(a, b)
        trainer.set_params({"c1": c1, "c2": c2, "max_iterations": 5000})
        trainer.train(path)
        peer_seconds = time.process_time() - start
        objective = trainer.logparser.last_iteration["loss"]
        tagger = pycrfsuite.Tagger()
        tagger.open(path)
        peer = [label for row in test for label in tagger.tag(row)]
    watched = Watched(c1, c2, tol=0.0, max_iter=5000)
    watched.wanted, watched.iterations = objective, float("nan")
    start = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        with contextlib.suppress(Reached):
            watched.fit(X, y)
        seconds = time.process_time() - start
        start = time.process_time()
        model = ConditionalRandomField(c1, c2).fit(X, y)
        stop_seconds = time.process_time() - start
    found = [label for row in model.predict(test) for label in row]
    n = sum(map(len, X))
    return {
        "peer_seconds": peer_seconds,
        "peer_objective": objective,
        "seconds": seconds,
        "iterations": watched.iterations,
        "ratio": seconds / peer_seconds,
        "stop_seconds": stop_seconds,
        "stop_excess": (model.objective_[-1] - objective) / n,
        "gap": model.gap_ / n,
        "accuracy": float(np.mean([a == b for a, b in zip(found, flat)])),
        "peer_accuracy": float(np.mean([a == b for a, b in zip(peer, flat)])),
    }


if __name__ == "__main__":
    main(cases, run, peers=("python-crfsuite",))
