"""FedReLaRelabeler: posteriors and labels of one client in, new labels or mixed posteriors out."""

from numbers import Integral, Real
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import softmax
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.exceptions import NotFittedError
from sklearn.utils.metadata_routing import UNUSED
from sklearn.utils.validation import check_is_fitted

from fedrela_sk._checks import (
    as_float,
    check_classes,
    check_labels,
    check_posteriors,
    check_scores,
    classes_from_labels,
    encode_labels,
    label_dtype,
)
from fedrela_sk._labels import positions_in
from fedrela_sk._random import Purpose, seed_from
from fedrela_sk._random import uniforms as stream_of_uniforms
from fedrela_sk._sklearn import (
    Interval,
    RequestMethod,
    StrOptions,
    _check_sample_weight,
    _fit_context,
    _num_samples,
    validate_data,
)
from fedrela_sk._typing import Array, RandomState
from fedrela_sk._warnings import warn_user
from fedrela_sk.relabel._contract import NOTHING
from fedrela_sk.relabel._report import RelabelReport
from fedrela_sk.relabel.formulas._draw import TARGETS, check_uniforms, draw, limit_changes
from fedrela_sk.relabel.formulas._expectation import expected_posteriors
from fedrela_sk.relabel.formulas._normalization import NORMALIZATIONS
from fedrela_sk.relabel.formulas._repetition import describe, weights_switch_off
from fedrela_sk.relabel.formulas._rho import Statistics, candidates
from fedrela_sk.relabel.formulas._threshold import THRESHOLDS
from fedrela_sk.relabel.many._pass import fit_one

INPUTS = {"posterior": check_posteriors, "score": check_scores}


class FedReLaRelabeler(TransformerMixin, BaseEstimator):
    """Relabel a few rows that lie deep in a class that is rarer at this client.

    It works on posteriors, not on features: `fit` takes the class probabilities that a model gives to labeled
    rows. A row with label l is compared, column by column, with the other rows of label l; where its z-score
    in the column of a rarer class j exceeds that column's threshold t over all rows, it may become a j, with
    probability ``rho = tanh(z - t) * w``, w being the gain in rarity from l to j.

    - `relabel` draws new labels, `report` says which rows changed and why;
    - `relabel_proba` gives rho itself;
    - `transform` needs no labels: it returns the posterior of the label that a row would have after relabeling,
      in closed form. It holds as far as the posteriors are calibrated on the rows given to `fit`. For two classes
      it is an increasing map of P(y = 1), that is, the same as moving the decision threshold.

    To relabel rows of features inside a pipeline use `FedReLaSampler` or `RelabelingClassifier`.

    Parameters
    ----------
    tau : float in [0, 1], default=0.05
        Share of rows above the threshold, per column. 0 relabels nothing. Not a percentage.
    classes : array-like of shape (n_classes,), default=None
        Labels of the columns, in their order. None: as many distinct labels as columns are the sorted labels;
        otherwise labels must be integers in 0..n_classes-1 with 0 among them. More columns than labels present
        is normal: a client lacks classes, and those are the most wanted targets.
    input : {"posterior", "score"}, default="posterior"
        "posterior": rows are probabilities; they are checked, never renormalized. "score": any finite scores,
        such as logits; z-scores use them as they are, `transform` mixes their softmax, and so does
        ``normalization="none"``. One column p stands for (1 - p, p), a score s for (-s, s); since softmax makes
        1 / (1 + exp(-2 s)) of the latter, log-odds are halved first.
    normalization : {"zscore_tanh", "minmax", "none"}, default="zscore_tanh"
        How a value is compared inside its own class. "minmax": ``m = (q - min) / (max - min)``, ``rho = m * w``
        where m exceeds its threshold. "none": ``rho = q * w``, without threshold.
    ddof : int, default=1
        The divisor of the spread is the number of rows less `ddof`. A class with no more rows than that has z = 0.
    min_scale : float, default=0
        Floor on spreads. It switches relabeling off where posteriors hardly differ, as they do for a class that
        the model strongly underestimates.
    threshold : {"quantile", "order_statistic"}, default="quantile"
        The (1 - tau)-quantile with linear interpolation, or the (m + 1)-th largest value with
        ``m = floor(tau * n_rows)``: at most m rows per column, none at a client with fewer than 1 / tau rows.
    target : {"argmax", "argmax_of_successes"}, default="argmax"
        The new label once draws have succeeded: the class of largest rho among all classes, or among those whose
        own draw succeeded. Ties go to the first class.
    min_remaining : int, default=0
        Original rows that stay in each class. Changes of highest rho are kept, then those of earlier rows.
        It acts only in `relabel`.
    max_ratio : float or None, default=None
        At most ``ceil(max_ratio * max(1, rows of the target class))`` rows are relabeled into a class; chosen
        likewise, and only in `relabel`.
    random_state : int, RandomState instance or None, default=None
        Seed of the uniforms of `relabel`: one per row and class, used or not. The same integer gives the same
        labels at every call.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Labels of the columns.
    class_count_ : ndarray of shape (n_classes,)
        Rows, or summed weights, per class; 0 for an absent class.
    prior_weight_ : ndarray of shape (n_classes,)
        ``v = 1 - minmax(class_count_)``: 1 for the rarest class, 0 for the most frequent; 1 for all where all
        counts are equal. ``w = max(v[j] - v[l], 0)``.
    mean_, scale_ : ndarray of shape (n_classes, n_classes)
        Center and spread of column j (second index) over the rows of class l (first index): mean and standard
        deviation, or minimum and range, or 0 and 1. A scale of 0 means that z is 0 for every row: all values
        were equal up to rounding (see the notes), or the class had no more rows than `ddof`. An absent class has
        mean NaN and scale 0.
    threshold_ : ndarray of shape (n_classes,)
        Threshold of every column; +inf where nothing is relabeled into the class; 0 with "none".
    n_features_in_ : int
        Columns seen in `fit`: the number of classes, or 1.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Names of the columns, if they were all strings.

    See Also
    --------
    FedReLaSampler : Relabels rows of features, for imbalanced-learn's pipelines.
    RelabelingClassifier : Trains a classifier on relabeled rows.

    Notes
    -----
    The paper's text and the code released with it differ. The defaults follow the paper:

    ================  ===================================  =====================================
    parameter         paper                                released code
    ================  ===================================  =====================================
    tau               0.03 to 0.05                         0.05 (its flag is a percentage: 5)
    normalization     "zscore_tanh"                        "zscore_tanh"
    ddof              1                                    0
    min_scale         0                                    1e-6
    threshold         "quantile" (interpolation not said)  "order_statistic"
    target            "argmax"                             "argmax_of_successes"
    min_remaining     0                                    0
    max_ratio         None                                 None
    ================  ===================================  =====================================

    Corner cases, the same for both: all counts equal, nothing is relabeled. One class present: it is the most
    frequent, and its rows may become any absent class. Equal values within (own class, column), one row
    included: z is 0 there, for rows of `fit` and for new ones. tau = 1: the threshold is the smallest z. Rows of
    weight 0 are left out of `fit`.

    Posteriors count as equal where largest and smallest differ by at most ``32 eps (1 + |ln max|) max``, scores by
    ``32 eps max|score|``, eps being that of the dtype of `Q`: so much may rounding make of copies of one row that a
    net sees in batches of two sizes.

    Weights that are not integers: counts, means and spreads use their sums, W standing for the number of rows.
    The quantile lies at position ``(W - 1)(1 - tau)`` of the ascending rows, position k being held by the first
    row whose cumulative weight exceeds k; the order statistic is the first value, from the largest down, at which
    the cumulative weight exceeds ``m = floor(tau * W)``. `min_remaining` and `max_ratio` count rows.

    In `transform` rho is capped at 1 - 1e-6, order and argmax being taken before, so that two classes keep
    their order: the result never decreases in P(y = 1), and increases where neighbors differ by over 1e-9.

    References
    ----------
    "FedReLa" (ICML 2026), arXiv 2606.26037, equations 2 to 8, Algorithm 1 and section 3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from fedrela_sk import FedReLaRelabeler
    >>> Q = np.array([[0.9, 0.1], [0.8, 0.2], [0.7, 0.3], [0.3, 0.7], [0.2, 0.8]])
    >>> y = np.array([0, 0, 0, 0, 1])
    >>> relabeler = FedReLaRelabeler(tau=0.3, random_state=0).fit(Q, y)
    >>> relabeler.relabel_proba(Q, y).round(3)
    array([[0.   , 0.   ],
           [0.   , 0.   ],
           [0.   , 0.   ],
           [0.   , 0.895],
           [0.   , 0.   ]])
    >>> relabeler.relabel(Q, y)
    array([0, 0, 0, 1, 1])
    >>> relabeler.report().row
    array([3])
    """

    _parameter_constraints: dict = {
        "tau": [Interval(Real, 0, 1, closed="both")],
        "classes": ["array-like", None],
        "input": [StrOptions(set(INPUTS))],
        "normalization": [StrOptions(set(NORMALIZATIONS))],
        "ddof": [Interval(Integral, 0, None, closed="left")],
        "min_scale": [Interval(Real, 0, None, closed="left")],
        "threshold": [StrOptions(set(THRESHOLDS))],
        "target": [StrOptions(set(TARGETS))],
        "min_remaining": [Interval(Integral, 0, None, closed="left")],
        "max_ratio": [Interval(Real, 0, None, closed="left"), None],
        "random_state": ["random_state"],
    }

    # what the next `fit` is told, see `fit_told`
    _told = NOTHING

    # the first argument holds posteriors, not metadata
    __metadata_request__fit = {"Q": UNUSED}
    __metadata_request__transform = {"Q": UNUSED}

    def __init__(
        self,
        tau: float = 0.05,
        *,
        classes: ArrayLike | None = None,
        input: Literal["posterior", "score"] = "posterior",
        normalization: Literal["zscore_tanh", "minmax", "none"] = "zscore_tanh",
        ddof: int = 1,
        min_scale: float = 0.0,
        threshold: Literal["quantile", "order_statistic"] = "quantile",
        target: Literal["argmax", "argmax_of_successes"] = "argmax",
        min_remaining: int = 0,
        max_ratio: float | None = None,
        random_state: RandomState = None,
    ) -> None:
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
    def fit(self, Q: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Learn counts, means, spreads and thresholds of one client's rows.

        Parameters
        ----------
        Q : array-like of shape (n_rows, n_classes) or (n_rows, 1)
            Posteriors or scores.
        y : array-like of shape (n_rows,)
            Labels.
        sample_weight : array-like of shape (n_rows,), default=None
            Repetitions of the rows, in counts, means, spreads and thresholds: an integer weight equals repeated
            rows, rows of weight 0 are left out. Only the size of weights says how many rows there are, so weights
            scaled to sum to 1 are one row, and nothing is relabeled: a mean of about 1 is what is wanted, and a
            `FedReLaWarning` says where it is not so. Other weights: see the notes of the class.

        Returns
        -------
        self : object

        Raises
        ------
        ValueError
            `PosteriorError` where rows are no posteriors, `LabelError` where labels do not fit the columns;
            both are ValueErrors that name the row and the value. Weights that sum to more than 2^53.
        """
        told = self.__dict__.pop("_told", NOTHING)  # of this fit only
        y = check_labels(y, _num_samples(Q))
        rows = validate_data(self, Q, reset=True, ensure_all_finite=False)
        values = self._values(rows)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, values, dtype=np.float64, ensure_non_negative=True)
            counted = weights > 0
            everyone = y, weights
            values, y, weights = values[counted], y[counted], weights[counted]
        n_classes = values.shape[1]
        if self.classes is None:
            self.classes_ = classes_from_labels(y, n_classes)
        else:
            self.classes_ = check_classes(self.classes, n_classes)
        codes = encode_labels(y, self.classes_)
        statistics = fit_one(
            values,
            codes,
            weights=weights,
            rounding=told.rounding(self, rows.dtype),
            targets=told.targets_in(self.classes_),
            **self._settings_of_fit(),
        )
        if weights is not None and not told.quiet:
            self._warn_of_weights(*everyone)
        return self._learn(statistics)

    def transform(self, Q: ArrayLike) -> Array:
        """Posteriors of the label a row would have after relabeling: ``sum_l q_l T_l[j]``.

        Parameters
        ----------
        Q : array-like of shape (n_rows, n_classes) or (n_rows, 1)
            Posteriors or scores, of rows seen in `fit` or new ones.

        Returns
        -------
        mixed : ndarray of shape (n_rows, n_classes), float64
            Rows sum to one. Memory is a small multiple of its size.
        """
        check_is_fitted(self)
        values = self._check_rows(Q, reset=False)
        posteriors = self._posteriors(values)
        compared = None if posteriors is values else values
        return expected_posteriors(posteriors, self._statistics(), self.target, compared)

    def fit_transform(self, Q: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Array:
        """``fit(Q, y, sample_weight).transform(Q)``.

        Parameters
        ----------
        Q, y, sample_weight
            As in `fit`.

        Returns
        -------
        mixed : ndarray of shape (n_rows, n_classes), float64
        """
        return self.fit(Q, y, sample_weight=sample_weight).transform(Q)

    def relabel_proba(self, Q: ArrayLike, y: ArrayLike) -> Array:
        """rho (equation 8): the probability with which the draw of each class succeeds.

        Parameters
        ----------
        Q : array-like of shape (n_rows, n_classes) or (n_rows, 1)
        y : array-like of shape (n_rows,)
            Labels, each one among `classes_`.

        Returns
        -------
        rho : ndarray of shape (n_rows, n_classes), float64, in [0, 1]
            0 for the own class and for every class that is no rarer.
        """
        check_is_fitted(self)
        values, _, codes = self._check_rows_and_labels(Q, y)
        return candidates(values, codes, self._statistics()).dense(values.shape)

    def relabel(self, Q: ArrayLike, y: ArrayLike, uniforms: ArrayLike | None = None) -> Array:
        """Draw new labels, with the statistics learned in `fit`.

        Parameters
        ----------
        Q : array-like of shape (n_rows, n_classes) or (n_rows, 1)
        y : array-like of shape (n_rows,)
            Labels, each one among `classes_`. They are not changed.
        uniforms : array-like of shape (n_rows, n_classes), in [0, 1), default=None
            The draw of class j succeeds where its uniform lies below rho. None: from `random_state`.

        Returns
        -------
        y_new : ndarray of shape (n_rows,)
            Of the dtype of `y`, made wider if it cannot hold every class.
        """
        check_is_fitted(self)
        given = y
        values, labels, codes = self._check_rows_and_labels(Q, y)
        if uniforms is None:
            draws = stream_of_uniforms(seed_from(self.random_state), Purpose.RELABEL, values.shape)
        else:
            draws = check_uniforms(uniforms, values.shape)
        found = candidates(values, codes, self._statistics())
        taken = draw(found, lambda row, column: draws[row, column], self.target)
        del found  # the limits need memory, too
        taken = taken[limit_changes(taken, codes, values.shape[1], *self._limits())]
        self._report = self._report_on(labels, taken, values[taken.row], self.threshold_[taken.column])
        y_new = labels.astype(self._report.new.dtype)
        y_new[taken.row] = self._report.new
        return y_new.astype(object) if isinstance(given, np.ndarray) and given.dtype.kind == "O" else y_new

    def report(self) -> Any:
        """What the last `relabel` changed.

        Returns
        -------
        report : RelabelReport
            Arrays `row`, `old`, `new`, `posterior`, `z`, `threshold`, `rho`, one entry per changed row; a data
            frame with ``report().to_frame()``.

        Raises
        ------
        NotFittedError
            `relabel` has not been called since the last `fit`.
        """
        check_is_fitted(self)
        if self._report is None:
            raise NotFittedError(
                "There is no report yet, got no call of `relabel` since `fit`. Call relabel(Q, y) first."
            )
        return self._report

    def get_feature_names_out(self, input_features: Any = None) -> Array:
        """Names of the columns of `transform`: ``fedrelarelabeler_<class>``.

        Parameters
        ----------
        input_features : ignored
            There for scikit-learn's convention.

        Returns
        -------
        names : ndarray of shape (n_classes,), object
        """
        check_is_fitted(self)
        prefix = type(self).__name__.lower()
        return np.array([f"{prefix}_{label}" for label in self.classes_.tolist()], dtype=object)

    def _check_rows(self, Q, reset):
        return self._values(validate_data(self, Q, reset=reset, ensure_all_finite=False))

    def _values(self, Q):
        values = INPUTS[self.input](Q)
        # without a z-score rho is the posterior itself
        return softmax(values, axis=1) if self._compares_softmax() else values

    def _check_rows_and_labels(self, Q, y):
        y = check_labels(y, _num_samples(Q))
        values = self._check_rows(Q, reset=False)
        return values, y, encode_labels(y, self.classes_)

    def _compares_softmax(self):
        return self.input == "score" and self.normalization == "none"

    def _posteriors(self, values):
        return values if self.input == "posterior" or self._compares_softmax() else softmax(values, axis=1)

    def _settings_of_fit(self):
        names = ("normalization", "ddof", "threshold")
        return {
            "tau": as_float(self.tau),
            "min_scale": as_float(self.min_scale),
            **{name: getattr(self, name) for name in names},
        }

    def _limits(self):
        """`min_remaining` and `max_ratio`."""
        return self.min_remaining, None if self.max_ratio is None else as_float(self.max_ratio)

    def _report_on(self, y, taken, values, threshold):
        """`RelabelReport` of the `Candidates` taken; `values` are their rows, `threshold` that of their columns."""
        return RelabelReport(
            row=taken.row,
            old=y[taken.row],
            new=self.classes_[taken.column].astype(label_dtype(y, self.classes_)),
            posterior=self._posteriors(values)[np.arange(len(values)), taken.column],
            z=taken.z,
            threshold=threshold,
            rho=taken.rho,
        )

    def _warn_of_weights(self, y, weights):
        codes = positions_in(self.classes_, y)  # of rows without a weight any label is taken
        known = codes >= 0
        message = describe([weights_switch_off(self, codes[known], weights[known])])
        if message is not None:
            warn_user(message)

    def _learn(self, statistics):
        self.class_count_ = statistics.class_count
        self.prior_weight_ = statistics.prior_weight
        self.mean_ = statistics.mean
        self.scale_ = statistics.scale
        self.threshold_ = statistics.threshold
        self._report = None
        return self

    def _statistics(self):
        return Statistics(
            self.class_count_,
            self.prior_weight_,
            self.mean_,
            self.scale_,
            self.threshold_,
            NORMALIZATIONS[self.normalization],
        )

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        return tags

    def __getattr__(self, name):
        hint = ""
        if name == "fit_resample":
            hint = (
                ": it relabels from posteriors, not from features. In a pipeline of samplers use "
                "FedReLaSampler(classifier, relabeler)"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}.")


def overrides_nothing(relabeler):
    """Whether a relabeler is a `FedReLaRelabeler` whose class, if it is a child, leaves every method as it is.

    Then the pass over many clients does what the relabeler would do client by client.
    """
    if not isinstance(relabeler, FedReLaRelabeler):
        return False
    kinds = type(relabeler).__mro__
    above = kinds[: kinds.index(FedReLaRelabeler)]
    return not any(_is_method(name, value) for kind in above for name, value in vars(kind).items())


def _is_method(name, value):
    """Whether an attribute of a child replaces a method; scikit-learn itself writes a `set_fit_request`."""
    return (
        hasattr(FedReLaRelabeler, name) and hasattr(value, "__get__") and not isinstance(value, RequestMethod)
    )
