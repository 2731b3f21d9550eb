"""Relabeling at one site, around any scikit-learn classifier."""

import logging
from copy import deepcopy
from numbers import Integral
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.utils import indexable
from sklearn.utils.metaestimators import available_if
from sklearn.utils.validation import check_is_fitted

from fedrela_sk._checks import check_posteriors, finite_posteriors
from fedrela_sk._labels import accuracy
from fedrela_sk._random import seed_from
from fedrela_sk._sklearn import (
    HasMethods,
    StrOptions,
    _check_method_params,
    _check_sample_weight,
    _fit_context,
    _safe_split,
    get_tags,
)
from fedrela_sk._typing import Array, RandomState
from fedrela_sk.exceptions import LabelError
from fedrela_sk.relabel._coded import fit_labels
from fedrela_sk.relabel._one_site import draw_labels, first_stage, router, routing, unfrozen
from fedrela_sk.relabel._out_of_fold import response_name, responses_of
from fedrela_sk.relabel._target import check_labels, with_labels
from fedrela_sk.relabel.formulas._calibration import recover_posteriors, transition_row

logger = logging.getLogger(__name__)


def _inner_has(name):
    """The classifier answers `name` itself: only it is asked, and it has such a method."""

    def check(self):
        model = getattr(self, "estimator_", unfrozen(self.estimator))
        return self.refit and not self.calibrate and getattr(model, name) is not None

    return check


def _has_probabilities(self):
    """Probabilities come from `transform`, from a correction, or from the classifier."""
    return not self.refit or self.calibrate or _inner_has("predict_proba")(self)


class RelabelingClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):
    """Train any classifier after relabeling some majority rows, as FedReLa does (one site).

    Relabeling moves posteriors: the classifier learns how probable the *new* label is, so its
    probabilities are no longer calibrated for the original classes and rare ones come out too probable, on
    purpose. Set ``calibrate=True`` to get back probabilities of the original classes. For two classes
    relabeling acts like a moved threshold: the new posterior of the rare class is an increasing function of
    the old one (exactly so with ``refit=False``), so ranking measures (AUC, average precision) gain nothing
    from it and ``TunedThresholdClassifierCV`` is an alternative; with many classes there is no single
    threshold to move.

    ``fit`` makes out-of-fold posteriors of the rows, relabels majority rows that lie deep in a rarer class
    (:class:`FedReLaRelabeler`), and trains a clone of the classifier on the new labels. `X` is passed on as
    it is: data frames, missing values, categories, sparse matrices and texts are the classifier's business.

    Parameters
    ----------
    estimator : classifier
        With `predict_proba` or `decision_function`; it is cloned. A :class:`~sklearn.frozen.FrozenEstimator`
        is asked for posteriors as it is, without folds, and a clone of what it wraps is trained on the new
        labels. Its own `random_state` is left as given.
    relabeler : relabeler or None, default=None
        None means ``FedReLaRelabeler()``; pass one to search over ``relabeler__tau``. Its `classes` and `input`
        are set at fit. Any object with
        ``fit(Q, y)`` and ``relabel(Q, y, uniforms=...)`` will do; ``refit=False`` and ``calibrate=True`` need
        a :class:`FedReLaRelabeler`.
    cv : int, splitter, iterable of (train, test), None or "insample", default=5
        How posteriors are made. None means 5 folds. An int means that many stratified folds in row order, but
        not more than the largest class has rows. The test sets must hold each row exactly once. A class that
        the training part of a fold lacks has posterior 0 there. "insample" asks a classifier about the
        rows that it was trained on, as the paper does: such posteriors are overconfident, since the row's own
        label has gone into them, and the more so the more flexible the classifier is (trees, forests).
    refit : bool, default=True
        False: no second training. The classifier is trained on the original labels, and posteriors are
        ``relabeler_.transform`` of its posteriors.
    response_method : {"auto", "predict_proba", "decision_function"}, default="auto"
        What the relabeler is given. "auto" takes `predict_proba` where there is one. Scores are passed with
        ``input="score"``: one per class (one against the rest); a score s of two classes as (-s/2, s/2), so
        that its softmax is the posterior where s is the log-odds.
    calibrate : bool, default=False
        True: `predict_proba` gives posteriors q of the original classes, from those of the new labels q̃ by
        solving q̃ = T'q on the simplex for each row; T_lj = P(new label = j | row, label l) is taken
        at the posterior of a first-stage classifier, which is kept. A row with a diagonal entry of T below
        0.1 gets its first-stage posterior instead. Needs posteriors, not scores. With ``refit=False`` this
        gives the first-stage posterior back.
    n_jobs : int or None, default=None
        Folds fitted at once. Results do not depend on it.
    random_state : int, RandomState instance or None, default=None
        Seed of the draw, where the relabeler has no `random_state` of its own, and of a splitter that shuffles
        without one.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        Sorted; the columns of `predict_proba`, always all of them.
    estimator_ : classifier
        Trained on the new labels (``refit=False``: on the original ones). One that takes no labels but 0..K-1, or
        none with gaps, is trained on positions in `classes_` and wrapped, so that it answers with the labels; not
        where a parameter of it, such as `class_weight`, names classes.
    first_estimator_ : classifier
        Trained on the original labels; only with ``refit=False`` or ``calibrate=True``.
    relabeler_ : relabeler
        Fitted on the first-stage posteriors.
    y_relabeled_ : ndarray of shape (n_samples,)
        The new labels, a NumPy array whatever holds y (of the dtype of y, if that is one); y is left as it is.
    relabeled_mask_ : ndarray of shape (n_samples,), bool
        Rows whose label is a new one.
    saturated_share_ : float in [0, 1]
        Share of the training rows for which the first-stage posterior is returned; only with
        ``calibrate=True``.
    n_features_in_, feature_names_in_
        As the inner classifier gives them, where it does.

    See Also
    --------
    FedReLaRelabeler : The formulas, on posteriors.
    FedReLaSampler : The same first steps for imbalanced-learn's pipeline.

    References
    ----------
    FedReLa, ICML 2026, arXiv 2606.26037, section 3.

    Examples
    --------
    >>> from sklearn.datasets import make_classification
    >>> from sklearn.linear_model import LogisticRegression
    >>> from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
    >>> X, y = make_classification(n_samples=2000, weights=[0.95], flip_y=0, random_state=0)
    >>> clf = RelabelingClassifier(LogisticRegression(), FedReLaRelabeler(tau=0.05), random_state=0)
    >>> clf.fit(X, y).relabeled_mask_.sum() > 0
    np.True_
    >>> clf.predict_proba(X).shape
    (2000, 2)
    """

    _parameter_constraints: dict = {
        "estimator": [HasMethods(["fit", "predict_proba"]), HasMethods(["fit", "decision_function"])],
        "relabeler": [HasMethods(["fit", "relabel"]), None],
        "cv": ["cv_object", StrOptions({"insample"})],
        "refit": ["boolean"],
        "response_method": [StrOptions({"auto", "predict_proba", "decision_function"})],
        "calibrate": ["boolean"],
        "n_jobs": [Integral, None],
        "random_state": ["random_state"],
    }

    def __init__(
        self,
        estimator: Any,
        relabeler: Any = None,
        *,
        cv: Any = 5,
        refit: bool = True,
        response_method: Literal["auto", "predict_proba", "decision_function"] = "auto",
        calibrate: bool = False,
        n_jobs: int | None = None,
        random_state: RandomState = None,
    ) -> None:
        self.estimator = estimator
        self.relabeler = relabeler
        self.cv = cv
        self.refit = refit
        self.response_method = response_method
        self.calibrate = calibrate
        self.n_jobs = n_jobs
        self.random_state = random_state

    @_fit_context(prefer_skip_nested_validation=False)
    def fit(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None, **params: Any) -> Self:
        """Posteriors of the rows, new labels, and a classifier trained on them.

        Parameters
        ----------
        X : indexable of length n_samples
            Passed on as it is.
        y : array-like of shape (n_samples,)
        sample_weight : array-like of shape (n_samples,), default=None
            Passed on to the classifier, and counted by the relabeler as repetition.
        **params : dict
            Metadata. With metadata routing, what `estimator` and `cv` requested; without it, `groups` go to
            ``cv.split`` (and to ``estimator.fit`` where that takes groups), everything else to ``estimator.fit``.

        Returns
        -------
        self : object

        Raises
        ------
        LabelError
            Only one class, before or after relabeling; missing labels; labels of several types.
        PartitionError
            The test sets of `cv` do not hold each row exactly once.
        GroupsError
            `groups` that neither `cv` nor the classifier uses.
        ValueError
            `sample_weight` for a classifier that does not take them; ``calibrate=True`` without posteriors.
        """
        X, y = indexable(X, y)
        labels, _ = check_labels(y)
        if sample_weight is not None:
            sample_weight = _check_sample_weight(sample_weight, X)
        inner, seed = unfrozen(self.estimator), seed_from(self.random_state)
        fit_params, groups = routing(self, "fit", inner, {"sample_weight": sample_weight, **params})
        if self.calibrate:
            self._check_posteriors()
        stage = first_stage(
            self.estimator,
            X,
            labels,
            cv=self.cv,
            response_method=self.response_method,
            fit_params=fit_params,
            groups=groups,
            n_jobs=self.n_jobs,
            seed=seed,
        )
        drawn = draw_labels(self.relabeler, stage, labels, sample_weight=sample_weight, seed=seed)
        self.classes_, self.relabeler_ = stage.classes, drawn.relabeler
        self.relabeled_mask_ = drawn.changed
        # no container of another library: the fitted classifier can be stored without it
        plain = type(y) is np.ndarray and y.dtype.kind != "T"
        self.y_relabeled_ = with_labels(y, drawn.changed, drawn.labels) if plain else drawn.labels
        self.first_estimator_ = self._first_model(stage, X, labels, fit_params)
        self.estimator_ = self._train(X, drawn, fit_params) if self.refit else self.first_estimator_
        self.saturated_share_ = None
        if self.calibrate:
            transformed = self.relabeler_.transform(stage.responses)
            self.saturated_share_ = float(self._correct(stage.responses, transformed)[1].mean())
        return self

    def _check_posteriors(self):
        if response_name(self.estimator, self.response_method) != "predict_proba":
            raise ValueError(
                f"calibrate=True needs posteriors, got the decision_function of "
                f"{type(unfrozen(self.estimator)).__name__}. Wrap it in CalibratedClassifierCV, which has "
                "predict_proba, and leave response_method at 'auto'."
            )

    def _first_model(self, stage, X, labels, fit_params):
        """The classifier of the original labels where predictions need it, else None."""
        if self.refit and not self.calibrate:
            return None
        if stage.model is not None:
            return unfrozen(stage.model)
        return fit_labels(clone(self.estimator), X, labels, stage.classes, fit_params)

    def _train(self, X, drawn, fit_params):
        """A clone of the classifier trained on the new labels."""
        left = np.unique(drawn.labels[drawn.keep])
        if len(left) < 2:
            raise LabelError(
                f"After relabeling only 1 class ({left.tolist()}) is left to train on. Lower the relabeler's "
                "tau, or keep some rows of every class with min_remaining=1."
            )
        model, rows = clone(unfrozen(self.estimator)), np.flatnonzero(drawn.keep)
        if len(rows) == len(drawn.keep):
            return fit_labels(model, X, drawn.labels, self.classes_, fit_params)
        X_kept, labels_kept = _safe_split(model, X, drawn.labels, rows, rows)
        own_params = _check_method_params(X, fit_params, indices=rows)
        return fit_labels(model, X_kept, labels_kept, self.classes_, own_params)

    @available_if(_has_probabilities)
    def predict_proba(self, X):
        """Posteriors of the new labels, or with ``calibrate=True`` of the original ones.

        Parameters
        ----------
        X : indexable of length n_samples

        Returns
        -------
        posteriors : ndarray of shape (n_samples, n_classes)
            Columns follow `classes_`; a class that no row has after relabeling has posterior 0.

        Raises
        ------
        NotFiniteError
            If the classifier gives a posterior that is not finite, with the row.
        """
        check_is_fitted(self)
        return finite_posteriors(self._posteriors(X), type(unfrozen(self.estimator)).__name__)

    def _posteriors(self, X):
        """What `predict_proba` returns, before it is looked at."""
        if self.refit and not self.calibrate:
            return self._response(self.estimator_, "predict_proba", X)
        method = response_name(self.first_estimator_, self.response_method)
        first = self._response(self.first_estimator_, method, X)
        if self.refit:
            relabeled = self._response(self.estimator_, "predict_proba", X)
        else:
            relabeled = self.relabeler_.transform(first)
        if not self.calibrate:
            return relabeled
        posteriors, saturated = self._correct(first, relabeled)
        logger.info("calibrate: %d of %d rows got their first-stage posterior", saturated.sum(), len(first))
        return posteriors

    @available_if(_has_probabilities)
    def predict_log_proba(self, X):
        """Logarithms of `predict_proba`, those of the classifier itself where it has some; minus infinity for 0.

        Parameters
        ----------
        X : indexable of length n_samples

        Returns
        -------
        log_posteriors : ndarray of shape (n_samples, n_classes)
        """
        check_is_fitted(self)
        if self.refit and not self.calibrate and hasattr(self.estimator_, "predict_log_proba"):
            logarithms = self._response(self.estimator_, "predict_log_proba", X)
            finite_posteriors(np.exp(logarithms), type(unfrozen(self.estimator)).__name__)
            return logarithms
        with np.errstate(divide="ignore"):
            return np.log(self.predict_proba(X))

    @available_if(_inner_has("decision_function"))
    def decision_function(self, X):
        """Scores of the classifier trained on the new labels (``refit=True``, ``calibrate=False``).

        Parameters
        ----------
        X : indexable of length n_samples

        Returns
        -------
        scores : ndarray of shape (n_samples,) for two classes, else (n_samples, n_classes)
            Columns follow `classes_`; a class that no row has after relabeling has the lowest score of
            the row.
        """
        check_is_fitted(self)
        if len(self.classes_) == 2:
            return self.estimator_.decision_function(X)
        return self._response(self.estimator_, "decision_function", X)

    def predict(self, X: Any) -> Array:
        """The most probable class; where `predict_proba` is the inner classifier's, its own `predict`.

        Parameters
        ----------
        X : indexable of length n_samples

        Returns
        -------
        y : ndarray of shape (n_samples,)
            Labels out of `classes_`.
        """
        check_is_fitted(self)
        if self.refit and not self.calibrate:
            return self.estimator_.predict(X)
        return self.classes_[self.predict_proba(X).argmax(axis=1)]

    def score(self, X: Any, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Mean accuracy.

        Parameters
        ----------
        X : indexable of length n_samples
        y : array-like of shape (n_samples,)
            Labels of any kind that `fit` takes.
        sample_weight : array-like of shape (n_samples,), default=None

        Returns
        -------
        score : float
        """
        return accuracy(y, self.predict(X), sample_weight)

    def relabel_report(self) -> Any:
        """What was relabeled: see :meth:`FedReLaRelabeler.report`."""
        check_is_fitted(self)
        return self.relabeler_.report()

    def _response(self, model, method, X):
        return responses_of(model, X, self.classes_, method)

    def _correct(self, first, relabeled):
        first, relabeled = check_posteriors(first), check_posteriors(relabeled)
        statistics, target = self.relabeler_._statistics(), self.relabeler_.target
        order = np.argsort(statistics.prior_weight, kind="stable")
        return recover_posteriors(
            lambda values, label: transition_row(values, label, statistics, target), order, first, relabeled
        )

    @property
    def n_features_in_(self) -> Any:
        """Number of features, where the inner classifier has it."""
        return self.estimator_.n_features_in_

    @property
    def feature_names_in_(self) -> Any:
        """Names of the features, where the inner classifier has them."""
        return self.estimator_.feature_names_in_

    def get_metadata_routing(self) -> Any:
        """Metadata of `fit` goes to ``estimator.fit`` and ``cv.split``; `sample_weight` is used here as well.

        Returns
        -------
        routing : MetadataRouter
        """
        return router(self, ["fit"]).add_self_request(self)

    def __sklearn_tags__(self):
        tags, inner = super().__sklearn_tags__(), get_tags(unfrozen(self.estimator))
        tags.input_tags = deepcopy(inner.input_tags)
        if inner.classifier_tags is not None:
            tags.classifier_tags = deepcopy(inner.classifier_tags)
            tags.classifier_tags.multi_label = False
        return tags
