import dataclasses
import io
from types import SimpleNamespace

import numpy as np
import pytest
from rich.console import Console

from fedrela_sk import DirichletSplit
from fedrela_sk._main import _text
from fedrela_sk._main._models import TAU, YARDSTICK
from fedrela_sk._main._study import Row, Study


def row(name, tau, *scores, precision=0.2):
    scores = np.array(scores, dtype=float)
    precisions = np.full(len(scores), precision)
    columns = {"balanced_accuracy": scores, "recall": scores, "f1": scores, "average_precision": precisions}
    return Row(name, tau, columns)


def made_study(problem, plain, relabeled, chosen, others=()):
    search = SimpleNamespace(best_params_={TAU: chosen})
    return Study(problem, [row("tau 0", 0.0, *plain), row("tau 0.3", 0.3, *relabeled)], list(others), search)


def test_problem_in_words(small_problem):
    first, second = _text.describe_problem(small_problem, 9)
    n_bad = int(small_problem.y.sum())
    assert first == f"Some loans: {800 + n_bad:,} rows (800 good, {n_bad} bad)."
    assert second == (
        "Clients: 6 states. Net: MLP 64-32, 9 rounds of 2 local epochs, rate 0.2, batches of 64; "
        "scores on 3 stratified folds."
    )


@pytest.mark.parametrize("clients", [4, DirichletSplit(4, alpha=1.0)])
def test_made_clients_in_words(small_problem, clients):
    problem = dataclasses.replace(small_problem, clients=clients, groups=None, who="made clients")
    assert _text.describe_problem(problem, 9)[1].startswith("Clients: 4 made clients.")


def test_table_holds_mean_and_deviation_of_every_model(study):
    text = io.StringIO()
    Console(file=text, width=120).print(_text.make_table(study))
    lines = {line[:33].strip(): line[33:] for line in text.getvalue().splitlines()}
    for row in study.over_tau + study.others:
        cells = lines[row.model + (" *" if row is study.best else "")]
        for metric in ("balanced_accuracy", "recall", "f1", "average_precision"):
            assert f"{row.mean(metric):.3f} ± {row.std(metric):.3f}" in cells
    assert "recall of bad" in text.getvalue()


def test_a_gain_beyond_one_standard_error(small_problem):
    # standard deviation 0.03, so a standard error of 0.0173
    lines = _text.explain_choice(made_study(small_problem, [0.5, 0.5, 0.5], [0.57, 0.6, 0.63], 0.3))
    assert lines == [
        "* Chosen: tau 0.3. It raises balanced accuracy by 0.100 over tau 0 (standard error over folds 0.017).",
        "  It is the largest tau of the grid; a larger one may do better (--tau).",
    ]


@pytest.mark.parametrize(
    ("plain", "best"), [([0.5] * 3, [0.48, 0.51, 0.54]), ([0.48, 0.51, 0.54], [0.52] * 3)]
)
def test_a_gain_within_one_standard_error_of_either_is_said_to_be_none(small_problem, plain, best):
    lines = _text.explain_choice(made_study(small_problem, plain, best, 0.3))
    assert "by 0.010 over tau 0 (standard error over folds 0.017)" in lines[0]
    assert "within one standard error: on these folds re-labeling is not shown to be better" in lines[1]


def test_a_tau_inside_the_grid(small_problem):
    study = made_study(small_problem, [0.5] * 3, [0.6] * 3, 0.3)
    study.over_tau.append(row("tau 0.4", 0.4, 0.55, 0.55, 0.55))
    assert len(_text.explain_choice(study)) == 1


def test_tau_zero_chosen(small_problem):
    lines = _text.explain_choice(made_study(small_problem, [0.6] * 3, [0.5] * 3, 0.0))
    assert lines == ["* Chosen: tau 0. Re-labeling does not raise balanced accuracy on these folds."]


def test_simpler_models_that_do_better_are_named(small_problem):
    others = [row("weights", None, 0.7, 0.7, 0.7), row("worse", None, 0.1, 0.1, 0.1)]
    better = made_study(small_problem, [0.5] * 3, [0.6] * 3, 0.3, others)
    assert _text.compare_with_others(better) == [
        "As good or better in balanced accuracy than tau 0.3 (0.600): weights (0.700)."
    ]
    best = made_study(small_problem, [0.5] * 3, [0.8] * 3, 0.3, others)
    assert _text.compare_with_others(best) == [
        "None of the other models reaches its balanced accuracy, 0.800."
    ]


@pytest.mark.parametrize(("precision", "warned"), [(0.2, False), (0.214, False), (0.216, True)])
def test_a_net_that_is_not_trained_is_told(small_problem, precision, warned):
    others = [row(YARDSTICK, None, 0.5, 0.5, 0.5, precision=precision)]
    (line,) = _text.check_training(made_study(small_problem, [0.5] * 3, [0.6] * 3, 0.3, others))
    assert line.startswith("Average precision at tau 0: 0.200; pooled logistic regression: ")
    assert ("not trained far enough" in line) is warned


def test_what_was_relabeled_where(study):
    text = " ".join(_text.describe_relabeling(study))
    report = study.federation.relabel_report()
    n_rows = len(study.problem.y)
    assert (
        f"{len(report):,} of {n_rows:,} labels changed before round 4 of 6: good -> bad {len(report)};"
        in text
    )
    assert f"was {report.posterior.min():.3f} to {report.posterior.max():.3f}" in text
    names, counts = np.unique(report.client, return_counts=True)
    assert f"at {len(names)} of 6 clients with rows: {names[counts.argmax()]} ({counts.max()})" in text


def fake_federation(**columns):
    n = len(columns["old"])
    columns = {"posterior": np.full(n, 0.5), "z": np.ones(n), "threshold": np.zeros(n)} | {
        name: np.asarray(values) for name, values in columns.items()
    }
    report = type("Report", (), {**columns, "__len__": lambda self: n})()
    return SimpleNamespace(
        relabel_report=lambda: report,
        y_relabeled_=np.zeros(50),
        relabel_round_=3,
        history_=[None] * 6,
        client_names_=list(range(30)),
    )


def relabeled_by(problem, federation):
    search = SimpleNamespace(best_estimator_=[federation])
    return _text.describe_relabeling(Study(problem, [], [], search))


def test_no_row_relabeled(small_problem):
    federation = fake_federation(old=[], new=[], client=[])
    assert relabeled_by(small_problem, federation) == [
        "Trained on all rows, the chosen federation relabeled no row."
    ]


def test_many_kinds_and_many_clients_are_summed_up(small_problem):
    problem = dataclasses.replace(small_problem, class_names={k: f"c{k}" for k in range(6)})
    federation = fake_federation(
        old=[0, 0, 0, 0, 5, 0] + [0] * 14, new=[1, 2, 3, 4, 4, 5] + [1] * 14, client=[0, *range(19)]
    )
    lines = relabeled_by(problem, federation)
    assert lines[0].endswith(": -> c1 15, -> c2 1, -> c3 1, -> c4 2, -> c5 1;")
    assert lines[2].startswith("at 19 of 30 clients with rows: 0 (2), 1 (1), ")
    assert lines[2].endswith(", 7 more.")
