"""What the loop engine gives to an algorithm's hooks, and takes from them; models as in `test_loop`."""

import copy

import pytest
import torch
from torch import nn

from fedrela_sk._update import WEIGHT_NBYTES
from fedrela_sk.algorithms import Broadcast, FedAvg, LocalOnly
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.training import Instructions
from fedrela_sk.training._net import tensors_of
from tests.training.helpers import OneWeight, Prox, TwoWeights, make_loop, make_task, train, train_one


class Scaffold(Algorithm):
    """SCAFFOLD's shape: corrected gradients, a control variate at each client and at the server."""

    def server_broadcast(self, server_state):
        return Broadcast(every_round=server_state)

    def server_init(self, params, job=None):
        return {name: torch.zeros_like(tensor) for name, tensor in params.items()}

    client_init = server_init

    def client_correct(self, grads, params, local):
        return {name: grad - local.state[name] + local.server[name] for name, grad in grads.items()}

    def client_finish(self, params, local, run):
        new = {
            name: local.state[name] - local.server[name] + (local.anchor[name] - p) / (run.n_steps * run.lr)
            for name, p in params.items()
        }
        changes = {f"change/{name}": new[name] - local.state[name] for name in new}
        return params | changes, new


class KeepsV(Algorithm):
    """One tensor stays at its client."""

    def shared(self, names):
        return tuple(name for name in names if name != "v")


def test_the_penalty_pulls_towards_the_anchor_and_is_not_reported():
    # step 1: gradient 1, w = 1/2; step 2: 1/2 + mu (1/2 - 1) = 0 for mu = 1
    update = train_one(make_loop([1.0], Prox(1.0), max_epochs=2), [0], [0])
    assert update.tensors["w"].item() == 0.5
    assert update.loss == (1 / 2 + 1 / 8) / 2
    # mu = 1/2: gradient 1/4, w = 3/8
    assert train_one(make_loop([1.0], Prox(0.5), max_epochs=2), [0], [0]).tensors["w"].item() == 0.375


def test_the_penalty_counts_in_every_batch_whatever_its_weight():
    # batches of one row; the second has weight 0, so its step follows the penalty alone: w = 1/2 + 1/4
    loop = make_loop([1.0, 1.0], Prox(1.0), batch_size=1, weights=[1.0, 0.0])
    assert train_one(loop, [0, 1], [0, 0]).tensors["w"].item() == 0.75


def test_gradients_are_corrected_and_client_state_is_passed_in_and_out():
    loop = make_loop([1.0], Scaffold(), max_epochs=2)
    server = {"w": torch.tensor([0.25], dtype=torch.float64)}
    # c_i = 0, c = 1/4. gradients 5/4, 5/8: w = 3/8, 1/16; c_i = -1/4 + (15/16) / (2 x 1/2)
    first = train_one(loop, [0], [0], server_state=server)
    assert first.tensors["w"].item() == 1 / 16
    assert first.state["w"].item() == 11 / 16
    assert first.tensors["change/w"].item() == 11 / 16
    assert first.nbytes == 2 * 8 + WEIGHT_NBYTES
    # rate 1/4, c_i = 11/16: gradients 9/16, 55/64 x 1/2 + ... by the same two lines
    params = {"w": torch.ones(1, dtype=torch.float64)}
    second = train_one(loop, [0], [0], 1, server, 0.5, params=params, state=first.state)
    w = 1 - (1 - 11 / 16 + 1 / 4) / 4
    w -= (w - 11 / 16 + 1 / 4) / 4
    assert second.tensors["w"].item() == pytest.approx(w, abs=1e-15)
    assert second.state["w"].item() == pytest.approx(11 / 16 - 1 / 4 + (1 - w) / (2 * 1 / 4), abs=1e-15)
    # a client without state starts anew, whoever was trained in between
    third = train_one(loop, [0], [0], 2, server, params=params)
    assert third.state["w"].item() == 11 / 16


def test_client_state_is_made_only_where_there_is_none():
    class Once(Algorithm):
        def client_init(self, params):
            return {"count": torch.zeros(1)}

        def client_finish(self, params, local, run):
            return params, {"count": local.state["count"] + 1}

    loop = make_loop([1.0], Once())
    state = {}
    for count in (1, 2, 3):
        state = train_one(loop, [0], [0], state=state).state
        assert state["count"].item() == count


def test_what_does_not_travel_is_kept():
    loop = make_loop([1.0], KeepsV(), module=TwoWeights)
    # w + v = 0, y = 1: both move by 1/2
    update = train_one(loop, [0], [1])
    assert {name: tensor.item() for name, tensor in update.tensors.items()} == {"w": 1.5}
    assert {name: tensor.item() for name, tensor in update.kept.items()} == {"v": -0.5}
    assert update.nbytes == 8 + WEIGHT_NBYTES


def test_clients_that_never_average_keep_everything():
    update = train_one(make_loop([1.0], LocalOnly()), [0], [0])
    assert update.tensors == {}
    assert update.kept["w"].item() == 0.5
    assert update.nbytes == 0


def test_an_algorithm_may_give_back_the_very_tensors_it_was_given():
    class SendsAnchor(KeepsV):
        def client_finish(self, params, local, run):
            return local.anchor, local.state

    loop = make_loop([1.0], SendsAnchor(), module=TwoWeights)
    task = make_task(loop, [0], [1])
    (update,) = loop.train([task], Instructions(0))
    assert (update.tensors["w"].item(), update.kept["v"].item()) == (1, -1)
    assert set(task.params) == {"w", "v"}


def test_facts_about_the_run():
    runs = []

    class Notes(Algorithm):
        def client_finish(self, params, local, run):
            runs.append(run)
            return params, local.state

    loop = make_loop([1.0] * 5, Notes(), batch_size=2, max_epochs=2, optimizer__lr=0.25, lr=99.0)
    train_one(loop, [0, 1, 2, 3, 4], [0] * 5, lr_factor=0.5, weight=12.5)
    (run,) = runs
    assert (run.n_steps, run.lr, run.n_rows, run.weight) == (6, 0.125, 5, 12.5)


class WithBuffers(nn.Module):
    """A frozen weight, a trained one and a buffer."""

    def __init__(self):
        super().__init__()
        self.frozen = nn.Parameter(torch.tensor([2.0], dtype=torch.float64), requires_grad=False)
        self.w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
        self.register_buffer("passes", torch.zeros(1, dtype=torch.int64))

    def forward(self, X):
        self.passes += 1
        z = self.frozen * self.w * X[:, 0]
        return torch.stack([torch.zeros_like(z), z], dim=1)


def test_which_tensors_each_hook_sees():
    seen = {}

    class Notes(Algorithm):
        def client_init(self, params):
            seen["client_init"] = set(params)
            return {}

        def client_penalty(self, params, local):
            seen["client_penalty"] = set(params), set(local.anchor), params["w"].requires_grad
            return 0.0

        def client_correct(self, grads, params, local):
            seen["client_correct"] = (
                set(grads),
                set(params),
                params["w"].requires_grad,
                torch.is_grad_enabled(),
            )
            return grads

        def client_finish(self, params, local, run):
            seen["client_finish"] = set(params), set(local.anchor), params["w"].requires_grad
            return params, local.state

        def shared(self, names):
            seen["shared"] = set(names)
            return tuple(names)

    # 2 w x - y = 2: the gradient 2 x 2 moves w to -1
    update = train_one(make_loop([1.0], Notes(), module=WithBuffers), [0], [0])
    everything = {"frozen", "w", "passes"}
    assert seen == {
        "client_init": everything,
        "client_penalty": ({"w"}, everything, True),
        "client_correct": ({"w"}, {"w"}, False, False),
        "client_finish": (everything, everything, False),
        "shared": everything,
    }
    values = {name: tensor.item() for name, tensor in update.tensors.items()}
    assert values == {"w": -1.0, "passes": 1}  # what does not learn is not sent again


class UnusedWeight(OneWeight):
    def __init__(self):
        super().__init__()
        self.unused = nn.Parameter(torch.ones(1))


def test_parameters_without_a_gradient_are_not_corrected():
    loop = make_loop([1.0], Scaffold(), module=UnusedWeight)
    state = {"w": torch.zeros(1, dtype=torch.float64), "unused": torch.ones(1)}
    update = train_one(loop, [0], [0], server_state=state)
    assert update.tensors["w"].item() == 0.5
    assert update.tensors["unused"].item() == 1.0


@pytest.mark.parametrize("algorithm", [FedAvg(), LocalOnly(), Prox(), Scaffold(), KeepsV()], ids=repr)
def test_training_writes_nothing_to_what_it_is_given(algorithm):
    loop = make_loop([1.0, 1.0], algorithm, max_epochs=2, optimizer__momentum=0.9)
    own = copy.deepcopy(vars(algorithm))
    params = tensors_of(OneWeight())
    server, state = algorithm.server_init(params, None), algorithm.client_init(params)
    tasks = [make_task(loop, [row], [row], key=row, params=params, state=state) for row in (0, 1)]
    before = copy.deepcopy((server, state, params))
    train(loop, tasks, server_state=server)
    assert vars(algorithm) == own
    assert (server, state, params) == before
    for task in tasks:
        assert task.params == params
        assert task.state == state
