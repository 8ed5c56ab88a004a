"""Back-off models with fewer words."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from ..context_tree import ContextTree, pairs_of_keys
from ..symbols import Labels, TextFile, object_array, read_vocabulary
from ._model import BackoffModel


def with_vocabulary(
    model: BackoffModel, vocabulary: ArrayLike | TextFile
) -> BackoffModel:
    """The model of the words of `vocabulary`; the other words are read as the unknown
    word.

    P'(unk | n) is the sum of P(w | n) over the unknown word and the removed words, so
    the sums of rows do not change. A model without unknown word gets "<unk>". Contexts
    with a removed word go, because removed words are also read as the unknown word
    there. Returns the model itself if no word is removed.
    """
    old = model.labels
    symbols = old.known_symbols("vocabulary")
    kept = {*read_vocabulary(vocabulary, old.analyzer), old.end, old.unknown} - {None}
    keep = np.array([word in kept for word in old.classes.tolist()])
    if not keep.any() or not (set(old.classes[keep].tolist()) - {old.end, old.unknown}):
        raise ValueError("vocabulary holds no word of the model")
    if keep.all():
        return model
    classes = old.classes[keep].tolist()
    unknown = "<unk>" if old.unknown is None else old.unknown
    if old.unknown is None and unknown in old.token_code:
        raise ValueError(
            f"vocabulary: removed words are read as {unknown!r}, which is a word of "
            "the model; rename it, or declare it the unknown word of the labels"
        )
    if old.unknown_id < 0:
        classes.append(unknown)
    # Symbols that are not a class, such as the start mark, stay.
    class_of_symbol = old.class_of_symbol
    stays = np.append(keep, True)[class_of_symbol]
    of_objects = old.classes.dtype == object
    names = object_array(classes) if of_objects else np.asarray(classes)
    settings = old.settings | {"unknown": unknown}
    labels = Labels(names, symbols[stays], **settings)

    tree, pairs = model.tree, model.pairs
    windows = tree.windows()
    alive = np.append(stays, True)[windows].all(axis=1)
    node = np.flatnonzero(alive).astype(np.int32)
    smaller, index = tree.select(alive)
    symbol = smaller.symbol.copy()
    symbol[1:] = (np.cumsum(stays) - 1)[symbol[1:]]
    smaller = ContextTree(smaller.parent, symbol, int(stays.sum()))

    # The unknown word gets a pair if the unknown word or a removed word has a pair.
    unknown_id = labels.unknown_id
    class_id = np.where(keep, np.cumsum(keep) - 1, unknown_id)
    of_pair = index[pairs.nodes()]
    there = of_pair >= 0
    size = np.int64(labels.n_classes)
    key = of_pair[there] * size + class_id[pairs.target[there]]
    key, first = np.unique(key, return_index=True)
    fewer = pairs_of_keys(smaller, key, labels.n_classes)
    log_prob = model.log_prob[there][first]
    summed = np.flatnonzero(fewer.target == unknown_id)
    if old.unknown_id >= 0:
        keep[old.unknown_id] = False
    of_both = model.group_proba(node[fewer.nodes()[summed]], keep.astype(np.int32))
    with np.errstate(divide="ignore"):
        log_prob[summed] = np.log(of_both[:, 0])
    return BackoffModel(
        fewer, np.minimum(log_prob, 0.0), model.log_backoff[node], labels
    )
