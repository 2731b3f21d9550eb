"""Every place that the documentation opens to users, with and without `memory`, cold and warm: the same bits."""

import subprocess
import sys
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn

import tests.federation.extensions as own
from fedrela_sk import DirichletSplit
from fedrela_sk.exceptions import MemoryWarning
from tests.federation.cache.test_rounds import X, Y, assert_same, entries, make
from tests.federation.helpers import make_net

BATCHES = {"batch_size": 10, "iterator_train__shuffle": True}


def net(**changes):
    return make_net(**(BATCHES | changes))


# what is set, by what docs/adding.md, docs/losses.md, docs/algorithms.md and the docstrings call it
POINTS = {
    "algorithm": {"algorithm": own.Clipped(0.05)},
    "algorithm with state, reports and draws": {"algorithm": own.Momentum(), "participation": 0.7},
    "algorithm, stacked": {"algorithm": own.Clipped(0.05), "engine": "stacked"},
    "loss": {"net": net(criterion=own.Loss)},
    "loss, stacked": {"net": net(criterion=own.Loss), "engine": "stacked"},
    "participation": {"participation": own.EveryOther()},
    "local_data that resamples": {"local_data": own.Doubles()},
    "local_data that mixes": {"local_data": own.HalfMixup()},
    "splitter": {"clients": own.Thirds()},
    "lr_schedule, a function": {"lr_schedule": own.halved},
    "lr_schedule, an object": {"lr_schedule": own.Warmup()},
    "client_weight": {"client_weight": own.root_of},
    "relabeler": {"relabeler": own.FlipsTenth()},
    "module": {"net": net(module=own.Net)},
    "module, an instance": {"net": net(module=own.Net(1.5))},
    "optimizer": {"net": net(optimizer=own.SignDescent)},
    "net": {"net": own.Shouts(own.Net, criterion=nn.CrossEntropyLoss, lr=0.1, **BATCHES)},
    "callback of skorch": {"net": net(callbacks=[own.HalvesGradients()])},
    "engine": {"engine": own.Reversed()},
    "validation": {"validation": 0.3, "select": "best_validation", "algorithm": own.Clipped(0.05)},
    "recorded posteriors": {"relabel_posteriors": {"passes": "training"}, "net": net(module=own.Net)},
}
WATCHED = {"callback of scikit-learn": own.Watches}


def fit(memory, params, callback=None):
    torch.manual_seed(0)
    fed = make(memory, **params)
    return (fed if callback is None else fed.set_callbacks(callback)).fit(X, Y)


@pytest.mark.parametrize("name", POINTS)
def test_cold_and_warm_are_what_no_memory_gives(tmp_path, name):
    make(tmp_path).fit(X, Y)  # an entry of another fit
    plain, cold, warm = (fit(memory, POINTS[name]) for memory in (None, tmp_path, tmp_path))
    assert_same(plain, cold)
    assert_same(plain, warm)
    assert plain.relabeled_mask_.any()
    assert len(entries(tmp_path)) == (1 if name == "relabeler" else 2)  # it acts after what is stored


@pytest.mark.parametrize("name", POINTS)
def test_a_longer_job_is_what_no_memory_gives(tmp_path, name):
    """A grid over the number of rounds, with the same relabel round, after a shorter one was stored."""
    fit(tmp_path, POINTS[name])
    plain, warm = (fit(memory, POINTS[name] | {"n_rounds": 7}) for memory in (None, tmp_path))
    assert_same(plain, warm)


@pytest.mark.parametrize("name", WATCHED)
def test_a_callback_sees_the_same(tmp_path, name):
    fits, seen = [], []
    for memory in (None, tmp_path, tmp_path):
        callback = WATCHED[name]()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", MemoryWarning)
            fits.append(fit(memory, {}, callback))
        seen.append(callback.n_rounds)
    assert seen == [4, 4, 4]
    assert_same(fits[0], fits[1])
    assert_same(fits[0], fits[2])


def test_ours_beside_them(tmp_path):
    params = {"clients": DirichletSplit(4, alpha=0.5, random_state=0), "algorithm": own.Momentum()}
    plain, cold, warm = (fit(memory, params) for memory in (None, tmp_path, tmp_path))
    assert_same(plain, cold)
    assert_same(plain, warm)


# --- without source text: notebook cells, __main__, exec ---------------------------------------------------

SOURCE = Path(own.__file__).read_text(encoding="utf-8")
EDITS = {
    "algorithm": ("self.max_norm / norm", "self.max_norm / (2 * norm)"),
    "loss": ("own * (1 + progress)", "own * (2 + progress)"),
    "participation": ("stream.uniform(0.5, 1)", "stream.uniform(0.2, 1)"),
    "lr_schedule, a function": ("0.5**t", "0.25**t"),
    "lr_schedule, an object": ("(t + 1) / self.rounds", "(t + 2) / (2 * self.rounds)"),
    "module": ("self.last(x) * self.scale", "self.last(x) * self.scale + x"),
    "module, an instance": ("self.last(x) * self.scale", "self.last(x) * self.scale + x"),
}


def typed_in(source):
    """The same classes, as a notebook or an interactive session has them: without a file."""
    namespace = {"__name__": "__main__"}
    exec(compile(source, "<cell 1>", "exec"), namespace)
    return {
        "algorithm": {"algorithm": namespace["Clipped"](0.05)},
        "loss": {"net": net(criterion=namespace["Loss"])},
        "participation": {"participation": namespace["EveryOther"]()},
        "lr_schedule, a function": {"lr_schedule": namespace["halved"]},
        "lr_schedule, an object": {"lr_schedule": namespace["Warmup"]()},
        "module": {"net": net(module=namespace["Net"])},
        "module, an instance": {"net": net(module=namespace["Net"](1.5))},
    }


@pytest.mark.parametrize("name", EDITS)
def test_what_was_typed_in_is_cached_and_its_edits_are_seen(tmp_path, name):
    plain, cold, warm = (fit(memory, typed_in(SOURCE)[name]) for memory in (None, tmp_path, tmp_path))
    assert_same(plain, cold)
    assert_same(plain, warm)
    assert len(entries(tmp_path)) == 1
    old, new = EDITS[name]
    assert SOURCE.count(old) == 1
    plain, cold = (fit(memory, typed_in(SOURCE.replace(old, new))[name]) for memory in (None, tmp_path))
    assert_same(plain, cold)
    assert len(entries(tmp_path)) == 2


SCRIPT = """
import sys, numpy as np, torch
from torch import nn
from tests.federation.helpers import make_net
from tests.federation.cache.test_rounds import X, entries, fit

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.last = nn.Linear(3, 3, dtype=torch.float64)
    def forward(self, x):
        return self.last(x) * 1.5

if __name__ == "__main__":
    fit(sys.argv[1], net=make_net(Net))
    print(entries(sys.argv[1]))
"""


@pytest.mark.parametrize("how", ["a file", "standard input"])
def test_a_net_of_main_is_found_by_the_next_process(tmp_path, how):
    (tmp_path / "script.py").write_text(SCRIPT)
    command, text = ([str(tmp_path / "script.py")], None) if how == "a file" else (["-"], SCRIPT)
    found = []
    for seed in ("1", "2"):
        done = subprocess.run(
            [sys.executable, *command, str(tmp_path / "memory")],
            input=text,
            env={"PYTHONPATH": str(Path.cwd()), "PYTHONHASHSEED": seed, "OMP_NUM_THREADS": "1"},
            capture_output=True,
            text=True,
            check=True,
        )
        assert not done.stderr
        found.append(done.stdout)
    assert found[0] == found[1]
    assert found[0].count(",") == 0
