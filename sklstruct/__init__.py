"""Structured sequence models with the scikit-learn interface."""

from importlib import import_module
from typing import TYPE_CHECKING

from ._lazy import lazy_face

try:
    import_module("._cyutility", __name__)  # what all kernels need
except ImportError as exc:
    raise ImportError(
        "sklstruct was imported from a source tree whose compiled kernels are not "
        "built (or were built for another Python). Install it with `pip install .` "
        "in the folder that holds pyproject.toml, then start Python from another "
        "folder, or run your program as a file (`python examples/quickstart.py`), "
        "so that the installed package is found and not the source tree. For an "
        "editable install see docs/development.rst"
    ) from exc

# Imported on first use, so that `import sklstruct` stays cheap.
if TYPE_CHECKING:
    from ._trusted import TRUSTED_TYPES
    from ._version import __version__
    from .backoff import BackoffModel
    from .context_tree import SuffixTreeVectorizer
    from .factor_graph import SampleRankClassifier
    from .hierarchical import HierarchicalClassifier
    from .hmm import HighOrderHMM, NoisyChannelDecoder
    from .language_model import LanguageModel
    from .linear import (
        DualLinearClassifier,
        StructuredLogisticRegression,
        StructuredLogisticRegressionCV,
    )
    from .loglinear import StructuredLogLinearLM
    from .smoothing import AdditiveLM, GraphDiffusionUnigram, KneserNeyLM

__all__ = [
    "AdditiveLM",
    "BackoffModel",
    "DualLinearClassifier",
    "GraphDiffusionUnigram",
    "HierarchicalClassifier",
    "HighOrderHMM",
    "KneserNeyLM",
    "LanguageModel",
    "NoisyChannelDecoder",
    "SampleRankClassifier",
    "StructuredLogLinearLM",
    "StructuredLogisticRegression",
    "StructuredLogisticRegressionCV",
    "SuffixTreeVectorizer",
    "TRUSTED_TYPES",
    "__version__",
]

if not TYPE_CHECKING:  # or a type checker would find every name here
    __getattr__, __dir__ = lazy_face(
        __name__,
        {
            ".backoff": ["BackoffModel"],
            ".context_tree": ["SuffixTreeVectorizer"],
            ".factor_graph": ["SampleRankClassifier"],
            ".hierarchical": ["HierarchicalClassifier"],
            ".hmm": ["HighOrderHMM", "NoisyChannelDecoder"],
            ".language_model": ["LanguageModel"],
            ".linear": [
                "DualLinearClassifier",
                "StructuredLogisticRegression",
                "StructuredLogisticRegressionCV",
            ],
            ".loglinear": ["StructuredLogLinearLM"],
            ".smoothing": ["AdditiveLM", "GraphDiffusionUnigram", "KneserNeyLM"],
            "._trusted": ["TRUSTED_TYPES"],
            "._version": ["__version__"],
        },
    )
