"""Reader of the lines that CRFsuite, or our `Trainer`, writes while it trains."""

from __future__ import annotations

import re
from fractions import Fraction
from typing import Any, NamedTuple

_HEAD = re.compile(r"\*{5} (?:Iteration|Epoch) #(\d+) \*{5}\n")
_SECONDS = re.compile(r"Seconds required: ([\d.]+)")
_TOTAL = re.compile(r"Total seconds required for training: ([\d.]+)")
_N_FEATURES = re.compile(r"Number of features: (\d+)")
_VALUES = [
    (key, re.compile(rf"{text}: ({number})"), kind)
    for key, text, number, kind in (
        ("loss", "Loss", r"\d+\.\d+", float),
        ("feature_norm", "Feature norm", r"\d+\.\d+", float),
        ("error_norm", "Error norm", r"\d+\.\d+", float),
        ("active_features", "Active features", r"\d+", int),
        ("linesearch_trials", "Line search trials", r"\d+", int),
        ("linesearch_step", "Line search step", r"\d+\.\d+", float),
        ("time", "Seconds required for this iteration", r"\d+\.\d+", float),
    )
]
_AVERAGES = re.compile(
    r"Macro-average precision, recall, F1: \(([\d.]+), ([\d.]+), ([\d.]+)\)"
)
_ACCURACY = re.compile(r"(Item|Instance) accuracy: (\d+) / (\d+)")
_LABEL = re.compile(
    r" {4}(.+): \((\d+), (\d+), (\d+)\) \(([\d.*]+), ([\d.*]+), ([\d.*]+)\)"
)
# Lines that `Feature generation` prints, piece by piece.
_PIECES = {".", *map(str, range(11))}


class LabelScore(NamedTuple):
    """How often a label was found, on held-out data; None if it does not occur."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


class TrainLogParser:
    """Reads the lines of a training, one call of `feed` for each.

    Attributes
    ----------
    log : list of str
        All lines.

    events : list of (str, int, int)
        Each event with its first line and the end of its lines in `log`.

    iterations : list of dict
        Figures of each iteration: ``num``, ``loss``, ``time``, ``scores`` ...

    last_iteration : dict or None
        The last of them.

    featgen_percent, featgen_num_features, featgen_seconds : int, int, float
        Of the generation of features.

    training_seconds, storing_seconds : float
        Of the two parts after it.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.featgen_percent = -2
        self.featgen_num_features: int | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None
        self._read = self._starting

    @property
    def last_log(self) -> str:
        """The lines of the last event."""
        _, start, end = self.events[-1]
        return "".join(self.log[start:end])

    def feed(self, line: str) -> str | None:
        """The event that ends with this line, if one does."""
        self.log.append(line)
        event = self._read(line)
        if len(self.log) == 1:
            event = "start"
        if event is not None:
            end = len(self.log)
            if event in ("prepared", "optimization_end"):
                end -= 1  # the line begins what comes next
            self.events.append((event, self.events[-1][2] if self.events else 0, end))
        return event

    # One method for each part of the training; it sets the method of the next part.

    def _starting(self, line: str) -> str | None:
        if line.startswith("Feature generation"):
            self._read = self._features
        return None

    def _features(self, line: str) -> str | None:
        if line in _PIECES:
            self.featgen_percent += 2
            return "featgen_progress"
        if found := _N_FEATURES.match(line):
            self.featgen_num_features = int(found[1])
        if found := _SECONDS.match(line):
            self.featgen_seconds = float(found[1])
            self._read = self._preparing
            return "featgen_end"
        return None

    def _preparing(self, line: str) -> str | None:
        if self._begins_iteration(line):
            return "prepared"
        if "terminated with error" in line:
            self._read = self._between
            return "prepare_error"
        return None

    def _begins_iteration(self, line: str) -> bool:
        found = _HEAD.match(line)
        if found:
            self.last_iteration = {"num": int(found[1]), "scores": {}}
            self.iterations.append(self.last_iteration)
            self._read = self._iteration
        return bool(found)

    def _iteration(self, line: str) -> str | None:
        if line == "\n":
            self._read = self._between
            return "iteration"
        info = self.last_iteration
        assert info is not None
        for key, pattern, kind in _VALUES:
            if found := pattern.match(line):
                info[key] = kind(found[1])
        if found := _AVERAGES.match(line):
            for key, number in zip(("precision", "recall", "f1"), found.groups()):
                info[f"avg_{key}"] = float(number)
        if found := _ACCURACY.match(line):
            key = f"{found[1].lower()}_accuracy"
            info[key] = Fraction(int(found[2]), int(found[3]))
            info[f"{key}_float"] = float(info[key])
        if found := _LABEL.match(line):
            label, *numbers = found.groups()
            counts = map(int, numbers[:3])
            shares = (None if "*" in s else float(s) for s in numbers[3:])
            info["scores"][label] = LabelScore(*counts, *shares)
        return None

    def _between(self, line: str) -> str | None:
        if self._begins_iteration(line):
            return None
        if found := _TOTAL.match(line):
            self.training_seconds = float(found[1])
        if line.startswith("Storing the model"):
            self._read = self._storing
            return "optimization_end"
        return None

    def _storing(self, line: str) -> str | None:
        if found := _SECONDS.match(line):
            self.storing_seconds = float(found[1])
        return "end" if line == "\n" else None
