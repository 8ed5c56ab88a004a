"""The only file that imports private scikit-learn names.

When scikit-learn moves one of them, this is the file to mend. What scikit-learn
leaves to be done around its checks is here too.
"""

from functools import cache

import scipy.sparse as sp
from sklearn.base import _fit_context
from sklearn.utils._param_validation import (
    HasMethods,
    Interval,
    InvalidParameterError,
    Options,
    StrOptions,
    validate_params,
)
from sklearn.utils.metadata_routing import _routing_enabled
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_method_params,
    _check_sample_weight,
)

# A requirement of scikit-learn's own, with a version that suits it: none declared here.
from threadpoolctl import ThreadpoolController

__all__ = [
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "Options",
    "StrOptions",
    "_check_feature_names_in",
    "_check_method_params",
    "_check_sample_weight",
    "_fit_context",
    "_routing_enabled",
    "check_csr",
    "single_blas_thread",
    "validate_params",
]


@cache
def _controller():
    # Listing the loaded libraries takes milliseconds: once per process.
    return ThreadpoolController()


def single_blas_thread():
    """Context in which BLAS uses one thread.

    Results then do not depend on the number of cores, and threads over nodes do not
    each start a team of BLAS threads.
    """
    return _controller().limit(limits=1, user_api="blas")


def check_csr(X, name="X"):
    """Raise ValueError if a CSR or CSC X points outside of its arrays or its shape.

    Anything else passes. `check_array` does not look at the indices, and neither do
    the loops of SciPy and ours. `check_format` of SciPy does, but may change X.
    One pass over the indices; call it before `check_array`, which may convert.
    """
    if not sp.issparse(X) or X.format not in ("csr", "csc"):
        return
    n_major, n_minor = X.shape if X.format == "csr" else X.shape[::-1]
    indptr, indices = X.indptr, X.indices
    fault = None
    if indptr.shape != (n_major + 1,) or indices.shape != X.data.shape:
        fault = "its arrays have the wrong sizes"
    elif indptr[0] != 0 or (indptr[1:] < indptr[:-1]).any():
        fault = "indptr must start with 0 and not decrease"
    elif indptr[-1] > indices.size:
        fault = f"indptr ends at {indptr[-1]}, beyond the {indices.size} entries"
    elif indices.size and not 0 <= indices.min() <= indices.max() < n_minor:
        fault = (
            f"indices must be from 0 to {n_minor - 1}, got {indices.min()} to "
            f"{indices.max()}"
        )
    if fault:
        raise ValueError(f"{name} is a malformed {X.format.upper()} matrix: {fault}")
