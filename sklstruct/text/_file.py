"""The file of a reduced text classifier: tries, weights of 8 bits, trees.

The nodes of a trie are in depth-first order, siblings sorted by symbol. Depths replace
parents, and for most tries a bit per node replaces the number of its column. Integers
are stored in the smallest type that holds the largest. A reader makes the tries and the
trees by their constructors, which check every id; the weights stay in the mapped file.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .._checks import check_length
from ..exchange import Container, labels_of, put_labels
from ..hierarchical._score_model import ScoreModel
from ..linear._labels import LabelColumns
from ..taxonomy import Taxonomy
from ._ngrams import NgramTrie, depth_first, parents_in_order
from ._reading import Reader, Words
from ._scores import ByteWeights, Reduced
from ._texts import ERRORS
from ._vectorizer import NgramVectorizer, idf_of

TEXT_MODEL = Container(b"sklstruct texts\n", 4, "a text classifier")

# The arrays of `ByteWeights`.
_OF_WEIGHTS = "scale", "count", "gap", "weight", "bias"


def _narrow(numbers: Any) -> NDArray:
    """Non-negative integers as little-endian numbers of the smallest type."""
    array = np.asarray(numbers, dtype=np.int64)
    kind = np.min_scalar_type(int(array.max(initial=0)))
    return array.astype(np.dtype(kind).newbyteorder("<") if array.size else np.uint8)


def _plain(parameters: dict[str, Any]) -> dict[str, Any]:
    """The parameters that JSON can hold."""
    kinds = str | int | float | bool | None
    found = {}
    for name, value in parameters.items():
        parts = value if isinstance(value, list | tuple) else [value]
        if all(isinstance(part, kinds) for part in parts):
            found[name] = value
    return found


def _restored(parameters: dict[str, Any]) -> dict[str, Any]:
    bounds = parameters.get("ngram_range")
    if bounds is not None:
        parameters["ngram_range"] = tuple(bounds)
    return parameters


# ------------------------------------------------------------------- vectorizers


def _put_vectorizer(i: int, one: NgramVectorizer, arrays: dict) -> dict[str, Any]:
    """The header of vectorizer i; its arrays are added to `arrays`."""
    trie = one.trie_
    order, depth = depth_first(trie.parent, trie.symbol)
    column = trie.column[order][1:]
    is_column = column >= 0
    arrays[f"depth{i}"], arrays[f"symbol{i}"] = (
        _narrow(depth[1:]),
        _narrow(trie.symbol[order][1:]),
    )
    arrays[f"is_column{i}"] = np.packbits(is_column)
    if not np.array_equal(column[is_column], np.arange(trie.n_columns)):
        arrays[f"column{i}"] = _narrow(column[is_column])
    if one.use_idf:
        n_with = (1.0 + one.n_texts_) / np.exp(one.idf_ - 1.0) - 1.0
        arrays[f"n_with{i}"] = _narrow(np.rint(n_with))
    header = {
        "parameters": _plain(one.get_params()),
        "dtype": one._dtype,
        "n_texts": one.n_texts_,
        "n_columns": trie.n_columns,
    }
    words = trie.reader.words
    if words is not None:
        header["n_stop"] = words.n_stop
        arrays[f"letters{i}"] = words.letters
        arrays[f"lengths{i}"] = _narrow(np.diff(words.ends))
    if one.terms_ is not None:
        terms = np.array(one.terms_, dtype=object)
        put_labels(f"terms{i}", terms, arrays, ERRORS)
    return header


def _vectorizer(i: int, header: dict[str, Any], arrays: dict) -> NgramVectorizer:
    one = NgramVectorizer(**_restored(header["parameters"]))
    one._validate_params()
    one._dtype = "float32" if header["dtype"] == "float32" else "float64"
    words, n_columns = None, int(header["n_columns"])
    if one.analyzer == "word":
        ends = np.append(0, np.cumsum(arrays[f"lengths{i}"], dtype=np.int64))
        words = Words(arrays[f"letters{i}"], ends, int(header["n_stop"]))
        words._check_arrays()
    parent = parents_in_order(arrays[f"depth{i}"])
    symbol = np.append(0, arrays[f"symbol{i}"]).astype(np.uint32)
    is_column = np.unpackbits(arrays[f"is_column{i}"])[: parent.size - 1].astype(bool)
    column = np.full(parent.size, -1, dtype=np.int32)
    given = arrays.get(f"column{i}", np.arange(int(is_column.sum())))
    check_length("column", given, int(is_column.sum()), "one per n-gram")
    column[1:][is_column] = given
    if f"column{i}" not in arrays and n_columns != given.size:
        raise ValueError("n_columns is not the number of the n-grams")
    shortest, longest = map(int, one.ngram_range)
    reader = Reader(one.analyzer, shortest, longest, one.lowercase, words)
    one.trie_ = NgramTrie(reader, parent, symbol, column, n_columns)
    one.trie_.make_tables()  # an error if two words or two siblings are the same
    one.n_texts_ = int(header["n_texts"])
    one.terms_ = None
    if f"terms{i}" in arrays:
        one.terms_ = labels_of(f"terms{i}", "object", arrays, ERRORS).tolist()
        check_length("terms", one.terms_, n_columns, "one per column")
    if one.use_idf:
        n_with = arrays[f"n_with{i}"]
        check_length("n_with", n_with, n_columns, "one per column")
        one.idf_ = idf_of(one.n_texts_, n_with)
    return one


# ------------------------------------------------------------------------- model


def _put_reduced(prefix: str, reduced: Reduced, arrays: dict) -> dict[str, Any]:
    """The header of a reduced classifier; its arrays are added to `arrays`."""
    model, weights, part = reduced
    trees = model.taxonomies
    found = {name: getattr(weights, name) for name in _OF_WEIGHTS} | {
        "count": _narrow(weights.count),
        "parent": _narrow(np.concatenate([tree.parent + 1 for tree in trees])),
        "leaf": _narrow(np.concatenate([tree.leaf_of_class for tree in trees])),
        "numbers": model.numbers.ravel(),
    }
    arrays |= {prefix + name: array for name, array in found.items()}
    return {
        "n_nodes": [tree.n_nodes for tree in trees],
        "names": [
            tree.names and [None if name is None else str(name) for name in tree.names]
            for tree in trees
        ],
        "weight_threshold": part,
        "loss": model.loss,
        "n_leaves": model.n_leaves,
        "threshold": model.threshold,
    }


def _reduced(
    prefix: str,
    header: dict[str, Any],
    arrays: dict,
    n_columns: int,
    names: NDArray,
    columns: LabelColumns | None,
) -> Reduced:
    weights = ByteWeights(*(arrays[prefix + name] for name in _OF_WEIGHTS))
    check_length(f"{prefix}count", weights.count, n_columns, "one per column")
    classes = names if columns is None else columns.leaves
    n_nodes = header["n_nodes"]
    parent = arrays[f"{prefix}parent"].astype(np.int64) - 1
    parents = np.split(parent, np.cumsum(n_nodes)[:-1])
    leaf = arrays[f"{prefix}leaf"].reshape(len(n_nodes), classes.size)
    trees = [
        Taxonomy(above, leaves, classes, of)
        for above, leaves, of in zip(parents, leaf.astype(np.int64), header["names"])
    ]
    for tree, n, before in zip(trees, n_nodes, parents):
        if tree.n_nodes != n or not np.array_equal(tree.parent, before):
            raise ValueError("parent is not that of a tree")
        if not np.array_equal(tree.classes, classes):
            raise ValueError("labels must be sorted")
    n_leaves, threshold = header["n_leaves"], float(header["threshold"])
    if type(n_leaves) is not int or n_leaves < 1 or not 0 < threshold < 1:
        raise ValueError("n_leaves or threshold is out of its range")
    model = ScoreModel(
        trees,
        names if columns is None else np.arange(names.size),
        columns,
        header["loss"],
        arrays[f"{prefix}numbers"].reshape(len(trees), -1).copy(),
        n_leaves,
        threshold,
    )
    n_scores = model.classifier(None).n_features_in_
    check_length(f"{prefix}bias", weights.bias, n_scores, "one per score")
    return Reduced(model, weights, float(header["weight_threshold"]))


class Parts(NamedTuple):
    """The contents of a file. names: the labels; prior: `class_prior_`."""

    parameters: dict[str, Any]
    vectorizers: dict[str, NgramVectorizer]
    reduced: Reduced
    second: Reduced | None
    names: NDArray
    prior: NDArray


def write_model(parts: Parts) -> Callable[[Any], None]:
    """A function that writes a model to a file."""
    parameters, vectorizers, reduced, second, names, prior = parts
    arrays: dict[str, NDArray] = {"prior": prior}
    features = {
        name: _put_vectorizer(i, one, arrays)
        for i, (name, one) in enumerate(vectorizers.items())
    }
    header: dict[str, Any] = {
        "parameters": _plain(parameters),
        "features": features,
        "labels": put_labels("labels", names, arrays, ERRORS),
        **_put_reduced("", reduced, arrays),
        "y": None,
        "second": None,
    }
    columns = reduced.model.columns
    if columns is not None:
        header["y"] = [columns.n_labels, columns.dtype.str, columns.is_sparse]
        arrays["known"] = _narrow(columns.known)
    if second is not None:
        header["second"] = _put_reduced("second ", second, arrays)
    return TEXT_MODEL.writer(header, arrays)


def model_of(header: dict[str, Any], arrays: dict[str, NDArray]) -> Parts:
    """The parts of a model in a file."""
    vectorizers = {
        name: _vectorizer(i, one, arrays)
        for i, (name, one) in enumerate(header["features"].items())
    }
    names = labels_of("labels", header["labels"], arrays, ERRORS)
    prior = arrays["prior"].astype(np.float64)
    check_length("prior", prior, names.size, "one per label")
    one_label = header["y"] is None
    if not ((prior >= 0) & (prior <= 1)).all() or (
        one_label and abs(prior.sum() - 1) > 1e-6
    ):
        raise ValueError("prior must be probabilities")
    columns = None
    if header["y"] is not None:
        n_labels, kind, is_sparse = header["y"]
        known = arrays["known"].astype(np.int64)
        if kind[1:2] not in "iufb" or not (np.diff(known) > 0).all():
            raise ValueError("known must increase, and y must have a numeric type")
        if names.size != n_labels or known[-1:].sum() >= n_labels or not known.size:
            raise ValueError("known must be numbers of labels")
        columns = LabelColumns(int(n_labels), known, np.dtype(kind), bool(is_sparse))
    n_columns = sum(one.trie_.n_columns for one in vectorizers.values())
    reduced = _reduced("", header, arrays, n_columns, names, columns)
    second = header["second"]
    if second is not None:
        if columns is None:
            raise ValueError("a second stage needs several labels")
        second = _reduced("second ", second, arrays, 2 * names.size, names, columns)
    parameters = _restored(header["parameters"])
    return Parts(parameters, vectorizers, reduced, second, names, prior)
