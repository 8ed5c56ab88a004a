"""Back-off models as automata, in the text format of AT&T's and OpenFst's tools.

A state is a context. The arc of the pair (h, y) reads y and leads to the longest suffix
of "h y" that is a context; another arc, which reads nothing, leads from h to its parent
with the back-off weight; the final weight of h is that of the end mark after it. This
is the automaton of Allauzen, Mohri and Roark (2003), which OpenGrm's tools read and
write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from .._warnings import warn
from ..backoff import BackoffModel, close_model
from ..context_tree import find_pairs
from ._arpa_read import Section, build_model
from ._words import MARKS, FileWords, file_words

_LN10 = np.log(10.0)
_CHUNK = 1 << 20
# Number of arcs that are formatted at a time.
_ARCS = 1 << 16
_START, _END = 0, 1
# Tabs and blanks separate fields in OpenFst; other white space belongs to words.
_FIELDS = re.compile("[ \t]+")
_EMPTY = ("<eps>", "<epsilon>")  # names of the label that reads nothing


class AttLine(NamedTuple):
    """An arc (three words) or a final state (one), and its weight, if it has one."""

    number: int
    words: list[str]
    weight: float | None
    output: str | None = None  # of an arc, if it is not the word that is read


def att_lines(file: Any, label: str) -> Iterator[AttLine]:
    """The lines of a file that are not blank."""
    data = b"".join(iter(lambda: file.read(_CHUNK), b""))
    try:
        lines = data.decode("utf-8").split("\n")
    except UnicodeDecodeError as exc:
        raise ValueError(f"{label}: the file is not UTF-8 text: {exc}") from exc
    if lines[-1].strip():
        warn(
            f"{label}: line {len(lines)}: the last line has no line feed; the file may "
            "be cut short"
        )
    found = False
    for number, line in enumerate(lines, start=1):
        line = line.strip(" \t\r")
        if line:
            found = True
            words, text, *output = _fields(_FIELDS.split(line), number, label)
            try:
                weight = None if text is None else float(text)
            except ValueError:
                weight = np.nan
            if weight is not None and not weight > -np.inf:
                raise ValueError(
                    f"{label}: line {number}: the weight {text!r} is not a number"
                )
            yield AttLine(number, words, weight, *output)
    if not found:
        raise ValueError(f"{label}: the file holds no automaton")


def _fields(parts, number, label):
    """(state [state symbol], weight or None, output or None) of the words of a line.

    The last of four fields is an output if it is the input word or the name of an empty
    label, and a weight otherwise; so arcs of words that are numbers should have a
    weight.
    """
    if len(parts) <= 2:
        return parts[:1], parts[1] if len(parts) == 2 else None
    if len(parts) == 3:
        return parts, None
    if len(parts) == 4 and parts[3] in (parts[2], *_EMPTY):
        parts = [*parts, None]
    if len(parts) == 4:
        return parts[:3], parts[3]
    if len(parts) == 5:
        return parts[:3], parts[4], parts[3] if parts[3] != parts[2] else None
    raise ValueError(
        f"{label}: line {number}: not an arc (source target symbol [weight], or source "
        "target input output weight) and not a final state"
    )


# ---------------------------------------------------------------------- writing


Columns = tuple[np.ndarray, ...]


def automaton_of(model: BackoffModel, words: FileWords) -> tuple[Columns, Columns]:
    """(arcs, final states) of the states that some sentence reaches.

    arcs: sources, targets, words and costs, negative natural logarithms. Those of the
    initial state are first, the others are by source, and the arc of a back-off, which
    has the word -1, is the first of its source.
    final states: their numbers and costs.
    """
    end, n_classes = words.special["end"], words.n_classes
    if end >= n_classes:
        raise ValueError(
            "end: the model has no end mark, and an automaton needs final states; fit "
            "it on sentences, or name the symbol that ends them"
        )
    closed = close_model(model, words.class_of_symbol)
    tree = closed.tree
    first = tree.level(min(1, tree.n_levels - 1))
    begins = words.of_symbol[tree.symbol[first]] == words.special["start"]
    found = np.flatnonzero(begins) + first.start if tree.n_levels > 1 else []
    start = int(found[0]) if len(found) else 0

    node = np.repeat(np.arange(tree.n_nodes, dtype=np.int32), np.diff(closed.pair_ptr))
    leads = closed.extension.copy()
    reached = np.zeros(tree.n_nodes, dtype=bool)
    reached[[0, start]] = True
    for k in range(tree.n_levels):  # targets of the level above are known
        here = tree.level(k)
        pairs = slice(int(closed.pair_ptr[here.start]), int(closed.pair_ptr[here.stop]))
        reached[leads[pairs][reached[node[pairs]]]] = True
        if k:
            up = tree.parent[node[pairs]]
            shorter = find_pairs(
                closed.pair_ptr, closed.target, up, closed.target[pairs]
            )
            leads[pairs] = np.where(leads[pairs] > 0, leads[pairs], leads[shorter])
    ends = closed.target == end
    last, arc = (np.flatnonzero(reached[node] & kind) for kind in (ends, ~ends))
    down = np.flatnonzero(reached[1:]) + 1
    source = np.concatenate([down, node[arc]])
    arcs = (
        source,
        np.concatenate([tree.parent[down], leads[arc]]),
        np.concatenate([np.full(down.size, -1), closed.target[arc]]),
        -np.concatenate([closed.log_backoff[down], closed.log_prob[arc]]),
    )
    # The first line belongs to the initial state.
    order = np.argsort(np.where(source == start, -1, source), kind="stable")
    return tuple(column[order] for column in arcs), (node[last], -closed.log_prob[last])


def write_att(
    model: BackoffModel, *, backoff: str = "<epsilon>"
) -> Callable[[Any], None]:
    """See `sklstruct.exchange.write`. Returns a function that writes to a file."""
    words = file_words(model)
    spelt = [word.decode() for word in words.spelling]
    _check_backoff(backoff)
    if backoff in spelt:
        raise ValueError(
            f"backoff={backoff!r} is a word of the model; name another symbol for the "
            "arcs that read nothing"
        )
    spelt.append(backoff)  # word -1
    arcs, finals = automaton_of(model, words)

    def put(file: Any) -> None:
        for at in range(0, arcs[0].size, _ARCS):
            rows = zip(*(column[at : at + _ARCS].tolist() for column in arcs))
            lines = [f"{a}\t{b}\t{spelt[w]}\t{_cost(c)}\n" for a, b, w, c in rows]
            file.write("".join(lines).encode())
        rows = zip(*(column.tolist() for column in finals))
        file.write("".join(f"{a}\t{_cost(c)}\n" for a, c in rows).encode())

    return put


def _cost(value):
    # Infinity: OpenFst's word for a weight of zero.
    return "Infinity" if value == np.inf else f"{value + 0.0:.9g}"


def _check_backoff(backoff):
    if not isinstance(backoff, str) or re.search("[\\s\0]|^$", backoff):
        raise ValueError(f"backoff must be one word, got {backoff!r}")


# ---------------------------------------------------------------------- reading


def read_att(file: Any, label: str, *, backoff: str = "<epsilon>") -> BackoffModel:
    """See `sklstruct.exchange.read`."""
    _check_backoff(backoff)
    return _Reader(file, label, backoff).model()


class _Reader:
    """The states of a file, and the contexts that they represent."""

    def __init__(self, file: Any, label: str, backoff: str) -> None:
        self.label, self.backoff = label, backoff
        self._empty: set[str] = set()  # names of empty labels, read as words
        self.word = {"<s>": _START, "</s>": _END}
        self.names: dict[str, int] = {}
        # Of each state: {word: (target, cost, line)}, (parent, cost) and final cost.
        self.arcs: list[dict[int, tuple[int, float, int]]] = []
        self.lower: list[tuple[int, float] | None] = []
        self.final: dict[int, float] = {}
        for line in att_lines(file, label):
            self._take(line)
        self._set_depths()
        self._set_contexts()

    def fail(self, message: str, line: int | None = None) -> ValueError:
        where = "" if line is None else f"line {line}: "
        return ValueError(f"{self.label}: {where}{message}")

    def _state(self, name):
        if name not in self.names:
            self.names[name] = len(self.names)
            self.arcs.append({})
            self.lower.append(None)
        return self.names[name]

    def _take(self, line):
        cost = line.weight or 0.0
        backs_off = line.words[2:] == [self.backoff]
        if not backs_off:  # back-off weights may be above 1
            if cost < -1e-6:
                raise self.fail(
                    f"the weight {cost:g} is a probability above 1", line.number
                )
            cost = max(cost, 0.0)
        state = self._state(line.words[0])
        if len(line.words) == 1:
            if state in self.final:
                raise self.fail("the state is final twice", line.number)
            self.final[state] = cost
            return
        target, read = self._state(line.words[1]), line.words[2]
        # Arcs of Kaldi's graphs that back off read a special label and write nothing.
        empty = line.output in (*_EMPTY, "0")
        if line.output is not None and not (backs_off and empty):
            hint = ""
            if empty:
                hint = f"; if it backs off, give backoff={read!r}"
            raise self.fail(
                f"not an arc of an acceptor: it reads {read!r} and writes "
                f"{line.output!r}{hint}",
                line.number,
            )
        if backs_off:
            if self.lower[state] is not None:
                raise self.fail("a second back-off arc of this state", line.number)
            if cost == np.inf:
                raise self.fail("a back-off weight of zero", line.number)
            self.lower[state] = (target, cost)
            return
        if read in ("<s>", "</s>"):
            raise self.fail(
                f"an arc reads {read}; the initial state and the final weights stand "
                "for the marks",
                line.number,
            )
        if read in (*_EMPTY, "#0"):
            self._empty.add(read)
        word = self.word.setdefault(read, len(self.word))
        if word in self.arcs[state]:
            raise self.fail(f"a second arc of this state for {read!r}", line.number)
        self.arcs[state][word] = (target, cost, line.number)

    def _set_depths(self):
        roots = [s for s, lower in enumerate(self.lower) if lower is None]
        if len(roots) != 1:
            hint = "".join(
                f"; the file has arcs that read {name}: if they back off, give "
                f"backoff={name!r}"
                for name in sorted(self._empty)
            )
            raise self.fail(
                f"{len(roots)} states have no back-off arc, one that reads "
                f"{self.backoff}; in the automaton of a back-off model it is one "
                f"state, that of the unigrams{hint}"
            )
        self.root, self.depth = roots[0], [-1] * len(self.lower)
        self.depth[self.root] = 0
        for state in range(len(self.lower)):
            way, at = [], state
            while self.depth[at] < 0 and len(way) <= len(self.lower):
                way.append(at)
                at = self.lower[at][0]
            if len(way) > len(self.lower):
                raise self.fail("the back-off arcs form a cycle")
            for back, other in enumerate(reversed(way), 1):
                self.depth[other] = self.depth[at] + back

    def _set_contexts(self):
        """The context of each state that is reached, the oldest word first."""
        self.context: dict[int, tuple[int, ...]] = {self.root: ()}
        self.at: dict[tuple[int, ...], int] = {(): self.root}
        self._queue = [self.root]
        if self.root != 0:
            if self.depth[0] != 1:
                raise self.fail(
                    f"the initial state backs off {self.depth[0]} times; it stands for "
                    "the start mark, and backs off to the unigrams"
                )
            self._reach(0, (_START,), None)
        for state in self._queue:
            own, lower = self.context[state], self.lower[state]
            if lower is not None:
                self._reach(lower[0], own[1:], None)
            for word, (target, _, line) in self.arcs[state].items():
                depth, ngram = self.depth[target], (*own, word)
                if depth > len(ngram):
                    raise self.fail(
                        f"the target backs off {depth} times, and its history has "
                        f"{len(ngram)} words",
                        line,
                    )
                self._reach(target, ngram[len(ngram) - depth :], line)
        for state in self._queue:
            for word, (target, _, line) in self.arcs[state].items():
                ngram = (*self.context[state], word)
                for k in range(len(ngram) - self.depth[target]):
                    if ngram[k:] in self.at:
                        raise self.fail(
                            "the arc does not lead to the longest history that is a "
                            "state",
                            line,
                        )

    def _reach(self, state, context, line):
        """Set the context of a state."""
        if state not in self.context:
            self._queue.append(state)
        known = self.context.setdefault(state, context)
        if known != context or self.at.setdefault(context, state) != state:
            raise self.fail(
                "states are not histories of a back-off model: two words or two states "
                "are in one place",
                line,
            )

    def model(self) -> BackoffModel:
        """The model of the states that are reached."""
        root = self.root
        if root not in self.final:
            raise self.fail("the state of the unigrams is not final")
        if not self.arcs[root]:
            raise self.fail("the state of the unigrams has no arcs: no word is read")
        missing = set(range(2, len(self.word))) - set(self.arcs[root])
        if missing:
            raise self.fail(f"{list(self.word)[min(missing)]!r} has no unigram arc")
        # An automaton has no number for the start mark; it is certain, as in lmplz.
        cost: dict[tuple[int, ...], float] = {(_START,): 0.0}
        for context, state in self.at.items():
            for word, arc in self.arcs[state].items():
                cost[(*context, word)] = arc[1]
            if state in self.final:
                cost[(*context, _END)] = self.final[state]
        spelt = list(self.word)
        for context in self.at:
            # A sentence would not reach such a state, unlike in a back-off model.
            if context and context not in cost:
                text = " ".join(spelt[w] for w in context)
                raise self.fail(f"the history {text!r} is a state, and no arc reads it")
        rows: list[list[tuple[int, ...]]] = [[] for _ in range(max(map(len, cost)))]
        for ngram in sorted(cost):
            rows[len(ngram) - 1].append(ngram)
        sections = []
        for ngrams in rows:
            values = np.zeros((len(ngrams), 2))
            for i, ngram in enumerate(ngrams):
                values[i, 0] = -cost[ngram] / _LN10
                lower = self.lower[self.at[ngram]] if ngram in self.at else None
                values[i, 1] = 0.0 if lower is None else -lower[1] / _LN10
            ids = np.array(ngrams, dtype=np.int32).reshape(len(ngrams), -1)
            sections.append(Section(ids, values, 1))
        roles = {p: self.word[mark] for p, mark in MARKS.items() if mark in self.word}
        return build_model(self.fail, spelt, roles, sections)
