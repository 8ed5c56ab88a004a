"""The types in skops files of our estimators; a test compares them with real files."""

from inspect import isabstract, isclass

from . import smoothing
from .backoff import BackoffModel
from .loglinear import PENALTIES, SOLVERS
from .mixture import FactoredLM, MixtureLM
from .mixture._gates import Gate
from .mixture._parts import Part
from .taxonomy import TAXONOMY_BUILDERS


def _concrete(kind):
    """The classes of the package below one, which have all of its methods.

    A subclass that a user wrote is not trusted.
    """
    for below in kind.__subclasses__():
        ours = below.__module__.startswith("sklstruct.")
        if ours and not isabstract(below):
            yield below
        yield from _concrete(below)


_SMOOTHERS = filter(isclass, (getattr(smoothing, name) for name in dir(smoothing)))
_NAMED = (*PENALTIES.values(), *SOLVERS.values(), *TAXONOMY_BUILDERS.values())
# The parts of the two composed models are defined where these are.
_COMPOSED = (FactoredLM, MixtureLM, *_concrete(Gate), *_concrete(Part))
_TREES = (BackoffModel, *_concrete(BackoffModel))

TRUSTED_TYPES = tuple(
    sorted(
        [
            *(
                f"{kind.__module__}.{kind.__qualname__}"
                for kind in {*_NAMED, *_SMOOTHERS, *_COMPOSED, *_TREES}
            ),
            "numpy.dtype",
            "scipy.sparse._csr.csr_array",
            "scipy.sparse._csr.csr_matrix",
            "sklstruct._checkpoint.Checkpoint",
            "sklstruct.backoff._batches.Batches",
            "sklstruct.backoff._counted.Counted",
            "sklstruct.backoff._readers.PathReader",
            "sklstruct.backoff._readers.WindowReader",
            "sklstruct.context_tree._pairs.Pairs",
            "sklstruct.context_tree._tree.ContextTree",
            "sklstruct.context_tree._vectorizer.SuffixTreeVectorizer",
            "sklstruct.factor_graph._crf.ConditionalRandomField",
            "sklstruct.factor_graph._pack.WeightLayout",
            "sklstruct.factor_graph._samplerank.SampleRankClassifier",
            "sklstruct.factor_graph._vectorizer.FactorGraphVectorizer",
            "sklstruct.hierarchical._chain_nodes.ChainNodes",
            "sklstruct.hierarchical._classifier.HierarchicalClassifier",
            "sklstruct.hierarchical._dual_nodes.DualNodes",
            "sklstruct.hierarchical._dual_nodes.Window",
            "sklstruct.hierarchical._estimator_nodes.EstimatorNodes",
            "sklstruct.hierarchical._inner_labels.RaisedLabels",
            "sklstruct.hierarchical._label_fold.NodeFold",
            "sklstruct.hierarchical._paths.PathClassifier",
            "sklstruct.hierarchical._searches.GammaPrior",
            "sklstruct.hierarchical._searches.PerNodeC",
            "sklstruct.hierarchical._senses.SenseClassifier",
            "sklstruct.hmm._channels.EditDistanceChannel",
            "sklstruct.hmm._channels.KeypadChannel",
            "sklstruct.hmm._channels._BoundEdits",
            "sklstruct.hmm._channels._BoundKeypad",
            "sklstruct.hmm._decoder.NoisyChannelDecoder",
            "sklstruct.hmm._classifier_emission.ClassifierEmission",
            "sklstruct.hmm._emissions.FrequencyEmission",
            "sklstruct.hmm._suffix_emission.SuffixEmission",
            "sklstruct.hmm._hmm.HighOrderHMM",
            "sklstruct.language_model._cache.CacheLM",
            "sklstruct.language_model._cache_state.CacheSettings",
            "sklstruct.language_model._language_model.LanguageModel",
            "sklstruct.language_model._perplexity.PerplexityFilter",
            "sklstruct.language_model._perplexity.PerplexityTransformer",
            "sklstruct.linear._classifier.LinearClassifier",
            "sklstruct.linear._labels.LabelColumns",
            "sklstruct.linear._penalties.GroupLasso",
            "sklstruct.linear._penalties.TreeNorm",
            "sklstruct.linear._structured.StructuredLogisticRegression",
            "sklstruct.linear._structured.StructuredLogisticRegressionCV",
            "sklstruct.linear._targets.Targets",
            "sklstruct.linear._weights.NodeWeights",
            "sklstruct.loglinear._cv.StructuredLogLinearLMCV",
            "sklstruct.loglinear._estimator.StructuredLogLinearLM",
            "sklstruct.loglinear._joint.JointLogLinear",
            "sklstruct.loglinear._joint_model.JointTrees",
            "sklstruct.metrics._likelihood.LikelihoodScorer",
            "sklstruct.mixture._models.FactoredModel",
            "sklstruct.mixture._models.MixtureModel",
            "sklstruct.mixture._parts.Reader",
            "sklstruct.symbols._labels.Labels",
            "sklstruct.taxonomy._forest.Forest",
            "sklstruct.taxonomy._label_paths.LabelTree",
            "sklstruct.taxonomy._taxonomy.Taxonomy",
            "sklstruct.taxonomy.builders._refine.RefinedTaxonomy",
            "sklstruct.word_classes._exchange.ExchangeClustering",
            "sklstruct.word_classes._refiner.ContextRefiner",
            "sklstruct.word_classes._taxonomy.TaxonomyClustering",
        ]
    )
)
"""Full names of the types that a skops file of an estimator of sklstruct may hold.

For ``skops.io.load(path, trusted=TRUSTED_TYPES)`` and for MLflow. None of them runs
code of the file when it is loaded, and types whose arrays are indices in kernels check
them. Two types are of NumPy and SciPy: our estimators contain objects of them."""
