"""The one door to scikit-learn's private helpers: whatever moves there is mended here."""

from sklearn.base import _fit_context
from sklearn.utils._param_validation import HasMethods, Hidden, Interval, Options, StrOptions
from sklearn.utils._tags import get_tags
from sklearn.utils.validation import _check_sample_weight, _num_samples, validate_data

__all__ = [
    "HasMethods",
    "Hidden",
    "Interval",
    "Options",
    "StrOptions",
    "_check_sample_weight",
    "_fit_context",
    "_num_samples",
    "get_tags",
    "validate_data",
]
