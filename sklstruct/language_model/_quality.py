"""Estimators of language models by name, and their checkpoints."""

from __future__ import annotations

import os
import re
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any, Literal, get_args

import numpy as np
from sklearn.pipeline import Pipeline

from .._checkpoint import Checkpoint, keeps_state
from .._checks import check_count
from .._compat import BaseEstimator
from .._warnings import FallbackWarning, warn
from ..backoff import BackoffClassifier
from ..context_tree import SuffixTreeVectorizer
from ..symbols._ids import unfitted_params

Quality = Literal["fast", "good", "better", "best"]
QUALITIES: tuple[str, ...] = get_args(Quality)

# The words at positions 3 and 4 are those by which a tree learns repeated passages.
_WHOLE = "c20(1) c100(1) w(1) c20(2) c100(2) w(2) c100(3) w(3) c50(4) w(4)"
_DEEP = "c100(1) c100(2) c100(3) c100(4) c100(5) c100(6)"
_FINE = "c400(1) c400(2) c400(3) c400(4)"
# Paths of one joint model, each of which begins with another word: where one is new
# the other paths still match. b: classes by the neighbours on both sides, those of the
# targets.
_OLDER = [
    "b100(1) w(1) b100(2) w(2) b100(3) w(3) b100(4) w(4)",
    "b100(2) w(2) b100(1) w(1) b100(3)",
    "b100(3) w(3) b100(1) b100(2) w(1)",
    "b100(4) w(4) b100(1) b100(2)",
]
# Of the words in a class.
_IN_CLASS = "b100(1) w(1) b100(2) w(2) b100(3) b100(4)"
_STEP = re.compile(r"([cb])(\d+)\((\d+)\)|w\((\d+)\)")

# "c100" stands for a number of classes that grows with the square root of the number of
# words, up to a hundred.
_MOST_CLASSES = 100
_CLASSES_A_ROOT = 0.55


def named_estimator(
    name: str, *, n_words: int = 10_000, max_depth: int = 4
) -> BaseEstimator:
    """The estimator that a name of `LanguageModel` stands for, to be changed or tuned.

    ``LanguageModel(name)`` calls it with the number of its words. What it returns is
    given to `LanguageModel` in the place of the name; a search such as
    ``GridSearchCV`` then reaches its parameters.

    Parameters
    ----------
    name : {"fast", "good", "better", "best"}
        The name.

    n_words : int, default=10_000
        Words that can be predicted, at least 1; fewer words get fewer classes.

    max_depth : int, default=4
        That of the `LanguageModel`, at least 1; steps of paths beyond it are left out.

    Returns
    -------
    estimator : classifier
        Not fitted.

    Raises
    ------
    ValueError
        If there is no such name, or a number is below 1.

    See Also
    --------
    LanguageModel : Takes the name or the estimator.

    Examples
    --------
    >>> from sklearn.model_selection import GridSearchCV
    >>> from sklstruct.language_model import LanguageModel, named_estimator
    >>> text = ["the cat sat", "the dog sat", "a cat ran", "a dog ran"] * 10
    >>> better = named_estimator("better", n_words=8, max_depth=2)
    >>> search = GridSearchCV(
    ...     LanguageModel(better, max_depth=2),
    ...     {"estimator__factored__taxonomy__n_clusters": [2, 4]},
    ...     cv=2,
    ... ).fit(text)
    >>> sorted(search.best_params_)
    ['estimator__factored__taxonomy__n_clusters']
    """
    if not isinstance(name, str) or name not in QUALITIES:
        raise ValueError(f"name must be one of {', '.join(QUALITIES)}, got {name!r}")
    check_count("n_words", n_words, 1)
    check_count("max_depth", max_depth, 1)
    # Imported here: scoring of texts and other models do not need these packages.
    from sklearn.pipeline import make_pipeline

    from ..smoothing import KneserNeyLM

    if name == "fast":
        return KneserNeyLM()

    from ..loglinear import AutoSolver, JointLogLinear, StructuredLogLinearLM
    from ..mixture import FactoredLM, MixtureLM
    from ..word_classes import ContextRefiner, ExchangeClustering

    n_classes = round(_CLASSES_A_ROOT * n_words**0.5)
    most = max(1, n_words - 2)
    n_classes = max(1, min(_MOST_CLASSES, n_classes, most))

    # Kneser-Ney knows the contexts that occur once.
    def tree(path, alpha):
        refiner = ContextRefiner(_cut(path, max_depth, n_classes, most))
        # Convergence is slow if one word dominates its class.
        solver = AutoSolver(max_iter=1000)
        l2 = StructuredLogLinearLM(
            penalty="l2", lam=0.3, alpha=alpha, min_count=2, solver=solver
        )
        return make_pipeline(refiner, l2)

    def joint(paths, lam, alpha, min_count, tol):
        steps = (_cut(path, max_depth, n_classes, most) for path in paths)
        kept = [(f"path{i}", ContextRefiner(s)) for i, s in enumerate(steps) if s]
        solver = AutoSolver(tol=tol)
        return JointLogLinear(
            kept, lam=lam, alpha=alpha, min_count=min_count, solver=solver
        )

    def mixed(kind, model):
        # Kneser-Ney is better where a text repeats itself, which the gate learns.
        return MixtureLM([(kind, model), ("kn", KneserNeyLM())], weights="logistic")

    if name == "good":
        return mixed("refined", tree(_WHOLE, 0.88))
    if name == "better":
        of_classes = joint(_OLDER[:2], 2.0, 0.9, 3, tol=0.3)
        in_class = tree(_IN_CLASS, 0.85)
    else:
        of_classes = joint([*_OLDER, _FINE, _DEEP], 3.5, 0.9, 2, tol=0.1)
        in_class = joint(_OLDER[:2], 1.5, 0.85, 2, tol=0.3)
    classes = ExchangeClustering(n_classes, offsets=(-1, 1))
    in_class = mixed("contexts", in_class)
    factored = FactoredLM(classes, of_classes, in_class, concentration="auto")
    return mixed("factored", factored)


@contextmanager
def collect_fallbacks(estimator: Any, analyzer: str) -> Iterator[None]:
    """Replace the FallbackWarnings in the fit of a named estimator by one.

    They speak of an estimator and its parameters, which the user has not chosen. For
    characters there is none: their number is small whatever the text, and the default
    discounts are as good.
    """
    if not isinstance(estimator, str):
        yield
        return
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    fallback = False
    for warning in caught:
        if issubclass(warning.category, FallbackWarning):
            fallback = True
        else:
            warn(str(warning.message), warning.category)
    if fallback and analyzer != "char":
        warn(
            f'estimator="{estimator}": the text has too few words that occur once or '
            "twice to estimate the discounts of Kneser-Ney smoothing, so fixed "
            "discounts are used in their place, as is usual for a small text; more "
            "text gives better ones",
            FallbackWarning,
        )


def warn_of_cut_contexts(estimator: Any, max_depth: int) -> None:
    """Warn if a part asks for longer contexts than the `LanguageModel` has."""
    for part in _parts_over_words(estimator):
        parameter = signature(type(part)).parameters.get("max_depth")
        if parameter is None:  # as of the model inside
            continue
        own = part.max_depth
        if (
            own != parameter.default
            and isinstance(own, int | np.integer)
            and own > max_depth
        ):
            warn(
                f"max_depth={own} of {type(part).__name__} has no effect: max_depth="
                f"{max_depth} of the LanguageModel is the longest context. Set "
                f"max_depth={own} there, and search over it there",
                UserWarning,
            )


def _parts_over_words(estimator):
    """The parts of an estimator whose contexts are the words before."""
    from ..mixture import MixtureLM

    if isinstance(estimator, MixtureLM):
        for _, part in estimator.models:
            yield from _parts_over_words(part)
    elif isinstance(estimator, Pipeline):
        first = [step for _, step in estimator.steps[:-1]]
        # After a ContextRefiner contexts are paths of words and classes.
        if all(isinstance(step, SuffixTreeVectorizer) for step in first):
            yield from first
            yield from _parts_over_words(estimator.steps[-1][1])
    elif isinstance(estimator, BackoffClassifier):
        yield estimator
        yield from _parts_over_words(getattr(estimator, "estimator", None))


def give_checkpoint(estimator: Any, checkpoint: Checkpoint | str | os.PathLike) -> None:
    """Set the checkpoint of every part that can keep its state and has none.

    Raises
    ------
    ValueError
        If no part has a state to keep, or the path is a file where a folder is needed.
    """
    from ..mixture import ModelClassifier

    params = unfitted_params(estimator)
    if isinstance(estimator, ModelClassifier):
        kept = Checkpoint.of_kind(checkpoint, estimator, folder=True)
    else:
        kept = Checkpoint.of(checkpoint)
    names = []
    for name in params:
        of, _, last = name.rpartition("__")
        if last == "checkpoint" and keeps_state(params.get(of, estimator)):
            names.append(name)
    if not names:
        raise ValueError(
            f"checkpoint: no part of this {type(estimator).__name__} has a state "
            "to keep, as log-linear models do; set checkpoint=None"
        )
    estimator.set_params(**{n: kept for n in names if params[n] is None})


def _cut(path, max_depth, n_classes, most):
    """The steps of a path within the windows, with scaled numbers of classes; none if
    the path begins beyond the windows."""
    steps, seen = [], set()
    offsets = {"c": (1, 2)[:max_depth], "b": (-1, 1)}
    for step in path.split():
        kind, classes, position, word_position = _STEP.fullmatch(step).groups()
        where, what, scaled = int(position or word_position), "word", None
        if where > max_depth:
            if not steps:
                return []
            continue
        if classes:
            from ..word_classes import ExchangeClustering

            scaled = max(1, round(int(classes) * n_classes / _MOST_CLASSES))
            scaled = min(scaled, most)
            what = ExchangeClustering(scaled, offsets=offsets[kind])
        if (kind, scaled, where) not in seen:
            seen.add((kind, scaled, where))
            steps.append((what, where))
    return steps
