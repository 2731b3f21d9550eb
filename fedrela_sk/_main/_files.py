"""What the main job leaves behind: two pictures and a CSV."""

import csv

from fedrela_sk._main._models import metric_names
from fedrela_sk.plots import RelabelingDisplay, TauCurveDisplay

_DRAWN = (
    "federated, tuned threshold",
    "federated, class weights",
    "pooled logistic regression",
    "pooled boosting, weights",
)


def save_scores(study, path):
    """Score of every model in every fold, one line per model and fold."""
    metrics = list(metric_names(study.problem))
    with open(path, "w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["model", "tau", "fold", *metrics])
        for row in study.over_tau + study.others:
            for fold in range(len(study.problem.folds)):
                tau = "" if row.tau is None else row.tau
                writer.writerow([row.model, tau, fold, *(row.scores[m][fold] for m in metrics)])


def save_tau_curve(study, path):
    """Scores over tau, other models as lines."""
    names = metric_names(study.problem)
    rows = [row for row in study.others if row.model in _DRAWN]
    display = TauCurveDisplay(
        tau=[row.tau for row in study.over_tau],
        scores={name: [row.mean(metric) for row in study.over_tau] for metric, name in names.items()},
        spread={name: [row.std(metric) for row in study.over_tau] for metric, name in names.items()},
        chosen=study.best.tau,
        references={row.model: {name: row.mean(m) for m, name in names.items()} for row in rows},
    ).plot()
    _save(display.figure_, path)


def save_relabeled(study, path):
    """What the chosen federation relabeled where."""
    display = RelabelingDisplay.from_estimator(study.federation, class_names=study.problem.class_names)
    _save(display.figure_, path)


def _save(figure, path):
    import matplotlib.pyplot as plt

    figure.savefig(path, dpi=120)
    plt.close(figure)
