"""The protocol of builders."""

from __future__ import annotations

from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, ClassVar, Literal, dataclass_transform

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.utils import check_random_state

from ..._checks import check_memory
from ..._compat import BaseEstimator, Interval, StrOptions
from ..._parallel import single_blas_thread
from .._samples import check_samples, encode_classes
from .._statistics import ClassStatistics
from .._taxonomy import Taxonomy

# Parameters are the annotated attributes of a class and of its base classes; the
# constructor is generated from them.
_with_parameters = dataclass(kw_only=True, repr=False, eq=False)


@dataclass_transform(kw_only_default=True, eq_default=False, field_specifiers=(field,))
class _Parameters(BaseEstimator):
    """Generates constructors; type checkers read the annotations of subclasses only."""

    _parameter_constraints: ClassVar[dict] = {}

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._parameter_constraints = {
            name: constraint
            for base in reversed(cls.__mro__)
            for name, constraint in vars(base).get("_parameter_constraints", {}).items()
        }
        _with_parameters(cls)


class TaxonomyBuilder(_Parameters):
    """Base of all builders.

    A subclass that learns a tree implements ``_parents(X, codes, weight, rng)``. The
    arguments are float X (dense or CSR), the class 0 ... K - 1 of each row (K >= 2,
    every class occurs), positive weights and a RandomState. The method returns
    ``parent`` (n_nodes,) in any numbering and ``leaf_of_class`` (K,). A subclass that
    starts from a given tree implements ``_tree(X, codes, weight, classes)``, which
    returns the `Taxonomy`. Builders store no data.

    The parameters of a subclass are annotated attributes with their defaults
    (``n_init: int = 4``). The parameters, and the parameters of the base classes, are
    keywords of the constructor. Estimators accept the `short_name` of a builder of this
    package instead of the builder (`TAXONOMY_BUILDERS`).

    Parameters
    ----------
    max_depth : int, default=None
        Largest depth of the tree, >= 0; None does not limit it.

    max_leaf : int, default=None
        Nodes with at most `max_leaf` classes are not split, >= 1; see `Taxonomy.limit`.
        None splits down to single classes, or to the leaves of a given tree.
    """

    short_name: ClassVar[str | None] = None
    # name of the dense K x K matrix that the builder makes, for the check of memory
    _matrix: ClassVar[str | None] = None

    max_depth: int | None = None
    max_leaf: int | None = None

    _parameter_constraints: ClassVar[dict] = {
        "max_depth": [Interval(Integral, 0, None, closed="left"), None],
        "max_leaf": [Interval(Integral, 1, None, closed="left"), None],
    }

    def build(
        self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None
    ) -> Taxonomy:
        """Learn a taxonomy of the classes in y.

        Parameters
        ----------
        X : {array-like, sparse matrix} of shape (n_samples, n_features)
            Finite features.

        y : array-like of shape (n_samples,)
            Labels.

        sample_weight : array-like of shape (n_samples,), default=None
            Weights >= 0. Samples of weight 0 are left out, and so are classes whose
            samples all have weight 0.

        Returns
        -------
        taxonomy : Taxonomy
            Tree over the sorted labels in y, of depth at most `max_depth` and without
            inner nodes of at most `max_leaf` classes.

        Raises
        ------
        ValueError
            If a parameter is out of its range; if X is not finite, a malformed sparse
            matrix or so large that squares overflow (beyond 1.3e150); if labels are
            continuous; if X, y and weights differ in length; if a weight is negative
            or NaN, or none is positive.

        MemoryError
            If a dense array does not fit into this machine's memory. The message has
            the size and the remedy.
        """
        self._validate_params()
        X, y, weight = check_samples(X, y, sample_weight)
        classes, codes = encode_classes(y)
        taxonomy = self._tree(X, codes, weight, classes)
        return taxonomy.limit(max_depth=self.max_depth, max_leaf=self.max_leaf)

    def _tree(
        self, X: Any, codes: NDArray, weight: NDArray, classes: NDArray
    ) -> Taxonomy:
        if classes.size <= (self.max_leaf or 1) or self.max_depth == 0:
            return Taxonomy.flat(classes)
        k = classes.size
        if self._matrix is not None:
            check_memory(
                9.0 * k * k,
                f"the dense {k} x {k} {self._matrix} of {self.short_name!r}",
                "use the builder 'cut' or 'kmeans'",
            )
        rng = check_random_state(getattr(self, "random_state", None))
        # The thousands of products of a build are too small for threads of the BLAS.
        with single_blas_thread():
            parent, leaf = self._parents(X, codes, weight, rng)
        return Taxonomy(parent, leaf, classes)

    def _parents(
        self, X: Any, codes: NDArray, weight: NDArray, rng: np.random.RandomState
    ) -> tuple[NDArray, NDArray]:
        raise NotImplementedError

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class ProximityBuilder(TaxonomyBuilder):
    """Base of the builders that use the factored proximity matrix."""

    delta: float = 1.0
    normalize: bool = True
    form: Literal["auto", "primal", "dual", "class_means"] = "auto"
    rank: int | None = None

    _parameter_constraints: ClassVar[dict] = {
        "delta": [Interval(Real, 0, None, closed="left")],
        "normalize": ["boolean"],
        "form": [StrOptions({"auto", "primal", "dual", "class_means"})],
        "rank": [Interval(Integral, 1, None, closed="left"), None],
    }

    def _statistics(self, X, codes, weight, **options) -> ClassStatistics:
        return ClassStatistics(
            X, codes, weight, form=self.form, rank=self.rank, **options
        )
