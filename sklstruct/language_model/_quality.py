"""Estimators of language models by name, and their checkpoints."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.frozen import FrozenEstimator
from sklearn.pipeline import Pipeline

from .._checkpoint import Checkpoint, keeps_state
from .._checks import check_choice, check_count
from .._compat import BaseEstimator
from .._warnings import FallbackWarning, catch_warnings, warn
from ..backoff import BackoffClassifier
from ..context_tree import SuffixTreeVectorizer
from ..symbols._ids import unfitted_params
from ._names import QUALITIES

_DEEP = "c100(1) c100(2) c100(3) c100(4) c100(5) c100(6)"
_FINE = "c400(1) c400(2) c400(3) c400(4)"
# Paths of one joint model. Each path begins with another position: if the word there is
# new, the other paths still match. b: classes by the neighbours on both sides, as the
# classes of the targets.
_OLDER = [
    "b100(1) w(1) b100(2) w(2) b100(3) w(3) b100(4) w(4)",
    "b100(2) w(2) b100(1) w(1) b100(3)",
    "b100(3) w(3) b100(1) b100(2) w(1)",
    "b100(4) w(4) b100(1) b100(2)",
]
# The path of the model of the words in a class.
_IN_CLASS = "b100(1) w(1) b100(2) w(2) b100(3) b100(4)"
_STEP = re.compile(r"([cb])(\d+)\((\d+)\)|w\((\d+)\)")

# "c100" stands for a number of classes that grows with the square root of the number of
# words, up to a hundred.
_MOST_CLASSES = 100
_CLASSES_PER_ROOT = 0.55


def named_estimator(
    name: str, *, n_words: int = 10_000, max_depth: int = 4
) -> BaseEstimator:
    """The estimator of a preset of `LanguageModel`, to change or tune.

    ``LanguageModel(name)`` calls this function with the size of its vocabulary. The
    result can be given to `LanguageModel` in the place of the name; a search such as
    ``GridSearchCV`` then reaches its parameters.

    Parameters
    ----------
    name : {"fast", "better", "best"}
        The name.

    n_words : int, default=10_000
        Number of words that can be predicted, at least 1. Models of fewer words have
        fewer word classes.

    max_depth : int, default=4
        `max_depth` of the `LanguageModel`, at least 1, or 0 for "fast". Steps of paths
        beyond `max_depth` are left out.

    Returns
    -------
    estimator : classifier
        Not fitted.

    Raises
    ------
    ValueError
        If the name is not known, or a number is too small.

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
    check_choice("name", name, QUALITIES)
    check_count("n_words", n_words, 1)
    check_count("max_depth", max_depth, 0 if name == "fast" else 1)
    # Imported here: scoring of texts and other models do not need these packages.
    from sklearn.pipeline import make_pipeline

    from ..smoothing import KneserNeyLM

    if name == "fast":
        return KneserNeyLM()

    from ..loglinear import AutoSolver, JointLogLinear, StructuredLogLinearLM
    from ..mixture import FactoredLM, MixtureLM
    from ..word_classes import ContextRefiner, ExchangeClustering

    n_classes = round(_CLASSES_PER_ROOT * n_words**0.5)
    most = max(1, n_words - 2)
    n_classes = max(1, min(_MOST_CLASSES, n_classes, most))

    def joint(paths, lam, alpha, min_count, tol):
        steps = (_cut(path, max_depth, n_classes, most) for path in paths)
        kept = [(f"path{i}", ContextRefiner(s)) for i, s in enumerate(steps) if s]
        solver = AutoSolver(tol=tol)
        return JointLogLinear(
            kept, lam=lam, alpha=alpha, min_count=min_count, solver=solver
        )

    def mixed(kind, model):
        # Kneser-Ney is better for repeated text; the gate learns to recognise it.
        return MixtureLM([(kind, model), ("kn", KneserNeyLM())], weights="logistic")

    if name == "better":
        of_classes = joint(_OLDER[:2], 2.0, 0.9, 3, tol=0.3)
        refiner = ContextRefiner(_cut(_IN_CLASS, max_depth, n_classes, most))
        # Kneser-Ney knows the contexts that occur once. 1000 iterations: convergence
        # is slow when a class is dominated by one word.
        l2 = StructuredLogLinearLM(
            penalty="l2", lam=0.3, alpha=0.85, min_count=2,
            solver=AutoSolver(max_iter=1000),
        )  # fmt: skip
        in_class = make_pipeline(refiner, l2)
    else:
        of_classes = joint([*_OLDER, _FINE, _DEEP], 3.5, 0.9, 2, tol=0.1)
        in_class = joint(_OLDER[:2], 1.5, 0.85, 2, tol=0.3)
    classes = ExchangeClustering(n_classes, offsets=(-1, 1))
    in_class = mixed("contexts", in_class)
    factored = FactoredLM(classes, of_classes, in_class, concentration="auto")
    return mixed("factored", factored)


@contextmanager
def merge_warnings(estimator: Any, analyzer: str) -> Iterator[None]:
    """Merge the warnings of each kind in the fit of a preset into one warning.

    FallbackWarnings and ConvergenceWarnings name an estimator and its parameters, which
    the user has not chosen. Models of characters do not warn of fallbacks: there are
    few different characters in any text, and the default discounts are as good.
    """
    if not isinstance(estimator, str):
        yield
        return
    with catch_warnings() as caught:
        yield
    fallback = far = False
    for warning in caught:
        if issubclass(warning.category, FallbackWarning):
            fallback = True
        elif issubclass(warning.category, ConvergenceWarning):
            far = True
        else:
            warn(str(warning.message), warning.category)
    if fallback and analyzer != "char":
        warn(
            f'estimator="{estimator}": the text has too few words that occur once or '
            "twice to estimate the discounts of Kneser-Ney smoothing, so fixed "
            "discounts are used instead. This is usual for a small text, and for "
            "symbols that all occur often, such as letters",
            FallbackWarning,
        )
    if far:
        warn(
            f'estimator="{estimator}": a part of the model may be far from its optimum '
            "on this text, as is usual for a small text; compare the perplexity of the "
            'model on held-out text with that of estimator="fast", and keep the better '
            "model",
            ConvergenceWarning,
        )


def check_depths(estimator: Any, max_depth: int, alone: bool = True) -> None:
    """ValueError if `max_depth` of a part differs from that of the `LanguageModel`.

    alone: False for a model of a mixture, whose contexts may be shorter.
    """
    from ..mixture import MixtureLM

    if isinstance(estimator, MixtureLM):
        estimator._check_models()
        for _, part in estimator.models:
            check_depths(part, max_depth, alone=False)
        return
    parts = [estimator]
    if isinstance(estimator, Pipeline):
        parts = [step for _, step in estimator.steps]
        # After a ContextRefiner contexts are paths of words and classes.
        if not all(isinstance(step, SuffixTreeVectorizer) for step in parts[:-1]):
            return
    for part in parts:
        if not isinstance(part, BackoffClassifier | SuffixTreeVectorizer):
            continue
        depth = getattr(part, "max_depth", None)
        if not isinstance(depth, int | np.integer) or depth < 0:
            continue  # None, or refused by the part itself
        if depth > max_depth or (alone and depth != max_depth):
            raise ValueError(
                f"max_depth={depth} of {type(part).__name__}: max_depth={max_depth} of "
                "the LanguageModel is the length of contexts. Set or search max_depth "
                "of the LanguageModel, and leave max_depth of the estimator at None"
            )


def check_fitted_depths(estimator: Any, max_depth: int) -> None:
    """ValueError if a fitted language model inside reads longer contexts."""
    for part in unfitted_params(estimator).values():
        fitted: Any = getattr(part, "estimator", None)
        if isinstance(part, FrozenEstimator) and (
            hasattr(fitted, "__sklstruct_over_ids__")
            and fitted.__sklearn_is_fitted__()
            and (depth := fitted.predictor.max_depth) > max_depth
        ):
            raise ValueError(
                f"max_depth={max_depth}: a fitted {type(fitted).__name__} inside the "
                f"estimator reads contexts of {depth} words; set max_depth={depth}"
            )


def read_no_context(estimator: Any) -> None:
    """Set ``max_depth=0`` of a model over contexts; ValueError for other estimators."""
    if not isinstance(estimator, BackoffClassifier):
        raise ValueError(
            f"max_depth=0: a {type(estimator).__name__} reads contexts of at least one "
            "word; unigrams need a model over contexts, such as KneserNeyLM"
        )
    own = "max_depth" in estimator.get_params(deep=False)
    # StructuredLogLinearLMCV has the parameter in its inner estimator.
    estimator.set_params(**{"max_depth" if own else "estimator__max_depth": 0})


def give_checkpoint(estimator: Any, checkpoint: Checkpoint | str | os.PathLike) -> None:
    """Set the checkpoint of every part that can store its state and has no checkpoint.

    ValueError if no part has a state to keep, or the path is a file where a folder is
    needed.
    """
    from ..mixture import ModelClassifier

    params = unfitted_params(estimator)
    if isinstance(estimator, ModelClassifier):
        kept = Checkpoint.of(checkpoint, estimator, folder=True)
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
    """The steps of a path within the windows, with scaled numbers of classes; an empty
    list if the path begins beyond the windows."""
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
