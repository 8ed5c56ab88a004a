"""Counted: made, merged, cut and compared; the way to the fit changes no model."""

import pickle

import numpy as np
import pytest
import scipy.sparse as sp
from _families import public_estimators
from sklearn.base import clone

from sklstruct import KneserNeyLM, StructuredLogLinearLM, SuffixTreeVectorizer
from sklstruct.backoff import Counted, count_windows
from sklstruct.backoff._batches import decayed
from sklstruct.backoff._counting import count_paths
from sklstruct.backoff._estimator import BackoffClassifier
from sklstruct.language_model import LanguageModel
from sklstruct.loglinear import StructuredLogLinearLMCV
from sklstruct.smoothing import WittenBellLM
from sklstruct.symbols import Labels, TextFile

FAMILIES = sorted(
    {kind for kind in public_estimators() if issubclass(kind, BackoffClassifier)},
    key=lambda kind: kind.__name__,
)
REQUIRED = {StructuredLogLinearLMCV: {"estimator": StructuredLogLinearLM()}}
quiet = pytest.mark.filterwarnings("ignore::UserWarning")


def random_text(seed, n=80):
    rng = np.random.default_rng(seed)
    words = np.array(["the", "cat", "dog", "sat", "ran", "home", "a", "zebra"])
    sizes = rng.integers(0, 7, n)
    p = rng.dirichlet(np.full(words.size, 0.7))
    return [" ".join(words[rng.choice(words.size, size, p=p)]) for size in sizes]


def arrays(counted):
    pairs, tree = counted.pairs, counted.pairs.tree
    found = [pairs.ptr, pairs.target, counted.count, tree.parent, tree.symbol]
    return [array.copy() for array in found]


def same_counts(a, b):
    assert (a.pairs, a.labels) == (b.pairs, b.labels)
    assert (a.max_depth, a.depth) == (b.max_depth, b.depth)
    np.testing.assert_array_equal(a.count, b.count)


def same_bits(a, b):
    assert a.pairs == b.pairs
    np.testing.assert_array_equal(a.log_prob, b.log_prob)
    np.testing.assert_array_equal(a.log_backoff, b.log_backoff)
    assert a.labels == b.labels


@quiet
@pytest.mark.parametrize("kind", FAMILIES, ids=lambda kind: kind.__name__)
def test_fit_of_counts_is_fit_of_the_text_and_leaves_the_counts(kind):
    text = random_text(0)
    lm = LanguageModel(kind(**REQUIRED.get(kind, {})), max_depth=3)
    counted = lm.count(text)
    before = arrays(counted)
    same_bits(clone(lm).fit(counted).backoff_model_, clone(lm).fit(text).backoff_model_)
    for array, was in zip(arrays(counted), before):
        np.testing.assert_array_equal(array, was)
    assert counted.pairs._parent is not None  # which a model that is kept alone lacks
    sent = pickle.loads(pickle.dumps(counted))
    same_counts(sent, counted)
    same_counts(sent, clone(lm).count(text))
    same_bits(clone(lm).fit(sent).backoff_model_, clone(lm).fit(text).backoff_model_)
    with pytest.raises(ValueError, match="read-only"):
        counted.count[0] = 7.0


@quiet
@pytest.mark.parametrize(
    "kind, paths",
    [(kind, False) for kind in FAMILIES]
    + [(kind, True) for kind in (KneserNeyLM, *REQUIRED)],
)
def test_fit_of_counted_windows_is_fit(kind, paths):
    rng = np.random.default_rng(1)
    X, y = rng.integers(0, 4, (200, 3)).astype(np.int32), rng.integers(0, 4, 200)
    y = y.astype(np.int32)
    labels, make = Labels.of_ids(4, 4), count_windows
    estimator = kind(**REQUIRED.get(kind, {}))
    if paths:
        X = SuffixTreeVectorizer(max_depth=3, padding=-1).fit_transform(X)
        labels, make = Labels(np.arange(4)), count_paths
    share = estimator.held_out_share
    weight = rng.integers(0, 3, 200).astype(float)
    counted = make(X, y, labels, sample_weight=weight, share=share)
    fitted = clone(estimator).fit_counted(counted)
    whole = clone(estimator).fit(X, y, sample_weight=weight)
    np.testing.assert_array_equal(fitted.predict_proba(X), whole.predict_proba(X))
    assert fitted.n_features_in_ == whole.n_features_in_ == X.shape[1]
    assert fitted.depth_ == whole.depth_


@pytest.mark.parametrize("n_parts", [1, 2, 5])
def test_merged_parts_are_the_whole(n_parts):
    text = random_text(2)
    lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=3)
    parts = [lm.count(list(part)) for part in np.array_split(text, n_parts)]
    merged, whole = Counted.merge(parts), lm.count(text)
    same_counts(merged, whole)
    np.testing.assert_array_equal(merged.pairs.parent, whole.pairs.parent)
    # In the labels of the whole, in any order.
    same_counts(Counted.merge(parts[::-1], whole.labels), whole)


@pytest.mark.parametrize("rule", [{"min_count": 2}, {"max_vocabulary": 3}])
def test_counts_of_frequent_words_are_not_merged(rule):
    """A word that is rare in each part may be frequent in the whole."""
    lm = LanguageModel(WittenBellLM(), max_depth=2, **rule)
    parts = [lm.count(["a b", "a c"]), lm.count(["d b", "d c"])]
    with pytest.raises(ValueError, match="^parts: min_count or max_vocabulary"):
        Counted.merge(parts)
    with pytest.raises(ValueError, match="^parts: min_count or max_vocabulary"):
        LanguageModel(WittenBellLM(), max_depth=2).partial_fit(parts[0])
    assert lm.fit(parts[0]).perplexity(["a b"]) == lm.fit(["a b", "a c"]).perplexity(
        ["a b"]
    )
    # The words of all parts are one vocabulary.
    lm = LanguageModel(WittenBellLM(), max_depth=2, vocabulary=["a", "b", "c", "d"])
    parts = [lm.count(["a b", "a c"]), lm.count(["d b", "d c"])]
    same_counts(Counted.merge(parts), lm.count(["a b", "a c", "d b", "d c"]))


def test_one_counted_text_is_not_a_list_of_parts():
    with pytest.raises(TypeError, match="^parts must be a sequence of Counted"):
        Counted.merge(LanguageModel().count(["a b"]))


def test_batches_that_were_counted():
    text = random_text(10)
    whole = LanguageModel(WittenBellLM(), max_depth=2).fit(text)
    parts = LanguageModel(WittenBellLM(), max_depth=2)
    for batch in np.array_split(text, 3):
        counted = LanguageModel(max_depth=3).count(list(batch))
        before = arrays(counted)
        parts.partial_fit(counted)
        for array, was in zip(arrays(counted), before):
            np.testing.assert_array_equal(array, was)
    same_bits(parts.backoff_model_, whole.backoff_model_)


def test_equal_texts_have_equal_counts(tmp_path):
    text = [line for line in random_text(3) if line]
    lm = LanguageModel(WittenBellLM(), max_depth=3)
    counted = lm.count(text)
    path = tmp_path / "text"
    path.write_text("\n".join(text) + "\n")
    for same in (
        lm.count(text), lm.count([line.split() for line in text]),
        lm.count(TextFile(path)), lm.count(text, sample_weight=np.ones(len(text))),
        lm.count(text[::-1]),
    ):  # fmt: skip
        same_counts(same, counted)


def test_cut_counts_are_those_of_a_smaller_depth():
    text = random_text(4)
    deep = LanguageModel(WittenBellLM(), max_depth=4).count(text)
    for depth in (1, 2, 3):
        cut = deep.cut(depth)
        flat = LanguageModel(WittenBellLM(), max_depth=depth).count(text)
        assert cut.pairs == flat.pairs
        np.testing.assert_array_equal(cut.count, flat.count)
        lm = LanguageModel(WittenBellLM(), max_depth=depth)
        same_bits(clone(lm).fit(deep).backoff_model_, lm.fit(text).backoff_model_)
    held_out = LanguageModel(KneserNeyLM(discount="tuned"), max_depth=4)
    whole = held_out.count(text, X_val=text[:20])
    held_out.set_params(max_depth=2)
    np.testing.assert_allclose(
        clone(held_out).fit(whole).estimator_.discounts_,
        clone(held_out).fit(text, X_val=text[:20]).estimator_.discounts_,
    )


def test_decayed_counts():
    counted = LanguageModel(WittenBellLM(), max_depth=2).count(random_text(5))
    half = decayed(counted, 0.5)
    np.testing.assert_array_equal(half.count, 0.5 * counted.count)
    gone = decayed(half, 1e-9 / 0.8)  # what occurred once is forgotten
    n_classes = counted.labels.n_classes
    kept = counted.count * 0.5 / 0.8 >= 1.0
    assert gone.pairs.n_pairs == n_classes + kept[n_classes:].sum()
    assert gone.labels is counted.labels


def test_counts_that_do_not_fit_are_refused():
    text = random_text(6)
    lm = LanguageModel(KneserNeyLM(discount=0.5), max_depth=2)
    counted = lm.count(text)
    with pytest.raises(ValueError, match="^X was counted with start"):
        clone(lm).set_params(end="END").fit(counted)
    with pytest.raises(ValueError, match=r"^X was counted with contexts of up to 2"):
        clone(lm).set_params(max_depth=3).fit(counted)
    with pytest.raises(ValueError, match="^X was counted already"):
        clone(lm).fit(counted, sample_weight=np.ones(len(text)))
    tuned = LanguageModel(KneserNeyLM(discount="tuned"), max_depth=2)
    with pytest.raises(ValueError, match="^counted: .* held-out"):
        tuned.fit(counted)
    with pytest.raises(ValueError, match="^classes: "):
        KneserNeyLM(classes=["a"]).fit_counted(counted)
    with pytest.raises(TypeError, match="^counted must be a Counted"):
        KneserNeyLM().fit_counted(text)
    with pytest.raises(ValueError, match="^parts is empty"):
        Counted.merge([])
    with pytest.raises(ValueError, match="^parts were counted to the depths"):
        Counted.merge([counted, clone(lm).set_params(max_depth=1).count(text)])
    with pytest.raises(ValueError, match="^parts were counted with other marks"):
        Counted.merge([counted, clone(lm).set_params(start=None).count(text)])
    with pytest.raises(ValueError, match="^parts: .*held-out"):
        Counted.merge([tuned.count(text)])
    with pytest.raises(ValueError, match="^parts: .*held-out"):
        clone(lm).partial_fit(tuned.count(text))
    deferred = LanguageModel(KneserNeyLM(discount="by_block"), max_depth=2).count(text)
    with pytest.raises(ValueError, match="^parts: .*not counted yet"):
        clone(lm).partial_fit(deferred)
    from sklearn.linear_model import LogisticRegression

    other = LanguageModel(LogisticRegression(), max_depth=2)
    with pytest.raises(TypeError, match="^estimator: .* learns from windows"):
        other.count(text)
    with pytest.raises(TypeError, match="^X: .* learns from windows"):
        other.fit(counted)


ALL = ["a", "cat", "dog", "home", "ran", "sat", "the", "zebra"]


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"min_count": 9}, r"^min_count=9, but X was counted with \d words that occur"),
        ({"max_vocabulary": 7}, "^max_vocabulary=7, but X was counted with 8 words;"),
        ({"vocabulary": ALL[:7]}, "^vocabulary: .*; 1 words differ, such as 'zebra'"),
        ({"vocabulary": [*ALL, "ox"]}, "^vocabulary: .* 1 words differ, such as 'ox'"),
    ],
    ids=str,
)
def test_counts_of_other_words_are_refused(params, message):
    text = [" ".join(ALL[k:]) for k in range(8)] * 2
    lm = LanguageModel(WittenBellLM(), max_depth=2)
    counted, other = lm.count(text), clone(lm).set_params(**params)
    with pytest.raises(ValueError, match=message):
        other.fit(counted)
    if "min_count" not in params and "max_vocabulary" not in params:
        with pytest.raises(ValueError, match=message):
            other.partial_fit(counted)
    # Counts of the model's own give the model of the text.
    one = clone(other).fit(text)
    assert one.vocabulary_.size != 10
    same_bits(other.fit(other.count(text)).backoff_model_, one.backoff_model_)


def test_counts_that_a_vocabulary_fits():
    text = [" ".join(ALL[k:]) for k in range(8)] * 2
    lm = LanguageModel(WittenBellLM(), max_depth=2)
    counted, one = lm.count(text), lm.fit(text).backoff_model_
    # "a" occurs 2 times: `min_count` is a weight, as in a fit.
    for params in ({"min_count": 2}, {"max_vocabulary": 8}, {"vocabulary": ALL[::-1]}):
        model = clone(lm).set_params(**params)
        same_bits(model.fit(counted).backoff_model_, one)
    halves = clone(lm).count(text, sample_weight=np.full(16, 0.5))
    with pytest.raises(ValueError, match="^min_count=2, .* 1 words .* such as 'a'"):
        clone(lm).set_params(min_count=2).fit(halves)


@pytest.mark.parametrize("estimator", [KneserNeyLM, StructuredLogLinearLMCV])
def test_counts_with_another_share_held_out_are_refused(estimator):
    options = {"discount": "tuned"} if estimator is KneserNeyLM else {"search": ["lam"]}
    text = random_text(3, n=200)

    def model(share):
        given = REQUIRED.get(estimator, {})
        tuned = estimator(validation_fraction=share, **given, **options)
        return LanguageModel(tuned, max_depth=2)

    counted = model(0.1).count(text)
    for changed in (counted, counted.cut(1), counted.frequent(2)):
        with pytest.raises(
            ValueError, match=r"^validation_fraction=0\.4, but .*=0\.1;"
        ):
            model(0.4).set_params(max_depth=1).fit(changed)
    # Sentences that were held out by name are not a share.
    val = random_text(4)
    with_val = model(0.1).count(text, X_val=val)
    a = model(0.4).fit(with_val).backoff_model_
    same_bits(a, model(0.1).fit(text, X_val=val).backoff_model_)


def test_wrong_arguments_of_merge_cut_and_frequent():
    counted = LanguageModel(max_depth=2).count(["a b"])
    with pytest.raises(TypeError, match=r"^parts\[1\] must be a Counted, got int"):
        Counted.merge([counted, 3])
    for depth in (1.5, -1, "2", True):
        with pytest.raises(ValueError, match="^depth must be an integer of at least 0"):
            counted.cut(depth)
    for least in (0, np.nan, 1.5, -1):
        with pytest.raises(ValueError, match="^min_count must be an integer of at le"):
            counted.frequent(least)
    assert counted.cut(0).pairs.tree.n_nodes == 1


@pytest.mark.parametrize("weight", [0.1, 1 / 3, 0.4, 0.999])
def test_small_weights_keep_words(weight):
    for text in (["a b"], ["a b"] * 3, ["a b"] * 10):
        lm = LanguageModel(WittenBellLM(), max_depth=2)
        lm.fit(text, sample_weight=np.full(len(text), weight))
        assert lm.vocabulary_.tolist() == ["a", "b", "<unk>", "</s>"]
    # Ten tenths are one, and twenty two.
    for n, kept in ((19, False), (20, True)):
        lm = LanguageModel(WittenBellLM(), max_depth=2, min_count=2)
        lm.fit(["a"] * n, sample_weight=np.full(n, 0.1))
        assert ("a" in lm.vocabulary_.tolist()) is kept
    assert (
        "b"
        not in LanguageModel(WittenBellLM())
        .fit(["a", "b"], sample_weight=[weight, 0.0])
        .vocabulary_.tolist()
    )


def test_decay_is_the_fit_with_smaller_weights():
    parts = LanguageModel(WittenBellLM(), max_depth=2)
    for batch in (["a"], ["b"]):
        parts.partial_fit(batch, decay=0.5)
    whole = LanguageModel(WittenBellLM(), max_depth=2)
    whole.fit(["a", "b"], sample_weight=[0.5, 1])
    np.testing.assert_allclose(
        parts.score_samples(["a", "b"]), whole.score_samples(["a", "b"]), rtol=1e-12
    )


@pytest.mark.parametrize(
    ("kind", "container"),
    [(KneserNeyLM, sp.csr_matrix), (StructuredLogLinearLM, sp.csr_array)],
)
def test_entries_of_a_path_matrix_that_repeat_are_refused(kind, container):
    rng = np.random.default_rng(0)
    X, y = rng.integers(0, 3, (30, 3)), rng.integers(0, 3, 30)
    paths = container(SuffixTreeVectorizer(max_depth=2, padding=-1).fit_transform(X))
    paths.indices[:] = 0
    with pytest.raises(ValueError, match=r"^sparse X is not a path matrix: row 0"):
        kind().fit(paths, y)
