"""`memory`: modules of the user's own count by their source, in this process and in others."""

import importlib
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.federation.cache.test_rounds import X, entries

SOURCE = """
import torch
from torch import nn

class Net(nn.Module):
    def __init__(self, scale=torch.ones(3)):
        super().__init__()
        self.last = nn.Linear(3, 3)
        self.register_buffer("scale", scale)

    def forward(self, x):
        return self.last(x * self.scale) * 1.5
"""
JOBS = """
import numpy as np
import torch
import own_net
from sklearn.model_selection import KFold
from fedrela_sk.federation.cache._fingerprint import fingerprint
from tests.federation.cache.test_rounds import fit
from tests.federation.helpers import make_net

def jobs(memory):
    torch.manual_seed(3)
    nets = [
        make_net(own_net.Net),
        make_net(own_net.Net()),
        make_net(own_net.Net, module__scale=torch.tensor([1.0, 2.0, 3.0])),
    ]
    return [fit(memory, net=net) for net in nets]

def keys():
    things = [{"b", "a", "c"}, np.random.RandomState(1), np.exp, {"a": {1, 2}}, KFold, own_net.Net, make_net]
    return fingerprint(things)
"""


@pytest.fixture
def own_net(tmp_path, monkeypatch):
    """Write a module file, and import it; called again, it is another edition of the same file."""
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write_and_import(source=SOURCE):
        for name, content in (("own_net", source), ("own_jobs", JOBS)):
            (tmp_path / f"{name}.py").write_text(content)
            monkeypatch.delitem(sys.modules, name, raising=False)
        importlib.invalidate_caches()
        return importlib.import_module("own_jobs")

    return write_and_import


def test_edited_source_misses(tmp_path, own_net):
    memory = tmp_path / "memory"
    first = own_net().jobs(memory)
    assert len(entries(memory)) == 3
    own_net().jobs(memory)
    assert len(entries(memory)) == 3
    second = own_net(SOURCE.replace("1.5", "2.5")).jobs(memory)
    assert len(entries(memory)) == 6
    for one, other in zip(first, second, strict=True):
        assert not np.array_equal(one.predict_proba(X), other.predict_proba(X))


def test_another_process_finds_the_same_entries(tmp_path, own_net):
    """With another seed of Python's hashes and other addresses; results are the same bits, too."""
    memory, jobs = tmp_path / "memory", own_net()
    code = (
        "import sys, json; sys.dont_write_bytecode = True\n"
        "import own_jobs\n"
        "jobs = own_jobs.jobs(sys.argv[1])\n"
        "print(json.dumps([own_jobs.keys(), [job.predict_proba([[1.0, 2.0, 3.0]]).tolist() for job in jobs]]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(memory)],
        env=os.environ | {"PYTHONHASHSEED": "7", "PYTHONPATH": os.pathsep.join([str(tmp_path), os.getcwd()])},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    key, answers = json.loads(done.stdout)
    assert key == jobs.keys()
    before = entries(memory)
    assert len(before) == 3
    for memory_here in (memory, None):
        found = jobs.jobs(memory_here)
        assert [job.predict_proba([[1.0, 2.0, 3.0]]).tolist() for job in found] == answers
    assert entries(memory) == before
