"""Figures for the paper's statements, from made-up runs."""

import json

import numpy as np
import pytest

from benchmarks.suites import claims, paper
from benchmarks.suites.paper._settings import cells
from fedrela_sk import DirichletSplit


def made_up(name, recall, n_bytes=100, relabeled=0):
    return {
        "arm": name,
        "recall": recall,
        "recall_adjusted": recall,
        "accuracy": [0.5] * 12,
        "counts": [100, 80, 60, 40, 30, 20, 10, 5, 3, 2],
        "relabeled": relabeled,
        "relabeled_by_client": [relabeled, 0],
        "client_sizes": [100, 250],
        "flows": [],
        "dropped": 0,
        "bytes": n_bytes,
    }


@pytest.fixture
def finished(tmp_path, monkeypatch):
    """Two seeds of the FedAvg cell of the ablations."""
    monkeypatch.setattr(paper, "RESULTS", tmp_path)
    key = cells("ablations", "cpu")[0].key
    before, after = [0.9] * 5 + [0.5] * 5, [0.8] * 5 + [0.6] * 5
    arms = [
        made_up("baseline", before),
        made_up("tau 1 %", before, 100, 7),
        made_up("tau 5 %", after, 108, 35),
        made_up("one that relabels nothing", before, 108),
    ]
    lines = [json.dumps({"cell": key, "seed": seed, "arms": arms}) for seed in (0, 1)]
    (tmp_path / "ablations.cpu.jsonl").write_text("\n".join(lines), encoding="utf-8")


def test_traffic_is_compared_run_by_run(finished):
    assert claims.traffic() == (
        "Runs with relabelling whose traffic is their baseline's to the byte: 2; others: 2.\n"
    )


def test_shares_of_all_rows_and_of_single_clients(finished):
    row = next(line for line in claims.shares_relabelled().splitlines() if "tau 1 %" in line)
    assert row.split(" | ")[2:] == ["2.00 %", "7.0 %", "50% of the clients |"]


def test_gains_and_the_gap_between_groups(finished):
    row = claims.recommended().splitlines()[-1]
    assert "ablations | fedavg, alpha 0.3 | +0.0 (+0.0, +0.0) |  | +10.0 (+10.0, +10.0) |  |" in row
    assert row.endswith("| 40.0 → 20.0 | +50 % |")


def test_a_gap_that_turns_round_counts_by_its_size():
    assert claims._fall(0.4, -0.1) == "+75 %"
    assert claims._fall(-0.2, 0.3) == "-50 %"


def test_empty_pairs_of_client_and_tail_class():
    """One client holds all: half of the pairs of two clients are empty."""
    y, tail = np.array([0] * 10 + [1]), np.array([False, True])
    assert claims._empty_share(y, tail, DirichletSplit(2, alpha=1e-6, random_state=0)) == 0.5
    assert claims._empty_share(y, tail, DirichletSplit(1, random_state=0)) == 0.0
