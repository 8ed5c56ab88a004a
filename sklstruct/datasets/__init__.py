"""Texts that every machine has, and generators."""

from ._clustered import make_clustered_classes
from ._grec import grec_instances, load_grec
from ._python_topics import load_python_topics

__all__ = [
    "grec_instances",
    "load_grec",
    "load_python_topics",
    "make_clustered_classes",
]
