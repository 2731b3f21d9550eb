"""Competitors that see all rows in one place: regression, boosting, and the net with every usual remedy."""

import numpy as np
from imblearn.over_sampling import SMOTE, RandomOverSampler
from imblearn.pipeline import make_pipeline
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import TunedThresholdClassifierCV

from benchmarks.suites.sceptic._choosing import check_folds
from benchmarks.suites.sceptic._outcome import Outcome, balanced, plain, uncorrected
from benchmarks.suites.sceptic._settings import PASSES, TAU, pooled
from fedrela_sk import FedReLaRelabeler, RelabelingClassifier
from fedrela_sk.losses import FocalLoss, LogitAdjustedLoss


def logistic(job, seed, memory):
    """Logistic regression, plain."""
    return plain(LogisticRegression(max_iter=1000).fit(job.X, job.y).predict_proba(job.X_test))


def boosting(job, seed, memory):
    """Gradient boosting, plain."""
    return plain(_trees(seed).fit(job.X, job.y).predict_proba(job.X_test))


def boosting_weights(job, seed, memory):
    """Gradient boosting with class weights."""
    model = _trees(seed, class_weight="balanced").fit(job.X, job.y)
    return balanced(model.predict_proba(job.X_test), job.counts)


def boosting_threshold(job, seed, memory):
    """Gradient boosting with a tuned threshold."""
    return tuned(_trees(seed), job)


def _trees(seed, **params):
    return HistGradientBoostingClassifier(early_stopping=False, random_state=seed, **params)


def tuned(model, job, **fit_params):
    """The threshold of highest balanced accuracy, on the inner folds; two classes only."""
    check_folds(job)
    search = TunedThresholdClassifierCV(model, scoring="balanced_accuracy", cv=job.inner)
    search.fit(job.X, job.y, **fit_params)
    posteriors = search.estimator_.predict_proba(job.X_test)
    facts = {"threshold": float(search.best_threshold_)}
    return Outcome(posteriors, search.predict(job.X_test), posteriors, "none needed", facts)


def _fitted(job, seed, **params):
    return pooled(job, seed, **params).fit(job.X, job.y).predict_proba(job.X_test)


def net(job, seed, memory):
    """The net, plain."""
    return plain(_fitted(job, seed))


def net_weights(job, seed, memory):
    """The net with class weights."""
    return balanced(_fitted(job, seed, class_weight="balanced"), job.counts)


def net_oversampled(job, seed, memory):
    """The net on rows drawn until classes are equal."""
    return _resampled(RandomOverSampler(random_state=seed), job, seed)


def net_smote(job, seed, memory):
    """The net on rows that SMOTE added until classes are equal."""
    return _resampled(SMOTE(random_state=seed), job, seed)


def _resampled(sampler, job, seed):
    """As many steps as over the rows as they are, so fewer passes over the resampled ones."""
    counts = job.counts
    passes = max(1, round(PASSES * counts.sum() / (len(counts) * counts.max())))
    model = make_pipeline(sampler, pooled(job, seed, passes=passes)).fit(job.X, job.y)
    return balanced(model.predict_proba(job.X_test), counts)


def net_focal(job, seed, memory):
    """The net with the focal loss."""
    return uncorrected(_fitted(job, seed, net={"criterion": FocalLoss}))


def net_adjusted(job, seed, memory):
    """The net with the logit-adjusted loss."""
    return balanced(_fitted(job, seed, net={"criterion": LogitAdjustedLoss}), job.counts)


def net_threshold(job, seed, memory):
    """The net with a tuned threshold."""
    return tuned(pooled(job, seed), job)


def net_relabeled(job, seed, memory):
    """The net in a `RelabelingClassifier`; its correction is ``calibrate=True``, of the same fit."""
    model = _relabeling(job, seed, calibrate=True)
    posteriors, rare = model.estimator_.predict_proba(job.X_test), job.counts.sum() - job.counts.max()
    facts = {"relabeled": int(model.relabeled_mask_.sum()), "rare": int(rare), "tau": TAU}
    facts["saturated"] = model.saturated_share_
    predicted = model.classes_[np.argmax(posteriors, axis=1)]
    return Outcome(posteriors, predicted, model.predict_proba(job.X_test), "calibrate=True", facts)


def net_transformed(job, seed, memory):
    """The same without a second training: posteriors of the first net, transformed."""
    model = _relabeling(job, seed, refit=False)
    posteriors = model.predict_proba(job.X_test)
    first = model.first_estimator_.predict_proba(job.X_test)
    return Outcome(posteriors, model.predict(job.X_test), first, "the first posterior", {"tau": TAU})


def _relabeling(job, seed, **params):
    relabeler = FedReLaRelabeler(TAU)
    model = RelabelingClassifier(pooled(job, seed), relabeler, cv=job.inner, random_state=seed, **params)
    return model.fit(job.X, job.y)
