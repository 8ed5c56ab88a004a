"""Classes from trees, and trees above classes."""

import itertools
import pickle

import numpy as np
import pytest
from _oracles import class_log_likelihood, following_text, word_neighbours
from sklearn.pipeline import make_pipeline

from sklstruct import KneserNeyLM, LanguageModel
from sklstruct.taxonomy import KMeansSplit, Taxonomy
from sklstruct.word_classes import (
    ContextRefiner,
    ExchangeClustering,
    TaxonomyClustering,
    class_taxonomy,
)

pytestmark = pytest.mark.filterwarnings("ignore:.*counts of counts:UserWarning")
TREE = Taxonomy.from_nested([["w0", "w1"], [["w2"], ["w3", "w4", "w5"]], ["w6"]])


def test_levels_are_nested():
    text = following_text(0)
    cuts = [TaxonomyClustering(TREE, depth=d).fit(text) for d in (1, 2, 3)]
    words = TREE.classes
    labels = [c.classes_of(words) for c in cuts]
    assert [c.n_clusters_ for c in cuts] == [3, 4, 4]
    for coarse, fine in itertools.pairwise(labels):
        for c in np.unique(fine):
            assert np.unique(coarse[fine == c]).size == 1
    assert np.array_equal(labels[0], [0, 0, 1, 1, 1, 1, 2])
    assert cuts[0].classes_of(["w6", "w7", None]).tolist() == [2, 3, -1]
    again = pickle.loads(pickle.dumps(cuts[1]))
    assert np.array_equal(again.classes_of(words), labels[1])


def test_words_of_ids_in_a_language_model():
    text = following_text(1)
    path = [
        (TaxonomyClustering(TREE, depth=1), 1),
        (TaxonomyClustering(TREE, depth=2), 1),
        ("word", 1),
    ]
    lm = LanguageModel(
        make_pipeline(ContextRefiner(path), KneserNeyLM()), max_depth=1
    ).fit(text)
    refiner = lm.estimator_[0]
    symbols = lm.predictor.encoder.labels.symbols.tolist()
    for depth, clustering in zip((1, 2), refiner.clusterings_):
        expected = TaxonomyClustering(TREE, depth=depth).fit(text)
        for word in ("w0", "w3", "w4", "w6"):
            mine, theirs = (
                c.classes_of([a, b])
                for c, a, b in (
                    (clustering, symbols.index(word), symbols.index("w2")),
                    (expected, word, "w2"),
                )
            )
            assert (mine[0] == mine[1]) == (theirs[0] == theirs[1])
        n = clustering.n_clusters_
        assert clustering.classes_of([symbols.index("w7"), -1]).tolist() == [n, -1]
    row = lm.predict_next("w1", 99)
    assert sum(p for _, p in row) == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("offsets", [(-1, 1), (1,)])
def test_learned_by_a_builder(offsets):
    """Words of hidden kinds that follow each other are told apart by the root."""
    rng = np.random.default_rng(0)
    kinds = [[f"{k}{i}" for i in range(10)] for k in "ab"]
    text = [
        [rng.choice(kinds[(j + i) % 2]) for i in range(8)]
        for j in rng.integers(2, size=500)
    ]
    builder = KMeansSplit(balanced=True, spherical=True, random_state=0)
    clustering = TaxonomyClustering(builder, offsets=offsets).fit(text)
    classes = [set(clustering.classes_of(kind).tolist()) for kind in kinds]
    assert classes[0] | classes[1] == {0, 1} and not classes[0] & classes[1]
    assert clustering.taxonomy_.n_classes == 20
    ids = np.arange(20)
    named = TaxonomyClustering("kmeans", offsets=(1,), padding=-1)
    named.fit(ids[:, None], (ids + 1) % 20)
    assert named.classes_of(ids).max() == 1


def test_merges_lose_the_least():
    """Every level is the best merge of the one below, by the definition."""
    text = following_text(2, n_words=12, n_sentences=200)
    clustering = ExchangeClustering(6).fit(text)
    tree = class_taxonomy(clustering, text)
    assert tree.n_leaves == 6 and tree.n_nodes == 11
    counts = word_neighbours(text, (1, 2))
    words = sorted(counts)
    groups = dict(zip(words, clustering.classes_of(words).tolist()))
    sets = {
        frozenset(tree.classes[tree.classes_below(v)].tolist())
        for v in range(tree.n_nodes)
    }
    for _ in range(5):
        names = sorted(set(groups.values()))
        value, a, b = max(
            (
                class_log_likelihood(
                    counts, {w: a if c == b else c for w, c in groups.items()}
                ),
                a,
                b,
            )
            for a, b in itertools.combinations(names, 2)
        )
        groups = {w: a if c == b else c for w, c in groups.items()}
        assert frozenset(w for w, c in groups.items() if c == a) in sets


def test_the_tree_is_binary_and_can_be_cut():
    text = following_text(3, n_words=40, n_sentences=400)
    tree = class_taxonomy(ExchangeClustering(12).fit(text), text)
    assert tree.n_leaves == 12 and tree.n_nodes == 23
    n_children = np.diff(tree.child_ptr)
    assert (n_children[n_children > 0] == 2).all()
    for depth in (1, 2):
        cut = TaxonomyClustering(tree, depth).fit(text)
        assert 2**depth >= cut.n_clusters_ > depth
    one = class_taxonomy(ExchangeClustering(1).fit(text), text)
    assert one.n_nodes == 1


def test_windows_with_targets():
    text = following_text(4)
    a = ExchangeClustering(4, offsets=(-1, 1)).fit(text)
    X = np.array([[s[i], s[i + 1]] for s in text for i in range(len(s) - 1)])
    b = ExchangeClustering(4, offsets=(-1, 1)).fit(X[:, :1], X[:, 1])
    tree = class_taxonomy(b, X[:, :1], X[:, 1])
    assert tree.n_leaves == 4
    assert class_taxonomy(a, text).classes.tolist() == a.symbols_.tolist()


def test_bad_input():
    text = following_text(5)
    clustering = ExchangeClustering(4).fit(text)
    with pytest.raises(ValueError, match="none of the words"):
        class_taxonomy(clustering, ["x y z"])
    for params in ({"taxonomy": "no such"}, {"taxonomy": TREE, "depth": 0}):
        with pytest.raises(ValueError, match="taxonomy|depth"):
            TaxonomyClustering(**params).fit(text)
    with pytest.raises(ValueError, match="taxonomy has none of"):
        TaxonomyClustering(TREE, names=["x", "y"]).fit(text)
