r"""Repeated words: counts of the words of a history, within their groups.

A group g of words with the probabilities :math:`P(y \mid g, x)` becomes

.. math::
    \frac{a(y) + \theta_g\, P(y \mid g, x)}{a(g) + \theta_g},

with a(y) and a(g) the number of times that the word, and words of the group, occur in
the history. This is the posterior mean under a Dirichlet prior with the concentration
:math:`\theta_g`.

In a group g of groups v, let r(v) be the share of v in the text. The probability of v
is multiplied by the root of the ratio of such a posterior mean of the share to r(v),
and divided by the sum over all v:

.. math::
    P(v \mid g, x)\, \sqrt{\frac{a(v) + \theta_g\, r(v)}{(a(g) + \theta_g)\, r(v)}} .
"""

from __future__ import annotations

from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray

from ..symbols import TextWindows, is_nan
from ..symbols._encoding import SymbolIndex
from ._history_fast import add_slopes, count_in_history

# Products of a share and a smaller concentration may underflow.
LEAST = 1e-6
# Concentrations are found between these values, by _HALVINGS bisections of the
# logarithm.
_LEAST, _MOST, _HALVINGS = 1e-3, 1e6, 40
# From at most about so many samples, evenly spaced.
_SAMPLES = 1 << 21


def history_of(X: Any, classes: NDArray, padding: Any) -> TextWindows:
    """The histories of windows as class ids; other symbols get the id n_classes.

    The history of a row of an array is the row. `padding` marks missing history.
    ValueError if X is a sparse matrix.
    """
    if sp.issparse(X):
        raise ValueError(
            "concentration counts the words of context windows, and X is a sparse "
            "matrix: give windows, or set concentration=None"
        )
    is_text = isinstance(X, TextWindows)
    values = X.tokens if is_text else np.asarray(X)
    ids = SymbolIndex(classes).ids(values, unknown=classes.size)
    if padding is not None and not is_nan(padding):
        missing = np.broadcast_to(values == padding, values.shape)
        if missing.any():
            ids = np.where(missing, np.int32(-1), ids)
    return X.with_tokens(ids) if is_text else TextWindows.of_rows(ids, ids.shape[1])


def count_words(
    history: TextWindows, y: NDArray, group: NDArray
) -> tuple[NDArray, NDArray]:
    """The number of times that y_i, and words of its group, occur in each history.

    history: from `history_of`. group: the group of each class, -1 without group.
    """
    word, of_group = np.empty(y.size), np.empty(y.size)
    count_in_history(
        history.tokens, history.end, history.reach,
        np.ascontiguousarray(y, dtype=np.int64), group, word, of_group,
    )  # fmt: skip
    return word, of_group


def find_concentrations(
    history: TextWindows, y: NDArray, weight: NDArray, group: NDArray, n_groups: int
) -> tuple[NDArray, NDArray]:
    r"""The concentrations with the largest likelihood in each group, and the shares
    p(y).

    .. math::
        \theta_g = \arg\max_\theta \sum_{i:\, g(y_i) = g} \omega_i
        \ln \frac{a_i(y_i) + \theta\, p(y_i)}{a_i(g) + \theta},

    with p(y) the share of the word in its group: a Polya urn. The probabilities of a
    model are not used for p(y), because the model was fitted to the samples. The
    concentration is infinite if words do not occur again more often than by chance.
    :math:`\omega_i` is `weight`; the other parameters are as in `count_words`.
    """
    of_word = np.bincount(y, weight, group.size)
    total = np.bincount(group + 1, of_word, n_groups + 1)[group + 1]
    share = of_word / np.maximum(total, np.finfo(float).tiny)
    some = slice(None, None, max(1, -(-y.size // _SAMPLES)))
    history, y, weight = history[some], y[some], weight[some]
    word, of_group = count_words(history, y, group)
    used = np.flatnonzero(of_group)
    samples = (
        word[used], of_group[used], share[y[used]], weight[used], group[y[used]],
    )  # fmt: skip

    def slopes(log_theta):
        out = np.zeros(n_groups)
        add_slopes(*samples, np.exp(log_theta), out)
        return out

    low, high = np.full(n_groups, np.log(_LEAST)), np.full(n_groups, np.log(_MOST))
    endless = slopes(high) >= 0
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        rises = slopes(middle) > 0
        low, high = np.where(rises, middle, low), np.where(rises, high, middle)
    return np.where(endless, np.inf, np.exp(low)), share
