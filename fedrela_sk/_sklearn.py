"""The one door to scikit-learn's private helpers: whatever moves there is mended here."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import sklearn

SUPPORTED = "1.9"  # the first two numbers of every version that the tests have run with

try:
    from sklearn.callback._transport import close_listener, open_listener, send
    from sklearn.metrics._scorer import _BaseScorer
    from sklearn.model_selection._split import GroupsConsumerMixin
    from sklearn.utils import _safe_indexing
    from sklearn.utils._metadata_requests import METHODS, UNUSED, RequestMethod, _routing_enabled
    from sklearn.utils._param_validation import (
        HasMethods,
        Hidden,
        Interval,
        Options,
        StrOptions,
        validate_parameter_constraints,
    )
    from sklearn.utils._tags import InputTags, Tags, get_tags
    from sklearn.utils.metaestimators import _safe_split
    from sklearn.utils.validation import (
        _check_method_params,
        _check_response_method,
        _check_sample_weight,
        _num_samples,
        validate_data,
    )

    if not TYPE_CHECKING:
        from sklearn.base import _fit_context
        from sklearn.utils._param_validation import validate_params
except ImportError as error:
    raise ImportError(
        f"This fedrela_sk uses private helpers of scikit-learn {SUPPORTED} and found scikit-learn "
        f"{sklearn.__version__}, where one is missing ({error}). Install a supported version: "
        f"pip install 'scikit-learn=={SUPPORTED}.*', or a newer fedrela_sk."
    ) from error

if TYPE_CHECKING:  # scikit-learn has no types: what is decorated keeps its own
    _Decorated = TypeVar("_Decorated", bound=Callable[..., Any])

    def _fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[_Decorated], _Decorated]: ...

    def validate_params(
        parameter_constraints: dict[str, Any], *, prefer_skip_nested_validation: bool
    ) -> Callable[[_Decorated], _Decorated]: ...


__all__ = [
    "METHODS",
    "SUPPORTED",
    "UNUSED",
    "GroupsConsumerMixin",
    "HasMethods",
    "Hidden",
    "InputTags",
    "Interval",
    "Options",
    "RequestMethod",
    "StrOptions",
    "Tags",
    "_BaseScorer",
    "_check_method_params",
    "_check_response_method",
    "_check_sample_weight",
    "_fit_context",
    "_num_samples",
    "_routing_enabled",
    "_safe_indexing",
    "_safe_split",
    "close_listener",
    "get_tags",
    "open_listener",
    "send",
    "validate_data",
    "validate_parameter_constraints",
    "validate_params",
]
