"""The only file that imports private scikit-learn names.

When scikit-learn moves one of them, this is the file to mend.
"""

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
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.validation import (
    _check_feature_names_in,
    _check_method_params,
    _check_sample_weight,
)

__all__ = [
    "HasMethods",
    "Interval",
    "InvalidParameterError",
    "Options",
    "StrOptions",
    "_BaseComposition",
    "_check_feature_names_in",
    "_check_method_params",
    "_check_sample_weight",
    "_fit_context",
    "_routing_enabled",
    "validate_params",
]
