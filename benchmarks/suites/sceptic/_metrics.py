"""The figures of one competitor on one set and seed."""

import numpy as np
from sklearn.metrics import average_precision_score, balanced_accuracy_score, brier_score_loss, f1_score

from benchmarks.suites.sceptic._settings import ALERT_COST, ALERTS
from fedrela_sk.metrics import cost_by_amount, recall_at_alerts


def measure(outcome, job):
    """Name to figure, JSON-ready.

    Brier scores are the mean square of P(y = 1) - y for two classes, summed over classes for more. The cost is
    that of missed frauds and of alerts, divided by the cost of no alert at all.
    """
    y, predicted, classes = job.y_test, np.asarray(outcome.predicted), np.arange(len(job.class_names))
    figures = {
        "balanced_accuracy": balanced_accuracy_score(y, predicted),
        "macro_f1": f1_score(y, predicted, average="macro", labels=classes, zero_division=0.0),
        "recall": [float((predicted[y == k] == k).mean()) for k in classes],
        "average_precision": _average_precision(y, outcome.posteriors, classes),
        "brier": _brier(y, outcome.posteriors, classes),
        "correction": outcome.correction,
        **outcome.facts,
    }
    if outcome.corrected is not None:
        figures["brier_corrected"] = _brier(y, outcome.corrected, classes)
    if job.amount is not None:
        figures |= _money(outcome.posteriors[:, 1], predicted, job)
    return {key: value.item() if isinstance(value, np.generic) else value for key, value in figures.items()}


def _average_precision(y, posteriors, classes):
    if len(classes) == 2:
        return average_precision_score(y, posteriors[:, 1])
    return average_precision_score(y[:, None] == classes, posteriors, average="macro")


def _brier(y, posteriors, classes):
    if len(classes) == 2:
        return brier_score_loss(y, posteriors[:, 1])
    return brier_score_loss(y, posteriors, labels=classes, scale_by_half=False)


def _money(score, predicted, job):
    cost = cost_by_amount(job.y_test, predicted, job.amount, alert_cost=ALERT_COST)
    return {
        "recall_at_alerts": recall_at_alerts(job.y_test, score, n_alerts=ALERTS, period=job.day),
        "cost": cost / cost_by_amount(job.y_test, np.zeros_like(predicted), job.amount),
        "alerts_a_day": int(predicted.sum()) / len(np.unique(job.day)),
    }
