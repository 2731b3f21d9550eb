"""FedReLaRelabeler: posteriors and labels of one client in, new labels or mixed posteriors out."""

from numbers import Integral, Real

import numpy as np
from scipy.special import softmax
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from fedrela_sk._checks import (
    check_classes,
    check_labels,
    check_posteriors,
    check_scores,
    classes_from_labels,
    encode_labels,
)
from fedrela_sk._random import Purpose, seed_from
from fedrela_sk._random import uniforms as uniform_draws
from fedrela_sk._sklearn import Interval, StrOptions, _check_sample_weight, _fit_context, validate_data
from fedrela_sk.relabel._draw import TARGETS, draw
from fedrela_sk.relabel._expectation import expected_posteriors
from fedrela_sk.relabel._limits import limit_changes
from fedrela_sk.relabel._normalization import NORMALIZATIONS
from fedrela_sk.relabel._report import RelabelReport
from fedrela_sk.relabel._rho import Statistics, candidates, dense, fit_statistics
from fedrela_sk.relabel._threshold import THRESHOLDS

_INPUTS = {"posterior": check_posteriors, "score": check_scores}


class FedReLaRelabeler(TransformerMixin, BaseEstimator):
    """Relabel rows that lie deep in a locally rarer class."""

    _parameter_constraints: dict = {
        "tau": [Interval(Real, 0, 1, closed="both")],
        "classes": ["array-like", None],
        "input": [StrOptions(set(_INPUTS))],
        "normalization": [StrOptions(set(NORMALIZATIONS))],
        "ddof": [Interval(Integral, 0, None, closed="left")],
        "min_scale": [Interval(Real, 0, None, closed="left")],
        "threshold": [StrOptions(set(THRESHOLDS))],
        "target": [StrOptions(set(TARGETS))],
        "min_remaining": [Interval(Integral, 0, None, closed="left")],
        "max_ratio": [Interval(Real, 0, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        tau=0.05,
        *,
        classes=None,
        input="posterior",
        normalization="zscore_tanh",
        ddof=1,
        min_scale=0.0,
        threshold="quantile",
        target="argmax",
        min_remaining=0,
        max_ratio=None,
        random_state=None,
    ):
        self.tau = tau
        self.classes = classes
        self.input = input
        self.normalization = normalization
        self.ddof = ddof
        self.min_scale = min_scale
        self.threshold = threshold
        self.target = target
        self.min_remaining = min_remaining
        self.max_ratio = max_ratio
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, Q, y, sample_weight=None):
        """Learn local counts, means, spreads and thresholds."""
        values = self._check_rows(Q, reset=True)
        y = check_labels(y, len(values))
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, values, dtype=np.float64, ensure_non_negative=True)
            counted = weights > 0
            if not counted.any():
                raise ValueError(
                    "All sample weights are 0: no row counts. Give at least one row a positive weight."
                )
            values, y, weights = values[counted], y[counted], weights[counted]
        n_classes = values.shape[1]
        if self.classes is None:
            self.classes_ = classes_from_labels(y, n_classes)
        else:
            self.classes_ = check_classes(self.classes, n_classes)
        statistics = fit_statistics(
            values,
            encode_labels(y, self.classes_),
            tau=self.tau,
            normalization=self.normalization,
            ddof=self.ddof,
            min_scale=self.min_scale,
            threshold=self.threshold,
            weights=weights,
        )
        self.class_count_ = statistics.class_count
        self.prior_weight_ = statistics.prior_weight
        self.mean_ = statistics.mean
        self.scale_ = statistics.scale
        self.threshold_ = statistics.threshold
        self._report = None
        return self

    def transform(self, Q):
        """Posteriors of the new label."""
        check_is_fitted(self)
        values = self._check_rows(Q, reset=False)
        posteriors = values if self.input == "posterior" else softmax(values, axis=1)
        compared = posteriors if self.normalization == "none" else values
        return expected_posteriors(compared, posteriors, self._statistics(), self.target)

    def relabel_proba(self, Q, y):
        """rho of every row and class."""
        check_is_fitted(self)
        values, _, codes = self._check_rows_and_labels(Q, y)
        return dense(candidates(self._values(values), codes, self._statistics()), values.shape)

    def relabel(self, Q, y, uniforms=None):
        """Draw new labels."""
        check_is_fitted(self)
        values, y, codes = self._check_rows_and_labels(Q, y)
        uniforms = self._check_uniforms(uniforms, values.shape)
        found = candidates(self._values(values), codes, self._statistics())
        chosen = draw(found, uniforms, self.target)
        row, new = found.row[chosen], found.column[chosen]
        counts = np.bincount(codes, minlength=values.shape[1])
        made = limit_changes(
            row, codes[row], new, found.rho[chosen], counts, self.min_remaining, self.max_ratio
        )
        row, new, chosen = row[made], new[made], chosen[made]
        y_new = y.astype(self._label_dtype(y))
        y_new[row] = self.classes_[new]
        posteriors = values[row] if self.input == "posterior" else softmax(values[row], axis=1)
        self._report = RelabelReport(
            row=row,
            old=y[row],
            new=y_new[row],
            posterior=posteriors[np.arange(len(row)), new],
            z=found.z[chosen],
            threshold=self.threshold_[new],
            rho=found.rho[chosen],
        )
        return y_new

    def report(self):
        """What the last `relabel` changed."""
        check_is_fitted(self)
        if self._report is None:
            raise NotFittedError("There is no report before `relabel`: call relabel(Q, y) first.")
        return self._report

    def _check_rows(self, Q, reset):
        Q = validate_data(self, Q, reset=reset, ensure_all_finite=False)
        return _INPUTS[self.input](Q)

    def _check_rows_and_labels(self, Q, y):
        values = self._check_rows(Q, reset=False)
        y = check_labels(y, len(values))
        return values, y, encode_labels(y, self.classes_)

    def _check_uniforms(self, uniforms, shape):
        if uniforms is None:
            return uniform_draws(seed_from(self.random_state), Purpose.RELABEL, shape)
        uniforms = np.asarray(uniforms, dtype=np.float64)
        if uniforms.shape != shape:
            raise ValueError(
                f"uniforms have shape {uniforms.shape}, expected {shape}: one per row and class."
            )
        if not np.all((uniforms >= 0) & (uniforms < 1)):
            raise ValueError(
                f"uniforms must lie in [0, 1), got values from {uniforms.min()} to {uniforms.max()}."
            )
        return uniforms

    def _values(self, values):
        # without a z-score rho is the posterior itself
        softmaxed = self.input == "score" and self.normalization == "none"
        return softmax(values, axis=1) if softmaxed else values

    def _statistics(self):
        return Statistics(
            self.class_count_,
            self.prior_weight_,
            self.mean_,
            self.scale_,
            self.threshold_,
            NORMALIZATIONS[self.normalization],
        )

    def _label_dtype(self, y):
        if y.dtype.kind in "US":
            return np.promote_types(y.dtype, self.classes_.dtype)
        if y.dtype == object or np.array_equal(self.classes_.astype(y.dtype), self.classes_):
            return y.dtype
        return np.promote_types(y.dtype, self.classes_.dtype)

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def __getattr__(self, name):
        if name == "fit_resample":
            raise AttributeError(
                "FedReLaRelabeler has no fit_resample, since it relabels from posteriors, not from features. "
                "In a pipeline of samplers use FedReLaSampler(classifier, relabeler)."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
