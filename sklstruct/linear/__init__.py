"""Linear classifiers: many classes of sparse samples, sparse and grouped features."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._classifier import LinearClassifier as LinearClassifier
    from ._penalties import GroupLasso as GroupLasso
    from ._penalties import TreeNorm as TreeNorm
    from ._penalties import ngram_parents as ngram_parents
    from ._structured import (
        StructuredLogisticRegression as StructuredLogisticRegression,
    )
    from ._structured_cv import (
        StructuredLogisticRegressionCV as StructuredLogisticRegressionCV,
    )
else:
    __all__, __getattr__, __dir__ = face(__name__)
