"""Nothing leaves a client but its declared update: proof by poisoned neighbors and by bytes counted by hand."""

import gc
import weakref

import numpy as np
import pytest
import torch
from skorch.callbacks import Callback

from fedrela_sk import FedReLaRelabeler
from fedrela_sk.algorithms import FedAvg, LocalOnly
from fedrela_sk.federation._round import Round
from fedrela_sk.federation.clients._sampling import Cohort
from fedrela_sk.training import Instructions
from tests.federation.helpers import (
    Logits,
    WithBatchNorm,
    WithDropout,
    facts,
    make_conductor,
    make_fed,
    make_net,
    make_rows,
    make_spec,
)
from tests.training.nets import server_round

N_CLIENTS, ROUND = 4, 2
X, CODES = make_rows(160)
OWNER = np.random.default_rng(1).integers(0, N_CLIENTS, size=160)
SPECS = [make_spec(f"client {k}", np.flatnonzero(k == OWNER), k) for k in range(N_CLIENTS)]


def one_round(X, codes, chosen, **settings):
    """What the chosen clients send and what they relabel, in round 2 from given global weights."""
    relabeler = FedReLaRelabeler(0.4)
    simulation, state = make_conductor(X, codes, SPECS, relabeler=relabeler, first_relabel=ROUND, **settings)
    generator = torch.Generator().manual_seed(0)
    for tensor in state.server.params.values():
        if tensor.is_floating_point():
            noise = torch.rand(tensor.shape, generator=generator, dtype=torch.float64)
            tensor.add_(noise.to(tensor.dtype))
    Round(simulation, state, ROUND).relabel(Cohort([[spec] for spec in chosen]))
    tasks = simulation.tasks_of(state, chosen, ROUND)
    updates = list(simulation.engine.train(tasks, Instructions(ROUND, state.server.method)))
    return updates, state


@pytest.mark.parametrize(
    ("module", "settings"),
    [
        (Logits, {}),
        (Logits, {"weights": np.random.default_rng(0).gamma(2.0, size=160), "class_weight": "balanced"}),
        (Logits, {"algorithm": LocalOnly()}),
        (WithBatchNorm, {}),
        (
            WithBatchNorm,
            {"relabel_posteriors": {"passes": 2, "augment": True, "mode": "train", "late": "next"}},
        ),
        (WithDropout, {}),
    ],
    ids=["plain", "weights", "local_only", "batch-norm", "train-mode", "dropout"],
)
def test_an_update_does_not_see_other_clients(module, settings):
    net = make_net(module, batch_size=8, max_epochs=2, iterator_train__shuffle=True, lr=0.02)
    together, whole = one_round(X, CODES, SPECS, net=net, **settings)
    changed = 0
    for spec, expected in zip(SPECS, together, strict=True):
        others = spec.position != OWNER
        poisoned, permuted = X.copy(), CODES.copy()
        poisoned[others] = np.nan
        permuted[others] = np.random.default_rng(2).permutation(CODES[others])
        assert not np.array_equal(permuted, CODES)
        (update,), state = one_round(poisoned, permuted, [spec], net=net, **settings)
        for one, other in ((update.tensors, expected.tensors), (update.kept, expected.kept)):
            assert one.keys() == other.keys()
            assert all(torch.equal(one[name], other[name]) for name in one)
        assert (update.weight, update.loss) == (expected.weight, expected.loss)
        np.testing.assert_array_equal(state.clients.codes[spec.rows], whole.clients.codes[spec.rows])
        changed += np.count_nonzero(whole.clients.codes[spec.rows] != CODES[spec.rows])
    assert changed > 0


def test_the_server_runs_with_the_data_deleted():
    net = make_net(batch_size=8)
    updates, state = one_round(X, CODES, SPECS, net=net)
    simulation, complete = make_conductor(X, CODES, SPECS, net=net)
    data = weakref.ref(simulation.plan.data.X)
    updates = list(simulation.engine.train(simulation.tasks_of(complete, SPECS, 0), Instructions(0)))
    expected, _ = server_round(FedAvg(), updates, complete.server.params, {}, facts)
    params = complete.server.params
    del simulation, complete, state
    gc.collect()
    assert data() is None  # no update holds on to the rows
    after, _ = server_round(FedAvg(), updates, params, {}, facts)
    assert all(torch.equal(after[name], expected[name]) for name in expected)


def history_of_a_fit(net, **params):
    groups = np.arange(160) % 3
    fed = make_fed(net, clients=None, n_rounds=4, **params).fit(X, CODES % 2, groups=groups)
    return fed.history_


# Logits, 3 features and 2 classes: 6 + 2 numbers. WithBatchNorm, 4 units: 12 + 4, twice 4 parameters and
# twice 4 running statistics, 8 + 2; that is 42 numbers, and one counter of 8 bytes.
@pytest.mark.parametrize(
    ("module", "dtype", "down"),
    [
        (Logits, torch.float32, 32),
        (Logits, torch.float64, 64),
        (WithBatchNorm, torch.float32, 42 * 4 + 8),
        (WithBatchNorm, torch.float64, 42 * 8 + 8),
    ],
)
@pytest.mark.parametrize("relabeler", [None, FedReLaRelabeler(0.3)], ids=["plain", "relabeling"])
def test_the_ledger_by_hand(module, dtype, down, relabeler):
    net = make_net(module, module__dtype=dtype, module__n_classes=2)
    history = history_of_a_fit(net, relabeler=relabeler)
    up = down + 8  # the weight
    assert history.column("bytes_up").tolist() == [3 * up] * 4
    assert history.column("bytes_down").tolist() == [3 * down] * 4
    assert history.bytes_up == 12 * up
    assert history.bytes_down == 12 * down
    assert (history.column("n_relabeled").sum() > 0) == (relabeler is not None)


def test_those_who_are_absent_send_nothing():
    history = history_of_a_fit(make_net(module__n_classes=2), participation=0.6)
    assert history.column("bytes_up").tolist() == [2 * 72] * 4
    assert history.column("bytes_down").tolist() == [2 * 64] * 4


def test_local_only_sends_nothing_at_all():
    history = history_of_a_fit(
        make_net(module__n_classes=2), algorithm="local_only", relabeler=FedReLaRelabeler(0.3)
    )
    assert history.bytes_up == history.bytes_down == 0


def test_nothing_of_the_last_client_stays_in_the_net():
    net = make_net(optimizer=torch.optim.Adam, lr=0.1, callbacks=[Callback()])
    fed = make_fed(net, lr_schedule=0.5).fit(X, CODES)
    assert not fed.net_.history
    assert not fed.net_.optimizer_.state
    assert fed.net_.optimizer_.param_groups[0]["lr"] == 0.1
    assert all(parameter.grad is None for parameter in fed.net_.module_.parameters())
    assert not fed.net_.module_.training
