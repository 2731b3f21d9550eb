"""The sceptic's suite: what is resumed, what is refused, what the figures mean; every competitor on tiny data."""

import json
import os

import numpy as np
import pytest
from sklearn.datasets import make_blobs
from sklearn.model_selection import StratifiedKFold

pytest.importorskip("imblearn")

from benchmarks.suites import sceptic
from benchmarks.suites.sceptic import _running, _settings
from benchmarks.suites.sceptic._choosing import best, check_folds, check_rows, merged
from benchmarks.suites.sceptic._competitors import COMPETITORS, REFERENCE
from benchmarks.suites.sceptic._curves import knob_table
from benchmarks.suites.sceptic._data import SETS, Job
from benchmarks.suites.sceptic._intervals import paired_interval
from benchmarks.suites.sceptic._metrics import measure
from benchmarks.suites.sceptic._outcome import Outcome, balanced, with_prior
from benchmarks.suites.sceptic._readers import merge_rare
from benchmarks.suites.sceptic._report import TITLES


def make_job(n_rows=(400, 100), seed=0, amount=True):
    """Overlapping blobs at four clients; the first class is the common one."""
    X, y = make_blobs([2 * n for n in n_rows], cluster_std=2.0, random_state=1)
    half = np.concatenate([np.flatnonzero(y == k)[:n] for k, n in enumerate(n_rows)])
    other = np.setdiff1d(np.arange(len(y)), half)
    inner = StratifiedKFold(3, shuffle=True, random_state=seed).split(X[half], y[half])
    money = {"amount": np.full(len(other), 10.0), "day": np.arange(len(other)) % 2} if amount else {}
    return Job(
        X=X[half].astype(np.float32),
        y=y[half],
        groups=np.arange(len(half)) % 4,
        X_test=X[other].astype(np.float32),
        y_test=y[other],
        groups_test=np.arange(len(other)) % 4,
        class_names=["common", "rare", "rarest"][: len(n_rows)],
        said="blobs",
        inner=list(inner),
        **money,
    )


@pytest.fixture
def short(monkeypatch):
    for name, value in (("ROUNDS", 4), ("EPOCHS", 1), ("PASSES", 2)):
        monkeypatch.setattr(_settings, name, value)
    for module in (sceptic._competitors.federated, sceptic._competitors.pooled):
        for name, value in (("TAUS", (0.0, 0.2)), ("RATIOS", (0.5,)), ("PASSES", 2)):
            if hasattr(module, name):
                monkeypatch.setattr(module, name, value)


@pytest.fixture
def blobs(monkeypatch, short):
    """The suite with two tiny sets."""
    sets = {"loans": lambda seed: make_job(seed=seed)}
    sets["fars"] = lambda seed: make_job((200, 80, 60), seed=seed, amount=False)
    for module in (sceptic, _running):
        monkeypatch.setattr(module, "SETS", sets)


@pytest.mark.parametrize("set_", ["loans", "fars"])
def test_every_competitor_has_its_figures(blobs, set_):
    lines = list(_running.run_cell(set_, 0, list(COMPETITORS)))
    json.dumps(lines)
    assert [line["competitor"] for line in lines] == list(COMPETITORS)
    for line in lines:
        if "not_applicable" in line:
            assert COMPETITORS[line["competitor"]].binary_only
            assert set_ == "fars"
            continue
        assert line["balanced_accuracy"] == pytest.approx(np.mean(line["recall"]))
        assert 0 <= line["brier"] <= 2
        assert ("cost" in line) == (set_ == "loans")


def test_a_second_run_does_only_what_is_missing(blobs, tmp_path, capsys):
    run = ["--results", str(tmp_path), "--only", "loans", "--seeds", "1"]
    sceptic.main([*run, "--competitor", "logistic"])
    assert "1/1 loans seed 0 logistic" in capsys.readouterr().out
    sceptic.main([*run, "--competitor", "logistic"])
    assert capsys.readouterr().out == ""
    head, done = _running.read(tmp_path / "sceptic.jsonl")
    assert "scikit-learn" in head
    assert list(done) == [("loans", "logistic", 0)]
    assert "logistic regression" in (tmp_path / "sceptic.md").read_text(encoding="utf-8")


def test_a_line_that_was_cut_off_is_run_again(tmp_path):
    path = tmp_path / "sceptic.jsonl"
    line = {"set": "loans", "competitor": "net", "seed": 0}
    _running.rewrite(path, {"torch": "2"}, {("loans", "net", 0): line})
    with path.open("a", encoding="utf-8") as file:
        file.write('{"set": "loans", "compe')
    head, done = _running.read(path)
    assert head == {"torch": "2"}
    assert done == {("loans", "net", 0): line}


def test_seeds_are_outermost():
    done = {("a", "x", 0): {}}
    assert _running.left(["a", "b"], ["x", "y"], 2, done) == {
        ("a", 0): ["y"],
        ("b", 0): ["x", "y"],
        ("a", 1): ["x", "y"],
        ("b", 1): ["x", "y"],
    }


def test_nothing_is_chosen_on_a_handful_of_rows():
    y = np.repeat([0, 1], [200, 29])
    with pytest.raises(ValueError, match="29 rows of class 'rare': at least 30 are needed"):
        check_rows(y, ["common", "rare"])
    with pytest.raises(ValueError, match="0 rows of class 'rarest'"):
        check_rows(y, ["common", "rare", "rarest"])
    check_rows(np.repeat([0, 1], [30, 30]), ["common", "rare"])


def test_folds_that_are_judged_one_by_one_need_the_rows_each():
    check_folds(make_job((400, 100)))  # 33 in each of three folds
    with pytest.raises(ValueError, match="at least 30 are needed"):
        check_folds(make_job((400, 80)))


def test_folds_are_merged_before_the_metric_is_taken():
    job = make_job((60, 40))

    class Model:
        relabeled_mask_ = np.array([True, False])

        def __init__(self, value):
            self.value = value

        def predict(self, X):
            return np.full(len(X), self.value)

    asked = []
    curve = merged((0, 1), job, lambda value, rows: asked.append(len(rows)) or Model(value))
    assert [point["recall"] for point in curve] == [[1.0, 0.0], [0.0, 1.0]]
    assert [point["alerts"] for point in curve] == [0, 100]
    assert curve[0]["rare_tested"] == 40
    assert curve[0]["rare"] == 80  # each row trains in two of three folds
    assert curve[0]["relabeled"] == 3
    assert sum(asked) == 2 * 200
    assert best(curve) == 0  # of equals the weakest


@pytest.mark.parametrize(
    ("n_min", "names", "said"),
    [(5, {"a", "b", "c"}, ""), (8, {"a", "other"}, "merged"), (20, {"a"}, "dropped")],
)
def test_rare_classes_are_merged_or_dropped(n_min, names, said):
    labels = np.repeat(["a", "b", "c"], [50, 6, 7])
    kept, merged_labels, told = merge_rare(labels, n_min)
    assert set(merged_labels) == names
    assert len(kept) == len(merged_labels)
    assert told.startswith(said)


def test_posteriors_of_balanced_training_are_put_right():
    # odds of 1 under equal classes are odds of 1 / 9 where one row in ten is rare
    assert with_prior(np.array([[0.5, 0.5]]), np.array([90, 10])) == pytest.approx(np.array([[0.9, 0.1]]))
    outcome = balanced(np.array([[0.4, 0.6]]), np.array([90, 10]))
    assert outcome.predicted.tolist() == [1]  # the correction moves probabilities, not the answer
    assert outcome.corrected.argmax(axis=1).tolist() == [0]


def test_cost_is_relative_to_no_alert_at_all():
    job = make_job((400, 100))
    silent = np.zeros_like(job.y_test)
    posteriors = np.column_stack([1 - silent, silent]).astype(float)
    assert measure(Outcome(posteriors, silent), job)["cost"] == 1.0
    # every fraud found, 5 for each alert, 10 for each missed fraud
    found = measure(Outcome(posteriors, job.y_test), job)
    assert found["cost"] == 0.5
    assert found["balanced_accuracy"] == 1.0
    assert found["alerts_a_day"] == 50


def test_paired_interval_by_hand():
    # differences 1, 2, 3: mean 2, s 1, t(0.975, 2) = 4.3027
    mean, half = paired_interval([2, 4, 6], [1, 2, 3], overlap=0.0)
    assert (mean, half) == (2.0, pytest.approx(4.3027 / np.sqrt(3), rel=1e-4))
    assert paired_interval([2, 4, 6], [1, 2, 3], overlap=1.0)[1] == pytest.approx(
        4.3027 * np.sqrt(4 / 3), rel=1e-4
    )
    assert np.isnan(paired_interval([2], [1], overlap=0.0)[1])


def test_the_reference_is_a_row():
    assert REFERENCE in COMPETITORS
    assert set(TITLES) == set(SETS)


@pytest.mark.skipif("FEDRELA_SK_DATA" not in os.environ, reason="FEDRELA_SK_DATA is not set")
def test_frauds_of_one_half_of_the_cards_train_and_of_the_other_test():
    job = SETS["fraud"](0)
    assert (job.y.sum(), job.y_test.sum()) == (301, 315)
    assert len(set(job.day.tolist())) == 7
    fewer = SETS["fraud_third"](0)
    assert (fewer.y.sum(), fewer.y_test.sum()) == (100, 105)
    assert (fewer.y == 0).sum() == (job.y == 0).sum()


def test_what_a_knob_did():
    # 40 rare rows, 30 found with 60 alerts: precision 1/2, F1 2 x 30 / 100
    point = {"value": 0.05, "balanced_accuracy": 0.8, "recall": [0.9, 0.75], "common": 0}
    point |= {"alerts": 60, "rare_tested": 40, "relabeled": 120, "rare": 80}
    done = {("loans", "fedrela-chosen", 0): {"tau": 0.05, "curve": [point]}}
    row = knob_table("loans", done).splitlines()[-1]
    cells = ["tau", "0.05", "1 of 1 seeds", "80.0", "75.0", "50.0", "60.0", "1.50", "1.50"]
    assert row == f"| {' | '.join(cells)} |"
    assert knob_table("fars", done) == ""
