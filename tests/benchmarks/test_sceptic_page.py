"""The figures at the top of ``docs/sceptic.md`` are those of the committed runs."""

import re
from pathlib import Path

import numpy as np
import pytest

from benchmarks.suites._jsonl import read_lines

ROOT = Path(__file__).parents[2]
PAGE = " ".join((ROOT / "docs" / "sceptic.md").read_text(encoding="utf-8").split())
LINES = read_lines(ROOT / "benchmarks" / "results" / "sceptic.jsonl")
SETS = {
    "loans": "loans",
    "simulated payments": "payments",
    "card fraud": "fraud",
    "card fraud, a third": "fraud_third",
    "page blocks (4 classes)": "page_blocks",
    "shuttle (5 classes)": "shuttle",
    "KDD Cup (12 classes)": "kddcup",
    "road crashes (5 classes)": "fars",
}


def scores(set_, competitor):
    """Balanced accuracy of every seed, per cent."""
    found = {
        line["seed"]: 100 * line["balanced_accuracy"]
        for line in LINES
        if (line.get("set"), line.get("competitor")) == (set_, competitor)
    }
    assert sorted(found) == list(range(5))
    return np.array([found[seed] for seed in range(5)])


@pytest.mark.parametrize("title", SETS)
def test_the_screen_shows_what_was_run(title):
    row = re.search(rf"\| {re.escape(title)} \| [^|]+ \|([^|]+)\|([^|]+)\|([^|]+)\|([^|]+)\|([^|]+)\|", PAGE)
    plain, ours, difference, softmax, other = (cell.strip() for cell in row.groups())
    set_ = SETS[title]
    last = "adjusted-after" if "classes" in title else "threshold"
    names = ("federated", "fedrela-chosen", "balanced-softmax", last)
    assert [plain, ours, softmax, other] == [f"{scores(set_, name).mean():.1f}" for name in names]
    gained = (scores(set_, "fedrela-chosen") - scores(set_, "federated")).mean()
    assert difference.split(" ")[0] == f"{gained:+.1f}"


def test_on_how_many_sets_the_balanced_softmax_is_ahead():
    wins = {
        set_: int((scores(set_, "balanced-softmax") > scores(set_, "fedrela-chosen")).sum())
        for set_ in SETS.values()
    }
    ahead = [
        set_
        for set_ in wins
        if scores(set_, "balanced-softmax").mean() > scores(set_, "fedrela-chosen").mean()
    ]
    assert len(ahead) == 6
    assert "is ahead of FedReLa in balanced accuracy on six of the eight sets" in PAGE
    assert {set_ for set_ in ahead if wins[set_] == 5} == {"shuttle", "kddcup"}
    assert {set_ for set_ in ahead if wins[set_] == 4} == {"loans", "fraud", "fars"}
    assert (wins["payments"], wins["page_blocks"], wins["fraud_third"]) == (3, 2, 0)


@pytest.mark.parametrize("set_", ["loans", "payments", "fraud", "fraud_third", "page_blocks"])
def test_dropped_rows_do_worse_with_every_seed(set_):
    dropped, ours = scores(set_, "dropped-chosen"), scores(set_, "fedrela-chosen")
    assert (dropped < ours).all()
    shown = rf"\({dropped.mean():.1f} against {ours.mean():.1f}, by {(ours - dropped).mean():.1f} ±"
    assert re.search(shown, PAGE)
