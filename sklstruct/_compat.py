"""The only file that imports private scikit-learn names.

When scikit-learn moves one of them, this is the file to mend. The
control of BLAS threads, which comes with scikit-learn, is here too.
"""

from functools import cache

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
