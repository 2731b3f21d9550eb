"""The loop engine on one-weight models whose steps can be worked out by hand.

The loss of a row is 1/2 (w x - y)^2 (see `tests.training.helpers`), w starts at 1, the rate is 1/2 and
batches are full where nothing else is said: with x = 1 and y = 0 every step halves w.
"""

import copy

import numpy as np
import pytest
import torch
from skorch import NeuralNetClassifier
from skorch.callbacks import Callback
from torch import nn

from fedrela_sk._update import WEIGHT_NBYTES
from fedrela_sk.algorithms import FedAvg, LocalOnly
from fedrela_sk.algorithms._base import Algorithm
from fedrela_sk.exceptions import ClientError, NetError, NotFiniteError
from fedrela_sk.training import tensors_of
from tests.training.helpers import OneWeight, make_loop, make_task, train, train_one

# ------------------------------------------------------------------------------------ plain steps


def test_one_step():
    loop = make_loop([1.0])
    update = train_one(loop, [0], [0], weight=7.0, key="north")
    assert update.client.key == "north"
    assert update.tensors["w"].tolist() == [0.5]
    assert (update.loss, update.n_steps, update.weight, update.notes) == (0.5, 1, 7.0, ())
    assert (update.kept, update.state) == ({}, {})
    assert update.nbytes == 8 + WEIGHT_NBYTES


def test_the_factor_of_the_round_scales_the_rate():
    loop = make_loop([1.0])
    for factor, w in ((0.5, 0.75), (1.0, 0.5), (2.0, 0.0)):
        params = {"w": torch.ones(1, dtype=torch.float64)}
        assert train_one(loop, [0], [0], lr_factor=factor, params=params).tensors["w"].item() == w


def test_the_factor_scales_the_rate_of_every_parameter_group():
    # w is in a group of rate 1/4, v in the one of rate 1/2
    loop = make_loop([1.0], module=TwoWeights, optimizer__param_groups=[("w", {"lr": 0.25})])
    update = train_one(loop, [0], [1], lr_factor=0.5)
    # output w + v = 0, label 1, gradient -1 for both
    assert (update.tensors["w"].item(), update.tensors["v"].item()) == (1 + 0.125, -1 + 0.25)


def test_batches_follow_each_other():
    # y = 0, 0: w = 1/2; then y = 1, 1: gradient -1/2, w = 3/4
    update = train_one(make_loop([1.0] * 4, batch_size=2), [0, 1, 2, 3], [0, 0, 1, 1])
    assert update.tensors["w"].item() == 0.75
    assert update.loss == (1 / 2 + 1 / 8) / 2
    assert update.n_steps == 2


def test_epochs_follow_each_other():
    update = train_one(make_loop([1.0], max_epochs=3), [0], [0])
    assert update.tensors["w"].item() == 1 / 8
    assert update.loss == pytest.approx((1 / 2 + 1 / 8 + 1 / 32) / 3)
    assert update.n_steps == 3


def test_the_loss_is_a_mean_over_rows_not_over_batches():
    update = train_one(make_loop([1.0] * 3, batch_size=2), [0, 1, 2], [0, 0, 0])
    assert update.tensors["w"].item() == 1 / 4
    assert update.loss == pytest.approx((2 * 1 / 2 + 1 / 8) / 3)


def test_a_client_trains_on_its_own_rows():
    # rows 1 and 2: the gradient is the mean of 2 (2 w - 1) = 2 and 3 (3 w - 0) = 9
    update = train_one(make_loop([1.0, 2.0, 3.0], lr=0.1), [1, 2], [1, 0])
    assert update.tensors["w"].item() == pytest.approx(1 - 0.55)


@pytest.mark.parametrize(
    ("weights", "class_weights", "w"),
    [
        # rows with y = 0 and y = 1: gradients 1 and 0
        (None, None, 0.75),
        ([3.0, 1.0], None, 0.625),
        (None, [3.0, 1.0], 0.625),
        ([1.0, 3.0], [3.0, 1.0], 0.75),
        ([1.0, 3.0], [0.0, 1.0], 1.0),
        ([0.0, 0.0], None, 1.0),
    ],
)
def test_row_and_class_weights_multiply(weights, class_weights, w):
    loop = make_loop([1.0, 1.0], weights=weights)
    update = train_one(loop, [0, 1], [0, 1], class_weights=class_weights)
    assert update.tensors["w"].item() == w


def test_weights_go_with_their_rows_through_shuffled_batches():
    # a row with x = 0 moves nothing; the row of weight 0 must not either, in whichever batch it lands
    weights = [5.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    X = [9.0, 0.0, 2.0, 0.0, 0.0, 0.0]
    loop = make_loop(X, weights=weights, batch_size=2, iterator_train__shuffle=True, max_epochs=5)
    update = train_one(loop, [1, 2, 3, 4, 5], [0, 1, 0, 0, 0])
    assert update.tensors["w"].item() == 1.0
    assert train_one(loop, [0, 1, 2, 3, 4], [0] * 5).tensors["w"].item() != 1.0


@pytest.mark.parametrize("optimizer", [torch.optim.SGD, torch.optim.Adam])
@pytest.mark.parametrize("criterion", [nn.CrossEntropyLoss, nn.NLLLoss])
def test_one_client_equals_skorchs_own_training(criterion, optimizer):
    stream = np.random.default_rng(0)
    X, y = stream.normal(size=(23, 3)), stream.integers(2, size=23)
    layers = [nn.Linear(3, 4).double(), nn.Tanh(), nn.Linear(4, 2).double()]
    module = nn.Sequential(*layers, *([nn.Softmax(dim=1)] if criterion is nn.NLLLoss else []))
    settings = {"criterion": criterion, "optimizer": optimizer, "batch_size": 5, "max_epochs": 3, "lr": 0.05}
    update = train_one(make_loop(X, module=module, **settings), np.arange(23), y)
    net = NeuralNetClassifier(module, train_split=None, verbose=0, **settings).initialize().partial_fit(X, y)
    for name, tensor in tensors_of(net.module_).items():
        assert torch.equal(update.tensors[name], tensor)
    losses = net.history[:, "train_loss"]
    assert update.loss == pytest.approx(np.mean(losses), rel=1e-12)


def test_updates_share_no_memory_with_anything():
    loop = make_loop([1.0, 1.0])
    task = make_task(loop, [0], [0])
    (first,) = loop.train(0, [task], {})
    train_one(loop, [1], [1], params={"w": torch.tensor([8.0])})
    loop.net.module_.w.data.fill_(5)
    assert first.tensors["w"].item() == 0.5
    assert task.params["w"].item() == 1.0


def test_clients_are_trained_when_asked_for():
    loop = make_loop([1.0])
    asked = []

    def tasks():
        for key in "abc":
            asked.append(key)
            yield make_task(loop, [0], [0], key=key)

    updates = loop.train(0, tasks(), {})
    assert asked == []
    assert next(updates).client.key == "a"
    assert asked == ["a"]


def test_units_of_work_change_no_result():
    loop = make_loop(np.linspace(0.1, 1.0, 20))
    params = {"w": torch.ones(1, dtype=torch.float64)}
    tasks = [make_task(loop, [k], [k % 2], key=k, params=params) for k in range(20)]
    units = loop.units(tasks)
    assert [task for unit in units for task in unit] == tasks
    assert [len(unit) for unit in units] == [10, 10]
    sizes = lambda n, n_workers: [len(unit) for unit in loop.units(tasks[:n], n_workers)]  # noqa: E731
    assert sizes(20, 2) == [10, 10]
    assert sizes(20, 3) == [7, 6, 7]
    assert sizes(11, 1) == [6, 5]
    assert sizes(3, 8) == [1, 1, 1]
    assert sizes(0, 2) == []
    together = [update for unit in units for update in loop.train_unit(3, unit, {}, 0.5)]
    loop.close()
    apart = train(loop, tasks, 3, lr_factor=0.5)
    assert [update.client.key for update in together] == list(apart)
    for update in together:
        assert same(update, apart[update.client.key])


# ----------------------------------------------------------------------------------------- hooks


class Prox(Algorithm):
    """FedProx: mu / 2 (w - anchor)^2 is added to the loss."""

    def __init__(self, mu=1.0):
        self.mu = mu

    def penalty(self, params, local):
        return 0.5 * self.mu * sum(((p - local.anchor[name]) ** 2).sum() for name, p in params.items())


class Scaffold(Algorithm):
    """SCAFFOLD's shape: corrected gradients, a control variate at each client and at the server."""

    def broadcast(self, server_state):
        return server_state

    def init_server(self, params, job=None):
        return {name: torch.zeros_like(tensor) for name, tensor in params.items()}

    init_client = init_server

    def correct(self, grads, params, local):
        return {name: grad - local.state[name] + local.server[name] for name, grad in grads.items()}

    def finish(self, params, local, run):
        new = {
            name: local.state[name] - local.server[name] + (local.anchor[name] - p) / (run.n_steps * run.lr)
            for name, p in params.items()
        }
        changes = {f"change/{name}": new[name] - local.state[name] for name in new}
        return params | changes, new


class TwoWeights(nn.Module):
    """Output (0, (w + v) x)."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
        self.v = nn.Parameter(torch.tensor([-1.0], dtype=torch.float64))

    def forward(self, X):
        z = (self.w + self.v) * X[:, 0]
        return torch.stack([torch.zeros_like(z), z], dim=1)


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
        def init_client(self, params):
            return {"count": torch.zeros(1)}

        def finish(self, params, local, run):
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
        def finish(self, params, local, run):
            return local.anchor, local.state

    loop = make_loop([1.0], SendsAnchor(), module=TwoWeights)
    task = make_task(loop, [0], [1])
    (update,) = loop.train(0, [task], {})
    assert (update.tensors["w"].item(), update.kept["v"].item()) == (1, -1)
    assert set(task.params) == {"w", "v"}


def test_facts_about_the_run():
    runs = []

    class Notes(Algorithm):
        def finish(self, params, local, run):
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
        def init_client(self, params):
            seen["init_client"] = set(params)
            return {}

        def penalty(self, params, local):
            seen["penalty"] = set(params), set(local.anchor), params["w"].requires_grad
            return 0.0

        def correct(self, grads, params, local):
            seen["correct"] = set(grads), set(params), params["w"].requires_grad, torch.is_grad_enabled()
            return grads

        def finish(self, params, local, run):
            seen["finish"] = set(params), set(local.anchor), params["w"].requires_grad
            return params, local.state

        def shared(self, names):
            seen["shared"] = set(names)
            return tuple(names)

    # 2 w x - y = 2: the gradient 2 x 2 moves w to -1
    update = train_one(make_loop([1.0], Notes(), module=WithBuffers), [0], [0])
    everything = {"frozen", "w", "passes"}
    assert seen == {
        "init_client": everything,
        "penalty": ({"w"}, everything, True),
        "correct": ({"w"}, {"w"}, False, False),
        "finish": (everything, everything, False),
        "shared": everything,
    }
    values = {name: tensor.item() for name, tensor in update.tensors.items()}
    assert values == {"frozen": 2.0, "w": -1.0, "passes": 1}


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
    server, state = algorithm.init_server(params, None), algorithm.init_client(params)
    tasks = [make_task(loop, [row], [row], key=row, params=params, state=state) for row in (0, 1)]
    before = copy.deepcopy((server, state, params))
    train(loop, tasks, server_state=server)
    assert vars(algorithm) == own
    assert (server, state, params) == before
    for task in tasks:
        assert task.params == params
        assert task.state == state


# ------------------------------------------------------------------------- fresh optimisers, streams


class NotesInGroup(torch.optim.SGD):
    """An optimiser that counts its steps in its parameter group, as some published ones do."""

    def step(self, closure=None):
        for group in self.param_groups:
            group["step"] = group.get("step", 0) + 1
            group["lr"] /= group["step"]
        return super().step(closure)


OPTIMIZERS = {
    "momentum": {"optimizer": torch.optim.SGD, "optimizer__momentum": 0.9, "optimizer__nesterov": True},
    "adagrad": {"optimizer": torch.optim.Adagrad},
    "adam": {"optimizer": torch.optim.Adam, "optimizer__amsgrad": True},
    "adamw": {"optimizer": torch.optim.AdamW},
    "nadam": {"optimizer": torch.optim.NAdam},
    "rmsprop": {"optimizer": torch.optim.RMSprop, "optimizer__momentum": 0.5, "optimizer__centered": True},
    "rprop": {"optimizer": torch.optim.Rprop},
    "asgd": {"optimizer": torch.optim.ASGD, "optimizer__t0": 1},
    "adadelta": {"optimizer": torch.optim.Adadelta},
    "lbfgs": {"optimizer": torch.optim.LBFGS, "optimizer__max_iter": 3, "optimizer__history_size": 2},
    "notes": {"optimizer": NotesInGroup, "optimizer__momentum": 0.9},
}


@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_optimisers_remember_no_other_client_and_no_earlier_round(kind):
    X = np.linspace(0.2, 1.0, 6)
    settings = OPTIMIZERS[kind] | {"batch_size": 2, "max_epochs": 2, "lr": 0.1}
    params = {"w": torch.ones(1, dtype=torch.float64)}

    def trained(loop, rows, round=0, factor=1.0):
        update = train_one(loop, rows, np.array(rows) % 2, round, lr_factor=factor, params=params)
        return update.tensors["w"]

    used = make_loop(X, **settings)
    for rows, round, factor in (
        ([0, 1, 2], 0, 1.0),
        ([3, 4, 5, 0], 0, 1.0),
        ([0, 1, 2], 1, 0.3),
        ([2, 5], 2, 1.0),
    ):
        fresh = trained(make_loop(X, **settings), rows, round, factor)
        assert torch.equal(trained(used, rows, round, factor), fresh)
        assert fresh.item() != 1.0


def test_momentum_by_hand():
    # velocities 1, 1/2 + 1/2; w = 1/2, 0
    update = train_one(make_loop([1.0], optimizer__momentum=0.5, max_epochs=2), [0], [0])
    assert update.tensors["w"].item() == 0.0


def test_an_optimiser_that_asks_twice_gets_penalty_and_correction_twice():
    # LBFGS evaluates its closure again and again; the loss that counts is the one before the step
    calls = []

    class Counts(Prox):
        def correct(self, grads, params, local):
            calls.append(params["w"].item())
            return grads

    loop = make_loop([1.0], Counts(0.5), optimizer=torch.optim.LBFGS, lr=1.0, optimizer__max_iter=10)
    update = train_one(loop, [0], [0])
    # 1/2 w^2 + 1/4 (w - 1)^2 is smallest at 1/3
    assert update.tensors["w"].item() == pytest.approx(1 / 3, abs=1e-6)
    assert update.loss == 0.5
    assert update.n_steps == 1
    assert len(calls) > 1


def messy_loop(**changed):
    """Shuffled batches, Dropout, BatchNorm and momentum, on twelve rows."""
    stream = np.random.default_rng(0)
    module = nn.Sequential(
        nn.Linear(3, 8).double(), nn.BatchNorm1d(8).double(), nn.Dropout(0.5), nn.Linear(8, 2).double()
    )
    with torch.no_grad():
        for p in module.parameters():
            p.copy_(torch.from_numpy(stream.normal(size=p.shape)))
    settings = {
        "criterion": nn.CrossEntropyLoss,
        "batch_size": 2,
        "iterator_train__shuffle": True,
        "max_epochs": 2,
    }
    settings |= {"optimizer__momentum": 0.9, "lr": 0.05}
    return make_loop(stream.normal(size=(12, 3)), module=module, **(settings | changed))


def messy_tasks(loop, params):
    parts = {"a": [0, 1, 2, 3, 4], "b": [5, 6, 7], "c": [8], "d": [9, 10, 11]}
    return [make_task(loop, rows, np.array(rows) % 2, key=key, params=params) for key, rows in parts.items()]


def same(update, other):
    """Whether two updates are bit for bit the same."""
    tensors = {**update.tensors, **update.kept}
    others = {**other.tensors, **other.kept}
    return (
        tensors.keys() == others.keys()
        and all(torch.equal(tensors[name], others[name]) for name in tensors)
        and (update.loss, update.n_steps, update.notes) == (other.loss, other.n_steps, other.notes)
    )


@pytest.mark.parametrize("order", [[3, 2, 1, 0], [1, 3, 0, 2]])
def test_the_order_of_clients_changes_no_update(order):
    loop = messy_loop()
    tasks = messy_tasks(loop, tensors_of(messy_loop().net.module_))
    straight = train(loop, tasks)
    turned = train(loop, [tasks[i] for i in order])
    assert list(turned) == [tasks[i].client.key for i in order]
    for key, update in straight.items():
        assert same(turned[key], update)


def test_what_is_drawn_is_a_function_of_seed_round_and_client():
    # Dropout alone: without shuffling nothing else is drawn
    settings = {"iterator_train__shuffle": False}
    loop = messy_loop(**settings)
    params = tensors_of(messy_loop().net.module_)
    rows, y = [0, 1, 2, 3], [0, 1, 0, 1]
    first = train_one(loop, rows, y, 3, key="a", params=params)
    torch.manual_seed(123)
    assert same(train_one(loop, rows, y, 3, key="a", params=params), first)
    assert not same(train_one(loop, rows, y, 4, key="a", params=params), first)
    assert not same(train_one(loop, rows, y, 3, key="b", params=params), first)
    assert not same(train_one(messy_loop(seed=1, **settings), rows, y, 3, key="a", params=params), first)


def test_batches_are_shuffled_by_seed_round_and_client():
    X = np.linspace(0.1, 1.0, 9)
    loop = make_loop(X, batch_size=2, iterator_train__shuffle=True)
    params = {"w": torch.ones(1, dtype=torch.float64)}

    def w(loop, round, key):
        return (
            train_one(loop, np.arange(9), np.arange(9) % 2, round, key=key, params=params).tensors["w"].item()
        )

    assert w(loop, 0, "a") == w(loop, 0, "a")
    other_seed = make_loop(X, batch_size=2, iterator_train__shuffle=True, seed=1)
    assert len({w(loop, 0, "a"), w(loop, 1, "a"), w(loop, 0, "b"), w(other_seed, 0, "a")}) == 4


def test_training_leaves_torchs_generator_as_it_was():
    loop = messy_loop()
    before = torch.get_rng_state()
    train(loop, messy_tasks(loop, tensors_of(loop.net.module_)))
    assert torch.equal(torch.get_rng_state(), before)


class NoisyLoss(nn.CrossEntropyLoss):
    def forward(self, output, y):
        return super().forward(output + torch.randn_like(output), y)


class NoisyStep(torch.optim.SGD):
    def step(self, closure=None):
        loss = super().step(closure)
        for p in self.param_groups[0]["params"]:
            p.data.add_(torch.randn_like(p))
        return loss


class NoisyNet(NeuralNetClassifier):
    def infer(self, x, **fit_params):
        return super().infer(x + torch.randn_like(x), **fit_params)


class NoisyCallback(Callback):
    def on_grad_computed(self, net, named_parameters, **kwargs):
        for _, p in named_parameters:
            p.grad.add_(torch.randn_like(p))


class NoisyGradient(Algorithm):
    def correct(self, grads, params, local):
        return {name: grad + torch.randn_like(grad) for name, grad in grads.items()}


@pytest.mark.parametrize(
    ("settings", "algorithm"),
    [
        ({"criterion": NoisyLoss}, FedAvg()),
        ({"optimizer": NoisyStep}, FedAvg()),
        ({"kind": NoisyNet}, FedAvg()),
        ({"callbacks": [NoisyCallback()]}, FedAvg()),
        ({}, NoisyGradient()),
    ],
    ids=["criterion", "optimizer", "net", "callback", "algorithm"],
)
def test_whatever_draws_draws_from_the_clients_stream(settings, algorithm):
    # the module is a plain layer, which draws nothing
    module = nn.Linear(1, 2).double()
    loop = make_loop([0.5, 1.0], algorithm, module=module, **({"criterion": nn.CrossEntropyLoss} | settings))
    params, before = tensors_of(module), torch.get_rng_state()
    first = train_one(loop, [0, 1], [0, 1], params=params)
    assert torch.equal(torch.get_rng_state(), before)
    torch.manual_seed(5)
    assert same(train_one(loop, [0, 1], [0, 1], params=params), first)
    assert not same(train_one(loop, [0, 1], [0, 1], params=params, key="b"), first)


def test_nothing_of_other_clients_enters_an_update():
    loop = messy_loop()
    params = {name: tensor.clone() for name, tensor in tensors_of(loop.net.module_).items()}
    expected = train(loop, messy_tasks(loop, params))["b"]
    alone = messy_loop()
    others = torch.ones(12, dtype=torch.bool)
    others[[5, 6, 7]] = False
    alone.data.X[others] = float("nan")
    assert same(train(alone, messy_tasks(alone, params)[1:2])["b"], expected)


# --------------------------------------------------------------------------------------- BatchNorm


def batch_norm_loop(n_rows, *, norm=True, **settings):
    """Standard rows x = 0, 1, 2, ... before one weight."""
    layers = [nn.BatchNorm1d(1).double()] if norm else []
    module = nn.Sequential(*layers, OneWeight())
    return make_loop(np.arange(float(n_rows)), module=module, **settings)


@pytest.mark.parametrize(("norm", "n_steps"), [(True, 2), (False, 3)])
def test_a_last_batch_of_one_row_is_merged_only_under_batch_norm(norm, n_steps):
    update = train_one(batch_norm_loop(9, norm=norm, batch_size=4), np.arange(9), [0] * 9)
    assert update.n_steps == n_steps


def test_running_statistics_follow_the_batches():
    update = train_one(batch_norm_loop(3), [0, 1, 2], [0, 1, 0])
    # momentum 0.1 from mean 0 and variance 1 towards mean 1 and unbiased variance 1
    assert update.tensors["0.running_mean"].item() == pytest.approx(0.1)
    assert update.tensors["0.running_var"].item() == pytest.approx(1.0)
    assert update.tensors["0.num_batches_tracked"].item() == 1


def test_a_client_of_one_row_trains_with_the_running_statistics():
    loop = batch_norm_loop(4, max_epochs=2)
    tasks = [make_task(loop, [2], [0], key="one"), make_task(loop, [0, 1, 2], [0, 1, 0], key="more")]
    updates = train(loop, tasks)
    one, more = updates["one"], updates["more"]
    assert one.notes == ("client 'one' has one row: BatchNorm in evaluation mode",)
    assert one.tensors["0.running_mean"].item() == 0.0
    assert one.tensors["0.num_batches_tracked"].item() == 0
    assert one.tensors["1.w"].item() != 1.0
    assert one.tensors["0.weight"].item() != 1.0
    # the next client's layers are in training mode again
    assert more.notes == ()
    assert more.tensors["0.num_batches_tracked"].item() == 2
    # the gradient of the first step: x = 2 is normalised to 2 / sqrt(1 + eps)
    x = 2 / (1 + 1e-5) ** 0.5
    once = train_one(batch_norm_loop(4), [2], [0], key="one")
    assert once.tensors["1.w"].item() == pytest.approx(1 - 0.5 * x * x)


def test_a_client_of_one_row_without_batch_norm_is_nothing_special():
    update = train_one(batch_norm_loop(4, norm=False), [1], [0])
    assert update.notes == ()
    assert update.tensors["0.w"].item() == 0.5


# ------------------------------------------------------------------------------------------ errors


@pytest.mark.parametrize(("x", "loss"), [(1e200, "inf"), (float("nan"), "nan")])
def test_a_loss_that_is_not_finite(x, loss):
    loop = make_loop([1.0, x])
    tasks = [make_task(loop, [0], [0], key="fine"), make_task(loop, [1], [0], key="north")]
    with pytest.raises(
        NotFiniteError,
        match=rf"The loss of client 'north' in round 5 is {loss}\. Lower the learning rate, scale.*"
        r"skorch\.callbacks\.GradientNormClipping",
    ):
        train(loop, tasks, round=5)


class MinusInfinity(nn.CrossEntropyLoss):
    def forward(self, output, y):
        return output[:, 1].sum() * 0 - float("inf")


def test_a_loss_of_minus_infinity_is_not_finite_either():
    loop = make_loop([1.0], criterion=MinusInfinity)
    with pytest.raises(NotFiniteError, match="The loss of client 'a' in round 0 is -inf"):
        train_one(loop, [0], [0])


def test_an_update_that_is_not_finite():
    # the loss is 5e299, the gradient 1e300, the step 1e310
    loop = make_loop([1e150], lr=1e10)
    with pytest.raises(
        NotFiniteError,
        match=r"The update of client 'a' in round 2 is not finite in 'w'\. Lower the learning rate",
    ):
        train_one(loop, [0], [0], round=2)


def test_what_an_algorithm_sends_is_checked_too():
    class SendsNan(Algorithm):
        def finish(self, params, local, run):
            return params | {"extra": torch.tensor([float("nan")])}, local.state

    with pytest.raises(NotFiniteError, match="not finite in 'extra'"):
        train_one(make_loop([1.0], SendsNan()), [0], [0])


class Fails(OneWeight):
    def forward(self, X):
        raise ZeroDivisionError("no reason")


def test_whatever_goes_wrong_names_client_round_and_cause():
    with pytest.raises(
        ClientError, match="Client 'a' failed in round 4: ZeroDivisionError: no reason"
    ) as caught:
        train_one(make_loop([1.0], module=Fails), [0], [0], round=4)
    assert isinstance(caught.value.__cause__, ZeroDivisionError)


def test_errors_about_a_client_go_up_as_they_are():
    class Refuses(Algorithm):
        def finish(self, params, local, run):
            raise ClientError("client 'a' does not want to")

    with pytest.raises(ClientError, match=r"^client 'a' does not want to$"):
        train_one(make_loop([1.0], Refuses()), [0], [0])


def test_a_net_that_does_not_fit_the_classes_names_the_client():
    loop = make_loop([1.0], n_classes=3)
    with pytest.raises(
        NetError, match=r"Client 'a', round 1: The module must return.*\(rows, 3\); got \(1, 2\)"
    ):
        train_one(loop, [0], [0], round=1)


def test_the_output_is_checked_once():
    loop = make_loop([1.0])
    train_one(loop, [0], [0])
    loop.n_classes = 3
    train_one(loop, [0], [0])
