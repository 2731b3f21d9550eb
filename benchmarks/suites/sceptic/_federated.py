"""Competitors whose rows stay with their clients."""

import sklearn

from benchmarks.suites.paper._controls import DropSameRows
from benchmarks.suites.sceptic._choosing import best, merged
from benchmarks.suites.sceptic._outcome import Outcome, balanced, plain, uncorrected
from benchmarks.suites.sceptic._pooled import tuned
from benchmarks.suites.sceptic._settings import CAPPED_TAU, RATIOS, TAU, TAUS, federation
from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import FedLC
from fedrela_sk.losses import BalancedSoftmaxLoss, LogitAdjustedLoss, adjust_posteriors

ABSENT = "one"  # a class that a client lacks counts as one row of it, as in FedETF's code


def _fit(job, seed, rows=slice(None), **params):
    return federation(job, seed, **params).fit(job.X[rows], job.y[rows], groups=job.groups[rows])


def federated(job, seed, memory):
    """Plain averaging."""
    return plain(_fit(job, seed, memory=memory).predict_proba(job.X_test))


def weights(job, seed, memory):
    """Class weights, from each client's own counts."""
    return uncorrected(_fit(job, seed, class_weight="balanced").predict_proba(job.X_test))


def balanced_softmax(job, seed, memory):
    """The balanced softmax, from each client's own counts."""
    model = _fit(job, seed, net={"criterion": BalancedSoftmaxLoss, "criterion__absent": ABSENT})
    return balanced(model.predict_proba(job.X_test), job.counts)


def fedlc(job, seed, memory):
    """FedLC, from each client's own counts."""
    return uncorrected(_fit(job, seed, algorithm=FedLC(absent="mask")).predict_proba(job.X_test))


def logit_adjusted(job, seed, memory):
    """The logit-adjusted loss, from counts summed over clients."""
    net = {"criterion": LogitAdjustedLoss, "criterion__counts": job.counts}
    return balanced(_fit(job, seed, net=net).predict_proba(job.X_test), job.counts)


def adjusted_after(job, seed, memory):
    """Plain averaging, posteriors divided by the summed shares of the classes after training."""
    posteriors = _fit(job, seed, memory=memory).predict_proba(job.X_test)
    return balanced(adjust_posteriors(posteriors, job.counts), job.counts)


def threshold(job, seed, memory):
    """Plain averaging with a tuned threshold."""
    with sklearn.config_context(enable_metadata_routing=True):
        return tuned(federation(job, seed, memory=memory), job, groups=job.groups)


def local_only(job, seed, memory):
    """Every client alone; a row is judged by its own client, one of no known client by the mean of all."""
    model = _fit(job, seed, algorithm="local_only")
    return plain(model.predict_proba(job.X_test, groups=job.groups_test))


def fedrela_fixed(job, seed, memory):
    """FedReLa at the paper's tau."""
    return _relabeled(job, seed, memory, FedReLaRelabeler(TAU), tau=TAU)


def fedrela_chosen(job, seed, memory):
    """FedReLa, tau chosen on training rows."""
    return _chosen(job, seed, memory, FedReLaRelabeler, TAUS, "tau")


def fedrela_capped(job, seed, memory):
    """FedReLa, max_ratio chosen on training rows."""
    return _chosen(job, seed, memory, _capped, RATIOS, "max_ratio")


def dropped_fixed(job, seed, memory):
    """The rows that FedReLa would relabel at the paper's tau leave training, their labels stay."""
    return _relabeled(job, seed, memory, DropSameRows(TAU), tau=TAU)


def dropped_chosen(job, seed, memory):
    """The same, tau chosen on training rows for dropping."""
    return _chosen(job, seed, memory, DropSameRows, TAUS, "tau")


def _chosen(job, seed, memory, rule, values, parameter):
    """The arm of a rule whose one parameter is chosen on training rows."""
    curve = _curve(job, seed, memory, rule, values)
    value = best(curve)
    return _relabeled(job, seed, memory, rule(value), **{parameter: value}, curve=curve)


def _capped(ratio):
    return FedReLaRelabeler(CAPPED_TAU, max_ratio=ratio)


def _curve(job, seed, memory, relabeler, values):
    def fit(value, rows):
        return _fit(job, seed, rows, memory=memory, relabeler=relabeler(value))

    return merged(values, job, fit)


def _relabeled(job, seed, memory, relabeler, **facts):
    model = _fit(job, seed, memory=memory, relabeler=relabeler)
    posteriors = model.predict_proba(job.X_test)
    rare = job.counts.sum() - job.counts.max()
    facts |= {"relabeled": int(model.relabeled_mask_.sum()), "rare": int(rare)}
    facts |= {"dropped": int((~model.kept_mask_).sum())}
    return Outcome(posteriors, posteriors.argmax(axis=1), None, "none known", facts)
