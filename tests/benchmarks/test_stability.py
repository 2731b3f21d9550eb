"""Suites refuse rows that a start moved by a millionth moves by ten points."""

import copy
import pickle

import numpy as np
import pytest
import torch

from benchmarks.suites import _algorithms_report, algorithms
from benchmarks.suites._stability import moved, refused
from benchmarks.suites.algorithms import Job, Row, points_apart
from benchmarks.suites.sceptic._settings import make_net, moved_start
from fedrela_sk.nets import MLP


def test_a_moved_start_lies_a_millionth_beside():
    torch.manual_seed(0)
    there = MLP(4, 3)
    torch.manual_seed(0)
    beside = moved(MLP)(4, 3)
    gaps = torch.cat(
        [(a - b).flatten() for a, b in zip(there.parameters(), beside.parameters(), strict=True)]
    )
    assert 5e-7 < gaps.std() < 2e-6
    assert type(copy.deepcopy(beside)) is type(pickle.loads(pickle.dumps(beside))) is moved(MLP)


@pytest.mark.parametrize(
    ("points", "said"), [(None, None), (0.0, None), (0.1, None), (0.46, "46 points apart")]
)
def test_ten_points_are_the_limit(points, said):
    assert refused(points) is None if said is None else said in refused(points)


@pytest.fixture
def job():
    rng = np.random.default_rng(0)
    y = np.arange(120) % 3
    X = rng.normal(size=(120, 4)).astype(np.float32)
    X[:, 0] += y
    return Job(X, y, None, X, y, None, 3, rounds=4, epochs=1, batch_size=16, lr=0.1)


def test_what_a_suite_finds(job, monkeypatch):
    row = Row("algorithm", "one", {"algorithm": "fedavg"})
    plain = algorithms.run(row, job, 0)[0]
    assert points_apart(row, job, 0, plain) < 0.1

    def chaotic(classifier, job):
        started_beside = classifier.estimator.module is moved(MLP)
        return {
            "accuracy": plain["accuracy"],
            "balanced_accuracy": plain["balanced_accuracy"] - 0.4 * started_beside,
        }

    monkeypatch.setattr(algorithms, "measure", chaotic)
    assert points_apart(row, job, 0, plain) == pytest.approx(0.4)


@pytest.mark.parametrize("points", [0.02, 0.3])
def test_a_page_shows_no_figures_of_a_refused_row(job, points, tmp_path):
    row = Row("algorithm", "one", {"algorithm": "fedavg"})
    line = {"runs": algorithms.run(row, job, 0), "processor": "a", "commit": "abc It is so", "moved": points}
    path = tmp_path / "page.md"
    _algorithms_report.write_report(path, [row], {("digits", "one", 0): line}, {})
    (shown,) = [text for text in path.read_text().splitlines() if text.startswith("| algorithm | `one`")]
    accuracy = f"{100 * line['runs'][0]['accuracy']:.1f}"
    assert (accuracy in shown) == (points < 0.1)
    assert ("refused: 30 points apart" in shown) == (points > 0.1)
    assert "Made by the code of commit abc It is so." in path.read_text()


def test_nets_of_the_sceptic_start_beside_in_a_block_alone(job):
    job = type("Job", (), {"X": job.X, "class_names": ["a", "b", "c"]})
    with moved_start():
        assert make_net(job, 1).module is moved(MLP)
    assert make_net(job, 1).module is MLP
