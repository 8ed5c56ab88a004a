"""Back-off models over fewer words."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ..context_tree import ContextTree, pairs_of_keys
from ..symbols import Labels, TextFile, object_array, read_vocabulary
from ._model import BackoffModel, check_model


def restrict(
    model: BackoffModel, vocabulary: ArrayLike | TextFile, *, unknown: Any = "<unk>"
) -> BackoffModel:
    r"""Restrict a model to fewer words; the other words become the unknown word.

    .. math::
        P'(\langle unk\rangle \mid n) = P(\langle unk\rangle \mid n) + \sum_{w
        \notin \mathtt{vocabulary}} P(w \mid n), \qquad P'(y \mid n) = P(y \mid n)

    for the other classes y and all contexts n without removed words; the sums of rows
    do not change. Contexts that contain a removed word are removed too: in contexts,
    removed words are also read as the unknown word.

    Parameters
    ----------
    model : BackoffModel
        A model with context symbols.

    vocabulary : array-like of shape (n_words,) or TextFile
        The words that stay, or a file of words. Words that the model lacks stay
        unknown. Marks always stay.

    unknown : object, default="<unk>"
        Name of the unknown word, if the model lacks it.

    Returns
    -------
    smaller : BackoffModel
        Words are in the order of the model. The same model is returned if no word is
        removed.

    Raises
    ------
    ValueError
        If no word of the model is in the vocabulary, or `unknown` is another word of
        the model.
    TypeError
        If the vocabulary is one string, or a word is not hashable.

    See Also
    --------
    prune : Removes n-grams.

    Examples
    --------
    >>> from sklstruct.backoff import restrict
    >>> from sklstruct.language_model import LanguageModel
    >>> from sklstruct.smoothing import WittenBellLM
    >>> text = ["the cat sat", "the dog sat", "the cat ran", "a dog ran"]
    >>> model = LanguageModel(WittenBellLM(), max_depth=2).fit(text).backoff_model_
    >>> smaller = restrict(model, ["the", "cat", "dog", "fox"])
    >>> smaller.labels.classes.tolist()
    ['cat', 'dog', 'the', '<unk>', '</s>']
    >>> round(smaller.check_normalized(), 9)
    0.0
    """
    check_model(model)
    old = model.labels
    symbols = old.known_symbols("restrict")
    kept = {*read_vocabulary(vocabulary, old.analyzer), old.end, old.unknown} - {None}
    keep = np.array([word in kept for word in old.classes.tolist()])
    if not keep.any() or not (set(old.classes[keep].tolist()) - {old.end, old.unknown}):
        raise ValueError("vocabulary holds no word of the model")
    if keep.all():
        return model
    classes = old.classes[keep].tolist()
    if old.unknown is not None:
        unknown = old.unknown
    elif unknown in old.token_code or unknown is None:
        raise ValueError(f"unknown={unknown!r} must be a word that the model lacks")
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
