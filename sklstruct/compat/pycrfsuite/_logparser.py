"""Messages of a `Trainer`: lines, the events that they belong to, and figures."""

from __future__ import annotations

from typing import Any, NamedTuple


class LabelScore(NamedTuple):
    """How often a label was found, on held-out data; None if it does not occur."""

    match: int
    model: int
    ref: int
    precision: float | None
    recall: float | None
    f1: float | None


class TrainLogParser:
    """The lines of a training by events. The name is that of python-crfsuite.

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

    featgen_seconds, training_seconds, storing_seconds : float or None
        Duration of each part, when the part has ended.
    """

    def __init__(self) -> None:
        self.log: list[str] = []
        self.events: list[tuple[str, int, int]] = []
        self.iterations: list[dict[str, Any]] = []
        self.last_iteration: dict[str, Any] | None = None
        self.featgen_seconds: float | None = None
        self.training_seconds: float | None = None
        self.storing_seconds: float | None = None

    @property
    def last_log(self) -> str:
        """The lines of the last event."""
        _, start, end = self.events[-1]
        return "".join(self.log[start:end])

    def end_event(self, name: str, figures: dict[str, Any]) -> None:
        """Give the lines since the last event to this one, and keep its figures."""
        start = self.events[-1][2] if self.events else 0
        self.events.append((name, start, len(self.log)))
        if name == "iteration":
            self.last_iteration = figures
            self.iterations.append(figures)
        else:
            vars(self).update(figures)
