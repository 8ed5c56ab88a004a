"""Classification along a taxonomy of classes."""

from ._classifier import HierarchicalClassifier

__all__ = ["HierarchicalClassifier"]
