"""The conditional likelihood of sequences of observations, without graphs."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import scipy.sparse as sp

from ._chain_loss_fast import SAFE, Chains
from ._inference import BUDGET
from ._rows import FeatureRows


def sum_tables(transition: np.ndarray) -> tuple[np.ndarray, float, bool]:
    """(tables of the kernels, the largest transition, whether to use logarithms).

    transition : (k, k), the earlier label first
    """
    top = float(transition.max())
    ratio = np.exp(transition - top)
    tables = np.array([transition, transition.T, ratio, ratio.T])
    return tables, top, top - float(transition.min()) > SAFE


def sum_room(longest: int, k: int) -> np.ndarray:
    """Scratch memory of the kernels for sequences of so many items."""
    return np.empty(longest * (5 * k + 1) + 2 * k)


class ChainLikelihood:
    r"""The loss :math:`-\sum_s a_s \log p_w(y_s \mid x_s)`, a function of free weights.

    Unknown labels are summed over. The weights of features, by column and label, come
    first, then the weights of transitions, pairs of labels; `free` has the indices of
    the free weights.

    ptr: the first item of each sequence, and the end.
    path: positions of the labels, -1 if unknown.
    k: number of labels.
    weight: the :math:`a_s`.
    min_count: a weight is free if the feature and label, or the two successive labels,
    occur together at least so often; a sequence counts ceil(weight) times.
    parallel: an ordered map. Sums run in the order of the sequences, so that results do
    not depend on the threads.
    """

    def __init__(
        self,
        ptr: np.ndarray,
        rows: FeatureRows,
        path: np.ndarray,
        k: int,
        weight: np.ndarray,
        min_count: tuple[int, int],
        parallel: Callable[..., list],
    ) -> None:
        self.k, self.parallel = k, parallel
        n, width = path.size, rows.width
        lengths = np.diff(ptr)
        of_item = np.repeat(weight, lengths)
        times = np.ceil(of_item)
        later = np.ones(n, dtype=bool)  # items that are not the first
        later[ptr[:-1][lengths > 0]] = False
        later = np.flatnonzero(later)
        known = np.flatnonzero(path >= 0)
        items = sp.csr_array((times[known], (known, path[known])), shape=(n, k))
        present = np.ones(rows.column.size)  # also with the value 0, as in CRFsuite
        seen = sp.csr_array((present, rows.column, rows.ptr), shape=(n, width))
        count = (seen.T @ items).tocsr()
        count.sum_duplicates()
        often = count.data >= min_count[0]
        owner = np.repeat(np.arange(width), np.diff(count.indptr))[often]
        label = count.indices[often]
        if min_count[0] == 0:
            owner, label = np.divmod(np.arange(width * k), k)
        both = later[(path[later] >= 0) & (path[later - 1] >= 0)]
        steps = path[both - 1] * k + path[both]
        steps = np.bincount(steps, times[both], minlength=k * k)
        self.steps = np.flatnonzero(steps >= min_count[1])
        first = np.zeros(width + 1, dtype=np.int64)
        np.cumsum(np.bincount(owner, minlength=width), out=first[1:])
        self.free = np.concatenate([owner * k + label, width * k + self.steps])
        squares = rows.value**2 * np.repeat(of_item, np.diff(rows.ptr))
        curve = np.bincount(rows.column, squares, minlength=width)
        #: About the second derivatives: those at 0, of each free weight alone.
        self.curvature = np.concatenate([
            curve[owner] * (1.0 - 1.0 / k) / k,
            np.full(self.steps.size, of_item[later].sum() * (1.0 - k**-2) / k**2),
        ])  # fmt: skip
        self.chains = Chains(ptr, rows, first, label.astype(np.int32), path, weight)
        self._cut(ptr, rows)

    def _cut(self, ptr: np.ndarray, rows: FeatureRows) -> None:
        """Split the sequences into runs, each with a gradient, and the runs into parts.

        A part is a kernel call of some tens of milliseconds; signals are handled
        between calls. A gradient array costs much less than the sequences of its run.
        """
        self.longest = int(np.diff(ptr).max(initial=0))
        cost = np.cumsum(4 * (np.diff(ptr) * self.k**2 + np.diff(rows.ptr[ptr])))
        total = int(cost[-1])
        n_runs = min(16, max(1, total // (32 * max(1, self.free.size))))
        n_parts = 1 + total // (n_runs * 10 * BUDGET)
        cuts = np.searchsorted(cost, np.linspace(0, total, n_runs * n_parts + 1))
        cuts[0], cuts[-1] = 0, cost.size
        self.runs = [cuts[i * n_parts :][: n_parts + 1] for i in range(n_runs)]

    def value_and_gradient(self, w: np.ndarray) -> tuple[float, np.ndarray]:
        """The loss, in nats, and its gradient with respect to the free weights."""
        k, n = self.k, w.size - self.steps.size
        transition = np.zeros(k * k)
        transition[self.steps] = w[n:]
        tables = sum_tables(transition.reshape(k, k))

        def work(cuts: np.ndarray) -> tuple[float, np.ndarray, np.ndarray]:
            gradient, pair = np.zeros(w.size), np.zeros((2, k, k))
            room = sum_room(self.longest, k)
            value = 0.0
            for a, b in pairwise(cuts.tolist()):
                value += self.chains.loss(a, b, w, *tables, gradient, pair, room)
            return value, gradient, pair

        found = self.parallel(work, self.runs)
        value, gradient, pair = found[0]
        for more in found[1:]:
            value += more[0]
            gradient += more[1]
            pair += more[2]
        gradient[n:] = (pair[0] * tables[0][2] + pair[1]).ravel()[self.steps]
        return value, gradient
