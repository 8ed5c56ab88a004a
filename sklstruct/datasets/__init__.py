"""Texts that every machine has, and generators."""

from ._clustered import make_clustered_classes
from ._python_topics import load_python_topics

__all__ = ["load_python_topics", "make_clustered_classes"]
