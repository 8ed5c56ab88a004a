"""Emission models: log-factors of the labels for every observation."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from numbers import Real
from typing import Any

import numpy as np

from .._checks import weight_keyword
from .._compat import BaseEstimator, Interval
from .._docs import shared_docs
from ..symbols import is_unknown

# A block of the docstrings of `sample`; see `shared_docs`.
DRAWN_IDS = """
ids : int ndarray of shape (n,)
    Label ids that `fit` has observed.

random_state : RandomState
    Source of the random numbers.
"""


class Emission(BaseEstimator):
    """Base of emission models, with `fit(X, ids, n_labels)` and `candidates(X)`.

    `ids` has an array of label ids for each sequence of X; `candidates` returns (label
    ids, log-factors) for every observation, None for a missing observation.
    """

    # True if possible candidates may be dropped.
    approximate_ = False

    def fit(
        self, X: list, ids: list, n_labels: int, weight: list | None = None
    ) -> Emission:
        """Learn from sequences of observations and their label ids.

        Parameters
        ----------
        X : list of sequences
            Observations; None or NaN is a missing observation.

        ids : list of ndarray
            Label ids 0..n_labels-1, one per observation. An observation with an unknown
            label, -1, is left out, as a missing observation is.

        n_labels : int
            At least 1.

        weight : list of ndarray, default=None
            Weight of each observation with its label, at least 0. None: 1.

        Returns
        -------
        self : object
        """
        self._validate_params()
        label = np.concatenate(ids) if len(ids) else np.empty(0, dtype=np.int32)
        observations = list(itertools.chain.from_iterable(X))
        keep = label >= 0
        if set(map(type, observations)) != {str}:  # a string is never missing
            keep &= ~np.fromiter(map(is_unknown, observations), bool, label.size)
        flat = None if weight is None else np.concatenate(weight)
        if flat is not None:
            keep &= flat > 0
            flat = flat[keep]
        if not keep.any():
            raise ValueError("X holds no observation to learn emissions from")
        if not keep.all():
            observations = list(itertools.compress(observations, keep.tolist()))
        self._fit(observations, label[keep], flat, n_labels)
        return self

    def _fit(self, observations, label, weight, n_labels):
        """Learn from observations and their labels, of which none is missing."""
        raise NotImplementedError

    def candidates(self, X: Sequence) -> list:
        """The labels that each observation may have, with their log-factors.

        Parameters
        ----------
        X : list of sequences of observations
            Sequences of any lengths; None or NaN is a missing observation.

        Returns
        -------
        rows : list of list of (label ids, log-factors)
            One list per sequence; None for a missing observation.
        """
        raise NotImplementedError

    def log_prior(self) -> float:
        """Logarithm of the prior of the parameters that `fit` maximises.

        Returns
        -------
        log_prior : float
            In nats, up to a constant; 0 without a prior.
        """
        return 0.0

    def _random_shares(self, observations, n_labels, rng):
        """(n_observations, n_labels) random shares for a start without known labels."""
        return rng.dirichlet(np.ones(n_labels), size=len(observations))


class RowsEmission(Emission):
    """Base of emissions that compute the factors of many observations at once."""

    _ids: np.ndarray  # labels that were observed; only these are candidates

    def candidates(self, X: Sequence) -> list:
        """(label ids, log-factors) of every observation; None if it is missing."""
        flat = [o for sequence in X for o in sequence if not is_unknown(o)]
        rows = iter(self._rows(flat) if flat else ())
        return [
            [None if is_unknown(o) else (self._ids, next(rows)) for o in sequence]
            for sequence in X
        ]

    def _rows(self, observations):
        """(n_observations, n_observed_labels) log-factors."""
        raise NotImplementedError


class CategoricalEmission(Emission):
    r"""Relative frequencies of symbols, with a smallest probability.

    .. math::
        p(o \mid y) = \max\!\left(\frac{c(o, y)}{c(y)},\ \varepsilon\right),
        \qquad p(o \mid y) = \text{const for observations never seen}

    Parameters
    ----------
    floor : float, default=0
        :math:`\varepsilon`, in 0..1. With 0, a known observation allows only the labels
        that it was seen with; above 0, all labels are candidates of all observations.

    Attributes
    ----------
    label_counts_ : ndarray of shape (n_labels,)
        c(y).

    n_symbols_ : int
        Distinct observations.

    See Also
    --------
    SuffixEmission : Guesses the labels of unknown words from their spelling.
    GaussianEmission : Numbers and vectors.

    Examples
    --------
    >>> import numpy as np
    >>> from sklstruct.hmm import CategoricalEmission
    >>> emission = CategoricalEmission()
    >>> emission = emission.fit([["a", "b", "a"]], [np.array([0, 1, 0])], 2)
    >>> ids, log_factor = emission.candidates([["a"]])[0][0]
    >>> ids.tolist(), log_factor.tolist()
    ([0], [0.0])
    """

    _parameter_constraints: dict = {"floor": [Interval(Real, 0, 1, closed="both")]}

    def __init__(self, floor: float = 0.0):
        self.floor = floor

    def _fit(self, observations, label, weight, n_labels):
        code, table = count_symbols(observations, label, weight, n_labels)
        self.label_counts_ = table.sum(axis=0)
        with np.errstate(divide="ignore", invalid="ignore"):
            share = np.nan_to_num(table / self.label_counts_)
            log_factor = np.log(np.maximum(share, self.floor))
        self._known = {}
        self.n_symbols_ = len(code)
        for symbol, row in zip(code, log_factor):
            possible = np.flatnonzero(row > -np.inf).astype(np.int32)
            self._known[symbol] = possible, row[possible]
        self._all = np.arange(n_labels, dtype=np.int32), np.zeros(n_labels)

    def candidates(self, X: Sequence) -> list:
        """(label ids, log-factors) of every observation; None if it is missing."""
        rows = distinct(itertools.chain.from_iterable(X))
        for o in rows:
            if not is_unknown(o):
                rows[o] = self._known.get(o, self._all)
        return [[rows[o] for o in sequence] for sequence in X]

    def n_parameters(self) -> int:
        """Number of free parameters.

        Returns
        -------
        n : int
            For each label, the number of symbols minus one.
        """
        return len(self.label_counts_) * (self.n_symbols_ - 1)

    def probabilities(self, symbols: Sequence) -> np.ndarray:
        """P(symbol | label), with the floor.

        Parameters
        ----------
        symbols : sequence of symbols
            Symbols that `fit` has not seen have the probability 0.

        Returns
        -------
        proba : ndarray of shape (n_symbols, n_labels)
            Rows in the order of `symbols`.
        """
        proba = np.zeros((len(symbols), len(self.label_counts_)))
        for row, symbol in zip(proba, symbols):
            labels, log_factor = self._known.get(symbol, ((), ()))
            row[list(labels)] = np.exp(log_factor)
        return proba

    @shared_docs(ids=DRAWN_IDS)
    def sample(self, ids: Any, random_state: np.random.RandomState) -> list:
        """Draw an observation for each label.

        Parameters
        ----------
        {ids}

        Returns
        -------
        observations : list of symbols
            Symbols that `fit` has seen; if `floor` is above 0, the probabilities are
            scaled.
        """
        symbols = list(self._known)
        bounds = self.probabilities(symbols).cumsum(axis=0)
        u = random_state.random_sample(len(ids))
        return [
            symbols[np.searchsorted(bounds[:, k], x * bounds[-1, k], "right")]
            for k, x in zip(ids, u)
        ]


def distinct(observations: Iterable) -> dict[Any, Any]:
    """A dict with a key for each symbol; TypeError for symbols that are not
    hashable."""
    found: dict[Any, Any] = {}
    for o in observations:
        try:
            found[o] = None
        except TypeError as exc:
            raise TypeError(
                f"X holds {o!r:.60}, which is not hashable; this emission model counts "
                "symbols. Pass single values, for example the column X.ravel(), or, "
                "for vectors of features, a classifier as emission"
            ) from exc
    return found


def count_symbols(
    observations: list, label: np.ndarray, weight: Any, n_labels: int
) -> tuple[dict, np.ndarray]:
    """(row of each symbol, counts of labels)."""
    code = distinct(observations)
    code.update(zip(code, range(len(code))))
    at = np.array([code[o] for o in observations], dtype=np.int64)
    table = np.bincount(at * n_labels + label, weight, len(code) * n_labels)
    return code, table.reshape(len(code), n_labels).astype(np.float64)


def weight_option(estimator: Any, weight: np.ndarray) -> dict:
    """The keyword argument of `fit` with the weights of samples."""
    keyword = weight_keyword(estimator)
    if keyword is None:
        raise TypeError(
            f"emission: {type(estimator).__name__} does not take sample_weight, which "
            "weighted sequences and unknown labels need; use a classifier that does"
        )
    return {keyword: weight}
