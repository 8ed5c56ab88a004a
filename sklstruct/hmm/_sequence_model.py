"""A back-off model of sequences of ids: of labels, and of the letters of words."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.utils.validation import has_fit_parameter

from ..backoff import BackoffClassifier, BackoffModel
from ..context_tree import ContextTree, pairs_of_arrays
from ..symbols import Labels, context_windows, object_array, prepare_for_ids


def id_windows(
    ids: list, n: int, width: int, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(contexts, targets, weights) of all n-grams of known ids.

    The windows have the ids of the sequences, n for the start in contexts and for the
    end in targets, and -1 for missing history and for all ids up to an unknown id (-1).
    A context has `width` ids.
    """
    w = context_windows(
        [[n + 2 if k < 0 else k for k in a.tolist()] for a in ids],
        width, start=n, end=n + 1,
    )  # fmt: skip
    name = np.array([*w.vocabulary, -1], dtype=np.int32)
    contexts, targets, counts = name[w.contexts], name[w.targets], w.sample_weight
    if weight is not None:
        # Windows before a start have no weight.
        counts = np.array(counts, dtype=np.float64)
        counts[counts > 0] = np.repeat(weight, [len(a) + 1 for a in ids])
    unknown = contexts == n + 2
    if unknown.any():
        lost = np.logical_or.accumulate(unknown[:, ::-1], axis=1)[:, ::-1]
        contexts[lost] = -1
        # The end of a sentence is counted only after a known id.
        counts = np.where((targets == n + 1) & unknown[:, -1], 0, counts)
    counts = np.where(targets == n + 2, 0, counts)
    return contexts, np.where(targets > n, n, targets), counts


def learn_from_ids(
    estimator: Any,
    names: list,
    contexts: Any,
    targets: Any,
    counts: Any,
    with_end: bool = True,
) -> tuple[BackoffModel, float]:
    """(model, log of its prior) of a clone of `estimator` fitted to `id_windows`.

    The ids stand for `names`. Without `with_end`, the end of a sequence is not a class,
    and must not be in `targets`. TypeError if the estimator fits no back-off model.
    """
    start = new_mark("<s>", names)
    end = new_mark("</s>", names) if with_end else None
    labels = Labels(
        object_array([*names, end] if with_end else names),
        object_array([*names, start]), start=start, end=end,
    )  # fmt: skip
    estimator, model = clone(estimator), None
    of_sentences = hasattr(estimator, "__sklstruct_over_ids__")
    if has_fit_parameter(estimator, "sample_weight") and not of_sentences:
        prepare_for_ids(estimator, labels)
        estimator.fit(contexts, targets, sample_weight=counts)
        model = getattr(estimator, "backoff_model_", None)
    if model is None:
        raise TypeError(
            f"smoothing: {type(estimator).__name__} fits no back-off model to labels; "
            "use an estimator such as KneserNeyLM or StructuredLogLinearLM, or a "
            "BackoffModel"
        )
    prior = 0.0
    if isinstance(estimator, BackoffClassifier):
        prior = estimator.log_prior()
    return name_symbols(model, labels), prior


def name_symbols(model: BackoffModel, labels: Labels) -> BackoffModel:
    """A model over ids with all labels, also labels that did not occur in training.

    The symbols are the labels and the start, the classes the labels and the end.
    """
    tree = model.tree
    ids = np.asarray(model.labels.symbols, dtype=np.int64)
    symbol = tree.symbol.copy()
    symbol[1:] = ids[symbol[1:]]
    tree = ContextTree(tree.parent, symbol, len(labels.known_symbols("names")))
    return model.relabel(labels, tree)


def with_unknown(model: BackoffModel, log_prob: float) -> BackoffModel:
    """The same model of words with a possible class for unknown words.

    A model that has such a class with a positive probability is returned unchanged. A
    new class is not a context symbol: an unknown word ends the history. The other
    probabilities are not changed, so that the sum of a row exceeds 1 by the probability
    of the new class, which is exp(log_prob) after the empty context.
    """
    labels, pairs, n = model.labels, model.pairs, model.n_classes
    root = model.log_prob[:n]
    if labels.unknown_id >= 0:
        if root[labels.unknown_id] > -np.inf:
            return model
        values = model.log_prob.copy()
        values[labels.unknown_id] = log_prob
        return BackoffModel(pairs, values, model.log_backoff, labels)
    ptr = pairs.ptr.copy()
    ptr[1:] += 1
    parent = pairs.parent + (pairs.parent >= n)
    grown = pairs_of_arrays(
        pairs.tree, ptr, np.insert(pairs.target, n, n), np.insert(parent, n, -1)
    )
    values = np.insert(model.log_prob, n, log_prob)
    return BackoffModel(grown, values, model.log_backoff, labels_with_unknown(labels))


def labels_with_unknown(labels: Labels) -> Labels:
    """The labels with a class for unknown words; a new class is the last."""
    if labels.unknown_id >= 0:
        return labels
    names = labels.classes.tolist()
    unknown = new_mark("<unk>", [*names, *labels.known_symbols("a tagger").tolist()])
    return Labels(
        object_array([*names, unknown]), labels.symbols, start=labels.start,
        end=labels.end, unknown=unknown, analyzer=labels.analyzer,
    )  # fmt: skip


def new_mark(mark: str, names: list) -> str:
    """A mark that is not among `names`."""
    while mark in names:
        mark = f"<{mark}>"
    return mark
