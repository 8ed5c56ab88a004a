"""A pickle of an estimator whose arrays were altered never ends the interpreter.

Each array of the pickle of every public estimator is replaced in turn: by a shorter and
a longer one, one of another type or shape, by entries that lead elsewhere, by NaN. Then
the pickle is loaded and asked everything. An exception or an answer is right. This
file runs itself in a child process, which does each of them in its own fork.
"""

import io
import json
import os
import pickle
import signal
import subprocess
import sys
import warnings

import numpy as np
import pytest

MAX_SECONDS = 60  # of one pickle
MAX_BYTES = 8 << 30


def changes(array):
    """(name, altered array) of an array."""
    n = array.size
    yield "short", array[: array.shape[0] // 2] if array.ndim else array.reshape(1)
    yield "long", np.concatenate([array.ravel(), array.ravel()])
    yield "empty", array.ravel()[:0]
    yield "two axes", array[None]
    if array.dtype.kind not in "iuf" or not n:
        return
    yield "bytes", array.astype(np.int8)
    yield "strings", array.astype(str)
    yield "words", array.astype(np.int64 if array.dtype != np.int64 else np.int32)
    yield "floats", array.astype(np.float32 if array.dtype.kind == "f" else float)
    for i in sorted({0, n // 2, n - 1}):
        values = (np.nan, np.inf, 1e300) if array.dtype.kind == "f" else (10**8, -7, n)
        for value in values:
            other = array.copy()
            if array.dtype.kind == "f" or np.can_cast(
                np.min_scalar_type(value), array.dtype
            ):
                other.reshape(-1)[i] = value
                yield f"[{i}] = {value}", other


class Altering(pickle.Pickler):
    """Writes the array number `at` as another one, and keeps what was there."""

    def __init__(self, file, at=None, other=None):
        super().__init__(file, protocol=4)
        self.at, self.other, self.arrays = at, other, []

    def reducer_override(self, thing):
        if type(thing) is not np.ndarray:
            return NotImplemented
        self.arrays.append(thing)
        if self.at == len(self.arrays) - 1:
            return self.other.__reduce_ex__(4)
        return NotImplemented


def alterations(model):
    """(what, function that makes the pickle) of all arrays of a model."""
    whole = Altering(io.BytesIO())
    whole.dump(model)

    def dump(at, other):
        file = io.BytesIO()
        Altering(file, at, other).dump(model)
        return file.getvalue()

    for at, array in enumerate(whole.arrays):
        for change, other in changes(array):
            what = f"array {at} ({array.dtype}, {array.shape}) {change}"
            yield what, lambda at=at, other=other: dump(at, other)


def in_a_fork(dump, asked):
    """How a process ends that loads the pickle and asks: 0 or a number of a signal."""
    import resource

    from _fitted import ask

    child = os.fork()
    if child:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        resource.setrlimit(resource.RLIMIT_AS, (MAX_BYTES, MAX_BYTES))
        signal.alarm(MAX_SECONDS)
        ask(pickle.loads(dump), *asked)
    except Exception:
        pass
    finally:
        os._exit(0)


def run(stride, only=None):
    """A line for each estimator: how many pickles were tried, and which ended how."""
    from _fitted import QUESTIONS, ask, fitted, make

    warnings.simplefilter("ignore")
    np.seterr(all="ignore")
    number = 0
    for name, entry in fitted().items():
        _, kind, *asked = entry
        if kind not in QUESTIONS or (only and only not in name):
            continue
        model = make(entry)
        answers = ask(pickle.loads(pickle.dumps(model)), kind, *asked)
        n_answers = sum(not isinstance(a, Exception) for a in answers.values())
        n_tried, ended = 0, []
        for what, dump in alterations(model):
            number += 1
            if number % stride == 0:
                n_tried += 1
                code = in_a_fork(dump(), (kind, *asked))
                if code:
                    ended.append([what, code])
        print(json.dumps([name, n_answers, n_tried, ended]), flush=True)


@pytest.mark.processes
@pytest.mark.skipif(not hasattr(os, "fork"), reason="each pickle is loaded in a fork")
@pytest.mark.parametrize("stride", [31, pytest.param(1, marks=pytest.mark.slow)])
def test_altered_pickles_never_end_the_interpreter(stride, tmp_path):
    path = os.pathsep.join([os.path.dirname(__file__), *sys.path])
    done = subprocess.run(
        [sys.executable, __file__, str(stride)],
        capture_output=True, text=True, cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1",
             "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-2000:]
    found = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(n_tried for _, _, n_tried, _ in found) > 6000 / stride
    assert not [name for name, n_answers, _, _ in found if not n_answers]
    wrong = [(name, *end) for name, _, _, ended in found for end in ended]
    assert not wrong, "\n".join(map(str, wrong))


if __name__ == "__main__":
    run(int(sys.argv[1]), *sys.argv[2:])
