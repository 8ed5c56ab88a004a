"""An ARPA file from shards: the client orders and writes the lines of the workers."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from ..exchange._arpa_shards import ArpaPlan
from ..exchange._arpa_write import END, header, section_header
from ._driver import ShardDriver

# Contexts with weights, and lines, of one message: a few MB.
_MOST_WEIGHTS = 1 << 18
_MOST_LINES = 1 << 17


class ArpaWriter:
    """Writes an ARPA file from the lines of the shards; the model stays on the workers.

    Parameters
    ----------
    driver : ShardDriver
        Its fits have ended.

    plan : ArpaPlan
        The file.
    """

    def __init__(self, driver: ShardDriver, plan: ArpaPlan) -> None:
        self._driver, self._plan = driver, plan
        found = driver.ask_all("begin_arpa", plan)
        self._sizes = [sizes for sizes, _ in found]
        self._listed = np.concatenate([listed for _, listed in found])
        self._never = [listed.size for _, listed in found]
        self._waiting = set(range(driver.n_shards))  # shards that lack weights
        self._exchange()

    # A restored shard starts from the beginning, without the weights of other shards.
    # Only its lines need them.

    def _again(self, k):
        self._waiting.add(k)
        self._driver.ask(k, "begin_arpa", self._plan, again=self._waiting.add)

    def _again_with_weights(self, k):
        self._again(k)
        self._exchange()

    def _exchange(self):
        """Send the weights of contexts to the shards that lack them."""
        while self._waiting:
            into = sorted(self._waiting)
            self._waiting.clear()
            for k in into:
                self._driver.ask(k, "arpa", "take_own", again=self._again)
            # Each shard sends to one other and receives from one other at a time.
            for shift in range(1, self._driver.n_shards):
                for level in range(1, self._plan.order):
                    self._pass_on(into, shift, level)

    def _pass_on(self, into, shift, level):
        driver, at = self._driver, 0
        while into:
            asked = [
                ((k + shift) % driver.n_shards, "arpa", "weights_for", k, level, at)
                for k in into
            ]
            calls = [driver.begin(*question, _MOST_WEIGHTS) for question in asked]
            left = []
            for k, question, call in zip(into, asked, calls):
                rows, weights = driver.ask(
                    *question, _MOST_WEIGHTS, call=call, again=self._again
                )
                if not weights.size:
                    continue
                driver.ask(k, "arpa", "take", rows, weights, again=self._again)
                if weights.size == _MOST_WEIGHTS:
                    left.append(k)
            into = left
            at += _MOST_WEIGHTS

    def put(self, file: Any) -> None:
        """Write the file."""
        n_marks, marks = self._plan.lines_of_marks(self._listed)
        counts = [sum(sizes) for sizes in zip(*self._sizes)]
        counts[0] += self._listed.size + n_marks
        file.write(header(counts))
        for order in range(1, self._plan.order + 1):
            file.write(section_header(order))
            for lines in self._lines(order):
                file.write(lines)
            if order == 1:
                for k in np.flatnonzero(self._never).tolist():
                    file.write(self._ask(k, "lines_never_predicted"))
                file.write(marks)
            file.write(b"\n")
        file.write(END)

    def _ask(self, k, *question, call=None):
        return self._driver.ask(
            k, "arpa", *question, call=call, again=self._again_with_weights
        )

    def _lines(self, order) -> Iterator[bytes]:
        """The lines of one shard after the other; the next ones are made meanwhile."""
        waiting: deque = deque()
        for k, sizes in enumerate(self._sizes):
            size = sizes[order - 1]
            for start in range(0, size, _MOST_LINES):
                question = "lines", order, start, min(start + _MOST_LINES, size)
                call = self._driver.begin(k, "arpa", *question)
                waiting.append((k, question, call))
                if len(waiting) > 2:
                    k_first, question, call = waiting.popleft()
                    yield self._ask(k_first, *question, call=call)
        for k, question, call in waiting:
            yield self._ask(k, *question, call=call)
