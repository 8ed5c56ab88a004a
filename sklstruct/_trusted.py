"""The types in skops files of our estimators; a test compares them with real files."""

from importlib import import_module
from inspect import isabstract, isclass, isfunction

from ._checks import CheckedState
from ._compat import BaseEstimator
from ._penalties import Penalty
from .backoff import BackoffModel
from .mixture._gates import Gate
from .mixture._sub_models import SubModel
from .taxonomy import TaxonomyBuilder

# The packages whose estimators may be in files.
_PACKAGES = (
    "backoff context_tree factor_graph hierarchical hmm language_model "
    "linear loglinear metrics mixture smoothing taxonomy text word_classes"
)
# The packages of functions that are values of parameters, such as `graph` or `scoring`.
_PACKAGES_OF_FUNCTIONS = "metrics smoothing"


def _public(packages):
    for package in packages.split():
        module = import_module(f".{package}", __package__)
        yield from (getattr(module, name) for name in module.__all__)


def _is_estimator(kind):
    return isclass(kind) and issubclass(kind, BaseEstimator) and not isabstract(kind)


def _concrete(kind):
    """The concrete subclasses of a class in sklstruct.

    Subclasses of users are not trusted.
    """
    for below in kind.__subclasses__():
        ours = below.__module__.startswith("sklstruct.")
        if ours and not isabstract(below):
            yield below
        yield from _concrete(below)


# The parts of the two composed models, and states that check their arrays, are not
# public. Base classes are never fitted.
_KINDS = {
    *filter(_is_estimator, _public(_PACKAGES)), BackoffModel, *_concrete(BackoffModel),
    *_concrete(Gate), *_concrete(SubModel), *_concrete(CheckedState),
    *filter(isfunction, _public(_PACKAGES_OF_FUNCTIONS)),
} - {TaxonomyBuilder, Penalty}  # fmt: skip

TRUSTED_TYPES = tuple(
    sorted(
        [
            *(f"{kind.__module__}.{kind.__qualname__}" for kind in _KINDS),
            "numpy.dtype",
            "sklearn.metrics._scorer._Scorer",
            "scipy.sparse._csr.csr_array",
            "scipy.sparse._csr.csr_matrix",
            "sklstruct.backoff._batches.Batches",
            "sklstruct.backoff._counted.Counted",
            "sklstruct.backoff._counted.FrequentWords",
            "sklstruct.backoff._readers.PathReader",
            "sklstruct.backoff._readers.WindowReader",
            "sklstruct.context_tree._pairs.Pairs",
            "sklstruct.context_tree._tree.ContextTree",
            "sklstruct.factor_graph._pack.WeightLayout",
            "sklstruct.hierarchical._inner_labels.RaisedLabels",
            "sklstruct.hierarchical._label_fold.NodeFold",
            "sklstruct.hierarchical._label_fold.Window",
            "sklstruct.hierarchical._score_model.ScoreModel",
            "sklstruct.hmm._beam.CursorAutomaton",
            "sklstruct.hmm._channels._BoundKeypad",
            "sklstruct.hmm._suffix_emission.spelling",
            "sklstruct.language_model._cache_state.CacheSettings",
            "sklstruct.linear._labels.LabelColumns",
            "sklstruct.linear._targets.Targets",
            "sklstruct.mixture._models.MixtureModel",
            "sklstruct.mixture._transforms.ContextReader",
            "sklstruct.symbols._labels.Labels",
            "sklstruct.taxonomy._forest.Forest",
            "sklstruct.taxonomy._taxonomy.Taxonomy",
            "sklstruct.text._scores.Reduced",
        ]
    )
)
"""Full names of the types that a skops file of an estimator of sklstruct may hold.

For ``skops.io.load(path, trusted=TRUSTED_TYPES)`` and for MLflow. None of them runs
code of the file when it is loaded, and types whose arrays are indices in kernels check
them. Types of NumPy, SciPy and scikit-learn are those of objects in our estimators."""
