"""Small text classifiers: weights of 8 bits, in memory and in a file."""

from __future__ import annotations

from copy import copy
from typing import Any, Self

import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.utils.validation import check_is_fitted

from .._checks import check_real
from .._files import beginning_with, open_read, open_write
from ..hierarchical._score_model import ScoreModel
from ._file import TEXT_MODEL, Parts, model_of, write_model
from ._scores import Reduced
from ._targets import log_loss_of
from ._texts import as_texts
from ._vectorizer import equal_parts, joined

# Thresholds that are tried, and the largest factor by which the log-loss may increase.
_PARTS = 0.03, 0.05, 0.07, 0.1, 0.15, 0.2
_MOST_RISE = 1.02


class ReducedMixin:
    """`reduce`, `save` and `load` of a `TextClassifier`.

    reduced_, second_: None in a model that is not reduced, or has no second stage.
    """

    reduced_: Reduced | None
    second_: Reduced | None
    features_: Any
    estimator_: Any
    classes_: NDArray
    class_prior_: NDArray
    n_jobs: int | None

    @property
    def weight_threshold_(self) -> float:
        """Fraction of the largest weight of a class that all kept weights exceed."""
        if self.reduced_ is None:
            raise AttributeError("weight_threshold_ is an attribute of reduced models")
        return self.reduced_.threshold

    def reduce(
        self, X: Any = None, y: Any = None, *, weight_threshold: float = 0.02
    ) -> Self:
        """A small and fast copy: weights of 8 bits, without small weights.

        The copy reads the n-grams of a text and adds up the scores in one pass.

        Parameters
        ----------
        X : iterable of str, default=None
            Texts that `fit` has not seen. The threshold is increased to 0.03, 0.05,
            0.07, 0.1, 0.15 and 0.2 as long as the log-loss on X is at most 2 % above
            the log-loss with `weight_threshold`. None: `weight_threshold` is used.

        y : array-like of shape (n_texts,), or indicator of (n_texts, n_labels)
            Labels of X, in the form of the y of `fit`.

        weight_threshold : float, default=0.02
            Weights of at most this fraction of the largest weight of their class (or
            child of a node) are left out, in [0, 1). With X, the smallest threshold.

        Returns
        -------
        reduced : TextClassifier
            Its ``estimator_`` is a `HierarchicalClassifier` of the scores. It has the
            parameters of this model; its `fit` learns a model that is not reduced.

        Raises
        ------
        ValueError
            If the vectorizer is not an `NgramVectorizer`, the classifier is neither a
            `LinearClassifier` nor a `HierarchicalClassifier` of such nodes, y has a
            label that is not in ``classes_``, or X and y are not passed together.
        """
        check_is_fitted(self)
        check_real("weight_threshold", weight_threshold, "[0, 1)")
        if X is None and y is not None:
            raise ValueError("y needs X, the texts of these labels")
        equal_parts(self.features_)
        parts: tuple[ScoreModel, sp.csr_matrix, NDArray]
        if self.reduced_ is None:
            parts = ScoreModel.of(self.estimator_)
        else:
            model, weights, _ = self.reduced_
            parts = model, weights.sparse(), weights.bias
        found = self._with(Reduced.of(*parts, float(weight_threshold)))
        if X is None:
            return found
        texts = as_texts(X, least=1)
        most = _MOST_RISE * log_loss_of(found, texts, y)
        for part in _PARTS:
            if part > weight_threshold:
                smaller = self._with(Reduced.of(*parts, part))
                if not log_loss_of(smaller, texts, y) <= most:
                    break
                found = smaller
        return found

    def _with(self, reduced: Reduced) -> Self:
        """A copy that predicts by reduced weights."""
        found = copy(self)
        found.reduced_ = reduced
        found.estimator_ = reduced.model.classifier(self.n_jobs)
        return found

    def save(self, path_or_file: Any) -> None:
        """Write the model to a file; a model that is not reduced is reduced first.

        The file has weights of 8 bits. `load` reads it without running code.

        Parameters
        ----------
        path_or_file : str, os.PathLike or binary file object
            A file whose path ends in ``.gz``, ``.bz2`` or ``.xz`` is compressed, and
            cannot be mapped. An existing file is replaced when the new file is
            complete.

        Raises
        ------
        ValueError
            As in `reduce`, or if labels are neither strings nor integers.
        OSError
            If the file cannot be written.
        """
        check_is_fitted(self)
        model = self if self.reduced_ is not None else self.reduce()
        assert model.reduced_ is not None
        parts = Parts(
            model.get_params(deep=False),  # type: ignore[attr-defined]
            equal_parts(model.features_),
            model.reduced_,
            model.second_,
            model.classes_,
            model.class_prior_,
        )
        store = write_model(parts)
        with open_write(path_or_file) as file:
            store(file)

    @classmethod
    def load(cls, path_or_file: Any) -> Self:
        """Read a model that `save` has written.

        A plain file is mapped: only the weights that are read take memory, and
        processes share them.

        Parameters
        ----------
        path_or_file : str, os.PathLike or binary file object
            The file, plain or compressed.

        Returns
        -------
        model : TextClassifier
            A reduced model. Parameters that were objects have their defaults.

        Raises
        ------
        ValueError
            If the file is damaged or was not written by `save`.
        OSError
            If the file cannot be read.
        """

        def make(header: Any, arrays: Any) -> Any:
            parts = model_of(header, arrays)
            found = cls(**parts.parameters)
            found.features_, found.second_ = joined(parts.vectorizers), parts.second
            found.classes_, found.class_prior_ = parts.names, parts.prior
            return found._with(parts.reduced)

        with open_read(path_or_file) as (file, label):
            return TEXT_MODEL.read(beginning_with(TEXT_MODEL.magic, file), label, make)
