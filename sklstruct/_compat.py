"""The part of scikit-learn that this package uses, with types.

Only this file imports private names of scikit-learn, and so only this file has to
change when a name moves.

scikit-learn has no type annotations, so mypy treats its classes as `Any` and accepts
every attribute of a subclass, misspelt or not. `MYPY` is true for mypy only: mypy reads
the declarations below instead of the classes. Python, and type checkers that read
scikit-learn's source, use the classes themselves.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable
from contextlib import nullcontext
from numbers import Integral
from types import SimpleNamespace
from typing import Any, Self, TypeVar

import numpy as np
import scipy.sparse as sp
import sklearn
from sklearn.utils import _safe_indexing as _safe_indexing
from sklearn.utils._param_validation import HasMethods as _SklearnHasMethods
from sklearn.utils._param_validation import Interval as Interval
from sklearn.utils._param_validation import (
    InvalidParameterError as InvalidParameterError,
)
from sklearn.utils._param_validation import Options as Options
from sklearn.utils._param_validation import RealNotInt as RealNotInt
from sklearn.utils._param_validation import StrOptions as StrOptions
from sklearn.utils.metadata_routing import _routing_enabled as _routing_enabled
from sklearn.utils.validation import _check_feature_names_in as _check_feature_names_in
from sklearn.utils.validation import _check_method_params as _check_method_params
from sklearn.utils.validation import _check_sample_weight, _num_samples

from ._lazy import stored

MYPY = False

# The values of the parameter `n_jobs` of an estimator: 0 has no meaning.
N_JOBS = [
    Interval(Integral, None, -1, closed="right"),
    Interval(Integral, 1, None, closed="left"),
    None,
]


class HasMethods(_SklearnHasMethods):
    """scikit-learn's constraint, which accepts no class: only instances can fit."""

    def is_satisfied_by(self, val: Any) -> bool:
        return not isinstance(val, type) and super().is_satisfied_by(val)

    def __str__(self) -> str:
        return super().__str__().replace("an object", "an instance of a class")


if MYPY:
    _F = TypeVar("_F", bound=Callable[..., Any])

    class BaseEstimator:
        n_features_in_: int
        feature_names_in_: Any

        def get_params(self, deep: bool = True) -> dict[str, Any]: ...
        def set_params(self, **params: Any) -> Self: ...
        def get_metadata_routing(self) -> Any: ...
        def set_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_partial_fit_request(self, **requests: bool | str | None) -> Self: ...
        def set_score_request(self, **requests: bool | str | None) -> Self: ...
        def _validate_params(self) -> None: ...
        def __getstate__(self) -> dict[str, Any]: ...
        def __setstate__(self, state: dict[str, Any]) -> None: ...
        def __sklearn_tags__(self) -> Any: ...

    class ClassifierMixin:
        def score(self, X: Any, y: Any, sample_weight: Any = None) -> float: ...

    class TransformerMixin:
        def __init_subclass__(
            cls, auto_wrap_output_keys: tuple[str, ...] | None = ("transform",)
        ) -> None: ...
        def fit_transform(self, X: Any, y: Any = None) -> Any: ...
        def set_output(self, *, transform: str | None = None) -> Self: ...

    class DensityMixin: ...

    class MetaEstimatorMixin: ...

    class CallbackSupportMixin:
        def set_callbacks(self, *callbacks: Any) -> Self: ...
        def _init_callback_context(
            self,
            task_name: str = "fit",
            task_id: int = 0,
            max_subtasks: int | None = 0,
            sequential_subtasks: bool = True,
        ) -> Any: ...

    class TextEstimator(BaseEstimator): ...

    class _BaseComposition(BaseEstimator):
        def _get_params(self, attr: str, deep: bool = True) -> dict[str, Any]: ...
        def _set_params(self, attr: str, **params: Any) -> Self: ...
        def _validate_names(self, names: Any) -> None: ...

    def available_if(check: Callable[[Any], Any]) -> Callable[[_F], _F]: ...
    def with_callbacks(method: _F, /) -> _F: ...
    def _fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_F], _F]: ...
    def validate_params(
        constraints: dict[str, Any], *, prefer_skip_nested_validation: bool
    ) -> Callable[[_F], _F]: ...

    def _align_api_if_sparse(X: Any) -> Any: ...
    def column_or_1d(
        y: Any, *, dtype: Any = None, input_name: str = "y", warn: bool = False
    ) -> np.ndarray: ...

else:
    from sklearn.base import BaseEstimator as _SklearnBaseEstimator
    from sklearn.base import ClassifierMixin as ClassifierMixin
    from sklearn.base import DensityMixin as DensityMixin
    from sklearn.base import MetaEstimatorMixin as MetaEstimatorMixin
    from sklearn.base import TransformerMixin as TransformerMixin
    from sklearn.base import _fit_context as _fit_context
    from sklearn.utils._param_validation import validate_params as validate_params
    from sklearn.utils.metaestimators import _BaseComposition as _BaseComposition
    from sklearn.utils.metaestimators import available_if as available_if
    from sklearn.utils.validation import column_or_1d as column_or_1d

    class BaseEstimator(_SklearnBaseEstimator):
        """scikit-learn's class, with links to the pages of this package in HTML.

        The environment variable SKLSTRUCT_DOCS is the address of the built pages. If
        the variable is not set, the HTML has no links. Cached properties are not
        pickled. The HTML shows no properties, whose values may be large.
        """

        _doc_link_module = "sklstruct"

        # scikit-learn sets them by functions, which pyright does not follow.
        n_features_in_: int
        feature_names_in_: Any

        def __getstate__(self):
            return stored(self)

        def _get_fitted_attr_html(self, doc_link=""):
            fitted = SimpleNamespace(**vars(self))
            html = _SklearnBaseEstimator._get_fitted_attr_html(fitted, doc_link)
            html.estimator_class = type(self)
            return html

        @property
        def _doc_link_template(self):
            docs, name = os.environ.get("SKLSTRUCT_DOCS"), type(self).__name__
            if not docs:
                return ""
            # The page has the name of the package in which the class is public, which
            # need not be the package that defines the class.
            for package, module in list(sys.modules.items()):
                public = re.fullmatch(r"sklstruct\.[a-z]\w*", package)
                if public and name in getattr(module, "__all__", ()):
                    return f"{docs.rstrip('/')}/generated/{package}.{name}.html"
            return ""

    # Here, because pyright reads the base class as one of two after this statement.
    class TextEstimator(BaseEstimator):
        """Base of the estimators for sentences or documents."""

        def __sklearn_tags__(self) -> Any:
            tags = super().__sklearn_tags__()
            tags.input_tags.two_d_array = False
            tags.input_tags.one_d_array = tags.input_tags.string = True
            return tags

    try:
        from sklearn.callback import CallbackSupportMixin as CallbackSupportMixin
        from sklearn.callback import with_callbacks as with_callbacks
    except ImportError:  # scikit-learn before 1.9

        class _NoCallbacks:
            """The context of a task without callbacks."""

            def subcontext(self, **_):
                return self

            def propagate_callback_context(self, estimator):
                return nullcontext()

            def call_on_fit_task_begin(self, **_):
                pass

            def call_on_fit_task_end(self, **_):
                return False

        class CallbackSupportMixin:
            def set_callbacks(self, *callbacks):
                """Raise an error for callbacks, which need scikit-learn 1.9."""
                if callbacks:
                    raise ImportError(
                        "callbacks need scikit-learn 1.9 or later, got "
                        f"{sklearn.__version__}; verbose prints the steps of a fit"
                    )
                return self

            def _init_callback_context(self, **_):
                return _NoCallbacks()

        def with_callbacks(method):
            return method

    try:
        from sklearn.utils._sparse import _align_api_if_sparse as _align_api_if_sparse
    except ImportError:  # scikit-learn < 1.9, which returns spmatrix only

        def _align_api_if_sparse(X):
            """X, as a matrix and not an array if it is sparse."""
            if isinstance(X, sp.sparray):
                return getattr(sp, f"{X.format}_matrix")(X)
            return X


def check_total(weight: np.ndarray, name: str = "sample_weight") -> None:
    """Raise ValueError if checked weights are so large that their sum overflows."""
    with np.errstate(over="ignore"):
        total = weight.sum()
    if not np.isfinite(total):
        raise ValueError(
            f"{name} sums to {total}: scale the weights, for example to a mean of 1"
        )


def check_weights(
    sample_weight: Any, X: Any, name: str = "sample_weight"
) -> np.ndarray:
    """Checked sample weights in float64, >= 0, with a finite sum; None: ones."""
    if sample_weight is None:
        return np.ones(_num_samples(X))
    try:
        weight = _check_sample_weight(
            sample_weight, X, dtype=np.float64, ensure_non_negative=True
        )
        if not weight.any():  # scikit-learn before 1.9
            text = "Sample weights must contain at least one non-zero number."
            raise ValueError(text)
        check_total(weight, name)
        return weight
    except (TypeError, ValueError) as exc:
        if name in str(exc):
            raise
        raise ValueError(f"{name}: {exc!s:.100}") from exc


HAS_CALLBACKS = CallbackSupportMixin.__module__ != __name__
