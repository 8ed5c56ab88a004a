"""Texts that every machine has, generators, and readers of files that people have."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._clustered import make_clustered_classes
    from ._grec import grec_instances, load_grec
    from ._python_topics import load_python_topics
    from ._sparse_classes import make_sparse_classes
    from ._svmlight import (
        load_pd_sparse,
        load_sparse_classes,
        load_sparse_labels,
        save_sparse_labels,
    )

__all__ = [
    "grec_instances",
    "load_grec",
    "load_pd_sparse",
    "load_python_topics",
    "load_sparse_classes",
    "load_sparse_labels",
    "make_clustered_classes",
    "make_sparse_classes",
    "save_sparse_labels",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._clustered": ["make_clustered_classes"],
            "._grec": ["grec_instances", "load_grec"],
            "._python_topics": ["load_python_topics"],
            "._sparse_classes": ["make_sparse_classes"],
            "._svmlight": [
                "load_pd_sparse",
                "load_sparse_classes",
                "load_sparse_labels",
                "save_sparse_labels",
            ],
        },
    )
