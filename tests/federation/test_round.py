"""Rounds: who trains, how updates are aggregated, what the record says, and what happens without rows."""

import numpy as np
import pytest
import torch
from sklearn.base import BaseEstimator

from fedrela_sk._update import ClientUpdate
from fedrela_sk.algorithms import FedAvg, LocalOnly
from fedrela_sk.exceptions import ClientError, NetError, NotFiniteError, PartitionError
from fedrela_sk.federation.clients._counts import class_count, client_sizes
from fedrela_sk.federation.fitted._attributes import chosen_model
from fedrela_sk.federation.fitted._own_models import predict_alone
from fedrela_sk.federation.setup._validation import Validation
from fedrela_sk.training._posteriors import posteriors
from tests.federation.helpers import Logits, facts, make_conductor, make_net, make_rows, make_spec
from tests.training.nets import server_round

X, CODES = make_rows(30)


def three_clients():
    """Clients of 6, 9 and 15 rows."""
    return [make_spec(k, rows, k) for k, rows in enumerate(np.split(np.arange(30), [6, 15]))]


def run(simulation, state, n_rounds):
    for round in range(n_rounds):
        simulation.run_round(state, round)


class Drop(BaseEstimator):
    """Takes rows out of training: those of the clients whose number of rows is in `sizes`."""

    def __init__(self, sizes=(6,), only=()):
        self.sizes = sizes
        self.only = only

    def fit(self, Q, y):
        return self

    def relabel(self, Q, y, uniforms=None):
        keep = np.full(len(y), len(y) not in self.sizes)
        keep[list(self.only)] = False
        return y, keep


STALE = {"w": torch.tensor([-1.0]), "n": torch.tensor(0)}


def update(value, weight, spec):
    return ClientUpdate(spec, {"w": torch.tensor([value]), "n": torch.tensor(int(value))}, weight)


def test_the_server_folds_what_it_is_sent():
    a, b, _ = three_clients()
    params, state = server_round(
        FedAvg(), iter([update(1.0, 1, a), update(5.0, 3, b)]), STALE, {"s": 1}, facts
    )
    assert params["w"].item() == 4.0
    assert params["n"].item() == 5
    assert state == {"s": 1}


def test_updates_without_weight_cannot_be_averaged_and_the_round_is_named():
    simulation, state = make_conductor(X, CODES, three_clients(), client_weight=[0, 0, 0])
    with pytest.raises(ClientError, match=r"updates of round 3 could not be aggregated: .*client_weight"):
        simulation.run_round(state, 3)


def test_a_round_in_which_those_with_weight_are_absent_is_named_too():
    simulation, state = make_conductor(
        X, CODES, three_clients(), client_weight=[0, 0, 1], participation=0.34, seed=3
    )
    with pytest.raises(ClientError, match=r"updates of round \d could not be aggregated"):
        run(simulation, state, 8)


def test_a_record_says_what_happened():
    simulation, state = make_conductor(X, CODES, three_clients(), net=make_net(batch_size=4, max_epochs=2))
    simulation.run_round(state, 0)
    (record,) = state.history
    assert record.round == 0
    assert record.participants == (0, 1, 2)
    assert record.n_samples == 30
    assert record.n_steps == 2 * (2 + 3 + 4)
    assert np.isnan(record.valid_loss)
    assert np.isnan(record.valid_score)
    assert record.n_relabeled == 0
    assert record.relabeled_clients == ()
    assert record.notes == ()
    assert record.seconds > 0


def test_the_training_loss_is_the_mean_over_rows():
    simulation, state = make_conductor(X, CODES, three_clients())
    Q = posteriors(simulation.net, simulation.plan.data.X, 3)
    simulation.run_round(state, 0)
    # one full-batch step each: the loss is that of the weights that were sent
    expected = -np.log(Q[np.arange(30), CODES]).mean()
    assert state.history[0].train_loss == pytest.approx(expected, rel=1e-12)


def test_losses_and_participants_follow_the_order_in_which_updates_come():
    class Backwards:
        """An engine whose plan folds clients in another order, as chunks do."""

        def train(self, tasks, instructions):
            for task in reversed(tasks):
                yield ClientUpdate(task.client, dict(task.params), task.weight, loss=float(task.client.key))

    simulation, state = make_conductor(X, CODES, three_clients())
    Backwards.settings = simulation.engine.settings
    simulation.engine = Backwards()
    simulation.run_round(state, 0)
    assert state.history[0].participants == (2, 1, 0)
    assert state.history[0].train_loss == pytest.approx((0 * 6 + 1 * 9 + 2 * 15) / 30)


def test_only_those_with_rows_are_asked():
    specs = three_clients()
    specs.insert(1, make_spec(9, [], 3))
    for position, spec in enumerate(specs):
        specs[position] = make_spec(spec.key, spec.rows, position)
    simulation, state = make_conductor(X, CODES, specs)
    simulation.run_round(state, 0)
    assert state.history.empty_clients == (9,)
    assert state.history[0].participants == (0, 1, 2)


def test_the_share_of_empty_cells_is_over_clients_with_rows():
    codes = np.r_[np.zeros(6, int), np.ones(9, int), np.full(14, 2), 0]
    specs = [*three_clients(), make_spec(9, [], 3)]
    _, state = make_conductor(X, codes, specs)
    assert state.history.empty_cell_share == pytest.approx((2 + 2 + 1) / 9)


def test_cells_of_rows_that_count_nothing_are_empty():
    codes = np.r_[np.zeros(6, int), np.ones(9, int), np.full(14, 2), 0]
    weights = np.r_[np.ones(29), 0.0]
    _, state = make_conductor(X, codes, three_clients(), weights=weights)
    assert state.history.empty_cell_share == pytest.approx(6 / 9)


def test_a_client_whose_rows_are_all_dropped_trains_no_more():
    simulation, state = make_conductor(X, CODES, three_clients(), relabeler=Drop((6,)), first_relabel=1)
    run(simulation, state, 3)
    assert [record.participants for record in state.history] == [(0, 1, 2), (1, 2), (1, 2)]
    assert [record.n_samples for record in state.history] == [30, 24, 24]
    assert state.history[1].relabeled_clients == (0, 1, 2)
    assert [record.notes for record in state.history][1:] == [("client 0 has no row left",)] * 2
    assert state.clients.keep.tolist() == [False] * 6 + [True] * 24
    np.testing.assert_array_equal(client_sizes(simulation.plan, state.clients), [0, 9, 15])
    np.testing.assert_array_equal(
        class_count(simulation.plan, state.clients), np.bincount(CODES[6:], minlength=3)
    )


def test_dropped_rows_leave_training_weights_and_counts():
    dropping, state = make_conductor(
        X, CODES, three_clients(), relabeler=Drop((), only=(0, 1)), first_relabel=1, class_weight="balanced"
    )
    rows = np.flatnonzero(~np.isin(np.arange(30), [0, 1, 6, 7, 15, 16]))
    specs = [make_spec(s.key, s.rows[2:], s.position) for s in three_clients()]
    without, other = make_conductor(X, CODES, specs, class_weight="balanced")
    dropping.run_round(state, 1)
    without.run_round(other, 1)
    assert torch.equal(state.server.params["weight"], other.server.params["weight"])
    assert state.history[0].n_samples == len(rows)
    np.testing.assert_array_equal(client_sizes(dropping.plan, state.clients), [4, 7, 13])


def test_a_round_without_anyone_who_has_rows_leaves_the_model():
    simulation, state = make_conductor(
        X, CODES, three_clients(), relabeler=Drop((6, 9)), first_relabel=1, participation=0.34
    )
    idle = 0
    for round in range(12):
        before = {name: tensor.clone() for name, tensor in state.server.params.items()}
        simulation.run_round(state, round)
        record = state.history[-1]
        if record.participants == ():
            idle += 1
            assert all(torch.equal(before[name], state.server.params[name]) for name in before)
            assert np.isnan(record.train_loss)
            assert (record.n_samples, record.n_steps, record.bytes_up, record.bytes_down) == (0, 0, 0, 0)
            assert record.notes[0].endswith("has no row left")
    assert 0 < idle < 12


def test_no_row_left_anywhere_is_an_error_with_its_round():
    simulation, state = make_conductor(X, CODES, three_clients(), relabeler=Drop((6, 9, 15)), first_relabel=1)
    simulation.run_round(state, 0)
    with pytest.raises(PartitionError, match=r"All clients are empty in round 1: relabeling .*mask"):
        simulation.run_round(state, 1)


def test_rows_come_back_at_a_refresh():
    class DropOnce(Drop):
        calls = 0

        def relabel(self, Q, y, uniforms=None):
            type(self).calls += 1
            return y, np.full(len(y), type(self).calls > 3 or len(y) != 6)

    simulation, state = make_conductor(
        X, CODES, three_clients(), relabeler=DropOnce(), first_relabel=1, relabel_every=2
    )
    run(simulation, state, 4)
    assert [record.participants for record in state.history] == [(0, 1, 2), (1, 2), (1, 2), (0, 1, 2)]


def test_validation_posteriors_that_are_not_finite_name_the_round():
    rows = torch.tensor([[0.0, 0, 0], [1e308, 1e308, 1e308]], dtype=torch.float64)
    simulation, state = make_conductor(
        X, CODES, three_clients(), validation=Validation(rows, np.array([0, 1]))
    )
    state.server.params["weight"] *= 1e3
    with pytest.raises(
        NotFiniteError, match=r"posterior of validation row 1 is not finite after round 2.*Scale"
    ):
        simulation.run_round(state, 2)


def test_errors_of_a_client_are_not_wrapped_twice():
    simulation, state = make_conductor(X, CODES, three_clients(), net=make_net(lr=1e308, max_epochs=3))
    with pytest.raises(NotFiniteError, match=r"client 0 in round 0"):
        run(simulation, state, 2)
    simulation, state = make_conductor(X, CODES, three_clients(), net=make_net(module__n_classes=4))
    with pytest.raises(NetError, match=r"Client 0, round 0: .*\(rows, 3\); got \(6, 4\)"):
        simulation.run_round(state, 0)


def test_what_stays_at_a_client_is_given_back_to_it():
    simulation, state = make_conductor(X, CODES, three_clients(), algorithm=LocalOnly())
    start = state.server.params["weight"].clone()
    simulation.run_round(state, 0)
    first = {position: kept["weight"].clone() for position, kept in state.clients.kept.items()}
    assert set(first) == {0, 1, 2}
    assert torch.equal(state.server.params["weight"], start)
    simulation.run_round(state, 1)
    tasks = simulation.tasks_of(state, simulation.present, 2)
    for task in tasks:
        assert task.params["weight"] is state.clients.kept[task.client.position]["weight"]
        assert not torch.equal(task.params["weight"], first[task.client.position])


def test_state_of_an_algorithm_is_kept_and_never_sent():
    class Counts(FedAvg):
        """Every client counts its rounds."""

        def client_init(self, params):
            return {"rounds": torch.zeros(())}

        def client_finish(self, params, local, run):
            return params, {"rounds": local.state["rounds"] + 1}

    simulation, state = make_conductor(X, CODES, three_clients(), algorithm=Counts())
    plain, other = make_conductor(X, CODES, three_clients())
    run(simulation, state, 3)
    run(plain, other, 3)
    assert [state.clients.method[position]["rounds"].item() for position in range(3)] == [3.0, 3.0, 3.0]
    assert torch.equal(state.server.params["weight"], other.server.params["weight"])
    assert state.history.bytes_up == other.history.bytes_up


def linear(weight):
    return {"weight": torch.full((2, 1), 0.0).add_(torch.tensor([[0.0], [weight]])), "bias": torch.zeros(2)}


def test_prediction_without_a_global_model():
    net = make_net(
        Logits, module__n_features=1, module__n_classes=2, module__dtype=torch.float32
    ).initialize()
    rows = torch.ones(4, 1)
    kept = {0: linear(np.log(3)), 2: linear(np.log(9))}
    sizes = np.array([1.0, 0.0, 3.0, 4.0])  # client 3 never trained: it predicts with what all start from
    positions = np.array([0, 2, -1, 1])
    Q = predict_alone(net, linear(0.0), kept, rows, positions, 2, sizes=sizes)
    mean = (1 * 0.75 + 3 * 0.9 + 4 * 0.5) / 8
    np.testing.assert_allclose(Q[:, 1], [0.75, 0.9, mean, mean], rtol=1e-6)
    np.testing.assert_allclose(Q.sum(1), 1, rtol=1e-12)


def test_the_best_round_is_the_earliest_of_equals_and_keeps_its_own_weights():
    rows = torch.from_numpy(X)
    simulation, state = make_conductor(
        X, CODES, three_clients(), validation=Validation(rows, CODES), select="best_validation"
    )
    models = []
    for round in range(5):
        simulation.run_round(state, round)
        models.append({name: tensor.clone() for name, tensor in state.server.params.items()})
    scores = state.history.column("valid_score")
    best = int(np.argmax(scores))
    params, kept = chosen_model(simulation, state)
    assert torch.equal(params["weight"], models[best]["weight"])
    assert kept == {}
    assert state.history.notes == []
