"""Choosing a knob on training rows: predictions of all folds are merged, and no class may be too small."""

import numpy as np
from sklearn.metrics import balanced_accuracy_score

from benchmarks.suites.sceptic._data import MIN_ROWS


def check_rows(y, class_names, n_min=MIN_ROWS):
    """Refuse rows on which a metric of all classes would rest on a handful.

    Parameters
    ----------
    y : ndarray of int
        Classes of the rows that the metric is taken on.
    class_names : list of str
    n_min : int

    Raises
    ------
    ValueError
        A class has fewer than `n_min` rows.
    """
    counts = np.bincount(y, minlength=len(class_names))
    if counts.min() < n_min:
        raise ValueError(
            f"Nothing is chosen by a metric on {counts.min()} rows of class {class_names[counts.argmin()]!r}: at "
            f"least {n_min} are needed. Merge folds, merge the class with others, or train on more rows."
        )


def check_folds(job):
    """Refuse folds that are judged one by one, as `TunedThresholdClassifierCV` does, and hold too few rows."""
    for _, rows in job.inner:
        check_rows(job.y[rows], job.class_names)


def merged(values, job, fit):
    """Facts of every value of a knob, over the test rows of all inner folds taken together.

    The folds are merged before the metric is taken, so it rests on all training rows of a class.

    Parameters
    ----------
    values : sequence
    job : Job
    fit : callable
        ``fit(value, rows)`` trains on those rows of the job and returns a fitted federation.

    Returns
    -------
    curve : list of dict
        For each value: balanced accuracy, recall of every class, the most common class, rows predicted as another
        one (alerts) and rows that are of another one; rows relabelled and rows of other classes, both summed over
        the folds' training rows.
    """
    check_rows(job.y, job.class_names)
    return [{"value": value, **_facts(value, job, fit)} for value in values]


def _facts(value, job, fit):
    predicted, relabeled, rare = np.empty_like(job.y), 0, 0
    common = job.counts.argmax()
    for train, test in job.inner:
        model = fit(value, train)
        predicted[test] = model.predict(job.X[test])
        relabeled += int(model.relabeled_mask_.sum())
        rare += int((job.y[train] != common).sum())
    recall = [float((predicted[job.y == k] == k).mean()) for k in range(len(job.class_names))]
    return {
        "balanced_accuracy": float(balanced_accuracy_score(job.y, predicted)),
        "recall": recall,
        "common": int(common),
        "alerts": int((predicted != common).sum()),
        "rare_tested": int((job.y != common).sum()),
        "relabeled": relabeled,
        "rare": rare,
    }


def best(curve):
    """The value of highest balanced accuracy; of equals the first, so the weakest."""
    return max(curve, key=lambda point: point["balanced_accuracy"])["value"]
