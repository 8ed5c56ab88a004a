"""Linear classifiers of many classes on sparse rows."""

from ._dual import DualLinearClassifier

__all__ = ["DualLinearClassifier"]
