"""The stacked engine against the loop engine, its readable reference."""

import re
from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch
from skorch.callbacks import EpochScoring, GradientNormClipping
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from fedrela_sk import _tree
from fedrela_sk.algorithms import Algorithm, Broadcast, FedAvg
from fedrela_sk.exceptions import ClientError, NetError, NotFiniteError
from fedrela_sk.training import Instructions, NotStackable
from fedrela_sk.training.loop._engine import LoopEngine
from fedrela_sk.training.stacked import _chunk_run as _chunk_run
from fedrela_sk.training.stacked._chunk_run import ChunkRun
from fedrela_sk.training.stacked._engine import StackedEngine
from tests.training import nets

RAGGED = (1, 2, 33, 70, 400, 31, 32, 65, 5)


def both(module, sizes=RAGGED, *, weighted=False, dtype=torch.float64, chunk_size=256, algorithm=None,
         rounds=3, skip=(), **params):  # fmt: skip
    """(tensors, losses) after some rounds of the loop and of the stacked engine, and the latter's kind."""
    answers = []
    for make in (LoopEngine, lambda *args: StackedEngine(*args, chunk_size=chunk_size)):
        net = nets.make_net(module, dtype, **params)
        data, clients = nets.make_job(sizes, dtype, weighted)
        engine = make(net, data, algorithm or FedAvg(), nets.N_CLASSES, 0)
        answers.append(nets.run_rounds(engine, net, clients, rounds, algorithm, skip))
    return (*answers, engine.kind)


def assert_close(first, second, tolerance):
    (params, losses), (other, other_losses) = first, second
    assert params.keys() == other.keys()
    for name in params:
        assert params[name].dtype == other[name].dtype
        torch.testing.assert_close(other[name], params[name], rtol=0, atol=tolerance, msg=name)
    for one, two in zip(losses, other_losses, strict=True):
        np.testing.assert_allclose(two, one, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("module", "kind"),
    [
        (nets.Dense, "direct"),
        (nets.NoBias, "direct"),
        (nets.Normed, "direct"),
        (nets.CumulativeNorm, "direct"),
        (nets.UntrackedNorm, "direct"),
        (nets.Residual, "direct"),
        (nets.Attention, "vmap"),
        (nets.Convolution, "vmap"),
    ],
)
@pytest.mark.parametrize("weighted", [False, True])
def test_every_kind_of_module_agrees_with_the_loop(module, kind, weighted):
    sizes = RAGGED if module is not nets.UntrackedNorm else RAGGED[1:]
    loop, stacked, found = both(module, sizes, weighted=weighted, skip=(2, 4))
    assert found == kind
    assert_close(loop, stacked, 1e-10)


@pytest.mark.parametrize(
    "params",
    [
        {"optimizer__momentum": 0.9, "optimizer__weight_decay": 0.01},
        {"optimizer__momentum": 0.9, "optimizer__nesterov": True},
        {"optimizer": torch.optim.Adam, "lr": 0.01},
        {"optimizer": torch.optim.AdamW, "lr": 0.01, "optimizer__amsgrad": True},
        {"optimizer": torch.optim.NAdam, "lr": 0.01},
        {"optimizer": torch.optim.RAdam, "lr": 0.01},
        {"optimizer": torch.optim.Adagrad, "lr": 0.01},
        {"optimizer": torch.optim.RMSprop, "lr": 0.01, "optimizer__momentum": 0.5},
        {"optimizer": torch.optim.Adadelta},
        {"optimizer": torch.optim.Adamax, "lr": 0.01},
        {"optimizer": torch.optim.ASGD},
        {"optimizer": torch.optim.Rprop, "lr": 0.001},
        {"optimizer__param_groups": [("0.*", {"lr": 0.01})]},
        {"callbacks": [GradientNormClipping(0.05)]},
        {"callbacks": [GradientNormClipping(0.05, gradient_clip_norm_type=float("inf"))]},
        {"criterion__weight": torch.tensor([1.0, 5.0, 0.2])},
        {"criterion__label_smoothing": 0.1},
        {"criterion__reduction": "sum", "lr": 0.001},
        {"criterion__ignore_index": 1},
        {"batch_size": -1},
        {"batch_size": 1, "max_epochs": 1},
        {"iterator_train__shuffle": False},
    ],
    ids=lambda value: re.sub(" object at 0x.*?>", ">", str(value)),  # the same in every process
)
@pytest.mark.parametrize("weighted", [False, True])
def test_optimizers_and_settings_agree_with_the_loop(params, weighted):
    # torch's mean over a batch of ignored rows alone is NaN: no tiny clients there
    sizes = (45, 64, 70, 60) if "criterion__ignore_index" in params else (1, 2, 33, 70, 31)
    loop, stacked, _ = both(nets.Dense, sizes, weighted=weighted, rounds=2, **params)
    assert_close(loop, stacked, 1e-10)


def test_probabilities_under_nll_agree_with_the_loop():
    class Probabilities(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(nets.N_FEATURES, nets.N_CLASSES), nn.Softmax(dim=-1))

    for weighted in (False, True):
        loop, stacked, kind = both(Probabilities, weighted=weighted, criterion=nn.NLLLoss)
        assert kind == "vmap"
        assert_close(loop, stacked, 1e-10)


def test_very_ragged_clients_agree_with_the_loop():
    loop, stacked, _ = both(nets.Dense, (1, 4000, 3, 65), rounds=2, optimizer__momentum=0.9)
    assert_close(loop, stacked, 1e-10)


def test_float32_agrees_for_one_round():
    loop, stacked, _ = both(nets.Residual, dtype=torch.float32, rounds=1)
    assert_close(loop, stacked, 1e-5)
    assert stacked[0]["first.weight"].dtype == torch.float32


def test_chunk_sizes_agree_and_are_folded_in_the_plans_order():
    whole, cut = both(nets.Normed)[1], both(nets.Normed, chunk_size=2)[1]
    assert_close(whole, cut, 1e-10)
    net = nets.make_net(nets.Dense)
    data, clients = nets.make_job((10, 200, 40, 100))
    engine = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=2)
    updates = list(engine.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(0)))
    assert [[c.key for c in u.clients] for u in updates] == [[1, 3], [0, 2]]
    assert [u.steps.tolist() for u in updates] == [[14, 8], [2, 4]]
    assert [u.weights.tolist() for u in updates] == [[200.0, 100.0], [10.0, 40.0]]


def test_one_batched_product_a_layer_and_step():
    class Count(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.calls = Counter()

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls[func.name()] += 1
            return func(*args, **(kwargs or {}))

    net = nets.make_net(nets.Dense, max_epochs=1)
    data, clients = nets.make_job((64, 40, 96))
    engine = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
    with Count() as count:
        list(engine.train(tasks, Instructions(0)))
    n_layers, n_steps = 2, 3
    assert count.calls["aten::baddbmm"] == n_layers * n_steps
    # backwards: one product for each layer's weights, one for the activations between the two layers
    assert count.calls["aten::bmm"] == (n_layers + 1) * n_steps
    assert count.calls["aten::addmm"] == count.calls["aten::mm"] == 0


class Proximal(Algorithm):
    """FedProx: enough to see that `penalty` is used."""

    def client_penalty(self, params, local):
        return 0.5 * _tree.squared_distance(params, local.anchor)


class Drift(Algorithm):
    """Corrects gradients by a client's own state, keeps it, and sends something beside the model."""

    def client_init(self, params):
        return {"c": torch.zeros((), dtype=torch.float64)}

    def server_broadcast(self, server_state):
        return Broadcast(every_round=server_state)

    def server_init(self, params, job=None):
        return {"g": torch.tensor(0.25, dtype=torch.float64)}

    def client_correct(self, grads, params, local):
        return {n: g + local.state["c"] - local.server["g"] + 0.1 * (params[n] - local.anchor[n])
                for n, g in grads.items()}  # fmt: skip

    def client_finish(self, params, local, run):
        moved = sum((params[n] - local.anchor[n]).sum() for n in params) / (run.n_steps * run.lr)
        return params | {"moved": moved}, {"c": local.state["c"] + 0.01 * moved}

    def server_step(self, params, aggregated, server_state, facts):
        return {n: aggregated[n] for n in params}, {"g": server_state["g"] + 0.001 * aggregated["moved"]}


class KeepsHead(Algorithm):
    """The last layer stays at its client."""

    def shared(self, names):
        return tuple(name for name in names if not name.startswith("2"))

    def server_step(self, params, aggregated, server_state, facts):
        return params | aggregated, server_state


@pytest.mark.parametrize("algorithm", [Proximal(), Drift(), KeepsHead()], ids=lambda a: type(a).__name__)
def test_hooks_agree_with_the_loop(algorithm):
    loop, stacked, _ = both(nets.Dense, algorithm=algorithm, skip=(1, 3))
    plain = both(nets.Dense, skip=(1, 3))[0]
    assert_close(loop, stacked, 1e-10)
    assert any((loop[0][name] - plain[0][name]).abs().max() > 1e-6 for name in loop[0])


def test_what_stays_at_a_client_is_not_sent():
    net = nets.make_net(nets.Dense)
    data, clients = nets.make_job((10, 20))
    engine = StackedEngine(net, data, KeepsHead(), nets.N_CLASSES, 0, chunk_size=256)
    (update,) = engine.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(0))
    assert set(update.tensors) == {"0.weight", "0.bias"}
    assert set(update.kept) == {"2.weight", "2.bias"}
    assert [single.nbytes for single in update.singles()] == [(8 * 5 + 8) * 8 + 8] * 2


def test_one_row_client_trains_with_frozen_norm_and_says_so():
    net = nets.make_net(nets.Normed)
    data, clients = nets.make_job((1, 20))
    engine = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    (update,) = engine.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(0))
    assert update.notes == (("client 0 has one row: BatchNorm in evaluation mode",), ())
    assert update.tensors["1.num_batches_tracked"].tolist() == [0, 2]
    assert (update.tensors["1.running_mean"][0] == 0).all()


def test_padding_does_not_enter_batch_statistics():
    """5 real rows in a batch 32 wide, beside a client that fills it."""
    net = nets.make_net(nets.Normed, max_epochs=1, iterator_train__shuffle=False)
    data, clients = nets.make_job((5, 32))
    tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
    engine = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    run = ChunkRun(engine, tasks[::-1], Instructions(0))  # the full batch first
    assert run.plan.index.shape == (2, 32)
    assert run.plan.lengths.tolist() == [32, 5]
    run.all_steps()
    (loop, _) = LoopEngine(net, data, FedAvg(), nets.N_CLASSES, 0).train(tasks, Instructions(0))
    for name, tensor in loop.tensors.items():
        stack = (run.whole.params | run.whole.buffers)[name]
        torch.testing.assert_close(stack[1].detach(), tensor, rtol=0, atol=1e-12)
    # with the padding in, the statistics would be those of other rows altogether
    layer = net.module_[0]
    real, padded = layer(data.X[:5]), layer(data.X[[0, 1, 2, 3, 4] + [0] * 27])
    assert ((padded.var(0) - real.var(0)).abs() > 0.3 * real.var(0)).any()


def test_one_row_under_a_norm_without_running_statistics_fails_as_in_the_loop():
    net = nets.make_net(nets.UntrackedNorm)
    data, clients = nets.make_job((4, 1))
    tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
    for make in (LoopEngine, lambda *args: StackedEngine(*args, chunk_size=256)):
        with pytest.raises(ClientError, match="Expected more than 1 value per channel"):
            list(make(net, data, FedAvg(), nets.N_CLASSES, 0).train(tasks, Instructions(0)))


def test_batches_of_one_row_under_batch_norm_fail_as_in_the_loop():
    net = nets.make_net(nets.Normed, batch_size=1)
    data, clients = nets.make_job((4, 3))
    tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
    for make in (LoopEngine, lambda *args: StackedEngine(*args, chunk_size=256)):
        with pytest.raises(ClientError, match="Expected more than 1 value per channel"):
            list(make(net, data, FedAvg(), nets.N_CLASSES, 0).train(tasks, Instructions(0)))


def test_dropout_follows_the_same_law_and_its_stream():
    class Dropped(nn.Sequential):
        def __init__(self):
            super().__init__(nn.Linear(nets.N_FEATURES, 64), nn.Dropout(0.5), nn.Linear(64, nets.N_CLASSES))

    net = nets.make_net(Dropped, lr=1e-3, max_epochs=1)
    data, clients = nets.make_job([64] * 200)
    start = {name: tensor.clone() for name, tensor in nets.tensors_of(net.module_).items()}

    def move(make, round):
        updates = list(make.train(nets.make_tasks(clients, start), Instructions(round)))
        return torch.stack([s.tensors["2.weight"] - start["2.weight"] for u in updates for s in u.singles()])

    stacked = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    loop = LoopEngine(net, data, FedAvg(), nets.N_CLASSES, 0)
    first, again, other, reference = move(stacked, 0), move(stacked, 0), move(stacked, 1), move(loop, 0)
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    # same mean over 200 clients (within 5 standard errors of every entry) and same spread
    error = 5 * (reference.std(0) + first.std(0)) / 200**0.5
    assert ((first.mean(0) - reference.mean(0)).abs() < error).all()
    assert abs(first.std() / reference.std() - 1) < 0.1
    # clients do not share their masks: a hidden unit is dropped at some and kept at others
    assert (first.std(0) > 0).all()


def test_torchs_generator_is_left_alone():
    net = nets.make_net(nets.Dense)
    data, clients = nets.make_job((5, 6))
    engine = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    before = torch.get_rng_state()
    list(engine.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(0)))
    assert torch.equal(torch.get_rng_state(), before)


def test_received_tensors_are_not_written_to():
    net = nets.make_net(nets.Normed)
    data, clients = nets.make_job((50, 60))
    start = {name: tensor.clone() for name, tensor in nets.tensors_of(net.module_).items()}
    copy = {name: tensor.clone() for name, tensor in start.items()}
    engine = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    list(engine.train(nets.make_tasks(clients, start), Instructions(0)))
    assert all(torch.equal(start[name], copy[name]) for name in start)


def test_another_clients_rows_change_nothing():
    """Everything but one client's own rows may be NaN: its update is bit for bit the same."""
    net = nets.make_net(nets.Normed)
    data, clients = nets.make_job((50, 60, 7))
    tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
    engine = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    (update,) = engine.train(tasks, Instructions(0))
    data.X[:50] = np.nan
    data.X[110:] = np.nan
    others = [replace(task, y=(task.y + 1) % nets.N_CLASSES) for task in (tasks[0], tasks[2])]
    run = ChunkRun(engine, [tasks[1], *others], Instructions(0))
    run.all_steps()
    for name, stack in run.whole.params.items():
        assert torch.equal(stack[0].detach(), update.tensors[name][1]), name


def test_loss_and_update_that_are_not_finite_name_the_client():
    net = nets.make_net(nets.Dense, lr=1e200)
    data, clients = nets.make_job((50, 60))
    tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
    engine = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    with pytest.raises(NotFiniteError, match=r"client [01] in round 7 is (nan|inf).*Lower the learning rate"):
        list(engine.train(tasks, Instructions(7)))
    one_step = nets.make_net(nets.Dense, lr=1e308, batch_size=-1, max_epochs=1)
    data.X[:] *= 1e3
    engine = StackedEngine(one_step, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    with pytest.raises(NotFiniteError, match="update of client 0 in round 2 is not finite in"):
        list(engine.train(tasks, Instructions(2)))


def test_output_that_does_not_fit_the_classes_names_round_and_clients():
    net = nets.make_net(nets.Dense)
    data, clients = nets.make_job((5, 6))
    engine = StackedEngine(net, data, FedAvg(), 4, 0, chunk_size=256)
    with pytest.raises(
        NetError, match=r"Round 3, clients \[0, 1\]: The module must return one column per class"
    ):
        list(engine.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(3)))


def test_other_failures_name_round_and_clients():
    class Fails(FedAvg):
        def client_finish(self, *args):
            raise RuntimeError("no")

    net = nets.make_net(nets.Dense)
    data, clients = nets.make_job([5] * 7)
    engine = StackedEngine(net, data, Fails(), nets.N_CLASSES, 0, chunk_size=256)
    message = r"Clients \[0, 1, 2, 3, 4\] and 2 more failed in round 1: RuntimeError: no\. engine='loop'"
    with pytest.raises(ClientError, match=message):
        list(engine.train(nets.make_tasks(clients, nets.tensors_of(net.module_)), Instructions(1)))


def test_bfloat16_runs_and_stays_near():
    net = nets.make_net(nets.Dense, torch.float32)
    data, clients = nets.make_job((50, 60), torch.float32)
    tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
    full, half = (
        next(
            iter(
                StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256, precision=p).train(
                    tasks, Instructions(0)
                )
            )
        )
        for p in (None, "bf16")
    )
    for name, stack in full.tensors.items():
        assert half.tensors[name].dtype == torch.float32
        assert not torch.equal(half.tensors[name], stack)
        torch.testing.assert_close(half.tensors[name], stack, atol=0.02, rtol=0.05)


@pytest.mark.parametrize(
    ("module", "params", "reason"),
    [
        (nets.LooksAcross, {}, "depends on the other rows of the batch"),
        (
            nets.Dense,
            {"callbacks": [EpochScoring("accuracy", on_train=True)]},
            "callback EpochScoring runs in one client",
        ),
        (nets.Dense, {"optimizer": torch.optim.LBFGS}, "optimizer LBFGS is not elementwise"),
    ],
    ids=lambda value: re.sub(" object at 0x.*?>", ">", str(value)),  # the same in every process
)
def test_what_cannot_be_stacked_is_refused_with_the_reason(module, params, reason):
    net = nets.make_net(module, **params)
    data, _ = nets.make_job((5, 6))
    with pytest.raises(NotStackable, match=reason):
        StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)


def test_layouts_of_batches_are_kept_up_to_a_number(monkeypatch):
    monkeypatch.setattr(_chunk_run, "KEPT_PLANS", 2)
    net = nets.make_net(nets.Dense, iterator_train__shuffle=False)
    data, clients = nets.make_job((5, 6, 7))
    engine = StackedEngine(net, data, FedAvg(), nets.N_CLASSES, 0, chunk_size=256)
    tasks = nets.make_tasks(clients, nets.tensors_of(net.module_))
    for task in (*tasks, tasks[0]):
        list(engine.train([task], Instructions(0)))
        assert len(engine.plans) <= 2
    assert set(engine.plans) == {(7,), (5,)}


def test_parameters_without_a_gradient_and_momentum_agree_with_the_loop():
    class Spare(nn.Module):
        """Its second layer takes no part."""

        def __init__(self):
            super().__init__()
            self.last, self.spare = (nn.Linear(nets.N_FEATURES, nets.N_CLASSES) for _ in range(2))

        def forward(self, x):
            return self.last(x)

    for params in ({}, {"optimizer__momentum": 0.9}):
        loop, stacked, _ = both(Spare, (40, 33, 70), **params)
        assert_close(loop, stacked, 1e-10)
