"""The trainer of python-crfsuite: its parameters, its messages, and one algorithm."""

from __future__ import annotations

import math
import os
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from ..._checks import INT32_MAX
from ..._files import check_writable, open_write
from ...factor_graph import ConditionalRandomField
from ...factor_graph._crfsuite import ChainWeights, model_bytes
from ...factor_graph._features_fast import FeatureReader
from ...factor_graph._observations import as_items, read_items
from ._logparser import LabelScore, TrainLogParser
from ._tagger import ItemSequence, as_number


def _flag(text: str) -> bool:
    return bool(int(text))


def _whole(text: str) -> int:
    return int(float(text))


_Parameter = tuple[Callable[[str], Any], Any, str]
# name -> how a text is read, default, help
_COMMON: dict[str, _Parameter] = {
    "feature.minfreq": (float, 0.0, "Least number of occurrences of a feature."),
    "feature.possible_states": (_flag, False, "Features of all attributes and labels."),
    "feature.possible_transitions": (_flag, False, "Features of all pairs of labels."),
}
_ROUNDS: _Parameter = (_whole, 100, "Most iterations.")
_ALGORITHMS: dict[str, dict[str, _Parameter]] = {
    "lbfgs": {
        "c1": (float, 0.0, "Weight of the L1 penalty."),
        "c2": (float, 1.0, "Weight of the L2 penalty."),
        "max_iterations": (_whole, INT32_MAX, "Most iterations."),
        "num_memories": (_whole, 6, "Accepted; L-BFGS remembers 10 pairs."),
        "epsilon": (float, 1e-5, "Accepted; training stops at a gap."),
        "period": (_whole, 10, "Accepted; training stops at a gap."),
        "delta": (float, 1e-5, "Accepted; training stops at a gap."),
        "linesearch": (str, "MoreThuente", "Accepted; that of SciPy is used."),
        "max_linesearch": (_whole, 20, "Accepted; that of SciPy is used."),
    },
    "l2sgd": {
        "c2": (float, 1.0, "Weight of the L2 penalty."),
        "max_iterations": (_whole, 1000, "Most epochs."),
        "period": (_whole, 10, "Epochs over which an improvement is measured."),
        "delta": (float, 1e-6, "Least improvement over a period."),
        "calibration.eta": (float, 0.1, "First learning rate of the calibration."),
        "calibration.rate": (float, 2.0, "Factor between learning rates."),
        "calibration.samples": (float, 1000.0, "Sequences of the calibration."),
        "calibration.candidates": (_whole, 10, "Candidates of the learning rate."),
        "calibration.max_trials": (_whole, 20, "Most trials of learning rates."),
    },
    "averaged-perceptron": {
        "max_iterations": _ROUNDS,
        "epsilon": (float, 0.0, "Share of wrong labels at which training stops."),
    },
    "passive-aggressive": {
        "type": (_whole, 1, "0: without slack, 1 or 2: type I or II."),
        "c": (float, 1.0, "Largest step."),
        "error_sensitive": (_flag, True, "The cost counts the wrong labels."),
        "averaging": (_flag, True, "Average the weights."),
        "max_iterations": _ROUNDS,
        "epsilon": (float, 0.0, "Mean loss at which training stops."),
    },
    "arow": {
        "variance": (float, 1.0, "First variance of the weights."),
        "gamma": (float, 1.0, "Trade-off between loss and change."),
        "max_iterations": _ROUNDS,
        "epsilon": (float, 0.0, "Mean loss at which training stops."),
    },
}
_ALIASES = {"ap": "averaged-perceptron", "pa": "passive-aggressive"}
_REMEDIES = {
    "l2sgd": "select('lbfgs') finds the minimum that 'l2sgd' approaches",
    "averaged-perceptron": "select('lbfgs'), or learn as "
    "sklstruct.factor_graph.SampleRankClassifier(step='perceptron') does",
    "passive-aggressive": "select('lbfgs'), or learn as "
    "sklstruct.factor_graph.SampleRankClassifier(step='passive_aggressive') does",
    "arow": "select('lbfgs')",
}


_EMPTY = ChainWeights([], [], np.zeros((0, 0)), np.zeros((0, 0)))


class CRFSuiteError(Exception):
    """A training that is not possible.

    Parameters
    ----------
    message : str
        Names the parameter and the remedy.

    Attributes
    ----------
    code : int
        That of CRFsuite for an operation that is not supported.
    """

    code = -(2**31) + 2

    def __init__(self, message: str) -> None:
        super().__init__(message)


class BaseTrainer:
    """`Trainer` without a parser of its messages."""

    verbose: bool | None = None

    def __new__(cls, *args: Any, **kwargs: Any) -> Any:
        # subclasses may leave out `__init__`, as with python-crfsuite
        trainer = super().__new__(cls)
        trainer.select("lbfgs")
        trainer.clear()
        return trainer

    def __init__(
        self,
        algorithm: str | None = None,
        params: Mapping[str, Any] | None = None,
        verbose: bool = True,
    ) -> None:
        if algorithm is not None:
            self.select(algorithm)
        if params is not None:
            self.set_params(params)
        self.verbose = verbose

    # ------------------------------------------------------------------ parameters

    def select(self, algorithm: str, type: str = "crf1d") -> None:
        """Choose an algorithm, whose parameters get their defaults.

        Parameters
        ----------
        algorithm : {'lbfgs', 'l2sgd', 'ap', 'pa', 'arow'}
            `train` runs 'lbfgs' alone.

        type : str, default='crf1d'
            The graphical model; 'crf1d' is the only choice.

        Raises
        ------
        ValueError
            If the algorithm or the type is unknown.
        """
        name = algorithm.lower()
        name = _ALIASES.get(name, name)
        if name not in _ALGORITHMS or type != "crf1d":
            raise ValueError(f"Bad arguments: algorithm={algorithm!r}, type={type!r}")
        self._algorithm = name
        self._parameters = _COMMON | _ALGORITHMS[name]
        self._values = {key: p[1] for key, p in self._parameters.items()}

    def params(self) -> list[str]:
        """Names of the parameters of the algorithm."""
        return list(self._parameters)

    def set_params(self, params: Mapping[str, Any]) -> None:
        """Set parameters, given by name."""
        for name, value in params.items():
            self.set(name, value)

    def get_params(self) -> dict[str, Any]:
        """The value of each parameter."""
        return dict(self._values)

    def set(self, name: str, value: Any) -> None:
        """Set a parameter to a value of its type, or to the text of one.

        Raises
        ------
        ValueError
            If the parameter is unknown, or the value cannot be read.
        """
        if name not in self._parameters:
            raise ValueError(f"Parameter not found: {name} = {value}")
        try:
            text = str(int(value) if isinstance(value, bool) else value)
            self._values[name] = self._parameters[name][0](text)
        except (ValueError, OverflowError) as exc:
            raise ValueError(f"{name} must be a number, got {value!r}") from exc

    def get(self, name: str) -> Any:
        """The value of a parameter.

        Raises
        ------
        ValueError
            If the parameter is unknown.
        """
        self.help(name)
        return self._values[name]

    def help(self, name: str) -> str:
        """The meaning of a parameter.

        Raises
        ------
        ValueError
            If the parameter is unknown.
        """
        if name not in self._parameters:
            raise ValueError(f"Parameter not found: {name}")
        return self._parameters[name][2]

    # ------------------------------------------------------------------------ data

    def append(
        self, xseq: Sequence | ItemSequence, yseq: Sequence[str], group: int = 0
    ) -> None:
        """Add a sequence to the training data.

        Parameters
        ----------
        xseq : iterable of items, or ItemSequence
            As `ItemSequence` takes them.

        yseq : list of str
            A label for each item.

        group : int, default=0
            `train` can hold out a group.

        Raises
        ------
        ValueError
            If an item is malformed, a value is NaN or infinite, or the numbers of items
            and labels differ.

        TypeError
            If a label is not a string, or the group is not an integer.
        """
        if isinstance(xseq, ItemSequence):
            items: list = xseq.summed()
        else:  # copies: a caller may change its items after the call
            items = list(map(_copied, as_items("xseq", xseq)))
        names: dict[str, int] = {}
        read_items(items, FeatureReader(names, True), lambda t: f"xseq, item {t}")
        labels = [y.decode() if isinstance(y, bytes) else y for y in yseq]
        for t, label in enumerate(labels):
            if not isinstance(label, str):
                raise TypeError(f"yseq must be strings, got {label!r} at item {t}")
        for what, strings in (("xseq", names), ("yseq", labels)):
            for string in strings:
                if "\0" in string:
                    raise ValueError(
                        f"{what} has a null character in {string!r}, which cannot be "
                        "in a model file"
                    )
        if len(labels) != len(items):
            raise ValueError(
                f"yseq must have a label for each of the {len(items)} items, got "
                f"{len(labels)}"
            )
        self._data.append((items, labels, as_number("group", group)))

    def clear(self) -> None:
        """Forget the training data."""
        self._data: list[tuple[list, list[str], int]] = []

    # -------------------------------------------------------------------- training

    def message(self, message: str) -> None:
        """Receive a line that tells of the training; printed if `verbose`."""
        if self.verbose:
            print(message, end="")

    def train(self, model: str | os.PathLike[str], holdout: int = -1) -> None:
        """Train on the data, and write the model.

        Parameters
        ----------
        model : str or os.PathLike
            Path of the file, which gets its name when it is complete; an empty string
            writes none.

        holdout : int, default=-1
            Group that is not trained on; each iteration is measured on it. -1 trains on
            all groups.

        Raises
        ------
        CRFSuiteError
            If the algorithm is not 'lbfgs'; the message says what to do.

        TypeError
            If `holdout` is not an integer.

        ValueError
            If the value of a parameter is not valid.

        OSError
            If the file cannot be written.
        """
        holdout = as_number("holdout", holdout)
        if self._algorithm != "lbfgs":
            raise CRFSuiteError(
                f"algorithm={self._algorithm!r} is not trained here: "
                f"{_REMEDIES[self._algorithm]}. Tagger opens files that "
                "python-crfsuite trained with any algorithm"
            )
        for name in ("feature.minfreq", "c1", "c2", "max_iterations"):
            if not 0 <= self._values[name] < math.inf:
                raise ValueError(
                    f"the {name!r} parameter must be a finite number of at least 0, "
                    f"got {self._values[name]}; set another value"
                )
        if model:
            check_writable(model, name="model")
        self._tell(
            "start",
            *([f"Holdout group: {holdout + 1}\n", "\n"] if holdout >= 0 else []),
            "Feature generation\n",
            "type: CRF1d\n",
            *(f"{name}: {self._values[name]:g}\n" for name in _COMMON),
        )
        crf = self._fit(holdout)
        started = time.perf_counter()
        if model and crf is not None:
            crf.save(model)
        elif model:
            with open_write(model, name="model") as file:
                file.write(model_bytes(_EMPTY))
        seconds = time.perf_counter() - started
        lines = "Storing the model\n", f"Seconds required: {seconds:.3f}\n", "\n"
        self._tell("end", *lines, storing_seconds=seconds)

    def _tell(self, event: str, *lines: str, **figures: Any) -> None:
        """Send the lines of an event; `Trainer` keeps its figures too."""
        for line in lines:
            self.message(line)

    def _fit(self, holdout: int) -> ConditionalRandomField | None:
        train = [row for row in self._data if holdout < 0 or row[2] != holdout]
        held_out = [row for row in self._data if holdout >= 0 and row[2] == holdout]
        started = time.perf_counter()
        values = self._values
        head = (
            "\n", "L-BFGS optimization\n", f"c1: {values['c1']:f}\n",
            f"c2: {values['c2']:f}\n", f"max_iterations: {values['max_iterations']}\n",
            "\n",
        )  # fmt: skip
        if not any(labels for _, labels, _ in train):
            self._tell("featgen_end", "Seconds required: 0.000\n", featgen_seconds=0.0)
            problem = "L-BFGS terminated with error: the training set is empty\n"
            self._tell("prepare_error", *head, problem)
            total = "Total seconds required for training: 0.000\n"
            self._tell("optimization_end", total, "\n", training_seconds=0.0)
            return None
        last = started

        def report(crf: ConditionalRandomField, objective: list[float]) -> None:
            nonlocal last
            seconds, last = time.perf_counter() - last, time.perf_counter()
            if len(objective) == 1:
                text = f"Seconds required: {seconds:.3f}\n"
                self._tell("featgen_end", text, featgen_seconds=seconds)
                self._tell("prepared", *head)
                return
            info = {
                "num": len(objective) - 1,
                "scores": {},
                "loss": objective[-1],
                "feature_norm": float(np.linalg.norm(crf.coef_)),
                "active_features": int(np.count_nonzero(crf.coef_)),
                "time": seconds,
            }
            lines = [
                f"***** Iteration #{info['num']} *****\n",
                f"Loss: {info['loss']:f}\n",
                f"Feature norm: {info['feature_norm']:f}\n",
                f"Active features: {info['active_features']}\n",
                f"Seconds required for this iteration: {seconds:.3f}\n",
            ]
            if held_out:
                X, y, _ = zip(*held_out)
                more, found = _performance(crf.classes_.tolist(), y, crf.predict(X))
                lines, info = lines + more, info | found
            self._tell("iteration", *lines, "\n", **info)

        least = max(1, math.ceil(values["feature.minfreq"]))
        states, transitions = (
            0 if values[f"feature.possible_{what}"] and least == 1 else least
            for what in ("states", "transitions")
        )
        most = values["max_iterations"] or INT32_MAX  # 0: without a limit
        crf = _Reporting(
            values["c1"], values["c2"], min_count=(states, transitions), max_iter=most
        )
        crf.report = report
        X, y, _ = zip(*train)
        with warnings.catch_warnings():
            # a message says that max_iterations was reached
            warnings.simplefilter("ignore", ConvergenceWarning)
            crf.fit(X, y)
        limit = crf.n_iter_ >= most
        seconds = time.perf_counter() - started
        self._tell(
            "optimization_end",
            "L-BFGS terminated with "
            f"{'the maximum number of iterations' if limit else 'a small gap'}\n",
            f"Total seconds required for training: {seconds:.3f}\n",
            "\n",
            training_seconds=seconds,
        )
        return crf


def _copied(item: Any) -> Any:
    if isinstance(item, Mapping):
        return {key: _copied(value) for key, value in item.items()}
    iterable = isinstance(item, Iterable) and not isinstance(item, (str, bytes))
    return list(item) if iterable else item


class _Reporting(ConditionalRandomField):
    """Tells a function of its iterations."""

    report: Callable[[ConditionalRandomField, list[float]], None]

    def _after_iteration(
        self, set_model: Callable[[], None], objective: list[float]
    ) -> None:
        set_model()
        self.report(self, objective)


def _performance(
    labels: list[str], truth: Sequence[list[str]], found: Sequence[list[str]]
) -> tuple[list[str], dict[str, Any]]:
    """The lines and the figures of an iteration about held-out data."""
    pairs = [pair for a, b in zip(truth, found) for pair in zip(a, b)]
    lines = ["Performance by label (#match, #model, #ref) (precision, recall, F1):\n"]
    scores: dict[str, LabelScore] = {}
    total = np.zeros(3)
    counts = (
        Counter(a for a, b in pairs if a == b),
        Counter(b for _, b in pairs),
        Counter(a for a, _ in pairs),
    )
    for label in labels:
        match, model, ref = (count[label] for count in counts)
        scores[label] = LabelScore(match, model, ref, None, None, None)
        shares = "******, ******, ******"
        if ref:
            precision, recall = match / model if model else 0.0, match / ref
            f1 = 2 * match / (model + ref)
            total += precision, recall, f1
            scores[label] = LabelScore(match, model, ref, precision, recall, f1)
            shares = f"{precision:.4f}, {recall:.4f}, {f1:.4f}"
        lines.append(f"    {label}: ({match}, {model}, {ref}) ({shares})\n")
    means = dict(zip(("precision", "recall", "f1"), (total / len(labels)).tolist()))
    mean = ", ".join(f"{x:f}" for x in means.values())
    lines.append(f"Macro-average precision, recall, F1: ({mean})\n")
    figures: dict[str, Any] = {f"avg_{name}": x for name, x in means.items()}
    for what, right in (
        ("Item", [a == b for a, b in pairs]),
        ("Instance", [list(a) == list(b) for a, b in zip(truth, found)]),
    ):
        n, of = sum(right), max(1, len(right))
        lines.append(f"{what} accuracy: {n} / {len(right)} ({n / of:.4f})\n")
        figures[f"{what.lower()}_accuracy"] = Fraction(n, of)
        figures[f"{what.lower()}_accuracy_float"] = n / of
    return lines, figures | {"scores": scores}


class Trainer(BaseTrainer):
    r"""Trains a conditional random field, and writes it as CRFsuite does.

    .. math::
        \min_w\; -\sum_i \log p_w(y_i \mid x_i) + c_1 \|w\|_1 + c_2 \|w\|_2^2

    Parameters
    ----------
    algorithm : {'lbfgs', 'l2sgd', 'ap', 'pa', 'arow'}, default='lbfgs'
        As `select`; `train` runs 'lbfgs' alone, which is
        `~sklstruct.factor_graph.ConditionalRandomField`.

    params : dict, default=None
        Parameters by name, as `set_params`.

    verbose : bool, default=True
        Print the messages of the training.

    Attributes
    ----------
    logparser : TrainLogParser or None
        Of the last training: ``last_iteration``, ``iterations`` and the lines.

    Notes
    -----
    Training stops when the objective is within 1e-3 nats per item of its minimum,
    or after ``max_iterations``. ``feature.minfreq`` counts occurrences, where CRFsuite
    adds values. Labels and attributes of the file are sorted.

    Examples
    --------
    >>> from sklstruct.compat.pycrfsuite import Trainer
    >>> trainer = Trainer("lbfgs", {"c1": 0.1, "c2": 0.01}, verbose=False)
    >>> trainer.append([{"w": "the"}, {"w": "cat"}], ["D", "N"])
    >>> trainer.train("")
    >>> sorted(trainer.logparser.last_iteration)[:3]
    ['active_features', 'feature_norm', 'loss']
    """

    logparser: TrainLogParser | None = None

    def message(self, message: str) -> None:
        """Receive a line; the methods `on_...` print the lines of their events."""
        assert self.logparser is not None
        self.logparser.log.append(message)

    def _tell(self, event: str, *lines: str, **figures: Any) -> None:
        if event == "start":
            self.logparser = TrainLogParser()
        super()._tell(event, *lines)
        assert self.logparser is not None
        self.logparser.end_event(event, figures)
        if self.verbose:
            info = [figures] if event == "iteration" else []
            getattr(self, f"on_{event}")(self.logparser.last_log, *info)

    def on_start(self, log: str) -> None:
        """Print the lines, as all methods `on_...` do."""
        print(log, end="")

    def on_iteration(self, log: str, info: dict[str, Any]) -> None:
        """Called after each iteration, with what is known of it."""
        print(log, end="")

    on_featgen_end = on_prepared = on_prepare_error = on_start
    on_optimization_end = on_end = on_start
