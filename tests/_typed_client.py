"""A user's program over every public estimator, for type checkers: it is never run.

tests/test_types.py lets mypy read it, as it is and with misspelt methods.
"""

from typing import Any, assert_type

import numpy as np

from sklstruct import BackoffModel, KneserNeyLM, LanguageModel, SuffixTreeVectorizer
from sklstruct.backoff import *
from sklstruct.distributed import *
from sklstruct.factor_graph import *
from sklstruct.hierarchical import *
from sklstruct.hmm import *
from sklstruct.language_model import *
from sklstruct.linear import *
from sklstruct.loglinear import *
from sklstruct.metrics import *
from sklstruct.mixture import *
from sklstruct.smoothing import *
from sklstruct.taxonomy import *
from sklstruct.text import *
from sklstruct.word_classes import *


def windows(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    paths = SuffixTreeVectorizer(max_depth=2).fit_transform(X)
    assert_type(KneserNeyLM(2, discount="single").fit(paths, y), KneserNeyLM)
    assert_type(KneserNeyLM().fit(X, y).backoff_model_, BackoffModel)
    AbsoluteDiscountLM(discount=0.5).fit(X, y).target_log_proba(X, y)
    AdditiveLM(delta=0.5).partial_fit(X, y).predict(X)
    JelinekMercerLM().fit(X, y).predict_proba(X)
    KatzLM(k=3).fit(X, y).predict_log_proba(X)
    GrownLM(lam=0.1).fit(X, y).score(X, y)
    WittenBellLM().fit(X, y).score(X, y)
    FactoredLM().fit(X, y).predict_top_k(X, 3)
    MixtureLM([("kn", KneserNeyLM())]).fit(X, y).predict_weights(X)
    refiner = ContextRefiner([(ExchangeClustering(2), 1), ("word", 1)]).fit(X, y)
    TaxonomyClustering("ward", depth=2).fit(X, y).classes_of(y)
    clusterings = [ExchangeClustering(3, offsets=(1,))]
    model = MixtureLM([("kn", AdditiveLM())], weights=[1.0])
    return model.fit(refiner.transform(X), clusterings[0].fit(X).classes_of(y)).predict(
        X
    )


def loglinear(X: np.ndarray, y: np.ndarray) -> float:
    penalties: list[Penalty] = [L1(), L2(), ElasticNet(0.5), TreeL2(), TreeLinf()]
    solvers: list[Solver] = [DiagonalSolver(), FistaSolver(), TreeMetricSolver()]
    solvers += [AutoSolver(1e-3, gap_tol=0.1), ActiveSetSolver(max_iter=9, verbose=1)]
    kept = Checkpoint("fit.zip", interval=30.0)
    model = StructuredLogLinearLM(penalty=penalties[0], solver=solvers[0])
    StructuredLogLinearLM(2, lam=0.1, alpha=[1.0, 0.9, 0.8], checkpoint=kept)
    search = StructuredLogLinearLMCV(model, search=["lam"], max_fits=3)
    assert_type(search.fit(X, y).best_estimator_, StructuredLogLinearLM).predict(X)
    JointLogLinear(lam=0.1, solver=AutoSolver()).fit(X, y).target_log_proba(X, y)
    return assert_type(model, StructuredLogLinearLM).fit(X, y).score(X, y)


def unigrams(y: np.ndarray) -> float:
    AbsoluteDiscountUnigram(0.5).from_counts([3, 1, 0]).predict_proba(y)
    AdditiveUnigram(delta=1.0).fit(y, y).target_log_proba(y, y)
    GoodTuringUnigram(max_count=5).fit(y, y).predict(y)
    GraphDiffusionUnigram("kernel").fit(y, y).predict_log_proba(y)
    return GraphSpreadUnigram(spread=0.5).fit(y, y).score(y, y)


def sentences(X: list[str]) -> float:
    lm = LanguageModel(KneserNeyLM(), max_depth=2, min_count=2).fit(X)
    assert_type(lm, LanguageModel)
    assert_type(lm.perplexity(X), float)
    assert_type(compare(lm, lm, X).gain, float)
    assert_type(compare(lm, lm, X).interval, tuple[float, float])
    characters = LanguageModel("better", analyzer="char").fit(X)
    assert_type(characters.predict_next("a", k=1)[0][1], float)
    assert_type(lm.partial_fit(X).backoff_model_, BackoffModel)
    CacheLM(lm, max_order=3).fit([X]).perplexity([X])
    PerplexityTransformer("m.arpa", normalize="ccnet").fit().transform(X)
    decoder = NoisyChannelDecoder(lm, EditDistanceChannel(0.01)).fit([X])
    decoder.decode([X])
    NoisyChannelDecoder(lm, KeypadChannel()).fit([X]).predict_k([X], 3)
    LikelihoodScorer("neg_perplexity").score(lm, X, X)
    return (
        DaskLanguageModel(LanguageModel(KneserNeyLM())).fit(X).compute().perplexity(X)
    )


def classes(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    leaves = HierarchicalClassifier("ward", estimator=GammaPrior(2, 1)).fit(X, y)
    HierarchicalClassifier(estimator=PerNodeC()).fit(X, y).predict_top_k(X, 3)
    HierarchicalClassifier(estimator=LinearClassifier()).fit(X, y).decision_path(X)
    leaves.predict_at(X, 0.8)
    leaves.predict_node_proba(X, tree=0)
    leaves.heaviest_features(leaves.taxonomy_.find("a"), 3)
    leaves.partial_fit(X, y, classes=[0, 1]).predict_set(X, alpha=0.2)
    top, log_proba = leaves.predict_top_k(X, 3, return_log_proba=True)
    assert_type(perplexity(leaves, X, y), float)
    builders: list[TaxonomyBuilder] = [ConfusionSplit(), CutSplit(rank=5, max_leaf=3)]
    builders += [DiffracSplit(delta=4.0), GreedyMerge(n_rounds=2), HungarianMerge()]
    builders += [KMeansSplit(balanced=True), RandomSplit(random_state=0)]
    builders += [SpectralSplit(), WardMerge(n_rounds=2)]
    assert_type(RefinedTaxonomy("ward", "cut").build(X, y), Taxonomy)
    assert_type(builders[0].build(X, y), Taxonomy)
    net = StructuredLogisticRegression(ElasticNet(0.5), C=2.0)
    assert_type(net.fit(X, y), StructuredLogisticRegression).predict_top_k(X, 2)
    path = net.set_params(penalty=GroupLasso([0, 0, 1])).coef_path(X, y, Cs=[1.0])
    path.gap.max()
    tree = TreeNorm(ngram_parents(SuffixTreeVectorizer().fit(X), "first"), norm="l2")
    StructuredLogisticRegressionCV(
        net.set_params(penalty=tree), Cs=5, one_standard_error=True
    ).fit(X, y)
    return LinearClassifier("log_loss", C=2.0).fit(X, y).predict_log_proba(X)


def sequences(X: list[list[str]], Y: list[list[str]], graphs: list[FactorGraph]) -> Any:
    hmm = HighOrderHMM(order=2, emission=SuffixEmission(max_count=3)).fit(X, Y)
    HighOrderHMM(emission=CategoricalEmission(floor=0.1)).fit(X, Y).predict_proba(X)
    HighOrderHMM(2, emission=GaussianEmission("full", prior=0.1), end=False)
    HighOrderHMM(2, emission=PoissonEmission(0.0)).fit(X, Y).sample(2)[1].count([])
    emission = ClassifierEmission(LinearClassifier())
    HighOrderHMM(emission=emission).fit(X, Y).decode(X)
    texts = NgramVectorizer(analyzer="char", ngram_range=(1, 3), min_df=2)
    assert_type(texts.fit(["a text"]), NgramVectorizer).transform(["a text"])
    classes = TextClassifier(texts, C=2.0).fit(["a text"], ["a"])
    assert_type(classes.reduce(), TextClassifier).save("model.sktext")
    TextClassifier.load("model.sktext").predict_top_k(["a"], 1)[0]
    FactorGraphVectorizer().fit([{"a": 1.0}]).transform([{"a": 2.0}])
    ConditionalRandomField(0.1, min_count=2).fit([[["a"]]], [["b"]]).predict_proba(X)
    ConditionalRandomField.load("model.crfsuite").save("model.crfsuite.gz")
    SampleRankClassifier(step="adagrad").fit(graphs, Y).predict_marginals(graphs)
    return hmm.predict_k(X, 2)
