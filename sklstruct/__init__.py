"""Structured sequence models with the scikit-learn interface."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version
from typing import TYPE_CHECKING

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

try:
    __version__ = _version("sklstruct")
except PackageNotFoundError as exc:  # a copied folder without its metadata
    raise ImportError(
        "sklstruct's compiled kernels are here but its package metadata is not: "
        "install it with `pip install .`"
    ) from exc

# Imported on first use, so that `import sklstruct` stays cheap. Type checkers read the
# imports; `_PUBLIC` says the same to Python.
if TYPE_CHECKING:
    from .backoff import BackoffModel
    from .context_tree import SuffixTreeVectorizer
    from .factor_graph import SampleRankClassifier
    from .hierarchical import HierarchicalClassifier
    from .hmm import HighOrderHMM, NoisyChannelDecoder
    from .language_model import LanguageModel
    from .linear import DualLinearClassifier
    from .loglinear import StructuredLogLinearLM
    from .smoothing import AdditiveLM, GraphDiffusionUnigram, KneserNeyLM

_PUBLIC = {
    "AdditiveLM": "smoothing",
    "BackoffModel": "backoff",
    "DualLinearClassifier": "linear",
    "GraphDiffusionUnigram": "smoothing",
    "HierarchicalClassifier": "hierarchical",
    "HighOrderHMM": "hmm",
    "KneserNeyLM": "smoothing",
    "LanguageModel": "language_model",
    "NoisyChannelDecoder": "hmm",
    "SampleRankClassifier": "factor_graph",
    "StructuredLogLinearLM": "loglinear",
    "SuffixTreeVectorizer": "context_tree",
}

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
    "SuffixTreeVectorizer",
    "__version__",
]

if not TYPE_CHECKING:  # or a type checker would find every name here

    def __getattr__(name: str) -> object:
        if name in _PUBLIC:
            return getattr(import_module(f".{_PUBLIC[name]}", __name__), name)
        raise AttributeError(f"module 'sklstruct' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
