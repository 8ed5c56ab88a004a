"""Structured prediction over factor graphs, learned by SampleRank."""

from ._builders import (
    chain_edges,
    chain_graph,
    grid_edges,
    grid_graph,
    skip_chain_graph,
    skip_edges,
)
from ._graph import FactorGraph
from ._samplerank import SampleRankClassifier
from ._vectorizer import FactorGraphVectorizer

__all__ = [
    "FactorGraph",
    "FactorGraphVectorizer",
    "SampleRankClassifier",
    "chain_edges",
    "chain_graph",
    "grid_edges",
    "grid_graph",
    "skip_chain_graph",
    "skip_edges",
]
