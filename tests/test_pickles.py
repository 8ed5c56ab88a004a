"""Pickled models whose arrays were altered are refused when loaded."""

import pickle

import numpy as np
import pytest

from sklstruct import KneserNeyLM, LanguageModel, SuffixTreeVectorizer
from sklstruct.context_tree import Histories
from sklstruct.context_tree._suffix_tree import suffix_tree
from sklstruct.factor_graph import FactorGraph
from sklstruct.symbols import Labels
from sklstruct.taxonomy import Taxonomy


def language_model():
    text = ["a b a c", "b a b", "c c a"]
    return LanguageModel(KneserNeyLM(discount=0.5), max_depth=2).fit(text)


def graph():
    values = ["x", "y", "z"]
    return FactorGraph(
        [values, values[:2], values],
        features=[[1.0, 0.0], [0.0, 2.0], [3.0, 1.0]],
        candidate_features=[[[1.0]] * 3, [[2.0]] * 2, [[0.5]] * 3],
        edges={"next": [(0, 1), (1, 2)]},
        pair_features={"next": [np.ones((6, 1)), np.ones((6, 1))]},
        forbidden={"next": [("x", "x")]},
    )


def collapsed_tree():
    windows = np.random.default_rng(0).integers(0, 3, (40, 5))
    return suffix_tree(Histories.from_windows(windows, 5), 3)[0]


def pairs():
    pairs = language_model().backoff_model_.pairs
    assert pairs.parent.size  # is kept from here on
    return pairs


THINGS = {
    "tree": lambda: language_model().backoff_model_.tree,
    "collapsed tree": collapsed_tree,
    "pairs": pairs,
    "back-off model": lambda: language_model().backoff_model_,
    "graph": graph,
    "taxonomy": lambda: Taxonomy.from_nested([["a", "b"], ["c", ["d", "e"]]]),
}


def arrays_of(state):
    """(how to reach it, array) for every array of numbers of a state."""
    for key, value in state.items():
        if isinstance(value, np.ndarray) and value.dtype.kind in "iuf":
            yield (key, None), value
        elif isinstance(value, tuple) and hasattr(value, "_fields"):
            for field, inner in zip(value._fields, value):
                if isinstance(inner, np.ndarray):
                    yield (key, field), inner


def put(state, place, array):
    key, field = place
    if field is None:
        return {**state, key: array}
    return {**state, key: state[key]._replace(**{field: array})}


def altered(array):
    """The array with one entry more, one less, and entries that lead elsewhere."""
    if array.size:
        yield array[:-1]
    yield np.append(array, array[-1:] if array.size else 0).astype(array.dtype)
    if array.size and array.dtype.itemsize >= 4 and array.dtype.kind == "i":
        for i in (0, array.size // 2, array.size - 1):
            for value in (10**8, -7):
                other = array.copy()
                other[i] = value
                yield other


@pytest.mark.parametrize("name", THINGS)
def test_altered_arrays(name):
    thing = THINGS[name]()
    state = thing.__getstate__()
    n_tried = 0
    for place, array in arrays_of(state):
        for other in altered(array):
            loaded = object.__new__(type(thing))
            n_tried += 1
            try:
                loaded.__setstate__(put(state, place, other))
            except ValueError:
                continue
            found = dict(arrays_of(loaded.__getstate__()))[place]
            assert np.array_equal(found[: array.size], array), (place, other)
    assert n_tried >= 4


@pytest.mark.parametrize("name", THINGS)
def test_a_pickle_returns_equal_arrays(name):
    thing = THINGS[name]()
    again = pickle.loads(pickle.dumps(thing))
    assert pickle.dumps(again) == pickle.dumps(pickle.loads(pickle.dumps(again)))
    for place, array in arrays_of(thing.__getstate__()):
        np.testing.assert_array_equal(
            dict(arrays_of(again.__getstate__()))[place], array
        )


def test_vectorizers_with_collapsed_trees_come_back():
    X = np.random.default_rng(0).integers(0, 3, (40, 5))
    vectorizer = SuffixTreeVectorizer(max_depth=5, collapse=True).fit(X)
    again = pickle.loads(pickle.dumps(vectorizer))
    assert (again.transform(X) != vectorizer.transform(X)).nnz == 0


def test_the_longest_edge_of_a_collapsed_tree():
    tree = collapsed_tree()
    state, longest = tree.__getstate__(), int(np.argmin(tree.edge_pos[1:])) + 1
    for more, fits in ((1, True), (2, False)):
        span = tree.span.copy()
        span[longest] = tree.edge_pos[longest] + more  # begins at, or before, the text
        loaded = object.__new__(type(tree))
        if fits:
            loaded.__setstate__({**state, "span": span})
        else:
            with pytest.raises(ValueError, match="place before it"):
                loaded.__setstate__({**state, "span": span})


def test_labels_are_pickled_as_bytes_and_checked():
    labels = language_model().backoff_model_.labels
    state = labels.__getstate__()
    text, ends, token_of_class, n_symbols = state["names"]
    assert bytes(text) == b"".join(w.encode() for w in labels.symbols)
    for odd in (
        labels,
        Labels(["ä", "", "\ud800"], [1, 2]),
        Labels(["a", 1], None),
        Labels(np.array(["ä", "", "\ud800"], dtype=object)),
    ):
        again = pickle.loads(pickle.dumps(odd))
        assert again == odd and again.classes.dtype == odd.classes.dtype
        assert odd.symbols is None or again.symbols.dtype == odd.symbols.dtype
    wrong = [(text, ends[:1] * 0 + e, token_of_class) for e in (-1, 10**6)]
    wrong += [(text, ends * 0, token_of_class), (text, ends / 2, token_of_class)]
    wrong += [(text.astype(float), ends, token_of_class)]
    wrong += [(text, ends, token_of_class * 0), (text, ends, token_of_class + 1)]
    for some in wrong:
        with pytest.raises(ValueError):
            names = (*some, n_symbols)
            object.__new__(Labels).__setstate__({**state, "names": names})
    with pytest.raises(ValueError, match="start"):
        object.__new__(Labels).__setstate__({**state, "start": labels.classes[0]})


def test_a_collapsed_tree_of_one_sample_is_loaded():
    model = SuffixTreeVectorizer(collapse=True).fit([[0, 0, 0]])
    loaded = pickle.loads(pickle.dumps(model))
    assert loaded.transform([[0, 0, 0]]).sum() == model.transform([[0, 0, 0]]).sum()
