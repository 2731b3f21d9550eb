"""What the main job says: the table, and what it means."""

import numpy as np
from rich.table import Table, box

from fedrela_sk._main._models import YARDSTICK, metric_names
from fedrela_sk._main._study import MAIN_METRIC

_MOST_NAMES = 12
_MOST_KINDS = 4
_NEAR = 0.015  # of average precision


def describe_problem(problem, n_rounds):
    """Lines about rows, classes, clients and folds."""
    counts = np.bincount(problem.y)
    classes = ", ".join(f"{counts[code]:,} {name}" for code, name in problem.class_names.items())
    n_clients = len(np.unique(problem.groups)) if problem.groups is not None else _n_clients(problem)
    training = problem.training
    return [
        f"{problem.title}: {len(problem.y):,} rows ({classes}).",
        f"Clients: {n_clients} {problem.who}. Net: MLP 64-32, {n_rounds} rounds of {training.epochs} local epochs, "
        f"rate {training.lr:g}, batches of {training.batch_size}; scores on {problem.cut}.",
    ]


def _n_clients(problem):
    return problem.clients if isinstance(problem.clients, int) else problem.clients.get_n_splits()


def make_table(study):
    """`rich.table.Table`: one line per model, mean and standard deviation over folds."""
    names = metric_names(study.problem)
    table = Table(box=box.SIMPLE_HEAD, title="mean ± standard deviation over folds", title_justify="left")
    table.add_column("model", no_wrap=True)
    for name in names.values():
        table.add_column(name, justify="right", no_wrap=True)
    for rows in (study.over_tau, study.others):
        for row in rows:
            mark = " *" if row is study.best else ""
            cells = [f"{row.mean(metric):.3f} ± {row.std(metric):.3f}" for metric in names]
            table.add_row(row.model + mark, *cells)
        table.add_section()
    return table


def explain_choice(study):
    """Lines about the chosen tau: how much it gains, and whether that is more than chance."""
    best, plain, name = study.best, study.over_tau[0], metric_names(study.problem)[MAIN_METRIC]
    if best is plain:
        return [f"* Chosen: tau 0. Re-labeling does not raise {name} on these folds."]
    gain = best.mean(MAIN_METRIC) - plain.mean(MAIN_METRIC)
    error = max(best.standard_error(MAIN_METRIC), plain.standard_error(MAIN_METRIC))
    lines = [
        f"* Chosen: tau {best.tau:g}. It raises {name} by {gain:.3f} over tau 0 "
        f"(standard error over folds {error:.3f})."
    ]
    if gain <= error:
        lines.append(
            "  That is within one standard error: on these folds re-labeling is not shown to be better than tau 0."
        )
    if best is study.over_tau[-1]:
        lines.append("  It is the largest tau of the grid; a larger one may do better (--tau).")
    return lines


def compare_with_others(study):
    """Lines about simpler models that do as well or better, in the main metric."""
    best, name = study.best, metric_names(study.problem)[MAIN_METRIC]
    better = [row for row in study.others if row.mean(MAIN_METRIC) >= best.mean(MAIN_METRIC)]
    if not better:
        return [f"None of the other models reaches its {name}, {best.mean(MAIN_METRIC):.3f}."]
    listed = ", ".join(f"{row.model} ({row.mean(MAIN_METRIC):.3f})" for row in better)
    return [f"As good or better in {name} than tau {best.tau:g} ({best.mean(MAIN_METRIC):.3f}): {listed}."]


def check_training(study):
    """A line about whether the net is trained at all: pooled logistic regression is the yardstick."""
    metric, plain = "average_precision", study.over_tau[0]
    yardstick = next(row for row in study.others if row.model == YARDSTICK)
    line = f"Average precision at tau 0: {plain.mean(metric):.3f}; {YARDSTICK}: {yardstick.mean(metric):.3f}."
    if plain.mean(metric) < yardstick.mean(metric) - _NEAR:
        line += f" More than {_NEAR} below it: the net is not trained far enough to judge tau (--rounds)."
    return [line]


def describe_relabeling(study):
    """Lines about what the chosen federation, trained on all rows, relabeled and where."""
    federation = study.federation
    report = federation.relabel_report()
    if not len(report):
        return ["Trained on all rows, the chosen federation relabeled no row."]
    low, median, high = np.quantile(report.posterior, [0, 0.5, 1])
    above = report.z - report.threshold
    return [
        f"Trained on all rows, {len(report):,} of {len(federation.y_relabeled_):,} labels changed before round "
        f"{federation.relabel_round_ + 1} of {len(federation.history_)}: "
        f"{_changes(report, study.problem.class_names)};",
        f"where the posterior of the new class was {low:.3f} to {high:.3f} (median {median:.3f}), "
        f"{above.min():.2f} to {above.max():.2f} standard deviations above the client's threshold;",
        _clients_of(report, federation),
    ]


def _changes(report, names):
    """Every kind of change with its count or, where there are many, every new class with its."""
    pairs, counts = np.unique(np.column_stack([report.old, report.new]), axis=0, return_counts=True)
    if len(pairs) <= _MOST_KINDS:
        kinds = [
            f"{names[old]} -> {names[new]} {n}" for (old, new), n in zip(pairs.tolist(), counts, strict=True)
        ]
    else:
        new, counts = np.unique(report.new, return_counts=True)
        kinds = [f"-> {names[label]} {n}" for label, n in zip(new.tolist(), counts, strict=True)]
    return ", ".join(kinds)


def _clients_of(report, federation):
    clients, counts = np.unique(report.client, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    listed = ", ".join(f"{clients[i]} ({counts[i]})" for i in order[:_MOST_NAMES])
    more = f", {len(clients) - _MOST_NAMES} more" if len(clients) > _MOST_NAMES else ""
    return f"at {len(clients)} of {len(federation.client_names_)} clients with rows: {listed}{more}."
