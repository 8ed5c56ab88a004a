"""Every public estimator with something learned, and the questions that it answers."""

import os
import tempfile
import warnings
from functools import partial

import numpy as np
import scipy.sparse as sp
from _families import smoothers
from _loglinear import joint_loglinear, loglinear, loglinear_cv
from _nodes import logistic
from _oracles import toy
from sklearn.base import clone
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.naive_bayes import MultinomialNB
from sklearn.pipeline import make_pipeline

from sklstruct import (
    AdditiveLM,
    HierarchicalClassifier,
    KneserNeyLM,
    LanguageModel,
    LinearClassifier,
    StructuredLogisticRegression,
    StructuredLogisticRegressionCV,
    SuffixTreeVectorizer,
)
from sklstruct.factor_graph import (
    ConditionalRandomField,
    FactorGraphVectorizer,
    SampleRankClassifier,
)
from sklstruct.hierarchical import (
    GammaPrior,
    PerNodeC,
)
from sklstruct.hmm import (
    CategoricalEmission,
    ClassifierEmission,
    EditDistanceChannel,
    GaussianEmission,
    HighOrderHMM,
    KeypadChannel,
    NoisyChannelDecoder,
    PoissonEmission,
    SuffixEmission,
)
from sklstruct.language_model import CacheLM, PerplexityTransformer
from sklstruct.linear import GroupLasso, TreeNorm
from sklstruct.loglinear import PENALTIES, Checkpoint
from sklstruct.loglinear._solvers import SOLVERS
from sklstruct.metrics import LikelihoodScorer
from sklstruct.mixture import FactoredLM, MixtureLM
from sklstruct.smoothing import (
    AbsoluteDiscountUnigram,
    AdditiveUnigram,
    GoodTuringUnigram,
    GraphDiffusionUnigram,
    GraphSpreadUnigram,
    GrownLM,
    WittenBellLM,
)
from sklstruct.taxonomy import (
    TAXONOMY_BUILDERS,
    RefinedTaxonomy,
    Taxonomy,
)
from sklstruct.text import NgramVectorizer, TextClassifier
from sklstruct.word_classes import (
    ContextRefiner,
    ExchangeClustering,
    TaxonomyClustering,
)

TEXT = [
    "the cat sat on the mat",
    "a dog sat on the cat",
    "the dog ran to the mat",
    "a cat ran",
    "the fox sat",
    "on the mat a cat sat",
] * 3
NEW = ["the cat ran on the zebra", "a fox", ""]
SEQUENCES = [s.split() for s in TEXT]
TAGS = [[w[0] if w != "the" else "D" for w in s] for s in SEQUENCES]
GROUPS = {c: ["left" if c < "x" else "right"] for c in "vwxyz"}

# Of the rows of features, and of the words of a text.
QUESTIONS = {
    "rows": [
        ("predict",), ("predict_proba",), ("predict_log_proba",), ("predict_top_k", 2),
        ("decision_function",), ("decision_path",), ("transform",),
        ("predict_node_proba",), ("predict_at",), ("predict_set",),
        ("predict_weights",), ("locate",), ("sample", 3),
    ],
    "sentences": [
        ("token_log_proba",), ("score_samples",), ("perplexity",),
        ("perplexity_by_depth",), ("perplexity_by_sentence",), ("evaluate",),
        ("score_stream",), ("partial_fit",),
    ],
    "sequences": [
        ("predict",), ("predict_k", 3), ("predict_proba",), ("log_likelihood",),
        ("sample_posterior", 2), ("decode",), ("candidates",),
    ],
    "words": [("classes_of",)],
    "graphs": [
        ("predict",), ("predict_proba",), ("predict_marginals",), ("sample", 3),
    ],
    "documents": [("transform",), ("predict",)],
}  # fmt: skip


def ask(model, kind, X, y=None):
    """Every question once; an answer or an exception, both are allowed."""
    answers = {}

    def put(name, call):
        try:
            answers[name] = call()
        except Exception as exc:
            # Without the frames, which hold the answers.
            exc.__context__ = exc.__cause__ = None
            answers[name] = exc.with_traceback(None)

    for name, *arguments in QUESTIONS[kind]:
        if hasattr(model, name):
            put(name, partial(getattr(model, name), X, *arguments))
    if y is not None and hasattr(model, "target_log_proba"):
        put("target_log_proba", lambda: model.target_log_proba(X, y))
    if kind == "sentences":
        put("next", lambda: model.predict_next(["the cat"], k=2))
        put("sample", lambda: model.sample(2, random_state=0, max_length=5))
        put("rows", lambda: model.rows(model.begin()))
        put("advance", lambda: model.advance(model.begin(), "cat"))
        put("heaviest", lambda: model.heaviest_ngrams(3))
        with tempfile.TemporaryDirectory() as folder:
            for name in ("m.arpa", "m.bin", "m.sklm"):
                path = os.path.join(folder, name)
                put(name, lambda path=path: model.save(path))
    return answers


def samples():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    y = np.array(list("vwxyz"))[np.arange(60) % 5]
    X[:, 0] += np.arange(60) % 5
    return X, y


def graph_instances():
    words = SEQUENCES[0]
    variables = [
        {"candidates": ["n", "v"], "features": {"word": w, "first": w[0]}}
        for w in words
    ]
    edges = [(i, i + 1, "next") for i in range(len(words) - 1)]
    return [{"variables": variables, "edges": edges}] * 3


def fitted():
    """name -> (model, question or None): a function that makes each of them."""
    found = {}

    windows, target = toy()
    paths = sp.csr_array(SuffixTreeVectorizer(max_depth=3).fit_transform(windows))
    features, label = samples()
    sparse = sp.csr_array(np.where(features > 0, features, 0))

    def put(model, X, y, kind="rows", name=None):
        name = name or type(model).__name__
        found[name] = (lambda: clone(model).fit(X, y), kind, X, y)

    # contexts
    for smoother in (
        *smoothers([GrownLM(lam=0.1)]),
        loglinear(max_iter=20), loglinear_cv(max_fits=2),
        joint_loglinear(max_iter=5), AdditiveUnigram(), AbsoluteDiscountUnigram(),
        GoodTuringUnigram(), GraphDiffusionUnigram(), GraphSpreadUnigram(),
        MixtureLM([("kn", KneserNeyLM()), ("wb", WittenBellLM())]),
    ):  # fmt: skip
        put(smoother, windows, target)
    put(KneserNeyLM(), paths, target, name="KneserNeyLM of paths")
    put(loglinear(max_iter=5), paths, target, name="log-linear of paths")
    put(FactoredLM(ExchangeClustering(2), AdditiveLM()), windows, target)
    put(SuffixTreeVectorizer(), windows, None)
    put(SuffixTreeVectorizer(collapse=True), windows, None, name="collapsed vectorizer")
    put(ContextRefiner([(ExchangeClustering(2), 1), ("word", 1)]), windows, target)

    # features
    for name, model in {
        "HierarchicalClassifier": HierarchicalClassifier(),
        "hierarchical, conf": HierarchicalClassifier("conf"),
        "hierarchical, logistic": HierarchicalClassifier(estimator=logistic()),
        "hierarchical of two": HierarchicalClassifier(n_taxonomies=2),
        "hierarchical of leaves": HierarchicalClassifier(max_leaf=2),
        "hierarchical of estimators": HierarchicalClassifier(
            estimator=LogisticRegression()
        ),
        "LinearClassifier": LinearClassifier(),
        "dual of probabilities": LinearClassifier("log_loss"),
        "StructuredLogisticRegression": StructuredLogisticRegression(),
        "StructuredLogisticRegressionCV": StructuredLogisticRegressionCV(
            StructuredLogisticRegression(), Cs=3
        ),
        "logistic of groups": StructuredLogisticRegression(GroupLasso()),
        "logistic of a tree": StructuredLogisticRegression(TreeNorm([-1, 0, 0, 1])),
    }.items():
        if hasattr(model, "random_state"):
            model.set_params(random_state=0)
        for X, kind in ((features, ""), (sparse, ", sparse")):
            if not kind or isinstance(
                model,
                HierarchicalClassifier
                | LinearClassifier
                | StructuredLogisticRegression,
            ):
                put(model, X, label, name=name + kind)

    # words
    def words(make, name=None):
        name = name or type(make).__name__
        found[name] = (lambda: clone(make).fit(TEXT), "sentences", NEW, None)

    words(LanguageModel(KneserNeyLM(discount=0.5), max_depth=2))
    words(
        LanguageModel(loglinear(max_iter=5), max_depth=2),
        "log-linear words",
    )
    words(
        LanguageModel(
            make_pipeline(
                ContextRefiner([(ExchangeClustering(2), 1), ("word", 1)]),
                WittenBellLM(),
            ),
            max_depth=2,
        ),
        "refined words",
    )  # fmt: skip
    words(
        LanguageModel(FactoredLM(ExchangeClustering(2), WittenBellLM()), max_depth=2),
        "factored words",
    )
    words(
        LanguageModel(
            MixtureLM([("kn", KneserNeyLM(discount=0.5)), ("wb", WittenBellLM())]),
            max_depth=2,
        ),
        "mixture of words",
    )
    base = LanguageModel(WittenBellLM(), max_depth=2).fit(TEXT)
    words(
        CacheLM(
            FrozenEstimator(base), max_order=2, half_life=100, word_classes=2,
            weights="em",
        )
    )  # fmt: skip
    found["words counted in batches"] = (
        lambda: LanguageModel(WittenBellLM(), max_depth=2).partial_fit(TEXT),
        "sentences", NEW, None,
    )  # fmt: skip
    found["ExchangeClustering"] = (
        lambda: ExchangeClustering(2).fit(TEXT), "words", ["cat", "zebra"], None
    )  # fmt: skip
    tree = Taxonomy.from_nested([["cat", "dog"], ["sat", "ran"]])
    found["TaxonomyClustering"] = (
        lambda: TaxonomyClustering(tree, depth=1).fit(TEXT), "words", ["cat"], None
    )  # fmt: skip
    put(PerplexityTransformer(FrozenEstimator(base)), TEXT, None, kind="documents")

    # sequences
    for emission, name in (
        (SuffixEmission(), "HighOrderHMM"),
        (CategoricalEmission(floor=0.01), "hmm of frequencies"),
    ):
        put(HighOrderHMM(3, emission=emission), SEQUENCES, TAGS, "sequences", name)
    numbers = [np.random.default_rng(i).integers(0, 3, (5, 4)) for i in range(20)]
    put(
        HighOrderHMM(2, emission=ClassifierEmission(MultinomialNB())),
        numbers, [[str(v) for v in x[:, 0]] for x in numbers], "sequences",
        "hmm of a classifier",
    )  # fmt: skip
    for emission in (GaussianEmission(), GaussianEmission("full"), PoissonEmission()):
        put(
            HighOrderHMM(2, emission=emission, end=False), numbers,
            [[str(v) for v in x[:, 0]] for x in numbers], "sequences",
            f"hmm of {emission}",
        )  # fmt: skip
    language = LanguageModel(WittenBellLM(), max_depth=2)
    for name, channel, X in (
        ("NoisyChannelDecoder", EditDistanceChannel(), SEQUENCES[:2]),
        ("decoder of keys", KeypadChannel(), [["843", "228"]]),
    ):
        found[name] = (
            lambda channel=channel: NoisyChannelDecoder(language, channel).fit(TEXT),
            "sequences", X, None,
        )  # fmt: skip
    for emission in (SuffixEmission(), CategoricalEmission()):
        ids = [[ord(t) % 4 for t in tags] for tags in TAGS]
        found[type(emission).__name__] = (
            lambda e=emission, ids=ids: clone(e).fit(SEQUENCES, ids, 4), "sequences",
            SEQUENCES[0], None,
        )  # fmt: skip
    for emission in (GaussianEmission(), PoissonEmission()):
        ids = [x[:, 0] for x in numbers]
        found[type(emission).__name__] = (
            lambda e=emission, ids=ids: clone(e).fit(numbers, ids, 4), "sequences",
            [numbers[0]], None,
        )  # fmt: skip

    # graphs
    X = graph_instances()
    y = [[("n", "v")[w[0] in "sr"] for w in SEQUENCES[0]]] * len(X)
    put(FactorGraphVectorizer(), X, None, kind="documents")
    put(NgramVectorizer(ngram_range=(1, 2)), TEXT, None, kind="documents")
    letters = NgramVectorizer(analyzer="char_wb", ngram_range=(1, 3), n_jobs=2)
    put(letters, TEXT, None, "documents", "n-grams of letters")
    kinds = [words.split()[1] for words in TEXT]
    texts = TextClassifier("both", min_df=1, random_state=0)
    put(texts, TEXT, kinds, kind="documents")
    found["reduced texts"] = (
        lambda: clone(texts).fit(TEXT, kinds).reduce(), "documents", TEXT, kinds,
    )  # fmt: skip
    graphs = FactorGraphVectorizer().fit_transform(X)
    put(SampleRankClassifier(random_state=0, epochs=2), graphs, y, kind="graphs")
    put(ConditionalRandomField(), graphs, y, kind="graphs")
    items = [[[f"word={word}"] for word in row] for row in SEQUENCES]
    put(ConditionalRandomField(0.1), items, TAGS, "graphs", "field of observations")

    # parts, which learn nothing
    parts = [kind() for kind in (PerNodeC, GammaPrior, *PENALTIES.values())]
    parts += [kind() for kind in (*SOLVERS.values(), *TAXONOMY_BUILDERS.values())]
    parts += [
        RefinedTaxonomy(GROUPS), Checkpoint("folder"),
        EditDistanceChannel(), KeypadChannel(), LikelihoodScorer(),
        ClassifierEmission(MultinomialNB()), TreeNorm([-1, 0]), GroupLasso(),
    ]  # fmt: skip
    for part in parts:
        found[type(part).__name__] = (lambda part=part: part, None, None, None)

    # several labels per sample
    several = np.stack([label < "x", label > "w", label == "z"], axis=1).astype(int)
    for model in (
        HierarchicalClassifier([[0, 1], 2], random_state=0),
        LinearClassifier(random_state=0),
        StructuredLogisticRegression(),
    ):
        name = f"{type(model).__name__} of several labels"
        put(model, features, several, name=name)
    above = HierarchicalClassifier({1: 0, 2: 0}, random_state=0)
    put(above, features, several, name="hierarchical of several labels, one above all")

    def in_batches():
        model = HierarchicalClassifier([["v", "w"], ["x", "y", "z"]], random_state=0)
        model.partial_fit(features[:40], label[:40], classes=list("vwxyz"))
        return model.partial_fit(features[40:], label[40:])

    found["hierarchical in batches"] = (in_batches, "rows", features, label)
    mixed = LanguageModel(MixtureLM([("wb", WittenBellLM())], weights=[1.0]))
    found["decoder with a beam"] = (
        lambda: NoisyChannelDecoder(
            mixed, EditDistanceChannel(), beam_width=4
        ).fit(TEXT),
        "sequences", SEQUENCES[:2], None,
    )  # fmt: skip
    return found


def make(entry):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return entry[0]()
