import io
import re

from joblib import Parallel, delayed
from rich.console import Console

from fedrela_sk import FederatedClassifier, FedReLaRelabeler
from fedrela_sk._main._progress import RoundDisplay


def display_on(text, terminal=False):
    return RoundDisplay(Console(file=text, force_terminal=terminal, width=120))


def fit(display, rows, n_rounds=4, **params):
    federation = FederatedClassifier(
        clients=2, relabeler=FedReLaRelabeler(0.25), n_rounds=n_rounds, random_state=0, **params
    )
    return federation.set_callbacks(display.reporter).fit(*rows)


def some_rows():
    X = [[k % 7, k % 3] for k in range(40)]
    return X, [int(row[0] > 4) for row in X]


def test_a_line_for_every_tenth_of_the_rounds():
    text = io.StringIO()
    with display_on(text) as display, display.stage("fits", 40):
        fit(display, some_rows(), n_rounds=40)
    lines = text.getvalue().splitlines()
    assert lines[0] == "fits: 40 rounds"
    assert len(lines) == 11
    assert re.fullmatch(r"  4 of 40 rounds, \d+ s \(tau 0.25: round 4 of 40\)", lines[1])
    assert re.fullmatch(r"  40 of 40 rounds, \d+ s \(tau 0.25: round 40 of 40\)", lines[10])


def test_a_bar_on_a_terminal():
    text = io.StringIO()
    with display_on(text, terminal=True) as display, display.stage("fits", 4):
        fit(display, some_rows())
    shown = re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text.getvalue())
    assert "fits" in shown
    assert "4/4 rounds  tau 0.25: round 4 of 4" in shown


def test_rounds_known_from_memory_keep_their_numbers(tmp_path):
    text = io.StringIO()
    with display_on(text) as display:
        fit(display, some_rows(), relabel_at=3, memory=tmp_path)
        with display.stage("fits", 1):
            fit(display, some_rows(), relabel_at=3, memory=tmp_path)
    assert re.search(r"1 of 1 rounds, \d+ s \(tau 0.25: round 4 of 4\)", text.getvalue())


def test_nothing_is_shown_between_stages():
    text = io.StringIO()
    with display_on(text) as display:
        fit(display, some_rows())
    assert text.getvalue() == ""


def test_rounds_arrive_from_other_processes():
    text = io.StringIO()
    with display_on(text) as display, display.stage("fits", 8):
        Parallel(n_jobs=2)(delayed(report_rounds)(display.reporter, 4) for _ in range(2))
    assert "  8 of 8 rounds" in text.getvalue()


def test_fitting_goes_on_where_nobody_listens():
    with display_on(io.StringIO()) as display:
        reporter = display.reporter
    report_rounds(reporter, 2)


class Task:
    task_name = "round"

    def __init__(self, task_id):
        self.task_id = task_id


def report_rounds(reporter, n_rounds):
    """What a federation does with a callback, without a federation."""
    federation = FederatedClassifier(relabeler=FedReLaRelabeler(0.1), n_rounds=n_rounds)
    reporter.setup(federation, None)
    for round in range(n_rounds):
        reporter.on_fit_task_begin(federation, Task(round))
        reporter.on_fit_task_end(federation, Task(round))
    reporter.teardown(federation, None)
