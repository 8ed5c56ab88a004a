"""Structured sequence models with the scikit-learn interface."""

from importlib import import_module
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as _version

try:
    from .context_tree import _tree_fast  # noqa: F401
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

# Public name -> the package that defines it. Imported on first use, so that
# `import sklstruct` stays cheap.
_PUBLIC = {
    "AdditiveLM": "sklstruct.smoothing",
    "BackoffModel": "sklstruct.backoff",
    "DualLinearClassifier": "sklstruct.linear",
    "GraphDiffusionUnigram": "sklstruct.smoothing",
    "HierarchicalClassifier": "sklstruct.hierarchical",
    "HighOrderHMM": "sklstruct.hmm",
    "KneserNeyLM": "sklstruct.smoothing",
    "LanguageModel": "sklstruct.language_model",
    "NoisyChannelDecoder": "sklstruct.hmm",
    "SampleRankClassifier": "sklstruct.factor_graph",
    "StructuredLogLinearLM": "sklstruct.loglinear",
    "SuffixTreeVectorizer": "sklstruct.context_tree",
}

__all__ = ["__version__", *_PUBLIC]


def __getattr__(name: str) -> object:
    if name in _PUBLIC:
        return getattr(import_module(_PUBLIC[name]), name)
    raise AttributeError(f"module 'sklstruct' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
