"""Names and values of features against what the definition says of each item."""

import enum
import io
import itertools
import random
from collections import Counter, UserDict
from fractions import Fraction

import numpy as np
import pytest

from sklstruct.compat.pycrfsuite import Tagger
from sklstruct.factor_graph import ConditionalRandomField
from sklstruct.factor_graph._observations import find_columns, learn_columns


class Text(str):
    """Equals its string, and prints another."""

    def __format__(self, spec):
        return "text " + str.__str__(self)

    __str__ = __repr__ = __format__


class Tag(enum.StrEnum):
    A = "a"
    B = "b"


STRINGS = ["a", "b", "", "=", "a:b", Text("a"), Text("b"), Tag.A, np.str_("b")]
KEYS = ["a", "b", "a:b", "b=a", "", Text("a"), np.str_("b")]
NUMBERS = [1, 0, -2.5, True, np.float32(0.5), np.int64(3), Fraction(1, 4), np.bool_(1)]


def features(item):
    """(name, value) of each feature, written down from the documentation."""
    if not isinstance(item, (dict, UserDict)):
        return [(str.__str__(name), 1.0) for name in item]
    found = []
    for key, x in item.items():
        key = str.__str__(key)
        if isinstance(x, str):
            found.append((f"{key}:{x}", 1.0))
        elif isinstance(x, (dict, UserDict)):
            found += [(f"{key}:{name}", value) for name, value in features(x)]
        elif isinstance(x, (list, set, tuple)):
            found += [(f"{key}:{part}", 1.0) for part in x]
        else:
            found.append((key, float(x)))
    return found


def draw_item(rng, depth=0):
    if depth == 0 and rng.random() < 0.3:
        form = rng.choice([list, tuple, set])
        return form(rng.choices([*STRINGS, "a=a", "a:b=b"], k=rng.randrange(4)))
    item = {}
    for _ in range(rng.randrange(5)):
        form = rng.random()
        if form < 0.4:
            value = rng.choice(STRINGS)
        elif form < 0.6:
            value = rng.choice(NUMBERS)
        elif form < 0.8 or depth == 2:
            value = rng.choice([list, tuple])(rng.choices(STRINGS, k=rng.randrange(3)))
        else:
            value = draw_item(rng, depth + 1)
        item[rng.choice(KEYS)] = value
    return item if rng.random() < 0.7 else UserDict(item)


def draw_sequences(rng):
    return [
        [draw_item(rng) for _ in range(rng.randrange(4))]
        for _ in range(rng.randrange(1, 6))
    ]


def check(lengths, rows, X, names):
    """Rows hold the sums of the features with a column, in the order of columns."""
    assert lengths.tolist() == [len(sequence) for sequence in X]
    assert (rows.n_rows, rows.width) == (lengths.sum(), len(names))
    for t, item in enumerate(itertools.chain.from_iterable(X)):
        entries = slice(rows.ptr[t], rows.ptr[t + 1])
        columns = rows.column[entries].tolist()
        assert columns == sorted(set(columns))
        wanted = Counter()
        for name, value in features(item):
            if name in names:
                wanted[names.index(name)] += value
        assert columns == sorted(wanted)
        np.testing.assert_allclose(
            rows.value[entries], [wanted[c] for c in columns], rtol=1e-15, atol=0
        )


@pytest.mark.parametrize("seed", range(40))
def test_features_are_what_their_names_say(seed):
    rng = random.Random(seed)
    X = draw_sequences(rng)
    lengths, rows, columns = learn_columns(X)
    names = list(columns)
    every = {name for sequence in X for item in sequence for name, _ in features(item)}
    assert names == sorted(every) and list(columns.values()) == list(range(len(names)))
    assert all(type(name) is str for name in names)
    check(lengths, rows, X, names)
    new = draw_sequences(rng)
    check(*find_columns(new, columns), new, names)
    assert list(columns) == names  # reading adds none


def test_more_entries_than_there_was_room_for():
    item = {f"{i}": i for i in range(5000)}
    lengths, rows, columns = learn_columns([[item, item], [item]])
    assert lengths.tolist() == [2, 1]
    for t in range(rows.n_rows):
        entries = slice(rows.ptr[t], rows.ptr[t + 1])
        names = np.array(list(columns))[rows.column[entries]]
        assert names.astype(int).tolist() == rows.value[entries].tolist()
        assert sorted(names.tolist()) == sorted(item)


def test_a_number_beyond_floats_is_refused():
    with pytest.raises(ValueError, match=r"X\[1\], item 0: .*too large"):
        learn_columns([[], [{"a": 10**400}]])


def test_mappings_inside_each_other_have_a_bound():
    endless = {}
    endless["a"] = {"b": UserDict(c=endless)}
    deep = {"a": 1.0}
    for _ in range(100_000):
        deep = {"a": deep}
    model = ConditionalRandomField().fit([[{"a": 1.0}]], [["N"]])
    file = io.BytesIO()
    model.save(file)
    tagger = Tagger()
    tagger.open_inmemory(file.getvalue())
    for item in (endless, deep):
        message = "item 1: the mapping at 'a:.* more than 100 mappings"
        with pytest.raises(ValueError, match=message):
            ConditionalRandomField().fit([[["a"], item]], [["N", "N"]])
        with pytest.raises(ValueError, match=message):
            model.predict([[["a"], item]])
        with pytest.raises(ValueError, match=message):
            tagger.tag([["a"], item])
    levels = {"a": 2.0}
    for _ in range(100):
        levels = {"b": levels}
    _, rows, columns = learn_columns([[levels]])
    assert list(columns) == ["b:" * 100 + "a"] and rows.value.tolist() == [2.0]
    with pytest.raises(ValueError, match="more than 100"):
        learn_columns([[{"b": levels}]])
