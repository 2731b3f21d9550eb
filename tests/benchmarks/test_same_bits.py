"""The comparison with another commit: it finds what differs, and only that."""

import shutil
import subprocess
from pathlib import Path

import pytest

from benchmarks import same_bits

ROOT = Path(same_bits.__file__).parents[1]


def test_equal_trees(capsys):
    """A clone of this very commit: its fits are those of the working tree unless that changed."""
    in_checkout = shutil.which("git") and subprocess.run(
        ["git", "rev-parse", "HEAD"], cwd=ROOT, capture_output=True, check=False
    )
    if not in_checkout or in_checkout.returncode:
        with pytest.raises((OSError, subprocess.CalledProcessError)):
            same_bits.main(["HEAD", "--only", "sampler"])
        return
    assert same_bits.main(["HEAD", "--only", "sampler"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith("same_bits: 1 of 1 fits equal to ")


def test_what_differs_is_named(capsys):
    theirs = {"a": {"labels": "1", "weights": "2"}, "b": {"labels": "1"}, "c": {"labels": "1"}, "old": {}}
    ours = {
        "a": {"labels": "1", "weights": "3"},
        "b": {"labels": "1"},
        "c": {"error": "ValueError"},
        "new": {},
    }
    assert same_bits._compare(theirs, ours, "abc") == 2
    assert capsys.readouterr().out.splitlines() == [
        "a: weights differ",
        "c: labels differ ValueError",
        "new: in this tree only",
        "old: in abc only",
        "same_bits: 1 of 3 fits equal to abc, bit for bit",
    ]


def test_hashes_see_a_bit():
    import numpy as np
    import torch

    parts = [{"a": np.zeros(2)}, {"a": np.array([0.0, 5e-324])}, {"a": np.zeros(2, dtype=np.float32)}]
    hashes = [
        same_bits._hashes(lambda part=part: part)["a"] for part in [*parts, {"a": torch.zeros(2).double()}]
    ]
    assert len(set(hashes)) == 3
    assert hashes[0] == hashes[3]


def test_every_case_has_a_name_of_its_own():
    names = [name for name, _ in same_bits.cases()]
    assert len(names) == len(set(names)) > 100
