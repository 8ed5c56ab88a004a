"""Structured sequence models with the scikit-learn interface."""

from importlib import import_module
from typing import TYPE_CHECKING

from ._lazy import face

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
    from ._trusted import TRUSTED_TYPES as TRUSTED_TYPES
    from ._version import __version__ as __version__
    from .backoff import BackoffModel as BackoffModel
    from .context_tree import SuffixTreeVectorizer as SuffixTreeVectorizer
    from .factor_graph import ConditionalRandomField as ConditionalRandomField
    from .factor_graph import SampleRankClassifier as SampleRankClassifier
    from .hierarchical import HierarchicalClassifier as HierarchicalClassifier
    from .hmm import HighOrderHMM as HighOrderHMM
    from .hmm import NoisyChannelDecoder as NoisyChannelDecoder
    from .language_model import LanguageModel as LanguageModel
    from .linear import LinearClassifier as LinearClassifier
    from .linear import StructuredLogisticRegression as StructuredLogisticRegression
    from .linear import StructuredLogisticRegressionCV as StructuredLogisticRegressionCV
    from .loglinear import StructuredLogLinearLM as StructuredLogLinearLM
    from .smoothing import AdditiveLM as AdditiveLM
    from .smoothing import GraphDiffusionUnigram as GraphDiffusionUnigram
    from .smoothing import KneserNeyLM as KneserNeyLM
else:
    __all__, __getattr__, __dir__ = face(__name__)
