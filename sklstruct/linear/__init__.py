"""Linear classifiers: many classes on sparse rows, sparse and grouped features."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from .._penalties import L1, L2, ElasticNet
    from ._dual import DualLinearClassifier
    from ._penalties import GroupLasso, TreeNorm, ngram_parents
    from ._structured import (
        LinearPath,
        StructuredLogisticRegression,
        StructuredLogisticRegressionCV,
    )

__all__ = [
    "L1",
    "L2",
    "DualLinearClassifier",
    "ElasticNet",
    "GroupLasso",
    "LinearPath",
    "StructuredLogisticRegression",
    "StructuredLogisticRegressionCV",
    "TreeNorm",
    "ngram_parents",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            ".._penalties": ["L1", "L2", "ElasticNet"],
            "._dual": ["DualLinearClassifier"],
            "._penalties": ["GroupLasso", "TreeNorm", "ngram_parents"],
            "._structured": [
                "LinearPath",
                "StructuredLogisticRegression",
                "StructuredLogisticRegressionCV",
            ],
        },
    )
