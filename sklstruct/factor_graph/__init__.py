"""Structured prediction over factor graphs, by likelihood or by SampleRank."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._builders import chain_graph as chain_graph
    from ._builders import grid_graph as grid_graph
    from ._crf import ConditionalRandomField as ConditionalRandomField
    from ._graph import FactorGraph as FactorGraph
    from ._samplerank import SampleRankClassifier as SampleRankClassifier
    from ._vectorizer import FactorGraphVectorizer as FactorGraphVectorizer
else:
    __all__, __getattr__, __dir__ = face(__name__)
