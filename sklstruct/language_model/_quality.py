"""Estimators by name: from the quickest to the best, with settings that serve well."""

from __future__ import annotations

import re

from sklearn.base import BaseEstimator
from sklearn.pipeline import make_pipeline

from ..loglinear import StructuredLogLinearLM
from ..mixture import FactoredLM, MixtureLM
from ..smoothing import KneserNeyLM
from ..word_classes import ContextRefiner, ExchangeClustering

QUALITIES = ("fast", "good", "better", "best")

_LONG = "c20(1) c100(1) w(1) c20(2) c100(2) w(2) c100(3) c20(3) c50(4)"
_SHORT = "c50(1) w(1) c50(2) w(2) c50(3) c50(4)"
_DEEP = "c100(1) c100(2) c100(3) c100(4) c100(5) c100(6)"
_STEP = re.compile(r"c(\d+)\((\d+)\)|w\((\d+)\)")

# The number of classes that stands for "c100": it grows with the root of the number of
# words up to a hundred.
_MOST_CLASSES = 100
_CLASSES_A_ROOT = 0.55


def quality_estimator(quality: str, max_depth: int, n_words: int) -> BaseEstimator:
    """The estimator that a name stands for.

    Parameters
    ----------
    quality : {"fast", "good", "better", "best"}
        The name.

    max_depth : int
        Columns of the windows; what paths have beyond is left out.

    n_words : int
        Words that can be predicted: few words have few classes.

    Returns
    -------
    estimator : classifier
        Not fitted.
    """
    n_classes = round(_CLASSES_A_ROOT * n_words**0.5)
    n_classes = max(1, min(_MOST_CLASSES, n_classes, n_words - 2))

    def tree(path, alpha=0.87):
        refiner = ContextRefiner(_cut(path, max_depth, n_classes))
        l2 = StructuredLogLinearLM(penalty="l2", lam=0.3, alpha=alpha)
        return make_pipeline(refiner, l2)

    def factored(factor):
        return FactoredLM(ExchangeClustering(n_classes, offsets=(-1, 1)), factor)

    if quality == "fast":
        return KneserNeyLM()
    if quality == "good":
        return tree(_LONG, 0.88)
    if quality == "better":
        return MixtureLM([("factored", factored(tree(_LONG))), ("kn", KneserNeyLM())])
    trees = [("long", _LONG), ("short", _SHORT), ("deep", _DEEP)]
    factor = MixtureLM([(name, tree(path)) for name, path in trees], weights="logistic")
    return MixtureLM(
        [("factored", factored(factor)), ("kn", KneserNeyLM())], weights="logistic"
    )


def _cut(path, max_depth, n_classes):
    """The steps of a path within the windows, with numbers of classes in proportion."""
    steps, seen = [], set()
    offsets = (1, 2)[:max_depth]
    for step in path.split():
        classes, position, word_position = _STEP.fullmatch(step).groups()
        where, what, scaled = int(position or word_position), "word", None
        if classes:
            scaled = max(1, round(int(classes) * n_classes / _MOST_CLASSES))
            what = ExchangeClustering(scaled, offsets=offsets)
        if where <= max_depth and (scaled, where) not in seen:
            seen.add((scaled, where))
            steps.append((what, where))
    return steps
