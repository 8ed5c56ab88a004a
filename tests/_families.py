"""The members of families, found by walking the package: no test lists them."""

import inspect
import pkgutil
from importlib import import_module

from sklearn.base import BaseEstimator

import sklstruct
from sklstruct.backoff import BackoffClassifier


def subclasses(base):
    """All classes of the package below `base`, by name."""
    for module in pkgutil.walk_packages(sklstruct.__path__, "sklstruct."):
        if not module.name.endswith("__main__"):
            import_module(module.name)
    found, left = set(), [base]
    while left:
        children = left.pop().__subclasses__()
        left += children
        found |= {c for c in children if c.__module__.startswith("sklstruct.")}
    return sorted(found, key=lambda kind: kind.__name__)


def public_estimators():
    for module in pkgutil.walk_packages(sklstruct.__path__, "sklstruct."):
        if any(part.startswith("_") for part in module.name.split(".")[1:]):
            continue
        package = import_module(module.name)
        for name in getattr(package, "__all__", ()):
            thing = getattr(package, name)
            if inspect.isclass(thing) and issubclass(thing, BaseEstimator):
                yield thing


def smoothers(variants=()):
    """Every n-gram smoother with its defaults, then the same with other parameters.

    A smoother is a model of counts over contexts whose name ends with LM.
    """
    kinds = [
        kind
        for kind in subclasses(BackoffClassifier)
        if kind.__name__.endswith("LM") and kind.__module__.split(".")[1] == "smoothing"
    ]
    return [*(kind() for kind in kinds), *variants]
