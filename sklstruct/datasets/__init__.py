"""Texts that every machine has, generators, and readers of files that people have."""

from ._clustered import make_clustered_classes
from ._grec import grec_instances, load_grec
from ._python_topics import load_python_topics
from ._sparse_classes import make_sparse_classes
from ._svmlight import load_pd_sparse, load_sparse_classes

__all__ = [
    "grec_instances",
    "load_grec",
    "load_pd_sparse",
    "load_python_topics",
    "load_sparse_classes",
    "make_clustered_classes",
    "make_sparse_classes",
]
