"""Structured prediction over factor graphs, by likelihood or by SampleRank."""

from typing import TYPE_CHECKING

from .._lazy import lazy_face

if TYPE_CHECKING:
    from ._builders import (
        chain_edges,
        chain_graph,
        grid_edges,
        grid_graph,
        skip_chain_graph,
        skip_edges,
    )
    from ._crf import ConditionalRandomField
    from ._graph import FactorGraph
    from ._samplerank import SampleRankClassifier
    from ._vectorizer import FactorGraphVectorizer

__all__ = [
    "ConditionalRandomField",
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

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            "._builders": [
                "chain_edges",
                "chain_graph",
                "grid_edges",
                "grid_graph",
                "skip_chain_graph",
                "skip_edges",
            ],
            "._crf": ["ConditionalRandomField"],
            "._graph": ["FactorGraph"],
            "._samplerank": ["SampleRankClassifier"],
            "._vectorizer": ["FactorGraphVectorizer"],
        },
    )
