"""Relabeling as a sampler over rows, for imbalanced-learn's pipeline; imbalanced-learn itself is not needed."""

from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, MetaEstimatorMixin, OneToOneFeatureMixin
from sklearn.utils import indexable
from sklearn.utils.multiclass import type_of_target
from sklearn.utils.validation import check_is_fitted

from fedrela_sk._labels import positions_in, python_values
from fedrela_sk._random import seed_from
from fedrela_sk._sklearn import (
    HasMethods,
    InputTags,
    StrOptions,
    Tags,
    _check_sample_weight,
    _fit_context,
    _safe_indexing,
    get_tags,
    validate_data,
)
from fedrela_sk._typing import RandomState
from fedrela_sk.exceptions import LabelError
from fedrela_sk.relabel._one_site import draw_labels, first_stage, router, routing, unfrozen
from fedrela_sk.relabel._target import check_labels, with_labels


@dataclass(slots=True)
class _SamplerInputTags(InputTags):
    dataframe: bool = True


@dataclass(slots=True)
class _SamplerTags:
    sample_indices: bool = True


@dataclass(slots=True)
class _Tags(Tags):
    """scikit-learn's tags and the two that imbalanced-learn asks a sampler for."""

    input_tags: _SamplerInputTags = field(default_factory=_SamplerInputTags)
    sampler_tags: _SamplerTags = field(default_factory=_SamplerTags)


class FedReLaSampler(OneToOneFeatureMixin, MetaEstimatorMixin, BaseEstimator):
    """Relabel some majority rows, as FedReLa does, before a model is trained (imbalanced-learn's `fit_resample`).

    Rows are neither added nor removed: X comes back untouched, y with some labels changed into those of rarer
    classes. Posteriors of the rows are made out of fold with an inner classifier, which may be another one
    than the model at the end of the pipeline. Relabeling moves posteriors: what a model learns from the new
    labels is no longer calibrated for the original classes.

    It works in ``imblearn.pipeline.Pipeline``. scikit-learn's own pipeline cannot change y; there
    :class:`RelabelingClassifier` does the same around the model.

    Parameters
    ----------
    estimator : classifier
        With `predict_proba` or `decision_function` (then the relabeler is given scores); it is cloned. A
        :class:`~sklearn.frozen.FrozenEstimator` is asked for posteriors as it is.
    relabeler : relabeler or None, default=None
        None means ``FedReLaRelabeler()``; see :class:`RelabelingClassifier`.
    cv : int, splitter, iterable of (train, test), None or "insample", default=5
        How posteriors are made; see :class:`RelabelingClassifier`.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw, where the relabeler has no `random_state` of its own, and of a splitter that shuffles
        without one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted labels.
    relabeler_ : relabeler
        Fitted on the posteriors.
    relabeled_mask_ : ndarray of shape (n_samples,), bool
        Rows whose label is a new one.
    sample_indices_ : ndarray of shape (n_samples,), int
        The rows that come back, in order: all of them, unless a relabeler of your own drops some.
    sampling_strategy_ : dict
        How many rows were relabeled into each class.
    n_features_in_, feature_names_in_
        Where X has them.

    See Also
    --------
    RelabelingClassifier : For scikit-learn's own pipeline.
    FedReLaRelabeler : The formulas, on posteriors.

    References
    ----------
    FedReLa, ICML 2026, arXiv 2606.26037, section 3.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fedrela_sk import FedReLaSampler
    >>> X, y = make_classification(n_samples=2000, weights=[0.95], flip_y=0, random_state=0)
    >>> sampler = FedReLaSampler(LogisticRegression(), random_state=0)
    >>> X_same, y_new = sampler.fit_resample(X, y)
    >>> X_same is X, int((y_new != y).sum()) == sampler.sampling_strategy_[1]
    (True, True)
    """

    # imbalanced-learn's ensembles ask what a sampler does: neither more rows nor fewer, no `sampling_strategy`
    _sampling_type = "bypass"

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"]), HasMethods(["fit", "decision_function"])],
        "relabeler": [HasMethods(["fit", "relabel"]), None],
        "cv": ["cv_object", StrOptions({"insample"})],
        "random_state": ["random_state"],
    }

    def __init__(
        self, estimator: Any, relabeler: Any = None, *, cv: Any = 5, random_state: RandomState = None
    ) -> None:
        self.estimator = estimator
        self.relabeler = relabeler
        self.cv = cv
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: ArrayLike, **params: Any) -> Self:
        """Relabel the rows and keep what was learned; see `fit_resample`, which also returns them.

        Parameters
        ----------
        X : indexable of length n_samples
        y : array-like of shape (n_samples,) or one-hot of shape (n_samples, n_classes)
        **params : dict

        Returns
        -------
        self : object
        """
        self._relabel(X, y, "fit", params)
        return self

    @_fit_context(prefer_skip_nested_validation=False)
    def fit_resample(self, X: Any, y: ArrayLike, **params: Any) -> tuple[Any, Any]:
        """The rows as they are, and their new labels.

        Parameters
        ----------
        X : indexable of length n_samples
            Passed on to the inner classifier as it is.
        y : array-like of shape (n_samples,) or one-hot of shape (n_samples, n_classes)
        **params : dict
            Metadata. With metadata routing, what `estimator` and `cv` requested; without it, `groups` go to
            ``cv.split`` (and to ``estimator.fit`` where that takes groups), everything else to ``estimator.fit``.
            `sample_weight` is also counted by the relabeler, as repetition.

        Returns
        -------
        X : the object that came in
        y : of the type and dtype that came in
            A copy with new labels.

        Raises
        ------
        LabelError
            Only one class, missing labels, labels of several types.
        PartitionError
            The test sets of `cv` do not hold each row exactly once.
        GroupsError
            `groups` that neither `cv` nor the classifier uses.
        ValueError
            A target that is continuous or has several labels per row; `sample_weight` for a classifier that does
            not take them.
        """
        y_new, keep = self._relabel(X, y, "fit_resample", params)
        if keep.all():
            return X, y_new
        return _safe_indexing(X, self.sample_indices_), _safe_indexing(y_new, self.sample_indices_)

    def _relabel(self, X, y, caller, params):
        given, y = y, _one_column(y)
        indexed, y = indexable(X, y)
        validate_data(self, indexed, skip_check_array=True)
        labels, _ = check_labels(y)
        sample_weight = params.get("sample_weight")
        if sample_weight is not None:
            params = params | {"sample_weight": _check_sample_weight(sample_weight, indexed)}
        fit_params, groups = routing(self, caller, unfrozen(self.estimator), params)
        seed = seed_from(self.random_state)
        stage = first_stage(
            self.estimator,
            indexed,
            labels,
            cv=self.cv,
            response_method="auto",
            fit_params=fit_params,
            groups=groups,
            n_jobs=None,
            seed=seed,
        )
        drawn = draw_labels(
            self.relabeler, stage, labels, sample_weight=params.get("sample_weight"), seed=seed
        )
        self.classes_, self.relabeler_, self.relabeled_mask_ = stage.classes, drawn.relabeler, drawn.changed
        self.sample_indices_ = np.flatnonzero(drawn.keep)
        into = positions_in(stage.classes, drawn.labels[drawn.changed])
        counts = np.bincount(into, minlength=len(stage.classes)).tolist()
        self.sampling_strategy_ = dict(zip(python_values(stage.classes), counts, strict=True))
        new = with_labels(y, drawn.changed, drawn.labels)
        return (new if y is given else _one_hot(given, new)), drawn.keep

    def relabel_report(self) -> Any:
        """What was relabeled: see :meth:`FedReLaRelabeler.report`."""
        check_is_fitted(self)
        return self.relabeler_.report()

    def get_metadata_routing(self) -> Any:
        """Metadata routing: `fit` and `fit_resample` send metadata to ``estimator.fit`` and ``cv.split``.

        Returns
        -------
        routing : MetadataRouter
        """
        return router(self, ["fit", "fit_resample"])

    def __getattr__(self, name):
        if name in ("transform", "fit_transform", "predict", "predict_proba"):
            raise AttributeError(
                f"FedReLaSampler has no {name}: it changes y, and only while fitting. Put it into "
                "imblearn.pipeline.Pipeline; in scikit-learn's own Pipeline use RelabelingClassifier instead."
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __sklearn_tags__(self):
        base, inner = super().__sklearn_tags__(), get_tags(unfrozen(self.estimator)).input_tags
        base.target_tags.required = True
        names = InputTags.__dataclass_fields__
        return _Tags(
            estimator_type="sampler",
            target_tags=base.target_tags,
            input_tags=_SamplerInputTags(**{name: deepcopy(getattr(inner, name)) for name in names}),
        )


def _is_table(y):
    """More than one column: two dimensions, or a list of rows."""
    if isinstance(y, list | tuple):
        return len(y) > 0 and np.ndim(y[0]) == 1 and len(y[0]) > 1
    shape = getattr(y, "shape", ())
    return isinstance(shape, tuple) and len(shape) == 2 and shape[1] > 1


def _one_column(y):
    """Labels of one-hot rows as column numbers; any other y as it is."""
    if not _is_table(y) or type_of_target(y, input_name="y") != "multilabel-indicator":
        return y
    rows = y.toarray() if issparse(y) else np.asarray(y)
    if (rows.sum(axis=1) != 1).any():
        row = int(np.argmax(rows.sum(axis=1) != 1))
        raise LabelError(
            f"Multilabel and multioutput targets are not supported: row {row} of y holds {int(rows[row].sum())} "
            "labels. Pass one label per row, or one-hot rows."
        )
    return rows.argmax(axis=1)


def _one_hot(given, columns):
    """Column numbers as one-hot rows of the type that was given."""
    dense = given.toarray() if issparse(given) else np.asarray(given)
    rows = np.zeros_like(dense)
    rows[np.arange(len(columns)), columns] = 1
    if hasattr(given, "iloc"):
        return type(given)(rows, index=given.index, columns=given.columns)
    return type(given)(rows) if issparse(given) else rows
