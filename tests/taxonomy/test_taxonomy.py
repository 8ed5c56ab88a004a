"""Taxonomy: invariants of the arrays, round trips, given trees, bad input."""

import pickle

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
from _oracles import random_blocks
from numpy.testing import assert_array_equal
from sklearn.base import clone

from sklstruct.taxonomy import Forest, RandomSplit, Taxonomy, _numbering, as_taxonomy


def random_taxonomy(n_classes, rng):
    return Taxonomy.from_nested(random_blocks(n_classes, rng))


def sets_of(taxonomy):
    """Every node's labels, the tree as a multiset of sets (siblings unordered)."""
    return sorted(
        tuple(sorted(taxonomy.classes[taxonomy.classes_below(v)].tolist()))
        for v in range(taxonomy.n_nodes)
    )


def path_of(tree, v):
    """Nodes from the root to node v."""
    return [*path_of(tree, tree.parent[v]), v] if v else [0]


def chain(depth):
    """A caterpillar tree `depth` levels deep."""
    nested = [depth]
    for k in range(depth - 1, -1, -1):
        nested = [[k], nested]
    return nested


@pytest.mark.parametrize("seed", [0, 1, 11])  # 11: nodes in order already
def test_invariants_of_the_arrays(seed):
    rng = np.random.default_rng(seed)
    tree = random_taxonomy(int(rng.integers(1, 40)), rng)
    n = tree.n_nodes
    assert tree.parent.dtype == tree.leaf_of_class.dtype == np.int32
    assert tree.parent[0] == -1
    assert (tree.parent[1:] < np.arange(1, n)).all()
    assert (np.diff(tree.parent) >= 0).all()
    counts = np.diff(tree.child_ptr)
    assert_array_equal(counts, np.bincount(tree.parent[1:], minlength=n))
    assert (counts != 1).all()
    for v in range(n):
        assert_array_equal(np.flatnonzero(tree.parent == v), tree.children(v))
        below = set(tree.classes_below(v).tolist())
        parts = [set(tree.classes_below(c).tolist()) for c in tree.children(v)]
        if parts:
            assert sum(map(len, parts)) == len(below)
            assert set.union(*parts) == below
        else:
            assert below == set(np.flatnonzero(tree.leaf_of_class == v).tolist())
    assert sorted(tree.class_sets.order) == list(range(tree.n_classes))
    levels = np.split(np.arange(n), tree.level_ptr[1:-1])
    assert len(levels) == tree.depth + 1
    for k, nodes in enumerate(levels):
        assert_array_equal(tree.level_of_node[nodes], k)
        for v in nodes:
            path = path_of(tree, v)
            assert len(path) == k + 1 and path[0] == 0 and path[-1] == v
    with pytest.raises(ValueError, match="read-only"):
        tree.parent[0] = 0


@pytest.mark.parametrize("seed", range(3))
def test_round_trips(seed):
    rng = np.random.default_rng(seed)
    tree = random_taxonomy(int(rng.integers(2, 40)), rng)
    again = Taxonomy.from_nested(tree.to_nested())
    assert_array_equal(again.parent, tree.parent)
    assert_array_equal(again.leaf_of_class, tree.leaf_of_class)
    assert again == tree

    loaded = pickle.loads(pickle.dumps(tree))
    assert loaded == tree
    assert_array_equal(loaded.child_ptr, tree.child_ptr)

    # Any numbering of the nodes is the same tree.
    perm = rng.permutation(tree.n_nodes)
    parent = np.empty(tree.n_nodes, int)
    parent[perm] = np.where(tree.parent < 0, -1, perm[tree.parent])
    shuffled = Taxonomy(parent, perm[tree.leaf_of_class], tree.classes)
    assert shuffled == tree
    assert sets_of(shuffled) == sets_of(tree)

    # As parent map and as paths, labels renamed so that no group has their name.
    above = {f"node {v}": f"node {p}" for v, p in enumerate(tree.parent) if p >= 0}
    above |= {k: f"node {v}" for k, v in enumerate(tree.leaf_of_class.tolist())}
    mapped = Taxonomy.from_parents(above)
    assert mapped == tree
    assert mapped.names is not None
    paths = {
        k: [f"node {v}" for v in path_of(tree, leaf)[1:]]
        for k, leaf in enumerate(tree.leaf_of_class)
    }
    assert Taxonomy.from_paths(paths) == tree


@pytest.mark.parametrize("seed", range(3))
def test_cut(seed):
    rng = np.random.default_rng(seed)
    tree = random_taxonomy(30, rng)
    assert tree.limit(max_depth=0) == Taxonomy.flat(range(30))
    assert tree.limit(max_depth=tree.depth) == tree
    for depth in range(tree.depth):
        cut = tree.limit(max_depth=depth)
        assert cut.depth == depth
        shallow = tree.level_of_node <= depth
        expected = [
            tuple(sorted(tree.classes_below(v).tolist()))
            for v in np.flatnonzero(shallow)
        ]
        assert sets_of(cut) == sorted(expected)
        for smaller in range(depth):
            assert cut.limit(max_depth=smaller) == tree.limit(max_depth=smaller)
        # A cut tree is as valid as one that went through all checks.
        assert Taxonomy(cut.parent, cut.leaf_of_class, cut.classes) == cut
    assert tree.limit(max_depth=np.int64(1)) == tree.limit(max_depth=1)
    for bad in (-1, 1.5, "1", np.nan, np.inf):
        with pytest.raises(ValueError, match="depth must be an integer of at least 0"):
            tree.limit(max_depth=bad)


@pytest.mark.parametrize(
    "values",
    [
        [["a", "b", "c"]], [[1.0, np.nan, 0.0]], [1.0, 2.0, 3.0], np.ones((1, 2)),
        np.full((1, 3), 1j), sp.csr_array(np.ones((1, 3))),
        np.ma.array(np.ones((1, 3)), mask=[[True, False, False]]),
    ],
)  # fmt: skip
def test_node_sums_needs_one_finite_number_per_class(values):
    tree = Taxonomy.from_nested([["a", "b"], ["c"]])
    with pytest.raises(ValueError, match="^values must"):
        tree.node_sums(values)


@pytest.mark.parametrize(
    "labels",
    [(2**63, -1), (np.uint64(2**63 + 1), np.int64(1)), (2**53 + 1, 0.5)],
)
def test_integers_do_not_become_floats(labels):
    with pytest.raises(ValueError, match="labels must fit into 64 bits"):
        Taxonomy.from_nested([[label] for label in labels])
    assert Taxonomy.from_nested([[1], [0.5]]).classes.tolist() == [0.5, 1.0]
    assert Taxonomy.from_nested([[2**63 + 1], [2**63]]).classes[1] == 2**63 + 1


def test_nodes_are_not_counted_from_the_end():
    tree = Taxonomy.from_nested([["a", "b"], ["c"]])
    for bad in (-1, 3, 1.0, None):
        for call in (tree.children, tree.classes_below):
            with pytest.raises(ValueError, match=f"from 0 to 2, got {bad}"):
                call(bad)


@pytest.mark.parametrize("seed", range(3))
def test_restrict(seed):
    rng = np.random.default_rng(seed)
    tree = random_taxonomy(30, rng)
    kept = np.sort(rng.choice(30, int(rng.integers(1, 30)), replace=False))
    small = as_taxonomy(tree, kept)
    assert_array_equal(small.classes, kept)
    wanted = set(kept.tolist())
    expected = {tuple(sorted(wanted.intersection(s))) for s in sets_of(tree)} - {()}
    assert set(sets_of(small)) == expected
    with pytest.raises(ValueError, match="no place for 99"):
        as_taxonomy(tree, [1, 99])
    assert as_taxonomy(tree, [2, 1, 1]) == as_taxonomy(tree, [1, 2])
    # "1" is not 1
    with pytest.raises(ValueError, match="missing labels: .* no place for '1'"):
        as_taxonomy(tree, ["1", "2"])
    with pytest.raises(ValueError, match="at least one class"):
        as_taxonomy(tree, [])


@pytest.mark.parametrize("n", [10, 11])
def test_strings_of_integers_stand_for_integers_only_in_their_order(n):
    tree = [[str(k) for k in range(4)], [str(k) for k in range(4, n)]]
    if n == 10:
        assert as_taxonomy(tree, range(n)).to_nested() == [[*range(4)], [*range(4, n)]]
    else:
        with pytest.raises(ValueError, match="^taxonomy: .*give it integers as labels"):
            as_taxonomy(tree, range(n))


@pytest.mark.parametrize("seed", range(3))
def test_canonical(seed):
    rng = np.random.default_rng(seed)
    tree = random_taxonomy(30, rng)
    canonical = Taxonomy(*_numbering.canonical(tree))
    assert sets_of(canonical) == sets_of(tree)
    for v in range(canonical.n_nodes):
        first = [canonical.classes_below(c).min() for c in canonical.children(v)]
        assert first == sorted(first)
    # One form for all orders of siblings.
    mirrored = Taxonomy(
        np.where(tree.parent[::-1] < 0, -1, tree.n_nodes - 1 - tree.parent[::-1]),
        tree.n_nodes - 1 - tree.leaf_of_class,
    )
    parent, leaf = _numbering.canonical(mirrored)
    assert_array_equal(parent, canonical.parent)
    assert_array_equal(leaf, canonical.leaf_of_class)


def test_equality_ignores_the_order_of_siblings_only():
    a = Taxonomy.from_nested([["x", "y"], [["z"], ["w"]]])
    assert a == Taxonomy.from_nested([[["w"], ["z"]], ["y", "x"]])
    assert a != Taxonomy.from_nested([["x", "z"], [["y"], ["w"]]])
    assert a != Taxonomy.from_nested([["x", "y"], ["z", "w"]])
    assert a != Taxonomy.from_nested([["x", "y"], [["z"], ["v"]]])
    assert a != "tree"
    assert clone(a) is a


def test_names_do_not_count_for_equality():
    named = Taxonomy.from_paths({"x": "g", "y": "g", "z": "h"})
    assert named == Taxonomy.from_nested([["x", "y"], ["z"]])
    assert named.names == (None, "g", "h")


def test_single_child_chains_are_collapsed():
    assert Taxonomy.from_nested([[[["a"], [[["b"]]]]]]).to_nested() == [["a"], ["b"]]
    tree = Taxonomy.from_paths({"a": ("p", "q", "r"), "b": ("p", "q", "r"), "c": "s"})
    assert tree.to_nested() == [["a", "b"], ["c"]]
    assert tree.names == (None, "r", "s")
    one = Taxonomy.from_nested([[["a"]]])
    assert one.n_nodes == 1 and one.depth == 0


def test_several_roots_of_a_parent_map_are_joined():
    forest = {"a": "p", "b": "p", "c": "q", "d": "q"}
    rooted = forest | {"p": "top", "q": "top", "top": None}
    assert Taxonomy.from_parents(forest) == Taxonomy.from_parents(rooted)
    assert Taxonomy.from_parents({"a": None, "b": None}) == Taxonomy.flat(["a", "b"])
    assert Taxonomy.from_parents({"a": None}) == Taxonomy.flat(["a"])


MISSING = [None, "", float("nan"), np.float32("nan"), pd.NA, pd.NaT]


@pytest.mark.parametrize("missing", MISSING, ids=repr)
def test_missing_cells_end_a_path(missing):
    ragged = {0: ["A", "A1"], 1: ["A", "A2"], 2: ["B"], 3: ["B", "B1"], 4: ["C"], 5: []}
    right = Taxonomy.from_paths(ragged)
    full = {k: [*p, missing, missing][:2] for k, p in ragged.items()}
    frame = pd.DataFrame.from_dict(full, orient="index")
    for table in (full, dict(zip(frame.index, frame.to_numpy())), {**full, 5: missing}):
        tree = Taxonomy.from_paths(table)
        assert tree == right and tree.names == right.names
        assert tree.find("C") == right.find("C")
        assert as_taxonomy({**table, 5: []}, range(6)) == right
    with pytest.raises(ValueError, match="label 0 has the group 'A1' below a missing"):
        Taxonomy.from_paths({0: [missing, "A1"], 1: ["A"]})


@pytest.mark.parametrize("missing", MISSING, ids=repr)
def test_missing_parents_are_roots(missing):
    parents = {100: None, 200: None, 0: 100, 1: 100, 2: 200, 3: 200}
    right = Taxonomy.from_parents(parents)
    other = {k: missing if v is None else v for k, v in parents.items()}
    tree = Taxonomy.from_parents(other)
    assert tree == right and tree.names == right.names == (None, 100, 200)
    assert as_taxonomy(other, range(4)) == right
    series = pd.Series(parents, dtype=float)  # NaN, 100.0, 200.0
    assert Taxonomy.from_parents(series.to_dict()).names == right.names
    assert Taxonomy.from_parents(dict(zip(series.index, series.to_numpy()))) == right
    with pytest.raises(ValueError, match="stands for a missing parent: name the node"):
        Taxonomy.from_parents({missing: 100, 0: 100})


def test_missing_labels_and_names():
    for missing in set(MISSING) - {""}:
        for labels in (["a", missing], [missing, 1]):
            with pytest.raises(ValueError, match="labels must not be missing"):
                Taxonomy.flat(labels)
            with pytest.raises(ValueError, match="labels must not be missing"):
                Taxonomy.from_nested([[labels[0]], [labels[1]]])
        tree = Taxonomy([-1, 0, 0], [1, 2], names=["top", missing, "b"])
        assert tree.names == ("top", None, "b")


@pytest.mark.parametrize("step", [1000, 100])
def test_ten_thousand_levels(step):
    depth = 10_000
    nested = chain(depth)
    tree = Taxonomy.from_nested(nested)
    assert tree.depth == depth and tree.n_classes == depth + 1
    assert tree.n_nodes == 2 * depth + 1
    back = tree.to_nested()
    for k in range(depth):  # == on lists this deep would recurse
        assert back[0] == [k]
        back = back[1]
    above = {k: f"n{k}" for k in range(depth)}
    above |= {f"n{k + 1}": f"n{k}" for k in range(depth - 1)} | {depth: "n9999"}
    binary = Taxonomy.from_parents(above)
    assert binary.depth == depth - 1
    paths = {k: [f"n{j}" for j in range(1, k + 1)] for k in range(0, depth, step)}
    assert Taxonomy.from_paths(paths).n_classes == depth // step
    assert tree == pickle.loads(pickle.dumps(tree))
    assert len(pickle.dumps(tree)) < 12 * tree.n_nodes + 2000
    assert tree.limit(max_depth=50).depth == 50
    assert as_taxonomy(tree, np.arange(100)).depth == 99
    assert tree.export_text(max_depth=3).count("\n") == 6
    with pytest.raises(ValueError, match="10000 levels.*give max_depth"):
        tree.export_text()
    thousand = tree.limit(max_depth=1000)
    assert thousand.export_text() == tree.export_text(max_depth=1000).replace(
        "(9001 classes)", "1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, ... "
        "(9001 classes)",
    )  # fmt: skip
    assert tree.classes_below(0).size == depth + 1
    assert_array_equal(tree.class_sets.order, np.arange(depth + 1))


def test_text():
    tree = Taxonomy.from_paths(
        {"it's": ("pet",), "dog": ("pet",), 'a "b"': ("car", "x"), "c": ("car",)}
    )
    assert tree.export_text(max_depth=0) == "root"
    text = Taxonomy.from_nested([list(range(20)), [20]]).export_text()
    assert "|--- 0, 1, 2, 3, 4, 5, 6, 7, ... (20 classes)" in text
    for bad in ({"max_depth": -1}, {"max_depth": 0.5}):
        with pytest.raises(ValueError, match=next(iter(bad))):
            tree.export_text(**bad)


def test_nested_mappings_name_the_groups():
    nested = {
        "animal": {"mammal": ["cat", "dog"], "bird": ["duck"]},
        "vehicle": {"road": ["bus", "car"], "rail": ("tram",)},
        "person": ["me"],
    }
    tree = Taxonomy.from_nested(nested)
    assert tree.to_nested() == [
        [["cat", "dog"], ["duck"]],
        [["bus", "car"], ["tram"]],
        ["me"],
    ]
    assert tree.names == (
        *(None, "animal", "vehicle", "person"),
        *("mammal", "bird", "road", "rail"),
    )
    paths = {
        "cat": ("animal", "mammal"),
        "dog": ("animal", "mammal"),
        "duck": ("animal", "bird"),
        "bus": ("vehicle", "road"),
        "car": ("vehicle", "road"),
        "tram": ("vehicle", "rail"),
        "me": ("person",),
    }
    other = Taxonomy.from_paths(paths)
    assert other == tree and other.names == tree.names
    for classes in (sorted(paths), ["bus", "cat", "me"]):
        for given in (nested, paths, tree, tree.to_nested()):
            found = as_taxonomy(given, classes)
            inside = [[c for c in group if c in classes] for group in sets_of(tree)]
            assert {*map(tuple, inside)} - {()} == {*map(tuple, sets_of(found))}
    # Lists and mappings inside each other, labels beside groups.
    mixed = Taxonomy.from_nested(["a", {"g": ["b", {"h": ["c", "d"]}], "i": ["e"]}])
    assert mixed.to_nested() == [["a"], [[["b"], ["c", "d"]], ["e"]]]
    assert mixed.names == (None, None, None, "g", "i", None, "h")
    assert Taxonomy.from_nested([["a"], ["b"]]).names is None


@pytest.mark.parametrize(
    ("nested", "message"),
    [
        ({}, "nested holds no labels"),
        ({"a": []}, "empty node: 'a' of nested"),
        ({"a": {"b": {}}}, "empty node: 'b' of nested"),
        ({"a": "x"}, r"nested\['a'\] must be a list of labels or a mapping, got 'x'"),
        ({"a": None, "b": ["x"]}, r"nested\['a'\] must be a list"),
        ({"a": ["x"], "b": ["x"]}, "duplicate label 'x'"),
        ([{"a": ["x"]}, "y", {"a": ["y"]}], "duplicate label 'y'"),
    ],
)
def test_nested_mappings_that_are_not_a_tree(nested, message):
    with pytest.raises(ValueError, match=message):
        Taxonomy.from_nested(nested)


def test_names_that_are_nearly_right():
    tree = Taxonomy.from_nested({"cards": ["a", "b"], "carts": ["c"], 7: ["d", "e"]})
    with pytest.raises(
        ValueError, match=r"name 'crads'; did you mean 'cards' or 'carts'"
    ):
        tree.find("crads")
    for name in ("zzz", 8):
        with pytest.raises(ValueError, match="use the number of a node"):
            tree.find(name)
    twice = Taxonomy.from_nested({"x": {"y": [1, 2], "z": [3]}, "w": {"y": [4, 5]}})
    assert twice.names.count("y") == 2
    with pytest.raises(ValueError, match="nodes .* have .* use the number"):
        twice.find("y")


def test_a_class_in_two_groups_is_named():
    for given in ({"g": ["a", "b"], "h": ["a", "c"]}, {"g": [0, 1], "h": [0, 2]}):
        labels = sorted({label for group in given.values() for label in group})
        with pytest.raises(ValueError, match=f"duplicate label {labels[0]!r}"):
            as_taxonomy(given, labels)


def test_forms_of_a_given_taxonomy():
    groups = {"odd": [1, 3], "even": [0, 2]}
    expected = Taxonomy.from_nested([[0, 2], [1, 3]])
    for given in (
        groups,
        {"all": groups},
        [range(0, 4, 2), range(1, 4, 2)],
        {0: ["even"], 1: ["odd"], 2: ["even"], 3: ["odd"]},
        {0: "even", 1: "odd", 2: "even", 3: "odd"},
        {0: ("even",), 1: "odd", 2: "even", 3: ["odd"]},
        # groups called like classes, which are not a path for class 3
        {0: [1, 3], 1: [0, 2]},
    ):
        assert as_taxonomy(given, [3, 1, 0, 2]) == expected
    # paths whose groups are called like classes: some come twice
    paths = {0: [0], 1: [1], 2: [0], 3: [1]}
    assert as_taxonomy(paths, range(4)) == expected
    with pytest.raises(ValueError, match="among its keys and among its values"):
        as_taxonomy({0: [1], 1: [0]}, [0, 1])
    deep = []
    inner = deep
    for _ in range(300):
        inner.append([])
        inner = inner[0]
    inner.append(0)
    with pytest.raises(ValueError, match="more than 200 lists deep"):
        as_taxonomy(deep, [0])
    nest = {"a": [0]}
    for _ in range(300):
        nest = {"a": nest}
    with pytest.raises(ValueError, match="more than 200 lists deep"):
        as_taxonomy(nest, [0])
    loop = {"a": [0]}
    loop["b"] = loop
    with pytest.raises(ValueError, match="more than 200 lists deep"):
        as_taxonomy(loop, [0])
    with pytest.raises(ValueError, match="contains itself"):
        Taxonomy.from_nested(loop)


def test_labels_are_sorted_and_of_one_kind():
    tree = Taxonomy([-1, 0, 0], [1, 2, 1], ["z", "b", "a"])
    assert tree.classes.tolist() == ["a", "b", "z"]
    assert tree.to_nested() == [["a", "z"], ["b"]]
    objects = np.array(["z", "b", "a"], dtype=object)
    assert Taxonomy([-1, 0, 0], [1, 2, 1], objects) == tree
    assert Taxonomy.from_nested(np.arange(6).reshape(3, 2)).n_leaves == 3
    assert Taxonomy.from_nested([[np.int64(1)], [2]]).to_nested() == [[1], [2]]


def self_containing():
    nested = ["a"]
    nested.append([nested])
    return nested


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Taxonomy.from_nested([["a"], ["a", "b"]]), "duplicate label 'a'"),
        (lambda: Taxonomy.from_nested([["a"], []]), "empty node"),
        (lambda: Taxonomy.from_nested([]), "empty node"),
        (lambda: Taxonomy.from_nested("abc"), "must be a list"),
        (lambda: Taxonomy.from_nested([["a"], [1]]), "all strings or all numbers"),
        (lambda: Taxonomy.from_nested([["a"], ["a\0"]]), r"labels: 'a.x00' ends"),
        (
            lambda: Taxonomy.from_nested([["a"], [None]]),
            "labels must not be missing, got None",
        ),
        (lambda: Taxonomy.from_nested([[None], [set()]]), "hashable"),
        (
            lambda: Taxonomy.from_nested([[1.0], [float("nan")]]),
            "labels must not be missing, got nan",
        ),
        (lambda: as_taxonomy([["a"], ["b"]], ["a", "b", "c"]), "missing.*'c'"),
        (
            lambda: as_taxonomy([["a"], ["b"]], [1, 2]),
            "missing.* no place for 1",
        ),
        (lambda: as_taxonomy({"a": "p", "b": "p"}, ["p"]), "missing labels.*'p'"),
        (lambda: Taxonomy.from_nested(self_containing()), "cycle"),
        (lambda: Taxonomy.from_parents({"a": "b", "b": "a"}), "cycle"),
        (lambda: Taxonomy.from_parents({"a": "a", "b": "c"}), "cycle: a -> a"),
        (lambda: Taxonomy.from_parents({"x": "a", "a": "b", "b": "a"}), "cycle"),
        (lambda: Taxonomy.from_parents({}), "empty"),
        (lambda: Taxonomy.from_parents([-1, 0]), "mapping"),
        (lambda: Taxonomy.from_paths({}), "empty"),
        (lambda: Taxonomy.from_paths([("a",)]), "mapping"),
        (lambda: Taxonomy([-1, 0, 0], [1, 1]), "empty node: leaf 2"),
        (lambda: Taxonomy([-1, 0, 0], [1, 2, 0]), "inner node 0"),
        (lambda: Taxonomy([-1, -1], [0, 1]), "2 roots"),
        (lambda: Taxonomy([1, 0], [0, 1]), "no root"),
        (lambda: Taxonomy([-1, 2, 1], [0, 1]), "cycle: 1 -> 2 -> 1"),
        (lambda: Taxonomy([-1, 5], [1]), "parent\\[1\\] = 5"),
        (lambda: Taxonomy([-1], [3]), "leaf_of_class"),
        (lambda: Taxonomy([-1], []), "at least one class"),
        (lambda: Taxonomy([], [0]), "at least a root"),
        (lambda: Taxonomy([-1.0], [0]), "integers"),
        (lambda: Taxonomy([-1], [0, 0], ["a", "a"]), "duplicate label"),
        (lambda: Taxonomy([-1], [0, 0], ["a"]), "one leaf per class"),
        (lambda: Taxonomy([-1], [0], names=["a", "b"]), "names"),
    ],
)
def test_bad_input(make, message):
    with pytest.raises(ValueError, match=message):
        make()


# --------------------------------------------------- fewer levels, larger leaves


def families(tree):
    """The sets of classes below its nodes, with those of their children."""
    below = [frozenset(tree.classes_below(v).tolist()) for v in range(tree.n_nodes)]
    return {s: {below[c] for c in tree.children(v)} for v, s in enumerate(below)}


@pytest.mark.parametrize("max_leaf", [5, 1, 17, 60])
def test_limit_keeps_the_large_nodes_and_their_children(max_leaf):
    tree = random_taxonomy(60, np.random.default_rng(0))
    stopped = tree.limit(max_leaf=max_leaf)
    before, after = families(tree), families(stopped)
    divided = {s for s, parts in before.items() if len(s) > max_leaf and parts}
    assert {s for s, parts in after.items() if parts} == divided
    assert all(after[s] == before[s] for s in divided)
    again = Taxonomy(stopped.parent, stopped.leaf_of_class, stopped.classes)
    assert_array_equal(again.parent, stopped.parent)  # breadth-first already
    assert stopped.limit(max_leaf=max_leaf) is stopped


@pytest.mark.parametrize("max_children", [3, 2, 4, 16, 60])
def test_widen_keeps_the_leaves_and_drops_nodes_while_children_fit(max_children):
    tree = random_taxonomy(60, np.random.default_rng(0))
    wide = tree.limit(max_children=max_children)
    before, after = families(tree), families(wide)
    leaves = {s for s, parts in before.items() if not parts}
    assert {s for s, parts in after.items() if not parts} == leaves
    assert after.keys() <= before.keys()
    for s, parts in after.items():
        assert len(parts) <= max(max_children, len(before[s]))
        for child in parts:  # none of them fits, or it would have been replaced
            more = len(before[child])
            assert not more or len(parts) - 1 + more > max_children
    assert_array_equal(wide.class_sets.order, tree.class_sets.order)
    again = Taxonomy(wide.parent, wide.leaf_of_class, wide.classes)
    assert_array_equal(again.parent, wide.parent)
    if max_children == 60:
        assert wide.depth == (1 if tree.n_leaves > 1 else 0)


def test_widen_shares_a_balanced_tree_out_evenly():
    tree = RandomSplit(random_state=0).build(np.zeros((512, 1)), np.arange(512))
    wide = tree.limit(max_children=32)
    assert np.diff(wide.child_ptr)[~wide.is_leaf].tolist() == [32] + 32 * [16]


def test_fewer_levels_keep_names_and_refuse_bad_numbers():
    tree = Taxonomy.from_nested(
        {"a": {"b": [1, 2], "c": {"d": [3, 4], "e": [5]}}, "f": [6, 7]}
    )
    assert tree.limit(max_leaf=3).names == (None, "a", "f", "b", "c")
    assert tree.limit(max_children=3).names == (None, "b", "c", "f", "d", "e")
    assert tree.limit(max_children=4).names == (None, "b", "d", "e", "f")
    for bad in (0, 1.5, "x"):
        with pytest.raises(ValueError, match="^max_leaf must be an integer of"):
            tree.limit(max_leaf=bad)
        with pytest.raises(ValueError, match="^max_children must be an integer of"):
            tree.limit(max_children=bad)


def test_fewer_levels_of_a_chain():
    n = 3000
    parent = np.concatenate([[-1], np.repeat(np.arange(n - 1) * 2, 2)])
    tree = Taxonomy(parent, np.append(np.arange(n - 1) * 2 + 1, 2 * n - 2))
    assert tree.depth == n - 1
    assert tree.limit(max_leaf=10).depth == n - 10
    assert tree.limit(max_children=n).depth == 1
    assert tree.limit(max_children=30).depth == -(-(n - 1) // 29)


@pytest.mark.parametrize("seed", range(3))
def test_a_forest_holds_the_sets_of_its_trees_and_numbers_their_weight_vectors(seed):
    rng = np.random.default_rng(seed)
    trees = [random_taxonomy(20, rng) for _ in range(3)]
    forest = Forest.from_taxonomies(trees)
    forest.check()
    below = [{c} if c >= 0 else set() for c in forest.node_class]
    for v in range(forest.n_nodes)[::-1]:
        children = forest.first_child[v] + np.arange(forest.n_child[v])
        assert_array_equal(forest.parent[children], v)
        below[v].update(*(below[c] for c in children))
    for t, tree in enumerate(trees):
        # Classes are numbered in each tree by their label.
        first = forest.tree_ptr[t]
        assert [below[first + v] for v in range(tree.n_nodes)] == [
            set(tree.classes_below(v).tolist()) for v in range(tree.n_nodes)
        ]
        assert [below[v] for v in forest.terminal[t]] == [{c} for c in range(20)]
    # Two children are told apart by one vector, three by three.
    rows = [0 if m < 2 else 1 if m == 2 else m for m in forest.n_child]
    assert forest.rows_of_node.tolist() == rows
    vectors = [v + k for v, n in zip(forest.row, rows) for k in range(n)]
    assert vectors == list(range(forest.n_rows))
    assert_array_equal(forest.model_nodes, np.flatnonzero(rows))


def test_paths_of_nodes_without_a_name_and_with_that_of_a_sibling():
    tree = Taxonomy.from_nested([["a", "b"], [["c", "d"], ["e"]]])
    assert tree.node_paths().tolist() == [
        ["", "", ""],
        ["node 1", "", ""],
        ["node 2", "", ""],
        ["node 2", "node 3", ""],
        ["node 2", "e", ""],
    ]
    assert tree.label_paths(["d", "e"]).tolist() == [
        ["node 2", "node 3", "d"],
        ["node 2", "e", ""],
    ]
    same = Taxonomy([-1, 0, 0, 0], [1, 1, 2, 2, 3], names=[None, "x", "x", None])
    paths = [*same.node_paths().tolist(), *same.label_paths(range(5)).tolist()]
    assert len({tuple(p) for p in paths}) == 4 + 5 - 1  # class 4 is node 3
    flat = Taxonomy.flat([3, 5])
    assert flat.node_paths().tolist() == [[""]]
    assert flat.label_paths([5]).tolist() == [["5"]]
    assert Taxonomy.flat([3]).label_paths([3]).tolist() == [["3"]]
    with pytest.raises(ValueError, match="unknown label 4"):
        flat.label_paths([4])
    with pytest.raises(ValueError, match='label ""'):
        Taxonomy.flat(["", "a"]).node_paths()


def test_sums_below_nodes_of_a_chain():
    n = 300
    # node 2v + 1 is a leaf, node 2v + 2 goes on
    parent = [-1] + [2 * (v // 2) for v in range(2 * n)]
    leaf = [*range(1, 2 * n, 2), 2 * n]
    tree = Taxonomy(parent, leaf)
    values = np.random.default_rng(0).random((3, n + 1))
    found = tree.node_sums(values)
    for v in range(tree.n_nodes):
        np.testing.assert_allclose(
            found[:, v], values[:, tree.classes_below(v)].sum(axis=1)
        )
    for bad in (values[:, 1:], values[0]):
        with pytest.raises(ValueError, match="values must have shape"):
            tree.node_sums(bad)


def test_a_forest_refuses_arrays_that_contradict_each_other():
    trees = [Taxonomy.from_nested([["a", "b"], ["c"]]), Taxonomy.flat(["a", "b", "c"])]
    forest = Forest.from_taxonomies(trees)
    forest.check()

    def changed(name, place, value):
        array = getattr(forest, name).copy()
        array[place] = value
        return forest._replace(**{name: array})

    nodes = np.arange(forest.n_nodes)
    for v in nodes:
        # Another parent, though the roots are the right ones, and another root.
        other = 1 if forest.parent[v] == 0 else 0
        with pytest.raises(ValueError, match="^parent of the forest"):
            changed("parent", v, other).check()
        with pytest.raises(ValueError, match="^row of the forest"):
            changed("row", v, forest.row[v] + 1).check()
    for start in set(range(1, forest.n_nodes)) - {int(forest.tree_ptr[1])}:
        with pytest.raises(ValueError, match="^parent of the forest"):
            changed("tree_ptr", 1, start).check()
    for t, c in np.ndindex(forest.terminal.shape):
        with pytest.raises(ValueError, match="^terminal of the forest"):
            changed("terminal", (t, c), forest.terminal[t, (c + 1) % 3]).check()


@pytest.mark.parametrize(
    "labels",
    [
        np.arange(4).astype("datetime64[D]"),
        np.arange(4).astype("datetime64[ns]"),
        np.arange(4).astype("timedelta64[ns]"),
    ],
    ids=lambda labels: labels.dtype.name,
)
def test_dates_stay_dates(labels):
    a, b, c, d = labels
    nested = [[a, c], [b, d]]
    tree = Taxonomy.from_nested(nested)
    assert tree.classes.dtype == labels.dtype
    assert tree.to_nested() == nested
    assert tree.export_text().splitlines()[-1] == f"|--- {b}, {d}"
    for given in (
        {"x": [a, c], "y": [b, d]},
        {a: ("x",), b: ("y",), c: ("x",), d: ("y",)},
        {a: "x", b: "y", c: "x", d: "y"},
    ):
        assert as_taxonomy(given, labels).to_nested() == nested
