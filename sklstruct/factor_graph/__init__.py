"""Structured prediction over factor graphs, by likelihood or by SampleRank."""

from typing import TYPE_CHECKING

from .._lazy import face

if TYPE_CHECKING:
    from ._builders import chain_edges as chain_edges
    from ._builders import chain_graph as chain_graph
    from ._builders import grid_edges as grid_edges
    from ._builders import grid_graph as grid_graph
    from ._builders import skip_chain_graph as skip_chain_graph
    from ._builders import skip_edges as skip_edges
    from ._crf import ConditionalRandomField as ConditionalRandomField
    from ._graph import FactorGraph as FactorGraph
    from ._samplerank import SampleRankClassifier as SampleRankClassifier
    from ._vectorizer import FactorGraphVectorizer as FactorGraphVectorizer
else:
    __all__, __getattr__, __dir__ = face(__name__)
